//! What the engine's process needs from its environment: which torch, and where its libraries lie.
//!
//! The engine links libtorch without a fixed path, because the torch is the user's choice; the loader must know
//! the folders before the engine's first instruction, so its parent sets them. The version is read from
//! `torch/version.py` as text: no Python has to run, and none may be there.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::env_vars;
use crate::environments::{self, Engine, sorted_children};
use crate::error::SetupError;
use crate::folders::Folders;

/// The minor version of torch that the engine is made for; its C++ functions differ in every other one.
pub const TORCH_MINOR: &str = "2.11";

/// OpenMP's own variable; its library reads it before the engine's first instruction.
const WAIT_POLICY: &str = "OMP_WAIT_POLICY";

/// What a torch was built for. It says nothing about whether the card is there or the kernels work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", content = "version", rename_all = "lowercase")]
pub enum TorchBuild {
    /// No GPU.
    Cpu,
    /// CUDA of this version.
    Cuda(String),
    /// ROCm's HIP of this version.
    Hip(String),
}

/// The environment that an engine process is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineEnv {
    /// The `site-packages` folder whose `torch/` is used.
    pub site: PathBuf,
    /// As `torch/version.py` says it, for example `2.11.0+cu130`.
    pub version: String,
    /// What it was built for.
    pub build: TorchBuild,
    /// The folders with shared libraries, in the order in which the loader shall look.
    pub library_folders: Vec<PathBuf>,
}

impl EngineEnv {
    /// The loader's variable and its whole value: our folders, then those that are there already.
    pub fn loader(&self) -> (&'static str, OsString) {
        let name = loader_variable();
        (name, self.loader_value(env_vars::read(name)))
    }

    /// The value of the loader's variable with our folders alone.
    pub fn own_loader_value(&self) -> OsString {
        self.loader_value(None)
    }

    fn loader_value(&self, present: Option<OsString>) -> OsString {
        let present = present.unwrap_or_default();
        let mut folders = self.library_folders.clone();
        // Once each: a child of a child must not grow the list.
        for folder in std::env::split_paths(&present) {
            if !folder.as_os_str().is_empty() && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        // Only a folder with the separator in its name cannot be joined; the loader could not find it either.
        std::env::join_paths(folders).unwrap_or(present)
    }

    /// Sets the loader's variable on `command`, tells the engine which torch it got, and lets its threads sleep
    /// while they wait.
    ///
    /// OpenMP's threads otherwise spin while they wait for each other. On a desktop that has anything else to do
    /// this keeps the very thread they wait for off its core: beside a compiler a training step took four times as
    /// long, and on a quiet machine sleeping costs 3 % (`docs/measured/2026-11-30-openmp-wait-policy.md`). A policy
    /// that the user has set stays.
    pub fn apply(&self, command: &mut Command) {
        let (name, value) = self.loader();
        command.env(name, value).env(env_vars::TORCH, &self.site);
        let (name, value) = wait_policy();
        command.env(name, value);
    }
}

/// OpenMP's variable for how its threads wait, and the value that an engine is started with: the user's own, else
/// `passive`.
pub fn wait_policy() -> (&'static str, String) {
    let own = std::env::var(WAIT_POLICY).ok();
    (WAIT_POLICY, own.unwrap_or_else(|| "passive".to_owned()))
}

/// The variable in which this system's loader takes further folders.
pub fn loader_variable() -> &'static str {
    if cfg!(windows) {
        "PATH"
    } else if cfg!(target_os = "macos") {
        "DYLD_LIBRARY_PATH"
    } else {
        "LD_LIBRARY_PATH"
    }
}

/// The environment for an engine on the torch in `torch_site`, a `site-packages` folder that holds `torch/`.
///
/// # Errors
/// [`SetupError::TorchMissing`] where there is none, [`SetupError::TorchVersion`] where it is of another minor
/// version than the engine is made for.
pub fn engine_env(torch_site: &Path) -> Result<EngineEnv, SetupError> {
    let version = read_version(torch_site)?;
    if version.minor() != TORCH_MINOR {
        return Err(SetupError::TorchVersion {
            site: torch_site.to_path_buf(),
            found: version.text,
            wanted: TORCH_MINOR,
        });
    }
    let lib = torch_site.join("torch/lib");
    if !lib.is_dir() {
        return Err(SetupError::TorchMissing {
            site: torch_site.to_path_buf(),
            detail: format!("{} is not there", lib.display()),
        });
    }
    let mut library_folders = vec![lib];
    // AMD's thin wheels keep ROCm in folders beside torch, NVIDIA's wheels CUDA.
    for package in sorted_children(torch_site) {
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("_rocm_sdk_") {
            library_folders.push(package.join(if cfg!(windows) { "bin" } else { "lib" }));
        }
    }
    for package in sorted_children(&torch_site.join("nvidia")) {
        library_folders.push(package.join(if cfg!(windows) { "bin" } else { "lib" }));
    }
    library_folders.retain(|folder| folder.is_dir());
    Ok(EngineEnv {
        site: torch_site.to_path_buf(),
        version: version.text,
        build: version.build,
        library_folders,
    })
}

/// The torch that engines use: [`env_vars::TORCH`], else the environment that set-up recorded for the native
/// engine, else the private runtime if it is complete.
pub fn find_torch(folders: &Folders) -> Option<PathBuf> {
    env_vars::read(env_vars::TORCH).map(PathBuf::from).or_else(|| {
        // A record that cannot be understood must not keep the private runtime from working; `environments::active`
        // says what is wrong with it.
        let recorded = environments::active(folders, Engine::Native).ok().flatten();
        recorded
            .map(|environment| environment.site)
            .or_else(|| crate::runtime::installed(folders))
    })
}

/// The engine's program: [`env_vars::ENGINE`], else the one beside this program.
pub fn find_engine() -> Option<PathBuf> {
    if let Some(explicit) = env_vars::read(env_vars::ENGINE) {
        return Some(PathBuf::from(explicit));
    }
    let beside = std::env::current_exe()
        .ok()?
        .with_file_name(format!("tunesmith-engine{}", std::env::consts::EXE_SUFFIX));
    beside.is_file().then_some(beside)
}

/// What stands in `torch/version.py`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TorchVersion {
    text: String,
    build: TorchBuild,
}

impl TorchVersion {
    /// With the local part: `2.11.0+cu130`.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What it was built for.
    pub(crate) fn build(&self) -> &TorchBuild {
        &self.build
    }

    /// Without the local part: `2.11.0` of `2.11.0+cu130`.
    pub(crate) fn release(&self) -> &str {
        self.text.split('+').next().unwrap_or_default()
    }

    fn minor(&self) -> &str {
        let release = self.release();
        let mut dots = release.match_indices('.');
        dots.nth(1).map_or(release, |(at, _)| &release[..at])
    }
}

pub(crate) fn read_version(torch_site: &Path) -> Result<TorchVersion, SetupError> {
    let file = torch_site.join("torch/version.py");
    let missing = |detail: String| SetupError::TorchMissing {
        site: torch_site.to_path_buf(),
        detail,
    };
    let text = fs::read_to_string(&file).map_err(|error| missing(format!("{}: {error}", file.display())))?;
    parse_version(&text).ok_or_else(|| missing(format!("{} does not name a version", file.display())))
}

fn parse_version(text: &str) -> Option<TorchVersion> {
    let build = match (value_of(text, "cuda"), value_of(text, "hip")) {
        (_, Some(hip)) => TorchBuild::Hip(hip),
        (Some(cuda), None) => TorchBuild::Cuda(cuda),
        (None, None) => TorchBuild::Cpu,
    };
    Some(TorchVersion {
        text: value_of(text, "__version__")?,
        build,
    })
}

/// The quoted value of `name = '…'` or `name: Optional[str] = '…'`; none for `None`.
fn value_of(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (left, right) = line.split_once('=')?;
        let variable = left.split(':').next()?.trim();
        let quoted = right.trim();
        let value = quoted
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''))
            .or_else(|| quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')))?;
        (variable == name && !value.is_empty()).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(version: &str, folders: &[&str]) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for folder in folders {
            fs::create_dir_all(temp.path().join(folder)).unwrap();
        }
        fs::create_dir_all(temp.path().join("torch/lib")).unwrap();
        fs::write(temp.path().join("torch/version.py"), version).unwrap();
        temp
    }

    const ROCM: &str = "from typing import Optional\n\n__all__ = ['__version__', 'cuda', 'hip']\n\
        __version__ = '2.11.0+rocm7.2'\ndebug = False\ncuda: Optional[str] = None\nhip: Optional[str] = '7.2.26015'\n";

    #[test]
    fn the_loader_looks_in_torch_first_then_beside_it_then_where_it_looked_before() {
        let temp = site(
            ROCM,
            &[
                "_rocm_sdk_core/lib",
                "_rocm_sdk_libraries_gfx110X/lib",
                "nvidia/cu13/lib",
                "nvidia/empty",
            ],
        );
        let env = engine_env(temp.path()).unwrap();
        assert_eq!(env.version, "2.11.0+rocm7.2");
        assert_eq!(env.build, TorchBuild::Hip("7.2.26015".to_owned()));
        let at = |folder: &str| temp.path().join(folder);
        let ours = [
            at("torch/lib"),
            at("_rocm_sdk_core/lib"),
            at("_rocm_sdk_libraries_gfx110X/lib"),
            at("nvidia/cu13/lib"),
        ];
        assert_eq!(env.library_folders, ours);

        let before = std::env::join_paths([Path::new("/opt/lib"), &at("torch/lib")]).unwrap();
        let value = env.loader_value(Some(before));
        let folders: Vec<_> = std::env::split_paths(&value).collect();
        assert_eq!(folders[..4], ours);
        assert_eq!(folders[4..], [PathBuf::from("/opt/lib")]);
    }

    #[test]
    fn another_minor_version_is_refused_with_both_versions() {
        let temp = site("__version__ = '2.12.1+cpu'\ncuda: Optional[str] = None\n", &[]);
        let error = engine_env(temp.path()).unwrap_err();
        assert_eq!(error.code(), "torch_version");
        let text = error.to_string();
        assert!(text.contains("2.12.1+cpu") && text.contains("2.11"), "{text}");
        assert!(!error.hints().is_empty());
    }

    #[test]
    fn a_folder_without_torch_says_which_file_was_looked_for() {
        let temp = tempfile::tempdir().unwrap();
        let error = engine_env(temp.path()).unwrap_err();
        assert_eq!(error.code(), "torch_missing");
        assert!(error.to_string().contains("version.py"));
    }

    #[test]
    fn the_build_is_read_from_the_version_file() {
        let build = |text: &str| parse_version(text).unwrap().build;
        assert_eq!(
            build("__version__ = '2.11.0'\ncuda: Optional[str] = None\n"),
            TorchBuild::Cpu
        );
        assert_eq!(
            build("__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"),
            TorchBuild::Cuda("13.0".to_owned())
        );
        assert_eq!(parse_version("nothing"), None);
    }
}
