//! `cargo xtask soak`: kills a training of a tiny model again and again and compares its numbers with those of one that was
//! left alone; and kills the installed app's shell, window and engine in every combination, and looks at what is left. The work
//! is the tests `soaking` and `shelling` of the package `tunesmith-tests`, with more kills than a test run has time for.

use std::io::Write as _;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use tunesmith_setup::process::{self, Output};

use crate::console::Stages;
use crate::gain::{Machine, revision, this_machine};
use crate::packages::For;
use crate::prepare::Prepared;
use crate::workspace::Workspace;
use crate::{Consent, ExitWith};

const TESTS: [&str; 2] = [
    "soaking::a_run_that_is_killed_again_and_again_ends_with_the_same_numbers",
    "shelling::whatever_is_killed_leaves_no_orphan_no_lost_step_and_no_half_written_file",
];

#[derive(Args)]
pub(crate) struct Soak {
    #[command(flatten)]
    consent: Consent,
    /// How often the training is killed
    #[arg(long, value_name = "N", default_value_t = 50)]
    kills: u32,
    /// How often a shell, its window and its engine are killed, in every combination; Linux only
    #[arg(long, value_name = "N", default_value_t = 200)]
    shell_kills: u32,
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
    let prepared = Prepared::with_packages(For::Tests, options.consent.yes, &mut stages)?;
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

    let files = ["soak.json", "shell-soak.json"].map(|name| workspace.target.join(name));
    for file in &files {
        // An older record must not be taken for this one.
        let _ = std::fs::remove_file(file);
    }
    stages.begin(
        "soak",
        &format!("{} and {} kills", options.kills, options.shell_kills),
    );
    let mut command = workspace.cargo_with_torch(&prepared);
    command
        .args(["test", "--workspace", "--test", "it", "--", "--exact"])
        .args(TESTS)
        .env("TUNESMITH_SOAK_KILLS", options.kills.to_string())
        .env("TUNESMITH_SOAK_SEED", options.seed.to_string())
        .env("TUNESMITH_SOAK_RECORD", &files[0])
        .env("TUNESMITH_SHELL_KILLS", options.shell_kills.to_string())
        .env("TUNESMITH_SHELL_SOAK_RECORD", &files[1]);
    let start = std::time::Instant::now();
    let ended = prepared.run(&command, Output::ToStderr)?;
    // The records are there even where a test found something wrong.
    let mut soaked = Map::new();
    for text in files.iter().filter_map(|file| std::fs::read_to_string(file).ok()) {
        soaked.extend(serde_json::from_str::<Map<String, Value>>(&text).context("a test wrote no JSON")?);
    }
    if !soaked.is_empty() {
        let record = Record {
            date: jiff::Zoned::now().date().to_string(),
            revision: revision(&workspace.root),
            machine: this_machine(),
            torch: prepared.engine_env.version.clone(),
            secs: start.elapsed().as_secs_f64().round(),
            soaked,
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
        eprintln!("error: not everything came through its kills; the tests say why above");
        bail!(ExitWith(process::exit_code(ended.status).max(1)));
    }
    stages.end("passed");
    Ok(0)
}
