//! What came out: every figure's verdict in a sentence, what was written down before the first run with whether it came
//! true, what a reader must know, and what can be done with it now.

use std::{path::PathBuf, sync::Arc};

use egui::{Label, Ui};
use tunesmith_lab::{experiment::ExperimentState, report_input::report_of_experiment};
use tunesmith_measure::comparison::Comparison;
use tunesmith_report::{
    Format, effect_words,
    format::{capitalised, plural},
    write_as,
};

use super::{current, is_unfinished, over, resume, words};
use crate::{
    commands::{Command, Commands},
    pages::report::Subject,
    problem,
    services::{Work, pick_new},
    state::{Page, Problem, State},
    theme::{self, Tone},
    widgets,
};

/// Where it stands with saving a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Saving {
    /// Nothing was asked for.
    #[default]
    Idle,
    /// A file was chosen in the dialog, which has asked about one that is there.
    Picked(PathBuf),
    /// It is being written.
    Writing,
    /// It was written.
    Saved(PathBuf),
    /// It could not be written.
    Failed(Problem),
}

/// The work that saves the report where the dialog said.
pub(super) fn save(state: &mut State) -> Option<Work> {
    let Saving::Picked(path) = &state.pages.compare.saving else {
        return None;
    };
    let path = path.clone();
    let experiment = Arc::clone(current(state)?);
    let runs = state.folders.runs();
    state.pages.compare.saving = Saving::Writing;
    Some(Work::awaited(
        "saving the experiment's report",
        move || write_report(&experiment, &runs, path),
        |state, saved| state.pages.compare.saving = saved.map_or_else(Saving::Failed, Saving::Saved),
    ))
}

fn write_report(
    experiment: &ExperimentState,
    runs: &std::path::Path,
    path: PathBuf,
) -> Result<PathBuf, Problem> {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    let form = Format::of_ending(&ending).unwrap_or(Format::Html);
    let report = report_of_experiment(experiment, runs).map_err(|error| problem!(error))?;
    write_as(&path, form, &report).map_err(|error| problem!(error))?;
    Ok(path)
}

/// The panel of the verdict; `runs` where its runs are being made.
pub(super) fn outcome_ui(
    state: &State,
    experiment: &ExperimentState,
    runs: bool,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let heading = if runs { "So far" } else { "What came out" };
    widgets::panel(ui, heading, |ui| {
        if !runs {
            status_ui(experiment, ui);
        }
        findings_ui(experiment, ui);
        ui.add_space(theme::GRID);
        widgets::subheading(ui, "Written down before the first run");
        claims_ui(&experiment.comparison, ui);
        if !experiment.notes.is_empty() {
            ui.add_space(theme::GRID);
            widgets::subheading(ui, "To know");
            for note in &experiment.notes {
                ui.add(Label::new(capitalised(note)).wrap());
            }
        }
        if !runs {
            ui.add_space(theme::GRID);
            actions_ui(state, experiment, ui, out);
        }
    });
}

fn status_ui(experiment: &ExperimentState, ui: &mut Ui) {
    let (tone, word) = words::status_words(experiment);
    let sentence = format!(
        "{}: {} of {} are over",
        words::name(experiment),
        over(experiment),
        plural(experiment.slots.len() as u64, "run")
    );
    widgets::verdict_row(ui, tone, word, &sentence, "");
}

/// A sentence for each figure; of many arms one for each, and the table below has the rest.
fn findings_ui(experiment: &ExperimentState, ui: &mut Ui) {
    let comparison = &experiment.comparison;
    let all = comparison.pairs.len() == 1;
    for pair in &comparison.pairs {
        for figure in pair.figures.iter().take(if all { usize::MAX } else { 1 }) {
            widgets::verdict_row(
                ui,
                words::tone_of_effect(figure.effect),
                effect_words(figure.effect),
                &capitalised(&figure.sentence),
                "",
            );
        }
    }
    for drift in &experiment.drift {
        ui.add(Label::new(capitalised(&drift.sentence)).wrap());
    }
    if comparison.pairs.iter().all(|pair| pair.figures.is_empty()) && experiment.drift.is_empty() {
        let word = Tone::Unknown.word();
        widgets::verdict_row(ui, Tone::Unknown, word, &words::sentence(experiment), "");
    }
}

/// Pass criteria and predictions, each with what was measured and why it was wanted or expected.
pub(super) fn claims_ui(comparison: &Comparison, ui: &mut Ui) {
    for (is_criterion, claims) in [(true, &comparison.criteria), (false, &comparison.predictions)] {
        for claim in claims {
            let (tone, word) = words::claim_words(is_criterion, claim.verdict, claim.measured.is_some());
            let kind = if is_criterion {
                "Pass criterion"
            } else {
                "Prediction"
            };
            let sentence = format!("{kind}: {}", claim.sentence);
            let why = format!("Why: {}", claim.claim.why);
            widgets::verdict_row(ui, tone, word, &sentence, &why);
        }
    }
    if comparison.criteria.is_empty() && comparison.predictions.is_empty() {
        widgets::caption(ui, "Nothing: it looks, and expects nothing");
    }
}

/// What can be done with it now.
fn actions_ui(state: &State, experiment: &ExperimentState, ui: &mut Ui, out: &mut Commands) {
    let idle = state.tasks.running().is_none();
    ui.horizontal_wrapped(|ui| {
        if is_unfinished(experiment) && idle {
            let left = experiment.slots.len() - over(experiment);
            let text = format!("Go on with these {}", plural(left as u64, "run"));
            if ui.button(text).clicked() {
                resume(experiment, false, out);
            }
        }
        let made = experiment.slots.iter().any(|slot| slot.run.is_some());
        let saving = state.pages.compare.saving == Saving::Writing;
        let save = ui
            .add_enabled(made && idle && !saving, egui::Button::new("Save its report…"))
            .on_hover_text(
                "A page that others can check: as HTML, JSON, Markdown or a picture, by the name's ending",
            );
        if save.clicked() {
            let name = PathBuf::from(format!("tunesmith-{}.html", experiment.id));
            let folder = experiment.folder.clone();
            out.act("save the experiment's report", move |state| {
                state.pages.compare.look(folder);
                Some(pick_new(
                    "Save the report",
                    ("Reports", &["html", "json", "md", "png"]),
                    &name,
                    |state, path| state.pages.compare.saving = Saving::Picked(path),
                ))
            });
        }
        let report = ui.add_enabled(made, egui::Button::new("Report")).on_hover_text(
            "What it says, what is taken out before anybody sees it, and saving it in any form",
        );
        if report.clicked() {
            let folder = experiment.folder.clone();
            out.change("show the experiment's report", move |state| {
                state.pages.report.choose(Subject::Experiment(folder));
                state.go(Page::Report);
            });
        }
        if ui.button("Open its folder").clicked() {
            out.push(Command::Open(experiment.folder.clone()));
        }
    });
    match &state.pages.compare.saving {
        Saving::Saved(path) => {
            ui.horizontal_wrapped(|ui| {
                widgets::badge(ui, Tone::Ok, Tone::Ok.word());
                ui.label(format!("Saved as {}", path.display()));
                if widgets::link_button(ui, "Open it").clicked() {
                    out.push(Command::Open(path.clone()));
                }
            });
        }
        Saving::Failed(problem) => widgets::problem_panel(ui, "The report was not saved", problem, out),
        Saving::Writing => widgets::loading(ui, "Writing the report"),
        Saving::Idle | Saving::Picked(_) => {}
    }
}
