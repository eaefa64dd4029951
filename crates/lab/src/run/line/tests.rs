//! Lines of made runs: they say what the whole records say, and only what has changed is read again.

use std::{fs, sync::Arc};

use tunesmith_protocol::RunStatus;

use super::{read::RUNS_PER_THREAD, *};
use crate::{
    recipe::Recipe,
    run::{LiveRun, MANIFEST, RECIPE, Run, SUMMARY},
    testing::{TestRun, write_checkpoint},
};

fn listed(runs: &Path) -> Vec<Arc<RunLine>> {
    lines(runs, &[]).unwrap()
}

#[test]
fn a_line_says_the_same_as_the_whole_record() {
    let home = tempfile::tempdir().unwrap();
    let statuses = [
        RunStatus::Ok,
        RunStatus::Oom,
        RunStatus::Nan,
        RunStatus::Invalid,
        RunStatus::TimeBoxed,
        RunStatus::Cancelled,
        RunStatus::Crashed,
    ];
    for (minute, status) in statuses.into_iter().enumerate() {
        let run = TestRun::new(&format!("2026-01-01T00:{minute:02}:00Z")).status(status);
        write_checkpoint(&run.write(home.path()), 20);
    }
    TestRun::new("2026-01-02T00:00:00Z").steps(0).write(home.path());
    TestRun::new("2026-01-03T00:00:00Z")
        .without_scores()
        .write(home.path());
    let lines = listed(home.path());
    assert_eq!(lines.len(), statuses.len() + 2);
    for line in lines {
        let whole = RunLine::from_run(&line.folder).unwrap();
        let stamp = line.stamp.clone();
        assert_eq!(*line, RunLine { stamp, ..whole });
    }
}

#[test]
fn a_line_holds_what_a_list_shows() {
    let home = tempfile::tempdir().unwrap();
    TestRun::new("2026-01-01T00:00:00Z")
        .tokens_per_sec(500.0)
        .write(home.path());
    let lines = listed(home.path());
    let line = &lines[0];
    let figures = line.figures.unwrap();
    assert_eq!(line.started.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(line.recipe, "quickstart");
    assert_eq!(line.model.as_deref(), Some("SmolLM2-135M-Instruct.Q4_1.gguf"));
    assert_eq!(line.data.as_deref(), Some("text-to-sql"));
    assert_eq!(line.device.as_deref(), Some("cpu"));
    assert_eq!(line.state.name(), "ok");
    assert_eq!((figures.valid_steps, figures.total_steps), (96, 96));
    assert!(
        (figures.steady_tokens_per_sec.unwrap() / 500.0 - 1.0).abs() < 0.05,
        "{figures:?}"
    );
    assert!(figures.loss.unwrap().last < figures.loss.unwrap().first);
    assert!(figures.mfu_exact_practical.is_some() && figures.peak_bytes.is_some());
    assert!(line.before_points < line.after_points);
    assert_eq!(line.judge, Some(Severity::Green));
    assert_eq!((line.resume_step, line.reason.as_deref()), (None, None));
    assert!(line.has_adapter && !line.has_report);
}

#[test]
fn a_run_that_ended_early_says_from_where_it_can_go_on() {
    let home = tempfile::tempdir().unwrap();
    let run = TestRun::new("2026-01-01T00:00:00Z")
        .status(RunStatus::Cancelled)
        .steps(50);
    let folder = run.write(home.path());
    for step in [20, 40, 60] {
        write_checkpoint(&folder, step);
    }
    let lines = listed(home.path());
    assert_eq!(lines[0].resume_step, Some(40));
    assert_eq!(lines[0].resume_step, Run::open(&folder).unwrap().resume_step());
}

#[test]
fn a_run_that_goes_on_and_one_that_was_left_have_the_figures_of_their_steps() {
    let home = tempfile::tempdir().unwrap();
    TestRun::new("2026-01-01T00:00:00Z")
        .unfinished()
        .steps(30)
        .write(home.path());
    let live = LiveRun::create(home.path(), &Recipe::load("smoke").unwrap(), "0123456789").unwrap();
    let lines = listed(home.path());
    assert_eq!(lines[0].state.name(), "interrupted");
    assert_eq!(lines[0].figures.unwrap().total_steps, 30);
    assert!(lines[0].reason.is_some());
    assert!(lines[1].state.is_running() && lines[1].figures.is_none());
    assert_eq!(
        (lines[1].recipe.as_str(), lines[1].device.as_deref()),
        ("smoke", Some("auto"))
    );
    assert!(
        lines[1]
            .started
            .as_deref()
            .is_some_and(|started| started.starts_with("20"))
    );
    drop(live);
    let again = super::lines(home.path(), &lines).unwrap();
    assert_eq!(again[1].state.name(), "interrupted");
    assert!(Arc::ptr_eq(&again[0], &lines[0]));
}

#[test]
fn only_what_has_changed_is_read_again() {
    let home = tempfile::tempdir().unwrap();
    let kept = TestRun::new("2026-01-01T00:00:00Z").write(home.path());
    let changed = TestRun::new("2026-01-02T00:00:00Z").write(home.path());
    let gone = TestRun::new("2026-01-03T00:00:00Z").write(home.path());
    let before = listed(home.path());
    assert_eq!(before.len(), 3);
    fs::write(changed.join("report.html"), "<html>").unwrap();
    fs::remove_dir_all(gone).unwrap();
    TestRun::new("2026-01-04T00:00:00Z").write(home.path());
    let after = lines(home.path(), &before).unwrap();
    assert_eq!(after.len(), 3);
    assert_eq!(after[0].folder, kept);
    assert!(Arc::ptr_eq(&after[0], &before[0]));
    assert!(!before[1].has_report && after[1].has_report);
    assert_eq!(after[2].started.as_deref(), Some("2026-01-04T00:00:00Z"));
}

#[test]
fn a_broken_folder_is_a_line_with_its_reason_and_hides_no_other() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("00000000-nothing")).unwrap();
    let write = |day: u32| TestRun::new(&format!("2026-01-{day:02}T00:00:00Z")).write(home.path());
    fs::write(write(1).join(MANIFEST), "{\"version\": 1,").unwrap();
    fs::write(write(2).join(SUMMARY), "{\"version\": 99}").unwrap();
    fs::remove_file(write(3).join(RECIPE)).unwrap();
    write(4);
    let found: Vec<_> = listed(home.path())
        .iter()
        .map(|line| (line.state.name(), line.code.clone().unwrap_or_default()))
        .collect();
    let found: Vec<_> = found
        .iter()
        .map(|(state, code)| (*state, code.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("broken", "file_not_found"),
            ("broken", "run_damaged"),
            ("broken", "run_too_new"),
            ("broken", "file_not_found"),
            ("ok", ""),
        ]
    );
    let lines = listed(home.path());
    assert!(
        lines
            .iter()
            .filter(|line| line.state == LineState::Broken)
            .all(|line| line.reason.is_some())
    );
    assert_eq!(lines[1].started.as_deref(), Some("2026-01-01T00:00:00Z"));
}

#[test]
fn many_runs_stay_in_order_over_several_threads() {
    let home = tempfile::tempdir().unwrap();
    for number in 0..3 * RUNS_PER_THREAD {
        let (hour, minute) = (number / 60, number % 60);
        TestRun::new(&format!("2026-01-01T{hour:02}:{minute:02}:00Z"))
            .steps(4)
            .write(home.path());
    }
    let lines = listed(home.path());
    assert_eq!(lines.len(), 3 * RUNS_PER_THREAD);
    assert!(lines.is_sorted_by(|one, other| one.started < other.started));
}

#[test]
fn no_folder_of_runs_is_an_empty_list() {
    let home = tempfile::tempdir().unwrap();
    assert!(listed(&home.path().join("runs")).is_empty());
}
