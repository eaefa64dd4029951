//! The window's end of the pipe to the service. The service leads engines, so nothing that happens here or in the
//! window can take a training along. It is a child of this window, or, in the installed app, this window is a child of the
//! program that hosts it.

use std::{
    env,
    ffi::OsString,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command as Process, Stdio},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use tunesmith_lab::lines::read_lines_in_thread;
use tunesmith_protocol::{Command, Notice, SERVICE_VERSION, decode_notice, encode};
use tunesmith_setup::env_vars;

use crate::state::Problem;

/// Notices that may wait; a faster service waits, and nothing is lost.
const WAITING: usize = 16_384;
/// The service's own words that are kept for the case that it dies.
const LAST_LINES: usize = 50;

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The program was not found.
    #[error("the program `tunesmith`, which leads trainings, was not found at {}", .0.display())]
    Missing(PathBuf),
    /// The system refused to start it.
    #[error("{} could not be started: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl ClientError {
    /// Stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "service_not_found",
            Self::Start { .. } => "service_not_started",
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing(_) => vec![format!(
                "build it with `cargo xtask app`, or point {} at the program",
                env_vars::PROGRAM
            )],
            Self::Start { .. } => vec!["check that the file is a program and may be run".to_owned()],
        }
    }
}

/// Something that came from the service.
#[derive(Debug)]
pub enum Heard {
    /// A notice.
    Notice(Notice),
    /// It is gone.
    Gone(Problem),
}

enum Line {
    Out(String),
    Err(String),
    End,
}

/// The service at the other end of a pipe.
pub struct Client {
    /// The service's process, where this window has started it.
    child: Option<Child>,
    to_service: Option<Box<dyn Write + Send>>,
    lines: Receiver<Line>,
    open_pipes: u8,
    last_lines: Vec<String>,
    welcomed: bool,
    gone: bool,
}

impl Client {
    /// The program that leads engines: the one that the variable names, else the one beside this program.
    pub fn program() -> PathBuf {
        if let Some(named) = env_vars::read(env_vars::PROGRAM) {
            return named.into();
        }
        let name = format!("tunesmith{}", env::consts::EXE_SUFFIX);
        let here = env::current_exe().unwrap_or_default();
        here.parent().unwrap_or(Path::new("")).join(name)
    }

    /// Starts the service. `wake` is called whenever something came from it.
    ///
    /// # Errors
    /// [`ClientError`] when the program is not there or cannot be started.
    pub fn start(
        program: &Path,
        environment: &[(String, OsString)],
        wake: impl Fn() + Clone + Send + 'static,
    ) -> Result<Self, ClientError> {
        if !program.exists() {
            return Err(ClientError::Missing(program.to_owned()));
        }
        let mut process = Process::new(program);
        process
            .args(["serve", "--stdio"])
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = process.spawn().map_err(|source| ClientError::Start {
            program: program.to_owned(),
            source,
        })?;
        let (sender, lines) = sync_channel(WAITING);
        let mut open_pipes = 0;
        if let Some(pipe) = child.stdout.take() {
            open_pipes += 1;
            read_in_thread(pipe, sender.clone(), Line::Out, wake.clone());
        }
        if let Some(pipe) = child.stderr.take() {
            open_pipes += 1;
            read_in_thread(pipe, sender, Line::Err, wake);
        }
        let to_service = child
            .stdin
            .take()
            .map(|pipe| Box::new(pipe) as Box<dyn Write + Send>);
        Ok(Self {
            child: Some(child),
            to_service,
            lines,
            open_pipes,
            last_lines: Vec::new(),
            welcomed: false,
            gone: false,
        })
    }

    /// A service that is there already, and outlives this window. `wake` is called whenever something came from it.
    pub fn over(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        wake: impl Fn() + Clone + Send + 'static,
    ) -> Self {
        let (sender, lines) = sync_channel(WAITING);
        read_in_thread(input, sender, Line::Out, wake);
        Self {
            child: None,
            to_service: Some(Box::new(output)),
            lines,
            open_pipes: 1,
            last_lines: Vec::new(),
            welcomed: false,
            gone: false,
        }
    }

    /// Sends a command. A service that no longer listens is gone, which [`Self::heard`] tells.
    pub fn send(&mut self, command: &Command) {
        if let Some(pipe) = &mut self.to_service
            && pipe
                .write_all(encode(command).as_bytes())
                .and_then(|()| pipe.flush())
                .is_err()
        {
            self.to_service = None;
        }
    }

    /// What has come since the last call, at most `most` lines of it.
    pub fn heard(&mut self, most: usize) -> Vec<Heard> {
        let mut heard = Vec::new();
        while heard.len() < most
            && let Ok(line) = self.lines.try_recv()
        {
            match line {
                Line::Out(text) => heard.extend(self.out(&text)),
                Line::Err(text) => self.keep(text),
                Line::End => self.open_pipes = self.open_pipes.saturating_sub(1),
            }
        }
        if self.open_pipes == 0 && !self.gone {
            self.gone = true;
            heard.push(Heard::Gone(self.ending()));
        }
        heard
    }

    /// Whether it is gone.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    fn out(&mut self, text: &str) -> Option<Heard> {
        match decode_notice(text) {
            Ok(Notice::Welcome { service, .. }) if service != SERVICE_VERSION => {
                self.to_service = None;
                self.gone = true;
                Some(Heard::Gone(Problem::new(
                    "service_version",
                    format!(
                        "`tunesmith` speaks version {service} with windows, this window speaks {SERVICE_VERSION}"
                    ),
                    vec!["build the window and the program from the same version of Tunesmith".to_owned()],
                )))
            }
            Ok(notice) => {
                self.welcomed |= matches!(notice, Notice::Welcome { .. });
                Some(Heard::Notice(notice))
            }
            Err(_) => {
                self.keep(text.to_owned());
                None
            }
        }
    }

    fn keep(&mut self, line: String) {
        if self.last_lines.len() == LAST_LINES {
            self.last_lines.remove(0);
        }
        self.last_lines.push(line);
    }

    fn ending(&mut self) -> Problem {
        let Some(child) = &mut self.child else {
            return Problem::new(
                "service_gone",
                "the part of Tunesmith that leads trainings has left",
                vec!["start Tunesmith again: what a training had saved is kept".to_owned()],
            );
        };
        let status = child.wait().ok();
        let how = status.map_or_else(
            || "ended in an unknown way".to_owned(),
            |status| format!("ended ({status})"),
        );
        let hints = if self.welcomed {
            vec!["start again: what a training had saved is kept, and it can go on from there".to_owned()]
        } else {
            vec!["its last lines say why; `tunesmith doctor` in a terminal says more".to_owned()]
        };
        Problem {
            code: "service_gone".to_owned(),
            message: format!("the program `tunesmith`, which leads trainings, {how}"),
            hints,
            last_lines: std::mem::take(&mut self.last_lines),
        }
    }
}

impl Drop for Client {
    /// The end of its stdin makes a service of this window end its engine and leave.
    fn drop(&mut self) {
        self.to_service = None;
        let Some(child) = &mut self.child else { return };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(3) {
            while self.lines.try_recv().is_ok() {}
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn read_in_thread(
    pipe: impl Read + Send + 'static,
    sender: SyncSender<Line>,
    wrap: impl Fn(String) -> Line + Send + 'static,
    wake: impl Fn() + Send + 'static,
) {
    // At the end the window may have left already.
    read_lines_in_thread(pipe, move |line| {
        let heard = sender.send(line.map_or(Line::End, &wrap)).is_ok();
        wake();
        heard
    });
}
