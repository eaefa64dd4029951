//! What a calibration came to: the sentence, then values before speed, the peaks against the spec sheet, and the tables
//! behind them.

use egui::{Key, Label, Modifiers, Ui};
use tunesmith_measure::{
    calibration::{Validity, outside_allocator_bytes, own_layers, validity, winners},
    practical_peak,
};
use tunesmith_protocol::{Calibration, DType, KernelName, OverheadSource};
use tunesmith_report::format::{number, percent, points, size};

use super::{
    CalibrateView, Measured, Words,
    attention::attention_ui,
    last_ui, measure_button,
    measured::{figure, inputs, layout},
    stale::stale_ui,
    sustained::sustained_ui,
    tables::{Cell, Col, Of, table_ui},
};
use crate::{
    chart::{Bar, Bars},
    commands::Commands,
    pages::report::Subject,
    state::{Page, State},
    theme::{self, Tone},
    widgets,
};

pub(super) fn results_ui(
    state: &State,
    measured: &Measured,
    view: &mut CalibrateView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let machine = state.machine.get();
    let trains_in = machine.and_then(|machine| Some(machine.plan.as_ref().ok()?.precision.dtype));
    let words = Words::new(
        measured.result(),
        machine.and_then(crate::state::Machine::gpu),
        trains_in,
    );
    let wrong = words.wrong();
    widgets::page(ui, &words.title(), &words.meaning(), |ui| {
        actions_ui(state, measured, &words, wrong.is_empty(), ui, out);
        last_ui(state, ui, out);
        super::super::holders::holders_ui(state, ui, out);
        values_ui(&words, &wrong, ui, out);
        let result = measured.result();
        peaks_ui(measured, &words, view, ui, out);
        sustained_ui(state, result, view, ui, out);
        attention_ui(result, view, ui, out);
        settings_ui(result, ui);
        layouts_ui(result, ui);
        own_layers_ui(result, ui);
        kernels_ui(result, ui);
        memory_ui(state, result, ui, out);
        stale_ui(state.pages.calibrate.stale(), ui);
    });
}

/// What comes next, measuring again, and the copy.
fn actions_ui(
    state: &State,
    measured: &Measured,
    words: &Words,
    all_right: bool,
    ui: &mut Ui,
    out: &mut Commands,
) {
    ui.horizontal_wrapped(|ui| {
        if all_right {
            let next = widgets::primary_button(ui, "Choose what to train").on_hover_text("Ctrl-Enter");
            let key = ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
            if next.clicked() || key {
                out.go(Page::Tune);
            }
        }
        measure_button(state, "Measure again", !all_right, ui, out);
        let report = ui
            .button("Report")
            .on_hover_text("What the calibration says, to save as a page or a picture and to share");
        if report.clicked() {
            out.change("show the calibration's report", |state| {
                state.pages.report.choose(Subject::Calibration);
                state.go(Page::Report);
            });
        }
        let text = words.text(&measured.calibration.record.taken);
        widgets::copy_button(ui, "the measurement", &text, out);
        widgets::caption(ui, &measured.age(state.now_secs))
            .on_hover_text(format!("taken at {}", measured.calibration.record.taken));
    });
    ui.add_space(2.0 * theme::GRID);
}

/// A wrong value fails the path whatever its speed, so it is told first.
fn values_ui(words: &Words, wrong: &[String], ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Values", |ui| {
        if wrong.is_empty() {
            return widgets::verdict_line(ui, Tone::Ok, &words.checked());
        }
        for wrong in wrong {
            widgets::verdict_line(ui, Tone::Stop, wrong);
        }
        ui.add(
            Label::new(
                "What computes wrongly must not train, however fast it is: the loss may fall and the model still learn nothing. The usual cause is a torch that does not fit the card, or a setting that makes it take another one's code",
            )
            .wrap(),
        );
        if widgets::link_button(ui, "See what the set-up says").clicked() {
            out.go(Page::Setup);
        }
    });
}

fn peaks_ui(measured: &Measured, words: &Words, view: &mut CalibrateView, ui: &mut Ui, out: &mut Commands) {
    let formats = words.formats();
    widgets::panel(ui, "Peak speed", |ui| {
        if let Some(share) = words.share() {
            ui.horizontal(|ui| {
                widgets::figure(ui, &format!("{} %", points(share.percent())), "");
                widgets::caption(ui, "of what the spec sheet promises");
            });
        }
        let bars: Vec<Bar> = formats
            .iter()
            .map(|format| Bar {
                label: format.dtype.name(),
                value: format.peaks.practical.map(|peak| peak.0),
                reference: format.peaks.theoretical.map(|peak| peak.0),
            })
            .collect();
        Bars::new("Matrix products", "TFLOPS", "spec sheet", &bars).show(ui, &mut view.peaks);
        match words.spec_how() {
            Some(how) => widgets::caption(ui, &format!("Spec sheet: {how}")),
            None => widgets::caption(ui, "Spec sheet: not known, so the measured peak stands alone"),
        };
        for gemm in words.emulated() {
            let text = format!(
                "{} is emulated here: {} TFLOPS, which is no peak",
                gemm.dtype.name(),
                figure(gemm.mean_tflops)
            );
            widgets::verdict_line(ui, Tone::Note, &text);
        }
        let (word, why) = validity(measured.result());
        match word {
            // What is wrong stands above; that all is well needs no line.
            Validity::WrongValues | Validity::Valid => {}
            Validity::CutShort => widgets::verdict_line(ui, Tone::Note, &format!("Cut short: {why}")),
            Validity::Disturbed => widgets::verdict_line(ui, Tone::Warn, &format!("Disturbed: {why}")),
        }
        for warning in measured.warnings.iter().filter(|warning| **warning != why) {
            widgets::verdict_line(ui, Tone::Warn, warning);
        }
        ui.horizontal_wrapped(|ui| {
            widgets::caption(ui, "What the words mean:");
            for word in ["TFLOPS", "bf16", "MFU", "measured peak", "spec-sheet peak"] {
                widgets::term(ui, word, out);
            }
        });
    });
}

/// Which settings of the environment won (X10).
fn settings_ui(result: &Calibration, ui: &mut Ui) {
    let winners = winners(&result.variants);
    if winners.is_empty() {
        return;
    }
    widgets::panel(ui, "Settings compared", |ui| {
        for winner in &winners {
            let figures: Vec<String> = winner
                .figures
                .iter()
                .map(|(value, of)| {
                    let of = of.map_or_else(
                        || "failed".to_owned(),
                        |of| format!("{} {}", figure(of), winner.unit),
                    );
                    format!("{value}: {of}")
                })
                .collect();
            let (tone, won) = match &winner.value {
                Some(value) => (Tone::Ok, format!("{value} wins")),
                None => (Tone::Note, "no winner".to_owned()),
            };
            let text = format!(
                "{}: {won}, {} ({})",
                winner.variable,
                winner.why,
                figures.join(", ")
            );
            widgets::verdict_line(ui, tone, &text);
        }
        widgets::caption(
            ui,
            "Each value ran in an engine of its own. Nothing was set for good: a variable that wins is yours to set",
        );
    });
}

/// The products of the bundled model's own layers, which are smaller than the peak's.
fn own_layers_ui(result: &Calibration, ui: &mut Ui) {
    if result.linears.is_empty() {
        return;
    }
    widgets::panel(ui, "A model's own layers", |ui| {
        for dtype in [DType::Bf16, DType::F16, DType::F32] {
            let (Some(own), Some(peak)) = (own_layers(result, dtype), practical_peak(result, dtype)) else {
                continue;
            };
            let text = format!(
                "As a LoRA training of the bundled model multiplies them they reach {} TFLOPS in {}, {} of the peak",
                figure(own.0),
                dtype.name(),
                percent(own.0 / peak.tflops.0)
            );
            widgets::verdict_line(ui, Tone::Note, &text);
        }
        let columns = [
            Col("format", Of::Words(48.0)),
            Col("layer", Of::Words(120.0)),
            Col("in a training", Of::Rest),
            Col("m", Of::Figures(48.0)),
            Col("n", Of::Figures(48.0)),
            Col("k", Of::Figures(48.0)),
            Col("median TFLOPS", Of::Figures(104.0)),
            Col("best", Of::Figures(64.0)),
            Col("repeats", Of::Figures(64.0)),
        ];
        let rows: Vec<Vec<Cell>> = result
            .linears
            .iter()
            .map(|linear| {
                vec![
                    Cell::Text(linear.dtype.name().to_owned()),
                    Cell::Text(linear.name.clone()),
                    Cell::Text(layout(linear.layout).1.to_owned()),
                    Cell::Text(linear.m.to_string()),
                    Cell::Text(linear.n.to_string()),
                    Cell::Text(linear.k.to_string()),
                    Cell::Text(figure(linear.median_tflops)),
                    Cell::Text(figure(linear.best_tflops)),
                    Cell::Text(linear.iterations.to_string()),
                ]
            })
            .collect();
        widgets::fold(ui, "Each product", false, |ui| {
            table_ui(ui, "linears", &columns, &rows);
        });
        widgets::caption(
            ui,
            "From a cold cache: 256 MiB are written before each product. A LoRA training needs no weight gradient of these",
        );
    });
}

fn layouts_ui(result: &Calibration, ui: &mut Ui) {
    widgets::panel(ui, "Matrix products by layout", |ui| {
        let columns = [
            Col("format", Of::Words(108.0)),
            Col("layout", Of::Words(48.0)),
            Col("in a training", Of::Rest),
            Col("side", Of::Figures(48.0)),
            Col("mean TFLOPS", Of::Figures(96.0)),
            Col("median", Of::Figures(64.0)),
            Col("best", Of::Figures(64.0)),
            Col("repeats", Of::Figures(64.0)),
            Col("values", Of::Words(84.0)),
        ];
        let rows: Vec<Vec<Cell>> = result
            .gemm
            .iter()
            .map(|gemm| {
                let (name, use_in_training) = layout(gemm.layout);
                let format = if gemm.emulated {
                    format!("{}, emulated", gemm.dtype.name())
                } else {
                    gemm.dtype.name().to_owned()
                };
                vec![
                    Cell::Text(format),
                    Cell::Text(name.to_owned()),
                    Cell::Text(use_in_training.to_owned()),
                    Cell::Text(gemm.side.to_string()),
                    Cell::Text(figure(gemm.mean_tflops)),
                    Cell::Text(figure(gemm.median_tflops)),
                    Cell::Text(figure(gemm.best_tflops)),
                    Cell::Text(gemm.iterations.to_string()),
                    Cell::Values(gemm.values.passed),
                ]
            })
            .collect();
        table_ui(ui, "layouts", &columns, &rows);
    });
}

fn kernels_ui(result: &Calibration, ui: &mut Ui) {
    widgets::panel(ui, "Values of each kernel", |ui| {
        if result.kernels.is_empty() {
            return widgets::verdict_line(ui, Tone::Unknown, "Not measured here");
        }
        let columns = [
            Col("kernel", Of::Rest),
            Col("format", Of::Words(64.0)),
            Col("inputs", Of::Words(80.0)),
            Col("off by", Of::Figures(96.0)),
            Col("allowed", Of::Figures(96.0)),
            Col("values", Of::Words(84.0)),
        ];
        let rows: Vec<Vec<Cell>> = result
            .kernels
            .iter()
            .map(|check| {
                vec![
                    Cell::Text(check.kernel.label().to_owned()),
                    Cell::Text(check.dtype.name().to_owned()),
                    Cell::Text(inputs(check).to_owned()),
                    Cell::Text(number(check.values.max_error)),
                    Cell::Text(number(check.values.tolerance)),
                    Cell::Values(check.values.passed),
                ]
            })
            .collect();
        table_ui(ui, "kernels", &columns, &rows);
        widgets::caption(
            ui,
            "The largest difference from float64, as a share of the largest value; large inputs are those at which a softmax may overflow",
        );
    });
}

fn memory_ui(state: &State, result: &Calibration, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Memory and 4-bit", |ui| {
        let copy = &result.copy;
        ui.horizontal_wrapped(|ui| {
            widgets::term(ui, "copy bandwidth", out);
            ui.label(format!(
                "{} GiB/s at best, {} GiB/s median",
                figure(copy.best_gib_per_sec),
                figure(copy.median_gib_per_sec)
            ));
            widgets::caption(
                ui,
                &format!(
                    "{} copies of {}, read and written",
                    copy.iterations,
                    size(copy.bytes)
                ),
            );
        });
        outside_ui(result, ui);
        four_bit_ui(state, result, ui);
    });
}

/// What a prediction of memory has to add to what tensors take.
fn outside_ui(result: &Calibration, ui: &mut Ui) {
    let outside = result
        .allocator
        .as_ref()
        .and_then(|overhead| Some((overhead, outside_allocator_bytes(overhead)?)));
    let Some((overhead, outside)) = outside else {
        return widgets::verdict_line(
            ui,
            Tone::Unknown,
            "How much memory lies outside torch's allocator could not be read here",
        );
    };
    let of = match overhead.source {
        OverheadSource::Process => {
            "of this process lie outside torch's allocator: libraries and their buffers"
        }
        OverheadSource::Device if overhead.others_bytes.is_some() => {
            "of the card lie outside torch's allocator: driver, libraries and code of kernels"
        }
        OverheadSource::Device => {
            "of the card lie outside torch's allocator, what other programs hold among them"
        }
    };
    ui.horizontal_wrapped(|ui| {
        ui.label(format!("{} {of}", size(outside)));
        widgets::caption(
            ui,
            &format!(
                "{} in use, {} of it torch's",
                size(overhead.used_bytes),
                size(overhead.allocator_bytes)
            ),
        );
    });
}

/// Whether 4-bit weights come back as they should, and whether the plan calls 4 bit possible.
fn four_bit_ui(state: &State, result: &Calibration, ui: &mut Ui) {
    let plan = state.machine.get().and_then(|machine| machine.plan.as_ref().ok());
    let expected = plan.map_or_else(String::new, |plan| {
        let word = if plan.precision.four_bit {
            "possible"
        } else {
            "not possible"
        };
        format!("; the plan calls it {word}: {}", plan.precision.four_bit_reason)
    });
    let mut checks = result
        .kernels
        .iter()
        .filter(|check| matches!(check.kernel, KernelName::Nf4RoundTrip | KernelName::Nf4Unpacking))
        .peekable();
    let (tone, text) = if checks.peek().is_none() {
        (Tone::Unknown, "4-bit weights were not checked here")
    } else if checks.all(|check| check.values.passed) {
        (
            Tone::Ok,
            "4-bit weights are stored and unpacked rightly; how fast a 4-bit training is, only a comparison shows",
        )
    } else {
        (Tone::Stop, "4-bit weights do not come back as they were stored")
    };
    widgets::verdict_line(ui, tone, &format!("{text}{expected}"));
}
