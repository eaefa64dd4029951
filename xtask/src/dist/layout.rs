//! Which file of Tunesmith lies where: in a Linux system, and in the portable archive.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::programs::{PROGRAMS, SHELL};
use super::tree::Tree;

/// Names the app's menu entry, description and icon.
pub(super) const ID: &str = "app.tunesmith.Tunesmith";

/// Edges of the icons that a theme has.
const ICONS: [u32; 8] = [16, 24, 32, 48, 64, 128, 256, 512];

/// What is written for a package and lies nowhere else.
pub(super) struct Texts {
    /// Licences of the crates.
    pub(super) notices: String,
    /// Bill of materials, as JSON.
    pub(super) sbom: String,
}

/// Where files come from.
pub(super) struct Sources<'a> {
    /// The clone.
    pub(super) root: &'a Path,
    /// A built program by its name.
    pub(super) program: &'a dyn Fn(&str) -> PathBuf,
    pub(super) texts: &'a Texts,
    pub(super) version: &'a str,
}

impl Sources<'_> {
    /// What the command line program prints, which has to be a text of its own making.
    fn told(&self, words: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new((self.program)("tunesmith"))
            .args(words)
            .output()
            .context("tunesmith could not be started")?;
        if !output.status.success() || output.stdout.is_empty() {
            bail!("`tunesmith {}` failed ({})", words.join(" "), output.status);
        }
        Ok(output.stdout)
    }

    /// The manual pages that the command line program writes, into a folder of the tree.
    fn manual(&self, tree: &Tree, folder: &str) -> Result<()> {
        let status = Command::new((self.program)("tunesmith"))
            .args(["--quiet", "--json", "man"])
            .arg(tree.root.join(folder))
            .stdout(std::process::Stdio::null())
            .status()
            .context("tunesmith could not be started")?;
        if !status.success() {
            bail!("the manual pages could not be written ({status})");
        }
        Ok(())
    }
}

/// The tree that deb and rpm have in common.
pub(super) fn system(sources: &Sources<'_>, root: PathBuf) -> Result<Tree> {
    let tree = Tree::new(root)?;
    for (_, program) in PROGRAMS {
        tree.copy(&(sources.program)(program), format!("usr/bin/{program}"))?;
    }
    let linux = sources.root.join("installers/linux");
    let share = Path::new("usr/share");
    for (file, folder) in [
        (format!("{ID}.desktop"), "applications"),
        (format!("{ID}.metainfo.xml"), "metainfo"),
    ] {
        tree.copy(&linux.join(&file), share.join(folder).join(&file))?;
    }
    icons(sources.root, &tree)?;

    let pages = "usr/share/man/man1";
    sources.manual(&tree, pages)?;
    for page in std::fs::read_dir(linux.join("man"))? {
        let page = page?;
        tree.copy(&page.path(), Path::new(pages).join(page.file_name()))?;
    }
    for entry in tree.entries()? {
        if entry.path.starts_with(pages) {
            gzip(&tree.root.join(entry.path))?;
        }
    }
    for (shell, file) in [
        ("bash", "bash-completion/completions/tunesmith"),
        ("zsh", "zsh/site-functions/_tunesmith"),
        ("fish", "fish/vendor_completions.d/tunesmith.fish"),
    ] {
        tree.write(share.join(file), sources.told(&["completions", shell])?)?;
    }

    let docs = share.join("doc/tunesmith");
    tree.copy(&sources.root.join("CHANGELOG.md"), docs.join("changelog"))?;
    gzip(&tree.root.join(docs.join("changelog")))?;
    write_texts(sources, &tree, &docs)?;
    tree.settle_rights(|path| path.starts_with("usr/bin"))?;
    Ok(tree)
}

/// The portable archive's folder.
pub(super) fn portable(sources: &Sources<'_>, root: PathBuf) -> Result<Tree> {
    let tree = Tree::new(root)?;
    for (_, program) in PROGRAMS.into_iter().filter(|(_, program)| *program != SHELL) {
        tree.copy(&(sources.program)(program), program)?;
    }
    sources.manual(&tree, "share/man/man1")?;
    for (shell, file) in [
        ("bash", "tunesmith.bash"),
        ("zsh", "_tunesmith"),
        ("fish", "tunesmith.fish"),
    ] {
        let script = sources.told(&["completions", shell])?;
        tree.write(Path::new("share/completions").join(file), script)?;
    }
    let readme = std::fs::read_to_string(sources.root.join("installers/portable/README.txt"))?
        .replace("{version}", sources.version)
        .replace("{arch}", std::env::consts::ARCH);
    write_texts(sources, &tree, Path::new(""))?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        tree.copy(&sources.root.join(licence), licence)?;
    }
    tree.write("README.txt", readme)?;
    tree.settle_rights(|path| PROGRAMS.iter().any(|(_, program)| path == Path::new(program)))?;
    Ok(tree)
}

fn write_texts(sources: &Sources<'_>, tree: &Tree, folder: &Path) -> Result<()> {
    tree.write(folder.join("THIRD-PARTY.txt"), &sources.texts.notices)?;
    tree.write(folder.join("sbom.cdx.json"), &sources.texts.sbom)
}

fn icons(clone: &Path, tree: &Tree) -> Result<()> {
    let drawings = clone.join("assets/icons");
    let theme = Path::new("usr/share/icons/hicolor");
    for size in ICONS {
        let place = theme.join(format!("{size}x{size}/apps/{ID}.png"));
        tree.copy(&drawings.join(format!("png/{size}.png")), place)?;
    }
    tree.copy(
        &drawings.join("tunesmith.svg"),
        theme.join(format!("scalable/apps/{ID}.svg")),
    )?;
    tree.copy(
        &drawings.join("tunesmith-symbolic.svg"),
        theme.join(format!("symbolic/apps/{ID}-symbolic.svg")),
    )
}

/// Packs a file, without its name and time, so that the same content gives the same bytes.
fn gzip(file: &Path) -> Result<()> {
    let status = Command::new("gzip")
        .args(["-9", "--no-name", "--force"])
        .arg(file)
        .status()
        .context("gzip could not be started")?;
    if !status.success() {
        bail!("{} could not be packed", file.display());
    }
    Ok(())
}
