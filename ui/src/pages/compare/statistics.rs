//! The numbers behind the verdict: for each figure both arms' runs, mean and spread, the difference, and the test that
//! tells it from noise (M8, C2, C6).

use egui::{Label, RichText, ScrollArea, Ui};
use egui_extras::Column;
use tunesmith_lab::experiment::ExperimentState;
use tunesmith_measure::comparison::{ArmSummary, Metric, Pair, PairFigure};
use tunesmith_report::{
    effect_words,
    format::{capitalised, plural, significant},
    metric_unit, metric_words, p_words,
};

use super::words;
use crate::{
    commands::Commands,
    theme::{self, tokens},
    widgets,
};

/// Narrower than this, a table is scrolled sideways.
const TABLE: f32 = 980.0;

pub(super) fn statistics_ui(experiment: &ExperimentState, ui: &mut Ui, out: &mut Commands) {
    let comparison = &experiment.comparison;
    if comparison.pairs.iter().all(|pair| pair.figures.is_empty()) {
        return;
    }
    widgets::panel(ui, "Statistics", |ui| {
        ui.horizontal_wrapped(|ui| {
            widgets::caption(
                ui,
                "Welch's test, p by Holm's correction where several arms are compared;",
            );
            widgets::term(ui, "within noise", out);
            widgets::caption(ui, "says what that means");
        });
        for (index, pair) in comparison.pairs.iter().enumerate() {
            // One whose runs measure something else has nothing to compare.
            if pair.figures.is_empty() {
                continue;
            }
            let (Some(own), Some(first)) = (comparison.arms.get(pair.arm), comparison.arms.first()) else {
                continue;
            };
            ui.push_id(("pair", index), |ui| pair_ui(pair, own, first, ui));
        }
    });
}

fn pair_ui(pair: &Pair, own: &ArmSummary, first: &ArmSummary, ui: &mut Ui) {
    ui.add_space(theme::GRID);
    widgets::subheading(ui, &format!("{} against {}", pair.name, pair.against));
    let changes: Vec<String> = pair
        .changes
        .iter()
        .map(|change| format!("{}: {} → {}", change.key, change.from, change.to))
        .collect();
    widgets::caption(ui, &changes.join("; "));
    let width = ui.available_width().max(TABLE);
    ScrollArea::horizontal().id_salt("across").show(ui, |ui| {
        ui.set_width(width);
        ui.spacing_mut().item_spacing.y = 0.0;
        let weak = tokens(ui).weak_text;
        widgets::table(ui, "statistics")
            .vscroll(false)
            .column(Column::exact(150.0).clip(true))
            .column(Column::exact(116.0))
            .column(Column::exact(150.0).clip(true))
            .column(Column::exact(150.0).clip(true))
            .column(Column::initial(190.0).clip(true))
            .column(Column::exact(58.0))
            .column(Column::exact(50.0))
            .column(Column::exact(64.0))
            .column(Column::remainder().clip(true))
            .header(theme::ROW, |mut header| {
                let difference = "Difference; ratio (95 % interval)";
                let names = [
                    "Figure",
                    "",
                    pair.name.as_str(),
                    pair.against.as_str(),
                    difference,
                    "t",
                    "df",
                    "p",
                    "d",
                ];
                for name in names {
                    header.col(|ui| {
                        _ = ui.add(Label::new(RichText::new(name).small().color(weak)).truncate());
                    });
                }
            })
            .body(|body| {
                body.rows(theme::ROW, pair.figures.len(), |mut row| {
                    let figure = &pair.figures[row.index()];
                    row.col(|ui| _ = ui.add(Label::new(heading(figure.metric)).truncate()));
                    row.col(|ui| {
                        _ = widgets::badge(
                            ui,
                            words::tone_of_effect(figure.effect),
                            effect_words(figure.effect),
                        );
                    });
                    for text in cells(figure, own, first) {
                        row.col(|ui| {
                            _ = ui.add(Label::new(&text).truncate());
                        });
                    }
                });
            });
    });
    for items in &pair.items {
        widgets::caption(
            ui,
            &format!(
                "Seed {}: of {} {} are answered rightly by {} alone and {} by {} alone (McNemar's test, p = {})",
                items.seed,
                plural(items.items as u64, "question"),
                items.test.gained,
                pair.name,
                items.test.lost,
                pair.against,
                p_words(items.test.p_two_sided)
            ),
        );
    }
}

/// `Peak memory, GiB`.
fn heading(metric: Metric) -> String {
    let (title, unit) = (capitalised(metric.title()), metric_unit(metric));
    // Tokens a second have their unit in their name.
    if unit == "tokens/s" {
        title
    } else {
        format!("{title}, {unit}")
    }
}

/// Both arms, the difference with its ratio, and the test.
fn cells(figure: &PairFigure, own: &ArmSummary, first: &ArmSummary) -> [String; 7] {
    let dash = || "–".to_owned();
    let arm = |arm: &ArmSummary| {
        arm.figures.get(&figure.metric).map_or_else(dash, |of| {
            let sd = of.spread.sd.map_or_else(String::new, |sd| {
                format!(" ± {}", metric_words(figure.metric, sd))
            });
            format!(
                "{}{sd}, n = {}",
                metric_words(figure.metric, of.spread.mean),
                of.spread.n
            )
        })
    };
    let sign = if figure.difference > 0.0 { "+" } else { "" };
    let ratio = figure.ratio.map_or_else(String::new, |ratio| {
        let interval = ratio.interval.map_or_else(String::new, |interval| {
            format!(
                " ({} to {})",
                significant(interval.low, 3),
                significant(interval.high, 3)
            )
        });
        format!("; {}{interval}", significant(ratio.value, 3))
    });
    [
        arm(own),
        arm(first),
        format!("{sign}{}{ratio}", metric_words(figure.metric, figure.difference)),
        figure.welch.map_or_else(dash, |test| significant(test.t, 3)),
        figure.welch.map_or_else(dash, |test| significant(test.df, 3)),
        figure.p_adjusted.map_or_else(dash, p_words),
        figure.cohens_d.map_or_else(dash, |d| significant(d, 3)),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tunesmith_measure::comparison::{Design, Figures, Measured, compare};

    use super::*;

    #[test]
    fn a_row_has_both_arms_the_difference_and_the_whole_test() {
        let design = Design {
            arms: vec![("hf".to_owned(), Vec::new()), ("unsloth".to_owned(), Vec::new())],
            metrics: vec![Metric::TokensPerSec],
            criteria: Vec::new(),
            predictions: Vec::new(),
        };
        // The published framework comparison: t and df by Welch, d with the pooled deviation.
        let speeds = [[122.2, 123.4, 123.6], [126.5, 130.6, 131.2]];
        let runs: Vec<Measured> = (0..2)
            .flat_map(|arm| {
                (0..3).map(move |run| Measured {
                    arm,
                    seed: run as u64,
                    figures: Figures::from([(Metric::TokensPerSec, speeds[arm][run])]),
                    correct: BTreeMap::new(),
                })
            })
            .collect();
        let found = compare(&design, &runs);
        let row = cells(&found.pairs[0].figures[0], &found.arms[1], &found.arms[0]);
        assert_eq!(row[0], "129 ± 2.56, n = 3");
        assert_eq!(row[1], "123 ± 0.757, n = 3");
        assert!(row[2].starts_with("+6.37; 1.05 ("), "{}", row[2]);
        assert_eq!(row[4..], ["2.35", "0.041", "3.38"]);
        assert_eq!(heading(Metric::PeakBytes), "Peak memory, GiB");
        assert_eq!(heading(Metric::TokensPerSec), "Tokens a second");
    }
}
