//! What can go wrong between a model's id and its files.

use std::path::PathBuf;

/// Why a model cannot be had from a hub or from its cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The text is no id of a model.
    #[error("{text:?} is no id of a model: {reason}")]
    NotAnId {
        /// As given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Nothing tells where the cache is.
    #[error("this user has no home folder, so there is no place for models")]
    NoHome,
    /// The model is not here, and the network may not be used or was not reached.
    #[error("{id} is not complete on this machine: {} missing in {}", missing.join(", "), looked_in.display())]
    NotHere {
        /// The model.
        id: String,
        /// Files, or the commit that a branch stands for.
        missing: Vec<String>,
        /// The folder that was looked in.
        looked_in: PathBuf,
        /// Whether HF_HUB_OFFLINE forbids the network.
        offline: bool,
    },
    /// The hub was not reached.
    #[error("{host} was not reached: {reason}")]
    NotReached {
        /// The hub or mirror.
        host: String,
        /// What the network said.
        reason: String,
    },
    /// The hub has no such model, or does not show it.
    #[error("{host} has no model {repository}, or does not show it{}", if *token { " to your account" } else { " without a token" })]
    NoModel {
        /// The hub or mirror.
        host: String,
        /// `owner/name`.
        repository: String,
        /// Whether a token was sent.
        token: bool,
    },
    /// The model has no such branch, tag or commit.
    #[error("{repository} has no revision {revision}")]
    NoRevision {
        /// `owner/name`.
        repository: String,
        /// Branch, tag or commit.
        revision: String,
    },
    /// The model's owner wants to know who takes it.
    #[error("{repository} is gated: {}", if *token { "your account has no access to its files" } else { "its files are for those who have accepted its terms" })]
    Gated {
        /// `owner/name`.
        repository: String,
        /// Where its terms are.
        page: String,
        /// Whether a token was sent.
        token: bool,
    },
    /// The hub does not accept the token.
    #[error("{host} does not accept your token")]
    TokenRefused {
        /// The hub or mirror.
        host: String,
    },
    /// The hub answered something that cannot be used.
    #[error("{host} answered with {answer}")]
    BadAnswer {
        /// The hub or mirror.
        host: String,
        /// A status, or what is wrong in the answer.
        answer: String,
    },
    /// The repository is no model in a form that is read.
    #[error("{id} cannot be used: {reason}")]
    Unusable {
        /// The model.
        id: String,
        /// What it lacks.
        reason: String,
        /// GGUF files that it has.
        gguf: Vec<String>,
    },
    /// What arrived is not what the hub has.
    #[error(
        "{file} of {id} arrived with another hash than the hub tells: expected {expected}, found {found}"
    )]
    WrongHash {
        /// The model.
        id: String,
        /// The file.
        file: String,
        /// By the hub.
        expected: String,
        /// Of what arrived.
        found: String,
    },
    /// The disk is too small.
    #[error("{id} needs {needed} more bytes in {}, where {free} are free", folder.display())]
    DiskTooSmall {
        /// The model.
        id: String,
        /// Bytes to fetch.
        needed: u64,
        /// Bytes free.
        free: u64,
        /// The cache.
        folder: PathBuf,
    },
    /// Another program fetches the same file.
    #[error("another program is fetching {file} right now")]
    Busy {
        /// The file.
        file: String,
    },
    /// The system refused to read or write a file.
    #[error("{} cannot be used: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's own words.
        source: std::io::Error,
    },
    /// The user stopped.
    #[error("stopped; what has arrived is kept and not fetched again")]
    Stopped,
}

impl HubError {
    /// A short name of the kind of fault; it stays the same when the wording changes.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAnId { .. } => "hub_id",
            Self::NoHome => "no_home",
            Self::NotHere { .. } => "model_not_here",
            Self::NotReached { .. } => "hub_not_reached",
            Self::NoModel { .. } => "hub_no_model",
            Self::NoRevision { .. } => "hub_no_revision",
            Self::Gated { .. } => "hub_gated",
            Self::TokenRefused { .. } => "hub_token_refused",
            Self::BadAnswer { .. } => "hub_answer",
            Self::Unusable { .. } => "hub_unusable",
            Self::WrongHash { .. } => "hub_wrong_hash",
            Self::DiskTooSmall { .. } => "disk_full",
            Self::Busy { .. } => "hub_busy",
            Self::Io { .. } => "hub_file",
            Self::Stopped => "cancelled",
        }
    }

    /// What to do about it, one sentence each; the first is the most likely cure.
    pub fn hints(&self) -> Vec<String> {
        let token =
            "set HF_TOKEN to a token of yours with read access, or log in with Hugging Face's own tool";
        let hint = match self {
            Self::NotAnId { .. } => {
                "for example owner/name, owner/name@revision or owner/name:file.gguf@revision; files of your own are named by path"
            }
            Self::NoHome => "set HF_HOME to a folder with room for models",
            Self::NotHere {
                id, offline: true, ..
            } => {
                return vec![format!(
                    "unset HF_HUB_OFFLINE and run `tunesmith models fetch {id}`"
                )];
            }
            Self::NotHere { id, .. } => return vec![format!("`tunesmith models fetch {id}` fetches it")],
            Self::NotReached { .. } => {
                "check the network; HTTPS_PROXY names a proxy, HF_ENDPOINT a mirror; what has arrived is kept"
            }
            Self::NoModel { token: true, .. } => "check the spelling of owner and name",
            Self::NoModel { .. } => {
                return vec![
                    "check the spelling of owner and name".to_owned(),
                    format!("for a private model {token}"),
                ];
            }
            Self::NoRevision { .. } => {
                "leave out `@…` for the main branch, or take a commit from the model's page"
            }
            Self::Gated {
                page, token: true, ..
            } => {
                return vec![format!(
                    "accept the terms at {page} with the account that the token belongs to, and wait for an answer where one is needed"
                )];
            }
            Self::Gated { page, .. } => return vec![format!("accept the terms at {page}, then {token}")],
            Self::TokenRefused { .. } => {
                "make a new token on the hub's settings page; HF_TOKEN goes before the stored one"
            }
            Self::BadAnswer { .. } => "try again later; if HF_ENDPOINT names a mirror, try without it",
            Self::Unusable { gguf, id, .. } if !gguf.is_empty() => {
                let name = id.split(['@', ':']).next().unwrap_or(id);
                return vec![format!(
                    "name one of its GGUF files: {}",
                    gguf.iter()
                        .map(|file| format!("{name}:{file}"))
                        .collect::<Vec<_>>()
                        .join(", ")
                )];
            }
            Self::Unusable { .. } => {
                "choose a repository with config.json, tokenizer.json and safetensors weights, or with a GGUF file"
            }
            Self::WrongHash { .. } => {
                "run the same command again; if it happens again, a proxy or mirror changes what it passes on"
            }
            Self::DiskTooSmall { .. } => "free some space, or set HF_HOME to a folder on a larger disk",
            Self::Busy { .. } => "wait until it is done, then run the same command again",
            Self::Io { .. } => "check that the folder exists and that you may write to it",
            Self::Stopped => "run the same command again to go on",
        };
        vec![hint.to_owned()]
    }
}
