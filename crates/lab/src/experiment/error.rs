//! What can be wrong with an experiment, said so that its writer finds the place and the cure.

use std::path::Path;

use crate::{
    files::FileError,
    recipe::{RecipeError, closest},
};

use super::ready;

/// What can be wrong with an experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// No ready experiment and no file has this name.
    #[error("there is no experiment `{name}`: neither a ready one, nor a file, nor one that was begun")]
    Unknown {
        /// As given.
        name: String,
        /// What to do.
        hints: Vec<String>,
    },
    /// The text is no experiment, or its recipe is none.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// It could not answer its question.
    #[error("{message}")]
    Plan {
        /// Why.
        message: String,
        /// What to do.
        hints: Vec<String>,
    },
    /// The arms of an A/B differ in more than one setting (C1).
    #[error("the arms differ in `{first}` and in `{second}` too: whatever comes out could have either cause")]
    SecondDifference {
        /// The first setting.
        first: String,
        /// The second one.
        second: String,
    },
    /// An arm changes nothing.
    #[error("the arm \"{arm}\" is the same as \"{other}\": nothing is compared")]
    NoDifference {
        /// The arm.
        arm: String,
        /// The arm that it equals.
        other: String,
    },
    /// Another process leads it.
    #[error("the experiment {id} is being run by another process")]
    Led {
        /// Its folder's name.
        id: String,
    },
    /// Its runs took place in other surroundings than these.
    #[error("{what} is {now} now and was {before} in the experiment's earlier runs: they cannot be compared")]
    Surroundings {
        /// e.g. `torch`.
        what: String,
        /// Then.
        before: String,
        /// Now.
        now: String,
    },
    /// Runs of two experiments were to be compared (M11).
    #[error("{one} and {other} are two experiments: {reason}")]
    Across {
        /// One.
        one: String,
        /// The other.
        other: String,
        /// What differs.
        reason: String,
    },
    /// A file of its folder is damaged.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
}

impl ExperimentError {
    /// Stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_experiment",
            Self::Recipe(error) => error.code(),
            Self::Plan { .. } => "experiment_plan",
            Self::SecondDifference { .. } => "second_difference",
            Self::NoDifference { .. } => "no_difference",
            Self::Led { .. } => "experiment_led",
            Self::Surroundings { .. } => "other_surroundings",
            Self::Across { .. } => "other_experiment",
            Self::Damaged { .. } => "experiment_damaged",
            Self::File(error) => error.code(),
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        let one = |hint: &str| vec![hint.to_owned()];
        match self {
            Self::Unknown { hints, .. } | Self::Plan { hints, .. } => hints.clone(),
            Self::Recipe(error) => error.hints(),
            Self::SecondDifference { second, .. } => vec![
                format!("set `{second}` in [base] for both arms, or make two experiments of it"),
                "to try settings together, use kind = \"sweep\"".to_owned(),
            ],
            Self::NoDifference { .. } => {
                one("give the arm a setting of its own: set = { \"train.recompute\" = \"layer\" }")
            }
            Self::Led { .. } => one("wait until it has ended, or stop it there"),
            Self::Surroundings { .. } => {
                one("--again begins it anew in these surroundings; what was measured is kept")
            }
            Self::Across { .. } => {
                one("put the arms into one experiment: they are then run in turn, under the same conditions")
            }
            Self::Damaged { .. } => one("--again begins the experiment anew in a folder of its own"),
            Self::File(error) => error.hints(),
        }
    }

    pub(super) fn plan(message: String, hints: Vec<String>) -> Self {
        Self::Plan { message, hints }
    }

    pub(super) fn unknown(name: &str) -> Self {
        let names: Vec<&str> = ready::READY.iter().map(|(name, _)| *name).collect();
        let mut hints: Vec<String> = Vec::new();
        if name.contains('/') || Path::new(name).extension().is_some() {
            hints.push("check the path for a typing error".to_owned());
        } else if let Some(near) = closest(name, names.iter().copied()) {
            hints.push(format!("did you mean `{near}`?"));
        }
        hints.push(format!("ready experiments: {}", names.join(", ")));
        Self::Unknown {
            name: name.to_owned(),
            hints,
        }
    }
}
