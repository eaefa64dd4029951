//! From a run's folder to its report: the one place that knows both a run's record and what a report is made from.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use tunesmith_protocol::RunStatus;
use tunesmith_report::{
    AnswerRecord, CategoryScore, CountingRule, EngineRecord, EvaluationResult, RecipeRecord, Report,
    ReportInput, Secret, redact,
};

pub use tunesmith_report::Written as ReportFiles;

use crate::{
    evaluate::{self, Side, read_answers},
    pipeline::LabError,
    recipe::TEXT_TO_SQL,
    run::{Run, RunState},
    text_to_sql::{EXTRACTION_RULE, Schema, TextToSql},
};

/// The report of a run that has at least one step. Words that are nobody else's business (the user's name, the home
/// folder) are taken out.
///
/// # Errors
/// [`LabError::NotPossible`] for a run without a step, else when its record cannot be read.
pub fn report_of(run: &Run) -> Result<Report, LabError> {
    let input = input_of(run)?;
    Ok(Report::new(redact(input, &secrets())?))
}

/// Writes a run's report into its folder, over an older one.
///
/// # Errors
/// As [`report_of`], and when the files cannot be written.
pub fn write_report(run: &Run) -> Result<ReportFiles, LabError> {
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

fn input_of(run: &Run) -> Result<ReportInput, LabError> {
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
    Ok(ReportInput {
        recipe: RecipeRecord {
            name: run.recipe.name.clone(),
            title: run.recipe.title.clone(),
            toml: run.recipe.to_toml()?,
        },
        model: manifest.model.name.clone(),
        task: task_of(&manifest.data.source),
        dtype: run.recipe.dtype(&manifest.device),
        status,
        reason: run.reason(),
        manifest: manifest_json(run),
        summary: training,
        judge: summary.map_or_else(Default::default, |summary| summary.judge.clone()),
        peak_process_bytes: summary
            .and_then(|summary| summary.engine.as_ref())
            .and_then(|stats| stats.peak_process_bytes),
        calibration: manifest
            .calibration
            .as_ref()
            .map(|calibration| calibration.result.clone()),
        spec_peak: manifest.peaks.theoretical,
        before: side(evaluation.and_then(|evaluation| evaluation.before.as_ref()))?,
        after: side(evaluation.and_then(|evaluation| evaluation.after.as_ref()))?,
        counting_rules: rules(run, status)?,
        redactions: Vec::new(),
        engine: EngineRecord {
            name: manifest.engine.engine.clone(),
            version: manifest.engine.engine_version.clone(),
        },
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: manifest.created.clone(),
    })
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

fn schemas() -> HashMap<String, String> {
    // Without the data set the report only lacks the tables beside the questions.
    let set = TextToSql::load().map(|set| set.schemas).unwrap_or_default();
    set.iter()
        .map(|schema: &Schema| (schema.id.clone(), schema.ddl()))
        .collect()
}

fn evaluation_result(
    run: &Run,
    side: &Side,
    schemas: &HashMap<String, String>,
) -> Result<EvaluationResult, LabError> {
    let name = side.answers.file_stem().unwrap_or_default().to_string_lossy();
    let answers = read_answers(&run.folder, &name)?;
    Ok(EvaluationResult {
        questions: side.scores.total as u64,
        exact: side.scores.exact as u64,
        executes: side.scores.executes as u64,
        matches: side.scores.matches as u64,
        by_category: side
            .scores
            .by_category
            .iter()
            .map(|score| CategoryScore {
                category: score.category.clone(),
                total: score.total as u64,
                exact: score.exact as u64,
                executes: score.executes as u64,
                matches: score.matches as u64,
            })
            .collect(),
        answers: answers
            .into_iter()
            .map(|record| answer(record, schemas))
            .collect(),
        extraction_rule: EXTRACTION_RULE.to_owned(),
        secs: side.wall_secs,
    })
}

fn answer(record: evaluate::AnswerRecord, schemas: &HashMap<String, String>) -> AnswerRecord {
    let evaluate::AnswerRecord {
        question,
        answer,
        scored,
        ..
    } = record;
    AnswerRecord {
        schema_text: schemas.get(&question.schema).cloned().unwrap_or_default(),
        id: question.id,
        category: question.category,
        question: question.question,
        gold: question.sql,
        answer,
        sql: scored.sql,
        exact: scored.exact,
        executes: scored.executes,
        matches: scored.matches,
    }
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

/// Words of this machine that are nobody else's business: what [`report_of`] takes out.
pub fn secrets() -> Vec<Secret> {
    let mut secrets = Vec::new();
    let mut add = |what: &str, text: Option<String>, replacement: &str| {
        if let Some(text) = text.filter(|text| !text.is_empty() && text != "/") {
            secrets.push(Secret {
                what: what.to_owned(),
                text,
                replacement: replacement.to_owned(),
            });
        }
    };
    let variable = |name: &str| std::env::var(name).ok();
    add(
        "the home folder",
        variable("HOME").or_else(|| variable("USERPROFILE")),
        "~",
    );
    add(
        "Tunesmith's own folder",
        variable("TUNESMITH_HOME"),
        "<tunesmith home>",
    );
    let user = variable("USER")
        .or_else(|| variable("USERNAME"))
        .filter(|user| user != "root");
    add("the user's name", user, "<user>");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned());
    add(
        "the machine's name",
        host.filter(|host| host != "localhost"),
        "<host>",
    );
    secrets
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
