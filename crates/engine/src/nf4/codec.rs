//! NF4 in numbers: what a block of weights becomes, bit for bit as bitsandbytes' processor back end makes it (0.50.2,
//! x86-64; `xtask/python/parity.py` compares the two live, a fixture keeps bytes of it).
//!
//! A block of 64 weights is divided by its largest absolute value and each quotient becomes the nearest of 16 levels,
//! the quantiles of a normal distribution. The largest values are quantised in turn (double quantisation): less their
//! mean, in blocks of 256, to the nearest of 256 values of an 8-bit dynamic map. Together 4 + 8/64 + 32/(64·256) bits
//! a weight, which is 0.515869 bytes (numbers.md 4.1).

use std::sync::LazyLock;

/// Weights that share a scale.
pub(crate) const BLOCK: usize = 64;
/// Scales that share a nested scale.
pub(crate) const NESTED_BLOCK: usize = 256;

/// The levels, from QLoRA (arXiv 2305.14314, appendix E): each is as likely as the next for normal weights, and zero is
/// among them.
pub(crate) const LEVELS: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// A value above the midpoint of two levels belongs to the upper one, a value on it to the lower one.
const MIDPOINTS: [f32; 15] = {
    let mut midpoints = [0.0; 15];
    let mut at = 0;
    while at < 15 {
        midpoints[at] = f32::midpoint(LEVELS[at], LEVELS[at + 1]);
        at += 1;
    }
    midpoints
};

/// Blocks of smaller values are divided by this one, so that nothing is divided by zero.
const SMALLEST_SCALE: f32 = 1e-38;

/// Quantises up to [`BLOCK`] weights into their nibbles, the first of two in the upper four bits, and gives the block's
/// largest absolute value; NaN where a weight is not finite. `packed` holds half as many bytes, rounded up.
// What is not inlined into the loop over blocks is not compiled for this processor's vectors.
#[allow(clippy::inline_always)]
#[inline(always)]
pub(crate) fn quantise_block(weights: &[f32], packed: &mut [u8]) -> f32 {
    let mut largest = 0.0f32;
    let mut finite = true;
    for weight in weights {
        finite &= weight.is_finite();
        largest = largest.max(weight.abs());
    }
    let mut quotients = [0.0f32; BLOCK];
    if weights.len() == BLOCK {
        let reciprocal = 1.0 / largest.max(SMALLEST_SCALE);
        for (quotient, weight) in quotients.iter_mut().zip(weights) {
            *quotient = weight * reciprocal;
        }
    } else {
        // The last block of a tensor, where it is cut short, is divided and keeps the bound as its scale.
        largest = largest.max(SMALLEST_SCALE);
        for (quotient, weight) in quotients.iter_mut().zip(weights) {
            *quotient = weight / largest;
        }
    }
    let mut levels = [0u8; BLOCK];
    for midpoint in MIDPOINTS {
        for (level, quotient) in levels.iter_mut().zip(&quotients) {
            *level += u8::from(*quotient > midpoint);
        }
    }
    for (byte, pair) in packed.iter_mut().zip(levels.as_chunks::<2>().0) {
        *byte = (pair[0] << 4) | pair[1];
    }
    if finite { largest } else { f32::NAN }
}

/// The 8-bit dynamic map (arXiv 1511.04561, signed, seven exponents): for each power of ten from 10⁻⁶ to 1 twice as many
/// means of even steps between a tenth of it and itself, of either sign; zero; one. Sorted.
pub(crate) static DYNAMIC_MAP: LazyLock<[f32; 256]> = LazyLock::new(|| {
    let mut map = [0.0f32; 256];
    let mut at = 0;
    for exponent in 0..7 {
        let power = 10f64.powi(exponent - 6) as f32;
        let steps = 1usize << exponent;
        for step in 0..steps {
            let value = power * f32::midpoint(tenth_to_one(step, steps), tenth_to_one(step + 1, steps));
            map[at] = value;
            map[at + 1] = -value;
            at += 2;
        }
    }
    map[at + 1] = 1.0;
    map.sort_by(f32::total_cmp);
    map
});

/// Edge `at` of `steps` even steps from 0.1 to 1, counted from the nearer end.
fn tenth_to_one(at: usize, steps: usize) -> f32 {
    let step = (1.0 - 0.1f32) / steps as f32;
    if at < steps.div_ceil(2) {
        0.1 + step * at as f32
    } else {
        1.0 - step * (steps - at) as f32
    }
}

/// Steps from −1 to 1 at which a value is looked up in the dynamic map.
const LOOK_UPS: u16 = u16::MAX;

/// Place in the dynamic map of each of the 65,536 values that are looked up.
static PLACES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let midpoints: Vec<f32> = DYNAMIC_MAP
        .windows(2)
        .map(|pair| f32::midpoint(pair[0], pair[1]))
        .collect();
    let mut place = 0;
    (0..=LOOK_UPS)
        .map(|step| {
            let value = 2.0 * f32::from(step) / f32::from(LOOK_UPS) - 1.0;
            while place < midpoints.len() && value > midpoints[place] {
                place += 1;
            }
            place as u8
        })
        .collect()
});

/// Largest values of blocks, quantised: a place in the dynamic map for each, and a nested scale for each
/// [`NESTED_BLOCK`]. `offset` is their mean.
pub(crate) fn quantise_scales(largest: &[f32], offset: f32) -> (Vec<u8>, Vec<f32>) {
    let mut places = Vec::with_capacity(largest.len());
    let mut nested = Vec::with_capacity(largest.len().div_ceil(NESTED_BLOCK));
    for block in largest.chunks(NESTED_BLOCK) {
        let top = block
            .iter()
            .fold(0.0f32, |top, value| top.max((value - offset).abs()));
        nested.push(top);
        if top == 0.0 {
            places.extend(std::iter::repeat_n(0, block.len()));
            continue;
        }
        let reciprocal = 1.0 / top;
        places.extend(block.iter().map(|value| {
            let quotient = ((value - offset) * reciprocal).clamp(-1.0, 1.0);
            // The nearest step, by one rounding; infinity times zero looks up the first.
            let step = f32::midpoint(quotient, 1.0).mul_add(f32::from(LOOK_UPS), 0.5);
            PLACES[usize::from(step as u16)]
        }));
    }
    (places, nested)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_becomes_the_nearest_level_and_a_tie_the_lower_one() {
        let mut weights = [0.0f32; BLOCK];
        weights[0] = 2.0;
        for (weight, midpoint) in weights[1..].iter_mut().zip(MIDPOINTS) {
            *weight = 2.0 * midpoint;
        }
        for (weight, midpoint) in weights[16..].iter_mut().zip(MIDPOINTS) {
            *weight = 2.0 * midpoint.next_up();
        }
        let mut packed = [0; BLOCK / 2];
        let largest = quantise_block(&weights, &mut packed);
        assert_eq!(largest.to_bits(), 2.0f32.to_bits());
        let levels: Vec<u8> = packed.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
        assert_eq!(levels[0], 15);
        assert_eq!(levels[1..16], (0..15).collect::<Vec<u8>>());
        assert_eq!(levels[16..31], (1..16).collect::<Vec<u8>>());
        assert!(levels[31..].iter().all(|&level| level == 7), "zero stays zero");
    }

    #[test]
    fn a_weight_that_is_not_finite_spoils_its_block_visibly() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut weights = [1.0; BLOCK];
            weights[63] = bad;
            assert!(quantise_block(&weights, &mut [0; 32]).is_nan());
            assert!(quantise_block(&weights[32..], &mut [0; 16]).is_nan());
        }
    }

    #[test]
    fn the_dynamic_map_is_sorted_and_reaches_from_almost_minus_one_to_one() {
        let map = &*DYNAMIC_MAP;
        assert!(map.is_sorted_by(|a, b| a < b), "no value twice");
        assert_eq!((map[127], map[255]), (0.0, 1.0));
        assert!((map[0] + 0.992_968_75).abs() < 1e-6);
        assert_eq!(PLACES.first(), Some(&0));
        assert_eq!(PLACES.last(), Some(&255));
    }
}
