//! Where updates come from, and the knowledge files that are updated apart from the program: they change faster, and a card
//! that came out last week should not wait for a release.
//!
//! Nothing is looked for until somebody has set up an address and a public key, and somebody asks. What is fetched counts
//! for nothing without a signature of that key (minisign), whoever answered at the address.

mod fetch;
mod knowledge;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::knowledge::KnowledgeError;

pub use knowledge::{
    KnowledgeUpdate, fetched_knowledge, knowledge_as_of, update_knowledge, use_fetched_knowledge,
};

/// The file in the folder of choices that sets updates up.
pub const UPDATES_FILE: &str = "updates.toml";

/// Where updates come from. What is absent is not updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateSettings {
    /// The app; its key is the one that `tauri signer generate` prints.
    pub app: Option<Source>,
    /// The knowledge files; their key is the one that `minisign -G` prints.
    pub knowledge: Option<Source>,
}

/// Where something comes from, and whose signature it must have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// An address that begins with `https://`.
    pub address: String,
    /// The public key.
    pub public_key: String,
}

impl UpdateSettings {
    /// Reads `updates.toml` in the folder of choices. Without the file nothing is set up.
    ///
    /// # Errors
    /// [`UpdateError::Settings`] where the file cannot be read or understood, or names an address that is not safe.
    pub fn load(config: &Path) -> Result<Self, UpdateError> {
        let file = config.join(UPDATES_FILE);
        let wrong = |message: String| UpdateError::Settings {
            file: file.clone(),
            message,
        };
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let settings: Self = toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
        for (name, source) in [("app", &settings.app), ("knowledge", &settings.knowledge)] {
            let Some(source) = source else { continue };
            if !is_safe(&source.address) {
                return Err(wrong(format!(
                    "{name}: {} does not begin with https://",
                    source.address
                )));
            }
            if source.public_key.trim().is_empty() {
                return Err(wrong(format!("{name}: there is no public key")));
            }
        }
        Ok(settings)
    }
}

/// Whether nobody on the way can read what is asked for. A test's server on the same machine is on no way, but only the
/// builds that tests use believe that.
fn is_safe(address: &str) -> bool {
    let here = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
    address.starts_with("https://")
        || cfg!(debug_assertions) && here.iter().any(|beginning| address.starts_with(beginning))
}

/// Why nothing was updated. What was there before is there still.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The settings are wrong.
    #[error("{}: {message}", file.display())]
    Settings {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Nothing is set up.
    #[error("updates of the knowledge files are not set up: {} names no address and key for them", .0.display())]
    NotSetUp(PathBuf),
    /// Nothing came from the address.
    #[error("{address} could not be fetched: {message}")]
    NotFetched {
        /// The address.
        address: String,
        /// Why.
        message: String,
    },
    /// What came has no good signature.
    #[error("what {address} sent is not signed by the key that is set up: {message}")]
    Signature {
        /// The address.
        address: String,
        /// What is wrong.
        message: String,
    },
    /// What came is signed and cannot be used.
    #[error("what {address} sent cannot be used: {message}")]
    Content {
        /// The address.
        address: String,
        /// What is wrong.
        message: String,
    },
    /// A knowledge file that came has a mistake.
    #[error(transparent)]
    Knowledge(#[from] KnowledgeError),
    /// It could not be kept.
    #[error("{} could not be written: {source}", path.display())]
    NotKept {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl UpdateError {
    /// A short name of the cause, stable across versions.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Settings { .. } => "update_settings",
            Self::NotSetUp(_) => "updates_not_set_up",
            Self::NotFetched { .. } => "update_not_fetched",
            Self::Signature { .. } => "update_signature",
            Self::Content { .. } => "update_content",
            Self::Knowledge(error) => error.code(),
            Self::NotKept { .. } => "io",
        }
    }

    /// What to do next, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Settings { .. } => {
                "correct the file, or take it away: then nothing is updated".to_owned()
            }
            Self::NotSetUp(file) => format!(
                "whoever publishes knowledge files tells both; write them as `address` and `public_key` under `[knowledge]` in {}",
                file.display()
            ),
            Self::NotFetched { .. } => "look whether this machine reaches that address, and try again".to_owned(),
            Self::Signature { .. } => {
                "nothing was changed; compare the public key with the one that is published, and tell its owner".to_owned()
            }
            Self::Content { .. } | Self::Knowledge(_) => {
                "nothing was changed; a newer version of Tunesmith may understand it".to_owned()
            }
            Self::NotKept { .. } => "make room there, or look who may write to it".to_owned(),
        };
        vec![hint]
    }
}
