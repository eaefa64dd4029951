//! The words that Tunesmith's processes exchange: one JSON object a line, over stdin and stdout.
//!
//! This crate exists so that a parent and an engine can be built, replaced and tested apart: it holds plain
//! types and the framing, does no I/O of its own, and is the only place that knows the wire format.
//! `docs/PROTOCOL.md` describes the same words for people who write an engine in another language.
//!
//! A parent sends [`Request`]s; an engine answers with [`Event`]s, [`Hello`] first and [`Bye`] last.
//! Unknown fields are ignored on both sides, so that a newer program can add some.

mod calibration;
mod event;
mod framing;
mod job;
mod service;

pub use calibration::{
    AllocatorOverhead, AttentionBackend, AttentionMeasurement, AttentionShape, Calibration, CalibrationStage,
    Contention, CopyBandwidth, GemmMeasurement, InputSize, KernelCheck, KernelName, Layout, Linear,
    LinearMeasurement, OverheadSource, StageBudget, StageTime, Sustained, SustainedPoint, ValueCheck,
    Variant,
};
pub use event::{
    Answer, AnswerStats, Base, Bye, Check, Checkpoint, EngineError, Event, Finish, Hello, Level, Log,
    LogitsStats, OtherBase, Outcome, Piece, Progress, QuantiseStats, Step, TrainStats,
};
pub use framing::{
    FrameError, MAX_LINE_BYTES, ParentLine, decode_command, decode_event, decode_notice, decode_request,
    encode,
};
pub use job::{
    AnswerJob, Attention, Batch, CalibrateJob, DType, Job, LogitsJob, Lora, ModelOrigin, Optimizer, Prompt,
    QuantiseJob, Quantization, Recompute, Request, RowOrder, RunStatus, Sampling, Schedule, StopHow,
    TARGET_MODULES, TrainJob, Work,
};
pub use service::{
    Command, NO_RENDERER_STATUS, Notice, PromptText, SERVICE_VERSION, Side, TaskId, TaskWork, Trainer,
    Verdict,
};

/// Version of the protocol; the first line of an engine states its own, and a parent refuses another.
pub const PROTOCOL_VERSION: u32 = 1;
