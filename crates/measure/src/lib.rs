//! Arithmetic on run records: FLOPs, MFU, validity, token accounting, statistics.
//!
//! This crate exists so that every figure on a screen or in a report has one formula, in one place, that can be
//! tested without a GPU, a file or a clock: it takes numbers and gives numbers, and does no I/O. Formulas name
//! their source: a requirement id (M1 to M23, C2, C6, E4) or a section of the project's notes on numbers.
//!
//! - [`ModelShape`], [`LoraShape`]: what is counted from a model's configuration.
//! - [`step_flops`]: floating-point operations of training steps.
//! - [`MfuReport`]: those operations against both peaks.
//! - [`calibration`]: what a calibration's numbers mean.
//! - [`MemoryNeed`]: the memory that a training needs, before it starts.
//! - [`fit`]: whether that fits, how runs correct it, the limit, the search, the signs of a spill.
//! - [`quantised_weight_bytes`], [`Composition`]: what 4 bits can touch of a model, and what they save.
//! - [`summarise`]: a run's steps to a [`TrainingSummary`]; [`StepCounter`] the same step by step.
//! - [`pareto`]: which configurations none beats at memory against throughput.
//! - [`stats`]: spread, tests and intervals.
//! - [`comparison`]: several runs of several set-ups to what they say.
//! - [`gap`]: where the time goes between the peak and a training, level by level.
//! - [`law`]: what a sweep's points are fitted with.
//! - [`accounting`]: whether a published number of tokens is right.
//! - [`cost`]: energy and what it costs.
//! - [`judge`]: whether a training can be believed.

pub mod accounting;
pub mod calibration;
pub mod comparison;
pub mod cost;
mod error;
pub mod fit;
mod flops;
pub mod gap;
pub mod judge;
pub mod law;
mod memory;
mod mfu;
pub mod pareto;
#[cfg(test)]
mod published;
mod quantised;
mod shape;
pub mod stats;
mod summary;
mod units;

pub use error::MeasureError;
pub use flops::{FlopCount, Recomputed, StepWork, step_flops};
pub use memory::{AnswerWork, MEMORY_FORMULA, MemoryNeed, MemoryWork, Scores, Trainer, staging_bytes};
pub use mfu::{MfuPair, MfuReport, Peaks, PracticalPeak, practical_peak};
pub use quantised::{
    Composition, QuantisationSaving, nf4_bytes, quantised_weight_bytes, unpacked_layer_bytes, weight_bytes,
};
pub use shape::{LoraShape, ModelShape, Projection};
pub use summary::{
    LossSummary, Range, Spread, StepCounter, StepFault, StepPoint, SummaryContext, TrainingSummary,
    default_discard, summarise,
};
pub use units::{Gib, Mfu, Tflops};
