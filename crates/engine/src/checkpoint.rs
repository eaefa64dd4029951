//! Checkpoints: all that a training needs to go on as if it had never stopped.
//!
//! A checkpoint is a folder `checkpoints/step-000120` with the adapter's weights, the optimizer's moments and
//! `state.json`. It is written beside its place and renamed, so a folder with its right name is whole unless the
//! disk itself lied; the hashes in `state.json` tell that too. Row order and learning rate follow from the step and
//! the job, so no generator has to be saved.
//!
//! Older checkpoints are removed by the parent and not here: it goes on only from steps that it has recorded, and only it
//! knows which these are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tch::{Device, Tensor};

use crate::error::JobError;

/// Version of `state.json`.
const VERSION: u32 = 1;
/// Share of the newest step in the smoothed loss, which so looks back over about ten steps: one easy batch must not
/// make a checkpoint the best.
const SMOOTHING: f64 = 0.1;
const ADAPTER: &str = "adapter.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";

/// Where a training stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    version: u32,
    /// Optimizer steps done.
    pub(crate) step: u64,
    /// Rows taken from the walk over epochs.
    pub(crate) rows_taken: u64,
    /// Cumulative counts, as in the step events.
    pub(crate) real_tokens: u64,
    /// As `real_tokens`, padding included; 0 in checkpoints from before rows could be padded.
    #[serde(default)]
    pub(crate) padded_tokens: u64,
    pub(crate) supervised_tokens: u64,
    /// Threads on the CPU: another number adds in another order.
    pub(crate) threads: i32,
    /// Fingerprint of the base model.
    pub(crate) model: String,
    pub(crate) seed: u64,
    /// Exponential mean of the training loss, in nats per supervised token; absent before the first step.
    #[serde(default)]
    smoothed_loss: Option<f64>,
    /// SHA-256 of the other files.
    files: BTreeMap<String, String>,
}

impl State {
    pub(crate) fn new(
        step: u64,
        rows_taken: u64,
        tokens: (u64, u64),
        threads: i32,
        model: &str,
        seed: u64,
    ) -> Self {
        Self {
            version: VERSION,
            step,
            rows_taken,
            real_tokens: tokens.0,
            padded_tokens: tokens.0,
            supervised_tokens: tokens.1,
            threads,
            model: model.to_owned(),
            seed,
            smoothed_loss: None,
            files: BTreeMap::new(),
        }
    }

    /// Takes the loss of a step into the smoothed one, which begins with the first step's.
    pub(crate) fn smooth(&mut self, loss: f64) {
        let before = self.smoothed_loss.unwrap_or(loss);
        self.smoothed_loss = Some(before + SMOOTHING * (loss - before));
    }
}

/// The flat tensors of a training, f32 `[parameters]` each.
pub(crate) struct Tensors {
    pub(crate) weights: Tensor,
    pub(crate) first: Tensor,
    pub(crate) second: Tensor,
}

/// Writes a checkpoint and removes what an interrupted writer left. Gives its folder, relative to the run's.
pub(crate) fn save(run_dir: &Path, mut state: State, tensors: &Tensors) -> Result<PathBuf, JobError> {
    let relative = Path::new("checkpoints").join(format!("step-{:06}", state.step));
    let folder = run_dir.join(&relative);
    let partial = folder.with_extension("partial");
    remove_half_written(&run_dir.join("checkpoints"))?;
    std::fs::create_dir_all(&partial).map_err(|error| JobError::write(&partial, error))?;
    let files = [
        (ADAPTER, vec![("weights", &tensors.weights)]),
        (
            OPTIMIZER,
            vec![("first", &tensors.first), ("second", &tensors.second)],
        ),
    ];
    for (name, parts) in files {
        let bytes = serialize(&parts)?;
        state.files.insert(name.to_owned(), sha256(&bytes));
        write_synced(&partial.join(name), &bytes)?;
    }
    let text = serde_json::to_vec_pretty(&state).map_err(|error| JobError::Checkpoint(error.to_string()))?;
    write_synced(&partial.join(STATE), &text)?;
    remove(&folder)?;
    std::fs::rename(&partial, &folder).map_err(|error| JobError::write(&folder, error))?;
    sync_folder(&run_dir.join("checkpoints"))?;
    Ok(relative)
}

/// Reads a checkpoint that belongs to this very training.
///
/// # Errors
/// [`JobError::Checkpoint`] when it is damaged, from another program version, or of another training.
pub(crate) fn load(
    folder: &Path,
    expected: &State,
    parameters: i64,
    device: Device,
) -> Result<(State, Tensors), JobError> {
    let damaged = |why: &str| JobError::Checkpoint(format!("the checkpoint {} {why}", folder.display()));
    let text = read(&folder.join(STATE))?;
    let mut state: State = serde_json::from_slice(&text)
        .map_err(|error| damaged(&format!("has a damaged state.json: {error}")))?;
    state.padded_tokens = state.padded_tokens.max(state.real_tokens);
    if state.version != VERSION {
        return Err(damaged(&format!(
            "is of version {}, and this engine reads {VERSION}",
            state.version
        )));
    }
    for (what, same) in [
        ("another base model", state.model == expected.model),
        ("another seed", state.seed == expected.seed),
        (
            "another number of threads",
            state.threads == expected.threads || device != Device::Cpu,
        ),
    ] {
        if !same {
            return Err(damaged(&format!(
                "was written with {what}, so the run would not be the same"
            )));
        }
    }
    let mut files = Vec::new();
    for name in [ADAPTER, OPTIMIZER] {
        let bytes = read(&folder.join(name))?;
        if state.files.get(name) != Some(&sha256(&bytes)) {
            return Err(damaged(&format!("is damaged: {name} is not what was written")));
        }
        files.push(bytes);
    }
    let tensor = |bytes: &[u8], name: &str| -> Result<Tensor, JobError> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| damaged(&error.to_string()))?;
        let view = tensors
            .tensor(name)
            .map_err(|error| damaged(&error.to_string()))?;
        let values: Vec<f32> = view
            .data()
            .chunks_exact(4)
            .map(|chunk| f32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]))
            .collect();
        if view.dtype() != Dtype::F32 || values.len() as i64 != parameters {
            return Err(damaged(&format!(
                "has {} parameters, and this adapter has {parameters}",
                values.len()
            )));
        }
        Ok(Tensor::f_from_slice(&values)?.f_to_device(device)?)
    };
    let tensors = Tensors {
        weights: tensor(&files[0], "weights")?,
        first: tensor(&files[1], "first")?,
        second: tensor(&files[1], "second")?,
    };
    Ok((state, tensors))
}

fn serialize(parts: &[(&str, &Tensor)]) -> Result<Vec<u8>, JobError> {
    let mut bytes = Vec::new();
    for (name, tensor) in parts {
        let values = Vec::<f32>::try_from(tensor.to_device(Device::Cpu))?;
        bytes.push((
            *name,
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect::<Vec<u8>>(),
        ));
    }
    let mut views = Vec::new();
    for (name, bytes) in &bytes {
        let view = TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes)
            .map_err(|error| JobError::Checkpoint(error.to_string()))?;
        views.push((*name, view));
    }
    safetensors::serialize(views, None).map_err(|error| JobError::Checkpoint(error.to_string()))
}

fn remove_half_written(folder: &Path) -> Result<(), JobError> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "partial"))
        .try_for_each(|path| remove(&path))
}

fn remove(folder: &Path) -> Result<(), JobError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(JobError::write(folder, error)),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, JobError> {
    std::fs::read(path).map_err(|error| JobError::read(path, error))
}

/// Written through to the disk: a rename that survives a power cut must not point to a file that did not.
fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), JobError> {
    use std::io::Write;
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| JobError::write(path, error))
}

/// Writes a rename through to the disk: the parent removes older checkpoints once it is told of this one, and after a power
/// cut one of them must be there. Other systems than Unix have no such call for folders.
fn sync_folder(folder: &Path) -> Result<(), JobError> {
    if cfg!(unix) {
        std::fs::File::open(folder)
            .and_then(|file| file.sync_all())
            .map_err(|error| JobError::write(folder, error))?;
    }
    Ok(())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            use std::fmt::Write;
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smoothed_loss_survives_being_written_bit_for_bit() {
        let mut state = State::new(1, 1, (0, 0), 1, "model", 1);
        for loss in [2.3, 1.7, 1.0 / 3.0] {
            state.smooth(loss);
        }
        let read: State = serde_json::from_slice(&serde_json::to_vec_pretty(&state).unwrap()).unwrap();
        assert_eq!(read, state);
    }

    #[test]
    fn one_easy_batch_smooths_to_little() {
        let mut state = State::new(1, 1, (0, 0), 1, "model", 1);
        for loss in [vec![2.0; 20], vec![0.5]].concat() {
            state.smooth(loss);
        }
        assert!(state.smoothed_loss.is_some_and(|loss| loss > 1.8));
    }

    #[test]
    fn what_an_interrupted_writer_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["step-000010", "step-000030.partial"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        remove_half_written(folder.path()).unwrap();
        assert!(folder.path().join("step-000010").exists());
        assert!(!folder.path().join("step-000030.partial").exists());
    }
}
