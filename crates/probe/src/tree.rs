//! Reading small text files below a root path.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::detect::clean;

/// Most that is read of a file: `/proc/cpuinfo` of the largest machines has some hundred kilobytes.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// A text file's content; `None` when it cannot be read, for whatever reason.
pub(crate) fn text(root: &Path, path: &str) -> Option<String> {
    text_at(&root.join(path))
}

/// As [`text`], for a whole path. Control characters do not come through: names end up on terminals.
pub(crate) fn text_at(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(clean(&String::from_utf8_lossy(&bytes)))
}

/// A file's only line, without white space around it; `None` when there is nothing in it.
pub(crate) fn line_at(path: &Path) -> Option<String> {
    text_at(path)
        .map(|text| text.trim().to_owned())
        .filter(|line| !line.is_empty())
}

/// A number that is a file's only content.
pub(crate) fn number_at(path: &Path) -> Option<u64> {
    line_at(path)?.parse().ok()
}

/// Entries of a folder, sorted; none when it cannot be read.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// The value of `key` in lines of the form `key<separator>value`.
pub(crate) fn value<'a>(text: &'a str, separator: char, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// A value such as `VmHWM: 1748 kB`, in bytes.
pub(crate) fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let number: u64 = value(text, ':', key)?.strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder that holds the given files.
    pub(crate) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn values_are_found_by_key() {
        let text = "MemTotal:       24684096 kB\nMemFree: 5 kB\nHugePages_Total:       0\n";
        assert_eq!(kilobytes(text, "MemTotal"), Some(24_684_096 * 1024));
        assert_eq!(kilobytes(text, "HugePages_Total"), None);
        assert_eq!(kilobytes(text, "Mem"), None);
        assert_eq!(value("ID=debian\nNAME=\"D\"", '=', "ID"), Some("debian"));
    }

    #[test]
    fn what_is_missing_or_no_text_is_none_or_lossy() {
        let folder = tree(&[("a", "  \n")]);
        assert_eq!(text(folder.path(), "missing"), None);
        assert_eq!(text(folder.path(), ""), None, "a folder is no file");
        assert_eq!(line_at(&folder.path().join("a")), None);
        fs::write(folder.path().join("b"), [0xff, b'x']).unwrap();
        assert_eq!(text(folder.path(), "b").unwrap(), "\u{fffd}x");
    }
}
