//! What a window talks to: leads one task after the other and tells the window what happens, in the words of
//! `tunesmith_protocol`. The window only shows what it hears, so it may be slow, crash or close.
//!
//! Four threads, so that none waits for a wrong one:
//!
//! ```text
//! listener ── lines ──▶ service (this file: starts, stops, refuses) ──▶ task (leads an engine, or set-up)
//!                          ▲ the task is over, the window is gone           │ notices
//! window ◀── lines ── writer ◀──────────────── outbox ◀────────────────────┘
//! ```
//!
//! The task never waits for the window: its notices go to an outbox that keeps every result and lets go of what is
//! only passing (see `outbox`). The run's folder on disk is the truth, whatever a window has heard.
//!
//! The window is gone when its input ends or its output is closed. Then the engine is ended at once and the service is
//! over within `LEAVE`; an engine whose supervisor does not manage that in time sees its own input end.

mod notices;
mod outbox;
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
    Command, EngineError, Notice, RunStatus, SERVICE_VERSION, StopHow, TaskId, TaskWork, decode_command,
};
use tunesmith_setup::process::Cancel;

use crate::{lines::read_lines_in_thread, stop::StopToken};

use notices::Teller;
use outbox::Outbox;
use tasks::End;

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
    /// A line of the window.
    Line(String),
    /// The task's thread has ended, in whatever way.
    TaskOver,
    /// The window's input has ended, or it reads no more.
    WindowGone,
}

/// Serves one window until it is gone. When this returns, the caller has to end the process: threads that wait for the
/// window, or a task that did not end in time, may still be there.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    options: ServiceOptions,
) {
    let (sender, heard) = sync_channel(LINES_WAITING);
    let gone = sender.clone();
    let outbox = Outbox::start(output, move || {
        // A service that is over has nobody left to tell.
        let _ = gone.send(Heard::WindowGone);
    });
    outbox.send(Notice::Welcome {
        service: SERVICE_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
    });
    listen(input, sender.clone());
    let mut service = Service {
        outbox,
        sender,
        options,
        running: None,
        last: None,
    };
    for heard in &heard {
        match heard {
            Heard::Line(line) => service.obey(&line),
            Heard::TaskOver => service.conclude(),
            Heard::WindowGone => break,
        }
    }
    service.leave(&heard);
}

/// Reads lines on a thread of its own. A line that is too long arrives in parts, none of which is a command.
fn listen(input: impl Read + Send + 'static, sender: SyncSender<Heard>) {
    read_lines_in_thread(input, move |line| {
        sender.send(line.map_or(Heard::WindowGone, Heard::Line)).is_ok()
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
    outbox: Arc<Outbox>,
    sender: SyncSender<Heard>,
    options: ServiceOptions,
    running: Option<Running>,
    /// The task that ended last: a wish to stop it comes late and harms nothing.
    last: Option<TaskId>,
}

impl Service {
    fn obey(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        match decode_command(line) {
            Ok(Command::Start { task, work }) => self.start(task, work),
            Ok(Command::Stop { task, how }) => self.stop(task, how),
            Err(error) => self.refuse(
                task_in(line),
                "not_a_command",
                format!("this line is no command: {error}"),
                &["docs/PROTOCOL.md shows the commands; window and service must be of one version"],
            ),
        }
    }

    fn start(&mut self, task: TaskId, work: TaskWork) {
        if let Some(running) = &self.running {
            let message = format!("task {} ({}) is still running", running.task, running.name);
            let hint = "wait until it has ended, or stop it";
            return self.refuse(Some(task), "busy", message, &[hint]);
        }
        let name = tasks::name(&work);
        let wishes = Wishes::default();
        let options = self.options.clone();
        let heard = wishes.clone();
        let mut teller = Teller::new(task, Arc::clone(&self.outbox));
        let sender = self.sender.clone();
        self.outbox.send(Notice::Started { task });
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
        self.outbox.send(Notice::Refused { task, error });
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
        self.outbox.send(end.notice(task));
    }

    /// The window is gone: whatever runs is ended, and nothing is waited for longer than `LEAVE`.
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
        self.outbox.flush(left());
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
