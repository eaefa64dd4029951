//! Where an experiment stands, read from its folder and from its runs' own: what a window, a report and the command
//! line show.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;
use tunesmith_measure::{
    comparison::{self, Comparison, Drift, Figures, Measured},
    gap::{GapError, Ladder},
};
use tunesmith_protocol::RunStatus;

use crate::run::{CardPoint, Manifest, RunState};

use super::{
    Experiment, ExperimentError, Kind, Plan,
    record::Folder,
    slots::{Reader, Recorded, common_steps, cut},
};

/// Length of a span in which a soak's speed is counted, in seconds; a tenth of a shorter soak.
const SPAN_SECS: f64 = 60.0;

/// Where an experiment stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExperimentState {
    /// Its folder's name.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What was asked, as it is on this device.
    pub experiment: Experiment,
    /// Device of all runs: `cpu` or `cuda:N`.
    pub device: String,
    /// When it was planned, RFC 3339 in UTC.
    pub created: String,
    /// SHA-256 over what decides the figures and what was expected of them.
    pub hash: String,
    /// Where it stands.
    pub status: ExperimentStatus,
    /// Its runs in their order.
    pub slots: Vec<SlotState>,
    /// Timed steps of a run, and over how many of them the arms are compared.
    pub window: Window,
    /// What they say.
    pub comparison: Comparison,
    /// Where the time goes, of an experiment that asks it, once a training of it counts (M5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ladder: Option<Ladder>,
    /// Of a soak: how the speed went, run by run.
    pub drift: Vec<Drift>,
    /// Of a soak on a card: clocks, temperature and power over time, run by run.
    pub card: Vec<Vec<CardPoint>>,
    /// In which surroundings the runs took place; none before the first.
    pub surroundings: Option<Surroundings>,
    /// What a reader must know: the experiment's own notes, what was disturbed, what failed.
    pub notes: Vec<String>,
    /// Seconds that the rest will take, by the runs so far; none before the first is over.
    pub secs_left: Option<f64>,
}

/// The timed steps of an experiment's runs (M6, M10). Where a time box ended some of them, all arms are compared over as
/// many as every run that counts has: another number would be another measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    /// As planned.
    pub planned_steps: u64,
    /// As the figures have it; of a soak, which its time box always ends, each run's own.
    pub compared_steps: u64,
}

/// Where an experiment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExperimentStatus {
    /// A process leads it right now.
    Running,
    /// Every slot is over.
    Finished,
    /// Slots are left, and nobody runs them.
    Unfinished,
}

impl ExperimentStatus {
    /// The name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Unfinished => "unfinished",
        }
    }
}

/// A run's place with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlotState {
    /// Number in the order, from 0.
    pub slot: usize,
    /// Number of the arm, from 0.
    pub arm: usize,
    /// Name of the arm.
    pub name: String,
    /// Seed of the run.
    pub seed: u64,
    /// Which run of the arm with this seed, from 0.
    pub repeat: usize,
    /// Where it stands.
    pub status: SlotStatus,
    /// Id of the run that counts, or of the last one.
    pub run: Option<String>,
    /// Runs that were begun for it.
    pub attempts: usize,
    /// Figures of the run that counts; empty where none does.
    pub figures: Figures,
    /// Steps in the steady window of that run.
    pub steady_steps: usize,
    /// What other programs did meanwhile, where that was enough to change its figures (M19).
    pub disturbed: Option<String>,
    /// Why it did not end well.
    pub reason: Option<String>,
    /// Seconds that it took, from its beginning to its end.
    pub secs: Option<f64>,
    /// Per test question whether it was answered rightly.
    #[serde(skip)]
    pub(super) correct: BTreeMap<String, bool>,
    /// What the figures are counted from.
    #[serde(skip)]
    pub(super) recorded: Option<Recorded>,
}

/// Where a slot stands. What was cut short (by hand, by a crash of the program) waits to be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotStatus {
    /// It was not run, or not to its end.
    Waiting,
    /// It is being run.
    Running,
    /// It ended well.
    Ok,
    /// Its time box ended it; it counts where enough was measured.
    TimeBoxed,
    /// Memory ran out.
    Oom,
    /// A number was none.
    Nan,
    /// The judge stopped it.
    Invalid,
    /// The engine failed, or the run could not be prepared.
    Crashed,
    /// It was left out: a smaller arm ran out of memory.
    Skipped,
}

impl SlotStatus {
    /// The name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Ok => "ok",
            Self::TimeBoxed => "time_boxed",
            Self::Oom => "oom",
            Self::Nan => "nan",
            Self::Invalid => "invalid",
            Self::Crashed => "crashed",
            Self::Skipped => "skipped",
        }
    }

    /// Whether nothing is left to do.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }

    /// Whether it is a record of something that went wrong.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Oom | Self::Nan | Self::Invalid | Self::Crashed)
    }
}

impl From<RunState> for SlotStatus {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Running => Self::Running,
            RunState::Ended(RunStatus::Ok) => Self::Ok,
            RunState::Ended(RunStatus::TimeBoxed) => Self::TimeBoxed,
            RunState::Ended(RunStatus::Oom) => Self::Oom,
            RunState::Ended(RunStatus::Nan) => Self::Nan,
            RunState::Ended(RunStatus::Invalid) => Self::Invalid,
            RunState::Ended(RunStatus::Crashed) => Self::Crashed,
            RunState::Ended(RunStatus::Cancelled | RunStatus::Interrupted) => Self::Waiting,
        }
    }
}

/// What must be equal for runs to be compared, beside the recipes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Surroundings {
    /// Device with its name.
    pub device: String,
    /// Threads on a processor.
    pub threads: usize,
    /// Engine and version.
    pub engine: String,
    /// Version of torch and the back end that was opened.
    pub torch: String,
    /// The machine: processor, kernel, cards with their driver.
    pub machine: String,
}

impl Surroundings {
    pub(super) fn of(manifest: &Manifest) -> Self {
        let machine = &manifest.machine.machine;
        let cards = manifest.machine.gpus.iter().filter_map(|card| card.name.clone());
        let named = [machine.cpu_model.clone(), machine.kernel.clone()];
        let machine: Vec<String> = named.into_iter().flatten().chain(cards).collect();
        Self {
            device: manifest.device.clone(),
            threads: manifest.threads_in_use(),
            engine: format!("{} {}", manifest.engine.engine, manifest.engine.engine_version),
            torch: format!("{} ({})", manifest.engine.torch, manifest.engine.backend),
            machine: machine.join(", "),
        }
    }

    /// The first thing that differs: its name, here and there.
    pub(super) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let pairs = [
            ("the device", self.device.clone(), other.device.clone()),
            ("the machine", self.machine.clone(), other.machine.clone()),
            ("torch", self.torch.clone(), other.torch.clone()),
            ("the engine", self.engine.clone(), other.engine.clone()),
            (
                "the number of threads",
                self.threads.to_string(),
                other.threads.to_string(),
            ),
        ];
        pairs.into_iter().find(|(_, here, there)| here != there)
    }
}

/// Reads an experiment's folder and its runs.
///
/// # Errors
/// [`ExperimentError`] when the folder is none, or a file of it is damaged. A run that cannot be read is a slot that
/// waits.
pub fn read(folder: &Path, runs_dir: &Path) -> Result<ExperimentState, ExperimentError> {
    state_of(&Folder::open(folder)?, runs_dir)
}

/// Whether the runs of two folders may be laid side by side: both are the same experiment, run in the same surroundings
/// (M11).
///
/// # Errors
/// [`ExperimentError::Across`] with what differs.
pub fn same_protocol(one: &ExperimentState, other: &ExperimentState) -> Result<(), ExperimentError> {
    let reason = if one.hash == other.hash {
        let surroundings = one.surroundings.as_ref().zip(other.surroundings.as_ref());
        let (here, there) = (one.window.compared_steps, other.window.compared_steps);
        match surroundings.and_then(|(one, other)| one.difference(other)) {
            Some((what, here, there)) => format!("{what} is {here} in one and {there} in the other"),
            None if here == there => return Ok(()),
            None => format!(
                "the time box left {here} timed steps in one and {there} in the other, and a shorter window reads higher"
            ),
        }
    } else {
        let (a, b) = (&one.experiment.run, &other.experiment.run);
        if (a.warmup_steps, a.measured_steps) == (b.warmup_steps, b.measured_steps) {
            "their arms, recipes or expectations differ".to_owned()
        } else {
            format!(
                "one measures {} steps after {}, the other {} after {}, and a shorter window reads higher",
                a.measured_steps, a.warmup_steps, b.measured_steps, b.warmup_steps
            )
        }
    };
    Err(ExperimentError::Across {
        one: one.id.clone(),
        other: other.id.clone(),
        reason,
    })
}

/// Where each experiment that was begun stands, by name. A folder that cannot be read is left out.
///
/// # Errors
/// [`ExperimentError`] when the folder of all experiments cannot be read.
pub fn list(data_dir: &Path, runs_dir: &Path) -> Result<Vec<ExperimentState>, ExperimentError> {
    let folders = super::record::folders(&super::experiments_dir(data_dir))?;
    Ok(folders
        .iter()
        .filter_map(|folder| read(folder, runs_dir).ok())
        .collect())
}

pub(super) fn state_of(folder: &Folder, runs_dir: &Path) -> Result<ExperimentState, ExperimentError> {
    let lines = folder.lines()?;
    let (experiment, plan) = (&folder.experiment, &folder.plan);
    let read = Reader {
        folder,
        runs_dir,
        lines: &lines,
    };
    let mut slots: Vec<SlotState> = plan
        .order
        .iter()
        .enumerate()
        .map(|(number, slot)| read.slot(number, *slot))
        .collect();
    if experiment.until_oom {
        skip_larger(&mut slots);
    }
    let led = folder.is_led();
    if !led {
        // Whoever ran it is gone.
        for slot in slots.iter_mut().filter(|slot| slot.status == SlotStatus::Running) {
            slot.status = SlotStatus::Waiting;
        }
    }
    let over = slots.iter().all(|slot| slot.status.is_over());
    let window = window(experiment, &mut slots);
    let measured: Vec<Measured> = slots.iter().filter_map(measured).collect();
    let comparison = comparison::compare(&plan.design(experiment), &measured);
    let mut notes = notes(experiment, window, &slots);
    let ladder = match read.ladder(&comparison) {
        Some(Err(error)) => {
            notes.push(no_ladder(&error));
            None
        }
        found => found.and_then(Result::ok),
    };
    Ok(ExperimentState {
        id: folder.id.clone(),
        folder: folder.path.clone(),
        device: plan.device.clone(),
        created: plan.created.clone(),
        hash: plan.hash.clone(),
        status: match (led, over) {
            (true, _) => ExperimentStatus::Running,
            (false, true) => ExperimentStatus::Finished,
            (false, false) => ExperimentStatus::Unfinished,
        },
        comparison,
        ladder,
        drift: drifts(experiment, &slots),
        card: read.card(&slots),
        surroundings: read.surroundings(),
        notes,
        window,
        secs_left: secs_left(experiment.kind, plan, &slots),
        experiment: experiment.clone(),
        slots,
    })
}

/// The window of an experiment; the figures of its slots are cut to it.
fn window(experiment: &Experiment, slots: &mut [SlotState]) -> Window {
    let planned_steps = experiment.run.measured_steps;
    let common = common_steps(slots).filter(|_| experiment.kind != Kind::Soak);
    if let Some(steps) = common {
        cut(slots, steps);
    }
    Window {
        planned_steps,
        compared_steps: common.map_or(planned_steps, |steps| steps as u64),
    }
}

/// A slot whose run counts.
fn measured(slot: &SlotState) -> Option<Measured> {
    let counts = matches!(slot.status, SlotStatus::Ok | SlotStatus::TimeBoxed);
    (counts && !slot.figures.is_empty()).then(|| Measured {
        arm: slot.arm,
        seed: slot.seed,
        figures: slot.figures.clone(),
        correct: slot.correct.clone(),
    })
}

/// Arms behind one that ran out of memory are not run.
fn skip_larger(slots: &mut [SlotState]) {
    let full = slots.iter().filter(|slot| slot.status == SlotStatus::Oom);
    let Some((first, name)) = full.map(|slot| (slot.arm, slot.name.clone())).min() else {
        return;
    };
    for slot in slots
        .iter_mut()
        .filter(|slot| slot.arm > first && !slot.status.is_over())
    {
        slot.status = SlotStatus::Skipped;
        slot.reason = Some(format!("{name}, which is smaller, ran out of memory"));
    }
}

fn drifts(experiment: &Experiment, slots: &[SlotState]) -> Vec<Drift> {
    if experiment.kind != Kind::Soak {
        return Vec::new();
    }
    slots
        .iter()
        .filter_map(|slot| slot.recorded.as_ref())
        .filter_map(|recorded| {
            let training = &recorded.training;
            let span = SPAN_SECS.min(training.steady_secs / 10.0);
            comparison::drift(&training.points, span)
        })
        .collect()
}

fn notes(experiment: &Experiment, window: Window, slots: &[SlotState]) -> Vec<String> {
    let mut notes = experiment.notes.clone();
    notes.extend(experiment.warnings());
    let count = |wanted: &dyn Fn(&SlotState) -> bool| slots.iter().filter(|slot| wanted(slot)).count();
    let over = count(&|slot| slot.status.is_over());
    let disturbed = count(&|slot| slot.disturbed.is_some());
    if disturbed > 0 {
        notes.push(format!(
            "other programs disturbed {disturbed} of {over} runs: times are longer than they need be"
        ));
    }
    let failed = count(&|slot| slot.status.is_failure());
    if failed > 0 {
        notes.push(format!(
            "{failed} of {over} runs did not end well and are left out of all figures"
        ));
    }
    if experiment.kind != Kind::Soak {
        notes.extend(boxed(experiment, window, slots));
    }
    notes
}

/// What time boxes ended, and what that does to the figures (M10).
fn boxed(experiment: &Experiment, window: Window, slots: &[SlotState]) -> Vec<String> {
    let boxed = || slots.iter().filter(|slot| slot.status == SlotStatus::TimeBoxed);
    let minutes = experiment.run.time_box_minutes;
    let (short, too_short) = (
        boxed().filter(|slot| !slot.figures.is_empty()).count(),
        boxed().filter(|slot| slot.figures.is_empty()).count(),
    );
    let mut notes = Vec::new();
    if short > 0 {
        let score = if experiment.run.evaluate {
            "; a score is that of an adapter that learned until then"
        } else {
            ""
        };
        notes.push(format!(
            "the time box of {minutes} minutes ended {short} runs: all arms are compared over the first {} of {} timed steps{score}",
            window.compared_steps, window.planned_steps
        ));
    }
    if too_short > 0 {
        notes.push(format!(
            "{too_short} runs had measured less than a quarter of the window when the time box of {minutes} minutes ended \
             them, and are left out of all figures: measure fewer steps"
        ));
    }
    notes
}

/// Why there is no ladder yet, and what to do.
fn no_ladder(error: &GapError) -> String {
    format!(
        "where the time goes cannot be told yet: {error}; {}",
        error.hints().join("; ")
    )
}

/// The rest by the mean time of an arm's own runs, else of all runs. Before the first is over, that of a soak, which lasts
/// as long as its time box.
fn secs_left(kind: Kind, plan: &Plan, slots: &[SlotState]) -> Option<f64> {
    let mean = |arm: Option<usize>| {
        let own = slots
            .iter()
            .filter(|slot| slot.status.is_over() && arm.is_none_or(|arm| slot.arm == arm));
        let secs: Vec<f64> = own.filter_map(|slot| slot.secs).collect();
        tunesmith_measure::stats::mean(&secs).ok()
    };
    let all = mean(None);
    let arms: Vec<Option<f64>> = (0..plan.arms.len())
        .map(|arm| {
            let soak = (kind == Kind::Soak).then(|| plan.arms[arm].recipe.train.time_box_minutes * 60.0);
            mean(Some(arm)).or(all).or(soak)
        })
        .collect();
    let left = slots.iter().filter(|slot| !slot.status.is_over());
    left.map(|slot| arms[slot.arm]).sum()
}
