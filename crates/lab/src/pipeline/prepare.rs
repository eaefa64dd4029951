//! From a recipe to what an engine needs: the model's file, tokenised rows, test questions.

use std::path::{Path, PathBuf};

use tunesmith_data::{
    Encoder, Example, LongRows as DataLongRows, Policy, Rows, RowsInfo, hash_file, read_jsonl,
};
use tunesmith_measure::ModelShape;
use tunesmith_models::{Message, Model, ModelConfig};
use tunesmith_protocol::{Level, Progress};
use tunesmith_setup::Folders;

use crate::{
    evaluate::Questions,
    recipe::{DataSection, LongRows, Recipe, TEXT_TO_SQL},
    run::Manifest,
    text_to_sql::TextToSql,
};

use super::{LabError, Observer, Stage, Update};

/// A model that was opened and checked.
pub(super) struct OpenModel {
    pub(super) path: PathBuf,
    pub(super) model: Model,
    pub(super) encoder: Encoder,
}

impl OpenModel {
    pub(super) fn open(recipe: &Recipe, folders: &Folders) -> Result<Self, LabError> {
        let path = match &recipe.model.path {
            Some(path) => std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            None => super::surroundings::default_model(folders)?,
        };
        Self::from_path(path)
    }

    pub(super) fn from_path(path: PathBuf) -> Result<Self, LabError> {
        let model = Model::open(&path)?;
        let encoder = Encoder::new(&model)?;
        Ok(Self { path, model, encoder })
    }

    /// The model of a run, which must not have changed: an adapter on another base answers, only worse, and nobody
    /// would see why (T8).
    pub(super) fn of_run(manifest: &Manifest) -> Result<Self, LabError> {
        let model = Self::from_path(manifest.model.path.clone())?;
        if model.model.fingerprint()? != manifest.model.fingerprint {
            return Err(LabError::NotPossible {
                message: format!(
                    "{} has changed since the run {}: its adapter belongs to other weights",
                    manifest.model.path.display(),
                    manifest.id
                ),
                hints: vec!["put the old model file back, or train again".to_owned()],
            });
        }
        Ok(model)
    }
}

/// The dimensions that figures are counted from.
pub fn shape_of(config: &ModelConfig) -> ModelShape {
    ModelShape {
        hidden: config.hidden_size as u64,
        layers: config.layers as u64,
        heads: config.heads as u64,
        kv_heads: config.kv_heads as u64,
        head_dim: config.head_dim as u64,
        intermediate: config.intermediate_size as u64,
        vocab: config.vocab_size as u64,
        tied: config.tied_embeddings,
        qkv_bias: config.qkv_bias,
        qk_norm: config.qk_norm,
    }
}

/// Rows that are ready to be written, and the questions that belong to them.
pub(super) struct Prepared {
    pub(super) rows: Rows,
    pub(super) info: RowsInfo,
    pub(super) source: String,
    pub(super) questions: Option<Questions>,
}

pub(super) fn prepare(
    recipe: &Recipe,
    model: &OpenModel,
    observer: &mut dyn Observer,
) -> Result<Prepared, LabError> {
    let (examples, source, source_sha256, questions) = examples(&recipe.data, recipe.evaluate.questions)?;
    let policy = policy(&recipe.data, &model.encoder);
    if recipe.data.max_length > model.model.config().context_length {
        let text = format!(
            "max_length is {}, the model reads {} tokens: the model's limit counts",
            recipe.data.max_length,
            model.model.config().context_length
        );
        observer.update(Update::Log(Level::Info, &text));
    }
    let (rows, report) = model.encoder.rows(&examples, policy, &mut |done, total| {
        let progress = Progress {
            stage: "prepare".to_owned(),
            done,
            total,
            unit: "rows".to_owned(),
            eta_secs: None,
        };
        observer.update(Update::Progress(Stage::Prepare, &progress));
    })?;
    for warning in report.warnings() {
        observer.update(Update::Log(Level::Warn, &warning));
    }
    let info = model.encoder.info(&source, &source_sha256, policy, &report)?;
    Ok(Prepared {
        rows,
        info,
        source,
        questions,
    })
}

/// `max_length` is a wish for the data; a model that reads less decides.
fn policy(data: &DataSection, encoder: &Encoder) -> Policy {
    let long_rows = match data.long_rows {
        LongRows::Error => DataLongRows::Error,
        LongRows::Drop => DataLongRows::Drop,
    };
    let policy = Policy {
        max_length: Some(data.max_length),
        long_rows,
    };
    if encoder.limit(policy).is_ok() {
        policy
    } else {
        Policy {
            max_length: None,
            long_rows,
        }
    }
}

fn examples(
    data: &DataSection,
    questions: usize,
) -> Result<(Vec<Example>, String, String, Option<Questions>), LabError> {
    if let Some(path) = &data.path {
        let examples = read_jsonl(path)?;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        return Ok((examples, name, hash_file(path)?, None));
    }
    let set = TextToSql::load()?;
    let examples = set
        .train
        .iter()
        .map(|question| {
            let mut messages = set.messages(question);
            messages.push(Message {
                role: "assistant".to_owned(),
                content: question.sql.clone(),
            });
            Example {
                id: question.id.clone(),
                messages,
            }
        })
        .collect();
    let hash = set.train_hash().to_owned();
    Ok((
        examples,
        TEXT_TO_SQL.to_owned(),
        hash,
        Some(Questions::first(set, questions)),
    ))
}

/// A file or folder without where it lies.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
