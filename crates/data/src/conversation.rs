//! Conversations in the two forms that data sets have them in: `{role, content}`, and ShareGPT's `{from, value}`.

use std::borrow::Cow;

use serde_json::{Map, Value};
use tunesmith_models::Message;

use crate::LineProblem;
use crate::names::nearest;

const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// Who speaks, in words that data sets use for what chat templates call otherwise. The first list is ShareGPT's own and
/// accepted there; in messages with roles they are a mistake that is named.
const ROLE_ALIASES: [(&str, &str); 14] = [
    ("human", "user"),
    ("gpt", "assistant"),
    ("chatgpt", "assistant"),
    ("bing", "assistant"),
    ("bard", "assistant"),
    ("bot", "assistant"),
    ("model", "assistant"),
    ("ai", "assistant"),
    ("function", "tool"),
    ("function_response", "tool"),
    ("observation", "tool"),
    ("tool_response", "tool"),
    ("ipython", "tool"),
    ("prompter", "user"),
];
/// A call of a tool, as ShareGPT writes it.
const CALLS: [&str; 2] = ["function_call", "tool_call"];

/// Whether a value is a list of messages, perhaps written as text, as in CSV files.
pub(crate) fn is_conversation(value: &Value) -> bool {
    let value = parsed(value);
    value.as_array().is_some_and(|list| {
        !list.is_empty()
            && list.iter().all(|message| {
                let has = |key: &str| message.get(key).is_some();
                (has("role") && has("content")) || (has("from") && has("value"))
            })
    })
}

/// A text that is a JSON list is read as one.
fn parsed(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::String(text) if text.trim_start().starts_with('[') => {
            serde_json::from_str(text).map_or(Cow::Borrowed(value), Cow::Owned)
        }
        _ => Cow::Borrowed(value),
    }
}

/// The messages of a conversation that ends with an answer to something; `column` is where it stands.
///
/// # Errors
/// Anything that is not such a conversation.
pub(crate) fn conversation(value: &Value, column: &str) -> Result<Vec<Message>, LineProblem> {
    let value = parsed(value);
    let Value::Array(list) = value.as_ref() else {
        return Err(LineProblem::MessagesNotList {
            column: column.to_owned(),
            found: kind(&value),
        });
    };
    let messages: Vec<Message> = list
        .iter()
        .enumerate()
        .map(|(index, value)| one_message(column, index, value))
        .collect::<Result<_, _>>()?;
    match messages.last() {
        None => {
            return Err(LineProblem::EmptyText {
                column: column.to_owned(),
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
        .position(|message| message.role == "assistant")
        .unwrap_or_default();
    if !messages[..first_answer]
        .iter()
        .any(|message| message.role == "user")
    {
        return Err(LineProblem::NoQuestion);
    }
    Ok(messages)
}

fn one_message(column: &str, index: usize, value: &Value) -> Result<Message, LineProblem> {
    let shape = |found: String| LineProblem::MessageShape {
        column: column.to_owned(),
        index,
        found,
    };
    let Value::Object(fields) = value else {
        return Err(shape(kind(value).to_owned()));
    };
    let shared = fields.contains_key("from") && fields.contains_key("value");
    let (role_key, content_key) = if shared {
        ("from", "value")
    } else {
        ("role", "content")
    };
    let (Some(role), Some(content)) = (fields.get(role_key), fields.get(content_key)) else {
        let keys: Vec<&str> = fields.keys().map(String::as_str).collect();
        return Err(shape(format!("one with {}", keys.join(", "))));
    };
    let role = role_of(column, index, role_key, role, shared)?;
    // They would be lost without a word: the messages of chat templates here are role and content alone.
    if calls_tools(fields) {
        return Err(LineProblem::ToolCalls {
            column: column.to_owned(),
            index,
        });
    }
    let place = format!("{column}[{index}].{content_key}");
    let content = text(content, &place)?;
    let answer = role == "assistant";
    if content.trim().is_empty() && (answer || role == "user") {
        return Err(LineProblem::EmptyText {
            column: place,
            answer,
        });
    }
    Ok(Message::new(role, content))
}

fn role_of(column: &str, index: usize, key: &str, role: &Value, shared: bool) -> Result<String, LineProblem> {
    let role = text(role, &format!("{column}[{index}].{key}"))?;
    if ROLES.contains(&role.as_str()) {
        return Ok(role);
    }
    let lower = role.to_lowercase();
    let alias = ROLE_ALIASES
        .iter()
        .find(|(name, _)| *name == lower)
        .map(|(_, meant)| *meant);
    match alias {
        Some(meant) if shared => Ok(meant.to_owned()),
        _ if shared && CALLS.contains(&lower.as_str()) => Err(LineProblem::ToolCalls {
            column: column.to_owned(),
            index,
        }),
        _ => Err(LineProblem::UnknownRole {
            column: column.to_owned(),
            index,
            role,
            suggestion: alias.or_else(|| nearest(&lower, ROLES)),
        }),
    }
}

fn calls_tools(fields: &Map<String, Value>) -> bool {
    let none = |calls: &Value| calls.is_null() || calls.as_array().is_some_and(Vec::is_empty);
    fields.get("tool_calls").is_some_and(|calls| !none(calls))
}

fn text(value: &Value, place: &str) -> Result<String, LineProblem> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(LineProblem::NotText {
            column: place.to_owned(),
            found: kind(other),
        }),
    }
}

/// What a value is, in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Vec<(String, String)>, &'static str> {
        conversation(value, "conversations")
            .map(|messages| messages.into_iter().map(|m| (m.role, m.content)).collect())
            .map_err(|problem| problem.code())
    }

    #[test]
    fn sharegpt_speakers_become_roles() {
        let turns = json!([
            {"from": "system", "value": "s"},
            {"from": "human", "value": "q"},
            {"from": "GPT", "value": "a"},
            {"from": "observation", "value": "o"},
            {"from": "assistant", "value": "b"},
        ]);
        let expected = [
            ("system", "s"),
            ("user", "q"),
            ("assistant", "a"),
            ("tool", "o"),
            ("assistant", "b"),
        ]
        .map(|(role, content)| (role.to_owned(), content.to_owned()));
        assert_eq!(read(&turns).unwrap(), expected);
        assert_eq!(read(&Value::String(turns.to_string())).unwrap(), expected);
    }

    #[test]
    fn what_sharegpt_rows_get_wrong_is_named() {
        let first = json!({"from": "human", "value": "q"});
        for (second, code) in [
            (json!({"from": "function_call", "value": "{}"}), "tool_calls"),
            (json!({"from": "narrator", "value": "x"}), "unknown_role"),
            (json!({"from": "human", "value": "x"}), "last_not_assistant"),
            (json!({"from": "gpt", "value": ""}), "empty_answer"),
            (json!({"from": "gpt", "value": null}), "not_text"),
            (json!({"from": "gpt"}), "message_shape"),
        ] {
            assert_eq!(read(&json!([first, second])).unwrap_err(), code, "{second}");
        }
        assert_eq!(
            read(&json!([{"from": "gpt", "value": "a"}])).unwrap_err(),
            "no_question"
        );
        let problem = conversation(
            &json!([first, {"from": "narrator", "value": "x"}]),
            "conversations",
        );
        assert_eq!(
            problem.unwrap_err().to_string(),
            "conversations[1] speaks as \"narrator\"; expected system, user, assistant or tool"
        );
    }
}
