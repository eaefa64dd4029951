//! The engine as a process: its own group, its pipes read by threads, its end told in words.
//!
//! Pipes are read by a thread each, because a reader that waits for one of them would let the other fill up
//! and stop the engine.

use std::{
    io::{self, Read, Write},
    process::{ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::{Duration, Instant},
};

use process_wrap::std::{ChildWrapper, CommandWrap};
use tunesmith_protocol::{Request, encode};

use crate::lines::read_lines_in_thread;

/// Lines that may wait to be handled; a faster engine waits.
const LINES_WAITING: usize = 4096;

/// Something that came out of the engine.
pub(super) enum Output {
    /// A line of stdout.
    Line(String),
    /// A line of stderr.
    Stderr(String),
    /// One of the two pipes ended.
    Closed,
}

/// A running engine process.
pub(super) struct Child {
    process: Box<dyn ChildWrapper>,
    /// While it is open the engine lives: the end of its stdin makes it leave at once.
    stdin: Option<ChildStdin>,
    output: Receiver<Output>,
    open_pipes: u8,
}

impl Child {
    pub(super) fn spawn(mut command: Command) -> io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = CommandWrap::from(command);
        #[cfg(unix)]
        command.wrap(process_wrap::std::ProcessGroup::leader());
        let mut process = command.spawn()?;
        let stdin = process.stdin().take();
        let (sender, output) = sync_channel(LINES_WAITING);
        let mut open_pipes = 0;
        if let Some(pipe) = process.stdout().take() {
            open_pipes += 1;
            read_in_thread(pipe, sender.clone(), Output::Line);
        }
        if let Some(pipe) = process.stderr().take() {
            open_pipes += 1;
            read_in_thread(pipe, sender, Output::Stderr);
        }
        Ok(Self {
            process,
            stdin,
            output,
            open_pipes,
        })
    }

    /// The next output, or nothing within `wait`. `None` for good once both pipes have ended.
    pub(super) fn next(&mut self, wait: Duration) -> Option<Output> {
        let output = self.output.recv_timeout(wait).ok()?;
        if matches!(output, Output::Closed) {
            self.open_pipes = self.open_pipes.saturating_sub(1);
        }
        Some(output)
    }

    pub(super) fn all_read(&self) -> bool {
        self.open_pipes == 0
    }

    /// Sends a request. An engine that no longer listens is dead or dying, which its exit status tells better.
    pub(super) fn send(&mut self, request: &Request) {
        if let Some(stdin) = &mut self.stdin {
            let line = encode(request);
            if stdin
                .write_all(line.as_bytes())
                .and_then(|()| stdin.flush())
                .is_err()
            {
                self.stdin = None;
            }
        }
    }

    pub(super) fn exited(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Asks the whole group to leave.
    pub(super) fn terminate(&mut self) {
        #[cfg(unix)]
        let _ = self.process.signal(rustix::process::Signal::TERM.as_raw());
        #[cfg(not(unix))]
        self.kill();
    }

    /// Ends the whole group. It may be gone already, which is what was wanted.
    pub(super) fn kill(&mut self) {
        let _ = self.process.start_kill();
    }

    /// Ends the process for good and waits until it is gone.
    pub(super) fn kill_and_wait(&mut self, limit: Duration) {
        self.stdin = None;
        self.kill();
        let start = Instant::now();
        // The pipes must be emptied meanwhile, or a reader thread would wait for ever on a full channel.
        while self.exited().is_none() && start.elapsed() < limit {
            let _ = self.next(Duration::from_millis(10));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.exited().is_none() {
            self.kill_and_wait(Duration::from_secs(5));
        }
    }
}

fn read_in_thread(
    pipe: impl Read + Send + 'static,
    sender: SyncSender<Output>,
    wrap: impl Fn(String) -> Output + Send + 'static,
) {
    // At the end the supervisor may have left already.
    read_lines_in_thread(pipe, move |line| {
        sender.send(line.map_or(Output::Closed, &wrap)).is_ok()
    });
}

/// How a process ended, in words: "was killed by SIGKILL", "left with exit status 3".
pub(super) fn ending(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(number) = status.signal() {
            return format!("was killed by {}", signal_name(number));
        }
    }
    match status.code() {
        Some(0) => "left without saying how the job ended".to_owned(),
        Some(code) => format!("left with exit status {code}"),
        None => "ended in an unknown way".to_owned(),
    }
}

/// The signal that ended a process, where one did.
pub(super) fn signal_of(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        status.signal()
    }
    #[cfg(not(unix))]
    {
        let _ = status;
        None
    }
}

#[cfg(unix)]
fn signal_name(number: i32) -> String {
    use rustix::process::Signal;
    let names = [
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::ILL, "SIGILL"),
        (Signal::FPE, "SIGFPE"),
        (Signal::TERM, "SIGTERM"),
        (Signal::INT, "SIGINT"),
        (Signal::HUP, "SIGHUP"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::SYS, "SIGSYS"),
        (Signal::XCPU, "SIGXCPU"),
    ];
    names
        .iter()
        .find(|(signal, _)| signal.as_raw() == number)
        .map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}
