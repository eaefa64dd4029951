//! A made-up training, calibration and experiment for every test.

use serde_json::json;
use tunesmith_measure::comparison::{Change, Claim, Design, Measured, Metric, Quantity, compare};
use tunesmith_measure::cost::Prices;
use tunesmith_measure::gap::{self, Around, Measures};
use tunesmith_measure::judge::{CheckId, Finding, Judgement, Severity};
use tunesmith_measure::{
    LoraShape, ModelShape, Peaks, Recomputed, SummaryContext, Tflops, TrainingSummary, summarise,
};
use tunesmith_protocol::{
    Calibration, CopyBandwidth, DType, GemmMeasurement, Layout, RunStatus, Step, ValueCheck,
};
use tunesmith_report::{
    AnswerRecord, CategoryScore, DeviceRecord, EngineRecord, EvaluationResult, ExperimentRecord,
    ExperimentRun, LossPoint, RecipeRecord, Report, ReportInput, TrainingRecord,
};

/// SmolLM2-135M's.
pub(crate) const SHAPE: ModelShape = ModelShape {
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

pub(crate) fn summary(steps: &[Step]) -> TrainingSummary {
    let lora = LoraShape::new(16, &["q_proj", "v_proj"]).unwrap();
    let peaks = Peaks {
        theoretical: None,
        practical: Some(Tflops(0.14)),
    };
    summarise(
        steps,
        &SummaryContext {
            shape: SHAPE,
            lora,
            recomputed: Recomputed::Nothing,
            peaks,
            discard: None,
        },
    )
}

pub(crate) fn steps(count: u64) -> Vec<Step> {
    (1..=count)
        .map(|step| Step {
            step,
            loss: Some(2.0 / step as f64),
            grad_norm: Some(1.0),
            lr: 1e-3,
            dt_secs: 2.0,
            elapsed_secs: 3.0 + 2.0 * step as f64,
            real_tokens: 300 * step,
            padded_tokens: 310 * step,
            supervised_tokens: 80 * step,
            squared_lengths: 40_000,
            peak_bytes: Some(3 << 29),
        })
        .collect()
}

pub(crate) fn evaluation(right: usize, questions: usize) -> EvaluationResult {
    let answers: Vec<AnswerRecord> = (0..questions)
        .map(|index| AnswerRecord {
            id: format!("q{index:03}"),
            category: if index % 2 == 0 { "filter" } else { "join" }.into(),
            question: format!("Question {index}"),
            schema_text: "CREATE TABLE t (a INTEGER);".into(),
            gold: "SELECT a FROM t".into(),
            answer: "SELECT a FROM t".into(),
            sql: Some("SELECT a FROM t".into()),
            exact: index < right,
            executes: true,
            matches: index < right,
        })
        .collect();
    EvaluationResult {
        questions: questions as u64,
        exact: right as u64,
        executes: questions as u64,
        matches: right as u64,
        by_category: vec![CategoryScore {
            category: "filter".into(),
            total: 50,
            exact: 5,
            executes: 50,
            matches: 6,
        }],
        answers,
        extraction_rule: "the first fenced block, else the whole answer".into(),
        secs: 12.0,
    }
}

pub(crate) fn calibration() -> Calibration {
    let gemm = |dtype, emulated, mean_tflops| GemmMeasurement {
        dtype,
        layout: Layout::Nt,
        side: 1024,
        warmup: 1,
        iterations: 5,
        mean_tflops,
        best_tflops: mean_tflops,
        median_tflops: mean_tflops,
        emulated,
        values: ValueCheck {
            max_error: 1e-7,
            tolerance: 1e-5,
            passed: true,
        },
    };
    Calibration {
        device: "cpu".into(),
        threads: 2,
        gemm: vec![gemm(DType::F32, false, 0.14), gemm(DType::Bf16, true, 0.01)],
        kernels: vec![],
        copy: CopyBandwidth {
            bytes: 1 << 28,
            iterations: 3,
            best_gib_per_sec: 10.0,
            median_gib_per_sec: 9.5,
        },
        time_boxed: false,
        ..Calibration::default()
    }
}

/// Two checks: one green, one as bad as asked.
pub(crate) fn judgement(severity: Severity) -> Judgement {
    let finding = |id, severity, found: &str| Finding {
        id,
        severity,
        step: Some(1),
        found: found.into(),
        means: "the device gets <too> hot".into(),
        remedies: vec!["close other programs".into()],
    };
    Judgement {
        findings: vec![
            finding(
                CheckId::DeadAdapters,
                Severity::Green,
                "every B matrix got a gradient",
            ),
            finding(
                CheckId::StepTime,
                severity,
                "1.62 times the time of steps 5 to 20",
            ),
        ],
        not_checked: vec![CheckId::AdapterBase],
        last_good_step: Some(24),
    }
}

/// A training that learned something, on a processor that was calibrated.
pub(crate) fn input() -> ReportInput {
    ReportInput {
        training: Some(TrainingRecord {
            id: "20261130-101112-sql-0123abcd".into(),
            config_hash: "0123abcd".repeat(8),
            recipe: RecipeRecord {
                name: "sql".into(),
                title: "Text to SQL".into(),
                toml: "rank = 16\n".into(),
            },
            model: "SmolLM2-135M".into(),
            task: "text-to-SQL".into(),
            status: RunStatus::Ok,
            reason: None,
            remedies: vec![],
            summary: summary(&steps(24)),
            judge: judgement(Severity::Green),
            disturbed: None,
            peak_process_bytes: Some(2 << 30),
            before: Some(evaluation(12, 100)),
            after: Some(evaluation(41, 100)),
            shape: Some(SHAPE),
            lora: Some(LoraShape::new(16, &["q_proj", "v_proj"]).unwrap()),
            four_bit_base: false,
            predicted: None,
        }),
        experiment: None,
        device: DeviceRecord {
            name: "Some processor".into(),
            gfx: None,
            backend: "cpu".into(),
        },
        dtype: DType::F32,
        manifest: json!({"system": {"os": "linux"}, "seed": 42}),
        calibration: Some(calibration()),
        calibrated: Some("2026-11-30T09:00:00Z".into()),
        spec_peak: None,
        doctor: None,
        telemetry: None,
        prices: Prices::default(),
        repeat: Some("tunesmith train sql --device cpu".into()),
        counting_rules: vec![],
        redactions: vec![],
        engine: EngineRecord {
            name: "tunesmith-engine".into(),
            version: "0.1.0".into(),
        },
        program_version: "0.1.0".into(),
        date: "2026-11-30T10:11:12Z".into(),
    }
}

/// The same with its training changed.
pub(crate) fn trained(change: impl FnOnce(&mut TrainingRecord)) -> ReportInput {
    let mut input = input();
    change(input.training.as_mut().unwrap());
    input
}

/// A calibration alone.
pub(crate) fn measured() -> ReportInput {
    ReportInput {
        training: None,
        ..input()
    }
}

pub(crate) fn html(input: ReportInput) -> String {
    Report::new(input).to_html().unwrap()
}

/// Everything that a browser might fetch or run.
pub(crate) fn assert_self_contained(html: &str) {
    let lower = html.to_lowercase();
    for forbidden in [
        "<script",
        "<link",
        "<img",
        "<iframe",
        "<object",
        "<base",
        " src=",
        " href=",
        "url(",
        "@import",
        " onload",
        " onerror=\"",
    ] {
        // Links within the page go nowhere else.
        let lower = lower.replace(" href=\"#", "");
        assert!(!lower.contains(forbidden), "the page contains {forbidden}");
    }
}

/// f32 against NF4 on three seeds, with the speeds of the published comparison: 129.4 ± 2.6 against 123.1 ± 0.8.
pub(crate) fn experiment() -> ExperimentRecord {
    experiment_of(&[
        ("f32", &[126.5, 130.6, 131.2], 2.0, &[]),
        (
            "nf4",
            &[122.2, 123.4, 123.6],
            1.2,
            &[("model.quantization", "nothing", "nf4")],
        ),
    ])
}

/// Name, speeds, GiB, and what it changes.
type ArmOf<'a> = (&'a str, &'a [f64], f64, &'a [(&'a str, &'a str, &'a str)]);

pub(crate) fn experiment_of(arms: &[ArmOf<'_>]) -> ExperimentRecord {
    let change = |(key, from, to): &(&str, &str, &str)| Change {
        key: (*key).into(),
        from: (*from).into(),
        to: (*to).into(),
    };
    let claim = |at_least: f64, why: &str| Claim {
        metric: Metric::TokensPerSec,
        arm: String::new(),
        against: String::new(),
        of: Quantity::Ratio,
        at_least: Some(at_least),
        at_most: None,
        why: why.into(),
    };
    let design = Design {
        arms: arms
            .iter()
            .map(|(name, _, _, changes)| ((*name).into(), changes.iter().map(change).collect()))
            .collect(),
        metrics: vec![Metric::TokensPerSec, Metric::PeakBytes],
        criteria: vec![claim(0.5, "half of the speed would still be of use")],
        predictions: vec![claim(1.5, "a fused kernel would read a quarter of the bytes")],
    };
    let seeds = [42, 123, 7];
    let mut measured = Vec::new();
    let mut runs = Vec::new();
    for (arm, (_, speeds, gib, _)) in arms.iter().enumerate() {
        for (round, speed) in speeds.iter().enumerate() {
            let bytes = (gib + 0.01 * round as f64) * f64::from(1_u32 << 30);
            measured.push(Measured {
                arm,
                seed: seeds[round % 3],
                figures: [(Metric::TokensPerSec, *speed), (Metric::PeakBytes, bytes)].into(),
                correct: [("q1".to_owned(), arm == 0), ("q2".to_owned(), true)].into(),
            });
            runs.push(ExperimentRun {
                arm,
                seed: seeds[round % 3],
                id: Some(format!("run-{arm}-{round}")),
                status: "ok".into(),
                reason: None,
                counts: true,
                predicted_bytes: Some((bytes * 1.04) as u64),
                peak_bytes: Some(bytes as u64),
                tokens_per_sec: Some(*speed),
                losses: (1..=20)
                    .map(|step| LossPoint {
                        step,
                        loss: 2.0 / (step as f64).sqrt() + 0.01 * arm as f64,
                    })
                    .collect(),
            });
        }
    }
    ExperimentRecord {
        name: "f32-or-nf4".into(),
        title: "f32 or 4-bit?".into(),
        question: "Is a 4-bit base faster on this device, and how much memory does it save?".into(),
        config_hash: "feedbeef".repeat(8),
        toml: "name = \"f32-or-nf4\"\n".into(),
        model: "SmolLM2-135M".into(),
        planned_runs: runs.len(),
        comparison: compare(&design, &measured),
        compared_steps: Some(20),
        runs,
        notes: vec!["4-bit here is Tunesmith's own tensor path; it says nothing of other kernels".into()],
        drift: vec![],
        ladder: None,
    }
}

/// An arm of the ladder: its name, what it measures, what it changes, by which figure, and its three runs.
type Rung<'a> = (&'a str, Measures, Vec<Change>, Metric, [f64; 3]);

/// Where the time goes: products, a training, and one that computes layers again, three runs each.
pub(crate) fn ladder() -> ExperimentRecord {
    let kept: [f64; 3] = [0.040, 0.042, 0.038];
    let again: [f64; 3] = [0.030, 0.031, 0.029];
    let products: [f64; 3] = [0.080, 0.081, 0.079];
    let written: [f64; 3] = [20.0, 20.5, 19.5];
    let change = |key: &str, from: &str, to: &str| Change {
        key: key.into(),
        from: from.into(),
        to: to.into(),
    };
    let arms: [Rung<'_>; 4] = [
        ("training", Measures::Training, vec![], Metric::UsefulTflops, kept),
        (
            "layers computed again",
            Measures::Training,
            vec![change("train.recompute", "none", "layer")],
            Metric::UsefulTflops,
            again,
        ),
        (
            "its products | alone",
            Measures::Products,
            vec![change("measures", "training", "products")],
            Metric::ProductsTflops,
            products,
        ),
        (
            "answers",
            Measures::Decoding,
            vec![change("measures", "training", "decoding")],
            Metric::DecodeTokensPerSec,
            written,
        ),
    ];
    let design = Design {
        arms: arms
            .iter()
            .map(|(name, _, changes, _, _)| ((*name).into(), changes.clone()))
            .collect(),
        metrics: vec![Metric::UsefulTflops],
        criteria: vec![],
        predictions: vec![],
    };
    let measured: Vec<Measured> = arms
        .iter()
        .enumerate()
        .flat_map(|(arm, (_, _, _, metric, values))| {
            values.iter().enumerate().map(move |(seed, value)| Measured {
                arm,
                seed: seed as u64,
                figures: [(*metric, *value)].into(),
                correct: [].into(),
            })
        })
        .collect();
    let comparison = compare(&design, &measured);
    let around = Around {
        dtype: DType::F32,
        peak: Some(Tflops(0.14)),
        copy: Some(calibration().copy),
        token_bytes: Some(538_060_032),
    };
    let levels: Vec<_> = arms
        .iter()
        .map(|(_, measures, ..)| *measures)
        .zip(&comparison.arms)
        .collect();
    let ladder = gap::ladder(&levels, &around).unwrap();
    let runs = measured.iter().map(|run| ExperimentRun {
        arm: run.arm,
        seed: run.seed,
        id: None,
        status: "ok".into(),
        reason: None,
        counts: true,
        predicted_bytes: None,
        peak_bytes: None,
        tokens_per_sec: None,
        losses: vec![],
    });
    ExperimentRecord {
        name: "where-time-goes".into(),
        title: "Where the time goes".into(),
        question: "What eats the difference between peak and training?".into(),
        config_hash: "feedbeef".repeat(8),
        toml: "name = \"where-time-goes\"\n".into(),
        model: "SmolLM2-135M".into(),
        planned_runs: measured.len(),
        runs: runs.collect(),
        ladder: Some(ladder),
        comparison,
        compared_steps: None,
        notes: vec![],
        drift: vec![],
    }
}

/// A report of an experiment.
pub(crate) fn compared(experiment: ExperimentRecord) -> ReportInput {
    ReportInput {
        experiment: Some(experiment),
        ..measured()
    }
}
