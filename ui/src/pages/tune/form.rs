//! What the user has set for a training, as plain data: the recipe that it starts from, and what differs. The recipe's own
//! checks decide what is right, so the window refuses exactly what a training would refuse.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};
use toml::Value;
use tunesmith_data::Columns;
use tunesmith_lab::recipe::{Recipe, RecipeError};
use tunesmith_protocol::Trainer;

use super::{file_name, model_name};

/// The key of errors that belong to no field.
pub(super) const WHOLE: &str = "";
/// The key of the model's place.
pub(super) const MODEL: &str = "model.source";
/// The key of the adapter that is gone on from, which recipes may lack.
pub(super) const START_FROM: &str = "lora.start_from";
/// The key of the adapted projections.
pub(super) const MODULES: &str = "lora.target_modules";
/// The key of the number of threads, which is no part of a recipe.
pub(super) const THREADS: &str = "threads";
/// The key of who trains, which is none either.
const TRAINER: &str = "trainer";
/// Most threads that can be asked for, here as on the command line.
pub(super) const MOST_THREADS: usize = 1024;

/// Which recipe the form starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// What the plan recommends for the device.
    #[default]
    Recommended,
    /// One that comes with the program, by name.
    Bundled(String),
    /// A file of the user's own.
    File(PathBuf),
}

/// Another model than the recipe's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelChoice {
    /// By the name that a recipe writes as `model.source`.
    Source(String),
    /// A folder or GGUF file.
    Path(PathBuf),
}

/// A data set of the user's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnData {
    /// The file, absolute.
    pub path: PathBuf,
    /// Columns that were chosen; the others are guessed.
    #[serde(default)]
    pub columns: Columns,
}

/// The form. What is not set is the recipe's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneForm {
    /// Which recipe it starts from.
    pub origin: Origin,
    /// Another model.
    pub model: Option<ModelChoice>,
    /// Other data.
    pub data: Option<OwnData>,
    /// What was typed into a field, by the recipe's key, right or wrong.
    pub typed: BTreeMap<String, String>,
    /// Who trains.
    pub trainer: Trainer,
    /// Threads on a processor as they were typed, right or wrong; all where nothing was.
    pub threads: String,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// What and why.
    pub message: String,
    /// What to do, one sentence each.
    pub hints: Vec<String>,
}

/// A form that has been checked against the recipe that it starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The recipe that it starts from, as texts by key.
    pub base: BTreeMap<String, String>,
    /// The recipe that it makes, where nothing is wrong.
    pub recipe: Option<Recipe>,
    /// What is wrong, by key; under a key of its own where it belongs to no field.
    pub errors: BTreeMap<String, FieldError>,
    /// Fields whose value differs from the recipe's.
    pub changed: BTreeSet<String>,
    /// Who trains.
    pub trainer: Trainer,
    /// Threads on a processor; all where there is no number.
    pub threads: Option<usize>,
}

impl Checked {
    /// What a field shows.
    pub fn text<'a>(&'a self, form: &'a TuneForm, key: &str) -> &'a str {
        let text = form.typed.get(key).or_else(|| self.base.get(key));
        text.map_or("", String::as_str)
    }
}

impl TuneForm {
    /// Checks the form against the recipe that it starts from.
    pub fn check(&self, base: &Recipe) -> Checked {
        let start = self.with_choices(base);
        let texts = texts(&start);
        let mut errors = BTreeMap::new();
        let mut settings: BTreeMap<&str, String> = BTreeMap::new();
        for (key, text) in &self.typed {
            match typing_error(&start, key, text) {
                Some(error) => _ = errors.insert(key.clone(), error),
                None => _ = settings.insert(key, setting(key, text)),
            }
        }
        let recipe = combine(&start, settings, &mut errors);
        let threads = self.threads().unwrap_or_else(|error| {
            errors.insert(THREADS.to_owned(), error);
            None
        });
        let after = recipe.as_ref().map(self::texts);
        // What is wrong is not in the recipe, and differs all the same.
        let differs = |key: &&String| {
            let value = after.as_ref().filter(|_| !errors.contains_key(*key));
            match value {
                Some(after) => after.get(*key) != texts.get(*key),
                None => texts.get(*key) != self.typed.get(*key),
            }
        };
        let typed = self.typed.keys().filter(differs).cloned();
        let beside = [
            (TRAINER, self.trainer != Trainer::Native),
            (THREADS, !self.threads.trim().is_empty()),
        ];
        let beside = beside
            .into_iter()
            .filter(|(_, is)| *is)
            .map(|(key, _)| key.to_owned());
        Checked {
            changed: typed.chain(beside).collect(),
            recipe: recipe.filter(|_| errors.is_empty()),
            base: texts,
            errors,
            trainer: self.trainer,
            threads,
        }
    }

    /// The number of threads that was typed.
    fn threads(&self) -> Result<Option<usize>, FieldError> {
        let text = self.threads.trim();
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse() {
            Ok(threads) if (1..=MOST_THREADS).contains(&threads) => Ok(Some(threads)),
            _ => Err(FieldError {
                message: format!("this takes a whole number from 1 to {MOST_THREADS}"),
                hints: Vec::new(),
            }),
        }
    }

    /// Gives all fields their recipe's value back, and lets Tunesmith's own trainer train on all cores.
    pub fn reset_all(&mut self) {
        self.typed.clear();
        self.trainer = Trainer::default();
        self.threads.clear();
    }

    /// Types a text into a field.
    pub fn set(&mut self, key: &str, text: String) {
        self.typed.insert(key.to_owned(), text);
    }

    /// Gives a field its recipe's value back.
    pub fn reset(&mut self, key: &str) {
        self.typed.remove(key);
    }

    /// Starts from another recipe, with nothing typed: values that suit one model seldom suit another. The user's own data
    /// and model stay.
    pub fn start_from(&mut self, origin: Origin) {
        if self.origin != origin {
            self.origin = origin;
            self.typed.clear();
        }
    }

    /// The recipe with the user's model and data; what was typed is not in it.
    pub fn with_choices(&self, base: &Recipe) -> Recipe {
        let mut recipe = base.clone();
        match &self.model {
            None => {}
            Some(ModelChoice::Source(source)) => {
                recipe.model.source = Some(source.clone());
                recipe.model.path = None;
            }
            Some(ModelChoice::Path(path)) => {
                recipe.model.source = None;
                recipe.model.path = Some(path.clone());
            }
        }
        if let Some(data) = &self.data {
            recipe.data.source = None;
            recipe.data.path = Some(data.path.clone());
            recipe.data.columns = data.columns.clone();
            recipe.description.clear();
        }
        // The recipe's own title would tell of another model or other data in every list of runs.
        if self.model.is_some() || self.data.is_some() {
            let data = recipe.data.path.as_deref().map(file_name);
            let data = data.map_or_else(|| "text-to-SQL".to_owned(), |file| format!("from {file}"));
            recipe.title = format!("{} learns {data}", model_name(&recipe.model));
        }
        if self
            .typed
            .get(START_FROM)
            .is_some_and(|text| text.trim().is_empty())
        {
            recipe.lora.start_from = None;
        }
        recipe
    }
}

/// Applies all settings. What cannot work is noted at its field and left out, so that every wrong field is found.
fn combine(
    start: &Recipe,
    mut settings: BTreeMap<&str, String>,
    errors: &mut BTreeMap<String, FieldError>,
) -> Option<Recipe> {
    loop {
        let list: Vec<String> = settings
            .values()
            .filter(|text| !text.is_empty())
            .cloned()
            .collect();
        let error = match start.with_overrides(&list) {
            Ok(recipe) => return Some(recipe),
            Err(error) => error,
        };
        let key = key_of(&error);
        errors.insert(key.to_owned(), in_words(&error));
        // An error at a field that nobody typed into comes of others, and cannot be left out.
        settings.remove(key)?;
    }
}

/// What is wrong with a text before the other fields are known: it is no number, or no such word.
fn typing_error(start: &Recipe, key: &str, text: &str) -> Option<FieldError> {
    let setting = setting(key, text);
    if setting.is_empty() {
        return None;
    }
    let error = start.with_overrides(&[setting]).err()?;
    match &error {
        RecipeError::Impossible { .. } | RecipeError::HubId(_) => None,
        // What serde says of a number out of range is not for people; the field's own help says what it takes.
        RecipeError::Invalid { hints, .. } => Some(FieldError {
            message: format!("`{text}` cannot be used here"),
            hints: hints.clone(),
        }),
        _ => Some(in_words(&error)),
    }
}

/// As the recipe takes changes; empty where there is none.
fn setting(key: &str, text: &str) -> String {
    match (key, text.trim()) {
        (START_FROM, "") => String::new(),
        (MODULES, "") => format!("{key}=[]"),
        (_, text) => format!("{key}={text}"),
    }
}

fn key_of(error: &RecipeError) -> &str {
    match error {
        RecipeError::Impossible { key, .. } => key,
        RecipeError::HubId(_) => MODEL,
        RecipeError::UnknownKey { key, .. } | RecipeError::WrongType { key, .. } => key,
        _ => WHOLE,
    }
}

fn in_words(error: &RecipeError) -> FieldError {
    let message = match error {
        // The field stands beside it and holds the value.
        RecipeError::Impossible { reason, .. } => reason.clone(),
        RecipeError::WrongType {
            wanted, given, found, ..
        } if !given.is_empty() => format!("this takes {wanted}, and `{given}` is {found}"),
        RecipeError::WrongType { wanted, .. } => format!("this takes {wanted}"),
        error => error.to_string(),
    };
    FieldError {
        message,
        hints: match error {
            RecipeError::WrongType { .. } => Vec::new(),
            error => error.hints(),
        },
    }
}

/// Every value of a recipe as a field shows it, by key.
pub(super) fn texts(recipe: &Recipe) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for (name, value) in &recipe.values() {
        match value {
            Value::Table(section) => {
                for (key, value) in section {
                    texts.extend(text(value).map(|text| (format!("{name}.{key}"), text)));
                }
            }
            value => texts.extend(text(value).map(|text| (name.clone(), text))),
        }
    }
    texts.entry(START_FROM.to_owned()).or_default();
    texts
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(short(*number)),
        Value::Boolean(yes) => Some(yes.to_string()),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().filter_map(text).collect();
            Some(items.join(", "))
        }
        Value::Datetime(_) | Value::Table(_) => None,
    }
}

/// A number as people write it into recipes: 0.9, and 2e-4 where that is shorter.
fn short(number: f64) -> String {
    let (plain, power) = (number.to_string(), format!("{number:e}"));
    if power.len() < plain.len() { power } else { plain }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tunesmith_data::Role;
    use tunesmith_lab::recipe::BUNDLED;

    use super::{super::fields::FIELDS, *};

    fn quickstart() -> Recipe {
        Recipe::load("quickstart").unwrap()
    }

    fn typed(values: &[(&str, &str)]) -> TuneForm {
        TuneForm {
            typed: values
                .iter()
                .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
                .collect(),
            ..TuneForm::default()
        }
    }

    #[test]
    fn a_form_with_nothing_set_is_its_recipe() {
        for (name, _) in BUNDLED {
            let recipe = Recipe::load(name).unwrap();
            let checked = TuneForm::default().check(&recipe);
            assert_eq!(checked.recipe.as_ref(), Some(&recipe), "{name}");
            assert!(checked.changed.is_empty() && checked.errors.is_empty());
        }
    }

    #[test]
    fn every_field_is_a_key_of_every_recipe_and_every_key_has_a_field() {
        let elsewhere = ["model.source", "model.path", "data.source", "data.path"];
        for (name, _) in BUNDLED {
            let texts = texts(&Recipe::load(name).unwrap());
            let keys: BTreeSet<&str> = texts
                .keys()
                .map(String::as_str)
                .filter(|key| !elsewhere.contains(key))
                .collect();
            let fields: BTreeSet<&str> = FIELDS.iter().map(|field| field.key).collect();
            assert_eq!(fields, keys, "{name}");
        }
    }

    #[test]
    fn a_wrong_value_is_told_at_its_field_and_the_others_are_checked_all_the_same() {
        let form = typed(&[
            ("lora.rank", "0"),
            ("train.steps", "many"),
            ("train.seed", "-3"),
            ("optimizer.schedule", "cosin"),
            ("train.micro_batch", "8"),
        ]);
        let checked = form.check(&quickstart());
        assert_eq!(checked.recipe, None);
        let errors: Vec<(&str, &str)> = checked
            .errors
            .iter()
            .map(|(key, error)| (key.as_str(), error.message.as_str()))
            .collect();
        assert_eq!(
            errors,
            [
                (
                    "lora.rank",
                    "an adapter has an inner dimension between 1 and 1024"
                ),
                ("optimizer.schedule", "`cosin` cannot be used here"),
                ("train.seed", "`-3` cannot be used here"),
                ("train.steps", "this takes a whole number, and `many` is text"),
            ]
        );
        assert_eq!(
            checked.errors["optimizer.schedule"].hints[0],
            "did you mean `cosine`?"
        );
    }

    #[test]
    fn values_that_only_fit_together_are_judged_together() {
        // More warm-up than the recipe has steps is right where the steps grow with it.
        let more = typed(&[("train.steps", "500"), ("optimizer.warmup_steps", "200")]).check(&quickstart());
        assert!(more.errors.is_empty());
        assert_eq!(more.recipe.unwrap().optimizer.warmup_steps, 200);
        // Fewer steps than the recipe's warm-up: the warm-up is what has to change.
        let fewer = typed(&[("train.steps", "5")]).check(&quickstart());
        assert!(fewer.errors["optimizer.warmup_steps"].message.contains("5 steps"));
        assert_eq!(fewer.recipe, None);
    }

    #[test]
    fn threads_that_cannot_be_are_told_and_what_is_no_part_of_the_recipe_leaves_it_alone() {
        let form = |threads: &str| TuneForm {
            trainer: Trainer::Hf,
            threads: threads.to_owned(),
            ..TuneForm::default()
        };
        let checked = form(" 4 ").check(&quickstart());
        assert_eq!((checked.threads, checked.trainer), (Some(4), Trainer::Hf));
        assert_eq!(checked.recipe.as_ref(), Some(&quickstart()));
        assert_eq!(
            checked.changed.iter().collect::<Vec<_>>(),
            ["threads", "trainer"],
            "they count as changed all the same"
        );
        for wrong in ["0", "1025", "two", "-1"] {
            let checked = form(wrong).check(&quickstart());
            assert!(
                checked.errors[THREADS].message.contains("from 1 to 1024"),
                "{wrong}"
            );
            assert_eq!((checked.recipe, checked.threads), (None, None));
        }
        let mut form = form("7");
        form.reset_all();
        assert_eq!(form, TuneForm::default());
    }

    #[test]
    fn what_is_typed_and_means_the_same_is_no_change() {
        let checked =
            typed(&[("optimizer.learning_rate", "0.0015"), ("lora.alpha", "64")]).check(&quickstart());
        assert_eq!(checked.changed.iter().collect::<Vec<_>>(), ["lora.alpha"]);
        assert!((checked.recipe.unwrap().lora.alpha - 64.0).abs() < 1e-12);
    }

    #[test]
    fn choices_of_data_and_model_replace_those_of_the_recipe() {
        let form = TuneForm {
            model: Some(ModelChoice::Source("owner/model@main".to_owned())),
            data: Some(OwnData {
                path: "/data/rows.csv".into(),
                columns: [(Role::Prompt, "frage".to_owned())].into(),
            }),
            ..typed(&[("data.max_length", "256")])
        };
        let recipe = form.check(&quickstart()).recipe.unwrap();
        assert_eq!(recipe.model.source.as_deref(), Some("owner/model@main"));
        assert_eq!((recipe.data.source, recipe.data.max_length), (None, 256));
        assert_eq!(recipe.data.path.unwrap(), PathBuf::from("/data/rows.csv"));
        assert_eq!(recipe.data.columns[&Role::Prompt], "frage");
        assert_eq!(recipe.title, "model learns from rows.csv");
    }

    #[test]
    fn a_model_that_is_none_is_told_at_the_model() {
        for (source, part) in [("a/b c", "owner and name"), ("smollm", "no such source")] {
            let form = TuneForm {
                model: Some(ModelChoice::Source(source.to_owned())),
                ..TuneForm::default()
            };
            let checked = form.check(&quickstart());
            assert!(
                checked.errors[MODEL].message.contains(part),
                "{:?}",
                checked.errors
            );
        }
    }

    #[test]
    fn modules_can_be_taken_away_but_not_all() {
        let some = typed(&[(MODULES, "q_proj, v_proj")]).check(&quickstart());
        assert_eq!(some.recipe.unwrap().lora.target_modules, ["q_proj", "v_proj"]);
        let none = typed(&[(MODULES, "")]).check(&quickstart());
        assert!(none.errors[MODULES].message.contains("nothing would be trained"));
    }

    #[test]
    fn another_recipe_keeps_the_data_and_forgets_what_was_typed() {
        let mut form = typed(&[("lora.rank", "4")]);
        form.data = Some(OwnData {
            path: "/data/rows.csv".into(),
            columns: Columns::new(),
        });
        form.start_from(Origin::Bundled("smoke".to_owned()));
        assert!(form.typed.is_empty() && form.data.is_some());
    }

    #[test]
    fn a_form_survives_being_saved() {
        let form = TuneForm {
            origin: Origin::File("/recipes/mine.toml".into()),
            model: Some(ModelChoice::Path("/models/a.gguf".into())),
            data: Some(OwnData {
                path: "/data/rows.csv".into(),
                columns: [(Role::Completion, "sql".to_owned())].into(),
            }),
            ..typed(&[("lora.rank", "wrong")])
        };
        let text = serde_json::to_string(&form).unwrap();
        assert_eq!(serde_json::from_str::<TuneForm>(&text).unwrap(), form);
    }

    fn any_form() -> impl Strategy<Value = TuneForm> {
        let choice = |key: &'static str, values: &'static [&'static str]| {
            proptest::sample::select(values).prop_map(move |text| (key.to_owned(), text.to_owned()))
        };
        let whole = |key: &'static str, range: std::ops::RangeInclusive<u64>| {
            range.prop_map(move |number| (key.to_owned(), number.to_string()))
        };
        let number = |key: &'static str, range: std::ops::Range<f64>| {
            range.prop_map(move |number| (key.to_owned(), format!("{number:e}")))
        };
        let one = prop_oneof![
            whole("lora.rank", 1..=1024),
            whole("train.seed", 0..=u32::MAX.into()),
            whole("train.micro_batch", 1..=65_536),
            whole("optimizer.warmup_steps", 0..=96),
            whole("evaluate.questions", 0..=300),
            whole("data.max_length", 2..=1_000_000),
            number("optimizer.learning_rate", 1e-9..0.9),
            number("optimizer.max_grad_norm", 0.0..1e6),
            number("lora.alpha", 1e-3..1e4),
            number("train.time_box_minutes", 1e-3..1e6),
            choice("optimizer.schedule", &["constant", "linear", "cosine"]),
            choice("train.recompute", &["none", "mlp", "layer"]),
            choice("train.dtype", &["auto", "f32", "bf16", "f16"]),
            choice("data.long_rows", &["error", "drop"]),
            choice(
                "lora.target_modules",
                &["q_proj", "q_proj, v_proj", "up_proj, down_proj"]
            ),
            "[a-zA-Z0-9_-]{1,40}".prop_map(|text| ("name".to_owned(), text)),
        ];
        // Enough steps for every warm-up above.
        let steps = whole("train.steps", 96..=10_000_000);
        (proptest::collection::vec(one, 0..12), steps).prop_map(|(typed, steps)| TuneForm {
            typed: typed.into_iter().chain([steps]).collect(),
            ..TuneForm::default()
        })
    }

    proptest! {
        /// The texts of the recipe that a form makes are a form that makes the same recipe.
        #[test]
        fn form_to_recipe_to_form_is_the_same(form in any_form(), index in 0..BUNDLED.len()) {
            let base = Recipe::load(BUNDLED[index].0).unwrap();
            let checked = form.check(&base);
            prop_assert!(checked.errors.is_empty(), "{:?}", checked.errors);
            let recipe = checked.recipe.unwrap();
            let shown = texts(&recipe);
            let fields = FIELDS.iter().map(|field| (field.key.to_owned(), shown[field.key].clone()));
            let again = TuneForm { typed: fields.collect(), ..TuneForm::default() };
            let rechecked = again.check(&base);
            prop_assert_eq!(rechecked.recipe.as_ref(), Some(&recipe));
            prop_assert_eq!(rechecked.changed, checked.changed);
        }

        /// Whatever is typed, the form says what is wrong or makes a recipe, and the recipe can be read back.
        #[test]
        fn anything_can_be_typed(index in 0..FIELDS.len(), text in "\\PC{0,20}") {
            let mut form = TuneForm::default();
            form.set(FIELDS[index].key, text);
            let checked = form.check(&quickstart());
            prop_assert_eq!(checked.recipe.is_none(), !checked.errors.is_empty());
            if let Some(recipe) = checked.recipe {
                prop_assert_eq!(Recipe::parse(&recipe.to_toml().unwrap(), "x").unwrap(), recipe);
            }
        }
    }
}
