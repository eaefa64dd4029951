//! Scores answers: whether the SQL is the gold query, whether it runs, and whether it returns the same rows.

use serde::{Deserialize, Serialize};

use super::{Question, extract_sql, normalise_sql};
use crate::sql::{Database, is_ordered};

/// What one answer is worth. `matches` implies `executes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// The query equals the gold query after normalising case, quotes and spacing (E2).
    pub exact: bool,
    /// The query runs without an error (E3).
    pub executes: bool,
    /// The query returns what the gold query returns.
    pub matches: bool,
}

/// An answer's score with what it was based on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoredAnswer {
    /// The query found in the answer, if any.
    pub sql: Option<String>,
    /// The query equals the gold query after normalising (E2).
    pub exact: bool,
    /// The query runs without an error (E3).
    pub executes: bool,
    /// The query returns what the gold query returns.
    pub matches: bool,
    /// Why the query did not run, or that there is none.
    pub error: Option<String>,
}

impl ScoredAnswer {
    /// The three verdicts alone.
    pub fn score(&self) -> Score {
        Score {
            exact: self.exact,
            executes: self.executes,
            matches: self.matches,
        }
    }
}

/// Scores one answer: takes its SQL out, runs it and the gold query on the same rows and compares the results.
///
/// The order of rows counts only if the gold query has an outer ORDER BY; see [`crate::sql::ResultTable::same`].
pub fn score(database: &Database, gold: &str, answer: &str) -> ScoredAnswer {
    let Some(sql) = extract_sql(answer) else {
        return ScoredAnswer {
            error: Some("the answer holds no SQL".to_owned()),
            ..ScoredAnswer::default()
        };
    };
    let exact = normalise_sql(&sql) == normalise_sql(gold);
    match (database.query(gold), database.query(&sql)) {
        (Ok(expected), Ok(result)) => ScoredAnswer {
            exact,
            executes: true,
            matches: expected.same(&result, is_ordered(gold)),
            sql: Some(sql),
            error: None,
        },
        (gold_result, result) => ScoredAnswer {
            executes: result.is_ok(),
            error: result.err().map(|error| error.to_string()).or_else(|| {
                gold_result
                    .err()
                    .map(|error| format!("the gold query failed: {error}"))
            }),
            sql: Some(sql),
            exact,
            matches: false,
        },
    }
}

/// How many answers of one category were right.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryScore {
    /// The category's name.
    pub category: String,
    /// Questions asked.
    pub total: usize,
    /// Answers that equal the gold query after normalising.
    pub exact: usize,
    /// Answers whose SQL runs.
    pub executes: usize,
    /// Answers whose SQL returns the right rows.
    pub matches: usize,
}

/// How many answers were right, in all and by category.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scores {
    /// Questions asked.
    pub total: usize,
    /// Answers that equal the gold query after normalising.
    pub exact: usize,
    /// Answers whose SQL runs.
    pub executes: usize,
    /// Answers whose SQL returns the right rows.
    pub matches: usize,
    /// The same counts by category, in the order of the categories' names.
    pub by_category: Vec<CategoryScore>,
}

/// Counts scored answers, in all and by category.
pub fn tally(answers: &[(Question, ScoredAnswer)]) -> Scores {
    let mut scores = Scores::default();
    for (question, answer) in answers {
        let index = scores
            .by_category
            .binary_search_by(|entry| entry.category.as_str().cmp(&question.category))
            .unwrap_or_else(|index| {
                let new = CategoryScore {
                    category: question.category.clone(),
                    ..CategoryScore::default()
                };
                scores.by_category.insert(index, new);
                index
            });
        let category = &mut scores.by_category[index];
        for (total, exact, executes, matches) in [
            (
                &mut scores.total,
                &mut scores.exact,
                &mut scores.executes,
                &mut scores.matches,
            ),
            (
                &mut category.total,
                &mut category.exact,
                &mut category.executes,
                &mut category.matches,
            ),
        ] {
            *total += 1;
            *exact += usize::from(answer.exact);
            *executes += usize::from(answer.executes);
            *matches += usize::from(answer.matches);
        }
    }
    scores
}
