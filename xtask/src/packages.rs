//! System packages: what no package of ours can bring. The one command is shown first and run only after a yes.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
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
    /// A Vulkan driver that computes on the processor: the window's pictures are drawn with it.
    Vulkan,
    /// A display without a screen.
    Display,
    /// Keys for windows on it.
    Keys,
    /// What the window opens to read the keyboard with.
    Keyboard,
    /// What builds find libraries with.
    PkgConfig,
    /// What shows reports in the installed app.
    WebKit,
    /// A session's bus, for the app's tests.
    Bus,
    /// What packs debs and reads from programs which packages they need.
    DebTools,
    /// What packs rpms.
    RpmTools,
    /// What checks menu entries.
    MenuCheck,
    /// What checks descriptions for software centres.
    DescriptionCheck,
}

/// What a command needs of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// Building and running the engine.
    Engine,
    /// The tests too, which draw the window.
    Tests,
    /// Making packages and testing them.
    Packages,
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
            (Self::Apt | Self::Dnf, Missing::Vulkan) => "mesa-vulkan-drivers",
            (Self::Pacman, Missing::Vulkan) => "vulkan-swrast",
            (Self::Apt, Missing::Display) => "xvfb",
            (Self::Dnf, Missing::Display) => "xorg-x11-server-Xvfb",
            (Self::Pacman, Missing::Display) => "xorg-server-xvfb",
            (_, Missing::Keys) => "xdotool",
            (Self::Apt, Missing::Keyboard) => "libxkbcommon-x11-0",
            (Self::Dnf | Self::Pacman, Missing::Keyboard) => "libxkbcommon-x11",
            (Self::Apt, Missing::PkgConfig) => "pkg-config",
            (Self::Dnf | Self::Pacman, Missing::PkgConfig) => "pkgconf",
            (Self::Apt, Missing::WebKit) => "libwebkit2gtk-4.1-dev",
            (Self::Dnf, Missing::WebKit) => "webkit2gtk4.1-devel",
            (Self::Pacman, Missing::WebKit) => "webkit2gtk-4.1",
            (Self::Apt | Self::Pacman, Missing::Bus) => "dbus",
            (Self::Dnf, Missing::Bus) => "dbus-daemon",
            (Self::Apt | Self::Dnf, Missing::DebTools) => "dpkg-dev",
            (Self::Pacman, Missing::DebTools) => "dpkg",
            (Self::Apt, Missing::RpmTools) => "rpm",
            (Self::Dnf, Missing::RpmTools) => "rpm-build",
            (Self::Pacman, Missing::RpmTools) => "rpm-tools",
            (_, Missing::MenuCheck) => "desktop-file-utils",
            (_, Missing::DescriptionCheck) => "appstream",
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

/// Makes sure that a C++ compiler and Python are there, and pip where uv has yet to be installed; for tests also what
/// draws a window without a screen.
pub(crate) fn ensure(setup: &Setup, purpose: For, yes: bool, stages: &mut Stages) -> Result<()> {
    stages.begin_quietly("system packages");
    let missing = find_missing(setup, purpose);
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
    let still = find_missing(setup, purpose);
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
            Missing::Vulkan => "a Vulkan driver for processors",
            Missing::Display => "Xvfb",
            Missing::Keys => "xdotool",
            Missing::Keyboard => "libxkbcommon for X11",
            Missing::PkgConfig => "pkg-config",
            Missing::WebKit => "WebKitGTK 4.1 to build against",
            Missing::Bus => "dbus-daemon",
            Missing::DebTools => "dpkg-shlibdeps",
            Missing::RpmTools => "rpmbuild",
            Missing::MenuCheck => "desktop-file-validate",
            Missing::DescriptionCheck => "appstreamcli",
        })
        .collect();
    names.join(", ")
}

fn find_missing(setup: &Setup, purpose: For) -> Vec<Missing> {
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
    if purpose != For::Engine && cfg!(target_os = "linux") {
        missing.extend(missing_for_windows());
        missing.extend(missing_for_the_app());
    }
    if purpose == For::Packages && cfg!(target_os = "linux") {
        missing.extend(missing_for_packages());
    }
    missing
}

/// What packs packages and checks them. Other systems have one tool for it, which npm brings.
fn missing_for_packages() -> Vec<Missing> {
    [
        ("dpkg-shlibdeps", Missing::DebTools),
        ("rpmbuild", Missing::RpmTools),
        ("desktop-file-validate", Missing::MenuCheck),
        ("appstreamcli", Missing::DescriptionCheck),
    ]
    .into_iter()
    .filter_map(|(program, what)| (!on_path(program)).then_some(what))
    .collect()
}

/// What draws a window where there is no screen and no card. Other systems than Linux have a screen.
fn missing_for_windows() -> Vec<Missing> {
    let driver = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"]
        .into_iter()
        .any(|folder| has_file(Path::new(folder), "lvp_icd"));
    let keyboard = ["/usr/lib", "/usr/lib64", "/lib", "/lib64"]
        .map(PathBuf::from)
        .into_iter()
        .flat_map(|folder| {
            [
                folder.join(format!("{}-linux-gnu", std::env::consts::ARCH)),
                folder,
            ]
        })
        .any(|folder| has_file(&folder, "libxkbcommon-x11.so"));
    [
        (driver, Missing::Vulkan),
        (on_path("Xvfb"), Missing::Display),
        (on_path("xdotool"), Missing::Keys),
        (keyboard, Missing::Keyboard),
    ]
    .into_iter()
    .filter_map(|(there, what)| (!there).then_some(what))
    .collect()
}

/// What the installed app is built against and tested with. Other systems have a webview and no bus.
fn missing_for_the_app() -> Vec<Missing> {
    let webkit = Command::new("pkg-config")
        .args(["--exists", "webkit2gtk-4.1"])
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    [
        (on_path("pkg-config"), Missing::PkgConfig),
        (webkit, Missing::WebKit),
        (on_path("dbus-daemon"), Missing::Bus),
    ]
    .into_iter()
    .filter_map(|(there, what)| (!there).then_some(what))
    .collect()
}

/// Whether a folder has a file whose name begins like this.
fn has_file(folder: &Path, beginning: &str) -> bool {
    std::fs::read_dir(folder).is_ok_and(|entries| {
        entries
            .filter_map(Result::ok)
            .any(|entry| entry.file_name().to_string_lossy().starts_with(beginning))
    })
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
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
        assert_eq!(
            Manager::Apt.script(&[
                Missing::Vulkan,
                Missing::Display,
                Missing::Keys,
                Missing::Keyboard
            ]),
            "apt-get update && apt-get install -y mesa-vulkan-drivers xvfb xdotool libxkbcommon-x11-0"
        );
    }
}
