//! What the doctor found, grouped by how much it matters; what is in order is folded away with its count.

use egui::{Align, Label, Layout, RichText, Ui};
use tunesmith_setup::doctor::{Check, Diagnosis, Status};

use super::{
    SetupView,
    rows::{named, place_ui, said, unfolding},
    words,
};
use crate::{
    commands::Commands,
    theme::{self, Tone, tokens},
    widgets,
};

/// More reasons than these why something is not known wait behind their count: they would push the rest away.
const MOST_UNKNOWN: usize = 6;

pub(super) fn findings_ui(diagnosis: &Diagnosis, view: &mut SetupView, ui: &mut Ui, out: &mut Commands) {
    let of = |status| -> Vec<&Check> { diagnosis.with_status(status).collect() };
    widgets::panel(ui, "What was found", |ui| {
        for (status, heading) in [(Status::Fail, "Stops training"), (Status::Warn, "Worth a look")] {
            let checks = of(status);
            if !checks.is_empty() {
                heading_ui(&format!("{heading} ({})", checks.len()), ui);
                checks_ui(&checks, view, ui, out);
                ui.add_space(2.0 * theme::GRID);
            }
        }
        let unknown = of(Status::Unknown);
        if !unknown.is_empty() {
            let groups = by_reason(&unknown);
            let title = format!("Not known ({})", unknown.len());
            widgets::fold(ui, &title, groups.len() <= MOST_UNKNOWN, |ui| {
                unknown_ui(groups, view, ui, out);
            });
        }
        let good = of(Status::Ok);
        if !good.is_empty() {
            widgets::fold(ui, &format!("In order ({})", good.len()), false, |ui| {
                checks_ui(&good, view, ui, out);
            });
        }
        let without_meaning = diagnosis.not_applicable.len();
        if without_meaning > 0 {
            let text = format!("{without_meaning} more checks have no meaning on this machine");
            widgets::caption(ui, &text).on_hover_text(diagnosis.not_applicable.join(", "));
        }
    });
}

/// What one thing keeps from being checked stands under that thing: a log that cannot be read is told once.
fn unknown_ui(groups: Vec<(&str, Vec<&Check>)>, view: &mut SetupView, ui: &mut Ui, out: &mut Commands) {
    for (reason, checks) in groups {
        if let [check] = checks[..] {
            checks_ui(&[check], view, ui, out);
            continue;
        }
        let count = format!("{} checks", checks.len());
        unfolding(
            ui,
            &mut view.open,
            reason,
            &format!("{reason}, {}, {count}", Tone::Unknown.word()),
            |ui| row_ui(ui, Tone::Unknown, reason, &count),
            |ui| {
                for check in checks {
                    said(ui, &words::belongs_to(check), &check.title);
                }
            },
        );
    }
}

/// The checks under what was found instead, in the order of the first of each.
fn by_reason<'a>(checks: &[&'a Check]) -> Vec<(&'a str, Vec<&'a Check>)> {
    let mut groups: Vec<(&str, Vec<&Check>)> = Vec::new();
    for check in checks {
        match groups.iter_mut().find(|(reason, _)| *reason == check.found) {
            Some((_, of)) => of.push(check),
            None => groups.push((&check.found, vec![check])),
        }
    }
    groups
}

fn heading_ui(text: &str, ui: &mut Ui) {
    let colour = tokens(ui).strong_text;
    ui.label(RichText::new(text).font(theme::strong_font()).color(colour));
}

fn checks_ui(checks: &[&Check], view: &mut SetupView, ui: &mut Ui, out: &mut Commands) {
    for check in checks {
        let tone = words::status_tone(check.status);
        // A check that is made for several cards is there once for each.
        let id = format!("{} {}", check.id, check.about.as_deref().unwrap_or_default());
        let belongs_to = words::belongs_to(check);
        let name = format!("{}, {}, {belongs_to}", check.title, tone.word());
        unfolding(
            ui,
            &mut view.open,
            &id,
            &name,
            |ui| row_ui(ui, tone, &check.title, &belongs_to),
            |ui| check_ui(check, ui, out),
        );
    }
}

/// A verdict and what it is about, with a word to the right.
fn row_ui(ui: &mut Ui, tone: Tone, title: &str, beside: &str) {
    widgets::badge(ui, tone, tone.word());
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        ui.add_space(theme::GRID);
        let weak = tokens(ui).weak_text;
        let most = ui.available_width() * 0.4;
        ui.scope(|ui| {
            ui.set_max_width(most);
            ui.add(Label::new(RichText::new(beside).size(theme::SMALL).color(weak)).truncate());
        });
        ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
            ui.add(Label::new(title).truncate());
        });
    });
}

/// What unfolds: what was found, what it means, what to do.
fn check_ui(check: &Check, ui: &mut Ui, out: &mut Commands) {
    said(ui, "Found", &check.found);
    said(ui, "Means", &check.means);
    if matches!(check.status, Status::Fail | Status::Warn) {
        said(ui, "Stops", words::stops(check.stops));
    }
    if let Some(cure) = &check.cure {
        named(ui, "What to do", |ui| {
            ui.add(Label::new(&cure.text).wrap());
            if let Some(command) = &cure.command {
                place_ui(ui, cure.place);
                widgets::command_block(ui, command, out);
            }
        });
        said(ui, "It takes", words::needs(cure.needs).unwrap_or_default());
    }
    said(ui, "Source", &check.sources.join(", "));
    let name = check.id.as_str();
    named(ui, "Name", |ui| ui.monospace(name));
}
