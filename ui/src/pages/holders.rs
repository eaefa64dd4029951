//! Who else holds the card (M20), on every page that starts something: the program by name with the command that lets the
//! card go, and after the run the one that brings the program back. Nothing is stopped or started by the window itself.

use std::process;

use egui::{Label, Ui};
use tunesmith_lab::fit::{HolderNote, holders_now, remember, stopped_meanwhile};
use tunesmith_probe::telemetry::Target;
use tunesmith_protocol::{TaskId, TaskWork};
use tunesmith_report::format::size;

use crate::{
    commands::Commands,
    services::Work,
    state::{Page, State, Task},
    theme::{self, Tone},
    widgets,
};

/// While somebody holds the card, it is looked at again after so many seconds: the user may have stopped them.
const AGAIN_SECS: f64 = 3.0;
/// While nobody does.
const SELDOM_SECS: f64 = 15.0;

/// What is known of others on the card.
#[derive(Clone, Debug, Default)]
pub struct HoldersState {
    /// Who holds it, most memory first, as it was seen last.
    pub now: Vec<HolderNote>,
    /// Who held it before a run and is gone since.
    pub gone: Vec<HolderNote>,
    /// When it was looked at last, in seconds of the window's clock.
    looked_secs: Option<f64>,
    /// It is being looked at.
    looking: bool,
    /// A run has ended: whoever was stopped for it may be wanted back.
    ended: bool,
}

impl HoldersState {
    /// Seconds until it is looked at again, where that changes what is shown.
    pub fn next_look_secs(&self, now_secs: f64) -> Option<f64> {
        let looked = self.looked_secs.filter(|_| !self.now.is_empty())?;
        Some((looked + AGAIN_SECS - now_secs).max(0.0))
    }

    fn is_due(&self, now_secs: f64) -> bool {
        let every = if self.now.is_empty() {
            SELDOM_SECS
        } else {
            AGAIN_SECS
        };
        self.looked_secs.is_none_or(|looked| now_secs - looked >= every)
    }
}

/// Whether a page shows who holds the card.
pub fn shown_on(page: Page) -> bool {
    matches!(page, Page::Tune | Page::Calibrate | Page::Compare)
}

/// The work that looks at the card, where it is due: never while a task runs, which would be disturbed and holds the card
/// itself.
pub fn needs(state: &mut State) -> Option<Work> {
    let machine = state.machine.get()?;
    let pci = machine.gpu()?.pci.clone()?;
    let targets: Vec<Target> = machine
        .targets()
        .into_iter()
        .filter(|target| target.pci == pci)
        .collect();
    let idle = state.tasks.running().is_none();
    let holders = &mut state.pages.holders;
    let due = shown_on(state.page) && holders.is_due(state.now_secs);
    if holders.looking || !idle || !(due || holders.ended) {
        return None;
    }
    holders.looking = true;
    let ended = std::mem::take(&mut holders.ended);
    let (root, folders) = (state.root.clone(), state.folders.clone());
    let look = move || {
        let now = holders_now(&root, &targets, &[process::id()]);
        // What cannot be remembered is not offered back, which harms nobody.
        let gone = if ended {
            stopped_meanwhile(&folders, &now).unwrap_or_default()
        } else {
            Vec::new()
        };
        let _ = remember(&folders, &now);
        Ok((now, gone))
    };
    Some(Work::awaited(
        "looking who holds the card",
        look,
        |state, seen| {
            let holders = &mut state.pages.holders;
            holders.looking = false;
            holders.looked_secs = Some(state.now_secs);
            match seen {
                Ok((now, gone)) => {
                    holders
                        .gone
                        .retain(|gone| now.iter().all(|there| there.name != gone.name));
                    holders.gone.extend(gone);
                    holders.now = now;
                }
                Err(problem) => state.say_stop(problem.message),
            }
        },
    ))
}

/// A task has ended.
pub fn task_ended(state: &mut State, task: TaskId) {
    let used_the_card = state.tasks.get(task).is_some_and(|task| {
        matches!(
            task.work,
            TaskWork::Train { .. }
                | TaskWork::Resume { .. }
                | TaskWork::Calibrate { .. }
                | TaskWork::Experiment { .. }
        )
    });
    state.pages.holders.ended |= used_the_card;
}

/// Who holds the card, and who may be wanted back; nothing where nobody does and nobody is.
pub fn holders_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let holders = &state.pages.holders;
    // While something runs it holds the card itself, and nobody looks.
    if !holders.now.is_empty() && state.tasks.running().is_none() {
        widgets::panel(ui, &heading(&holders.now), |ui| {
            widgets::verdict_line(
                ui,
                Tone::Warn,
                "What is measured beside it is wrong, and its memory is missing to the training",
            );
            for (index, holder) in holders.now.iter().enumerate() {
                ui.push_id(("holder", index), |ui| holder_ui(holder, ui, out));
            }
            widgets::caption(ui, "Nothing is stopped by itself; this list follows what you do");
        });
    }
    gone_ui(state, ui, out);
}

/// Who was stopped before a run and may be wanted back.
pub fn gone_ui(state: &State, ui: &mut Ui, out: &mut Commands) {
    let gone = &state.pages.holders.gone;
    if gone.is_empty() {
        return;
    }
    widgets::panel(ui, "Stopped before the run", |ui| {
        for (index, holder) in gone.iter().enumerate() {
            ui.push_id(("gone", index), |ui| one_gone_ui(holder, ui, out));
        }
        ui.add_space(theme::GRID);
        if ui.button("Close this").clicked() {
            out.change("forget who was stopped", |state| {
                state.pages.holders.gone.clear();
            });
        }
    });
}

/// `Ollama holds 4.0 GiB of the card`.
fn heading(now: &[HolderNote]) -> String {
    let bytes = now.iter().map(|holder| holder.vram_bytes).sum();
    match now {
        [only] => format!("{} holds {} of the card", only.name, size(bytes)),
        all => format!("{} other programs hold {} of the card", all.len(), size(bytes)),
    }
}

fn holder_ui(holder: &HolderNote, ui: &mut Ui, out: &mut Commands) {
    ui.add_space(theme::GRID);
    let facts = format!(
        "{}, process {}, {}",
        holder.name,
        holder.pid,
        size(holder.vram_bytes)
    );
    ui.add(Label::new(facts).wrap());
    match &holder.stop {
        Some(stop) => advice_ui(ui, "To free the card", stop, out),
        None => {
            widgets::caption(
                ui,
                "It is no program that Tunesmith knows: close it as you usually do",
            );
        }
    }
    if let Some(note) = &holder.note {
        widgets::caption(ui, note);
    }
}

fn one_gone_ui(holder: &HolderNote, ui: &mut Ui, out: &mut Commands) {
    ui.label(format!("{} held the card before and is gone now", holder.name));
    if let Some(start) = &holder.start {
        advice_ui(ui, "To have it back", start, out);
    }
}

/// What to do: a command that can be copied, or a sentence.
fn advice_ui(ui: &mut Ui, what: &str, how: &str, out: &mut Commands) {
    if is_command(how) {
        widgets::caption(ui, &format!("{what}:"));
        widgets::command_block(ui, how, out);
    } else {
        ui.add(Label::new(format!("{what}: {how}")).wrap());
    }
}

/// The knowledge file has sentences where no single command does: they have punctuation that no command of it has.
fn is_command(how: &str) -> bool {
    !how.contains(", ") && !how.contains(": ")
}

/// A task that waits for its device says whom it waits for.
pub fn waiting_ui(task: &Task, ui: &mut Ui) {
    let Some(whom) = &task.waits_for else { return };
    ui.horizontal_wrapped(|ui| {
        widgets::badge(ui, Tone::Note, "waits");
        ui.add(Label::new(tunesmith_report::format::capitalised(whom)).wrap());
    });
    widgets::caption(
        ui,
        "It begins by itself once the device is free; it can be stopped meanwhile",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str, bytes: u64) -> HolderNote {
        HolderNote {
            name: name.to_owned(),
            pid: 7,
            vram_bytes: bytes,
            pci: "0000:03:00.0".to_owned(),
            stop: None,
            start: None,
            note: None,
        }
    }

    #[test]
    fn a_heading_says_who_and_how_much() {
        assert_eq!(
            heading(&[note("Ollama", 4 << 30)]),
            "Ollama holds 4.0 GiB of the card"
        );
        assert_eq!(
            heading(&[note("Ollama", 4 << 30), note("ComfyUI", 2 << 30)]),
            "2 other programs hold 6.0 GiB of the card"
        );
    }

    #[test]
    fn commands_can_be_copied_and_sentences_are_said() {
        assert!(is_command("sudo systemctl stop ollama"));
        assert!(!is_command(
            "nothing: Ollama loads a model again when it is asked"
        ));
        assert!(!is_command("save your work, then close Blender"));
    }
}
