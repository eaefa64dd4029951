//! The same measurement under another setting of the environment (X10). Torch reads these settings once, when it starts,
//! so that each value gets a process of its own; which one won is counted by `tunesmith_measure::calibration::winners`.

use tunesmith_protocol::{
    CalibrateJob, CalibrationStage, Level, Outcome, Progress, RunStatus, StageBudget, Variant, Work,
};

use crate::{
    pipeline::{LabError, Observer, Settings, Stage, StageRun, Update},
    run::Journal,
};

/// Variables that decide which kernels a ROCm build of torch takes, with the stage that shows it. Their reasons and
/// sources are rows of `assets/knowledge/flags.toml`.
const OF_ROCM: [(&str, CalibrationStage); 2] = [
    (
        "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL",
        CalibrationStage::Attention,
    ),
    ("TORCH_BLAS_PREFER_HIPBLASLT", CalibrationStage::Gemm),
];
const VALUES: [&str; 2] = ["0", "1"];

/// Time box of one of them, in seconds.
const SECS: f64 = 8.0;
/// What starting an engine on a card takes beside it, in seconds: an estimate for the progress alone.
const START_SECS: f64 = 7.0;

/// Seconds that the variants of a device take, about.
pub(super) fn secs(is_rocm_card: bool) -> f64 {
    if is_rocm_card {
        (OF_ROCM.len() * VALUES.len()) as f64 * (SECS + START_SECS)
    } else {
        0.0
    }
}

/// Measures each value of each variable. One that fails is a result with its reason; a wish to stop ends them all.
pub(super) fn measure(
    settings: &Settings,
    device: &str,
    job: &CalibrateJob,
    journal: &mut Journal,
    folder: &std::path::Path,
    observer: &mut dyn Observer,
) -> Result<Vec<Variant>, LabError> {
    let all = OF_ROCM
        .iter()
        .flat_map(|of| VALUES.map(|value| (of, value)))
        .collect::<Vec<_>>();
    let mut variants = Vec::new();
    for (index, ((variable, stage), value)) in all.iter().enumerate() {
        let settings = Settings {
            engine: settings.engine.clone().with_variable(variable, *value),
            ..settings.clone()
        };
        let job = CalibrateJob {
            budget_secs: 2.0 * SECS,
            stages: vec![StageBudget {
                stage: *stage,
                secs: SECS,
            }],
            linears: Vec::new(),
            ..job.clone()
        };
        let mut quiet = Counting {
            observer,
            done: index,
            of: all.len(),
        };
        quiet.tell();
        variants.push(one(
            &settings,
            device,
            (variable, value),
            job,
            journal,
            folder,
            &mut quiet,
        )?);
    }
    Ok(variants)
}

fn one(
    settings: &Settings,
    device: &str,
    (variable, value): (&str, &str),
    job: CalibrateJob,
    journal: &mut Journal,
    folder: &std::path::Path,
    observer: &mut dyn Observer,
) -> Result<Variant, LabError> {
    let mut variant = Variant {
        variable: variable.to_owned(),
        value: value.to_owned(),
        gemm: Vec::new(),
        attention: Vec::new(),
        failure: None,
    };
    let stage = StageRun {
        settings,
        stage: Stage::Calibrate,
        device,
        run_dir: folder,
        time_box: Some(super::time_box(job.budget_secs)),
        resume_from: None,
        steps: 0,
        trained_secs: 0.0,
    };
    let end = match stage.lead(None, Work::Calibrate(job), journal, observer, &mut |_, _| None) {
        Ok(end) => end,
        Err(error) => {
            let error = LabError::from(error);
            if error.is_stop() {
                return Err(error);
            }
            // An engine that does not even start under a setting says something of the setting.
            variant.failure = Some(error.to_string());
            return Ok(variant);
        }
    };
    match (end.status, end.outcome) {
        (RunStatus::Ok, Some(Outcome::Calibrate(result))) => {
            variant.gemm = result.gemm;
            variant.attention = result.attention;
        }
        (RunStatus::Cancelled, _) => return Err(LabError::Stopped),
        (status, _) => {
            let why = end.failure.map_or_else(
                || format!("the engine ended as {}", status.name()),
                |failure| failure.message,
            );
            variant.failure = Some(why);
        }
    }
    Ok(variant)
}

/// Counts settings instead of what each engine says of itself, which would begin anew four times.
struct Counting<'a> {
    observer: &'a mut dyn Observer,
    done: usize,
    of: usize,
}

impl Counting<'_> {
    fn tell(&mut self) {
        let left = (self.of - self.done) as f64;
        let progress = Progress {
            stage: CalibrationStage::Variants.name().to_owned(),
            done: self.done as u64,
            total: self.of as u64,
            unit: "settings".to_owned(),
            eta_secs: Some(left * (SECS + START_SECS)),
        };
        self.observer
            .update(Update::Progress(Stage::Calibrate, &progress));
    }
}

impl Observer for Counting<'_> {
    fn update(&mut self, update: Update<'_>) {
        if let Update::Log(Level::Warn | Level::Info, _) = update {
            self.observer.update(update);
        }
    }
}
