//! The live run, from the first notice to what the run came to, and everything that goes wrong on the way.

#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, path::Path};

use common::{Shown, show};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use tunesmith_lab::testing::{TestRun, write_checkpoint};
use tunesmith_probe::{
    telemetry::{GpuSample, Sample},
    testing::machines,
};
use tunesmith_protocol::{
    EngineError, Level, Notice, Progress, RunStatus, Step, StopHow, TaskId, TaskWork, Trainer, Verdict,
};
use tunesmith_setup::Folders;
use tunesmith_ui::{
    chart::MarkKind,
    commands::Command,
    pages::{
        self,
        live::{LiveView, live_ui},
    },
    saved::Saved,
    services,
    state::{Page, State},
};

/// High enough that all of the page can be clicked.
const SIZE: [f32; 2] = [1280.0, 3200.0];

/// A window at the live run, whose runs lie in a home of its own.
struct Live {
    home: tempfile::TempDir,
    state: State,
    task: TaskId,
}

impl Live {
    fn nothing() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("machine");
        let mut state = State::new(Folders::all_under(home.path()), Saved::default(), root);
        state.page = Page::Live;
        Self { home, state, task: 0 }
    }

    /// A training that has just been asked for.
    fn asked() -> Self {
        let mut live = Self::nothing();
        live.ask();
        live
    }

    fn ask(&mut self) {
        let recipe = tunesmith_lab::recipe::Recipe::load("quickstart").unwrap();
        self.begin(TaskWork::Train {
            recipe: recipe.to_toml().unwrap(),
            device: None,
            evaluate: true,
            trainer: Trainer::Native,
            threads: None,
        });
    }

    fn begin(&mut self, work: TaskWork) {
        self.task = self.state.tasks.begin(work, self.state.now_secs);
        self.settle();
    }

    fn runs(&self) -> std::path::PathBuf {
        self.state.folders.runs()
    }

    fn hear(&mut self, notice: Notice) {
        let now_secs = self.state.now_secs;
        if let Some(task) = self.state.tasks.apply(notice, now_secs) {
            pages::task_ended(&mut self.state, task);
        }
    }

    fn stage(&mut self, stage: &str, title: &str) {
        self.hear(Notice::Stage {
            task: self.task,
            stage: stage.to_owned(),
            title: title.to_owned(),
        });
    }

    fn progress(&mut self, done: u64, total: u64, unit: &str, eta_secs: Option<f64>) {
        self.hear(Notice::Progress {
            task: self.task,
            progress: Progress {
                stage: self.state.tasks.followed().unwrap().stage.clone(),
                done,
                total,
                unit: unit.to_owned(),
                eta_secs,
            },
        });
    }

    fn step(&mut self, step: Step, total: u64) {
        self.hear(Notice::Step {
            task: self.task,
            step,
            total,
        });
    }

    /// Trains up to a step of so many, in a good half second each.
    fn train(&mut self, to: u64, total: u64) {
        self.stage("train", "training");
        for number in 1..=to {
            self.step(step(number, total), total);
        }
        self.state.now_secs += 60.0;
        self.progress(to, total, "steps", Some(0.6 * (total - to) as f64));
        self.settle();
    }

    fn folder(&mut self, folder: &Path) {
        self.hear(Notice::Run {
            task: self.task,
            run: folder.file_name().unwrap().to_str().unwrap().to_owned(),
            folder: folder.to_owned(),
        });
    }

    fn end(&mut self, status: RunStatus, failure: Option<EngineError>, last_lines: &[&str]) {
        self.hear(Notice::Ended {
            task: self.task,
            status,
            run: None,
            result: serde_json::Value::Null,
            failure,
            last_lines: last_lines.iter().map(|line| (*line).to_owned()).collect(),
        });
        self.settle();
    }

    /// All that the page reads in the background.
    fn settle(&mut self) {
        settle(&mut self.state);
    }

    fn shown<'a>(self) -> Harness<'a, Shown<LiveView>> {
        let mut harness = show(self.state, live_ui, SIZE, true, false);
        harness.run_ok();
        harness
    }
}

fn settle(state: &mut State) {
    loop {
        let work = pages::needs(state);
        if work.is_empty() {
            return;
        }
        for work in work {
            work.run()(state);
        }
    }
}

fn step(number: u64, total: u64) -> Step {
    let done = number as f64 / total as f64;
    Step {
        step: number,
        loss: Some(0.4 + 2.0 * (1.0 - done).powi(2)),
        grad_norm: Some(1.0 - 0.5 * done),
        lr: 1.5e-3 * (1.0 - done),
        dt_secs: 0.6,
        elapsed_secs: 4.0 + 0.6 * number as f64,
        real_tokens: 1500 * number,
        padded_tokens: 1600 * number,
        supervised_tokens: 300 * number,
        squared_lengths: 8 * 200 * 200,
        peak_bytes: Some((1 << 30) + number),
    }
}

fn failure(code: &str, message: &str, hint: &str) -> EngineError {
    EngineError {
        code: code.to_owned(),
        message: message.to_owned(),
        hints: vec![hint.to_owned()],
    }
}

/// Carries out what a page asked to be changed.
fn carry_out(shown: &mut Shown<LiveView>) -> Vec<Command> {
    let mut rest = Vec::new();
    for command in std::mem::take(&mut shown.asked) {
        match command {
            Command::Do(action) => {
                if let Some(work) = (action.change)(&mut shown.state) {
                    work.run()(&mut shown.state);
                }
            }
            other => rest.push(other),
        }
    }
    rest
}

fn has(harness: &Harness<'_, Shown<LiveView>>, text: &str) -> bool {
    harness.query_all_by_label_contains(text).next().is_some()
}

#[test]
fn without_a_training_the_page_says_what_will_be_here() {
    let mut live = Live::nothing();
    live.settle();
    let mut harness = live.shown();
    harness.get_by_label("No training is under way");
    harness.get_by_label("Choose a recipe…").click();
    harness.run_ok();
    assert!(matches!(harness.state().asked[..], [Command::Go(Page::Tune)]));
}

#[test]
fn a_run_that_was_cut_short_can_be_resumed_or_left_alone() {
    let mut live = Live::nothing();
    let run = TestRun::new("2026-01-01T00:00:00Z").unfinished();
    let folder = run.write(&live.runs());
    write_checkpoint(&folder, 80);
    live.settle();
    let id = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let mut harness = live.shown();
    assert!(has(&harness, "it can go on from step 80"));
    harness.get_by_label("Resume it").click();
    harness.run_ok();
    let asked = carry_out(harness.state_mut());
    assert!(
        matches!(&asked[..], [Command::Start(work)] if **work == TaskWork::Resume { run: id.clone() }),
        "the run is resumed"
    );
    harness.get_by_label("Leave it").click();
    harness.run_ok();
    carry_out(harness.state_mut());
    harness.run_ok();
    assert!(!has(&harness, "Resume it"));
    assert_eq!(harness.state().state.saved.left_alone, [id]);
}

#[test]
fn at_first_the_page_says_what_is_prepared_and_no_time() {
    let mut live = Live::asked();
    live.stage("prepare", "reading model and data");
    live.settle();
    let harness = live.shown();
    assert!(has(&harness, "Reading model and data…"));
    harness.get_by_label("Preparing: under way");
    harness.get_by_label("Questions to the base model: to come");
    harness.get_by_label("Questions to the tuned model: to come");
    assert!(has(&harness, "estimating…"));
    assert!(has(&harness, "none yet"));
    // There is no step that could be finished.
    assert!(!has(&harness, "Stop and save"));
    harness.get_by_label("Stop now");
}

#[test]
fn under_way_the_title_has_step_loss_speed_and_the_time_left() {
    let mut live = Live::asked();
    live.stage("evaluate_before", "questions to the base model");
    live.train(120, 300);
    let harness = live.shown();
    harness.get_by_label("Step 120 of 300: loss 1.12, 2,500 tokens/s, about 2 min left");
    harness.get_by_label("Questions to the base model: done");
    harness.get_by_label("Training: under way");
    harness.get_by_label("120 of 300");
    harness.get_by_label("180,000");
    assert!(has(&harness, "Nothing yet that needs a look"));
    for chart in [
        "Show loss as a table",
        "Show gradient norm as a table",
        "Show speed as a table",
    ] {
        harness.get_by_label(chart);
    }
}

impl Live {
    /// An experiment of six runs that has just been asked for.
    fn experiment() -> Self {
        let mut live = Self::nothing();
        live.begin(TaskWork::Experiment {
            experiment: "bf16-or-4bit".to_owned(),
            resume: false,
            again: false,
            retry_failed: false,
        });
        live
    }

    /// Something happens to a run of it.
    fn slot(&mut self, slot: usize, over: usize, arm: &str, phase: &str, reason: Option<&str>) {
        self.hear(Notice::Experiment {
            task: self.task,
            experiment: "bf16-or-4bit-0f1e2d3c".to_owned(),
            folder: self.home.path().join("bf16-or-4bit-0f1e2d3c"),
            slot,
            slots: 6,
            over,
            arm: arm.to_owned(),
            seed: 3407,
            phase: phase.to_owned(),
            reason: reason.map(str::to_owned),
            secs_left: Some(95.0),
        });
        self.settle();
    }
}

#[test]
fn of_an_experiment_the_run_at_hand_is_shown_and_which_one_it_is() {
    let mut live = Live::experiment();
    live.slot(0, 0, "plain", "begins", None);
    let folder = TestRun::new("2026-01-01T00:00:00Z").write(&live.runs());
    live.folder(&folder);
    live.train(6, 10);
    let harness = live.shown();
    assert!(has(&harness, "Step 6 of 10: loss "));
    harness.get_by_label("bf16-or-4bit-0f1e2d3c: run 1 of 6, arm plain, seed 3407");
    assert!(has(&harness, "0 of 6 runs are over, about 35 s left for all"));
    harness.get_by_label("6 of 10");
    // Nobody asked the models yet, and half a run is worth nothing.
    assert!(!has(&harness, "Questions to the base model"));
    harness.get_by_label("Stop the experiment");
    assert!(!has(&harness, "Stop and save"));
}

#[test]
fn the_next_run_of_an_experiment_has_curves_and_verdicts_of_its_own() {
    let mut live = Live::experiment();
    live.slot(0, 0, "plain", "begins", None);
    let first = TestRun::new("2026-01-01T00:00:00Z").write(&live.runs());
    live.folder(&first);
    live.train(8, 10);
    live.hear(Notice::Finding {
        task: live.task,
        finding: Verdict {
            check: "step_time".to_owned(),
            title: "step time".to_owned(),
            severity: "amber".to_owned(),
            step: Some(7),
            found: "step 7 took three times as long".to_owned(),
            means: String::new(),
            remedies: Vec::new(),
        },
    });
    live.slot(0, 1, "plain", "ok", None);
    assert_eq!(
        live.state.pages.live.figures().loss.len(),
        8,
        "its curve stays until the next"
    );

    live.slot(1, 1, "nf4", "begins", None);
    let second = TestRun::new("2026-01-01T00:10:00Z").write(&live.runs());
    live.folder(&second);
    live.train(3, 10);
    assert_eq!(live.state.pages.live.figures().loss.len(), 3);
    let mut harness = live.shown();
    assert!(has(&harness, "run 2 of 6, arm nf4, seed 3407"));
    assert!(!has(&harness, "at step 7"), "that was the run before");
    harness.get_by_label("See what they say together").click();
    harness.run_ok();
    assert!(matches!(harness.state().asked[..], [Command::Go(Page::Compare)]));
}

#[test]
fn an_experiment_says_what_it_waits_for_and_how_far_it_came() {
    let mut live = Live::experiment();
    live.slot(
        2,
        2,
        "nf4",
        "waits_for_quiet",
        Some("other programs (browser) kept 1.2 cores busy"),
    );
    let harness = live.shown();
    assert!(has(
        &harness,
        "Run 3 of 6 waits until other programs leave the machine alone"
    ));
    assert!(has(&harness, "other programs (browser) kept 1.2 cores busy"));

    let mut live = Live::experiment();
    live.slot(2, 2, "nf4", "begins", None);
    live.end(RunStatus::Cancelled, None, &[]);
    let harness = live.shown();
    harness.get_by_label("Stopped by you: 2 of 6 runs are over");
    assert!(has(&harness, "Runs that are over are kept"));
    assert!(!has(&harness, "Stop the experiment"));
}

#[test]
fn each_way_to_stop_is_asked_for_and_answered_at_once_in_words() {
    for (name, how, words) in [
        (
            "Stop after this step",
            StopHow::AfterStep,
            "Stopping after this step…",
        ),
        (
            "Stop and save",
            StopHow::Save,
            "Stopping after this step, and saving the adapter…",
        ),
        ("Stop now", StopHow::Now, "Stopping now…"),
    ] {
        let mut live = Live::asked();
        live.train(5, 300);
        let mut harness = live.shown();
        harness.get_by_label(name).click();
        harness.run_ok();
        assert!(matches!(harness.state().asked[..], [Command::Stop(asked)] if asked == how));
        harness.state_mut().state.tasks.stopping(how);
        harness.run_ok();
        assert!(has(&harness, words), "{words}");
        assert_eq!(has(&harness, "Stop now"), how != StopHow::Now);
        assert!(!has(&harness, "Stop and save"));
    }
}

#[test]
fn a_hundred_thousand_steps_are_taken_in_once_and_drawn_thinned() {
    let mut live = Live::asked();
    live.stage("train", "training");
    let total = 100_000;
    for chunk in 0..100 {
        for number in chunk * 1000 + 1..=(chunk + 1) * 1000 {
            live.step(step(number, total), total);
        }
        pages::needs(&mut live.state);
    }
    let figures = live.state.pages.live.figures();
    assert_eq!(figures.loss.len(), 100_000);
    assert_eq!(figures.tokens_per_sec.len(), 100_000);
    assert_eq!(figures.missed, 0);
    assert!(figures.loss.thinned(1.0, 1e5, 800).len() <= 1600);
    let harness = live.shown();
    assert!(has(&harness, "Step 100,000 of 100,000"));
}

#[test]
fn steps_that_the_window_was_too_slow_for_are_named_and_make_nothing_faster() {
    let mut live = Live::asked();
    live.stage("train", "training");
    for number in (1..=20).chain(51..=60) {
        live.step(step(number, 300), 300);
    }
    live.settle();
    let figures = live.state.pages.live.figures();
    assert_eq!(figures.missed, 30);
    let speeds = figures
        .tokens_per_sec
        .extremes(0..figures.tokens_per_sec.len())
        .unwrap();
    assert!((speeds.most.y - 2500.0).abs() < 1e-6);
    let harness = live.shown();
    assert!(has(&harness, "30 steps came faster than this window"));
}

#[test]
fn a_loss_that_is_no_number_is_said_and_marked() {
    let mut live = Live::asked();
    live.train(11, 300);
    live.step(
        Step {
            loss: None,
            grad_norm: None,
            ..step(12, 300)
        },
        300,
    );
    live.settle();
    assert_eq!(live.state.pages.live.figures().loss.count(MarkKind::NotFinite), 1);
    live.hear(Notice::Finding {
        task: live.task,
        finding: Verdict {
            check: "finite".to_owned(),
            title: "loss and gradient are numbers".to_owned(),
            severity: "red".to_owned(),
            step: Some(12),
            found: "the loss of step 12 is not a number".to_owned(),
            means: "the training has broken down".to_owned(),
            remedies: vec!["lower the learning rate".to_owned()],
        },
    });
    let mut harness = live.shown();
    assert!(has(&harness, "Step 12 of 300: the loss is not a number"));
    assert!(has(&harness, "Loss and gradient are numbers"));
    assert!(has(&harness, "The loss of step 12 is not a number"));
    assert!(has(&harness, "Lower the learning rate"));
    let task = harness.state().state.tasks.training().unwrap().id;
    harness.state_mut().state.tasks.apply(
        Notice::Ended {
            task,
            status: RunStatus::Nan,
            run: None,
            result: serde_json::Value::Null,
            failure: Some(failure(
                "nan",
                "a number was not finite",
                "lower the learning rate",
            )),
            last_lines: Vec::new(),
        },
        100.0,
    );
    harness.run_ok();
    assert!(has(
        &harness,
        "Stopped by the judge at step 12: the loss of step 12 is not a number"
    ));
}

#[test]
fn every_way_to_fail_has_its_title_its_reason_and_what_to_do() {
    let cases = [
        (
            RunStatus::Oom,
            5,
            failure(
                "out_of_memory",
                "the card has no memory left",
                "halve the rows of a batch",
            ),
            "Out of memory after step 5",
        ),
        (
            RunStatus::Crashed,
            5,
            failure(
                "engine_signal",
                "the engine was ended by signal 11 (SIGSEGV)",
                "look at its last lines",
            ),
            "The training failed after step 5",
        ),
        (
            RunStatus::Crashed,
            0,
            failure(
                "engine_version",
                "the engine speaks version 99, this program speaks 1",
                "build both anew",
            ),
            "The training failed before the first step",
        ),
        (
            RunStatus::Crashed,
            5,
            failure("disk_full", "the disk is full", "make room"),
            "The training failed after step 5",
        ),
    ];
    for (status, steps, failure, title) in cases {
        let mut live = Live::asked();
        if steps > 0 {
            live.train(steps, 300);
        }
        live.end(status, Some(failure.clone()), &["the engine's last words"]);
        let mut harness = live.shown();
        harness.get_by_label(title);
        harness.get_by_label("Why it ended");
        assert!(has(&harness, &failure.message) && has(&harness, &failure.hints[0]));
        harness.get_by_label("Copy the error").click();
        harness.run_ok();
        let copied = harness.state().asked.iter().any(
            |command| matches!(command, Command::Copy { text, .. } if text.contains("the engine's last words")),
        );
        assert!(copied);
        assert!(!has(&harness, "Try it"));
    }
}

#[test]
fn a_stop_by_the_user_is_no_failure() {
    let mut live = Live::asked();
    live.train(7, 300);
    live.end(RunStatus::Cancelled, None, &[]);
    let harness = live.shown();
    harness.get_by_label("Stopped by you after step 7");
    harness.get_by_label("stopped by you");
    assert!(!has(&harness, "Why it ended"));
}

#[test]
fn a_clock_that_jumps_makes_no_nonsense() {
    let mut live = Live::nothing();
    live.state.now_secs = 100.0;
    live.ask();
    live.train(20, 300);
    for (now, eta) in [
        (3.0, Some(170.0)),
        (160.0, Some(-60.0)),
        (9e9, Some(f64::INFINITY)),
        (160.0, None),
    ] {
        live.state.now_secs = now;
        live.progress(20, 300, "steps", eta);
        let elapsed = live.state.tasks.training().unwrap().elapsed_secs(now);
        assert!(elapsed >= 0.0);
    }
    live.state.now_secs = 3.0;
    live.progress(20, 300, "steps", Some(170.0));
    let harness = live.shown();
    assert!(has(&harness, "estimating…"));
    harness.get_by_label("0 s");
    assert!(!has(&harness, "unknown"));
    assert!(!has(&harness, "NaN"));
}

#[test]
fn a_finished_run_says_what_it_changed_and_where_to_go() {
    let mut live = Live::asked();
    let folder = TestRun::new("2026-01-01T00:00:00Z")
        .matches(3, 62)
        .write(&live.runs());
    live.folder(&folder);
    live.train(96, 96);
    live.end(RunStatus::Ok, None, &[]);
    let mut harness = live.shown();
    harness.get_by_label("Finished: loss 2.31 → 0.350, score 3.0 → 62.0 points");
    harness.get_by_label("Training: done");
    harness.get_by_label("finished");
    harness.get_by_label("+59.0 points");
    assert!(has(&harness, "The change is more than chance"));
    assert!(has(&harness, "20 of 20 checks made, all green"));
    harness.get_by_label("Report").click();
    harness.run_ok();
    carry_out(harness.state_mut());
    assert_eq!(harness.state().state.page, Page::Report);
    harness.get_by_label("Try it").click();
    harness.run_ok();
    carry_out(harness.state_mut());
    assert_eq!(harness.state().state.page, Page::TryIt);
}

#[test]
fn a_run_that_failed_can_go_on_from_its_checkpoint() {
    let mut live = Live::asked();
    let folder = TestRun::new("2026-01-01T00:00:00Z")
        .status(RunStatus::Crashed)
        .write(&live.runs());
    write_checkpoint(&folder, 80);
    live.folder(&folder);
    live.train(96, 120);
    live.end(
        RunStatus::Crashed,
        Some(failure("engine_signal", "the engine was killed", "try again")),
        &[],
    );
    let mut harness = live.shown();
    harness.get_by_label("Resume").click();
    harness.run_ok();
    let asked = carry_out(harness.state_mut());
    assert!(matches!(&asked[..], [Command::Start(work)] if matches!(**work, TaskWork::Resume { .. })));
}

#[test]
fn a_run_that_goes_on_shows_its_steps_from_before() {
    let mut live = Live::nothing();
    let folder = TestRun::new("2026-01-01T00:00:00Z")
        .unfinished()
        .write(&live.runs());
    let run = folder.file_name().unwrap().to_str().unwrap().to_owned();
    live.begin(TaskWork::Resume { run });
    live.folder(&folder);
    live.stage("train", "training");
    for number in 81..=96 {
        live.step(step(number, 96), 96);
    }
    live.settle();
    let figures = live.state.pages.live.figures();
    assert_eq!(figures.loss.len(), 96);
    assert_eq!(figures.missed, 0);
    // What was counted up to step 80 is not counted as the work of step 81.
    let fastest = figures.tokens_per_sec.extremes(80..96).unwrap().most.y;
    assert!(fastest < 3000.0, "{fastest}");
}

#[test]
fn steps_that_are_done_again_are_drawn_anew() {
    let mut live = Live::asked();
    live.train(20, 30);
    live.step(step(11, 30), 30);
    live.settle();
    assert_eq!(live.state.pages.live.figures().loss.len(), 11);
}

#[test]
fn one_mfu_leads_and_the_other_counts_are_one_click_away() {
    let mut live = Live::asked();
    let folder = TestRun::new("2026-01-01T00:00:00Z")
        .unfinished()
        .write(&live.runs());
    live.folder(&folder);
    live.train(40, 96);
    let mfu = live.state.pages.live.figures().mfu.unwrap();
    let share = 100.0 * mfu.lora_exact.practical.unwrap().0;
    let mut harness = live.shown();
    assert!(has(
        &harness,
        &format!("{share:.1} % of this processor's measured 1.000 TFLOPS")
    ));
    assert!(!has(&harness, "6ND"));
    harness.get_by_label("All three ways of counting").click();
    harness.run_ok();
    assert!(has(&harness, "6ND") && has(&harness, "hardware"));
    let six_nd = 100.0 * mfu.six_nd.practical.unwrap().0;
    assert!(has(&harness, &format!("{six_nd:.1} %")));
}

#[test]
fn without_a_peak_the_page_says_why_and_offers_the_calibration() {
    let mut live = Live::asked();
    let folder = TestRun::new("2026-01-01T00:00:00Z")
        .unfinished()
        .write(&live.runs());
    let path = folder.join("manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest["peaks"]["practical"] = serde_json::Value::Null;
    fs::write(&path, manifest.to_string()).unwrap();
    live.folder(&folder);
    live.train(40, 96);
    let mut harness = live.shown();
    assert!(has(&harness, "no calibration was taken before this run"));
    harness.get_by_label("Calibrate…").click();
    harness.run_ok();
    assert!(matches!(
        harness.state().asked[..],
        [Command::Go(Page::Calibrate)]
    ));
}

#[test]
fn a_run_folder_that_cannot_be_read_costs_the_mfu_and_nothing_else() {
    let mut live = Live::asked();
    let folder = live.home.path().join("nowhere");
    live.folder(&folder);
    live.train(40, 96);
    assert_eq!(live.state.pages.live.figures().loss.len(), 40);
    let harness = live.shown();
    assert!(has(&harness, "How much of the card is used cannot be counted"));
    assert!(has(&harness, "2,500 tokens/s"));
}

#[test]
fn earlier_runs_on_the_same_device_stand_beside_this_one() {
    let mut live = Live::nothing();
    for (minute, speed) in [(1, 300.0), (2, 310.0), (3, 500.0)] {
        let hash = if speed < 400.0 { "aaaa1111" } else { "bbbb2222" };
        TestRun::new(&format!("2026-01-01T00:{minute:02}:00Z"))
            .tokens_per_sec(speed)
            .config_hash(hash)
            .write(&live.runs());
    }
    TestRun::new("2026-01-01T00:09:00Z")
        .device("cuda:0")
        .write(&live.runs());
    live.ask();
    let folder = TestRun::new("2026-01-01T00:10:00Z")
        .unfinished()
        .write(&live.runs());
    live.folder(&folder);
    live.train(40, 96);
    let harness = live.shown();
    harness.get_by_label("Show memory and speed as a table");
    assert!(has(&harness, "this run at 2,500 tokens/s"));
}

#[test]
fn the_log_is_filtered_searched_and_copied() {
    let mut live = Live::asked();
    for (level, text) in [
        (Level::Info, "loading the model"),
        (Level::Debug, "a tensor"),
        (Level::Warn, "loading took long"),
    ] {
        live.hear(Notice::Log {
            task: live.task,
            level,
            text: text.to_owned(),
        });
    }
    let mut harness = live.shown();
    assert!(has(&harness, "2 of 3 lines"));
    harness.get_by_label("Warnings").click();
    harness.run_ok();
    carry_out(harness.state_mut());
    harness.run_ok();
    assert!(has(&harness, "1 of 3 lines"));
    harness.get_by_label("All").click();
    harness.run_ok();
    carry_out(harness.state_mut());
    harness.run_ok();
    harness.get_by_label("Search").focus();
    harness.run_ok();
    harness.get_by_label("Search").type_text("LOADING");
    harness.run_ok();
    harness.get_by_label("Copy these lines").click();
    harness.run_ok();
    let asked = carry_out(harness.state_mut());
    assert!(
        matches!(&asked[..], [Command::Copy { text, .. }] if text == "loading the model\nloading took long")
    );
}

#[test]
fn the_log_follows_its_end_lets_go_and_follows_again() {
    let mut live = Live::asked();
    let log = |state: &mut State, task, from: usize, to: usize| {
        for number in from..to {
            let text = format!("line number {number}");
            let level = Level::Info;
            state.tasks.apply(Notice::Log { task, level, text }, 0.0);
        }
    };
    let task = live.task;
    log(&mut live.state, task, 0, 20_000);
    let mut harness = live.shown();
    harness.run_ok();
    assert!(has(&harness, "line number 19999"));
    // Only what is seen is laid out.
    assert!(harness.query_all_by_label_contains("line number").count() < 40);
    harness.get_by_label("line number 19995").scroll_to_me();
    harness.run_ok();
    harness.get_by_label("line number 19995").scroll_up();
    harness.run_ok();
    log(&mut harness.state_mut().state, task, 20_000, 20_050);
    harness.run_ok();
    assert!(!has(&harness, "line number 20049"));
    assert!(has(&harness, "New lines are not followed"));
    harness.get_by_label("Go to the end").click();
    harness.run_ok();
    log(&mut harness.state_mut().state, task, 20_050, 20_100);
    harness.run_ok();
    assert!(has(&harness, "line number 20099"));
}

/// A card's temperature once a second, as its driver tells it.
fn warm_up(state: &mut State, pci: &str, secs: usize) {
    for second in 0..secs {
        let gpu = GpuSample {
            pci: pci.to_owned(),
            junction_celsius: Some(48.0 + 30.0 * (1.0 - (-(second as f64) / 40.0).exp())),
            ..GpuSample::default()
        };
        state.telemetry.add(Sample {
            at_secs: 1000.0 + second as f64,
            gpus: vec![gpu],
            ..Sample::default()
        });
        pages::needs(state);
    }
}

#[test]
fn the_temperature_is_that_of_this_training() {
    let machine = machines::rx_7900_xtx();
    let mut live = Live::nothing();
    machine.root().clone_into(&mut live.state.root);
    services::look(&mut live.state).unwrap().run()(&mut live.state);
    let pci = live
        .state
        .machine
        .get()
        .unwrap()
        .gpu()
        .unwrap()
        .pci
        .clone()
        .unwrap();
    warm_up(&mut live.state, &pci, 30);
    live.ask();
    assert!(live.state.pages.live.temperature().is_empty());
    for second in 30..50 {
        let gpu = GpuSample {
            pci: pci.clone(),
            junction_celsius: Some(70.0),
            ..GpuSample::default()
        };
        live.state.telemetry.add(Sample {
            at_secs: 1000.0 + f64::from(second),
            gpus: vec![gpu],
            ..Sample::default()
        });
        pages::needs(&mut live.state);
    }
    let temperature = live.state.pages.live.temperature();
    assert_eq!(
        (temperature.len(), temperature.x_range()),
        (20, Some((0.0, 19.0)))
    );
}

/// A run on a card, with peaks of the published one.
fn run_on_a_card(live: &Live, run: TestRun) -> std::path::PathBuf {
    let folder = run.device("cuda:0").write(&live.runs());
    let path = folder.join("manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest["peaks"] = serde_json::json!({ "theoretical": 122.8, "practical": 101.5 });
    manifest["model"]["shape"] = serde_json::json!({
        "hidden": 2048, "layers": 36, "heads": 16, "kv_heads": 2, "head_dim": 128, "intermediate": 11008,
        "vocab": 151_936, "tied": true, "qkv_bias": true, "qk_norm": false,
    });
    fs::write(&path, manifest.to_string()).unwrap();
    folder
}

/// A training on a card, so far or to its end, with everything that a page can show.
fn pictured(finished: bool) -> (Live, tunesmith_probe::testing::TestMachine) {
    let machine = machines::rx_7900_xtx();
    let mut live = Live::nothing();
    machine.root().clone_into(&mut live.state.root);
    services::look(&mut live.state).unwrap().run()(&mut live.state);
    let gib = |gib: f64| (gib * f64::from(1_u32 << 30)) as u64;
    for (minute, speed, memory, hash) in [
        (1, 1900.0, 9.1, "aaaa1111"),
        (2, 1930.0, 9.2, "aaaa1111"),
        (3, 2350.0, 14.8, "bbbb2222"),
        (4, 2110.0, 17.5, "cccc3333"),
    ] {
        let run = TestRun::new(&format!("2026-01-01T00:{minute:02}:00Z"))
            .tokens_per_sec(speed)
            .peak_bytes(gib(memory))
            .config_hash(hash);
        run_on_a_card(&live, run);
    }
    live.ask();
    let mut run = TestRun::new("2026-01-01T00:10:00Z")
        .steps(300)
        .tokens_per_sec(2344.0)
        .matches(4, 61);
    if !finished {
        run = run.unfinished();
    }
    let folder = run_on_a_card(&live, run);
    live.stage("prepare", "reading model and data");
    live.folder(&folder);
    live.stage("start", "starting the engine");
    live.stage("evaluate_before", "questions to the base model");
    live.stage("train", "training");
    let pci = live
        .state
        .machine
        .get()
        .unwrap()
        .gpu()
        .unwrap()
        .pci
        .clone()
        .unwrap();
    let last = if finished { 300 } else { 180 };
    for number in 1..=last {
        // A wobble as real ones have it, the same each time.
        let wobble = f64::from(u32::try_from(number * number * 31 % 101).unwrap()) / 101.0 - 0.5;
        let plain = step(number, 300);
        live.step(
            Step {
                loss: plain.loss.map(|loss| loss + 0.25 * wobble),
                grad_norm: plain.grad_norm.map(|norm| norm * (1.0 + 0.4 * wobble)),
                dt_secs: (0.64 + 0.02 * wobble) * if number == 1 { 1.6 } else { 1.0 },
                peak_bytes: Some(gib(12.4 + 0.2 * (number as f64 / 40.0).min(1.0))),
                ..plain
            },
            300,
        );
    }
    live.state.now_secs += if finished { 215.0 } else { 132.0 };
    live.progress(last, 300, "steps", Some(0.64 * (300 - last) as f64));
    if !finished {
        live.hear(Notice::Finding {
            task: live.task,
            finding: Verdict {
                check: "step_time".to_owned(),
                title: "step time".to_owned(),
                severity: "amber".to_owned(),
                step: Some(31),
                found: "step 31 took 1.4 times as long as steps 5 to 20".to_owned(),
                means: "the card slowed down, or something else used it".to_owned(),
                remedies: vec!["close other programs that draw on the card".to_owned()],
            },
        });
    }
    live.settle();
    warm_up(&mut live.state, &pci, 120);
    if finished {
        live.end(RunStatus::Ok, None, &[]);
    }
    // The same on every machine, wherever its clock stands.
    let lines = live.state.pages.runs.list.lines().to_vec();
    live.state.pages.runs.take(Ok(lines), jiff::tz::TimeZone::UTC);
    live.settle();
    (live, machine)
}

fn picture(results: &mut SnapshotResults, name: &str, finished: bool, dark: bool) {
    let (live, _machine) = pictured(finished);
    let mut harness = show(live.state, live_ui, [1280.0, 820.0], dark, true);
    harness.run_ok();
    harness.snapshot(name);
    results.extend_harness(&mut harness);
}

#[test]
fn pictures_of_a_run_under_way() {
    let mut results = SnapshotResults::new();
    picture(&mut results, "live-dark", false, true);
    picture(&mut results, "live-light", false, false);
}

#[test]
fn pictures_of_a_finished_run() {
    let mut results = SnapshotResults::new();
    picture(&mut results, "live-finished-dark", true, true);
    picture(&mut results, "live-finished-light", true, false);
}
