//! The clone and its build: where programs land, and cargo with the environment that the engine needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tunesmith_setup::env_vars;
use tunesmith_setup::process::{self, Output};

use crate::ExitWith;
use crate::console::Stages;
use crate::prepare::Prepared;

/// The clone, and where cargo builds it.
pub(crate) struct Workspace {
    /// The clone's root.
    pub(crate) root: PathBuf,
    /// Cargo's target folder, wherever the user's settings put it.
    pub(crate) target: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        // Cargo says at run time which clone it runs in. What it said at compile time may be another clone: two that
        // share a target folder share this program too, as long as its source files are not newer.
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package
            .parent()
            .context("the workspace has no root folder")?
            .to_path_buf();
        let output = cargo_in(&root)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .context("cargo could not be started")?;
        if !output.status.success() {
            bail!(
                "cargo cannot read the workspace: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let target = metadata["target_directory"]
            .as_str()
            .context("cargo names no target folder")?
            .into();
        Ok(Self { root, target })
    }

    fn program(&self, name: &str) -> PathBuf {
        self.target
            .join("debug")
            .join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }

    /// The engine's program, once built.
    pub(crate) fn engine(&self) -> PathBuf {
        self.program("tunesmith-engine")
    }

    /// The command line program, once built.
    pub(crate) fn cli(&self) -> PathBuf {
        self.program("tunesmith")
    }

    /// `cargo`, without the engine's environment.
    pub(crate) fn cargo(&self) -> Command {
        cargo_in(&self.root)
    }

    /// `cargo` for commands that build or run the engine. LIBTORCH is always the same text, or torch's bindings
    /// would be compiled again.
    pub(crate) fn cargo_with_torch(&self, prepared: &Prepared) -> Command {
        let mut command = self.cargo();
        prepared.engine_env.apply(&mut command);
        command
            .env("LIBTORCH", &prepared.libtorch)
            .env(env_vars::ENGINE, self.engine());
        command
    }

    /// The command line program with its engine. Which torch it uses, a card's or the processor's, it finds itself.
    pub(crate) fn tunesmith(&self) -> Command {
        let mut command = Command::new(self.cli());
        command.env(env_vars::ENGINE, self.engine());
        command
    }

    /// The window's program, with the program and the engine that it starts.
    pub(crate) fn window(&self) -> Command {
        let mut command = Command::new(self.program("tunesmith-ui"));
        command
            .env(env_vars::ENGINE, self.engine())
            .env(env_vars::PROGRAM, self.cli());
        command
    }

    /// A script of `xtask/python` that starts the engine; further arguments are the caller's.
    pub(crate) fn script(&self, prepared: &Prepared, python: &Path, script: &str) -> Command {
        let mut command = Command::new(python);
        prepared.engine_env.apply(&mut command);
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .arg(self.root.join("xtask/python").join(script))
            .arg("--engine")
            .arg(self.engine());
        command
    }

    /// The stage that builds the engine, the command line program and `more` programs. Of the whole workspace, so that
    /// dependencies get the features that they have in the tests, and are compiled once for both.
    pub(crate) fn build(&self, prepared: &Prepared, more: &[&str], stages: &mut Stages) -> Result<()> {
        let note = if self.engine().exists() {
            "what has changed since the last build"
        } else {
            "the first time everything, several minutes on two cores; torch's bindings are the longest piece"
        };
        stages.begin("build", note);
        let mut command = self.cargo_with_torch(prepared);
        command.args(["build", "--workspace"]);
        command.args(
            ["tunesmith", "tunesmith-engine"]
                .iter()
                .chain(more)
                .flat_map(|program| ["--bin", program]),
        );
        let ended = prepared.run(&command, Output::ToStderr)?;
        if !ended.status.success() {
            eprintln!("error: the build failed; cargo says why above");
            bail!(ExitWith(process::exit_code(ended.status)));
        }
        stages.end("built");
        Ok(())
    }
}

fn cargo_in(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}
