//! What takes how much of the disk, for the page that tidies up. Everything is listed before anything is removed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use tunesmith_models::hub::Hub;
use tunesmith_setup::{
    Folders,
    environments::{self, Engine},
    folder_size,
    knowledge::Knowledge,
    runtime,
};

use crate::{
    files::FileError,
    models::{models_here, runs_of},
    run::{Run, RunError, RunLine, is_led, trash},
};

/// Files and folders that are looked at in one place; beyond it the size is a lower bound.
const MOST_ENTRIES: usize = 500_000;

/// What takes space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskKind {
    /// A model.
    Model,
    /// An environment of an engine.
    Environment,
    /// The private torch runtime.
    Runtime,
    /// A run without its checkpoints.
    Run,
    /// The checkpoints of a run, from which it can go on.
    Checkpoints,
    /// A run in the trash.
    Trash,
    /// What an installer keeps so as not to fetch it again.
    InstallerCache,
    /// Environments that reference figures were computed in.
    References,
    /// What can be made again at any time.
    Cache,
}

impl DiskKind {
    /// What it is, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Environment => "environment",
            Self::Runtime => "torch runtime",
            Self::Run => "run",
            Self::Checkpoints => "checkpoints",
            Self::Trash => "run in the trash",
            Self::InstallerCache => "installer's cache",
            Self::References => "reference environments",
            Self::Cache => "cache",
        }
    }
}

/// One thing that takes space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskUse {
    /// What it is.
    pub kind: DiskKind,
    /// Its name.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Bytes that it takes on disk. A file that is linked into several places (an environment and the installer's
    /// cache, two revisions of a model) counts in each, so removing one of them may free less.
    pub bytes: u64,
    /// Whether everything was counted; otherwise `bytes` is a lower bound.
    pub whole: bool,
    /// What needs it, for people; empty where nothing does.
    pub in_use_by: Vec<String>,
}

/// Everything of Tunesmith's that takes space, the largest first. What does not exist is left out.
pub fn disk_use(
    folders: &Folders,
    hub: Option<&Hub>,
    knowledge: &Knowledge,
    lines: &[Arc<RunLine>],
) -> Vec<DiskUse> {
    let mut found = Vec::new();
    found.extend(
        models_here(folders, hub, knowledge)
            .into_iter()
            .map(|model| DiskUse {
                kind: DiskKind::Model,
                in_use_by: runs_of(&model, lines),
                name: model.name,
                path: model.path,
                bytes: model.bytes,
                whole: true,
            }),
    );
    found.extend(environments_use(folders));
    for line in lines {
        found.extend(run_use(line));
    }
    let listed = trash::trashed(folders).unwrap_or_default();
    found.extend(
        listed
            .into_iter()
            .map(|run| measured(DiskKind::Trash, run.name, &run.folder, Vec::new())),
    );
    let others = [
        (DiskKind::InstallerCache, "uv", folders.uv_cache()),
        (DiskKind::References, "reference", folders.references()),
        (DiskKind::Cache, "cache", folders.cache().to_owned()),
    ];
    // The cache may hold the downloads, which are listed by themselves.
    found.extend(
        others
            .into_iter()
            .filter(|(_, _, path)| path.exists() && !folders.downloads().starts_with(path))
            .map(|(kind, name, path)| measured(kind, name.to_owned(), &path, Vec::new())),
    );
    found.sort_by(|one, other| {
        other
            .bytes
            .cmp(&one.bytes)
            .then_with(|| one.name.cmp(&other.name))
    });
    found
}

fn environments_use(folders: &Folders) -> Vec<DiskUse> {
    let listing = environments::list(folders);
    let active: Vec<(Engine, PathBuf)> = Engine::ALL
        .into_iter()
        .filter_map(|engine| Some((engine, environments::active(folders, engine).ok()??.folder)))
        .collect();
    let uses = |folder: &Path| -> Vec<String> {
        let engines = active.iter().filter(|(_, used)| used == folder);
        engines
            .map(|(engine, _)| format!("the {engine} engine"))
            .collect()
    };
    let finished = listing.environments.into_iter().map(|environment| {
        let users = uses(&environment.folder);
        measured(
            DiskKind::Environment,
            environment.name,
            &environment.folder,
            users,
        )
    });
    let unreadable = listing.unreadable.into_iter().map(|unreadable| {
        let folder = folders.environments().join(&unreadable.name);
        measured(DiskKind::Environment, unreadable.name, &folder, Vec::new())
    });
    let native = active.iter().any(|(engine, _)| *engine == Engine::Native);
    let runtime = runtime::installed(folders).map(|folder| {
        let users = if native {
            Vec::new()
        } else {
            vec![format!("the {} engine", Engine::Native)]
        };
        measured(
            DiskKind::Runtime,
            format!("torch {}", runtime::TORCH_VERSION),
            &folder,
            users,
        )
    });
    finished.chain(unreadable).chain(runtime).collect()
}

fn run_use(line: &RunLine) -> Vec<DiskUse> {
    let checkpoints = line.folder.join("checkpoints");
    let running = if line.state.is_running() {
        vec!["the run goes on".to_owned()]
    } else {
        Vec::new()
    };
    let whole = measured(DiskKind::Run, line.id.clone(), &line.folder, running.clone());
    if !checkpoints.is_dir() {
        return vec![whole];
    }
    let goes_on = line
        .resume_step
        .map(|step| format!("the run can go on from step {step}"));
    let users = running.into_iter().chain(goes_on).collect();
    let part = measured(DiskKind::Checkpoints, line.id.clone(), &checkpoints, users);
    let rest = DiskUse {
        bytes: whole.bytes.saturating_sub(part.bytes),
        ..whole
    };
    vec![rest, part]
}

fn measured(kind: DiskKind, name: String, path: &Path, in_use_by: Vec<String>) -> DiskUse {
    let size = folder_size(&[path], MOST_ENTRIES);
    DiskUse {
        kind,
        name,
        path: path.to_owned(),
        bytes: size.bytes,
        whole: size.whole,
        in_use_by,
    }
}

/// Removes the checkpoints of a run, which keeps everything else and can no longer go on.
///
/// # Errors
/// [`RunError::Led`] while a process leads it, and [`RunError::File`] where something cannot be removed.
pub fn remove_checkpoints(run: &Run) -> Result<(), RunError> {
    if is_led(&run.folder) {
        return Err(RunError::Led { id: run.id.clone() });
    }
    let folder = run.folder.join("checkpoints");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError::new(&folder, "removed", error).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recipe::Recipe,
        run::{LiveRun, lines},
        testing::{TestRun, write_checkpoint},
    };
    use tunesmith_protocol::RunStatus;

    fn all(folders: &Folders) -> Vec<DiskUse> {
        let lines = lines(&folders.runs(), &[]).unwrap();
        disk_use(folders, None, &Knowledge::load(None).unwrap(), &lines)
    }

    fn of(found: &[DiskUse], kind: DiskKind) -> Vec<&DiskUse> {
        found.iter().filter(|used| used.kind == kind).collect()
    }

    #[test]
    fn a_run_and_its_checkpoints_are_counted_apart() {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(home.path());
        let run = TestRun::new("2026-01-01T00:00:00Z")
            .status(RunStatus::Cancelled)
            .steps(50);
        let folder = run.write(&folders.runs());
        fs::write(write_checkpoint(&folder, 40).join("more"), vec![1; 3_000_000]).unwrap();
        TestRun::new("2026-01-02T00:00:00Z").write(&folders.runs());
        let found = all(&folders);
        assert_eq!(found[0].kind, DiskKind::Checkpoints);
        assert!(found[0].bytes >= 3_000_000 && found[0].whole);
        assert_eq!(found[0].in_use_by, ["the run can go on from step 40"]);
        let runs = of(&found, DiskKind::Run);
        assert_eq!(runs.len(), 2);
        assert!(
            runs.iter().all(|run| (10_000..1_000_000).contains(&run.bytes)),
            "{runs:?}"
        );

        remove_checkpoints(&Run::open(&folder).unwrap()).unwrap();
        let found = all(&folders);
        assert!(of(&found, DiskKind::Checkpoints).is_empty());
        assert_eq!(of(&found, DiskKind::Run).len(), 2);
        remove_checkpoints(&Run::open(&folder).unwrap()).unwrap();
    }

    #[test]
    fn checkpoints_of_a_run_that_goes_on_stay() {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(home.path());
        let live = LiveRun::create(&folders.runs(), &Recipe::load("smoke").unwrap(), "0123456789").unwrap();
        let checkpoint = write_checkpoint(live.folder(), 20);
        let run = Run::open(live.folder()).unwrap();
        assert_eq!(remove_checkpoints(&run).unwrap_err().code(), "run_led");
        assert!(checkpoint.exists());
        let found = all(&folders);
        assert_eq!(of(&found, DiskKind::Run)[0].in_use_by, ["the run goes on"]);
    }

    #[test]
    fn trash_and_caches_are_listed_and_what_is_not_there_is_not() {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(home.path());
        assert!(all(&folders).is_empty());
        let folder = TestRun::new("2026-01-01T00:00:00Z").write(&folders.runs());
        let id = folder.file_name().unwrap().to_string_lossy().into_owned();
        trash::trash(&folders, &id).unwrap();
        fs::create_dir_all(folders.uv_cache()).unwrap();
        fs::write(folders.uv_cache().join("wheel"), vec![1; 200_000]).unwrap();
        fs::create_dir_all(folders.environments().join("half")).unwrap();
        let found = all(&folders);
        assert_eq!(of(&found, DiskKind::Trash)[0].name, id);
        assert!(of(&found, DiskKind::InstallerCache)[0].bytes >= 200_000);
        assert_eq!(of(&found, DiskKind::Environment)[0].name, "half");
        assert_eq!(found.len(), 3);
    }
}
