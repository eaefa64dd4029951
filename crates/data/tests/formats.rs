//! Data sets in every form that they come in, through the one door that a training uses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use tunesmith_data::{Columns, Content, DataError, DataSet, Format, Role};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// A file of this name with this content, read with these columns chosen.
fn read_with(name: &str, content: impl AsRef<[u8]>, chosen: &[(Role, &str)]) -> Result<DataSet, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    DataSet::read(&path, &columns(chosen))
}

fn read(name: &str, content: impl AsRef<[u8]>) -> Result<DataSet, DataError> {
    read_with(name, content, &[])
}

fn columns(chosen: &[(Role, &str)]) -> Columns {
    chosen
        .iter()
        .map(|(role, name)| (*role, (*name).to_owned()))
        .collect()
}

/// Every example as its id and `role: content` lines.
fn told(set: &DataSet) -> Vec<String> {
    let Content::Conversations(examples) = &set.content else {
        panic!("{:?}", set.content)
    };
    examples
        .iter()
        .map(|example| {
            let turns: Vec<String> = example
                .messages
                .iter()
                .map(|message| format!("{}: {}", message.role, message.content))
                .collect();
            format!("{} | {}", example.id, turns.join(" | "))
        })
        .collect()
}

const TWO_ROWS: [&str; 2] = [
    "line-2 | user: p | assistant: c",
    "line-3 | user: q | assistant: d",
];

#[test]
fn a_csv_file_gives_its_rows_whatever_its_delimiter() {
    for (name, content) in [
        ("a.csv", "prompt,completion\np,c\nq,d\n"),
        ("a.csv", "\u{feff}Prompt;Completion\r\np;c\r\nq;d"),
        ("a.tsv", "question\tsql\np\tc\nq\td\n"),
    ] {
        let set = read(name, content).unwrap();
        assert_eq!(set.reading.format, Format::Csv);
        assert_eq!(told(&set), TWO_ROWS, "{content}");
    }
}

#[test]
fn csv_rows_of_another_length_and_broken_letters_are_named_by_line() {
    let ragged = read("a.csv", "prompt,completion\np,c\nq,d,e\n").unwrap_err();
    assert_eq!(
        (ragged.code(), ragged.to_string().as_str()),
        (
            "ragged_row",
            "line 3 of a.csv: the row has 3 cells, the header has 2"
        )
    );
    let latin1 = read("a.csv", b"prompt,completion\np,c\nq,d\xe9\n").unwrap_err();
    assert_eq!(latin1.to_string(), "line 3 of a.csv: byte 2 is not valid UTF-8");
    assert_eq!(latin1.hints(), ["save the file as UTF-8"]);
    let empty_cell = read("a.csv", "prompt,completion\np,c\nq,\n").unwrap_err();
    assert_eq!(empty_cell.code(), "empty_answer");
    for nothing in ["", "prompt,completion\n"] {
        assert_eq!(read("a.csv", nothing).unwrap_err().code(), "data_empty");
    }
}

#[test]
fn a_list_of_objects_is_read_as_sharegpt_and_alpaca_have_it() {
    let shared = r#"[
        {"id": "x", "conversations": [{"from": "human", "value": "p"}, {"from": "gpt", "value": "c"}]},
        {"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "q"}, {"from": "gpt", "value": "d"}]}
    ]"#;
    let expected = [
        "x | user: p | assistant: c",
        "row-2 | system: s | user: q | assistant: d",
    ];
    let set = read("shared.json", shared).unwrap();
    assert_eq!(set.reading.format, Format::Json);
    assert_eq!(told(&set), expected);
    assert_eq!(
        told(&read("held.json", format!(r#"{{"version": 1, "data": {shared}}}"#)).unwrap()),
        expected
    );
    // JSON lines under the name of a JSON file.
    let lines = "{\"prompt\": \"p\", \"completion\": \"c\"}\n{\"prompt\": \"q\", \"completion\": \"d\"}\n";
    let set = read("lines.json", lines).unwrap();
    assert_eq!((set.reading.format, told(&set).len()), (Format::JsonLines, 2));
    assert_eq!(
        read("no-ending", lines).unwrap().reading.format,
        Format::JsonLines
    );
}

#[test]
fn json_that_is_no_list_of_rows_is_refused_with_its_place() {
    let broken = read("a.json", "[\n  {\"prompt\": \"p\",}\n]").unwrap_err();
    assert_eq!(broken.code(), "not_json");
    assert!(broken.to_string().starts_with("line 2 of a.json: "), "{broken}");
    let object = read("a.json", "{\n \"prompt\": \"p\"\n}").unwrap_err();
    assert_eq!(object.code(), "data_damaged");
    assert!(object.to_string().contains("an object with prompt"), "{object}");
    let third = read("a.json", r#"[{"prompt": "p", "completion": "c"}, 3]"#).unwrap_err();
    assert_eq!(
        third.to_string(),
        "row 2 of a.json: expected a JSON object, found a number"
    );
    assert_eq!(read("a.json", "[]").unwrap_err().code(), "data_empty");
    assert_eq!(read("a.bin", [0, 1, 2]).unwrap_err().code(), "data_format");
}

#[test]
fn a_parquet_file_is_read_with_nulls_lists_and_structures() {
    let set = DataSet::read(&fixture("pairs.parquet"), &Columns::new()).unwrap();
    assert_eq!(set.reading.format, Format::Parquet);
    assert_eq!(
        told(&set),
        [
            "7 | system: Be brief. | user: How many? | assistant: 12",
            "8 | user: Où ça, à Évian? | assistant: là",
            "9 | user: three | assistant: 3"
        ]
    );
    assert_eq!(
        set.reading.uses[0].columns,
        columns(&[
            (Role::Prompt, "question"),
            (Role::Completion, "answer"),
            (Role::System, "system"),
            (Role::Id, "id")
        ])
    );
    assert_eq!(set.reading.uses[0].rows, 3);
    let of = |name: &str| set.columns.iter().find(|column| column.name == name).unwrap();
    assert_eq!(of("score").kinds, ["a number", "null"]);
    assert_eq!(of("tags").kinds, ["a list", "null"]);
    assert_eq!(of("system").filled, 1);

    let shared = DataSet::read(&fixture("shared.parquet"), &Columns::new()).unwrap();
    assert_eq!(
        told(&shared),
        [
            "row-1 | user: q | assistant: a",
            "row-2 | user: 1 | assistant: one | user: 2 | assistant: two"
        ]
    );
}

#[test]
fn parquet_files_that_cannot_be_read_say_why() {
    let gzip = DataSet::read(&fixture("gzip.parquet"), &Columns::new()).unwrap_err();
    assert_eq!(gzip.code(), "data_damaged");
    assert!(
        gzip.hints()[0].contains("snappy or zstd"),
        "{gzip} {:?}",
        gzip.hints()
    );
    let empty = DataSet::read(&fixture("empty.parquet"), &Columns::new()).unwrap_err();
    assert_eq!(empty.code(), "data_empty");
    let whole = std::fs::read(fixture("pairs.parquet")).unwrap();
    for length in [0, 4, 100, whole.len() - 1] {
        let error = read("cut.parquet", &whole[..length]).unwrap_err();
        assert_eq!(error.code(), "data_damaged", "{length} bytes: {error}");
    }
    // No byte that is wrong may end the program.
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        if let Err(error) = read("wrong.parquet", bytes) {
            assert!(!error.hints().is_empty(), "{error}");
        }
    }
}

#[test]
fn text_is_one_document_and_a_text_column_one_a_row() {
    let set = read("notes.md", "\u{feff}# One\n\nText\n").unwrap();
    let Content::Text(documents) = &set.content else {
        panic!("{set:?}")
    };
    assert_eq!(
        (
            documents[0].id.as_str(),
            documents[0].text.as_str(),
            documents[0].markdown
        ),
        ("notes.md", "# One\n\nText\n", true)
    );
    assert!(set.reading.uses.is_empty());
    let set = DataSet::read(&fixture("plain.parquet"), &Columns::new()).unwrap();
    let Content::Text(documents) = &set.content else {
        panic!("{set:?}")
    };
    assert_eq!(documents.len(), 2);
    assert_eq!(set.reading.uses[0].columns, columns(&[(Role::Text, "text")]));

    assert_eq!(read("a.txt", " \n").unwrap_err().code(), "data_empty");
    let broken = read("a.txt", b"one\ntw\xff\n").unwrap_err();
    assert_eq!(broken.to_string(), "line 2 of a.txt: byte 3 is not valid UTF-8");
    let chosen = read_with("a.txt", "one", &[(Role::Prompt, "question")]).unwrap_err();
    assert_eq!(chosen.code(), "no_such_column");
    let mixed = read(
        "a.jsonl",
        "{\"text\": \"t\"}\n{\"prompt\": \"p\", \"completion\": \"c\"}\n",
    )
    .unwrap_err();
    assert_eq!(mixed.code(), "mixed_rows");
}

#[test]
fn chosen_columns_are_used_and_a_wrong_one_names_the_nearest() {
    let content = "question,draft,final\np,x,c\nq,y,d\n";
    let set = read_with("a.csv", content, &[(Role::Completion, "final")]).unwrap();
    assert_eq!(told(&set), TWO_ROWS);
    let error = read_with("a.csv", content, &[(Role::Completion, "fnal")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2 of a.csv: there is no column fnal for the completion; the columns are question, draft, final"
    );
    assert_eq!(error.hints(), ["did you mean final?"]);
    // An optional column may be absent in rows, but not in all of them.
    let rows = "{\"prompt\": \"p\", \"completion\": \"c\"}\n{\"prompt\": \"q\", \"completion\": \"d\", \"rules\": \"r\"}\n";
    let set = read_with("a.jsonl", rows, &[(Role::System, "rules")]).unwrap();
    assert_eq!(
        told(&set),
        [
            "line-1 | user: p | assistant: c",
            "line-2 | system: r | user: q | assistant: d"
        ]
    );
    assert_eq!(set.reading.uses.len(), 2);
    let error = read_with("a.jsonl", rows, &[(Role::System, "rule")]).unwrap_err();
    assert_eq!(
        (error.code(), error.hints().remove(0)),
        ("no_such_column", "did you mean rules?".to_owned())
    );
}

/// Three good rows, a fourth that is `fourth`, and a fifth.
fn with_fourth_row(fourth: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let good = "{\"prompt\": \"p\", \"completion\": \"c\"}\n";
    std::fs::write(&path, format!("{good}{good}{good}{fourth}\n{good}")).unwrap();
    (folder, path)
}

#[test]
fn reading_the_first_rows_tells_what_is_wrong_with_these_alone() {
    let empty_answer = "{\"prompt\": \"p\", \"completion\": \"\"}";
    for fourth in ["this is no JSON", empty_answer] {
        let (_folder, path) = with_fourth_row(fourth);
        let first = |most_rows: usize| DataSet::read_first(&path, &Columns::new(), most_rows);
        let (set, whole) = first(3).unwrap();
        assert_eq!((set.content.len(), whole), (3, false), "{fourth}");
        for most_rows in [4, 5, 100] {
            let error = first(most_rows).unwrap_err();
            assert!(error.to_string().contains("line 4"), "{error}");
        }
    }
    let (_folder, path) = with_fourth_row("");
    let first = |most_rows: usize| DataSet::read_first(&path, &Columns::new(), most_rows).unwrap();
    assert_eq!(
        (first(4).0.content.len(), first(4).1),
        (4, true),
        "a blank line is no row"
    );
}
