//! Which column of a data set is what: chosen by the user, else guessed by name and content, and told either way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tunesmith_models::Message;

use crate::LineProblem;
use crate::conversation::{conversation, is_conversation, kind};
use crate::names::{nearest, suggest};

/// What a column can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A conversation: a list of `{role, content}` or, as ShareGPT has it, `{from, value}`.
    Messages,
    /// What the user says.
    #[serde(alias = "instruction")]
    Prompt,
    /// More of what the user says, put below the prompt after a blank line.
    Input,
    /// The answer.
    #[serde(alias = "output")]
    Completion,
    /// The system message.
    System,
    /// Running text, trained in full.
    Text,
    /// The row's name.
    Id,
}

/// Columns by what they are.
pub type Columns = BTreeMap<Role, String>;

impl Role {
    /// The key in a recipe.
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Prompt => "prompt",
            Self::Input => "input",
            Self::Completion => "completion",
            Self::System => "system",
            Self::Text => "text",
            Self::Id => "id",
        }
    }

    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Messages,
        Self::Prompt,
        Self::Input,
        Self::Completion,
        Self::System,
        Self::Text,
        Self::Id,
    ];

    /// Names that columns of this kind go by, the likeliest first.
    fn usual_names(self) -> &'static [&'static str] {
        match self {
            Self::Messages => &[
                "messages",
                "conversations",
                "conversation",
                "dialog",
                "dialogue",
                "chat",
            ],
            Self::Prompt => &[
                "prompt",
                "instruction",
                "question",
                "query",
                "problem",
                "user",
                "input",
            ],
            Self::Input => &["input", "context"],
            Self::Completion => &[
                "completion",
                "output",
                "answer",
                "response",
                "target",
                "sql",
                "solution",
                "chosen",
                "assistant",
            ],
            Self::System => &["system", "system_prompt"],
            Self::Text => &["text", "content", "body"],
            Self::Id => &["id"],
        }
    }

    /// Why a column was used as this, for people: it was chosen, or its name or its content tells.
    pub fn why(self, column: &str, chosen: &Columns) -> &'static str {
        let usual = self
            .usual_names()
            .iter()
            .any(|usual| usual.eq_ignore_ascii_case(column));
        match self {
            _ if chosen.get(&self).is_some_and(|name| name == column) => "you chose it",
            _ if usual => "its name is a usual one for this",
            Self::Messages => "it holds conversations",
            _ => "it is the text beside an answer",
        }
    }

    /// Whether a row may lack it.
    fn optional(self) -> bool {
        matches!(self, Self::Input | Self::System | Self::Id)
    }
}

/// A row as what it will be trained as.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meaning {
    Conversation(Vec<Message>),
    Text(String),
}

/// The columns of a row that are used, each with what it is used as.
///
/// # Errors
/// A chosen column is not there, or none tells what the row is.
pub(crate) fn assign(row: &Map<String, Value>, chosen: &Columns) -> Result<Columns, LineProblem> {
    let mut columns = Columns::new();
    for (role, name) in chosen {
        if row.contains_key(name) {
            columns.insert(*role, name.clone());
        } else if !role.optional() {
            return Err(LineProblem::NoSuchColumn {
                column: name.clone(),
                role: role.name(),
                seen: names(row),
                suggestion: nearest(&name.to_lowercase(), row.keys().map(String::as_str)).map(str::to_owned),
            });
        }
    }
    let taken = |columns: &Columns, name: &str| columns.values().any(|taken| taken == name);
    let guess = |columns: &Columns, role: Role| {
        role.usual_names()
            .iter()
            .find_map(|usual| row.keys().find(|name| name.eq_ignore_ascii_case(usual)))
            .filter(|name| !taken(columns, name))
            .cloned()
    };
    let has = |columns: &Columns, role: Role| columns.contains_key(&role);
    let is_told = |columns: &Columns| {
        has(columns, Role::Messages)
            || has(columns, Role::Text)
            || (has(columns, Role::Prompt) && has(columns, Role::Completion))
    };
    let asks = has(&columns, Role::Prompt) || has(&columns, Role::Completion);
    if !is_told(&columns) && !asks {
        columns.extend(messages_column(row).map(|name| (Role::Messages, name)));
    }
    if !is_told(&columns) {
        for role in [Role::Completion, Role::Prompt] {
            if !has(&columns, role) {
                let found = guess(&columns, role);
                columns.extend(found.map(|name| (role, name)));
            }
        }
        match (has(&columns, Role::Prompt), has(&columns, Role::Completion)) {
            (true, true) => {}
            // A text beside an answer is what is asked about.
            (false, true) if guess(&columns, Role::Text).is_some() => {
                let text = guess(&columns, Role::Text);
                columns.extend(text.map(|name| (Role::Prompt, name)));
            }
            (false, false) => match guess(&columns, Role::Text) {
                Some(name) => _ = columns.insert(Role::Text, name),
                None => {
                    return Err(LineProblem::UnknownColumns {
                        seen: names(row),
                        suggestion: suggest(
                            row.keys(),
                            &[
                                "messages",
                                "prompt",
                                "completion",
                                "instruction",
                                "output",
                                "text",
                            ],
                        ),
                    });
                }
            },
            (prompt, _) => return Err(missing(row, &columns, prompt)),
        }
    }
    // Alpaca's `input` belongs to an `instruction`; beside a `prompt` it is something else.
    let has_instruction = columns
        .get(&Role::Prompt)
        .is_some_and(|name| name.eq_ignore_ascii_case("instruction"));
    for (role, wanted) in [
        (Role::Input, has_instruction),
        (Role::System, !has(&columns, Role::Text)),
        (Role::Id, true),
    ] {
        if wanted && !has(&columns, role) {
            let found = guess(&columns, role);
            columns.extend(found.map(|name| (role, name)));
        }
    }
    Ok(columns)
}

/// A prompt without an answer, or an answer without a prompt; called by what the other one is called.
fn missing(row: &Map<String, Value>, columns: &Columns, has_prompt: bool) -> LineProblem {
    let is = |role: Role, name: &str| columns.get(&role).is_some_and(|found| found == name);
    let column = match (
        has_prompt,
        is(Role::Prompt, "instruction"),
        is(Role::Completion, "output"),
    ) {
        (true, true, _) => "output",
        (true, false, _) => "completion",
        (false, _, true) => "instruction",
        (false, _, false) => "prompt",
    };
    LineProblem::MissingColumn {
        column,
        seen: names(row),
        suggestion: suggest(row.keys(), &[column]),
    }
}

/// By name where the content may be a conversation, else by content alone.
fn messages_column(row: &Map<String, Value>) -> Option<String> {
    let named = |usual: &str| row.keys().find(|name| name.eq_ignore_ascii_case(usual));
    if let Some(exact) = named("messages") {
        return Some(exact.clone());
    }
    let listed =
        |name: &&String| matches!(row.get(*name), Some(Value::Array(_))) || is_conversation(&row[*name]);
    let by_name = Role::Messages
        .usual_names()
        .iter()
        .find_map(|usual| named(usual).filter(listed));
    by_name
        .or_else(|| row.keys().find(|name| is_conversation(&row[*name])))
        .cloned()
}

/// What a row says, read by its columns.
///
/// # Errors
/// A column holds something else than it should.
pub(crate) fn meaning(row: &Map<String, Value>, columns: &Columns) -> Result<Meaning, LineProblem> {
    let column = |role: Role| columns.get(&role).map(String::as_str);
    if let Some(name) = column(Role::Text) {
        return Ok(Meaning::Text(required(row, name, true)?));
    }
    let system = match column(Role::System) {
        Some(name) => optional(row, name)?,
        None => None,
    };
    let mut messages = Vec::with_capacity(3);
    messages.extend(system.map(|system| Message::new("system", system)));
    if let Some(name) = column(Role::Messages) {
        let told = conversation(row.get(name).unwrap_or(&Value::Null), name)?;
        // The conversation's own system message is nearer to it than the column's.
        if told.first().is_some_and(|first| first.role == "system") {
            messages.clear();
        }
        messages.extend(told);
        return Ok(Meaning::Conversation(messages));
    }
    let mut prompt = required(row, column(Role::Prompt).unwrap_or("prompt"), false)?;
    if let Some(name) = column(Role::Input)
        && let Some(input) = optional(row, name)?
    {
        prompt.push_str("\n\n");
        prompt.push_str(&input);
    }
    let completion = required(row, column(Role::Completion).unwrap_or("completion"), true)?;
    messages.push(Message::new("user", prompt));
    messages.push(Message::new("assistant", completion));
    Ok(Meaning::Conversation(messages))
}

/// The row's own id, where it has one.
pub(crate) fn row_id(row: &Map<String, Value>, columns: &Columns) -> Result<Option<String>, LineProblem> {
    let Some(name) = columns.get(&Role::Id) else {
        return Ok(None);
    };
    match row.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) => Ok(Some(id.clone())),
        Some(Value::Number(id)) => Ok(Some(id.to_string())),
        Some(other) => Err(LineProblem::NotText {
            column: name.clone(),
            found: kind(other),
        }),
    }
}

pub(crate) fn names(row: &Map<String, Value>) -> Vec<String> {
    row.keys().cloned().collect()
}

fn required(row: &Map<String, Value>, column: &str, answer: bool) -> Result<String, LineProblem> {
    let value = text(row.get(column).unwrap_or(&Value::Null), column)?;
    if value.trim().is_empty() {
        return Err(LineProblem::EmptyText {
            column: column.to_owned(),
            answer,
        });
    }
    Ok(value)
}

/// A column that may be missing, null or empty, which all mean the same.
fn optional(row: &Map<String, Value>, column: &str) -> Result<Option<String>, LineProblem> {
    match row.get(column) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => Ok(Some(text(value, column)?).filter(|text| !text.trim().is_empty())),
    }
}

fn text(value: &Value, column: &str) -> Result<String, LineProblem> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(LineProblem::NotText {
            column: column.to_owned(),
            found: kind(other),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn columns(row: &Value, chosen: &[(Role, &str)]) -> Result<Vec<(Role, String)>, LineProblem> {
        let chosen = chosen
            .iter()
            .map(|(role, name)| (*role, (*name).to_owned()))
            .collect();
        assign(row.as_object().unwrap(), &chosen).map(|columns| columns.into_iter().collect())
    }

    fn guessed(row: &Value) -> Vec<(Role, String)> {
        columns(row, &[]).unwrap()
    }

    fn is(role: Role, name: &str) -> (Role, String) {
        (role, name.to_owned())
    }

    #[test]
    fn usual_names_are_understood() {
        let pairs = [
            ("question", "sql"),
            ("Prompt", "Completion"),
            ("query", "response"),
            ("input", "output"),
        ];
        for (prompt, completion) in pairs {
            assert_eq!(
                guessed(&json!({prompt: "p", completion: "c", "extra": 1})),
                [is(Role::Prompt, prompt), is(Role::Completion, completion)]
            );
        }
        assert_eq!(
            guessed(&json!({"instruction": "i", "input": "x", "output": "o", "system_prompt": "s", "id": 3})),
            [
                is(Role::Prompt, "instruction"),
                is(Role::Input, "input"),
                is(Role::Completion, "output"),
                is(Role::System, "system_prompt"),
                is(Role::Id, "id")
            ]
        );
        assert_eq!(
            guessed(&json!({"title": "t", "text": "x"})),
            [is(Role::Text, "text")]
        );
        assert_eq!(
            guessed(&json!({"text": "x", "target": "t"})),
            [is(Role::Prompt, "text"), is(Role::Completion, "target")]
        );
    }

    #[test]
    fn a_conversation_is_known_by_its_content_whatever_its_name() {
        let shared = json!([{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]);
        assert_eq!(
            guessed(&json!({"prompt": "p", "turns": shared})),
            [is(Role::Messages, "turns")]
        );
        assert_eq!(
            guessed(&json!({"conversations": []})),
            [is(Role::Messages, "conversations")]
        );
        let as_text = shared.to_string();
        assert_eq!(guessed(&json!({"chat": as_text})), [is(Role::Messages, "chat")]);
        assert_eq!(
            guessed(&json!({"chat": "hello", "question": "q", "answer": "a"})),
            [is(Role::Prompt, "question"), is(Role::Completion, "answer")]
        );
    }

    #[test]
    fn chosen_columns_win_and_the_rest_is_guessed() {
        let row = json!({"question": "q", "answer": "a", "sql": "s", "system": "y"});
        assert_eq!(
            columns(&row, &[(Role::Completion, "sql")]).unwrap(),
            [
                is(Role::Prompt, "question"),
                is(Role::Completion, "sql"),
                is(Role::System, "system")
            ]
        );
        assert_eq!(
            columns(&row, &[(Role::Text, "answer")]).unwrap(),
            [is(Role::Text, "answer")]
        );
        let error = columns(&row, &[(Role::Completion, "anser")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no column anser for the completion; the columns are question, answer, sql, system"
        );
        assert_eq!(error.hints(), ["did you mean answer?"]);
    }

    #[test]
    fn recipes_may_call_columns_as_alpaca_does() {
        let columns: Columns = serde_json::from_value(json!({"instruction": "a", "output": "b"})).unwrap();
        assert_eq!(
            columns.into_iter().collect::<Vec<_>>(),
            [is(Role::Prompt, "a"), is(Role::Completion, "b")]
        );
        assert_eq!(
            serde_json::to_value(Role::ALL).unwrap(),
            json!(Role::ALL.map(Role::name))
        );
    }
}
