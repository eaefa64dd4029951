//! What a line chart's lines lie on, and the limits that they are held against.

use egui::{Align2, Painter, Rangef, Rect, Stroke, pos2};
use tunesmith_report::format::number;

use super::layout::Plot;
use super::{LineChart, TEXT_LINE};
use crate::chart::axis::{Along, Tick, linear_ticks, time_ticks};
use crate::chart::paint::{dashed, line_of, patched_text, place_text, plain};
use crate::theme::{self, Tokens};

impl LineChart<'_> {
    /// Shades, grid lines and their labels.
    pub(super) fn paint_ground(&self, plot: &Plot, painter: &Painter, tokens: &Tokens) {
        let area = plot.area;
        let weak = |text: &str| line_of(painter, &[plain(text, tokens.weak_text)], f32::INFINITY);
        if let Some((from, to)) = self.warm_up {
            let stretch = Rangef::new(
                plot.x.place(from).max(area.left()),
                plot.x.place(to).min(area.right()),
            );
            if stretch.span() > 0.0 {
                painter.rect_filled(Rect::from_x_y_ranges(stretch, area.y_range()), 0, tokens.faint);
                painter.vline(stretch.max, area.y_range(), Stroke::new(1.0, tokens.line));
            }
            let label = weak("warm-up");
            if label.size().x + 2.0 * theme::GRID <= stretch.span() {
                let at = pos2(stretch.min + theme::GRID, area.bottom() - 2.0);
                place_text(painter, label, at, Align2::LEFT_BOTTOM);
            }
        }
        if let Some((low, high, _)) = self.noise {
            let band = Rangef::new(
                plot.y.place(high).max(area.top()),
                plot.y.place(low).min(area.bottom()),
            );
            let colour = tokens.series(self.lines.first().map_or(0, |line| line.place));
            painter.rect_filled(
                Rect::from_x_y_ranges(area.x_range(), band),
                0,
                colour.gamma_multiply(0.14),
            );
        }
        for (value, label) in &plot.y_ticks {
            let y = painter.round_to_pixel_center(plot.y.place(*value));
            painter.hline(area.x_range(), y, Stroke::new(1.0, tokens.grid));
            let at = pos2(area.left() - 2.0 * theme::GRID, y);
            place_text(painter, label.clone(), at, Align2::RIGHT_CENTER);
        }
        let below = area.bottom() + theme::GRID;
        painter.hline(
            area.x_range(),
            painter.round_to_pixel_center(area.bottom()),
            Stroke::new(1.0, tokens.control_line),
        );
        let name = weak(self.along.name());
        let name = place_text(painter, name, pos2(area.right(), below), Align2::RIGHT_TOP);
        let about = (area.width() / 72.0).round().max(2.0) as usize;
        let ticks = match self.along {
            Along::Steps => linear_ticks(plot.x.low, plot.x.high, about),
            Along::Seconds => time_ticks(plot.x.low, plot.x.high, about),
        };
        for Tick { value, label } in ticks {
            if self.along == Along::Steps && value.fract() != 0.0 {
                continue;
            }
            let x = painter.round_to_pixel_center(plot.x.place(value));
            let label = weak(&label);
            let half = label.size().x / 2.0;
            painter.vline(
                x,
                Rangef::new(area.bottom(), area.bottom() + 3.0),
                Stroke::new(1.0, tokens.control_line),
            );
            if x + half + 2.0 * theme::GRID < name.left() {
                place_text(painter, label, pos2(x, below), Align2::CENTER_TOP);
            }
        }
    }

    /// Dashed lines with their names, over the lines, since a limit is what a line is held against.
    pub(super) fn paint_references(&self, plot: &Plot, painter: &Painter, tokens: &Tokens) {
        let area = plot.area;
        let label = |text: &str| {
            line_of(
                painter,
                &[plain(text, tokens.text)],
                area.width() - 4.0 * theme::GRID,
            )
        };
        for &(value, name) in &self.references {
            let y = painter.round_to_pixel_center(plot.y.place(value));
            if !area.y_range().expand(1.0).contains(y) {
                continue;
            }
            dashed(
                painter,
                pos2(area.left(), y),
                pos2(area.right(), y),
                tokens.weak_text,
            );
            let galley = label(format!("{name} {} {}", number(value), self.unit).trim_end());
            let (at, anchor) = if y - galley.size().y < area.top() {
                (pos2(area.right() - theme::GRID, y + 3.0), Align2::RIGHT_TOP)
            } else {
                (pos2(area.right() - theme::GRID, y - 2.0), Align2::RIGHT_BOTTOM)
            };
            patched_text(painter, galley, at, anchor, tokens.panel.gamma_multiply(0.85));
        }
        if let Some((_, high, name)) = self.noise {
            let y = plot.y.place(high).max(area.top() + TEXT_LINE);
            let at = pos2(area.left() + theme::GRID, y - 1.0);
            place_text(
                painter,
                line_of(painter, &[plain(name, tokens.weak_text)], 200.0),
                at,
                Align2::LEFT_BOTTOM,
            );
        }
    }
}
