//! The set-up that every command shares, as numbered stages: system packages, uv, torch runtime, default model.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tunesmith_setup::process::{self, Cancel, Ended, Output};
use tunesmith_setup::{EngineEnv, Folders, Ready, Report, Setup, SetupError, engine_env};

use crate::console::Stages;
use crate::packages::For;
use crate::{ExitWith, packages};

/// Commands that end with this program, however it ends.
pub(crate) struct Children {
    guard: Vec<OsString>,
    cancel: Cancel,
}

impl Children {
    /// From here on Ctrl-C is a request: what runs is stopped as a whole.
    pub(crate) fn new() -> Result<Self> {
        let children = Self {
            guard: guard()?,
            cancel: Cancel::default(),
        };
        on_ctrl_c(&children.cancel)?;
        Ok(children)
    }

    /// Runs `command` behind the guard, to its end. A Ctrl-C meanwhile ends this program with 130.
    pub(crate) fn run(&self, command: &Command, output: Output) -> Result<Ended> {
        run(command, &self.guard, &self.cancel, output)
    }
}

/// What stands before a command so that it does not outlive this program.
fn guard() -> Result<Vec<OsString>> {
    let myself = std::env::current_exe().context("this program's own file is unknown")?;
    Ok(vec![myself.into(), OsString::from("guard"), OsString::from("--")])
}

fn on_ctrl_c(cancel: &Cancel) -> Result<()> {
    let cancel = cancel.clone();
    ctrlc::set_handler(move || cancel.cancel()).context("Ctrl-C cannot be handled")
}

fn run(command: &Command, guard: &[OsString], cancel: &Cancel, output: Output) -> Result<Ended> {
    let ended = process::run(command, Some(guard), cancel, output, &mut || {})
        .with_context(|| format!("{} could not be started", command.get_program().display()))?;
    if ended.cancelled {
        eprintln!("stopped");
        bail!(ExitWith(130));
    }
    Ok(ended)
}

/// A machine that is set up.
pub(crate) struct Prepared {
    setup: Setup,
    uv: PathBuf,
    /// The environment of engines on the private runtime, or on the torch that TUNESMITH_TORCH names.
    pub(crate) engine_env: EngineEnv,
    /// What the engine is built against: the private runtime's `torch` folder.
    pub(crate) libtorch: PathBuf,
    /// The default model's file.
    pub(crate) model: PathBuf,
}

impl Prepared {
    /// The number of stages that [`Prepared::new`] takes.
    pub(crate) const STAGES: usize = 4;

    /// Runs the stages; each is over at once if its result is there. `yes` installs system packages without asking.
    pub(crate) fn new(yes: bool, stages: &mut Stages) -> Result<Self> {
        Self::with_packages(For::Engine, yes, stages)
    }

    /// As [`Prepared::new`], with the system packages for a purpose.
    pub(crate) fn with_packages(purpose: For, yes: bool, stages: &mut Stages) -> Result<Self> {
        let mut setup = Setup::new(Folders::from_env()?);
        setup.guard = Some(guard()?);
        packages::ensure(&setup, purpose, yes, stages)?;

        // From here on Ctrl-C is a request: the running stage stops its children and removes what is half-made.
        // Not before, or a question on the terminal could not be left.
        on_ctrl_c(&setup.cancel)?;

        let uv = stage(stages, "uv", |report| setup.ensure_uv(report))?;
        let runtime = stage(stages, "torch runtime", |report| {
            setup.ensure_runtime(&uv, report)
        })?;
        let model = stage(stages, "default model", |report| setup.ensure_model(&uv, report))?;
        let site = tunesmith_setup::env_vars::read(tunesmith_setup::env_vars::TORCH)
            .map_or_else(|| runtime.clone(), PathBuf::from);
        Ok(Self {
            engine_env: engine_env(&site)?,
            libtorch: runtime.join("torch"),
            setup,
            uv,
            model,
        })
    }

    /// One more stage that installs something.
    pub(crate) fn install<T>(
        &self,
        stages: &mut Stages,
        name: &str,
        ensure: impl FnOnce(&Setup, &Path, &mut dyn FnMut(&Report)) -> Result<Ready<T>, SetupError>,
    ) -> Result<T> {
        stage(stages, name, |report| ensure(&self.setup, &self.uv, report))
    }

    /// Runs `command` behind the guard, to its end. A Ctrl-C meanwhile ends this program with 130.
    pub(crate) fn run(&self, command: &Command, output: Output) -> Result<Ended> {
        run(
            command,
            self.setup.guard.as_deref().unwrap_or_default(),
            &self.setup.cancel,
            output,
        )
    }
}

fn stage<T>(
    stages: &mut Stages,
    name: &str,
    ensure: impl FnOnce(&mut dyn FnMut(&Report)) -> Result<Ready<T>, SetupError>,
) -> Result<T> {
    stages.begin_quietly(name);
    match ensure(&mut |report| stages.report(report)) {
        Ok(ready) => {
            stages.end(if ready.installed { "installed" } else { "present" });
            Ok(ready.value)
        }
        Err(error) => {
            stages.fail();
            Err(error.into())
        }
    }
}
