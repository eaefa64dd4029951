//! Marks over the lines, for what a line cannot show.

use egui::{Painter, Rangef, Stroke, pos2};

use super::Line;
use super::layout::Plot;
use crate::chart::paint::{Shaped, mark};
use crate::chart::series::MarkKind;
use crate::theme::{self, Tokens, Tone};

/// Marks are no closer than this, in points.
const BETWEEN_MARKS: f32 = 8.0;

impl Plot {
    /// Marks of steps without a number at the top, of invalid ones at their value, and, where the axis is logarithmic,
    /// of values that it cannot show at the bottom.
    pub(super) fn paint_marks(&self, line: &Line, painter: &Painter, tokens: &Tokens) {
        let columns = (self.area.width() / BETWEEN_MARKS).max(1.0) as usize;
        let (low, high) = (self.x.low, self.x.high);
        let (stop, warn) = (tokens.tone(Tone::Stop).text, tokens.tone(Tone::Warn).text);
        let series = line.series;
        let top = self.area.top() + 1.5 * theme::GRID;
        for found in series.marks(MarkKind::NotFinite, low, high, columns) {
            let Some((x, _)) = series.get(found.first) else {
                continue;
            };
            let x = self.x.place(x);
            painter.vline(
                x,
                Rangef::new(top, self.area.bottom()),
                Stroke::new(1.0, stop.gamma_multiply(0.35)),
            );
            mark(painter, Shaped::Cross, pos2(x, top), 3.5, stop, tokens.panel);
        }
        for found in series.marks(MarkKind::Invalid, low, high, columns) {
            let Some((x, y)) = series.get(found.first).filter(|(_, y)| y.is_finite()) else {
                continue;
            };
            let at = pos2(self.x.place(x), self.y.place_or_low(y));
            mark(painter, Shaped::HollowDiamond, at, 4.5, warn, tokens.panel);
        }
        if self.log && series.span(series.between(low, high)).least <= 0.0 {
            for point in series.thinned(low, high, columns) {
                if point.y <= 0.0 {
                    let at = pos2(self.x.place(point.x), self.area.bottom() - 5.0);
                    mark(painter, Shaped::Down, at, 4.0, warn, tokens.panel);
                }
            }
        }
    }
}
