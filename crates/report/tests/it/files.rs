//! The JSON, the files on disk, and what is taken out of both.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tunesmith_report::{
    HTML_FILE, Integrity, JSON_FILE, Report, ReportError, SCHEMA_VERSION, Secret, SideBySide, files_at,
    redact, write, write_at,
};

use crate::support::{compared, experiment, input};

/// A report as it was before it was written.
fn without_hash(report: Report) -> Report {
    Report {
        content_sha256: String::new(),
        integrity: Integrity::AsWritten,
        ..report
    }
}

#[test]
fn the_json_comes_back_whole_and_tolerates_what_it_does_not_know() {
    let report = Report::new(input());
    let text = report.to_json().unwrap();
    let read = Report::from_json(&text).unwrap();
    assert_eq!(read.integrity, Integrity::AsWritten);
    assert_eq!(without_hash(read), report);

    let mut value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema_version"], SCHEMA_VERSION);
    assert_eq!(value["record"]["training"]["summary"]["points"][0]["loss"], 2.0);
    value["of_a_later_version"] = json!({"a": 1});
    value["record"]["training"]["summary"]["points"][0]["later"] = json!([1, 2]);
    let read = Report::from_json(&value.to_string()).unwrap();
    assert_eq!(read.record, report.record, "what it does not know is passed over");

    value["schema_version"] = json!(SCHEMA_VERSION + 1);
    assert!(
        matches!(Report::from_json(&value.to_string()), Err(ReportError::TooNew { found, .. }) if found == SCHEMA_VERSION + 1)
    );
    for text in [
        "",
        "{}",
        "[]",
        "{\"schema_version\": 1}",
        "{\"schema_version\": 2}",
        "not json",
    ] {
        let error = Report::from_json(text).unwrap_err();
        assert_eq!(error.code(), "not_a_report");
        assert!(!error.hints().is_empty());
    }
}

#[test]
fn a_report_that_was_cut_short_is_called_damaged() {
    let text = Report::new(input()).to_json().unwrap();
    for end in [text.len() / 2, text.len() - 3, 1] {
        let error = Report::from_json(&text[..end]).unwrap_err();
        assert_eq!(error.code(), "report_damaged", "{error}");
    }
    assert_eq!(
        Report::from_json(&text.replace("\"valid_steps\"", "\"steps\""))
            .unwrap_err()
            .code(),
        "not_a_report"
    );
}

#[test]
fn a_report_can_be_saved_under_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my card.html");
    let written = write_at(&path, &Report::new(input())).unwrap();
    assert_eq!(written, files_at(&path));
    assert_eq!(written.json, folder.path().join("my card.json"));
    assert!(Report::from_json(&std::fs::read_to_string(&written.json).unwrap()).is_ok());
}

#[test]
fn the_names_at_the_top_of_the_json_are_a_promise() {
    let value: Value = serde_json::from_str(&Report::new(input()).to_json().unwrap()).unwrap();
    let names = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    let expected = [
        "schema_version",
        "content_sha256",
        "about",
        "headline",
        "validity",
        "gain",
        "cost",
        "scorecard",
        "published",
        "counting_rules",
        "invalid_comparisons",
        "record",
    ];
    assert_eq!(names(&value), expected.map(str::to_owned).into());
    for name in [
        "training",
        "experiment",
        "device",
        "manifest",
        "calibration",
        "redactions",
        "repeat",
        "engine",
    ] {
        assert!(value["record"].get(name).is_some(), "{name}");
    }
    for name in [
        "recipe",
        "status",
        "summary",
        "before",
        "after",
        "config_hash",
        "predicted",
    ] {
        assert!(value["record"]["training"].get(name).is_some(), "{name}");
    }
}

#[test]
fn both_files_are_written_over_older_ones_and_nothing_is_left_beside() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(HTML_FILE), "old").unwrap();
    let written = write(folder.path(), &Report::new(input())).unwrap();
    assert!(
        std::fs::read_to_string(&written.html)
            .unwrap()
            .contains("SmolLM2-135M")
    );
    assert!(Report::from_json(&std::fs::read_to_string(&written.json).unwrap()).is_ok());
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [HTML_FILE, JSON_FILE]);

    let error = write(&folder.path().join("missing"), &Report::new(input())).unwrap_err();
    assert_eq!(error.code(), "report_not_written");
    assert!(error.to_string().contains("report.json"), "{error}");
}

#[test]
fn redaction_takes_words_out_and_says_so() {
    let mut open = input();
    open.manifest = json!({"paths": {"model": "/home/ada/models/x.gguf", "cache": "/home/ada/.cache"}, "host": "lovelace"});
    let run = open.training.as_mut().unwrap();
    run.recipe.toml = "model = \"/home/ada/models/x.gguf\"\n".into();
    run.task = "/home/ada/data.jsonl".into();
    run.reason = Some("ada stopped it on lovelace".into());
    let secret = |what: &str, text: &str, replacement: &str| Secret {
        what: what.into(),
        text: text.into(),
        replacement: replacement.into(),
    };
    let secrets = [
        secret("the user's name", "ada", "(user)"),
        secret("the home folder", "/home/ada", "~"),
        secret("the host's name", "lovelace", "(host)"),
        secret("the work group", "pc", "(group)"),
    ];
    let closed = redact(open, &secrets).unwrap();
    assert_eq!(
        closed.manifest,
        json!({"paths": {"model": "~/models/x.gguf", "cache": "~/.cache"}, "host": "(host)"})
    );
    let run = closed.training.as_ref().unwrap();
    assert_eq!(run.task, "~/data.jsonl");
    assert_eq!(run.reason.as_deref(), Some("(user) stopped it on (host)"));
    assert_eq!(
        closed.redactions,
        [
            "the home folder was replaced by ~ 4 times",
            "the host's name was replaced by (host) 2 times",
            "the user's name was replaced by (user) once",
            "the work group is too short to be replaced safely and was left alone",
        ]
    );
    assert!(closed.calibration.is_some());
    let report = Report::new(closed);
    assert!(!report.to_json().unwrap().contains("lovelace"));
    assert!(
        report
            .to_html()
            .unwrap()
            .contains("the home folder was replaced by ~ 4 times")
    );
}

#[test]
fn an_edit_after_writing_is_noticed_and_told_everywhere() {
    let text = Report::new(input()).to_json().unwrap();
    let edited = text.replacen("\"gain_points\": 29.0", "\"gain_points\": 49.0", 1);
    assert_ne!(edited, text);
    let read = Report::from_json(&edited).unwrap();
    assert_eq!(read.integrity, Integrity::Edited);
    for page in [read.to_html().unwrap(), read.to_markdown().unwrap()] {
        assert!(
            page.contains("edited after it was written"),
            "the page does not say so"
        );
    }
    let bare = text.replacen("content_sha256", "no_hash", 1);
    assert_eq!(Report::from_json(&bare).unwrap().integrity, Integrity::NoHash);
    assert!(
        Report::new(input())
            .to_html()
            .unwrap()
            .contains("no proof against a forger")
    );
}

#[test]
fn a_report_of_version_1_is_still_read() {
    let mut value: Value = serde_json::from_str(&Report::new(input()).to_json().unwrap()).unwrap();
    let record = value["record"].take();
    let mut run = record.clone();
    for (name, part) in record["training"].as_object().unwrap() {
        run[name] = part.clone();
    }
    run.as_object_mut().unwrap().remove("training");
    run.as_object_mut().unwrap().remove("device");
    run["manifest"]["device"] = json!({"backend": "cpu"});
    let fields = value.as_object_mut().unwrap();
    for name in [
        "record",
        "about",
        "content_sha256",
        "scorecard",
        "published",
        "cost",
    ] {
        fields.remove(name);
    }
    fields.insert("run".into(), run);
    fields.insert("schema_version".into(), json!(1));
    let read = Report::from_json(&value.to_string()).unwrap();
    assert_eq!(read.integrity, Integrity::NoHash);
    assert_eq!(
        read.training().unwrap().summary,
        input().training.unwrap().summary
    );
    assert!(read.record.device.is_processor());
    assert!(read.to_html().unwrap().contains("12.0 → 41.0 points"));
}

/// Every place of a JSON value, as pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                places(
                    value,
                    &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        // One of a list stands for the others.
        Value::Array(items) => {
            for (index, value) in items.iter().take(1).enumerate() {
                places(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// A report comes from anybody: whatever stands in it, it is refused in words or shown, and nothing ends the program.
#[test]
fn a_report_with_anything_in_any_place_is_refused_or_shown() {
    for record in [input(), compared(experiment())] {
        let whole: Value = serde_json::from_str(&Report::new(record).to_json().unwrap()).unwrap();
        let mut all = Vec::new();
        places(&whole, "", &mut all);
        assert!(all.len() > 150);
        let values = [
            json!(null),
            json!(-1),
            json!(u64::MAX),
            json!(1e308),
            json!("x"),
            json!([]),
            json!({}),
        ];
        for (number, place) in all.iter().enumerate() {
            // One value a place keeps the test short; all places see all kinds of values between them.
            let mut spoilt = whole.clone();
            *spoilt.pointer_mut(place).unwrap() = values[(number + number / 7) % values.len()].clone();
            if let Ok(report) = Report::from_json(&spoilt.to_string()) {
                report.to_html().unwrap();
                report.to_markdown().unwrap();
                report.preview();
                SideBySide::of(&report, &report);
            }
        }
    }
}
