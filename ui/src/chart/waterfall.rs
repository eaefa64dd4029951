//! A waterfall: from a peak down, a row for each level, filled as far as it reaches, and pale from there to the level
//! before: what was lost on the way. The pale parts of all rows lie end to end over the whole gap.

use std::sync::Arc;

use egui::{Align2, CornerRadius, Galley, Painter, Rangef, Rect, Response, Stroke, StrokeKind, Ui, pos2};
use tunesmith_report::format::{number, percent};

use super::ChartView;
use super::frame::{Cell, Framed, Table, TableColumn};
use super::paint::{dashed, line_of, place_text, plain, strong};
use crate::theme::{self, Tokens, tokens};

/// Height of a bar, in points.
const BAR: f32 = 4.0 * theme::GRID;
/// Height of a row.
const ROW: f32 = 9.0 * theme::GRID;

/// A level of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct WaterfallLevel<'a> {
    /// Its name.
    pub label: &'a str,
    /// How far it reaches.
    pub reached: f64,
}

/// A peak with the levels below it, on one scale from zero.
#[must_use = "it is drawn by `show`"]
pub struct Waterfall<'a> {
    title: &'a str,
    unit: &'a str,
    peak: WaterfallLevel<'a>,
    levels: &'a [WaterfallLevel<'a>],
}

impl<'a> Waterfall<'a> {
    /// A waterfall under a title that is unique on its page.
    pub fn new(
        title: &'a str,
        unit: &'a str,
        peak: WaterfallLevel<'a>,
        levels: &'a [WaterfallLevel<'a>],
    ) -> Self {
        Self {
            title,
            unit,
            peak,
            levels,
        }
    }

    /// The peak, then the levels, each with the one before.
    fn rows(&self) -> impl Iterator<Item = (&WaterfallLevel<'a>, Option<f64>)> {
        let before = [None, Some(self.peak.reached)]
            .into_iter()
            .chain(self.levels.iter().map(|level| Some(level.reached)));
        [&self.peak].into_iter().chain(self.levels).zip(before)
    }

    fn is_empty(&self) -> bool {
        let finite = self.rows().all(|(level, _)| level.reached.is_finite());
        self.levels.is_empty() || !finite || self.peak.reached <= 0.0
    }

    /// The waterfall in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        if self.is_empty() {
            return "No level has been measured yet".to_owned();
        }
        let told = self.rows().map(|(level, before)| match before {
            None => format!("{} {} {}", level.label, number(level.reached), self.unit),
            Some(before) => format!(
                "{} {}, {}",
                level.label,
                number(level.reached),
                lost_words(before - level.reached)
            ),
        });
        told.collect::<Vec<String>>().join("; ")
    }

    /// Draws it.
    pub fn show(&self, ui: &mut Ui, view: &mut ChartView) {
        let summary = self.summary();
        let rows = self.levels.len() as f32 + 1.0;
        let framed = Framed {
            title: self.title,
            unit: self.unit,
            summary: &summary,
            empty: self.is_empty(),
            height: if view.table {
                (rows + 2.0) * theme::ROW
            } else {
                rows * ROW
            },
        };
        framed.show(
            ui,
            view,
            || self.table(),
            |ui, response| self.rows_ui(ui, response),
        );
    }

    fn rows_ui(&self, ui: &Ui, response: &Response) {
        let tokens = tokens(ui);
        let painter = ui.painter();
        let space = ui.max_rect();
        let widest = space.width() * 0.34;
        let labels: Vec<Arc<Galley>> = self
            .rows()
            .map(|(level, _)| line_of(painter, &[plain(level.label, tokens.text)], widest))
            .collect();
        let figures: Vec<Arc<Galley>> = self
            .rows()
            .map(|(level, before)| {
                let reached = number(level.reached);
                let lost = before.map_or_else(String::new, |before| {
                    format!("  {}", lost_words(before - level.reached))
                });
                let pieces = [
                    strong(&reached, tokens.strong_text),
                    plain(&lost, tokens.weak_text),
                ];
                line_of(painter, &pieces, f32::INFINITY)
            })
            .collect();
        let width = |of: &[Arc<Galley>]| of.iter().map(|text| text.size().x).fold(0.0, f32::max);
        let gap = 4.0 * theme::GRID;
        let track = Rangef::new(
            space.left() + width(&labels) + gap,
            space.right() - width(&figures) - gap,
        );
        let most = self.rows().map(|(level, _)| level.reached).fold(0.0, f64::max);
        for (index, (level, before)) in self.rows().enumerate() {
            let y = space.top() + ROW * (index as f32 + 0.5);
            let label_at = pos2(space.left(), y);
            place_text(painter, labels[index].clone(), label_at, Align2::LEFT_CENTER);
            let figure_at = pos2(space.right(), y);
            place_text(painter, figures[index].clone(), figure_at, Align2::RIGHT_CENTER);
            if track.span() > 8.0 && most > 0.0 {
                paint_row(level.reached, before, track, most, y, painter, tokens);
            }
        }
        let pointed = response.hover_pos().and_then(|pointer| {
            let index = ((pointer.y - space.top()) / ROW).floor();
            (index >= 0.0).then(|| self.rows().nth(index as usize)).flatten()
        });
        if let Some((level, before)) = pointed {
            response
                .clone()
                .on_hover_text_at_pointer(self.pointed(level, before));
        }
    }

    /// What is told of a row under the pointer.
    fn pointed(&self, level: &WaterfallLevel<'_>, before: Option<f64>) -> String {
        let share = percent(level.reached / self.peak.reached);
        let lost = before.map_or_else(String::new, |before| {
            format!(", {}", lost_words(before - level.reached))
        });
        format!(
            "{}: {} {}, {share} of the peak{lost}",
            level.label,
            number(level.reached),
            self.unit
        )
    }

    fn table(&self) -> Table {
        Table {
            columns: vec![
                TableColumn::words("level"),
                TableColumn::numbers("reached", self.unit),
                TableColumn::numbers("of the peak", "%"),
                TableColumn::numbers("lost", self.unit),
            ],
            rows: self
                .rows()
                .map(|(level, before)| {
                    let share = 100.0 * level.reached / self.peak.reached;
                    let lost = before.map(|before| before - level.reached);
                    vec![
                        Cell::Text(level.label.to_owned()),
                        Cell::Number(level.reached, ""),
                        Cell::Number(share, ""),
                        lost.map_or(Cell::Empty, |lost| Cell::Number(lost, "")),
                    ]
                })
                .collect(),
            thinned: None,
        }
    }
}

/// `40.0 lost`, or `3.00 more` where a level is faster than the one before.
fn lost_words(lost: f64) -> String {
    if lost < 0.0 {
        format!("{} more", number(-lost))
    } else {
        format!("{} lost", number(lost))
    }
}

/// Filled to where the level reaches; what it lost is pale with a line around it, so that it is told from the rest without
/// colour, and a dashed line leads down to it from the end of the bar above.
fn paint_row(
    reached: f64,
    before: Option<f64>,
    track: Rangef,
    most: f64,
    y: f32,
    painter: &Painter,
    tokens: &Tokens,
) {
    let place = |value: f64| track.min + track.span() * (value / most).clamp(0.0, 1.0) as f32;
    let between = |from: f32, to: f32| {
        Rect::from_x_y_ranges(Rangef::new(from, to), Rangef::new(y - BAR / 2.0, y + BAR / 2.0))
    };
    let corner = CornerRadius::same(3);
    let end = place(reached).max(track.min + 2.0);
    painter.rect_filled(between(track.min, end), corner, tokens.accent);
    let Some(before) = before else { return };
    let (from, to) = (end.min(place(before)), end.max(place(before)));
    let part = between(from, to);
    if reached < before {
        painter.rect_filled(part, 0, tokens.grid);
    }
    painter.rect_stroke(part, 0, Stroke::new(1.0, tokens.weak_text), StrokeKind::Inside);
    let x = painter.round_to_pixel_center(place(before));
    let above = y - ROW + BAR / 2.0;
    dashed(painter, pos2(x, above), pos2(x, y - BAR / 2.0), tokens.weak_text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(label: &str, reached: f64) -> WaterfallLevel<'_> {
        WaterfallLevel { label, reached }
    }

    #[test]
    fn a_sentence_tells_each_level_with_its_loss() {
        let levels = [
            level("products", 70.0),
            level("training", 40.0),
            level("again", 43.0),
        ];
        let chart = Waterfall::new("Ladder", "TFLOPS", level("peak", 100.0), &levels);
        assert_eq!(
            chart.summary(),
            "peak 100 TFLOPS; products 70.0, 30.0 lost; training 40.0, 30.0 lost; again 43.0, 3.00 more"
        );
        assert_eq!(
            chart.table().to_tsv(),
            "level\treached (TFLOPS)\tof the peak (%)\tlost (TFLOPS)\npeak\t100\t100\t\nproducts\t70\t70\t30\ntraining\t40\t40\t30\nagain\t43\t43\t-3\n"
        );
        assert_eq!(
            chart.pointed(&levels[0], Some(100.0)),
            "products: 70.0 TFLOPS, 70.0 % of the peak, 30.0 lost"
        );
    }

    fn summary(peak: f64, levels: &[WaterfallLevel<'_>]) -> String {
        Waterfall::new("Ladder", "TFLOPS", level("peak", peak), levels).summary()
    }

    #[test]
    fn without_a_peak_or_a_level_it_says_so() {
        let none = "No level has been measured yet";
        assert_eq!(summary(1.0, &[]), none);
        assert_eq!(summary(1.0, &[level("a", f64::NAN)]), none);
        assert_eq!(summary(0.0, &[level("a", 1.0)]), none);
    }
}
