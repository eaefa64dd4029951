//! Leads whole runs: rows, the base model's score, training, the tuned model's score, the record.
//!
//! What goes wrong before there is a run (a bad recipe, a broken model file) is an error; from then on it is
//! part of the run's record, and the caller gets the run with its status.

mod calibration;
mod error;
mod generate;
mod judging;
mod leader;
mod level;
mod observer;
mod pace;
mod prepare;
mod resume;
mod start_adapter;
mod surroundings;
mod training;
mod trial;

use std::{path::Path, time::Duration};

use tunesmith_measure::fit::{LimitWish, MemoryLimit};
use tunesmith_probe::{Peak, System};
use tunesmith_protocol::{Event, Job, Level, Step, Work};
use tunesmith_setup::{
    Folders,
    plan::{DeviceChoice, Plan},
};

use crate::{
    files::FileError,
    fit::{PlannedCard, TimedWindow, limit_now, limit_words},
    run::{Journal, LabLine, now, prune_checkpoints},
    stop::StopToken,
    supervisor::{DeviceLock, Engine, EngineLocation, JobEnd, Limits, SupervisorError, Verdict, Waiting},
};

pub(crate) use calibration::PRODUCTS_SECS;
pub use calibration::{
    CalibrationWish, Conditions, StaleCalibration, StoredCalibration, calibrate, calibrate_as,
    calibration_secs, measure_products, stale_calibrations, stored_calibration,
};
pub use error::LabError;
pub use generate::{
    Ask, Generated, PromptSource, answer_on_base, evaluate_again, generate, measure_decoding,
};
pub use level::LevelRecord;
pub use observer::{Observer, Silent, Stage, Update};
use pace::Pace;
pub use prepare::shape_of;
pub use resume::{ResumeError, resume};
use surroundings::Planned;
pub(crate) use surroundings::{machine as machine_record, spec_sheet};
pub use training::train;
pub(crate) use trial::{TrialJob, TrialLed, lead_trial, predict_trial};

/// What a program brings to every job.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where things lie.
    pub folders: Folders,
    /// The engine and its torch.
    pub engine: EngineLocation,
    /// Another engine for trainings; the first one answers then, and calibrates.
    pub trainer: Option<EngineLocation>,
    /// How long the supervisor waits for what.
    pub limits: Limits,
    /// Device that the user chose, against the recipe's.
    pub device: Option<String>,
    /// Threads that the user chose.
    pub threads: Option<usize>,
    /// Whether runs are evaluated.
    pub evaluate: bool,
    /// The user's wish to stop.
    pub stop: StopToken,
    /// What the spec sheet of the card that trains promises; none on a processor.
    pub spec_peak: Option<Peak>,
    /// Whether the torch has no attention kernels for the card, so that scores are kept in memory.
    pub plain_attention: bool,
    /// The card that the plan chose; none where everything runs on the processor.
    pub card: Option<PlannedCard>,
    /// How much of the card torch may take, against the recipe's.
    pub memory_limit: Option<LimitWish>,
    /// Whether a device that another run holds is waited for.
    pub wait: bool,
}

impl Settings {
    /// Settings from the environment: folders and engine are found, the rest is the default.
    ///
    /// # Errors
    /// [`LabError`] when there is no home folder, no engine or no torch.
    pub fn from_env() -> Result<Self, LabError> {
        Self::for_device(&DeviceChoice::Auto)
    }

    /// As [`Settings::from_env`], for a device that the user chose among those of the machine.
    ///
    /// # Errors
    /// [`LabError`] when there is no home folder, no engine, no torch, or no such card.
    pub fn for_device(choice: &DeviceChoice) -> Result<Self, LabError> {
        Self::in_folders(Folders::from_env()?, choice)
    }

    /// As [`Settings::for_device`], with folders that are known already.
    ///
    /// # Errors
    /// [`LabError`] when there is no engine, no torch, or no such card.
    pub fn in_folders(folders: Folders, choice: &DeviceChoice) -> Result<Self, LabError> {
        let planned = surroundings::on_planned_card(EngineLocation::find(&folders)?, choice)?;
        let device = match choice {
            DeviceChoice::Cpu => Some("cpu".to_owned()),
            // The mask leaves the chosen card alone to be seen; an engine that cannot use it says so.
            DeviceChoice::Card(_) => Some("cuda:0".to_owned()),
            DeviceChoice::Auto | DeviceChoice::Vendor(_) => None,
        };
        Ok(Self {
            device,
            ..Self::on_planned(folders, planned)
        })
    }

    /// Settings for this engine, with what the plan for the machine's card gives it.
    pub fn on_plan(folders: Folders, engine: EngineLocation, plan: &Plan, system: &System) -> Self {
        Self::on_planned(folders, Planned::of(engine, plan, system))
    }

    fn on_planned(folders: Folders, planned: Planned) -> Self {
        Self {
            spec_peak: planned.spec_peak,
            plain_attention: planned.plain_attention,
            card: planned.card,
            ..Self::new(folders, planned.engine)
        }
    }

    /// Settings for this engine; the rest is the default.
    pub fn new(folders: Folders, engine: EngineLocation) -> Self {
        Self {
            folders,
            engine,
            trainer: None,
            limits: Limits::default(),
            device: None,
            threads: None,
            evaluate: true,
            stop: StopToken::new(),
            spec_peak: None,
            plain_attention: false,
            card: None,
            memory_limit: None,
            wait: false,
        }
    }

    /// These settings for a recipe, whose limit of memory counts where the user has set none.
    fn with_limit_of(&self, wish: LimitWish) -> Self {
        Self {
            memory_limit: self.memory_limit.or(Some(wish)),
            ..self.clone()
        }
    }

    /// The share of the card that torch may take, by what its driver says is free now. None on a processor, where none is
    /// wanted, and where the user's own environment sets one and nothing else was said.
    fn limit_now(&self, device: &str) -> Option<MemoryLimit> {
        let wish = self.memory_limit.unwrap_or_default();
        let own = self.trainer().own_memory_fraction();
        if device == "cpu" || (own.is_some() && wish == LimitWish::Auto) {
            return None;
        }
        limit_now(self.card.as_ref(), wish)
    }

    fn trainer(&self) -> &EngineLocation {
        self.trainer.as_ref().unwrap_or(&self.engine)
    }

    fn start_engine(&self, device: &str) -> Result<Engine, SupervisorError> {
        self.start(&self.engine, self.limit_now(device))
    }

    fn start_trainer(&self, limit: Option<MemoryLimit>) -> Result<Engine, SupervisorError> {
        self.start(self.trainer(), limit)
    }

    /// Starts an engine with its limit of memory, which torch must have before its first call.
    fn start(
        &self,
        location: &EngineLocation,
        limit: Option<MemoryLimit>,
    ) -> Result<Engine, SupervisorError> {
        let location = location.clone();
        let location = match limit {
            Some(limit) => location.with_memory_fraction(limit.fraction),
            None => location,
        };
        Engine::start(&location, self.limits.clone(), &self.stop)
    }

    /// The device that a run would take place on whose recipe wants this one, e.g. `auto`.
    ///
    /// # Errors
    /// [`LabError`] for a device that cannot be.
    pub fn device_for(&self, wanted: &str, observer: &mut dyn Observer) -> Result<String, LabError> {
        self.device(wanted, observer)
    }

    /// The device that a calibration would take place on.
    ///
    /// # Errors
    /// [`LabError`] for a device that cannot be.
    pub fn device_to_calibrate(&self, observer: &mut dyn Observer) -> Result<String, LabError> {
        self.device("auto", observer)
    }

    /// The device, decided: the user's choice, else the recipe's. `auto` means the first card where the machine has one
    /// that the torch can use, else the processor. It is decided by what is there, never by whether a card happens to
    /// answer, and a card that is left out is named: no run falls back in silence.
    fn device(&self, recipe: &str, observer: &mut dyn Observer) -> Result<String, LabError> {
        let choice = self.device.as_deref().unwrap_or(recipe);
        crate::recipe::check_device(choice)?;
        if choice != "auto" {
            return Ok(choice.to_owned());
        }
        let cards = tunesmith_probe::gpus(Path::new(tunesmith_probe::LIVE));
        let usable = self.engine.usable_cards();
        if cards.iter().any(|card| Some(card.vendor) == usable) {
            return Ok("cuda:0".to_owned());
        }
        if let Some(card) = cards.first() {
            let name = card
                .name
                .clone()
                .unwrap_or_else(|| format!("{:?} card", card.vendor));
            let text = format!(
                "this machine has a card ({name}) that the installed torch cannot use, so the processor is used; TUNESMITH_TORCH names the site-packages folder of a torch for it"
            );
            observer.update(Update::Log(Level::Warn, &text));
        }
        Ok("cpu".to_owned())
    }

    /// Threads to ask for on a processor: the user's choice, else what a container's quota allows where that is less
    /// than the cores that torch would see.
    fn cpu_threads(&self) -> Option<usize> {
        let machine = surroundings::machine().machine;
        let quota = machine
            .usable_cores()
            .filter(|usable| machine.cores_logical.is_some_and(|all| *usable < all));
        self.threads.or(quota)
    }

    fn threads_for(&self, device: &str) -> Option<usize> {
        if device == "cpu" {
            self.cpu_threads()
        } else {
            self.threads
        }
    }

    /// The device of a recipe, for work that is no run of its own.
    pub(crate) fn hold(
        &self,
        recipe_device: &str,
        what: &str,
        observer: &mut dyn Observer,
    ) -> Result<DeviceLock, LabError> {
        let device = self.device(recipe_device, observer)?;
        Ok(self.lock(&device, what, observer)?)
    }

    /// The device for one run, waited for in turn where that is wanted.
    fn lock(
        &self,
        device: &str,
        run: &str,
        observer: &mut dyn Observer,
    ) -> Result<DeviceLock, SupervisorError> {
        let data_dir = self.folders.data();
        if !self.wait {
            return DeviceLock::take(data_dir, device, run);
        }
        let mut waits = false;
        DeviceLock::take_in_turn(data_dir, device, run, &self.stop, &mut |waiting| {
            if !waits {
                observer.update(Update::Stage(Stage::Wait));
                waits = true;
            }
            observer.update(Update::Log(Level::Warn, &waiting_words(waiting)));
        })
    }
}

/// Whom a run waits for.
fn waiting_words(waiting: &Waiting) -> String {
    let others = match waiting.before {
        0 => String::new(),
        1 => "; 1 other waits before this one".to_owned(),
        many => format!("; {many} others wait before this one"),
    };
    format!(
        "the device {} is in use by {}: waiting until it has ended{others}",
        waiting.device,
        waiting.holder.words()
    )
}

/// What a run may take of its card, for the log.
fn limit_line(limit: &MemoryLimit) -> String {
    format!(
        "torch may take {}; train.memory_limit sets another limit",
        limit_words(limit)
    )
}

/// One stage of a run on one engine process.
struct StageRun<'a> {
    settings: &'a Settings,
    stage: Stage,
    device: &'a str,
    run_dir: &'a Path,
    time_box: Option<Duration>,
    /// Folder of the checkpoint that a training goes on from.
    resume_from: Option<&'a Path>,
    /// Steps in all, for showing.
    steps: u64,
    /// Seconds of the training before it was cut short.
    trained_secs: f64,
}

impl StageRun<'_> {
    /// Leads a job to its end and tells the observer what happens; `on_event` sees every event after it.
    fn lead(
        &self,
        engine: Option<Engine>,
        work: Work,
        journal: &mut Journal,
        observer: &mut dyn Observer,
        on_event: &mut dyn FnMut(&Event, &mut dyn Observer) -> Verdict,
    ) -> Result<JobEnd, SupervisorError> {
        let engine = match engine {
            Some(engine) => engine,
            None => self.settings.start_engine(self.device)?,
        };
        let _timed = self.timed()?;
        observer.update(Update::Stage(self.stage));
        self.mark(journal)?;
        let job = Job {
            run_dir: self.run_dir.to_owned(),
            resume_from: self.resume_from.map(Path::to_owned),
            device: self.device.to_owned(),
            threads: self.settings.threads_for(self.device),
            work,
        };
        let trains = self.stage == Stage::Train;
        let mut pace = Pace::default();
        engine.run(&job, journal, &self.settings.stop, self.time_box, &mut |event| {
            match event {
                // Its steps tell it too, and of the time box besides.
                Event::Progress(progress) if trains && progress.stage == "train" => {}
                Event::Progress(progress) => observer.update(Update::Progress(self.stage, progress)),
                // An engine that goes on counts from its own start.
                Event::Step(step) => {
                    let since_run = Step {
                        elapsed_secs: self.trained_secs + step.elapsed_secs,
                        ..step.clone()
                    };
                    observer.update(Update::Step(&since_run, self.steps));
                    if trains {
                        let far = pace.after(step, self.steps, self.time_box);
                        observer.update(Update::Progress(self.stage, &far));
                    }
                }
                Event::Piece(piece) => observer.update(Update::Piece(&piece.text)),
                Event::Log(log) => observer.update(Update::Log(log.level, &log.text)),
                // It is recorded by now. What cannot be removed costs disk and nothing else.
                Event::Checkpoint(checkpoint) => {
                    if let Err(error) = prune_checkpoints(self.run_dir, checkpoint.step) {
                        observer.update(Update::Log(Level::Warn, &error.to_string()));
                    }
                }
                _ => {}
            }
            on_event(event, observer)
        })
    }

    /// While a device is measured, downloads of this program wait.
    fn timed(&self) -> Result<Option<TimedWindow>, FileError> {
        let is_timed = matches!(self.stage, Stage::Train | Stage::Calibrate | Stage::Try);
        let name = self.run_dir.file_name().unwrap_or_default().to_string_lossy();
        is_timed
            .then(|| TimedWindow::begin(self.settings.folders.data(), &name))
            .transpose()
    }

    fn mark(&self, journal: &mut Journal) -> Result<(), FileError> {
        journal.lab(&LabLine::Stage {
            stage: self.stage.name().to_owned(),
            at: now(),
        })
    }
}
