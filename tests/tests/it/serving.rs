//! `tunesmith serve --stdio` as a window meets it, with an engine that replays a script.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tunesmith_lab::run::Run;
use tunesmith_protocol::{
    Command as Wish, EngineError, Notice, Progress, PromptText, RunStatus, SERVICE_VERSION, Side, StopHow,
    TaskWork, Trainer, decode_notice, encode,
};

use crate::context::{CALIBRATES, GOOD, Home, OPENING, RunIt, fake_engine, lives, pid_in, wait_until};
use crate::resuming::{going_on, interrupted};

/// Longest time for anything that a test waits for.
const LIMIT: Duration = Duration::from_mins(1);

/// No process of ours may outlive its parent by more.
const SOON: Duration = Duration::from_secs(2);

/// A window that writes what a test says and reads all that it is told.
pub(crate) struct Window {
    service: Child,
    input: Option<ChildStdin>,
    notices: Receiver<Notice>,
}

impl Window {
    fn open(home: &Home, script: &str) -> Self {
        Self::on(&mut home.tunesmith(script))
    }

    pub(crate) fn on(command: &mut Command) -> Self {
        let (service, input) = start(command);
        let mut window = Self::reading(service, input);
        let Notice::Welcome { service, pid, .. } = window.next() else {
            panic!("no welcome");
        };
        assert_eq!((service, pid), (SERVICE_VERSION, window.service.id()));
        window
    }

    fn reading(mut service: Child, input: ChildStdin) -> Self {
        let output = BufReader::new(service.stdout.take().unwrap());
        let (sender, notices) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // A test that has seen enough is over.
                let _ = sender.send(decode_notice(&line).unwrap_or_else(|error| panic!("{error}: {line}")));
            }
        });
        Self {
            service,
            input: Some(input),
            notices,
        }
    }

    fn say(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.flush().unwrap();
    }

    fn start(&mut self, task: u64, work: TaskWork) {
        self.say(encode(&Wish::Start { task, work }).as_bytes());
    }

    fn stop(&mut self, task: u64, how: StopHow) {
        self.say(encode(&Wish::Stop { task, how }).as_bytes());
    }

    #[track_caller]
    fn next(&mut self) -> Notice {
        self.notices
            .recv_timeout(LIMIT)
            .expect("the service says something in time")
    }

    /// The notices up to one of which the test says that it is the last.
    #[track_caller]
    fn until(&mut self, last: impl Fn(&Notice) -> bool) -> Vec<Notice> {
        let mut notices = Vec::new();
        loop {
            let notice = self.next();
            let is_last = last(&notice);
            notices.push(notice);
            if is_last {
                return notices;
            }
        }
    }

    /// The rest of a task.
    #[track_caller]
    fn end(&mut self) -> Told {
        Told(self.until(|notice| matches!(notice, Notice::Ended { .. })))
    }

    #[track_caller]
    pub(crate) fn led(&mut self, task: u64, work: TaskWork) -> Told {
        self.start(task, work);
        self.end()
    }

    #[track_caller]
    fn refusal(&mut self) -> (Option<u64>, EngineError) {
        match self
            .until(|notice| matches!(notice, Notice::Refused { .. }))
            .pop()
        {
            Some(Notice::Refused { task, error }) => (task, error),
            other => panic!("{other:?}"),
        }
    }

    /// The window closes; the service has to be gone soon.
    #[track_caller]
    fn close(&mut self) {
        self.input = None;
        wait_until("the service is gone", SOON, || {
            self.service.try_wait().unwrap().is_some()
        });
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

fn start(command: &mut Command) -> (Child, ChildStdin) {
    let mut service = command
        .args(["serve", "--stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let input = service.stdin.take().unwrap();
    (service, input)
}

/// What was told of a task to its end.
pub(crate) struct Told(pub(crate) Vec<Notice>);

impl Told {
    #[track_caller]
    pub(crate) fn status(&self) -> RunStatus {
        match self.0.last() {
            Some(Notice::Ended { status, .. }) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn run(&self) -> Option<&str> {
        match self.0.last() {
            Some(Notice::Ended { run, .. }) => run.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn result(&self) -> &Value {
        match self.0.last() {
            Some(Notice::Ended { result, .. }) => result,
            _ => &Value::Null,
        }
    }

    #[track_caller]
    pub(crate) fn failure(&self) -> &EngineError {
        match self.0.last() {
            Some(Notice::Ended {
                failure: Some(failure),
                ..
            }) => failure,
            other => panic!("{other:?}"),
        }
    }

    fn last_lines(&self) -> Vec<String> {
        match self.0.last() {
            Some(Notice::Ended { last_lines, .. }) => last_lines.clone(),
            _ => Vec::new(),
        }
    }

    fn stages(&self) -> Vec<&str> {
        self.0
            .iter()
            .filter_map(|notice| match notice {
                Notice::Stage { stage, .. } => Some(stage.as_str()),
                _ => None,
            })
            .collect()
    }

    fn steps(&self) -> Vec<(u64, f64)> {
        let step = |notice: &Notice| match notice {
            Notice::Step { step, .. } => Some((step.step, step.elapsed_secs)),
            _ => None,
        };
        self.0.iter().filter_map(step).collect()
    }

    /// The pieces of a side's answer.
    pub(crate) fn pieces(&self, of: Side) -> Vec<&str> {
        self.0
            .iter()
            .filter_map(|notice| match notice {
                Notice::Piece { side, text, .. } if *side == of => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn progress(&self) -> Vec<&Progress> {
        self.0
            .iter()
            .filter_map(|notice| match notice {
                Notice::Progress { progress, .. } => Some(progress),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn log(&self) -> String {
        let text = |notice: &Notice| match notice {
            Notice::Log { text, .. } => Some(format!("{text}\n")),
            _ => None,
        };
        self.0.iter().filter_map(text).collect()
    }
}

/// The recipe of a home as a window sends it.
fn recipe(home: &Home, steps: u64) -> String {
    let absolute = |name: &str| format!("\"{}\"", home.path(name).display());
    fs::read_to_string(home.recipe())
        .unwrap()
        .replace("\"model\"", &absolute("model"))
        .replace("\"rows.jsonl\"", &absolute("rows.jsonl"))
        .replace("steps = 3\n", &format!("steps = {steps}\n"))
}

fn training(home: &Home, steps: u64) -> TaskWork {
    trained_by(home, steps, Trainer::Native, None)
}

fn trained_by(home: &Home, steps: u64, trainer: Trainer, threads: Option<usize>) -> TaskWork {
    TaskWork::Train {
        recipe: recipe(home, steps),
        device: Some("cpu".to_owned()),
        evaluate: true,
        trainer,
        threads,
    }
}

fn calibration(again: bool) -> TaskWork {
    TaskWork::Calibrate {
        device: Some("cpu".to_owned()),
        again,
        full: false,
    }
}

fn is_step(notice: &Notice) -> bool {
    matches!(notice, Notice::Step { .. })
}

#[test]
fn a_training_is_told_from_start_to_end_with_its_report() {
    let home = Home::new();
    let mut window = Window::open(&home, GOOD);
    let told = window.led(1, training(&home, 3));
    assert_eq!(told.status(), RunStatus::Ok, "{:?}", told.0);
    assert_eq!(told.0[0], Notice::Started { task: 1 });
    assert_eq!(told.stages(), ["start", "calibrate", "prepare", "start", "train"]);
    let run_dir = home.only_run();
    let id = run_dir.file_name().unwrap().to_str().unwrap().to_owned();
    let named = Notice::Run {
        task: 1,
        run: id.clone(),
        folder: run_dir.clone(),
    };
    assert!(told.0.contains(&named));
    assert_eq!(told.steps(), [(1, 1.5), (2, 2.0), (3, 2.5)]);
    assert!(
        told.0
            .iter()
            .all(|notice| !matches!(notice, Notice::Step { total, .. } if *total != 3))
    );
    assert_eq!(told.run(), Some(id.as_str()));
    let report = PathBuf::from(told.result()["report"].as_str().unwrap());
    assert_eq!(report, run_dir.join("report.html"));
    assert!(report.exists());

    // A second task needs no second window, and what is asked of it may be wrong.
    fs::remove_file(&report).unwrap();
    let told = window.led(2, TaskWork::Report { run: id.clone() });
    assert_eq!((told.status(), told.run()), (RunStatus::Ok, Some(id.as_str())));
    assert!(report.exists());
    let told = window.led(
        3,
        TaskWork::Report {
            run: "nothing".to_owned(),
        },
    );
    assert_eq!(told.status(), RunStatus::Crashed);
    assert_eq!(told.failure().code, "unknown_run");
    assert!(!told.failure().hints.is_empty());
    window.close();
}

#[test]
fn the_second_trainer_trains_where_it_is_here_and_is_named_where_it_is_not() {
    let home = Home::new();
    let service = |python: &str| Window::on(home.tunesmith(GOOD).env("TUNESMITH_HF_PYTHON", python));
    let mut window = service("");
    let told = window.led(1, trained_by(&home, 3, Trainer::Hf, None));
    assert_eq!(told.failure().code, "python_not_named");
    assert!(told.failure().hints[0].contains("tunesmith setup --engine hf --apply"));
    assert!(!home.runs().exists(), "nothing was begun");
    window.close();

    let mut window = service(fake_engine());
    let told = window.led(1, trained_by(&home, 3, Trainer::Hf, Some(1)));
    assert_eq!(told.status(), RunStatus::Ok, "{:?}", told.0);
    let run = Run::open(&home.only_run()).unwrap();
    assert_eq!(run.manifest.unwrap().threads, Some(1));
    // The worker's script is what was started.
    assert!(home.path("home").join("cache/workers/hf.py").exists());
    window.close();
}

#[test]
fn a_training_stops_as_the_window_wishes() {
    let script = format!("{CALIBRATES}{{\"steps\": {{\"from\": 1, \"to\": 500, \"delay_ms\": 20}}}}\n");
    for (how, saves) in [
        (StopHow::AfterStep, false),
        (StopHow::Save, true),
        (StopHow::Now, false),
    ] {
        let home = Home::new();
        let mut window = Window::open(&home, &script);
        window.start(4, training(&home, 500));
        window.until(is_step);
        window.stop(4, how);
        let told = window.end();
        assert_eq!(told.status(), RunStatus::Cancelled, "{how:?}: {:?}", told.0);
        assert!(matches!(told.0.last(), Some(Notice::Ended { failure: None, .. })));
        assert_eq!(home.only_run().join("adapter").exists(), saves, "{how:?}");
        assert_eq!(home.summary()["status"], "cancelled");
        // A wish that comes late harms nothing; one for a task that never was is refused.
        window.stop(4, how);
        window.stop(5, how);
        let (task, error) = window.refusal();
        assert_eq!((task, error.code.as_str()), (Some(5), "no_such_task"));
    }
}

#[test]
fn a_second_task_is_refused_by_the_name_of_the_first() {
    let home = Home::new();
    let mut window = Window::open(&home, &format!("{OPENING}{{\"wait_stop\": {{}}}}\n"));
    window.start(1, calibration(false));
    window.until(|notice| matches!(notice, Notice::Stage { stage, .. } if stage == "calibrate"));
    window.start(2, calibration(false));
    let (task, error) = window.refusal();
    assert_eq!((task, error.code.as_str()), (Some(2), "busy"));
    assert_eq!(error.message, "task 1 (calibration) is still running");
    assert!(!error.hints.is_empty());
    window.stop(1, StopHow::Now);
    assert_eq!(window.end().status(), RunStatus::Cancelled);
}

#[test]
fn a_line_that_is_no_command_is_refused_and_the_next_one_is_obeyed() {
    let home = Home::new();
    let mut window = Window::open(&home, GOOD);
    let long = vec![b'x'; 17 << 20];
    let unknown = br#"{"type":"start","task":5,"work":"novelty"}"#;
    let lines: [(&[u8], Option<u64>); 6] = [
        (b"tell me a joke", None),
        (b"\xff\xfe\x00", None),
        (b"{\"type\":\"start\"}", None),
        (unknown, Some(5)),
        (b"[]", None),
        (&long, None),
    ];
    for (line, expected) in lines {
        window.say(&[line, b"\n"].concat());
        let (task, error) = window.refusal();
        assert_eq!((task, error.code.as_str()), (expected, "not_a_command"));
    }
    // Fields of a later version are passed over.
    window.say(b"\n{\"type\":\"start\",\"task\":6,\"work\":\"report\",\"run\":\"none\",\"new\":1}\n");
    // The rest of the long line is refused too.
    assert_eq!(window.end().failure().code, "unknown_run");
}

#[test]
fn an_engine_that_dies_is_told_with_its_signal_and_its_last_lines() {
    let home = Home::new();
    let script = format!(
        "{CALIBRATES}{{\"steps\": {{\"from\": 1, \"to\": 2}}}}\n{{\"stderr\": \"about to die\"}}\n{{\"kill_self\": 11}}\n"
    );
    let told = Window::open(&home, &script).led(1, training(&home, 3));
    assert_eq!(told.status(), RunStatus::Crashed);
    assert_eq!(
        told.failure().message,
        "the engine was killed by SIGSEGV after step 2"
    );
    assert_eq!(told.failure().code, "engine_crashed");
    assert_eq!(told.last_lines(), ["about to die"]);
    assert!(told.run().is_some());
    // Two steps are worth a report.
    assert!(told.result()["report"].is_string());
}

#[test]
fn what_an_engine_says_of_itself_reaches_the_window() {
    let error = |code: &str| {
        format!(
            "{CALIBRATES}{{\"garbage\": {{\"lines\": 5, \"longest\": 100000}}}}\n{{\"progress\": {{\"stage\": \"load\", \"total\": 3, \"unit\": \"tensors\"}}}}\n{{\"steps\": {{\"from\": 1, \"to\": 1}}}}\n\
             {{\"emit\": {{\"type\": \"error\", \"code\": \"{code}\", \"message\": \"no room\", \"hints\": [\"make some\"]}}}}\n{{\"exit\": 1}}\n"
        )
    };
    for (code, status) in [
        ("out_of_memory", RunStatus::Oom),
        ("disk_full", RunStatus::Crashed),
    ] {
        let home = Home::new();
        let told = Window::open(&home, &error(code)).led(1, training(&home, 3));
        assert_eq!(told.status(), status);
        let expected = EngineError {
            code: code.to_owned(),
            message: "no room".to_owned(),
            hints: vec!["make some".to_owned()],
        };
        assert_eq!(*told.failure(), expected);
        let loaded =
            |notice: &Notice| matches!(notice, Notice::Progress { progress, .. } if progress.done == 3);
        assert!(told.0.iter().any(loaded));
    }
    let home = Home::new();
    let script = format!("{CALIBRATES}{{\"steps\": {{\"from\": 1, \"to\": 3, \"bad\": true}}}}\n");
    let told = Window::open(&home, &script).led(1, training(&home, 3));
    assert_eq!(told.status(), RunStatus::Nan);
    let red = |notice: &Notice| matches!(notice, Notice::Finding { finding, .. } if finding.severity == "red" && !finding.remedies.is_empty());
    assert!(told.0.iter().any(red), "{:?}", told.0);
}

#[test]
fn an_engine_of_another_version_is_refused() {
    let home = Home::new();
    let told = Window::open(&home, "{\"hello\": 99}\n{\"wait_forever\": {}}\n").led(1, calibration(false));
    assert_eq!(told.status(), RunStatus::Crashed);
    assert_eq!(told.failure().code, "protocol_version");
}

/// A script whose engine says its process id before its hello.
fn names_itself(home: &Home, first: &str, rest: &str) -> (PathBuf, String) {
    let file = home.path("engine-pid");
    let script = format!("{first}{{\"write_pid\": \"{}\"}}\n{rest}", file.display());
    (file, script)
}

#[test]
fn nothing_outlives_a_window_that_closes() {
    // An engine that heeds nothing at all, one that is still starting, and one that obeys.
    let deaf = "{\"ignore_termination\": {}}\n{\"ignore_end_of_input\": {}}\n";
    for (first, rest, stage) in [
        (
            deaf,
            format!("{OPENING}{{\"wait_forever\": {{}}}}\n"),
            "calibrate",
        ),
        (deaf, "{\"wait_forever\": {}}\n".to_owned(), "start"),
        ("", format!("{OPENING}{{\"wait_forever\": {{}}}}\n"), "calibrate"),
    ] {
        let home = Home::new();
        let (file, script) = names_itself(&home, first, &rest);
        let mut window = Window::open(&home, &script);
        window.start(1, calibration(false));
        window.until(|notice| matches!(notice, Notice::Stage { stage: begun, .. } if begun == stage));
        let engine = pid_in(&file);
        assert!(lives(engine));
        let closed = Instant::now();
        window.close();
        wait_until(
            "the engine is gone",
            SOON.saturating_sub(closed.elapsed()),
            || !lives(engine),
        );
        // Who still reads is told how it ended.
        assert_eq!(window.end().status(), RunStatus::Cancelled);
    }
}

#[test]
fn a_training_whose_window_closes_is_recorded_as_cancelled() {
    let home = Home::new();
    let script = format!("{CALIBRATES}{{\"steps\": {{\"from\": 1, \"to\": 500, \"delay_ms\": 20}}}}\n");
    let mut window = Window::open(&home, &script);
    window.start(1, training(&home, 500));
    window.until(is_step);
    window.close();
    assert_eq!(home.summary()["status"], "cancelled");
}

#[test]
fn no_engine_outlives_a_service_that_is_killed() {
    let home = Home::new();
    let (file, script) = names_itself(&home, "", &format!("{OPENING}{{\"wait_forever\": {{}}}}\n"));
    let mut window = Window::open(&home, &script);
    window.start(1, calibration(false));
    let engine = pid_in(&file);
    window.service.kill().unwrap();
    wait_until("the engine is gone", SOON, || !lives(engine));
}

#[test]
fn a_window_that_does_not_read_stalls_no_engine_and_is_told_the_result_later() {
    const STEPS: u64 = 20_000;
    let home = Home::new();
    let script = format!(
        "{CALIBRATES}{{\"steps\": {{\"from\": 1, \"to\": {STEPS}}}}}\n{{\"save_adapter\": {{}}}}\n{{\"result\": {{}}}}\n{{\"bye\": \"ok\"}}\n"
    );
    let (service, mut input) = start(&mut home.tunesmith(&script));
    let wish = Wish::Start {
        task: 1,
        work: training(&home, STEPS),
    };
    input.write_all(encode(&wish).as_bytes()).unwrap();
    wait_until("the run is over", LIMIT, || {
        fs::read_dir(home.runs())
            .is_ok_and(|runs| runs.flatten().any(|run| run.path().join("report.html").exists()))
    });
    let mut window = Window::reading(service, input);
    let told = window.end();
    assert_eq!(told.status(), RunStatus::Ok);
    assert!(told.run().is_some());
    let steps = told.steps();
    assert!((steps.len() as u64) < STEPS, "nothing was left out");
    assert!(steps.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(steps.last().unwrap().0, STEPS);
    // The folder has what the window missed.
    assert_eq!(
        Run::open(&home.only_run()).unwrap().steps().unwrap().len() as u64,
        STEPS
    );
}

#[test]
fn answers_come_piece_by_piece_and_whole() {
    let home = Home::new();
    home.tunesmith(GOOD)
        .args(["train", &home.recipe()])
        .ran()
        .expect_status(0);
    let script = format!(
        "{OPENING}{{\"stream_all\": {{\"text\": \"Grüße aus Köln\", \"delay_ms\": 5}}}}\n{{\"result\": {{}}}}\n{{\"bye\": \"ok\"}}\n"
    );
    let mut window = Window::open(&home, &script);
    let told = window.led(
        1,
        TaskWork::Answer {
            run: "last".to_owned(),
            prompt: PromptText::Text("Where from?".to_owned()),
            sides: vec![Side::Base, Side::Tuned],
            max_new_tokens: 9,
            sampling: None,
        },
    );
    assert_eq!(told.status(), RunStatus::Ok, "{:?}", told.0);
    let mut order = Vec::new();
    for side in [Side::Base, Side::Tuned] {
        assert_eq!(told.pieces(side).concat(), "Grüße aus Köln");
        let place = told.0.iter().position(|notice| {
            matches!(notice, Notice::Answered { side: of, answer, .. } if *of == side && answer.text == "Grüße aus Köln")
        });
        order.push(place.unwrap());
    }
    assert!(order.is_sorted());
    // The journal has the answers; the pieces would say the same once more.
    let folder = home.only_run().join("generate");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(!read("events.jsonl").contains("\"piece\"") && read("events.jsonl").contains("\"answer\""));
    assert!(read("engine.log").contains("\"piece\""));
    // An engine that writes no pieces answers all the same.
    let told = Window::open(&home, GOOD).led(
        1,
        TaskWork::Answer {
            run: "last".to_owned(),
            prompt: PromptText::Question(7),
            sides: vec![Side::Tuned],
            max_new_tokens: 9,
            sampling: None,
        },
    );
    assert_eq!(told.status(), RunStatus::Ok);
    assert!(told.result()["question"]["sql"].is_string(), "{}", told.result());
    assert!(
        told.0
            .iter()
            .any(|notice| matches!(notice, Notice::Answered { answer, .. } if answer.text == "SELECT 1"))
    );
}

#[test]
fn a_calibration_is_measured_once_and_again_when_asked() {
    let home = Home::new();
    let mut window = Window::open(&home, GOOD);
    let reused: Vec<Value> = [false, false, true]
        .into_iter()
        .zip(1..)
        .map(|(again, task)| {
            let told = window.led(task, calibration(again));
            assert_eq!(told.status(), RunStatus::Ok, "{:?}", told.0);
            let result = told.result();
            assert_eq!(result["result"]["gemm"][0]["layout"], "nn");
            assert!(Path::new(result["file"].as_str().unwrap()).exists());
            result["reused"].clone()
        })
        .collect();
    assert_eq!(reused, [false, true, false]);
}

#[test]
fn a_run_goes_on_with_its_clock() {
    let home = interrupted();
    let mut window = Window::open(&home, &going_on(&home, 1));
    let resume = || TaskWork::Resume {
        run: "last".to_owned(),
    };
    let told = window.led(1, resume());
    assert_eq!(told.status(), RunStatus::Ok, "{:?}", told.0);
    let run = Run::open(&home.only_run()).unwrap();
    assert_eq!(told.run(), Some(run.id.as_str()));
    let recorded: Vec<(u64, f64)> = run
        .steps()
        .unwrap()
        .iter()
        .map(|step| (step.step, step.elapsed_secs))
        .collect();
    assert_eq!(told.steps(), recorded[1..]);
    // Step 1 ended after 1.5 s; the engine that goes on counts from zero.
    assert_eq!(told.steps(), [(2, 3.5), (3, 4.0)]);
    let told = window.led(2, resume());
    assert_eq!(told.failure().code, "run_complete");
}

/// Lets set-up find stand-ins for uv and Python, in `tools`, that behave as `mode` says. Environments lie in the user's
/// cache, which must not be that of whoever runs this test.
#[cfg(unix)]
pub(crate) fn with_fake_installer(command: &mut Command, tools: &Path, cache: &Path, mode: &str) {
    use std::os::unix::fs::symlink;

    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/setup/tests");
    fs::create_dir(tools).unwrap();
    symlink(scripts.join("fake-uv.sh"), tools.join("uv")).unwrap();
    for name in ["python3", "python3.12"] {
        symlink(scripts.join("fake-python.sh"), tools.join(name)).unwrap();
    }
    fs::write(tools.join("python-version"), "3 12\n").unwrap();
    fs::write(tools.join("mode"), mode).unwrap();
    let mut path = tools.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    command
        .env_remove("TUNESMITH_TORCH")
        .env("PATH", path)
        .env("XDG_CACHE_HOME", cache);
}

#[cfg(unix)]
mod set_up {
    //! With the stand-ins for uv and Python of set-up's own tests.

    use super::*;

    fn window(home: &Home, mode: &str) -> Window {
        let mut command = home.tunesmith(GOOD);
        with_fake_installer(&mut command, &home.path("tools"), &home.path("cache"), mode);
        Window::on(&mut command)
    }

    fn set_up(engine: &str) -> TaskWork {
        TaskWork::Setup {
            engine: engine.to_owned(),
            card: Some("cpu".to_owned()),
        }
    }

    #[test]
    fn every_command_is_told_and_what_went_wrong() {
        let home = Home::new();
        let mut window = window(&home, "disk-full");
        let told = window.led(1, set_up("native"));
        assert_eq!(told.status(), RunStatus::Crashed, "{:?}", told.0);
        assert_eq!(told.failure().code, "disk_full");
        assert!(told.log().contains("[1/"), "{}", told.log());
        assert!(told.log().contains("over the network"), "{}", told.log());
        assert_eq!(told.stages(), ["fetch"]);
        let told = window.led(2, set_up("novelty"));
        assert_eq!(told.failure().code, "not_possible");
        assert!(told.failure().hints[0].contains("unsloth"));
    }

    #[test]
    fn a_torch_that_fits_needs_no_other() {
        let home = Home::new();
        let told = Window::open(&home, GOOD).led(1, set_up("native"));
        assert_eq!(told.status(), RunStatus::Ok, "{:?}", told.0);
        assert_eq!(told.result(), &Value::Null);
        assert!(
            told.log().contains("nothing has to be installed"),
            "{}",
            told.log()
        );
    }

    #[test]
    fn it_stops_when_it_is_asked_to_and_when_the_window_closes() {
        for closes in [false, true] {
            let home = Home::new();
            let mut window = window(&home, "hang");
            window.start(1, set_up("native"));
            let installer = pid_in(&home.path("tools/pid"));
            assert!(lives(installer));
            if closes {
                window.close();
            } else {
                window.stop(1, StopHow::Save);
                assert_eq!(window.end().status(), RunStatus::Cancelled);
            }
            wait_until("the installer is gone", SOON, || !lives(installer));
        }
    }
}
