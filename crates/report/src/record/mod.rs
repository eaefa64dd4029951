//! What a report is made of: plain types, so that any program that has a run, an experiment or a calibration can fill
//! them. They are evidence alone; verdicts are drawn from them by [`crate::Report::new`].

mod evaluation;
mod experiment;
mod machine;

use serde::{Deserialize, Serialize};
use tunesmith_measure::{
    LoraShape, MemoryNeed, ModelShape, Tflops, TrainingSummary, cost::Prices, judge::Judgement,
};
use tunesmith_protocol::{Calibration, DType, RunStatus};

pub use evaluation::{AnswerRecord, CategoryScore, EvaluationResult};
pub use experiment::{ExperimentRecord, ExperimentRun, LossPoint};
pub use machine::{DeviceRecord, DoctorFinding, DoctorRecord, DoctorStatus, Telemetry, TelemetryPoint};

/// Everything a report is made of: a training, an experiment, or neither, which leaves the device and its calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportInput {
    /// The training, in a report of one.
    #[serde(default)]
    pub training: Option<TrainingRecord>,
    /// The experiment, in a report of one.
    #[serde(default)]
    pub experiment: Option<ExperimentRecord>,
    /// What computed.
    #[serde(default)]
    pub device: DeviceRecord,
    /// Number format of frozen weights and activations: the measured peak is that of this format.
    pub dtype: DType,
    /// Machine, driver, torch, flags, revisions, contention (M18, M19): any JSON; objects become groups.
    #[serde(default)]
    pub manifest: serde_json::Value,
    /// What the device did.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// When that was taken, RFC 3339.
    #[serde(default)]
    pub calibrated: Option<String>,
    /// Peak of the spec sheet for this format, where known.
    #[serde(default)]
    pub spec_peak: Option<Tflops>,
    /// What the doctor found on this machine.
    #[serde(default)]
    pub doctor: Option<DoctorRecord>,
    /// What the card's sensors told while it trained.
    #[serde(default)]
    pub telemetry: Option<Telemetry>,
    /// What the user says things cost.
    #[serde(default)]
    pub prices: Prices,
    /// The one command that does it again, where there is one.
    #[serde(default)]
    pub repeat: Option<String>,
    /// Rules of counting beyond those that every report states.
    #[serde(default)]
    pub counting_rules: Vec<CountingRule>,
    /// What was taken out, one sentence each (X16); [`crate::redact`] adds to it.
    #[serde(default)]
    pub redactions: Vec<String>,
    /// The engine that trained or measured.
    #[serde(default)]
    pub engine: EngineRecord,
    /// Version of the program that made the report.
    pub program_version: String,
    /// When the training, the experiment or the calibration began: RFC 3339.
    pub date: String,
}

/// A training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingRecord {
    /// Id of the run.
    #[serde(default)]
    pub id: String,
    /// Hash over everything that changes the result.
    #[serde(default)]
    pub config_hash: String,
    /// What was run.
    pub recipe: RecipeRecord,
    /// The model as people call it, e.g. `SmolLM2-135M-Instruct`.
    pub model: String,
    /// What it was to learn, as it fits "learned … here", e.g. `text-to-SQL`.
    pub task: String,
    /// How the run ended.
    pub status: RunStatus,
    /// Why, where it did not end well: one sentence.
    #[serde(default)]
    pub reason: Option<String>,
    /// What to do about that, one sentence each.
    #[serde(default)]
    pub remedies: Vec<String>,
    /// The figures of the training.
    pub summary: TrainingSummary,
    /// What the judge saw; empty in a run from before there was one.
    #[serde(default)]
    pub judge: Judgement,
    /// What other programs did meanwhile, where that was enough to change its figures (M19): a clause.
    #[serde(default)]
    pub disturbed: Option<String>,
    /// Most memory that the engine's process held, in bytes, where the system can tell.
    #[serde(default)]
    pub peak_process_bytes: Option<u64>,
    /// Scores of the base model (E4).
    #[serde(default)]
    pub before: Option<EvaluationResult>,
    /// Scores of the trained model.
    #[serde(default)]
    pub after: Option<EvaluationResult>,
    /// The model's dimensions.
    #[serde(default)]
    pub shape: Option<ModelShape>,
    /// The adapter's.
    #[serde(default)]
    pub lora: Option<LoraShape>,
    /// Whether the frozen base was held in 4 bits.
    #[serde(default)]
    pub four_bit_base: bool,
    /// The memory that it should need by formula, as said before it began.
    #[serde(default)]
    pub predicted: Option<MemoryNeed>,
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeRecord {
    /// Its short name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its text, resolved.
    pub toml: String,
}

/// The engine that trained or measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineRecord {
    /// e.g. `tunesmith-engine`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// How a number was counted (X16).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountingRule {
    /// The number.
    pub title: String,
    /// The rule.
    pub text: String,
}
