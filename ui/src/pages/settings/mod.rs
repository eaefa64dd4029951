//! The page of the settings: how the window looks, where things lie and how much they take, which torch each engine
//! uses, what draws the window, and what to send when asking others for help.

mod diagnostics;
mod disk;
mod engines;
mod folders;
mod looks;

use std::path::PathBuf;

use egui::{Key, Modifiers, Ui};
use tunesmith_probe::CaptureSummary;
use tunesmith_protocol::TaskId;
use tunesmith_report::format::size;

pub use self::disk::Listing;
use self::{disk::Show, engines::EngineUse, looks::NextRenderer};
use crate::{
    commands::Commands,
    services::{self, Work},
    state::{Loadable, Page, Problem, State},
    widgets,
};

/// What the page keeps.
#[derive(Default)]
pub struct SettingsState {
    /// What takes space.
    pub disk: Loadable<Listing>,
    /// What is being removed.
    removing: Option<PathBuf>,
    /// Name in the trash of the run that was put there last.
    undo: Option<String>,
    /// The torch of each engine.
    engines: Loadable<Vec<EngineUse>>,
    /// An engine has another torch now: what the doctor and the plan say is out of date.
    look_wanted: bool,
    /// What draws the window next time.
    renderer: Loadable<NextRenderer>,
    /// What "Copy diagnostics" copies.
    diagnostics: Loadable<String>,
    /// [`crate::state::MachineState::generation`] that the diagnostics tell of.
    diagnosed: u64,
    /// The last capture of this machine.
    capture: Loadable<CaptureSummary>,
    /// What the file dialog came to, for the field to take over.
    chosen: Option<PathBuf>,
    /// What failed last, under the name of what it was.
    problem: Option<(&'static str, Problem)>,
}

/// How it is looked at.
#[derive(Default)]
pub struct SettingsView {
    /// The kinds of things that are listed.
    show: Show,
    /// Rows of the list; zero stands for the first portion.
    rows: usize,
    /// What is asked about before it is deleted.
    confirming: Option<PathBuf>,
    /// The form of the capture is open.
    capturing: bool,
    /// Where the capture goes; empty stands for the usual place.
    place: String,
    /// Replace a capture that is already there.
    overwrite: bool,
    /// The choice of the file dialog that was taken over.
    taken_over: Option<PathBuf>,
}

/// The work that it needs: one thing at a time, the quick ones first.
pub fn needs(state: &mut State) -> Option<Work> {
    if state.pages.settings.look_wanted && !state.machine.looking {
        state.pages.settings.look_wanted = false;
        return services::look(state);
    }
    if state.pages.settings.renderer.is_unasked() {
        return Some(looks::read_renderer(state));
    }
    if state.pages.settings.engines.is_unasked() {
        return Some(engines::read(state));
    }
    if let Some(work) = diagnostics::write(state) {
        return Some(work);
    }
    if state.pages.settings.disk.is_unasked() {
        return Some(disk::read(state));
    }
    None
}

/// A task has ended: runs, models and environments may be others now.
pub fn task_ended(state: &mut State, _task: TaskId) {
    let settings = &mut state.pages.settings;
    settings.disk = Loadable::Unasked;
    settings.engines = Loadable::Unasked;
}

/// Draws it.
pub fn settings_ui(state: &State, view: &mut SettingsView, ui: &mut Ui, out: &mut Commands) {
    let settings = &state.pages.settings;
    if ui.input(|input| input.key_pressed(Key::Escape)) {
        view.confirming = None;
        view.capturing = false;
    }
    widgets::page(ui, &title(settings), "", |ui| {
        first_ui(state, view, ui, out);
        if let Some((what, problem)) = &settings.problem {
            widgets::problem_panel(ui, what, problem, out);
            if widgets::link_button(ui, "Close this message").clicked() {
                out.change("close the message", |state| state.pages.settings.problem = None);
            }
        }
        diagnostics::diagnostics_ui(state, view, ui, out);
        looks::looks_ui(state, ui, out);
        folders::folders_ui(state, ui, out);
        engines::engines_ui(state, ui, out);
        disk::disk_ui(state, view, ui, out);
        looks::renderer_ui(state, ui, out);
    });
}

fn title(settings: &SettingsState) -> String {
    match settings.disk.ready().map(Listing::total) {
        Some(0) => "Tunesmith takes no space on this disk yet".to_owned(),
        Some(bytes) => format!("Tunesmith takes at most {} of this disk", size(bytes)),
        None => "Settings and diagnostics".to_owned(),
    }
}

/// What people come here for.
fn first_ui(state: &State, view: &mut SettingsView, ui: &mut Ui, out: &mut Commands) {
    let text = state.pages.settings.diagnostics.ready();
    ui.horizontal_wrapped(|ui| {
        let key = ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
        let clicked = ui
            .add_enabled_ui(text.is_some(), |ui| {
                widgets::primary_button(ui, "Copy diagnostics").clicked()
            })
            .inner;
        if let Some(text) = text.filter(|_| clicked || key) {
            out.copy(text, "the diagnostics");
        }
        if ui.button("Capture this machine…").clicked() {
            view.capturing = !view.capturing;
        }
        if widgets::link_button(ui, "Show the welcome again").clicked() {
            out.go(Page::Welcome);
        }
    });
    ui.add_space(crate::theme::GRID);
}

/// Why nothing is changed that a running task stands on; none where nothing runs.
fn locked(state: &State) -> Option<String> {
    let task = state.tasks.running()?;
    Some(format!(
        "{} is under way and may need it; this can be changed when it has ended",
        task.name()
    ))
}
