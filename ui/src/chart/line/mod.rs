//! Values over steps or seconds: loss, memory, tokens per second.
//!
//! [`LineChart::show`] lays the chart out (`layout`), then paints from the back to the front: grid and shades
//! (`ground`), each line (`curve`, with `band` where it has more values than the screen columns), what needs a mark
//! (`marks`), and names and last values (`ends`). `pointer` tells the values under the cursor, `words` the chart in a
//! sentence, and `table` its values.

mod band;
mod curve;
mod ends;
mod ground;
mod layout;
mod marks;
mod pointer;
mod table;
mod words;

use egui::{Color32, Painter, Response, Stroke, Ui};

use super::axis::Along;
use super::frame::Framed;
use super::series::Series;
use super::{ChartView, Cursor};
use crate::theme::{self, Tokens, tokens};
use curve::Curve;
use layout::Plot;

/// Height of a line of small text, in points.
const TEXT_LINE: f32 = 4.0 * theme::GRID;
/// Room for the shape of a line before its name, in points.
const KEY: f32 = 3.0 * theme::GRID;
/// Between a name and a value, in points.
const BETWEEN: f32 = 1.5 * theme::GRID;

/// A chart of one or more lines over the same x.
///
/// The first line has the accent and is the current one; further ones have the colours and shapes of their place.
#[must_use = "it is drawn by `show`"]
pub struct LineChart<'a> {
    title: &'a str,
    unit: &'a str,
    along: Along,
    lines: Vec<Line<'a>>,
    log: bool,
    from_zero: bool,
    references: Vec<(f64, &'a str)>,
    warm_up: Option<(f64, f64)>,
    noise: Option<(f64, f64, &'a str)>,
    x_range: Option<(f64, f64)>,
    height: f32,
    empty: &'a str,
}

struct Line<'a> {
    name: &'a str,
    series: &'a Series,
    place: usize,
}

impl<'a> LineChart<'a> {
    /// A chart of what has this name and unit, without lines yet. The name is unique on its page.
    pub fn new(title: &'a str, unit: &'a str) -> Self {
        Self {
            title,
            unit,
            along: Along::Steps,
            lines: Vec::new(),
            log: false,
            from_zero: false,
            references: Vec::new(),
            warm_up: None,
            noise: None,
            x_range: None,
            height: 200.0,
            empty: "Nothing has been recorded yet",
        }
    }

    /// Adds a line. Its name is shown where there is more than one.
    pub fn line(self, name: &'a str, series: &'a Series) -> Self {
        let place = self.lines.len();
        self.line_at(place, name, series)
    }

    /// Adds a line with the colour and the shape of another place, so that a run looks alike in all charts.
    pub fn line_at(mut self, place: usize, name: &'a str, series: &'a Series) -> Self {
        self.lines.push(Line { name, series, place });
        self
    }

    /// What x is; steps by default.
    pub fn along(mut self, along: Along) -> Self {
        self.along = along;
        self
    }

    /// Shows this stretch of x, for example all steps that are planned. By default all that there is.
    pub fn x_range(mut self, low: f64, high: f64) -> Self {
        self.x_range = Some((low, high));
        self
    }

    /// Draws y logarithmically. Values at or below zero lie at the bottom then, under a mark.
    pub fn log_y(mut self, log: bool) -> Self {
        self.log = log;
        self
    }

    /// Lets y begin at zero.
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    /// Adds a dashed line at a value, with its name.
    pub fn reference(mut self, value: f64, name: &'a str) -> Self {
        self.references.push((value, name));
        self
    }

    /// Shades the steps that the figures leave out.
    pub fn warm_up(mut self, from: f64, to: f64) -> Self {
        self.warm_up = Some((from, to));
        self
    }

    /// Shades the values that differ by noise alone, with the name of that band.
    pub fn noise_band(mut self, low: f64, high: f64, name: &'a str) -> Self {
        self.noise = Some((low.min(high), low.max(high), name));
        self
    }

    /// Height of the chart without heading and sentence, in points.
    pub fn height(mut self, height: f32) -> Self {
        self.height = height;
        self
    }

    /// What is said while there are no points.
    pub fn empty(mut self, text: &'a str) -> Self {
        self.empty = text;
        self
    }

    /// Draws it. `view` and `cursor` are the page's; charts that share a cursor tell their values at the same x.
    pub fn show(&self, ui: &mut Ui, view: &mut ChartView, cursor: &mut Cursor) {
        let summary = self.summary();
        let framed = Framed {
            title: self.title,
            unit: self.unit,
            summary: &summary,
            empty: self.data_range().is_none(),
            height: self.height,
        };
        framed.show(
            ui,
            view,
            || self.table(),
            |ui, response| {
                if ui.is_rect_visible(response.rect)
                    && let Some(plot) = self.plot(ui)
                {
                    self.plot_ui(&plot, ui, response, cursor);
                }
            },
        );
    }

    fn data_range(&self) -> Option<(f64, f64)> {
        let ranges = self.lines.iter().filter_map(|line| line.series.x_range());
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    fn plot_ui(&self, plot: &Plot, ui: &mut Ui, response: &Response, cursor: &mut Cursor) {
        let tokens = tokens(ui);
        let painter = ui.painter().clone();
        self.paint_ground(plot, &painter, tokens);
        let clipped = painter.with_clip_rect(plot.area.expand(2.0).intersect(painter.clip_rect()));
        // The current one last, so that it lies on top.
        for line in self.lines.iter().rev() {
            paint_line(plot, line, &clipped, tokens);
        }
        for line in self.lines.iter().rev() {
            plot.paint_marks(line, &painter, tokens);
        }
        self.paint_references(plot, &painter, tokens);
        self.paint_ends(plot, &painter, tokens);

        let pointer = ui.input(|input| input.pointer.hover_pos());
        let pointed = pointer
            .filter(|pointer| response.contains_pointer() && plot.area.x_range().contains(pointer.x))
            .map(|pointer| plot.x.value(pointer.x));
        if cursor.follow(response.id, pointed) {
            // The charts above this one have been drawn already.
            ui.ctx().request_repaint();
        }
        if let Some(x) = cursor.x() {
            self.readout_ui(plot, x, ui);
        }
    }
}

/// A smoothed line lies on its values, which are lighter then.
fn paint_line(plot: &Plot, line: &Line, painter: &Painter, tokens: &Tokens) {
    let colour = tokens.series(line.place);
    let paint = |series: &Series, width: f32, colour: Color32| {
        Curve::new(series, (plot.x, plot.y), Stroke::new(width, colour), painter).paint(painter);
    };
    match line.series.smoothed() {
        Some(smoothed) => {
            paint(line.series, 1.2, colour.lerp_to_gamma(tokens.panel, 0.6));
            paint(smoothed, 2.0, colour);
        }
        None => paint(line.series, 1.8, colour),
    }
}

/// A series of values at 1, 2, 3, …
#[cfg(test)]
fn series_of(values: &[f64]) -> Series {
    let mut series = Series::new();
    for (step, &value) in values.iter().enumerate() {
        series.push((step + 1) as f64, value).unwrap();
    }
    series
}
