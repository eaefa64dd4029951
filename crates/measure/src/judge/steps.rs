//! To the end: every step, against the steps before it and against what the rows hold.

use tunesmith_protocol::{Quantization, RunStatus, Step};

use super::{CheckId, Finding, RunFacts, Thresholds};
use crate::stats;

/// The steps so far, as far as they are needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    seen: Vec<Seen>,
    not_finite: u64,
    frozen: u64,
    invalid: u64,
    bad_since: Option<u64>,
    /// Steps of earlier processes.
    earlier: usize,
}

/// What is kept of a step.
#[derive(Clone, Copy, Debug)]
struct Seen {
    step: u64,
    loss: Option<f64>,
    lr: f64,
    dt_secs: f64,
    tokens: u64,
    real_tokens: u64,
    peak_bytes: Option<u64>,
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

impl Course {
    /// The last step before anything was red.
    pub(super) fn last_good(&self) -> Option<u64> {
        let last = self.seen.last()?.step;
        Some(self.bad_since.map_or(last, |bad| bad.saturating_sub(1).min(last)))
    }

    /// Whether any step had a learning rate above zero.
    pub(super) fn moved(&self) -> bool {
        self.seen.iter().any(|seen| seen.lr > 0.0)
    }

    pub(super) fn goes_on(&mut self) {
        self.earlier = self.seen.len();
        self.bad_since = None;
    }

    /// Nothing from this step on is good.
    pub(super) fn bad(&mut self, since: u64) {
        self.bad_since = Some(self.bad_since.map_or(since, |before| before.min(since)));
    }

    pub(super) fn look(&mut self, step: &Step, facts: &RunFacts, limits: &Thresholds) -> Vec<Finding> {
        let before = self.seen.last().map_or(0, |seen| seen.real_tokens);
        self.seen.push(Seen {
            step: step.step,
            loss: finite(step.loss),
            lr: step.lr,
            dt_secs: step.dt_secs,
            tokens: step.real_tokens.saturating_sub(before),
            real_tokens: step.real_tokens,
            peak_bytes: step.peak_bytes,
        });
        let mut found = vec![
            self.finite(step, facts, limits),
            self.gradient(step, limits),
            self.token_counts(step, before, facts),
        ];
        found.extend(self.diverged(step, limits));
        found.extend(self.step_time(step, limits));
        found.extend(self.memory(step, limits));
        if step.dt_secs.is_nan()
            || step.dt_secs <= 0.0
            || step.real_tokens <= before
            || self.not_finite > 0
            || self.frozen > 0
        {
            self.invalid += 1;
        }
        found
    }

    fn finite(&mut self, step: &Step, facts: &RunFacts, limits: &Thresholds) -> Finding {
        let id = CheckId::Finite;
        let (loss, norm) = (finite(step.loss), finite(step.grad_norm));
        if loss.is_some() && norm.is_some() {
            self.not_finite = 0;
            return Finding::green(id, "every loss and every gradient is a finite number");
        }
        self.not_finite += 1;
        let what = if loss.is_none() { "loss" } else { "gradient norm" };
        let found = format!("the {what} of step {} is not a finite number", step.step);
        let means = "a number ran over or was divided by zero; from here on the weights would be ruined";
        let mut remedies = Vec::new();
        if facts.quantization == Quantization::Nf4 {
            // Kernels for 4 bits were the cause where it was looked into (T7): first make sure whose fault it is.
            remedies.extend([
                "train ten steps with model.quantization = \"none\": if they stay finite, the unpacking of the 4-bit base is at fault on this device and `tunesmith calibrate` shows it",
                "with the engine `hf` on an AMD card, bitsandbytes must be 0.50 or newer: older ones give no numbers in 4 bits",
            ]);
        }
        remedies.extend([
            "lower optimizer.learning_rate, or lengthen optimizer.warmup_steps",
            "with train.dtype = \"f16\", try \"bf16\" or \"f32\": f16 overflows above 65,504",
        ]);
        if loss.is_none() || self.not_finite >= limits.not_finite_steps as u64 {
            self.bad(step.step + 1 - self.not_finite);
            return Finding::red(id, found, means, &remedies).at(step.step);
        }
        Finding::amber(
            id,
            found,
            "a trainer that scales the loss in f16 skips such a step; it must not stay so",
            &remedies,
        )
        .at(step.step)
    }

    fn gradient(&mut self, step: &Step, limits: &Thresholds) -> Finding {
        let id = CheckId::GradientAboveZero;
        if finite(step.grad_norm).is_none_or(|norm| norm > 0.0) {
            self.frozen = 0;
            return Finding::green(id, "the gradient norm is above zero in every step");
        }
        self.frozen += 1;
        let remedies = [
            "look at rows/rows.json in the run's folder: its sample shows what is trained",
            "check lora.target_modules and optimizer.learning_rate",
        ];
        let means = "a step without a gradient teaches nothing";
        // At the first step there is no momentum that could still move the adapter.
        if step.step == 1 || self.frozen >= limits.frozen_steps as u64 {
            self.bad(step.step + 1 - self.frozen);
            let found = if self.frozen == 1 {
                "the gradient norm is zero at the first step".to_owned()
            } else {
                format!(
                    "the gradient norm is zero in {} steps running, up to step {}",
                    self.frozen, step.step
                )
            };
            return Finding::red(id, found, means, &remedies).at(step.step);
        }
        Finding::amber(
            id,
            format!("the gradient norm is zero at step {}", step.step),
            means,
            &remedies,
        )
        .at(step.step)
    }

    /// What can be counted without knowing the order of rows: a step holds so many rows, each within its bounds, and
    /// every full epoch all of them (M15).
    fn token_counts(&mut self, step: &Step, before: u64, facts: &RunFacts) -> Finding {
        let id = CheckId::TokenCounts;
        let rows = &facts.rows;
        let per_step = facts.rows_per_step.max(1);
        let taken = step.step * per_step;
        let epochs = taken / rows.rows.max(1);
        let most_epochs = taken.div_ceil(rows.rows.max(1));
        let added = step.real_tokens.checked_sub(before);
        // After a gap in the step numbers only the cumulative count can be checked.
        let follows = self.seen.len() < 2 || self.seen[self.seen.len() - 2].step + 1 == step.step;
        let in_step = per_step * rows.shortest..=per_step * rows.longest;
        let whole = (epochs * rows.real_tokens).max(taken * rows.shortest)
            ..=(most_epochs * rows.real_tokens).min(taken * rows.longest);
        let trained = (epochs * rows.supervised_tokens).max(taken * rows.fewest_supervised)
            ..=(most_epochs * rows.supervised_tokens).min(taken * rows.most_supervised);
        let fault = match added {
            None => Some(format!(
                "the count of real tokens fell from {before} to {} at step {}",
                step.real_tokens, step.step
            )),
            Some(added)
                if follows && (self.seen.len() > 1 || step.step == 1) && !in_step.contains(&added) =>
            {
                Some(format!(
                    "step {} adds {added} tokens, and {per_step} rows hold {} to {}",
                    step.step,
                    in_step.start(),
                    in_step.end()
                ))
            }
            Some(_) if !whole.contains(&step.real_tokens) => Some(format!(
                "{} tokens are counted up to step {}, and so many rows hold {} to {}",
                step.real_tokens,
                step.step,
                whole.start(),
                whole.end()
            )),
            Some(_) if !trained.contains(&step.supervised_tokens) => Some(format!(
                "{} trained tokens are counted up to step {}, and so many rows hold {} to {}",
                step.supervised_tokens,
                step.step,
                trained.start(),
                trained.end()
            )),
            Some(_) if step.padded_tokens < step.real_tokens => Some(format!(
                "{} tokens are counted with padding up to step {}, and {} without",
                step.padded_tokens, step.step, step.real_tokens
            )),
            Some(_) => None,
        };
        let Some(fault) = fault else {
            return Finding::green(
                id,
                format!(
                    "{} tokens up to step {}, as the rows have",
                    step.real_tokens, step.step
                ),
            );
        };
        self.bad(step.step);
        Finding::red(
            id,
            fault,
            "every speed and every share of a peak is counted from these tokens and would be wrong: a cumulative count was summed again, or rows are cut or left out",
            &["report it with the run's events.jsonl: the engine miscounts, or trains on other rows than it was given"],
        )
        .at(step.step)
    }

    /// A loss that stays far above its start.
    fn diverged(&mut self, step: &Step, limits: &Thresholds) -> Option<Finding> {
        let window = limits.loss_window as usize;
        let first = self.seen.iter().find_map(|seen| seen.loss)?;
        let from = self.seen.len().checked_sub(window).filter(|from| *from > 0)?;
        let last = &self.seen[from..];
        let losses: Vec<f64> = last.iter().filter_map(|seen| seen.loss).collect();
        let mean = stats::mean(&losses).ok()?;
        let limit = first * limits.loss_diverged_factor + limits.loss_diverged_nats;
        let began = last
            .iter()
            .find(|seen| seen.loss.is_some_and(|loss| loss > limit))?
            .step;
        (mean > limit).then(|| {
            self.bad(began);
            Finding::red(
                CheckId::LossFalls,
                format!("the loss was {first:.3} at first and is {mean:.3} over the last {window} steps"),
                "the training diverges: each step makes the model worse",
                &[
                    "lower optimizer.learning_rate to a third",
                    "lengthen optimizer.warmup_steps, or set optimizer.max_grad_norm to 1",
                ],
            )
            .at(step.step)
        })
    }

    fn baseline(&self, limits: &Thresholds) -> impl Iterator<Item = &Seen> {
        let range = limits.baseline_first_step as u64..=limits.baseline_last_step as u64;
        self.seen.iter().filter(move |seen| range.contains(&seen.step))
    }

    /// The last steps, all of them behind the baseline and of this process.
    fn window(&self, limits: &Thresholds) -> Option<&[Seen]> {
        let from = self.seen.len().checked_sub(limits.drift_window as usize)?;
        if from < self.earlier {
            return None;
        }
        let window = &self.seen[from..];
        (window.first()?.step > limits.baseline_last_step as u64).then_some(window)
    }

    fn step_time(&self, step: &Step, limits: &Thresholds) -> Option<Finding> {
        let id = CheckId::StepTime;
        let per_token = |seen: &Seen| (seen.tokens > 0).then(|| seen.dt_secs / seen.tokens as f64);
        let window = self.window(limits)?;
        let secs: Vec<f64> = self.baseline(limits).map(|seen| seen.dt_secs).collect();
        let before = stats::median(&self.baseline(limits).filter_map(per_token).collect::<Vec<_>>()).ok()?;
        let now = stats::median(&window.iter().filter_map(per_token).collect::<Vec<_>>()).ok()?;
        if before <= 0.0 || stats::median(&secs).ok()? < limits.step_time_shortest_secs {
            return None;
        }
        let factor = now / before;
        let found = format!(
            "{:.1} ms a token over the last {} steps, {:.1} ms in steps {} to {}: {factor:.2} times",
            1e3 * now,
            window.len(),
            1e3 * before,
            limits.baseline_first_step,
            limits.baseline_last_step
        );
        Some(if factor >= limits.step_time_red {
            Finding::red(
                id,
                found,
                "the machine swaps memory to disk, or somebody else has the device; at this pace the run does not end",
                &[
                    "close other programs and go on with `tunesmith runs resume`",
                    "set train.recompute = \"layer\" or halve train.micro_batch to need less memory",
                ],
            )
            .at(step.step)
        } else if factor >= limits.step_time_amber {
            Finding::amber(
                id,
                found,
                "the device gets too hot, or other programs take its time; what is learned is the same, the speeds are not this device's",
                &["close other programs, and look at the temperature of the device", "measure speed again before you compare it"],
            )
            .at(step.step)
        } else {
            Finding::green(id, found)
        })
    }

    fn memory(&self, step: &Step, limits: &Thresholds) -> Option<Finding> {
        let id = CheckId::Memory;
        let window = self.window(limits)?;
        let before = self.baseline(limits).filter_map(|seen| seen.peak_bytes).max()?;
        let now = window.iter().map(|seen| seen.peak_bytes).min()??;
        let largest = self.baseline(limits).map(|seen| seen.tokens).max()?;
        let factor = now as f64 / before.max(1) as f64;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let found = format!(
            "at least {:.1} MiB in each of the last {} steps, at most {:.1} MiB in steps {} to {}",
            mib(now),
            window.len(),
            mib(before),
            limits.baseline_first_step,
            limits.baseline_last_step
        );
        // Longer rows than the baseline had need more, and say nothing.
        let comparable = window.iter().any(|seen| seen.tokens <= largest);
        let means = "memory is taken and not given back: the run would end when there is none left";
        let remedies = [
            "go on from the last checkpoint with `tunesmith runs resume`",
            "report it with the run's events.jsonl",
        ];
        Some(if comparable && factor >= limits.memory_red {
            Finding::red(id, found, means, &remedies).at(step.step)
        } else if comparable && factor >= limits.memory_amber {
            Finding::amber(id, found, means, &remedies).at(step.step)
        } else {
            Finding::green(id, found)
        })
    }

    pub(super) fn end(&mut self, status: RunStatus) -> Vec<Finding> {
        let mut found: Vec<Finding> = self.valid_steps().into_iter().collect();
        if status == RunStatus::Nan {
            let last = self.seen.last().map_or(0, |seen| seen.step);
            self.bad(last + 1);
            found.push(Finding::red(
                CheckId::Finite,
                "the engine met a number that is not finite and ended the training",
                "a number ran over or was divided by zero",
                &["lower optimizer.learning_rate, or lengthen optimizer.warmup_steps"],
            ));
        }
        found
    }

    fn valid_steps(&self) -> Option<Finding> {
        let id = CheckId::ValidSteps;
        let total = self.seen.len() as u64;
        let valid = total - self.invalid.min(total);
        let found = format!("{valid} of {total} steps count");
        let remedies = ["the report lists the steps that do not count, and why"];
        (total > 0).then(|| {
            if valid == 0 {
                Finding::red(id, found, "nothing was learned", &remedies)
            } else if valid < total {
                Finding::amber(
                    id,
                    found,
                    "the others taught nothing or cannot be believed; no statistic holds them",
                    &remedies,
                )
            } else {
                Finding::green(id, found)
            }
        })
    }

    /// Whether the loss is lower at the end than at the start, over the steps whose rate was above zero.
    pub(super) fn fell(&self, limits: &Thresholds) -> Option<Finding> {
        let id = CheckId::LossFalls;
        let losses: Vec<f64> = self
            .seen
            .iter()
            .filter(|seen| seen.lr > 0.0)
            .filter_map(|seen| seen.loss)
            .collect();
        if losses.len() < limits.loss_window as usize {
            return None;
        }
        // The adapter is still nothing at the first of them, so the start is short and the end is not.
        let part = losses.len().div_ceil(5).max(3);
        let first = stats::mean(&losses[..3]).ok()?;
        let last = stats::mean(&losses[losses.len() - part..]).ok()?;
        let found = format!("{first:.3} over the first 3 steps, {last:.3} over the last {part}");
        Some(if last < first {
            Finding::green(id, found)
        } else {
            Finding::amber(
                id,
                format!("the loss did not fall: {found}"),
                "the model did not get better at its own rows, so nothing was learned that would show elsewhere",
                &[
                    "raise optimizer.learning_rate, or train more steps",
                    "look at rows/rows.json in the run's folder: its sample shows what is trained",
                ],
            )
        })
    }
}
