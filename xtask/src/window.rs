//! `cargo xtask bench window`: what the window costs, by its benchmarks, each a program of its own that prints JSON.
//! Nothing here is a test: times depend on the machine, and are read beside each other in one record.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tunesmith_setup::process::Output;

use crate::console::Stages;
use crate::packages::For;
use crate::prepare::Prepared;
use crate::workspace::Workspace;

/// The benchmarks: name in the record, example.
const BENCHES: [(&str, &str); 3] = [
    ("charts", "bench_charts"),
    ("runs", "list_runs"),
    ("flood", "bench_window"),
];

/// How often the window is opened to see how long its first frame takes.
const OPENINGS: usize = 5;

/// Builds and runs all of them.
pub(crate) fn run(yes: bool, json: bool) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + 2 + BENCHES.len());
    let prepared = Prepared::with_packages(For::Tests, yes, &mut stages)?;
    let workspace = Workspace::find()?;
    build(&workspace, &prepared, &mut stages)?;
    let mut record = serde_json::Map::new();
    let mut missed = Vec::new();
    for (name, example) in BENCHES {
        stages.begin(name, example);
        let program = workspace.target.join("debug/examples").join(example);
        let (value, met) = measured(&mut Command::new(program))?;
        record.insert(name.to_owned(), value);
        if !met {
            missed.push(name);
        }
        stages.end(if met {
            "measured"
        } else {
            "measured, and its limit is missed"
        });
    }
    stages.begin(
        "first frame",
        "without the engine, the first of the openings left out",
    );
    record.insert("first_frame".to_owned(), first_frames(&workspace)?);
    stages.end("measured");
    record.insert("missed".to_owned(), json!(missed));
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", Value::Object(record))?;
    } else {
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
    }
    Ok(u8::from(!missed.is_empty()))
}

fn build(workspace: &Workspace, prepared: &Prepared, stages: &mut Stages) -> Result<()> {
    stages.begin("build", "the window, its service, and the benchmarks");
    let mut command = workspace.cargo();
    command.args([
        "build",
        "--workspace",
        "--bin",
        "tunesmith-ui",
        "--bin",
        "tunesmith",
    ]);
    for (_, example) in BENCHES {
        command.args(["--example", example]);
    }
    let ended = prepared.run(&command, Output::ToStderr)?;
    if !ended.status.success() {
        bail!("the build failed; cargo says why above");
    }
    stages.end("built");
    Ok(())
}

/// Runs a program that prints one JSON object.
fn printed(command: &mut Command) -> Result<Value> {
    let name = command.get_program().to_owned();
    let (value, success) = measured(command)?;
    if !success {
        bail!("{} failed", name.display());
    }
    Ok(value)
}

/// Runs a program that prints one JSON object, and tells whether it calls that a success. One that misses its limit
/// prints what it measured all the same.
fn measured(command: &mut Command) -> Result<(Value, bool)> {
    let name = command.get_program().to_owned();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} could not be started", name.display()))?;
    let value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "{} ended with {} and printed no JSON",
            name.display(),
            output.status
        )
    })?;
    Ok((value, output.status.success()))
}

/// Seconds from the start of the process to a painted frame, for each renderer.
fn first_frames(workspace: &Workspace) -> Result<Value> {
    let display = Display::open()?;
    let home = workspace.target.join("bench-window-home");
    let mut record = serde_json::Map::new();
    for renderer in ["wgpu", "wgpu-gl", "glow", "software"] {
        let mut secs = Vec::new();
        for _ in 0..=OPENINGS {
            let mut command = workspace.window();
            command
                .args(["--renderer", renderer, "--first-frame"])
                .env("TUNESMITH_HOME", &home);
            display.apply(&mut command);
            let printed = printed(&mut command)?;
            secs.push(
                printed["first_frame_secs"]
                    .as_f64()
                    .context("no time was printed")?,
            );
        }
        // The first one reads the program and the drivers from the disk.
        let mut warm = secs[1..].to_vec();
        warm.sort_by(f64::total_cmp);
        record.insert(
            renderer.to_owned(),
            json!({ "first_secs": secs[0], "median_secs": warm[warm.len() / 2], "openings": OPENINGS }),
        );
    }
    // A folder that stays is a few kilobytes.
    let _ = std::fs::remove_dir_all(&home);
    Ok(Value::Object(record))
}

/// The display at hand, or one without a screen for as long as this lives.
pub(crate) struct Display {
    own: Option<(Child, String)>,
}

impl Display {
    fn open() -> Result<Self> {
        if std::env::var_os("DISPLAY").is_some() || std::env::var_os("WAYLAND_DISPLAY").is_some() {
            return Ok(Self { own: None });
        }
        Self::own()
    }

    /// One without a screen, whatever is at hand. Every user of this machine may draw on it.
    pub(crate) fn own() -> Result<Self> {
        // It finds a free number and says which.
        let mut server = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                "1280x820x24",
                "-nolisten",
                "tcp",
                "-ac",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("Xvfb could not be started")?;
        let mut number = String::new();
        let pipe = server.stdout.take().context("Xvfb has no output")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(pipe), &mut number)?;
        Ok(Self {
            own: Some((server, format!(":{}", number.trim()))),
        })
    }

    /// Its name, where it is one without a screen.
    pub(crate) fn name(&self) -> &str {
        self.own.as_ref().map_or("", |(_, name)| name)
    }

    fn apply(&self, command: &mut Command) {
        if let Some((_, name)) = &self.own {
            command.env("DISPLAY", name);
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some((server, _)) = &mut self.own {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
