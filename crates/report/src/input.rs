//! What a report is made of: plain types, so that any program that has a run can fill them.

use serde::{Deserialize, Serialize};
use tunesmith_measure::{Tflops, TrainingSummary, judge::Judgement};
use tunesmith_protocol::{Calibration, DType, RunStatus};

/// Everything a report is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportInput {
    /// What was run.
    pub recipe: RecipeRecord,
    /// The model as people call it, e.g. `SmolLM2-135M-Instruct`.
    pub model: String,
    /// What it was to learn, as it fits "learned … here", e.g. `text-to-SQL`.
    pub task: String,
    /// Format of frozen weights and activations: the measured peak is that of this format.
    pub dtype: DType,
    /// How the run ended.
    pub status: RunStatus,
    /// Why, where it did not end well: one sentence.
    #[serde(default)]
    pub reason: Option<String>,
    /// Machine, driver, torch, flags, revisions, contention (M18, M19): any JSON; objects become groups.
    #[serde(default)]
    pub manifest: serde_json::Value,
    /// The figures of the training.
    pub summary: TrainingSummary,
    /// What the judge saw; empty in a run from before there was one.
    #[serde(default)]
    pub judge: Judgement,
    /// Most memory that the engine's process held, in bytes, where the system can tell.
    #[serde(default)]
    pub peak_process_bytes: Option<u64>,
    /// What the device did.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// Peak of the spec sheet for this format, where known.
    #[serde(default)]
    pub spec_peak: Option<Tflops>,
    /// Scores of the base model (E4).
    #[serde(default)]
    pub before: Option<EvaluationResult>,
    /// Scores of the trained model.
    #[serde(default)]
    pub after: Option<EvaluationResult>,
    /// Rules of counting beyond those that every report states.
    #[serde(default)]
    pub counting_rules: Vec<CountingRule>,
    /// What was taken out, one sentence each (X16); [`crate::redact`] adds to it.
    #[serde(default)]
    pub redactions: Vec<String>,
    /// The engine that trained.
    pub engine: EngineRecord,
    /// Version of the program that made the report.
    pub program_version: String,
    /// When the run began: RFC 3339.
    pub date: String,
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

/// The engine that trained.
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

/// Scores of one model on a set of questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationResult {
    /// Questions asked.
    pub questions: u64,
    /// Answers equal to the gold query after normalising (E2).
    pub exact: u64,
    /// Answers that execute (E3).
    pub executes: u64,
    /// Answers whose rows equal those of the gold query.
    pub matches: u64,
    /// The same by category.
    #[serde(default)]
    pub by_category: Vec<CategoryScore>,
    /// Every answer (E5).
    #[serde(default)]
    pub answers: Vec<AnswerRecord>,
    /// How the query is taken out of an answer, the same before and after.
    #[serde(default)]
    pub extraction_rule: String,
    /// Seconds that it took.
    #[serde(default)]
    pub secs: f64,
}

/// Scores within a category.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryScore {
    /// Its name.
    pub category: String,
    /// Questions in it.
    pub total: u64,
    /// As in [`EvaluationResult::exact`].
    pub exact: u64,
    /// As in [`EvaluationResult::executes`].
    pub executes: u64,
    /// As in [`EvaluationResult::matches`].
    pub matches: u64,
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// Id of the question, the same before and after.
    pub id: String,
    /// Its category.
    #[serde(default)]
    pub category: String,
    /// The question.
    pub question: String,
    /// The tables as shown to the model.
    #[serde(default)]
    pub schema_text: String,
    /// The gold query.
    pub gold: String,
    /// The model's whole answer.
    pub answer: String,
    /// The query taken out of it, where there is one.
    #[serde(default)]
    pub sql: Option<String>,
    /// Equal to the gold query after normalising.
    pub exact: bool,
    /// Executes.
    pub executes: bool,
    /// Same rows as the gold query.
    pub matches: bool,
}
