//! What can be pointed at, focused and clicked in the chart, and what it tells then.

use egui::{Id, Pos2, Rect, Response, Role, Sense, Stroke, Ui, WidgetInfo, vec2};

use super::layout::Plot;
use super::{Pareto, ParetoPoint, RADIUS};
use crate::chart::paint::{ReadoutLine, line_of, plain, readout, strong};
use crate::theme::{self, tokens};

/// What a pointer has to hit, in points.
const TARGET: f32 = 6.0 * theme::GRID;

impl Pareto<'_> {
    /// What is pointed at, has the focus or is clicked.
    pub(super) fn point_targets_ui(&self, plot: &Plot, best: &[usize], ui: &mut Ui) -> Option<usize> {
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
        let mut said = vec![point.figures(), point.state.words()];
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
    let name = format!("{}: {}", point.name, point.figures());
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
    response
}
