//! From a run's folder, an experiment's or a calibration to its report: the one place that knows both their records and what a
//! report is made from.

mod calibration;
mod experiment;
mod look;
mod prices;
mod repeat;
mod scores;
mod secrets;
mod telemetry;

use std::path::Path;

use serde_json::{Value, json};
use tunesmith_measure::cost::Prices;
use tunesmith_protocol::{Quantization, RunStatus};
use tunesmith_report::{
    CountingRule, DeviceRecord, EngineRecord, RecipeRecord, Report, ReportInput, TrainingRecord, redact,
};
use tunesmith_setup::Folders;

use crate::{
    evaluate::Side,
    pipeline::LabError,
    recipe::TEXT_TO_SQL,
    run::{Manifest, Run, RunState},
};

use look::Look;
use scores::{evaluation_result, schemas};

pub use calibration::{calibration_folder, report_of_calibration};
pub use experiment::report_of_experiment;
pub use prices::{keep_prices, prices, prices_file};
pub use secrets::secrets;
pub use tunesmith_report::Written as ReportFiles;

/// The report of a run that has at least one step. Words that are nobody else's business (the user's name, the home
/// folder) are taken out. Prices are those that the user has kept.
///
/// # Errors
/// [`LabError::NotPossible`] for a run without a step, else when its record cannot be read.
pub fn report_of(run: &Run) -> Result<Report, LabError> {
    report_at_prices(run, kept_prices()?)
}

/// As [`report_of`], at these prices.
///
/// # Errors
/// As [`report_of`].
pub fn report_at_prices(run: &Run, prices: Prices) -> Result<Report, LabError> {
    let input = input_of(run, prices)?;
    Ok(Report::new(redact(input, &secrets())?))
}

/// The prices that the user has kept; none where there is no folder to keep them in.
fn kept_prices() -> Result<Prices, LabError> {
    match Folders::from_env() {
        Ok(folders) => prices(folders.config()),
        Err(_) => Ok(Prices::default()),
    }
}

/// Looks at the machine, where nobody has for this run, and writes the run's report into its folder, over an older one.
///
/// # Errors
/// As [`report_of`], and when the files cannot be written.
pub fn write_report(run: &Run) -> Result<ReportFiles, LabError> {
    if run.training()?.is_some() {
        Look::keep(&run.folder);
    }
    Ok(tunesmith_report::write(&run.folder, &report_of(run)?)?)
}

/// As [`write_report`], for a run that was just led; one that was over before its first step has no report.
///
/// # Errors
/// As [`write_report`].
pub fn report_if_trained(run: &Run) -> Result<Option<ReportFiles>, LabError> {
    let summary = run.summary.as_ref();
    let trained = summary.is_some_and(|summary| summary.training.is_some());
    trained.then(|| write_report(run)).transpose()
}

fn input_of(run: &Run, prices: Prices) -> Result<ReportInput, LabError> {
    let missing = || LabError::NotPossible {
        message: format!(
            "the run {} ended as {} before its first step: there is nothing to report",
            run.id,
            run.state.name()
        ),
        hints: vec![format!("`tunesmith runs show {}` shows what is known", run.id)],
    };
    let (Some(manifest), Some(training)) = (&run.manifest, run.training()?) else {
        return Err(missing());
    };
    // A run that is still going on, or whose leader went away, has steps and no summary.
    let status = match run.state {
        RunState::Ended(status) => status,
        RunState::Running => RunStatus::Interrupted,
    };
    let summary = run.summary.as_ref();
    let evaluation = summary.map(|summary| &summary.evaluation);
    let schemas = schemas();
    let side = |side: Option<&Side>| {
        side.map(|side| evaluation_result(run, side, &schemas))
            .transpose()
    };
    let context = run.context()?;
    Ok(ReportInput {
        training: Some(TrainingRecord {
            id: run.id.clone(),
            config_hash: manifest.config_hash.clone(),
            recipe: RecipeRecord {
                name: run.recipe.name.clone(),
                title: run.recipe.title.clone(),
                toml: run.recipe.to_toml()?,
            },
            model: manifest.model.name.clone(),
            task: task_of(&manifest.data.source),
            status,
            reason: run.reason(),
            remedies: summary
                .and_then(|summary| summary.failure.as_ref())
                .map(|failure| failure.hints.clone())
                .unwrap_or_default(),
            summary: training,
            judge: summary.map_or_else(Default::default, |summary| summary.judge.clone()),
            disturbed: run.disturbance().map(|(_, who)| who),
            peak_process_bytes: summary
                .and_then(|summary| summary.engine.as_ref())
                .and_then(|stats| stats.peak_process_bytes),
            before: side(evaluation.and_then(|evaluation| evaluation.before.as_ref()))?,
            after: side(evaluation.and_then(|evaluation| evaluation.after.as_ref()))?,
            shape: Some(manifest.model.shape),
            lora: context.map(|context| context.lora),
            four_bit_base: run.recipe.model.quantization != Quantization::None,
            predicted: manifest.predicted,
        }),
        counting_rules: rules(run, status)?,
        ..around(run, manifest, Look::read(&run.folder), prices)
    })
}

/// What every report of runs says of them, by the record of one: device, machine, calibration, what the card did.
fn around(run: &Run, manifest: &Manifest, look: Option<Look>, prices: Prices) -> ReportInput {
    let calibration = manifest.calibration.as_ref();
    ReportInput {
        training: None,
        experiment: None,
        device: device_of(manifest, look.as_ref()),
        dtype: run.recipe.dtype(&manifest.device),
        manifest: manifest_json(run),
        calibration: calibration.map(|calibration| calibration.result.clone()),
        calibrated: calibration.map(|calibration| calibration.taken.clone()),
        spec_peak: manifest.peaks.theoretical,
        doctor: look.map(|look| look.doctor),
        telemetry: telemetry::telemetry(&run.folder),
        prices,
        repeat: Some(repeat::command(&run.recipe, &manifest.device)),
        counting_rules: Vec::new(),
        redactions: Vec::new(),
        engine: EngineRecord {
            name: manifest.engine.engine.clone(),
            version: manifest.engine.engine_version.clone(),
        },
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: manifest.created.clone(),
    }
}

/// What computed: the processor by its name, or the card that the plan chose, else the only one that there is.
fn device_of(manifest: &Manifest, look: Option<&Look>) -> DeviceRecord {
    let machine = &manifest.machine;
    if manifest.device == "cpu" {
        return DeviceRecord {
            name: machine.machine.cpu_model.clone().unwrap_or_default(),
            gfx: None,
            backend: "cpu".to_owned(),
        };
    }
    let seen = look
        .map(|look| look.card.clone())
        .filter(|card| !card.name.is_empty());
    let only = match machine.gpus.as_slice() {
        [card] => card.name.clone(),
        _ => None,
    };
    DeviceRecord {
        backend: manifest.engine.backend.clone(),
        ..seen.unwrap_or_else(|| DeviceRecord {
            name: only.unwrap_or_default(),
            ..DeviceRecord::default()
        })
    }
}

/// What a reader needs to repeat the run; what other parts of the report hold is left out.
fn manifest_json(run: &Run) -> Value {
    let Some(manifest) = &run.manifest else {
        return Value::Null;
    };
    let summary = run.summary.as_ref();
    let data = &manifest.data;
    json!({
        "run": {
            "id": manifest.id,
            "config_hash": manifest.config_hash,
            "created": manifest.created,
            "finished": summary.map(|summary| &summary.finished),
            "seconds": summary.map(|summary| summary.timings),
        },
        "machine": manifest.machine,
        "device": { "device": manifest.device, "threads": manifest.engine.threads, "backend": manifest.engine.backend },
        "software": {
            "tunesmith": manifest.tunesmith,
            "engine": format!("{} {}", manifest.engine.engine, manifest.engine.engine_version),
            "torch": manifest.engine.torch,
        },
        "environment": manifest.environment,
        "model": {
            "name": manifest.model.name,
            "fingerprint": manifest.model.fingerprint,
            "architecture": manifest.model.architecture,
            "parameters": manifest.model.parameters,
            "context_length": manifest.model.context_length,
        },
        "data": {
            "source": data.source,
            "source_sha256": data.source_sha256,
            "rows_sha256": data.rows_sha256,
            "test_sha256": data.test_sha256,
            "rows": data.report.rows,
            "dropped_rows": data.report.dropped_rows,
            "supervised_share": data.report.supervised_share,
        },
        "contention": summary.map(|summary| &summary.contention),
        "calibrated": manifest.calibration.as_ref().map(|calibration| &calibration.taken),
    })
}

fn rules(run: &Run, status: RunStatus) -> Result<Vec<CountingRule>, LabError> {
    let mut rules = Vec::new();
    if let Some(decoding) = run
        .summary
        .as_ref()
        .and_then(|summary| summary.evaluation.decoding.as_ref())
    {
        rules.push(CountingRule {
            title: "questions".to_owned(),
            text: format!(
                "the first {} questions of the fixed test split, the same before and after; greedy decoding, batches of {}, at most {} tokens an answer",
                decoding.questions, decoding.batch_size, decoding.max_new_tokens
            ),
        });
    }
    if status == RunStatus::TimeBoxed {
        rules.push(CountingRule {
            title: "time box".to_owned(),
            text: format!(
                "the time box of {} minutes ended the training; its figures cover the steps that were done",
                run.recipe.train.time_box_minutes
            ),
        });
    }
    let steps: Vec<String> = run.resumed_from()?.iter().map(u64::to_string).collect();
    if !steps.is_empty() {
        rules.push(CountingRule {
            title: "resumed".to_owned(),
            text: format!(
                "the run was cut short and went on from step {}; a step that was done again counts once, and neither \
                 its first time nor the pause is part of any figure",
                steps.join(", then from step ")
            ),
        });
    }
    Ok(rules)
}

/// What was learned, as it stands in a sentence: the bundled task by its name, a data set of one's own by its file.
fn task_of(source: &str) -> String {
    if source == TEXT_TO_SQL {
        return "text-to-SQL".to_owned();
    }
    Path::new(source)
        .file_name()
        .map_or_else(|| source.to_owned(), |name| name.to_string_lossy().into_owned())
}
