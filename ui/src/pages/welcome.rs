//! The page that greets on the first start: what the app does, what it never does without being asked, and how it shall
//! look. It changes nothing but the look, and can be left at once.

use egui::{Key, Label, Modifiers, Rect, RichText, Sense, Ui, vec2};

use crate::{
    commands::{Command, Commands},
    saved::ThemeWish,
    state::{Page, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// Narrower than this, the promises stand one below the other.
const THREE_COLUMNS: f32 = 720.0;
const ICON: f32 = 28.0;
/// Height of a promise beside others.
const PROMISE: f32 = 116.0;

/// What the app does, with the page that does it.
const PROMISES: [(Page, &str, &str); 3] = [
    (
        Page::Card,
        "Knows your card",
        "Finds it, says what keeps it from training, and names the one command that cures it",
    ),
    (
        Page::Calibrate,
        "Measures it honestly",
        "Times what it really does, checks that the results are right, and keeps every raw reading",
    ),
    (
        Page::Live,
        "Trains a model on it",
        "Fine-tunes with one click, and stops a run that learns nothing instead of calling it a success",
    ),
];

/// What is only done when it is asked for.
const NEVER: [(&str, &str); 4] = [
    (
        "Downloads nothing",
        "before you have seen what, from where, how large and under which licence",
    ),
    (
        "Installs nothing",
        "before you have seen the exact commands, and then in folders of its own",
    ),
    (
        "Changes no settings of your system",
        "it shows the command, and you decide whether to run it",
    ),
    (
        "Sends nothing",
        "there is no account and no telemetry, and what you share you save yourself",
    ),
];

/// The looks, by name.
pub(super) const THEMES: [(ThemeWish, &str); 3] = [
    (ThemeWish::System, "As the system"),
    (ThemeWish::Dark, "Dark"),
    (ThemeWish::Light, "Light"),
];

/// Draws it.
pub fn welcome_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let lead = "Find out what your graphics card can do for language models, and teach one something";
    widgets::page(ui, "Welcome to Tunesmith", lead, |ui| {
        promises_ui(ui);
        widgets::panel(ui, "What it never does without asking", |ui| {
            for (what, how) in NEVER {
                never_ui(what, how, ui);
            }
        });
        widgets::panel(ui, "How it shall look", |ui| {
            let mut theme = state.saved.theme;
            if widgets::segmented(ui, &mut theme, &THEMES) {
                out.push(Command::Theme(theme));
            }
        });
        leave_ui(ui, out);
    });
}

fn promises_ui(ui: &mut Ui) {
    if ui.available_width() < THREE_COLUMNS {
        for promise in PROMISES {
            promise_ui(promise, 0.0, ui);
        }
        return;
    }
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.x = theme::GAP;
        ui.columns(PROMISES.len(), |columns| {
            for (ui, promise) in columns.iter_mut().zip(PROMISES) {
                ui.spacing_mut().item_spacing.x = 2.0 * theme::GRID;
                widgets::ragged(ui, |ui| promise_ui(promise, PROMISE, ui));
            }
        });
    });
}

fn promise_ui((page, title, text): (Page, &str, &str), height: f32, ui: &mut Ui) {
    widgets::panel(ui, "", |ui| {
        ui.set_min_height(height);
        let (place, _) = ui.allocate_exact_size(vec2(ICON, ICON), Sense::hover());
        widgets::icon(ui.painter(), place, page, tokens(ui).accent);
        ui.add_space(theme::GRID);
        widgets::subheading(ui, title);
        widgets::caption(ui, text);
    });
}

fn never_ui(what: &str, how: &str, ui: &mut Ui) {
    ui.horizontal_top(|ui| {
        let side = 16.0;
        let (place, _) = ui.allocate_exact_size(vec2(side, 5.0 * theme::GRID), Sense::hover());
        let square = Rect::from_center_size(place.center(), vec2(side, side));
        widgets::mark(
            ui.painter(),
            square.center(),
            side,
            Tone::Ok,
            tokens(ui).tone(Tone::Ok).text,
        );
        ui.vertical(|ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            let colour = tokens(ui).strong_text;
            ui.add(Label::new(RichText::new(what).font(theme::strong_font()).color(colour)).wrap());
            widgets::caption(ui, how);
            ui.add_space(theme::GRID);
        });
    });
}

fn leave_ui(ui: &mut Ui, out: &mut Commands) {
    let (enter, escape) = ui.input_mut(|input| {
        (
            input.consume_key(Modifiers::COMMAND, Key::Enter),
            input.consume_key(Modifiers::NONE, Key::Escape),
        )
    });
    ui.horizontal(|ui| {
        if widgets::primary_button(ui, "Look at my card").clicked() || enter {
            leave(|state| state.go(Page::Card), out);
        }
        if widgets::link_button(ui, "Skip").clicked() || escape {
            leave(|state| state.go(state.saved.page), out);
        }
    });
}

fn leave(go: fn(&mut State), out: &mut Commands) {
    out.change("leave the welcome", move |state| {
        state.saved.welcomed = true;
        go(state);
    });
}
