//! `cargo xtask soak`: kills a training of a tiny model again and again and compares its numbers with those of one that was
//! left alone. The work is the test `soaking` of the package `tunesmith-tests`, with more kills than a test run has time for.

use std::io::Write as _;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use tunesmith_setup::process::{self, Output};

use crate::console::Stages;
use crate::gain::{Machine, revision, this_machine};
use crate::prepare::Prepared;
use crate::workspace::Workspace;
use crate::{Consent, ExitWith};

const TEST: &str = "soaking::a_run_that_is_killed_again_and_again_ends_with_the_same_numbers";

#[derive(Args)]
pub(crate) struct Soak {
    #[command(flatten)]
    consent: Consent,
    /// How often the training is killed
    #[arg(long, value_name = "N", default_value_t = 50)]
    kills: u32,
    /// The seed of the moments at which it is killed
    #[arg(long, value_name = "N", default_value_t = 3407)]
    seed: u64,
    /// Print the record as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Record {
    date: String,
    /// The commit that was tested; with `-dirty` if files differed from it.
    revision: Option<String>,
    machine: Machine,
    torch: String,
    secs: f64,
    /// As the test wrote it.
    #[serde(flatten)]
    soaked: Map<String, Value>,
}

pub(crate) fn run(options: &Soak) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + 2);
    let prepared = Prepared::new(options.consent.yes, &mut stages)?;
    let workspace = Workspace::find()?;
    stages.begin("build", "what the tests need");
    let mut command = workspace.cargo_with_torch(&prepared);
    command.args(["build", "--workspace", "--bins", "--tests"]);
    let ended = prepared.run(&command, Output::ToStderr)?;
    if !ended.status.success() {
        eprintln!("error: the build failed; cargo says why above");
        bail!(ExitWith(process::exit_code(ended.status)));
    }
    stages.end("built");

    let file = workspace.target.join("soak.json");
    // An older record must not be taken for this one.
    let _ = std::fs::remove_file(&file);
    stages.begin("soak", &format!("{} kills", options.kills));
    let mut command = workspace.cargo_with_torch(&prepared);
    command
        .args(["test", "--workspace", "--test", "it", "--", "--exact", TEST])
        .env("TUNESMITH_SOAK_KILLS", options.kills.to_string())
        .env("TUNESMITH_SOAK_SEED", options.seed.to_string())
        .env("TUNESMITH_SOAK_RECORD", &file);
    let start = std::time::Instant::now();
    let ended = prepared.run(&command, Output::ToStderr)?;
    // The record is there even where the test found something wrong.
    let text = std::fs::read_to_string(&file);
    if let Ok(text) = text {
        let record = Record {
            date: jiff::Zoned::now().date().to_string(),
            revision: revision(&workspace.root),
            machine: this_machine(),
            torch: prepared.engine_env.version.clone(),
            secs: start.elapsed().as_secs_f64().round(),
            soaked: serde_json::from_str(&text).context("the test wrote no JSON")?,
        };
        let text = serde_json::to_string_pretty(&record)?;
        if options.json {
            writeln!(std::io::stdout(), "{text}")?;
        } else {
            eprintln!("{text}");
        }
    }
    if !ended.status.success() {
        stages.fail();
        eprintln!("error: the training did not come through its kills; the test says why above");
        bail!(ExitWith(process::exit_code(ended.status).max(1)));
    }
    stages.end("passed");
    Ok(0)
}
