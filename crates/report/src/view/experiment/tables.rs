//! Rows of an experiment's tables: each arm against the first, question by question, every run, memory predicted and
//! measured.

use serde::Serialize;
use tunesmith_measure::Gib;
use tunesmith_measure::comparison::{Metric, Pair, PairFigure, PairedItems};

use super::{effect_words, metric_unit, metric_words, p_words, signed_percent};
use crate::format::{capitalised, number, percent, significant};
use crate::{ExperimentRecord, ExperimentRun};

/// A run.
#[derive(Serialize)]
pub(super) struct RunRow {
    place: usize,
    arm: String,
    seed: u64,
    status: String,
    counts: bool,
    speed: String,
    peak: String,
    id: String,
    why: String,
}

pub(super) fn pair_rows(pair: &Pair) -> Vec<[String; 9]> {
    pair.figures.iter().map(|figure| pair_row(pair, figure)).collect()
}

fn pair_row(pair: &Pair, figure: &PairFigure) -> [String; 9] {
    let metric = figure.metric;
    let dash = || "–".to_owned();
    let sign = if figure.difference > 0.0 { "+" } else { "" };
    let ratio = figure.ratio.map_or_else(dash, |ratio| {
        let interval = ratio.interval.map_or_else(String::new, |interval| {
            format!(
                " ({} to {})",
                significant(interval.low, 3),
                significant(interval.high, 3)
            )
        });
        format!("{}{interval}", significant(ratio.value, 3))
    });
    [
        pair.name.clone(),
        capitalised(metric.title()),
        format!(
            "{sign}{} {}",
            metric_words(metric, figure.difference),
            metric_unit(metric)
        ),
        ratio,
        figure.welch.map_or_else(dash, |test| significant(test.t, 3)),
        figure.welch.map_or_else(dash, |test| significant(test.df, 3)),
        figure.p_adjusted.map_or_else(dash, p_words),
        figure.cohens_d.map_or_else(dash, |d| significant(d, 3)),
        effect_words(figure.effect).to_owned(),
    ]
}

/// McNemar's test of paired answers, seed by seed (C6).
pub(super) fn item_rows(pair: &Pair) -> Vec<[String; 6]> {
    let row = |items: &PairedItems| {
        [
            pair.name.clone(),
            items.seed.to_string(),
            items.items.to_string(),
            items.test.gained.to_string(),
            items.test.lost.to_string(),
            p_words(items.test.p_two_sided),
        ]
    };
    pair.items.iter().map(row).collect()
}

/// `A B B A`, with the arms' letters explained by their order in the table.
pub(super) fn order(experiment: &ExperimentRecord) -> String {
    let letter = |arm: usize| {
        let letter = u8::try_from(arm % 26).map_or('?', |arm| char::from(b'A' + arm));
        letter.to_string()
    };
    let order: Vec<String> = experiment.runs.iter().map(|run| letter(run.arm)).collect();
    order.join(" ")
}

pub(super) fn run_row(experiment: &ExperimentRecord, index: usize, run: &ExperimentRun) -> RunRow {
    let dash = || "–".to_owned();
    RunRow {
        place: index + 1,
        arm: experiment.arm_name(run.arm).to_owned(),
        seed: run.seed,
        status: run.status.clone(),
        counts: run.counts,
        speed: run.tokens_per_sec.map_or_else(dash, number),
        peak: run
            .peak_bytes
            .map_or_else(dash, |bytes| number(Gib::from_bytes(bytes).0)),
        id: run.id.clone().unwrap_or_default(),
        why: run.reason.clone().unwrap_or_default(),
    }
}

/// Predicted against measured memory, one row an arm.
pub(super) fn fit_rows(experiment: &ExperimentRecord) -> Vec<[String; 4]> {
    let arms = experiment.comparison.arms.iter().enumerate();
    arms.filter_map(|(index, arm)| {
        let predicted = Gib::from_bytes(
            experiment
                .runs
                .iter()
                .filter(|run| run.arm == index)
                .find_map(|run| run.predicted_bytes)?,
        );
        let measured = Gib::from_mean(arm.figures.get(&Metric::PeakBytes)?.spread.mean).0;
        Some([
            arm.name.clone(),
            number(predicted.0),
            number(measured),
            signed_percent(predicted.0 / measured - 1.0),
        ])
    })
    .collect()
}

pub(super) fn fit_sentence(experiment: &ExperimentRecord) -> Option<String> {
    let errors = experiment
        .runs
        .iter()
        .filter(|run| run.counts)
        .filter_map(|run| Some(run.predicted_bytes? as f64 / run.peak_bytes? as f64 - 1.0))
        .filter(|error| error.is_finite())
        .map(f64::abs);
    let worst = errors.reduce(f64::max)?;
    Some(format!(
        "Peak memory was predicted before each run; the worst prediction was {} off.",
        percent(worst)
    ))
}
