//! What a user relies on: no command that xtask started goes on after xtask is gone, however it went.
#![cfg(unix)]
// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn guard(script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tunesmith-xtask"));
    command
        .args(["guard", "--", "sh", "-c", script])
        .process_group(0)
        .stdin(Stdio::piped());
    command
}

#[test]
fn everything_behind_the_guard_ends_with_its_parent() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("pid");
    let script = format!(
        "sleep 600 & echo $! > {0}.partial; mv {0}.partial {0}; wait",
        file.display()
    );
    let mut guard = guard(&script).spawn().unwrap();
    wait_for("the command to start", || file.exists());
    let pid = std::fs::read_to_string(&file).unwrap();

    // What the system does when the parent is killed outright.
    drop(guard.stdin.take());
    let closed = Instant::now();
    guard.wait().unwrap();
    let command_line = format!("/proc/{}/cmdline", pid.trim());
    wait_for("the grandchild to end", || {
        std::fs::read(Path::new(&command_line)).map_or(true, |line| line.is_empty())
    });
    assert!(closed.elapsed() < Duration::from_secs(2));
}

#[test]
fn the_guard_passes_the_exit_status_on() {
    let mut guard = guard("exit 7").spawn().unwrap();
    let stdin = guard.stdin.take();
    assert_eq!(guard.wait().unwrap().code(), Some(7));
    drop(stdin);
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::yield_now();
    }
}
