//! Memory against throughput: which configuration to choose where memory is scarce, and which where time is.

use egui::{
    Align2, Id, Painter, Pos2, Rangef, Rect, Response, Role, Sense, Stroke, Ui, WidgetInfo, pos2, vec2,
};
use tunesmith_measure::pareto::{Tradeoff, frontier, within_noise};
use tunesmith_measure::{Gib, stats};
use tunesmith_report::format::number;

use super::ChartView;
use super::axis::{Axis, Tick, linear_ticks, round_stretch};
use super::frame::{Cell, Framed, Table, TableColumn};
use super::paint::{
    ReadoutLine, Shaped, dashed, line_of, mark, patched_text, place_text, plain, readout, strong,
};
use crate::theme::{self, Tokens, Tone, tokens};

/// Of a point, in points.
const RADIUS: f32 = 5.0;
/// What a pointer has to hit, in points.
const TARGET: f32 = 6.0 * theme::GRID;
/// Widest name beside a point, in points.
const WIDEST_NAME: f32 = 150.0;

/// How a point was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointState {
    /// Measured, and to be believed.
    Measured,
    /// Computed before a run.
    Predicted,
    /// Measured, and not to be believed for this reason.
    Invalid(String),
    /// The run did not get as far, for this reason.
    Failed(String),
}

impl PointState {
    fn words(&self) -> String {
        match self {
            Self::Measured => "measured".to_owned(),
            Self::Predicted => "predicted".to_owned(),
            Self::Invalid(reason) => format!("invalid: {reason}"),
            Self::Failed(reason) => format!("failed: {reason}"),
        }
    }
}

/// A configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ParetoPoint {
    /// Its name.
    pub name: String,
    /// Peak memory in GiB, one value for each repeat. Without any the point cannot be drawn, only counted.
    pub vram_gib: Vec<f64>,
    /// Real tokens per second, one value for each repeat; none where the run failed.
    pub tokens_per_sec: Vec<f64>,
    /// How it was come by.
    pub state: PointState,
}

impl ParetoPoint {
    fn vram(&self) -> Option<f64> {
        stats::mean(&self.vram_gib).ok()
    }

    fn speed(&self) -> Option<f64> {
        stats::mean(&self.tokens_per_sec).ok()
    }

    /// For those that can be on the frontier.
    fn tradeoff(&self) -> Option<Tradeoff> {
        if self.state != PointState::Measured {
            return None;
        }
        Some(Tradeoff {
            vram: Gib(self.vram()?),
            tokens_per_sec: self.speed()?,
        })
    }
}

/// A chart of configurations by memory and throughput.
#[must_use = "it is drawn by `show`"]
pub struct Pareto<'a> {
    title: &'a str,
    points: &'a [ParetoPoint],
    current: Option<usize>,
    limit: Option<(f64, &'a str)>,
    height: f32,
    empty: &'a str,
}

impl<'a> Pareto<'a> {
    /// A chart of these points under a title that is unique on its page.
    pub fn new(title: &'a str, points: &'a [ParetoPoint]) -> Self {
        Self {
            title,
            points,
            current: None,
            limit: None,
            height: 280.0,
            empty: "Runs appear here once their speed has been measured",
        }
    }

    /// Which point is the one that the page is about.
    pub fn current(mut self, index: Option<usize>) -> Self {
        self.current = index;
        self
    }

    /// Memory that there is, in GiB, with a name.
    pub fn limit(mut self, gib: f64, name: &'a str) -> Self {
        self.limit = Some((gib, name));
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
        if self.points.is_empty() {
            return self.empty.to_owned();
        }
        let best = self.frontier();
        let told = |index: usize| {
            let point = &self.points[index];
            let (vram, speed) = (
                point.vram().unwrap_or(f64::NAN),
                point.speed().unwrap_or(f64::NAN),
            );
            format!(
                "{} at {} tokens/s and {} GiB",
                point.name,
                number(speed),
                number(vram)
            )
        };
        let mut parts = match best.as_slice() {
            [] => vec!["No point has been measured and is valid".to_owned()],
            [only] => vec![format!("Nothing beats {}", told(*only))],
            [least, .., fastest] => vec![
                format!("Fastest is {}", told(*fastest)),
                format!("least memory takes {}", told(*least)),
            ],
        };
        if let Some((a, b)) = self.alike().first() {
            let more = match self.alike().len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            parts.push(format!(
                "{} and {} are within noise{more}",
                self.points[*a].name, self.points[*b].name
            ));
        }
        let counted =
            |is: fn(&PointState) -> bool| self.points.iter().filter(|point| is(&point.state)).count();
        for (count, words) in [
            (
                counted(|state| matches!(state, PointState::Predicted)),
                "predicted (hollow)",
            ),
            (
                counted(|state| matches!(state, PointState::Invalid(_))),
                "invalid (◇)",
            ),
            (
                counted(|state| matches!(state, PointState::Failed(_))),
                "failed (×)",
            ),
        ] {
            if count > 0 {
                parts.push(format!("{count} {words}"));
            }
        }
        parts.join("; ")
    }

    /// Draws it. Gives the index of a point that was clicked.
    pub fn show(&self, ui: &mut Ui, view: &mut ChartView) -> Option<usize> {
        let summary = self.summary();
        let framed = Framed {
            title: self.title,
            unit: "tokens/s against GiB",
            summary: &summary,
            empty: self.points.is_empty(),
            height: self.height,
        };
        let clicked = framed.show(
            ui,
            view,
            || self.table(),
            |ui, _| Plot::of(self, ui).and_then(|plot| self.plot_ui(&plot, ui)),
        );
        clicked.flatten()
    }

    /// Indexes of the valid measured points that none beats, by rising memory.
    fn frontier(&self) -> Vec<usize> {
        let candidates: Vec<(usize, Tradeoff)> = self
            .points
            .iter()
            .enumerate()
            .filter_map(|(index, point)| Some((index, point.tradeoff()?)))
            .collect();
        let points: Vec<Tradeoff> = candidates.iter().map(|(_, point)| *point).collect();
        frontier(&points)
            .into_iter()
            .map(|place| candidates[place].0)
            .collect()
    }

    /// Pairs of measured points whose throughput differs by noise alone.
    fn alike(&self) -> Vec<(usize, usize)> {
        let measured: Vec<usize> = (0..self.points.len())
            .filter(|&index| self.points[index].tradeoff().is_some())
            .collect();
        let mut pairs = Vec::new();
        for (place, &a) in measured.iter().enumerate() {
            for &b in &measured[place + 1..] {
                let repeats = (&self.points[a].tokens_per_sec, &self.points[b].tokens_per_sec);
                if within_noise(repeats.0, repeats.1) == Some(true) {
                    pairs.push((a, b));
                }
            }
        }
        pairs
    }

    fn table(&self) -> Table {
        let best = self.frontier();
        let number_or_none = |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Number(value, ""));
        let rows = self.points.iter().enumerate().map(|(index, point)| {
            vec![
                Cell::Text(point.name.clone()),
                number_or_none(point.vram()),
                number_or_none(point.speed()),
                number_or_none(stats::sd(&point.tokens_per_sec).ok()),
                Cell::Count(point.tokens_per_sec.len() as f64),
                Cell::Text(if best.contains(&index) {
                    format!("{}, on the frontier", point.state.words())
                } else {
                    point.state.words()
                }),
            ]
        });
        Table {
            columns: vec![
                TableColumn::words("run"),
                TableColumn::numbers("memory", "GiB"),
                TableColumn::numbers("tokens/s", ""),
                TableColumn::numbers("spread", "sd"),
                TableColumn::numbers("repeats", ""),
                TableColumn::words("state"),
            ],
            rows: rows.collect(),
            thinned: None,
        }
    }

    fn plot_ui(&self, plot: &Plot, ui: &mut Ui) -> Option<usize> {
        let tokens = tokens(ui);
        let painter = ui.painter().clone();
        plot.paint_ground(&painter, tokens);
        if let Some((gib, name)) = self.limit {
            plot.paint_limit(gib, name, &painter, tokens);
        }
        let best = self.frontier();
        self.paint_frontier(plot, &best, &painter, tokens);
        for (index, point) in self.points.iter().enumerate() {
            if self.current != Some(index) {
                self.paint_point(plot, index, point, &painter, tokens);
            }
        }
        if let Some((index, point)) = self
            .current
            .and_then(|index| Some((index, self.points.get(index)?)))
        {
            self.paint_point(plot, index, point, &painter, tokens);
        }
        self.paint_names(plot, &best, &painter, tokens);
        self.point_targets_ui(plot, &best, ui)
    }

    /// Steps: with so much memory this is the fastest that there is.
    fn paint_frontier(&self, plot: &Plot, best: &[usize], painter: &Painter, tokens: &Tokens) {
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

    fn paint_point(
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
    fn paint_names(&self, plot: &Plot, best: &[usize], painter: &Painter, tokens: &Tokens) {
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

    /// What is pointed at, has the focus or is clicked.
    fn point_targets_ui(&self, plot: &Plot, best: &[usize], ui: &mut Ui) -> Option<usize> {
        let mut clicked = None;
        let mut told = None;
        for (index, point) in self.points.iter().enumerate() {
            let Some(at) = plot.place(point) else { continue };
            let target = Rect::from_center_size(at, egui::Vec2::splat(TARGET));
            let id = ui.scope_id().with(("point", index));
            let response = target_ui(target, id, point, ui);
            if response.clicked() {
                clicked = Some(index);
            }
            if response.has_focus() {
                let stroke = Stroke::new(2.0, tokens(ui).accent);
                ui.painter().circle_stroke(at, RADIUS + 4.0, stroke);
            }
            if response.hovered() || response.has_focus() {
                told = Some((index, at));
            }
        }
        if let Some((index, at)) = told {
            self.readout_ui(index, best, at, plot, ui);
        }
        clicked
    }

    fn readout_ui(&self, index: usize, best: &[usize], at: Pos2, plot: &Plot, ui: &mut Ui) {
        let tokens = tokens(ui);
        let painter = ui.painter().clone();
        let point = &self.points[index];
        let mut said = vec![figures(point), point.state.words()];
        if best.contains(&index) {
            said.push("on the frontier: nothing with as little memory is faster".to_owned());
        }
        let alike: Vec<&str> = self
            .alike()
            .into_iter()
            .filter_map(|(a, b)| match (a == index, b == index) {
                (true, _) => Some(self.points[b].name.as_str()),
                (_, true) => Some(self.points[a].name.as_str()),
                _ => None,
            })
            .collect();
        if !alike.is_empty() {
            said.push(format!("within noise of {}", alike.join(", ")));
        }
        let widest = (plot.area.width() - 2.0 * theme::INSET).clamp(80.0, 320.0);
        let line = |piece| ReadoutLine {
            shape: None,
            galley: line_of(&painter, &[piece], widest),
        };
        let mut lines = vec![line(strong(&point.name, tokens.strong_text))];
        lines.extend(said.iter().map(|text| line(plain(text, tokens.text))));
        let rect = readout(
            &painter,
            tokens,
            &lines,
            at + vec2(0.0, 2.0 * theme::GRID),
            plot.area,
        );
        let said = format!("{}, {}", point.name, said.join(", "));
        ui.interact(rect, ui.scope_id().with("readout"), Sense::hover())
            .widget_info(|| WidgetInfo::labeled(Role::Label, true, &said));
    }
}

/// What can be pointed at, focused and clicked of a point, with its figures as its name.
fn target_ui(target: Rect, id: Id, point: &ParetoPoint, ui: &mut Ui) -> Response {
    let response = ui
        .interact(target, id, Sense::click())
        .on_hover_cursor(egui::CursorIcon::PointingHand);
    let name = format!("{}: {}", point.name, figures(point));
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
    response
}

/// `1,234 ± 12 tokens/s, 7.80 GiB`.
fn figures(point: &ParetoPoint) -> String {
    let speed = point.speed().map(|speed| match stats::sd(&point.tokens_per_sec) {
        Ok(sd) => format!(
            "{} ± {} tokens/s over {} repeats",
            number(speed),
            number(sd),
            point.tokens_per_sec.len()
        ),
        Err(_) => format!("{} tokens/s", number(speed)),
    });
    let vram = point.vram().map(|vram| format!("{} GiB", number(vram)));
    let known: Vec<String> = [speed, vram].into_iter().flatten().collect();
    if known.is_empty() {
        "no figures".to_owned()
    } else {
        known.join(", ")
    }
}

struct Plot {
    area: Rect,
    x: Axis,
    y: Axis,
    y_ticks: Vec<Tick>,
}

impl Plot {
    fn of(chart: &Pareto, ui: &Ui) -> Option<Self> {
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
    fn place(&self, point: &ParetoPoint) -> Option<Pos2> {
        let y = point
            .speed()
            .map_or(self.area.bottom() - RADIUS - 1.0, |speed| self.y.place(speed));
        Some(pos2(self.x.place(point.vram()?), y))
    }

    fn paint_ground(&self, painter: &Painter, tokens: &Tokens) {
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

    fn paint_limit(&self, gib: f64, name: &str, painter: &Painter, tokens: &Tokens) {
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

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn point(name: &str, vram: f64, speeds: &[f64], state: PointState) -> ParetoPoint {
        ParetoPoint {
            name: name.to_owned(),
            vram_gib: vec![vram],
            tokens_per_sec: speeds.to_vec(),
            state,
        }
    }

    #[test]
    fn a_sentence_names_the_ends_the_noise_and_what_does_not_count() {
        let points = [
            point("bf16", 12.0, &[1000.0, 1010.0, 990.0], PointState::Measured),
            point("nf4", 6.0, &[600.0, 610.0, 590.0], PointState::Measured),
            point("bf16 packed", 12.5, &[998.0, 1012.0, 995.0], PointState::Measured),
            point("r64", 14.0, &[1500.0], PointState::Predicted),
            point(
                "wrong mask",
                5.0,
                &[2000.0],
                PointState::Invalid("loss mask".into()),
            ),
            point("too large", 15.9, &[], PointState::Failed("out of memory".into())),
        ];
        assert_eq!(
            Pareto::new("Memory and speed", &points).summary(),
            "Fastest is bf16 packed at 1,002 tokens/s and 12.5 GiB; least memory takes nf4 at 600 tokens/s and \
             6.00 GiB; bf16 and bf16 packed are within noise; 1 predicted (hollow); 1 invalid (◇); 1 failed (×)"
        );
    }

    #[test]
    fn what_is_invalid_or_predicted_is_never_on_the_frontier() {
        let points = [
            point("a", 1.0, &[9.0], PointState::Predicted),
            point("b", 2.0, &[5.0], PointState::Measured),
            point("c", 1.0, &[9.0], PointState::Invalid("zeros".into())),
        ];
        let chart = Pareto::new("Memory and speed", &points);
        assert_eq!(chart.frontier(), [1]);
        assert_eq!(
            chart.table().to_tsv(),
            "run\tmemory (GiB)\ttokens/s\tspread (sd)\trepeats\tstate\na\t1\t9\t\t1\tpredicted\n\
             b\t2\t5\t\t1\tmeasured, on the frontier\nc\t1\t9\t\t1\tinvalid: zeros\n"
        );
    }

    #[test]
    fn no_points_are_said_to_be_missing() {
        assert_eq!(
            Pareto::new("Memory and speed", &[]).empty("No run yet").summary(),
            "No run yet"
        );
    }
}
