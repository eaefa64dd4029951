//! The one sentence of a report, and whether its numbers can be trusted. A run that learned nothing must never read
//! like a success, and a change within the noise is called noise.

mod calibration;
mod experiment;
mod training;

use serde::{Deserialize, Serialize};
use tunesmith_measure::calibration as measure_calibration;

pub(crate) use experiment::leading;

use crate::format::capitalised;
use crate::{Gain, ReportInput};

/// A verdict: each has a shape and a word beside its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// To be looked at.
    Warn,
    /// Not to be used.
    Stop,
    /// Not known; never shown as good.
    Unknown,
}

/// A verdict in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headline {
    /// The verdict.
    pub verdict: Verdict,
    /// One sentence, without a full stop.
    pub sentence: String,
    /// What stands behind it, one sentence each.
    #[serde(default)]
    pub details: Vec<String>,
}

impl Headline {
    fn new(verdict: Verdict, sentence: String, details: Vec<String>) -> Self {
        Self {
            verdict,
            sentence,
            details,
        }
    }
}

/// What is true, first of all what went wrong.
pub(crate) fn headline(record: &ReportInput, gain: Option<&Gain>) -> Headline {
    match (&record.experiment, &record.training) {
        (Some(experiment), _) => experiment::headline(experiment),
        (None, Some(training)) => training::headline(training, gain),
        (None, None) => calibration::headline(record),
    }
}

/// Whether the numbers can be trusted.
pub(crate) fn validity(record: &ReportInput) -> Headline {
    match (&record.experiment, &record.training) {
        (Some(experiment), _) => experiment::validity(experiment, record),
        (None, Some(training)) => training::validity(training, record),
        (None, None) => calibration::validity(record),
    }
}

/// What gave wrong values during calibration, a clause each.
fn wrong_values(record: &ReportInput) -> Vec<String> {
    let wrong = record.calibration.as_ref().map(measure_calibration::wrong_values);
    wrong
        .unwrap_or_default()
        .into_iter()
        .map(|wrong| {
            format!(
                "{}, in {}: wrong values during calibration",
                capitalised(&wrong.what),
                wrong.dtype.name()
            )
        })
        .collect()
}
