//! What stands around every page: keys, rail, the question before closing, what survives a restart.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Lines, PipeReader, PipeWriter, Write, pipe};

use common::open;
use egui::{Key, Modifiers, ViewportCommand, ViewportEvent, ViewportId};
use egui_kittest::kittest::Queryable;
use tunesmith_protocol::{
    Command, EngineError, Notice, RunStatus, StopHow, TaskWork, decode_command, encode,
};
use tunesmith_ui::{
    app::App,
    state::{Page, State},
};

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn the_first_start_shows_the_welcome_and_later_ones_the_last_page() {
    let mut opened = open(home());
    opened.harness.run_ok();
    assert_eq!(opened.state().page, Page::Welcome);
    opened.state().saved.welcomed = true;
    opened.state().go(Page::Runs);
    opened.app().store();
    let common::Opened { harness, home } = opened;
    drop(harness);
    let mut again = open(home);
    again.harness.run_ok();
    assert_eq!(again.state().page, Page::Runs);
}

#[test]
fn keys_show_pages_and_scale_everything() {
    let mut opened = open(home());
    opened.harness.run_ok();
    for (key, page) in [
        (Key::Num1, Page::Card),
        (Key::Num5, Page::Live),
        (Key::Num7, Page::Compare),
        (Key::Num9, Page::Report),
        (Key::Num0, Page::Settings),
    ] {
        opened.harness.key_press_modifiers(Modifiers::COMMAND, key);
        opened.harness.run_ok();
        assert_eq!(opened.state().page, page);
    }
    opened.harness.key_press_modifiers(Modifiers::COMMAND, Key::Num1);
    opened.harness.run_ok();
    opened.harness.key_press(Key::F1);
    opened.harness.run_ok();
    assert_eq!(opened.state().page, Page::Glossary);
    opened.harness.key_press_modifiers(Modifiers::COMMAND, Key::Plus);
    opened.harness.run_ok();
    assert!((opened.state().saved.zoom - 1.1).abs() < 1e-6);
}

#[test]
fn the_rail_has_every_page_by_name() {
    let mut opened = open(home());
    opened.harness.run_ok();
    for page in Page::RAIL {
        opened.harness.get_by_label(page.title()).click();
        opened.harness.run_ok();
        assert_eq!(opened.state().page, page);
    }
}

#[test]
fn in_a_small_window_at_twice_the_size_every_page_stays_in_the_rail() {
    let mut opened = open(home());
    // 1024x640 at 200 %.
    opened.harness.set_size(egui::vec2(512.0, 320.0));
    opened.harness.run_ok();
    let bottom = opened.harness.ctx.viewport_rect().bottom();
    for page in Page::RAIL {
        let shown = opened.harness.get_by_label(page.title()).rect();
        assert!(
            shown.bottom() <= bottom && shown.height() >= 20.0,
            "{page:?}: {shown:?}"
        );
    }
}

#[test]
fn the_published_figures_belong_to_the_page_compare() {
    let mut opened = open(home());
    opened.harness.run_ok();
    opened.state().go(Page::Published);
    opened.harness.run_ok();
    assert_eq!(Page::Published.in_rail(), Page::Compare);
    opened.harness.get_by_label("On this machine").click();
    opened.harness.run_ok();
    assert_eq!(opened.state().page, Page::Compare);
}

#[test]
fn a_task_whose_program_is_missing_ends_with_what_to_do() {
    let mut opened = open(home());
    opened.harness.run_ok();
    start(&mut opened, |_| {});
    let task = opened.state().tasks.training().unwrap().clone();
    let problem = task.ended.unwrap().problem.unwrap();
    assert_eq!(problem.code, "service_not_found");
    assert!(problem.message.contains("/nonexistent/tunesmith"));
    assert!(!problem.hints.is_empty());
}

/// Starts a task as a page would, then changes the state.
fn start(opened: &mut common::Opened<'_>, then: impl FnOnce(&mut App)) {
    let work = TaskWork::Resume { run: "r1".to_owned() };
    opened.app().begin_task(work);
    then(opened.app());
    opened.harness.run_ok();
}

#[test]
fn closing_while_a_task_runs_asks_once_and_staying_keeps_it() {
    let mut opened = open(home());
    opened.harness.run_ok();
    let work = TaskWork::Resume { run: "r1".to_owned() };
    opened.state().tasks.begin(work, 0.0);
    let viewport = opened
        .harness
        .input_mut()
        .viewports
        .entry(ViewportId::ROOT)
        .or_default();
    viewport.events.push(ViewportEvent::Close);
    opened.harness.step();
    opened
        .harness
        .input_mut()
        .viewports
        .entry(ViewportId::ROOT)
        .or_default()
        .events
        .clear();
    opened.harness.step();
    assert!(opened.state().asks_to_close);
    opened.harness.get_by_label("Stop, save and close");
    opened.harness.get_by_label("Stay").click();
    opened.harness.run_ok();
    assert!(!opened.state().asks_to_close);
    assert!(opened.state().tasks.running().is_some());
}

#[test]
fn an_idle_window_asks_for_no_frames() {
    let mut opened = open(home());
    opened.harness.run_ok();
    let start = std::time::Instant::now();
    // Looking at the machine takes a moment, and what was changed is saved two seconds later.
    let frames = (0..).take_while(|frame| *frame < 40 || start.elapsed().as_secs() < 60);
    for frame in frames {
        opened.harness.step();
        if frame > 40 && opened.app().is_idle() {
            break;
        }
    }
    let ctx = opened.harness.ctx.clone();
    assert!(!ctx.has_requested_repaint(), "{:?}", ctx.repaint_causes());
}

/// What the installed app's shell has of a window: the ends of its pipe.
struct Shell {
    says: PipeWriter,
    hears: Lines<BufReader<PipeReader>>,
}

impl Shell {
    fn around(opened: &mut common::Opened<'_>) -> Self {
        let (input, says) = pipe().unwrap();
        let (hears, output) = pipe().unwrap();
        opened.app().attach(input, output);
        Self {
            says,
            hears: BufReader::new(hears).lines(),
        }
    }

    fn say(&mut self, notice: &Notice) {
        self.says.write_all(encode(notice).as_bytes()).unwrap();
    }

    fn hear(&mut self) -> Command {
        decode_command(&self.hears.next().unwrap().unwrap()).unwrap()
    }
}

/// Draws until a condition holds.
#[track_caller]
fn draw_until(opened: &mut common::Opened<'_>, mut condition: impl FnMut(&mut State) -> bool) {
    let start = std::time::Instant::now();
    while !condition(opened.state()) {
        assert!(start.elapsed().as_secs() < 60, "waited in vain");
        opened.harness.step();
        std::thread::yield_now();
    }
}

fn earlier(notice: Notice) -> Notice {
    Notice::Earlier {
        secs_ago: 60.0,
        notice: Box::new(notice),
    }
}

fn resume() -> TaskWork {
    TaskWork::Resume { run: "r1".to_owned() }
}

#[test]
fn a_window_that_comes_while_something_runs_shows_it() {
    let mut opened = open(home());
    opened.harness.run_ok();
    opened.state().go(Page::Card);
    let mut shell = Shell::around(&mut opened);
    let report = TaskWork::Report { run: "r0".to_owned() };
    let over = Notice::Ended {
        task: 3,
        status: RunStatus::Ok,
        run: Some("r0".to_owned()),
        result: serde_json::Value::Null,
        failure: None,
        last_lines: Vec::new(),
    };
    for notice in [
        earlier(Notice::Task {
            task: 3,
            work: report,
        }),
        earlier(over),
        earlier(Notice::Task {
            task: 5,
            work: resume(),
        }),
        earlier(Notice::Started { task: 5 }),
        Notice::UpToDate,
    ] {
        shell.say(&notice);
    }
    draw_until(&mut opened, |state| state.page == Page::Live);
    let task = opened.state().tasks.running().unwrap();
    assert_eq!((task.id, &task.work), (5, &resume()));
    assert!(task.began_secs < 0.0, "it began before this window opened");
    opened.app().painted();
    assert_eq!(shell.hear(), Command::Painted);
}

#[test]
fn leaving_the_whole_app_asks_in_its_window() {
    let mut opened = open(home());
    opened.harness.run_ok();
    let mut shell = Shell::around(&mut opened);
    shell.say(&Notice::Task {
        task: 5,
        work: resume(),
    });
    shell.say(&Notice::AskToQuit);
    draw_until(&mut opened, |state| state.asks_to_close);
    opened.harness.run_ok();
    opened.harness.get_by_label("Stop, save and quit").click();
    opened.harness.run_ok();
    let stop = Command::Stop {
        task: 5,
        how: StopHow::Save,
    };
    assert_eq!(shell.hear(), stop);
    assert_eq!(shell.hear(), Command::Quit);
}

#[test]
fn what_the_shell_cannot_do_is_told() {
    let mut opened = open(home());
    opened.harness.run_ok();
    let mut shell = Shell::around(&mut opened);
    shell.say(&Notice::Refused {
        task: None,
        error: EngineError {
            code: "busy".to_owned(),
            message: "something is being measured".to_owned(),
            hints: Vec::new(),
        },
    });
    draw_until(&mut opened, |state| {
        let told = |toast: &tunesmith_ui::state::Toast| toast.text == "something is being measured";
        state.toasts.iter().any(told)
    });
}

#[test]
fn a_window_whose_shell_is_gone_leaves() {
    let mut opened = open(home());
    opened.harness.run_ok();
    let shell = Shell::around(&mut opened);
    opened.harness.step();
    drop(shell);
    let start = std::time::Instant::now();
    loop {
        opened.harness.step();
        let output = opened.harness.output();
        let leaves = output
            .viewport_output
            .get(&ViewportId::ROOT)
            .is_some_and(|root| root.commands.contains(&ViewportCommand::Close));
        if leaves {
            return;
        }
        assert!(start.elapsed().as_secs() < 60, "it stays");
        std::thread::yield_now();
    }
}
