//! The page for the set-up, by what a user reads and presses.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::{path::PathBuf, sync::Arc};

use common::Shown;
use egui::{Key, Modifiers};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use serde_json::json;
use tunesmith_probe::{
    System,
    testing::{AmdCard, TestMachine, machines},
};
use tunesmith_protocol::{EngineError, Level, Notice, Progress, RunStatus, StopHow, TaskWork};
use tunesmith_setup::{
    CommandReport, Stage, TorchBuild,
    doctor::{Rules, Surroundings, Verdict, doctor},
    environments::Engine,
    knowledge::Knowledge,
    plan::{PlanRequest, TorchOnDisk, plan, uv_lines},
};
use tunesmith_ui::{
    commands::Command,
    pages::setup::{Offer, Rehearsal, SetupView, needs, setup_ui, task_ended},
    problem,
    state::{Loadable, Machine, Page, State},
};

type ShownSetup = Shown<SetupView>;

/// A card that another group owns, a setting that does harm, and a log with a reset.
fn faulty() -> TestMachine {
    TestMachine::linux()
        .amd(AmdCard::rx_7900_xtx("0000:03:00.0"))
        .line("etc/environment", "HSA_OVERRIDE_GFX_VERSION=11.0.0")
        .devices_of_another_group()
        .kernel_log("[ 1234.500000] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n")
}

fn looked_at(system: System, torches: Vec<TorchOnDisk>) -> Machine {
    let knowledge = Knowledge::load(None).unwrap();
    let mut request = PlanRequest::new(Engine::Native);
    request.torches = torches;
    let plan = plan(&system, &knowledge, &request).map_err(|error| problem!(error));
    let rules = Rules::load(None).unwrap();
    let diagnosis = doctor(&system, &knowledge, &rules, &Surroundings::default(), &[]);
    Machine {
        system,
        knowledge: Arc::new(knowledge),
        diagnosis,
        plan,
    }
}

/// What is shown once the machine has been looked at and its plan is made.
fn state_of(system: System) -> State {
    let mut state = State::for_tests();
    state.machine.apply(Ok(looked_at(system, Vec::new())));
    settle(&mut state);
    state
}

/// Does the work that the page asks for.
fn settle(state: &mut State) {
    while let Some(work) = needs(state) {
        work.run()(state);
    }
}

/// As on a live machine: with the commands that set-up would run.
fn with_rehearsal(mut state: State) -> State {
    let mut machine = state.machine.get().unwrap().clone();
    machine.system.live = true;
    let offered = machine.plan.clone().unwrap();
    let lines = uv_lines(&offered);
    let commands = lines
        .iter()
        .enumerate()
        .map(|(at, line)| CommandReport {
            stage: Stage::Environment(Engine::Native),
            number: at + 1,
            total: lines.len(),
            title: "torch".to_owned(),
            why: "alone and from its own index".to_owned(),
            command: format!("uv {line}"),
            files: Vec::new(),
        })
        .collect();
    state.machine.seen = Loadable::Ready(Arc::new(machine));
    state.pages.setup.offer = Loadable::Ready(Arc::new(Offer {
        plan: offered,
        rehearsal: Some(Ok(Rehearsal {
            commands,
            free_bytes: Some(200 << 30),
            into: PathBuf::from("/home/somebody/.local/share/tunesmith/environments/native"),
            fetches_uv: true,
        })),
    }));
    state
}

fn shown<'a>(state: State) -> Harness<'a, ShownSetup> {
    // High enough that all of the page is drawn.
    let mut harness = common::show(state, setup_ui, [1100.0, 3600.0], true, false);
    harness.run_ok();
    harness
}

fn press(harness: &mut Harness<'_, ShownSetup>, label: &str) {
    harness.get_by_label(label).click();
    harness.run_ok();
}

fn asked(harness: &mut Harness<'_, ShownSetup>) -> Vec<Command> {
    std::mem::take(&mut harness.state_mut().asked)
}

/// Carries out what the page asked of its own state, and the work that it begins.
fn obey(harness: &mut Harness<'_, ShownSetup>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for command in asked(harness) {
        if let Command::Do(action) = command {
            names.push(action.name);
            let state = &mut harness.state_mut().state;
            if let Some(work) = (action.change)(state) {
                work.run()(state);
            }
        }
    }
    settle(&mut harness.state_mut().state);
    harness.run_ok();
    names
}

#[test]
fn a_blocked_machine_opens_with_its_fault_and_the_command_that_cures_it() {
    let state = state_of(faulty().detect());
    let diagnosis = state.machine.get().unwrap().diagnosis.clone();
    assert_eq!(diagnosis.verdict, Verdict::Blocked);
    let mut harness = shown(state);
    assert!(
        harness
            .query_by_label_contains("cannot train yet, because of")
            .is_some()
    );
    assert!(harness.query_by_label("blocked").is_some());
    assert!(harness.query_by_label(&diagnosis.next.text).is_some());
    let command = diagnosis.next.command.unwrap();
    harness
        .get_all_by_label("Copy the command")
        .next()
        .unwrap()
        .click();
    harness.run_ok();
    let copied = asked(&mut harness);
    assert!(
        matches!(&copied[..], [Command::Copy { text, what }] if *text == command && what == "the command")
    );
    press(&mut harness, "Look again");
    assert!(matches!(&asked(&mut harness)[..], [Command::Do(action)] if action.name == "look again"));
}

#[test]
fn a_finding_unfolds_to_what_it_means_and_where_that_was_read() {
    let state = state_of(faulty().detect());
    let diagnosis = &state.machine.get().unwrap().diagnosis;
    let check = diagnosis.checks[0].clone();
    let good = diagnosis.with_status(tunesmith_setup::doctor::Status::Ok).count();
    let mut harness = shown(state);
    assert!(harness.query_by_label(&check.means).is_none());
    let row = format!("{}, stop", check.title);
    harness.get_all_by_label_contains(&row).next().unwrap().click();
    harness.run_ok();
    assert!(harness.query_by_label(&check.means).is_some());
    assert!(harness.query_by_label(&check.sources.join(", ")).is_some());
    // What is in order waits behind its count.
    press(&mut harness, &format!("In order ({good})"));
    assert!(harness.query_all_by_label_contains(", ok, ").count() >= good);
}

#[test]
fn rows_unfold_from_the_keyboard() {
    let state = state_of(faulty().detect());
    let check = state.machine.get().unwrap().diagnosis.checks[0].clone();
    let mut harness = shown(state);
    let row = format!("{}, stop", check.title);
    harness.get_all_by_label_contains(&row).next().unwrap().focus();
    harness.run_ok();
    harness.key_press(Key::Space);
    harness.run_ok();
    assert!(harness.query_by_label(&check.means).is_some());
}

#[test]
fn a_setting_names_the_file_that_sets_it_and_its_harm() {
    let mut harness = shown(state_of(faulty().detect()));
    harness
        .get_all_by_label_contains("HSA_OVERRIDE_GFX_VERSION, unset")
        .next()
        .unwrap()
        .click();
    harness.run_ok();
    assert!(
        harness
            .query_by_label_contains("/etc/environment, line 1")
            .is_some()
    );
    assert!(harness.query_by_label("Guides say").is_some());
}

#[test]
fn another_engine_gets_a_plan_of_its_own() {
    let mut harness = shown(state_of(machines::rx_7900_xtx().detect()));
    press(&mut harness, "Unsloth");
    assert_eq!(obey(&mut harness), ["choose an engine"]);
    let offer = harness.state().state.pages.setup.offer.ready().unwrap().clone();
    assert_eq!(offer.plan.engine, Engine::Unsloth);
    press(
        &mut harness,
        "The override file, so that nothing replaces torch or its Triton",
    );
    let line = offer.plan.override_file.lines().next().unwrap();
    assert!(harness.query_by_label(line).is_some());
}

#[test]
fn the_plan_can_be_copied_as_a_script() {
    let mut harness = shown(state_of(machines::rx_7900_xtx().detect()));
    press(&mut harness, "Copy for bash");
    press(&mut harness, "Copy for PowerShell");
    let texts: Vec<String> = asked(&mut harness)
        .into_iter()
        .filter_map(|command| match command {
            Command::Copy { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    assert!(texts[0].starts_with("#!/usr/bin/env bash"));
    assert!(texts[1].contains("$ErrorActionPreference"));
}

#[test]
fn nothing_is_installed_before_its_commands_and_size_were_shown() {
    let state = with_rehearsal(state_of(machines::rx_7900_xtx().detect()));
    let plan = state.machine.get().unwrap().plan.clone().unwrap();
    let bytes = plan.install.unwrap().download_bytes().unwrap();
    let mut harness = shown(state);
    assert!(harness.query_by_label_contains("exactly as it runs").is_some());
    assert!(harness.query_by_label_contains("uv pip install").is_some());
    assert!(
        harness
            .query_by_label_contains("is fetched with pip first")
            .is_some()
    );
    let label = format!(
        "Set up ({} over the network)",
        tunesmith_report::format::size(bytes)
    );
    press(&mut harness, &label);
    let begun = asked(&mut harness);
    let wanted = TaskWork::Setup {
        engine: "native".to_owned(),
        card: None,
    };
    assert!(matches!(&begun[..], [Command::Start(work)] if **work == wanted));
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    assert!(matches!(&asked(&mut harness)[..], [Command::Start(work)] if **work == wanted));
}

#[test]
fn a_blocked_machine_is_cured_before_it_is_set_up() {
    let mut harness = shown(with_rehearsal(state_of(faulty().detect())));
    assert!(
        harness
            .query_by_label_contains("Cure first what is said above")
            .is_some()
    );
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    assert!(asked(&mut harness).is_empty());
}

#[test]
fn a_capture_shows_commands_and_installs_nothing() {
    let mut harness = shown(state_of(machines::rx_7900_xtx().detect()));
    assert!(harness.query_by_label_contains("uv pip install").is_some());
    assert!(harness.query_by_label_contains("Set up (").is_none());
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    assert!(asked(&mut harness).is_empty());
}

#[test]
fn where_the_torch_is_there_nothing_has_to_be_installed() {
    let torch = TorchOnDisk {
        site: PathBuf::from("/opt/torch/site-packages"),
        version: "2.11.0+rocm7.2".to_owned(),
        build: TorchBuild::Hip("7.2".to_owned()),
    };
    let mut state = State::for_tests();
    state
        .machine
        .apply(Ok(looked_at(machines::rx_7900_xtx().detect(), vec![torch])));
    settle(&mut state);
    let harness = shown(state);
    assert!(
        harness
            .query_by_label("Nothing has to be installed: the torch in /opt/torch/site-packages fits")
            .is_some()
    );
    assert!(harness.query_by_label("Calibrate").is_some());
}

#[test]
fn a_set_up_shows_how_far_it_is_and_can_be_stopped() {
    let mut state = with_rehearsal(state_of(machines::rx_7900_xtx().detect()));
    let task = begin(&mut state);
    for notice in [
        Notice::Stage {
            task,
            stage: "fetch".to_owned(),
            title: "fetching native: torch 2.11.0+rocm7.2".to_owned(),
        },
        Notice::Log {
            task,
            level: Level::Info,
            text: "[1/1] uv pip install torch==2.11.0+rocm7.2".to_owned(),
        },
        Notice::Progress {
            task,
            progress: Progress {
                stage: "fetch".to_owned(),
                done: 1 << 30,
                total: 4 << 30,
                unit: "bytes".to_owned(),
                eta_secs: Some(185.0),
            },
        },
    ] {
        state.tasks.apply(notice, 10.0);
    }
    let mut harness = shown(state);
    assert!(
        harness
            .query_by_label("1.0 GiB of 4.0 GiB, about 3 min 05 s left")
            .is_some()
    );
    assert!(harness.query_by_label_contains("[1/1] uv pip install").is_some());
    assert!(harness.query_by_label_contains("Set up (").is_none());
    press(&mut harness, "Stop");
    assert!(matches!(&asked(&mut harness)[..], [Command::Stop(StopHow::Now)]));
}

fn begin(state: &mut State) -> u64 {
    let work = TaskWork::Setup {
        engine: "native".to_owned(),
        card: None,
    };
    state.tasks.begin(work, 1.0)
}

fn ended(status: RunStatus, result: serde_json::Value, failure: Option<EngineError>) -> State {
    let mut state = with_rehearsal(state_of(machines::rx_7900_xtx().detect()));
    let task = begin(&mut state);
    let notice = Notice::Ended {
        task,
        status,
        run: None,
        result,
        failure,
        last_lines: vec!["error: connection reset".to_owned()],
    };
    assert_eq!(state.tasks.apply(notice, 20.0), Some(task));
    task_ended(&mut state, task);
    state
}

#[test]
fn a_finished_set_up_says_what_it_made() {
    let state = state_of(machines::rx_7900_xtx().detect());
    let spec = state
        .machine
        .get()
        .unwrap()
        .plan
        .clone()
        .unwrap()
        .install
        .unwrap();
    let made = json!({
        "name": spec.name, "engine": "native", "folder": "/e/native", "site": "/e/native", "python": null,
        "stamp": {
            "spec": spec, "python": "3.12", "uv": "uv 0.13.9", "torch": "2.11.0+rocm7.2", "packages": [],
            "commands": ["uv pip install torch"], "made_at": "2026-11-30T10:00:00Z", "took_secs": 252.0,
            "disk_bytes": 5_368_709_120_u64, "unknown": ["whether the card starts"],
        },
    });
    let harness = shown(ended(RunStatus::Ok, made, None));
    let said = format!(
        "The engine `native` now uses {}: 5.0 GiB on disk, made in 4 min 12 s",
        spec.name
    );
    assert!(harness.query_by_label(&said).is_some());
    assert!(
        harness
            .query_by_label("Not checked: whether the card starts")
            .is_some()
    );
}

#[test]
fn a_stopped_or_failed_set_up_says_what_stays_and_what_to_do() {
    let harness = shown(ended(RunStatus::Cancelled, serde_json::Value::Null, None));
    assert!(
        harness
            .query_by_label_contains("What was there before stays")
            .is_some()
    );
    let error = EngineError {
        code: "disk_full".to_owned(),
        message: "the disk is full".to_owned(),
        hints: vec!["free 9.1 GiB".to_owned()],
    };
    let harness = shown(ended(RunStatus::Crashed, serde_json::Value::Null, Some(error)));
    assert!(harness.query_by_label("The set-up did not end well").is_some());
    assert!(harness.query_by_label("free 9.1 GiB").is_some());
    // It can be tried again at once.
    assert!(harness.query_by_label_contains("Set up (").is_some());
}

#[test]
fn an_error_text_is_explained_for_this_machine() {
    let mut harness = shown(state_of(faulty().detect()));
    press(&mut harness, "Explain");
    assert!(asked(&mut harness).is_empty(), "there is no text yet");
    let field = harness.get_by_role(egui::Role::MultilineTextInput);
    field.focus();
    field.type_text("RuntimeError: HIP error: invalid device function");
    harness.run_ok();
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    assert_eq!(obey(&mut harness), ["explain a text"]);
    assert!(harness.query_by_label_contains("known fault in 1 line").is_some());
    harness
        .get_all_by_label_contains(", error, line 1")
        .next()
        .unwrap()
        .click();
    harness.run_ok();
    assert!(harness.query_all_by_label("What to do").count() >= 1);
    assert!(harness.query_by_label("How sure").is_some());
    press(&mut harness, "Clear");
    obey(&mut harness);
    assert!(harness.query_by_label_contains("known fault in 1 line").is_none());
}

#[test]
fn the_kernels_log_is_read_where_it_can_be() {
    let mut harness = shown(state_of(faulty().detect()));
    press(&mut harness, "Read the kernel's log");
    assert_eq!(obey(&mut harness), ["explain the kernel's log"]);
    assert!(harness.query_by_label_contains("known fault in 1 line").is_some());
    let mut harness = shown(state_of(machines::rx_7900_xtx().detect()));
    press(&mut harness, "Read the kernel's log");
    obey(&mut harness);
    assert!(
        harness
            .query_by_label_contains("The kernel's log cannot be read")
            .is_some()
    );
}

#[test]
fn a_machine_without_a_plan_still_has_findings_and_explanations() {
    let mut harness = shown(state_of(TestMachine::empty().detect()));
    assert!(
        harness
            .query_by_label("There is no plan for this engine")
            .is_some()
    );
    assert!(harness.query_by_label("Explain an error").is_some());
    assert!(harness.query_by_label("What was found").is_some());
    harness.state_mut().state.machine.seen = Loadable::Loading;
    harness.run_ok();
    assert!(harness.query_by_label("Looking at the machine…").is_some());
}

#[test]
fn it_is_read_at_every_size() {
    for size in [[840.0, 560.0], [1270.0, 850.0], [512.0, 320.0]] {
        let state = with_rehearsal(state_of(faulty().detect()));
        let mut harness = common::show::<SetupView>(state, setup_ui, size, false, false);
        harness.run_ok();
        assert_eq!(harness.state().state.page, Page::Welcome);
        assert!(
            harness
                .query_by_label_contains("cannot train yet, because of")
                .is_some()
        );
    }
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    for (name, dark) in [("setup-dark", true), ("setup-light", false)] {
        let state = with_rehearsal(state_of(faulty().detect()));
        let mut harness = common::show::<SetupView>(state, setup_ui, [1112.0, 772.0], dark, true);
        harness.run_ok();
        harness.snapshot(name);
        results.extend_harness(&mut harness);
    }
}
