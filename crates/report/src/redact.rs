//! Takes private words out of a report before it is shown to others, and says what was taken out (X16).

use serde_json::Value;

use crate::{ReportError, ReportInput};

/// A word that is not for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// What it is, as it fits "… was replaced", e.g. `the home folder`.
    pub what: String,
    /// The word.
    pub text: String,
    /// What stands in its place, e.g. `~`.
    pub replacement: String,
}

/// Replaces each secret as a whole word in manifest, recipe, reason, task, model name and calibration, longest first, and
/// adds a sentence for each to [`ReportInput::redactions`]. Questions and answers are left alone: they come from the data set, and a changed
/// answer would no longer be evidence. Words of less than three characters are left alone too, with a sentence.
///
/// # Errors
/// [`ReportError::Encode`]; none is known to happen.
pub fn redact(mut input: ReportInput, secrets: &[Secret]) -> Result<ReportInput, ReportError> {
    let mut ordered: Vec<&Secret> = secrets.iter().filter(|secret| !secret.text.is_empty()).collect();
    ordered.sort_by_key(|secret| std::cmp::Reverse(secret.text.len()));
    let mut open = Open {
        manifest: std::mem::take(&mut input.manifest),
        calibration: serde_json::to_value(input.calibration.take()).map_err(ReportError::Encode)?,
        texts: [
            std::mem::take(&mut input.recipe.toml),
            std::mem::take(&mut input.recipe.title),
            std::mem::take(&mut input.recipe.name),
            std::mem::take(&mut input.model),
            std::mem::take(&mut input.task),
            input.reason.take().unwrap_or_default(),
        ],
    };
    for secret in ordered {
        if secret.text.chars().count() < 3 {
            input.redactions.push(format!(
                "{} is too short to be replaced safely and was left alone",
                secret.what
            ));
            continue;
        }
        let places = open.replace(secret);
        if places > 0 {
            let times = if places == 1 {
                "once".to_owned()
            } else {
                format!("{places} times")
            };
            input.redactions.push(format!(
                "{} was replaced by {} {times}",
                secret.what, secret.replacement
            ));
        }
    }
    input.manifest = open.manifest;
    input.calibration = serde_json::from_value(open.calibration).map_err(ReportError::Encode)?;
    let [toml, title, name, model, task, reason] = open.texts;
    input.task = task;
    (
        input.recipe.toml,
        input.recipe.title,
        input.recipe.name,
        input.model,
    ) = (toml, title, name, model);
    input.reason = (!reason.is_empty()).then_some(reason);
    Ok(input)
}

/// The parts of a report that may hold private words.
struct Open {
    manifest: Value,
    calibration: Value,
    texts: [String; 6],
}

impl Open {
    fn replace(&mut self, secret: &Secret) -> usize {
        let in_texts: usize = self.texts.iter_mut().map(|text| replace_word(text, secret)).sum();
        in_texts + replace_in(&mut self.manifest, secret) + replace_in(&mut self.calibration, secret)
    }
}

fn replace_in(value: &mut Value, secret: &Secret) -> usize {
    match value {
        Value::String(text) => replace_word(text, secret),
        Value::Array(items) => items.iter_mut().map(|item| replace_in(item, secret)).sum(),
        Value::Object(fields) => {
            let mut places = 0;
            let opened = std::mem::take(fields);
            for (mut key, mut field) in opened {
                places += replace_word(&mut key, secret) + replace_in(&mut field, secret);
                fields.insert(key, field);
            }
            places
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Replaces a secret where no letter or digit stands against it: a user called `max` must not turn `max_width` into
/// noise, nor `/home/max` leave `/home/maxine` half replaced.
fn replace_word(text: &mut String, secret: &Secret) -> usize {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let (mut places, mut from) = (0, 0);
    for (at, found) in text.match_indices(secret.text.as_str()) {
        let after = at + found.len();
        let starts = !secret.text.starts_with(part_of_word) || !text[..at].ends_with(part_of_word);
        let ends = !secret.text.ends_with(part_of_word) || !text[after..].starts_with(part_of_word);
        if starts && ends {
            out.push_str(&text[from..at]);
            out.push_str(&secret.replacement);
            from = after;
            places += 1;
        }
    }
    if places > 0 {
        out.push_str(&text[from..]);
        *text = out;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str, replacement: &str) -> Secret {
        Secret {
            what: "it".into(),
            text: text.into(),
            replacement: replacement.into(),
        }
    }

    #[test]
    fn whole_words_alone() {
        let mut text = "/home/max/x /home/maxine max max_width max".to_owned();
        assert_eq!(replace_word(&mut text, &secret("/home/max", "~")), 1);
        assert_eq!(text, "~/x /home/maxine max max_width max");
        assert_eq!(replace_word(&mut text, &secret("max", "(user)")), 2);
        assert_eq!(text, "~/x /home/maxine (user) max_width (user)");
    }

    #[test]
    fn keys_and_depth() {
        let mut value = serde_json::json!({"/home/max": [{"path": "/home/max/m"}, 3, null]});
        assert_eq!(replace_in(&mut value, &secret("/home/max", "~")), 2);
        assert_eq!(value, serde_json::json!({"~": [{"path": "~/m"}, 3, null]}));
    }
}
