//! What is known of cards, torch builds, flags, packages and recipes, as dated data with a source on every row.
//!
//! It changes faster than the program, so each file can be replaced: `Knowledge::load` takes a folder of the
//! user's and uses the built-in file for each that the folder lacks. A mistake in a file names its line and key.

mod flags;
mod holders;
mod packages;
mod reading;
mod recipes;
mod targets;

#[cfg(test)]
mod tests;

use std::path::Path;

use tunesmith_probe::CardTable;

use crate::explain::Faults;

pub use flags::{AOTRITON, Action, AttentionIs, Circumstances, Flag, Harm, HarmLevel, OVERRIDE, Rule, When};
pub use holders::{HolderRow, HolderWords, Holders};
pub use packages::{OverrideLine, PackageSet, Packages};
pub use reading::{AsOf, KnowledgeError, Text};
pub(crate) use reading::{KnowledgeFile, use_in_place};
pub use recipes::{RecipeKind, RecipeRow};
pub(crate) use targets::within as in_range;
pub use targets::{Aotriton, AttentionRow, Broken, Build, Os, Route, Standing, Target, Targets, Vendor};

const CARDS: (&str, &str) = (
    "cards.toml",
    include_str!("../../../../assets/knowledge/cards.toml"),
);
const TARGETS: (&str, &str) = (
    "targets.toml",
    include_str!("../../../../assets/knowledge/targets.toml"),
);
const FLAGS: (&str, &str) = (
    "flags.toml",
    include_str!("../../../../assets/knowledge/flags.toml"),
);
const PACKAGES: (&str, &str) = (
    "packages.toml",
    include_str!("../../../../assets/knowledge/packages.toml"),
);
const RECIPES: (&str, &str) = (
    "recipes.toml",
    include_str!("../../../../assets/knowledge/recipes.toml"),
);

const FAULTS: (&str, &str) = (
    "faults.toml",
    include_str!("../../../../assets/knowledge/faults.toml"),
);

const HOLDERS: (&str, &str) = (
    "holders.toml",
    include_str!("../../../../assets/knowledge/holders.toml"),
);

/// The programs that are known to hold cards: from the user's folder, or the built-in ones where it lacks the file.
///
/// # Errors
/// As [`Knowledge::load`].
pub fn holders(folder: Option<&Path>) -> Result<Holders, KnowledgeError> {
    Holders::read(&find(folder, HOLDERS)?)
}

/// The known faults: from the user's folder, or the built-in ones where it lacks the file. They stand apart from
/// [`Knowledge`], since making their patterns ready takes longer than all the rest.
///
/// # Errors
/// As [`Knowledge::load`].
pub fn faults(folder: Option<&Path>) -> Result<Faults, KnowledgeError> {
    let file = find(folder, FAULTS)?;
    Faults::parse(file.name(), file.text()).map_err(|error| KnowledgeError::Mistake {
        file: error.file,
        line: error.line,
        key: error.key,
        message: error.message,
    })
}

/// The card table alone: all that detection needs.
///
/// # Errors
/// As [`Knowledge::load`].
pub fn cards(folder: Option<&Path>) -> Result<CardTable, KnowledgeError> {
    let file = find(folder, CARDS)?;
    CardTable::parse(file.name(), file.text()).map_err(|error| KnowledgeError::Mistake {
        file: error.file,
        line: error.line,
        key: error.key,
        message: error.message,
    })
}

/// The newest date of a row of the built-in files: what is older than them replaces none.
pub(crate) fn built_in_as_of() -> String {
    [CARDS, TARGETS, FLAGS, PACKAGES, RECIPES, FAULTS, HOLDERS]
        .into_iter()
        .flat_map(|(_, text)| text.split("as_of = \"").skip(1))
        .filter_map(|rest| rest.split('"').next())
        .max()
        .unwrap_or_default()
        .to_owned()
}

fn find(folder: Option<&Path>, (name, built_in): (&str, &str)) -> Result<KnowledgeFile, KnowledgeError> {
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(KnowledgeError::FolderMissing {
            folder: folder.to_path_buf(),
        });
    }
    KnowledgeFile::find(folder, name, built_in)
}

/// Everything that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Knowledge {
    /// Products, and what they can do by their vendor's figures.
    pub cards: CardTable,
    /// torch builds, the cards that they fit, builds that are broken.
    pub targets: Targets,
    /// Settings of the environment.
    pub flags: Vec<Flag>,
    /// Package sets.
    pub packages: Packages,
    /// Recommended recipes.
    pub recipes: Vec<RecipeRow>,
}

impl Knowledge {
    /// Reads the knowledge files of `folder`, and the built-in ones for those that it lacks.
    ///
    /// # Errors
    /// [`KnowledgeError`]: no such folder, an unreadable file, or the first mistake with its file, line and key.
    pub fn load(folder: Option<&Path>) -> Result<Self, KnowledgeError> {
        let find = |file| find(folder, file);
        let cards = cards(folder)?;
        let targets_file = find(TARGETS)?;
        let targets = Targets::read(&targets_file)?;
        let flags = flags::read(&find(FLAGS)?, &targets)?;
        let without_flag = targets.broken.iter().filter_map(|broken| broken.with.as_ref());
        for name in without_flag {
            if !flags.iter().any(|flag| flag.is_about(name)) {
                let offset = targets_file.text().find(&format!("\"{name}\"")).unwrap_or(0);
                return Err(targets_file.mistake(
                    offset,
                    "with",
                    format!("`{name}` is no flag of flags.toml"),
                ));
            }
        }
        Ok(Self {
            cards,
            targets,
            flags,
            packages: Packages::read(&find(PACKAGES)?)?,
            recipes: recipes::read(&find(RECIPES)?)?,
        })
    }

    /// The row of the flag with this name or alias.
    pub fn flag(&self, name: &str) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.is_about(name))
    }

    /// The recipe with this id.
    pub fn recipe(&self, id: &str) -> Option<&RecipeRow> {
        self.recipes.iter().find(|recipe| recipe.id == id)
    }
}
