//! Models in one GGUF file: the metadata becomes a [`ModelConfig`], the tensors get their Hugging Face names, shapes and order
//! of rows back.

mod blocks;
mod header;
mod tokenizer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use header::{Header, HeaderError, TensorInfo, Value};

use crate::config::SUPPORTED_ARCHITECTURES;
use crate::model::io_error;
use crate::{Architecture, ModelConfig, ModelError, RopeScaling};

/// Blocks are decoded in pieces of about this many elements, so that a large tensor is in memory once and not three times.
const PIECE_ELEMENTS: usize = 1 << 22;

/// An opened GGUF file: its header, and which tensor is which.
#[derive(Debug)]
pub(crate) struct Gguf {
    path: PathBuf,
    metadata: BTreeMap<String, Value>,
    /// By Hugging Face name.
    tensors: BTreeMap<String, TensorInfo>,
}

impl Gguf {
    /// Reads the header and checks that every tensor of the architecture is there in its right shape.
    pub(crate) fn open(path: &Path) -> Result<(Self, ModelConfig), ModelError> {
        let file = File::open(path).map_err(|source| io_error(path, source))?;
        let length = file.metadata().map_err(|source| io_error(path, source))?.len();
        let header = Header::read(BufReader::new(file), length).map_err(|error| match error {
            HeaderError::Io(source) => io_error(path, source),
            HeaderError::Truncated { missing } => ModelError::Truncated {
                path: path.to_owned(),
                missing,
            },
            HeaderError::Invalid(reason) => ModelError::Damaged {
                path: path.to_owned(),
                reason,
            },
            HeaderError::Unsupported { what, supported } => ModelError::Unsupported {
                path: path.to_owned(),
                what,
                supported: supported.to_owned(),
            },
        })?;
        let mut stored = header.tensors;
        let divisors = stored.remove("rope_freqs.weight");
        let mut gguf = Self {
            path: path.to_owned(),
            metadata: header.metadata,
            tensors: BTreeMap::new(),
        };
        let divisors = divisors.map(|info| gguf.read(&info)).transpose()?;
        let config = gguf.config(&stored, divisors)?;
        for (name, info) in stored {
            let Some(hugging_face) = hugging_face_name(&name) else {
                return Err(ModelError::UnexpectedTensor {
                    path: path.to_owned(),
                    name,
                });
            };
            gguf.tensors.insert(hugging_face, info);
        }
        Ok((gguf, config))
    }

    /// The shape of every tensor, by Hugging Face name.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.tensors
            .iter()
            .map(|(name, info)| (name.as_str(), info.shape.as_slice()))
    }

    /// One tensor in f32, its rows in Hugging Face's order.
    pub(crate) fn read_f32(
        &self,
        name: &str,
        config: &ModelConfig,
    ) -> Result<(Vec<usize>, Vec<f32>), ModelError> {
        let info = self.tensors.get(name).ok_or_else(|| ModelError::UnknownTensor {
            name: name.to_owned(),
        })?;
        let values = self.read(info)?;
        let heads = match config.architecture {
            Architecture::Llama if name.contains(".self_attn.q_proj.") => Some(config.heads),
            Architecture::Llama if name.contains(".self_attn.k_proj.") => Some(config.kv_heads),
            _ => None,
        };
        let values = match heads {
            Some(heads) => unpermute(&values, heads, config.head_dim),
            None => values,
        };
        Ok((info.shape.clone(), values))
    }

    /// A text of the metadata.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A token id of the metadata.
    pub(crate) fn token_id(&self, key: &str) -> Option<u32> {
        match self.metadata.get(key) {
            Some(Value::Unsigned(id)) => u32::try_from(*id).ok(),
            _ => None,
        }
    }

    /// The token with this id, as the vocabulary spells it.
    pub(crate) fn token(&self, id: u32) -> Option<&str> {
        let Some(Value::List(tokens)) = self.metadata.get("tokenizer.ggml.tokens") else {
            return None;
        };
        match tokens.get(id as usize) {
            Some(Value::Text(token)) => Some(token),
            _ => None,
        }
    }

    /// Builds the tokenizer that the metadata describes.
    pub(crate) fn tokenizer(&self) -> Result<tokenizers::Tokenizer, ModelError> {
        tokenizer::build(&self.metadata, &self.path)
    }

    fn read(&self, info: &TensorInfo) -> Result<Vec<f32>, ModelError> {
        let failed = |source| io_error(&self.path, source);
        let mut file = File::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(info.start)).map_err(failed)?;
        let mut blocks_left = info.elements() / info.format.block_elements();
        let mut values = Vec::with_capacity(info.elements());
        while blocks_left > 0 {
            let blocks = blocks_left.min(PIECE_ELEMENTS / info.format.block_elements());
            let mut buffer = vec![0; blocks * info.format.block_bytes()];
            file.read_exact(&mut buffer).map_err(failed)?;
            info.format
                .decode(&buffer, &mut values)
                .map_err(|reason| ModelError::Damaged {
                    path: self.path.clone(),
                    reason,
                })?;
            blocks_left -= blocks;
        }
        Ok(values)
    }

    fn config(
        &self,
        stored: &BTreeMap<String, TensorInfo>,
        divisors: Option<Vec<f32>>,
    ) -> Result<ModelConfig, ModelError> {
        let name = self.text("general.architecture").unwrap_or_default();
        let Some(architecture) = Architecture::from_name(name) else {
            return Err(self.unsupported(format!("the architecture {name:?}"), SUPPORTED_ARCHITECTURES));
        };
        let embedding = stored
            .get("token_embd.weight")
            .ok_or_else(|| ModelError::MissingTensor {
                path: self.path.clone(),
                name: "model.embed_tokens.weight".to_owned(),
            })?;
        let heads = self.size("attention.head_count")?.unwrap_or(0);
        let hidden_size = self.needed_size("embedding_length")?;
        let head_dim = match self.size("attention.key_length")? {
            Some(head_dim) => head_dim,
            None => hidden_size.checked_div(heads).unwrap_or(0),
        };
        let config = ModelConfig {
            architecture,
            hidden_size,
            intermediate_size: self.needed_size("feed_forward_length")?,
            layers: self.needed_size("block_count")?,
            heads,
            kv_heads: self.size("attention.head_count_kv")?.unwrap_or(heads),
            head_dim,
            vocab_size: embedding.shape[0],
            rms_norm_eps: self.number("attention.layer_norm_rms_epsilon")?.unwrap_or(0.0),
            rope_theta: self.number("rope.freq_base")?.unwrap_or(10_000.0),
            rope_scaling: self.rope_scaling(divisors)?,
            context_length: self.needed_size("context_length")?,
            tied_embeddings: !stored.contains_key("output.weight"),
            qkv_bias: stored.contains_key("blk.0.attn_q.bias"),
            output_bias: stored.contains_key("blk.0.attn_output.bias"),
            qk_norm: architecture == Architecture::Qwen3,
        };
        config.check(&self.path)?;
        self.refuse_what_is_not_built(&config)?;
        Ok(config)
    }

    fn refuse_what_is_not_built(&self, config: &ModelConfig) -> Result<(), ModelError> {
        if self
            .size("attention.value_length")?
            .is_some_and(|length| length != config.head_dim)
        {
            return Err(self.unsupported(
                "values of another width than keys",
                "keys and values of one width",
            ));
        }
        if self
            .size("rope.dimension_count")?
            .is_some_and(|count| count != config.head_dim)
        {
            return Err(self.unsupported(
                "rotary embeddings on a part of each head",
                "rotary embeddings on whole heads",
            ));
        }
        if self.size("expert_count")?.is_some_and(|count| count > 0) {
            return Err(self.unsupported("a mixture of experts (expert_count)", "one dense MLP per layer"));
        }
        if self
            .size("attention.sliding_window")?
            .is_some_and(|window| window > 0 && window < config.context_length)
        {
            return Err(self.unsupported("a sliding attention window", "full attention in every layer"));
        }
        Ok(())
    }

    fn rope_scaling(&self, divisors: Option<Vec<f32>>) -> Result<RopeScaling, ModelError> {
        let key = self.architecture_key("rope.scaling.type");
        let linear = match self.text(&key) {
            None | Some("none") => self.number("rope.scale_linear")?,
            Some("linear") => self.number("rope.scaling.factor")?,
            // Llama 3's own rule is stored as divisors, under whichever name the converter gave it.
            Some("llama3") if divisors.is_some() => None,
            Some(other) => {
                return Err(self.unsupported(
                    format!("the rope scaling {other:?}"),
                    "rope scaling none, linear or llama3",
                ));
            }
        };
        match (
            linear.filter(|factor| (factor - 1.0).abs() > f64::EPSILON),
            divisors,
        ) {
            (None, None) => Ok(RopeScaling::None),
            (Some(factor), None) => Ok(RopeScaling::Linear { factor }),
            (None, Some(divisors)) => Ok(RopeScaling::Divisors(divisors)),
            (Some(_), Some(_)) => Err(self.unsupported("two rope scalings at once", "one rope scaling")),
        }
    }

    /// `general.architecture` names the group that the model's keys lie in.
    fn architecture_key(&self, key: &str) -> String {
        format!("{}.{key}", self.text("general.architecture").unwrap_or_default())
    }

    fn size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        let key = self.architecture_key(key);
        match self.metadata.get(&key) {
            None => Ok(None),
            Some(Value::Unsigned(size)) => Ok(Some(*size as usize)),
            Some(Value::List(_)) => Err(self.unsupported(
                format!("{key} of its own for each layer"),
                "the same layer throughout",
            )),
            Some(other) => Err(self.wrong(format!("{key} is {other:?}, not a whole number"))),
        }
    }

    fn needed_size(&self, key: &str) -> Result<usize, ModelError> {
        self.size(key)?
            .ok_or_else(|| self.wrong(format!("{} is missing", self.architecture_key(key))))
    }

    fn number(&self, key: &str) -> Result<Option<f64>, ModelError> {
        let key = self.architecture_key(key);
        match self.metadata.get(&key) {
            None => Ok(None),
            // Stored as f32: taken back to the decimal that was meant, so that 1e-5 is 1e-5 and not 0.00000999999974.
            Some(Value::Float(value)) => Ok(Some((*value as f32).to_string().parse().unwrap_or(*value))),
            Some(other) => Err(self.wrong(format!("{key} is {other:?}, not a number"))),
        }
    }

    fn wrong(&self, reason: String) -> ModelError {
        ModelError::Config {
            path: self.path.clone(),
            reason,
        }
    }

    fn unsupported(&self, what: impl Into<String>, supported: &str) -> ModelError {
        ModelError::Unsupported {
            path: self.path.clone(),
            what: what.into(),
            supported: supported.to_owned(),
        }
    }
}

/// The Hugging Face name of a tensor that GGUF calls `name`.
fn hugging_face_name(name: &str) -> Option<String> {
    match name {
        "token_embd.weight" => return Some("model.embed_tokens.weight".to_owned()),
        "output_norm.weight" => return Some("model.norm.weight".to_owned()),
        "output.weight" => return Some("lm_head.weight".to_owned()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let (part, kind) = rest.rsplit_once('.')?;
    let part = match part {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    Some(format!("model.layers.{layer}.{part}.{kind}"))
}

/// Puts the rows of q and k of a llama file back in Hugging Face's order.
///
/// The converter turns the two halves of each head into pairs of neighbours, because llama.cpp rotates neighbours where
/// transformers rotates halves: the file has `[heads, head_dim / 2, 2]`, Hugging Face `[heads, 2, head_dim / 2]`. A bias is
/// the same with rows of one element.
fn unpermute(values: &[f32], heads: usize, head_dim: usize) -> Vec<f32> {
    let row = values.len() / (heads * head_dim);
    let mut out = Vec::with_capacity(values.len());
    for head in 0..heads {
        for half in 0..2 {
            for pair in 0..head_dim / 2 {
                let start = (head * head_dim + 2 * pair + half) * row;
                out.extend_from_slice(&values[start..start + row]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the converter does to q and k, written from its description: `[heads, 2, half]` to `[heads, half, 2]`.
    fn permute(values: &[f32], heads: usize, head_dim: usize) -> Vec<f32> {
        let row = values.len() / (heads * head_dim);
        let mut out = vec![0.0; values.len()];
        for head in 0..heads {
            for in_head in 0..head_dim {
                let (half, pair) = (in_head / (head_dim / 2), in_head % (head_dim / 2));
                let from = (head * head_dim + in_head) * row;
                let to = (head * head_dim + 2 * pair + half) * row;
                out[to..to + row].copy_from_slice(&values[from..from + row]);
            }
        }
        out
    }

    #[test]
    fn undoing_the_converters_permutation_gives_the_rows_back() {
        for (heads, head_dim, row) in [(1, 2, 1), (2, 4, 3), (3, 8, 5), (9, 64, 2)] {
            let values: Vec<f32> = (0..heads * head_dim * row).map(|value| value as f32).collect();
            let stored = permute(&values, heads, head_dim);
            assert_eq!(unpermute(&stored, heads, head_dim), values);
            assert!(head_dim == 2 || stored != values);
        }
    }

    #[test]
    fn tensors_that_no_decoder_layer_has_get_no_name() {
        assert_eq!(
            hugging_face_name("blk.3.attn_q.bias").as_deref(),
            Some("model.layers.3.self_attn.q_proj.bias")
        );
        for name in [
            "blk.0.ffn_gate_exps.weight",
            "blk.0.attn_qkv.weight",
            "blk.0",
            "blk.",
            "position_embd.weight",
        ] {
            assert_eq!(hugging_face_name(name), None, "{name}");
        }
    }
}
