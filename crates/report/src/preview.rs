//! What a report says, in the strings and figures of its page but without the page: for a window that shows it before
//! it is saved, and must not word a number in another way.

use crate::view::{self, EvaluationView, Group};
use crate::{Examples, Figure, Report};

/// A report in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The recipe's title, or its name.
    pub title: String,
    /// When the run began, for people.
    pub date: String,
    /// The device's name.
    pub device: String,
    /// The model; empty where none was trained.
    pub model: String,
    /// The key figures.
    pub figures: Vec<Figure>,
    /// What the figures mean, a sentence each.
    pub sentences: Vec<String>,
    /// How many answers of each kind there are; empty where there are none to show.
    pub examples_sentence: String,
    /// Some answers of each kind.
    pub examples: Vec<Examples>,
    /// Machine, software, model and data, after private words were taken out.
    pub surroundings: Vec<Group>,
}

impl Report {
    /// The report in words.
    pub fn preview(&self) -> Preview {
        let record = &self.record;
        let training = record.training.as_ref();
        let evaluation = EvaluationView::of(self);
        let scores = evaluation.as_ref().map(|evaluation| evaluation.sentence.clone());
        let sentences = [
            scores,
            training.and_then(|training| view::speed_sentence(training, record.dtype)),
            training.and_then(|training| view::tokens_sentence(&training.summary)),
        ];
        let findings = record
            .experiment
            .iter()
            .flat_map(|experiment| &experiment.comparison.findings);
        let (examples, examples_sentence) = evaluation.map_or_else(Default::default, |evaluation| {
            (evaluation.examples, evaluation.examples_sentence)
        });
        Preview {
            title: view::title(record),
            date: view::date(&record.date),
            device: view::device(record),
            model: view::model(record).to_owned(),
            figures: view::figures(record),
            sentences: sentences.into_iter().flatten().chain(findings.cloned()).collect(),
            examples_sentence: if examples.is_empty() {
                String::new()
            } else {
                examples_sentence
            },
            examples,
            surroundings: view::groups(&record.manifest),
        }
    }
}
