//! The values behind the chart.

use tunesmith_measure::stats;

use super::Pareto;
use crate::chart::frame::{Cell, Table, TableColumn};

impl Pareto<'_> {
    pub(super) fn table(&self) -> Table {
        let best = self.frontier();
        let number_or_none = |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Number(value, ""));
        let rows = self.points.iter().enumerate().map(|(index, point)| {
            vec![
                Cell::Text(point.name.clone()),
                number_or_none(point.vram()),
                number_or_none(point.speed()),
                number_or_none(stats::sd(&point.tokens_per_sec).ok()),
                Cell::Count(point.tokens_per_sec.len() as f64),
                Cell::Text(if best.contains(&index) {
                    format!("{}, on the frontier", point.state.words())
                } else {
                    point.state.words()
                }),
            ]
        });
        Table {
            columns: vec![
                TableColumn::words("run"),
                TableColumn::numbers("memory", "GiB"),
                TableColumn::numbers("tokens/s", ""),
                TableColumn::numbers("spread", "sd"),
                TableColumn::numbers("repeats", ""),
                TableColumn::words("state"),
            ],
            rows: rows.collect(),
            thinned: None,
        }
    }
}
