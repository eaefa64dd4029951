//! What a calibration's numbers mean: whether the device throttles, which setting and which back end won, which values
//! are wrong, how much memory lies outside the allocator, and whether the whole of it can be believed.

mod sustained;
#[cfg(test)]
mod tests;
mod values;
mod winners;

use tunesmith_protocol::{
    AllocatorOverhead, AttentionMeasurement, Calibration, DType, Layout, LinearMeasurement,
};

use crate::Tflops;

pub use sustained::{SUSTAINED_SECS, Steadiness, Sustainment, THROTTLED_DROP, sustainment};
pub use values::{Validity, WrongValue, unusable, validity, wrong_values};
pub use winners::{TELLING_GAIN, Winner, winners};

/// Memory that is in use and that the allocator does not know of, in bytes: driver, libraries, code of kernels, and
/// on a card whatever the parent could not tell to be others'. `None` where the counters contradict each other.
pub fn outside_allocator_bytes(overhead: &AllocatorOverhead) -> Option<u64> {
    overhead
        .used_bytes
        .checked_sub(overhead.allocator_bytes)?
        .checked_sub(overhead.others_bytes.unwrap_or(0))
}

/// The back end that torch takes by itself in a format.
pub fn dispatched(attention: &[AttentionMeasurement], dtype: DType) -> Option<&AttentionMeasurement> {
    attention.iter().find(|of| of.dtype == dtype && of.dispatched)
}

/// Time of a forward and a backward pass, in seconds, of a back end whose values are right.
pub fn attention_secs(of: &AttentionMeasurement) -> Option<f64> {
    let right = of.values.is_some_and(|values| values.passed);
    let secs = of.forward_secs? + of.backward_secs?;
    (right && secs.is_finite() && secs > 0.0).then_some(secs)
}

/// The fastest back end in a format, of those whose values are right.
pub fn fastest_attention(attention: &[AttentionMeasurement], dtype: DType) -> Option<&AttentionMeasurement> {
    attention
        .iter()
        .filter(|of| of.dtype == dtype)
        .filter_map(|of| Some((of, attention_secs(of)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(of, _)| of)
}

/// Speed of a model's own layers as a LoRA training multiplies them, forward and for the input's gradient: all their
/// operations over all their time (numbers 3.2: a frozen weight needs no gradient).
pub fn own_layers(calibration: &Calibration, dtype: DType) -> Option<Tflops> {
    products_speed(&calibration.linears, dtype)
}

/// As [`own_layers`], of products that were measured by themselves.
pub fn products_speed(linears: &[LinearMeasurement], dtype: DType) -> Option<Tflops> {
    let (mut operations, mut secs) = (0.0, 0.0);
    let needed = linears
        .iter()
        .filter(|linear| linear.dtype == dtype && linear.layout != Layout::Tn && linear.median_tflops > 0.0);
    for linear in needed {
        let of_one = 2.0 * linear.m as f64 * linear.n as f64 * linear.k as f64;
        operations += of_one;
        secs += of_one / (linear.median_tflops * 1e12);
    }
    Tflops::from_operations(operations, secs)
}
