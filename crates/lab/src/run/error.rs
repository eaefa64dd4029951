//! Why a run's folder could not be made, found or read.

use std::path::PathBuf;

use tunesmith_measure::MeasureError;

use crate::{files::FileError, recipe::RecipeError};

/// Why a run's folder could not be made, found or read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The recipe cannot be kept.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A file of the run is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// A later version of the program made the run.
    #[error("the run {id} was made by a later version of the program (record version {found})")]
    TooNew {
        /// The run.
        id: String,
        /// Its record version.
        found: u32,
    },
    /// The record holds what cannot be counted.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// A process leads the run right now.
    #[error("the run {id} is going on")]
    Led {
        /// The run.
        id: String,
    },
    /// There is a run of this id where another one should go.
    #[error("there is a run {id} already")]
    Exists {
        /// The run.
        id: String,
    },
    /// No run has this name.
    #[error("there is no run `{name}`")]
    Unknown {
        /// As given.
        name: String,
        /// Whether there are any runs at all.
        any: bool,
    },
    /// Several runs begin with this text.
    #[error("`{name}` could be any of {count} runs")]
    Ambiguous {
        /// As given.
        name: String,
        /// How many.
        count: usize,
        /// Some of them.
        examples: Vec<String>,
    },
}

impl RunError {
    /// Stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::File(error) => error.code(),
            Self::Recipe(error) => error.code(),
            Self::Measure(error) => error.code(),
            Self::Damaged { .. } => "run_damaged",
            Self::TooNew { .. } => "run_too_new",
            Self::Led { .. } => "run_led",
            Self::Exists { .. } => "run_exists",
            Self::Unknown { .. } => "unknown_run",
            Self::Ambiguous { .. } => "ambiguous_run",
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::File(error) => error.hints(),
            Self::Recipe(error) => error.hints(),
            Self::Measure(error) => error.hints(),
            Self::Damaged { .. } => {
                vec!["the run's other files are untouched; events.jsonl holds what was measured".to_owned()]
            }
            Self::TooNew { .. } => vec!["use the newer version to read it".to_owned()],
            Self::Exists { .. } => vec!["move that one to the trash first".to_owned()],
            Self::Led { .. } => vec!["wait until it has ended, or stop it".to_owned()],
            Self::Unknown { any: true, .. } => {
                vec!["`tunesmith runs list` shows all of them; `last` names the newest".to_owned()]
            }
            Self::Unknown { any: false, .. } => {
                vec!["no run was made yet; `tunesmith quickstart` makes one".to_owned()]
            }
            Self::Ambiguous { examples, .. } => {
                vec![format!("write more of it, e.g. {}", examples.join(" or "))]
            }
        }
    }
}
