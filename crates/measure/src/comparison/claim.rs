//! What was written down before the first run: a pass criterion or a prediction, as a range for one figure, and
//! whether the runs bear it out (C3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stats::{self, Interval};

use super::{ArmSummary, Measured, Metric};

/// What the range is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Mean of the arm over mean of the other.
    #[default]
    Ratio,
    /// Mean of the arm less mean of the other, in the figure's unit.
    Difference,
    /// Mean of the arm.
    Value,
}

/// A range for a figure, written before the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Which figure.
    pub metric: Metric,
    /// Which arm; the second of the file where it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arm: String,
    /// Against which arm; the first of the file where it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub against: String,
    /// What of them.
    #[serde(default)]
    pub of: Quantity,
    /// It is at least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// It is at most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Why this is expected, or wanted.
    pub why: String,
}

/// Whether a claim came true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimVerdict {
    /// The whole 95 % interval lies in the range.
    Hit,
    /// The whole interval lies outside.
    Miss,
    /// The interval lies across an end of the range, or the arms were not repeated.
    Undecidable,
}

/// A claim with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// What was written.
    pub claim: Claim,
    /// What was measured; absent where an arm has no such figure.
    pub measured: Option<f64>,
    /// Its 95 % interval; absent where an arm was not repeated.
    pub interval: Option<Interval>,
    /// Whether it came true.
    pub verdict: ClaimVerdict,
    /// The same in a sentence without full stop.
    pub sentence: String,
}

impl Claim {
    /// Whether a value lies in the range.
    fn holds(&self, value: f64) -> bool {
        self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most)
    }

    /// Whether the interval lies outside as a whole.
    fn is_beyond(&self, interval: Interval) -> bool {
        self.at_least.is_some_and(|least| interval.high < least)
            || self.at_most.is_some_and(|most| interval.low > most)
    }

    pub(super) fn judge(&self, arms: &[ArmSummary], runs: &[Measured]) -> ClaimResult {
        let (measured, of_samples) = self.measure(arms).unwrap_or((None, None));
        let by_seed = self.interval_by_seed(arms, runs);
        let interval = by_seed.or(of_samples);
        let verdict = match interval {
            Some(interval) if self.holds(interval.low) && self.holds(interval.high) => ClaimVerdict::Hit,
            Some(interval) if self.is_beyond(interval) => ClaimVerdict::Miss,
            _ => ClaimVerdict::Undecidable,
        };
        ClaimResult {
            sentence: self.words(arms, measured, interval, by_seed.is_some(), verdict),
            claim: self.clone(),
            measured,
            interval,
            verdict,
        }
    }

    /// Number of the arm that is spoken of.
    fn own(&self, arms: &[ArmSummary]) -> Option<usize> {
        number_of(arms, &self.arm, arms.len().min(2).saturating_sub(1))
    }

    /// Number of the arm that it is held against.
    fn other(&self, arms: &[ArmSummary]) -> Option<usize> {
        number_of(arms, &self.against, 0)
    }

    /// The interval where arms are compared seed by seed; `None` where the figure does not follow the seed, or the arms
    /// have not the same seeds.
    fn interval_by_seed(&self, arms: &[ArmSummary], runs: &[Measured]) -> Option<Interval> {
        if self.of == Quantity::Value || !self.metric.follows_the_seed() {
            return None;
        }
        let own = self.means_by_seed(self.own(arms)?, runs);
        let other = self.means_by_seed(self.other(arms)?, runs);
        if !own.keys().eq(other.keys()) {
            return None;
        }
        let pairs: Vec<(f64, f64)> = own.into_values().zip(other.into_values()).collect();
        match self.of {
            Quantity::Ratio => stats::paired_ratio_interval(&pairs).ok(),
            _ => stats::paired_difference_interval(&pairs).ok(),
        }
    }

    /// The figure of an arm's runs by their seed; repeats of one seed are one value.
    fn means_by_seed(&self, arm: usize, runs: &[Measured]) -> BTreeMap<u64, f64> {
        let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for run in runs.iter().filter(|run| run.arm == arm) {
            if let Some(value) = run.figures.get(&self.metric) {
                values.entry(run.seed).or_default().push(*value);
            }
        }
        values
            .into_iter()
            .filter_map(|(seed, values)| Some((seed, stats::mean(&values).ok()?)))
            .collect()
    }

    /// The two arms' figures to one number and its interval.
    fn measure(&self, arms: &[ArmSummary]) -> Option<(Option<f64>, Option<Interval>)> {
        let values = |arm: usize| Some(&arms.get(arm)?.figures.get(&self.metric)?.values);
        let own = values(self.own(arms)?)?;
        let mean = stats::mean(own).ok()?;
        if self.of == Quantity::Value {
            return Some((Some(mean), stats::mean_interval(own).ok()));
        }
        let other = values(self.other(arms)?)?;
        let base = stats::mean(other).ok()?;
        Some(match self.of {
            Quantity::Ratio => (
                (base > 0.0).then(|| mean / base),
                stats::ratio_interval(own, other).ok(),
            ),
            _ => (Some(mean - base), stats::difference_interval(own, other).ok()),
        })
    }

    fn words(
        &self,
        arms: &[ArmSummary],
        measured: Option<f64>,
        interval: Option<Interval>,
        by_seed: bool,
        verdict: ClaimVerdict,
    ) -> String {
        let name = |given: &str, otherwise: usize| {
            let arm = arms.get(otherwise).map_or("", |arm| arm.name.as_str());
            if given.is_empty() {
                arm.to_owned()
            } else {
                given.to_owned()
            }
        };
        let own = name(&self.arm, arms.len().min(2).saturating_sub(1));
        let title = self.metric.title();
        let what = match self.of {
            Quantity::Ratio => format!("{title} of {own} over that of {}", name(&self.against, 0)),
            Quantity::Difference => format!("{title} of {own} less that of {}", name(&self.against, 0)),
            Quantity::Value => format!("{title} of {own}"),
        };
        let range = match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => format!("between {least} and {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => "any number".to_owned(),
        };
        let found = match (measured, interval) {
            (Some(value), Some(interval)) => format!(
                "measured {}, 95 % interval {} to {}{}",
                rounded(value),
                rounded(interval.low),
                rounded(interval.high),
                if by_seed { " seed by seed" } else { "" }
            ),
            (Some(value), None) => format!("measured {}, not repeated", rounded(value)),
            (None, _) => "not measured".to_owned(),
        };
        let verdict = match verdict {
            ClaimVerdict::Hit => "it holds",
            ClaimVerdict::Miss => "it does not hold",
            ClaimVerdict::Undecidable => "not decided",
        };
        format!("{what}: {range}; {found}: {verdict}")
    }
}

/// Number of the arm of that name, from 0; the given one where no name was written.
fn number_of(arms: &[ArmSummary], name: &str, otherwise: usize) -> Option<usize> {
    if name.is_empty() {
        return Some(otherwise);
    }
    arms.iter().position(|arm| arm.name == name)
}

/// Three digits behind the point, or none of a number so large that they say nothing.
fn rounded(value: f64) -> String {
    if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}
