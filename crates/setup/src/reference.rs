//! The Python environment that reference figures are computed in (transformers and PEFT on full torch). Only the
//! parity command needs it; training never does.

use std::path::{Path, PathBuf};

use crate::error::SetupError;
use crate::hash::{hex, sha256_of};
use crate::install::{Installation, Ready, STAMP, Setup, Task, Work};
use crate::progress::{Report, Stage};
use crate::python::{find_python, python_in};
use crate::uv;

/// On Linux, torch with all its GPU libraries: its Python side does not load without them.
const DOWNLOAD_BYTES: u64 = 2_600 << 20;
const DISK_BYTES: u64 = 4_817 << 20;

impl Setup {
    /// Makes sure that there is a Python environment with the packages that the file `requirements` names.
    /// Ready's path is its Python.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn ensure_reference(
        &self,
        uv: &Path,
        requirements: &Path,
        report: &mut dyn FnMut(&Report),
    ) -> Result<Ready<PathBuf>, SetupError> {
        let mut hash = hex(&sha256_of(requirements).map_err(SetupError::io("read", requirements))?);
        hash.truncate(8);
        // Other requirements are another environment: an old one never answers for a new pin.
        let target = self.folders.references().join(&hash);
        let complete = || target.join(STAMP).exists() && python_in(&target).exists();
        if complete() {
            return Ok(Ready::present(python_in(&target)));
        }
        let python = find_python(self.python.as_deref())?;
        let ready = self.install(
            &Installation {
                stage: Stage::Reference,
                what: format!("the packages of {}", requirements.display()),
                licence: "BSD-3-Clause and Apache-2.0; NVIDIA's licences for the CUDA libraries",
                download_bytes: Some(DOWNLOAD_BYTES),
                disk_bytes: Some(DISK_BYTES),
                needed_bytes: Some(DISK_BYTES + DISK_BYTES / 2),
                target: target.clone(),
                replaceable: true,
            },
            &Work {
                complete: &complete,
                tasks: &|partial| {
                    let venv = uv::venv_command(uv, &self.folders, &python, partial);
                    let mut install = uv::command(uv, &self.folders);
                    install
                        .args(["pip", "install", "--python"])
                        .arg(python_in(partial))
                        .arg("--requirements")
                        .arg(requirements);
                    vec![Task::plain(venv), Task::plain(install)]
                },
                verify: &|partial| {
                    if python_in(partial).exists() {
                        Ok(())
                    } else {
                        Err(SetupError::Damaged {
                            stage: Stage::Reference,
                            detail: "the environment has no Python".to_owned(),
                        })
                    }
                },
                stamp: &|_, _| serde_json::json!({ "requirements": hash }),
            },
            report,
        )?;
        Ok(ready.map(|folder| python_in(&folder)))
    }
}
