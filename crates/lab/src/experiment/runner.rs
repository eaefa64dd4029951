//! Leads an experiment: each slot in the order that was written down, a run's failure as a record and not as an end,
//! everything on disk before and after each run, so that whoever goes on repeats nothing that is over (M16, M17).

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tunesmith_measure::gap::Measures;
use tunesmith_protocol::{Level, RunStatus};

use crate::{
    pipeline::{self, LabError, Observer, Settings, Update},
    run::{Run, RunState, now},
};

use super::{
    Experiment, ExperimentError, ExperimentState, Kind, Plan, Slot, SlotStatus, experiments_dir, quiet,
    record::{Folder, Line, folders},
    state::state_of,
    watcher::Watcher,
};

/// How an experiment is begun or gone on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Begin anew where the same experiment was run already.
    pub again: bool,
    /// Run slots once more that did not end well.
    pub retry_failed: bool,
}

/// The ready experiment of this name, the file of this path, or this TOML.
///
/// # Errors
/// [`ExperimentError`] as [`Experiment::load`] and [`Experiment::parse`] say.
pub fn named_or_text(experiment: &str) -> Result<Experiment, ExperimentError> {
    if experiment.contains(['\n', '=']) {
        Experiment::parse(experiment, "of the window")
    } else {
        Experiment::load(experiment)
    }
}

/// What happens to a slot.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// The run waits for other programs to leave the machine alone; the sentence says what they do.
    WaitsForQuiet(String),
    /// The run begins.
    Begins,
    /// It is over.
    Ended(SlotStatus),
    /// Others disturbed it, and it is run once more; the sentence says what they did.
    IsRepeated(String),
}

impl Phase {
    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::WaitsForQuiet(_) => "waits_for_quiet",
            Self::Begins => "begins",
            Self::Ended(status) => status.name(),
            Self::IsRepeated(_) => "repeats",
        }
    }
}

/// How far an experiment is.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotUpdate<'a> {
    /// Name of the experiment's folder.
    pub id: &'a str,
    /// The experiment's folder.
    pub folder: &'a Path,
    /// Number of the slot, from 0.
    pub slot: usize,
    /// Slots in all.
    pub slots: usize,
    /// Slots that are over.
    pub over: usize,
    /// Name of its arm.
    pub arm: &'a str,
    /// Its seed.
    pub seed: u64,
    /// What happens to it.
    pub phase: Phase,
    /// Seconds that all the rest will take, by the runs so far.
    pub secs_left: Option<f64>,
}

/// Shows an experiment while it goes on; what its runs do comes as with any run.
pub trait ExperimentObserver: Observer {
    /// Something happens to a slot.
    fn slot(&mut self, update: &SlotUpdate<'_>);
}

/// Runs an experiment, or goes on with it where it was begun already: what is over is not run again.
///
/// # Errors
/// [`LabError`] for an experiment that cannot be run, and for what would keep every run from beginning. A run that
/// does not end well is a record, and the next one follows.
pub fn run(
    experiment: &Experiment,
    settings: &Settings,
    options: Options,
    observer: &mut dyn ExperimentObserver,
) -> Result<ExperimentState, LabError> {
    let base = crate::recipe::Recipe::load(&experiment.base.recipe)?;
    let device = settings.device_for(&base.train.device, observer)?;
    let experiment = experiment.on_device(&device);
    let plan = Plan::new(&experiment, &device)?;
    for warning in experiment.warnings() {
        observer.update(Update::Log(Level::Warn, &warning));
    }
    let experiments = experiments_dir(settings.folders.data());
    let folder = Folder::begin(&experiments, &experiment, &plan, options.again)?;
    lead(folder, settings, options, observer)
}

/// Goes on with an experiment that was begun, by what its folder says.
///
/// # Errors
/// As [`run`].
pub fn resume(
    folder: &Path,
    settings: &Settings,
    options: Options,
    observer: &mut dyn ExperimentObserver,
) -> Result<ExperimentState, LabError> {
    lead(Folder::open(folder)?, settings, options, observer)
}

/// The folder of an experiment that was begun, by its name, a beginning that only it has, or as `last`; a ready
/// experiment's name finds the newest of its folders.
///
/// # Errors
/// [`ExperimentError::Unknown`], also where several begin so.
pub fn find(data_dir: &Path, name: &str) -> Result<PathBuf, ExperimentError> {
    if Path::new(name).join("plan.json").is_file() {
        return Ok(PathBuf::from(name));
    }
    let mut found: Vec<(String, PathBuf, String)> = Vec::new();
    for path in folders(&experiments_dir(data_dir))? {
        let id = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // A damaged folder is found by its whole name and told of then.
        let created = Folder::open(&path).map_or_else(|_| String::new(), |folder| folder.plan.created);
        if id == name {
            return Ok(path);
        }
        found.push((created, path, id));
    }
    found.sort();
    let named = |id: &str| {
        let stem = id.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        stem.is_some_and(|rest| rest.len() >= 8 && rest.chars().take(8).all(|c| c.is_ascii_hexdigit()))
    };
    let newest = |wanted: &dyn Fn(&str) -> bool| {
        let matching = found.iter().filter(|(_, _, id)| wanted(id));
        matching.map(|(_, path, _)| path.clone()).next_back()
    };
    if name == "last" {
        return newest(&|_| true).ok_or_else(|| ExperimentError::unknown(name));
    }
    if let Some(path) = newest(&named) {
        return Ok(path);
    }
    let beginning: Vec<&PathBuf> = found
        .iter()
        .filter(|(_, _, id)| !name.is_empty() && id.starts_with(name))
        .map(|(_, path, _)| path)
        .collect();
    match beginning.as_slice() {
        [only] => Ok((*only).clone()),
        _ => Err(ExperimentError::unknown(name)),
    }
}

fn lead(
    folder: Folder,
    settings: &Settings,
    options: Options,
    observer: &mut dyn ExperimentObserver,
) -> Result<ExperimentState, LabError> {
    let held = folder.lead()?;
    let mut leader = Leader {
        runs_dir: settings.folders.runs(),
        folder,
        settings: Settings {
            device: None,
            ..settings.clone()
        },
        observer,
    };
    if options.retry_failed {
        leader.retry_failed()?;
    }
    if leader.folder.experiment.kind == Kind::Gap {
        leader.calibrate()?;
    }
    leader.lead()?;
    // The lock is let go of with the leader: what is read now is no longer running.
    let (folder, runs_dir) = (leader.folder, leader.runs_dir);
    drop(held);
    Ok(state_of(&folder, &runs_dir)?)
}

struct Leader<'a> {
    folder: Folder,
    runs_dir: PathBuf,
    settings: Settings,
    observer: &'a mut dyn ExperimentObserver,
}

/// How a slot's run went.
enum Outcome {
    /// It is over, in whatever way.
    Over,
    /// The user stopped it.
    Stopped,
}

impl Leader<'_> {
    fn state(&self) -> Result<ExperimentState, ExperimentError> {
        state_of(&self.folder, &self.runs_dir)
    }

    fn retry_failed(&self) -> Result<(), ExperimentError> {
        let failed = self
            .state()?
            .slots
            .into_iter()
            .filter(|slot| slot.status.is_failure());
        let slots: Vec<usize> = failed.map(|slot| slot.slot).collect();
        if slots.is_empty() {
            return Ok(());
        }
        self.folder.append(&Line::Retry { slots, at: now() })
    }

    /// One slot after the other until none is left, or the user stops.
    fn lead(&mut self) -> Result<(), LabError> {
        let mut tried = vec![0; self.folder.plan.order.len()];
        loop {
            if self.settings.stop.asked().is_some() {
                return Err(LabError::Stopped);
            }
            let state = self.state()?;
            let next = state
                .slots
                .iter()
                .find(|slot| !slot.status.is_over() && self.is_ready(&state, slot.slot));
            let Some(next) = next else { return Ok(()) };
            let number = next.slot;
            tried[number] += 1;
            if tried[number] > 2 {
                // Its run ends without a record, again and again: the rest is not kept waiting for it.
                self.fail(number, "no_record", "its run left no record")?;
                continue;
            }
            match self.slot(&state, number)? {
                Outcome::Over => self.stop_where_all_fail_alike()?,
                Outcome::Stopped => return Err(LabError::Stopped),
            }
        }
    }

    /// Where the first run of every arm failed for one reason, the reason does not lie with an arm: the rest would
    /// fail for it too.
    fn stop_where_all_fail_alike(&self) -> Result<(), LabError> {
        let state = self.state()?;
        let over: Vec<_> = state.slots.iter().filter(|slot| slot.status.is_over()).collect();
        let enough = self.folder.plan.arms.len().max(2);
        let reason = over.first().and_then(|slot| slot.reason.clone());
        let alike = over
            .iter()
            .all(|slot| slot.status == SlotStatus::Crashed && slot.reason == reason);
        if over.len() != enough || over.len() == state.slots.len() || !alike {
            return Ok(());
        }
        Err(LabError::NotPossible {
            message: format!(
                "the first {enough} runs failed alike, so the rest is not tried: {}",
                reason.unwrap_or_default()
            ),
            hints: vec![format!(
                "when the cause is gone: tunesmith experiment resume {} --retry-failed",
                self.folder.id
            )],
        })
    }

    /// A slot that needs another one's adapter waits for it. Where that one failed, it fails too, by name.
    fn is_ready(&self, state: &ExperimentState, number: usize) -> bool {
        self.source(number)
            .is_none_or(|source| state.slots[source].status.is_over())
    }

    /// The slot whose adapter this one takes.
    fn source(&self, number: usize) -> Option<usize> {
        let order = &self.folder.plan.order;
        let slot = order[number];
        let arm = self.folder.plan.arms[slot.arm].adapter_of?;
        order.iter().position(|other| *other == Slot { arm, ..slot })
    }

    /// Runs a slot, and once more where others disturbed it.
    fn slot(&mut self, state: &ExperimentState, number: usize) -> Result<Outcome, LabError> {
        let quiet = Duration::from_secs_f64(self.folder.experiment.run.quiet_wait_secs);
        let stop = self.settings.stop.clone();
        let mut told = None;
        let on_card = self.folder.plan.device != "cpu";
        quiet::wait(quiet, on_card, &stop, &mut |sentence| {
            // Once is enough: it goes on until it ends, or the time is over.
            if told.is_none() {
                told = Some(sentence.to_owned());
                self.tell(state, number, Phase::WaitsForQuiet(sentence.to_owned()));
            }
        });
        if stop.asked().is_some() {
            return Ok(Outcome::Stopped);
        }
        self.tell(state, number, Phase::Begins);
        if let Outcome::Stopped = self.attempt(state, number)? {
            return Ok(Outcome::Stopped);
        }
        let state = self.state()?;
        let slot = &state.slots[number];
        let again = self.folder.experiment.run.repeat_disturbed
            && slot.status.is_over()
            && !slot.status.is_failure()
            && slot.attempts < 2;
        if let (true, Some(sentence)) = (again, slot.disturbed.clone()) {
            self.tell(&state, number, Phase::IsRepeated(sentence));
            if let Outcome::Stopped = self.attempt(&state, number)? {
                return Ok(Outcome::Stopped);
            }
        }
        let state = self.state()?;
        self.tell(&state, number, Phase::Ended(state.slots[number].status));
        Ok(Outcome::Over)
    }

    fn tell(&mut self, state: &ExperimentState, number: usize, phase: Phase) {
        let slot = &state.slots[number];
        self.observer.slot(&SlotUpdate {
            id: &self.folder.id,
            folder: &self.folder.path,
            slot: number,
            slots: state.slots.len(),
            over: state.slots.iter().filter(|slot| slot.status.is_over()).count(),
            arm: &slot.name,
            seed: slot.seed,
            phase,
            secs_left: state.secs_left,
        });
    }

    fn attempt(&mut self, state: &ExperimentState, number: usize) -> Result<Outcome, LabError> {
        let arm = self.folder.plan.order[number].arm;
        let measures = self.folder.plan.arms[arm].measures;
        let led = match self.source(number) {
            Some(source) => self.answer(state, number, source),
            None if measures.is_training() => self.train(state, number),
            None => self.measure(state, number, measures),
        };
        match led {
            Ok(outcome) => Ok(outcome),
            Err(error) if error.is_stop() => Ok(Outcome::Stopped),
            // What lies with this arm alone is a record of it; the next one follows.
            Err(error) if is_of_the_arm(&error) => {
                self.fail(number, &error.code(), &error.to_string())?;
                Ok(Outcome::Over)
            }
            Err(error) => Err(error),
        }
    }

    fn fail(&mut self, slot: usize, code: &str, message: &str) -> Result<(), ExperimentError> {
        self.observer.update(Update::Log(Level::Warn, message));
        self.folder.append(&Line::Failed {
            slot,
            code: code.to_owned(),
            message: message.to_owned(),
            at: now(),
        })
    }

    /// The peak that the levels of a ladder are counted against: each run keeps the one that is known when it begins.
    fn calibrate(&mut self) -> Result<(), LabError> {
        let device = self.folder.plan.device.clone();
        let waits = self.state()?.slots.iter().any(|slot| !slot.status.is_over());
        if !waits || pipeline::stored_calibration(&self.settings, &device).is_some() {
            return Ok(());
        }
        let settings = Settings {
            device: Some(device),
            ..self.settings.clone()
        };
        pipeline::calibrate(&settings, false, self.observer)?;
        Ok(())
    }

    /// Measures a part of the training by itself. Each attempt has a folder of its own, so that the less disturbed one
    /// can count.
    fn measure(
        &mut self,
        state: &ExperimentState,
        number: usize,
        measures: Measures,
    ) -> Result<Outcome, LabError> {
        let recipe = self.folder.plan.recipe(self.folder.plan.order[number]);
        let name = format!("slot-{number:03}-{}", state.slots[number].attempts + 1);
        let folder = self.folder.answers(&name);
        self.folder.append(&Line::Run {
            slot: number,
            run: name,
            at: now(),
        })?;
        let measured = if measures == Measures::Decoding {
            pipeline::measure_decoding(&recipe, &folder, &self.settings, self.observer)
        } else {
            pipeline::measure_products(&recipe, &folder, &self.settings, self.observer)
        };
        measured?;
        Ok(Outcome::Over)
    }

    fn train(&mut self, state: &ExperimentState, number: usize) -> Result<Outcome, LabError> {
        let slot = self.folder.plan.order[number];
        let recipe = self.folder.plan.recipe(slot);
        let settings = Settings {
            evaluate: self.folder.experiment.run.evaluate,
            ..self.settings.clone()
        };
        let mut watcher = Watcher::new(
            &self.folder,
            number,
            state.surroundings.as_ref(),
            settings.stop.clone(),
            self.observer,
        );
        let led = pipeline::train(&recipe, &settings, &mut watcher);
        if let Some(fault) = watcher.into_fault() {
            return Err(fault.into());
        }
        Ok(match led?.state {
            RunState::Ended(RunStatus::Cancelled) => Outcome::Stopped,
            _ => Outcome::Over,
        })
    }

    /// The adapter of another slot answers on this arm's base.
    fn answer(&mut self, state: &ExperimentState, number: usize, source: usize) -> Result<Outcome, LabError> {
        let from = &state.slots[source];
        let Some(id) = from.run.as_ref().filter(|_| !from.status.is_failure()) else {
            let message = format!(
                "the arm {} has no adapter for it: {}",
                from.name,
                from.status.name()
            );
            self.fail(number, "no_adapter", &message)?;
            return Ok(Outcome::Over);
        };
        let run = Run::open(&self.runs_dir.join(id))?;
        let slot = self.folder.plan.order[number];
        let recipe = self.folder.plan.recipe(slot);
        let name = format!("slot-{number:03}");
        let folder = self.folder.answers(&name);
        self.folder.append(&Line::Run {
            slot: number,
            run: name,
            at: now(),
        })?;
        pipeline::answer_on_base(&run, &recipe, &folder, &self.settings, self.observer)?;
        Ok(Outcome::Over)
    }
}

/// Whether an error says something of this arm's recipe and nothing of the others'.
fn is_of_the_arm(error: &LabError) -> bool {
    matches!(
        error,
        LabError::Data(_)
            | LabError::Measure(_)
            | LabError::Recipe(_)
            | LabError::Job(_)
            | LabError::NotPossible { .. }
    )
}
