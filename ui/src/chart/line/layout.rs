//! Where the parts of a line chart go: its axes, and the room that the texts around it need.

use std::sync::Arc;

use egui::{Galley, Rangef, Rect, Ui, vec2};

use super::ends::End;
use super::{BETWEEN, KEY, LineChart, TEXT_LINE};
use crate::chart::axis::{Axis, Tick, log_stretch, log_ticks, round_stretch};
use crate::chart::paint::{line_of, plain};
use crate::theme::{self, tokens};

/// Below this width names stand above the lines instead of at their ends, in points.
const ROOM_FOR_ENDS: f32 = 380.0;
/// Widest name at the end of a line, in points.
const WIDEST_NAME: f32 = 96.0;

/// A chart that has been laid out.
pub(super) struct Plot {
    pub(super) space: Rect,
    pub(super) area: Rect,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) log: bool,
    pub(super) y_ticks: Vec<(f64, Arc<Galley>)>,
    pub(super) ends: Vec<End>,
    pub(super) at_ends: bool,
}

impl LineChart<'_> {
    /// Lays the chart out in the space of `ui`; `None` where there is nothing to draw.
    pub(super) fn plot(&self, ui: &Ui) -> Option<Plot> {
        let tokens = tokens(ui);
        let painter = ui.painter();
        let space = ui.max_rect();
        let (from, to) = self
            .x_range
            .or(self.data_range())
            .filter(|_| self.data_range().is_some())?;
        let (from, to) = if to > from {
            (from, to)
        } else {
            (from - 0.5, to + 0.5)
        };
        // Without a value above zero a logarithmic axis has nowhere to lie.
        let logged = if self.log {
            self.value_range((from, to), true)
        } else {
            None
        };
        let log = logged.is_some();
        let about = (space.height() / 52.0).round().max(2.0) as usize;
        let (low, high) = logged
            .or(self.value_range((from, to), false))
            .unwrap_or((0.0, 1.0));
        let (low, high, ticks) = if log {
            let (low, high) = log_stretch(low, high);
            (low, high, log_ticks(low, high, about))
        } else {
            round_stretch(low, high, about)
        };
        let weak = |text: &str| line_of(painter, &[plain(text, tokens.weak_text)], f32::INFINITY);
        let y_ticks: Vec<(f64, Arc<Galley>)> = ticks
            .iter()
            .map(|Tick { value, label }| (*value, weak(label)))
            .collect();
        let left = y_ticks
            .iter()
            .map(|(_, label)| label.size().x)
            .fold(0.0, f32::max)
            + 2.0 * theme::GRID;
        let at_ends = space.width() >= ROOM_FOR_ENDS && self.lines.len() <= 6;
        let widest_name = if at_ends {
            WIDEST_NAME
        } else {
            (space.width() / self.lines.len().max(1) as f32 - KEY - BETWEEN - 3.0 * theme::GRID).max(24.0)
        };
        let ends = self.end_labels(painter, tokens, at_ends, widest_name);
        let right = if at_ends {
            ends.iter().map(End::width).fold(0.0, f32::max) + 3.0 * theme::GRID
        } else {
            2.0 * theme::GRID
        };
        let legend = if at_ends || self.lines.len() < 2 {
            0.0
        } else {
            TEXT_LINE + theme::GRID
        };
        let area = Rect::from_min_max(
            space.min + vec2(left, legend + 1.5 * theme::GRID),
            space.max - vec2(right, TEXT_LINE + 1.5 * theme::GRID),
        );
        if area.width() < 40.0 || area.height() < 20.0 {
            return None;
        }
        Some(Plot {
            space,
            area,
            x: Axis::new(from, to, false, area.x_range()),
            y: Axis::new(low, high, log, Rangef::new(area.bottom(), area.top())),
            log,
            y_ticks,
            ends,
            at_ends,
        })
    }

    /// Least and greatest of what is to be seen; `None` without any finite value.
    fn value_range(&self, (from, to): (f64, f64), log: bool) -> Option<(f64, f64)> {
        let mut values: Vec<f64> = Vec::new();
        for line in &self.lines {
            let series = line.series;
            let span = series.span(series.between(from, to));
            if span.is_none() {
                continue;
            }
            values.extend([span.least, span.most]);
            if log && span.least <= 0.0 {
                // The least value that the axis can show lies somewhere in between.
                values.extend(series.thinned(from, to, 400).iter().map(|point| point.y));
            }
        }
        let can_be_shown = |value: &f64| value.is_finite() && (!log || *value > 0.0);
        values.retain(can_be_shown);
        if values.is_empty() {
            return None;
        }
        values.extend(self.references.iter().map(|(value, _)| *value));
        values.extend(self.noise.iter().flat_map(|(low, high, _)| [*low, *high]));
        values.extend(self.from_zero.then_some(0.0));
        values.retain(can_be_shown);
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        Some((low, high))
    }
}
