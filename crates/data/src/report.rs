//! What was counted while rows were made, so that a person sees a wrong mask before hours are spent on it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What rows hold. Lengths are in tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowsReport {
    /// Rows that will be trained on.
    pub rows: usize,
    /// Rows left out because they are too long.
    pub dropped_rows: usize,
    /// Rows equal to an earlier one, token by token; they are kept.
    pub duplicates: usize,
    /// Tokens of all rows.
    pub real_tokens: usize,
    /// Tokens whose prediction is trained.
    pub supervised_tokens: usize,
    /// `supervised_tokens` ÷ `real_tokens`.
    pub supervised_share: f64,
    /// Fewest supervised tokens in a row: 1 or 2 would be an end token and hardly an answer.
    pub fewest_supervised: usize,
    /// Length of the longest row.
    pub longest: usize,
    /// Length of the shortest row.
    pub shortest: usize,
    /// Mean length of the rows.
    pub mean_length: f64,
    /// Rows whose text as one piece would be tokenised otherwise than prompt and answer apart. The rows hold the
    /// latter, which is what generation sees.
    pub boundary_differences: usize,
    /// Rows whose tokens do not say their text exactly: the tokenizer has no token for a character or rewrites it.
    pub altered_texts: usize,
    /// Answers that are read and not trained, because the chat template rewrites them once more follows.
    #[serde(default)]
    pub rewritten_answers: usize,
    /// Largest token id in the rows.
    pub largest_token: u32,
    /// Size of the model's vocabulary.
    pub vocabulary: usize,
    /// Most supervised tokens in a row.
    #[serde(default)]
    pub most_supervised: usize,
    /// Answers in all rows.
    #[serde(default)]
    pub answers: usize,
    /// Tokens of the answers' texts, each tokenised alone. With what the template adds to each answer they are
    /// the supervised tokens, or the mask is wrong.
    #[serde(default)]
    pub answer_tokens: usize,
    /// Rows where the text of an answer is not in the supervised part.
    #[serde(default)]
    pub answers_outside: usize,
    /// Rows whose last token is an end token that is not supervised.
    #[serde(default)]
    pub ends_untrained: usize,
    /// Whether the model's padding token is one of its end tokens.
    #[serde(default)]
    pub pad_is_end: bool,
    /// The first row, decoded.
    pub sample: Sample,
}

/// A row as text, in pieces that are supervised or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Id of the example.
    pub id: String,
    /// The pieces in order; together they are the row.
    pub parts: Vec<SamplePart>,
}

/// A piece of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplePart {
    /// Whether the model is trained to write it.
    pub supervised: bool,
    /// Its text, special tokens included.
    pub text: String,
}

/// The row's text, what is trained between `⟦` and `⟧`.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            if part.supervised {
                write!(f, "⟦{}⟧", part.text)?;
            } else {
                f.write_str(&part.text)?;
            }
        }
        Ok(())
    }
}

impl RowsReport {
    /// What deserves a look though nothing is wrong for certain, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.dropped_rows > 0 {
            let all = self.rows + self.dropped_rows;
            warnings.push(format!(
                "{} of {all} rows were left out because they are too long",
                self.dropped_rows
            ));
        }
        if self.duplicates > 0 {
            warnings.push(format!(
                "{} of {} rows repeat an earlier row",
                self.duplicates, self.rows
            ));
        }
        if self.boundary_differences > 0 {
            warnings.push(format!(
                "in {} of {} rows the answer's first characters would join the prompt's last token if both were \
                 tokenised as one text; they are kept apart, as in generation",
                self.boundary_differences, self.rows
            ));
        }
        if self.altered_texts > 0 {
            warnings.push(format!(
                "the tokenizer leaves out or rewrites characters of {} of {} rows, so the model never sees them",
                self.altered_texts, self.rows
            ));
        }
        if self.rewritten_answers > 0 {
            warnings.push(format!(
                "{} answers are read and not trained, because the model's chat template rewrites them once more follows; \
                 a row of its own for each answer trains them too",
                self.rewritten_answers
            ));
        }
        warnings
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report for tests of other modules.
    pub(crate) fn report() -> RowsReport {
        let part = |supervised, text: &str| SamplePart {
            supervised,
            text: text.to_owned(),
        };
        RowsReport {
            rows: 2,
            dropped_rows: 0,
            duplicates: 0,
            real_tokens: 5,
            supervised_tokens: 2,
            supervised_share: 0.4,
            fewest_supervised: 1,
            longest: 3,
            shortest: 2,
            mean_length: 2.5,
            boundary_differences: 0,
            altered_texts: 0,
            rewritten_answers: 0,
            largest_token: 5,
            vocabulary: 6,
            most_supervised: 1,
            answers: 2,
            answer_tokens: 2,
            answers_outside: 0,
            ends_untrained: 0,
            pad_is_end: false,
            sample: Sample {
                id: "line-1".to_owned(),
                parts: vec![part(false, "user: 1 + 1?\n"), part(true, "2<end>")],
            },
        }
    }

    #[test]
    fn a_sample_shows_what_is_trained() {
        assert_eq!(report().sample.to_string(), "user: 1 + 1?\n⟦2<end>⟧");
    }

    #[test]
    fn only_findings_are_warned_of() {
        assert!(report().warnings().is_empty());
        let found = RowsReport {
            dropped_rows: 3,
            duplicates: 1,
            rewritten_answers: 7,
            ..report()
        };
        assert_eq!(
            found.warnings(),
            [
                "3 of 5 rows were left out because they are too long",
                "1 of 2 rows repeat an earlier row",
                "7 answers are read and not trained, because the model's chat template rewrites them once more follows; \
                 a row of its own for each answer trains them too"
            ]
        );
    }
}
