//! A decoder of the Llama family on a device: loading, the training pass and its way back.

use std::path::Path;
use std::time::Instant;

use tch::{Device, Kind, Tensor};
use tunesmith_models::{Model, ModelConfig};
use tunesmith_protocol::{DType, Recompute};

use crate::adapter::{Adapter, DOWN, GATE_UP, O, QKV, module_path, module_shape};
use crate::batch::{Packed, frequencies};
use crate::error::JobError;
use crate::layer::{Layer, Norm, Projections};
use crate::loss;
use crate::out::progress;

/// torch's name of a number format.
pub(crate) fn kind_of(dtype: DType) -> Kind {
    match dtype {
        DType::F32 => Kind::Float,
        DType::Bf16 => Kind::BFloat16,
        DType::F16 => Kind::Half,
    }
}

/// Frozen weights, with adapters hung in.
pub(crate) struct Decoder {
    pub(crate) config: ModelConfig,
    pub(crate) device: Device,
    pub(crate) kind: Kind,
    /// f32 `[head_dim / 2]`.
    pub(crate) inverse_frequencies: Tensor,
    /// `[vocabulary, hidden]`.
    pub(crate) embedding: Tensor,
    pub(crate) layers: Vec<Layer>,
    pub(crate) final_norm: Norm,
    /// `[vocabulary, hidden]`; the embedding itself where they are tied.
    pub(crate) head: Tensor,
}

impl Decoder {
    /// Reads all weights, one tensor at a time, with progress.
    pub(crate) fn load(model: &Model, device: Device, dtype: DType) -> Result<Self, JobError> {
        let started = Instant::now();
        let config = model.config().clone();
        let kind = kind_of(dtype);
        let total = config.expected_tensors().len() as u64;
        let mut done = 0;
        let mut last = 0.0;
        // Tensors of the same number of columns, one above the other; one alone is as it is.
        let mut read = |names: &[String]| -> Result<Tensor, JobError> {
            let (mut shape, mut values) = (Vec::new(), Vec::new());
            for name in names {
                let (part, mut more) = model.read_f32(name)?;
                if shape.is_empty() {
                    (shape, values) = (part, more);
                } else {
                    shape[0] += part[0];
                    values.append(&mut more);
                }
                done += 1;
                if done == total || started.elapsed().as_secs_f64() - last > 0.5 {
                    last = started.elapsed().as_secs_f64();
                    progress("load", done, total, "tensors", started);
                }
            }
            let shape: Vec<i64> = shape.iter().map(|&side| side as i64).collect();
            Ok(Tensor::f_from_slice(&values)?
                .f_view(shape.as_slice())?
                .f_to_kind(kind)?
                .f_to_device(device)?)
        };
        let eps = config.rms_norm_eps;
        let embedding = read(&["model.embed_tokens.weight".to_owned()])?;
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            let mut projections = |modules: &[&str], biased: bool| -> Result<Projections, JobError> {
                let names = |kind: &str| -> Vec<String> {
                    modules
                        .iter()
                        .map(|module| format!("{}.{kind}", module_path(index, module)))
                        .collect()
                };
                let widths: Vec<i64> = modules
                    .iter()
                    .filter_map(|module| module_shape(&config, module))
                    .map(|(_, outputs)| outputs)
                    .collect();
                let weight = read(&names("weight"))?;
                let bias = if biased { Some(read(&names("bias"))?) } else { None };
                Ok(Projections::new(weight, bias, &widths))
            };
            let qkv = projections(&QKV, config.qkv_bias)?;
            let o = projections(&O, config.output_bias)?;
            let gate_up = projections(&GATE_UP, false)?;
            let down = projections(&DOWN, false)?;
            let mut norm = |part: &str| -> Result<Norm, JobError> {
                Ok(Norm {
                    weight: read(&[format!("model.layers.{index}.{part}.weight")])?,
                    eps,
                })
            };
            layers.push(Layer {
                heads: config.heads as i64,
                kv_heads: config.kv_heads as i64,
                head_dim: config.head_dim as i64,
                input_norm: norm("input_layernorm")?,
                qkv,
                qk_norm: if config.qk_norm {
                    Some((norm("self_attn.q_norm")?, norm("self_attn.k_norm")?))
                } else {
                    None
                },
                o,
                post_norm: norm("post_attention_layernorm")?,
                gate_up,
                down,
            });
        }
        let final_norm = Norm {
            weight: read(&["model.norm.weight".to_owned()])?,
            eps,
        };
        let head = if config.tied_embeddings {
            embedding.shallow_clone()
        } else {
            read(&["lm_head.weight".to_owned()])?
        };
        let inverse_frequencies = frequencies(&config.inverse_frequencies(), device);
        Ok(Self {
            config,
            device,
            kind,
            inverse_frequencies,
            embedding,
            layers,
            final_norm,
            head,
        })
    }

    /// Opens a model file or folder and loads it.
    pub(crate) fn open(path: &Path, device: Device, dtype: DType) -> Result<(Model, Self), JobError> {
        let model = Model::open(path)?;
        let decoder = Self::load(&model, device, dtype)?;
        Ok((model, decoder))
    }

    /// Hangs an adapter's views into the projections.
    pub(crate) fn attach(&mut self, adapter: &Adapter) {
        for (index, layer) in self.layers.iter_mut().enumerate() {
            layer.qkv.lora = adapter.group(index, &QKV);
            layer.o.lora = adapter.group(index, &O);
            layer.gate_up.lora = adapter.group(index, &GATE_UP);
            layer.down.lora = adapter.group(index, &DOWN);
        }
    }

    /// ids i64 `[tokens]` → `[tokens, hidden]`.
    pub(crate) fn embed(&self, ids: &Tensor) -> Tensor {
        self.embedding.index_select(0, ids)
    }

    /// Hidden states after the last layer, before the final norm, for rows that are only looked at.
    pub(crate) fn hidden(&self, batch: &Packed) -> Tensor {
        self.layers.iter().fold(self.embed(&batch.input_ids), |x, layer| {
            layer.forward(&x, batch, Recompute::Layer).0
        })
    }

    /// One micro-batch forward and backward: adds to the adapters' gradients and gives the sum of the losses.
    ///
    /// The loss of each target is weighted by `scale`, one over the supervised tokens of the whole optimizer step,
    /// so that accumulated passes add up to one big batch (T4).
    pub(crate) fn train_pass(&self, batch: &Packed, scale: f64, recompute: Recompute) -> f64 {
        let mut tapes = Vec::with_capacity(self.layers.len());
        let mut x = self.embed(&batch.input_ids);
        for layer in &self.layers {
            let (y, tape) = layer.forward(&x, batch, recompute);
            tapes.push(tape);
            x = y;
        }
        let predicting = x.index_select(0, &batch.predicting);
        let (normed, reciprocal) = self.final_norm.forward(&predicting);
        let (loss_sum, d_normed) = loss::cross_entropy(&normed, &self.head, &batch.targets, scale);
        let d_predicting = self.final_norm.backward(&predicting, &reciprocal, d_normed);
        let mut dx = Tensor::zeros_like(&x);
        let _ = dx.index_copy_(0, &batch.predicting, &d_predicting);
        drop(x);
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let Some(tape) = tapes.pop() else { break };
            // Nothing below the first layer is trained, so nothing wants its input's gradient.
            match layer.backward(tape, dx, batch, index > 0) {
                Some(next) => dx = next,
                None => break,
            }
        }
        loss_sum
    }
}
