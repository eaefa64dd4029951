//! What can be wrong with a model, in the words that a user reads.
//!
//! Files come from downloads, converters and other people's disks, so each kind of fault has its own sentence and its own
//! way out; `code()` stays the same when the wording changes.

use std::path::PathBuf;

/// Why a model cannot be opened, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Nothing lies at the path.
    #[error("there is no model at {path}", path = path.display())]
    NotFound {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The path holds something that is no model in a form that can be read.
    #[error("{path} is not a model that Tunesmith reads: {reason}", path = path.display())]
    NotAModel {
        /// The path that was asked for.
        path: PathBuf,
        /// What was found, and what was looked for.
        reason: String,
    },
    /// The system refused to read a file.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's own words.
        source: std::io::Error,
    },
    /// A file ends before its own header says that it does.
    #[error("{path} is truncated: at least {missing} bytes are missing at its end", path = path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// How many bytes the header promises beyond the file's end; a lower bound where the header itself is cut.
        missing: u64,
    },
    /// A file contradicts itself or its format.
    #[error("{path} is damaged: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        reason: String,
    },
    /// A configuration lacks a value or holds one that cannot be.
    #[error("the configuration in {path} cannot be used: {reason}", path = path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Which key, and what is wrong with it.
        reason: String,
    },
    /// The model is sound but needs something that is not built.
    #[error("{path} needs {what}, which is not supported", path = path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The feature by its name.
        what: String,
        /// What would be accepted instead.
        supported: String,
    },
    /// A tensor that the architecture needs is absent.
    #[error("{path} lacks the tensor {name}", path = path.display())]
    MissingTensor {
        /// The file or folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
    },
    /// A tensor is there that the architecture does not use: leaving it out would change what the model computes.
    #[error("{path} holds the tensor {name}, which this architecture does not use", path = path.display())]
    UnexpectedTensor {
        /// The file or folder.
        path: PathBuf,
        /// The tensor's name as stored.
        name: String,
    },
    /// A tensor's shape contradicts the configuration.
    #[error("the tensor {name} in {path} has the shape {found:?}, but the configuration asks for {expected:?}", path = path.display())]
    Shape {
        /// The file or folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The shape that the configuration leads to.
        expected: Vec<usize>,
    },
    /// The index of a sharded model names a file that is not there.
    #[error("the model {path} is incomplete: its index names {shard}, which is not there", path = path.display())]
    MissingShard {
        /// The model's folder.
        path: PathBuf,
        /// The file's name.
        shard: String,
    },
    /// A tensor was asked for that this model does not have.
    #[error("this model has no tensor named {name}")]
    UnknownTensor {
        /// The name that was asked for.
        name: String,
    },
    /// The tokenizer is absent or cannot be built.
    #[error("the tokenizer in {path} cannot be used: {reason}", path = path.display())]
    Tokenizer {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The model has no chat template.
    #[error("the model {path} has no chat template", path = path.display())]
    NoChatTemplate {
        /// The file or folder.
        path: PathBuf,
    },
    /// A chat template cannot be parsed, failed, or refused the messages.
    #[error("the chat template {reason}")]
    ChatTemplate {
        /// What happened, starting with a verb.
        reason: String,
    },
}

impl ModelError {
    /// A short name of the kind of fault; it stays the same when the wording changes.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "model_not_found",
            Self::NotAModel { .. } => "not_a_model",
            Self::Io { .. } => "model_unreadable",
            Self::Truncated { .. } => "model_truncated",
            Self::Damaged { .. } => "model_damaged",
            Self::Config { .. } => "model_config",
            Self::Unsupported { .. } => "model_unsupported",
            Self::MissingTensor { .. } => "model_tensor_missing",
            Self::UnexpectedTensor { .. } => "model_tensor_unexpected",
            Self::Shape { .. } => "model_tensor_shape",
            Self::MissingShard { .. } => "model_shard_missing",
            Self::UnknownTensor { .. } => "unknown_tensor",
            Self::Tokenizer { .. } => "tokenizer",
            Self::NoChatTemplate { .. } => "chat_template_missing",
            Self::ChatTemplate { .. } => "chat_template",
        }
    }

    /// What to do about it, one sentence each; the first is the most likely cure.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotFound { .. } => {
                "check the path; a model is a folder with config.json and safetensors weights, or one .gguf file"
            }
            Self::NotAModel { .. } => {
                "pass a folder with config.json and safetensors weights, or one .gguf file"
            }
            Self::Io { .. } => {
                "check that the file exists, that you may read it, and that its disk is mounted"
            }
            Self::Truncated { .. } => "the download did not finish: download it again",
            Self::Damaged { .. } => {
                "download it again and compare its checksum; if it is the same, tell whoever published the file"
            }
            Self::Config { .. } => {
                "take config.json from the model's own page, unchanged, and put it beside the weights"
            }
            Self::Unsupported { supported, .. } => return vec![format!("choose a model with {supported}")],
            Self::MissingTensor { .. } | Self::Shape { .. } => {
                "the weights and the configuration do not belong together: download both again from one place"
            }
            Self::UnexpectedTensor { .. } => {
                "check that the weights are of a llama, qwen2 or qwen3 model, and that config.json, where there is one, belongs to them"
            }
            Self::MissingShard { .. } => "download the missing file into the same folder",
            Self::UnknownTensor { .. } => {
                "tensors go by their Hugging Face names, such as model.embed_tokens.weight"
            }
            Self::Tokenizer { .. } => "put the tokenizer.json from the model's own page beside the weights",
            Self::NoChatTemplate { .. } => {
                "use the instruction-tuned version of the model, or put its chat_template.jinja beside the weights"
            }
            Self::ChatTemplate { .. } => {
                "check the order of roles in your messages (many templates want user and assistant to alternate), or take the \
                 template from the model's own page"
            }
        };
        vec![hint.to_owned()]
    }
}
