//! Buttons, fields and what is folded away.

use egui::{
    Atom, Button, CollapsingHeader, CornerRadius, CursorIcon, Frame, Label, Margin, Response, RichText, Role,
    Sense, Stroke, Ui, WidgetInfo, vec2,
};

use super::caption;
use crate::{
    commands::{Command, Commands},
    glossary,
    theme::{self, tokens},
};

/// The one action of a page.
pub fn primary_button(ui: &mut Ui, text: &str) -> Response {
    let tokens = tokens(ui);
    ui.scope(|ui| {
        let widgets = &mut ui.visuals_mut().widgets;
        for (visuals, fill) in [
            (&mut widgets.inactive, tokens.accent),
            (&mut widgets.hovered, tokens.accent_hovered),
            (&mut widgets.active, tokens.accent_hovered),
        ] {
            visuals.weak_bg_fill = fill;
            visuals.bg_fill = fill;
            visuals.fg_stroke.color = tokens.on_accent;
            visuals.bg_stroke = Stroke::NONE;
        }
        widgets.active.bg_stroke = Stroke::new(2.0, tokens.strong_text);
        let text = RichText::new(text).font(theme::strong_font());
        let centred = (Atom::grow(), text, Atom::grow());
        ui.add(Button::new(centred).min_size(vec2(120.0, 9.0 * theme::GRID)))
    })
    .inner
}

/// A button beside a line of text.
pub fn small_button(ui: &mut Ui, text: &str) -> Response {
    ui.add(Button::new(RichText::new(text).size(theme::SMALL)).min_size(vec2(0.0, 6.0 * theme::GRID)))
}

/// A button that looks like a link.
pub fn link_button(ui: &mut Ui, text: &str) -> Response {
    let colour = tokens(ui).link;
    ui.add(Button::new(RichText::new(text).color(colour)).frame(false))
        .on_hover_cursor(CursorIcon::PointingHand)
}

/// Puts `text` on the clipboard; `what` names it: "the command".
pub fn copy_button(ui: &mut Ui, what: &str, text: &str, out: &mut Commands) -> Response {
    let response = small_button(ui, "Copy").on_hover_text(format!("Copy {what}"));
    response.widget_info(|| WidgetInfo::labeled(Role::Button, ui.is_enabled(), format!("Copy {what}")));
    if response.clicked() {
        out.copy(text, what);
    }
    response
}

/// A command, as it would be typed, with its copy button.
pub fn command_block(ui: &mut Ui, command: &str, out: &mut Commands) {
    let tokens = tokens(ui);
    Frame::new()
        .fill(tokens.code)
        .stroke(Stroke::new(1.0, tokens.line))
        .corner_radius(CornerRadius::same(theme::SMALL_CORNER))
        .inner_margin(Margin::symmetric(10, 6))
        .show(ui, |ui| {
            ui.horizontal_top(|ui| {
                let space = (ui.available_width() - 64.0).max(80.0);
                ui.vertical(|ui| {
                    ui.set_width(space);
                    ui.add(Label::new(RichText::new(command).monospace()).wrap());
                });
                copy_button(ui, "the command", command, out);
            });
        });
}

/// Something that unfolds in place.
pub fn fold<R>(ui: &mut Ui, title: &str, open: bool, add: impl FnOnce(&mut Ui) -> R) -> Option<R> {
    CollapsingHeader::new(title)
        .id_salt(title)
        .default_open(open)
        .show_unindented(ui, |ui| {
            ui.add_space(theme::GRID);
            add(ui)
        })
        .body_returned
}

/// A field with its name to the left and its help below. The widget that `add` returns is named by it.
pub fn field(ui: &mut Ui, name: &str, help: &str, add: impl FnOnce(&mut Ui) -> Response) -> Response {
    ui.horizontal_top(|ui| {
        let label = ui
            .allocate_ui_with_layout(
                vec2(180.0, theme::ROW),
                egui::Layout::left_to_right(egui::Align::Center),
                |ui| {
                    ui.set_min_width(180.0);
                    ui.add(Label::new(name).truncate())
                },
            )
            .inner;
        ui.vertical(|ui| {
            let response = add(ui).labelled_by(label.id);
            if !help.is_empty() {
                let colour = tokens(ui).weak_text;
                ui.add(Label::new(RichText::new(help).size(theme::SMALL).color(colour)).wrap());
            }
            response
        })
        .inner
    })
    .inner
}

/// One of a few choices, side by side. Returns whether it changed.
pub fn segmented<T: PartialEq + Clone>(ui: &mut Ui, value: &mut T, choices: &[(T, &str)]) -> bool {
    let mut changed = false;
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = theme::GRID;
        for (choice, label) in choices {
            let response = ui.add(Button::selectable(value == choice, *label).frame_when_inactive(true));
            if response.clicked() && value != choice {
                *value = choice.clone();
                changed = true;
            }
        }
    });
    changed
}

/// How far something is, with its words beside the bar; a bar without a share says so by being empty.
pub fn progress_bar(ui: &mut Ui, share: Option<f32>, text: &str) -> Response {
    let tokens = tokens(ui);
    let size = vec2(ui.available_width(), 2.0 * theme::GRID);
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    let corner = CornerRadius::same(4);
    ui.painter().rect_filled(rect, corner, tokens.line);
    if let Some(share) = share.filter(|share| *share > 0.0) {
        let mut done = rect;
        done.set_width((rect.width() * share).max(rect.height()));
        ui.painter().rect_filled(done, corner, tokens.accent);
    }
    let words = share.map_or_else(
        || text.to_owned(),
        |share| format!("{:.0} %, {text}", 100.0 * share),
    );
    response.widget_info(|| WidgetInfo::labeled(Role::ProgressIndicator, true, &words));
    caption(ui, text);
    response
}

/// A term of art: its sentence on hover, the glossary on click.
pub fn term(ui: &mut Ui, word: &'static str, out: &mut Commands) -> Response {
    let tokens = tokens(ui);
    let response = ui
        .add(Label::new(RichText::new(word).color(tokens.text)).sense(Sense::click()))
        .on_hover_cursor(CursorIcon::Help);
    let rect = response.rect;
    ui.painter().extend(egui::Shape::dotted_line(
        &[rect.left_bottom(), rect.right_bottom()],
        tokens.weak_text,
        3.0,
        0.6,
    ));
    let response = match glossary::sentence(word) {
        Some(sentence) => response.on_hover_text(sentence),
        None => response,
    };
    if response.clicked() {
        out.push(Command::Explain(word));
    }
    response
}
