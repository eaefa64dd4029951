//! The app: takes in what came from outside, draws, and carries out what the pages asked for, in that order and never
//! mixed.

mod commands;
mod shell;

use std::{
    ffi::OsString,
    io::{Read, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use egui::{Context, ThemePreference, Ui, ViewportCommand};
use tunesmith_protocol::{Command as ToService, Notice, TaskId, TaskWork};
use tunesmith_setup::Folders;

use crate::{
    commands::Commands,
    pages::{self, Views},
    problem,
    saved::{Saved, ThemeWish},
    services::{self, Client, Heard, Sampling, SystemFaces, Work, Workers},
    state::{Page, State},
    theme,
};

/// Lines of the service that are taken in between two frames: more than an engine can say in a tenth of a second.
const MOST_LINES: usize = 20_000;
/// Seconds between two savings of what outlives the window.
const SAVE_EVERY_SECS: f64 = 2.0;

/// What the app is given.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where things lie.
    pub folders: Folders,
    /// The machine: `/`, or the folder of a capture.
    pub root: PathBuf,
    /// The program that leads trainings.
    pub program: PathBuf,
    /// Variables of its environment beside this program's own.
    pub environment: Vec<(String, OsString)>,
    /// What drew the window.
    pub renderer: String,
}

/// Asks for a frame, at most ten times a second, and twice a second while something is measured: a window that draws
/// must not take from the card what the measurement wants to see.
#[derive(Clone)]
struct Waker {
    ctx: Context,
    asked: Arc<AtomicBool>,
    quiet: Arc<AtomicBool>,
}

impl Waker {
    fn wake(&self) {
        if !self.asked.swap(true, Ordering::AcqRel) {
            let millis = if self.quiet.load(Ordering::Relaxed) {
                500
            } else {
                100
            };
            self.ctx.request_repaint_after(Duration::from_millis(millis));
        }
    }
}

/// The app.
pub struct App {
    /// All that is known.
    pub state: State,
    views: Views,
    options: Options,
    waker: Waker,
    workers: Workers,
    sampling: Sampling,
    faces: Arc<SystemFaces>,
    client: Option<Client>,
    /// [`crate::state::MachineState::generation`] whose cards are watched.
    watched: u64,
    stored: Saved,
    stored_at_secs: f64,
    closing: bool,
}

impl App {
    /// Opens the app in a context. Nothing is read yet but what outlived the last window.
    pub fn new(ctx: &Context, options: Options) -> Self {
        theme::install(ctx);
        ctx.options_mut(|options| options.zoom_with_keyboard = false);
        let saved = Saved::load(options.folders.config());
        let mut state = State::new(options.folders.clone(), saved.clone(), options.root.clone());
        state.renderer.clone_from(&options.renderer);
        let waker = Waker {
            ctx: ctx.clone(),
            asked: Arc::default(),
            quiet: Arc::default(),
        };
        let wake = waker.clone();
        let mut workers = Workers::new(move || wake.ctx.request_repaint());
        if let Some(work) = services::look(&mut state) {
            workers.begin(work);
        }
        let wake = waker.clone();
        let sampling = Sampling::new(move || wake.wake());
        let mut app = Self {
            views: Views::restored(&state),
            state,
            options,
            waker,
            workers,
            sampling,
            faces: SystemFaces::install(ctx),
            client: None,
            watched: 0,
            stored: saved,
            stored_at_secs: 0.0,
            closing: false,
        };
        app.dress(ctx);
        app
    }

    /// Works over a service that is there already and outlives this window, instead of one of its own: the installed app's.
    pub fn attach(&mut self, input: impl Read + Send + 'static, output: impl Write + Send + 'static) {
        let waker = self.waker.clone();
        self.client = Some(Client::over(input, output, move || waker.wake()));
        self.state.hosted = true;
    }

    /// A frame is on the screen.
    pub fn painted(&mut self) {
        if self.state.hosted {
            self.send(&ToService::Painted);
        }
    }

    /// What goes on without drawing; also called while the window is hidden.
    pub fn logic(&mut self, ctx: &Context) {
        self.waker.asked.store(false, Ordering::Release);
        self.state.tick(ctx.time());
        for done in self.workers.finished() {
            done(&mut self.state);
        }
        self.hear(ctx);
        for sample in self.sampling.taken() {
            self.state.telemetry.add(sample);
        }
        self.watch();
        for work in pages::needs(&mut self.state) {
            self.workers.begin(work);
        }
        if let Some(work) = self.faces.needs(ctx) {
            self.workers.begin(work);
        }
        let quiet = self
            .state
            .tasks
            .running()
            .is_some_and(crate::state::Task::measures);
        self.waker.quiet.store(quiet, Ordering::Relaxed);
        self.ask_before_closing(ctx);
        self.remember(ctx);
        // Clocks that are shown go on, and messages leave.
        let clock = self.state.tasks.running().map(|_| 1.0);
        if let Some(secs) = clock
            .into_iter()
            .chain(self.state.next_change_secs())
            .reduce(f64::min)
        {
            ctx.request_repaint_after(Duration::from_secs_f64(secs.clamp(0.05, 60.0)));
        }
    }

    /// Draws, then carries out what was asked for.
    pub fn ui(&mut self, ui: &mut Ui) {
        let mut out = Commands::new();
        shell::keys(ui, &self.state, &mut out);
        shell::shell_ui(&self.state, &mut self.views, ui, &mut out);
        let ctx = ui.ctx().clone();
        self.carry_out(&mut out, &ctx);
        // A sign was drawn that no face has: one is looked for before the next frame.
        if self.faces.is_wanted() {
            ctx.request_repaint();
        }
    }

    /// Whether nothing is under way in the background.
    pub fn is_idle(&self) -> bool {
        self.workers.idle() && self.state.tasks.running().is_none()
    }

    /// Takes in what the service said.
    fn hear(&mut self, ctx: &Context) {
        let Some(client) = &mut self.client else { return };
        let now_secs = self.state.now_secs;
        let mut ended: Vec<TaskId> = Vec::new();
        for heard in client.heard(MOST_LINES) {
            match heard {
                Heard::Notice(Notice::Focus) => come_to_front(ctx),
                Heard::Notice(Notice::AskToQuit) => {
                    self.state.asks_to_close = true;
                    come_to_front(ctx);
                }
                // This window came while something runs: that is what somebody wants to see.
                Heard::Notice(Notice::UpToDate) => {
                    if let Some(page) = self.state.tasks.running().map(shell::page_of) {
                        self.state.go(page);
                    }
                }
                Heard::Notice(Notice::Refused { task: None, error }) => self.state.say_stop(error.message),
                Heard::Notice(notice) => ended.extend(self.state.tasks.apply(notice, now_secs)),
                Heard::Gone(problem) => ended.extend(self.state.tasks.service_gone(&problem, now_secs)),
            }
        }
        if client.is_gone() {
            self.client = None;
            // The app around this window has left, and this window leaves with it.
            self.closing |= self.state.hosted;
        }
        for task in ended {
            self.task_ended(task);
        }
    }

    fn task_ended(&mut self, task: TaskId) {
        pages::task_ended(&mut self.state, task);
        let Some(task) = self.state.tasks.get(task) else {
            return;
        };
        let (id, status) = (task.id, task.ended.as_ref().map(|ended| ended.status));
        // What was installed, downloaded or measured changes what the doctor and the plan say.
        if matches!(task.work, TaskWork::Setup { .. } | TaskWork::Calibrate { .. })
            && let Some(work) = services::look(&mut self.state)
        {
            self.workers.begin(work);
        }
        let pages = &mut self.state.pages;
        let training = status.and_then(|status| pages.tune.next_task(id, status));
        let experiment = status.and_then(|status| pages.compare.next_task(id, status));
        for (page, work) in [(Page::Live, training), (Page::Compare, experiment)] {
            if let Some(work) = work {
                self.state.go(page);
                self.begin_task(work);
            }
        }
    }

    /// Reads the cards while somebody looks at them.
    fn watch(&mut self) {
        let machine = &self.state.machine;
        if machine.generation != self.watched {
            self.watched = machine.generation;
            let targets = machine
                .get()
                .map(crate::state::Machine::targets)
                .unwrap_or_default();
            self.sampling.watch(self.options.root.clone(), targets);
        }
        let running = self.state.tasks.running().is_some();
        self.sampling
            .look(running || matches!(self.state.page, Page::Card | Page::Live));
    }

    /// Lets the service begin a task, and starts the service first where there is none.
    pub fn begin_task(&mut self, work: TaskWork) {
        if let Some(running) = self.state.tasks.running() {
            let text = format!(
                "{} is under way; it must end before something else begins",
                running.name()
            );
            self.state.say(theme::Tone::Note, text);
            return;
        }
        let task = self.state.tasks.begin(work.clone(), self.state.now_secs);
        if self.client.is_none() {
            let waker = self.waker.clone();
            match Client::start(&self.options.program, &self.options.environment, move || {
                waker.wake();
            }) {
                Ok(client) => self.client = Some(client),
                Err(error) => {
                    let problem = problem!(error);
                    if let Some(task) = self.state.tasks.service_gone(&problem, self.state.now_secs) {
                        self.task_ended(task);
                    }
                    return;
                }
            }
        }
        let card = self.state.saved.device.word();
        self.send(&ToService::Use { card });
        self.send(&ToService::Start { task, work });
    }

    /// Sends something to the service, where there is one.
    fn send(&mut self, command: &ToService) {
        if let Some(client) = &mut self.client {
            client.send(command);
        }
    }

    fn begin(&mut self, work: Option<Work>) {
        if let Some(work) = work {
            self.workers.begin(work);
        }
    }

    /// A window that would take a training along asks once. The installed app's window takes none along.
    fn ask_before_closing(&mut self, ctx: &Context) {
        if ctx.input(|input| input.viewport().close_requested()) && !self.closing && !self.state.hosted {
            if self.state.tasks.running().is_some() {
                ctx.send_viewport_cmd(ViewportCommand::CancelClose);
                self.state.asks_to_close = true;
            } else {
                self.closing = true;
            }
        }
        // The user chose to stop and close; it has stopped.
        if self.closing && self.state.tasks.running().is_none() {
            ctx.send_viewport_cmd(ViewportCommand::Close);
        }
    }

    /// Saves what outlives the window, where it changed.
    fn remember(&mut self, ctx: &Context) {
        ctx.input(|input| {
            let viewport = input.viewport();
            let maximized = viewport.maximized.unwrap_or(false);
            self.state.saved.maximized = maximized;
            if !maximized && let Some(rect) = viewport.inner_rect {
                self.state.saved.size = Some([rect.width(), rect.height()]);
            }
            if !maximized && let Some(rect) = viewport.outer_rect {
                self.state.saved.position = Some([rect.left(), rect.top()]);
            }
        });
        let due_secs = self.stored_at_secs + SAVE_EVERY_SECS - self.state.now_secs;
        if due_secs <= 0.0 || self.closing {
            self.store();
        } else if self.state.saved != self.stored || ctx.input(|input| !input.events.is_empty()) {
            // Nothing else may ask for a frame, and what was changed last must not be lost.
            ctx.request_repaint_after(Duration::from_secs_f64(due_secs));
        }
    }

    /// Saves what outlives the window.
    pub fn store(&mut self) {
        self.views.keep(&mut self.state);
        self.stored_at_secs = self.state.now_secs;
        if self.state.saved == self.stored {
            return;
        }
        self.stored = self.state.saved.clone();
        if let Err(error) = self.state.saved.store(self.options.folders.config()) {
            self.state
                .say_stop(format!("the window's state could not be saved: {error}"));
        }
    }

    /// Theme and scale as they were chosen.
    fn dress(&mut self, ctx: &Context) {
        ctx.set_theme(match self.state.saved.theme {
            ThemeWish::System => ThemePreference::System,
            ThemeWish::Dark => ThemePreference::Dark,
            ThemeWish::Light => ThemePreference::Light,
        });
        ctx.set_zoom_factor(self.state.saved.zoom);
    }
}

fn come_to_front(ctx: &Context) {
    ctx.send_viewport_cmd(ViewportCommand::Minimized(false));
    ctx.send_viewport_cmd(ViewportCommand::Focus);
}

impl Drop for App {
    fn drop(&mut self) {
        self.store();
    }
}
