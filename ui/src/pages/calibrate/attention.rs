//! Back ends of attention as bars, with the one that torch takes and the proof of it (C4).

use egui::Ui;
use tunesmith_measure::calibration::{attention_secs, fastest_attention};
use tunesmith_protocol::{AttentionMeasurement, Calibration, DType};
use tunesmith_report::format::{number, size};

use super::{
    CalibrateView,
    measured::figure,
    tables::{Cell, Col, Of, table_ui},
};
use crate::{
    chart::{Bar, Bars},
    commands::Commands,
    theme::Tone,
    widgets,
};

pub(super) fn attention_ui(result: &Calibration, view: &mut CalibrateView, ui: &mut Ui, out: &mut Commands) {
    let all = &result.attention;
    if all.is_empty() {
        return;
    }
    widgets::panel(ui, "Attention", |ui| {
        for dtype in formats(all) {
            let (tone, sentence) = verdict(all, dtype);
            widgets::verdict_line(ui, tone, &sentence);
        }
        let labels: Vec<String> = all.iter().map(label).collect();
        let bars: Vec<Bar> = all
            .iter()
            .zip(&labels)
            .map(|(of, label)| Bar {
                label,
                value: attention_secs(of).map(|secs| 1000.0 * secs),
                reference: None,
            })
            .collect();
        Bars::new("Time of a forward and a backward pass", "ms", "", &bars).show(ui, &mut view.attention);
        if let Some(of) = all.first() {
            let shape = of.shape;
            widgets::caption(
                ui,
                &format!(
                    "Causal, {} rows of {} tokens, {} heads and {} for keys and values, {} wide",
                    shape.rows, shape.length, shape.heads, shape.kv_heads, shape.head_dim
                ),
            );
        }
        widgets::fold(ui, "Each back end", false, |ui| back_ends_ui(all, ui));
        ui.horizontal_wrapped(|ui| {
            widgets::caption(ui, "What the words mean:");
            for word in ["attention", "AOTriton"] {
                widgets::term(ui, word, out);
            }
        });
    });
}

/// Formats in the order in which they were measured.
fn formats(all: &[AttentionMeasurement]) -> Vec<DType> {
    let mut formats = Vec::new();
    for of in all {
        if !formats.contains(&of.dtype) {
            formats.push(of.dtype);
        }
    }
    formats
}

fn label(of: &AttentionMeasurement) -> String {
    let taken = if of.dispatched { ", taken by torch" } else { "" };
    format!("{} {}{taken}", of.dtype.name(), of.backend.name())
}

/// What torch takes in a format, and whether another one would be faster.
pub(super) fn verdict(all: &[AttentionMeasurement], dtype: DType) -> (Tone, String) {
    let name = dtype.name();
    let Some(taken) = all.iter().find(|of| of.dtype == dtype && of.dispatched) else {
        return (
            Tone::Unknown,
            format!("In {name} it could not be proven which kernel torch takes"),
        );
    };
    let proof = taken.proof.as_deref().unwrap_or("nothing");
    let begin = format!("In {name} torch takes {}", taken.backend.name());
    if taken.values.is_some_and(|values| !values.passed) {
        return (Tone::Stop, format!("{begin}, and its values are wrong"));
    }
    let fastest = fastest_attention(all, dtype);
    match (attention_secs(taken), fastest.and_then(attention_secs)) {
        (Some(now), Some(best)) if now > 1.1 * best => {
            let best_name = fastest.map_or("another", |of| of.backend.name());
            (
                Tone::Warn,
                format!(
                    "{begin}, and {best_name} would be {} times as fast; proven by {proof}",
                    number(now / best)
                ),
            )
        }
        (Some(_), _) => (
            Tone::Ok,
            format!("{begin}, the fastest of those that are right; proven by {proof}"),
        ),
        (None, _) => (Tone::Unknown, format!("{begin}; its speed was not measured")),
    }
}

fn back_ends_ui(all: &[AttentionMeasurement], ui: &mut Ui) {
    let columns = [
        Col("format", Of::Words(48.0)),
        Col("back end", Of::Words(80.0)),
        Col("forward ms", Of::Figures(80.0)),
        Col("backward ms", Of::Figures(88.0)),
        Col("memory", Of::Figures(88.0)),
        Col("values", Of::Words(84.0)),
        Col("what ran", Of::Rest),
    ];
    let rows: Vec<Vec<Cell>> = all
        .iter()
        .map(|of| {
            let millis = |secs: Option<f64>| {
                Cell::Text(secs.map_or_else(|| "–".to_owned(), |secs| figure(1000.0 * secs)))
            };
            vec![
                Cell::Text(of.dtype.name().to_owned()),
                Cell::Text(of.backend.name().to_owned()),
                millis(of.forward_secs),
                millis(of.backward_secs),
                Cell::Text(of.peak_bytes.map_or_else(|| "–".to_owned(), size)),
                of.values.map_or_else(
                    || Cell::Text("–".to_owned()),
                    |values| Cell::Values(values.passed),
                ),
                Cell::Text(
                    of.unavailable
                        .clone()
                        .or_else(|| of.proof.clone())
                        .unwrap_or_default(),
                ),
            ]
        })
        .collect();
    table_ui(ui, "attention", &columns, &rows);
}
