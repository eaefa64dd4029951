//! `cargo xtask bench fit`: predicted peak memory beside measured, over settings that differ in everything that the formula
//! knows. Each is a try of the program's own, so what is corrected is what the program itself learned from those before.

use std::{fmt::Write as _, io::Write as _, process::Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{console::Stages, prepare::Prepared, workspace::Workspace};

/// How far a prediction by formula may be off, and one that was corrected by earlier tries.
const BY_FORMULA: f64 = 0.10;
const CORRECTED: f64 = 0.05;

/// A name, rows of a pass, tokens of a row, and what is set beside these.
type Setting = (&'static str, u32, u32, &'static [&'static str]);

const SETTINGS: [Setting; 21] = [
    ("as it is", 4, 256, &[]),
    ("the MLP again", 4, 256, &["train.recompute=mlp"]),
    ("layers again", 4, 256, &["train.recompute=layer"]),
    ("one long row", 1, 512, &[]),
    ("many short rows", 16, 64, &[]),
    ("two long rows, layers again", 2, 1024, &["train.recompute=layer"]),
    (
        "rank 64, layers again",
        2,
        512,
        &["train.recompute=layer", "lora.rank=64"],
    ),
    ("rank 128", 4, 256, &["lora.rank=128"]),
    (
        "rank 4, the MLP again",
        8,
        256,
        &["train.recompute=mlp", "lora.rank=4"],
    ),
    ("4 bits", 4, 256, &["model.quantization=nf4"]),
    (
        "4 bits, the MLP again, rank 32",
        2,
        512,
        &["model.quantization=nf4", "train.recompute=mlp", "lora.rank=32"],
    ),
    (
        "4 bits, layers again",
        8,
        256,
        &["model.quantization=nf4", "train.recompute=layer"],
    ),
    ("4 bits, one short row", 1, 64, &["model.quantization=nf4"]),
    ("two passes", 4, 256, &["train.accumulation=2"]),
    ("padded", 4, 256, &["train.packing=false"]),
    ("plain attention", 4, 256, &["train.attention=eager"]),
    ("eight rows", 8, 256, &[]),
    // What memory left behind was fitted to those above; it never saw these.
    ("held out: two short rows", 2, 128, &[]),
    (
        "held out: the MLP again",
        3,
        384,
        &["train.recompute=mlp", "lora.rank=8"],
    ),
    ("held out: layers again", 6, 192, &["train.recompute=layer"]),
    (
        "held out: 4 bits, layers again",
        3,
        320,
        &["model.quantization=nf4", "train.recompute=layer", "lora.rank=32"],
    ),
];

/// What is read of the program's answer.
#[derive(Deserialize)]
struct Answer {
    trial: Trial,
}

#[derive(Deserialize)]
struct Trial {
    status: String,
    predicted: Need,
    bytes: u64,
    memory: Memory,
    step_secs: Option<f64>,
}

#[derive(Deserialize)]
struct Need {
    #[serde(rename = "context_bytes")]
    context: u64,
    #[serde(rename = "beside_bytes")]
    beside: u64,
}

#[derive(Deserialize)]
struct Memory {
    #[serde(rename = "predicted_bytes")]
    predicted: u64,
    #[serde(rename = "corrected_bytes")]
    corrected: u64,
    #[serde(rename = "measured_bytes")]
    measured: Option<u64>,
    #[serde(rename = "process_bytes")]
    process: Option<u64>,
}

/// Settings that were tried.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    rows: u32,
    tokens: u32,
    set: &'static [&'static str],
    /// What torch's allocator should hold at most in a step, by formula.
    predicted_bytes: u64,
    /// The same, corrected by the tries before.
    corrected_bytes: u64,
    /// What it held.
    measured_bytes: u64,
    predicted_off: f64,
    corrected_off: f64,
    /// The whole process by formula, corrected, and measured: its resident memory at most.
    process_predicted_bytes: u64,
    process_corrected_bytes: u64,
    process_bytes: Option<u64>,
    process_predicted_off: Option<f64>,
    process_corrected_off: Option<f64>,
    step_secs: Option<f64>,
}

#[derive(Serialize)]
struct Record {
    settings: Vec<Row>,
    /// The largest shares by which predictions were off.
    worst_predicted_off: f64,
    worst_corrected_off: f64,
    worst_process_predicted_off: f64,
    worst_process_corrected_off: f64,
    met: bool,
}

pub(crate) fn run(yes: bool, json: bool) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + 2);
    let prepared = Prepared::new(yes, &mut stages)?;
    let workspace = Workspace::find()?;
    workspace.build(&prepared, &[], &mut stages)?;
    stages.begin(
        "fit",
        "21 settings, two steps each on the processor: about twelve minutes on two cores",
    );
    // A home of its own: nothing was tried there, so the first prediction is the formula's alone.
    let home = workspace.target.join("fit-home");
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    let mut rows = Vec::new();
    for setting in SETTINGS {
        rows.push(tried(&workspace, &home, setting)?);
    }
    let record = Record::of(rows);
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
    } else {
        write!(out, "{}", table(&record))?;
    }
    Ok(u8::from(!record.met))
}

fn tried(workspace: &Workspace, home: &std::path::Path, setting: Setting) -> Result<Row> {
    let (name, rows, row_tokens, set) = setting;
    let mut command = workspace.tunesmith();
    command
        .env("TUNESMITH_HOME", home)
        .args([
            "fit",
            "quickstart",
            "--measure",
            "--json",
            "--device",
            "cpu",
            "--steps",
            "2",
        ])
        .args(["--set", "train.recompute=none", "--set", "train.accumulation=1"])
        .args(["--set", &format!("train.micro_batch={rows}")])
        .args(["--set", &format!("data.max_length={row_tokens}")]);
    for setting in set {
        command.args(["--set", setting]);
    }
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("the program could not be started")?;
    let answer: Answer = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "`{name}` was not tried: {}",
            String::from_utf8_lossy(&output.stdout)
        )
    })?;
    let trial = answer.trial;
    let memory = trial.memory;
    let Some(measured_bytes) = memory.measured.filter(|_| trial.status == "ok") else {
        bail!("`{name}` ended as {}", trial.status);
    };
    let off = |predicted: u64, measured: u64| predicted as f64 / measured as f64 - 1.0;
    let process_predicted_bytes = memory.predicted + trial.predicted.beside + trial.predicted.context;
    Ok(Row {
        name,
        rows,
        tokens: row_tokens,
        set,
        predicted_bytes: memory.predicted,
        corrected_bytes: memory.corrected,
        measured_bytes,
        predicted_off: off(memory.predicted, measured_bytes),
        corrected_off: off(memory.corrected, measured_bytes),
        process_predicted_bytes,
        process_corrected_bytes: trial.bytes,
        process_bytes: memory.process,
        process_predicted_off: memory.process.map(|held| off(process_predicted_bytes, held)),
        process_corrected_off: memory.process.map(|held| off(trial.bytes, held)),
        step_secs: trial.step_secs,
    })
}

impl Record {
    fn of(settings: Vec<Row>) -> Self {
        let worst = |off: &dyn Fn(&Row) -> Option<f64>| {
            settings.iter().filter_map(off).map(f64::abs).fold(0.0, f64::max)
        };
        let worst_predicted_off = worst(&|row| Some(row.predicted_off));
        let worst_corrected_off = worst(&|row| Some(row.corrected_off));
        let worst_process_predicted_off = worst(&|row| row.process_predicted_off);
        let worst_process_corrected_off = worst(&|row| row.process_corrected_off);
        let met = worst_predicted_off.max(worst_process_predicted_off) <= BY_FORMULA
            && worst_corrected_off.max(worst_process_corrected_off) <= CORRECTED;
        Self {
            settings,
            worst_predicted_off,
            worst_corrected_off,
            worst_process_predicted_off,
            worst_process_corrected_off,
            met,
        }
    }
}

/// A Markdown table, in MiB.
fn table(record: &Record) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let percent =
        |off: Option<f64>| off.map_or_else(|| "–".to_owned(), |off| format!("{:+.1} %", 100.0 * off));
    let mut text =
        "| settings | rows × tokens | tensors: formula | corrected | measured | off | corrected off | \
                    process: formula | corrected | measured | off | corrected off |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for row in &record.settings {
        let _ = writeln!(
            text,
            "| {} | {} × {} | {:.0} | {:.0} | {:.0} | {} | {} | {:.0} | {:.0} | {} | {} | {} |",
            row.name,
            row.rows,
            row.tokens,
            mib(row.predicted_bytes),
            mib(row.corrected_bytes),
            mib(row.measured_bytes),
            percent(Some(row.predicted_off)),
            percent(Some(row.corrected_off)),
            mib(row.process_predicted_bytes),
            mib(row.process_corrected_bytes),
            row.process_bytes
                .map_or_else(|| "–".to_owned(), |bytes| format!("{:.0}", mib(bytes))),
            percent(row.process_predicted_off),
            percent(row.process_corrected_off),
        );
    }
    let _ = writeln!(
        text,
        "\nFarthest off: tensors {:.1} %, corrected {:.1} %; process {:.1} %, corrected {:.1} %",
        100.0 * record.worst_predicted_off,
        100.0 * record.worst_corrected_off,
        100.0 * record.worst_process_predicted_off,
        100.0 * record.worst_process_corrected_off
    );
    text
}
