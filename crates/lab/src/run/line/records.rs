//! What a list needs of a run's two records; the rest, above all the curve, is passed over while it is read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};
use tunesmith_measure::{MemoryNeed, Mfu, judge::Severity};
use tunesmith_protocol::RunStatus;

use super::Figures;
use crate::{
    files::FileError,
    run::{MemoryRecord, RECORD_VERSION, RunError},
};

/// Of a report on MFU only this is listed.
pub(super) fn practical_of_mfu<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Mfu>, D::Error> {
    #[derive(Deserialize)]
    struct Report {
        lora_exact: Pair,
    }
    #[derive(Deserialize)]
    struct Pair {
        practical: Option<Mfu>,
    }
    let report = Option::<Report>::deserialize(deserializer)?;
    Ok(report.and_then(|report| report.lora_exact.practical))
}

/// What a list needs of a manifest; the rest is passed over.
#[derive(Deserialize)]
pub(super) struct ManifestParts {
    #[serde(default)]
    pub(super) version: u32,
    pub(super) created: String,
    pub(super) config_hash: String,
    pub(super) recipe: String,
    pub(super) title: String,
    pub(super) device: String,
    pub(super) engine: EngineParts,
    pub(super) model: ModelParts,
    pub(super) data: DataParts,
    #[serde(default)]
    pub(super) predicted: Option<MemoryNeed>,
    #[serde(default)]
    pub(super) memory: Option<MemoryRecord>,
}

#[derive(Deserialize)]
pub(super) struct EngineParts {
    pub(super) engine: String,
    pub(super) backend: String,
}

#[derive(Deserialize)]
pub(super) struct StatsParts {
    #[serde(default)]
    pub(super) peak_process_bytes: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct ModelParts {
    pub(super) name: String,
    pub(super) source: Option<String>,
    pub(super) path: PathBuf,
}

#[derive(Deserialize)]
pub(super) struct DataParts {
    pub(super) source: String,
}

/// What a list needs of a summary; the rest, above all the curve, is passed over.
#[derive(Deserialize)]
pub(super) struct SummaryParts {
    #[serde(default)]
    pub(super) version: u32,
    pub(super) status: RunStatus,
    pub(super) reason: Option<String>,
    pub(super) failure: Option<FailureParts>,
    #[serde(default)]
    pub(super) judge: JudgeParts,
    pub(super) training: Option<Figures>,
    pub(super) engine: Option<StatsParts>,
    pub(super) evaluation: EvaluationParts,
    pub(super) adapter: Option<PathBuf>,
    pub(super) timings: TimingParts,
}

#[derive(Deserialize)]
pub(super) struct FailureParts {
    pub(super) code: String,
}

#[derive(Default, Deserialize)]
pub(super) struct JudgeParts {
    pub(super) findings: Vec<FindingParts>,
    #[serde(default)]
    pub(super) last_good_step: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct FindingParts {
    pub(super) severity: Severity,
}

#[derive(Deserialize)]
pub(super) struct EvaluationParts {
    pub(super) before: Option<SideParts>,
    pub(super) after: Option<SideParts>,
}

#[derive(Deserialize)]
pub(super) struct SideParts {
    pub(super) points: f64,
    pub(super) half_width_points: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct TimingParts {
    pub(super) total_secs: f64,
}

/// Reads of a JSON record what `T` names and passes over the rest.
pub(super) fn read_parts<T: DeserializeOwned>(
    path: &Path,
    id: &str,
    version: fn(&T) -> u32,
) -> Result<T, RunError> {
    #[derive(Deserialize)]
    struct Version {
        #[serde(default)]
        version: u32,
    }
    let too_new = |found: u32| RunError::TooNew {
        id: id.to_owned(),
        found,
    };
    let bytes = fs::read(path).map_err(|source| FileError::new(path, "read", source))?;
    match serde_json::from_slice::<T>(&bytes) {
        Ok(parts) if version(&parts) > RECORD_VERSION => Err(too_new(version(&parts))),
        Ok(parts) => Ok(parts),
        // What a later version wrote need not have this form.
        Err(error) => match serde_json::from_slice::<Version>(&bytes) {
            Ok(later) if later.version > RECORD_VERSION => Err(too_new(later.version)),
            _ => Err(RunError::Damaged {
                path: path.to_owned(),
                reason: error.to_string(),
            }),
        },
    }
}
