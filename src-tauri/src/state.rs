//! What the shell does about what happens, without doing any of it: events come in, actions go out. So every way in which a
//! window can close, crash or never come, and every choice in the tray, is tested without a display.
//!
//! What is held to:
//! - A task never ends because a window does. It ends when somebody stops it, or the whole app leaves.
//! - A window that dies before its first frame is started again; it notes what it tried and begins one renderer lower. One
//!   that crashes later is opened again, but not for ever.
//! - Somebody always has a way back: where there is no tray, the app leaves with its window, or when the task is over.

mod updating;
mod view;

use std::{
    collections::VecDeque,
    path::PathBuf,
    time::{Duration, Instant},
};

use tunesmith_protocol::{EngineError, NO_RENDERER_STATUS, Notice, RunStatus, StopHow, TaskWork};

use crate::{
    task::{Kind, Running, Said, ending, failed},
    tray::Item,
};

pub(crate) use updating::News;
use updating::Update;

/// How long a window may take to its first frame. Drivers that hang do so for ever; a slow disk does not.
const FIRST_FRAME: Duration = Duration::from_mins(1);

/// Starts without a frame after which no further one is tried: one for each renderer, and one more for a start that was
/// disturbed by something else.
const MOST_STARTS: u32 = 5;

/// So many crashes within [`CRASH_WINDOW`] are no accident.
const MOST_CRASHES: usize = 3;
const CRASH_WINDOW: Duration = Duration::from_mins(5);

/// A task that took longer than this is told of at its end though its window is open: nobody watches that long.
const LONG: Duration = Duration::from_mins(1);

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// A task says something.
    Said(Said),
    /// The window has painted a frame.
    Painted,
    /// The user wants to leave as soon as no task runs; the window has asked how.
    QuitWished,
    /// The window wants a report to be shown.
    ReportWished(PathBuf),
    /// The window's process is over.
    WindowEnded(Ending),
    /// An entry of the tray's menu was chosen.
    Chosen(Item),
    /// The app was started while it runs.
    SecondStart,
    /// What the user says to the question how to quit.
    Answered(Answer),
    /// The user has read a complaint.
    ComplaintRead,
    /// The system or a terminal asks this program to end.
    Signal,
    /// Something about an update of the app.
    Update(News),
}

/// How a window's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// Its exit status; none where a signal ended it, or it never started.
    pub(crate) code: Option<i32>,
    /// In words, e.g. `signal: 9 (SIGKILL)`.
    pub(crate) how: String,
    /// What it said last.
    pub(crate) last_lines: Vec<String>,
}

/// An answer to the question how to quit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    StopAndSave,
    StopNow,
    Stay,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    OpenWindow,
    /// It hangs.
    KillWindow,
    /// Its pipe is closed, which makes it leave.
    CloseWindow,
    /// Say something to the window.
    Tell(Notice),
    /// Ask the task at hand to stop.
    Stop(StopHow),
    /// Begin a task.
    Begin(TaskWork),
    Notify {
        title: String,
        body: String,
    },
    /// Keep the system awake for this reason, or let it sleep again.
    Awake(Option<&'static str>),
    /// Ask outside the window how to quit.
    AskHowToQuit(String),
    /// Say outside the window what went wrong, with what somebody else needs to help.
    Complain(String),
    ShowReport(PathBuf),
    LookForUpdate,
    InstallUpdate,
    /// Start the installed version in place of this one.
    Restart,
    /// Tell how long the first frame took.
    FirstFrame,
    /// Leave with this exit status.
    Leave(u8),
}

/// What the shell can do where it runs, and what it was started for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Abilities {
    /// There is a tray, from which the app can be opened again.
    pub(crate) tray: bool,
    /// Updates are configured.
    pub(crate) updates: bool,
    /// It leaves when the first frame is painted.
    pub(crate) first_frame_only: bool,
}

/// The window's process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Window {
    Closed,
    /// Started so often, this time at this moment, and no frame yet.
    Opening(u32, Instant),
    /// It is killed for taking too long, after so many starts.
    Hanging(u32),
    Open,
}

/// All that the shell knows.
pub(crate) struct State {
    can: Abilities,
    window: Window,
    running: Option<Running>,
    /// The last task: what it was and how it ended.
    last: Option<(Kind, RunStatus)>,
    /// It was asked to pause, and goes on so.
    pausing: Option<TaskWork>,
    /// It is paused, and goes on so.
    paused: Option<(Kind, TaskWork)>,
    /// The judge's red finding of the task at hand was told.
    told_red: bool,
    /// When windows crashed.
    crashes: VecDeque<Instant>,
    /// The app leaves as soon as no task runs.
    quitting: bool,
    /// The app is of no use any more, and leaves when the user has read why.
    hopeless: bool,
    /// Where a closed window can be found was told once.
    told_where: bool,
    update: Update,
}

impl State {
    /// A shell that has just started, and what it does first.
    pub(crate) fn start(can: Abilities, now: Instant) -> (Self, Vec<Action>) {
        let mut state = Self {
            can,
            window: Window::Closed,
            running: None,
            last: None,
            pausing: None,
            paused: None,
            told_red: false,
            crashes: VecDeque::new(),
            quitting: false,
            hopeless: false,
            told_where: false,
            update: if can.updates { Update::Unknown } else { Update::Off },
        };
        let mut out = Vec::new();
        state.open(now, &mut out);
        (state, out)
    }

    /// What follows from an event.
    pub(crate) fn on(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Said(said) => self.said(&said, now, &mut out),
            Event::Painted => self.painted(&mut out),
            Event::QuitWished => {
                self.quitting = true;
                self.leave_if_over(&mut out);
            }
            Event::ReportWished(file) => self.report(file, &mut out),
            Event::WindowEnded(ending) => self.window_ended(&ending, now, &mut out),
            Event::Chosen(item) => self.chosen(item, now, &mut out),
            Event::SecondStart => self.show(now, &mut out),
            Event::Answered(answer) => self.answered(answer, &mut out),
            Event::ComplaintRead => {
                if self.hopeless && self.running.is_none() {
                    out.push(Action::Leave(1));
                }
            }
            Event::Signal => self.signal(&mut out),
            Event::Update(news) => self.news(news, now, &mut out),
        }
        out
    }

    /// When [`Self::tick`] has something to do, if nothing happens before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.window {
            Window::Opening(_, since) => Some(since + FIRST_FRAME),
            _ => None,
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<Action> {
        match self.window {
            Window::Opening(starts, since) if now >= since + FIRST_FRAME => {
                self.window = Window::Hanging(starts);
                vec![Action::KillWindow]
            }
            _ => Vec::new(),
        }
    }

    fn said(&mut self, said: &Said, now: Instant, out: &mut Vec<Action>) {
        match said {
            Said::Begins(work) => {
                self.running = Some(Running::new(work, now));
                self.paused = None;
                self.pausing = None;
                self.told_red = false;
                out.push(Action::Awake(Some(Kind::of(work).name())));
            }
            Said::Ended { status, failure } => self.ended(*status, failure.as_deref(), now, out),
            Said::Red { title, found } => {
                self.told_red = true;
                out.push(Action::Notify {
                    title: format!("Stopped: {title}"),
                    body: found.clone(),
                });
            }
            said => {
                if let Some(running) = &mut self.running {
                    running.take(said, now);
                }
            }
        }
    }

    fn ended(&mut self, status: RunStatus, failure: Option<&str>, now: Instant, out: &mut Vec<Action>) {
        let Some(running) = self.running.take() else {
            return;
        };
        let kind = running.kind;
        self.last = Some((kind, status));
        if let Some(work) = self.pausing.take()
            && status == RunStatus::Cancelled
        {
            self.paused = Some((kind, work));
        }
        out.push(Action::Awake(None));
        let nobody_looks = self.window != Window::Open || running.lasted(now) >= LONG;
        let known = status == RunStatus::Cancelled || self.told_red && failed(status);
        if kind.takes_long() && !known && (nobody_looks || failed(status)) {
            out.push(Action::Notify {
                title: ending(kind, status, None),
                body: failure.map_or_else(|| "Tunesmith shows what came of it".to_owned(), str::to_owned),
            });
        }
        self.leave_if_over(out);
    }

    /// Leaves where somebody wants to, or where nobody could come back, and nothing runs.
    fn leave_if_over(&self, out: &mut Vec<Action>) {
        let nobody_comes_back = self.window == Window::Closed && !self.can.tray;
        let busy = self.running.is_some() || self.update == Update::Installing;
        if !busy && (self.quitting || nobody_comes_back) {
            out.push(Action::Leave(0));
        }
    }

    fn painted(&mut self, out: &mut Vec<Action>) {
        if matches!(self.window, Window::Opening(..) | Window::Hanging(_)) {
            self.window = Window::Open;
        }
        if self.can.first_frame_only {
            out.extend([Action::FirstFrame, Action::Leave(0)]);
        }
    }

    fn open(&mut self, now: Instant, out: &mut Vec<Action>) {
        self.window = Window::Opening(1, now);
        out.push(Action::OpenWindow);
    }

    /// The window comes to the front, or is opened.
    fn show(&mut self, now: Instant, out: &mut Vec<Action>) {
        // Whoever asks for the window does not want to leave any more.
        self.quitting = false;
        self.hopeless = false;
        match self.window {
            _ if self.update == Update::Installing => out.push(Action::Notify {
                title: "Tunesmith is being updated".to_owned(),
                body: "It opens by itself when that is done".to_owned(),
            }),
            Window::Closed => {
                self.crashes.clear();
                self.open(now, out);
            }
            Window::Opening(..) | Window::Hanging(_) | Window::Open => {
                out.push(Action::Tell(Notice::Focus));
            }
        }
    }

    fn window_ended(&mut self, ending: &Ending, now: Instant, out: &mut Vec<Action>) {
        let was = std::mem::replace(&mut self.window, Window::Closed);
        match was {
            // It was closed for an update, or has ended twice.
            Window::Closed => {}
            Window::Opening(starts, _) | Window::Hanging(starts) => {
                self.never_painted(was, starts, ending, now, out);
            }
            Window::Open if ending.code == Some(0) => self.closed(out),
            Window::Open => self.crashed(ending, now, out),
        }
    }

    fn never_painted(
        &mut self,
        was: Window,
        starts: u32,
        ending: &Ending,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let hopeless = ending.code == Some(i32::from(NO_RENDERER_STATUS));
        if self.quitting || ending.code == Some(0) {
            // Somebody closed it before it had painted.
            return self.closed(out);
        }
        if !hopeless && starts < MOST_STARTS {
            self.window = Window::Opening(starts + 1, now);
            out.push(Action::OpenWindow);
            return;
        }
        let why = match was {
            _ if hopeless => "no renderer of this machine can draw it".to_owned(),
            Window::Hanging(_) => format!("it painted nothing in {} s", FIRST_FRAME.as_secs()),
            _ => format!("it ended before it had painted anything ({})", ending.how),
        };
        out.push(Action::Complain(self.complaint(
            &format!("the window of Tunesmith cannot be opened: {why}"),
            ending,
        )));
        self.hopeless = true;
    }

    /// Somebody closed the window.
    fn closed(&mut self, out: &mut Vec<Action>) {
        if let Some(running) = &self.running
            && !self.quitting
            && !self.told_where
        {
            self.told_where = true;
            let place = if self.can.tray {
                "The tray has it; there it can be paused and stopped too"
            } else {
                "Start Tunesmith again to see it"
            };
            out.push(Action::Notify {
                title: format!("{} goes on", running.kind.name()),
                body: place.to_owned(),
            });
        }
        self.leave_if_over(out);
    }

    fn crashed(&mut self, ending: &Ending, now: Instant, out: &mut Vec<Action>) {
        while self
            .crashes
            .front()
            .is_some_and(|at| now.saturating_duration_since(*at) > CRASH_WINDOW)
        {
            self.crashes.pop_front();
        }
        self.crashes.push_back(now);
        if self.quitting {
            return self.leave_if_over(out);
        }
        if self.crashes.len() <= MOST_CRASHES {
            return self.open(now, out);
        }
        out.push(Action::Complain(self.complaint(
            &format!(
                "the window of Tunesmith crashed {} times in a few minutes, last with {}",
                self.crashes.len(),
                ending.how
            ),
            ending,
        )));
        self.hopeless = !self.can.tray;
    }

    /// What is said where no window can say it: what happened, what to do, and what somebody who helps wants to see.
    fn complaint(&self, what: &str, ending: &Ending) -> String {
        let mut text = format!("error: {what}\n");
        if let Some(running) = &self.running {
            text.push_str(&format!(
                "hint: {} goes on without it; `tunesmith runs list` in a terminal shows how far it is\n",
                running.kind.name()
            ));
        }
        text.push_str(
            "hint: everything that the window does, the command line does too: `tunesmith doctor`, `tunesmith quickstart`\n\
             hint: `tunesmith-shell --renderer software` draws on the processor\n",
        );
        text.push_str(&format!(
            "Tunesmith {} on {}, {}\n",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            ending.how
        ));
        for line in &ending.last_lines {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    fn chosen(&mut self, item: Item, now: Instant, out: &mut Vec<Action>) {
        match item {
            Item::Status => {}
            Item::Open => self.show(now, out),
            Item::Pause => {
                if let Some(work) = self.running.as_ref().and_then(Running::going_on) {
                    self.pausing = Some(work);
                    self.stop(StopHow::Save, out);
                }
            }
            Item::GoOn => {
                if self.running.is_none()
                    && self.update != Update::Installing
                    && let Some((_, work)) = self.paused.take()
                {
                    out.push(Action::Begin(work));
                }
            }
            Item::StopAndSave => self.stop(StopHow::Save, out),
            Item::Update => self.choose_update(out),
            Item::Quit => self.quit(now, out),
        }
    }

    fn stop(&mut self, how: StopHow, out: &mut Vec<Action>) {
        if let Some(running) = &mut self.running {
            running.stopping = true;
            out.push(Action::Stop(how));
        }
    }

    /// Somebody wants to leave: at once where nothing runs, else it is asked how.
    fn quit(&mut self, now: Instant, out: &mut Vec<Action>) {
        if self.update == Update::Installing {
            return;
        }
        let Some(running) = &self.running else {
            self.quitting = true;
            return self.leave_if_over(out);
        };
        out.push(match self.window {
            Window::Closed => Action::AskHowToQuit(running.sentence(now)),
            Window::Opening(..) | Window::Hanging(_) | Window::Open => Action::Tell(Notice::AskToQuit),
        });
    }

    fn answered(&mut self, answer: Answer, out: &mut Vec<Action>) {
        let how = match answer {
            Answer::Stay => return,
            Answer::StopAndSave => StopHow::Save,
            Answer::StopNow => StopHow::Now,
        };
        self.quitting = true;
        self.stop(how, out);
        self.leave_if_over(out);
    }

    /// The first one saves what was learned; whoever asks again does not want to wait.
    fn signal(&mut self, out: &mut Vec<Action>) {
        if self.running.is_none() || self.quitting {
            out.push(Action::Leave(if self.running.is_none() { 0 } else { 130 }));
            return;
        }
        self.quitting = true;
        self.stop(StopHow::Save, out);
    }

    fn report(&mut self, file: PathBuf, out: &mut Vec<Action>) {
        match self.running.as_ref().filter(|running| running.kind.measures()) {
            None => out.push(Action::ShowReport(file)),
            Some(running) => out.push(Action::Tell(Notice::Refused {
                task: None,
                error: EngineError {
                    code: "measuring".to_owned(),
                    message: format!(
                        "{} is under way, and a report's window would use the card that it measures",
                        running.kind.name()
                    ),
                    hints: vec!["open it when that is over".to_owned()],
                },
            })),
        }
    }
}

#[cfg(test)]
mod tests;
