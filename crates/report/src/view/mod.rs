//! A report in words and drawings: what its page, its Markdown and a window's preview all show. Numbers are only worded
//! here; each comes from the record through `tunesmith-measure`.

mod calibration;
mod evaluation;
mod experiment;
mod figures;
mod judge;
mod manifest;
mod memory;
mod money;
mod published;
mod scorecard;
mod telemetry;
mod training;

use serde::Serialize;

use crate::format::plural;
use crate::hash::WORTH;
use crate::{About, CountingRule, Headline, Report, ReportError, ReportInput, rules};

use calibration::CalibrationView;
use experiment::ExperimentView;
use judge::JudgeView;
use memory::MemoryView;
use money::MoneyView;
use published::PublishedView;
use scorecard::ScorecardView;
use telemetry::TelemetryView;
use training::{MfuTable, StepTable, charts, invalid_steps};

pub(crate) use evaluation::EvaluationView;
pub(crate) use experiment::{best_bars, pareto_of, waterfall_of};
pub use experiment::{effect_words, metric_unit, metric_words, p_words};
pub use figures::Figure;
pub(crate) use figures::{figures, speed_sentence, tokens_sentence};
pub use manifest::Group;
pub(crate) use manifest::groups;
pub(crate) use money::cost_of;
pub(crate) use published::published_beside;

/// A drawing with what it says, or why there is none.
#[derive(Serialize)]
pub(crate) struct ChartView {
    pub(crate) title: String,
    pub(crate) said: String,
    pub(crate) svg: Option<String>,
}

/// What the templates are given.
#[derive(Serialize)]
pub(crate) struct Page<'a> {
    title: String,
    about: &'static str,
    date: String,
    device: String,
    model: String,
    engine: String,
    program_version: &'a str,
    schema_version: u32,
    content_hash: String,
    hash_worth: &'static str,
    edited: Option<&'static str>,
    headline: &'a Headline,
    validity: &'a Headline,
    status: &'static str,
    figures: Vec<Figure>,
    training: Option<TrainingView<'a>>,
    experiment: Option<ExperimentView>,
    judge: Option<JudgeView>,
    evaluation: Option<EvaluationView>,
    memory: Option<MemoryView>,
    telemetry: Option<TelemetryView>,
    money: Option<MoneyView>,
    calibration: Option<CalibrationView>,
    scorecard: ScorecardView,
    published: PublishedView,
    failures: Vec<Failure>,
    counting_rules: &'a [CountingRule],
    invalid_comparisons: &'a [String],
    manifest: Vec<Group>,
    recipe_heading: &'static str,
    recipe_title: String,
    recipe_name: String,
    recipe_hash: String,
    recipe_toml: &'a str,
    repeat: Option<&'a str>,
    redactions: &'a [String],
    glossary: Vec<[&'static str; 2]>,
}

/// A training's own part.
#[derive(Serialize)]
struct TrainingView<'a> {
    speed_sentence: Option<String>,
    tokens_sentence: Option<String>,
    charts: Vec<ChartView>,
    invalid_steps: Vec<String>,
    steps: StepTable,
    mfu: Option<MfuTable>,
    id: &'a str,
}

/// Something that did not end well: a record, and never a gap (M16).
#[derive(Serialize)]
struct Failure {
    what: String,
    status: String,
    why: String,
    remedies: Vec<String>,
}

impl<'a> Page<'a> {
    pub(crate) fn of(report: &'a Report) -> Result<Self, ReportError> {
        let record = &report.record;
        let training = record.training.as_ref();
        let experiment = record.experiment.as_ref();
        let (recipe_name, recipe_hash, recipe_toml) = match (experiment, training) {
            (Some(experiment), _) => (
                experiment.name.clone(),
                experiment.config_hash.clone(),
                experiment.toml.as_str(),
            ),
            (None, Some(training)) => (
                training.recipe.name.clone(),
                training.config_hash.clone(),
                training.recipe.toml.as_str(),
            ),
            (None, None) => (String::new(), String::new(), ""),
        };
        Ok(Self {
            title: title(record),
            about: report.about.with_article(),
            date: date(&record.date),
            device: device(record),
            model: model(record).to_owned(),
            engine: format!("{} {}", record.engine.name, record.engine.version)
                .trim()
                .to_owned(),
            program_version: &record.program_version,
            schema_version: report.schema_version,
            content_hash: report.content_hash()?,
            hash_worth: WORTH,
            edited: report.integrity.sentence(),
            headline: &report.headline,
            validity: &report.validity,
            status: training.map_or("", |training| training.status.name()),
            figures: figures(record),
            training: training.map(|training| TrainingView {
                speed_sentence: speed_sentence(training, record.dtype),
                tokens_sentence: tokens_sentence(&training.summary),
                charts: charts(&training.summary),
                invalid_steps: invalid_steps(&training.summary),
                steps: StepTable::of(&training.summary.points),
                mfu: MfuTable::of(training, record),
                id: &training.id,
            }),
            experiment: experiment.map(ExperimentView::of),
            judge: training.and_then(|training| JudgeView::of(&training.judge)),
            evaluation: EvaluationView::of(report),
            memory: training.and_then(MemoryView::of),
            telemetry: record.telemetry.as_ref().and_then(TelemetryView::of),
            money: report.cost.map(|cost| MoneyView::of(&cost, &record.prices)),
            calibration: record
                .calibration
                .as_ref()
                .map(|calibration| CalibrationView::of(calibration, record)),
            scorecard: ScorecardView::of(&report.scorecard),
            published: PublishedView::of(&report.published),
            failures: failures(record),
            counting_rules: &report.counting_rules,
            invalid_comparisons: &report.invalid_comparisons,
            manifest: groups(&record.manifest),
            recipe_heading: if experiment.is_some() {
                "Experiment file"
            } else {
                "Recipe"
            },
            recipe_title: title(record),
            recipe_name,
            recipe_hash,
            recipe_toml,
            repeat: record.repeat.as_deref(),
            redactions: &record.redactions,
            glossary: rules::GLOSSARY
                .iter()
                .map(|(word, meaning)| [*word, *meaning])
                .collect(),
        })
    }
}

/// What the report is of, by name: the recipe's or the experiment's title, else the device.
pub(crate) fn title(record: &ReportInput) -> String {
    let named = |title: &str, name: &str| {
        if title.is_empty() {
            name.to_owned()
        } else {
            title.to_owned()
        }
    };
    match (&record.experiment, &record.training) {
        (Some(experiment), _) => named(&experiment.title, &experiment.name),
        (None, Some(training)) => named(&training.recipe.title, &training.recipe.name),
        (None, None) => "Calibration".to_owned(),
    }
}

/// The device's name; its kind where it has none.
pub(crate) fn device(record: &ReportInput) -> String {
    let device = &record.device;
    match (device.name.as_str(), &record.calibration) {
        ("", Some(calibration)) => calibration.device.clone(),
        ("", None) => "unknown device".to_owned(),
        (name, _) => name.to_owned(),
    }
}

/// The model; empty where none was trained.
pub(crate) fn model(record: &ReportInput) -> &str {
    match (&record.experiment, &record.training) {
        (Some(experiment), _) => &experiment.model,
        (None, Some(training)) => &training.model,
        (None, None) => "",
    }
}

fn failures(record: &ReportInput) -> Vec<Failure> {
    let training = record
        .training
        .iter()
        .filter(|training| training.status != tunesmith_protocol::RunStatus::Ok)
        .map(|training| Failure {
            what: format!(
                "{}, after {}",
                if training.id.is_empty() {
                    "this run"
                } else {
                    &training.id
                },
                plural(training.summary.total_steps as u64, "step")
            ),
            status: training.status.name().to_owned(),
            why: training
                .reason
                .clone()
                .unwrap_or_else(|| "no reason was recorded".to_owned()),
            remedies: training.remedies.clone(),
        });
    let runs = record.experiment.iter().flat_map(|experiment| {
        let failed = experiment.runs.iter().filter(|run| !run.counts);
        failed.map(|run| Failure {
            what: format!("{}, seed {}", experiment.arm_name(run.arm), run.seed),
            status: run.status.clone(),
            why: run
                .reason
                .clone()
                .unwrap_or_else(|| "no reason was recorded".to_owned()),
            remedies: Vec::new(),
        })
    });
    training.chain(runs).collect()
}

/// `2026-11-30 14:05 UTC`, or the text as it is where it is no time.
pub(crate) fn date(text: &str) -> String {
    text.parse::<jiff::Timestamp>().map_or_else(
        |_| text.to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

/// `training`, `experiment` or `calibration` with what was trained, for a line under a title.
pub(crate) fn about_line(report: &Report) -> String {
    let model = model(&report.record);
    match report.about {
        About::Calibration => "calibration".to_owned(),
        about if model.is_empty() => about.name().to_owned(),
        _ => model.to_owned(),
    }
}
