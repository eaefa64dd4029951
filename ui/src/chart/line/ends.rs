//! What stands at the ends of the lines: their names where there are several, and their last values.

use std::sync::Arc;

use egui::{Align2, Galley, Painter, Pos2, Rangef, pos2, vec2};
use tunesmith_report::format::number;

use super::layout::Plot;
use super::{BETWEEN, KEY, LineChart, TEXT_LINE};
use crate::chart::paint::{Shaped, line_of, mark, place_text, plain, strong};
use crate::theme::{self, Tokens};

/// The end of a line and what stands there: its name where there are several, its value where there is room.
pub(super) struct End {
    line: usize,
    x: f64,
    value: f64,
    name: Option<Arc<Galley>>,
    shown: Option<Arc<Galley>>,
}

impl End {
    pub(super) fn width(&self) -> f32 {
        let name = self
            .name
            .as_ref()
            .map_or(0.0, |name| KEY + name.size().x + BETWEEN);
        name + self.shown.as_ref().map_or(0.0, |shown| shown.size().x)
    }
}

impl LineChart<'_> {
    pub(super) fn end_labels(
        &self,
        painter: &Painter,
        tokens: &Tokens,
        at_ends: bool,
        widest_name: f32,
    ) -> Vec<End> {
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

    /// The last value of each line at its end, or the names above where there is no room.
    pub(super) fn paint_ends(&self, plot: &Plot, painter: &Painter, tokens: &Tokens) {
        for end in &plot.ends {
            let place = self.lines[end.line].place;
            let at = pos2(plot.x.place(end.x), plot.y.place_or_low(end.value));
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
            let wanted: Vec<f32> = plot
                .ends
                .iter()
                .map(|end| plot.y.place_or_low(end.value))
                .collect();
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
