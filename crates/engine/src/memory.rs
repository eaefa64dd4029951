//! What the device's allocator holds and held at most, which tch does not expose, and what it does not know of.

use tch::Device;

#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
mod shim {
    unsafe extern "C" {
        pub(super) fn tunesmith_count_cpu_memory() -> i32;
        pub(super) fn tunesmith_peak_bytes(gpu: i32) -> i64;
        pub(super) fn tunesmith_reset_peak(gpu: i32);
        pub(super) fn tunesmith_held_bytes(gpu: i32, reserved: i32) -> i64;
        pub(super) fn tunesmith_used_bytes(gpu: i32) -> i64;
    }
}

fn gpu_index(device: Device) -> i32 {
    match device {
        Device::Cuda(index) => index as i32,
        _ => -1,
    }
}

/// Starts counting on the CPU; call before the first tensor. The engine works without, so a failure is not an error.
#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
pub(crate) fn start_counting() {
    // SAFETY: a function of our own shim that takes nothing and catches every exception.
    unsafe { shim::tunesmith_count_cpu_memory() };
}

/// Most bytes held since the last [`reset_peak`]; `None` where the allocator does not tell.
#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
pub(crate) fn peak_bytes(device: Device) -> Option<u64> {
    // SAFETY: as above; any index is allowed.
    u64::try_from(unsafe { shim::tunesmith_peak_bytes(gpu_index(device)) }).ok()
}

/// Forgets the allocator's peak: it is then what is held now.
#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
pub(crate) fn reset_peak(device: Device) {
    // SAFETY: as above.
    unsafe { shim::tunesmith_reset_peak(gpu_index(device)) }
}

/// Bytes that tensors hold now; `None` where the allocator does not tell.
#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
pub(crate) fn held_bytes(device: Device) -> Option<u64> {
    // SAFETY: as above.
    u64::try_from(unsafe { shim::tunesmith_held_bytes(gpu_index(device), 0) }).ok()
}

/// Bytes of a GPU's memory that the allocator keeps, whether tensors hold them or not; on a processor as
/// [`held_bytes`], since nothing is kept there.
#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
pub(crate) fn reserved_bytes(device: Device) -> Option<u64> {
    // SAFETY: as above.
    u64::try_from(unsafe { shim::tunesmith_held_bytes(gpu_index(device), 1) }).ok()
}

/// Bytes of a GPU's memory that anybody uses, by its driver's account; `None` on a processor.
#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
pub(crate) fn used_bytes(device: Device) -> Option<u64> {
    // SAFETY: as above.
    u64::try_from(unsafe { shim::tunesmith_used_bytes(gpu_index(device)) }).ok()
}

#[cfg(feature = "no-libtorch")]
pub(crate) fn held_bytes(device: Device) -> Option<u64> {
    peak_bytes(device)
}

#[cfg(feature = "no-libtorch")]
pub(crate) fn reserved_bytes(device: Device) -> Option<u64> {
    peak_bytes(device)
}

#[cfg(feature = "no-libtorch")]
pub(crate) fn used_bytes(device: Device) -> Option<u64> {
    peak_bytes(device)
}

#[cfg(feature = "no-libtorch")]
pub(crate) fn start_counting() {}

#[cfg(feature = "no-libtorch")]
pub(crate) fn peak_bytes(device: Device) -> Option<u64> {
    u64::try_from(gpu_index(device)).ok()
}

#[cfg(feature = "no-libtorch")]
pub(crate) fn reset_peak(device: Device) {
    gpu_index(device);
}

/// Forgets the process's peak. Linux resets VmHWM on this number; where it does not, the peak includes loading.
pub(crate) fn reset_process_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Most memory that this process has held since [`reset_process_peak`], in bytes (Linux: VmHWM).
pub(crate) fn peak_process_bytes() -> Option<u64> {
    of_this_process("VmHWM:")
}

/// Memory that this process holds now, in bytes (Linux: VmRSS).
pub(crate) fn process_bytes() -> Option<u64> {
    of_this_process("VmRSS:")
}

fn of_this_process(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;
    use tch::{Kind, Tensor};

    #[test]
    fn memory_is_counted_and_every_kind_of_product_works_on_counted_memory() {
        start_counting();
        let side = 256;
        let a = Tensor::ones([side, side], (Kind::Float, Device::Cpu));
        reset_peak(Device::Cpu);
        let before = peak_bytes(Device::Cpu).unwrap();
        for kind in [Kind::Float, Kind::BFloat16, Kind::Half, Kind::Double] {
            let product = a.to_kind(kind).matmul(&a.to_kind(kind));
            assert!(
                (product.double_value(&[0, 0]) - side as f64).abs() < 1.0,
                "{kind:?}"
            );
        }
        let peak = peak_bytes(Device::Cpu).unwrap() - before;
        let double = (side * side * 8) as u64;
        assert!(
            peak >= 3 * double,
            "two factors and a product of {double} bytes, and a peak of {peak}"
        );
        let held = held_bytes(Device::Cpu).unwrap();
        let kept = Tensor::ones([side, side], (Kind::Double, Device::Cpu));
        assert!(
            held_bytes(Device::Cpu).unwrap() >= held + double,
            "{:?}",
            kept.size()
        );
        assert_eq!(used_bytes(Device::Cpu), None);
        let empty = Tensor::zeros([0], (Kind::Float, Device::Cpu));
        assert_eq!(empty.sum(Kind::Float).double_value(&[]), 0.0);
    }
}
