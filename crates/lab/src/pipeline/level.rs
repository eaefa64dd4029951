//! What an experiment measures of a training's parts by themselves (M5): the record that such a measurement leaves in its
//! folder, beside the raw one.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tunesmith_measure::{
    calibration::products_speed,
    comparison::{Figures, Metric},
    gap::{Measures, decode_tokens_per_sec},
};
use tunesmith_protocol::{AnswerStats, DType, LinearMeasurement};

use crate::{
    files::{FileError, read_text, write_json},
    run::ContentionSample,
};

const FILE: &str = "level.json";

/// A measurement that trains nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelRecord {
    /// What was measured.
    pub measures: Measures,
    /// Number format.
    pub dtype: DType,
    /// Of products: each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linears: Vec<LinearMeasurement>,
    /// Of decoding: the engine's account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswerStats>,
    /// Seconds from the job line to the end.
    pub wall_secs: f64,
    /// What other programs did meanwhile (M19).
    pub contention: ContentionSample,
}

impl LevelRecord {
    /// Its figures; none where nothing of them can be counted.
    pub fn figures(&self) -> Figures {
        let found = match self.measures {
            Measures::Training => None,
            Measures::Products => {
                products_speed(&self.linears, self.dtype).map(|speed| (Metric::ProductsTflops, speed.0))
            }
            Measures::Decoding => self
                .answers
                .as_ref()
                .and_then(decode_tokens_per_sec)
                .map(|speed| (Metric::DecodeTokensPerSec, speed)),
        };
        found.into_iter().collect()
    }

    /// Writes it into its folder: the measurement is over then.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), FileError> {
        write_json(&folder.join(FILE), self)
    }

    /// The record of a folder; `None` where the measurement was cut short.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_str(&read_text(&folder.join(FILE)).ok()?).ok()
    }
}
