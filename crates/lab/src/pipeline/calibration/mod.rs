//! What the device can do at best, measured once and kept: MFU is counted against it.
//!
//! A stored calibration is valid as long as nothing that decides a device's speed has changed: machine, driver, torch,
//! environment flags, device, threads. It carries these conditions along, so that one that does not hold any more can
//! say why.

mod conditions;
mod products;
mod quiet;
mod variants;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tunesmith_measure::{
    ModelShape,
    calibration::{SUSTAINED_SECS, validity},
};
use tunesmith_models::Model;
use tunesmith_probe::GpuVendor;
use tunesmith_protocol::{CalibrateJob, Calibration, Level, Linear, Outcome, RunStatus, StageBudget, Work};

use crate::{
    files::{make_folder, read_text, write_json},
    run::{CalibrationRecord, Journal, now},
    supervisor::Failure,
};

use super::{LabError, Observer, Settings, Stage, StageRun, Update, prepare::shape_of, surroundings};

pub use conditions::Conditions;
pub(crate) use products::PRODUCTS_SECS;
pub use products::measure_products;

/// A calibration on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredCalibration {
    /// The measurement with its date.
    #[serde(flatten)]
    pub record: CalibrationRecord,
    /// Under what it was taken; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
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

    /// Whether the sustained product ran for as long as it takes to show throttling.
    pub fn is_full(&self) -> bool {
        let points = self.record.result.sustained.as_ref();
        points
            .and_then(|sustained| sustained.points.last())
            .is_some_and(|last| last.at_secs >= 0.9 * SUSTAINED_SECS)
    }
}

/// A calibration that does not hold any more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StaleCalibration {
    /// The measurement.
    #[serde(flatten)]
    pub stored: StoredCalibration,
    /// Its file.
    pub file: PathBuf,
    /// What has changed since, a clause each: `the driver is amdgpu 6.12 now, it was amdgpu 6.10`.
    pub reasons: Vec<String>,
}

/// How a device is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalibrationWish {
    /// Measure even where a measurement still holds.
    pub again: bool,
    /// On a processor too, for as long as it takes to show throttling.
    pub full: bool,
}

/// Seconds that a calibration of a device takes at most, without the start of the engine. `vendor` is that of the card,
/// where one is measured: AMD's are measured under further settings.
pub fn calibration_secs(device: &str, vendor: Option<GpuVendor>, full: bool) -> f64 {
    let on_card = device != "cpu";
    StageBudget::total_secs(&StageBudget::plan(on_card, full))
        + variants::secs(on_card && vendor == Some(GpuVendor::Amd))
}

/// The stored calibration for a device under the present conditions, where there is one.
pub fn stored_calibration(settings: &Settings, device: &str) -> Option<StoredCalibration> {
    read(&path(settings, &Conditions::now(settings, device)))
}

/// Calibrations of this device that do not hold any more, each with what has changed since, the newest first.
pub fn stale_calibrations(settings: &Settings, device: &str) -> Vec<StaleCalibration> {
    let now = Conditions::now(settings, device);
    let current = path(settings, &now);
    let entries = fs::read_dir(folder(settings)).into_iter().flatten().flatten();
    let mut stale: Vec<StaleCalibration> = entries
        .map(|entry| entry.path())
        .filter(|path| *path != current && path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| read(&path))
        .filter(|stored| stored.record.result.device == device)
        .map(|stored| StaleCalibration {
            reasons: reasons(stored.conditions.as_ref(), &now),
            file: stored.path.clone(),
            stored,
        })
        .collect();
    stale.sort_by(|a, b| b.stored.record.taken.cmp(&a.stored.record.taken));
    stale
}

fn reasons(then: Option<&Conditions>, now: &Conditions) -> Vec<String> {
    match then {
        None => vec!["an earlier version of Tunesmith took it and did not record under what".to_owned()],
        Some(then) => then.changes(now),
    }
}

fn read(path: &Path) -> Option<StoredCalibration> {
    let stored: StoredCalibration = serde_json::from_str(&read_text(path).ok()?).ok()?;
    Some(StoredCalibration {
        reused: true,
        path: path.to_owned(),
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
    calibrate_as(settings, CalibrationWish { again, full: false }, observer)
}

/// As [`calibrate`], and on a processor as long as on a card where that is wanted.
///
/// # Errors
/// As [`calibrate`].
pub fn calibrate_as(
    settings: &Settings,
    wish: CalibrationWish,
    observer: &mut dyn Observer,
) -> Result<StoredCalibration, LabError> {
    let device = settings.device("auto", observer)?;
    if !wish.again
        && let Some(stored) = stored_calibration(settings, &device)
        && (stored.is_full() || !wish.full)
    {
        return Ok(stored);
    }
    let _lock = settings.lock(&device, "(calibration)", observer)?;
    let conditions = Conditions::now(settings, &device);
    let path = path(settings, &conditions);
    // The raw record lies beside the result, under the same name (M21).
    let raw = path.with_extension("raw");
    make_folder(&raw)?;
    let mut journal = Journal::open(&raw)?;
    observer.update(Update::Stage(Stage::Start));
    let mut watch = quiet::Watch::start(&device);
    let engine = settings.start_engine(&device)?;
    let is_rocm_card = device != "cpu" && engine.hello().backend == "hip";
    if let Some(warning) = watch.begins() {
        observer.update(Update::Log(Level::Warn, &warning));
    }
    let job = job(settings, &device, wish.full);
    let stage = StageRun {
        settings,
        stage: Stage::Calibrate,
        device: &device,
        run_dir: &raw,
        time_box: Some(time_box(job.budget_secs)),
        resume_from: None,
        steps: 0,
        trained_secs: 0.0,
    };
    let work = Work::Calibrate(job.clone());
    let end = stage.lead(Some(engine), work, &mut journal, observer, &mut |_, _| None)?;
    let mut result = match (end.status, end.outcome, end.failure) {
        (RunStatus::Ok, Some(Outcome::Calibrate(result)), _) => result,
        (RunStatus::Cancelled, ..) => return Err(LabError::Stopped),
        (_, _, Some(failure)) => return Err(LabError::Job(failure)),
        (status, ..) => return Err(LabError::Job(no_result(status, &raw))),
    };
    if is_rocm_card {
        result.variants = variants::measure(settings, &device, &job, &mut journal, &raw, observer)?;
    }
    watch.ends();
    surround(&mut result, watch.conclude(), observer);
    let stored = StoredCalibration {
        record: CalibrationRecord { taken: now(), result },
        conditions: Some(conditions),
        reused: false,
        path,
    };
    write_json(&stored.path, &stored)?;
    Ok(stored)
}

/// Adds what the engine cannot know, and tells where it spoils what was measured.
fn surround(result: &mut Calibration, seen: quiet::Seen, observer: &mut dyn Observer) {
    let disturbed = seen.contention.disturbed == Some(true);
    result.contention = Some(seen.contention);
    if let Some(overhead) = &mut result.allocator
        && overhead.source == tunesmith_protocol::OverheadSource::Device
    {
        overhead.others_bytes = seen.others_bytes;
    }
    if disturbed {
        let (_, why) = validity(result);
        observer.update(Update::Log(Level::Warn, &why));
    }
}

fn no_result(status: RunStatus, raw: &Path) -> Failure {
    Failure {
        code: "no_result".to_owned(),
        message: format!(
            "the engine ended the calibration as {} without a result",
            status.name()
        ),
        hints: vec![format!("its whole output lies in {}", raw.display())],
        last_lines: Vec::new(),
    }
}

fn job(settings: &Settings, device: &str, full: bool) -> CalibrateJob {
    let on_card = device != "cpu";
    let stages = StageBudget::plan(on_card, full);
    CalibrateJob {
        // Each stage may end a little after its box: the box of all is for what went wrong.
        budget_secs: 10.0 + 1.25 * StageBudget::total_secs(&stages),
        gemm_side: None,
        bf16_in_hardware: if on_card {
            // RDNA2 has none of its own; a card whose spec sheet is not known is taken to have it.
            settings
                .spec_peak
                .as_ref()
                .is_none_or(|peak| peak.bf16_flops_per_sec.is_some() || peak.fp16_flops_per_sec.is_none())
        } else {
            surroundings::bf16_in_hardware(&surroundings::machine())
        },
        stages,
        linears: own_linears(settings),
        linear_tokens: None,
    }
}

/// Those of the model that set-up installs, where it is here.
fn own_linears(settings: &Settings) -> Vec<Linear> {
    let shape = surroundings::default_model(&settings.folders)
        .ok()
        .and_then(|path| Model::open(&path).ok())
        .map(|model| shape_of(model.config()));
    shape.map_or_else(Vec::new, |shape| linears(&shape))
}

/// The products of a layer as the engine computes them: projections that read the same input are one matrix.
fn linears(shape: &ModelShape) -> Vec<Linear> {
    let (hidden, query, key) = (shape.hidden, shape.query_width(), shape.key_width());
    [
        ("qkv_proj", hidden, query + 2 * key),
        ("o_proj", query, hidden),
        ("gate_up_proj", hidden, 2 * shape.intermediate),
        ("down_proj", shape.intermediate, hidden),
    ]
    .into_iter()
    .map(|(name, inputs, outputs)| Linear {
        name: name.to_owned(),
        inputs: inputs as i64,
        outputs: outputs as i64,
    })
    .collect()
}

/// An engine that hangs in a kernel is ended: its own clock has stopped.
fn time_box(budget_secs: f64) -> Duration {
    Duration::from_secs_f64(60.0 + 2.0 * budget_secs)
}

fn folder(settings: &Settings) -> PathBuf {
    settings.folders.data().join("calibration")
}

fn path(settings: &Settings, conditions: &Conditions) -> PathBuf {
    folder(settings).join(format!("{}.json", conditions.hash()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::EngineLocation;
    use tunesmith_protocol::{Sustained, SustainedPoint};
    use tunesmith_setup::Folders;

    fn settings(home: &Path) -> Settings {
        Settings::new(
            Folders::all_under(home),
            EngineLocation::new("/nonexistent/engine".into()),
        )
    }

    /// Writes a measurement as if it had been taken under these conditions.
    fn store(settings: &Settings, conditions: Option<Conditions>, taken: &str) -> PathBuf {
        let hash = conditions
            .as_ref()
            .map_or_else(|| "0123456789abcdef".to_owned(), Conditions::hash);
        let path = folder(settings).join(format!("{hash}.json"));
        make_folder(&folder(settings)).unwrap();
        let stored = StoredCalibration {
            record: CalibrationRecord {
                taken: taken.to_owned(),
                result: Calibration {
                    device: "cpu".to_owned(),
                    ..Calibration::default()
                },
            },
            conditions,
            reused: false,
            path: path.clone(),
        };
        write_json(&path, &stored).unwrap();
        path
    }

    #[test]
    fn a_measurement_under_these_conditions_is_found_and_is_not_stale() {
        let home = tempfile::tempdir().unwrap();
        let settings = settings(home.path());
        assert_eq!(stored_calibration(&settings, "cpu"), None);
        let now = Conditions::now(&settings, "cpu");
        store(&settings, Some(now.clone()), "2026-11-30T12:00:00Z");
        let found = stored_calibration(&settings, "cpu").unwrap();
        assert!(found.reused && found.conditions == Some(now));
        assert_eq!(stale_calibrations(&settings, "cpu"), []);
        assert_eq!(stored_calibration(&settings, "cuda:0"), None);
    }

    #[test]
    fn what_does_not_hold_any_more_is_listed_with_its_reasons_newest_first() {
        let home = tempfile::tempdir().unwrap();
        let settings = settings(home.path());
        let now = Conditions::now(&settings, "cpu");
        store(&settings, None, "2026-01-01T12:00:00Z");
        let then = Conditions {
            torch: Some("2.10.0".to_owned()),
            ..now
        };
        let newer = store(&settings, Some(then), "2026-11-30T12:00:00Z");
        fs::write(folder(&settings).join("broken.json"), "{").unwrap();
        let stale = stale_calibrations(&settings, "cpu");
        assert_eq!(stale.len(), 2);
        assert_eq!(stale[0].file, newer);
        assert_eq!(stale[0].reasons, ["the torch is unknown now, it was 2.10.0"]);
        assert!(stale[1].reasons[0].contains("did not record under what"));
        assert_eq!(stale_calibrations(&settings, "cuda:0"), []);
    }

    #[test]
    fn a_flag_of_the_engine_makes_it_stale_and_a_limit_of_memory_does_not() {
        let home = tempfile::tempdir().unwrap();
        let plain = settings(home.path());
        store(
            &plain,
            Some(Conditions::now(&plain, "cpu")),
            "2026-11-30T12:00:00Z",
        );
        let with = |name: &str| Settings {
            engine: plain.engine.clone().with_variable(name, "1"),
            ..plain.clone()
        };
        // A processor has another allocator.
        let limited = with("PYTORCH_CUDA_ALLOC_CONF");
        assert!(stored_calibration(&limited, "cpu").is_some());
        let flagged = with("TORCH_BLAS_PREFER_HIPBLASLT");
        assert_eq!(stored_calibration(&flagged, "cpu"), None);
        assert_eq!(
            stale_calibrations(&flagged, "cpu")[0].reasons,
            ["TORCH_BLAS_PREFER_HIPBLASLT is 1 now, it was not set"]
        );
    }

    #[test]
    fn how_the_allocator_works_is_a_condition_of_a_card_and_how_much_it_may_take_is_none() {
        let home = tempfile::tempdir().unwrap();
        let plain = settings(home.path());
        let with = |setting: &str| Settings {
            engine: plain
                .engine
                .clone()
                .with_variable("PYTORCH_CUDA_ALLOC_CONF", setting),
            ..plain.clone()
        };
        let now = |settings: &Settings| Conditions::now(settings, "cuda:0");
        let limited = with("per_process_memory_fraction:0.5");
        assert_eq!(now(&limited).allocator, None);
        let growing = with("expandable_segments:True,per_process_memory_fraction:0.5");
        assert_eq!(
            now(&growing).allocator.as_deref(),
            Some("expandable_segments:True")
        );
        assert_eq!(now(&limited).flags, now(&growing).flags);
        assert_ne!(now(&limited).hash(), now(&growing).hash());
        assert_eq!(Conditions::now(&growing, "cpu").allocator, None);
    }

    #[test]
    fn five_seconds_are_not_full() {
        let home = tempfile::tempdir().unwrap();
        let settings = settings(home.path());
        store(
            &settings,
            Some(Conditions::now(&settings, "cpu")),
            "2026-11-30T12:00:00Z",
        );
        let mut found = stored_calibration(&settings, "cpu").unwrap();
        let mut lasting = |secs: f64| {
            found.record.result.sustained = Some(Sustained {
                dtype: tunesmith_protocol::DType::F32,
                layout: tunesmith_protocol::Layout::Nt,
                side: 64,
                points: vec![SustainedPoint {
                    at_secs: secs,
                    tflops: 1.0,
                }],
            });
            found.is_full()
        };
        assert!(!lasting(5.0));
        assert!(lasting(29.7));
    }

    #[test]
    fn a_layer_is_multiplied_as_four_matrices() {
        // SmolLM2-135M.
        let shape = ModelShape {
            hidden: 576,
            layers: 30,
            heads: 9,
            kv_heads: 3,
            head_dim: 64,
            intermediate: 1536,
            vocab: 49_152,
            tied: true,
            qkv_bias: false,
            qk_norm: false,
        };
        let sizes: Vec<_> = linears(&shape)
            .iter()
            .map(|linear| (linear.inputs, linear.outputs))
            .collect();
        assert_eq!(sizes, [(576, 960), (576, 576), (576, 3072), (1536, 576)]);
        let weights: i64 = sizes.iter().map(|(inputs, outputs)| inputs * outputs).sum();
        assert_eq!(weights as u64 * shape.layers, shape.linear_parameters());
    }
}
