//! Figures that others published, each with its setup, who measured, and what could not be found out about it (C5, X17).
//! They stand on a page of their own, beside this machine's and never among them.

mod rows;

use std::sync::LazyLock;

use egui::{ComboBox, Label, RichText, TextEdit, Ui};
use tunesmith_report::{
    format::{capitalised, plural},
    published::{self, Published},
};

use crate::{
    commands::Commands,
    pages::compare::tabs_ui,
    state::{Page, State},
    theme::{self, Tone, tokens},
    widgets,
};

pub use rows::{Row, is_like};

/// The figures, read once: they are a part of the program, and a test reads them all.
static ALL: LazyLock<Result<Vec<Published>, String>> = LazyLock::new(published::all);

/// How it is looked at.
#[derive(Default)]
pub struct PublishedView {
    /// Words of the filter.
    words: String,
    /// Only figures of this card.
    card: Option<String>,
    /// Only figures of this model.
    model: Option<String>,
    /// Only figures of this machine's card family.
    like_mine: bool,
}

/// Draws it.
pub fn published_ui(state: &State, view: &mut PublishedView, ui: &mut Ui, out: &mut Commands) {
    let all: &[Published] = match &*ALL {
        Ok(all) => all,
        Err(_) => &[],
    };
    let gfx = state.machine.get().and_then(|machine| machine.gpu()?.gfx.clone());
    let count: usize = all.iter().map(|source| source.figure.len()).sum();
    let title = format!(
        "{} that others published, from {}",
        plural(count as u64, "figure"),
        plural(all.len() as u64, "source")
    );
    let lead =
        "They were taken elsewhere and by others: they say what to expect, and prove nothing of this machine";
    widgets::page(ui, &title, lead, |ui| {
        tabs_ui(Page::Published, ui, out);
        if let Err(error) = &*ALL {
            widgets::verdict_line(ui, Tone::Stop, error);
        }
        filter_ui(all, gfx.as_deref(), view, ui);
        let mut shown = 0;
        for source in all {
            let rows: Vec<Row<'_>> = rows::of(source)
                .filter(|row| matches(row, view, gfx.as_deref()))
                .collect();
            if rows.is_empty() {
                continue;
            }
            shown += rows.len();
            source_ui(source, &rows, ui, out);
        }
        if shown == 0
            && widgets::empty(
                ui,
                "No figure is like that",
                "Other words, or another card or model, show more",
                Some("Show all figures"),
            )
        {
            *view = PublishedView::default();
        }
    });
}

fn matches(row: &Row<'_>, view: &PublishedView, gfx: Option<&str>) -> bool {
    let figure = row.figure;
    let card = view.card.as_ref().is_none_or(|card| figure.card == *card);
    let model = view
        .model
        .as_ref()
        .is_none_or(|model| figure.model.as_ref() == Some(model));
    let mine = !view.like_mine || (gfx.is_some() && figure.gfx.as_deref() == gfx);
    card && model && mine && is_like(row, &view.words)
}

fn filter_ui(all: &[Published], gfx: Option<&str>, view: &mut PublishedView, ui: &mut Ui) {
    let figures = || all.iter().flat_map(|source| &source.figure);
    let mut cards: Vec<&str> = figures().map(|figure| figure.card.as_str()).collect();
    let mut models: Vec<&str> = figures().filter_map(|figure| figure.model.as_deref()).collect();
    for names in [&mut cards, &mut models] {
        names.sort_unstable();
        names.dedup();
    }
    widgets::panel(ui, "", |ui| {
        ui.horizontal_wrapped(|ui| {
            let label = ui.label("Filter");
            ui.add(
                TextEdit::singleline(&mut view.words)
                    .hint_text("words")
                    .desired_width(180.0),
            )
            .labelled_by(label.id);
            choice_ui("Card", "every card", &cards, &mut view.card, ui);
            choice_ui("Model", "every model", &models, &mut view.model, ui);
            if gfx.is_some() {
                ui.checkbox(&mut view.like_mine, "Only cards of this machine's family");
            }
        });
    });
}

fn choice_ui(name: &str, all: &str, choices: &[&str], chosen: &mut Option<String>, ui: &mut Ui) {
    let label = ui.label(name);
    let shown = chosen.clone().unwrap_or_else(|| all.to_owned());
    let combo = ComboBox::from_id_salt(name)
        .selected_text(shown)
        .width(200.0)
        .truncate()
        .show_ui(ui, |ui| {
            ui.selectable_value(chosen, None, all);
            for choice in choices {
                ui.selectable_value(chosen, Some((*choice).to_owned()), *choice);
            }
        });
    combo.response.labelled_by(label.id);
}

/// Who measured, which deserves a second look where it is the maker.
fn tier_words(tier: published::Tier) -> &'static str {
    match tier {
        published::Tier::FirstParty => "first-party: measured by the maker of what was measured",
        published::Tier::Independent => "independent: measured by somebody else than the maker",
    }
}

/// A source with its figures, its corrections, and what could not be recovered.
fn source_ui(source: &Published, rows: &[Row<'_>], ui: &mut Ui, out: &mut Commands) {
    let about = &source.source;
    widgets::panel(ui, &about.title, |ui| {
        let published = about.published.as_deref().unwrap_or("at an unknown time");
        let who = format!(
            "{}; published {published}, read {}; {}",
            capitalised(tier_words(about.tier)),
            about.as_of,
            about.licence
        );
        ui.add(Label::new(who).wrap());
        ui.add(Label::new(&about.citation).wrap());
        if let Some(url) = &about.url {
            ui.horizontal_wrapped(|ui| {
                ui.add(Label::new(RichText::new(url).monospace()).wrap());
                widgets::copy_button(ui, "the address", url, out);
            });
        }
        widgets::caption(ui, &capitalised(&about.note));
        ui.add_space(theme::GRID);
        for row in rows {
            rows::row_ui(row, ui);
        }
        if !about.not_recovered.is_empty() {
            ui.add_space(theme::GRID);
            widgets::subheading(ui, "What could not be found out");
            for missing in &about.not_recovered {
                ui.horizontal_top(|ui| {
                    ui.label(RichText::new("–").color(tokens(ui).weak_text));
                    ui.add(Label::new(missing).wrap());
                });
            }
        }
    });
}
