//! What a page is made of: the column, panels, and what stands there when there is nothing, or something is wrong.

use egui::{Align, CornerRadius, Frame, Label, Layout, Margin, RichText, ScrollArea, Stroke, Ui, vec2};

use super::{badge, caption, copy_button, fold, primary_button};
use crate::{
    commands::Commands,
    state::Problem,
    theme::{self, Tone, tokens},
};

/// A page: one column that scrolls, opened by a sentence and what follows from it.
pub fn page<R>(ui: &mut Ui, title: &str, lead: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    let margin = 6.0 * theme::GRID;
    ScrollArea::vertical()
        .id_salt("page")
        .auto_shrink(false)
        .show(ui, |ui| {
            let column = (ui.available_width() - 2.0 * margin).clamp(200.0, theme::COLUMN);
            let left = ((ui.available_width() - column) / 2.0).max(margin);
            ui.horizontal_top(|ui| {
                ui.spacing_mut().item_spacing.x = 0.0;
                ui.add_space(left);
                ui.vertical(|ui| {
                    ui.set_width(column);
                    ui.spacing_mut().item_spacing = vec2(2.0 * theme::GRID, 2.0 * theme::GRID);
                    ui.add_space(4.0 * theme::GRID);
                    let colour = tokens(ui).strong_text;
                    ui.label(RichText::new(title).font(theme::title_font()).color(colour));
                    if !lead.is_empty() {
                        caption(ui, lead);
                    }
                    ui.add_space(2.0 * theme::GRID);
                    let result = add(ui);
                    ui.add_space(6.0 * theme::GRID);
                    result
                })
                .inner
            })
            .inner
        })
        .inner
}

/// A panel with its heading; without one where `heading` is empty.
pub fn panel<R>(ui: &mut Ui, heading: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    let tokens = tokens(ui);
    let frame = Frame::new()
        .fill(tokens.panel)
        .stroke(Stroke::new(1.0, tokens.line))
        .corner_radius(CornerRadius::same(theme::CORNER))
        .inner_margin(Margin::same(theme::INSET as i8));
    let result = frame
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            if !heading.is_empty() {
                subheading(ui, heading);
                ui.add_space(theme::GRID);
            }
            add(ui)
        })
        .inner;
    ui.add_space(theme::GAP - ui.spacing().item_spacing.y);
    result
}

/// What needs this much room: where there is less, it is scrolled sideways and not cut.
pub fn sideways(ui: &mut Ui, id: &str, narrowest: f32, add: impl FnOnce(&mut Ui)) {
    ui.push_id(id, |ui| {
        if ui.available_width() >= narrowest {
            return add(ui);
        }
        ScrollArea::horizontal().show(ui, |ui| {
            ui.set_width(narrowest);
            add(ui);
        });
    });
}

/// Text that keeps its word spaces: columns would stretch each line to their width.
pub fn ragged<R>(ui: &mut Ui, add: impl FnOnce(&mut Ui) -> R) -> R {
    ui.with_layout(Layout::top_down(Align::LEFT), add).inner
}

/// A heading within a panel.
pub fn subheading(ui: &mut Ui, text: &str) {
    let colour = tokens(ui).strong_text;
    ui.label(RichText::new(text).font(theme::heading_font()).color(colour));
}

/// A verdict and its sentence, in a line that wraps.
pub fn verdict_line(ui: &mut Ui, tone: Tone, sentence: &str) {
    ui.horizontal_wrapped(|ui| {
        badge(ui, tone, tone.word());
        ui.label(sentence);
    });
}

/// Width of the column of verdicts, in points.
const VERDICTS: f32 = 148.0;
/// Narrower than this, a verdict stands before its sentence and not in a column.
const COLUMN_OF_VERDICTS: f32 = 560.0;

/// A verdict in a column of its own, its sentence beside it and what matters less below that.
pub fn verdict_row(ui: &mut Ui, tone: Tone, word: &str, sentence: &str, below: &str) {
    let weak = RichText::new(below).small().color(tokens(ui).weak_text);
    if ui.available_width() < COLUMN_OF_VERDICTS {
        ui.horizontal_wrapped(|ui| {
            badge(ui, tone, word);
            ui.label(sentence);
        });
        if !below.is_empty() {
            ui.add(Label::new(weak).wrap());
        }
        return;
    }
    ui.horizontal_top(|ui| {
        ui.allocate_ui_with_layout(
            vec2(VERDICTS, theme::ROW - theme::GRID),
            Layout::left_to_right(Align::Min),
            |ui| {
                ui.set_min_width(VERDICTS);
                badge(ui, tone, word);
            },
        );
        ui.vertical(|ui| {
            ui.spacing_mut().item_spacing.y = 2.0;
            ui.add(Label::new(sentence).wrap());
            if !below.is_empty() {
                ui.add(Label::new(weak).wrap());
            }
        });
    });
}

/// Something that is being read. It does not move: a measurement may be running.
pub fn loading(ui: &mut Ui, what: &str) {
    caption(ui, &format!("{what}…"));
}

/// What will be here, and the action that fills it. Returns whether the action was chosen.
pub fn empty(ui: &mut Ui, title: &str, text: &str, action: Option<&str>) -> bool {
    panel(ui, "", |ui| {
        ui.add_space(4.0 * theme::GRID);
        let chosen = ui
            .vertical_centered(|ui| {
                subheading(ui, title);
                ui.set_max_width(560.0);
                caption(ui, text);
                ui.add_space(2.0 * theme::GRID);
                action.is_some_and(|action| primary_button(ui, action).clicked())
            })
            .inner;
        ui.add_space(4.0 * theme::GRID);
        chosen
    })
}

/// What went wrong, why, and what to do. The page around it stays usable.
pub fn problem_panel(ui: &mut Ui, title: &str, problem: &Problem, out: &mut Commands) {
    let tokens = tokens(ui);
    let colours = tokens.tone(Tone::Stop);
    Frame::new()
        .fill(tokens.panel)
        .stroke(Stroke::new(1.0, colours.text))
        .corner_radius(CornerRadius::same(theme::CORNER))
        .inner_margin(Margin::same(theme::INSET as i8))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.horizontal_wrapped(|ui| {
                badge(ui, Tone::Stop, Tone::Stop.word());
                subheading(ui, title);
            });
            ui.label(&problem.message);
            for hint in &problem.hints {
                ui.horizontal_top(|ui| {
                    ui.label("→");
                    ui.add(egui::Label::new(hint).wrap());
                });
            }
            ui.horizontal(|ui| {
                copy_button(ui, "the error", &problem.text(), out);
                caption(ui, &problem.code);
            });
            if !problem.last_lines.is_empty() {
                fold(ui, "Its last lines", false, |ui| {
                    for line in &problem.last_lines {
                        ui.monospace(line);
                    }
                });
            }
        });
    ui.add_space(theme::GAP - ui.spacing().item_spacing.y);
}
