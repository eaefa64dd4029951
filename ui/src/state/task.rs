//! The task at hand, told from the service's notices. One function takes a notice in; the pages only read.

use std::{borrow::Cow, collections::VecDeque, path::PathBuf};

use serde_json::Value;
use tunesmith_protocol::{
    Answer, Level, Notice, Progress, RunStatus, Side, Step, StopHow, TaskId, TaskWork, Verdict,
};

use super::Problem;
use crate::theme::Tone;

/// Lines of the log that are kept; the whole of it is in the run's folder.
const MOST_LOG_LINES: usize = 20_000;

/// The stage in which a task waits for its device; the log's warnings say whom it waits for.
const WAITS: &str = "wait";

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// One line.
    pub text: String,
}

/// An answer as far as it has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerSoFar {
    /// The text.
    pub text: String,
    /// The whole answer, once it is there.
    pub whole: Option<Answer>,
}

/// How far an experiment is, as the service told it last. What its runs came to is in its folder.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentSoFar {
    /// Name of its folder.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Number of the run at hand, from 0.
    pub slot: usize,
    /// Runs in all.
    pub slots: usize,
    /// Runs that are over.
    pub over: usize,
    /// Name of the arm of the run at hand.
    pub arm: String,
    /// Its seed.
    pub seed: u64,
    /// What happens to it: `waits_for_quiet`, `begins`, `repeats`, or how it ended.
    pub phase: String,
    /// What other programs do, where it waits for them or is repeated for them.
    pub reason: Option<String>,
    /// Seconds that the rest will take, counted from [`Self::heard_secs`].
    secs_left: Option<f64>,
    /// When this was heard, in seconds of the window's clock.
    heard_secs: f64,
    /// How often something was heard: what was read of the folder knows by it that it is out of date.
    pub heard: u64,
}

impl ExperimentSoFar {
    /// What other programs do to the run at hand, in a sentence; none where they leave it alone.
    pub fn disturbed(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        Some(match self.phase.as_str() {
            "waits_for_quiet" => {
                format!("It waits until other programs leave the machine alone: {reason}")
            }
            "repeats" => format!("The run is made once more, since it was disturbed: {reason}"),
            _ => reason.clone(),
        })
    }

    /// Seconds that the rest will still take, where that is known.
    pub fn secs_left(&self, now_secs: f64) -> Option<f64> {
        Some((self.secs_left? - (now_secs - self.heard_secs).max(0.0)).max(0.0))
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// How.
    pub status: RunStatus,
    /// What it came to.
    pub result: Value,
    /// Why it did not end well.
    pub problem: Option<Problem>,
    /// When, in seconds of the window's clock.
    pub at_secs: f64,
}

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its number.
    pub id: TaskId,
    /// What was asked for.
    pub work: TaskWork,
    /// When it was asked for, in seconds of the window's clock.
    pub began_secs: f64,
    /// Name of the stage in records, e.g. `train`.
    pub stage: String,
    /// What is going on, for people.
    pub stage_title: Cow<'static, str>,
    /// When the stage began, in seconds of the window's clock.
    pub stage_began_secs: f64,
    /// How far the stage is.
    pub progress: Option<Progress>,
    /// Id of the run that it leads.
    pub run: Option<String>,
    /// That run's folder.
    pub folder: Option<PathBuf>,
    /// Steps of the training so far, in order; those that a resume takes back are gone.
    pub steps: Vec<Step>,
    /// Steps in all.
    pub steps_total: u64,
    /// Grows when steps are taken back: what was drawn from them must be drawn anew.
    pub steps_epoch: u64,
    /// What the judge saw.
    pub findings: Vec<Verdict>,
    /// The last lines of the log.
    pub log: VecDeque<LogLine>,
    /// Lines that were left out at the front.
    pub log_dropped: usize,
    /// Answers of the base model and of the tuned one.
    pub answers: [AnswerSoFar; 2],
    /// Of an experiment how far it is.
    pub experiment: Option<ExperimentSoFar>,
    /// Whom it waits for, while another job has the device.
    pub waits_for: Option<String>,
    /// What the user asked it to do, where a stop is on its way.
    pub stopping: Option<StopHow>,
    /// How it ended.
    pub ended: Option<Ended>,
}

impl Task {
    /// A task that has just been asked for.
    pub fn new(id: TaskId, work: TaskWork, now_secs: f64) -> Self {
        Self {
            id,
            work,
            began_secs: now_secs,
            stage: String::new(),
            stage_title: Cow::Borrowed("starting"),
            stage_began_secs: now_secs,
            progress: None,
            run: None,
            folder: None,
            steps: Vec::new(),
            steps_total: 0,
            steps_epoch: 0,
            findings: Vec::new(),
            log: VecDeque::new(),
            log_dropped: 0,
            answers: Default::default(),
            experiment: None,
            waits_for: None,
            stopping: None,
            ended: None,
        }
    }

    /// What it is, in a word or two.
    pub fn name(&self) -> &'static str {
        match &self.work {
            TaskWork::Calibrate { .. } => "Calibration",
            TaskWork::Train { .. } | TaskWork::Resume { .. } => "Fine-tuning",
            TaskWork::Fetch { .. } => "Download",
            TaskWork::Answer { .. } => "Answering",
            TaskWork::Setup { .. } => "Set-up",
            TaskWork::Report { .. } => "Report",
            TaskWork::Experiment { .. } => "Experiment",
        }
    }

    /// Whether it trains.
    pub fn trains(&self) -> bool {
        matches!(self.work, TaskWork::Train { .. } | TaskWork::Resume { .. })
    }

    /// Whether it is an experiment, which trains several runs one after the other.
    pub fn is_experiment(&self) -> bool {
        matches!(self.work, TaskWork::Experiment { .. })
    }

    /// Whether it measures, so that the window keeps still.
    pub fn measures(&self) -> bool {
        matches!(
            self.work,
            TaskWork::Calibrate { .. } | TaskWork::Experiment { .. }
        ) || self.stage == "calibrate"
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// An answer as far as it has come.
    pub fn answer(&self, side: Side) -> &AnswerSoFar {
        &self.answers[side as usize]
    }

    /// How much of the stage is done, 0 to 1, where it says so.
    pub fn share(&self) -> Option<f32> {
        let progress = self.progress.as_ref()?;
        (progress.total > 0).then(|| (progress.done as f64 / progress.total as f64).clamp(0.0, 1.0) as f32)
    }

    /// How much of all is done, 0 to 1: of an experiment its runs, with the training at hand as a part of one.
    pub fn whole_share(&self) -> Option<f32> {
        let Some(experiment) = self.experiment.as_ref().filter(|so_far| so_far.slots > 0) else {
            return self.share();
        };
        let at_hand = if self.stage == "train" { self.share() } else { None };
        let over = experiment.over as f32 + at_hand.unwrap_or(0.0);
        Some((over / experiment.slots as f32).min(1.0))
    }

    /// Seconds that it will still take, where that is known.
    pub fn secs_left(&self, now_secs: f64) -> Option<f64> {
        match &self.experiment {
            Some(experiment) => experiment.secs_left(now_secs),
            None => self.progress.as_ref()?.eta_secs,
        }
    }

    /// Seconds since it was asked for, until its end.
    pub fn elapsed_secs(&self, now_secs: f64) -> f64 {
        let until = self.ended.as_ref().map_or(now_secs, |ended| ended.at_secs);
        // A clock that was set back is no reason to show a time before the beginning.
        (until - self.began_secs).max(0.0)
    }

    fn log(&mut self, level: Level, text: String) {
        if self.log.len() == MOST_LOG_LINES {
            self.log.pop_front();
            self.log_dropped += 1;
        }
        self.log.push_back(LogLine { level, text });
    }

    fn step(&mut self, step: Step, total: u64) {
        self.steps_total = total;
        if self.steps.last().is_some_and(|last| last.step >= step.step) {
            self.steps.retain(|earlier| earlier.step < step.step);
            self.steps_epoch += 1;
        }
        self.steps.push(step);
    }

    fn apply(&mut self, notice: Notice, now_secs: f64) {
        match notice {
            Notice::Stage { stage, title, .. } => {
                self.log(Level::Info, title.clone());
                self.waits_for = None;
                self.stage = stage;
                self.stage_title = Cow::Owned(title);
                self.stage_began_secs = now_secs;
                self.progress = None;
            }
            Notice::Run { run, folder, .. } => {
                // An experiment has one run after the other, each with a curve and with verdicts of its own.
                if self.run.as_ref().is_some_and(|before| *before != run) {
                    self.steps.clear();
                    self.steps_epoch += 1;
                    self.findings.clear();
                }
                self.run = Some(run);
                self.folder = Some(folder);
            }
            Notice::Experiment {
                experiment,
                folder,
                slot,
                slots,
                over,
                arm,
                seed,
                phase,
                reason,
                secs_left,
                ..
            } => {
                let what = phase.replace('_', " ");
                let why = reason
                    .as_ref()
                    .map_or_else(String::new, |reason| format!(", {reason}"));
                self.log(
                    Level::Info,
                    format!("run {} of {slots}, {arm}, seed {seed}: {what}{why}", slot + 1),
                );
                self.progress = None;
                self.experiment = Some(ExperimentSoFar {
                    id: experiment,
                    folder,
                    slot,
                    slots,
                    over,
                    arm,
                    seed,
                    phase,
                    reason,
                    secs_left: secs_left.filter(|secs| secs.is_finite()),
                    heard_secs: now_secs,
                    heard: self.experiment.as_ref().map_or(1, |before| before.heard + 1),
                });
            }
            Notice::Progress { progress, .. } => {
                self.progress = Some(Progress {
                    eta_secs: progress.eta_secs.filter(|secs| secs.is_finite() && *secs >= 0.0),
                    ..progress
                });
            }
            Notice::Step { step, total, .. } => self.step(step, total),
            Notice::Finding { finding, .. } => {
                self.log(Level::Warn, format!("{}: {}", finding.title, finding.found));
                self.findings.push(finding);
            }
            Notice::Piece { side, text, .. } => self.answers[side as usize].text.push_str(&text),
            Notice::Answered { side, answer, .. } => {
                self.answers[side as usize] = AnswerSoFar {
                    text: answer.text.clone(),
                    whole: Some(answer),
                };
            }
            Notice::Log { level, text, .. } => {
                if self.stage == WAITS && level == Level::Warn {
                    self.waits_for = Some(text.clone());
                }
                self.log(level, text);
            }
            Notice::Ended {
                status,
                run,
                result,
                failure,
                last_lines,
                ..
            } => {
                self.run = run.or(self.run.take());
                let problem = failure.map(|failure| Problem {
                    last_lines,
                    ..failure.into()
                });
                self.end(status, result, problem, now_secs);
            }
            Notice::Refused { error, .. } => {
                self.end(RunStatus::Crashed, Value::Null, Some(error.into()), now_secs);
            }
            // What is left belongs to no task, or is taken in before it comes here.
            Notice::Welcome { .. }
            | Notice::Started { .. }
            | Notice::Task { .. }
            | Notice::Earlier { .. }
            | Notice::UpToDate
            | Notice::Focus
            | Notice::AskToQuit => {}
        }
    }

    fn end(&mut self, status: RunStatus, result: Value, problem: Option<Problem>, now_secs: f64) {
        self.progress = None;
        self.waits_for = None;
        self.ended = Some(Ended {
            status,
            result,
            problem,
            at_secs: now_secs,
        });
    }
}

/// How a task's end is meant.
pub fn tone_of(status: RunStatus) -> Tone {
    match status {
        RunStatus::Ok => Tone::Ok,
        RunStatus::TimeBoxed | RunStatus::Cancelled => Tone::Note,
        RunStatus::Interrupted => Tone::Warn,
        _ => Tone::Stop,
    }
}

/// Which task a notice belongs to.
fn task_of(notice: &Notice) -> Option<TaskId> {
    match notice {
        Notice::Welcome { .. }
        | Notice::Earlier { .. }
        | Notice::UpToDate
        | Notice::Focus
        | Notice::AskToQuit => None,
        Notice::Refused { task, .. } => *task,
        Notice::Started { task }
        | Notice::Task { task, .. }
        | Notice::Stage { task, .. }
        | Notice::Run { task, .. }
        | Notice::Experiment { task, .. }
        | Notice::Progress { task, .. }
        | Notice::Step { task, .. }
        | Notice::Finding { task, .. }
        | Notice::Piece { task, .. }
        | Notice::Answered { task, .. }
        | Notice::Log { task, .. }
        | Notice::Ended { task, .. } => Some(*task),
    }
}

/// The task at hand, and the last of each kind.
#[derive(Clone, Debug, Default)]
pub struct TaskState {
    /// The tasks of this window, oldest first: of each kind the last, and the one at hand.
    tasks: Vec<Task>,
    /// The highest number that a task has had.
    asked: TaskId,
}

impl TaskState {
    /// Begins a task, which takes the place of the last of its kind.
    pub fn begin(&mut self, work: TaskWork, now_secs: f64) -> TaskId {
        self.asked += 1;
        self.put(Task::new(self.asked, work, now_secs));
        self.asked
    }

    fn put(&mut self, task: Task) {
        self.tasks
            .retain(|other| other.name() != task.name() || !other.is_over());
        self.tasks.push(task);
    }

    /// There is a task that this window did not ask for.
    fn know(&mut self, id: TaskId, work: TaskWork, now_secs: f64) {
        self.asked = self.asked.max(id);
        if self.get(id).is_none() {
            self.put(Task::new(id, work, now_secs));
        }
    }

    /// The task that is under way.
    pub fn running(&self) -> Option<&Task> {
        self.tasks.iter().find(|task| !task.is_over())
    }

    /// The last task for which `is` holds, under way or over.
    pub fn last(&self, is: impl Fn(&Task) -> bool) -> Option<&Task> {
        self.tasks.iter().rev().find(|task| is(task))
    }

    /// The last training, under way or over.
    pub fn training(&self) -> Option<&Task> {
        self.last(Task::trains)
    }

    /// The last training or experiment, under way or over: what the page of the live run follows.
    pub fn followed(&self) -> Option<&Task> {
        self.last(|task| task.trains() || task.is_experiment())
    }

    /// A task by its number.
    pub fn get(&self, id: TaskId) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }

    /// The user asked the task at hand to stop.
    pub fn stopping(&mut self, how: StopHow) {
        if let Some(task) = self.tasks.iter_mut().find(|task| !task.is_over()) {
            task.stopping = Some(how);
        }
    }

    /// Takes a notice in. Returns the task that ended by it.
    pub fn apply(&mut self, notice: Notice, now_secs: f64) -> Option<TaskId> {
        match notice {
            Notice::Earlier { secs_ago, notice } => self.take(*notice, now_secs - secs_ago.max(0.0)),
            notice => self.take(notice, now_secs),
        }
    }

    fn take(&mut self, notice: Notice, now_secs: f64) -> Option<TaskId> {
        if let Notice::Task { task, work } = notice {
            self.know(task, work, now_secs);
            return None;
        }
        let id = task_of(&notice)?;
        let task = self.tasks.iter_mut().find(|task| task.id == id)?;
        if task.is_over() {
            return None;
        }
        task.apply(notice, now_secs);
        task.is_over().then_some(id)
    }

    /// The service is gone, and the task at hand with it.
    pub fn service_gone(&mut self, problem: &Problem, now_secs: f64) -> Option<TaskId> {
        let task = self.tasks.iter_mut().find(|task| !task.is_over())?;
        task.end(RunStatus::Crashed, Value::Null, Some(problem.clone()), now_secs);
        Some(task.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training() -> (TaskState, TaskId) {
        let mut tasks = TaskState::default();
        let work = TaskWork::Resume { run: "r1".to_owned() };
        let id = tasks.begin(work, 1.0);
        (tasks, id)
    }

    fn step(task: TaskId, number: u64, loss: f64) -> Notice {
        Notice::Step {
            task,
            step: Step {
                step: number,
                loss: Some(loss),
                grad_norm: Some(0.5),
                lr: 1e-4,
                dt_secs: 0.5,
                elapsed_secs: number as f64,
                real_tokens: 100 * number,
                padded_tokens: 100 * number,
                supervised_tokens: 20 * number,
                squared_lengths: 10,
                peak_bytes: None,
            },
            total: 10,
        }
    }

    #[test]
    fn steps_that_are_done_again_replace_those_that_were() {
        let (mut tasks, id) = training();
        for number in 1..=4 {
            tasks.apply(step(id, number, 1.0), 2.0);
        }
        tasks.apply(step(id, 3, 0.5), 2.0);
        let task = tasks.training().unwrap();
        let losses: Vec<_> = task.steps.iter().map(|step| (step.step, step.loss)).collect();
        assert_eq!(losses, [(1, Some(1.0)), (2, Some(1.0)), (3, Some(0.5))]);
        assert_eq!(task.steps_epoch, 1);
    }

    fn phase(task: TaskId, slot: usize, over: usize, phase: &str, secs_left: Option<f64>) -> Notice {
        Notice::Experiment {
            task,
            experiment: "mine-0f1e2d3c".to_owned(),
            folder: "/data/experiments/mine-0f1e2d3c".into(),
            slot,
            slots: 4,
            over,
            arm: "kept".to_owned(),
            seed: 42,
            phase: phase.to_owned(),
            reason: None,
            secs_left,
        }
    }

    #[test]
    fn an_experiment_is_as_far_as_its_runs_and_the_one_at_hand() {
        let (mut tasks, id) = training();
        tasks.apply(phase(id, 1, 1, "begins", Some(90.0)), 10.0);
        let run = |run: &str| Notice::Run {
            task: id,
            run: run.to_owned(),
            folder: run.into(),
        };
        tasks.apply(run("first"), 10.0);
        tasks.apply(step(id, 1, 1.0), 10.0);
        let stage = |stage: &str| Notice::Stage {
            task: id,
            stage: stage.to_owned(),
            title: String::new(),
        };
        tasks.apply(stage("train"), 10.0);
        let progress = Progress {
            stage: "train".to_owned(),
            done: 5,
            total: 10,
            unit: "steps".to_owned(),
            eta_secs: Some(3.0),
        };
        tasks.apply(Notice::Progress { task: id, progress }, 10.0);
        let task = tasks.training().unwrap();
        assert_eq!(task.whole_share(), Some(1.5 / 4.0));
        assert_eq!(task.secs_left(40.0), Some(60.0));
        assert_eq!(task.secs_left(400.0), Some(0.0));
        tasks.apply(run("second"), 11.0);
        let task = tasks.training().unwrap();
        assert!(task.steps.is_empty(), "each run has a curve of its own");
        assert_eq!(task.steps_epoch, 1);
    }

    #[test]
    fn whom_a_task_waits_for_is_known_while_it_waits() {
        let (mut tasks, id) = training();
        let stage = |stage: &str| Notice::Stage {
            task: id,
            stage: stage.to_owned(),
            title: String::new(),
        };
        let warn = |text: &str| Notice::Log {
            task: id,
            level: Level::Warn,
            text: text.to_owned(),
        };
        tasks.apply(stage("wait"), 1.0);
        tasks.apply(warn("in use by run a"), 1.0);
        assert_eq!(
            tasks.training().unwrap().waits_for.as_deref(),
            Some("in use by run a")
        );
        tasks.apply(stage("prepare"), 2.0);
        tasks.apply(warn("a slow disk"), 2.0);
        assert_eq!(tasks.training().unwrap().waits_for, None);
    }

    #[test]
    fn a_task_ends_once() {
        let (mut tasks, id) = training();
        let gone = Problem::new("service_gone", "the service went away", Vec::new());
        assert_eq!(tasks.service_gone(&gone, 5.0), Some(id));
        assert!(tasks.running().is_none());
        assert_eq!(tasks.apply(step(id, 1, 1.0), 6.0), None);
        assert!(tasks.training().unwrap().steps.is_empty());
    }

    #[test]
    fn the_log_keeps_its_end() {
        let (mut tasks, id) = training();
        for line in 0..MOST_LOG_LINES + 5 {
            let notice = Notice::Log {
                task: id,
                level: Level::Info,
                text: line.to_string(),
            };
            tasks.apply(notice, 1.0);
        }
        let task = tasks.training().unwrap();
        assert_eq!(task.log_dropped, 5);
        assert_eq!(task.log.front().unwrap().text, "5");
    }

    #[test]
    fn a_notice_for_a_task_that_nobody_knows_changes_nothing() {
        let (mut tasks, id) = training();
        assert_eq!(tasks.apply(step(id + 1, 1, 1.0), 1.0), None);
        assert!(tasks.training().unwrap().steps.is_empty());
    }

    #[test]
    fn what_was_said_before_a_window_came_is_as_old_as_it_is() {
        let mut tasks = TaskState::default();
        let earlier = |secs_ago, notice| Notice::Earlier {
            secs_ago,
            notice: Box::new(notice),
        };
        let work = || TaskWork::Resume { run: "r1".to_owned() };
        let stage = Notice::Stage {
            task: 7,
            stage: "train".to_owned(),
            title: "training".to_owned(),
        };
        for notice in [
            earlier(
                90.0,
                Notice::Task {
                    task: 7,
                    work: work(),
                },
            ),
            earlier(89.0, Notice::Started { task: 7 }),
            earlier(60.0, stage),
            step(7, 1, 2.0),
            step(7, 2, 1.5),
        ] {
            assert_eq!(tasks.apply(notice, 1.0), None);
        }
        let task = tasks.running().unwrap();
        assert_eq!((task.id, task.stage.as_str(), task.steps.len()), (7, "train", 2));
        assert!((task.elapsed_secs(11.0) - 100.0).abs() < 1e-9);
        assert!((task.stage_began_secs + 59.0).abs() < 1e-9);
        // A number that a task has had is not given to another one.
        assert_eq!(tasks.begin(TaskWork::Report { run: "r1".to_owned() }, 2.0), 8);
        let ended = Notice::Ended {
            task: 7,
            status: RunStatus::Ok,
            run: None,
            result: Value::Null,
            failure: None,
            last_lines: Vec::new(),
        };
        assert_eq!(tasks.apply(earlier(0.5, ended), 12.0), Some(7));
        assert!((tasks.get(7).unwrap().elapsed_secs(99.0) - 100.5).abs() < 1e-9);
    }
}
