//! JSON lines: one object a line.
//!
//! A wrong row must be named by its line before anything is trained, so every line is read in full.

use std::io::{BufRead, Read as _};

use serde_json::{Map, Value};

use crate::LineProblem;
use crate::conversation::kind;
use crate::dataset::{Fault, Place, Row};

/// Longest line that is read, in bytes. No context is that long; a file without line breaks must not fill the memory.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Tells `each` of every row in order. A byte order mark, CRLF and blank lines are accepted.
pub(crate) fn read(
    mut reader: impl BufRead,
    each: &mut dyn FnMut(Row) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        if reader.by_ref().take(limit).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let place = Place::Line(line);
        if let Some(columns) = parse_line(&bytes, line).map_err(|problem| Fault::Row(place, problem))? {
            each(Row { place, columns })?;
        }
    }
    Ok(())
}

/// The object of one line; nothing for a blank one.
fn parse_line(bytes: &[u8], line: usize) -> Result<Option<Map<String, Value>>, LineProblem> {
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
    match serde_json::from_str(text).map_err(|error| json_problem(text, &error))? {
        Value::Object(columns) => Ok(Some(columns)),
        other => Err(LineProblem::NotObject { found: kind(&other) }),
    }
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::MAX_LINE_BYTES;
    use crate::{DataError, Example, read_jsonl};

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
            ["did you mean completion? Rename the column completon, or name it in data.columns"]
        );
        let error = error_of(r#"{"mesages": 1}"#);
        assert_eq!(error.code(), "unknown_columns");
        assert_eq!(
            error.hints(),
            ["did you mean messages? Rename the column mesages, or name it in data.columns"]
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
                r#"{"messages": [{"from": "human", "content": "q"}]}"#,
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
