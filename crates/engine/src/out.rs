//! The engine's only way to speak: one JSON object a line on stdout, and the requests to stop that come in.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver};

use tunesmith_protocol::{
    Bye, Event, Job, Level, Log, Progress, Request, RunStatus, StopHow, decode_request, encode,
};

/// Writes one event. A closed pipe means that the parent is gone, and so is the reason to go on.
pub(crate) fn emit(event: &Event) {
    let line = encode(event);
    let mut stdout = std::io::stdout().lock();
    if stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush())
        .is_err()
    {
        std::process::exit(1);
    }
}

/// Writes a log line.
pub(crate) fn log(level: Level, text: impl Into<String>) {
    emit(&Event::Log(Log {
        level,
        text: text.into(),
    }));
}

/// Writes how far a stage is, with an estimate from the time it took so far.
pub(crate) fn progress(stage: &str, done: u64, total: u64, unit: &str, started: std::time::Instant) {
    let eta_secs = (done > 0 && total >= done)
        .then(|| started.elapsed().as_secs_f64() / done as f64 * (total - done) as f64);
    emit(&Event::Progress(Progress {
        stage: stage.to_owned(),
        done,
        total,
        unit: unit.to_owned(),
        eta_secs,
    }));
}

/// A wish to stop, looked at between steps.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicU8>);

impl Stop {
    /// What was asked for, if anything was.
    pub(crate) fn requested(&self) -> Option<StopHow> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(StopHow::AfterStep),
            _ => Some(StopHow::Save),
        }
    }

    fn request(&self, how: StopHow) {
        match how {
            StopHow::AfterStep => self.0.store(1, Ordering::Relaxed),
            StopHow::Save => self.0.store(2, Ordering::Relaxed),
            StopHow::Now => {
                emit(&Event::Bye(Bye {
                    status: RunStatus::Cancelled,
                }));
                leave_at_once(130);
            }
        }
    }
}

/// Ends the process without what a program does at its end: torch would take its libraries down under threads that still
/// compute, which can take seconds.
#[expect(
    unsafe_code,
    reason = "the one way to leave at once that every system's C library has"
)]
fn leave_at_once(status: i32) -> ! {
    unsafe extern "C" {
        fn _Exit(status: i32) -> !;
    }
    // SAFETY: part of the C standard; takes any number and does not come back.
    unsafe { _Exit(status) }
}

/// Reads stdin on a thread of its own. The end of stdin ends the process at once, without saving: the parent is gone.
pub(crate) fn listen() -> (Receiver<Job>, Stop) {
    let (sender, receiver) = mpsc::channel();
    let stop = Stop::default();
    let heard = stop.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match decode_request(&line) {
                Ok(Request::Job(job)) => {
                    if sender.send(*job).is_err() {
                        break;
                    }
                }
                Ok(Request::Stop { how }) => heard.request(how),
                Err(error) => log(Level::Warn, format!("a request was not understood: {error}")),
            }
        }
        leave_at_once(1);
    });
    (receiver, stop)
}
