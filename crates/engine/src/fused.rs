//! RMSNorm, SwiGLU and the unpacking of 4-bit weights on a processor, each in one pass over its values. torch has an
//! operation for every factor and sum in them, and each reads and writes the whole tensor: norm and SwiGLU together took
//! as long as a tenth of all products.
//!
//! For contiguous f32 tensors in main memory; everything else takes torch's operations. Rows are divided among as many
//! threads as torch uses. A row's result depends on that row alone, so neither the division nor what stands beside it
//! changes a bit.

// What is not inlined into the loop over rows is not compiled for this processor's vectors.
#![allow(clippy::inline_always)]

use std::thread;

use tch::{Device, Kind, Tensor};

use crate::nf4::codec::{BLOCK, LEVELS};

/// Values from which on a second thread is worth its start.
const VALUES_PER_THREAD: usize = 1 << 15;
/// Partial sums of a row: as many as the widest vectors hold, so that the order of summing is the same everywhere.
const LANES: usize = 16;

/// Lets a measurement have torch's own operations.
#[cfg(test)]
pub(crate) static TORCHS_OPERATIONS: std::sync::atomic::AtomicBool =
    std::sync::atomic::AtomicBool::new(false);

/// Whether these tensors are ones that this module reads.
pub(crate) fn fits(tensors: &[&Tensor]) -> bool {
    #[cfg(test)]
    if TORCHS_OPERATIONS.load(std::sync::atomic::Ordering::Relaxed) {
        return false;
    }
    tensors.iter().all(|tensor| {
        tensor.device() == Device::Cpu
            && tensor.kind() == Kind::Float
            && tensor.is_contiguous()
            && tensor.numel() > 0
    })
}

/// y = w·x·ρ over the last dimension, and ρ = 1/√(mean(x²) + eps). x `[…, width]`, w `[width]` → `[…, width]`, `[…, 1]`.
/// The tensors must fit.
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> (Tensor, Tensor) {
    let width = values(weight).len();
    let y = x.empty_like();
    let mut size = x.size();
    if let Some(last) = size.last_mut() {
        *last = 1;
    }
    let reciprocal = Tensor::empty(size, (Kind::Float, Device::Cpu));
    let eps = eps as f32;
    let (x, weight) = (values(x), values(weight));
    in_parallel(
        values_mut(&y)
            .chunks_mut(width)
            .zip(values_mut(&reciprocal))
            .zip(x.chunks(width)),
        width,
        |((y, reciprocal), x)| {
            let mean = sum(x.len(), |at| x[at] * x[at]) / width as f32;
            let rho = 1.0 / (mean + eps).sqrt();
            *reciprocal = rho;
            for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
                *y = x * rho * w;
            }
        },
    );
    (y, reciprocal)
}

/// total += ρ·w·dy − x·ρ³·mean(w·dy·x): the gradient of [`rms_norm`] added to one that is there already. All but
/// `reciprocal` as x; the tensors must fit.
pub(crate) fn rms_norm_backward_add_(
    total: &Tensor,
    x: &Tensor,
    reciprocal: &Tensor,
    weight: &Tensor,
    dy: &Tensor,
) {
    let (x, reciprocal, weight, dy) = (values(x), values(reciprocal), values(weight), values(dy));
    let width = weight.len();
    let rows = values_mut(total).chunks_mut(width).zip(reciprocal);
    in_parallel(
        rows.zip(x.chunks(width).zip(dy.chunks(width))),
        width,
        |((total, rho), (x, dy))| {
            let mean = sum(x.len(), |at| weight[at] * dy[at] * x[at]) / width as f32;
            let pull = rho * rho * rho * mean;
            for (((total, x), w), dy) in total.iter_mut().zip(x).zip(weight).zip(dy) {
                *total += rho * w * dy - x * pull;
            }
        },
    );
}

/// h = g·σ(g)·u. gate and up side by side `[tokens, 2 × width]` → `[tokens, width]`. The tensor must fit.
pub(crate) fn swiglu(gate_up: &Tensor) -> Tensor {
    let size = gate_up.size();
    let width = size[1] / 2;
    let h = Tensor::empty([size[0], width], (Kind::Float, Device::Cpu));
    let width = width as usize;
    in_parallel(
        values_mut(&h)
            .chunks_mut(width)
            .zip(values(gate_up).chunks(2 * width)),
        2 * width,
        |(h, gate_up)| {
            let (gate, up) = gate_up.split_at(width);
            for ((h, g), u) in h.iter_mut().zip(gate).zip(up) {
                *h = g * sigmoid(*g) * u;
            }
        },
    );
    h
}

/// Puts the gradients of gate and up in the places of their values: du = dh·g·σ(g), dg = dh·u·σ(g)·(1 + g·(1 − σ(g))).
/// dh `[tokens, width]`. The tensors must fit.
pub(crate) fn swiglu_backward_(gate_up: &Tensor, dh: &Tensor) {
    let width = dh.size()[1] as usize;
    in_parallel(
        values_mut(gate_up)
            .chunks_mut(2 * width)
            .zip(values(dh).chunks(width)),
        2 * width,
        |(gate_up, dh)| {
            let (gate, up) = gate_up.split_at_mut(width);
            for ((g, u), dh) in gate.iter_mut().zip(up).zip(dh) {
                let s = sigmoid(*g);
                let f = *g * s;
                let dg = dh * *u * (s + f * (1.0 - s));
                *u = dh * f;
                *g = dg;
            }
        },
    );
}

/// 1/(1 + e⁻ˣ), to within a few units of the last place.
#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// eˣ = 2ⁿ·2ʳ with n whole and r at most a half in size; 2ʳ by its Taylor series, whose eighth term is below the last
/// place. Without branches and calls, so that compilers compute many at once. What is no number stays none.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding 1.5·2²³ leaves a whole number in the low bits.
    const SHIFT: f32 = 12_582_912.0;
    // At these ends the sigmoid has long been 0 or 1.
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 87.0 { 87.0 } else { x };
    let scaled = x * std::f32::consts::LOG2_E;
    let shifted = scaled + SHIFT;
    let n = shifted - SHIFT;
    // ln 2 in two parts, of which the first has so few digits that its product with n is exact.
    let r = x - n * 0.693_359_4 - n * -0.000_212_194_44;
    let mut series = 1.0 / 5040.0;
    for factor in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * r + factor;
    }
    let power = f32::from_bits((shifted.to_bits().wrapping_add(127)) << 23);
    series * power
}

/// Σ term(0..length) in [`LANES`] partial sums.
#[inline(always)]
fn sum(length: usize, term: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let whole = length / LANES * LANES;
    let mut at = 0;
    while at < whole {
        for (lane, partial) in lanes.iter_mut().enumerate() {
            *partial += term(at + lane);
        }
        at += LANES;
    }
    let rest: f32 = (whole..length).map(&term).sum();
    lanes.iter().sum::<f32>() + rest
}

/// Unpacks weights in 4 bits: the level of each half of a byte times the scale of its block, as [`crate::nf4`] stores them.
/// weights f32 `[n]`, packed u8 `[n / 2]`, scales f32 `[n / 64]`, both rounded up. The f32 tensors must fit.
pub(crate) fn unpack_nf4(weights: &Tensor, packed: &Tensor, scales: &Tensor) {
    let blocks = values_mut(weights).chunks_mut(BLOCK);
    in_parallel(
        blocks.zip(bytes(packed).chunks(BLOCK / 2)).zip(values(scales)),
        BLOCK,
        |((weights, packed), scale)| {
            // Sixteen products for a block instead of one for each weight; their bits are the same.
            let scaled = LEVELS.map(|level| level * scale);
            let (pairs, odd) = weights.as_chunks_mut::<2>();
            for (pair, byte) in pairs.iter_mut().zip(packed) {
                *pair = [scaled[usize::from(byte >> 4)], scaled[usize::from(byte & 15)]];
            }
            if let ([weight], Some(byte)) = (odd, packed.last()) {
                *weight = scaled[usize::from(byte >> 4)];
            }
        },
    );
}

/// Calls `work` on every row, the rows divided among torch's number of threads.
pub(crate) fn in_parallel<Row: Send>(
    rows: impl ExactSizeIterator<Item = Row>,
    values_per_row: usize,
    work: impl Fn(Row) + Sync,
) {
    let threads = (rows.len() * values_per_row / VALUES_PER_THREAD).clamp(1, threads());
    let share = rows.len().div_ceil(threads);
    let mut rows = rows;
    thread::scope(|scope| {
        for _ in 1..threads {
            let part: Vec<Row> = rows.by_ref().take(share).collect();
            let work = &work;
            scope.spawn(move || on_this_processor(part.into_iter(), work));
        }
        on_this_processor(rows, &work);
    });
}

fn threads() -> usize {
    usize::try_from(tch::get_num_threads()).unwrap_or(1).max(1)
}

/// The loop over rows, compiled for the vectors that this processor has.
#[allow(unsafe_code)]
fn on_this_processor<Row>(rows: impl Iterator<Item = Row>, work: &impl Fn(Row)) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn with_avx512<Row>(rows: impl Iterator<Item = Row>, work: &impl Fn(Row)) {
            rows.for_each(work);
        }
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2<Row>(rows: impl Iterator<Item = Row>, work: &impl Fn(Row)) {
            rows.for_each(work);
        }
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { with_avx512(rows, work) };
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            // SAFETY: as above.
            return unsafe { with_avx2(rows, work) };
        }
    }
    rows.for_each(work);
}

/// A tensor's values.
#[allow(unsafe_code)]
fn values(tensor: &Tensor) -> &[f32] {
    debug_assert!(fits(&[tensor]), "a contiguous f32 tensor in main memory");
    // SAFETY: such a tensor has this many values from its pointer on, which live as long as it does.
    unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast(), tensor.numel()) }
}

/// A tensor's bytes: a contiguous u8 tensor in main memory.
#[allow(unsafe_code)]
fn bytes(tensor: &Tensor) -> &[u8] {
    debug_assert!(
        tensor.device() == Device::Cpu && tensor.kind() == Kind::Uint8 && tensor.is_contiguous(),
        "a contiguous u8 tensor in main memory"
    );
    // SAFETY: such a tensor has this many bytes from its pointer on, which live as long as it does.
    unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast(), tensor.numel()) }
}

/// As [`values`], to be written. torch's tensors are shared; the caller sees to it that nothing else reads this one.
#[allow(unsafe_code, clippy::mut_from_ref)]
fn values_mut(tensor: &Tensor) -> &mut [f32] {
    debug_assert!(fits(&[tensor]), "a contiguous f32 tensor in main memory");
    // SAFETY: as above; each function takes a tensor's values to write once, and reads it by no other way meanwhile.
    unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast(), tensor.numel()) }
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;

    fn random(size: &[i64], scale: f64) -> Tensor {
        Tensor::randn(size, (Kind::Float, Device::Cpu)) * scale
    }

    /// Largest difference, as a share of the largest value.
    fn difference(ours: &Tensor, wanted: &Tensor) -> f64 {
        let wanted = wanted.to_kind(Kind::Double);
        let most = wanted.abs().max().double_value(&[]).max(1e-12);
        (ours.to_kind(Kind::Double) - wanted)
            .abs()
            .max()
            .double_value(&[])
            / most
    }

    #[test]
    fn rms_norm_and_its_gradient_equal_those_in_float64() {
        tch::manual_seed(1);
        for width in [16, 37, 576] {
            let (x, weight, dy) = (
                random(&[130, width], 2.0),
                random(&[width], 1.0),
                random(&[130, width], 1.0),
            );
            let (y, reciprocal) = rms_norm(&x, &weight, 1e-5);
            let wide = x.to_kind(Kind::Double).set_requires_grad(true);
            let rho = (wide.square().mean_dim(-1, true, Kind::Double) + 1e-5).rsqrt();
            let wanted = &wide * &rho * weight.to_kind(Kind::Double);
            assert!(difference(&y, &wanted.detach()) < 1e-6, "{width}");
            assert!(difference(&reciprocal, &rho.detach()) < 1e-6, "{width}");

            let total = random(&[130, width], 1.0);
            let before = total.copy();
            rms_norm_backward_add_(&total, &x, &reciprocal, &weight, &dy);
            (wanted * dy.to_kind(Kind::Double)).sum(Kind::Double).backward();
            let wanted = before.to_kind(Kind::Double) + wide.grad();
            assert!(difference(&total, &wanted) < 1e-6, "{width}");
        }
    }

    #[test]
    fn swiglu_and_its_gradient_equal_those_in_float64() {
        tch::manual_seed(2);
        for (width, scale) in [(8, 1.0), (29, 30.0), (1536, 4.0)] {
            let (gate_up, dh) = (random(&[70, 2 * width], scale), random(&[70, width], 1.0));
            let h = swiglu(&gate_up);
            let wide = gate_up.to_kind(Kind::Double).set_requires_grad(true);
            let (gate, up) = (wide.narrow(1, 0, width), wide.narrow(1, width, width));
            let wanted = gate.silu() * up;
            assert!(difference(&h, &wanted.detach()) < 1e-6, "{width}");
            swiglu_backward_(&gate_up, &dh);
            (wanted * dh.to_kind(Kind::Double)).sum(Kind::Double).backward();
            assert!(difference(&gate_up, &wide.grad()) < 1e-6, "{width}");
        }
    }

    #[test]
    fn extreme_values_saturate_and_what_is_no_number_stays_none() {
        let gates = [
            -1e30,
            -200.0,
            -0.0,
            200.0,
            1e30,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        let gate_up = Tensor::from_slice(&gates.map(|gate| [gate, 1.0]).concat())
            .to_kind(Kind::Float)
            .view([8, 2]);
        let h: Vec<f32> = swiglu(&gate_up).view(-1).try_into().unwrap();
        assert!(h[0].abs() < 1e-3 && h[1].abs() < 1e-30 && h[2] == 0.0, "{h:?}");
        assert_eq!((h[3], h[4]), (200.0, 1e30));
        assert!(h[5].is_nan() && h[6] == f32::INFINITY, "{h:?}");
        let normed = rms_norm(
            &Tensor::from_slice(&[f32::NAN, 1.0, 1.0, 1.0]).view([2, 2]),
            &Tensor::ones([2], (Kind::Float, Device::Cpu)),
            0.0,
        );
        let normed: Vec<f32> = normed.0.view(-1).try_into().unwrap();
        assert!(
            normed[0].is_nan() && normed[1].is_nan() && normed[2] == 1.0,
            "{normed:?}"
        );
    }

    #[test]
    fn a_row_is_the_same_to_the_last_bit_whatever_stands_beside_it() {
        tch::manual_seed(3);
        let (x, weight) = (random(&[600, 576], 1.0), random(&[576], 1.0));
        let (all, _) = rms_norm(&x, &weight, 1e-5);
        let (one, _) = rms_norm(&x.narrow(0, 411, 1).contiguous(), &weight, 1e-5);
        assert_eq!(one, all.narrow(0, 411, 1));
        let gate_up = random(&[600, 128], 1.0);
        let all = swiglu(&gate_up);
        assert_eq!(
            swiglu(&gate_up.narrow(0, 599, 1).contiguous()),
            all.narrow(0, 599, 1)
        );
    }

    #[test]
    fn other_tensors_are_left_to_torch() {
        let wide = random(&[4, 8], 1.0);
        assert!(fits(&[&wide]));
        assert!(!fits(&[&wide, &wide.narrow(1, 0, 4)]), "not contiguous");
        assert!(!fits(&[&wide.to_kind(Kind::BFloat16)]));
    }
}
