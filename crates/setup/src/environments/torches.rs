//! The torches that lie on this machine already: one that fits saves gigabytes.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::site::{printable, site_packages, sorted_children};
use super::spec::Expectations;
use super::store::list;
use super::verify::verify;
use crate::engine_env::{TorchBuild, read_version};
use crate::env_vars;
use crate::folders::Folders;

/// A torch on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundTorch {
    /// The `site-packages` folder that holds `torch/`.
    pub site: PathBuf,
    /// As `torch/version.py` says it, for example `2.11.0+rocm7.2`.
    pub version: String,
    /// What it was built for.
    pub build: TorchBuild,
    /// Why it was looked for there.
    pub origin: Origin,
}

/// Why a folder was looked into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// One of Tunesmith's environments, with its name.
    Environment(String),
    /// The private runtime.
    Runtime,
    /// The variable of this name points there.
    Variable(String),
    /// The caller named it.
    Named,
}

impl FoundTorch {
    /// Whether its version, build and kernels are those that are expected; other packages do not count.
    pub fn fits(&self, expected: &Expectations) -> bool {
        let torch_alone = Expectations {
            torch_version: expected.torch_version.clone(),
            torch_local: expected.torch_local.clone(),
            torch_build: expected.torch_build,
            kernels_for_gfx: expected.kernels_for_gfx.clone(),
            ..Expectations::default()
        };
        verify(&self.site, &torch_alone).unmet.is_empty()
    }
}

/// Every torch in Tunesmith's environments, the private runtime, the environments that the variables name
/// (`variable` reads them) and the folders in `more`: each of those an environment, or a folder of environments.
pub fn find_torches(
    folders: &Folders,
    variable: &dyn Fn(&str) -> Option<OsString>,
    more: &[PathBuf],
) -> Vec<FoundTorch> {
    let mut places = Vec::new();
    for environment in list(folders).environments {
        places.push((environment.site, Origin::Environment(environment.name)));
    }
    places.push((folders.runtime().to_path_buf(), Origin::Runtime));
    for name in [env_vars::TORCH, "VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let Some(folder) = variable(name).filter(|folder| !folder.is_empty()) {
            places.push((PathBuf::from(folder), Origin::Variable(name.to_owned())));
        }
    }
    for folder in more {
        if site_packages(folder).is_some() {
            places.push((folder.clone(), Origin::Named));
        } else {
            places.extend(
                sorted_children(folder)
                    .into_iter()
                    .map(|child| (child, Origin::Named)),
            );
        }
    }
    let mut seen = HashSet::new();
    places
        .into_iter()
        .filter_map(|(folder, origin)| torch_in(&folder, origin))
        .filter(|torch| seen.insert(torch.site.canonicalize().unwrap_or_else(|_| torch.site.clone())))
        .collect()
}

fn torch_in(folder: &Path, origin: Origin) -> Option<FoundTorch> {
    let site = site_packages(folder)?;
    let version = read_version(&site).ok()?;
    Some(FoundTorch {
        version: printable(version.text()),
        build: version.build().clone(),
        site,
        origin,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn torch(site: &Path, version: &str) {
        fs::create_dir_all(site.join("torch")).unwrap();
        fs::write(
            site.join("torch/version.py"),
            format!("__version__ = '{version}'\nhip: Optional[str] = '7.2'\n"),
        )
        .unwrap();
    }

    #[test]
    fn every_torch_is_found_once_with_the_reason_for_looking() {
        let temp = tempfile::tempdir().unwrap();
        let at = |folder: &str| temp.path().join(folder);
        let folders = Folders::all_under(&at("app"));
        torch(folders.runtime(), "2.11.0");
        torch(&at("venv/lib/python3.12/site-packages"), "2.11.0+rocm7.2");
        torch(&at("many/one/lib/python3.11/site-packages"), "2.9.1");
        fs::create_dir_all(at("many/without/lib/python3.11/site-packages")).unwrap();
        let variable = |name: &str| (name == "VIRTUAL_ENV").then(|| at("venv").into_os_string());

        let found = find_torches(&folders, &variable, &[at("venv"), at("many"), at("nowhere")]);
        let found: Vec<_> = found
            .iter()
            .map(|torch| (torch.version.as_str(), torch.origin.clone()))
            .collect();
        assert_eq!(
            found,
            [
                ("2.11.0", Origin::Runtime),
                ("2.11.0+rocm7.2", Origin::Variable("VIRTUAL_ENV".to_owned())),
                ("2.9.1", Origin::Named),
            ]
        );
    }

    #[test]
    fn a_torch_fits_by_version_and_build_alone() {
        let temp = tempfile::tempdir().unwrap();
        torch(temp.path(), "2.11.0+rocm7.2");
        let found = torch_in(temp.path(), Origin::Named).unwrap();
        let mut expected = Expectations {
            torch_version: Some("2.11.0".to_owned()),
            torch_local: Some("rocm7.2".to_owned()),
            absent: vec!["torch".to_owned()],
            ..Expectations::default()
        };
        assert!(found.fits(&expected));
        expected.torch_local = Some("cu126".to_owned());
        assert!(!found.fits(&expected));
    }
}
