//! A made-up training with everything that a report can tell of one.

use tunesmith_measure::cost::{EnergyRead, Prices};
use tunesmith_measure::judge::{CheckId, Finding, Judgement, Severity};
use tunesmith_measure::{
    LoraShape, ModelShape, Peaks, Projection, Recomputed, SummaryContext, practical_peak, summarise,
};
use tunesmith_protocol::{DType, RunStatus, Step};
use tunesmith_report::{
    AnswerRecord, CategoryScore, EvaluationResult, RecipeRecord, ReportInput, Telemetry, TelemetryPoint,
    TrainingRecord,
};

use crate::{card::card, noise};

const SHAPE: ModelShape = ModelShape {
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

pub(crate) fn training() -> anyhow::Result<ReportInput> {
    let card = card()?;
    let peak = card
        .calibration
        .as_ref()
        .and_then(|calibration| practical_peak(calibration, DType::Bf16));
    let peaks = Peaks {
        theoretical: card.spec_peak,
        practical: peak.map(|peak| peak.tflops),
    };
    let lora = LoraShape {
        rank: 16,
        target_modules: Projection::ALL.to_vec(),
    };
    let context = SummaryContext {
        shape: SHAPE,
        lora: lora.clone(),
        recomputed: Recomputed::Nothing,
        peaks,
        discard: None,
    };
    let mut summary = summarise(&steps(), &context);
    summary
        .findings
        .push("synthetic remark: 6 % of the time after the first step passed between steps".to_owned());
    Ok(ReportInput {
        training: Some(TrainingRecord {
            id: "20260102-030405-synthetic-sample-01234567".into(),
            config_hash: "0123456789abcdef".repeat(4),
            recipe: RecipeRecord {
                name: "synthetic-sample".into(),
                title: "Synthetic sample, measured nowhere".into(),
                toml: "# synthetic\n[model]\nname = \"synthetic\"\n\n[lora]\nrank = 16\nalpha = 32.0\n"
                    .into(),
            },
            model: "A synthetic model".into(),
            task: "text-to-SQL".into(),
            status: RunStatus::Ok,
            reason: None,
            remedies: Vec::new(),
            summary,
            judge: judgement(),
            disturbed: None,
            peak_process_bytes: Some(2_123_456_789),
            before: Some(evaluation(false)),
            after: Some(evaluation(true)),
            shape: Some(SHAPE),
            lora: Some(lora),
            four_bit_base: false,
            predicted: Some(serde_json::from_value(serde_json::json!({
                "formula": 2, "weights_bytes": 538_060_032_u64, "adapter_bytes": 78_151_680_u64, "kept_bytes": 420_000_000_u64,
                "moment_bytes": 150_994_944_u64, "beside_bytes": 0, "context_bytes": 524_288_000_u64,
            }))?),
        }),
        telemetry: Some(telemetry()),
        prices: Prices {
            currency: "EUR".into(),
            per_kwh: Some(0.31),
            card: Some(899.0),
            card_hours: Some(10_000.0),
        },
        repeat: Some("tunesmith train synthetic-sample --set train.seed=42".into()),
        ..card
    })
}

fn telemetry() -> Telemetry {
    Telemetry {
        energy: Some(EnergyRead {
            watt_hours: 20.6,
            covered_secs: 240.0,
        }),
        points: (0..250_u64)
            .map(|second| TelemetryPoint {
                at_secs: second as f64,
                celsius: Some(88.0 - 46.0 * (-(second as f64) / 60.0).exp() + noise(second)),
                core_mhz: Some(
                    2450.0 - 120.0 * (1.0 - (-(second as f64) / 80.0).exp()) - 30.0 * noise(second + 9),
                ),
                watts: Some(306.0 + 12.0 * noise(second + 77)),
                load_percent: None,
                vram_bytes: None,
            })
            .collect(),
    }
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

fn steps() -> Vec<Step> {
    let (mut real, mut padded, mut supervised, mut elapsed) = (0, 0, 0, 3.4);
    (1..=120_u64)
        .map(|step| {
            let tokens = 16_000 + (noise(step) * 2000.0) as u64;
            real += tokens;
            padded += tokens + (noise(step + 500) * 900.0) as u64;
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
                squared_lengths: tokens * 900,
                peak_bytes: Some(1_288_490_188 + (noise(step + 7) * 9e7) as u64),
            }
        })
        .collect()
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
