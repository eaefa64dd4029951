//! What an engine tells its parent.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{DType, RunStatus};

/// A line from an engine to its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
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
pub enum Outcome {
    /// Of a calibration.
    Calibrate(Calibration),
    /// Of a training.
    Train(TrainStats),
    /// Of answers.
    Answer(AnswerStats),
    /// Of logits.
    Logits(LogitsStats),
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
    /// Most memory that the device's allocator held after loading, in bytes, where the engine can tell.
    pub peak_bytes: Option<u64>,
    /// Most memory that the process held after loading, in bytes, where the system can tell.
    pub peak_process_bytes: Option<u64>,
    /// Adapter folder, relative to the run's folder.
    pub adapter: Option<PathBuf>,
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
}

/// Of logits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogitsStats {
    /// File that was written.
    pub output: PathBuf,
}

/// What the device did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// Threads used on a CPU.
    pub threads: usize,
    /// Matrix products.
    pub gemm: Vec<GemmMeasurement>,
    /// Attention and the LoRA layer, forward and backward, against float64 (X8).
    #[serde(default)]
    pub kernels: Vec<KernelCheck>,
    /// Copy bandwidth.
    pub copy: CopyBandwidth,
    /// Whether the time box cut anything short.
    pub time_boxed: bool,
}

/// Which operand of a row-major product C\[m,n\] is stored transposed, as training uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A·B: input gradient of a linear layer.
    Nn,
    /// A·Bᵀ: forward of a linear layer.
    Nt,
    /// Aᵀ·B: weight gradient.
    Tn,
}

/// One matrix product, timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GemmMeasurement {
    /// Format of the operands.
    pub dtype: DType,
    /// Layout of the operands.
    pub layout: Layout,
    /// Side n of the square product.
    pub side: i64,
    /// Untimed products before.
    pub warmup: u32,
    /// Timed products.
    pub iterations: u32,
    /// 2n³ · iterations ÷ seconds of all iterations, in TFLOPS (M1).
    pub mean_tflops: f64,
    /// Of the single iterations.
    pub best_tflops: f64,
    /// Of the single iterations.
    pub median_tflops: f64,
    /// The processor has no such arithmetic and imitates it: no peak.
    pub emulated: bool,
    /// Values against float64 (X8).
    pub values: ValueCheck,
}

/// Values checked against float64.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueCheck {
    /// Largest |x − reference| ÷ (largest |reference|), over the rows checked.
    pub max_error: f64,
    /// Largest error that passes.
    pub tolerance: f64,
    /// Whether it passed.
    pub passed: bool,
}

/// One kernel of training, its values checked in one format.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelCheck {
    /// Which.
    pub kernel: KernelName,
    /// Format of its inputs.
    pub dtype: DType,
    /// How large its inputs were.
    pub inputs: InputSize,
    /// Values against float64.
    pub values: ValueCheck,
}

/// A kernel that training relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelName {
    /// Causal attention.
    AttentionForward,
    /// Gradients of queries, keys and values.
    AttentionBackward,
    /// A whole layer with adapters.
    LoraLayerForward,
    /// Its input's and its adapters' gradients.
    LoraLayerBackward,
}

impl KernelName {
    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Self::AttentionForward => "attention, forward",
            Self::AttentionBackward => "attention, backward",
            Self::LoraLayerForward => "LoRA layer, forward",
            Self::LoraLayerBackward => "LoRA layer, backward",
        }
    }
}

/// Inputs of ordinary size, or large ones, at which a kernel's softmax may overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputSize {
    /// Of deviation 1.
    Ordinary,
    /// Scores of some hundreds.
    Large,
}

/// Copy bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyBandwidth {
    /// Bytes of the tensor copied; each copy reads and writes it once.
    pub bytes: u64,
    /// Copies timed.
    pub iterations: u32,
    /// (read + written) ÷ seconds, best copy, in GiB/s.
    pub best_gib_per_sec: f64,
    /// The same, median copy.
    pub median_gib_per_sec: f64,
}

/// The last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bye {
    /// How the job ended.
    pub status: RunStatus,
}
