//! The K-quants of GGUF: weights that candle quantised come back as written, by two ways that share nothing.
//!
//! The dequantisers below are written element by element from the layout of the blocks, not from anybody's loops, so that a
//! wrong shift in one place cannot hide in the other.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use tempfile::TempDir;
use tunesmith_models::{Architecture, Model, ModelConfig};

use crate::tiny::{self, GgufWriter};

const ROWS: usize = 32;
const COLUMNS: usize = 512;
/// Elements of a block.
const BLOCK: usize = 256;

/// Weights with the spread that real ones have: most are small, a few are not, and every block has another scale.
fn weights() -> Vec<f32> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..ROWS * COLUMNS)
        .map(|at| {
            let bell = uniform() + uniform() + uniform();
            0.02 * (1 + at / BLOCK % 7) as f32 * bell
        })
        .collect()
}

/// What a model file that holds these blocks reads them as.
fn read_from_file(code: u32, bytes: Vec<u8>) -> Vec<f32> {
    let config = ModelConfig {
        hidden_size: COLUMNS,
        head_dim: COLUMNS / 2,
        ..tiny::config(Architecture::Llama)
    };
    let mut file = GgufWriter::model(&config);
    file.tensor("blk.0.ffn_gate.weight", &[ROWS, COLUMNS], code, bytes);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, file.bytes()).unwrap();
    let model = Model::open(&path).unwrap();
    model.read_f32("model.layers.0.mlp.gate_proj.weight").unwrap().1
}

fn half_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The 6-bit scale and minimum of group `group` out of eight, as Q4_K and Q5_K pack them into twelve bytes.
fn packed_scale_and_minimum(packed: &[u8], group: usize) -> (f32, f32) {
    let (scale, minimum) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let low = packed[group + 4];
        (
            (low & 15) | (packed[group - 4] >> 6) << 4,
            (low >> 4) | (packed[group] >> 6) << 4,
        )
    };
    (f32::from(scale), f32::from(minimum))
}

/// 2 bits an element; 16 groups of 16 with 4-bit scale and minimum.
fn q2_k(block: &[u8], at: usize) -> f32 {
    let (scales, quants) = (&block[..16], &block[16..80]);
    let (scale, minimum) = (half_at(block, 80), half_at(block, 82));
    let quant = quants[at / 128 * 32 + at % 32] >> (at % 128 / 32 * 2) & 3;
    let group = scales[at / 16];
    scale * f32::from(group & 15) * f32::from(quant) - minimum * f32::from(group >> 4)
}

/// 2 bits and one more in a mask; 16 groups with a 6-bit scale around 32.
fn q3_k(block: &[u8], at: usize) -> f32 {
    let (mask, quants, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let low = quants[at / 128 * 32 + at % 32] >> (at % 128 / 32 * 2) & 3;
    let high = mask[at % 32] >> (at / 32) & 1;
    let quant = f32::from(low) + 4.0 * f32::from(high) - 4.0;
    let group = at / 16;
    let low = if group < 8 {
        scales[group] & 15
    } else {
        scales[group - 8] >> 4
    };
    let high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    half_at(block, 108) * (f32::from(low | high << 4) - 32.0) * quant
}

/// 4 bits; 8 groups of 32.
fn q4_k(block: &[u8], at: usize) -> f32 {
    let (scale, minimum) = packed_scale_and_minimum(&block[4..16], at / 32);
    let byte = block[16 + at / 64 * 32 + at % 32];
    let quant = if at % 64 < 32 { byte & 15 } else { byte >> 4 };
    half_at(block, 0) * scale * f32::from(quant) - half_at(block, 2) * minimum
}

/// As Q4_K with a fifth bit in 32 bytes of its own, one bit a group.
fn q5_k(block: &[u8], at: usize) -> f32 {
    let (scale, minimum) = packed_scale_and_minimum(&block[4..16], at / 32);
    let byte = block[48 + at / 64 * 32 + at % 32];
    let low = if at % 64 < 32 { byte & 15 } else { byte >> 4 };
    let high = block[16 + at % 32] >> (at / 32) & 1;
    half_at(block, 0) * scale * f32::from(low | high << 4) - half_at(block, 2) * minimum
}

/// 4 bits and two more; 16 groups with an 8-bit scale.
fn q6_k(block: &[u8], at: usize) -> f32 {
    let (low_bits, high_bits, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let (half, part, place) = (at / 128, at % 128 / 32, at % 32);
    let byte = low_bits[half * 64 + part % 2 * 32 + place];
    let low = if part < 2 { byte & 15 } else { byte >> 4 };
    let high = high_bits[half * 32 + place] >> (part * 2) & 3;
    half_at(block, 208) * f32::from(scales[at / 16].cast_signed()) * (f32::from(low | high << 4) - 32.0)
}

#[test]
fn k_quants_that_candle_wrote_are_read_as_two_dequantisers_read_them() {
    type Element = fn(&[u8], usize) -> f32;
    // Code, format, element reader, and the largest error of a format with so few bits, relative to the largest weight.
    let formats: [(u32, GgmlDType, Element, f32); 5] = [
        (10, GgmlDType::Q2K, q2_k, 0.35),
        (11, GgmlDType::Q3K, q3_k, 0.2),
        (12, GgmlDType::Q4K, q4_k, 0.1),
        (13, GgmlDType::Q5K, q5_k, 0.05),
        (14, GgmlDType::Q6K, q6_k, 0.025),
    ];
    let weights = weights();
    let tensor = Tensor::from_slice(&weights, (ROWS, COLUMNS), &Device::Cpu).unwrap();
    for (code, format, element, tolerance) in formats {
        let quantised = QTensor::quantize(&tensor, format).unwrap();
        let bytes = quantised.data().unwrap().into_owned();
        let found = read_from_file(code, bytes.clone());
        let dequantised = quantised.dequantize(&Device::Cpu).unwrap();
        let by_candle: Vec<f32> = dequantised.flatten_all().unwrap().to_vec1().unwrap();
        assert_eq!(found, by_candle, "{format:?}");

        let mut worst: f32 = 0.0;
        for (number, block) in bytes.chunks_exact(format.type_size()).enumerate() {
            let largest = weights[number * BLOCK..][..BLOCK]
                .iter()
                .fold(0.0f32, |largest, weight| largest.max(weight.abs()));
            for at in 0..BLOCK {
                let (found, by_hand) = (found[number * BLOCK + at], element(block, at));
                assert!(
                    (found - by_hand).abs() <= 1e-6 * largest,
                    "{format:?} at {at} of block {number}: {found}, by hand {by_hand}"
                );
                worst = worst.max((found - weights[number * BLOCK + at]).abs() / largest);
            }
        }
        assert!(
            worst < tolerance,
            "{format:?} is off by {worst} of the largest weight"
        );
        assert!(
            worst > tolerance / 20.0,
            "{format:?} loses nothing, so it was not quantised"
        );
    }
}

#[test]
fn q8_k_is_a_scale_and_a_byte_for_each_element() {
    let mut expected = Vec::new();
    let mut bytes = Vec::new();
    for block in 0..ROWS * COLUMNS / BLOCK {
        let scale = 0.25 * (1 + block) as f32;
        bytes.extend(scale.to_le_bytes());
        for at in 0..BLOCK {
            let byte = ((at * 7 + block) % 256) as u8;
            bytes.push(byte);
            expected.push(scale * f32::from(byte.cast_signed()));
        }
        // Sums of the bytes, which only products need.
        bytes.extend([0xff; 32]);
    }
    assert_eq!(read_from_file(15, bytes), expected);
}
