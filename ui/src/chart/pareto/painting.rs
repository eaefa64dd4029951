//! The frontier, the points with their spread, and the names that find room.

use egui::{Align2, Painter, Pos2, Rangef, Rect, Stroke, pos2, vec2};
use tunesmith_measure::stats;

use super::layout::Plot;
use super::{Pareto, ParetoPoint, PointState, RADIUS};
use crate::chart::paint::{Shaped, dashed, line_of, mark, place_text, plain, strong};
use crate::theme::{self, Tokens, Tone};

/// Widest name beside a point, in points.
const WIDEST_NAME: f32 = 150.0;

impl Pareto<'_> {
    /// Steps: with so much memory this is the fastest that there is.
    pub(super) fn paint_frontier(&self, plot: &Plot, best: &[usize], painter: &Painter, tokens: &Tokens) {
        let stroke = Stroke::new(1.8, tokens.control_line_strong);
        let places: Vec<Pos2> = best
            .iter()
            .filter_map(|&index| plot.place(&self.points[index]))
            .collect();
        let mut steps = Vec::new();
        for (place, at) in places.iter().enumerate() {
            if place > 0 {
                steps.push(pos2(at.x, places[place - 1].y));
            }
            steps.push(*at);
        }
        if let Some(last) = places.last() {
            dashed(
                painter,
                *last,
                pos2(plot.area.right(), last.y),
                tokens.control_line,
            );
            painter.line(steps, stroke);
        }
    }

    pub(super) fn paint_point(
        &self,
        plot: &Plot,
        index: usize,
        point: &ParetoPoint,
        painter: &Painter,
        tokens: &Tokens,
    ) {
        let Some(at) = plot.place(point) else { return };
        let colour = self.colour(index, tokens);
        let bar = Stroke::new(1.3, colour.gamma_multiply(0.8));
        // A whisker may be longer than all values together, and ends at the chart's edge then.
        let whiskers = painter.with_clip_rect(plot.area.intersect(painter.clip_rect()));
        if let (Some(speed), Ok(sd)) = (point.speed(), stats::sd(&point.tokens_per_sec)) {
            let ends = Rangef::new(plot.y.place(speed + sd), plot.y.place(speed - sd));
            whiskers.vline(at.x, ends, bar);
            for y in [ends.min, ends.max] {
                whiskers.hline(Rangef::new(at.x - 3.5, at.x + 3.5), y, bar);
            }
        }
        if let (Some(vram), Ok(sd)) = (point.vram(), stats::sd(&point.vram_gib))
            && sd > 0.0
        {
            let ends = Rangef::new(plot.x.place(vram - sd), plot.x.place(vram + sd));
            whiskers.hline(ends, at.y, bar);
            for x in [ends.min, ends.max] {
                whiskers.vline(x, Rangef::new(at.y - 3.5, at.y + 3.5), bar);
            }
        }
        let (shape, colour) = match point.state {
            PointState::Measured => (Shaped::Disc, colour),
            PointState::Predicted => (Shaped::Ring, colour),
            PointState::Invalid(_) => (Shaped::HollowDiamond, tokens.tone(Tone::Warn).text),
            PointState::Failed(_) => (Shaped::Cross, tokens.tone(Tone::Stop).text),
        };
        let radius = if self.current == Some(index) {
            RADIUS + 1.5
        } else {
            RADIUS
        };
        mark(painter, shape, at, radius, colour, tokens.panel);
    }

    fn colour(&self, index: usize, tokens: &Tokens) -> egui::Color32 {
        if self.current == Some(index) {
            tokens.accent
        } else {
            tokens.series(1)
        }
    }

    /// Names beside the points where they cover nothing: the current one first, then those on the frontier, then the
    /// others.
    pub(super) fn paint_names(&self, plot: &Plot, best: &[usize], painter: &Painter, tokens: &Tokens) {
        let around = |at: Pos2| Rect::from_center_size(at, egui::Vec2::splat(2.0 * RADIUS + 2.0));
        let mut taken: Vec<Rect> = self
            .points
            .iter()
            .filter_map(|point| plot.place(point))
            .map(around)
            .collect();
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        order.sort_by_key(|index| (self.current != Some(*index), !best.contains(index)));
        for index in order {
            let point = &self.points[index];
            let Some(at) = plot.place(point) else { continue };
            let piece = if self.current == Some(index) {
                strong(&point.name, tokens.strong_text)
            } else if best.contains(&index) {
                plain(&point.name, tokens.text)
            } else {
                plain(&point.name, tokens.weak_text)
            };
            let galley = line_of(painter, &[piece], WIDEST_NAME);
            let away = RADIUS + theme::GRID;
            let candidates = [
                (at + vec2(-away, -2.0), Align2::RIGHT_BOTTOM),
                (at + vec2(away, 2.0), Align2::LEFT_TOP),
                (at + vec2(0.0, -away), Align2::CENTER_BOTTOM),
                (at + vec2(0.0, away), Align2::CENTER_TOP),
                (at + vec2(away, 0.0), Align2::LEFT_CENTER),
                (at + vec2(-away, 0.0), Align2::RIGHT_CENTER),
            ];
            let free = candidates.into_iter().find(|(at, anchor)| {
                let rect = anchor.anchor_size(*at, galley.size());
                plot.area.contains_rect(rect) && !taken.iter().any(|other| other.intersects(rect))
            });
            if let Some((at, anchor)) = free {
                taken.push(place_text(painter, galley, at, anchor));
            }
        }
    }
}
