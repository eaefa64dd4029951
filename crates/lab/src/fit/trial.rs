//! A try on disk: settings that were run for a few steps, with what was predicted beside what was measured. Tries correct
//! predictions as runs do, and tell how fast settings are here.
//!
//! `<data dir>/fits/<time>-<recipe>/try.json`, beside the engine's raw words in `events.jsonl` and `engine.log`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tunesmith_measure::{
    MemoryNeed, MemoryWork, Recomputed, StepWork, Tflops, Trainer,
    fit::{Correction, MemoryLimit, Spill},
    stats, step_flops,
};
use tunesmith_models::hub::HubId;
use tunesmith_protocol::{DType, Outcome, Quantization, Recompute, RunStatus};
use tunesmith_setup::{Folders, model};

use crate::{
    estimate::MemoryPoint,
    files::{make_folder, write_json},
    pipeline::{LabError, Observer, Settings, TrialJob, TrialLed, lead_trial},
    recipe::Recipe,
    run::{MemoryOutcome, ModelRecord, now},
    supervisor::Failure,
};

/// Version of a try's record.
const VERSION: u32 = 1;
const FILE: &str = "try.json";
/// Tries that are read: the newest tell most.
const MOST_READ: usize = 200;
/// Steps that are done where nobody says otherwise: the first warms up.
pub(super) const STEPS: u64 = 3;

/// A model as runs and tries name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelName {
    /// For people.
    pub name: String,
    /// Of a model from a hub its id with the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it lay.
    pub path: PathBuf,
}

impl ModelName {
    /// That of a run.
    pub fn of(model: &ModelRecord) -> Self {
        Self {
            name: model.name.clone(),
            source: model.source.clone(),
            path: model.path.clone(),
        }
    }

    /// Whether a run or try with this source and path had this model, whatever the revision.
    pub fn is(&self, source: Option<&str>, path: Option<&Path>) -> bool {
        let id = |source: &str| source.parse::<HubId>().ok();
        match (self.source.as_deref().and_then(id), source.and_then(id)) {
            (Some(own), Some(other)) => own.name() == other.name(),
            (None, None) => {
                // Set-up's model carries its version in its folder: the file's name is enough.
                let file = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
                let own = file(&self.path);
                path == Some(&self.path)
                    || (own.as_deref() == Some(model::file_name()) && path.and_then(file) == own)
            }
            _ => false,
        }
    }
}

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub struct TrialWish<'a> {
    /// The settings.
    pub recipe: &'a Recipe,
    /// Tokens of every row; the recipe's `max_length` where absent.
    pub row_tokens: Option<u64>,
    /// Optimizer steps; three where absent.
    pub steps: Option<u64>,
}

/// A try that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Version of this record.
    pub version: u32,
    /// When it began, RFC 3339 in UTC.
    pub at: String,
    /// Its folder's name.
    pub id: String,
    /// Name of the recipe.
    pub recipe: String,
    /// The model.
    pub model: ModelName,
    /// Who trained.
    pub engine: String,
    /// What its torch calls the kind of device.
    pub backend: String,
    /// Its torch.
    pub torch: String,
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// Rank of the adapter.
    pub rank: i64,
    /// Rows of a pass.
    pub micro_batch: usize,
    /// Passes of an optimizer step.
    pub accumulation: usize,
    /// Tokens of every row.
    pub row_tokens: u64,
    /// What decides the memory.
    pub work: MemoryWork,
    /// By formula.
    pub predicted: MemoryNeed,
    /// How earlier runs and tries corrected it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<Correction>,
    /// All of it with driver and libraries, corrected, in bytes.
    pub bytes: u64,
    /// Share by which that may be wrong.
    pub margin: f64,
    /// Predicted beside measured.
    pub memory: MemoryOutcome,
    /// The share of the card that torch was allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<MemoryLimit>,
    /// How it ended: `ok` or `time_boxed` where it ran, `oom` where there was too little memory.
    pub status: RunStatus,
    /// Why, where it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The signs of a card that was too full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<Spill>,
    /// Steps done.
    pub steps: usize,
    /// Median seconds of the steps after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_secs: Option<f64>,
    /// Tokens a second over those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_sec: Option<f64>,
    /// What the hardware computed in them, recomputation included, in TFLOPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tflops: Option<f64>,
    /// Seconds of all of it, loading included.
    pub secs: f64,
}

impl Trial {
    /// Whether it ran: with enough memory, and as far as it was to go or its time box let it.
    pub fn ran(&self) -> bool {
        self.spill.is_none() && matches!(self.status, RunStatus::Ok | RunStatus::TimeBoxed) && self.steps > 0
    }

    /// Whether it was made by this engine on this kind of device.
    pub fn is_by(&self, engine: &str, backend: &str) -> bool {
        self.engine == engine && self.backend == backend
    }

    /// What it tells of memory; nothing where it did not run.
    pub fn memory_point(&self, same_model: bool) -> Option<MemoryPoint> {
        Some(MemoryPoint {
            same_model,
            work: self.work,
            predicted: self.predicted,
            measured_bytes: self.memory.measured_bytes.filter(|_| self.ran())?,
            process_bytes: self.memory.process_bytes,
        })
    }

    /// Number format of weights and activations.
    pub fn dtype(&self) -> DType {
        self.work.dtype
    }

    /// How the base was stored.
    pub fn quantization(&self) -> Quantization {
        self.work.quantization
    }

    /// What was computed again.
    pub fn recompute(&self) -> Recompute {
        self.work.recompute
    }

    fn of(id: &str, at: String, recipe: &Recipe, led: TrialLed, secs: f64) -> Self {
        let train = &recipe.train;
        let stats = match &led.end.outcome {
            Some(Outcome::Train(stats)) => Some(stats),
            _ => None,
        };
        let measured_bytes = stats.and_then(|stats| stats.peak_bytes).or(led
            .steps
            .iter()
            .filter_map(|step| step.peak_bytes)
            .max());
        let later: Vec<f64> = led.steps.iter().skip(1).map(|step| step.dt_secs).collect();
        let step_secs = stats::median(&later).ok();
        let tokens = led.work.tokens * train.accumulation as u64;
        Self {
            version: VERSION,
            at,
            id: id.to_owned(),
            recipe: recipe.name.clone(),
            engine: led.hello.engine.clone(),
            backend: led.hello.backend.clone(),
            torch: led.hello.torch.clone(),
            device: led.device.clone(),
            rank: recipe.lora.rank,
            micro_batch: train.micro_batch,
            accumulation: train.accumulation,
            row_tokens: led.work.row_tokens,
            work: led.work,
            predicted: led.predicted.need,
            correction: led.predicted.correction.map(|(correction, _)| correction),
            bytes: led.predicted.bytes,
            margin: led.predicted.margin,
            memory: MemoryOutcome {
                predicted_bytes: led.predicted.need.step_bytes(),
                corrected_bytes: led.predicted.step_bytes,
                measured_bytes,
                process_bytes: stats.and_then(|stats| stats.peak_process_bytes),
            },
            limit: led.limit,
            status: led.end.status,
            failure: led.end.failure.clone(),
            spill: led.spill,
            steps: led.steps.len(),
            step_secs,
            tokens_per_sec: step_secs
                .filter(|secs| *secs > 0.0)
                .map(|secs| tokens as f64 / secs),
            tflops: step_secs.and_then(|secs| tflops(&led, train.accumulation as u64, secs)),
            model: led.model,
            secs,
        }
    }
}

/// What the hardware computed in a step.
fn tflops(led: &TrialLed, passes: u64, secs: f64) -> Option<f64> {
    let recomputed = match (led.work.trainer, led.work.recompute) {
        (Trainer::Native, recompute) => Recomputed::by_engine(recompute),
        (Trainer::Transformers, Recompute::None) => Recomputed::Nothing,
        (Trainer::Transformers, _) => Recomputed::WholeLayer,
    };
    let work = StepWork {
        padded_tokens: passes * led.work.tokens,
        supervised_rows: passes * led.work.supervised,
        squared_lengths: passes * led.work.squared_lengths,
        recomputed,
    };
    let operations = step_flops(&led.shape, &led.lora, &work).hardware();
    Tflops::from_operations(operations, secs).map(|tflops| tflops.0)
}

/// Tries settings for a few steps on made rows, and keeps what they held.
///
/// # Errors
/// [`LabError`] for what keeps it from beginning, [`LabError::Stopped`] when the user stops it. Running out of memory is
/// no error: the try says so.
pub fn measure(
    wish: &TrialWish<'_>,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Trial, LabError> {
    let recipe = wish.recipe;
    let _lock = settings.hold(&recipe.train.device, "(trying what fits)", observer)?;
    try_once(wish, settings, observer)
}

/// As [`measure`], for a caller that holds the device.
pub(super) fn try_once(
    wish: &TrialWish<'_>,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Trial, LabError> {
    let (recipe, at) = (wish.recipe, now());
    let start = std::time::Instant::now();
    let (id, folder) = new_folder(&settings.folders, &recipe.name)?;
    let led = lead_trial(
        &TrialJob {
            recipe,
            row_tokens: wish.row_tokens.unwrap_or(recipe.data.max_length as u64),
            steps: wish.steps.unwrap_or(STEPS),
            folder: &folder,
        },
        settings,
        observer,
    );
    let led = match led {
        Ok(led) => led,
        Err(error) => {
            // Without a record the folder says nothing.
            let _ = fs::remove_dir_all(&folder);
            return Err(error);
        }
    };
    if led.end.status == RunStatus::Cancelled {
        let _ = fs::remove_dir_all(&folder);
        return Err(LabError::Stopped);
    }
    let trial = Trial::of(&id, at, recipe, led, start.elapsed().as_secs_f64());
    write_json(&folder.join(FILE), &trial)?;
    Ok(trial)
}

fn new_folder(folders: &Folders, recipe: &str) -> Result<(String, PathBuf), LabError> {
    let parent = fits(folders);
    make_folder(&parent)?;
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S%.3f");
    let id = format!("{time}-{recipe}").replace('.', "");
    let folder = parent.join(&id);
    make_folder(&folder)?;
    Ok((id, folder))
}

/// Where tries and searches lie.
pub(super) fn fits(folders: &Folders) -> PathBuf {
    folders.data().join("fits")
}

/// The newest tries of this machine, oldest first. What cannot be read is left out.
pub fn trials(folders: &Folders) -> Vec<Trial> {
    let entries = fs::read_dir(fits(folders)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path().join(FILE))
        .filter(|file| file.is_file())
        .collect();
    files.sort_unstable();
    let newest = files.len().saturating_sub(MOST_READ);
    files[newest..]
        .iter()
        .filter_map(|file| serde_json::from_slice(&fs::read(file).ok()?).ok())
        .filter(|trial: &Trial| trial.version == VERSION)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(source: Option<&str>, path: &str) -> ModelName {
        ModelName {
            name: String::new(),
            source: source.map(str::to_owned),
            path: PathBuf::from(path),
        }
    }

    #[test]
    fn a_model_is_the_same_at_another_commit_and_not_under_another_name() {
        let own = name(Some("owner/a@0123456789012345678901234567890123456789"), "/x");
        assert!(own.is(
            Some("owner/a@1123456789012345678901234567890123456789"),
            Some(Path::new("/y"))
        ));
        assert!(!own.is(Some("owner/b"), Some(Path::new("/x"))));
        assert!(!own.is(None, Some(Path::new("/x"))));
        let file = name(None, "/models/a.gguf");
        assert!(file.is(None, Some(Path::new("/models/a.gguf"))));
        assert!(!file.is(None, Some(Path::new("/other/a.gguf"))));
        let default = name(None, &format!("/home/1/{}", model::file_name()));
        let moved = format!("/home/2/{}", model::file_name());
        assert!(default.is(None, Some(Path::new(&moved))), "set-up's own model");
    }
}
