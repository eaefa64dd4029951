//! The page that says what the words mean.

use egui::{
    Align, CornerRadius, Frame, Key, Label, Margin, Modifiers, Response, RichText, TextEdit, Ui,
    style::ScrollAnimation, vec2,
};

use crate::{
    commands::Commands,
    glossary::{self, Subject, TERMS, Term},
    state::State,
    theme::{self, tokens},
    widgets,
};

/// Room for a term beside its sentence; narrower windows put the sentence below.
const NAME: f32 = 220.0;
const BESIDE: f32 = 640.0;

/// How it is looked at.
#[derive(Default)]
pub struct GlossaryView {
    filter: String,
    subject: Option<Subject>,
    /// The term that is pointed out.
    marked: Option<&'static str>,
    /// What [`State::glossary_term`] was when the page was drawn last.
    jumped_to: Option<&'static str>,
    /// The list scrolls to the marked term once.
    scroll: bool,
    /// Pass of egui in which the page was drawn last.
    drawn_in: Option<u64>,
}

impl GlossaryView {
    /// The terms that are shown.
    fn shown(&self) -> Vec<&'static Term> {
        let text = self.filter.trim().to_lowercase();
        let named = TERMS
            .iter()
            .filter(|term| self.subject.is_none_or(|subject| term.subject == subject));
        named
            .filter(|term| text.is_empty() || term.mentions(&text))
            .collect()
    }

    /// Points out a term that somebody asked for elsewhere.
    fn jump(&mut self, word: &'static str) {
        self.filter.clear();
        self.subject = None;
        self.marked = Some(glossary::find(word).map_or(word, |term| term.word));
        self.scroll = true;
    }

    /// Points out the next or the previous of the shown terms.
    fn step(&mut self, forward: bool) {
        let shown = self.shown();
        let at = shown.iter().position(|term| Some(term.word) == self.marked);
        let next = match (at, forward) {
            (None, _) => 0,
            (Some(at), true) => (at + 1).min(shown.len().saturating_sub(1)),
            (Some(at), false) => at.saturating_sub(1),
        };
        self.marked = shown.get(next).map(|term| term.word);
        self.scroll = true;
    }
}

/// Draws it.
pub fn glossary_ui(state: &State, view: &mut GlossaryView, ui: &mut Ui, _out: &mut Commands) {
    let pass = ui.ctx().cumulative_pass_nr();
    let opened = view.drawn_in.is_none_or(|drawn_in| pass > drawn_in + 1);
    view.drawn_in = Some(pass);
    let asked = state.glossary_term;
    if let Some(word) = asked.filter(|_| opened || asked != view.jumped_to) {
        view.jump(word);
    }
    view.jumped_to = asked;
    let title = format!("{} words, one sentence each", TERMS.len());
    widgets::page(ui, &title, "", |ui| {
        filter_ui(view, opened, ui);
        let shown = view.shown();
        if shown.is_empty() {
            let text = "Neither a term nor its sentence has this word in it";
            if widgets::empty(ui, "Nothing found", text, Some("Show all words")) {
                view.filter.clear();
                view.subject = None;
            }
            return;
        }
        widgets::panel(ui, "", |ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            for term in shown {
                let marked = view.marked == Some(term.word);
                let response = term_ui(term, marked, ui);
                if marked && view.scroll {
                    response.scroll_to_me_animation(Some(Align::Center), ScrollAnimation::none());
                    view.scroll = false;
                }
            }
        });
    });
}

fn filter_ui(view: &mut GlossaryView, opened: bool, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        let label = ui.label("Find");
        let (down, up, escape) = ui.input_mut(|input| {
            (
                input.consume_key(Modifiers::NONE, Key::ArrowDown),
                input.consume_key(Modifiers::NONE, Key::ArrowUp),
                input.key_pressed(Key::Escape),
            )
        });
        let field = TextEdit::singleline(&mut view.filter)
            .hint_text("a word, or what it is about")
            .desired_width(280.0);
        let field = ui.add(field).labelled_by(label.id);
        if opened {
            field.request_focus();
        }
        if escape {
            view.filter.clear();
            view.marked = None;
        }
        if down || up {
            view.step(down);
        }
        let all = [(None, "All")].into_iter();
        let subjects = Subject::ALL.map(|subject| (Some(subject), subject.title()));
        let choices: Vec<_> = all.chain(subjects).collect();
        widgets::segmented(ui, &mut view.subject, &choices);
    });
    ui.add_space(theme::GRID);
}

fn term_ui(term: &Term, marked: bool, ui: &mut Ui) -> Response {
    let tokens = tokens(ui);
    let fill = if marked { tokens.selection } else { tokens.panel };
    let frame = Frame::new()
        .fill(fill)
        .corner_radius(CornerRadius::same(theme::SMALL_CORNER))
        .inner_margin(Margin::symmetric(8, 6));
    frame
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            if ui.available_width() < BESIDE {
                name_ui(term, marked, ui);
                ui.add(Label::new(term.sentence).wrap());
                return;
            }
            ui.horizontal_top(|ui| {
                ui.allocate_ui(vec2(NAME, 0.0), |ui| {
                    ui.vertical(|ui| {
                        ui.set_width(NAME);
                        name_ui(term, marked, ui);
                    });
                });
                ui.vertical(|ui| {
                    ui.add(Label::new(term.sentence).wrap());
                });
            });
        })
        .response
}

fn name_ui(term: &Term, marked: bool, ui: &mut Ui) {
    let colour = tokens(ui).strong_text;
    // The mark is not a colour alone.
    let name = if marked {
        format!("› {}", term.word)
    } else {
        term.word.to_owned()
    };
    ui.add(Label::new(RichText::new(name).font(theme::strong_font()).color(colour)).wrap());
    if !term.also.is_empty() {
        let also = RichText::new(format!("also {}", term.also.join(", ")));
        let colour = tokens(ui).weak_text;
        ui.add(Label::new(also.size(theme::SMALL).color(colour)).wrap());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_finds_terms_by_name_and_by_sentence() {
        let mut view = GlossaryView {
            filter: " GRAD_norm ".to_owned(),
            ..GlossaryView::default()
        };
        let words: Vec<_> = view.shown().iter().map(|term| term.word).collect();
        assert!(words.contains(&"gradient norm") && words.len() < 4, "{words:?}");
        view.filter = "surprised".to_owned();
        assert_eq!(view.shown()[0].word, "loss");
        view.subject = Some(Subject::Card);
        assert!(view.shown().is_empty());
    }

    #[test]
    fn a_jump_shows_its_term_whatever_was_filtered() {
        let mut view = GlossaryView {
            filter: "zzz".to_owned(),
            ..GlossaryView::default()
        };
        view.jump("grad_norm");
        assert_eq!(view.marked, Some("gradient norm"));
        assert!(view.shown().iter().any(|term| term.word == "gradient norm"));
    }

    #[test]
    fn steps_stay_within_the_list() {
        let mut view = GlossaryView {
            filter: "visible_devices".to_owned(),
            ..GlossaryView::default()
        };
        let words: Vec<_> = view.shown().iter().map(|term| term.word).collect();
        assert!(words.len() > 2, "{words:?}");
        for expected in [0, 1, 2].map(|at: usize| words[at.min(words.len() - 1)]) {
            view.step(true);
            assert_eq!(view.marked, Some(expected));
        }
        for _ in 0..5 {
            view.step(false);
        }
        assert_eq!(view.marked, Some(words[0]));
    }
}
