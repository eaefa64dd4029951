//! Before the run: a wrong mask, a template that rewrites what it wrote, a token that the model does not have.

use serde::{Deserialize, Serialize};
use tunesmith_protocol::Base;

use super::{CheckId, Finding, Thresholds};

/// What the rows of a training hold. Counted from the finished rows, beside the code that masks them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RowFacts {
    /// Rows.
    pub rows: u64,
    /// Tokens of all rows.
    pub real_tokens: u64,
    /// Tokens whose prediction is trained.
    pub supervised_tokens: u64,
    /// Tokens of the longest row.
    pub longest: u64,
    /// Tokens of the shortest row.
    pub shortest: u64,
    /// Fewest supervised tokens of a row.
    pub fewest_supervised: u64,
    /// Most supervised tokens of a row.
    pub most_supervised: u64,
    /// Answers in all rows.
    pub answers: u64,
    /// Tokens of the answers' own texts, each tokenised alone.
    pub answer_tokens: u64,
    /// Rows of whose answers' texts something is not in the trained part.
    pub answers_outside: u64,
    /// Rows whose last token is an end token that is not trained.
    pub ends_untrained: u64,
    /// Largest token id.
    pub largest_token: u64,
    /// Size of the model's vocabulary.
    pub vocabulary: u64,
    /// Whether the model's padding token is one of its end tokens.
    pub pad_is_end: bool,
    /// A conversation whose beginning the template changed when an answer was added, as a sentence.
    pub template_changed: Option<String>,
    /// A row that is trained on, what is trained between ⟦ and ⟧.
    pub sample: String,
}

/// An adapter that is trained further, and the base that it is put on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterFacts {
    /// The base that it was trained on, where it says.
    pub trained_on: Option<Base>,
    /// The base that it is put on.
    pub put_on: Base,
}

pub(super) fn look_at_rows(rows: &RowFacts, limits: &Thresholds) -> Vec<Finding> {
    if let Some(changed) = &rows.template_changed {
        return vec![Finding::red(
            CheckId::TemplatePrefix,
            changed.clone(),
            "where the answer begins cannot be told, so the loss mask would be wrong, and generation would see another prompt than training",
            &[
                "split the conversations into rows that end with one answer each",
                "use a model whose chat template keeps earlier turns as they are",
            ],
        )];
    }
    let largest = largest_token(rows);
    if rows.rows == 0 {
        return vec![largest];
    }
    let mut found = vec![supervised_share(rows, limits), largest];
    // Running text has no answers, and every token of it is trained.
    if rows.answers > 0 {
        found.push(Finding::green(
            CheckId::TemplatePrefix,
            "every trained answer stands behind exactly the text that generation would begin from",
        ));
    }
    if rows.answers > 0 && rows.supervised_tokens > 0 {
        found.extend([
            prompt_in_loss(rows, limits),
            answer_in_loss(rows, limits),
            end_token(rows),
        ]);
    }
    found
}

fn supervised_share(rows: &RowFacts, limits: &Thresholds) -> Finding {
    let id = CheckId::SupervisedShare;
    let share = rows.supervised_tokens as f64 / rows.real_tokens.max(1) as f64;
    let found = format!(
        "{} of {} tokens are trained ({:.1} %)",
        rows.supervised_tokens,
        rows.real_tokens,
        100.0 * share
    );
    let remedies = [
        "look at rows/rows.json in the run's folder: its sample shows what is trained",
        "check that every row has an answer, and that the model's chat template writes it",
    ];
    if rows.supervised_tokens == 0 || rows.fewest_supervised == 0 {
        let found = if rows.supervised_tokens == 0 {
            format!(
                "none of {} tokens is trained: everything is masked",
                rows.real_tokens
            )
        } else {
            format!("{found}, and at least one row has none")
        };
        return Finding::red(
            id,
            found,
            "the model would learn nothing from these rows",
            &remedies,
        );
    }
    if share < limits.supervised_share_low {
        return Finding::amber(
            id,
            found,
            "nearly all of the time goes into reading prompts; where answers are not that short, a mask hides part of them",
            &remedies,
        );
    }
    Finding::green(id, found)
}

/// A right mask covers the answers and a few tokens that the template adds to each. What lies beyond is prompt.
fn prompt_in_loss(rows: &RowFacts, limits: &Thresholds) -> Finding {
    let id = CheckId::PromptInLoss;
    let answers = rows.answer_tokens as f64;
    let allowed = rows.answers as f64 * limits.answer_extra_tokens;
    let beyond = (rows.supervised_tokens as f64 - answers - allowed).max(0.0);
    let prompts = (rows.real_tokens as f64 - answers - allowed).max(1.0);
    let found = format!(
        "{} tokens are trained, and the answers alone have {}",
        rows.supervised_tokens, rows.answer_tokens
    );
    if beyond / prompts > limits.prompt_share_in_loss {
        return Finding::red(
            id,
            format!(
                "{found}: {:.0} % of the prompts are in the loss, e.g. {}",
                100.0 * beyond / prompts,
                rows.sample
            ),
            "the model would learn to write questions; the loss would fall and the answers would not get better",
            &[
                "make the rows again with this version of Tunesmith",
                "if you mask rows yourself, train only what the assistant says",
            ],
        );
    }
    Finding::green(id, found)
}

fn answer_in_loss(rows: &RowFacts, limits: &Thresholds) -> Finding {
    let id = CheckId::AnswerInLoss;
    let missing =
        rows.answer_tokens.saturating_sub(rows.supervised_tokens) as f64 / rows.answer_tokens.max(1) as f64;
    let remedies = ["look at rows/rows.json in the run's folder: its sample shows what is trained"];
    if missing > limits.answer_share_missing {
        return Finding::red(
            id,
            format!(
                "the answers have {} tokens, and only {} are trained",
                rows.answer_tokens, rows.supervised_tokens
            ),
            "the model would learn parts of answers, and to stop where the mask does",
            &remedies,
        );
    }
    if rows.answers_outside > 0 {
        return Finding::amber(
            id,
            format!(
                "in {} of {} rows the trained text is not the whole answer",
                rows.answers_outside, rows.rows
            ),
            "the chat template rewrites these answers, or the mask is shifted",
            &remedies,
        );
    }
    Finding::green(
        id,
        format!("the trained text of all {} rows holds their answers", rows.rows),
    )
}

fn end_token(rows: &RowFacts) -> Finding {
    let id = CheckId::EndToken;
    let pad = if rows.pad_is_end {
        "; the padding token is an end token, which is fine, since nothing is masked by its id"
    } else {
        ""
    };
    if rows.ends_untrained > 0 {
        let found = format!(
            "in {} of {} rows the end token is not trained{}",
            rows.ends_untrained,
            rows.rows,
            if rows.pad_is_end {
                ", and the padding token is that very token: masking by its id hides it"
            } else {
                ""
            }
        );
        return Finding::red(
            id,
            found,
            "the model would never learn to stop",
            &[
                "mask padding by its place and not by its token",
                "make the rows again with this version of Tunesmith",
            ],
        );
    }
    Finding::green(id, format!("every answer's end token is trained{pad}"))
}

fn largest_token(rows: &RowFacts) -> Finding {
    let id = CheckId::LargestToken;
    if rows.largest_token >= rows.vocabulary {
        return Finding::red(
            id,
            format!(
                "the rows hold token {}, and the model's vocabulary ends at {}",
                rows.largest_token,
                rows.vocabulary.saturating_sub(1)
            ),
            "the tokenizer belongs to another model: the engine would read beyond the embedding, or learn other words than are meant",
            &["use the tokenizer that came with the model, and make the rows again"],
        );
    }
    Finding::green(
        id,
        format!(
            "largest token {}, vocabulary {}",
            rows.largest_token, rows.vocabulary
        ),
    )
}

pub(super) fn look_at_adapter(adapter: &AdapterFacts) -> Finding {
    let id = CheckId::AdapterBase;
    let put_on = &adapter.put_on;
    let short = |base: &Base| -> String {
        let fingerprint = base.fingerprint.as_deref().unwrap_or("without a fingerprint");
        fingerprint.chars().take(12).collect()
    };
    match &adapter.trained_on {
        None => Finding::amber(
            id,
            "the adapter does not say which base it was trained on",
            "on another base it would begin worse than nothing, and nothing else would tell",
            &["compare the first loss with that of the run that made the adapter"],
        ),
        Some(other) if other.fingerprint != put_on.fingerprint => Finding::red(
            id,
            format!(
                "the adapter was trained on the base {}, and this base is {}",
                short(other),
                short(put_on)
            ),
            "an adapter is a difference to one set of weights; added to another it means nothing",
            &["train it on the base that its tunesmith_base.json names, or begin without it"],
        ),
        Some(other) if (other.dtype, other.quantization) != (put_on.dtype, put_on.quantization) => {
            Finding::amber(
                id,
                format!(
                    "the adapter was trained on this base in {}, and now it is {}",
                    other.form(),
                    put_on.form()
                ),
                "the base rounds otherwise in another format, which costs an adapter points (2.8 were seen)",
                &["set train.dtype and model.quantization to what the adapter was trained with"],
            )
        }
        Some(_) => Finding::green(
            id,
            format!("the adapter was trained on this very base in {}", put_on.form()),
        ),
    }
}
