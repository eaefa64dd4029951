//! The report as one HTML file: words and drawings are made here, the layout is the template's. Text is escaped by
//! the template (its name ends in `.html`); only the drawings, which escape what they are given, go in as they are.

mod evaluation;
mod judge;
mod machine;

use minijinja::Environment;
use serde::Serialize;
use tunesmith_measure::{Gib, Mfu, MfuPair, StepPoint, TrainingSummary};

use crate::chart::{ChartPoint, LineChart, Reference};
use crate::format::{self, count, duration, number, percent, plural, significant};
use crate::{CountingRule, Headline, Report, ReportError, ReportInput, rules};

use judge::JudgeView;
use machine::CalibrationView;

pub(crate) use evaluation::EvaluationView;
pub use machine::Group;
pub(crate) use machine::groups;

/// More rows than this are thinned in the table; the JSON holds all.
const MOST_ROWS: usize = 1000;

pub(crate) fn render(report: &Report) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.add_template("report.css", include_str!("../../templates/report.css"))?;
    environment.add_template("macros.html", include_str!("../../templates/macros.html"))?;
    environment.add_template("report.html", include_str!("../../templates/report.html"))?;
    Ok(environment
        .get_template("report.html")?
        .render(minijinja::value::Serde(Page::of(report)))?)
}

/// What the template is given.
#[derive(Serialize)]
struct Page<'a> {
    title: String,
    date: String,
    recipe_name: &'a str,
    recipe_title: &'a str,
    recipe_toml: &'a str,
    model: &'a str,
    engine: String,
    program_version: &'a str,
    schema_version: u32,
    headline: &'a Headline,
    validity: &'a Headline,
    status: &'static str,
    figures: Vec<Figure>,
    speed_sentence: Option<String>,
    tokens_sentence: Option<String>,
    charts: Vec<ChartView>,
    invalid_steps: Vec<String>,
    steps: StepTable,
    mfu: Option<MfuTable>,
    judge: Option<JudgeView>,
    evaluation: Option<EvaluationView>,
    calibration: Option<CalibrationView>,
    counting_rules: &'a [CountingRule],
    invalid_comparisons: &'a [String],
    manifest: Vec<Group>,
    redactions: &'a [String],
    glossary: Vec<[&'static str; 2]>,
}

impl<'a> Page<'a> {
    fn of(report: &'a Report) -> Self {
        let run = &report.run;
        Self {
            title: title(run).to_owned(),
            date: date(&run.date),
            recipe_name: &run.recipe.name,
            recipe_title: &run.recipe.title,
            recipe_toml: &run.recipe.toml,
            model: &run.model,
            engine: format!("{} {}", run.engine.name, run.engine.version)
                .trim()
                .to_owned(),
            program_version: &run.program_version,
            schema_version: report.schema_version,
            headline: &report.headline,
            validity: &report.validity,
            status: run.status.name(),
            figures: figures(run),
            speed_sentence: speed_sentence(run),
            tokens_sentence: tokens_sentence(&run.summary),
            charts: charts(&run.summary),
            invalid_steps: invalid_steps(&run.summary),
            steps: StepTable::of(&run.summary.points),
            mfu: MfuTable::of(run),
            judge: JudgeView::of(&run.judge),
            evaluation: EvaluationView::of(report),
            calibration: run
                .calibration
                .as_ref()
                .map(|calibration| CalibrationView::of(calibration, run)),
            counting_rules: &report.counting_rules,
            invalid_comparisons: &report.invalid_comparisons,
            manifest: groups(&run.manifest),
            redactions: &run.redactions,
            glossary: rules::GLOSSARY
                .iter()
                .map(|(word, meaning)| [*word, *meaning])
                .collect(),
        }
    }
}

/// The recipe's title, or its name where it has none.
pub(crate) fn title(run: &ReportInput) -> &str {
    match run.recipe.title.as_str() {
        "" => &run.recipe.name,
        title => title,
    }
}

/// A key figure: number and unit, and what to know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// What it is.
    pub label: &'static str,
    /// The number as text; `unknown` where it is not known.
    pub value: String,
    /// Its unit; may be empty.
    pub unit: &'static str,
    /// What to know about it.
    pub note: String,
    /// Whether it is known.
    pub known: bool,
}

impl Figure {
    fn new(label: &'static str, value: Option<String>, unit: &'static str, note: &str) -> Self {
        let known = value.is_some();
        Self {
            label,
            value: value.unwrap_or_else(|| "unknown".to_owned()),
            unit: if known { unit } else { "" },
            // A line break between a number and its unit reads like two numbers.
            note: note.replace(" %", "\u{a0}%").replace(" GiB", "\u{a0}GiB"),
            known,
        }
    }
}

pub(crate) fn figures(run: &ReportInput) -> Vec<Figure> {
    let summary = &run.summary;
    let exact = summary.mfu.map(|mfu| mfu.lora_exact);
    let sheet = exact.and_then(|exact| exact.theoretical);
    let beside = match (
        summary.steady_padded_tokens_per_sec,
        summary.whole_run_tokens_per_sec,
    ) {
        (Some(padded), Some(whole)) => format!(
            "{} with padding; {} over the whole run",
            number(padded),
            number(whole)
        ),
        _ => "no step in the steady window counts".to_owned(),
    };
    let first_step = summary.time_to_first_step_secs;
    let minutes = first_step.is_some_and(|secs| secs >= 59.95);
    let against_sheet = sheet.map_or_else(
        || "of the measured peak; spec sheet unknown".to_owned(),
        |share| format!("of the measured peak; {} of the spec sheet", percent(share.0)),
    );
    let gib = |bytes: Option<u64>| bytes.map(|bytes| number(Gib::from_bytes(bytes).0));
    let process = gib(run.peak_process_bytes).map_or_else(
        || "held by the allocator".to_owned(),
        |whole| format!("held by the allocator; process {whole} GiB"),
    );
    let left_out = summary.total_steps - summary.valid_steps.min(summary.total_steps);
    vec![
        Figure::new(
            "Steady speed",
            summary.steady_tokens_per_sec.map(number),
            "tokens/s",
            &beside,
        ),
        Figure::new(
            "MFU, LoRA-exact",
            exact
                .and_then(|exact| exact.practical)
                .map(|share| percent(share.0).replace(" %", "")),
            "%",
            &against_sheet,
        ),
        Figure::new("Peak memory", gib(summary.peak_bytes), "GiB", &process),
        Figure::new(
            "Time to first step",
            first_step.map(|secs| if minutes { duration(secs) } else { number(secs) }),
            if minutes { "" } else { "s" },
            "model loading included",
        ),
        Figure::new(
            "Valid steps",
            (summary.total_steps > 0).then(|| format!("{} of {}", summary.valid_steps, summary.total_steps)),
            "",
            &if left_out == 0 {
                "none left out".to_owned()
            } else {
                format!("{left_out} left out of all statistics")
            },
        ),
    ]
}

/// The MFU in words: a share of the measured peak, with the spec sheet's beside it.
pub(crate) fn speed_sentence(run: &ReportInput) -> Option<String> {
    let mfu = run.summary.mfu.as_ref()?;
    let useful = format!(
        "Training did {} TFLOPS of work that LoRA needs",
        number(mfu.lora_exact.tflops.0)
    );
    let practical = match (mfu.lora_exact.practical, mfu.peaks.practical) {
        (Some(share), Some(peak)) => format!(
            "that is {} of the {} TFLOPS that matrix products in {} reach on this device",
            percent(share.0),
            number(peak.0),
            run.dtype.name()
        ),
        _ => format!(
            "what share of this device's own peak that is, is unknown, since no {} peak was measured",
            run.dtype.name()
        ),
    };
    let sheet = match (mfu.lora_exact.theoretical, mfu.peaks.theoretical) {
        (Some(share), Some(peak)) => format!(
            "and {} of the {} TFLOPS of its spec sheet",
            percent(share.0),
            number(peak.0)
        ),
        _ => "and its spec-sheet peak is unknown".to_owned(),
    };
    Some(format!("{useful}; {practical}, {sheet}."))
}

/// What was counted, in words: the whole run beside the steady window.
pub(crate) fn tokens_sentence(summary: &TrainingSummary) -> Option<String> {
    let (real, padded) = (
        summary.whole_run_tokens_per_sec?,
        summary.whole_run_padded_tokens_per_sec?,
    );
    let share = summary
        .supervised_share
        .map_or_else(String::new, |share| format!(" ({})", percent(share)));
    Some(format!(
        "Steady window: {} after {} of warm-up. Whole run: {} real tokens/s ({} with padding) over {}, model loading included; \
         {} real tokens, {} with padding, {} supervised{share}.",
        plural(summary.steady_steps as u64, "step"),
        plural(summary.discarded_steps as u64, "step"),
        number(real),
        number(padded),
        duration(summary.wall_secs),
        count(summary.real_tokens),
        count(summary.padded_tokens),
        count(summary.supervised_tokens)
    ))
}

/// A chart, or why there is none.
#[derive(Serialize)]
struct ChartView {
    title: &'static str,
    said: String,
    svg: Option<String>,
}

fn charts(summary: &TrainingSummary) -> Vec<ChartView> {
    let steady_mfu = summary.mfu.and_then(|mfu| mfu.lora_exact.practical);
    let mean = |value: Option<f64>, label: &str| {
        value.map(|value| Reference {
            value,
            label: format!("steady {}{label}", number(value)),
        })
    };
    let draw = |title: &'static str,
                unit: &str,
                said: String,
                value: fn(&StepPoint) -> Option<f64>,
                reference,
                from_zero| {
        let points: Vec<ChartPoint> = summary
            .points
            .iter()
            .map(|point| ChartPoint {
                step: point.step,
                value: value(point),
                fault: point.reason.map(tunesmith_measure::StepFault::sentence),
            })
            .collect();
        let warm_up_until = (summary.discarded_steps > 0)
            .then(|| {
                summary
                    .points
                    .get(summary.discarded_steps - 1)
                    .map(|point| point.step)
            })
            .flatten();
        let svg = LineChart {
            title,
            unit,
            points: &points,
            warm_up_until,
            reference,
            from_zero,
        }
        .svg();
        ChartView { title, said, svg }
    };
    let loss = summary.loss.map_or_else(String::new, |loss| {
        format!(
            "{} → {}, mean of the last tenth",
            significant(loss.first, 3),
            significant(loss.mean_last_tenth, 3)
        )
    });
    let norm = summary.grad_norm.map_or_else(String::new, |range| {
        format!("{} to {}", number(range.min), number(range.max))
    });
    let speed = summary.step_secs.map_or_else(String::new, |spread| {
        let sd = spread
            .sd
            .map_or_else(String::new, |sd| format!(" ± {}", number(sd)));
        format!(
            "{}{sd} s a step, median {}",
            number(spread.mean),
            number(spread.median)
        )
    });
    let memory = summary.peak_bytes.map_or_else(String::new, |bytes| {
        format!("at most {} GiB", number(Gib::from_bytes(bytes).0))
    });
    let rates = summary
        .points
        .iter()
        .map(|point| point.lr)
        .filter(|lr| lr.is_finite())
        .reduce(f64::max);
    vec![
        draw(
            "Loss",
            "nats per supervised token",
            loss,
            |point| point.loss,
            None,
            false,
        ),
        draw(
            "Gradient norm",
            "L2, before clipping",
            norm,
            |point| point.grad_norm,
            None,
            true,
        ),
        draw(
            "Speed",
            "real tokens/s",
            speed,
            |point| point.tokens_per_sec,
            mean(summary.steady_tokens_per_sec, ""),
            true,
        ),
        draw(
            "MFU",
            "% of the measured peak, LoRA-exact",
            steady_mfu.map_or_else(String::new, |mfu| {
                format!("{} over the steady window", percent(mfu.0))
            }),
            |point| point.mfu_exact_practical.map(Mfu::percent),
            mean(steady_mfu.map(Mfu::percent), " %"),
            true,
        ),
        draw(
            "Memory",
            "GiB, most in the step",
            memory,
            |point| point.peak_gib.map(|gib| gib.0),
            None,
            true,
        ),
        draw(
            "Learning rate",
            "size of a step",
            rates.map_or_else(String::new, |rate| format!("peak {}", format::rate(rate))),
            |point| Some(point.lr).filter(|lr| lr.is_finite()),
            None,
            true,
        ),
    ]
}

fn invalid_steps(summary: &TrainingSummary) -> Vec<String> {
    const MOST: usize = 20;
    let invalid: Vec<String> = summary
        .points
        .iter()
        .filter_map(|point| Some(format!("Step {}: {}", point.step, point.reason?.sentence())))
        .collect();
    let more = invalid.len().saturating_sub(MOST);
    let mut shown: Vec<String> = invalid.into_iter().take(MOST).collect();
    if more > 0 {
        shown.push(format!("and {more} more, in the table"));
    }
    shown
}

/// The table behind the charts.
#[derive(Serialize)]
struct StepTable {
    rows: Vec<[String; 9]>,
    note: Option<String>,
}

impl StepTable {
    fn of(points: &[StepPoint]) -> Self {
        let every = points.len().div_ceil(MOST_ROWS).max(1);
        let optional = |value: Option<f64>| value.map_or("–".to_owned(), |value| significant(value, 4));
        let rows = points
            .iter()
            .step_by(every)
            .map(|point| {
                [
                    count(point.step),
                    optional(point.loss),
                    optional(point.grad_norm),
                    format::rate(point.lr),
                    optional(Some(point.dt_secs).filter(|secs| secs.is_finite())),
                    optional(point.tokens_per_sec),
                    point
                        .mfu_exact_practical
                        .map_or("–".to_owned(), |mfu| number(mfu.percent())),
                    point.peak_gib.map_or("–".to_owned(), |gib| significant(gib.0, 4)),
                    match (point.reason, point.steady) {
                        (Some(reason), _) => reason.sentence().to_owned(),
                        (None, true) => "yes".to_owned(),
                        (None, false) => "yes, warm-up".to_owned(),
                    },
                ]
            })
            .collect();
        let note = (every > 1).then(|| format!("One row in {every} is shown; report.json holds all."));
        Self { rows, note }
    }
}

/// Three counts against two peaks.
#[derive(Serialize)]
struct MfuTable {
    rows: Vec<[String; 4]>,
    peaks: String,
    bias: Option<String>,
    flops: String,
}

impl MfuTable {
    fn of(run: &ReportInput) -> Option<Self> {
        let mfu = run.summary.mfu?;
        let share = |share: Option<Mfu>| share.map_or("unknown".to_owned(), |share| percent(share.0));
        let row = |name: &str, pair: MfuPair| {
            [
                name.to_owned(),
                number(pair.tflops.0),
                share(pair.practical),
                share(pair.theoretical),
            ]
        };
        let peak = |peak: Option<tunesmith_measure::Tflops>| {
            peak.map_or("unknown".to_owned(), |peak| format!("{} TFLOPS", number(peak.0)))
        };
        Some(Self {
            rows: vec![
                row("LoRA-exact", mfu.lora_exact),
                row("Hardware, recomputation included", mfu.hardware),
                row("6ND, for comparison with published figures", mfu.six_nd),
            ],
            peaks: format!(
                "Measured peak {}; spec-sheet peak {}.",
                peak(mfu.peaks.practical),
                peak(mfu.peaks.theoretical.or(run.spec_peak))
            ),
            bias: mfu.bias.map(|bias| {
                let matters = mfu.dual_reporting_matters == Some(true);
                format!(
                    "Matrix products fall {} short of the spec sheet{}.",
                    percent(bias),
                    if matters {
                        ", so neither share alone tells the story"
                    } else {
                        ""
                    }
                )
            }),
            flops: format!(
                "{} TFLOP of LoRA-exact work in {} of steady steps.",
                number(run.summary.steady_flops.model() / 1e12),
                duration(run.summary.steady_secs)
            ),
        })
    }
}

/// `2026-11-30 14:05 UTC`, or the text as it is where it is no time.
pub(crate) fn date(text: &str) -> String {
    text.parse::<jiff::Timestamp>().map_or_else(
        |_| text.to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}
