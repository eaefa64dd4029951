//! The one command that repeats a run: the bundled recipe with what this run changed, or the recipe that stands in the report.

use crate::{experiment::changes, recipe::Recipe};

/// Settings that a machine decides for itself, or that say nothing of the work.
const OF_THE_MACHINE: [&str; 4] = ["model.path", "train.device", "train.dtype", "train.threads"];

/// The command.
pub(super) fn command(recipe: &Recipe, device: &str) -> String {
    let device = if device == "cpu" { " --device cpu" } else { "" };
    let from_file =
        || format!("tunesmith train recipe.toml{device}    # recipe.toml: the recipe as it was run, below");
    let Ok(bundled) = Recipe::load(&recipe.name) else {
        return from_file();
    };
    let mut line = format!("tunesmith train {}{device}", recipe.name);
    for change in changes(&bundled, recipe) {
        if OF_THE_MACHINE.contains(&change.key.as_str()) {
            continue;
        }
        // What the bundled recipe has and this one leaves at its default cannot be said by a setting.
        if change.to == "default" || change.to.is_empty() {
            return from_file();
        }
        line.push_str(&format!(
            " --set {}",
            quoted(&format!("{}={}", change.key, change.to))
        ));
    }
    line
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    let plain = word
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "=._-/:@+,%".contains(letter));
    if plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tunesmith_protocol::DType;

    fn quickstart() -> Recipe {
        Recipe::load("quickstart").unwrap()
    }

    #[test]
    fn a_bundled_recipe_is_named_with_what_was_changed() {
        let resolved = quickstart().resolved("cpu", DType::F32, Path::new("/somewhere/model.gguf"));
        assert_eq!(
            command(&resolved, "cpu"),
            "tunesmith train quickstart --device cpu"
        );
        let mut changed = quickstart().resolved("cuda:0", DType::Bf16, Path::new("/x"));
        changed.train.seed = 42;
        assert_eq!(
            command(&changed, "cuda:0"),
            "tunesmith train quickstart --set train.seed=42"
        );
    }

    #[test]
    fn a_recipe_of_ones_own_is_the_one_in_the_report() {
        let own = Recipe {
            name: "mine".into(),
            ..quickstart()
        };
        assert!(command(&own, "cpu").starts_with("tunesmith train recipe.toml --device cpu"));
    }

    #[test]
    fn words_are_safe_for_a_shell() {
        assert_eq!(quoted("train.seed=42"), "train.seed=42");
        assert_eq!(quoted("a=b c'd"), "'a=b c'\\''d'");
    }
}
