//! The evaluation as the page shows it: scores before and after, by category, and the answers behind them.

use serde::Serialize;

use crate::compare::why_not_comparable;
use crate::draw::{ScoreRow, scores as draw_scores};
use crate::examples::{self, Examples};
use crate::format::{count, duration, plural, points};
use crate::{EvaluationResult, Report};

/// Scores before and after.
#[derive(Serialize)]
pub(crate) struct EvaluationView {
    pub(crate) sentence: String,
    why_not: Option<&'static str>,
    overall: Option<String>,
    categories: Option<String>,
    rows: Vec<EvaluationRow>,
    has_before: bool,
    has_after: bool,
    pub(crate) examples: Vec<Examples>,
    pub(crate) examples_sentence: String,
    answers_kept: usize,
}

#[derive(Serialize)]
pub(super) struct EvaluationRow {
    name: String,
    total: String,
    before: [String; 3],
    after: [String; 3],
    whole: bool,
}

impl EvaluationView {
    pub(crate) fn of(report: &Report) -> Option<Self> {
        let training = report.training()?;
        let (before, after) = (training.before.as_ref(), training.after.as_ref());
        let any = after.or(before)?;
        let why_not = before
            .zip(after)
            .and_then(|(before, after)| why_not_comparable(before, after));
        let row = |label: &str, of: fn(&EvaluationResult) -> u64| ScoreRow {
            label: label.to_owned(),
            total: any.questions,
            before: before.filter(|_| why_not.is_none()).map(of),
            after: after
                .map(of)
                .or_else(|| before.filter(|_| why_not.is_some()).map(of)),
        };
        let measures = [
            row("Execution match", |result| result.matches),
            row("Exact match", |result| result.exact),
            row("Executes", |result| result.executes),
        ];
        let category_rows = categories(before.filter(|_| why_not.is_none()), after);
        let seconds = |result: Option<&EvaluationResult>| {
            result
                .filter(|result| result.secs > 0.0)
                .map(|result| duration(result.secs))
        };
        let times = match (seconds(before), seconds(after)) {
            (Some(before), Some(after)) => format!(" Scoring took {before} before and {after} after."),
            (Some(one), None) | (None, Some(one)) => format!(" Scoring took {one}."),
            (None, None) => String::new(),
        };
        let sentence = match &report.gain {
            Some(gain) => format!(
                "Execution match moved by {}{} points on {}; the noise is ±{} points.{times}",
                if gain.gain_points >= 0.0 { "+" } else { "−" },
                points(gain.gain_points.abs()),
                plural(gain.questions, "question"),
                points(gain.noise_points)
            ),
            None => format!(
                "{} asked; there is no comparison.{times}",
                plural(any.questions, "question")
            ),
        };
        let examples = before
            .zip(after)
            .filter(|_| why_not.is_none())
            .map(|(before, after)| examples::choose(before, after))
            .unwrap_or_default();
        Some(Self {
            sentence,
            why_not,
            overall: draw_scores("Scores before and after training", &measures),
            categories: draw_scores(
                "Execution match by category, before and after training",
                &category_rows,
            ),
            rows: table(before, after),
            has_before: before.is_some(),
            has_after: after.is_some(),
            examples_sentence: examples::sentence(&examples),
            examples,
            answers_kept: any.answers.len(),
        })
    }
}

fn categories(before: Option<&EvaluationResult>, after: Option<&EvaluationResult>) -> Vec<ScoreRow> {
    let Some(any) = after.or(before) else {
        return Vec::new();
    };
    let matches = |result: Option<&EvaluationResult>, name: &str| {
        result?
            .by_category
            .iter()
            .find(|score| score.category == name)
            .map(|score| score.matches)
    };
    any.by_category
        .iter()
        .map(|score| ScoreRow {
            label: score.category.clone(),
            total: score.total,
            before: matches(before, &score.category),
            after: matches(after, &score.category),
        })
        .collect()
}

fn table(before: Option<&EvaluationResult>, after: Option<&EvaluationResult>) -> Vec<EvaluationRow> {
    let Some(any) = after.or(before) else {
        return Vec::new();
    };
    let none = || ["–".to_owned(), "–".to_owned(), "–".to_owned()];
    let scores = |matches: u64, exact: u64, executes: u64, total: u64| {
        [matches, exact, executes].map(|right| {
            if total == 0 {
                "–".to_owned()
            } else {
                points(100.0 * right as f64 / total as f64)
            }
        })
    };
    let whole = |result: Option<&EvaluationResult>| {
        result.map_or_else(none, |result| {
            scores(result.matches, result.exact, result.executes, result.questions)
        })
    };
    let part = |result: Option<&EvaluationResult>, name: &str| {
        result
            .and_then(|result| result.by_category.iter().find(|score| score.category == name))
            .map_or_else(none, |score| {
                scores(score.matches, score.exact, score.executes, score.total)
            })
    };
    let first = EvaluationRow {
        name: "All".to_owned(),
        total: count(any.questions),
        before: whole(before),
        after: whole(after),
        whole: true,
    };
    let rest = any.by_category.iter().map(|score| EvaluationRow {
        name: score.category.clone(),
        total: count(score.total),
        before: part(before, &score.category),
        after: part(after, &score.category),
        whole: false,
    });
    std::iter::once(first).chain(rest).collect()
}
