//! Why an engine could not be led, and how a job's failure is kept for the record.

use std::{io, path::PathBuf};

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{EngineError, PROTOCOL_VERSION};

use crate::files::FileError;

use super::lock::DeviceHolder;

/// Why an engine could not be started or led. What goes wrong inside a job is a [`Failure`] instead.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// No engine program was found.
    #[error("the engine `tunesmith-engine` was not found at {}", path.display())]
    NoEngine {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// No usable torch was found for the engine.
    #[error("{message}")]
    Torch {
        /// Stable name of the fault.
        code: &'static str,
        /// What happened.
        message: String,
        /// What to do.
        hints: Vec<String>,
    },
    /// The second engine was asked for, and no Python is named for it.
    #[error("the engine `hf` needs a Python with torch, transformers and peft, and there is none")]
    NoPython,
    /// The system refused to start the engine.
    #[error("the engine {} could not be started: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The engine ended or spoke otherwise before its hello.
    #[error("{}", failure.message)]
    NoHello {
        /// What was seen.
        failure: Failure,
    },
    /// The engine speaks another version of the protocol.
    #[error("the engine speaks protocol version {found}, this program speaks version {PROTOCOL_VERSION}")]
    Version {
        /// What the engine said.
        found: u32,
    },
    /// Another run uses the device.
    #[error("the device {device} is in use by {}", holder.words())]
    DeviceInUse {
        /// e.g. `cpu`.
        device: String,
        /// The other run.
        holder: DeviceHolder,
    },
    /// The user stopped before the engine was ready.
    #[error("stopped before the engine was ready")]
    Stopped,
    /// A record could not be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl SupervisorError {
    /// Stable name of the fault.
    pub fn code(&self) -> &str {
        match self {
            Self::NoEngine { .. } => "engine_not_found",
            Self::Torch { code, .. } => code,
            Self::NoPython => "python_not_named",
            Self::Start { .. } => "engine_not_started",
            Self::NoHello { failure } => &failure.code,
            Self::Version { .. } => "protocol_version",
            Self::DeviceInUse { .. } => "device_in_use",
            Self::Stopped => "cancelled",
            Self::File(error) => error.code(),
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NoEngine { .. } => vec![
                "it lies beside the other programs of a package: install that again, or build it with `cargo xtask quickstart`; TUNESMITH_ENGINE names another one".to_owned(),
            ],
            Self::Torch { hints, .. } => hints.clone(),
            Self::NoPython => vec![
                "`tunesmith setup --engine hf --apply` makes an environment that has them".to_owned(),
                "TUNESMITH_HF_PYTHON names the python program of an environment of your own".to_owned(),
            ],
            Self::Start { .. } => vec!["check that the file is a program and may be run".to_owned()],
            Self::NoHello { failure } => failure.hints.clone(),
            Self::Version { .. } => {
                vec!["build the engine and the program from the same version of Tunesmith".to_owned()]
            }
            Self::DeviceInUse { .. } => {
                vec![
                    "wait until it has ended, or stop it; `tunesmith runs list` shows it, and --wait waits for it"
                        .to_owned(),
                ]
            }
            Self::Stopped => Vec::new(),
            Self::File(error) => error.hints(),
        }
    }

    /// The last lines of the engine, where it said anything.
    pub fn last_lines(&self) -> &[String] {
        match self {
            Self::NoHello { failure } => &failure.last_lines,
            _ => &[],
        }
    }
}

/// Why a job failed, as it stands in a run's summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable name of the fault, e.g. `out_of_memory`.
    pub code: String,
    /// What happened and why.
    pub message: String,
    /// What to do.
    #[serde(default)]
    pub hints: Vec<String>,
    /// The engine's last lines, at most 50, where it died.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self {
            code: error.code,
            message: error.message,
            hints: error.hints,
            last_lines: Vec::new(),
        }
    }
}
