//! The page that says what the words mean.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Shown, open, show};
use egui::Key;
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use tunesmith_ui::{
    pages::glossary::{GlossaryView, glossary_ui},
    state::{Page, State},
};

fn page<'a>(term: Option<&'static str>) -> Harness<'a, Shown<GlossaryView>> {
    let mut state = State::for_tests();
    state.glossary_term = term;
    let mut harness = show(state, glossary_ui, [1280.0, 820.0], true, false);
    harness.run_ok();
    harness
}

fn typed(harness: &mut Harness<'_, Shown<GlossaryView>>, text: &str) {
    harness.event(egui::Event::Text(text.to_owned()));
    harness.run_ok();
}

#[test]
fn typing_finds_words_at_once() {
    let mut harness = page(None);
    harness.get_by_label("adapter");
    typed(&mut harness, "visible_devices");
    harness.get_by_label("ROCR_VISIBLE_DEVICES");
    assert!(harness.query_by_label("adapter").is_none());
    typed(&mut harness, "zzz");
    harness.get_by_label("Nothing found");
    harness.get_by_label("Show all words").click();
    harness.run_ok();
    harness.get_by_label("adapter");
}

#[test]
fn a_term_that_was_asked_for_is_pointed_out_and_in_view() {
    let mut harness = page(Some("VRAM"));
    let place = harness.get_by_label("› VRAM").rect();
    assert!(place.top() > 0.0 && place.bottom() < 820.0, "{place:?}");
    // Asked for by another of its names, from elsewhere.
    harness.state_mut().state.glossary_term = Some("grad_norm");
    harness.run_ok();
    let place = harness.get_by_label("› gradient norm").rect();
    assert!(place.top() > 0.0 && place.bottom() < 820.0, "{place:?}");
    assert!(harness.query_by_label("› VRAM").is_none());
}

#[test]
fn arrows_walk_through_what_was_found_and_escape_shows_everything() {
    let mut harness = page(None);
    typed(&mut harness, "visible_devices");
    harness.key_press(Key::ArrowDown);
    harness.run_ok();
    harness.key_press(Key::ArrowDown);
    harness.run_ok();
    assert!(harness.query_by_label_contains("›").is_some());
    harness.key_press(Key::Escape);
    harness.run_ok();
    harness.get_by_label("adapter");
    assert!(harness.query_by_label_contains("›").is_none());
}

#[test]
fn subjects_narrow_the_list() {
    let mut harness = page(None);
    harness.get_by_label("Card").click();
    harness.run_ok();
    harness.get_by_label("VRAM");
    assert!(harness.query_by_label("learning rate").is_none());
}

#[test]
fn f1_opens_it_with_the_field_ready() {
    let mut opened = open(tempfile::tempdir().unwrap());
    opened.harness.run_ok();
    opened.harness.key_press(Key::F1);
    opened.harness.run_ok();
    assert_eq!(opened.state().page, Page::Glossary);
    opened.harness.event(egui::Event::Text("pareto".to_owned()));
    opened.harness.run_ok();
    opened.harness.get_by_label("Pareto frontier");
    assert!(opened.harness.query_by_label("adapter").is_none());
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    for dark in [true, false] {
        let mut state = State::for_tests();
        state.glossary_term = Some("gfx target");
        let mut harness = show(state, glossary_ui, [1280.0, 820.0], dark, true);
        harness.run_ok();
        results.add(harness.try_snapshot(if dark { "glossary-dark" } else { "glossary-light" }));
    }
}
