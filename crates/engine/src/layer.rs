//! One transformer layer, forward and backward, written out without autograd (on a GPU, attention keeps it).
//!
//! Hidden states are flat, `[tokens, hidden]`: the rows of a batch stand one after the other without padding, and
//! only attention looks at where a row begins. The backward pass follows the formulas of the LoRA, SwiGLU and
//! RMSNorm derivatives (numbers.md 2.3); frozen weights get no gradient, so the weight-gradient products never run.
//! Projections that read the same input are one matrix, so that each pass has four large products and no sums
//! between them. Elementwise work is done in place where the old values are not needed again: on a processor a
//! fresh tensor costs as much as the arithmetic. Run it under `tch::no_grad`.

use tch::{Kind, Tensor};
use tunesmith_protocol::{Attention, Recompute};

use crate::adapter::LoraGroup;
use crate::attention::{AttentionTape, causal_attention};
use crate::batch::{Packed, RowGroup};
use crate::fused;
use crate::nf4::Weight;

/// Frozen projections of one input, one above the other in one matrix, with their adapters.
pub(crate) struct Projections {
    /// `[Σ out, in]`.
    pub(crate) weight: Weight,
    /// `[Σ out]`.
    pub(crate) bias: Option<Tensor>,
    /// Outputs of each projection.
    widths: Vec<i64>,
    /// The adapters, where at least one of these projections has one.
    pub(crate) lora: Option<LoraGroup>,
}

impl Projections {
    /// `weight` `[Σ out, in]` of projections with `widths` outputs each; `bias` `[Σ out]`.
    pub(crate) fn new(weight: impl Into<Weight>, bias: Option<Tensor>, widths: &[i64]) -> Self {
        Self {
            weight: weight.into(),
            bias,
            widths: widths.to_vec(),
            lora: None,
        }
    }

    /// The columns of one projection in an output `[tokens, Σ out]` of all.
    pub(crate) fn part(&self, y: &Tensor, projection: usize) -> Tensor {
        let start = self.widths[..projection].iter().sum();
        y.narrow(1, start, self.widths[projection])
    }

    /// y = xWᵀ + b + (s·xAᵀ)Bᵀ, and s·xAᵀ for the backward pass, W the unpacked weight.
    /// x `[tokens, in]` → y `[tokens, Σ out]`, `[tokens, adapters × rank]`.
    fn forward(&self, weight: &Tensor, x: &Tensor) -> (Tensor, Option<Tensor>) {
        let y = x.linear(weight, self.bias.as_ref());
        let Some(lora) = &self.lora else { return (y, None) };
        let xa = x.matmul(&lora.a.tr()).g_mul_scalar_(lora.scale);
        for (index, adapter) in lora.adapters.iter().enumerate() {
            let _ = self
                .part(&y, adapter.projection)
                .addmm_(&lora.columns_of(&xa, index), &adapter.b.tr());
        }
        (y, Some(xa))
    }

    /// Adds the gradients of A and B, and gives dx where it is wanted:
    /// u = s·dyB, dx = dyW + uA, dA += uᵀx, dB += dyᵀ(s·xAᵀ). The unpacked weight W is there where dx is wanted.
    fn backward(
        &self,
        weight: Option<&Tensor>,
        x: &Tensor,
        xa: Option<&Tensor>,
        dy: &Tensor,
    ) -> Option<Tensor> {
        let mut dx = weight.map(|weight| dy.matmul(weight));
        let (Some(lora), Some(xa)) = (&self.lora, xa) else {
            return dx;
        };
        let products = lora
            .adapters
            .iter()
            .map(|adapter| self.part(dy, adapter.projection).matmul(&adapter.b))
            .collect();
        let u = side_by_side(products, 1).g_mul_scalar_(lora.scale);
        if let Some(dx) = &mut dx {
            let _ = dx.addmm_(&u, &lora.a);
        }
        if let Some(grad_a) = &lora.grad_a {
            add_product(grad_a, &u.tr(), x);
        }
        for (index, adapter) in lora.adapters.iter().enumerate() {
            if let Some(grad_b) = &adapter.grad_b {
                let dy = self.part(dy, adapter.projection);
                add_product(grad_b, &dy.tr(), &lora.columns_of(xa, index));
            }
        }
        dx
    }
}

/// Concatenation that copies nothing where there is one part.
fn side_by_side(mut parts: Vec<Tensor>, dim: i64) -> Tensor {
    if parts.len() == 1 {
        parts.remove(0)
    } else {
        Tensor::cat(&parts, dim)
    }
}

/// total += left·right, where `total` is f32 and the factors may be narrower.
fn add_product(total: &Tensor, left: &Tensor, right: &Tensor) {
    let mut total = total.shallow_clone();
    if left.kind() == Kind::Float {
        let _ = total.addmm_(left, right);
    } else {
        let _ = total.g_add_(&left.matmul(right).to_kind(Kind::Float));
    }
}

/// Root-mean-square norm with a frozen weight.
pub(crate) struct Norm {
    /// `[width]`.
    pub(crate) weight: Tensor,
    /// Added to the mean square.
    pub(crate) eps: f64,
}

impl Norm {
    /// y = w · x / √(mean(x²) + eps) over the last dimension, and the reciprocal root in f32 for the backward pass.
    pub(crate) fn forward(&self, x: &Tensor) -> (Tensor, Tensor) {
        if fused::fits(&[x, &self.weight]) {
            return fused::rms_norm(x, &self.weight, self.eps);
        }
        let wide = x.to_kind(Kind::Float);
        let reciprocal = (wide.square().mean_dim(-1, true, Kind::Float) + self.eps).rsqrt();
        let y = (wide * &reciprocal).to_kind(x.kind()).g_mul_(&self.weight);
        (y, reciprocal)
    }

    /// dx = ρ·w·dy − x·ρ³·mean(w·dy·x), ρ the reciprocal root. Overwrites dy.
    pub(crate) fn backward(&self, x: &Tensor, reciprocal: &Tensor, mut dy: Tensor) -> Tensor {
        let kind = dy.kind();
        let x = x.to_kind(Kind::Float);
        let mut dx = dy.g_mul_(&self.weight).to_kind(Kind::Float);
        let mean = (&dx * &x).mean_dim(-1, true, Kind::Float);
        let pull = mean * reciprocal.pow_tensor_scalar(3) * -1.0;
        dx.g_mul_(reciprocal).addcmul_(&x, &pull).to_kind(kind)
    }

    /// Adds what [`Norm::backward`] gives to `total`, the gradient that reaches x by another way. May overwrite dy.
    fn backward_add_(&self, total: &mut Tensor, x: &Tensor, reciprocal: &Tensor, dy: Tensor) {
        if fused::fits(&[total, x, reciprocal, &self.weight, &dy]) {
            fused::rms_norm_backward_add_(total, x, reciprocal, &self.weight, &dy);
        } else {
            let _ = total.g_add_(&self.backward(x, reciprocal, dy));
        }
    }
}

/// Rotates pairs (i, i + half) of the last dimension in place: Hugging Face's layout of rotary embeddings.
/// x `[tokens, heads, head_dim]`, cos and sin `[tokens, 1, head_dim / 2]`; the inverse has sin negated.
pub(crate) fn rotate_(x: &Tensor, cos: &Tensor, sin: &Tensor) {
    let mut halves = x.chunk(2, -1);
    let (Some(mut second), Some(mut first)) = (halves.pop(), halves.pop()) else {
        return;
    };
    let (first_sin, second_sin) = (&first * sin, &second * sin);
    let _ = first.g_mul_(cos).g_sub_(&second_sin);
    let _ = second.g_mul_(cos).g_add_(&first_sin);
}

/// A layer's weights.
pub(crate) struct Layer {
    /// How attention is computed in training.
    pub(crate) attention: Attention,
    pub(crate) heads: i64,
    pub(crate) kv_heads: i64,
    pub(crate) head_dim: i64,
    pub(crate) input_norm: Norm,
    /// Queries, keys, values.
    pub(crate) qkv: Projections,
    /// Norms over each head (Qwen3).
    pub(crate) qk_norm: Option<(Norm, Norm)>,
    pub(crate) o: Projections,
    pub(crate) post_norm: Norm,
    /// Gate, up.
    pub(crate) gate_up: Projections,
    pub(crate) down: Projections,
}

/// A layer's frozen matrices as they are multiplied. One set serves a whole pass through a layer, so that a matrix in 4 bits
/// is unpacked once for the forward pass, and once for the backward pass with what it computes again.
pub(crate) struct Unpacked {
    qkv: Tensor,
    o: Tensor,
    gate_up: Tensor,
    down: Tensor,
}

/// Queries, keys and values of one pass: `[tokens, heads, head_dim]`, rotated.
pub(crate) struct Qkv {
    pub(crate) q: Tensor,
    pub(crate) k: Tensor,
    pub(crate) v: Tensor,
    saved: QkvSaved,
}

/// What the way back through norms and rotation needs.
struct QkvSaved {
    xa: Option<Tensor>,
    /// Values and reciprocal roots before the norm of each head, for q and for k.
    before_norm: Option<[(Tensor, Tensor); 2]>,
}

/// What a forward pass leaves for the backward pass of a layer; the absent halves are computed again.
pub(crate) struct Tape {
    x: Tensor,
    attention: Option<AttentionHalf>,
    mlp: Option<MlpHalf>,
    /// Kept always, so that the product of `down` is never computed again.
    down_xa: Option<Tensor>,
}

/// A layer up to its middle.
struct AttentionHalf {
    reciprocal: Tensor,
    normed: Tensor,
    qkv: QkvSaved,
    tapes: Vec<AttentionTape>,
    attended: Tensor,
    o_xa: Option<Tensor>,
    middle: Tensor,
}

/// A layer from its middle to `down`: the widest activations, and two of seven products.
struct MlpHalf {
    reciprocal: Tensor,
    normed: Tensor,
    /// `[tokens, 2 × intermediate]`.
    gate_up: Tensor,
    xa: Option<Tensor>,
}

impl Layer {
    /// The projections, in the order of a forward pass.
    pub(crate) fn projections(&self) -> [&Projections; 4] {
        [&self.qkv, &self.o, &self.gate_up, &self.down]
    }

    /// The matrices of one pass.
    pub(crate) fn unpacked(&self) -> Unpacked {
        Unpacked {
            qkv: self.qkv.weight.unpacked(),
            o: self.o.weight.unpacked(),
            gate_up: self.gate_up.weight.unpacked(),
            down: self.down.weight.unpacked(),
        }
    }

    /// Projects, norms each head where the model does, and rotates.
    pub(crate) fn qkv(&self, weights: &Unpacked, normed: &Tensor, cos: &Tensor, sin: &Tensor) -> Qkv {
        let (qkv, xa) = self.qkv.forward(&weights.qkv, normed);
        let heads = |projection, count| self.qkv.part(&qkv, projection).view([-1, count, self.head_dim]);
        let (mut q, mut k, v) = (
            heads(0, self.heads),
            heads(1, self.kv_heads),
            heads(2, self.kv_heads),
        );
        let mut before_norm = None;
        if let Some((q_norm, k_norm)) = &self.qk_norm {
            let (q_normed, q_reciprocal) = q_norm.forward(&q);
            let (k_normed, k_reciprocal) = k_norm.forward(&k);
            before_norm = Some([(q, q_reciprocal), (k, k_reciprocal)]);
            (q, k) = (q_normed, k_normed);
        }
        rotate_(&q, cos, sin);
        rotate_(&k, cos, sin);
        Qkv {
            q,
            k,
            v,
            saved: QkvSaved { xa, before_norm },
        }
    }

    /// Everything after attention: output projection, second norm, SwiGLU. For answers, where nothing is kept.
    pub(crate) fn after_attention(&self, weights: &Unpacked, x: &Tensor, attended: &Tensor) -> Tensor {
        let middle = self.o.forward(&weights.o, attended).0.g_add_(x);
        self.down(weights, &middle, &self.mlp_half(weights, &middle).gate_up)
            .0
    }

    /// From the layer's input to its middle, which is the input of the second norm.
    fn attention_half(&self, weights: &Unpacked, x: &Tensor, batch: &Packed) -> AttentionHalf {
        let (normed, reciprocal) = self.input_norm.forward(x);
        let qkv = self.qkv(weights, &normed, &batch.cos, &batch.sin);
        let (attended, tapes) = self.attend(&qkv, &batch.groups);
        let (mut projected, o_xa) = self.o.forward(&weights.o, &attended);
        AttentionHalf {
            reciprocal,
            normed,
            qkv: qkv.saved,
            tapes,
            attended,
            o_xa,
            middle: projected.g_add_(x),
        }
    }

    /// Second norm, gate and up.
    fn mlp_half(&self, weights: &Unpacked, middle: &Tensor) -> MlpHalf {
        let (normed, reciprocal) = self.post_norm.forward(middle);
        let (gate_up, xa) = self.gate_up.forward(&weights.gate_up, &normed);
        MlpHalf {
            reciprocal,
            normed,
            gate_up,
            xa,
        }
    }

    /// middle + down(σ(gate)·gate·up), and what the adapter of `down` keeps.
    fn down(&self, weights: &Unpacked, middle: &Tensor, gate_up: &Tensor) -> (Tensor, Option<Tensor>) {
        let (mut y, xa) = self.down.forward(&weights.down, &self.swiglu(gate_up));
        (y.g_add_(middle), xa)
    }

    /// σ(gate)·gate·up.
    fn swiglu(&self, gate_up: &Tensor) -> Tensor {
        if fused::fits(&[gate_up]) {
            return fused::swiglu(gate_up);
        }
        let (gate, up) = (self.gate_up.part(gate_up, 0), self.gate_up.part(gate_up, 1));
        gate.silu().g_mul_(&up)
    }

    /// The gradients of gate and up, in the places of their values: h = f·g with f = e·σ(e); dg = dh·f, de = silu'(e)·dh·g.
    fn swiglu_backward_(&self, gate_up: &Tensor, dh: &Tensor) {
        if fused::fits(&[gate_up, dh]) {
            return fused::swiglu_backward_(gate_up, dh);
        }
        let (gate, up) = (self.gate_up.part(gate_up, 0), self.gate_up.part(gate_up, 1));
        let through_gate = dh * &up;
        let _ = dh.mul_out(&up, &gate.silu());
        let _ = gate.silu_backward_grad_input(&gate, &through_gate);
    }

    /// x `[tokens, hidden]` → y of the same shape, and the tape for the backward pass, without what `recompute` says
    /// is to be computed again.
    pub(crate) fn forward(&self, x: &Tensor, batch: &Packed, recompute: Recompute) -> (Tensor, Tape) {
        let weights = self.unpacked();
        let attention = self.attention_half(&weights, x, batch);
        let mlp = self.mlp_half(&weights, &attention.middle);
        let (y, down_xa) = self.down(&weights, &attention.middle, &mlp.gate_up);
        let tape = Tape {
            x: x.shallow_clone(),
            attention: (recompute != Recompute::Layer).then_some(attention),
            mlp: (recompute == Recompute::None).then_some(mlp),
            down_xa,
        };
        (y, tape)
    }

    /// Causal attention within each row. Rows of one length go together, so no mask is ever needed.
    fn attend(&self, qkv: &Qkv, groups: &[RowGroup]) -> (Tensor, Vec<AttentionTape>) {
        let tapes: Vec<_> = groups
            .iter()
            .map(|group| {
                let rows = [&qkv.q, &qkv.k, &qkv.v].map(|x| group.rows_of(x));
                match self.attention {
                    Attention::Sdpa => AttentionTape::new(rows),
                    Attention::Eager => AttentionTape::eager(rows),
                }
            })
            .collect();
        let outputs = groups
            .iter()
            .zip(&tapes)
            .map(|(group, tape)| self.flat(group, &tape.output.detach()))
            .collect();
        (side_by_side(outputs, 0), tapes)
    }

    /// Attention as in [`Layer::forward`], with nothing kept for a way back: `[tokens, heads × head_dim]`.
    pub(crate) fn attend_only(&self, qkv: &Qkv, groups: &[RowGroup]) -> Tensor {
        let outputs = groups
            .iter()
            .map(|group| {
                let [q, k, v] = [&qkv.q, &qkv.k, &qkv.v].map(|x| group.rows_of(x));
                self.flat(group, &causal_attention(&q, &k, &v))
            })
            .collect();
        side_by_side(outputs, 0)
    }

    /// `[rows, heads, length, head_dim]` → `[tokens, heads × head_dim]`.
    fn flat(&self, group: &RowGroup, x: &Tensor) -> Tensor {
        x.transpose(1, 2)
            .reshape([group.tokens(), self.heads * self.head_dim])
    }

    /// dy `[tokens, hidden]` → dx, or nothing where nothing below wants it. Adds the adapters' gradients.
    pub(crate) fn backward(&self, tape: Tape, dy: Tensor, batch: &Packed, want_dx: bool) -> Option<Tensor> {
        let weights = self.unpacked();
        let attention = tape
            .attention
            .unwrap_or_else(|| self.attention_half(&weights, &tape.x, batch));
        let mlp = tape
            .mlp
            .unwrap_or_else(|| self.mlp_half(&weights, &attention.middle));
        let h = self.swiglu(&mlp.gate_up);
        let dh = self
            .down
            .backward(Some(&weights.down), &h, tape.down_xa.as_ref(), &dy)?;
        drop(h);
        self.swiglu_backward_(&mlp.gate_up, &dh);
        drop(dh);
        let d_normed =
            self.gate_up
                .backward(Some(&weights.gate_up), &mlp.normed, mlp.xa.as_ref(), &mlp.gate_up)?;
        let mut dx = dy;
        self.post_norm
            .backward_add_(&mut dx, &attention.middle, &mlp.reciprocal, d_normed);
        drop(mlp);

        let d_attended = self.o.backward(
            Some(&weights.o),
            &attention.attended,
            attention.o_xa.as_ref(),
            &dx,
        )?;
        let d_qkv = self.attend_backward(&attention.tapes, &attention.qkv, &d_attended, batch);
        let d_normed = self.qkv.backward(
            want_dx.then_some(&weights.qkv),
            &attention.normed,
            attention.qkv.xa.as_ref(),
            &d_qkv,
        )?;
        self.input_norm
            .backward_add_(&mut dx, &tape.x, &attention.reciprocal, d_normed);
        Some(dx)
    }

    /// d_attended `[tokens, heads × head_dim]` → the gradient of the projections' common output `[tokens, Σ out]`.
    fn attend_backward(
        &self,
        tapes: &[AttentionTape],
        saved: &QkvSaved,
        d_attended: &Tensor,
        batch: &Packed,
    ) -> Tensor {
        let tokens = d_attended.size()[0];
        let d_qkv = d_attended.new_empty(
            [tokens, self.qkv.widths.iter().sum()],
            (d_attended.kind(), d_attended.device()),
        );
        let heads = |projection, count| self.qkv.part(&d_qkv, projection).view([-1, count, self.head_dim]);
        let parts = [
            heads(0, self.heads),
            heads(1, self.kv_heads),
            heads(2, self.kv_heads),
        ];
        let d_attended = d_attended.view([-1, self.heads, self.head_dim]);
        for (group, tape) in batch.groups.iter().zip(tapes) {
            let gradients = tape.backward(&group.rows_of(&d_attended));
            for (part, gradient) in parts.iter().zip(gradients) {
                group.rows_of(part).copy_(&gradient);
            }
        }
        let [mut dq, mut dk, _] = parts;
        let back = -&batch.sin;
        rotate_(&dq, &batch.cos, &back);
        rotate_(&dk, &batch.cos, &back);
        if let (Some((q_norm, k_norm)), Some([(q, q_reciprocal), (k, k_reciprocal)])) =
            (&self.qk_norm, &saved.before_norm)
        {
            dq.copy_(&q_norm.backward(q, q_reciprocal, dq.copy()));
            dk.copy_(&k_norm.backward(k, k_reciprocal, dk.copy()));
        }
        d_qkv
    }
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;
    use crate::textbook::{self, Size};
    use tch::Device;
    use tunesmith_protocol::Quantization;

    const SIZE: Size = Size {
        hidden: 12,
        heads: 4,
        kv_heads: 2,
        head_dim: 6,
        intermediate: 20,
        rank: 2,
    };

    fn assert_close(got: &Tensor, expected: &Tensor) {
        let error = (got - expected).abs().max().double_value(&[]) / expected.abs().max().double_value(&[]);
        assert!(error < 2e-5, "{error}");
    }

    #[test]
    fn output_and_every_gradient_equal_autograd() {
        let plain = [Recompute::None, Recompute::Mlp, Recompute::Layer]
            .map(|recompute| (recompute, Attention::Sdpa, Quantization::None));
        let others = [
            (Recompute::None, Attention::Eager, Quantization::None),
            (Recompute::Layer, Attention::Eager, Quantization::Nf4),
            (Recompute::None, Attention::Sdpa, Quantization::Nf4),
            (Recompute::Mlp, Attention::Sdpa, Quantization::Nf4),
        ];
        for (recompute, attention, quantization) in plain.into_iter().chain(others) {
            tch::manual_seed(7);
            let mut layer = textbook::random_layer(SIZE, Kind::Float, Device::Cpu);
            layer.attention = attention;
            if quantization == Quantization::Nf4 {
                textbook::quantise(&mut layer);
            }
            let batch = textbook::batch(&[5, 3, 5, 1], SIZE, Kind::Float, Device::Cpu);
            let random = || Tensor::randn([14, SIZE.hidden], (Kind::Float, Device::Cpu));
            let (x, dy) = (random(), random());
            let expected = textbook::layer(&layer, &x, &dy, &batch);
            let got = tch::no_grad(|| textbook::written_out(&layer, &x, &dy, &batch, recompute));
            assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(&expected) {
                assert_close(got, expected);
            }
        }
    }
}
