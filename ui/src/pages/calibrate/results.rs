//! What a calibration came to: the sentence, then values before speed, the peaks against the spec sheet, and the tables
//! behind them.

use egui::{Align, Key, Label, Layout, Modifiers, RichText, ScrollArea, Ui, vec2};
use egui_extras::Column;
use tunesmith_protocol::Calibration;
use tunesmith_report::format::{number, points, size};

use super::{
    CalibrateView, Measured, Words, last_ui, measure_button,
    measured::{figure, inputs, layout, verdict},
};
use crate::{
    chart::{Bar, Bars},
    commands::Commands,
    state::{Page, State},
    theme::{self, Tone, tokens},
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
        values_ui(&words, &wrong, ui, out);
        peaks_ui(measured, &words, view, ui, out);
        layouts_ui(measured.result(), ui);
        kernels_ui(measured.result(), ui);
        memory_ui(state, measured.result(), ui, out);
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
        if measured.result().time_boxed {
            widgets::verdict_line(
                ui,
                Tone::Note,
                "The time box cut it short: some products were repeated less often than planned, or left out",
            );
        }
        for warning in &measured.warnings {
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
    widgets::panel(ui, "Attention and the LoRA layer", |ui| {
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
        let plan = state.machine.get().and_then(|machine| machine.plan.as_ref().ok());
        let expected = plan.map_or_else(String::new, |plan| {
            let word = if plan.precision.four_bit {
                "possible"
            } else {
                "not possible"
            };
            format!("; the plan calls it {word}: {}", plan.precision.four_bit_reason)
        });
        widgets::verdict_line(
            ui,
            Tone::Unknown,
            &format!("4-bit is not measured here{expected}"),
        );
    });
}

enum Cell {
    Text(String),
    /// Whether the values are right.
    Values(bool),
}

/// A column: its name, and what it holds.
struct Col(&'static str, Of);

/// What a column holds, with its width in points.
enum Of {
    Words(f32),
    /// Set to the right.
    Figures(f32),
    /// Words, as wide as there is room.
    Rest,
}

impl Of {
    /// The least width that it is read at, in points.
    fn least(&self) -> f32 {
        match self {
            Self::Words(width) | Self::Figures(width) => *width,
            Self::Rest => 120.0,
        }
    }
}

/// Between two columns, in points.
const BETWEEN: f32 = 3.0 * theme::GRID;

/// A table, which scrolls sideways where it is wider than the window.
fn table_ui(ui: &mut Ui, id: &str, columns: &[Col], rows: &[Vec<Cell>]) {
    let widths = columns.iter().map(|Col(_, of)| of.least() + BETWEEN);
    let least = widths.sum::<f32>();
    ScrollArea::horizontal().id_salt(id).show(ui, |ui| {
        ui.set_width(ui.available_width().max(least));
        ui.spacing_mut().item_spacing = vec2(BETWEEN, 0.0);
        let weak = tokens(ui).weak_text;
        let mut table = widgets::table(ui, id).vscroll(false);
        for Col(_, of) in columns {
            table = table.column(match of {
                Of::Words(width) | Of::Figures(width) => Column::exact(*width),
                Of::Rest => Column::remainder().at_least(of.least()).clip(true),
            });
        }
        table
            .header(theme::ROW, |mut header| {
                for Col(name, of) in columns {
                    header.col(|ui| aligned(ui, of, RichText::new(*name).size(theme::SMALL).color(weak)));
                }
            })
            .body(|body| {
                body.rows(theme::ROW, rows.len(), |mut row| {
                    for (cell, Col(_, of)) in rows[row.index()].iter().zip(columns) {
                        row.col(|ui| cell_ui(ui, of, cell));
                    }
                });
            });
    });
}

fn cell_ui(ui: &mut Ui, of: &Of, cell: &Cell) {
    match cell {
        Cell::Text(text) => aligned(ui, of, RichText::new(text)),
        Cell::Values(passed) => {
            let tone = if *passed { Tone::Ok } else { Tone::Stop };
            widgets::badge(ui, tone, verdict(*passed));
        }
    }
}

fn aligned(ui: &mut Ui, of: &Of, text: RichText) {
    let layout = match of {
        Of::Figures(_) => Layout::right_to_left(Align::Center),
        Of::Words(_) | Of::Rest => Layout::left_to_right(Align::Center),
    };
    ui.with_layout(layout, |ui| {
        // The last digit of a figure would touch the column's edge, which cuts.
        ui.add_space(if matches!(of, Of::Figures(_)) { 2.0 } else { 0.0 });
        ui.add(Label::new(text).truncate());
    });
}
