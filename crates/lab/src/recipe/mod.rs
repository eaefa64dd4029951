//! Recipes: what one run does, as a TOML file that people write by hand.
//!
//! A recipe is read strictly (an unknown key is a mistake, not a wish that is ignored), checked for values
//! that cannot work, and resolved into a form without `auto`, which is what a run keeps and hashes.

mod checks;
mod error;
mod overrides;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tunesmith_data::Columns;
use tunesmith_measure::fit::LimitWish;
use tunesmith_protocol::{
    Attention, Batch, DType, Lora, Optimizer, Quantization, Recompute, RowOrder, Schedule, TARGET_MODULES,
};

use crate::files::{canonical_json, read_text, sha256_hex};

pub(crate) use checks::check_device;
pub use error::RecipeError;
pub(crate) use error::{closest, toml_fault};
use error::{invalid, invalid_override};

/// The recipes that come with the program: name and text.
pub const BUNDLED: [(&str, &str); 11] = [
    ("quickstart", include_str!("../../../../recipes/quickstart.toml")),
    ("smoke", include_str!("../../../../recipes/smoke.toml")),
    ("sft-4gib", include_str!("../../../../recipes/sft-4gib.toml")),
    ("sft-8gib", include_str!("../../../../recipes/sft-8gib.toml")),
    ("sft-12gib", include_str!("../../../../recipes/sft-12gib.toml")),
    ("sft-16gib", include_str!("../../../../recipes/sft-16gib.toml")),
    ("sft-24gib", include_str!("../../../../recipes/sft-24gib.toml")),
    (
        "sft-unified-32gib",
        include_str!("../../../../recipes/sft-unified-32gib.toml"),
    ),
    (
        "sft-unified-64gib",
        include_str!("../../../../recipes/sft-unified-64gib.toml"),
    ),
    (
        "sft-unified-96gib",
        include_str!("../../../../recipes/sft-unified-96gib.toml"),
    ),
    ("sft-fp16", include_str!("../../../../recipes/sft-fp16.toml")),
];

/// The model that comes with the set-up.
pub const DEFAULT_MODEL: &str = "smollm2-135m-instruct";

/// The data set that comes with the program.
pub const TEXT_TO_SQL: &str = "text-to-sql";

/// Rows of exactly `max_length` tokens, made of the same texts: every step counts the same tokens, so speed and memory
/// are measured without the spread of row lengths (M13). There is nothing to score.
pub const FIXED_LENGTH: &str = "fixed-length";

/// What one run does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Short name: letters, digits, `-` and `_`; part of the run's id.
    pub name: String,
    /// One line for lists and the report.
    #[serde(default)]
    pub title: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Which model is tuned.
    pub model: ModelSection,
    /// What it is tuned on.
    pub data: DataSection,
    /// The adapter.
    #[serde(default)]
    pub lora: LoraSection,
    /// AdamW.
    #[serde(default)]
    pub optimizer: OptimizerSection,
    /// The run.
    pub train: TrainSection,
    /// The evaluation before and after.
    #[serde(default)]
    pub evaluate: EvaluateSection,
}

/// Which model is tuned: exactly one of `source` and `path`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// A model that set-up fetches, by name, or one of a hub: `owner/name`, with `:file.gguf` for one file of it and
    /// with `@revision` for a branch, tag or commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A GGUF file, or a folder with config.json and safetensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// How its linear weights are stored while it is tuned and asked: `none` or `nf4`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quantization: Quantization,
}

/// What it is tuned on: exactly one of `source` and `path`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSection {
    /// A data set that comes with the program, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A file: JSON lines, JSON, CSV, Parquet, plain text or Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Longest row, in tokens.
    #[serde(default = "DataSection::default_max_length")]
    pub max_length: usize,
    /// What happens to a longer row.
    #[serde(default)]
    pub long_rows: LongRows,
    /// Columns of the file by what they are, where their names do not tell: `{ prompt = "question", completion = "sql" }`.
    #[serde(default, skip_serializing_if = "Columns::is_empty")]
    pub columns: Columns,
}

impl DataSection {
    fn default_max_length() -> usize {
        1024
    }
}

/// What happens to a row that is longer than `max_length`. It is never cut: half an answer teaches half answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LongRows {
    /// The run does not start.
    #[default]
    Error,
    /// The row is left out, and the count is shown.
    Drop,
}

/// The adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoraSection {
    /// Inner dimension r.
    pub rank: i64,
    /// Numerator of the scale alpha ÷ rank.
    pub alpha: f64,
    /// Projections that get an adapter.
    pub target_modules: Vec<String>,
    /// Folder of an adapter of the same form to go on from; a fresh one where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_from: Option<PathBuf>,
}

impl Default for LoraSection {
    fn default() -> Self {
        Self {
            rank: 16,
            alpha: 32.0,
            target_modules: TARGET_MODULES.iter().map(|name| (*name).to_owned()).collect(),
            start_from: None,
        }
    }
}

/// AdamW with warm-up, schedule and clipping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerSection {
    /// Peak learning rate.
    pub learning_rate: f64,
    /// First-moment decay.
    pub beta1: f64,
    /// Second-moment decay.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Steps of linear warm-up.
    pub warmup_steps: u64,
    /// What the rate does after the warm-up.
    pub schedule: Schedule,
    /// Gradients are scaled down to this norm; 0 turns clipping off.
    pub max_grad_norm: f64,
}

impl Default for OptimizerSection {
    fn default() -> Self {
        Self {
            learning_rate: 2e-4,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            warmup_steps: 5,
            schedule: Schedule::Cosine,
            max_grad_norm: 1.0,
        }
    }
}

/// Number format of weights and activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DTypeChoice {
    /// What suits the device.
    #[default]
    Auto,
    /// 32-bit float.
    F32,
    /// bfloat16.
    Bf16,
    /// 16-bit float.
    F16,
}

/// The run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSection {
    /// Optimizer steps.
    pub steps: u64,
    /// Rows per forward and backward pass.
    pub micro_batch: usize,
    /// Passes per step.
    #[serde(default = "TrainSection::one")]
    pub accumulation: usize,
    /// What the backward pass computes again.
    #[serde(default = "TrainSection::recompute_none")]
    pub recompute: Recompute,
    /// Whether rows stand one after the other without padding.
    #[serde(default = "TrainSection::packed", skip_serializing_if = "is_yes")]
    pub packing: bool,
    /// How attention is computed: `sdpa` or `eager`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attention: Attention,
    /// Number format of weights and activations.
    #[serde(default)]
    pub dtype: DTypeChoice,
    /// Seed of the adapter's start and of the row order.
    #[serde(default = "TrainSection::default_seed")]
    pub seed: u64,
    /// `auto`, `cpu` or `cuda:N`.
    #[serde(default = "TrainSection::auto")]
    pub device: String,
    /// Longest training, in minutes (M9).
    #[serde(default = "TrainSection::default_time_box")]
    pub time_box_minutes: f64,
    /// Steps between checkpoints, from which the run can go on when it was cut short; 0 writes none.
    #[serde(default = "TrainSection::default_checkpoint_every")]
    pub checkpoint_every: u64,
    /// How much of a card's memory torch may take: `auto`, a share such as `0.8`, a size such as `20 GiB`, or `off`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_limit: LimitWish,
}

impl TrainSection {
    fn one() -> usize {
        1
    }
    fn packed() -> bool {
        true
    }
    fn recompute_none() -> Recompute {
        Recompute::None
    }
    fn default_seed() -> u64 {
        3407
    }
    fn auto() -> String {
        "auto".to_owned()
    }
    fn default_time_box() -> f64 {
        15.0
    }
    fn default_checkpoint_every() -> u64 {
        20
    }
}

/// A key at its default is not written, so that recipes from before there was one keep their text and their hash.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_yes(flag: &bool) -> bool {
    *flag
}

/// The evaluation before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluateSection {
    /// Questions that are asked, from the start of the fixed test split; 0 turns the evaluation off.
    pub questions: usize,
    /// Prompts decoded together.
    pub batch_size: usize,
    /// Longest answer, in tokens.
    pub max_new_tokens: usize,
}

impl Default for EvaluateSection {
    fn default() -> Self {
        Self {
            questions: 100,
            batch_size: 16,
            max_new_tokens: 96,
        }
    }
}

/// What the hash of a run covers besides the recipe (DESIGN 3).
#[derive(Clone, Debug)]
pub struct HashParts<'a> {
    /// Fingerprint of the model.
    pub model: &'a str,
    /// Hash of the tokenised rows.
    pub rows: &'a str,
    /// Hash of the test questions, where they are asked.
    pub questions: Option<&'a str>,
    /// Hash of the adapter that the training goes on from, where it does.
    pub adapter: Option<&'a str>,
    /// Engine and version.
    pub engine: &'a str,
    /// Version of torch.
    pub torch: &'a str,
    /// `cpu`, `cuda` or `hip`.
    pub device_kind: &'a str,
    /// Threads on a CPU, where the user chose them.
    pub threads: Option<usize>,
}

impl Recipe {
    /// Whether a run of it asks test questions before and after: there are some for the data set, and it wants any.
    pub fn asks_questions(&self) -> bool {
        self.has_questions() && self.evaluate.questions > 0
    }

    /// Whether there are test questions for its data set.
    pub fn has_questions(&self) -> bool {
        self.data.source.as_deref() == Some(TEXT_TO_SQL)
    }

    /// Reads a recipe from TOML text; `origin` names it in messages.
    ///
    /// # Errors
    /// [`RecipeError`]: no TOML, an unknown key (with a suggestion), or a value that cannot work.
    pub fn parse(text: &str, origin: &str) -> Result<Self, RecipeError> {
        let recipe: Self = toml::from_str(text).map_err(|error| invalid(&error, text, origin))?;
        recipe.check()?;
        Ok(recipe)
    }

    /// Reads a bundled recipe by name, or a file. Relative paths in a file are read from the file's folder.
    ///
    /// # Errors
    /// [`RecipeError`]: no such recipe (with a suggestion), an unreadable file, or what [`Recipe::parse`] says.
    pub fn load(name_or_path: &str) -> Result<Self, RecipeError> {
        if let Some((name, text)) = BUNDLED.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(text, name);
        }
        let path = Path::new(name_or_path);
        if !path.exists() {
            let looks_like_a_path = path.extension().is_some() || path.components().count() > 1;
            return Err(RecipeError::unknown_recipe(name_or_path, looks_like_a_path));
        }
        let text = read_text(path)?;
        let mut recipe = Self::parse(&text, name_or_path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for inner in [
            &mut recipe.model.path,
            &mut recipe.data.path,
            &mut recipe.lora.start_from,
        ]
        .into_iter()
        .flatten()
        {
            *inner = folder.join(&inner);
        }
        Ok(recipe)
    }

    /// Applies `section.key=value` changes in order; each must name an existing key and have its type.
    ///
    /// # Errors
    /// [`RecipeError`]: an unknown key (with a suggestion), a value of another type, or one that cannot work.
    pub fn with_overrides(&self, settings: &[String]) -> Result<Self, RecipeError> {
        let mut table = toml::Table::try_from(self).map_err(|error| invalid_override(&error.to_string()))?;
        for setting in settings {
            overrides::apply(&mut table, setting)?;
        }
        let recipe: Self = table
            .try_into()
            .map_err(|error: toml::de::Error| invalid_override(error.message()))?;
        recipe.check()?;
        Ok(recipe)
    }

    /// Every value by section and key, also those that files leave out at their default. Empty where a path in it is not
    /// UTF-8, which [`Self::check`] refuses.
    pub fn values(&self) -> toml::Table {
        let mut table = toml::Table::try_from(self).unwrap_or_default();
        overrides::complete(&mut table);
        table
    }

    /// Refuses values that cannot work.
    ///
    /// # Errors
    /// [`RecipeError::Impossible`] with the key and a sentence.
    pub fn check(&self) -> Result<(), RecipeError> {
        checks::check(self)
    }

    /// The recipe without `auto`: device, number format and the model's file are decided.
    #[must_use]
    pub fn resolved(&self, device: &str, dtype: DType, model: &Path) -> Self {
        let mut recipe = self.clone();
        device.clone_into(&mut recipe.train.device);
        recipe.train.dtype = match dtype {
            DType::F32 => DTypeChoice::F32,
            DType::Bf16 => DTypeChoice::Bf16,
            DType::F16 => DTypeChoice::F16,
        };
        if recipe.model.source.is_none() {
            recipe.model.path = Some(model.to_owned());
        }
        recipe
    }

    /// The number format on a device. On a CPU `auto` is f32: without bf16 arithmetic everything else is slower,
    /// and f32 is what the parity checks cover.
    pub fn dtype(&self, device: &str) -> DType {
        match self.train.dtype {
            DTypeChoice::F32 => DType::F32,
            DTypeChoice::F16 => DType::F16,
            DTypeChoice::Auto if device == "cpu" => DType::F32,
            DTypeChoice::Bf16 | DTypeChoice::Auto => DType::Bf16,
        }
    }

    /// SHA-256 over everything that changes the result and nothing else: names, paths, the time box, the limit of
    /// memory and the interval of checkpoints are left out.
    pub fn config_hash(&self, parts: &HashParts<'_>) -> String {
        // A recipe holds no map with other than string keys, so it always becomes JSON.
        let mut recipe = serde_json::to_value(self).unwrap_or(Value::Null);
        for key in ["name", "title", "description", "model"] {
            remove(&mut recipe, &[key]);
        }
        for path in [
            ["data", "path"],
            ["data", "source"],
            ["lora", "start_from"],
            ["data", "columns"],
            ["train", "time_box_minutes"],
            ["train", "checkpoint_every"],
            ["train", "device"],
            ["train", "memory_limit"],
        ] {
            remove(&mut recipe, &path);
        }
        let mut whole = json!({
            "recipe": recipe,
            "model": parts.model,
            "rows": parts.rows,
            "questions": parts.questions,
            "engine": parts.engine,
            "torch": parts.torch,
            "device_kind": parts.device_kind,
            "threads": parts.threads,
        });
        // Without one the hash is what it was before recipes could name one.
        if let (Some(adapter), Some(whole)) = (parts.adapter, whole.as_object_mut()) {
            whole.insert("adapter".to_owned(), adapter.into());
        }
        // As above; the section it stands in says where the model lies and is left out.
        let quantization = self.model.quantization;
        if let (false, Some(whole)) = (is_default(&quantization), whole.as_object_mut()) {
            whole.insert("quantization".to_owned(), quantization.name().into());
        }
        sha256_hex(canonical_json(&whole).as_bytes())
    }

    /// Rows per optimizer step, in the engine's words.
    pub fn batch(&self) -> Batch {
        Batch {
            micro_batch: self.train.micro_batch,
            accumulation: self.train.accumulation,
        }
    }

    /// The adapter, in the engine's words.
    pub fn lora(&self) -> Lora {
        Lora {
            rank: self.lora.rank,
            alpha: self.lora.alpha,
            target_modules: self.lora.target_modules.clone(),
        }
    }

    /// The optimizer, in the engine's words.
    pub fn optimizer(&self) -> Optimizer {
        let section = &self.optimizer;
        Optimizer {
            learning_rate: section.learning_rate,
            beta1: section.beta1,
            beta2: section.beta2,
            eps: section.eps,
            weight_decay: section.weight_decay,
            warmup_steps: section.warmup_steps,
            schedule: section.schedule,
            max_grad_norm: section.max_grad_norm,
        }
    }

    /// Order of rows: shuffled from the seed.
    pub fn order(&self) -> RowOrder {
        RowOrder::Shuffled
    }

    /// The recipe as TOML, every key written out but for those that are absent at their default.
    ///
    /// # Errors
    /// [`RecipeError`] when a value has no TOML form (a path that is not UTF-8).
    pub fn to_toml(&self) -> Result<String, RecipeError> {
        toml::to_string_pretty(self).map_err(|error| invalid_override(&error.to_string()))
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    match path {
        [key] => {
            if let Some(map) = value.as_object_mut() {
                map.remove(*key);
            }
        }
        [key, rest @ ..] => {
            if let Some(inner) = value.get_mut(*key) {
                remove(inner, rest);
            }
        }
        [] => {}
    }
}

#[cfg(test)]
mod tests;
