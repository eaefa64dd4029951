//! Carrying the plan out: the exact commands with their sizes first, then one button; while it goes on how far it is and
//! what runs; afterwards what it came to.

use egui::{Label, RichText, ScrollArea, Ui};
use tunesmith_protocol::{Level, Progress, RunStatus, StopHow, TaskWork};
use tunesmith_report::format::{duration, size};
use tunesmith_setup::{
    UV_VERSION,
    environments::{Environment, InstallSpec},
    plan::{Plan, uv_lines},
};

use super::{Offer, Rehearsal, is_blocked, is_capture, rows::said, wanted_card, words};
use crate::{
    commands::{Command, Commands},
    state::{Loadable, State, Task},
    theme::{self, Tone, tokens},
    widgets,
};

/// Lines of a set-up's log that are shown; it says little more than its commands.
const MOST_LINES: usize = 400;
const LOG_HEIGHT: f32 = 200.0;

/// The set-up that can be started now; none where there is nothing to install, or where something else is under way.
pub(super) fn work(state: &State) -> Option<TaskWork> {
    let offer = state.pages.setup.offer.ready()?;
    let spec = offer.plan.install.as_ref()?;
    let rehearsed = matches!(offer.rehearsal, Some(Ok(_)));
    (rehearsed && !is_capture(state) && state.tasks.running().is_none()).then(|| TaskWork::Setup {
        engine: spec.engine.name().to_owned(),
        card: wanted_card(state),
    })
}

pub(super) fn install_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let task = state
        .tasks
        .last(|task| matches!(task.work, TaskWork::Setup { .. }));
    if let Some(task) = task {
        if !task.is_over() {
            return running_ui(state, task, ui, out);
        }
        ended_ui(state, task, ui, out);
    }
    match &state.pages.setup.offer {
        Loadable::Ready(offer) => offer_ui(state, offer, ui, out),
        // The plan's own panel says why there is none.
        Loadable::Failed(_) => {}
        Loadable::Unasked | Loadable::Loading => {
            widgets::panel(ui, "Install", |ui| {
                widgets::loading(ui, "Asking what would be installed");
            });
        }
    }
}

fn offer_ui(state: &State, offer: &Offer, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Install", |ui| {
        let plan = &offer.plan;
        let Some(spec) = &plan.install else {
            return nothing_to_install_ui(plan, ui);
        };
        what_ui(spec, ui);
        match &offer.rehearsal {
            Some(Ok(rehearsal)) => {
                rehearsal_ui(rehearsal, spec, ui, out);
                start_ui(state, spec, ui, out);
            }
            Some(Err(problem)) => widgets::problem_panel(ui, "It cannot be installed yet", problem, out),
            None => {
                lines_ui(plan, ui, out);
                widgets::verdict_line(
                    ui,
                    Tone::Note,
                    "What is shown here is a capture of a machine: copy the commands, and run them there",
                );
            }
        }
    });
}

fn nothing_to_install_ui(plan: &Plan, ui: &mut Ui) {
    let on_disk = plan.route().and_then(|route| route.on_disk.as_deref());
    let (tone, text) = if let Some(site) = on_disk {
        let site = site.display();
        (
            Tone::Ok,
            format!("Nothing has to be installed: the torch in {site} fits"),
        )
    } else {
        let tone = words::plan_tone(plan.verdict.kind);
        (tone, format!("Nothing can be installed: {}", plan.verdict.reason))
    };
    widgets::verdict_line(ui, tone, &text);
}

/// What it is, in sizes.
fn what_ui(spec: &InstallSpec, ui: &mut Ui) {
    let titles: Vec<&str> = spec.steps.iter().map(|step| step.title.as_str()).collect();
    said(ui, "What", &titles.join(", then "));
    said(ui, "Network", &size_if_known(spec.download_bytes()));
    said(ui, "Disk", &size_if_known(spec.disk_bytes()));
}

fn rehearsal_ui(rehearsal: &Rehearsal, spec: &InstallSpec, ui: &mut Ui, out: &mut Commands) {
    let free = rehearsal
        .free_bytes
        .map_or_else(String::new, |free| format!(", where {} are free", size(free)));
    said(ui, "Goes to", &format!("{}{free}", rehearsal.into.display()));
    if rehearsal.fetches_uv {
        let text = format!("uv {UV_VERSION}, which carries this out, is fetched with pip first");
        said(ui, "Before", &text);
    }
    let title = words::commands(rehearsal.commands.len());
    widgets::fold(ui, &title, true, |ui| {
        for command in &rehearsal.commands {
            let step = spec.steps.iter().find(|step| step.title == command.title);
            let bytes = step.and_then(|step| step.download_bytes);
            let network = bytes.map_or_else(String::new, |bytes| format!(" ({})", size(bytes)));
            let text = format!("{}. {}{network}: {}", command.number, command.title, command.why);
            widgets::caption(ui, &text);
            for (path, content) in &command.files {
                widgets::caption(ui, &format!("{} holds:", path.display()));
                ui.add(Label::new(RichText::new(content.trim_end()).monospace()).wrap());
            }
            widgets::command_block(ui, &command.command, out);
        }
    });
}

/// The commands of a machine that is not this one.
fn lines_ui(plan: &Plan, ui: &mut Ui, out: &mut Commands) {
    let lines = uv_lines(plan);
    let title = words::commands(lines.len());
    widgets::fold(ui, &title, true, |ui| {
        for line in &lines {
            widgets::command_block(ui, &format!("uv {line}"), out);
        }
    });
}

fn start_ui(state: &State, spec: &InstallSpec, ui: &mut Ui, out: &mut Commands) {
    ui.add_space(theme::GRID);
    let work = work(state);
    let text = match spec.download_bytes() {
        Some(bytes) => format!("Set up ({} over the network)", size(bytes)),
        None => "Set up (nobody has measured how much over the network)".to_owned(),
    };
    let blocked = is_blocked(state);
    let button = ui
        .add_enabled_ui(work.is_some(), |ui| {
            if blocked {
                ui.button(&text)
            } else {
                widgets::primary_button(ui, &text).on_hover_text("Ctrl-Enter")
            }
        })
        .inner;
    if button.clicked()
        && let Some(work) = work
    {
        return out.start(work);
    }
    if let Some(task) = state.tasks.running() {
        let text = format!(
            "{} is under way; the set-up can begin when it has ended",
            task.name()
        );
        widgets::verdict_line(ui, Tone::Note, &text);
    } else if blocked {
        widgets::verdict_line(
            ui,
            Tone::Note,
            "Cure first what is said above: until then nothing that is installed can use the card",
        );
    } else {
        widgets::caption(
            ui,
            "It is built beside its place and checked before it counts: what is there now stays until then",
        );
    }
}

fn running_ui(state: &State, task: &Task, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Setting up", |ui| {
        ui.label(task.stage_title.as_ref());
        let text = match &task.progress {
            Some(progress) => how_far(progress),
            None => "estimating…".to_owned(),
        };
        widgets::progress_bar(ui, task.share(), &text);
        widgets::caption(
            ui,
            &format!(
                "{} so far",
                widgets::whole_secs(task.elapsed_secs(state.now_secs))
            ),
        );
        log_ui(task, ui, out);
        ui.horizontal(|ui| {
            let stopping = task.stopping.is_some();
            let text = if stopping { "Stopping…" } else { "Stop" };
            let stop = ui.add_enabled_ui(!stopping, |ui| ui.button(text)).inner;
            if stop.clicked() {
                out.push(Command::Stop(StopHow::Now));
            }
            widgets::caption(ui, "What was there before stays, and what is downloaded is kept");
        });
    });
}

/// `1.2 GiB of 4.8 GiB, about 3 min 05 s left`.
fn how_far(progress: &Progress) -> String {
    let done = size(progress.done);
    let of = if progress.total > 0 {
        format!("{done} of {}", size(progress.total))
    } else {
        format!("{done} so far; nobody has measured how much it is in all")
    };
    match progress.eta_secs {
        Some(secs) if secs.is_finite() && secs >= 0.0 => {
            format!("{of}, about {} left", widgets::whole_secs(secs))
        }
        _ if progress.total > 0 => format!("{of}, estimating…"),
        _ => of,
    }
}

fn log_ui(task: &Task, ui: &mut Ui, out: &mut Commands) {
    let tokens = tokens(ui);
    let skipped = task.log.len().saturating_sub(MOST_LINES);
    ui.horizontal(|ui| {
        widgets::caption(ui, "What runs");
        let text: Vec<&str> = task.log.iter().map(|line| line.text.as_str()).collect();
        widgets::copy_button(ui, "the log", &text.join("\n"), out);
    });
    egui::Frame::new()
        .fill(tokens.code)
        .inner_margin(egui::Margin::same(8))
        .corner_radius(theme::SMALL_CORNER)
        .show(ui, |ui| {
            ScrollArea::vertical()
                .id_salt("set-up log")
                .max_height(LOG_HEIGHT)
                .stick_to_bottom(true)
                .auto_shrink([false, true])
                .show(ui, |ui| {
                    for line in task.log.iter().skip(skipped) {
                        let (prefix, colour) = match line.level {
                            Level::Warn => ("warning: ", tokens.tone(Tone::Warn).text),
                            Level::Info | Level::Debug => ("", tokens.text),
                        };
                        let text = format!("{prefix}{}", line.text);
                        ui.add(Label::new(RichText::new(text).monospace().color(colour)).wrap());
                    }
                });
        });
}

fn ended_ui(state: &State, task: &Task, ui: &mut Ui, out: &mut Commands) {
    let Some(ended) = &task.ended else { return };
    if let Some(problem) = &ended.problem {
        widgets::problem_panel(ui, "The set-up did not end well", problem, out);
        return;
    }
    widgets::panel(ui, "The last set-up", |ui| {
        match (ended.status, &state.pages.setup.made) {
            (RunStatus::Ok, Some(made)) => made_ui(made, ui),
            (RunStatus::Ok, None) => widgets::verdict_line(ui, Tone::Ok, "Nothing had to be installed"),
            (RunStatus::Cancelled, _) => widgets::verdict_line(
                ui,
                Tone::Note,
                "Stopped. What was there before stays as it was; what is downloaded is not fetched again",
            ),
            (status, _) => {
                let text = format!("It ended as {} without a reason", status.name());
                widgets::verdict_line(ui, Tone::Warn, &text);
            }
        }
    });
}

fn made_ui(made: &Environment, ui: &mut Ui) {
    let stamp = &made.stamp;
    let text = format!(
        "The engine `{}` now uses {}: {} on disk, made in {}",
        made.engine,
        made.name,
        size(stamp.disk_bytes),
        duration(stamp.took_secs)
    );
    widgets::verdict_line(ui, Tone::Ok, &text);
    said(ui, "Folder", &made.folder.display().to_string());
    said(ui, "torch", stamp.torch.as_deref().unwrap_or_default());
    for unknown in &stamp.unknown {
        widgets::verdict_line(ui, Tone::Unknown, &format!("Not checked: {unknown}"));
    }
}

fn size_if_known(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "not known: nobody has measured it".to_owned(), size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_sizes_and_never_as_nonsense() {
        let progress = |done: u64, total: u64, eta_secs| Progress {
            stage: "fetch".to_owned(),
            done,
            total,
            unit: "bytes".to_owned(),
            eta_secs,
        };
        let gib = 1 << 30;
        assert_eq!(
            how_far(&progress(gib, 4 * gib, Some(185.0))),
            "1.0 GiB of 4.0 GiB, about 3 min 05 s left"
        );
        assert_eq!(
            how_far(&progress(0, 4 * gib, None)),
            "0 bytes of 4.0 GiB, estimating…"
        );
        assert!(how_far(&progress(gib, 4 * gib, Some(f64::NAN))).ends_with("estimating…"));
        assert_eq!(
            how_far(&progress(gib, 0, None)),
            "1.0 GiB so far; nobody has measured how much it is in all"
        );
    }
}
