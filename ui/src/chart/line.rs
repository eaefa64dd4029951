//! Values over steps or seconds: loss, memory, tokens per second.

use std::sync::Arc;

use egui::{
    Align2, Color32, Galley, Painter, Pos2, Rangef, Rect, Response, Role, Sense, Shape, Stroke, Ui,
    WidgetInfo, pos2, vec2,
};
use tunesmith_report::format::{count, number};

use super::axis::{Along, Axis, Tick, linear_ticks, log_stretch, log_ticks, round_stretch, time_ticks};
use super::frame::{Cell, Framed, MOST_ROWS, Table, TableColumn, in_a_sentence};
use super::paint::{
    ReadoutLine, Shaped, dashed, line_of, mark, patched_text, place_text, plain, readout, strong,
};
use super::series::{Extremes, MarkKind, Point, Series};
use super::{ChartView, Cursor};
use crate::theme::{self, Tokens, Tone, tokens};

/// Below this width names stand above the lines instead of at their ends, in points.
const ROOM_FOR_ENDS: f32 = 380.0;
/// Widest name at the end of a line, in points.
const WIDEST_NAME: f32 = 96.0;
/// Height of a line of small text, in points.
const TEXT_LINE: f32 = 4.0 * theme::GRID;
/// Room for the shape of a line before its name, in points.
const KEY: f32 = 3.0 * theme::GRID;
/// Between a name and a value, in points.
const BETWEEN: f32 = 1.5 * theme::GRID;
/// Marks are no closer than this, in points.
const BETWEEN_MARKS: f32 = 8.0;
/// A value further than this from the cursor is not told, in points.
const NEAR: f32 = 5.0;

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

    /// The chart in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        let Some((from, to)) = self.data_range() else {
            return self.empty.to_owned();
        };
        let mut parts = vec![match self.lines.as_slice() {
            [line] => self.sentence_of_one(line),
            lines => {
                let ends = lines.iter().map(|line| match last_value(line.series) {
                    Some(value) => format!("{} ends at {}", line.name, number(value)),
                    None => format!("{} has no finite value", line.name),
                });
                let ends: Vec<String> = ends.collect();
                let title = self.title;
                format!("{title} {}: {}", self.along.stretch(from, to), ends.join(", "))
            }
        }];
        let total = |kind| {
            self.lines
                .iter()
                .map(|line| line.series.count(kind))
                .sum::<usize>()
        };
        for (kind, word) in [
            (MarkKind::NotFinite, "not finite (×)"),
            (MarkKind::Invalid, "invalid (◇)"),
        ] {
            let marked = total(kind);
            if marked > 0 {
                let verb = if marked == 1 { "is" } else { "are" };
                parts.push(format!("{} {verb} {word}", self.along.points(marked)));
            }
        }
        parts.join("; ")
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

    fn sentence_of_one(&self, line: &Line) -> String {
        let series = line.series;
        let ends = (series.first_finite(), series.last_finite());
        let ((from, first), (to, last)) = match ends {
            (Some(first), Some(last)) => match (series.get(first), series.get(last)) {
                (Some(first), Some(last)) => (first, last),
                _ => return self.empty.to_owned(),
            },
            _ => return format!("No value of {} is finite", in_a_sentence(self.title)),
        };
        let unit = if self.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", self.unit)
        };
        let (first, last, title) = (number(first), number(last), self.title);
        if series.first_finite() == series.last_finite() {
            return format!("{title} is {last}{unit} at {}", self.along.place(to));
        }
        let stretch = self.along.stretch(from, to);
        if first == last {
            let (least, most) = series
                .extremes(0..series.len())
                .map_or((String::new(), String::new()), |Extremes { least, most }| {
                    (number(least.y), number(most.y))
                });
            return if least == most {
                format!("{title} stays at {last}{unit} {stretch}")
            } else {
                format!(
                    "{title} begins and ends at {last}{unit} {stretch}, from {least} to {most} on the way"
                )
            };
        }
        let falls = last_value(series) < series.first_finite().and_then(|index| Some(series.get(index)?.1));
        let verb = if falls { "falls" } else { "rises" };
        format!("{title} {verb} from {first} to {last}{unit} {stretch}")
    }

    fn data_range(&self) -> Option<(f64, f64)> {
        let ranges = self.lines.iter().filter_map(|line| line.series.x_range());
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Least and greatest of what is to be seen; `None` without any finite value.
    fn value_range(&self, (from, to): (f64, f64), log: bool) -> Option<(f64, f64)> {
        let mut values: Vec<f64> = Vec::new();
        for line in &self.lines {
            let series = line.series;
            let Some(Extremes { least, most }) = series.extremes(series.between(from, to)) else {
                continue;
            };
            values.extend([least.y, most.y]);
            if log && least.y <= 0.0 {
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

    /// Lays the chart out in the space of `ui`; `None` where there is nothing to draw.
    fn plot(&self, ui: &Ui) -> Option<Plot> {
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

    fn end_labels(&self, painter: &Painter, tokens: &Tokens, at_ends: bool, widest_name: f32) -> Vec<End> {
        let several = self.lines.len() > 1;
        let ends = self.lines.iter().enumerate().filter_map(|(index, line)| {
            let (x, value) = line.series.get(line.series.last_finite()?)?;
            // Only the name is cut: the value is what the eye looks for.
            let name = several.then(|| line_of(painter, &[plain(line.name, tokens.text)], widest_name));
            let shown = number(value);
            let shown = (at_ends || !several)
                .then(|| line_of(painter, &[strong(&shown, tokens.strong_text)], f32::INFINITY));
            Some(End {
                line: index,
                x,
                value,
                name,
                shown,
            })
        });
        ends.collect()
    }

    fn plot_ui(&self, plot: &Plot, ui: &mut Ui, response: &Response, cursor: &mut Cursor) {
        let tokens = tokens(ui);
        let painter = ui.painter().clone();
        self.paint_ground(plot, &painter, tokens);
        let clipped = painter.with_clip_rect(plot.area.expand(2.0).intersect(painter.clip_rect()));
        let columns = (plot.area.width() * ui.pixels_per_point()).round().max(1.0) as usize;
        // The current one last, so that it lies on top.
        for line in self.lines.iter().rev() {
            plot.paint_series(line, columns, &clipped, tokens);
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

    /// Shades, grid lines and their labels.
    fn paint_ground(&self, plot: &Plot, painter: &Painter, tokens: &Tokens) {
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
    fn paint_references(&self, plot: &Plot, painter: &Painter, tokens: &Tokens) {
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

    /// The last value of each line at its end, or the names above where there is no room.
    fn paint_ends(&self, plot: &Plot, painter: &Painter, tokens: &Tokens) {
        for end in &plot.ends {
            let place = self.lines[end.line].place;
            let at = pos2(plot.x.place(end.x), plot.y_place(end.value));
            if plot.area.expand(1.0).contains(at) {
                mark(
                    painter,
                    Shaped::of_series(place),
                    at,
                    3.5,
                    tokens.series(place),
                    tokens.panel,
                );
            }
        }
        if plot.at_ends {
            let wanted: Vec<f32> = plot.ends.iter().map(|end| plot.y_place(end.value)).collect();
            let places = spread(&wanted, TEXT_LINE, plot.area.y_range());
            for (end, y) in plot.ends.iter().zip(places) {
                let at = pos2(plot.area.right() + 2.0 * theme::GRID, y);
                self.paint_end(end, at, painter, tokens);
            }
        } else if plot.ends.len() > 1 {
            let mut at = pos2(plot.area.left(), plot.space.top() + TEXT_LINE / 2.0);
            for end in &plot.ends {
                self.paint_end(end, at, painter, tokens);
                at.x += end.width() + 3.0 * theme::GRID;
            }
        }
    }

    fn paint_end(&self, end: &End, mut at: Pos2, painter: &Painter, tokens: &Tokens) {
        if let Some(name) = &end.name {
            let place = self.lines[end.line].place;
            let shape = Shaped::of_series(place);
            mark(
                painter,
                shape,
                at + vec2(4.0, 0.0),
                3.5,
                tokens.series(place),
                tokens.panel,
            );
            at.x += KEY;
            at.x = place_text(painter, name.clone(), at, Align2::LEFT_CENTER).right() + BETWEEN;
        }
        if let Some(shown) = &end.shown {
            place_text(painter, shown.clone(), at, Align2::LEFT_CENTER);
        }
    }

    /// The values at the point nearest to x, in a box beside it.
    fn readout_ui(&self, plot: &Plot, x: f64, ui: &mut Ui) {
        let tokens = tokens(ui);
        let painter = ui.painter().clone();
        let nearest = self
            .lines
            .iter()
            .filter_map(|line| Some(line.series.get(line.series.nearest(x)?)?.0));
        let Some(at) = nearest.min_by(|a, b| (a - x).abs().total_cmp(&(b - x).abs())) else {
            return;
        };
        let place = plot.x.place(at);
        if !plot.area.x_range().expand(1.0).contains(place)
            || (place - plot.x.place(x)).abs() > plot.area.width() / 4.0
        {
            return;
        }
        let screen_x = painter.round_to_pixel_center(place);
        painter.vline(
            screen_x,
            plot.area.y_range(),
            Stroke::new(1.0, tokens.control_line_strong),
        );
        let step = self.along.place(at);
        let mut lines = vec![ReadoutLine {
            shape: None,
            galley: line_of(&painter, &[plain(&step, tokens.weak_text)], 260.0),
        }];
        let mut said = vec![step];
        for line in &self.lines {
            let index = line.series.nearest(at);
            let found = index.and_then(|index| Some((index, line.series.get(index)?)));
            let found = found.filter(|(_, (x, _))| (plot.x.place(*x) - place).abs() <= NEAR);
            let value = found.map_or_else(
                || "–".to_owned(),
                |(index, (_, y))| self.value_in_words(line, index, y),
            );
            let name = if self.lines.len() > 1 {
                line.name
            } else {
                self.title
            };
            let pieces = [
                plain(name, tokens.text),
                plain("  ", tokens.text),
                strong(&value, tokens.strong_text),
            ];
            let shape =
                (self.lines.len() > 1).then(|| (Shaped::of_series(line.place), tokens.series(line.place)));
            lines.push(ReadoutLine {
                shape,
                galley: line_of(&painter, &pieces, 280.0),
            });
            said.push(format!("{} {value}", in_a_sentence(name)));
            if let Some((_, (x, y))) = found
                && y.is_finite()
            {
                let at = pos2(plot.x.place(x), plot.y_place(y));
                mark(
                    &painter,
                    Shaped::Ring,
                    at,
                    4.0,
                    tokens.series(line.place),
                    tokens.panel,
                );
            }
        }
        let rect = readout(
            &painter,
            tokens,
            &lines,
            pos2(screen_x, plot.area.top() + theme::GRID),
            plot.area.with_max_x(plot.space.right()),
        );
        let said = said.join(", ");
        ui.interact(rect, ui.scope_id().with("readout"), Sense::hover())
            .widget_info(|| WidgetInfo::labeled(Role::Label, true, &said));
    }

    fn value_in_words(&self, line: &Line, index: usize, y: f64) -> String {
        if !y.is_finite() {
            return format!("not finite ({y})");
        }
        let mut words = number(y);
        if !self.unit.is_empty() {
            words = format!("{words} {}", self.unit);
        }
        let smoothed = line.series.smoothed().and_then(|smoothed| smoothed.get(index));
        if let Some((_, smoothed)) = smoothed {
            words = format!("{words}, smoothed {}", number(smoothed));
        }
        if !line.series.is_valid(index) {
            words.push_str(", invalid");
        }
        words
    }

    fn table(&self) -> Table {
        let range = self.data_range().unwrap_or((0.0, 0.0));
        let most = MOST_ROWS / self.lines.len().max(1);
        let mut places: Vec<f64> = Vec::new();
        for line in &self.lines {
            let indexes = table_indexes(line.series, range, most);
            places.extend(
                indexes
                    .into_iter()
                    .filter_map(|index| Some(line.series.get(index)?.0)),
            );
        }
        places.sort_by(f64::total_cmp);
        places.dedup();
        let several = self.lines.len() > 1;
        let mut columns = vec![match self.along {
            Along::Steps => TableColumn::numbers("step", ""),
            Along::Seconds => TableColumn::numbers("time", "s"),
        }];
        columns.extend(
            self.lines
                .iter()
                .map(|line| TableColumn::numbers(if several { line.name } else { self.title }, self.unit)),
        );
        let rows: Vec<Vec<Cell>> = places
            .iter()
            .map(|&x| {
                let values = self.lines.iter().map(|line| cell_at(line.series, x));
                std::iter::once(Cell::Count(x)).chain(values).collect()
            })
            .collect();
        let points: usize = self.lines.iter().map(|line| line.series.len()).sum();
        let whole = self.lines.iter().all(|line| line.series.len() <= most);
        let thinned = (!whole).then(|| {
            format!(
                "{} values, thinned to {} rows: the least and greatest of each stretch, and what is marked",
                count(points as u64),
                count(rows.len() as u64)
            )
        });
        Table {
            columns,
            rows,
            thinned,
        }
    }
}

/// A chart that has been laid out.
struct Plot {
    space: Rect,
    area: Rect,
    x: Axis,
    y: Axis,
    log: bool,
    y_ticks: Vec<(f64, Arc<Galley>)>,
    ends: Vec<End>,
    at_ends: bool,
}

/// The end of a line and what stands there: its name where there are several, its value where there is room.
struct End {
    line: usize,
    x: f64,
    value: f64,
    name: Option<Arc<Galley>>,
    shown: Option<Arc<Galley>>,
}

impl End {
    fn width(&self) -> f32 {
        let name = self
            .name
            .as_ref()
            .map_or(0.0, |name| KEY + name.size().x + BETWEEN);
        name + self.shown.as_ref().map_or(0.0, |shown| shown.size().x)
    }
}

impl Plot {
    fn can_be_drawn(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// Where a value lies; one that the axis cannot show lies at the bottom.
    fn y_place(&self, value: f64) -> f32 {
        if self.can_be_drawn(value) {
            self.y.place(value)
        } else {
            self.area.bottom()
        }
    }

    fn paint_series(&self, line: &Line, columns: usize, painter: &Painter, tokens: &Tokens) {
        let colour = tokens.series(line.place);
        match line.series.smoothed() {
            Some(smoothed) => {
                self.paint_line(
                    line.series,
                    columns,
                    Stroke::new(1.2, lighter(colour, tokens)),
                    painter,
                );
                self.paint_line(smoothed, columns, Stroke::new(2.0, colour), painter);
            }
            None => self.paint_line(line.series, columns, Stroke::new(1.8, colour), painter),
        }
    }

    /// A line through the finite values, with gaps where there is none between two of them. One between two gaps is
    /// a dot.
    fn paint_line(&self, series: &Series, columns: usize, stroke: Stroke, painter: &Painter) {
        let mut run: Vec<Pos2> = Vec::new();
        let mut before = None;
        for Point { index, x, y } in series.thinned(self.x.low, self.x.high, columns) {
            let gap = before.is_some_and(|before| series.is_gap(before, index));
            if gap || !self.can_be_drawn(y) {
                paint_run(std::mem::take(&mut run), stroke, painter);
            }
            if self.can_be_drawn(y) {
                run.push(pos2(self.x.place(x), self.y.place(y)));
            }
            before = Some(index);
        }
        paint_run(run, stroke, painter);
    }

    /// Marks of steps without a number at the top, of invalid ones at their value, and, where the axis is logarithmic,
    /// of values that it cannot show at the bottom.
    fn paint_marks(&self, line: &Line, painter: &Painter, tokens: &Tokens) {
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
            let at = pos2(self.x.place(x), self.y_place(y));
            mark(painter, Shaped::HollowDiamond, at, 4.5, warn, tokens.panel);
        }
        if self.log {
            for point in series.thinned(low, high, columns) {
                if point.y <= 0.0 {
                    let at = pos2(self.x.place(point.x), self.area.bottom() - 5.0);
                    mark(painter, Shaped::Down, at, 4.0, warn, tokens.panel);
                }
            }
        }
    }
}

fn paint_run(run: Vec<Pos2>, stroke: Stroke, painter: &Painter) {
    match run.as_slice() {
        [] => {}
        [alone] => {
            painter.circle_filled(*alone, 1.2 * stroke.width, stroke.color);
        }
        _ => {
            painter.add(Shape::line(run, stroke));
        }
    }
}

/// The colour of what lies behind a smoothed line.
fn lighter(colour: Color32, tokens: &Tokens) -> Color32 {
    colour.lerp_to_gamma(tokens.panel, 0.6)
}

fn last_value(series: &Series) -> Option<f64> {
    Some(series.get(series.last_finite()?)?.1)
}

fn cell_at(series: &Series, x: f64) -> Cell {
    let found = series.at(x).and_then(|index| Some((index, series.get(index)?.1)));
    match found {
        Some((index, value)) if series.is_valid(index) => Cell::Number(value, ""),
        Some((_, value)) => Cell::Number(value, "invalid"),
        None => Cell::Empty,
    }
}

/// Indexes of a table's rows: all, or at most this many of which none that stands out is missing.
fn table_indexes(series: &Series, (low, high): (f64, f64), most: usize) -> Vec<usize> {
    if series.len() <= most {
        return (0..series.len()).collect();
    }
    let quarter = most / 4;
    let thinned = series.thinned(low, high, quarter);
    let mut indexes: Vec<usize> = thinned.iter().map(|point| point.index).collect();
    for kind in [MarkKind::NotFinite, MarkKind::Invalid] {
        let marks = series.marks(kind, low, high, quarter);
        indexes.extend(marks.into_iter().map(|mark| mark.first));
    }
    indexes.sort_unstable();
    indexes.dedup();
    indexes
}

/// Moves labels apart so that each has this much height, keeping their order and staying inside where they fit.
fn spread(wanted: &[f32], height: f32, within: Rangef) -> Vec<f32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = wanted.to_vec();
    let mut free = within.min;
    for &index in &order {
        places[index] = places[index].max(free);
        free = places[index] + height;
    }
    let mut free = within.max;
    for &index in order.iter().rev() {
        places[index] = places[index].min(free);
        free = places[index] - height;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64]) -> Series {
        let mut series = Series::new();
        for (step, &value) in values.iter().enumerate() {
            series.push((step + 1) as f64, value).unwrap();
        }
        series
    }

    #[test]
    fn a_sentence_says_where_it_went_and_what_is_wrong() {
        let mut loss = of(&[2.31, f64::NAN, 1.0, f64::INFINITY, 0.42]);
        loss.push_invalid(6.0, 0.4).unwrap();
        let chart = LineChart::new("Loss", "nats").line("", &loss);
        assert_eq!(
            chart.summary(),
            "Loss falls from 2.31 to 0.400 nats between steps 1 and 6; 2 steps are not finite (×); 1 step is invalid (◇)"
        );
    }

    #[test]
    fn sentences_of_few_and_of_no_values() {
        let none = Series::new();
        assert_eq!(
            LineChart::new("Loss", "")
                .line("", &none)
                .empty("No step yet")
                .summary(),
            "No step yet"
        );
        let nothing = of(&[f64::NAN]);
        assert_eq!(
            LineChart::new("Loss", "").line("", &nothing).summary(),
            "No value of loss is finite; 1 step is not finite (×)"
        );
        let one = of(&[2.0]);
        assert_eq!(
            LineChart::new("Memory", "GiB").line("", &one).summary(),
            "Memory is 2.00 GiB at step 1"
        );
        let flat = of(&[2.0, 2.0]);
        assert_eq!(
            LineChart::new("Memory", "GiB")
                .along(Along::Seconds)
                .line("", &flat)
                .summary(),
            "Memory stays at 2.00 GiB between 1.00 s and 2.00 s"
        );
        let back = of(&[2.0, 5.0, 2.0]);
        assert_eq!(
            LineChart::new("Memory", "GiB").line("", &back).summary(),
            "Memory begins and ends at 2.00 GiB between steps 1 and 3, from 2.00 to 5.00 on the way"
        );
    }

    #[test]
    fn a_sentence_of_several_names_each() {
        let (a, b) = (of(&[2.0, 1.0]), of(&[f64::NAN, f64::NAN]));
        assert_eq!(
            LineChart::new("Loss", "")
                .line("bf16", &a)
                .line("nf4", &b)
                .summary(),
            "Loss between steps 1 and 2: bf16 ends at 1.00, nf4 has no finite value; 2 steps are not finite (×)"
        );
    }

    #[test]
    fn a_table_has_each_value_where_it_belongs() {
        let mut a = of(&[2.0, f64::NAN]);
        a.push_invalid(3.0, 1.0).unwrap();
        let mut b = Series::new();
        b.push(2.0, 7.0).unwrap();
        let table = LineChart::new("Loss", "nats").line("a", &a).line("b", &b).table();
        assert_eq!(
            table.to_tsv(),
            "step\ta (nats)\tb (nats)\n1\t2\t\n2\tNaN\t7\n3\t1\t\n"
        );
        assert_eq!(table.thinned, None);
    }

    #[test]
    fn a_long_table_is_thinned_and_says_so_and_keeps_what_stands_out() {
        let mut values = vec![1.0; 50_000];
        values[777] = f64::NAN;
        values[30_001] = 99.0;
        let series = of(&values);
        let table = LineChart::new("Loss", "").line("", &series).table();
        assert!(table.rows.len() <= MOST_ROWS);
        let sentence = table.thinned.as_deref().unwrap();
        assert!(sentence.starts_with("50,000 values, thinned to"), "{sentence}");
        let has = |x: f64, text: &str| {
            let cell = format!("{x}\t{text}\n");
            table.to_tsv().contains(&cell)
        };
        assert!(has(778.0, "NaN") && has(30_002.0, "99"));
    }

    proptest! {
        #[test]
        fn labels_keep_their_order_and_their_distance(
            wanted in prop::collection::vec(0.0_f32..200.0, 1..8),
        ) {
            let places = spread(&wanted, 16.0, Rangef::new(0.0, 200.0));
            for a in 0..wanted.len() {
                prop_assert!((-0.01..=200.01).contains(&places[a]));
                for b in 0..a {
                    prop_assert!((places[a] - places[b]).abs() > 15.9);
                    if wanted[a] < wanted[b] {
                        prop_assert!(places[a] < places[b]);
                    }
                }
            }
        }
    }
}
