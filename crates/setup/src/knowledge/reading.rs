//! Reads a knowledge file and says of a mistake where it stands: people replace these files with their own.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What is wrong with the knowledge files.
#[derive(Debug, thiserror::Error)]
pub enum KnowledgeError {
    /// The folder that was named is not one.
    #[error("{} is not a folder, so there are no knowledge files in it", folder.display())]
    FolderMissing {
        /// The folder.
        folder: PathBuf,
    },

    /// A file is there and cannot be read.
    #[error("{} could not be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },

    /// A file has a mistake.
    #[error("{file}, line {line}, key `{key}`: {message}")]
    Mistake {
        /// The file's path, or its name where it is the one that came with the program.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The key that is wrong, or that is missing.
        key: String,
        /// What is wrong with it.
        message: String,
    },
}

impl KnowledgeError {
    /// A short name of the cause, stable across versions.
    pub fn code(&self) -> &'static str {
        match self {
            Self::FolderMissing { .. } => "knowledge_folder",
            Self::Io { .. } => "io",
            Self::Mistake { .. } => "knowledge",
        }
    }

    /// What to do next, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        vec![match self {
            Self::FolderMissing { .. } | Self::Io { .. } => {
                "name a folder with knowledge files, or leave the option out to use those of the program"
                    .to_owned()
            }
            Self::Mistake { file, .. } => {
                format!("correct {file}, or take it away: the program's own file is used instead")
            }
        }]
    }
}

/// The folder whose files take the place of the built-in ones in this process, where one does.
static IN_PLACE: OnceLock<PathBuf> = OnceLock::new();

/// From here on the files of this folder take the place of the built-in ones. The first call counts.
pub(crate) fn use_in_place(folder: PathBuf) {
    // A second one would change what is known while it is used.
    let _ = IN_PLACE.set(folder);
}

/// One file, the user's or the program's.
pub(crate) struct KnowledgeFile {
    name: String,
    text: String,
}

impl KnowledgeFile {
    /// The file `name` of the user's folder, else the one that came with the program.
    pub(crate) fn find(folder: Option<&Path>, name: &str, built_in: &str) -> Result<Self, KnowledgeError> {
        if let Some(folder) = folder.or_else(|| IN_PLACE.get().map(PathBuf::as_path)) {
            let path = folder.join(name);
            match fs::read_to_string(&path) {
                Ok(text) => {
                    let name = path.display().to_string();
                    return Ok(Self { name, text });
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(KnowledgeError::Io { path, source }),
            }
        }
        Ok(Self {
            name: name.to_owned(),
            text: built_in.to_owned(),
        })
    }

    /// How messages call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What stands in it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The whole file as rows.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, KnowledgeError> {
        toml::from_str(&self.text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let message = error.message();
            let key = quoted_field(message).unwrap_or_else(|| self.key_at(offset));
            self.mistake(offset, &key, message)
        })
    }

    /// A mistake at a place in the file.
    pub(crate) fn mistake(&self, offset: usize, key: &str, message: impl Into<String>) -> KnowledgeError {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        KnowledgeError::Mistake {
            file: self.name.clone(),
            line: before.matches('\n').count() + 1,
            key: key.to_owned(),
            message: message.into(),
        }
    }

    /// The key of the line that holds this place, or the table's name.
    fn key_at(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[start..].lines().next().unwrap_or_default();
        let left = line.split('=').next().unwrap_or_default();
        left.trim().trim_matches(['[', ']']).to_owned()
    }
}

/// The field that serde names: "missing field `source`", "unknown field `sorce`, expected …".
fn quoted_field(message: &str) -> Option<String> {
    let rest = message
        .strip_prefix("missing field `")
        .or_else(|| message.strip_prefix("unknown field `"))?;
    rest.split_once('`').map(|(field, _)| field.to_owned())
}

/// The day on which a row was true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AsOf(jiff::civil::Date);

impl TryFrom<String> for AsOf {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // `parse` also takes times and zones, which a day does not have.
        let day = (text.len() == 10).then(|| text.parse().ok()).flatten();
        day.map(Self)
            .ok_or_else(|| format!("{text:?} is not a day such as 2026-11-30"))
    }
}

impl From<AsOf> for String {
    fn from(day: AsOf) -> Self {
        day.to_string()
    }
}

impl fmt::Display for AsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Words for people: never empty, and without control characters, which a terminal would obey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text(String);

impl TryFrom<String> for Text {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.chars().any(char::is_control) {
            return Err("it holds a control character".to_owned());
        }
        Ok(Self(text))
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
