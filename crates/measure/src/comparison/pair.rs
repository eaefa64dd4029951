//! One figure of two arms: how far apart, how surely, and whether that is more than noise (M22, C2).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::stats::{self, Interval, Welch};

use super::{ArmFigure, ArmSummary, Direction, Metric, NOISE_BYTES, Noise, Pair, Tested};

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
        let tested = Tested::of(&old.values, &new.values).ok()?;
        let mut figure = Self {
            metric,
            difference: tested.difference,
            difference_interval: tested.difference_interval,
            ratio: ratio(new, old),
            p_adjusted: tested.p,
            welch: tested.welch,
            cohens_d: tested.cohens_d,
            effect: Effect::WithinNoise,
            sentence: String::new(),
            runs: tested.second_runs,
            runs_against: tested.first_runs,
        };
        figure.decide(&arm.name, &first.name);
        Some(figure)
    }

    /// Effect and sentence from what was tested.
    fn decide(&mut self, name: &str, against: &str) {
        self.effect = self.effect();
        self.sentence = self.words(name, against);
    }

    /// The test, as it counts among those of all arms.
    fn tested(&self) -> Tested {
        Tested {
            difference: self.difference,
            difference_interval: self.difference_interval,
            welch: self.welch,
            p: self.p_adjusted,
            cohens_d: self.cohens_d,
            noise_unrepeated: if self.metric == Metric::PeakBytes {
                NOISE_BYTES
            } else {
                0.0
            },
            first_runs: self.runs_against,
            second_runs: self.runs,
        }
    }

    fn effect(&self) -> Effect {
        let rises = self.difference > 0.0;
        match self.tested().noise() {
            Noise::Within => Effect::WithinNoise,
            Noise::Unknown => Effect::Exploratory,
            Noise::Beyond if rises == (self.metric.direction() == Direction::Higher) => Effect::Better,
            Noise::Beyond => Effect::Worse,
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
        if self.difference == 0.0 {
            return format!("{title} of {name} is that of {against}");
        }
        let (size, verdict) = (self.size(), self.tested().words());
        format!("{title} of {name} is {size} that of {against}{verdict}")
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
