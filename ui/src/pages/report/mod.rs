//! The page `Report`: what the report of a training, an experiment or a calibration says, saving it, and laying somebody
//! else's beside it.

mod beside;
mod preview;
mod saving;
mod subject;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use egui::{Key, Modifiers, Ui};
use tunesmith_lab::report_input::secrets;
use tunesmith_protocol::TaskId;
use tunesmith_report::{Preview, Report};

use super::{calibrate, compare, runs::RunsState};
use crate::{
    commands::{Command, Commands},
    services::Work,
    state::{Loadable, Page, Problem, State},
    theme::Tone,
    widgets,
};

pub use beside::{Beside, Opened};
pub use saving::{Files, Saving};
pub use subject::Subject;

use subject::{Choice, Kind, Source};

/// A report, in words.
pub struct Prepared {
    /// What it is about.
    pub subject: Subject,
    /// The name that its files bear.
    id: String,
    /// The folder that its own files belong in.
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
    fn of(subject: Subject, id: &str, folder: PathBuf, report: Report, documents: Option<&Path>) -> Self {
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
        Self {
            replaced: replaced(&report, &preview, &replacements),
            suggested: saving::suggested(id, documents),
            subject,
            id: id.to_owned(),
            folder,
            report,
            preview,
            redactions,
        }
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
    let experiment = report.record.experiment.iter();
    let of_experiment = experiment.flat_map(|experiment| {
        let file = experiment.toml.lines();
        let reasons = experiment.runs.iter().filter_map(|run| run.reason.as_ref());
        let told = reasons.chain(&experiment.notes);
        file.map(|line| ["experiment".to_owned(), line.trim().to_owned()])
            .chain(told.map(|text| ["a run".to_owned(), text.clone()]))
    });
    recipe
        .chain(of_experiment)
        .chain(surroundings)
        .chain(reason)
        .filter(|[_, text]| holds(text))
        .collect()
}

/// What the page keeps.
#[derive(Default)]
pub struct ReportState {
    /// What was chosen.
    choice: Choice,
    /// What the report was read from.
    from: Option<Source>,
    /// How often a task has ended that may have measured something.
    measured: u64,
    /// The report.
    own: Loadable<Arc<Prepared>>,
    /// Where it stands with saving it.
    pub saving: Saving,
    /// Somebody else's report.
    pub beside: Beside,
    /// The folder where reports are saved; the user's own where nothing else is said.
    pub documents: Option<PathBuf>,
    /// A file that is to be opened in the browser.
    to_open: Option<PathBuf>,
}

impl ReportState {
    /// Shows the report of something else.
    pub fn choose(&mut self, subject: Subject) {
        self.choice.choose(subject);
        self.start_anew();
    }

    /// Something else was chosen: what is shown belongs to what was.
    fn start_anew(&mut self) {
        self.from = None;
        self.own = Loadable::Unasked;
        self.saving = Saving::default();
    }

    /// The report that is shown.
    pub fn own(&self) -> &Loadable<Arc<Prepared>> {
        &self.own
    }

    fn take(&mut self, source: &Source, own: Result<Arc<Prepared>, Problem>) {
        // Something else may have been chosen by now.
        if self.from.as_ref().is_some_and(|from| from.is(source)) {
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
    let read = RunsState::refresh(state)
        .or_else(|| compare::read_begun(state))
        .or_else(|| calibrate::needs(state))
        .or_else(|| Beside::needs(state));
    if read.is_some() {
        return read;
    }
    let kind = subject::kind(state);
    let Some(source) = subject::source(state) else {
        if is_known(state, kind) {
            // It was deleted, or there is nothing of this kind.
            let page = &mut state.pages.report;
            page.choice.forget(kind);
            page.from = None;
            page.own = Loadable::Unasked;
        }
        return None;
    };
    let disturbs = subject::disturbs(state);
    let page = &mut state.pages.report;
    if page.from.as_ref().is_some_and(|from| from.is(&source)) {
        return saving::needs(page);
    }
    if disturbs {
        return None;
    }
    let subject = source.subject();
    if page.own.ready().is_none_or(|own| own.subject != subject) {
        page.own = Loadable::Loading;
    }
    page.from = Some(source.clone());
    let documents = page.documents.clone();
    let (folders, wish) = (state.folders.clone(), state.saved.device.clone());
    let machine = state.machine.seen.ready().cloned();
    let read_from = source.clone();
    let make = move || -> Result<Arc<Prepared>, Problem> {
        let documents = documents.as_deref();
        let own = match &read_from {
            Source::Run(line) => subject::of_run(line, documents),
            Source::Experiment(experiment) => subject::of_experiment(&experiment.folder, &folders, documents),
            Source::Calibration(..) => {
                let machine = machine.as_ref().ok_or_else(not_looked_at)?;
                subject::of_calibration(machine, folders, &wish, documents)
            }
        };
        own.map(Arc::new)
    };
    Some(Work::awaited("making a report", make, move |state, own| {
        state.pages.report.take(&source, own);
    }))
}

/// Whether it is known that there is nothing of this kind.
fn is_known(state: &State, kind: Kind) -> bool {
    match kind {
        Kind::Training => state.pages.runs.is_settled(),
        Kind::Experiment => state.pages.compare.is_read(),
        Kind::Calibration => state.machine.get().is_some(),
    }
}

/// Why it is not known what there is of this kind.
fn unread(state: &State, kind: Kind) -> Option<&Problem> {
    match kind {
        Kind::Training => state.pages.runs.read().problem(),
        Kind::Experiment => state.pages.compare.problem(),
        Kind::Calibration => state.machine.seen.problem(),
    }
}

fn not_looked_at() -> Problem {
    Problem::new(
        "machine_unknown",
        "this machine has not been looked at yet",
        vec!["open the page Your card, which says why".to_owned()],
    )
}

/// A task has ended.
pub fn task_ended(state: &mut State, task: TaskId) {
    let Some(task) = state.tasks.get(task) else { return };
    // What somebody has just waited for is what they want a report of.
    if let Some(subject) = Subject::of(task).filter(|_| state.page != Page::Report) {
        state.pages.report.choose(subject);
    }
    state.pages.report.measured += 1;
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
        subject::choose_ui(state, ui, out);
        own_ui(state, view, ui, out);
        let own = own.map(|own| &own.report);
        beside::beside_ui(&page.beside, own, &mut view.beside, ui, out);
    });
}

/// The report, or why there is none.
fn own_ui(state: &State, view: &mut ReportView, ui: &mut Ui, out: &mut Commands) {
    let page = &state.pages.report;
    let kind = subject::kind(state);
    if let (Loadable::Unasked, Some(problem)) = (&page.own, unread(state, kind)) {
        return widgets::problem_panel(ui, "What could be reported cannot be read", problem, out);
    }
    match &page.own {
        Loadable::Ready(own) => {
            saving::saving_ui(page, own, &mut view.saving, ui, out);
            preview::preview_ui(own, ui, out);
        }
        Loadable::Failed(problem) => match kind {
            Kind::Training => widgets::problem_panel(ui, "This run has no report", problem, out),
            Kind::Experiment => widgets::problem_panel(ui, "This experiment has no report", problem, out),
            Kind::Calibration => {
                widgets::problem_panel(ui, "This device has no calibration to report", problem, out);
                if widgets::link_button(ui, "Calibrate").clicked() {
                    out.go(Page::Calibrate);
                }
            }
        },
        Loadable::Unasked if subject::disturbs(state) => {
            let text = "Something is measured right now: the report is made once that has ended, so that it takes \
                        nothing from it";
            widgets::verdict_line(ui, Tone::Note, text);
        }
        Loadable::Unasked if is_known(state, kind) && subject::source(state).is_none() => {
            subject::empty_ui(kind, ui, out);
        }
        Loadable::Unasked | Loadable::Loading => widgets::loading(ui, "Making the report"),
    }
}

/// What it is about, and when that was.
fn lead(own: &Prepared) -> String {
    let preview = &own.preview;
    let parts = [&preview.title, &preview.model, &preview.date];
    let told: Vec<&str> = parts
        .into_iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    told.join(", ")
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
