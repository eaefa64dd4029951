//! Child processes that never outlive their parent: a process group of their own, ended as a whole.
//!
//! Installers and compilers start further processes and do not watch their standard input, so an ended parent
//! would leave them running. Two things prevent it: the handle here ends the whole group when it is dropped or
//! the user cancels, and a *guard* (this same program, started as `<program> guard -- <command>`) stands
//! between and ends the group when the parent vanishes without a word, as after `kill -9`: then the guard's
//! standard input closes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many of the child's last lines are kept for an error.
const KEPT_LINES: usize = 200;

/// How long a group may take to stop by itself.
const GRACE: Duration = Duration::from_secs(5);

/// Set once by the user's Ctrl-C; every running stage looks at it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks every stage to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether that was asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Where the child's output goes. Its standard input is always empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard error is kept for the error message, standard output is dropped.
    Kept,
    /// Both go to this process's standard error, so that standard output stays for results.
    ToStderr,
    /// Standard error is shown, standard output is returned.
    Returned,
    /// Both are shown as they are.
    Shown,
}

/// How the child ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// The last lines of its standard error, with [`Output::Kept`].
    pub stderr: Vec<String>,
    /// Its standard output, with [`Output::Returned`].
    pub stdout: String,
    /// Whether it was stopped because the user cancelled.
    pub cancelled: bool,
}

/// Runs `command` to its end in a process group of its own; calls `tick` about once a second meanwhile. `guard`
/// is the program and arguments that the command is put behind (see the module's text).
///
/// # Errors
/// Where the program cannot be started or waited for.
pub fn run(
    command: &Command,
    guard: Option<&[OsString]>,
    cancel: &Cancel,
    output: Output,
    tick: &mut dyn FnMut(),
) -> io::Result<Ended> {
    let mut command = behind_guard(command, guard);
    command.stdin(if guard.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    match output {
        Output::Kept => command.stdout(Stdio::null()).stderr(Stdio::piped()),
        Output::ToStderr => command.stdout(io::stderr()).stderr(Stdio::inherit()),
        Output::Returned => command.stdout(Stdio::piped()).stderr(Stdio::inherit()),
        Output::Shown => command.stdout(Stdio::inherit()).stderr(Stdio::inherit()),
    };
    let mut group = Group::spawn(&mut command)?;
    let stderr = group.child.stderr.take().map(|pipe| {
        thread::spawn(move || {
            let mut last = VecDeque::new();
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                if last.len() == KEPT_LINES {
                    last.pop_front();
                }
                last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            Vec::from(last)
        })
    });
    let stdout = group.child.stdout.take().map(|mut pipe| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before a broken pipe is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });

    let mut last_tick = Instant::now();
    let mut cancelled = false;
    let status = loop {
        if let Some(status) = group.wait_briefly()? {
            break status;
        }
        if cancel.is_cancelled() {
            cancelled = true;
            break group.stop()?;
        }
        if last_tick.elapsed() >= Duration::from_secs(1) {
            last_tick = Instant::now();
            tick();
        }
    };
    drop(group);
    Ok(Ended {
        status,
        stderr: stderr.and_then(|thread| thread.join().ok()).unwrap_or_default(),
        stdout: stdout.and_then(|thread| thread.join().ok()).unwrap_or_default(),
        cancelled,
    })
}

/// The exit status as a number: 128 + the signal for a process that a signal ended, as shells count.
pub fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return (128 + signal).clamp(1, 255) as u8;
    }
    status.code().map_or(1, |code| code.clamp(0, 255) as u8)
}

fn behind_guard(command: &Command, guard: Option<&[OsString]>) -> Command {
    let mut words: Vec<&std::ffi::OsStr> = guard
        .unwrap_or_default()
        .iter()
        .map(OsString::as_os_str)
        .collect();
    words.push(command.get_program());
    words.extend(command.get_args());
    let mut guarded = Command::new(words[0]);
    guarded.args(&words[1..]);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(name, value),
            None => guarded.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        guarded.current_dir(folder);
    }
    guarded
}

/// A child and everything that it starts.
struct Group {
    child: Child,
    ended: bool,
}

impl Group {
    fn spawn(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        Ok(Self {
            child: command.spawn()?,
            ended: false,
        })
    }

    /// Waits up to a tenth of a second.
    fn wait_briefly(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.ended = true;
        } else {
            thread::sleep(Duration::from_millis(100));
        }
        Ok(status)
    }

    /// Asks the group to stop, waits for it, ends what is left.
    fn stop(&mut self) -> io::Result<ExitStatus> {
        self.signal_all(false);
        let asked = Instant::now();
        let mut status = None;
        while asked.elapsed() < GRACE && (status.is_none() || self.others_run()) {
            status = match status {
                None => self.wait_briefly()?,
                known => {
                    thread::sleep(Duration::from_millis(20));
                    known
                }
            };
        }
        self.signal_all(true);
        let status = match status {
            Some(status) => status,
            None => self.child.wait()?,
        };
        self.ended = true;
        Ok(status)
    }

    #[cfg(unix)]
    fn id(&self) -> Option<rustix::process::Pid> {
        rustix::process::Pid::from_raw(self.child.id() as i32)
    }

    #[cfg(unix)]
    fn others_run(&self) -> bool {
        self.id()
            .is_some_and(|id| rustix::process::test_kill_process_group(id).is_ok())
    }

    #[cfg(unix)]
    fn signal_all(&mut self, hard: bool) {
        use rustix::process::{Signal, kill_process_group};
        let signal = if hard { Signal::KILL } else { Signal::TERM };
        if let Some(id) = self.id() {
            // A group that is already gone is what is wanted.
            let _ = kill_process_group(id, signal);
        }
    }

    #[cfg(not(unix))]
    fn others_run(&self) -> bool {
        false
    }

    #[cfg(not(unix))]
    fn signal_all(&mut self, _hard: bool) {
        let _ = self.child.kill();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.signal_all(true);
            let _ = self.child.wait();
        }
    }
}

/// The guard's whole life: runs `words` (a program and its arguments), and ends its own process group as soon
/// as standard input closes. Returns the program's exit status.
///
/// # Errors
/// Where the program cannot be started or waited for.
pub fn guard(words: &[OsString]) -> io::Result<u8> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the guard needs a command",
        ));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()?;
    thread::spawn(|| {
        // Nothing is ever sent: the end of input, or an error, means that the parent is gone.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        end_own_group();
    });
    child.wait().map(exit_code)
}

#[cfg(unix)]
fn end_own_group() {
    use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};
    // Started by hand inside a shell's pipeline, the group is not the guard's to end.
    if getpgrp() == getpid() {
        let _ = kill_current_process_group(Signal::KILL);
    }
}

#[cfg(not(unix))]
fn end_own_group() {
    std::process::exit(1);
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_last_lines_of_standard_error_are_kept() {
        let ended = run(
            &sh("echo first >&2; echo last >&2; exit 3"),
            None,
            &Cancel::default(),
            Output::Kept,
            &mut || {},
        )
        .unwrap();
        assert_eq!(ended.stderr, ["first", "last"]);
        assert_eq!(exit_code(ended.status), 3);
    }

    #[test]
    fn standard_output_is_returned_when_asked_for() {
        let ended = run(
            &sh("echo result"),
            None,
            &Cancel::default(),
            Output::Returned,
            &mut || {},
        )
        .unwrap();
        assert_eq!(ended.stdout, "result\n");
    }

    #[test]
    fn cancelling_ends_what_the_child_started_too() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let cancel = Cancel::default();
        let ended = run(&sh(&script), None, &cancel, Output::Kept, &mut || {
            if std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')) {
                cancel.cancel();
            }
        })
        .unwrap();
        assert!(ended.cancelled);
        let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while rustix::process::test_kill_process(pid).is_ok() && !is_zombie(pid) {
            assert!(Instant::now() < deadline, "the grandchild still runs");
            thread::yield_now();
        }
    }

    /// In a container nobody may collect an orphan; it has ended all the same.
    fn is_zombie(pid: rustix::process::Pid) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
            .is_ok_and(|text| text.contains(") Z "))
    }
}
