//! What a program that shows a run gets to see while it goes on.

use std::path::Path;

use tunesmith_measure::judge::Finding;
use tunesmith_protocol::{Level, Progress, Step};

/// A part of a run, in the order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Another run has the device.
    Wait,
    /// Measuring the device.
    Calibrate,
    /// Reading model and data, tokenising.
    Prepare,
    /// Starting the engine.
    Start,
    /// The base model answers the test questions.
    EvaluateBefore,
    /// Training.
    Train,
    /// After a red finding: the adapter of the last good checkpoint is taken out of it.
    KeepGood,
    /// The tuned model answers the same questions.
    EvaluateAfter,
    /// Generating.
    Generate,
    /// A few steps on made rows, to see whether settings fit.
    Try,
}

impl Stage {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Calibrate => "calibrate",
            Self::Prepare => "prepare",
            Self::Start => "start",
            Self::EvaluateBefore => "evaluate_before",
            Self::Train => "train",
            Self::KeepGood => "keep_good",
            Self::EvaluateAfter => "evaluate_after",
            Self::Generate => "generate",
            Self::Try => "try",
        }
    }

    /// What is going on, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Wait => "waiting for the device",
            Self::Calibrate => "measuring the device",
            Self::Prepare => "reading model and data",
            Self::Start => "starting the engine",
            Self::EvaluateBefore => "questions to the base model",
            Self::Train => "training",
            Self::KeepGood => "keeping the last good adapter",
            Self::EvaluateAfter => "questions to the tuned model",
            Self::Generate => "generating",
            Self::Try => "trying what fits",
        }
    }
}

/// Something to show.
#[derive(Clone, Copy, Debug)]
pub enum Update<'a> {
    /// A part begins.
    Stage(Stage),
    /// How far it is.
    Progress(Stage, &'a Progress),
    /// An optimizer step of so many, its clock counted from the run's beginning, also in a run that goes on.
    Step(&'a Step, u64),
    /// A further piece of the answer that is being written.
    Piece(&'a str),
    /// The run's folder exists.
    Run(&'a str, &'a Path),
    /// The judge sees something amber or red.
    Finding(&'a Finding),
    /// Text for the log.
    Log(Level, &'a str),
}

/// Shows a run while it goes on. Called from the thread that leads the run: it must be quick.
pub trait Observer {
    /// Something to show.
    fn update(&mut self, update: Update<'_>);
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn update(&mut self, _update: Update<'_>) {}
}
