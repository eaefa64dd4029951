//! Before against after: the gain, and how large it must be to be more than chance.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tunesmith_measure::stats;

use crate::{EvaluationResult, TrainingRecord};

/// What training changed in execution match, in points (percent of the questions).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Questions asked.
    pub questions: u64,
    /// Score of the base model.
    pub before_points: f64,
    /// Score of the trained model.
    pub after_points: f64,
    /// Their difference.
    pub gain_points: f64,
    /// Half of the wider one of the two 95 % intervals: a change within it is chance (E4).
    pub noise_points: f64,
    /// Questions that only the trained model got right, where answers are paired.
    pub fixed: Option<u64>,
    /// Questions that only the base model got right.
    pub broken: Option<u64>,
    /// McNemar's exact test on those (C6).
    pub mcnemar_p: Option<f64>,
    /// Whether the change is outside the noise, and its paired test, where there is one, below 0.05.
    pub beyond_noise: bool,
}

impl Gain {
    /// Of a run whose two evaluations asked the same questions under the same rule.
    pub(crate) fn of(run: &TrainingRecord) -> Option<Self> {
        let (before, after) = (run.before.as_ref()?, run.after.as_ref()?);
        if why_not_comparable(before, after).is_some() {
            return None;
        }
        let points = |result: &EvaluationResult| 100.0 * result.matches as f64 / result.questions as f64;
        // Half of Wilson's interval: the plain half-width is zero where none or all are right, however few were asked.
        let noise = |result: &EvaluationResult| {
            let interval = stats::wilson(result.matches, result.questions).ok()?;
            Some((interval.high - interval.low) / 2.0)
        };
        let noise_points = 100.0 * noise(before)?.max(noise(after)?);
        let paired = pairs(before, after);
        let count =
            |was: bool, is: bool| paired.iter().filter(|pair| pair.0 == was && pair.1 == is).count() as u64;
        let paired_test = (!paired.is_empty()).then(|| (count(false, true), count(true, false)));
        let mcnemar_p = paired_test
            .and_then(|(fixed, broken)| stats::mcnemar(fixed, broken).ok())
            .map(|test| test.p_two_sided);
        let gain_points = points(after) - points(before);
        Some(Self {
            questions: after.questions,
            before_points: points(before),
            after_points: points(after),
            gain_points,
            noise_points,
            fixed: paired_test.map(|counts| counts.0),
            broken: paired_test.map(|counts| counts.1),
            mcnemar_p,
            beyond_noise: gain_points.abs() > noise_points && mcnemar_p.is_none_or(|p| p < 0.05),
        })
    }
}

/// Why two evaluations cannot be laid side by side, or `None` where they can.
pub(crate) fn why_not_comparable(
    before: &EvaluationResult,
    after: &EvaluationResult,
) -> Option<&'static str> {
    let known = |result: &EvaluationResult| result.questions > 0 && result.matches <= result.questions;
    if !known(before) || !known(after) {
        return Some("one of the two evaluations asked no question");
    }
    if before.questions != after.questions {
        return Some("the two evaluations asked a different number of questions");
    }
    if before.extraction_rule != after.extraction_rule {
        return Some(
            "the query was taken out of the answers by different rules, so a gain could be formatting",
        );
    }
    let both_kept = !before.answers.is_empty() && !after.answers.is_empty();
    if both_kept
        && (pairs(before, after).len() != before.answers.len() || before.answers.len() != after.answers.len())
    {
        return Some("the two evaluations asked different questions");
    }
    None
}

/// (right before, right after) of each question that both have, in the order of the second.
fn pairs(before: &EvaluationResult, after: &EvaluationResult) -> Vec<(bool, bool)> {
    let earlier: HashMap<&str, bool> = before
        .answers
        .iter()
        .map(|answer| (answer.id.as_str(), answer.matches))
        .collect();
    after
        .answers
        .iter()
        .filter_map(|answer| Some((*earlier.get(answer.id.as_str())?, answer.matches)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnswerRecord;

    fn result(matches: u64, questions: u64) -> EvaluationResult {
        EvaluationResult {
            questions,
            matches,
            extraction_rule: "first".into(),
            ..EvaluationResult::default()
        }
    }

    fn with_answers(right: &[bool]) -> EvaluationResult {
        let answers = right
            .iter()
            .enumerate()
            .map(|(id, &matches)| AnswerRecord {
                id: id.to_string(),
                matches,
                ..AnswerRecord::default()
            })
            .collect();
        EvaluationResult {
            answers,
            ..result(
                right.iter().filter(|right| **right).count() as u64,
                right.len() as u64,
            )
        }
    }

    #[test]
    fn different_terms_are_not_comparable() {
        assert_eq!(why_not_comparable(&result(1, 10), &result(5, 10)), None);
        assert!(
            why_not_comparable(&result(1, 10), &result(5, 20))
                .unwrap()
                .contains("number")
        );
        assert!(
            why_not_comparable(&result(0, 0), &result(5, 10))
                .unwrap()
                .contains("no question")
        );
        let other_rule = EvaluationResult {
            extraction_rule: "last".into(),
            ..result(5, 10)
        };
        assert!(
            why_not_comparable(&result(1, 10), &other_rule)
                .unwrap()
                .contains("formatting")
        );
        let mut other_questions = with_answers(&[true, false]);
        other_questions.answers[0].id = "elsewhere".into();
        assert!(
            why_not_comparable(&with_answers(&[true, false]), &other_questions)
                .unwrap()
                .contains("different questions")
        );
    }

    #[test]
    fn pairs_are_matched_by_id_and_not_by_place() {
        let before = with_answers(&[true, false, false]);
        let mut after = with_answers(&[false, true, true]);
        after.answers.reverse();
        assert_eq!(
            pairs(&before, &after),
            [(false, true), (false, true), (true, false)]
        );
    }
}
