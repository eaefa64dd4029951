//! Finds a Python: uv needs one to know which wheels fit. It is never used for training.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::environments::PythonRange;
use crate::error::SetupError;

/// The oldest minor version of Python 3 that torch 2.11 has wheels for.
pub const OLDEST_MINOR: u32 = 10;

/// The newest minor version of Python 3 that torch 2.11 has wheels for. Its libraries are the same in every
/// wheel, so on a newer Python set-up asks for the wheel of this one.
pub(crate) const NEWEST_MINOR: u32 = 14;

/// An interpreter that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The program.
    pub program: PathBuf,
    /// The minor version of Python 3.
    pub minor: u32,
}

/// The first usable Python: `explicit`, else the first of the usual names on PATH that is new enough.
///
/// # Errors
/// [`SetupError::PythonMissing`], with the version of one that is too old.
pub fn find_python(explicit: Option<&Path>) -> Result<Python, SetupError> {
    let names: Vec<PathBuf> = match explicit {
        Some(path) => vec![path.to_path_buf()],
        None => ["python3".into(), "python".into()]
            .into_iter()
            .chain(
                (OLDEST_MINOR..=NEWEST_MINOR)
                    .rev()
                    .map(|minor| format!("python3.{minor}").into()),
            )
            .collect(),
    };
    let mut too_old = None;
    for program in names {
        match version(&program) {
            Some((3, minor)) if minor >= OLDEST_MINOR => return Ok(Python { program, minor }),
            Some((major, minor)) => {
                too_old.get_or_insert(format!("{major}.{minor}"));
            }
            None => {}
        }
    }
    Err(SetupError::PythonMissing {
        oldest: OLDEST_MINOR,
        found: too_old,
    })
}

/// The Python of a virtual environment.
pub fn python_in(environment: &Path) -> PathBuf {
    environment.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    })
}

/// The Python for an environment: `explicit`, else the first of these on PATH that lies in `range`: the preferred
/// version, the user's usual one, any other from the newest on.
///
/// # Errors
/// [`SetupError::PythonUnsuitable`], with the versions that there are.
pub fn find_python_in(explicit: Option<&Path>, range: PythonRange) -> Result<Python, SetupError> {
    let numbered = |minor: u32| PathBuf::from(format!("python3.{minor}"));
    let programs: Vec<PathBuf> = match explicit {
        Some(path) => vec![path.to_path_buf()],
        None => [numbered(range.preferred.minor), "python3".into(), "python".into()]
            .into_iter()
            .chain((range.minimum.minor..=range.maximum.minor).rev().map(numbered))
            .collect(),
    };
    let mut found = Vec::new();
    for program in programs {
        match version(&program) {
            Some((3, minor)) if range.contains(minor) => return Ok(Python { program, minor }),
            Some((major, minor)) => found.push(format!("{major}.{minor}")),
            None => {}
        }
    }
    found.dedup();
    Err(SetupError::PythonUnsuitable { range, found })
}

/// Whether this Python can install packages by itself.
pub fn has_pip(python: &Python) -> bool {
    Command::new(&python.program)
        .args(["-m", "pip", "--version"])
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

fn version(program: &Path) -> Option<(u32, u32)> {
    let output = Command::new(program)
        .args(["-c", "import sys; print(*sys.version_info[:2])"])
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
