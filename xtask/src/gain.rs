//! `cargo xtask gain`: the quickstart's recipe on three seeds, and the record of what each gained. One seed proves
//! little; the record in docs/measured/ is what the README's figure rests on.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};
use tunesmith_setup::process::{self, Output};
use tunesmith_setup::{human_bytes, human_duration};

use crate::console::Stages;
use crate::prepare::Prepared;
use crate::workspace::Workspace;

/// Fixed before anything was measured.
const SEEDS: [u64; 3] = [3407, 42, 1234];

/// What is written to docs/measured/three-seed-gain.json.
#[derive(Debug, Serialize)]
struct Record {
    /// The day of the measurement.
    date: String,
    /// The commit that was measured; with `-dirty` if files differed from it.
    revision: Option<String>,
    /// The time of all three runs, build apart.
    took_secs: f64,
    machine: Machine,
    torch: String,
    /// In points of execution match: the smallest of the three.
    smallest_gain: f64,
    runs: Vec<Run>,
}

/// Where it was measured; null where this system does not tell.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cpu: Option<String>,
    cores: Option<usize>,
    memory_bytes: Option<u64>,
    system: Option<String>,
}

#[derive(Debug, Serialize)]
struct Run {
    seed: u64,
    command: String,
    /// In points of execution match.
    score_before: f64,
    score_after: f64,
    gain: f64,
    /// Everything else that the command printed, without paths of this machine.
    result: Map<String, Value>,
}

pub(crate) fn run(yes: bool, json: bool) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + 1 + SEEDS.len());
    let prepared = Prepared::new(yes, &mut stages)?;
    let workspace = Workspace::find()?;
    workspace.build(&prepared, &[], &mut stages)?;

    let start = Instant::now();
    let mut runs = Vec::new();
    for seed in SEEDS {
        let seed_text = seed.to_string();
        let words = ["quickstart", "--full", "--seed", &seed_text, "--json"];
        let shown = format!("tunesmith {}", words.join(" "));
        stages.begin(&format!("seed {seed}"), &shown);
        let mut command = workspace.tunesmith();
        command.args(words);
        let ended = prepared.run(&command, Output::Returned)?;
        if !ended.status.success() {
            eprintln!("error: `{shown}` failed, so there is no record");
            return Ok(process::exit_code(ended.status).max(1));
        }
        let result =
            serde_json::from_str(&ended.stdout).with_context(|| format!("`{shown}` printed no JSON"))?;
        runs.push(read_run(seed, shown, result)?);
        stages.end("measured");
    }

    let record = Record {
        date: jiff::Zoned::now().date().to_string(),
        revision: revision(&workspace.root),
        took_secs: start.elapsed().as_secs_f64().round(),
        machine: this_machine(),
        torch: prepared.engine_env.version.clone(),
        smallest_gain: runs.iter().map(|run| run.gain).fold(f64::INFINITY, f64::min),
        runs,
    };
    let folder = workspace.root.join("docs/measured");
    let text = serde_json::to_string_pretty(&record)?;
    write_whole(&folder.join("three-seed-gain.json"), &format!("{text}\n"))?;
    write_whole(&folder.join("three-seed-gain.md"), &as_markdown(&record))?;
    if json {
        writeln!(std::io::stdout(), "{text}")?;
    } else {
        eprint!("\n{}", as_markdown(&record));
    }
    Ok(0)
}

fn read_run(seed: u64, command: String, result: Value) -> Result<Run> {
    let Value::Object(mut result) = result else {
        bail!("`{command}` printed JSON that is not an object");
    };
    let mut score = |name: &str| {
        let value = result.remove(name);
        value
            .as_ref()
            .and_then(Value::as_f64)
            .with_context(|| format!("`{command}` printed no number as {name}"))
    };
    let (score_before, score_after) = (score("score_before")?, score("score_after")?);
    drop_paths(&mut result);
    Ok(Run {
        seed,
        command,
        score_before,
        score_after,
        gain: score_after - score_before,
        result,
    })
}

/// Takes out every path of this machine, however deep it lies.
fn drop_paths(result: &mut Map<String, Value>) {
    result.retain(|_, value| !value.as_str().is_some_and(|text| Path::new(text).is_absolute()));
    for value in result.values_mut() {
        if let Value::Object(inner) = value {
            drop_paths(inner);
        }
    }
}

fn as_markdown(record: &Record) -> String {
    let mut text = format!(
        "# The quickstart's gain on three seeds\n\nMeasured on {} with `cargo xtask gain`: each seed trains the quickstart's \
         recipe anew and scores all 300 test questions before and after, by execution match (the answer's SQL returns the \
         right rows). The test questions ask about databases that training never shows. The raw record is \
         `three-seed-gain.json`.\n\n| seed | before, % | after, % | gain, points | training |\n|---:|---:|---:|---:|---:|\n",
        record.date
    );
    for run in &record.runs {
        let training = run
            .result
            .get("train_secs")
            .and_then(Value::as_f64)
            .map_or_else(|| "not told".to_owned(), |secs| format!("{secs:.0} s"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.1} | {:.1} | {training} |",
            run.seed, run.score_before, run.score_after, run.gain
        );
    }
    let machine = &record.machine;
    let cpu = machine.cpu.as_deref().unwrap_or("unknown processor");
    let cores = machine
        .cores
        .map_or_else(|| "unknown number of".to_owned(), |cores| cores.to_string());
    let memory = machine
        .memory_bytes
        .map_or_else(|| "unknown".to_owned(), human_bytes);
    let system = machine.system.as_deref().unwrap_or("unknown system");
    let _ = write!(
        text,
        "\nSmallest gain: {:.1} points. All three took {}, build apart.\n\nMachine: {cpu}, {cores} cores, {memory} memory, \
         {system}; torch {}. Revision: {}.\n\nCommands:\n\n```\n",
        record.smallest_gain,
        human_duration(Duration::from_secs_f64(record.took_secs)),
        record.torch,
        record.revision.as_deref().unwrap_or("unknown"),
    );
    for run in &record.runs {
        let _ = writeln!(text, "{}", run.command);
    }
    text.push_str("```\n");
    text
}

pub(crate) fn revision(root: &Path) -> Option<String> {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}

pub(crate) fn this_machine() -> Machine {
    let value_in = |file: &str, name: &str, separator: char| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        let value = line.split_once(separator)?.1.trim().trim_matches('"');
        Some(value.to_owned())
    };
    Machine {
        cpu: value_in("/proc/cpuinfo", "model name", ':'),
        cores: std::thread::available_parallelism().ok().map(Into::into),
        memory_bytes: value_in("/proc/meminfo", "MemTotal", ':')
            .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
            .map(|kib| kib * 1024),
        system: value_in("/etc/os-release", "PRETTY_NAME", '='),
    }
}

fn write_whole(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("{} could not be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_keeps_what_was_printed_but_no_path_of_this_machine() {
        let printed = serde_json::json!({
            "id": "20261130-quickstart-0a1b2c3d", "status": "ok", "score_before": 2.5, "score_after": 61.0,
            "adapter": "/home/someone/adapter", "train_secs": 240.5,
            "calibration": { "file": "/home/someone/calibration.json", "device": "cpu" },
        });
        let run = read_run(42, "tunesmith quickstart".to_owned(), printed).unwrap();
        assert!((run.gain - 58.5).abs() < 1e-9);
        assert!(!run.result.contains_key("adapter"));
        assert_eq!(run.result["status"], "ok");
        assert_eq!(run.result["calibration"], serde_json::json!({ "device": "cpu" }));
        let record = Record {
            date: "2026-11-30".to_owned(),
            revision: Some("0a1b2c3".to_owned()),
            took_secs: 900.0,
            machine: this_machine(),
            torch: "2.11.0".to_owned(),
            smallest_gain: run.gain,
            runs: vec![run],
        };
        assert!(as_markdown(&record).contains("| 42 | 2.5 | 61.0 | 58.5 | 240 s |"));
    }

    #[test]
    fn a_result_without_a_score_is_an_error_not_a_zero() {
        let printed = serde_json::json!({ "status": "oom", "score_before": null });
        let error = read_run(42, "tunesmith quickstart".to_owned(), printed).unwrap_err();
        assert!(error.to_string().contains("score_before"), "{error}");
    }
}
