//! Where the time goes: between what matrix products reach on a device and what a training achieves lies a ladder of
//! levels, each measured by itself on the same model, device and number format. What is lost from one level to the next
//! adds up to the whole gap (M5).
//!
//! Every level counts useful work alone, in TFLOPS: products their own operations, a training what LoRA needs. Writing an
//! answer token by token is limited by memory and not by arithmetic, so it stands beside the ladder as tokens a second
//! and is never folded into it (M4).

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{AnswerStats, CopyBandwidth, DType, Quantization};

use crate::{
    ModelShape, Spread, Tflops,
    comparison::{ArmSummary, Change, Metric},
    weight_bytes,
};

/// What is lost to products of a model's own size.
const SMALLER_PRODUCTS: &str =
    "matrices of this model's size, read from a cold cache, instead of large square ones";
/// What is lost between products and a training.
const THE_REST_OF_A_STEP: &str = "everything in a step beside these products: attention, the head and the loss, norms, the adapter's own products, the optimizer, and the time to start each operation";
/// The setting of which is known why it costs.
const RECOMPUTE: &str = "train.recompute";
/// The published ladder ends with reinforcement learning (M5).
const REINFORCEMENT: (&str, &str) = (
    "reinforcement learning (GRPO)",
    "this engine has no such training",
);

/// What an arm of an experiment measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measures {
    /// A training.
    #[default]
    Training,
    /// The products of the model's own linear layers, alone, with as many rows as a pass of the training has tokens.
    Products,
    /// Answers of the base model, one prompt at a time.
    Decoding,
}

impl Measures {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Products => "products",
            Self::Decoding => "decoding",
        }
    }

    /// Whether it is a training, as arms are where nothing is said.
    pub fn is_training(self) -> bool {
        self == Self::Training
    }
}

/// A level, measured by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// What the difference from the level before is made of: a clause.
    pub why: String,
    /// Speed of useful work in TFLOPS, over its runs; absent where none counts.
    pub reached: Option<Spread>,
}

/// A level with what is lost on the way to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapStep {
    /// Its name.
    pub name: String,
    /// What the difference from the level before is made of: a clause.
    pub why: String,
    /// Speed of useful work in TFLOPS, over its runs.
    pub reached: Spread,
    /// Its mean over the peak, 0.2 for 20 %.
    pub peak_share: f64,
    /// Speed of the level before less its own mean, in TFLOPS; below zero where it is faster.
    pub lost_tflops: f64,
    /// The same over the peak.
    pub lost_share: f64,
}

/// A ladder from the peak down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// What matrix products reach.
    pub peak: Tflops,
    /// The levels below it, in their order; at least one.
    pub steps: Vec<GapStep>,
    /// The whole gap in TFLOPS: the sum of what is lost at each step.
    pub lost_tflops: f64,
    /// The same over the peak.
    pub lost_share: f64,
}

/// Why there is no ladder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GapError {
    /// Nothing to measure the levels against.
    #[error("no peak of matrix products is known for this device and number format")]
    UnknownPeak,
    /// Nothing below the peak.
    #[error("the ladder has no level below the peak")]
    NoLevel,
    /// A level without a speed.
    #[error("the level \"{level}\" is not measured: no run of it counts yet")]
    MissingLevel {
        /// Its name.
        level: String,
    },
}

impl GapError {
    /// A stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownPeak => "unknown_peak",
            Self::NoLevel => "no_level",
            Self::MissingLevel { .. } => "missing_level",
        }
    }

    /// What to do, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::UnknownPeak => {
                "`tunesmith calibrate` measures it; runs keep the one that was known when they began, so begin the experiment anew with --again"
            }
            Self::NoLevel => "give the experiment an arm that trains",
            Self::MissingLevel { .. } => {
                "`tunesmith experiment resume` makes the runs that are left, with --retry-failed those that failed too"
            }
        };
        vec![hint.to_owned()]
    }
}

/// From a peak and the levels below it to what each step loses (M5). The sum of the steps' losses is the whole gap, and
/// equals the peak less the last level.
///
/// # Errors
/// [`GapError::UnknownPeak`] where the peak is unknown or not above zero, [`GapError::NoLevel`] without a level,
/// [`GapError::MissingLevel`] for one that has no speed above zero.
pub fn attribute(peak: Option<Tflops>, levels: &[Level]) -> Result<Gap, GapError> {
    let peak = peak
        .filter(|peak| peak.0.is_finite() && peak.0 > 0.0)
        .ok_or(GapError::UnknownPeak)?;
    if levels.is_empty() {
        return Err(GapError::NoLevel);
    }
    let mut before = peak.0;
    let mut steps = Vec::with_capacity(levels.len());
    for level in levels {
        let reached = level
            .reached
            .filter(|reached| reached.mean.is_finite() && reached.mean > 0.0)
            .ok_or_else(|| GapError::MissingLevel {
                level: level.name.clone(),
            })?;
        let lost = before - reached.mean;
        before = reached.mean;
        steps.push(GapStep {
            name: level.name.clone(),
            why: level.why.clone(),
            reached,
            peak_share: reached.mean / peak.0,
            lost_tflops: lost,
            lost_share: lost / peak.0,
        });
    }
    let lost: f64 = steps.iter().map(|step| step.lost_tflops).sum();
    Ok(Gap {
        peak,
        steps,
        lost_tflops: lost,
        lost_share: lost / peak.0,
    })
}

/// A level that the ladder goes without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotMeasured {
    /// Its name.
    pub name: String,
    /// Why: a clause.
    pub reason: String,
}

/// Answers written one at a time: beside the ladder, not in it (M4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decoding {
    /// The arm's name.
    pub name: String,
    /// Tokens a second, over its runs.
    pub tokens_per_sec: Spread,
    /// Bytes of weights that each token reads, as they are stored; absent where the model is not known.
    #[serde(default)]
    pub token_bytes: Option<u64>,
    /// Those bytes a second over what copies within the memory reach; absent where one of them is not known.
    #[serde(default)]
    pub copy_share: Option<f64>,
}

/// What an experiment that asks where the time goes came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ladder {
    /// Number format of peak and levels.
    pub dtype: DType,
    /// Peak, levels and losses.
    #[serde(flatten)]
    pub gap: Gap,
    /// Levels that are missing; what they would lose is part of the next one's loss.
    pub not_measured: Vec<NotMeasured>,
    /// Answers written one at a time, where they were measured.
    #[serde(default)]
    pub decoding: Option<Decoding>,
    /// The same in a sentence without a full stop.
    pub sentence: String,
}

impl Ladder {
    /// What it comes to, short enough for a headline; `None` without a level.
    pub fn headline(&self) -> Option<String> {
        let last = self.gap.steps.last()?;
        Some(format!(
            "\"{}\" turns {:.1} % of this device's measured peak into useful work",
            last.name,
            100.0 * last.peak_share
        ))
    }
}

/// What the arms' figures alone do not say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Around {
    /// Number format of the trainings.
    pub dtype: DType,
    /// Measured peak for that format.
    pub peak: Option<Tflops>,
    /// What copies within the memory reach.
    pub copy: Option<CopyBandwidth>,
    /// [`token_bytes`] of the model.
    pub token_bytes: Option<u64>,
}

/// The ladder of an experiment's arms: the peak, the model's products, then the trainings in their order. A level whose
/// runs do not count is left out by name, as long as one training is left.
///
/// # Errors
/// As [`attribute`]; [`GapError::MissingLevel`] where no training counts.
pub fn ladder(arms: &[(Measures, &ArmSummary)], around: &Around) -> Result<Ladder, GapError> {
    let of = |wanted: Measures| {
        arms.iter()
            .filter(move |(measures, _)| *measures == wanted)
            .map(|(_, arm)| *arm)
    };
    let mut levels = Vec::new();
    let mut not_measured = Vec::new();
    let mut missing = |arm: &ArmSummary| {
        not_measured.push(NotMeasured {
            name: arm.name.clone(),
            reason: "no run of it counts".to_owned(),
        });
    };
    for arm in of(Measures::Products) {
        match spread(arm, Metric::ProductsTflops) {
            Some(reached) => levels.push(Level {
                name: arm.name.clone(),
                why: SMALLER_PRODUCTS.to_owned(),
                reached: Some(reached),
            }),
            None => missing(arm),
        }
    }
    let mut before: Option<&ArmSummary> = None;
    for arm in of(Measures::Training) {
        let Some(reached) = spread(arm, Metric::UsefulTflops) else {
            missing(arm);
            continue;
        };
        levels.push(Level {
            name: arm.name.clone(),
            why: why(before, arm, levels.is_empty()),
            reached: Some(reached),
        });
        before = Some(arm);
    }
    if before.is_none() {
        let level = of(Measures::Training).next().map(|arm| arm.name.clone());
        return Err(level.map_or(GapError::NoLevel, |level| GapError::MissingLevel { level }));
    }
    let gap = attribute(around.peak, &levels)?;
    let decoding = of(Measures::Decoding).find_map(|arm| {
        let found = decoding(arm, around);
        if found.is_none() {
            missing(arm);
        }
        found
    });
    not_measured.push(NotMeasured {
        name: REINFORCEMENT.0.to_owned(),
        reason: REINFORCEMENT.1.to_owned(),
    });
    Ok(Ladder {
        dtype: around.dtype,
        sentence: sentence(&gap, around.dtype),
        gap,
        not_measured,
        decoding,
    })
}

fn spread(arm: &ArmSummary, metric: Metric) -> Option<Spread> {
    Some(arm.figures.get(&metric)?.spread)
}

/// What a training loses against the level before: the training before it, or products, or the peak itself.
fn why(before: Option<&ArmSummary>, arm: &ArmSummary, against_the_peak: bool) -> String {
    let Some(before) = before else {
        let rest = if against_the_peak {
            format!("{SMALLER_PRODUCTS}; {THE_REST_OF_A_STEP}")
        } else {
            THE_REST_OF_A_STEP.to_owned()
        };
        // The training that it is compared with did not run to its end.
        return if arm.changes.is_empty() {
            rest
        } else {
            format!("{rest}; {}", words_of(&arm.changes))
        };
    };
    words_of(&changes_between(&before.changes, &arm.changes))
}

/// `train.recompute: none → layer`, with what is known of it.
fn words_of(changes: &[Change]) -> String {
    let each = changes.iter().map(|change| {
        let what = format!("{}: {} → {}", change.key, change.from, change.to);
        if change.key == RECOMPUTE {
            format!("{what}, which computes again in the backward pass what was not kept: work that no token needs")
        } else {
            what
        }
    });
    each.collect::<Vec<String>>().join("; ")
}

/// What an arm has otherwise than another one, where both say what they change against a third.
pub fn changes_between(before: &[Change], now: &[Change]) -> Vec<Change> {
    let undone = before
        .iter()
        .filter(|old| !now.iter().any(|new| new.key == old.key))
        .map(|old| Change {
            key: old.key.clone(),
            from: old.to.clone(),
            to: old.from.clone(),
        });
    let done = now.iter().filter_map(|new| {
        let old = before.iter().find(|old| old.key == new.key);
        let from = old.map_or(&new.from, |old| &old.to);
        (*from != new.to).then(|| Change {
            key: new.key.clone(),
            from: from.clone(),
            to: new.to.clone(),
        })
    });
    let mut changes: Vec<Change> = undone.chain(done).collect();
    changes.sort_by(|a, b| a.key.cmp(&b.key));
    changes
}

fn decoding(arm: &ArmSummary, around: &Around) -> Option<Decoding> {
    let tokens_per_sec = spread(arm, Metric::DecodeTokensPerSec)?;
    let share = |bytes: u64| copy_share(tokens_per_sec.mean, bytes, around.copy.as_ref()?);
    Some(Decoding {
        name: arm.name.clone(),
        tokens_per_sec,
        token_bytes: around.token_bytes,
        copy_share: around.token_bytes.and_then(share),
    })
}

/// Tokens a second of an answering job, prompts not counted. The first token of an answer comes out of reading its
/// prompt, so it is no step of writing (M4). `None` where nothing was written beyond first tokens.
pub fn decode_tokens_per_sec(stats: &AnswerStats) -> Option<f64> {
    let written = stats.generated_tokens.checked_sub(stats.answers)?;
    let speed = written as f64 / stats.decode_secs;
    (written > 0 && stats.decode_secs > 0.0 && speed.is_finite()).then_some(speed)
}

/// Bytes of weights that writing one token reads, as they are stored: all of them, but for an embedding that is not the
/// head, of which one row is looked up.
pub fn token_bytes(shape: &ModelShape, dtype: DType, quantization: Quantization) -> u64 {
    let looked_up = if shape.tied {
        0
    } else {
        shape.vocab * shape.hidden * dtype.size_bytes()
    };
    weight_bytes(shape, dtype, quantization).saturating_sub(looked_up)
}

/// Bytes a second that writing reads over what copies reach (numbers 1.3). Copies count what they read and what they
/// write, so 1 is the most that memory gives. `None` without a measured copy.
pub fn copy_share(tokens_per_sec: f64, token_bytes: u64, copy: &CopyBandwidth) -> Option<f64> {
    let most = copy.median_gib_per_sec * f64::from(1_u32 << 30);
    let share = tokens_per_sec * token_bytes as f64 / most;
    (copy.iterations > 0 && most > 0.0 && share.is_finite()).then_some(share)
}

fn sentence(gap: &Gap, dtype: DType) -> String {
    let mut text = format!(
        "of the {} TFLOPS that large matrix products in {} reach here",
        figure(gap.peak.0),
        dtype.name()
    );
    if let Some(last) = gap.steps.last() {
        text.push_str(&format!(
            ", \"{}\" makes {} ({:.1} %) useful work",
            last.name,
            figure(last.reached.mean),
            100.0 * last.peak_share
        ));
    }
    let worst = gap
        .steps
        .iter()
        .max_by(|a, b| a.lost_tflops.total_cmp(&b.lost_tflops));
    if let Some(worst) = worst.filter(|worst| worst.lost_tflops > 0.0) {
        text.push_str(&format!(
            "; the largest part of the gap, {} TFLOPS, is lost on the way to \"{}\"",
            figure(worst.lost_tflops),
            worst.name
        ));
    }
    text
}

/// Three significant digits, whole above 1,000.
fn figure(value: f64) -> String {
    let size = value.abs();
    let decimals = if size > 0.0 {
        (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize
    } else {
        0
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests;
