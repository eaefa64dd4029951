//! Models in a Hugging Face folder: `config.json`, safetensors weights in one file or several, and the tokenizer's files.
//!
//! Safetensors headers are read with a limit and checked against the file's size; tensors are read one at a time where they
//! lie, so that opening a folder costs little and a large model is never in memory twice.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::Value;

use crate::model::io_error;
use crate::{ModelConfig, ModelError};

const MAX_HEADER_BYTES: u64 = 100_000_000;
/// `tokenizer.json` of the largest vocabularies has about 35 MB.
const MAX_TEXT_FILE_BYTES: u64 = 512 << 20;
const MAX_INDEX_ENTRIES: usize = 1 << 20;
/// Bytes that are read and turned to f32 at once.
const PIECE_BYTES: usize = 16 << 20;

const SINGLE_FILE: &str = "model.safetensors";
const INDEX_FILE: &str = "model.safetensors.index.json";

/// An opened folder: which tensor lies where.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The files that hold weights, sorted by name.
    weight_files: Vec<PathBuf>,
    /// By name.
    tensors: BTreeMap<String, Stored>,
}

#[derive(Debug)]
struct Stored {
    file: PathBuf,
    dtype: Dtype,
    shape: Vec<usize>,
    /// From the start of the file, in bytes.
    start: u64,
}

impl Folder {
    /// Reads `config.json` and every header.
    pub(crate) fn open(path: &Path) -> Result<(Self, ModelConfig), ModelError> {
        let config_file = path.join("config.json");
        if !config_file.is_file() {
            return Err(ModelError::NotAModel {
                path: path.to_owned(),
                reason: what_lies_there(path),
            });
        }
        let json = read_json(&config_file)?;
        let config = ModelConfig::from_json(&json, &config_file)?;
        let weight_files = weight_files(path)?;
        let mut tensors = BTreeMap::new();
        for file in &weight_files {
            for (name, stored) in read_header(file)? {
                if let Some(other) = tensors.insert(name.clone(), stored) {
                    let reason = format!(
                        "it holds the tensor {name}, which {} holds too",
                        other.file.display()
                    );
                    return Err(ModelError::Damaged {
                        path: file.clone(),
                        reason,
                    });
                }
            }
        }
        // Older exports carry the rotary frequencies, and tied ones sometimes a copy of the head; both follow from the rest.
        tensors.retain(|name, _| {
            let follows = name.ends_with(".rotary_emb.inv_freq")
                || (config.tied_embeddings && name == "lm_head.weight");
            !follows
        });
        Ok((
            Self {
                path: path.to_owned(),
                weight_files,
                tensors,
            },
            config,
        ))
    }

    /// The shape of every tensor, by name.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.tensors
            .iter()
            .map(|(name, stored)| (name.as_str(), stored.shape.as_slice()))
    }

    /// Refuses weights in a type that cannot become f32 without a rule of its own.
    pub(crate) fn check_types(&self) -> Result<(), ModelError> {
        for (name, stored) in &self.tensors {
            if !matches!(stored.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                return Err(ModelError::Unsupported {
                    path: stored.file.clone(),
                    what: format!("weights in {} ({name})", stored.dtype),
                    supported: "weights in F32, F16 or BF16, or a GGUF file".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// One tensor in f32.
    pub(crate) fn read_f32(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), ModelError> {
        let stored = self.tensors.get(name).ok_or_else(|| ModelError::UnknownTensor {
            name: name.to_owned(),
        })?;
        let failed = |source| io_error(&stored.file, source);
        let mut file = File::open(&stored.file).map_err(failed)?;
        file.seek(SeekFrom::Start(stored.start)).map_err(failed)?;
        let elements: usize = stored.shape.iter().product();
        let mut bytes_left = elements * stored.dtype.bitsize() / 8;
        let mut values = Vec::with_capacity(elements);
        while bytes_left > 0 {
            let mut buffer = vec![0; bytes_left.min(PIECE_BYTES)];
            file.read_exact(&mut buffer).map_err(failed)?;
            let words = buffer.as_chunks::<2>().0.iter().copied();
            match stored.dtype {
                Dtype::F16 => values.extend(words.map(|word| half::f16::from_le_bytes(word).to_f32())),
                Dtype::BF16 => values.extend(words.map(|word| half::bf16::from_le_bytes(word).to_f32())),
                // `check_types` let nothing else through.
                _ => values.extend(
                    buffer
                        .as_chunks::<4>()
                        .0
                        .iter()
                        .map(|word| f32::from_le_bytes(*word)),
                ),
            }
            bytes_left -= buffer.len();
        }
        Ok((stored.shape.clone(), values))
    }

    /// A JSON file of the folder, or `None` where there is no such file.
    pub(crate) fn json(&self, name: &str) -> Result<Option<Value>, ModelError> {
        let file = self.path.join(name);
        if file.is_file() {
            read_json(&file).map(Some)
        } else {
            Ok(None)
        }
    }

    /// A text file of the folder, or `None` where there is no such file.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, ModelError> {
        let file = self.path.join(name);
        if file.is_file() {
            read_text(&file).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Every file that the model's behaviour depends on, weights last.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        const BESIDE_THE_WEIGHTS: [&str; 6] = [
            "chat_template.jinja",
            "chat_template.json",
            "config.json",
            "generation_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
        ];
        let beside = BESIDE_THE_WEIGHTS
            .iter()
            .map(|name| self.path.join(name))
            .filter(|file| file.is_file());
        beside.chain(self.weight_files.iter().cloned()).collect()
    }
}

/// Says what a folder without `config.json` holds, since people often point one level too high or at a GGUF's folder.
fn what_lies_there(path: &Path) -> String {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let gguf = entries
        .map(|entry| entry.path())
        .find(|file| file.extension().is_some_and(|ending| ending == "gguf"));
    match gguf {
        Some(file) => format!(
            "the folder has no config.json; it holds {}, which can be opened itself",
            file.display()
        ),
        None => "the folder has no config.json".to_owned(),
    }
}

fn weight_files(path: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let single = path.join(SINGLE_FILE);
    if single.is_file() {
        return Ok(vec![single]);
    }
    let index_file = path.join(INDEX_FILE);
    if !index_file.is_file() {
        let reason = if path.join("pytorch_model.bin").is_file()
            || path.join("pytorch_model.bin.index.json").is_file()
        {
            "its weights are pickled (pytorch_model.bin), which can run code when read; only safetensors are read"
        } else {
            "the folder has neither model.safetensors nor model.safetensors.index.json"
        };
        return Err(ModelError::NotAModel {
            path: path.to_owned(),
            reason: reason.to_owned(),
        });
    }
    let damaged = |reason: String| ModelError::Damaged {
        path: index_file.clone(),
        reason,
    };
    let index = read_json(&index_file)?;
    let map = index.get("weight_map").and_then(Value::as_object);
    let Some(map) = map.filter(|map| !map.is_empty() && map.len() <= MAX_INDEX_ENTRIES) else {
        return Err(damaged("it has no usable weight_map".to_owned()));
    };
    let mut names = std::collections::BTreeSet::new();
    for (tensor, file) in map {
        // A plain name and nothing else: an index from outside must not reach out of its folder.
        match file.as_str() {
            Some(name) if Path::new(name).file_name().is_some_and(|plain| plain == name) => {
                names.insert(name)
            }
            _ => {
                return Err(damaged(format!(
                    "it says that {tensor} lies in {file}, which is not a file name"
                )));
            }
        };
    }
    names
        .into_iter()
        .map(|name| {
            let file = path.join(name);
            if file.is_file() {
                Ok(file)
            } else {
                Err(ModelError::MissingShard {
                    path: path.to_owned(),
                    shard: name.to_owned(),
                })
            }
        })
        .collect()
}

fn read_header(path: &Path) -> Result<Vec<(String, Stored)>, ModelError> {
    let failed = |source| io_error(path, source);
    let damaged = |reason: String| ModelError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let truncated = |missing| ModelError::Truncated {
        path: path.to_owned(),
        missing,
    };
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length < 8 {
        return Err(truncated(8 - length));
    }
    let mut size = [0; 8];
    file.read_exact(&mut size).map_err(failed)?;
    let size = u64::from_le_bytes(size);
    if size > MAX_HEADER_BYTES {
        return Err(damaged(format!("its header claims to be {size} bytes long")));
    }
    let weights_start = 8 + size;
    if weights_start > length {
        return Err(truncated(weights_start - length));
    }
    let mut header = vec![0; size as usize];
    file.read_exact(&mut header).map_err(failed)?;
    // The library checks that tensors follow each other without gaps and that each has the bytes its shape needs.
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| damaged(format!("its header cannot be read: {error}")))?;
    let end = weights_start.saturating_add(metadata.data_len() as u64);
    if end > length {
        return Err(truncated(end - length));
    }
    if end < length {
        return Err(damaged(format!("{} bytes follow its last tensor", length - end)));
    }
    let stored = metadata.tensors().into_iter().map(|(name, info)| {
        let start = weights_start + info.data_offsets.0 as u64;
        (
            name,
            Stored {
                file: path.to_owned(),
                dtype: info.dtype,
                shape: info.shape.clone(),
                start,
            },
        )
    });
    Ok(stored.collect())
}

fn read_text(path: &Path) -> Result<String, ModelError> {
    let failed = |source| io_error(path, source);
    let mut text = String::new();
    let read = File::open(path)
        .map_err(failed)?
        .take(MAX_TEXT_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if read as u64 > MAX_TEXT_FILE_BYTES {
        let reason = format!("it is longer than {} MiB", MAX_TEXT_FILE_BYTES >> 20);
        return Err(ModelError::Damaged {
            path: path.to_owned(),
            reason,
        });
    }
    Ok(text)
}

fn read_json(path: &Path) -> Result<Value, ModelError> {
    serde_json::from_str(&read_text(path)?).map_err(|error| ModelError::Damaged {
        path: path.to_owned(),
        reason: format!("it is not JSON: {error}"),
    })
}
