//! One way for every stage: look, check the space, lock, work beside the target, verify, stamp, rename.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::causes::error_from_output;
use crate::disk::{folder_bytes, require_free};
use crate::error::SetupError;
use crate::folders::Folders;
use crate::lock::Lock;
use crate::process::{self, Cancel, Output};
use crate::progress::{Plan, Progress, Report, Stage};

/// The file that says "this folder is complete", with the versions in it. It is written before the folder gets
/// its final name.
pub(crate) const STAMP: &str = ".tunesmith-complete";

/// What the stages share.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where everything goes.
    pub folders: Folders,
    /// A uv to use instead of the one that is found.
    pub uv: Option<PathBuf>,
    /// A Python to use instead of the one that is found.
    pub python: Option<PathBuf>,
    /// The guard that children run behind; see [`crate::process`].
    pub guard: Option<Vec<OsString>>,
    /// Set by Ctrl-C.
    pub cancel: Cancel,
}

impl Setup {
    /// A set-up that finds uv and Python by itself.
    pub fn new(folders: Folders) -> Self {
        Self {
            folders,
            uv: None,
            python: None,
            guard: None,
            cancel: Cancel::default(),
        }
    }
}

/// A stage's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready<T> {
    /// What was asked for.
    pub value: T,
    /// Whether this call installed it; false means that it was there already.
    pub installed: bool,
}

impl<T> Ready<T> {
    pub(crate) fn present(value: T) -> Self {
        Self {
            value,
            installed: false,
        }
    }

    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Ready<U> {
        Ready {
            value: change(self.value),
            installed: self.installed,
        }
    }
}

/// What one stage installs, and where.
pub(crate) struct Installation {
    pub(crate) stage: Stage,
    pub(crate) what: String,
    pub(crate) licence: &'static str,
    pub(crate) download_bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) needed_bytes: u64,
    pub(crate) target: PathBuf,
    /// Whether an incomplete folder at the target is certainly ours.
    pub(crate) replaceable: bool,
    pub(crate) stamp: serde_json::Value,
}

impl Setup {
    /// Runs the commands that `commands` makes for the folder that they shall fill, then `verify`, and gives the
    /// folder its final name. Whatever happens on the way, the half-made folder is removed. `complete` is asked
    /// again under the lock: another set-up may just have done this very stage.
    pub(crate) fn install(
        &self,
        installation: &Installation,
        complete: &dyn Fn() -> bool,
        commands: &mut dyn FnMut(&Path) -> Vec<Command>,
        verify: &dyn Fn(&Path) -> Result<(), SetupError>,
        report: &mut dyn FnMut(&Report),
    ) -> Result<Ready<PathBuf>, SetupError> {
        let Installation { stage, target, .. } = installation;
        let _lock = Lock::take(&self.folders.lock_file())?;
        if complete() {
            return Ok(Ready::present(target.clone()));
        }
        require_replaceable(installation)?;
        for place in [target.as_path(), self.folders.downloads()] {
            require_free(*stage, place, installation.needed_bytes)?;
        }
        report(&Report::Plan(Plan {
            stage: *stage,
            what: installation.what.clone(),
            download_bytes: installation.download_bytes,
            disk_bytes: installation.disk_bytes,
            licence: installation.licence,
            into: target.clone(),
        }));
        let _cache = HalfUnpacked::removed_from(self.folders.uv_cache());
        let partial = Partial::create(target)?;
        for command in commands(&partial.path) {
            self.run(installation, &command, &partial.path, report)?;
        }
        verify(&partial.path)?;
        write_stamp(&partial.path, &installation.stamp)?;
        partial.finish(target)?;
        Ok(Ready {
            value: target.clone(),
            installed: true,
        })
    }

    fn run(
        &self,
        installation: &Installation,
        command: &Command,
        partial: &Path,
        report: &mut dyn FnMut(&Report),
    ) -> Result<(), SetupError> {
        let stage = installation.stage;
        // uv unpacks into its cache and then links, so both are watched; a linked file counts once.
        let watched = [partial.to_path_buf(), self.folders.uv_cache()];
        let before = folder_bytes(&watched);
        let start = Instant::now();
        let program = command.get_program().to_string_lossy().into_owned();
        let ended = process::run(
            command,
            self.guard.as_deref(),
            &self.cancel,
            Output::Kept,
            &mut || {
                report(&Report::Progress(Progress::new(
                    stage,
                    folder_bytes(&watched).saturating_sub(before),
                    installation.disk_bytes,
                    start.elapsed(),
                )));
            },
        )
        .map_err(SetupError::io("started", Path::new(&program)))?;
        if ended.cancelled {
            return Err(SetupError::Cancelled { stage });
        }
        if ended.status.success() {
            return Ok(());
        }
        Err(error_from_output(
            stage,
            &program,
            &ended.status.to_string(),
            &ended.stderr,
        ))
    }
}

/// A folder that exists without being complete is replaced only where it is certainly ours.
fn require_replaceable(installation: &Installation) -> Result<(), SetupError> {
    let target = &installation.target;
    let empty_or_absent = fs::read_dir(target).map_or(true, |mut entries| entries.next().is_none());
    if empty_or_absent || installation.replaceable || target.join(STAMP).exists() {
        return Ok(());
    }
    Err(SetupError::FolderTaken { path: target.clone() })
}

/// Writes the stamp beside its name and renames it: a cut-short stamp must not count.
pub(crate) fn write_stamp(folder: &Path, stamp: &serde_json::Value) -> Result<(), SetupError> {
    let path = folder.join(STAMP);
    let partial = folder.join(format!("{STAMP}.partial"));
    fs::write(&partial, format!("{stamp:#}\n")).map_err(SetupError::io("written", &partial))?;
    fs::rename(&partial, &path).map_err(SetupError::io("written", &path))
}

/// The folder that a stage fills; removed unless it was finished.
struct Partial {
    path: PathBuf,
    finished: bool,
}

impl Partial {
    fn create(target: &Path) -> Result<Self, SetupError> {
        let mut name = target.as_os_str().to_owned();
        name.push(".partial");
        let path = PathBuf::from(name);
        // Left by a set-up that was killed outright.
        remove_folder(&path)?;
        fs::create_dir_all(&path).map_err(SetupError::io("created", &path))?;
        Ok(Self {
            path,
            finished: false,
        })
    }

    fn finish(mut self, target: &Path) -> Result<(), SetupError> {
        remove_folder(target)?;
        fs::rename(&self.path, target).map_err(SetupError::io("written", target))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            // The stage's own error is the one to show.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A uv that was stopped leaves what it had unpacked of a wheel in its cache, never to use it again: up to the
/// whole size of torch each time. Removed before a stage (after a `kill -9`) and after it.
struct HalfUnpacked {
    cache: PathBuf,
}

impl HalfUnpacked {
    fn removed_from(cache: PathBuf) -> Self {
        let half_unpacked = Self { cache };
        half_unpacked.remove();
        half_unpacked
    }

    fn remove(&self) {
        for entry in fs::read_dir(&self.cache).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(".tmp") {
                // It costs space, not correctness: no reason to fail.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for HalfUnpacked {
    fn drop(&mut self) {
        self.remove();
    }
}

fn remove_folder(path: &Path) -> Result<(), SetupError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SetupError::io("removed", path)(error))
        }
        _ => Ok(()),
    }
}
