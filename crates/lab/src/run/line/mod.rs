//! The list of runs as a window shows it: a short line for each folder, read without the curves that it does not
//! need. Ten thousand runs are listed in the time that reading all of each would take for a few hundred.
//!
//! - `read`: a folder to its line, all folders to the list.
//! - `records`: the few fields of the two records that a line needs.

mod read;
mod records;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tunesmith_measure::{LossSummary, MemoryNeed, Mfu, Spread, TrainingSummary, judge::Severity};

use super::{MemoryRecord, RunError, RunState};

use read::time_in;
pub use read::{Stamp, lines};
use records::practical_of_mfu;

/// Where a line of the list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// It is a run.
    Run(RunState),
    /// The folder cannot be read as a run; [`RunLine::reason`] says why.
    Broken,
}

impl LineState {
    /// The name in lists: that of [`RunState::name`], or `broken`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run(state) => state.name(),
            Self::Broken => "broken",
        }
    }

    /// Whether a process leads the run right now.
    pub fn is_running(self) -> bool {
        self == Self::Run(RunState::Running)
    }
}

/// What a list, a comparison or a chart of many runs needs of one. What the record does not tell is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLine {
    /// Its id, which is its folder's name.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// When it began, RFC 3339 in UTC.
    pub started: Option<String>,
    /// Name of the recipe; empty where the folder is broken.
    pub recipe: String,
    /// Title of the recipe; may be empty.
    pub title: String,
    /// Name of the model.
    pub model: Option<String>,
    /// Of a model from a hub its id, at the exact commit once the run has begun; of the default model its name.
    pub model_source: Option<String>,
    /// Where the model lay.
    pub model_path: Option<PathBuf>,
    /// Name of the data set, or of its file.
    pub data: Option<String>,
    /// Device: `cpu` or `cuda:N`.
    pub device: Option<String>,
    /// Name of the engine that trained.
    pub engine: Option<String>,
    /// What the engine's torch calls the kind of device: `cpu`, `cuda` or `hip`.
    pub backend: Option<String>,
    /// The memory that it should need by formula, see [`Manifest::predicted`](super::Manifest::predicted).
    pub predicted: Option<MemoryNeed>,
    /// What that formula was asked, see [`Manifest::memory`](super::Manifest::memory).
    pub memory: Option<MemoryRecord>,
    /// Most memory that the engine's process held, in bytes.
    pub process_bytes: Option<u64>,
    /// SHA-256 over everything that changes the result: runs that share it are repeats of one experiment.
    pub config_hash: Option<String>,
    /// Where it stands.
    pub state: LineState,
    /// Why it ended as it did, or why the folder cannot be read.
    pub reason: Option<String>,
    /// Stable name of what went wrong, where the record or the reader has one.
    pub code: Option<String>,
    /// Figures of the training, where there was a step.
    pub figures: Option<Figures>,
    /// Execution match of the base model, in points, 0 to 100.
    pub before_points: Option<f64>,
    /// Execution match of the tuned model, in points, 0 to 100.
    pub after_points: Option<f64>,
    /// Half-width of the 95 % interval of [`Self::after_points`], in points (E4).
    pub after_half_width_points: Option<f64>,
    /// The judge's worst finding; `None` where nothing was checked.
    pub judge: Option<Severity>,
    /// Seconds that the whole run took.
    pub total_secs: Option<f64>,
    /// The step from which it can probably go on, see [`Run::resume_step`](super::Run::resume_step).
    pub resume_step: Option<u64>,
    /// Whether there is an adapter.
    pub has_adapter: bool,
    /// Whether a report was written.
    pub has_report: bool,
    /// What the line was read from.
    pub stamp: Stamp,
}

/// The figures of a training without its curve. They are those of [`TrainingSummary`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Figures {
    /// Steps recorded.
    pub total_steps: usize,
    /// Steps that count (M14).
    pub valid_steps: usize,
    /// The loss, in nats per supervised token.
    pub loss: Option<LossSummary>,
    /// Real tokens a second over the steady window (M6).
    pub steady_tokens_per_sec: Option<f64>,
    /// Wall time of a step, in seconds, over the steady window.
    pub step_secs: Option<Spread>,
    /// Most memory that the device's allocator held.
    pub peak_bytes: Option<u64>,
    /// LoRA-exact operations against the measured peak (M2).
    #[serde(rename = "mfu", deserialize_with = "practical_of_mfu", default)]
    pub mfu_exact_practical: Option<Mfu>,
}

impl From<&TrainingSummary> for Figures {
    fn from(training: &TrainingSummary) -> Self {
        Self {
            total_steps: training.total_steps,
            valid_steps: training.valid_steps,
            loss: training.loss,
            steady_tokens_per_sec: training.steady_tokens_per_sec,
            step_secs: training.step_secs,
            peak_bytes: training.peak_bytes,
            mfu_exact_practical: training.mfu.and_then(|mfu| mfu.lora_exact.practical),
        }
    }
}

impl RunLine {
    /// A folder that cannot be read as a run.
    pub fn broken(folder: &Path, reason: &RunError) -> Self {
        let id = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Self {
            started: time_in(&id),
            id,
            folder: folder.to_owned(),
            recipe: String::new(),
            title: String::new(),
            model: None,
            model_source: None,
            model_path: None,
            data: None,
            device: None,
            engine: None,
            backend: None,
            predicted: None,
            memory: None,
            process_bytes: None,
            config_hash: None,
            state: LineState::Broken,
            reason: Some(reason.to_string()),
            code: Some(reason.code().to_owned()),
            figures: None,
            before_points: None,
            after_points: None,
            after_half_width_points: None,
            judge: None,
            total_secs: None,
            resume_step: None,
            has_adapter: false,
            has_report: false,
            stamp: Stamp::default(),
        }
    }
}
