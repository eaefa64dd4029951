//! What this project's engine holds, tensor by tensor, as `engine/src/layer.rs`, `loss.rs`, `train.rs` and `checks.rs`
//! keep and drop them.
//!
//! On a processor the sum is that of the allocator to the byte wherever the loss is the largest moment: three steps of
//! `docs/measured/2026-12-01-levers.json` are test vectors.

use tunesmith_protocol::{DType, Recompute};

use super::{MemoryWork, Pass, Scores};
use crate::{LoraShape, ModelShape, Projection, unpacked_layer_bytes};

/// Positions whose logits are held at once: `loss.rs` and `checks.rs`.
const CHUNK: u64 = 256;

/// Tenths of the scores' size that torch's plain attention keeps a layer, and those that its backward pass needs on top
/// (numbers 4.1: 2.9 kept, 7.4 where all is computed again).
const SCORES_BY_TORCH: (u64, u64) = (29, 45);

/// One micro-batch on one model.
struct Counted<'a> {
    shape: &'a ModelShape,
    lora: &'a LoraShape,
    work: &'a MemoryWork,
}

/// Forward and backward pass, and the checks before the first step.
pub(super) fn pass(shape: &ModelShape, lora: &LoraShape, work: &MemoryWork) -> Pass {
    let counted = Counted { shape, lora, work };
    let kept = counted.kept();
    Pass {
        kept,
        moment: counted.moment(kept),
        checks: Some(counted.checks()),
    }
}

/// Tenths of one layer's activations that stay with a process on a processor after the tensors were dropped: the heap
/// has gaps between what is still held, and more of them where more is made again on the way back. Fitted to the
/// processes of docs/measured/2026-12-01-fit.json (17 settings; worst by 4 % of a process).
const LEFT_BEHIND_TENTHS: [(Recompute, u64); 3] = [
    (Recompute::None, 11),
    (Recompute::Mlp, 16),
    (Recompute::Layer, 34),
];

/// Memory of dropped tensors that the process of an engine on a processor still holds at its peak.
pub(super) fn left_behind(shape: &ModelShape, lora: &LoraShape, work: &MemoryWork) -> u64 {
    let counted = Counted { shape, lora, work };
    let layer = counted.ends() + counted.attention_half() + counted.mlp_half();
    let tenths = LEFT_BEHIND_TENTHS
        .iter()
        .find(|(recompute, _)| *recompute == work.recompute);
    tenths.map_or(0, |(_, tenths)| layer * tenths / 10)
}

/// Elements of the largest tensor of weights: the embedding, or gate and up together.
pub(super) fn largest_weight(shape: &ModelShape) -> u64 {
    let h = shape.hidden;
    let qkv = h * (shape.query_width() + 2 * shape.key_width());
    (shape.vocab * h).max(2 * h * shape.intermediate).max(qkv)
}

/// What answers hold beside the weights: adapter, cache, and the prompts' way through a layer.
pub(super) fn answers(shape: &ModelShape, lora: &LoraShape, work: &MemoryWork) -> Option<u64> {
    let answers = work.answers?;
    let element = work.element();
    let tokens = answers.batch * answers.prompt_tokens;
    let cached = answers.batch * (answers.prompt_tokens + answers.new_tokens);
    let (h, q, k, i) = widths(shape);
    // Input, norm, projections, attention (also copied together), middle, norm, gate and up, their product, output.
    let layer = element * tokens * (5 * h + (q + 2 * k) + 2 * q + 3 * i);
    let logits = answers.batch * shape.vocab * (4 + element);
    let adapter = lora.parameters(shape) * if work.dtype == DType::F32 { 4 } else { 6 };
    Some(adapter + cached * shape.kv_bytes_per_token(work.dtype) + layer.max(logits) + unpacked(shape, work))
}

/// Widths of the residual stream, of queries, of keys, of the MLP.
fn widths(shape: &ModelShape) -> (u64, u64, u64, u64) {
    (
        shape.hidden,
        shape.query_width(),
        shape.key_width(),
        shape.intermediate,
    )
}

/// A 4-bit base is multiplied in the number format of the job: a layer's matrices stand there in it while it is computed.
fn unpacked(shape: &ModelShape, work: &MemoryWork) -> u64 {
    unpacked_layer_bytes(shape, work.dtype, work.quantization)
}

impl Counted<'_> {
    /// Columns that adapters on some projections keep of each token.
    fn rank_columns(&self, projections: &[Projection]) -> u64 {
        let carried = projections
            .iter()
            .filter(|projection| self.lora.target_modules.contains(projection));
        self.lora.rank * carried.count() as u64
    }

    /// Scores of a layer: those that attention keeps, and what its backward pass needs on top.
    fn scores(&self) -> (u64, u64) {
        let elements = self.shape.heads * self.work.squared_lengths;
        let element = self.work.element();
        match self.work.scores {
            Scores::NotKept => (0, 0),
            // Gradients of probabilities and of scores, in f32; of two bytes also the probabilities widened, and the
            // gradient narrowed.
            Scores::Probabilities if self.work.dtype == DType::F32 => (4 * elements, 8 * elements),
            Scores::Probabilities => (element * elements, 14 * elements),
            Scores::ByTorch => {
                let (kept, again) = SCORES_BY_TORCH;
                (element * elements * kept / 10, element * elements * again / 10)
            }
        }
    }

    /// A layer's input, and what the adapter of its last projection keeps: never computed again.
    fn ends(&self) -> u64 {
        let columns = self.shape.hidden + self.rank_columns(&[Projection::DownProj]);
        self.work.element() * self.work.tokens * columns
    }

    /// From a layer's input to its middle.
    fn attention_half(&self) -> u64 {
        let (h, q, k, _) = widths(self.shape);
        let work = self.work;
        let adapters = self.rank_columns(&[
            Projection::QProj,
            Projection::KProj,
            Projection::VProj,
            Projection::OProj,
        ]);
        // Norm, projections, output of attention, middle.
        let mut columns = h + (q + 2 * k) + q + h + adapters;
        if !work.one_length {
            // Groups of rows are put together in a tensor of their own.
            columns += q;
        }
        // Reciprocal root of the norm, logarithm of the softmax's sum: f32.
        let mut wide = 1 + self.shape.heads;
        if self.shape.qk_norm {
            columns += q + k;
            wide += self.shape.heads + self.shape.kv_heads;
        }
        work.element() * work.tokens * columns + 4 * work.tokens * wide + self.scores().0
    }

    /// From the middle to the product of gate and up.
    fn mlp_half(&self) -> u64 {
        let adapters = self.rank_columns(&[Projection::GateProj, Projection::UpProj]);
        let columns = self.shape.hidden + 2 * self.shape.intermediate + adapters;
        self.work.tokens * (self.work.element() * columns + 4)
    }

    /// What all layers keep, and the batch itself.
    fn kept(&self) -> u64 {
        let layer = self.ends()
            + match self.work.recompute {
                Recompute::None => self.attention_half() + self.mlp_half(),
                Recompute::Mlp => self.attention_half(),
                Recompute::Layer => 0,
            };
        // Numbers of the tokens, cosines and sines; positions and targets of what is predicted.
        let batch = self.work.tokens * (8 + self.work.element() * self.shape.head_dim)
            + 16 * self.work.supervised
            // The inverse frequencies, which the model holds.
            + 2 * self.shape.head_dim;
        self.shape.layers * layer + batch
    }

    /// The most beside what is kept.
    fn moment(&self, kept: u64) -> u64 {
        // When the optimizer steps, nothing is kept any more.
        let optimizer = self.optimizer().saturating_sub(kept);
        self.passes().max(optimizer)
    }

    /// The most of the loss and of the way back.
    fn passes(&self) -> u64 {
        self.loss().max(self.backward() + unpacked(self.shape, self.work))
    }

    /// The last hidden states, and the logits of a chunk with the gradients of the chunks before it.
    fn loss(&self) -> u64 {
        let (element, h, supervised) = (self.work.element(), self.shape.hidden, self.work.supervised);
        let chunk = supervised.min(CHUNK);
        // Logits as they are computed, and their softmax in f32; two bytes are widened in between.
        let logit = match self.work.dtype {
            DType::F32 => 8,
            DType::F16 if !self.work.on_processor => 6,
            DType::F16 | DType::Bf16 => 10,
        };
        let before = supervised - chunk;
        element * h * (self.work.tokens + 2 * supervised + before)
            + 4 * supervised
            + chunk * self.shape.vocab * logit
    }

    /// The way back through the last layer, when all the others are still kept.
    fn backward(&self) -> u64 {
        let (h, q, k, i) = widths(self.shape);
        let (element, tokens) = (self.work.element(), self.work.tokens);
        let (attention, mlp) = (self.attention_half(), self.mlp_half());
        let again = match self.work.recompute {
            Recompute::None => 0,
            Recompute::Mlp => mlp,
            Recompute::Layer => attention + mlp,
        };
        // Norm and SwiGLU take one pass over a processor's f32 values, and operations of torch elsewhere.
        let fused = self.work.on_processor && self.work.dtype == DType::F32;
        let swiglu = if fused {
            element * tokens * (2 * i + self.rank_columns(&[Projection::DownProj]))
        } else {
            element * tokens * 3 * i
        };
        let norm = match self.work.dtype {
            _ if fused => 0,
            DType::F32 => 2 * 4 * tokens * h,
            DType::Bf16 | DType::F16 => tokens * h * (element + 3 * 4),
        };
        // The MLP's half is dropped by then. On a card a graph holds products of its own.
        let graph = if self.work.on_processor { 0 } else { 3 * q };
        let through_attention =
            (element * tokens * (q + 2 * (q + 2 * k) + graph) + self.scores().1).saturating_sub(mlp);
        let gradients = element * h * (tokens + 3 * self.work.supervised);
        gradients + again + swiglu.max(norm).max(through_attention)
    }

    /// Of a step of AdamW: a root and a quotient, or the gradients in f64 for their norm.
    fn optimizer(&self) -> u64 {
        8 * self.lora.parameters(self.shape)
    }

    /// Before the first step: two rows as one batch, then one by one beside the gradient of both, then the difference.
    fn checks(&self) -> u64 {
        let of_rows = |rows: u64| {
            let tokens = rows * self.work.row_tokens;
            let work = MemoryWork {
                tokens,
                supervised: tokens.min(rows * self.work.supervised),
                squared_lengths: rows * self.work.row_tokens * self.work.row_tokens,
                one_length: rows == 1 || self.work.one_length,
                ..*self.work
            };
            let counted = Counted { work: &work, ..*self };
            counted.kept() + counted.passes()
        };
        let parameters = self.lora.parameters(self.shape);
        if self.work.rows_per_step < 2 {
            return of_rows(1);
        }
        of_rows(2).max(of_rows(1) + 4 * parameters).max(16 * parameters)
    }
}
