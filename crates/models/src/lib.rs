//! Language models on disk: what they are, what they weigh, how they spell and how they talk.
//!
//! [`Model::open`] takes a Hugging Face folder (`config.json` with safetensors weights) or one GGUF file and checks every
//! header before anything is read by it, so that a broken download is a sentence now and not a wrong loss later. Both forms
//! look the same from then on: tensors go by their Hugging Face names and come as f32, the tokenizer is a
//! [`tokenizers::Tokenizer`], the chat template renders messages to text. No libtorch here: the data pipeline and every
//! engine share this crate. [`hub`] brings models here in the first place.

mod caught;
mod chat_template;
mod config;
mod error;
mod folder;
mod gguf;
pub mod hub;
mod model;
mod pieces;

pub use caught::caught;
pub use chat_template::{ChatTemplate, Message};
pub use config::{Architecture, ModelConfig, RopeScaling};
pub use error::ModelError;
pub use model::Model;
pub use pieces::Pieces;
