//! Bars with their spread: a bar to the mean, a whisker of one standard deviation to either side, and a dot for every run,
//! so that nobody takes a lone number for a finding.

use std::sync::Arc;

use egui::{Align2, CornerRadius, Galley, Painter, Rangef, Rect, Response, Stroke, Ui, pos2};
use tunesmith_measure::stats;
use tunesmith_report::format::{number, plural, significant};

use super::ChartView;
use super::frame::{Cell, Framed, Table, TableColumn};
use super::paint::{line_of, place_text, plain, strong};
use crate::theme::{self, Tokens, tokens};

/// Height of a bar, in points.
const BAR: f32 = 4.0 * theme::GRID;
/// Height of a row.
const ROW: f32 = 9.0 * theme::GRID;
/// Radius of a run's dot.
const DOT: f32 = 3.0;

/// One set-up with all its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct SpreadBar {
    /// Its name.
    pub label: String,
    /// The value of every run that counts; none where no run is over.
    pub values: Vec<f64>,
    /// Number of its colour.
    pub series: usize,
}

impl SpreadBar {
    fn mean(&self) -> Option<f64> {
        stats::mean(&self.values).ok()
    }

    fn sd(&self) -> Option<f64> {
        stats::sd(&self.values).ok()
    }

    /// `129 ± 2.6`.
    fn words(&self) -> Option<String> {
        let mean = number(self.mean()?);
        Some(match self.sd() {
            Some(sd) => format!("{mean} ± {}", spread_words(sd)),
            None => mean,
        })
    }
}

/// Two digits are enough of a spread, and what is next to nothing is said to be so.
fn spread_words(sd: f64) -> String {
    match sd {
        sd if sd <= 0.0 => "0".to_owned(),
        sd if sd < 0.001 => "less than 0.001".to_owned(),
        sd => significant(sd, 2),
    }
}

/// Several set-ups by one figure, on one scale from zero.
#[must_use = "it is drawn by `show`"]
pub struct SpreadBars<'a> {
    title: &'a str,
    unit: &'a str,
    rows: &'a [SpreadBar],
}

impl<'a> SpreadBars<'a> {
    /// Bars under a title that is unique on its page.
    pub fn new(title: &'a str, unit: &'a str, rows: &'a [SpreadBar]) -> Self {
        Self { title, unit, rows }
    }

    /// The bars in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        if self.rows.iter().all(|row| row.values.is_empty()) {
            return "No run is over yet".to_owned();
        }
        let told = self.rows.iter().map(|row| match row.words() {
            Some(words) => format!(
                "{} {words} {} over {}",
                row.label,
                self.unit,
                plural(row.values.len() as u64, "run")
            ),
            None => format!("{} has no run yet", row.label),
        });
        told.collect::<Vec<String>>().join("; ")
    }

    /// Draws them.
    pub fn show(&self, ui: &mut Ui, view: &mut ChartView) {
        let summary = self.summary();
        let rows = self.rows.len().max(1) as f32;
        let framed = Framed {
            title: self.title,
            unit: self.unit,
            summary: &summary,
            empty: self.rows.iter().all(|row| row.values.is_empty()),
            height: if view.table {
                (rows + 2.0) * theme::ROW
            } else {
                (rows * ROW).max(2.0 * theme::ROW)
            },
        };
        framed.show(
            ui,
            view,
            || self.table(),
            |ui, response| self.bars_ui(ui, response),
        );
    }

    fn bars_ui(&self, ui: &Ui, response: &Response) {
        let tokens = tokens(ui);
        let painter = ui.painter();
        let space = ui.max_rect();
        let labels: Vec<Arc<Galley>> = self
            .rows
            .iter()
            .map(|row| line_of(painter, &[plain(&row.label, tokens.text)], space.width() * 0.3))
            .collect();
        let figures: Vec<Arc<Galley>> = self
            .rows
            .iter()
            .map(|row| match row.words() {
                Some(words) => line_of(painter, &[strong(&words, tokens.strong_text)], f32::INFINITY),
                None => line_of(painter, &[plain("no run yet", tokens.weak_text)], f32::INFINITY),
            })
            .collect();
        let widest = |of: &[Arc<Galley>]| of.iter().map(|text| text.size().x).fold(0.0, f32::max);
        let gap = 4.0 * theme::GRID;
        let track = Rangef::new(
            space.left() + widest(&labels) + gap,
            space.right() - widest(&figures) - gap,
        );
        let most = self
            .rows
            .iter()
            .flat_map(|row| {
                let high = row.mean().map(|mean| mean + row.sd().unwrap_or(0.0));
                row.values.iter().copied().chain(high)
            })
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
        for (index, row) in self.rows.iter().enumerate() {
            let y = space.top() + ROW * (index as f32 + 0.5);
            let label_at = pos2(space.left(), y);
            place_text(painter, labels[index].clone(), label_at, Align2::LEFT_CENTER);
            let figure_at = pos2(space.right(), y);
            place_text(painter, figures[index].clone(), figure_at, Align2::RIGHT_CENTER);
            if track.span() > 8.0 && most > 0.0 {
                paint_row(row, track, most, y, painter, tokens);
            }
        }
        let row = response.hover_pos().and_then(|pointer| {
            let index = ((pointer.y - space.top()) / ROW).floor();
            (index >= 0.0).then(|| self.rows.get(index as usize)).flatten()
        });
        if let Some(row) = row.filter(|row| !row.values.is_empty()) {
            let values: Vec<String> = row.values.iter().map(|value| number(*value)).collect();
            let text = format!("{}: {} {}", row.label, values.join(", "), self.unit);
            response.clone().on_hover_text_at_pointer(text);
        }
    }

    fn table(&self) -> Table {
        let number = |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Number(value, ""));
        let least = |row: &SpreadBar| row.values.iter().copied().reduce(f64::min);
        let most = |row: &SpreadBar| row.values.iter().copied().reduce(f64::max);
        Table {
            columns: vec![
                TableColumn::words("arm"),
                TableColumn::numbers("runs", ""),
                TableColumn::numbers("mean", self.unit),
                TableColumn::numbers("sd", self.unit),
                TableColumn::numbers("least", self.unit),
                TableColumn::numbers("most", self.unit),
            ],
            rows: self
                .rows
                .iter()
                .map(|row| {
                    vec![
                        Cell::Text(row.label.clone()),
                        Cell::Count(row.values.len() as f64),
                        number(row.mean()),
                        number(row.sd()),
                        number(least(row)),
                        number(most(row)),
                    ]
                })
                .collect(),
            thinned: None,
        }
    }
}

fn paint_row(row: &SpreadBar, track: Rangef, most: f64, y: f32, painter: &Painter, tokens: &Tokens) {
    let place = |value: f64| track.min + track.span() * (value / most).clamp(0.0, 1.0) as f32;
    let along = |to: f32| {
        Rect::from_x_y_ranges(
            Rangef::new(track.min, to),
            Rangef::new(y - BAR / 2.0, y + BAR / 2.0),
        )
    };
    let corner = CornerRadius::same(3);
    painter.rect_filled(along(track.max), corner, tokens.grid);
    let Some(mean) = row.mean().filter(|mean| mean.is_finite()) else {
        return;
    };
    let colour = tokens.series(row.series);
    painter.rect_filled(along(place(mean).max(track.min + 2.0)), corner, colour);
    for value in row.values.iter().filter(|value| value.is_finite()) {
        let ring = Stroke::new(1.2, tokens.panel);
        painter.circle(pos2(place(*value), y), DOT, tokens.strong_text, ring);
    }
    if let Some(sd) = row.sd() {
        let ends = Rangef::new(place(mean - sd), place(mean + sd));
        let line = Stroke::new(1.6, tokens.strong_text);
        painter.hline(ends, y, line);
        for x in [ends.min, ends.max] {
            painter.vline(x, Rangef::new(y - BAR / 2.0 - 2.0, y + BAR / 2.0 + 2.0), line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_tells_mean_spread_and_runs_and_who_has_none() {
        let bars = [
            SpreadBar {
                label: "plain".to_owned(),
                values: vec![100.0, 102.0, 98.0],
                series: 0,
            },
            SpreadBar {
                label: "nf4".to_owned(),
                values: vec![60.0],
                series: 1,
            },
            SpreadBar {
                label: "nf4, packed".to_owned(),
                values: Vec::new(),
                series: 2,
            },
        ];
        assert_eq!(
            SpreadBars::new("Speed", "tokens/s", &bars).summary(),
            "plain 100 ± 2.0 tokens/s over 3 runs; nf4 60.0 tokens/s over 1 run; nf4, packed has no run yet"
        );
        assert_eq!(spread_words(5.6e-4), "less than 0.001");
        let table = SpreadBars::new("Speed", "tokens/s", &bars).table().to_tsv();
        assert!(table.contains("plain\t3\t100\t2\t98\t102\n"), "{table}");
        assert!(table.contains("nf4, packed\t0\t\t\t\t\n"), "{table}");
        assert_eq!(
            SpreadBars::new("Speed", "tokens/s", &[]).summary(),
            "No run is over yet"
        );
    }
}
