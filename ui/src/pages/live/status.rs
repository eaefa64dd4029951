//! Where a training is that goes on: the stages of its job, how far it is, how to stop it, and what the judge sees.

use egui::{Button, FontId, Label, Response, RichText, Role, Sense, Ui, WidgetInfo, vec2};
use tunesmith_protocol::{StopHow, Verdict};
use tunesmith_report::format::{capitalised, count};

use super::super::holders;
use super::words::{self, StagePlace};
use crate::{
    commands::{Command, Commands},
    state::{State, Task},
    theme::{self, Tone, tokens},
    widgets,
};

/// The ways to stop: name, and what each keeps.
const STOPS: [(StopHow, &str, &str); 3] = [
    (
        StopHow::Save,
        "Stop and save",
        "Finishes the step at hand, saves the adapter as it is then, and leaves: what was learned so far can be tried",
    ),
    (
        StopHow::AfterStep,
        "Stop after this step",
        "Finishes the step at hand and leaves without saving the adapter. Checkpoints stay, so the run can go on later from the newest one",
    ),
    (
        StopHow::Now,
        "Stop now",
        "Leaves at once, in the middle of the step. Only what was saved before stays: the checkpoints and the answers of the base model",
    ),
];

/// The way to stop an experiment.
const STOPS_OF_AN_EXPERIMENT: [(StopHow, &str, &str); 1] = [(
    StopHow::Now,
    "Stop the experiment",
    "Leaves at once, in the middle of the run. Runs that are over are kept, and the experiment can go on from there",
)];

/// Where the training is, and how to stop it.
pub(super) fn status_ui(state: &State, task: &Task, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "", |ui| {
        holders::waiting_ui(task, ui);
        stages_ui(state, task, ui);
        ui.add_space(theme::GRID);
        let stage = capitalised(&task.stage_title);
        let text = match task.progress.as_ref().filter(|progress| progress.total > 0) {
            Some(progress) => format!(
                "{stage}: {} of {} {}",
                count(progress.done),
                count(progress.total),
                progress.unit
            ),
            None => format!("{stage}…"),
        };
        widgets::progress_bar(ui, task.share(), &text);
        ui.add_space(theme::GRID);
        facts_ui(state, task, ui);
        ui.add_space(theme::GRID);
        stops_ui(task, ui, out);
    });
}

/// The stages of the whole job, the present one marked.
pub(super) fn stages_ui(state: &State, task: &Task, ui: &mut Ui) {
    let live = &state.pages.live;
    let ok = task
        .ended
        .as_ref()
        .is_some_and(|ended| ended.status == tunesmith_protocol::RunStatus::Ok);
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = theme::GAP;
        for stage in words::stages(live.asks_questions, live.reached, ok) {
            stage_ui(stage, task.is_over(), ui);
        }
    });
}

fn stage_ui(stage: words::JobStage, ended: bool, ui: &mut Ui) {
    let tokens = tokens(ui);
    let (colour, font) = match stage.place {
        StagePlace::Done => (tokens.text, FontId::proportional(theme::BODY)),
        StagePlace::Now => (tokens.strong_text, theme::strong_font()),
        StagePlace::Later => (tokens.weak_text, FontId::proportional(theme::BODY)),
    };
    let galley = ui.painter().layout_no_wrap(stage.title.to_owned(), font, colour);
    let side = 3.0 * theme::GRID;
    let size = vec2(
        side + 1.5 * theme::GRID + galley.size().x,
        theme::ROW - theme::GRID,
    );
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    let painter = ui.painter();
    let centre = egui::pos2(rect.left() + side / 2.0, rect.center().y);
    match stage.place {
        StagePlace::Done => widgets::mark(painter, centre, side, Tone::Ok, tokens.tone(Tone::Ok).text),
        StagePlace::Now if ended => {
            widgets::mark(painter, centre, side, Tone::Stop, tokens.tone(Tone::Stop).text);
        }
        StagePlace::Now => {
            painter.circle_filled(centre, side / 2.0 - 1.0, tokens.accent);
        }
        StagePlace::Later => {
            painter.circle_stroke(centre, side / 2.0 - 1.5, egui::Stroke::new(1.5, tokens.weak_text));
        }
    }
    let at = egui::pos2(
        rect.right() - galley.size().x,
        rect.center().y - galley.size().y / 2.0,
    );
    painter.galley(at, galley, colour);
    let place = stage.place.words(ended);
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{}: {place}", stage.title)));
    response.on_hover_text(capitalised(place));
}

/// Step, tokens, time.
fn facts_ui(state: &State, task: &Task, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 2.0 * theme::GAP;
        let step = task.steps.last();
        let steps = step.map_or_else(
            || "none yet".to_owned(),
            |step| format!("{} of {}", count(step.step), count(task.steps_total)),
        );
        fact(ui, "Step", &steps, "One step changes the adapter once, by the rows of one batch");
        let tokens = step.map_or_else(|| "none yet".to_owned(), |step| count(step.real_tokens));
        let hover = step.map_or_else(String::new, |step| {
            format!(
                "Padding is not counted. {} of them are supervised: the answers, which the model learns from; {} are computed with padding",
                count(step.supervised_tokens),
                count(step.padded_tokens)
            )
        });
        fact(ui, "Tokens", &tokens, &hover);
        let elapsed = words::elapsed(task.elapsed_secs(state.now_secs));
        let since = if task.is_experiment() {
            "Since the experiment was asked for"
        } else {
            "Since the training was asked for"
        };
        fact(ui, "Elapsed", &elapsed, since);
        let left = words::time_left(task, state.now_secs);
        fact(ui, "Left", &left, "Of this stage of the job, as its speed so far has it; later stages come on top");
    });
}

/// A figure under its name.
pub(super) fn fact(ui: &mut Ui, name: &str, value: &str, hover: &str) -> Response {
    let tokens = tokens(ui);
    let response = ui
        .vertical(|ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            ui.add(Label::new(RichText::new(name).size(theme::SMALL).color(tokens.weak_text)).extend());
            let value = RichText::new(value)
                .font(theme::heading_font())
                .color(tokens.strong_text);
            ui.add(Label::new(value).extend())
        })
        .inner;
    if hover.is_empty() {
        response
    } else {
        response.on_hover_text(hover)
    }
}

/// The ways to stop, or the one that was chosen.
fn stops_ui(task: &Task, ui: &mut Ui, out: &mut Commands) {
    // Half a run of an experiment says nothing: what is over counts, and the run at hand is made anew.
    let ways: &[(StopHow, &str, &str)] = if task.is_experiment() {
        &STOPS_OF_AN_EXPERIMENT
    } else {
        &STOPS
    };
    ui.horizontal_wrapped(|ui| {
        if let Some(how) = task.stopping {
            ui.label(format!("{}…", words::stopping(how)));
        }
        for &(how, name, keeps) in ways {
            // Between steps there is nothing to finish, and a stop that was asked for is followed only by a harder one.
            let shown = match task.stopping {
                Some(asked) => asked != StopHow::Now && how == StopHow::Now,
                None => task.stage == "train" || how == StopHow::Now,
            };
            if shown && ui.add(Button::new(name)).on_hover_text(keeps).clicked() {
                out.push(Command::Stop(how));
            }
        }
    });
}

/// What the judge sees.
pub(super) fn judge_ui(state: &State, task: &Task, ui: &mut Ui) {
    widgets::panel(ui, "The judge", |ui| {
        let outcome = state.pages.live.outcome();
        if let Some(outcome) = outcome
            && let Some(sentence) = words::judged_sentence(outcome)
        {
            let tone = if outcome.judged.notable == 0 {
                Tone::Ok
            } else {
                Tone::Warn
            };
            widgets::verdict_line(ui, tone, &sentence);
        } else if task.findings.is_empty() {
            let text = if task.is_over() {
                "Nothing was seen that needs a look"
            } else {
                "Nothing yet that needs a look. The judge checks the rows before the run, the gradients at its first steps, and every step to the end"
            };
            widgets::caption(ui, text);
        }
        for (index, finding) in task.findings.iter().enumerate() {
            if index > 0 || outcome.is_some() {
                ui.add_space(theme::GRID);
            }
            finding_ui(finding, ui);
        }
    });
}

fn finding_ui(finding: &Verdict, ui: &mut Ui) {
    let tone = match finding.severity.as_str() {
        "green" => Tone::Ok,
        "amber" => Tone::Warn,
        "red" => Tone::Stop,
        _ => Tone::Unknown,
    };
    ui.horizontal_wrapped(|ui| {
        widgets::badge(ui, tone, tone.word());
        let colour = tokens(ui).strong_text;
        let title = capitalised(&finding.title);
        ui.label(RichText::new(title).font(theme::strong_font()).color(colour));
        if let Some(step) = finding.step {
            let colour = tokens(ui).weak_text;
            ui.label(RichText::new(format!("at step {}", count(step))).color(colour));
        }
    });
    ui.add(Label::new(capitalised(&finding.found)).wrap());
    if !finding.means.is_empty() {
        widgets::caption(ui, &capitalised(&finding.means));
    }
    for remedy in &finding.remedies {
        ui.horizontal_top(|ui| {
            ui.label("→");
            ui.add(Label::new(capitalised(remedy)).wrap());
        });
    }
}
