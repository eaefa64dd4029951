//! Tiny models, written byte by byte, so that every test knows what its file holds.

use tunesmith_models::{Architecture, ModelConfig, RopeScaling};

/// Codes of GGUF weight formats.
pub(crate) const F32: u32 = 0;
pub(crate) const F16: u32 = 1;
pub(crate) const BF16: u32 = 30;

/// One layer, two heads of 32 that share one key head, sixteen tokens.
pub(crate) fn config(architecture: Architecture) -> ModelConfig {
    ModelConfig {
        architecture,
        hidden_size: 64,
        intermediate_size: 32,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 32,
        vocab_size: 16,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        rope_scaling: RopeScaling::None,
        context_length: 128,
        tied_embeddings: true,
        qkv_bias: architecture == Architecture::Qwen2,
        output_bias: false,
        qk_norm: architecture == Architecture::Qwen3,
    }
}

/// The values that every tensor of a tiny model holds unless a test says otherwise: each name its own, exact in bf16.
pub(crate) fn values(name: &str, elements: usize) -> Vec<f32> {
    let start = name.bytes().map(usize::from).sum::<usize>() % 64;
    (0..elements)
        .map(|at| ((start + at) % 128) as f32 / 8.0 - 4.0)
        .collect()
}

pub(crate) fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Writes GGUF files, version 3.
#[derive(Clone)]
pub(crate) struct GgufWriter {
    metadata: Vec<u8>,
    keys: u64,
    tensors: Vec<(String, Vec<usize>, u32, Vec<u8>)>,
}

impl GgufWriter {
    pub(crate) fn new() -> Self {
        Self {
            metadata: Vec::new(),
            keys: 0,
            tensors: Vec::new(),
        }
    }

    /// Metadata and tensors of a whole model, all in f32.
    pub(crate) fn model(config: &ModelConfig) -> Self {
        let name = config.architecture.name();
        let mut file = Self::new();
        file.text("general.architecture", name);
        let sizes = [
            ("embedding_length", config.hidden_size),
            ("feed_forward_length", config.intermediate_size),
            ("block_count", config.layers),
            ("attention.head_count", config.heads),
            ("attention.head_count_kv", config.kv_heads),
            ("context_length", config.context_length),
            ("rope.dimension_count", config.head_dim),
        ];
        for (key, size) in sizes {
            file.u32(&format!("{name}.{key}"), size as u32);
        }
        file.f32(
            &format!("{name}.attention.layer_norm_rms_epsilon"),
            config.rms_norm_eps as f32,
        );
        for (tensor, shape) in config.expected_tensors() {
            let values = values(&tensor, shape.iter().product());
            file.tensor(&gguf_name(&tensor), &shape, F32, f32_bytes(&values));
        }
        file
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        let bytes = text(value);
        self.key(key, 8, &bytes);
    }

    pub(crate) fn u32(&mut self, key: &str, value: u32) {
        self.key(key, 4, &value.to_le_bytes());
    }

    pub(crate) fn f32(&mut self, key: &str, value: f32) {
        self.key(key, 6, &value.to_le_bytes());
    }

    pub(crate) fn texts<'a>(&mut self, key: &str, values: impl IntoIterator<Item = &'a str>) {
        let items: Vec<Vec<u8>> = values.into_iter().map(text).collect();
        let bytes = [
            &8u32.to_le_bytes()[..],
            &(items.len() as u64).to_le_bytes(),
            &items.concat(),
        ]
        .concat();
        self.key(key, 9, &bytes);
    }

    pub(crate) fn i32s(&mut self, key: &str, values: &[i32]) {
        let items: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let bytes = [
            &5u32.to_le_bytes()[..],
            &(values.len() as u64).to_le_bytes(),
            &items,
        ]
        .concat();
        self.key(key, 9, &bytes);
    }

    fn key(&mut self, key: &str, kind: u32, value: &[u8]) {
        self.metadata
            .extend([&text(key)[..], &kind.to_le_bytes(), value].concat());
        self.keys += 1;
    }

    /// Adds a tensor, or replaces the one of that name; `shape` as torch has it.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize], code: u32, bytes: Vec<u8>) {
        self.without(name);
        self.tensors.push((name.to_owned(), shape.to_vec(), code, bytes));
    }

    pub(crate) fn without(&mut self, name: &str) {
        self.tensors.retain(|(other, ..)| other != name);
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut header = [
            &b"GGUF"[..],
            &3u32.to_le_bytes(),
            &(self.tensors.len() as u64).to_le_bytes(),
            &self.keys.to_le_bytes(),
        ]
        .concat();
        header.extend(&self.metadata);
        let mut weights: Vec<u8> = Vec::new();
        for (name, shape, code, bytes) in &self.tensors {
            weights.resize(weights.len().next_multiple_of(32), 0);
            header.extend(text(name));
            header.extend((shape.len() as u32).to_le_bytes());
            header.extend(shape.iter().rev().flat_map(|size| (*size as u64).to_le_bytes()));
            header.extend(code.to_le_bytes());
            header.extend((weights.len() as u64).to_le_bytes());
            weights.extend(bytes);
        }
        header.resize(header.len().next_multiple_of(32), 0);
        header.extend(weights);
        header
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// GGUF's name of a tensor.
pub(crate) fn gguf_name(name: &str) -> String {
    let renamed = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers.", "blk."),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    renamed
        .iter()
        .fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// A safetensors file of these tensors: name, dtype, shape, bytes.
pub(crate) fn safetensors(tensors: &[(String, &str, Vec<usize>, Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut weights: Vec<u8> = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [weights.len(), weights.len() + bytes.len()];
        header.insert(
            name.clone(),
            serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}),
        );
        weights.extend(bytes);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes(), &header[..], &weights].concat()
}
