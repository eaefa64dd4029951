//! What a model's parameters are and which of them 4 bits can touch (T6), and the memory that was predicted against the one
//! that was measured (X11).

use serde::Serialize;
use tunesmith_measure::{Gib, MemoryNeed, ModelShape};

use super::ChartView;
use super::experiment::signed_percent;
use crate::TrainingRecord;
use crate::draw::{Part, Stack};
use crate::format::{count, number, percent};

#[derive(Serialize)]
pub(super) struct MemoryView {
    composition: Option<ChartView>,
    composition_sentence: String,
    predicted: Option<ChartView>,
    predicted_sentence: String,
}

impl MemoryView {
    /// `None` where neither the model's dimensions nor a prediction is known.
    pub(super) fn of(training: &TrainingRecord) -> Option<Self> {
        if training.shape.is_none() && training.predicted.is_none() {
            return None;
        }
        let measured = training.summary.peak_bytes;
        Some(Self {
            composition: training.shape.as_ref().map(composition),
            composition_sentence: training
                .shape
                .as_ref()
                .map_or_else(String::new, |shape| composition_sentence(shape, training)),
            predicted: training.predicted.as_ref().map(|need| predicted(need, measured)),
            predicted_sentence: training
                .predicted
                .as_ref()
                .map_or_else(String::new, |need| predicted_sentence(need, measured)),
        })
    }
}

fn composition(shape: &ModelShape) -> ChartView {
    let linears = shape.linear_parameters();
    let embedding = shape.vocab * shape.hidden;
    let head = if shape.tied { 0 } else { embedding };
    let rest = shape.parameters().saturating_sub(linears + embedding + head);
    let part = |name: &str, size: u64, series: usize| Part {
        name: name.to_owned(),
        size: size as f64,
        words: millions(size),
        series,
    };
    let embeddings = if shape.tied {
        "embeddings, the head too: stay in 16 bits"
    } else {
        "embeddings: stay in 16 bits"
    };
    ChartView {
        title: "What the parameters are".to_owned(),
        said: format!("{} in all", millions(shape.parameters())),
        svg: Stack {
            title: "Parameters of the model",
            parts: vec![
                part("linear layers: 4 bits can touch these", linears, 0),
                part(embeddings, embedding, 1),
                part("head: stays in 16 bits", head, 2),
                part("norms and biases", rest, 3),
            ],
            marker: None,
        }
        .svg(),
    }
}

fn composition_sentence(shape: &ModelShape, training: &TrainingRecord) -> String {
    let share = shape.linear_parameters() as f64 / shape.parameters() as f64;
    let adapter = training.lora.as_ref().map_or_else(String::new, |lora| {
        let trained = lora.parameters(shape);
        format!(
            " The adapter trains {} parameters beside them, {} of the model.",
            count(trained),
            percent(trained as f64 / shape.parameters() as f64)
        )
    });
    format!(
        "{} of the parameters lie in linear layers, the only ones that 4-bit storage makes smaller.{adapter}",
        percent(share)
    )
}

fn predicted(need: &MemoryNeed, measured: Option<u64>) -> ChartView {
    let part = |name: &str, bytes: u64, series: usize| Part {
        name: name.to_owned(),
        size: bytes as f64,
        words: format!("{} GiB", number(Gib::from_bytes(bytes).0)),
        series,
    };
    let named =
        need.weights_bytes + need.adapter_bytes + need.kept_bytes + need.moment_bytes + need.context_bytes;
    let marker = measured.map(|bytes| {
        (
            bytes as f64,
            format!("measured {} GiB", number(Gib::from_bytes(bytes).0)),
        )
    });
    ChartView {
        title: "Predicted memory, and what was measured".to_owned(),
        said: format!("{} GiB by formula", number(Gib::from_bytes(need.total_bytes()).0)),
        svg: Stack {
            title: "Predicted memory by part",
            parts: vec![
                part("frozen model", need.weights_bytes, 0),
                part("adapter, gradient, optimizer", need.adapter_bytes, 2),
                part("kept for the backward pass", need.kept_bytes, 1),
                part("needed for a moment", need.moment_bytes, 4),
                part("checks and answers", need.total_bytes().saturating_sub(named), 3),
                part("driver and libraries", need.context_bytes, 5),
            ],
            marker,
        }
        .svg(),
    }
}

/// What an engine measures is what its allocator held in a step: it knows nothing of driver and libraries, and the checks
/// before the first step and answers are not in it.
fn predicted_sentence(need: &MemoryNeed, measured: Option<u64>) -> String {
    let held = need.step_bytes();
    match measured {
        Some(measured) if measured > 0 => format!(
            "Of a step, without driver and libraries, {} GiB were predicted and {} measured: {}.",
            number(Gib::from_bytes(held).0),
            number(Gib::from_bytes(measured).0),
            signed_percent(held as f64 / measured as f64 - 1.0)
        ),
        _ => "The engine could not tell its peak, so the prediction stands alone.".to_owned(),
    }
}

/// `134.5 million`.
fn millions(parameters: u64) -> String {
    if parameters >= 1_000_000_000 {
        format!("{} billion", number(parameters as f64 / 1e9))
    } else if parameters >= 100_000 {
        format!("{} million", number(parameters as f64 / 1e6))
    } else {
        count(parameters)
    }
}
