//! Sizes of a model and of an adapter, counted from the configuration and never from stored elements: packed 4-bit
//! weights store fewer elements than they have parameters (M3).

use serde::{Deserialize, Serialize};
use tunesmith_protocol::DType;

use crate::MeasureError;

/// Dimensions of a dense decoder with grouped-query attention and a gated MLP (Llama, Qwen2, Qwen3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelShape {
    /// Width H of the residual stream.
    pub hidden: u64,
    /// Decoder layers L.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Width I of the MLP.
    pub intermediate: u64,
    /// Rows V of the embedding.
    pub vocab: u64,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Whether the q, k and v projections have a bias (Qwen2).
    pub qkv_bias: bool,
    /// Whether q and k are normalised per head (Qwen3).
    pub qk_norm: bool,
}

impl ModelShape {
    /// Width Q of all query heads.
    pub fn query_width(&self) -> u64 {
        self.heads * self.head_dim
    }

    /// Width K of all key heads.
    pub fn key_width(&self) -> u64 {
        self.kv_heads * self.head_dim
    }

    /// Weights of the linear layers of the decoder: N_lin = L·(H·Q + 2·H·K + Q·H + 3·H·I) (numbers 3.2).
    pub fn linear_parameters(&self) -> u64 {
        let (h, q, k) = (self.hidden, self.query_width(), self.key_width());
        self.layers * (h * q + 2 * h * k + q * h + 3 * h * self.intermediate)
    }

    /// All parameters: embedding, head where untied, linear layers, biases and norms.
    pub fn parameters(&self) -> u64 {
        let embedding = self.vocab * self.hidden * if self.tied { 1 } else { 2 };
        let biases = if self.qkv_bias {
            self.layers * (self.query_width() + 2 * self.key_width())
        } else {
            0
        };
        let head_norms = if self.qk_norm {
            self.layers * 2 * self.head_dim
        } else {
            0
        };
        let norms = self.layers * 2 * self.hidden + self.hidden;
        embedding + self.linear_parameters() + biases + head_norms + norms
    }

    /// N of the 6ND rule as the published figures count it: V·H + ΣW, without biases and norms (numbers 3.1). V·H
    /// stands for the head; an embedding of its own is a look-up without arithmetic and is left out.
    pub fn seed_parameters(&self) -> u64 {
        self.vocab * self.hidden + self.linear_parameters()
    }

    /// Bytes of the key and value cache per token: 2·L·K·bytes.
    pub fn kv_bytes_per_token(&self, dtype: DType) -> u64 {
        2 * self.layers * self.key_width() * dtype.size_bytes()
    }
}

/// A linear layer that an adapter can be put on, by its Hugging Face name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Projection {
    /// Queries.
    QProj,
    /// Keys.
    KProj,
    /// Values.
    VProj,
    /// Attention output.
    OProj,
    /// Gate of the MLP.
    GateProj,
    /// Up of the MLP.
    UpProj,
    /// Down of the MLP.
    DownProj,
}

impl Projection {
    /// All seven, in the order of a layer.
    pub const ALL: [Self; 7] = [
        Self::QProj,
        Self::KProj,
        Self::VProj,
        Self::OProj,
        Self::GateProj,
        Self::UpProj,
        Self::DownProj,
    ];

    /// The name in recipes and in adapters.
    pub fn name(self) -> &'static str {
        match self {
            Self::QProj => "q_proj",
            Self::KProj => "k_proj",
            Self::VProj => "v_proj",
            Self::OProj => "o_proj",
            Self::GateProj => "gate_proj",
            Self::UpProj => "up_proj",
            Self::DownProj => "down_proj",
        }
    }

    /// Width of input and output in a model.
    pub(crate) fn widths(self, shape: &ModelShape) -> (u64, u64) {
        let (h, i) = (shape.hidden, shape.intermediate);
        match self {
            Self::QProj => (h, shape.query_width()),
            Self::KProj | Self::VProj => (h, shape.key_width()),
            Self::OProj => (shape.query_width(), h),
            Self::GateProj | Self::UpProj => (h, i),
            Self::DownProj => (i, h),
        }
    }
}

impl std::str::FromStr for Projection {
    type Err = MeasureError;

    fn from_str(name: &str) -> Result<Self, MeasureError> {
        Self::ALL
            .into_iter()
            .find(|projection| projection.name() == name)
            .ok_or_else(|| MeasureError::UnknownModule {
                name: name.to_owned(),
            })
    }
}

/// Dimensions of a LoRA adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoraShape {
    /// Inner dimension r.
    pub rank: u64,
    /// Projections that carry an adapter, each once.
    pub target_modules: Vec<Projection>,
}

impl LoraShape {
    /// From a recipe's rank and module names; a name given twice counts once.
    ///
    /// # Errors
    /// [`MeasureError::UnknownModule`] for a name that is none of the seven projections, since it would otherwise
    /// count as nothing.
    pub fn new<S: AsRef<str>>(rank: u64, target_modules: &[S]) -> Result<Self, MeasureError> {
        let mut modules = target_modules
            .iter()
            .map(|name| name.as_ref().parse())
            .collect::<Result<Vec<_>, _>>()?;
        modules.sort_unstable();
        modules.dedup();
        Ok(Self {
            rank,
            target_modules: modules,
        })
    }

    /// The part of this adapter that lies on some projections.
    pub(crate) fn only(&self, projections: &[Projection]) -> Self {
        Self {
            rank: self.rank,
            target_modules: self
                .target_modules
                .iter()
                .copied()
                .filter(|module| projections.contains(module))
                .collect(),
        }
    }

    /// Trainable parameters: P_lora = L·r·Σ(in + out) over the modules (numbers 3.2).
    pub fn parameters(&self, shape: &ModelShape) -> u64 {
        let widths: u64 = self
            .target_modules
            .iter()
            .map(|projection| {
                let (input, output) = projection.widths(shape);
                input + output
            })
            .sum();
        shape.layers * self.rank * widths
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Qwen2.5-3B, the worked example of numbers 3.3.
    pub(crate) fn qwen2_5_3b() -> ModelShape {
        model(2048, 36, 16, 2, 128, 11_008, 151_936, true, true, false)
    }

    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)]
    fn model(
        hidden: u64,
        layers: u64,
        heads: u64,
        kv_heads: u64,
        head_dim: u64,
        intermediate: u64,
        vocab: u64,
        tied: bool,
        qkv_bias: bool,
        qk_norm: bool,
    ) -> ModelShape {
        ModelShape {
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim,
            intermediate,
            vocab,
            tied,
            qkv_bias,
            qk_norm,
        }
    }

    pub(crate) fn all_modules(rank: u64) -> LoraShape {
        LoraShape {
            rank,
            target_modules: Projection::ALL.to_vec(),
        }
    }

    #[test]
    fn the_worked_example_counts_as_published() {
        let shape = qwen2_5_3b();
        assert_eq!(shape.linear_parameters(), 2_774_532_096);
        assert_eq!(shape.vocab * shape.hidden, 311_164_928);
        assert_eq!(shape.parameters() - shape.seed_parameters(), 241_664);
        assert_eq!(shape.parameters(), 3_085_938_688);
        assert_eq!(shape.seed_parameters(), 3_085_697_024);
        assert_eq!(shape.parameters() * DType::Bf16.size_bytes(), 6_171_877_376);
        assert_eq!(shape.kv_bytes_per_token(DType::Bf16), 36_864);
    }

    #[test]
    fn lora_parameters_by_rank() {
        for (rank, parameters) in [(8, 14_966_784), (16, 29_933_568), (32, 59_867_136)] {
            assert_eq!(all_modules(rank).parameters(&qwen2_5_3b()), parameters);
        }
    }

    #[test]
    fn adapters_on_some_modules_count_those_alone() {
        let shape = qwen2_5_3b();
        let attention = LoraShape::new(8, &["q_proj", "v_proj", "q_proj"]).unwrap();
        assert_eq!(
            attention.parameters(&shape),
            36 * 8 * ((2048 + 2048) + (2048 + 256))
        );
        let each: u64 = Projection::ALL
            .into_iter()
            .map(|one| {
                LoraShape {
                    rank: 8,
                    target_modules: vec![one],
                }
                .parameters(&shape)
            })
            .sum();
        assert_eq!(each, all_modules(8).parameters(&shape));
    }

    #[test]
    fn an_unknown_module_is_an_error_and_not_zero() {
        let error = LoraShape::new(8, &["q_proj", "qkv"]).unwrap_err();
        assert_eq!(error, MeasureError::UnknownModule { name: "qkv".into() });
        assert_eq!(error.code(), "unknown_module");
        assert!(error.hints()[0].contains("down_proj"));
    }

    #[test]
    fn module_names_are_hugging_faces() {
        for projection in Projection::ALL {
            assert_eq!(serde_json::to_value(projection).unwrap(), projection.name());
            assert_eq!(projection.name().parse(), Ok(projection));
        }
    }

    #[test]
    fn parameters_and_cache_of_known_models() {
        let known = [
            (
                "Qwen2.5-0.5B",
                model(896, 24, 14, 2, 64, 4864, 151_936, true, true, false),
                494_032_768,
                12_288,
            ),
            (
                "Qwen2.5-1.5B",
                model(1536, 28, 12, 2, 128, 8960, 151_936, true, true, false),
                1_543_714_304,
                28_672,
            ),
            (
                "Qwen2.5-7B",
                model(3584, 28, 28, 4, 128, 18_944, 152_064, false, true, false),
                7_615_616_512,
                57_344,
            ),
            (
                "Qwen3-0.6B",
                model(1024, 28, 16, 8, 128, 3072, 151_936, true, false, true),
                596_049_920,
                114_688,
            ),
            (
                "Qwen3-1.7B",
                model(2048, 28, 16, 8, 128, 6144, 151_936, true, false, true),
                1_720_574_976,
                114_688,
            ),
            (
                "Qwen3-4B",
                model(2560, 36, 32, 8, 128, 9728, 151_936, true, false, true),
                4_022_468_096,
                147_456,
            ),
            (
                "Llama-3.2-3B",
                model(3072, 28, 24, 8, 128, 8192, 128_256, true, false, false),
                3_212_749_824,
                114_688,
            ),
            (
                "Llama-3.1-8B",
                model(4096, 32, 32, 8, 128, 14_336, 128_256, false, false, false),
                8_030_261_248,
                131_072,
            ),
            (
                "SmolLM2-135M",
                model(576, 30, 9, 3, 64, 1536, 49_152, true, false, false),
                134_515_008,
                23_040,
            ),
            (
                "SmolLM2-360M",
                model(960, 32, 15, 5, 64, 2560, 49_152, true, false, false),
                361_821_120,
                40_960,
            ),
        ];
        for (name, shape, parameters, cache) in known {
            assert_eq!(shape.parameters(), parameters, "{name}");
            assert_eq!(shape.kv_bytes_per_token(DType::Bf16), cache, "{name}");
        }
    }
}
