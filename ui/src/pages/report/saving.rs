//! Saving a report: a field for the path, for machines without dialogs, the dialog, and never over a file that nobody
//! agreed to give up.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use directories::UserDirs;
use egui::{RichText, TextEdit, Ui};
use tunesmith_report::{Format, Written, files_at, write, write_as, write_at};

use super::{Prepared, ReportState};
use crate::{
    commands::{Command, Commands},
    problem,
    services::{Work, pick_new},
    state::{Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

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
    Asks(Written),
    /// It was written.
    Saved(Written),
    /// It could not be written.
    Failed(Problem),
}

impl Saving {
    /// Whether it asks before it replaces files.
    pub fn asks(&self) -> bool {
        matches!(self, Self::Asks(_))
    }

    /// Whether it asks before it replaces the files at this path.
    fn asks_about(&self, html: &Path) -> bool {
        matches!(self, Self::Asks(files) if files.html == html)
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

/// The path of the HTML file for what was typed or chosen: it ends in `.html`, as the JSON beside it has another ending.
fn html_path(text: &str) -> PathBuf {
    let path = PathBuf::from(text.trim());
    let ending = path
        .extension()
        .map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("html" | "htm") => path,
        Some("json") => path.with_extension("html"),
        _ => {
            let mut whole = path.into_os_string();
            whole.push(".html");
            PathBuf::from(whole)
        }
    }
}

/// Writes the report, unless a file is there and the user has not agreed.
fn write_work(own: Arc<Prepared>, html: PathBuf, agreed: bool) -> Work {
    Work::new("saving the report", move || {
        let files = files_at(&html);
        let in_the_way = files.html.exists() || files.json.exists();
        let saving = if in_the_way && !agreed {
            Saving::Asks(files)
        } else {
            match write_at(&html, &own.report) {
                Ok(written) => Saving::Saved(written),
                Err(error) => Saving::Failed(problem!(error)),
            }
        };
        move |state: &mut State| state.pages.report.saving = saving
    })
}

/// The work that saves where the dialog said.
pub(super) fn needs(page: &mut ReportState) -> Option<Work> {
    let own = page.own.ready()?;
    let Saving::Picked(path) = &page.saving else {
        return None;
    };
    let html = html_path(&path.to_string_lossy());
    // The dialog has asked about the file that it named, and about no other.
    let agreed = html == *path && html.exists();
    let work = write_work(Arc::clone(own), html, agreed);
    page.saving = Saving::Writing;
    Some(work)
}

/// How it is looked at.
#[derive(Default)]
pub(super) struct SavingView {
    /// The path as typed.
    path: String,
    /// The run for which it was suggested.
    of: String,
}

/// Saves, or replaces where that was asked.
pub(super) fn save(page: &ReportState, own: &Arc<Prepared>, view: &SavingView, out: &mut Commands) {
    if page.saving == Saving::Writing || view.path.trim().is_empty() {
        return;
    }
    let html = html_path(&view.path);
    let agreed = page.saving.asks_about(&html);
    let own = Arc::clone(own);
    out.act("save the report", move |state| {
        state.pages.report.saving = Saving::Writing;
        Some(write_work(own, html, agreed))
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
    if view.of != own.run {
        view.of.clone_from(&own.run);
        view.path = own.suggested.display().to_string();
    }
    let asks = page.saving.asks_about(&html_path(&view.path));
    widgets::panel(ui, "", |ui| {
        ui.horizontal(|ui| {
            let label = ui.label("Save as");
            let room = (ui.available_width() - 290.0).clamp(120.0, 560.0);
            ui.add(TextEdit::singleline(&mut view.path).desired_width(room))
                .labelled_by(label.id);
            let text = if asks { "Replace" } else { "Save" };
            let button = widgets::primary_button(ui, text);
            if button
                .on_hover_text("Writes the HTML file and the JSON beside it (Ctrl-Enter)")
                .clicked()
            {
                save(page, own, view, out);
            }
            if ui.button("Choose a place…").clicked() {
                choose_place(&own.suggested, out);
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
                choose_picture(&own.suggested, out);
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
                "{} is there already; Replace writes over it and the JSON beside it",
                files.html.display()
            );
            widgets::verdict_line(ui, Tone::Warn, &text);
        }
        Saving::Saved(files) => {
            ui.horizontal_wrapped(|ui| {
                widgets::badge(ui, Tone::Ok, "saved");
                ui.label(RichText::new(files.html.display().to_string()).color(tokens(ui).text));
                widgets::copy_button(ui, "the path", &files.html.display().to_string(), out);
                if let Some(folder) = files.html.parent()
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

fn choose_place(suggested: &Path, out: &mut Commands) {
    let suggested = suggested.to_owned();
    out.act("choose a place", move |_| {
        Some(pick_new(
            "Save the report",
            ("Web page", &["html"]),
            &suggested,
            |state, path| state.pages.report.saving = Saving::Picked(path),
        ))
    });
}

fn choose_picture(suggested: &Path, out: &mut Commands) {
    let suggested = suggested.with_extension(Format::Png.ending());
    out.act("choose a place for the picture", move |_| {
        Some(pick_new(
            "Save the picture",
            ("Picture", &["png"]),
            &suggested,
            |state, path| state.pages.report.picture = Some(path),
        ))
    });
}

/// The work that draws the picture where the dialog said.
pub(super) fn picture_needs(page: &mut ReportState) -> Option<Work> {
    let own = Arc::clone(page.own.ready()?);
    let path = page.picture.take()?.with_extension(Format::Png.ending());
    Some(Work::new("drawing the picture", move || {
        let drawn = write_as(&path, Format::Png, &own.report);
        move |state: &mut State| match drawn {
            Ok(()) => state.say(Tone::Ok, format!("The picture is {}", path.display())),
            Err(error) => state.say_stop(error.to_string()),
        }
    }))
}

/// Opens the file that was saved; where none was, the one that is written into the run's own folder.
fn open(page: &ReportState, own: &Arc<Prepared>, out: &mut Commands) {
    if let Saving::Saved(files) = &page.saving {
        out.push(Command::Open(files.html.clone()));
        return;
    }
    let own = Arc::clone(own);
    out.act("open the report", move |_| {
        Some(Work::new("writing the report", move || {
            let written = write(&own.folder, &own.report).map_err(|error| problem!(error));
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
    fn what_is_typed_becomes_the_path_of_a_page() {
        for (typed, path) in [
            ("/a/report.html", "/a/report.html"),
            (" /a/report.HTM ", "/a/report.HTM"),
            ("/a/report.json", "/a/report.html"),
            ("/a/my.card", "/a/my.card.html"),
            ("report", "report.html"),
        ] {
            assert_eq!(html_path(typed), Path::new(path));
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
