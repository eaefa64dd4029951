//! Input that cannot work: each a sentence with a next step, exit status 1, and nothing half-made.

use std::fs;

use crate::context::{GOOD, Home, RunIt};

/// Runs the recipe of a home and expects a refusal before any run was made.
#[track_caller]
fn refused(home: &Home, more: &[&str], code: &str) -> String {
    let ran = home
        .tunesmith(GOOD)
        .args(["train", &home.recipe(), "--json"])
        .args(more)
        .ran()
        .expect_status(1);
    let error = &ran.json()["error"];
    assert_eq!(error["code"], code, "{error}");
    assert!(
        !error["hints"].as_array().unwrap().is_empty(),
        "no next step: {error}"
    );
    assert!(!home.runs().exists(), "no run should have been made");
    error["message"].as_str().unwrap().to_owned()
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest_key() {
    let home = Home::new();
    home.write_recipe("acumulation = 2");
    let ran = home
        .tunesmith(GOOD)
        .args(["train", &home.recipe()])
        .ran()
        .expect_status(1);
    assert!(ran.stderr.contains("tiny.toml, line"), "{}", ran.stderr);
    assert!(ran.stderr.contains("unknown key `acumulation`"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: did you mean `accumulation`?"),
        "{}",
        ran.stderr
    );
}

#[test]
fn impossible_values_and_settings_are_refused() {
    let home = Home::new();
    refused(&home, &["--set", "lora.rank=0"], "recipe_value");
    refused(&home, &["--set", "train.steps=few"], "recipe_type");
    refused(&home, &["--set", "train.stepz=3"], "unknown_recipe_key");
    refused(&home, &["--device", "gpu"], "recipe_value");
}

#[test]
fn a_model_that_is_cut_off_is_refused() {
    let home = Home::new();
    let file = home.path("model/model.safetensors");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 1000]).unwrap();
    let message = refused(&home, &[], "model_truncated");
    assert!(message.contains("model.safetensors"), "{message}");
}

#[test]
fn a_gguf_file_that_is_no_model_is_refused() {
    let home = Home::new();
    let file = home.path("broken.gguf");
    fs::write(&file, b"GGUF\x03\0\0\0").unwrap();
    let ran = home
        .tunesmith(GOOD)
        .args(["train", &home.recipe(), "--json", "--set"])
        .arg(format!("model.path={}", file.display()))
        .ran()
        .expect_status(1);
    let message = ran.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("broken.gguf"), "{message}");
}

#[test]
fn a_missing_model_or_data_set_is_named() {
    let home = Home::new();
    let message = refused(&home, &["--set", "model.path=nowhere.gguf"], "model_not_found");
    assert!(message.contains("nowhere.gguf"), "{message}");
    let ran = home
        .tunesmith(GOOD)
        .args(["train", &home.recipe(), "--set", "data.path=nothing.jsonl"])
        .ran();
    assert!(ran.expect_status(1).stderr.contains("nothing.jsonl"));
}

#[test]
fn data_sets_that_cannot_be_trained_on_are_refused() {
    let home = Home::new();
    let rows = home.path("rows.jsonl");
    let row = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    for (text, expected) in [
        (String::new(), "no rows"),
        (row.to_owned(), "at least two"),
        (format!("{row}{{\"prompt\": \"a\"}}\n"), "line 2 of rows.jsonl"),
        (
            format!(
                "{row}{{\"prompt\": \"a\", \"completion\": \"{}\"}}\n",
                "long ".repeat(500)
            ),
            "long",
        ),
    ] {
        fs::write(&rows, text).unwrap();
        let ran = home
            .tunesmith(GOOD)
            .args(["train", &home.recipe()])
            .ran()
            .expect_status(1);
        assert!(
            ran.stderr.contains(expected),
            "expected {expected:?} in {}",
            ran.stderr
        );
        assert!(!home.runs().exists());
    }
}

#[test]
fn rows_that_are_too_long_can_be_dropped_and_are_counted() {
    let home = Home::new();
    let rows = home.path("rows.jsonl");
    let mut text = fs::read_to_string(&rows).unwrap();
    text.push_str(&format!(
        "{{\"prompt\": \"a\", \"completion\": \"{}\"}}\n",
        "long ".repeat(500)
    ));
    fs::write(&rows, text).unwrap();
    let ran = home
        .tunesmith(GOOD)
        .args(["train", &home.recipe(), "--set", "data.long_rows=drop"])
        .ran();
    let ran = ran.expect_status(0);
    assert!(ran.stderr.contains("1 of 7 rows were left out"), "{}", ran.stderr);
}

#[test]
fn a_torch_of_another_version_is_refused_with_what_to_do() {
    let home = Home::new();
    fs::write(home.path("site/torch/version.py"), "__version__ = '2.12.0+cpu'\n").unwrap();
    let message = refused(&home, &[], "torch_version");
    assert!(
        message.contains("2.12.0") && message.contains("2.11"),
        "{message}"
    );
}

#[test]
fn a_missing_engine_is_named() {
    let home = Home::new();
    let mut command = home.tunesmith(GOOD);
    let ran = command
        .env("TUNESMITH_ENGINE", home.path("no-engine"))
        .args(["train", &home.recipe()])
        .ran();
    assert!(ran.expect_status(1).stderr.contains("no-engine"));
}

#[test]
fn unknown_runs_are_refused_with_a_way_out() {
    let home = Home::new();
    let ran = home
        .tunesmith(GOOD)
        .args(["report", "last", "--json"])
        .ran()
        .expect_status(1);
    assert_eq!(ran.json()["error"]["code"], "unknown_run");
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    let list = home
        .tunesmith(GOOD)
        .args(["runs", "list", "--json"])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(list["runs"].as_array().unwrap().len(), 0);
}
