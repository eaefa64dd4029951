//! The report of a run: a model, and its renderings as one HTML file and as JSON.
//!
//! This crate exists so that a run can be shown to others. It takes plain inputs and knows nothing of run folders,
//! engines or windows; whoever has a run fills a [`ReportInput`]. Every figure comes from `tunesmith-measure`: here
//! numbers are only worded, drawn and laid out. The HTML needs no other file, no script and no network.

mod bars;
mod chart;
mod comparable;
mod compare;
mod error;
mod examples;
pub mod format;
mod headline;
mod html;
mod input;
mod preview;
mod redact;
mod report;
mod rules;
mod write;

pub use comparable::{NotComparable, comparable};
pub use compare::Gain;
pub use error::ReportError;
pub use examples::{Example, Examples, Shown};
pub use headline::{Headline, Verdict};
pub use html::{Figure, Group};
pub use input::{
    AnswerRecord, CategoryScore, CountingRule, EngineRecord, EvaluationResult, RecipeRecord, ReportInput,
};
pub use preview::Preview;
pub use redact::{Secret, redact};
pub use report::{Report, SCHEMA_VERSION};
pub use rules::MFU_RULES;
pub use write::{HTML_FILE, JSON_FILE, Written, files_at, write, write_at};
