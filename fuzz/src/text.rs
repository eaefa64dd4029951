//! Targets that are text: chat templates, recipes, and lines between processes.

use tunesmith_lab::recipe::{BUNDLED, HashParts, Recipe};
use tunesmith_models::{ChatTemplate, Message};
use tunesmith_protocol::{Event, ParentLine, Request, decode_event, decode_request, encode};

use crate::{Bench, told};

/// Stands between a recipe and the `--set` lines for it.
const SETTINGS: char = '\0';

/// A chat template, rendered on conversations as they occur.
pub fn chat_template(_: &Bench, input: &[u8]) {
    let Ok(source) = std::str::from_utf8(input) else {
        return;
    };
    let template = match ChatTemplate::new(source, Some("<s>"), None) {
        Ok(template) => template,
        Err(error) => return told(error.code(), &error.to_string(), input),
    };
    let turns = [
        Message::new("system", "Be brief."),
        Message::new("user", " Hello\n\u{e9}"),
        Message::new("assistant", "Hi"),
        Message::new("user", ""),
    ];
    for messages in [&turns[..0], &turns[1..3], &turns[..]] {
        for generation_prompt in [false, true] {
            if let Err(error) = template.render(messages, generation_prompt) {
                told(error.code(), &error.to_string(), input);
            }
        }
    }
}

/// A recipe in TOML and changes for it, one a line; without a recipe the changes are made to a bundled one.
pub fn recipe(_: &Bench, input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (text, settings) = text.split_once(SETTINGS).unwrap_or((&text, ""));
    let settings: Vec<String> = settings.lines().map(str::to_owned).collect();
    let text = if text.is_empty() { BUNDLED[0].1 } else { text };
    let recipe = match Recipe::parse(text, "fuzz") {
        Ok(recipe) => recipe,
        Err(error) => return told(error.code(), &error.to_string(), input),
    };
    same_when_written(&recipe);
    match recipe.with_overrides(&settings) {
        Ok(recipe) => same_when_written(&recipe),
        Err(error) => told(error.code(), &error.to_string(), input),
    }
}

/// A run keeps its recipe as TOML and reads it again when it goes on: nothing may change on the way.
fn same_when_written(recipe: &Recipe) {
    let text = recipe.to_toml().expect("a recipe that was read can be written");
    let again = Recipe::parse(&text, "written").expect("a recipe that was written can be read");
    assert_eq!(again, *recipe);
    let parts = HashParts {
        model: "m",
        rows: "r",
        adapter: None,
        questions: None,
        engine: "e",
        torch: "t",
        device_kind: "cpu",
        threads: None,
    };
    assert_eq!(again.config_hash(&parts), recipe.config_hash(&parts));
}

/// A line of an engine, and the same as a line of its parent.
pub fn protocol(_: &Bench, input: &[u8]) {
    let line = String::from_utf8_lossy(input);
    match decode_event(&line) {
        ParentLine::Event(event) => same_event(&event),
        ParentLine::Text(text) => assert_eq!(text, line.trim_end_matches(['\n', '\r'])),
    }
    match decode_request(&line) {
        Ok(request) => same_request(&request),
        Err(error) => told("frame", &error.to_string(), input),
    }
}

fn same_event(event: &Event) {
    let line = encode(event);
    assert_eq!(line.matches('\n').count(), 1);
    assert_eq!(decode_event(&line), ParentLine::Event(Box::new(event.clone())));
}

fn same_request(request: &Request) {
    let line = encode(request);
    let again = decode_request(&line).expect("a request that was read can be sent");
    assert_eq!(again, *request);
}
