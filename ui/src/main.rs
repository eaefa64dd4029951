//! The program of the window: chooses a renderer that works, opens the window, and where none does says in words what
//! the window would have shown.

use std::{
    io::{self, Cursor, Read, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use eframe::{CreationContext, Frame, NativeOptions, egui_wgpu, wgpu};
use egui::{Ui, ViewportBuilder, ViewportCommand, vec2};
use tunesmith_protocol::NO_RENDERER_STATUS;
use tunesmith_setup::{Folders, env_vars, updates};
use tunesmith_ui::{
    app::{App, Options},
    renderer::{Notes, Rung},
    saved::Saved,
    services::Client,
};

/// The variable by which Mesa's OpenGL is told to compute on the processor.
const SOFTWARE_GL: &str = "LIBGL_ALWAYS_SOFTWARE";

/// By it a desktop knows which entry of its menu a window belongs to; the packages name their entry so.
const APP_ID: &str = "app.tunesmith.Tunesmith";

/// For systems that take a window's icon from the window.
const ICON: &[u8] = include_bytes!("../../assets/icons/png/256.png");

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
    /// Where the service is that leads trainings: at the other end of standard input and output, where a program around
    /// this window hosts it; without this the window starts one
    #[arg(long, value_enum, value_name = "WHERE")]
    service: Option<Service>,
    /// Print how long the first frame took as JSON, and leave
    #[arg(long, hide = true)]
    first_frame: bool,
}

/// A service that outlives this window.
#[derive(Clone, Copy, ValueEnum)]
enum Service {
    /// At the other end of standard input and output.
    Stdio,
}

/// How long a window may live on when the shell has closed its pipe: a driver that hangs in a frame would keep it.
const LEAVE: Duration = Duration::from_millis(1500);

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
    updates::use_fetched_knowledge(&folders);
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
        if cli.service.is_some() && chosen.is_none() && rung.lower().is_some() {
            // Its pipe has one reader for good. The shell starts this program again, which begins one rung lower.
            let _ = writeln!(io::stderr(), "error: no window could be opened ({why})");
            return Ok(ExitCode::FAILURE);
        }
        // A renderer that was asked for by name is the only one that is tried.
        next = if chosen.is_some() { None } else { rung.lower() };
    }
    without_window(&why);
    // The next start tries everything anew: a driver may have been mended.
    Notes::forget(&config)?;
    Ok(match cli.service {
        Some(Service::Stdio) => ExitCode::from(NO_RENDERER_STATUS),
        None => ExitCode::FAILURE,
    })
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
    let shell = cli.service.map(|Service::Stdio| FromShell::listen());
    let config = folders.config().to_owned();
    eframe::run_native(
        "tunesmith",
        native_options(rung, &saved),
        Box::new(move |context| {
            let mut app = App::new(&context.egui_ctx, described(options, context));
            if let Some(shell) = shell {
                app.attach(shell, io::stdout());
            }
            Ok(Box::new(Window {
                app,
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
        .with_app_id(APP_ID)
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
    // The picture is a part of this program. A window without it is still a window.
    if let Ok(icon) = eframe::icon_data::from_png_bytes(ICON) {
        viewport = viewport.with_icon(icon);
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
                self.app.painted();
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

/// What the shell says, read from the very beginning and without waiting for the window: when the shell has closed its end
/// or was killed, this process is over soon, also where a driver hangs in a frame or never comes to one.
struct FromShell {
    chunks: Receiver<Vec<u8>>,
    chunk: Cursor<Vec<u8>>,
}

impl FromShell {
    fn listen() -> Self {
        let (sender, chunks) = channel();
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            let mut stdin = io::stdin().lock();
            while let Ok(bytes @ 1..) = stdin.read(&mut buffer) {
                // A window that takes nothing any more is about to leave.
                let _ = sender.send(buffer[..bytes].to_vec());
            }
            drop(sender);
            thread::sleep(LEAVE);
            std::process::exit(0);
        });
        Self {
            chunks,
            chunk: Cursor::default(),
        }
    }
}

impl Read for FromShell {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.chunk.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            match self.chunks.recv() {
                Ok(chunk) => self.chunk = Cursor::new(chunk),
                Err(_) => return Ok(0),
            }
        }
    }
}

/// Starts this program again with OpenGL computed by the processor: a driver reads the variable when it is loaded, and
/// here it may be loaded already.
fn software() -> Result<ExitCode> {
    let program = std::env::current_exe().context("this program's own file is not known")?;
    let mut again = Command::new(program);
    again
        .args(std::env::args_os().skip(1))
        .env(SOFTWARE_GL, "1")
        .env(env_vars::RENDERER, Rung::Software.name());
    become_it(again).context("the window could not be started again with software rendering")
}

/// In place of this process where the system allows it: whoever started it still has the window by its number.
#[cfg(unix)]
fn become_it(mut command: Command) -> io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(&mut command))
}

#[cfg(not(unix))]
fn become_it(mut command: Command) -> io::Result<ExitCode> {
    let status = command.status()?;
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
