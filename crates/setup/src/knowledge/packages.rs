//! The rows of `packages.toml`: what an engine's environment holds beside torch.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::reading::{AsOf, KnowledgeError, KnowledgeFile, Text};
use super::targets::Vendor;
use crate::environments::{Engine, PythonRange};

/// Packages in versions that go together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageSet {
    /// By which environments name it.
    pub id: String,
    /// The engine that it is for.
    pub engine: Engine,
    /// For people.
    pub title: Text,
    /// Whose cards it works with.
    pub vendors: Vec<Vendor>,
    /// The versions of Python that all of it has wheels for.
    pub python: PythonRange,
    /// What is installed.
    pub requirements: Vec<String>,
    /// What is installed where the card can train on a 4-bit base.
    pub four_bit: Vec<String>,
    /// Bytes over the network, beside torch; none where nobody has read them.
    #[serde(default)]
    pub download_bytes: Option<u64>,
    /// Bytes on disk, beside torch.
    #[serde(default)]
    pub disk_bytes: Option<u64>,
    /// How these figures came about.
    #[serde(default)]
    pub size_note: Option<Text>,
    /// Why these versions.
    pub reason: Text,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: Text,
}

/// A line of uv's override file, for every set with Python packages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideLine {
    /// A name for it.
    pub id: String,
    /// Whose cards it is for.
    pub vendors: Vec<Vendor>,
    /// The line.
    pub line: String,
    /// Why.
    pub reason: Text,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: Text,
}

/// Everything in `packages.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Packages {
    /// The sets.
    pub sets: Vec<PackageSet>,
    /// Lines of the override file.
    pub overrides: Vec<OverrideLine>,
}

impl Packages {
    /// The set with this id.
    pub fn set(&self, id: &str) -> Option<&PackageSet> {
        self.sets.iter().find(|set| set.id == id)
    }

    /// The first set of an engine.
    pub fn of_engine(&self, engine: Engine) -> Option<&PackageSet> {
        self.sets.iter().find(|set| set.engine == engine)
    }

    pub(super) fn read(file: &KnowledgeFile) -> Result<Self, KnowledgeError> {
        let rows: File = file.parse()?;
        let mut all = Self {
            sets: Vec::new(),
            overrides: Vec::new(),
        };
        for row in rows.set {
            let offset = row.span().start;
            let set = row.into_inner();
            if all.set(&set.id).is_some() {
                return Err(file.mistake(offset, "id", format!("`{}` is there twice", set.id)));
            }
            let mut lines = set.requirements.iter().chain(&set.four_bit);
            if let Some(line) = lines.find(|line| !is_requirement(line)) {
                return Err(file.mistake(offset, "requirements", format!("{line:?} is not a package")));
            }
            all.sets.push(set);
        }
        for row in rows.r#override {
            let offset = row.span().start;
            let line = row.into_inner();
            if !is_requirement(&line.line) {
                return Err(file.mistake(offset, "line", format!("{:?} is not a package", line.line)));
            }
            all.overrides.push(line);
        }
        for engine in Engine::ALL {
            if all.of_engine(engine).is_none() {
                return Err(file.mistake(0, "set", format!("there is no set for the engine `{engine}`")));
            }
        }
        Ok(all)
    }
}

/// A package's name first, and nothing that uv would read as an option or as two lines.
fn is_requirement(line: &str) -> bool {
    line.starts_with(|first: char| first.is_ascii_alphanumeric()) && !line.chars().any(char::is_control)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    set: Vec<Spanned<PackageSet>>,
    #[serde(default)]
    r#override: Vec<Spanned<OverrideLine>>,
}
