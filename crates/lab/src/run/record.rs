//! What a run's folder says about it: the manifest, written at the start, and the summary, written at the end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tunesmith_data::{Reading, RowsReport};
use tunesmith_measure::{
    MemoryNeed, MemoryWork, ModelShape, Peaks, TrainingSummary,
    cost::EnergyRead,
    fit::{Correction, MemoryLimit},
    judge::Judgement,
};
use tunesmith_probe::{GpuBrief, Load, Machine};
use tunesmith_protocol::{Base, Calibration, Hello, RunStatus, TrainStats};

use crate::{evaluate::Evaluation, supervisor::Failure};

/// Version of the two files; a reader refuses a later one.
pub const RECORD_VERSION: u32 = 1;

/// In what surroundings a run took place (M18): everything that somebody needs who wants to repeat it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`RECORD_VERSION`].
    pub version: u32,
    /// The run's id, which is its folder's name.
    pub id: String,
    /// When it began, RFC 3339 in UTC.
    pub created: String,
    /// Version of Tunesmith.
    pub tunesmith: String,
    /// Process that led it.
    pub pid: u32,
    /// SHA-256 over everything that changes the result.
    pub config_hash: String,
    /// Name of the recipe.
    pub recipe: String,
    /// Its title.
    pub title: String,
    /// Device: `cpu` or `cuda:N`.
    pub device: String,
    /// Threads that were asked for, where they were.
    pub threads: Option<usize>,
    /// Who trains: engine, version, torch, back end, threads in use.
    pub engine: Hello,
    /// The machine, as probed.
    pub machine: MachineRecord,
    /// Variables that were set and can change what torch does.
    pub environment: BTreeMap<String, String>,
    /// The model.
    pub model: ModelRecord,
    /// The data.
    pub data: DataRecord,
    /// The adapter that the training goes on from, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterRecord>,
    /// The calibration that MFU is counted against, where there is one.
    pub calibration: Option<CalibrationRecord>,
    /// Peaks that MFU is counted against.
    pub peaks: Peaks,
    /// The memory that the training should need by formula: what it then held corrects the next prediction (X11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<MemoryNeed>,
    /// What the formula was asked, how earlier runs corrected it, and the limit that the run got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryRecord>,
}

/// What was said of a run's memory before it began, and the limit that it got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// The micro-batch that needs most, and how it is computed.
    pub work: MemoryWork,
    /// What earlier runs said of the formula.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<Correction>,
    /// What torch's allocator should hold at most in a step, corrected, in bytes: this is what is measured.
    pub step_bytes: u64,
    /// All of it, with driver and libraries, in bytes.
    pub bytes: u64,
    /// Share by which it may be wrong.
    pub margin: f64,
    /// The share of the card that torch was allowed; absent on a processor, and where none was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<MemoryLimit>,
}

/// Predicted memory beside what was measured (X11), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryOutcome {
    /// What torch's allocator should have held at most in a step, by formula.
    pub predicted_bytes: u64,
    /// The same, corrected by what earlier runs here held.
    pub corrected_bytes: u64,
    /// What it held; absent where the engine cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_bytes: Option<u64>,
    /// What the engine's process held at most in main memory; absent where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_bytes: Option<u64>,
}

impl Manifest {
    /// Threads that operations on a processor use.
    pub fn threads_in_use(&self) -> usize {
        self.threads.unwrap_or(self.engine.threads)
    }
}

/// The model of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// File or folder name, without where it lies; of a model from a hub its id.
    pub name: String,
    /// Of a model from a hub its id with the exact commit, so that nobody gets another one (T10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it lies on this machine.
    pub path: std::path::PathBuf,
    /// SHA-256 over weights, configuration and tokenizer.
    pub fingerprint: String,
    /// Its architecture, e.g. `llama`.
    pub architecture: String,
    /// Its dimensions.
    pub shape: ModelShape,
    /// Parameters in all.
    pub parameters: u64,
    /// Longest context, in tokens.
    pub context_length: usize,
}

/// An adapter that a training goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterRecord {
    /// SHA-256 of its weights' file.
    pub sha256: String,
    /// The base that it was trained on, where it says (T8).
    pub base: Option<Base>,
}

/// The data of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataRecord {
    /// Name of the data set or file name.
    pub source: String,
    /// SHA-256 of its content.
    pub source_sha256: String,
    /// What the file's columns were used as, where it was a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,
    /// SHA-256 of the tokenised rows.
    pub rows_sha256: String,
    /// SHA-256 of the test questions (E1), where there are some.
    pub test_sha256: Option<String>,
    /// What was counted while tokenising.
    pub report: RowsReport,
}

/// A calibration with its date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationRecord {
    /// When it was taken, RFC 3339 in UTC.
    pub taken: String,
    /// What was measured.
    pub result: Calibration,
}

/// A machine with its cards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineRecord {
    /// Processor, memory, system.
    #[serde(flatten)]
    pub machine: Machine,
    /// Its cards.
    pub gpus: Vec<GpuBrief>,
}

/// How busy the machine was with other things (M19) during a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContentionSample {
    /// Which stage.
    pub stage: String,
    /// When it began, RFC 3339 in UTC.
    pub at: String,
    /// What was seen until its end.
    pub seen: Load,
}

/// Cores that others keep busy from which on a measurement on a processor is in doubt.
pub(crate) const TELLING_CORES: f64 = 0.3;
/// The same for a card, which a processor only feeds.
const TELLING_CORES_ON_CARD: f64 = 2.0;

impl ContentionSample {
    /// The cores that others kept busy and who they were, where that was enough to change what is measured (M19).
    pub fn disturbance(&self, on_card: bool) -> Option<(f64, String)> {
        let telling = if on_card {
            TELLING_CORES_ON_CARD
        } else {
            TELLING_CORES
        };
        let cores = self.seen.other_cores.filter(|cores| *cores >= telling)?;
        let busy = self.seen.busy_processes.iter().take(3);
        let names: Vec<&str> = busy.map(|process| process.name.as_str()).collect();
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(" ({})", names.join(", "))
        };
        Some((cores, format!("other programs{names} kept {cores:.1} cores busy")))
    }
}

/// Seconds that the parts of a run took; of a run that went on from a checkpoint, what lies before it included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Reading the model's headers, tokenising.
    pub prepare_secs: f64,
    /// Evaluating the base model, loading included.
    pub evaluate_before_secs: Option<f64>,
    /// Training, loading included.
    pub train_secs: Option<f64>,
    /// Evaluating the tuned model, loading included.
    pub evaluate_after_secs: Option<f64>,
    /// All of it.
    pub total_secs: f64,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`RECORD_VERSION`].
    pub version: u32,
    /// How it ended.
    pub status: RunStatus,
    /// Why, in a sentence, where it is not `ok`.
    pub reason: Option<String>,
    /// The failure, where there was one.
    pub failure: Option<Failure>,
    /// What the judge saw.
    #[serde(default)]
    pub judge: Judgement,
    /// When it ended, RFC 3339 in UTC.
    pub finished: String,
    /// Figures of the training.
    pub training: Option<TrainingSummary>,
    /// The engine's own account of the training.
    pub engine: Option<TrainStats>,
    /// The evaluation before and after.
    pub evaluation: Evaluation,
    /// Adapter folder, relative to the run's.
    pub adapter: Option<std::path::PathBuf>,
    /// What took how long.
    pub timings: Timings,
    /// How busy the machine was with other things.
    pub contention: Vec<ContentionSample>,
    /// Predicted memory beside what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryOutcome>,
    /// Energy that the card's sensors told during the training (U8); absent where none was read, as on a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyRead>,
    /// Mean power of the card over the seconds that were read, in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_watts: Option<f64>,
}
