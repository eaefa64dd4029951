//! Space on disk: how much is free before a stage starts, and how much has arrived while it runs.

use std::path::Path;

use serde::Serialize;

use crate::error::SetupError;
use crate::progress::Stage;

/// Bytes free for this user on the file system that `path` lies on, or will lie on once it exists. None where
/// the system does not tell.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|folder| folder.exists())?;
    free_on(existing)
}

#[cfg(unix)]
fn free_on(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
fn free_on(_folder: &Path) -> Option<u64> {
    None
}

/// Refuses to start a stage that would fill the disk half-way.
pub(crate) fn require_free(stage: Stage, path: &Path, needed: u64) -> Result<(), SetupError> {
    match free_bytes(path) {
        Some(free) if free < needed => Err(SetupError::DiskTooSmall {
            stage,
            path: path.to_path_buf(),
            needed,
            free,
        }),
        _ => Ok(()),
    }
}

/// Bytes that `folders` take on disk together; a file linked into several of them counts once. What vanishes
/// while it is read counts as nothing: this runs while an installer writes.
pub fn folder_bytes<P: AsRef<Path>>(folders: &[P]) -> u64 {
    folder_size(folders, usize::MAX).bytes
}

/// What folders take on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FolderSize {
    /// Bytes.
    pub bytes: u64,
    /// Files and folders that were looked at.
    pub entries: usize,
    /// Whether that is all of them: false where the limit was met, and the bytes are then a lower bound.
    pub whole: bool,
}

/// As [`folder_bytes`], over `most_entries` files and folders at most. Links are counted as what they are and not
/// followed.
pub fn folder_size<P: AsRef<Path>>(folders: &[P], most_entries: usize) -> FolderSize {
    let mut seen = std::collections::HashSet::new();
    let mut waiting: Vec<_> = folders
        .iter()
        .map(|folder| folder.as_ref().to_path_buf())
        .collect();
    let mut size = FolderSize {
        bytes: 0,
        entries: 0,
        whole: true,
    };
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            if size.entries == most_entries {
                size.whole = false;
                return size;
            }
            size.entries += 1;
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                waiting.push(entry.path());
            } else if is_first_link(&meta, &mut seen) {
                size.bytes += allocated(&meta);
            }
        }
    }
    size
}

#[cfg(unix)]
fn is_first_link(meta: &std::fs::Metadata, seen: &mut std::collections::HashSet<(u64, u64)>) -> bool {
    use std::os::unix::fs::MetadataExt;
    meta.nlink() < 2 || seen.insert((meta.dev(), meta.ino()))
}

#[cfg(unix)]
fn allocated(meta: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    meta.blocks() * 512
}

#[cfg(not(unix))]
fn is_first_link(_: &std::fs::Metadata, _: &mut std::collections::HashSet<(u64, u64)>) -> bool {
    true
}

#[cfg(not(unix))]
fn allocated(meta: &std::fs::Metadata) -> u64 {
    meta.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_known_for_a_folder_that_does_not_exist_yet() {
        let temp = tempfile::tempdir().unwrap();
        let free = free_bytes(&temp.path().join("not/yet/there"));
        assert!(free.is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn a_stage_that_would_not_fit_is_refused_with_both_sizes() {
        let temp = tempfile::tempdir().unwrap();
        let error = require_free(Stage::Runtime, temp.path(), u64::MAX).unwrap_err();
        assert_eq!(error.code(), "disk_full");
        assert!(error.to_string().contains("torch runtime"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_walk_ends_at_its_limit_and_follows_no_link() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("folder");
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        std::fs::write(folder.join("inner/file"), vec![1; 100_000]).unwrap();
        std::fs::write(temp.path().join("elsewhere"), vec![1; 1_000_000]).unwrap();
        std::os::unix::fs::symlink(temp.path(), folder.join("up")).unwrap();
        let all = folder_size(&[&folder], 100);
        assert_eq!((all.entries, all.whole), (3, true));
        assert!((100_000..200_000).contains(&all.bytes), "{all:?}");
        let cut = folder_size(&[&folder], 2);
        assert_eq!((cut.entries, cut.whole), (2, false));
    }

    #[test]
    fn a_linked_file_counts_once() {
        let temp = tempfile::tempdir().unwrap();
        let (first, second) = (temp.path().join("a"), temp.path().join("b"));
        std::fs::create_dir_all(&first).unwrap();
        std::fs::create_dir_all(&second).unwrap();
        std::fs::write(first.join("file"), vec![1; 100_000]).unwrap();
        let alone = folder_bytes(&[&first]);
        std::fs::hard_link(first.join("file"), second.join("file")).unwrap();
        assert_eq!(folder_bytes(&[&first, &second]), alone);
    }
}
