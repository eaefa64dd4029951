//! One figure of two arms: how far apart, how surely, and whether that is more than noise (M22, C2).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::stats::{self, Interval, Welch};

use super::{ArmFigure, ArmSummary, Direction, Metric, Pair};

/// Two means are told apart where chance would do it in fewer than 5 of 100 cases (C2).
pub const SIGNIFICANT: f64 = 0.05;

/// Differences of memory below 2 GiB are noise unless they were repeated: runs of one set-up were seen to differ by as
/// much (M22).
pub const NOISE_BYTES: f64 = 2.0 * 1024.0 * 1024.0 * 1024.0;

/// Least difference, in standard deviations of the repeats, that is called an effect. A test of many runs finds
/// smaller ones too; they are real and of no use (M22).
const LEAST_D: f64 = 1.0;

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// More than noise, and for the better.
    Better,
    /// More than noise, and for the worse.
    Worse,
    /// As large as repeats differ by chance.
    WithinNoise,
    /// Seen once and not repeated: it may be noise or not (M22).
    Exploratory,
}

/// A ratio with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Mean of the arm over mean of the first arm.
    pub value: f64,
    /// 95 % interval; absent where an arm was not repeated.
    pub interval: Option<Interval>,
}

/// A figure of an arm against the first arm's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairFigure {
    /// Which.
    pub metric: Metric,
    /// Mean of the arm less mean of the first arm.
    pub difference: f64,
    /// 95 % interval of that; absent where an arm was not repeated.
    pub difference_interval: Option<Interval>,
    /// Mean of the arm over mean of the first arm; absent where one is not above zero.
    pub ratio: Option<Ratio>,
    /// Welch's test; absent where an arm was not repeated, or no repeat differs from another.
    pub welch: Option<Welch>,
    /// The test's p by Holm's correction for all arms that are compared with the first.
    pub p_adjusted: Option<f64>,
    /// Cohen's d, under the same conditions as the test.
    pub cohens_d: Option<f64>,
    /// What the difference is.
    pub effect: Effect,
    /// The same in a sentence without full stop.
    pub sentence: String,
    /// Runs of the arm that have the figure.
    pub runs: usize,
    /// Runs of the first arm that have it.
    pub runs_against: usize,
}

impl PairFigure {
    /// An arm's figure against that of the first; nothing where one of them does not have it.
    pub(super) fn of(metric: Metric, arm: &ArmSummary, first: &ArmSummary) -> Option<Self> {
        let (new, old) = (arm.figures.get(&metric)?, first.figures.get(&metric)?);
        let test = stats::welch(&new.values, &old.values).ok();
        let mut figure = Self {
            metric,
            difference: new.spread.mean - old.spread.mean,
            difference_interval: stats::difference_interval(&new.values, &old.values).ok(),
            ratio: ratio(new, old),
            p_adjusted: test.map(|test| test.p_two_sided),
            welch: test,
            cohens_d: stats::cohens_d(&new.values, &old.values).ok(),
            effect: Effect::WithinNoise,
            sentence: String::new(),
            runs: new.spread.n,
            runs_against: old.spread.n,
        };
        figure.decide(&arm.name, &first.name);
        Some(figure)
    }

    /// Effect and sentence from what was tested.
    fn decide(&mut self, name: &str, against: &str) {
        self.effect = self.effect();
        self.sentence = self.words(name, against);
    }

    /// Both arms were repeated, and the repeats of each are equal: there is nothing to test, and no noise either.
    fn is_without_spread(&self) -> bool {
        self.difference_interval.is_some() && self.welch.is_none()
    }

    fn effect(&self) -> Effect {
        let rises = self.difference > 0.0;
        let way = if rises == (self.metric.direction() == Direction::Higher) {
            Effect::Better
        } else {
            Effect::Worse
        };
        if self.difference == 0.0 {
            return Effect::WithinNoise;
        }
        if self.is_without_spread() {
            return way;
        }
        match (self.p_adjusted, self.cohens_d) {
            (Some(p), Some(d)) if p < SIGNIFICANT && d.abs() >= LEAST_D => way,
            (Some(_), _) => Effect::WithinNoise,
            (None, _) if self.metric == Metric::PeakBytes && self.difference.abs() < NOISE_BYTES => {
                Effect::WithinNoise
            }
            (None, _) => Effect::Exploratory,
        }
    }

    /// How large the difference is, for people.
    fn size(&self) -> String {
        let way = if self.difference < 0.0 {
            "lower than"
        } else {
            "higher than"
        };
        match self.ratio {
            _ if self.metric.by_difference() => format!("{:.1} points {way}", self.difference.abs()),
            // A factor is easier to read than 120 %.
            Some(ratio) if ratio.value >= 2.0 => format!("{:.1} times", ratio.value),
            Some(ratio) if (ratio.value - 1.0).abs() < 5e-4 => format!("less than 0.1 % {way}"),
            Some(ratio) => format!("{:.1} % {way}", 100.0 * (ratio.value - 1.0).abs()),
            None => way.to_owned(),
        }
    }

    fn words(&self, name: &str, against: &str) -> String {
        let title = self.metric.title();
        let (own, other) = (self.runs, self.runs_against);
        if self.difference == 0.0 {
            return format!("{title} of {name} is that of {against}");
        }
        let what = format!("{title} of {name} is {} that of {against}", self.size());
        match (self.effect, self.welch) {
            (Effect::Better | Effect::Worse, Some(test)) => format!(
                "{what}, beyond the noise of {own} and {other} runs (Welch's test: df = {:.2}, {})",
                test.df,
                p_words(self.p_adjusted.unwrap_or(test.p_two_sided), 3)
            ),
            (Effect::Better | Effect::Worse, None) => {
                format!("{what}; repeats are equal to the last digit, so this is no noise")
            }
            (Effect::WithinNoise, Some(_)) if self.p_adjusted.is_some_and(|p| p < SIGNIFICANT) => format!(
                "{what}, which is within noise: it is smaller than the spread of {own} and {other} runs (d = {:.2})",
                self.cohens_d.unwrap_or(0.0)
            ),
            (Effect::WithinNoise, Some(test)) => format!(
                "{what}, which is within noise: {own} and {other} runs differ as much by chance (Welch's test: df = {:.2}, {})",
                test.df,
                p_words(self.p_adjusted.unwrap_or(test.p_two_sided), 2)
            ),
            (Effect::WithinNoise, None) => format!(
                "{what}, which is within noise: differences of memory below 2 GiB are, unless each arm is repeated"
            ),
            (Effect::Exploratory, _) => format!(
                "{what}, seen in {own} and {other} runs: exploratory, as it takes two repeats of each to tell it from noise"
            ),
        }
    }
}

/// `p = 0.041`, or `p < 0.001` where a zero would be read as none.
fn p_words(p: f64, decimals: usize) -> String {
    if p < 0.0005 {
        "p < 0.001".to_owned()
    } else {
        format!("p = {p:.decimals$}")
    }
}

fn ratio(new: &ArmFigure, old: &ArmFigure) -> Option<Ratio> {
    let (new_mean, old_mean) = (new.spread.mean, old.spread.mean);
    (new_mean > 0.0 && old_mean > 0.0).then(|| Ratio {
        value: new_mean / old_mean,
        interval: stats::ratio_interval(&new.values, &old.values).ok(),
    })
}

/// Corrects the tests of a figure for the number of arms that are compared by it.
pub(super) fn adjust(pairs: &mut [Pair]) {
    let mut tests: HashMap<Metric, Vec<(usize, usize, f64)>> = HashMap::new();
    for (at, pair) in pairs.iter().enumerate() {
        for (place, figure) in pair.figures.iter().enumerate() {
            if let Some(test) = figure.welch {
                tests
                    .entry(figure.metric)
                    .or_default()
                    .push((at, place, test.p_two_sided));
            }
        }
    }
    for found in tests.into_values() {
        let values: Vec<f64> = found.iter().map(|(_, _, p)| *p).collect();
        for ((at, place, _), p) in found.iter().zip(stats::holm(&values)) {
            let pair = &mut pairs[*at];
            let (name, against) = (pair.name.clone(), pair.against.clone());
            let figure = &mut pair.figures[*place];
            figure.p_adjusted = Some(p);
            figure.decide(&name, &against);
        }
    }
}
