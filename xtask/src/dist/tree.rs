//! A folder that becomes a package: files are put where the system expects them, with the rights that they need and no more.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A folder that stands for `/`.
pub(super) struct Tree {
    pub(super) root: PathBuf,
}

/// A file of a tree.
pub(super) struct Entry {
    /// Without the root.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

impl Tree {
    /// An empty one; what was there is removed.
    pub(super) fn new(root: PathBuf) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("{} cannot be removed", root.display()))?;
        }
        fs::create_dir_all(&root).with_context(|| root.display().to_string())?;
        Ok(Self { root })
    }

    /// A new one with the same files.
    pub(super) fn copied_to(&self, root: PathBuf) -> Result<Self> {
        let copy = Self::new(root)?;
        for entry in self.entries()? {
            copy.copy(&self.root.join(&entry.path), entry.path)?;
        }
        Ok(copy)
    }

    /// Writes a file to a path below the root.
    pub(super) fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
        let file = self.room_for(path.as_ref())?;
        fs::write(&file, content).with_context(|| file.display().to_string())
    }

    /// Copies a file of this machine to a path below the root.
    pub(super) fn copy(&self, from: &Path, path: impl AsRef<Path>) -> Result<()> {
        let file = self.room_for(path.as_ref())?;
        fs::copy(from, &file).with_context(|| format!("{} cannot be copied", from.display()))?;
        Ok(())
    }

    /// Moves a file below the root to another place there; folders that are empty then are removed.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<()> {
        let file = self.room_for(Path::new(to))?;
        fs::rename(self.root.join(from), &file).with_context(|| file.display().to_string())?;
        for folder in Path::new(from).ancestors().skip(1) {
            // The first that is not empty ends it.
            if folder == Path::new("") || fs::remove_dir(self.root.join(folder)).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn room_for(&self, path: &Path) -> Result<PathBuf> {
        let file = self.root.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        Ok(file)
    }

    /// All files, sorted by path.
    pub(super) fn entries(&self) -> Result<Vec<Entry>> {
        Ok(self.walk()?.0)
    }

    /// All files sorted by path, and all folders.
    fn walk(&self) -> Result<(Vec<Entry>, Vec<PathBuf>)> {
        let mut entries = Vec::new();
        let mut folders = Vec::new();
        let mut waiting = vec![self.root.clone()];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let entry = entry?;
                let meta = entry.metadata()?;
                if meta.is_dir() {
                    waiting.push(entry.path());
                    continue;
                }
                entries.push(Entry {
                    path: entry.path().strip_prefix(&self.root)?.to_owned(),
                    bytes: meta.len(),
                });
            }
            folders.push(folder);
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((entries, folders))
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> Result<u64> {
        Ok(self.entries()?.iter().map(|entry| entry.bytes).sum())
    }

    /// Gives everything the rights that it has when installed, whatever the builder's mask is: all may read, only the owner
    /// may write, and programs run.
    pub(super) fn settle_rights(&self, is_program: impl Fn(&Path) -> bool) -> Result<()> {
        let (entries, folders) = self.walk()?;
        for entry in entries {
            let mode = if is_program(&entry.path) { 0o755 } else { 0o644 };
            set_mode(&self.root.join(&entry.path), mode)?;
        }
        folders.iter().try_for_each(|folder| set_mode(folder, 0o755))
    }
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).with_context(|| path.display().to_string())
}

#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) -> Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn whatever_the_rights_were_nobody_else_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::new(folder.path().join("a")).unwrap();
        tree.write("usr/bin/tunesmith", "program").unwrap();
        tree.write("usr/share/doc/tunesmith/copyright", "text").unwrap();
        set_mode(&tree.root.join("usr/share"), 0o777).unwrap();
        set_mode(&tree.root.join("usr/share/doc/tunesmith/copyright"), 0o666).unwrap();

        let tree = tree.copied_to(folder.path().join("b")).unwrap();
        tree.rename(
            "usr/share/doc/tunesmith/copyright",
            "usr/share/licenses/copyright",
        )
        .unwrap();
        tree.settle_rights(|path| path.starts_with("usr/bin")).unwrap();
        let mode = |path: &str| fs::metadata(tree.root.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("usr/bin/tunesmith"), 0o755);
        assert_eq!(mode("usr/share"), 0o755);
        assert!(!tree.root.join("usr/share/doc").exists());
        assert_eq!(mode("usr/share/licenses/copyright"), 0o644);
        assert_eq!(tree.bytes().unwrap(), 11);
        let paths: Vec<_> = tree
            .entries()
            .unwrap()
            .into_iter()
            .map(|entry| entry.path)
            .collect();
        assert_eq!(
            paths,
            [
                Path::new("usr/bin/tunesmith"),
                Path::new("usr/share/licenses/copyright")
            ]
        );
    }
}
