//! The rows of `recipes.toml`: the one recommended fine-tuning for each class of memory.

use serde::{Deserialize, Serialize};
use toml::Spanned;
use tunesmith_measure::ModelShape;
use tunesmith_protocol::{DType, Recompute};

use super::reading::{AsOf, KnowledgeError, KnowledgeFile, Text};

/// Whose memory a recipe is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecipeKind {
    /// The processor's.
    Cpu,
    /// A card's own.
    Discrete,
    /// Main memory that graphics share.
    Unified,
    /// Any card's whose number format is the recipe's.
    Any,
}

/// A recommended fine-tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeRow {
    /// The recipe's name.
    pub id: String,
    /// For people, e.g. `24 GiB`.
    pub class: Text,
    /// Whose memory it is made for.
    pub kind: RecipeKind,
    /// The memory of the class, in GiB.
    #[serde(default)]
    pub class_gib: Option<u64>,
    /// The model, for people.
    pub model: Text,
    /// The model as the recipe names it, at its exact revision.
    pub model_source: String,
    /// All parameters of the model.
    pub parameters: u64,
    /// Bytes over the network for the model.
    pub download_bytes: u64,
    /// The model's licence.
    pub license: Text,
    /// Number format of weights and activations.
    pub dtype: DType,
    /// Inner dimension of the adapter, on all seven projections.
    pub rank: u64,
    /// Rows of a forward and backward pass.
    pub micro_batch: u64,
    /// Passes a step.
    pub accumulation: u64,
    /// Longest row, in tokens.
    pub max_length: u64,
    /// What the backward pass computes again.
    pub recompute: Recompute,
    /// Attention keeps its scores: there are no kernels that do without.
    #[serde(default)]
    pub plain_attention: bool,
    /// The model's dimensions.
    pub shape: ModelShape,
    /// Why this one for the class.
    pub why: Text,
    /// Keys of the recipe whose value is nobody's measurement.
    pub unverified: Vec<String>,
    /// When this was true.
    pub as_of: AsOf,
    /// Where it was read.
    pub source: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    recipe: Vec<Spanned<RecipeRow>>,
}

pub(super) fn read(file: &KnowledgeFile) -> Result<Vec<RecipeRow>, KnowledgeError> {
    let rows: File = file.parse()?;
    let mut recipes: Vec<RecipeRow> = Vec::new();
    for row in rows.recipe {
        let offset = row.span().start;
        let recipe = row.into_inner();
        if recipes.iter().any(|other| other.id == recipe.id) {
            return Err(file.mistake(offset, "id", format!("`{}` is there twice", recipe.id)));
        }
        if [&recipe.id, &recipe.model_source]
            .into_iter()
            .any(|text| text.chars().any(char::is_control))
        {
            return Err(file.mistake(offset, "id", "it holds a control character"));
        }
        let counted = recipe.shape.parameters();
        if counted != recipe.parameters {
            return Err(file.mistake(
                offset,
                "parameters",
                format!(
                    "the dimensions give {counted} parameters, the row says {}",
                    recipe.parameters
                ),
            ));
        }
        if recipe.micro_batch == 0 || recipe.max_length == 0 {
            return Err(file.mistake(offset, "micro_batch", "rows and tokens are more than none"));
        }
        recipes.push(recipe);
    }
    Ok(recipes)
}
