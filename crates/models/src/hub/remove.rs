//! Taking a model out of the cache again, and only what no other model of it needs.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cache::entries;
use super::{Hub, HubError, HubId};

impl Hub {
    /// Removes a model that lies in the cache at one commit: of `owner/name@commit` everything but GGUF files, of
    /// `owner/name:file.gguf@commit` that file. Files that another commit has too are kept for it.
    ///
    /// # Errors
    /// [`HubError::NotHere`] where nothing of it is here or the id names no commit, and [`HubError::Io`] where a file
    /// cannot be removed.
    pub fn remove(&self, id: &HubId) -> Result<(), HubError> {
        let repository = self.repository_folder(id);
        let snapshot = self.snapshot(id, id.revision());
        let wanted: Vec<PathBuf> = files_below(&snapshot)
            .into_iter()
            .filter(|file| belongs(id, &snapshot, file))
            .collect();
        if !id.is_pinned() || wanted.is_empty() {
            return Err(HubError::NotHere {
                id: id.to_string(),
                missing: vec!["all of it".to_owned()],
                looked_in: snapshot,
                offline: false,
            });
        }
        let blobs: HashSet<PathBuf> = wanted.iter().filter_map(|file| blob_of(file)).collect();
        for file in &wanted {
            // The link alone: its blob may be another commit's too.
            removed(file, fs::remove_file(file))?;
        }
        remove_if_empty(&snapshot)?;
        let snapshots = entries(&repository.join("snapshots"));
        if snapshots.is_empty() {
            return removed(&repository, fs::remove_dir_all(&repository));
        }
        let kept: HashSet<PathBuf> = snapshots
            .iter()
            .flat_map(|snapshot| files_below(snapshot))
            .filter_map(|file| blob_of(&file))
            .collect();
        for blob in blobs.difference(&kept) {
            removed(blob, fs::remove_file(blob))?;
        }
        if !snapshot.exists() {
            forget(&repository.join("refs"), id.revision())?;
        }
        Ok(())
    }
}

/// Whether a file of a snapshot is part of what the id names.
fn belongs(id: &HubId, snapshot: &Path, file: &Path) -> bool {
    match id.file() {
        Some(name) => file == snapshot.join(name),
        None => file.extension().is_none_or(|ending| ending != "gguf"),
    }
}

/// Every file and link below a folder; links to folders are not followed.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for path in entries(&folder) {
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                waiting.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

/// What a link of a snapshot leads to; nothing for a file of its own and for a link that leads nowhere.
fn blob_of(file: &Path) -> Option<PathBuf> {
    if !file.is_symlink() {
        return None;
    }
    file.canonicalize().ok()
}

/// Removes a folder that holds no files any more, and the empty ones in it.
fn remove_if_empty(folder: &Path) -> Result<(), HubError> {
    if files_below(folder).is_empty() {
        removed(folder, fs::remove_dir_all(folder))?;
    }
    Ok(())
}

/// Removes the branches and tags that stand for a commit.
fn forget(refs: &Path, commit: &str) -> Result<(), HubError> {
    for file in files_below(refs) {
        if fs::read_to_string(&file).is_ok_and(|text| text.trim() == commit) {
            removed(&file, fs::remove_file(&file))?;
        }
    }
    Ok(())
}

fn removed(path: &Path, outcome: io::Result<()>) -> Result<(), HubError> {
    outcome.map_err(|source| HubError::Io {
        path: path.to_owned(),
        source,
    })
}

#[cfg(all(test, unix))]
// The lint knows the tests of `cfg(test)` alone.
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    struct Cache {
        home: tempfile::TempDir,
        hub: Hub,
    }

    impl Cache {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let place = home.path().to_str().unwrap().to_owned();
            let hub =
                Hub::from_variables(|name| (name == "HF_HUB_CACHE" || name == "HOME").then(|| place.clone()));
            Self {
                hub: hub.unwrap(),
                home,
            }
        }

        fn repository(&self) -> PathBuf {
            self.home.path().join("models--owner--name")
        }

        /// A file of a commit, as a link to a blob.
        fn file(&self, commit: &str, name: &str, blob: &str) {
            let blobs = self.repository().join("blobs");
            fs::create_dir_all(&blobs).unwrap();
            fs::write(blobs.join(blob), blob).unwrap();
            let place = self.repository().join("snapshots").join(commit).join(name);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            let up = "../".repeat(name.matches('/').count() + 2);
            symlink(Path::new(&up).join("blobs").join(blob), place).unwrap();
        }

        fn branch(&self, name: &str, commit: &str) {
            let refs = self.repository().join("refs");
            fs::create_dir_all(&refs).unwrap();
            fs::write(refs.join(name), commit).unwrap();
        }

        fn remove(&self, id: &str) -> Result<(), HubError> {
            self.hub.remove(&id.parse().unwrap())
        }

        fn blobs(&self) -> Vec<String> {
            entries(&self.repository().join("blobs"))
                .iter()
                .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
                .collect()
        }
    }

    #[test]
    fn the_last_commit_takes_its_repository_with_it() {
        let cache = Cache::new();
        cache.file(ONE, "config.json", "a");
        cache.file(ONE, "onnx/model.bin", "b");
        cache.branch("main", ONE);
        cache.remove(&format!("owner/name@{ONE}")).unwrap();
        assert!(!cache.repository().exists());
        assert!(cache.home.path().exists());
    }

    #[test]
    fn what_another_commit_needs_is_kept() {
        let cache = Cache::new();
        cache.file(ONE, "config.json", "shared");
        cache.file(ONE, "model.safetensors", "old");
        cache.file(TWO, "config.json", "shared");
        cache.file(TWO, "model.safetensors", "new");
        cache.branch("main", TWO);
        cache.branch("v1", ONE);
        cache.remove(&format!("owner/name@{ONE}")).unwrap();
        assert_eq!(cache.blobs(), ["new", "shared"]);
        assert!(cache.repository().join("refs/main").exists());
        assert!(!cache.repository().join("refs/v1").exists());
        let left: Vec<String> = cache.hub.list().into_iter().map(|held| held.id).collect();
        assert_eq!(left, [format!("owner/name@{TWO}")]);
    }

    #[test]
    fn a_gguf_file_goes_without_what_lies_beside_it() {
        let cache = Cache::new();
        cache.file(ONE, "a.gguf", "a");
        cache.file(ONE, "b.gguf", "b");
        cache.file(ONE, "config.json", "c");
        cache.branch("main", ONE);
        cache.remove(&format!("owner/name:a.gguf@{ONE}")).unwrap();
        assert_eq!(cache.blobs(), ["b", "c"]);
        cache.remove(&format!("owner/name@{ONE}")).unwrap();
        assert_eq!(cache.blobs(), ["b"]);
        assert!(cache.repository().join("refs/main").exists());
    }

    #[test]
    fn a_model_that_is_not_here_or_no_commit_removes_nothing() {
        let cache = Cache::new();
        cache.file(ONE, "config.json", "a");
        cache.branch("main", ONE);
        for id in [
            "owner/name",
            &format!("owner/name@{TWO}"),
            &format!("owner/name:x.gguf@{ONE}"),
        ] {
            assert_eq!(cache.remove(id).unwrap_err().code(), "model_not_here", "{id}");
        }
        assert_eq!(cache.blobs(), ["a"]);
    }
}
