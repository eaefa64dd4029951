//! A training as the page shows it: charts over steps, the table behind them, and the work against both peaks.

use serde::Serialize;
use tunesmith_measure::{Gib, Mfu, MfuPair, StepPoint, TrainingSummary};

use super::ChartView;
use crate::draw::{ChartPoint, LineChart, Reference};
use crate::format::{self, count, duration, number, percent, significant};
use crate::{ReportInput, TrainingRecord};

/// More rows than this are thinned in the table; the JSON holds all.
const MOST_ROWS: usize = 1000;

pub(super) fn charts(summary: &TrainingSummary) -> Vec<ChartView> {
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
            along: "step",
            points: &points,
            warm_up_until,
            reference,
            from_zero,
        }
        .svg();
        ChartView {
            title: title.to_owned(),
            said,
            svg,
        }
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

pub(super) fn invalid_steps(summary: &TrainingSummary) -> Vec<String> {
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
pub(super) struct StepTable {
    pub(super) rows: Vec<[String; 9]>,
    note: Option<String>,
}

impl StepTable {
    pub(super) fn of(points: &[StepPoint]) -> Self {
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
pub(super) struct MfuTable {
    rows: Vec<[String; 4]>,
    peaks: String,
    bias: Option<String>,
    flops: String,
}

impl MfuTable {
    pub(super) fn of(training: &TrainingRecord, record: &ReportInput) -> Option<Self> {
        let mfu = training.summary.mfu?;
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
                peak(mfu.peaks.theoretical.or(record.spec_peak))
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
                number(training.summary.steady_flops.model() / 1e12),
                duration(training.summary.steady_secs)
            ),
        })
    }
}
