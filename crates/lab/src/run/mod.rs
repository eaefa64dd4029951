//! A run on disk. The folder is the truth: lists, charts and reports are read from it, and a failure is a
//! record with its reason, never a gap (M16).

mod arrange;
mod checkpoint;
mod error;
mod journal;
mod line;
mod record;
mod repeats;
mod telemetry;
pub mod trash;

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use tunesmith_measure::{LoraShape, Recomputed, SummaryContext, TrainingSummary, summarise};
use tunesmith_protocol::{Event, Recompute, RunStatus, Step};

use crate::{
    files::{FileError, make_folder, read_text, write_json, write_whole},
    recipe::Recipe,
};

pub use arrange::{Column, LineFilter, Order, arrange};
pub use checkpoint::Checkpoint;
pub(crate) use checkpoint::prune as prune_checkpoints;
pub use error::RunError;
pub(crate) use journal::end_last_line;
pub use journal::{Entry, Journal, LabLine, read_events};
pub use line::{Figures, LineState, RunLine, Stamp, lines};
pub(crate) use record::TELLING_CORES;
pub use record::{
    AdapterRecord, CalibrationRecord, ContentionSample, DataRecord, MachineRecord, Manifest, MemoryOutcome,
    MemoryRecord, ModelRecord, RECORD_VERSION, Summary, Timings,
};
pub use repeats::{Figure, Repeats, compare, repeats};
pub use telemetry::CardPoint;
use telemetry::card_disturbance;
pub(crate) use telemetry::{Telemetry, card_record};

const MANIFEST: &str = "manifest.json";
const SUMMARY: &str = "summary.json";
/// The summary that a resume has put aside.
const OLD_SUMMARY: &str = "summary.before-resume.json";
const RECIPE: &str = "recipe.toml";
const LOCK: &str = "run.lock";

/// The time now in UTC, to the second, RFC 3339.
pub fn now() -> String {
    jiff::Timestamp::now()
        .round(jiff::Unit::Second)
        .unwrap_or(jiff::Timestamp::now())
        .to_string()
}

/// A run that this process leads. While it lives the folder is locked, so that others see it is not over.
#[derive(Debug)]
pub struct LiveRun {
    folder: PathBuf,
    id: String,
    _lock: File,
}

impl LiveRun {
    /// Makes the folder `<time>-<recipe>-<hash8>` in `runs_dir` and puts the resolved recipe into it.
    ///
    /// # Errors
    /// [`RunError`] when the folder cannot be made or written.
    pub fn create(runs_dir: &Path, recipe: &Recipe, config_hash: &str) -> Result<Self, RunError> {
        make_folder(runs_dir)?;
        let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
        let hash = &config_hash[..config_hash.len().min(8)];
        let stem = format!("{time}-{}-{hash}", recipe.name);
        let (id, folder) = new_folder(runs_dir, &stem)?;
        let live = Self::lock(folder, id)?;
        write_whole(&live.folder.join(RECIPE), recipe.to_toml()?.as_bytes())?;
        Ok(live)
    }

    /// Takes over a run that has ended, to go on with it.
    ///
    /// # Errors
    /// [`RunError`] when another process leads it, or its folder cannot be written.
    pub fn reopen(run: &Run) -> Result<Self, RunError> {
        Self::lock(run.folder.clone(), run.id.clone())
    }

    fn lock(folder: PathBuf, id: String) -> Result<Self, RunError> {
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(|source| FileError::new(&path, "made", source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                folder,
                id,
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(RunError::Led { id }),
            Err(TryLockError::Error(source)) => Err(FileError::new(&path, "locked", source).into()),
        }
    }

    /// Takes back what lies above the step from which the run goes on: its summary is put aside, as until it ends
    /// anew it has none, and later checkpoints, which turned out to be unusable, make room for new ones.
    ///
    /// # Errors
    /// [`FileError`] when something cannot be renamed or removed.
    pub fn take_back_above(&self, step: u64) -> Result<(), FileError> {
        checkpoint::remove_above(&self.folder, step)?;
        let path = self.folder.join(SUMMARY);
        match fs::rename(&path, self.folder.join(OLD_SUMMARY)) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::new(&path, "renamed", source))
            }
            _ => Ok(()),
        }
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the manifest.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), FileError> {
        write_json(&self.folder.join(MANIFEST), manifest)
    }

    /// Writes the summary, which ends the run.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), FileError> {
        write_json(&self.folder.join(SUMMARY), summary)
    }
}

fn new_folder(runs_dir: &Path, stem: &str) -> Result<(String, PathBuf), FileError> {
    let mut id = stem.to_owned();
    let mut attempt = 1;
    loop {
        let folder = runs_dir.join(&id);
        match fs::create_dir(&folder) {
            Ok(()) => return Ok((id, folder)),
            // Two runs of one recipe within a second.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < 1000 => {
                attempt += 1;
                id = format!("{stem}-{attempt}");
            }
            Err(source) => return Err(FileError::new(&folder, "made", source)),
        }
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// A process leads it right now.
    Running,
    /// It is over.
    Ended(RunStatus),
}

impl RunState {
    /// The name in lists: a status of DESIGN 3, or `running`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended(status) => status.name(),
        }
    }
}

/// A run that is read from its folder.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Where it stands.
    pub state: RunState,
    /// The resolved recipe.
    pub recipe: Recipe,
    /// The surroundings; missing in a run that was interrupted before its start.
    pub manifest: Option<Manifest>,
    /// The outcome; missing in a run that is not over or was interrupted.
    pub summary: Option<Summary>,
}

impl Run {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// [`RunError`] when the recipe is missing, or a file is damaged or too new.
    pub fn open(folder: &Path) -> Result<Self, RunError> {
        let id = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let path = folder.join(RECIPE);
        let recipe = Recipe::parse(&read_text(&path)?, RECIPE)?;
        let manifest: Option<Manifest> = read_record(&folder.join(MANIFEST), &id)?;
        let summary: Option<Summary> = read_record(&folder.join(SUMMARY), &id)?;
        let state = match &summary {
            Some(summary) => RunState::Ended(summary.status),
            None if is_led(folder) => RunState::Running,
            None => RunState::Ended(RunStatus::Interrupted),
        };
        Ok(Self {
            id,
            folder: folder.to_owned(),
            state,
            recipe,
            manifest,
            summary,
        })
    }

    /// Finds a run by its id, by a beginning that only it has, or as `last`.
    ///
    /// # Errors
    /// [`RunError::Unknown`], [`RunError::Ambiguous`], or what [`Run::open`] says.
    pub fn find(runs_dir: &Path, name: &str) -> Result<Self, RunError> {
        let ids = ids(runs_dir)?;
        if name == "last" {
            // A folder that cannot be read as a run is listed as broken; it is not what anyone means by the last run.
            return ids
                .iter()
                .rev()
                .find_map(|id| Self::open(&runs_dir.join(id)).ok())
                .ok_or_else(|| RunError::Unknown {
                    name: name.to_owned(),
                    any: !ids.is_empty(),
                });
        }
        if ids.iter().any(|id| id == name) {
            return Self::open(&runs_dir.join(name));
        }
        let matching: Vec<&String> = ids
            .iter()
            .filter(|id| !name.is_empty() && id.starts_with(name))
            .collect();
        match matching.as_slice() {
            [] => Err(RunError::Unknown {
                name: name.to_owned(),
                any: !ids.is_empty(),
            }),
            [only] => Self::open(&runs_dir.join(only)),
            several => Err(RunError::Ambiguous {
                name: name.to_owned(),
                count: several.len(),
                examples: several.iter().rev().take(2).map(|id| (*id).clone()).collect(),
            }),
        }
    }

    /// The optimizer steps, in order. After a resume the steps that were done again are dropped.
    ///
    /// # Errors
    /// [`FileError`] when `events.jsonl` cannot be read.
    pub fn steps(&self) -> Result<Vec<Step>, FileError> {
        Ok(steps_of(&read_events(&self.folder)?))
    }

    /// The steps from which the run went on after it had been cut short.
    ///
    /// # Errors
    /// [`FileError`] when `events.jsonl` cannot be read.
    pub fn resumed_from(&self) -> Result<Vec<u64>, FileError> {
        Ok(read_events(&self.folder)?
            .iter()
            .filter_map(|entry| match entry {
                Entry::Lab(LabLine::Resume { from_step }) => Some(*from_step),
                _ => None,
            })
            .collect())
    }

    /// The newest checkpoint from which the run can go on. Reads the files of the checkpoints.
    ///
    /// # Errors
    /// [`FileError`] when `events.jsonl` cannot be read.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>, FileError> {
        Ok(checkpoint::newest_whole(&self.folder, self.recorded()?))
    }

    /// The step from which the run can probably go on, for lists: it has ended before its end and has a checkpoint,
    /// whose files are checked only by [`Self::checkpoint`].
    pub fn resume_step(&self) -> Option<u64> {
        let ended_early = !matches!(self.state, RunState::Running | RunState::Ended(RunStatus::Ok));
        if !ended_early || !self.folder.join("checkpoints").exists() {
            return None;
        }
        // A journal that cannot be read is told of by whoever resumes the run.
        let recorded = self.recorded().ok()?;
        let newest = checkpoint::checkpoints(&self.folder, recorded)
            .into_iter()
            .next()?;
        Some(newest.step)
    }

    /// The last step in the record that is worth going on from: of a run that the judge stopped, the last good one.
    fn recorded(&self) -> Result<u64, FileError> {
        let last = self.steps()?.last().map_or(0, |step| step.step);
        let good = self
            .summary
            .as_ref()
            .and_then(|summary| summary.judge.last_good_step);
        Ok(good.map_or(last, |good| good.min(last)))
    }

    /// The figures of the training: those of the summary, or, of a run that has none, drawn from its steps.
    ///
    /// # Errors
    /// [`RunError`] when `events.jsonl` cannot be read.
    pub fn training(&self) -> Result<Option<TrainingSummary>, RunError> {
        match (&self.summary, &self.manifest) {
            (Some(summary), _) => Ok(summary.training.clone()),
            (None, Some(manifest)) => training_of(&self.folder, &self.recipe, manifest),
            (None, None) => Ok(None),
        }
    }

    /// What the figures of its steps are counted with; nothing while it has no manifest.
    ///
    /// # Errors
    /// [`RunError`] when the recipe's adapter cannot be counted.
    pub fn context(&self) -> Result<Option<SummaryContext>, RunError> {
        let manifest = self.manifest.as_ref();
        manifest
            .map(|manifest| context_of(&self.recipe, manifest))
            .transpose()
    }

    /// Why the run ended as it did, in a sentence, where it did not end well.
    pub fn reason(&self) -> Option<String> {
        match (&self.summary, self.state) {
            (Some(summary), _) => summary.reason.clone(),
            (None, RunState::Running) => None,
            (None, RunState::Ended(_)) => Some("the program that led it went away".to_owned()),
        }
    }

    /// What others did during the training, where that was enough to change its figures (M19): how much, for ordering, and a
    /// clause.
    pub(crate) fn disturbance(&self) -> Option<(f64, String)> {
        // Whoever shares the card counts for more than any processor.
        if let Some(sentence) = card_disturbance(&self.folder) {
            return Some((f64::INFINITY, sentence));
        }
        let on_card = self.manifest.as_ref()?.device != "cpu";
        let train = self.summary.as_ref()?.contention.iter();
        train
            .filter(|sample| sample.stage == "train")
            .filter_map(|sample| sample.disturbance(on_card))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The adapter's folder, where there is one.
    pub fn adapter(&self) -> Option<PathBuf> {
        adapter_in(&match &self.summary {
            Some(summary) => self.folder.join(summary.adapter.as_ref()?),
            None => self.folder.join("adapter"),
        })
    }

    /// The report's file, where it was written.
    pub fn report(&self) -> Option<PathBuf> {
        Some(self.folder.join("report.html")).filter(|path| path.exists())
    }
}

/// An adapter's folder, where it holds one.
fn adapter_in(folder: &Path) -> Option<PathBuf> {
    folder
        .join("adapter_model.safetensors")
        .exists()
        .then(|| folder.to_owned())
}

/// The newest whole checkpoint in a run's folder that is not above a step.
pub(crate) fn checkpoint_up_to(folder: &Path, step: u64) -> Option<Checkpoint> {
    checkpoint::newest_whole(folder, step)
}

/// The figures of the training in a run's folder; nothing where there was no step.
///
/// # Errors
/// [`RunError`] when `events.jsonl` cannot be read.
pub(crate) fn training_of(
    folder: &Path,
    recipe: &Recipe,
    manifest: &Manifest,
) -> Result<Option<TrainingSummary>, RunError> {
    let steps = steps_of(&read_events(folder)?);
    let context = context_of(recipe, manifest)?;
    Ok((!steps.is_empty()).then(|| summarise(&steps, &context)))
}

/// What the figures of a run are counted with.
fn context_of(recipe: &Recipe, manifest: &Manifest) -> Result<SummaryContext, RunError> {
    Ok(SummaryContext {
        shape: manifest.model.shape,
        lora: LoraShape::new(recipe.lora.rank as u64, &recipe.lora.target_modules)?,
        recomputed: recomputed(recipe, manifest),
        peaks: manifest.peaks,
        discard: None,
    })
}

/// Gradient checkpointing of PyTorch computes whole layers again, this project's engine what it needs of them.
fn recomputed(recipe: &Recipe, manifest: &Manifest) -> Recomputed {
    match (manifest.engine.engine.as_str(), recipe.train.recompute) {
        ("hf", Recompute::None) => Recomputed::Nothing,
        ("hf", _) => Recomputed::WholeLayer,
        (_, recompute) => Recomputed::by_engine(recompute),
    }
}

/// The steps among the entries of a journal. A resume takes back what lies above its step, and its clock, which
/// begins at zero, goes on from that step.
pub fn steps_of(entries: &[Entry]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut before_secs = 0.0;
    for entry in entries {
        match entry {
            Entry::Engine(event) => {
                if let Event::Step(step) = event.as_ref() {
                    steps.push(Step {
                        elapsed_secs: before_secs + step.elapsed_secs,
                        ..step.clone()
                    });
                }
            }
            Entry::Lab(LabLine::Resume { from_step }) => {
                steps.retain(|step| step.step <= *from_step);
                before_secs = steps.last().map_or(0.0, |step| step.elapsed_secs);
            }
            Entry::Lab(LabLine::Stage { .. }) => {}
        }
    }
    steps
}

/// A line of the list of runs.
#[derive(Debug)]
pub enum Listed {
    /// A run.
    Run(Box<Run>),
    /// A folder that cannot be read as one.
    Broken {
        /// Its name.
        id: String,
        /// Why.
        reason: RunError,
    },
}

/// All runs, newest last. A broken folder is a line with its reason and hides no other.
///
/// # Errors
/// [`FileError`] when the folder of all runs exists and cannot be read.
pub fn list(runs_dir: &Path) -> Result<Vec<Listed>, FileError> {
    Ok(ids(runs_dir)?
        .into_iter()
        .map(|id| match Run::open(&runs_dir.join(&id)) {
            Ok(run) => Listed::Run(Box::new(run)),
            Err(reason) => Listed::Broken { id, reason },
        })
        .collect())
}

/// Names of the runs' folders, oldest first: they begin with their time.
fn ids(runs_dir: &Path) -> Result<Vec<String>, FileError> {
    if !runs_dir.exists() {
        return Ok(Vec::new());
    }
    let fault = |source| FileError::new(runs_dir, "read", source);
    let mut ids = Vec::new();
    for entry in fs::read_dir(runs_dir).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        if entry.path().is_dir() {
            ids.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    // Of two runs within a second, `…-2` began later; as plain text `…-10` would come before it.
    ids.sort_by_key(|id| (id.get(..15).unwrap_or(id).to_owned(), id.len(), id.clone()));
    Ok(ids)
}

fn read_record<T: DeserializeOwned>(path: &Path, id: &str) -> Result<Option<T>, RunError> {
    if !path.exists() {
        return Ok(None);
    }
    let damaged = |error: serde_json::Error| RunError::Damaged {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let value: serde_json::Value = serde_json::from_str(&read_text(path)?).map_err(damaged)?;
    let found = value
        .get("version")
        .and_then(serde_json::Value::as_u64)
        .unwrap_or(0) as u32;
    if found > RECORD_VERSION {
        return Err(RunError::TooNew {
            id: id.to_owned(),
            found,
        });
    }
    serde_json::from_value(value).map(Some).map_err(damaged)
}

/// Whether a process holds the run's lock, which ends with the process in whatever way.
pub(crate) fn is_led(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join(LOCK)) else {
        return false;
    };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(runs: &Path) -> LiveRun {
        LiveRun::create(runs, &Recipe::load("smoke").unwrap(), "0123456789abcdef").unwrap()
    }

    #[test]
    fn a_run_without_an_end_is_running_while_its_process_lives_and_interrupted_after() {
        let home = tempfile::tempdir().unwrap();
        let live = create(home.path());
        let folder = live.folder().to_owned();
        assert_eq!(Run::open(&folder).unwrap().state, RunState::Running);
        drop(live);
        assert_eq!(
            Run::open(&folder).unwrap().state,
            RunState::Ended(RunStatus::Interrupted)
        );
    }

    #[test]
    fn a_run_is_taken_over_by_one_process_alone() {
        let home = tempfile::tempdir().unwrap();
        let live = create(home.path());
        let run = Run::open(live.folder()).unwrap();
        assert_eq!(LiveRun::reopen(&run).unwrap_err().code(), "run_led");
        drop(live);
        fs::write(run.folder.join(SUMMARY), "{}").unwrap();
        let live = LiveRun::reopen(&run).unwrap();
        live.take_back_above(20).unwrap();
        live.take_back_above(20).unwrap();
        assert_eq!(Run::open(live.folder()).unwrap().state, RunState::Running);
        assert!(run.folder.join(OLD_SUMMARY).exists());
    }

    #[test]
    fn runs_are_found_by_id_by_a_unique_beginning_and_as_last() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(Run::find(home.path(), "last").unwrap_err().code(), "unknown_run");
        let first = create(home.path());
        let second = create(home.path());
        assert_eq!(Run::find(home.path(), "last").unwrap().id, second.id());
        assert_eq!(Run::find(home.path(), first.id()).unwrap().id, first.id());
        assert_eq!(Run::find(home.path(), "20").unwrap_err().code(), "ambiguous_run");
        assert_eq!(
            Run::find(home.path(), "nothing").unwrap_err().code(),
            "unknown_run"
        );
    }

    #[test]
    fn many_runs_within_a_second_stay_in_order() {
        let home = tempfile::tempdir().unwrap();
        for name in [
            "20260101-000000-a-1-10",
            "20260101-000000-a-1",
            "20260101-000000-a-1-2",
            "20251231-235959-zz-1",
        ] {
            fs::create_dir(home.path().join(name)).unwrap();
        }
        assert_eq!(
            ids(home.path()).unwrap(),
            [
                "20251231-235959-zz-1",
                "20260101-000000-a-1",
                "20260101-000000-a-1-2",
                "20260101-000000-a-1-10"
            ]
        );
    }

    #[test]
    fn a_broken_folder_is_listed_with_its_reason() {
        let home = tempfile::tempdir().unwrap();
        let live = create(home.path());
        fs::create_dir(home.path().join("00000000-nothing")).unwrap();
        fs::write(live.folder().join(MANIFEST), "{\"version\": 1,").unwrap();
        let listed = list(home.path()).unwrap();
        let reasons: Vec<&str> = listed
            .iter()
            .map(|listed| match listed {
                Listed::Broken { reason, .. } => reason.code(),
                Listed::Run(_) => "fine",
            })
            .collect();
        assert_eq!(reasons, ["file_not_found", "run_damaged"]);
        fs::write(live.folder().join(MANIFEST), "{\"version\": 99}").unwrap();
        assert_eq!(Run::open(live.folder()).unwrap_err().code(), "run_too_new");
    }

    #[test]
    fn steps_that_were_done_again_after_a_resume_count_once() {
        let step = |step: u64, elapsed_secs: f64| {
            Entry::Engine(Box::new(Event::Step(Step {
                step,
                loss: Some(1.0),
                grad_norm: Some(1.0),
                lr: 1e-3,
                dt_secs: 1.0,
                elapsed_secs,
                real_tokens: step * 10,
                padded_tokens: step * 10,
                supervised_tokens: step * 5,
                squared_lengths: 100,
                peak_bytes: None,
            })))
        };
        let entries = [
            step(1, 2.0),
            step(2, 3.0),
            step(3, 4.0),
            Entry::Lab(LabLine::Resume { from_step: 2 }),
            step(3, 7.0),
            step(4, 8.0),
            Entry::Lab(LabLine::Resume { from_step: 3 }),
            step(4, 1.5),
        ];
        let steps = steps_of(&entries);
        let numbers: Vec<u64> = steps.iter().map(|step| step.step).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        let clock: Vec<f64> = steps.iter().map(|step| step.elapsed_secs).collect();
        assert_eq!(clock, [2.0, 3.0, 10.0, 11.5]);
    }
}
