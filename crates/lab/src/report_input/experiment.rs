//! The report of an experiment: its arms by what their runs' folders say.

use std::path::Path;

use tunesmith_measure::comparison::Metric;
use tunesmith_protocol::Step;
use tunesmith_report::{ExperimentRecord, ExperimentRun, LossPoint, Report, ReportInput, redact};

use crate::{
    experiment::{ExperimentState, SlotState, SlotStatus},
    pipeline::LabError,
    run::Run,
};

use super::{around, kept_prices, look::Look, secrets, telemetry};

/// Most points of a run's loss that a report holds: an overlay is half a page wide.
const MOST_POINTS: usize = 200;

/// The report of an experiment, of one that is not finished too.
///
/// # Errors
/// [`LabError::NotPossible`] before its first run, else when a run's record cannot be read.
pub fn report_of_experiment(state: &ExperimentState, runs_dir: &Path) -> Result<Report, LabError> {
    let runs: Vec<Option<Run>> = state.slots.iter().map(|slot| open(slot, runs_dir)).collect();
    let begun = runs
        .iter()
        .flatten()
        .find_map(|run| Some((run, run.manifest.as_ref()?)));
    let Some((first, manifest)) = begun else {
        return Err(LabError::NotPossible {
            message: format!(
                "the experiment {} has no run yet: there is nothing to report",
                state.id
            ),
            hints: vec![format!(
                "`tunesmith experiment resume {}` makes its runs",
                state.id
            )],
        });
    };
    Look::keep(&state.folder);
    let experiment = &state.experiment;
    let record = ExperimentRecord {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        question: experiment.question.clone(),
        config_hash: state.hash.clone(),
        toml: experiment.to_toml().unwrap_or_default(),
        model: manifest.model.name.clone(),
        planned_runs: state.slots.len(),
        runs: state
            .slots
            .iter()
            .zip(&runs)
            .filter(|(slot, _)| slot.status != SlotStatus::Waiting && slot.status != SlotStatus::Running)
            .map(|(slot, run)| record_of(slot, run.as_ref()))
            .collect(),
        comparison: state.comparison.clone(),
        compared_steps: Some(state.window.compared_steps),
        notes: state.notes.clone(),
        drift: state.drift.iter().map(|drift| drift.sentence.clone()).collect(),
        ladder: state.ladder.clone(),
    };
    // Only of a run that is long enough are curves over time worth a look.
    let telemetry = runs
        .iter()
        .flatten()
        .find_map(|run| telemetry::telemetry(&run.folder));
    let input = ReportInput {
        experiment: Some(record),
        telemetry,
        repeat: Some(format!("tunesmith experiment run {}", experiment.name)),
        date: state.created.clone(),
        ..around(first, manifest, Look::read(&state.folder), kept_prices()?)
    };
    Ok(Report::new(redact(input, &secrets())?))
}

/// The run of a slot; one that trains nothing, or whose folder was removed, has none.
fn open(slot: &SlotState, runs_dir: &Path) -> Option<Run> {
    Run::open(&runs_dir.join(slot.run.as_ref()?)).ok()
}

fn record_of(slot: &SlotState, run: Option<&Run>) -> ExperimentRun {
    let figure = |metric: Metric| slot.figures.get(&metric).copied();
    let reason = match (&slot.reason, &slot.disturbed) {
        (Some(reason), _) => Some(reason.clone()),
        (None, disturbed) => disturbed.clone(),
    };
    ExperimentRun {
        arm: slot.arm,
        seed: slot.seed,
        id: slot.run.clone(),
        status: slot.status.name().to_owned(),
        reason,
        counts: !slot.figures.is_empty(),
        predicted_bytes: run
            .and_then(|run| run.manifest.as_ref()?.predicted)
            // The allocator, by which the peak is measured, knows nothing of driver and libraries.
            .map(|need| need.step_bytes()),
        peak_bytes: figure(Metric::PeakBytes).map(|bytes| bytes as u64),
        tokens_per_sec: figure(Metric::TokensPerSec),
        losses: run
            .and_then(|run| run.steps().ok())
            .map(|steps| losses(&steps))
            .unwrap_or_default(),
    }
}

fn losses(steps: &[Step]) -> Vec<LossPoint> {
    let every = steps.len().div_ceil(MOST_POINTS).max(1);
    steps
        .iter()
        .step_by(every)
        .filter_map(|step| {
            let loss = step.loss.filter(|loss| loss.is_finite())?;
            Some(LossPoint {
                step: step.step,
                loss,
            })
        })
        .collect()
}
