//! Recipes as lists of keys and values: what a run changed, and in what several runs differ.

use std::collections::BTreeMap;

use toml::{Table, Value};
use tunesmith_lab::recipe::{BUNDLED, EvaluateSection, LoraSection, OptimizerSection, Recipe};

/// Keys that tell what a recipe is called, and change nothing.
const NAMES: [&str; 3] = ["name", "title", "description"];

/// A key of a recipe in which several differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// e.g. `train.steps`.
    pub key: String,
    /// The value in each recipe; a dash where it has none.
    pub values: Vec<String>,
}

/// In what recipes differ, by key.
pub(super) fn differences(recipes: &[&Recipe]) -> Vec<Difference> {
    let all: Vec<BTreeMap<String, String>> = recipes.iter().map(|recipe| keys(recipe)).collect();
    let mut names: Vec<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|key| Difference {
            key: key.clone(),
            values: all
                .iter()
                .map(|keys| keys.get(key).cloned().unwrap_or_else(|| "–".to_owned()))
                .collect(),
        })
        .filter(|difference| {
            difference
                .values
                .iter()
                .any(|value| *value != difference.values[0])
        })
        .collect()
}

/// What a run's recipe is held against, and its name in a sentence: the recipe of its name that comes with the program,
/// or, for a recipe of the user's own, the values that it would have had where it says nothing.
pub(super) fn usual(recipe: &Recipe) -> (Recipe, String) {
    let bundled = BUNDLED.iter().find(|(name, _)| *name == recipe.name);
    if let Some(bundled) = bundled.and_then(|(name, text)| Recipe::parse(text, name).ok()) {
        let name = format!("the recipe {} that comes with the program", recipe.name);
        return (bundled, name);
    }
    let mut plain = recipe.clone();
    plain.lora = LoraSection::default();
    plain.optimizer = OptimizerSection::default();
    plain.evaluate = EvaluateSection::default();
    // What a recipe must say has no usual value.
    let must = format!(
        "steps = {}\nmicro_batch = {}\n",
        recipe.train.steps, recipe.train.micro_batch
    );
    if let Ok(train) = toml::from_str(&must) {
        plain.train = train;
    }
    (plain, "the usual values".to_owned())
}

fn keys(recipe: &Recipe) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    flatten("", &Table::try_from(recipe).unwrap_or_default(), &mut keys);
    keys.retain(|key, _| !NAMES.contains(&key.as_str()));
    keys
}

fn flatten(before: &str, table: &Table, keys: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = format!("{before}{key}");
        match value {
            Value::Table(inner) => flatten(&format!("{key}."), inner, keys),
            Value::String(text) => {
                keys.insert(key, text.clone());
            }
            Value::Array(items) => {
                let items: Vec<String> = items
                    .iter()
                    .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
                    .collect();
                keys.insert(key, items.join(", "));
            }
            other => {
                keys.insert(key, other.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(settings: &[&str]) -> Recipe {
        let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        Recipe::load("quickstart")
            .unwrap()
            .with_overrides(&settings)
            .unwrap()
    }

    #[test]
    fn only_what_differs_is_named() {
        let (one, other) = (changed(&[]), changed(&["train.steps=7", "lora.rank=4"]));
        let found = differences(&[&one, &other]);
        let keys: Vec<&str> = found.iter().map(|found| found.key.as_str()).collect();
        assert_eq!(keys, ["lora.rank", "train.steps"]);
        assert_eq!(found[1].values, [one.train.steps.to_string(), "7".to_owned()]);
        assert!(differences(&[&one, &one]).is_empty());
    }

    #[test]
    fn a_run_is_held_against_the_recipe_of_its_name_or_the_usual_values() {
        let run = changed(&["train.steps=7"]);
        let (usual_one, name) = usual(&run);
        assert!(name.contains("quickstart"));
        let found = differences(&[&usual_one, &run]);
        assert_eq!((found.len(), found[0].key.as_str()), (1, "train.steps"));

        let mut own = changed(&["lora.rank=4", "train.seed=1"]);
        own.name = "mine".to_owned();
        own.optimizer = OptimizerSection::default();
        let (usual_one, name) = usual(&own);
        assert_eq!(name, "the usual values");
        let found = differences(&[&usual_one, &own]);
        let of = |key: &str| {
            found
                .iter()
                .find(|found| found.key == key)
                .map(|found| found.values.clone())
        };
        assert_eq!(of("lora.rank").unwrap(), ["16", "4"]);
        assert_eq!(of("train.seed").unwrap(), ["3407", "1"]);
        assert_eq!(of("train.steps"), None);
        assert_eq!(of("optimizer.learning_rate"), None);
    }
}
