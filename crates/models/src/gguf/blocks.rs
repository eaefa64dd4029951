//! From the weight formats of GGUF to f32.
//!
//! The plain formats are decoded here, and Q8_K; the other block formats by candle's readers, which is all of candle that is used: this file
//! is the wall around it.

use candle_core::Device;
use candle_core::quantized::{GgmlDType, ggml_file};

/// The formats in words, for errors.
pub(crate) const SUPPORTED_FORMATS: &str =
    "weights in F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K or Q8_K";

/// A weight format of GGUF.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Format(GgmlDType);

/// Codes and names as the format's own definition has them; the third column is there where the format can be read.
const FORMATS: &[(u32, &str, Option<GgmlDType>)] = &[
    (0, "F32", Some(GgmlDType::F32)),
    (1, "F16", Some(GgmlDType::F16)),
    (2, "Q4_0", Some(GgmlDType::Q4_0)),
    (3, "Q4_1", Some(GgmlDType::Q4_1)),
    (6, "Q5_0", Some(GgmlDType::Q5_0)),
    (7, "Q5_1", Some(GgmlDType::Q5_1)),
    (8, "Q8_0", Some(GgmlDType::Q8_0)),
    (9, "Q8_1", None),
    (10, "Q2_K", Some(GgmlDType::Q2K)),
    (11, "Q3_K", Some(GgmlDType::Q3K)),
    (12, "Q4_K", Some(GgmlDType::Q4K)),
    (13, "Q5_K", Some(GgmlDType::Q5K)),
    (14, "Q6_K", Some(GgmlDType::Q6K)),
    (15, "Q8_K", Some(GgmlDType::Q8K)),
    (16, "IQ2_XXS", None),
    (17, "IQ2_XS", None),
    (18, "IQ3_XXS", None),
    (19, "IQ1_S", None),
    (20, "IQ4_NL", None),
    (21, "IQ3_S", None),
    (22, "IQ2_S", None),
    (23, "IQ4_XS", None),
    (24, "I8", None),
    (25, "I16", None),
    (26, "I32", None),
    (27, "I64", None),
    (28, "F64", None),
    (29, "IQ1_M", None),
    (30, "BF16", Some(GgmlDType::BF16)),
    (34, "TQ1_0", None),
    (35, "TQ2_0", None),
    (39, "MXFP4", None),
];

impl Format {
    /// The format with this code in the file, or the name to refuse it by.
    pub(crate) fn from_code(code: u32) -> Result<Self, String> {
        match FORMATS.iter().find(|(known, ..)| *known == code) {
            Some((_, _, Some(dtype))) => Ok(Self(*dtype)),
            Some((_, name, None)) => Err((*name).to_owned()),
            None => Err(format!("number {code}")),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        FORMATS
            .iter()
            .find(|(.., dtype)| *dtype == Some(self.0))
            .map_or("unnamed", |(_, name, _)| name)
    }

    /// Elements that are stored together.
    pub(crate) fn block_elements(self) -> usize {
        self.0.block_size()
    }

    /// Bytes that one block takes.
    pub(crate) fn block_bytes(self) -> usize {
        self.0.type_size()
    }

    /// Decodes whole blocks and appends their elements to `out`. Pass the start of an allocation and not a piece out of its
    /// middle: candle reads it as 16-bit words, which must lie at even addresses.
    pub(crate) fn decode(self, blocks: &[u8], out: &mut Vec<f32>) -> Result<(), String> {
        match self.0 {
            GgmlDType::F32 => out.extend(words::<4>(blocks).map(f32::from_le_bytes)),
            GgmlDType::F16 => {
                out.extend(words::<2>(blocks).map(|word| half::f16::from_le_bytes(word).to_f32()));
            }
            GgmlDType::BF16 => {
                out.extend(words::<2>(blocks).map(|word| half::bf16::from_le_bytes(word).to_f32()));
            }
            // Candle keeps this one for products of its own and does not read it: a scale in f32, then one byte an element.
            GgmlDType::Q8K => {
                for block in blocks.chunks_exact(self.block_bytes()) {
                    let (scale, rest) = block.split_at(4);
                    let scale = words::<4>(scale)
                        .map(f32::from_le_bytes)
                        .next()
                        .unwrap_or_default();
                    let numbers = &rest[..self.block_elements()];
                    out.extend(numbers.iter().map(|byte| scale * f32::from(byte.cast_signed())));
                }
            }
            dtype => {
                let elements = blocks.len() / self.block_bytes() * self.block_elements();
                let values = ggml_file::qtensor_from_ggml(dtype, blocks, vec![elements], &Device::Cpu)
                    .and_then(|tensor| tensor.dequantize(&Device::Cpu))
                    .and_then(|tensor| tensor.to_vec1::<f32>());
                out.extend(
                    values
                        .map_err(|error| format!("its {} blocks cannot be decoded: {error}", self.name()))?,
                );
            }
        }
        Ok(())
    }
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
