//! What a parent asks of an engine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Linear, StageBudget};

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
    /// Store tensors in 4 bits (parity checks).
    Quantise(QuantiseJob),
}

impl Work {
    /// The kind's name on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Calibrate(_) => "calibrate",
            Self::Train(_) => "train",
            Self::Answer(_) => "answer",
            Self::Logits(_) => "logits",
            Self::Quantise(_) => "quantise",
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

/// How the frozen linear weights of the layers are stored. Embeddings, head and norms are never quantised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantization {
    /// In the number format of the job.
    #[default]
    None,
    /// 4-bit NormalFloat in blocks of 64, the scales of the blocks quantised to 8 bits in turn (QLoRA's double
    /// quantisation); multiplied in the number format of the job.
    Nf4,
}

impl Quantization {
    /// The name on the wire and in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Nf4 => "nf4",
        }
    }
}

/// How attention is computed in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// By a fused kernel, whichever torch dispatches `scaled_dot_product_attention` to.
    #[default]
    Sdpa,
    /// Written out: scores of every pair of tokens, mask, softmax, product; the scores are held in memory.
    Eager,
}

impl Attention {
    /// The name on the wire and in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sdpa => "sdpa",
            Self::Eager => "eager",
        }
    }
}

/// Measure the device (M1, C4, X8, X9, X10).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CalibrateJob {
    /// Time box for the whole calibration, in seconds.
    pub budget_secs: f64,
    /// Side of the square product; chosen from the device and the time box where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gemm_side: Option<i64>,
    /// Whether the device multiplies bf16 in hardware. On a processor without it bf16 is one small product, labelled
    /// emulated; on a card without it (RDNA2) f16 takes its place.
    pub bf16_in_hardware: bool,
    /// What to measure, in this order, each stage within a time box of its own. Everything within `budget_secs` where
    /// absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageBudget>,
    /// Linear layers of a model, whose products are timed too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linears: Vec<Linear>,
    /// Tokens that those products are of; as many as fill the device where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_tokens: Option<i64>,
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
    /// How the frozen linear weights are stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quantization: Quantization,
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
    /// Whether the rows of a micro-batch stand one after the other without padding; else each is padded to the
    /// longest of them, and the padding is computed like any token.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub packing: bool,
    /// How attention is computed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attention: Attention,
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
    /// How the frozen linear weights are stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quantization: Quantization,
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub stream: bool,
}

/// A field at its default is left out, so that a line without it means the same as before there was one.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_yes(flag: &bool) -> bool {
    *flag
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
    /// How the frozen linear weights are stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quantization: Quantization,
    /// safetensors file to write: one f32 tensor `[tokens, vocabulary]` per prompt, named by its id.
    pub output: PathBuf,
}

/// Store tensors in 4 bits as a base's weights are stored, and write what is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantiseJob {
    /// safetensors file: f32, bf16 or f16 tensors of any shape.
    pub tensors: PathBuf,
    /// safetensors file to write. Of each tensor `NAME.packed` u8 `[n / 2]`, `NAME.scales` u8 `[n / 64]`, `NAME.nested` f32
    /// `[n / 16384]`, all rounded up, `NAME.offset` f32 `[1]`, and `NAME.unpacked` f32 `[n]`, as it is multiplied.
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
