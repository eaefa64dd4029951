//! An experiment as people write it: which question, which arms, how often, what must hold and what is expected. It
//! is read strictly, as a recipe is, and refused where it could not answer its question (C1, C3, M8, M9).

use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use tunesmith_measure::{
    comparison::{Claim, Metric},
    gap::Measures,
};

use crate::{
    files::read_text,
    recipe::{RecipeError, toml_fault},
};

use super::{ExperimentError, checks, ready};

/// Runs of an arm below which a comparison has little to stand on (M8).
const FEW_RUNS: usize = 3;

/// What kind of question it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Two arms that differ in exactly one setting (C1).
    Ab,
    /// Several arms against the first, each with one setting or more changed.
    Sweep,
    /// One arm, run for long: does the speed hold?
    Soak,
    /// Levels between the peak of the device and a training: where does the time go (M5)?
    Gap,
}

impl Kind {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ab => "ab",
            Self::Sweep => "sweep",
            Self::Soak => "soak",
            Self::Gap => "gap",
        }
    }
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short name: letters, digits, `-` and `_`; part of the folder's name.
    pub name: String,
    /// One line for lists and the report.
    #[serde(default)]
    pub title: String,
    /// What it asks.
    #[serde(default)]
    pub question: String,
    /// What a reader of the verdict must know, e.g. whose kernels were measured.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What kind of question it is.
    pub kind: Kind,
    /// In a sweep from small to large: arms behind one that ran out of memory are not run (S4).
    #[serde(default, skip_serializing_if = "is_no")]
    pub until_oom: bool,
    /// By what the arms are compared, the most important first.
    pub metrics: Vec<Metric>,
    /// What all arms share.
    pub base: Base,
    /// How often, how long.
    #[serde(default)]
    pub run: RunSection,
    /// What changes where the runs take place on a processor, which is much slower than a card.
    #[serde(default, skip_serializing_if = "OnCpu::is_empty")]
    pub on_cpu: OnCpu,
    /// The arms; the others are compared with the first.
    pub arms: Vec<Arm>,
    /// What must hold for it to pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Claim>,
    /// What is expected, in numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Claim>,
}

/// What all arms share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// A bundled recipe by name, or a file.
    pub recipe: String,
    /// Changes of it, by dotted name.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub set: Table,
}

/// How often, how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSection {
    /// Seeds; every arm is run with each.
    pub seeds: Vec<u64>,
    /// Runs of an arm with each seed.
    pub repeats: usize,
    /// Steps before the steady window (M6).
    pub warmup_steps: u64,
    /// Steps of the steady window (M6).
    pub measured_steps: u64,
    /// Longest training of a run, in minutes (M9).
    pub time_box_minutes: f64,
    /// Whether the models are scored before and after each training.
    pub evaluate: bool,
    /// Seconds to wait before a run until other programs leave the machine alone (M19).
    pub quiet_wait_secs: f64,
    /// Whether a run that other programs disturbed is run once more (M19).
    pub repeat_disturbed: bool,
}

impl Default for RunSection {
    fn default() -> Self {
        Self {
            seeds: vec![3407, 42, 7],
            repeats: 1,
            warmup_steps: 5,
            measured_steps: 20,
            time_box_minutes: checks::MOST_MINUTES,
            evaluate: false,
            quiet_wait_secs: 60.0,
            repeat_disturbed: true,
        }
    }
}

impl RunSection {
    /// Steps of a training.
    pub fn steps(&self) -> u64 {
        self.warmup_steps + self.measured_steps
    }
}

/// What changes on a processor; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnCpu {
    /// Another recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// Changes of it, on top of the base's own.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub set: Table,
    /// Other seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seeds: Option<Vec<u64>>,
    /// Another warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_steps: Option<u64>,
    /// Another window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_steps: Option<u64>,
    /// Arms, by name, that make no sense there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_arms: Vec<String>,
    /// What must hold there instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria: Option<Vec<Claim>>,
    /// What is expected there instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictions: Option<Vec<Claim>>,
}

impl OnCpu {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// What it is called.
    pub name: String,
    /// Changes of the base, by dotted name.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub set: Table,
    /// It trains nothing: the adapter that this other arm trained with the same seed answers on this arm's base (T8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_of: Option<String>,
    /// What it measures; of a `gap` arms may measure parts of a training by themselves (M5).
    #[serde(default, skip_serializing_if = "is_training")]
    pub measures: Measures,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_no(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
pub(super) fn is_training(measures: &Measures) -> bool {
    measures.is_training()
}

impl Experiment {
    /// Reads an experiment from TOML text; `origin` names it in messages.
    ///
    /// # Errors
    /// [`ExperimentError`]: no TOML, an unknown key (with a suggestion), or a plan that cannot answer its question.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ExperimentError> {
        let example = "recipes/experiments/checkpointing.toml";
        let experiment: Self = toml::from_str(text)
            .map_err(|error| toml_fault(&format!("experiment {origin}"), example, &error, text))?;
        experiment.check()?;
        Ok(experiment)
    }

    /// Reads a ready experiment by name, or a file. A relative path of a recipe is read from the file's folder.
    ///
    /// # Errors
    /// [`ExperimentError`]: no such experiment (with a suggestion), an unreadable file, or what
    /// [`Experiment::parse`] says.
    pub fn load(name_or_path: &str) -> Result<Self, ExperimentError> {
        if let Some(text) = ready::text_of(name_or_path) {
            return Self::parse(text, name_or_path);
        }
        let path = Path::new(name_or_path);
        if !path.exists() {
            return Err(ExperimentError::unknown(name_or_path));
        }
        let text = read_text(path).map_err(RecipeError::from)?;
        let mut experiment = Self::parse(&text, name_or_path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let recipes = [
            Some(&mut experiment.base.recipe),
            experiment.on_cpu.recipe.as_mut(),
        ];
        for recipe in recipes.into_iter().flatten() {
            let beside = folder.join(&*recipe);
            if beside.is_file() {
                *recipe = beside.to_string_lossy().into_owned();
            }
        }
        Ok(experiment)
    }

    /// As it is on this device: on a processor with what `on_cpu` says.
    #[must_use]
    pub fn on_device(&self, device: &str) -> Self {
        let mut here = self.clone();
        let rule = std::mem::take(&mut here.on_cpu);
        if device != "cpu" {
            return here;
        }
        if let Some(recipe) = rule.recipe {
            here.base.recipe = recipe;
        }
        // Written with dots or as tables, a later one replaces an earlier one by its dotted name.
        let set = settings(&here.base.set).into_iter().chain(settings(&rule.set));
        here.base.set = set.collect();
        let run = &mut here.run;
        run.seeds = rule.seeds.unwrap_or(std::mem::take(&mut run.seeds));
        run.warmup_steps = rule.warmup_steps.unwrap_or(run.warmup_steps);
        run.measured_steps = rule.measured_steps.unwrap_or(run.measured_steps);
        here.arms.retain(|arm| !rule.without_arms.contains(&arm.name));
        here.criteria = rule.criteria.unwrap_or(here.criteria);
        here.predictions = rule.predictions.unwrap_or(here.predictions);
        here
    }

    /// With another recipe and further settings for all arms, on whichever device.
    #[must_use]
    pub fn with_base(&self, recipe: Option<&str>, settings: &[(String, String)]) -> Self {
        let mut other = self.clone();
        if let Some(recipe) = recipe {
            recipe.clone_into(&mut other.base.recipe);
            other.on_cpu.recipe = None;
        }
        for set in [&mut other.base.set, &mut other.on_cpu.set] {
            let mut flat: Table = self::settings(set).into_iter().collect();
            for (key, value) in settings {
                flat.insert(key.clone(), Value::String(value.clone()));
            }
            *set = flat;
        }
        other
    }

    /// Whether its runs ask test questions.
    pub fn asks_questions(&self) -> bool {
        self.run.evaluate || self.arms.iter().any(|arm| arm.adapter_of.is_some())
    }

    /// Runs of each arm.
    pub fn runs_of_an_arm(&self) -> usize {
        self.run.seeds.len() * self.run.repeats
    }

    /// What deserves a word though the experiment can be run.
    pub fn warnings(&self) -> Vec<String> {
        let runs = self.runs_of_an_arm();
        let mut warnings = Vec::new();
        if matches!(self.kind, Kind::Ab | Kind::Gap) && runs < FEW_RUNS {
            let runs = if runs == 1 {
                "one run".to_owned()
            } else {
                format!("{runs} runs")
            };
            warnings.push(format!(
                "{runs} of each arm: a comparison needs three at least, fewer are exploratory"
            ));
        }
        warnings
    }

    /// The experiment as TOML.
    ///
    /// # Errors
    /// [`ExperimentError`] when a value has no TOML form.
    pub fn to_toml(&self) -> Result<String, ExperimentError> {
        toml::to_string_pretty(self).map_err(|error| {
            ExperimentError::plan(
                format!("the experiment cannot be written as TOML: {error}"),
                Vec::new(),
            )
        })
    }
}

/// The settings of a table by dotted name: `train = { steps = 3 }` and `"train.steps" = 3` are the same.
pub(super) fn settings(set: &Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in set {
        match value {
            Value::Table(inner) => {
                for (name, value) in settings(inner) {
                    found.push((format!("{key}.{name}"), value));
                }
            }
            _ => found.push((key.clone(), value.clone())),
        }
    }
    found
}
