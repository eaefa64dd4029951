//! The test questions: which one is asked, what it is about, and what an answer to it is worth.

use tunesmith_data::epoch_order;
use tunesmith_lab::{
    sql::Database,
    text_to_sql::{Question, ScoredAnswer, TextToSql, score},
};
use tunesmith_protocol::{PromptText, TaskWork};

use crate::{
    problem,
    state::{Problem, State, Task},
};

/// What a task asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    /// A user's own words.
    Words(&'a str),
    /// A test question.
    Question {
        /// Its number, from 1.
        number: usize,
        /// It, once the questions are read.
        question: Option<&'a Question>,
    },
}

impl<'a> Asked<'a> {
    /// What an answering task asked.
    pub(super) fn of(state: &'a State, task: &'a Task) -> Option<Self> {
        let TaskWork::Answer { prompt, .. } = &task.work else {
            return None;
        };
        Some(match prompt {
            PromptText::Text(text) => Self::Words(text),
            PromptText::Question(number) => Self::Question {
                number: *number,
                question: state
                    .pages
                    .try_it
                    .questions
                    .ready()
                    .and_then(|set| by_number(set, *number)),
            },
        })
    }
}

/// A test question by its number, from 1.
pub(super) fn by_number(set: &TextToSql, number: usize) -> Option<&Question> {
    set.test.get(number.checked_sub(1)?)
}

/// The number of the question that a seed picks among so many: the same one on every machine.
pub(super) fn picked_by(seed: u64, questions: usize) -> usize {
    epoch_order(questions, seed, 0)
        .first()
        .map_or(1, |index| index + 1)
}

/// The tables that a question is about, one a line.
pub(super) fn tables_of(set: &TextToSql, question: &Question) -> String {
    set.schema(question)
        .map(tunesmith_lab::text_to_sql::Schema::ddl)
        .unwrap_or_default()
}

/// What an answer to a test question is worth: its query is run, and its rows are held against those of the gold query.
pub(super) fn score_of(set: &TextToSql, number: usize, answer: &str) -> Result<ScoredAnswer, Problem> {
    let question = by_number(set, number).ok_or_else(|| {
        Problem::new(
            "no_question",
            format!("there is no test question {number}"),
            Vec::new(),
        )
    })?;
    let schema = set.schema(question).map_err(|error| problem!(error))?;
    let database = Database::from_schema(schema).map_err(|error| problem!(error))?;
    Ok(score(&database, &question.sql, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_picks_the_same_question_every_time() {
        assert_eq!(picked_by(7, 300), picked_by(7, 300));
        let picked: std::collections::BTreeSet<usize> = (0..50).map(|seed| picked_by(seed, 300)).collect();
        assert!(picked.len() > 30 && picked.iter().all(|number| (1..=300).contains(number)));
        assert_eq!(picked_by(7, 0), 1);
    }

    #[test]
    fn the_gold_answer_is_worth_full_marks_and_prose_none() {
        let set = TextToSql::load().unwrap();
        let gold = by_number(&set, 3).unwrap().sql.clone();
        assert!(score_of(&set, 3, &gold).unwrap().matches);
        let prose = score_of(&set, 3, "I do not know").unwrap();
        assert!(!prose.executes && prose.error.is_some());
        assert_eq!(score_of(&set, 0, "").unwrap_err().code, "no_question");
    }
}
