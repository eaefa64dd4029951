//! What a model is made of: the numbers that fix every tensor's shape and every formula of the forward pass.
//!
//! Two readers fill the same [`ModelConfig`]: `config.json` of a Hugging Face folder (here), and the metadata of a GGUF file
//! (`gguf/mod.rs`). Whatever would change the computation and is not built is refused by name: a model that is almost right
//! gives plausible nonsense.

use std::path::Path;

use serde_json::Value;

use crate::ModelError;

/// The families of models whose forward pass is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 2 and 3, SmolLM2 and whatever else calls itself `llama`.
    Llama,
    /// Qwen2 and Qwen2.5: Llama with a bias on q, k and v.
    Qwen2,
    /// Qwen3: Llama with an RMS norm on each head of q and k, and a head dimension of its own.
    Qwen3,
}

impl Architecture {
    /// The name that `config.json` (`model_type`) and GGUF (`general.architecture`) use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Llama, Self::Qwen2, Self::Qwen3]
            .into_iter()
            .find(|architecture| architecture.name() == name)
    }
}

/// The families in words, for errors.
pub(crate) const SUPPORTED_ARCHITECTURES: &str = "the llama, qwen2 or qwen3 architecture";

/// How the inverse frequencies of rotary embeddings are changed for longer contexts.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Used as they are.
    None,
    /// All divided by one factor.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Llama 3.1's rule: long wavelengths divided by the factor, short ones kept, those between blended.
    Llama3 {
        /// The divisor of the longest wavelengths.
        factor: f64,
        /// Wavelengths above `original_max_position_embeddings / low_freq_factor` are divided by `factor`.
        low_freq_factor: f64,
        /// Wavelengths below `original_max_position_embeddings / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// The context length before scaling, in tokens.
        original_max_position_embeddings: usize,
    },
    /// One divisor for each frequency, `[head_dim / 2]`: what a GGUF file stores as `rope_freqs.weight`.
    Divisors(Vec<f32>),
}

/// The shape of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family.
    pub architecture: Architecture,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the MLP.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head; even.
    pub head_dim: usize,
    /// Rows of the embedding, which may be more than the tokenizer has tokens.
    pub vocab_size: usize,
    /// Added to the mean square in RMS norms.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Change of the rotary frequencies.
    pub rope_scaling: RopeScaling,
    /// Longest sequence the model was made for, in tokens.
    pub context_length: usize,
    /// The output head is the embedding: there is no `lm_head.weight`.
    pub tied_embeddings: bool,
    /// q, k and v have a bias.
    pub qkv_bias: bool,
    /// `o_proj` has a bias too (`attention_bias` of llama and qwen3 gives all four; Qwen2 has only q, k and v).
    pub output_bias: bool,
    /// q and k are normalised per head before rotation (`q_norm`, `k_norm`, each `[head_dim]`).
    pub qk_norm: bool,
}

impl ModelConfig {
    /// The angle per position of each pair of dimensions, `[head_dim / 2]`, scaling applied, in radians per token.
    ///
    /// Computed in f32 in the order that transformers uses, so that angles at large positions agree with it.
    pub fn inverse_frequencies(&self) -> Vec<f32> {
        let plain = (0..self.head_dim / 2).map(|pair| {
            let exponent = (2 * pair) as f32 / self.head_dim as f32;
            1.0 / (self.rope_theta as f32).powf(exponent)
        });
        match &self.rope_scaling {
            RopeScaling::None => plain.collect(),
            RopeScaling::Linear { factor } => plain.map(|frequency| frequency / *factor as f32).collect(),
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } => {
                let (factor, low, high) = (*factor as f32, *low_freq_factor as f32, *high_freq_factor as f32);
                let original = *original_max_position_embeddings as f32;
                plain
                    .map(|frequency| {
                        let wavelength = 2.0 * std::f32::consts::PI / frequency;
                        if wavelength > original / low {
                            frequency / factor
                        } else if wavelength < original / high {
                            frequency
                        } else {
                            let smooth = (original / wavelength - low) / (high - low);
                            (1.0 - smooth) * frequency / factor + smooth * frequency
                        }
                    })
                    .collect()
            }
            RopeScaling::Divisors(divisors) => plain
                .zip(divisors)
                .map(|(frequency, divisor)| frequency / divisor)
                .collect(),
        }
    }

    /// Every tensor that a model of this shape has, by its Hugging Face name, with its shape as torch has it
    /// (`[out_features, in_features]` for linear layers).
    pub fn expected_tensors(&self) -> Vec<(String, Vec<usize>)> {
        self.tensors().collect()
    }

    /// As [`Self::expected_tensors`], one after the other: a file from outside may claim thousands of layers and have none.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (String, Vec<usize>)> {
        let (vocabulary, hidden) = (self.vocab_size, self.hidden_size);
        let last = [
            Some(("model.norm.weight", vec![hidden])),
            (!self.tied_embeddings).then(|| ("lm_head.weight", vec![vocabulary, hidden])),
        ];
        std::iter::once(("model.embed_tokens.weight".to_owned(), vec![vocabulary, hidden]))
            .chain((0..self.layers).flat_map(|layer| self.layer_tensors(layer)))
            .chain(
                last.into_iter()
                    .flatten()
                    .map(|(name, shape)| (name.to_owned(), shape)),
            )
    }

    fn layer_tensors(&self, layer: usize) -> Vec<(String, Vec<usize>)> {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        let (queries, keys) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut tensors = Vec::new();
        let mut add = |name: &str, shape: &[usize]| {
            tensors.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
        };
        add("input_layernorm.weight", &[hidden]);
        add("self_attn.q_proj.weight", &[queries, hidden]);
        add("self_attn.k_proj.weight", &[keys, hidden]);
        add("self_attn.v_proj.weight", &[keys, hidden]);
        add("self_attn.o_proj.weight", &[hidden, queries]);
        if self.qkv_bias {
            add("self_attn.q_proj.bias", &[queries]);
            add("self_attn.k_proj.bias", &[keys]);
            add("self_attn.v_proj.bias", &[keys]);
        }
        if self.output_bias {
            add("self_attn.o_proj.bias", &[hidden]);
        }
        if self.qk_norm {
            add("self_attn.q_norm.weight", &[self.head_dim]);
            add("self_attn.k_norm.weight", &[self.head_dim]);
        }
        add("post_attention_layernorm.weight", &[hidden]);
        add("mlp.gate_proj.weight", &[inner, hidden]);
        add("mlp.up_proj.weight", &[inner, hidden]);
        add("mlp.down_proj.weight", &[hidden, inner]);
        tensors
    }

    /// Refuses numbers that no model has, before anything is allocated or divided by them.
    pub(crate) fn check(&self, path: &Path) -> Result<(), ModelError> {
        let sizes = [
            ("hidden_size", self.hidden_size, 1 << 20),
            ("intermediate_size", self.intermediate_size, 1 << 22),
            ("the number of layers", self.layers, 1 << 12),
            ("the number of attention heads", self.heads, 1 << 12),
            ("the number of key and value heads", self.kv_heads, 1 << 12),
            ("head_dim", self.head_dim, 1 << 14),
            ("vocab_size", self.vocab_size, 1 << 24),
            ("the context length", self.context_length, 1 << 30),
        ];
        let wrong = |reason: String| {
            Err(ModelError::Config {
                path: path.to_owned(),
                reason,
            })
        };
        for (name, value, limit) in sizes {
            if value == 0 || value > limit {
                return wrong(format!("{name} is {value}, which is not between 1 and {limit}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return wrong(format!(
                "{} attention heads cannot share {} key and value heads evenly",
                self.heads, self.kv_heads
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return wrong(format!(
                "head_dim is {}, but rotary embeddings need an even number",
                self.head_dim
            ));
        }
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(self.rms_norm_eps) || !positive(self.rope_theta) {
            return wrong(format!(
                "rms_norm_eps is {} and rope_theta is {}, but both must be above zero",
                self.rms_norm_eps, self.rope_theta
            ));
        }
        match &self.rope_scaling {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } if positive(*factor) => Ok(()),
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } if positive(*factor)
                && positive(*low_freq_factor)
                && high_freq_factor.is_finite()
                && high_freq_factor > low_freq_factor
                && *original_max_position_embeddings > 0 =>
            {
                Ok(())
            }
            RopeScaling::Divisors(divisors)
                if divisors.len() == self.head_dim / 2
                    && divisors.iter().all(|value| positive(f64::from(*value))) =>
            {
                Ok(())
            }
            scaling => wrong(format!(
                "the rope scaling {scaling:?} is impossible for heads of {}",
                self.head_dim
            )),
        }
    }

    /// Reads `config.json`; `path` is its file, for errors.
    pub(crate) fn from_json(json: &Value, path: &Path) -> Result<Self, ModelError> {
        let reader = Reader { json, path };
        let model_type = reader.text("model_type")?.unwrap_or_default();
        let Some(architecture) = Architecture::from_name(&model_type) else {
            return Err(reader.unsupported(
                format!("the architecture {model_type:?}"),
                SUPPORTED_ARCHITECTURES,
            ));
        };
        reader.refuse_what_is_not_built(architecture)?;

        let hidden_size = reader.size("hidden_size")?;
        let heads = reader.size("num_attention_heads")?;
        let layers = reader.size("num_hidden_layers")?;
        if heads == 0 {
            return Err(reader.wrong("num_attention_heads is 0"));
        }
        // transformers' own default for a Qwen3 configuration without the key is 128, whatever the hidden size.
        let default_head_dim = if architecture == Architecture::Qwen3 {
            128
        } else {
            hidden_size / heads
        };
        let default_context = if architecture == Architecture::Llama {
            2048
        } else {
            32_768
        };
        let attention_bias = reader.flag("attention_bias")?;
        let config = Self {
            architecture,
            hidden_size,
            intermediate_size: reader.size("intermediate_size")?,
            layers,
            heads,
            kv_heads: reader.optional_size("num_key_value_heads")?.unwrap_or(heads),
            head_dim: reader.optional_size("head_dim")?.unwrap_or(default_head_dim),
            vocab_size: reader.size("vocab_size")?,
            rms_norm_eps: reader.number("rms_norm_eps")?.unwrap_or(1e-6),
            rope_theta: reader.rope_theta()?,
            rope_scaling: reader.rope_scaling()?,
            context_length: reader
                .optional_size("max_position_embeddings")?
                .unwrap_or(default_context),
            tied_embeddings: reader.flag("tie_word_embeddings")?,
            qkv_bias: architecture == Architecture::Qwen2 || attention_bias,
            output_bias: architecture != Architecture::Qwen2 && attention_bias,
            qk_norm: architecture == Architecture::Qwen3,
        };
        config.check(path)?;
        Ok(config)
    }
}

/// Typed access to `config.json`: an absent key and `null` are the same, a value of the wrong type is an error.
struct Reader<'a> {
    json: &'a Value,
    path: &'a Path,
}

impl<'a> Reader<'a> {
    fn wrong(&self, reason: impl Into<String>) -> ModelError {
        ModelError::Config {
            path: self.path.to_owned(),
            reason: reason.into(),
        }
    }

    fn unsupported(&self, what: impl Into<String>, supported: &str) -> ModelError {
        ModelError::Unsupported {
            path: self.path.to_owned(),
            what: what.into(),
            supported: supported.to_owned(),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<String>, ModelError> {
        self.get(key)
            .map(|value| {
                value
                    .as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| self.wrong(format!("{key} is {value}, not a text")))
            })
            .transpose()
    }

    fn flag(&self, key: &str) -> Result<bool, ModelError> {
        self.get(key).map_or(Ok(false), |value| {
            value
                .as_bool()
                .ok_or_else(|| self.wrong(format!("{key} is {value}, not true or false")))
        })
    }

    fn number(&self, key: &str) -> Result<Option<f64>, ModelError> {
        self.get(key)
            .map(|value| {
                value
                    .as_f64()
                    .ok_or_else(|| self.wrong(format!("{key} is {value}, not a number")))
            })
            .transpose()
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        self.get(key)
            .map(|value| {
                let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
                size.ok_or_else(|| self.wrong(format!("{key} is {value}, not a whole number")))
            })
            .transpose()
    }

    fn size(&self, key: &str) -> Result<usize, ModelError> {
        self.optional_size(key)?
            .ok_or_else(|| self.wrong(format!("{key} is missing")))
    }

    /// transformers 5 keeps everything about rotary embeddings under `rope_parameters`, older versions the scaling alone
    /// under `rope_scaling`.
    fn rope(&self) -> Option<Reader<'a>> {
        let json = self.get("rope_parameters").or_else(|| self.get("rope_scaling"))?;
        Some(Reader {
            json,
            path: self.path,
        })
    }

    fn rope_theta(&self) -> Result<f64, ModelError> {
        let nested = self.rope().map_or(Ok(None), |rope| rope.number("rope_theta"))?;
        Ok(nested.or(self.number("rope_theta")?).unwrap_or(10_000.0))
    }

    fn rope_scaling(&self) -> Result<RopeScaling, ModelError> {
        let Some(rope) = self.rope() else {
            return Ok(RopeScaling::None);
        };
        let kind = rope
            .text("rope_type")?
            .or(rope.text("type")?)
            .unwrap_or_else(|| "default".to_owned());
        let needed = |key: &str| {
            rope.number(key)?
                .ok_or_else(|| self.wrong(format!("the rope scaling {kind} lacks its {key}")))
        };
        match kind.as_str() {
            "default" => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear {
                factor: needed("factor")?,
            }),
            "llama3" => Ok(RopeScaling::Llama3 {
                factor: needed("factor")?,
                low_freq_factor: needed("low_freq_factor")?,
                high_freq_factor: needed("high_freq_factor")?,
                original_max_position_embeddings: match rope
                    .optional_size("original_max_position_embeddings")?
                {
                    Some(length) => length,
                    None => self.size("original_max_position_embeddings")?,
                },
            }),
            other => Err(self.unsupported(
                format!("the rope scaling {other:?}"),
                "rope scaling none, linear or llama3",
            )),
        }
    }

    fn refuse_what_is_not_built(&self, architecture: Architecture) -> Result<(), ModelError> {
        let class = match architecture {
            Architecture::Llama => "LlamaForCausalLM",
            Architecture::Qwen2 => "Qwen2ForCausalLM",
            Architecture::Qwen3 => "Qwen3ForCausalLM",
        };
        if let Some(first) = self
            .get("architectures")
            .and_then(|list| list.get(0))
            .and_then(Value::as_str)
            && first != class
        {
            return Err(self.unsupported(format!("the model class {first}"), &format!("the class {class}")));
        }
        if let Some(quantization) = self.get("quantization_config") {
            let method = quantization
                .get("quant_method")
                .and_then(Value::as_str)
                .unwrap_or("unnamed");
            return Err(self.unsupported(
                format!("weights quantised by {method} (quantization_config)"),
                "weights in f32, f16 or bf16, or a GGUF file",
            ));
        }
        if let Some(activation) = self.text("hidden_act")?
            && !matches!(activation.as_str(), "silu" | "swish")
        {
            return Err(self.unsupported(format!("the activation {activation}"), "the activation silu"));
        }
        for key in ["num_experts", "num_local_experts", "n_routed_experts"] {
            if self.optional_size(key)?.is_some_and(|experts| experts > 0) {
                return Err(
                    self.unsupported(format!("a mixture of experts ({key})"), "one dense MLP per layer")
                );
            }
        }
        if self.flag("mlp_bias")? {
            return Err(self.unsupported("a bias in the MLP (mlp_bias)", "no mlp_bias"));
        }
        if self.get("dual_chunk_attention_config").is_some() {
            return Err(self.unsupported("dual chunk attention", "full attention in every layer"));
        }
        let nested = self
            .rope()
            .map_or(Ok(None), |rope| rope.number("partial_rotary_factor"))?;
        if nested
            .or(self.number("partial_rotary_factor")?)
            .is_some_and(|factor| factor < 1.0)
        {
            return Err(self.unsupported(
                "rotary embeddings on a part of each head",
                "partial_rotary_factor 1",
            ));
        }
        self.refuse_sliding_windows(architecture)
    }

    /// A window matters where it is switched on, for at least one layer, and is shorter than the context.
    fn refuse_sliding_windows(&self, architecture: Architecture) -> Result<(), ModelError> {
        let refusal = || self.unsupported("a sliding attention window", "full attention in every layer");
        let window = self.optional_size("sliding_window")?;
        let context = self
            .optional_size("max_position_embeddings")?
            .unwrap_or(usize::MAX);
        if window.is_some_and(|window| window >= context) {
            return Ok(());
        }
        if let Some(kinds) = self.get("layer_types").and_then(Value::as_array) {
            return if kinds.iter().all(|kind| kind == "full_attention") {
                Ok(())
            } else {
                Err(refusal())
            };
        }
        let switched_on = if architecture == Architecture::Llama {
            window.is_some()
        } else {
            // Qwen windows start after max_window_layers layers; older configurations keep the keys and switch them off.
            let layers = self.size("num_hidden_layers")?;
            self.flag("use_sliding_window")?
                && self
                    .optional_size("max_window_layers")?
                    .is_none_or(|first| first < layers)
        };
        if switched_on { Err(refusal()) } else { Ok(()) }
    }
}
