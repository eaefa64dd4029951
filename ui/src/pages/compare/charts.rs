//! What the runs came to, to look at: a bar with its spread for each arm and figure, memory against speed with what was
//! predicted, each knob of a sweep, and a long run over time.

use egui::Ui;
use tunesmith_lab::experiment::{ExperimentState, Kind, Outlook};
use tunesmith_measure::{
    Gib,
    comparison::{Comparison, Metric, knobs},
};
use tunesmith_report::{format::significant, metric_unit};

use super::{CompareView, words};
use crate::{
    chart::{
        Along, KnobChart, KnobMark, LineChart, Pareto, ParetoPoint, PointState, Series, SpreadBar, SpreadBars,
    },
    state::State,
    theme, widgets,
};

/// Wide enough for two charts beside each other.
const TWO_ABREAST: f32 = 760.0;

pub(super) fn charts_ui(state: &State, experiment: &ExperimentState, view: &mut CompareView, ui: &mut Ui) {
    bars_ui(experiment, view, ui);
    pareto_ui(state, experiment, view, ui);
    knobs_ui(experiment, view, ui);
    soak_ui(experiment, view, ui);
}

/// A chart for each figure; they fill while runs end.
fn bars_ui(experiment: &ExperimentState, view: &mut CompareView, ui: &mut Ui) {
    let comparison = &experiment.comparison;
    let all = &experiment.experiment.metrics;
    let measured = |metric: &Metric| comparison.arms.iter().any(|arm| arm.figures.contains_key(metric));
    let mut metrics: Vec<Metric> = all.iter().copied().filter(measured).collect();
    if metrics.is_empty() {
        // Before the first run is over the two that matter most show where it will stand.
        metrics = all.iter().copied().take(2).collect();
    }
    widgets::panel(ui, "", |ui| {
        ui.spacing_mut().item_spacing.x = 8.0 * theme::GRID;
        let two = ui.available_width() >= TWO_ABREAST;
        for row in metrics.chunks(if two { 2 } else { 1 }) {
            ui.columns(if two { 2 } else { 1 }, |columns| {
                for (metric, ui) in row.iter().zip(columns) {
                    let bars = bars(comparison, *metric);
                    let view = view.bars.entry(metric.name()).or_default();
                    SpreadBars::new(words::title(*metric), unit(*metric), &bars).show(ui, view);
                }
            });
            ui.add_space(theme::GRID);
        }
        widgets::caption(
            ui,
            "Bars end at the mean, whiskers are one standard deviation, every dot is a run",
        );
    });
}

fn bars(comparison: &Comparison, metric: Metric) -> Vec<SpreadBar> {
    comparison
        .arms
        .iter()
        .enumerate()
        // One whose runs measure something else has no bar here.
        .filter(|(_, arm)| arm.runs == 0 || arm.figures.contains_key(&metric))
        .map(|(index, arm)| SpreadBar {
            label: arm.name.clone(),
            values: arm.figures.get(&metric).map_or_else(Vec::new, |figure| {
                figure
                    .values
                    .iter()
                    .map(|value| words::scaled(metric, *value))
                    .collect()
            }),
            series: index,
        })
        .collect()
}

fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::TokensPerSec => "real tokens/s",
        metric => metric_unit(metric),
    }
}

/// Memory against speed, with the points that are only predicted, hollow.
fn pareto_ui(state: &State, experiment: &ExperimentState, view: &mut CompareView, ui: &mut Ui) {
    let outlook = state.pages.compare.offers().and_then(|offers| {
        let own = offers.own.iter().filter_map(|own| own.as_ref().ok());
        let planned = offers
            .ready
            .iter()
            .chain(own)
            .filter_map(|offer| offer.planned.as_ref().ok());
        let mut same = planned.filter(|planned| planned.plan.hash == experiment.hash);
        same.next().map(|planned| &planned.outlook)
    });
    let points = points(&experiment.comparison, outlook);
    if points.len() < 2 {
        return;
    }
    widgets::panel(ui, "", |ui| {
        let _clicked = Pareto::new("Memory against throughput", &points)
            .empty("Arms appear here once their speed and their memory have been measured")
            .show(ui, &mut view.pareto);
    });
}

/// Measured arms, and what was predicted of those whose speed and memory were.
fn points(comparison: &Comparison, outlook: Option<&Outlook>) -> Vec<ParetoPoint> {
    let measured = comparison.arms.iter().filter_map(|arm| {
        let values = |metric: Metric| -> Option<Vec<f64>> {
            let values = arm.figures.get(&metric)?.values.iter();
            Some(values.map(|value| words::scaled(metric, *value)).collect())
        };
        Some(ParetoPoint {
            name: arm.name.clone(),
            vram_gib: values(Metric::PeakBytes)?,
            tokens_per_sec: values(Metric::TokensPerSec)?,
            state: PointState::Measured,
        })
    });
    let predicted = outlook
        .into_iter()
        .flat_map(|outlook| &outlook.arms)
        .filter_map(|arm| {
            Some(ParetoPoint {
                name: format!("{}, predicted", arm.name),
                vram_gib: vec![Gib::from_bytes(arm.step_bytes?).0],
                tokens_per_sec: vec![arm.tokens_per_sec?],
                state: PointState::Predicted,
            })
        });
    measured.chain(predicted).collect()
}

/// The knobs of a sweep, the one with the largest effect first.
fn knobs_ui(experiment: &ExperimentState, view: &mut CompareView, ui: &mut Ui) {
    let Some(metric) = experiment.experiment.metrics.first().copied() else {
        return;
    };
    let found = knobs(&experiment.comparison, metric);
    // Of two arms the bars say it all, of a ladder the waterfall.
    let is_ladder = experiment.experiment.kind == Kind::Gap;
    if experiment.comparison.arms.len() < 3 || found.is_empty() || is_ladder {
        return;
    }
    let marks: Vec<Vec<KnobMark>> = found
        .iter()
        .map(|knob| {
            let points = knob.points.iter().map(|point| KnobMark {
                setting: point.setting.clone(),
                mean: words::scaled(metric, point.spread.mean),
                sd: point.spread.sd.map(|sd| words::scaled(metric, sd)),
                base: point.arm == 0,
            });
            points.collect()
        })
        .collect();
    let most = KnobChart::most(marks.iter().flatten());
    let heading = format!("{} by setting, the largest effect first", words::title(metric));
    widgets::panel(ui, &heading, |ui| {
        for (knob, marks) in found.iter().zip(&marks) {
            let view = view.knobs.entry(knob.key.clone()).or_default();
            KnobChart::new(&knob.key, unit(metric), marks, most).show(ui, view);
            widgets::caption(
                ui,
                &format!(
                    "{} times between the least and the most",
                    significant(knob.effect, 3)
                ),
            );
        }
    });
}

/// A long run over time: its speed, and on a card its heat and its clock.
fn soak_ui(experiment: &ExperimentState, view: &mut CompareView, ui: &mut Ui) {
    let Some(drift) = experiment.drift.first() else {
        return;
    };
    let mut speed = Series::new();
    for window in &drift.windows {
        // Spans follow each other; one that did not would be left out.
        let _out_of_order = speed.push(window.to_secs, window.tokens_per_sec);
    }
    let (mut heat, mut clock) = (Series::new(), Series::new());
    for point in experiment.card.first().into_iter().flatten() {
        if let Some(celsius) = point.celsius {
            let _out_of_order = heat.push(point.at_secs, celsius);
        }
        if let Some(mhz) = point.core_clock_mhz {
            let _out_of_order = clock.push(point.at_secs, mhz);
        }
    }
    widgets::panel(ui, "Over time", |ui| {
        let charts = [
            ("Speed over time", "tokens/s", &speed, true),
            ("Temperature", "°C", &heat, false),
            ("Clock", "MHz", &clock, true),
        ];
        for ((title, unit, series, from_zero), view_of) in charts.into_iter().zip(&mut view.soak) {
            if series.is_empty() {
                continue;
            }
            let mut chart = LineChart::new(title, unit)
                .line(title, series)
                .along(Along::Seconds)
                .height(140.0);
            if from_zero {
                chart = chart.from_zero();
            }
            chart.show(ui, view_of, &mut view.seconds);
        }
    });
}
