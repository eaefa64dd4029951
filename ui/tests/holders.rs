//! Who else holds the card: named before a run with the command that frees it, offered back after it, and looked for only
//! while nothing runs.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Shown, carry_out, looked_at, show};
use egui::Ui;
use egui_kittest::{Harness, kittest::Queryable};
use tunesmith_lab::fit::{HolderNote, remember};
use tunesmith_probe::testing::machines;
use tunesmith_protocol::{Notice, RunStatus, TaskWork};
use tunesmith_ui::{
    commands::{Command, Commands},
    pages::{self, holders},
    state::{Page, State},
};

fn holders_page(state: &State, _view: &mut (), ui: &mut Ui, out: &mut Commands) {
    holders::holders_ui(state, ui, out);
}

fn page<'a>(state: State) -> Harness<'a, Shown<()>> {
    show(state, holders_page, [900.0, 900.0], true, false)
}

fn ollama() -> HolderNote {
    HolderNote {
        name: "Ollama".to_owned(),
        pid: 4711,
        vram_bytes: 5 << 30,
        pci: "0000:03:00.0".to_owned(),
        stop: Some("sudo systemctl stop ollama".to_owned()),
        start: Some("sudo systemctl start ollama".to_owned()),
        note: None,
    }
}

#[test]
fn a_holder_is_named_with_the_command_that_frees_the_card() {
    let mut state = State::for_tests();
    state.pages.holders.now = vec![ollama()];
    let mut harness = page(state);
    harness.get_by_label("Ollama holds 5.0 GiB of the card");
    harness.get_by_label("sudo systemctl stop ollama");
    harness.get_by_label("Copy the command").click();
    harness.run_steps(2);
    let asked = harness.state_mut().asked.pop();
    assert!(matches!(asked, Some(Command::Copy { text, .. }) if text == "sudo systemctl stop ollama"));
}

#[test]
fn a_program_that_nobody_knows_is_named_all_the_same() {
    let mut state = State::for_tests();
    state.pages.holders.now = vec![HolderNote {
        name: "mystery".to_owned(),
        stop: None,
        start: None,
        ..ollama()
    }];
    let harness = page(state);
    harness.get_by_label("mystery holds 5.0 GiB of the card");
    harness.get_by_label_contains("close it as you usually do");
}

#[test]
fn nobody_is_looked_for_while_a_task_runs_or_where_no_card_is() {
    let home = tempfile::tempdir().unwrap();
    let mut state = looked_at(&machines::rx_7900_xtx(), home.path());
    state.page = Page::Compare;
    state.tasks.begin(TaskWork::Report { run: "r".to_owned() }, 0.0);
    assert!(holders::needs(&mut state).is_none());
    let mut without = looked_at(&machines::no_gpu(), home.path());
    without.page = Page::Compare;
    assert!(holders::needs(&mut without).is_none());
}

#[test]
fn one_that_was_stopped_for_a_run_is_offered_back_after_it() {
    let home = tempfile::tempdir().unwrap();
    let machine = machines::rx_7900_xtx();
    let mut state = looked_at(&machine, home.path());
    // It was there before the run, and the user stopped it.
    remember(&state.folders, &[ollama()]).unwrap();
    let task = state.tasks.begin(TaskWork::Resume { run: "r".to_owned() }, 0.0);
    let ended = Notice::Ended {
        task,
        status: RunStatus::Ok,
        run: None,
        result: serde_json::Value::Null,
        failure: None,
        last_lines: Vec::new(),
    };
    assert_eq!(state.tasks.apply(ended, 1.0), Some(task));
    pages::task_ended(&mut state, task);
    state.page = Page::Live;
    holders::needs(&mut state).unwrap().run()(&mut state);
    assert!(holders::needs(&mut state).is_none(), "once is enough");
    let mut harness = page(state);
    harness.get_by_label("Ollama held the card before and is gone now");
    harness.get_by_label("sudo systemctl start ollama");
    harness.get_by_label("Close this").click();
    harness.run_steps(2);
    carry_out(harness.state_mut());
    harness.run_steps(2);
    assert!(harness.query_by_label("Stopped before the run").is_none());
}
