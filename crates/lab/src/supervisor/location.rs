//! Which engine is started, and in which environment: the loader must find the user's torch before the engine's
//! first instruction.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use tunesmith_probe::GpuVendor;
use tunesmith_setup::environments::{self, Engine};
use tunesmith_setup::plan::Plan;
use tunesmith_setup::{
    ALLOCATOR_VARIABLES, EngineEnv, Folders, TorchBuild, engine_env, env_vars, find_engine, find_torch,
    loader_variable, memory_fraction, with_memory_fraction,
};

use super::SupervisorError;
use crate::files::{make_folder, write_whole};

const HF_WORKER: &str = include_str!("../../../../assets/workers/hf.py");

/// An engine program with the torch that it runs on.
#[derive(Clone, Debug)]
pub struct EngineLocation {
    program: PathBuf,
    arguments: Vec<OsString>,
    torch: Option<EngineEnv>,
    own_torch: bool,
    /// Set for the engine alone; without a value taken away from it.
    variables: Vec<(OsString, Option<OsString>)>,
}

impl EngineLocation {
    /// The engine named by TUNESMITH_ENGINE or lying beside this program, with the torch named by TUNESMITH_TORCH
    /// or installed by set-up.
    ///
    /// # Errors
    /// [`SupervisorError`] when the engine or a torch of the right version is missing.
    pub fn find(folders: &Folders) -> Result<Self, SupervisorError> {
        let site = find_torch(folders).ok_or_else(|| SupervisorError::Torch {
            code: "torch_not_installed",
            message: "the engine needs libtorch, and none is installed".to_owned(),
            hints: vec![
                "`tunesmith setup --apply` installs it; TUNESMITH_TORCH names the site-packages folder of a torch of your own"
                    .to_owned(),
            ],
        })?;
        Self::on_torch(folders, &site)
    }

    /// The engine as [`EngineLocation::find`] finds it, on the torch in the `site-packages` folder `site`.
    ///
    /// # Errors
    /// As [`EngineLocation::find`].
    pub fn on_torch(folders: &Folders, site: &Path) -> Result<Self, SupervisorError> {
        let program = find_engine().filter(|program| program.is_file()).ok_or_else(|| {
            let beside = || {
                std::env::current_exe()
                    .ok()
                    .map(|exe| exe.with_file_name("tunesmith-engine"))
            };
            let path = env_vars::read(env_vars::ENGINE)
                .map(PathBuf::from)
                .or_else(beside);
            SupervisorError::NoEngine {
                path: path.unwrap_or_else(|| PathBuf::from("tunesmith-engine")),
            }
        })?;
        let torch = engine_env(site).map_err(|error| SupervisorError::Torch {
            code: error.code(),
            message: error.to_string(),
            hints: error.hints(),
        })?;
        let own_torch = site != folders.runtime();
        Ok(Self {
            program,
            arguments: Vec::new(),
            torch: Some(torch),
            own_torch,
            variables: Vec::new(),
        })
    }

    /// An engine that brings its own libraries.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            torch: None,
            own_torch: false,
            variables: Vec::new(),
        }
    }

    /// The second engine, transformers and PEFT, in the Python that TUNESMITH_HF_PYTHON names, or in the environment
    /// that set-up made for it. Its script lies in this program and is written to the cache folder.
    ///
    /// # Errors
    /// [`SupervisorError`] when there is no such Python, or the script cannot be written.
    pub fn transformers(folders: &Folders) -> Result<Self, SupervisorError> {
        let named = env_vars::read(env_vars::HF_PYTHON).map(PathBuf::from);
        let python = named
            .or_else(|| set_up_python(folders))
            .ok_or(SupervisorError::NoPython)?;
        let folder = folders.cache().join("workers");
        make_folder(&folder)?;
        let script = folder.join("hf.py");
        write_whole(&script, HF_WORKER.as_bytes())?;
        let (name, policy) = tunesmith_setup::wait_policy();
        Ok(Self {
            arguments: vec![script.into()],
            ..Self::new(python).with_variable(name, policy)
        })
    }

    /// Sets a variable for the engine alone.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), Some(value.into())));
        self
    }

    /// With the flags and the mask that the plan for this machine's card gives the engine.
    #[must_use]
    pub fn with_plan(mut self, plan: &Plan) -> Self {
        let variables = plan.variables();
        self.variables.extend(
            variables
                .iter()
                .map(|(name, value)| (name.into(), value.map(OsString::from))),
        );
        self
    }

    /// Variables that are set for the engine alone, in order; without a value taken away from it. Of those that are no
    /// Unicode nothing is told.
    pub fn variables(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.variables.iter().filter_map(|(name, value)| {
            let value = match value {
                Some(value) => Some(value.to_str()?),
                None => None,
            };
            Some((name.to_str()?, value))
        })
    }

    /// With a limit on the share of the card's memory that torch may take. What the user has set for torch's allocator
    /// stays, but for a limit of the same kind.
    #[must_use]
    pub fn with_memory_fraction(self, fraction: f64) -> Self {
        // A Python may bring any torch, and an older one refuses the key.
        if self.is_python() {
            return self.with_variable(env_vars::MEMORY_FRACTION, format!("{fraction:.4}"));
        }
        let setting = with_memory_fraction(&self.allocator_setting(), fraction);
        // The first variable that torch looks at, so that it counts whichever the user has set.
        self.with_variable(ALLOCATOR_VARIABLES[0], setting)
    }

    /// The variable that holds that limit, with its value.
    pub fn limit_variable(&self) -> Option<(String, String)> {
        let name = if self.is_python() {
            env_vars::MEMORY_FRACTION
        } else {
            ALLOCATOR_VARIABLES[0]
        };
        let (_, value) = self.variables.iter().rfind(|(set, _)| set == name)?;
        let value = value.as_ref()?.to_str()?.to_owned();
        Some((name.to_owned(), value))
    }

    /// The settings of torch's allocator that the engine is started with.
    pub fn allocator_setting(&self) -> String {
        let value = |name: &str| {
            let set = self.variables.iter().rfind(|(set, _)| set == name);
            set.map_or_else(|| std::env::var_os(name), |(_, value)| value.clone())
        };
        let first = ALLOCATOR_VARIABLES.into_iter().find_map(value);
        first
            .and_then(|value| value.into_string().ok())
            .unwrap_or_default()
    }

    /// The limit of that kind that the engine is started with already.
    pub fn own_memory_fraction(&self) -> Option<f64> {
        memory_fraction(&self.allocator_setting())
    }

    fn is_python(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// The program's file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Version of torch, as its wheel says, where it is known before the engine runs.
    pub fn torch_version(&self) -> Option<&str> {
        self.torch.as_ref().map(|torch| torch.version.as_str())
    }

    /// The maker of the cards that the torch can use. The private runtime can use none: set-up leaves out the
    /// libraries of the cards, though its wheel may be built for them.
    pub fn usable_cards(&self) -> Option<GpuVendor> {
        match &self.torch.as_ref().filter(|_| self.own_torch)?.build {
            TorchBuild::Cuda(_) => Some(GpuVendor::Nvidia),
            TorchBuild::Hip(_) => Some(GpuVendor::Amd),
            TorchBuild::Cpu => None,
        }
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        if let Some(torch) = &self.torch {
            torch.apply(&mut command);
        }
        for (name, value) in &self.variables {
            match (value, &self.torch) {
                (Some(value), _) => command.env(name, value),
                // The engine's own folders stay, and only they.
                (None, Some(torch)) if name == loader_variable() => {
                    command.env(name, torch.own_loader_value())
                }
                (None, _) => command.env_remove(name),
            };
        }
        command
    }
}

/// The Python of the environment that the second engine uses. A record that cannot be understood counts as none, and
/// the error then says how to make one.
fn set_up_python(folders: &Folders) -> Option<PathBuf> {
    environments::active(folders, Engine::Hf).ok().flatten()?.python
}
