//! An experiment: what was compared, every run that was made for it, failures included, and what they came to.

use serde::{Deserialize, Serialize};
use tunesmith_measure::{comparison::Comparison, gap::Ladder};

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRecord {
    /// Its short name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it asks, in a sentence.
    #[serde(default)]
    pub question: String,
    /// Hash over everything that changes its result.
    #[serde(default)]
    pub config_hash: String,
    /// Its file, resolved.
    #[serde(default)]
    pub toml: String,
    /// The model that its arms train.
    #[serde(default)]
    pub model: String,
    /// Runs that it wants in all.
    #[serde(default)]
    pub planned_runs: usize,
    /// The runs in the order in which they were made.
    pub runs: Vec<ExperimentRun>,
    /// What they came to.
    pub comparison: Comparison,
    /// Timed steps of a run over which the arms are compared (M10, M11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_steps: Option<u64>,
    /// What a reader of the verdict must know, e.g. whose kernels were measured: it never speaks for the card.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Of a long run: how its speed went, a sentence a run.
    #[serde(default)]
    pub drift: Vec<String>,
    /// Where the time goes, of an experiment that asked it (M5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<Ladder>,
}

impl ExperimentRecord {
    /// Name of an arm by its number.
    pub fn arm_name(&self, arm: usize) -> &str {
        self.comparison
            .arms
            .get(arm)
            .map_or("an arm", |arm| arm.name.as_str())
    }
}

/// One run of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRun {
    /// Number of its arm, from 0.
    pub arm: usize,
    /// Its seed.
    pub seed: u64,
    /// Id of the run; absent where it never began.
    #[serde(default)]
    pub id: Option<String>,
    /// How it ended, e.g. `ok` or `oom`; `waiting` where it is yet to be made.
    pub status: String,
    /// Why, where it did not end well.
    #[serde(default)]
    pub reason: Option<String>,
    /// Whether its figures count.
    pub counts: bool,
    /// Memory that a step of it should need by formula, in bytes: what the allocator then measures.
    #[serde(default)]
    pub predicted_bytes: Option<u64>,
    /// Most memory that it held, in bytes.
    #[serde(default)]
    pub peak_bytes: Option<u64>,
    /// Real tokens a second, steady.
    #[serde(default)]
    pub tokens_per_sec: Option<f64>,
    /// Its loss over the steps, thinned.
    #[serde(default)]
    pub losses: Vec<LossPoint>,
}

/// Loss at a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// The step.
    pub step: u64,
    /// Nats per supervised token.
    pub loss: f64,
}
