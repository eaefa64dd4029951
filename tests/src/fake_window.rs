//! A window that follows a script, so that every way a window can end is tested through the real shell. It speaks the
//! window's words and draws nothing.
//!
//! `FAKE_WINDOW` names a folder. The first window that is started follows `1.jsonl` in it, the second `2.jsonl`, and so on;
//! one without a script of its own follows the last there is. It writes its process id to `1.pid` and every line that it
//! hears to `1.heard`. A script is lines of JSON, each one action, done in order:
//!
//! | action | what it does |
//! |---|---|
//! | `{"say": {…}}`, `{"raw": "text"}`, `{"stderr": "text"}` | writes a line |
//! | `{"wait_for": {"type": "ended"}}` | waits until it hears a line with these fields, said now or earlier |
//! | `{"ignore_end_of_input": {}}` | no longer leaves when its stdin ends, as no window may |
//! | `{"wait_forever": {}}` | does nothing more |
//! | `{"exit": 3}`, `{"kill_self": 9}` | leaves, or is killed by a signal |
//!
//! After its last action it waits. Like every window it leaves when its stdin ends.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process::exit,
    sync::atomic::{AtomicBool, Ordering},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Say(Value),
    Raw(String),
    Stderr(String),
    WaitFor(Value),
    IgnoreEndOfInput {},
    WaitForever {},
    Exit(i32),
    KillSelf(i32),
}

/// Whether the end of stdin is ignored.
static DEAF: AtomicBool = AtomicBool::new(false);

fn main() -> io::Result<()> {
    let folder = PathBuf::from(std::env::var_os("FAKE_WINDOW").ok_or(io::ErrorKind::NotFound)?);
    let (number, mut pid) = take_number(&folder)?;
    writeln!(pid, "{}", std::process::id())?;
    let heard = listen(File::create(folder.join(format!("{number}.heard")))?);
    for line in script(&folder, number)?
        .lines()
        .filter(|line| !line.trim().is_empty())
    {
        act(serde_json::from_str(line).map_err(io::Error::other)?, &heard)?;
    }
    wait_forever()
}

/// The next number, which is this window's from here on.
fn take_number(folder: &Path) -> io::Result<(u32, File)> {
    for number in 1.. {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(folder.join(format!("{number}.pid")));
        match file {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|file| (number, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn script(folder: &Path, number: u32) -> io::Result<String> {
    let mut last = Err(io::ErrorKind::NotFound.into());
    for number in 1..=number {
        match fs::read_to_string(folder.join(format!("{number}.jsonl"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            other => last = other,
        }
    }
    last
}

/// Every line that is heard is kept before anything follows from it.
fn listen(mut keep: File) -> Receiver<Value> {
    let (sender, heard) = channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            // A test that looks for it fails where it is missing.
            let _ = keep.write_all(format!("{line}\n").as_bytes());
            if let Ok(value) = serde_json::from_str(&line) {
                let _ = sender.send(value);
            }
        }
        if !DEAF.load(Ordering::SeqCst) {
            exit(0);
        }
        wait_forever();
    });
    heard
}

fn act(action: Action, heard: &Receiver<Value>) -> io::Result<()> {
    match action {
        Action::Say(value) => say(&value.to_string()),
        Action::Raw(text) => say(&text),
        Action::Stderr(text) => writeln!(io::stderr(), "{text}"),
        Action::WaitFor(fields) => loop {
            let mut line = heard.recv().map_err(io::Error::other)?;
            if let Some(earlier) = line.get_mut("notice") {
                line = earlier.take();
            }
            if has(&line, &fields) {
                return Ok(());
            }
        },
        Action::IgnoreEndOfInput {} => {
            DEAF.store(true, Ordering::SeqCst);
            Ok(())
        }
        Action::WaitForever {} => wait_forever(),
        Action::Exit(status) => exit(status),
        Action::KillSelf(number) => kill_self(number),
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}

/// Whether a value has all fields of another one, at every depth.
fn has(value: &Value, fields: &Value) -> bool {
    match fields {
        Value::Object(fields) => fields
            .iter()
            .all(|(name, field)| value.get(name).is_some_and(|value| has(value, field))),
        other => value == other,
    }
}

fn wait_forever() -> ! {
    loop {
        thread::park();
    }
}

#[cfg(unix)]
fn kill_self(number: i32) -> io::Result<()> {
    use rustix::process::{Signal, getpid, kill_process};
    let signal = Signal::from_named_raw(number).ok_or(io::ErrorKind::InvalidInput)?;
    kill_process(getpid(), signal)?;
    wait_forever()
}

#[cfg(not(unix))]
fn kill_self(_number: i32) -> io::Result<()> {
    exit(1)
}
