//! The Python environment that reference figures are computed in (transformers and PEFT on full torch). Only the
//! parity command needs it; training never does.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::SetupError;
use crate::install::{Installation, Ready, STAMP, Setup};
use crate::model::hex;
use crate::progress::{Report, Stage};
use crate::python::find_python;
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
        let text = fs::read(requirements).map_err(SetupError::io("read", requirements))?;
        let mut hash = hex(&Sha256::digest(&text));
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
                download_bytes: DOWNLOAD_BYTES,
                disk_bytes: DISK_BYTES,
                needed_bytes: DISK_BYTES + DISK_BYTES / 2,
                target: target.clone(),
                replaceable: true,
                stamp: serde_json::json!({ "requirements": hash }),
            },
            &complete,
            &mut |partial| {
                let mut venv = uv::command(uv, &self.folders);
                venv.args(["venv", "--relocatable", "--allow-existing", "--python"])
                    .arg(&python.program)
                    .arg(partial);
                let mut install = uv::command(uv, &self.folders);
                install
                    .args(["pip", "install", "--python"])
                    .arg(python_in(partial))
                    .arg("--requirements")
                    .arg(requirements);
                vec![venv, install]
            },
            &|partial| {
                if python_in(partial).exists() {
                    Ok(())
                } else {
                    Err(SetupError::Damaged {
                        stage: Stage::Reference,
                        detail: "the environment has no Python".to_owned(),
                    })
                }
            },
            report,
        )?;
        Ok(ready.map(|folder| python_in(&folder)))
    }
}

fn python_in(environment: &Path) -> PathBuf {
    environment.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    })
}
