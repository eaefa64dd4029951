//! The key figures of a report, and what they mean in a sentence each.

use serde::Serialize;
use tunesmith_measure::calibration::{outside_allocator_bytes, sustainment};
use tunesmith_measure::comparison::Metric;
use tunesmith_measure::gap::Ladder;
use tunesmith_measure::{Gib, TrainingSummary, practical_peak};
use tunesmith_protocol::DType;

use super::experiment::{metric_unit, metric_words, sd_words};
use crate::format::{capitalised, count, duration, number, percent, plural};
use crate::{ExperimentRecord, ReportInput, TrainingRecord};

/// A key figure: number and unit, and what to know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// What it is.
    pub label: String,
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
    pub(super) fn new(label: &str, value: Option<String>, unit: &'static str, note: &str) -> Self {
        let known = value.is_some();
        Self {
            label: label.to_owned(),
            value: value.unwrap_or_else(|| "unknown".to_owned()),
            unit: if known { unit } else { "" },
            // A line break between a number and its unit reads like two numbers.
            note: note.replace(" %", "\u{a0}%").replace(" GiB", "\u{a0}GiB"),
            known,
        }
    }
}

fn of_a_training(run: &TrainingRecord) -> Vec<Figure> {
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
pub(crate) fn speed_sentence(training: &TrainingRecord, dtype: DType) -> Option<String> {
    let mfu = training.summary.mfu.as_ref()?;
    let useful = format!(
        "Training did {} TFLOPS of work that LoRA needs",
        number(mfu.lora_exact.tflops.0)
    );
    let practical = match (mfu.lora_exact.practical, mfu.peaks.practical) {
        (Some(share), Some(peak)) => format!(
            "that is {} of the {} TFLOPS that matrix products in {} reach on this device",
            percent(share.0),
            number(peak.0),
            dtype.name()
        ),
        _ => format!(
            "what share of this device's own peak that is, is unknown, since no {} peak was measured",
            dtype.name()
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

/// The key figures, five at most.
pub(crate) fn figures(record: &ReportInput) -> Vec<Figure> {
    match (&record.experiment, &record.training) {
        (Some(experiment), _) => of_an_experiment(experiment),
        (None, Some(training)) => of_a_training(training),
        (None, None) => of_a_calibration(record),
    }
}

/// Of each arm the most important figure, the first arm first; others are in the table.
fn of_an_experiment(experiment: &ExperimentRecord) -> Vec<Figure> {
    if let Some(ladder) = &experiment.ladder {
        return of_a_ladder(ladder);
    }
    let comparison = &experiment.comparison;
    let metric = comparison
        .pairs
        .first()
        .and_then(|pair| pair.figures.first())
        .map_or(Metric::TokensPerSec, |figure| figure.metric);
    let arms = comparison.arms.iter().take(4).map(|arm| {
        let figure = arm.figures.get(&metric);
        let note = match figure {
            Some(figure) => match figure.spread.sd {
                Some(sd) => format!(
                    "± {} over {}",
                    sd_words(metric, sd),
                    plural(figure.spread.n as u64, "run")
                ),
                None => "one run, so without any spread".to_owned(),
            },
            None if arm.runs > 0 => "it measures something else".to_owned(),
            None => "no run that counts".to_owned(),
        };
        let value = figure.map(|figure| metric_words(metric, figure.spread.mean));
        Figure::new(&arm.name, value, metric_unit(metric), &note)
    });
    let made = experiment.runs.len();
    let counts = experiment.runs.iter().filter(|run| run.counts).count();
    let runs = Figure::new(
        "Runs that count",
        Some(format!("{counts} of {}", experiment.planned_runs.max(made))),
        "",
        if counts == made {
            "none left out"
        } else {
            "the others are listed with their reason"
        },
    );
    arms.chain([runs]).collect()
}

/// The peak, the first levels, the whole gap.
fn of_a_ladder(ladder: &Ladder) -> Vec<Figure> {
    let gap = &ladder.gap;
    let peak = Figure::new(
        "Measured peak",
        Some(number(gap.peak.0)),
        "TFLOPS",
        &format!("large square products in {}", ladder.dtype.name()),
    );
    let levels = gap.steps.iter().take(3).map(|step| {
        let note = format!("{} of the peak", percent(step.peak_share));
        let reached = Some(number(step.reached.mean));
        Figure::new(&capitalised(&step.name), reached, "TFLOPS", &note)
    });
    let whole = Figure::new(
        "The whole gap",
        Some(number(gap.lost_tflops)),
        "TFLOPS",
        &format!("{} of the peak", percent(gap.lost_share)),
    );
    [peak].into_iter().chain(levels).chain([whole]).collect()
}

fn of_a_calibration(record: &ReportInput) -> Vec<Figure> {
    let calibration = record.calibration.as_ref();
    let peak = calibration.and_then(|calibration| practical_peak(calibration, record.dtype));
    let dtype = record.dtype.name();
    let share = peak
        .zip(record.spec_peak)
        .map(|(peak, spec)| percent(peak.tflops.0 / spec.0).replace(" %", ""));
    let kept = calibration.and_then(sustainment);
    let outside = calibration
        .and_then(|calibration| calibration.allocator.as_ref())
        .and_then(outside_allocator_bytes);
    vec![
        Figure::new(
            "Measured peak",
            peak.map(|peak| number(peak.tflops.0)),
            "TFLOPS",
            &peak.map_or_else(
                || format!("nothing counts in {dtype}"),
                |peak| format!("{dtype}, products of {}³", peak.side),
            ),
        ),
        Figure::new(
            "Of the spec sheet",
            share,
            "%",
            &record.spec_peak.map_or_else(
                || "its peak is unknown".to_owned(),
                |spec| format!("{} TFLOPS promised", number(spec.0)),
            ),
        ),
        Figure::new(
            "Sustained",
            kept.map(|kept| number(kept.sustained.0)),
            "TFLOPS",
            &kept.map_or_else(
                || "not measured".to_owned(),
                |kept| format!("{}, after {}", kept.steadiness.label(), duration(kept.secs)),
            ),
        ),
        Figure::new(
            "Copies",
            calibration
                .filter(|calibration| calibration.copy.iterations > 0)
                .map(|calibration| number(calibration.copy.median_gib_per_sec)),
            "GiB/s",
            "read and written, median",
        ),
        Figure::new(
            "Outside the allocator",
            outside.map(|bytes| number(Gib::from_bytes(bytes).0)),
            "GiB",
            "driver, libraries and code of kernels",
        ),
    ]
}
