//! What engines said, kept while they say it: every line in `engine.log`, every message in `events.jsonl`.
//! Both only grow, and each line is handed to the system at once, so that a crash loses nothing.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{Event, ParentLine, decode_event};

use crate::files::FileError;

/// A line that the lab itself adds to `events.jsonl`, told apart from an engine's by its `type`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LabLine {
    /// The lines of an engine that follow belong to this stage.
    Stage {
        /// e.g. `train`.
        stage: String,
        /// When it began, RFC 3339.
        at: String,
    },
    /// A run goes on from a checkpoint: readers drop earlier steps above it.
    Resume {
        /// The last step that counts.
        from_step: u64,
    },
}

/// The two growing files of a folder.
#[derive(Debug)]
pub struct Journal {
    events: (PathBuf, File),
    log: (PathBuf, File),
}

impl Journal {
    /// Opens the files in a folder, to append. A last line that was cut off is ended, so that it spoils no other.
    ///
    /// # Errors
    /// [`FileError`] when one cannot be opened.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        let open = |name: &str| -> Result<(PathBuf, File), FileError> {
            let path = folder.join(name);
            let file = File::options()
                .create(true)
                .read(true)
                .append(true)
                .open(&path)
                .and_then(end_last_line)
                .map_err(|source| FileError::new(&path, "opened", source))?;
            Ok((path, file))
        };
        Ok(Self {
            events: open("events.jsonl")?,
            log: open("engine.log")?,
        })
    }

    /// Keeps a line of raw output.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written, e.g. on a full disk.
    pub fn raw(&mut self, line: &str) -> Result<(), FileError> {
        append(&mut self.log, line)
    }

    /// Keeps a message, verbatim.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written, e.g. on a full disk.
    pub fn event(&mut self, line: &str) -> Result<(), FileError> {
        append(&mut self.events, line)
    }

    /// Keeps a line of the lab's own.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written, e.g. on a full disk.
    pub fn lab(&mut self, line: &LabLine) -> Result<(), FileError> {
        // The type holds strings and numbers, so it always becomes JSON.
        append(&mut self.events, &serde_json::to_string(line).unwrap_or_default())
    }
}

/// Ends a last line that was cut off, so that it spoils no other.
pub(crate) fn end_last_line(mut file: File) -> io::Result<File> {
    if file.seek(SeekFrom::End(0))? > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

fn append(target: &mut (PathBuf, File), line: &str) -> Result<(), FileError> {
    // One write per line: two processes that append never mix within a line.
    let bytes = [line.as_bytes(), b"\n"].concat();
    target
        .1
        .write_all(&bytes)
        .map_err(|source| FileError::new(&target.0, "written", source))
}

/// A line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// The lab's own.
    Lab(LabLine),
    /// An engine's.
    Engine(Box<Event>),
}

/// Reads `events.jsonl` of a folder; a folder without one has no events. A line that is neither of the two
/// kinds (the last one of a run that was cut off) is passed over.
///
/// # Errors
/// [`FileError`] when the file exists and cannot be read.
pub fn read_events(folder: &Path) -> Result<Vec<Entry>, FileError> {
    let path = folder.join("events.jsonl");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let file = fs::File::open(&path).map_err(|source| FileError::new(&path, "read", source))?;
    let mut entries = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|source| FileError::new(&path, "read", source))?;
        if let Ok(lab) = serde_json::from_str::<LabLine>(&line) {
            entries.push(Entry::Lab(lab));
        } else if let ParentLine::Event(event) = decode_event(&line) {
            entries.push(Entry::Engine(event));
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_protocol::{Bye, RunStatus, encode};

    #[test]
    fn a_line_that_was_cut_off_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        let stage = LabLine::Stage {
            stage: "train".into(),
            at: "2026-01-01T00:00:00Z".into(),
        };
        let bye = Event::Bye(Bye {
            status: RunStatus::Ok,
        });
        journal.lab(&stage).unwrap();
        journal.event(encode(&bye).trim_end()).unwrap();
        let whole = [Entry::Lab(stage), Entry::Engine(Box::new(bye))];
        let path = folder.path().join("events.jsonl");
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"type\":\"step\",\"st");
        fs::write(&path, text).unwrap();
        assert_eq!(read_events(folder.path()).unwrap(), whole);
        // Whoever goes on begins on a line of its own.
        let resume = LabLine::Resume { from_step: 2 };
        Journal::open(folder.path()).unwrap().lab(&resume).unwrap();
        let read = read_events(folder.path()).unwrap();
        assert_eq!(read, [&whole[..], &[Entry::Lab(resume)]].concat());
    }
}
