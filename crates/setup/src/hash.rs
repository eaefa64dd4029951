//! SHA-256 of files, which may be larger than memory.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// The SHA-256 of a file's content.
pub(crate) fn sha256_of(file: &Path) -> io::Result<Vec<u8>> {
    let mut reader = File::open(file)?;
    let mut hasher = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        match reader.read(&mut block)? {
            0 => return Ok(hasher.finalize().to_vec()),
            bytes => hasher.update(&block[..bytes]),
        }
    }
}

/// Two digits a byte, as checksums are written.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
