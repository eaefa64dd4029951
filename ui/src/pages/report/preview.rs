//! What a report says, in its own words and figures.

use egui::{CornerRadius, Frame, Label, Margin, RichText, Stroke, Ui};
use tunesmith_report::{Example, Examples, Figure, Headline, Shown};

use super::{Prepared, tone};
use crate::{
    commands::Commands,
    theme::{self, Tone, tokens},
    widgets,
};

/// Narrowest card of a figure, in points.
const CARD: f32 = 190.0;

/// Draws it.
pub(super) fn preview_ui(own: &Prepared, ui: &mut Ui, out: &mut Commands) {
    let report = &own.report;
    widgets::panel(ui, "What the report says", |ui| {
        findings_ui(&report.headline, ui);
        headline_ui(&report.validity, ui);
        ui.add_space(2.0 * theme::GRID);
        figures_ui(&own.preview.figures, ui);
        ui.add_space(theme::GRID);
        for sentence in &own.preview.sentences {
            widgets::caption(ui, sentence);
        }
    });
    if !own.preview.examples.is_empty() {
        widgets::panel(ui, "Answers before and after", |ui| {
            widgets::caption(ui, &own.preview.examples_sentence);
            for (place, kind) in own.preview.examples.iter().enumerate() {
                kind_ui(kind, place == 0, ui);
            }
        });
    }
    redactions_ui(own, ui, out);
    rules_ui(own, ui);
}

/// What stands behind the headline, whose sentence is the page's title.
fn findings_ui(headline: &Headline, ui: &mut Ui) {
    let mut said = headline.details.iter();
    let first = said.next().unwrap_or(&headline.sentence);
    widgets::verdict_line(ui, tone(headline.verdict), first);
    for detail in said {
        widgets::caption(ui, detail);
    }
}

/// A verdict with its sentence and what stands behind it.
pub(super) fn headline_ui(headline: &Headline, ui: &mut Ui) {
    widgets::verdict_line(ui, tone(headline.verdict), &headline.sentence);
    for detail in &headline.details {
        widgets::caption(ui, detail);
    }
}

fn figures_ui(figures: &[Figure], ui: &mut Ui) {
    let per_row = ((ui.available_width() / CARD) as usize).clamp(1, figures.len().max(1));
    for row in figures.chunks(per_row) {
        ui.columns(per_row, |columns| {
            for (ui, figure) in columns.iter_mut().zip(row) {
                widgets::ragged(ui, |ui| figure_ui(figure, ui));
            }
        });
    }
}

fn figure_ui(figure: &Figure, ui: &mut Ui) {
    ui.spacing_mut().item_spacing.y = theme::GRID / 2.0;
    let tokens = tokens(ui);
    ui.add(Label::new(RichText::new(&figure.label).color(tokens.weak_text)).truncate());
    if figure.known {
        widgets::figure(ui, &figure.value, figure.unit);
    } else {
        ui.label(
            RichText::new(&figure.value)
                .font(theme::title_font())
                .color(tokens.weak_text),
        );
    }
    let note = RichText::new(&figure.note).small().color(tokens.weak_text);
    ui.add(Label::new(note).wrap());
}

fn kind_ui(kind: &Examples, open: bool, ui: &mut Ui) {
    let title = format!("{} ({}): {}", kind.heading, kind.meaning, kind.total);
    widgets::fold(ui, &title, open, |ui| {
        for example in &kind.shown {
            example_ui(example, ui);
        }
    });
}

fn example_ui(example: &Example, ui: &mut Ui) {
    let tokens = tokens(ui);
    Frame::new()
        .fill(tokens.faint)
        .corner_radius(CornerRadius::same(theme::SMALL_CORNER))
        .inner_margin(Margin::symmetric(12, 8))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            let question = RichText::new(&example.question)
                .font(theme::strong_font())
                .color(tokens.strong_text);
            ui.add(Label::new(question).wrap());
            ui.horizontal_wrapped(|ui| {
                ui.label(RichText::new("wanted").small().color(tokens.weak_text));
                ui.add(Label::new(RichText::new(&example.gold).monospace()).wrap());
            });
            ui.columns(2, |columns| {
                answer_ui("before", &example.before, &mut columns[0]);
                answer_ui("after", &example.after, &mut columns[1]);
            });
        });
}

fn answer_ui(side: &str, answer: &Shown, ui: &mut Ui) {
    let tokens = tokens(ui);
    ui.horizontal(|ui| {
        ui.label(RichText::new(side).small().color(tokens.weak_text));
        let tone = if answer.matches { Tone::Ok } else { Tone::Stop };
        widgets::badge(ui, tone, answer.word);
    });
    Frame::new()
        .fill(tokens.code)
        .stroke(Stroke::new(1.0, tokens.line))
        .corner_radius(CornerRadius::same(theme::SMALL_CORNER))
        .inner_margin(Margin::symmetric(8, 6))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.add(Label::new(RichText::new(&answer.text).monospace()).wrap());
        });
    if let Some(sql) = &answer.sql {
        ui.label(RichText::new("taken out of it").small().color(tokens.weak_text));
        ui.add(Label::new(RichText::new(sql).monospace()).wrap());
    }
}

fn redactions_ui(own: &Prepared, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "What is taken out before anybody sees it", |ui| {
        if own.redactions.is_empty() {
            widgets::verdict_line(
                ui,
                Tone::Unknown,
                "This system tells no words to look for: neither a home folder nor names",
            );
        }
        for redaction in &own.redactions {
            let tone = if redaction.found { Tone::Note } else { Tone::Ok };
            widgets::verdict_line(ui, tone, &redaction.sentence);
        }
        if own.report.training().is_some() {
            widgets::caption(
                ui,
                "Questions and answers come from the data set and stay as they are; look at them before you share data of your own",
            );
        }
        if !own.replaced.is_empty() {
            let title = format!("The lines with a replacement: {}", own.replaced.len());
            widgets::fold(ui, &title, false, |ui| pairs_ui("replaced", &own.replaced, ui));
        }
        widgets::fold(
            ui,
            "Everything that the report tells of this machine",
            false,
            |ui| {
                for group in &own.preview.surroundings {
                    widgets::subheading(ui, &group.name);
                    pairs_ui(&group.name, &group.rows, ui);
                }
                if let Some(training) = own.report.training() {
                    widgets::subheading(ui, "recipe");
                    widgets::command_block(ui, &training.recipe.toml, out);
                }
                if let Some(experiment) = &own.report.record.experiment {
                    widgets::subheading(ui, "experiment");
                    widgets::command_block(ui, &experiment.toml, out);
                }
            },
        );
    });
}

fn pairs_ui(id: &str, pairs: &[[String; 2]], ui: &mut Ui) {
    let rows: Vec<(&str, String, String)> = pairs
        .iter()
        .map(|[key, value]| (key.as_str(), value.clone(), value.clone()))
        .collect();
    widgets::facts(ui, id, &rows);
}

fn rules_ui(own: &Prepared, ui: &mut Ui) {
    let report = &own.report;
    widgets::panel(ui, "How to read it", |ui| {
        let title = format!(
            "What these figures must not be compared with: {}",
            report.invalid_comparisons.len()
        );
        widgets::fold(ui, &title, false, |ui| {
            for sentence in &report.invalid_comparisons {
                widgets::verdict_line(ui, Tone::Warn, sentence);
            }
        });
        let title = format!(
            "How every number was counted: {} rules",
            report.counting_rules.len()
        );
        widgets::fold(ui, &title, false, |ui| {
            for rule in &report.counting_rules {
                let colour = tokens(ui).strong_text;
                ui.label(
                    RichText::new(&rule.title)
                        .font(theme::strong_font())
                        .color(colour),
                );
                widgets::caption(ui, &rule.text);
            }
        });
    });
}
