//! Leads an engine process through one job: starts it, checks who speaks, keeps every line, passes on events,
//! stops it when asked (and makes sure), and turns whatever way it ends into a status.

mod child;
mod error;
mod known_fault;
mod location;
mod lock;

use std::{
    collections::VecDeque,
    process::ExitStatus,
    time::{Duration, Instant},
};

use tunesmith_protocol::{
    Event, Hello, Job, Outcome, PROTOCOL_VERSION, ParentLine, Request, RunStatus, StopHow, decode_event,
};

use crate::{
    files::FileError,
    run::Journal,
    stop::{StopToken, urgency},
};

use child::{Child, Output, ending, signal_of};
pub use error::{Failure, SupervisorError};
pub use location::EngineLocation;
pub use lock::{DeviceHolder, DeviceLock, Waiting};

/// Lines of an engine that are kept for an error message.
const LAST_LINES: usize = 50;

/// Letters that are kept of each; engine.log has the whole line.
const LAST_LINE_LETTERS: usize = 2000;

/// How often the clock and the user's wish are looked at while the engine is silent.
const TICK: Duration = Duration::from_millis(50);

/// How long the supervisor waits for what.
#[derive(Clone, Debug)]
pub struct Limits {
    /// For the hello: loading libtorch from a cold disk takes a while.
    pub hello: Duration,
    /// For a stop to be heeded that lets the step at hand end.
    pub stop: Duration,
    /// For a stop `now` to be heeded.
    pub stop_now: Duration,
    /// Between SIGTERM and SIGKILL.
    pub kill: Duration,
    /// For the pipes to say something more, or to end, after the process has. Thirty times that is the end in any case.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hello: Duration::from_mins(2),
            stop: Duration::from_secs(90),
            stop_now: Duration::from_secs(2),
            kill: Duration::from_secs(5),
            drain: Duration::from_secs(2),
        }
    }
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct JobEnd {
    /// Its status.
    pub status: RunStatus,
    /// Its result, where the engine gave one.
    pub outcome: Option<Outcome>,
    /// What failed, where something did.
    pub failure: Option<Failure>,
    /// Seconds from the job line to the end.
    pub wall_secs: f64,
}

/// Why a run is stopped by what its events say.
#[derive(Clone, Debug, PartialEq)]
pub struct Halt {
    /// The run's status.
    pub status: RunStatus,
    /// What was seen and what to do.
    pub failure: Failure,
    /// How the engine is stopped: whether what it has is worth saving.
    pub how: StopHow,
}

/// A verdict on events while they arrive: anything but `None` stops the run.
pub type Verdict = Option<Halt>;

/// An engine that has said hello and waits for its job.
pub struct Engine {
    child: Child,
    hello: Hello,
    limits: Limits,
    tail: Tail,
    /// What was said before there was a journal to keep it in.
    early: Vec<(String, Option<Event>)>,
}

impl Engine {
    /// Starts an engine and waits for its hello.
    ///
    /// # Errors
    /// [`SupervisorError`]: it does not start, says something else first, speaks another version, or dies.
    pub fn start(
        location: &EngineLocation,
        limits: Limits,
        stop: &StopToken,
    ) -> Result<Self, SupervisorError> {
        let mut child = Child::spawn(location.command()).map_err(|source| SupervisorError::Start {
            program: location.program().to_owned(),
            source,
        })?;
        let mut tail = Tail::default();
        let mut early = Vec::new();
        let deadline = Instant::now() + limits.hello;
        loop {
            if stop.asked().is_some() {
                return Err(SupervisorError::Stopped);
            }
            match child.next(TICK) {
                Some(Output::Line(line)) => match decode_event(&line) {
                    ParentLine::Event(event) => {
                        let Event::Hello(hello) = *event else {
                            return Err(no_hello("sent a message before its hello", tail));
                        };
                        if hello.protocol != PROTOCOL_VERSION {
                            return Err(SupervisorError::Version {
                                found: hello.protocol,
                            });
                        }
                        early.push((line, Some(Event::Hello(hello.clone()))));
                        return Ok(Self {
                            child,
                            hello,
                            limits,
                            tail,
                            early,
                        });
                    }
                    ParentLine::Text(text) => {
                        tail.push(&text);
                        early.push((text, None));
                    }
                },
                Some(Output::Stderr(line)) => {
                    tail.push(&line);
                    early.push((line, None));
                }
                Some(Output::Closed) => {}
                None => {
                    if Instant::now() > deadline {
                        return Err(no_hello("did not say hello in time", tail));
                    }
                    if let Some(status) = child.exited().filter(|_| child.all_read()) {
                        return Err(no_hello(&format!("{} before its hello", ending(status)), tail));
                    }
                    if child.all_read() {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            }
        }
    }

    /// Who the engine is.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Gives the engine its job and leads it to its end. Every line goes to the journal before anything else
    /// sees it; `on_event` may answer with a verdict, which stops the run.
    ///
    /// # Errors
    /// [`SupervisorError::File`] when the journal cannot be written; the engine is ended then, since a run without
    /// a record is worth nothing. A job that fails is no error here but a [`JobEnd`] with its status.
    pub fn run(
        mut self,
        job: &Job,
        journal: &mut Journal,
        stop: &StopToken,
        time_box: Option<Duration>,
        on_event: &mut dyn FnMut(&Event) -> Verdict,
    ) -> Result<JobEnd, SupervisorError> {
        for (line, event) in std::mem::take(&mut self.early) {
            journal.raw(&line)?;
            if event.is_some() {
                journal.event(&line)?;
            }
        }
        let start = Instant::now();
        self.child.send(&Request::Job(Box::new(job.clone())));
        let mut state = JobState::new(time_box.map(|length| start + length));
        let mut exit: Option<(ExitStatus, Instant)> = None;
        let mut heard = Instant::now();
        loop {
            let output = self.child.next(TICK);
            if output.is_some() {
                heard = Instant::now();
            }
            match output {
                Some(Output::Line(line)) => self.handle_line(&line, journal, &mut state, on_event)?,
                Some(Output::Stderr(line)) => self.handle_text(&line, journal)?,
                Some(Output::Closed) | None => {}
            }
            state.heed_wishes(&mut self.child, stop, &self.limits);
            state.escalate(&mut self.child, &self.limits);
            if exit.is_none() {
                exit = self.child.exited().map(|status| (status, Instant::now()));
            }
            if let Some((status, since)) = exit {
                let drained = self.child.all_read();
                if !drained && since.elapsed() > self.limits.drain {
                    // Something that the engine started still holds its pipes.
                    self.child.kill();
                }
                // Much may still lie in the pipes of an engine that was faster than this program.
                let silent = since.max(heard).elapsed() > self.limits.drain * 2;
                if drained || silent || since.elapsed() > self.limits.drain * 30 {
                    return Ok(state.end(status, self.tail, start.elapsed()));
                }
            } else if self.child.all_read() {
                // It closed its pipes and lives on: give it the time that a stop gets, then end it.
                state.expect_exit(&self.limits);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn handle_line(
        &mut self,
        line: &str,
        journal: &mut Journal,
        state: &mut JobState,
        on_event: &mut dyn FnMut(&Event) -> Verdict,
    ) -> Result<(), FileError> {
        let event = match decode_event(line) {
            ParentLine::Text(text) => return self.handle_text(&text, journal),
            ParentLine::Event(event) => *event,
        };
        journal.raw(line)?;
        // The answer that follows holds them all.
        if !matches!(event, Event::Piece(_)) {
            journal.event(line)?;
        }
        match &event {
            Event::Step(step) => state.last_step = Some(step.step),
            Event::Log(log) => self.tail.push(&log.text),
            Event::Error(error) => {
                self.tail.push(&error.message);
                state.error = Some(error.clone().into());
            }
            Event::Result(outcome) => state.outcome = Some(outcome.clone()),
            Event::Bye(bye) => {
                state.bye = Some(bye.status);
                state.expect_exit(&self.limits);
            }
            _ => {}
        }
        if let Some(verdict) = on_event(&event)
            && state.verdict.is_none()
        {
            state.ask(&mut self.child, verdict.how, &self.limits);
            state.verdict = Some(verdict);
        }
        Ok(())
    }

    fn handle_text(&mut self, text: &str, journal: &mut Journal) -> Result<(), FileError> {
        self.tail.push(text);
        journal.raw(text)
    }
}

/// The last lines that an engine wrote in words.
#[derive(Default)]
struct Tail(VecDeque<String>);

impl Tail {
    fn push(&mut self, line: &str) {
        if self.0.len() == LAST_LINES {
            self.0.pop_front();
        }
        let line = match line.char_indices().nth(LAST_LINE_LETTERS) {
            Some((end, _)) => format!("{} …", &line[..end]),
            None => line.to_owned(),
        };
        self.0.push_back(line);
    }

    fn lines(self) -> Vec<String> {
        self.0.into()
    }
}

fn no_hello(what: &str, tail: Tail) -> SupervisorError {
    let last_lines = tail.lines();
    let mut hints = known_fault::hints(&last_lines);
    hints.push(
        "its last lines say why; if a library was not found, run the set-up again with `tunesmith setup --apply`"
            .to_owned(),
    );
    SupervisorError::NoHello {
        failure: Failure {
            code: "engine_no_hello".to_owned(),
            message: format!("the engine {what}"),
            hints,
            last_lines,
        },
    }
}

/// Why the supervisor wants the engine to leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    User,
    TimeBox,
}

/// Where a job stands.
struct JobState {
    bye: Option<RunStatus>,
    outcome: Option<Outcome>,
    error: Option<Failure>,
    verdict: Verdict,
    last_step: Option<u64>,
    time_box: Option<Instant>,
    cause: Option<Cause>,
    asked: Option<StopHow>,
    next_measure: Option<Instant>,
    measures: u8,
}

impl JobState {
    fn new(time_box: Option<Instant>) -> Self {
        Self {
            bye: None,
            outcome: None,
            error: None,
            verdict: None,
            last_step: None,
            time_box,
            cause: None,
            asked: None,
            next_measure: None,
            measures: 0,
        }
    }

    fn ask(&mut self, child: &mut Child, how: StopHow, limits: &Limits) {
        child.send(&Request::Stop { how });
        self.asked = Some(how);
        let limit = if how == StopHow::Now {
            limits.stop_now
        } else {
            limits.stop
        };
        self.next_measure = Some(Instant::now() + limit);
    }

    fn heed_wishes(&mut self, child: &mut Child, stop: &StopToken, limits: &Limits) {
        if stop.is_abandoned() {
            child.kill();
        }
        if let Some(wish) = stop.asked() {
            self.cause = Some(Cause::User);
            if self.asked.is_none_or(|asked| urgency(wish) > urgency(asked)) {
                self.ask(child, wish, limits);
            }
        }
        if self.asked.is_none() && self.time_box.is_some_and(|end| Instant::now() > end) {
            self.cause = Some(Cause::TimeBox);
            self.ask(child, StopHow::Save, limits);
        }
    }

    fn expect_exit(&mut self, limits: &Limits) {
        if self.next_measure.is_none() {
            self.next_measure = Some(Instant::now() + limits.stop);
        }
    }

    /// SIGTERM when the time for leaving is over, SIGKILL when that does not help either.
    fn escalate(&mut self, child: &mut Child, limits: &Limits) {
        if self.next_measure.is_none_or(|time| Instant::now() < time) {
            return;
        }
        if self.measures == 0 {
            child.terminate();
        } else {
            child.kill();
        }
        self.measures = self.measures.saturating_add(1);
        self.next_measure = Some(Instant::now() + limits.kill);
    }

    fn end(self, exit: ExitStatus, tail: Tail, wall: Duration) -> JobEnd {
        let (status, failure) = self.judge(exit, tail);
        JobEnd {
            status,
            outcome: self.outcome,
            failure,
            wall_secs: wall.as_secs_f64(),
        }
    }

    fn judge(&self, exit: ExitStatus, tail: Tail) -> (RunStatus, Option<Failure>) {
        if let Some(halt) = &self.verdict {
            return (halt.status, Some(halt.failure.clone()));
        }
        let stopped = match self.cause {
            Some(Cause::User) => Some(RunStatus::Cancelled),
            Some(Cause::TimeBox) => Some(RunStatus::TimeBoxed),
            None => None,
        };
        match (self.bye, stopped) {
            // The job's last step may end before a stop arrives.
            (Some(RunStatus::Ok), _) => (RunStatus::Ok, self.error.clone()),
            (Some(RunStatus::Cancelled), Some(stopped)) => (stopped, self.error.clone()),
            (Some(status), _) => (status, self.error.clone()),
            (None, Some(stopped)) if self.measures > 0 => {
                let failure = Failure {
                    code: "engine_ended".to_owned(),
                    message: format!(
                        "the engine did not stop when it was asked to and {}",
                        ending(exit)
                    ),
                    hints: vec!["what it had saved before is kept".to_owned()],
                    last_lines: tail.lines(),
                };
                (stopped, Some(failure))
            }
            (None, Some(stopped)) if self.asked == Some(StopHow::Now) => (stopped, None),
            (None, _) => self.crash(exit, tail),
        }
    }

    fn crash(&self, exit: ExitStatus, tail: Tail) -> (RunStatus, Option<Failure>) {
        if let Some(error) = &self.error {
            let status = if error.code == "out_of_memory" {
                RunStatus::Oom
            } else {
                RunStatus::Crashed
            };
            return (
                status,
                Some(Failure {
                    last_lines: tail.lines(),
                    ..error.clone()
                }),
            );
        }
        let place = self
            .last_step
            .map_or_else(String::new, |step| format!(" after step {step}"));
        let hint = match signal_of(exit) {
            Some(9) => {
                "the system ends programs like this when memory runs out (see `dmesg`); try a smaller micro_batch or recompute = \"layer\""
            }
            Some(15) => {
                "another program, or the system at its shutdown, asked it to leave; start the run again"
            }
            Some(_) => {
                "a library inside the engine failed; engine.log in the run's folder has its whole output"
            }
            None => "engine.log in the run's folder has its whole output",
        };
        let last_lines = tail.lines();
        let mut hints = known_fault::hints(&last_lines);
        hints.push(hint.to_owned());
        let failure = Failure {
            code: "engine_crashed".to_owned(),
            message: format!("the engine {}{place}", ending(exit)),
            hints,
            last_lines,
        };
        (RunStatus::Crashed, Some(failure))
    }
}
