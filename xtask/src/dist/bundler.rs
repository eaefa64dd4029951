//! Packages that Tauri's bundler makes: AppImage, and those of Windows and macOS. It comes from npm as a program and is told by
//! installers/tauri.bundle.json, to which the paths of this build are added. It fetches further tools itself, so that none of these
//! packages can be made without the network. None has been made yet (docs/PACKAGES.md).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::layout::Texts;
use super::programs::{PROGRAMS, SHELL, build_folder, program};
use crate::workspace::Workspace;

/// The bundler's package and the version that the configuration is written for.
const PACKAGE: &str = "@tauri-apps/cli@2.12.5";

/// Makes a package of one kind, as the bundler calls it, and returns its files, which lie in `out`.
pub(super) fn bundle(
    workspace: &Workspace,
    kind: &str,
    target: &str,
    texts: &Texts,
    out: &Path,
) -> Result<Vec<PathBuf>> {
    let work = build_folder(workspace).join("bundle");
    let beside = programs_beside(workspace, &work, target)?;
    let notices = work.join("THIRD-PARTY.txt");
    let sbom = work.join("sbom.cdx.json");
    std::fs::write(&notices, &texts.notices)?;
    std::fs::write(&sbom, &texts.sbom)?;

    let file = workspace.root.join("installers/tauri.bundle.json");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut settings: Value =
        serde_json::from_str(&text).with_context(|| format!("{} cannot be read", file.display()))?;
    settings["bundle"]["externalBin"] = json!(beside);
    settings["bundle"]["resources"] = resources(&[&notices, &sbom])?;
    let settings_file = work.join("settings.json");
    std::fs::write(&settings_file, serde_json::to_string_pretty(&settings)?)?;

    let mut command = Command::new("node");
    command
        .current_dir(workspace.root.join("src-tauri"))
        .env("CARGO_TARGET_DIR", build_folder(workspace))
        .arg(fetched(&work)?)
        .args(["bundle", "--ci", "--bundles", kind, "--config"])
        .arg(&settings_file)
        .stdout(std::io::stderr());
    let status = command
        .status()
        .context("node could not be started; it comes with Node.js")?;
    if !status.success() {
        bail!("Tauri's bundler could not make a package of the kind {kind} ({status}); it says why above");
    }
    let made = build_folder(workspace).join("release/bundle").join(kind);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&made).with_context(|| made.display().to_string())? {
        let entry = entry?;
        if entry.path().is_file() {
            let file = out.join(entry.file_name());
            std::fs::copy(entry.path(), &file).with_context(|| file.display().to_string())?;
            files.push(file);
        }
    }
    files.sort();
    ensure!(
        !files.is_empty(),
        "the bundler said nothing and made nothing in {}",
        made.display()
    );
    Ok(files)
}

/// Copies of the other programs, named as the bundler wants them: with the target, which it leaves out in the package. Returns
/// their paths without it.
fn programs_beside(workspace: &Workspace, work: &Path, target: &str) -> Result<Vec<PathBuf>> {
    let folder = work.join("programs");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for (_, name) in PROGRAMS.into_iter().filter(|(_, name)| *name != SHELL) {
        let copy = folder.join(format!("{name}-{target}{}", std::env::consts::EXE_SUFFIX));
        let built = program(workspace, name);
        std::fs::copy(&built, &copy).with_context(|| built.display().to_string())?;
        names.push(folder.join(name));
    }
    Ok(names)
}

/// Files with the names that they have in the package.
fn resources(files: &[&Path]) -> Result<Value> {
    let mut map = serde_json::Map::new();
    for file in files {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .context("a file has no name")?;
        let path = file.to_str().context("the path of the build is no UTF-8")?;
        map.insert(path.to_owned(), name.into());
    }
    Ok(map.into())
}

/// The bundler's script, fetched once.
fn fetched(work: &Path) -> Result<PathBuf> {
    let script = work.join("node_modules/@tauri-apps/cli/tauri.js");
    if script.is_file() {
        return Ok(script);
    }
    eprintln!("fetching {PACKAGE} with npm into {}", work.display());
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let status = Command::new(npm)
        .args([
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--no-save",
            "--prefix",
        ])
        .arg(work)
        .arg(PACKAGE)
        .stdout(std::io::stderr())
        .status()
        .context("npm could not be started; it comes with Node.js")?;
    if !status.success() {
        bail!("npm could not fetch {PACKAGE}");
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bundler_is_told_names_files_that_are_there() {
        let clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(clone.join("installers/tauri.bundle.json")).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        let bundle = &settings["bundle"];
        let icons = bundle["icon"].as_array().unwrap();
        let named = [
            &bundle["licenseFile"],
            &bundle["windows"]["nsis"]["installerIcon"],
        ];
        for file in icons.iter().chain(named) {
            // Paths are told from the folder of the shell's package.
            let file = clone.join("src-tauri").join(file.as_str().unwrap());
            let from_root = clone.join(file.strip_prefix(clone.join("src-tauri/..")).unwrap());
            assert!(from_root.is_file(), "{}", from_root.display());
        }
    }
}
