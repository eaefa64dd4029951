//! `cargo xtask bench shell`: what the installed app costs while nothing runs: its private memory, and how often it wakes the
//! processor. The window is a stand-in that draws nothing: a real one has a bench of its own.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tunesmith_setup::process::Output;

use crate::console::Stages;
use crate::gain::{revision, this_machine};
use crate::packages::For;
use crate::prepare::Prepared;
use crate::window::Display;
use crate::workspace::Workspace;

/// Most private memory of the shell while nothing runs.
const MOST_BYTES: u64 = 60 << 20;

/// Most wake-ups a second while nothing runs.
const MOST_WAKE_UPS: f64 = 1.0;

/// After its start, until it is quiet.
const SETTLES: Duration = Duration::from_secs(5);

/// How long its wake-ups are counted.
const WATCHED: Duration = Duration::from_secs(30);

/// Longest time for its window to be welcomed.
const STARTS: Duration = Duration::from_mins(1);

pub(crate) fn run(yes: bool, json: bool) -> Result<u8> {
    ensure!(
        cfg!(target_os = "linux"),
        "memory and wake-ups are read from Linux' /proc"
    );
    let mut stages = Stages::new(Prepared::STAGES + 2);
    let prepared = Prepared::with_packages(For::Tests, yes, &mut stages)?;
    let workspace = Workspace::find()?;
    stages.begin("build", "the app, and a window that draws nothing");
    let mut command = workspace.cargo();
    command.args([
        "build",
        "--workspace",
        "--bin",
        "tunesmith-shell",
        "--bin",
        "fake-window",
    ]);
    let ended = prepared.run(&command, Output::ToStderr)?;
    if !ended.status.success() {
        bail!("the build failed; cargo says why above");
    }
    stages.end("built");

    stages.begin("idle", &format!("{} s", (SETTLES + WATCHED).as_secs()));
    let display = Display::own()?;
    let mut record = BTreeMap::new();
    for (name, arguments) in [("desktop", &[][..]), ("plain", &["--plain"][..])] {
        record.insert(name, idle(&workspace, &display, arguments)?);
    }
    let met = record.values().all(Idle::is_within);
    stages.end(if met {
        "measured"
    } else {
        "measured, and a limit is missed"
    });
    let of = |idle: &Idle| {
        json!({
            "private_mib": idle.private_bytes as f64 / f64::from(1 << 20),
            "wake_ups_per_sec": idle.wake_ups_per_sec,
            "threads": idle.threads,
        })
    };
    let printed = json!({
        "date": jiff::Zoned::now().date().to_string(),
        "revision": revision(&workspace.root),
        "machine": this_machine(),
        "build": "debug",
        "watched_secs": WATCHED.as_secs(),
        "limits": { "private_mib": MOST_BYTES >> 20, "wake_ups_per_sec": MOST_WAKE_UPS },
        "idle": record.iter().map(|(name, idle)| (*name, of(idle))).collect::<BTreeMap<_, _>>(),
    });
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{printed}")?;
    } else {
        writeln!(out, "{}", serde_json::to_string_pretty(&printed)?)?;
    }
    Ok(u8::from(!met))
}

/// What an idle app costs.
struct Idle {
    private_bytes: u64,
    wake_ups_per_sec: f64,
    threads: usize,
}

impl Idle {
    fn is_within(&self) -> bool {
        self.private_bytes <= MOST_BYTES && self.wake_ups_per_sec <= MOST_WAKE_UPS
    }
}

/// A process that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn idle(workspace: &Workspace, display: &Display, arguments: &[&str]) -> Result<Idle> {
    let home = workspace.target.join("bench-shell-home");
    let windows = home.join("windows");
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    std::fs::create_dir_all(&windows)?;
    std::fs::write(windows.join("1.jsonl"), "{\"say\": {\"type\": \"painted\"}}\n")?;
    let program = |name: &str| workspace.target.join("debug").join(name);
    let shell = Command::new(program("tunesmith-shell"))
        .args(arguments)
        .env("DISPLAY", display.name())
        .env_remove("WAYLAND_DISPLAY")
        .env("TUNESMITH_HOME", &home)
        .env("TUNESMITH_WINDOW", program("fake-window"))
        .env("FAKE_WINDOW", &windows)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("the app could not be started")?;
    let shell = Running(shell);
    let start = Instant::now();
    while !windows.join("1.heard").exists() {
        ensure!(start.elapsed() < STARTS, "the app did not open its window");
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(SETTLES);
    let process = Path::new("/proc").join(shell.0.id().to_string());
    let (before, start) = (wake_ups(&process)?, Instant::now());
    thread::sleep(WATCHED);
    let (after, secs) = (wake_ups(&process)?, start.elapsed().as_secs_f64());
    Ok(Idle {
        private_bytes: private_bytes(&process)?,
        wake_ups_per_sec: after.saturating_sub(before) as f64 / secs,
        threads: std::fs::read_dir(process.join("task"))?.count(),
    })
}

/// How often the process' threads have waited for something so far: each time something has woken them before.
fn wake_ups(process: &Path) -> Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir(process.join("task"))? {
        let status = std::fs::read_to_string(thread?.path().join("status"))?;
        sum += number(&status, "voluntary_ctxt_switches:")?;
    }
    Ok(sum)
}

/// Memory that is this process' alone.
fn private_bytes(process: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(process.join("smaps_rollup"))?;
    Ok(1024 * (number(&text, "Private_Clean:")? + number(&text, "Private_Dirty:")?))
}

/// The number behind a name at the beginning of a line.
fn number(text: &str, name: &str) -> Result<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|word| word.parse().ok())
        .with_context(|| format!("/proc says nothing of {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_by_the_name_before_them() {
        let text = "Name:\tshell\nnonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t42\nPrivate_Dirty:      100 kB\n";
        assert_eq!(number(text, "voluntary_ctxt_switches:").unwrap(), 42);
        assert_eq!(number(text, "Private_Dirty:").unwrap(), 100);
        assert!(number(text, "Private_Clean:").is_err());
    }
}
