//! AdamW on flat tensors, the learning-rate schedule, and clipping.

use tch::{Kind, Tensor};
use tunesmith_protocol::{Optimizer, Schedule};

/// Learning rate of a step, counted from 0, of `steps`: linear warm-up from zero, then the schedule.
/// The convention is transformers': the first warm-up step has rate zero.
pub(crate) fn learning_rate(optimizer: &Optimizer, step: u64, steps: u64) -> f64 {
    let warmup = optimizer.warmup_steps;
    let factor = if step < warmup {
        step as f64 / warmup.max(1) as f64
    } else {
        let done = (step - warmup) as f64 / steps.saturating_sub(warmup).max(1) as f64;
        match optimizer.schedule {
            Schedule::Constant => 1.0,
            Schedule::Linear => (1.0 - done).max(0.0),
            Schedule::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        }
    };
    optimizer.learning_rate * factor
}

/// AdamW with decoupled weight decay, as torch.optim.AdamW.
pub(crate) struct AdamW {
    first: Tensor,
    second: Tensor,
    steps: i32,
}

impl AdamW {
    /// Both moments start at zero, f32, shaped as `weights`.
    pub(crate) fn new(weights: &Tensor) -> Self {
        Self {
            first: weights.zeros_like(),
            second: weights.zeros_like(),
            steps: 0,
        }
    }

    /// Goes on after `steps` steps with the moments that they left.
    pub(crate) fn resumed(first: Tensor, second: Tensor, steps: u64) -> Self {
        Self {
            first,
            second,
            steps: steps as i32,
        }
    }

    /// First and second moments, f32 `[parameters]`.
    pub(crate) fn moments(&self) -> (&Tensor, &Tensor) {
        (&self.first, &self.second)
    }

    /// Changes `weights` in place; `gradients` are those after clipping.
    pub(crate) fn step(&mut self, weights: &mut Tensor, gradients: &Tensor, lr: f64, settings: &Optimizer) {
        let (beta1, beta2) = (settings.beta1, settings.beta2);
        self.steps += 1;
        let _ = self.first.lerp_(gradients, 1.0 - beta1);
        let _ = self
            .second
            .g_mul_scalar_(beta2)
            .g_add_(&gradients.square().g_mul_scalar_(1.0 - beta2));
        let correction1 = 1.0 - beta1.powi(self.steps);
        let correction2 = 1.0 - beta2.powi(self.steps);
        let denominator = self
            .second
            .sqrt()
            .g_div_scalar_(correction2.sqrt())
            .g_add_scalar_(settings.eps);
        let _ = weights
            .g_mul_scalar_(1.0 - lr * settings.weight_decay)
            .addcdiv_(&(&self.first * (-lr / correction1)), &denominator);
    }
}

/// Scales gradients down to `max_norm` in place, as torch's clip_grad_norm_; gives the norm before.
pub(crate) fn clip(gradients: &mut Tensor, max_norm: f64) -> f64 {
    // Summed in f64: in f32 the sum over millions of squares is off by a few in ten thousand.
    let norm = gradients
        .linalg_norm(2.0, None::<&[i64]>, false, Kind::Double)
        .double_value(&[]);
    if max_norm > 0.0 && norm.is_finite() {
        let factor = max_norm / (norm + 1e-6);
        if factor < 1.0 {
            let _ = gradients.g_mul_scalar_(factor);
        }
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(schedule: Schedule) -> Optimizer {
        Optimizer {
            learning_rate: 2.0,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            warmup_steps: 2,
            schedule,
            max_grad_norm: 1.0,
        }
    }

    #[test]
    fn the_schedule_is_that_of_transformers() {
        let rates = |schedule| {
            (0..6)
                .map(|step| learning_rate(&settings(schedule), step, 6))
                .collect::<Vec<_>>()
        };
        assert_eq!(rates(Schedule::Constant), [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(rates(Schedule::Linear), [0.0, 1.0, 2.0, 1.5, 1.0, 0.5]);
        let cosine = rates(Schedule::Cosine);
        assert!((cosine[3] - (1.0 + (std::f64::consts::PI / 4.0).cos())).abs() < 1e-12);
        assert!((cosine[4] - 1.0).abs() < 1e-12);
    }

    #[cfg(not(feature = "no-libtorch"))]
    #[test]
    fn one_step_moves_against_the_gradient_by_the_learning_rate() {
        let mut weights = Tensor::from_slice(&[1.0f32, -1.0]);
        let gradients = Tensor::from_slice(&[0.3f32, -20.0]);
        AdamW::new(&weights).step(&mut weights, &gradients, 0.1, &settings(Schedule::Constant));
        let values = Vec::<f32>::try_from(&weights).unwrap();
        // At the first step the corrected moments are g and g², whatever the size of g.
        assert!(
            (values[0] - 0.9).abs() < 1e-5 && (values[1] + 0.9).abs() < 1e-5,
            "{values:?}"
        );
    }

    #[cfg(not(feature = "no-libtorch"))]
    #[test]
    fn clipping_keeps_the_direction_and_tells_the_norm_before() {
        let mut gradients = Tensor::from_slice(&[3.0f32, 4.0]);
        assert!((clip(&mut gradients, 1.0) - 5.0).abs() < 1e-6);
        let values = Vec::<f32>::try_from(&gradients).unwrap();
        assert!((values[0] - 0.6).abs() < 1e-5 && (values[1] - 0.8).abs() < 1e-5);
        assert!(
            (clip(&mut gradients, 0.0) - 1.0).abs() < 1e-5,
            "0 turns clipping off"
        );
    }
}
