//! What is asked, and how the models answer.

use egui::{DragValue, Frame, Key, Label, Modifiers, RichText, TextEdit, Ui};
use serde::{Deserialize, Serialize};
use tunesmith_lab::text_to_sql::TextToSql;
use tunesmith_protocol::{PromptText, Sampling, Side, StopHow, TaskWork};

use super::question::{by_number, picked_by, tables_of};
use crate::{
    commands::{Command, Commands},
    state::{Loadable, State},
    theme::{self, tokens},
    widgets,
};

/// Longest answer that can be asked for, in tokens.
const LONGEST: usize = 4096;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// A test question.
    Question,
    /// The user's own words.
    Words,
}

/// The form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Form {
    /// What is asked; what suits the run where nothing was chosen.
    pub(super) source: Option<Source>,
    /// The user's own words.
    pub(super) words: String,
    /// Number of the test question, from 1.
    pub(super) number: usize,
    /// The seed that picks a question.
    pub(super) pick_seed: u64,
    /// Longest answer, in tokens.
    pub(super) max_new_tokens: usize,
    /// 0 takes the most likely token.
    pub(super) temperature: f64,
    /// Smallest set of tokens whose probability reaches this.
    pub(super) top_p: f64,
    /// Seed of the choice among tokens.
    pub(super) seed: u64,
}

impl Default for Form {
    fn default() -> Self {
        Self {
            source: None,
            words: String::new(),
            number: 1,
            pick_seed: 1,
            max_new_tokens: 256,
            temperature: 0.0,
            top_p: 1.0,
            seed: 0,
        }
    }
}

impl Form {
    fn prompt(&self, source: Source) -> PromptText {
        match source {
            Source::Question => PromptText::Question(self.number),
            Source::Words => PromptText::Text(self.words.trim().to_owned()),
        }
    }

    fn sampling(&self) -> Option<Sampling> {
        (self.temperature > 0.0).then_some(Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: 0,
            seed: self.seed,
        })
    }
}

/// The form, and the button that sends it.
pub(super) fn ask_ui(state: &State, form: &mut Form, ui: &mut Ui, out: &mut Commands) {
    let page = &state.pages.try_it;
    let suits = match page.run.ready() {
        Some(run) if !run.has_questions => Source::Words,
        _ => Source::Question,
    };
    let mut source = form.source.unwrap_or(suits);
    let choices = [
        (Source::Question, "A test question"),
        (Source::Words, "Your own words"),
    ];
    if widgets::segmented(ui, &mut source, &choices) {
        form.source = Some(source);
    }
    ui.add_space(theme::GRID);
    // Taken before the field sees it, which would begin a new line.
    let by_key = ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
    match source {
        Source::Question => question_ui(&page.questions, form, ui, out),
        Source::Words => words_ui(form, ui),
    }
    ui.add_space(theme::GRID);
    send_ui(state, form, source, by_key, ui, out);
    widgets::fold(ui, "How they answer", false, |ui| settings_ui(form, ui));
}

fn send_ui(state: &State, form: &Form, source: Source, by_key: bool, ui: &mut Ui, out: &mut Commands) {
    if super::answering(state).is_some_and(|task| !task.is_over()) {
        let stop = ui
            .button("Stop")
            .on_hover_text("Stops at once; what has been written so far stays here");
        if stop.clicked() {
            out.push(Command::Stop(StopHow::Now));
        }
        return;
    }
    let refusal = why_not(state, form, source);
    let asked = ui
        .add_enabled_ui(refusal.is_none(), |ui| {
            widgets::primary_button(ui, "Ask both").on_hover_text("Ctrl-Enter")
        })
        .inner
        .clicked();
    if let Some(refusal) = &refusal {
        widgets::caption(ui, refusal);
    }
    if (asked || by_key)
        && refusal.is_none()
        && let Some(run) = &state.pages.try_it.chosen
    {
        out.start(TaskWork::Answer {
            run: run.clone(),
            prompt: form.prompt(source),
            sides: vec![Side::Base, Side::Tuned],
            max_new_tokens: form.max_new_tokens,
            sampling: form.sampling(),
        });
    }
}

/// Why nothing can be asked now.
fn why_not(state: &State, form: &Form, source: Source) -> Option<String> {
    let page = &state.pages.try_it;
    if let Some(task) = state.tasks.running() {
        return Some(format!(
            "{} is under way; the models can answer once it is over",
            task.name()
        ));
    }
    if page.run.ready().is_none() {
        return Some("Choose a run first".to_owned());
    }
    let empty = source == Source::Words && form.words.trim().is_empty();
    empty.then(|| "Write a question first".to_owned())
}

fn words_ui(form: &mut Form, ui: &mut Ui) {
    let label = ui.label("Your question");
    ui.add(
        TextEdit::multiline(&mut form.words)
            .desired_rows(4)
            .desired_width(f32::INFINITY)
            .hint_text("What both models are asked, as you would write it to them"),
    )
    .labelled_by(label.id);
}

fn question_ui(
    questions: &Loadable<std::sync::Arc<TextToSql>>,
    form: &mut Form,
    ui: &mut Ui,
    out: &mut Commands,
) {
    let set = match questions {
        Loadable::Ready(set) => set,
        Loadable::Failed(problem) => {
            widgets::problem_panel(ui, "The test questions cannot be read", problem, out);
            return;
        }
        Loadable::Unasked | Loadable::Loading => {
            widgets::loading(ui, "Reading the test questions");
            return;
        }
    };
    let last = set.test.len();
    form.number = form.number.clamp(1, last.max(1));
    ui.horizontal_wrapped(|ui| {
        // As high as its buttons from the first word on, so that all of it stands on one line.
        ui.set_row_height(theme::ROW + theme::GRID);
        let label = ui.label("Number");
        ui.add(DragValue::new(&mut form.number).range(1..=last))
            .labelled_by(label.id);
        ui.label(format!("of {last}"));
        if ui.button("Previous").clicked() {
            form.number = if form.number > 1 { form.number - 1 } else { last };
        }
        if ui.button("Next").clicked() {
            form.number = form.number % last.max(1) + 1;
        }
        ui.separator();
        let pick = ui
            .button("Pick one")
            .on_hover_text("The same seed picks the same question on every machine");
        let label = ui.label("by seed");
        ui.add(DragValue::new(&mut form.pick_seed)).labelled_by(label.id);
        if pick.clicked() {
            form.number = picked_by(form.pick_seed, last);
        }
    });
    let Some(question) = by_number(set, form.number) else {
        return;
    };
    let colour = tokens(ui).strong_text;
    let text = RichText::new(&question.question)
        .font(theme::strong_font())
        .color(colour);
    ui.add(Label::new(text).wrap());
    widgets::caption(
        ui,
        "About these tables, which the models are shown without their rows:",
    );
    code_ui(ui, &tables_of(set, question));
}

/// Code that is shown and not copied.
pub(super) fn code_ui(ui: &mut Ui, text: &str) {
    let tokens = tokens(ui);
    Frame::new()
        .fill(tokens.code)
        .corner_radius(egui::CornerRadius::same(theme::SMALL_CORNER))
        .inner_margin(egui::Margin::symmetric(10, 6))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.add(Label::new(RichText::new(text).monospace()).wrap());
        });
}

fn settings_ui(form: &mut Form, ui: &mut Ui) {
    widgets::field(
        ui,
        "Longest answer",
        "In tokens; a longer one is cut there",
        |ui| ui.add(DragValue::new(&mut form.max_new_tokens).range(1..=LONGEST)),
    );
    widgets::field(
        ui,
        "Temperature",
        "0 takes the most likely token each time, so that the same question has the same answer; higher is more varied",
        |ui| ui.add(DragValue::new(&mut form.temperature).range(0.0..=2.0).speed(0.01)),
    );
    let chance = form.temperature > 0.0;
    ui.add_enabled_ui(chance, |ui| {
        widgets::field(
            ui,
            "Top p",
            "Only the most likely tokens that together reach this probability are chosen from; 1 keeps all",
            |ui| ui.add(DragValue::new(&mut form.top_p).range(0.01..=1.0).speed(0.01)),
        );
        widgets::field(ui, "Seed", "The same seed makes the same choices", |ui| {
            ui.add(DragValue::new(&mut form.seed))
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_zero_is_the_most_likely_token() {
        let mut form = Form::default();
        assert_eq!(form.sampling(), None);
        form.temperature = 0.7;
        form.seed = 5;
        let sampling = form.sampling().unwrap();
        assert_eq!((sampling.seed, sampling.top_k), (5, 0));
        form.words = "  hello \n".to_owned();
        assert_eq!(form.prompt(Source::Words), PromptText::Text("hello".to_owned()));
    }
}
