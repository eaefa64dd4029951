//! A calibration as the page shows it, every part that is there.

use serde::Serialize;
use tunesmith_measure::calibration::{
    attention_secs, dispatched, fastest_attention, outside_allocator_bytes, own_layers, sustainment, winners,
};
use tunesmith_measure::{Gib, practical_peak};
use tunesmith_protocol::{
    AttentionMeasurement, Calibration, DType, InputSize, KernelCheck, Layout, OverheadSource,
};

use super::ChartView;
use crate::ReportInput;
use crate::draw::{ChartPoint, LineChart, Reference};
use crate::format::{capitalised, count, duration, number, percent, plural, significant};

/// What the device did.
#[derive(Serialize)]
pub(super) struct CalibrationView {
    sentence: String,
    taken: String,
    rows: Vec<GemmRow>,
    /// What the other kernels' values came to; empty where none was checked.
    kernels: String,
    kernel_rows: Vec<KernelRow>,
    copy: String,
    time_boxed: bool,
    sustained: Option<ChartView>,
    attention: Vec<AttentionRow>,
    attention_sentence: String,
    linears: Vec<[String; 6]>,
    own_layers: Option<String>,
    allocator: Option<String>,
    variants: Vec<[String; 3]>,
    stages: Vec<[String; 3]>,
    contention: Option<String>,
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

#[derive(Serialize)]
pub(super) struct KernelRow {
    kernel: &'static str,
    dtype: &'static str,
    inputs: &'static str,
    error: String,
    allowed: String,
    passed: bool,
}

#[derive(Serialize)]
pub(super) struct AttentionRow {
    backend: &'static str,
    dtype: &'static str,
    taken: bool,
    proof: String,
    forward: String,
    backward: String,
    memory: String,
    values: &'static str,
    passed: Option<bool>,
}

impl CalibrationView {
    pub(super) fn of(calibration: &Calibration, record: &ReportInput) -> Self {
        Self {
            sentence: sentence(calibration, record),
            taken: record.calibrated.as_deref().map_or_else(String::new, super::date),
            rows: gemm_rows(calibration, record.dtype),
            kernels: kernels(calibration),
            kernel_rows: calibration.kernels.iter().map(kernel_row).collect(),
            copy: copies(calibration),
            time_boxed: calibration.time_boxed,
            sustained: sustained(calibration),
            attention: calibration.attention.iter().map(attention_row).collect(),
            attention_sentence: attention_sentence(calibration, record.dtype),
            linears: linear_rows(calibration),
            own_layers: own_layers(calibration, record.dtype).map(|speed| {
                format!(
                    "A model's own layers, forward and for the input's gradient, run at {} TFLOPS from a cold cache.",
                    number(speed.0)
                )
            }),
            allocator: allocator(calibration),
            variants: variants(calibration),
            stages: calibration
                .stages
                .iter()
                .map(|stage| {
                    let cut = if stage.cut { "cut short by its time box" } else { "" };
                    [capitalised(stage.stage.title()), duration(stage.secs), cut.to_owned()]
                })
                .collect(),
            contention: contention(calibration),
        }
    }
}

fn sentence(calibration: &Calibration, record: &ReportInput) -> String {
    let dtype = record.dtype.name();
    match (practical_peak(calibration, record.dtype), record.spec_peak) {
        (Some(peak), Some(spec)) => format!(
            "This device does {} of the {} TFLOPS of its spec sheet in {dtype}.",
            number(peak.tflops.0),
            number(spec.0)
        ),
        (Some(peak), None) => format!(
            "This device does {} TFLOPS in {dtype}; its spec-sheet peak is unknown.",
            number(peak.tflops.0)
        ),
        (None, _) => format!("No peak was measured in {dtype}, the format of this report."),
    }
}

fn gemm_rows(calibration: &Calibration, dtype: DType) -> Vec<GemmRow> {
    let peak = practical_peak(calibration, dtype);
    calibration
        .gemm
        .iter()
        .map(|gemm| GemmRow {
            dtype: gemm.dtype.name(),
            emulated: gemm.emulated,
            layout: layout_name(gemm.layout),
            side: count(gemm.side.unsigned_abs()),
            timed: count(u64::from(gemm.iterations)),
            mean: number(gemm.mean_tflops),
            median: number(gemm.median_tflops),
            best: number(gemm.best_tflops),
            error: significant(gemm.values.max_error, 2),
            passed: gemm.values.passed,
            is_peak: gemm.dtype == dtype
                && peak.is_some_and(|peak| {
                    peak.layout == gemm.layout && peak.side == gemm.side && !gemm.emulated
                }),
        })
        .collect()
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Nt => "NT, forward",
        Layout::Nn => "NN, input gradient",
        Layout::Tn => "TN, weight gradient",
    }
}

fn kernel_row(check: &KernelCheck) -> KernelRow {
    KernelRow {
        kernel: check.kernel.label(),
        dtype: check.dtype.name(),
        inputs: match check.inputs {
            InputSize::Ordinary => "ordinary",
            InputSize::Large => "large",
        },
        error: significant(check.values.max_error, 2),
        allowed: significant(check.values.tolerance, 2),
        passed: check.values.passed,
    }
}

fn copies(calibration: &Calibration) -> String {
    let copy = &calibration.copy;
    if copy.iterations == 0 {
        return String::new();
    }
    format!(
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
    )
}

/// One product for as long as it takes to grow hot (X9).
fn sustained(calibration: &Calibration) -> Option<ChartView> {
    let measured = calibration.sustained.as_ref()?;
    let kept = sustainment(calibration);
    let points: Vec<ChartPoint> = measured
        .points
        .iter()
        .map(|point| ChartPoint {
            step: point.at_secs.round().max(0.0) as u64,
            value: Some(point.tflops),
            fault: None,
        })
        .collect();
    let svg = LineChart {
        title: "Sustained speed",
        unit: "TFLOPS",
        along: "second",
        points: &points,
        warm_up_until: None,
        reference: kept.map(|kept| Reference {
            value: kept.reference.0,
            label: format!("short measurement {}", number(kept.reference.0)),
        }),
        from_zero: true,
    }
    .svg();
    let said = kept.map_or_else(
        || "too short to tell".to_owned(),
        |kept| {
            let way = if kept.drop >= 0.0 { "below" } else { "above" };
            format!(
                "{}: {} TFLOPS in the last third of {}, {} {way} the short measurement",
                kept.steadiness.label(),
                number(kept.sustained.0),
                duration(kept.secs),
                percent(kept.drop.abs())
            )
        },
    );
    Some(ChartView {
        title: format!(
            "Sustained speed, {} products of {}³",
            measured.dtype.name(),
            count(measured.side.unsigned_abs())
        ),
        said,
        svg,
    })
}

fn attention_row(measured: &AttentionMeasurement) -> AttentionRow {
    let secs = |secs: Option<f64>| secs.map_or("–".to_owned(), |secs| format!("{} ms", number(1e3 * secs)));
    let (values, passed) = match (measured.values, measured.unavailable.is_some()) {
        (Some(values), _) if values.passed => ("✓ right", Some(true)),
        (Some(_), _) => ("✗ wrong", Some(false)),
        (None, true) => ("not there", None),
        (None, false) => ("not checked", None),
    };
    AttentionRow {
        backend: measured.backend.name(),
        dtype: measured.dtype.name(),
        taken: measured.dispatched,
        proof: measured
            .proof
            .clone()
            .or_else(|| measured.unavailable.clone())
            .unwrap_or_default(),
        forward: secs(measured.forward_secs),
        backward: secs(measured.backward_secs),
        memory: measured.peak_bytes.map_or("–".to_owned(), |bytes| {
            format!("{} MiB", number(Gib::from_bytes(bytes).0 * 1024.0))
        }),
        values,
        passed,
    }
}

/// Which back end torch takes, with the proof of it, and whether another is faster (C4).
fn attention_sentence(calibration: &Calibration, dtype: DType) -> String {
    if calibration.attention.is_empty() {
        return String::new();
    }
    let Some(taken) = dispatched(&calibration.attention, dtype) else {
        return format!(
            "Which back end of attention torch takes in {} was not seen.",
            dtype.name()
        );
    };
    let proof = taken
        .proof
        .as_deref()
        .map_or_else(String::new, |proof| format!(", proved by {proof}"));
    let faster = match (
        fastest_attention(&calibration.attention, dtype),
        attention_secs(taken),
    ) {
        (Some(fastest), Some(own)) if fastest.backend != taken.backend => attention_secs(fastest)
            .map_or_else(String::new, |secs| {
                format!(
                    "; {} is {} times as fast",
                    fastest.backend.name(),
                    significant(own / secs, 2)
                )
            }),
        _ => "; none of the others is faster".to_owned(),
    };
    format!(
        "In {} torch takes {} by itself{proof}{faster}.",
        dtype.name(),
        taken.backend.name()
    )
}

fn linear_rows(calibration: &Calibration) -> Vec<[String; 6]> {
    calibration
        .linears
        .iter()
        .map(|linear| {
            [
                linear.name.clone(),
                linear.dtype.name().to_owned(),
                layout_name(linear.layout).to_owned(),
                format!("{} × {} × {}", linear.m, linear.n, linear.k),
                number(linear.median_tflops),
                number(linear.best_tflops),
            ]
        })
        .collect()
}

fn allocator(calibration: &Calibration) -> Option<String> {
    let overhead = calibration.allocator.as_ref()?;
    let gib = |bytes: u64| number(Gib::from_bytes(bytes).0);
    let counted = match overhead.source {
        OverheadSource::Device => "by the driver's account of the card",
        OverheadSource::Process => "by the system's account of the process",
    };
    Some(match outside_allocator_bytes(overhead) {
        Some(bytes) => format!(
            "{} GiB lie outside the allocator: {} in use {counted}, {} of them the allocator's.",
            gib(bytes),
            gib(overhead.used_bytes),
            gib(overhead.allocator_bytes)
        ),
        None => format!(
            "The counters of memory contradict each other ({counted}), so what lies outside the allocator is unknown."
        ),
    })
}

/// Which setting of the environment won (X10).
fn variants(calibration: &Calibration) -> Vec<[String; 3]> {
    winners(&calibration.variants)
        .into_iter()
        .map(|winner| {
            let figures: Vec<String> = winner
                .figures
                .iter()
                .map(|(value, figure)| match figure {
                    Some(figure) => format!("{value}: {} {}", number(*figure), winner.unit),
                    None => format!("{value}: none"),
                })
                .collect();
            let won = winner.value.unwrap_or_else(|| "none".to_owned());
            [
                winner.variable,
                figures.join(", "),
                format!("{won}; {}", winner.why),
            ]
        })
        .collect()
}

fn contention(calibration: &Calibration) -> Option<String> {
    let seen = calibration.contention.as_ref()?;
    let cores = |cores: Option<f64>| cores.map_or("unknown".to_owned(), number);
    let who = if seen.others.is_empty() {
        String::new()
    } else {
        format!(" ({})", seen.others.join(", "))
    };
    Some(format!(
        "Others kept {} cores busy before, {} during and {} after{who}.",
        cores(seen.before_cores),
        cores(seen.during_cores),
        cores(seen.after_cores)
    ))
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
            "The kernels of training agree with float64 in all {}.",
            plural(checked as u64, "check")
        ),
        (_, false) => format!("Wrong against float64: {}.", wrong.join("; ")),
    }
}
