//! Where things lie on disk: one type, so that no path is put together twice.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::env_vars;
use crate::error::SetupError;

/// The folders that Tunesmith uses. None of them need exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    data: PathBuf,
    config: PathBuf,
    cache: PathBuf,
    downloads: PathBuf,
    runtime: PathBuf,
}

impl Folders {
    /// The folders of this user, with [`env_vars::HOME`] and [`env_vars::RUNTIME`] applied.
    ///
    /// # Errors
    /// [`SetupError::HomeMissing`] where the system does not know the user's home folder.
    pub fn from_env() -> Result<Self, SetupError> {
        Self::from_variables(env_vars::read)
    }

    /// As [`Folders::from_env`], with the variables read through `variable`.
    ///
    /// # Errors
    /// [`SetupError::HomeMissing`] where the system does not know the user's home folder.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, SetupError> {
        let system = directories::ProjectDirs::from("", "", "tunesmith").ok_or(SetupError::HomeMissing)?;
        let downloads = system.cache_dir().to_path_buf();
        let (data, config, cache) = match variable(env_vars::HOME) {
            Some(home) => {
                let home = absolute(home);
                (home.join("data"), home.join("config"), home.join("cache"))
            }
            None => (
                system.data_dir().to_path_buf(),
                system.config_dir().to_path_buf(),
                downloads.clone(),
            ),
        };
        let runtime = match variable(env_vars::RUNTIME) {
            Some(folder) => absolute(folder),
            None => downloads
                .join("runtime")
                .join(format!("torch-{}-cpu", crate::runtime::TORCH_VERSION)),
        };
        Ok(Self {
            data,
            config,
            cache,
            downloads,
            runtime,
        })
    }

    /// The same folders with everything, downloads included, under `root`: for tests of set-up itself.
    #[must_use]
    pub fn all_under(root: &Path) -> Self {
        Self {
            data: root.join("data"),
            config: root.join("config"),
            cache: root.join("cache"),
            downloads: root.join("downloads"),
            runtime: root.join("downloads/runtime/torch"),
        }
    }

    /// The same folders with the runtime elsewhere.
    #[must_use]
    pub fn with_runtime(mut self, runtime: PathBuf) -> Self {
        self.runtime = runtime;
        self
    }

    /// What the user made: runs, adapters, reports.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The folder of all runs.
    pub fn runs(&self) -> PathBuf {
        self.data.join("runs")
    }

    /// What the user chose.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// What can be made again from data, cheaply enough to be deleted at any time.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// `<user cache>/tunesmith`, wherever [`env_vars::HOME`] points: large downloads, shared by all homes.
    pub fn downloads(&self) -> &Path {
        &self.downloads
    }

    /// The private torch runtime: a folder that holds `torch/`, like a `site-packages`.
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// The folder of downloaded models.
    pub fn models(&self) -> PathBuf {
        self.downloads.join("models")
    }

    /// The private uv, if set-up had to install one.
    pub fn private_uv(&self) -> PathBuf {
        self.downloads.join("tools").join("uv")
    }

    /// uv's own cache: on one file system with the runtime, so that uv links instead of copying.
    pub fn uv_cache(&self) -> PathBuf {
        self.downloads.join("uv-cache")
    }

    /// The Python environments that reference figures are computed in.
    pub fn references(&self) -> PathBuf {
        self.downloads.join("reference")
    }

    /// The environments of the engines, one folder each: beside the runtime, for the same reasons.
    pub fn environments(&self) -> PathBuf {
        self.downloads.join("environments")
    }

    /// Which environment each engine uses.
    pub(crate) fn environments_in_use(&self) -> PathBuf {
        self.config.join("environments.json")
    }

    /// Held by the one set-up that may write into the downloads.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.downloads.join("setup.lock")
    }
}

fn absolute(path: OsString) -> PathBuf {
    let path = PathBuf::from(path);
    std::path::absolute(&path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_moves_data_but_not_the_downloads() {
        let plain = Folders::from_variables(|_| None).unwrap();
        let moved =
            Folders::from_variables(|name| (name == env_vars::HOME).then(|| "/elsewhere".into())).unwrap();
        assert_eq!(moved.data(), Path::new("/elsewhere/data"));
        assert_eq!(moved.runs(), Path::new("/elsewhere/data/runs"));
        assert_eq!(moved.cache(), Path::new("/elsewhere/cache"));
        assert_eq!(moved.runtime(), plain.runtime());
        assert_eq!(moved.models(), plain.models());
        assert!(plain.runtime().ends_with("tunesmith/runtime/torch-2.11.0-cpu"));
    }

    #[test]
    fn the_runtime_variable_names_the_folder_itself() {
        let folders =
            Folders::from_variables(|name| (name == env_vars::RUNTIME).then(|| "/big/torch".into())).unwrap();
        assert_eq!(folders.runtime(), Path::new("/big/torch"));
    }
}
