//! What the pointer tells of a line chart: the values at the place that the charts of a page share.

use egui::{Role, Sense, Stroke, Ui, WidgetInfo, pos2};
use tunesmith_report::format::number;

use super::layout::Plot;
use super::{Line, LineChart};
use crate::chart::frame::in_a_sentence;
use crate::chart::paint::{ReadoutLine, Shaped, line_of, mark, plain, readout, strong};
use crate::theme::{self, tokens};

/// A value further than this from the cursor is not told, in points.
const NEAR: f32 = 5.0;

impl LineChart<'_> {
    /// The values at the point nearest to x, in a box beside it.
    pub(super) fn readout_ui(&self, plot: &Plot, x: f64, ui: &mut Ui) {
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
                let at = pos2(plot.x.place(x), plot.y.place_or_low(y));
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
}
