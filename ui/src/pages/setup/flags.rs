//! The settings of the environment as a table: what is set, taken away or left alone, and why; what sets it on this
//! machine, and whether that does harm.

use egui::{RichText, Ui};
use tunesmith_setup::{
    knowledge::Action,
    plan::{FlagRow, FoundSetting, Plan},
};

use super::{
    SetupView,
    rows::{self, cell, named, said, unfolding},
    words,
};
use crate::{
    theme::{self, tokens},
    widgets,
};

/// The columns, as shares of the row.
const NAME: f32 = 0.38;
const ACTION: f32 = 0.08;
const VALUE: f32 = 0.12;

pub(super) fn flags_ui(plan: &Plan, view: &mut SetupView, ui: &mut Ui) {
    // What is left alone without anybody asking is out of the way.
    let quiet = |row: &&FlagRow| row.action == Action::Leave && !row.always && row.found.is_empty();
    let (left, shown): (Vec<&FlagRow>, Vec<&FlagRow>) = plan.environment.iter().partition(quiet);
    widgets::panel(ui, "Settings of the environment", |ui| {
        widgets::caption(
            ui,
            "Set for the engine alone, never for the whole system; what is named here wins over what guides say",
        );
        if shown.is_empty() {
            ui.label("Nothing is set and nothing is taken away");
        } else {
            header_ui(ui);
            rows_ui(&shown, view, ui);
        }
        if !left.is_empty() {
            widgets::fold(ui, &format!("Left alone ({})", left.len()), false, |ui| {
                rows_ui(&left, view, ui);
            });
        }
    });
}

fn header_ui(ui: &mut Ui) {
    let weak = tokens(ui).weak_text;
    let small = |text: &str| RichText::new(text).size(theme::SMALL).color(weak);
    ui.horizontal(|ui| {
        ui.add_space(rows::MARK);
        let width = ui.available_width();
        cell(ui, width * NAME, small("Setting"));
        cell(ui, width * ACTION, small("Action"));
        cell(ui, width * VALUE, small("Value"));
        cell(ui, ui.available_width(), small("Reason"));
    });
}

fn rows_ui(rows: &[&FlagRow], view: &mut SetupView, ui: &mut Ui) {
    for row in rows {
        let action = words::action(row.action);
        let value = row.value.as_deref().unwrap_or("–");
        let worst = row
            .found
            .iter()
            .filter_map(|found| found.harm.as_ref())
            .map(|harm| words::harm(harm.level))
            .max();
        let name = format!("{}, {action}, {}", row.name, row.reason);
        unfolding(
            ui,
            &mut view.open,
            &row.name,
            &name,
            |ui| {
                let tokens = tokens(ui);
                let width = ui.available_width();
                let strong = if row.action == Action::Leave {
                    tokens.weak_text
                } else {
                    tokens.strong_text
                };
                cell(ui, width * NAME, RichText::new(&row.name).monospace());
                cell(ui, width * ACTION, RichText::new(action).color(strong));
                cell(ui, width * VALUE, RichText::new(value).monospace());
                if let Some((tone, word)) = worst {
                    widgets::badge(ui, tone, word).on_hover_text("What is set on this machine");
                }
                cell(ui, ui.available_width(), RichText::new(&row.reason));
            },
            |ui| row_ui(row, ui),
        );
    }
}

/// What unfolds.
fn row_ui(row: &FlagRow, ui: &mut Ui) {
    said(ui, "Is for", &row.meaning);
    said(ui, "When", &row.condition);
    said(ui, "Reason", &row.reason);
    said(ui, "Evidence", &row.evidence);
    said(ui, "Guides say", row.guides.as_deref().unwrap_or_default());
    said(ui, "Also named", &row.aliases.join(", "));
    if row.found.is_empty() {
        said(ui, "On this machine", "nothing sets it");
    }
    for found in &row.found {
        named(ui, "On this machine", |ui| found_ui(found, ui));
    }
    said(ui, "Source", &format!("{} (as of {})", row.source, row.as_of));
}

fn found_ui(found: &FoundSetting, ui: &mut Ui) {
    let place = match found.line {
        Some(line) => format!("{}, line {line}", found.origin),
        None => found.origin.clone(),
    };
    let effect = if found.in_effect {
        ""
    } else {
        ", not in effect here"
    };
    ui.add(egui::Label::new(format!("{}={} in {place}{effect}", found.name, found.value)).wrap());
    if let Some(harm) = &found.harm {
        let (tone, word) = words::harm(harm.level);
        ui.horizontal_wrapped(|ui| {
            widgets::badge(ui, tone, word);
            ui.label(&harm.text);
        });
    }
}
