//! Base and tuned model side by side: the same question to both, and what it takes to use the adapter elsewhere.

mod answers;
mod ask;
mod chosen;
mod elsewhere;
mod question;

use std::{path::Path, sync::Arc};

use egui::{ComboBox, Ui};
use tunesmith_lab::{
    run::RunLine,
    text_to_sql::{ScoredAnswer, TextToSql},
};
use tunesmith_protocol::{PromptText, Side, TaskId, TaskWork};
use tunesmith_report::format::count;

use super::runs::{self, RunsState};
use crate::{
    commands::Commands,
    problem,
    saved::Saved,
    services::Work,
    state::{Loadable, Page, Problem, State, Task},
    theme, widgets,
};

pub use chosen::{Base, ChosenRun};
use question::Asked;

/// Runs that can be chosen here; older ones are among the runs.
const MOST_RUNS: usize = 200;

/// What the page keeps.
#[derive(Default)]
pub struct TryItState {
    /// Id of the run whose models answer; the newest where none was chosen.
    chosen: Option<String>,
    /// What is known of it.
    run: Loadable<Arc<ChosenRun>>,
    /// The test questions.
    questions: Loadable<Arc<TextToSql>>,
    /// The answering task that is shown.
    task: Option<TaskId>,
    /// When each side began and ended, in seconds of the window's clock.
    times: [SideTimes; 2],
    /// What each side's answer to a test question is worth.
    scores: [Loadable<ScoredAnswer>; 2],
}

/// When a side answered.
#[derive(Clone, Copy, Debug, Default)]
struct SideTimes {
    began_secs: Option<f64>,
    ended_secs: Option<f64>,
}

impl SideTimes {
    fn took_secs(self) -> Option<f64> {
        Some((self.ended_secs? - self.began_secs?).max(0.0))
    }
}

impl TryItState {
    /// Lets the models of this run answer from now on.
    pub fn choose(&mut self, run: String) {
        self.chosen = Some(run);
        self.run = Loadable::Unasked;
    }

    fn score(&self, side: Side) -> Option<&ScoredAnswer> {
        self.scores[side as usize].ready()
    }
}

/// How it is looked at.
#[derive(Default)]
pub struct TryItView {
    form: ask::Form,
}

impl TryItView {
    /// The form that was kept.
    pub fn restored(saved: &Saved) -> Self {
        Self {
            form: saved.form("try_it").unwrap_or_default(),
        }
    }

    /// Keeps the form.
    pub fn keep(&self, saved: &mut Saved) {
        saved.keep_form("try_it", &self.form);
    }
}

/// The runs that have an adapter, newest first.
fn with_adapter(state: &State) -> impl Iterator<Item = &RunLine> {
    let lines = state.pages.runs.list.lines().iter().rev();
    lines
        .map(AsRef::as_ref)
        .filter(|line: &&RunLine| line.has_adapter)
}

/// A run in few words; its id where it is not known.
fn run_name(state: &State, id: &str) -> String {
    let list = &state.pages.runs.list;
    list.line(id)
        .map_or_else(|| id.to_owned(), |line| runs::name(line, list.zone()))
}

/// The task that answers or has answered last.
fn answering(state: &State) -> Option<&Task> {
    state
        .tasks
        .last(|task| matches!(task.work, TaskWork::Answer { .. }))
}

/// Follows the answers, whatever page is shown: called between frames.
pub fn follow(state: &mut State) {
    let now_secs = state.now_secs;
    let State { tasks, pages, .. } = state;
    let page = &mut pages.try_it;
    let Some(task) = tasks.last(|task| matches!(task.work, TaskWork::Answer { .. })) else {
        return;
    };
    if page.task != Some(task.id) {
        page.task = Some(task.id);
        page.times = Default::default();
        page.scores = Default::default();
    }
    let TaskWork::Answer { sides, .. } = &task.work else {
        return;
    };
    // One answers after the other.
    let mut free_secs = Some(task.began_secs);
    for side in sides {
        let times = &mut page.times[*side as usize];
        times.began_secs = times.began_secs.or(free_secs);
        if task.answer(*side).whole.is_some() {
            times.ended_secs = times.ended_secs.or(Some(now_secs));
        }
        free_secs = times.ended_secs;
    }
}

/// The work that it needs.
pub fn needs(state: &mut State) -> Option<Work> {
    RunsState::refresh(state)
        .or_else(|| run_needs(state))
        .or_else(|| question_needs(state))
        .or_else(|| score_needs(state))
}

fn run_needs(state: &mut State) -> Option<Work> {
    if state.pages.try_it.chosen.is_none() && state.pages.runs.is_settled() {
        let first = with_adapter(state).next().map(|line| line.id.clone());
        state.pages.try_it.chosen = first;
    }
    let page = &mut state.pages.try_it;
    if !page.run.is_unasked() {
        return None;
    }
    let id = page.chosen.clone()?;
    page.run = Loadable::Loading;
    let folder = state.folders.runs().join(&id);
    Some(Work::awaited(
        "reading the run",
        move || ChosenRun::read(&folder).map(Arc::new),
        move |state, read| {
            let page = &mut state.pages.try_it;
            if page.chosen.as_deref() == Some(id.as_str()) {
                page.run = read.into();
            }
        },
    ))
}

fn question_needs(state: &mut State) -> Option<Work> {
    let page = &mut state.pages.try_it;
    if !page.questions.is_unasked() {
        return None;
    }
    page.questions = Loadable::Loading;
    Some(Work::awaited(
        "reading the test questions",
        || TextToSql::load().map(Arc::new).map_err(|error| problem!(error)),
        |state, read| state.pages.try_it.questions = read.into(),
    ))
}

/// What an answer to a test question is worth is told by running it, in a sandbox of its own.
fn score_needs(state: &mut State) -> Option<Work> {
    let (number, answers) = {
        let task = answering(state)?;
        let TaskWork::Answer {
            prompt: PromptText::Question(number),
            ..
        } = &task.work
        else {
            return None;
        };
        let text = |side| task.answer(side).whole.as_ref().map(|answer| answer.text.clone());
        (
            *number,
            [(Side::Base, text(Side::Base)), (Side::Tuned, text(Side::Tuned))],
        )
    };
    let page = &mut state.pages.try_it;
    let set = Arc::clone(page.questions.ready()?);
    let task = page.task?;
    let (side, text) = answers.into_iter().find_map(|(side, text)| {
        let waits = page.scores[side as usize].is_unasked();
        text.filter(|_| waits).map(|text| (side, text))
    })?;
    page.scores[side as usize] = Loadable::Loading;
    Some(Work::awaited(
        "running the answer",
        move || question::score_of(&set, number, &text),
        move |state, score| {
            let page = &mut state.pages.try_it;
            if page.task == Some(task) {
                page.scores[side as usize] = score.into();
            }
        },
    ))
}

/// A task has ended: a training may have made an adapter, which is the one to try.
pub fn task_ended(state: &mut State, task: TaskId) {
    if state.tasks.get(task).is_some_and(Task::trains) {
        let page = &mut state.pages.try_it;
        page.chosen = None;
        page.run = Loadable::Unasked;
    }
}

/// Draws it.
pub fn try_it_ui(state: &State, view: &mut TryItView, ui: &mut Ui, out: &mut Commands) {
    let page = &state.pages.try_it;
    let settled = state.pages.runs.is_settled();
    if settled && with_adapter(state).next().is_none() && answering(state).is_none() {
        nothing_ui(ui, out);
        return;
    }
    widgets::page(ui, &title(state), "", |ui| {
        widgets::panel(ui, "", |ui| {
            run_ui(state, ui, out);
            ui.add_space(theme::GRID);
            ask::ask_ui(state, &mut view.form, ui, out);
        });
        if let Loadable::Failed(problem) = &page.run {
            widgets::problem_panel(ui, "This run's models cannot answer", problem, out);
        }
        if let Some(task) = answering(state) {
            answers::answers_ui(state, task, ui, out);
        }
        if let Loadable::Ready(run) = &page.run {
            elsewhere::elsewhere_ui(run, ui, out);
        }
    });
}

fn nothing_ui(ui: &mut Ui, out: &mut Commands) {
    widgets::page(ui, "There is no tuned model to try yet", "", |ui| {
        let chosen = widgets::empty(
            ui,
            "Base and tuned model answer side by side here",
            "Once a training has ended with an adapter, you can put the same question to the model as it was and as it is now",
            Some("Choose a recipe…"),
        );
        if chosen {
            out.go(Page::Tune);
        }
    });
}

/// What is true now.
fn title(state: &State) -> String {
    let Some(task) = answering(state) else {
        return "Put the same question to the base model and to the tuned one".to_owned();
    };
    if !task.is_over() {
        return match answers::answering_side(task) {
            _ if task.stopping.is_some() => "Stopping…".to_owned(),
            Some(side) => format!("The {} model answers…", answers::name(side)),
            None => "Answering…".to_owned(),
        };
    }
    let page = &state.pages.try_it;
    let right = |side| page.score(side).map(|score| score.matches);
    match (Asked::of(state, task), right(Side::Base), right(Side::Tuned)) {
        (Some(Asked::Question { number, .. }), Some(base), Some(tuned)) => {
            let number = count(number as u64);
            match (base, tuned) {
                (false, true) => {
                    format!("Question {number}: the tuned model is right, the base model is not")
                }
                (true, false) => {
                    format!("Question {number}: the base model is right, the tuned model is not")
                }
                (true, true) => format!("Question {number}: both models are right"),
                (false, false) => format!("Question {number}: neither model is right"),
            }
        }
        _ if task.ended.as_ref().is_some_and(|ended| ended.problem.is_some()) => {
            "The models did not answer".to_owned()
        }
        _ => "Both models have been asked".to_owned(),
    }
}

fn run_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let page = &state.pages.try_it;
    let help = page
        .run
        .ready()
        .map_or_else(String::new, |run| format!("{}, on {}", run.title, run.model));
    widgets::field(ui, "Tuned model of", &help, |ui| {
        let id = page.chosen.as_deref();
        let shown = id.map_or_else(|| "reading the runs…".to_owned(), |id| run_name(state, id));
        let response = ComboBox::from_id_salt("run")
            .selected_text(&*shown)
            .width((ui.available_width() - theme::GAP).min(520.0))
            .truncate()
            .show_ui(ui, |ui| {
                for line in with_adapter(state).take(MOST_RUNS) {
                    let chosen = id == Some(line.id.as_str());
                    let entry = ui.selectable_label(chosen, run_name(state, &line.id));
                    if entry.on_hover_text(&line.id).clicked() && !chosen {
                        let run = line.id.clone();
                        out.change("choose a run", move |state| state.pages.try_it.choose(run));
                    }
                }
            })
            .response;
        response.on_hover_text(id.unwrap_or_default())
    });
    if let Loadable::Failed(problem) = state.pages.runs.read() {
        widgets::problem_panel(ui, "The runs cannot be read", problem, out);
    }
}

/// A problem of a library's error while a file of a run is read.
fn of_run(folder: &Path, what: &str) -> Problem {
    Problem::new(
        "no_adapter",
        format!("{} {what}", folder.display()),
        vec!["choose another run".to_owned()],
    )
}
