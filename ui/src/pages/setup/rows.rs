//! Rows that unfold, and the labelled lines within them.

use std::collections::BTreeSet;

use egui::{
    Align, CornerRadius, Frame, Label, Layout, Margin, Rect, RichText, Role, Sense, Shape, Stroke,
    StrokeKind, Ui, UiBuilder, WidgetInfo, pos2, vec2,
};
use tunesmith_setup::doctor::Place;

use super::words;
use crate::{
    theme::{self, tokens},
    widgets,
};

/// Width of the names of labelled lines.
const LABEL: f32 = 108.0;
/// Width of what stands before a row's words: the mark that says whether it is unfolded.
pub(super) const MARK: f32 = 5.0 * theme::GRID;

/// A row that unfolds in place. `id` is unique on the page; `name` says the row to those who cannot see it; `row` draws
/// it within the space that it is given, `body` what unfolds.
pub(super) fn unfolding(
    ui: &mut Ui,
    open: &mut BTreeSet<String>,
    id: &str,
    name: &str,
    row: impl FnOnce(&mut Ui),
    body: impl FnOnce(&mut Ui),
) {
    let tokens = tokens(ui);
    // One row close under the other.
    ui.add_space(-ui.spacing().item_spacing.y);
    let mut is_open = open.contains(id);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), theme::ROW), Sense::click());
    if response.clicked() {
        is_open = !is_open;
        if is_open {
            open.insert(id.to_owned());
        } else {
            open.remove(id);
        }
    }
    if ui.is_rect_visible(rect) {
        let corner = CornerRadius::same(theme::SMALL_CORNER);
        if response.hovered() {
            ui.painter().rect_filled(rect, corner, tokens.faint);
        }
        if response.has_focus() {
            let stroke = Stroke::new(1.5, tokens.accent);
            ui.painter().rect_stroke(rect, corner, stroke, StrokeKind::Inside);
        }
        chevron(ui, rect, is_open);
        let inner = Rect::from_min_max(pos2(rect.left() + MARK, rect.top()), rect.max);
        let mut words = ui.new_child(
            UiBuilder::new()
                .id_salt(id)
                .max_rect(inner)
                .layout(Layout::left_to_right(Align::Center)),
        );
        // Words that could be selected would take the click away from the row.
        words.style_mut().interaction.selectable_labels = false;
        words.set_clip_rect(words.clip_rect().intersect(rect));
        row(&mut words);
    }
    response.widget_info(|| {
        let mut info = WidgetInfo::labeled(Role::DisclosureTriangle, true, name);
        info.selected = Some(is_open);
        info
    });
    if is_open {
        Frame::new()
            .inner_margin(Margin {
                left: MARK as i8,
                right: 0,
                top: 2,
                bottom: 12,
            })
            .show(ui, |ui| {
                ui.set_width(ui.available_width());
                ui.spacing_mut().item_spacing.y = theme::GRID;
                ui.push_id(id, body);
            });
    }
}

fn chevron(ui: &Ui, row: Rect, is_open: bool) {
    let centre = pos2(row.left() + MARK / 2.0 - 2.0, row.center().y);
    let points = if is_open {
        [vec2(-4.0, -2.0), vec2(0.0, 2.5), vec2(4.0, -2.0)]
    } else {
        [vec2(-2.0, -4.0), vec2(2.5, 0.0), vec2(-2.0, 4.0)]
    };
    let stroke = Stroke::new(1.5, tokens(ui).weak_text);
    ui.painter().add(Shape::line(
        points.iter().map(|point| centre + *point).collect(),
        stroke,
    ));
}

/// A line with its name before it; nothing where there is no text.
pub(super) fn said(ui: &mut Ui, name: &str, text: &str) {
    if !text.is_empty() {
        named(ui, name, |ui| {
            ui.add(Label::new(text).wrap());
        });
    }
}

/// What stands before a line, in a column of its own.
pub(super) fn named<R>(ui: &mut Ui, name: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    let colour = tokens(ui).weak_text;
    ui.horizontal_top(|ui| {
        let height = ui.text_style_height(&egui::TextStyle::Body);
        ui.allocate_ui_with_layout(vec2(LABEL, height), Layout::left_to_right(Align::Min), |ui| {
            ui.set_min_width(LABEL);
            ui.add(Label::new(RichText::new(name).color(colour)).truncate());
        });
        ui.vertical(|ui| {
            ui.set_width(ui.available_width());
            add(ui)
        })
        .inner
    })
    .inner
}

/// Where a command is to be run, where that is not here.
pub(super) fn place_ui(ui: &mut Ui, place: Place) {
    if let Some(place) = words::place(place) {
        widgets::caption(ui, &format!("Run it {place}"));
    }
}

/// Words of a fixed width within a row, cut with the whole of them on hover.
pub(super) fn cell(ui: &mut Ui, width: f32, text: RichText) {
    ui.allocate_ui_with_layout(
        vec2(width, theme::ROW),
        Layout::left_to_right(Align::Center),
        |ui| {
            ui.set_min_width(width);
            ui.add(Label::new(text).truncate());
        },
    );
}
