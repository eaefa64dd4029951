//! A calibration on the wire: what a parent asks for, stage by stage, and what the device did.
//!
//! Engines emit numbers; whether a device throttles, which kernel won and whether a result can be believed is counted
//! from them by the parent. Fields that came later are optional, so that records of earlier versions still read.

use serde::{Deserialize, Serialize};

use crate::DType;

/// A part of a calibration, with a time box of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalibrationStage {
    /// Kernels of training against float64, before any speed (X8).
    Values,
    /// Square products in three layouts (M1, X9).
    Gemm,
    /// Products of a model's own linear layers, from a cold cache (X9, numbers 3.4).
    Linears,
    /// Each back end of attention (C4).
    Attention,
    /// Copy bandwidth (X10).
    Copy,
    /// Memory that the device holds and the allocator does not know of (X10).
    Allocator,
    /// One product again and again, for as long as it takes a device to grow hot (X9). Last, since what follows a hot
    /// device is slow.
    Sustained,
    /// The same under other settings of the environment, each in a process of its own; the parent's part (X10).
    Variants,
}

impl CalibrationStage {
    /// Those that an engine does, in their order.
    pub const OF_AN_ENGINE: [Self; 7] = [
        Self::Values,
        Self::Gemm,
        Self::Linears,
        Self::Attention,
        Self::Copy,
        Self::Allocator,
        Self::Sustained,
    ];

    /// The name on the wire, which is that of its progress.
    pub fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Gemm => "gemm",
            Self::Linears => "linears",
            Self::Attention => "attention",
            Self::Copy => "copy",
            Self::Allocator => "allocator",
            Self::Sustained => "sustained",
            Self::Variants => "variants",
        }
    }

    /// The stage of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::OF_AN_ENGINE
            .into_iter()
            .chain([Self::Variants])
            .find(|stage| stage.name() == name)
    }

    /// What is measured, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Values => "values of the kernels against float64",
            Self::Gemm => "matrix products in three layouts",
            Self::Linears => "products of a model's own layers",
            Self::Attention => "back ends of attention",
            Self::Copy => "copies within the memory",
            Self::Allocator => "memory outside the allocator",
            Self::Sustained => "one product for as long as it takes to grow hot",
            Self::Variants => "the same under other settings",
        }
    }
}

/// Time that a stage may take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageBudget {
    /// Which stage.
    pub stage: CalibrationStage,
    /// Its time box, in seconds.
    pub secs: f64,
}

impl StageBudget {
    /// The stages of a whole calibration and their time boxes. On a processor everything is shorter, and the sustained
    /// product too short to show throttling unless `full`: no processor here is what people train on for hours.
    pub fn plan(on_card: bool, full: bool) -> Vec<Self> {
        CalibrationStage::OF_AN_ENGINE
            .into_iter()
            .map(|stage| {
                let secs = match (stage, on_card) {
                    (CalibrationStage::Values, true) => 15.0,
                    (CalibrationStage::Values, false) => 5.0,
                    (CalibrationStage::Gemm, true) => 20.0,
                    (CalibrationStage::Gemm, false) => 12.0,
                    (CalibrationStage::Linears | CalibrationStage::Attention, true) => 10.0,
                    (CalibrationStage::Linears | CalibrationStage::Attention, false) => 4.0,
                    (CalibrationStage::Copy, _) => 3.0,
                    (CalibrationStage::Allocator, _) => 2.0,
                    (CalibrationStage::Sustained, false) if !full => 5.0,
                    (CalibrationStage::Sustained, _) => 30.0,
                    // The parent counts its own engines' time.
                    (CalibrationStage::Variants, _) => 0.0,
                };
                Self { stage, secs }
            })
            .collect()
    }

    /// Time boxes of stages together, in seconds.
    pub fn total_secs(plan: &[Self]) -> f64 {
        plan.iter().map(|budget| budget.secs).sum()
    }
}

/// A linear layer, y\[m,outputs\] = x\[m,inputs\]·Wᵀ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linear {
    /// e.g. `down_proj`.
    pub name: String,
    /// Width of its input.
    pub inputs: i64,
    /// Width of its output.
    pub outputs: i64,
}

/// What the device did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// Threads used on a CPU.
    pub threads: usize,
    /// Matrix products.
    pub gemm: Vec<GemmMeasurement>,
    /// Attention, the LoRA layer and 4-bit storage, against float64 (X8).
    #[serde(default)]
    pub kernels: Vec<KernelCheck>,
    /// Copy bandwidth.
    pub copy: CopyBandwidth,
    /// Whether a time box cut anything short.
    pub time_boxed: bool,
    /// Products of a model's own linear layers, from a cold cache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linears: Vec<LinearMeasurement>,
    /// One product again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<Sustained>,
    /// Back ends of attention, those that this device does not have among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attention: Vec<AttentionMeasurement>,
    /// Memory outside the allocator, where it can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<AllocatorOverhead>,
    /// What the stages took; none in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageTime>,
    /// The same under other settings of the environment; the parent adds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// What other programs did meanwhile; the parent adds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<Contention>,
}

/// What a stage took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// Which stage.
    pub stage: CalibrationStage,
    /// Time that it took, in seconds.
    pub secs: f64,
    /// Whether its time box left something out.
    pub cut: bool,
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

impl Layout {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nn => "nn",
            Self::Nt => "nt",
            Self::Tn => "tn",
        }
    }
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
    /// Weights stored as NF4 and unpacked again, against what they were (numbers 4.1).
    Nf4RoundTrip,
    /// Unpacking them alone, against the same in float64.
    Nf4Unpacking,
}

impl KernelName {
    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Self::AttentionForward => "attention, forward",
            Self::AttentionBackward => "attention, backward",
            Self::LoraLayerForward => "LoRA layer, forward",
            Self::LoraLayerBackward => "LoRA layer, backward",
            Self::Nf4RoundTrip => "NF4, stored and unpacked",
            Self::Nf4Unpacking => "NF4, unpacking alone",
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// One product of a linear layer in one layout, each repeat from a cold cache: much memory is written and the output
/// filled with random numbers before it (numbers 3.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinearMeasurement {
    /// Name of the layer.
    pub name: String,
    /// Format of the operands.
    pub dtype: DType,
    /// Which product of the layer.
    pub layout: Layout,
    /// Rows of the product.
    pub m: i64,
    /// Columns of the product.
    pub n: i64,
    /// Terms of each of its sums.
    pub k: i64,
    /// Timed products.
    pub iterations: u32,
    /// 2·m·n·k · iterations ÷ seconds of all iterations, in TFLOPS.
    pub mean_tflops: f64,
    /// Of the single iterations.
    pub best_tflops: f64,
    /// Of the single iterations.
    pub median_tflops: f64,
}

/// One square product again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sustained {
    /// Format of the operands.
    pub dtype: DType,
    /// Layout of the operands.
    pub layout: Layout,
    /// Side n of the square product.
    pub side: i64,
    /// A figure for each second, in order; fewer where a product takes longer than a second.
    pub points: Vec<SustainedPoint>,
}

/// Speed of a stretch of about a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SustainedPoint {
    /// End of the stretch, in seconds since the first product began.
    pub at_secs: f64,
    /// Speed since the end of the stretch before, in TFLOPS.
    pub tflops: f64,
}

/// A back end of torch's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionBackend {
    /// Plain products and a softmax: all scores lie in memory.
    Math,
    /// Flash attention; on AMD's cards AOTriton's, on a processor torch's own.
    Flash,
    /// Memory-efficient attention; on AMD's cards AOTriton's.
    Efficient,
    /// NVIDIA's cuDNN.
    Cudnn,
    /// One that a device brings itself.
    Other,
}

impl AttentionBackend {
    /// Those that can be asked for by name.
    pub const NAMED: [Self; 4] = [Self::Math, Self::Flash, Self::Efficient, Self::Cudnn];

    /// The name on the wire, which is torch's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Math => "math",
            Self::Flash => "flash",
            Self::Efficient => "efficient",
            Self::Cudnn => "cudnn",
            Self::Other => "other",
        }
    }
}

/// Causal attention: queries \[rows, heads, length, `head_dim`\], keys and values \[rows, `kv_heads`, length, `head_dim`\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionShape {
    /// Rows of a batch.
    pub rows: i64,
    /// Query heads.
    pub heads: i64,
    /// Key and value heads.
    pub kv_heads: i64,
    /// Tokens of a row.
    pub length: i64,
    /// Width of a head.
    pub head_dim: i64,
}

/// One back end of attention in one format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttentionMeasurement {
    /// Which back end.
    pub backend: AttentionBackend,
    /// Format of its inputs.
    pub dtype: DType,
    /// Size of its inputs.
    pub shape: AttentionShape,
    /// Whether torch takes it by itself, when nothing is asked for.
    pub dispatched: bool,
    /// What proves which kernel ran (C4): torch's own name of the backward step that the call left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// Median time of a forward pass, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_secs: Option<f64>,
    /// Median time of a backward pass, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_secs: Option<f64>,
    /// Repeats of each.
    #[serde(default)]
    pub iterations: u32,
    /// Most memory that both held beyond their inputs, in bytes, where the allocator tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Output and gradients against float64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<ValueCheck>,
    /// Why it did not run, where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// Memory in use against what the allocator holds, with the libraries loaded and their first kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatorOverhead {
    /// What `used_bytes` counts.
    pub source: OverheadSource,
    /// Memory in use, in bytes.
    pub used_bytes: u64,
    /// What the allocator holds of it, in bytes: on a card what it has reserved.
    pub allocator_bytes: u64,
    /// What other programs held of the card at that time, in bytes, where the parent could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_bytes: Option<u64>,
}

/// Where memory in use was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverheadSource {
    /// The driver's account of the whole card, other programs included.
    Device,
    /// The system's account of the engine's process.
    Process,
}

/// What was measured again under another setting of the environment, in a process of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Variable of the environment.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// Square products, where these are what the variable decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gemm: Vec<GemmMeasurement>,
    /// Attention, where this is what the variable decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attention: Vec<AttentionMeasurement>,
    /// Why there is no figure, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What other programs did with the machine (M19, M20).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// Cores that others kept busy before the first measurement.
    pub before_cores: Option<f64>,
    /// During the measurements.
    pub during_cores: Option<f64>,
    /// After the last one.
    pub after_cores: Option<f64>,
    /// The busiest of them by name, and those that used the card, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// How much more of the card's memory others held after than before, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_growth_bytes: Option<i64>,
    /// Whether that is enough to change what was measured; absent where nothing could be read.
    pub disturbed: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_an_earlier_version_still_reads_and_is_written_as_it_was() {
        let earlier = r#"{"device":"cpu","threads":2,"gemm":[],"kernels":[],"copy":{"bytes":1,"iterations":1,"best_gib_per_sec":2.0,"median_gib_per_sec":1.0},"time_boxed":false}"#;
        let read: Calibration = serde_json::from_str(earlier).unwrap();
        assert_eq!((&read.sustained, read.attention.len()), (&None, 0));
        assert_eq!(serde_json::to_string(&read).unwrap(), earlier);
    }

    #[test]
    fn a_stage_is_found_by_the_name_of_its_progress() {
        for budget in StageBudget::plan(true, true) {
            assert_eq!(CalibrationStage::named(budget.stage.name()), Some(budget.stage));
            let on_the_wire = serde_json::to_value(budget.stage).unwrap();
            assert_eq!(on_the_wire, budget.stage.name());
        }
        assert_eq!(CalibrationStage::named("load"), None);
    }

    #[test]
    fn a_processor_is_measured_within_40_seconds_and_a_full_one_until_it_is_hot() {
        let total = |on_card, full| StageBudget::total_secs(&StageBudget::plan(on_card, full));
        assert!(total(false, false) <= 40.0);
        assert!(total(false, true) >= total(false, false) + 25.0);
        assert_eq!(StageBudget::plan(true, false), StageBudget::plan(true, true));
    }
}
