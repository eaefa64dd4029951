//! The manifest as the page shows it.

use serde::Serialize;
use serde_json::Value;

use crate::format::shorten;

/// A group of what a report says of the surroundings of its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// e.g. `machine`.
    pub name: String,
    /// Key and value.
    pub rows: Vec<[String; 2]>,
}

/// Objects at the top become groups; what lies deeper becomes dotted keys.
pub(crate) fn groups(manifest: &Value) -> Vec<Group> {
    let Value::Object(fields) = manifest else {
        let mut rows = Vec::new();
        flatten("value", manifest, &mut rows);
        rows.retain(|row| !row[1].is_empty());
        return if rows.is_empty() {
            Vec::new()
        } else {
            vec![Group {
                name: "Manifest".to_owned(),
                rows,
            }]
        };
    };
    let mut loose = Group {
        name: "Run".to_owned(),
        rows: Vec::new(),
    };
    let mut groups = Vec::new();
    for (key, value) in fields {
        if let Value::Object(inner) = value {
            let mut rows = Vec::new();
            for (key, value) in inner {
                flatten(key, value, &mut rows);
            }
            groups.push(Group {
                name: key.replace('_', " "),
                rows,
            });
        } else {
            flatten(key, value, &mut loose.rows);
        }
    }
    groups.insert(0, loose);
    groups.retain(|group| !group.rows.is_empty());
    groups
}

fn flatten(key: &str, value: &Value, rows: &mut Vec<[String; 2]>) {
    const LONGEST: usize = 2000;
    match value {
        Value::Object(fields) => {
            for (inner, value) in fields {
                flatten(&format!("{key}.{inner}"), value, rows);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{key}.{}", index + 1), item, rows);
            }
        }
        Value::Array(items) => {
            let text: Vec<String> = items.iter().map(plain).collect();
            rows.push([key.to_owned(), shorten(&text.join(", "), LONGEST)]);
        }
        _ => rows.push([key.to_owned(), shorten(&plain(value), LONGEST)]),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "unknown".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}
