//! Encodes texts and renders chats with a model's own tokenizer and template, for comparison with a reference.
//!
//! `encode MODEL < requests.jsonl > answers.jsonl`: a line `{"text"}` gives `{"ids"}`; a line
//! `{"messages", "add_generation_prompt"}` gives `{"text"}`, or `{"error"}` where the template refuses the messages.

use std::error::Error;
use std::io::{BufRead, BufWriter, Write};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;
use tunesmith_models::{Message, Model};

#[derive(Deserialize)]
#[serde(untagged)]
enum Request {
    Text {
        text: String,
    },
    Chat {
        messages: Vec<Message>,
        #[serde(default)]
        add_generation_prompt: bool,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or("usage: encode MODEL < requests.jsonl")?;
    let model = Model::open(&path)?;
    let tokenizer = model.tokenizer()?;
    let template = model.chat_template()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?)? {
            Request::Text { text } => {
                let encoding = tokenizer
                    .encode_fast(text, false)
                    .map_err(|error| error.to_string())?;
                json!({ "ids": encoding.get_ids() })
            }
            Request::Chat {
                messages,
                add_generation_prompt,
            } => match template.render(&messages, add_generation_prompt) {
                Ok(text) => json!({ "text": text }),
                Err(error) => json!({ "error": error.to_string() }),
            },
        };
        writeln!(out, "{answer}")?;
    }
    Ok(out.flush()?)
}
