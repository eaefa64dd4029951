//! The report of a device that was measured, without any training.

use std::path::PathBuf;

use serde_json::json;
use tunesmith_measure::practical_peak;
use tunesmith_protocol::{Calibration, DType};
use tunesmith_report::{DeviceRecord, EngineRecord, Report, ReportInput, redact};

use crate::pipeline::{LabError, Settings, StoredCalibration, machine_record, spec_sheet};

use super::{kept_prices, look::Look, secrets};

/// The folder that the files of a calibration's report belong in: of its name, beside the calibrations.
pub fn calibration_folder(stored: &StoredCalibration) -> PathBuf {
    let name = stored.path.file_stem().unwrap_or_default();
    stored.path.with_file_name("reports").join(name)
}

/// The report of a stored calibration.
///
/// # Errors
/// [`LabError`] when the prices that the user keeps cannot be read.
pub fn report_of_calibration(stored: &StoredCalibration, settings: &Settings) -> Result<Report, LabError> {
    let result = &stored.record.result;
    let dtype = format_of(result);
    let on_processor = result.device == "cpu";
    let machine = machine_record();
    let look = Look::now();
    let device = if on_processor {
        DeviceRecord {
            name: machine.machine.cpu_model.clone().unwrap_or_default(),
            gfx: None,
            backend: "cpu".to_owned(),
        }
    } else {
        let card = look.as_ref().map(|look| look.card.clone()).unwrap_or_default();
        DeviceRecord {
            backend: if card.gfx.is_some() { "hip" } else { "cuda" }.to_owned(),
            ..card
        }
    };
    let conditions = stored.conditions.as_ref();
    let input = ReportInput {
        training: None,
        experiment: None,
        device,
        dtype,
        manifest: json!({
            "machine": machine,
            "device": { "device": result.device, "threads": result.threads, "backend": if on_processor { "cpu" } else { "card" } },
            "software": {
                "tunesmith": env!("CARGO_PKG_VERSION"),
                "torch": conditions.and_then(|conditions| conditions.torch.clone()),
            },
            "environment": conditions.map(|conditions| &conditions.flags),
            "calibrated": stored.record.taken,
        }),
        calibration: Some(result.clone()),
        calibrated: Some(stored.record.taken.clone()),
        spec_peak: settings
            .spec_peak
            .as_ref()
            .filter(|_| !on_processor)
            .and_then(|peak| spec_sheet(peak, dtype)),
        doctor: look.map(|look| look.doctor),
        telemetry: None,
        prices: kept_prices()?,
        repeat: Some(format!(
            "tunesmith calibrate --again{}",
            if on_processor { " --device cpu" } else { "" }
        )),
        counting_rules: Vec::new(),
        redactions: Vec::new(),
        engine: EngineRecord::default(),
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: stored.record.taken.clone(),
    };
    Ok(Report::new(redact(input, &secrets())?))
}

/// The format that a training would compute in: the fastest of those in which the device computes rightly and by itself.
fn format_of(calibration: &Calibration) -> DType {
    [DType::Bf16, DType::F16, DType::F32]
        .into_iter()
        .filter_map(|dtype| Some((dtype, practical_peak(calibration, dtype)?.tflops.0)))
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .map_or(DType::F32, |(dtype, _)| dtype)
}
