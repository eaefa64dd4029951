//! Arithmetic on run records: FLOPs, MFU, validity, token accounting, statistics.
//!
//! This crate exists so that every figure on a screen or in a report has one formula, in one place, that can be
//! tested without a GPU, a file or a clock: it takes numbers and gives numbers, and does no I/O. Formulas name
//! their source: a requirement id (M1 to M23, C2, C6, E4) or a section of the project's notes on numbers.
//!
//! - [`ModelShape`], [`LoraShape`]: what is counted from a model's configuration.
//! - [`step_flops`]: floating-point operations of training steps.
//! - [`MfuReport`]: those operations against both peaks.
//! - [`MemoryNeed`]: the memory that a training needs, before it starts.
//! - [`summarise`]: a run's steps to a [`TrainingSummary`]; [`StepCounter`] the same step by step.
//! - [`pareto`]: which configurations none beats at memory against throughput.
//! - [`stats`]: spread, tests and intervals.
//! - [`judge`]: whether a training can be believed.

mod error;
mod flops;
pub mod judge;
mod memory;
mod mfu;
pub mod pareto;
mod shape;
pub mod stats;
mod summary;
mod units;

pub use error::MeasureError;
pub use flops::{FlopCount, Recomputed, StepWork, step_flops};
pub use memory::{MemoryNeed, MemoryWork};
pub use mfu::{MfuPair, MfuReport, Peaks, PracticalPeak, practical_peak};
pub use shape::{LoraShape, ModelShape, Projection};
pub use summary::{
    LossSummary, Range, Spread, StepCounter, StepFault, StepPoint, SummaryContext, TrainingSummary,
    default_discard, summarise,
};
pub use units::{Gib, Mfu, Tflops};
