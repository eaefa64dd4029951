//! An experiment that is under way: how far it is, what it waits for, and how to stop it.

use egui::{Label, Ui};
use tunesmith_lab::experiment::ExperimentState;
use tunesmith_protocol::StopHow;
use tunesmith_report::format::{capitalised, number, plural};

use super::runs;
use crate::{
    commands::{Command, Commands},
    pages::holders,
    state::{ExperimentSoFar, Page, State, Task},
    theme::{self, Tone},
    widgets,
};

pub(super) fn running_ui(
    state: &State,
    task: &Task,
    current: Option<&ExperimentState>,
    ui: &mut Ui,
    out: &mut Commands,
) {
    widgets::panel(ui, "", |ui| {
        holders::waiting_ui(task, ui);
        if let Some(so_far) = &task.experiment {
            disturbed_ui(so_far, ui);
            let left = match so_far.secs_left(state.now_secs) {
                Some(secs) => format!("about {} left", widgets::whole_secs(secs)),
                None => "the time is known after the first run".to_owned(),
            };
            let text = format!(
                "{} of {} are over, {left}",
                so_far.over,
                plural(so_far.slots as u64, "run")
            );
            widgets::progress_bar(ui, task.whole_share(), &text);
        } else {
            widgets::progress_bar(ui, None, &format!("{}…", capitalised(&task.stage_title)));
        }
        if let Some(current) = current {
            let slot = task.experiment.as_ref().map(|so_far| so_far.slot);
            runs::order_ui(current, slot, ui);
        }
        widgets::caption(ui, &at_hand(task));
        ui.add_space(theme::GRID);
        ui.horizontal_wrapped(|ui| {
            let stopping = task.stopping.is_some();
            let text = if stopping { "Stopping…" } else { "Stop" };
            let stop = ui.add_enabled_ui(!stopping, |ui| ui.button(text)).inner;
            if stop.clicked() {
                out.push(Command::Stop(StopHow::Now));
            }
            if task.run.is_some() && widgets::link_button(ui, "Watch this run").clicked() {
                out.go(Page::Live);
            }
            let elapsed = widgets::whole_secs(task.elapsed_secs(state.now_secs));
            widgets::caption(
                ui,
                &format!("{elapsed} so far; runs that are over are kept, and it can go on from there"),
            );
        });
        widgets::caption(
            ui,
            "This window keeps still meanwhile, so that it takes nothing from what is measured",
        );
    });
}

/// What other programs do to the run at hand.
fn disturbed_ui(so_far: &ExperimentSoFar, ui: &mut Ui) {
    let Some(sentence) = so_far.disturbed() else {
        return;
    };
    ui.horizontal_wrapped(|ui| {
        widgets::badge(ui, Tone::Warn, Tone::Warn.word());
        ui.add(Label::new(sentence).wrap());
    });
}

/// What the run at hand does: `Training, step 12 of 35, loss 1.23`.
fn at_hand(task: &Task) -> String {
    let stage = capitalised(&task.stage_title);
    let Some(step) = task.steps.last().filter(|_| task.stage == "train") else {
        return match task.progress.as_ref().filter(|progress| progress.total > 0) {
            Some(progress) => format!(
                "{stage}: {} of {} {}",
                progress.done, progress.total, progress.unit
            ),
            None => format!("{stage}…"),
        };
    };
    let loss = step
        .loss
        .map_or_else(String::new, |loss| format!(", loss {}", number(loss)));
    format!("{stage}: step {} of {}{loss}", step.step, task.steps_total)
}
