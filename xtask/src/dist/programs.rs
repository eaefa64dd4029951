//! The programs of a package: built for release, with no path of the machine that built them inside.
//!
//! Compilers write the paths of source files into programs, for messages of panics and of torch's own checks. They tell a
//! reader nothing and name the builder's folders, so they are replaced while compiling and looked for afterwards.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tunesmith_setup::process::{self, Output};

use crate::ExitWith;
use crate::console::Stages;
use crate::dependencies::Dependencies;
use crate::prepare::Prepared;
use crate::workspace::Workspace;

/// Package and program.
pub(super) const PROGRAMS: [(&str, &str); 4] = [
    ("tunesmith-cli", "tunesmith"),
    ("tunesmith-ui", "tunesmith-ui"),
    ("tunesmith-engine", "tunesmith-engine"),
    ("tunesmith-shell", SHELL),
];

/// The program that needs WebKit; a portable archive does without it.
pub(super) const SHELL: &str = "tunesmith-shell";

/// Where the release build lies, apart from others: flags that replace paths would have cargo compile all anew.
pub(super) fn build_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("dist")
}

/// A built program.
pub(super) fn program(workspace: &Workspace, name: &str) -> PathBuf {
    build_folder(workspace)
        .join("release")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Folders of this machine, and what stands for them in a program. Where one lies in another, the inner one comes later,
/// because the last that fits counts.
pub(super) struct Folders(Vec<(PathBuf, &'static str)>);

impl Folders {
    pub(super) fn of(
        workspace: &Workspace,
        prepared: &Prepared,
        dependencies: &Dependencies,
    ) -> Result<Self> {
        let mut folders = Vec::new();
        if let Some(home) = cargo_home() {
            folders.push((home, "cargo"));
        }
        folders.push((rust_folder(workspace)?, "rust"));
        if let Some(site) = prepared.libtorch.parent() {
            folders.push((site.to_owned(), "runtime"));
        }
        folders.push((workspace.root.clone(), "tunesmith"));
        folders.push((workspace.target.clone(), "build"));
        // Crates lie in one folder for each registry, which is named after it.
        let mut registries: Vec<PathBuf> = dependencies
            .all()
            .into_iter()
            .filter(|package| package.source.is_some())
            .filter_map(|package| package.folder().parent().map(Path::to_owned))
            .collect();
        registries.sort();
        registries.dedup();
        folders.extend(registries.into_iter().map(|folder| (folder, "crates")));
        Ok(Self(folders))
    }

    /// Flags for rustc, in the form of cargo's variable that allows spaces in them.
    fn rust_flags(&self) -> OsString {
        let mut flags = OsString::new();
        for (folder, name) in &self.0 {
            if !flags.is_empty() {
                flags.push("\u{1f}");
            }
            flags.push("--remap-path-prefix=");
            flags.push(folder);
            flags.push("=");
            flags.push(name);
        }
        flags
    }

    /// Flags for C and C++ compilers, after the user's own, quoted as a shell would read them. Only GCC and Clang know them.
    fn c_flags(&self, variable: &str) -> Result<OsString> {
        let mut flags = std::env::var(variable).unwrap_or_default();
        for (folder, name) in &self.0 {
            let folder = folder.to_str().with_context(|| {
                format!(
                    "{} is no UTF-8, which compilers' flags have to be",
                    folder.display()
                )
            })?;
            let flag = format!("-ffile-prefix-map={folder}={name}");
            flags.push_str(&format!(" '{}'", flag.replace('\'', r"'\''")));
        }
        Ok(flags.into())
    }

    /// The first of these folders whose path stands in a file.
    pub(super) fn found_in(&self, file: &Path) -> Result<Option<&Path>> {
        let content = std::fs::read(file).with_context(|| file.display().to_string())?;
        Ok(self
            .0
            .iter()
            .map(|(folder, _)| folder.as_path())
            .find(|folder| contains(&content, folder.as_os_str().as_encoded_bytes())))
    }
}

fn contains(content: &[u8], wanted: &[u8]) -> bool {
    let Some((first, rest)) = wanted.split_first() else {
        return false;
    };
    let mut from = 0;
    while let Some(at) = content[from..].iter().position(|byte| byte == first) {
        from += at + 1;
        if content[from..].starts_with(rest) {
            return true;
        }
    }
    false
}

/// Where cargo keeps what it fetched and installed.
pub(super) fn cargo_home() -> Option<PathBuf> {
    let home = || std::env::home_dir().map(|home| home.join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}

/// Where the standard library's sources lie, if they are installed. Not the folder above, which can be `/usr`.
fn rust_folder(workspace: &Workspace) -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "sysroot"])
        .current_dir(&workspace.root)
        .output()
        .context("rustc could not be started")?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("lib/rustlib"))
}

/// The stage that builds all programs.
pub(super) fn build(
    workspace: &Workspace,
    prepared: &Prepared,
    folders: &Folders,
    stages: &mut Stages,
) -> Result<()> {
    stages.begin(
        "build",
        "four programs for release; the first time about 20 minutes on two cores",
    );
    let mut command = workspace.cargo_with_torch(prepared);
    command
        .args(["build", "--release", "--bins", "--target-dir"])
        .arg(build_folder(workspace));
    for (package, _) in PROGRAMS {
        command.args(["-p", package]);
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", folders.rust_flags());
    if !cfg!(windows) {
        command.env("CC_SHELL_ESCAPED_FLAGS", "1");
        for variable in ["CFLAGS", "CXXFLAGS"] {
            command.env(variable, folders.c_flags(variable)?);
        }
    }
    let ended = prepared.run(&command, Output::ToStderr)?;
    if !ended.status.success() {
        stages.fail();
        eprintln!("error: the build failed; cargo says why above");
        bail!(ExitWith(process::exit_code(ended.status)));
    }
    stages.end("built");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders() -> Folders {
        Folders(vec![
            (PathBuf::from("/home/ann lee"), "cargo"),
            (PathBuf::from("/home/ann lee/it's"), "tunesmith"),
        ])
    }

    #[test]
    fn flags_survive_spaces_and_quotes() {
        assert_eq!(
            folders().rust_flags(),
            "--remap-path-prefix=/home/ann lee=cargo\u{1f}--remap-path-prefix=/home/ann lee/it's=tunesmith"
        );
        let flags = folders().c_flags("A_VARIABLE_THAT_NOBODY_SETS").unwrap();
        let words = shlex::split(flags.to_str().unwrap()).unwrap();
        assert_eq!(
            words,
            [
                "-ffile-prefix-map=/home/ann lee=cargo",
                "-ffile-prefix-map=/home/ann lee/it's=tunesmith"
            ]
        );
    }

    #[test]
    fn a_path_is_found_wherever_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        for (content, found) in [
            (&b"\x7fELF\0/home/ann lee/src/lib.rs\0"[..], true),
            (&b"//home/ann le//home/ann lee"[..], true),
            (&b"/home/ann le/home/ann"[..], false),
            (&b""[..], false),
        ] {
            std::fs::write(&file, content).unwrap();
            assert_eq!(folders().found_in(&file).unwrap().is_some(), found);
        }
    }
}
