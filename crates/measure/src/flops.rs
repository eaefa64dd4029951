//! Floating-point operations of training steps with LoRA on a frozen dense decoder (numbers 3.2).

use serde::{Deserialize, Serialize};
use tunesmith_protocol::Recompute;

use crate::{LoraShape, ModelShape, Projection};

/// What a step, or several together, computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepWork {
    /// Tokens that went through the layers, padding included: padding is computed too.
    pub padded_tokens: u64,
    /// Rows that went through the head: one per supervised token, since the head is computed for those alone.
    pub supervised_rows: u64,
    /// Sum over rows of the squared row length as computed, padding included.
    pub squared_lengths: u64,
    /// What the backward pass computed again.
    pub recomputed: Recomputed,
}

/// Products that a backward pass computes again instead of having kept their results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recomputed {
    /// None.
    Nothing,
    /// Gate and up of each layer.
    GateAndUp,
    /// Each layer but its down projection, whose result no gradient needs.
    AllButDown,
    /// Each whole layer, as gradient checkpointing of PyTorch does.
    WholeLayer,
}

impl Recomputed {
    /// What this project's engine computes again at a recipe's setting.
    pub fn by_engine(recompute: Recompute) -> Self {
        match recompute {
            Recompute::None => Self::Nothing,
            Recompute::Mlp => Self::GateAndUp,
            Recompute::Layer => Self::AllButDown,
        }
    }
}

/// Operations, each multiplication and each addition counted as one. Whole numbers, exact below 2⁵³.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlopCount {
    /// Of the forward pass.
    pub forward: f64,
    /// Of the backward pass: input gradients of frozen layers, both gradients of adapters.
    pub backward: f64,
    /// Of what the backward pass computes again; 0 where it kept everything.
    pub recompute: f64,
    /// 6·N·D by the published rule, for comparison with published figures: it also counts weight gradients that
    /// LoRA never computes.
    pub six_nd: f64,
}

impl FlopCount {
    /// What the mathematics needs: forward and backward ("LoRA-exact").
    pub fn model(&self) -> f64 {
        self.forward + self.backward
    }

    /// What the hardware did: the model's operations and the recomputed ones.
    pub fn hardware(&self) -> f64 {
        self.model() + self.recompute
    }
}

impl std::ops::Add for FlopCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            forward: self.forward + other.forward,
            backward: self.backward + other.backward,
            recompute: self.recompute + other.recompute,
            six_nd: self.six_nd + other.six_nd,
        }
    }
}

impl std::iter::Sum for FlopCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), std::ops::Add::add)
    }
}

/// Operations of a step with LoRA (numbers 3.2), attention counted over the causal half.
///
/// - forward F = F_lin + F_head + F_attn + F_lora, with F_lin = 2·N_lin·tokens, F_head = 2·V·H·supervised,
///   F_attn = 4·ΣT²·Q·L·½, F_lora = 2·P_lora·tokens;
/// - backward = F_lin − 2·tokens·(H·Q + 2·H·K) + F_head + 2·F_attn + 2·F_lora: no weight gradient of a frozen layer,
///   and no input gradient of the first layer's q, k and v;
/// - recomputed: whole layers = F_lin + F_attn + F_lora, the head not; all but down, or gate and up alone, with their
///   adapters, by the same counts.
pub fn step_flops(shape: &ModelShape, lora: &LoraShape, work: &StepWork) -> FlopCount {
    let tokens = work.padded_tokens as f64;
    let query_width = shape.query_width() as f64;
    let linear = 2.0 * shape.linear_parameters() as f64 * tokens;
    let head = 2.0 * (shape.vocab * shape.hidden) as f64 * work.supervised_rows as f64;
    let causal_half = 0.5;
    let attention = 4.0 * work.squared_lengths as f64 * query_width * shape.layers as f64 * causal_half;
    let adapters = 2.0 * lora.parameters(shape) as f64 * tokens;
    let first_layer_inputs =
        2.0 * tokens * shape.hidden as f64 * (query_width + 2.0 * shape.key_width() as f64);
    // Weights and adapters of some projections in every layer.
    let of_projections = |projections: &[Projection]| {
        let weights: u64 = projections
            .iter()
            .map(|projection| {
                let (inputs, outputs) = projection.widths(shape);
                inputs * outputs
            })
            .sum();
        let adapters = lora.only(projections).parameters(shape);
        2.0 * (shape.layers * weights + adapters) as f64 * tokens
    };
    FlopCount {
        forward: linear + head + attention + adapters,
        backward: linear - first_layer_inputs + head + 2.0 * attention + 2.0 * adapters,
        recompute: match work.recomputed {
            Recomputed::Nothing => 0.0,
            Recomputed::GateAndUp => of_projections(&[Projection::GateProj, Projection::UpProj]),
            Recomputed::AllButDown => linear + attention + adapters - of_projections(&[Projection::DownProj]),
            Recomputed::WholeLayer => linear + attention + adapters,
        },
        six_nd: 6.0 * shape.seed_parameters() as f64 * tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::tests::{all_modules, qwen2_5_3b};
    use proptest::prelude::*;

    /// Two rows of 256 tokens, all supervised (numbers 3.3).
    fn worked_example(recomputed: Recomputed) -> FlopCount {
        let work = StepWork {
            padded_tokens: 512,
            supervised_rows: 512,
            squared_lengths: 2 * 256 * 256,
            recomputed,
        };
        step_flops(&qwen2_5_3b(), &all_modules(32), &work)
    }

    #[test]
    #[allow(clippy::float_cmp)] // Whole numbers below 2⁵³: anything but equality is a wrong formula.
    fn the_worked_example_to_the_last_operation() {
        let kept = worked_example(Recomputed::Nothing);
        assert_eq!(kept.forward, 3_240_385_052_672.0);
        assert_eq!(kept.backward, 3_315_647_643_648.0);
        assert_eq!(kept.recompute, 0.0);
        assert_eq!(kept.model(), 6_556_032_696_320.0);
        assert_eq!(kept.hardware(), kept.model());
        assert_eq!(kept.six_nd, 9_479_261_257_728.0);

        let again = worked_example(Recomputed::WholeLayer);
        assert_eq!(again.recompute, 2_921_752_166_400.0);
        assert_eq!(again.model(), kept.model());
        assert_eq!(again.hardware(), 9_477_784_862_720.0);
    }

    #[test]
    #[allow(clippy::float_cmp)]
    fn the_terms_of_the_worked_example() {
        let shape = qwen2_5_3b();
        let of = |padded_tokens, supervised_rows, squared_lengths, rank| {
            let work = StepWork {
                padded_tokens,
                supervised_rows,
                squared_lengths,
                recomputed: Recomputed::Nothing,
            };
            step_flops(&shape, &all_modules(rank), &work)
        };
        assert_eq!(of(512, 0, 0, 0).forward, 2_841_120_866_304.0);
        assert_eq!(of(0, 512, 0, 0).forward, 318_632_886_272.0);
        assert_eq!(of(0, 0, 131_072, 0).forward, 19_327_352_832.0);
        assert_eq!(
            of(512, 0, 0, 32).forward - of(512, 0, 0, 0).forward,
            61_303_947_264.0
        );
        assert_eq!(
            of(512, 0, 0, 0).forward - of(512, 0, 0, 0).backward,
            5_368_709_120.0
        );
    }

    #[test]
    #[allow(clippy::float_cmp)]
    fn less_than_a_layer_is_counted_by_its_products() {
        // Per token and layer, rank 32: gate and up are 2·H·I weights and 2·32·(H + I) of adapters, down is half of that.
        let gate_and_up = 2.0 * 512.0 * 36.0 * 2.0 * (2048.0 * 11_008.0 + 32.0 * (2048.0 + 11_008.0));
        assert_eq!(worked_example(Recomputed::GateAndUp).recompute, gate_and_up);
        let whole = worked_example(Recomputed::WholeLayer).recompute;
        assert_eq!(
            worked_example(Recomputed::AllButDown).recompute,
            whole - gate_and_up / 2.0
        );
    }

    #[test]
    fn ratios_to_six_nd() {
        let again = worked_example(Recomputed::WholeLayer);
        assert!((again.model() / again.six_nd - 0.6916).abs() < 5e-5);
        assert!((again.hardware() / again.six_nd - 0.9998).abs() < 5e-5);
    }

    #[test]
    fn published_step_times_come_out_as_corrected() {
        // Published: 20 steps in 6.86 s without and 9.32 s with recomputation (numbers 1.4).
        let speed = |flops: f64, secs: f64| flops * 20.0 / secs / 1e12;
        let (kept, again) = (
            worked_example(Recomputed::Nothing),
            worked_example(Recomputed::WholeLayer),
        );
        assert!((speed(kept.model(), 6.86) - 19.11).abs() < 0.01);
        assert!((speed(kept.six_nd, 6.86) - 27.63).abs() < 0.01);
        assert!((speed(again.model(), 9.32) - 14.07).abs() < 0.01);
        assert!((speed(again.six_nd, 9.32) - 20.33).abs() < 0.02);
    }

    proptest! {
        #[test]
        fn counts_of_steps_add_up_and_never_fall_with_more_work(
            tokens in 1_u64..10_000, more in 0_u64..10_000, supervised in 0_u64..1000, squared in 0_u64..1_000_000,
        ) {
            let (shape, lora) = (qwen2_5_3b(), all_modules(16));
            let work = |padded_tokens, supervised_rows, squared_lengths| StepWork {
                padded_tokens, supervised_rows, squared_lengths, recomputed: Recomputed::WholeLayer,
            };
            let one = step_flops(&shape, &lora, &work(tokens, supervised, squared));
            let two = step_flops(&shape, &lora, &work(more, supervised, squared));
            let both = step_flops(&shape, &lora, &work(tokens + more, 2 * supervised, 2 * squared));
            prop_assert!(both.forward >= one.forward && both.backward >= one.backward);
            let sum: FlopCount = [one, two].into_iter().sum();
            prop_assert!((sum.hardware() - both.hardware()).abs() <= 1e-12 * both.hardware());
            prop_assert!(one.backward > 0.0);
        }
    }
}
