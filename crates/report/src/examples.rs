//! Which answers a report shows: some that training fixed, some that it broke, some that it left, spread over
//! categories and always the same for the same run. All of them are in the JSON.

use std::collections::HashMap;

use serde::Serialize;

use crate::format::{plural, shorten};
use crate::{AnswerRecord, EvaluationResult};

const FIXED: &str = "Fixed";
const BROKEN: &str = "Broken";
const STILL_WRONG: &str = "Still wrong";
const STILL_RIGHT: &str = "Right all along";

/// Longest answer that is shown whole.
const LONGEST: usize = 1200;

/// What training did to the answers of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Examples {
    /// e.g. `Fixed`.
    pub heading: &'static str,
    /// What the kind means.
    pub meaning: &'static str,
    /// Questions of this kind.
    pub total: usize,
    /// Those shown.
    pub shown: Vec<Example>,
}

/// One question with both answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Id of the question.
    pub id: String,
    /// Its category.
    pub category: String,
    /// The question.
    pub question: String,
    /// The tables as shown to the model, shortened where very long.
    pub schema: String,
    /// The query that was wanted.
    pub gold: String,
    /// The base model's answer.
    pub before: Shown,
    /// The trained model's answer.
    pub after: Shown,
}

/// An answer as shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The whole answer, shortened where very long.
    pub text: String,
    /// The query taken out of it, where it is not the whole answer.
    pub sql: Option<String>,
    /// Whether it gives the right rows.
    pub matches: bool,
    /// e.g. `right rows`, `wrong rows`, `does not execute`, `no query found`.
    pub word: &'static str,
}

/// The kinds that have questions, in the order of interest.
pub(crate) fn choose(before: &EvaluationResult, after: &EvaluationResult) -> Vec<Examples> {
    let earlier: HashMap<&str, &AnswerRecord> = before
        .answers
        .iter()
        .map(|answer| (answer.id.as_str(), answer))
        .collect();
    let pairs: Vec<(&AnswerRecord, &AnswerRecord)> = after
        .answers
        .iter()
        .filter_map(|answer| Some((*earlier.get(answer.id.as_str())?, answer)))
        .collect();
    let kinds = [
        (FIXED, "wrong before, right after", false, true, 3),
        (BROKEN, "right before, wrong after", true, false, 2),
        (STILL_WRONG, "wrong before and after", false, false, 2),
        (STILL_RIGHT, "right before and after", true, true, 1),
    ];
    kinds
        .into_iter()
        .filter_map(|(heading, meaning, was, is, most)| {
            let kind: Vec<_> = pairs
                .iter()
                .filter(|pair| pair.0.matches == was && pair.1.matches == is)
                .collect();
            let shown: Vec<Example> = spread(&kind, most)
                .into_iter()
                .map(|pair| example(pair.0, pair.1))
                .collect();
            (!shown.is_empty()).then_some(Examples {
                heading,
                meaning,
                total: kind.len(),
                shown,
            })
        })
        .collect()
}

/// How many answers there are of each kind.
pub(crate) fn sentence(kinds: &[Examples]) -> String {
    let total = |heading: &str| {
        kinds
            .iter()
            .find(|kind| kind.heading == heading)
            .map_or(0, |kind| kind.total)
    };
    format!(
        "Training fixed {} and broke {}; {} stayed wrong and {} stayed right",
        plural(total(FIXED) as u64, "answer"),
        total(BROKEN),
        total(STILL_WRONG),
        total(STILL_RIGHT)
    )
}

/// The first of each category, then the second of each, until there are enough.
fn spread<'a>(
    kind: &[&'a (&'a AnswerRecord, &'a AnswerRecord)],
    most: usize,
) -> Vec<&'a (&'a AnswerRecord, &'a AnswerRecord)> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut ranked: Vec<(usize, usize)> = Vec::with_capacity(kind.len());
    for (place, pair) in kind.iter().enumerate() {
        let rank = seen.entry(pair.1.category.as_str()).or_default();
        ranked.push((*rank, place));
        *rank += 1;
    }
    ranked.sort_unstable();
    ranked
        .into_iter()
        .take(most)
        .map(|(_, place)| kind[place])
        .collect()
}

fn example(before: &AnswerRecord, after: &AnswerRecord) -> Example {
    Example {
        id: after.id.clone(),
        category: after.category.clone(),
        question: after.question.clone(),
        schema: shorten(&after.schema_text, 4000),
        gold: after.gold.clone(),
        before: shown(before),
        after: shown(after),
    }
}

fn shown(answer: &AnswerRecord) -> Shown {
    let word = match (&answer.sql, answer.executes, answer.matches) {
        (_, _, true) if answer.exact => "same query",
        (_, _, true) => "right rows",
        (None, ..) => "no query found",
        (Some(_), true, _) => "wrong rows",
        (Some(_), false, _) => "does not execute",
    };
    let sql = answer
        .sql
        .as_ref()
        .filter(|sql| sql.trim() != answer.answer.trim())
        .map(|sql| shorten(sql, LONGEST));
    Shown {
        text: shorten(&answer.answer, LONGEST),
        sql,
        matches: answer.matches,
        word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(entries: &[(&str, &str, bool)]) -> EvaluationResult {
        let answers = entries
            .iter()
            .map(|&(id, category, matches)| AnswerRecord {
                id: id.into(),
                category: category.into(),
                matches,
                ..AnswerRecord::default()
            })
            .collect();
        EvaluationResult {
            answers,
            ..EvaluationResult::default()
        }
    }

    #[test]
    fn kinds_are_told_apart_and_spread_over_categories() {
        let before = answers(&[
            ("1", "a", false),
            ("2", "a", false),
            ("3", "a", false),
            ("4", "b", false),
            ("5", "b", true),
        ]);
        let after = answers(&[
            ("1", "a", true),
            ("2", "a", true),
            ("3", "a", true),
            ("4", "b", true),
            ("5", "b", false),
        ]);
        let kinds = choose(&before, &after);
        assert_eq!(
            kinds
                .iter()
                .map(|kind| (kind.heading, kind.total))
                .collect::<Vec<_>>(),
            [(FIXED, 4), (BROKEN, 1)]
        );
        assert_eq!(
            sentence(&kinds),
            "Training fixed 4 answers and broke 1; 0 stayed wrong and 0 stayed right"
        );
        let ids: Vec<&str> = kinds[0].shown.iter().map(|example| example.id.as_str()).collect();
        assert_eq!(ids, ["1", "4", "2"]);
    }
}
