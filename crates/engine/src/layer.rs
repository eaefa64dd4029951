//! One transformer layer, forward and backward, without autograd except inside attention.
//!
//! Hidden states are flat, `[tokens, hidden]`: the rows of a batch stand one after the other without padding, and
//! only attention looks at where a row begins. The backward pass follows the formulas of the LoRA, SwiGLU and
//! RMSNorm derivatives (numbers.md 2.3); frozen weights get no gradient, so the weight-gradient products never run.
//! Run it under `tch::no_grad`.

use tch::{Kind, Tensor};

use crate::adapter::LoraPair;
use crate::batch::{Packed, RowGroup};

/// A frozen projection with its adapter.
pub(crate) struct Linear {
    /// `[out, in]`.
    pub(crate) weight: Tensor,
    /// `[out]`.
    pub(crate) bias: Option<Tensor>,
    /// The adapter, where this projection has one.
    pub(crate) lora: Option<LoraPair>,
}

impl Linear {
    /// y = xWᵀ + b + (s·xAᵀ)Bᵀ, and s·xAᵀ for the backward pass.
    /// x `[tokens, in]` → y `[tokens, out]`, `[tokens, rank]`.
    pub(crate) fn forward(&self, x: &Tensor) -> (Tensor, Option<Tensor>) {
        let mut y = x.linear(&self.weight, self.bias.as_ref());
        let Some(lora) = &self.lora else { return (y, None) };
        let xa = x.matmul(&lora.a.tr()) * lora.scale;
        let _ = y.addmm_(&xa, &lora.b.tr());
        (y, Some(xa))
    }

    /// Adds the gradients of A and B, and gives dx where it is wanted:
    /// u = s·dyB, dx = dyW + uA, dA += uᵀx, dB += dyᵀ(s·xAᵀ).
    pub(crate) fn backward(
        &self,
        x: &Tensor,
        xa: Option<&Tensor>,
        dy: &Tensor,
        want_dx: bool,
    ) -> Option<Tensor> {
        let mut dx = want_dx.then(|| dy.matmul(&self.weight));
        let (Some(lora), Some(xa)) = (&self.lora, xa) else {
            return dx;
        };
        let u = dy.matmul(&lora.b) * lora.scale;
        if let Some(dx) = &mut dx {
            let _ = dx.addmm_(&u, &lora.a);
        }
        if let Some((grad_a, grad_b)) = &lora.gradients {
            add_product(grad_a, &u.tr(), x);
            add_product(grad_b, &dy.tr(), xa);
        }
        dx
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
        let wide = x.to_kind(Kind::Float);
        let reciprocal = (wide.square().mean_dim(-1, true, Kind::Float) + self.eps).rsqrt();
        let y = (wide * &reciprocal).to_kind(x.kind()) * &self.weight;
        (y, reciprocal)
    }

    /// dx = ρ·(w·dy − x·ρ²·mean(w·dy·x)), ρ the reciprocal root.
    pub(crate) fn backward(&self, x: &Tensor, reciprocal: &Tensor, dy: &Tensor) -> Tensor {
        let normed = x.to_kind(Kind::Float) * reciprocal;
        let weighted = (dy * &self.weight).to_kind(Kind::Float);
        let mean = (&weighted * &normed).mean_dim(-1, true, Kind::Float);
        ((weighted - normed * mean) * reciprocal).to_kind(dy.kind())
    }
}

/// Rotates pairs (i, i + half) of the last dimension: Hugging Face's layout of rotary embeddings.
/// x `[tokens, heads, head_dim]`, cos and sin `[tokens, 1, head_dim / 2]`; the inverse has sin negated.
pub(crate) fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    let halves = x.chunk(2, -1);
    let (first, second) = (&halves[0], &halves[1]);
    Tensor::cat(&[first * cos - second * sin, second * cos + first * sin], -1)
}

/// A layer's weights.
pub(crate) struct Layer {
    pub(crate) heads: i64,
    pub(crate) kv_heads: i64,
    pub(crate) head_dim: i64,
    pub(crate) input_norm: Norm,
    pub(crate) q: Linear,
    pub(crate) k: Linear,
    pub(crate) v: Linear,
    /// Norms over each head (Qwen3).
    pub(crate) qk_norm: Option<(Norm, Norm)>,
    pub(crate) o: Linear,
    pub(crate) post_norm: Norm,
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
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
    xa: [Option<Tensor>; 3],
    /// Values and reciprocal roots before the norm of each head, for q and for k.
    before_norm: Option<[(Tensor, Tensor); 2]>,
}

/// Attention over one group of rows with its own small autograd graph.
struct AttentionTape {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
}

/// What the backward pass of a layer needs.
pub(crate) struct Tape {
    x: Tensor,
    input_reciprocal: Tensor,
    normed: Tensor,
    qkv: QkvSaved,
    attention: Vec<AttentionTape>,
    attended: Tensor,
    o_xa: Option<Tensor>,
    middle: Tensor,
    post_reciprocal: Tensor,
    post_normed: Tensor,
    gate: Tensor,
    gate_xa: Option<Tensor>,
    up: Tensor,
    up_xa: Option<Tensor>,
    down_xa: Option<Tensor>,
}

impl Layer {
    /// Projects, norms each head where the model does, and rotates.
    pub(crate) fn qkv(&self, normed: &Tensor, cos: &Tensor, sin: &Tensor) -> Qkv {
        let (q, q_xa) = self.q.forward(normed);
        let (k, k_xa) = self.k.forward(normed);
        let (v, v_xa) = self.v.forward(normed);
        let mut q = q.view([-1, self.heads, self.head_dim]);
        let mut k = k.view([-1, self.kv_heads, self.head_dim]);
        let v = v.view([-1, self.kv_heads, self.head_dim]);
        let mut before_norm = None;
        if let Some((q_norm, k_norm)) = &self.qk_norm {
            let (q_normed, q_reciprocal) = q_norm.forward(&q);
            let (k_normed, k_reciprocal) = k_norm.forward(&k);
            before_norm = Some([(q, q_reciprocal), (k, k_reciprocal)]);
            (q, k) = (q_normed, k_normed);
        }
        Qkv {
            q: rotate(&q, cos, sin),
            k: rotate(&k, cos, sin),
            v,
            saved: QkvSaved {
                xa: [q_xa, k_xa, v_xa],
                before_norm,
            },
        }
    }

    /// Everything after attention: output projection, second norm, SwiGLU. For answers, where nothing is kept.
    pub(crate) fn after_attention(&self, x: &Tensor, attended: &Tensor) -> Tensor {
        let middle = x + self.o.forward(attended).0;
        let (normed, _) = self.post_norm.forward(&middle);
        let activated = self.gate.forward(&normed).0.silu() * self.up.forward(&normed).0;
        middle + self.down.forward(&activated).0
    }

    /// x `[tokens, hidden]` → y of the same shape, and the tape for the backward pass.
    pub(crate) fn forward(&self, x: &Tensor, batch: &Packed) -> (Tensor, Tape) {
        let (normed, input_reciprocal) = self.input_norm.forward(x);
        let qkv = self.qkv(&normed, &batch.cos, &batch.sin);
        let (attended, attention) = self.attend(&qkv, &batch.groups);
        let (projected, o_xa) = self.o.forward(&attended);
        let middle = x + projected;
        let (post_normed, post_reciprocal) = self.post_norm.forward(&middle);
        let (gate, gate_xa) = self.gate.forward(&post_normed);
        let (up, up_xa) = self.up.forward(&post_normed);
        let (down, down_xa) = self.down.forward(&(gate.silu() * &up));
        let y = &middle + down;
        let tape = Tape {
            x: x.shallow_clone(),
            input_reciprocal,
            normed,
            qkv: qkv.saved,
            attention,
            attended,
            o_xa,
            middle,
            post_reciprocal,
            post_normed,
            gate,
            gate_xa,
            up,
            up_xa,
            down_xa,
        };
        (y, tape)
    }

    /// Causal attention within each row. Rows of one length go together, so no mask is ever needed.
    fn attend(&self, qkv: &Qkv, groups: &[RowGroup]) -> (Tensor, Vec<AttentionTape>) {
        let mut outputs = Vec::with_capacity(groups.len());
        let mut tapes = Vec::with_capacity(groups.len());
        for group in groups {
            let leaf = |x: &Tensor| group.rows_of(x).detach().set_requires_grad(true);
            let (q, k, v) = (leaf(&qkv.q), leaf(&qkv.k), leaf(&qkv.v));
            let output = tch::with_grad(|| causal_attention(&q, &k, &v));
            outputs.push(
                output
                    .detach()
                    .transpose(1, 2)
                    .reshape([group.tokens(), self.heads * self.head_dim]),
            );
            tapes.push(AttentionTape { q, k, v, output });
        }
        let attended = if outputs.len() == 1 {
            outputs.remove(0)
        } else {
            Tensor::cat(&outputs, 0)
        };
        (attended, tapes)
    }

    /// Attention as in [`Layer::forward`], with nothing kept for a way back: `[tokens, heads × head_dim]`.
    pub(crate) fn attend_only(&self, qkv: &Qkv, groups: &[RowGroup]) -> Tensor {
        let outputs: Vec<Tensor> = groups
            .iter()
            .map(|group| {
                let [q, k, v] = [&qkv.q, &qkv.k, &qkv.v].map(|x| group.rows_of(x));
                causal_attention(&q, &k, &v)
                    .transpose(1, 2)
                    .reshape([group.tokens(), self.heads * self.head_dim])
            })
            .collect();
        Tensor::cat(&outputs, 0)
    }

    /// dy `[tokens, hidden]` → dx, or nothing where nothing below wants it. Adds the adapters' gradients.
    pub(crate) fn backward(&self, tape: &Tape, dy: &Tensor, batch: &Packed, want_dx: bool) -> Option<Tensor> {
        // SwiGLU: h = f·g with f = e·σ(e); dg = dh·f, de = silu'(e)·dh·g.
        let f = tape.gate.silu();
        let h = &f * &tape.up;
        let dh = self.down.backward(&h, tape.down_xa.as_ref(), dy, true)?;
        let d_up = &dh * f;
        let d_gate = tape.gate.silu_backward(&(dh * &tape.up));
        let d_normed = self
            .gate
            .backward(&tape.post_normed, tape.gate_xa.as_ref(), &d_gate, true)?
            + self
                .up
                .backward(&tape.post_normed, tape.up_xa.as_ref(), &d_up, true)?;
        let d_middle = dy
            + self
                .post_norm
                .backward(&tape.middle, &tape.post_reciprocal, &d_normed);

        let d_attended = self
            .o
            .backward(&tape.attended, tape.o_xa.as_ref(), &d_middle, true)?;
        let (dq, dk, dv) = self.attend_backward(&tape.attention, &d_attended, batch);
        let (dq, dk) = self.qk_backward(tape, &dq, &dk, batch);
        let [q_xa, k_xa, v_xa] = &tape.qkv.xa;
        let parts = [
            self.q.backward(&tape.normed, q_xa.as_ref(), &dq, want_dx),
            self.k.backward(&tape.normed, k_xa.as_ref(), &dk, want_dx),
            self.v.backward(&tape.normed, v_xa.as_ref(), &dv, want_dx),
        ];
        let d_normed = parts.into_iter().flatten().reduce(|sum, part| sum + part)?;
        Some(
            d_middle
                + self
                    .input_norm
                    .backward(&tape.x, &tape.input_reciprocal, &d_normed),
        )
    }

    fn attend_backward(
        &self,
        tapes: &[AttentionTape],
        d_attended: &Tensor,
        batch: &Packed,
    ) -> (Tensor, Tensor, Tensor) {
        let mut parts: [Vec<Tensor>; 3] = Default::default();
        for (group, tape) in batch.groups.iter().zip(tapes) {
            let d_output = group.rows_of(&d_attended.view([-1, self.heads, self.head_dim]));
            // run_backward seeds with ones, so the vector–Jacobian product is the gradient of Σ output·d_output.
            let product = tch::with_grad(|| &tape.output * &d_output);
            let gradients = Tensor::run_backward(&[product], &[&tape.q, &tape.k, &tape.v], false, false);
            for (part, gradient) in parts.iter_mut().zip(gradients) {
                part.push(
                    gradient
                        .transpose(1, 2)
                        .reshape([group.tokens(), -1, self.head_dim]),
                );
            }
        }
        let [dq, dk, dv] = parts.map(|mut part| {
            if part.len() == 1 {
                part.remove(0)
            } else {
                Tensor::cat(&part, 0)
            }
        });
        (dq, dk, dv.flatten(1, 2))
    }

    fn qk_backward(&self, tape: &Tape, dq: &Tensor, dk: &Tensor, batch: &Packed) -> (Tensor, Tensor) {
        let back = -&batch.sin;
        let mut dq = rotate(dq, &batch.cos, &back);
        let mut dk = rotate(dk, &batch.cos, &back);
        if let (Some((q_norm, k_norm)), Some([(q, q_reciprocal), (k, k_reciprocal)])) =
            (&self.qk_norm, &tape.qkv.before_norm)
        {
            dq = q_norm.backward(q, q_reciprocal, &dq);
            dk = k_norm.backward(k, k_reciprocal, &dk);
        }
        (dq.flatten(1, 2), dk.flatten(1, 2))
    }
}

/// q `[rows, heads, length, head_dim]`, k and v `[rows, kv_heads, length, head_dim]` → as q.
fn causal_attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    Tensor::scaled_dot_product_attention(
        q,
        k,
        v,
        None::<&Tensor>,
        0.0,
        true,
        None,
        q.size()[1] != k.size()[1],
    )
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;
    use crate::batch::frequencies;
    use tch::Device;
    use tunesmith_data::Row;

    const HIDDEN: i64 = 12;
    const HEAD_DIM: i64 = 6;
    const RANK: i64 = 2;

    fn random(size: &[i64]) -> Tensor {
        Tensor::randn(size, (Kind::Float, Device::Cpu)) * 0.5
    }

    fn linear(inputs: i64, outputs: i64, biased: bool) -> Linear {
        let zeros = |size: [i64; 2]| Tensor::zeros(size, (Kind::Float, Device::Cpu));
        Linear {
            weight: random(&[outputs, inputs]),
            bias: biased.then(|| random(&[outputs])),
            lora: Some(LoraPair {
                a: random(&[RANK, inputs]),
                b: random(&[outputs, RANK]),
                gradients: Some((zeros([RANK, inputs]), zeros([outputs, RANK]))),
                scale: 1.5,
            }),
        }
    }

    /// A layer with all that any supported family has: grouped heads, biases, norms over heads.
    fn layer() -> Layer {
        let norm = |width: i64| Norm {
            weight: random(&[width]) + 1.0,
            eps: 1e-5,
        };
        Layer {
            heads: 4,
            kv_heads: 2,
            head_dim: HEAD_DIM,
            input_norm: norm(HIDDEN),
            q: linear(HIDDEN, 4 * HEAD_DIM, true),
            k: linear(HIDDEN, 2 * HEAD_DIM, true),
            v: linear(HIDDEN, 2 * HEAD_DIM, true),
            qk_norm: Some((norm(HEAD_DIM), norm(HEAD_DIM))),
            o: linear(4 * HEAD_DIM, HIDDEN, false),
            post_norm: norm(HIDDEN),
            gate: linear(HIDDEN, 20, false),
            up: linear(HIDDEN, 20, false),
            down: linear(20, HIDDEN, false),
        }
    }

    fn linears(layer: &Layer) -> [&Linear; 7] {
        [
            &layer.q,
            &layer.k,
            &layer.v,
            &layer.o,
            &layer.gate,
            &layer.up,
            &layer.down,
        ]
    }

    /// The same layer in textbook form, for autograd: one row at a time, repeated heads, an explicit mask.
    fn reference(layer: &Layer, loras: &[(Tensor, Tensor)], x: &Tensor, batch: &Packed) -> Tensor {
        let apply = |index: usize, linear: &Linear, x: &Tensor| {
            let (a, b) = &loras[index];
            let scale = linear.lora.as_ref().map_or(0.0, |lora| lora.scale);
            x.linear(&linear.weight, linear.bias.as_ref()) + x.matmul(&a.tr()).matmul(&b.tr()) * scale
        };
        let norm = |norm: &Norm, x: &Tensor| {
            x / (x.square().mean_dim(-1, true, Kind::Float) + norm.eps).sqrt() * &norm.weight
        };
        let normed = norm(&layer.input_norm, x);
        let heads = |x: Tensor, count: i64| x.view([-1, count, HEAD_DIM]);
        let (q_norm, k_norm) = layer.qk_norm.as_ref().unwrap();
        let q = rotate(
            &norm(q_norm, &heads(apply(0, &layer.q, &normed), 4)),
            &batch.cos,
            &batch.sin,
        );
        let k = rotate(
            &norm(k_norm, &heads(apply(1, &layer.k, &normed), 2)),
            &batch.cos,
            &batch.sin,
        );
        let v = heads(apply(2, &layer.v, &normed), 2);
        let rows: Vec<Tensor> = batch
            .groups
            .iter()
            .flat_map(RowGroup::spans)
            .map(|(start, length)| {
                let part = |x: &Tensor, repeat: i64| {
                    x.narrow(0, start, length)
                        .transpose(0, 1)
                        .repeat_interleave_self_int(repeat, 0, None)
                };
                let scores = part(&q, 1).matmul(&part(&k, 2).transpose(1, 2)) / (HEAD_DIM as f64).sqrt();
                let later = Tensor::ones([length, length], (Kind::Bool, Device::Cpu)).triu(1);
                let weights = scores
                    .masked_fill(&later, f64::NEG_INFINITY)
                    .softmax(-1, Kind::Float);
                weights
                    .matmul(&part(&v, 2))
                    .transpose(0, 1)
                    .reshape([length, 4 * HEAD_DIM])
            })
            .collect();
        let middle = x + apply(3, &layer.o, &Tensor::cat(&rows, 0));
        let normed = norm(&layer.post_norm, &middle);
        let activated = apply(4, &layer.gate, &normed).silu() * apply(5, &layer.up, &normed);
        middle + apply(6, &layer.down, &activated)
    }

    #[test]
    fn output_and_every_gradient_equal_autograd() {
        tch::manual_seed(7);
        let layer = layer();
        let rows: Vec<Row> = [5, 3, 5, 1]
            .map(|length| Row {
                input_ids: (0..length).collect(),
                supervised: vec![false; length as usize],
            })
            .into();
        let inverse = frequencies(&[1.0, 0.3, 0.1], Device::Cpu);
        let batch = Packed::new(&rows.iter().collect::<Vec<_>>(), &inverse, Kind::Float);
        let x = random(&[14, HIDDEN]);
        let dy = random(&[14, HIDDEN]);

        let leaf = |x: &Tensor| x.detach().set_requires_grad(true);
        let x_leaf = leaf(&x);
        let loras: Vec<(Tensor, Tensor)> = linears(&layer)
            .map(|linear| {
                linear
                    .lora
                    .as_ref()
                    .map(|lora| (leaf(&lora.a), leaf(&lora.b)))
                    .unwrap()
            })
            .into();
        let expected_y = reference(&layer, &loras, &x_leaf, &batch);
        let mut wanted = vec![&x_leaf];
        wanted.extend(loras.iter().flat_map(|(a, b)| [a, b]));
        let expected = Tensor::run_backward(&[(&expected_y * &dy).sum(Kind::Float)], &wanted, false, false);

        let (y, dx) = tch::no_grad(|| {
            let (y, tape) = layer.forward(&x, &batch);
            let dx = layer.backward(&tape, &dy, &batch, true).unwrap();
            (y, dx)
        });
        let mut got = vec![dx];
        for linear in linears(&layer) {
            let (a, b) = linear.lora.as_ref().unwrap().gradients.as_ref().unwrap();
            got.extend([a.shallow_clone(), b.shallow_clone()]);
        }
        let close = |got: &Tensor, expected: &Tensor| {
            let error =
                (got - expected).abs().max().double_value(&[]) / expected.abs().max().double_value(&[]);
            assert!(error < 2e-5, "{error}");
        };
        close(&y, &expected_y);
        for (got, expected) in got.iter().zip(&expected) {
            close(got, expected);
        }
    }
}
