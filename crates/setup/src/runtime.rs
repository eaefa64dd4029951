//! The private torch runtime: libraries and headers of torch's own wheel, without Python packages around it.
//!
//! On Linux the wheel of the package index is the CUDA build; without a GPU it needs, beyond itself, only the two
//! small wheels whose libraries `libtorch_cpu.so` names. That saves the 2.4 GB of GPU libraries that a plain
//! install would bring.

use std::fs;
use std::path::{Path, PathBuf};

use crate::engine_env::read_version;
use crate::error::SetupError;
use crate::folders::Folders;
use crate::install::{Installation, Ready, STAMP, Setup, Task, Work, write_stamp};
use crate::progress::{Report, Stage};
use crate::python::find_python;
use crate::uv::install_command;

/// The one version of torch that the engine's bindings are made for.
pub const TORCH_VERSION: &str = "2.11.0";

const CUPTI: &str = "nvidia-cuda-cupti==13.0.85";
const CUDA_RUNTIME: &str = "nvidia-cuda-runtime==13.0.96";

/// Measured with the Linux x86-64 wheels, as uv announces them and as they lie unpacked.
const DOWNLOAD_BYTES: u64 = 518 << 20;
const DISK_BYTES: u64 = 1_222_262_784;

/// Twice the unpacked size, where uv has to copy instead of link, and some room.
const NEEDED_BYTES: u64 = 2_791_728_742;

/// Bytes over the network where the runtime is not there, and bytes that it then takes on disk.
pub const fn sizes() -> (u64, u64) {
    (DOWNLOAD_BYTES, DISK_BYTES)
}

/// Whether the runtime in `folder` is complete, judged by what the engine needs from it.
pub fn is_complete(folder: &Path) -> bool {
    read_version(folder).is_ok_and(|version| version.release() == TORCH_VERSION)
        && library(folder, "torch_cpu").is_file()
        && (!cfg!(target_os = "linux") || folder.join("nvidia/cu13/lib").is_dir())
}

/// The runtime's folder, if it is complete.
pub fn installed(folders: &Folders) -> Option<PathBuf> {
    let folder = folders.runtime();
    is_complete(folder).then(|| folder.to_path_buf())
}

fn library(folder: &Path, name: &str) -> PathBuf {
    let file = format!(
        "{}{name}{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    folder.join("torch/lib").join(file)
}

fn packages() -> Vec<String> {
    let mut packages = vec![format!("torch=={TORCH_VERSION}")];
    if cfg!(target_os = "linux") {
        packages.extend([CUPTI.to_owned(), CUDA_RUNTIME.to_owned()]);
    }
    packages
}

impl Setup {
    /// Makes sure that the private torch runtime is there, with the help of `uv`. Ready's path is the folder that
    /// holds `torch/`.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn ensure_runtime(
        &self,
        uv: &Path,
        report: &mut dyn FnMut(&Report),
    ) -> Result<Ready<PathBuf>, SetupError> {
        let folder = self.folders.runtime();
        let packages = packages();
        let stamp = serde_json::json!({ "torch": TORCH_VERSION, "packages": packages });
        if is_complete(folder) {
            // Made by hand, or by a version without stamps: taken over as it is.
            if !folder.join(STAMP).exists() && is_writable(folder) {
                write_stamp(folder, &stamp)?;
            }
            return Ok(Ready::present(folder.to_path_buf()));
        }
        let python = find_python(self.python.as_deref())?;
        self.install(
            &Installation {
                stage: Stage::Runtime,
                what: packages.join(", "),
                licence: "BSD-3-Clause; NVIDIA's CUDA licence for the two small libraries",
                download_bytes: Some(DOWNLOAD_BYTES),
                disk_bytes: Some(DISK_BYTES),
                needed_bytes: Some(NEEDED_BYTES),
                target: folder.to_path_buf(),
                replaceable: folder.starts_with(self.folders.downloads()),
            },
            &Work {
                complete: &|| is_complete(folder),
                tasks: &|partial| {
                    vec![Task::plain(install_command(
                        uv,
                        &self.folders,
                        &python,
                        partial,
                        &packages,
                    ))]
                },
                verify: &|partial| {
                    if is_complete(partial) {
                        Ok(())
                    } else {
                        Err(SetupError::Damaged {
                            stage: Stage::Runtime,
                            detail: format!("torch {TORCH_VERSION} or one of its libraries is missing"),
                        })
                    }
                },
                stamp: &|_, _| stamp.clone(),
            },
            report,
        )
    }
}

/// A runtime that someone shares read-only is as good as one's own.
fn is_writable(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|meta| !meta.permissions().readonly())
}
