//! Asks a model the fixed test questions and scores what its SQL returns, before and after training alike.
//! Every answer is kept (E5); the first n questions of the fixed split are asked, so that n is all that two
//! evaluations have to share to be comparable.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tunesmith_data::{DataError, Encoder};
use tunesmith_measure::stats::{McNemar, binomial_half_width, mcnemar};
use tunesmith_protocol::{Answer, AnswerStats, Finish, Prompt, encode};

use crate::{
    files::{FileError, make_folder, read_text, write_json, write_whole},
    recipe::EvaluateSection,
    sql::{Database, SqlError},
    text_to_sql::{Question, ScoredAnswer, Scores, TextToSql, TextToSqlError, score, tally},
};

/// Why an evaluation could not be prepared or scored.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The question set could not be read.
    #[error(transparent)]
    Questions(#[from] TextToSqlError),
    /// A schema could not be built.
    #[error(transparent)]
    Database(#[from] SqlError),
    /// A prompt could not be tokenised.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl EvaluateError {
    /// Stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Questions(error) => error.code(),
            Self::Database(error) => error.code(),
            Self::Data(error) => error.code(),
            Self::File(error) => error.code(),
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Questions(error) => error.hints(),
            Self::Database(error) => error.hints(),
            Self::Data(error) => error.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// An answer with its question and its score: a line of `answers/base.jsonl` and `answers/tuned.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// The question with its gold query.
    #[serde(flatten)]
    pub question: Question,
    /// What the model wrote.
    pub answer: String,
    /// Tokens that it wrote.
    pub tokens: u64,
    /// Why it ended.
    pub finish: Finish,
    /// What the answer is worth.
    pub scored: ScoredAnswer,
}

/// The model before or after training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// How many answers were right, in all and by category.
    pub scores: Scores,
    /// Execution match in points, 0 to 100.
    pub points: f64,
    /// Half-width of its 95 % interval, in points (E4).
    pub half_width_points: Option<f64>,
    /// What answering cost, as the engine counts it.
    pub stats: Option<AnswerStats>,
    /// Seconds that it took, loading included.
    pub wall_secs: f64,
    /// File of the answers, relative to the run's folder.
    pub answers: PathBuf,
}

/// From before to after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Difference of the scores, in points.
    pub points: f64,
    /// McNemar's test on the questions that changed (C6).
    pub paired: Option<McNemar>,
}

/// The evaluation of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Why there is none, where there is none.
    pub skipped: Option<String>,
    /// How it was decoded: questions, batch size, longest answer; always greedy (E9).
    pub decoding: Option<EvaluateSection>,
    /// The model before training.
    pub before: Option<Side>,
    /// The model after training.
    pub after: Option<Side>,
    /// The difference.
    pub change: Option<Change>,
}

impl Evaluation {
    /// An evaluation that does not take place, with the reason.
    pub fn skipped(reason: &str) -> Self {
        Self {
            skipped: Some(reason.to_owned()),
            ..Self::default()
        }
    }
}

/// The questions of an evaluation.
#[derive(Debug)]
pub struct Questions {
    set: TextToSql,
    count: usize,
}

impl Questions {
    /// The first `count` test questions in the order of the fixed split.
    pub fn first(set: TextToSql, count: usize) -> Self {
        let count = count.min(set.test.len());
        Self { set, count }
    }

    /// The questions.
    pub fn asked(&self) -> &[Question] {
        &self.set.test[..self.count]
    }

    /// The data set that they are from.
    pub fn set(&self) -> &TextToSql {
        &self.set
    }

    /// Tokenises the prompts into `answers/prompts.jsonl` of a run's folder; returns the file.
    ///
    /// # Errors
    /// [`EvaluateError`] when a prompt cannot be tokenised or the file not be written.
    pub fn write_prompts(&self, encoder: &Encoder, run: &Path) -> Result<PathBuf, EvaluateError> {
        let mut text = String::new();
        for question in self.asked() {
            let input_ids = encoder.prompt(&self.set.messages(question))?;
            text.push_str(&encode(&Prompt {
                id: question.id.clone(),
                input_ids,
            }));
        }
        let folder = run.join("answers");
        make_folder(&folder)?;
        let path = folder.join("prompts.jsonl");
        write_whole(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Scores the answers to all questions, in their order. A question without an answer counts as wrong, which
    /// happens only where an engine breaks its word.
    ///
    /// # Errors
    /// [`EvaluateError`] when a schema cannot be built.
    pub fn score(&self, answers: &[Answer]) -> Result<Vec<AnswerRecord>, EvaluateError> {
        let given: HashMap<&str, &Answer> = answers
            .iter()
            .map(|answer| (answer.id.as_str(), answer))
            .collect();
        let mut databases: HashMap<&str, Database> = HashMap::new();
        let mut records = Vec::with_capacity(self.count);
        for question in self.asked() {
            if !databases.contains_key(question.schema.as_str()) {
                let database = Database::from_schema(self.set.schema(question)?)?;
                databases.insert(&question.schema, database);
            }
            let answer = given.get(question.id.as_str());
            let text = answer.map_or("", |answer| answer.text.as_str());
            records.push(AnswerRecord {
                question: question.clone(),
                answer: text.to_owned(),
                tokens: answer.map_or(0, |answer| answer.tokens),
                finish: answer.map_or(Finish::Length, |answer| answer.finish),
                scored: score(&databases[question.schema.as_str()], &question.sql, text),
            });
        }
        Ok(records)
    }
}

/// Keeps the answers under `answers/<name>.jsonl` of a run's folder and counts them; what was counted lies beside
/// them as `answers/<name>.json`.
///
/// # Errors
/// [`EvaluateError`] when the file cannot be written.
pub fn keep(
    run: &Path,
    name: &str,
    records: &[AnswerRecord],
    stats: Option<AnswerStats>,
    wall_secs: f64,
) -> Result<Side, EvaluateError> {
    let folder = run.join("answers");
    make_folder(&folder)?;
    let lines: String = records.iter().map(encode).collect();
    let relative = Path::new("answers").join(format!("{name}.jsonl"));
    write_whole(&run.join(&relative), lines.as_bytes())?;
    let scored: Vec<(Question, ScoredAnswer)> = records
        .iter()
        .map(|record| (record.question.clone(), record.scored.clone()))
        .collect();
    let scores = tally(&scored);
    let (matches, total) = (scores.matches as u64, scores.total as u64);
    let side = Side {
        points: 100.0 * scores.matches as f64 / scores.total.max(1) as f64,
        half_width_points: binomial_half_width(matches, total).ok().map(|half| 100.0 * half),
        scores,
        stats,
        wall_secs,
        answers: relative,
    };
    write_json(&folder.join(format!("{name}.json")), &side)?;
    Ok(side)
}

/// What [`keep`] kept, where it is the whole of the answers to these questions.
pub fn kept(run: &Path, name: &str, questions: &Questions) -> Option<(Side, Vec<AnswerRecord>)> {
    // What cannot be read is asked again.
    let side = read_side(run, name)?;
    let records = read_answers(run, name).ok()?;
    let whole = records
        .iter()
        .map(|record| &record.question)
        .eq(questions.asked())
        && side.scores.total == records.len();
    whole.then_some((side, records))
}

/// What [`keep`] counted, where it can be read.
pub fn read_side(run: &Path, name: &str) -> Option<Side> {
    let path = run.join("answers").join(format!("{name}.json"));
    serde_json::from_str(&read_text(&path).ok()?).ok()
}

/// Reads the answers that [`keep`] wrote.
///
/// # Errors
/// [`FileError`] when the file cannot be read. A damaged line is passed over.
pub fn read_answers(run: &Path, name: &str) -> Result<Vec<AnswerRecord>, FileError> {
    let path = run.join("answers").join(format!("{name}.jsonl"));
    if !fs::exists(&path).unwrap_or(false) {
        return Ok(Vec::new());
    }
    Ok(read_text(&path)?
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

/// What changed between two evaluations of the same questions.
pub fn change(before: &Side, after: &Side, base: &[AnswerRecord], tuned: &[AnswerRecord]) -> Change {
    let was_right: HashMap<&str, bool> = base
        .iter()
        .map(|record| (record.question.id.as_str(), record.scored.matches))
        .collect();
    let (mut gained, mut lost) = (0, 0);
    for record in tuned {
        match (was_right.get(record.question.id.as_str()), record.scored.matches) {
            (Some(false), true) => gained += 1,
            (Some(true), false) => lost += 1,
            _ => {}
        }
    }
    Change {
        points: after.points - before.points,
        paired: mcnemar(gained, lost).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: &str, text: &str) -> Answer {
        Answer {
            id: id.to_owned(),
            text: text.to_owned(),
            tokens: 9,
            finish: Finish::Stop,
        }
    }

    #[test]
    fn gold_answers_score_full_points_and_a_missing_one_counts_as_wrong() {
        let questions = Questions::first(TextToSql::load().unwrap(), 4);
        let mut answers: Vec<Answer> = questions
            .asked()
            .iter()
            .map(|question| answer(&question.id, &question.sql))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let gold = questions.score(&answers).unwrap();
        let before = keep(folder.path(), "base", &gold, None, 1.0).unwrap();
        assert!((before.points - 100.0).abs() < 1e-9);
        assert_eq!(
            kept(folder.path(), "base", &questions),
            Some((before.clone(), gold.clone()))
        );
        let more = Questions::first(TextToSql::load().unwrap(), 5);
        assert_eq!(kept(folder.path(), "base", &more), None);
        assert_eq!(kept(folder.path(), "tuned", &questions), None);
        answers.pop();
        let three = questions.score(&answers).unwrap();
        let after = keep(folder.path(), "tuned", &three, None, 1.0).unwrap();
        assert!((after.points - 75.0).abs() < 1e-9);
        assert_eq!(read_answers(folder.path(), "tuned").unwrap(), three);
        let change = change(&before, &after, &gold, &three);
        assert!((change.points + 25.0).abs() < 1e-9);
        assert_eq!(
            change.paired.map(|paired| (paired.gained, paired.lost)),
            Some((0, 1))
        );
    }

    #[test]
    fn more_questions_than_there_are_means_all() {
        let set = TextToSql::load().unwrap();
        let all = set.test.len();
        assert_eq!(Questions::first(set, 100_000).asked().len(), all);
    }
}
