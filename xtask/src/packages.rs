//! System packages: what no package of ours can bring. The one command is shown first and run only after a yes.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tunesmith_setup::{Setup, find_python, has_pip};

use crate::console::Stages;

/// Something that must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Compiler,
    Python,
    Pip,
}

/// A system's installer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Apt,
    Dnf,
    Pacman,
}

impl Manager {
    const ALL: [Self; 3] = [Self::Apt, Self::Dnf, Self::Pacman];

    fn program(self) -> &'static str {
        match self {
            Self::Apt => "apt-get",
            Self::Dnf => "dnf",
            Self::Pacman => "pacman",
        }
    }

    fn package(self, missing: Missing) -> &'static str {
        match (self, missing) {
            (Self::Apt, Missing::Compiler) => "g++",
            (Self::Dnf, Missing::Compiler) => "gcc-c++",
            (Self::Pacman, Missing::Compiler) => "gcc",
            (Self::Apt | Self::Dnf, Missing::Python) => "python3",
            (Self::Apt | Self::Dnf, Missing::Pip) => "python3-pip",
            (Self::Pacman, Missing::Python) => "python",
            (Self::Pacman, Missing::Pip) => "python-pip",
        }
    }

    /// The words for a shell, without `sudo`.
    fn script(self, missing: &[Missing]) -> String {
        let packages: Vec<_> = missing.iter().map(|what| self.package(*what)).collect();
        let packages = packages.join(" ");
        match self {
            Self::Apt => format!("apt-get update && apt-get install -y {packages}"),
            Self::Dnf => format!("dnf install -y {packages}"),
            Self::Pacman => format!("pacman -S --needed --noconfirm {packages}"),
        }
    }
}

/// Makes sure that a C++ compiler and Python are there, and pip where uv has yet to be installed.
pub(crate) fn ensure(setup: &Setup, yes: bool, stages: &mut Stages) -> Result<()> {
    stages.begin_quietly("system packages");
    let missing = find_missing(setup);
    if missing.is_empty() {
        stages.end("present");
        return Ok(());
    }
    let names = describe(&missing);
    let Some(manager) = Manager::ALL.into_iter().find(|manager| runs(manager.program())) else {
        bail!(
            "missing: {names}; this system has none of apt-get, dnf and pacman, so install them yourself and run the \
             same command again"
        );
    };
    let root = is_root();
    let script = manager.script(&missing);
    let shown = if root {
        script.clone()
    } else {
        format!("sudo sh -c '{script}'")
    };
    eprintln!("missing: {names}; this installs them:\n\n    {shown}\n");
    if !may_run(yes, root)? {
        bail!(
            "nothing was installed; run this command yourself, then the same command again:\n\n    {shown}\n"
        );
    }
    let mut command = if root {
        Command::new("sh")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("sh");
        sudo
    };
    let status = command
        .args(["-c", &script])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("{} could not be started", command.get_program().display()))?;
    if !status.success() {
        bail!(
            "the system packages could not be installed ({status}); run this command yourself and read what it says:\n\n    {shown}\n"
        );
    }
    let still = find_missing(setup);
    if !still.is_empty() {
        bail!(
            "the command went well, but this is still missing: {}",
            describe(&still)
        );
    }
    stages.end("installed");
    Ok(())
}

fn describe(missing: &[Missing]) -> String {
    let names: Vec<_> = missing
        .iter()
        .map(|what| match what {
            Missing::Compiler => "a C++ compiler (c++, or what CXX names)",
            Missing::Python => "Python 3.10 or newer",
            Missing::Pip => "pip for Python",
        })
        .collect();
    names.join(", ")
}

fn find_missing(setup: &Setup) -> Vec<Missing> {
    let mut missing = Vec::new();
    let compiler = std::env::var_os("CXX").map_or_else(|| "c++".into(), PathBuf::from);
    if !runs(compiler) {
        missing.push(Missing::Compiler);
    }
    let python = find_python(setup.python.as_deref());
    if python.is_err() {
        missing.push(Missing::Python);
    }
    if setup.find_uv().is_none() && !python.is_ok_and(|python| has_pip(&python)) {
        missing.push(Missing::Pip);
    }
    missing
}

fn runs(program: impl AsRef<std::ffi::OsStr>) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// A yes on the command line, or root with nobody to ask (as in continuous integration), or the user's answer.
fn may_run(yes: bool, root: bool) -> Result<bool> {
    let someone_to_ask = std::io::stdin().is_terminal();
    if yes || (root && !someone_to_ask) {
        return Ok(true);
    }
    if !someone_to_ask {
        return Ok(false);
    }
    eprint!("Run it now? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_manager_gets_one_command_with_its_own_names() {
        let all = [Missing::Compiler, Missing::Python, Missing::Pip];
        assert_eq!(
            Manager::Apt.script(&all),
            "apt-get update && apt-get install -y g++ python3 python3-pip"
        );
        assert_eq!(
            Manager::Dnf.script(&all),
            "dnf install -y gcc-c++ python3 python3-pip"
        );
        assert_eq!(
            Manager::Pacman.script(&[Missing::Compiler]),
            "pacman -S --needed --noconfirm gcc"
        );
    }
}
