//! An experiment on disk: `<data dir>/experiments/<name>-<hash8>/` with
//!
//! - `experiment.toml`: what was asked, as it is on this device, with criteria and predictions;
//! - `plan.json`: the arms' recipes and the order of the runs; both are written before the first run;
//! - `runs.jsonl`: which run belongs to which slot, a line each, appended;
//! - `answers/slot-003`: answers of slots that train nothing.
//!
//! Figures are not here: they are counted from the runs' own folders each time, so that nothing can disagree (M21).

use std::{
    fs::{self, File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    files::{FileError, make_folder, read_text, write_json, write_whole},
    run::end_last_line,
};

use super::{Experiment, ExperimentError, Plan, plan::PLAN_VERSION};

const EXPERIMENT: &str = "experiment.toml";
const PLAN: &str = "plan.json";
const RUNS: &str = "runs.jsonl";
const LOCK: &str = "experiment.lock";

/// More folders of one experiment are not looked for.
const MOST_FOLDERS: usize = 10_000;

/// A line of `runs.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    /// This run, or these answers, belong to the slot. Written before the run is over, so a slot may have several.
    Run {
        /// Number of the slot in the order, from 0.
        slot: usize,
        /// Id of the run; of a slot that trains nothing the name of its folder below `answers`.
        run: String,
        /// When, RFC 3339 in UTC.
        at: String,
    },
    /// The slot came to no run: what keeps its arm from being run keeps it again.
    Failed {
        /// Number of the slot in the order, from 0.
        slot: usize,
        /// Stable name of what went wrong.
        code: String,
        /// What went wrong.
        message: String,
        /// When, RFC 3339 in UTC.
        at: String,
    },
    /// Slots that failed are to be run again.
    Retry {
        /// Slots, from 0.
        slots: Vec<usize>,
        /// When, RFC 3339 in UTC.
        at: String,
    },
}

/// The folder of all experiments.
pub fn experiments_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("experiments")
}

/// An experiment's folder.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) id: String,
    pub(super) experiment: Experiment,
    pub(super) plan: Plan,
}

impl Folder {
    /// The folder of an experiment that was planned: the one that there is, or a new one. With `again` always a new
    /// one.
    pub(super) fn begin(
        experiments: &Path,
        experiment: &Experiment,
        plan: &Plan,
        again: bool,
    ) -> Result<Self, ExperimentError> {
        make_folder(experiments)?;
        let stem = format!("{}-{}", experiment.name, &plan.hash[..8]);
        let named = |number: usize| match number {
            1 => stem.clone(),
            number => format!("{stem}-{number}"),
        };
        let begun = |id: &String| experiments.join(id).join(PLAN).exists();
        let newest = (1..=MOST_FOLDERS).map(named).take_while(begun).count();
        if newest > 0 && !again {
            return Self::open(&experiments.join(named(newest)));
        }
        let path = experiments.join(named(newest + 1));
        make_folder(&path)?;
        // The plan last: a folder without it was not begun.
        write_whole(&path.join(EXPERIMENT), experiment.to_toml()?.as_bytes())?;
        write_json(&path.join(PLAN), plan)?;
        Self::open(&path)
    }

    /// Reads a folder.
    pub(super) fn open(path: &Path) -> Result<Self, ExperimentError> {
        let text = read_text(&path.join(EXPERIMENT))?;
        let plan: Plan = read_json(&path.join(PLAN))?;
        if plan.version > PLAN_VERSION {
            return Err(ExperimentError::Damaged {
                path: path.join(PLAN).display().to_string(),
                reason: format!("it is of version {}, written by a newer Tunesmith", plan.version),
            });
        }
        let arms = plan.arms.len();
        if plan.order.iter().any(|slot| slot.arm >= arms) {
            return Err(ExperimentError::Damaged {
                path: path.join(PLAN).display().to_string(),
                reason: "its order names an arm that it does not have".to_owned(),
            });
        }
        let id = path.file_name().unwrap_or_default();
        Ok(Self {
            id: id.to_string_lossy().into_owned(),
            experiment: Experiment::parse(&text, EXPERIMENT)?,
            plan,
            path: path.to_owned(),
        })
    }

    /// The lines of `runs.jsonl`, in order. A last line that was cut off is passed over.
    pub(super) fn lines(&self) -> Result<Vec<Line>, ExperimentError> {
        let path = self.path.join(RUNS);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let lines = read_text(&path)?;
        let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
        Ok(lines.collect())
    }

    /// Adds a line, and waits until it is on the disk: what it says must not be lost with the power.
    pub(super) fn append(&self, line: &Line) -> Result<(), ExperimentError> {
        let path = self.path.join(RUNS);
        let attempt = || {
            let file = File::options().create(true).read(true).append(true).open(&path)?;
            let mut file = end_last_line(file)?;
            let mut text = serde_json::to_string(line)?;
            text.push('\n');
            file.write_all(text.as_bytes())?;
            file.sync_data()
        };
        attempt().map_err(|source| FileError::new(&path, "written", source).into())
    }

    /// Where a slot that trains nothing keeps its answers.
    pub(super) fn answers(&self, name: &str) -> PathBuf {
        self.path.join("answers").join(name)
    }

    /// Takes the experiment for this process.
    pub(super) fn lead(&self) -> Result<Lead, ExperimentError> {
        let path = self.path.join(LOCK);
        let file = File::create(&path).map_err(|source| FileError::new(&path, "made", source))?;
        match file.try_lock() {
            Ok(()) => Ok(Lead { _file: file }),
            Err(TryLockError::WouldBlock) => Err(ExperimentError::Led { id: self.id.clone() }),
            Err(TryLockError::Error(source)) => Err(FileError::new(&path, "locked", source).into()),
        }
    }

    /// Whether a process leads it right now.
    pub(super) fn is_led(&self) -> bool {
        let Ok(file) = File::open(self.path.join(LOCK)) else {
            return false;
        };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

/// Holds an experiment until it is dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Lead {
    _file: File,
}

/// Folders of experiments that were begun, by name.
pub(super) fn folders(experiments: &Path) -> Result<Vec<PathBuf>, ExperimentError> {
    if !experiments.exists() {
        return Ok(Vec::new());
    }
    let fault = |source| FileError::new(experiments, "read", source);
    let mut found = Vec::new();
    for entry in fs::read_dir(experiments).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.join(PLAN).exists() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ExperimentError> {
    serde_json::from_str(&read_text(path)?).map_err(|error| ExperimentError::Damaged {
        path: path.display().to_string(),
        reason: error.to_string(),
    })
}
