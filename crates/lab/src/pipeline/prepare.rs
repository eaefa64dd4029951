//! From a recipe to what an engine needs: the model's file, tokenised rows, test questions.

use std::path::{Path, PathBuf};

use tunesmith_data::{
    Content, DataSet, Document, Encoder, Example, LongRows as DataLongRows, Policy, Reading, Row, Rows,
    RowsInfo, RowsReport, hash_file,
};
use tunesmith_measure::ModelShape;
use tunesmith_models::{
    Message, Model, ModelConfig,
    hub::{Hub, HubId},
};
use tunesmith_protocol::{Level, ModelOrigin, Progress};
use tunesmith_setup::Folders;

use crate::{
    evaluate::Questions,
    fit::ModelName,
    recipe::{DEFAULT_MODEL, DataSection, FIXED_LENGTH, LongRows, Recipe, TEXT_TO_SQL},
    run::Manifest,
    text_to_sql::TextToSql,
};

use super::{LabError, Observer, Stage, Update};

/// A model that was opened and checked.
pub(super) struct OpenModel {
    pub(super) path: PathBuf,
    pub(super) model: Model,
    pub(super) encoder: Encoder,
    /// Of a model from a hub, at its exact commit.
    pub(super) id: Option<HubId>,
}

impl OpenModel {
    pub(super) fn open(recipe: &Recipe, folders: &Folders) -> Result<Self, LabError> {
        if let Some(path) = &recipe.model.path {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            return Self::from_path(path, None);
        }
        match recipe.model.source.as_deref() {
            // What has not been fetched is not fetched here: nobody was asked.
            Some(source) if source != DEFAULT_MODEL => {
                let (id, path) = Hub::from_env()?.find(&source.parse()?)?;
                Self::from_path(path, Some(id))
            }
            _ => Self::from_path(super::surroundings::default_model(folders)?, None),
        }
    }

    pub(super) fn from_path(path: PathBuf, id: Option<HubId>) -> Result<Self, LabError> {
        let model = Model::open(&path)?;
        let encoder = Encoder::new(&model)?;
        Ok(Self {
            path,
            model,
            encoder,
            id,
        })
    }

    /// The model's name in records.
    pub(super) fn name(&self) -> String {
        self.id.as_ref().map_or_else(|| name_of(&self.path), HubId::name)
    }

    /// The model as tries and runs name it.
    pub(super) fn to_name(&self) -> ModelName {
        ModelName {
            name: self.name(),
            source: self.id.as_ref().map(ToString::to_string),
            path: self.path.clone(),
        }
    }

    /// Where the model comes from, for the adapter's record.
    pub(super) fn origin(&self) -> Option<ModelOrigin> {
        self.id.as_ref().map(|id| ModelOrigin {
            id: id.name(),
            revision: id.revision().to_owned(),
        })
    }

    /// The model of a run, which must not have changed: an adapter on another base answers, only worse, and nobody
    /// would see why (T8).
    pub(super) fn of_run(manifest: &Manifest) -> Result<Self, LabError> {
        let id = manifest.model.source.as_deref().map(str::parse).transpose()?;
        let model = Self::from_path(manifest.model.path.clone(), id)?;
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
    pub(super) reading: Option<Reading>,
    pub(super) questions: Option<Questions>,
}

pub(super) fn prepare(
    recipe: &Recipe,
    model: &OpenModel,
    observer: &mut dyn Observer,
) -> Result<Prepared, LabError> {
    let Source {
        content,
        name: source,
        sha256: source_sha256,
        reading,
        questions,
    } = source_of(&recipe.data, recipe.evaluate.questions)?;
    let policy = policy(&recipe.data, &model.encoder);
    if recipe.data.max_length > model.model.config().context_length {
        let text = format!(
            "max_length is {}, the model reads {} tokens: the model's limit counts",
            recipe.data.max_length,
            model.model.config().context_length
        );
        observer.update(Update::Log(Level::Info, &text));
    }
    let (mut rows, mut report) = model.encoder.rows_of(&content, policy, &mut |done, total| {
        let progress = Progress {
            stage: "prepare".to_owned(),
            done,
            total,
            unit: "rows".to_owned(),
            eta_secs: None,
        };
        observer.update(Update::Progress(Stage::Prepare, &progress));
    })?;
    if source == FIXED_LENGTH {
        whole_rows(&mut rows, &mut report);
    }
    for warning in report.warnings() {
        observer.update(Update::Log(Level::Warn, &warning));
    }
    let info = model.encoder.info(&source, &source_sha256, policy, &report)?;
    Ok(Prepared {
        rows,
        info,
        source,
        reading,
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

/// Leaves out the rows that are shorter than the longest: the last one of a text, and one that would have ended within
/// a letter (M13).
fn whole_rows(rows: &mut Rows, report: &mut RowsReport) {
    let longest = report.longest;
    rows.rows.retain(|row| row.input_ids.len() == longest);
    let supervised: Vec<usize> = rows.rows.iter().map(Row::supervised_tokens).collect();
    report.rows = rows.rows.len();
    report.real_tokens = rows.tokens();
    report.supervised_tokens = rows.supervised_tokens();
    report.supervised_share = report.supervised_tokens as f64 / report.real_tokens.max(1) as f64;
    report.fewest_supervised = supervised.iter().copied().min().unwrap_or(0);
    report.most_supervised = supervised.iter().copied().max().unwrap_or(0);
    report.shortest = longest;
    report.mean_length = longest as f64;
}

/// What is trained on, before it is tokenised.
struct Source {
    content: Content,
    /// Name of the data set or file name.
    name: String,
    sha256: String,
    reading: Option<Reading>,
    questions: Option<Questions>,
}

fn source_of(data: &DataSection, questions: usize) -> Result<Source, LabError> {
    if let Some(path) = &data.path {
        let set = DataSet::read(path, &data.columns)?;
        return Ok(Source {
            content: set.content,
            name: name_of(path),
            sha256: hash_file(path)?,
            reading: Some(set.reading),
            questions: None,
        });
    }
    let set = TextToSql::load()?;
    if data.source.as_deref() == Some(FIXED_LENGTH) {
        return Ok(fixed_length(&set));
    }
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
    Ok(Source {
        content: Content::Conversations(examples),
        name: TEXT_TO_SQL.to_owned(),
        sha256: set.train_hash().to_owned(),
        reading: None,
        questions: Some(Questions::first(set, questions)),
    })
}

/// The questions and queries as one text without a line break: where nothing asks for an end, a row has as many tokens
/// as it may have.
fn fixed_length(set: &TextToSql) -> Source {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pairs = set
        .train
        .iter()
        .map(|question| format!("{} {}", words(&question.question), words(&question.sql)));
    let text = Document {
        id: FIXED_LENGTH.to_owned(),
        text: pairs.collect::<Vec<_>>().join(" "),
        markdown: false,
    };
    Source {
        content: Content::Text(vec![text]),
        name: FIXED_LENGTH.to_owned(),
        sha256: set.train_hash().to_owned(),
        reading: None,
        questions: None,
    }
}

/// A file or folder without where it lies.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
