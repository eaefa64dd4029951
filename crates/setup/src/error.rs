//! What can go wrong in set-up, each with its cause and the next step.

use std::path::{Path, PathBuf};

use crate::environments::{Engine, PythonRange};
use crate::progress::{Stage, human_bytes};

/// A failed stage. The text says what happened and why; [`SetupError::hints`] what to do.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The system does not know the user's home folder.
    #[error("this user has no home folder, so there is no place for data and downloads")]
    HomeMissing,

    /// Too little space before the start.
    #[error(
        "the {stage} needs {} free in {}, and only {} are",
        human_bytes(*needed),
        path.display(),
        human_bytes(*free)
    )]
    DiskTooSmall {
        /// Which stage.
        stage: Stage,
        /// Where the space is needed.
        path: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },

    /// The disk filled up during the stage.
    #[error("the disk is full: the {stage} could not be written; what was half-made is removed")]
    DiskFull {
        /// Which stage.
        stage: Stage,
        /// What the installer said.
        detail: String,
    },

    /// The package index could not be reached.
    #[error("the {stage} could not be downloaded: no connection to the package index ({detail})")]
    NoNetwork {
        /// Which stage.
        stage: Stage,
        /// What the installer said.
        detail: String,
    },

    /// What arrived is not what was sent.
    #[error("the download of the {stage} is damaged: {detail}")]
    Damaged {
        /// Which stage.
        stage: Stage,
        /// What does not fit.
        detail: String,
    },

    /// No usable Python.
    #[error("no Python 3.{oldest} or newer was found{}", found.as_ref().map(|version| format!(", only {version}")).unwrap_or_default())]
    PythonMissing {
        /// The oldest usable minor version.
        oldest: u32,
        /// An older one that is there.
        found: Option<String>,
    },

    /// No Python that the packages of an environment have wheels for.
    #[error(
        "the packages need Python {} to {}, and {}",
        range.minimum,
        range.maximum,
        if found.is_empty() { "no Python was found".to_owned() } else { format!("only {} was found", found.join(", ")) }
    )]
    PythonUnsuitable {
        /// The versions that do.
        range: PythonRange,
        /// The versions that are there.
        found: Vec<String>,
    },

    /// Python without pip, and no uv either.
    #[error("there is no uv, and {} has no pip to install it with", python.display())]
    PipMissing {
        /// The Python that was asked.
        python: PathBuf,
    },

    /// No build of the package for this system.
    #[error("the package index has no build of the {stage} for this system: {detail}")]
    NoBuild {
        /// Which stage.
        stage: Stage,
        /// What the installer said.
        detail: String,
    },

    /// The index does not know a package, or has no such version of it.
    #[error("the package index does not have what the {stage} needs: {detail}")]
    PackageUnknown {
        /// Which stage.
        stage: Stage,
        /// What the installer said.
        detail: String,
    },

    /// Packages that do not go together.
    #[error("the packages of the {stage} do not go together: {detail}")]
    PackagesClash {
        /// Which stage.
        stage: Stage,
        /// What the installer said.
        detail: String,
    },

    /// The index answered, and refused.
    #[error("the package index refuses to serve the {stage}: {detail}")]
    IndexRefused {
        /// Which stage.
        stage: Stage,
        /// What the installer said.
        detail: String,
    },

    /// The plan of an environment that cannot be carried out.
    #[error("the environment {name:?} cannot be made: {}", faults.join("; "))]
    SpecFaulty {
        /// Its name.
        name: String,
        /// What does not fit, one each.
        faults: Vec<String>,
    },

    /// What was installed is not what the plan expects.
    #[error("the {stage} is not what the plan expects: {}; nothing was changed", unmet.join("; "))]
    NotAsExpected {
        /// Which stage.
        stage: Stage,
        /// What does not fit, one each.
        unmet: Vec<String>,
    },

    /// No such environment.
    #[error(
        "there is no environment {name:?}{}",
        if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) }
    )]
    EnvironmentUnknown {
        /// The name that was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },

    /// An environment that an engine uses is not removed by accident.
    #[error("the {engine} engine uses the environment {name:?}")]
    EnvironmentInUse {
        /// Which.
        name: String,
        /// Who uses it.
        engine: Engine,
    },

    /// No environment to go back to.
    #[error("the {engine} engine has no earlier environment that is still there")]
    NoEarlier {
        /// Which engine.
        engine: Engine,
    },

    /// A folder without packages.
    #[error("no Python packages lie in {}", path.display())]
    NoPackages {
        /// The folder.
        path: PathBuf,
    },

    /// The record of the environments in use cannot be understood.
    #[error("{} cannot be understood: {detail}", path.display())]
    RecordDamaged {
        /// The file.
        path: PathBuf,
        /// Why.
        detail: String,
    },

    /// A torch that the engine cannot use.
    #[error(
        "the torch in {} is {found}, and the engine is made for {wanted}: another version has other \
         functions, so the engine would not start",
        site.display()
    )]
    TorchVersion {
        /// The `site-packages` folder.
        site: PathBuf,
        /// Its version, as it stands in `torch/version.py`.
        found: String,
        /// The version that the engine is made for.
        wanted: &'static str,
    },

    /// No torch where one should be.
    #[error("there is no torch in {}: {detail}", site.display())]
    TorchMissing {
        /// The `site-packages` folder.
        site: PathBuf,
        /// What was looked for.
        detail: String,
    },

    /// The target folder holds something of the user's.
    #[error(
        "{} holds files that set-up did not make, so it is left alone",
        path.display()
    )]
    FolderTaken {
        /// The folder.
        path: PathBuf,
    },

    /// Two set-ups at once.
    #[error("another set-up is running{}", pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Busy {
        /// Its process, if it has said so.
        pid: Option<u32>,
    },

    /// The user stopped it.
    #[error("the {stage} was stopped; what was half-made is removed")]
    Cancelled {
        /// Which stage.
        stage: Stage,
    },

    /// An installer failed for a reason that is not known here.
    #[error("{program} failed while it installed the {stage} ({status}): {detail}")]
    Tool {
        /// Which stage.
        stage: Stage,
        /// The program.
        program: String,
        /// Its exit status.
        status: String,
        /// Its last lines.
        detail: String,
    },

    /// Reading or writing a file failed.
    #[error("{} could not be {action}: {source}", path.display())]
    Io {
        /// What was tried, as a participle.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl SetupError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// A short name of the cause, stable across versions.
    pub fn code(&self) -> &'static str {
        match self {
            Self::HomeMissing => "home_missing",
            Self::DiskTooSmall { .. } | Self::DiskFull { .. } => "disk_full",
            Self::NoNetwork { .. } => "no_network",
            Self::Damaged { .. } => "download_damaged",
            Self::PythonMissing { .. } => "python_missing",
            Self::PythonUnsuitable { .. } => "python_unsuitable",
            Self::PipMissing { .. } => "pip_missing",
            Self::NoBuild { .. } => "no_build",
            Self::PackageUnknown { .. } => "package_unknown",
            Self::PackagesClash { .. } => "packages_clash",
            Self::IndexRefused { .. } => "index_refused",
            Self::SpecFaulty { .. } => "spec_faulty",
            Self::NotAsExpected { .. } => "not_as_expected",
            Self::EnvironmentUnknown { .. } => "environment_unknown",
            Self::EnvironmentInUse { .. } => "environment_in_use",
            Self::NoEarlier { .. } => "no_earlier_environment",
            Self::NoPackages { .. } => "no_packages",
            Self::RecordDamaged { .. } => "record_damaged",
            Self::TorchVersion { .. } => "torch_version",
            Self::TorchMissing { .. } => "torch_missing",
            Self::FolderTaken { .. } => "folder_taken",
            Self::Busy { .. } => "setup_busy",
            Self::Cancelled { .. } => "cancelled",
            Self::Tool { .. } => "tool_failed",
            Self::Io { .. } => "io",
        }
    }

    /// What to do next, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        let again = "run the same command again: finished downloads are kept".to_owned();
        match self {
            Self::HomeMissing => vec!["set HOME to a folder that you may write to".to_owned()],
            Self::DiskTooSmall {
                stage: Stage::Environment(_),
                ..
            }
            | Self::DiskFull {
                stage: Stage::Environment(_),
                ..
            } => vec![
                "free some space, then run the same command again: an old environment can be removed"
                    .to_owned(),
                "or put every download on a larger disk: set XDG_CACHE_HOME to a folder there".to_owned(),
            ],
            Self::DiskTooSmall { .. } | Self::DiskFull { .. } => vec![
                "free some space, then run the same command again".to_owned(),
                format!(
                    "or put the runtime on a larger disk: set {} to a folder there (XDG_CACHE_HOME moves \
                     every download)",
                    crate::env_vars::RUNTIME
                ),
            ],
            Self::NoNetwork { .. } => vec![
                "check the connection; behind a proxy set HTTPS_PROXY, for a mirror set UV_DEFAULT_INDEX"
                    .to_owned(),
                again,
            ],
            Self::Damaged { .. } => vec![
                again,
                "if it is damaged again, something between here and the package index changes files: a \
                 proxy, or a failing disk or memory"
                    .to_owned(),
            ],
            Self::PythonMissing { .. } => vec![
                "install it: `apt-get install python3 python3-pip`, `dnf install python3 python3-pip` or \
                 `pacman -S python python-pip`"
                    .to_owned(),
            ],
            Self::PythonUnsuitable { range, .. } => vec![format!(
                "install Python {0} beside the one that you have, for example with `uv python install {0}` or \
                 your system's packages, then run the same command again",
                range.preferred
            )],
            Self::PipMissing { .. } => vec![
                "install pip: `apt-get install python3-pip`, `dnf install python3-pip` or `pacman -S \
                 python-pip`"
                    .to_owned(),
                "or install uv yourself and put it on PATH".to_owned(),
            ],
            Self::NoBuild {
                stage: Stage::Environment(_),
                ..
            } => vec![
                "this index has no build for this Python or this system: choose another row of the plan"
                    .to_owned(),
            ],
            Self::PackageUnknown { .. } => vec![
                "the index may have dropped that version: ask for a new plan, or choose another row of it"
                    .to_owned(),
                "behind a mirror, check that it carries this package".to_owned(),
            ],
            Self::PackagesClash { .. } => vec![
                "this is a mistake in the package set: choose another one, and report this one".to_owned(),
            ],
            Self::IndexRefused { .. } => vec![
                "a proxy or the index may want a login, or the index is down: try its address in a browser"
                    .to_owned(),
                again,
            ],
            Self::NotAsExpected { .. } => vec![
                "another index or setting may have answered for a package: look at the commands above"
                    .to_owned(),
                "if they are right, the plan is not: report it with this message".to_owned(),
            ],
            Self::EnvironmentInUse { .. } => vec![
                "let the engine use another one first, or confirm that it shall be removed all the same"
                    .to_owned(),
            ],
            Self::RecordDamaged { path, .. } => vec![format!(
                "remove {} and choose the environments again",
                path.display()
            )],
            Self::NoBuild { .. } => vec![
                "the runtime exists for Linux, macOS on Apple silicon and Windows, with Python 3.10 to 3.14"
                    .to_owned(),
            ],
            Self::TorchVersion { wanted, .. } => vec![
                format!("install torch {wanted} there, in the build for your GPU"),
                format!(
                    "or unset {} to use the private runtime, which has no GPU kernels",
                    crate::env_vars::TORCH
                ),
            ],
            Self::TorchMissing { .. } => vec![
                format!(
                    "set {} to the site-packages folder that holds torch",
                    crate::env_vars::TORCH
                ),
                "or run set-up, which installs a private torch".to_owned(),
            ],
            Self::FolderTaken { .. } => vec![format!(
                "empty that folder, or set {} to another one",
                crate::env_vars::RUNTIME
            )],
            Self::Busy { pid } => vec![match pid {
                Some(pid) => format!("wait until it is done, or stop it with `kill {pid}`"),
                None => "wait until it is done".to_owned(),
            }],
            Self::Cancelled { .. } => vec![again],
            Self::SpecFaulty { .. }
            | Self::EnvironmentUnknown { .. }
            | Self::NoEarlier { .. }
            | Self::NoPackages { .. }
            | Self::Tool { .. }
            | Self::Io { .. } => vec![],
        }
    }
}
