//! A decoder of the Llama family on a device: loading, the training pass and its way back.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use tch::{Device, Kind, Tensor};
use tunesmith_models::{Model, ModelConfig};
use tunesmith_protocol::{Attention, DType, Quantization, Recompute};

use crate::adapter::{Adapter, DOWN, GATE_UP, O, QKV, module_path, module_shape};
use crate::batch::{Packed, frequencies};
use crate::error::JobError;
use crate::layer::{Layer, Norm, Projections};
use crate::loss;
use crate::nf4::{Nf4, Tables, Weight};
use crate::out::progress;

/// torch's name of a number format.
pub(crate) fn kind_of(dtype: DType) -> Kind {
    match dtype {
        DType::F32 => Kind::Float,
        DType::Bf16 => Kind::BFloat16,
        DType::F16 => Kind::Half,
    }
}

/// Reads a model's tensors, with progress.
struct Reader<'a> {
    model: &'a Model,
    device: Device,
    kind: Kind,
    tables: Rc<Tables>,
    started: Instant,
    done: u64,
    total: u64,
    /// Seconds after the start at which progress was last told.
    told: f64,
}

impl<'a> Reader<'a> {
    fn new(model: &'a Model, device: Device, kind: Kind) -> Self {
        Self {
            model,
            device,
            kind,
            tables: Tables::new(device),
            started: Instant::now(),
            done: 0,
            total: model.config().expected_tensors().len() as u64,
            told: 0.0,
        }
    }

    fn values(&mut self, name: &str) -> Result<(Vec<usize>, Vec<f32>), JobError> {
        let tensor = self.model.read_f32(name)?;
        self.done += 1;
        let elapsed = self.started.elapsed().as_secs_f64();
        if self.done == self.total || elapsed - self.told > 0.5 {
            self.told = elapsed;
            progress("load", self.done, self.total, "tensors", self.started);
        }
        Ok(tensor)
    }

    /// Tensors of the same number of columns, one above the other; one alone is as it is.
    fn read(&mut self, names: &[String]) -> Result<Tensor, JobError> {
        let (mut shape, mut values) = (Vec::new(), Vec::new());
        for name in names {
            let (part, mut more) = self.values(name)?;
            if shape.is_empty() {
                (shape, values) = (part, more);
            } else {
                shape[0] += part[0];
                values.append(&mut more);
            }
        }
        let shape: Vec<i64> = shape.iter().map(|&side| side as i64).collect();
        Ok(Tensor::f_from_slice(&values)?
            .f_view(shape.as_slice())?
            .f_to_kind(self.kind)?
            .f_to_device(self.device)?)
    }

    /// Matrices of the same number of columns, each quantised by itself.
    fn read_nf4(&mut self, names: &[String]) -> Result<Weight, JobError> {
        let mut parts = Vec::with_capacity(names.len());
        for name in names {
            let (shape, values) = self.values(name)?;
            let columns = shape.last().copied().unwrap_or(1) as i64;
            parts.push(Nf4::quantise(name, &values, columns, &self.tables)?);
        }
        Ok(Weight::Nf4(parts, self.kind))
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
    /// Reads all weights, one tensor at a time, with progress. Those that are quantised are so before the next one is
    /// read, so that no more than one of them is ever held in full.
    pub(crate) fn load(
        model: &Model,
        device: Device,
        dtype: DType,
        quantization: Quantization,
    ) -> Result<Self, JobError> {
        let config = model.config().clone();
        let mut reader = Reader::new(model, device, kind_of(dtype));
        let eps = config.rms_norm_eps;
        let embedding = reader.read(&["model.embed_tokens.weight".to_owned()])?;
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
                let weight = match quantization {
                    Quantization::None => reader.read(&names("weight"))?.into(),
                    Quantization::Nf4 => reader.read_nf4(&names("weight"))?,
                };
                let bias = if biased {
                    Some(reader.read(&names("bias"))?)
                } else {
                    None
                };
                Ok(Projections::new(weight, bias, &widths))
            };
            let qkv = projections(&QKV, config.qkv_bias)?;
            let o = projections(&O, config.output_bias)?;
            let gate_up = projections(&GATE_UP, false)?;
            let down = projections(&DOWN, false)?;
            let mut norm = |part: &str| -> Result<Norm, JobError> {
                Ok(Norm {
                    weight: reader.read(&[format!("model.layers.{index}.{part}.weight")])?,
                    eps,
                })
            };
            layers.push(Layer {
                attention: Attention::Sdpa,
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
            weight: reader.read(&["model.norm.weight".to_owned()])?,
            eps,
        };
        let head = if config.tied_embeddings {
            embedding.shallow_clone()
        } else {
            reader.read(&["lm_head.weight".to_owned()])?
        };
        let inverse_frequencies = frequencies(&config.inverse_frequencies(), device);
        Ok(Self {
            config,
            device,
            kind: reader.kind,
            inverse_frequencies,
            embedding,
            layers,
            final_norm,
            head,
        })
    }

    /// Opens a model file or folder and loads it.
    pub(crate) fn open(
        path: &Path,
        device: Device,
        dtype: DType,
        quantization: Quantization,
    ) -> Result<(Model, Self), JobError> {
        let model = Model::open(path)?;
        let decoder = Self::load(&model, device, dtype, quantization)?;
        Ok((model, decoder))
    }

    /// How attention is computed from now on.
    pub(crate) fn set_attention(&mut self, attention: Attention) {
        for layer in &mut self.layers {
            layer.attention = attention;
        }
    }

    /// Every tensor of the base model once, as it is stored.
    pub(crate) fn tensors(&self) -> Vec<&Tensor> {
        let mut all = self.never_quantised();
        for layer in &self.layers {
            for linear in layer.projections() {
                all.extend(linear.weight.tensors());
            }
        }
        all
    }

    /// Bytes of the base model as it is stored on the device (T6).
    pub(crate) fn weight_bytes(&self) -> u64 {
        let linear = self.layers.iter().flat_map(Layer::projections);
        let others = self.never_quantised().into_iter();
        linear.map(|linear| linear.weight.bytes()).sum::<u64>()
            + others
                .map(|tensor| (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64)
                .sum::<u64>()
    }

    /// Embeddings, norms and biases.
    fn never_quantised(&self) -> Vec<&Tensor> {
        let mut all = vec![&self.embedding, &self.final_norm.weight];
        if !self.config.tied_embeddings {
            all.push(&self.head);
        }
        for layer in &self.layers {
            all.extend([&layer.input_norm.weight, &layer.post_norm.weight]);
            all.extend(
                layer
                    .projections()
                    .iter()
                    .filter_map(|linear| linear.bias.as_ref()),
            );
            if let Some((q, k)) = &layer.qk_norm {
                all.extend([&q.weight, &k.weight]);
            }
        }
        all
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
