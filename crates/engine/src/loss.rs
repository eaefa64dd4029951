//! Cross-entropy over supervised positions only, in chunks, with its gradient computed at once.
//!
//! The logits of a chunk live only while the chunk is worked on, so memory is chunk × vocabulary and not
//! tokens × vocabulary (numbers.md 2.3).

use tch::{Kind, Tensor};

/// Positions per chunk. Large enough for an efficient product, small enough that logits stay below 0.2 GB at a
/// vocabulary of 152,000.
const CHUNK: i64 = 256;

/// hidden `[n, hidden]`, head `[vocabulary, hidden]`, targets i64 `[n]` →
/// the sum of −log p(target), and `scale` times its gradient by hidden, `[n, hidden]`.
pub(crate) fn cross_entropy(hidden: &Tensor, head: &Tensor, targets: &Tensor, scale: f64) -> (f64, Tensor) {
    let count = hidden.size()[0];
    let mut sum = 0.0;
    let mut gradients = Vec::new();
    for start in (0..count).step_by(CHUNK as usize) {
        let length = CHUNK.min(count - start);
        let rows = hidden.narrow(0, start, length);
        let target = targets.narrow(0, start, length).unsqueeze(1);
        let logits = rows.matmul(&head.tr());
        let mut log_p = logits.log_softmax(-1, Kind::Float);
        drop(logits);
        sum -= log_p
            .gather(1, &target, false)
            .sum(Kind::Double)
            .double_value(&[]);
        // p − onehot(target), in place. Scaled after the product, where there is less to scale and nothing small is lost.
        let mut p = log_p.exp_();
        let minus_one = Tensor::full_like(&target, -1.0).to_kind(Kind::Float);
        let _ = p.scatter_add_(1, &target, &minus_one);
        gradients.push(p.to_kind(hidden.kind()).matmul(head).g_mul_scalar_(scale));
    }
    let gradient = if gradients.is_empty() {
        hidden.zeros_like()
    } else {
        Tensor::cat(&gradients, 0)
    };
    (sum, gradient)
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;
    use tch::Device;

    #[test]
    fn loss_and_gradient_equal_autograd_over_several_chunks() {
        tch::manual_seed(1);
        let options = (Kind::Float, Device::Cpu);
        let count = 2 * CHUNK + 3;
        let hidden = Tensor::randn([count, 8], options).set_requires_grad(true);
        let head = Tensor::randn([11, 8], options);
        let targets = Tensor::randint(11, [count], (Kind::Int64, Device::Cpu));
        let reference = hidden.matmul(&head.tr()).cross_entropy_loss::<Tensor>(
            &targets,
            None,
            tch::Reduction::Sum,
            -100,
            0.0,
        );
        let expected = Tensor::run_backward(&[&reference * 0.25], &[&hidden], false, false);
        let (sum, gradient) = tch::no_grad(|| cross_entropy(&hidden.detach(), &head, &targets, 0.25));
        assert!((sum - reference.double_value(&[])).abs() < 1e-3 * sum);
        assert!((gradient - &expected[0]).abs().max().double_value(&[]) < 1e-6);
    }
}
