//! The page of the report: what it says, saving it, and laying somebody else's beside it.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use common::{Opened, Shown, open, settle, show};
use egui::{Key, Modifiers, accesskit::Role};
use egui_kittest::{Harness, kittest::Queryable};
use jiff::tz::TimeZone;
use tunesmith_lab::{
    evaluate::AnswerRecord,
    experiment::{
        Experiment,
        testing::{TestSlot, write_experiment},
    },
    run::lines,
    testing::TestRun,
    text_to_sql::{ScoredAnswer, TextToSql},
};
use tunesmith_protocol::{Finish, RunStatus};
use tunesmith_report::{About, Report};
use tunesmith_setup::Folders;
use tunesmith_ui::{
    app::App,
    pages::report::{self, Files, ReportView, Saving, Subject},
    state::{Page, State},
};

fn run(day: u32) -> TestRun {
    TestRun::new(&format!("2026-01-{day:02}T12:30:00Z"))
}

/// An app on the page of the report, with these runs in its home and a folder for documents.
fn opened<'a>(write: impl FnOnce(&Path)) -> Opened<'a> {
    opened_in(|folders| write(&folders.runs()))
}

/// The same, with whatever else lies in its home.
fn opened_in<'a>(write: impl FnOnce(&Folders)) -> Opened<'a> {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("documents")).unwrap();
    write(&Folders::all_under(home.path()));
    let mut opened = open(home);
    // Tall enough for all of it: what is scrolled out of sight has no name.
    opened.harness.set_size(egui::vec2(1280.0, 3000.0));
    opened.harness.step();
    let documents = documents(&opened);
    let state = opened.state();
    state.saved.welcomed = true;
    state.pages.report.documents = Some(documents);
    state.go(Page::Report);
    settle(&mut opened);
    opened
}

fn documents(opened: &Opened<'_>) -> PathBuf {
    opened.home.path().join("documents")
}

fn click(opened: &mut Opened<'_>, label: &str) {
    opened.harness.get_by_label(label).click();
    opened.harness.step();
    settle(opened);
}

fn has(harness: &Harness<'_, Option<App>>, text: &str) -> bool {
    harness.query_all_by_label_contains(text).next().is_some()
}

/// Types over what a field holds.
fn type_into(opened: &mut Opened<'_>, field: &str, text: &str) {
    opened
        .harness
        .get_by_role_and_label(Role::TextInput, field)
        .focus();
    opened.harness.step();
    opened.harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
    opened.harness.step();
    opened
        .harness
        .get_by_role_and_label(Role::TextInput, field)
        .type_text(text);
    opened.harness.run_steps(2);
}

fn saved_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn without_a_run_there_is_no_report_and_another_can_be_opened_all_the_same() {
    let opened = opened(|_| {});
    opened.harness.get_by_label("No run to report yet");
    opened
        .harness
        .get_by_role_and_label(Role::TextInput, "Report file");
}

#[test]
fn the_last_run_that_ended_is_shown_in_the_words_of_its_report() {
    let opened = opened(|runs| {
        run(1).recipe("smoke").write(runs);
        run(2).matches(3, 62).write(runs);
    });
    let harness = &opened.harness;
    assert!(has(harness, "learned text-to-SQL here: 3.0 → 62.0 points"));
    harness.get_by_label("Valid: 96 of 96 steps count");
    harness.get_by_label("Steady speed");
    harness.get_by_label("MFU, LoRA-exact");
    harness.get_by_label_contains("How every number was counted");
    harness.get_by_label("What is taken out before anybody sees it");
}

#[test]
fn a_run_that_failed_has_a_report_too_and_one_without_a_step_says_why_not() {
    let mut opened = opened(|runs| {
        run(1).status(RunStatus::Oom).steps(0).write(runs);
        run(2).status(RunStatus::Oom).steps(12).write(runs);
    });
    assert!(has(&opened.harness, "ran out of memory after 12 steps"));
    let first = opened.state().pages.runs.list.lines()[0].id.clone();
    opened.state().pages.report.choose(Subject::Run(first));
    settle(&mut opened);
    opened.harness.get_by_label("This run has no report");
    opened.harness.get_by_label_contains("before its first step");
}

#[test]
fn a_report_is_saved_with_its_json_and_replaced_only_when_that_is_agreed() {
    let mut opened = opened(|runs| {
        run(1).write(runs);
    });
    let folder = documents(&opened);
    opened.harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    opened.harness.step();
    settle(&mut opened);
    let names = saved_in(&folder);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with("tunesmith-20260101-123000-quickstart"));
    assert_eq!(Path::new(&names[0]).extension().unwrap(), "html");
    let json = folder.join(&names[1]);
    Report::from_json(&fs::read_to_string(&json).unwrap()).unwrap();
    opened.harness.get_by_label("saved");

    fs::write(&json, "somebody's own").unwrap();
    click(&mut opened, "Save");
    opened.harness.get_by_label_contains("is there already");
    assert_eq!(fs::read_to_string(&json).unwrap(), "somebody's own");
    click(&mut opened, "Replace");
    assert!(Report::from_json(&fs::read_to_string(&json).unwrap()).is_ok());
    assert!(matches!(opened.state().pages.report.saving, Saving::Saved(_)));
    assert_eq!(saved_in(&folder).len(), 2, "nothing is left beside");
}

#[test]
fn agreeing_to_replace_one_file_is_no_leave_to_replace_another() {
    let mut opened = opened(|runs| {
        run(1).write(runs);
    });
    let folder = documents(&opened);
    for name in ["a.html", "b.html"] {
        fs::write(folder.join(name), "mine").unwrap();
    }
    type_into(
        &mut opened,
        "Save as",
        &folder.join("a.html").display().to_string(),
    );
    click(&mut opened, "Save");
    opened.harness.get_by_label("Replace");
    type_into(
        &mut opened,
        "Save as",
        &folder.join("b.html").display().to_string(),
    );
    click(&mut opened, "Save");
    assert_eq!(fs::read_to_string(folder.join("b.html")).unwrap(), "mine");
    assert!(opened.state().pages.report.saving.asks());
}

#[test]
fn a_folder_that_is_not_there_is_told_and_nothing_is_written() {
    let mut opened = opened(|runs| {
        run(1).write(runs);
    });
    let path = documents(&opened).join("missing").join("x.html");
    type_into(&mut opened, "Save as", &path.display().to_string());
    click(&mut opened, "Save");
    opened.harness.get_by_label("The report was not saved");
    assert!(!path.parent().unwrap().exists());
}

#[test]
fn the_headline_is_copied_as_text() {
    let mut opened = opened(|runs| {
        run(1).matches(3, 62).write(runs);
    });
    opened.harness.get_by_label("Copy the headline").click();
    opened.harness.run_steps(3);
    let told = opened
        .state()
        .toasts
        .iter()
        .any(|toast| toast.text == "Copied the headline");
    assert!(told);
}

#[test]
fn files_that_are_no_report_are_refused_in_words() {
    let mut opened = opened(|runs| {
        run(1).write(runs);
    });
    let folder = documents(&opened);
    for (name, text, said) in [
        (
            "cut.json",
            "{\"schema_version\": 1, \"headline\": {",
            "this report is damaged",
        ),
        ("new.json", "{\"schema_version\": 99}", "schema version 99"),
        ("other.json", "[1, 2]", "this is not a report"),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        type_into(&mut opened, "Report file", &path.display().to_string());
        click(&mut opened, "Open");
        opened
            .harness
            .get_by_label("This file cannot be opened as a report");
        opened.harness.get_by_label_contains(said);
    }
    click(&mut opened, "Close");
    assert!(!opened.state().pages.report.beside.is_open());
}

#[test]
fn another_report_is_laid_beside_and_what_must_not_be_compared_is_named() {
    let mut opened = opened(|runs| {
        run(1).recipe("smoke").steps(20).write(runs);
        run(2).write(runs);
    });
    // The other one is the report of the first run, saved somewhere.
    let first = opened.state().pages.runs.list.lines()[0].id.clone();
    let last = opened.state().pages.runs.list.lines()[1].id.clone();
    opened.state().pages.report.choose(Subject::Run(first));
    settle(&mut opened);
    click(&mut opened, "Save");
    let other = match &opened.state().pages.report.saving {
        Saving::Saved(Files::Page(files)) => files.json.clone(),
        other => panic!("{other:?}"),
    };
    opened.state().pages.report.choose(Subject::Run(last));
    settle(&mut opened);
    type_into(&mut opened, "Report file", &other.display().to_string());
    click(&mut opened, "Open");
    opened.harness.get_by_label("First: this machine's report");
    opened.harness.get_by_label("Second: the opened report");
    opened.harness.get_by_label_contains("another recipe: ");
    opened
        .harness
        .get_by_label_contains("Everything in which their surroundings differ");

    // Laid beside itself nothing stands against comparing.
    let same = other.with_file_name("same.html");
    type_into(&mut opened, "Save as", &same.display().to_string());
    click(&mut opened, "Save");
    type_into(&mut opened, "Report file", &same.display().to_string());
    click(&mut opened, "Open");
    opened
        .harness
        .get_by_label("All figures may be compared, as one run against one run");
}

/// Two arms in the order A B B A A B.
fn write_six_runs(folders: &Folders) {
    let speeds = [482.0, 287.0, 289.5, 485.0, 480.5, 288.0];
    let slots: Vec<TestSlot> = speeds
        .iter()
        .enumerate()
        .map(|(minute, speed)| {
            let run = TestRun::new(&format!("2026-01-01T00:{minute:02}:00Z"))
                .tokens_per_sec(*speed)
                .without_scores();
            TestSlot::Run(run)
        })
        .collect();
    let experiment = Experiment::load("bf16-or-4bit").unwrap();
    write_experiment(folders, &experiment, "cpu", &slots);
}

#[test]
fn an_experiment_has_a_report_too_and_it_is_saved_in_any_form() {
    let mut opened = opened_in(write_six_runs);
    click(&mut opened, "An experiment");
    let subject = opened.state().pages.report.own().ready().unwrap().subject.clone();
    assert!(matches!(subject, Subject::Experiment(_)));
    opened
        .harness
        .get_by_label("Everything that the report tells of this machine");
    click(&mut opened, "Save");
    let folder = documents(&opened);
    let names = saved_in(&folder);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with("tunesmith-bf16-or-4bit-"), "{names:?}");
    let json = fs::read_to_string(folder.join(&names[1])).unwrap();
    assert_eq!(Report::from_json(&json).unwrap().about, About::Experiment);
    for (name, begins) in [("post.md", &b"#"[..]), ("card.png", &b"\x89PNG"[..])] {
        let path = folder.join(name);
        type_into(&mut opened, "Save as", &path.display().to_string());
        click(&mut opened, "Save");
        assert!(fs::read(&path).unwrap().starts_with(begins), "{name}");
    }
    assert_eq!(saved_in(&folder).len(), 4, "each of them alone");
    // The training that was there before is there again.
    click(&mut opened, "A training");
    let subject = opened.state().pages.report.own().ready().unwrap().subject.clone();
    assert!(matches!(subject, Subject::Run(_)));
}

#[test]
fn where_nothing_was_measured_the_page_says_so_and_where_that_changes() {
    let mut opened = opened(|runs| {
        run(1).write(runs);
    });
    click(&mut opened, "The calibration");
    opened
        .harness
        .get_by_label("This device has no calibration to report");
    opened.harness.get_by_label_contains("captured machine");
    click(&mut opened, "An experiment");
    opened.harness.get_by_label("No experiment to report yet");
    opened.harness.get_by_label("Compare something").click();
    opened.harness.run_steps(3);
    assert_eq!(opened.state().page, Page::Compare);
}

#[test]
fn at_twice_the_size_in_a_small_window_no_button_leaves_it() {
    // A window of 1024 points at 200 %.
    const WIDTH: f32 = 512.0;
    let mut opened = opened(|runs| {
        run(1).write(runs);
    });
    opened.harness.set_size(egui::vec2(WIDTH, 5000.0));
    opened.harness.run_steps(4);
    for label in [
        "Save",
        "Choose a place…",
        "Save a picture…",
        "The calibration",
        "Choose a file…",
    ] {
        let right = opened.harness.get_by_label(label).rect().right();
        assert!(right <= WIDTH, "{label} ends at {right}");
    }
}

/// A file that was let go over the window.
#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.0).map_err(|error| error.to_string())
    }
}

#[test]
fn a_dropped_file_is_opened() {
    let mut opened = opened(|runs| {
        run(1).write(runs);
    });
    let path = documents(&opened).join("cut.json");
    fs::write(&path, "{\"schema_version\": 1,").unwrap();
    opened
        .harness
        .input_mut()
        .dropped_files
        .push(Arc::new(Dropped(path)));
    opened.harness.step();
    settle(&mut opened);
    assert_eq!(
        opened.state().pages.report.beside.problem().unwrap().code,
        "report_damaged"
    );
}

/// The answers of a run, of 100 questions, so many of them right before and after.
fn write_answers(folder: &Path, right: [usize; 2]) {
    let set = TextToSql::load().unwrap();
    fs::create_dir_all(folder.join("answers")).unwrap();
    for (name, right) in ["base", "tuned"].into_iter().zip(right) {
        let mut text = String::new();
        for (place, question) in set.test.iter().take(100).enumerate() {
            let matches = place < right;
            let answer = if matches {
                question.sql.clone()
            } else {
                "SELECT name FROM player".to_owned()
            };
            let record = AnswerRecord {
                question: question.clone(),
                tokens: 20,
                finish: Finish::Stop,
                scored: ScoredAnswer {
                    sql: Some(answer.clone()),
                    exact: matches,
                    executes: true,
                    matches,
                    error: None,
                },
                answer,
            };
            text.push_str(&serde_json::to_string(&record).unwrap());
            text.push('\n');
        }
        fs::write(folder.join("answers").join(format!("{name}.jsonl")), text).unwrap();
    }
}

/// The page alone with the report of a run, in this size.
fn pictured<'a>(size: [f32; 2], dark: bool) -> Harness<'a, Shown<ReportView>> {
    let home = tempfile::tempdir().unwrap();
    let folder = run(2).matches(3, 62).write(home.path());
    write_answers(&folder, [3, 62]);
    let mut state = State::for_tests();
    state.pages.report.documents = Some(PathBuf::from("/home/me/Documents"));
    state
        .pages
        .runs
        .take(Ok(lines(home.path(), &[]).unwrap()), TimeZone::UTC);
    while let Some(work) = report::needs(&mut state) {
        work.run()(&mut state);
    }
    let mut harness = show(state, report::report_ui, size, dark, true);
    harness.run_steps(4);
    harness
}

#[test]
fn pictures_of_a_report() {
    let mut results = egui_kittest::SnapshotResults::new();
    for (name, dark) in [("report-dark", true), ("report-light", false)] {
        let mut harness = pictured([1280.0, 820.0], dark);
        harness.snapshot(name);
        results.extend_harness(&mut harness);
    }
}
