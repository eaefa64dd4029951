//! The page `Runs`: all trainings, what each came to and why, and how some of them compare.

mod compare;
mod details;
mod list;
mod pareto;
mod recipes;
mod table;
mod words;

use std::sync::Arc;

use egui::{CornerRadius, Frame, Key, Margin, Modifiers, Ui};
use jiff::tz::TimeZone;
use tunesmith_lab::run::{
    RunLine, lines,
    trash::{Trashed, restore, trash},
};
use tunesmith_protocol::TaskId;
use tunesmith_report::format::plural;

pub use compare::Compared;
pub use details::Open;
pub use list::RunList;
pub use pareto::Tradeoffs;
pub use words::{name, reason, tone, when};

use super::tune;
use crate::{
    commands::Commands,
    problem,
    services::Work,
    state::{Loadable, Page, Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// What the page keeps.
#[derive(Default)]
pub struct RunsState {
    /// All runs.
    pub list: RunList,
    /// Whether they have been read.
    read: Loadable<()>,
    /// They are being read.
    reading: bool,
    /// They may have changed since.
    stale: bool,
    /// Grows with each reading.
    generation: u64,
    /// The run that is looked at.
    pub open: Open,
    /// The runs that are compared.
    pub compared: Compared,
    /// Their memory against their throughput.
    tradeoffs: Tradeoffs,
    /// What was deleted and can be had back: each time a batch.
    deleted: Vec<Vec<Trashed>>,
}

impl RunsState {
    /// The work that reads the runs, where they are unknown or may have changed.
    pub fn refresh(state: &mut State) -> Option<Work> {
        let runs = &mut state.pages.runs;
        if runs.reading || !(runs.read.is_unasked() || runs.stale) {
            return None;
        }
        runs.reading = true;
        runs.stale = false;
        if runs.read.ready().is_none() {
            runs.read = Loadable::Loading;
        }
        let (folder, known) = (state.folders.runs(), runs.list.lines().to_vec());
        Some(Work::awaited(
            "reading the runs",
            move || {
                let lines = lines(&folder, &known).map_err(|error| problem!(error))?;
                Ok((lines, TimeZone::system()))
            },
            |state, read| {
                let (lines, zone) = match read {
                    Ok((lines, zone)) => (Ok(lines), zone),
                    // Nothing is told in it.
                    Err(problem) => (Err(problem), TimeZone::UTC),
                };
                state.pages.runs.take(lines, zone);
            },
        ))
    }

    /// The runs may have changed.
    pub fn out_of_date(&mut self) {
        self.stale = true;
    }

    /// Grows with each reading: what was drawn from the list knows by it that it is out of date.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the list is what the folder holds, as far as anybody knows.
    pub fn is_settled(&self) -> bool {
        self.read.ready().is_some() && !self.reading && !self.stale
    }

    /// Whether the runs have been read, and what was wrong where they cannot be.
    pub fn read(&self) -> &Loadable<()> {
        &self.read
    }

    /// The runs were read; times are told in `zone`.
    pub fn take(&mut self, lines: Result<Vec<Arc<RunLine>>, Problem>, zone: TimeZone) {
        self.reading = false;
        self.generation += 1;
        match lines {
            Ok(lines) => {
                self.read = Loadable::Ready(());
                self.list.take(lines, zone);
                self.choose();
            }
            Err(problem) => self.read = Loadable::Failed(problem),
        }
    }

    /// Changes filter or order.
    fn change_list(&mut self, change: impl FnOnce(&mut RunList)) {
        change(&mut self.list);
        self.draw();
    }

    /// Changes which runs are chosen.
    fn change_choice(&mut self, change: impl FnOnce(&mut RunList)) {
        change(&mut self.list);
        self.choose();
    }

    /// Other runs are chosen, or the same ones have other figures.
    fn choose(&mut self) {
        self.compared
            .choose(&self.list.chosen(), self.list.lines(), self.list.zone());
        self.draw();
    }

    /// The chart shows the chosen runs, or all that are listed where fewer than two are chosen.
    fn draw(&mut self) {
        let chosen = self.list.chosen();
        let zone = self.list.zone();
        self.tradeoffs = if chosen.len() >= 2 {
            Tradeoffs::of(chosen.iter(), true, zone)
        } else {
            Tradeoffs::of(self.list.shown(), false, zone)
        };
    }
}

/// How it is looked at.
#[derive(Default)]
pub struct RunsView {
    /// Words of the filter.
    filter: String,
    /// The run whose row is to be seen.
    scroll_to: Option<String>,
    compare: compare::CompareView,
    pareto: pareto::ParetoView,
    /// The last pass in which the page was drawn: a gap means that it was left and is shown again.
    drawn_in: Option<u64>,
}

/// The work that it needs.
pub fn needs(state: &mut State) -> Option<Work> {
    if let Some(work) = RunsState::refresh(state) {
        return Some(work);
    }
    let runs = &mut state.pages.runs;
    runs.read.ready()?;
    let open = match runs.open.id.clone() {
        Some(id) => runs.open.needs(runs.list.line(&id)),
        None => None,
    };
    let work = open.or_else(|| runs.compared.needs());
    // What was not run is predicted beside what was, and nothing is worth disturbing a measurement for.
    if work.is_some() || state.tasks.running().is_some_and(crate::state::Task::measures) {
        return work;
    }
    tune::look_around(state).or_else(|| tune::estimate_recipes(state))
}

/// A task has ended.
pub fn task_ended(state: &mut State, _task: TaskId) {
    state.pages.runs.out_of_date();
}

/// Looks at a run.
fn look(id: String, out: &mut Commands) {
    out.change("look at a run", move |state| state.pages.runs.open.look(Some(id)));
}

/// Lets a run's models answer.
fn try_run(id: String, out: &mut Commands) {
    out.change("try a run", move |state| {
        state.pages.try_it.choose(id);
        state.go(Page::TryIt);
    });
}

/// Moves runs to the trash.
fn delete(ids: Vec<String>, out: &mut Commands) {
    out.act("delete runs", move |state| {
        let folders = state.folders.clone();
        Some(Work::new("moving runs to the trash", move || {
            let done: Vec<Result<Trashed, Problem>> = ids
                .iter()
                .map(|id| trash(&folders, id).map_err(|error| problem!(error)))
                .collect();
            move |state: &mut State| deleted(state, done)
        }))
    });
}

fn deleted(state: &mut State, done: Vec<Result<Trashed, Problem>>) {
    let (gone, left): (Vec<_>, Vec<_>) = done.into_iter().partition(Result::is_ok);
    for problem in left.into_iter().filter_map(Result::err) {
        state.say_stop(problem.message);
    }
    let gone: Vec<Trashed> = gone.into_iter().flatten().collect();
    if !gone.is_empty() {
        state.pages.runs.deleted.push(gone);
    }
    state.pages.runs.out_of_date();
}

/// Has back what was deleted last.
fn undo(out: &mut Commands) {
    out.act("undo the deletion", |state| {
        let batch = state.pages.runs.deleted.pop()?;
        let folders = state.folders.clone();
        Some(Work::new("moving runs back", move || {
            let mut lost = Vec::new();
            for run in batch {
                if let Err(error) = restore(&folders, &run.name) {
                    lost.push((run, problem!(error)));
                }
            }
            move |state: &mut State| restored(state, lost)
        }))
    });
}

/// What could not be had back stays in the strip, and can be tried again.
fn restored(state: &mut State, lost: Vec<(Trashed, Problem)>) {
    let (runs, problems): (Vec<_>, Vec<_>) = lost.into_iter().unzip();
    for problem in problems {
        state.say_stop(problem.message);
    }
    if !runs.is_empty() {
        state.pages.runs.deleted.push(runs);
    }
    state.pages.runs.out_of_date();
}

/// Draws it.
pub fn runs_ui(state: &State, view: &mut RunsView, ui: &mut Ui, out: &mut Commands) {
    let runs = &state.pages.runs;
    shown_again(view, ui, out);
    keys(runs, view, ui, out);
    let title = match &runs.read {
        Loadable::Ready(()) => runs.list.title(),
        _ => Page::Runs.title(),
    };
    let lead = "Every training stays here with what it came to, the failed ones too";
    widgets::page(ui, title, lead, |ui| {
        deleted_ui(&runs.deleted, ui, out);
        match &runs.read {
            Loadable::Failed(problem) => {
                widgets::problem_panel(ui, "The runs cannot be read", problem, out);
                if ui.button("Try again").clicked() {
                    out.change("read the runs again", |state| state.pages.runs.out_of_date());
                }
            }
            Loadable::Unasked | Loadable::Loading => widgets::loading(ui, "Reading the runs"),
            Loadable::Ready(()) if runs.list.lines().is_empty() => empty_ui(ui, out),
            Loadable::Ready(()) => full_ui(state, view, ui, out),
        }
    });
}

fn empty_ui(ui: &mut Ui, out: &mut Commands) {
    let text = "Each fine-tuning leaves a run here: its curve, its figures, its report, and what went wrong where \
                something did";
    if widgets::empty(ui, "No run yet", text, Some("Fine-tune a model")) {
        out.go(Page::Tune);
    }
}

fn full_ui(state: &State, view: &mut RunsView, ui: &mut Ui, out: &mut Commands) {
    let runs = &state.pages.runs;
    let open = runs.open.id.as_deref();
    actions_ui(runs, ui, out);
    table::table_ui(&runs.list, open, view, ui, out);
    details::details_ui(state, ui, out);
    if runs.compared.shown {
        compare::compare_ui(&runs.compared, &mut view.compare, ui, out);
    }
    pareto::pareto_ui(state, &mut view.pareto, ui, out);
}

fn actions_ui(runs: &RunsState, ui: &mut Ui, out: &mut Commands) {
    let chosen = runs.list.chosen_count();
    let several = plural(chosen as u64, "run");
    let too_few = chosen < 2;
    ui.horizontal_wrapped(|ui| {
        if too_few {
            if widgets::primary_button(ui, "Fine-tune a model").clicked() {
                out.go(Page::Tune);
            }
        } else {
            let text = if runs.compared.shown {
                "Close the comparison".to_owned()
            } else {
                format!("Compare {several}")
            };
            if widgets::primary_button(ui, &text).clicked() {
                toggle_comparison(out);
            }
        }
        if chosen > 0 {
            if ui.button(format!("Delete {several}")).clicked() {
                delete(runs.list.chosen_ids(), out);
            }
            if ui.button("Choose none").clicked() {
                out.change("choose none", |state| {
                    state.pages.runs.change_choice(RunList::choose_none);
                });
            }
        }
        let refresh = ui.add_enabled(!runs.reading, egui::Button::new("Refresh"));
        if refresh
            .on_hover_text("Reads what other programs have changed (F5)")
            .clicked()
        {
            out.change("refresh", |state| state.pages.runs.out_of_date());
        }
        if too_few {
            widgets::caption(ui, "Choose two or more to compare them");
        }
    });
    ui.add_space(theme::GRID);
}

fn toggle_comparison(out: &mut Commands) {
    out.change("compare", |state| {
        let compared = &mut state.pages.runs.compared;
        compared.shown = !compared.shown;
    });
}

/// What was deleted last, until it is dismissed or had back.
fn deleted_ui(deleted: &[Vec<Trashed>], ui: &mut Ui, out: &mut Commands) {
    let Some(last) = deleted.last() else { return };
    let tokens = tokens(ui);
    Frame::new()
        .fill(tokens.tone(Tone::Note).fill)
        .corner_radius(CornerRadius::same(theme::CORNER))
        .inner_margin(Margin::symmetric(12, 6))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.horizontal_wrapped(|ui| {
                widgets::badge(ui, Tone::Note, Tone::Note.word());
                ui.label(format!("Deleted {}", plural(last.len() as u64, "run")));
                if ui
                    .button("Undo")
                    .on_hover_text("Moves them back (Ctrl-Z)")
                    .clicked()
                {
                    undo(out);
                }
                if ui.button("Dismiss").clicked() {
                    out.change("dismiss", |state| state.pages.runs.deleted.clear());
                }
                widgets::caption(ui, "They lie in the trash, which Settings can empty");
            });
        });
    ui.add_space(theme::GRID);
}

/// A page that was left may be out of date: the command line makes runs too.
fn shown_again(view: &mut RunsView, ui: &Ui, out: &mut Commands) {
    let pass = ui.ctx().cumulative_pass_nr();
    let before = view.drawn_in.replace(pass);
    if before.is_some_and(|before| pass > before + 1) {
        out.change("refresh", |state| state.pages.runs.out_of_date());
    }
}

fn keys(runs: &RunsState, view: &mut RunsView, ui: &Ui, out: &mut Commands) {
    let typing = ui.ctx().text_edit_focused();
    let pressed = |modifiers: Modifiers, key: Key| ui.input_mut(|input| input.consume_key(modifiers, key));
    if pressed(Modifiers::COMMAND, Key::Enter) {
        if runs.list.chosen_count() >= 2 {
            toggle_comparison(out);
        } else {
            out.go(Page::Tune);
        }
    }
    if pressed(Modifiers::NONE, Key::F5) {
        out.change("refresh", |state| state.pages.runs.out_of_date());
    }
    // A text field has keys of its own for these.
    if typing {
        return;
    }
    if pressed(Modifiers::COMMAND, Key::Z) {
        undo(out);
    }
    if pressed(Modifiers::NONE, Key::Escape) && runs.open.id.is_some() {
        out.change("close the run", |state| state.pages.runs.open.look(None));
    }
    if pressed(Modifiers::NONE, Key::Delete) && runs.list.chosen_count() > 0 {
        delete(runs.list.chosen_ids(), out);
    }
    let step = |key: Key| usize::from(pressed(Modifiers::NONE, key));
    let (up, down) = (step(Key::ArrowUp), step(Key::ArrowDown));
    if up + down == 0 {
        return;
    }
    let row = runs.open.id.as_ref().and_then(|id| runs.list.row_of(id));
    let next = match row {
        Some(row) => (row + down).saturating_sub(up),
        None => 0,
    };
    if let Some(line) = runs.list.row(next) {
        view.scroll_to = Some(line.id.clone());
        look(line.id.clone(), out);
    }
}
