//! The live run: what is true of the training now, its curves, what the judge sees, its log, and at its end what it
//! came to. Of an experiment it is the run at hand, one after the other.

mod charts;
mod experiment;
mod facts;
mod figures;
mod log;
mod outcome;
mod status;
mod words;

use std::sync::Arc;

use egui::Ui;
use tunesmith_lab::run::{LineState, RunLine, RunState};
use tunesmith_protocol::{RunStatus, TaskId, TaskWork};

use super::runs::{RunsState, Tradeoffs};
use crate::{
    chart::{ParetoPoint, PointState, Series},
    commands::Commands,
    services::Work,
    state::{Loadable, Page, State, Task},
    widgets,
};

pub use facts::{Judged, Outcome, RunFacts};
pub use figures::Figures;

/// What the page keeps.
#[derive(Default)]
pub struct LiveState {
    /// The training, or the experiment, that it shows.
    task: Option<TaskId>,
    /// Its run, once that has a folder: an experiment has one after the other.
    run: Option<String>,
    /// What is known of its run.
    facts: Loadable<Arc<RunFacts>>,
    /// Its curves.
    figures: Figures,
    /// Temperature of the card in °C over seconds since the first reading.
    temperature: Series,
    /// [`tunesmith_probe::telemetry::Sample::at_secs`] of the first and the last reading that were looked at.
    readings: Option<(f64, f64)>,
    /// The furthest stage that was reached, by its place in the job.
    reached: usize,
    /// Whether the job asks test questions.
    asks_questions: bool,
    /// What the run came to, once it is over.
    outcome: Loadable<Arc<Outcome>>,
    /// Earlier runs to compare with, and the present one last.
    points: Vec<ParetoPoint>,
    /// [`RunsState::generation`] that they are of.
    points_generation: Option<u64>,
}

impl LiveState {
    /// The curves of the training that is shown.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The temperature of the card since the training began.
    pub fn temperature(&self) -> &Series {
        &self.temperature
    }

    /// What the training came to.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.ready().map(AsRef::as_ref)
    }

    /// Whether it shows this run of this task.
    fn shows(&self, task: TaskId, run: Option<&String>) -> bool {
        self.task == Some(task) && self.run.as_ref() == run
    }

    /// A training was asked for, or an experiment's next run has begun: what was shown belongs to another one.
    fn begin(&mut self, task: &Task, latest_reading: Option<f64>) {
        *self = Self {
            task: Some(task.id),
            run: task.run.clone(),
            asks_questions: words::will_ask(&task.work),
            // What was read before this training is not its temperature.
            readings: latest_reading.map(|at| (f64::NAN, at)),
            ..Self::default()
        };
    }
}

/// How it is looked at.
#[derive(Default)]
pub struct LiveView {
    charts: charts::ChartsView,
    log: log::LogView,
}

/// Follows the training, whatever page is shown: called between frames, and only what is new is looked at.
pub fn follow(state: &mut State) {
    let State {
        tasks,
        pages,
        telemetry,
        machine,
        ..
    } = state;
    let live = &mut pages.live;
    let Some(task) = tasks.followed() else { return };
    let next_run = live.run.is_some() && live.run != task.run;
    if live.task != Some(task.id) || next_run {
        live.begin(task, telemetry.samples().last().map(|sample| sample.at_secs));
    }
    live.run.clone_from(&task.run);
    if let Some(index) = words::stage_index(&task.stage) {
        live.reached = live.reached.max(index);
        // Whether the runs of an experiment are scored is seen as they are.
        live.asks_questions |= words::ASKS.contains(&index);
    }
    match &live.facts {
        // Without a folder nothing can be read of the run, and its speed can be counted without it.
        Loadable::Unasked if task.folder.is_some() => {}
        Loadable::Loading => {}
        Loadable::Unasked | Loadable::Failed(_) => live.figures.follow(task, &[]),
        Loadable::Ready(facts) => {
            let facts = Arc::clone(facts);
            live.figures.follow(task, &facts.recorded);
            live.follow_points(task, &facts.device, &pages.runs);
        }
    }
    let pci = machine.get().and_then(|machine| machine.gpu()?.pci.clone());
    if let Some(pci) = pci.filter(|_| !task.is_over()) {
        live.follow_temperature(&pci, telemetry);
    }
}

impl LiveState {
    fn follow_temperature(&mut self, pci: &str, telemetry: &crate::state::Telemetry) {
        let last = self.readings.map_or(f64::NEG_INFINITY, |(_, last)| last);
        for sample in telemetry.samples().filter(|sample| sample.at_secs > last) {
            let first = self.readings.map_or(f64::NAN, |(first, _)| first);
            let first = if first.is_nan() { sample.at_secs } else { first };
            self.readings = Some((first, sample.at_secs));
            let gpu = sample.gpus.iter().find(|gpu| gpu.pci == pci);
            if let Some(celsius) = gpu.and_then(|gpu| gpu.junction_celsius.or(gpu.edge_celsius)) {
                // Readings come in order; one that did not would be left out.
                let _out_of_order = self.temperature.push(sample.at_secs - first, celsius);
            }
        }
    }

    fn follow_points(&mut self, task: &Task, device: &str, runs: &RunsState) {
        if self.points_generation != Some(runs.generation()) {
            self.points_generation = Some(runs.generation());
            let beside = runs.list.lines().iter().filter(|line| {
                line.state == LineState::Run(RunState::Ended(RunStatus::Ok))
                    && line.device.as_deref() == Some(device)
                    && task.run.as_deref() != Some(&line.id)
            });
            self.points = Tradeoffs::of(beside, false, runs.list.zone()).points().to_vec();
            self.points.push(ParetoPoint {
                name: "this run".to_owned(),
                vram_gib: Vec::new(),
                tokens_per_sec: Vec::new(),
                state: PointState::Measured,
            });
        }
        if let Some(current) = self.points.last_mut() {
            current.vram_gib = self.figures.peak_gib.into_iter().collect();
            current.tokens_per_sec = self.figures.steady_speed.into_iter().collect();
        }
    }

    /// The part of the run's folder that must be read next.
    fn reading(&mut self, task: &Task) -> Option<Work> {
        let folder = task.folder.clone()?;
        let (id, run) = (task.id, task.run.clone());
        let resumes = matches!(task.work, TaskWork::Resume { .. });
        // The manifest of a new run is written after its folder was named, and before its first step.
        let has_manifest = resumes || !task.steps.is_empty();
        if self.facts.is_unasked() && has_manifest {
            self.facts = Loadable::Loading;
            let read = move || RunFacts::read(&folder).map(Arc::new);
            return Some(Work::awaited("reading the run", read, move |state, read| {
                let live = &mut state.pages.live;
                if live.shows(id, run.as_ref()) {
                    if let Ok(facts) = &read {
                        live.asks_questions &= facts.asks_questions;
                        live.figures = Figures::new(Some(facts.context.clone()));
                    }
                    live.facts = read.into();
                }
            }));
        }
        // What the runs of an experiment came to is told together, on the page of the comparison.
        if self.outcome.is_unasked() && task.is_over() && !task.is_experiment() {
            self.outcome = Loadable::Loading;
            let read = move || Outcome::read(&folder).map(Arc::new);
            return Some(Work::awaited(
                "reading what the run came to",
                read,
                move |state, read| {
                    let live = &mut state.pages.live;
                    if live.shows(id, run.as_ref()) {
                        live.outcome = read.into();
                    }
                },
            ));
        }
        None
    }
}

/// The work that it needs.
pub fn needs(state: &mut State) -> Option<Work> {
    let work = state
        .tasks
        .followed()
        .and_then(|task| state.pages.live.reading(task));
    work.or_else(|| RunsState::refresh(state))
}

/// A task has ended; what became of it is read when the page is shown.
pub fn task_ended(_state: &mut State, _task: TaskId) {}

/// Draws it.
pub fn live_ui(state: &State, view: &mut LiveView, ui: &mut Ui, out: &mut Commands) {
    let Some(task) = state.tasks.followed() else {
        nothing_ui(state, ui, out);
        return;
    };
    let live = &state.pages.live;
    let title = experiment::title(task)
        .unwrap_or_else(|| words::title(task, &live.figures, live.outcome(), state.now_secs));
    widgets::page(ui, &title, "", |ui| {
        if task.is_experiment() {
            experiment::experiment_ui(state, task, ui, out);
        }
        if !task.is_over() {
            status::status_ui(state, task, ui, out);
        } else if !task.is_experiment() {
            outcome::outcome_ui(state, task, ui, out);
        }
        if task.is_over() {
            super::holders::gone_ui(state, ui, out);
        }
        status::judge_ui(state, task, ui);
        charts::charts_ui(state, task, &mut view.charts, ui, out);
        log::log_ui(state, task, &mut view.log, ui, out);
    });
}

/// No training was asked for since the window opened.
fn nothing_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    widgets::page(ui, "No training is under way", "", |ui| {
        if let Some(line) = interrupted(state) {
            outcome::interrupted_ui(line, ui, out);
        }
        if let Loadable::Failed(problem) = state.pages.runs.read() {
            widgets::problem_panel(ui, "The earlier runs cannot be read", problem, out);
        }
        let chosen = widgets::empty(
            ui,
            "A training shows here",
            "Its loss, speed and memory as curves while it learns, what the judge says of it, how long it still takes, and at its end what it came to",
            Some("Choose a recipe…"),
        );
        if chosen {
            out.go(Page::Tune);
        }
    });
}

/// The newest run that was cut short and can go on, and that the user has not left alone.
fn interrupted(state: &State) -> Option<&RunLine> {
    let cut_short = LineState::Run(RunState::Ended(RunStatus::Interrupted));
    let lines = state.pages.runs.list.lines().iter().rev();
    let mut lines = lines.map(AsRef::as_ref).filter(|line: &&RunLine| {
        line.state == cut_short && line.resume_step.is_some() && !state.saved.left_alone.contains(&line.id)
    });
    lines.next()
}
