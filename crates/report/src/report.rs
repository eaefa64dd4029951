//! The report itself: what was put in, and the verdicts drawn from it, so that a reader of the JSON need not draw
//! them again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tunesmith_measure::cost::Cost;

use crate::hash::{self, Integrity};
use crate::published::Beside;
use crate::scorecard::{self, Score};
use crate::view::published_beside;
use crate::{
    CountingRule, Gain, Headline, ReportError, ReportInput, TrainingRecord, headline, html, markdown, rules,
    view,
};

/// Version of the JSON. It rises when a field changes its meaning or goes away; added fields leave it alone.
/// Version 1 had the parts of a training directly in `run`; it is still read.
pub const SCHEMA_VERSION: u32 = 2;

/// What a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// One training.
    Training,
    /// Several arms, each trained several times.
    Experiment,
    /// A device and what it can do.
    Calibration,
}

impl About {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Experiment => "experiment",
            Self::Calibration => "calibration",
        }
    }

    /// As it stands in a sentence.
    pub fn with_article(self) -> &'static str {
        match self {
            Self::Training => "a training",
            Self::Experiment => "an experiment",
            Self::Calibration => "a calibration",
        }
    }
}

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// SHA-256 of the canonical JSON of all other fields; filled when it is written.
    #[serde(default)]
    pub content_sha256: String,
    /// What it is about.
    pub about: About,
    /// The one sentence.
    pub headline: Headline,
    /// Whether its numbers can be trusted, and why.
    pub validity: Headline,
    /// Before against after, where both were scored on the same terms.
    #[serde(default)]
    pub gain: Option<Gain>,
    /// Energy and money (U8), of a training.
    #[serde(default)]
    pub cost: Option<Cost>,
    /// What works here (U4).
    #[serde(default)]
    pub scorecard: Vec<Score>,
    /// What others published of the same card or model (X17).
    #[serde(default)]
    pub published: Vec<Beside>,
    /// How every number was counted (X16).
    #[serde(default)]
    pub counting_rules: Vec<CountingRule>,
    /// Comparisons that these numbers do not allow, one sentence each (X16).
    #[serde(default)]
    pub invalid_comparisons: Vec<String>,
    /// What it was made of.
    pub record: ReportInput,
    /// Whether it is as it was written.
    #[serde(skip)]
    pub integrity: Integrity,
}

impl Report {
    /// Draws the verdicts. Redact the input before: see [`crate::redact`].
    pub fn new(record: ReportInput) -> Self {
        let gain = record.training.as_ref().and_then(Gain::of);
        let about = match (&record.experiment, &record.training) {
            (Some(_), _) => About::Experiment,
            (None, Some(_)) => About::Training,
            (None, None) => About::Calibration,
        };
        Self {
            schema_version: SCHEMA_VERSION,
            content_sha256: String::new(),
            about,
            headline: headline::headline(&record, gain.as_ref()),
            validity: headline::validity(&record),
            cost: record
                .training
                .as_ref()
                .map(|training| view::cost_of(&record, training)),
            scorecard: scorecard::scorecard(&record),
            published: published_beside(&record),
            counting_rules: rules::counting_rules(&record),
            invalid_comparisons: rules::invalid_comparisons(&record),
            gain,
            record,
            integrity: Integrity::AsWritten,
        }
    }

    /// The training, in a report of one.
    pub fn training(&self) -> Option<&TrainingRecord> {
        self.record.training.as_ref()
    }

    /// Reads a report, of another machine too (X15). Unknown fields are ignored. Whether it was edited after it was
    /// written is in [`Report::integrity`]: such a report is still read, and must be told.
    ///
    /// # Errors
    /// [`ReportError::TooNew`] for a later schema version, [`ReportError::Damaged`] where JSON begins and breaks off,
    /// [`ReportError::NotAReport`] for anything else.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let fault = |error: serde_json::Error| {
            let begins = text.trim_start().starts_with('{');
            if begins && (error.is_syntax() || error.is_eof()) {
                ReportError::Damaged(error)
            } else {
                ReportError::NotAReport(error)
            }
        };
        let version: Version = serde_json::from_str(text).map_err(fault)?;
        if version.schema_version > SCHEMA_VERSION {
            return Err(ReportError::TooNew {
                found: version.schema_version,
                known: SCHEMA_VERSION,
            });
        }
        let mut whole: Value = serde_json::from_str(text).map_err(fault)?;
        let integrity = Integrity::of(&whole);
        if version.schema_version < 2 {
            from_version_1(&mut whole);
        }
        let report: Self = serde_json::from_value(whole).map_err(fault)?;
        possible(&report.record)?;
        Ok(Self { integrity, ..report })
    }

    /// As JSON, indented, for people and programs, with the hash of its content.
    ///
    /// # Errors
    /// [`ReportError::Encode`]; none is known to happen.
    pub fn to_json(&self) -> Result<String, ReportError> {
        let mut whole = serde_json::to_value(self).map_err(ReportError::Encode)?;
        whole[hash::FIELD] = json!(hash::content_hash(&whole));
        let mut text = serde_json::to_string_pretty(&whole).map_err(ReportError::Encode)?;
        text.push('\n');
        Ok(text)
    }

    /// The hash that its JSON carries.
    ///
    /// # Errors
    /// [`ReportError::Encode`]; none is known to happen.
    pub fn content_hash(&self) -> Result<String, ReportError> {
        let whole = serde_json::to_value(self).map_err(ReportError::Encode)?;
        Ok(hash::content_hash(&whole))
    }

    /// As one self-contained HTML file.
    ///
    /// # Errors
    /// [`ReportError::Render`]; none is known to happen.
    pub fn to_html(&self) -> Result<String, ReportError> {
        html::render(self)
    }

    /// As Markdown, for a post in a forum.
    ///
    /// # Errors
    /// [`ReportError::Render`]; none is known to happen.
    pub fn to_markdown(&self) -> Result<String, ReportError> {
        markdown::render(self)
    }
}

/// Sizes that no model and no machine has would overflow what is counted from them.
fn possible(record: &ReportInput) -> Result<(), ReportError> {
    const WIDEST: u64 = 1 << 22;
    const MOST_BYTES: u64 = 1 << 60;
    let Some(training) = &record.training else {
        return Ok(());
    };
    let shape = training.shape.iter().flat_map(|shape| {
        [
            ("layers", shape.layers, 1 << 12),
            ("heads", shape.heads, 1 << 12),
            ("key and value heads", shape.kv_heads, 1 << 12),
            ("width of a head", shape.head_dim, 1 << 10),
            ("width", shape.hidden, WIDEST),
            ("inner width", shape.intermediate, WIDEST),
            ("vocabulary", shape.vocab, 1 << 24),
        ]
    });
    let rank = training.lora.iter().map(|lora| ("rank", lora.rank, WIDEST));
    let memory = training.predicted.iter().flat_map(|need| {
        [
            ("predicted weights", need.weights_bytes, MOST_BYTES),
            ("predicted adapter", need.adapter_bytes, MOST_BYTES),
            ("predicted activations", need.kept_bytes, MOST_BYTES),
            ("predicted peak of a moment", need.moment_bytes, MOST_BYTES),
            ("predicted memory beside", need.beside_bytes, MOST_BYTES),
            ("predicted context", need.context_bytes, MOST_BYTES),
        ]
    });
    let impossible = shape
        .chain(rank)
        .chain(memory)
        .find(|(_, value, most)| value > most);
    impossible.map_or(Ok(()), |(what, value, _)| {
        Err(ReportError::Impossible { what, value })
    })
}

/// Turns a report of version 1, whose `run` held the training's parts beside those of the machine, into one of version 2.
fn from_version_1(report: &mut Value) {
    const OF_THE_TRAINING: [&str; 10] = [
        "recipe",
        "model",
        "task",
        "status",
        "reason",
        "summary",
        "judge",
        "peak_process_bytes",
        "before",
        "after",
    ];
    let Some(fields) = report.as_object_mut() else {
        return;
    };
    let Some(Value::Object(mut run)) = fields.remove("run") else {
        return;
    };
    let mut training = Map::new();
    for name in OF_THE_TRAINING {
        if let Some(value) = run.remove(name) {
            training.insert(name.to_owned(), value);
        }
    }
    let backend = run
        .get("manifest")
        .and_then(|manifest| manifest.pointer("/device/backend")?.as_str())
        .unwrap_or_default()
        .to_owned();
    run.insert("device".to_owned(), json!({"name": "", "backend": backend}));
    run.insert("training".to_owned(), Value::Object(training));
    fields.insert("record".to_owned(), Value::Object(run));
    fields.insert("about".to_owned(), json!("training"));
}
