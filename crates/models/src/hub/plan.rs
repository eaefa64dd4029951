//! Which files a model needs, and what fetching them means: said before anything is fetched.

use serde::Serialize;
use serde_json::Value;

use super::id::{is_commit, is_file_name};
use super::{Hub, HubError, HubId};

/// Files beside the weights that a model may have; the first two it must have.
const BESIDE_THE_WEIGHTS: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
];
const NEEDED: [&str; 2] = ["config.json", "tokenizer.json"];
const SINGLE_FILE: &str = "model.safetensors";
const INDEX_FILE: &str = "model.safetensors.index.json";

/// What will be fetched.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The model at one exact commit.
    #[serde(serialize_with = "as_text")]
    pub id: HubId,
    /// What was asked for, which may be a branch.
    #[serde(serialize_with = "as_text")]
    pub asked: HubId,
    /// The licence as its makers name it, e.g. `apache-2.0`.
    pub licence: Option<String>,
    /// Whether its makers want to know who takes it.
    pub gated: bool,
    /// The files, weights last.
    pub files: Vec<PlannedFile>,
    /// Bytes of all files.
    pub total_bytes: u64,
    /// Bytes that are not here yet.
    pub fetch_bytes: u64,
}

/// A file of a model.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedFile {
    /// Its name in the repository.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it is here already.
    pub here: bool,
    #[serde(skip)]
    pub(super) hash: Hash,
}

/// The hash that the hub tells of a file, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    /// SHA-256 of the content: large files.
    Sha256(String),
    /// Git's SHA-1 of a blob: small files.
    Git(String),
}

impl Hash {
    /// The digits, by which the cache calls a blob.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Sha256(text) | Self::Git(text) => text,
        }
    }
}

fn as_text<S: serde::Serializer>(id: &HubId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

impl Hub {
    /// Asks the hub what a model consists of, and looks what of it is here.
    ///
    /// # Errors
    /// [`HubError`] when the hub is not reached, does not show the model, or has it in no form that can be read; and
    /// [`HubError::NotHere`] when the network may not be used.
    pub fn plan(&self, id: &HubId) -> Result<Plan, HubError> {
        if self.is_offline() {
            return Err(HubError::NotHere {
                id: id.to_string(),
                missing: vec!["the list of its files".to_owned()],
                looked_in: self.cache().to_owned(),
                offline: true,
            });
        }
        let description = self.describe(id)?;
        let commit = description["sha"]
            .as_str()
            .filter(|commit| is_commit(commit))
            .ok_or_else(|| self.bad_answer("a description without a commit".to_owned()))?;
        if id.is_pinned() && !commit.eq_ignore_ascii_case(id.revision()) {
            return Err(self.bad_answer(format!("another commit ({commit}) than was asked for")));
        }
        let pinned = id.at(commit);
        let mut files = Vec::new();
        for name in wanted(&pinned, &description)? {
            files.push(self.planned(&pinned, &name, &description)?);
        }
        Ok(Plan {
            asked: id.clone(),
            licence: licence(&description),
            gated: !matches!(description["gated"], Value::Null | Value::Bool(false)),
            total_bytes: files.iter().map(|file| file.bytes).sum(),
            fetch_bytes: files
                .iter()
                .filter(|file| !file.here)
                .map(|file| file.bytes)
                .sum(),
            files,
            id: pinned,
        })
    }

    fn planned(&self, id: &HubId, name: &str, description: &Value) -> Result<PlannedFile, HubError> {
        let untold = || self.bad_answer(format!("a description that tells no size and hash of {name}"));
        let entry = siblings(description)
            .find(|entry| entry["rfilename"] == name)
            .ok_or_else(untold)?;
        let hex = |value: &Value, digits: usize| {
            let text = value.as_str()?.to_lowercase();
            (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)
        };
        let lfs = &entry["lfs"];
        let hash = hex(&lfs["sha256"], 64)
            .map(Hash::Sha256)
            .or_else(|| hex(&entry["blobId"], 40).filter(|_| lfs.is_null()).map(Hash::Git))
            .ok_or_else(untold)?;
        let bytes = lfs["size"]
            .as_u64()
            .or_else(|| entry["size"].as_u64())
            .ok_or_else(untold)?;
        Ok(PlannedFile {
            here: self.is_here(id, name, &hash, bytes),
            name: name.to_owned(),
            bytes,
            hash,
        })
    }
}

fn siblings(description: &Value) -> impl Iterator<Item = &Value> {
    description["siblings"].as_array().into_iter().flatten()
}

/// The names of the files that the model needs, out of those that the repository has.
fn wanted(id: &HubId, description: &Value) -> Result<Vec<String>, HubError> {
    let names: Vec<&str> = siblings(description)
        .filter_map(|entry| entry["rfilename"].as_str())
        .filter(|name| name.split('/').all(is_file_name))
        .collect();
    let has = |name: &str| names.contains(&name);
    let gguf: Vec<String> = names
        .iter()
        .filter(|name| name.to_lowercase().ends_with(".gguf"))
        .map(|name| (*name).to_owned())
        .collect();
    let unusable = |reason: String| HubError::Unusable {
        id: id.to_string(),
        reason,
        gguf: gguf.clone(),
    };
    if let Some(file) = id.file() {
        return if has(file) {
            Ok(vec![file.to_owned()])
        } else {
            Err(unusable(format!("it has no file {file}")))
        };
    }
    let weights: Vec<&str> = if has(SINGLE_FILE) {
        vec![SINGLE_FILE]
    } else if has(INDEX_FILE) {
        let shard = |name: &&&str| name.starts_with("model-") && name.ends_with(".safetensors");
        std::iter::once(INDEX_FILE)
            .chain(names.iter().filter(shard).copied())
            .collect()
    } else {
        let reason = if names.iter().any(|name| name.starts_with("pytorch_model")) {
            "its weights are pickled (pytorch_model.bin), which can run code when read"
        } else {
            "it has no safetensors weights"
        };
        return Err(unusable(reason.to_owned()));
    };
    if let Some(missing) = NEEDED.into_iter().find(|name| !has(name)) {
        return Err(unusable(format!("it has no {missing}")));
    }
    let beside = BESIDE_THE_WEIGHTS.into_iter().filter(|name| has(name));
    Ok(beside.chain(weights).map(str::to_owned).collect())
}

/// From the model card, else from the hub's tags.
fn licence(description: &Value) -> Option<String> {
    let card = &description["cardData"]["license"];
    let listed = || {
        card.as_array()
            .and_then(|list| list.first())
            .and_then(Value::as_str)
    };
    let tagged = || {
        let tags = description["tags"].as_array().into_iter().flatten();
        tags.filter_map(Value::as_str)
            .find_map(|tag| tag.strip_prefix("license:"))
    };
    let name = card.as_str().or_else(listed).or_else(tagged)?;
    // `other` says nothing; the card often names it more closely.
    let closer = description["cardData"]["license_name"]
        .as_str()
        .filter(|_| name == "other");
    Some(closer.unwrap_or(name).to_owned())
}
