//! The page `Report`: what a run's report says, saving it, and laying somebody else's beside it.

mod beside;
mod preview;
mod saving;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use egui::{ComboBox, Key, Modifiers, Ui};
use tunesmith_lab::{
    report_input::{report_of, secrets},
    run::{LineState, Run, RunLine},
};
use tunesmith_protocol::TaskId;
use tunesmith_report::{Preview, Report};

use super::runs::{self, RunsState};
use crate::{
    commands::{Command, Commands},
    problem,
    services::Work,
    state::{Loadable, Page, Problem, State},
    theme::{self, Tone},
    widgets,
};

pub use beside::{Beside, Opened};
pub use saving::Saving;

/// Runs that can be chosen here; older ones are chosen on the page of the runs.
const MOST_RUNS: usize = 40;

/// A run's report, in words.
pub struct Prepared {
    /// Id of the run.
    pub run: String,
    /// The run's folder.
    folder: PathBuf,
    /// The report, private words taken out.
    pub report: Report,
    /// What it says.
    preview: Preview,
    /// What became of each private word, a sentence each.
    redactions: Vec<Redaction>,
    /// Where its lines hold a replacement.
    replaced: Vec<[String; 2]>,
    /// Where it is saved unless the user says otherwise.
    suggested: PathBuf,
}

/// What became of a private word.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Redaction {
    /// Whether it was found, or could not be replaced.
    found: bool,
    sentence: String,
}

impl Prepared {
    fn read(line: &RunLine, documents: Option<&Path>) -> Result<Self, Problem> {
        let run = Run::open(&line.folder).map_err(|error| problem!(error))?;
        let report = report_of(&run).map_err(|error| problem!(error))?;
        let preview = report.preview();
        let secrets = secrets();
        let told = &report.record.redactions;
        let redactions = secrets
            .iter()
            .map(|secret| {
                let found = told.iter().find(|sentence| sentence.starts_with(&secret.what));
                Redaction {
                    found: found.is_some(),
                    sentence: found
                        .cloned()
                        .unwrap_or_else(|| format!("{} does not occur", secret.what)),
                }
            })
            .collect();
        let replacements: Vec<&str> = secrets.iter().map(|secret| secret.replacement.as_str()).collect();
        Ok(Self {
            replaced: replaced(&report, &preview, &replacements),
            suggested: saving::suggested(&line.id, documents),
            run: line.id.clone(),
            folder: line.folder.clone(),
            report,
            preview,
            redactions,
        })
    }
}

/// The lines of a report that hold a replacement, each with its place.
fn replaced(report: &Report, preview: &Preview, replacements: &[&str]) -> Vec<[String; 2]> {
    let holds = |text: &str| replacements.iter().any(|word| text.contains(word));
    let training = report.training();
    let recipe = training
        .iter()
        .flat_map(|training| training.recipe.toml.lines())
        .map(|line| ["recipe".to_owned(), line.trim().to_owned()]);
    let surroundings = preview.surroundings.iter().flat_map(|group| {
        let place = |key: &String| format!("{}.{key}", group.name);
        group
            .rows
            .iter()
            .map(move |[key, value]| [place(key), value.clone()])
    });
    let reason = training
        .iter()
        .filter_map(|training| training.reason.as_ref())
        .map(|reason| ["reason".to_owned(), reason.clone()]);
    recipe
        .chain(surroundings)
        .chain(reason)
        .filter(|[_, text]| holds(text))
        .collect()
}

/// What the page keeps.
#[derive(Default)]
pub struct ReportState {
    /// Id of the run that was chosen; the last that ended where none was.
    chosen: Option<String>,
    /// What the report was read from.
    from: Option<Arc<RunLine>>,
    /// The report.
    own: Loadable<Arc<Prepared>>,
    /// Where it stands with saving it.
    pub saving: Saving,
    /// Somebody else's report.
    pub beside: Beside,
    /// The folder where reports are saved; the user's own where nothing else is said.
    pub documents: Option<PathBuf>,
    /// Where the picture to share is to be saved.
    pub picture: Option<PathBuf>,
    /// A file that is to be opened in the browser.
    to_open: Option<PathBuf>,
}

impl ReportState {
    /// Shows the report of a run.
    pub fn choose(&mut self, run: String) {
        self.chosen = Some(run);
        self.from = None;
        self.own = Loadable::Unasked;
        self.saving = Saving::default();
    }

    /// The report that is shown.
    pub fn own(&self) -> &Loadable<Arc<Prepared>> {
        &self.own
    }

    fn take(&mut self, line: &Arc<RunLine>, own: Result<Arc<Prepared>, Problem>) {
        // Another run may have been chosen by now.
        if self.from.as_ref().is_some_and(|from| Arc::ptr_eq(from, line)) {
            self.own = own.into();
            self.beside.compare(self.own.ready().map(|own| &own.report));
        }
    }
}

/// How it is looked at.
#[derive(Default)]
pub struct ReportView {
    saving: saving::SavingView,
    beside: beside::BesideView,
}

/// The work that it needs.
pub fn needs(state: &mut State) -> Option<Work> {
    if let Some(work) = RunsState::refresh(state) {
        return Some(work);
    }
    if let Some(work) = Beside::needs(state) {
        return Some(work);
    }
    let (runs, page) = (&state.pages.runs, &mut state.pages.report);
    let line = match &page.chosen {
        Some(id) => runs.list.line(id),
        None => runs.list.last_ended(),
    };
    let Some(line) = line else {
        if runs.is_settled() {
            // It was deleted, or there are no runs.
            page.chosen = None;
            page.from = None;
            page.own = Loadable::Unasked;
        }
        return None;
    };
    if page.from.as_ref().is_some_and(|from| Arc::ptr_eq(from, line)) {
        return saving::needs(page).or_else(|| saving::picture_needs(page));
    }
    if page.own.ready().is_none_or(|own| own.run != line.id) {
        page.own = Loadable::Loading;
    }
    let line = Arc::clone(line);
    page.from = Some(Arc::clone(&line));
    let documents = page.documents.clone();
    Some(Work::new("making a report", move || {
        let own = Prepared::read(&line, documents.as_deref()).map(Arc::new);
        move |state: &mut State| state.pages.report.take(&line, own)
    }))
}

/// A task has ended.
pub fn task_ended(state: &mut State, task: TaskId) {
    let Some(task) = state.tasks.get(task) else { return };
    // The run that somebody has just waited for is the one whose report they want.
    let elsewhere = task.trains() && state.page != Page::Report;
    if let (true, Some(run)) = (elsewhere, task.run.clone()) {
        state.pages.report.choose(run);
    }
    state.pages.runs.out_of_date();
}

/// Draws it.
pub fn report_ui(state: &State, view: &mut ReportView, ui: &mut Ui, out: &mut Commands) {
    let page = &state.pages.report;
    if let Some(path) = page.to_open.clone() {
        out.push(Command::Open(path));
        out.change("opened", |state| state.pages.report.to_open = None);
    }
    beside::drops(ui, out);
    let own = page.own.ready();
    keys(page, view, ui, out);
    let (title, lead) = match own {
        Some(own) => (own.report.headline.sentence.as_str(), lead(own)),
        None => (Page::Report.title(), String::new()),
    };
    widgets::page(ui, title, &lead, |ui| {
        let known = state.pages.runs.read().ready().is_some();
        if known && state.pages.runs.list.lines().is_empty() {
            empty_ui(ui, out);
        } else {
            choose_ui(state, ui, out);
            match &page.own {
                Loadable::Ready(own) => {
                    saving::saving_ui(page, own, &mut view.saving, ui, out);
                    preview::preview_ui(own, ui, out);
                }
                Loadable::Failed(problem) => {
                    widgets::problem_panel(ui, "This run has no report", problem, out);
                }
                Loadable::Unasked | Loadable::Loading => widgets::loading(ui, "Making the report"),
            }
        }
        let own = own.map(|own| &own.report);
        beside::beside_ui(&page.beside, own, &mut view.beside, ui, out);
    });
}

/// What was trained, and when.
fn lead(own: &Prepared) -> String {
    let preview = &own.preview;
    format!("{}, {}, {}", preview.title, preview.model, preview.date)
}

fn keys(page: &ReportState, view: &mut ReportView, ui: &Ui, out: &mut Commands) {
    let pressed = |modifiers: Modifiers, key: Key| ui.input_mut(|input| input.consume_key(modifiers, key));
    if pressed(Modifiers::COMMAND, Key::Enter)
        && let Some(own) = page.own.ready()
    {
        saving::save(page, own, &view.saving, out);
    }
    if pressed(Modifiers::NONE, Key::Escape) {
        if page.saving.asks() {
            out.change("replace nothing", |state| {
                state.pages.report.saving = Saving::default();
            });
        } else if page.beside.is_open() {
            beside::close(out);
        }
    }
}

fn empty_ui(ui: &mut Ui, out: &mut Commands) {
    let text = "A report tells others what a run came to on this machine, in one file: the figures, how they were \
                counted, and examples of answers. It stays here until you save it";
    if widgets::empty(ui, "No run to report yet", text, Some("Fine-tune a model")) {
        out.go(Page::Tune);
    }
}

/// Which run is reported.
fn choose_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let runs = &state.pages.runs;
    let Some(shown) = &state.pages.report.from else {
        return;
    };
    ui.horizontal_wrapped(|ui| {
        let label = ui.label("Run");
        let name = |line: &RunLine| format!("{}, {}", runs::name(line, runs.list.zone()), line.state.name());
        ComboBox::from_id_salt("run of the report")
            .width(300.0)
            .truncate()
            .selected_text(name(shown))
            .show_ui(ui, |ui| {
                let can = |line: &&Arc<RunLine>| line.state != LineState::Broken;
                for line in runs.list.lines().iter().rev().filter(can).take(MOST_RUNS) {
                    let chosen = line.id == shown.id;
                    if ui.selectable_label(chosen, name(line)).clicked() && !chosen {
                        let id = line.id.clone();
                        out.change("choose the run of the report", move |state| {
                            state.pages.report.choose(id);
                        });
                    }
                }
            })
            .response
            .labelled_by(label.id);
        widgets::badge(ui, runs::tone(shown), shown.state.name()).on_hover_text(runs::reason(shown));
        if widgets::link_button(ui, "All runs").clicked() {
            out.go(Page::Runs);
        }
    });
    ui.add_space(theme::GRID);
}

/// How a verdict of a report is drawn.
fn tone(verdict: tunesmith_report::Verdict) -> Tone {
    use tunesmith_report::Verdict;
    match verdict {
        Verdict::Ok => Tone::Ok,
        Verdict::Note => Tone::Note,
        Verdict::Warn => Tone::Warn,
        Verdict::Stop => Tone::Stop,
        Verdict::Unknown => Tone::Unknown,
    }
}
