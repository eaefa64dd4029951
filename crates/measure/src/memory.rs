//! How much memory a training needs, by formula (numbers 4.1): a prediction, made before anything is downloaded. A
//! run's own peak is what counts afterwards, and what earlier runs held corrects the next prediction (`fit`).
//!
//! Two trainers keep different things. What this project's engine keeps is counted tensor by tensor (`native`); of
//! transformers and PEFT the formula is one that was fitted to published runs (`transformers`).

mod native;
#[cfg(test)]
mod tests;
mod transformers;

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{DType, Quantization, Recompute};

use crate::{LoraShape, ModelShape, weight_bytes};

/// Version of the formulas: what runs held against the prediction of another version corrects nothing.
pub const MEMORY_FORMULA: u32 = 3;

/// What a card's driver and torch's libraries take before the first tensor: 141 MiB were measured on one card, this is
/// the cautious figure of numbers 4.1.
const CARD_CONTEXT_BYTES: u64 = 500 << 20;

/// What the engine's process holds on a processor beside its tensors, before what they leave behind: its program,
/// libtorch, the model's file while it is read, and scratch memory of the matrix products. Measured over 17 settings of
/// the default model: docs/measured/2026-12-01-fit.json.
const PROCESSOR_CONTEXT_BYTES: u64 = 205 << 20;

/// Who trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trainer {
    /// This project's engine.
    #[default]
    Native,
    /// transformers and PEFT: every logit at once, adapters in f32.
    Transformers,
}

/// What attention keeps of the scores of each pair of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scores {
    /// Nothing: a fused kernel does without.
    #[default]
    NotKept,
    /// The probabilities: attention is written out, because that is asked for.
    Probabilities,
    /// What torch's plain operations keep, where there are no kernels for the card.
    ByTorch,
}

/// What of a training decides the memory that it needs. Counts are those of the largest micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryWork {
    /// Tokens of a forward and backward pass, padding included.
    pub tokens: u64,
    /// Tokens whose prediction is trained.
    pub supervised: u64,
    /// Sum over its rows of the squared length: elements of a head's scores.
    pub squared_lengths: u64,
    /// Tokens of the longest row.
    pub row_tokens: u64,
    /// Whether all its rows have one length, so that attention runs over them together.
    pub one_length: bool,
    /// Rows of a whole optimizer step.
    pub rows_per_step: u64,
    /// What the backward pass computes again.
    pub recompute: Recompute,
    /// Number format of weights and activations.
    pub dtype: DType,
    /// How the linear weights are stored.
    #[serde(default)]
    pub quantization: Quantization,
    /// What attention keeps.
    #[serde(default)]
    pub scores: Scores,
    /// On a processor, where weights and activations lie in main memory.
    #[serde(default)]
    pub on_processor: bool,
    /// Who trains.
    #[serde(default)]
    pub trainer: Trainer,
    /// What is asked before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswerWork>,
}

impl MemoryWork {
    /// Passes of `micro_batch` rows of `row_tokens` tokens each, every token trained, on a card, by this project's
    /// engine: the most that rows of at most this length can need.
    pub fn of_rows(micro_batch: u64, row_tokens: u64, recompute: Recompute, dtype: DType) -> Self {
        Self {
            tokens: micro_batch * row_tokens,
            supervised: micro_batch * row_tokens,
            squared_lengths: micro_batch * row_tokens * row_tokens,
            row_tokens,
            one_length: true,
            rows_per_step: micro_batch,
            recompute,
            dtype,
            quantization: Quantization::None,
            scores: Scores::NotKept,
            on_processor: false,
            trainer: Trainer::Native,
            answers: None,
        }
    }

    /// Bytes of one element of an activation.
    fn element(&self) -> u64 {
        self.dtype.size_bytes()
    }
}

/// Answers that are written together, before and after a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerWork {
    /// Prompts at once.
    pub batch: u64,
    /// Tokens of the longest prompt.
    pub prompt_tokens: u64,
    /// Most tokens of an answer.
    pub new_tokens: u64,
}

/// Memory by part, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNeed {
    /// [`MEMORY_FORMULA`] of whoever counted; 1 in records from before there were several.
    #[serde(default = "first_formula")]
    pub formula: u32,
    /// The frozen model.
    pub weights_bytes: u64,
    /// Adapter, its gradient and the optimizer's two moments.
    pub adapter_bytes: u64,
    /// What the forward pass keeps for the backward pass.
    pub kept_bytes: u64,
    /// The largest of what is needed for a moment: a layer's activations, the logits, the optimizer's step.
    pub moment_bytes: u64,
    /// What the checks before the first step, or the answers before and after, need beyond a step.
    #[serde(default)]
    pub beside_bytes: u64,
    /// Driver and libraries; on a processor also memory of dropped tensors that the process has not given back.
    pub context_bytes: u64,
}

fn first_formula() -> u32 {
    1
}

impl MemoryNeed {
    /// The model, the adapter and a training of this kind (numbers 4.1).
    pub fn of(shape: &ModelShape, lora: &LoraShape, work: &MemoryWork) -> Self {
        let weights_bytes = weight_bytes(shape, work.dtype, work.quantization);
        let (adapter_bytes, pass) = match work.trainer {
            Trainer::Native => {
                // f32: weight 4, gradient 4, moments 8; in two bytes a copy to compute with on top.
                let each = if work.dtype == DType::F32 { 16 } else { 18 };
                (each * lora.parameters(shape), native::pass(shape, lora, work))
            }
            Trainer::Transformers => (
                16 * lora.parameters(shape),
                transformers::pass(shape, work, &transformers::Habits::of(work)),
            ),
        };
        let step_bytes = pass.kept + pass.moment;
        let beside = native::answers(shape, lora, work)
            .map(|bytes| bytes.saturating_sub(adapter_bytes))
            .max(pass.checks);
        Self {
            formula: MEMORY_FORMULA,
            weights_bytes,
            adapter_bytes,
            kept_bytes: pass.kept,
            moment_bytes: pass.moment,
            beside_bytes: beside.unwrap_or(0).saturating_sub(step_bytes),
            context_bytes: if work.on_processor {
                PROCESSOR_CONTEXT_BYTES + native::left_behind(shape, lora, work)
            } else {
                CARD_CONTEXT_BYTES
            },
        }
    }

    /// What torch's allocator holds at most in a step: what an engine tells as its peak.
    pub fn step_bytes(&self) -> u64 {
        self.weights_bytes + self.adapter_bytes + self.kept_bytes + self.moment_bytes
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.step_bytes() + self.beside_bytes + self.context_bytes
    }
}

/// What forward and backward passes hold beside weights and adapter, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pass {
    /// Kept by the forward pass for the backward pass.
    kept: u64,
    /// The most that is needed beside it for a moment.
    moment: u64,
    /// All that the checks before the first step hold, where there are some.
    checks: Option<u64>,
}

/// Main memory that an engine needs to bring weights to a card, in bytes: a tensor is read and converted in main memory
/// before it moves, and the largest one decides. Projections that read the same input are one tensor.
pub fn staging_bytes(shape: &ModelShape, dtype: DType) -> u64 {
    // The values as read and torch's copy of them in f32, and the conversion.
    let each = 2 * 4
        + if dtype == DType::F32 {
            0
        } else {
            dtype.size_bytes()
        };
    each * native::largest_weight(shape)
}
