//! uv, which does every Python install: found on PATH, or installed privately by pip.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::environments::{InstallStep, PythonVersion};
use crate::error::SetupError;
use crate::folders::Folders;
use crate::install::{Installation, Ready, Setup, Task, Work};
use crate::progress::{Report, Stage};
use crate::python::{NEWEST_MINOR, Python, find_python, has_pip};

/// The version that set-up installs where there is none.
pub const UV_VERSION: &str = "0.13.9";

const DOWNLOAD_BYTES: u64 = 17_600_000;
const DISK_BYTES: u64 = 39_636_992;

impl Setup {
    /// Makes sure that there is a uv. Ready's path is the program.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn ensure_uv(&self, report: &mut dyn FnMut(&Report)) -> Result<Ready<PathBuf>, SetupError> {
        if let Some(found) = self.find_uv() {
            return Ok(Ready::present(found));
        }
        let python = find_python(self.python.as_deref())?;
        if !has_pip(&python) {
            return Err(SetupError::PipMissing {
                python: python.program,
            });
        }
        let target = self.folders.private_uv();
        let installed = self.install(
            &Installation {
                stage: Stage::Uv,
                what: format!("uv {UV_VERSION}"),
                licence: "MIT or Apache-2.0",
                download_bytes: Some(DOWNLOAD_BYTES),
                disk_bytes: Some(DISK_BYTES),
                needed_bytes: Some(2 * DISK_BYTES),
                target: target.clone(),
                replaceable: true,
            },
            &Work {
                complete: &|| works(&program_in(&target)),
                tasks: &|partial| {
                    let mut pip = Command::new(&python.program);
                    pip.args(["-m", "pip", "install", "--disable-pip-version-check"])
                        .args(["--no-input", "--quiet", "--no-cache-dir", "--target"])
                        .arg(partial)
                        .arg(format!("uv=={UV_VERSION}"));
                    vec![Task::plain(pip)]
                },
                verify: &|partial| {
                    if works(&program_in(partial)) {
                        Ok(())
                    } else {
                        Err(SetupError::Damaged {
                            stage: Stage::Uv,
                            detail: "the installed program does not start".to_owned(),
                        })
                    }
                },
                stamp: &|_, _| serde_json::json!({ "uv": UV_VERSION }),
            },
            report,
        )?;
        Ok(installed.map(|folder| program_in(&folder)))
    }

    /// The uv that is there already: the explicit one, on PATH, or the private one.
    pub fn find_uv(&self) -> Option<PathBuf> {
        if let Some(explicit) = &self.uv {
            return Some(explicit.clone());
        }
        [PathBuf::from("uv"), program_in(&self.folders.private_uv())]
            .into_iter()
            .find(|program| works(program))
    }
}

fn program_in(folder: &Path) -> PathBuf {
    folder
        .join("bin")
        .join(format!("uv{}", std::env::consts::EXE_SUFFIX))
}

/// Started, not only looked for: a version manager's shim lies on PATH even where it cannot run.
fn works(program: &Path) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// A uv command that depends on nothing of the user's but the network: no configuration files, no download of a
/// Python, and our own cache.
pub(crate) fn command(uv: &Path, folders: &Folders) -> Command {
    let mut command = Command::new(uv);
    command
        .env("UV_NO_CONFIG", "1")
        .env("UV_PYTHON_DOWNLOADS", "never")
        .env("UV_CACHE_DIR", folders.uv_cache())
        .env("NO_COLOR", "1");
    command
}

/// The user's settings that change which package is chosen. Those that say how a server is reached stay: proxies,
/// certificates, a mirror of the general index.
const CHOOSING: &[&str] = &[
    "UV_BUILD_CONSTRAINT",
    "UV_CONSTRAINT",
    "UV_EXCLUDE",
    "UV_EXCLUDE_NEWER",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX",
    "UV_INDEX_STRATEGY",
    "UV_NO_BINARY",
    "UV_NO_INDEX",
    "UV_NO_SOURCES",
    "UV_ONLY_BINARY",
    "UV_OVERRIDE",
    "UV_PRERELEASE",
    "UV_PYTHON_PLATFORM",
    "UV_RESOLUTION",
    "UV_TORCH_BACKEND",
];

/// `uv pip install` of one step of a plan into an environment: from the step's own indexes, and with nothing of the
/// user's settings that would choose otherwise. `overrides` is the file with the step's overrides.
pub(crate) fn step_command(
    uv: &Path,
    folders: &Folders,
    into: &Destination<'_>,
    step: &InstallStep,
    overrides: Option<&Path>,
) -> Command {
    let mut command = command(uv, folders);
    for name in CHOOSING {
        command.env_remove(name);
    }
    command.args(["pip", "install", "--python"]);
    match into {
        Destination::Venv(python) => {
            command.arg(python);
        }
        Destination::Target {
            python,
            version,
            folder,
        } => {
            command.arg(&python.program);
            if let Some(version) = version {
                command.args(["--python-version", &version.to_string()]);
            }
            command.arg("--target").arg(folder);
        }
    }
    if let Some(index) = &step.index_url {
        command.args(["--default-index", index]);
    }
    for index in &step.extra_indexes {
        command.args(["--index", index]);
    }
    // uv's own default, said aloud: over several indexes a higher version elsewhere must not win.
    command.args(["--index-strategy", "first-index"]);
    if step.no_deps {
        command.arg("--no-deps");
    }
    if let Some(overrides) = overrides {
        command.arg("--override").arg(overrides);
    }
    command.args(&step.requirements);
    command
}

/// Where a step installs.
pub(crate) enum Destination<'a> {
    /// Into the virtual environment of this Python.
    Venv(PathBuf),
    /// Into a plain folder, wheels for `version` where that is another one than `python`'s.
    Target {
        python: &'a Python,
        version: Option<PythonVersion>,
        folder: &'a Path,
    },
}

/// `uv venv` for a folder that gets another name later, and that may hold notes of ours already.
pub(crate) fn venv_command(uv: &Path, folders: &Folders, python: &Python, folder: &Path) -> Command {
    let mut command = command(uv, folders);
    command
        .args(["venv", "--relocatable", "--allow-existing", "--python"])
        .arg(&python.program)
        .arg(folder);
    command
}

/// `uv pip install --target`, without dependencies.
pub(crate) fn install_command(
    uv: &Path,
    folders: &Folders,
    python: &Python,
    target: &Path,
    packages: &[String],
) -> Command {
    let mut command = command(uv, folders);
    command
        .args(["pip", "install", "--no-deps", "--python"])
        .arg(&python.program);
    if python.minor > NEWEST_MINOR {
        command.args(["--python-version", &format!("3.{NEWEST_MINOR}")]);
    }
    command.arg("--target").arg(target).args(packages);
    command
}
