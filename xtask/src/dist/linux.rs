//! The packages of Linux, each packed by the system's own tool from one tree: tar, dpkg-deb, rpmbuild. Tauri's bundler could
//! write deb and rpm too, but names the menu entry its own way and builds what is built already (docs/PACKAGES.md).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::programs::{PROGRAMS, SHELL};
use super::tree::Tree;

/// What every package of one version has in common.
pub(super) struct Packing<'a> {
    /// The clone.
    pub(super) root: &'a Path,
    /// The finished packages' folder.
    pub(super) out: &'a Path,
    /// A folder for what is made on the way.
    pub(super) work: &'a Path,
    pub(super) version: &'a str,
    /// Seconds since 1970 that files of a package bear as their time, so that the same commit gives the same package.
    pub(super) epoch: u64,
}

/// installers/linux/packages.toml.
#[derive(Deserialize)]
pub(super) struct About {
    name: String,
    section: String,
    maintainer: String,
    summary: String,
    description: String,
    opened: Vec<Opened>,
}

/// A library or program that is opened by name.
#[derive(Deserialize)]
struct Opened {
    deb: String,
    rpm: String,
    needed: bool,
}

impl About {
    pub(super) fn load(clone: &Path) -> Result<Self> {
        let file = clone.join("installers/linux/packages.toml");
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        toml::from_str(&text).with_context(|| format!("{} cannot be read", file.display()))
    }

    fn opened(&self, needed: bool, name: impl Fn(&Opened) -> &str) -> Vec<&str> {
        let wanted = self.opened.iter().filter(|opened| opened.needed == needed);
        wanted.map(name).collect()
    }
}

/// `tunesmith-0.1.0-linux-x86_64.tar.gz`, with one folder of that name inside.
pub(super) fn tar(tree: &Tree, packing: &Packing<'_>) -> Result<PathBuf> {
    let name = tree.root.file_name().context("the tree has no name")?;
    let file = packing.out.join(format!("{}.tar.gz", name.display()));
    let mut command = Command::new("tar");
    command
        .args([
            "--create",
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
        ])
        .arg(format!("--mtime=@{}", packing.epoch))
        .args(["--use-compress-program", "gzip -9 --no-name", "--file"])
        .arg(&file)
        .arg("--directory")
        .arg(tree.root.parent().context("the tree lies nowhere")?)
        .arg(name);
    succeed(&mut command)?;
    Ok(file)
}

/// `tunesmith_0.1.0_amd64.deb`. `libraries` are folders of libraries that are no part of any package.
pub(super) fn deb(
    tree: &Tree,
    about: &About,
    libraries: &[PathBuf],
    packing: &Packing<'_>,
) -> Result<PathBuf> {
    let tree = tree.copied_to(packing.work.join("deb"))?;
    tree.rename(
        "usr/share/zsh/site-functions/_tunesmith",
        "usr/share/zsh/vendor-completions/_tunesmith",
    )?;
    let copyright = std::fs::read_to_string(packing.root.join("installers/linux/copyright"))?;
    let mit = std::fs::read_to_string(packing.root.join("LICENSE-MIT"))?;
    tree.write(
        "usr/share/doc/tunesmith/copyright",
        copyright.trim_end().to_owned() + "\n" + &indented(&mit),
    )?;
    mark(&tree, "DEB")?;
    let linked = linked_packages(&tree, libraries, packing)?;
    let control = deb_control(about, packing.version, &linked, tree.bytes()?);
    pack_deb(&tree, &control, packing)
}

fn pack_deb(tree: &Tree, control: &str, packing: &Packing<'_>) -> Result<PathBuf> {
    let sums = md5sums(tree)?;
    tree.write("DEBIAN/control", control)?;
    tree.write("DEBIAN/md5sums", sums)?;
    tree.settle_rights(|path| path.starts_with("usr/bin"))?;
    let file = packing.out.join(format!(
        "tunesmith_{}_{}.deb",
        packing.version,
        deb_architecture()
    ));
    let mut command = Command::new("dpkg-deb");
    command
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&tree.root)
        .arg(&file)
        .env("SOURCE_DATE_EPOCH", packing.epoch.to_string())
        .stdout(std::io::stderr());
    succeed(&mut command)?;
    Ok(file)
}

/// The fields of a package; `linked` are the packages that dpkg-shlibdeps found.
fn deb_control(about: &About, version: &str, linked: &str, bytes: u64) -> String {
    let depends: Vec<_> = std::iter::once(linked)
        .chain(about.opened(true, |opened| &opened.deb))
        .collect();
    let depends = depends.join(", ");
    let recommends = about.opened(false, |opened| &opened.deb).join(", ");
    let size = bytes.div_ceil(1024).to_string();
    let mut control = String::new();
    for (field, value) in [
        ("Package", about.name.as_str()),
        ("Version", version),
        ("Architecture", deb_architecture()),
        ("Maintainer", about.maintainer.as_str()),
        ("Installed-Size", size.as_str()),
        ("Depends", depends.as_str()),
        ("Recommends", recommends.as_str()),
        ("Section", about.section.as_str()),
        ("Priority", "optional"),
        ("Description", about.summary.as_str()),
    ] {
        let _ = writeln!(control, "{field}: {value}");
    }
    control + &indented(about.description.trim())
}

/// As Debian's control files continue a field: a space before each line, a dot for an empty one.
fn indented(text: &str) -> String {
    let line = |line: &str| {
        let line = if line.trim().is_empty() { "." } else { line };
        format!(" {line}\n")
    };
    text.lines().map(line).collect()
}

fn deb_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The packages of the libraries that the programs are linked with. torch's own are found in `libraries` and belong to none.
fn linked_packages(tree: &Tree, libraries: &[PathBuf], packing: &Packing<'_>) -> Result<String> {
    let folder = packing.work.join("shlibdeps");
    std::fs::create_dir_all(folder.join("debian"))?;
    // The tool works in the folder of a source package.
    std::fs::write(
        folder.join("debian/control"),
        "Source: tunesmith\n\nPackage: tunesmith\nArchitecture: any\n",
    )?;
    let mut command = Command::new("dpkg-shlibdeps");
    command
        .current_dir(&folder)
        .args(["-O", "--ignore-missing-info", "--warnings=0"]);
    for library in libraries {
        let mut flag = OsString::from("-l");
        flag.push(library);
        command.arg(flag);
    }
    for (_, program) in PROGRAMS {
        command.arg("-e").arg(tree.root.join("usr/bin").join(program));
    }
    let output = command
        .output()
        .context("dpkg-shlibdeps could not be started; it is in the package dpkg-dev")?;
    if !output.status.success() {
        bail!(
            "dpkg-shlibdeps could not tell the libraries: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let told = String::from_utf8_lossy(&output.stdout);
    let depends = told.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(depends
        .context("dpkg-shlibdeps named no package")?
        .trim()
        .to_owned())
}

/// Checksums by which dpkg finds files that were changed after they were installed.
fn md5sums(tree: &Tree) -> Result<Vec<u8>> {
    let paths: Vec<_> = tree.entries()?.into_iter().map(|entry| entry.path).collect();
    let output = Command::new("md5sum")
        .current_dir(&tree.root)
        .arg("--")
        .args(paths)
        .output()
        .context("md5sum could not be started")?;
    ensure!(output.status.success(), "md5sum failed ({})", output.status);
    Ok(output.stdout)
}

/// `tunesmith-0.1.0-1.x86_64.rpm`.
pub(super) fn rpm(tree: &Tree, about: &About, packing: &Packing<'_>) -> Result<PathBuf> {
    let tree = tree.copied_to(packing.work.join("rpm"))?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let place = Path::new("usr/share/licenses/tunesmith").join(licence);
        tree.copy(&packing.root.join(licence), place)?;
    }
    mark(&tree, "RPM")?;
    tree.settle_rights(|path| path.starts_with("usr/bin"))?;

    // rpmbuild cannot work below a path with spaces, and this clone may lie at one.
    let folder = std::env::temp_dir().join(format!("tunesmith-rpm-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let name = format!("tunesmith-{}-1.{}.rpm", packing.version, std::env::consts::ARCH);
    let made = rpmbuild(&tree, about, packing, &folder, &name);
    let file = packing.out.join(&name);
    let copied = made.and_then(|()| Ok(std::fs::copy(folder.join(&name), &file)?));
    // What is left in the system's folder for temporary files is no fault of the package.
    let _ = std::fs::remove_dir_all(&folder);
    copied?;
    Ok(file)
}

fn rpmbuild(tree: &Tree, about: &About, packing: &Packing<'_>, folder: &Path, name: &str) -> Result<()> {
    let list = folder.join("files");
    std::fs::write(&list, rpm_files(tree)?)?;
    let description = folder.join("description");
    std::fs::write(&description, about.description.trim())?;
    let mut command = Command::new("rpmbuild");
    command
        .args(["-bb", "--quiet"])
        .env("SOURCE_DATE_EPOCH", packing.epoch.to_string())
        .stdout(std::io::stderr());
    let folder = folder.display().to_string();
    for (macro_name, value) in [
        ("_topdir", folder.clone()),
        ("_rpmdir", folder),
        ("_rpmfilename", name.to_owned()),
        ("_buildhost", "localhost".to_owned()),
        ("_binary_payload", "w19.zstdio".to_owned()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        ("app_version", packing.version.to_owned()),
        ("app_summary", capitalised(&about.summary)),
        ("stage", tree.root.display().to_string()),
        ("file_list", list.display().to_string()),
        ("description_file", description.display().to_string()),
        ("requires", about.opened(true, |opened| &opened.rpm).join(" ")),
        ("recommends", about.opened(false, |opened| &opened.rpm).join(" ")),
    ] {
        command.arg("--define").arg(format!("{macro_name} {value}"));
    }
    command.arg(packing.root.join("installers/linux/tunesmith.spec"));
    succeed(&mut command)
}

/// Each file as the `%files` section takes it, marked as what it is.
fn rpm_files(tree: &Tree) -> Result<String> {
    let mut list = String::new();
    for entry in tree.entries()? {
        let kind = if entry.path.starts_with("usr/share/licenses") {
            "%license "
        } else if entry.path.starts_with("usr/share/doc") || entry.path.starts_with("usr/share/man") {
            "%doc "
        } else {
            ""
        };
        let _ = writeln!(list, "{kind}\"/{}\"", entry.path.display());
    }
    for own in ["doc", "licenses"] {
        let _ = writeln!(list, "%dir \"/usr/share/{own}/tunesmith\"");
    }
    Ok(list)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Tells the shell in a tree which package it is in, where Tauri's updater looks: the bytes stand in the program to be replaced.
fn mark(tree: &Tree, kind: &str) -> Result<()> {
    let file = tree.root.join("usr/bin").join(SHELL);
    let mut content = std::fs::read(&file).with_context(|| file.display().to_string())?;
    if !replace(
        &mut content,
        b"__TAURI_BUNDLE_TYPE_VAR_UNK",
        format!("__TAURI_BUNDLE_TYPE_VAR_{kind}").as_bytes(),
    ) {
        bail!("{SHELL} has no place where the kind of its package is told, so that it could not be updated");
    }
    std::fs::write(&file, content).with_context(|| file.display().to_string())
}

/// Replaces each occurrence by as many other bytes; whether there was one.
fn replace(content: &mut [u8], old: &[u8], new: &[u8]) -> bool {
    let mut found = false;
    let mut at = 0;
    while at + old.len() <= content.len() {
        if content[at..].starts_with(old) {
            content[at..at + new.len()].copy_from_slice(new);
            found = true;
        }
        at += 1;
    }
    found
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{} could not be started", command.get_program().display()))?;
    if !status.success() {
        bail!("{} failed ({status})", command.get_program().display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        About::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap()
    }

    #[test]
    fn each_library_that_is_opened_has_its_reason_date_and_source() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../installers/linux/packages.toml");
        let text = std::fs::read_to_string(file).unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        let rows = table["opened"].as_array().unwrap();
        assert!(rows.len() > 3);
        for row in rows {
            for key in ["what", "deb", "rpm", "reason", "as_of", "source"] {
                let value = row.get(key).and_then(toml::Value::as_str);
                assert!(value.is_some_and(|value| !value.is_empty()), "{key} of {row}");
            }
        }
    }

    #[test]
    fn a_deb_names_what_it_needs_and_recommends() {
        let control = deb_control(&about(), "1.2.3", "libc6 (>= 2.35)", 2_000_000);
        let field = |name: &str| {
            let mut lines = control.lines();
            lines
                .find_map(|line| line.strip_prefix(&format!("{name}: ")))
                .unwrap()
                .to_owned()
        };
        assert_eq!(field("Package"), "tunesmith");
        assert_eq!(field("Version"), "1.2.3");
        assert_eq!(field("Installed-Size"), "1954");
        assert!(field("Depends").starts_with("libc6 (>= 2.35), "));
        assert!(field("Depends").contains("libxkbcommon-x11-0"));
        assert!(field("Recommends").contains("libvulkan1"));
        assert!(!field("Depends").contains("libvulkan1"));
        let (_, description) = control.split_once("Description: ").unwrap();
        assert!(
            description.lines().skip(1).all(|line| line.starts_with(' ')),
            "{description}"
        );
        assert!(description.contains("\n .\n"), "{description}");
        assert!(control.ends_with('\n'));
    }

    #[test]
    fn the_kind_of_package_is_written_into_the_program() {
        let mut content = b"ab__UNK__UNKcd__UN".to_vec();
        assert!(replace(&mut content, b"__UNK", b"__DEB"));
        assert_eq!(content, b"ab__DEB__DEBcd__UN");
        assert!(!replace(&mut content, b"__UNK", b"__DEB"));
    }

    /// A deb of two small files, made from scratch below `folder`.
    #[cfg(target_os = "linux")]
    fn small_deb(folder: &Path) -> PathBuf {
        let tree = Tree::new(folder.join("tree")).unwrap();
        tree.write("usr/bin/tunesmith", "program").unwrap();
        tree.write("usr/share/doc/tunesmith/copyright", "text").unwrap();
        let packing = Packing {
            root: Path::new(""),
            out: folder,
            work: folder,
            version: "1.2.3",
            epoch: 1_700_000_000,
        };
        pack_deb(&tree, &deb_control(&about(), "1.2.3", "libc6", 11), &packing).unwrap()
    }

    /// Where this system has the tool of Debian, which packs even on others.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_deb_holds_its_files_with_their_rights_and_is_the_same_each_time() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            return;
        }
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = small_deb(folder.path());
        let told = |words: &[&str]| {
            let output = Command::new("dpkg-deb").args(words).arg(&file).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(
            told(&["--info"]).contains("Package: tunesmith\n"),
            "{}",
            told(&["--info"])
        );
        assert!(told(&["--info"]).contains("md5sums"));
        let files = told(&["--contents"]);
        let line = |path: &str| files.lines().find(|line| line.ends_with(path)).unwrap();
        assert!(
            line("./usr/bin/tunesmith").starts_with("-rwxr-xr-x root/root"),
            "{files}"
        );
        assert!(
            line("./usr/share/doc/tunesmith/copyright").starts_with("-rw-r--r-- root/root"),
            "{files}"
        );
        let again = small_deb(other.path());
        assert!(std::fs::read(&file).unwrap() == std::fs::read(again).unwrap());
    }
}
