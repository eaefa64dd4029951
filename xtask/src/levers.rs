//! `cargo xtask bench levers`: what each lever of the trainer is worth, measured by the engine's own ignored test.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tunesmith_setup::process::Output;

use crate::console::Stages;
use crate::prepare::Prepared;
use crate::workspace::Workspace;

/// The line of the test's output that carries its record.
const MARK: &str = "LEVERS ";

/// One way of computing a step.
#[derive(Deserialize, Serialize)]
struct Variant {
    #[serde(rename = "variant")]
    name: String,
    /// Seconds of each round.
    secs: Vec<f64>,
    peak_bytes: u64,
    loss: f64,
}

impl Variant {
    fn median_secs(&self) -> f64 {
        let mut secs = self.secs.clone();
        secs.sort_by(f64::total_cmp);
        secs.get(secs.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

pub(crate) fn run(yes: bool, json: bool) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + 3);
    let prepared = Prepared::new(yes, &mut stages)?;
    let workspace = Workspace::find()?;
    workspace.build(&prepared, &[], &mut stages)?;

    stages.begin("rows", "the quickstart's rows, by a run of one step");
    // Beside the build, where a large file does no harm; made anew each time.
    let home = workspace.target.join("levers-home");
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    let mut rows = workspace.tunesmith();
    rows.env("TUNESMITH_HOME", &home)
        .args(["train", "quickstart", "--json"])
        .args(["--set", "train.steps=1"])
        .args(["--set", "optimizer.warmup_steps=0"])
        .args(["--set", "evaluate.questions=0"])
        .stdout(Stdio::null());
    if !rows.status()?.success() {
        bail!("the rows could not be made; the reason stands above");
    }
    let runs = home.join("data/runs");
    let run = std::fs::read_dir(&runs)?
        .next()
        .context("the run left no folder")??;
    stages.end("made");

    stages.begin(
        "levers",
        "19 ways to compute a step, six rounds: about five minutes on two cores",
    );
    let mut test = workspace.cargo_with_torch(&prepared);
    test.args(["test", "-p", "tunesmith-engine", "--bin", "tunesmith-engine"])
        .args(["levers::levers", "--", "--ignored", "--nocapture"])
        .env("TUNESMITH_BENCH_MODEL", &prepared.model)
        .env("TUNESMITH_BENCH_ROWS", run.path().join("rows/train.safetensors"));
    let ended = prepared.run(&test, Output::Returned)?;
    let text = ended.stdout;
    let Some(line) = text.lines().find_map(|line| line.split(MARK).nth(1)) else {
        bail!("the measurement did not end; it said:\n{}", text.trim());
    };
    let variants: Vec<Variant> = serde_json::from_str(line)?;
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&variants)?)?;
    } else {
        write!(out, "{}", table(&variants))?;
    }
    Ok(0)
}

/// A Markdown table.
fn table(variants: &[Variant]) -> String {
    let mut text =
        "| step | seconds, median of 5 (fastest, slowest) | allocator peak |\n|---|---|---|\n".to_owned();
    for variant in variants {
        let fastest = variant.secs.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = variant.secs.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "| {} | {:.2} ({fastest:.2}, {slowest:.2}) | {:.0} MiB |",
            variant.name,
            variant.median_secs(),
            variant.peak_bytes as f64 / f64::from(1 << 20)
        );
    }
    text
}
