//! What to send when asking others for help: a short text without anything that names a person or this one machine, and
//! a capture, by which somebody else sees this machine as if it were theirs.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use egui::{Label, RichText, ScrollArea, TextEdit, Ui};
use tunesmith_probe::{CaptureError, CaptureOptions, CaptureSummary, Gpu, capture, redacted};
use tunesmith_report::format::{plural, size};
use tunesmith_setup::{
    Folders,
    doctor::Status,
    plan::{Plan, VerdictKind},
};

use super::SettingsView;
use crate::{
    commands::{Command, Commands},
    services::{Work, pick_new},
    state::{Loadable, Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

/// Height of the text that is shown before it is copied.
const PREVIEW: f32 = 220.0;

/// Where a capture goes if nobody says otherwise.
fn usual_place(folders: &Folders) -> PathBuf {
    folders.data().join("captures").join("this-machine.tar.gz")
}

/// Writes the text anew where the machine was looked at since, without private words.
pub(super) fn write(state: &mut State) -> Option<Work> {
    let generation = state.machine.generation;
    let settings = &state.pages.settings;
    let fresh = settings.diagnosed == generation && !settings.diagnostics.is_unasked();
    let waits = matches!(settings.engines, Loadable::Unasked | Loadable::Loading);
    if fresh || settings.diagnostics.is_loading() || waits {
        return None;
    }
    let text = text(state)?;
    let root = state.root.clone();
    let settings = &mut state.pages.settings;
    settings.diagnosed = generation;
    settings.diagnostics = Loadable::Loading;
    Some(Work::awaited(
        "writing the diagnostics",
        move || Ok(redacted(&root, &text)),
        |state, text| state.pages.settings.diagnostics = text.into(),
    ))
}

/// All that helps whoever answers; none before the machine was looked at.
fn text(state: &State) -> Option<String> {
    let machine = state.machine.get()?;
    let mut out = format!("Tunesmith {}\n", env!("CARGO_PKG_VERSION"));
    let mut line = |name: &str, value: String| {
        // Writing into a text cannot fail.
        let _ = writeln!(out, "{name}: {value}");
    };
    let of = &machine.system.machine;
    line(
        "system",
        joined([
            of.os.clone(),
            of.kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
        ]),
    );
    line(
        "processor",
        joined([of.cpu_model.clone(), of.usable_memory_bytes().map(size)]),
    );
    line("window", state.renderer.clone());
    line("doctor", machine.diagnosis.opening.clone());
    for check in &machine.diagnosis.checks {
        if matches!(check.status, Status::Fail | Status::Warn) {
            line(&format!("  {}", check.id), check.found.clone());
        }
    }
    match &machine.plan {
        Ok(plan) => line("plan", plan_words(plan)),
        Err(problem) => line("plan", format!("none: {}", problem.message)),
    }
    for (index, gpu) in machine.system.gpus.iter().enumerate() {
        line(&format!("card {index}"), card_words(gpu));
    }
    for setting in machine.system.settings.iter().filter(|setting| setting.in_effect) {
        line(
            "set",
            format!("{}={} ({})", setting.name, setting.value, setting.origin),
        );
    }
    for engine in state.pages.settings.engines.ready().into_iter().flatten() {
        line("engine", engine.text());
    }
    Some(out)
}

fn plan_words(plan: &Plan) -> String {
    let kind = match plan.verdict.kind {
        VerdictKind::Card => "trains on the card",
        VerdictKind::CpuOnly => "trains on the processor",
        VerdictKind::Blocked => "blocked",
    };
    let torch = plan.route().map(|route| format!("torch {}", route.torch));
    // The value of a mask may name one card in the world.
    let mask = plan
        .mask
        .as_ref()
        .map(|mask| format!("mask {} {}", mask.variable, mask.how));
    joined([Some(format!("{kind}: {}", plan.verdict.reason)), torch, mask])
}

fn card_words(gpu: &Gpu) -> String {
    let driver = gpu.driver.as_ref().map(|driver| {
        let version = gpu
            .driver_version
            .as_ref()
            .map_or_else(String::new, |version| format!(" {version}"));
        format!("driver {driver}{version}")
    });
    let gfx = gpu.gfx.clone().or_else(|| gpu.compute_capability.clone());
    joined([
        gpu.name.clone(),
        gfx,
        gpu.reported_gfx
            .as_ref()
            .map(|reported| format!("reported as {reported}")),
        gpu.device_id.as_ref().map(|device| format!("device {device}")),
        gpu.pci.clone(),
        gpu.trainable
            .as_ref()
            .map(|trainable| format!("{} to train in", size(trainable.value))),
        driver,
    ])
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    let known: Vec<String> = parts.into_iter().flatten().collect();
    if known.is_empty() {
        "unknown".to_owned()
    } else {
        known.join(", ")
    }
}

/// Writes a capture in the background.
fn begin_capture(state: &mut State, place: PathBuf, overwrite: bool) -> Option<Work> {
    if state.pages.settings.capture.is_loading() {
        return None;
    }
    let system = state.machine.get()?.system.clone();
    let root = state.root.clone();
    state.pages.settings.capture = Loadable::Loading;
    Some(Work::awaited(
        "capturing this machine",
        move || {
            let options = CaptureOptions { overwrite };
            capture(&root, &system, &place, options).map_err(|error| capture_problem(&error))
        },
        |state, written| state.pages.settings.capture = written.into(),
    ))
}

fn capture_problem(error: &CaptureError) -> Problem {
    let (code, hint) = match error {
        CaptureError::Exists(_) => (
            "capture_exists",
            "tick “replace an earlier capture”, or give another name",
        ),
        CaptureError::NotACapture(_) => ("not_a_capture", "give another name"),
        CaptureError::NoName(_) => ("no_name", "end the path with a name, such as this-machine.tar.gz"),
        CaptureError::Write { .. } | CaptureError::Json { .. } => {
            ("capture_unwritten", "choose a folder that you may write into")
        }
    };
    Problem::new(code, error.to_string(), vec![hint.to_owned()])
}

/// Asks for a file. The dialog is the system's own and may never come up; the field beside it works without.
fn begin_choice(place: &Path) -> Work {
    pick_new(
        "Where the capture goes",
        ("Packed capture", &["tar.gz"]),
        place,
        |state: &mut State, chosen| state.pages.settings.chosen = Some(chosen),
    )
}

/// The text before it is copied, and the form of the capture.
pub(super) fn diagnostics_ui(state: &State, view: &mut SettingsView, ui: &mut Ui, out: &mut Commands) {
    widgets::fold(ui, "What the diagnostics tell", false, |ui| {
        widgets::panel(ui, "", |ui| match &state.pages.settings.diagnostics {
            Loadable::Ready(text) => preview_ui(text, ui),
            Loadable::Failed(problem) => {
                widgets::problem_panel(ui, "The diagnostics could not be written", problem, out);
            }
            _ => widgets::loading(ui, "Reading the machine and the environments"),
        });
    });
    if view.capturing {
        widgets::panel(ui, "Capture this machine", |ui| capture_ui(state, view, ui, out));
    }
    ui.add_space(theme::GRID);
}

fn preview_ui(text: &str, ui: &mut Ui) {
    widgets::caption(
        ui,
        "Names of people and of this machine, serial numbers and keys are replaced",
    );
    ScrollArea::vertical()
        .id_salt("diagnostics")
        .max_height(PREVIEW)
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            let text = RichText::new(text.trim_end()).monospace().color(tokens(ui).text);
            ui.add(Label::new(text).wrap());
        });
}

fn capture_ui(state: &State, view: &mut SettingsView, ui: &mut Ui, out: &mut Commands) {
    let settings = &state.pages.settings;
    if view.place.is_empty() {
        view.place = usual_place(&state.folders).display().to_string();
    }
    if settings.chosen != view.taken_over {
        view.taken_over.clone_from(&settings.chosen);
        if let Some(chosen) = &settings.chosen {
            view.place = chosen.display().to_string();
        }
    }
    widgets::caption(
        ui,
        "Writes the small text files from which the set-up can be read, in one packed file, or in a folder where the name does not end in .tar.gz. What names a person or this machine is replaced. Nothing is sent",
    );
    let help = "The path of a file or folder that is not there yet; it works where no file dialog opens, too";
    widgets::field(ui, "Where it goes", help, |ui| {
        let room = (ui.available_width() - 8.0).min(560.0);
        ui.add(
            TextEdit::singleline(&mut view.place)
                .desired_width(room)
                .font(egui::TextStyle::Monospace),
        )
    });
    ui.checkbox(&mut view.overwrite, "Replace an earlier capture at this place");
    ui.horizontal_wrapped(|ui| {
        let place = PathBuf::from(view.place.trim());
        let ready = state.machine.get().is_some() && !settings.capture.is_loading();
        if ui
            .add_enabled(ready, egui::Button::new("Write the capture"))
            .clicked()
        {
            let (place, overwrite) = (place.clone(), view.overwrite);
            out.act("capture", move |state| begin_capture(state, place, overwrite));
        }
        if ui.button("Choose a place…").clicked() {
            out.act("choose a place", move |_| Some(begin_choice(&place)));
        }
    });
    ui.add_space(theme::GRID);
    match &settings.capture {
        Loadable::Unasked => {}
        Loadable::Loading => widgets::loading(ui, "Reading and packing"),
        Loadable::Ready(summary) => written_ui(summary, ui, out),
        Loadable::Failed(problem) => widgets::problem_panel(ui, "The capture was not written", problem, out),
    }
}

fn written_ui(summary: &CaptureSummary, ui: &mut Ui, out: &mut Commands) {
    let replaced: usize = summary.redacted.values().sum();
    let files = plural(summary.files as u64, "file");
    let text = format!(
        "Wrote {files}, {}; {} replaced. Look through it before you give it to others",
        size(summary.bytes),
        match replaced {
            0 => "nothing had to be".to_owned(),
            1 => "1 word was".to_owned(),
            count => format!("{count} words were"),
        }
    );
    widgets::verdict_line(ui, Tone::Ok, &text);
    ui.horizontal_wrapped(|ui| {
        if widgets::small_button(ui, "Open its folder").clicked() {
            let folder = summary.path.parent().unwrap_or(&summary.path);
            out.push(Command::Open(folder.to_owned()));
        }
        widgets::copy_button(ui, "the capture's path", &summary.path.display().to_string(), out);
    });
}
