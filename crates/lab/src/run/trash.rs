//! Deleting a run so that it can be had back: its folder is renamed into the trash, which is emptied only by hand.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde::Serialize;
use tunesmith_setup::{Folders, folder_bytes};

use super::{RunError, is_led};
use crate::files::{FileError, make_folder};

/// Between a run's id and its number, where the trash has several of one id. No id holds it.
const NUMBER_SIGN: char = '~';

/// A run in the trash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trashed {
    /// Its name in the trash.
    pub name: String,
    /// The run's id.
    pub id: String,
    /// Its folder in the trash.
    pub folder: PathBuf,
    /// Bytes that it takes on disk.
    pub bytes: u64,
}

impl Trashed {
    fn at(folder: PathBuf) -> Self {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let id = match name.rsplit_once(NUMBER_SIGN) {
            Some((id, _)) => id.to_owned(),
            None => name.clone(),
        };
        Self {
            bytes: folder_bytes(&[&folder]),
            name,
            id,
            folder,
        }
    }
}

/// The folder of the trash; it need not exist yet.
pub fn trash_folder(folders: &Folders) -> PathBuf {
    folders.data().join("trash")
}

/// Puts a run into the trash, broken ones too. Nothing of it is changed, so [`restore`] undoes it.
///
/// # Errors
/// [`RunError::Led`] while a process leads it, [`RunError::Unknown`] where there is no such run, and
/// [`RunError::File`] where its folder cannot be renamed.
pub fn trash(folders: &Folders, id: &str) -> Result<Trashed, RunError> {
    let folder = folder_of(&folders.runs(), id)?;
    if is_led(&folder) {
        return Err(RunError::Led { id: id.to_owned() });
    }
    let trash = trash_folder(folders);
    make_folder(&trash)?;
    let mut place = trash.join(id);
    let mut number = 2;
    while place.symlink_metadata().is_ok() {
        place = trash.join(format!("{id}{NUMBER_SIGN}{number}"));
        number += 1;
    }
    rename(&folder, &place, "moved to the trash")?;
    Ok(Trashed::at(place))
}

/// Puts a run back among the runs; returns its folder.
///
/// # Errors
/// [`RunError::Unknown`] where the trash has nothing of this name, [`RunError::Exists`] where there is a run of its id
/// again, and [`RunError::File`] where its folder cannot be renamed.
pub fn restore(folders: &Folders, name: &str) -> Result<PathBuf, RunError> {
    let trashed = Trashed::at(folder_of(&trash_folder(folders), name)?);
    let runs = folders.runs();
    let place = runs.join(&trashed.id);
    if place.symlink_metadata().is_ok() {
        return Err(RunError::Exists { id: trashed.id });
    }
    make_folder(&runs)?;
    rename(&trashed.folder, &place, "moved back")?;
    Ok(place)
}

/// What the trash holds, by name.
///
/// # Errors
/// [`FileError`] where the trash exists and cannot be read.
pub fn trashed(folders: &Folders) -> Result<Vec<Trashed>, FileError> {
    let trash = trash_folder(folders);
    let fault = |source| FileError::new(&trash, "read", source);
    let entries = match fs::read_dir(&trash) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(fault)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(fault)?;
        if entry.file_type().map_err(fault)?.is_dir() {
            found.push(Trashed::at(entry.path()));
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Removes these from the trash for good: those that the user was shown, and nothing that came since.
///
/// # Errors
/// [`RunError::Unknown`] where the trash has nothing of a name, and [`RunError::File`] where something cannot be
/// removed; what comes after it is then left.
pub fn empty(folders: &Folders, names: &[String]) -> Result<(), RunError> {
    let trash = trash_folder(folders);
    for name in names {
        let folder = folder_of(&trash, name)?;
        fs::remove_dir_all(&folder).map_err(|source| FileError::new(&folder, "removed", source))?;
    }
    Ok(())
}

/// A folder right inside another one: a name that leads elsewhere names nothing.
fn folder_of(parent: &Path, name: &str) -> Result<PathBuf, RunError> {
    let mut parts = Path::new(name).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    let folder = parent.join(name);
    // A link is nobody's run: what it names may be needed elsewhere.
    if plain && folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Ok(folder);
    }
    Err(RunError::Unknown {
        name: name.to_owned(),
        any: true,
    })
}

fn rename(from: &Path, to: &Path, action: &'static str) -> Result<(), FileError> {
    fs::rename(from, to).map_err(|source| FileError::new(from, action, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recipe::Recipe,
        run::{LiveRun, Run, lines},
        testing::TestRun,
    };

    fn folders(home: &Path) -> Folders {
        Folders::all_under(home)
    }

    fn one(folders: &Folders) -> String {
        let folder = TestRun::new("2026-01-01T00:00:00Z").write(&folders.runs());
        folder.file_name().unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn a_run_in_the_trash_can_be_had_back_unchanged() {
        let home = tempfile::tempdir().unwrap();
        let folders = folders(home.path());
        let id = one(&folders);
        let before = Run::open(&folders.runs().join(&id)).unwrap();
        let trashed_run = trash(&folders, &id).unwrap();
        assert_eq!(
            (trashed_run.name.as_str(), trashed_run.id.as_str()),
            (id.as_str(), id.as_str())
        );
        assert!(trashed_run.bytes > 10_000);
        assert!(lines(&folders.runs(), &[]).unwrap().is_empty());
        assert_eq!(trashed(&folders).unwrap(), [trashed_run]);
        let back = Run::open(&restore(&folders, &id).unwrap()).unwrap();
        assert_eq!(back.manifest, before.manifest);
        assert_eq!(back.summary, before.summary);
        assert!(trashed(&folders).unwrap().is_empty());
    }

    #[test]
    fn two_runs_of_one_id_lie_side_by_side_and_do_not_overwrite_a_third() {
        let home = tempfile::tempdir().unwrap();
        let folders = folders(home.path());
        let id = one(&folders);
        trash(&folders, &id).unwrap();
        one(&folders);
        let second = trash(&folders, &id).unwrap();
        assert_eq!(second.name, format!("{id}~2"));
        assert_eq!(second.id, id);
        one(&folders);
        assert_eq!(restore(&folders, &id).unwrap_err().code(), "run_exists");
        trash(&folders, &id).unwrap();
        assert_eq!(trashed(&folders).unwrap().len(), 3);
        let back = restore(&folders, &second.name).unwrap();
        assert_eq!(back, folders.runs().join(&id));
    }

    #[test]
    fn a_run_that_goes_on_is_refused_and_one_that_is_broken_is_not() {
        let home = tempfile::tempdir().unwrap();
        let folders = folders(home.path());
        let live = LiveRun::create(&folders.runs(), &Recipe::load("smoke").unwrap(), "0123456789").unwrap();
        let id = live.id().to_owned();
        assert_eq!(trash(&folders, &id).unwrap_err().code(), "run_led");
        drop(live);
        trash(&folders, &id).unwrap();
        fs::create_dir_all(folders.runs().join("broken")).unwrap();
        trash(&folders, "broken").unwrap();
        assert_eq!(trashed(&folders).unwrap().len(), 2);
    }

    #[test]
    fn only_what_was_named_is_removed_for_good() {
        let home = tempfile::tempdir().unwrap();
        let folders = folders(home.path());
        assert!(trashed(&folders).unwrap().is_empty());
        for name in ["a", "b"] {
            fs::create_dir_all(folders.runs().join(name)).unwrap();
            trash(&folders, name).unwrap();
        }
        empty(&folders, &["a".to_owned()]).unwrap();
        let left: Vec<String> = trashed(&folders)
            .unwrap()
            .into_iter()
            .map(|run| run.name)
            .collect();
        assert_eq!(left, ["b"]);
        assert_eq!(
            empty(&folders, &["a".to_owned()]).unwrap_err().code(),
            "unknown_run"
        );
    }

    #[test]
    fn a_name_that_leads_elsewhere_names_nothing() {
        let home = tempfile::tempdir().unwrap();
        let folders = folders(home.path());
        let id = one(&folders);
        fs::create_dir_all(trash_folder(&folders)).unwrap();
        for name in ["..", ".", "", "../runs", "a/b", "missing", "./x"] {
            assert_eq!(trash(&folders, name).unwrap_err().code(), "unknown_run", "{name}");
            assert_eq!(
                restore(&folders, name).unwrap_err().code(),
                "unknown_run",
                "{name}"
            );
            assert_eq!(
                empty(&folders, &[name.to_owned()]).unwrap_err().code(),
                "unknown_run",
                "{name}"
            );
        }
        assert!(folders.runs().join(id).exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_taken_for_a_run() {
        let home = tempfile::tempdir().unwrap();
        let folders = folders(home.path());
        let elsewhere = home.path().join("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        fs::create_dir_all(folders.runs()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, folders.runs().join("link")).unwrap();
        assert_eq!(trash(&folders, "link").unwrap_err().code(), "unknown_run");
        assert!(elsewhere.exists());
    }
}
