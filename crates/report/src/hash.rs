//! The hash that a report carries of itself, so that a careless edit of the file is noticed. Whoever edits with care
//! can write the hash anew: it is no proof against a forger, and every rendering says so.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Name of the field that holds it.
pub(crate) const FIELD: &str = "content_sha256";

/// What the hash is worth, in the words of every rendering.
pub const WORTH: &str = "The hash shows a careless edit of report.json. It is no proof against a forger, who can write it anew; \
                         the raw record of each run, which the report names, is what a doubter should ask for.";

/// Whether a report is as it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// Made here, or read with the hash that belongs to it.
    #[default]
    AsWritten,
    /// Its content no longer has the hash that it carries.
    Edited,
    /// It carries no hash: of a version that wrote none, or taken out.
    NoHash,
}

impl Integrity {
    /// What to say of it; nothing where all is well.
    pub fn sentence(self) -> Option<&'static str> {
        match self {
            Self::AsWritten => None,
            Self::Edited => {
                Some("edited after it was written: its content no longer has the hash that it carries")
            }
            Self::NoHash => Some("it carries no hash of its content, so an edit would not be noticed"),
        }
    }

    /// Of a whole report as it was read.
    pub(crate) fn of(report: &Value) -> Self {
        match report.get(FIELD).and_then(Value::as_str).unwrap_or_default() {
            "" => Self::NoHash,
            said if said == content_hash(report) => Self::AsWritten,
            _ => Self::Edited,
        }
    }
}

/// SHA-256 of the canonical JSON of a report without the field that holds it: keys sorted, no spaces, numbers as they are
/// written. 64 lower-case hexadecimal digits.
pub(crate) fn content_hash(report: &Value) -> String {
    let mut text = String::new();
    match report {
        Value::Object(fields) => write_object(fields.iter().filter(|(key, _)| *key != FIELD), &mut text),
        other => write_value(other, &mut text),
    }
    let mut hash = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string never fails.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => write_object(fields.iter(), text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

fn write_object<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>, text: &mut String) {
    let mut fields: Vec<_> = fields.collect();
    fields.sort_by(|one, other| one.0.cmp(other.0));
    text.push('{');
    for (index, (key, value)) in fields.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&Value::String(key.clone()).to_string());
        text.push(':');
        write_value(value, text);
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn signed(mut report: Value) -> Value {
        let hash = content_hash(&report);
        report[FIELD] = json!(hash);
        report
    }

    #[test]
    fn the_hash_is_of_the_content_and_not_of_its_layout() {
        let one = json!({"b": [1, {"y": null, "x": 0.5}], "a": "q\"uote"});
        let other: Value =
            serde_json::from_str("{\"a\": \"q\\\"uote\",\n \"b\": [1, {\"x\": 0.5, \"y\": null}]}").unwrap();
        assert_eq!(content_hash(&one), content_hash(&other));
        assert_eq!(
            content_hash(&signed(one.clone())),
            content_hash(&one),
            "the hash is not part of itself"
        );
        // sha256 of {"a":"q\"uote","b":[1,{"x":0.5,"y":null}]}
        assert_eq!(content_hash(&one).len(), 64);
    }

    #[test]
    fn a_changed_digit_is_noticed_and_a_missing_hash_is_said() {
        let report = signed(json!({"speed": 129.4, "run": {"tokens": 12}}));
        assert_eq!(Integrity::of(&report), Integrity::AsWritten);
        let mut edited = report.clone();
        edited["speed"] = json!(139.4);
        assert_eq!(Integrity::of(&edited), Integrity::Edited);
        let mut bare = report;
        bare.as_object_mut().unwrap().remove(FIELD);
        assert_eq!(Integrity::of(&bare), Integrity::NoHash);
        assert_eq!(Integrity::of(&json!([])), Integrity::NoHash);
    }
}
