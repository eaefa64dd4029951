//! Every setting of the recipe, folded away: with unit, range and what it is for, checked by the recipe's own checks while it
//! is typed, and with a way back to the recipe's value.

use egui::{Button, CollapsingHeader, ComboBox, Label, Response, RichText, ScrollArea, TextEdit, Ui, vec2};
use tunesmith_protocol::TARGET_MODULES;
use tunesmith_report::format::{plural, shorten};

use super::{
    Around, Picked, TuneView,
    fields::{FIELDS, Field, GROUPS, Kind},
    form::{Checked, START_FROM, TuneForm},
    trainer, weak,
};
use crate::{
    commands::Commands,
    services::{Pick, pick},
    theme::{self, Tone, tokens},
    widgets,
};

/// Width of a field's name.
const NAME: f32 = 184.0;
/// Width of a field with its unit.
const FIELD: f32 = 296.0;
/// Narrower than this, the help stands below the field.
const HELP_BESIDE: f32 = 820.0;

pub(super) fn advanced_ui(
    around: Option<&Around>,
    checked: &Checked,
    view: &mut TuneView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let changed = checked.changed.len();
    let wrong = checked.errors.len();
    let mut title = "Advanced settings".to_owned();
    if changed > 0 {
        title.push_str(&format!(" · {changed} changed"));
    }
    if wrong > 0 {
        title.push_str(&format!(" · {wrong} cannot work"));
    }
    widgets::panel(ui, "", |ui| {
        // The salt stays the same while the title counts.
        CollapsingHeader::new(RichText::new(title).font(theme::heading_font()))
            .id_salt("advanced")
            // What is wrong must be seen.
            .open((wrong > 0).then_some(true))
            .show_unindented(ui, |ui| {
                if changed > 0 && ui.button("Give all fields their recipe's value back").clicked() {
                    view.form.reset_all();
                }
                let mut fields = FIELDS.iter();
                for (heading, count) in GROUPS {
                    ui.add_space(2.0 * theme::GRID);
                    widgets::subheading(ui, heading);
                    for field in fields.by_ref().take(count) {
                        field_ui(field, checked, &mut view.form, ui, out);
                    }
                }
                trainer::trainer_ui(around, checked, &mut view.form, ui, out);
            });
    });
    widgets::panel(ui, "", |ui| {
        widgets::fold(ui, "The recipe as a file", false, |ui| toml_ui(checked, ui, out));
    });
}

fn field_ui(field: &'static Field, checked: &Checked, form: &mut TuneForm, ui: &mut Ui, out: &mut Commands) {
    let beside = ui.available_width() >= HELP_BESIDE;
    ui.horizontal_top(|ui| {
        let name = ui
            .allocate_ui_with_layout(
                vec2(NAME, theme::ROW),
                egui::Layout::left_to_right(egui::Align::Center),
                |ui| {
                    ui.set_min_width(NAME);
                    name_ui(field, ui, out)
                },
            )
            .inner;
        ui.vertical(|ui| {
            if beside {
                ui.set_width(FIELD);
            }
            let text = checked.text(form, field.key).to_owned();
            ui.horizontal(|ui| {
                if let Some(response) = value_ui(field, &text, form, ui, out) {
                    response.labelled_by(name.id);
                }
                if !field.unit.is_empty() {
                    ui.label(RichText::new(field.unit).color(tokens(ui).weak_text));
                }
                if matches!(field.kind, Kind::Number | Kind::Choice(_)) {
                    back_ui(field, checked, form, ui);
                }
            });
            if matches!(field.kind, Kind::Words | Kind::Modules) {
                back_ui(field, checked, form, ui);
            }
            error_ui(field, checked, ui);
            if !beside {
                help_ui(field, ui);
            }
        });
        if beside {
            ui.vertical(|ui| help_ui(field, ui));
        }
    });
}

/// The field's name; a term of art goes to the glossary.
fn name_ui(field: &'static Field, ui: &mut Ui, out: &mut Commands) -> Response {
    let response = ui.add(Label::new(field.name).truncate());
    match field.term {
        Some(term) => {
            let sentence = crate::glossary::sentence(term).unwrap_or_default();
            let response = response.on_hover_text(sentence);
            if widgets::small_button(ui, "?")
                .on_hover_text(format!("{term}: {sentence}"))
                .accessible_name(format!("What {term} means"))
                .clicked()
            {
                out.push(crate::commands::Command::Explain(term));
            }
            response
        }
        None => response,
    }
}

/// The widget, where it is one that has no name of its own.
fn value_ui(
    field: &Field,
    text: &str,
    form: &mut TuneForm,
    ui: &mut Ui,
    out: &mut Commands,
) -> Option<Response> {
    match field.kind {
        Kind::Number | Kind::Words => Some(typed_ui(field, text, form, ui, out)),
        Kind::Choice(choices) => {
            let shown = choices.iter().find(|(value, _)| *value == text);
            let combo = ComboBox::from_id_salt(field.key)
                .selected_text(shown.map_or(text, |(_, word)| *word))
                .width(140.0)
                .show_ui(ui, |ui| {
                    for (value, word) in choices {
                        if ui.selectable_label(*value == text, *word).clicked() {
                            form.set(field.key, (*value).to_owned());
                        }
                    }
                });
            Some(combo.response)
        }
        Kind::Modules => {
            modules_ui(field, text, form, ui);
            None
        }
    }
}

fn typed_ui(field: &Field, text: &str, form: &mut TuneForm, ui: &mut Ui, out: &mut Commands) -> Response {
    let mut edited = text.to_owned();
    let width = match field.kind {
        Kind::Number => 120.0,
        // Room for the button beside it.
        _ => (ui.available_width() - 100.0).clamp(120.0, 220.0),
    };
    let response = ui.add(
        TextEdit::singleline(&mut edited)
            .id_salt(field.key)
            .desired_width(width),
    );
    if response.changed() {
        form.set(field.key, edited);
    }
    if field.key == START_FROM && ui.button("Choose…").clicked() {
        out.act("choose_adapter", |_| {
            Some(pick("Choose an adapter's folder", Pick::Folder, |state, path| {
                state.pages.tune.picked = Some(Picked::Adapter(path));
            }))
        });
    }
    response
}

/// A box for each projection.
fn modules_ui(field: &Field, text: &str, form: &mut TuneForm, ui: &mut Ui) {
    let chosen: Vec<&str> = text.split(',').map(str::trim).collect();
    ui.vertical(|ui| {
        for names in TARGET_MODULES.chunks(2) {
            ui.horizontal(|ui| {
                for name in names {
                    let mut is = chosen.contains(name);
                    if ui.checkbox(&mut is, *name).changed() {
                        let now = |module: &&str| {
                            if *module == *name {
                                is
                            } else {
                                chosen.contains(module)
                            }
                        };
                        let list: Vec<&str> = TARGET_MODULES.into_iter().filter(now).collect();
                        form.set(field.key, list.join(", "));
                    }
                }
            });
        }
    });
}

/// What is wrong with the field.
fn error_ui(field: &Field, checked: &Checked, ui: &mut Ui) {
    let Some(error) = checked.errors.get(field.key) else {
        return;
    };
    widgets::verdict_line(ui, Tone::Stop, &error.message);
    for hint in &error.hints {
        ui.add(Label::new(weak(ui, &format!("→ {hint}"))).wrap());
    }
}

/// The way back to the recipe's value.
fn back_ui(field: &Field, checked: &Checked, form: &mut TuneForm, ui: &mut Ui) {
    if !checked.changed.contains(field.key) {
        return;
    }
    let value = checked.base.get(field.key).map_or("", String::as_str);
    let value = if value.is_empty() { "empty" } else { value };
    let text = format!("back to {}", shorten(value, 24));
    let button = Button::new(RichText::new(text).size(theme::SMALL).color(tokens(ui).link)).frame(false);
    let response = ui
        .add(button)
        .accessible_name(format!("Give {} the recipe's value back", field.name));
    if response.clicked() {
        form.reset(field.key);
    }
}

fn help_ui(field: &Field, ui: &mut Ui) {
    ui.spacing_mut().item_spacing.y = 0.0;
    ui.add(Label::new(weak(ui, field.help)).wrap());
    if !field.range.is_empty() {
        ui.add(Label::new(weak(ui, &format!("Takes: {}", field.range))).wrap());
    }
}

fn toml_ui(checked: &Checked, ui: &mut Ui, out: &mut Commands) {
    let Some(recipe) = &checked.recipe else {
        widgets::caption(
            ui,
            &format!(
                "It can be shown once {} is right again",
                plural(checked.errors.len() as u64, "setting")
            ),
        );
        return;
    };
    match recipe.to_toml() {
        Ok(toml) => {
            ui.horizontal_wrapped(|ui| {
                widgets::copy_button(ui, "the recipe", &toml, out);
                widgets::caption(
                    ui,
                    "This is what is sent; saved as a .toml file it is a recipe of your own",
                );
            });
            ScrollArea::vertical()
                .id_salt("toml")
                .max_height(320.0)
                .show(ui, |ui| {
                    ui.set_width(ui.available_width());
                    ui.add(Label::new(RichText::new(toml).monospace()).wrap());
                });
        }
        Err(error) => widgets::verdict_line(ui, Tone::Stop, &error.to_string()),
    }
}
