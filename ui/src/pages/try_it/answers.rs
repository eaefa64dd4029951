//! The two answers beside each other, as they are written, and what each is worth where that can be told.

use egui::{CornerRadius, Frame, Label, Margin, RichText, Stroke, Ui};
use tunesmith_lab::text_to_sql::ScoredAnswer;
use tunesmith_protocol::{Finish, Side, TaskWork};
use tunesmith_report::format::{capitalised, duration, plural};

use super::{
    ask::code_ui,
    question::{Asked, tables_of},
    run_name,
};
use crate::{
    commands::Commands,
    state::{State, Task},
    theme::{self, Tone, tokens},
    widgets,
};

/// Narrower than this, the answers stand below each other.
const TWO_COLUMNS: f32 = 640.0;

/// What a side is called in a sentence.
pub(super) fn name(side: Side) -> &'static str {
    match side {
        Side::Base => "base",
        Side::Tuned => "tuned",
    }
}

/// The side whose turn it is.
pub(super) fn answering_side(task: &Task) -> Option<Side> {
    let TaskWork::Answer { sides, .. } = &task.work else {
        return None;
    };
    sides
        .iter()
        .copied()
        .find(|side| !task.is_over() && task.answer(*side).whole.is_none())
}

/// Both answers.
pub(super) fn answers_ui(state: &State, task: &Task, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Answers", |ui| {
        let asked = Asked::of(state, task);
        if let Some(asked) = asked {
            asked_ui(state, task, asked, ui);
        }
        ui.add_space(theme::GRID);
        if ui.available_width() < TWO_COLUMNS {
            for side in [Side::Base, Side::Tuned] {
                side_ui(state, task, side, ui, out);
            }
        } else {
            ui.columns_const(|[base, tuned]| {
                widgets::ragged(base, |ui| side_ui(state, task, Side::Base, ui, out));
                widgets::ragged(tuned, |ui| side_ui(state, task, Side::Tuned, ui, out));
            });
        }
        if let Some(Asked::Question {
            question: Some(question),
            ..
        }) = asked
            && task.is_over()
        {
            widgets::caption(ui, "The gold answer:");
            code_ui(ui, &question.sql);
        }
    });
    if let Some(problem) = task.ended.as_ref().and_then(|ended| ended.problem.as_ref()) {
        widgets::problem_panel(ui, "The models did not answer", problem, out);
    }
}

/// What was asked: the form above may be at another question already.
fn asked_ui(state: &State, task: &Task, asked: Asked<'_>, ui: &mut Ui) {
    match asked {
        Asked::Words(words) => {
            ui.add(Label::new(RichText::new(words).color(tokens(ui).strong_text)).wrap());
        }
        Asked::Question { number, question } => {
            let words = question.map_or("", |question| question.question.as_str());
            let text = RichText::new(format!("{number}. {words}")).color(tokens(ui).strong_text);
            let response = ui.add(Label::new(text).wrap());
            if let (Some(set), Some(question)) = (state.pages.try_it.questions.ready(), question) {
                response.on_hover_text(tables_of(set, question));
            }
        }
    }
    if let TaskWork::Answer { run, .. } = &task.work {
        widgets::caption(ui, &format!("Asked of {}", run_name(state, run)));
    }
}

fn side_ui(state: &State, task: &Task, side: Side, ui: &mut Ui, out: &mut Commands) {
    let tokens = tokens(ui);
    let answer = task.answer(side);
    let now = answering_side(task) == Some(side);
    let title = match side {
        Side::Base => "Base model",
        Side::Tuned => "Tuned model",
    };
    Frame::new()
        .fill(tokens.ground)
        .stroke(Stroke::new(1.0, if now { tokens.accent } else { tokens.line }))
        .corner_radius(CornerRadius::same(theme::CORNER))
        .inner_margin(Margin::same(theme::INSET as i8))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.horizontal(|ui| {
                widgets::subheading(ui, title);
                if !answer.text.is_empty() {
                    let what = format!("the answer of the {} model", name(side));
                    widgets::copy_button(ui, &what, &answer.text, out);
                }
            });
            widgets::caption(ui, &standing(state, task, side, now));
            if !answer.text.is_empty() {
                ui.add(Label::new(RichText::new(&answer.text).monospace()).wrap());
            }
            if let Some(score) = state.pages.try_it.score(side) {
                let (tone, words) = worth(score);
                widgets::verdict_line(ui, tone, &words);
            }
        });
    ui.add_space(theme::GRID);
}

/// Where an answer stands, in words.
fn standing(state: &State, task: &Task, side: Side, now: bool) -> String {
    let answer = task.answer(side);
    if let Some(whole) = &answer.whole {
        let mut words = plural(whole.tokens, "token");
        if let Some(secs) = state.pages.try_it.times[side as usize].took_secs() {
            words.push_str(&format!(" in {}, loading included", duration(secs)));
        }
        if whole.finish == Finish::Length {
            words.push_str("; cut at its longest length");
        }
        return words;
    }
    if task.is_over() {
        return if answer.text.is_empty() {
            "No answer".to_owned()
        } else {
            "Stopped before its end".to_owned()
        };
    }
    if !now {
        return "Waits for the other one".to_owned();
    }
    if answer.text.is_empty() {
        format!("{}…", capitalised(&task.stage_title))
    } else {
        "Answering…".to_owned()
    }
}

/// What an answer to a test question is worth.
fn worth(score: &ScoredAnswer) -> (Tone, String) {
    if score.matches {
        let words = if score.exact {
            "Right: it is the gold query"
        } else {
            "Right: it returns the rows of the gold query"
        };
        return (Tone::Ok, words.to_owned());
    }
    match &score.error {
        Some(error) => (Tone::Stop, format!("Wrong: {error}")),
        None => (
            Tone::Warn,
            "Wrong: it runs, and returns other rows than the gold query".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_says_whether_it_ran() {
        let ran = ScoredAnswer {
            executes: true,
            ..ScoredAnswer::default()
        };
        assert_eq!(worth(&ran).0, Tone::Warn);
        let broken = ScoredAnswer {
            error: Some("no such table: cats".to_owned()),
            ..ScoredAnswer::default()
        };
        assert_eq!(
            worth(&broken),
            (Tone::Stop, "Wrong: no such table: cats".to_owned())
        );
    }
}
