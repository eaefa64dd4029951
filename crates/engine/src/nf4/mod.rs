//! A 4-bit base: weights stored as NF4 with double quantisation, multiplied in the compute format.
//!
//! Weights are quantised on the processor while they are loaded, one at a time, so that the bytes are the same whatever
//! device they go to and a model is never held twice. To be multiplied they are unpacked again by table look-up and
//! scale, in plain tensor operations that every device has; on a processor in f32 in one pass of our own.

pub(crate) mod codec;

use std::rc::Rc;

use tch::{Device, Kind, Tensor};
use tunesmith_protocol::{DType, ValueCheck};

use crate::error::JobError;
use crate::fused;
use crate::model::kind_of;
use codec::{BLOCK, DYNAMIC_MAP, LEVELS, NESTED_BLOCK, quantise_block, quantise_scales};

/// Weights that are unpacked at once on a processor: their intermediate values stay in its cache.
const CHUNK_ON_PROCESSOR: i64 = 1 << 18;
/// The same on a GPU, where a start costs more than memory: 64 MiB of intermediate values.
const CHUNK_ON_GPU: i64 = 1 << 24;

/// Look-up tables on a device.
pub(crate) struct Tables {
    /// The two levels of each byte, f32 `[256, 2]`.
    pairs: Tensor,
    /// f32 `[256]`.
    dynamic_map: Tensor,
}

impl Tables {
    pub(crate) fn new(device: Device) -> Rc<Self> {
        let pairs: Vec<f32> = (0..=u8::MAX)
            .flat_map(|byte| [LEVELS[usize::from(byte >> 4)], LEVELS[usize::from(byte & 15)]])
            .collect();
        Rc::new(Self {
            pairs: Tensor::from_slice(&pairs).view([256, 2]).to_device(device),
            dynamic_map: Tensor::from_slice(&DYNAMIC_MAP[..]).to_device(device),
        })
    }
}

/// A matrix in 4 bits, quantised by itself as it stands in the model.
pub(crate) struct Nf4 {
    /// Rows and columns.
    shape: [i64; 2],
    /// u8 `[weights / 2]`, the first of two weights in the upper bits.
    packed: Tensor,
    /// Scale of each block, as a place in the dynamic map: u8 `[blocks]`.
    scales: Tensor,
    /// f32 `[blocks / 256]`.
    nested: Tensor,
    /// Mean of the scales.
    offset: f32,
    tables: Rc<Tables>,
}

impl Nf4 {
    /// Quantises a matrix of `columns` columns, row after row. `name` is for the message.
    ///
    /// # Errors
    /// [`JobError::NotQuantisable`] where a weight is not finite, or so large that the scales have no mean.
    pub(crate) fn quantise(
        name: &str,
        weights: &[f32],
        columns: i64,
        tables: &Rc<Tables>,
    ) -> Result<Self, JobError> {
        let mut packed = vec![0u8; weights.len().div_ceil(2)];
        let mut largest = vec![0f32; weights.len().div_ceil(BLOCK)];
        fused::in_parallel(
            packed
                .chunks_mut(BLOCK / 2)
                .zip(&mut largest)
                .zip(weights.chunks(BLOCK)),
            BLOCK,
            |((packed, largest), weights)| *largest = quantise_block(weights, packed),
        );
        // The mean as torch sums it: another order may give another last bit, and with it other bytes. A scale that is no
        // number makes it none.
        let offset = Tensor::from_slice(&largest).mean(Kind::Float).double_value(&[]) as f32;
        if !offset.is_finite() {
            return Err(JobError::NotQuantisable {
                tensor: name.to_owned(),
            });
        }
        let (scales, nested) = quantise_scales(&largest, offset);
        let device = tables.pairs.device();
        Ok(Self {
            shape: [weights.len() as i64 / columns, columns],
            packed: Tensor::f_from_slice(&packed)?.f_to_device(device)?,
            scales: Tensor::f_from_slice(&scales)?.f_to_device(device)?,
            nested: Tensor::f_from_slice(&nested)?.f_to_device(device)?,
            offset,
            tables: tables.clone(),
        })
    }

    /// What is stored, for checksums and sizes; the mean stands beside it as one number.
    pub(crate) fn tensors(&self) -> [&Tensor; 3] {
        [&self.packed, &self.scales, &self.nested]
    }

    /// Mean of the scales.
    pub(crate) fn offset(&self) -> f32 {
        self.offset
    }

    /// Bytes that are stored.
    pub(crate) fn bytes(&self) -> u64 {
        let tensors = self
            .tensors()
            .map(|tensor| tensor.numel() * tensor.kind().elt_size_in_bytes());
        (tensors.iter().sum::<usize>() + size_of_val(&self.offset)) as u64
    }

    /// Writes the weights into `out`, contiguous `[rows, columns]` in a compute format.
    pub(crate) fn unpack_into(&self, out: &Tensor) {
        let scales = self.unpacked_scales();
        let weights = out.view([-1]);
        if fused::fits(&[&weights, &scales]) {
            fused::unpack_nf4(&weights, &self.packed, &scales);
        } else {
            self.unpack_by_operations(&weights, &scales);
        }
        #[cfg(feature = "inject-faults")]
        crate::faults::unpacked(&weights);
    }

    /// weights `[n]` on any device, scales f32 `[blocks]`.
    fn unpack_by_operations(&self, weights: &Tensor, scales: &Tensor) {
        let chunk = if weights.device().is_cuda() {
            CHUNK_ON_GPU
        } else {
            CHUNK_ON_PROCESSOR
        };
        let total = weights.size()[0];
        let block = BLOCK as i64;
        for start in (0..total).step_by(chunk as usize) {
            let length = chunk.min(total - start);
            let bytes = self
                .packed
                .narrow(0, start / 2, (length + 1) / 2)
                .to_kind(Kind::Int);
            let values = self
                .tables
                .pairs
                .index_select(0, &bytes)
                .view([-1])
                .narrow(0, 0, length);
            let scales = scales.narrow(0, start / block, (length + block - 1) / block);
            scale_blocks(&values, &scales, block);
            weights.narrow(0, start, length).copy_(&values);
        }
    }

    /// f32 `[blocks]`.
    fn unpacked_scales(&self) -> Tensor {
        let mut scales = self
            .tables
            .dynamic_map
            .index_select(0, &self.scales.to_kind(Kind::Int));
        scale_blocks(&scales, &self.nested, NESTED_BLOCK as i64);
        scales.g_add_scalar_(f64::from(self.offset))
    }
}

/// Multiplies each block of x `[n]` by its scale, in place; the last block may be cut short.
fn scale_blocks(x: &Tensor, scales: &Tensor, block: i64) {
    let whole = x.size()[0] / block;
    let rest = x.size()[0] % block;
    let _ = x
        .narrow(0, 0, whole * block)
        .view([whole, block])
        .g_mul_(&scales.narrow(0, 0, whole).unsqueeze(1));
    if rest > 0 {
        let _ = x
            .narrow(0, whole * block, rest)
            .g_mul_(&scales.narrow(0, whole, 1));
    }
}

/// A frozen matrix as it is stored.
pub(crate) enum Weight {
    /// In the compute format.
    Plain(Tensor),
    /// In 4 bits: matrices that stand one above the other, to be multiplied in this format.
    Nf4(Vec<Nf4>, Kind),
}

impl From<Tensor> for Weight {
    fn from(tensor: Tensor) -> Self {
        Self::Plain(tensor)
    }
}

impl Weight {
    /// The matrix to multiply with, `[outputs, inputs]`. One that is stored in 4 bits takes its memory as long as the
    /// tensor lives.
    pub(crate) fn unpacked(&self) -> Tensor {
        match self {
            Self::Plain(tensor) => tensor.shallow_clone(),
            Self::Nf4(parts, kind) => {
                let rows = parts.iter().map(|part| part.shape[0]).sum();
                let (columns, device) = parts
                    .first()
                    .map_or((0, Device::Cpu), |part| (part.shape[1], part.packed.device()));
                let all = Tensor::empty([rows, columns], (*kind, device));
                let mut start = 0;
                for part in parts {
                    part.unpack_into(&all.narrow(0, start, part.shape[0]));
                    start += part.shape[0];
                }
                all
            }
        }
    }

    /// The tensors that are stored.
    pub(crate) fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Self::Plain(tensor) => vec![tensor],
            Self::Nf4(parts, _) => parts.iter().flat_map(Nf4::tensors).collect(),
        }
    }

    /// Bytes that are stored.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Plain(tensor) => (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64,
            Self::Nf4(parts, _) => parts.iter().map(Nf4::bytes).sum(),
        }
    }
}

/// Error that NF4 itself makes on normally distributed weights in blocks of 64, as a share of their length: ‖x̂ − x‖ ÷ ‖x‖
/// is 0.0920 over a million of them, without double quantisation, which moves it by less than a two-hundredth. Own
/// measurement; no kernel can be better, as nobody can be nearer than the nearest level.
const ERROR_ON_NORMAL_WEIGHTS: f64 = 0.0920;

/// The share by which the error may exceed that: a kernel of which one value in three thousand is wrong by its own size
/// fails.
const MARGIN: f64 = 1.02;

/// Weights of a check: sixteen rows of blocks, with a last block that is cut short.
const CHECKED: i64 = (1 << 18) + 34;

/// The NF4 round trip (X8): normal weights quantised on the processor, unpacked on `device` in `dtype`. `max_error` is the
/// length of the difference over the length of the weights, and `tolerance` NF4's own error on such weights plus 2 %.
///
/// # Errors
/// [`JobError`] where the device fails.
pub(crate) fn round_trip_error(device: Device, dtype: DType) -> Result<ValueCheck, JobError> {
    let (weights, unpacked, _) = round_trip(device, dtype)?;
    let length = |x: &Tensor| x.square().sum(Kind::Double).sqrt().double_value(&[]);
    let error = length(&(&unpacked - &weights)) / length(&weights);
    Ok(value_check(error, ERROR_ON_NORMAL_WEIGHTS * MARGIN))
}

/// The unpacking alone (X8): as [`round_trip_error`], against the same levels and scales multiplied in float64 on the
/// processor. `max_error` is the largest difference over the largest weight; `tolerance` a few roundings in f32, one in
/// the narrower formats.
///
/// # Errors
/// [`JobError`] where the device fails.
pub(crate) fn unpacking_error(device: Device, dtype: DType) -> Result<ValueCheck, JobError> {
    let (_, unpacked, expected) = round_trip(device, dtype)?;
    let largest = |x: &Tensor| x.abs().max().double_value(&[]);
    let tolerance = match dtype {
        DType::F32 => 1e-6,
        DType::Bf16 => 4e-3,
        DType::F16 => 5e-4,
    };
    Ok(value_check(
        largest(&(&unpacked - &expected)) / largest(&expected),
        tolerance,
    ))
}

/// A value that is no number must fail: `<=` sees to that.
fn value_check(error: f64, tolerance: f64) -> ValueCheck {
    ValueCheck {
        max_error: if error.is_finite() { error } else { f64::MAX },
        tolerance,
        passed: error <= tolerance,
    }
}

/// Normal weights, the same quantised and unpacked on the device, and what unpacking should have given: f64 on the
/// processor each.
fn round_trip(device: Device, dtype: DType) -> Result<(Tensor, Tensor, Tensor), JobError> {
    let _guard = tch::no_grad_guard();
    tch::manual_seed(4);
    let weights = Tensor::randn([CHECKED], (Kind::Float, Device::Cpu));
    let values = Vec::<f32>::try_from(&weights)?;
    let quantised = Nf4::quantise("a check", &values, CHECKED, &Tables::new(device))?;
    let unpacked = Tensor::empty([1, CHECKED], (kind_of(dtype), device));
    quantised.unpack_into(&unpacked);

    let [packed, scales, nested] = quantised.tensors().map(|tensor| tensor.to_device(Device::Cpu));
    let (packed, scales) = (Vec::<u8>::try_from(packed)?, Vec::<u8>::try_from(scales)?);
    let nested = Vec::<f32>::try_from(nested)?;
    let expected: Vec<f64> = (0..values.len())
        .map(|at| {
            let block = at / BLOCK;
            let level = (packed[at / 2] >> if at % 2 == 0 { 4 } else { 0 }) & 15;
            let scale = f64::from(DYNAMIC_MAP[usize::from(scales[block])])
                * f64::from(nested[block / NESTED_BLOCK])
                + f64::from(quantised.offset);
            f64::from(LEVELS[usize::from(level)]) * scale
        })
        .collect();
    let wide = |x: &Tensor| x.to_device(Device::Cpu).to_kind(Kind::Double).view([-1]);
    Ok((wide(&weights), wide(&unpacked), Tensor::from_slice(&expected)))
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests;
