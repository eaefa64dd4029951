//! The page for the calibration: one button, a quiet window while it measures, and what came of it, values first.

mod attention;
mod measured;
mod results;
mod stages;
mod stale;
mod stored;
mod sustained;
mod tables;

use egui::{Key, Modifiers, Ui};
use serde::Deserialize;
use tunesmith_lab::{
    pipeline::{StaleCalibration, StoredCalibration, calibration_secs},
    run::CalibrationRecord,
};
use tunesmith_protocol::{Level, RunStatus, StopHow, TaskId, TaskWork};

use super::holders;
use crate::{
    chart::{ChartView, Cursor},
    commands::{Command, Commands},
    saved::DeviceWish,
    services::Work,
    state::{Loadable, Page, Problem, State, Task},
    theme::{self, Tone},
    widgets,
};

pub use measured::{Measured, Words};
pub use stored::Stored;
pub(crate) use stored::settings_and_device;

/// What the page keeps.
#[derive(Default)]
pub struct CalibrateState {
    /// The device that would be measured, and the measurement of it that still holds.
    pub stored: Loadable<Stored>,
    /// The look at the machine that it rests on.
    stored_is_for: Option<u64>,
    /// What was measured in this window, and on which wish for a device.
    pub fresh: Option<(DeviceWish, Measured)>,
    /// A measurement came that could not be understood.
    pub unreadable: Option<Problem>,
}

impl CalibrateState {
    /// The measurement that holds for the device that is wished for.
    pub fn measured(&self, wish: &DeviceWish) -> Option<&Measured> {
        let fresh = self
            .fresh
            .as_ref()
            .filter(|(of, _)| of == wish)
            .map(|(_, measured)| measured);
        fresh.or_else(|| self.stored.ready()?.measured.as_ref())
    }

    /// Measurements that do not hold any more, the newest first.
    fn stale(&self) -> &[StaleCalibration] {
        self.stored.ready().map_or(&[], |stored| &stored.stale)
    }
}

/// How it is looked at.
#[derive(Default)]
pub struct CalibrateView {
    peaks: ChartView,
    sustained: ChartView,
    seconds: Cursor,
    attention: ChartView,
}

/// The work that it needs: the stored measurement, read anew after every look at the machine.
pub fn needs(state: &mut State) -> Option<Work> {
    let machine = state.machine.seen.ready()?.clone();
    let generation = state.machine.generation;
    let page = &mut state.pages.calibrate;
    if page.stored_is_for == Some(generation) {
        return None;
    }
    page.stored_is_for = Some(generation);
    if page.stored.ready().is_none() {
        page.stored = Loadable::Loading;
    }
    Some(stored::read(
        machine,
        state.folders.clone(),
        state.saved.device.clone(),
        generation,
    ))
}

/// What a calibration comes to, as the service tells it.
#[derive(Deserialize)]
struct Told {
    #[serde(flatten)]
    record: CalibrationRecord,
    #[serde(default)]
    reused: bool,
    #[serde(default)]
    file: std::path::PathBuf,
}

/// A task has ended: a calibration brings its measurement along, a training may have made one on its way.
pub fn task_ended(state: &mut State, task: TaskId) {
    let Some(task) = state.tasks.get(task) else { return };
    let Some(ended) = &task.ended else { return };
    let page = &mut state.pages.calibrate;
    match &task.work {
        TaskWork::Calibrate { .. } if ended.status == RunStatus::Ok => {
            match serde_json::from_value::<Told>(ended.result.clone()) {
                Ok(told) => {
                    page.unreadable = None;
                    // What held until now may be one of those that do not.
                    page.stored_is_for = None;
                    page.fresh = Some((state.saved.device.clone(), told.measured(task, ended.at_secs)));
                }
                Err(error) => {
                    page.unreadable = Some(Problem::new(
                        "calibration_unreadable",
                        format!(
                            "the device was measured, and what was measured cannot be understood: {error}"
                        ),
                        vec!["use the window and the program `tunesmith` of one version".to_owned()],
                    ));
                }
            }
        }
        TaskWork::Train { .. } => page.stored_is_for = None,
        _ => {}
    }
}

impl Told {
    fn measured(self, task: &Task, now_secs: f64) -> Measured {
        Measured {
            calibration: StoredCalibration {
                record: self.record,
                conditions: None,
                reused: self.reused,
                path: self.file,
            },
            // One that was found again is older than this task.
            age_secs: (!self.reused).then_some(0.0),
            aged_at_secs: now_secs,
            warnings: warnings(task),
        }
    }
}

/// What the log warns of: other programs that took time from the measurement, a card that was left out.
fn warnings(task: &Task) -> Vec<String> {
    task.log
        .iter()
        .filter(|line| line.level == Level::Warn)
        .map(|line| line.text.clone())
        .collect()
}

/// Draws it.
pub fn calibrate_ui(state: &State, view: &mut CalibrateView, ui: &mut Ui, out: &mut Commands) {
    let running = state
        .tasks
        .running()
        .filter(|task| matches!(task.work, TaskWork::Calibrate { .. }));
    if let Some(task) = running {
        return measuring_ui(state, task, ui, out);
    }
    let measured = state.pages.calibrate.measured(&state.saved.device);
    match (&state.pages.calibrate.stored, measured) {
        (_, Some(measured)) => results::results_ui(state, measured, view, ui, out),
        (Loadable::Failed(problem), None) => without_engine_ui(state, problem, ui, out),
        (Loadable::Ready(_), None) => before_ui(state, ui, out),
        (Loadable::Unasked | Loadable::Loading, None) => {
            widgets::page(ui, Page::Calibrate.title(), "", |ui| match &state.machine.seen {
                Loadable::Failed(problem) => {
                    widgets::problem_panel(ui, "This machine could not be looked at", problem, out);
                }
                _ => widgets::loading(ui, "Looking for an earlier measurement"),
            });
        }
    }
    let starts = ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
    if starts && why_not(state).is_none() {
        start(state, out);
    }
}

/// `card`, or `processor`.
fn device_word(state: &State) -> &'static str {
    let stored = state.pages.calibrate.stored.ready();
    match stored {
        Some(stored) if stored.device != "cpu" => "card",
        _ => "processor",
    }
}

/// Why nothing can be measured now.
fn why_not(state: &State) -> Option<String> {
    if let Some(task) = state.tasks.running() {
        return Some(format!(
            "{} is under way: a measurement beside it would be wrong, and would slow it down",
            task.name()
        ));
    }
    match &state.pages.calibrate.stored {
        Loadable::Ready(stored) if stored.is_capture => Some(
            "What is shown here is a capture of a machine; only the machine itself can be measured"
                .to_owned(),
        ),
        Loadable::Ready(_) => None,
        _ => Some("It is not known yet what would be measured".to_owned()),
    }
}

fn start(state: &State, out: &mut Commands) {
    let device = state
        .pages
        .calibrate
        .stored
        .ready()
        .map(|stored| stored.device.clone());
    let again = state.pages.calibrate.measured(&state.saved.device).is_some();
    out.start(TaskWork::Calibrate {
        device,
        again,
        full: false,
    });
}

/// Measures a processor for as long as a card: whether it holds its speed shows only then.
fn start_full(state: &State, out: &mut Commands) {
    let stored = state.pages.calibrate.stored.ready();
    out.start(TaskWork::Calibrate {
        device: stored.map(|stored| stored.device.clone()),
        again: true,
        full: true,
    });
}

/// The button that measures, and why it cannot be pressed where it cannot. `primary` where it is the page's one action.
fn measure_button(state: &State, text: &str, primary: bool, ui: &mut Ui, out: &mut Commands) {
    let why_not = why_not(state);
    let button = ui
        .add_enabled_ui(why_not.is_none(), |ui| {
            if primary {
                widgets::primary_button(ui, text)
            } else {
                ui.button(text)
            }
        })
        .inner
        .on_hover_text("Ctrl-Enter");
    if button.clicked() {
        start(state, out);
    }
    if let Some(why_not) = why_not {
        widgets::verdict_line(ui, Tone::Note, &why_not);
    }
}

fn before_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let device = device_word(state);
    let stale = state.pages.calibrate.stale();
    let (title, lead) = match stale.first() {
        Some(newest) => (
            format!("The measurement of this {device} does not hold any more"),
            stale::why(newest),
        ),
        None => (
            format!("How fast this {device} really is has not been measured yet"),
            "A spec sheet says what could be; what is measured here is what every later figure is counted against"
                .to_owned(),
        ),
    };
    widgets::page(ui, &title, &lead, |ui| {
        last_ui(state, ui, out);
        holders::holders_ui(state, ui, out);
        widgets::panel(ui, "What is measured", |ui| {
            stages::before_ui(device == "card", ui);
            ui.add_space(theme::GRID);
            widgets::caption(ui, &how_long(state));
            ui.add_space(2.0 * theme::GRID);
            let text = if stale.is_empty() {
                format!("Measure this {device}")
            } else {
                "Measure again".to_owned()
            };
            measure_button(state, &text, true, ui, out);
        });
        stale::stale_ui(stale, ui);
    });
}

fn how_long(state: &State) -> String {
    let stored = state.pages.calibrate.stored.ready();
    let device = stored.map_or("cpu", |stored| stored.device.as_str());
    let card = state.machine.get().and_then(crate::state::Machine::gpu);
    let secs = calibration_secs(device, card.and_then(|card| card.vendor), false);
    format!(
        "It takes {} at most, and the engine's start; leave the machine alone meanwhile",
        widgets::whole_secs(secs)
    )
}

/// How the last try went, where it brought nothing.
fn last_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    if let Some(problem) = &state.pages.calibrate.unreadable {
        widgets::problem_panel(ui, "The measurement cannot be shown", problem, out);
    }
    let last = state
        .tasks
        .last(|task| matches!(task.work, TaskWork::Calibrate { .. }));
    let Some(ended) = last.and_then(|task| task.ended.as_ref()) else {
        return;
    };
    if let Some(problem) = &ended.problem {
        widgets::problem_panel(ui, "The measurement did not end well", problem, out);
    } else if ended.status == RunStatus::Cancelled {
        widgets::verdict_line(
            ui,
            Tone::Note,
            "Stopped before there was a result; nothing was kept of it",
        );
        ui.add_space(2.0 * theme::GRID);
    }
}

/// There is no engine to measure with, or no torch that it runs on.
fn without_engine_ui(state: &State, problem: &Problem, ui: &mut Ui, out: &mut Commands) {
    widgets::page(ui, "Nothing can be measured yet", "", |ui| {
        last_ui(state, ui, out);
        widgets::problem_panel(ui, "What measures is not there yet", problem, out);
        if widgets::primary_button(ui, "Go to the set-up").clicked() {
            out.go(Page::Setup);
        }
    });
}

/// While it measures nothing moves but the bar: the window shares the machine with what is measured.
fn measuring_ui(state: &State, task: &Task, ui: &mut Ui, out: &mut Commands) {
    let title = format!("Measuring this {}", device_word(state));
    let lead = "This window keeps still meanwhile, so that it takes nothing from what is measured";
    widgets::page(ui, &title, lead, |ui| {
        widgets::panel(ui, "", |ui| {
            holders::waiting_ui(task, ui);
            stages::measuring_ui(task, device_word(state) == "card", ui);
            ui.add_space(theme::GRID);
            let text = task
                .progress
                .as_ref()
                .map_or_else(|| "estimating…".to_owned(), widgets::eta);
            widgets::progress_bar(ui, task.share(), &text);
            ui.add_space(theme::GRID);
            ui.horizontal(|ui| {
                let stopping = task.stopping.is_some();
                let text = if stopping { "Stopping…" } else { "Stop" };
                let stop = ui.add_enabled_ui(!stopping, |ui| ui.button(text)).inner;
                if stop.clicked() {
                    out.push(Command::Stop(StopHow::Now));
                }
                let elapsed = widgets::whole_secs(task.elapsed_secs(state.now_secs));
                widgets::caption(
                    ui,
                    &format!("{elapsed} so far; an earlier measurement stays when this one is stopped"),
                );
            });
            for warning in warnings(task) {
                widgets::verdict_line(ui, Tone::Warn, &warning);
            }
        });
    });
}
