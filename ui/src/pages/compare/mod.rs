//! Compare: which way is faster and which saves memory, found out on this very device. One button runs both ways in turn,
//! shows every run as it ends, and says at the end what is more than noise and what is not.

mod begun;
mod charts;
mod ladder;
mod offers;
mod outcome;
mod reading;
mod running;
mod runs;
mod statistics;
mod words;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use egui::{Key, Modifiers, Ui};
use serde::{Deserialize, Serialize};
use tunesmith_lab::experiment::{ExperimentState, ExperimentStatus};
use tunesmith_protocol::{RunStatus, TaskId, TaskWork};

use crate::{
    chart::{ChartView, Cursor},
    commands::Commands,
    pages::{
        holders,
        tune::{self, Latest},
    },
    saved::Saved,
    services::Work,
    state::{Loadable, Page, Problem, State, Task},
    theme, widgets,
};

pub use outcome::Saving;
pub use reading::{Offer, OfferWish, Offers, Planned};

/// The page's name among the forms that are kept.
const FORM: &str = "compare";

/// What the page keeps.
#[derive(Default)]
pub struct CompareState {
    offers: Latest<OfferWish, Arc<Offers>>,
    /// Experiments that were begun, asked by how often that may have changed.
    begun: Latest<u64, Arc<Vec<Arc<ExperimentState>>>>,
    /// Where the one stands that is under way, asked by its folder and how often something was heard of it.
    live: Latest<(PathBuf, u64), Arc<ExperimentState>>,
    /// How often what was begun may have changed.
    changes: u64,
    /// The folder of the one that the user looks at.
    open: Option<PathBuf>,
    /// The user's own experiment.
    own: Option<PathBuf>,
    /// What starts once the model that is being fetched is here.
    after_fetch: Option<(TaskId, TaskWork)>,
    /// Where it stands with saving a report.
    pub saving: Saving,
}

impl CompareState {
    /// The experiment that was asked for together with a download, where that task has fetched the model.
    pub fn next_task(&mut self, task: TaskId, status: RunStatus) -> Option<TaskWork> {
        let (_, work) = self.after_fetch.take_if(|(fetch, _)| *fetch == task)?;
        (status == RunStatus::Ok).then_some(work)
    }

    /// The experiments that can be run, as they were read last.
    pub fn offers(&self) -> Option<&Offers> {
        Some(self.offers.last()?.as_ref().ok()?.as_ref())
    }

    /// Why it is not known what can be run, where it is not.
    pub fn offers_problem(&self) -> Option<&Problem> {
        self.offers.last()?.as_ref().err()
    }

    /// The experiments that were begun, newest first, as they were read last.
    pub fn begun(&self) -> &[Arc<ExperimentState>] {
        match self.begun.last() {
            Some(Ok(begun)) => begun,
            _ => &[],
        }
    }

    /// Whether the list of those that were begun is as new as anybody knows.
    pub fn is_read(&self) -> bool {
        self.begun.is_answered()
    }

    /// Why those that were begun cannot be read, where they cannot.
    pub fn problem(&self) -> Option<&Problem> {
        self.begun.last()?.as_ref().err()
    }

    /// What people call an experiment that was begun, where it was read.
    pub fn name_of(&self, folder: &Path) -> Option<String> {
        let mut begun = self.begun().iter();
        begun
            .find(|begun| begun.folder == folder)
            .map(|begun| words::name(begun))
    }

    /// Looks at an experiment.
    pub fn look(&mut self, folder: PathBuf) {
        self.open = Some(folder);
        self.saving = Saving::default();
    }

    /// Runs this experiment of the user's own.
    pub fn use_own(&mut self, path: PathBuf) {
        self.own = Some(path);
    }

    fn may_have_changed(&mut self) {
        self.changes += 1;
    }
}

/// How it is looked at.
#[derive(Default)]
pub struct CompareView {
    form: Form,
    bars: BTreeMap<&'static str, ChartView>,
    knobs: BTreeMap<String, ChartView>,
    pareto: ChartView,
    ladder: ChartView,
    soak: [ChartView; 3],
    seconds: Cursor,
    /// The last pass in which the page was drawn: a gap means that it was left and is shown again.
    drawn_in: Option<u64>,
}

/// What is kept of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Form {
    /// The bundled recipe that the experiments train.
    recipe: Option<String>,
}

impl CompareView {
    /// The form that was kept.
    pub fn restored(saved: &Saved) -> Self {
        Self {
            form: saved.form(FORM).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Keeps the form.
    pub fn keep(&self, saved: &mut Saved) {
        saved.keep_form(FORM, &self.form);
    }
}

/// The work that it needs: what is under way first.
pub fn needs(state: &mut State) -> Option<Work> {
    if let Some((folder, heard)) = led(state).map(|so_far| (so_far.folder.clone(), so_far.heard)) {
        state.pages.compare.live.ask((folder, heard));
    }
    let folders = state.folders.clone();
    let page = &mut state.pages.compare;
    if let Some(question) = page.live.begin() {
        let folder = question.0.clone();
        return Some(Work::awaited(
            "reading the experiment",
            move || reading::state_of(&folder, &folders),
            move |state, read| state.pages.compare.live.answer(question, read),
        ));
    }
    if let Some(work) = read_begun(state).or_else(|| outcome::save(state)) {
        return Some(work);
    }
    // Nothing of what follows is worth disturbing a measurement.
    if state.tasks.running().is_some_and(Task::measures) {
        return None;
    }
    if let Some(work) = tune::look_around(state) {
        return Some(work);
    }
    let machine = Arc::clone(state.machine.seen.ready()?);
    let around = state.pages.tune.seen()?;
    let wish = state.pages.compare.offers.begin()?;
    let asked = wish.clone();
    Some(Work::awaited(
        "estimating the experiments",
        move || Ok(Arc::new(reading::offers(&wish, &machine, &folders, &around))),
        move |state, offers| state.pages.compare.offers.answer(asked, offers),
    ))
}

/// The work that reads the experiments that were begun, where that is not done or they may have changed.
pub fn read_begun(state: &mut State) -> Option<Work> {
    let folders = state.folders.clone();
    let page = &mut state.pages.compare;
    page.begun.ask(page.changes);
    let question = page.begun.begin()?;
    Some(Work::awaited(
        "reading the experiments",
        move || reading::begun(&folders).map(Arc::new),
        move |state, begun| state.pages.compare.begun.answer(question, begun),
    ))
}

/// A task has ended: an experiment may be over, and a training may have been one that an experiment waits for.
pub fn task_ended(state: &mut State, task: TaskId) {
    let Some(task) = state.tasks.get(task) else { return };
    if !matches!(task.work, TaskWork::Experiment { .. }) {
        return;
    }
    let page = &mut state.pages.compare;
    page.may_have_changed();
    // What it came to stays in sight.
    if let Some(so_far) = &task.experiment {
        page.look(so_far.folder.clone());
    }
}

/// The experiment that is under way.
fn running(state: &State) -> Option<&Task> {
    state
        .tasks
        .running()
        .filter(|task| matches!(task.work, TaskWork::Experiment { .. }))
}

/// How far it is, once it has said so.
fn led(state: &State) -> Option<&crate::state::ExperimentSoFar> {
    running(state)?.experiment.as_ref()
}

/// The experiment that the page is about: the one under way, else the one that the user looks at, else the newest.
fn current(state: &State) -> Option<&Arc<ExperimentState>> {
    let page = &state.pages.compare;
    let live = |folder: &PathBuf| {
        let asked = page.live.answered()?;
        let read = page.live.last()?.as_ref().ok()?;
        (asked.0 == *folder).then_some(read)
    };
    let stored = |folder: &PathBuf| page.begun().iter().find(|begun| begun.folder == *folder);
    if let Some(task) = running(state) {
        let folder = &task.experiment.as_ref()?.folder;
        return live(folder).or_else(|| stored(folder));
    }
    match &page.open {
        Some(folder) if page.begun.is_answered() => stored(folder).or_else(|| live(folder)),
        // The list is older than what was heard last.
        Some(folder) => live(folder).or_else(|| stored(folder)),
        None => page.begun().first(),
    }
}

/// Draws it.
pub fn compare_ui(state: &State, view: &mut CompareView, ui: &mut Ui, out: &mut Commands) {
    shown_again(view, ui, out);
    ask(state, view, out);
    let current = current(state);
    let running = running(state);
    let (title, lead) = words::headline(state, current.map(AsRef::as_ref), running);
    widgets::page(ui, &title, &lead, |ui| {
        tabs_ui(Page::Compare, ui, out);
        if let Some(task) = running {
            running::running_ui(state, task, current.map(AsRef::as_ref), ui, out);
        } else {
            ended_ui(state, ui, out);
            holders::holders_ui(state, ui, out);
            offers::main_ui(state, view, ui, out);
        }
        if let Some(current) = current {
            // While runs are made the bars that grow come first, afterwards what they mean.
            if running.is_some() {
                charts::charts_ui(state, current, view, ui);
                outcome::outcome_ui(state, current, true, ui, out);
                ladder::ladder_ui(current, view, ui, out);
            } else {
                outcome::outcome_ui(state, current, false, ui, out);
                ladder::ladder_ui(current, view, ui, out);
                charts::charts_ui(state, current, view, ui);
            }
            runs::runs_ui(state, current, ui, out);
            statistics::statistics_ui(current, ui, out);
        }
        if running.is_none() {
            offers::others_ui(state, ui, out);
        }
        begun::begun_ui(state, current.map(AsRef::as_ref), ui, out);
    });
    let starts = ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
    if starts && running.is_none() {
        offers::start_main(state, out);
    }
}

/// This machine's experiments, and what others published: beside each other and never in one list.
pub fn tabs_ui(shown: Page, ui: &mut Ui, out: &mut Commands) {
    let mut page = shown;
    let choices = [
        (Page::Compare, "On this machine"),
        (Page::Published, "Published figures"),
    ];
    if widgets::segmented(ui, &mut page, &choices) {
        out.go(page);
    }
    ui.add_space(2.0 * theme::GRID);
}

/// Asks the background for what the page shows; nothing where it was asked already.
fn ask(state: &State, view: &CompareView, out: &mut Commands) {
    let page = &state.pages.compare;
    if state.pages.tune.around().is_none() {
        return;
    }
    let wish = OfferWish {
        recipe: view.form.recipe.clone(),
        own: page.own.clone(),
        device: state.saved.device.clone(),
        around: state.pages.tune.generation(),
    };
    if !page.offers.asks(&wish) {
        out.change("estimate_experiments", move |state| {
            state.pages.compare.offers.ask(wish);
        });
    }
}

/// A page that was left may be out of date: the command line runs experiments too.
fn shown_again(view: &mut CompareView, ui: &Ui, out: &mut Commands) {
    let pass = ui.ctx().cumulative_pass_nr();
    let before = view.drawn_in.replace(pass);
    if before.is_some_and(|before| pass > before + 1) {
        out.change("read_experiments", |state| state.pages.compare.may_have_changed());
    }
}

/// How the last try went, where it did not end well, and what is wrong with reading.
fn ended_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let last = state
        .tasks
        .last(|task| matches!(task.work, TaskWork::Experiment { .. }));
    if let Some(problem) = last.and_then(|task| task.ended.as_ref()?.problem.as_ref()) {
        widgets::problem_panel(ui, "The experiment ended before its time", problem, out);
    }
    if let Some(Err(problem)) = state.pages.compare.begun.last() {
        widgets::problem_panel(ui, "The earlier experiments cannot be read", problem, out);
        if ui.button("Try again").clicked() {
            out.change("read_experiments", |state| state.pages.compare.may_have_changed());
        }
    }
    if let Loadable::Failed(problem) = &state.machine.seen {
        widgets::problem_panel(ui, "This machine could not be looked at", problem, out);
    }
}

/// Goes on with an experiment that was begun.
fn resume(experiment: &ExperimentState, retry_failed: bool, out: &mut Commands) {
    out.start(TaskWork::Experiment {
        experiment: experiment.id.clone(),
        resume: true,
        again: false,
        retry_failed,
    });
}

/// Runs that are over.
fn over(experiment: &ExperimentState) -> usize {
    experiment
        .slots
        .iter()
        .filter(|slot| slot.status.is_over())
        .count()
}

/// Whether runs are left and nobody runs them.
fn is_unfinished(experiment: &ExperimentState) -> bool {
    experiment.status == ExperimentStatus::Unfinished
}

#[cfg(test)]
mod flows;
