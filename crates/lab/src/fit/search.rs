//! Searches the largest batch or row length that runs, by running a few steps each (S4). Every try is kept with its
//! outcome, so that a search that was cut short goes on, and running out of memory is a result like any other (M16).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tunesmith_measure::fit::{Found, Search, Try};
use tunesmith_protocol::{Level, Progress, RunStatus};
use tunesmith_setup::human_bytes;

use super::trial::{STEPS, Trial, TrialWish, fits, try_once};
use crate::{
    files::{canonical_json, make_folder, read_text, sha256_hex, write_json},
    pipeline::{LabError, Observer, Settings, Stage, Update, predict_trial},
    recipe::Recipe,
    run::now,
};

/// Version of a search's record.
const VERSION: u32 = 1;
/// Largest batch that is looked for: a larger one gains nothing anywhere.
const MOST_ROWS: u64 = 4096;
/// Shortest rows that are tried first, and how finely lengths are told apart, in tokens.
const FIRST_LENGTH: u64 = 256;
const LENGTH_STEP: u64 = 64;

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchKind {
    /// The largest number of rows of a pass, `train.micro_batch`, at the recipe's longest rows.
    Batch,
    /// The longest rows, `data.max_length`, at the recipe's rows of a pass.
    Length,
}

impl SearchKind {
    /// What a value is counted in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Batch => "rows",
            Self::Length => "tokens",
        }
    }

    /// The key of a recipe that the value is for.
    pub fn key(self) -> &'static str {
        match self {
            Self::Batch => "train.micro_batch",
            Self::Length => "data.max_length",
        }
    }
}

/// What is searched, and how.
#[derive(Clone, Debug)]
pub struct SearchWish<'a> {
    /// The settings, but for the one that is searched.
    pub recipe: &'a Recipe,
    /// What is searched.
    pub kind: SearchKind,
    /// These values alone; doubling and then halving where absent.
    pub candidates: Option<Vec<u64>>,
    /// Optimizer steps of a try.
    pub steps: Option<u64>,
    /// Begin anew, whatever was tried earlier.
    pub again: bool,
}

/// What a try came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TryOutcome {
    /// It ran.
    Ran,
    /// There was too little memory.
    OutOfMemory,
    /// The driver gave main memory instead of an error, which counts as too little.
    Spilled,
    /// The engine ended otherwise.
    Failed,
    /// It was not tried: by the prediction it does not fit, and on memory that the whole system uses finding out would
    /// stop more than this program.
    TooLargeToTry,
}

impl TryOutcome {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::OutOfMemory => "out of memory",
            Self::Spilled => "spilled to main memory",
            Self::Failed => "failed",
            Self::TooLargeToTry => "not tried",
        }
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchTry {
    /// The value.
    pub value: u64,
    /// What it came to.
    pub outcome: TryOutcome,
    /// Why, where it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Memory that it needs by the prediction, corrected, in bytes.
    pub predicted_bytes: u64,
    /// The try in full; none where it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

/// A search, over or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// Version of this record.
    pub version: u32,
    /// Hash over what is searched: the same search goes on where it stands.
    pub key: String,
    /// What is searched.
    pub kind: SearchKind,
    /// Name of the recipe.
    pub recipe: String,
    /// When it began, RFC 3339 in UTC.
    pub began: String,
    /// When it ended; absent while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Every value that was looked at, in order.
    pub tries: Vec<SearchTry>,
    /// The largest that ran, and the smallest that did not.
    pub found: Found,
    /// Tries that an earlier search had made already.
    #[serde(skip)]
    pub taken_over: usize,
    /// Its file.
    #[serde(skip)]
    pub path: PathBuf,
}

impl SearchRecord {
    fn plain(&self) -> Vec<Try> {
        let plain = |one: &SearchTry| Try {
            value: one.value,
            ran: one.outcome == TryOutcome::Ran,
        };
        self.tries.iter().map(plain).collect()
    }

    /// What came of it, in a sentence without a full stop.
    pub fn sentence(&self) -> String {
        let unit = self.kind.unit();
        let of = |value: u64| self.tries.iter().rev().find(|one| one.value == value);
        let outcome = self
            .found
            .too_large
            .and_then(of)
            .map(|one| format!("; {} {unit}: {}", one.value, one.outcome.words()))
            .unwrap_or_default();
        match self
            .found
            .largest
            .and_then(|value| Some((value, of(value)?.trial.as_ref()?)))
        {
            Some((value, trial)) => {
                let held = trial.memory.measured_bytes.map_or_else(String::new, |bytes| {
                    format!(", which held {}", human_bytes(bytes))
                });
                format!("the largest that ran is {value} {unit}{held}{outcome}")
            }
            None => format!("nothing ran{outcome}"),
        }
    }
}

/// Searches, or goes on with a search that was cut short. Each try is told to the observer and written down.
///
/// # Errors
/// [`LabError`] for what keeps a try from beginning, or the first from running for another reason than memory;
/// [`LabError::Stopped`] when the user stops it: what was tried is kept.
pub fn search(
    wish: &SearchWish<'_>,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<SearchRecord, LabError> {
    let recipe = wish.recipe;
    let _lock = settings.hold(&recipe.train.device, "(searching what fits)", observer)?;
    let mut record = begin(wish, settings)?;
    let plan = plan(wish);
    while let Some(value) = plan.next(&record.plain()) {
        if settings.stop.asked().is_some() {
            return Err(LabError::Stopped);
        }
        tell(&plan, &record, wish.kind, value, observer);
        let tried = one(wish, value, settings, observer)?;
        // What does not run for another reason at the first value says nothing of its size.
        if let (TryOutcome::Failed, true) = (tried.outcome, record.tries.is_empty())
            && let Some(failure) = tried.trial.as_ref().and_then(|trial| trial.failure.clone())
        {
            return Err(LabError::Job(failure));
        }
        let text = format!("{value} {}: {}", wish.kind.unit(), tried.outcome.words());
        observer.update(Update::Log(Level::Info, &text));
        record.tries.push(tried);
        record.found = plan.found(&record.plain());
        write_json(&record.path, &record)?;
    }
    if record.ended.is_none() {
        record.ended = Some(now());
        write_json(&record.path, &record)?;
    }
    Ok(record)
}

/// The record of this search, as it stands.
fn begin(wish: &SearchWish<'_>, settings: &Settings) -> Result<SearchRecord, LabError> {
    let key = key(wish, settings);
    let folder = fits(&settings.folders).join(format!("search-{}", &key[..16]));
    make_folder(&folder)?;
    let path = folder.join("search.json");
    let stored = read_text(&path)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .filter(|stored: &SearchRecord| stored.version == VERSION && stored.key == key && !wish.again);
    let plan = plan(wish);
    Ok(match stored {
        Some(stored) => {
            let over = plan.next(&stored.plain()).is_none();
            SearchRecord {
                taken_over: stored.tries.len(),
                ended: stored.ended.clone().filter(|_| over),
                found: plan.found(&stored.plain()),
                path,
                ..stored
            }
        }
        None => SearchRecord {
            version: VERSION,
            key,
            kind: wish.kind,
            recipe: wish.recipe.name.clone(),
            began: now(),
            ended: None,
            tries: Vec::new(),
            found: plan.found(&[]),
            taken_over: 0,
            path,
        },
    })
}

/// Everything that decides which value is the largest, but for what else is in memory.
fn key(wish: &SearchWish<'_>, settings: &Settings) -> String {
    let recipe = with_value(wish, 1);
    let conditions = json!({
        "kind": wish.kind,
        "model": recipe.model,
        "lora": recipe.lora,
        "train": recipe.train,
        "length": (wish.kind == SearchKind::Batch).then_some(wish.recipe.data.max_length),
        "rows": (wish.kind == SearchKind::Length).then_some(wish.recipe.train.micro_batch),
        "steps": wish.steps.unwrap_or(STEPS),
        "engine": settings.trainer.is_some(),
        "torch": settings.engine.torch_version(),
        "device": settings.device,
        "program": env!("CARGO_PKG_VERSION"),
    });
    sha256_hex(canonical_json(&conditions).as_bytes())
}

fn plan(wish: &SearchWish<'_>) -> Search {
    if let Some(values) = &wish.candidates {
        return Search::candidates(values);
    }
    match wish.kind {
        SearchKind::Batch => Search::Doubling {
            from: 1,
            most: MOST_ROWS,
            step: 1,
        },
        SearchKind::Length => Search::Doubling {
            from: FIRST_LENGTH,
            most: u64::from(u32::MAX),
            step: LENGTH_STEP,
        },
    }
}

/// The recipe with a value. Passes of a step are as few as leave the checks before the first step what they are.
fn with_value(wish: &SearchWish<'_>, value: u64) -> Recipe {
    let mut recipe = wish.recipe.clone();
    let per_step = recipe.train.micro_batch * recipe.train.accumulation;
    match wish.kind {
        SearchKind::Batch => recipe.train.micro_batch = usize::try_from(value).unwrap_or(usize::MAX),
        SearchKind::Length => recipe.data.max_length = usize::try_from(value).unwrap_or(usize::MAX),
    }
    let alone = recipe.train.micro_batch == 1 && per_step > 1;
    recipe.train.accumulation = if alone { 2 } else { 1 };
    recipe
}

/// Tries one value.
fn one(
    wish: &SearchWish<'_>,
    value: u64,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<SearchTry, LabError> {
    let recipe = with_value(wish, value);
    let length = recipe.data.max_length as u64;
    let prediction = predict_trial(&recipe, length, settings, observer)?;
    if let Some(why) = prediction.why_not {
        return Ok(SearchTry {
            value,
            outcome: TryOutcome::TooLargeToTry,
            reason: Some(why),
            predicted_bytes: prediction.bytes,
            trial: None,
        });
    }
    let trial = try_once(
        &TrialWish {
            recipe: &recipe,
            row_tokens: Some(length),
            steps: wish.steps,
        },
        settings,
        observer,
    )?;
    let outcome = match trial.status {
        _ if trial.ran() => TryOutcome::Ran,
        _ if trial.spill.is_some() => TryOutcome::Spilled,
        RunStatus::Oom => TryOutcome::OutOfMemory,
        _ => TryOutcome::Failed,
    };
    let reason = match (outcome, &trial.failure) {
        (TryOutcome::Ran, _) => None,
        (_, Some(failure)) => Some(failure.message.clone()),
        (_, None) => Some(format!("the engine ended it as {}", trial.status.name())),
    };
    Ok(SearchTry {
        value,
        outcome,
        reason,
        predicted_bytes: trial.bytes,
        trial: Some(trial),
    })
}

fn tell(plan: &Search, record: &SearchRecord, kind: SearchKind, value: u64, observer: &mut dyn Observer) {
    let tries = record.plain();
    let done = tries.len() as u64;
    let secs: Vec<f64> = record
        .tries
        .iter()
        .filter_map(|one| one.trial.as_ref())
        .map(|trial| trial.secs)
        .collect();
    let left = plan.left(&tries);
    let typical = tunesmith_measure::stats::median(&secs).ok();
    let progress = Progress {
        stage: "search".to_owned(),
        done,
        total: done + left as u64,
        unit: "tries".to_owned(),
        eta_secs: typical.map(|secs| secs * left as f64),
    };
    observer.update(Update::Progress(Stage::Try, &progress));
    let text = format!("trying {} {}", value, kind.unit());
    observer.update(Update::Log(Level::Info, &text));
}

#[cfg(test)]
mod tests {
    use tunesmith_setup::Folders;

    use super::*;
    use crate::supervisor::EngineLocation;

    fn wish(recipe: &Recipe, kind: SearchKind) -> SearchWish<'_> {
        SearchWish {
            recipe,
            kind,
            candidates: None,
            steps: None,
            again: false,
        }
    }

    fn recipe(settings: &[&str]) -> Recipe {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Recipe::load("quickstart")
            .unwrap()
            .with_overrides(&settings)
            .unwrap()
    }

    #[test]
    fn a_value_changes_one_key_and_keeps_the_checks_what_they_are() {
        let own = recipe(&[]);
        let one = with_value(&wish(&own, SearchKind::Batch), 1);
        assert_eq!((one.train.micro_batch, one.train.accumulation), (1, 2));
        let many = with_value(&wish(&own, SearchKind::Batch), 16);
        assert_eq!((many.train.micro_batch, many.train.accumulation), (16, 1));
        assert_eq!(many.data.max_length, own.data.max_length);
        let long = with_value(&wish(&own, SearchKind::Length), 2048);
        assert_eq!((long.data.max_length, long.train.micro_batch), (2048, 4));
    }

    #[test]
    fn another_search_has_another_key_and_the_same_the_same() {
        let home = tempfile::tempdir().unwrap();
        let settings = Settings::new(
            Folders::all_under(home.path()),
            EngineLocation::new("engine".into()),
        );
        let own = recipe(&[]);
        let key_of = |recipe: &Recipe, kind| key(&wish(recipe, kind), &settings);
        let batch = key_of(&own, SearchKind::Batch);
        assert_eq!(
            batch,
            key_of(&recipe(&["train.micro_batch=8"]), SearchKind::Batch)
        );
        for other in [
            key_of(&own, SearchKind::Length),
            key_of(&recipe(&["train.recompute=layer"]), SearchKind::Batch),
            key_of(&recipe(&["data.max_length=256"]), SearchKind::Batch),
            key_of(&recipe(&["model.quantization=nf4"]), SearchKind::Batch),
        ] {
            assert_ne!(batch, other);
        }
    }

    #[test]
    fn a_record_goes_on_where_it_stands() {
        let home = tempfile::tempdir().unwrap();
        let settings = Settings::new(
            Folders::all_under(home.path()),
            EngineLocation::new("engine".into()),
        );
        let own = recipe(&[]);
        let wish = wish(&own, SearchKind::Batch);
        let mut record = begin(&wish, &settings).unwrap();
        assert_eq!((record.taken_over, record.found.largest), (0, None));
        for (value, outcome) in [
            (1, TryOutcome::Ran),
            (2, TryOutcome::Ran),
            (4, TryOutcome::OutOfMemory),
        ] {
            record.tries.push(SearchTry {
                value,
                outcome,
                reason: None,
                predicted_bytes: 1,
                trial: None,
            });
        }
        write_json(&record.path, &record).unwrap();
        let again = begin(&wish, &settings).unwrap();
        assert_eq!(
            (again.taken_over, again.found.largest, again.found.too_large),
            (3, Some(2), Some(4))
        );
        assert_eq!(plan(&wish).next(&again.plain()), Some(3));
        let anew = begin(&SearchWish { again: true, ..wish }, &settings).unwrap();
        assert!(anew.tries.is_empty());
    }
}
