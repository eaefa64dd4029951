//! How two environments differ: the first question when something works in one and not in the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::site::{file_name, packages, printable, site_packages};
use super::store;
use crate::engine_env::{TorchBuild, read_version};
use crate::error::SetupError;
use crate::folders::Folders;

/// The difference between two environments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnvDiff {
    /// The first.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// Packages that only the first has.
    pub only_a: Vec<super::Package>,
    /// Packages that only the second has.
    pub only_b: Vec<super::Package>,
    /// Packages of different versions.
    pub different: Vec<Change>,
    /// How many packages are the same in both.
    pub same: usize,
}

/// One of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// As it was named.
    pub name: String,
    /// Where its packages are.
    pub site: PathBuf,
    /// The version of Python that they are for; none where the files do not tell.
    pub python: Option<String>,
    /// torch's version with the local part; none without a torch.
    pub torch: Option<String>,
    /// What that torch was built for.
    pub torch_build: Option<TorchBuild>,
}

/// A package of two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The package.
    pub name: String,
    /// Its version in the first.
    pub a: String,
    /// Its version in the second.
    pub b: String,
}

/// Compares two environments, each one given by its name or as the folder of any Python environment.
///
/// # Errors
/// [`SetupError::EnvironmentUnknown`] where a name is neither, [`SetupError::NoPackages`] where a folder has none.
pub fn diff(folders: &Folders, a: &str, b: &str) -> Result<EnvDiff, SetupError> {
    let (a, b) = (side(folders, a)?, side(folders, b)?);
    let versions = |side: &Side| -> BTreeMap<String, String> {
        packages(&side.site)
            .into_iter()
            .map(|package| (package.name, package.version))
            .collect()
    };
    let (in_a, in_b) = (versions(&a), versions(&b));
    let mut diff = EnvDiff {
        a,
        b,
        only_a: Vec::new(),
        only_b: Vec::new(),
        different: Vec::new(),
        same: 0,
    };
    let names: BTreeSet<_> = in_a.keys().chain(in_b.keys()).collect();
    for name in names {
        let package = |version: &String| super::Package {
            name: name.clone(),
            version: version.clone(),
        };
        match (in_a.get(name), in_b.get(name)) {
            (Some(a), Some(b)) if a == b => diff.same += 1,
            (Some(a), Some(b)) => diff.different.push(Change {
                name: name.clone(),
                a: a.clone(),
                b: b.clone(),
            }),
            (Some(a), None) => diff.only_a.push(package(a)),
            (None, Some(b)) => diff.only_b.push(package(b)),
            (None, None) => {}
        }
    }
    Ok(diff)
}

fn side(folders: &Folders, given: &str) -> Result<Side, SetupError> {
    let (site, stamped) = match store::find(folders, given) {
        Ok(environment) => (environment.site, Some(environment.stamp.python)),
        Err(_) if Path::new(given).is_dir() => {
            let path = PathBuf::from(given);
            let site = site_packages(&path).ok_or(SetupError::NoPackages { path })?;
            (site, None)
        }
        Err(error) => return Err(error),
    };
    let torch = read_version(&site).ok();
    Ok(Side {
        name: printable(given),
        python: python_of(&site).or(stamped),
        torch: torch.as_ref().map(|torch| printable(torch.text())),
        torch_build: torch.map(|torch| torch.build().clone()),
        site,
    })
}

/// From `pyvenv.cfg`, which names it exactly, else from the folders' names.
fn python_of(site: &Path) -> Option<String> {
    let exact = site.ancestors().take(4).find_map(|folder| {
        let text = fs::read_to_string(folder.join("pyvenv.cfg")).ok()?;
        text.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            matches!(name.trim(), "version_info" | "version").then(|| printable(value.trim()))
        })
    });
    exact.or_else(|| {
        let folder = file_name(site.parent()?);
        folder.strip_prefix("python").map(printable)
    })
}

impl EnvDiff {
    /// For reading: what the two are, then what differs.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (letter, side) in [("A", &self.a), ("B", &self.b)] {
            line(&mut text, &format!("{letter}  {}", side.describe()));
        }
        if !self.different.is_empty() {
            line(&mut text, "");
            line(&mut text, "different versions (A, then B)");
            let names = width(self.different.iter().map(|change| &change.name));
            let versions = width(self.different.iter().map(|change| &change.a));
            for Change { name, a, b } in &self.different {
                line(&mut text, &format!("  {name:names$}  {a:versions$}  {b}"));
            }
        }
        for (title, packages) in [("only in A", &self.only_a), ("only in B", &self.only_b)] {
            if packages.is_empty() {
                continue;
            }
            line(&mut text, "");
            line(&mut text, title);
            let names = width(packages.iter().map(|package| &package.name));
            for package in packages {
                line(
                    &mut text,
                    &format!("  {:names$}  {}", package.name, package.version),
                );
            }
        }
        line(&mut text, "");
        line(
            &mut text,
            &match self.same {
                1 => "1 package is the same in both".to_owned(),
                same => format!("{same} packages are the same in both"),
            },
        );
        text
    }
}

impl Side {
    fn describe(&self) -> String {
        let python = self
            .python
            .as_ref()
            .map_or("Python unknown".to_owned(), |version| format!("Python {version}"));
        let torch = match (&self.torch, &self.torch_build) {
            (Some(version), Some(build)) => {
                let build = match build {
                    TorchBuild::Cpu => "without a GPU".to_owned(),
                    TorchBuild::Cuda(version) => format!("for CUDA {version}"),
                    TorchBuild::Hip(version) => format!("for ROCm, HIP {version}"),
                };
                format!("torch {version} {}", printable(&build))
            }
            _ => "no torch".to_owned(),
        };
        format!("{}: {python}, {torch}", self.name)
    }
}

fn width<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or_default()
}

fn line(text: &mut String, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(site: &Path, name: &str, version: &str) {
        let info = site.join(format!("{name}-{version}.dist-info"));
        fs::create_dir_all(&info).unwrap();
        fs::write(
            info.join("METADATA"),
            format!("Name: {name}\nVersion: {version}\n\n"),
        )
        .unwrap();
    }

    fn torch(site: &Path, text: &str) {
        fs::create_dir_all(site.join("torch")).unwrap();
        fs::write(site.join("torch/version.py"), text).unwrap();
    }

    #[test]
    fn what_differs_is_said_and_what_is_the_same_is_counted() {
        let temp = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(&temp.path().join("app"));
        let (a, b) = (temp.path().join("a"), temp.path().join("b"));
        let site_a = a.join("lib/python3.12/site-packages");
        fs::create_dir_all(&site_a).unwrap();
        fs::write(a.join("pyvenv.cfg"), "home = /usr/bin\nversion_info = 3.12.7\n").unwrap();
        fs::create_dir_all(&b).unwrap();
        torch(
            &site_a,
            "__version__ = '2.11.0+rocm7.2'\nhip: Optional[str] = '7.2.53211'\n",
        );
        torch(&b, "__version__ = '2.11.0+cpu'\n");
        for (site, name, version) in [
            (&site_a, "torch", "2.11.0+rocm7.2"),
            (&b, "torch", "2.11.0+cpu"),
            (&site_a, "Typing_Extensions", "4.15.0"),
            (&b, "typing.extensions", "4.15.0"),
            (&site_a, "triton-rocm", "3.6.0"),
            (&b, "peft", "0.21.2"),
        ] {
            package(site, name, version);
        }
        let diff = diff(&folders, &a.to_string_lossy(), &b.to_string_lossy()).unwrap();
        let text = diff.to_text().replace(&*temp.path().to_string_lossy(), "");
        assert_eq!(
            text,
            "A  /a: Python 3.12.7, torch 2.11.0+rocm7.2 for ROCm, HIP 7.2.53211\n\
             B  /b: Python unknown, torch 2.11.0+cpu without a GPU\n\
             \n\
             different versions (A, then B)\n\
             \x20 torch  2.11.0+rocm7.2  2.11.0+cpu\n\
             \n\
             only in A\n\
             \x20 triton-rocm  3.6.0\n\
             \n\
             only in B\n\
             \x20 peft  0.21.2\n\
             \n\
             1 package is the same in both\n"
        );
    }

    #[test]
    fn a_name_that_is_nothing_and_a_folder_without_packages_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(&temp.path().join("app"));
        let empty = temp.path().to_string_lossy().into_owned();
        assert_eq!(diff(&folders, &empty, &empty).unwrap_err().code(), "no_packages");
        assert_eq!(
            diff(&folders, "hf-2026-11", &empty).unwrap_err().code(),
            "environment_unknown"
        );
    }
}
