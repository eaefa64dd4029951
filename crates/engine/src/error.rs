//! How a job fails: every failure becomes one `error` line with a code, a sentence and what to do.

use tunesmith_data::DataError;
use tunesmith_models::ModelError;
use tunesmith_protocol::{EngineError, RunStatus};

/// Why a job did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("{0}")]
    Adapter(String),
    #[error(
        "{tensor} has weights that are infinite, no numbers or near the largest there are: such weights have no scale in 4 bits"
    )]
    NotQuantisable { tensor: String },
    #[error("{0}")]
    Checkpoint(String),
    #[error("{0}")]
    Device(String),
    #[error("{0}")]
    Request(String),
    #[error("the {what} is not finite at step {step}")]
    NotFinite { what: &'static str, step: u64 },
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    #[error("an operation of torch failed: {0}")]
    Torch(String),
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: std::io::Error },
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("stopped")]
    Stopped,
}

impl From<tch::TchError> for JobError {
    fn from(error: tch::TchError) -> Self {
        Self::from_torch_text(&error.to_string())
    }
}

impl JobError {
    /// Sorts what torch says; the C++ stack that it appends helps nobody.
    pub(crate) fn from_torch_text(text: &str) -> Self {
        // A panic of tch's plain methods quotes the text, line ends and all.
        let plain = text.replace("\\n", "\n");
        let first = plain.split("\nException raised from").next().unwrap_or(text);
        let first = first.rsplit("Torch(\"").next().unwrap_or(first).trim().to_owned();
        let out_of_memory = [
            "out of memory",
            "can't allocate memory",
            "not enough memory",
            "bad_alloc",
            "bad allocation",
        ];
        if out_of_memory.iter().any(|mark| text.contains(mark)) {
            Self::OutOfMemory(first)
        } else {
            Self::Torch(first)
        }
    }

    pub(crate) fn write(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Write {
            path: path.display().to_string(),
            source,
        }
    }

    pub(crate) fn read(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Read {
            path: path.display().to_string(),
            source,
        }
    }

    pub(crate) fn status(&self) -> RunStatus {
        match self {
            Self::OutOfMemory(_) => RunStatus::Oom,
            Self::NotFinite { .. } => RunStatus::Nan,
            Self::Stopped => RunStatus::Cancelled,
            _ => RunStatus::Crashed,
        }
    }

    pub(crate) fn to_event(&self) -> EngineError {
        let (code, hints): (&str, Vec<String>) = match self {
            Self::Model(error) => (error.code(), error.hints()),
            Self::Data(error) => (error.code(), error.hints()),
            Self::Adapter(_) => (
                "adapter",
                vec!["use an adapter that was trained on this very model, in PEFT's format".to_owned()],
            ),
            Self::NotQuantisable { .. } => (
                "not_quantisable",
                vec![
                    "get the model's file again: no good model holds infinities".to_owned(),
                    "set `model.quantization = \"none\"` to see what it does as it is".to_owned(),
                ],
            ),
            Self::Checkpoint(_) => (
                "checkpoint",
                vec!["go on from an older checkpoint, or start the run again".to_owned()],
            ),
            Self::Device(_) => (
                "device",
                vec!["use `--device cpu`, or check the card with `tunesmith doctor`".to_owned()],
            ),
            Self::Request(_) => ("request", vec![]),
            Self::NotFinite { .. } => (
                "not_finite",
                vec![
                    "lower the learning rate, or lengthen the warm-up".to_owned(),
                    "with f16, try bf16 or f32: f16 overflows above 65,504".to_owned(),
                ],
            ),
            Self::OutOfMemory(_) => (
                "out_of_memory",
                vec![
                    "set `train.recompute=\"layer\"`: less memory for about a quarter more time".to_owned(),
                    "halve `train.micro_batch` and double `train.accumulation`: the result stays the same"
                        .to_owned(),
                    "close other programs that use this memory".to_owned(),
                ],
            ),
            Self::Torch(_) => (
                "torch",
                vec!["the engine's log in the run's folder has the whole text".to_owned()],
            ),
            Self::Write { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => (
                "disk_full",
                vec!["free some space, then start the run again".to_owned()],
            ),
            Self::Write { .. } => (
                "write",
                vec!["check that the folder exists and that you may write there".to_owned()],
            ),
            Self::Read { .. } => (
                "read",
                vec!["check that the file exists and that you may read it".to_owned()],
            ),
            Self::Stopped => ("stopped", vec![]),
        };
        EngineError {
            code: code.to_owned(),
            message: self.to_string(),
            hints,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_faults_are_told_from_others() {
        let cpu = "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.";
        assert_eq!(JobError::from_torch_text(cpu).status(), RunStatus::Oom);
        let hip = "HIP out of memory. Tried to allocate 2.00 GiB.\nException raised from malloc at x.cpp:1\nframe #0: …";
        let error = JobError::from_torch_text(hip);
        assert_eq!(error.status(), RunStatus::Oom);
        assert!(!error.to_string().contains("frame"), "the C++ stack is cut off");
        assert_eq!(
            JobError::from_torch_text("size mismatch").status(),
            RunStatus::Crashed
        );
    }
}
