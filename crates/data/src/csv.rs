//! CSV files with a header line; the delimiter is what the header has most of.

use csv::{ByteRecord, ErrorKind, ReaderBuilder};
use serde_json::{Map, Value};

use crate::LineProblem;
use crate::dataset::{Fault, Place, Row};

const DELIMITERS: [u8; 4] = *b",;\t|";

/// Tells `each` of every row in order, cells as text.
pub(crate) fn read(bytes: &[u8], each: &mut dyn FnMut(Row) -> Result<(), Fault>) -> Result<(), Fault> {
    // The mark that some programs put before the first header.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let mut csv = ReaderBuilder::new()
        .delimiter(delimiter(bytes))
        .has_headers(false)
        // Lengths are compared here, where the line is known.
        .flexible(true)
        .from_reader(bytes);
    let mut lines = Lines {
        bytes,
        at: 0,
        line: 1,
    };
    let mut names: Option<Vec<String>> = None;
    let mut record = ByteRecord::new();
    while csv.read_byte_record(&mut record).map_err(fault)? {
        let start = record.position().map_or(0, csv::Position::byte);
        let place = Place::Line(lines.of(start as usize));
        let cells = cells(&record).map_err(|problem| Fault::Row(place, problem))?;
        let Some(names) = &names else {
            refuse_equal(&cells).map_err(|problem| Fault::Row(place, problem))?;
            names = Some(cells);
            continue;
        };
        if cells.len() != names.len() {
            let problem = LineProblem::Ragged {
                found: cells.len(),
                expected: names.len(),
            };
            return Err(Fault::Row(place, problem));
        }
        let cells = cells.into_iter().map(Value::String);
        let columns: Map<String, Value> = names.iter().cloned().zip(cells).collect();
        each(Row { place, columns })?;
    }
    Ok(())
}

/// Counts lines up to a row. The library's own count stays behind after blank lines and where lines end with CRLF.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl Lines<'_> {
    /// The line of the row that begins at this byte, line ends before it left out.
    fn of(&mut self, mut start: usize) -> usize {
        while matches!(self.bytes.get(start), Some(b'\r' | b'\n')) {
            start += 1;
        }
        let passed = self.bytes.get(self.at..start).unwrap_or_default();
        self.line += passed.split(|byte| *byte == b'\n').count() - 1;
        self.at = start;
        self.line
    }
}

fn refuse_equal(names: &[String]) -> Result<(), LineProblem> {
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            let column = name.clone();
            return Err(LineProblem::DuplicateColumn { column });
        }
    }
    Ok(())
}

fn delimiter(bytes: &[u8]) -> u8 {
    let header = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |delimiter: u8| header.split(|byte| *byte == delimiter).count();
    // The first of several with the same count, so a header without any is a single column between commas.
    DELIMITERS
        .into_iter()
        .rev()
        .max_by_key(|delimiter| count(*delimiter))
        .unwrap_or(b',')
}

fn cells(record: &ByteRecord) -> Result<Vec<String>, LineProblem> {
    let text = |cell: &[u8]| {
        let text = std::str::from_utf8(cell).map_err(|error| LineProblem::NotUtf8 {
            byte: error.valid_up_to() + 1,
        })?;
        Ok(text.to_owned())
    };
    record.iter().map(text).collect()
}

fn fault(error: csv::Error) -> Fault {
    let text = error.to_string();
    match error.into_kind() {
        ErrorKind::Io(error) => Fault::Io(error),
        _ => Fault::File(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows as place and JSON.
    fn rows(text: &[u8]) -> Result<Vec<String>, Fault> {
        let mut rows = Vec::new();
        read(text, &mut |row| {
            rows.push(format!("{} {}", row.place, Value::Object(row.columns)));
            Ok(())
        })?;
        Ok(rows)
    }

    fn problem(text: &[u8]) -> String {
        match rows(text).unwrap_err() {
            Fault::Row(place, problem) => format!("{place}: {problem}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn quoted_cells_keep_commas_quotes_and_line_breaks() {
        let text = "\u{feff}prompt,completion\r\n\"a, \"\"b\"\"\nc\",\"d\"\r\n\r\ne,\n";
        assert_eq!(
            rows(text.as_bytes()).unwrap(),
            [
                r#"line 2 {"prompt":"a, \"b\"\nc","completion":"d"}"#,
                r#"line 5 {"prompt":"e","completion":""}"#
            ]
        );
    }

    #[test]
    fn other_delimiters_are_seen_in_the_header() {
        for delimiter in [";", "\t", "|"] {
            let text = format!("a{delimiter}b\n1,5{delimiter}2\n");
            assert_eq!(rows(text.as_bytes()).unwrap(), [r#"line 2 {"a":"1,5","b":"2"}"#]);
        }
        assert_eq!(
            rows(b"text\nhello; you\n").unwrap(),
            [r#"line 2 {"text":"hello; you"}"#]
        );
    }

    #[test]
    fn a_row_of_another_length_is_named_by_its_line() {
        assert_eq!(
            problem(b"a,b\n1,2\n\"x\ny\",2,3\n"),
            "line 3: the row has 3 cells, the header has 2"
        );
        assert_eq!(
            problem(b"a,b\n1\n"),
            "line 2: the row has 1 cells, the header has 2"
        );
        assert_eq!(problem(b"a,b,a\n1,2,3\n"), "line 1: two columns are called a");
        assert_eq!(problem(b"a,b\n1,\xff\n"), "line 2: byte 1 is not valid UTF-8");
        assert_eq!(rows(b"").unwrap(), [""; 0]);
    }
}
