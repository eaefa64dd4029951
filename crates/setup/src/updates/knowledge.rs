//! Knowledge files that are newer than the program. They come in one signed file, are read as the program will read them,
//! and are kept as a folder of their own, named by their date, that has its name only once it is whole.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{Source, UpdateError, fetch};
use crate::{
    Folders,
    doctor::Rules,
    knowledge::{self, Knowledge},
};

/// Version of the file that knowledge files come in.
const FORMAT: u32 = 1;

/// The files that can come.
const FILES: [&str; 8] = [
    "cards.toml",
    "checks.toml",
    "faults.toml",
    "flags.toml",
    "holders.toml",
    "packages.toml",
    "recipes.toml",
    "targets.toml",
];

/// Folders that are not whole end so.
const PARTIAL: &str = ".partial";

/// What is signed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundle {
    /// [`FORMAT`].
    knowledge: u32,
    /// Their date: a later one replaces an earlier one.
    as_of: String,
    /// Name and text of each.
    files: BTreeMap<String, String>,
}

/// What came of looking for newer knowledge files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnowledgeUpdate {
    /// They are in use from here on.
    Installed {
        /// Their date.
        as_of: String,
        /// Where they are.
        folder: PathBuf,
    },
    /// What is here is not older.
    Newest {
        /// Its date.
        as_of: String,
    },
}

/// Fetches the knowledge files of a source, and keeps them where they are newer than what is here, have a good signature
/// and are without a mistake. Else everything stays as it was.
///
/// # Errors
/// [`UpdateError`]
pub fn update_knowledge(source: &Source, folders: &Folders) -> Result<KnowledgeUpdate, UpdateError> {
    let unusable = |message: String| UpdateError::Content {
        address: source.address.clone(),
        message,
    };
    let content = fetch::signed(source)?;
    let bundle: Bundle = serde_json::from_slice(&content).map_err(|error| unusable(error.to_string()))?;
    if bundle.knowledge != FORMAT {
        return Err(unusable(format!(
            "it has version {} of the form, and this program knows version {FORMAT}",
            bundle.knowledge
        )));
    }
    if !is_date(&bundle.as_of) {
        return Err(unusable(format!("`{}` is no date", bundle.as_of)));
    }
    if let Some(name) = bundle.files.keys().find(|name| !FILES.contains(&name.as_str())) {
        return Err(unusable(format!("`{name}` is none of the knowledge files")));
    }
    let here = knowledge_as_of(folders);
    if bundle.as_of <= here {
        return Ok(KnowledgeUpdate::Newest { as_of: here });
    }
    let folder = keep(&bundle, &all(folders))?;
    Ok(KnowledgeUpdate::Installed {
        as_of: bundle.as_of,
        folder,
    })
}

/// The folder of the knowledge files that were fetched, where they are newer than those of the program.
pub fn fetched_knowledge(folders: &Folders) -> Option<PathBuf> {
    newest(folders).map(|(_, folder)| folder)
}

/// From here on this process uses the knowledge files that were fetched, where they are newer than its own. Files that
/// this version of the program cannot read are left alone. To be called once, when a program begins.
pub fn use_fetched_knowledge(folders: &Folders) {
    if let Some(folder) = fetched_knowledge(folders)
        && check(&folder).is_ok()
    {
        knowledge::use_in_place(folder);
    }
}

/// The date of the knowledge files that are in use: of those that were fetched, or of the newest row of the program's own.
pub fn knowledge_as_of(folders: &Folders) -> String {
    newest(folders).map_or_else(knowledge::built_in_as_of, |(as_of, _)| as_of)
}

/// The folder with a folder for each date.
fn all(folders: &Folders) -> PathBuf {
    folders.data().join("knowledge")
}

/// The newest that are newer than those of the program, with their date.
fn newest(folders: &Folders) -> Option<(String, PathBuf)> {
    let built_in = knowledge::built_in_as_of();
    dated(&all(folders))
        .into_iter()
        .filter(|(as_of, _)| *as_of > built_in)
        .max()
}

fn dated(all: &Path) -> Vec<(String, PathBuf)> {
    fs::read_dir(all)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let as_of = entry.file_name().into_string().ok()?;
            (is_date(&as_of) && entry.path().is_dir()).then(|| (as_of, entry.path()))
        })
        .collect()
}

/// Writes them beside their place, reads them, and gives them their name; older ones go.
fn keep(bundle: &Bundle, all: &Path) -> Result<PathBuf, UpdateError> {
    let folder = all.join(&bundle.as_of);
    let partial = all.join(format!("{}{PARTIAL}", bundle.as_of));
    let kept = write(bundle, &partial)
        .and_then(|()| check(&partial))
        .and_then(|()| fs::rename(&partial, &folder).map_err(not_kept(&folder)));
    if kept.is_err() {
        // Where this fails too, the name says that it is not whole, and the next one replaces it.
        let _ = fs::remove_dir_all(&partial);
    }
    kept?;
    for (as_of, older) in dated(all) {
        if as_of < bundle.as_of {
            // One that stays takes a little room and is not used.
            let _ = fs::remove_dir_all(older);
        }
    }
    Ok(folder)
}

fn write(bundle: &Bundle, partial: &Path) -> Result<(), UpdateError> {
    match fs::remove_dir_all(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(not_kept(partial)(error)),
        _ => {}
    }
    fs::create_dir_all(partial).map_err(not_kept(partial))?;
    for (name, text) in &bundle.files {
        let path = partial.join(name);
        fs::write(&path, text)
            .and_then(|()| fs::File::open(&path)?.sync_all())
            .map_err(not_kept(&path))?;
    }
    Ok(())
}

/// Reads them as the program will.
fn check(folder: &Path) -> Result<(), UpdateError> {
    Knowledge::load(Some(folder))?;
    knowledge::faults(Some(folder))?;
    knowledge::holders(Some(folder))?;
    Rules::load(Some(folder))?;
    Ok(())
}

fn not_kept(path: &Path) -> impl FnOnce(io::Error) -> UpdateError {
    let path = path.to_owned();
    move |source| UpdateError::NotKept { path, source }
}

/// `2026-12-05`, or `2026-12-05.2` for the third of a day; both are names of folders, and in order as texts.
fn is_date(text: &str) -> bool {
    let (day, more) = text.split_once('.').unwrap_or((text, "0"));
    day.len() == 10 && day.parse::<jiff::civil::Date>().is_ok() && matches!(more.as_bytes(), [b'0'..=b'9'])
}
