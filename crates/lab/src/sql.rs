//! Runs SQL that a language model wrote, which nobody has checked, without letting it do anything but read.
//!
//! Each database lives in memory and holds the few rows of one schema. An authorizer admits reading and a list
//! of harmless functions and nothing else; a count of steps and a deadline end what runs too long; SQLite's own
//! limits and a cap on the result end what grows too large. The comparison of two results lives here too, since
//! what counts as "the same result" belongs to the meaning of SQL and not to one data set.

use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, params_from_iter};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::text_to_sql::Schema;

/// A query that has not finished after this many instructions of SQLite's machine is stopped. Gold queries need
/// a few thousand. A count, unlike a time, gives the same verdict on a slow or busy machine.
pub const MAX_INSTRUCTIONS: u64 = 10_000_000;
/// A query that has not finished after this time is stopped too, since some instructions take long.
pub const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The longest query that is tried, in bytes.
pub const MAX_SQL_BYTES: usize = 10_000;
/// The largest result that is read, in rows.
pub const MAX_RESULT_ROWS: usize = 10_000;
/// The largest result that is read, in bytes of text, numbers and blobs.
pub const MAX_RESULT_BYTES: usize = 1 << 20;
/// The largest single string or blob that a query may make, in bytes.
const MAX_VALUE_BYTES: i32 = 100_000;
/// SQLite asks whether a limit has been reached after every so many instructions.
const INSTRUCTIONS_PER_CHECK: u16 = 1_000;
/// Numbers that differ by less than this share of the larger one are the same number (sums depend on order).
const RELATIVE_TOLERANCE: f64 = 1e-6;

/// Functions that a query may call: SQLite's usual ones, without those that load code, make values of any
/// size (`zeroblob`, `randomblob`, `printf`), read the clock or draw at random.
const FUNCTIONS: &[&str] = &[
    "abs",
    "avg",
    "ceil",
    "ceiling",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "count",
    "date",
    "datetime",
    "dense_rank",
    "first_value",
    "floor",
    "glob",
    "group_concat",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "julianday",
    "lag",
    "last_value",
    "lead",
    "length",
    "like",
    "lower",
    "ltrim",
    "max",
    "median",
    "min",
    "mod",
    "nth_value",
    "ntile",
    "nullif",
    "percent_rank",
    "pow",
    "power",
    "quote",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "sqrt",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "sum",
    "time",
    "total",
    "trim",
    "typeof",
    "unicode",
    "upper",
];

/// One value of a table or of a result. In JSON: null, a number (with a point when it is real) or a string.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// A real number.
    Real(f64),
    /// Text; dates are text in ISO form.
    Text(String),
    /// Bytes, which only a query can make: no table of ours holds any.
    Blob(Vec<u8>),
}

impl Value {
    fn from_sqlite(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }

    /// Rough size in memory, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Text(text) => 8 + text.len(),
            Self::Blob(bytes) => 8 + bytes.len(),
            Self::Null | Self::Integer(_) | Self::Real(_) => 8,
        }
    }

    /// Whether two values count as equal: NULL equals NULL, 2 equals 2.0, numbers may differ by one part in a
    /// million, and text equals text letter by letter (the text '2' is not the number 2).
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (Self::Integer(a), Self::Real(b)) | (Self::Real(b), Self::Integer(a)) => close(*a as f64, *b),
            (Self::Real(a), Self::Real(b)) => close(*a, *b),
            _ => self == other,
        }
    }
}

fn close(a: f64, b: f64) -> bool {
    // Infinities of one sign differ by NaN, so they are compared first.
    a.total_cmp(&b).is_eq() || (a - b).abs() <= RELATIVE_TOLERANCE * a.abs().max(b.abs())
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// What a query returned: the names of its columns, and its rows in the order in which SQLite gave them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultTable {
    /// Column names as SQLite reports them; no comparison looks at them.
    pub columns: Vec<String>,
    /// Rows of `columns.len()` values.
    pub rows: Vec<Vec<Value>>,
}

impl ResultTable {
    /// Whether `self`, the result of the gold query, and `answer` are the same result.
    ///
    /// Both have the same number of columns and the same rows, counting duplicates, with the columns in the
    /// same order; names of columns are ignored. The order of rows matters only if `ordered` is set, which is
    /// so where the gold query has an outer ORDER BY (see [`is_ordered`]).
    pub fn same(&self, answer: &Self, ordered: bool) -> bool {
        if self.columns.len() != answer.columns.len() || self.rows.len() != answer.rows.len() {
            return false;
        }
        let same_row = |a: &Vec<Value>, b: &Vec<Value>| a.iter().zip(b).all(|(a, b)| a.same(b));
        if ordered {
            return self.rows.iter().zip(&answer.rows).all(|(a, b)| same_row(a, b));
        }
        let mut left: Vec<&Vec<Value>> = answer.rows.iter().collect();
        self.rows.iter().all(|row| {
            let found = left.iter().position(|candidate| same_row(row, candidate));
            found.is_some_and(|index| {
                left.swap_remove(index);
                true
            })
        })
    }
}

/// Whether the outermost query of `sql` has an ORDER BY, so that the order of its rows is part of the result.
///
/// ORDER BY inside parentheses (a subquery, a window) or inside quotes does not count.
pub fn is_ordered(sql: &str) -> bool {
    let mut depth = 0_i32;
    let mut quote = None;
    let mut outer = String::new();
    for letter in sql.chars() {
        if let Some(open) = quote {
            if letter == open {
                quote = None;
            }
            continue;
        }
        match letter {
            '\'' | '"' | '`' => quote = Some(letter),
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        // What is left out leaves a space, so that the words around it stay apart.
        let kept = depth == 0 && !matches!(letter, ')' | '\'' | '"' | '`');
        outer.push(if kept { letter.to_ascii_lowercase() } else { ' ' });
    }
    let words: Vec<&str> = outer.split_whitespace().collect();
    words.windows(2).any(|pair| pair == ["order", "by"])
}

/// Why a query gave no result.
#[derive(Debug, Error)]
pub enum SqlError {
    /// The query is longer than [`MAX_SQL_BYTES`].
    #[error("the query has {bytes} bytes, and at most {MAX_SQL_BYTES} are tried")]
    TooLong {
        /// Length of the query.
        bytes: usize,
    },
    /// The text holds no statement, or more than one.
    #[error("the text has to be one SQL statement, and it is {found}")]
    NotOneStatement {
        /// What the text is instead.
        found: &'static str,
    },
    /// The query does something other than read the tables of its schema.
    #[error("the query was refused, since it does more than read the tables: {message}")]
    Refused {
        /// SQLite's own words.
        message: String,
    },
    /// The query ran into [`MAX_INSTRUCTIONS`] or [`TIME_LIMIT`].
    #[error(
        "the query was stopped, since it did not finish within {MAX_INSTRUCTIONS} steps or {} ms",
        TIME_LIMIT.as_millis()
    )]
    TimedOut,
    /// A value or the result is larger than the limits of this module.
    #[error("the query was stopped, since its result grew too large ({what})")]
    TooLarge {
        /// Which limit was reached.
        what: String,
    },
    /// SQLite could not run the query: a syntax error, an unknown column.
    #[error("SQLite could not run the query: {message}")]
    Failed {
        /// SQLite's own words.
        message: String,
    },
    /// The database of a schema could not be built.
    #[error("the database of schema {schema} could not be built: {message}")]
    Build {
        /// The schema's id.
        schema: String,
        /// SQLite's own words.
        message: String,
    },
}

impl SqlError {
    /// A stable word for this kind of error, for records and tests.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "sql_too_long",
            Self::NotOneStatement { .. } => "sql_not_one_statement",
            Self::Refused { .. } => "sql_refused",
            Self::TimedOut => "sql_timed_out",
            Self::TooLarge { .. } => "sql_too_large",
            Self::Failed { .. } => "sql_failed",
            Self::Build { .. } => "sql_build",
        }
    }

    /// What the user can do about it.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::TooLong { .. } | Self::NotOneStatement { .. } | Self::Refused { .. } => {
                "the answer counts as wrong; a model that has learnt the task replies with one SELECT"
            }
            Self::TimedOut | Self::TooLarge { .. } => {
                "the answer counts as wrong; a join without a condition is the usual cause"
            }
            Self::Failed { .. } => "the answer counts as wrong; compare its names with the schema",
            Self::Build { .. } => "reinstall the program: its text-to-SQL data set is damaged",
        };
        vec![hint.to_owned()]
    }

    fn from_sqlite(error: &rusqlite::Error) -> Self {
        if matches!(error, rusqlite::Error::MultipleStatement) {
            return Self::NotOneStatement { found: "several" };
        }
        let message = match error {
            rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
            rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
            other => other.to_string(),
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Self::TimedOut,
            Some(ErrorCode::TooBig | ErrorCode::OutOfMemory) => Self::TooLarge { what: message },
            Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => {
                Self::Refused { message }
            }
            // SQLite reports a refused function as a plain error; its text tells the two apart.
            _ if message.starts_with("not authorized") => Self::Refused { message },
            _ => Self::Failed { message },
        }
    }
}

/// The rows of one schema in memory, open for reading alone.
pub struct Database {
    connection: Connection,
}

impl Database {
    /// Makes the tables of `schema` in memory, fills them and locks them.
    ///
    /// # Errors
    /// [`SqlError::Build`] if SQLite refuses a table or a row.
    pub fn from_schema(schema: &Schema) -> Result<Self, SqlError> {
        Self::build(schema).map_err(|error| SqlError::Build {
            schema: schema.id.clone(),
            message: error.to_string(),
        })
    }

    fn build(schema: &Schema) -> rusqlite::Result<Self> {
        let connection = Connection::open_in_memory()?;
        for table in &schema.tables {
            // The shown text has no keys, so rows are scanned in the order of insertion. The generator relies on
            // it: it inserts the rows in other orders to find queries whose result depends on it.
            connection.execute(&table.ddl(), [])?;
            let marks = vec!["?"; table.columns.len()].join(", ");
            let mut insert = connection.prepare(&format!("INSERT INTO {} VALUES ({marks})", table.name))?;
            for row in &table.rows {
                insert.execute(params_from_iter(row))?;
            }
        }
        // Sorting must not spill into files, and nothing may be written from here on.
        connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA query_only = ON;")?;
        for (limit, value) in [
            (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL_BYTES as i32),
            (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
            (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
            (Limit::SQLITE_LIMIT_COLUMN, 100),
            (Limit::SQLITE_LIMIT_VDBE_OP, 50_000),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ] {
            connection.set_limit(limit, value)?;
        }
        connection.authorizer(Some(authorize))?;
        Ok(Self { connection })
    }

    /// Runs one query and reads its whole result.
    ///
    /// # Errors
    /// [`SqlError`] if the text is not one statement, does more than read, is not valid SQL for this schema, or
    /// exceeds a limit of this module.
    pub fn query(&self, sql: &str) -> Result<ResultTable, SqlError> {
        if sql.len() > MAX_SQL_BYTES {
            return Err(SqlError::TooLong { bytes: sql.len() });
        }
        if sql.trim().is_empty() {
            return Err(SqlError::NotOneStatement { found: "empty" });
        }
        let deadline = Instant::now() + TIME_LIMIT;
        let mut instructions = 0;
        let is_over = move || {
            instructions += u64::from(INSTRUCTIONS_PER_CHECK);
            instructions > MAX_INSTRUCTIONS || Instant::now() > deadline
        };
        self.connection
            .progress_handler(INSTRUCTIONS_PER_CHECK.into(), Some(is_over))
            .map_err(|error| SqlError::from_sqlite(&error))?;
        self.read(sql)
    }

    fn read(&self, sql: &str) -> Result<ResultTable, SqlError> {
        let failed = |error: rusqlite::Error| SqlError::from_sqlite(&error);
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        if !statement.readonly() {
            return Err(SqlError::Refused {
                message: "it writes".to_owned(),
            });
        }
        let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        if columns.is_empty() {
            return Err(SqlError::NotOneStatement { found: "no query" });
        }
        let mut rows = Vec::new();
        let mut bytes = 0;
        let mut cursor = statement.query([]).map_err(failed)?;
        while let Some(row) = cursor.next().map_err(failed)? {
            if rows.len() == MAX_RESULT_ROWS {
                return Err(SqlError::TooLarge {
                    what: format!("more than {MAX_RESULT_ROWS} rows"),
                });
            }
            let values = (0..columns.len())
                .map(|index| row.get_ref(index).map(Value::from_sqlite))
                .collect::<rusqlite::Result<Vec<Value>>>()
                .map_err(failed)?;
            bytes += values.iter().map(Value::size).sum::<usize>();
            if bytes > MAX_RESULT_BYTES {
                return Err(SqlError::TooLarge {
                    what: format!("more than {MAX_RESULT_BYTES} bytes"),
                });
            }
            rows.push(values);
        }
        Ok(ResultTable { columns, rows })
    }
}

/// Admits reading, and calls of the functions in [`FUNCTIONS`]; every other action is refused.
fn authorize(context: AuthContext<'_>) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Read { table_name, .. } => !table_name.to_ascii_lowercase().starts_with("pragma_"),
        AuthAction::Function { function_name } => {
            FUNCTIONS.contains(&function_name.to_ascii_lowercase().as_str())
        }
        _ => false,
    };
    if allowed {
        Authorization::Allow
    } else {
        Authorization::Deny
    }
}
