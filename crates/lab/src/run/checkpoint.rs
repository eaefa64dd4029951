//! Checkpoints of a run: folders `checkpoints/step-000120` that an engine wrote and from which it can go on.
//!
//! An engine writes a checkpoint beside its place and renames it, so a folder with its right name is whole unless
//! the disk lost something; the hashes in `state.json` tell. What cannot be used is passed over for the one before.
//!
//! Three are kept at most: the newest, the one before it should the newest be damaged, and the best, which has the lowest
//! smoothed training loss. They are chosen here and not by the engine, among those whose steps are recorded: an engine may be
//! far ahead of what its parent has read, and a run whose parent is killed goes on only from what is recorded.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::files::{FileError, sha256_hex};

/// Version of `state.json`; a later one is passed over.
const STATE_VERSION: u32 = 1;

/// Checkpoints kept whatever their loss.
const NEWEST_KEPT: usize = 2;

/// Files of a checkpoint besides `state.json`.
const FILES: [&str; 2] = ["adapter.safetensors", "optimizer.safetensors"];

/// What this program needs to know of `state.json`; the rest is the engine's.
#[derive(Deserialize)]
struct State {
    version: u32,
    step: u64,
    /// Engines that do not tell it have no best one.
    #[serde(default)]
    smoothed_loss: Option<f64>,
    files: BTreeMap<String, String>,
}

impl State {
    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join("state.json")).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// A checkpoint of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Optimizer steps done.
    pub step: u64,
    /// Its folder.
    pub folder: PathBuf,
    /// SHA-256 of its files, as `state.json` says.
    hashes: BTreeMap<String, String>,
}

impl Checkpoint {
    fn open(folder: PathBuf) -> Option<Self> {
        let step = step_in_name(&folder)?;
        let state = State::read(&folder)?;
        let usable = state.version == STATE_VERSION
            && state.step == step
            && FILES
                .iter()
                .all(|name| state.files.contains_key(*name) && folder.join(name).is_file());
        usable.then_some(Self {
            step,
            folder,
            hashes: state.files,
        })
    }

    /// Whether its files are what the engine wrote. Reads all of them.
    pub fn is_whole(&self) -> bool {
        FILES.iter().all(|name| {
            fs::read(self.folder.join(name))
                .is_ok_and(|bytes| self.hashes.get(*name) == Some(&sha256_hex(&bytes)))
        })
    }
}

fn step_in_name(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok()
}

/// The checkpoints of a run's folder that look usable, newest first; their files were not read yet. Those above
/// `recorded`, the last step in the run's record, are left out: the steps between would be missing from the curve.
pub(super) fn checkpoints(run: &Path, recorded: u64) -> Vec<Checkpoint> {
    let Ok(entries) = fs::read_dir(run.join("checkpoints")) else {
        return Vec::new();
    };
    let mut found: Vec<Checkpoint> = entries
        .flatten()
        .filter_map(|entry| Checkpoint::open(entry.path()))
        .filter(|checkpoint| checkpoint.step <= recorded)
        .collect();
    found.sort_by_key(|checkpoint| std::cmp::Reverse(checkpoint.step));
    found
}

/// The newest checkpoint of a run's folder that is whole, see [`checkpoints`].
pub(super) fn newest_whole(run: &Path, recorded: u64) -> Option<Checkpoint> {
    checkpoints(run, recorded).into_iter().find(Checkpoint::is_whole)
}

/// Removes the checkpoints up to `recorded`, the last step in the run's record, that are neither among the newest two of them
/// nor the best.
///
/// # Errors
/// [`FileError`] when one cannot be removed.
pub(crate) fn prune(run: &Path, recorded: u64) -> Result<(), FileError> {
    let entries = fs::read_dir(run.join("checkpoints"))
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| Some((step_in_name(&entry.path())?, entry.path())))
        .filter(|(step, _)| *step <= recorded)
        .collect();
    found.sort();
    let best = found
        .iter()
        .filter_map(|(step, folder)| Some((State::read(folder)?.smoothed_loss?, *step)))
        .min_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, step)| step);
    let surplus = found.len().saturating_sub(NEWEST_KEPT);
    found[..surplus]
        .iter()
        .filter(|(step, _)| Some(*step) != best)
        .try_for_each(|(_, folder)| remove(folder))
}

/// Removes the checkpoints above a step.
///
/// # Errors
/// [`FileError`] when one cannot be removed.
pub(super) fn remove_above(run: &Path, step: u64) -> Result<(), FileError> {
    let Ok(entries) = fs::read_dir(run.join("checkpoints")) else {
        return Ok(());
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| step_in_name(path).is_some_and(|found| found > step))
        .try_for_each(|path| remove(&path))
}

fn remove(folder: &Path) -> Result<(), FileError> {
    fs::remove_dir_all(folder).map_err(|source| FileError::new(folder, "removed", source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(run: &Path, name: &str, step: u64, version: u32) -> PathBuf {
        let folder = run.join("checkpoints").join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut files = BTreeMap::new();
        for name in FILES {
            let bytes = format!("{name} of step {step}");
            files.insert(name, sha256_hex(bytes.as_bytes()));
            fs::write(folder.join(name), bytes).unwrap();
        }
        let state = serde_json::json!({
            "version": version, "step": step, "rows_taken": 8 * step, "files": files,
        });
        fs::write(folder.join("state.json"), state.to_string()).unwrap();
        folder
    }

    fn good(run: &Path, step: u64) -> PathBuf {
        write(run, &format!("step-{step:06}"), step, STATE_VERSION)
    }

    fn newest(run: &Path) -> Option<u64> {
        newest_whole(run, u64::MAX).map(|checkpoint| checkpoint.step)
    }

    #[test]
    fn a_run_without_checkpoints_has_none() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!(newest(run.path()), None);
        fs::create_dir(run.path().join("checkpoints")).unwrap();
        assert_eq!(newest(run.path()), None);
    }

    #[test]
    fn the_newest_is_the_one_with_most_steps() {
        let run = tempfile::tempdir().unwrap();
        for step in [999_980, 1_000_000, 20] {
            good(run.path(), step);
        }
        let found = newest_whole(run.path(), u64::MAX).unwrap();
        assert_eq!(found.step, 1_000_000);
        assert_eq!(found.folder, run.path().join("checkpoints/step-1000000"));
    }

    #[test]
    fn a_torn_one_is_passed_over_for_the_one_before() {
        let run = tempfile::tempdir().unwrap();
        good(run.path(), 20);
        let torn = good(run.path(), 40);
        let state = fs::read_to_string(torn.join("state.json")).unwrap();
        fs::write(torn.join("state.json"), &state[..state.len() / 2]).unwrap();
        assert_eq!(newest(run.path()), Some(20));
        fs::remove_file(torn.join("state.json")).unwrap();
        assert_eq!(newest(run.path()), Some(20));
        fs::write(torn.join("state.json"), state).unwrap();
        assert_eq!(newest(run.path()), Some(40));
        fs::remove_file(torn.join("optimizer.safetensors")).unwrap();
        assert_eq!(newest(run.path()), Some(20));
    }

    #[test]
    fn a_damaged_one_is_passed_over_for_the_one_before() {
        let run = tempfile::tempdir().unwrap();
        good(run.path(), 20);
        let damaged = good(run.path(), 40);
        let mut bytes = fs::read(damaged.join("adapter.safetensors")).unwrap();
        bytes[3] ^= 1;
        fs::write(damaged.join("adapter.safetensors"), bytes).unwrap();
        assert_eq!(newest(run.path()), Some(20));
        fs::write(
            run.path().join("checkpoints/step-000020/optimizer.safetensors"),
            "",
        )
        .unwrap();
        assert_eq!(newest(run.path()), None);
    }

    #[test]
    fn what_is_not_finished_or_named_otherwise_does_not_count() {
        let run = tempfile::tempdir().unwrap();
        write(run.path(), "step-000040.partial", 40, STATE_VERSION);
        write(run.path(), "step-000060", 40, STATE_VERSION);
        write(run.path(), "old", 40, STATE_VERSION);
        assert_eq!(newest(run.path()), None);
    }

    #[test]
    fn one_of_a_later_version_is_passed_over() {
        let run = tempfile::tempdir().unwrap();
        good(run.path(), 20);
        write(run.path(), "step-000040", 40, STATE_VERSION + 1);
        assert_eq!(newest(run.path()), Some(20));
    }

    #[test]
    fn those_above_a_step_can_be_taken_back() {
        let run = tempfile::tempdir().unwrap();
        remove_above(run.path(), 0).unwrap();
        for step in [20, 40, 60] {
            good(run.path(), step);
        }
        remove_above(run.path(), 20).unwrap();
        let left: Vec<u64> = checkpoints(run.path(), u64::MAX)
            .iter()
            .map(|checkpoint| checkpoint.step)
            .collect();
        assert_eq!(left, [20]);
    }

    #[test]
    fn one_above_the_record_is_passed_over() {
        let run = tempfile::tempdir().unwrap();
        good(run.path(), 20);
        good(run.path(), 40);
        let recorded = |last| newest_whole(run.path(), last).map(|checkpoint| checkpoint.step);
        assert_eq!(
            [recorded(40), recorded(39), recorded(19)],
            [Some(40), Some(20), None]
        );
    }

    /// Writes a checkpoint with a loss, records it, and lists the steps that are left.
    fn after(run: &Path, step: u64, loss: f64) -> Vec<u64> {
        let file = good(run, step).join("state.json");
        let mut state: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        state["smoothed_loss"] = loss.into();
        fs::write(&file, state.to_string()).unwrap();
        prune(run, step).unwrap();
        left(run)
    }

    fn left(run: &Path) -> Vec<u64> {
        let mut steps: Vec<u64> = checkpoints(run, u64::MAX)
            .iter()
            .map(|checkpoint| checkpoint.step)
            .collect();
        steps.sort_unstable();
        steps
    }

    #[test]
    fn the_newest_two_and_the_best_are_kept_however_long_a_training_is() {
        let run = tempfile::tempdir().unwrap();
        for (step, loss, left) in [
            (20, 3.0, vec![20]),
            (40, 1.0, vec![20, 40]),
            (60, 2.0, vec![40, 60]),
            (80, 1.5, vec![40, 60, 80]),
            (100, 1.2, vec![40, 80, 100]),
            // A falling loss makes the newest the best.
            (120, 0.9, vec![100, 120]),
        ] {
            assert_eq!(after(run.path(), step, loss), left);
        }
    }

    #[test]
    fn a_torn_newest_one_leaves_the_one_before_and_the_best() {
        let run = tempfile::tempdir().unwrap();
        for (step, loss) in [(20, 1.0), (40, 3.0), (60, 2.0)] {
            after(run.path(), step, loss);
        }
        let torn = |step: u64| {
            let state = run.path().join(format!("checkpoints/step-{step:06}/state.json"));
            let text = fs::read_to_string(&state).unwrap();
            fs::write(state, &text[..text.len() / 2]).unwrap();
        };
        torn(60);
        assert_eq!(newest(run.path()), Some(40));
        torn(40);
        assert_eq!(newest(run.path()), Some(20));
    }

    #[test]
    fn checkpoints_that_are_not_recorded_yet_push_out_none_that_is() {
        let run = tempfile::tempdir().unwrap();
        for step in [20, 40, 60, 80, 100] {
            good(run.path(), step);
        }
        prune(run.path(), 60).unwrap();
        assert_eq!(left(run.path()), [40, 60, 80, 100]);
        assert_eq!(newest_whole(run.path(), 79).map(|found| found.step), Some(60));
    }
}
