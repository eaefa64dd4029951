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

/// SHA-256 of its wheels: for Linux with glibc or musl on x86-64 and with either on arm64, macOS on arm64 and x86-64, Windows on
/// x86-64 and arm64. It does every install after this one, so that whatever index it comes from, it has to be the known one.
const WHEELS: [&str; 7] = [
    "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    "2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25",
    "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
    "66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",
    "c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5",
    "6a44b2ed8111d2f60d2b92627c5dccda3f7ed7570b18ce115e569cd68c28246b",
    "eeb92051c2123b9730c46b04cc843cfa4bc7d7b0aec56df431a2215ef4cb0273",
];

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
                    let wanted = partial.join("uv.txt");
                    let mut pip = Command::new(&python.program);
                    pip.args(["-m", "pip", "install", "--disable-pip-version-check"])
                        .args(["--no-input", "--quiet", "--no-cache-dir", "--no-deps"])
                        .args(["--require-hashes", "--only-binary", ":all:", "--target"])
                        .arg(partial)
                        .arg("--requirement")
                        .arg(&wanted);
                    vec![Task {
                        files: vec![(wanted, known_wheels())],
                        ..Task::plain(pip)
                    }]
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

/// uv as a file of pip's requirements: this version, in one of the known wheels.
fn known_wheels() -> String {
    let hashes = WHEELS.map(|hash| format!(" \\\n    --hash=sha256:{hash}"));
    format!("uv=={UV_VERSION}{}\n", hashes.concat())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uv_is_asked_for_in_one_version_and_by_its_checksums() {
        let text = known_wheels();
        let (first, hashes) = text.split_once('\n').unwrap();
        assert_eq!(first, format!("uv=={UV_VERSION} \\"));
        let hashes: Vec<_> = hashes.lines().collect();
        assert_eq!(hashes.len(), WHEELS.len());
        for (line, last) in hashes.iter().zip((1..=WHEELS.len()).map(|at| at == WHEELS.len())) {
            let hash = line.trim().strip_prefix("--hash=sha256:").unwrap();
            let (hash, rest) = hash.split_at(64);
            assert!(hash.chars().all(|digit| digit.is_ascii_hexdigit()), "{hash}");
            assert_eq!(rest, if last { "" } else { " \\" });
        }
    }
}
