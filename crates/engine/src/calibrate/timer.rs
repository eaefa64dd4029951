//! How long an operation takes on a device. A GPU is asked itself where it can be: on the host's clock a short kernel
//! is mostly the way there and back.

use std::time::Instant;

use tch::Device;

#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
mod shim {
    unsafe extern "C" {
        pub(super) fn tunesmith_timer_start(gpu: i32) -> i32;
        pub(super) fn tunesmith_timer_stop(gpu: i32) -> f64;
    }
}

/// Waits until the device has done all that it was asked for.
pub(super) fn synchronize(device: Device) {
    if let Device::Cuda(index) = device {
        tch::Cuda::synchronize(index as i64);
    }
}

/// Seconds that `operation` takes on the device.
pub(super) fn secs(device: Device, operation: impl FnOnce()) -> f64 {
    synchronize(device);
    let started = Instant::now();
    let Device::Cuda(index) = device else {
        operation();
        return started.elapsed().as_secs_f64();
    };
    let index = index as i32;
    let asked = start(index);
    operation();
    let on_device = if asked { stop(index) } else { None };
    synchronize(device);
    on_device.unwrap_or_else(|| started.elapsed().as_secs_f64())
}

#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
fn start(gpu: i32) -> bool {
    // SAFETY: a function of our own shim that catches every exception; any index is allowed.
    unsafe { shim::tunesmith_timer_start(gpu) == 0 }
}

#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
fn stop(gpu: i32) -> Option<f64> {
    // SAFETY: as above.
    let secs = unsafe { shim::tunesmith_timer_stop(gpu) };
    (secs > 0.0).then_some(secs)
}

#[cfg(feature = "no-libtorch")]
fn start(gpu: i32) -> bool {
    gpu < 0
}

#[cfg(feature = "no-libtorch")]
fn stop(gpu: i32) -> Option<f64> {
    (gpu < 0).then_some(0.0)
}

/// Times of the same operation again and again, in seconds.
pub(super) struct Times(Vec<f64>);

impl Times {
    /// From single times.
    pub(super) fn new(mut secs: Vec<f64>) -> Self {
        secs.sort_by(f64::total_cmp);
        Self(secs)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The shortest; infinite where there is none.
    pub(super) fn best(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::INFINITY)
    }

    /// The one in the middle; infinite where there is none.
    pub(super) fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::INFINITY)
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }
}

/// Operations over seconds, in TFLOPS.
pub(super) fn tflops(operations: f64, secs: f64) -> f64 {
    operations / secs.max(1e-12) / 1e12
}
