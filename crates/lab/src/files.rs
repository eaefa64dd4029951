//! Small file habits that the whole lab shares: whole files or none, hashes, one JSON form.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A file that could not be read or written, with its path.
#[derive(Debug, thiserror::Error)]
#[error("{} could not be {action}: {source}", path.display())]
pub struct FileError {
    /// The file or folder.
    pub path: PathBuf,
    /// e.g. `written`.
    pub action: &'static str,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

impl FileError {
    pub(crate) fn new(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self {
            path: path.to_owned(),
            action,
            source,
        }
    }

    /// Stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self.source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "disk_full",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "not_permitted",
            io::ErrorKind::NotFound => "file_not_found",
            _ => "file_error",
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self.code() {
            "disk_full" => "free some space on that disk and start again; what was written so far is kept",
            "not_permitted" => {
                "check who owns that folder, or set TUNESMITH_HOME to a folder that you may write to"
            }
            "file_not_found" => "check the path for a typing error",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

/// Reads a text file.
///
/// # Errors
/// [`FileError`] with the path.
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(|source| FileError::new(path, "read", source))
}

/// Makes a folder and those above it.
///
/// # Errors
/// [`FileError`] with the path.
pub fn make_folder(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(|source| FileError::new(path, "made", source))
}

/// Writes a file beside its target and renames it, so that no reader ever meets half a file.
///
/// # Errors
/// [`FileError`] with the path of the target.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let attempt = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.as_file_mut().write_all(bytes)?;
        file.as_file().sync_all()?;
        let file = file.persist(path)?;
        readable_by_others(&file)
    };
    attempt().map_err(|source| FileError::new(path, "written", source))
}

/// A temporary file is private to its owner; a report or an adapter is meant to be handed on.
#[cfg(unix)]
fn readable_by_others(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable_by_others(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Writes a value as indented JSON, whole or not at all.
///
/// # Errors
/// [`FileError`] with the path of the target.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), FileError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|source| FileError::new(path, "written", io::Error::other(source)))?;
    text.push(b'\n');
    write_whole(path, &text)
}

/// SHA-256 in lower-case hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes)
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// JSON with sorted keys and no spaces: the same value is the same text whatever the order it was built in.
pub(crate) fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let fields: Vec<String> = keys
                .iter()
                .map(|key| {
                    format!(
                        "{}:{}",
                        Value::String((*key).clone()),
                        canonical_json(&map[key.as_str()])
                    )
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical_json).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn canonical_json_does_not_depend_on_key_order() {
        let one = json!({"b": [1, {"y": null, "x": 0.5}], "a": "q\"uote"});
        let other = json!({"a": "q\"uote", "b": [1, {"x": 0.5, "y": null}]});
        assert_eq!(canonical_json(&one), canonical_json(&other));
        assert_eq!(
            canonical_json(&one),
            r#"{"a":"q\"uote","b":[1,{"x":0.5,"y":null}]}"#
        );
    }

    #[test]
    fn a_hash_is_the_known_one() {
        assert_eq!(
            sha256_hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_names_its_path_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("missing").join("summary.json");
        let error = write_whole(&target, b"{}").unwrap_err();
        assert!(
            error.to_string().contains("summary.json could not be written"),
            "{error}"
        );
        assert_eq!(error.code(), "file_not_found");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
