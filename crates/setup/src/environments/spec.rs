//! What an environment shall hold and how it is installed: the plan writes it, set-up carries it out, the stamp
//! in the finished folder keeps it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which engine an environment serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Tunesmith's own engine: torch's libraries, no Python at run time.
    Native,
    /// transformers and PEFT.
    Hf,
    /// Unsloth.
    Unsloth,
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 3] = [Engine::Native, Engine::Hf, Engine::Unsloth];

    /// As it stands in names of environments and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Native => "native",
            Engine::Hf => "hf",
            Engine::Unsloth => "unsloth",
        }
    }

    /// What the environment of this engine is on disk.
    pub fn layout(self) -> Layout {
        match self {
            Engine::Native => Layout::Site,
            Engine::Hf | Engine::Unsloth => Layout::Venv,
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How packages lie in an environment's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The folder itself is like a `site-packages`: it holds `torch/`.
    Site,
    /// A virtual environment with a Python of its own.
    Venv,
}

/// A version of Python 3, written `3.12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PythonVersion {
    /// The 12 of 3.12.
    pub minor: u32,
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "3.{}", self.minor)
    }
}

impl FromStr for PythonVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix("3.")
            .and_then(|minor| minor.parse().ok())
            .map(|minor| Self { minor })
            .ok_or_else(|| format!("`{text}` is not a version of Python 3 such as `3.12`"))
    }
}

impl TryFrom<String> for PythonVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PythonVersion> for String {
    fn from(version: PythonVersion) -> Self {
        version.to_string()
    }
}

/// The versions of Python that every package of a set has wheels for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonRange {
    /// Taken where it is installed.
    pub preferred: PythonVersion,
    /// The oldest that does.
    pub minimum: PythonVersion,
    /// The newest that does.
    pub maximum: PythonVersion,
}

impl PythonRange {
    /// Whether this minor version lies in the range.
    pub fn contains(self, minor: u32) -> bool {
        (self.minimum.minor..=self.maximum.minor).contains(&minor)
    }
}

/// One environment: what is installed, in which order and from where, and what must be true afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallSpec {
    /// Engine and package set, for example `native-torch-2.11.0-rocm7.2` or `hf-2026-11`; also the folder's name.
    pub name: String,
    /// Which engine it serves.
    pub engine: Engine,
    /// The id of the package set.
    pub package_set: String,
    /// Which Python.
    pub python: PythonRange,
    /// Done one after the other, in one environment.
    pub steps: Vec<InstallStep>,
    /// Checked before the environment gets its name.
    #[serde(default)]
    pub verify: Expectations,
}

/// One `uv pip install`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallStep {
    /// What is installed, in a few words.
    pub title: String,
    /// Why it is a step of its own, or comes from this index.
    pub why: String,
    /// Asked instead of the general package index; none is the general one (or the user's mirror of it).
    #[serde(default)]
    pub index_url: Option<String>,
    /// Asked before it, in this order. The first index that knows a name answers for it alone, so a higher version
    /// elsewhere never wins.
    #[serde(default)]
    pub extra_indexes: Vec<String>,
    /// What is asked for, as `torch==2.11.0+rocm7.2`.
    pub requirements: Vec<String>,
    /// Replace what any package asks for: `torch==2.11.0+rocm7.2` keeps torch, `xformers; sys_platform == "never"`
    /// leaves a package out.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// Install what is named and nothing that it asks for.
    #[serde(default)]
    pub no_deps: bool,
    /// Bytes over the network where nothing is cached; none where nobody has measured them.
    #[serde(default)]
    pub download_bytes: Option<u64>,
    /// Bytes on disk afterwards; none where nobody has measured them.
    #[serde(default)]
    pub disk_bytes: Option<u64>,
}

/// What must be true of a finished environment. It is read from files: no Python runs, and no card is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// torch's version without the local part, for example `2.11.0`.
    #[serde(default)]
    pub torch_version: Option<String>,
    /// How the local part begins: `rocm7.2` is met by `rocm7.2` and `rocm7.2.1`, not by `rocm7.20`; also `cu126`,
    /// `cpu`.
    #[serde(default)]
    pub torch_local: Option<String>,
    /// What `torch/version.py` says that torch was built for.
    #[serde(default)]
    pub torch_build: Option<GpuBuild>,
    /// Which Triton.
    #[serde(default)]
    pub triton: TritonNeed,
    /// rocBLAS must have kernel files for this target, for example `gfx1100`: without them the first matrix product
    /// ends the process.
    #[serde(default)]
    pub kernels_for_gfx: Option<String>,
    /// Packages and their versions.
    #[serde(default)]
    pub packages: Vec<PackageNeed>,
    /// Packages that must not be there.
    #[serde(default)]
    pub absent: Vec<String>,
}

/// What a torch was built for, without the version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuBuild {
    /// No GPU.
    Cpu,
    /// NVIDIA's CUDA.
    Cuda,
    /// AMD's HIP.
    Hip,
}

/// Which Triton must be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TritonNeed {
    /// Any or none.
    #[default]
    Any,
    /// None.
    Absent,
    /// One package of it, untouched by another one, with this back end: `amd` or `nvidia`, the name of a folder in
    /// `triton/backends`. The general index's Triton has both folders and works on NVIDIA alone, so for AMD the
    /// package must be named too, in [`Expectations::packages`].
    Backend(String),
}

/// A package that must be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageNeed {
    /// Its name, in any spelling: `Flash_Attn` is `flash-attn`.
    pub name: String,
    /// Its versions, as requirements write them: `==0.26.0`, `>=0.50.2,<1`. Empty means any.
    #[serde(default)]
    pub versions: String,
}

impl InstallSpec {
    /// Bytes over the network if nothing is cached; none where a step's are not known.
    pub fn download_bytes(&self) -> Option<u64> {
        total(self.steps.iter().map(|step| step.download_bytes))
    }

    /// Bytes on disk afterwards; none where a step's are not known.
    pub fn disk_bytes(&self) -> Option<u64> {
        total(self.steps.iter().map(|step| step.disk_bytes))
    }

    /// What does not fit in the spec itself; empty if it can be carried out.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !is_environment_name(&self.name) {
            faults.push(format!(
                "the name {:?} is not one of letters, digits, `.`, `_`, `+` and `-`",
                self.name
            ));
        }
        let PythonRange {
            preferred,
            minimum,
            maximum,
        } = self.python;
        if !self.python.contains(preferred.minor) {
            faults.push(format!(
                "Python {preferred} is preferred, and it is not between {minimum} and {maximum}"
            ));
        }
        // Each version between them is looked for.
        if maximum.minor > 99 {
            faults.push(format!("there is no Python {maximum}"));
        }
        if self.steps.is_empty() {
            faults.push("it has no steps".to_owned());
        }
        for step in &self.steps {
            if step.requirements.is_empty() {
                faults.push(format!("the step \"{}\" names no package", step.title));
            }
            for word in step.requirements.iter().chain(&step.overrides) {
                // uv would read it as an option, or as more than one line of its file.
                if word.trim_start().starts_with('-') || word.chars().any(char::is_control) {
                    faults.push(format!("{word:?} in \"{}\" is not a package", step.title));
                }
            }
            for index in step.index_url.iter().chain(&step.extra_indexes) {
                if !(index.starts_with("https://") || index.starts_with("http://")) {
                    faults.push(format!(
                        "{index:?} in \"{}\" is not the address of an index",
                        step.title
                    ));
                }
            }
        }
        for need in &self.verify.packages {
            if super::versions::parse_need(&need.versions).is_none() {
                faults.push(format!("{:?} of {} are not versions", need.versions, need.name));
            }
        }
        faults
    }
}

/// The sum; none where one of them is not known.
fn total(mut sizes: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    sizes.try_fold(0u64, |sum, size| Some(sum.saturating_add(size?)))
}

/// Whether a text can be an environment's name: one plain folder name, the same on every system.
pub fn is_environment_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.len() <= 100
        && !name.ends_with('.')
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "._+-".contains(letter))
        && Path::new(name)
            .extension()
            .is_none_or(|end| !RESERVED.contains(&end.to_string_lossy().as_ref()))
}

/// The ends of the folders' names that set-up itself works with.
pub(crate) const RESERVED: [&str; 3] = ["partial", "previous", "removed"];

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"{
        "name": "native-torch-2.11.0+rocm7.2",
        "engine": "native",
        "package_set": "native",
        "python": { "preferred": "3.12", "minimum": "3.10", "maximum": "3.14" },
        "steps": [
            {
                "title": "torch", "why": "the engine's library", "no_deps": true,
                "index_url": "https://index.example/rocm7.2", "requirements": ["torch==2.11.0+rocm7.2"],
                "download_bytes": 100, "disk_bytes": 300
            }
        ],
        "verify": {
            "torch_build": "hip", "triton": { "backend": "amd" },
            "packages": [{ "name": "torch", "versions": "==2.11.0" }]
        }
    }"#;

    fn spec() -> InstallSpec {
        serde_json::from_str(SPEC).unwrap()
    }

    #[test]
    fn a_spec_is_read_as_the_plan_writes_it() {
        let spec = spec();
        assert_eq!(spec.faults(), Vec::<String>::new());
        assert_eq!(spec.verify.triton, TritonNeed::Backend("amd".to_owned()));
        assert_eq!(spec.python.maximum.to_string(), "3.14");
        let again = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<InstallSpec>(&again).unwrap(), spec);
    }

    #[test]
    fn a_size_that_nobody_measured_leaves_the_sum_unknown() {
        let mut spec = spec();
        spec.steps.push(spec.steps[0].clone());
        assert_eq!(spec.disk_bytes(), Some(600));
        spec.steps[1].disk_bytes = None;
        assert_eq!(spec.disk_bytes(), None);
        assert_eq!(spec.download_bytes(), Some(200));
    }

    #[test]
    fn a_name_is_one_folder_on_every_system() {
        for name in ["hf-2026-11", "native-torch-2.11.0+rocm7.2", "a"] {
            assert!(is_environment_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "a\\b",
            "a b",
            "-a",
            "a.",
            "a.partial",
            "a.previous",
            "\u{e4}",
        ] {
            assert!(!is_environment_name(name), "{name}");
        }
    }

    #[test]
    fn what_would_become_an_option_of_the_installer_is_no_package() {
        let mut spec = spec();
        spec.steps[0].requirements = vec!["--editable".to_owned()];
        spec.steps[0].overrides = vec!["a\n--index-url=x".to_owned()];
        assert_eq!(spec.faults().len(), 2);
    }
}
