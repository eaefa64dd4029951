//! The experiments that were begun here, newest first, to look at again or to go on with.

use egui::{Align, Label, Layout, RichText, Role, Ui, WidgetInfo};
use jiff::tz::TimeZone;
use tunesmith_lab::experiment::ExperimentState;

use super::{is_unfinished, over, resume, words};
use crate::{
    commands::Commands,
    state::State,
    theme::{self, tokens},
    widgets,
};

pub(super) fn begun_ui(state: &State, current: Option<&ExperimentState>, ui: &mut Ui, out: &mut Commands) {
    let begun = state.pages.compare.begun();
    if begun.is_empty() {
        return;
    }
    let zone = TimeZone::system();
    widgets::panel(ui, "Experiments on this machine", |ui| {
        for experiment in begun {
            let shown = current.is_some_and(|current| current.folder == experiment.folder);
            ui.push_id(&experiment.id, |ui| {
                line_ui(state, experiment, shown, &zone, ui, out);
            });
        }
    });
}

fn line_ui(
    state: &State,
    experiment: &ExperimentState,
    shown: bool,
    zone: &TimeZone,
    ui: &mut Ui,
    out: &mut Commands,
) {
    ui.separator();
    ui.horizontal(|ui| {
        ui.set_min_height(theme::ROW);
        let name = words::name(experiment);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let show = ui
                .add_enabled_ui(!shown, |ui| widgets::small_button(ui, "Show"))
                .inner;
            let label = format!("Show {}", experiment.id);
            show.widget_info(|| WidgetInfo::labeled(Role::Button, !shown, &label));
            if show.clicked() {
                let folder = experiment.folder.clone();
                out.change("look at an experiment", move |state| {
                    state.pages.compare.look(folder);
                });
            }
            if is_unfinished(experiment) && state.tasks.running().is_none() {
                let on = widgets::small_button(ui, "Go on");
                let label = format!("Go on with {}", experiment.id);
                on.widget_info(|| WidgetInfo::labeled(Role::Button, true, &label));
                if on.clicked() {
                    resume(experiment, false, out);
                }
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                let (tone, word) = words::status_words(experiment);
                widgets::badge(ui, tone, word);
                ui.add(Label::new(name).truncate());
            });
        });
    });
    let day = words::day(&experiment.created, zone).unwrap_or_default();
    let facts = format!(
        "{}, {} of {} runs, {}, begun {day}",
        words::sentence(experiment),
        over(experiment),
        experiment.slots.len(),
        experiment.device
    );
    let weak = RichText::new(facts).small().color(tokens(ui).weak_text);
    ui.add(Label::new(weak).wrap());
}
