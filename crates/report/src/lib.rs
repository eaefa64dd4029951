//! The report of a run: a model, and its renderings as one HTML file and as JSON.
//!
//! This crate exists so that a run can be shown to others. It takes plain inputs and knows nothing of run folders,
//! engines or windows; whoever has a run fills a [`ReportInput`]. Every figure comes from `tunesmith-measure`: here
//! numbers are only worded, drawn and laid out. The HTML needs no other file, no script and no network.

mod bars;
mod chart;
mod compare;
mod error;
mod examples;
mod format;
mod headline;
mod html;
mod input;
mod redact;
mod report;
mod rules;
mod write;

pub use compare::Gain;
pub use error::ReportError;
pub use headline::{Headline, Verdict};
pub use input::{
    AnswerRecord, CategoryScore, CountingRule, EngineRecord, EvaluationResult, RecipeRecord, ReportInput,
};
pub use redact::{Secret, redact};
pub use report::{Report, SCHEMA_VERSION};
pub use write::{HTML_FILE, JSON_FILE, Written, write};
