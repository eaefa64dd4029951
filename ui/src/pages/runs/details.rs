//! One run in full: how it ended and why, what the judge saw, what its recipe changed.

use std::sync::Arc;

use egui::{Label, RichText, Ui};
use egui_extras::Column;
use tunesmith_lab::run::{LineState, Run, RunLine};
use tunesmith_measure::judge::{Finding, Severity};
use tunesmith_protocol::TaskWork;
use tunesmith_report::format::{duration, plural};

use super::{
    recipes::{Difference, differences, usual},
    words,
};
use crate::{
    commands::{Command, Commands},
    pages::report::Subject,
    problem,
    services::Work,
    state::{Loadable, Page, Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// What is read of a run only when somebody looks at it.
#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    /// What went wrong.
    failure: Option<Problem>,
    /// What the judge saw, the worst first.
    findings: Vec<Finding>,
    /// What the recipe is held against.
    against: String,
    /// Usual value and this run's, by key.
    differences: Vec<Difference>,
}

impl Details {
    fn read(line: &RunLine) -> Result<Self, Problem> {
        let run = Run::open(&line.folder).map_err(|error| problem!(error))?;
        let (usual, against) = usual(&run.recipe);
        let failure = run.summary.as_ref().and_then(|summary| summary.failure.clone());
        let judge = run.summary.as_ref().map(|summary| &summary.judge);
        let mut findings = judge.map_or_else(Vec::new, |judge| judge.findings.clone());
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Ok(Self {
            failure: failure.map(|failure| Problem {
                last_lines: failure.last_lines,
                ..Problem::new(failure.code, failure.message, failure.hints)
            }),
            findings,
            against,
            differences: differences(&[&usual, &run.recipe]),
        })
    }
}

/// The run that is looked at.
#[derive(Default)]
pub struct Open {
    /// Its id.
    pub id: Option<String>,
    /// What its details were read from.
    from: Option<Arc<RunLine>>,
    /// Its details.
    details: Loadable<Arc<Details>>,
}

impl Open {
    /// Looks at a run, or at none.
    pub fn look(&mut self, id: Option<String>) {
        *self = Self {
            id,
            ..Self::default()
        };
    }

    /// The work that reads the details where they are missing or older than the line.
    pub fn needs(&mut self, line: Option<&Arc<RunLine>>) -> Option<Work> {
        let Some(line) = line else {
            // The run is gone.
            self.id = None;
            return None;
        };
        let known = self.from.as_ref().is_some_and(|from| Arc::ptr_eq(from, line));
        if known {
            return None;
        }
        if self.details.ready().is_none() {
            self.details = Loadable::Loading;
        }
        self.from = Some(Arc::clone(line));
        let line = Arc::clone(line);
        let asked = Arc::clone(&line);
        Some(Work::awaited(
            "reading a run",
            move || Details::read(&line).map(Arc::new),
            move |state, details| state.pages.runs.open.take(&asked, details),
        ))
    }

    fn take(&mut self, line: &Arc<RunLine>, details: Result<Arc<Details>, Problem>) {
        // Another run may be looked at by now.
        if self.from.as_ref().is_some_and(|from| Arc::ptr_eq(from, line)) {
            self.details = details.into();
        }
    }
}

/// Draws the run that is looked at.
pub(super) fn details_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let runs = &state.pages.runs;
    let open = &runs.open;
    let Some(line) = open.id.as_ref().and_then(|id| runs.list.line(id)) else {
        return;
    };
    let heading = if line.title.is_empty() {
        words::name(line, runs.list.zone())
    } else {
        line.title.clone()
    };
    widgets::panel(ui, &heading, |ui| {
        ui.horizontal_wrapped(|ui| {
            widgets::badge(ui, words::tone(line), line.state.name());
            ui.add(Label::new(words::reason(line)).wrap());
        });
        actions_ui(state, line, ui, out);
        facts_ui(line, ui);
        match &open.details {
            Loadable::Ready(details) => read_ui(details, ui, out),
            Loadable::Failed(problem) => {
                widgets::problem_panel(ui, "This folder cannot be read as a run", problem, out);
            }
            Loadable::Unasked | Loadable::Loading => widgets::loading(ui, "Reading the run"),
        }
    });
}

fn actions_ui(state: &State, line: &RunLine, ui: &mut Ui, out: &mut Commands) {
    let broken = line.state == LineState::Broken;
    ui.horizontal_wrapped(|ui| {
        let is_live = state
            .tasks
            .running()
            .is_some_and(|task| task.run.as_ref() == Some(&line.id));
        if is_live && ui.button("Watch it").clicked() {
            out.go(Page::Live);
        }
        let trained = line.figures.is_some();
        let report = ui.add_enabled(!broken, egui::Button::new("Report"));
        let report = report.on_disabled_hover_text("A folder that cannot be read has no report");
        if report.clicked() {
            let id = line.id.clone();
            out.act("show the report", move |state| {
                state.go(Page::Report);
                state.pages.report.choose(Subject::Run(id));
                None
            });
        }
        let try_it = ui
            .add_enabled(line.has_adapter, egui::Button::new("Try it"))
            .on_disabled_hover_text("This run left no adapter to ask");
        if try_it.clicked() {
            super::try_run(line.id.clone(), out);
        }
        if let Some(step) = line.resume_step {
            let resume = ui.button("Resume").on_hover_text(format!(
                "Goes on from step {step}, where its newest checkpoint lies"
            ));
            if resume.clicked() {
                out.start(TaskWork::Resume { run: line.id.clone() });
                out.go(Page::Live);
            }
        }
        let delete = ui
            .add_enabled(!line.state.is_running(), egui::Button::new("Delete"))
            .on_hover_text("Moves its folder to the trash; it can be had back")
            .on_disabled_hover_text("It is going on; stop it first");
        if delete.clicked() {
            super::delete(vec![line.id.clone()], out);
        }
        if ui.button("Open folder").clicked() {
            out.push(Command::Open(line.folder.clone()));
        }
        widgets::copy_button(ui, "the folder's path", &line.folder.display().to_string(), out);
        let repeats = &state.pages.runs.list.filter().config_hash;
        if let (Some(hash), None, true) = (&line.config_hash, repeats, trained)
            && ui
                .button("Show repeats")
                .on_hover_text("Lists only the runs of the same experiment")
                .clicked()
        {
            let hash = hash.clone();
            out.change("show repeats", move |state| {
                state
                    .pages
                    .runs
                    .change_list(|list| list.filter_repeats(Some(hash)));
            });
        }
        if ui.button("Close").clicked() {
            out.change("close the run", |state| state.pages.runs.open.look(None));
        }
    });
}

fn facts_ui(line: &RunLine, ui: &mut Ui) {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut rows: Vec<(&str, String, String)> =
        vec![("Run", line.id.clone(), line.folder.display().to_string())];
    if line.state != LineState::Broken {
        rows.push(("Model", or_unknown(&line.model), or_unknown(&line.model_source)));
        rows.push(("Data", or_unknown(&line.data), String::new()));
        let engine = line
            .engine
            .as_ref()
            .map_or_else(String::new, |engine| format!(", {engine}"));
        rows.push((
            "Device",
            format!("{}{engine}", or_unknown(&line.device)),
            String::new(),
        ));
    }
    if let Some(secs) = line.total_secs {
        rows.push((
            "Took",
            duration(secs),
            "From the first look at the model to the last score".to_owned(),
        ));
    }
    ui.add_space(theme::GRID);
    widgets::facts(ui, "facts of the run", &rows);
}

fn read_ui(details: &Details, ui: &mut Ui, out: &mut Commands) {
    ui.add_space(2.0 * theme::GRID);
    if let Some(failure) = &details.failure {
        widgets::problem_panel(ui, "What went wrong", failure, out);
    }
    judge_ui(&details.findings, ui);
    if details.differences.is_empty() {
        widgets::caption(ui, &format!("The recipe is {}, unchanged", details.against));
    } else {
        let title = format!(
            "Recipe: {} from {}",
            differs(details.differences.len()),
            details.against
        );
        widgets::fold(ui, &title, false, |ui| differences_ui(&details.differences, ui));
    }
}

fn differs(keys: usize) -> String {
    if keys == 1 {
        "one key differs".to_owned()
    } else {
        format!("{keys} keys differ")
    }
}

fn judge_ui(findings: &[Finding], ui: &mut Ui) {
    if findings.is_empty() {
        widgets::verdict_line(ui, Tone::Unknown, "The judge has made no check of this run");
        return;
    }
    let (bad, good): (Vec<&Finding>, Vec<&Finding>) = findings
        .iter()
        .partition(|finding| finding.severity > Severity::Green);
    for finding in &bad {
        finding_ui(finding, ui);
    }
    if bad.is_empty() {
        let checks = plural(good.len() as u64, "check");
        widgets::verdict_line(
            ui,
            Tone::Ok,
            &format!("The judge made {checks}, and all are as they should be"),
        );
    }
    if !good.is_empty() {
        let title = format!("{} that passed", plural(good.len() as u64, "check"));
        widgets::fold(ui, &title, false, |ui| {
            for finding in &good {
                finding_ui(finding, ui);
            }
        });
    }
}

fn finding_ui(finding: &Finding, ui: &mut Ui) {
    let tone = match finding.severity {
        Severity::Green => Tone::Ok,
        Severity::Amber => Tone::Warn,
        Severity::Red => Tone::Stop,
    };
    let place = finding
        .step
        .map_or_else(String::new, |step| format!(", step {step}"));
    widgets::verdict_line(
        ui,
        tone,
        &format!("{}{place}: {}", finding.id.title(), finding.found),
    );
    if !finding.means.is_empty() {
        widgets::caption(ui, &finding.means);
    }
    for remedy in &finding.remedies {
        widgets::caption(ui, &format!("→ {remedy}"));
    }
}

fn differences_ui(differences: &[Difference], ui: &mut Ui) {
    keys_table(
        ui,
        "differences",
        &["usual".to_owned(), "this run".to_owned()],
        differences,
    );
}

/// Width of the column of keys, in points.
const KEYS: f32 = 220.0;
/// Least width of a column of values.
const VALUE: f32 = 80.0;

/// A table of keys in which recipes differ; long values are cut, and whole on hover.
pub(super) fn keys_table(ui: &mut Ui, id: &str, columns: &[String], differences: &[Difference]) {
    let weak = tokens(ui).weak_text;
    let needed = KEYS + columns.len() as f32 * (VALUE + ui.spacing().item_spacing.x);
    widgets::sideways(ui, id, needed, |ui| {
        let mut table = widgets::table(ui, id)
            .vscroll(false)
            .column(Column::exact(KEYS).clip(true));
        for _ in columns {
            table = table.column(Column::remainder().at_least(VALUE).clip(true));
        }
        table
            .header(theme::ROW, |mut header| {
                header.col(|ui| {
                    ui.label(RichText::new("key").small().color(weak));
                });
                for column in columns {
                    header.col(|ui| {
                        ui.add(Label::new(RichText::new(column).small().color(weak)).truncate());
                    });
                }
            })
            .body(|body| {
                body.rows(theme::ROW, differences.len(), |mut row| {
                    let difference = &differences[row.index()];
                    row.col(|ui| {
                        ui.add(Label::new(RichText::new(&difference.key).monospace()).truncate());
                    });
                    for value in &difference.values {
                        row.col(|ui| {
                            ui.add(Label::new(value).truncate());
                        });
                    }
                });
            });
    });
}
