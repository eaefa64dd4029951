//! Data sets to tokenised, masked, checked rows: the one form that every engine trains on.
//!
//! This crate exists so that no engine tokenises or masks by itself. A wrong loss mask is the classic silent
//! failure of fine-tuning: the loss falls and the model learns the question instead of the answer. Here the chat
//! template itself says where an answer begins and ends, the prompt is tokenised exactly as generation will see
//! it, and every finding is counted in a [`RowsReport`] that a person can read.
//!
//! ```text
//! file.jsonl -- read_jsonl --> [Example] -- Encoder::rows --> (Rows, RowsReport) -- Rows::write --> train.safetensors
//!                                                                                                  rows.json
//! ```

mod encoder;
mod error;
mod files;
mod jsonl;
mod order;
mod report;
mod rows;

pub use encoder::{Encoder, LongRows, Policy};
pub use error::{DataError, LineProblem, RowsProblem};
pub use files::hash_file;
pub use jsonl::{Example, read_jsonl};
pub use order::epoch_order;
pub use report::{RowsReport, Sample, SamplePart};
pub use rows::{ROWS_FILE, ROWS_MANIFEST, Row, Rows, RowsInfo, RowsManifest};
