//! The machine as the page shows it: its calibration and the manifest.

use serde::Serialize;
use serde_json::Value;
use tunesmith_measure::{Gib, practical_peak};
use tunesmith_protocol::{Calibration, Layout};

use crate::ReportInput;
use crate::format::{count, number, plural, shorten, significant};

/// What the device did.
#[derive(Serialize)]
pub(super) struct CalibrationView {
    sentence: String,
    rows: Vec<GemmRow>,
    /// What the other kernels' values came to; empty where none was checked.
    kernels: String,
    copy: String,
    time_boxed: bool,
}

#[derive(Serialize)]
pub(super) struct GemmRow {
    dtype: &'static str,
    emulated: bool,
    layout: &'static str,
    side: String,
    timed: String,
    mean: String,
    median: String,
    best: String,
    error: String,
    passed: bool,
    is_peak: bool,
}

impl CalibrationView {
    pub(super) fn of(calibration: &Calibration, run: &ReportInput) -> Self {
        let peak = practical_peak(calibration, run.dtype);
        let sentence = match (peak, run.spec_peak) {
            (Some(peak), Some(spec)) => format!(
                "This device does {} of the {} TFLOPS of its spec sheet in {}.",
                number(peak.tflops.0),
                number(spec.0),
                run.dtype.name()
            ),
            (Some(peak), None) => format!(
                "This device does {} TFLOPS in {}; its spec-sheet peak is unknown.",
                number(peak.tflops.0),
                run.dtype.name()
            ),
            (None, _) => format!(
                "No peak was measured in {}, the format of this run.",
                run.dtype.name()
            ),
        };
        let rows = calibration
            .gemm
            .iter()
            .map(|gemm| GemmRow {
                dtype: gemm.dtype.name(),
                emulated: gemm.emulated,
                layout: match gemm.layout {
                    Layout::Nt => "NT, forward",
                    Layout::Nn => "NN, input gradient",
                    Layout::Tn => "TN, weight gradient",
                },
                side: count(gemm.side.unsigned_abs()),
                timed: count(u64::from(gemm.iterations)),
                mean: number(gemm.mean_tflops),
                median: number(gemm.median_tflops),
                best: number(gemm.best_tflops),
                error: significant(gemm.values.max_error, 2),
                passed: gemm.values.passed,
                is_peak: gemm.dtype == run.dtype
                    && peak.is_some_and(|peak| {
                        peak.layout == gemm.layout && peak.side == gemm.side && !gemm.emulated
                    }),
            })
            .collect();
        let copy = &calibration.copy;
        Self {
            sentence,
            rows,
            kernels: kernels(calibration),
            copy: format!(
                "Copies of {} GiB run at {} GiB/s (median; best {}), reading and writing both counted, on {}{}.",
                number(Gib::from_bytes(copy.bytes).0),
                number(copy.median_gib_per_sec),
                number(copy.best_gib_per_sec),
                calibration.device,
                if calibration.device == "cpu" {
                    format!(" with {}", plural(calibration.threads as u64, "thread"))
                } else {
                    String::new()
                }
            ),
            time_boxed: calibration.time_boxed,
        }
    }
}

fn kernels(calibration: &Calibration) -> String {
    let wrong: Vec<String> = calibration
        .kernels
        .iter()
        .filter(|check| !check.values.passed)
        .map(|check| format!("{} in {}", check.kernel.label(), check.dtype.name()))
        .collect();
    match (calibration.kernels.len(), wrong.is_empty()) {
        (0, _) => String::new(),
        (checked, true) => format!(
            "Attention and the LoRA layer, forward and backward, agree with float64 in all {}.",
            plural(checked as u64, "check")
        ),
        (_, false) => format!("Wrong against float64: {}.", wrong.join("; ")),
    }
}

/// A group of what a report says of the surroundings of its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// e.g. `machine`.
    pub name: String,
    /// Key and value.
    pub rows: Vec<[String; 2]>,
}

/// Objects at the top become groups; what lies deeper becomes dotted keys.
pub(crate) fn groups(manifest: &Value) -> Vec<Group> {
    let Value::Object(fields) = manifest else {
        let mut rows = Vec::new();
        flatten("value", manifest, &mut rows);
        rows.retain(|row| !row[1].is_empty());
        return if rows.is_empty() {
            Vec::new()
        } else {
            vec![Group {
                name: "Manifest".to_owned(),
                rows,
            }]
        };
    };
    let mut loose = Group {
        name: "Run".to_owned(),
        rows: Vec::new(),
    };
    let mut groups = Vec::new();
    for (key, value) in fields {
        if let Value::Object(inner) = value {
            let mut rows = Vec::new();
            for (key, value) in inner {
                flatten(key, value, &mut rows);
            }
            groups.push(Group {
                name: key.replace('_', " "),
                rows,
            });
        } else {
            flatten(key, value, &mut loose.rows);
        }
    }
    groups.insert(0, loose);
    groups.retain(|group| !group.rows.is_empty());
    groups
}

fn flatten(key: &str, value: &Value, rows: &mut Vec<[String; 2]>) {
    const LONGEST: usize = 2000;
    match value {
        Value::Object(fields) => {
            for (inner, value) in fields {
                flatten(&format!("{key}.{inner}"), value, rows);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{key}.{}", index + 1), item, rows);
            }
        }
        Value::Array(items) => {
            let text: Vec<String> = items.iter().map(plain).collect();
            rows.push([key.to_owned(), shorten(&text.join(", "), LONGEST)]);
        }
        _ => rows.push([key.to_owned(), shorten(&plain(value), LONGEST)]),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "unknown".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}
