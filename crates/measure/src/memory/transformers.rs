//! What transformers and PEFT hold: constants that were fitted to published runs (numbers 4.1, met within a tenth in
//! 4.2).

use tunesmith_protocol::{DType, Recompute};

use super::{MemoryWork, Pass, Scores};
use crate::ModelShape;

/// What differs between trainings with the same library.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Tenths of the logits in f32 that are held at once: 35 to 40 (numbers 4.1).
    pub(super) logit_copies: u64,
    /// Bytes of an element of a layer's kept input.
    pub(super) checkpoint_element: u64,
    /// Whether adapters have dropout, which keeps what it let through.
    pub(super) dropout: bool,
}

impl Habits {
    /// Those of `assets/workers/hf.py`.
    pub(super) fn of(work: &MemoryWork) -> Self {
        Self {
            logit_copies: 35,
            checkpoint_element: work.element(),
            dropout: false,
        }
    }
}

/// Forward and backward pass; such a trainer makes no checks of its own.
pub(super) fn pass(shape: &ModelShape, work: &MemoryWork, habits: &Habits) -> Pass {
    let (narrow, wide) = layer_width(shape);
    let element = work.element();
    let layer = element * work.tokens * (narrow + wide);
    let scores = if work.scores == Scores::NotKept {
        0
    } else {
        element * shape.heads * work.squared_lengths
    };
    let (kept_bytes, layer_bytes) = match work.recompute {
        Recompute::None => (
            shape.layers * (layer + scores * 29 / 10 + adapter_inputs(shape, work, habits)),
            0,
        ),
        // There is no middle way in this library: whole layers are computed again.
        Recompute::Mlp | Recompute::Layer => (
            shape.layers * work.tokens * shape.hidden * habits.checkpoint_element,
            layer + scores * 74 / 10,
        ),
    };
    Pass {
        kept: kept_bytes,
        moment: layer_bytes.max(work.tokens * shape.vocab * 4 * habits.logit_copies / 10),
        checks: None,
    }
}

/// PEFT widens the input of every adapter to f32, where it is not: 4 bytes, and 1 for the mask of a dropout.
fn adapter_inputs(shape: &ModelShape, work: &MemoryWork, habits: &Habits) -> u64 {
    if work.dtype == DType::F32 {
        return 0;
    }
    let columns = 5 * shape.hidden + shape.query_width() + shape.intermediate;
    work.tokens * columns * (4 + u64::from(habits.dropout))
}

/// Elements a token that a layer keeps: outside and inside the wide part of the MLP (12H + 3Q + K, and 3I).
pub(super) fn layer_width(shape: &ModelShape) -> (u64, u64) {
    (
        12 * shape.hidden + 3 * shape.query_width() + shape.key_width(),
        3 * shape.intermediate,
    )
}
