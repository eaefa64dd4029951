//! Drawings of an experiment: bars with their spread, memory against speed, a knob at a time, losses of all runs.

use tunesmith_measure::Gib;
use tunesmith_measure::comparison::{Comparison, Metric, knobs};

use super::{metric_unit, shown};
use crate::ExperimentRecord;
use crate::draw::{Curve, Knob, KnobPoint, Overlay, Pareto, ParetoPoint, SpreadBars, SpreadRow, Sweep};
use crate::format::{plural, significant};
use crate::view::ChartView;

/// Least knobs from which on the arms are a sweep and not a pair.
const LEAST_KNOBS: usize = 2;

fn spread_rows(comparison: &Comparison, metric: Metric) -> Vec<SpreadRow> {
    let scale = |value: f64| match metric {
        Metric::PeakBytes => Gib::from_mean(value).0,
        Metric::MfuExactPractical => 100.0 * value,
        _ => value,
    };
    comparison
        .arms
        .iter()
        .enumerate()
        .filter_map(|(index, arm)| {
            let figure = arm.figures.get(&metric)?;
            Some(SpreadRow {
                label: arm.name.clone(),
                values: figure.values.iter().map(|value| scale(*value)).collect(),
                mean: scale(figure.spread.mean),
                sd: figure.spread.sd.map(scale),
                series: index,
            })
        })
        .collect()
}

/// Speed, share of the peak, memory (U2), and the score where there is one.
pub(super) fn bars(comparison: &Comparison, metrics: &[Metric]) -> Vec<ChartView> {
    [
        Metric::TokensPerSec,
        Metric::PeakBytes,
        Metric::MfuExactPractical,
        Metric::ScorePoints,
        Metric::MeanWatts,
    ]
    .into_iter()
    .filter(|metric| metrics.contains(metric))
    .map(|metric| {
        let title = match metric {
            Metric::TokensPerSec => "Speed",
            Metric::PeakBytes => "Peak memory",
            Metric::MfuExactPractical => "MFU, LoRA-exact, of the measured peak",
            Metric::MeanWatts => "Mean power",
            _ => "Execution match",
        };
        let unit = if metric == Metric::TokensPerSec {
            "real tokens/s"
        } else {
            metric_unit(metric)
        };
        ChartView {
            title: title.to_owned(),
            said: "mean, one standard deviation, every run".to_owned(),
            svg: SpreadBars {
                title,
                unit,
                rows: spread_rows(comparison, metric),
            }
            .svg(),
        }
    })
    .collect()
}

/// The bars of the figure that the experiment is about first, for the share card: two arms at least.
pub(crate) fn best_bars(experiment: &ExperimentRecord) -> Option<(Metric, Vec<SpreadRow>)> {
    let comparison = &experiment.comparison;
    let metric = comparison.pairs.first()?.figures.first()?.metric;
    let mut rows = spread_rows(comparison, metric);
    rows.truncate(4);
    (rows.len() >= 2).then_some((metric, rows))
}

/// Memory against speed, with the points that were only predicted; `None` where fewer than two arms have both.
pub(crate) fn pareto_of(experiment: &ExperimentRecord) -> Option<Pareto> {
    let mut all = Vec::new();
    let mut measured = 0;
    for (index, arm) in experiment.comparison.arms.iter().enumerate() {
        let speed = arm.figures.get(&Metric::TokensPerSec);
        let memory = arm.figures.get(&Metric::PeakBytes);
        if let (Some(speed), Some(memory)) = (speed, memory) {
            measured += 1;
            all.push(ParetoPoint {
                name: arm.name.clone(),
                memory_gib: Gib::from_mean(memory.spread.mean).0,
                memory_sd: memory.spread.sd.map(|sd| Gib::from_mean(sd).0),
                tokens_per_sec: speed.spread.mean,
                speed_sd: speed.spread.sd,
                predicted: false,
                series: index,
            });
        }
        // The memory that was predicted for it, at the speed that it had: a hollow point beside the full one.
        let predicted = experiment
            .runs
            .iter()
            .filter(|run| run.arm == index)
            .find_map(|run| run.predicted_bytes);
        if let (Some(speed), Some(bytes)) = (speed, predicted) {
            all.push(ParetoPoint {
                name: String::new(),
                memory_gib: Gib::from_bytes(bytes).0,
                memory_sd: None,
                tokens_per_sec: speed.spread.mean,
                speed_sd: None,
                predicted: true,
                series: index,
            });
        }
    }
    (measured >= 2).then_some(Pareto { points: all })
}

pub(super) fn pareto_sentence(experiment: &ExperimentRecord) -> String {
    let comparison = &experiment.comparison;
    let names: Vec<&str> = comparison
        .frontier
        .iter()
        .filter_map(|index| Some(comparison.arms.get(*index)?.name.as_str()))
        .collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => {
            format!("{one} takes the least memory and is the fastest: no other set-up beats it at either.")
        }
        [first, .., last] => format!(
            "{} are on the frontier: {first} where memory is scarce, {last} where time is.",
            plural(names.len() as u64, "set-up")
        ),
    }
}

/// A small chart for each setting that is changed alone in some arms, the one with the largest effect first.
pub(super) fn sweeps(comparison: &Comparison) -> Vec<ChartView> {
    let found = knobs(comparison, Metric::TokensPerSec);
    if found.len() < LEAST_KNOBS && found.iter().all(|knob| knob.points.len() < 3) {
        return Vec::new();
    }
    let sweep = Sweep {
        unit: "real tokens/s",
        knobs: found
            .iter()
            .map(|knob| Knob {
                name: knob.key.clone(),
                points: knob
                    .points
                    .iter()
                    .map(|point| KnobPoint {
                        setting: shown(&point.setting).to_owned(),
                        mean: point.spread.mean,
                        sd: point.spread.sd,
                        base: point.arm == 0,
                    })
                    .collect(),
            })
            .collect(),
    };
    sweep
        .svgs()
        .into_iter()
        .zip(&found)
        .map(|((name, svg), knob)| ChartView {
            title: name,
            said: format!(
                "{} times between the slowest and the fastest",
                significant(knob.effect, 3)
            ),
            svg: Some(svg),
        })
        .collect()
}

pub(super) fn losses(experiment: &ExperimentRecord) -> Option<String> {
    let curves = experiment
        .runs
        .iter()
        .filter(|run| run.counts && !run.losses.is_empty())
        .map(|run| Curve {
            arm: experiment.arm_name(run.arm).to_owned(),
            series: run.arm,
            points: run.losses.iter().map(|point| (point.step, point.loss)).collect(),
        })
        .collect();
    Overlay {
        title: "Loss of every run",
        unit: "nats per supervised token",
        curves,
    }
    .svg()
}
