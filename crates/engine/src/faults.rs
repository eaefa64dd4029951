//! Faults of a trainer, put in on purpose so that tests see them caught (X14). Compiled by the feature `inject-faults`
//! alone and chosen by the variable `TUNESMITH_INJECT_FAULT`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tch::Tensor;
use tunesmith_protocol::Step;

use crate::adapter::{Adapter, QKV};
use crate::batch::Packed;
use crate::model::Decoder;

#[cfg(not(debug_assertions))]
compile_error!("inject-faults is for tests; a release never has it");

fn chosen(fault: &str) -> bool {
    std::env::var("TUNESMITH_INJECT_FAULT").is_ok_and(|chosen| chosen == fault)
}

/// Each micro-batch is scaled by its own tokens and then added: a gradient as many times too big as there are passes.
pub(crate) fn scale(scale: f64, batch: &Packed) -> f64 {
    if chosen("gradient_scale") {
        1.0 / batch.supervised.max(1) as f64
    } else {
        scale
    }
}

/// The loss of a step, from 1.
pub(crate) fn loss(step: u64, loss: f64) -> f64 {
    match step {
        11 if chosen("nan") => f64::NAN,
        _ if chosen("loss_scale") => 2.0 * loss,
        12.. if chosen("diverge") => loss + 20.0,
        _ => loss,
    }
}

/// Gradients and weights of a step, from 1, between its passes and its optimizer.
pub(crate) fn spoil(step: u64, adapter: &Adapter, decoder: &Decoder) {
    if chosen("dead_adapter") {
        for adapter in adapter
            .group(0, &QKV)
            .into_iter()
            .flat_map(|group| group.adapters)
        {
            let _ = adapter.grad_b.map(|mut gradient| gradient.zero_());
        }
    }
    if (chosen("frozen") && step >= 4)
        && let Some(gradients) = &adapter.gradients
    {
        let _ = gradients.shallow_clone().zero_();
    }
    if chosen("nf4_nan") && step == 3 {
        UNPACKS_NO_NUMBERS.store(true, Ordering::Relaxed);
    }
    if chosen("base_changed") && step == 2 {
        let _ = decoder.final_norm.weight.narrow(0, 0, 1).g_add_scalar_(0.001);
    }
}

/// A kernel for 4 bits that was right at first.
static UNPACKS_NO_NUMBERS: AtomicBool = AtomicBool::new(false);

/// Weights that were unpacked from 4 bits.
pub(crate) fn unpacked(weights: &Tensor) {
    if UNPACKS_NO_NUMBERS.load(Ordering::Relaxed) {
        let _ = weights.shallow_clone().fill_(f64::NAN);
    }
}

/// What a step says of itself.
pub(crate) fn report(step: &mut Step) {
    static SUM: AtomicU64 = AtomicU64::new(0);
    let late = step.step.saturating_sub(20) as i32;
    if chosen("token_sum") {
        step.real_tokens += SUM.fetch_add(step.real_tokens, Ordering::Relaxed);
        step.padded_tokens = step.real_tokens;
    }
    // Real time would take minutes to drift, so the numbers drift.
    if chosen("slow_steps") || chosen("drift") {
        step.dt_secs = 0.1 * 1.05_f64.powi(late);
    }
    if chosen("drift") {
        let grown = |bytes: u64| (bytes as f64 * (1.0 + 0.03 * f64::from(late))) as u64;
        step.peak_bytes = step.peak_bytes.map(grown);
    }
}
