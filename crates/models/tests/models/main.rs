//! What a user relies on when a model is opened: sound files are read to the last bit, broken ones are named as such.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::float_cmp, reason = "decoding is exact, so equal means equal")]

mod block_formats;
mod chat_template;
mod folder;
mod gguf;
mod rope;
mod smollm2;
mod tiny;
mod tokenizer;

/// A fixture by `fixtures/make_fixtures.py`.
fn fixture(text: &str) -> Vec<serde_json::Value> {
    serde_json::from_str(text).unwrap()
}

/// The message of an error, its code, and its hints: what a user sees of it.
fn told(error: &tunesmith_models::ModelError) -> String {
    format!("{error} [{}] {}", error.code(), error.hints().join("; "))
}
