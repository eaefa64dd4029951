//! What a training came to: how it ended and why, what it changed, and where to go from here.

use egui::{Button, Label, Ui};
use tunesmith_lab::run::RunLine;
use tunesmith_protocol::{RunStatus, TaskWork};
use tunesmith_report::{
    Gain, Verdict,
    format::{capitalised, count, plural, points},
};

use super::{
    Outcome,
    status::{fact, stages_ui},
    words,
};
use crate::{
    commands::Commands,
    pages::report::Subject,
    state::{Loadable, Page, State, Task, tone_of},
    theme::{self, Tone},
    widgets,
};

/// How a training ended, in a word or two.
fn status_words(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Ok => "finished",
        RunStatus::Oom => "out of memory",
        RunStatus::Nan => "not a number",
        RunStatus::Invalid => "invalid",
        RunStatus::TimeBoxed => "time box ended",
        RunStatus::Cancelled => "stopped by you",
        RunStatus::Crashed => "failed",
        RunStatus::Interrupted => "interrupted",
    }
}

fn tone_of_verdict(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Ok => Tone::Ok,
        Verdict::Note => Tone::Note,
        Verdict::Warn => Tone::Warn,
        Verdict::Stop => Tone::Stop,
        Verdict::Unknown => Tone::Unknown,
    }
}

/// What the training came to.
pub(super) fn outcome_ui(state: &State, task: &Task, ui: &mut Ui, out: &mut Commands) {
    let Some(ended) = &task.ended else { return };
    let live = &state.pages.live;
    let outcome = live.outcome();
    widgets::panel(ui, "", |ui| {
        stages_ui(state, task, ui);
        ui.add_space(theme::GRID);
        ui.horizontal_wrapped(|ui| {
            widgets::badge(ui, tone_of(ended.status), status_words(ended.status));
            if let Some(reason) = outcome.and_then(|outcome| outcome.reason.as_deref()) {
                ui.label(capitalised(reason));
            } else if let Some(headline) = outcome.and_then(|outcome| outcome.headline.as_ref()) {
                ui.label(headline.sentence.as_str());
            }
        });
        if let Some(validity) = outcome.and_then(|outcome| outcome.validity.as_ref()) {
            let tone = tone_of_verdict(validity.verdict);
            widgets::verdict_line(ui, tone, &validity.sentence);
        }
        ui.add_space(theme::GRID);
        if let Some(gain) = outcome.and_then(|outcome| outcome.gain.as_ref()) {
            gain_ui(gain, ui);
        }
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing.x = 2.0 * theme::GAP;
            if let Some(step) = task.steps.last() {
                fact(
                    ui,
                    "Steps",
                    &format!("{} of {}", count(step.step), count(task.steps_total)),
                    "",
                );
                fact(ui, "Tokens", &count(step.real_tokens), "Padding is not counted");
            }
            let took = words::elapsed(task.elapsed_secs(state.now_secs));
            fact(
                ui,
                "Took",
                &took,
                "From the moment that it was asked for to its end",
            );
        });
        ui.add_space(theme::GRID);
        actions_ui(task, outcome, ui, out);
        if live.outcome.is_loading() {
            widgets::loading(ui, "Reading what the run came to");
        }
    });
    if let Some(problem) = &ended.problem {
        widgets::problem_panel(ui, "Why it ended", problem, out);
    }
    if let Loadable::Failed(problem) = &live.outcome {
        widgets::problem_panel(ui, "The run's record cannot be read", problem, out);
    }
}

/// What the training changed in the answers, and how much of it may be chance.
fn gain_ui(gain: &Gain, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 2.0 * theme::GAP;
        let asked = format!("Execution match on {}", plural(gain.questions, "test question"));
        fact(
            ui,
            "Base model",
            &format!("{} points", points(gain.before_points)),
            &asked,
        );
        fact(
            ui,
            "Tuned model",
            &format!("{} points", points(gain.after_points)),
            &asked,
        );
        let sign = if gain.gain_points >= 0.0 { "+" } else { "−" };
        let change = format!("{sign}{} points", points(gain.gain_points.abs()));
        fact(ui, "Change", &change, "One point is one percent of the questions");
        fact(
            ui,
            "Noise",
            &format!("± {} points", points(gain.noise_points)),
            "A change within it is chance: half of the 95 % interval",
        );
    });
    let (tone, sentence) = match (gain.beyond_noise, gain.gain_points >= 0.0) {
        (true, true) => (Tone::Ok, "The change is more than chance"),
        (true, false) => (Tone::Warn, "The model got worse, by more than chance"),
        (false, _) => (Tone::Note, "No change beyond chance"),
    };
    widgets::verdict_line(ui, tone, sentence);
    ui.add_space(theme::GRID);
}

fn actions_ui(task: &Task, outcome: Option<&Outcome>, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal_wrapped(|ui| {
        let Some(outcome) = outcome else {
            if ui.button("Runs").clicked() {
                out.go(Page::Runs);
            }
            return;
        };
        if outcome.adapter.is_some() && widgets::primary_button(ui, "Try it").clicked() {
            let run = outcome.run.clone();
            out.change("try this run", move |state| {
                state.pages.try_it.choose(run);
                state.go(Page::TryIt);
            });
        }
        if let Some(step) = outcome.resume_step {
            let hover = format!("Goes on from the checkpoint of step {}", count(step));
            if ui.add(Button::new("Resume")).on_hover_text(hover).clicked() {
                let run = outcome.run.clone();
                out.start(TaskWork::Resume { run });
            }
        }
        if !task.steps.is_empty() && ui.button("Report").clicked() {
            let run = outcome.run.clone();
            out.change("show this run's report", move |state| {
                state.pages.report.choose(Subject::Run(run));
                state.go(Page::Report);
            });
        }
        if ui.button("Runs").clicked() {
            out.go(Page::Runs);
        }
    });
}

/// A run that an earlier window left behind.
pub(super) fn interrupted_ui(line: &RunLine, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "", |ui| {
        let step = line.resume_step.unwrap_or_default();
        let sentence = format!(
            "The run {} was interrupted; it can go on from step {}",
            line.id,
            count(step)
        );
        widgets::verdict_line(ui, Tone::Warn, &sentence);
        if let Some(reason) = &line.reason {
            ui.add(Label::new(capitalised(reason)).wrap());
        }
        ui.horizontal_wrapped(|ui| {
            if widgets::primary_button(ui, "Resume it").clicked() {
                out.start(TaskWork::Resume { run: line.id.clone() });
            }
            if ui
                .button("Leave it")
                .on_hover_text("It stays among the runs, where it can be resumed later")
                .clicked()
            {
                let run = line.id.clone();
                out.change("leave the run alone", move |state| {
                    state.saved.left_alone.push(run);
                });
            }
        });
    });
}
