//! The doctor: what keeps this machine from training, or from training fast, and what to do about it first.
//!
//! Every check reads what detection found and compares it with `targets.toml` and `checks.toml` of `assets/knowledge`. It never
//! runs Python, ROCm or anything with more rights than the user has. What cannot be read stays unknown. The answer
//! opens with one line and the one thing to do next; a reboot or a step in the BIOS comes last, and never first while
//! the recipe runs without it. `docs/doctor.md` says which check covers which known fault.

mod around;
mod checks;
mod distribution;
mod environment;
mod rules;
mod subject;
mod text;
mod version;

use serde::{Deserialize, Serialize};
use tunesmith_probe::System;

use crate::knowledge::Knowledge;

pub use around::{DiskSpace, GpuProcess, LastGood, RecipeNeeds, Surroundings, TorchInstall};
pub use environment::{Package, PythonEnvironment, Torch};
pub use rules::Rules;
pub use text::text;
pub use version::{Range, Version};

use checks::{CHECKS, Outcome, Run, Trouble};
use subject::{ENVIRONMENT_UNREAD, Subject, card_name};

/// Version of the JSON form of [`Diagnosis`].
pub const DIAGNOSIS_SCHEMA: u32 = 1;

/// What the doctor found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// [`DIAGNOSIS_SCHEMA`] of whoever wrote it.
    pub schema: u32,
    /// The answer in a word.
    pub verdict: Verdict,
    /// The answer in a line.
    pub opening: String,
    /// The one thing to do next.
    pub next: NextStep,
    /// The checks that apply here: first what to cure, in the order in which to do it, then what is unknown, then
    /// what is in order.
    pub checks: Vec<Check>,
    /// Ids of the checks that have no meaning here, such as those for WSL on a plain Linux.
    pub not_applicable: Vec<String>,
}

impl Diagnosis {
    /// The checks with this status, in order.
    pub fn with_status(&self, status: Status) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.status == status)
    }

    /// The first check with this id; one that is made for each card or environment may be there several times.
    pub fn check(&self, id: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.id == id)
    }
}

/// The answer in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The recommended recipe runs.
    Ready,
    /// It runs, and something makes it slower than it need be.
    ReadyButSlower,
    /// Something keeps it from running, or from computing rightly.
    Blocked,
    /// Nothing of the machine could be read.
    Unknown,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextStep {
    /// In a sentence.
    pub text: String,
    /// A line to copy, where one does it.
    pub command: Option<String>,
    /// The check whose cure it is; `None` where training is what comes next.
    pub check: Option<String>,
    /// What it takes beside the command.
    pub needs: Needs,
}

/// One check and what it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Stable name, e.g. `kfd-access`.
    pub id: String,
    /// The card or the environment that it is about, where it is made for each.
    pub about: Option<String>,
    /// What it belongs to.
    pub group: Group,
    /// What is checked.
    pub title: String,
    /// The result.
    pub status: Status,
    /// What was read, with values and files; for an unknown one what could not be.
    pub found: String,
    /// What follows from it; empty where all is well.
    pub means: String,
    /// What to do about it.
    pub cure: Option<Cure>,
    /// Threads and documents that this rests on.
    pub sources: Vec<String>,
    /// What it stops; `None` where it stops nothing.
    pub stops: Option<Stops>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// In order.
    Ok,
    /// It can be lived with.
    Warn,
    /// It cannot.
    Fail,
    /// What was read does not say.
    Unknown,
}

/// What a finding stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stops {
    /// The recommended recipe does not run, or computes wrongly.
    Recipe,
    /// It runs slower.
    Speed,
    /// Only models larger than the recommended one.
    BiggerModels,
}

/// What a cure takes beside its command, cheapest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// Nothing.
    #[default]
    Nothing,
    /// Logging out and in again.
    LogOut,
    /// A reboot.
    Reboot,
    /// Other firmware files and a reboot.
    Firmware,
    /// A change in the BIOS, or in the case.
    Bios,
}

/// Where a command is to be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Here.
    #[default]
    Here,
    /// On the host of the container or the sandbox.
    Host,
    /// In Windows, outside WSL.
    Windows,
}

/// What to do about a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cure {
    /// In a sentence or two.
    pub text: String,
    /// A line to copy: for a POSIX shell on Linux and in WSL, for PowerShell on Windows.
    pub command: Option<String>,
    /// Where to run it.
    pub place: Place,
    /// What it takes beside the command.
    pub needs: Needs,
}

/// What a check belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The card and its driver.
    Card,
    /// The right to use it.
    Access,
    /// Windows, WSL, containers.
    Platform,
    /// Kernel, modules, firmware.
    Kernel,
    /// The kernel's log.
    KernelLog,
    /// Settings of the environment.
    Settings,
    /// Several cards in one machine.
    Cards,
    /// Memory of card and machine.
    Memory,
    /// Processor, bus and disk.
    Hardware,
    /// A Python environment.
    Environment,
}

/// Makes every check. `environments` are those that the user asked about; without any, nothing is said of packages.
///
/// It reads no file and costs well under a millisecond; what takes time is detection and
/// [`Surroundings::read`].
pub fn doctor(
    system: &System,
    knowledge: &Knowledge,
    rules: &Rules,
    around: &Surroundings,
    environments: &[PythonEnvironment],
) -> Diagnosis {
    let subject = Subject {
        system,
        targets: &knowledge.targets,
        rules,
        around,
        environments,
    };
    let mut checks = Vec::new();
    let mut not_applicable = Vec::new();
    for spec in CHECKS {
        let outcomes: Vec<(Option<String>, Outcome)> = match spec.run {
            Run::Machine(run) => vec![(None, run(&subject))],
            Run::Card(run) => {
                let cards = system.gpus.iter();
                cards
                    .map(|gpu| (Some(card_name(gpu)), run(&subject, gpu)))
                    .collect()
            }
            Run::Environment(run) => {
                let all = environments.iter();
                all.map(|env| (Some(env.name()), run(&subject, env))).collect()
            }
        };
        let before = checks.len();
        for (about, outcome) in outcomes {
            let outcome = match outcome {
                Outcome::Ok(_) if spec.group == Group::Settings && subject.environment_unread() => {
                    Outcome::Unknown(ENVIRONMENT_UNREAD.to_owned())
                }
                outcome => outcome,
            };
            checks.extend(spec.check(about, outcome));
        }
        if checks.len() == before {
            not_applicable.push(spec.id.to_owned());
        }
    }
    checks.sort_by_key(place_in_list);
    let verdict = verdict(&subject, &checks);
    Diagnosis {
        schema: DIAGNOSIS_SCHEMA,
        verdict,
        opening: opening(&subject, verdict, &checks),
        next: next_step(verdict, &checks),
        checks,
        not_applicable,
    }
}

/// Blocking ones first, the cheap before those that need a reboot; then what costs speed, then what keeps bigger models
/// off, then notes; among these everything that needs a reboot or the BIOS comes last.
fn place_in_list(check: &Check) -> (u8, Needs, u8, Needs) {
    let needs = check.cure.as_ref().map_or(Needs::Nothing, |cure| cure.needs);
    match (check.status, check.stops) {
        (Status::Fail | Status::Warn, Some(Stops::Recipe)) => (0, Needs::Nothing, 0, needs),
        (Status::Fail | Status::Warn, stops) => {
            let heavy = needs.max(Needs::LogOut);
            let weight = stops.map_or(3, |stops| stops as u8);
            (1, heavy, weight, needs)
        }
        (Status::Unknown, _) => (2, Needs::Nothing, 0, Needs::Nothing),
        (Status::Ok, _) => (3, Needs::Nothing, 0, Needs::Nothing),
    }
}

fn verdict(subject: &Subject<'_>, checks: &[Check]) -> Verdict {
    let stops = |what: Stops| checks.iter().any(|check| check.stops == Some(what));
    if stops(Stops::Recipe) {
        Verdict::Blocked
    } else if subject.nothing_was_read() {
        Verdict::Unknown
    } else if stops(Stops::Speed) {
        Verdict::ReadyButSlower
    } else {
        Verdict::Ready
    }
}

fn opening(subject: &Subject<'_>, verdict: Verdict, checks: &[Check]) -> String {
    let of = |what: Stops| checks.iter().filter(move |check| check.stops == Some(what));
    let trains_on = subject.trains_on();
    let mut line = match verdict {
        Verdict::Blocked => {
            let count = of(Stops::Recipe).count();
            let first = of(Stops::Recipe).next().map_or("", |check| &check.title);
            match count {
                1 => format!("blocked: {trains_on} cannot train yet, because of one thing: {first}"),
                _ => format!(
                    "blocked: {trains_on} cannot train yet, because of {count} things, first: {first}"
                ),
            }
        }
        Verdict::ReadyButSlower => {
            let count = of(Stops::Speed).count();
            let first = of(Stops::Speed).next().map_or("", |check| &check.title);
            match count {
                1 => format!("ready but slower: {trains_on} trains; one thing costs speed: {first}"),
                _ => {
                    format!("ready but slower: {trains_on} trains; {count} things cost speed, first: {first}")
                }
            }
        }
        Verdict::Ready => format!("ready: {trains_on} trains"),
        Verdict::Unknown => "not known: nothing of this machine could be read".to_owned(),
    };
    let unknown = checks
        .iter()
        .filter(|check| check.status == Status::Unknown)
        .count();
    if unknown > 0 && verdict != Verdict::Unknown {
        let checks = if unknown == 1 { "check" } else { "checks" };
        line = format!("{line} ({unknown} {checks} could not be made)");
    }
    line
}

fn next_step(verdict: Verdict, checks: &[Check]) -> NextStep {
    let wanted = match verdict {
        Verdict::Blocked => Some(Stops::Recipe),
        Verdict::ReadyButSlower => Some(Stops::Speed),
        Verdict::Ready | Verdict::Unknown => None,
    };
    // A reboot for a little more speed is not what comes next while the recipe runs.
    let most = if verdict == Verdict::Blocked {
        Needs::Bios
    } else {
        Needs::LogOut
    };
    let cured = checks
        .iter()
        .filter(|check| wanted.is_some() && check.stops == wanted)
        .find_map(|check| {
            let cure = check.cure.as_ref().filter(|cure| cure.needs <= most)?;
            Some(NextStep {
                text: cure.text.clone(),
                command: cure.command.clone(),
                check: Some(check.id.clone()),
                needs: cure.needs,
            })
        });
    let otherwise = |text: &str, command: Option<&str>| NextStep {
        text: text.to_owned(),
        command: command.map(str::to_owned),
        check: None,
        needs: Needs::Nothing,
    };
    match (cured, verdict) {
        (Some(step), _) => step,
        (None, Verdict::Blocked) => otherwise("Read the first finding below; no command cures it.", None),
        (None, Verdict::Unknown) => otherwise(
            "Run this on the machine itself, or on a capture of it.",
            Some("tunesmith capture"),
        ),
        (None, _) => otherwise("See what would be installed and run.", Some("tunesmith plan")),
    }
}

impl Cure {
    pub(crate) fn new(text: impl Into<String>) -> Cure {
        Cure {
            text: text.into(),
            command: None,
            place: Place::Here,
            needs: Needs::Nothing,
        }
    }

    pub(crate) fn run(mut self, command: impl Into<String>) -> Cure {
        self.command = Some(command.into());
        self
    }

    pub(crate) fn run_if_known(self, command: Option<&str>) -> Cure {
        match command {
            Some(command) => self.run(command),
            None => self,
        }
    }

    pub(crate) fn at(mut self, place: Place) -> Cure {
        self.place = place;
        self
    }

    pub(crate) fn needs(mut self, needs: Needs) -> Cure {
        self.needs = needs;
        self
    }
}

impl checks::Spec {
    fn check(&self, about: Option<String>, outcome: Outcome) -> Option<Check> {
        let mut check = Check {
            id: self.id.to_owned(),
            about,
            group: self.group,
            title: self.title.to_owned(),
            status: Status::Ok,
            found: String::new(),
            means: String::new(),
            cure: None,
            sources: self.sources.iter().map(|&source| source.to_owned()).collect(),
            stops: None,
        };
        match outcome {
            Outcome::NotApplicable => return None,
            Outcome::Ok(found) => check.found = found,
            Outcome::Unknown(found) => {
                check.status = Status::Unknown;
                check.found = found;
            }
            Outcome::Trouble(trouble) => {
                let Trouble {
                    stops,
                    found,
                    means,
                    cure,
                    sources,
                } = *trouble;
                check.status = match stops {
                    Some(Stops::Recipe) => Status::Fail,
                    _ => Status::Warn,
                };
                check.stops = stops;
                check.found = found;
                check.means = means;
                check.cure = cure;
                // Where a row of the rules decided, its source is the one that counts.
                if !sources.is_empty() {
                    check.sources = sources;
                }
            }
        }
        Some(check)
    }
}

#[cfg(test)]
mod tests;
