//! `setup` and `env`: carrying out a plan, and the environments that come of it. Nothing is installed before it was
//! shown with its size, and agreed to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::json;
use tunesmith_lab::fit::Pause;
use tunesmith_setup::environments::{self, Engine, Environment, InstallSpec};
use tunesmith_setup::plan::{self, Plan};
use tunesmith_setup::process::Cancel;
use tunesmith_setup::{Folders, Setup};

use super::machine::{look, request, to_json};
use crate::Done;
use crate::args;
use crate::consent::agreed;
use crate::errors::CliError;
use crate::format::{or_dash, size, table};
use crate::terminal::Terminal;

pub(crate) fn set_up(args: &args::SetUp, cancel: &Cancel, terminal: &mut Terminal) -> Result<Done, CliError> {
    let machine = args::Machine {
        root: None,
        knowledge: args.knowledge.clone(),
    };
    let (system, knowledge) = look(&machine)?;
    let plan = plan::plan(&system, &knowledge, &request(&args.choice, system.live)?)?;
    let Some(spec) = &plan.install else {
        return Ok(nothing_to_install(&plan));
    };
    let setup = setup(cancel)?;
    if !args.apply {
        // Without uv there is none to ask for its version either; its name stands for it in the commands.
        let uv = setup.find_uv().unwrap_or_else(|| PathBuf::from("uv"));
        let commands = setup.preview(&uv, spec, &mut |_| {})?;
        let text = format!(
            "{}\n\nThese commands would run:\n{}\n\nCarry it out: tunesmith setup{} --apply",
            plan::text(&plan),
            indented(&commands),
            engine_option(plan.engine),
        );
        return Ok(Done::ok(
            text,
            json!({ "plan": plan, "commands": commands, "environment": null }),
        ));
    }
    let environment = install(&setup, spec, args.yes, terminal)?;
    let text = format!(
        "The {} engine now uses the environment {}\n  {}, {} on disk{}",
        environment.engine.name(),
        environment.name,
        environment.folder.display(),
        size(environment.stamp.disk_bytes),
        unknown(&environment)
    );
    Ok(Done::ok(
        text,
        json!({ "plan": plan, "commands": environment.stamp.commands, "environment": environment }),
    ))
}

/// Makes the environment, after a yes.
pub(super) fn install(
    setup: &Setup,
    spec: &InstallSpec,
    yes: bool,
    terminal: &mut Terminal,
) -> Result<Environment, CliError> {
    let what = format!(
        "{} is to be installed: {} over the network, {} on disk",
        spec.name,
        size_if_known(spec.download_bytes()),
        size_if_known(spec.disk_bytes()),
    );
    if !yes && !agreed(&format!("{what}\nInstall it now?")) {
        return Err(CliError::NoConsent(what));
    }
    let mut pause = Pause::new(setup.folders.data());
    let environment = setup.carry_out(spec, &mut |report| {
        pause.before_command(report, &setup.cancel, |text| terminal.note(text));
        terminal.installing(report);
    })?;
    terminal.finish();
    Ok(environment)
}

/// Set-up that this program's Ctrl-C stops, and whose children do not outlive this program.
pub(super) fn setup(cancel: &Cancel) -> Result<Setup, CliError> {
    let mut setup = Setup::new(Folders::from_env()?);
    setup.cancel = cancel.clone();
    setup.guard = guard();
    Ok(setup)
}

/// This program as the guard of what set-up starts.
pub(super) fn guard() -> Option<Vec<OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![
        program.into(),
        OsString::from("guard"),
        OsString::from("--"),
    ])
}

fn nothing_to_install(plan: &Plan) -> Done {
    let text = match plan.route().and_then(|route| route.on_disk.as_deref()) {
        Some(site) => format!(
            "Nothing has to be installed: the torch in {} fits\n{}",
            site.display(),
            in_use(site)
        ),
        None => format!(
            "{}\n\nNothing can be installed: {}",
            plan::text(plan),
            plan.verdict.reason
        ),
    };
    Done::ok(text, json!({ "plan": plan, "commands": [], "environment": null }))
}

/// How a torch that lies outside the app's own environments is used.
fn in_use(site: &Path) -> String {
    let folders = Folders::from_env().ok();
    let found = folders.as_ref().and_then(tunesmith_setup::find_torch);
    if found.as_deref() == Some(site) {
        "It is what the engine uses already".to_owned()
    } else {
        format!("Use it: TUNESMITH_TORCH={}", site.display())
    }
}

pub(crate) fn environments(args: &args::Environments) -> Result<Done, CliError> {
    let folders = Folders::from_env()?;
    match args {
        args::Environments::List => list(&folders),
        args::Environments::Diff { a, b } => {
            let diff = environments::diff(&folders, a, b)?;
            Ok(Done::ok(diff.to_text(), to_json(&diff)))
        }
        args::Environments::Use { name } => {
            let environment = environments::choose(&folders, name)?;
            let text = format!("The {} engine now uses {name}", environment.engine.name());
            Ok(Done::ok(text, json!({ "environment": environment })))
        }
        args::Environments::Remove { name, yes } => {
            let environment = environments::find(&folders, name)?;
            let what = format!(
                "{name}, {} in {}",
                size(environment.stamp.disk_bytes),
                environment.folder.display()
            );
            if !yes && !agreed(&format!("{what}\nRemove it?")) {
                return Err(CliError::NoConsent(what));
            }
            environments::remove(&folders, name, false)?;
            Ok(Done::ok(format!("Removed {name}"), json!({ "removed": name })))
        }
    }
}

fn list(folders: &Folders) -> Result<Done, CliError> {
    let listing = environments::list(folders);
    let mut used = Vec::new();
    for engine in [Engine::Native, Engine::Hf, Engine::Unsloth] {
        used.extend(environments::active(folders, engine)?.map(|environment| environment.name));
    }
    let mut rows: Vec<Vec<String>> = listing
        .environments
        .iter()
        .map(|environment| {
            let in_use = used.contains(&environment.name);
            vec![
                environment.name.clone(),
                environment.engine.name().to_owned(),
                or_dash(environment.stamp.torch.clone()),
                environment.stamp.python.clone(),
                size(environment.stamp.disk_bytes),
                if in_use { "in use" } else { "" }.to_owned(),
            ]
        })
        .collect();
    rows.extend(listing.unreadable.iter().map(|folder| {
        vec![
            folder.name.clone(),
            "–".to_owned(),
            "–".to_owned(),
            "–".to_owned(),
            "–".to_owned(),
            folder.detail.clone(),
        ]
    }));
    let text = if rows.is_empty() {
        "No environments yet; `tunesmith setup --apply` makes one".to_owned()
    } else {
        format!(
            "{}\n\nfolder: {}",
            table(&["environment", "engine", "torch", "Python", "size", ""], &rows),
            folders.environments().display()
        )
    };
    let json = json!({
        "folder": folders.environments(),
        "environments": listing.environments,
        "unreadable": listing.unreadable,
        "used": used,
    });
    Ok(Done::ok(text, json))
}

fn indented(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn engine_option(engine: Engine) -> String {
    match engine {
        Engine::Native => String::new(),
        other => format!(" --engine {}", other.name()),
    }
}

fn size_if_known(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "an unknown amount".to_owned(), size)
}

/// What the check of the finished environment could not tell.
fn unknown(environment: &Environment) -> String {
    environment
        .stamp
        .unknown
        .iter()
        .map(|text| format!("\n  not checked: {text}"))
        .collect::<Vec<_>>()
        .concat()
}
