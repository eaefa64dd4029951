//! What can be wrong with a recipe, said so that its writer finds the place and the cure.

use crate::files::FileError;

use tunesmith_models::hub::HubError;
use tunesmith_protocol::TARGET_MODULES;

use super::BUNDLED;

/// What can be wrong with a recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// No bundled recipe and no file has this name.
    #[error("there is no recipe `{name}`: neither a bundled one nor a file")]
    Unknown {
        /// As given.
        name: String,
        /// What to do.
        hints: Vec<String>,
    },
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The text is no recipe.
    #[error("{place}: {message}")]
    Invalid {
        /// Origin and line.
        place: String,
        /// What is wrong.
        message: String,
        /// What to do.
        hints: Vec<String>,
        /// Whether an unknown key is the fault.
        unknown_key: bool,
    },
    /// `--set` names no key of a recipe.
    #[error("a recipe has no key `{key}`")]
    UnknownKey {
        /// As given.
        key: String,
        /// What to do.
        hints: Vec<String>,
    },
    /// `--set` gives a value of the wrong type.
    #[error("`{key}` takes {wanted}, but `{given}` is {found}")]
    WrongType {
        /// e.g. `train.steps`.
        key: String,
        /// e.g. `a whole number`.
        wanted: &'static str,
        /// As given.
        given: String,
        /// e.g. `text`.
        found: &'static str,
    },
    /// `--set` without `=`.
    #[error("`{setting}` is no setting: write section.key=value")]
    NoSetting {
        /// As given.
        setting: String,
    },
    /// The model's source looks like an id of a hub and is none.
    #[error("`model.source`: {0}")]
    HubId(#[from] HubError),
    /// A value that cannot work.
    #[error("`{key}` = {value}: {reason}")]
    Impossible {
        /// e.g. `lora.rank`.
        key: &'static str,
        /// As given.
        value: String,
        /// Why it cannot work.
        reason: String,
        /// What to do.
        hints: Vec<String>,
    },
}

impl RecipeError {
    /// Stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_recipe",
            Self::File(error) => error.code(),
            Self::HubId(error) => error.code(),
            Self::Invalid {
                unknown_key: true, ..
            }
            | Self::UnknownKey { .. } => "unknown_recipe_key",
            Self::Invalid { .. } => "recipe_syntax",
            Self::WrongType { .. } => "recipe_type",
            Self::NoSetting { .. } => "setting_syntax",
            Self::Impossible { .. } => "recipe_value",
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown { hints, .. }
            | Self::Invalid { hints, .. }
            | Self::UnknownKey { hints, .. }
            | Self::Impossible { hints, .. } => hints.clone(),
            Self::File(error) => error.hints(),
            Self::HubId(error) => error.hints(),
            Self::WrongType { key, .. } => vec![format!(
                "look at `{key}` in recipes/quickstart.toml for an example"
            )],
            Self::NoSetting { .. } => vec!["for example --set train.steps=20".to_owned()],
        }
    }

    pub(super) fn unknown_recipe(name: &str, looks_like_a_path: bool) -> Self {
        let names: Vec<&str> = BUNDLED.iter().map(|(name, _)| *name).collect();
        let mut hints: Vec<String> = Vec::new();
        if looks_like_a_path {
            hints.push("check the path for a typing error".to_owned());
        } else if let Some(near) = closest(name, names.iter().copied()) {
            hints.push(format!("did you mean `{near}`?"));
        }
        hints.push(format!("bundled recipes: {}", names.join(", ")));
        Self::Unknown {
            name: name.to_owned(),
            hints,
        }
    }

    pub(super) fn impossible(key: &'static str, value: String, reason: &str, hint: &str) -> Self {
        let hints = if hint.is_empty() {
            Vec::new()
        } else {
            vec![hint.to_owned()]
        };
        Self::Impossible {
            key,
            value,
            reason: reason.to_owned(),
            hints,
        }
    }

    pub(super) fn unknown_module(name: &str) -> Self {
        let mut hints: Vec<String> = closest(name, TARGET_MODULES)
            .map(did_you_mean)
            .into_iter()
            .collect();
        hints.push(format!(
            "modules that can carry an adapter: {}",
            TARGET_MODULES.join(", ")
        ));
        Self::Impossible {
            key: "lora.target_modules",
            value: format!("`{name}`"),
            reason: "no projection of that name exists".to_owned(),
            hints,
        }
    }
}

pub(super) fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// The recipe to compare with.
const EXAMPLE: &str = "recipes/quickstart.toml";

/// A serde fault with its line, and with the nearest known name where a name is unknown.
pub(super) fn invalid(error: &toml::de::Error, text: &str, origin: &str) -> RecipeError {
    toml_fault(&format!("recipe {origin}"), EXAMPLE, error, text)
}

/// The same for any file of people; `file` names it in the message, `example` is one to compare with.
pub(crate) fn toml_fault(file: &str, example: &str, error: &toml::de::Error, text: &str) -> RecipeError {
    let line = error
        .span()
        .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = match line {
        Some(line) => format!("{file}, line {line}"),
        None => file.to_owned(),
    };
    from_message(place, error.message(), example)
}

/// A fault found after overrides were applied, where there is no line to point at.
pub(super) fn invalid_override(message: &str) -> RecipeError {
    from_message("the recipe with its settings".to_owned(), message, EXAMPLE)
}

/// serde lists the known names in backticks after the unknown one, which keeps the suggestion in step with the types.
fn from_message(place: String, message: &str, example: &str) -> RecipeError {
    let message = message.trim().replace('\n', " ");
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown_key = message.starts_with("unknown field");
    let mut hints = Vec::new();
    let mut text = message.clone();
    if unknown_key || message.starts_with("unknown variant") {
        let unknown = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        hints.extend(closest(unknown, known.iter().copied()).map(did_you_mean));
        hints.push(format!(
            "known {}: {}",
            if unknown_key { "keys" } else { "values" },
            known.join(", ")
        ));
        text = format!(
            "unknown {} `{unknown}`",
            if unknown_key { "key" } else { "value" }
        );
    } else if let Some(field) = message.strip_prefix("missing field ") {
        text = format!("the key {field} is missing");
        hints.push(format!("compare with {example}"));
    }
    RecipeError::Invalid {
        place,
        message: text,
        hints,
        unknown_key,
    }
}

/// The nearest of some names, where it is near enough to be what was meant.
pub(crate) fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
