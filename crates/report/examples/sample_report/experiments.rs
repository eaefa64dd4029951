//! Made-up experiments: two arms, a sweep of which one run fails, and where the time goes.

use std::collections::BTreeMap;

use tunesmith_measure::comparison::{
    ArmFigure, ArmSummary, Change, Claim, Design, Measured, Metric, Quantity, compare,
};
use tunesmith_measure::gap::{self, Around, Measures};
use tunesmith_measure::{Spread, Tflops};
use tunesmith_report::{ExperimentRecord, ExperimentRun, LossPoint, ReportInput};

use crate::{card::card, noise};

/// Two arms on three seeds, with the published speeds of 129.4 ± 2.6 and 76.8.
pub(crate) fn experiment() -> anyhow::Result<ReportInput> {
    let arms: [ArmOf; 2] = [
        ("bf16", &[126.5, 130.6, 131.2], 13.9, &[]),
        (
            "nf4",
            &[76.1, 76.9, 77.4],
            10.2,
            &[("model.quantization", "none", "nf4")],
        ),
    ];
    Ok(ReportInput {
        experiment: Some(experiment_of(
            "bf16-or-4bit",
            "bf16 or 4-bit?",
            "Is a 4-bit base faster on this card, and how much memory does it save?",
            &arms,
        )),
        repeat: Some("tunesmith experiment run bf16-or-4bit".into()),
        ..card()?
    })
}

pub(crate) fn sweep() -> anyhow::Result<ReportInput> {
    let arms: [ArmOf; 7] = [
        ("base", &[101.0, 103.0, 102.0], 8.1, &[]),
        (
            "batch 1",
            &[61.0, 60.0, 62.0],
            6.4,
            &[("train.micro_batch", "2", "1")],
        ),
        (
            "batch 4",
            &[151.0, 149.0, 153.0],
            11.9,
            &[("train.micro_batch", "2", "4")],
        ),
        (
            "batch 8",
            &[163.0, 166.0, 161.0],
            19.2,
            &[("train.micro_batch", "2", "8")],
        ),
        (
            "recompute",
            &[79.0, 80.5, 79.5],
            5.6,
            &[("train.recompute", "none", "layer")],
        ),
        ("rank 8", &[104.0, 103.0, 105.0], 8.0, &[("lora.rank", "16", "8")]),
        ("rank 64", &[97.0, 96.0, 98.5], 8.6, &[("lora.rank", "16", "64")]),
    ];
    let mut sweep = experiment_of(
        "synthetic-sweep",
        "A synthetic sweep",
        "Which knob matters most on this card?",
        &arms,
    );
    let broken = &mut sweep.runs[11];
    broken.counts = false;
    broken.status = "oom".into();
    broken.reason = Some("synthetic: the card had 3.9 GiB free and the step needed 5.1 GiB".into());
    Ok(ReportInput {
        experiment: Some(sweep),
        repeat: Some("tunesmith experiment run synthetic-sweep".into()),
        ..card()?
    })
}

/// The published card's peak and trainings by what LoRA needs, with synthetic products between them.
pub(crate) fn ladder() -> anyhow::Result<ReportInput> {
    let recompute = Change {
        key: "train.recompute".into(),
        from: "none".into(),
        to: "layer".into(),
    };
    let arms = [
        (Measures::Training, "training", Metric::UsefulTflops, 19.1),
        (
            Measures::Training,
            "layers computed again",
            Metric::UsefulTflops,
            14.1,
        ),
        (
            Measures::Products,
            "its products alone",
            Metric::ProductsTflops,
            61.0,
        ),
        (
            Measures::Decoding,
            "answers, one at a time",
            Metric::DecodeTokensPerSec,
            46.2,
        ),
    ];
    let summaries: Vec<ArmSummary> = arms
        .iter()
        .enumerate()
        .map(|(arm, (_, name, metric, mean))| {
            let values: Vec<f64> = (0..3)
                .map(|round| mean * (1.0 + 0.02 * (noise(100 + 10 * arm as u64 + round) - 0.5)))
                .collect();
            let changes = if arm == 1 {
                vec![recompute.clone()]
            } else {
                Vec::new()
            };
            ArmSummary {
                name: (*name).into(),
                changes,
                runs: values.len(),
                figures: Spread::of(&values)
                    .map(|spread| (*metric, ArmFigure { spread, values }))
                    .into_iter()
                    .collect(),
            }
        })
        .collect();
    let base = card()?;
    let levels: Vec<(Measures, &ArmSummary)> = arms
        .iter()
        .map(|(measures, ..)| *measures)
        .zip(&summaries)
        .collect();
    let ladder = gap::ladder(
        &levels,
        &Around {
            dtype: base.dtype,
            peak: Some(Tflops(101.5)),
            copy: base.calibration.as_ref().map(|calibration| calibration.copy),
            token_bytes: Some(6_171_877_376),
        },
    )?;
    let none: &[(&str, &str, &str)] = &[];
    let shell = experiment_of(
        "where-time-goes",
        "Where the time goes",
        "Between what this card can multiply and what a training achieves, what eats the difference?",
        &[("training", &[1492.0, 1490.0, 1495.0], 12.5, none)],
    );
    Ok(ReportInput {
        experiment: Some(ExperimentRecord {
            ladder: Some(ladder),
            notes: Vec::new(),
            ..shell
        }),
        repeat: Some("tunesmith experiment run where-time-goes".into()),
        ..base
    })
}

/// Name, speeds, GiB and what it changes.
type ArmOf<'a> = (&'a str, &'a [f64], f64, &'a [(&'a str, &'a str, &'a str)]);

fn experiment_of(name: &str, title: &str, question: &str, arms: &[ArmOf<'_>]) -> ExperimentRecord {
    let change = |(key, from, to): &(&str, &str, &str)| Change {
        key: (*key).into(),
        from: (*from).into(),
        to: (*to).into(),
    };
    let claim = |at_least: Option<f64>, at_most: Option<f64>, why: &str| Claim {
        metric: Metric::TokensPerSec,
        arm: String::new(),
        against: String::new(),
        of: Quantity::Ratio,
        at_least,
        at_most,
        why: why.into(),
    };
    let design = Design {
        arms: arms
            .iter()
            .map(|(name, _, _, changes)| ((*name).into(), changes.iter().map(change).collect()))
            .collect(),
        metrics: vec![Metric::TokensPerSec, Metric::PeakBytes],
        criteria: vec![claim(
            Some(0.5),
            None,
            "synthetic: below half of the speed it is of no use",
        )],
        predictions: vec![claim(
            Some(0.8),
            Some(1.0),
            "synthetic: unpacking was thought to cost a fifth",
        )],
    };
    let mut measured = Vec::new();
    let mut runs = Vec::new();
    let seeds = [3407, 42, 7];
    for (round, seed) in seeds.into_iter().enumerate() {
        let mut order: Vec<usize> = (0..arms.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for arm in order {
            let (_, speeds, gib, _) = arms[arm];
            let bytes = (gib + 0.04 * noise(arm as u64 * 10 + round as u64)) * f64::from(1_u32 << 30);
            measured.push(Measured {
                arm,
                seed,
                figures: [(Metric::TokensPerSec, speeds[round]), (Metric::PeakBytes, bytes)].into(),
                correct: BTreeMap::new(),
            });
            runs.push(ExperimentRun {
                arm,
                seed,
                id: Some(format!("20260102-0{arm}0{round}05-{name}-01234567")),
                status: "ok".into(),
                reason: None,
                counts: true,
                predicted_bytes: Some((bytes * (1.03 + 0.02 * noise(arm as u64))) as u64),
                peak_bytes: Some(bytes as u64),
                tokens_per_sec: Some(speeds[round]),
                losses: (1..=60)
                    .map(|step| LossPoint {
                        step,
                        loss: 0.4
                            + 1.6 * (-(step as f64) / (14.0 + arm as f64)).exp()
                            + 0.08 * (noise(step * 31 + arm as u64 * 7 + round as u64) - 0.5),
                    })
                    .collect(),
            });
        }
    }
    ExperimentRecord {
        name: name.into(),
        title: format!("{title} (synthetic, measured nowhere)"),
        question: question.into(),
        config_hash: "0123456789abcdef".repeat(4),
        toml: format!("# synthetic\nname = \"{name}\"\n"),
        model: "A synthetic model".into(),
        planned_runs: runs.len(),
        comparison: compare(&design, &measured),
        compared_steps: Some(20),
        runs,
        notes: vec![
            "4-bit here is Tunesmith's own tensor path: the verdict is on it, and not on the card".into(),
        ],
        drift: Vec::new(),
        ladder: None,
    }
}
