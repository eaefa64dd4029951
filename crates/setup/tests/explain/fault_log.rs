//! The project's own notes, read where they lie beside the repository (or in `TUNESMITH_NOTES`): the words in which
//! they quote a symptom are recognised as that entry's fault.

use std::fmt::Write as _;
use std::path::PathBuf;

use tunesmith_setup::explain::{Faults, explain};

use crate::logs;

/// An entry's number, and its symptom's sentences.
fn symptoms(log: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let entries = log.split("\n**B").flat_map(|part| part.split(" **B")).skip(1);
    for entry in entries {
        let number = entry.get(..2).unwrap_or_default();
        if !number.bytes().all(|byte| byte.is_ascii_digit()) || !entry.contains("Mark V") {
            continue;
        }
        let Some((_, rest)) = entry.split_once("Symptom:") else {
            continue;
        };
        let ends = [
            " Cause:",
            " Cause/fix",
            " Fix:",
            " **Rule",
            " AMD:",
            " Companion:",
            " Advice:",
            " Outcome",
            " Mark ",
            "\n",
        ];
        let end = ends
            .iter()
            .filter_map(|end| rest.find(end))
            .min()
            .unwrap_or(rest.len());
        found.push((format!("B{number}"), rest[..end].trim().to_owned()));
    }
    found
}

/// The rows of the notes' table of errors: the number, and what is seen.
fn seen(setup: &str) -> Vec<(String, String)> {
    let (_, table) = setup.split_once("# 7. Doctor").unwrap_or_default();
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let number: u32 = cells.next()?.trim().parse().ok()?;
        Some((format!("setup 7.{number}"), cells.next()?.trim().to_owned()))
    });
    rows.collect()
}

fn notes(name: &str) -> Option<String> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/knowledge");
    let path = std::env::var_os("TUNESMITH_NOTES")
        .map_or(beside, PathBuf::from)
        .join(name);
    let text = std::fs::read_to_string(&path);
    if text.is_err() {
        eprintln!("skipped: no notes at {}", path.display());
    }
    text.ok()
}

fn all_are_recognised(symptoms: &[(String, String)]) {
    let faults = Faults::built_in().expect("the built-in faults are right");
    let mut wrong = String::new();
    for (entry, symptom) in symptoms {
        let quoted = symptom.split(['`', '"']).skip(1).step_by(2);
        // A name alone, such as a function's, is no symptom.
        let texts = quoted.filter(|text| text.split_whitespace().count() > 2);
        for text in texts.chain([symptom.as_str()]) {
            for kind in logs::KINDS {
                let explained = explain(&logs::with(*kind, 90, text), None, &faults);
                let first = explained
                    .findings
                    .first()
                    .and_then(|finding| faults.get(&finding.id));
                if first.is_none_or(|row| !row.entries.contains(entry)) {
                    let ids: Vec<_> = explained.findings.iter().map(|finding| &finding.id).collect();
                    let _ = writeln!(wrong, "{entry} in {kind:?}: {ids:?} for {text:?}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_fault_logs_own_words_are_recognised() {
    let Some(log) = notes("faults.md") else { return };
    let symptoms = symptoms(&log);
    assert!(symptoms.len() > 40, "only {} symptoms were read", symptoms.len());
    all_are_recognised(&symptoms);
}

#[test]
fn the_words_of_the_table_of_errors_are_recognised() {
    let Some(setup) = notes("setup.md") else { return };
    let seen = seen(&setup);
    assert_eq!(seen.len(), 54);
    // One quotes an error that has many causes unless attention is near, one refers to the row above it.
    let without = ["setup 7.10", "setup 7.4"];
    let seen: Vec<_> = seen
        .into_iter()
        .filter(|(entry, _)| !without.contains(&entry.as_str()))
        .collect();
    all_are_recognised(&seen);
}
