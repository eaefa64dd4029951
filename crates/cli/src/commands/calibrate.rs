//! `calibrate`: what the device reaches, whether it computes rightly, and whether the measurement can be believed.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tunesmith_lab::pipeline::{self, CalibrationWish, Settings, StaleCalibration, StoredCalibration};
use tunesmith_measure::calibration::{
    Sustainment, Validity, attention_secs, outside_allocator_bytes, own_layers, sustainment, validity,
    winners, wrong_values,
};
use tunesmith_measure::practical_peak;
use tunesmith_protocol::{AttentionMeasurement, Calibration, DType, OverheadSource, ValueCheck};

use crate::{
    Done, args,
    commands::fit::{offer_back, tell_holders},
    errors::CliError,
    format::{duration, or_dash, size, table},
    terminal::Terminal,
};

pub(crate) fn calibrate(
    args: &args::Calibrate,
    settings: &Settings,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let wish = CalibrationWish {
        again: args.again,
        full: args.full,
    };
    tell_holders(settings, terminal);
    let calibration = pipeline::calibrate_as(settings, wish, terminal)?;
    terminal.finish();
    offer_back(settings, terminal);
    let result = &calibration.record.result;
    let stale = pipeline::stale_calibrations(settings, &result.device);
    let mut json = calibration_json(&calibration);
    if let Value::Object(object) = &mut json {
        object.insert("stale".to_owned(), json!(stale));
    }
    // A wrong value fails the card's path whatever its speed (X8).
    let wrong = !wrong_values(result).is_empty();
    Ok(Done {
        text: text(&calibration, &stale),
        json,
        status: if wrong { 3 } else { 0 },
    })
}

/// Peaks in a line, with the measurement's age where it was taken earlier.
pub(super) fn calibration_line(calibration: &StoredCalibration) -> String {
    let result = &calibration.record.result;
    let peak = |dtype: DType| {
        practical_peak(result, dtype).map(|peak| format!("{} {:.3} TFLOPS", dtype.name(), peak.tflops.0))
    };
    let peaks: Vec<String> = [DType::F32, DType::Bf16, DType::F16]
        .into_iter()
        .filter_map(peak)
        .collect();
    let age = if calibration.reused {
        format!(
            ", measured {} ago (calibrate --again measures anew)",
            duration(calibration.age_secs())
        )
    } else {
        String::new()
    };
    format!("{} reaches {}{age}", result.device, peaks.join(", "))
}

/// The record, and what its numbers mean.
pub(super) fn calibration_json(calibration: &StoredCalibration) -> Value {
    let result = &calibration.record.result;
    let (word, why) = validity(result);
    json!({
        "taken": calibration.record.taken,
        "reused": calibration.reused,
        "age_secs": calibration.age_secs(),
        "file": calibration.path,
        "conditions": calibration.conditions,
        "validity": { "word": word, "why": why },
        "sustainment": sustainment(result),
        "winners": winners(&result.variants),
        "outside_allocator_bytes": result.allocator.as_ref().and_then(outside_allocator_bytes),
        "result": result,
    })
}

fn text(calibration: &StoredCalibration, stale: &[StaleCalibration]) -> String {
    let result = &calibration.record.result;
    let mut text = format!("{}\n{}\n", calibration_line(calibration), validity_line(result));
    for wrong in wrong_values(result) {
        let _ = writeln!(text, "  WRONG: {wrong}");
    }
    let _ = write!(text, "\n{}\n", products(result));
    if !result.kernels.is_empty() {
        let _ = write!(text, "\n{}\n", kernels(result));
    }
    if !result.attention.is_empty() {
        let _ = write!(text, "\n{}\n", attention(&result.attention));
    }
    if !result.linears.is_empty() {
        let _ = write!(text, "\n{}\n", linears(result));
    }
    text.push('\n');
    for line in lines(result) {
        let _ = writeln!(text, "{line}");
    }
    if !stale.is_empty() {
        text.push_str("\nearlier measurements that do not hold any more:\n");
        for stale in stale {
            let _ = writeln!(
                text,
                "  {}: {}",
                stale.stored.record.taken,
                stale.reasons.join("; ")
            );
        }
    }
    text.trim_end().to_owned()
}

fn validity_line(result: &Calibration) -> String {
    let (word, why) = validity(result);
    match word {
        Validity::Valid => format!("valid: {why}"),
        _ => format!("{}: {why}", word.word().to_uppercase()),
    }
}

fn products(result: &Calibration) -> String {
    let rows: Vec<Vec<String>> = result
        .gemm
        .iter()
        .map(|gemm| {
            vec![
                gemm.dtype.name().to_owned(),
                gemm.layout.name().to_owned(),
                gemm.side.to_string(),
                format!("{:.3}", gemm.mean_tflops),
                format!("{:.3}", gemm.best_tflops),
                format!("{:.3}", gemm.median_tflops),
                verdict(&gemm.values),
                if gemm.emulated {
                    "emulated, no peak".to_owned()
                } else {
                    String::new()
                },
            ]
        })
        .collect();
    table(
        &[
            "format", "layout", "side", "TFLOPS", "best", "median", "values", "",
        ],
        &rows,
    )
}

fn kernels(result: &Calibration) -> String {
    let rows: Vec<Vec<String>> = result
        .kernels
        .iter()
        .map(|check| {
            vec![
                check.dtype.name().to_owned(),
                check.kernel.label().to_owned(),
                format!("{:?}", check.inputs).to_lowercase(),
                verdict(&check.values),
            ]
        })
        .collect();
    table(&["format", "kernel", "inputs", "values"], &rows)
}

fn attention(attention: &[AttentionMeasurement]) -> String {
    let rows: Vec<Vec<String>> = attention
        .iter()
        .map(|of| {
            let millis = |secs: Option<f64>| or_dash(secs.map(|secs| format!("{:.2}", 1000.0 * secs)));
            let told = match (&of.unavailable, of.dispatched) {
                (Some(why), _) => why.clone(),
                (None, true) => format!(
                    "torch takes it: {}",
                    of.proof.as_deref().unwrap_or("without a proof")
                ),
                (None, false) => String::new(),
            };
            vec![
                of.dtype.name().to_owned(),
                of.backend.name().to_owned(),
                millis(of.forward_secs),
                millis(of.backward_secs),
                or_dash(of.peak_bytes.map(size)),
                or_dash(of.values.as_ref().map(verdict)),
                told,
            ]
        })
        .collect();
    table(
        &[
            "format",
            "attention",
            "forward ms",
            "backward ms",
            "memory",
            "values",
            "",
        ],
        &rows,
    )
}

fn linears(result: &Calibration) -> String {
    let rows: Vec<Vec<String>> = result
        .linears
        .iter()
        .map(|linear| {
            vec![
                linear.dtype.name().to_owned(),
                linear.name.clone(),
                linear.layout.name().to_owned(),
                format!("{}x{}x{}", linear.m, linear.n, linear.k),
                format!("{:.3}", linear.median_tflops),
                format!("{:.3}", linear.best_tflops),
            ]
        })
        .collect();
    table(
        &["format", "own layer", "layout", "m x n x k", "TFLOPS", "best"],
        &rows,
    )
}

/// What fits into a line each.
fn lines(result: &Calibration) -> Vec<String> {
    let mut lines = Vec::new();
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        if let Some(speed) = own_layers(result, dtype) {
            lines.push(format!(
                "own layers: {:.3} TFLOPS in {} as LoRA multiplies them, from a cold cache",
                speed.0,
                dtype.name()
            ));
        }
    }
    lines.extend(sustainment(result).map(|found| sustained_line(&found)));
    let copy = &result.copy;
    lines.push(format!(
        "copy: {:.1} GiB/s at best, {:.1} median",
        copy.best_gib_per_sec, copy.median_gib_per_sec
    ));
    if let Some(overhead) = &result.allocator
        && let Some(outside) = outside_allocator_bytes(overhead)
    {
        let of = match overhead.source {
            OverheadSource::Process => "this process holds outside torch's allocator",
            OverheadSource::Device if overhead.others_bytes.is_some() => {
                "this process takes of the card outside torch's allocator"
            }
            OverheadSource::Device => {
                "are in use on the card outside torch's allocator, those of other programs among them"
            }
        };
        lines.push(format!("memory: {} {of}", size(outside)));
    }
    if let Some(fastest) = faster_than_dispatched(&result.attention) {
        lines.push(fastest);
    }
    for winner in winners(&result.variants) {
        let figures: Vec<String> = winner
            .figures
            .iter()
            .map(|(value, figure)| {
                let figure = figure.map_or_else(
                    || "failed".to_owned(),
                    |figure| format!("{figure:.2} {}", winner.unit),
                );
                format!("{value}: {figure}")
            })
            .collect();
        let won = winner
            .value
            .map_or_else(|| "no winner".to_owned(), |value| format!("{value} wins"));
        lines.push(format!(
            "{}: {won}, {} ({})",
            winner.variable,
            winner.why,
            figures.join(", ")
        ));
    }
    lines
}

fn sustained_line(found: &Sustainment) -> String {
    let change = if found.drop >= 0.0 {
        format!("{:.1} % below", 100.0 * found.drop)
    } else {
        format!("{:.1} % above", -100.0 * found.drop)
    };
    format!(
        "sustained: {:.3} TFLOPS after {:.0} s, {change} the short measurement: {}",
        found.sustained.0,
        found.secs,
        found.steadiness.label()
    )
}

/// Where another back end would be faster than the one that torch takes by itself.
fn faster_than_dispatched(all: &[AttentionMeasurement]) -> Option<String> {
    let dispatched = all.iter().find(|of| of.dispatched)?;
    let fastest = tunesmith_measure::calibration::fastest_attention(all, dispatched.dtype)?;
    let (now, best) = (attention_secs(dispatched)?, attention_secs(fastest)?);
    (now > 1.1 * best).then(|| {
        format!(
            "attention: torch takes {} in {}, and {} would be {:.1} times as fast",
            dispatched.backend.name(),
            dispatched.dtype.name(),
            fastest.backend.name(),
            now / best
        )
    })
}

fn verdict(values: &ValueCheck) -> String {
    if values.passed {
        "right".to_owned()
    } else {
        format!("WRONG by {:.1e}", values.max_error)
    }
}
