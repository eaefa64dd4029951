//! `runs list` and `runs show`: they read what lies on disk and need no engine.

use serde_json::Value;
use tunesmith_lab::run::{Listed, Run, list};
use tunesmith_measure::judge::{Finding, Judgement};
use tunesmith_setup::Folders;

use crate::{
    Done,
    commands::training::go_on,
    errors::CliError,
    format::{or_dash, table},
    run_json,
};

pub(crate) fn list_runs() -> Result<Done, CliError> {
    let listed = list(&Folders::from_env()?.runs())?;
    let points = |points: Option<f64>| or_dash(points.map(|points| format!("{points:.1}")));
    let rows: Vec<Vec<String>> = listed
        .iter()
        .map(|listed| match listed {
            Listed::Run(run) => {
                let summary = run.summary.as_ref();
                let steps = run
                    .training()
                    .ok()
                    .flatten()
                    .map(|training| format!("{}/{}", training.valid_steps, training.total_steps));
                let evaluation = summary.map(|summary| &summary.evaluation);
                vec![
                    run.id.clone(),
                    run.state.name().to_owned(),
                    or_dash(steps),
                    points(evaluation.and_then(|evaluation| Some(evaluation.before.as_ref()?.points))),
                    points(evaluation.and_then(|evaluation| Some(evaluation.after.as_ref()?.points))),
                    run.resume_step()
                        .map_or_else(String::new, |step| format!("can go on from step {step}")),
                ]
            }
            Listed::Broken { id, reason } => {
                let dash = || or_dash(None);
                vec![
                    id.clone(),
                    "broken".to_owned(),
                    dash(),
                    dash(),
                    dash(),
                    reason.to_string(),
                ]
            }
        })
        .collect();
    let text = if rows.is_empty() {
        "No runs yet; `tunesmith quickstart` makes the first".to_owned()
    } else {
        table(&["run", "status", "valid steps", "before", "after", ""], &rows)
    };
    Ok(Done::ok(text, run_json::list(&listed)))
}

pub(crate) fn show_run(name: &str) -> Result<Done, CliError> {
    let run = Run::find(&Folders::from_env()?.runs(), name)?;
    let object = run_json::full(&run);
    let mut rows = Vec::new();
    let mut shown = object.clone();
    if let (Some(shown), Some(summary)) = (shown.as_object_mut(), &run.summary) {
        shown.insert("judge".to_owned(), judge_rows(&summary.judge));
    }
    flatten("", &shown, &mut rows);
    let mut text = table(&["", ""], &rows).trim_start().to_owned();
    if let Some(how) = go_on(&run) {
        text.push('\n');
        text.push_str(&how);
    }
    Ok(Done::ok(text, object))
}

/// A line for each check, the name before what was seen.
fn judge_rows(judge: &Judgement) -> Value {
    let row = |finding: &Finding| {
        (
            finding.id.name().to_owned(),
            format!("{}: {}", finding.severity.name(), finding.found).into(),
        )
    };
    Value::Object(judge.findings.iter().map(row).collect())
}

fn flatten(prefix: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let name = if prefix.is_empty() {
                    key.clone()
                } else {
                    format!("{prefix}.{key}")
                };
                flatten(&name, value, rows);
            }
        }
        Value::Null => {}
        Value::String(text) => rows.push(vec![prefix.to_owned(), text.clone()]),
        Value::Array(items) if items.is_empty() => {}
        Value::Array(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
                .collect();
            rows.push(vec![prefix.to_owned(), items.join("; ")]);
        }
        other => rows.push(vec![prefix.to_owned(), other.to_string()]),
    }
}
