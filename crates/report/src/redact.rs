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

/// Replaces each secret as a whole word in every text of the machine, the recipe, the experiment, the doctor and the reasons of failures, longest
/// first, and adds a sentence for each to [`ReportInput::redactions`]. Questions and answers are left alone: they come from the data set, and
/// a changed answer would no longer be evidence. Words of less than three characters are left alone too, with a sentence.
///
/// # Errors
/// [`ReportError::Encode`]; none is known to happen.
pub fn redact(mut input: ReportInput, secrets: &[Secret]) -> Result<ReportInput, ReportError> {
    let mut ordered: Vec<&Secret> = secrets.iter().filter(|secret| !secret.text.is_empty()).collect();
    ordered.sort_by_key(|secret| std::cmp::Reverse(secret.text.len()));
    let mut calibration = serde_json::to_value(input.calibration.take()).map_err(ReportError::Encode)?;
    for secret in ordered {
        if secret.text.chars().count() < 3 {
            input.redactions.push(format!(
                "{} is too short to be replaced safely and was left alone",
                secret.what
            ));
            continue;
        }
        let in_texts: usize = texts(&mut input)
            .into_iter()
            .map(|text| replace_word(text, secret))
            .sum();
        let places =
            in_texts + replace_in(&mut input.manifest, secret) + replace_in(&mut calibration, secret);
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
    input.calibration = serde_json::from_value(calibration).map_err(ReportError::Encode)?;
    Ok(input)
}

/// Every text that may hold a private word, beside the manifest and the calibration, which are searched whole.
fn texts(input: &mut ReportInput) -> Vec<&mut String> {
    let mut all: Vec<&mut String> = vec![&mut input.device.name];
    all.extend(&mut input.repeat);
    all.extend(input.counting_rules.iter_mut().map(|rule| &mut rule.text));
    if let Some(training) = &mut input.training {
        all.extend([
            &mut training.recipe.toml,
            &mut training.recipe.title,
            &mut training.recipe.name,
            &mut training.model,
            &mut training.task,
        ]);
        all.extend(&mut training.reason);
        all.extend(&mut training.disturbed);
        all.extend(&mut training.remedies);
        all.extend(&mut training.summary.findings);
        for finding in &mut training.judge.findings {
            all.extend([&mut finding.found, &mut finding.means]);
            all.extend(&mut finding.remedies);
        }
    }
    if let Some(experiment) = &mut input.experiment {
        all.extend([
            &mut experiment.name,
            &mut experiment.title,
            &mut experiment.question,
            &mut experiment.toml,
            &mut experiment.model,
        ]);
        all.extend(experiment.runs.iter_mut().filter_map(|run| run.reason.as_mut()));
        all.extend(experiment.notes.iter_mut());
        let steps = experiment
            .ladder
            .iter_mut()
            .flat_map(|ladder| &mut ladder.gap.steps);
        all.extend(steps.map(|step| &mut step.why));
        let comparison = &mut experiment.comparison;
        for arm in &mut comparison.arms {
            all.extend(
                arm.changes
                    .iter_mut()
                    .flat_map(|change| [&mut change.from, &mut change.to]),
            );
        }
        for pair in &mut comparison.pairs {
            all.extend(
                pair.changes
                    .iter_mut()
                    .flat_map(|change| [&mut change.from, &mut change.to]),
            );
        }
    }
    if let Some(doctor) = &mut input.doctor {
        all.push(&mut doctor.opening);
        for finding in &mut doctor.findings {
            all.push(&mut finding.found);
            all.extend(&mut finding.cure);
        }
        all.extend(doctor.flags.iter_mut().flatten());
    }
    all
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
