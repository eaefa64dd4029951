//! Several runs of several arms to what they say: spread, tests, effects, "within noise", and whether what was
//! predicted came true (M8, M22, C2, C3, C6, S1).
//!
//! An arm is a set-up that is run several times. The first arm is the one that the others are compared with. Runs of
//! one experiment alone are compared: another experiment has other steps, another length or another machine (M11).

mod claim;
mod drift;
mod knobs;
mod metric;
mod noise;
mod pair;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    Gib, Spread,
    pareto::{self, Tradeoff},
    stats::{self, McNemar},
};

pub use claim::{Claim, ClaimResult, ClaimVerdict, Quantity};
pub use drift::{Drift, DriftWindow, drift};
pub use knobs::{Knob, KnobPoint, knobs};
pub use metric::{Direction, Figures, Metric, figures_of};
pub use noise::{NOISE_BYTES, Noise, SIGNIFICANT, SampleComparison, SampledFigure, Tested, compare_samples};
pub use pair::{Effect, PairFigure};

/// One setting of an arm against the first arm's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The setting's dotted name, e.g. `train.recompute`.
    pub key: String,
    /// Of the first arm; empty where it has none.
    pub from: String,
    /// Of this arm; empty where it has none.
    pub to: String,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// The arms with what each changes against the first.
    pub arms: Vec<(String, Vec<Change>)>,
    /// By what, the most important first.
    pub metrics: Vec<Metric>,
    /// What must hold for the experiment to pass, written before the runs.
    pub criteria: Vec<Claim>,
    /// What was predicted before the runs.
    pub predictions: Vec<Claim>,
}

/// A run that counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Number of its arm, from 0.
    pub arm: usize,
    /// Its seed.
    pub seed: u64,
    /// Its figures.
    pub figures: Figures,
    /// Per test question, by its id, whether it was answered rightly; empty where none was asked.
    pub correct: BTreeMap<String, bool>,
}

/// What the runs of an arm reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// Its name.
    pub name: String,
    /// What it changes against the first arm.
    pub changes: Vec<Change>,
    /// Runs that count.
    pub runs: usize,
    /// By figure; those that no run has are left out.
    pub figures: BTreeMap<Metric, ArmFigure>,
}

/// A figure of an arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmFigure {
    /// Number, mean, standard deviation, least and most.
    pub spread: Spread,
    /// The values, in the order of the runs.
    pub values: Vec<f64>,
}

/// The paired test of per-question outcomes for one seed (C6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedItems {
    /// The seed that both runs share.
    pub seed: u64,
    /// Questions that both answered.
    pub items: usize,
    /// The test.
    pub test: McNemar,
}

/// An arm against the first one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Number of the arm, from 0.
    pub arm: usize,
    /// Its name.
    pub name: String,
    /// The first arm's name.
    pub against: String,
    /// What it changes.
    pub changes: Vec<Change>,
    /// Figure by figure, the most important first.
    pub figures: Vec<PairFigure>,
    /// Per-question outcomes, seed by seed.
    pub items: Vec<PairedItems>,
}

impl Pair {
    /// How far the most important figure moves, as |ln ratio|, for ordering; zero where it is not known.
    fn size(&self) -> f64 {
        let ratio = self.figures.first().and_then(|figure| figure.ratio);
        ratio.map_or(0.0, |ratio| ratio.value.ln().abs())
    }
}

/// What an experiment came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The arms, in the order of the file.
    pub arms: Vec<ArmSummary>,
    /// Every other arm against the first, the largest effect first (S1).
    pub pairs: Vec<Pair>,
    /// Numbers of the arms that no other one beats at memory against speed, by rising memory (S3).
    pub frontier: Vec<usize>,
    /// Of what had to hold.
    pub criteria: Vec<ClaimResult>,
    /// Of what was predicted.
    pub predictions: Vec<ClaimResult>,
    /// What it comes to, in sentences without full stops.
    pub findings: Vec<String>,
}

/// Compares the runs of an experiment.
pub fn compare(design: &Design, runs: &[Measured]) -> Comparison {
    let arms: Vec<ArmSummary> = design
        .arms
        .iter()
        .enumerate()
        .map(|(index, (name, changes))| arm_summary(index, name, changes, runs))
        .collect();
    let mut pairs = pairs(design, &arms, runs);
    pair::adjust(&mut pairs);
    pairs.sort_by(|a, b| b.size().total_cmp(&a.size()));
    let judged = |claims: &[Claim]| claims.iter().map(|claim| claim.judge(&arms, runs)).collect();
    let findings = pairs
        .iter()
        .flat_map(|pair| pair.figures.iter().map(|figure| figure.sentence.clone()))
        .collect();
    Comparison {
        frontier: frontier(&arms),
        criteria: judged(&design.criteria),
        predictions: judged(&design.predictions),
        findings,
        pairs,
        arms,
    }
}

fn arm_summary(index: usize, name: &str, changes: &[Change], runs: &[Measured]) -> ArmSummary {
    let own: Vec<&Measured> = runs.iter().filter(|run| run.arm == index).collect();
    let figure = |metric: Metric| {
        let values: Vec<f64> = own
            .iter()
            .filter_map(|run| run.figures.get(&metric).copied())
            .collect();
        let spread = Spread::of(&values)?;
        Some((metric, ArmFigure { spread, values }))
    };
    ArmSummary {
        name: name.to_owned(),
        changes: changes.to_vec(),
        runs: own.len(),
        figures: Metric::ALL.into_iter().filter_map(figure).collect(),
    }
}

fn pairs(design: &Design, arms: &[ArmSummary], runs: &[Measured]) -> Vec<Pair> {
    let Some((first, others)) = arms.split_first() else {
        return Vec::new();
    };
    let pair = |(index, arm): (usize, &ArmSummary)| Pair {
        arm: index + 1,
        name: arm.name.clone(),
        against: first.name.clone(),
        changes: arm.changes.clone(),
        figures: design
            .metrics
            .iter()
            .filter_map(|metric| PairFigure::of(*metric, arm, first))
            .collect(),
        items: paired_items(index + 1, runs),
    };
    others.iter().enumerate().map(pair).collect()
}

/// McNemar's test for each seed that both the arm and the first one have. Repeats of one seed are one pair: greedy
/// answers of equal trainings are equal.
fn paired_items(arm: usize, runs: &[Measured]) -> Vec<PairedItems> {
    let seeds: BTreeSet<u64> = runs.iter().map(|run| run.seed).collect();
    let of = |arm: usize, seed: u64| {
        runs.iter()
            .find(|run| run.arm == arm && run.seed == seed && !run.correct.is_empty())
    };
    let test = |seed: u64| {
        let (before, after) = (of(0, seed)?, of(arm, seed)?);
        let both: Vec<(bool, bool)> = before
            .correct
            .iter()
            .filter_map(|(id, was)| Some((*was, *after.correct.get(id)?)))
            .collect();
        let count = |wanted: (bool, bool)| both.iter().filter(|pair| **pair == wanted).count() as u64;
        let test = stats::mcnemar(count((false, true)), count((true, false))).ok()?;
        Some(PairedItems {
            seed,
            items: both.len(),
            test,
        })
    };
    seeds.into_iter().filter_map(test).collect()
}

fn frontier(arms: &[ArmSummary]) -> Vec<usize> {
    let mean = |arm: &ArmSummary, metric: Metric| arm.figures.get(&metric).map(|figure| figure.spread.mean);
    let points: Vec<Tradeoff> = arms
        .iter()
        .map(|arm| Tradeoff {
            // An arm without one of the two figures lies on no frontier.
            vram: mean(arm, Metric::PeakBytes).map_or(Gib(f64::NAN), |bytes| Gib::from_bytes(bytes as u64)),
            tokens_per_sec: mean(arm, Metric::TokensPerSec).unwrap_or(f64::NAN),
        })
        .collect();
    pareto::frontier(&points)
}

#[cfg(test)]
mod tests;
