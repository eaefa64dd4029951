//! Writes a sample report, to look at its layout: `cargo run -p tunesmith-report --example sample_report -- FOLDER [report.json]`.
//!
//! With a `report.json` it renders that run again. Without one it makes up a run whose every title says that it is
//! synthetic: nothing in it was measured anywhere.

use std::path::PathBuf;

use anyhow::Context;
use tunesmith_measure::judge::{CheckId, Finding, Judgement, Severity};
use tunesmith_measure::{
    LoraShape, ModelShape, Peaks, Projection, Recomputed, SummaryContext, Tflops, practical_peak, summarise,
};
use tunesmith_protocol::{
    Calibration, CopyBandwidth, DType, GemmMeasurement, Layout, RunStatus, Step, ValueCheck,
};
use tunesmith_report::{
    AnswerRecord, CategoryScore, EngineRecord, EvaluationResult, RecipeRecord, Report, ReportInput, write,
};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().context("give the folder to write into")?;
    let report = match arguments.next() {
        Some(path) => {
            Report::from_json(&std::fs::read_to_string(&path).with_context(|| path.display().to_string())?)?
        }
        None => Report::new(synthetic()?),
    };
    std::fs::create_dir_all(&folder)?;
    let written = write(&folder, &report)?;
    eprintln!("{}", written.html.display());
    Ok(())
}

fn synthetic() -> anyhow::Result<ReportInput> {
    let calibration = calibration();
    let peaks = Peaks {
        theoretical: Some(Tflops(0.205)),
        practical: practical_peak(&calibration, DType::F32).map(|peak| peak.tflops),
    };
    let shape = ModelShape {
        hidden: 576,
        layers: 30,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        intermediate: 1536,
        vocab: 49_152,
        tied: true,
        qkv_bias: false,
        qk_norm: false,
    };
    let lora = LoraShape {
        rank: 16,
        target_modules: Projection::ALL.to_vec(),
    };
    let context = SummaryContext {
        shape,
        lora,
        recomputed: Recomputed::Nothing,
        peaks,
        discard: None,
    };
    let mut summary = summarise(&steps(), &context);
    summary
        .findings
        .push("synthetic remark: 6 % of the time after the first step passed between steps".to_owned());
    Ok(ReportInput {
        recipe: RecipeRecord {
            name: "synthetic-sample".into(),
            title: "Synthetic sample, measured nowhere".into(),
            toml: "# synthetic\n[model]\nname = \"synthetic\"\n\n[lora]\nrank = 16\nalpha = 32.0\n".into(),
        },
        model: "A synthetic model".into(),
        task: "text-to-SQL".into(),
        dtype: DType::F32,
        status: RunStatus::Ok,
        reason: None,
        manifest: serde_json::from_str(MANIFEST)?,
        summary,
        judge: judgement(),
        peak_process_bytes: Some(2_123_456_789),
        calibration: Some(calibration),
        spec_peak: Some(Tflops(0.205)),
        before: Some(evaluation(false)),
        after: Some(evaluation(true)),
        counting_rules: Vec::new(),
        redactions: vec![
            "The home folder was replaced by ~ 3 times".into(),
            "The host name was replaced by (host) once".into(),
        ],
        engine: EngineRecord {
            name: "synthetic-engine".into(),
            version: "0.1.0".into(),
        },
        program_version: "0.1.0".into(),
        date: "2026-01-02T03:04:05Z".into(),
    })
}

fn judgement() -> Judgement {
    let finding = |id, severity, found: &str| Finding {
        id,
        severity,
        step: None,
        found: found.to_owned(),
        means: String::new(),
        remedies: Vec::new(),
    };
    Judgement {
        findings: vec![
            finding(
                CheckId::DeadAdapters,
                Severity::Green,
                "synthetic: every B matrix got a gradient at the first step",
            ),
            Finding {
                step: Some(34),
                means: "synthetic: other programs take the device's time".to_owned(),
                remedies: vec!["close other programs".to_owned()],
                ..finding(
                    CheckId::StepTime,
                    Severity::Amber,
                    "synthetic: 1.62 times the time of steps 5 to 20",
                )
            },
        ],
        not_checked: vec![CheckId::AdapterBase],
        last_good_step: None,
    }
}

const MANIFEST: &str = r#"{
  "note": "synthetic: no machine stands behind this report",
  "machine": {"processor": "Synthetic CPU, 2 cores", "memory_gib": 22.9, "gpus": [], "system": "Linux 6.1"},
  "software": {"tunesmith": "0.1.0", "torch": "2.11.0", "backend": "cpu", "threads": 2},
  "model": {"name": "synthetic", "revision": "none", "sha256": "0000000000000000000000000000000000000000000000000000000000000000", "path": "~/models/synthetic.gguf"},
  "data": {"train_rows": 5000, "train_sha256": "1111111111111111", "test_questions": 300, "split_seed": 42},
  "environment": {"OMP_NUM_THREADS": null, "HSA_OVERRIDE_GFX_VERSION": null},
  "contention": {"checked": true, "other_load_percent": 3.5, "disk_busy": false}
}"#;

/// A small generator of numbers between 0 and 1, so that the sample is the same every time.
fn noise(seed: u64) -> f64 {
    let mixed = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(31)
        .wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1_u64 << 53) as f64
}

fn steps() -> Vec<Step> {
    let (mut real, mut padded, mut supervised, mut elapsed) = (0, 0, 0, 3.4);
    (1..=120_u64)
        .map(|step| {
            let tokens = 320 + (noise(step) * 40.0) as u64;
            real += tokens;
            padded += tokens + (noise(step + 500) * 20.0) as u64;
            supervised += tokens / 4;
            let dt_secs = if step <= 3 {
                3.4 - 0.4 * step as f64
            } else {
                1.9 + 0.25 * noise(step + 900)
            };
            elapsed += dt_secs + 0.02;
            let progress = step as f64 / 120.0;
            Step {
                step,
                loss: Some(0.28 + 1.9 * (-5.0 * progress).exp() + 0.12 * (noise(step + 40) - 0.5)),
                grad_norm: if step == 61 {
                    Some(0.0)
                } else {
                    Some(0.6 + 2.4 * (-4.0 * progress).exp() + 0.5 * noise(step + 70))
                },
                lr: if step <= 10 {
                    1e-3 * step as f64 / 10.0
                } else {
                    1e-3 * f64::midpoint(1.0, (std::f64::consts::PI * progress).cos())
                },
                dt_secs,
                elapsed_secs: elapsed,
                real_tokens: real,
                padded_tokens: padded,
                supervised_tokens: supervised,
                squared_lengths: tokens * 130,
                peak_bytes: Some(1_288_490_188 + (noise(step + 7) * 9e7) as u64),
            }
        })
        .collect()
}

fn calibration() -> Calibration {
    let gemm = |dtype, layout, side, mean_tflops: f64, emulated| GemmMeasurement {
        dtype,
        layout,
        side,
        warmup: 2,
        iterations: if emulated { 3 } else { 12 },
        mean_tflops,
        best_tflops: mean_tflops * 1.04,
        median_tflops: mean_tflops * 1.01,
        emulated,
        values: ValueCheck {
            max_error: if emulated { 3.1e-3 } else { 4.2e-7 },
            tolerance: 1e-2,
            passed: true,
        },
    };
    Calibration {
        device: "cpu".into(),
        threads: 2,
        gemm: vec![
            gemm(DType::F32, Layout::Nt, 2048, 0.132, false),
            gemm(DType::F32, Layout::Nn, 2048, 0.141, false),
            gemm(DType::F32, Layout::Tn, 2048, 0.128, false),
            gemm(DType::Bf16, Layout::Nt, 512, 0.0041, true),
        ],
        kernels: vec![],
        copy: CopyBandwidth {
            bytes: 1 << 28,
            iterations: 20,
            best_gib_per_sec: 14.1,
            median_gib_per_sec: 12.8,
        },
        time_boxed: false,
    }
}

fn evaluation(trained: bool) -> EvaluationResult {
    const CATEGORIES: [(&str, f64, f64); 7] = [
        ("filter", 0.22, 0.78),
        ("aggregate", 0.18, 0.66),
        ("group by", 0.06, 0.48),
        ("order and limit", 0.12, 0.55),
        ("join", 0.02, 0.28),
        ("like and between", 0.10, 0.52),
        ("subquery", 0.01, 0.09),
    ];
    let mut answers = Vec::new();
    for (kind, (category, base, tuned)) in CATEGORIES.iter().enumerate() {
        for index in 0..43_u64 {
            let draw = noise(index * 31 + kind as u64 * 7919 + 5);
            let matches = draw < if trained { *tuned } else { *base } || (!trained && draw > 0.985);
            answers.push(answer(category, index, matches, draw, trained));
        }
    }
    let count = |of: fn(&AnswerRecord) -> bool| answers.iter().filter(|answer| of(answer)).count() as u64;
    let by_category = CATEGORIES
        .iter()
        .map(|(category, ..)| {
            let of = |test: fn(&AnswerRecord) -> bool| {
                answers
                    .iter()
                    .filter(|answer| answer.category == *category && test(answer))
                    .count() as u64
            };
            CategoryScore {
                category: (*category).to_owned(),
                total: of(|_| true),
                exact: of(|answer| answer.exact),
                executes: of(|answer| answer.executes),
                matches: of(|answer| answer.matches),
            }
        })
        .collect();
    EvaluationResult {
        questions: answers.len() as u64,
        exact: count(|answer| answer.exact),
        executes: count(|answer| answer.executes),
        matches: count(|answer| answer.matches),
        by_category,
        answers,
        extraction_rule: "Synthetic rule: the first fenced block if there is one, else from the first SELECT to the first semicolon.".into(),
        secs: if trained { 61.0 } else { 143.0 },
    }
}

fn answer(category: &str, index: u64, matches: bool, draw: f64, trained: bool) -> AnswerRecord {
    let gold = format!("SELECT name FROM item WHERE shelf = {index} ORDER BY name");
    let prose = "Here is the query that you can use. It reads the table and keeps the rows that you asked for.\n\n```sql\n";
    let (answer, sql) = match (trained, matches) {
        (true, true) => (gold.clone(), Some(gold.clone())),
        (true, false) => {
            let wrong = format!("SELECT name FROM item WHERE shelf > {index}");
            (wrong.clone(), Some(wrong))
        }
        (false, true) => (format!("{prose}{gold};\n```"), Some(format!("{gold};"))),
        (false, false) if draw > 0.7 => (
            "I would look at the shelf and read the names that stand there.".to_owned(),
            None,
        ),
        (false, false) => {
            let wrong = format!("SELECT shelf.name FROM items WHERE shelf.id = '{index}'");
            (format!("{prose}{wrong};\n```"), Some(format!("{wrong};")))
        }
    };
    AnswerRecord {
        id: format!("synthetic-{}-{index:03}", category.replace(' ', "-")),
        category: category.to_owned(),
        question: format!("Which items stand on shelf {index}? Give their names in order."),
        schema_text: "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, shelf INTEGER);\nCREATE TABLE shelf (id INTEGER PRIMARY KEY, room TEXT);".into(),
        gold,
        exact: trained && matches,
        executes: matches || (trained && draw < 0.95) || (!trained && draw < 0.1),
        answer,
        sql,
        matches,
    }
}
