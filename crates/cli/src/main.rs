//! `tunesmith`: everything that the app does, headless. The library `tunesmith-lab` leads the runs; this program
//! reads the command line, shows progress on stderr, and prints results, or one JSON object, on stdout.

mod args;
mod commands;
mod consent;
mod errors;
mod format;
mod run_json;
mod system_text;
mod terminal;

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use serde_json::Value;
use tunesmith_lab::{
    pipeline::{LabError, Settings},
    stop::StopToken,
    supervisor::EngineLocation,
};
use tunesmith_protocol::StopHow;
use tunesmith_setup::process::Cancel;

use args::{Cli, Command, Data, Experiments, Global, Knowledge, Models, Runs, TrainingEngine};
use errors::{CliError, exit_code};
use terminal::Terminal;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.global.json;
    match run(cli) {
        Ok(done) => match done.print(json) {
            Ok(()) => ExitCode::from(done.status),
            // Whoever reads our output has gone; there is nobody to tell.
            Err(_) => ExitCode::from(1),
        },
        Err(error) => {
            errors::print(&error, json);
            ExitCode::from(exit_code(&error))
        }
    }
}

/// What a command has to say.
struct Done {
    /// For people.
    text: String,
    /// For programs.
    json: Value,
    /// Exit status.
    status: u8,
}

impl Done {
    fn ok(text: String, json: Value) -> Self {
        Self {
            text,
            json,
            status: 0,
        }
    }

    fn print(&self, json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            writeln!(out, "{}", serde_json::to_string_pretty(&self.json)?)?;
        } else if !self.text.is_empty() {
            writeln!(out, "{}", self.text.trim_end())?;
        }
        out.flush()
    }
}

fn run(cli: Cli) -> Result<Done, CliError> {
    if let Ok(folders) = tunesmith_setup::Folders::from_env() {
        tunesmith_setup::updates::use_fetched_knowledge(&folders);
    }
    let global = cli.global;
    let mut terminal = Terminal::new(global.quiet);
    match cli.command {
        Command::Quickstart(args) => commands::quickstart(&args, &global, &on_signals()?, &mut terminal),
        Command::Calibrate(args) => commands::calibrate(&args, &settings(&global)?, &mut terminal),
        Command::Train(args) => {
            let settings = settings(&global)?;
            let settings = Settings {
                evaluate: !args.no_eval,
                trainer: trainer(args.engine, &settings)?,
                ..settings
            };
            commands::train(&args, &settings, &mut terminal)
        }
        Command::Fit(args) => fit(&args, &global, &mut terminal),
        Command::Eval(args) => commands::eval(&args, &settings(&global)?, &mut terminal),
        Command::Generate(args) => commands::generate(&args, &settings(&global)?, &mut terminal),
        Command::Runs(Runs::List) => commands::list_runs(),
        Command::Runs(Runs::Show { run }) => commands::show_run(&run),
        Command::Runs(Runs::Resume { run }) => commands::resume(&run, &settings(&global)?, &mut terminal),
        Command::Report(args) => commands::report(&args, &global, &mut terminal),
        Command::Experiment(Experiments::List) => commands::list_experiments(),
        Command::Experiment(Experiments::Show { experiment, beside }) => {
            commands::show_experiment(&experiment, beside.as_deref())
        }
        Command::Experiment(command) => {
            commands::run_experiment(&command, &settings(&global)?, &mut terminal)
        }
        Command::Validate(args) if args.smoke => {
            commands::smoke_test(&args, &settings(&global)?, &mut terminal)
        }
        Command::Validate(args) => commands::validate(&args),
        Command::Data(Data::Show {
            path,
            columns,
            examples,
        }) => commands::show_data(&path, columns, examples),
        Command::Models(Models::Fetch { id, yes }) => {
            commands::fetch_model(&id, yes, &on_signals()?, &mut terminal)
        }
        Command::Models(Models::List) => commands::list_models(),
        Command::Detect(args) => commands::detect(&args),
        Command::Doctor(args) => commands::doctor(&args),
        Command::Plan(args) => commands::plan(&args),
        Command::Setup(args) => commands::set_up(&args, &on_signals()?.cancel, &mut terminal),
        Command::Explain(args) => commands::explain(&args),
        Command::Env(args) => commands::environments(&args),
        Command::Capture(args) => commands::capture(&args),
        Command::Knowledge(Knowledge::Show) => commands::show_knowledge(),
        Command::Knowledge(Knowledge::Update) => commands::update_knowledge(),
        Command::Completions { shell } => Ok(commands::completions(shell)),
        Command::Man { folder } => commands::manual(&folder),
        Command::Serve { stdio: _, card } => commands::serve(&global, card),
        Command::Guard { command } => guard(&command),
    }
}

/// A prediction needs no engine; what is tried needs one.
fn fit(args: &args::FitArgs, global: &Global, terminal: &mut Terminal) -> Result<Done, CliError> {
    if args.search.is_none() && !args.measure {
        return commands::fit(args, global.device.as_deref(), global.memory_limit);
    }
    let settings = settings(global)?;
    let settings = Settings {
        trainer: trainer(args.engine, &settings)?,
        ..settings
    };
    match args.search {
        Some(what) => commands::search_fit(args, what, &settings, terminal),
        None => commands::measure_fit(args, &settings, terminal),
    }
}

/// The engine that trains, where it is another one.
fn trainer(engine: TrainingEngine, settings: &Settings) -> Result<Option<EngineLocation>, CliError> {
    Ok(match engine {
        TrainingEngine::Native => None,
        TrainingEngine::Hf => Some(EngineLocation::transformers(&settings.folders).map_err(LabError::from)?),
    })
}

fn settings(global: &Global) -> Result<Settings, CliError> {
    let stop = on_signals()?.stop;
    Ok(with_global(Settings::from_env()?, global, stop))
}

/// Settings with what every command takes.
fn with_global(settings: Settings, global: &Global, stop: StopToken) -> Settings {
    Settings {
        device: global.device.clone(),
        threads: global.threads.map(usize::from),
        wait: global.wait,
        memory_limit: global.memory_limit,
        stop,
        ..settings
    }
}

/// Runs a command of set-up, and ends with it when this program's standard input closes.
fn guard(words: &[OsString]) -> Result<Done, CliError> {
    let status = tunesmith_setup::process::guard(words).map_err(CliError::Guard)?;
    Ok(Done {
        status,
        ..Done::ok(String::new(), Value::Null)
    })
}

/// What Ctrl-C reaches.
struct Signals {
    /// Runs.
    stop: StopToken,
    /// Set-up and what it starts.
    cancel: Cancel,
}

/// The first Ctrl-C ends the step at hand and keeps what was learned; the second does not wait. Set-up stops at once.
fn on_signals() -> Result<Signals, CliError> {
    let signals = Signals {
        stop: StopToken::new(),
        cancel: Cancel::default(),
    };
    let (stop, cancel) = (signals.stop.clone(), signals.cancel.clone());
    ctrlc::set_handler(move || {
        cancel.cancel();
        let (how, text) = if stop.asked().is_none() {
            (
                StopHow::Save,
                "stopping after this step and keeping what was learned; Ctrl-C again stops at once",
            )
        } else {
            (StopHow::Now, "stopping at once")
        };
        stop.ask(how);
        // Without a terminal there is nobody to read it.
        let _ = writeln!(io::stderr(), "\n{text}");
    })
    .map_err(CliError::signals)?;
    Ok(signals)
}
