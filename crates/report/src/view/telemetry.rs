//! Temperature, clock and power over the time of a training (S6, M20), as the card's sensors told them.

use serde::Serialize;
use tunesmith_measure::Gib;

use super::ChartView;
use crate::draw::{ChartPoint, LineChart};
use crate::format::{duration, number};
use crate::record::{Telemetry, TelemetryPoint};

#[derive(Serialize)]
pub(super) struct TelemetryView {
    sentence: String,
    charts: Vec<ChartView>,
}

impl TelemetryView {
    /// `None` without a sample that tells anything.
    pub(super) fn of(telemetry: &Telemetry) -> Option<Self> {
        let points = &telemetry.points;
        let charts: Vec<ChartView> = [
            chart(points, "Temperature", "°C, hottest sensor", |point| {
                point.celsius
            }),
            chart(points, "Clock", "MHz, compute units", |point| point.core_mhz),
            chart(points, "Power", "W", |point| point.watts),
            chart(points, "Load", "% busy", |point| point.load_percent),
            chart(points, "Card memory in use", "GiB, by everyone", |point| {
                point.vram_bytes.map(|bytes| Gib::from_bytes(bytes).0)
            }),
        ]
        .into_iter()
        .flatten()
        .collect();
        let last = points.last()?;
        if charts.is_empty() {
            return None;
        }
        let hottest = points.iter().filter_map(|point| point.celsius).reduce(f64::max);
        let clocks = || points.iter().filter_map(|point| point.core_mhz);
        let hot = hottest.map_or_else(String::new, |celsius| {
            format!(" The hottest sensor reached {} °C.", number(celsius))
        });
        let clock = match (clocks().reduce(f64::min), clocks().reduce(f64::max)) {
            (Some(low), Some(high)) => {
                format!(" The clock ran between {} and {} MHz.", number(low), number(high))
            }
            _ => String::new(),
        };
        Some(Self {
            sentence: format!(
                "The card was read over {}, once a second at most.{hot}{clock}",
                duration(last.at_secs)
            ),
            charts,
        })
    }
}

fn chart(
    points: &[TelemetryPoint],
    title: &str,
    unit: &str,
    value: fn(&TelemetryPoint) -> Option<f64>,
) -> Option<ChartView> {
    let values: Vec<f64> = points.iter().filter_map(value).collect();
    let points: Vec<ChartPoint> = points
        .iter()
        .map(|point| ChartPoint {
            step: point.at_secs.max(0.0) as u64,
            value: value(point),
            fault: None,
        })
        .collect();
    let svg = LineChart {
        title,
        unit,
        along: "second",
        points: &points,
        warm_up_until: None,
        reference: None,
        from_zero: true,
    }
    .svg()?;
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(*value), high.max(*value))
        });
    Some(ChartView {
        title: title.to_owned(),
        said: format!("{} to {}", number(low), number(high)),
        svg: Some(svg),
    })
}
