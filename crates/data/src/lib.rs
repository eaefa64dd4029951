//! Data sets to tokenised, masked, checked rows: the one form that every engine trains on.
//!
//! This crate exists so that no engine tokenises or masks by itself. A wrong loss mask is the classic silent
//! failure of fine-tuning: the loss falls and the model learns the question instead of the answer. Here the chat
//! template itself says where an answer begins and ends, the prompt is tokenised exactly as generation will see
//! it, and every finding is counted in a [`RowsReport`] that a person can read.
//!
//! ```text
//! file -- DataSet::read --> Content -- Encoder::rows_of --> (Rows, RowsReport) -- Rows::write --> train.safetensors
//!                                                                                            rows.json
//! ```

mod columns;
mod conversation;
mod csv;
mod dataset;
mod encoder;
mod error;
#[cfg(feature = "inject-faults")]
mod faults;
mod files;
mod json;
mod jsonl;
mod names;
mod order;
mod parquet;
mod preview;
mod report;
mod rows;
mod text;

use tunesmith_models::Message;

/// One row of a data set as a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The row's `id`, or `line-` and its line number.
    pub id: String,
    /// The conversation; the last message is the assistant's.
    pub messages: Vec<Message>,
}

pub use columns::{Columns, Role};
pub use dataset::{ColumnInfo, ColumnUse, Content, DataSet, Format, Reading, read_jsonl};
pub use encoder::{Encoder, LongRows, Policy};
pub use error::{DataError, LineProblem, RowsProblem};
pub use files::hash_file;
pub use order::epoch_order;
pub use preview::{
    Preview, PreviewColumn, PreviewMessage, PreviewRow, PreviewTrouble, PreviewWish, TokenPreview, preview,
};
pub use report::{RowsReport, Sample, SamplePart};
pub use rows::{ROWS_FILE, ROWS_MANIFEST, Row, Rows, RowsInfo, RowsManifest};
pub use text::Document;
