//! A root of its own to install packages in: this system as it is, without the clone, without Rust, and without the builder's
//! home, and with every change kept apart (installers/linux/clean-root.sh).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

/// The home of the one who uses the packages there.
pub(super) const HOME: &str = "/home/tunesmith tester";

/// A root that lives until it is dropped.
pub(super) struct CleanRoot {
    script: PathBuf,
    work: PathBuf,
    hidden: Vec<PathBuf>,
    shown: Vec<(PathBuf, PathBuf)>,
    /// Variables of every command.
    variables: Vec<(OsString, OsString)>,
    /// The user and group that commands run as, if not root.
    user: Option<u32>,
}

impl CleanRoot {
    /// One below `work`, which is emptied.
    ///
    /// # Errors
    /// Where this system does not let us make one: that takes root, and the right to mount.
    pub(super) fn new(clone: &Path, work: PathBuf) -> Result<Self> {
        if work.exists() {
            std::fs::remove_dir_all(&work)
                .with_context(|| format!("{} cannot be emptied", work.display()))?;
        }
        std::fs::create_dir_all(&work)?;
        let root = Self {
            script: clone.join("installers/linux/clean-root.sh"),
            work,
            hidden: Vec::new(),
            shown: Vec::new(),
            variables: vec![
                ("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into()),
                ("HOME".into(), HOME.into()),
                ("LANG".into(), "C.UTF-8".into()),
                ("DEBIAN_FRONTEND".into(), "noninteractive".into()),
            ],
            user: None,
        };
        let tried = root.command("true", &[] as &[&str]).output();
        match tried {
            Ok(output) if output.status.success() => Ok(root),
            Ok(output) => bail!(
                "a root of its own for packages cannot be made: {}; it takes root and the right to mount (in a container \
                 --privileged, and a target folder that lies on a disk)",
                String::from_utf8_lossy(&output.stderr).trim()
            ),
            Err(error) => Err(error).context("unshare could not be started; it is in the package util-linux"),
        }
    }

    /// Makes a folder empty there.
    pub(super) fn hide(mut self, folder: impl Into<PathBuf>) -> Self {
        self.hidden.push(folder.into());
        self
    }

    /// Shows a folder of this system at another place there, to be read only.
    pub(super) fn show(mut self, from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        self.shown.push((from.into(), to.into()));
        self
    }

    /// Sets a variable for every command.
    pub(super) fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Commands run as this user and group from here on.
    pub(super) fn for_user(mut self, id: u32) -> Self {
        self.user = Some(id);
        self
    }

    /// Where the changes that were made to a path there lie here.
    pub(super) fn changed(&self, path: &str) -> PathBuf {
        self.work.join("changes").join(path.trim_start_matches('/'))
    }

    /// A command there.
    pub(super) fn command(&self, program: &str, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh"])
            .arg(&self.script)
            .arg(&self.work);
        for folder in &self.hidden {
            command.arg("hide").arg(folder);
        }
        for (from, to) in &self.shown {
            command.arg("show").arg(from).arg(to);
        }
        command.arg("run");
        if let Some(id) = self.user {
            let ids = [format!("--reuid={id}"), format!("--regid={id}")];
            command.arg("setpriv").args(ids).arg("--clear-groups");
        }
        command.args(["env", "--ignore-environment"]);
        for (name, value) in &self.variables {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            command.arg(pair);
        }
        command.arg(program).args(arguments);
        command
    }

    /// Runs a command there, shows what it says on standard error, and returns what it prints.
    ///
    /// # Errors
    /// Where it does not end with one of the statuses.
    pub(super) fn run(&self, program: &str, arguments: &[&str], statuses: &[i32]) -> Result<String> {
        let output = self
            .command(program, arguments)
            .stderr(std::process::Stdio::inherit())
            .output()
            .with_context(|| format!("{program} could not be started"))?;
        self.check(program, arguments, statuses, &output)
    }

    fn check(&self, program: &str, arguments: &[&str], statuses: &[i32], output: &Output) -> Result<String> {
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let fine = output.status.code().is_some_and(|code| statuses.contains(&code));
        ensure!(
            fine,
            "`{program} {}` ended with {} in {}:\n{printed}",
            arguments.join(" "),
            output.status,
            self.work.display()
        );
        Ok(printed)
    }
}

impl Drop for CleanRoot {
    fn drop(&mut self) {
        // Nothing is mounted any more: mounts ended with the commands. What stays is a few megabytes below the build folder.
        let _ = std::fs::remove_dir_all(&self.work);
    }
}
