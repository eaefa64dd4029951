//! What can be wrong with a data set, each with a stable code, a sentence and what to do about it.

use std::io;
use std::path::PathBuf;

use tunesmith_models::ModelError;

/// Something is wrong with a data set or a rows file.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written; nothing half-written is left under its name.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The data set has no rows.
    #[error("{} holds no rows: it is empty or has only blank lines", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The data set has a single row.
    #[error("{} holds one row; a training needs at least two", path.display())]
    OneRow {
        /// The file.
        path: PathBuf,
    },
    /// Fewer than two rows can be used.
    #[error(
        "{left} of {total} rows can be used (longest allowed: {limit} tokens); a training needs at least two"
    )]
    TooFewRows {
        /// Rows that can be used.
        left: usize,
        /// All rows.
        total: usize,
        /// Longest length allowed, in tokens.
        limit: usize,
    },
    /// A line or row of the data set cannot be used.
    #[error("{place} of {file}: {problem}")]
    Line {
        /// Name of the file.
        file: String,
        /// e.g. `line 3`, from 1, blank lines and a header counted; or `row 3` where a file has no lines.
        place: String,
        /// What is wrong with it.
        problem: Box<LineProblem>,
    },
    /// Neither name nor content tell what form the file has.
    #[error("{} has no form that is known", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file contradicts its form.
    #[error("{} cannot be read as {format}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// e.g. `Parquet`.
        format: &'static str,
        /// What was found.
        reason: String,
    },
    /// A column was chosen in running text.
    #[error("{} is {format}, which has no columns, but {column} was chosen for the {role}", path.display())]
    NoColumns {
        /// The file.
        path: PathBuf,
        /// e.g. `plain text`.
        format: &'static str,
        /// e.g. `completion`.
        role: &'static str,
        /// The column.
        column: String,
    },
    /// A column was chosen that no row has.
    #[error("{}: no row has the column {column} that was chosen for the {role}; the columns are {}", path.display(), columns(seen))]
    NoSuchColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// e.g. `system`.
        role: &'static str,
        /// Columns of the file.
        seen: Vec<String>,
        /// The one that was probably meant.
        suggestion: Option<String>,
    },
    /// Running text where conversations are needed.
    #[error("{} holds running text and no conversations", path.display())]
    NotConversations {
        /// The file.
        path: PathBuf,
    },
    /// The model's folder or file has a fault.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The chat template does not accept a conversation.
    #[error("row {id}: the chat template cannot render the conversation: {source}")]
    Template {
        /// Id of the example.
        id: String,
        /// What the template said.
        source: ModelError,
    },
    /// The answer's place cannot be told, because it changes the text before it.
    #[error(
        "row {id}: the chat template changes earlier text once message {message} follows, so the place of that answer \
         cannot be told: expected text that goes on from {expected:?}, found {found:?}"
    )]
    TemplatePrefix {
        /// Id of the example.
        id: String,
        /// Number of the answer among the messages, from 1.
        message: usize,
        /// The end of the text that should have stayed.
        expected: String,
        /// What stands in its place.
        found: String,
    },
    /// The template writes no end token after an answer.
    #[error(
        "row {id}: the chat template writes none of the model's end tokens ({tokens}) after an answer, so training \
         could not teach the model to stop"
    )]
    NoEndToken {
        /// Id of the example.
        id: String,
        /// The end tokens, as text.
        tokens: String,
    },
    /// A message contains an end token as text.
    #[error("row {id}: message {message} contains {token:?}, which the model reads as the end of a message")]
    EndTokenInText {
        /// Id of the example.
        id: String,
        /// Number of the message, from 1.
        message: usize,
        /// The token's text.
        token: String,
    },
    /// The tokenizer failed.
    #[error("row {id}: the tokenizer failed: {reason}")]
    Tokenize {
        /// Id of the example.
        id: String,
        /// What it said.
        reason: String,
    },
    /// The tokenizer knows a token that the model has no embedding for.
    #[error("{place}: token {token} is outside the model's vocabulary of {vocabulary}")]
    OutsideVocabulary {
        /// Row or file.
        place: String,
        /// The token's id.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// Rows are longer than allowed.
    #[error(
        "{count} of {total} rows are longer than {limit} tokens; the longest is row {longest_id} with {longest} tokens"
    )]
    LongRows {
        /// Rows that are too long.
        count: usize,
        /// All rows.
        total: usize,
        /// Longest length allowed, in tokens.
        limit: usize,
        /// Length of the longest row, in tokens.
        longest: usize,
        /// Its id.
        longest_id: String,
        /// The model's own limit, in tokens.
        context: usize,
    },
    /// A length limit that the model cannot keep.
    #[error("max_length {max_length} is not between 2 and the model's context of {context} tokens")]
    MaxLength {
        /// What was asked for.
        max_length: usize,
        /// The model's own limit.
        context: usize,
    },
    /// A rows file is damaged or was made by something else.
    #[error("{} is no usable rows file: {problem}", path.display())]
    RowsFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: RowsProblem,
    },
    /// `rows.json` is damaged or was made by something else.
    #[error("{} is no usable description of rows: {reason}", path.display())]
    RowsManifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// What is wrong with a line of a data set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// Not UTF-8.
    #[error("byte {byte} is not valid UTF-8")]
    NotUtf8 {
        /// From 1, within the line or the cell.
        byte: usize,
    },
    /// Longer than any row can be.
    #[error("the line is longer than {limit} bytes")]
    TooLong {
        /// Longest line that is read.
        limit: usize,
    },
    /// Not JSON.
    #[error("not valid JSON at column {column}: {reason}")]
    NotJson {
        /// From 1.
        column: usize,
        /// What the parser said.
        reason: String,
        /// The line looks like a piece of a JSON array or of an object that spans lines.
        part_of_larger: bool,
    },
    /// JSON, but no object.
    #[error("expected a JSON object, found {found}")]
    NotObject {
        /// e.g. `a list`.
        found: &'static str,
    },
    /// No column tells the form of the row.
    #[error(
        "no answer here: expected the columns prompt and completion, or instruction and output, or messages, or text; \
         found {}",
        columns(seen)
    )]
    UnknownColumns {
        /// Columns of the row.
        seen: Vec<String>,
        /// Found name and the name that was probably meant.
        suggestion: Option<(String, &'static str)>,
    },
    /// A column is missing.
    #[error("the column {column} is missing; found {}", columns(seen))]
    MissingColumn {
        /// Its name.
        column: &'static str,
        /// Columns of the row.
        seen: Vec<String>,
        /// Found name and the name that was probably meant.
        suggestion: Option<(String, &'static str)>,
    },
    /// A column was chosen that the row does not have.
    #[error(
        "there is no column {column} for the {role}; the columns are {}",
        columns(seen)
    )]
    NoSuchColumn {
        /// As chosen.
        column: String,
        /// e.g. `completion`.
        role: &'static str,
        /// Columns of the row.
        seen: Vec<String>,
        /// The one that was probably meant.
        suggestion: Option<String>,
    },
    /// A row of a table has more or fewer cells than its header.
    #[error("the row has {found} cells, the header has {expected}")]
    Ragged {
        /// Cells of the row.
        found: usize,
        /// Cells of the header.
        expected: usize,
    },
    /// A header names two columns alike.
    #[error("two columns are called {column}")]
    DuplicateColumn {
        /// The name.
        column: String,
    },
    /// Running text among conversations, or the other way round.
    #[error(
        "this row is running text where others are conversations, or the other way round; found {}",
        columns(seen)
    )]
    Mixed {
        /// Columns of the row.
        seen: Vec<String>,
    },
    /// A column holds no text.
    #[error("{column} must be text, found {found}")]
    NotText {
        /// Its name, e.g. `messages[2].content`.
        column: String,
        /// e.g. `a number`.
        found: &'static str,
    },
    /// A column that must hold text is empty.
    #[error("{column} is empty")]
    EmptyText {
        /// Its name.
        column: String,
        /// Whether it is an answer.
        answer: bool,
    },
    /// `messages` is no list.
    #[error("{column} must be a list of {{\"role\", \"content\"}} objects, found {found}")]
    MessagesNotList {
        /// The column.
        column: String,
        /// e.g. `text`.
        found: &'static str,
    },
    /// A message is no object with role and content.
    #[error("{column}[{index}] must be an object with role and content, found {found}")]
    MessageShape {
        /// The column.
        column: String,
        /// From 0, as in JSON.
        index: usize,
        /// e.g. `text`, or the keys.
        found: String,
    },
    /// A role that chat templates do not know.
    #[error("{column}[{index}] speaks as {role:?}; expected system, user, assistant or tool")]
    UnknownRole {
        /// The column.
        column: String,
        /// From 0, as in JSON.
        index: usize,
        /// What was found.
        role: String,
        /// What was probably meant.
        suggestion: Option<&'static str>,
    },
    /// Calls of tools cannot be rendered.
    #[error("{column}[{index}] calls a tool, which is not supported")]
    ToolCalls {
        /// The column.
        column: String,
        /// From 0, as in JSON.
        index: usize,
    },
    /// Nothing to learn: the conversation does not end with an answer.
    #[error("the last message is the {role}'s; expected the assistant's")]
    LastNotAssistant {
        /// Its role.
        role: String,
    },
    /// An answer to nothing.
    #[error("the first answer has no user message before it")]
    NoQuestion,
}

/// What is wrong with a rows file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowsProblem {
    /// The safetensors header or the file's length is wrong.
    #[error("{0}")]
    Container(String),
    /// A tensor is missing.
    #[error("the tensor {0} is missing")]
    MissingTensor(&'static str),
    /// A tensor of another type or shape.
    #[error("the tensor {name} is {found}, expected {expected}")]
    TensorForm {
        /// Its name.
        name: &'static str,
        /// Type and shape found.
        found: String,
        /// Type and shape expected.
        expected: &'static str,
    },
    /// Lengths differ.
    #[error("input_ids has {input_ids} tokens and supervised {supervised}")]
    Lengths {
        /// Tokens.
        input_ids: usize,
        /// Marks.
        supervised: usize,
    },
    /// Offsets do not cut the tokens into rows.
    #[error("offset {index} is {value}: {reason}")]
    Offset {
        /// Its place.
        index: usize,
        /// Its value.
        value: i64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No rows.
    #[error("it holds no rows")]
    NoRows,
    /// A token id below zero.
    #[error("row {row} has the token id {value}")]
    NegativeId {
        /// From 0.
        row: usize,
        /// The id.
        value: i32,
    },
    /// A mark that is neither 0 nor 1.
    #[error("row {row} has the mark {value}; expected 0 or 1")]
    Mark {
        /// From 0.
        row: usize,
        /// The mark.
        value: u8,
    },
    /// The first token of a row has nothing to be predicted from.
    #[error("row {row} supervises its first token, which nothing can predict")]
    FirstSupervised {
        /// From 0.
        row: usize,
    },
    /// Nothing to learn.
    #[error("no token is supervised, so there is nothing to learn")]
    NothingSupervised,
}

fn columns(seen: &[String]) -> String {
    if seen.is_empty() {
        "no columns".to_owned()
    } else {
        seen.join(", ")
    }
}

impl DataError {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "data_read",
            Self::Write { .. } => "data_write",
            Self::Empty { .. } => "data_empty",
            Self::OneRow { .. } => "one_row",
            Self::TooFewRows { .. } => "too_few_rows",
            Self::Line { problem, .. } => problem.code(),
            Self::UnknownFormat { .. } => "data_format",
            Self::Damaged { .. } => "data_damaged",
            Self::NoColumns { .. } | Self::NoSuchColumn { .. } => "no_such_column",
            Self::NotConversations { .. } => "not_conversations",
            Self::Model(error) => error.code(),
            Self::Template { .. } => "template_refuses",
            Self::TemplatePrefix { .. } => "template_prefix",
            Self::NoEndToken { .. } => "no_end_token",
            Self::EndTokenInText { .. } => "end_token_in_text",
            Self::Tokenize { .. } => "tokenize",
            Self::OutsideVocabulary { .. } => "outside_vocabulary",
            Self::LongRows { .. } => "long_rows",
            Self::MaxLength { .. } => "max_length",
            Self::RowsFile { .. } => "rows_file",
            Self::RowsManifest { .. } => "rows_manifest",
        }
    }

    /// What to do, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Model(error) => return error.hints(),
            Self::Template { source, .. } => {
                let mut hints = vec![
                    "compare the roles and their order with what the model's chat template allows".to_owned(),
                ];
                hints.extend(source.hints());
                return hints;
            }
            Self::Line { problem, .. } => return problem.hints(),
            Self::UnknownFormat { .. } => {
                "name the file .jsonl, .json, .csv, .parquet, .txt or .md, after what it holds".to_owned()
            }
            Self::Damaged { reason, .. } if reason.contains("Disabled feature at compile time") => {
                "write the file again with snappy or zstd compression, or with none".to_owned()
            }
            Self::Damaged { .. } => {
                "check that the file is whole, and that the end of its name tells what it holds".to_owned()
            }
            Self::NoColumns { .. } => {
                "take data.columns out of the recipe: running text is trained in full".to_owned()
            }
            Self::NoSuchColumn { suggestion: Some(meant), .. } => format!("did you mean {meant}?"),
            Self::NoSuchColumn { .. } => "choose one of these columns in data.columns".to_owned(),
            Self::NotConversations { .. } => {
                "choose a data set with prompt and completion, or with messages".to_owned()
            }
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "check the path; a relative path starts at the folder that the command runs in".to_owned()
            }
            Self::Read { .. } => "check that the file can be opened and read by this user".to_owned(),
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space on that disk, then run the command again; nothing was lost".to_owned()
            }
            Self::Write { .. } => "check that the folder exists and can be written by this user".to_owned(),
            Self::Empty { .. } => {
                "fill it, e.g. with one JSON object a line: {\"prompt\": \"…\", \"completion\": \"…\"}".to_owned()
            }
            Self::TooFewRows { left, total, .. } if left < total => {
                "raise max_length, or shorten or split the long rows".to_owned()
            }
            Self::OneRow { .. } | Self::TooFewRows { .. } => "add rows; some hundreds are a usual beginning".to_owned(),
            Self::TemplatePrefix { .. } => {
                "some templates show the system message only until the answer comes: put its text into the user's message; \
                 else use a model whose template keeps earlier text as it is"
                    .to_owned()
            }
            Self::NoEndToken { .. } => {
                "use the instruct variant of the model, or one whose chat template ends each answer".to_owned()
            }
            Self::EndTokenInText { token, .. } => format!("take {token} out of the text of this row"),
            Self::Tokenize { .. } => "check that the model's tokenizer is complete".to_owned(),
            Self::OutsideVocabulary { .. } => {
                "the tokenizer belongs to another model; make the rows again with the model that is trained".to_owned()
            }
            Self::LongRows { limit, context, longest, .. } if limit < context && longest <= context => format!(
                "raise max_length (the model's context allows {context}), or set long_rows = \"drop\" to leave these \
                 rows out; rows are never cut"
            ),
            Self::LongRows { context, .. } => format!(
                "shorten or split these rows (the model's context is {context} tokens), or set long_rows = \"drop\" \
                 to leave them out; rows are never cut"
            ),
            Self::MaxLength { context, .. } => format!("choose a max_length from 2 to {context}"),
            Self::RowsFile { .. } | Self::RowsManifest { .. } => {
                "make the rows again from the data set; they are rebuilt by every training".to_owned()
            }
        };
        vec![hint]
    }
}

impl LineProblem {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotUtf8 { .. } => "not_utf8",
            Self::TooLong { .. } => "line_too_long",
            Self::NotJson { .. } => "not_json",
            Self::NotObject { .. } => "not_object",
            Self::UnknownColumns { .. } => "unknown_columns",
            Self::MissingColumn { .. } => "missing_column",
            Self::NoSuchColumn { .. } => "no_such_column",
            Self::Ragged { .. } => "ragged_row",
            Self::DuplicateColumn { .. } => "duplicate_column",
            Self::Mixed { .. } => "mixed_rows",
            Self::NotText { .. } => "not_text",
            Self::EmptyText { answer: true, .. } => "empty_answer",
            Self::EmptyText { answer: false, .. } => "empty_prompt",
            Self::MessagesNotList { .. } | Self::MessageShape { .. } => "message_shape",
            Self::UnknownRole { .. } => "unknown_role",
            Self::ToolCalls { .. } => "tool_calls",
            Self::LastNotAssistant { .. } => "last_not_assistant",
            Self::NoQuestion => "no_question",
        }
    }

    /// What to do, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::UnknownColumns { suggestion: Some((found, meant)), .. }
            | Self::MissingColumn { suggestion: Some((found, meant)), .. } => {
                format!("did you mean {meant}? Rename the column {found}, or name it in data.columns")
            }
            Self::UnknownRole { suggestion: Some(meant), .. } => format!("did you mean {meant}?"),
            Self::NotUtf8 { .. } => "save the file as UTF-8".to_owned(),
            Self::NoSuchColumn { suggestion: Some(meant), .. } => format!("did you mean {meant}?"),
            Self::NoSuchColumn { .. } => "choose one of these columns in data.columns".to_owned(),
            Self::Ragged { .. } => {
                "put cells that hold a delimiter, a quote or a line break between double quotes".to_owned()
            }
            Self::DuplicateColumn { .. } => "give each column a name of its own".to_owned(),
            Self::Mixed { .. } => "put running text and conversations into files of their own".to_owned(),
            Self::NotJson { part_of_larger: true, .. } | Self::NotObject { found: "a list" } => {
                "the file must be JSON lines: each line one whole object, no list around them and no line breaks \
                 within; `jq -c '.[]' file.json > file.jsonl` converts a list"
                    .to_owned()
            }
            Self::NotJson { .. } | Self::NotObject { .. } | Self::TooLong { .. } => {
                "write one JSON object a line, e.g. {\"prompt\": \"…\", \"completion\": \"…\"}".to_owned()
            }
            Self::UnknownColumns { .. } | Self::MissingColumn { .. } => {
                "use prompt and completion, or instruction, input and output, or messages, or name the columns in the recipe: \
                 data.columns = { prompt = \"…\", completion = \"…\" }"
                    .to_owned()
            }
            Self::NotText { .. } => {
                "put the text itself there, in quotes, or choose another column in data.columns".to_owned()
            }
            Self::EmptyText { .. } => "fill it or take the row out".to_owned(),
            Self::MessagesNotList { .. } | Self::MessageShape { .. } | Self::UnknownRole { .. } => {
                "e.g. {\"messages\": [{\"role\": \"user\", \"content\": \"…\"}, {\"role\": \"assistant\", \"content\": \
                 \"…\"}]}"
                    .to_owned()
            }
            Self::ToolCalls { .. } => "take the row out, or write the call as the message's content".to_owned(),
            Self::LastNotAssistant { .. } => {
                "end the conversation with the answer that the model is to learn".to_owned()
            }
            Self::NoQuestion => "begin with a user message, after a system message if there is one".to_owned(),
        };
        vec![hint]
    }
}
