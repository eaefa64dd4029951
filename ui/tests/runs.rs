//! The page of the runs: the list, one run in full, deleting and having back, comparing.

#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, path::Path};

use common::{Opened, Shown, open, settle, show};
use egui::{Key, Modifiers, accesskit::Role};
use egui_kittest::{Harness, kittest::Queryable};
use jiff::tz::TimeZone;
use tunesmith_lab::{
    recipe::Recipe,
    run::{LiveRun, lines},
    testing::{TestRun, write_checkpoint},
};
use tunesmith_protocol::{RunStatus, TaskWork};
use tunesmith_setup::Folders;
use tunesmith_ui::{
    commands::Command,
    pages::runs::{self, RunsView},
    state::{Page, State},
};

fn run(day: u32) -> TestRun {
    TestRun::new(&format!("2026-01-{day:02}T12:30:00Z"))
}

/// An app on the page of the runs, with these in its home.
fn opened<'a>(write: impl FnOnce(&Path)) -> Opened<'a> {
    let home = tempfile::tempdir().unwrap();
    write(&Folders::all_under(home.path()).runs());
    let mut opened = open(home);
    // Tall enough for all of it: what is scrolled out of sight has no name.
    opened.harness.set_size(egui::vec2(1280.0, 3000.0));
    opened.harness.step();
    opened.state().saved.welcomed = true;
    opened.state().go(Page::Runs);
    settle(&mut opened);
    opened
}

fn click(opened: &mut Opened<'_>, label: &str) {
    opened.harness.get_by_label(label).click();
    opened.harness.step();
    settle(opened);
}

fn ids(opened: &mut Opened<'_>) -> Vec<String> {
    let list = &opened.state().pages.runs.list;
    list.shown().map(|line| line.id.clone()).collect()
}

fn on_disk(opened: &Opened<'_>) -> usize {
    fs::read_dir(Folders::all_under(opened.home.path()).runs())
        .unwrap()
        .count()
}

/// The page alone, with these runs in a folder; what it asks for is kept and not done.
fn page<'a>(write: impl FnOnce(&Path), change: impl FnOnce(&mut State)) -> Harness<'a, Shown<RunsView>> {
    let home = tempfile::tempdir().unwrap();
    write(home.path());
    let mut state = State::for_tests();
    let lines = lines(home.path(), &[]).unwrap();
    state.pages.runs.take(Ok(lines), TimeZone::UTC);
    change(&mut state);
    // What is looked at or compared is read while the folder is there.
    while let Some(work) = runs::needs(&mut state) {
        work.run()(&mut state);
    }
    show(state, runs::runs_ui, [1280.0, 820.0], true, false)
}

#[test]
fn an_empty_page_offers_the_training_that_fills_it() {
    let mut opened = opened(|_| {});
    opened.harness.get_by_label("No run yet");
    click(&mut opened, "Fine-tune a model");
    assert_eq!(opened.state().page, Page::Tune);
}

#[test]
fn every_folder_is_a_row_and_a_failure_tells_its_reason() {
    let mut opened = opened(|runs| {
        run(1).matches(3, 59).write(runs);
        run(2).recipe("smoke").status(RunStatus::Oom).steps(7).write(runs);
        fs::create_dir_all(runs.join("20260103-123000-broken")).unwrap();
    });
    opened.harness.get_by_label("3 runs; the best gained 56.0 points");
    assert_eq!(opened.harness.query_all_by_role(Role::CheckBox).count(), 4);
    click(&mut opened, "Look at smoke 01-02 12:30");
    opened
        .harness
        .get_by_label_contains("it ended as oom; no adapter was saved");
    opened.harness.get_by_label("What went wrong");
    click(&mut opened, "Look at 20260103-123000-broken 01-03 12:30");
    opened.harness.get_by_label("This folder cannot be read as a run");
}

#[test]
fn rows_are_ordered_by_their_headings_and_filtered_by_words_and_status() {
    let mut opened = opened(|runs| {
        run(1).tokens_per_sec(300.0).write(runs);
        run(2).tokens_per_sec(100.0).write(runs);
        run(3)
            .recipe("smoke")
            .status(RunStatus::Cancelled)
            .steps(9)
            .write(runs);
    });
    let days = |opened: &mut Opened<'_>| -> Vec<String> {
        ids(opened).iter().map(|id| id[6..8].to_owned()).collect()
    };
    assert_eq!(days(&mut opened), ["03", "02", "01"]);
    click(&mut opened, "Order by Tokens/s");
    click(&mut opened, "Order by Tokens/s");
    assert_eq!(days(&mut opened)[..1], ["02"]);
    click(&mut opened, "Show only runs that are cancelled");
    assert_eq!(days(&mut opened), ["03"]);
    click(&mut opened, "Show only runs that are cancelled");
    opened
        .harness
        .get_by_role_and_label(Role::TextInput, "Filter")
        .focus();
    opened.harness.step();
    opened
        .harness
        .get_by_role_and_label(Role::TextInput, "Filter")
        .type_text("nobody");
    opened.harness.step();
    settle(&mut opened);
    opened.harness.get_by_label("No run is like that");
    click(&mut opened, "Show all runs");
    assert_eq!(ids(&mut opened).len(), 3);
}

#[test]
fn a_heading_can_be_reached_and_pressed_with_the_keyboard() {
    let mut opened = opened(|runs| {
        run(1).tokens_per_sec(300.0).write(runs);
        run(2).tokens_per_sec(100.0).write(runs);
    });
    opened.harness.get_by_label("Order by Tokens/s").focus();
    opened.harness.step();
    opened.harness.key_press(Key::Enter);
    opened.harness.step();
    settle(&mut opened);
    assert!(ids(&mut opened)[0].starts_with("20260101"));
}

#[test]
fn what_is_deleted_leaves_the_folder_and_comes_back() {
    let mut opened = opened(|runs| {
        for day in 1..=3 {
            run(day).write(runs);
        }
    });
    let before = ids(&mut opened);
    click(&mut opened, "Choose quickstart 01-01 12:30");
    click(&mut opened, "Choose quickstart 01-02 12:30");
    click(&mut opened, "Delete 2 runs");
    assert_eq!((on_disk(&opened), ids(&mut opened).len()), (1, 1));
    opened.harness.get_by_label("Deleted 2 runs");
    // The strip stays however long nobody minds it.
    opened.harness.run_steps(5);
    click(&mut opened, "Undo");
    assert_eq!(on_disk(&opened), 3);
    assert_eq!(ids(&mut opened), before);
    assert!(opened.harness.query_by_label("Deleted 2 runs").is_none());
}

#[test]
fn ctrl_z_has_back_what_the_key_delete_took_and_dismissing_ends_that() {
    let mut opened = opened(|runs| {
        run(1).write(runs);
        run(2).write(runs);
    });
    click(&mut opened, "Choose quickstart 01-02 12:30");
    opened.harness.key_press(Key::Delete);
    opened.harness.step();
    settle(&mut opened);
    assert_eq!(on_disk(&opened), 1);
    opened.harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    opened.harness.step();
    settle(&mut opened);
    assert_eq!(on_disk(&opened), 2);
    click(&mut opened, "Look at quickstart 01-01 12:30");
    click(&mut opened, "Delete");
    opened.harness.get_by_label("Deleted 1 run");
    click(&mut opened, "Dismiss");
    opened.harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    opened.harness.step();
    settle(&mut opened);
    assert_eq!(on_disk(&opened), 1);
}

#[test]
fn a_run_that_goes_on_is_not_deleted_and_says_so() {
    let mut live = None;
    let mut opened = opened(|runs| {
        fs::create_dir_all(runs).unwrap();
        live = Some(LiveRun::create(runs, &Recipe::load("smoke").unwrap(), "0123456789").unwrap());
    });
    click(&mut opened, "Choose all runs shown");
    click(&mut opened, "Delete 1 run");
    assert_eq!(on_disk(&opened), 1);
    let told = opened
        .state()
        .toasts
        .iter()
        .any(|toast| toast.text.contains("is going on"));
    assert!(told, "{:?}", opened.state().toasts);
    drop(live);
}

#[test]
fn runs_that_others_made_appear_on_refresh() {
    let mut opened = opened(|runs| {
        run(1).write(runs);
    });
    run(2).write(&Folders::all_under(opened.home.path()).runs());
    opened.harness.key_press(Key::F5);
    opened.harness.step();
    settle(&mut opened);
    assert_eq!(ids(&mut opened).len(), 2);
    run(3).write(&Folders::all_under(opened.home.path()).runs());
    opened.state().go(Page::Glossary);
    settle(&mut opened);
    opened.state().go(Page::Runs);
    settle(&mut opened);
    assert_eq!(ids(&mut opened).len(), 3, "shown again is read again");
}

#[test]
fn two_runs_are_laid_over_each_other_with_what_differs() {
    let mut opened = opened(|runs| {
        run(1).config_hash("aaaa").tokens_per_sec(400.0).write(runs);
        run(2).config_hash("bbbb").recipe("smoke").steps(20).write(runs);
    });
    click(&mut opened, "Choose quickstart 01-01 12:30");
    click(&mut opened, "Choose smoke 01-02 12:30");
    opened.harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    opened.harness.step();
    settle(&mut opened);
    opened.harness.get_by_label("2 runs compared");
    opened.harness.get_by_label("chart of loss");
    opened.harness.get_by_label("chart of speed");
    opened
        .harness
        .get_by_label_contains("a single run each, so nothing can be said about noise");
    opened.harness.get_by_label("train.steps");
    click(&mut opened, "Close the comparison");
    assert!(opened.harness.query_by_label("chart of loss").is_none());
}

#[test]
fn repeats_let_a_difference_be_called_one() {
    let mut opened = opened(|runs| {
        for (day, hash, speed) in [
            (1, "aaaa", 400.0),
            (2, "aaaa", 404.0),
            (3, "bbbb", 600.0),
            (4, "bbbb", 606.0),
        ] {
            run(day).config_hash(hash).tokens_per_sec(speed).write(runs);
        }
    });
    click(&mut opened, "Choose quickstart 01-01 12:30");
    click(&mut opened, "Choose quickstart 01-03 12:30");
    click(&mut opened, "Compare 2 runs");
    opened
        .harness
        .get_by_label_contains("beyond the noise of 2 and 2 runs");
}

#[test]
fn a_point_of_the_chart_leads_to_its_run() {
    let mut harness = page(
        |runs| {
            run(1)
                .config_hash("aaaa")
                .peak_bytes(2 << 30)
                .tokens_per_sec(400.0)
                .write(runs);
            run(2)
                .config_hash("bbbb")
                .recipe("smoke")
                .peak_bytes(6 << 30)
                .tokens_per_sec(900.0)
                .write(runs);
        },
        |_| {},
    );
    harness.step();
    harness.get_by_label_contains("smoke: ").click();
    harness.run_steps(2);
    let mut state = State::for_tests();
    for command in std::mem::take(&mut harness.state_mut().asked) {
        if let Command::Do(action) = command {
            (action.change)(&mut state);
        }
    }
    assert!(
        state
            .pages
            .runs
            .open
            .id
            .as_ref()
            .is_some_and(|id| id.contains("smoke"))
    );
}

#[test]
fn a_run_that_was_cut_short_can_go_on() {
    let mut harness = page(
        |runs| {
            let folder = run(1).status(RunStatus::Cancelled).steps(50).write(runs);
            write_checkpoint(&folder, 40);
        },
        |state| {
            let id = state.pages.runs.list.lines()[0].id.clone();
            state.pages.runs.open.look(Some(id));
        },
    );
    harness.step();
    harness.get_by_label("Resume").click();
    harness.run_steps(2);
    let started = harness.state().asked.iter().any(|command| {
        matches!(command, Command::Start(work) if matches!(&**work, TaskWork::Resume { run } if run.contains("quickstart")))
    });
    assert!(started);
}

#[test]
fn nothing_overlaps_or_is_lost_in_a_small_window() {
    let home = tempfile::tempdir().unwrap();
    for day in 1..=4 {
        run(day).write(home.path());
    }
    let mut state = State::for_tests();
    state
        .pages
        .runs
        .take(Ok(lines(home.path(), &[]).unwrap()), TimeZone::UTC);
    let mut harness = show(state, runs::runs_ui, [512.0, 320.0], true, false);
    harness.run_steps(2);
    harness.get_by_label("Order by Score");
}

/// Six runs of two recipes, one of them repeated, one that ran out of memory, one that was stopped.
fn some(runs: &Path) {
    let gib = |tenths: u64| tenths * (1 << 30) / 10;
    let sft = |day: u32| {
        run(day)
            .recipe("sft-8gib")
            .device("cuda:0")
            .config_hash("beef0001")
            .peak_bytes(gib(71))
    };
    run(3).matches(3, 62).write(runs);
    run(4)
        .recipe("smoke")
        .config_hash("feed0002")
        .steps(20)
        .without_scores()
        .peak_bytes(gib(9))
        .write(runs);
    sft(5).status(RunStatus::Oom).steps(7).write(runs);
    sft(6)
        .tokens_per_sec(1_430.0)
        .last_loss(0.31)
        .matches(3, 71)
        .write(runs);
    sft(7)
        .tokens_per_sec(1_470.0)
        .last_loss(0.32)
        .matches(3, 69)
        .write(runs);
    let folder = run(8)
        .recipe("sft-4gib")
        .device("cuda:0")
        .config_hash("cafe0003")
        .tokens_per_sec(910.0);
    let folder = folder
        .peak_bytes(gib(37))
        .last_loss(0.4)
        .status(RunStatus::Cancelled)
        .steps(50)
        .write(runs);
    write_checkpoint(&folder, 40);
}

/// The page with some of those chosen or looked at, in this size.
fn pictured<'a>(
    chosen: &[&str],
    open: Option<&str>,
    size: [f32; 2],
    dark: bool,
) -> Harness<'a, Shown<RunsView>> {
    let home = tempfile::tempdir().unwrap();
    some(home.path());
    let mut state = State::for_tests();
    state
        .pages
        .runs
        .take(Ok(lines(home.path(), &[]).unwrap()), TimeZone::UTC);
    let ids: Vec<String> = state
        .pages
        .runs
        .list
        .lines()
        .iter()
        .map(|line| line.id.clone())
        .collect();
    let id = |part: &str| ids.iter().find(|id| id.contains(part)).unwrap().clone();
    state.pages.runs.open.look(open.map(id));
    state.pages.runs.compared.shown = !chosen.is_empty();
    for part in chosen {
        state.pages.runs.list.choose(&id(part), true);
    }
    state
        .pages
        .runs
        .take(Ok(state.pages.runs.list.lines().to_vec()), TimeZone::UTC);
    while let Some(work) = runs::needs(&mut state) {
        work.run()(&mut state);
    }
    let mut harness = show(state, runs::runs_ui, size, dark, true);
    harness.run_steps(4);
    harness
}

#[test]
fn pictures_of_the_list_and_of_a_comparison() {
    let mut results = egui_kittest::SnapshotResults::new();
    for (name, dark) in [("runs-dark", true), ("runs-light", false)] {
        let mut harness = pictured(&["smoke", "0106", "0108"], None, [1280.0, 820.0], dark);
        harness.snapshot(name);
        results.extend_harness(&mut harness);
    }
}
