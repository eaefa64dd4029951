//! The parts of a calibration: what each is for and how long it takes, and while it runs which one it is at.

use egui::{Align, Grid, Label, Layout, RichText, Ui};
use tunesmith_protocol::{CalibrationStage, StageBudget, TaskWork};

use crate::{
    state::Task,
    theme::{self, Tone, tokens},
    widgets,
};

/// Width from which on a part, what it is for and its time stand beside each other, in points.
const ROOM_FOR_REASONS: f32 = 800.0;

/// What a part is for.
fn why(stage: CalibrationStage) -> &'static str {
    match stage {
        CalibrationStage::Values => "a wrong value fails the device, whatever its speed",
        CalibrationStage::Gemm => "the peak that every MFU is counted against",
        CalibrationStage::Linears => "the most that a training of the bundled model can ask for",
        CalibrationStage::Attention => "which kernel torch takes, with the proof of it",
        CalibrationStage::Copy => "how fast numbers come and go",
        CalibrationStage::Allocator => "what a prediction of memory has to add",
        CalibrationStage::Sustained => "whether the device keeps its speed when it is hot",
        CalibrationStage::Variants => "which of the driver's settings win",
    }
}

/// All parts, before any of them has begun.
pub(super) fn before_ui(on_card: bool, ui: &mut Ui) {
    // A column between two others wraps at its narrowest, so a reason stands whole or not at all.
    let room = ui.available_width() >= ROOM_FOR_REASONS;
    let weak = tokens(ui).weak_text;
    rows_ui(&StageBudget::plan(on_card, false), ui, |ui, budget| {
        let reason = if room { why(budget.stage) } else { "" };
        ui.add(Label::new(RichText::new(reason).color(weak)).extend());
    });
}

/// All parts, with the one that is under way.
pub(super) fn measuring_ui(task: &Task, on_card: bool, ui: &mut Ui) {
    let full = matches!(task.work, TaskWork::Calibrate { full: true, .. });
    let mut plan = StageBudget::plan(on_card, full);
    let now = task
        .progress
        .as_ref()
        .and_then(|progress| CalibrationStage::named(&progress.stage));
    if now == Some(CalibrationStage::Variants) {
        plan.push(StageBudget {
            stage: CalibrationStage::Variants,
            secs: 0.0,
        });
    }
    let at = now.and_then(|now| plan.iter().position(|budget| budget.stage == now));
    let places = plan.clone();
    rows_ui(&plan, ui, |ui, budget| {
        let place = places.iter().position(|other| other.stage == budget.stage);
        match (place, at) {
            (Some(place), Some(at)) if place < at => widgets::badge(ui, Tone::Ok, "done"),
            (Some(place), Some(at)) if place == at => widgets::badge(ui, Tone::Note, "now"),
            _ => widgets::caption(ui, "waiting"),
        };
    });
}

/// A row for each part: its name, what `second` draws, and its time.
fn rows_ui(plan: &[StageBudget], ui: &mut Ui, second: impl Fn(&mut Ui, &StageBudget)) {
    let weak = tokens(ui).weak_text;
    Grid::new("stages")
        .num_columns(3)
        .spacing([6.0 * theme::GRID, 1.5 * theme::GRID])
        .show(ui, |ui| {
            for budget in plan {
                ui.add(Label::new(capitalised(budget.stage.title())).extend());
                second(ui, budget);
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    if budget.secs > 0.0 {
                        let text = format!("up to {}", widgets::whole_secs(budget.secs));
                        ui.label(RichText::new(text).color(weak));
                    }
                });
                ui.end_row();
            }
        });
}

fn capitalised(text: &str) -> String {
    tunesmith_report::format::capitalised(text)
}
