//! What the page has read in the background: what of a training is here already, what it will need, and what a data set
//! holds. Nothing here asks a network.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use tunesmith_data::{DataError, Encoder, Example, LineProblem, Preview, PreviewWish, Sample, preview};
use tunesmith_lab::{
    estimate::{self, Advice, Estimate, Fit, Known, Wish},
    fit::{Trial, trials},
    models::{ModelHere, models_here},
    pipeline::{Settings, stored_calibration},
    recipe::{BUNDLED, DEFAULT_MODEL, ModelSection, Recipe},
    run::{CalibrationRecord, LineState, Run, RunLine, RunState, lines},
    text_to_sql::TextToSql,
};
use tunesmith_models::{Message, Model, hub::Hub};
use tunesmith_probe::{LIVE, load};
use tunesmith_protocol::{RunStatus, Trainer};
use tunesmith_setup::{Folders, environments::Engine, model};

use super::{Generation, SecondTrainer, form::OwnData};
use crate::{
    problem,
    saved::DeviceWish,
    state::{Machine, Problem},
};

/// The devices that a calibration is looked for.
const DEVICES: [&str; 2] = ["cpu", "cuda:0"];

/// What is here already.
#[derive(Clone, Debug)]
pub struct Around {
    /// Whether an engine can be started.
    pub engine: Result<(), Problem>,
    /// Calibrations that still hold, by device.
    pub calibrations: BTreeMap<&'static str, CalibrationRecord>,
    /// Models.
    pub models: Vec<ModelHere>,
    /// Runs, oldest first.
    pub runs: Vec<Arc<RunLine>>,
    /// Settings that were tried, oldest first.
    pub trials: Vec<Trial>,
    /// Runs that were cut short and can go on, newest first.
    pub cut_short: Vec<CutShort>,
    /// Main memory that is free, in bytes.
    pub free_memory_bytes: Option<u64>,
    /// The model hub, where its cache is known.
    pub hub: Option<Hub>,
    /// The second trainer.
    pub second: SecondTrainer,
}

/// A run that was cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutShort {
    /// Its id.
    pub id: String,
    /// What it was to do, for people.
    pub title: String,
    /// The step from which it can go on.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
}

/// Looks what is here already. `known` are the runs that were read last, so that only what changed is read again.
pub(super) fn around(
    root: &Path,
    folders: &Folders,
    machine: &Machine,
    wish: &DeviceWish,
    known: &[Arc<RunLine>],
) -> Around {
    // A captured machine's models are not those of this one.
    let hub = if root == Path::new(LIVE) {
        Hub::from_env().ok()
    } else {
        None
    };
    // A folder of runs that cannot be read keeps nothing else from being shown; the page of runs says why.
    let runs = lines(&folders.runs(), known).unwrap_or_default();
    let (engine, calibrations) = engine(root, wish);
    Around {
        engine,
        calibrations,
        models: models_here(folders, hub.as_ref(), &machine.knowledge),
        cut_short: runs.iter().rev().filter_map(|line| cut_short(line)).collect(),
        runs,
        trials: trials(folders),
        free_memory_bytes: load(root).available_memory_bytes,
        hub,
        second: SecondTrainer::look(folders, machine, wish),
    }
}

fn engine(
    root: &Path,
    wish: &DeviceWish,
) -> (Result<(), Problem>, BTreeMap<&'static str, CalibrationRecord>) {
    if root != Path::new(LIVE) {
        let problem = Problem::new(
            "captured_machine",
            "this window shows a captured machine, which cannot train here",
            vec!["open Tunesmith without --root to train on this machine".to_owned()],
        );
        return (Err(problem), BTreeMap::new());
    }
    match Settings::for_device(&wish.choice()) {
        Err(error) => (Err(problem!(error)), BTreeMap::new()),
        Ok(settings) => {
            let found = DEVICES
                .into_iter()
                .filter_map(|device| Some((device, stored_calibration(&settings, device)?.record)));
            (Ok(()), found.collect())
        }
    }
}

fn cut_short(line: &RunLine) -> Option<CutShort> {
    if line.state != LineState::Run(RunState::Ended(RunStatus::Interrupted)) {
        return None;
    }
    let step = line.resume_step?;
    let recipe = Run::open(&line.folder).ok()?.recipe;
    Some(CutShort {
        id: line.id.clone(),
        title: if recipe.title.is_empty() {
            recipe.name
        } else {
            recipe.title
        },
        step,
        steps: recipe.train.steps,
    })
}

/// What an estimate is asked of. Generations stand for what is too large to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct EstimateWish {
    /// The recipe.
    pub recipe: Recipe,
    /// Device against the recipe's.
    pub device: Option<String>,
    /// Who trains.
    pub trainer: Trainer,
    /// Generation of the machine and of what is here.
    pub around: Generation,
    /// The data whose rows were counted, where all of them were.
    pub counted: Option<OwnData>,
}

/// Estimates a training.
pub(super) fn estimated(
    wish: &EstimateWish,
    preview: Option<&Preview>,
    machine: &Machine,
    folders: &Folders,
    around: &Around,
) -> Result<Estimate, Problem> {
    let known = wish.known(machine, folders, around);
    estimate::estimate(&wish.with_rows(preview), &known).map_err(|error| problem!(error))
}

/// Which settings would suit a training better, and why.
pub(super) fn advised(
    wish: &EstimateWish,
    preview: Option<&Preview>,
    machine: &Machine,
    folders: &Folders,
    around: &Around,
) -> Result<Advice, Problem> {
    let known = wish.known(machine, folders, around);
    estimate::advise(&wish.with_rows(preview), &known).map_err(|error| problem!(error))
}

impl EstimateWish {
    fn known<'a>(&self, machine: &'a Machine, folders: &'a Folders, around: &'a Around) -> Known<'a> {
        let device = trains_on(&self.recipe, self.device.as_deref(), machine);
        around.known(machine, folders, device)
    }

    /// With what was counted of the rows, where all of them were.
    fn with_rows<'a>(&'a self, preview: Option<&'a Preview>) -> Wish<'a> {
        Wish {
            recipe: &self.recipe,
            device: self.device.as_deref(),
            engine: match self.trainer {
                Trainer::Native => Engine::Native,
                Trainer::Hf => Engine::Hf,
            },
            rows: preview
                .filter(|preview| preview.whole)
                .and_then(|preview| Some(&preview.tokens.as_ref()?.report)),
        }
    }
}

impl Around {
    /// What estimates for a device, `cpu` or `cuda:0`, are drawn from.
    pub fn known<'a>(&'a self, machine: &'a Machine, folders: &'a Folders, device: &str) -> Known<'a> {
        Known {
            system: &machine.system,
            knowledge: &machine.knowledge,
            folders,
            hub: self.hub.as_ref(),
            calibration: self.calibrations.get(device),
            earlier: &self.runs,
            trials: &self.trials,
            available_memory_bytes: self.free_memory_bytes,
        }
    }
}

/// What a recipe trains on, in the engine's words: the one card that is left in sight, or the processor.
pub fn trains_on(recipe: &Recipe, device: Option<&str>, machine: &Machine) -> &'static str {
    let device = device.unwrap_or(&recipe.train.device);
    if device == "cpu" || machine.card().is_none() {
        "cpu"
    } else {
        "cuda:0"
    }
}

/// The user's choice of device; `None` where the recipe's counts, which it does where it names one.
pub fn device_word(wish: &DeviceWish, recipe: &Recipe) -> Option<String> {
    if recipe.train.device == "auto" {
        wish.word()
    } else {
        None
    }
}

/// How a recipe fits on the device, in a line of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeFit {
    /// Whether it fits.
    pub fit: Fit,
    /// Memory that it needs, in bytes.
    pub bytes: Option<u64>,
    /// Bytes over the network; none where that is not known.
    pub download: Option<u64>,
    /// Most memory that torch's allocator should hold in a step, in bytes: what a run then measures.
    pub step_bytes: Option<u64>,
    /// Real tokens a second, where a speed is known.
    pub tokens_per_sec: Option<f64>,
    /// Why.
    pub reason: String,
}

/// How each bundled recipe fits, by name.
pub(super) fn fits(
    wish: &DeviceWish,
    machine: &Machine,
    folders: &Folders,
    around: &Around,
) -> BTreeMap<&'static str, RecipeFit> {
    let fit = |(name, text): &(&'static str, &str)| {
        let recipe = Recipe::parse(text, name).ok()?;
        let wish = EstimateWish {
            device: device_word(wish, &recipe),
            recipe,
            trainer: Trainer::Native,
            around: Generation::default(),
            counted: None,
        };
        let fit = match estimated(&wish, None, machine, folders, around) {
            Ok(estimate) => RecipeFit {
                fit: estimate.memory.fit,
                bytes: estimate.memory.bytes,
                download: estimate::total(&estimate.download),
                step_bytes: estimate.memory.step_bytes,
                tokens_per_sec: estimate.time.tokens_per_sec,
                reason: estimate.memory.reason,
            },
            Err(problem) => RecipeFit {
                fit: Fit::Unknown,
                bytes: None,
                download: None,
                step_bytes: None,
                tokens_per_sec: None,
                reason: problem.message,
            },
        };
        Some((*name, fit))
    };
    BUNDLED.iter().filter_map(fit).collect()
}

/// What a look at a data set is asked of.
#[derive(Clone, Debug, PartialEq)]
pub struct DataWish {
    /// The user's file; none for the data set that comes with the program.
    pub file: Option<OwnData>,
    /// Longest row, in tokens.
    pub max_length: usize,
    /// The model that reads it.
    pub model: ModelSection,
    /// Generation of what is here: the model may have been fetched.
    pub around: Generation,
}

/// What a look at a data set came to.
#[derive(Clone, Debug, PartialEq)]
pub enum DataSeen {
    /// A file.
    File(Box<Preview>),
    /// The data set that comes with the program.
    TextToSql(TextToSqlSeen),
    /// The file cannot be used as it is; its columns are known, so others can be chosen.
    Columns {
        /// Why.
        problem: Problem,
        /// All of them.
        columns: Vec<String>,
    },
}

/// The data set that comes with the program.
#[derive(Clone, Debug, PartialEq)]
pub struct TextToSqlSeen {
    /// Questions to learn from.
    pub train: usize,
    /// Questions that are asked before and after.
    pub test: usize,
    /// The first one, as the model reads it; none where the model is not here.
    pub sample: Option<Sample>,
}

/// Looks at a data set.
///
/// # Errors
/// [`Problem`] where it cannot be read.
pub(super) fn data_seen(wish: &DataWish, folders: &Folders, hub: Option<&Hub>) -> Result<DataSeen, Problem> {
    let encoder = encoder(&wish.model, folders, hub);
    let Some(file) = &wish.file else {
        return text_to_sql(encoder.as_ref()).map(DataSeen::TextToSql);
    };
    let look = PreviewWish {
        max_length: wish.max_length,
        ..PreviewWish::new(&file.path, &file.columns)
    };
    match preview(&look, encoder.as_ref()) {
        Ok(preview) => Ok(DataSeen::File(Box::new(preview))),
        Err(error) => match columns_in(&error) {
            Some(columns) => Ok(DataSeen::Columns {
                problem: problem!(error),
                columns: columns.to_vec(),
            }),
            None => Err(problem!(error)),
        },
    }
}

/// The columns that an error names: it is about which of them is what.
fn columns_in(error: &DataError) -> Option<&[String]> {
    match error {
        DataError::NoSuchColumn { seen, .. } => Some(seen),
        DataError::Line { problem, .. } => match problem.as_ref() {
            LineProblem::UnknownColumns { seen, .. }
            | LineProblem::MissingColumn { seen, .. }
            | LineProblem::NoSuchColumn { seen, .. } => Some(seen),
            _ => None,
        },
        _ => None,
    }
}

/// Tokenizer and template of a model that is here. Where it cannot be opened the training says why; a look at the data
/// does without.
fn encoder(model: &ModelSection, folders: &Folders, hub: Option<&Hub>) -> Option<Encoder> {
    let path: PathBuf = match (&model.path, model.source.as_deref()) {
        (Some(path), _) => path.clone(),
        (None, Some(source)) if source != DEFAULT_MODEL => hub?.find(&source.parse().ok()?).ok()?.1,
        _ => model::installed(folders)?,
    };
    Encoder::new(&Model::open(&path).ok()?).ok()
}

fn text_to_sql(encoder: Option<&Encoder>) -> Result<TextToSqlSeen, Problem> {
    let set = TextToSql::load().map_err(|error| problem!(error))?;
    let sample = set.train.first().zip(encoder).and_then(|(question, encoder)| {
        let mut messages = set.messages(question);
        messages.push(Message::new("assistant", question.sql.clone()));
        let example = Example {
            id: question.id.clone(),
            messages,
        };
        let row = encoder.row(&example).ok()?;
        encoder.sample(&example.id, &row).ok()
    });
    Ok(TextToSqlSeen {
        train: set.train.len(),
        test: set.test.len(),
        sample,
    })
}

/// Reads a recipe of the user's own.
///
/// # Errors
/// [`Problem`] with the line where it is wrong.
pub(super) fn recipe_file(path: &Path) -> Result<Recipe, Problem> {
    Recipe::load(&path.to_string_lossy()).map_err(|error| problem!(error))
}
