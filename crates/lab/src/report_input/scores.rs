//! Scores and answers of a run, as a report holds them.

use std::collections::HashMap;

use tunesmith_report::{AnswerRecord, CategoryScore, EvaluationResult};

use crate::{
    evaluate::{self, Side, read_answers},
    pipeline::LabError,
    run::Run,
    text_to_sql::{EXTRACTION_RULE, Schema, TextToSql},
};

pub(super) fn schemas() -> HashMap<String, String> {
    // Without the data set the report only lacks the tables beside the questions.
    let set = TextToSql::load().map(|set| set.schemas).unwrap_or_default();
    set.iter()
        .map(|schema: &Schema| (schema.id.clone(), schema.ddl()))
        .collect()
}

pub(super) fn evaluation_result(
    run: &Run,
    side: &Side,
    schemas: &HashMap<String, String>,
) -> Result<EvaluationResult, LabError> {
    let name = side.answers.file_stem().unwrap_or_default().to_string_lossy();
    let answers = read_answers(&run.folder, &name)?;
    Ok(EvaluationResult {
        questions: side.scores.total as u64,
        exact: side.scores.exact as u64,
        executes: side.scores.executes as u64,
        matches: side.scores.matches as u64,
        by_category: side
            .scores
            .by_category
            .iter()
            .map(|score| CategoryScore {
                category: score.category.clone(),
                total: score.total as u64,
                exact: score.exact as u64,
                executes: score.executes as u64,
                matches: score.matches as u64,
            })
            .collect(),
        answers: answers
            .into_iter()
            .map(|record| answer(record, schemas))
            .collect(),
        extraction_rule: EXTRACTION_RULE.to_owned(),
        secs: side.wall_secs,
    })
}

fn answer(record: evaluate::AnswerRecord, schemas: &HashMap<String, String>) -> AnswerRecord {
    let evaluate::AnswerRecord {
        question,
        answer,
        scored,
        ..
    } = record;
    AnswerRecord {
        schema_text: schemas.get(&question.schema).cloned().unwrap_or_default(),
        id: question.id,
        category: question.category,
        question: question.question,
        gold: question.sql,
        answer,
        sql: scored.sql,
        exact: scored.exact,
        executes: scored.executes,
        matches: scored.matches,
    }
}
