//! A look at a file before anything is trained on it: what it holds, what its columns are taken for and why, its first
//! rows as text, and, with a model at hand, how long they are and what of them is trained.

use std::path::Path;

use serde::Serialize;

use crate::{
    ColumnInfo, Columns, Content, DataError, DataSet, Document, Encoder, Example, Format, LongRows, Policy,
    Reading, Role, Rows, RowsReport, Sample,
};

/// Bytes of running text that are tokenised: enough for a thousand rows of a short context.
const TEXT_BYTES: usize = 1 << 20;

/// What to look at.
#[derive(Clone, Copy, Debug)]
pub struct PreviewWish<'a> {
    /// The file.
    pub path: &'a Path,
    /// Columns that the user chose; the rest is guessed.
    pub columns: &'a Columns,
    /// Rows that are read and counted at most.
    pub most_rows: usize,
    /// Rows that are shown at most, each as text and as a sample.
    pub shown: usize,
    /// Characters of a message that are shown at most.
    pub most_chars: usize,
    /// Longest row of the training, in tokens.
    pub max_length: usize,
}

impl<'a> PreviewWish<'a> {
    /// The first ten of a thousand rows, a thousand characters each, of at most 1024 tokens.
    pub fn new(path: &'a Path, columns: &'a Columns) -> Self {
        Self {
            path,
            columns,
            most_rows: 1000,
            shown: 10,
            most_chars: 1000,
            max_length: 1024,
        }
    }
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preview {
    /// Its form.
    pub format: Format,
    /// Whether it is running text, which is trained in full.
    pub is_text: bool,
    /// Rows that were read.
    pub rows: usize,
    /// Whether these are all; otherwise everything below is said of them alone.
    pub whole: bool,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Every column of the file, in its order.
    pub columns: Vec<ColumnInfo>,
    /// What columns are taken for, and why. More than one column for one role where rows differ.
    pub uses: Vec<PreviewColumn>,
    /// The first rows.
    pub shown: Vec<PreviewRow>,
    /// What the model makes of the rows; `None` without a model, or where it makes nothing of them.
    pub tokens: Option<TokenPreview>,
    /// Why the model makes nothing of them.
    pub trouble: Option<PreviewTrouble>,
}

/// What a column is taken for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviewColumn {
    /// As what.
    pub role: Role,
    /// Which column.
    pub column: String,
    /// Rows that it is taken so in.
    pub rows: usize,
    /// Why, for people.
    pub why: &'static str,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviewRow {
    /// Its id.
    pub id: String,
    /// What is said in it; of running text one message without a role.
    pub messages: Vec<PreviewMessage>,
}

/// A message of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviewMessage {
    /// Who speaks; empty for running text.
    pub role: String,
    /// The beginning of what is said.
    pub text: String,
    /// Whether there is more of it.
    pub cut: bool,
}

/// What a model makes of rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenPreview {
    /// Length of every row that was read, in tokens, those that are too long among them.
    pub lengths: Vec<usize>,
    /// Longest row of the training, in tokens: the wish's, or the model's context where that is less.
    pub limit: usize,
    /// Rows that are longer.
    pub too_long: usize,
    /// What was counted, as for a training that leaves too long rows out.
    pub report: RowsReport,
    /// What deserves a look, one sentence each.
    pub warnings: Vec<String>,
    /// The first rows in pieces that are trained or not.
    pub samples: Vec<Sample>,
}

/// Why rows cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviewTrouble {
    /// Stable name of the fault.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hints: Vec<String>,
}

impl From<DataError> for PreviewTrouble {
    fn from(error: DataError) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
            hints: error.hints(),
        }
    }
}

/// Looks at a file, with a model's tokenizer and template where there is one. Takes time in proportion to
/// [`PreviewWish::most_rows`], see [`DataSet::read_first`].
///
/// # Errors
/// [`DataError`] where the file cannot be read as a data set. What the model cannot make of it is no error but
/// [`Preview::trouble`].
pub fn preview(wish: &PreviewWish<'_>, encoder: Option<&Encoder>) -> Result<Preview, DataError> {
    let (set, whole) = DataSet::read_first(wish.path, wish.columns, wish.most_rows)?;
    let (content, text_whole) = beginning(set.content, TEXT_BYTES);
    let tokens = encoder.map(|encoder| tokens(wish, &content, encoder)).transpose();
    let (tokens, trouble) = match tokens {
        Ok(tokens) => (tokens, None),
        Err(error) => (None, Some(error.into())),
    };
    Ok(Preview {
        format: set.reading.format,
        is_text: matches!(content, Content::Text(_)),
        rows: content.len(),
        whole: whole && text_whole,
        file_bytes: wish.path.metadata().map_or(0, |found| found.len()),
        columns: set.columns,
        uses: uses(&set.reading, wish.columns),
        shown: shown(wish, &content),
        tokens,
        trouble,
    })
}

/// No more than the first bytes of running text, and whether that is all of it.
fn beginning(content: Content, most_bytes: usize) -> (Content, bool) {
    let Content::Text(documents) = content else {
        return (content, true);
    };
    let count = documents.len();
    let (mut left, mut kept, mut cut) = (most_bytes, Vec::new(), false);
    for document in documents {
        if cut || left == 0 {
            break;
        }
        let end = document.text.floor_char_boundary(left);
        cut = end < document.text.len();
        left -= end;
        kept.push(Document {
            text: document.text[..end].to_owned(),
            ..document
        });
    }
    let whole = !cut && kept.len() == count;
    (Content::Text(kept), whole)
}

fn uses(reading: &Reading, chosen: &Columns) -> Vec<PreviewColumn> {
    let mut found: Vec<PreviewColumn> = Vec::new();
    for used in &reading.uses {
        for (role, column) in &used.columns {
            match found
                .iter_mut()
                .find(|known| known.role == *role && known.column == *column)
            {
                Some(known) => known.rows += used.rows,
                None => found.push(PreviewColumn {
                    role: *role,
                    column: column.clone(),
                    rows: used.rows,
                    why: role.why(column, chosen),
                }),
            }
        }
    }
    found
}

fn shown(wish: &PreviewWish<'_>, content: &Content) -> Vec<PreviewRow> {
    let message = |role: &str, text: &str| {
        let cut = text.char_indices().nth(wish.most_chars);
        PreviewMessage {
            role: role.to_owned(),
            text: cut.map_or(text, |(end, _)| &text[..end]).to_owned(),
            cut: cut.is_some(),
        }
    };
    match content {
        Content::Conversations(examples) => examples
            .iter()
            .take(wish.shown)
            .map(|example| PreviewRow {
                id: example.id.clone(),
                messages: example
                    .messages
                    .iter()
                    .map(|said| message(&said.role, &said.content))
                    .collect(),
            })
            .collect(),
        Content::Text(documents) => documents
            .iter()
            .take(wish.shown)
            .map(|document| PreviewRow {
                id: document.id.clone(),
                messages: vec![message("", &document.text)],
            })
            .collect(),
    }
}

fn tokens(wish: &PreviewWish<'_>, content: &Content, encoder: &Encoder) -> Result<TokenPreview, DataError> {
    let wished = Policy {
        max_length: Some(wish.max_length),
        long_rows: LongRows::Drop,
    };
    // A model that reads less decides, as in a training.
    let policy = match encoder.limit(wished) {
        Ok(_) => wished,
        Err(_) => Policy {
            max_length: None,
            ..wished
        },
    };
    let limit = encoder.limit(policy)?;
    let (rows, report) = encoder.rows_of(content, policy, &mut |_, _| {})?;
    let (lengths, samples) = match content {
        Content::Conversations(examples) => of_examples(wish, examples, encoder)?,
        Content::Text(_) => of_rows(wish, &rows, encoder)?,
    };
    Ok(TokenPreview {
        too_long: lengths.iter().filter(|length| **length > limit).count(),
        lengths,
        limit,
        warnings: report.warnings(),
        report,
        samples,
    })
}

/// Too long ones are told and shown as well, which the rows of a training lack.
fn of_examples(
    wish: &PreviewWish<'_>,
    examples: &[Example],
    encoder: &Encoder,
) -> Result<(Vec<usize>, Vec<Sample>), DataError> {
    let (mut lengths, mut samples) = (Vec::with_capacity(examples.len()), Vec::new());
    for example in examples {
        let row = encoder.row(example)?;
        lengths.push(row.input_ids.len());
        if samples.len() < wish.shown {
            samples.push(encoder.sample(&example.id, &row)?);
        }
    }
    Ok((lengths, samples))
}

fn of_rows(
    wish: &PreviewWish<'_>,
    rows: &Rows,
    encoder: &Encoder,
) -> Result<(Vec<usize>, Vec<Sample>), DataError> {
    let lengths = rows.rows.iter().map(|row| row.input_ids.len()).collect();
    let samples = (1..)
        .zip(&rows.rows)
        .take(wish.shown)
        .map(|(number, row)| encoder.sample(&format!("row-{number}"), row))
        .collect::<Result<_, _>>()?;
    Ok((lengths, samples))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;

    use super::*;
    use crate::encoder::tests::encoder;

    struct File {
        _folder: tempfile::TempDir,
        path: std::path::PathBuf,
    }

    fn file(name: &str, content: &str) -> File {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        File {
            _folder: folder,
            path,
        }
    }

    fn pairs(count: usize) -> String {
        (1..=count).fold(String::new(), |mut text, number| {
            let _ = writeln!(
                text,
                r#"{{"question": "q{number}", "sql": "a{number}", "extra": {number}}}"#
            );
            text
        })
    }

    fn look(file: &File, encoder: Option<&Encoder>, change: impl FnOnce(&mut PreviewWish<'_>)) -> Preview {
        let columns = Columns::new();
        let mut wish = PreviewWish::new(&file.path, &columns);
        change(&mut wish);
        preview(&wish, encoder).unwrap()
    }

    #[test]
    fn columns_are_told_with_what_they_are_taken_for_and_why() {
        let file = file("d.jsonl", &pairs(3));
        let chosen = Columns::from([(Role::Completion, "sql".to_owned())]);
        let found = preview(&PreviewWish::new(&file.path, &chosen), None).unwrap();
        assert_eq!(
            (found.format, found.rows, found.whole),
            (Format::JsonLines, 3, true)
        );
        let uses: Vec<_> = found
            .uses
            .iter()
            .map(|used| (used.role, used.column.as_str(), used.rows, used.why))
            .collect();
        assert_eq!(
            uses,
            [
                (Role::Prompt, "question", 3, "its name is a usual one for this"),
                (Role::Completion, "sql", 3, "you chose it"),
            ]
        );
        let names: Vec<_> = found.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["question", "sql", "extra"]);
        assert_eq!((found.tokens, found.trouble), (None, None));
        assert_eq!(found.shown[0].messages[1].text, "a1");
        assert!(found.file_bytes > 0);
    }

    #[test]
    fn columns_that_are_told_by_content_say_so() {
        assert_eq!(
            Role::Messages.why("turns", &Columns::new()),
            "it holds conversations"
        );
        assert_eq!(
            Role::Prompt.why("text", &Columns::new()),
            "it is the text beside an answer"
        );
    }

    #[test]
    fn a_large_file_is_read_no_further_than_asked() {
        let broken_after = pairs(50) + "this is no JSON\n";
        let file = file("d.jsonl", &broken_after);
        let found = look(&file, Some(&encoder()), |wish| {
            wish.most_rows = 50;
            wish.shown = 2;
        });
        assert_eq!((found.rows, found.whole, found.shown.len()), (50, false, 2));
        let tokens = found.tokens.unwrap();
        assert_eq!(
            (tokens.lengths.len(), tokens.samples.len(), tokens.report.rows),
            (50, 2, 50)
        );
        // The first row that was asked for and is wrong is told.
        let columns = Columns::new();
        for most_rows in [51, 1000] {
            let wish = PreviewWish {
                most_rows,
                ..PreviewWish::new(&file.path, &columns)
            };
            let error = preview(&wish, None).unwrap_err();
            assert!(error.to_string().contains("line 51"), "{error}");
        }
        let late = file_with_a_row_that_is_wrong(50);
        let wish = PreviewWish {
            most_rows: 50,
            ..PreviewWish::new(&late.path, &columns)
        };
        assert!(preview(&wish, None).is_err());
    }

    /// Its row of this number has an empty answer.
    fn file_with_a_row_that_is_wrong(number: usize) -> File {
        let text = pairs(number - 1) + r#"{"question": "q", "sql": ""}"#;
        file("d.jsonl", &text)
    }

    #[test]
    fn every_form_stops_at_its_rows() {
        let rows: Vec<String> = pairs(9).lines().map(str::to_owned).collect();
        let json = format!("[{}]", rows.join(","));
        let csv = (1..=9).fold("question,sql\n".to_owned(), |text, number| {
            format!("{text}q{number},a{number}\n")
        });
        for (name, content) in [("d.json", json), ("d.csv", csv), ("d.jsonl", pairs(9))] {
            let file = file(name, &content);
            let cut = look(&file, None, |wish| wish.most_rows = 4);
            assert_eq!((cut.rows, cut.whole), (4, false), "{name}");
            let all = look(&file, None, |wish| wish.most_rows = 9);
            assert_eq!((all.rows, all.whole), (9, true), "{name}");
        }
    }

    #[test]
    fn what_is_trained_is_told_apart() {
        let file = file("d.jsonl", &pairs(3));
        let found = look(&file, Some(&encoder()), |_| {});
        let tokens = found.tokens.unwrap();
        assert_eq!(
            tokens.samples[0].to_string(),
            "<s>user\nq1</s>\n<s>assistant\n⟦a1</s>⟧"
        );
        assert!(tokens.report.supervised_share > 0.0 && tokens.report.supervised_share < 0.5);
        assert_eq!(
            (tokens.limit, tokens.too_long),
            (1000, 0),
            "the model reads less than was wished"
        );
    }

    #[test]
    fn long_rows_are_counted_and_long_texts_cut() {
        let long = format!(
            "{}{}",
            pairs(3),
            r#"{"question": "q", "sql": "LONG"}"#.replace("LONG", &"x".repeat(200))
        );
        let file = file("d.jsonl", &long);
        let found = look(&file, Some(&encoder()), |wish| {
            wish.max_length = 100;
            wish.most_chars = 50;
        });
        let answer = &found.shown[3].messages[1];
        assert!(answer.cut && answer.text.len() == 50);
        assert!(!found.shown[0].messages[1].cut);
        let tokens = found.tokens.unwrap();
        assert_eq!(
            (tokens.too_long, tokens.lengths.len(), tokens.report.rows),
            (1, 4, 3)
        );
        assert!(
            tokens.warnings.iter().any(|warning| warning.contains("too long")),
            "{:?}",
            tokens.warnings
        );
    }

    #[test]
    fn rows_that_cannot_be_made_are_a_trouble_and_the_text_is_still_shown() {
        let file = file("d.jsonl", &pairs(3));
        let found = look(&file, Some(&encoder()), |wish| wish.max_length = 3);
        let trouble = found.trouble.unwrap();
        assert!(found.tokens.is_none() && !trouble.hints.is_empty(), "{trouble:?}");
        assert_eq!(found.shown.len(), 3);
    }

    #[test]
    fn running_text_is_cut_at_its_limit() {
        let document = |text: &str| Document {
            id: text[..1].to_owned(),
            text: text.to_owned(),
            markdown: false,
        };
        let cut = |bytes: usize| beginning(Content::Text(vec![document("aéa"), document("bbb")]), bytes);
        let texts = |content: &Content| -> Vec<String> {
            match content {
                Content::Text(documents) => documents.iter().map(|document| document.text.clone()).collect(),
                Content::Conversations(_) => Vec::new(),
            }
        };
        // The second letter takes two bytes and is not split.
        assert_eq!((texts(&cut(2).0), cut(2).1), (vec!["a".to_owned()], false));
        assert_eq!(
            (texts(&cut(6).0), cut(6).1),
            (vec!["aéa".to_owned(), "bb".to_owned()], false)
        );
        assert_eq!(
            (texts(&cut(100).0), cut(100).1),
            (vec!["aéa".to_owned(), "bbb".to_owned()], true)
        );
        let file = file("d.txt", &"a word after another\n\n".repeat(200));
        let found = look(&file, Some(&encoder()), |wish| wish.max_length = 64);
        assert!(found.is_text && found.whole && found.uses.is_empty());
        assert_eq!(found.shown[0].messages[0].role, "");
        let tokens = found.tokens.unwrap();
        assert!(tokens.lengths.len() > 50 && tokens.lengths.iter().all(|length| *length <= 64));
        assert!(tokens.samples[0].parts.iter().any(|part| part.supervised));
    }
}
