//! An experiment as the page shows it: what was asked, what came out against what was written down before, each arm with
//! its spread, memory against speed, a knob at a time, and every run.

mod drawings;
mod ladder;
mod tables;
mod words;

use serde::Serialize;
use tunesmith_measure::comparison::{ArmSummary, ClaimResult, ClaimVerdict, Comparison, Metric};

use super::ChartView;
use crate::ExperimentRecord;
use crate::format::capitalised;

use drawings::{bars, losses, pareto_sentence, sweeps};
pub(crate) use drawings::{best_bars, pareto_of};
use ladder::LadderView;
pub(crate) use ladder::waterfall_of;
use tables::{RunRow, fit_rows, fit_sentence, item_rows, order, pair_rows, run_row};
pub use words::{effect_words, metric_unit, metric_words, p_words};
use words::{mark_of, with_unit};
pub(crate) use words::{sd_words, signed_percent};

#[derive(Serialize)]
pub(super) struct ExperimentView {
    question: String,
    ladder: Option<LadderView>,
    findings: Vec<Finding>,
    claims: Vec<ClaimRow>,
    columns: Vec<String>,
    arms: Vec<ArmRow>,
    bars: Vec<ChartView>,
    pareto: Option<String>,
    pareto_sentence: String,
    sweeps: Vec<ChartView>,
    losses: Option<String>,
    pairs: Vec<[String; 9]>,
    effects: Vec<&'static str>,
    items: Vec<[String; 6]>,
    order: String,
    runs: Vec<RunRow>,
    fit: Vec<[String; 4]>,
    fit_sentence: Option<String>,
    notes: Vec<String>,
    drift: Vec<String>,
}

/// A sentence with the mark of its verdict.
#[derive(Serialize)]
struct Finding {
    verdict: &'static str,
    sentence: String,
}

/// Something that was written down before the runs.
#[derive(Serialize)]
struct ClaimRow {
    kind: &'static str,
    verdict: &'static str,
    word: &'static str,
    sentence: String,
    why: String,
}

#[derive(Serialize)]
struct ArmRow {
    name: String,
    changes: String,
    runs: usize,
    cells: Vec<String>,
    on_frontier: bool,
}

impl ExperimentView {
    pub(super) fn of(experiment: &ExperimentRecord) -> Self {
        let comparison = &experiment.comparison;
        let metrics: Vec<Metric> = Metric::ALL
            .into_iter()
            // Useful work a second is MFU without a peak: it is of use where the ladder is.
            .filter(|metric| *metric != Metric::UsefulTflops || experiment.ladder.is_some())
            .filter(|metric| comparison.arms.iter().any(|arm| arm.figures.contains_key(metric)))
            .collect();
        let fit = fit_rows(experiment);
        Self {
            question: experiment.question.clone(),
            ladder: experiment.ladder.as_ref().map(LadderView::of),
            findings: findings(comparison),
            claims: claims(comparison),
            columns: metrics
                .iter()
                .map(|metric| with_unit(metric.title(), metric_unit(*metric)))
                .collect(),
            arms: arms(comparison, &metrics),
            bars: bars(comparison, &metrics),
            pareto: pareto_of(experiment).and_then(|pareto| pareto.svg()),
            pareto_sentence: pareto_sentence(experiment),
            sweeps: sweeps(comparison),
            losses: losses(experiment),
            pairs: comparison.pairs.iter().flat_map(pair_rows).collect(),
            effects: comparison
                .pairs
                .iter()
                .flat_map(|pair| pair.figures.iter().map(|figure| mark_of(figure.effect)))
                .collect(),
            items: comparison.pairs.iter().flat_map(item_rows).collect(),
            order: order(experiment),
            runs: experiment
                .runs
                .iter()
                .enumerate()
                .map(|(index, run)| run_row(experiment, index, run))
                .collect(),
            fit_sentence: fit_sentence(experiment),
            fit,
            notes: experiment.notes.clone(),
            drift: experiment.drift.clone(),
        }
    }
}

/// Of two arms every figure; of more the most important one of each, as the table has the others.
fn findings(comparison: &Comparison) -> Vec<Finding> {
    let compared = comparison.pairs.iter().filter(|pair| !pair.figures.is_empty());
    let each = if compared.count() > 2 { 1 } else { usize::MAX };
    let figures = comparison
        .pairs
        .iter()
        .flat_map(|pair| pair.figures.iter().take(each));
    figures
        .map(|figure| Finding {
            verdict: mark_of(figure.effect),
            sentence: capitalised(&figure.sentence),
        })
        .collect()
}

fn claims(comparison: &Comparison) -> Vec<ClaimRow> {
    let row = |kind: &'static str, result: &ClaimResult| {
        let (verdict, word) = match (kind, result.verdict) {
            (_, ClaimVerdict::Undecidable) => ("unknown", "not decided"),
            ("Pass criterion", ClaimVerdict::Hit) => ("ok", "passed"),
            ("Pass criterion", ClaimVerdict::Miss) => ("stop", "not passed"),
            (_, ClaimVerdict::Hit) => ("ok", "hit"),
            (_, ClaimVerdict::Miss) => ("warn", "miss"),
        };
        ClaimRow {
            kind,
            verdict,
            word,
            sentence: capitalised(&result.sentence),
            why: result.claim.why.clone(),
        }
    };
    let criteria = comparison
        .criteria
        .iter()
        .map(|result| row("Pass criterion", result));
    let predictions = comparison
        .predictions
        .iter()
        .map(|result| row("Prediction", result));
    criteria.chain(predictions).collect()
}

fn changes(arm: &ArmSummary) -> String {
    if arm.changes.is_empty() {
        return "the one that the others are compared with".to_owned();
    }
    let each: Vec<String> = arm
        .changes
        .iter()
        .map(|change| format!("{}: {} → {}", change.key, shown(&change.from), shown(&change.to)))
        .collect();
    each.join("; ")
}

fn shown(setting: &str) -> &str {
    if setting.is_empty() { "nothing" } else { setting }
}

fn arms(comparison: &Comparison, metrics: &[Metric]) -> Vec<ArmRow> {
    comparison
        .arms
        .iter()
        .enumerate()
        .map(|(index, arm)| ArmRow {
            name: arm.name.clone(),
            changes: changes(arm),
            runs: arm.runs,
            cells: metrics
                .iter()
                .map(|metric| {
                    arm.figures.get(metric).map_or_else(
                        || "–".to_owned(),
                        |figure| {
                            let sd = figure
                                .spread
                                .sd
                                .map_or_else(String::new, |sd| format!(" ± {}", sd_words(*metric, sd)));
                            format!("{}{sd}", metric_words(*metric, figure.spread.mean))
                        },
                    )
                })
                .collect(),
            on_frontier: comparison.frontier.contains(&index),
        })
        .collect()
}
