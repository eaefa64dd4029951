//! The cache's layout: `models--owner--name/` with `blobs/<hash>`, `snapshots/<commit>/<file>` and `refs/<branch>`.

use std::path::{Path, PathBuf};

use hf_hub::{Cache, Repo, RepoType};
use serde::Serialize;

use super::id::is_commit;
use super::plan::Hash;
use super::{Hub, HubError, HubId};

/// A model that is on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// `owner/name`, `owner/name:file.gguf`, each with `@commit`.
    pub id: String,
    /// The folder or GGUF file to open.
    pub path: PathBuf,
    /// Bytes of what would be opened.
    pub bytes: u64,
    /// Files that are missing; the model can be used when there are none.
    pub missing: Vec<String>,
}

impl Hub {
    pub(super) fn repository_folder(&self, id: &HubId) -> PathBuf {
        let repo = Repo::new(id.repository().to_owned(), RepoType::Model);
        self.cache().join(repo.folder_name())
    }

    pub(super) fn blob(&self, id: &HubId, hash: &Hash) -> PathBuf {
        self.repository_folder(id).join("blobs").join(hash.text())
    }

    /// The folder of a commit.
    pub(super) fn snapshot(&self, id: &HubId, commit: &str) -> PathBuf {
        self.repository_folder(id).join("snapshots").join(commit)
    }

    /// Whether a file of a commit is here in its full length. Its content was checked when it came.
    pub(super) fn is_here(&self, id: &HubId, name: &str, hash: &Hash, bytes: u64) -> bool {
        let whole =
            |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes);
        whole(&self.snapshot(id, id.revision()).join(name)) || whole(&self.blob(id, hash))
    }

    /// Remembers what a branch or tag stood for.
    pub(super) fn remember(&self, asked: &HubId, commit: &str) -> Result<(), HubError> {
        if asked.is_pinned() {
            return Ok(());
        }
        let repo = Repo::with_revision(
            asked.repository().to_owned(),
            RepoType::Model,
            asked.revision().to_owned(),
        );
        Cache::new(self.cache().to_owned())
            .repo(repo)
            .create_ref(commit)
            .map_err(|source| HubError::Io {
                path: self.repository_folder(asked).join("refs"),
                source,
            })
    }

    /// The model as it lies on this machine: its exact id, and the folder or GGUF file to open. A branch means what it
    /// meant when it was last fetched. The network is not used.
    ///
    /// # Errors
    /// [`HubError::NotHere`] with what is missing and where it was looked for.
    pub fn find(&self, id: &HubId) -> Result<(HubId, PathBuf), HubError> {
        let not_here = |missing: Vec<String>, looked_in: PathBuf| HubError::NotHere {
            id: id.to_string(),
            missing,
            looked_in,
            offline: self.is_offline(),
        };
        let commit = if id.is_pinned() {
            id.revision().to_owned()
        } else {
            let refs = self.repository_folder(id).join("refs");
            let commit = std::fs::read_to_string(refs.join(id.revision())).unwrap_or_default();
            let commit = commit.trim();
            if !is_commit(commit) {
                return Err(not_here(vec![format!("the commit of {}", id.revision())], refs));
            }
            commit.to_owned()
        };
        let snapshot = self.snapshot(id, &commit);
        let (path, missing) = match id.file() {
            Some(file) => {
                let path = snapshot.join(file);
                let missing = if path.is_file() {
                    Vec::new()
                } else {
                    vec![file.to_owned()]
                };
                (path, missing)
            }
            None => (snapshot.clone(), missing_in(&snapshot)),
        };
        if missing.is_empty() {
            Ok((id.at(&commit), path))
        } else {
            Err(not_here(missing, snapshot))
        }
    }

    /// Every model of the cache that Tunesmith could open, or could once it is complete, in order of their ids.
    pub fn list(&self) -> Vec<Held> {
        let mut held = Vec::new();
        for repository in entries(self.cache()) {
            let name = file_name(&repository);
            let Some((owner, name)) = name
                .strip_prefix("models--")
                .and_then(|rest| rest.split_once("--"))
            else {
                continue;
            };
            for snapshot in entries(&repository.join("snapshots")) {
                let commit = file_name(&snapshot);
                held.extend(held_in(&snapshot, &format!("{owner}/{name}"), &commit));
            }
        }
        held.sort_by(|a, b| a.id.cmp(&b.id));
        held
    }
}

fn held_in(snapshot: &Path, repository: &str, commit: &str) -> Vec<Held> {
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let files = entries(snapshot);
    let mut held: Vec<Held> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|ending| ending == "gguf"))
        .map(|file| Held {
            id: format!("{repository}:{}@{commit}", file_name(file)),
            path: file.clone(),
            bytes: bytes(file),
            missing: if file.is_file() {
                Vec::new()
            } else {
                vec![file_name(file)]
            },
        })
        .collect();
    if snapshot.join("config.json").exists() {
        held.push(Held {
            id: format!("{repository}@{commit}"),
            path: snapshot.to_owned(),
            bytes: files.iter().map(|file| bytes(file)).sum(),
            missing: missing_in(snapshot),
        });
    }
    held
}

/// What a folder lacks to be opened as a model.
fn missing_in(folder: &Path) -> Vec<String> {
    let lacks = |name: &&str| !folder.join(name).is_file();
    let mut missing: Vec<String> = ["config.json", "tokenizer.json"]
        .into_iter()
        .filter(lacks)
        .map(str::to_owned)
        .collect();
    if !folder.join("model.safetensors").is_file() {
        let index = std::fs::read_to_string(folder.join("model.safetensors.index.json"));
        let index: serde_json::Value = index
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        match index["weight_map"].as_object() {
            None => missing.push("model.safetensors".to_owned()),
            Some(map) => {
                let shards: std::collections::BTreeSet<&str> =
                    map.values().filter_map(serde_json::Value::as_str).collect();
                missing.extend(shards.into_iter().filter(lacks).map(str::to_owned));
            }
        }
    }
    missing
}

/// What a folder holds, by name; nothing where there is no folder.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
