//! The other recipes, a line each with how it fits here, and a recipe of the user's own.

use egui::{Align, Button, Label, Layout, RichText, Ui, vec2};
use tunesmith_lab::recipe::BUNDLED;
use tunesmith_report::format::size;

use super::{Origin, Picked, Subject, TuneView, bundled, card::fit_words, file_name, weak};
use crate::{
    commands::Commands,
    services::{Pick, pick},
    state::State,
    theme::{self, Tone, tokens},
    widgets,
};

/// Narrower than this, the word "recommended" is left to the card above.
const NARROW: f32 = 640.0;
/// Width of a verdict.
const BADGE: f32 = 108.0;
/// Width of verdict and memory.
const FIT: f32 = BADGE + 84.0;
/// Width of the word beside it.
const RECOMMENDED: f32 = 128.0;

pub(super) fn recipes_ui(
    state: &State,
    subject: &Subject<'_>,
    view: &mut TuneView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    widgets::panel(ui, "Recipes", |ui| {
        ui.spacing_mut().item_spacing.y = 2.0;
        let plan = subject.machine.plan.as_ref().ok();
        let offer = plan.and_then(|plan| plan.recipe.recipe.as_ref());
        for (name, _) in BUNDLED {
            line_ui(state, name, offer.map(|offer| offer.id.as_str()), view, ui);
        }
        ui.add_space(2.0 * theme::GRID);
        ui.horizontal_wrapped(|ui| {
            if ui.button("Choose a recipe file…").clicked() {
                out.act("choose_recipe", |_| {
                    Some(pick(
                        "Choose a recipe",
                        Pick::File("Recipes", &["toml"]),
                        |state, path| {
                            state.pages.tune.picked = Some(Picked::Recipe(path));
                        },
                    ))
                });
            }
            match &view.form.origin {
                Origin::File(path) => {
                    ui.add(Label::new(format!("{} is used", file_name(path))).truncate())
                        .on_hover_text(path.display().to_string());
                }
                _ => _ = ui.label(weak(ui, "or drop a .toml file onto this page")),
            }
        });
    });
}

/// One recipe: chosen by a click anywhere on its title.
fn line_ui(state: &State, name: &'static str, offered: Option<&str>, view: &mut TuneView, ui: &mut Ui) {
    let Some(recipe) = bundled(name) else { return };
    // Where nothing is recommended the page begins with the quickstart.
    let recommended = offered.unwrap_or("quickstart") == name;
    let chosen = match &view.form.origin {
        Origin::Recommended => recommended,
        Origin::Bundled(chosen) => chosen == name,
        Origin::File(_) => false,
    };
    ui.horizontal(|ui| {
        ui.set_min_height(theme::ROW);
        let narrow = ui.available_width() < NARROW;
        let room = (ui.available_width() - if narrow { FIT } else { FIT + RECOMMENDED }).max(120.0);
        let mut text = RichText::new(&recipe.title);
        if chosen {
            text = text.color(tokens(ui).strong_text);
        }
        let button = Button::selectable(chosen, text)
            .truncate()
            .min_size(vec2(room, theme::ROW));
        let layout = Layout::left_to_right(Align::Center)
            .with_main_justify(true)
            .with_main_align(Align::Min);
        let response = ui
            .allocate_ui_with_layout(vec2(room, theme::ROW), layout, |ui| ui.add(button))
            .inner
            .on_hover_text(format!("{name}: {}", recipe.description));
        if response.clicked() {
            let origin = if recommended {
                Origin::Recommended
            } else {
                Origin::Bundled(name.to_owned())
            };
            view.form.start_from(origin);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            fit_ui(state, name, ui);
            if recommended && offered.is_some() && !narrow {
                widgets::badge(ui, Tone::Ok, "recommended");
            }
        });
    });
}

/// How it fits, in two columns: the verdict and the memory.
fn fit_ui(state: &State, name: &str, ui: &mut Ui) {
    let fits = state.pages.tune.fits.last();
    let Some(fit) = fits.and_then(|fits| fits.as_ref().ok()?.get(name)) else {
        ui.label(weak(ui, "…"));
        return;
    };
    let (tone, word) = fit_words(fit.fit);
    ui.allocate_ui_with_layout(
        vec2(BADGE, theme::ROW),
        Layout::left_to_right(Align::Center),
        |ui| {
            ui.set_min_width(BADGE);
            widgets::badge(ui, tone, word).on_hover_text(&fit.reason);
        },
    );
    let bytes = fit.bytes.map_or_else(|| "unknown".to_owned(), size);
    ui.label(bytes).on_hover_text(&fit.reason);
}
