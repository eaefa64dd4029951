//! The window, the service and an engine as three processes' worth of code: the app in a harness talks to the real
//! `tunesmith serve --stdio`, which leads the fake engine through everything that can go wrong.

use std::{
    ffi::OsString,
    fs,
    time::{Duration, Instant},
};

use egui::Ui;
use egui_kittest::Harness;
use tunesmith_protocol::{Notice, RunStatus, TaskWork, Trainer};
use tunesmith_setup::Folders;
use tunesmith_ui::{
    app::{App, Options},
    state::{Page, State, Task},
};

use crate::context::{CALIBRATES, GOOD, Home, built, fake_engine};

/// A window over a home.
struct Window<'a> {
    harness: Harness<'a, Option<App>>,
    home: Home,
}

impl Window<'_> {
    /// Opens it; the engine follows a script.
    fn open(script: &str) -> Self {
        let home = Home::new();
        let file = home.path("script.jsonl");
        fs::write(&file, script).unwrap();
        let variable = |name: &str, value: OsString| (name.to_owned(), value);
        let options = Options {
            folders: Folders::from_variables(|name| {
                (name == "TUNESMITH_HOME").then(|| home.path("home").into_os_string())
            })
            .unwrap(),
            root: home.path("machine"),
            program: built("tunesmith"),
            environment: vec![
                variable("TUNESMITH_HOME", home.path("home").into()),
                variable("TUNESMITH_ENGINE", fake_engine().into()),
                variable("TUNESMITH_TORCH", home.path("site").into()),
                variable("FAKE_ENGINE_SCRIPT", file.into()),
            ],
            renderer: "a test".to_owned(),
        };
        fs::create_dir_all(home.path("machine")).unwrap();
        let harness = Harness::builder().with_size([1280.0, 820.0]).build_ui_state(
            move |ui: &mut Ui, app: &mut Option<App>| {
                let ctx = ui.ctx().clone();
                let app = app.get_or_insert_with(|| App::new(&ctx, options.clone()));
                app.logic(&ctx);
                app.ui(ui);
            },
            None,
        );
        let mut window = Self { harness, home };
        window.harness.step();
        window
    }

    fn app(&mut self) -> &mut App {
        self.harness.state_mut().as_mut().unwrap()
    }

    fn state(&mut self) -> &mut State {
        &mut self.app().state
    }

    /// Draws until a condition holds.
    #[track_caller]
    fn draw_until(&mut self, what: &str, mut condition: impl FnMut(&mut State) -> bool) {
        let start = Instant::now();
        loop {
            self.harness.step();
            if condition(self.state()) {
                return;
            }
            assert!(
                start.elapsed() < Duration::from_mins(1),
                "waited in vain until {what}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Trains the home's recipe on a page, to the end.
    fn train(&mut self, page: Page) -> Task {
        // The paths of the home's recipe are relative to it.
        let recipe = fs::read_to_string(self.home.recipe())
            .unwrap()
            .replace("\"model\"", &format!("\"{}\"", self.home.path("model").display()))
            .replace(
                "\"rows.jsonl\"",
                &format!("\"{}\"", self.home.path("rows.jsonl").display()),
            );
        self.state().go(page);
        self.app().begin_task(TaskWork::Train {
            recipe,
            device: Some("cpu".to_owned()),
            evaluate: false,
            trainer: Trainer::Native,
            threads: None,
        });
        self.draw_until("the training is over", |state| {
            state.tasks.training().is_some_and(Task::is_over)
        });
        // What follows from its end is drawn too.
        for _ in 0..20 {
            self.harness.step();
        }
        self.state().tasks.training().unwrap().clone()
    }
}

fn status(task: &Task) -> RunStatus {
    task.ended.as_ref().unwrap().status
}

fn message(task: &Task) -> &str {
    &task.ended.as_ref().unwrap().problem.as_ref().unwrap().message
}

#[test]
fn a_training_is_led_from_start_to_end() {
    let mut window = Window::open(GOOD);
    let task = window.train(Page::Live);
    assert_eq!(status(&task), RunStatus::Ok, "{:?}", task.ended);
    assert_eq!(task.steps.len(), 3);
    assert!(task.run.is_some());
    assert!(window.home.only_run().join("report.html").exists());
}

#[test]
fn every_page_draws_while_an_engine_goes_wrong() {
    let cases = [
        (
            "silence then a crash",
            "{\"exit\": 7}",
            RunStatus::Crashed,
            "exit status 7",
        ),
        (
            "a signal",
            "{\"steps\": {\"from\": 1, \"to\": 2}}\n{\"kill_self\": 11}",
            RunStatus::Crashed,
            "SIGSEGV",
        ),
        (
            "out of memory",
            "{\"emit\": {\"type\": \"error\", \"code\": \"out_of_memory\", \"message\": \"out of memory: tried to allocate 2.00 GiB\", \"hints\": [\"set recompute to layer\"]}}\n{\"exit\": 1}",
            RunStatus::Oom,
            "2.00 GiB",
        ),
        (
            "not a number",
            "{\"steps\": {\"from\": 1, \"to\": 2, \"bad\": true}}\n{\"bye\": \"nan\"}",
            RunStatus::Nan,
            "finite",
        ),
        (
            "a full disk",
            "{\"emit\": {\"type\": \"error\", \"code\": \"disk_full\", \"message\": \"the checkpoint could not be written: no space left on device\", \"hints\": []}}\n{\"bye\": \"crashed\"}",
            RunStatus::Crashed,
            "no space left",
        ),
        (
            "garbage",
            "{\"raw\": \"\\u0000 not json {{{\"}\n{\"stderr\": \"warning: nonsense\"}\n{\"exit\": 3}",
            RunStatus::Crashed,
            "exit status 3",
        ),
    ];
    for (name, actions, expected, words) in cases {
        let mut window = Window::open(&format!("{CALIBRATES}{actions}"));
        let task = window.train(Page::Live);
        assert_eq!(status(&task), expected, "{name}: {:?}", task.ended);
        assert!(message(&task).contains(words), "{name}: {}", message(&task));
        for page in Page::RAIL {
            window.state().go(page);
            window.harness.step();
            window.harness.step();
        }
    }
}

#[test]
fn an_engine_of_another_version_is_refused_in_words() {
    let mut window = Window::open("{\"hello\": 99}\n{\"wait_forever\": {}}\n");
    let task = window.train(Page::Tune);
    assert!(message(&task).contains("version 99"), "{}", message(&task));
}

#[test]
fn a_flood_of_events_reaches_the_window_whole() {
    let mut window = Window::open(GOOD);
    let state = window.state();
    let task = state.tasks.begin(TaskWork::Resume { run: "r".to_owned() }, 0.0);
    for number in 0..200_000 {
        let notice = Notice::Log {
            task,
            level: tunesmith_protocol::Level::Info,
            text: number.to_string(),
        };
        state.tasks.apply(notice, 0.0);
    }
    let log = &state.tasks.training().unwrap();
    assert_eq!(log.log.len() + log.log_dropped, 200_000);
    state.go(Page::Live);
    window.harness.step();
}
