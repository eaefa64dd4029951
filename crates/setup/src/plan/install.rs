//! What is installed, in which order and from where: the specification that set-up carries out, the same as steps
//! for people, and as uv's arguments.

use super::script::bash;
use super::{Plan, PlanError, Planner, Recommended, RouteOffer, Step};
use crate::environments::{
    Engine, Expectations, GpuBuild, InstallSpec, InstallStep, Layout, PackageNeed, PythonRange, TritonNeed,
};
use crate::knowledge::{Build, Os, PackageSet, Vendor};

/// What stands for the environment's folder in a command.
pub(super) const ENV: &str = "{env}";

/// What stands for the override file in a command.
pub(super) const OVERRIDES: &str = "{overrides}";

/// Pages of 4 KiB in a GiB.
const PAGES_IN_GIB: u64 = 262_144;

impl Planner<'_> {
    pub(super) fn package_set(&self) -> Result<&PackageSet, PlanError> {
        let engine = self.request.engine;
        let packages = &self.knowledge.packages;
        let set = match &self.request.package_set {
            Some(wanted) => packages
                .set(wanted)
                .filter(|set| set.engine == engine)
                .ok_or_else(|| PlanError::PackageSetUnknown {
                    wanted: wanted.chars().filter(|letter| !letter.is_control()).collect(),
                    engine,
                })?,
            None => packages
                .of_engine(engine)
                .ok_or_else(|| PlanError::PackageSetUnknown {
                    wanted: engine.name().to_owned(),
                    engine,
                })?,
        };
        if set.vendors.contains(&self.device.target.vendor) {
            return Ok(set);
        }
        Err(PlanError::EngineNeedsCard {
            engine,
            reason: self.device.reason.clone(),
        })
    }

    pub(super) fn packages(&self, set: &PackageSet) -> Vec<String> {
        let four_bit = set.four_bit.iter().filter(|_| self.device.target.four_bit);
        set.requirements.iter().chain(four_bit).cloned().collect()
    }

    /// The lines of the override file: torch and its companions stay as they are, and what must not come is kept out.
    pub(super) fn overrides(&self, build: Option<&Build>, set: &PackageSet) -> Vec<String> {
        let Some(build) = build.filter(|_| set.engine.layout() == Layout::Venv) else {
            return Vec::new();
        };
        let companions = build
            .companions
            .iter()
            .filter(|companion| companion.contains("=="));
        let pinned = companions.map(|companion| without_extra(companion));
        let vendor = self.device.target.vendor;
        let lines = self
            .knowledge
            .packages
            .overrides
            .iter()
            .filter(|line| line.vendors.contains(&vendor));
        std::iter::once(format!("torch=={}", build.torch))
            .chain(pinned)
            .chain(lines.map(|line| line.line.clone()))
            .collect()
    }

    pub(super) fn install_spec(
        &self,
        set: &PackageSet,
        route: &RouteOffer,
        build: &Build,
        packages: &[String],
        overrides: &[String],
    ) -> InstallSpec {
        let native = self.request.engine == Engine::Native;
        let mut steps = vec![InstallStep {
            title: format!("torch {}", build.torch),
            why: match &build.index {
                Some(_) => {
                    "alone and from its own index, so that no other index can answer with another build"
                        .to_owned()
                }
                None => "before the packages that use it, so that its build is settled".to_owned(),
            },
            index_url: build.index.clone(),
            requirements: route.requirements.clone(),
            no_deps: native && build.native_no_deps,
            download_bytes: build.download_bytes,
            disk_bytes: Some(build.disk_bytes),
            ..InstallStep::default()
        }];
        if !packages.is_empty() {
            steps.push(InstallStep {
                title: set.title.to_string(),
                why: "from the package index, with torch held as it is".to_owned(),
                requirements: packages.to_vec(),
                overrides: overrides.to_vec(),
                download_bytes: set.download_bytes,
                disk_bytes: set.disk_bytes,
                ..InstallStep::default()
            });
        }
        InstallSpec {
            name: self.environment_name(set, build),
            engine: self.request.engine,
            package_set: set.id.clone(),
            python: common(set.python, build.python),
            steps,
            verify: self.expectations(set, build, packages),
        }
    }

    /// An environment is named by package set and torch, and by the card where the build is for one alone.
    fn environment_name(&self, set: &PackageSet, build: &Build) -> String {
        let card = build
            .extra
            .as_ref()
            .map(|_| format!("-{}", self.device.target.id))
            .unwrap_or_default();
        format!("{}-torch-{}{card}", set.id, build.torch.replace('+', "-"))
    }

    fn expectations(&self, set: &PackageSet, build: &Build, packages: &[String]) -> Expectations {
        let python = set.engine.layout() == Layout::Venv;
        let gpu_build = match build.vendor {
            Vendor::Amd => Some(GpuBuild::Hip),
            Vendor::Nvidia => Some(GpuBuild::Cuda),
            // The general index has a CUDA build on Linux and one without elsewhere.
            Vendor::Cpu => build.tag().map(|_| GpuBuild::Cpu),
        };
        let triton = match build.vendor {
            Vendor::Amd if python && self.os != Os::Windows => TritonNeed::Backend("amd".to_owned()),
            Vendor::Nvidia if python && self.os != Os::Windows => TritonNeed::Backend("nvidia".to_owned()),
            _ => TritonNeed::Any,
        };
        // The general index's Triton has a folder for AMD too, so the back end alone does not tell ROCm's from it.
        let on_amd = python && build.vendor == Vendor::Amd && self.os != Os::Windows;
        let rocm_triton = build.triton.as_ref().filter(|_| on_amd).map(|name| PackageNeed {
            name: name.clone(),
            versions: String::new(),
        });
        Expectations {
            torch_version: Some(build.release().to_owned()),
            torch_local: build.tag().map(str::to_owned),
            torch_build: gpu_build,
            triton,
            kernels_for_gfx: (build.vendor == Vendor::Amd).then(|| self.device.target.kernels.to_string()),
            packages: packages
                .iter()
                .filter_map(|line| package_need(line))
                .chain(rocm_triton.clone())
                .collect(),
            absent: if python && build.vendor == Vendor::Amd {
                let general = rocm_triton
                    .filter(|need| need.name != "triton")
                    .map(|_| "triton".to_owned());
                general.into_iter().chain(["xformers".to_owned()]).collect()
            } else {
                Vec::new()
            },
        }
    }

    pub(super) fn steps(&self, install: Option<&InstallSpec>, recipe: &Recommended) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(spec) = install {
            for (words, part) in uv_commands(spec) {
                let step = |title: &str, why: &str, download_bytes, disk_bytes| Step {
                    title: title.to_owned(),
                    why: why.to_owned(),
                    command: words.clone(),
                    download_bytes,
                    disk_bytes,
                    changes: format!("the folder of the environment {}, and uv's cache", spec.name),
                    reboot: false,
                    optional: false,
                };
                steps.push(match part {
                    None => step(
                        "an empty environment",
                        "nothing that is installed is used or changed",
                        Some(0),
                        None,
                    ),
                    Some(part) => step(&part.title, &part.why, part.download_bytes, part.disk_bytes),
                });
            }
        }
        if let Some(offer) = &recipe.recipe {
            let mut command = vec!["tunesmith".to_owned(), "train".to_owned(), offer.id.clone()];
            for setting in &offer.settings {
                command.extend(["--set".to_owned(), setting.clone()]);
            }
            steps.push(Step {
                title: format!("the recipe {}: {}", offer.id, offer.model),
                why: recipe.why.clone(),
                command,
                download_bytes: Some(offer.download_bytes),
                disk_bytes: Some(offer.download_bytes),
                changes: "the folders of models and runs".to_owned(),
                reboot: false,
                optional: false,
            });
        }
        steps.extend(self.raise_limit(recipe));
        steps
    }

    /// Graphics with shared memory may map half of it unless the kernel is told otherwise.
    fn raise_limit(&self, recipe: &Recommended) -> Option<Step> {
        let card = self.device.card.as_ref()?;
        let total = self.system.machine.memory_bytes?;
        let next = recipe.next.as_ref()?;
        let limit = self.system.kernel.ttm_pages_limit? * 4096;
        // A sixth stays with the system, 16 GiB at least: running out of memory stops the whole machine there.
        let room = total.saturating_sub((total / 6).max(16 << 30));
        let worth = self.os == Os::Linux && card.integrated && limit < room && next.needs_bytes < room;
        worth.then(|| {
            let gib = room >> 30;
            let pages = gib * PAGES_IN_GIB;
            let write = format!("echo options ttm pages_limit={pages} > /etc/modprobe.d/ttm.conf");
            Step {
                title: format!("let graphics map {gib} GiB of main memory"),
                why: format!(
                    "for {}, which the recommended recipe does not need: the limit is {} GiB, half of main memory by \
                     default; AMD's maintainer warns that more than half can make the system unstable",
                    next.model,
                    limit >> 30
                ),
                command: ["sudo", "sh", "-c", &write].map(str::to_owned).to_vec(),
                download_bytes: Some(0),
                disk_bytes: Some(0),
                changes: "/etc/modprobe.d/ttm.conf".to_owned(),
                reboot: true,
                optional: true,
            }
        })
    }
}

/// uv's arguments, one list for each time that it runs, without `uv` itself. `{env}` stands for the environment's
/// folder, `{overrides}` for a file with [`Plan::override_file`]. Empty where nothing is installed.
pub fn uv_arguments(plan: &Plan) -> Vec<Vec<String>> {
    let commands = plan.install.as_ref().map(uv_commands).unwrap_or_default();
    commands
        .into_iter()
        .map(|(words, _)| words[1..].to_vec())
        .collect()
}

/// [`uv_arguments`] as lines for a POSIX shell, each word quoted where it has to be.
pub fn uv_lines(plan: &Plan) -> Vec<String> {
    let line = |words: &Vec<String>| words.iter().map(|word| bash(word)).collect::<Vec<_>>().join(" ");
    uv_arguments(plan).iter().map(line).collect()
}

/// The commands of a specification, each with its step; the environment itself has none.
fn uv_commands(spec: &InstallSpec) -> Vec<(Vec<String>, Option<&InstallStep>)> {
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let python = spec.python.preferred.to_string();
    let venv = spec.engine.layout() == Layout::Venv;
    let mut commands = Vec::new();
    if venv {
        commands.push((words(&["uv", "venv", "--python", &python, ENV]), None));
    }
    for step in &spec.steps {
        let mut command = words(&["uv", "pip", "install"]);
        command.extend(if venv {
            words(&["--python", ENV])
        } else {
            words(&["--python-version", &python, "--target", ENV])
        });
        if let Some(index) = &step.index_url {
            command.extend(words(&["--default-index", index]));
        }
        // uv's own default, said aloud: a higher version on another index must not win.
        command.extend(words(&["--index-strategy", "first-index"]));
        if step.no_deps {
            command.push("--no-deps".to_owned());
        }
        if !step.overrides.is_empty() {
            command.extend(words(&["--override", OVERRIDES]));
        }
        command.extend(step.requirements.iter().cloned());
        commands.push((command, Some(step)));
    }
    commands
}

/// The versions that both have, and the preferred one where it is among them.
fn common(one: PythonRange, other: PythonRange) -> PythonRange {
    let minimum = one.minimum.max(other.minimum);
    let maximum = one.maximum.min(other.maximum);
    PythonRange {
        preferred: one.preferred.clamp(minimum, maximum.max(minimum)),
        minimum,
        maximum,
    }
}

/// `torchvision==0.26.0` of `torchvision[device-gfx1031]==0.26.0`.
fn without_extra(requirement: &str) -> String {
    match (requirement.find('['), requirement.find(']')) {
        (Some(open), Some(close)) if open < close => {
            format!("{}{}", &requirement[..open], &requirement[close + 1..])
        }
        _ => requirement.to_owned(),
    }
}

/// A requirement as what must be there afterwards; none for one that holds on some systems alone.
fn package_need(requirement: &str) -> Option<PackageNeed> {
    if requirement.contains(';') {
        return None;
    }
    let plain = without_extra(requirement);
    let end = plain
        .find(|letter: char| !(letter.is_ascii_alphanumeric() || "._-".contains(letter)))
        .unwrap_or(plain.len());
    Some(PackageNeed {
        name: plain[..end].to_owned(),
        versions: plain[end..].trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_becomes_what_must_be_there() {
        let need = |text: &str| package_need(text).map(|need| (need.name, need.versions));
        assert_eq!(
            need("peft==0.21.2"),
            Some(("peft".to_owned(), "==0.21.2".to_owned()))
        );
        assert_eq!(need("datasets<5"), Some(("datasets".to_owned(), "<5".to_owned())));
        assert_eq!(need("unsloth[amd]"), Some(("unsloth".to_owned(), String::new())));
        assert_eq!(
            need("accelerate<1.15; sys_platform == \"win32\""),
            None,
            "it holds on Windows alone"
        );
    }

    #[test]
    fn the_versions_of_python_are_those_that_both_have() {
        let range = |minimum: &str, maximum: &str| PythonRange {
            preferred: "3.12".parse().unwrap(),
            minimum: minimum.parse().unwrap(),
            maximum: maximum.parse().unwrap(),
        };
        assert_eq!(
            common(range("3.10", "3.14"), range("3.11", "3.13")),
            range("3.11", "3.13")
        );
        let late = PythonRange {
            preferred: "3.13".parse().unwrap(),
            ..range("3.13", "3.14")
        };
        assert_eq!(common(range("3.10", "3.14"), late), late);
    }
}
