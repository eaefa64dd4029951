//! Bars of what was measured, against what each is held against.

use std::sync::Arc;

use egui::{Align2, CornerRadius, Galley, Painter, Rangef, Rect, Stroke, Ui, pos2};
use tunesmith_report::format::{number, percent, significant};

use crate::chart::ChartView;
use crate::chart::frame::{Cell, Framed, Table, TableColumn};
use crate::chart::paint::{Piece, line_of, place_text, plain, strong};
use crate::theme::{self, Tokens, tokens};

/// Height of a bar, in points.
const BAR: f32 = 3.0 * theme::GRID;

/// A measured value beside the one that it is held against.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar<'a> {
    /// What was measured.
    pub label: &'a str,
    /// Measured; `None` where it was not.
    pub value: Option<f64>,
    /// What it is held against, such as the figure of a spec sheet; `None` where there is none.
    pub reference: Option<f64>,
}

impl Bar<'_> {
    /// Measured over reference, where there are both.
    fn share(&self) -> Option<f64> {
        let reference = finite(self.reference).filter(|reference| *reference > 0.0)?;
        Some(finite(self.value)? / reference)
    }
}

/// Bars of one unit and one scale.
#[must_use = "it is drawn by `show`"]
pub struct Bars<'a> {
    title: &'a str,
    unit: &'a str,
    against: &'a str,
    rows: &'a [Bar<'a>],
    empty: &'a str,
}

impl<'a> Bars<'a> {
    /// Bars under a title that is unique on its page. `against` names what the references are: `spec sheet`.
    pub fn new(title: &'a str, unit: &'a str, against: &'a str, bars: &'a [Bar<'a>]) -> Self {
        Self {
            title,
            unit,
            against,
            rows: bars,
            empty: "Nothing has been measured yet",
        }
    }

    /// What is said while there are no bars.
    pub fn empty(mut self, text: &'a str) -> Self {
        self.empty = text;
        self
    }

    /// The bars in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        if self.rows.is_empty() {
            return self.empty.to_owned();
        }
        let unit = self.unit;
        let told = self.rows.iter().map(|bar| {
            let Some(value) = finite(bar.value) else {
                return format!("{} is not measured", bar.label);
            };
            let value = figure(value);
            match (finite(bar.reference), bar.share()) {
                (Some(reference), Some(share)) => {
                    let (reference, share) = (figure(reference), percent(share));
                    format!("{} reaches {value} of {reference} {unit} ({share})", bar.label)
                }
                _ => format!("{} is {value} {unit}", bar.label),
            }
        });
        told.collect::<Vec<String>>().join("; ")
    }

    /// Draws them.
    pub fn show(&self, ui: &mut Ui, view: &mut ChartView) {
        let summary = self.summary();
        let rows = self.rows.len().max(2) as f32;
        let against = format!("{}, against the {}", self.unit, self.against);
        let with_reference = self.rows.iter().any(|bar| bar.reference.is_some());
        let framed = Framed {
            title: self.title,
            unit: if with_reference { &against } else { self.unit },
            summary: &summary,
            empty: self.rows.is_empty(),
            height: if view.table {
                (rows + 2.0) * theme::ROW
            } else {
                rows * theme::ROW
            },
        };
        framed.show(ui, view, || self.table(), |ui, _| self.bars_ui(ui));
    }

    fn bars_ui(&self, ui: &Ui) {
        let tokens = tokens(ui);
        let painter = ui.painter();
        let space = ui.max_rect();
        let line = |pieces: &[Piece]| line_of(painter, pieces, f32::INFINITY);
        let labels = self.rows.iter().map(|bar| {
            let widest = space.width() * 0.36;
            line_of(painter, &[plain(bar.label, tokens.text)], widest)
        });
        let figures = self
            .rows
            .iter()
            .map(|bar| match (finite(bar.value), finite(bar.reference)) {
                (None, _) => line(&[plain("not measured", tokens.weak_text)]),
                (Some(value), None) => line(&[strong(&figure(value), tokens.strong_text)]),
                (Some(value), Some(reference)) => {
                    let rest = format!(" of {}", figure(reference));
                    line(&[
                        strong(&figure(value), tokens.strong_text),
                        plain(&rest, tokens.weak_text),
                    ])
                }
            });
        let shares = self.rows.iter().map(|bar| {
            let share = bar.share().map_or_else(String::new, percent);
            line(&[plain(&share, tokens.text)])
        });
        let (labels, figures, shares): (Vec<_>, Vec<_>, Vec<_>) =
            (labels.collect(), figures.collect(), shares.collect());
        let column = |of: &[Arc<Galley>]| {
            let widest = of.iter().map(|text| text.size().x).fold(0.0, f32::max);
            if widest > 0.0 {
                widest + 4.0 * theme::GRID
            } else {
                0.0
            }
        };
        let figures_end = space.right() - column(&shares);
        let track = Rangef::new(space.left() + column(&labels), figures_end - column(&figures));
        let all = self
            .rows
            .iter()
            .flat_map(|bar| [finite(bar.value), finite(bar.reference)]);
        let most = all.flatten().fold(0.0, f64::max);
        for (row, bar) in self.rows.iter().enumerate() {
            let y = space.top() + theme::ROW * (row as f32 + 0.5);
            place_text(
                painter,
                labels[row].clone(),
                pos2(space.left(), y),
                Align2::LEFT_CENTER,
            );
            place_text(
                painter,
                figures[row].clone(),
                pos2(figures_end, y),
                Align2::RIGHT_CENTER,
            );
            place_text(
                painter,
                shares[row].clone(),
                pos2(space.right(), y),
                Align2::RIGHT_CENTER,
            );
            if track.span() > 4.0 && most > 0.0 {
                paint_bar(bar, track, most, y, painter, tokens);
            }
        }
    }

    fn table(&self) -> Table {
        let cell = |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Number(value, ""));
        Table {
            columns: vec![
                TableColumn::words("what"),
                TableColumn::numbers("measured", self.unit),
                TableColumn::numbers(self.against, self.unit),
            ],
            rows: self
                .rows
                .iter()
                .map(|bar| {
                    vec![
                        Cell::Text(bar.label.to_owned()),
                        cell(bar.value),
                        cell(bar.reference),
                    ]
                })
                .collect(),
            thinned: None,
        }
    }
}

/// The track reaches to the reference, which a line ends; a value beyond it runs on past that line.
fn paint_bar(bar: &Bar, track: Rangef, most: f64, y: f32, painter: &Painter, tokens: &Tokens) {
    let place = |value: f64| track.min + track.span() * (value / most).clamp(0.0, 1.0) as f32;
    let along = |to: f32, half: f32| {
        Rect::from_x_y_ranges(Rangef::new(track.min, to), Rangef::new(y - half, y + half))
    };
    let corner = CornerRadius::same(3);
    if let Some(reference) = finite(bar.reference) {
        painter.rect_filled(along(place(reference), BAR / 2.0), corner, tokens.grid);
    }
    match finite(bar.value) {
        Some(value) => {
            painter.rect_filled(
                along(place(value).max(track.min + 2.0), BAR / 2.0),
                corner,
                tokens.accent,
            );
        }
        None if bar.reference.is_none() => {
            painter.hline(track, y, Stroke::new(1.0, tokens.line));
        }
        None => {}
    }
    if let Some(reference) = finite(bar.reference) {
        let x = painter.round_to_pixel_center(place(reference));
        let line = Stroke::new(2.0, tokens.strong_text);
        painter.vline(x, Rangef::new(y - BAR / 2.0 - 3.0, y + BAR / 2.0 + 3.0), line);
    }
}

/// A figure beside another one, which it may be close to: with a decimal above 100 too.
fn figure(value: f64) -> String {
    if value.abs() < 100.0 {
        number(value)
    } else {
        significant(value, 4)
    }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_say_the_share_of_the_promise() {
        let bars = [
            Bar {
                label: "Matrix product",
                value: Some(101.5),
                reference: Some(122.8),
            },
            Bar {
                label: "4-bit",
                value: None,
                reference: None,
            },
            Bar {
                label: "Attention",
                value: Some(40.0),
                reference: None,
            },
        ];
        assert_eq!(
            Bars::new("Peaks", "TFLOPS", "spec sheet", &bars).summary(),
            "Matrix product reaches 101.5 of 122.8 TFLOPS (82.7 %); 4-bit is not measured; Attention is 40.0 TFLOPS"
        );
    }
}
