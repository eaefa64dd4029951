//! Somebody else's report beside one's own: what both say, and which of their figures must not be compared.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use egui::{Label, RichText, TextEdit, Ui};
use egui_extras::Column;
use serde_json::Value;
use tunesmith_lab::files::FileError;
use tunesmith_report::format::capitalised;
use tunesmith_report::{Figure, Group, NotComparable, Preview, Report, comparable};

use super::preview::headline_ui;
use crate::{
    commands::Commands,
    problem,
    services::{Pick, Work, pick},
    state::{Loadable, Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// Width of the column of names, where there is room.
const NAMES: f32 = 170.0;
/// Longest file that is read as a report, in bytes: the largest real ones have a few million.
const LONGEST: u64 = 256 << 20;

/// A report that was opened.
pub struct Opened {
    path: PathBuf,
    report: Report,
    preview: Preview,
}

/// Somebody else's report.
#[derive(Default)]
pub struct Beside {
    opened: Loadable<Arc<Opened>>,
    /// Why some of the figures must not be compared.
    reasons: Vec<NotComparable>,
    /// What both say, by name.
    rows: Vec<[String; 3]>,
    /// Values that both give and that differ, by their place.
    differing: Vec<[String; 3]>,
    /// A file that was chosen in the dialog.
    wanted: Option<PathBuf>,
}

impl Beside {
    /// Whether something was opened.
    pub fn is_open(&self) -> bool {
        !self.opened.is_unasked()
    }

    /// Why it cannot be read, where it cannot.
    pub fn problem(&self) -> Option<&Problem> {
        match &self.opened {
            Loadable::Failed(problem) => Some(problem),
            _ => None,
        }
    }

    /// Reads a file as a report.
    pub fn open(state: &mut State, path: PathBuf) -> Option<Work> {
        let beside = &mut state.pages.report.beside;
        if beside.opened.is_loading() {
            return None;
        }
        beside.opened = Loadable::Loading;
        Some(Work::awaited(
            "reading a report",
            move || read(&path).map(Arc::new),
            |state, opened| {
                let page = &mut state.pages.report;
                page.beside.opened = opened.into();
                page.beside.compare(page.own.ready().map(|own| &own.report));
            },
        ))
    }

    /// Compares it with one's own.
    pub(super) fn compare(&mut self, own: Option<&Report>) {
        let both = own.zip(self.opened.ready());
        self.reasons = both.map_or_else(Vec::new, |(own, opened)| comparable(own, &opened.report));
        (self.rows, self.differing) = both.map_or_else(Default::default, |(own, opened)| {
            let preview = own.preview();
            let differing = differing(&preview.surroundings, &opened.preview.surroundings);
            let rows = rows((own, &preview), (&opened.report, &opened.preview));
            (rows, differing)
        });
    }

    /// The work that reads the file that was chosen in the dialog.
    pub(super) fn needs(state: &mut State) -> Option<Work> {
        let path = state.pages.report.beside.wanted.take()?;
        Self::open(state, path)
    }
}

/// Reads a report. Of a report's page it takes the JSON that lies beside it.
fn read(path: &Path) -> Result<Opened, Problem> {
    let page = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
    let path = if page {
        path.with_extension("json")
    } else {
        path.to_owned()
    };
    let fault = |source| {
        let error = FileError {
            path: path.clone(),
            action: "read",
            source,
        };
        problem!(error)
    };
    let length = fs::metadata(&path).map_err(fault)?.len();
    if length > LONGEST {
        return Err(Problem::new(
            "not_a_report",
            format!("{} is longer than any report", path.display()),
            vec!["choose the report.json that lies beside a report.html".to_owned()],
        ));
    }
    let bytes = fs::read(&path).map_err(fault)?;
    // Signs that are no UTF-8 make it no JSON, which is then said.
    let text = String::from_utf8_lossy(&bytes);
    let report = Report::from_json(&text).map_err(|error| problem!(error))?;
    Ok(Opened {
        preview: report.preview(),
        report,
        path,
    })
}

/// Values that two reports give of their surroundings and that differ: place, first, second.
fn differing(first: &[Group], second: &[Group]) -> Vec<[String; 3]> {
    let value = |groups: &[Group], name: &str, key: &str| {
        let group = groups.iter().find(|group| group.name == name)?;
        let row = group.rows.iter().find(|[other, _]| other == key)?;
        Some(row[1].clone())
    };
    let mut found = Vec::new();
    for (groups, others, first_is_here) in [(first, second, true), (second, first, false)] {
        for group in groups {
            for [key, here] in &group.rows {
                let there = value(others, &group.name, key);
                let place = format!("{}: {key}", group.name);
                match (there, first_is_here) {
                    (Some(there), true) if there != *here => found.push([place, here.clone(), there]),
                    (None, true) => found.push([place, here.clone(), "–".to_owned()]),
                    (None, false) => found.push([place, "–".to_owned(), here.clone()]),
                    _ => {}
                }
            }
        }
    }
    found
}

/// What a report says of the machine, for people.
fn hardware(report: &Report) -> Vec<(&'static str, String)> {
    let manifest = &report.record.manifest;
    let text = |place: &str| {
        let value = manifest.pointer(place).unwrap_or(&Value::Null);
        value.as_str().map_or_else(|| "unknown".to_owned(), str::to_owned)
    };
    let cards: Vec<String> = manifest
        .pointer("/machine/gpus")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|card| {
            card["name"]
                .as_str()
                .unwrap_or("a card without a name")
                .to_owned()
        })
        .collect();
    let cards = if cards.is_empty() {
        "none".to_owned()
    } else {
        cards.join(", ")
    };
    vec![
        (
            "Device",
            format!("{} ({})", text("/device/device"), text("/device/backend")),
        ),
        ("Cards", cards),
        ("Processor", text("/machine/cpu_model")),
        ("System", text("/machine/os")),
        ("Engine", text("/software/engine")),
        ("Torch", text("/software/torch")),
    ]
}

/// How it is looked at.
#[derive(Default)]
pub(super) struct BesideView {
    /// The path as typed.
    path: String,
}

/// Opens what is dropped on the window.
pub(super) fn drops(ui: &Ui, out: &mut Commands) {
    let dropped = ui.input(|input| input.raw.dropped_files.first().map(|file| file.path().to_owned()));
    if let Some(path) = dropped {
        out.act("open a dropped report", move |state| Beside::open(state, path));
    }
}

/// Closes it.
pub(super) fn close(out: &mut Commands) {
    out.change("close the other report", |state| {
        state.pages.report.beside = Beside::default();
    });
}

/// Draws field, buttons and comparison.
pub(super) fn beside_ui(
    beside: &Beside,
    own: Option<&Report>,
    view: &mut BesideView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    widgets::panel(ui, "Lay another report beside it", |ui| {
        widgets::caption(
            ui,
            "Drop somebody's report.json here, choose it, or type its path. It is only read, and nothing is sent",
        );
        ui.horizontal_wrapped(|ui| {
            let label = ui.label("Report file");
            let room = (ui.available_width() - 290.0).clamp(120.0, 560.0);
            let field = ui
                .add(
                    TextEdit::singleline(&mut view.path)
                        .desired_width(room)
                        .hint_text("report.json"),
                )
                .labelled_by(label.id);
            let entered = field.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
            let typed = !view.path.trim().is_empty();
            let open = ui.add_enabled(typed, egui::Button::new("Open"));
            if (open.clicked() || entered) && typed {
                let path = PathBuf::from(view.path.trim());
                out.act("open a report", move |state| Beside::open(state, path));
            }
            if ui.button("Choose a file…").clicked() {
                out.act("choose a report", |_| {
                    Some(pick(
                        "Open a report",
                        Pick::File("Report", &["json", "html"]),
                        |state, path| {
                            state.pages.report.beside.wanted = Some(path);
                        },
                    ))
                });
            }
            if beside.is_open() && ui.button("Close").on_hover_text("Esc").clicked() {
                close(out);
            }
        });
        match &beside.opened {
            Loadable::Unasked => {}
            Loadable::Loading => widgets::loading(ui, "Reading the report"),
            Loadable::Failed(problem) => {
                widgets::problem_panel(ui, "This file cannot be opened as a report", problem, out);
            }
            Loadable::Ready(opened) => opened_ui(beside, opened, own, ui),
        }
    });
}

fn opened_ui(beside: &Beside, opened: &Opened, own: Option<&Report>, ui: &mut Ui) {
    ui.add_space(theme::GRID);
    widgets::caption(ui, &format!("Opened {}", opened.path.display()));
    let Some(own) = own else {
        side_ui("Second: the opened report", &opened.report, ui);
        widgets::caption(ui, "There is no report of this machine to lay beside it");
        return;
    };
    ui.columns(2, |columns| {
        side_ui("First: this machine's report", own, &mut columns[0]);
        side_ui("Second: the opened report", &opened.report, &mut columns[1]);
    });
    ui.add_space(theme::GRID);
    rows_ui("beside", &beside.rows, ui);
    ui.add_space(theme::GRID);
    widgets::subheading(ui, "What may be compared");
    if beside.reasons.is_empty() {
        widgets::verdict_line(
            ui,
            Tone::Ok,
            "All figures may be compared, as one run against one run",
        );
    }
    for reason in &beside.reasons {
        widgets::verdict_line(
            ui,
            Tone::Warn,
            &format!("Not {}: {}", lower(&reason.figures), reason.why),
        );
    }
    if !beside.differing.is_empty() {
        let title = format!(
            "Everything in which their surroundings differ: {}",
            beside.differing.len()
        );
        widgets::fold(ui, &title, false, |ui| {
            rows_ui("differing", &beside.differing, ui);
        });
    }
}

/// `Speed and memory` within a sentence; names such as `MFU` stay.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

fn side_ui(heading: &str, report: &Report, ui: &mut Ui) {
    widgets::subheading(ui, heading);
    headline_ui(&report.headline, ui);
    headline_ui(&report.validity, ui);
    if let Some(edited) = report.integrity.sentence() {
        widgets::verdict_line(ui, Tone::Warn, &capitalised(edited));
    }
}

/// What both say: hardware, then figures.
fn rows((first, here): (&Report, &Preview), (second, there): (&Report, &Preview)) -> Vec<[String; 3]> {
    let row = |name: &str, one: &str, other: &str| [name, one, other].map(str::to_owned);
    let mut rows = vec![
        row("Recipe", &here.title, &there.title),
        row("Model", &here.model, &there.model),
        row("Date", &here.date, &there.date),
    ];
    let machines = hardware(first).into_iter().zip(hardware(second));
    rows.extend(machines.map(|((name, one), (_, other))| row(name, &one, &other)));
    let shown = |figure: &Figure| format!("{} {}", figure.value, figure.unit).trim().to_owned();
    let of = |figures: &[Figure], label: &str| {
        let figure = figures.iter().find(|figure| figure.label == label);
        figure.map_or_else(|| "–".to_owned(), shown)
    };
    let both = here.figures.iter().chain(&there.figures);
    for figure in both {
        if rows.iter().all(|[name, ..]| *name != figure.label) {
            let label = &figure.label;
            rows.push(row(label, &of(&here.figures, label), &of(&there.figures, label)));
        }
    }
    rows
}

fn rows_ui(id: &str, rows: &[[String; 3]], ui: &mut Ui) {
    let tokens = tokens(ui);
    let names = NAMES.min(0.4 * ui.available_width());
    ui.push_id(id, |ui| {
        widgets::table(ui, id)
            .vscroll(false)
            .column(Column::exact(names).clip(true))
            .columns(Column::remainder().at_least(60.0).clip(true), 2)
            .body(|body| {
                body.rows(theme::ROW, rows.len(), |mut row| {
                    let [name, one, other] = &rows[row.index()];
                    let colour = if one == other {
                        tokens.weak_text
                    } else {
                        tokens.strong_text
                    };
                    row.col(|ui| {
                        ui.add(Label::new(RichText::new(name).color(tokens.weak_text)).truncate());
                    });
                    for text in [one, other] {
                        row.col(|ui| {
                            ui.add(Label::new(RichText::new(text).color(colour)).truncate());
                        });
                    }
                });
            });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, rows: &[[&str; 2]]) -> Group {
        Group {
            name: name.to_owned(),
            rows: rows.iter().map(|row| row.map(str::to_owned)).collect(),
        }
    }

    #[test]
    fn differing_values_are_named_once_with_both_sides() {
        let first = [
            group("machine", &[["os", "Debian"], ["cores", "4"]]),
            group("run", &[["id", "a"]]),
        ];
        let second = [group(
            "machine",
            &[["os", "Fedora"], ["cores", "4"], ["swap", "1"]],
        )];
        assert_eq!(
            differing(&first, &second),
            [
                ["machine: os", "Debian", "Fedora"],
                ["run: id", "a", "–"],
                ["machine: swap", "–", "1"],
            ]
        );
    }

    #[test]
    fn what_is_no_report_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            read(&path).err().unwrap().code
        };
        assert_eq!(
            read(&folder.path().join("missing.json")).err().unwrap().code,
            "file_not_found"
        );
        assert_eq!(
            file("cut.json", b"{\"schema_version\": 1, \"head"),
            "report_damaged"
        );
        assert_eq!(file("new.json", b"{\"schema_version\": 99}"), "report_too_new");
        assert_eq!(file("other.json", b"{\"name\": 1}"), "not_a_report");
        assert_eq!(file("picture.json", &[0xff, 0xd8, 0x00]), "not_a_report");
        assert_eq!(file("page.html", b"<html>"), "file_not_found");
    }

    #[test]
    fn reasons_fit_into_a_sentence() {
        assert_eq!(lower("Speed and memory"), "speed and memory");
        assert_eq!(lower("MFU"), "MFU");
    }
}
