//! A run as one JSON object: the line of `runs list`, and what `train` and `quickstart` print.

use serde_json::{Value, json};
use tunesmith_lab::run::{Listed, Run};
use tunesmith_measure::MfuPair;

use crate::errors::failure_json;

/// The object of `runs list`. Scores are points of execution match, 0 to 100.
pub(crate) fn line(run: &Run) -> Value {
    let summary = run.summary.as_ref();
    // A journal that cannot be read leaves the run without figures; the run itself is still shown.
    let training = run.training().ok().flatten();
    let training = training.as_ref();
    let evaluation = summary.map(|summary| &summary.evaluation);
    let points = |side: Option<&tunesmith_lab::evaluate::Side>| side.map(|side| side.points);
    json!({
        "id": run.id,
        "recipe": run.recipe.name,
        "status": run.state.name(),
        "valid_steps": training.map_or(0, |training| training.valid_steps),
        "total_steps": training.map_or(0, |training| training.total_steps),
        "score_before": evaluation.and_then(|evaluation| points(evaluation.before.as_ref())),
        "score_after": evaluation.and_then(|evaluation| points(evaluation.after.as_ref())),
        "adapter": run.adapter(),
        "report": run.report(),
        "resume_step": run.resume_step(),
    })
}

/// All runs; a folder that cannot be read has the status `broken` and its reason.
pub(crate) fn list(listed: &[Listed]) -> Value {
    let runs: Vec<Value> = listed
        .iter()
        .map(|listed| match listed {
            Listed::Run(run) => line(run),
            Listed::Broken { id, reason } => json!({
                "id": id,
                "recipe": null,
                "status": "broken",
                "valid_steps": 0,
                "total_steps": 0,
                "score_before": null,
                "score_after": null,
                "adapter": null,
                "report": null,
                "resume_step": null,
                "reason": reason.to_string(),
            }),
        })
        .collect();
    json!({ "runs": runs })
}

/// The object of `train`: the line of the list and the run's figures.
pub(crate) fn full(run: &Run) -> Value {
    let mut object = line(run);
    let summary = run.summary.as_ref();
    // A journal that cannot be read leaves the run without figures; the run itself is still shown.
    let training = run.training().ok().flatten();
    let training = training.as_ref();
    let evaluation = summary.map(|summary| &summary.evaluation);
    let timings = summary.map(|summary| summary.timings);
    let eval_secs = timings.map(|timings| {
        timings.evaluate_before_secs.unwrap_or(0.0) + timings.evaluate_after_secs.unwrap_or(0.0)
    });
    let half = |side: Option<&tunesmith_lab::evaluate::Side>| side.and_then(|side| side.half_width_points);
    let more = json!({
        "folder": run.folder,
        "seed": run.recipe.train.seed,
        "device": run.recipe.train.device,
        "config_hash": run.manifest.as_ref().map(|manifest| &manifest.config_hash),
        "reason": run.reason(),
        "error": summary.and_then(|summary| summary.failure.as_ref()).map(failure_json),
        "judge": summary.map(|summary| &summary.judge),
        "prepare_secs": timings.map(|timings| timings.prepare_secs),
        "train_secs": timings.and_then(|timings| timings.train_secs),
        "eval_secs": eval_secs,
        "total_secs": timings.map(|timings| timings.total_secs),
        "questions": evaluation.and_then(|evaluation| evaluation.after.as_ref()).map(|side| side.scores.total),
        "half_width_before": evaluation.and_then(|evaluation| half(evaluation.before.as_ref())),
        "half_width_after": evaluation.and_then(|evaluation| half(evaluation.after.as_ref())),
        "score_gain": evaluation.and_then(|evaluation| evaluation.change).map(|change| change.points),
        "loss_first": training.and_then(|training| training.loss.as_ref()).map(|loss| loss.first),
        "loss_last": training.and_then(|training| training.loss.as_ref()).map(|loss| loss.last),
        "steady_tokens_per_sec": training.and_then(|training| training.steady_tokens_per_sec),
        "whole_run_tokens_per_sec": training.and_then(|training| training.whole_run_tokens_per_sec),
        "time_to_first_step_secs": training.and_then(|training| training.time_to_first_step_secs),
        "supervised_tokens": training.map(|training| training.supervised_tokens),
        "peak_bytes": training.and_then(|training| training.peak_bytes),
        "mean_watts": summary.and_then(|summary| summary.mean_watts),
        "watt_hours_read": summary.and_then(|summary| summary.energy).map(|energy| energy.watt_hours),
        "mfu": training.and_then(|training| training.mfu.as_ref()).map(|mfu| json!({
            "six_nd": pair(&mfu.six_nd),
            "lora_exact": pair(&mfu.lora_exact),
            "hardware": pair(&mfu.hardware),
        })),
    });
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

fn pair(pair: &MfuPair) -> Value {
    json!({
        "tflops": pair.tflops.0,
        "theoretical": pair.theoretical.map(|mfu| mfu.0),
        "practical": pair.practical.map(|mfu| mfu.0),
    })
}
