//! What an arm comes to against the first, in one sentence: the figures that differ beyond noise with how much, then
//! those that do not, so that a saving never stands without its price.

use crate::Gib;

use super::{Comparison, Effect, Metric, Pair, PairFigure, noise::size_words};

impl Comparison {
    /// What it comes to in one sentence without a full stop, by the arm with the largest effect; nothing where no two
    /// arms have a figure in common.
    pub fn verdict(&self) -> Option<String> {
        let first = self.pairs.iter().find(|pair| !pair.figures.is_empty())?;
        let sentence = first.verdict();
        Some(match self.pairs.len() {
            1 => format!("with {sentence}"),
            arms => format!("of {arms} changes the largest is {sentence}"),
        })
    }
}

impl Pair {
    /// What the arm comes to against the first, in one sentence without a full stop.
    pub fn verdict(&self) -> String {
        let of = |wanted: &dyn Fn(&PairFigure) -> bool, words: fn(&PairFigure) -> String| {
            let figures = self.figures.iter().filter(|figure| wanted(figure));
            figures.map(words).collect::<Vec<String>>().join(", ")
        };
        let title = |figure: &PairFigure| figure.metric.title().to_owned();
        let told = of(
            &|figure| matches!(figure.effect, Effect::Better | Effect::Worse),
            told,
        );
        let seen_once = of(&|figure| figure.effect == Effect::Exploratory, self::told);
        let noise = of(&|figure| figure.effect == Effect::WithinNoise, title);
        let mut parts = Vec::new();
        if !told.is_empty() {
            parts.push(told);
        }
        if !noise.is_empty() {
            parts.push(format!("{noise} within noise"));
        }
        if !seen_once.is_empty() {
            parts.push(format!("not told from noise yet: {seen_once}"));
        }
        if parts.is_empty() {
            parts.push("no figure in common".to_owned());
        }
        format!("{} instead of {}: {}", self.name, self.against, parts.join("; "))
    }
}

/// `peak memory 35.2 % lower (3.4 GiB)`.
fn told(figure: &PairFigure) -> String {
    let title = figure.metric.title();
    let ratio = figure.ratio.map(|ratio| ratio.value);
    let size = size_words(figure.difference, ratio, figure.metric.by_difference());
    if figure.metric == Metric::PeakBytes {
        let bytes = Gib::from_mean(figure.difference.abs()).0;
        let bytes = if bytes >= 1.0 {
            format!("{bytes:.1} GiB")
        } else {
            format!("{:.0} MiB", 1024.0 * bytes)
        };
        return format!("{title} {size} ({bytes})");
    }
    format!("{title} {size}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::comparison::{Design, Figures, Measured, compare};

    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

    /// Speed, peak in GiB and loss of each run.
    fn verdict(arms: &[&[[f64; 3]]]) -> Option<String> {
        let design = Design {
            arms: ["plain", "nf4", "nf4 again"][..arms.len()]
                .iter()
                .map(|name| ((*name).to_owned(), Vec::new()))
                .collect(),
            metrics: vec![Metric::TokensPerSec, Metric::PeakBytes, Metric::LossEnd],
            criteria: Vec::new(),
            predictions: Vec::new(),
        };
        let runs = arms.iter().enumerate().flat_map(|(arm, runs)| {
            runs.iter()
                .enumerate()
                .map(move |(seed, [speed, gib, loss])| Measured {
                    arm,
                    seed: seed as u64,
                    figures: Figures::from([
                        (Metric::TokensPerSec, *speed),
                        (Metric::PeakBytes, gib * GIB),
                        (Metric::LossEnd, *loss),
                    ]),
                    correct: BTreeMap::new(),
                })
        });
        compare(&design, &runs.collect::<Vec<_>>()).verdict()
    }

    const PLAIN: [[f64; 3]; 3] = [[100.0, 10.0, 1.00], [101.0, 10.0, 1.02], [99.0, 10.1, 0.98]];

    #[test]
    fn a_saving_comes_with_its_price_and_noise_is_called_noise() {
        let nf4 = [[60.0, 6.5, 1.01], [60.5, 6.6, 0.99], [59.5, 6.5, 1.03]];
        assert_eq!(
            verdict(&[&PLAIN, &nf4]).unwrap(),
            "with nf4 instead of plain: tokens a second 40.0 % lower, peak memory 34.9 % lower (3.5 GiB); loss at the end within noise"
        );
    }

    #[test]
    fn a_single_run_is_not_told_from_noise() {
        let found = verdict(&[&PLAIN[..1], &[[60.0, 6.5, 1.0]]]).unwrap();
        assert!(
            found.starts_with(
                "with nf4 instead of plain: loss at the end within noise; not told from noise yet: tokens"
            ),
            "{found}"
        );
        assert!(found.contains("40.0 % lower"), "{found}");
    }

    #[test]
    fn of_many_arms_the_largest_effect_is_told_and_of_none_nothing() {
        let nf4 = [[60.0, 6.5, 1.01], [60.5, 6.6, 0.99], [59.5, 6.5, 1.03]];
        let slow = [[20.0, 10.0, 1.01], [20.5, 10.0, 0.99], [19.5, 10.1, 1.03]];
        let found = verdict(&[&PLAIN, &nf4, &slow]).unwrap();
        assert!(
            found.starts_with("of 2 changes the largest is nf4 again instead of plain"),
            "{found}"
        );
        assert_eq!(verdict(&[&PLAIN, &[]]), None);
    }
}
