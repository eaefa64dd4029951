//! Two reports side by side: what both say, by name, with the ratio where one can be formed, and for every figure that
//! must not be compared the reason (X15, X16).

use serde::Serialize;
use tunesmith_measure::{Gib, Mfu, TrainingSummary, practical_peak};

use crate::comparable::{NotComparable, comparable};
use crate::format::{number, percent, points, significant};
use crate::{Report, view};

/// Two reports side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideBySide {
    /// What each is and where it was made: name, of the first, of the second.
    pub facts: Vec<[String; 3]>,
    /// The figures.
    pub figures: Vec<FigurePair>,
    /// Why some of them must not be compared.
    pub not_comparable: Vec<NotComparable>,
}

/// A figure of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigurePair {
    /// What it is.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Of the first; `None` where it does not say.
    pub first: Option<f64>,
    /// Of the second.
    pub second: Option<f64>,
    /// Second over first, where both are there and nothing forbids it.
    pub ratio: Option<f64>,
    /// Whether nothing speaks against comparing the two.
    pub comparable: bool,
}

impl FigurePair {
    /// A value with as many digits as its unit needs.
    pub fn words(&self, value: Option<f64>) -> String {
        match (value, self.unit) {
            (None, _) => "unknown".to_owned(),
            (Some(value), "%") => percent(value / 100.0).replace(" %", ""),
            (Some(value), "points") => points(value),
            (Some(value), _) => number(value),
        }
    }
}

impl SideBySide {
    /// Lays two reports side by side.
    pub fn of(first: &Report, second: &Report) -> Self {
        let not_comparable = comparable(first, second);
        let figures = figures(first)
            .into_iter()
            .zip(figures(second))
            .filter(|(one, other)| one.2.is_some() || other.2.is_some())
            .map(|((name, unit, one), (.., other))| {
                let forbidden = not_comparable
                    .iter()
                    .any(|reason| concerns(&reason.figures, name));
                FigurePair {
                    name: name.to_owned(),
                    unit,
                    first: one,
                    second: other,
                    ratio: one
                        .zip(other)
                        .filter(|(one, _)| !forbidden && *one != 0.0)
                        .map(|(one, other)| other / one),
                    comparable: !forbidden,
                }
            })
            .collect();
        Self {
            facts: facts(first, second),
            figures,
            not_comparable,
        }
    }

    /// As text for a terminal or as a table of Markdown.
    pub fn to_markdown(&self) -> String {
        let mut text = "| | first | second | second over first |\n|:--|--:|--:|--:|\n".to_owned();
        for [name, one, other] in &self.facts {
            text.push_str(&format!("| {name} | {} | {} | |\n", cell(one), cell(other)));
        }
        for figure in &self.figures {
            let ratio = match (figure.ratio, figure.comparable) {
                (Some(ratio), _) => significant(ratio, 3),
                (None, false) => "not comparable".to_owned(),
                (None, true) => String::new(),
            };
            let unit = if figure.unit.is_empty() {
                String::new()
            } else {
                format!(", {}", figure.unit)
            };
            text.push_str(&format!(
                "| {}{unit} | {} | {} | {ratio} |\n",
                figure.name,
                figure.words(figure.first),
                figure.words(figure.second)
            ));
        }
        if self.not_comparable.is_empty() {
            text.push_str("\nAll figures may be compared, as one report against one report.\n");
        } else {
            text.push_str("\nNot comparable, and why:\n\n");
            for reason in &self.not_comparable {
                text.push_str(&format!("- {}: {}\n", reason.figures, reason.why));
            }
        }
        text
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Whether a reason that names figures in words, such as `Speed, loss and scores`, concerns a figure.
fn concerns(named: &str, figure: &str) -> bool {
    let named = named.to_lowercase();
    if named.contains("all figures") {
        return true;
    }
    let words: &[&str] = match figure {
        "Steady speed" | "Whole-run speed" | "Time to first step" => &["speed"],
        "Peak memory" => &["memory"],
        "Last loss" => &["loss"],
        "Execution match, after" => &["score"],
        "MFU, LoRA-exact" | "MFU, 6ND" | "MFU, hardware" => &["mfu", "speed"],
        "Measured peak" | "Copies" => &["measured peak"],
        _ => &[],
    };
    words.iter().any(|word| named.contains(word))
}

fn facts(first: &Report, second: &Report) -> Vec<[String; 3]> {
    let both = |name: &str, of: &dyn Fn(&Report) -> String| [name.to_owned(), of(first), of(second)];
    let text = |place: &'static str| {
        move |report: &Report| {
            let value = report
                .record
                .manifest
                .pointer(place)
                .and_then(|value| value.as_str());
            value.unwrap_or("unknown").to_owned()
        }
    };
    vec![
        both("Of", &|report| report.about.name().to_owned()),
        both("Title", &|report| view::title(&report.record)),
        both("Device", &|report| view::device(&report.record)),
        both("Model", &|report| match view::model(&report.record) {
            "" => "none".to_owned(),
            model => model.to_owned(),
        }),
        both("Number format", &|report| report.record.dtype.name().to_owned()),
        both("Torch", &text("/software/torch")),
        both("Engine", &|report| {
            format!("{} {}", report.record.engine.name, report.record.engine.version)
                .trim()
                .to_owned()
        }),
        both("Date", &|report| view::date(&report.record.date)),
        both("Validity", &|report| report.validity.sentence.clone()),
        both("As written", &|report| {
            report.integrity.sentence().unwrap_or("yes").to_owned()
        }),
    ]
}

/// Name, unit and value of each figure, always in the same order.
fn figures(report: &Report) -> Vec<(&'static str, &'static str, Option<f64>)> {
    let record = &report.record;
    let summary: Option<&TrainingSummary> = record.training.as_ref().map(|training| &training.summary);
    let mfu = summary.and_then(|summary| summary.mfu);
    let share =
        |pair: Option<tunesmith_measure::MfuPair>| pair.and_then(|pair| pair.practical).map(Mfu::percent);
    let calibration = record.calibration.as_ref();
    vec![
        (
            "Steady speed",
            "real tokens/s",
            summary.and_then(|summary| summary.steady_tokens_per_sec),
        ),
        (
            "Whole-run speed",
            "real tokens/s",
            summary.and_then(|summary| summary.whole_run_tokens_per_sec),
        ),
        (
            "Time to first step",
            "s",
            summary.and_then(|summary| summary.time_to_first_step_secs),
        ),
        (
            "Peak memory",
            "GiB",
            summary
                .and_then(|summary| summary.peak_bytes)
                .map(|bytes| Gib::from_bytes(bytes).0),
        ),
        ("MFU, LoRA-exact", "%", share(mfu.map(|mfu| mfu.lora_exact))),
        ("MFU, 6ND", "%", share(mfu.map(|mfu| mfu.six_nd))),
        ("MFU, hardware", "%", share(mfu.map(|mfu| mfu.hardware))),
        (
            "Last loss",
            "nats",
            summary
                .and_then(|summary| summary.loss)
                .map(|loss| loss.mean_last_tenth),
        ),
        (
            "Execution match, after",
            "points",
            report.gain.as_ref().map(|gain| gain.after_points),
        ),
        (
            "Measured peak",
            "TFLOPS",
            calibration
                .and_then(|calibration| practical_peak(calibration, record.dtype))
                .map(|peak| peak.tflops.0),
        ),
        (
            "Copies",
            "GiB/s",
            calibration
                .filter(|calibration| calibration.copy.iterations > 0)
                .map(|calibration| calibration.copy.median_gib_per_sec),
        ),
    ]
}
