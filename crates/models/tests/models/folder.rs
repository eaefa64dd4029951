//! Hugging Face folders: one file and several, the configurations of transformers old and new, and broken ones.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tunesmith_models::{Architecture, Message, Model, ModelConfig, ModelError, RopeScaling};

use crate::tiny::{self, safetensors};
use crate::told;

type Tensor = (String, &'static str, Vec<usize>, Vec<u8>);

/// `config.json` of a tiny model as transformers 5 writes it.
fn json_of(config: &ModelConfig) -> Value {
    let (class, name) = match config.architecture {
        Architecture::Llama => ("LlamaForCausalLM", "llama"),
        Architecture::Qwen2 => ("Qwen2ForCausalLM", "qwen2"),
        Architecture::Qwen3 => ("Qwen3ForCausalLM", "qwen3"),
    };
    json!({
        "architectures": [class], "model_type": name, "hidden_act": "silu",
        "hidden_size": config.hidden_size, "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.layers, "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads, "head_dim": config.head_dim, "vocab_size": config.vocab_size,
        "rms_norm_eps": config.rms_norm_eps, "max_position_embeddings": config.context_length,
        "rope_parameters": {"rope_theta": config.rope_theta, "rope_type": "default"},
        "tie_word_embeddings": config.tied_embeddings, "attention_bias": config.output_bias,
        "sliding_window": null, "use_sliding_window": false, "max_window_layers": 28, "eos_token_id": 2
    })
}

fn tensors_of(config: &ModelConfig) -> Vec<Tensor> {
    let all = config.expected_tensors().into_iter();
    all.map(|(name, shape)| {
        let bytes = tiny::f32_bytes(&tiny::values(&name, shape.iter().product()));
        (name, "F32", shape, bytes)
    })
    .collect()
}

fn write(folder: &Path, config: &Value, tensors: &[Tensor]) {
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    std::fs::write(folder.join("model.safetensors"), safetensors(tensors)).unwrap();
}

fn write_shards(folder: &Path, config: &Value, tensors: &[Tensor]) {
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let mut map = serde_json::Map::new();
    let (first, second) = tensors.split_at(tensors.len() / 2);
    for (file, part) in [("model-1.safetensors", first), ("model-2.safetensors", second)] {
        std::fs::write(folder.join(file), safetensors(part)).unwrap();
        map.extend(part.iter().map(|(name, ..)| (name.clone(), json!(file))));
    }
    std::fs::write(
        folder.join("model.safetensors.index.json"),
        json!({"weight_map": map}).to_string(),
    )
    .unwrap();
}

/// The error of a sound llama folder after one change of its configuration.
fn refusal(change: impl FnOnce(&mut Value)) -> ModelError {
    let folder = TempDir::new().unwrap();
    let config = tiny::config(Architecture::Llama);
    let mut json = json_of(&config);
    change(&mut json);
    write(folder.path(), &json, &tensors_of(&config));
    Model::open(folder.path()).map(|_| json).unwrap_err()
}

fn assert_holds_its_values(model: &Model) {
    for (name, shape) in model.config().expected_tensors() {
        let (found, values) = model.read_f32(&name).unwrap();
        assert_eq!(values, tiny::values(&name, values.len()), "{name}");
        assert_eq!(found, shape, "{name}");
    }
}

#[test]
fn each_architecture_opens_from_one_file_and_from_several() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        for tied_embeddings in [true, false] {
            let config = ModelConfig {
                tied_embeddings,
                ..tiny::config(architecture)
            };
            let (single, sharded) = (TempDir::new().unwrap(), TempDir::new().unwrap());
            write(single.path(), &json_of(&config), &tensors_of(&config));
            write_shards(sharded.path(), &json_of(&config), &tensors_of(&config));
            for folder in [&single, &sharded] {
                let model = Model::open(folder.path()).unwrap();
                assert_eq!(*model.config(), config);
                assert_holds_its_values(&model);
                assert_eq!(model.path(), folder.path());
            }
        }
    }
}

#[test]
fn attention_bias_gives_all_four_projections_one() {
    let config = ModelConfig {
        qkv_bias: true,
        output_bias: true,
        ..tiny::config(Architecture::Llama)
    };
    let folder = TempDir::new().unwrap();
    write(folder.path(), &json_of(&config), &tensors_of(&config));
    let model = Model::open(folder.path()).unwrap();
    assert_eq!(*model.config(), config);
    assert_eq!(
        model.read_f32("model.layers.0.self_attn.o_proj.bias").unwrap().0,
        [64]
    );
}

#[test]
fn half_precision_weights_become_the_same_f32() {
    let config = tiny::config(Architecture::Llama);
    for dtype in ["F16", "BF16"] {
        let tensors = tensors_of(&config).into_iter().map(|(name, _, shape, _)| {
            let values = tiny::values(&name, shape.iter().product());
            let bytes = values.iter().flat_map(|value| match dtype {
                "F16" => half::f16::from_f32(*value).to_le_bytes(),
                _ => half::bf16::from_f32(*value).to_le_bytes(),
            });
            (name, dtype, shape, bytes.collect())
        });
        let folder = TempDir::new().unwrap();
        write(folder.path(), &json_of(&config), &tensors.collect::<Vec<_>>());
        assert_holds_its_values(&Model::open(folder.path()).unwrap());
    }
}

#[test]
fn rope_is_read_as_old_and_new_transformers_write_it() {
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                        "original_max_position_embeddings": 8192});
    let expected = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 8192,
    };
    let mut new = llama3.clone();
    new["rope_theta"] = json!(500_000.0);
    let cases = [
        (json!({"rope_parameters": new}), 500_000.0, expected.clone()),
        (
            json!({"rope_theta": 500_000, "rope_scaling": llama3}),
            500_000.0,
            expected,
        ),
        (
            json!({"rope_theta": 1e6, "rope_scaling": null}),
            1e6,
            RopeScaling::None,
        ),
        (
            json!({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2}}),
            1e4,
            RopeScaling::Linear { factor: 2.0 },
        ),
        (json!({}), 10_000.0, RopeScaling::None),
    ];
    let config = tiny::config(Architecture::Llama);
    for (keys, theta, scaling) in cases {
        let mut json = json_of(&config);
        json.as_object_mut().unwrap().remove("rope_parameters");
        json.as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        let folder = TempDir::new().unwrap();
        write(folder.path(), &json, &tensors_of(&config));
        let model = Model::open(folder.path()).unwrap();
        assert_eq!(
            (model.config().rope_theta, &model.config().rope_scaling),
            (theta, &scaling),
            "{keys}"
        );
    }
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    let cases = [
        ("model_type", json!("mistral"), "mistral"),
        (
            "architectures",
            json!(["LlamaForSequenceClassification"]),
            "LlamaForSequenceClassification",
        ),
        ("quantization_config", json!({"quant_method": "gptq"}), "gptq"),
        ("hidden_act", json!("gelu"), "gelu"),
        ("num_local_experts", json!(8), "mixture of experts"),
        ("mlp_bias", json!(true), "mlp_bias"),
        (
            "rope_parameters",
            json!({"rope_type": "yarn", "factor": 4.0}),
            "yarn",
        ),
        ("partial_rotary_factor", json!(0.5), "part of each head"),
        ("sliding_window", json!(64), "sliding attention window"),
        (
            "layer_types",
            json!(["sliding_attention"]),
            "sliding attention window",
        ),
    ];
    for (key, value, name) in cases {
        let error = refusal(|json| json[key] = value);
        assert_eq!(error.code(), "model_unsupported", "{error}");
        assert!(error.to_string().contains(name), "{error} does not name {name}");
        assert!(
            error.hints()[0].starts_with("choose a model with"),
            "{}",
            told(&error)
        );
    }
}

#[test]
fn a_window_that_is_switched_off_or_as_long_as_the_context_does_no_harm() {
    let config = tiny::config(Architecture::Qwen2);
    let cases = [
        json!({"sliding_window": 64, "use_sliding_window": false}),
        json!({"sliding_window": 64, "use_sliding_window": true, "max_window_layers": 1}),
        json!({"sliding_window": 128, "use_sliding_window": true, "max_window_layers": 0}),
        json!({"layer_types": ["full_attention"], "sliding_window": 64, "use_sliding_window": true, "max_window_layers": 0}),
    ];
    for keys in cases {
        let mut json = json_of(&config);
        json.as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        let folder = TempDir::new().unwrap();
        write(folder.path(), &json, &tensors_of(&config));
        assert!(Model::open(folder.path()).is_ok(), "{keys}");
    }
}

#[test]
fn impossible_configurations_name_the_key() {
    let cases = [
        ("hidden_size", json!(null), "hidden_size is missing"),
        ("hidden_size", json!("big"), "hidden_size is \"big\""),
        ("hidden_size", json!(-4), "hidden_size is -4"),
        ("num_attention_heads", json!(0), "num_attention_heads is 0"),
        (
            "num_key_value_heads",
            json!(3),
            "2 attention heads cannot share 3",
        ),
        ("head_dim", json!(31), "head_dim is 31"),
        ("num_hidden_layers", json!(u64::MAX), "the number of layers is"),
        ("rms_norm_eps", json!(0), "rms_norm_eps is 0"),
        (
            "rope_parameters",
            json!({"rope_type": "linear"}),
            "lacks its factor",
        ),
    ];
    for (key, value, words) in cases {
        let error = refusal(|json| json[key] = value);
        assert_eq!(error.code(), "model_config", "{error}");
        assert!(error.to_string().contains(words), "{error} does not say {words}");
    }
}

#[test]
fn missing_misshapen_surplus_and_wrongly_typed_tensors_are_named() {
    let config = tiny::config(Architecture::Llama);
    let open = |change: fn(&mut Vec<Tensor>)| {
        let folder = TempDir::new().unwrap();
        let mut tensors = tensors_of(&config);
        change(&mut tensors);
        write(folder.path(), &json_of(&config), &tensors);
        Model::open(folder.path()).map(|_| "opened").unwrap_err()
    };
    let missing = open(|tensors| tensors.retain(|(name, ..)| !name.contains("down_proj")));
    assert!(
        missing
            .to_string()
            .contains("lacks the tensor model.layers.0.mlp.down_proj.weight"),
        "{missing}"
    );
    let misshapen = open(|tensors| tensors[0].2 = vec![64, 16]);
    assert!(
        misshapen
            .to_string()
            .contains("[64, 16], but the configuration asks for [16, 64]"),
        "{misshapen}"
    );
    let surplus = open(|tensors| {
        tensors.push((
            "model.layers.0.mlp.gate_proj.bias".into(),
            "F32",
            vec![32],
            vec![0; 128],
        ));
    });
    assert_eq!(surplus.code(), "model_tensor_unexpected");
    let typed = open(|tensors| (tensors[0].1, tensors[0].3) = ("F8_E4M3", vec![0; 1024]));
    assert!(typed.to_string().contains("weights in F8_E4M3"), "{typed}");
}

#[test]
fn copies_that_follow_from_the_rest_are_let_be() {
    let config = tiny::config(Architecture::Llama);
    let mut tensors = tensors_of(&config);
    tensors.push((
        "model.layers.0.self_attn.rotary_emb.inv_freq".into(),
        "F32",
        vec![16],
        vec![0; 64],
    ));
    tensors.push(("lm_head.weight".into(), "F32", vec![16, 64], vec![0; 4096]));
    let folder = TempDir::new().unwrap();
    write(folder.path(), &json_of(&config), &tensors);
    let model = Model::open(folder.path()).unwrap();
    assert_eq!(
        model.read_f32("lm_head.weight").unwrap_err().code(),
        "unknown_tensor"
    );
}

#[test]
fn a_missing_shard_and_an_index_that_reaches_outside_are_told() {
    let config = tiny::config(Architecture::Llama);
    let folder = TempDir::new().unwrap();
    write_shards(folder.path(), &json_of(&config), &tensors_of(&config));
    std::fs::remove_file(folder.path().join("model-2.safetensors")).unwrap();
    let error = Model::open(folder.path()).unwrap_err();
    assert!(
        told(&error).contains("model-2.safetensors, which is not there"),
        "{}",
        told(&error)
    );
    for file in ["../secret.safetensors", "/etc/passwd", "..", ""] {
        let index = json!({"weight_map": {"model.norm.weight": file}});
        std::fs::write(
            folder.path().join("model.safetensors.index.json"),
            index.to_string(),
        )
        .unwrap();
        let error = Model::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains("not a file name"), "{error}");
    }
}

#[test]
fn weights_cut_at_any_byte_are_an_error() {
    let config = tiny::config(Architecture::Llama);
    let folder = TempDir::new().unwrap();
    write(folder.path(), &json_of(&config), &tensors_of(&config));
    let file = folder.path().join("model.safetensors");
    let length = std::fs::metadata(&file).unwrap().len();
    let handle = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    handle.set_len(length + 3).unwrap();
    assert_eq!(Model::open(folder.path()).unwrap_err().code(), "model_damaged");
    for cut in (0..length).rev().step_by(7) {
        handle.set_len(cut).unwrap();
        let error = Model::open(folder.path()).map(|_| cut).unwrap_err();
        assert_eq!(error.code(), "model_truncated", "{cut} bytes: {error}");
    }
}

#[test]
fn hostile_safetensors_headers_are_refused() {
    let config = tiny::config(Architecture::Llama);
    let folder = TempDir::new().unwrap();
    write(folder.path(), &json_of(&config), &tensors_of(&config));
    let overflowing = json!({"t": {"dtype": "F32", "shape": [u64::MAX, 8], "data_offsets": [0, 4]}});
    let backwards = json!({"t": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}});
    let gap = json!({"t": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}});
    let header = |json: &str| [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &[0; 16]].concat();
    let cases = [
        [&u64::MAX.to_le_bytes()[..], &[0; 64]].concat(),
        header("not json at all"),
        header(&"[".repeat(10_000)),
        header(&overflowing.to_string()),
        header(&backwards.to_string()),
        header(&gap.to_string()),
    ];
    for bytes in cases {
        std::fs::write(folder.path().join("model.safetensors"), &bytes).unwrap();
        assert_eq!(
            Model::open(folder.path()).map(|_| "opened").unwrap_err().code(),
            "model_damaged"
        );
    }
}

#[test]
fn folders_without_weights_say_what_they_lack() {
    let folder = TempDir::new().unwrap();
    assert!(
        Model::open(folder.path())
            .unwrap_err()
            .to_string()
            .contains("no config.json")
    );
    std::fs::write(
        folder.path().join("config.json"),
        json_of(&tiny::config(Architecture::Llama)).to_string(),
    )
    .unwrap();
    assert!(
        Model::open(folder.path())
            .unwrap_err()
            .to_string()
            .contains("neither model.safetensors")
    );
    std::fs::write(folder.path().join("pytorch_model.bin"), "").unwrap();
    assert!(
        Model::open(folder.path())
            .unwrap_err()
            .to_string()
            .contains("pickled")
    );
    std::fs::write(folder.path().join("config.json"), "{").unwrap();
    assert!(
        Model::open(folder.path())
            .unwrap_err()
            .to_string()
            .contains("it is not JSON")
    );
}

/// A word-level tokenizer with two special tokens and a limit that whoever saved it left inside.
fn tokenizer_json() -> Value {
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": [
            {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
            {"id": 1, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
        ],
        "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"<s>": 0, "<end>": 1, "hello": 5, "sample": 6}, "unk_token": "<s>"}
    })
}

#[test]
fn template_and_stop_tokens_come_from_wherever_the_folder_keeps_them() {
    let config = tiny::config(Architecture::Llama);
    let folder = TempDir::new().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let rendered = || {
        let model = Model::open(folder.path()).unwrap();
        model
            .chat_template()?
            .render(&[Message::new("user", "hello")], false)
    };
    write(folder.path(), &json_of(&config), &tensors_of(&config));
    let model = Model::open(folder.path()).unwrap();
    assert_eq!(model.stop_tokens().unwrap(), [2]);
    assert_eq!(model.tokenizer().unwrap_err().code(), "tokenizer");
    assert_eq!(rendered().unwrap_err().code(), "chat_template_missing");

    put("tokenizer.json", &tokenizer_json().to_string());
    let named =
        json!([{"name": "tools", "template": "no"}, {"name": "default", "template": "{{ bos_token }}named"}]);
    let tokens = json!({"chat_template": named, "bos_token": {"content": "<s>"}, "eos_token": "<end>"});
    put("tokenizer_config.json", &tokens.to_string());
    assert_eq!(rendered().unwrap(), "<s>named");
    put(
        "chat_template.json",
        &json!({"chat_template": "json"}).to_string(),
    );
    assert_eq!(rendered().unwrap(), "json");
    put(
        "chat_template.jinja",
        "{{ bos_token }}{% for m in messages %}{{ m.content }} <end>{% endfor %}",
    );
    assert_eq!(rendered().unwrap(), "<s>hello <end>");

    let model = Model::open(folder.path()).unwrap();
    assert_eq!(
        model
            .tokenizer()
            .unwrap()
            .encode("hello hello hello", false)
            .unwrap()
            .len(),
        3,
        "nothing is cut"
    );
    assert_eq!(model.stop_tokens().unwrap(), [1, 2]);
    put(
        "generation_config.json",
        &json!({"eos_token_id": [7, 3, 99_999]}).to_string(),
    );
    assert_eq!(
        Model::open(folder.path()).unwrap().stop_tokens().unwrap(),
        [1, 2, 3, 7]
    );
}

#[test]
fn the_padding_token_is_the_one_that_the_files_name() {
    let config = tiny::config(Architecture::Llama);
    let folder = TempDir::new().unwrap();
    write(folder.path(), &json_of(&config), &tensors_of(&config));
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let pad = || Model::open(folder.path()).unwrap().pad_token().unwrap();
    assert_eq!(pad(), None);
    put("tokenizer.json", &tokenizer_json().to_string());
    put("tokenizer_config.json", r#"{"pad_token": {"content": "<end>"}}"#);
    assert_eq!(pad(), Some(1));
    put("generation_config.json", r#"{"pad_token_id": 6}"#);
    assert_eq!(pad(), Some(6));
}

#[test]
fn a_tokenizer_file_over_which_its_library_panics_is_refused() {
    let config = tiny::config(Architecture::Llama);
    let folder = TempDir::new().unwrap();
    write(folder.path(), &json_of(&config), &tensors_of(&config));
    // The library takes the decoder apart before it has read the word that is cut off.
    let text = tokenizer_json().to_string();
    let text = text.replace(
        "\"decoder\":null",
        "\"decoder\":{\"type\":\"WordPiece\",\"cleanup\":tr}",
    );
    std::fs::write(folder.path().join("tokenizer.json"), text).unwrap();
    let error = Model::open(folder.path()).unwrap().tokenizer().unwrap_err();
    assert_eq!(error.code(), "tokenizer");
    assert!(told(&error).contains("tokenizer.json cannot be read"), "{error}");
}

#[test]
fn the_end_of_turn_is_found_in_the_template_alone() {
    let config = tiny::config(Architecture::Llama);
    let folder = TempDir::new().unwrap();
    let mut json = json_of(&config);
    json.as_object_mut().unwrap().remove("eos_token_id");
    write(folder.path(), &json, &tensors_of(&config));
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer_json().to_string()).unwrap();
    let template = folder.path().join("chat_template.jinja");
    for (source, stops) in [
        (
            "{% for m in messages %}{{ m.content }}<end>\n{% endfor %}",
            vec![1],
        ),
        ("{% for m in messages %}{{ m.content }} hello{% endfor %}", vec![]),
        ("{{ raise_exception('never') }}", vec![]),
    ] {
        std::fs::write(&template, source).unwrap();
        assert_eq!(
            Model::open(folder.path()).unwrap().stop_tokens().unwrap(),
            stops,
            "{source}"
        );
    }
}

#[test]
fn every_file_that_matters_changes_the_fingerprint() {
    let config = tiny::config(Architecture::Llama);
    let folder = TempDir::new().unwrap();
    write(folder.path(), &json_of(&config), &tensors_of(&config));
    let fingerprint = || Model::open(folder.path()).unwrap().fingerprint().unwrap();
    let mut seen = vec![fingerprint()];
    std::fs::write(folder.path().join("README.md"), "words").unwrap();
    assert_eq!(fingerprint(), seen[0], "a file beside the model is not the model");
    for file in [
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "generation_config.json",
    ] {
        std::fs::write(folder.path().join(file), "{}").unwrap();
        let next = fingerprint();
        assert!(!seen.contains(&next), "{file}");
        seen.push(next);
    }
}
