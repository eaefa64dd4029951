//! Measurements that do not hold any more, with what has changed since: they are kept, so that one can see what a new
//! driver or another flag was worth.

use egui::{Label, RichText, Ui};
use tunesmith_lab::pipeline::StaleCalibration;
use tunesmith_protocol::DType;

use super::measured::figure;
use crate::{
    theme::{self, Tone, tokens},
    widgets,
};

/// Those that are shown before the rest is folded away.
const SHOWN: usize = 3;

/// Why the newest one does not hold, as a sentence.
pub(super) fn why(stale: &StaleCalibration) -> String {
    match stale.reasons.as_slice() {
        [] => "Its conditions are not those of now".to_owned(),
        reasons => tunesmith_report::format::capitalised(&reasons.join("; ")),
    }
}

/// All of them, in a panel; nothing where there are none.
pub(super) fn stale_ui(stale: &[StaleCalibration], ui: &mut Ui) {
    if stale.is_empty() {
        return;
    }
    widgets::panel(ui, "Earlier measurements that do not hold any more", |ui| {
        for stale in stale.iter().take(SHOWN) {
            one_ui(stale, ui);
        }
        let rest = stale.get(SHOWN..).unwrap_or_default();
        if !rest.is_empty() {
            widgets::fold(ui, &format!("{} older ones", rest.len()), false, |ui| {
                for stale in rest {
                    one_ui(stale, ui);
                }
            });
        }
    });
}

fn one_ui(stale: &StaleCalibration, ui: &mut Ui) {
    let result = &stale.stored.record.result;
    let peaks: Vec<String> = [DType::Bf16, DType::F16, DType::F32]
        .into_iter()
        .filter_map(|dtype| {
            let peak = tunesmith_measure::practical_peak(result, dtype)?;
            Some(format!("{} {} TFLOPS", dtype.name(), figure(peak.tflops.0)))
        })
        .collect();
    ui.horizontal_wrapped(|ui| {
        widgets::badge(ui, Tone::Warn, "stale");
        let colour = tokens(ui).strong_text;
        let peaks = if peaks.is_empty() {
            "no peak".to_owned()
        } else {
            peaks.join(", ")
        };
        ui.label(RichText::new(peaks).color(colour));
        // The day is enough; the record has the second.
        let taken = &stale.stored.record.taken;
        widgets::caption(ui, taken.split('T').next().unwrap_or(taken))
            .on_hover_text(format!("taken at {taken}, in {}", stale.file.display()));
    });
    let weak = tokens(ui).weak_text;
    for reason in &stale.reasons {
        ui.add(Label::new(RichText::new(reason).color(weak)).wrap());
    }
    ui.add_space(theme::GRID);
}
