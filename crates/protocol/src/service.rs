//! What a window and the service say to each other. The service (`tunesmith serve --stdio`, or the installed app's
//! shell) leads engines; a window only shows what it hears, so it may close or crash while a run goes on.
//!
//! The framing is that between a program and an engine: one JSON object a line, unknown fields ignored.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Answer, EngineError, Level, Progress, RunStatus, Sampling, Step, StopHow};

/// Version of the words between window and service; a window refuses another one.
pub const SERVICE_VERSION: u32 = 1;

/// Exit status of a window that the shell started and that no renderer of this machine can draw.
pub const NO_RENDERER_STATUS: u8 = 69;

/// Number of a task, chosen by whoever begins it, unique while the service lives.
pub type TaskId = u64;

/// A line from a window to the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    /// Begin a task. One task runs at a time; a second one is refused with the code `busy`.
    Start {
        /// Its number.
        task: TaskId,
        /// What is wanted.
        #[serde(flatten)]
        work: TaskWork,
    },
    /// Ask the task to stop. A more urgent wish replaces a milder one.
    Stop {
        /// Its number.
        task: TaskId,
        /// How.
        how: StopHow,
    },
    /// From here on tasks run on this device.
    Use {
        /// PCI address of a card, or `cpu`; the plan's choice where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        card: Option<String>,
    },
    /// To the installed app's shell: a frame is on the screen.
    Painted,
    /// To the installed app's shell: leave when no task runs any more.
    Quit,
    /// To the installed app's shell: show a report in a window of its own.
    ShowReport {
        /// The report's HTML file, absolute.
        file: PathBuf,
    },
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum TaskWork {
    /// Measure the device, or find the measurement that still holds.
    Calibrate {
        /// `cpu`, `cuda:N`; the plan decides where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<String>,
        /// Measure even where a measurement still holds.
        #[serde(default)]
        again: bool,
        /// On a processor too, for as long as it takes to show throttling.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        full: bool,
    },
    /// Train a recipe: calibrate where that is missing, score before, train, score after, write the report.
    Train {
        /// The recipe, as TOML. Paths in it are absolute; a model from a hub must be on this machine already.
        recipe: String,
        /// Against the recipe's device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<String>,
        /// Whether the base and the tuned model are scored.
        evaluate: bool,
        /// Who trains.
        #[serde(default, skip_serializing_if = "is_native")]
        trainer: Trainer,
        /// Threads on a processor; the service's own choice where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        threads: Option<usize>,
    },
    /// Fetch a model over the network. A window starts it only after it has said how much that is.
    Fetch {
        /// The model, as a recipe writes `model.source`.
        model: String,
    },
    /// Go on with a run that was cut short.
    Resume {
        /// Id of the run.
        run: String,
    },
    /// Let a run's models answer a prompt, one after the other.
    Answer {
        /// Id of the run.
        run: String,
        /// What is asked.
        prompt: PromptText,
        /// Which models answer, in this order.
        sides: Vec<Side>,
        /// Most tokens of an answer.
        max_new_tokens: usize,
        /// The most likely token is taken where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sampling: Option<Sampling>,
    },
    /// Carry out the set-up plan for an engine.
    Setup {
        /// `native`, `hf` or `unsloth`.
        engine: String,
        /// PCI address of the card to plan for, or `cpu`; the plan's own choice where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        card: Option<String>,
    },
    /// Write a run's report anew.
    Report {
        /// Id of the run.
        run: String,
    },
    /// Run an experiment, or go on with it: what is over is not run again. Where it is the same as one that was begun,
    /// that one goes on.
    Experiment {
        /// A ready one's name, or one as TOML; with `resume` the name of the folder of one that was begun.
        experiment: String,
        /// Whether it was begun and goes on.
        #[serde(default)]
        resume: bool,
        /// Begin anew, in a folder of its own, where the same one was run already.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
        /// Run those runs once more that did not end well.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        retry_failed: bool,
    },
}

/// Which engine trains; it is this project's own that calibrates and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trainer {
    /// This project's own.
    #[default]
    Native,
    /// transformers and PEFT, in the environment that set-up makes for the engine `hf`.
    Hf,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_native(trainer: &Trainer) -> bool {
    *trainer == Trainer::Native
}

/// What a model is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptText {
    /// A user's own words.
    Text(String),
    /// A test question by its number, from 1.
    Question(usize),
}

/// Which model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The model as it was.
    Base,
    /// With the run's adapter.
    Tuned,
}

/// A line from the service to a window. Most belong to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// The first line.
    Welcome {
        /// [`SERVICE_VERSION`] of the service.
        service: u32,
        /// Version of the program.
        version: String,
        /// Its process.
        pid: u32,
    },
    /// The task has begun.
    Started {
        /// Its number.
        task: TaskId,
    },
    /// A part of it begins.
    Stage {
        /// Its number.
        task: TaskId,
        /// Name in records, e.g. `train`.
        stage: String,
        /// What is going on, for people.
        title: String,
    },
    /// The run's folder exists.
    Run {
        /// Its number.
        task: TaskId,
        /// Id of the run.
        run: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// How far the stage is. Where the window is slow, an earlier one may be left out.
    Progress {
        /// Its number.
        task: TaskId,
        /// How far.
        progress: Progress,
    },
    /// An optimizer step. Where the window is very slow some are left out: a gap in their numbers says so, and the
    /// run's `events.jsonl` has them all.
    Step {
        /// Its number.
        task: TaskId,
        /// What the engine said, its clock counted from the run's beginning.
        step: Step,
        /// Steps in all.
        total: u64,
    },
    /// The judge sees something amber or red.
    Finding {
        /// Its number.
        task: TaskId,
        /// What it sees.
        finding: Verdict,
    },
    /// Something happens to a run of an experiment. What the run itself does comes as with any training.
    Experiment {
        /// Its number.
        task: TaskId,
        /// Name of the experiment's folder.
        experiment: String,
        /// The experiment's folder; what it holds is the truth.
        folder: PathBuf,
        /// Number of the run in the experiment, from 0.
        slot: usize,
        /// Runs in all.
        slots: usize,
        /// Runs that are over.
        over: usize,
        /// Name of its arm.
        arm: String,
        /// Its seed.
        seed: u64,
        /// `waits_for_quiet`, `begins`, `repeats`, or how it ended: `ok`, `time_boxed`, `oom`, `nan`, `invalid`,
        /// `crashed`, `skipped`.
        phase: String,
        /// What other programs do, where it waits for them or is repeated for them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Seconds that all the rest will take; unknown before the first run is over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secs_left: Option<f64>,
    },
    /// A further piece of an answer; engines that cannot write piece by piece send none.
    Piece {
        /// Its number.
        task: TaskId,
        /// Which model.
        side: Side,
        /// What the answer goes on with.
        text: String,
    },
    /// An answer is complete.
    Answered {
        /// Its number.
        task: TaskId,
        /// Which model.
        side: Side,
        /// The whole answer.
        answer: Answer,
    },
    /// Text for the log.
    Log {
        /// Its number.
        task: TaskId,
        /// How much it matters.
        level: Level,
        /// One line.
        text: String,
    },
    /// The last line of a task.
    Ended {
        /// Its number.
        task: TaskId,
        /// How it ended.
        status: RunStatus,
        /// The run that it was about: the one that it made, went on with, asked or reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
        /// What it came to. Of a calibration the stored record (`taken`, `result`) with `reused`, `file` and `stale`; of a
        /// training or a report the files `report` and `json`; of an experiment its name `experiment`, its `folder`, how
        /// many `slots` there are and are `over`, and its `findings`; of an answer the test `question`, where one was asked;
        /// of a set-up the environment, nothing where nothing had to be installed.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
        /// Why it did not end well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<EngineError>,
        /// The engine's last lines, where it died.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        last_lines: Vec<String>,
    },
    /// There is a task that this window did not ask for: it was begun before the window came, or by the shell. What is
    /// said of it follows.
    Task {
        /// Its number.
        task: TaskId,
        /// What was wanted.
        #[serde(flatten)]
        work: TaskWork,
    },
    /// A line that was said before this window came. Steps are not among these: they come as `step`.
    Earlier {
        /// How long ago, in seconds.
        secs_ago: f64,
        /// The line.
        notice: Box<Notice>,
    },
    /// All that was said before this window came has been told; absent where there was nothing.
    UpToDate,
    /// From the installed app's shell: come to the front.
    Focus,
    /// From the installed app's shell: the user wants to leave while a task runs; ask how.
    AskToQuit,
    /// A command could not be read or done; no task has begun.
    Refused {
        /// The task, where the command named one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
        /// Why.
        error: EngineError,
    },
}

/// A finding of the judge, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Name of the check, e.g. `finite`.
    pub check: String,
    /// What the check is called, for people.
    pub title: String,
    /// `green`, `amber` or `red`.
    pub severity: String,
    /// The step at which it was seen, where it was at one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// What was seen, with numbers.
    pub found: String,
    /// What it means.
    pub means: String,
    /// What to try.
    #[serde(rename = "try")]
    pub remedies: Vec<String>,
}
