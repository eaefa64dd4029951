//! The page that greets.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Shown, carry_out, open, show};
use egui::{Key, Modifiers, Ui};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use tunesmith_ui::{
    commands::{Command, Commands},
    pages::welcome::welcome_ui,
    saved::ThemeWish,
    state::{Page, State},
};

fn welcome(state: &State, _view: &mut (), ui: &mut Ui, out: &mut Commands) {
    welcome_ui(state, ui, out);
}

fn page<'a>() -> Harness<'a, Shown<()>> {
    let mut harness = show(State::for_tests(), welcome, [1280.0, 900.0], true, false);
    harness.run_ok();
    harness
}

#[test]
fn the_button_and_its_key_lead_to_the_card() {
    for by_key in [true, false] {
        let mut harness = page();
        if by_key {
            harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
        } else {
            harness.get_by_label("Look at my card").click();
        }
        harness.run_ok();
        carry_out(harness.state_mut());
        let state = &harness.state().state;
        assert!(state.saved.welcomed);
        assert_eq!(state.page, Page::Card);
    }
}

#[test]
fn skipping_leads_to_where_one_was() {
    for by_key in [true, false] {
        let mut harness = page();
        harness.state_mut().state.saved.page = Page::Settings;
        if by_key {
            harness.key_press(Key::Escape);
        } else {
            harness.get_by_label("Skip").click();
        }
        harness.run_ok();
        carry_out(harness.state_mut());
        let state = &harness.state().state;
        assert!(state.saved.welcomed);
        assert_eq!(state.page, Page::Settings);
    }
}

#[test]
fn the_look_can_be_chosen_and_what_is_promised_is_told() {
    let mut harness = page();
    harness.get_by_label("Downloads nothing");
    harness.get_by_label("Sends nothing");
    harness.get_by_label("Light").click();
    harness.run_ok();
    assert!(matches!(
        harness.state().asked.as_slice(),
        [Command::Theme(ThemeWish::Light)]
    ));
}

#[test]
fn it_greets_once() {
    let mut opened = open(tempfile::tempdir().unwrap());
    opened.harness.run_ok();
    opened.harness.get_by_label("Look at my card").click();
    opened.harness.run_ok();
    assert_eq!(opened.state().page, Page::Card);
    opened.app().store();
    let common::Opened { harness, home } = opened;
    drop(harness);
    let mut again = open(home);
    again.harness.run_ok();
    assert_eq!(again.state().page, Page::Card);
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    for dark in [true, false] {
        let mut harness = show(State::for_tests(), welcome, [1280.0, 820.0], dark, true);
        harness.run_ok();
        results.add(harness.try_snapshot(if dark { "welcome-dark" } else { "welcome-light" }));
    }
}
