//! Base and tuned model side by side: which run, what is asked, how the answers come, and what they are worth.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Shown, show};
use egui::{Key, Modifiers};
use egui_kittest::{Harness, kittest::Queryable};
use tunesmith_lab::{testing::TestRun, text_to_sql::TextToSql};
use tunesmith_protocol::{
    Answer, EngineError, Finish, Notice, PromptText, RunStatus, Sampling, Side, StopHow, TaskWork,
};
use tunesmith_setup::Folders;
use tunesmith_ui::{
    commands::Command,
    pages::{
        self, runs,
        try_it::{TryItView, try_it_ui},
    },
    saved::Saved,
    state::{Page, State},
};

/// High enough that all of the page can be clicked.
const SIZE: [f32; 2] = [1280.0, 3200.0];

/// A window at this page, whose runs lie in a home of its own.
struct Home {
    home: tempfile::TempDir,
    state: State,
}

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("machine");
        let mut state = State::new(Folders::all_under(home.path()), Saved::default(), root);
        state.page = Page::TryIt;
        Self { home, state }
    }

    /// With a run for each of these minutes.
    fn with_runs(minutes: &[u32]) -> Self {
        let home = Self::new();
        for minute in minutes {
            TestRun::new(&format!("2026-01-01T00:{minute:02}:00Z")).write(&home.state.folders.runs());
        }
        home
    }

    fn shown<'a>(mut self) -> (Harness<'a, Shown<TryItView>>, tempfile::TempDir) {
        settle(&mut self.state);
        let mut harness = show(self.state, try_it_ui, SIZE, true, false);
        harness.run_ok();
        (harness, self.home)
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

/// Carries out what the page asked to be changed, and begins what it asked to be begun.
fn carry_out(harness: &mut Harness<'_, Shown<TryItView>>) -> Vec<Command> {
    let shown = harness.state_mut();
    let mut rest = Vec::new();
    for command in std::mem::take(&mut shown.asked) {
        match command {
            Command::Do(action) => {
                if let Some(work) = (action.change)(&mut shown.state) {
                    work.run()(&mut shown.state);
                }
            }
            Command::Start(work) => {
                let now_secs = shown.state.now_secs;
                shown.state.tasks.begin(*work, now_secs);
            }
            other => rest.push(other),
        }
    }
    settle(&mut shown.state);
    harness.run_ok();
    rest
}

fn has(harness: &Harness<'_, Shown<TryItView>>, text: &str) -> bool {
    harness.query_all_by_label_contains(text).next().is_some()
}

/// What the page asked the models.
fn asked(harness: &Harness<'_, Shown<TryItView>>) -> TaskWork {
    harness
        .state()
        .state
        .tasks
        .last(|task| matches!(task.work, TaskWork::Answer { .. }))
        .unwrap()
        .work
        .clone()
}

fn hear(harness: &mut Harness<'_, Shown<TryItView>>, notice: impl FnOnce(u64) -> Notice) {
    let state = &mut harness.state_mut().state;
    let task = state.tasks.running().unwrap().id;
    let now_secs = state.now_secs;
    if let Some(task) = state.tasks.apply(notice(task), now_secs) {
        pages::task_ended(state, task);
    }
    settle(state);
    harness.run_ok();
}

fn piece(side: Side, text: &str) -> impl FnOnce(u64) -> Notice {
    let text = text.to_owned();
    move |task| Notice::Piece { task, side, text }
}

fn answered(side: Side, text: &str, tokens: u64) -> impl FnOnce(u64) -> Notice {
    let answer = Answer {
        id: "0".to_owned(),
        text: text.to_owned(),
        tokens,
        finish: Finish::Stop,
    };
    move |task| Notice::Answered { task, side, answer }
}

fn ended(status: RunStatus, failure: Option<EngineError>) -> impl FnOnce(u64) -> Notice {
    move |task| Notice::Ended {
        task,
        status,
        run: None,
        result: serde_json::Value::Null,
        failure,
        last_lines: Vec::new(),
    }
}

fn gold(number: usize) -> String {
    TextToSql::load().unwrap().test[number - 1].sql.clone()
}

#[test]
fn without_an_adapter_the_page_says_what_will_be_here() {
    let home = Home::new();
    TestRun::new("2026-01-01T00:00:00Z")
        .status(RunStatus::Oom)
        .write(&home.state.folders.runs());
    let (mut harness, _home) = home.shown();
    harness.get_by_label("There is no tuned model to try yet");
    harness.get_by_label("Choose a recipe…").click();
    harness.run_ok();
    assert!(matches!(carry_out(&mut harness)[..], [Command::Go(Page::Tune)]));
}

#[test]
fn the_newest_run_with_an_adapter_is_chosen_and_another_one_can_be() {
    let home = Home::with_runs(&[1, 2]);
    TestRun::new("2026-01-01T00:03:00Z")
        .status(RunStatus::Crashed)
        .write(&home.state.folders.runs());
    let (mut harness, _home) = home.shown();
    harness.get_by_label("Ask both").click();
    harness.run_ok();
    carry_out(&mut harness);
    assert!(matches!(asked(&harness), TaskWork::Answer { run, .. } if run.starts_with("20260101-000200")));
    hear(&mut harness, ended(RunStatus::Ok, None));
    harness.get_by_label("Tuned model of").click();
    harness.run_ok();
    let list = &harness.state().state.pages.runs.list;
    let older = list
        .lines()
        .iter()
        .find(|line| line.id.starts_with("20260101-000100"))
        .unwrap();
    let older = runs::name(older, list.zone());
    harness.get_by_label(&older).click();
    harness.run_ok();
    carry_out(&mut harness);
    harness.get_by_label("Ask both").click();
    harness.run_ok();
    carry_out(&mut harness);
    assert!(matches!(asked(&harness), TaskWork::Answer { run, .. } if run.starts_with("20260101-000100")));
}

#[test]
fn own_words_are_asked_with_ctrl_enter_and_sampled_as_chosen() {
    let (mut harness, _home) = Home::with_runs(&[1]).shown();
    harness.get_by_label("Your own words").click();
    harness.run_ok();
    assert!(has(&harness, "Write a question first"));
    harness.get_by_label("Your question").focus();
    harness.run_ok();
    harness
        .get_by_label("Your question")
        .type_text("How many cats are there?");
    harness.run_ok();
    harness.get_by_label("How they answer").click();
    harness.run_ok();
    for name in ["Longest answer", "Temperature", "Top p", "Seed"] {
        assert!(has(&harness, name), "{name}");
    }
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    carry_out(&mut harness);
    let TaskWork::Answer {
        prompt,
        sides,
        max_new_tokens,
        sampling,
        ..
    } = asked(&harness)
    else {
        unreachable!("an answer was asked for");
    };
    assert_eq!(prompt, PromptText::Text("How many cats are there?".to_owned()));
    assert_eq!(sides, [Side::Base, Side::Tuned]);
    assert_eq!((max_new_tokens, sampling), (256, None::<Sampling>));
}

#[test]
fn questions_are_stepped_through_and_picked_by_seed() {
    let (mut harness, _home) = Home::with_runs(&[1]).shown();
    let set = TextToSql::load().unwrap();
    harness.get_by_label(&set.test[0].question);
    assert!(has(&harness, "CREATE TABLE"));
    harness.get_by_label("Next").click();
    harness.run_ok();
    harness.get_by_label(&set.test[1].question);
    harness.get_by_label("Previous").click();
    harness.run_ok();
    harness.get_by_label("Previous").click();
    harness.run_ok();
    harness.get_by_label(&set.test[set.test.len() - 1].question);
    harness.get_by_label("Pick one").click();
    harness.run_ok();
    harness.get_by_label("Ask both").click();
    harness.run_ok();
    carry_out(&mut harness);
    let TaskWork::Answer {
        prompt: PromptText::Question(number),
        ..
    } = asked(&harness)
    else {
        unreachable!("a question was asked");
    };
    assert_eq!(
        number,
        tunesmith_data::epoch_order(set.test.len(), 1, 0)[0] + 1,
        "the seed decides"
    );
}

#[test]
fn answers_come_piece_by_piece_one_model_after_the_other_and_are_scored() {
    let (mut harness, _home) = Home::with_runs(&[1]).shown();
    harness.get_by_label("Ask both").click();
    harness.run_ok();
    carry_out(&mut harness);
    harness.get_by_label("The base model answers…");
    assert!(has(&harness, "Waits for the other one"));
    assert!(!has(&harness, "The gold answer"));
    hear(&mut harness, piece(Side::Base, "I think "));
    hear(&mut harness, piece(Side::Base, "there are three"));
    assert!(has(&harness, "I think there are three"));
    harness.state_mut().state.now_secs += 3.5;
    hear(
        &mut harness,
        answered(Side::Base, "I think there are three cats", 7),
    );
    harness.get_by_label("The tuned model answers…");
    assert!(has(&harness, "7 tokens in 3.50 s, loading included"));
    assert!(has(&harness, "Wrong:"));
    harness.state_mut().state.now_secs += 2.0;
    hear(&mut harness, answered(Side::Tuned, &gold(1), 12));
    hear(&mut harness, ended(RunStatus::Ok, None));
    harness.get_by_label("Question 1: the tuned model is right, the base model is not");
    assert!(has(&harness, "12 tokens in 2.00 s, loading included"));
    assert!(has(&harness, "Right: it is the gold query"));
    harness.get_by_label("The gold answer:");
}

#[test]
fn a_stop_keeps_what_was_written() {
    let (mut harness, _home) = Home::with_runs(&[1]).shown();
    harness.get_by_label("Ask both").click();
    harness.run_ok();
    carry_out(&mut harness);
    hear(&mut harness, piece(Side::Base, "SELECT"));
    assert!(!has(&harness, "Ask both"));
    harness.get_by_label("Stop").click();
    harness.run_ok();
    assert!(matches!(
        carry_out(&mut harness)[..],
        [Command::Stop(StopHow::Now)]
    ));
    harness.state_mut().state.tasks.stopping(StopHow::Now);
    harness.run_ok();
    harness.get_by_label("Stopping…");
    hear(&mut harness, ended(RunStatus::Cancelled, None));
    assert!(has(&harness, "Stopped before its end") && has(&harness, "SELECT"));
    harness.get_by_label("Ask both");
}

#[test]
fn a_failure_is_a_panel_and_the_form_stays() {
    let (mut harness, _home) = Home::with_runs(&[1]).shown();
    harness.get_by_label("Ask both").click();
    harness.run_ok();
    carry_out(&mut harness);
    let failure = EngineError {
        code: "not_possible".to_owned(),
        message: "the model file has changed since the run".to_owned(),
        hints: vec!["put the old model file back, or train again".to_owned()],
    };
    hear(&mut harness, ended(RunStatus::Crashed, Some(failure)));
    assert!(has(&harness, "the model file has changed since the run"));
    assert!(has(&harness, "put the old model file back"));
    harness.get_by_label("Ask both");
}

#[test]
fn while_a_training_runs_nothing_can_be_asked_and_the_page_says_why() {
    let mut home = Home::with_runs(&[1]);
    home.state
        .tasks
        .begin(TaskWork::Resume { run: "r1".to_owned() }, 0.0);
    let (mut harness, _home) = home.shown();
    assert!(has(&harness, "Fine-tuning is under way"));
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_ok();
    assert!(harness.state().asked.is_empty());
}

#[test]
fn the_adapter_can_be_used_elsewhere() {
    let (mut harness, _home) = Home::with_runs(&[1]).shown();
    harness.get_by_label("Open the folder").click();
    harness.get_by_label("Copy the adapter's folder").click();
    harness.get_by_label("Copy the command").click();
    harness.run_ok();
    let asked = carry_out(&mut harness);
    let [
        Command::Open(folder),
        Command::Copy { text: path, .. },
        Command::Copy { text: lines, .. },
    ] = &asked[..]
    else {
        unreachable!("opened and copied twice");
    };
    assert!(folder.ends_with("adapter") && folder.as_path() == std::path::Path::new(path));
    assert!(
        lines.contains("gguf_file=\"SmolLM2-135M-Instruct.Q4_1.gguf\""),
        "{lines}"
    );
    assert!(lines.contains("PeftModel.from_pretrained(base, "), "{lines}");
    assert!(has(&harness, "merged into a quantised base"));
}

#[test]
fn what_was_written_survives_a_restart() {
    let (mut harness, _home) = Home::with_runs(&[1]).shown();
    harness.get_by_label("Your own words").click();
    harness.run_ok();
    harness.get_by_label("Your question").focus();
    harness.run_ok();
    harness.get_by_label("Your question").type_text("a long question");
    harness.run_ok();
    let mut saved = Saved::default();
    harness.state().view.keep(&mut saved);
    let mut again = Home::with_runs(&[1]);
    settle(&mut again.state);
    let mut harness = show(again.state, try_it_ui, SIZE, true, false);
    harness.state_mut().view = TryItView::restored(&saved);
    harness.run_ok();
    let field = harness.get_by_label("Your question");
    assert_eq!(field.value().as_deref(), Some("a long question"));
}

/// Two answers to the first question.
fn pictured() -> Home {
    let mut home = Home::with_runs(&[1]);
    settle(&mut home.state);
    // The same on every machine, wherever its clock stands.
    let lines = home.state.pages.runs.list.lines().to_vec();
    let run = lines[0].id.clone();
    home.state.pages.runs.take(Ok(lines), jiff::tz::TimeZone::UTC);
    let task = home.state.tasks.begin(
        TaskWork::Answer {
            run,
            prompt: PromptText::Question(1),
            sides: vec![Side::Base, Side::Tuned],
            max_new_tokens: 256,
            sampling: None,
        },
        0.0,
    );
    for (secs, notice) in [
        (
            3.5,
            answered(
                Side::Base,
                "To answer this question, you can look at the table and count the rows that fit.",
                19,
            )(task),
        ),
        (6.1, answered(Side::Tuned, &gold(1), 14)(task)),
        (6.2, ended(RunStatus::Ok, None)(task)),
    ] {
        home.state.now_secs = secs;
        home.state.tasks.apply(notice, secs);
        settle(&mut home.state);
    }
    home
}

fn picture(results: &mut egui_kittest::SnapshotResults, name: &str, dark: bool) {
    let home = pictured();
    let mut harness = show(home.state, try_it_ui, [1280.0, 820.0], dark, true);
    harness.run_ok();
    // The home's path is another one each time.
    let folder = harness
        .query_all_by_label_contains("/adapter")
        .map(|node| node.rect());
    let masks: Vec<egui::Rect> = folder.collect();
    for rect in masks {
        harness.mask(rect);
    }
    harness.snapshot(name);
    results.extend_harness(&mut harness);
}

#[test]
fn pictures_of_two_answers() {
    let mut results = egui_kittest::SnapshotResults::new();
    picture(&mut results, "try-it-dark", true);
    picture(&mut results, "try-it-light", false);
}
