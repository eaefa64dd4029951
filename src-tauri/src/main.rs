//! `tunesmith-shell`: Tunesmith as it is installed. It holds what must outlive the window, and what an operating system
//! expects of an app: the service that leads trainings, the tray, messages, one instance, updates, the report's window.
//! The window is `tunesmith-ui`, a process of its own (`docs/decisions/2026-12-01-the-shell-hosts-the-service.md`).
//!
//! `state` decides, `shell` carries out, and only `desktop` knows Tauri.

mod awake;
#[cfg(feature = "desktop")]
mod desktop;
mod display;
mod plain;
#[cfg_attr(
    not(feature = "desktop"),
    allow(dead_code, reason = "a terminal shows no report")
)]
mod report;
mod shell;
#[cfg_attr(not(feature = "desktop"), allow(dead_code, reason = "a terminal says less"))]
mod state;
mod task;
#[cfg_attr(not(feature = "desktop"), allow(dead_code, reason = "a terminal has no tray"))]
mod tray;
mod window;

use std::{
    env,
    ffi::OsString,
    path::PathBuf,
    process::ExitCode,
    sync::mpsc::{Sender, channel},
    time::Instant,
};

use anyhow::{Context, Result};
use clap::Parser;
use tunesmith_lab::service::ServiceOptions;
use tunesmith_setup::{Folders, env_vars, process, updates};

use crate::{
    shell::{End, Start},
    state::{Abilities, Event},
    window::WindowProgram,
};

/// Tunesmith: what your graphics card can train, and how fast
///
/// Opens the window, and keeps a run alive when the window closes. Everything that it does, `tunesmith` does in a terminal.
#[derive(Parser)]
#[command(name = "tunesmith-shell", version)]
struct Cli {
    /// What draws the window: wgpu, wgpu-gl, glow or software; without it the best that has worked here
    #[arg(long, value_name = "NAME")]
    renderer: Option<OsString>,
    /// Without tray, messages, report window and updates: for desktops where these fail
    #[arg(long)]
    plain: bool,
    /// Look for an update, install it, and leave
    #[arg(long, conflicts_with = "plain")]
    update: bool,
    /// Print how long the first frame took as JSON, and leave
    #[arg(long, hide = true)]
    first_frame: bool,
    #[command(subcommand)]
    command: Option<Task>,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Show a report, until standard input ends (used by this program itself)
    #[command(hide = true)]
    Report { file: PathBuf },
    /// Run a command that ends when standard input closes (used by this program itself)
    #[command(hide = true)]
    Guard {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let at = Instant::now();
    match run(&Cli::parse(), at) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            shell::say_line(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, at: Instant) -> Result<u8> {
    if let Some(Task::Guard { command }) = &cli.command {
        return process::guard(command).with_context(|| format!("{} could not be run", command[0].display()));
    }
    if !display::is_named(env_vars::read) {
        shell::say_line(display::advice("neither DISPLAY nor WAYLAND_DISPLAY is set").trim_end());
        return Ok(display::NO_DISPLAY_STATUS);
    }
    if let Some(Task::Report { file }) = &cli.command {
        return show_report(file);
    }
    if let Ok(folders) = Folders::from_env() {
        updates::use_fetched_knowledge(&folders);
    }
    let myself = env::current_exe().context("this program's own file is not known")?;
    let (sender, events) = channel();
    on_signals(sender.clone())?;
    let renderer = cli.renderer.iter();
    let start = Start {
        at,
        window: WindowProgram::find(
            renderer
                .flat_map(|name| [OsString::from("--renderer"), name.clone()])
                .collect(),
        ),
        service: ServiceOptions {
            guard: Some(vec![myself.into(), "guard".into(), "--".into()]),
            ..ServiceOptions::default()
        },
        can: Abilities {
            first_frame_only: cli.first_frame,
            ..Abilities::default()
        },
        events,
        sender,
    };
    open(start, cli)
}

#[cfg(feature = "desktop")]
fn open(start: Start, cli: &Cli) -> Result<u8> {
    if cli.plain {
        return Ok(plainly(start));
    }
    desktop::run(start, cli.update)
}

#[cfg(not(feature = "desktop"))]
fn open(start: Start, cli: &Cli) -> Result<u8> {
    anyhow::ensure!(!cli.update, "this program was built without updates");
    Ok(plainly(start))
}

/// Without Tauri.
fn plainly(start: Start) -> u8 {
    let mut terminal = plain::Plain::new(start.sender.clone());
    match shell::run(start, &mut terminal) {
        End::Leave(status) => status,
        // Only an update starts it anew, and there are none here.
        End::Restart => 1,
    }
}

#[cfg(feature = "desktop")]
fn show_report(file: &std::path::Path) -> Result<u8> {
    desktop::show_report(file)
}

#[cfg(not(feature = "desktop"))]
fn show_report(file: &std::path::Path) -> Result<u8> {
    report::read(file)?;
    anyhow::bail!("this program was built without a window for reports");
}

/// Ctrl-C, the end of a session, and whoever else asks this program to end.
fn on_signals(sender: Sender<Event>) -> Result<()> {
    ctrlc::set_handler(move || {
        // A shell that leaves hears nothing more.
        let _ = sender.send(Event::Signal);
    })
    .context("the requests of the system to end cannot be heard")
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
    fn what_stands_behind_the_guard_is_not_read() {
        let cli = Cli::parse_from(["tunesmith-shell", "guard", "--", "uv", "--plain"]);
        match cli.command {
            Some(Task::Guard { command }) => assert_eq!(command, ["uv", "--plain"]),
            _ => panic!("another command was read"),
        }
        assert!(!cli.plain);
    }
}
