//! What tests of the window share: an app in a home of its own, in a harness.

#![allow(clippy::unwrap_used, dead_code)]

use std::path::{Path, PathBuf};

use egui::Ui;
use egui_kittest::Harness;
use tempfile::TempDir;
use tunesmith_probe::testing::TestMachine;
use tunesmith_setup::Folders;
use tunesmith_ui::{
    app::{App, Options},
    commands::{Command, Commands},
    saved::Saved,
    services,
    state::State,
    theme,
};

/// An app, its home, and whether somebody looks.
pub(crate) struct Opened<'a> {
    /// The app in its harness; `None` until the first frame.
    pub harness: Harness<'a, Option<App>>,
    /// Its home.
    pub home: TempDir,
}

/// Opens an app whose machine is the empty folder `machine` of its home, and whose program is not there.
pub(crate) fn open<'a>(home: TempDir) -> Opened<'a> {
    let root = home.path().join("machine");
    std::fs::create_dir_all(&root).unwrap();
    let options = Options {
        folders: Folders::all_under(home.path()),
        root,
        program: PathBuf::from("/nonexistent/tunesmith"),
        environment: Vec::new(),
        renderer: "a test".to_owned(),
    };
    let harness = Harness::builder()
        .with_size([1280.0, 820.0])
        .with_max_steps(60)
        .build_ui_state(
            move |ui: &mut Ui, app: &mut Option<App>| {
                let ctx = ui.ctx().clone();
                let app = app.get_or_insert_with(|| App::new(&ctx, options.clone()));
                app.logic(&ctx);
                app.ui(ui);
            },
            None,
        );
    Opened { harness, home }
}

impl Opened<'_> {
    /// The app.
    pub(crate) fn app(&mut self) -> &mut App {
        self.harness.state_mut().as_mut().unwrap()
    }

    /// What it knows.
    pub(crate) fn state(&mut self) -> &mut State {
        &mut self.app().state
    }
}

/// A page in a harness: what it knows, how it is looked at, and what it asked for.
pub(crate) struct Shown<V> {
    /// What it knows.
    pub state: State,
    /// How it is looked at.
    pub view: V,
    /// What it asked for, in order.
    pub asked: Vec<Command>,
}

/// A function that draws a page.
pub(crate) type PageUi<V> = fn(&State, &mut V, &mut Ui, &mut Commands);

/// Shows a page of this size; with the graphics driver where pictures are taken.
pub(crate) fn show<'a, V: Default + 'a>(
    state: State,
    page: PageUi<V>,
    size: [f32; 2],
    dark: bool,
    pictures: bool,
) -> Harness<'a, Shown<V>> {
    let mut builder = Harness::builder()
        .with_size(size)
        .with_max_steps(60)
        .with_theme(if dark {
            egui::Theme::Dark
        } else {
            egui::Theme::Light
        });
    if pictures {
        builder = builder.wgpu();
    }
    let mut installed = false;
    builder.build_ui_state(
        move |ui: &mut Ui, shown: &mut Shown<V>| {
            if !installed {
                theme::install(ui.ctx());
                installed = true;
            }
            let mut out = Commands::new();
            let ground = theme::tokens(ui).ground;
            ui.painter().rect_filled(ui.ctx().viewport_rect(), 0.0, ground);
            page(&shown.state, &mut shown.view, ui, &mut out);
            shown.asked.extend(out.take());
        },
        Shown {
            state,
            view: V::default(),
            asked: Vec::new(),
        },
    )
}

/// A window that has looked at a machine made of files, with all that is its own below `home`.
pub(crate) fn looked_at(machine: &TestMachine, home: &Path) -> State {
    let saved = Saved {
        welcomed: true,
        ..Saved::default()
    };
    let mut state = State::new(Folders::all_under(home), saved, machine.root().to_owned());
    look_again(&mut state);
    state
}

/// Looks at the machine as it is now, with the device that is wished for now.
pub(crate) fn look_again(state: &mut State) {
    services::look(state).unwrap().run()(state);
}

/// Carries out what a page asked for of its own, work included; returns what the app would have to do.
pub(crate) fn carry_out<V>(shown: &mut Shown<V>) -> Vec<Command> {
    let mut left = Vec::new();
    for command in std::mem::take(&mut shown.asked) {
        match command {
            Command::Do(action) => {
                if let Some(work) = (action.change)(&mut shown.state) {
                    work.run()(&mut shown.state);
                }
            }
            other => left.push(other),
        }
    }
    left
}

/// Goes on until nothing is under way in the background.
pub(crate) fn settle(opened: &mut Opened<'_>) {
    let start = std::time::Instant::now();
    let mut still = 0;
    // What is read may ask for more to be read in the frame after.
    while still < 3 {
        assert!(
            start.elapsed() < std::time::Duration::from_mins(1),
            "something never ended"
        );
        opened.harness.step();
        still = if opened.app().is_idle() { still + 1 } else { 0 };
        std::thread::yield_now();
    }
}
