//! The licence notices that a package carries: every crate that is linked into its programs, and each licence text once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use crate::dependencies::Package;

/// Beginnings of the names of files that hold a licence, in lower case.
const LICENCE_FILES: [&str; 5] = ["licen", "copying", "notice", "copyright", "unlicense"];

/// installers/licences.toml.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Additions {
    text: Vec<Text>,
    note: Vec<Note>,
    asset: Vec<Asset>,
}

/// A licence that does not lie at the top of its crate.
#[derive(Deserialize)]
struct Text {
    #[serde(rename = "crate")]
    name: String,
    file: PathBuf,
}

/// What should be known of a crate.
#[derive(Deserialize)]
struct Note {
    #[serde(rename = "crate")]
    name: String,
    note: String,
}

/// A file by others that is part of the project.
#[derive(Deserialize)]
struct Asset {
    what: String,
    file: PathBuf,
}

/// Texts with those whom they belong to.
#[derive(Default)]
struct Texts {
    /// By the words alone, since the same licence is set in many ways.
    by_words: BTreeMap<String, (Vec<String>, String)>,
}

impl Texts {
    fn add(&mut self, owner: &str, text: &str) {
        let words: Vec<_> = text.split_whitespace().collect();
        let (owners, _) = self
            .by_words
            .entry(words.join(" "))
            .or_insert_with(|| (Vec::new(), text.trim().to_owned()));
        if owners.last().is_none_or(|last| last != owner) {
            owners.push(owner.to_owned());
        }
    }
}

/// The notices for programs that are made of these crates, from a clone.
///
/// # Errors
/// Where a crate has no licence text and none can stand for it.
pub(super) fn notices(clone: &Path, version: &str, crates: &[&Package]) -> Result<String> {
    let file = clone.join("installers/licences.toml");
    let additions = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let additions: Additions =
        toml::from_str(&additions).with_context(|| format!("{} cannot be read", file.display()))?;
    let standard = Standard::load(clone)?;

    let mut texts = Texts::default();
    let mut list = String::new();
    let mut without = Vec::new();
    for package in crates {
        let owner = format!("{} {}", package.name, package.version);
        let _ = writeln!(
            list,
            "{owner}: {}{}",
            package.license.as_deref().unwrap_or("see below"),
            package
                .repository
                .as_ref()
                .map_or_else(String::new, |place| format!(", {place}"))
        );
        for note in additions.note.iter().filter(|note| note.name == package.name) {
            let _ = writeln!(list, "    {}", note.note);
        }
        let mut own = licence_files(package)?;
        for text in additions.text.iter().filter(|text| text.name == package.name) {
            own.push(package.folder().join(&text.file));
        }
        if own.is_empty() {
            match standard.text_for(package) {
                Some(text) => texts.add(&owner, &text),
                None => without.push(owner.clone()),
            }
        }
        for file in own {
            let text = std::fs::read(&file).with_context(|| file.display().to_string())?;
            texts.add(&owner, &String::from_utf8_lossy(&text));
        }
    }
    if !without.is_empty() {
        bail!(
            "no licence text is known for {}; name one in {}",
            without.join(", "),
            file.display()
        );
    }
    for asset in &additions.asset {
        let file = clone.join(&asset.file);
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        texts.add(&asset.what, &text);
    }
    Ok(document(version, crates.len(), &list, texts))
}

fn document(version: &str, crates: usize, list: &str, texts: Texts) -> String {
    let mut text = format!(
        "Tunesmith {version}: what its programs are made of, and under which licences\n\n\
         Tunesmith itself is under MIT or Apache-2.0. Its programs are linked from these {crates} crates and the standard library of Rust\n\
         (MIT or Apache-2.0, copyright The Rust Project Contributors). The texts of all licences follow; where a crate offers a choice,\n\
         all that it brings are given.\n\n{list}"
    );
    let mut texts: Vec<_> = texts.by_words.into_values().collect();
    texts.sort();
    for (owners, licence) in texts {
        let _ = write!(text, "\n{}\n{}\n\n{licence}\n", "=".repeat(80), owners.join(", "));
    }
    text
}

/// Files at the top of a crate that hold a licence, sorted.
fn licence_files(package: &Package) -> Result<Vec<PathBuf>> {
    let folder = package.folder();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.path().is_file() && LICENCE_FILES.iter().any(|beginning| name.starts_with(beginning)) {
            files.push(entry.path());
        }
    }
    if let Some(named) = &package.license_file {
        files.push(folder.join(named));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Licences whose text is the same for everybody, but for the names of the authors.
struct Standard {
    apache: String,
    mit: String,
}

impl Standard {
    fn load(clone: &Path) -> Result<Self> {
        let read = |name: &str| {
            let file = clone.join(name);
            std::fs::read_to_string(&file).with_context(|| file.display().to_string())
        };
        Ok(Self {
            apache: read("LICENSE-APACHE")?,
            mit: read("LICENSE-MIT")?,
        })
    }

    /// The text for a crate that was published without one.
    fn text_for(&self, package: &Package) -> Option<String> {
        let expression = Expression::parse_mode(package.license.as_deref()?, ParseMode::LAX).ok()?;
        let allows = |name: &str| {
            Licensee::parse(name).is_ok_and(|licence| expression.evaluate(|wanted| licence.satisfies(wanted)))
        };
        if allows("Apache-2.0") {
            return Some(self.apache.clone());
        }
        if !allows("MIT") {
            return None;
        }
        let (_, terms) = self.mit.split_once("\n\nPermission is hereby granted")?;
        let authors = if package.authors.is_empty() {
            format!("the authors of {}", package.name)
        } else {
            package.authors.join(", ")
        };
        Some(format!(
            "MIT License\n\nCopyright (c) {authors}\n\nPermission is hereby granted{terms}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dependencies::testing::{REGISTRY, package, workspace};

    /// A crate with these files.
    fn unpacked(folder: &Path, name: &str, license: &str, files: &[(&str, &str)]) -> serde_json::Value {
        let mut described = package(name, license, REGISTRY);
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        described["manifest_path"] = json!(folder.join("Cargo.toml"));
        for (file, text) in files {
            std::fs::write(folder.join(file), text).unwrap();
        }
        described
    }

    fn notices_of(linked: &[serde_json::Value]) -> Result<String> {
        let all = workspace(linked, &package("tool", "MIT", REGISTRY));
        let clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        notices(&clone, "1.0.0", &all.linked_into(&["app"]).unwrap())
    }

    #[test]
    fn the_same_text_is_given_once_for_all_whom_it_belongs_to() {
        let folder = tempfile::tempdir().unwrap();
        let text = notices_of(&[
            unpacked(
                folder.path(),
                "a",
                "MIT",
                &[("LICENSE-MIT", "Do what\nyou like"), ("README.md", "no")],
            ),
            unpacked(
                folder.path(),
                "b",
                "MIT",
                &[("licence.txt", "Do   what you like\n")],
            ),
            unpacked(
                folder.path(),
                "c",
                "ISC",
                &[("COPYING", "Keep this"), ("NOTICE", "Made by C")],
            ),
        ])
        .unwrap();
        assert_eq!(text.matches("what\nyou like").count(), 1);
        assert!(text.contains("\na 1.2.3, b 1.2.3\n\nDo what"), "{text}");
        assert!(text.contains("Keep this") && text.contains("Made by C"));
        assert!(text.contains("a 1.2.3: MIT, https://example.org/a\n"));
        assert!(
            text.contains("SIL OPEN FONT LICENSE"),
            "the fonts have their licence"
        );
    }

    #[test]
    fn a_crate_without_a_text_gets_the_usual_one_with_its_authors() {
        let folder = tempfile::tempdir().unwrap();
        let text = notices_of(&[
            unpacked(folder.path(), "a", "MIT", &[]),
            unpacked(folder.path(), "b", "MIT/Apache-2.0", &[]),
        ])
        .unwrap();
        assert!(
            text.contains("Copyright (c) Ann <ann@example.org>\n\nPermission is hereby granted"),
            "{text}"
        );
        assert!(text.contains("\nb 1.2.3\n\n"), "{text}");

        let error = notices_of(&[unpacked(folder.path(), "odd", "Zlib", &[])]).unwrap_err();
        assert!(error.to_string().contains("odd 1.2.3"), "{error}");
    }
}
