//! LoRA adapters: one flat f32 tensor for all weights and one for all gradients, with a view for each matrix.
//!
//! Flat tensors make the optimizer, the norm and the clip one operation each (DESIGN 5). On disk an adapter is
//! PEFT's: `adapter_model.safetensors` and `adapter_config.json`.

use std::collections::BTreeMap;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};
use tunesmith_models::ModelConfig;
use tunesmith_protocol::{Lora, TARGET_MODULES};

use crate::base::{self, AdapterBase};
use crate::error::JobError;

/// Inner and outer dimension `(in, out)` of a projection.
pub(crate) fn module_shape(config: &ModelConfig, module: &str) -> Option<(i64, i64)> {
    let hidden = config.hidden_size as i64;
    let query = (config.heads * config.head_dim) as i64;
    let key = (config.kv_heads * config.head_dim) as i64;
    let inner = config.intermediate_size as i64;
    Some(match module {
        "q_proj" => (hidden, query),
        "k_proj" | "v_proj" => (hidden, key),
        "o_proj" => (query, hidden),
        "gate_proj" | "up_proj" => (hidden, inner),
        "down_proj" => (inner, hidden),
        _ => return None,
    })
}

/// The Hugging Face name of a projection's place.
pub(crate) fn module_path(layer: usize, module: &str) -> String {
    let part = if matches!(module, "q_proj" | "k_proj" | "v_proj" | "o_proj") {
        "self_attn"
    } else {
        "mlp"
    };
    format!("model.layers.{layer}.{part}.{module}")
}

/// The part of `adapter_config.json` that matters here; PEFT ignores nothing and needs little more.
#[derive(Debug, Serialize, Deserialize)]
struct PeftConfig {
    peft_type: String,
    #[serde(default)]
    task_type: Option<String>,
    #[serde(default)]
    base_model_name_or_path: Option<String>,
    /// Commit of a base that comes from a hub.
    #[serde(default)]
    revision: Option<String>,
    r: i64,
    lora_alpha: f64,
    #[serde(default)]
    lora_dropout: f64,
    target_modules: Vec<String>,
    #[serde(default)]
    bias: Option<String>,
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default)]
    inference_mode: bool,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
}

/// Projections that read the same input. Their A matrices lie one above the other in the flat tensor, so that all of
/// them are one product.
const GROUPS: [&[&str]; 4] = [&QKV, &O, &GATE_UP, &DOWN];
pub(crate) const QKV: [&str; 3] = ["q_proj", "k_proj", "v_proj"];
pub(crate) const O: [&str; 1] = ["o_proj"];
pub(crate) const GATE_UP: [&str; 2] = ["gate_proj", "up_proj"];
pub(crate) const DOWN: [&str; 1] = ["down_proj"];

/// Where a projection's adapter lies in the flat tensors.
struct Slot {
    layer: usize,
    module: &'static str,
    inputs: i64,
    outputs: i64,
    a_offset: i64,
    b_offset: i64,
}

/// All adapters of a model.
pub(crate) struct Adapter {
    rank: i64,
    alpha: f64,
    modules: Vec<&'static str>,
    slots: Vec<Slot>,
    /// All A and B, f32 `[parameters]`.
    pub(crate) weights: Tensor,
    /// Gradients in the same order, f32 `[parameters]`; absent when the adapter only answers.
    pub(crate) gradients: Option<Tensor>,
    compute: Tensor,
}

/// The adapters of projections that read the same input: views into the flat tensors.
pub(crate) struct LoraGroup {
    /// The A of all of them, one above the other: `[adapters × rank, in]`, in the compute format.
    pub(crate) a: Tensor,
    /// f32 view for the gradient of `a`.
    pub(crate) grad_a: Option<Tensor>,
    /// One B for each projection that has an adapter.
    pub(crate) adapters: Vec<LoraB>,
    /// alpha / rank.
    pub(crate) scale: f64,
}

/// One projection's B.
pub(crate) struct LoraB {
    /// Place of the projection in its group.
    pub(crate) projection: usize,
    /// `[out, rank]`, in the compute format.
    pub(crate) b: Tensor,
    /// f32 view for the gradient of `b`.
    pub(crate) grad_b: Option<Tensor>,
}

impl LoraGroup {
    /// The columns of one adapter in `xa` `[tokens, adapters × rank]`.
    pub(crate) fn columns_of(&self, xa: &Tensor, adapter: usize) -> Tensor {
        let rank = self.adapters[adapter].b.size()[1];
        xa.narrow(1, adapter as i64 * rank, rank)
    }
}

impl Adapter {
    fn layout(config: &ModelConfig, lora: &Lora) -> Result<(Vec<&'static str>, Vec<Slot>, i64), JobError> {
        let mut modules = Vec::new();
        for name in &lora.target_modules {
            if !TARGET_MODULES.contains(&name.as_str()) {
                return Err(JobError::Adapter(format!(
                    "`{name}` is no projection that can carry an adapter; there are {}",
                    TARGET_MODULES.join(", ")
                )));
            }
        }
        for module in TARGET_MODULES {
            if lora.target_modules.iter().any(|name| name == module) {
                modules.push(module);
            }
        }
        let mut slots = Vec::new();
        let mut offset = 0;
        for layer in 0..config.layers {
            for group in GROUPS {
                let first = slots.len();
                for &module in modules.iter().filter(|module| group.contains(module)) {
                    let Some((inputs, outputs)) = module_shape(config, module) else {
                        continue;
                    };
                    slots.push(Slot {
                        layer,
                        module,
                        inputs,
                        outputs,
                        a_offset: offset,
                        b_offset: 0,
                    });
                    offset += lora.rank * inputs;
                }
                for slot in &mut slots[first..] {
                    slot.b_offset = offset;
                    offset += lora.rank * slot.outputs;
                }
            }
        }
        if slots.is_empty() || lora.rank < 1 {
            return Err(JobError::Adapter(
                "the adapter has no weights: name at least one projection and a rank of 1".into(),
            ));
        }
        Ok((modules, slots, offset))
    }

    fn new(
        config: &ModelConfig,
        lora: &Lora,
        values: &[f32],
        device: Device,
        kind: Kind,
        train: bool,
    ) -> Result<Self, JobError> {
        let (modules, slots, total) = Self::layout(config, lora)?;
        let weights = Tensor::from_slice(values).to_device(device);
        let compute = if kind == Kind::Float {
            weights.shallow_clone()
        } else {
            weights.to_kind(kind)
        };
        let gradients = train.then(|| Tensor::zeros([total], (Kind::Float, device)));
        Ok(Self {
            rank: lora.rank,
            alpha: lora.alpha,
            modules,
            slots,
            weights,
            gradients,
            compute,
        })
    }

    /// A fresh adapter: A uniform in ±1/√in as PEFT starts it, B zero, so that the first step begins at the base model.
    pub(crate) fn fresh(
        config: &ModelConfig,
        lora: &Lora,
        seed: u64,
        device: Device,
        kind: Kind,
    ) -> Result<Self, JobError> {
        let (_, slots, total) = Self::layout(config, lora)?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut values = vec![0f32; total as usize];
        for slot in &slots {
            let bound = 1.0 / (slot.inputs as f32).sqrt();
            let start = slot.a_offset as usize;
            for value in &mut values[start..start + (lora.rank * slot.inputs) as usize] {
                *value = random.random_range(-bound..bound);
            }
        }
        Self::new(config, lora, &values, device, kind, true)
    }

    /// Reads an adapter folder in PEFT's format.
    ///
    /// # Errors
    /// [`JobError::Adapter`] when the folder is no LoRA adapter for this model.
    pub(crate) fn load(
        dir: &Path,
        config: &ModelConfig,
        device: Device,
        kind: Kind,
        train: bool,
    ) -> Result<Self, JobError> {
        let config_path = dir.join("adapter_config.json");
        let text =
            std::fs::read_to_string(&config_path).map_err(|error| JobError::read(&config_path, error))?;
        let peft: PeftConfig = serde_json::from_str(&text).map_err(|error| {
            JobError::Adapter(format!("{} is not PEFT's: {error}", config_path.display()))
        })?;
        if peft.peft_type != "LORA" || peft.use_dora || peft.fan_in_fan_out {
            return Err(JobError::Adapter(format!(
                "{} is no plain LoRA adapter",
                dir.display()
            )));
        }
        let alpha = if peft.use_rslora {
            peft.lora_alpha * (peft.r as f64).sqrt()
        } else {
            peft.lora_alpha
        };
        let lora = Lora {
            rank: peft.r,
            alpha,
            target_modules: peft.target_modules,
        };
        let (_, slots, total) = Self::layout(config, &lora)?;
        let path = dir.join("adapter_model.safetensors");
        let bytes = std::fs::read(&path).map_err(|error| JobError::read(&path, error))?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|error| JobError::Adapter(format!("{} cannot be read: {error}", path.display())))?;
        let mut values = vec![0f32; total as usize];
        for slot in &slots {
            for (part, shape, offset) in slot.parts(lora.rank) {
                let name = slot.peft_name(part);
                let view = tensors.tensor(&name).map_err(|_| {
                    JobError::Adapter(format!(
                        "{} lacks {name}: it belongs to another model",
                        path.display()
                    ))
                })?;
                if view.shape() != shape || view.dtype() != Dtype::F32 {
                    return Err(JobError::Adapter(format!(
                        "{name} is {:?} {:?}, and this model needs F32 {shape:?}",
                        view.dtype(),
                        view.shape()
                    )));
                }
                for (value, chunk) in values[offset..].iter_mut().zip(view.data().chunks_exact(4)) {
                    *value = f32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
                }
            }
        }
        Self::new(config, &lora, &values, device, kind, train)
    }

    /// Writes the adapter in PEFT's format, beside `dir` first.
    pub(crate) fn save(&self, dir: &Path, trained_on: &AdapterBase) -> Result<(), JobError> {
        let partial = dir.with_extension("partial");
        if partial.exists() {
            std::fs::remove_dir_all(&partial).map_err(|error| JobError::write(&partial, error))?;
        }
        std::fs::create_dir_all(&partial).map_err(|error| JobError::write(&partial, error))?;
        let values = Vec::<f32>::try_from(self.weights.to_device(Device::Cpu)).map_err(JobError::from)?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut tensors = BTreeMap::new();
        for slot in &self.slots {
            for (part, shape, offset) in slot.parts(self.rank) {
                let count: usize = shape.iter().product();
                let view = TensorView::new(Dtype::F32, shape, &bytes[offset * 4..(offset + count) * 4])
                    .map_err(|error| JobError::Adapter(error.to_string()))?;
                tensors.insert(slot.peft_name(part), view);
            }
        }
        let path = partial.join("adapter_model.safetensors");
        let file =
            safetensors::serialize(tensors, None).map_err(|error| JobError::Adapter(error.to_string()))?;
        std::fs::write(&path, file).map_err(|error| JobError::write(&path, error))?;
        let config = PeftConfig {
            peft_type: "LORA".into(),
            task_type: Some("CAUSAL_LM".into()),
            base_model_name_or_path: Some(trained_on.model.clone()),
            revision: trained_on.revision.clone(),
            r: self.rank,
            lora_alpha: self.alpha,
            lora_dropout: 0.0,
            target_modules: self.modules.iter().map(|module| (*module).to_owned()).collect(),
            bias: Some("none".into()),
            fan_in_fan_out: false,
            inference_mode: true,
            use_rslora: false,
            use_dora: false,
        };
        write_json(&partial.join("adapter_config.json"), &config)?;
        write_json(&partial.join(base::FILE), trained_on)?;
        if dir.exists() {
            std::fs::remove_dir_all(dir).map_err(|error| JobError::write(dir, error))?;
        }
        std::fs::rename(&partial, dir).map_err(|error| JobError::write(dir, error))
    }

    /// Parameters that are trained.
    pub(crate) fn parameters(&self) -> u64 {
        self.weights.size()[0] as u64
    }

    /// After the optimizer changed `weights`: brings the copies that compute up to date.
    pub(crate) fn refresh(&mut self) {
        if self.compute.kind() != Kind::Float {
            self.compute.copy_(&self.weights);
        }
    }

    /// The views of a layer's projections `modules`, which read the same input; nothing where none has an adapter.
    pub(crate) fn group(&self, layer: usize, modules: &[&str]) -> Option<LoraGroup> {
        let slots: Vec<_> = self
            .slots
            .iter()
            .filter(|slot| slot.layer == layer && modules.contains(&slot.module))
            .collect();
        let first = slots.first()?;
        let rows = self.rank * slots.len() as i64;
        let a_of = |flat: &Tensor| {
            flat.narrow(0, first.a_offset, rows * first.inputs)
                .view([rows, first.inputs])
        };
        let adapters = slots
            .iter()
            .filter_map(|slot| {
                Some(LoraB {
                    projection: modules.iter().position(|&module| module == slot.module)?,
                    b: slot.b(&self.compute, self.rank),
                    grad_b: self.gradients.as_ref().map(|flat| slot.b(flat, self.rank)),
                })
            })
            .collect();
        Some(LoraGroup {
            a: a_of(&self.compute),
            grad_a: self.gradients.as_ref().map(a_of),
            adapters,
            scale: self.alpha / self.rank as f64,
        })
    }

    /// Norms of the gradients of each B matrix: a B that never gets one is a dead adapter (T5).
    pub(crate) fn gradient_norms_of_b(&self) -> Vec<f64> {
        let Some(flat) = &self.gradients else {
            return vec![];
        };
        self.slots
            .iter()
            .map(|slot| slot.b(flat, self.rank).norm().double_value(&[]))
            .collect()
    }
}

impl Slot {
    fn peft_name(&self, part: &str) -> String {
        format!(
            "base_model.model.{}.lora_{part}.weight",
            module_path(self.layer, self.module)
        )
    }

    /// `(letter, shape, offset in the flat tensor)` of A and of B.
    fn parts(&self, rank: i64) -> [(&'static str, Vec<usize>, usize); 2] {
        let a = vec![rank as usize, self.inputs as usize];
        let b = vec![self.outputs as usize, rank as usize];
        [("A", a, self.a_offset as usize), ("B", b, self.b_offset as usize)]
    }

    /// B's view `[out, rank]` into a flat tensor.
    fn b(&self, flat: &Tensor, rank: i64) -> Tensor {
        flat.narrow(0, self.b_offset, rank * self.outputs)
            .view([self.outputs, rank])
    }
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), JobError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| JobError::Adapter(error.to_string()))?;
    std::fs::write(path, text).map_err(|error| JobError::write(path, error))
}
