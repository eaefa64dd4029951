//! A model of a few thousand parameters with a byte-level tokenizer, made on the spot: large enough for every code
//! path, small enough for a test.

use std::{fs, path::Path};

use safetensors::{
    SafeTensors,
    tensor::{Dtype, TensorView, serialize_to_file},
};
use serde_json::{Map, Value, json};

const HIDDEN: usize = 16;
const INTERMEDIATE: usize = 24;
const LAYERS: usize = 2;
const HEADS: usize = 2;
const KV_HEADS: usize = 1;
const HEAD_DIM: usize = 8;
/// 256 bytes, begin and end of a turn, and a beginning of text.
const VOCABULARY: usize = 259;

/// Longest context of the model, in tokens.
pub(crate) const CONTEXT: usize = 2048;

const TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Writes the model into a folder.
pub(crate) fn write(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let put = |name: &str, value: &Value| fs::write(folder.join(name), value.to_string()).unwrap();
    put(
        "config.json",
        &json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": HIDDEN,
            "intermediate_size": INTERMEDIATE,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "vocab_size": VOCABULARY,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "max_position_embeddings": CONTEXT,
            "tie_word_embeddings": true,
            "hidden_act": "silu",
            "bos_token_id": 258,
            "eos_token_id": 257,
            "torch_dtype": "float32",
        }),
    );
    write_tokenizer(folder, 256);
    weights(&folder.join("model.safetensors"));
}

/// Writes a model of the engine's fixtures into a folder, with a tokenizer that fits its vocabulary of 256.
pub(crate) fn write_fixture(name: &str, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/engine/tests/fixtures")
        .join(name);
    fs::copy(fixture.join("config.json"), folder.join("config.json")).unwrap();
    let mut bytes = fs::read(fixture.join("model.safetensors")).unwrap();
    // Its weights are random and large, so it is surer of its guesses than chance would be; a trained model never is.
    let norm = SafeTensors::deserialize(&bytes)
        .unwrap()
        .tensor("model.norm.weight")
        .unwrap()
        .data()
        .as_ptr_range();
    let start = norm.start as usize - bytes.as_ptr() as usize;
    let end = norm.end as usize - bytes.as_ptr() as usize;
    for value in bytes[start..end].chunks_exact_mut(4) {
        let weight = f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
        value.copy_from_slice(&(0.25 * weight).to_le_bytes());
    }
    fs::write(folder.join("model.safetensors"), bytes).unwrap();
    // The last bytes never occur in UTF-8, so their ids are free.
    write_tokenizer(folder, 253);
}

/// Writes tokenizer and chat template: the bytes below `first_special`, then begin and end of a turn and beginning of text.
fn write_tokenizer(folder: &Path, first_special: usize) {
    let put = |name: &str, value: &Value| fs::write(folder.join(name), value.to_string()).unwrap();
    put("tokenizer.json", &tokenizer(first_special));
    put("tokenizer_config.json", &tokenizer_config(TEMPLATE));
}

/// `tokenizer_config.json` with a chat template.
pub(crate) fn tokenizer_config(template: &str) -> Value {
    json!({
        "chat_template": template,
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
    })
}

fn tokenizer(first_special: usize) -> Value {
    let mut vocabulary = Map::new();
    for (id, letter) in byte_letters().into_iter().enumerate().take(first_special) {
        vocabulary.insert(letter.to_string(), json!(id));
    }
    let special = |id: usize, content: &str| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    };
    let specials: Vec<Value> = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
        .into_iter()
        .enumerate()
        .map(|(index, content)| {
            vocabulary.insert(content.to_owned(), json!(first_special + index));
            special(first_special + index, content)
        })
        .collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": specials,
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": [],
        },
    })
}

/// The letter that stands for each byte in a byte-level vocabulary: itself where it can be seen, else one from
/// U+0100 on.
fn byte_letters() -> Vec<char> {
    let visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 0x100;
    (0..=u8::MAX)
        .map(|byte| {
            if visible(byte) {
                return char::from(byte);
            }
            next += 1;
            char::from_u32(next - 1).unwrap()
        })
        .collect()
}

fn weights(path: &Path) {
    let mut tensors: Vec<(String, Vec<usize>)> = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
        tensors.extend([
            (name("input_layernorm"), vec![HIDDEN]),
            (name("post_attention_layernorm"), vec![HIDDEN]),
            (name("self_attn.q_proj"), vec![HEADS * HEAD_DIM, HIDDEN]),
            (name("self_attn.k_proj"), vec![KV_HEADS * HEAD_DIM, HIDDEN]),
            (name("self_attn.v_proj"), vec![KV_HEADS * HEAD_DIM, HIDDEN]),
            (name("self_attn.o_proj"), vec![HIDDEN, HEADS * HEAD_DIM]),
            (name("mlp.gate_proj"), vec![INTERMEDIATE, HIDDEN]),
            (name("mlp.up_proj"), vec![INTERMEDIATE, HIDDEN]),
            (name("mlp.down_proj"), vec![HIDDEN, INTERMEDIATE]),
        ]);
    }
    // Some fixed spread of small numbers; a generator would bring nothing more.
    let mut state: u32 = 12345;
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(name, shape)| {
            let norm = name.contains("norm");
            (0..shape.iter().product::<usize>())
                .flat_map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let value = if norm {
                        1.0
                    } else {
                        f64::from(state >> 8) / f64::from(1 << 24) - 0.5
                    };
                    ((value * 0.4 * if norm { 2.5 } else { 1.0 }) as f32).to_le_bytes()
                })
                .collect()
        })
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape), bytes)| {
        (
            name.as_str(),
            TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap(),
        )
    });
    serialize_to_file(views, None, path).unwrap();
}
