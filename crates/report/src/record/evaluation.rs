//! Scores of a model on a set of questions, with every answer.

use serde::{Deserialize, Serialize};

/// Scores of one model on a set of questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationResult {
    /// Questions asked.
    pub questions: u64,
    /// Answers equal to the gold query after normalising (E2).
    pub exact: u64,
    /// Answers that execute (E3).
    pub executes: u64,
    /// Answers whose rows equal those of the gold query.
    pub matches: u64,
    /// The same by category.
    #[serde(default)]
    pub by_category: Vec<CategoryScore>,
    /// Every answer (E5).
    #[serde(default)]
    pub answers: Vec<AnswerRecord>,
    /// How the query is taken out of an answer, the same before and after.
    #[serde(default)]
    pub extraction_rule: String,
    /// Seconds that it took.
    #[serde(default)]
    pub secs: f64,
}

/// Scores within a category.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryScore {
    /// Its name.
    pub category: String,
    /// Questions in it.
    pub total: u64,
    /// As in [`EvaluationResult::exact`].
    pub exact: u64,
    /// As in [`EvaluationResult::executes`].
    pub executes: u64,
    /// As in [`EvaluationResult::matches`].
    pub matches: u64,
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// Id of the question, the same before and after.
    pub id: String,
    /// Its category.
    #[serde(default)]
    pub category: String,
    /// The question.
    pub question: String,
    /// The tables as shown to the model.
    #[serde(default)]
    pub schema_text: String,
    /// The gold query.
    pub gold: String,
    /// The model's whole answer.
    pub answer: String,
    /// The query taken out of it, where there is one.
    #[serde(default)]
    pub sql: Option<String>,
    /// Equal to the gold query after normalising.
    pub exact: bool,
    /// Executes.
    pub executes: bool,
    /// Same rows as the gold query.
    pub matches: bool,
}
