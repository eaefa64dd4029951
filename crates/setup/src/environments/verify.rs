//! Whether an environment is what the plan expects. Everything is read from files, so that it can be asked where
//! neither Python nor the card is.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::site::{self, Kernels};
use super::spec::{Expectations, GpuBuild, TritonNeed};
use super::versions::{local_begins, meets, normal_name};
use crate::engine_env::{TorchBuild, read_version};

/// What a check of an environment says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// What is as expected, one sentence each.
    pub met: Vec<String>,
    /// What is not.
    pub unmet: Vec<String>,
    /// What the files do not tell.
    pub unknown: Vec<String>,
}

impl Verification {
    fn note(&mut self, met: bool, found: String, wanted: impl FnOnce() -> String) {
        if met {
            self.met.push(found);
        } else {
            self.unmet.push(format!("{found}, and {}", wanted()));
        }
    }
}

/// Compares the `site-packages` folder `site` with what is expected.
pub fn verify(site: &Path, expected: &Expectations) -> Verification {
    let mut result = Verification::default();
    verify_torch(site, expected, &mut result);
    verify_triton(site, &expected.triton, &mut result);
    if let Some(gfx) = &expected.kernels_for_gfx {
        match site::rocblas_kernels(site, gfx) {
            Kernels::Present => result.met.push(format!("rocBLAS has kernels for {gfx}")),
            Kernels::Missing => result.unmet.push(format!(
                "rocBLAS has no kernels for {gfx}, so the first matrix product would end the process"
            )),
            Kernels::Unknown => result.unknown.push(format!(
                "no folder with rocBLAS's kernels was found, so whether {gfx} has some is not known"
            )),
        }
    }
    verify_packages(site, expected, &mut result);
    result
}

fn verify_torch(site: &Path, expected: &Expectations, result: &mut Verification) {
    let Expectations {
        torch_version,
        torch_local,
        torch_build,
        ..
    } = expected;
    if torch_version.is_none() && torch_local.is_none() && torch_build.is_none() {
        return;
    }
    let torch = match read_version(site) {
        Ok(torch) => torch,
        Err(error) => {
            result.unmet.push(error.to_string());
            return;
        }
    };
    let found = format!("torch is {}", site::printable(torch.text()));
    if let Some(wanted) = torch_version {
        result.note(torch.release() == wanted, found.clone(), || {
            format!("{wanted} is wanted")
        });
    }
    if let Some(wanted) = torch_local {
        result.note(local_begins(torch.text(), wanted), found, || {
            format!("the build +{wanted} is wanted")
        });
    }
    if let Some(wanted) = *torch_build {
        let (build, name) = match torch.build() {
            TorchBuild::Cpu => (GpuBuild::Cpu, "torch was built without a GPU".to_owned()),
            TorchBuild::Cuda(version) => (
                GpuBuild::Cuda,
                format!("torch was built for CUDA {}", site::printable(version)),
            ),
            TorchBuild::Hip(version) => (
                GpuBuild::Hip,
                format!("torch was built for ROCm (HIP {})", site::printable(version)),
            ),
        };
        result.note(build == wanted, name, || {
            match wanted {
                GpuBuild::Cpu => "one without a GPU is wanted",
                GpuBuild::Cuda => "one for CUDA is wanted",
                GpuBuild::Hip => "one for ROCm is wanted",
            }
            .to_owned()
        });
    }
}

fn verify_triton(site: &Path, wanted: &TritonNeed, result: &mut Verification) {
    let owners = site::triton_owners(site);
    let names: Vec<_> = owners
        .iter()
        .map(|owner| format!("{} {}", owner.package.name, owner.package.version))
        .collect();
    let backends = site::triton_backends(site);
    match wanted {
        TritonNeed::Any => return,
        TritonNeed::Absent => {
            result.note(
                backends.is_none() && owners.is_empty(),
                if backends.is_none() {
                    "there is no Triton".to_owned()
                } else {
                    format!("there is a Triton ({})", names.join(", "))
                },
                || "none is wanted".to_owned(),
            );
            return;
        }
        TritonNeed::Backend(wanted) => {
            let found = match &backends {
                None => "there is no Triton".to_owned(),
                Some(backends) if backends.is_empty() => "Triton has no back end".to_owned(),
                Some(backends) => format!("Triton has the back ends {}", backends.join(", ")),
            };
            result.note(
                backends.is_some_and(|backends| backends.contains(wanted)),
                found,
                || format!("{wanted} is wanted"),
            );
        }
    }
    if owners.len() > 1 {
        result.unmet.push(format!(
            "two packages fill the folder `triton` ({}): the last one installed has overwritten the other",
            names.join(", ")
        ));
    } else if let Some(owner) = owners.iter().find(|owner| !owner.intact) {
        result.unmet.push(format!(
            "the compiled part of Triton is not the one that {} {} brought",
            owner.package.name, owner.package.version
        ));
    }
}

fn verify_packages(site: &Path, expected: &Expectations, result: &mut Verification) {
    let installed = site::packages(site);
    let find = |name: &str| {
        let name = normal_name(name);
        installed.iter().find(|package| package.name == name)
    };
    for need in &expected.packages {
        let Some(package) = find(&need.name) else {
            result.unmet.push(format!("{} is not there", need.name));
            continue;
        };
        let found = format!("{} is {}", package.name, package.version);
        match meets(&package.version, &need.versions) {
            Some(met) => result.note(met, found, || format!("{} is wanted", need.versions)),
            None => result.unknown.push(format!(
                "{found}, which cannot be compared with {}",
                need.versions
            )),
        }
    }
    for name in &expected.absent {
        if let Some(package) = find(name) {
            result.unmet.push(format!(
                "{} {} is there, and must not be",
                package.name, package.version
            ));
        } else {
            result.met.push(format!("{name} is not there"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::environments::PackageNeed;

    /// A `site-packages` folder as the ROCm build leaves it.
    struct Site(tempfile::TempDir);

    impl Site {
        fn rocm() -> Self {
            let site = Self(tempfile::tempdir().unwrap());
            site.write(
                "torch/version.py",
                "__version__ = '2.11.0+rocm7.2'\ncuda: Optional[str] = None\nhip: Optional[str] = '7.2.53211'\n",
            );
            site.write("torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat", "");
            site.write("triton/backends/amd/driver.py", "");
            site.write("triton/_C/libtriton.so", "rocm");
            site.package("torch", "2.11.0+rocm7.2", "");
            // The SHA-256 of "rocm" is not given: size is.
            site.package("triton-rocm", "3.6.0", "triton/_C/libtriton.so,,4\n");
            site
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn package(&self, name: &str, version: &str, record: &str) {
            let info = format!("{}-{version}.dist-info", name.replace('-', "_"));
            self.write(
                &format!("{info}/METADATA"),
                &format!("Name: {name}\nVersion: {version}\n\n"),
            );
            self.write(&format!("{info}/RECORD"), record);
        }

        fn unmet(&self, expected: &Expectations) -> Vec<String> {
            verify(self.0.path(), expected).unmet
        }
    }

    fn rocm() -> Expectations {
        Expectations {
            torch_version: Some("2.11.0".to_owned()),
            torch_local: Some("rocm7.2".to_owned()),
            torch_build: Some(GpuBuild::Hip),
            triton: TritonNeed::Backend("amd".to_owned()),
            kernels_for_gfx: Some("gfx1100".to_owned()),
            packages: vec![PackageNeed {
                name: "Triton_ROCm".to_owned(),
                versions: ">=3.6".to_owned(),
            }],
            absent: vec!["xformers".to_owned()],
        }
    }

    #[test]
    fn what_the_plan_expects_passes() {
        let result = verify(Site::rocm().0.path(), &rocm());
        assert_eq!(result.unmet, Vec::<String>::new());
        assert_eq!(result.unknown, Vec::<String>::new());
        assert_eq!(result.met.len(), 7);
    }

    #[test]
    fn another_build_of_torch_is_named() {
        let site = Site::rocm();
        site.write(
            "torch/version.py",
            "__version__ = '2.11.0+cpu'\ncuda: Optional[str] = None\n",
        );
        assert_eq!(
            site.unmet(&rocm()),
            [
                "torch is 2.11.0+cpu, and the build +rocm7.2 is wanted",
                "torch was built without a GPU, and one for ROCm is wanted"
            ]
        );
    }

    #[test]
    fn a_second_triton_is_found_although_both_have_the_back_end() {
        let site = Site::rocm();
        site.package("triton", "3.7.0", "triton/_C/libtriton.so,,4\n");
        let unmet = site.unmet(&rocm());
        assert_eq!(unmet.len(), 1);
        assert!(unmet[0].contains("triton 3.7.0, triton-rocm 3.6.0"), "{unmet:?}");
    }

    #[test]
    fn a_swapped_triton_is_found_although_its_package_is_gone() {
        let site = Site::rocm();
        site.write("triton/_C/libtriton.so", "another");
        assert_eq!(
            site.unmet(&rocm()),
            ["the compiled part of Triton is not the one that triton-rocm 3.6.0 brought"]
        );
    }

    #[test]
    fn a_triton_without_the_back_end_is_found() {
        let site = Site::rocm();
        fs::remove_dir_all(site.0.path().join("triton/backends")).unwrap();
        site.write("triton/backends/nvidia/driver.py", "");
        assert_eq!(
            site.unmet(&rocm()),
            ["Triton has the back ends nvidia, and amd is wanted"]
        );
    }

    #[test]
    fn kernels_of_another_target_do_not_count_and_none_at_all_are_unknown() {
        let site = Site::rocm();
        let mut expected = rocm();
        expected.kernels_for_gfx = Some("gfx1103".to_owned());
        assert!(site.unmet(&expected)[0].contains("no kernels for gfx1103"));
        fs::remove_dir_all(site.0.path().join("torch/lib")).unwrap();
        let result = verify(site.0.path(), &expected);
        assert_eq!(result.unmet, Vec::<String>::new());
        assert_eq!(result.unknown.len(), 1);
    }

    #[test]
    fn packages_are_compared_by_version_and_absence() {
        let site = Site::rocm();
        site.package("xformers", "0.0.35", "");
        let mut expected = rocm();
        expected.packages[0].versions = "<3.6".to_owned();
        expected.packages.push(PackageNeed {
            name: "peft".to_owned(),
            versions: String::new(),
        });
        assert_eq!(
            site.unmet(&expected),
            [
                "triton-rocm is 3.6.0, and <3.6 is wanted",
                "peft is not there",
                "xformers 0.0.35 is there, and must not be"
            ]
        );
    }
}
