//! Logits of given rows, for parity checks.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::{Dtype, tensor::TensorView};
use tch::{Device, Kind, Tensor};
use tunesmith_data::Row;
use tunesmith_models::Model;
use tunesmith_protocol::{Base, DType, LogitsJob, LogitsStats, OtherBase, Outcome, Prompt, Quantization};

use crate::adapter::Adapter;
use crate::base;
use crate::batch::Packed;
use crate::error::JobError;
use crate::model::Decoder;

/// Reads a JSON-lines file of prompts.
pub(crate) fn read_prompts(path: &Path) -> Result<Vec<Prompt>, JobError> {
    let text = std::fs::read_to_string(path).map_err(|error| JobError::read(path, error))?;
    let mut prompts: Vec<Prompt> = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let prompt: Prompt = serde_json::from_str(line)
            .map_err(|error| JobError::Request(format!("{} line {}: {error}", path.display(), index + 1)))?;
        if prompt.input_ids.is_empty() {
            return Err(JobError::Request(format!(
                "{} line {}: a prompt without tokens",
                path.display(),
                index + 1
            )));
        }
        prompts.push(prompt);
    }
    Ok(prompts)
}

/// A prompt as a row in which nothing is trained.
pub(crate) fn row_of(prompt: &Prompt) -> Row {
    Row {
        input_ids: prompt.input_ids.clone(),
        supervised: vec![false; prompt.input_ids.len()],
    }
}

/// Refuses token ids beyond the vocabulary, which torch would read out of bounds on some devices.
pub(crate) fn check_prompts(prompts: &[Prompt], decoder: &Decoder) -> Result<(), JobError> {
    let vocabulary = decoder.config.vocab_size as u32;
    match prompts
        .iter()
        .find(|prompt| prompt.input_ids.iter().any(|&id| id >= vocabulary))
    {
        Some(prompt) => Err(JobError::Request(format!(
            "prompt `{}` has a token beyond the model's vocabulary of {vocabulary}",
            prompt.id
        ))),
        None => Ok(()),
    }
}

/// A model with an adapter on it.
pub(crate) struct Opened {
    pub(crate) model: Model,
    pub(crate) decoder: Decoder,
    /// Where the adapter was trained on another base.
    pub(crate) other_base: Option<OtherBase>,
}

impl Opened {
    /// Loads a model, and an adapter onto it where one is named. Whether it is the very model that the adapter was trained
    /// on is the parent's to know: reading all of a large model for its fingerprint takes as long as many answers.
    pub(crate) fn new(
        model: &Path,
        adapter: Option<&Path>,
        device: Device,
        (dtype, quantization): (DType, Quantization),
    ) -> Result<Self, JobError> {
        let (model, mut decoder) = Decoder::open(model, device, dtype, quantization)?;
        let mut other_base = None;
        if let Some(dir) = adapter {
            let adapter = Adapter::load(dir, &decoder.config, device, decoder.kind, false)?;
            decoder.attach(&adapter);
            let put_on = Base {
                fingerprint: None,
                dtype,
                quantization,
            };
            other_base = base::other_base(dir, &put_on);
        }
        Ok(Self {
            model,
            decoder,
            other_base,
        })
    }
}

/// Writes a file beside its place and renames it.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> Result<(), JobError> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, content)
        .and_then(|()| std::fs::rename(&partial, path))
        .map_err(|error| JobError::write(path, error))
}

/// Writes one f32 tensor `[tokens, vocabulary]` per prompt.
pub(crate) fn logits(job: &LogitsJob, device: Device) -> Result<Outcome, JobError> {
    let _guard = tch::no_grad_guard();
    let prompts = read_prompts(&job.prompts)?;
    let Opened {
        decoder, other_base, ..
    } = Opened::new(
        &job.model,
        job.adapter.as_deref(),
        device,
        (job.dtype, job.quantization),
    )?;
    check_prompts(&prompts, &decoder)?;
    let rows: Vec<Row> = prompts.iter().map(row_of).collect();
    let batch = Packed::new(
        &rows.iter().collect::<Vec<_>>(),
        &decoder.inverse_frequencies,
        decoder.kind,
    );
    let (normed, _) = decoder.final_norm.forward(&decoder.hidden(&batch));
    let mut tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    for (prompt, (start, length)) in prompts.iter().zip(batch.spans()) {
        let logits: Tensor = normed
            .narrow(0, start, length)
            .matmul(&decoder.head.tr())
            .to_kind(Kind::Float);
        let values = Vec::<f32>::try_from(logits.to_device(Device::Cpu).flatten(0, -1))?;
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        tensors.insert(
            prompt.id.clone(),
            (vec![length as usize, decoder.config.vocab_size], bytes),
        );
    }
    let mut views = Vec::new();
    for (id, (shape, bytes)) in &tensors {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes)
            .map_err(|error| JobError::Request(error.to_string()))?;
        views.push((id, view));
    }
    let file = safetensors::serialize(views, None).map_err(|error| JobError::Request(error.to_string()))?;
    write_whole(&job.output, &file)?;
    Ok(Outcome::Logits(LogitsStats {
        output: job.output.clone(),
        other_base,
    }))
}
