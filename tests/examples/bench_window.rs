//! A flood for the window: a thousand steps a second for a minute, from an engine that replays a script, through the
//! real service, into the real app, which draws its live page ten times a second into nothing. Prints one JSON object:
//! steps sent and taken in, memory of this process after ten seconds and at the end, and time a frame.
//!
//! `cargo xtask bench window` builds and runs it; the programs lie beside this one's folder.

// A benchmark that cannot go on should say so at once; its result goes to standard output.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::format_collect)]

// Not all of it is used here.
#[allow(dead_code)]
#[path = "../tests/it/tiny_model.rs"]
mod tiny_model;

use std::{
    ffi::OsString,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use egui::{Context, Pos2, RawInput, Rect, vec2};
use serde_json::json;
use tunesmith_protocol::{RunStatus, TaskWork, Trainer};
use tunesmith_setup::Folders;
use tunesmith_ui::{
    app::{App, Options},
    state::{Page, Task},
};

const STEPS: u64 = 60_000;
const FRAME: Duration = Duration::from_millis(100);
/// From here on memory should not grow but by what is kept of each step.
const SETTLED: Duration = Duration::from_secs(10);

fn main() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    tiny_model::write(&path("model"));
    let rows: String = (0..6)
        .map(|n| {
            format!(
                "{{\"prompt\": \"How much are {n} and one?\", \"completion\": \"It is {}\"}}\n",
                n + 1
            )
        })
        .collect();
    fs::write(path("rows.jsonl"), rows).unwrap();
    fs::create_dir_all(path("site/torch/lib")).unwrap();
    fs::write(path("site/torch/version.py"), "__version__ = '2.11.0+cpu'\n").unwrap();
    let script = format!(
        "{{\"hello\": 1}}\n{{\"wait_job\": {{}}}}\n{{\"when\": \"train\", \"steps\": {{\"from\": 1, \"to\": {STEPS}, \"delay_ms\": 1}}}}\n\
         {{\"when\": \"train\", \"save_adapter\": {{}}}}\n{{\"result\": {{}}}}\n{{\"bye\": \"ok\"}}\n"
    );
    fs::write(path("script.jsonl"), script).unwrap();
    let variable = |name: &str, value: OsString| (name.to_owned(), value);
    let folders =
        Folders::from_variables(|name| (name == "TUNESMITH_HOME").then(|| path("home").into_os_string()));
    let ctx = Context::default();
    let options = Options {
        folders: folders.unwrap(),
        root: path("machine"),
        program: program("tunesmith"),
        environment: vec![
            variable("TUNESMITH_HOME", path("home").into()),
            variable("TUNESMITH_ENGINE", program("fake-engine").into()),
            variable("TUNESMITH_TORCH", path("site").into()),
            variable("FAKE_ENGINE_SCRIPT", path("script.jsonl").into()),
        ],
        renderer: "none".to_owned(),
    };
    let mut app = App::new(&ctx, options);
    app.state.saved.welcomed = true;
    app.state.go(Page::Live);
    app.begin_task(TaskWork::Train {
        recipe: format!(
            "name = \"flood\"\n[model]\npath = \"{}\"\n[data]\npath = \"{}\"\nmax_length = 256\n[lora]\nrank = 4\nalpha = 8.0\n\
             [train]\nsteps = {STEPS}\nmicro_batch = 2\n",
            path("model").display(),
            path("rows.jsonl").display()
        ),
        device: Some("cpu".to_owned()),
        evaluate: false,
        trainer: Trainer::Native,
        threads: None,
    });

    let start = Instant::now();
    let mut first_step: Option<Instant> = None;
    let mut last_step: Option<Instant> = None;
    let mut settled_bytes = None;
    let mut frames: Vec<f64> = Vec::new();
    loop {
        let began = Instant::now();
        draw(&ctx, &mut app, start.elapsed().as_secs_f64());
        let task = app.state.tasks.training().unwrap();
        if first_step.is_some() && !task.is_over() {
            frames.push(began.elapsed().as_secs_f64());
        }
        if !task.steps.is_empty() {
            first_step.get_or_insert(began);
        }
        if task.steps.len() as u64 == STEPS {
            last_step.get_or_insert(began);
        }
        if first_step.is_some_and(|first| first.elapsed() > SETTLED) && settled_bytes.is_none() {
            settled_bytes = resident_bytes();
        }
        if task.is_over() {
            break;
        }
        assert!(
            start.elapsed() < Duration::from_mins(5),
            "the training does not end"
        );
        thread::sleep(FRAME.saturating_sub(began.elapsed()));
    }
    let task: &Task = app.state.tasks.training().unwrap();
    let ended = task.ended.as_ref().unwrap();
    frames.sort_by(f64::total_cmp);
    let at = |share: f64| 1000.0 * frames[((frames.len() - 1) as f64 * share) as usize];
    let flood_secs = last_step
        .zip(first_step)
        .map(|(last, first)| (last - first).as_secs_f64());
    let result = json!({
        "steps_sent": STEPS,
        "steps_taken_in": task.steps.len(),
        "ended": ended.status == RunStatus::Ok,
        "problem": ended.problem.as_ref().map(|problem| problem.message.clone()),
        "flood_secs": flood_secs,
        "steps_per_sec": flood_secs.map(|secs| STEPS as f64 / secs),
        "resident_mib_after_10_secs": settled_bytes.map(mib),
        "resident_mib_at_the_end": resident_bytes().map(mib),
        "kept_of_each_step_bytes": size_of::<tunesmith_protocol::Step>(),
        "frames": frames.len(),
        "frame_ms": { "median": at(0.5), "p95": at(0.95), "most": at(1.0) },
    });
    println!("{result}");
}

/// One frame: logic, drawing, tessellation; nothing is painted.
fn draw(ctx: &Context, app: &mut App, secs: f64) {
    let input = RawInput {
        screen_rect: Some(Rect::from_min_size(Pos2::ZERO, vec2(1280.0, 820.0))),
        time: Some(secs),
        ..RawInput::default()
    };
    let mut output = ctx.run_ui(input, |ui| {
        app.logic(ui.ctx());
        app.ui(ui);
    });
    // Nothing is painted, so nobody takes the fonts' pictures.
    output.textures_delta.clear();
    let shapes = ctx.tessellate(output.shapes, output.pixels_per_point);
    assert!(!shapes.is_empty());
}

/// A program of the build, which lies beside the folder of the examples.
fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let folder = here.parent().unwrap().parent().unwrap();
    folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// What this process holds in memory, where the system tells it.
fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
