//! One published figure: the number first, then on what, how it was taken and counted, and what is wrong with it as
//! printed.

use egui::{FontId, Label, RichText, TextFormat, Ui, text::LayoutJob, vec2};
use tunesmith_report::{
    format::{plural, significant},
    published::{Correction, Figure, Published},
};

use crate::{
    theme::{self, Tone, tokens},
    widgets,
};

/// Width of the column of numbers, in points.
const NUMBERS: f32 = 210.0;

/// A figure with what is right where it is not.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The figure.
    pub figure: &'a Figure,
    /// What is wrong with it as printed.
    pub correction: Option<&'a Correction>,
}

/// The rows of a source, in its order.
pub(super) fn of(source: &Published) -> impl Iterator<Item = Row<'_>> {
    source.figure.iter().map(|figure| Row {
        figure,
        correction: source.correction_of(figure),
    })
}

/// Whether all words occur somewhere in a row.
pub fn is_like(row: &Row<'_>, words: &str) -> bool {
    let figure = row.figure;
    let text = [
        figure.quantity.title(),
        figure.method.title(),
        figure.card.as_str(),
        figure.model.as_deref().unwrap_or_default(),
        figure.precision.as_str(),
        figure.setup.as_str(),
        figure.counted.as_str(),
    ]
    .join(" ")
    .to_lowercase();
    words
        .to_lowercase()
        .split_whitespace()
        .all(|word| text.contains(word))
}

/// `1,493 ± 12`.
fn value(figure: &Figure) -> String {
    let value = significant(figure.value, 4);
    match figure.plus_minus {
        Some(sd) => format!("{value} ± {}", significant(sd, 2)),
        None => value,
    }
}

/// What it is a figure of, on what: `Training speed, LoRA, supervised, bf16`.
fn subject(figure: &Figure) -> String {
    let repeats = figure.repeats.map(|runs| plural(u64::from(runs), "run"));
    let (quantity, method) = (figure.quantity.title(), figure.method.title());
    let parts = [
        Some(quantity.to_owned()),
        // The speed of generation needs no second word for what was done.
        Some(method.to_owned()).filter(|method| !quantity.to_lowercase().starts_with(method)),
        Some(figure.precision.clone()),
        repeats,
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

pub(super) fn row_ui(row: &Row<'_>, ui: &mut Ui) {
    let figure = row.figure;
    let weak = tokens(ui).weak_text;
    ui.separator();
    let number = |ui: &mut Ui| {
        let mut job = LayoutJob::default();
        let format = TextFormat::simple;
        let strong = tokens(ui).strong_text;
        job.append(&value(figure), 0.0, format(theme::heading_font(), strong));
        let font = FontId::proportional(theme::SMALL);
        job.append(&figure.unit, theme::GRID, format(font, weak));
        ui.add(Label::new(job).wrap());
    };
    let words = |ui: &mut Ui| {
        let on = match &figure.model {
            Some(model) => format!("{model} on {}", figure.card),
            None => figure.card.clone(),
        };
        let on = RichText::new(on)
            .font(theme::strong_font())
            .color(tokens(ui).strong_text);
        ui.add(Label::new(on).wrap());
        ui.add(Label::new(subject(figure)).wrap());
        let how = format!("{}; counted: {}; {}", figure.setup, figure.counted, figure.source);
        ui.add(Label::new(RichText::new(how).small().color(weak)).wrap());
        if let Some(correction) = row.correction {
            correction_ui(correction, ui);
        }
    };
    if ui.available_width() < 2.5 * NUMBERS {
        number(ui);
        words(ui);
        return;
    }
    ui.horizontal_top(|ui| {
        ui.allocate_ui(vec2(NUMBERS, theme::ROW), |ui| {
            ui.set_width(NUMBERS);
            number(ui);
        });
        ui.vertical(words);
    });
}

fn correction_ui(correction: &Correction, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        widgets::badge(ui, Tone::Warn, "corrected");
        let text = format!(
            "{}: printed {}, right is {}",
            correction.what, correction.printed, correction.right
        );
        ui.add(Label::new(text).wrap());
    });
    let why = format!("{} ({})", correction.why, correction.source);
    let weak = tokens(ui).weak_text;
    ui.add(Label::new(RichText::new(why).small().color(weak)).wrap());
}

#[cfg(test)]
mod tests {
    use tunesmith_report::published::all;

    use super::*;

    #[test]
    fn words_find_cards_models_and_what_was_done() {
        let all = all().unwrap();
        let found =
            |words: &str| -> usize { all.iter().flat_map(of).filter(|row| is_like(row, words)).count() };
        let every = found("");
        assert!(every > 50, "{every}");
        assert!(found("7900 XTX bf16") > 0 && found("7900 XTX bf16") < every);
        assert_eq!(found("no such card"), 0);
    }

    #[test]
    fn a_figure_is_told_with_its_spread_and_what_was_done() {
        let all = all().unwrap();
        let paper = &all[0];
        let figure = paper
            .figure
            .iter()
            .find(|figure| figure.id == "grpo-unsloth-bf16")
            .unwrap();
        assert!(value(figure).contains(" ± "), "{}", value(figure));
        assert!(subject(figure).contains("GRPO"), "{}", subject(figure));
    }
}
