//! One knob of a sweep: its values along the bottom, what the runs of each came to above them. Several are drawn on one
//! scale, so that a knob that does nothing looks flat beside one that does much.

use egui::{Align2, Painter, Pos2, Rangef, Rect, Response, Stroke, Ui, pos2, vec2};
use tunesmith_report::format::number;

use super::ChartView;
use super::axis::{Axis, round_stretch};
use super::frame::{Cell, Framed, Table, TableColumn};
use super::paint::{Shaped, line_of, mark, place_text, plain, strong};
use crate::theme::{self, Tokens, tokens};

/// Height without heading and sentence, in points.
const HEIGHT: f32 = 36.0 * theme::GRID;
/// Radius of a point, in points.
const RADIUS: f32 = 4.5;

/// A value of a knob.
#[derive(Clone, Debug, PartialEq)]
pub struct KnobMark {
    /// The value, e.g. `8`.
    pub setting: String,
    /// Mean of its runs.
    pub mean: f64,
    /// Their standard deviation.
    pub sd: Option<f64>,
    /// Whether it is what the others are compared with.
    pub base: bool,
}

/// A chart of one knob.
#[must_use = "it is drawn by `show`"]
pub struct KnobChart<'a> {
    title: &'a str,
    unit: &'a str,
    marks: &'a [KnobMark],
    most: f64,
}

impl<'a> KnobChart<'a> {
    /// A knob by its name, which is unique on its page. `most` is the top of the scale that all knobs share.
    pub fn new(title: &'a str, unit: &'a str, marks: &'a [KnobMark], most: f64) -> Self {
        Self {
            title,
            unit,
            marks,
            most,
        }
    }

    /// The highest value of some knobs, whiskers included.
    pub fn most<'m>(marks: impl Iterator<Item = &'m KnobMark>) -> f64 {
        marks
            .map(|mark| mark.mean + mark.sd.unwrap_or(0.0))
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max)
    }

    /// The chart in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        let by = |of: fn(f64, f64) -> bool| {
            let finite = self.marks.iter().filter(|mark| mark.mean.is_finite());
            finite.reduce(|best, mark| if of(mark.mean, best.mean) { mark } else { best })
        };
        match (by(|a, b| a > b), by(|a, b| a < b)) {
            (Some(most), Some(least)) if most.setting != least.setting => format!(
                "From {} {} at {} to {} at {}",
                number(least.mean),
                self.unit,
                least.setting,
                number(most.mean),
                most.setting
            ),
            _ => "Fewer than two values have been measured".to_owned(),
        }
    }

    /// Draws it.
    pub fn show(&self, ui: &mut Ui, view: &mut ChartView) {
        let summary = self.summary();
        let framed = Framed {
            title: self.title,
            unit: self.unit,
            summary: &summary,
            empty: self.marks.is_empty() || self.most <= 0.0,
            height: HEIGHT,
        };
        framed.show(
            ui,
            view,
            || self.table(),
            |ui, response| self.plot_ui(ui, response),
        );
    }

    fn plot_ui(&self, ui: &Ui, response: &Response) {
        let tokens = tokens(ui);
        let painter = ui.painter();
        let space = ui.max_rect();
        let weak = |text: &str| line_of(painter, &[plain(text, tokens.weak_text)], f32::INFINITY);
        let (low, high, ticks) = round_stretch(0.0, self.most, 3);
        let widest = ticks
            .iter()
            .map(|tick| weak(&tick.label).size().x)
            .fold(0.0, f32::max);
        let area = Rect::from_min_max(
            space.min + vec2(widest + 2.0 * theme::GRID, 2.0 * theme::GRID),
            space.max - vec2(theme::GRID, 6.0 * theme::GRID),
        );
        if area.width() < 40.0 {
            return;
        }
        let y = Axis::new(low, high, false, Rangef::new(area.bottom(), area.top()));
        for tick in &ticks {
            let at = painter.round_to_pixel_center(y.place(tick.value));
            let colour = if tick.value > 0.0 {
                tokens.grid
            } else {
                tokens.control_line
            };
            painter.hline(area.x_range(), at, Stroke::new(1.0, colour));
            let label_at = pos2(area.left() - 2.0 * theme::GRID, at);
            place_text(painter, weak(&tick.label), label_at, Align2::RIGHT_CENTER);
        }
        let room = area.width() / self.marks.len() as f32;
        let x = |index: usize| area.left() + room * (index as f32 + 0.5);
        let places: Vec<Pos2> = self
            .marks
            .iter()
            .enumerate()
            .filter(|(_, mark)| mark.mean.is_finite())
            .map(|(index, mark)| pos2(x(index), y.place(mark.mean)))
            .collect();
        painter.line(places, Stroke::new(1.6, tokens.series(1)));
        for (index, knob) in self.marks.iter().enumerate() {
            paint_mark(knob, pos2(x(index), area.bottom()), room, &y, painter, tokens);
        }
        let pointed = response.hover_pos().and_then(|pointer| {
            let index = ((pointer.x - area.left()) / room).floor();
            (index >= 0.0).then(|| self.marks.get(index as usize)).flatten()
        });
        if let Some(knob) = pointed {
            response.clone().on_hover_text_at_pointer(self.words(knob));
        }
    }

    fn words(&self, knob: &KnobMark) -> String {
        let sd = knob
            .sd
            .map_or_else(String::new, |sd| format!(" ± {}", number(sd)));
        let base = if knob.base {
            ", what the others are compared with"
        } else {
            ""
        };
        format!("{}: {}{sd} {}{base}", knob.setting, number(knob.mean), self.unit)
    }

    fn table(&self) -> Table {
        let rows = self.marks.iter().map(|knob| {
            vec![
                Cell::Text(knob.setting.clone()),
                Cell::Number(knob.mean, ""),
                knob.sd.map_or(Cell::Empty, |sd| Cell::Number(sd, "")),
            ]
        });
        Table {
            columns: vec![
                TableColumn::words("setting"),
                TableColumn::numbers("mean", self.unit),
                TableColumn::numbers("sd", self.unit),
            ],
            rows: rows.collect(),
            thinned: None,
        }
    }
}

/// One value: its name below the floor, its whisker and its point.
fn paint_mark(knob: &KnobMark, floor: Pos2, room: f32, y: &Axis, painter: &Painter, tokens: &Tokens) {
    let piece = if knob.base {
        strong(&knob.setting, tokens.strong_text)
    } else {
        plain(&knob.setting, tokens.text)
    };
    let label = line_of(painter, &[piece], (room - theme::GRID).max(8.0));
    place_text(painter, label, floor + vec2(0.0, theme::GRID), Align2::CENTER_TOP);
    if !knob.mean.is_finite() {
        return;
    }
    let (x, colour) = (floor.x, tokens.series(1));
    if let Some(sd) = knob.sd {
        let ends = Rangef::new(y.place(knob.mean + sd), y.place((knob.mean - sd).max(0.0)));
        let line = Stroke::new(1.3, colour);
        painter.vline(x, ends, line);
        for at in [ends.min, ends.max] {
            painter.hline(Rangef::new(x - 4.0, x + 4.0), at, line);
        }
    }
    let shape = if knob.base { Shaped::Ring } else { Shaped::Disc };
    let at = pos2(x, y.place(knob.mean));
    mark(painter, shape, at, RADIUS, colour, tokens.panel);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Vec<KnobMark> {
        [("1", 100.0, true), ("4", 240.0, false), ("8", 250.0, false)]
            .into_iter()
            .map(|(setting, mean, base)| KnobMark {
                setting: setting.to_owned(),
                mean,
                sd: base.then_some(2.0),
                base,
            })
            .collect()
    }

    #[test]
    fn a_sentence_tells_the_ends_and_a_table_every_value() {
        let marks = marks();
        let most = KnobChart::most(marks.iter());
        assert!((most - 250.0).abs() < 1e-12);
        let chart = KnobChart::new("train.micro_batch", "tokens/s", &marks, most);
        assert_eq!(chart.summary(), "From 100 tokens/s at 1 to 250 at 8");
        assert!(chart.table().to_tsv().contains("1\t100\t2\n4\t240\t\n"));
        assert!(chart.words(&marks[0]).contains("compared with"));
        let alone = KnobChart::new("x", "tokens/s", &marks[..1], most);
        assert_eq!(alone.summary(), "Fewer than two values have been measured");
    }
}
