//! LoRA or QLoRA, which batch, what to compute again: chosen by what fits and by what was measured here, with the reason
//! in a sentence. Only what leaves the result of the training as it is may be chosen freely: rows of an optimizer step
//! stay the same, and a 4-bit base, which changes it, is proposed where nothing else fits or where it was measured to be
//! faster here.

use std::cmp::Reverse;

use serde::Serialize;
use tunesmith_measure::{MemoryNeed, Recomputed, StepWork, Tflops, fit::Fit, stats, step_flops};
use tunesmith_protocol::{Quantization, Recompute};
use tunesmith_setup::{environments::Engine, human_bytes};

use super::{EstimateError, Known, Subject, Wish, memory::corrected, with_subject};
use crate::recipe::Recipe;

/// Choices that are shown at most.
const MOST_SHOWN: usize = 6;
/// A difference in speed below this share is none: repeats of one run differ by as much.
const SAME_SPEED: f64 = 0.03;

/// Where a choice's speed comes from, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedBasis {
    /// Runs or tries here with this base, recomputation and micro-batch.
    Measured,
    /// Those with this base, and the operations that the choice computes more or less.
    Counted,
    /// Nothing was measured with this base here.
    Unknown,
}

/// A way to train a recipe's rows in the same optimizer steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// How the base is stored: a 4-bit one is QLoRA.
    pub quantization: Quantization,
    /// What is computed again.
    pub recompute: Recompute,
    /// Rows of a pass.
    pub micro_batch: usize,
    /// Passes of an optimizer step.
    pub accumulation: usize,
    /// What must be changed in the recipe for it, as `section.key=value`.
    pub settings: Vec<String>,
    /// Memory that it needs, in bytes.
    pub bytes: u64,
    /// Whether that fits.
    pub fit: Fit,
    /// Seconds of an optimizer step of the longest rows, where a speed is known.
    pub step_secs: Option<f64>,
    /// What that is drawn from.
    pub basis: SpeedBasis,
    /// Operations of such a step, recomputation included.
    #[serde(skip)]
    operations: f64,
    /// What choices are compared by: seconds, or operations where nobody measured a speed.
    #[serde(skip)]
    cost: f64,
}

/// What to change, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The best choice; `None` where none fits, or the model's dimensions or the limit are not known.
    pub choice: Option<Choice>,
    /// Whether that is the recipe as it stands.
    pub as_it_is: bool,
    /// Why; a sentence without a full stop.
    pub reason: String,
    /// The best choices that were looked at, that one first.
    pub choices: Vec<Choice>,
}

/// A speed that was measured here with this model.
struct Speed {
    quantization: Quantization,
    recompute: Recompute,
    micro_batch: usize,
    /// By what the hardware computed.
    tflops: f64,
}

/// What to change in a recipe, and why.
///
/// # Errors
/// As [`super::estimate`].
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method's own name is not general enough for the compiler"
)]
pub fn advise(wish: &Wish<'_>, known: &Known<'_>) -> Result<Advice, EstimateError> {
    with_subject(wish, known, |subject| subject.advice())
}

impl Subject<'_> {
    fn advice(&self) -> Advice {
        let nothing = |reason: String| Advice {
            choice: None,
            as_it_is: false,
            reason,
            choices: Vec::new(),
        };
        if self.model.shape.is_none() {
            return nothing(format!("nothing can be advised: {}", self.model.shape_how));
        }
        let Some(limit) = self.memory().limit else {
            return nothing("nothing can be advised: the device's memory could not be read".to_owned());
        };
        let speeds = self.speeds();
        let four_bit = match self.wish.engine {
            Engine::Native => true,
            // bitsandbytes has no code for every card.
            Engine::Hf => self.plan.precision.four_bit,
            // Nothing here leads it yet.
            Engine::Unsloth => false,
        };
        let mut choices: Vec<Choice> = candidates(self.wish.recipe, self.wish.engine, four_bit)
            .into_iter()
            .filter_map(|recipe| self.choice(&recipe, &speeds, limit))
            .collect();
        let own = choices.iter().find(|choice| choice.settings.is_empty()).cloned();
        choices.sort_by_key(rank);
        let best = choices
            .first()
            .filter(|best| best.fit != Fit::DoesNotFit)
            .cloned();
        choices.truncate(MOST_SHOWN);
        let reason = if let (Some(best), Some(own)) = (&best, &own) {
            self.reason(best, own, limit)
        } else {
            let least = choices.iter().map(|choice| choice.bytes).min().unwrap_or(0);
            format!(
                "nothing fits: even the smallest way needs {} and {} may be used; take a smaller model or shorter rows",
                human_bytes(least),
                human_bytes(limit)
            )
        };
        Advice {
            as_it_is: best.as_ref().is_some_and(|best| best.settings.is_empty()),
            choice: best,
            reason,
            choices,
        }
    }

    fn choice(&self, recipe: &Recipe, speeds: &[Speed], limit: u64) -> Option<Choice> {
        let shape = self.model.shape?;
        let wish = Wish { recipe, ..*self.wish };
        let subject = Subject {
            wish: &wish,
            lora: self.lora.clone(),
            ..*self
        };
        let work = subject.work();
        let need = MemoryNeed::of(&shape, &self.lora, &work);
        let predicted = corrected(need, &work, &self.relatives.held);
        let train = &recipe.train;
        let recomputed = match self.wish.engine {
            Engine::Native => Recomputed::by_engine(train.recompute),
            Engine::Hf | Engine::Unsloth if train.recompute == Recompute::None => Recomputed::Nothing,
            Engine::Hf | Engine::Unsloth => Recomputed::WholeLayer,
        };
        let passes = train.accumulation as u64;
        let operations = step_flops(
            &shape,
            &self.lora,
            &StepWork {
                padded_tokens: passes * work.tokens,
                supervised_rows: passes * work.supervised,
                squared_lengths: passes * work.squared_lengths,
                recomputed,
            },
        )
        .hardware();
        let (tflops, basis) = speed_of(recipe, speeds);
        // Without a speed of this base, any speed here serves to compare.
        let any = stats::median(&speeds.iter().map(|speed| speed.tflops).collect::<Vec<_>>()).ok();
        Some(Choice {
            quantization: recipe.model.quantization,
            recompute: train.recompute,
            micro_batch: train.micro_batch,
            accumulation: train.accumulation,
            settings: settings(self.wish.recipe, recipe),
            bytes: predicted.bytes,
            fit: Fit::of(predicted.bytes, predicted.margin, limit),
            step_secs: tflops.map(|tflops| operations / (tflops * 1e12)),
            basis,
            operations,
            cost: operations / (tflops.or(any).unwrap_or(1.0) * 1e12),
        })
    }

    /// Speeds of this model on this device, by runs and by tries.
    fn speeds(&self) -> Vec<Speed> {
        let of_runs = self.relatives.of_model.iter().filter_map(|run| {
            let Tflops(tflops) = run.summary.as_ref()?.training.as_ref()?.mfu?.hardware.tflops;
            let recipe = &run.recipe;
            let device = &run.manifest.as_ref()?.device;
            (recipe.dtype(device) == self.dtype).then_some(Speed {
                quantization: recipe.model.quantization,
                recompute: recipe.train.recompute,
                micro_batch: recipe.train.micro_batch,
                tflops,
            })
        });
        let of_trials = self
            .relatives
            .trials
            .iter()
            .filter(|trial| self.model.is(&trial.model) && trial.work.dtype == self.dtype)
            .filter_map(|trial| {
                Some(Speed {
                    quantization: trial.work.quantization,
                    recompute: trial.work.recompute,
                    micro_batch: trial.micro_batch,
                    tflops: trial.tflops?,
                })
            });
        of_runs
            .chain(of_trials)
            .filter(|speed| speed.tflops.is_finite() && speed.tflops > 0.0)
            .collect()
    }

    fn reason(&self, best: &Choice, own: &Choice, limit: u64) -> String {
        let of = |choice: &Choice| format!("{} of {}", human_bytes(choice.bytes), human_bytes(limit));
        let may = if best.fit == Fit::Uncertain {
            ", which may be just too much"
        } else {
            ""
        };
        let measured = |choice: &Choice| match choice.basis {
            SpeedBasis::Measured => "as measured here",
            SpeedBasis::Counted => "by the operations counted, at a speed measured here",
            SpeedBasis::Unknown => "by the operations counted; nothing was measured here yet",
        };
        if best.settings.is_empty() {
            return format!(
                "{} as the recipe has it: it needs {}{may}, and nothing else that fits is faster ({})",
                words(best, self.dtype.name()),
                of(best),
                measured(best)
            );
        }
        let why = if own.fit == Fit::DoesNotFit {
            format!("as the recipe has it, it needs {}", of(own))
        } else if own.fit == Fit::Uncertain && best.fit == Fit::Fits {
            format!("as the recipe has it, it needs {} and may not fit", of(own))
        } else {
            match (own.step_secs, best.step_secs) {
                (Some(then), Some(now)) if then > 0.0 => format!(
                    "a step takes {:.0} % less time than as the recipe has it, {}",
                    100.0 * (1.0 - now / then),
                    measured(best)
                ),
                _ => format!(
                    "it computes {:.0} % less than as the recipe has it, {}",
                    100.0 * (1.0 - best.operations / own.operations.max(1.0)),
                    measured(best)
                ),
            }
        };
        let four_bit = match (best.quantization, own.quantization) {
            (Quantization::Nf4, Quantization::None) if best.basis == SpeedBasis::Unknown => {
                "; how fast a 4-bit base is here was not measured"
            }
            _ => "",
        };
        format!(
            "{}: {why}; so it needs {}{may}{four_bit}",
            words(best, self.dtype.name()),
            of(best)
        )
    }
}

/// A choice in words.
fn words(choice: &Choice, dtype: &str) -> String {
    let base = match choice.quantization {
        Quantization::None => format!("LoRA on a {dtype} base"),
        Quantization::Nf4 => "QLoRA, on a 4-bit base".to_owned(),
    };
    let again = match choice.recompute {
        Recompute::None => "nothing computed again",
        Recompute::Mlp => "the MLP computed again",
        Recompute::Layer => "layers computed again",
    };
    format!("{base}, {} a pass, {again}", rows(choice.micro_batch))
}

fn rows(count: usize) -> String {
    if count == 1 {
        "1 row".to_owned()
    } else {
        format!("{count} rows")
    }
}

/// Every way to train the same rows in the same optimizer steps; `four_bit` where the engine can hold its base so on this
/// device.
fn candidates(recipe: &Recipe, engine: Engine, four_bit: bool) -> Vec<Recipe> {
    let native = engine == Engine::Native;
    let bases: &[Quantization] = if four_bit {
        &[Quantization::None, Quantization::Nf4]
    } else {
        &[Quantization::None]
    };
    let again: &[Recompute] = if native {
        &[Recompute::None, Recompute::Mlp, Recompute::Layer]
    } else {
        &[Recompute::None, Recompute::Layer]
    };
    let per_step = recipe.train.micro_batch * recipe.train.accumulation;
    let mut found = vec![recipe.clone()];
    for quantization in bases {
        for recompute in again {
            for micro_batch in (1..=per_step).filter(|rows| per_step.is_multiple_of(*rows)) {
                let mut other = recipe.clone();
                other.model.quantization = *quantization;
                other.train.recompute = *recompute;
                other.train.micro_batch = micro_batch;
                other.train.accumulation = per_step / micro_batch;
                if other != *recipe {
                    found.push(other);
                }
            }
        }
    }
    found
}

/// What differs between two recipes of [`candidates`].
fn settings(from: &Recipe, to: &Recipe) -> Vec<String> {
    let (then, now) = (&from.train, &to.train);
    let mut settings = Vec::new();
    if from.model.quantization != to.model.quantization {
        settings.push(format!("model.quantization={}", to.model.quantization.name()));
    }
    if then.recompute != now.recompute {
        let name = match now.recompute {
            Recompute::None => "none",
            Recompute::Mlp => "mlp",
            Recompute::Layer => "layer",
        };
        settings.push(format!("train.recompute={name}"));
    }
    if then.micro_batch != now.micro_batch {
        settings.push(format!("train.micro_batch={}", now.micro_batch));
        settings.push(format!("train.accumulation={}", now.accumulation));
    }
    settings
}

/// The speed of the nearest kin: with the same base, recomputation and micro-batch, else with the same base.
fn speed_of(recipe: &Recipe, speeds: &[Speed]) -> (Option<f64>, SpeedBasis) {
    let median = |is_kin: &dyn Fn(&Speed) -> bool| {
        let kin: Vec<f64> = speeds
            .iter()
            .filter(|speed| is_kin(speed))
            .map(|speed| speed.tflops)
            .collect();
        stats::median(&kin).ok()
    };
    let same_base = |speed: &Speed| speed.quantization == recipe.model.quantization;
    let same = |speed: &Speed| {
        same_base(speed)
            && speed.recompute == recipe.train.recompute
            && speed.micro_batch == recipe.train.micro_batch
    };
    if let Some(tflops) = median(&same) {
        return (Some(tflops), SpeedBasis::Measured);
    }
    match median(&same_base) {
        Some(tflops) => (Some(tflops), SpeedBasis::Counted),
        None => (None, SpeedBasis::Unknown),
    }
}

/// The order of choices, the best first: what fits; then the faster, as far as that is known; a base that is not 4-bit;
/// the recipe as it stands; the larger pass. Of those that do not fit the smallest.
fn rank(choice: &Choice) -> impl Ord + use<> {
    let fit = match choice.fit {
        Fit::Fits => 0,
        Fit::Uncertain => 1,
        Fit::DoesNotFit | Fit::Unknown => 2,
    };
    let too_large = if fit == 2 { choice.bytes } else { 0 };
    let four_bit = choice.quantization == Quantization::Nf4;
    // Costs within a step of this scale are the same.
    let cost = (choice.cost.max(f64::MIN_POSITIVE).ln() / SAME_SPEED.ln_1p()).round() as i64;
    (
        fit,
        too_large,
        four_bit && choice.basis == SpeedBasis::Unknown,
        cost,
        four_bit,
        choice.settings.len(),
        Reverse(choice.micro_batch),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bits_are_offered_to_every_engine_that_can_hold_them_and_half_layers_to_ours_alone() {
        let recipe = Recipe::load("quickstart").unwrap();
        let offered = |engine, four_bit| {
            let all = candidates(&recipe, engine, four_bit);
            let has = |wanted: &dyn Fn(&Recipe) -> bool| all.iter().any(wanted);
            (
                has(&|recipe| recipe.model.quantization == Quantization::Nf4),
                has(&|recipe| recipe.train.recompute == Recompute::Mlp),
            )
        };
        assert_eq!(offered(Engine::Native, true), (true, true));
        assert_eq!(offered(Engine::Hf, true), (true, false));
        assert_eq!(offered(Engine::Hf, false), (false, false));
    }
}
