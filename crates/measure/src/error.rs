//! What cannot be computed, as errors: a figure without enough behind it must never come out as NaN.

/// A figure that cannot be computed from what was given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MeasureError {
    /// Too few values.
    #[error("{what} needs at least {needed} values and got {got}")]
    TooFew {
        /// The figure.
        what: &'static str,
        /// Fewest values.
        needed: usize,
        /// Values given.
        got: usize,
    },
    /// All values are equal, so that nothing can be divided by their spread.
    #[error("{what} needs values that differ, and all are equal")]
    NoSpread {
        /// The figure.
        what: &'static str,
    },
    /// A value that is not finite or lies outside its range.
    #[error("{what} cannot be {value}")]
    OutOfRange {
        /// The quantity.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A module that carries no adapter.
    #[error("`{name}` is not a projection that an adapter can be put on")]
    UnknownModule {
        /// The name given.
        name: String,
    },
    /// The judge's thresholds, which come with the program, cannot be read.
    #[error("the judge's thresholds cannot be read: {reason}")]
    Thresholds {
        /// What is wrong with them.
        reason: String,
    },
}

impl MeasureError {
    /// A stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooFew { .. } => "too_few_values",
            Self::NoSpread { .. } => "no_spread",
            Self::OutOfRange { .. } => "out_of_range",
            Self::UnknownModule { .. } => "unknown_module",
            Self::Thresholds { .. } => "judge_thresholds",
        }
    }

    /// What to do, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::TooFew { needed, .. } => vec![format!(
                "repeat the measurement until there are {needed} or more values"
            )],
            Self::NoSpread { .. } => {
                vec!["check that the values are separate measurements and not one copied".to_owned()]
            }
            Self::OutOfRange { .. } => {
                vec!["look at the run's events.jsonl for the step that this came from".to_owned()]
            }
            Self::UnknownModule { .. } => {
                vec!["use q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj or down_proj".to_owned()]
            }
            Self::Thresholds { .. } => {
                vec!["build the program again: assets/knowledge/judge.toml is part of it".to_owned()]
            }
        }
    }
}
