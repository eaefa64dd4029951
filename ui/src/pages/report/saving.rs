//! Saving a report in any form, which goes by the name's ending: a field for the path, for machines without dialogs, the
//! dialog, and never over a file that nobody agreed to give up.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use directories::UserDirs;
use egui::{RichText, TextEdit, Ui};
use tunesmith_lab::files::make_folder;
use tunesmith_report::{Format, Report, ReportError, Written, files_at, write, write_as, write_at};

use super::{Prepared, ReportState, Subject};
use crate::{
    commands::{Command, Commands},
    problem,
    services::{Work, pick_new},
    state::{Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// The page, and the JSON beside it.
    Page(Written),
    /// One file in another form.
    One(Format, PathBuf),
}

impl Files {
    /// For what was typed or chosen. A name whose ending says nothing is that of a page, and so is that of the JSON, which
    /// lies beside one.
    fn named(text: &str) -> Self {
        let path = PathBuf::from(text.trim());
        let form = Format::of_ending(&path.extension().unwrap_or_default().to_string_lossy());
        match form {
            Some(form @ (Format::Markdown | Format::Png)) => Self::One(form, path),
            Some(Format::Html) => Self::Page(files_at(&path)),
            Some(Format::Json) => Self::Page(files_at(&path.with_extension(Format::Html.ending()))),
            None => {
                let mut whole = path.into_os_string();
                whole.push(".html");
                Self::Page(files_at(Path::new(&whole)))
            }
        }
    }

    /// The file that somebody opens.
    pub fn main(&self) -> &Path {
        match self {
            Self::Page(files) => &files.html,
            Self::One(_, path) => path,
        }
    }

    /// Whether one of them is there already.
    fn are_there(&self) -> bool {
        match self {
            Self::Page(files) => files.html.exists() || files.json.exists(),
            Self::One(_, path) => path.exists(),
        }
    }

    fn write(&self, report: &Report) -> Result<(), ReportError> {
        match self {
            Self::Page(files) => write_at(&files.html, report).map(|_| ()),
            Self::One(form, path) => write_as(path, *form, report),
        }
    }

    /// `the JSON beside it`, in a sentence on what is written over.
    fn and_beside(&self) -> &'static str {
        match self {
            Self::Page(_) => " and the JSON beside it",
            Self::One(..) => "",
        }
    }
}

/// Where it stands with saving.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Saving {
    /// Nothing was asked for.
    #[default]
    Idle,
    /// A path was chosen in the dialog, which has asked about files that are there.
    Picked(PathBuf),
    /// It is being written.
    Writing,
    /// These files are there; the user must agree to replace them.
    Asks(Files),
    /// It was written.
    Saved(Files),
    /// It could not be written.
    Failed(Problem),
}

impl Saving {
    /// Whether it asks before it replaces files.
    pub fn asks(&self) -> bool {
        matches!(self, Self::Asks(_))
    }

    /// Whether it asks before it replaces these.
    fn asks_about(&self, files: &Files) -> bool {
        matches!(self, Self::Asks(asked) if asked == files)
    }
}

/// Where a report is saved unless the user says otherwise: among their documents, else where the browser puts files.
pub(super) fn suggested(run: &str, documents: Option<&Path>) -> PathBuf {
    let name = format!("tunesmith-{run}.html");
    if let Some(folder) = documents {
        return folder.join(name);
    }
    let user = UserDirs::new();
    let folder = user.as_ref().map(|user| {
        let places = [user.document_dir(), user.download_dir()];
        let there = places.into_iter().flatten().find(|folder| folder.is_dir());
        there.unwrap_or(user.home_dir()).to_owned()
    });
    folder.unwrap_or_default().join(name)
}

/// Writes the report, unless a file is there and the user has not agreed.
fn write_work(own: Arc<Prepared>, files: Files, agreed: bool) -> Work {
    let save = move || -> Result<Saving, Problem> {
        if files.are_there() && !agreed {
            return Ok(Saving::Asks(files));
        }
        files.write(&own.report).map_err(|error| problem!(error))?;
        Ok(Saving::Saved(files))
    };
    Work::awaited("saving the report", save, |state, saving| {
        state.pages.report.saving = saving.unwrap_or_else(Saving::Failed);
    })
}

/// The work that saves where the dialog said.
pub(super) fn needs(page: &mut ReportState) -> Option<Work> {
    let own = page.own.ready()?;
    let Saving::Picked(path) = &page.saving else {
        return None;
    };
    let files = Files::named(&path.to_string_lossy());
    // The dialog has asked about the file that it named, and about no other.
    let agreed = files.main() == path && path.exists();
    let work = write_work(Arc::clone(own), files, agreed);
    page.saving = Saving::Writing;
    Some(work)
}

/// How it is looked at.
#[derive(Default)]
pub(super) struct SavingView {
    /// The path as typed.
    path: String,
    /// The report for which it was suggested.
    of: String,
}

/// Saves, or replaces where that was asked.
pub(super) fn save(page: &ReportState, own: &Arc<Prepared>, view: &SavingView, out: &mut Commands) {
    if page.saving == Saving::Writing || view.path.trim().is_empty() {
        return;
    }
    let files = Files::named(&view.path);
    let agreed = page.saving.asks_about(&files);
    let own = Arc::clone(own);
    out.act("save the report", move |state| {
        state.pages.report.saving = Saving::Writing;
        Some(write_work(own, files, agreed))
    });
}

/// Draws field, buttons and outcome.
pub(super) fn saving_ui(
    page: &ReportState,
    own: &Arc<Prepared>,
    view: &mut SavingView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    if view.of != own.id {
        view.of.clone_from(&own.id);
        view.path = own.suggested.display().to_string();
    }
    let asks = page.saving.asks_about(&Files::named(&view.path));
    widgets::panel(ui, "", |ui| {
        ui.horizontal_wrapped(|ui| {
            let label = ui.label("Save as");
            let room = (ui.available_width() - 290.0).clamp(120.0, 560.0);
            ui.add(TextEdit::singleline(&mut view.path).desired_width(room))
                .labelled_by(label.id);
            let text = if asks { "Replace" } else { "Save" };
            let button = widgets::primary_button(ui, text);
            if button
                .on_hover_text(
                    "By the name's ending: .html with the JSON beside it, .md for a forum, .png as a picture (Ctrl-Enter)",
                )
                .clicked()
            {
                save(page, own, view, out);
            }
            if ui.button("Choose a place…").clicked() {
                choose_place(&own.suggested, ("Reports", &["html", "md", "png", "json"]), out);
            }
        });
        outcome_ui(&page.saving, asks, ui, out);
        ui.horizontal_wrapped(|ui| {
            if ui.button("Open in the browser").clicked() {
                open(page, own, out);
            }
            if ui.button("Copy the headline").clicked() {
                out.copy(headline(own), "the headline");
            }
            let markdown = ui
                .button("Copy as Markdown")
                .on_hover_text("For a post in a forum");
            if markdown.clicked() {
                match own.report.to_markdown() {
                    Ok(text) => out.copy(text, "the report as Markdown"),
                    Err(error) => out.change("say why", move |state| state.say_stop(error.to_string())),
                }
            }
            let picture = ui
                .button("Save a picture…")
                .on_hover_text("A card of 1200 by 630 to share");
            if picture.clicked() {
                let path = own.suggested.with_extension(Format::Png.ending());
                choose_place(&path, ("Picture", &["png"]), out);
            }
            widgets::caption(ui, "Nothing leaves this machine unless you send it");
        });
    });
}

fn outcome_ui(saving: &Saving, asks: bool, ui: &mut Ui, out: &mut Commands) {
    match saving {
        Saving::Writing | Saving::Picked(_) => widgets::loading(ui, "Saving"),
        Saving::Asks(files) if asks => {
            let text = format!(
                "{} is there already; Replace writes over it{}",
                files.main().display(),
                files.and_beside()
            );
            widgets::verdict_line(ui, Tone::Warn, &text);
        }
        Saving::Saved(files) => {
            let path = files.main().display().to_string();
            ui.horizontal_wrapped(|ui| {
                widgets::badge(ui, Tone::Ok, "saved");
                ui.label(RichText::new(&path).color(tokens(ui).text));
                widgets::copy_button(ui, "the path", &path, out);
                if let Some(folder) = files.main().parent()
                    && widgets::small_button(ui, "Open folder").clicked()
                {
                    out.push(Command::Open(folder.to_owned()));
                }
            });
        }
        Saving::Failed(problem) => {
            ui.add_space(theme::GRID);
            widgets::problem_panel(ui, "The report was not saved", problem, out);
        }
        Saving::Idle | Saving::Asks(_) => {}
    }
}

fn choose_place(suggested: &Path, filter: (&'static str, &'static [&'static str]), out: &mut Commands) {
    let suggested = suggested.to_owned();
    out.act("choose a place", move |_| {
        Some(pick_new("Save the report", filter, &suggested, |state, path| {
            state.pages.report.saving = Saving::Picked(path);
        }))
    });
}

/// Opens the page that was saved; where none was, the one that is written into the folder of what it is about.
fn open(page: &ReportState, own: &Arc<Prepared>, out: &mut Commands) {
    if let Saving::Saved(Files::Page(files)) = &page.saving {
        out.push(Command::Open(files.html.clone()));
        return;
    }
    let own = Arc::clone(own);
    out.act("open the report", move |_| {
        Some(Work::new("writing the report", move || {
            let written = write_own(&own);
            move |state: &mut State| match written {
                Ok(files) => {
                    state.pages.report.to_open = Some(files.html);
                    state.pages.runs.out_of_date();
                }
                Err(problem) => state.say_stop(problem.message),
            }
        }))
    });
}

/// Writes the report into the folder of what it is about. Only that of a calibration may not be there yet.
fn write_own(own: &Prepared) -> Result<Written, Problem> {
    if own.subject == Subject::Calibration {
        make_folder(&own.folder).map_err(|error| problem!(error))?;
    }
    write(&own.folder, &own.report).map_err(|error| problem!(error))
}

/// The headline with the verdict on its numbers, as text.
fn headline(own: &Prepared) -> String {
    let report = &own.report;
    format!(
        "{}. {}. Tunesmith {}, {}",
        report.headline.sentence, report.validity.sentence, report.record.program_version, own.preview.date
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_a_page_or_a_file_in_the_form_of_its_ending() {
        for (typed, path) in [
            ("/a/report.html", "/a/report.html"),
            (" /a/report.HTM ", "/a/report.HTM"),
            ("/a/report.json", "/a/report.html"),
            ("/a/my.card", "/a/my.card.html"),
            ("report", "report.html"),
        ] {
            let files = Files::named(typed);
            assert_eq!(files.main(), Path::new(path));
            assert!(matches!(files, Files::Page(_)), "{typed}");
        }
        for (typed, form) in [("/a/report.md", Format::Markdown), ("/a/card.PNG", Format::Png)] {
            assert_eq!(Files::named(typed), Files::One(form, PathBuf::from(typed)));
        }
    }

    #[test]
    fn the_suggestion_is_a_page_named_after_the_run() {
        let path = suggested("20260101-120000-quickstart-0123", None);
        assert_eq!(
            path.file_name().unwrap(),
            "tunesmith-20260101-120000-quickstart-0123.html"
        );
    }
}
