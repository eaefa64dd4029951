//! Data sets as people have them: JSON lines in one of three common forms.
//!
//! A wrong row must be named by its line before anything is trained, so every row is checked in full here and no
//! column is guessed. Columns that are not part of a form are left alone.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use serde_json::{Map, Value};
use tunesmith_models::Message;

use crate::{DataError, LineProblem};

/// Longest line that is read, in bytes. No context is that long; a file without line breaks must not fill the memory.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// Names in use elsewhere for what this crate calls otherwise.
const COLUMN_ALIASES: [(&str, &str); 14] = [
    ("question", "prompt"),
    ("query", "prompt"),
    ("text", "prompt"),
    ("answer", "completion"),
    ("response", "completion"),
    ("target", "completion"),
    ("chosen", "completion"),
    ("sql", "completion"),
    ("conversations", "messages"),
    ("conversation", "messages"),
    ("dialog", "messages"),
    ("chat", "messages"),
    ("instructions", "instruction"),
    ("outputs", "output"),
];
const ROLE_ALIASES: [(&str, &str); 6] = [
    ("human", "user"),
    ("gpt", "assistant"),
    ("bot", "assistant"),
    ("model", "assistant"),
    ("ai", "assistant"),
    ("function", "tool"),
];

/// One row of a data set as a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The row's `id`, or `line-` and its line number.
    pub id: String,
    /// The conversation; the last message is the assistant's.
    pub messages: Vec<Message>,
}

/// Reads a data set in JSON lines, in file order.
///
/// A row has one of these forms, told by its columns (`messages` first where there are several):
/// `messages` (a list of `{role, content}` ending with the assistant's), `prompt` and `completion`, or `instruction`,
/// `output` and perhaps `input` (put below the instruction after a blank line). The latter two may have `system`.
/// Any may have `id` (text or a number). A byte order mark, CRLF and blank lines are accepted.
///
/// # Errors
/// [`DataError::Read`], [`DataError::Empty`], [`DataError::OneRow`], or [`DataError::Line`] for the first row that
/// cannot be used.
pub fn read_jsonl(path: &Path) -> Result<Vec<Example>, DataError> {
    let read_error = |source| DataError::Read {
        path: path.to_owned(),
        source,
    };
    let file_name = path.file_name().map_or_else(
        || path.display().to_string(),
        |n| n.to_string_lossy().into_owned(),
    );
    let mut reader = BufReader::new(File::open(path).map_err(read_error)?);
    let mut examples = Vec::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        if reader
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut bytes)
            .map_err(read_error)?
            == 0
        {
            break;
        }
        let example = parse_line(&bytes, line).map_err(|problem| DataError::Line {
            file: file_name.clone(),
            line,
            problem,
        })?;
        examples.extend(example);
    }
    match examples.len() {
        0 => Err(DataError::Empty {
            path: path.to_owned(),
        }),
        1 => Err(DataError::OneRow {
            path: path.to_owned(),
        }),
        _ => Ok(examples),
    }
}

/// The example of one line; `None` for a blank one.
fn parse_line(bytes: &[u8], line: usize) -> Result<Option<Example>, LineProblem> {
    if bytes.len() > MAX_LINE_BYTES {
        return Err(LineProblem::TooLong {
            limit: MAX_LINE_BYTES,
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|e| LineProblem::NotUtf8 {
        byte: e.valid_up_to() + 1,
    })?;
    let text = if line == 1 {
        text.trim_start_matches('\u{feff}')
    } else {
        text
    };
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    if text.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| json_problem(text, &error))?;
    let Value::Object(columns) = value else {
        return Err(LineProblem::NotObject { found: kind(&value) });
    };
    let messages = if columns.contains_key("messages") {
        conversation(&columns)?
    } else if has_any(&columns, &["prompt", "completion"]) {
        prompt_and_completion(&columns)?
    } else if has_any(&columns, &["instruction", "output"]) {
        instruction_and_output(&columns)?
    } else {
        let meant = ["messages", "prompt", "completion", "instruction", "output"];
        return Err(LineProblem::UnknownColumns {
            seen: names(&columns),
            suggestion: suggest(&columns, &meant),
        });
    };
    Ok(Some(Example {
        id: row_id(&columns, line)?,
        messages,
    }))
}

fn json_problem(text: &str, error: &serde_json::Error) -> LineProblem {
    // The parser repeats its own line number, always 1 here, which would contradict the file's.
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or(&reason).to_owned();
    let part_of_larger =
        error.is_eof() || text.starts_with('[') || text.starts_with(']') || text.ends_with("},");
    LineProblem::NotJson {
        column: error.column(),
        reason,
        part_of_larger,
    }
}

fn row_id(columns: &Map<String, Value>, line: usize) -> Result<String, LineProblem> {
    match columns.get("id") {
        None | Some(Value::Null) => Ok(format!("line-{line}")),
        Some(Value::String(id)) => Ok(id.clone()),
        Some(Value::Number(id)) => Ok(id.to_string()),
        Some(other) => Err(LineProblem::NotText {
            column: "id".to_owned(),
            found: kind(other),
        }),
    }
}

fn prompt_and_completion(columns: &Map<String, Value>) -> Result<Vec<Message>, LineProblem> {
    let prompt = required(columns, "prompt", false)?;
    let completion = required(columns, "completion", true)?;
    with_system(columns, prompt, completion)
}

fn instruction_and_output(columns: &Map<String, Value>) -> Result<Vec<Message>, LineProblem> {
    let mut prompt = required(columns, "instruction", false)?;
    if let Some(input) = optional(columns, "input")? {
        prompt.push_str("\n\n");
        prompt.push_str(&input);
    }
    let output = required(columns, "output", true)?;
    with_system(columns, prompt, output)
}

fn with_system(
    columns: &Map<String, Value>,
    prompt: String,
    answer: String,
) -> Result<Vec<Message>, LineProblem> {
    let mut messages = Vec::with_capacity(3);
    if let Some(system) = optional(columns, "system")? {
        messages.push(message("system", system));
    }
    messages.push(message("user", prompt));
    messages.push(message("assistant", answer));
    Ok(messages)
}

fn conversation(columns: &Map<String, Value>) -> Result<Vec<Message>, LineProblem> {
    let list = match columns.get("messages") {
        Some(Value::Array(list)) => list,
        other => {
            return Err(LineProblem::MessagesNotList {
                found: other.map_or("nothing", kind),
            });
        }
    };
    let messages: Vec<Message> = list
        .iter()
        .enumerate()
        .map(|(index, value)| one_message(index, value))
        .collect::<Result<_, _>>()?;
    match messages.last() {
        None => {
            return Err(LineProblem::EmptyText {
                column: "messages".to_owned(),
                answer: false,
            });
        }
        Some(last) if last.role != "assistant" => {
            return Err(LineProblem::LastNotAssistant {
                role: last.role.clone(),
            });
        }
        Some(_) => {}
    }
    let first_answer = messages
        .iter()
        .position(|m| m.role == "assistant")
        .unwrap_or_default();
    if !messages[..first_answer].iter().any(|m| m.role == "user") {
        return Err(LineProblem::NoQuestion);
    }
    Ok(messages)
}

fn one_message(index: usize, value: &Value) -> Result<Message, LineProblem> {
    let Value::Object(fields) = value else {
        return Err(LineProblem::MessageShape {
            index,
            found: kind(value).to_owned(),
        });
    };
    let (Some(role), Some(content)) = (fields.get("role"), fields.get("content")) else {
        let keys = names(fields).join(", ");
        return Err(LineProblem::MessageShape {
            index,
            found: format!("one with {keys}"),
        });
    };
    let role = text(role, || format!("messages[{index}].role"))?;
    if !ROLES.contains(&role.as_str()) {
        let lower = role.to_lowercase();
        let suggestion = alias(&ROLE_ALIASES, &lower).or_else(|| nearest(&lower, &ROLES));
        return Err(LineProblem::UnknownRole {
            index,
            role,
            suggestion,
        });
    }
    // They would be lost without a word: the messages of chat templates here are role and content alone.
    let no_calls = |calls: &Value| calls.is_null() || calls.as_array().is_some_and(Vec::is_empty);
    if fields.get("tool_calls").is_some_and(|calls| !no_calls(calls)) {
        return Err(LineProblem::ToolCalls { index });
    }
    let column = || format!("messages[{index}].content");
    let content = text(content, column)?;
    let answer = role == "assistant";
    if content.trim().is_empty() && (answer || role == "user") {
        return Err(LineProblem::EmptyText {
            column: column(),
            answer,
        });
    }
    Ok(message(&role, content))
}

fn message(role: &str, content: String) -> Message {
    Message {
        role: role.to_owned(),
        content,
    }
}

fn required(columns: &Map<String, Value>, column: &'static str, answer: bool) -> Result<String, LineProblem> {
    let Some(value) = columns.get(column) else {
        return Err(LineProblem::MissingColumn {
            column,
            seen: names(columns),
            suggestion: suggest(columns, &[column]),
        });
    };
    let value = text(value, || column.to_owned())?;
    if value.trim().is_empty() {
        return Err(LineProblem::EmptyText {
            column: column.to_owned(),
            answer,
        });
    }
    Ok(value)
}

/// A column that may be missing, null or empty, which all mean the same.
fn optional(columns: &Map<String, Value>, column: &'static str) -> Result<Option<String>, LineProblem> {
    match columns.get(column) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => Ok(Some(text(value, || column.to_owned())?).filter(|t| !t.trim().is_empty())),
    }
}

fn text(value: &Value, column: impl FnOnce() -> String) -> Result<String, LineProblem> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(LineProblem::NotText {
            column: column(),
            found: kind(other),
        }),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn has_any(columns: &Map<String, Value>, wanted: &[&str]) -> bool {
    wanted.iter().any(|column| columns.contains_key(*column))
}

fn names(columns: &Map<String, Value>) -> Vec<String> {
    columns.keys().cloned().collect()
}

/// The column of the row that was probably meant to be one of `wanted`.
fn suggest(columns: &Map<String, Value>, wanted: &[&'static str]) -> Option<(String, &'static str)> {
    columns.keys().find_map(|found| {
        let lower = found.to_lowercase();
        let by_alias = alias(&COLUMN_ALIASES, &lower).filter(|meant| wanted.contains(meant));
        by_alias
            .or_else(|| nearest(&lower, wanted))
            .map(|meant| (found.clone(), meant))
    })
}

fn alias(aliases: &[(&str, &'static str)], found: &str) -> Option<&'static str> {
    aliases
        .iter()
        .find(|(name, _)| *name == found)
        .map(|(_, meant)| *meant)
}

/// The candidate within two typing mistakes.
fn nearest(found: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let distance = |candidate: &str| strsim::damerau_levenshtein(found, candidate);
    candidates
        .iter()
        .copied()
        .min_by_key(|candidate| distance(candidate))
        .filter(|best| distance(best) <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const GOOD: &str = r#"{"prompt": "p", "completion": "c"}"#;

    fn read(content: impl AsRef<[u8]>) -> Result<Vec<Example>, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.jsonl");
        fs::write(&path, content).unwrap();
        read_jsonl(&path)
    }

    /// The error of a file whose second line is `line`.
    fn error_of(line: &str) -> DataError {
        read(format!("{GOOD}\n{line}\n")).unwrap_err()
    }

    fn roles_and_contents(example: &Example) -> Vec<(&str, &str)> {
        example
            .messages
            .iter()
            .map(|m| (m.role.as_str(), m.content.as_str()))
            .collect()
    }

    #[test]
    fn the_three_forms_are_read() {
        let examples = read(concat!(
            "{\"prompt\": \"p\", \"completion\": \"c\", \"system\": \"s\"}\n",
            "{\"id\": 7, \"instruction\": \"i\", \"input\": \"x\", \"output\": \"o\"}\n",
            "{\"instruction\": \"i\", \"input\": \"\", \"output\": \"o\", \"category\": \"extra\"}\n",
            "{\"id\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"q\"}, ",
            "{\"role\": \"assistant\", \"content\": \" a \"}]}",
        ))
        .unwrap();
        let ids: Vec<_> = examples.iter().map(|e| e.id.as_str()).collect();
        assert_eq!(ids, ["line-1", "7", "line-3", "a"]);
        assert_eq!(
            roles_and_contents(&examples[0]),
            [("system", "s"), ("user", "p"), ("assistant", "c")]
        );
        assert_eq!(
            roles_and_contents(&examples[1]),
            [("user", "i\n\nx"), ("assistant", "o")]
        );
        assert_eq!(
            roles_and_contents(&examples[2]),
            [("user", "i"), ("assistant", "o")]
        );
        // An answer is kept as it is, spaces included.
        assert_eq!(
            roles_and_contents(&examples[3]),
            [("user", "q"), ("assistant", " a ")]
        );
    }

    #[test]
    fn byte_order_mark_crlf_and_blank_lines_are_accepted() {
        let examples = read(format!("\u{feff}{GOOD}\r\n\r\n  \n{GOOD}\r\n")).unwrap();
        assert_eq!(examples.len(), 2);
        assert_eq!(examples[1].id, "line-4");
    }

    #[test]
    fn empty_and_one_row_files_are_named() {
        assert_eq!(read("").unwrap_err().code(), "data_empty");
        assert_eq!(read("\n \r\n").unwrap_err().code(), "data_empty");
        assert_eq!(read(GOOD).unwrap_err().code(), "one_row");
        let missing = read_jsonl(Path::new("no/such/file.jsonl")).unwrap_err();
        assert_eq!(missing.code(), "data_read");
        assert!(missing.to_string().contains("file.jsonl"), "{missing}");
    }

    #[test]
    fn a_missing_column_is_named_with_what_was_meant() {
        let error = error_of(r#"{"prompt": "p", "completon": "c"}"#);
        assert_eq!(
            error.to_string(),
            "line 2 of train.jsonl: the column completion is missing; found prompt, completon"
        );
        assert_eq!(
            error.hints(),
            ["did you mean completion? Rename the column completon"]
        );
        let error = error_of(r#"{"prompt": "p", "sql": "c"}"#);
        assert_eq!(error.hints(), ["did you mean completion? Rename the column sql"]);
        let error = error_of(r#"{"conversations": []}"#);
        assert_eq!(error.code(), "unknown_columns");
        assert_eq!(
            error.hints(),
            ["did you mean messages? Rename the column conversations"]
        );
        let error = error_of(r#"{"a": 1, "b": 2}"#);
        assert!(error.to_string().ends_with("found a, b"), "{error}");
        assert!(error_of("{}").to_string().ends_with("found no columns"));
    }

    #[test]
    fn every_fault_of_a_row_has_its_code() {
        let cases = [
            (r#"{"prompt": "p", "completion": ""}"#, "empty_answer"),
            (r#"{"prompt": "p", "completion": " \n"}"#, "empty_answer"),
            (r#"{"prompt": "", "completion": "c"}"#, "empty_prompt"),
            (r#"{"prompt": "p", "completion": null}"#, "not_text"),
            (r#"{"prompt": ["p"], "completion": "c"}"#, "not_text"),
            (r#"{"id": [1], "prompt": "p", "completion": "c"}"#, "not_text"),
            (r#"{"instruction": "p", "input": 3, "output": "c"}"#, "not_text"),
            (r#"{"completion": "c"}"#, "missing_column"),
            (r#"{"output": "c"}"#, "missing_column"),
            (r#"{"messages": "hello"}"#, "message_shape"),
            (r#"{"messages": []}"#, "empty_prompt"),
            (r#"{"messages": ["hello"]}"#, "message_shape"),
            (
                r#"{"messages": [{"from": "human", "value": "q"}]}"#,
                "message_shape",
            ),
            (
                r#"{"messages": [{"role": "human", "content": "q"}]}"#,
                "unknown_role",
            ),
            (
                r#"{"messages": [{"role": "user", "content": "q"}]}"#,
                "last_not_assistant",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "q"}]}"#,
                "no_question",
            ),
            (
                r#"{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": " "}]}"#,
                "empty_answer",
            ),
            (
                r#"{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null}]}"#,
                "not_text",
            ),
            (
                r#"{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "tool_calls": [{}]}]}"#,
                "tool_calls",
            ),
            ("[1, 2]", "not_object"),
            ("\"text\"", "not_object"),
            ("{\"prompt\": ", "not_json"),
            ("{'prompt': 'p'}", "not_json"),
            (r#"{"prompt": "\ud800", "completion": "c"}"#, "not_json"),
        ];
        for (line, code) in cases {
            let error = error_of(line);
            assert_eq!(error.code(), code, "{line}: {error}");
            assert!(
                error.to_string().starts_with("line 2 of train.jsonl: "),
                "{error}"
            );
            assert!(!error.hints().is_empty());
        }
    }

    #[test]
    fn other_formats_get_a_hint() {
        let list = read("[\n  {\"prompt\": \"p\"},\n]\n").unwrap_err();
        assert_eq!(list.code(), "not_json");
        assert!(list.hints()[0].contains("JSON lines"), "{:?}", list.hints());
        let spread = read("{\n  \"prompt\": \"p\"\n}\n").unwrap_err();
        assert!(spread.hints()[0].contains("line breaks"), "{:?}", spread.hints());
        let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let utf16 = read(utf16).unwrap_err();
        assert_eq!(
            utf16.to_string(),
            "line 1 of train.jsonl: byte 1 is not valid UTF-8"
        );
        assert!(utf16.hints()[0].contains("UTF-8"));
    }

    #[test]
    fn a_file_without_line_breaks_is_refused_early() {
        let error = read(vec![b' '; MAX_LINE_BYTES + 2]).unwrap_err();
        assert_eq!(error.code(), "line_too_long");
    }

    #[test]
    fn a_wrong_role_gets_a_suggestion() {
        let hint = |role: &str| {
            error_of(&format!(
                r#"{{"messages": [{{"role": "{role}", "content": "q"}}]}}"#
            ))
            .hints()
            .remove(0)
        };
        assert_eq!(hint("human"), "did you mean user?");
        assert_eq!(hint("Asistant"), "did you mean assistant?");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_an_answer_not_a_panic(bytes: Vec<u8>) {
            // Whatever the file holds, the result is rows or an error with a code.
            if let Err(error) = read(bytes) {
                proptest::prop_assert!(!error.code().is_empty());
            }
        }
    }
}
