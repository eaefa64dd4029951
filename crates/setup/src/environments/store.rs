//! The environments that there are, and which of them each engine uses.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::site::{Package, file_name, site_packages, sorted_children};
use super::spec::{Engine, InstallSpec, Layout, RESERVED, is_environment_name};
use crate::error::SetupError;
use crate::folders::Folders;
use crate::install::{PREVIOUS, STAMP, beside, recover, remove_folder};
use crate::lock::Lock;
use crate::python::python_in;

/// How many earlier environments of an engine are remembered.
const REMEMBERED: usize = 10;

/// A finished environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Its name, which is its folder's.
    pub name: String,
    /// Which engine it serves.
    pub engine: Engine,
    /// Where it is.
    pub folder: PathBuf,
    /// Where its packages are: for the native engine the folder itself.
    pub site: PathBuf,
    /// Its Python, where it has one.
    pub python: Option<PathBuf>,
    /// How it was made.
    pub stamp: Stamp,
}

/// What set-up records in an environment when it is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// What it was made from.
    pub spec: InstallSpec,
    /// The version of Python that the packages are for, for example `3.12`.
    pub python: String,
    /// The uv that made it, as it names itself; none where it did not say.
    pub uv: Option<String>,
    /// The text of torch's version, with the local part; none without a torch.
    pub torch: Option<String>,
    /// Every package with the version that was chosen.
    pub packages: Vec<Package>,
    /// What was run, in order.
    pub commands: Vec<String>,
    /// When it was complete, in UTC.
    pub made_at: String,
    /// Seconds from the first command on.
    pub took_secs: f64,
    /// Bytes on disk. Files that the installer's cache shares are counted here too.
    pub disk_bytes: u64,
    /// What the check could not tell from the files.
    pub unknown: Vec<String>,
}

/// What lies in the folder of environments.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Listing {
    /// Finished environments, by name.
    pub environments: Vec<Environment>,
    /// Folders whose stamp cannot be read; they are never used, and can be removed by name.
    pub unreadable: Vec<Unreadable>,
}

/// A folder that may once have been an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub detail: String,
}

/// All environments of this user.
pub fn list(folders: &Folders) -> Listing {
    let mut names: Vec<_> = sorted_children(&folders.environments())
        .iter()
        .filter(|folder| folder.is_dir())
        .map(|folder| {
            let name = file_name(folder);
            // An environment that waits to be put back is listed under its own name.
            name.strip_suffix(&format!(".{PREVIOUS}"))
                .map_or(name.clone(), str::to_owned)
        })
        .filter(|name| !RESERVED.iter().any(|end| name.ends_with(&format!(".{end}"))))
        .collect();
    names.sort();
    names.dedup();
    let mut listing = Listing::default();
    for name in names {
        match load(folders, &name) {
            Ok(environment) => listing.environments.push(environment),
            Err(detail) => listing.unreadable.push(Unreadable { name, detail }),
        }
    }
    listing
}

/// The environment of this name.
///
/// # Errors
/// [`SetupError::EnvironmentUnknown`], with the names that there are.
pub fn find(folders: &Folders, name: &str) -> Result<Environment, SetupError> {
    load(folders, name).map_err(|_| SetupError::EnvironmentUnknown {
        name: name.to_owned(),
        known: list(folders)
            .environments
            .into_iter()
            .map(|environment| environment.name)
            .collect(),
    })
}

/// The environment that set-up recorded for `engine`; none where none was, or where it is gone.
///
/// # Errors
/// [`SetupError::RecordDamaged`], or [`SetupError::Io`] where the record cannot be read.
pub fn active(folders: &Folders, engine: Engine) -> Result<Option<Environment>, SetupError> {
    let record = Record::read(folders)?;
    let name = record.used.get(&engine).and_then(|names| names.first());
    Ok(name.and_then(|name| load(folders, name).ok()))
}

/// Makes the environment `name` the one that its engine uses.
///
/// # Errors
/// [`SetupError::EnvironmentUnknown`] where it is not there, or where the record cannot be written.
pub fn choose(folders: &Folders, name: &str) -> Result<Environment, SetupError> {
    let environment = find(folders, name)?;
    Record::change(folders, |record| {
        let names = record.used.entry(environment.engine).or_default();
        names.retain(|other| other != name);
        names.insert(0, name.to_owned());
        names.truncate(REMEMBERED);
        Ok(())
    })?;
    Ok(environment)
}

/// Goes back to the environment that `engine` used before the present one and that is still there.
///
/// # Errors
/// [`SetupError::NoEarlier`] where there is none; then nothing changes.
pub fn roll_back(folders: &Folders, engine: Engine) -> Result<Environment, SetupError> {
    let mut earlier = None;
    Record::change(folders, |record| {
        let names = record.used.entry(engine).or_default();
        let found = names
            .iter()
            .enumerate()
            .skip(1)
            .find_map(|(at, name)| Some((at, load(folders, name).ok()?)));
        let (at, environment) = found.ok_or(SetupError::NoEarlier { engine })?;
        names.drain(..at);
        earlier = Some(environment);
        Ok(())
    })?;
    earlier.ok_or(SetupError::NoEarlier { engine })
}

/// Removes the environment `name` from the disk. One that its engine uses is only removed with `even_if_used`; the
/// engine then has none.
///
/// # Errors
/// [`SetupError::EnvironmentUnknown`], [`SetupError::EnvironmentInUse`], [`SetupError::Busy`], or where a file
/// cannot be removed.
pub fn remove(folders: &Folders, name: &str, even_if_used: bool) -> Result<(), SetupError> {
    let _lock = Lock::take(&folders.lock_file())?;
    let folder = folders.environments().join(name);
    if is_environment_name(name) {
        recover(&folder, true)?;
    }
    if !is_environment_name(name) || !folder.is_dir() {
        find(folders, name)?;
    }
    Record::change(folders, |record| {
        for (engine, names) in &mut record.used {
            if !even_if_used && names.first().is_some_and(|used| used == name) {
                return Err(SetupError::EnvironmentInUse {
                    name: name.to_owned(),
                    engine: *engine,
                });
            }
            if names.first().is_some_and(|used| used == name) {
                // What was used before would otherwise be used again without a word.
                names.clear();
            }
            names.retain(|other| other != name);
        }
        Ok(())
    })?;
    // Away under its name at once: half an environment must not be found.
    let removed = beside(&folder, "removed");
    remove_folder(&removed)?;
    fs::rename(&folder, &removed).map_err(SetupError::io("removed", &folder))?;
    remove_folder(&removed)
}

/// The environment of this name, or why there is none.
fn load(folders: &Folders, name: &str) -> Result<Environment, String> {
    if !is_environment_name(name) {
        return Err("this is no name of an environment".to_owned());
    }
    let place = folders.environments().join(name);
    // A set-up that was killed between two renames; the next one puts it back.
    let folder = if place.exists() {
        place
    } else {
        beside(&place, PREVIOUS)
    };
    let stamp = read_stamp(&folder)?;
    let site = match stamp.spec.engine.layout() {
        Layout::Site => Some(folder.clone()),
        Layout::Venv => site_packages(&folder),
    };
    let python = match stamp.spec.engine.layout() {
        Layout::Site => None,
        Layout::Venv => Some(python_in(&folder)),
    };
    Ok(Environment {
        name: name.to_owned(),
        engine: stamp.spec.engine,
        site: site.ok_or("it has no site-packages")?,
        python,
        folder,
        stamp,
    })
}

pub(super) fn read_stamp(folder: &Path) -> Result<Stamp, String> {
    let path = folder.join(STAMP);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Which environments each engine has used, the present one first.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Record {
    used: BTreeMap<Engine, Vec<String>>,
}

impl Record {
    fn read(folders: &Folders) -> Result<Self, SetupError> {
        let path = folders.environments_in_use();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other.map_err(SetupError::io("read", &path))?,
        };
        serde_json::from_str(&text).map_err(|error| SetupError::RecordDamaged {
            path,
            detail: error.to_string(),
        })
    }

    /// Reads, changes and writes it while nobody else does; an error of `change` leaves it as it is.
    fn change(
        folders: &Folders,
        change: impl FnOnce(&mut Self) -> Result<(), SetupError>,
    ) -> Result<(), SetupError> {
        let path = folders.environments_in_use();
        let folder = folders.config();
        fs::create_dir_all(folder).map_err(SetupError::io("created", folder))?;
        // Of its own, and waited for: it is held for a moment, and the lock of set-up for as long as a download.
        let lock = beside(&path, "lock");
        let file = File::create(&lock).map_err(SetupError::io("opened", &lock))?;
        file.lock().map_err(SetupError::io("locked", &lock))?;
        let mut record = Self::read(folders)?;
        change(&mut record)?;
        let partial = beside(&path, "partial");
        let text = serde_json::to_string_pretty(&record)
            .map_err(|error| SetupError::io("written", &path)(error.into()))?;
        fs::write(&partial, text + "\n").map_err(SetupError::io("written", &partial))?;
        fs::rename(&partial, &path).map_err(SetupError::io("written", &path))
    }
}
