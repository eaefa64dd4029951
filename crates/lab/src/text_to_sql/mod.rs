//! The text-to-SQL data set that ships with the program: questions about small made-up databases, each with
//! the one query that answers it, so that a fine-tuned model can be scored by what its SQL returns.
//!
//! The files in `assets/text-to-sql/` are built into the program. [`generate`] makes them from
//! `domains.toml`; the split into training and test is fixed (seed 42, by schema), and the hashes of both
//! parts are pinned below. [`extract`] and [`scoring`] hold the rules that turn an answer into a score.

pub mod extract;
pub mod generate;
pub mod scoring;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tunesmith_models::Message;

pub use extract::{EXTRACTION_RULE, extract_sql, normalise_sql};
pub use scoring::{CategoryScore, Score, ScoredAnswer, Scores, score, tally};

use crate::sql::Value;

/// SHA-256 of `train.jsonl`. A change here is a new data set: no score from before may be compared with one
/// from after it.
pub const TRAIN_SHA256: &str = "76499748bd8ab71839a2622e5b645554a7d1f3492ed03217093af1a758e1206b";
/// SHA-256 of `test.jsonl`; see [`TRAIN_SHA256`].
pub const TEST_SHA256: &str = "621ea15ae6a9fa314653592f795e19e7e279db8fcfdebeb65bd6164d0e2caec8";

/// The first message of every prompt, in training and in evaluation alike.
pub const SYSTEM_PROMPT: &str = "Write one SQLite query that answers the question. Reply with SQL only.";

pub(crate) const SCHEMAS: &str = include_str!("../../../../assets/text-to-sql/schemas.json");
pub(crate) const TRAIN: &str = include_str!("../../../../assets/text-to-sql/train.jsonl");
pub(crate) const TEST: &str = include_str!("../../../../assets/text-to-sql/test.jsonl");

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// Whole numbers.
    Int,
    /// Real numbers.
    Real,
    /// Text, and dates as text in ISO form.
    Text,
}

impl ColumnType {
    fn sql(self) -> &'static str {
        match self {
            Self::Int => "INT",
            Self::Real => "REAL",
            Self::Text => "TEXT",
        }
    }
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name in SQL: plain words joined by underscores.
    pub name: String,
    /// What it holds.
    pub kind: ColumnType,
}

/// A table with its rows. A column named `<other>_id` refers to the column `id` of the table `<other>`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name in SQL, in the singular.
    pub name: String,
    /// Its columns in order.
    pub columns: Vec<Column>,
    /// Its rows, each with one value per column.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// The statement that makes this table, on one line, without keys or a semicolon.
    pub fn ddl(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("{} {}", column.name, column.kind.sql()))
            .collect();
        format!("CREATE TABLE {} ({})", self.name, columns.join(", "))
    }
}

/// A small database: what a question is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// Its id, which questions refer to.
    pub id: String,
    /// The part of life that it is from, in words.
    pub domain: String,
    /// Its one to three tables, parents before children.
    pub tables: Vec<Table>,
}

impl Schema {
    /// The schema as the model sees it: one CREATE TABLE a line. The rows are not shown.
    pub fn ddl(&self) -> String {
        self.tables.iter().map(Table::ddl).collect::<Vec<_>>().join("\n")
    }
}

/// A question with the query that answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Its id, unique in the data set.
    pub id: String,
    /// The id of the [`Schema`] that it is about.
    pub schema: String,
    /// The kind of query that it needs, one of [`generate::CATEGORIES`].
    pub category: String,
    /// The question in English. Every value that the query needs stands in it word for word.
    pub question: String,
    /// The gold query: one line, keywords in capitals, no semicolon.
    pub sql: String,
}

/// Why the data set could not be read.
#[derive(Debug, Error)]
pub enum TextToSqlError {
    /// A built-in file does not parse.
    #[error("{file} of the text-to-SQL data set could not be read at line {line}: {source}")]
    Parse {
        /// File name within `assets/text-to-sql`.
        file: &'static str,
        /// Line, counted from one.
        line: usize,
        /// The parser's own error.
        source: serde_json::Error,
    },
    /// A question refers to a schema that does not exist.
    #[error("question {question} refers to schema {schema}, which the data set does not have")]
    UnknownSchema {
        /// The question's id.
        question: String,
        /// The schema that it names.
        schema: String,
    },
}

impl TextToSqlError {
    /// A stable word for this kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Parse { .. } => "text_to_sql_parse",
            Self::UnknownSchema { .. } => "text_to_sql_unknown_schema",
        }
    }

    /// What the user can do about it.
    pub fn hints(&self) -> Vec<String> {
        vec![
            "the data set is part of the program: reinstall it, or, in a checkout, restore assets/text-to-sql"
                .to_owned(),
        ]
    }
}

/// The whole data set.
#[derive(Debug, Clone)]
pub struct TextToSql {
    /// Every schema, in the order of `domains.toml`.
    pub schemas: Vec<Schema>,
    /// Training questions, shuffled: any prefix is a fair sample.
    pub train: Vec<Question>,
    /// Test questions, shuffled likewise; none of their schemas occurs in training.
    pub test: Vec<Question>,
    train_hash: String,
    test_hash: String,
}

impl TextToSql {
    /// Reads the data set that is built into the program.
    ///
    /// # Errors
    /// [`TextToSqlError`] if a file does not parse or a question names a schema that is not there.
    pub fn load() -> Result<Self, TextToSqlError> {
        let schemas: Vec<Schema> = serde_json::from_str(SCHEMAS).map_err(|source| TextToSqlError::Parse {
            file: "schemas.json",
            line: source.line(),
            source,
        })?;
        let set = Self {
            schemas,
            train: read_questions("train.jsonl", TRAIN)?,
            test: read_questions("test.jsonl", TEST)?,
            train_hash: sha256_hex(TRAIN),
            test_hash: sha256_hex(TEST),
        };
        for question in set.train.iter().chain(&set.test) {
            set.schema(question)?;
        }
        Ok(set)
    }

    /// SHA-256 of the training questions' file, in hexadecimal; for the manifest of a run (E1).
    pub fn train_hash(&self) -> &str {
        &self.train_hash
    }

    /// SHA-256 of the test questions' file, in hexadecimal; for the manifest of a run (E1).
    pub fn test_hash(&self) -> &str {
        &self.test_hash
    }

    /// The schema that a question is about.
    ///
    /// # Errors
    /// [`TextToSqlError::UnknownSchema`] if the question is not from this data set.
    pub fn schema(&self, question: &Question) -> Result<&Schema, TextToSqlError> {
        self.schemas
            .iter()
            .find(|schema| schema.id == question.schema)
            .ok_or_else(|| TextToSqlError::UnknownSchema {
                question: question.id.clone(),
                schema: question.schema.clone(),
            })
    }

    /// The prompt for a question: a system message, then the schema and the question; no answer.
    ///
    /// A question from another data set gets a prompt without a schema.
    pub fn messages(&self, question: &Question) -> Vec<Message> {
        let schema = self.schema(question).map(Schema::ddl).unwrap_or_default();
        let message = |role: &str, content: String| Message {
            role: role.to_owned(),
            content,
        };
        vec![
            message("system", SYSTEM_PROMPT.to_owned()),
            message("user", format!("{schema}\n\n{}", question.question)),
        ]
    }
}

fn read_questions(file: &'static str, text: &str) -> Result<Vec<Question>, TextToSqlError> {
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|source| TextToSqlError::Parse {
                file,
                line: index + 1,
                source,
            })
        })
        .collect()
}

/// SHA-256 of a text, in hexadecimal.
pub(crate) fn sha256_hex(text: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text.as_bytes())
        .iter()
        .fold(String::new(), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}
