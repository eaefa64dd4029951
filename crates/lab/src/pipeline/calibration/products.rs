//! Products of a model's own linear layers by themselves, of as many tokens as a pass of its training has: the level
//! between the peak and the training (M5).

use std::path::Path;

use tunesmith_measure::gap::Measures;
use tunesmith_protocol::{
    CalibrateJob, CalibrationStage, DType, Layout, Linear, LinearMeasurement, Outcome, RunStatus,
    StageBudget, Work,
};

use crate::{
    files::make_folder,
    pipeline::{level::LevelRecord, prepare::OpenModel, surroundings::Watch},
    recipe::Recipe,
    run::Journal,
};

use super::{
    LabError, Observer, Settings, Stage, StageRun, Update, job, linears, no_result, shape_of, time_box,
};

/// Time box of the products, in seconds, on a card and on a processor.
pub(crate) const PRODUCTS_SECS: [f64; 2] = [20.0, 12.0];

/// Measures a recipe's products and keeps the record in `folder`.
///
/// # Errors
/// [`LabError`] when the model is not here, the engine cannot be led, or it measures another number format than the
/// recipe trains in.
pub fn measure_products(
    recipe: &Recipe,
    folder: &Path,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<LevelRecord, LabError> {
    let device = settings.device(&recipe.train.device, observer)?;
    let _lock = settings.lock(&device, "(measuring products)", observer)?;
    observer.update(Update::Stage(Stage::Prepare));
    let model = OpenModel::open(recipe, &settings.folders)?;
    let linears = linears(&shape_of(model.model.config()));
    let [on_card, on_processor] = PRODUCTS_SECS;
    let secs = if device == "cpu" { on_processor } else { on_card };
    let tokens = recipe.train.micro_batch.saturating_mul(recipe.data.max_length);
    let job = CalibrateJob {
        budget_secs: 10.0 + 1.25 * secs,
        stages: vec![StageBudget {
            stage: CalibrationStage::Linears,
            secs,
        }],
        linears: linears.clone(),
        linear_tokens: Some(tokens as i64),
        ..job(settings, &device, false)
    };
    make_folder(folder)?;
    let mut journal = Journal::open(folder)?;
    let stage = StageRun {
        settings,
        stage: Stage::Calibrate,
        device: &device,
        run_dir: folder,
        time_box: Some(time_box(job.budget_secs)),
        resume_from: None,
        steps: 0,
        trained_secs: 0.0,
    };
    observer.update(Update::Stage(Stage::Start));
    let load = Watch::start(Stage::Calibrate);
    let end = stage.lead(None, Work::Calibrate(job), &mut journal, observer, &mut |_, _| {
        None
    })?;
    let (contention, _) = load.end();
    let measured = match (end.status, end.outcome, end.failure) {
        (RunStatus::Ok, Some(Outcome::Calibrate(result)), _) => result.linears,
        (RunStatus::Cancelled, ..) => return Err(LabError::Stopped),
        (_, _, Some(failure)) => return Err(LabError::Job(failure)),
        (status, ..) => return Err(LabError::Job(no_result(status, folder))),
    };
    let dtype = recipe.dtype(&device);
    refuse_a_part(&linears, &measured, dtype, secs)?;
    let record = LevelRecord {
        measures: Measures::Products,
        dtype,
        linears: measured,
        answers: None,
        wall_secs: end.wall_secs,
        contention,
    };
    record.write(folder)?;
    Ok(record)
}

/// Products of which one is missing say nothing of the whole layer.
fn refuse_a_part(
    linears: &[Linear],
    measured: &[LinearMeasurement],
    dtype: DType,
    secs: f64,
) -> Result<(), LabError> {
    let is_there = |linear: &Linear, layout: Layout| {
        let mut alike = measured
            .iter()
            .filter(|of| of.name == linear.name && of.layout == layout);
        alike.any(|of| of.dtype == dtype)
    };
    // A frozen weight needs no gradient (numbers 3.2).
    let whole = linears
        .iter()
        .all(|linear| is_there(linear, Layout::Nt) && is_there(linear, Layout::Nn));
    if whole {
        return Ok(());
    }
    let other = measured.iter().find(|of| of.dtype != dtype);
    let (message, hint) = match other {
        Some(of) => (
            format!(
                "products are measured in {} on this device, and the training computes in {}",
                of.dtype.name(),
                dtype.name()
            ),
            "train.dtype = \"auto\" trains in the format that suits the device",
        ),
        None => (
            format!("the time box of {secs:.0} seconds left out some of the products"),
            "fewer rows a pass (train.micro_batch) make them smaller",
        ),
    };
    Err(LabError::NotPossible {
        message,
        hints: vec![hint.to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, layout: Layout, dtype: DType) -> LinearMeasurement {
        LinearMeasurement {
            name: name.to_owned(),
            dtype,
            layout,
            m: 512,
            n: 64,
            k: 96,
            iterations: 1,
            mean_tflops: 0.1,
            best_tflops: 0.1,
            median_tflops: 0.1,
        }
    }

    #[test]
    fn a_part_of_the_products_is_no_level() {
        let linears = [Linear {
            name: "down_proj".to_owned(),
            inputs: 96,
            outputs: 64,
        }];
        let forward = measured("down_proj", Layout::Nt, DType::F32);
        let gradient = measured("down_proj", Layout::Nn, DType::F32);
        let check = |measured: &[LinearMeasurement], dtype| refuse_a_part(&linears, measured, dtype, 12.0);
        let both = [forward.clone(), gradient];
        assert!(check(&both, DType::F32).is_ok());
        let cut = check(&[forward], DType::F32).unwrap_err();
        assert!(
            cut.to_string().contains("12 seconds left out") && !cut.hints().is_empty(),
            "{cut}"
        );
        let other = check(&both, DType::Bf16).unwrap_err();
        assert!(other.to_string().contains("in f32 on this device"), "{other}");
    }
}
