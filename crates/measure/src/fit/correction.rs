//! What runs on this machine say of the formula: the middle of measured over predicted, without those that lie apart,
//! and how far the others lie from it (X11).

use serde::{Deserialize, Serialize};

use crate::stats;

/// Share by which the formula alone may be wrong: it met the published runs within a tenth (numbers 4.2).
pub const FORMULA_MARGIN: f64 = 0.10;
/// Share by which a corrected prediction may be wrong at least: repeats of one run differ by less.
pub const LEAST_MARGIN: f64 = 0.05;
/// Runs from which on their own spread tells how far a prediction may be wrong.
const ENOUGH_RUNS: usize = 3;
/// Median distances from the middle beyond which a run lies apart: three standard deviations of a normal distribution,
/// whose median distance is 1/1.4826 of one.
const APART: f64 = 3.0 * 1.4826;

/// What earlier runs say of the formula.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// Median of measured over predicted.
    pub ratio: f64,
    /// Runs that it is taken from.
    pub runs: usize,
    /// Runs that lie apart from the others and do not count.
    #[serde(default)]
    pub left_out: usize,
    /// Share by which a prediction corrected by it may be wrong.
    pub margin: f64,
}

impl Correction {
    /// From measured over predicted of earlier runs; `None` without any. One strange run among many (another program in
    /// the card, a run that ended early) moves neither the ratio nor the margin.
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let usable: Vec<f64> = ratios
            .iter()
            .copied()
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
            .collect();
        let middle = stats::median(&usable).ok()?;
        let far = |ratio: f64| (ratio / middle - 1.0).abs();
        let distances: Vec<f64> = usable.iter().map(|ratio| far(*ratio)).collect();
        let apart = (APART * stats::median(&distances).ok()?).max(LEAST_MARGIN);
        let enough = usable.len() > ENOUGH_RUNS;
        let counted: Vec<f64> = usable
            .iter()
            .copied()
            .filter(|ratio| !enough || far(*ratio) <= apart)
            .collect();
        let ratio = stats::median(&counted).ok()?;
        let farthest = counted
            .iter()
            .map(|one| (one / ratio - 1.0).abs())
            .fold(LEAST_MARGIN, f64::max);
        Some(Self {
            ratio,
            runs: counted.len(),
            left_out: usable.len() - counted.len(),
            margin: if counted.len() < ENOUGH_RUNS {
                FORMULA_MARGIN
            } else {
                farthest
            },
        })
    }

    /// Whether there are enough runs for their own spread to be the margin.
    pub fn is_settled(&self) -> bool {
        self.runs >= ENOUGH_RUNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_runs_correct_and_the_formulas_error_stays() {
        assert_eq!(Correction::of(&[]), None);
        assert_eq!(Correction::of(&[f64::NAN, 0.0, -1.0]), None);
        let two = Correction::of(&[0.8, 0.9]).unwrap();
        assert!((two.ratio - 0.85).abs() < 1e-12 && !two.is_settled());
        assert_eq!(two.runs, 2);
        assert!((two.margin - FORMULA_MARGIN).abs() < 1e-12);
    }

    #[test]
    fn enough_runs_bring_their_own_spread() {
        let three = Correction::of(&[0.80, 0.82, 0.70]).unwrap();
        assert_eq!((three.runs, three.left_out), (3, 0));
        assert!((three.ratio - 0.80).abs() < 1e-12);
        assert!((three.margin - 0.125).abs() < 1e-9, "{three:?}");
        let close = Correction::of(&[0.8, 0.801, 0.799]).unwrap().margin;
        assert!((close - LEAST_MARGIN).abs() < 1e-12);
    }

    #[test]
    fn one_that_lies_apart_moves_nothing() {
        let with = Correction::of(&[0.8, 0.81, 0.79, 0.8, 2.4]).unwrap();
        let without = Correction::of(&[0.8, 0.81, 0.79, 0.8]).unwrap();
        assert_eq!((with.left_out, without.left_out), (1, 0));
        assert!((with.ratio - without.ratio).abs() < 1e-12);
        assert!((with.margin - without.margin).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_ratio_lies_among_the_runs_and_most_of_them_count(ratios in prop::collection::vec(0.1f64..4.0, 1..40)) {
            let found = Correction::of(&ratios).unwrap();
            let (low, high) = ratios.iter().fold((f64::MAX, 0.0f64), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
            prop_assert!(found.ratio >= low && found.ratio <= high);
            prop_assert!(found.runs * 2 >= ratios.len());
            prop_assert_eq!(found.runs + found.left_out, ratios.len());
            prop_assert!(found.margin >= LEAST_MARGIN);
        }
    }
}
