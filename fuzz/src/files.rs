//! Targets that are files: models in every form, their parts, and data sets.

use std::fs;
use std::path::Path;

use tunesmith_data::{Encoder, Example, Policy, Rows, read_jsonl};
use tunesmith_models::{Message, Model, ModelError};

use crate::{Bench, FIXTURE, WEIGHTS, told, write};

/// Names of the target `config`, by the first byte of the input. The index stands beside weights of another name, since a
/// single file has precedence.
const CONFIG_FILES: [&str; 5] = [
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "model.safetensors.index.json",
    "chat_template.json",
];
const INDEX: &str = CONFIG_FILES[3];
/// Where the index of the seeds says that the weights lie.
const SHARD: &str = "weights.safetensors";

/// A tokenizer that is read in a twentieth of the time that the tiny model's takes, for targets that are about other files.
const SMALL_TOKENIZER: &str = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":1,"content":"<|im_end|>",
"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":null,"pre_tokenizer":null,
"post_processor":null,"decoder":null,"model":{"type":"WordLevel","vocab":{"a":0,"<|im_end|>":1},"unk_token":"a"}}"#;

/// Rows beyond these show nothing new and take time.
const MOST_ROWS: usize = 8;

/// A GGUF file, opened, read and used in full.
pub fn gguf(bench: &Bench, input: &[u8]) {
    let file = bench.path("model.gguf");
    write(&file, input);
    // Compiling the expression of these takes a hundred times as long as all the rest, so only some inputs get to it.
    let contains = |name: &[u8]| input.windows(name.len()).any(|bytes| bytes == name);
    let slow = [&b"llama-bpe"[..], b"llama3", b"llama-v3", b"qwen2"]
        .into_iter()
        .any(contains);
    if slow && !input.len().is_multiple_of(64) {
        let _ = open_and_read(&file, input);
    } else {
        open_and_use(&file, input);
    }
}

/// The weights of a model's folder, and the same bytes as a file of rows.
pub fn safetensors(bench: &Bench, input: &[u8]) {
    let file = bench.path(WEIGHTS);
    write(&file, input);
    let _ = open_and_read(bench.folder.path(), input);
    match Rows::read(&file) {
        Ok(rows) => {
            assert!(rows.supervised_tokens() > 0 && rows.tokens() <= input.len());
            assert_eq!(rows.sha256().len(), 64);
            let _ = rows.check_vocabulary(1000);
        }
        Err(error) => told(error.code(), &error.to_string(), input),
    }
}

/// One of the JSON files of a model's folder.
pub fn config(bench: &Bench, input: &[u8]) {
    let Some((which, content)) = input.split_first() else {
        return;
    };
    let name = CONFIG_FILES[usize::from(*which) % CONFIG_FILES.len()];
    let file = bench.path(name);
    write(&bench.path("tokenizer.json"), SMALL_TOKENIZER.as_bytes());
    write(&file, content);
    if name == INDEX {
        let _ = fs::rename(bench.path(WEIGHTS), bench.path(SHARD));
    }
    if let Some(model) = open_and_read(bench.folder.path(), input) {
        match model.stop_tokens() {
            Ok(stops) => assert!(stops.iter().all(|id| (*id as usize) < model.config().vocab_size)),
            Err(error) => told(error.code(), &error.to_string(), input),
        }
        let rendered = model
            .chat_template()
            .and_then(|template| template.render(&[Message::new("user", "Hello")], true));
        if let Err(error) = rendered {
            told(error.code(), &error.to_string(), input);
        }
    }
    // The next input finds the folder as it was.
    match FIXTURE.iter().find(|(fixture, _)| *fixture == name) {
        Some((_, content)) => write(&file, content),
        None => fs::remove_file(&file).expect("the file that was written"),
    }
    if name == INDEX {
        let _ = fs::rename(bench.path(SHARD), bench.path(WEIGHTS));
    }
}

/// `tokenizer.json` of a model's folder.
pub fn tokenizer(bench: &Bench, input: &[u8]) {
    write(&bench.path("tokenizer.json"), input);
    open_and_use(bench.folder.path(), input);
}

/// A data set in JSON lines, read and made to rows.
pub fn rows(bench: &Bench, input: &[u8]) {
    let file = bench.path("rows.jsonl");
    write(&file, input);
    let mut examples = match read_jsonl(&file) {
        Ok(examples) => examples,
        Err(error) => return told(error.code(), &error.to_string(), input),
    };
    assert!(
        examples.iter().all(|example| example
            .messages
            .last()
            .is_some_and(|last| last.role == "assistant")),
        "a row ends with an answer"
    );
    examples.truncate(MOST_ROWS);
    match bench.encoder().rows(&examples, Policy::default(), &mut |_, _| {}) {
        Ok((rows, report)) => {
            assert_eq!(rows.rows.len(), report.rows);
            for row in &rows.rows {
                assert_eq!(row.input_ids.len(), row.supervised.len());
                assert!(row.supervised_tokens() > 0 && !row.supervised[0]);
            }
        }
        Err(error) => told(error.code(), &error.to_string(), input),
    }
}

fn open_and_use(path: &Path, input: &[u8]) {
    let Some(model) = open_and_read(path, input) else {
        return;
    };
    // Takes tokenizer, template and stop tokens from the model.
    match Encoder::new(&model) {
        Ok(encoder) => talk(&encoder, input),
        Err(error) => told(error.code(), &error.to_string(), input),
    }
}

/// Opens a model and reads all its tensors.
fn open_and_read(path: &Path, input: &[u8]) -> Option<Model> {
    let refused = |error: &ModelError| told(error.code(), &error.to_string(), input);
    let model = match Model::open(path) {
        Ok(model) => model,
        Err(error) => {
            refused(&error);
            return None;
        }
    };
    let config = model.config();
    assert_eq!(config.inverse_frequencies().len(), config.head_dim / 2);
    for (name, shape) in config.expected_tensors() {
        match model.read_f32(&name) {
            Ok((found, values)) => {
                assert_eq!(values.len(), shape.iter().product::<usize>());
                assert_eq!(found, shape);
            }
            Err(error) => refused(&error),
        }
    }
    Some(model)
}

/// Whatever the tokenizer and the template are: rows, prompts and decoded text come from them, or a refusal.
fn talk(encoder: &Encoder, input: &[u8]) {
    let messages = vec![
        Message::new("system", "us ab 1"),
        Message::new("user", "How much is 12 and 3?\n\u{e9}\u{1f600}"),
        Message::new("assistant", "abc"),
    ];
    match encoder.prompt(&messages[..2]) {
        Ok(ids) => {
            let _ = encoder.decode(&ids);
        }
        Err(error) => told(error.code(), &error.to_string(), input),
    }
    let id = "row".to_owned();
    if let Err(error) = encoder.row(&Example { id, messages }) {
        told(error.code(), &error.to_string(), input);
    }
}
