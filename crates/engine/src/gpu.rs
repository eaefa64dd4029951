//! Opens the GPU part of the user's torch wheel before the first call into torch.
//!
//! The engine links libtorch_cpu and c10 alone. Which GPU library there is shows only on the user's machine: it is
//! opened here with its symbols global. Opened later, torch never sees it.

use std::path::{Path, PathBuf};

use tch::Device;

use crate::error::JobError;

/// Names that AMD's thin wheels (ROCm 7.13 and later) want opened first, in this order; torch vendors none of
/// them there. Source: the wheels' own start-up module, `docs/decisions`.
const ROCM_PRELOAD: &[&str] = &[
    "amd_comgr",
    "amd_smi",
    "amdhip64",
    "hiprtc",
    "hipblas",
    "hipfft",
    "hiprand",
    "hipsparse",
    "hipsparselt",
    "hipsolver",
    "hipblaslt",
    "MIOpen",
    "hipdnn",
    "lzma",
    "openblas",
    "rocm_smi64",
    "rocprofiler-sdk",
    "rocprofiler-sdk-roctx",
    "roctracer64",
    "roctx64",
    "rccl",
    "hipfile",
];

/// What was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Cpu,
    Cuda,
    Hip,
}

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Hip => "hip",
        }
    }
}

/// The libraries to open for the wheel under `site`, in order; empty for a CPU wheel.
pub(crate) fn libraries(site: &Path) -> (Backend, Vec<PathBuf>) {
    let torch = site.join("torch/lib");
    let hip = torch.join("libtorch_hip.so");
    if hip.exists() {
        let mut list = rocm_preload(site);
        list.push(torch.join("libc10_hip.so"));
        list.push(hip);
        return (Backend::Hip, list);
    }
    let cuda = torch.join("libtorch_cuda.so");
    if cuda.exists() {
        return (Backend::Cuda, vec![cuda]);
    }
    (Backend::Cpu, vec![])
}

fn rocm_preload(site: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(site)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("_rocm_sdk_"))
        .map(|entry| entry.path().join("lib"))
        .collect();
    folders.sort();
    ROCM_PRELOAD
        .iter()
        .filter_map(|name| folders.iter().find_map(|folder| newest_library(folder, name)))
        .collect()
}

/// `lib<name>.so`, or the file `lib<name>.so.<version>` where a wheel has no plain link.
fn newest_library(folder: &Path, name: &str) -> Option<PathBuf> {
    let plain = folder.join(format!("lib{name}.so"));
    if plain.exists() {
        return Some(plain);
    }
    let prefix = format!("lib{name}.so.");
    let mut versions: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|file| file.to_string_lossy().starts_with(&prefix))
        })
        .collect();
    versions.sort();
    versions.pop()
}

/// Opens the GPU library of the wheel under `site`, and says why where it does not open. A wheel whose GPU part
/// does not open still trains on the CPU, so that is no error until a GPU is asked for.
pub(crate) fn open(site: Option<&Path>) -> (Backend, Option<String>) {
    let Some(site) = site else {
        return (Backend::Cpu, None);
    };
    let (backend, list) = libraries(site);
    for path in list {
        if let Err(error) = open_global(&path) {
            let cause =
                std::error::Error::source(&error).map_or_else(String::new, |cause| format!(" ({cause})"));
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            return (
                Backend::Cpu,
                Some(format!("{name} of this torch did not open: {error}{cause}")),
            );
        }
    }
    (backend, None)
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn open_global(path: &Path) -> Result<(), libloading::Error> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};
    // SAFETY: opening a library runs its initialisers; these are the torch wheel that the user chose to run.
    let library = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_GLOBAL) }?;
    // Kept open for the life of the process: torch registers its kernels from it.
    std::mem::forget(library);
    Ok(())
}

#[cfg(not(unix))]
#[allow(unsafe_code)]
fn open_global(path: &Path) -> Result<(), libloading::Error> {
    // SAFETY: as on Unix. Not yet compiled on Windows.
    let library = unsafe { libloading::Library::new(path) }?;
    std::mem::forget(library);
    Ok(())
}

/// The device that a job names.
///
/// # Errors
/// [`JobError::Device`] when there is no such device: a job never falls back to the CPU in silence.
pub(crate) fn device(name: &str, backend: Backend, not_opened: Option<&str>) -> Result<Device, JobError> {
    if name == "cpu" {
        return Ok(Device::Cpu);
    }
    let index: usize = name
        .strip_prefix("cuda:")
        .and_then(|index| index.parse().ok())
        .ok_or_else(|| {
            JobError::Device(format!(
                "`{name}` is no device; devices are `cpu`, `cuda:0`, `cuda:1` …"
            ))
        })?;
    if backend == Backend::Cpu {
        let why = not_opened.unwrap_or("this torch is a build for the CPU alone");
        return Err(JobError::Device(format!(
            "`{name}` was asked for, but there is no GPU to use: {why}"
        )));
    }
    let count = tch::Cuda::device_count();
    if i64::try_from(index).is_ok_and(|index| index < count) {
        Ok(Device::Cuda(index))
    } else {
        Err(JobError::Device(format!(
            "`{name}` was asked for, but torch sees {count} GPU(s)"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn a_thin_rocm_wheel_opens_its_libraries_first_and_in_order() {
        let site = tempfile::tempdir().unwrap();
        let site = site.path();
        touch(&site.join("torch/lib/libtorch_hip.so"));
        touch(&site.join("torch/lib/libc10_hip.so"));
        touch(&site.join("_rocm_sdk_libraries_gfx1151/lib/libhipblas.so.3"));
        touch(&site.join("_rocm_sdk_core/lib/libamdhip64.so.7"));
        touch(&site.join("_rocm_sdk_core/lib/libamd_comgr.so"));
        let (backend, list) = libraries(site);
        assert_eq!(backend, Backend::Hip);
        let names: Vec<_> = list
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "libamd_comgr.so",
                "libamdhip64.so.7",
                "libhipblas.so.3",
                "libc10_hip.so",
                "libtorch_hip.so"
            ]
        );
    }

    #[test]
    fn a_cpu_wheel_opens_nothing() {
        let site = tempfile::tempdir().unwrap();
        touch(&site.path().join("torch/lib/libtorch_cpu.so"));
        assert_eq!(libraries(site.path()), (Backend::Cpu, vec![]));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_error_and_no_fallback() {
        for name in ["cuda:0", "cuda", "gpu", ""] {
            assert!(
                matches!(device(name, Backend::Cpu, None), Err(JobError::Device(_))),
                "{name}"
            );
        }
        assert_eq!(device("cpu", Backend::Cpu, None).unwrap(), Device::Cpu);
    }
}
