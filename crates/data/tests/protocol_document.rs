//! `docs/PROTOCOL.md` shows messages that the programs really understand, and the order that they really use.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use tunesmith_data::epoch_order;
use tunesmith_protocol::{ParentLine, Prompt, decode_command, decode_event, decode_notice, decode_request};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/PROTOCOL.md");
    fs::read_to_string(path).unwrap().replace("\r\n", "\n")
}

/// The message as the program would write it after having read it.
fn read_and_written(line: &str) -> Value {
    let kind = serde_json::from_str::<Value>(line).unwrap()["type"]
        .as_str()
        .map(str::to_owned);
    let of_a_task = serde_json::from_str::<Value>(line).unwrap()["task"].is_number();
    match kind.as_deref() {
        Some("start" | "stop") if of_a_task => serde_json::to_value(decode_command(line).unwrap()).unwrap(),
        Some("use" | "painted" | "quit" | "show_report") => {
            serde_json::to_value(decode_command(line).unwrap()).unwrap()
        }
        Some("welcome" | "earlier" | "up_to_date" | "focus" | "ask_to_quit") => {
            serde_json::to_value(decode_notice(line).unwrap()).unwrap()
        }
        Some(_) if of_a_task => serde_json::to_value(decode_notice(line).unwrap()).unwrap(),
        Some("job" | "stop") => serde_json::to_value(decode_request(line).unwrap()).unwrap(),
        Some(_) => match decode_event(line) {
            ParentLine::Event(event) => serde_json::to_value(event).unwrap(),
            ParentLine::Text(text) => panic!("no message: {text}"),
        },
        None => serde_json::to_value(serde_json::from_str::<Prompt>(line).unwrap()).unwrap(),
    }
}

#[test]
fn every_message_of_the_document_is_understood_whole() {
    let document = document();
    let blocks = document
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    for line in &lines {
        // A field that the program does not know would be ignored and be missing here.
        let expected: Value = serde_json::from_str(line).unwrap();
        assert_eq!(read_and_written(line), expected, "{line}");
    }
    let shown = |kind: &str| {
        lines
            .iter()
            .any(|line| line.contains(&format!("\"type\":\"{kind}\"")))
    };
    let kinds = [
        "job",
        "stop",
        "hello",
        "progress",
        "step",
        "check",
        "checkpoint",
        "piece",
        "answer",
        "log",
        "error",
        "result",
        "bye",
        "welcome",
        "started",
        "stage",
        "run",
        "finding",
        "answered",
        "ended",
        "refused",
        "task",
        "earlier",
        "use",
        "painted",
        "quit",
        "show_report",
        "up_to_date",
        "focus",
        "ask_to_quit",
    ];
    for kind in kinds {
        assert!(shown(kind), "{kind} has no example");
    }
    for work in ["calibrate", "train", "resume", "answer", "setup", "report"] {
        let start = format!("\"work\":\"{work}\"");
        assert!(
            lines.iter().any(|line| line.contains(&start)),
            "{work} has no example"
        );
    }
}

#[test]
fn the_orders_of_the_document_are_the_programs() {
    let document = document();
    let table = document
        .split("| rows | seed | epoch | order |\n|---|---|---|---|\n")
        .nth(1)
        .unwrap();
    let mut count = 0;
    for line in table.lines().take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let number = |index: usize| cells[index].parse::<u64>().unwrap();
        let order: Vec<usize> = cells[3].split(' ').map(|row| row.parse().unwrap()).collect();
        assert_eq!(
            epoch_order(number(0) as usize, number(1), number(2)),
            order,
            "{line}"
        );
        count += 1;
    }
    assert!(count >= 3);
}
