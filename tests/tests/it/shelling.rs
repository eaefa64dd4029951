//! `tunesmith-shell --plain` as a user has it: a shell, a window and an engine, each of which may go at any moment. Window and
//! engine follow scripts; the shell, the service and what is on disk are real.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::{Value, json};
use tunesmith_lab::run::{Run, RunState};
use tunesmith_protocol::{
    Command as Wish, Notice, RunStatus, StopHow, TaskWork, Trainer, decode_notice, encode,
};

use crate::context::{CALIBRATES, Home, RunIt, built, children, fake_engine, lives, pid_in, wait_until};
use crate::serving::with_fake_installer;

/// Longest time for anything that a test waits for.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// No process of ours may outlive its parent by more.
pub(crate) const SOON: Duration = Duration::from_secs(2);

/// A shell with its own home, and the folder in which its windows leave their traces.
pub(crate) struct Shell {
    process: Child,
    pub(crate) home: Home,
    windows: PathBuf,
}

impl Shell {
    /// Starts one. The engine follows a script, and each window its own.
    fn start(home: Home, engine: &str, windows: &[String]) -> Self {
        let script = home.path("script.jsonl");
        fs::write(&script, engine).unwrap();
        Self::start_with(home, windows, |command| {
            command
                .env("TUNESMITH_ENGINE", fake_engine())
                .env("FAKE_ENGINE_SCRIPT", &script);
        })
    }

    fn start_with(home: Home, scripts: &[String], more: impl FnOnce(&mut Command)) -> Self {
        Self::spawn(home, scripts, |command| {
            // A screen is named; the window that stands in for the real one does not look for it.
            command.arg("--plain").env("DISPLAY", ":none");
            more(command);
        })
    }

    /// Starts one as it is installed, with Tauri. `more` names the display and the bus.
    pub(crate) fn start_on_desktop(home: Home, scripts: &[String], more: impl FnOnce(&mut Command)) -> Self {
        Self::spawn(home, scripts, more)
    }

    fn spawn(home: Home, scripts: &[String], more: impl FnOnce(&mut Command)) -> Self {
        let windows = home.path("windows");
        fs::create_dir_all(&windows).unwrap();
        for (script, number) in scripts.iter().zip(1..) {
            fs::write(windows.join(format!("{number}.jsonl")), script).unwrap();
        }
        let mut command = Command::new(built("tunesmith-shell"));
        command
            .env("TUNESMITH_HOME", home.path("home"))
            .env("TUNESMITH_TORCH", home.path("site"))
            .env("TUNESMITH_WINDOW", env!("CARGO_BIN_EXE_fake-window"))
            .env("FAKE_WINDOW", &windows)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        more(&mut command);
        Self {
            process: command.spawn().unwrap(),
            home,
            windows,
        }
    }

    /// The process of the window with this number, once it is there.
    pub(crate) fn window(&self, number: u32) -> u32 {
        pid_in(&self.windows.join(format!("{number}.pid")))
    }

    pub(crate) fn windows_so_far(&self) -> usize {
        (1..=u32::MAX)
            .take_while(|number| self.windows.join(format!("{number}.pid")).exists())
            .count()
    }

    /// What a window has heard so far. Its last line may be on its way.
    fn heard(&self, number: u32) -> Vec<Notice> {
        let text = fs::read_to_string(self.windows.join(format!("{number}.heard"))).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| decode_notice(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    #[track_caller]
    pub(crate) fn wait_until_heard(&self, number: u32, what: &str, is: impl Fn(&Notice) -> bool) {
        wait_until(what, LIMIT, || self.heard(number).iter().any(&is));
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// As the end of a session does.
    pub(crate) fn ask_to_end(&self) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until it leaves by itself; its exit status and what it said on standard error.
    #[track_caller]
    pub(crate) fn left(mut self) -> (Option<i32>, String, Home) {
        let mut errors = self.process.stderr.take().unwrap();
        let reader = thread::spawn(move || {
            let mut text = String::new();
            // What is not read is missed by the test.
            let _ = std::io::Read::read_to_string(&mut errors, &mut text);
            text
        });
        wait_until("the shell leaves", LIMIT, || {
            self.process.try_wait().unwrap().is_some()
        });
        let status = self.process.wait().unwrap().code();
        let errors = reader.join().unwrap();
        let home = std::mem::replace(&mut self.home, Home::new());
        (status, errors, home)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn kill(pid: u32) {
    // It may be gone already.
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL);
}

/// Actions of a window.
fn says(wish: &Wish) -> String {
    format!("{{\"say\": {}}}\n", encode(wish).trim_end())
}

pub(crate) fn waits_for(fields: &Value) -> String {
    format!("{}\n", json!({ "wait_for": fields }))
}

pub(crate) fn paints() -> String {
    says(&Wish::Painted)
}

pub(crate) fn quits() -> String {
    says(&Wish::Quit)
}

fn exits(status: i32) -> String {
    format!("{{\"exit\": {status}}}\n")
}

/// The recipe of a home as a window sends it.
fn training(home: &Home, steps: u64) -> TaskWork {
    // A text of JSON is one of TOML, whatever stands in it.
    let absolute = |name: &str| serde_json::to_string(&home.path(name)).unwrap();
    let recipe = fs::read_to_string(home.recipe())
        .unwrap()
        .replace("\"model\"", &absolute("model"))
        .replace("\"rows.jsonl\"", &absolute("rows.jsonl"))
        .replace("steps = 3\n", &format!("steps = {steps}\n"));
    TaskWork::Train {
        recipe,
        device: Some("cpu".to_owned()),
        evaluate: false,
        trainer: Trainer::Native,
        threads: None,
    }
}

fn trains(home: &Home, steps: u64) -> String {
    says(&Wish::Start {
        task: 1,
        work: training(home, steps),
    })
}

/// An engine that says who it is, measures, and takes its time for so many steps.
fn slow_engine(home: &Home, steps: u64) -> String {
    format!(
        "{{\"write_pid\": \"{}\"}}\n{CALIBRATES}{{\"steps\": {{\"from\": 1, \"to\": {steps}, \"delay_ms\": 20}}}}\n\
         {{\"save_adapter\": {{}}}}\n{{\"result\": {{}}}}\n{{\"bye\": \"ok\"}}\n",
        home.path("engine.pid").display()
    )
}

fn is_step(number: u64) -> Value {
    json!({ "type": "step", "step": { "step": number } })
}

fn steps(notices: &[Notice]) -> Vec<u64> {
    notices
        .iter()
        .filter_map(|notice| match notice {
            Notice::Step { step, .. } => Some(step.step),
            _ => None,
        })
        .collect()
}

fn status_of(notices: &[Notice]) -> Option<RunStatus> {
    notices.iter().find_map(|notice| match notice {
        Notice::Ended { status, .. } => Some(*status),
        _ => None,
    })
}

#[test]
fn a_run_outlives_its_window_and_the_next_one_shows_all_of_it() {
    const STEPS: u64 = 60;
    let home = Home::new();
    let first = paints() + &trains(&home, STEPS) + &waits_for(&is_step(5)) + "{\"kill_self\": 9}\n";
    let second = paints() + &waits_for(&json!({ "type": "ended" })) + &quits() + &exits(0);
    let engine = slow_engine(&home, STEPS);
    let work = training(&home, STEPS);
    let shell = Shell::start(home, &engine, &[first, second]);
    shell.wait_until_heard(2, "the second window hears the end", |notice| {
        matches!(notice, Notice::Ended { .. })
    });
    let heard = shell.heard(2);
    assert!(matches!(heard[0], Notice::Welcome { .. }));
    // First what the first window was told, then what is said now.
    let begins = |notice: &Notice| matches!(notice, Notice::Task { task: 1, work: begun } if *begun == work);
    match &heard[1] {
        Notice::Earlier { secs_ago, notice } => assert!(*secs_ago > 0.0 && begins(notice), "{notice:?}"),
        other => panic!("{other:?}"),
    }
    let now = heard
        .iter()
        .position(|notice| *notice == Notice::UpToDate)
        .unwrap();
    assert!(steps(&heard[..now]).len() >= 5);
    assert!(
        heard[now..]
            .iter()
            .all(|notice| !matches!(notice, Notice::Earlier { .. }))
    );
    assert_eq!(
        steps(&heard),
        (1..=STEPS).collect::<Vec<_>>(),
        "each step once, in order"
    );
    assert_eq!(status_of(&heard), Some(RunStatus::Ok));
    let (status, _, home) = shell.left();
    assert_eq!(status, Some(0));
    assert_eq!(home.summary()["status"], "ok");
}

#[test]
fn a_window_that_is_closed_during_a_run_leaves_it_and_the_app_leaves_after_it() {
    let home = Home::new();
    let window = paints() + &trains(&home, 40) + &waits_for(&is_step(3)) + &exits(0);
    let engine = slow_engine(&home, 40);
    let shell = Shell::start(home, &engine, &[window]);
    let (status, errors, home) = shell.left();
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(home.summary()["status"], "ok");
    // Nobody was left in the dark.
    assert!(
        errors.contains("Fine-tuning goes on") && errors.contains("Fine-tuning is done"),
        "{errors}"
    );
}

#[test]
fn a_window_that_never_paints_is_told_of_with_what_it_said() {
    let window = "{\"stderr\": \"no driver for this card\"}\n".to_owned() + &exits(1);
    let shell = Shell::start(Home::new(), "", &[window]);
    let windows = shell.windows.clone();
    let (status, errors, _home) = shell.left();
    assert_eq!(status, Some(1));
    assert!(
        errors.contains("cannot be opened") && errors.contains("tunesmith doctor"),
        "{errors}"
    );
    assert!(errors.contains("\n  no driver for this card"), "{errors}");
    assert!(windows.join("5.pid").exists() && !windows.join("6.pid").exists());
}

#[test]
fn a_window_that_no_renderer_can_draw_is_believed_at_once() {
    let shell = Shell::start(Home::new(), "", &[exits(69)]);
    let windows = shell.windows.clone();
    let (status, errors, _home) = shell.left();
    assert_eq!(status, Some(1));
    assert!(errors.contains("no renderer of this machine"), "{errors}");
    assert!(!windows.join("2.pid").exists());
}

#[test]
fn a_start_for_its_first_frame_says_how_long_it_took_and_leaves() {
    let home = Home::new();
    let mut shell = Shell::start_with(home, &[paints()], |command| {
        command.arg("--first-frame");
    });
    let mut out = shell.process.stdout.take().unwrap();
    let window = shell.window(1);
    let (status, _, _home) = shell.left();
    assert_eq!(status, Some(0));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut out, &mut text).unwrap();
    let printed: Value = serde_json::from_str(&text).unwrap();
    assert!(printed["first_frame_secs"].as_f64().unwrap() > 0.0);
    assert!(!lives(window));
}

#[test]
fn without_a_screen_there_is_advice() {
    for arguments in [&["--plain"][..], &[]] {
        let ran = Command::new(built("tunesmith-shell"))
            .args(arguments)
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("WAYLAND_SOCKET")
            .stdin(Stdio::null())
            .ran()
            .expect_status(2);
        assert!(ran.stderr.contains("tunesmith quickstart"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"));
    }
}

#[test]
fn a_request_to_end_saves_first_and_takes_all_along() {
    let home = Home::new();
    let window = paints() + &trains(&home, 500);
    let engine = slow_engine(&home, 500);
    let shell = Shell::start(home, &engine, &[window]);
    shell.wait_until_heard(1, "it trains", |notice| matches!(notice, Notice::Step { .. }));
    let (window, engine) = (shell.window(1), pid_in(&shell.home.path("engine.pid")));
    shell.ask_to_end();
    let (status, _, home) = shell.left();
    assert_eq!(status, Some(0));
    wait_until("window and engine are gone", SOON, || {
        !lives(window) && !lives(engine)
    });
    assert_eq!(home.summary()["status"], "cancelled");
    assert!(home.only_run().join("adapter").exists());
}

#[test]
fn a_window_that_heeds_nothing_does_not_keep_the_app() {
    let home = Home::new();
    let window = "{\"ignore_end_of_input\": {}}\n".to_owned() + &paints() + &quits();
    let shell = Shell::start(home, "", &[window]);
    let window = shell.window(1);
    let (status, _, _home) = shell.left();
    assert_eq!(status, Some(0));
    wait_until("the window is gone", SOON, || !lives(window));
}

#[test]
fn words_that_are_none_harm_nothing() {
    let home = Home::new();
    let window = "{\"raw\": \"a library says hello\"}\n".to_owned()
        + &paints()
        + &says(&Wish::Stop {
            task: 9,
            how: StopHow::Now,
        })
        + &waits_for(&json!({ "type": "refused", "error": { "code": "no_such_task" } }))
        + &says(&Wish::ShowReport {
            file: "/nonexistent/report.txt".into(),
        })
        + &quits();
    let shell = Shell::start(home, "", &[window]);
    let (status, errors, _home) = shell.left();
    assert_eq!(status, Some(0), "{errors}");
}

#[test]
fn paths_with_everything_in_them_work() {
    let outer = tempfile::Builder::new()
        .prefix("a \"b\"\n'c' Größe 名")
        .tempdir()
        .unwrap();
    let home = Home::within(outer.path());
    let window =
        paints() + &trains(&home, 3) + &waits_for(&json!({ "type": "ended" })) + &quits() + &exits(0);
    // The script's own paths are JSON in JSON: the engine's process needs no name here.
    let engine = format!(
        "{CALIBRATES}{{\"steps\": {{\"from\": 1, \"to\": 3}}}}\n{{\"save_adapter\": {{}}}}\n{{\"result\": {{}}}}\n{{\"bye\": \"ok\"}}\n"
    );
    let shell = Shell::start(home, &engine, &[window]);
    shell.wait_until_heard(1, "the training ends", |notice| {
        matches!(notice, Notice::Ended { .. })
    });
    assert_eq!(
        status_of(&shell.heard(1)),
        Some(RunStatus::Ok),
        "{:?}",
        shell.heard(1)
    );
    let (status, _, home) = shell.left();
    assert_eq!(status, Some(0));
    assert!(home.only_run().join("report.html").exists());
}

/// What is killed: shell, window, engine, in every combination.
const VICTIMS: [[bool; 3]; 7] = [
    [true, false, false],
    [false, true, false],
    [false, false, true],
    [true, true, false],
    [true, false, true],
    [false, true, true],
    [true, true, true],
];

/// What goes on when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
enum Moment {
    Idle,
    SetUp,
    Calibration,
    Training,
    /// The real engine, and a checkpoint that is being written.
    Checkpoint,
}

const MOMENTS: [Moment; 5] = [
    Moment::Idle,
    Moment::SetUp,
    Moment::Calibration,
    Moment::Training,
    Moment::Checkpoint,
];

/// What is printed by `cargo xtask soak --json`.
#[derive(Debug, Default, Serialize)]
struct Record {
    shell_kills: usize,
    seed: u64,
    kills_when_idle: usize,
    kills_in_set_up: usize,
    kills_in_calibration: usize,
    kills_in_training: usize,
    kills_during_checkpoint: usize,
    /// Processes that lived on for more than two seconds after their parent.
    orphans: usize,
    /// Longest that one did, in seconds.
    slowest_end_secs: f64,
    /// Steps that a window was told of and that no run's folder has.
    steps_lost: usize,
    /// Runs with a checkpoint that did not go on.
    not_resumed: usize,
}

/// A number from the environment, which `cargo xtask soak` sets.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn whatever_is_killed_leaves_no_orphan_no_lost_step_and_no_half_written_file() {
    let kills = usize::try_from(setting("TUNESMITH_SHELL_KILLS", 20)).unwrap();
    let seed = setting("TUNESMITH_SOAK_SEED", 3407);
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut record = Record {
        shell_kills: kills,
        seed,
        ..Record::default()
    };
    for number in 0..kills {
        // Each combination comes with each moment, in an order that the two numbers, which share no factor, give.
        let victims = VICTIMS[number % VICTIMS.len()];
        let moment = MOMENTS[number % MOMENTS.len()];
        let delay = Duration::from_micros(dice.next_u64() % 60_000);
        kill_once(victims, moment, delay, &mut record);
    }
    if let Ok(file) = std::env::var("TUNESMITH_SHELL_SOAK_RECORD") {
        let text = serde_json::to_string_pretty(&json!({ "shell": record })).unwrap();
        fs::write(file, text).unwrap();
    }
    assert_eq!(
        (record.orphans, record.steps_lost, record.not_resumed),
        (0, 0, 0),
        "{record:?}"
    );
}

/// Brings a shell to a moment, kills, and looks at what is left.
fn kill_once(victims: [bool; 3], moment: Moment, delay: Duration, record: &mut Record) {
    let [kills_shell, kills_window, kills_engine] = victims;
    let (mut shell, counted) = brought_to(moment);
    *match moment {
        Moment::Idle => &mut record.kills_when_idle,
        Moment::SetUp => &mut record.kills_in_set_up,
        Moment::Calibration => &mut record.kills_in_calibration,
        Moment::Training => &mut record.kills_in_training,
        Moment::Checkpoint => &mut record.kills_during_checkpoint,
    } += 1;
    thread::sleep(delay);
    if moment == Moment::Checkpoint {
        wait_until("a checkpoint is being written", LIMIT, || {
            shell.process.try_wait().unwrap().is_some() || !half_written(&shell.home.path("home")).is_empty()
        });
    }
    let window = shell.window(1);
    let worker = counted.map(|file| pid_in(&file));
    let told = steps(&shell.heard(1));

    // The last of the chain first: it must not see its parent go and leave by itself.
    if let Some(worker) = worker.filter(|_| kills_engine) {
        kill(worker);
    }
    if kills_window {
        kill(window);
    }
    if kills_shell {
        shell.kill();
    }
    let killed = Instant::now();
    if kills_shell {
        let mut left: Vec<u32> = [Some(window), worker].into_iter().flatten().collect();
        wait_until("nothing is left of it", LIMIT, || {
            left.retain(|pid| lives(*pid));
            left.is_empty()
        });
        let lived_on = killed.elapsed();
        record.orphans += usize::from(lived_on > SOON);
        record.slowest_end_secs = record.slowest_end_secs.max(lived_on.as_secs_f64());
    } else {
        assert!(
            shell.process.try_wait().unwrap().is_none(),
            "{moment:?}: the shell went along"
        );
        if kills_window {
            // It comes back, and is told of what goes on.
            shell.wait_until_heard(2, "a second window is welcomed", |notice| {
                matches!(notice, Notice::Welcome { .. })
            });
        }
        let watched = if kills_window { 2 } else { 1 };
        if kills_engine && moment != Moment::Idle {
            shell.wait_until_heard(watched, "the task is told to be over", |notice| {
                let bare = match notice {
                    Notice::Earlier { notice, .. } => notice,
                    notice => notice,
                };
                matches!(bare, Notice::Ended { status, .. } if *status != RunStatus::Ok)
            });
        } else if let Some(worker) = worker {
            assert!(lives(worker), "{moment:?}: the engine went along with its window");
        }
        shell.kill();
        wait_until("nothing is left of it", SOON, || {
            worker.is_none_or(|worker| !lives(worker))
        });
    }
    record.steps_lost += lost(&shell.home, &told);
    record.not_resumed += usize::from(!goes_on(&shell.home, moment));
}

/// A shell at a moment, and the file with the process id of what works for it.
fn brought_to(moment: Moment) -> (Shell, Option<PathBuf>) {
    let home = Home::new();
    let pid = home.path("engine.pid");
    let calibration = says(&Wish::Start {
        task: 1,
        work: TaskWork::Calibrate {
            device: Some("cpu".to_owned()),
            again: true,
            full: false,
        },
    });
    match moment {
        Moment::Idle => {
            let shell = Shell::start(home, "", &[paints()]);
            shell.wait_until_heard(1, "it is welcomed", |_| true);
            (shell, None)
        }
        Moment::Calibration => {
            let engine = format!(
                "{{\"write_pid\": \"{}\"}}\n{{\"hello\": 1}}\n{{\"wait_job\": {{}}}}\n\
                 {{\"progress\": {{\"stage\": \"gemm\", \"total\": 9000, \"unit\": \"seconds\", \"delay_ms\": 10}}}}\n",
                pid.display()
            );
            let shell = Shell::start(home, &engine, &[paints() + &calibration, paints()]);
            shell.wait_until_heard(1, "it measures", |notice| {
                matches!(notice, Notice::Progress { .. })
            });
            (shell, Some(pid))
        }
        Moment::Training => {
            let window = paints() + &trains(&home, 5000);
            let engine = slow_engine(&home, 5000);
            let shell = Shell::start(home, &engine, &[window, paints()]);
            shell.wait_until_heard(1, "it trains", |notice| matches!(notice, Notice::Step { .. }));
            (shell, Some(pid))
        }
        Moment::SetUp => {
            let start = says(&Wish::Start {
                task: 1,
                work: TaskWork::Setup {
                    engine: "native".to_owned(),
                    card: Some("cpu".to_owned()),
                },
            });
            let (tools, cache) = (home.path("tools"), home.path("cache"));
            let shell = Shell::start_with(home, &[paints() + &start, paints()], |command| {
                with_fake_installer(command, &tools, &cache, "hang");
            });
            let installer = shell.home.path("tools/pid");
            pid_in(&installer);
            (shell, Some(installer))
        }
        Moment::Checkpoint => {
            home.write_recipe("checkpoint_every = 3\ntime_box_minutes = 600");
            let window = paints() + &trains(&home, 20_000);
            let shell = Shell::start_with(home, &[window, paints()], |command| {
                command
                    .env_remove("TUNESMITH_TORCH")
                    .env("TUNESMITH_ENGINE", built("tunesmith-engine"));
            });
            shell.wait_until_heard(
                1,
                "it has a checkpoint",
                |notice| matches!(notice, Notice::Step { step, .. } if step.step > 3),
            );
            // The engine is the shell's other child.
            let window = shell.window(1);
            let engine = children(shell.process.id())
                .into_iter()
                .find(|child| *child != window)
                .unwrap();
            fs::write(&pid, engine.to_string()).unwrap();
            (shell, Some(pid))
        }
    }
}

/// Files and folders of a home that are not finished.
fn half_written(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.to_string_lossy().ends_with(".partial") {
            found.push(path);
        } else if path.is_dir() {
            found.extend(half_written(&path));
        }
    }
    found
}

/// How many of the steps that a window was told of no run has on the disk. Every line of every run's record is whole, but
/// for the last one, which the kill may have cut; so is every file that has its name.
fn lost(home: &Home, told: &[u64]) -> usize {
    let mut recorded = BTreeSet::new();
    for run in fs::read_dir(home.runs()).into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(run.path().join(name)).ok();
        for name in ["manifest.json", "summary.json"] {
            if let Some(text) = read(name) {
                serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
        let events = read("events.jsonl").unwrap_or_default();
        let whole = events.rfind('\n').map_or("", |end| &events[..end]);
        for line in whole.lines() {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        }
        if let Ok(run) = Run::open(&run.path()) {
            recorded.extend(run.steps().unwrap_or_default().iter().map(|step| step.step));
        }
    }
    told.iter().filter(|step| !recorded.contains(step)).count()
}

/// Whether a run with a checkpoint goes on, where there is one.
fn goes_on(home: &Home, moment: Moment) -> bool {
    if moment != Moment::Checkpoint {
        return true;
    }
    let run = Run::open(&home.only_run()).unwrap();
    assert!(
        !matches!(run.state, RunState::Running),
        "nobody leads it any more"
    );
    // It has thousands of steps left: that it takes up the next one is enough.
    let mut command = home.tunesmith_for_real();
    let mut resumed = command.args(["runs", "resume", "last"]).started();
    let before = run.steps().unwrap().last().map_or(0, |step| step.step);
    let start = Instant::now();
    let went_on = loop {
        let steps = Run::open(&home.only_run()).unwrap().steps().unwrap();
        if steps.last().is_some_and(|step| step.step > before) {
            break true;
        }
        if start.elapsed() > LIMIT || resumed.try_wait().unwrap().is_some() {
            break false;
        }
        thread::sleep(Duration::from_millis(20));
    };
    resumed.kill().unwrap();
    resumed.wait().unwrap();
    went_on
}
