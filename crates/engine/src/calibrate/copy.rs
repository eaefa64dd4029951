//! How fast numbers come and go within the device's memory (X10).

use tch::{Device, Kind, Tensor};
use tunesmith_protocol::CopyBandwidth;

use super::pace::Pace;
use super::timer::{self, Times};
use crate::error::JobError;

/// Copies that are timed.
const ITERATIONS: usize = 10;

/// Copies a tensor far larger than any cache.
pub(super) fn measure(device: Device, pace: &mut Pace) -> Result<CopyBandwidth, JobError> {
    let bytes: i64 = if device == Device::Cpu { 256 << 20 } else { 1 << 30 };
    let source = Tensor::ones([bytes / 4], (Kind::Float, device));
    let mut target = source.zeros_like();
    target.copy_(&source);
    let mut secs = Vec::with_capacity(ITERATIONS);
    while secs.len() < ITERATIONS {
        pace.check()?;
        if !secs.is_empty() && pace.cuts() {
            break;
        }
        secs.push(timer::secs(device, || target.copy_(&source)));
    }
    let times = Times::new(secs);
    let gib_per_sec = |secs: f64| 2.0 * bytes as f64 / secs.max(1e-12) / f64::from(1u32 << 30);
    Ok(CopyBandwidth {
        bytes: bytes as u64,
        iterations: times.count() as u32,
        best_gib_per_sec: gib_per_sec(times.best()),
        median_gib_per_sec: gib_per_sec(times.median()),
    })
}
