//! Tensors in 4 bits, written to a file, for parity checks: the very code that stores a base's weights.

use std::collections::BTreeMap;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use tch::{Device, Kind, Tensor};
use tunesmith_protocol::{Outcome, QuantiseJob, QuantiseStats};

use crate::error::JobError;
use crate::logits::write_whole;
use crate::nf4::{Nf4, Tables};

/// Quantises every tensor of the job's file and writes what is stored, and what it is unpacked to on `device`.
///
/// # Errors
/// [`JobError`]: a file that cannot be read or written, a tensor of another kind, or one with an infinity.
pub(crate) fn quantise(job: &QuantiseJob, device: Device) -> Result<Outcome, JobError> {
    let _guard = tch::no_grad_guard();
    let file = std::fs::read(&job.tensors).map_err(|error| JobError::read(&job.tensors, error))?;
    let tensors = SafeTensors::deserialize(&file)
        .map_err(|error| JobError::Request(format!("{}: {error}", job.tensors.display())))?;
    let tables = Tables::new(device);
    let mut parts: BTreeMap<String, (Dtype, Vec<u8>)> = BTreeMap::new();
    for (name, view) in tensors.iter() {
        let values = values_of(name, &view)?;
        let stored = Nf4::quantise(name, &values, values.len() as i64, &tables)?;
        let unpacked = Tensor::empty([1, values.len() as i64], (Kind::Float, device));
        stored.unpack_into(&unpacked);
        let floats = |values: Vec<f32>| values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let of = |tensor: &Tensor| Vec::<f32>::try_from(tensor.to_device(Device::Cpu).view([-1]));
        let [packed, scales, nested] = stored.tensors();
        let bytes = |tensor: &Tensor| Vec::<u8>::try_from(tensor.to_device(Device::Cpu));
        for (part, dtype, content) in [
            ("packed", Dtype::U8, bytes(packed)?),
            ("scales", Dtype::U8, bytes(scales)?),
            ("nested", Dtype::F32, floats(of(nested)?)),
            ("offset", Dtype::F32, floats(vec![stored.offset()])),
            ("unpacked", Dtype::F32, floats(of(&unpacked)?)),
        ] {
            parts.insert(format!("{name}.{part}"), (dtype, content));
        }
    }
    let mut views = Vec::new();
    for (name, (dtype, content)) in &parts {
        let length = content.len() * 8 / dtype.bitsize();
        let view = TensorView::new(*dtype, vec![length], content)
            .map_err(|error| JobError::Request(error.to_string()))?;
        views.push((name, view));
    }
    let file = safetensors::serialize(views, None).map_err(|error| JobError::Request(error.to_string()))?;
    write_whole(&job.output, &file)?;
    Ok(Outcome::Quantise(QuantiseStats {
        output: job.output.clone(),
    }))
}

/// A tensor's values, widened where they are narrower.
pub(crate) fn values_of(name: &str, view: &TensorView<'_>) -> Result<Vec<f32>, JobError> {
    let kind = match view.dtype() {
        Dtype::F32 => Kind::Float,
        Dtype::BF16 => Kind::BFloat16,
        Dtype::F16 => Kind::Half,
        other => {
            return Err(JobError::Request(format!(
                "{name} is {other:?}, and weights are F32, BF16 or F16"
            )));
        }
    };
    let length = view.data().len() * 8 / view.dtype().bitsize();
    let tensor = Tensor::f_from_data_size(view.data(), &[length as i64], kind)?.to_kind(Kind::Float);
    Ok(Vec::try_from(tensor)?)
}
