//! From an experiment to the runs that it takes: a resolved recipe for each arm, what it changes, and the order of all
//! runs, which is written down before the first of them (C1, C3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tunesmith_measure::{
    comparison::{Change, Design},
    gap::{Measures, changes_between},
};

use crate::{
    files::{canonical_json, sha256_hex},
    recipe::Recipe,
    run::now,
};

use super::{
    ExperimentError, Kind,
    file::{Arm, Experiment, is_training, settings},
};

/// Version of the plan's file; a reader refuses a later one.
pub(super) const PLAN_VERSION: u32 = 1;

/// How a setting is shown that the recipe leaves at its default.
const ABSENT: &str = "default";

/// Settings that all levels of a ladder share.
const OF_ALL_LEVELS: [&str; 3] = ["model.source", "model.path", "train.dtype"];

/// Longest name of a recipe.
const LONGEST_NAME: usize = 40;

/// The place of a run in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Number of the arm, from 0.
    pub arm: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Which run of the arm with this seed, from 0.
    pub repeat: usize,
}

/// An arm that can be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedArm {
    /// What it is called.
    pub name: String,
    /// What it changes against the first arm.
    pub changes: Vec<Change>,
    /// Its recipe, with the seed of the first run.
    pub recipe: Recipe,
    /// The arm whose adapter answers, where this one trains none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_of: Option<usize>,
    /// What it measures.
    #[serde(default, skip_serializing_if = "is_training")]
    pub measures: Measures,
}

/// What will be run, in which order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `PLAN_VERSION`.
    pub version: u32,
    /// When it was made, RFC 3339 in UTC: before the first run.
    pub created: String,
    /// SHA-256 over all that decides what is measured and what was expected of it.
    pub hash: String,
    /// Device of all runs.
    pub device: String,
    /// The arms.
    pub arms: Vec<PlannedArm>,
    /// The runs in their order.
    pub order: Vec<Slot>,
}

impl Plan {
    /// Resolves an experiment that fits the device already (see [`Experiment::on_device`]).
    ///
    /// # Errors
    /// [`ExperimentError`] for a recipe that cannot be read or set so, and for arms that differ in more than they may.
    pub fn new(experiment: &Experiment, device: &str) -> Result<Self, ExperimentError> {
        experiment.check()?;
        let base = with(&Recipe::load(&experiment.base.recipe)?, &experiment.base.set)?;
        let mut arms: Vec<PlannedArm> = Vec::new();
        for arm in &experiment.arms {
            let recipe = recipe_of(experiment, arm, &base, device)?;
            let changes = match arms.first() {
                None => Vec::new(),
                Some(_) if !arm.measures.is_training() => vec![measures_change(arm.measures)],
                Some(first) => changes(&first.recipe, &recipe),
            };
            let other = arm.adapter_of.as_deref();
            let adapter_of = other.and_then(|other| experiment.arms.iter().position(|arm| arm.name == other));
            arms.push(PlannedArm {
                name: arm.name.clone(),
                changes,
                recipe,
                adapter_of,
                measures: arm.measures,
            });
        }
        check_differences(experiment.kind, &arms)?;
        let interleaved = !experiment.until_oom && arms.iter().all(|arm| arm.adapter_of.is_none());
        Ok(Self {
            version: PLAN_VERSION,
            created: now(),
            hash: hash(experiment, &arms),
            device: device.to_owned(),
            order: order(
                arms.len(),
                &experiment.run.seeds,
                experiment.run.repeats,
                interleaved,
            ),
            arms,
        })
    }

    /// The recipe of a slot.
    pub fn recipe(&self, slot: Slot) -> Recipe {
        let mut recipe = self.arms[slot.arm].recipe.clone();
        recipe.train.seed = slot.seed;
        recipe
    }

    /// What its runs are compared by.
    pub fn design(&self, experiment: &Experiment) -> Design {
        let arms = self.arms.iter();
        Design {
            arms: arms.map(|arm| (arm.name.clone(), arm.changes.clone())).collect(),
            metrics: experiment.metrics.clone(),
            criteria: experiment.criteria.clone(),
            predictions: experiment.predictions.clone(),
        }
    }
}

/// The order of the runs: for each repeat and seed all arms, forwards and backwards in turn (A B B A …), so that a
/// machine that grows warm or slow over hours does so for all arms alike. Where arms depend on each other, always
/// forwards.
pub fn order(arms: usize, seeds: &[u64], repeats: usize, interleaved: bool) -> Vec<Slot> {
    let rounds = (0..repeats).flat_map(|repeat| seeds.iter().map(move |seed| (repeat, *seed)));
    rounds
        .enumerate()
        .flat_map(|(round, (repeat, seed))| {
            let back = interleaved && round % 2 == 1;
            (0..arms).map(move |place| Slot {
                arm: if back { arms - 1 - place } else { place },
                seed,
                repeat,
            })
        })
        .collect()
}

/// A recipe with the settings of a table.
fn with(recipe: &Recipe, set: &toml::Table) -> Result<Recipe, ExperimentError> {
    let settings: Vec<String> = settings(set)
        .into_iter()
        .map(|(key, value)| match value {
            toml::Value::String(text) => format!("{key}={text}"),
            value => format!("{key}={value}"),
        })
        .collect();
    Ok(recipe.with_overrides(&settings)?)
}

fn recipe_of(
    experiment: &Experiment,
    arm: &Arm,
    base: &Recipe,
    device: &str,
) -> Result<Recipe, ExperimentError> {
    let run = &experiment.run;
    let mut recipe = with(base, &arm.set)?;
    recipe.name = recipe_name(&experiment.name, &arm.name);
    recipe.title = format!("{}: {}", experiment.title, arm.name);
    recipe.description.clone_from(&experiment.question);
    recipe.train.steps = run.steps();
    recipe.train.time_box_minutes = run.time_box_minutes;
    recipe.train.seed = run.seeds[0];
    device.clone_into(&mut recipe.train.device);
    if arm.measures == Measures::Decoding {
        if recipe.evaluate.questions == 0 {
            return Err(ExperimentError::plan(
                format!("the arm \"{}\" answers questions, and asks none", arm.name),
                vec!["give it some: set = { \"evaluate.questions\" = 10 }".to_owned()],
            ));
        }
        // One answer at a time is what it is about (M4, M5).
        recipe.evaluate.batch_size = 1;
    } else if run.evaluate {
        if recipe.evaluate.questions == 0 || !recipe.asks_questions() {
            return Err(ExperimentError::plan(
                format!(
                    "the arm \"{}\" shall be scored, and its recipe asks no test questions",
                    arm.name
                ),
                vec![
                    "the data set text-to-sql has questions, and evaluate.questions says how many are asked"
                        .to_owned(),
                ],
            ));
        }
    } else {
        recipe.evaluate.questions = 0;
    }
    // A checkpoint that is written in the steady window would be measured with it.
    recipe.train.checkpoint_every = 0;
    let paths = [
        &mut recipe.model.path,
        &mut recipe.data.path,
        &mut recipe.lora.start_from,
    ];
    for path in paths.into_iter().flatten() {
        // Whoever goes on with the experiment may stand in another folder.
        *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
    }
    recipe.check()?;
    Ok(recipe)
}

/// Part of the run's id.
fn recipe_name(experiment: &str, arm: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name = format!("{experiment}-{arm}");
    name.chars().map(plain).take(LONGEST_NAME).collect()
}

/// Two arms of an A/B differ in exactly one setting (C1), and no arm of a sweep is the first one again.
fn check_differences(kind: Kind, arms: &[PlannedArm]) -> Result<(), ExperimentError> {
    if kind == Kind::Gap {
        return check_levels(arms);
    }
    for arm in arms.iter().skip(1) {
        let [first, rest @ ..] = arm.changes.as_slice() else {
            return Err(ExperimentError::NoDifference {
                arm: arm.name.clone(),
                other: arms[0].name.clone(),
            });
        };
        if let (Kind::Ab, Some(second)) = (kind, rest.first()) {
            return Err(ExperimentError::SecondDifference {
                first: first.key.clone(),
                second: second.key.clone(),
            });
        }
    }
    Ok(())
}

/// How an arm that measures something by itself differs from one that trains.
fn measures_change(measures: Measures) -> Change {
    Change {
        key: "measures".to_owned(),
        from: Measures::Training.name().to_owned(),
        to: measures.name().to_owned(),
    }
}

/// Each training of a ladder changes exactly one setting of the training before it, and none that would make it one of
/// another model or number format (M5, C1).
fn check_levels(arms: &[PlannedArm]) -> Result<(), ExperimentError> {
    let trainings: Vec<&PlannedArm> = arms.iter().filter(|arm| arm.measures.is_training()).collect();
    for pair in trainings.windows(2) {
        let changed = changes_between(&pair[0].changes, &pair[1].changes);
        let [only, rest @ ..] = changed.as_slice() else {
            return Err(ExperimentError::NoDifference {
                arm: pair[1].name.clone(),
                other: pair[0].name.clone(),
            });
        };
        if let Some(second) = rest.first() {
            return Err(ExperimentError::SecondDifference {
                first: only.key.clone(),
                second: second.key.clone(),
            });
        }
        if OF_ALL_LEVELS.contains(&only.key.as_str()) {
            return Err(ExperimentError::plan(
                format!(
                    "the arm \"{}\" changes `{}`: all levels are of one model, one device and one number format",
                    pair[1].name, only.key
                ),
                vec!["set it in [base]; --recipe takes another model for all of them".to_owned()],
            ));
        }
    }
    Ok(())
}

/// What the second recipe has otherwise than the first, by dotted name. Names, which say nothing of the work, are left
/// out.
pub fn changes(from: &Recipe, to: &Recipe) -> Vec<Change> {
    let (from, to) = (flat(from), flat(to));
    let keys: std::collections::BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    keys.into_iter()
        .filter(|key| from.get(*key) != to.get(*key))
        .map(|key| Change {
            key: key.clone(),
            from: from.get(key).cloned().unwrap_or_else(|| ABSENT.to_owned()),
            to: to.get(key).cloned().unwrap_or_else(|| ABSENT.to_owned()),
        })
        .collect()
}

fn flat(recipe: &Recipe) -> BTreeMap<String, String> {
    // A recipe holds strings, numbers, flags and lists, so it always becomes JSON.
    let value = serde_json::to_value(recipe).unwrap_or(Value::Null);
    let mut found = BTreeMap::new();
    flatten("", &value, &mut found);
    for name in ["name", "title", "description"] {
        found.remove(name);
    }
    found
}

fn flatten(prefix: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten(&format!("{prefix}{dot}{key}"), value, found);
            }
        }
        Value::String(text) => {
            found.insert(prefix.to_owned(), text.clone());
        }
        value => {
            found.insert(prefix.to_owned(), value.to_string());
        }
    }
}

/// Over what decides the figures and what was expected of them: a prediction that is changed after the runs belongs to
/// another experiment. Titles and words are left out, and how long a run waits for a quiet machine.
fn hash(experiment: &Experiment, arms: &[PlannedArm]) -> String {
    let recipes: Vec<BTreeMap<String, String>> = arms.iter().map(|arm| flat(&arm.recipe)).collect();
    let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
    let of: Vec<Option<usize>> = arms.iter().map(|arm| arm.adapter_of).collect();
    let run = &experiment.run;
    let mut whole = json!({
        "kind": experiment.kind,
        "until_oom": experiment.until_oom,
        "arms": names,
        "recipes": recipes,
        "adapter_of": of,
        "seeds": run.seeds,
        "repeats": run.repeats,
        "warmup_steps": run.warmup_steps,
        "metrics": experiment.metrics,
        "criteria": experiment.criteria,
        "predictions": experiment.predictions,
    });
    // Without one the hash is what it was before arms could measure something else.
    let measures: Vec<Measures> = arms.iter().map(|arm| arm.measures).collect();
    if let (false, Some(whole)) = (
        measures.iter().all(|measures| measures.is_training()),
        whole.as_object_mut(),
    ) {
        whole.insert("measures".to_owned(), json!(measures));
    }
    sha256_hex(canonical_json(&whole).as_bytes())
}
