//! What a parent asks of an engine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A line from the parent to an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Do this; an engine process does one job and leaves.
    Job(Box<Job>),
    /// Stop the job.
    Stop {
        /// How urgent, and what to keep.
        how: StopHow,
    },
}

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopHow {
    /// Finish the step at hand, then leave without saving.
    AfterStep,
    /// Finish the step at hand, save the adapter, then leave.
    Save,
    /// Leave at once.
    Now,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Folder of the run; everything that the engine writes lies in it.
    pub run_dir: PathBuf,
    /// Checkpoint folder to go on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<PathBuf>,
    /// `cpu` or `cuda:N` (ROCm devices are called `cuda` by PyTorch too).
    pub device: String,
    /// Threads for operations on the CPU; the engine's own choice where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// What to do.
    #[serde(flatten)]
    pub work: Work,
}

/// The kinds of job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// Measure the device.
    Calibrate(CalibrateJob),
    /// Fine-tune an adapter.
    Train(TrainJob),
    /// Generate answers to prompts.
    Answer(AnswerJob),
    /// Compute logits of given tokens (parity checks).
    Logits(LogitsJob),
}

impl Work {
    /// The kind's name on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Calibrate(_) => "calibrate",
            Self::Train(_) => "train",
            Self::Answer(_) => "answer",
            Self::Logits(_) => "logits",
        }
    }
}

/// Number format of weights and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DType {
    /// 32-bit float.
    F32,
    /// bfloat16.
    Bf16,
    /// 16-bit float.
    F16,
}

impl DType {
    /// Bytes of one element.
    pub fn size_bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// The name on the wire and in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

/// Measure the device: matrix products in three layouts, copy bandwidth (M1, X8, X9, X10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrateJob {
    /// Time box for the whole calibration, in seconds.
    pub budget_secs: f64,
    /// Side of the square product; chosen from the device and the time box where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gemm_side: Option<i64>,
    /// Whether the processor multiplies bf16 in hardware; on a CPU without it bf16 is one small product, labelled emulated.
    pub bf16_in_hardware: bool,
}

/// Fine-tune LoRA adapters on rows that are already tokenised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainJob {
    /// Model folder (safetensors) or GGUF file.
    pub model: PathBuf,
    /// `rows.safetensors`: `input_ids` i32 `[tokens]`, `supervised` u8 `[tokens]`, `offsets` i64 `[rows + 1]`.
    pub rows: PathBuf,
    /// Format of frozen weights and activations; adapters and optimizer state are f32 always.
    pub dtype: DType,
    /// The adapter.
    pub lora: Lora,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Rows per step.
    pub batch: Batch,
    /// Optimizer steps to do.
    pub steps: u64,
    /// Steps between checkpoints; none are written where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// What to recompute in the backward pass instead of keeping.
    pub recompute: Recompute,
    /// Order of rows.
    pub order: RowOrder,
    /// Seed of the adapter's start and of the row order.
    pub seed: u64,
    /// Adapter folder (PEFT's format) to start from instead of a random A and a zero B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_from: Option<PathBuf>,
    /// Where the model comes from, for the adapter's own record; the file's name stands there where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ModelOrigin>,
}

/// A model of a hub, exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelOrigin {
    /// e.g. `owner/name`, or `owner/name:file.gguf`.
    pub id: String,
    /// Its commit.
    pub revision: String,
}

/// The projections of a transformer layer that can carry an adapter, by their Hugging Face names, in the order of a
/// forward pass.
pub const TARGET_MODULES: [&str; 7] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
];

/// LoRA adapter: y = xWᵀ + (alpha / rank)·(xAᵀ)Bᵀ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lora {
    /// Inner dimension r.
    pub rank: i64,
    /// Numerator of the scale.
    pub alpha: f64,
    /// Some of [`TARGET_MODULES`].
    pub target_modules: Vec<String>,
}

/// AdamW with warm-up, schedule and clipping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Optimizer {
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
    /// Steps of linear warm-up from zero.
    pub warmup_steps: u64,
    /// What the rate does after the warm-up.
    pub schedule: Schedule,
    /// Gradients are scaled down to this L2 norm; 0 turns clipping off.
    pub max_grad_norm: f64,
}

/// Learning rate after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Stays at its peak.
    Constant,
    /// Falls to zero in a straight line.
    Linear,
    /// Falls to zero along half a cosine.
    Cosine,
}

/// Rows per optimizer step = `micro_batch` × `accumulation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Rows per forward and backward pass.
    pub micro_batch: usize,
    /// Passes whose gradients are added before a step.
    pub accumulation: usize,
}

/// What the backward pass computes again instead of having kept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// Nothing: fastest, most memory.
    None,
    /// The wide part of each layer's MLP from the layer's middle: two of seven products again.
    Mlp,
    /// Each layer from its input: least memory.
    Layer,
}

/// Order in which rows are trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOrder {
    /// Shuffled anew each epoch, from the seed.
    Shuffled,
    /// As they stand in the file.
    Sequential,
}

/// Generate an answer to each prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerJob {
    /// Model folder (safetensors) or GGUF file.
    pub model: PathBuf,
    /// Adapter folder (PEFT's format); the base model answers where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<PathBuf>,
    /// JSON-lines file of [`Prompt`]s.
    pub prompts: PathBuf,
    /// Format of weights and activations.
    pub dtype: DType,
    /// Tokens that end an answer.
    pub stop_tokens: Vec<u32>,
    /// Longest answer, in tokens.
    pub max_new_tokens: usize,
    /// Prompts decoded together.
    pub batch_size: usize,
    /// Greedy where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Whether the engine sends answers piece by piece while it writes them; those that cannot send them whole alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stream: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Random choice of the next token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Logits are divided by it; above 0.
    pub temperature: f64,
    /// Smallest set of tokens whose probability reaches this; 1 keeps all.
    pub top_p: f64,
    /// Most likely tokens kept; 0 keeps all.
    pub top_k: i64,
    /// Seed of the choice.
    pub seed: u64,
}

/// One prompt, tokenised by the parent (chat template included), so that every engine sees the same tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Comes back in the answer.
    pub id: String,
    /// Token ids.
    pub input_ids: Vec<u32>,
}

/// Compute the logits of every position of given rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogitsJob {
    /// Model folder (safetensors) or GGUF file.
    pub model: PathBuf,
    /// Adapter folder (PEFT's format).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<PathBuf>,
    /// JSON-lines file of [`Prompt`]s.
    pub prompts: PathBuf,
    /// Format of weights and activations.
    pub dtype: DType,
    /// safetensors file to write: one f32 tensor `[tokens, vocabulary]` per prompt, named by its id.
    pub output: PathBuf,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It did what was asked.
    Ok,
    /// Out of memory.
    Oom,
    /// A number was not finite.
    Nan,
    /// Stopped by the judge.
    Invalid,
    /// Its time box ended.
    TimeBoxed,
    /// The user stopped it.
    Cancelled,
    /// The engine died or failed.
    Crashed,
    /// The run has a beginning and no end: the program that led it went away.
    Interrupted,
}

impl RunStatus {
    /// The name on the wire and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Oom => "oom",
            Self::Nan => "nan",
            Self::Invalid => "invalid",
            Self::TimeBoxed => "time_boxed",
            Self::Cancelled => "cancelled",
            Self::Crashed => "crashed",
            Self::Interrupted => "interrupted",
        }
    }
}
