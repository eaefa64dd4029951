//! `detect`, `doctor`, `plan`, `explain` and `capture`: what this machine is, what is wrong, what to do and why. They
//! change nothing but the file that `capture` writes.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tunesmith_probe::{CaptureOptions, LIVE, System};
use tunesmith_setup::Folders;
use tunesmith_setup::doctor::{self, PythonEnvironment, Rules, Surroundings, Verdict};
use tunesmith_setup::environments::Engine;
use tunesmith_setup::explain;
use tunesmith_setup::knowledge::{self, Knowledge, Os};
use tunesmith_setup::plan::{self, DeviceChoice, PlanRequest, Shell};

use crate::args::{self, PlanEngine, PlanForm, PlanSystem};
use crate::errors::CliError;
use crate::format::size;
use crate::{Done, system_text};

pub(crate) fn detect(args: &args::Detect) -> Result<Done, CliError> {
    let system = detected(&args.machine)?;
    Ok(Done::ok(system_text::text(&system), to_json(&system)))
}

pub(crate) fn doctor(args: &args::Doctor) -> Result<Done, CliError> {
    let (system, knowledge) = look(&args.machine)?;
    let rules = Rules::load(args.machine.knowledge.as_deref())?;
    let environments: Vec<PythonEnvironment> = args
        .environments
        .iter()
        .map(|folder| PythonEnvironment::read(folder))
        .collect();
    let around = Surroundings::of(root(&args.machine), &system, &knowledge, &Folders::from_env()?);
    let diagnosis = doctor::doctor(&system, &knowledge, &rules, &around, &environments);
    Ok(Done {
        text: doctor::text(&diagnosis, args.verbose),
        json: to_json(&diagnosis),
        status: u8::from(diagnosis.verdict == Verdict::Blocked),
    })
}

pub(crate) fn plan(args: &args::Plan) -> Result<Done, CliError> {
    let (system, knowledge) = look(&args.machine)?;
    let mut request = request(&args.choice, system.live)?;
    request.system = args.system.map(|system| match system {
        PlanSystem::Linux => Os::Linux,
        PlanSystem::Wsl => Os::Wsl,
        PlanSystem::Windows => Os::Windows,
    });
    let plans = plan::plans(&system, &knowledge, &request)?;
    let parts: Vec<String> = plans
        .iter()
        .map(|plan| match args.form {
            PlanForm::Text => plan::text(plan),
            PlanForm::Bash => plan::script(plan, Shell::Bash),
            PlanForm::Powershell => plan::script(plan, Shell::PowerShell),
            PlanForm::Uv => plan::uv_lines(plan).join("\n"),
        })
        .collect();
    Ok(Done::ok(parts.join("\n\n"), json!({ "plans": plans })))
}

pub(crate) fn explain(args: &args::Explain) -> Result<Done, CliError> {
    let system = detected(&args.machine)?;
    let faults = &knowledge::faults(args.machine.knowledge.as_deref())?;
    let explanation = if let Some(text) = &args.text {
        explain::explain(text, Some(&system), faults)
    } else if let Some(path) = &args.file {
        let unreadable = |source| CliError::Unreadable {
            path: path.clone(),
            source,
        };
        let file = File::open(path).map_err(unreadable)?;
        explain::explain_reader(BufReader::new(file), Some(&system), faults).map_err(unreadable)?
    } else {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            // Whoever started it without a file would otherwise wait for it.
            let _ = writeln!(
                io::stderr(),
                "paste the text, then end it with Ctrl-D (Windows: Ctrl-Z and Enter)"
            );
        }
        let unreadable = |source| CliError::Unreadable {
            path: PathBuf::from("standard input"),
            source,
        };
        explain::explain_reader(stdin.lock(), Some(&system), faults).map_err(unreadable)?
    };
    Ok(Done::ok(explain::text(&explanation), to_json(&explanation)))
}

pub(crate) fn capture(args: &args::Capture) -> Result<Done, CliError> {
    let system = detected(&args.machine)?;
    let options = CaptureOptions {
        overwrite: args.overwrite,
    };
    let summary = tunesmith_probe::capture(root(&args.machine), &system, &args.destination, options)?;
    let mut lines = vec![format!(
        "Wrote {}: {} files, {}",
        summary.path.display(),
        summary.files,
        size(summary.bytes)
    )];
    if summary.redacted.is_empty() {
        lines.push("  nothing had to be taken out".to_owned());
    } else {
        let taken = summary.redacted.iter().map(|(what, times)| {
            let name = to_json(what).as_str().unwrap_or_default().replace('_', " ");
            format!("{name} {times}x")
        });
        lines.push(format!("  taken out: {}", taken.collect::<Vec<_>>().join(", ")));
    }
    lines.extend(
        summary
            .left_out
            .iter()
            .map(|note| format!("  left out {}: {}", note.path, note.text)),
    );
    lines.push(
        "Look at it before you send it. It is a machine for --root of detect, doctor, plan and explain"
            .to_owned(),
    );
    Ok(Done::ok(lines.join("\n"), to_json(&summary)))
}

/// The machine.
fn detected(machine: &args::Machine) -> Result<System, CliError> {
    let root = root(machine);
    // A mistyped folder would otherwise be an unknown machine.
    if !root.is_dir() {
        let source = io::Error::from(io::ErrorKind::NotADirectory);
        return Err(CliError::Unreadable {
            path: root.to_owned(),
            source,
        });
    }
    let cards = knowledge::cards(machine.knowledge.as_deref())?;
    Ok(tunesmith_probe::detect(root, &cards))
}

/// The machine, and the knowledge to judge it by.
pub(super) fn look(machine: &args::Machine) -> Result<(System, Knowledge), CliError> {
    Ok((detected(machine)?, Knowledge::load(machine.knowledge.as_deref())?))
}

fn root(machine: &args::Machine) -> &Path {
    machine.root.as_deref().unwrap_or(Path::new(LIVE))
}

/// What a plan is asked for; a torch on this disk counts for this machine alone.
pub(super) fn request(choice: &args::PlanChoice, live: bool) -> Result<PlanRequest, CliError> {
    let mut request = PlanRequest::new(engine(choice.engine));
    if let Some(card) = &choice.card {
        request.device = DeviceChoice::Card(card.clone());
    }
    request.build.clone_from(&choice.build);
    request.package_set.clone_from(&choice.packages);
    if live {
        request = request.with_torches_here(&Folders::from_env()?);
    }
    Ok(request)
}

fn engine(engine: PlanEngine) -> Engine {
    match engine {
        PlanEngine::Native => Engine::Native,
        PlanEngine::Hf => Engine::Hf,
        PlanEngine::Unsloth => Engine::Unsloth,
    }
}

/// These types are strings, numbers and lists of them, which always become JSON.
pub(super) fn to_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
