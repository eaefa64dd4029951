//! Where the time goes: the waterfall from the measured peak down, what each loss is made of, what is missing, and how fast
//! answers are written, which stands beside (M4, M5).

use egui::{Label, Ui};
use tunesmith_lab::experiment::ExperimentState;
use tunesmith_measure::{
    Gib,
    gap::{Decoding, Ladder},
};
use tunesmith_report::format::{capitalised, number, percent};

use super::CompareView;
use crate::{
    chart::{Waterfall, WaterfallLevel},
    commands::Commands,
    theme, widgets,
};

/// The panel; nothing for an experiment that asks something else, or before a training of it counts.
pub(super) fn ladder_ui(
    experiment: &ExperimentState,
    view: &mut CompareView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let Some(ladder) = &experiment.ladder else { return };
    let gap = &ladder.gap;
    widgets::panel(ui, "From the peak to a training", |ui| {
        ui.add(Label::new(capitalised(&ladder.sentence)).wrap());
        ui.add_space(theme::GRID);
        let levels: Vec<WaterfallLevel<'_>> = gap
            .steps
            .iter()
            .map(|step| WaterfallLevel {
                label: &step.name,
                reached: step.reached.mean,
            })
            .collect();
        let peak = format!("large products, {}", ladder.dtype.name());
        let peak = WaterfallLevel {
            label: &peak,
            reached: gap.peak.0,
        };
        Waterfall::new("Useful work", "TFLOPS", peak, &levels).show(ui, &mut view.ladder);
        ui.add_space(theme::GRID);
        losses_ui(ladder, ui);
        ui.add_space(theme::GRID);
        ui.horizontal_wrapped(|ui| {
            widgets::caption(ui, "The losses lie end to end in the");
            widgets::term(ui, "waterfall", out);
            widgets::caption(
                ui,
                &format!(
                    "and add up to {} TFLOPS, {} of the peak",
                    number(gap.lost_tflops),
                    percent(gap.lost_share)
                ),
            );
        });
        if let Some(decoding) = &ladder.decoding {
            ui.add(Label::new(decoding_words(decoding)).wrap());
        }
        for level in &ladder.not_measured {
            let sentence = format!("Not measured: {}: {}", level.name, level.reason);
            widgets::caption(ui, &sentence);
        }
    });
}

/// What each loss is made of, the largest first.
fn losses_ui(ladder: &Ladder, ui: &mut Ui) {
    widgets::subheading(ui, "What is lost, the largest part first");
    let mut steps: Vec<_> = ladder.gap.steps.iter().collect();
    steps.sort_by(|a, b| b.lost_tflops.total_cmp(&a.lost_tflops));
    for step in steps {
        let sentence = format!(
            "{} TFLOPS ({}) on the way to \"{}\": {}",
            number(step.lost_tflops),
            percent(step.lost_share),
            step.name,
            step.why
        );
        ui.add(Label::new(sentence).wrap());
    }
}

fn decoding_words(decoding: &Decoding) -> String {
    let share = decoding
        .token_bytes
        .zip(decoding.copy_share)
        .map_or_else(String::new, |(bytes, share)| {
            format!(
                "; each reads {} GiB of weights, which is {} of what copies within the memory reach",
                number(Gib::from_bytes(bytes).0),
                percent(share)
            )
        });
    capitalised(&format!(
        "{}: {} tokens a second{share}. Memory limits it and not arithmetic, so it is no level",
        decoding.name,
        number(decoding.tokens_per_sec.mean)
    ))
}

#[cfg(test)]
mod tests {
    use tunesmith_measure::Spread;

    use super::*;

    #[test]
    fn writing_is_told_beside_the_ladder() {
        let decoding = Decoding {
            name: "answers, one at a time".to_owned(),
            tokens_per_sec: Spread::of(&[46.0, 47.0]).unwrap(),
            token_bytes: Some(1 << 30),
            copy_share: Some(0.5),
        };
        let told = decoding_words(&decoding);
        assert!(
            told.starts_with("Answers, one at a time: 46.5 tokens a second; each reads 1.00 GiB"),
            "{told}"
        );
        assert!(told.contains("50.0 % of what copies"), "{told}");
    }
}
