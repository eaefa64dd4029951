//! The runs of an experiment in their order, each with what became of it: a failure is a row with its reason and never a
//! gap.

use egui::{
    Align2, CornerRadius, FontId, Label, RichText, Role, ScrollArea, Sense, Stroke, StrokeKind, Ui,
    WidgetInfo, vec2,
};
use egui_extras::Column;
use tunesmith_lab::experiment::{ExperimentState, SlotState, SlotStatus};
use tunesmith_measure::comparison::Metric;
use tunesmith_report::{
    format::{duration, plural},
    metric_words,
};

use super::{resume, words};
use crate::{
    commands::Commands,
    state::{Page, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// Side of a run in the order, in points.
const SIDE: f32 = 6.0 * theme::GRID;
/// Most rows of the table that are shown without scrolling.
const MOST_ROWS: f32 = 12.0;
/// Narrower than this, the table is scrolled sideways.
const TABLE: f32 = 760.0;

/// The order of the runs as letters: filled where a run is over, ringed where one is at hand, crossed where it failed.
pub(super) fn order_ui(experiment: &ExperimentState, at_hand: Option<usize>, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = vec2(theme::GRID, theme::GRID);
        for slot in &experiment.slots {
            chip_ui(slot, at_hand == Some(slot.slot), ui);
        }
    });
    let arms: Vec<String> = experiment
        .comparison
        .arms
        .iter()
        .enumerate()
        .map(|(index, arm)| format!("{} is {}", words::letter(index), arm.name))
        .collect();
    let letters: Vec<String> = experiment
        .slots
        .iter()
        .map(|slot| words::letter(slot.arm).to_string())
        .collect();
    let said = format!("Order of the runs: {}; {}", letters.join(" "), arms.join(", "));
    widgets::caption(ui, &said);
}

fn chip_ui(slot: &SlotState, at_hand: bool, ui: &mut Ui) {
    let tokens = tokens(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(SIDE, SIDE), Sense::hover());
    let painter = ui.painter();
    let corner = CornerRadius::same(theme::SMALL_CORNER);
    let failed = slot.status.is_failure();
    let text = if slot.status.is_over() && !failed {
        painter.rect_filled(rect, corner, tokens.control_pressed);
        tokens.strong_text
    } else if failed {
        painter.rect_filled(rect, corner, tokens.tone(Tone::Stop).fill);
        tokens.tone(Tone::Stop).text
    } else {
        tokens.weak_text
    };
    let line = if at_hand {
        Stroke::new(2.0, tokens.accent)
    } else {
        Stroke::new(1.0, tokens.control_line)
    };
    painter.rect_stroke(rect, corner, line, StrokeKind::Inside);
    painter.text(
        rect.center(),
        Align2::CENTER_CENTER,
        words::letter(slot.arm),
        FontId::proportional(theme::SMALL),
        text,
    );
    if failed {
        let cut = Stroke::new(1.2, text);
        painter.line_segment(
            [
                rect.left_bottom() + vec2(4.0, -4.0),
                rect.right_top() + vec2(-4.0, 4.0),
            ],
            cut,
        );
    }
    let said = format!(
        "Run {}: {}, seed {}, {}",
        slot.slot + 1,
        slot.name,
        slot.seed,
        words::slot_words(slot.status)
    );
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &said));
    response.on_hover_text(said);
}

/// All runs, and what to do about those that failed.
pub(super) fn runs_ui(state: &State, experiment: &ExperimentState, ui: &mut Ui, out: &mut Commands) {
    let over = super::over(experiment);
    let heading = format!("{over} of {}", plural(experiment.slots.len() as u64, "run"));
    widgets::panel(ui, &heading, |ui| {
        if state.tasks.running().is_none() {
            order_ui(experiment, None, ui);
        }
        failed_ui(state, experiment, ui, out);
        table_ui(experiment, ui, out);
    });
}

/// Runs that did not end well, by their reasons.
fn failed_ui(state: &State, experiment: &ExperimentState, ui: &mut Ui, out: &mut Commands) {
    let failed: Vec<&SlotState> = experiment
        .slots
        .iter()
        .filter(|slot| slot.status.is_failure())
        .collect();
    let mut told: Vec<&str> = Vec::new();
    for slot in &failed {
        let reason = slot.reason.as_deref().unwrap_or("no reason is recorded");
        // One reason that all of them share is said once.
        if told.contains(&reason) {
            continue;
        }
        told.push(reason);
        let sentence = format!(
            "{}, seed {}: {}: {reason}",
            slot.name,
            slot.seed,
            words::slot_words(slot.status)
        );
        widgets::verdict_line(ui, Tone::Stop, &sentence);
    }
    if failed.is_empty() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        let again = ui
            .add_enabled(
                state.tasks.running().is_none(),
                egui::Button::new(format!("Run {} again", these(failed.len()))),
            )
            .on_hover_text("The others stay as they are");
        if again.clicked() {
            resume(experiment, true, out);
        }
        widgets::caption(ui, "They are left out of every figure");
    });
    ui.add_space(theme::GRID);
}

fn these(count: usize) -> String {
    if count == 1 {
        "this one".to_owned()
    } else {
        format!("these {count}")
    }
}

fn table_ui(experiment: &ExperimentState, ui: &mut Ui, out: &mut Commands) {
    let height = (experiment.slots.len() as f32).min(MOST_ROWS) * theme::ROW;
    let width = ui.available_width().max(TABLE);
    ScrollArea::horizontal().id_salt("runs across").show(ui, |ui| {
        ui.set_width(width);
        ui.spacing_mut().item_spacing.y = 0.0;
        let weak = tokens(ui).weak_text;
        widgets::table(ui, "experiment's runs")
            .max_scroll_height(height)
            .min_scrolled_height(height)
            .auto_shrink([false, true])
            .column(Column::exact(36.0))
            .column(Column::initial(150.0).clip(true))
            .column(Column::exact(64.0))
            .column(Column::exact(128.0))
            .column(Column::exact(84.0))
            .column(Column::exact(84.0))
            .column(Column::exact(96.0))
            .column(Column::remainder().clip(true))
            .header(theme::ROW, |mut header| {
                let names = ["", "Arm", "Seed", "", "Tokens/s", "Peak, GiB", "Time", ""];
                for name in names {
                    header.col(|ui| _ = ui.label(RichText::new(name).small().color(weak)));
                }
            })
            .body(|body| {
                body.rows(theme::ROW, experiment.slots.len(), |mut row| {
                    let slot = &experiment.slots[row.index()];
                    row.col(|ui| _ = ui.label(RichText::new((slot.slot + 1).to_string()).color(weak)));
                    row.col(|ui| {
                        let text = format!("{}  {}", words::letter(slot.arm), slot.name);
                        ui.add(Label::new(text).truncate());
                    });
                    row.col(|ui| _ = ui.label(slot.seed.to_string()));
                    row.col(|ui| {
                        _ = widgets::badge(
                            ui,
                            words::tone_of_slot(slot.status),
                            &words::slot_words(slot.status),
                        );
                    });
                    row.col(|ui| _ = ui.label(figure(slot, Metric::TokensPerSec)));
                    row.col(|ui| _ = ui.label(figure(slot, Metric::PeakBytes)));
                    row.col(|ui| {
                        _ = ui.label(slot.secs.map_or_else(|| "–".to_owned(), duration));
                    });
                    row.col(|ui| note_ui(slot, ui, out));
                });
            });
    });
}

fn figure(slot: &SlotState, metric: Metric) -> String {
    slot.figures
        .get(&metric)
        .map_or_else(|| "–".to_owned(), |value| metric_words(metric, *value))
}

/// What to know of a run, and the way to it.
fn note_ui(slot: &SlotState, ui: &mut Ui, out: &mut Commands) {
    let trained = slot.status != SlotStatus::Waiting && slot.status != SlotStatus::Running;
    if let Some(id) = slot.run.as_ref().filter(|_| trained) {
        let look = widgets::link_button(ui, "Look");
        let name = format!("Look at run {}", slot.slot + 1);
        look.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
        if look.clicked() {
            let id = id.clone();
            out.change("look at a run", move |state| {
                state.pages.runs.open.look(Some(id));
                state.go(Page::Runs);
            });
        }
    }
    let mut notes: Vec<String> = Vec::new();
    if slot.attempts > 1 {
        notes.push(format!("made {} times", slot.attempts));
    }
    notes.extend(slot.disturbed.clone());
    notes.extend(slot.reason.clone());
    if !notes.is_empty() {
        let text = notes.join("; ");
        let weak = RichText::new(&text).small().color(tokens(ui).weak_text);
        ui.add(Label::new(weak).truncate()).on_hover_text(text);
    }
}
