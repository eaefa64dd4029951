//! Memory that is in use and that the allocator does not know of (X10): a prediction that counts tensors alone is too
//! low by it. Measured late, when libraries are loaded and their kernels have run.

use tch::{Device, Kind, Tensor};
use tunesmith_protocol::{AllocatorOverhead, OverheadSource};

use super::timer::synchronize;
use crate::memory;

/// Memory that is held meanwhile, so that it is counted as a training's is.
const HELD_BYTES: i64 = 256 << 20;

/// `None` where the system or the driver does not tell.
pub(super) fn measure(device: Device) -> Option<AllocatorOverhead> {
    // Ones, since memory that is not written is not counted.
    let held = Tensor::ones([HELD_BYTES / 4], (Kind::Float, device));
    synchronize(device);
    let (source, used) = if device == Device::Cpu {
        (OverheadSource::Process, memory::process_bytes())
    } else {
        (OverheadSource::Device, memory::used_bytes(device))
    };
    let overhead = AllocatorOverhead {
        source,
        used_bytes: used?,
        allocator_bytes: memory::reserved_bytes(device)?,
        others_bytes: None,
    };
    drop(held);
    Some(overhead)
}
