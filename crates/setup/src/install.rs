//! One way for every stage: look, check the space, lock, work beside the target, verify, stamp, rename.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::causes::error_from_output;
use crate::disk::{folder_bytes, free_bytes, require_free};
use crate::error::SetupError;
use crate::folders::Folders;
use crate::lock::Lock;
use crate::process::{self, Cancel, Output};
use crate::progress::{CommandReport, Plan, Progress, Report, Stage};

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

    pub(crate) fn try_map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<Ready<U>, E> {
        Ok(Ready {
            value: change(self.value)?,
            installed: self.installed,
        })
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
    pub(crate) download_bytes: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
    /// None where the size on disk is not known: then the space cannot be checked.
    pub(crate) needed_bytes: Option<u64>,
    pub(crate) target: PathBuf,
    /// Whether an incomplete folder at the target is certainly ours.
    pub(crate) replaceable: bool,
}

/// How a stage is done.
pub(crate) struct Work<'a> {
    /// Whether its result is there. It is asked under the lock: another set-up may just have done this very stage.
    pub(crate) complete: &'a dyn Fn() -> bool,
    /// The commands that fill this folder.
    pub(crate) tasks: &'a dyn Fn(&Path) -> Vec<Task>,
    /// Whether this folder is what it should be; asked before it gets its name, and once more after.
    pub(crate) verify: &'a dyn Fn(&Path) -> Result<(), SetupError>,
    /// What is recorded in this folder, which these commands have filled.
    pub(crate) stamp: &'a dyn Fn(&Path, &[String]) -> serde_json::Value,
}

/// One command of a stage, and what the user is told of it.
pub(crate) struct Task {
    pub(crate) title: String,
    pub(crate) why: String,
    pub(crate) command: Command,
    /// Text files that the command reads.
    pub(crate) files: Vec<(PathBuf, String)>,
}

impl Task {
    /// A command that the stage's plan says enough about.
    pub(crate) fn plain(command: Command) -> Self {
        Self {
            title: String::new(),
            why: String::new(),
            command,
            files: Vec::new(),
        }
    }

    fn report(&self, stage: Stage, number: usize, total: usize) -> CommandReport {
        CommandReport {
            stage,
            number,
            total,
            title: self.title.clone(),
            why: self.why.clone(),
            command: shell_text(&self.command),
            files: self.files.clone(),
        }
    }
}

impl Installation {
    fn plan(&self) -> Plan {
        Plan {
            stage: self.stage,
            what: self.what.clone(),
            download_bytes: self.download_bytes,
            disk_bytes: self.disk_bytes,
            needed_bytes: self.needed_bytes,
            free_bytes: free_bytes(&self.target),
            licence: self.licence,
            into: self.target.clone(),
        }
    }
}

impl Setup {
    /// Runs the work's commands for a folder beside the target, checks it, and gives it its final name. Whatever
    /// happens on the way, the half-made folder is removed and what was at the target is still there.
    pub(crate) fn install(
        &self,
        installation: &Installation,
        work: &Work<'_>,
        report: &mut dyn FnMut(&Report),
    ) -> Result<Ready<PathBuf>, SetupError> {
        let Installation { stage, target, .. } = installation;
        let _lock = Lock::take(&self.folders.lock_file())?;
        recover(target, installation.replaceable)?;
        if (work.complete)() {
            return Ok(Ready::present(target.clone()));
        }
        require_replaceable(installation)?;
        // Said first: a refusal for want of space is understood with the numbers before it.
        report(&Report::Plan(installation.plan()));
        if let Some(needed) = installation.needed_bytes {
            for place in [target.as_path(), self.folders.downloads()] {
                require_free(*stage, place, needed)?;
            }
        }
        let _cache = HalfUnpacked::removed_from(self.folders.uv_cache());
        let partial = Partial::create(target)?;
        let tasks = (work.tasks)(&partial.path);
        let commands = self.run_all(installation, &tasks, &partial.path, report)?;
        report(&Report::Verifying(*stage));
        (work.verify)(&partial.path)?;
        write_stamp(&partial.path, &(work.stamp)(&partial.path, &commands))?;
        partial.finish(target, work.verify)?;
        Ok(Ready {
            value: target.clone(),
            installed: true,
        })
    }

    /// Returns the commands as they were shown.
    fn run_all(
        &self,
        installation: &Installation,
        tasks: &[Task],
        partial: &Path,
        report: &mut dyn FnMut(&Report),
    ) -> Result<Vec<String>, SetupError> {
        // uv unpacks into its cache and then links, so both are watched; a linked file counts once.
        let watched = [partial.to_path_buf(), self.folders.uv_cache()];
        let before = folder_bytes(&watched);
        let start = Instant::now();
        let mut commands = Vec::new();
        for (at, task) in tasks.iter().enumerate() {
            if self.cancel.is_cancelled() {
                return Err(SetupError::Cancelled {
                    stage: installation.stage,
                });
            }
            for (path, text) in &task.files {
                fs::write(path, text).map_err(SetupError::io("written", path))?;
            }
            let told = task.report(installation.stage, at + 1, tasks.len());
            commands.push(told.command.clone());
            report(&Report::Command(told));
            self.run(installation.stage, &task.command, &mut || {
                report(&Report::Progress(Progress::new(
                    installation.stage,
                    folder_bytes(&watched).saturating_sub(before),
                    installation.disk_bytes,
                    start.elapsed(),
                )));
            })?;
        }
        Ok(commands)
    }

    fn run(&self, stage: Stage, command: &Command, tick: &mut dyn FnMut()) -> Result<(), SetupError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let ended = process::run(command, self.guard.as_deref(), &self.cancel, Output::Kept, tick)
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

/// Tells what [`Setup::install`] would run, and runs nothing.
pub(crate) fn rehearse(
    installation: &Installation,
    work: &Work<'_>,
    report: &mut dyn FnMut(&Report),
) -> Vec<String> {
    report(&Report::Plan(installation.plan()));
    let tasks = (work.tasks)(&beside(&installation.target, PARTIAL));
    let mut commands = Vec::new();
    for (at, task) in tasks.iter().enumerate() {
        let told = task.report(installation.stage, at + 1, tasks.len());
        commands.push(told.command.clone());
        report(&Report::Command(told));
    }
    commands
}

/// A command as a POSIX shell takes it, with the variables that are set for it or taken from it.
fn shell_text(command: &Command) -> String {
    let mut removed = Vec::new();
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let name = name.to_string_lossy();
        match value {
            Some(value) => words.push(format!("{name}={}", quoted(value))),
            None if std::env::var_os(&*name).is_some() => removed.push(format!("-u {name}")),
            None => {}
        }
    }
    if !removed.is_empty() {
        words.insert(0, format!("env {}", removed.join(" ")));
    }
    words.push(quoted(command.get_program()));
    words.extend(command.get_args().map(quoted));
    words.join(" ")
}

fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    // Only a NUL cannot be quoted, and no command can hold one.
    shlex::try_quote(&text).map_or_else(|_| text.clone().into_owned(), std::borrow::Cow::into_owned)
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

/// Puts back what an earlier set-up had moved aside when it was killed between two renames, and removes what one
/// had replaced and not yet removed. Called under the lock.
pub(crate) fn recover(target: &Path, replaceable: bool) -> Result<(), SetupError> {
    let previous = beside(target, PREVIOUS);
    if !(replaceable || previous.join(STAMP).exists()) {
        return Ok(());
    }
    if target.exists() {
        remove_folder(&previous)
    } else if previous.exists() {
        fs::rename(&previous, target).map_err(SetupError::io("put back", target))
    } else {
        Ok(())
    }
}

/// What the folder that a stage fills is called until it is complete, and the folder that it replaces.
pub(crate) const PARTIAL: &str = "partial";
pub(crate) const PREVIOUS: &str = "previous";

/// `<target>.<end>`.
pub(crate) fn beside(target: &Path, end: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    PathBuf::from(name)
}

/// The folder that a stage fills; removed unless it was finished.
struct Partial {
    path: PathBuf,
    finished: bool,
}

impl Partial {
    fn create(target: &Path) -> Result<Self, SetupError> {
        let path = beside(target, PARTIAL);
        // Left by a set-up that was killed outright.
        remove_folder(&path)?;
        fs::create_dir_all(&path).map_err(SetupError::io("created", &path))?;
        Ok(Self {
            path,
            finished: false,
        })
    }

    /// Takes the target's name. What had it before is kept until the new folder is checked under that name, and put
    /// back if it fails.
    fn finish(
        mut self,
        target: &Path,
        verify: &dyn Fn(&Path) -> Result<(), SetupError>,
    ) -> Result<(), SetupError> {
        let previous = beside(target, PREVIOUS);
        let replaces = target.exists();
        if replaces {
            fs::rename(target, &previous).map_err(SetupError::io("moved aside", target))?;
        }
        let moved = fs::rename(&self.path, target).map_err(SetupError::io("written", target));
        self.finished = moved.is_ok();
        let checked = moved.and_then(|()| verify(target));
        if checked.is_err() && replaces {
            remove_folder(target)?;
            fs::rename(&previous, target).map_err(SetupError::io("put back", target))?;
        } else if checked.is_err() {
            remove_folder(target)?;
        } else if replaces {
            // The new folder counts from here on; what is left of the old one costs space, and the next set-up
            // removes it.
            let _ = fs::remove_dir_all(&previous);
        }
        checked
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

pub(crate) fn remove_folder(path: &Path) -> Result<(), SetupError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SetupError::io("removed", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_fails_under_its_own_name_gives_it_back() {
        let temp = tempfile::tempdir().unwrap();
        let setup = Setup::new(Folders::all_under(temp.path()));
        let target = temp.path().join("thing");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("text"), "old").unwrap();
        write_stamp(&target, &serde_json::json!({})).unwrap();
        let installation = Installation {
            stage: Stage::Runtime,
            what: "a file".to_owned(),
            licence: "none",
            download_bytes: None,
            disk_bytes: None,
            needed_bytes: None,
            target: target.clone(),
            replaceable: false,
        };
        let install = |passes_at: &dyn Fn(&Path) -> bool| {
            setup.install(
                &installation,
                &Work {
                    complete: &|| false,
                    tasks: &|partial| {
                        let mut command = Command::new("sh");
                        command.args(["-c", "printf new > text"]).current_dir(partial);
                        vec![Task::plain(command)]
                    },
                    verify: &|folder| {
                        let text = fs::read_to_string(folder.join("text")).unwrap();
                        if text == "new" && passes_at(folder) {
                            return Ok(());
                        }
                        Err(SetupError::NotAsExpected {
                            stage: Stage::Runtime,
                            unmet: vec!["it is not".to_owned()],
                        })
                    },
                    stamp: &|_, commands| serde_json::json!(commands),
                },
                &mut |_| {},
            )
        };
        let text = || fs::read_to_string(target.join("text")).unwrap();

        install(&|_| false).unwrap_err();
        assert_eq!(text(), "old");
        // It works where it was built and not where it belongs.
        install(&|folder| folder != target).unwrap_err();
        assert_eq!(text(), "old");
        assert!(!beside(&target, PREVIOUS).exists() && !beside(&target, PARTIAL).exists());

        install(&|_| true).unwrap();
        assert_eq!(text(), "new");
        assert!(
            fs::read_to_string(target.join(STAMP))
                .unwrap()
                .contains("printf new > text")
        );
        assert!(!beside(&target, PREVIOUS).exists());
    }

    #[test]
    fn a_folder_of_the_users_beside_the_target_is_not_taken_for_ours() {
        let temp = tempfile::tempdir().unwrap();
        let target = temp.path().join("torch");
        let own = beside(&target, PREVIOUS);
        fs::create_dir(&own).unwrap();
        recover(&target, false).unwrap();
        assert!(own.is_dir() && !target.exists());
    }
}
