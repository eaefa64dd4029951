//! What an engine tells its parent.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Calibration, DType, Quantization, RunStatus};

/// A line from an engine to its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "one is held at a time, and a calibration comes once"
)]
pub enum Event {
    /// The first line.
    Hello(Hello),
    /// How far a stage is.
    Progress(Progress),
    /// One optimizer step.
    Step(Step),
    /// A number that the judge looks at.
    Check(Check),
    /// A checkpoint is complete on disk.
    Checkpoint(Checkpoint),
    /// A further piece of an answer that is being written.
    Piece(Piece),
    /// One answer.
    Answer(Answer),
    /// Text for the log.
    Log(Log),
    /// Something failed.
    Error(EngineError),
    /// What the job came to.
    Result(Outcome),
    /// The last line.
    Bye(Bye),
}

/// Who speaks, and on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::PROTOCOL_VERSION`] of the engine.
    pub protocol: u32,
    /// e.g. `tunesmith-engine`.
    pub engine: String,
    /// Version of the engine.
    pub engine_version: String,
    /// Version of torch, e.g. `2.11.0`.
    pub torch: String,
    /// GPU back end that was opened: `cpu`, `cuda` or `hip`.
    pub backend: String,
    /// Threads that operations on the CPU use.
    pub threads: usize,
}

/// How far a stage is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// e.g. `load`, `train`, `answer`.
    pub stage: String,
    /// Units done.
    pub done: u64,
    /// Units in all; 0 where nobody knows.
    pub total: u64,
    /// e.g. `tensors`, `steps`, `prompts`.
    pub unit: String,
    /// Estimate of the time left, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_secs: Option<f64>,
}

/// One optimizer step. Token counts are cumulative from the first step of the run (M15).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// From 1.
    pub step: u64,
    /// Mean cross-entropy over the supervised tokens of the whole step, in nats. Absent when not finite.
    pub loss: Option<f64>,
    /// L2 norm of the gradient before clipping. Absent when not finite.
    pub grad_norm: Option<f64>,
    /// Learning rate of this step.
    pub lr: f64,
    /// Wall time of this step, in seconds.
    pub dt_secs: f64,
    /// Seconds since the job arrived, at the end of this step.
    pub elapsed_secs: f64,
    /// Tokens that are not padding, cumulative.
    pub real_tokens: u64,
    /// Tokens with padding, cumulative.
    pub padded_tokens: u64,
    /// Tokens whose prediction is trained, cumulative.
    pub supervised_tokens: u64,
    /// Sum over rows of the squared row length as computed (padding included), this step alone: the attention term of the FLOP count.
    pub squared_lengths: u64,
    /// Most memory that the device's allocator held during this step, in bytes, where the engine can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
}

/// A number that the judge looks at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// e.g. `adapter_gradient_min`.
    pub name: String,
    /// Its value; absent when not finite.
    pub value: Option<f64>,
}

/// A checkpoint is complete on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Steps done.
    pub step: u64,
    /// Folder, relative to the run's folder.
    pub path: PathBuf,
}

/// A further piece of an answer. The pieces of an answer, one after the other, are its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Id of the prompt.
    pub id: String,
    /// What the answer goes on with: never empty, never half a character.
    pub text: String,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model ended it.
    Stop,
    /// It reached the longest length.
    Length,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Id of the prompt.
    pub id: String,
    /// Text without special tokens.
    pub text: String,
    /// Tokens generated, the end token included.
    pub tokens: u64,
    /// Why it ended.
    pub finish: Finish,
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For developers.
    Debug,
    /// Worth keeping.
    Info,
    /// Worth a look.
    Warn,
}

/// Text for the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// How much it matters.
    pub level: Level,
    /// One line.
    pub text: String,
}

/// Something failed: a stable code, a sentence, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineError {
    /// e.g. `model_truncated`, `out_of_memory`.
    pub code: String,
    /// What happened and why.
    pub message: String,
    /// What to do, one sentence each.
    #[serde(default)]
    pub hints: Vec<String>,
}

/// What a job came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "one is held at a time, and a calibration comes once"
)]
pub enum Outcome {
    /// Of a calibration.
    Calibrate(Calibration),
    /// Of a training.
    Train(TrainStats),
    /// Of answers.
    Answer(AnswerStats),
    /// Of logits.
    Logits(LogitsStats),
    /// Of tensors in 4 bits.
    Quantise(QuantiseStats),
}

/// Of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainStats {
    /// Steps done.
    pub steps: u64,
    /// Seconds from the job's arrival to the end of the first step (M7).
    pub first_step_secs: f64,
    /// Seconds from the job's arrival to the end of the last step.
    pub total_secs: f64,
    /// Seconds of it that loading took.
    pub load_secs: f64,
    /// Parameters of the adapter.
    pub trainable_parameters: u64,
    /// Bytes of the frozen weights on the device, as they are stored there, where the engine tells (T6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_bytes: Option<u64>,
    /// Most memory that the device's allocator held after loading, in bytes, where the engine can tell.
    pub peak_bytes: Option<u64>,
    /// Most memory that the process held after loading, in bytes, where the system can tell.
    pub peak_process_bytes: Option<u64>,
    /// Adapter folder, relative to the run's folder.
    pub adapter: Option<PathBuf>,
    /// The adapter that the training began from was trained on another base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_base: Option<OtherBase>,
}

/// An adapter on another base than the one it was trained on: it answers, only worse, and nobody would see why (T8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherBase {
    /// What it was trained on.
    pub trained_on: Base,
    /// What it is put on.
    pub put_on: Base,
}

/// The base of an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// SHA-256 over the model's weights, configuration and tokenizer, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Number format of weights and activations.
    pub dtype: DType,
    /// How the linear weights are stored.
    #[serde(default)]
    pub quantization: Quantization,
}

impl Base {
    /// The form of its weights for people, e.g. `bf16` or `4-bit (nf4) in bf16`.
    pub fn form(&self) -> String {
        match self.quantization {
            Quantization::None => self.dtype.name().to_owned(),
            Quantization::Nf4 => format!("4-bit (nf4) in {}", self.dtype.name()),
        }
    }
}

/// Of answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerStats {
    /// Prompts answered.
    pub answers: u64,
    /// Tokens of the prompts.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Seconds of reading prompts.
    pub prefill_secs: f64,
    /// Seconds of generating.
    pub decode_secs: f64,
    /// Bytes of the frozen weights on the device, as they are stored there, where the engine tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_bytes: Option<u64>,
    /// The adapter that answers was trained on another base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_base: Option<OtherBase>,
}

/// Of logits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogitsStats {
    /// File that was written.
    pub output: PathBuf,
    /// The adapter was trained on another base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_base: Option<OtherBase>,
}

/// Of tensors in 4 bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuantiseStats {
    /// File that was written.
    pub output: PathBuf,
}

/// The last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bye {
    /// How the job ended.
    pub status: RunStatus,
}
