//! What a base in 4 bits takes and saves, by formula, before anything is loaded (T6): the linear weights of the layers are
//! quantised, embeddings, head, norms and biases are not (numbers 4.1). The engine tells what it came to
//! (`weight_bytes` of its result).

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{DType, Quantization};

use crate::ModelShape;
use crate::shape::Projection;

/// Weights that share a scale.
const BLOCK: u64 = 64;
/// Scales that share a nested scale.
const NESTED_BLOCK: u64 = 256;
/// Bytes of a nested scale, and of the mean of a matrix's scales: f32.
const F32: u64 = 4;

/// Bytes of one matrix in NF4 with double quantisation: half a byte a weight, a byte a block of 64, four a block of 256
/// blocks, and four for the mean. That is 0.515869 bytes a weight (numbers 4.1).
pub fn nf4_bytes(weights: u64) -> u64 {
    let blocks = weights.div_ceil(BLOCK);
    weights.div_ceil(2) + blocks + F32 * blocks.div_ceil(NESTED_BLOCK) + F32
}

/// Bytes of a model's weights with its linear layers in NF4 and the rest in `dtype`.
pub fn quantised_weight_bytes(shape: &ModelShape, dtype: DType) -> u64 {
    let layer: u64 = Projection::ALL
        .into_iter()
        .map(|projection| {
            let (input, output) = projection.widths(shape);
            nf4_bytes(input * output)
        })
        .sum();
    shape.layers * layer + dtype.size_bytes() * (shape.parameters() - shape.linear_parameters())
}

/// Bytes of a model's weights as they are stored on the device.
pub fn weight_bytes(shape: &ModelShape, dtype: DType, quantization: Quantization) -> u64 {
    match quantization {
        Quantization::None => dtype.size_bytes() * shape.parameters(),
        Quantization::Nf4 => quantised_weight_bytes(shape, dtype),
    }
}

/// Bytes that a layer's matrices take while they are unpacked to be multiplied, once in each pass through a layer; nothing
/// where they are stored as they are multiplied.
pub fn unpacked_layer_bytes(shape: &ModelShape, dtype: DType, quantization: Quantization) -> u64 {
    match quantization {
        Quantization::None => 0,
        Quantization::Nf4 => dtype.size_bytes() * shape.linear_parameters() / shape.layers.max(1),
    }
}

/// A model's parameters by what 4 bits can touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Composition {
    /// Of the layers' linear projections: these can be quantised.
    pub linear: u64,
    /// Of the embedding.
    pub embedding: u64,
    /// Of the head, where it is not the embedding.
    pub head: u64,
    /// Norms and biases.
    pub norms_and_biases: u64,
}

impl Composition {
    /// Counted from the configuration (M3).
    pub fn of(shape: &ModelShape) -> Self {
        let embedding = shape.vocab * shape.hidden;
        let head = if shape.tied { 0 } else { embedding };
        let linear = shape.linear_parameters();
        Self {
            linear,
            embedding,
            head,
            norms_and_biases: shape.parameters() - linear - embedding - head,
        }
    }

    /// Share of the parameters that can be quantised, 0 to 1.
    pub fn quantisable_share(&self) -> f64 {
        let all = self.linear + self.embedding + self.head + self.norms_and_biases;
        self.linear as f64 / all.max(1) as f64
    }
}

/// What 4 bits save of a model's weights at load. While it trains, one layer's matrices are unpacked on top
/// ([`unpacked_layer_bytes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuantisationSaving {
    /// In the number format.
    pub plain_bytes: u64,
    /// With the linear layers in NF4.
    pub quantised_bytes: u64,
}

impl QuantisationSaving {
    /// Of a model in a number format.
    pub fn of(shape: &ModelShape, dtype: DType) -> Self {
        Self {
            plain_bytes: weight_bytes(shape, dtype, Quantization::None),
            quantised_bytes: weight_bytes(shape, dtype, Quantization::Nf4),
        }
    }

    /// The difference.
    pub fn saved_bytes(&self) -> u64 {
        self.plain_bytes.saturating_sub(self.quantised_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::tests::qwen2_5_3b;

    #[test]
    fn a_weight_takes_half_a_byte_and_its_share_of_two_scales() {
        let weights = 64 * 256 * 1000;
        let share = (nf4_bytes(weights) - 4) as f64 / weights as f64;
        assert!((share - 0.515_869_140_625).abs() < 1e-12, "{share}");
        // One weight: a byte, a scale, a nested scale, the mean.
        assert_eq!(nf4_bytes(1), 1 + 1 + 4 + 4);
        assert_eq!(nf4_bytes(65), 33 + 2 + 4 + 4);
    }

    #[test]
    fn published_savings_come_out() {
        // Numbers 4.3: 4,027,842,560 linear weights save 5.98 GB of their bf16 form.
        let linear = 4_027_842_560u64;
        let saved = 2 * linear - nf4_bytes(linear);
        assert!((saved as f64 / 1e9 - 5.98).abs() < 0.005, "{saved}");
        // And 10.95 billion take 5.65 GB.
        assert!((nf4_bytes(10_950_000_000) as f64 / 1e9 - 5.65).abs() < 0.005);
    }

    #[test]
    fn only_the_linear_layers_shrink() {
        let shape = qwen2_5_3b();
        let parts = Composition::of(&shape);
        assert_eq!(parts.linear, 2_774_532_096);
        assert_eq!(parts.embedding, 311_164_928);
        assert_eq!((parts.head, parts.norms_and_biases), (0, 241_664));
        assert!((parts.quantisable_share() - 0.899).abs() < 0.001);
        let saving = QuantisationSaving::of(&shape, DType::Bf16);
        assert_eq!(saving.plain_bytes, 6_171_877_376);
        let rest = 2 * (311_164_928 + 241_664);
        let per_weight = (saving.quantised_bytes - rest) as f64 / parts.linear as f64;
        assert!((per_weight - 0.515_869).abs() < 1e-5, "{per_weight}");
        assert_eq!(
            saving.saved_bytes(),
            saving.plain_bytes - quantised_weight_bytes(&shape, DType::Bf16)
        );
    }

    #[test]
    fn one_layer_is_unpacked_at_a_time() {
        let shape = qwen2_5_3b();
        assert_eq!(unpacked_layer_bytes(&shape, DType::Bf16, Quantization::None), 0);
        assert_eq!(
            unpacked_layer_bytes(&shape, DType::Bf16, Quantization::Nf4),
            2 * 2_774_532_096 / 36
        );
    }
}
