//! Causal attention over rows of one length, forward and backward: by the kernel that suits the device, or written out.

use tch::{Kind, Tensor};

/// Attention over one group of rows, `[rows, heads, length, head_dim]` each.
pub(crate) struct AttentionTape {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// As q.
    pub(crate) output: Tensor,
    kept: Kept,
}

/// What the way back needs besides.
enum Kept {
    /// Of the processor's kernel, whose backward pass is called by name.
    LogSumExp(Tensor),
    /// `output` has a small autograd graph: torch chooses the kernel that suits the GPU.
    Graph,
    /// Attention written out: the probabilities, `[rows, kv_heads, group × length, length]`, where a group is the query heads
    /// that share a key head.
    Probabilities(Tensor),
}

/// Lets a measurement have a processor's attention with a graph.
#[cfg(test)]
pub(crate) static GRAPH_ATTENTION: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

impl AttentionTape {
    /// Causal attention of q `[rows, heads, length, head_dim]` to k and v `[rows, kv_heads, length, head_dim]`.
    pub(crate) fn new([q, k, v]: [Tensor; 3]) -> Self {
        #[cfg(test)]
        if GRAPH_ATTENTION.load(std::sync::atomic::Ordering::Relaxed) {
            return Self::with_autograd(&q, &k, &v);
        }
        if q.device().is_cuda() {
            Self::with_autograd(&q, &k, &v)
        } else {
            Self::on_processor(q, k, v)
        }
    }

    /// The processor's kernel, called by name together with its backward pass: no graph, and keys and values of grouped
    /// heads are not repeated.
    fn on_processor(q: Tensor, k: Tensor, v: Tensor) -> Self {
        let (output, logsumexp) = Tensor::internal_scaled_dot_product_flash_attention_for_cpu(
            &q,
            &k,
            &v,
            0.0,
            true,
            None::<&Tensor>,
            None,
        );
        Self {
            q,
            k,
            v,
            output,
            kept: Kept::LogSumExp(logsumexp),
        }
    }

    fn with_autograd(q: &Tensor, k: &Tensor, v: &Tensor) -> Self {
        let [q, k, v] = [q, k, v].map(|x| x.detach().set_requires_grad(true));
        let output = tch::with_grad(|| causal_attention(&q, &k, &v));
        Self {
            q,
            k,
            v,
            output,
            kept: Kept::Graph,
        }
    }

    /// Attention as textbooks have it: scores of all pairs of tokens, mask, softmax in f32, product. The probabilities are
    /// kept, so memory grows with the square of the length; it is here to be compared with.
    pub(crate) fn eager([q, k, v]: [Tensor; 3]) -> Self {
        let size = q.size();
        let length = size[2];
        let scores = by_key_head(&q, &k)
            .matmul(&k.transpose(-2, -1))
            .g_mul_scalar_(scale(&q));
        let later = Tensor::ones([length, length], (Kind::Bool, q.device())).triu(1);
        let shape = scores.size();
        // Each query head has a square of its own.
        let _ = scores
            .view([-1, length, length])
            .masked_fill_(&later, f64::NEG_INFINITY);
        let probabilities = scores
            .softmax(-1, Kind::Float)
            .to_kind(q.kind())
            .view(shape.as_slice());
        // Tokens first, as the kernel lays it out: the layer then puts heads side by side without a copy of its own.
        let output = probabilities
            .matmul(&v)
            .view(size.as_slice())
            .transpose(1, 2)
            .contiguous()
            .transpose(1, 2);
        Self {
            q,
            k,
            v,
            output,
            kept: Kept::Probabilities(probabilities),
        }
    }

    /// Gradients of q, k and v, shaped as they are.
    pub(crate) fn backward(&self, d_output: &Tensor) -> [Tensor; 3] {
        match &self.kept {
            Kept::LogSumExp(logsumexp) => {
                let (dq, dk, dv) = Tensor::internal_scaled_dot_product_flash_attention_for_cpu_backward(
                    d_output,
                    &self.q,
                    &self.k,
                    &self.v,
                    &self.output,
                    logsumexp,
                    0.0,
                    true,
                    None::<&Tensor>,
                    None,
                );
                [dq, dk, dv]
            }
            Kept::Graph => {
                // run_backward seeds with ones, so the vector–Jacobian product is the gradient of Σ output·d_output.
                let product = tch::with_grad(|| &self.output * d_output);
                let mut gradients =
                    Tensor::run_backward(&[product], &[&self.q, &self.k, &self.v], false, false).into_iter();
                [(); 3].map(|()| gradients.next().unwrap_or_default())
            }
            Kept::Probabilities(probabilities) => self.eager_backward(probabilities, d_output),
        }
    }

    /// dv = pᵀ·do, ds = p·(dp − Σ dp·p) with dp = do·vᵀ, dq = ds·k ÷ √d, dk = dsᵀ·q ÷ √d. The products sum over the
    /// query heads of a key head by themselves.
    fn eager_backward(&self, probabilities: &Tensor, d_output: &Tensor) -> [Tensor; 3] {
        let d_output = by_key_head(d_output, &self.k);
        let dv = probabilities.transpose(-2, -1).matmul(&d_output);
        let d_probabilities = d_output.matmul(&self.v.transpose(-2, -1)).to_kind(Kind::Float);
        let d_scores = Tensor::internal_softmax_backward_data(
            &d_probabilities,
            &probabilities.to_kind(Kind::Float),
            -1,
            Kind::Float,
        )
        .g_mul_scalar_(scale(&self.q))
        .to_kind(self.q.kind());
        let dq = d_scores.matmul(&self.k).view(self.q.size().as_slice());
        let dk = d_scores.transpose(-2, -1).matmul(&by_key_head(&self.q, &self.k));
        [dq, dk, dv]
    }
}

/// x `[rows, heads, length, head_dim]` → `[rows, kv_heads, group × length, head_dim]`: query heads that share a key head
/// become rows of one product.
fn by_key_head(x: &Tensor, k: &Tensor) -> Tensor {
    let (size, kv_heads) = (x.size(), k.size()[1]);
    x.reshape([size[0], kv_heads, size[1] / kv_heads * size[2], size[3]])
}

/// 1 ÷ √head_dim.
fn scale(q: &Tensor) -> f64 {
    let head_dim = q.size()[3];
    1.0 / (head_dim as f64).sqrt()
}

/// q `[rows, heads, length, head_dim]`, k and v `[rows, kv_heads, length, head_dim]` → as q.
pub(crate) fn causal_attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
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
    use tch::Device;

    fn assert_close(got: &Tensor, expected: &Tensor) {
        let error = (got - expected).abs().max().double_value(&[]) / expected.abs().max().double_value(&[]);
        assert!(error < 2e-5, "{error}");
    }

    #[test]
    fn attention_called_by_name_and_written_out_equal_attention_with_a_graph() {
        tch::manual_seed(8);
        // Heads and tokens lie as a layer has them: tokens first.
        let shaped = |heads| Tensor::randn([2, 5, heads, 6], (Kind::Float, Device::Cpu)).transpose(1, 2);
        let (q, k, v, d_output) = (shaped(4), shaped(2), shaped(2), shaped(4));
        let graph = AttentionTape::with_autograd(&q, &k, &v);
        let expected = graph.backward(&d_output);
        let rows = || [&q, &k, &v].map(Tensor::shallow_clone);
        let [named, eager] = tch::no_grad(|| {
            let [q, k, v] = rows();
            [AttentionTape::on_processor(q, k, v), AttentionTape::eager(rows())]
        });
        for tape in [named, eager] {
            assert_close(&tape.output, &graph.output);
            for (got, expected) in tape.backward(&d_output).iter().zip(&expected) {
                assert_close(got, expected);
            }
        }
    }
}
