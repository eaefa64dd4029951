//! What a window talks to: leads one task after the other and tells the window what happens, in the words of
//! `tunesmith_protocol`. The window only shows what it hears, so it may be slow, crash or close.
//!
//! Four threads, so that none waits for a wrong one:
//!
//! ```text
//! listener ── lines ──▶ service (this file: starts, stops, refuses) ──▶ task (leads an engine, or set-up)
//!                          ▲ the task is over, the window is gone           │ notices
//! window ◀── lines ── writer ◀─── outbox ◀─────────── audience ◀───────────┘
//! ```
//!
//! The task never waits for the window: its notices go to the audience, and from there to an outbox that keeps every
//! result and lets go of what is only passing (see `outbox`). The run's folder on disk is the truth, whatever a window has
//! heard.
//!
//! A window is gone when its input ends or its output is closed. What follows depends on who hosts the service:
//!
//! - [`serve`] serves one window. When that is gone, the engine is ended at once and the service is over within `LEAVE`;
//!   an engine whose supervisor does not manage that in time sees its own input end.
//! - A [`Host`] outlives its windows: the task goes on, and a window that comes later is told all that was said of it
//!   (see `story`).

mod audience;
mod host;
mod notices;
mod outbox;
mod story;
mod tasks;

use std::{
    ffi::OsString,
    io::{Read, Write},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::Value;
use tunesmith_protocol::{
    Command, EngineError, Notice, RunStatus, StopHow, TaskId, TaskWork, decode_command,
};
use tunesmith_setup::process::Cancel;

use crate::{lines::read_lines_in_thread, stop::StopToken};

pub use host::{Host, Told};

use audience::Audience;
use notices::Teller;
use tasks::End;

/// Number of a window's pipe to the service; a new one for each window.
pub type LinkId = u64;

/// How long the service may take to be over once its window is gone.
const LEAVE: Duration = Duration::from_millis(1500);

/// Lines of a window that may wait to be obeyed; a faster window waits.
const LINES_WAITING: usize = 64;

/// Stack of a task's thread: what the command line, whose functions it calls, has on its main thread.
const TASK_STACK: usize = 8 << 20;

/// What the program that hosts the service brings.
#[derive(Clone, Debug, Default)]
pub struct ServiceOptions {
    /// Device for tasks that name none.
    pub device: Option<String>,
    /// The card that tasks run on, by PCI address, or `cpu`; the plan's choice where absent.
    pub card: Option<String>,
    /// Threads on a processor.
    pub threads: Option<usize>,
    /// The guard that commands of set-up run behind; see [`tunesmith_setup::process`].
    pub guard: Option<Vec<OsString>>,
}

/// Something that the service has to act on.
enum Heard {
    /// A line of a window.
    Line(LinkId, String),
    /// The task's thread has ended, in whatever way.
    TaskOver,
    /// A window's input has ended, or it reads no more.
    WindowGone(LinkId),
    /// The host wants a task to begin.
    Begin(Box<TaskWork>),
    /// The host wants the task at hand to stop.
    Stop(StopHow),
    /// The host wants an end to all of it.
    Leave,
}

/// Serves one window until it is gone. When this returns, the caller has to end the process: threads that wait for the
/// window, or a task that did not end in time, may still be there.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    options: ServiceOptions,
) {
    let (sender, heard) = sync_channel(LINES_WAITING);
    let audience = Arc::new(Audience::new(Box::new(|_| {})));
    attach(&audience, &sender, 1, input, output);
    Service::new(audience, sender, options, None).run(&heard);
}

/// Connects a window: what is said reaches it from here on, and it is heard.
fn attach(
    audience: &Audience,
    sender: &SyncSender<Heard>,
    link: LinkId,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) {
    let gone = sender.clone();
    audience.admit(link, output, move || {
        // A service that is over has nobody left to tell.
        let _ = gone.send(Heard::WindowGone(link));
    });
    // A line that is too long arrives in parts, none of which is a command.
    let sender = sender.clone();
    read_lines_in_thread(input, move |line| {
        let heard = line.map_or(Heard::WindowGone(link), |line| Heard::Line(link, line));
        sender.send(heard).is_ok()
    });
}

/// The window's wish to stop a task; it reaches what leads engines, and set-up.
#[derive(Clone, Default)]
struct Wishes {
    stop: StopToken,
    cancel: Cancel,
}

impl Wishes {
    fn ask(&self, how: StopHow) {
        self.stop.ask(how);
        self.cancel.cancel();
    }

    fn abandon(&self) {
        self.stop.abandon();
        self.cancel.cancel();
    }
}

/// The task at hand.
struct Running {
    task: TaskId,
    /// What it does, for whoever is refused.
    name: &'static str,
    wishes: Wishes,
    thread: JoinHandle<End>,
}

struct Service {
    audience: Arc<Audience>,
    sender: SyncSender<Heard>,
    options: ServiceOptions,
    /// Who is told what a window wants of the app, where there is an app around this service.
    app: Option<host::Watch>,
    running: Option<Running>,
    /// The task that ended last: a wish to stop it comes late and harms nothing.
    last: Option<TaskId>,
}

impl Service {
    fn new(
        audience: Arc<Audience>,
        sender: SyncSender<Heard>,
        options: ServiceOptions,
        app: Option<host::Watch>,
    ) -> Self {
        Self {
            audience,
            sender,
            options,
            app,
            running: None,
            last: None,
        }
    }

    /// Until the window is gone, or the host wants an end.
    fn run(mut self, heard: &Receiver<Heard>) {
        for what in heard {
            match what {
                // What a window said last is obeyed though it is gone, but not once another is there.
                Heard::Line(link, line) if self.audience.is_latest(link) => self.obey(link, &line),
                Heard::Line(..) => {}
                Heard::TaskOver => self.conclude(),
                Heard::WindowGone(link) => {
                    let Some(app) = &self.app else { break };
                    if self.audience.dismiss(link) {
                        app(Told::WindowGone(link));
                    }
                }
                Heard::Begin(work) => self.start(None, *work),
                Heard::Stop(how) => {
                    if let Some(running) = &self.running {
                        running.wishes.ask(how);
                    }
                }
                Heard::Leave => break,
            }
        }
        self.leave(heard);
    }

    fn obey(&mut self, link: LinkId, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        match decode_command(line) {
            Ok(Command::Start { task, work }) => self.start(Some(task), work),
            Ok(Command::Stop { task, how }) => self.stop(task, how),
            Ok(Command::Use { card }) => self.options.card = card,
            Ok(wish @ (Command::Painted | Command::Quit | Command::ShowReport { .. })) => match &self.app {
                Some(app) => app(Told::Wish(link, &wish)),
                None => self.refuse(
                    None,
                    "no_app",
                    "this service runs alone: there is no app around it that could do this".to_owned(),
                    &["these words are for a program that hosts the service around its window"],
                ),
            },
            Err(error) => self.refuse(
                task_in(line),
                "not_a_command",
                format!("this line is no command: {error}"),
                &["docs/PROTOCOL.md shows the commands; window and service must be of one version"],
            ),
        }
    }

    /// Begins a task, one that the window has numbered or one of the host's.
    fn start(&mut self, number: Option<TaskId>, work: TaskWork) {
        if let Some(running) = &self.running {
            let message = format!("task {} ({}) is still running", running.task, running.name);
            let hint = "wait until it has ended, or stop it";
            return self.refuse(number, "busy", message, &[hint]);
        }
        let Some(task) = self.audience.begin(number, &work) else {
            let message = "a task has had this number already".to_owned();
            return self.refuse(number, "number_used", message, &["give each task a new number"]);
        };
        let name = tasks::name(&work);
        let wishes = Wishes::default();
        let options = self.options.clone();
        let heard = wishes.clone();
        let mut teller = Teller::new(task, Arc::clone(&self.audience));
        let sender = self.sender.clone();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .stack_size(TASK_STACK);
        let spawned = thread.spawn(move || {
            let _over = TellsAtItsEnd(sender);
            tasks::carry_out(work, &options, &heard, &mut teller)
        });
        match spawned {
            Ok(thread) => {
                self.running = Some(Running {
                    task,
                    name,
                    wishes,
                    thread,
                });
            }
            Err(error) => {
                let message = format!("the system gives this program no further thread: {error}");
                self.say_end(task, End::broken("no_thread", message));
            }
        }
    }

    fn stop(&mut self, task: TaskId, how: StopHow) {
        match &self.running {
            Some(running) if running.task == task => running.wishes.ask(how),
            _ if self.last == Some(task) => {}
            _ => self.refuse(
                Some(task),
                "no_such_task",
                format!("there is no task {task} to stop"),
                &[],
            ),
        }
    }

    fn refuse(&self, task: Option<TaskId>, code: &str, message: String, hints: &[&str]) {
        let error = EngineError {
            code: code.to_owned(),
            message,
            hints: hints.iter().map(|hint| (*hint).to_owned()).collect(),
        };
        self.audience.answer(Notice::Refused { task, error });
    }

    /// The task's thread is over.
    fn conclude(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        let end = running.thread.join().unwrap_or_else(|_| {
            let message = format!(
                "the {} failed in a way that this program did not foresee",
                running.name
            );
            End::broken("internal", message)
        });
        self.say_end(running.task, end);
    }

    fn say_end(&mut self, task: TaskId, end: End) {
        self.last = Some(task);
        self.audience.tell(task, end.notice(task));
    }

    /// Whatever runs is ended, and nothing is waited for longer than `LEAVE`.
    fn leave(mut self, heard: &Receiver<Heard>) {
        let deadline = Instant::now() + LEAVE;
        let left = || deadline.saturating_duration_since(Instant::now());
        if let Some(running) = &self.running {
            running.wishes.abandon();
        }
        while self.running.is_some() {
            match heard.recv_timeout(left()) {
                Ok(Heard::TaskOver) => self.conclude(),
                Ok(_) => {}
                Err(_) => return,
            }
        }
        // Where only its input ended, somebody may still read how the task ended.
        self.audience.flush(left());
    }
}

/// Says that the task is over when its thread ends, also by a panic.
struct TellsAtItsEnd(SyncSender<Heard>);

impl Drop for TellsAtItsEnd {
    fn drop(&mut self) {
        // A service that is over needs no word.
        let _ = self.0.send(Heard::TaskOver);
    }
}

/// The task that a line names, though the rest of it is no command.
fn task_in(line: &str) -> Option<TaskId> {
    serde_json::from_str::<Value>(line).ok()?.get("task")?.as_u64()
}

impl End {
    /// A task that failed outside what tasks can tell.
    fn broken(code: &str, message: String) -> Self {
        Self {
            status: RunStatus::Crashed,
            run: None,
            result: Value::Null,
            failure: Some(EngineError {
                code: code.to_owned(),
                message,
                hints: vec!["please report this as a fault of Tunesmith".to_owned()],
            }),
            last_lines: Vec::new(),
        }
    }

    fn notice(self, task: TaskId) -> Notice {
        Notice::Ended {
            task,
            status: self.status,
            run: self.run,
            result: self.result,
            failure: self.failure,
            last_lines: self.last_lines,
        }
    }
}
