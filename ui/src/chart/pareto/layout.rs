//! The chart's axes, its grid, and the limit that may stand in it.

use egui::{Align2, Painter, Pos2, Rangef, Rect, Stroke, Ui, pos2, vec2};
use tunesmith_report::format::number;

use super::{Pareto, ParetoPoint, RADIUS};
use crate::chart::axis::{Axis, Tick, linear_ticks, round_stretch};
use crate::chart::paint::{dashed, line_of, patched_text, place_text, plain};
use crate::theme::{self, Tokens, tokens};

/// Laid out.
pub(super) struct Plot {
    pub(super) area: Rect,
    pub(super) x: Axis,
    pub(super) y: Axis,
    y_ticks: Vec<Tick>,
}

impl Plot {
    pub(super) fn of(chart: &Pareto, ui: &Ui) -> Option<Self> {
        const TEXT_LINE: f32 = 4.0 * theme::GRID;
        let space = ui.max_rect();
        let drawn = || chart.points.iter().filter(|point| point.vram().is_some());
        drawn().next()?;
        let mut vram: Vec<f64> = drawn().flat_map(|point| point.vram_gib.iter().copied()).collect();
        vram.extend(chart.limit.map(|(gib, _)| gib));
        let speed: Vec<f64> = drawn()
            .flat_map(|point| point.tokens_per_sec.iter().copied())
            .collect();
        let (left, right) = ends(&vram).unwrap_or((0.0, 1.0));
        let (low, high) = ends(&speed).unwrap_or((0.0, 1.0));
        let (left, right) = with_room(left, right, 0.06);
        let (low, high) = with_room(low, high, 0.08);
        let (low, high, y_ticks) = round_stretch(low.max(0.0), high, 4);
        let widest = y_ticks
            .iter()
            .map(|tick| {
                line_of(
                    ui.painter(),
                    &[plain(&tick.label, tokens(ui).weak_text)],
                    f32::INFINITY,
                )
                .size()
                .x
            })
            .fold(0.0, f32::max);
        let area = Rect::from_min_max(
            space.min + vec2(widest + 2.0 * theme::GRID, TEXT_LINE + theme::GRID),
            space.max - vec2(2.0 * theme::GRID, TEXT_LINE + 1.5 * theme::GRID),
        );
        (area.width() > 60.0 && area.height() > 40.0).then(|| Self {
            area,
            x: Axis::new(left.max(0.0), right, false, area.x_range()),
            y: Axis::new(low, high, false, Rangef::new(area.bottom(), area.top())),
            y_ticks,
        })
    }

    /// Where a point lies. One without a speed lies on the lower edge.
    pub(super) fn place(&self, point: &ParetoPoint) -> Option<Pos2> {
        let y = point
            .speed()
            .map_or(self.area.bottom() - RADIUS - 1.0, |speed| self.y.place(speed));
        Some(pos2(self.x.place(point.vram()?), y))
    }

    pub(super) fn paint_ground(&self, painter: &Painter, tokens: &Tokens) {
        let area = self.area;
        let weak = |text: &str| line_of(painter, &[plain(text, tokens.weak_text)], f32::INFINITY);
        for tick in &self.y_ticks {
            let y = painter.round_to_pixel_center(self.y.place(tick.value));
            painter.hline(area.x_range(), y, Stroke::new(1.0, tokens.grid));
            let at = pos2(area.left() - 2.0 * theme::GRID, y);
            place_text(painter, weak(&tick.label), at, Align2::RIGHT_CENTER);
        }
        let top = pos2(area.left() - 2.0 * theme::GRID, area.top() - 2.0 * theme::GRID);
        let top = pos2(top.x.max(painter.clip_rect().left()), top.y);
        place_text(
            painter,
            weak("tokens/s"),
            pos2(area.left(), top.y),
            Align2::LEFT_BOTTOM,
        );
        let floor = painter.round_to_pixel_center(area.bottom());
        painter.hline(area.x_range(), floor, Stroke::new(1.0, tokens.control_line));
        let below = area.bottom() + theme::GRID;
        let name = place_text(
            painter,
            weak("peak memory, GiB"),
            pos2(area.right(), below),
            Align2::RIGHT_TOP,
        );
        let about = (area.width() / 90.0).round().max(2.0) as usize;
        for tick in linear_ticks(self.x.low, self.x.high, about) {
            let x = painter.round_to_pixel_center(self.x.place(tick.value));
            painter.vline(
                x,
                Rangef::new(floor, floor + 3.0),
                Stroke::new(1.0, tokens.control_line),
            );
            let label = weak(&tick.label);
            if x + label.size().x / 2.0 + 2.0 * theme::GRID < name.left() {
                place_text(painter, label, pos2(x, below), Align2::CENTER_TOP);
            }
        }
    }

    pub(super) fn paint_limit(&self, gib: f64, name: &str, painter: &Painter, tokens: &Tokens) {
        let x = painter.round_to_pixel_center(self.x.place(gib));
        if !self.area.x_range().expand(1.0).contains(x) {
            return;
        }
        dashed(
            painter,
            pos2(x, self.area.bottom()),
            pos2(x, self.area.top()),
            tokens.weak_text,
        );
        let text = format!("{name} {} GiB", number(gib));
        let galley = line_of(painter, &[plain(&text, tokens.text)], self.area.width() / 2.0);
        let at = pos2(x - theme::GRID, self.area.top() + 2.0);
        patched_text(
            painter,
            galley,
            at,
            Align2::RIGHT_TOP,
            tokens.panel.gamma_multiply(0.85),
        );
    }
}

/// Least and greatest finite value.
fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    finite.fold(None, |found, value| {
        let (low, high) = found.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

fn with_room(low: f64, high: f64, share: f64) -> (f64, f64) {
    let span = if high > low {
        high - low
    } else {
        low.abs().max(1.0)
    };
    (low - share * span, high + share * span)
}
