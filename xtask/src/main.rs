//! The commands of the README: `cargo xtask quickstart` and `cargo xtask test` each do all the set-up that they
//! need on a fresh machine, then their work. Kept light, since it is compiled before anything can be said: it
//! depends on the set-up library alone and starts cargo for the rest.

mod check_report;
mod console;
mod deny;
mod dependencies;
mod dist;
mod fit;
mod fuzz;
mod gain;
mod levers;
mod packages;
mod prepare;
mod shell;
mod soak;
mod test;
mod window;
mod workspace;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use tunesmith_setup::process::Output;
use tunesmith_setup::{SetupError, process};

use crate::console::Stages;
use crate::prepare::Prepared;
use crate::workspace::Workspace;

/// Sets this machine up for Tunesmith, builds it, and runs it or its tests
///
/// Everything that is downloaded lies outside the clone, in `<user cache>/tunesmith`; what is there already is
/// not fetched again. Progress goes to standard error.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Set up, build, then calibrate, fine-tune, evaluate and report: the main job from one command
    Quickstart(Quickstart),
    /// Set up, build, and open the window
    App(App),
    /// Set up what the tests need, then run every check: format, clippy, tests, doc tests, docs
    Test(Consent),
    /// Set up only: system packages, uv, the torch runtime, the default model
    Setup(Consent),
    /// Print the environment for cargo commands that build or run the engine, for `eval "$(cargo xtask env)"`
    Env,
    /// Compare the engine with transformers and PEFT on the same weights
    ///
    /// Fetches a Python environment of about 2.5 GiB the first time, and with npm the tokenizers of four model families, 90 MiB.
    Parity(Reference),
    /// Measure speed and memory against another engine on the same model and rows, in alternating pairs
    #[command(subcommand)]
    Bench(Bench),
    /// Check a device: loading, values, ten steps as on the processor, out of memory, a first look at speed
    ///
    /// For any machine with torch 2.11.0; on one without a GPU it checks the processor with small sizes. At most 8 minutes.
    DeviceCheck(DeviceCheck),
    /// Measure the gain of the quickstart's recipe on the seeds 3407, 42 and 1234, all 300 questions each
    ///
    /// Writes docs/measured/three-seed-gain.json and .md. Takes about half an hour on two cores.
    Gain(Record),
    /// Feed made-up inputs to all that reads files or lines from outside, and count what breaks
    ///
    /// Needs cargo-fuzz. A million inputs take minutes for each target.
    Fuzz(fuzz::Fuzz),
    /// Check the page of a report: mark-up, access for everybody, three widths, both themes, print
    ///
    /// Needs npm, which fetches two packages of 20 MiB, and Chromium.
    CheckReport(check_report::CheckReport),
    /// Kill a training again and again, go on each time, and compare with one that was left alone
    Soak(soak::Soak),
    /// Hold licences, unwanted crates and sources of all dependencies to deny.toml
    Deny(deny::Deny),
    /// Make what users install, and test it: archive, deb, rpm here, the others by Tauri's bundler
    ///
    /// Writes target/dist/packages with SHA256SUMS. The first build takes about 20 minutes on two cores.
    Dist(dist::Dist),
    /// Render the app's icon in all sizes and forms from its drawings in assets/icons
    Icons,
    /// Run a command that ends when standard input closes (used by this program itself)
    #[command(hide = true)]
    Guard {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Args)]
pub(crate) struct Consent {
    /// Install missing system packages without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args)]
struct Quickstart {
    #[command(flatten)]
    consent: Consent,
    /// Score all 300 test questions instead of 100
    #[arg(long)]
    full: bool,
    /// The seed of the training
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// What trains: cpu, or cuda:0 (ROCm cards are called cuda too); without it the plan for this machine decides
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Print the result as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// Further arguments for `tunesmith quickstart`
    #[arg(last = true, value_name = "ARGUMENTS")]
    extra: Vec<OsString>,
}

#[derive(Args)]
struct App {
    #[command(flatten)]
    consent: Consent,
    /// Further arguments for the window, such as `--renderer glow`
    #[arg(last = true, value_name = "ARGUMENTS")]
    extra: Vec<OsString>,
}

/// A comparison with the reference environment's transformers and PEFT.
#[derive(Args)]
struct Reference {
    #[command(flatten)]
    consent: Consent,
    /// Print the result as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// Further arguments for the script in xtask/python
    #[arg(last = true, value_name = "ARGUMENTS")]
    extra: Vec<OsString>,
}

#[derive(Subcommand)]
enum Bench {
    /// Against transformers and PEFT
    ///
    /// Fetches a Python environment of about 2.5 GiB the first time. Takes about 40 minutes on two cores, which must be quiet.
    Hf(Reference),
    /// Of the window: charts of a million points, ten thousand runs, a flood of events, the first frame
    Window(Record),
    /// Of the installed app while nothing runs: private memory and wake-ups
    Shell(Record),
    /// Of the engine alone: a training step with levers taken away, one by one and together
    Levers(Record),
    /// Of the memory model: predicted beside measured over 21 settings, and what earlier tries corrected
    ///
    /// Takes about six minutes on two cores. Exit status 1: a prediction was off by more than a tenth, or a corrected one
    /// by more than a twentieth.
    Fit(Record),
}

#[derive(Args)]
struct DeviceCheck {
    #[command(flatten)]
    options: Reference,
    /// The folder that holds the `torch` package to check, with transformers and peft beside it; by default the
    /// reference environment's
    #[arg(long, value_name = "DIR")]
    torch: Option<PathBuf>,
    /// The Python that torch belongs to
    #[arg(long, value_name = "PYTHON", default_value = "python3")]
    python: PathBuf,
}

#[derive(Args)]
struct Record {
    #[command(flatten)]
    consent: Consent,
    /// Print the record as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

/// A stage that ended with a status of its own, which becomes ours.
#[derive(Debug)]
pub(crate) struct ExitWith(pub(crate) u8);

impl std::fmt::Display for ExitWith {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit status {}", self.0)
    }
}

impl std::error::Error for ExitWith {}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(explain(&error)),
    }
}

fn run(task: Task) -> Result<u8> {
    match task {
        Task::Guard { command } => {
            process::guard(&command).with_context(|| format!("{} could not be run", command[0].display()))
        }
        Task::Setup(consent) => {
            let mut stages = Stages::new(Prepared::STAGES);
            Prepared::new(consent.yes, &mut stages)?;
            Ok(0)
        }
        Task::Env => print_env(),
        Task::Test(consent) => test::run(consent.yes),
        Task::Quickstart(quickstart) => run_quickstart(&quickstart),
        Task::App(app) => open_app(&app),
        Task::Parity(options) => {
            let packages = tunesmith_setup::Folders::from_env()?
                .downloads()
                .join("tokenizer-packages");
            compare(&options, "parity", "parity.py", &[("--packages", packages)])
        }
        Task::Bench(Bench::Hf(options)) => {
            let program = Workspace::find()?.cli();
            compare(&options, "bench", "bench_hf.py", &[("--tunesmith", program)])
        }
        Task::Bench(Bench::Window(options)) => window::run(options.consent.yes, options.json),
        Task::Bench(Bench::Shell(options)) => shell::run(options.consent.yes, options.json),
        Task::Bench(Bench::Levers(options)) => levers::run(options.consent.yes, options.json),
        Task::Bench(Bench::Fit(options)) => fit::run(options.consent.yes, options.json),
        Task::DeviceCheck(check) => check_device(&check),
        Task::Gain(gain) => gain::run(gain.consent.yes, gain.json),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::CheckReport(options) => check_report::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Deny(options) => deny::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::Icons => render_icons(),
    }
}

/// The one place that prints an error; returns the exit status.
fn explain(error: &anyhow::Error) -> u8 {
    if let Some(ExitWith(code)) = error.downcast_ref() {
        return *code;
    }
    eprintln!("error: {error:#}");
    let setup: Option<&SetupError> = error.downcast_ref();
    for hint in setup.map(SetupError::hints).unwrap_or_default() {
        eprintln!("hint: {hint}");
    }
    match setup {
        Some(SetupError::Cancelled { .. }) => 130,
        _ => 1,
    }
}

fn run_quickstart(quickstart: &Quickstart) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + 2);
    let prepared = Prepared::new(quickstart.consent.yes, &mut stages)?;
    let workspace = Workspace::find()?;
    workspace.build(&prepared, &[], &mut stages)?;

    let mut command = workspace.tunesmith();
    command.arg("quickstart");
    if quickstart.full {
        command.arg("--full");
    }
    if let Some(seed) = quickstart.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if let Some(device) = &quickstart.device {
        command.args(["--device", device]);
    }
    if quickstart.consent.yes {
        command.arg("--yes");
    }
    if quickstart.json {
        command.arg("--json");
    }
    command.args(&quickstart.extra);
    stages.begin("quickstart", "calibrate, evaluate, train, evaluate, report");
    become_command(command)
}

fn open_app(app: &App) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + 2);
    let prepared = Prepared::new(app.consent.yes, &mut stages)?;
    let workspace = Workspace::find()?;
    workspace.build(&prepared, &["tunesmith-ui"], &mut stages)?;
    let mut command = workspace.window();
    command.args(&app.extra);
    stages.begin("app", "the window is open until you close it");
    become_command(command)
}

/// The last stage takes this process's place where the system allows it: Ctrl-C, signals, standard input and the
/// exit status then are the command's own.
#[cfg(unix)]
fn become_command(mut command: std::process::Command) -> Result<u8> {
    let error = std::os::unix::process::CommandExt::exec(&mut command);
    Err(error).with_context(|| format!("{} could not be started", command.get_program().display()))
}

#[cfg(not(unix))]
fn become_command(mut command: std::process::Command) -> Result<u8> {
    let status = command
        .status()
        .with_context(|| format!("{} could not be started", command.get_program().display()))?;
    Ok(process::exit_code(status))
}

/// Runs a script that compares the engine with transformers and PEFT.
fn compare(options: &Reference, name: &str, script: &str, inputs: &[(&str, PathBuf)]) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + 3);
    let prepared = Prepared::new(options.consent.yes, &mut stages)?;
    let workspace = Workspace::find()?;
    let python = reference_python(&prepared, &workspace, &mut stages)?;
    workspace.build(&prepared, &[], &mut stages)?;

    let mut command = workspace.script(&prepared, &python, script);
    command
        .arg("--torch")
        .arg(&prepared.engine_env.site)
        .arg("--model")
        .arg(&prepared.model);
    for (name, path) in inputs {
        command.arg(name).arg(path);
    }
    command
        .args(options.json.then_some("--json"))
        .args(&options.extra);
    stages.begin(name, "the engine against transformers and PEFT");
    let ended = prepared.run(&command, Output::Shown)?;
    Ok(process::exit_code(ended.status))
}

fn reference_python(prepared: &Prepared, workspace: &Workspace, stages: &mut Stages) -> Result<PathBuf> {
    let requirements = workspace.root.join("xtask/python/requirements.txt");
    prepared.install(stages, "reference environment", |setup, uv, report| {
        setup.ensure_reference(uv, &requirements, report)
    })
}

/// The engine is built against the usual runtime and runs on the torch to check: both are 2.11.0.
fn check_device(check: &DeviceCheck) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + 3);
    let prepared = Prepared::new(check.options.consent.yes, &mut stages)?;
    let workspace = Workspace::find()?;
    let mut command = if let Some(torch) = &check.torch {
        let torch = std::path::absolute(torch)?;
        let env = tunesmith_setup::engine_env(&torch)?;
        let mut command = workspace.script(&prepared, &check.python, "device_check.py");
        env.apply(&mut command);
        command.env("PYTHONPATH", &torch).arg("--torch").arg(&torch);
        command
    } else {
        let python = reference_python(&prepared, &workspace, &mut stages)?;
        let mut command = workspace.script(&prepared, &python, "device_check.py");
        command.arg("--torch").arg(&prepared.engine_env.site);
        command
    };
    workspace.build(&prepared, &[], &mut stages)?;
    command
        .args(check.options.json.then_some("--json"))
        .args(&check.options.extra);
    stages.begin("device check", "at most eight minutes");
    let ended = prepared.run(&command, Output::Shown)?;
    Ok(process::exit_code(ended.status))
}

fn render_icons() -> Result<u8> {
    let workspace = Workspace::find()?;
    let status = workspace
        .cargo()
        .args([
            "run",
            "--quiet",
            "-p",
            "tunesmith-xtask",
            "--example",
            "render_icons",
            "--",
        ])
        .arg(workspace.root.join("assets/icons"))
        .status()
        .context("cargo could not be started")?;
    Ok(process::exit_code(status))
}

/// Nothing is downloaded here: a shell that evaluates this must not wait for a set-up.
fn print_env() -> Result<u8> {
    let workspace = Workspace::find()?;
    let folders = tunesmith_setup::Folders::from_env()?;
    let site = tunesmith_setup::find_torch(&folders)
        .context("there is no torch runtime yet: run `cargo xtask setup` first, or set TUNESMITH_TORCH")?;
    let env = tunesmith_setup::engine_env(&site)?;
    let name = tunesmith_setup::loader_variable();
    let loader = std::env::join_paths(&env.library_folders)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "export LIBTORCH={}", quoted(site.join("torch").as_os_str()))?;
    // The shell's own value stays behind ours. This process cannot know it: cargo has added its folders.
    writeln!(out, "export {name}={}${{{name}:+:${name}}}", quoted(&loader))?;
    writeln!(
        out,
        "export {}={}",
        tunesmith_setup::env_vars::ENGINE,
        quoted(workspace.engine().as_os_str())
    )?;
    writeln!(
        out,
        "export {}={}",
        tunesmith_setup::env_vars::TORCH,
        quoted(site.as_os_str())
    )?;
    Ok(0)
}

/// For a POSIX shell, whatever stands in the path.
fn quoted(text: &std::ffi::OsStr) -> String {
    format!("'{}'", text.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_after_two_dashes_reach_the_quickstart() {
        let cli = Cli::parse_from([
            "xtask",
            "quickstart",
            "--seed",
            "7",
            "--",
            "--set",
            "train.steps=3",
        ]);
        let Task::Quickstart(quickstart) = cli.command else {
            panic!("another command was read");
        };
        assert_eq!(quickstart.seed, Some(7));
        assert_eq!(quickstart.extra, ["--set", "train.steps=3"]);
    }

    #[test]
    fn a_path_with_a_quote_survives_the_shell() {
        assert_eq!(quoted("/a'b".as_ref()), r"'/a'\''b'");
    }
}
