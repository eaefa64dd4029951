//! The supervisor and an engine that goes wrong, in every way that is known.

use std::{fs, time::Duration};

use tempfile::TempDir;
use tunesmith_lab::{
    run::{Entry, Journal, read_events},
    stop::StopToken,
    supervisor::{Engine, EngineLocation, JobEnd, Limits, SupervisorError},
};
use tunesmith_protocol::{CalibrateJob, Event, Job, RunStatus, StopHow, Work};

use crate::context::{OPENING, fake_engine, lives, pid_in, wait_until};

struct Bench {
    folder: TempDir,
    stop: StopToken,
    limits: Limits,
    time_box: Option<Duration>,
}

impl Bench {
    fn new() -> Self {
        let short = Duration::from_millis(100);
        Self {
            folder: tempfile::tempdir().unwrap(),
            stop: StopToken::new(),
            limits: Limits {
                hello: Duration::from_secs(20),
                stop: short,
                stop_now: short,
                kill: short,
                drain: short,
            },
            time_box: None,
        }
    }

    fn start(&self, script: &str) -> Result<Engine, SupervisorError> {
        let file = self.folder.path().join("script.jsonl");
        fs::write(&file, script).unwrap();
        let location = EngineLocation::new(fake_engine().into()).with_variable("FAKE_ENGINE_SCRIPT", file);
        Engine::start(&location, self.limits.clone(), &self.stop)
    }

    fn job(&self) -> Job {
        Job {
            run_dir: self.folder.path().to_owned(),
            resume_from: None,
            device: "cpu".to_owned(),
            threads: None,
            work: Work::Calibrate(CalibrateJob {
                budget_secs: 1.0,
                ..CalibrateJob::default()
            }),
        }
    }

    /// Leads a job to its end; a step asks to stop where `stop_at_step` says how.
    fn lead(&self, script: &str, stop_at_step: Option<StopHow>) -> JobEnd {
        let engine = self.start(script).unwrap();
        let mut journal = Journal::open(self.folder.path()).unwrap();
        engine
            .run(
                &self.job(),
                &mut journal,
                &self.stop,
                self.time_box,
                &mut |event| {
                    if let (Event::Step(_), Some(how)) = (event, stop_at_step) {
                        self.stop.ask(how);
                    }
                    None
                },
            )
            .unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("engine.log")).unwrap()
    }
}

fn script(rest: &str) -> String {
    format!("{OPENING}{rest}")
}

#[test]
fn what_is_no_message_is_kept_as_text_and_ends_nothing() {
    let bench = Bench::new();
    let end = bench.lead(
        "{\"raw\": \"MIOpen(HIP): Warning\"}\n{\"hello\": 1}\n{\"wait_job\": {}}\n{\"raw\": \"{broken\"}\n{\"stderr\": \"from stderr\"}\n\
         {\"emit\": {\"type\": \"novelty\", \"x\": 1}}\n{\"steps\": {\"from\": 1, \"to\": 2}}\n{\"bye\": \"ok\"}\n",
        None,
    );
    assert_eq!(end.status, RunStatus::Ok);
    for kept in ["MIOpen(HIP): Warning", "{broken", "from stderr", "novelty"] {
        assert!(bench.log().contains(kept), "{kept} is not in engine.log");
    }
    let events = read_events(bench.folder.path()).unwrap();
    let engine_events = events
        .iter()
        .filter(|entry| matches!(entry, Entry::Engine(_)))
        .count();
    assert_eq!(engine_events, 4, "hello, two steps, bye");
}

#[test]
fn a_crash_is_told_with_the_signal_and_the_last_lines() {
    let bench = Bench::new();
    let mut lines = String::new();
    for n in 1..=60 {
        lines.push_str(&format!("{{\"stderr\": \"line {n}\"}}\n"));
    }
    let end = bench.lead(
        &script(&format!(
            "{{\"steps\": {{\"from\": 1, \"to\": 2}}}}\n{lines}{{\"kill_self\": 9}}\n"
        )),
        None,
    );
    let failure = end.failure.unwrap();
    assert_eq!(end.status, RunStatus::Crashed);
    assert_eq!(failure.message, "the engine was killed by SIGKILL after step 2");
    assert_eq!(failure.last_lines.len(), 50);
    assert_eq!(
        (failure.last_lines[0].as_str(), failure.last_lines[49].as_str()),
        ("line 11", "line 60")
    );
    assert!(failure.hints[0].contains("memory"), "{:?}", failure.hints);
}

#[test]
fn garbage_is_kept_in_the_log_and_does_not_flood_the_record() {
    let bench = Bench::new();
    let end = bench.lead(
        &script("{\"garbage\": {\"lines\": 60, \"longest\": 100000}}\n{\"exit\": 1}\n"),
        None,
    );
    let failure = end.failure.unwrap();
    assert_eq!(failure.last_lines.len(), 50);
    assert!(failure.last_lines.iter().all(|line| line.chars().count() <= 2002));
    assert!(bench.log().len() > 60 * 50_000);
}

#[test]
fn what_a_fast_engine_said_before_it_left_is_read_by_a_slow_parent() {
    let bench = Bench::new();
    let engine = bench
        .start(&script(
            "{\"steps\": {\"from\": 1, \"to\": 400}}\n{\"bye\": \"ok\"}\n",
        ))
        .unwrap();
    let mut journal = Journal::open(bench.folder.path()).unwrap();
    let mut steps = 0;
    let end = engine
        .run(&bench.job(), &mut journal, &bench.stop, None, &mut |event| {
            if let Event::Step(_) = event {
                steps += 1;
                // The engine is long gone, and so is the time that its pipes have to end.
                std::thread::sleep(Duration::from_millis(2));
            }
            None
        })
        .unwrap();
    assert_eq!((end.status, steps), (RunStatus::Ok, 400));
}

#[test]
fn an_exit_without_bye_is_a_crash() {
    let bench = Bench::new();
    let end = bench.lead(&script("{\"stderr\": \"about to leave\"}\n{\"exit\": 0}\n"), None);
    let failure = end.failure.unwrap();
    assert_eq!(end.status, RunStatus::Crashed);
    assert_eq!(
        failure.message,
        "the engine left without saying how the job ended"
    );
    assert_eq!(failure.last_lines, ["about to leave"]);
    let end = bench.lead(&script("{\"exit\": 7}\n"), None);
    assert_eq!(end.failure.unwrap().message, "the engine left with exit status 7");
}

#[test]
fn out_of_memory_is_a_status_of_its_own_with_the_engines_words() {
    let error = r#"{"emit": {"type": "error", "code": "out_of_memory", "message": "out of memory: 3 GiB", "hints": ["halve it"]}}"#;
    for ending in ["{\"bye\": \"oom\"}\n", "{\"exit\": 1}\n"] {
        let end = Bench::new().lead(&script(&format!("{error}\n{ending}")), None);
        let failure = end.failure.unwrap();
        assert_eq!(end.status, RunStatus::Oom, "{ending}");
        assert_eq!(
            (failure.message.as_str(), failure.hints),
            ("out of memory: 3 GiB", vec!["halve it".to_owned()])
        );
    }
}

#[test]
fn an_engine_of_another_version_is_refused() {
    let error = Bench::new()
        .start("{\"hello\": 99}\n{\"wait_job\": {}}\n")
        .err()
        .unwrap();
    assert_eq!(error.code(), "protocol_version");
    assert_eq!(
        error.to_string(),
        "the engine speaks protocol version 99, this program speaks version 1"
    );
}

#[test]
fn an_engine_that_dies_before_its_hello_shows_why() {
    let error = Bench::new()
        .start("{\"stderr\": \"error while loading shared libraries: libtorch_cpu.so\"}\n{\"exit\": 127}\n")
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "the engine left with exit status 127 before its hello"
    );
    assert_eq!(
        error.last_lines(),
        ["error while loading shared libraries: libtorch_cpu.so"]
    );
    assert!(!error.hints().is_empty());
}

#[test]
fn an_engine_that_never_says_hello_is_given_up() {
    let mut bench = Bench::new();
    bench.limits.hello = Duration::from_millis(200);
    let error = bench.start("{\"wait_forever\": {}}\n").err().unwrap();
    assert_eq!(error.to_string(), "the engine did not say hello in time");
}

#[test]
fn a_stop_is_passed_on_and_what_the_engine_makes_of_it_counts() {
    let bench = Bench {
        limits: Limits::default(),
        ..Bench::new()
    };
    let end = bench.lead(
        &script("{\"steps\": {\"from\": 1, \"to\": 1}}\n{\"wait_stop\": {}}\n{\"result\": {}}\n{\"bye\": \"cancelled\"}\n"),
        Some(StopHow::Save),
    );
    assert_eq!((end.status, end.failure), (RunStatus::Cancelled, None));
    assert!(end.outcome.is_some());
}

#[test]
fn an_engine_that_ignores_a_stop_is_terminated() {
    let end = Bench::new().lead(
        &script("{\"steps\": {\"from\": 1, \"to\": 1}}\n{\"wait_forever\": {}}\n"),
        Some(StopHow::Save),
    );
    let failure = end.failure.unwrap();
    assert_eq!(end.status, RunStatus::Cancelled);
    assert_eq!(
        failure.message,
        "the engine did not stop when it was asked to and was killed by SIGTERM"
    );
}

#[test]
fn an_engine_that_ignores_sigterm_too_is_killed() {
    let end = Bench::new().lead(
        &script(
            "{\"ignore_termination\": {}}\n{\"steps\": {\"from\": 1, \"to\": 1}}\n{\"wait_forever\": {}}\n",
        ),
        Some(StopHow::Now),
    );
    assert_eq!(
        end.failure.unwrap().message,
        "the engine did not stop when it was asked to and was killed by SIGKILL"
    );
}

#[test]
fn a_time_box_stops_the_engine_and_says_so() {
    let bench = Bench {
        time_box: Some(Duration::from_millis(50)),
        limits: Limits::default(),
        ..Bench::new()
    };
    let end = bench.lead(&script("{\"wait_stop\": {}}\n{\"bye\": \"cancelled\"}\n"), None);
    assert_eq!((end.status, end.failure), (RunStatus::TimeBoxed, None));
}

#[test]
fn an_engine_that_says_bye_and_stays_is_ended() {
    let end = Bench::new().lead(&script("{\"bye\": \"ok\"}\n{\"wait_forever\": {}}\n"), None);
    assert_eq!(end.status, RunStatus::Ok);
}

#[test]
fn an_engine_that_is_dropped_is_gone() {
    let bench = Bench::new();
    let file = bench.folder.path().join("pid");
    let engine = bench
        .start(&format!(
            "{{\"write_pid\": \"{}\"}}\n{{\"hello\": 1}}\n{{\"wait_forever\": {{}}}}\n",
            file.display()
        ))
        .unwrap();
    let pid = pid_in(&file);
    assert!(lives(pid));
    drop(engine);
    wait_until("the engine is gone", Duration::from_secs(2), || !lives(pid));
}
