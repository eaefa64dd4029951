//! Whole files or none: what this crate writes is complete under its name or not there at all.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::DataError;

/// SHA-256 of a file's content, as 64 hexadecimal digits.
///
/// # Errors
/// [`DataError::Read`] when the file cannot be read.
pub fn hash_file(path: &Path) -> Result<String, DataError> {
    let read_error = |source| DataError::Read {
        path: path.to_owned(),
        source,
    };
    let mut reader = BufReader::new(File::open(path).map_err(read_error)?);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = reader.read(&mut buffer).map_err(read_error)?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
    }
}

/// SHA-256 of bytes, as 64 hexadecimal digits.
pub(crate) fn hash_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Writes beside the target and renames, so that a full disk or a kill leaves the old file or none.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    let partial = partial_name(path);
    let write = || -> io::Result<()> {
        let mut file = File::create(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(|source| {
        // The rest of a failed write is of no use; if it cannot be removed either, the first error tells more.
        let _ = fs::remove_file(&partial);
        DataError::Write {
            path: path.to_owned(),
            source,
        }
    })
}

fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_the_usual_sha256() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        fs::write(&path, "abc").unwrap();
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_file(&path).unwrap(), hash);
        assert_eq!(hash_bytes(b"abc"), hash);
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        // A folder under the target's name cannot be replaced by a file.
        let path = folder.path().join("target");
        fs::create_dir_all(path.join("child")).unwrap();
        let error = write_whole(&path, b"bytes").unwrap_err();
        assert_eq!(error.code(), "data_write");
        let names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["target"]);
    }
}
