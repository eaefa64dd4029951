//! A home of its own with a real uv, and the plans that the tests carry out.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tunesmith_setup::environments::{
    Engine, Environment, Expectations, GpuBuild, InstallSpec, InstallStep, PackageNeed, PythonRange,
    PythonVersion, TritonNeed, active,
};
use tunesmith_setup::{Folders, Python, Ready, Report, Setup, SetupError, find_python};

use crate::index::Index;
use crate::wheel::Wheel;

/// What the guard of the real program does, as a shell script: it ends its group when its input closes.
const GUARD: &str = r#"exec 3<&0
"$@" </dev/null &
child=$!
(cat <&3 >/dev/null; kill -9 0) &
wait $child"#;

pub(crate) struct Machine {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) index: Index,
    pub(crate) setup: Setup,
    pub(crate) uv: PathBuf,
    pub(crate) python: Python,
    pub(crate) reports: Vec<Report>,
}

impl Machine {
    /// None, with a note, where there is no uv or no Python.
    pub(crate) fn new() -> Option<Self> {
        let real = Folders::from_env().ok().map(Setup::new)?.find_uv();
        let (Some(real), Ok(python)) = (real, find_python(None)) else {
            println!("skipped: this test needs uv and Python");
            return None;
        };
        let temp = tempfile::tempdir().unwrap();
        let uv = temp.path().join("uv");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] || echo \"$*\" >> '{}'\nexport UV_HTTP_RETRIES=0 NO_PROXY=127.0.0.1\n\
             exec '{}' \"$@\"\n",
            temp.path().join("calls").display(),
            real.display()
        );
        fs::write(&uv, script).unwrap();
        fs::set_permissions(&uv, fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self {
            setup: setup_in(temp.path()),
            temp,
            index: Index::start(),
            uv,
            python,
            reports: Vec::new(),
        })
    }

    pub(crate) fn apply(&mut self, spec: &InstallSpec) -> Result<Ready<Environment>, SetupError> {
        let reports = &mut self.reports;
        self.setup
            .apply(&self.uv, spec, &mut |report| reports.push(report.clone()))
    }

    /// The commands that were reported so far.
    pub(crate) fn told(&self) -> Vec<String> {
        self.reports
            .iter()
            .filter_map(|report| match report {
                Report::Command(told) => Some(told.command.clone()),
                _ => None,
            })
            .collect()
    }

    /// The arguments of every start of uv.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.temp.path().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn active(&self, engine: Engine) -> Option<Environment> {
        active(&self.setup.folders, engine).unwrap()
    }

    /// The folders of environments, half-made ones too.
    pub(crate) fn folders(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.setup.folders.environments())
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn range(&self) -> PythonRange {
        let minor = self.python.minor;
        PythonRange {
            preferred: PythonVersion { minor },
            minimum: PythonVersion { minor: 10 },
            maximum: PythonVersion { minor: minor.max(14) },
        }
    }

    pub(crate) fn step(&self, index: &str, requirements: &[&str]) -> InstallStep {
        InstallStep {
            title: format!("packages from {index}"),
            why: "a test asks for them".to_owned(),
            index_url: Some(self.index.url(index)),
            requirements: owned(requirements),
            download_bytes: Some(10_000),
            disk_bytes: Some(20_000),
            ..InstallStep::default()
        }
    }

    pub(crate) fn spec(&self, engine: Engine, name: &str, steps: Vec<InstallStep>) -> InstallSpec {
        InstallSpec {
            name: name.to_owned(),
            engine,
            package_set: "test".to_owned(),
            python: self.range(),
            steps,
            verify: Expectations::default(),
        }
    }

    /// The smallest environment with a Python: one package of the general index.
    pub(crate) fn small(&self, name: &str, requirement: &str) -> InstallSpec {
        self.spec(Engine::Hf, name, vec![self.step("general", &[requirement])])
    }

    /// An index as PyTorch's own for ROCm, one as the general one with everything that must not be taken from it.
    pub(crate) fn add_rocm(&self) {
        let minor = self.python.minor;
        let hip = "cuda = None\nhip = '7.2.53211'";
        let kernels = "torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat";
        for wheel in [
            Wheel::torch("2.11.0+rocm7.2", hip)
                .file(kernels, "")
                .binary(minor)
                .requires("triton-rocm==3.6.0"),
            Wheel::torch("2.12.0+rocm7.2", hip).binary(minor),
            Wheel::new("torchvision", "0.26.0+rocm7.2")
                .binary(minor)
                .requires("torch==2.11.0"),
            Wheel::triton("triton-rocm", "3.6.0", "amd").binary(minor),
            Wheel::triton("pytorch-triton-rocm", "3.5.1", "amd").binary(minor),
        ] {
            self.index.add("rocm", wheel);
        }
        let cuda = "cuda = '13.0'\nhip = None";
        for wheel in [
            Wheel::torch("2.11.0", cuda)
                .binary(minor)
                .requires("triton==3.6.0"),
            Wheel::torch("2.15.0", cuda)
                .binary(minor)
                .requires("triton==3.7.0"),
            Wheel::new("torchvision", "0.30.0")
                .binary(minor)
                .requires("torch==2.15.0"),
            Wheel::triton("triton", "3.6.0", "nvidia").binary(minor),
            Wheel::triton("triton", "3.7.0", "nvidia").binary(minor),
            Wheel::new("triton-rocm", "9.0.0"),
            Wheel::new("pytorch-triton-rocm", "9.0.0"),
            Wheel::new("xformers", "0.0.35").requires("torch>=2.4"),
            Wheel::new("bitsandbytes", "0.50.2").requires("torch>=2.3,<3"),
            Wheel::new("transformers", "5.17.0"),
            Wheel::new("transformers", "5.24.0"),
            Wheel::new("unsloth", "2026.10.9")
                .requires("torch>=2.4,<2.15")
                .requires("torchvision")
                .requires("triton>=3.0.0 ; sys_platform == 'linux'")
                .requires("xformers>=0.0.27.post2")
                .requires("transformers<=5.17.0")
                .extra("amd", "bitsandbytes>=0.50.0"),
        ] {
            self.index.add("general", wheel);
        }
    }

    /// Unsloth on ROCm: torch from its own index first, then the rest with torch and Triton kept.
    pub(crate) fn unsloth_on_rocm(&self) -> InstallSpec {
        let torch = self.step(
            "rocm",
            &[
                "torch==2.11.0+rocm7.2",
                "torchvision==0.26.0+rocm7.2",
                "triton-rocm==3.6.0",
            ],
        );
        let mut rest = self.step("general", &["unsloth[amd]==2026.10.9"]);
        rest.overrides = owned(&[
            "torch==2.11.0+rocm7.2",
            "torchvision==0.26.0+rocm7.2",
            "triton; sys_platform == 'never'",
            "xformers; sys_platform == 'never'",
        ]);
        let mut spec = self.spec(Engine::Unsloth, "unsloth-2026-11-rocm7.2", vec![torch, rest]);
        spec.verify = Expectations {
            torch_version: Some("2.11.0".to_owned()),
            torch_local: Some("rocm7.2".to_owned()),
            torch_build: Some(GpuBuild::Hip),
            triton: TritonNeed::Backend("amd".to_owned()),
            kernels_for_gfx: Some("gfx1100".to_owned()),
            packages: vec![
                need("unsloth", "==2026.10.9"),
                need("bitsandbytes", ">=0.50.2"),
                need("torchvision", "==0.26.0+rocm7.2"),
                need("transformers", "<=5.17.0"),
            ],
            absent: owned(&["xformers", "triton"]),
        };
        spec
    }

    /// The native engine on ROCm: torch alone, in a plain folder.
    pub(crate) fn native_on_rocm(&self) -> InstallSpec {
        let mut torch = self.step("rocm", &["torch==2.11.0+rocm7.2"]);
        torch.no_deps = true;
        let mut spec = self.spec(Engine::Native, "native-torch-2.11.0-rocm7.2", vec![torch]);
        spec.verify = Expectations {
            torch_local: Some("rocm7.2".to_owned()),
            torch_build: Some(GpuBuild::Hip),
            triton: TritonNeed::Absent,
            kernels_for_gfx: Some("gfx1100".to_owned()),
            ..Expectations::default()
        };
        spec
    }
}

/// A set-up as the program has it, with everything below `root`.
pub(crate) fn setup_in(root: &Path) -> Setup {
    let mut setup = Setup::new(Folders::all_under(root));
    setup.guard = Some(["sh", "-c", GUARD, "sh"].map(OsString::from).to_vec());
    setup
}

pub(crate) fn need(name: &str, versions: &str) -> PackageNeed {
    PackageNeed {
        name: name.to_owned(),
        versions: versions.to_owned(),
    }
}

pub(crate) fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// `torch 2.11.0+rocm7.2`, one for each package.
pub(crate) fn packages(environment: &Environment) -> Vec<String> {
    tunesmith_setup::environments::packages(&environment.site)
        .into_iter()
        .map(|package| format!("{} {}", package.name, package.version))
        .collect()
}
