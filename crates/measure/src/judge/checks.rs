//! The first steps: what an engine finds out about itself and tells in `check` messages.

use tunesmith_protocol::{Check, DType, Step};

use super::{CheckId, Finding, RunFacts, Thresholds};

/// What was told so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    base_loss: Option<f64>,
    plain_loss: Option<f64>,
    base_checksum: Option<f64>,
    adapter_checksums: Option<(f64, f64)>,
    first_loss_done: bool,
}

const REPORT_IT: &str = "the engine has a fault: please report it with the run's events.jsonl";

/// The wider limit where 16 bits round.
fn by_format(dtype: DType, full: f64, half: f64) -> f64 {
    match dtype {
        DType::F32 => full,
        DType::Bf16 | DType::F16 => half,
    }
}

impl Told {
    pub(super) fn look(&mut self, check: &Check, facts: &RunFacts, limits: &Thresholds) -> Vec<Finding> {
        let value = check.value.filter(|value| value.is_finite());
        match check.name.as_str() {
            "base_loss" => self.base_loss = value,
            "plain_loss" => self.plain_loss = value,
            "trainer_loss" => return self.trainer_loss(value, facts, limits).into_iter().collect(),
            "gradient_difference" => return vec![gradient_difference(value, facts, limits)],
            "dead_adapters" => return vec![dead_adapters(value)],
            "base_checksum" => return self.base(value).into_iter().collect(),
            "adapter_checksum" => {
                if let Some(value) = value {
                    let first = self.adapter_checksums.map_or(value, |(first, _)| first);
                    self.adapter_checksums = Some((first, value));
                }
            }
            // Other engines may tell more than this version knows of.
            _ => {}
        }
        Vec::new()
    }

    fn trainer_loss(&self, trainer: Option<f64>, facts: &RunFacts, limits: &Thresholds) -> Option<Finding> {
        let plain = self.plain_loss?;
        let limit = by_format(
            facts.dtype,
            limits.plain_loss_relative,
            limits.plain_loss_relative_half,
        );
        let Some(trainer) = trainer else {
            return Some(Finding::red(
                CheckId::PlainLoss,
                format!("the loss is {plain:.4} in a plain forward pass and no number in the trainer"),
                "the trainer computes something else than the model",
                &[REPORT_IT],
            ));
        };
        let difference = (trainer - plain).abs() / plain.abs().max(1e-6);
        let found =
            format!("{plain:.4} in a plain forward pass, {trainer:.4} in the trainer, on the same rows");
        Some(if difference > limit {
            Finding::red(
                CheckId::PlainLoss,
                format!("{found}: {:.1} % apart", 100.0 * difference),
                "the trainer computes something else than the model: rows that see each other, another mask, or keys and values that are missing",
                &[
                    "train with train.recompute = \"none\" and train.dtype = \"f32\" to see whether it stays",
                    REPORT_IT,
                ],
            )
        } else {
            Finding::green(CheckId::PlainLoss, found)
        })
    }

    /// The band around the base model's own evaluation of the rows of the first step.
    pub(super) fn first_loss(
        &mut self,
        step: &Step,
        facts: &RunFacts,
        limits: &Thresholds,
    ) -> Option<Finding> {
        let id = CheckId::FirstLoss;
        if self.first_loss_done || step.step != 1 {
            return None;
        }
        self.first_loss_done = true;
        // A loss that is no number has a check of its own.
        let loss = step.loss.filter(|loss| loss.is_finite())?;
        let chance = (facts.rows.vocabulary.max(2) as f64).ln();
        if loss > chance + limits.first_loss_above_chance {
            return Some(
                Finding::red(
                    id,
                    format!("the first loss is {loss:.2}, and guessing evenly among the vocabulary would give {chance:.2}"),
                    "the model does worse than chance on these rows: the forward pass, the mask or the tokenizer is wrong",
                    &[
                        "look at rows/rows.json in the run's folder: its sample shows what is trained",
                        "ask the base model something with `tunesmith generate RUN --base --prompt …`; if it answers in noise, its file is damaged",
                    ],
                )
                .at(1),
            );
        }
        let base = self.base_loss?;
        let relative = by_format(
            facts.dtype,
            limits.first_loss_relative,
            limits.first_loss_relative_half,
        );
        let band = (relative * base.abs()).max(limits.first_loss_nats);
        let found = format!("{loss:.4}, and the base model has {base:.4} on the same rows");
        if facts.fresh_adapter && (loss - base).abs() > band {
            return Some(
                Finding::red(
                    id,
                    format!("the first loss is {found}"),
                    "a fresh adapter changes nothing, so the two should be equal: the loss is scaled wrongly, or the base is not what it was",
                    &[REPORT_IT],
                )
                .at(1),
            );
        }
        if !facts.fresh_adapter && loss > base * limits.first_loss_with_adapter + band {
            return Some(
                Finding::amber(
                    id,
                    format!("the first loss is {found}"),
                    "the adapter to go on from makes these rows harder than they are without it",
                    &["check that it is the adapter that you mean, or begin without one"],
                )
                .at(1),
            );
        }
        Some(Finding::green(id, found).at(1))
    }

    fn base(&mut self, checksum: Option<f64>) -> Option<Finding> {
        let checksum = checksum?;
        let Some(before) = self.base_checksum else {
            self.base_checksum = Some(checksum);
            return None;
        };
        let id = CheckId::BaseUnchanged;
        Some(if before.to_bits() == checksum.to_bits() {
            Finding::green(id, "its weights are the same, bit for bit, before and after")
        } else {
            Finding::red(
                id,
                format!("the checksum of its weights was {before} and is {checksum}"),
                "the adapter was trained on weights that nobody has: with the real base it means something else",
                &[
                    "check the memory of this machine (memtest86+ on a processor)",
                    REPORT_IT,
                ],
            )
        })
    }

    /// `moved`: whether any step had a learning rate above zero.
    pub(super) fn end(&self, moved: bool) -> Option<Finding> {
        let (first, last) = self.adapter_checksums?;
        let id = CheckId::AdapterMoved;
        Some(if first.to_bits() != last.to_bits() {
            Finding::green(id, "its weights are others than at the start")
        } else if moved {
            Finding::red(
                id,
                "after the training the adapter has the very weights that it began with",
                "gradients were computed and never applied: nothing was learned",
                &["raise optimizer.learning_rate", REPORT_IT],
            )
        } else {
            Finding::red(
                id,
                "the learning rate was zero in every step, and the adapter is what it was",
                "nothing was learned",
                &["make train.steps larger than optimizer.warmup_steps"],
            )
        })
    }
}

fn gradient_difference(value: Option<f64>, facts: &RunFacts, limits: &Thresholds) -> Finding {
    let id = CheckId::GradientScale;
    let limit = by_format(
        facts.dtype,
        limits.gradient_difference,
        limits.gradient_difference_half,
    );
    let means = "a step that accumulates would go another way, or further, than one large batch: the learning rate would not be what it says";
    let remedies = ["train with train.accumulation = 1 until it is mended", REPORT_IT];
    match value {
        None => Finding::red(
            id,
            "the gradients of one batch and of its rows one by one are no numbers",
            means,
            &remedies,
        ),
        Some(difference) if difference > limit => Finding::red(
            id,
            format!(
                "the gradient of rows one by one differs from that of one batch by {:.0} % of its length",
                100.0 * difference
            ),
            means,
            &remedies,
        ),
        Some(difference) => Finding::green(
            id,
            format!(
                "rows one by one and as one batch give the same gradient, up to {difference:.1e} of its length"
            ),
        ),
    }
}

fn dead_adapters(value: Option<f64>) -> Finding {
    let id = CheckId::DeadAdapters;
    let dead = value.unwrap_or(f64::INFINITY);
    if dead == 0.0 {
        return Finding::green(id, "every B matrix got a gradient at the first step").at(1);
    }
    Finding::red(
        id,
        format!("{dead:.0} B matrices got no gradient at the first step"),
        "these adapters never learn: their projections are not used in the forward pass, or the way back to them is cut",
        &["leave their projections out of lora.target_modules", REPORT_IT],
    )
    .at(1)
}
