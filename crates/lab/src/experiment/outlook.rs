//! What an experiment will take, told before it begins: runs, time, memory, and what must be fetched and written.

use serde::Serialize;
use tunesmith_measure::{
    fit::Fit,
    gap::{Measures, copy_share},
};
use tunesmith_protocol::Quantization;
use tunesmith_setup::environments::Engine;

use crate::{
    estimate::{Estimate, Known, Wish, estimate, total},
    pipeline::PRODUCTS_SECS,
};

use super::{Experiment, Kind, Plan, PlannedArm};

/// Share of what copies reach that writing one answer at a time is expected to use: 38 % were measured on one
/// RX 7900 XTX (numbers 1.3).
const DECODE_SHARE: f64 = 0.35;

/// What an experiment will take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// Runs in all.
    pub runs: usize,
    /// Seconds that all of them will take, by earlier runs and the calibration; nothing where those do not tell.
    pub secs: Option<f64>,
    /// Seconds that all trainings take at most, by their time boxes. Loading, scores and repeats come on top.
    pub most_secs: f64,
    /// Timed steps that the time box leaves room for in the slowest arm, by the same estimates; absent where all that are
    /// planned fit, where that is not known, and of a soak, which its time box ends in any case (M10).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_in_box: Option<u64>,
    /// Memory of the device that the arm needs which needs most, in bytes.
    pub memory_bytes: Option<u64>,
    /// The worst of the arms' verdicts on memory, main memory and disk.
    pub fit: Fit,
    /// Why, of that arm; a clause without a full stop.
    pub reason: String,
    /// What must be fetched, in bytes; 0 where it is here.
    pub download_bytes: Option<u64>,
    /// The model's part of that, which a window fetches before it begins.
    pub model_bytes: Option<u64>,
    /// What the runs will leave on disk beyond what is there, downloads included, in bytes.
    pub disk_bytes: Option<u64>,
    /// Arm by arm.
    pub arms: Vec<ArmOutlook>,
}

/// What an arm is expected to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmOutlook {
    /// Its name.
    pub name: String,
    /// Most memory that torch's allocator should hold, in bytes: what a run then measures.
    pub step_bytes: Option<u64>,
    /// Real tokens a second, where a speed is known.
    pub tokens_per_sec: Option<f64>,
    /// Whether it fits.
    pub fit: Fit,
    /// Why, or why nothing can be told; a clause without a full stop.
    pub reason: String,
}

/// An arm with all that is told of it.
struct Told {
    estimate: Option<Estimate>,
    arm: ArmOutlook,
    /// Seconds of one run.
    secs: Option<f64>,
    /// Seconds of its training at most.
    most_secs: f64,
    /// Timed steps that fit into that, where they are fewer than planned.
    steps_in_box: Option<u64>,
}

/// The outlook of an experiment that was planned.
pub fn outlook(experiment: &Experiment, plan: &Plan, known: &Known<'_>) -> Outlook {
    let arms: Vec<Told> = (0..plan.arms.len())
        .map(|arm| told(experiment, plan, arm, known))
        .collect();
    let of_slots = || plan.order.iter().map(|slot| &arms[slot.arm]);
    let worst = arms.iter().max_by_key(|told| {
        (
            badness(told.arm.fit),
            told.estimate.as_ref().and_then(|of| of.memory.bytes),
        )
    });
    let estimates = || arms.iter().map(|told| told.estimate.as_ref());
    // All arms train on one model with one torch.
    let once = |estimate: &Estimate| -> Option<u64> {
        let shared = estimate.disk.iter().filter(|part| is_shared(part.what));
        shared.map(|part| part.bytes).sum()
    };
    let each = |estimate: &Estimate| -> Option<u64> {
        let own = estimate.disk.iter().filter(|part| !is_shared(part.what));
        // Rows that were not counted yet are a few bytes a token.
        own.filter(|part| part.what != "rows" || part.bytes.is_some())
            .map(|part| part.bytes)
            .sum()
    };
    let shared = most(estimates().map(|of| once(of?)));
    let written: Option<u64> = of_slots().map(|told| each(told.estimate.as_ref()?)).sum();
    Outlook {
        runs: plan.order.len(),
        secs: of_slots().map(|told| told.secs).sum(),
        most_secs: of_slots().map(|told| told.most_secs).sum(),
        steps_in_box: arms.iter().filter_map(|told| told.steps_in_box).min(),
        memory_bytes: most(estimates().map(|of| of?.memory.bytes)),
        fit: worst.map_or(Fit::Unknown, |told| told.arm.fit),
        reason: worst.map_or_else(String::new, |told| told.arm.reason.clone()),
        download_bytes: most(estimates().map(|of| total(&of?.download))),
        model_bytes: most(estimates().map(|of| {
            let model = of?.download.iter().find(|part| part.what == "model");
            model?.bytes
        })),
        disk_bytes: shared.zip(written).map(|(shared, written)| shared + written),
        arms: arms.into_iter().map(|told| told.arm).collect(),
    }
}

fn told(experiment: &Experiment, plan: &Plan, index: usize, known: &Known<'_>) -> Told {
    let arm = &plan.arms[index];
    let trains = arm.adapter_of.is_none() && arm.measures.is_training();
    let most_secs = if trains {
        arm.recipe.train.time_box_minutes * 60.0
    } else {
        0.0
    };
    let wish = Wish {
        recipe: &arm.recipe,
        device: Some(&plan.device),
        engine: Engine::Native,
        rows: None,
    };
    let name = arm.name.clone();
    // It has more steps than its time box holds, and lasts as long as that.
    let soak = experiment.kind == Kind::Soak;
    match estimate(&wish, known) {
        Ok(estimate) => {
            let time = &estimate.time;
            let training = if trains && !soak {
                time.train_secs.map(|secs| secs.min(most_secs))
            } else {
                Some(most_secs)
            };
            let steps_in_box = time
                .train_secs
                .filter(|secs| trains && !soak && *secs > most_secs)
                .map(|secs| {
                    let steps = arm.recipe.train.steps as f64 * most_secs / secs;
                    (steps as u64).saturating_sub(experiment.run.warmup_steps)
                });
            Told {
                steps_in_box,
                secs: match arm.measures {
                    Measures::Training => training
                        .zip(time.evaluate_secs)
                        .map(|(training, scores)| training + scores),
                    Measures::Products => Some(products_secs(&plan.device)),
                    Measures::Decoding => decoding_secs(arm, &estimate, known),
                },
                most_secs,
                arm: ArmOutlook {
                    name,
                    step_bytes: estimate.memory.step_bytes,
                    tokens_per_sec: time.tokens_per_sec,
                    fit: estimate.fit,
                    reason: estimate.memory.reason.clone(),
                },
                estimate: Some(estimate),
            }
        }
        Err(error) => Told {
            secs: None,
            most_secs,
            steps_in_box: None,
            arm: ArmOutlook {
                name,
                step_bytes: None,
                tokens_per_sec: None,
                fit: Fit::Unknown,
                reason: error.to_string(),
            },
            estimate: None,
        },
    }
}

/// The time box of products, which they mostly fill.
fn products_secs(device: &str) -> f64 {
    let [on_card, on_processor] = PRODUCTS_SECS;
    if device == "cpu" { on_processor } else { on_card }
}

/// Each token reads all weights once, at some share of what copies reach; nothing before a calibration.
fn decoding_secs(arm: &PlannedArm, estimate: &Estimate, known: &Known<'_>) -> Option<f64> {
    let saving = estimate.saving?;
    let bytes = match arm.recipe.model.quantization {
        Quantization::None => saving.plain_bytes,
        Quantization::Nf4 => saving.quantised_bytes,
    };
    let copy = &known.calibration?.result.copy;
    // The share that one token a second uses, into the share that is expected.
    let tokens_per_sec = DECODE_SHARE / copy_share(1.0, bytes, copy)?;
    let evaluate = &arm.recipe.evaluate;
    Some((evaluate.questions * evaluate.max_new_tokens) as f64 / tokens_per_sec)
}

/// What is there once, however many runs there are.
fn is_shared(part: &str) -> bool {
    part == "model" || part == "torch and packages"
}

/// The most of them; nothing where one is not known.
fn most(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let known: Option<Vec<u64>> = values.collect();
    known?.into_iter().max()
}

/// What does not fit is worse than what is not known.
fn badness(fit: Fit) -> u8 {
    match fit {
        Fit::Fits => 0,
        Fit::Unknown => 1,
        Fit::Uncertain => 2,
        Fit::DoesNotFit => 3,
    }
}
