//! A small strip of a live figure: what it is now, and between what it has moved.

use egui::{
    Align2, Painter, Pos2, Rect, Response, Role, Sense, Shape, Stroke, Ui, WidgetInfo,
    epaint::{BandPoint, BandShape},
    pos2, vec2,
};
use tunesmith_report::format::number;

use super::paint::{line_of, place_text, plain};
use crate::theme::{self, Tokens, tokens};

/// Height of a strip, in points.
const HEIGHT: f32 = 13.0 * theme::GRID;
/// Below this width there is no strip, only the figure under its name, in points.
const NARROW: f32 = 150.0;
/// Least room for the figure, so that strips do not move with every digit, in points.
const FIGURE: f32 = 20.0 * theme::GRID;

/// A live figure of the last while.
#[must_use = "it is drawn by `show`"]
pub struct Sparkline<'a> {
    label: &'a str,
    unit: &'a str,
    window: &'a str,
    values: &'a [f64],
    scale: Option<(f64, f64)>,
}

impl<'a> Sparkline<'a> {
    /// A strip of evenly spaced readings, oldest first; one that failed is NaN and leaves a gap. `window` says how
    /// long they reach back: `last minute`.
    pub fn new(label: &'a str, unit: &'a str, window: &'a str, values: &'a [f64]) -> Self {
        Self {
            label,
            unit,
            window,
            values,
            scale: None,
        }
    }

    /// Shows this stretch of values at least, such as 0 to 100 for a share: without it a small tremble fills the strip.
    pub fn scale(mut self, low: f64, high: f64) -> Self {
        self.scale = Some((low, high));
        self
    }

    /// The strip in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        let (label, unit) = (self.label, self.unit);
        let now = match self.now() {
            Some(now) => format!("{label} {} {unit}", number(now)),
            None => format!("{label} unknown"),
        };
        match self.range() {
            Some((low, high)) => {
                format!(
                    "{now}, {} to {} {unit} in the {}",
                    number(low),
                    number(high),
                    self.window
                )
            }
            None => now,
        }
    }

    /// Draws it over the width that there is.
    pub fn show(&self, ui: &mut Ui) -> Response {
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), HEIGHT), Sense::hover());
        let summary = self.summary();
        response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &summary));
        if ui.is_rect_visible(rect) {
            self.paint(rect, ui.painter(), tokens(ui));
        }
        response.on_hover_text(summary)
    }

    /// The newest reading, if it succeeded.
    fn now(&self) -> Option<f64> {
        self.values.last().copied().filter(|value| value.is_finite())
    }

    fn range(&self) -> Option<(f64, f64)> {
        let finite = self.values.iter().copied().filter(|value| value.is_finite());
        finite.fold(None, |found, value| {
            let (low, high) = found.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        })
    }

    fn paint(&self, rect: Rect, painter: &Painter, tokens: &Tokens) {
        let narrow = rect.width() < NARROW;
        let figure_width = self.paint_figure(rect, narrow, painter, tokens).max(FIGURE);
        let room = if narrow {
            rect.width()
        } else {
            rect.width() - figure_width
        };
        let label = line_of(painter, &[plain(self.label, tokens.weak_text)], room);
        let label = place_text(painter, label, rect.left_top(), Align2::LEFT_TOP);
        if narrow {
            return;
        }
        let strip = Rect::from_min_max(
            pos2(rect.left(), label.bottom() + theme::GRID),
            pos2(
                rect.right() - figure_width - 3.0 * theme::GRID,
                rect.bottom() - 1.0,
            ),
        );
        if strip.width() < 16.0 || strip.height() < 8.0 {
            return;
        }
        painter.hline(
            strip.x_range(),
            painter.round_to_pixel_center(strip.bottom()),
            Stroke::new(1.0, tokens.grid),
        );
        if let Some(range) = self.range() {
            self.paint_strip(strip, range, painter, tokens);
        }
    }

    /// Large at the right, its unit lighter, and the range of the window under it. Gives how wide they are.
    fn paint_figure(&self, rect: Rect, narrow: bool, painter: &Painter, tokens: &Tokens) -> f32 {
        let baseline = if narrow {
            rect.bottom()
        } else {
            rect.top() + 7.0 * theme::GRID
        };
        let mut left = rect.right();
        let figure = match self.now() {
            Some(now) => {
                let unit = line_of(painter, &[plain(self.unit, tokens.weak_text)], f32::INFINITY);
                let unit = place_text(painter, unit, pos2(left, baseline - 1.5), Align2::RIGHT_BOTTOM);
                left = unit.left() - theme::GRID;
                painter.layout_no_wrap(number(now), theme::title_font(), tokens.strong_text)
            }
            None => painter.layout_no_wrap("unknown".to_owned(), theme::strong_font(), tokens.weak_text),
        };
        let figure = place_text(painter, figure, pos2(left, baseline + 1.0), Align2::RIGHT_BOTTOM);
        left = figure.left();
        if let Some((low, high)) = self.range().filter(|_| !narrow) {
            let between = format!("{} to {}", number(low), number(high));
            let galley = line_of(painter, &[plain(&between, tokens.weak_text)], f32::INFINITY);
            left = left.min(place_text(painter, galley, rect.right_bottom(), Align2::RIGHT_BOTTOM).left());
        }
        rect.right() - left
    }

    fn paint_strip(&self, strip: Rect, (low, high): (f64, f64), painter: &Painter, tokens: &Tokens) {
        let (low, high) = self
            .scale
            .map_or((low, high), |(from, to)| (low.min(from), high.max(to)));
        let span = if high > low { high - low } else { 1.0 };
        let middle = high <= low;
        let place = |index: usize, value: f64| {
            let along = index as f32 / (self.values.len().saturating_sub(1)).max(1) as f32;
            let up = if middle {
                0.5
            } else {
                ((value - low) / span) as f32
            };
            pos2(
                strip.left() + along * strip.width(),
                strip.bottom() - 1.0 - up * (strip.height() - 3.0),
            )
        };
        let mut runs: Vec<Vec<Pos2>> = vec![Vec::new()];
        for (index, &value) in self.values.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if value.is_finite() => run.push(place(index, value)),
                _ => runs.push(Vec::new()),
            }
        }
        for run in runs {
            match run.as_slice() {
                [] => {}
                [alone] => {
                    painter.circle_filled(*alone, 1.5, tokens.accent);
                }
                _ => {
                    paint_under(&run, strip.bottom(), painter, tokens);
                    painter.add(Shape::line(run, Stroke::new(1.6, tokens.accent)));
                }
            }
        }
        if let Some((index, now)) = self.values.len().checked_sub(1).zip(self.now()) {
            painter.circle_filled(place(index, now), 2.5, tokens.accent);
        }
    }
}

/// A light fill under a piece of the line.
fn paint_under(run: &[Pos2], floor: f32, painter: &Painter, tokens: &Tokens) {
    let points = run.iter().map(|at| BandPoint::new(at.x, at.y.min(floor)..=floor));
    let fill = tokens.accent.gamma_multiply(0.12);
    painter.add(BandShape::filled(points.collect(), fill));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_says_now_and_between_what() {
        assert_eq!(
            Sparkline::new("Memory", "GiB", "last minute", &[4.1, f64::NAN, 7.9, 7.4]).summary(),
            "Memory 7.40 GiB, 4.10 to 7.90 GiB in the last minute"
        );
    }

    #[test]
    fn a_failed_reading_is_unknown_and_not_the_one_before() {
        assert_eq!(
            Sparkline::new("Load", "%", "last minute", &[50.0, f64::NAN]).summary(),
            "Load unknown, 50.0 to 50.0 % in the last minute"
        );
        assert_eq!(
            Sparkline::new("Load", "%", "last minute", &[]).summary(),
            "Load unknown"
        );
    }
}
