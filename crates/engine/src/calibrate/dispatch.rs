//! Which back end torch's attention takes, and the proof of it (C4). A card that silently takes the plain path trains
//! many times slower and says nothing.

use tch::Tensor;
use tunesmith_protocol::AttentionBackend;

#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
mod shim {
    use std::ffi::{c_char, c_void};

    unsafe extern "C" {
        pub(super) fn tunesmith_attention_allow(backends: i32) -> i32;
        pub(super) fn tunesmith_backward_name(tensor: *const c_void, name: *mut c_char, size: i64) -> i64;
    }
}

/// Room for the name of a step of the backward pass.
const LONGEST_NAME: usize = 256;

/// Bits of all back ends.
const ALL: i32 = 0b1111;

/// While it lives, torch may take one back end of attention and no other.
pub(super) struct Only(());

impl Only {
    /// Allows `backend` alone. Nothing is allowed for one that has no name.
    pub(super) fn this(backend: AttentionBackend) -> Self {
        allow(bit(backend));
        Self(())
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        allow(ALL);
    }
}

/// At the place that torch's own numbering gives it.
fn bit(backend: AttentionBackend) -> i32 {
    match backend {
        AttentionBackend::Math => 1,
        AttentionBackend::Flash => 2,
        AttentionBackend::Efficient => 4,
        AttentionBackend::Cudnn => 8,
        AttentionBackend::Other => 0,
    }
}

fn backend(number: i64) -> Option<AttentionBackend> {
    match number {
        0 => Some(AttentionBackend::Math),
        1 => Some(AttentionBackend::Flash),
        2 => Some(AttentionBackend::Efficient),
        3 => Some(AttentionBackend::Cudnn),
        4 => Some(AttentionBackend::Other),
        _ => None,
    }
}

#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
fn allow(backends: i32) {
    // SAFETY: a function of our own shim that sets four flags and catches every exception.
    unsafe { shim::tunesmith_attention_allow(backends) };
}

/// The back end that a causal call on these would take; `None` where none that is allowed fits. Why not stands in torch's
/// own warnings, which the engine's log keeps.
pub(super) fn choice(q: &Tensor, k: &Tensor, v: &Tensor, grouped: bool) -> Option<AttentionBackend> {
    let chosen = Tensor::f_internal_fused_sdp_choice(q, k, v, None::<&Tensor>, 0.0, true, None, grouped);
    chosen.ok().and_then(backend)
}

/// What torch calls the step that made a tensor, e.g. `ScaledDotProductFlashAttentionBackward0`: it is left by the kernel
/// that ran and by no other.
#[cfg(not(feature = "no-libtorch"))]
#[allow(unsafe_code)]
pub(super) fn backward_name(tensor: &Tensor) -> Option<String> {
    let mut name = [0_u8; LONGEST_NAME];
    let room = i64::try_from(name.len()).ok()?;
    // SAFETY: the tensor lives until the call is over, and at most `room` bytes are written.
    let length =
        unsafe { shim::tunesmith_backward_name(tensor.as_ptr().cast(), name.as_mut_ptr().cast(), room) };
    let name = name.get(..usize::try_from(length).ok()?)?;
    Some(String::from_utf8_lossy(name).into_owned())
}

#[cfg(feature = "no-libtorch")]
fn allow(backends: i32) {
    let _ = backends;
}

#[cfg(feature = "no-libtorch")]
pub(super) fn backward_name(tensor: &Tensor) -> Option<String> {
    (tensor.numel() > LONGEST_NAME).then(String::new)
}
