//! Reading files of a machine or of a capture. A capture comes from somebody else: it may lack files, hold nonsense,
//! or links and pipes that lead elsewhere. What cannot be read becomes a note; control characters never come through.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::{LIVE, Note};

/// Most that is read of a file.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// A capture in which everything is wrong need not be told line by line.
const MAX_NOTES: usize = 100;

/// Why a file has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Missing,
    Forbidden,
    Other,
}

pub(crate) struct Reader<'a> {
    root: &'a Path,
    /// The root without links, for captures: nothing outside is read.
    fence: Option<PathBuf>,
    notes: RefCell<Vec<Note>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(root: &'a Path) -> Self {
        let live = root == Path::new(LIVE);
        let fence = (!live).then(|| fs::canonicalize(root).unwrap_or_else(|_| root.to_owned()));
        Self {
            root,
            fence,
            notes: RefCell::default(),
        }
    }

    /// Whether the root is the machine that the program runs on.
    pub(crate) fn live(&self) -> bool {
        self.fence.is_none()
    }

    pub(crate) fn into_notes(self) -> Vec<Note> {
        self.notes.into_inner()
    }

    /// Keeps a remark about a file; `path` below the root.
    pub(crate) fn note(&self, path: &str, text: impl Into<String>) {
        let note = Note {
            path: clean(path),
            text: text.into(),
        };
        let mut notes = self.notes.borrow_mut();
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// A file's text without control characters; `None`, with a note where it is there and cannot be read.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        match self.try_text(path) {
            Ok(text) => Some(text),
            Err(Failure::Missing) => None,
            Err(Failure::Forbidden) => {
                self.note(path, "it may not be read");
                None
            }
            Err(Failure::Other) => {
                self.note(path, "it cannot be read");
                None
            }
        }
    }

    /// As [`Reader::text`], for a caller to whom the reason matters. No note is made.
    pub(crate) fn try_text(&self, path: &str) -> Result<String, Failure> {
        self.bytes(path)
            .map(|bytes| clean(&String::from_utf8_lossy(&bytes)))
    }

    /// A file's content as it is.
    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let path = self.inside(path)?;
        // A pipe in a capture would block the reader for ever, a device may do anything.
        if self.fence.is_some() && !fs::metadata(&path).map_err(|error| failure(&error))?.is_file() {
            return Err(Failure::Other);
        }
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes))
            .map_err(|error| failure(&error))?;
        Ok(bytes)
    }

    /// The end of a file that may be long.
    pub(crate) fn tail(&self, path: &str, most: usize) -> Option<Vec<u8>> {
        let path = self.inside(path).ok()?;
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut file = File::open(&path).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most as u64)))
            .ok()?;
        let mut bytes = Vec::new();
        file.take(most as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The path, unless a link in a capture leads out of it.
    fn inside(&self, path: &str) -> Result<PathBuf, Failure> {
        let path = self.root.join(path);
        let Some(fence) = &self.fence else { return Ok(path) };
        let real = fs::canonicalize(&path).map_err(|error| failure(&error))?;
        if real.starts_with(fence) {
            Ok(real)
        } else {
            Err(Failure::Other)
        }
    }

    /// A file's only line; `None` when it is empty or cannot be read.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        self.text(path)
            .map(|text| text.trim().to_owned())
            .filter(|line| !line.is_empty())
    }

    /// A number that is a file's only content.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        let line = self.line(path)?;
        let number = line.parse().ok();
        if number.is_none() {
            self.note(path, "it holds no number");
        }
        number
    }

    /// A number with `0x` before it.
    pub(crate) fn hex(&self, path: &str) -> Option<u32> {
        let line = self.line(path)?;
        let number = u32::from_str_radix(line.trim_start_matches("0x"), 16).ok();
        if number.is_none() {
            self.note(path, "it holds no hexadecimal number");
        }
        number
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Names in a folder, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let Ok(folder) = self.inside(folder) else {
            return Vec::new();
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The last part of what a link points to.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        target.file_name().and_then(|name| name.to_str()).map(clean)
    }
}

fn failure(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Failure::Missing,
        ErrorKind::PermissionDenied => Failure::Forbidden,
        _ => Failure::Other,
    }
}

/// Text without what could steer a terminal or hide a part of a line: control characters and marks of direction.
pub(crate) fn clean(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.chars()
        .filter(|char| *char != '\r')
        .map(|char| match char {
            '\n' | '\t' => char,
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
                '\u{fffd}'
            }
            other if other.is_control() => '\u{fffd}',
            other => other,
        })
        .collect()
}

/// JSON whose strings are cleaned: escapes bring control characters back.
pub(crate) fn json(text: &str) -> Option<serde_json::Value> {
    fn clean_all(value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => Value::String(clean(&text).replace(['\n', '\t'], " ")),
            Value::Array(values) => Value::Array(values.into_iter().map(clean_all).collect()),
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(key, value)| (clean(&key).replace(['\n', '\t'], " "), clean_all(value)))
                    .collect(),
            ),
            other => other,
        }
    }
    serde_json::from_str(text.trim()).ok().map(clean_all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    #[test]
    fn control_characters_and_marks_of_direction_do_not_come_through() {
        let folder = tree(&[("name", "\u{feff}a\u{1b}[31mb\u{202e}c\u{0}\r\nd\te\n")]);
        let reader = Reader::new(folder.path());
        assert_eq!(
            reader.text("name").unwrap(),
            "a\u{fffd}[31mb\u{fffd}c\u{fffd}\nd\te\n"
        );
        let value = json("{\"a\\u001b\": [\"b\\u0007\\n\"]}").unwrap();
        assert_eq!(value.to_string(), "{\"a\u{fffd}\":[\"b\u{fffd} \"]}");
    }

    #[test]
    fn what_is_no_number_is_noted_and_what_is_missing_is_not() {
        let folder = tree(&[("a", "many\n"), ("b", "0x1002"), ("c", " 7 \n")]);
        let reader = Reader::new(folder.path());
        assert_eq!(
            (reader.number("a"), reader.number("missing"), reader.number("c")),
            (None, None, Some(7))
        );
        assert_eq!(reader.hex("b"), Some(0x1002));
        let notes = reader.into_notes();
        assert_eq!(notes.len(), 1);
        assert_eq!(notes[0].path, "a");
    }

    #[cfg(unix)]
    #[test]
    fn a_capture_cannot_lead_out_of_itself_or_block() {
        let folder = tree(&[("real", "1\n")]);
        std::os::unix::fs::symlink("/proc/self/status", folder.path().join("out")).unwrap();
        std::os::unix::fs::symlink("real", folder.path().join("in")).unwrap();
        let pipe = std::process::Command::new("mkfifo")
            .arg(folder.path().join("pipe"))
            .status()
            .unwrap();
        assert!(pipe.success());
        let reader = Reader::new(folder.path());
        assert_eq!(reader.text("out"), None);
        assert_eq!(reader.text("pipe"), None);
        assert_eq!(reader.number("in"), Some(1));
        assert_eq!(reader.into_notes().len(), 2);
    }
}
