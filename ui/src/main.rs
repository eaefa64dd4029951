//! The program of the window: chooses a renderer that works, opens the window, and where none does says in words what
//! the window would have shown.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use eframe::{CreationContext, Frame, NativeOptions, egui_wgpu, wgpu};
use egui::{Ui, ViewportBuilder, ViewportCommand, vec2};
use tunesmith_setup::{Folders, env_vars};
use tunesmith_ui::{
    app::{App, Options},
    renderer::{Notes, Rung},
    saved::Saved,
    services::Client,
};

/// The variable by which Mesa's OpenGL is told to compute on the processor.
const SOFTWARE_GL: &str = "LIBGL_ALWAYS_SOFTWARE";

/// The window of Tunesmith
#[derive(Parser)]
#[command(name = "tunesmith-ui", version)]
struct Cli {
    /// What draws the window; without it the best that has worked here
    #[arg(long, value_enum)]
    renderer: Option<Rung>,
    /// Show the captured machine in this folder instead of this one
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Print how long the first frame took as JSON, and leave
    #[arg(long, hide = true)]
    first_frame: bool,
}

fn main() -> ExitCode {
    let start = Instant::now();
    match run(&Cli::parse(), start) {
        Ok(status) => status,
        Err(error) => {
            // Nobody else is there to be told.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, start: Instant) -> Result<ExitCode> {
    let folders = Folders::from_env().context("the folders of Tunesmith are not known")?;
    let config = folders.config().to_owned();
    let mut notes = Notes::load(&config);
    let chosen = cli.renderer.or_else(Rung::from_env);
    let mut next = chosen.or_else(|| notes.first());
    let mut why = String::new();
    while let Some(rung) = next {
        if rung == Rung::Software && std::env::var_os(SOFTWARE_GL).is_none() {
            return software();
        }
        notes
            .note_try(&config, rung)
            .context("the choice of a renderer cannot be noted")?;
        match open(cli, &folders, rung, start) {
            Ok(()) => return Ok(ExitCode::SUCCESS),
            Err(error) => why = format!("{}: {error}", rung.name()),
        }
        // A renderer that was asked for by name is the only one that is tried.
        next = if chosen.is_some() { None } else { rung.lower() };
    }
    without_window(&why);
    // The next start tries everything anew: a driver may have been mended.
    Notes::forget(&config)?;
    Ok(ExitCode::FAILURE)
}

/// Opens the window and returns when it closes.
fn open(cli: &Cli, folders: &Folders, rung: Rung, start: Instant) -> Result<(), eframe::Error> {
    let saved = Saved::load(folders.config());
    let options = Options {
        folders: folders.clone(),
        root: cli.root.clone(),
        program: Client::program(),
        environment: Vec::new(),
        renderer: rung.name().to_owned(),
    };
    let first_frame = cli.first_frame.then_some(start);
    let config = folders.config().to_owned();
    eframe::run_native(
        "tunesmith",
        native_options(rung, &saved),
        Box::new(move |context| {
            Ok(Box::new(Window {
                app: App::new(&context.egui_ctx, described(options, context)),
                painted: Painted::Nothing,
                rung,
                config,
                first_frame,
            }))
        }),
    )
}

fn native_options(rung: Rung, saved: &Saved) -> NativeOptions {
    let mut viewport = ViewportBuilder::default()
        .with_title("Tunesmith")
        .with_app_id("tunesmith")
        .with_min_inner_size(vec2(640.0, 480.0))
        .with_inner_size(
            saved
                .size
                .map_or(vec2(1280.0, 820.0), |[width, height]| vec2(width, height)),
        )
        .with_maximized(saved.maximized);
    if let Some([x, y]) = saved.position {
        viewport = viewport.with_position([x, y]);
    }
    let mut options = NativeOptions {
        viewport,
        renderer: match rung {
            Rung::Wgpu | Rung::WgpuGl => eframe::Renderer::Wgpu,
            Rung::Glow | Rung::Software => eframe::Renderer::Glow,
        },
        ..NativeOptions::default()
    };
    if let egui_wgpu::WgpuSetup::CreateNew(setup) = &mut options.wgpu_options.wgpu_setup {
        // The card that trains is left alone where another can draw.
        setup.power_preference = wgpu::PowerPreference::LowPower;
        if rung == Rung::WgpuGl {
            setup.instance_descriptor.backends = wgpu::Backends::GL;
        } else {
            setup.instance_descriptor.backends = wgpu::Backends::PRIMARY;
        }
    }
    options
}

/// Adds the adapter's name to the renderer's.
fn described(mut options: Options, context: &CreationContext<'_>) -> Options {
    if let Some(state) = &context.wgpu_render_state {
        let info = state.adapter.get_info();
        options.renderer = format!("{} ({}, {:?})", options.renderer, info.name, info.backend);
    }
    options
}

/// What is on the screen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Painted {
    Nothing,
    /// A frame was drawn and is being painted.
    Drawn,
    /// A frame is there.
    Frame,
}

struct Window {
    app: App,
    painted: Painted,
    rung: Rung,
    config: PathBuf,
    first_frame: Option<Instant>,
}

impl Window {
    /// A second frame is asked for after the first: when it is drawn, the first has been painted.
    fn note_painted(&mut self, ui: &Ui) {
        self.painted = match self.painted {
            Painted::Nothing => {
                ui.ctx().request_repaint();
                Painted::Drawn
            }
            Painted::Drawn => {
                // Where it cannot be noted, the next start begins one rung lower, and works.
                let _ = Notes::default().note_painted(&self.config, self.rung);
                if let Some(start) = self.first_frame {
                    let secs = start.elapsed().as_secs_f64();
                    let _ = writeln!(std::io::stdout(), "{{\"first_frame_secs\":{secs:.4}}}");
                    ui.ctx().send_viewport_cmd(ViewportCommand::Close);
                }
                Painted::Frame
            }
            Painted::Frame => Painted::Frame,
        };
    }
}

impl eframe::App for Window {
    fn logic(&mut self, ctx: &egui::Context, _frame: &mut Frame) {
        self.app.logic(ctx);
    }

    fn ui(&mut self, ui: &mut Ui, _frame: &mut Frame) {
        if self.painted != Painted::Frame {
            self.note_painted(ui);
        }
        self.app.ui(ui);
    }

    fn persist_egui_memory(&self) -> bool {
        false
    }
}

/// Starts this program again with OpenGL computed by the processor: a driver reads the variable when it is loaded, and
/// here it may be loaded already.
fn software() -> Result<ExitCode> {
    let program = std::env::current_exe().context("this program's own file is not known")?;
    let status = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(SOFTWARE_GL, "1")
        .env(env_vars::RENDERER, Rung::Software.name())
        .status()
        .context("the window could not be started again with software rendering")?;
    Ok(status
        .code()
        .map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
}

/// What can be said without a window.
fn without_window(why: &str) {
    let mut out = std::io::stderr();
    let _ = writeln!(
        out,
        "error: no window could be opened ({why})\nhint: everything the window does, the command line does too: `tunesmith detect`, `tunesmith doctor`, `tunesmith quickstart`\nhint: --renderer {} tries one renderer by name\n",
        Rung::ALL.map(Rung::name).join("|")
    );
    let doctor = Client::program();
    if doctor.exists() && Path::new(&doctor).is_file() {
        // Its own output goes to this terminal.
        let _ = Command::new(doctor).arg("doctor").status();
    }
}
