//! A data set from a file, whatever its form: rows of columns, or running text.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::columns::{Columns, Meaning, assign, meaning, names, row_id};
use crate::conversation::kind;
use crate::names::nearest;
use crate::{DataError, Document, Example, LineProblem, csv, json, jsonl, parquet};

/// Bytes of a file by which its form is told where its name tells nothing.
const TELLING_BYTES: u64 = 1 << 20;

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One JSON object a line.
    JsonLines,
    /// One list of JSON objects.
    Json,
    /// Cells between commas, semicolons, tabs or bars, with a header.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// Running text.
    Text,
    /// Running text with headings.
    Markdown,
}

impl Format {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonLines => "JSON lines",
            Self::Json => "JSON",
            Self::Csv => "CSV",
            Self::Parquet => "Parquet",
            Self::Text => "plain text",
            Self::Markdown => "Markdown",
        }
    }

    /// The form of a file, by the end of its name, else by its first bytes.
    fn of(path: &Path) -> Result<Self, DataError> {
        let ending = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let by_name = match ending.as_str() {
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "csv" | "tsv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            "txt" | "text" => Some(Self::Text),
            "md" | "markdown" => Some(Self::Markdown),
            // JSON lines often go by this name too.
            _ => None,
        };
        if let Some(format) = by_name {
            return Ok(format);
        }
        let read_error = |source| read_error(path, source);
        let mut start = Vec::new();
        File::open(path)
            .and_then(|file| file.take(TELLING_BYTES).read_to_end(&mut start))
            .map_err(read_error)?;
        let start = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&start);
        let mut lines = start.trim_ascii_start().split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default().trim_ascii();
        match first {
            _ if start.starts_with(b"PAR1") => Ok(Self::Parquet),
            [b'[', ..] => Ok(Self::Json),
            // An object that is whole on its first line, against one that is spread over many.
            [b'{', .., b'}'] => Ok(Self::JsonLines),
            [b'{', ..] if ending == "json" => Ok(Self::Json),
            [b'{', ..] => Ok(Self::JsonLines),
            [] => Err(DataError::Empty {
                path: path.to_owned(),
            }),
            _ => Err(DataError::UnknownFormat {
                path: path.to_owned(),
            }),
        }
    }
}

/// What a data set holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Conversations, whose answers are trained.
    Conversations(Vec<Example>),
    /// Running text, trained in full.
    Text(Vec<Document>),
}

impl Content {
    /// How many examples or documents.
    pub fn len(&self) -> usize {
        match self {
            Self::Conversations(examples) => examples.len(),
            Self::Text(documents) => documents.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How a file was read: kept in a run's record, since columns may have been guessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The file's form.
    pub format: Format,
    /// What its columns were used as; several where rows have different ones. None for running text.
    pub uses: Vec<ColumnUse>,
}

/// Columns that were used together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnUse {
    /// Column names by what they were used as.
    pub columns: Columns,
    /// Rows that have them.
    pub rows: usize,
}

/// A column of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// What it holds, e.g. `text`; several where rows differ.
    pub kinds: Vec<String>,
    /// Rows in which it is there and neither null nor empty.
    pub filled: usize,
}

/// A data set in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSet {
    /// How it was read.
    pub reading: Reading,
    /// Every column of the file, in its order.
    pub columns: Vec<ColumnInfo>,
    /// What it holds.
    pub content: Content,
}

/// Reads a data set in JSON lines, in file order.
///
/// # Errors
/// As [`DataSet::read`], and [`DataError::NotConversations`] for running text.
pub fn read_jsonl(path: &Path) -> Result<Vec<Example>, DataError> {
    match DataSet::read_as(path, Format::JsonLines, &Columns::new())?.content {
        Content::Conversations(examples) => Ok(examples),
        Content::Text(_) => Err(DataError::NotConversations {
            path: path.to_owned(),
        }),
    }
}

impl DataSet {
    /// Reads a file, in its order: JSON lines, JSON, CSV, Parquet, plain text or Markdown.
    ///
    /// A row is a conversation (`messages`, in roles or ShareGPT's), a prompt with its completion and perhaps a system
    /// message, or running text. Which column is what is told by `chosen`, else guessed by [`Role`](crate::Role)'s usual
    /// names and by content; columns without a use are left alone.
    ///
    /// # Errors
    /// [`DataError`] for a file that cannot be read or holds no rows, and [`DataError::Line`] for the first row that
    /// cannot be used.
    pub fn read(path: &Path, chosen: &Columns) -> Result<Self, DataError> {
        Self::read_as(path, Format::of(path)?, chosen)
    }

    /// As [`DataSet::read`], and stops after so many rows: also tells whether these are all. What comes after them is
    /// not checked. JSON lines and Parquet are read no further; running text, CSV and a JSON list are read whole, and
    /// the latter is parsed whole.
    ///
    /// # Errors
    /// As [`DataSet::read`], of what was read.
    pub fn read_first(path: &Path, chosen: &Columns, most_rows: usize) -> Result<(Self, bool), DataError> {
        Self::read_up_to(path, Format::of(path)?, chosen, most_rows)
    }

    fn read_as(path: &Path, format: Format, chosen: &Columns) -> Result<Self, DataError> {
        Ok(Self::read_up_to(path, format, chosen, usize::MAX)?.0)
    }

    fn read_up_to(
        path: &Path,
        format: Format,
        chosen: &Columns,
        most_rows: usize,
    ) -> Result<(Self, bool), DataError> {
        let read_error = |source| read_error(path, source);
        if matches!(format, Format::Text | Format::Markdown) {
            let bytes = std::fs::read(path).map_err(read_error)?;
            return Ok((running_text(path, &bytes, format, chosen)?, true));
        }
        let file = File::open(path).map_err(read_error)?;
        let mut collected = Collected::new(chosen);
        let mut taken = 0;
        let each = &mut |row: Row| {
            if taken == most_rows {
                return Err(Fault::Enough);
            }
            collected.take(row)?;
            taken += 1;
            Ok(())
        };
        let done = match format {
            Format::JsonLines => jsonl::read(BufReader::new(file), each),
            Format::Parquet => parquet::read(file, each),
            whole => std::fs::read(path)
                .map_err(Fault::Io)
                .and_then(|bytes| match whole {
                    Format::Csv => csv::read(&bytes, each),
                    _ => json::read(&bytes, each),
                }),
        };
        let whole = match done {
            Ok(()) => true,
            // What comes after the rows that are wanted is nobody's business, right or wrong.
            Err(_) if taken == most_rows => false,
            Err(fault) => return Err(fault.into_error(path, format)),
        };
        Ok((collected.finish(path, format)?, whole))
    }
}

fn running_text(path: &Path, bytes: &[u8], format: Format, chosen: &Columns) -> Result<DataSet, DataError> {
    if let Some((role, column)) = chosen.first_key_value() {
        return Err(DataError::NoColumns {
            path: path.to_owned(),
            format: format.name(),
            role: role.name(),
            column: column.clone(),
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count();
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let problem = LineProblem::NotUtf8 {
            byte: error.valid_up_to() - line_start + 1,
        };
        Fault::Row(Place::Line(line), problem).into_error(path, format)
    })?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(DataError::Empty {
            path: path.to_owned(),
        });
    }
    let document = Document {
        id: file_name(path),
        text: text.to_owned(),
        markdown: format == Format::Markdown,
    };
    Ok(DataSet {
        reading: Reading {
            format,
            uses: Vec::new(),
        },
        columns: Vec::new(),
        content: Content::Text(vec![document]),
    })
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Line of the file, from 1.
    Line(usize),
    /// Number of the row, from 1.
    Row(usize),
}

impl Place {
    fn id(self) -> String {
        match self {
            Self::Line(number) => format!("line-{number}"),
            Self::Row(number) => format!("row-{number}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(number) => write!(f, "row {number}"),
        }
    }
}

/// A row before anything is known of its columns.
pub(crate) struct Row {
    pub(crate) place: Place,
    pub(crate) columns: Map<String, Value>,
}

/// Why a file cannot be read on; its path is added by whoever knows it.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    File(String),
    Row(Place, LineProblem),
    /// Nothing is wrong: no more rows are wanted.
    Enough,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Fault {
    fn into_error(self, path: &Path, format: Format) -> DataError {
        match self {
            Self::Io(source) => read_error(path, source),
            // Whoever wants no more rows stops by it and says so: it never gets here.
            Self::Enough => DataError::Empty {
                path: path.to_owned(),
            },
            Self::File(reason) => DataError::Damaged {
                path: path.to_owned(),
                format: format.name(),
                reason,
            },
            Self::Row(place, problem) => DataError::Line {
                file: file_name(path),
                place: place.to_string(),
                problem: Box::new(problem),
            },
        }
    }
}

/// Rows on their way to a data set.
struct Collected<'a> {
    chosen: &'a Columns,
    /// Chosen columns that some row had.
    met: BTreeSet<&'a str>,
    uses: Vec<ColumnUse>,
    columns: Vec<ColumnInfo>,
    examples: Vec<Example>,
    documents: Vec<Document>,
}

impl<'a> Collected<'a> {
    fn new(chosen: &'a Columns) -> Self {
        Self {
            chosen,
            met: BTreeSet::new(),
            uses: Vec::new(),
            columns: Vec::new(),
            examples: Vec::new(),
            documents: Vec::new(),
        }
    }

    fn take(&mut self, row: Row) -> Result<(), Fault> {
        let Row { place, columns: row } = row;
        let at = |problem| Fault::Row(place, problem);
        self.look_at(&row);
        let columns = assign(&row, self.chosen).map_err(at)?;
        let id = row_id(&row, &columns).map_err(at)?.unwrap_or_else(|| place.id());
        match meaning(&row, &columns).map_err(at)? {
            Meaning::Conversation(messages) => self.examples.push(Example { id, messages }),
            Meaning::Text(text) => self.documents.push(Document {
                id,
                text,
                markdown: false,
            }),
        }
        if !self.examples.is_empty() && !self.documents.is_empty() {
            return Err(at(LineProblem::Mixed { seen: names(&row) }));
        }
        match self.uses.iter_mut().find(|used| used.columns == columns) {
            Some(used) => used.rows += 1,
            None => self.uses.push(ColumnUse { columns, rows: 1 }),
        }
        Ok(())
    }

    fn look_at(&mut self, row: &Map<String, Value>) {
        self.met.extend(
            self.chosen
                .values()
                .map(String::as_str)
                .filter(|name| row.contains_key(*name)),
        );
        for (name, value) in row {
            let known = self.columns.iter().position(|column| column.name == *name);
            let at = known.unwrap_or(self.columns.len());
            if known.is_none() {
                self.columns.push(ColumnInfo {
                    name: name.clone(),
                    kinds: Vec::new(),
                    filled: 0,
                });
            }
            let info = &mut self.columns[at];
            let kind = kind(value);
            if !info.kinds.iter().any(|known| known == kind) {
                info.kinds.push(kind.to_owned());
            }
            info.filled += usize::from(!value.is_null() && value.as_str() != Some(""));
        }
    }

    fn finish(self, path: &Path, format: Format) -> Result<DataSet, DataError> {
        let path = || path.to_owned();
        let content = if self.documents.is_empty() {
            Content::Conversations(self.examples)
        } else {
            Content::Text(self.documents)
        };
        match &content {
            _ if content.is_empty() => return Err(DataError::Empty { path: path() }),
            // One text may well be several rows.
            Content::Conversations(examples) if examples.len() == 1 => {
                return Err(DataError::OneRow { path: path() });
            }
            _ => {}
        }
        if let Some((role, column)) = self
            .chosen
            .iter()
            .find(|(_, name)| !self.met.contains(name.as_str()))
        {
            let seen = || self.columns.iter().map(|column| column.name.as_str());
            return Err(DataError::NoSuchColumn {
                path: path(),
                column: column.clone(),
                role: role.name(),
                suggestion: nearest(&column.to_lowercase(), seen()).map(str::to_owned),
                seen: seen().map(str::to_owned).collect(),
            });
        }
        Ok(DataSet {
            reading: Reading {
                format,
                uses: self.uses,
            },
            columns: self.columns,
            content,
        })
    }
}

fn read_error(path: &Path, source: io::Error) -> DataError {
    DataError::Read {
        path: path.to_owned(),
        source,
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}
