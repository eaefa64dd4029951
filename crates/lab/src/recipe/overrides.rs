//! `--set section.key=value`: a recipe is changed for one run, with the same care as in the file.

use toml::{Table, Value};
use tunesmith_data::Role;

use super::{
    RecipeError,
    error::{closest, did_you_mean},
};

/// Alternatives of which a section holds one; setting one removes the other.
const ALTERNATIVES: [(&str, &str); 2] = [("source", "path"), ("path", "source")];

/// Keys that are absent at their default, with it: for a setting they are there.
const ABSENT: [(&str, &str, Absent); 4] = [
    ("model", "quantization", Absent::Text("none")),
    ("train", "packing", Absent::Flag(true)),
    ("train", "attention", Absent::Text("sdpa")),
    ("train", "memory_limit", Absent::Text("auto")),
];

#[derive(Clone, Copy)]
enum Absent {
    Text(&'static str),
    Flag(bool),
}

impl From<Absent> for Value {
    fn from(absent: Absent) -> Self {
        match absent {
            Absent::Text(text) => Self::String(text.to_owned()),
            Absent::Flag(flag) => Self::Boolean(flag),
        }
    }
}

/// A key that is absent where it says nothing.
const START_FROM: &str = "lora.start_from";

/// Adds the keys that are absent at their default.
pub(super) fn complete(table: &mut Table) {
    for (section, name, absent) in ABSENT {
        if let Some(Value::Table(section)) = table.get_mut(section) {
            section.entry(name).or_insert_with(|| absent.into());
        }
    }
}

pub(super) fn apply(table: &mut Table, setting: &str) -> Result<(), RecipeError> {
    let Some((key, text)) = setting.split_once('=') else {
        return Err(RecipeError::NoSetting {
            setting: setting.to_owned(),
        });
    };
    let (key, text) = (key.trim(), text.trim());
    let given = parse(text);
    complete(table);

    let (section, name) = match key.split_once('.') {
        Some((section, name)) => (Some(section), name),
        None => (None, key),
    };
    let known_keys = known_keys(table);
    let unknown = || {
        let mut hints: Vec<String> = closest(key, known_keys.iter().map(String::as_str))
            .or_else(|| {
                known_keys
                    .iter()
                    .map(String::as_str)
                    .find(|known| known.rsplit('.').next() == Some(name))
            })
            .map(did_you_mean)
            .into_iter()
            .collect();
        hints.push(format!("keys: {}", known_keys.join(", ")));
        RecipeError::UnknownKey {
            key: key.to_owned(),
            hints,
        }
    };
    let target = match section {
        Some(section) => match table.get_mut(section) {
            Some(Value::Table(inner)) => inner,
            _ => return Err(unknown()),
        },
        None => table,
    };

    let alternative = ALTERNATIVES
        .iter()
        .find(|(one, other)| *one == name && target.contains_key(*other));
    if let (Some((_, other)), Some("model" | "data")) = (alternative, section) {
        target.remove(*other);
        target.insert(name.to_owned(), Value::String(text.trim_matches('"').to_owned()));
        return Ok(());
    }
    // A recipe without an adapter to go on from does not hold the key.
    if key == START_FROM {
        target.insert(name.to_owned(), Value::String(text.trim_matches('"').to_owned()));
        return Ok(());
    }
    if section == Some("data") {
        if let ("columns", Value::Table(_)) = (name, &given) {
            target.insert(name.to_owned(), given);
            return Ok(());
        }
        if let Some(role) = name.strip_prefix("columns.") {
            let columns = target
                .entry("columns")
                .or_insert_with(|| Value::Table(Table::new()));
            // Which roles there are is checked with the whole recipe.
            if let Value::Table(columns) = columns {
                columns.insert(role.to_owned(), Value::String(text.trim_matches('"').to_owned()));
            }
            return Ok(());
        }
    }
    match target.get_mut(name) {
        Some(Value::Table(_)) | None => Err(unknown()),
        Some(current) => {
            *current = converted(key, text, current, given)?;
            Ok(())
        }
    }
}

/// The value as TOML would read it; anything else is text, so that quotes can be left out on the command line.
fn parse(text: &str) -> Value {
    toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn converted(key: &str, text: &str, current: &Value, given: Value) -> Result<Value, RecipeError> {
    let value = match (current, given) {
        (Value::Float(_), Value::Integer(number)) => Value::Float(number as f64),
        (Value::Array(_), Value::String(list)) => Value::Array(
            list.split(',')
                .map(|item| Value::String(item.trim().to_owned()))
                .collect(),
        ),
        (Value::String(_), Value::String(given)) => Value::String(given),
        // A name that looks like a number is still a name.
        (Value::String(_), _) => Value::String(text.to_owned()),
        (current, given) if current.same_type(&given) => given,
        (current, given) => {
            return Err(RecipeError::WrongType {
                key: key.to_owned(),
                wanted: kind(current),
                given: text.to_owned(),
                found: kind(&given),
            });
        }
    };
    Ok(value)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list",
        Value::Datetime(_) => "a date",
        Value::Table(_) => "a table",
    }
}

fn known_keys(table: &Table) -> Vec<String> {
    let mut keys = Vec::new();
    for (name, value) in table {
        match value {
            Value::Table(inner) => keys.extend(
                inner
                    .iter()
                    .filter(|(_, value)| !value.is_table())
                    .map(|(key, _)| format!("{name}.{key}")),
            ),
            _ => keys.push(name.clone()),
        }
    }
    keys.extend(Role::ALL.map(|role| format!("data.columns.{}", role.name())));
    let optional = [
        "model.source",
        "model.path",
        "data.source",
        "data.path",
        START_FROM,
    ];
    for key in optional.map(str::to_owned) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}
