//! What a report is about: a training, an experiment, or the device alone as it was measured; how one is chosen, and what
//! its report is read from.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use egui::{ComboBox, Ui};
use jiff::Timestamp;
use tunesmith_lab::{
    experiment::{self, ExperimentState},
    pipeline::{Settings, StoredCalibration, stored_calibration},
    report_input::{calibration_folder, report_of, report_of_calibration, report_of_experiment},
    run::{LineState, Run, RunLine},
};
use tunesmith_protocol::TaskWork;
use tunesmith_report::format::plural;
use tunesmith_setup::Folders;

use super::Prepared;
use crate::{
    commands::Commands,
    pages::{calibrate, runs},
    problem,
    saved::DeviceWish,
    state::{Machine, Page, Problem, State, Task},
    theme, widgets,
};

/// Runs, and experiments, that can be chosen here; older ones are chosen on their own pages.
const MOST: usize = 40;

/// What a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A training, by its run's id.
    Run(String),
    /// An experiment, by its folder.
    Experiment(PathBuf),
    /// What the device does, as it was measured.
    Calibration,
}

impl Subject {
    /// What a task that has ended gives a report of.
    pub(super) fn of(task: &Task) -> Option<Self> {
        match &task.work {
            TaskWork::Experiment { .. } => {
                let so_far = task.experiment.as_ref()?;
                Some(Self::Experiment(so_far.folder.clone()))
            }
            TaskWork::Calibrate { .. } => {
                let ended = task.ended.as_ref()?;
                ended.problem.is_none().then_some(Self::Calibration)
            }
            _ if task.trains() => task.run.clone().map(Self::Run),
            _ => None,
        }
    }
}

/// The kinds of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Training,
    Experiment,
    Calibration,
}

/// What was chosen: of each kind one, so that the way back shows what was there before.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    kind: Option<Kind>,
    /// Id of the run; the last that ended where none was chosen.
    run: Option<String>,
    /// Folder of the experiment; the newest where none was chosen.
    experiment: Option<PathBuf>,
}

impl Choice {
    pub(super) fn choose(&mut self, subject: Subject) {
        match subject {
            Subject::Run(id) => {
                self.kind = Some(Kind::Training);
                self.run = Some(id);
            }
            Subject::Experiment(folder) => {
                self.kind = Some(Kind::Experiment);
                self.experiment = Some(folder);
            }
            Subject::Calibration => self.kind = Some(Kind::Calibration),
        }
    }

    /// What is no more is not wanted any more.
    pub(super) fn forget(&mut self, kind: Kind) {
        match kind {
            Kind::Training => self.run = None,
            Kind::Experiment => self.experiment = None,
            Kind::Calibration => {}
        }
    }
}

/// What a report is read from: it is made anew where that is another one.
#[derive(Clone)]
pub(super) enum Source {
    Run(Arc<RunLine>),
    Experiment(Arc<ExperimentState>),
    /// The look at the machine, and how often something was measured since the window opened.
    Calibration(u64, u64),
}

impl Source {
    /// Whether it is this very one.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Run(one), Self::Run(other)) => Arc::ptr_eq(one, other),
            // They are read anew whenever something may have changed, and mostly nothing has.
            (Self::Experiment(one), Self::Experiment(other)) => one == other,
            (Self::Calibration(one, once), Self::Calibration(other, often)) => (one, once) == (other, often),
            _ => false,
        }
    }

    pub(super) fn subject(&self) -> Subject {
        match self {
            Self::Run(line) => Subject::Run(line.id.clone()),
            Self::Experiment(state) => Subject::Experiment(state.folder.clone()),
            Self::Calibration(..) => Subject::Calibration,
        }
    }
}

/// What kind of report is shown: the chosen one, else the first of which there is something.
pub(super) fn kind(state: &State) -> Kind {
    let runs = &state.pages.runs;
    if let Some(kind) = state.pages.report.choice.kind {
        return kind;
    }
    if !runs.list.lines().is_empty() || !runs.is_settled() {
        Kind::Training
    } else if made(state).next().is_some() {
        Kind::Experiment
    } else if state.pages.calibrate.measured(&state.saved.device).is_some() {
        Kind::Calibration
    } else {
        Kind::Training
    }
}

/// The experiments that have a run, newest first.
fn made(state: &State) -> impl Iterator<Item = &Arc<ExperimentState>> {
    let begun = state.pages.compare.begun().iter();
    begun.filter(|begun| begun.slots.iter().any(|slot| slot.run.is_some()))
}

/// What the report is to be read from; none where there is nothing of its kind.
pub(super) fn source(state: &State) -> Option<Source> {
    let page = &state.pages.report;
    match kind(state) {
        Kind::Training => {
            let list = &state.pages.runs.list;
            let line = match &page.choice.run {
                Some(id) => list.line(id),
                None => list.last_ended(),
            };
            line.cloned().map(Source::Run)
        }
        Kind::Experiment => {
            let wanted = page.choice.experiment.as_ref();
            let mut made = made(state);
            let found = made.find(|begun| wanted.is_none_or(|wanted| *wanted == begun.folder));
            found.cloned().map(Source::Experiment)
        }
        Kind::Calibration => {
            state.machine.seen.ready()?;
            Some(Source::Calibration(state.machine.generation, page.measured))
        }
    }
}

/// Whether making this report would disturb what is measured right now.
pub(super) fn disturbs(state: &State) -> bool {
    let measures = state.tasks.running().is_some_and(Task::measures);
    measures && kind(state) != Kind::Training
}

/// Makes the report of a run.
pub(super) fn of_run(line: &RunLine, documents: Option<&Path>) -> Result<Prepared, Problem> {
    let run = Run::open(&line.folder).map_err(|error| problem!(error))?;
    let report = report_of(&run).map_err(|error| problem!(error))?;
    let subject = Subject::Run(line.id.clone());
    Ok(Prepared::of(
        subject,
        &line.id,
        line.folder.clone(),
        report,
        documents,
    ))
}

/// Makes the report of an experiment, from its folder as it is now.
pub(super) fn of_experiment(
    folder: &Path,
    folders: &Folders,
    documents: Option<&Path>,
) -> Result<Prepared, Problem> {
    let runs = folders.runs();
    let state = experiment::read(folder, &runs).map_err(|error| problem!(error))?;
    let report = report_of_experiment(&state, &runs).map_err(|error| problem!(error))?;
    let subject = Subject::Experiment(state.folder.clone());
    Ok(Prepared::of(subject, &state.id, state.folder, report, documents))
}

/// Makes the report of the device alone.
pub(super) fn of_calibration(
    machine: &Machine,
    folders: Folders,
    wish: &DeviceWish,
    documents: Option<&Path>,
) -> Result<Prepared, Problem> {
    let (settings, device) = calibrate::settings_and_device(machine, folders, wish)?;
    let stored = stored_calibration(&settings, &device).ok_or_else(|| {
        Problem::new(
            "no_calibration",
            format!("{device} has no calibration that holds under the present conditions"),
            vec!["the page Calibrate measures it".to_owned()],
        )
    })?;
    of_stored(&stored, &settings, documents)
}

fn of_stored(
    stored: &StoredCalibration,
    settings: &Settings,
    documents: Option<&Path>,
) -> Result<Prepared, Problem> {
    let report = report_of_calibration(stored, settings).map_err(|error| problem!(error))?;
    let name = stored.path.file_stem().unwrap_or_default().to_string_lossy();
    let id = format!("calibration-{name}");
    let folder = calibration_folder(stored);
    Ok(Prepared::of(Subject::Calibration, &id, folder, report, documents))
}

/// Which report is shown.
pub(super) fn choose_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let mut shown = kind(state);
    let kinds = [
        (Kind::Training, "A training"),
        (Kind::Experiment, "An experiment"),
        (Kind::Calibration, "The calibration"),
    ];
    if widgets::segmented(ui, &mut shown, &kinds) {
        out.change("choose a kind of report", move |state| {
            let page = &mut state.pages.report;
            page.choice.kind = Some(shown);
            page.start_anew();
        });
    }
    match &state.pages.report.from {
        Some(Source::Run(line)) => runs_ui(state, line, ui, out),
        Some(Source::Experiment(experiment)) => experiments_ui(state, experiment, ui, out),
        Some(Source::Calibration(..)) | None => {}
    }
    ui.add_space(theme::GRID);
}

fn runs_ui(state: &State, shown: &RunLine, ui: &mut Ui, out: &mut Commands) {
    let runs = &state.pages.runs;
    ui.horizontal_wrapped(|ui| {
        let label = ui.label("Run");
        let name = |line: &RunLine| format!("{}, {}", runs::name(line, runs.list.zone()), line.state.name());
        ComboBox::from_id_salt("run of the report")
            .width(combo_width(ui))
            .truncate()
            .selected_text(name(shown))
            .show_ui(ui, |ui| {
                let can = |line: &&Arc<RunLine>| line.state != LineState::Broken;
                for line in runs.list.lines().iter().rev().filter(can).take(MOST) {
                    let chosen = line.id == shown.id;
                    if ui.selectable_label(chosen, name(line)).clicked() && !chosen {
                        choose("choose the run of the report", Subject::Run(line.id.clone()), out);
                    }
                }
            })
            .response
            .labelled_by(label.id)
            .on_hover_text(name(shown));
        widgets::badge(ui, runs::tone(shown), shown.state.name()).on_hover_text(runs::reason(shown));
        if widgets::link_button(ui, "All runs").clicked() {
            out.go(Page::Runs);
        }
    });
}

fn experiments_ui(state: &State, shown: &ExperimentState, ui: &mut Ui, out: &mut Commands) {
    let zone = state.pages.runs.list.zone();
    let name = |of: &ExperimentState| {
        let title = state
            .pages
            .compare
            .name_of(&of.folder)
            .unwrap_or_else(|| of.id.clone());
        let over = of.slots.iter().filter(|slot| slot.status.is_over()).count();
        let runs = plural(of.slots.len() as u64, "run");
        let begun = of.created.parse::<Timestamp>().ok();
        let day = begun.map_or_else(String::new, |begun| {
            format!(", {}", begun.to_zoned(zone.clone()).strftime("%Y-%m-%d"))
        });
        format!("{title}, {over} of {runs}{day}")
    };
    ui.horizontal_wrapped(|ui| {
        let label = ui.label("Experiment");
        ComboBox::from_id_salt("experiment of the report")
            .width(combo_width(ui))
            .truncate()
            .selected_text(name(shown))
            .show_ui(ui, |ui| {
                for one in made(state).take(MOST) {
                    let chosen = one.folder == shown.folder;
                    if ui.selectable_label(chosen, name(one)).clicked() && !chosen {
                        let subject = Subject::Experiment(one.folder.clone());
                        choose("choose the experiment of the report", subject, out);
                    }
                }
            })
            .response
            .labelled_by(label.id)
            .on_hover_text(name(shown));
        if widgets::link_button(ui, "Compare").clicked() {
            out.go(Page::Compare);
        }
    });
}

/// Wide enough for a name, and never wider than the page.
fn combo_width(ui: &Ui) -> f32 {
    (ui.available_width() - 24.0).clamp(120.0, 300.0)
}

fn choose(name: &'static str, subject: Subject, out: &mut Commands) {
    out.change(name, move |state| state.pages.report.choose(subject));
}

/// There is nothing of this kind yet: what will be here, and what makes it.
pub(super) fn empty_ui(kind: Kind, ui: &mut Ui, out: &mut Commands) {
    let (title, text, button, page) = match kind {
        Kind::Training => (
            "No run to report yet",
            "A report tells others what a run came to on this machine, in one file: the figures, how they were \
             counted, and examples of answers. It stays here until you save it",
            "Fine-tune a model",
            Page::Tune,
        ),
        Kind::Experiment => (
            "No experiment to report yet",
            "A report of an experiment tells what is more than noise and what is not, with every run that was made \
             for it, so that others can check it",
            "Compare something",
            Page::Compare,
        ),
        Kind::Calibration => (
            "This device has no calibration to report yet",
            "A report of the calibration tells what this device does, as it was measured, beside its spec sheet",
            "Calibrate",
            Page::Calibrate,
        ),
    };
    if widgets::empty(ui, title, text, Some(button)) {
        out.go(page);
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_lab::{run::CalibrationRecord, supervisor::EngineLocation};
    use tunesmith_protocol::Calibration;
    use tunesmith_report::{About, Format};

    use super::*;

    #[test]
    fn a_calibration_alone_makes_a_report_and_a_picture_and_its_files_bear_its_name() {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(home.path());
        let settings = Settings::new(folders, EngineLocation::new("/nonexistent/engine".into()));
        let stored = StoredCalibration {
            record: CalibrationRecord {
                taken: "2026-01-01T12:00:00Z".to_owned(),
                result: Calibration {
                    device: "cpu".to_owned(),
                    threads: 4,
                    ..Calibration::default()
                },
            },
            conditions: None,
            reused: true,
            path: home.path().join("calibration").join("0123abcd.json"),
        };
        let own = of_stored(&stored, &settings, Some(home.path())).unwrap();
        assert_eq!(own.report.about, About::Calibration);
        assert_eq!(own.subject, Subject::Calibration);
        assert_eq!(
            own.suggested,
            home.path().join("tunesmith-calibration-0123abcd.html")
        );
        assert!(own.folder.ends_with("calibration/reports/0123abcd"));
        let picture = Format::Png.render(&own.report).unwrap();
        assert!(picture.starts_with(b"\x89PNG"));
    }

    #[test]
    fn what_was_chosen_of_one_kind_is_there_again_after_a_look_at_another() {
        let mut choice = Choice::default();
        choice.choose(Subject::Run("a".to_owned()));
        choice.choose(Subject::Calibration);
        assert_eq!(choice.kind, Some(Kind::Calibration));
        assert_eq!(choice.run.as_deref(), Some("a"));
        choice.forget(Kind::Training);
        assert_eq!(choice.run, None);
    }
}
