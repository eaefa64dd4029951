//! Goes on with a run that ended before its end, so that its curve is the one that it would have had.

use std::time::{Duration, Instant};

use tunesmith_data::{ROWS_FILE, Rows};
use tunesmith_protocol::{Hello, Level, RunStatus};

use crate::{
    evaluate::{Questions, kept},
    recipe::Recipe,
    run::{
        Entry, Journal, LabLine, LiveRun, MachineRecord, Manifest, Run, RunError, RunState, Timings,
        read_events, steps_of,
    },
    text_to_sql::TextToSql,
};

use super::{
    LabError, Observer, Settings, Stage, Update,
    judging::Judging,
    leader::{Earlier, Leader},
    limit_line,
    prepare::OpenModel,
    surroundings,
    training::{config_hash, refuse_wrong_values, time_box},
};

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// It did what was asked.
    #[error("the run {id} is complete: there is nothing to go on with")]
    Complete {
        /// The run.
        id: String,
    },
    /// There is nothing to go on from.
    #[error("the run {id} {}", if *damaged { "has damaged checkpoints only" } else { "has no checkpoint to go on from" })]
    NoCheckpoint {
        /// The run.
        id: String,
        /// Whether there are checkpoints, none of which is whole.
        damaged: bool,
    },
    /// Something else would come out.
    #[error("the run {id} cannot go on, its curve would not be the same: {}", differences.join("; "))]
    Differs {
        /// The run.
        id: String,
        /// What differs, each with what it was and what it is.
        differences: Vec<String>,
    },
}

impl ResumeError {
    /// Stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Complete { .. } => "run_complete",
            Self::NoCheckpoint { .. } => "no_checkpoint",
            Self::Differs { .. } => "run_differs",
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Complete { id } => vec![
                format!("`tunesmith runs show {id}` shows what came of it"),
                "`tunesmith train` begins a new run".to_owned(),
            ],
            Self::NoCheckpoint { .. } => vec![
                "train the recipe again from its start".to_owned(),
                "train.checkpoint_every says how many steps lie between two checkpoints; 0 writes none"
                    .to_owned(),
            ],
            Self::Differs { .. } => {
                vec!["put back what has changed, or train the recipe again from its start".to_owned()]
            }
        }
    }
}

/// Goes on with a run from its newest checkpoint that is whole. The run that comes back is over, as after
/// [`super::train`]. A run that its time box ended gets the whole box anew, every other one what is left of it.
///
/// # Errors
/// [`LabError`] when the run goes on or is complete, has no checkpoint, or when model, rows, engine or anything else
/// that decides its numbers is not what it was; else as [`super::train`].
pub fn resume(run: &Run, settings: &Settings, observer: &mut dyn Observer) -> Result<Run, LabError> {
    let start = Instant::now();
    let id = run.id.clone();
    match run.state {
        RunState::Running => return Err(RunError::Led { id }.into()),
        RunState::Ended(RunStatus::Ok) => return Err(ResumeError::Complete { id }.into()),
        RunState::Ended(_) => {}
    }
    let (Some(manifest), Some(checkpoint)) = (&run.manifest, run.checkpoint()?) else {
        let damaged = run.resume_step().is_some();
        return Err(ResumeError::NoCheckpoint { id, damaged }.into());
    };
    let recipe = &run.recipe;
    let entries = read_events(&run.folder)?;
    let settings = &settings_of(run, manifest, &entries, settings);
    let device = settings.device(&recipe.train.device, observer)?;
    refuse_wrong_values(recipe, settings, &device)?;
    let _lock = settings.lock(&device, &id, observer)?;
    let live = LiveRun::reopen(run)?;
    observer.update(Update::Run(live.id(), live.folder()));
    observer.update(Update::Stage(Stage::Prepare));
    let model = OpenModel::of_run(manifest)?;
    let rows = run.folder.join("rows").join(ROWS_FILE);
    let rows_sha256 = Rows::read(&rows)?.sha256();
    let set = recipe.has_questions().then(TextToSql::load).transpose()?;
    let prepare_secs = start.elapsed().as_secs_f64();
    if settings.stop.asked().is_some() {
        return Err(LabError::Stopped);
    }
    observer.update(Update::Stage(Stage::Start));
    let limit = settings.limit_now(&device);
    if let Some(limit) = &limit {
        observer.update(Update::Log(Level::Info, &limit_line(limit)));
    }
    let engine = settings.start(&settings.engine, limit)?;
    let differences = differences(&Now {
        recipe,
        manifest,
        device: &device,
        hello: engine.hello(),
        threads: settings.threads_for(&device).unwrap_or(engine.hello().threads),
        rows_sha256: &rows_sha256,
        test_sha256: set.as_ref().map(TextToSql::test_hash),
        computes: computes(&surroundings::machine(), &device),
    });
    if !differences.is_empty() {
        return Err(ResumeError::Differs { id, differences }.into());
    }

    let trained_secs = steps_of(&entries)
        .iter()
        .rfind(|step| step.step <= checkpoint.step)
        .map_or(0.0, |step| step.elapsed_secs);
    let questions = set
        .filter(|_| settings.evaluate && recipe.evaluate.questions > 0)
        .map(|set| Questions::first(set, recipe.evaluate.questions));
    let before = questions
        .as_ref()
        .and_then(|questions| kept(&run.folder, "base", questions));
    let mut journal = Journal::open(live.folder())?;
    journal.lab(&LabLine::Resume {
        from_step: checkpoint.step,
    })?;
    live.take_back_above(checkpoint.step)?;
    let mut judging = Judging::new(recipe, manifest)?;
    // What the rows and the adapter showed then stands in the record; a run that they stopped has no checkpoint.
    let _ = judging.begin(observer);
    judging.catch_up(&entries, checkpoint.step);
    let leader = Leader {
        live,
        journal,
        settings,
        recipe,
        manifest,
        model: &model,
        questions,
        rows,
        time_box: time_left(run, trained_secs),
        contention: run
            .summary
            .as_ref()
            .map_or_else(Vec::new, |summary| summary.contention.clone()),
        timings: Timings {
            prepare_secs,
            evaluate_before_secs: before.as_ref().map(|(side, _)| side.wall_secs),
            ..Timings::default()
        },
        earlier: Earlier {
            checkpoint: Some(std::path::absolute(&checkpoint.folder).unwrap_or(checkpoint.folder)),
            trained_secs,
            before,
        },
        judging,
        observer,
        start,
    };
    leader.conclude(engine)
}

/// As the run was begun: with its threads, unless the user chose others, and without an evaluation where none was
/// made before the training.
fn settings_of(run: &Run, manifest: &Manifest, entries: &[Entry], settings: &Settings) -> Settings {
    let asks = run.recipe.asks_questions();
    let asked = entries.iter().any(|entry| {
        matches!(entry, Entry::Lab(LabLine::Stage { stage, .. }) if stage == Stage::EvaluateBefore.name())
    });
    Settings {
        threads: settings.threads.or(manifest.threads),
        evaluate: settings.evaluate && (asked || !asks),
        ..settings.with_limit_of(run.recipe.train.memory_limit)
    }
}

/// Who asks for more of a run that its time box ended has more time for it.
fn time_left(run: &Run, trained_secs: f64) -> Duration {
    let whole = time_box(&run.recipe);
    if run.state == RunState::Ended(RunStatus::TimeBoxed) {
        return whole;
    }
    whole.saturating_sub(Duration::try_from_secs_f64(trained_secs).unwrap_or_default())
}

/// What decides a run's numbers, as it stands now, beside the run's own record of it.
struct Now<'a> {
    recipe: &'a Recipe,
    manifest: &'a Manifest,
    device: &'a str,
    hello: &'a Hello,
    threads: usize,
    rows_sha256: &'a str,
    test_sha256: Option<&'a str>,
    computes: String,
}

/// What computes: the processor, or the machine's cards, by name. Rounding differs from one to another, and the run's peaks
/// and memory are those of the first.
fn computes(machine: &MachineRecord, device: &str) -> String {
    if device == "cpu" {
        return machine.machine.cpu_model.clone().unwrap_or_default();
    }
    let cards = machine.gpus.iter().filter_map(|card| card.name.as_deref());
    cards.collect::<Vec<&str>>().join(", ")
}

/// What differs, in words.
fn differences(now: &Now<'_>) -> Vec<String> {
    let (then, hello) = (now.manifest, now.hello);
    let engine = |hello: &Hello| format!("{} {}", hello.engine, hello.engine_version);
    let mut pairs = vec![
        ("the device", then.device.clone(), now.device.to_owned()),
        ("the engine", engine(&then.engine), engine(hello)),
        ("torch", then.engine.torch.clone(), hello.torch.clone()),
    ];
    if now.device == "cpu" {
        let threads = then.threads_in_use().to_string();
        pairs.push(("the number of threads", threads, now.threads.to_string()));
    } else {
        let backend = then.engine.backend.clone();
        pairs.push(("the GPU back end", backend, hello.backend.clone()));
    }
    let then_computed = computes(&then.machine, &then.device);
    // What was not told, or is not now, is no difference.
    if !then_computed.is_empty() && !now.computes.is_empty() {
        let what = if now.device == "cpu" {
            "the processor"
        } else {
            "the card"
        };
        pairs.push((what, then_computed, now.computes.clone()));
    }
    let mut differences: Vec<String> = pairs
        .into_iter()
        .filter(|(_, then, now)| then != now)
        .map(|(what, then, now)| format!("{what} was {then} and is {now}"))
        .collect();
    let mut changed = |what: &str, same: bool| {
        if !same {
            differences.push(format!("{what} changed since the run began"));
        }
    };
    changed(
        "the rows in rows/train.safetensors have",
        now.rows_sha256 == then.data.rows_sha256,
    );
    changed(
        "the test questions have",
        now.test_sha256 == then.data.test_sha256.as_deref(),
    );
    // Whether the run was evaluated is part of its hash, and not of what a recipe can change.
    let same_recipe = [true, false]
        .iter()
        .any(|evaluated| config_hash(now.recipe, then, *evaluated) == then.config_hash);
    changed("the settings in recipe.toml have", same_recipe);
    differences
}
