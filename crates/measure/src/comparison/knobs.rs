//! A sweep by its knobs: each setting, or settings that go together, with what every value of it came to, the knob with
//! the largest effect first (S1).

use std::{cmp::Ordering, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::Spread;

use super::{Comparison, Metric};

/// A value of a knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnobPoint {
    /// The value, e.g. `8`; the arm's name where several settings are changed together.
    pub setting: String,
    /// Number of the arm, from 0; the first arm has the value that the other knobs' arms have too.
    pub arm: usize,
    /// What its runs came to.
    pub spread: Spread,
}

/// A setting with its values, numbers by their size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knob {
    /// The setting's dotted name, e.g. `train.micro_batch`; of several that are changed together all of them.
    pub key: String,
    /// Its values, two or more.
    pub points: Vec<KnobPoint>,
    /// Largest mean over smallest; 1 where that is not known.
    pub effect: f64,
}

/// The knobs of an experiment by one figure. Settings that arms change together are one knob, whose values go by the
/// arms' names: rows of a pass and passes of a step, say, where their product stays.
pub fn knobs(comparison: &Comparison, metric: Metric) -> Vec<Knob> {
    let spread = |arm: usize| Some(comparison.arms[arm].figures.get(&metric)?.spread);
    let mut found: BTreeMap<Vec<&str>, Vec<KnobPoint>> = BTreeMap::new();
    for (index, arm) in comparison.arms.iter().enumerate().skip(1) {
        let Some(own) = spread(index) else { continue };
        let keys: Vec<&str> = arm.changes.iter().map(|change| change.key.as_str()).collect();
        let (from, to) = match arm.changes.as_slice() {
            [] => continue,
            [only] => (&only.from, &only.to),
            _ => (&comparison.arms[0].name, &arm.name),
        };
        let points = found.entry(keys).or_insert_with(|| {
            let first = spread(0).map(|spread| KnobPoint {
                setting: from.clone(),
                arm: 0,
                spread,
            });
            first.into_iter().collect()
        });
        points.push(KnobPoint {
            setting: to.clone(),
            arm: index,
            spread: own,
        });
    }
    let mut knobs: Vec<Knob> = found
        .into_iter()
        .filter(|(_, points)| points.len() >= 2)
        .map(|(keys, mut points)| {
            points.sort_by(|one, other| by_size(&one.setting, &other.setting));
            Knob {
                key: keys.join(" and "),
                effect: effect(&points),
                points,
            }
        })
        .collect();
    knobs.sort_by(|one, other| other.effect.total_cmp(&one.effect));
    knobs
}

fn effect(points: &[KnobPoint]) -> f64 {
    let means = || points.iter().map(|point| point.spread.mean);
    let (least, most) = (means().fold(f64::INFINITY, f64::min), means().fold(0.0, f64::max));
    if least > 0.0 && most.is_finite() {
        most / least
    } else {
        1.0
    }
}

/// Numbers by their size; words stay in the order of the arms.
fn by_size(one: &str, other: &str) -> Ordering {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other),
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{Change, Design, Figures, Measured, compare};

    fn change(key: &str, from: &str, to: &str) -> Vec<Change> {
        vec![Change {
            key: key.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
        }]
    }

    #[test]
    fn the_knob_with_the_largest_effect_comes_first_and_its_numbers_rise() {
        let both = [
            change("lora.rank", "8", "4"),
            change("train.micro_batch", "4", "2"),
        ]
        .concat();
        let design = Design {
            arms: vec![
                ("base".to_owned(), Vec::new()),
                ("rank 16".to_owned(), change("lora.rank", "8", "16")),
                ("16 rows".to_owned(), change("train.micro_batch", "4", "16")),
                ("1 row".to_owned(), change("train.micro_batch", "4", "1")),
                ("both".to_owned(), both),
            ],
            metrics: vec![Metric::TokensPerSec],
            criteria: Vec::new(),
            predictions: Vec::new(),
        };
        let runs: Vec<Measured> = [100.0, 101.0, 180.0, 60.0, 500.0]
            .into_iter()
            .enumerate()
            .map(|(arm, speed)| Measured {
                arm,
                seed: 1,
                figures: Figures::from([(Metric::TokensPerSec, speed)]),
                correct: BTreeMap::new(),
            })
            .collect();
        let found = knobs(&compare(&design, &runs), Metric::TokensPerSec);
        let keys: Vec<&str> = found.iter().map(|knob| knob.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "lora.rank and train.micro_batch",
                "train.micro_batch",
                "lora.rank"
            ]
        );
        assert_eq!(found[0].points[1].setting, "both");
        let settings: Vec<&str> = found[1]
            .points
            .iter()
            .map(|point| point.setting.as_str())
            .collect();
        assert_eq!(settings, ["1", "4", "16"]);
        assert!((found[1].effect - 3.0).abs() < 1e-12);
        assert_eq!(found[2].points[0].arm, 0);
        assert!(knobs(&compare(&design, &runs), Metric::PeakBytes).is_empty());
    }
}
