//! A decoder of the Llama family on a device: loading, the training pass and its way back.

use std::path::Path;
use std::time::Instant;

use tch::{Device, Kind, Tensor};
use tunesmith_models::{Model, ModelConfig};
use tunesmith_protocol::DType;

use crate::adapter::Adapter;
use crate::batch::{Packed, frequencies};
use crate::error::JobError;
use crate::layer::{Layer, Linear, Norm, Tape};
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
    embedding: Tensor,
    pub(crate) layers: Vec<Layer>,
    pub(crate) final_norm: Norm,
    /// `[vocabulary, hidden]`; the embedding itself where they are tied.
    pub(crate) head: Tensor,
}

/// What to keep of a forward pass for the backward pass.
enum Kept {
    /// All that the layer needs.
    Tape(Box<Tape>),
    /// The layer's input; the rest is computed again.
    Input(Tensor),
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
        let mut read = |name: &str| -> Result<Tensor, JobError> {
            let (shape, values) = model.read_f32(name)?;
            let shape: Vec<i64> = shape.iter().map(|&side| side as i64).collect();
            done += 1;
            if done == total || started.elapsed().as_secs_f64() - last > 0.5 {
                last = started.elapsed().as_secs_f64();
                progress("load", done, total, "tensors", started);
            }
            Ok(Tensor::f_from_slice(&values)?
                .f_view(shape.as_slice())?
                .f_to_kind(kind)?
                .f_to_device(device)?)
        };
        let eps = config.rms_norm_eps;
        let embedding = read("model.embed_tokens.weight")?;
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            let path = |part: &str| format!("model.layers.{index}.{part}");
            let mut linear = |part: &str, biased: bool| -> Result<Linear, JobError> {
                Ok(Linear {
                    weight: read(&path(&format!("{part}.weight")))?,
                    bias: if biased {
                        Some(read(&path(&format!("{part}.bias")))?)
                    } else {
                        None
                    },
                    lora: None,
                })
            };
            let q = linear("self_attn.q_proj", config.qkv_bias)?;
            let k = linear("self_attn.k_proj", config.qkv_bias)?;
            let v = linear("self_attn.v_proj", config.qkv_bias)?;
            let o = linear("self_attn.o_proj", config.output_bias)?;
            let gate = linear("mlp.gate_proj", false)?;
            let up = linear("mlp.up_proj", false)?;
            let down = linear("mlp.down_proj", false)?;
            let mut norm = |part: &str| -> Result<Norm, JobError> {
                Ok(Norm {
                    weight: read(&path(part))?,
                    eps,
                })
            };
            layers.push(Layer {
                heads: config.heads as i64,
                kv_heads: config.kv_heads as i64,
                head_dim: config.head_dim as i64,
                input_norm: norm("input_layernorm.weight")?,
                q,
                k,
                v,
                qk_norm: if config.qk_norm {
                    Some((norm("self_attn.q_norm.weight")?, norm("self_attn.k_norm.weight")?))
                } else {
                    None
                },
                o,
                post_norm: norm("post_attention_layernorm.weight")?,
                gate,
                up,
                down,
            });
        }
        let final_norm = Norm {
            weight: read("model.norm.weight")?,
            eps,
        };
        let head = if config.tied_embeddings {
            embedding.shallow_clone()
        } else {
            read("lm_head.weight")?
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
            layer.q.lora = adapter.pair(index, "q_proj");
            layer.k.lora = adapter.pair(index, "k_proj");
            layer.v.lora = adapter.pair(index, "v_proj");
            layer.o.lora = adapter.pair(index, "o_proj");
            layer.gate.lora = adapter.pair(index, "gate_proj");
            layer.up.lora = adapter.pair(index, "up_proj");
            layer.down.lora = adapter.pair(index, "down_proj");
        }
    }

    /// ids i64 `[tokens]` → `[tokens, hidden]`.
    pub(crate) fn embed(&self, ids: &Tensor) -> Tensor {
        self.embedding.index_select(0, ids)
    }

    /// Hidden states after the last layer, before the final norm, for rows that are only looked at.
    pub(crate) fn hidden(&self, batch: &Packed) -> Tensor {
        self.layers.iter().fold(self.embed(&batch.input_ids), |x, layer| {
            layer.forward(&x, batch).0
        })
    }

    /// One micro-batch forward and backward: adds to the adapters' gradients and gives the sum of the losses.
    ///
    /// The loss of each target is weighted by `scale`, one over the supervised tokens of the whole optimizer step,
    /// so that accumulated passes add up to one big batch (T4).
    pub(crate) fn train_pass(&self, batch: &Packed, scale: f64, recompute: bool) -> f64 {
        let mut kept = Vec::with_capacity(self.layers.len());
        let mut x = self.embed(&batch.input_ids);
        for layer in &self.layers {
            let (y, tape) = layer.forward(&x, batch);
            kept.push(if recompute {
                Kept::Input(x)
            } else {
                Kept::Tape(Box::new(tape))
            });
            x = y;
        }
        let predicting = x.index_select(0, &batch.predicting);
        let (normed, reciprocal) = self.final_norm.forward(&predicting);
        let (loss_sum, d_normed) = loss::cross_entropy(&normed, &self.head, &batch.targets, scale);
        let d_predicting = self.final_norm.backward(&predicting, &reciprocal, &d_normed);
        let mut dx = Tensor::zeros_like(&x);
        let _ = dx.index_copy_(0, &batch.predicting, &d_predicting);
        drop(x);
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let Some(saved) = kept.pop() else { break };
            let tape = match saved {
                Kept::Tape(tape) => *tape,
                Kept::Input(input) => layer.forward(&input, batch).1,
            };
            // Nothing below the first layer is trained, so nothing wants its input's gradient.
            match layer.backward(&tape, &dx, batch, index > 0) {
                Some(next) => dx = next,
                None => break,
            }
        }
        loss_sum
    }
}
