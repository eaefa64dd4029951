//! "Paste an error": which known faults a text shows, and what to do about them on this machine.

use std::sync::Arc;

use egui::{Id, Key, Label, Modifiers, RichText, TextEdit, Ui};
use tunesmith_probe::System;
use tunesmith_setup::{
    explain::{Explanation, Finding, MachineSays, Verdict, explain},
    knowledge,
};

use super::{
    Explained, SetupView,
    rows::{named, said, unfolding},
    words,
};
use crate::{
    commands::Commands,
    problem,
    services::Work,
    state::{Loadable, Machine, Problem, State},
    theme::{self, Tone, tokens},
    widgets,
};

const FIELD_ROWS: usize = 5;

/// Says in the background what a text shows.
pub(super) fn explain_text(machine: Arc<Machine>, text: String) -> Work {
    Work::awaited(
        "explaining a text",
        move || explanation(&text, &machine.system).map(Explained::Text),
        |state, explained| state.pages.setup.explained = explained.map(Arc::new).into(),
    )
}

/// Says in the background what the kernel's log of this machine shows of its cards.
pub(super) fn explain_kernel_log(machine: Arc<Machine>) -> Work {
    Work::awaited(
        "reading the kernel's log",
        move || {
            let system = &machine.system;
            let log = system.kernel_log.as_ref().map(|lines| lines.join("\n"));
            log.map(|log| explanation(&log, system))
                .transpose()
                .map(Explained::KernelLog)
        },
        |state, explained| state.pages.setup.explained = explained.map(Arc::new).into(),
    )
}

fn explanation(text: &str, system: &System) -> Result<Explanation, Problem> {
    let faults = knowledge::faults(None).map_err(|error| problem!(error))?;
    Ok(explain(text, Some(system), &faults))
}

pub(super) fn explain_ui(state: &State, view: &mut SetupView, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Explain an error", |ui| {
        let label = widgets::caption(
            ui,
            "Paste an error or a whole log: it is compared with the known faults on this machine, and nothing is sent",
        );
        let id = Id::unique("error text");
        // Taken before the field, which would make a line of it.
        let asks = ui.memory(|memory| memory.has_focus(id))
            && ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
        let field = TextEdit::multiline(&mut view.text)
            .id(id)
            .hint_text("RuntimeError: HIP error: invalid device function…")
            .font(egui::TextStyle::Monospace)
            .desired_rows(FIELD_ROWS)
            .desired_width(f32::INFINITY);
        egui::ScrollArea::vertical()
            .id_salt("error text")
            .max_height(240.0)
            .show(ui, |ui| ui.add(field).labelled_by(label.id));
        let explaining = state.pages.setup.explained.is_loading();
        ui.horizontal(|ui| {
            let can = !view.text.trim().is_empty() && !explaining;
            let text = if explaining { "Explaining…" } else { "Explain" };
            let asked = ui.add_enabled_ui(can, |ui| ui.button(text)).inner.clicked();
            if can && (asked || asks) {
                let text = view.text.clone();
                out.act("explain a text", move |state| {
                    begin(state, |machine| explain_text(machine, text))
                });
            }
            let log = ui
                .add_enabled_ui(!explaining, |ui| ui.button("Read the kernel's log"))
                .inner;
            if log
                .on_hover_text("What the kernel says of the cards since the machine started")
                .clicked()
            {
                out.act("explain the kernel's log", |state| {
                    begin(state, explain_kernel_log)
                });
            }
            if !view.text.is_empty() && ui.button("Clear").clicked() {
                view.text.clear();
                out.change("clear the explanation", |state| {
                    state.pages.setup.explained = Loadable::Unasked;
                });
            }
        });
        match &state.pages.setup.explained {
            Loadable::Ready(explained) => explained_ui(explained, view, ui, out),
            Loadable::Failed(problem) => widgets::problem_panel(ui, "It cannot be explained", problem, out),
            Loadable::Unasked | Loadable::Loading => {}
        }
    });
}

fn begin(state: &mut State, work: impl FnOnce(Arc<Machine>) -> Work) -> Option<Work> {
    let machine = super::machine(state)?;
    state.pages.setup.explained = Loadable::Loading;
    Some(work(machine))
}

fn explained_ui(explained: &Explained, view: &mut SetupView, ui: &mut Ui, out: &mut Commands) {
    ui.add_space(2.0 * theme::GRID);
    match explained {
        Explained::KernelLog(None) => widgets::verdict_line(
            ui,
            Tone::Unknown,
            "The kernel's log cannot be read as this user, so nothing is known of it. Paste what `sudo dmesg` says",
        ),
        Explained::KernelLog(Some(log)) if log.verdict == Verdict::Empty => {
            widgets::verdict_line(ui, Tone::Ok, "The kernel's log says nothing of the cards");
        }
        Explained::KernelLog(Some(explanation)) | Explained::Text(explanation) => {
            explanation_ui(explanation, view, ui, out);
        }
    }
}

fn explanation_ui(explanation: &Explanation, view: &mut SetupView, ui: &mut Ui, out: &mut Commands) {
    let tone = words::explanation_tone(explanation);
    ui.horizontal_wrapped(|ui| {
        widgets::badge(ui, tone, tone.word());
        ui.label(RichText::new(&explanation.summary).font(theme::strong_font()));
    });
    for finding in &explanation.findings {
        let (tone, kind) = words::kind(finding);
        let id = format!("fault {}", finding.id);
        unfolding(
            ui,
            &mut view.open,
            &id,
            &format!("{}, {kind}, {}", finding.title, words::lines(finding)),
            |ui| {
                widgets::badge(ui, tone, kind);
                ui.label(&finding.title);
                let weak = tokens(ui).weak_text;
                ui.add(Label::new(RichText::new(words::lines(finding)).color(weak)).truncate());
            },
            |ui| finding_ui(finding, explanation, ui, out),
        );
    }
    if !explanation.collect.is_empty() {
        ui.add_space(2.0 * theme::GRID);
        widgets::caption(ui, "To find out more, collect:");
        for item in &explanation.collect {
            named(ui, "–", |ui| ui.add(Label::new(item).wrap()));
        }
    }
}

fn finding_ui(finding: &Finding, explanation: &Explanation, ui: &mut Ui, out: &mut Commands) {
    named(ui, "The text", |ui| {
        ui.add(Label::new(RichText::new(&finding.quote).monospace()).wrap());
    });
    said(ui, "Means", &finding.means);
    if let Some(cause) = &finding.follows_from {
        let title = explanation
            .findings
            .iter()
            .find(|other| other.id == *cause)
            .map_or(cause.as_str(), |other| other.title.as_str());
        said(ui, "Follows from", title);
    }
    for cause in &finding.causes {
        said(ui, "Because", cause);
    }
    for (place, cure) in finding.cures.iter().enumerate() {
        named(ui, if place == 0 { "What to do" } else { "Then" }, |ui| {
            ui.add(Label::new(&cure.text).wrap());
            if !cure.because.is_empty() {
                widgets::caption(ui, &format!("on this machine: {}", cure.because.join(", ")));
            }
            for command in &cure.commands {
                widgets::command_block(ui, &command.command, out);
            }
        });
    }
    let machine = match finding.machine {
        MachineSays::Nothing => None,
        MachineSays::Confirms => Some((Tone::Stop, "this machine shows it")),
        MachineSays::Contradicts => Some((Tone::Note, "this machine does not show it")),
    };
    named(ui, "How sure", |ui| {
        ui.horizontal_wrapped(|ui| {
            if let Some((tone, word)) = machine {
                widgets::badge(ui, tone, word);
            }
            ui.label(&finding.how_sure);
        });
    });
    said(
        ui,
        "Source",
        &format!("{} (as of {})", finding.source, finding.as_of),
    );
}
