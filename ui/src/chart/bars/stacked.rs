//! One bar of the parts of a whole, against the limit that it has to stay under.

use std::sync::Arc;

use egui::{
    Align2, Color32, CornerRadius, Galley, Painter, Rangef, Rect, Response, Stroke, Ui, Vec2, pos2, vec2,
};
use tunesmith_report::format::number;

use crate::chart::ChartView;
use crate::chart::frame::{Cell, Framed, Table, TableColumn};
use crate::chart::paint::{line_of, place_text, plain, strong};
use crate::theme::{self, Tokens, Tone, tokens};

/// Height of the bar, in points.
const STACK: f32 = 6.0 * theme::GRID;
/// Room for a colour before a name, in points.
const KEY: f32 = 4.0 * theme::GRID;
/// Height of a line of a legend, in points.
const LEGEND_LINE: f32 = 5.0 * theme::GRID;

/// One bar of parts, with their sum and the limit that it has to stay under.
#[must_use = "it is drawn by `show`"]
pub struct StackedBar<'a> {
    title: &'a str,
    unit: &'a str,
    parts: &'a [(&'a str, f64)],
    limit: Option<(f64, &'a str)>,
    empty: &'a str,
}

impl<'a> StackedBar<'a> {
    /// A bar of named parts, none of them below zero, under a title that is unique on its page.
    pub fn new(title: &'a str, unit: &'a str, parts: &'a [(&'a str, f64)]) -> Self {
        Self {
            title,
            unit,
            parts,
            limit: None,
            empty: "The parts are not known yet",
        }
    }

    /// The limit, with its name.
    pub fn limit(mut self, value: f64, name: &'a str) -> Self {
        self.limit = Some((value, name));
        self
    }

    /// What is said while there are no parts.
    pub fn empty(mut self, text: &'a str) -> Self {
        self.empty = text;
        self
    }

    /// The bar in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        if self.parts.is_empty() {
            return self.empty.to_owned();
        }
        let (unit, total) = (self.unit, self.total());
        let greatest = self.parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let mostly = greatest.map_or_else(String::new, |(name, value)| {
            format!(", most of it {name}: {} {unit}", number(*value))
        });
        match self.limit {
            Some((limit, name)) if total > limit => format!(
                "{} {unit} in all, {} {unit} over the {name} ({} {unit}){mostly}",
                number(total),
                number(total - limit),
                number(limit)
            ),
            Some((limit, name)) => format!(
                "{} {unit} in all, {} {unit} below the {name} ({} {unit}){mostly}",
                number(total),
                number(limit - total),
                number(limit)
            ),
            None => format!("{} {unit} in all{mostly}", number(total)),
        }
    }

    /// Draws it.
    pub fn show(&self, ui: &mut Ui, view: &mut ChartView) {
        let summary = self.summary();
        let (legend, legend_height) = self.legend(ui.painter(), tokens(ui), ui.available_width());
        let height = LEGEND_LINE + STACK + 2.0 * theme::GRID + legend_height;
        let framed = Framed {
            title: self.title,
            unit: self.unit,
            summary: &summary,
            empty: self.parts.is_empty(),
            height: if view.table {
                (self.parts.len() as f32 + 3.0) * theme::ROW
            } else {
                height
            },
        };
        framed.show(
            ui,
            view,
            || self.table(),
            |ui, response| self.stack_ui(&legend, ui, response),
        );
    }

    fn total(&self) -> f64 {
        self.parts.iter().map(|(_, value)| value).sum()
    }

    fn stack_ui(&self, legend: &[(Vec2, Arc<Galley>)], ui: &mut Ui, response: &Response) {
        let tokens = tokens(ui);
        let painter = ui.painter().clone();
        let space = ui.max_rect();
        let total = self.total();
        let most = self
            .limit
            .map_or(total, |(limit, _)| limit.max(total))
            .max(f64::MIN_POSITIVE);
        let bar = Rect::from_min_size(space.min + vec2(0.0, LEGEND_LINE), vec2(space.width(), STACK));
        let place = |value: f64| bar.left() + bar.width() * (value / most).clamp(0.0, 1.0) as f32;
        painter.rect_filled(bar, 4, tokens.grid);
        let mut from = 0.0;
        for (index, (name, value)) in self.parts.iter().enumerate() {
            let ends = Rangef::new(place(from), place(from + value));
            from += value;
            let rect = Rect::from_x_y_ranges(ends, bar.y_range());
            // A line of what is behind keeps neighbours apart, also without colour.
            let gap = if index + 1 < self.parts.len() && rect.width() > 3.0 {
                1.5
            } else {
                0.0
            };
            let shown = rect.with_max_x(rect.right() - gap);
            painter.rect_filled(
                shown,
                segment_corner(index, self.parts.len(), total >= most),
                tokens.series(index),
            );
            if response.hover_pos().is_some_and(|pointer| rect.contains(pointer)) {
                painter.rect_stroke(
                    shown,
                    2,
                    Stroke::new(2.0, tokens.strong_text),
                    egui::StrokeKind::Inside,
                );
                let text = format!("{name}: {} {}", number(*value), self.unit);
                response.clone().on_hover_text_at_pointer(text);
            }
        }
        self.paint_sum(total, bar, place, &painter, tokens);
        for (index, (at, galley)) in legend.iter().enumerate() {
            let at = bar.left_bottom() + vec2(0.0, 2.0 * theme::GRID + LEGEND_LINE / 2.0) + *at;
            let swatch = Rect::from_center_size(at + vec2(5.0, 0.0), vec2(10.0, 10.0));
            painter.rect_filled(swatch, 2, tokens.series(index));
            place_text(&painter, galley.clone(), at + vec2(KEY, 0.0), Align2::LEFT_CENTER);
        }
    }

    /// The parts with their sizes, one after the other in lines that wrap: where each lies, and the height of all.
    fn legend(&self, painter: &Painter, tokens: &Tokens, width: f32) -> (Vec<(Vec2, Arc<Galley>)>, f32) {
        let mut at = Vec2::ZERO;
        let mut entries = Vec::new();
        for (name, value) in self.parts {
            let (name, value, unit) = (format!("{name}  "), number(*value), format!(" {}", self.unit));
            let pieces = [
                plain(&name, tokens.text),
                strong(&value, tokens.strong_text),
                plain(&unit, tokens.weak_text),
            ];
            let galley = line_of(painter, &pieces, (width - KEY).max(40.0));
            let wide = KEY + galley.size().x;
            if at.x > 0.0 && at.x + wide > width {
                at = vec2(0.0, at.y + LEGEND_LINE);
            }
            entries.push((at, galley));
            at.x += wide + 6.0 * theme::GRID;
        }
        (entries, at.y + LEGEND_LINE)
    }

    fn paint_sum(
        &self,
        total: f64,
        bar: Rect,
        place: impl Fn(f64) -> f32,
        painter: &Painter,
        tokens: &Tokens,
    ) {
        let over = self.limit.is_some_and(|(limit, _)| total > limit);
        let words = if over { " in all, too much" } else { " in all" };
        let colour: Color32 = if over {
            tokens.tone(Tone::Stop).text
        } else {
            tokens.strong_text
        };
        let unit = format!(" {}", self.unit);
        let sum = line_of(
            painter,
            &[
                strong(&number(total), colour),
                plain(&unit, tokens.weak_text),
                plain(words, tokens.weak_text),
            ],
            f32::INFINITY,
        );
        let y = bar.top() - theme::GRID;
        let sum = place_text(painter, sum, pos2(bar.left(), y), Align2::LEFT_BOTTOM);
        let Some((limit, name)) = self.limit else { return };
        let x = painter.round_to_pixel_center(place(limit)).min(bar.right() - 1.0);
        painter.vline(
            x,
            Rangef::new(bar.top() - 4.0, bar.bottom() + 4.0),
            Stroke::new(2.0, tokens.strong_text),
        );
        let text = format!("{name} {} {}", number(limit), self.unit);
        let widest = (bar.right() - sum.right() - 4.0 * theme::GRID).max(0.0);
        let galley = line_of(painter, &[plain(&text, tokens.text)], widest);
        let half = galley.size().x / 2.0;
        let right = (x + half).clamp(
            (sum.right() + 4.0 * theme::GRID + 2.0 * half).min(bar.right()),
            bar.right(),
        );
        place_text(painter, galley, pos2(right, y), Align2::RIGHT_BOTTOM);
    }

    fn table(&self) -> Table {
        let mut rows: Vec<Vec<Cell>> = self
            .parts
            .iter()
            .map(|(name, value)| vec![Cell::Text((*name).to_owned()), Cell::Number(*value, "")])
            .collect();
        rows.push(vec![
            Cell::Text("in all".to_owned()),
            Cell::Number(self.total(), ""),
        ]);
        if let Some((limit, name)) = self.limit {
            rows.push(vec![Cell::Text(name.to_owned()), Cell::Number(limit, "")]);
        }
        Table {
            columns: vec![
                TableColumn::words("part"),
                TableColumn::numbers("size", self.unit),
            ],
            rows,
            thinned: None,
        }
    }
}

fn segment_corner(index: usize, parts: usize, reaches_end: bool) -> CornerRadius {
    let left = if index == 0 { 4 } else { 0 };
    let right = if index + 1 == parts && reaches_end { 4 } else { 0 };
    CornerRadius {
        nw: left,
        sw: left,
        ne: right,
        se: right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_says_its_sum_and_its_distance_from_the_limit() {
        let parts = [("weights", 6.0), ("activations", 2.5)];
        let stack = StackedBar::new("Memory need", "GiB", &parts);
        assert_eq!(stack.summary(), "8.50 GiB in all, most of it weights: 6.00 GiB");
        assert_eq!(
            stack.limit(8.0, "limit").summary(),
            "8.50 GiB in all, 0.500 GiB over the limit (8.00 GiB), most of it weights: 6.00 GiB"
        );
        let stack = StackedBar::new("Memory need", "GiB", &parts).limit(16.0, "limit");
        assert_eq!(
            stack.summary(),
            "8.50 GiB in all, 7.50 GiB below the limit (16.0 GiB), most of it weights: 6.00 GiB"
        );
        assert_eq!(
            stack.table().to_tsv(),
            "part\tsize (GiB)\nweights\t6\nactivations\t2.5\nin all\t8.5\nlimit\t16\n"
        );
    }
}
