//! Which known fault a text shows, why, and what to do about it on this machine.
//!
//! The faults are data (`assets/knowledge/faults.toml`); here a text of any size is read once, line by line, and
//! compared with all of them at the same time. What is found is ranked: errors before warnings before what is
//! harmless, a cause before what follows from it, a text with one meaning before one with several. A text that no
//! row knows gets its general class, and the list of what to collect.

mod conditions;
pub mod faults;
pub mod kernel_log;
mod render;
mod scan;

use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};
use tunesmith_probe::{Platform, System};

use conditions::Here;
use faults::{Advice, Fault};
pub use faults::{Faults, FaultsError, Kind, Sureness};
pub use render::text;
use scan::Scan;

/// Version of the JSON form of [`Explanation`].
pub const EXPLANATION_SCHEMA: u32 = 1;

/// What to collect where nothing known was found.
const COLLECT: [&str; 4] = [
    "the whole output of the program, from its first line: run it as `program 2>&1 | tee log.txt`",
    "this machine, with names taken out: `tunesmith capture`",
    "the versions of the environment's packages: `uv pip list`",
    "what the kernel says of the card: `journalctl -k -b | grep -iE 'amdgpu|kfd|nvrm|xid'`",
];

/// What a text says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// [`EXPLANATION_SCHEMA`] of whoever wrote it.
    pub schema: u32,
    /// What kind of answer this is.
    pub verdict: Verdict,
    /// The answer in one sentence.
    pub summary: String,
    /// Lines that were read.
    pub lines_read: u64,
    /// What was found, the most important first.
    pub findings: Vec<Finding>,
    /// What helps to find out more; empty where a fault is known.
    pub collect: Vec<String>,
}

/// The kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// At least one known fault.
    Known,
    /// Only messages that are known to be harmless.
    Harmless,
    /// A fault of a general class, that no row knows.
    General,
    /// Nothing that looks like a fault.
    Unknown,
    /// There was no text.
    Empty,
}

/// A fault in the text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The fault's name, stable across versions.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// How bad it is.
    pub kind: Kind,
    /// Whether this is a general class, and no known fault.
    pub general: bool,
    /// How sure the text is.
    pub sure: Sureness,
    /// How sure this is, in one sentence, with what the machine says to it.
    pub how_sure: String,
    /// What the machine says to it.
    pub machine: MachineSays,
    /// Lines that show it, from 1; the first few of them.
    pub lines: Vec<u64>,
    /// How many times it was seen.
    pub count: u64,
    /// The first line that shows it, without colours and control characters, shortened.
    pub quote: String,
    /// What it means.
    pub means: String,
    /// What causes it.
    pub causes: Vec<String>,
    /// What to do, the first thing first.
    pub cures: Vec<Cure>,
    /// The fault in this text that probably caused it.
    pub follows_from: Option<String>,
    /// The doctor's checks that look at the same thing.
    pub checks: Vec<String>,
    /// What to collect, for a general class.
    pub collect: Vec<String>,
    /// Where it was read.
    pub source: String,
    /// When that was true.
    pub as_of: String,
}

/// What the machine says to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachineSays {
    /// It was not asked, or does not show it.
    Nothing,
    /// It shows the fault too.
    Confirms,
    /// It shows the opposite.
    Contradicts,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cure {
    /// What to do and why.
    pub text: String,
    /// What on this machine made it apply; empty for advice that always holds.
    pub because: Vec<String>,
    /// The command to copy, one for each system where the system is not known.
    pub commands: Vec<Command>,
}

/// A command to copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The system it is for; `None` where it is the same everywhere.
    pub platform: Option<Platform>,
    /// The command.
    pub command: String,
}

/// Says which known faults `text` shows, and what to do on the machine `system`.
pub fn explain(text: &str, system: Option<&System>, faults: &Faults) -> Explanation {
    let mut scan = Scan::new(faults);
    scan.text(text.as_bytes());
    explanation(&scan, system, faults)
}

/// Like [`explain`], for a text that need not fit into memory, nor be valid UTF-8.
///
/// # Errors
/// When `reader` cannot be read.
pub fn explain_reader(
    reader: impl BufRead,
    system: Option<&System>,
    faults: &Faults,
) -> io::Result<Explanation> {
    let mut scan = Scan::new(faults);
    scan.read(reader)?;
    Ok(explanation(&scan, system, faults))
}

fn explanation(scan: &Scan<'_>, system: Option<&System>, faults: &Faults) -> Explanation {
    let here = Here::new(system);
    let found = ranked(scan, faults);
    let ids: Vec<&str> = found.iter().map(|(fault, _)| fault.id.as_str()).collect();
    let findings: Vec<Finding> = found
        .iter()
        .map(|(fault, hit)| {
            let cause = found
                .iter()
                .find(|(other, _)| other.consequences.contains(&fault.id))
                .map(|(other, _)| other.id.clone())
                .filter(|cause| ids.contains(&cause.as_str()));
            finding(fault, hit, cause, &here)
        })
        .collect();
    let verdict = if !scan.has_text() {
        Verdict::Empty
    } else if findings
        .iter()
        .any(|finding| !finding.general && finding.kind != Kind::Harmless)
    {
        Verdict::Known
    } else if findings.iter().any(|finding| finding.general) {
        Verdict::General
    } else if findings.is_empty() {
        Verdict::Unknown
    } else {
        Verdict::Harmless
    };
    let collect = match verdict {
        Verdict::General | Verdict::Unknown => {
            let of_classes = findings
                .iter()
                .flat_map(|finding| finding.collect.iter().cloned());
            let mut collect: Vec<String> = of_classes.collect();
            for more in COLLECT {
                if !collect.iter().any(|item| item == more) {
                    collect.push(more.to_owned());
                }
            }
            collect
        }
        Verdict::Known | Verdict::Harmless | Verdict::Empty => Vec::new(),
    };
    Explanation {
        schema: EXPLANATION_SCHEMA,
        verdict,
        summary: render::summary(verdict, &findings, scan.lines_read()),
        lines_read: scan.lines_read(),
        findings,
        collect,
    }
}

/// What was seen, the most important first. General classes speak only where no row knows of an error.
fn ranked<'a>(scan: &'a Scan<'a>, faults: &'a Faults) -> Vec<(&'a Fault, &'a scan::Hit)> {
    let mut found: Vec<(&Fault, &scan::Hit)> = faults
        .rows()
        .iter()
        .zip(scan.hits())
        .filter_map(|(fault, hit)| hit.as_ref().map(|hit| (fault, hit)))
        .collect();
    let known_error = found
        .iter()
        .any(|(fault, _)| !fault.general && matches!(fault.kind, Kind::Error | Kind::Silent));
    found.retain(|(fault, _)| !(fault.general && known_error));
    let follows = |fault: &Fault| {
        found
            .iter()
            .any(|(other, _)| other.id != fault.id && other.consequences.contains(&fault.id))
    };
    let mut keyed: Vec<_> = found
        .iter()
        .map(|(fault, hit)| {
            let level = match fault.kind {
                Kind::Error | Kind::Silent => 0,
                Kind::Warning => 1,
                Kind::Harmless => 2,
            };
            let key = (level, fault.general, follows(fault), fault.sure, hit.first_line());
            (key, (*fault, *hit))
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, pair)| pair).collect()
}

fn finding(fault: &Fault, hit: &scan::Hit, follows_from: Option<String>, here: &Here<'_>) -> Finding {
    let says =
        |conditions: &Option<faults::When>| conditions.as_ref().and_then(|conditions| here.holds(conditions));
    let (machine, facts) = if let Some(facts) = says(&fault.confirmed) {
        (MachineSays::Confirms, facts)
    } else if let Some(facts) = says(&fault.contradicted) {
        (MachineSays::Contradicts, facts)
    } else {
        (MachineSays::Nothing, Vec::new())
    };
    let mut cures: Vec<Cure> = fault
        .cure
        .iter()
        .filter_map(|rule| {
            let because = here.holds(&rule.when)?;
            cure(rule, because, here)
        })
        .collect();
    if cures.is_empty() {
        cures.extend(cure(&fault.otherwise, Vec::new(), here));
    }
    Finding {
        id: fault.id.clone(),
        title: fault.title.clone(),
        kind: fault.kind,
        general: fault.general,
        sure: fault.sure,
        how_sure: render::how_sure(fault.sure, machine, &facts),
        machine,
        lines: hit.lines.clone(),
        count: hit.count,
        quote: hit.quote.clone(),
        means: fault.means.clone(),
        causes: fault.causes.clone(),
        cures,
        follows_from,
        checks: fault.checks.clone(),
        collect: fault.collect.clone(),
        source: fault.source.clone(),
        as_of: fault.as_of.clone(),
    }
}

/// The advice with this machine's values in it; `None` where a value that it needs is not known, or where it has
/// no command for this system.
fn cure(advice: &Advice, because: Vec<String>, here: &Here<'_>) -> Option<Cure> {
    let commands = here
        .commands(advice)
        .into_iter()
        .map(|(platform, command)| {
            Some(Command {
                platform,
                command: here.fill(command, &advice.when)?,
            })
        })
        .collect::<Option<Vec<Command>>>()?;
    let no_command_here = commands.is_empty() && !because.is_empty();
    (!no_command_here).then_some(())?;
    Some(Cure {
        text: here.fill(&advice.text, &advice.when)?,
        because,
        commands,
    })
}
