//! The rows of `targets.toml`: torch builds, the cards that they fit, and builds that are known to be broken.

use pep440_rs::Version;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use tunesmith_probe::GpuVendor;
use tunesmith_protocol::DType;

use super::reading::{AsOf, KnowledgeError, KnowledgeFile, Text};
use crate::environments::PythonRange;

/// Whose code a torch carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// AMD's ROCm.
    Amd,
    /// NVIDIA's CUDA.
    Nvidia,
    /// None: the processor.
    Cpu,
}

impl From<GpuVendor> for Vendor {
    fn from(vendor: GpuVendor) -> Self {
        match vendor {
            GpuVendor::Amd => Self::Amd,
            GpuVendor::Nvidia => Self::Nvidia,
        }
    }
}

/// A kind of system that rows speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Os {
    /// Linux, on the machine itself or in a container.
    Linux,
    /// Linux under the Windows Subsystem for Linux.
    Wsl,
    /// Windows.
    Windows,
    /// macOS.
    Macos,
}

impl Os {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Wsl => "WSL",
            Self::Windows => "Windows",
            Self::Macos => "macOS",
        }
    }
}

/// One torch of one index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// By which routes and rules name it.
    pub id: String,
    /// Whose code it carries.
    pub vendor: Vendor,
    /// For people.
    pub title: Text,
    /// The index; none is the general package index.
    #[serde(default)]
    pub index: Option<String>,
    /// Exact version with its tag, e.g. `2.11.0+rocm7.2`.
    pub torch: String,
    /// Extra of the requirement, `{gfx}` standing for the card's target.
    #[serde(default)]
    pub extra: Option<String>,
    /// What engines in Python get beside it, as requirements; `{gfx}` as above.
    #[serde(default)]
    pub companions: Vec<String>,
    /// Name under which its Triton comes.
    #[serde(default)]
    pub triton: Option<String>,
    /// How `hip` in `torch/version.py` begins. It is not always the tag's number.
    #[serde(default)]
    pub hip: Option<String>,
    /// `cuda` in `torch/version.py`.
    #[serde(default)]
    pub cuda: Option<String>,
    /// The CUDA that the driver must be able to run at least.
    #[serde(default)]
    pub driver_cuda: Option<String>,
    /// The versions of Python that it has wheels for.
    pub python: PythonRange,
    /// Where it has wheels.
    pub systems: Vec<Os>,
    /// Bytes over the network with everything that torch asks for; none where nobody has read them.
    #[serde(default)]
    pub download_bytes: Option<u64>,
    /// How that figure came about.
    pub download_note: Text,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// How that figure came about.
    pub disk_note: Text,
    /// Whether the native engine can use it.
    pub native_engine: bool,
    /// Why not.
    #[serde(default)]
    pub native_reason: Option<Text>,
    /// For the native engine torch is installed without what it asks for: its libraries are whole.
    #[serde(default)]
    pub native_no_deps: bool,
    /// What the native engine gets beside it.
    #[serde(default)]
    pub native_companions: Vec<String>,
    /// Whether the engines in Python can use it.
    #[serde(default = "yes")]
    pub python_engines: bool,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: Text,
}

fn yes() -> bool {
    true
}

impl Build {
    /// torch's version without its tag.
    pub fn release(&self) -> &str {
        self.torch.split('+').next().unwrap_or_default()
    }

    /// The tag, e.g. `rocm7.2`.
    pub fn tag(&self) -> Option<&str> {
        self.torch.split_once('+').map(|(_, tag)| tag)
    }

    /// torch as a requirement, for a card's target.
    pub fn requirement(&self, gfx: &str) -> String {
        let extra = self
            .extra
            .as_ref()
            .map(|extra| format!("[{extra}]"))
            .unwrap_or_default();
        format!("torch{}=={}", extra.replace("{gfx}", gfx), self.torch)
    }
}

/// How far a build can be trusted on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Known to train on the card, or marked ready for it and in wide use.
    Good,
    /// The code is there, with a doubt that the evidence names.
    Fallback,
    /// Builds exist, hardly anyone reports.
    Experimental,
}

/// A build that fits a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// [`Build::id`].
    pub build: String,
    /// How far it can be trusted.
    pub standing: Standing,
    /// Why.
    pub evidence: Text,
}

/// What AOTriton, torch's attention on AMD cards, says of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aotriton {
    /// Its kernels are used.
    Official,
    /// They are used only with a flag.
    Experimental,
}

/// What holds for some versions of torch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionRow {
    /// From this version.
    pub torch_from: String,
    /// Below this one; none is all newer.
    #[serde(default)]
    pub torch_below: Option<String>,
    /// What AOTriton says.
    pub aotriton: Aotriton,
}

/// A card's target, a range of compute capabilities, or the processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// AMD: the gfx target. NVIDIA: a name for the range. `cpu`: the processor.
    pub id: String,
    /// Who made it.
    pub vendor: Vendor,
    /// Which products, for people.
    pub cards: Text,
    /// NVIDIA: lowest compute capability.
    #[serde(default)]
    pub compute_from: Option<String>,
    /// NVIDIA: the first that is too high.
    #[serde(default)]
    pub compute_below: Option<String>,
    /// Part of a processor.
    pub integrated: bool,
    /// Builds that fit, in the order in which they are offered.
    pub routes: Vec<Route>,
    /// Why the card cannot train, whatever is installed.
    #[serde(default)]
    pub blocked: Option<Text>,
    /// The number format to train in.
    pub dtype: DType,
    /// Why.
    pub dtype_reason: Text,
    /// Whether a 4-bit base can be trained on by the Python engines.
    pub four_bit: bool,
    /// Why, or why not.
    pub four_bit_reason: Text,
    /// The name in kernel files, e.g. of rocBLAS's `TensileLibrary_lazy_<name>.dat`.
    pub kernels: Text,
    /// AMD: AOTriton by version of torch; what no row covers has no kernels.
    pub attention: Vec<AttentionRow>,
    /// The oldest kernel that serves it.
    #[serde(default)]
    pub min_kernel: Option<String>,
    /// Why.
    #[serde(default)]
    pub min_kernel_reason: Option<Text>,
    /// Where its driver stack works.
    pub systems: Vec<Os>,
    /// What else to know.
    #[serde(default)]
    pub notes: Vec<Text>,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: Text,
}

impl Target {
    /// What AOTriton says of the card in this version of torch; none where it has no kernels.
    pub fn aotriton(&self, torch: &str) -> Option<Aotriton> {
        self.attention
            .iter()
            .find(|row| within(torch, Some(&row.torch_from), row.torch_below.as_deref()))
            .map(|row| row.aotriton)
    }
}

/// A build that is known to be broken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broken {
    /// torch's version with its tag, `*` standing for anything.
    pub build: String,
    /// The targets that it is broken on; none is all.
    pub targets: Vec<String>,
    /// Broken only while this flag is set.
    #[serde(default)]
    pub with: Option<String>,
    /// What happens.
    pub fault: Text,
    /// What to use instead.
    pub cure: Text,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: Text,
}

impl Broken {
    /// Whether the row speaks of this torch on this target.
    pub fn concerns(&self, torch: &str, target: &str) -> bool {
        matches_pattern(&self.build, torch)
            && (self.targets.is_empty() || self.targets.iter().any(|of| of == target))
    }
}

/// Whether a version of torch, tag or not, lies in a range of releases.
pub(crate) fn within(torch: &str, from: Option<&str>, below: Option<&str>) -> bool {
    let release = torch.split('+').next().unwrap_or_default();
    let Ok(version) = release.parse::<Version>() else {
        return false;
    };
    let bound = |text: &str| text.parse::<Version>().ok();
    from.is_none_or(|from| bound(from).is_some_and(|from| version >= from))
        && below.is_none_or(|below| bound(below).is_some_and(|below| version < below))
}

/// Whether `text` is what `pattern` says, `*` standing for anything.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    build: Vec<Spanned<Build>>,
    #[serde(default)]
    target: Vec<Spanned<Target>>,
    #[serde(default)]
    broken: Vec<Spanned<Broken>>,
}

/// Everything in `targets.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// torch builds.
    pub builds: Vec<Build>,
    /// Cards.
    pub targets: Vec<Target>,
    /// Builds that are known to be broken.
    pub broken: Vec<Broken>,
}

impl Targets {
    /// The build with this id.
    pub fn build(&self, id: &str) -> Option<&Build> {
        self.builds.iter().find(|build| build.id == id)
    }

    /// The row of an AMD target, or `cpu`.
    pub fn target(&self, id: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.id == id)
    }

    /// The row of a compute capability such as `8.6`.
    pub fn compute_capability(&self, capability: &str) -> Option<&Target> {
        self.targets.iter().find(|target| {
            target.vendor == Vendor::Nvidia
                && within(
                    capability,
                    target.compute_from.as_deref(),
                    target.compute_below.as_deref(),
                )
        })
    }

    pub(super) fn read(file: &KnowledgeFile) -> Result<Self, KnowledgeError> {
        let rows: File = file.parse()?;
        let mut all = Self {
            builds: Vec::new(),
            targets: Vec::new(),
            broken: Vec::new(),
        };
        for row in rows.build {
            let offset = row.span().start;
            let build = row.into_inner();
            all.check_build(&build)
                .map_err(|(key, message)| file.mistake(offset, key, message))?;
            all.builds.push(build);
        }
        for row in rows.target {
            let offset = row.span().start;
            let target = row.into_inner();
            all.check_target(&target)
                .map_err(|(key, message)| file.mistake(offset, key, message))?;
            all.targets.push(target);
        }
        if all.target("cpu").is_none() {
            return Err(file.mistake(0, "target", "the row `cpu` is missing"));
        }
        for row in rows.broken {
            let offset = row.span().start;
            let broken = row.into_inner();
            if let Some(name) = broken.targets.iter().find(|name| all.target(name).is_none()) {
                return Err(file.mistake(offset, "targets", format!("`{name}` is no target of this file")));
            }
            all.broken.push(broken);
        }
        Ok(all)
    }

    fn check_build(&self, build: &Build) -> Result<(), (&'static str, String)> {
        if self.build(&build.id).is_some() {
            return Err(("id", format!("`{}` is there twice", build.id)));
        }
        if build.torch.parse::<Version>().is_err() {
            return Err(("torch", format!("{:?} is not a version", build.torch)));
        }
        let shown = [&build.id, &build.torch]
            .into_iter()
            .chain(&build.index)
            .chain(&build.companions)
            .chain(&build.native_companions);
        if let Some(text) = shown
            .into_iter()
            .find(|text| text.chars().any(char::is_control) || text.starts_with('-'))
        {
            return Err((
                "build",
                format!("{text:?} holds what a command line would take for something else"),
            ));
        }
        if build
            .index
            .as_ref()
            .is_some_and(|index| !index.starts_with("https://") && !index.starts_with("http://"))
        {
            return Err(("index", "it is not the address of an index".to_owned()));
        }
        if build.native_engine == build.native_reason.is_some() {
            return Err((
                "native_reason",
                "it stands exactly where the native engine cannot use the build".to_owned(),
            ));
        }
        Ok(())
    }

    fn check_target(&self, target: &Target) -> Result<(), (&'static str, String)> {
        if self.target(&target.id).is_some() {
            return Err(("id", format!("`{}` is there twice", target.id)));
        }
        let is_range = target.compute_from.is_some() && target.compute_below.is_some();
        let named_right = match target.vendor {
            Vendor::Amd => target.id.starts_with("gfx"),
            Vendor::Nvidia => is_range,
            Vendor::Cpu => target.id == "cpu",
        };
        if !named_right {
            return Err((
                "id",
                "AMD's rows are called as their gfx target, NVIDIA's have compute_from and compute_below, the processor's is `cpu`"
                    .to_owned(),
            ));
        }
        if target.routes.is_empty() != target.blocked.is_some() {
            return Err((
                "blocked",
                "a target has either routes or the reason why it has none".to_owned(),
            ));
        }
        if target.min_kernel.is_some() != target.min_kernel_reason.is_some() {
            return Err((
                "min_kernel_reason",
                "a kernel is asked for with a reason".to_owned(),
            ));
        }
        let mut before: Option<(Standing, Option<u64>)> = None;
        for route in &target.routes {
            let Some(build) = self.build(&route.build) else {
                return Err(("routes", format!("`{}` is no build of this file", route.build)));
            };
            if build.vendor != target.vendor {
                return Err((
                    "routes",
                    format!("`{}` is for another vendor's cards", route.build),
                ));
            }
            let this = (route.standing, build.download_bytes);
            if let Some((standing, bytes)) = before {
                let larger_first = matches!((bytes, this.1), (Some(first), Some(second)) if first > second);
                let smallest_first = route.standing != Standing::Good || !larger_first;
                if route.standing < standing || !smallest_first {
                    return Err((
                        "routes",
                        format!(
                            "`{}` stands behind one that is less good, or larger and no better",
                            route.build
                        ),
                    ));
                }
            }
            before = Some(this);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches_pattern("2.9.*", "2.9.1+rocm6.4"));
        assert!(matches_pattern("*+rocm7.12*", "2.10.0+rocm7.12.0"));
        assert!(matches_pattern("*+rocm7.1", "2.11.0+rocm7.1"));
        assert!(!matches_pattern("*+rocm7.1", "2.11.0+rocm7.13.0"));
        assert!(matches_pattern("2.12.*+rocm7*", "2.12.1+rocm7.2"));
        assert!(!matches_pattern("2.12.*+rocm7*", "2.12.1+cu130"));
        assert!(matches_pattern("2.11.0", "2.11.0") && !matches_pattern("2.11.0", "2.11.0+cpu"));
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(within("2.11.0+rocm7.2", Some("2.9"), None));
        assert!(within("2.9.1", Some("2.9"), Some("2.10")));
        assert!(!within("2.10.0", Some("2.9"), Some("2.10")));
        assert!(within("12.0", Some("10.0"), Some("13.0")));
        assert!(!within("no version", Some("1.0"), None));
    }
}
