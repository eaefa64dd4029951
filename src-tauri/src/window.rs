//! The window's process: started with the service at its standard input and output, waited for, and ended.

use std::{
    collections::VecDeque,
    env,
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

use shared_child::SharedChild;
use tunesmith_lab::{
    lines::read_lines_in_thread,
    service::{Host, LinkId},
};
use tunesmith_setup::env_vars;

use crate::state::Ending;

/// What the window said last is kept for the case that it dies.
const LAST_LINES: usize = 50;

/// How long to wait for the rest of what a dead window said: something that it started may hold its pipe.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What is started.
#[derive(Clone, Debug)]
pub(crate) struct WindowProgram {
    pub(crate) program: PathBuf,
    /// Arguments of its own, such as `--renderer glow`.
    pub(crate) arguments: Vec<OsString>,
}

impl WindowProgram {
    /// The program that the variable names, else the one beside this program.
    pub(crate) fn find(arguments: Vec<OsString>) -> Self {
        let program = env_vars::read(env_vars::WINDOW).map_or_else(
            || {
                let here = env::current_exe().unwrap_or_default();
                let name = format!("tunesmith-ui{}", env::consts::EXE_SUFFIX);
                here.parent().unwrap_or(Path::new("")).join(name)
            },
            PathBuf::from,
        );
        Self { program, arguments }
    }
}

/// A window.
pub(crate) struct Window {
    child: Arc<SharedChild>,
    link: LinkId,
}

impl Window {
    /// Starts the window and connects it with the service. `ended` is called once, on another thread, when its process is
    /// over.
    ///
    /// # Errors
    /// How it "ended" where it cannot be started.
    pub(crate) fn open(
        program: &WindowProgram,
        host: &Host,
        ended: impl FnOnce(Ending) + Send + 'static,
    ) -> Result<Self, Ending> {
        let mut command = Command::new(&program.program);
        command
            .args(["--service", "stdio"])
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C in a terminal is for this program, which then decides what becomes of its window.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let not_started = |why: String| Ending {
            code: None,
            how: "it was not started".to_owned(),
            last_lines: vec![why],
        };
        let child = SharedChild::spawn(&mut command)
            .map_err(|error| not_started(format!("{}: {error}", program.program.display())))?;
        let pipes = (child.take_stdin(), child.take_stdout(), child.take_stderr());
        let (Some(to_window), Some(from_window), Some(errors)) = pipes else {
            // All three were asked for.
            return Err(not_started("it has no pipes".to_owned()));
        };
        let link = host.attach(from_window, to_window);

        let last_lines: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let (all_read, reading) = channel();
        let lines = Arc::clone(&last_lines);
        read_lines_in_thread(errors, move |line| {
            let Some(line) = line else {
                // Nobody waits for it while the window lives.
                let _ = all_read.send(());
                return false;
            };
            // As if the window had written it itself; without a terminal nobody reads it.
            let _ = writeln!(std::io::stderr(), "{line}");
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == LAST_LINES {
                lines.pop_front();
            }
            lines.push_back(line);
            true
        });

        let child = Arc::new(child);
        let waiting = Arc::clone(&child);
        thread::spawn(move || {
            let status = waiting.wait();
            let _ = reading.recv_timeout(LAST_WORDS);
            let lines = last_lines.lock().unwrap_or_else(PoisonError::into_inner);
            ended(Ending {
                code: status.as_ref().ok().and_then(std::process::ExitStatus::code),
                how: match &status {
                    Ok(status) => status.to_string(),
                    Err(error) => format!("its end is not known: {error}"),
                },
                last_lines: lines.iter().cloned().collect(),
            });
        });
        Ok(Self { child, link })
    }

    /// Ends it, whatever it does.
    pub(crate) fn kill(&self) {
        // It may be gone already.
        let _ = self.child.kill();
    }

    /// Closes its pipe, which makes it leave and keep what outlives it.
    pub(crate) fn close(&self, host: &Host) {
        host.detach(self.link);
    }

    /// Closes it, and waits until it is over, or ends it after `limit`.
    pub(crate) fn leave(self, host: &Host, limit: Duration) {
        self.close(host);
        let end = Instant::now() + limit;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= end {
                self.kill();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
