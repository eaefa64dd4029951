//! The one door to a model, whichever form it lies in on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

use crate::folder::Folder;
use crate::gguf::Gguf;
use crate::{ChatTemplate, Message, ModelConfig, ModelError, caught};

/// A model whose headers are read and whose tensors are all there in their right shapes; the weights stay on disk until
/// they are asked for.
#[derive(Debug)]
pub struct Model {
    path: PathBuf,
    config: ModelConfig,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Folder(Folder),
    Gguf(Gguf),
}

impl Model {
    /// Opens a Hugging Face folder or a GGUF file and checks that it is whole.
    ///
    /// # Errors
    /// Whatever would make the model compute something else than its makers meant: a truncated or damaged file, a missing,
    /// misshapen or unknown tensor, a configuration that needs what is not built.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let found = std::fs::metadata(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => ModelError::NotFound {
                path: path.to_owned(),
            },
            _ => io_error(path, source),
        })?;
        let (form, config) = if found.is_dir() {
            let (folder, config) = Folder::open(path)?;
            (Form::Folder(folder), config)
        } else if starts_with_gguf(path)? || path.extension().is_some_and(|ending| ending == "gguf") {
            let (gguf, config) = Gguf::open(path)?;
            (Form::Gguf(gguf), config)
        } else {
            let reason = "it is neither a folder nor a GGUF file".to_owned();
            return Err(ModelError::NotAModel {
                path: path.to_owned(),
                reason,
            });
        };
        let model = Self {
            path: path.to_owned(),
            config,
            form,
        };
        model.check_tensors()?;
        Ok(model)
    }

    /// The model's shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// What was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One tensor by its Hugging Face name: its shape as torch has it, and its values row by row.
    ///
    /// The names are those of [`ModelConfig::expected_tensors`]; where embeddings are tied there is no `lm_head.weight`.
    ///
    /// # Errors
    /// An unknown name, or a file that changed or cannot be read any more.
    pub fn read_f32(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), ModelError> {
        match &self.form {
            Form::Folder(folder) => folder.read_f32(name),
            Form::Gguf(gguf) => gguf.read_f32(name, &self.config),
        }
    }

    /// The model's tokenizer. Chat templates write their own special tokens, so encode rendered text without adding any.
    ///
    /// # Errors
    /// The tokenizer is missing, damaged or of a kind that is not supported.
    pub fn tokenizer(&self) -> Result<Tokenizer, ModelError> {
        let wrong = |reason: String| ModelError::Tokenizer {
            path: self.path.clone(),
            reason,
        };
        let tokenizer = match &self.form {
            Form::Gguf(gguf) => gguf.tokenizer()?,
            Form::Folder(folder) => {
                let unreadable =
                    |error: tokenizers::Error| wrong(format!("tokenizer.json cannot be read: {error}"));
                let text = folder
                    .text("tokenizer.json")?
                    .ok_or_else(|| wrong("there is no tokenizer.json".to_owned()))?;
                let mut tokenizer = caught(|| Tokenizer::from_bytes(text))
                    .map_err(|reason| wrong(format!("tokenizer.json cannot be read: {reason}")))?
                    .map_err(unreadable)?;
                // Some files carry the limits of whoever saved them; a row must never be cut or filled up unseen.
                tokenizer.with_truncation(None).map_err(unreadable)?;
                tokenizer.with_padding(None);
                tokenizer
            }
        };
        // A token beyond the embedding would be read from outside it.
        let rows = self.config.vocab_size;
        match tokenizer.get_vocab(true).into_values().max() {
            Some(largest) if largest as usize >= rows => Err(wrong(format!(
                "its largest token id is {largest}, but the embedding has only {rows} rows"
            ))),
            _ => Ok(tokenizer),
        }
    }

    /// The template that turns messages into the text that the model was trained on.
    ///
    /// # Errors
    /// The model has none, or it cannot be parsed.
    pub fn chat_template(&self) -> Result<ChatTemplate, ModelError> {
        let missing = || ModelError::NoChatTemplate {
            path: self.path.clone(),
        };
        match &self.form {
            Form::Gguf(gguf) => {
                let source = gguf.text("tokenizer.chat_template").ok_or_else(missing)?;
                let token = |key: &str| gguf.token_id(key).and_then(|id| gguf.token(id));
                ChatTemplate::new(
                    source,
                    token("tokenizer.ggml.bos_token_id"),
                    token("tokenizer.ggml.eos_token_id"),
                )
            }
            Form::Folder(folder) => {
                let config = folder.json("tokenizer_config.json")?.unwrap_or_default();
                let source = match folder.text("chat_template.jinja")? {
                    Some(source) => source,
                    None => folder
                        .json("chat_template.json")?
                        .and_then(|file| template_in(&file))
                        .or_else(|| template_in(&config))
                        .ok_or_else(missing)?,
                };
                ChatTemplate::new(
                    &source,
                    token_text(&config["bos_token"]),
                    token_text(&config["eos_token"]),
                )
            }
        }
    }

    /// The tokens at which an answer ends, in ascending order: every end token that the model's files name, and the special
    /// token by which the chat template ends the assistant's turn.
    ///
    /// A padding token may be among them, so padding can never be told from an end by its id.
    ///
    /// # Errors
    /// A file that belongs to the model cannot be read. A missing tokenizer or template only means fewer sources.
    pub fn stop_tokens(&self) -> Result<Vec<u32>, ModelError> {
        let mut stops = BTreeSet::new();
        let tokenizer = match self.tokenizer() {
            Ok(tokenizer) => Some(tokenizer),
            Err(ModelError::Tokenizer { .. } | ModelError::Unsupported { .. }) => None,
            Err(error) => return Err(error),
        };
        match &self.form {
            Form::Gguf(gguf) => {
                let keys = ["eos_token_id", "eot_token_id", "eom_token_id"];
                stops.extend(
                    keys.iter()
                        .filter_map(|key| gguf.token_id(&format!("tokenizer.ggml.{key}"))),
                );
            }
            Form::Folder(folder) => {
                for file in ["generation_config.json", "config.json"] {
                    if let Some(json) = folder.json(file)? {
                        stops.extend(token_ids(&json["eos_token_id"]));
                    }
                }
                if let Some(json) = folder.json("tokenizer_config.json")?
                    && let Some(tokenizer) = &tokenizer
                {
                    stops.extend(
                        token_text(&json["eos_token"]).and_then(|token| tokenizer.token_to_id(token)),
                    );
                }
            }
        }
        let template = match self.chat_template() {
            Ok(template) => Some(template),
            Err(ModelError::NoChatTemplate { .. } | ModelError::ChatTemplate { .. }) => None,
            Err(error) => return Err(error),
        };
        if let (Some(tokenizer), Some(template)) = (tokenizer, template) {
            stops.extend(end_of_turn(&template, &tokenizer));
        }
        // Configurations of tiny test models keep a default id beyond their vocabulary; such a token can never come.
        stops.retain(|id| (*id as usize) < self.config.vocab_size);
        Ok(stops.into_iter().collect())
    }

    /// The token that the model's files name for padding, where they name one. Nothing is ever masked by it: it may be
    /// an end token too, see [`Model::stop_tokens`].
    ///
    /// # Errors
    /// A file that belongs to the model cannot be read.
    pub fn pad_token(&self) -> Result<Option<u32>, ModelError> {
        let folder = match &self.form {
            Form::Gguf(gguf) => return Ok(gguf.token_id("tokenizer.ggml.padding_token_id")),
            Form::Folder(folder) => folder,
        };
        for file in ["generation_config.json", "config.json"] {
            if let Some(json) = folder.json(file)?
                && let Some(id) = token_ids(&json["pad_token_id"]).first()
            {
                return Ok(Some(*id));
            }
        }
        let Some(json) = folder.json("tokenizer_config.json")? else {
            return Ok(None);
        };
        Ok(token_text(&json["pad_token"]).and_then(|token| self.tokenizer().ok()?.token_to_id(token)))
    }

    /// SHA-256, in hex, over everything that the model's behaviour depends on: weights, configuration, tokenizer, template.
    /// The same content gives the same value wherever it lies.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn fingerprint(&self) -> Result<String, ModelError> {
        let mut hash = Sha256::new();
        match &self.form {
            Form::Gguf(_) => hash_file(&self.path, &mut hash)?,
            Form::Folder(folder) => {
                for file in folder.files() {
                    let name = file
                        .file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned();
                    let length = std::fs::metadata(&file)
                        .map_err(|source| io_error(&file, source))?
                        .len();
                    // Name and length keep the border between two files part of the hash.
                    hash.update(format!("{name}\n{length}\n"));
                    hash_file(&file, &mut hash)?;
                }
            }
        }
        Ok(hex(&hash.finalize()))
    }

    /// Compares what is stored with what the configuration leads to: nothing missing, misshapen or left over.
    fn check_tensors(&self) -> Result<(), ModelError> {
        let path = || self.path.clone();
        let mut stored: BTreeMap<String, Vec<usize>> = match &self.form {
            Form::Folder(folder) => folder
                .shapes()
                .map(|(name, shape)| (name.to_owned(), shape.to_vec()))
                .collect(),
            Form::Gguf(gguf) => gguf
                .shapes()
                .map(|(name, shape)| (name.to_owned(), shape.to_vec()))
                .collect(),
        };
        for (name, expected) in self.config.tensors() {
            match stored.remove(&name) {
                None => return Err(ModelError::MissingTensor { path: path(), name }),
                Some(found) if found != expected => {
                    return Err(ModelError::Shape {
                        path: path(),
                        name,
                        found,
                        expected,
                    });
                }
                Some(_) => {}
            }
        }
        if let Some((name, _)) = stored.pop_first() {
            return Err(ModelError::UnexpectedTensor { path: path(), name });
        }
        match &self.form {
            Form::Folder(folder) => folder.check_types(),
            Form::Gguf(_) => Ok(()),
        }
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

pub(crate) fn io_error(path: &Path, source: std::io::Error) -> ModelError {
    match source.kind() {
        // Lengths are checked before anything is read, so the file has become shorter since.
        std::io::ErrorKind::UnexpectedEof => ModelError::Damaged {
            path: path.to_owned(),
            reason: "it became shorter while it was read, so something is still writing it".to_owned(),
        },
        _ => ModelError::Io {
            path: path.to_owned(),
            source,
        },
    }
}

fn starts_with_gguf(path: &Path) -> Result<bool, ModelError> {
    let mut magic = Vec::new();
    let file = File::open(path).map_err(|source| io_error(path, source))?;
    file.take(4)
        .read_to_end(&mut magic)
        .map_err(|source| io_error(path, source))?;
    Ok(magic == b"GGUF")
}

fn hash_file(path: &Path, hash: &mut Sha256) -> Result<(), ModelError> {
    let failed = |source| io_error(path, source);
    let mut file = File::open(path).map_err(failed)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok(()),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// `chat_template` is a text, or a list of named ones of which `default` is meant.
fn template_in(json: &Value) -> Option<String> {
    match &json["chat_template"] {
        Value::String(source) => Some(source.clone()),
        Value::Array(named) => {
            let default = named.iter().find(|entry| entry["name"] == "default")?;
            default["template"].as_str().map(str::to_owned)
        }
        _ => None,
    }
}

/// A special token is written as a text or as an object with its `content`.
fn token_text(json: &Value) -> Option<&str> {
    json.as_str().or_else(|| json["content"].as_str())
}

/// An end token is one id or a list of them.
fn token_ids(json: &Value) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match json {
        Value::Array(ids) => ids.iter().filter_map(id).collect(),
        one => id(one).into_iter().collect(),
    }
}

/// The special token that the template writes right after an assistant's answer, found by rendering one.
///
/// A template that refuses the sample conversation tells nothing, which is no error: the end tokens of the files remain.
fn end_of_turn(template: &ChatTemplate, tokenizer: &Tokenizer) -> Option<u32> {
    const ANSWER: &str = "sample answer";
    let conversation = [
        Message::new("user", "sample question"),
        Message::new("assistant", ANSWER),
    ];
    let text = template.render(&conversation, false).ok()?;
    let (_, rest) = text.rsplit_once(ANSWER)?;
    let encoding = caught(|| tokenizer.encode(rest, false)).ok()?.ok()?;
    let first = *encoding.get_ids().first()?;
    let special = tokenizer.get_added_tokens_decoder().get(&first)?.special;
    special.then_some(first)
}
