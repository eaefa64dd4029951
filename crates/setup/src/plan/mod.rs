//! The plan: which card, which torch, which packages, which settings and which recipe, each with its reason.
//!
//! A plan is made from what detection says of a machine and from the dated knowledge files, changes nothing and
//! reads nothing else, so it is the same for a captured machine as for a live one. It is shown to people, written as
//! JSON, as a shell script or as uv's arguments, and carried out by `setup --apply` from its `install`.

mod cards;
mod environment;
mod install;
mod recipe;
mod routes;
mod script;
mod text;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tunesmith_measure::MemoryNeed;
use tunesmith_probe::{Platform, System};
use tunesmith_protocol::DType;

use crate::environments::{Engine, FoundTorch, InstallSpec, find_torches};
use crate::knowledge::{Action, AsOf, AttentionIs, HarmLevel, Knowledge, Os, Standing, Vendor};
use crate::{Folders, TorchBuild};

pub use install::{uv_arguments, uv_lines};
pub use script::{Shell, script};
pub use text::text;

/// Version of the JSON form of [`Plan`].
pub const PLAN_SCHEMA: u32 = 1;

/// What a plan is asked for.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// Which engine shall train.
    pub engine: Engine,
    /// On what.
    pub device: DeviceChoice,
    /// A torch build of the knowledge files by id, instead of the first that fits.
    pub build: Option<String>,
    /// A package set by id, instead of the engine's first.
    pub package_set: Option<String>,
    /// The system, where it cannot be told from what was read, or where it shall be another one.
    pub system: Option<Os>,
    /// The torches that lie on the disk already.
    pub torches: Vec<TorchOnDisk>,
}

impl PlanRequest {
    /// The first of everything, for this engine.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            device: DeviceChoice::Auto,
            build: None,
            package_set: None,
            system: None,
            torches: Vec::new(),
        }
    }

    /// With the torches that lie on the disk of the machine that this program runs on: one that fits saves gigabytes.
    /// Not for a captured machine, whose disk is another one.
    #[must_use]
    pub fn with_torches_here(mut self, folders: &Folders) -> Self {
        let found = find_torches(folders, &|name| std::env::var_os(name), &[]);
        self.torches = found.into_iter().map(TorchOnDisk::from).collect();
        self
    }
}

/// What shall train.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best card, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The cards of one vendor.
    Vendor(Vendor),
    /// One card, by its number in the list, PCI address, UUID or name.
    Card(String),
}

/// A torch on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorchOnDisk {
    /// The `site-packages` folder that holds `torch/`.
    pub site: PathBuf,
    /// As `torch/version.py` says it, e.g. `2.11.0+rocm7.2`.
    pub version: String,
    /// What it was built for.
    pub build: TorchBuild,
}

impl From<FoundTorch> for TorchOnDisk {
    fn from(found: FoundTorch) -> Self {
        Self {
            site: found.site,
            version: found.version,
            build: found.build,
        }
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A capture does not say what kind of system it is.
    #[error("what was read does not say whether this is Linux, WSL or Windows, and the plan differs")]
    SystemUnknown,

    /// No such card.
    #[error("there is no card `{wanted}`; there are: {}", list(known))]
    CardUnknown {
        /// As it was asked for.
        wanted: String,
        /// What there is.
        known: Vec<String>,
    },

    /// The card cannot be planned for.
    #[error("{card} cannot train: {reason}")]
    CardUnfit {
        /// Its name.
        card: String,
        /// Why.
        reason: String,
    },

    /// The engine does not run on a processor.
    #[error("the engine `{engine}` needs a card, and {reason}")]
    EngineNeedsCard {
        /// Which.
        engine: Engine,
        /// Why the processor would train.
        reason: String,
    },

    /// No such build, or one that does not fit.
    #[error(
        "the torch build `{wanted}` does not fit here; those that fit: {}",
        list(fitting)
    )]
    BuildUnfit {
        /// As it was asked for.
        wanted: String,
        /// What fits.
        fitting: Vec<String>,
    },

    /// No such package set for the engine.
    #[error("there is no package set `{wanted}` for the engine `{engine}`")]
    PackageSetUnknown {
        /// As it was asked for.
        wanted: String,
        /// Which engine.
        engine: Engine,
    },
}

impl PlanError {
    /// A short name of the cause, stable across versions.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SystemUnknown => "system_unknown",
            Self::CardUnknown { .. } => "card_unknown",
            Self::CardUnfit { .. } => "card_unfit",
            Self::EngineNeedsCard { .. } => "engine_needs_card",
            Self::BuildUnfit { .. } => "build_unfit",
            Self::PackageSetUnknown { .. } => "package_set_unknown",
        }
    }

    /// What to do next, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        vec![match self {
            Self::SystemUnknown => "name it with --system linux, wsl or windows".to_owned(),
            Self::CardUnknown { .. } => "name a card by its number, PCI address or name".to_owned(),
            Self::CardUnfit { .. } => "leave the card out, and the plan uses what can train".to_owned(),
            Self::EngineNeedsCard { .. } => "the engines `native` and `hf` train on the processor".to_owned(),
            Self::BuildUnfit { .. } | Self::PackageSetUnknown { .. } => {
                "leave it out, and the plan uses the first that fits".to_owned()
            }
        }]
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// What to do so that this machine trains, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_SCHEMA`] of whoever wrote it.
    pub schema: u32,
    /// Which engine.
    pub engine: Engine,
    /// Whose code torch carries.
    pub vendor: Vendor,
    /// Which system.
    pub system: Os,
    /// Whether it can train, and on what.
    pub verdict: Verdict,
    /// The card that trains; none on the processor.
    pub card: Option<ChosenCard>,
    /// What else is there.
    pub others: Vec<OtherCard>,
    /// What keeps programs from using the others; none where there is nothing to hide.
    pub mask: Option<Mask>,
    /// How the card computes.
    pub precision: Precision,
    /// The torches that fit, in the order in which they are offered.
    pub routes: Vec<RouteOffer>,
    /// Index into `routes`; none where there is none.
    pub chosen: Option<usize>,
    /// The torches that do not fit, with the reason.
    pub excluded: Vec<Excluded>,
    /// The id of the package set.
    pub package_set: String,
    /// What is installed beside torch.
    pub packages: Vec<String>,
    /// The content of uv's override file; empty where there is none.
    pub override_file: String,
    /// Settings of the environment.
    pub environment: Vec<FlagRow>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// The recommended recipe.
    pub recipe: Recommended,
    /// What to know before.
    pub warnings: Vec<String>,
    /// What set-up carries out; none where nothing has to be installed, or where nothing fits.
    pub install: Option<InstallSpec>,
}

impl Plan {
    /// What the environment of the engine's process is to hold: names with a value to set, or without one to take
    /// away. The mask is among them.
    pub fn variables(&self) -> Vec<(&str, Option<&str>)> {
        let rows = self.environment.iter().filter_map(|row| match row.action {
            Action::Set => Some((row.name.as_str(), row.value.as_deref())),
            Action::Unset => Some((row.name.as_str(), None)),
            Action::Leave => None,
        });
        let mask = self
            .mask
            .iter()
            .map(|mask| (mask.variable.as_str(), Some(mask.value.as_str())));
        rows.chain(mask).collect()
    }

    /// The route that is taken.
    pub fn route(&self) -> Option<&RouteOffer> {
        self.routes.get(self.chosen?)
    }
}

/// Whether it can train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// On what.
    pub kind: VerdictKind,
    /// Why, in one sentence.
    pub reason: String,
}

/// On what it can train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// On the card.
    Card,
    /// On the processor alone.
    CpuOnly,
    /// On the card, once something is cured.
    Blocked,
}

/// The card that trains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChosenCard {
    /// Index into the system's cards.
    pub index: usize,
    /// Product name, or what is known instead.
    pub name: String,
    /// AMD's target or NVIDIA's compute capability.
    pub gfx: String,
    /// PCI address.
    pub pci: Option<String>,
    /// Part of a processor.
    pub integrated: bool,
    /// What a trainer may use, in bytes.
    pub trainable_bytes: Option<u64>,
    /// Why this one.
    pub why: String,
}

/// A card that does not train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherCard {
    /// Index into the system's cards.
    pub index: usize,
    /// Product name, or what is known instead.
    pub name: String,
    /// PCI address.
    pub pci: Option<String>,
    /// Whether programs must be kept from it.
    pub hide: bool,
    /// Whether it could train in place of the chosen one, if it were asked for.
    #[serde(default)]
    pub can_train: bool,
    /// Why it does not train.
    pub why: String,
}

/// What keeps programs from using other cards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mask {
    /// The variable.
    pub variable: String,
    /// Its value. A UUID names one card in the world: leave it out of what is shared.
    pub value: String,
    /// Whether the value still names the same card after another was added or removed.
    pub stable: bool,
    /// How the value names the card.
    pub how: String,
}

/// How the card computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// The number format to train in.
    pub dtype: DType,
    /// Why.
    pub dtype_reason: String,
    /// Whether the Python engines can train on a 4-bit base.
    pub four_bit: bool,
    /// Why, or why not.
    pub four_bit_reason: String,
    /// AMD: AOTriton in the chosen torch.
    pub attention: Option<AttentionIs>,
    /// What to know of the card.
    pub notes: Vec<String>,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: String,
}

/// A torch that fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteOffer {
    /// The build's id in the knowledge files; none for a torch on the disk that is none of them.
    pub build: Option<String>,
    /// For people.
    pub title: String,
    /// Where it is already.
    pub on_disk: Option<PathBuf>,
    /// The index; none is the general package index, or the disk.
    pub index: Option<String>,
    /// Version with its tag.
    pub torch: String,
    /// What is asked for, torch first.
    pub requirements: Vec<String>,
    /// How far it can be trusted.
    pub standing: Standing,
    /// Why.
    pub evidence: String,
    /// Bytes over the network; none where nobody has read them.
    pub download_bytes: Option<u64>,
    /// How that figure came about.
    pub download_note: String,
    /// Bytes on disk.
    pub disk_bytes: Option<u64>,
    /// The versions of Python.
    pub python: String,
    /// When this was true; none for a torch on the disk.
    pub as_of: Option<AsOf>,
    /// Where it was read.
    pub source: String,
}

/// A torch that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// The build's id, or where the torch lies.
    pub build: String,
    /// Why.
    pub reason: String,
}

/// A setting of the environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlagRow {
    /// The variable.
    pub name: String,
    /// Older names and relatives that the row speaks of too.
    pub aliases: Vec<String>,
    /// What it means.
    pub meaning: String,
    /// What is done.
    pub action: Action,
    /// The value to set.
    pub value: Option<String>,
    /// When.
    pub condition: String,
    /// Why.
    pub reason: String,
    /// What shows it.
    pub evidence: String,
    /// What guides say.
    pub guides: Option<String>,
    /// What sets it on this machine.
    pub found: Vec<FoundSetting>,
    /// Shown even where nothing is done.
    pub always: bool,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: String,
}

/// A setting that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSetting {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What sets it: a file's path, or `the process's environment`.
    pub origin: String,
    /// Line in that file, from 1.
    pub line: Option<usize>,
    /// Whether it holds for the process that asks.
    pub in_effect: bool,
    /// What the value does, where it does harm.
    pub harm: Option<FoundHarm>,
}

/// What a value does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundHarm {
    /// How bad.
    pub level: HarmLevel,
    /// What.
    pub text: String,
}

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What, in a few words.
    pub title: String,
    /// Why.
    pub why: String,
    /// The command, word by word; empty where there is none. `{env}` in a word stands for the environment's folder,
    /// `{overrides}` for the override file.
    pub command: Vec<String>,
    /// Bytes over the network.
    pub download_bytes: Option<u64>,
    /// Bytes on disk.
    pub disk_bytes: Option<u64>,
    /// What it changes on the machine.
    pub changes: String,
    /// Whether the machine must start again for it.
    pub reboot: bool,
    /// Whether the recommended recipe runs without it.
    pub optional: bool,
}

impl Step {
    /// The command as a line for a POSIX shell, each word quoted where it has to be; empty where there is none.
    pub fn shell_line(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| script::bash(word)).collect();
        words.join(" ")
    }
}

/// The recommended recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommended {
    /// It; none where none fits.
    pub recipe: Option<RecipeOffer>,
    /// Why this one, or why none.
    pub why: String,
    /// The next bigger one, and what is missing for it.
    pub next: Option<NextRecipe>,
    /// The memory that recipes may use here, in bytes.
    pub budget_bytes: Option<u64>,
    /// How that figure came about.
    pub budget_how: String,
}

/// A recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecipeOffer {
    /// Its name.
    pub id: String,
    /// Its class of memory.
    pub class: String,
    /// The model, for people.
    pub model: String,
    /// The model at its exact revision.
    pub model_source: String,
    /// The model's licence.
    pub license: String,
    /// Bytes over the network for the model.
    pub download_bytes: u64,
    /// What must be changed in it for this card, as `section.key=value`.
    pub settings: Vec<String>,
    /// What it needs, by formula.
    pub needs: MemoryNeed,
    /// The sum of that, in bytes.
    pub needs_bytes: u64,
    /// Keys of the recipe whose value is nobody's measurement.
    pub unverified: Vec<String>,
}

/// A bigger recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextRecipe {
    /// Its name.
    pub id: String,
    /// The model, for people.
    pub model: String,
    /// What it needs, in bytes.
    pub needs_bytes: u64,
    /// What is missing, in one sentence.
    pub lacks: String,
}

/// The plan for one card, or for the processor.
///
/// # Errors
/// [`PlanError`]: what was asked for does not exist or does not fit.
pub fn plan(system: &System, knowledge: &Knowledge, request: &PlanRequest) -> Result<Plan, PlanError> {
    let os = os_of(system, request)?;
    let chosen = cards::choose(system, knowledge, os, &request.device)?;
    Planner {
        system,
        knowledge,
        request,
        os,
        device: &chosen,
    }
    .plan()
}

/// One plan for each vendor whose card can train; one for the processor where none can. The first is what
/// [`plan`] gives.
///
/// # Errors
/// As [`plan`].
pub fn plans(system: &System, knowledge: &Knowledge, request: &PlanRequest) -> Result<Vec<Plan>, PlanError> {
    let first = plan(system, knowledge, request)?;
    if request.device != DeviceChoice::Auto || first.vendor == Vendor::Cpu {
        return Ok(vec![first]);
    }
    let other = if first.vendor == Vendor::Amd {
        Vendor::Nvidia
    } else {
        Vendor::Amd
    };
    let second = PlanRequest {
        device: DeviceChoice::Vendor(other),
        ..request.clone()
    };
    let mut plans = vec![first];
    if cards::has_candidate(system, knowledge, os_of(system, request)?, other) {
        plans.push(plan(system, knowledge, &second)?);
    }
    Ok(plans)
}

fn os_of(system: &System, request: &PlanRequest) -> Result<Os, PlanError> {
    if let Some(os) = request.system {
        return Ok(os);
    }
    match system.platform {
        Platform::Linux => Ok(Os::Linux),
        Platform::Wsl => Ok(Os::Wsl),
        Platform::Windows => Ok(Os::Windows),
        Platform::Macos => Ok(Os::Macos),
        Platform::Unknown => Err(PlanError::SystemUnknown),
    }
}

/// What the parts of a plan are made from.
struct Planner<'a> {
    system: &'a System,
    knowledge: &'a Knowledge,
    request: &'a PlanRequest,
    os: Os,
    device: &'a cards::Device<'a>,
}

impl Planner<'_> {
    fn plan(&self) -> Result<Plan, PlanError> {
        let engine = self.request.engine;
        let target = self.device.target;
        let set = self.package_set()?;
        let (routes, excluded) = self.routes();
        let chosen = self.choose_route(&routes)?;
        let route = chosen.and_then(|at| routes.get(at));
        let build = route.and_then(|route| self.knowledge.targets.build(route.build.as_deref()?));
        let mask = self.mask();
        // Where no torch fits, the settings are told as for the one that everything else is made for.
        let torch = route.map_or(crate::runtime::TORCH_VERSION, |route| route.torch.as_str());
        let attention = (target.vendor == Vendor::Amd).then(|| AttentionIs::from(target.aotriton(torch)));
        let environment = self.environment(torch, build, mask.as_ref());
        let recipe = self.recommend();
        let packages = self.packages(set);
        let overrides = self.overrides(build, set);
        let install = route
            .zip(build)
            .filter(|(route, _)| route.on_disk.is_none())
            .map(|(route, build)| self.install_spec(set, route, build, &packages, &overrides));
        let verdict = self.verdict(route, &excluded);
        let steps = self.steps(install.as_ref(), &recipe);
        let warnings = self.warnings(&environment, mask.as_ref(), build, engine);
        Ok(Plan {
            schema: PLAN_SCHEMA,
            engine,
            vendor: target.vendor,
            system: self.os,
            verdict,
            card: self.device.chosen_card(),
            others: self.device.others.clone(),
            mask,
            precision: Precision {
                dtype: target.dtype,
                dtype_reason: target.dtype_reason.to_string(),
                four_bit: target.four_bit,
                four_bit_reason: target.four_bit_reason.to_string(),
                attention,
                notes: target.notes.iter().map(ToString::to_string).collect(),
                as_of: target.as_of,
                source: target.source.to_string(),
            },
            routes,
            chosen,
            excluded,
            package_set: set.id.clone(),
            packages,
            override_file: overrides.iter().flat_map(|line| [line.as_str(), "\n"]).collect(),
            environment,
            steps,
            recipe,
            warnings,
            install,
        })
    }

    fn verdict(&self, route: Option<&RouteOffer>, excluded: &[Excluded]) -> Verdict {
        let Some(card) = &self.device.card else {
            return Verdict {
                kind: VerdictKind::CpuOnly,
                reason: self.device.reason.clone(),
            };
        };
        let stop = self.device.stop.clone().or_else(|| {
            route.is_none().then(|| match excluded.last() {
                // The routes go from what asks the most of a driver to what asks the least.
                Some(last) => format!("no torch fits: {} ({})", last.reason, last.build),
                None => "no torch fits".to_owned(),
            })
        });
        let torch = route.map_or("", |route| route.torch.as_str());
        match stop {
            Some(reason) => Verdict {
                kind: VerdictKind::Blocked,
                reason: format!("{} cannot train yet: {reason}", card.name),
            },
            None => Verdict {
                kind: VerdictKind::Card,
                reason: format!("{} with torch {torch}", card.name),
            },
        }
    }
}
