//! What the device can do at best, measured once and kept: MFU is counted against it.
//!
//! A stored calibration is valid as long as nothing that decides a device's speed has changed: machine, torch,
//! environment flags, device, threads. All of that is the file's name, by its hash.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tunesmith_protocol::{CalibrateJob, Outcome, RunStatus, Work};

use crate::{
    files::{canonical_json, make_folder, read_text, sha256_hex, write_json},
    run::{CalibrationRecord, Journal, now},
    supervisor::Failure,
};

use super::{LabError, Observer, Settings, Stage, StageRun, Update, surroundings};

/// Time for the matrix products of a processor, in seconds; a card needs less for its larger product.
pub const CALIBRATION_BUDGET_SECS: f64 = 25.0;

/// A calibration on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredCalibration {
    /// The measurement with its date.
    #[serde(flatten)]
    pub record: CalibrationRecord,
    /// Whether it was measured earlier.
    #[serde(skip)]
    pub reused: bool,
    /// Its file.
    #[serde(skip)]
    pub path: PathBuf,
}

impl StoredCalibration {
    /// Seconds since it was taken; zero where the clock went back.
    pub fn age_secs(&self) -> f64 {
        let taken: Option<jiff::Timestamp> = self.record.taken.parse().ok();
        taken.map_or(0.0, |taken| {
            jiff::Timestamp::now()
                .duration_since(taken)
                .as_secs_f64()
                .max(0.0)
        })
    }
}

/// The stored calibration for a device under the present conditions, where there is one.
pub fn stored_calibration(settings: &Settings, device: &str) -> Option<StoredCalibration> {
    let path = path(settings, device);
    let stored: StoredCalibration = serde_json::from_str(&read_text(&path).ok()?).ok()?;
    Some(StoredCalibration {
        reused: true,
        path,
        ..stored
    })
}

/// Measures the device, or takes the stored measurement where it still holds and `again` is not wanted.
///
/// # Errors
/// [`LabError`] when the engine cannot be led or the measurement fails.
pub fn calibrate(
    settings: &Settings,
    again: bool,
    observer: &mut dyn Observer,
) -> Result<StoredCalibration, LabError> {
    let device = settings.device("auto", observer)?;
    if !again && let Some(stored) = stored_calibration(settings, &device) {
        return Ok(stored);
    }
    let _lock = settings.lock(&device, "(calibration)")?;
    let path = path(settings, &device);
    // The raw record lies beside the result, under the same name (M21).
    let raw = path.with_extension("raw");
    make_folder(&raw)?;
    let mut journal = Journal::open(&raw)?;
    observer.update(Update::Stage(Stage::Start));
    let machine = surroundings::machine();
    let work = Work::Calibrate(CalibrateJob {
        budget_secs: CALIBRATION_BUDGET_SECS,
        gemm_side: None,
        bf16_in_hardware: device != "cpu" || surroundings::bf16_in_hardware(&machine),
    });
    let stage = StageRun {
        settings,
        stage: Stage::Calibrate,
        device: &device,
        run_dir: &raw,
        time_box: None,
        resume_from: None,
        steps: 0,
        trained_secs: 0.0,
    };
    let end = stage.lead(None, work, &mut journal, observer, &mut |_, _| None)?;
    match (end.status, end.outcome, end.failure) {
        (RunStatus::Ok, Some(Outcome::Calibrate(result)), _) => {
            let record = CalibrationRecord { taken: now(), result };
            let stored = StoredCalibration {
                record,
                reused: false,
                path,
            };
            write_json(&stored.path, &stored)?;
            Ok(stored)
        }
        (RunStatus::Cancelled, ..) => Err(LabError::Stopped),
        (_, _, Some(failure)) => Err(LabError::Job(failure)),
        (status, ..) => Err(LabError::Job(Failure {
            code: "no_result".to_owned(),
            message: format!(
                "the engine ended the calibration as {} without a result",
                status.name()
            ),
            hints: vec![format!("its whole output lies in {}", raw.display())],
            last_lines: Vec::new(),
        })),
    }
}

fn path(settings: &Settings, device: &str) -> PathBuf {
    let conditions = json!({
        "machine": surroundings::identity(&surroundings::machine()),
        "torch": settings.engine.torch_version(),
        "flags": surroundings::environment(),
        "device": device,
        "threads": settings.threads_for(device),
        "program": env!("CARGO_PKG_VERSION"),
    });
    let hash = sha256_hex(canonical_json(&conditions).as_bytes());
    settings
        .folders
        .data()
        .join("calibration")
        .join(format!("{}.json", &hash[..16]))
}
