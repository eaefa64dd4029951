//! The report of a training, an experiment or a calibration: a model, and its renderings as one HTML file, as JSON, as Markdown and as a
//! picture to share.
//!
//! This crate exists so that a result can be shown to others. It takes plain inputs and knows nothing of run folders,
//! engines or windows; whoever has a run fills a [`ReportInput`]. Every figure comes from `tunesmith-measure`: here
//! numbers are only worded, drawn and laid out. The HTML needs no other file, no script and no network.
//!
//! - [`ReportInput`]: the evidence; [`redact`] takes private words out of it.
//! - [`Report`]: the evidence with the verdicts drawn from it; [`write`](fn@write), [`write_as`] put it on disk.
//! - [`comparable`], [`SideBySide`]: two reports beside each other.
//! - [`published`]: what others published, shown beside and never mixed in.

mod card;
mod comparable;
mod compare;
mod draw;
mod error;
mod examples;
pub mod format;
mod hash;
mod headline;
mod html;
mod markdown;
mod preview;
pub mod published;
mod record;
mod redact;
mod report;
mod rules;
mod scorecard;
mod side_by_side;
mod view;
mod write;

pub use card::{HEIGHT as CARD_HEIGHT, WIDTH as CARD_WIDTH};
pub use comparable::{NotComparable, comparable};
pub use compare::Gain;
pub use error::ReportError;
pub use examples::{Example, Examples, Shown};
pub use hash::{Integrity, WORTH as HASH_WORTH};
pub use headline::{Headline, Verdict};
pub use preview::Preview;
pub use record::{
    AnswerRecord, CategoryScore, CountingRule, DeviceRecord, DoctorFinding, DoctorRecord, DoctorStatus,
    EngineRecord, EvaluationResult, ExperimentRecord, ExperimentRun, LossPoint, RecipeRecord, ReportInput,
    Telemetry, TelemetryPoint, TrainingRecord,
};
pub use redact::{Secret, redact};
pub use report::{About, Report, SCHEMA_VERSION};
pub use rules::MFU_RULES;
pub use scorecard::{Concern, Evidence, Score, State};
pub use side_by_side::{FigurePair, SideBySide};
pub use view::{Figure, Group, effect_words, metric_unit, metric_words, p_words};
pub use write::{Format, HTML_FILE, JSON_FILE, Written, files_at, write, write_as, write_at};
