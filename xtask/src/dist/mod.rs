//! `cargo xtask dist`: what users install. Programs are built for release without a path of this machine in them, laid out as a
//! system expects them, with manual pages, completions, licence notices and a bill of materials, and packed by the system's own
//! tools; docs/PACKAGES.md tells what is in a package, and what has been tested.

mod bundler;
mod clean_root;
mod layout;
mod linux;
mod notices;
mod programs;
mod release;
mod sbom;
mod tree;
mod trial;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tunesmith_setup::human_bytes;

use crate::Consent;
use crate::console::Stages;
use crate::dependencies::Dependencies;
use crate::gain::revision;
use crate::packages::For;
use crate::prepare::Prepared;
use crate::workspace::Workspace;

use layout::{Sources, Texts};
use linux::{About, Packing};
use programs::{Folders, PROGRAMS};
use release::Sign;
use tree::Tree;
use trial::{Passed, Trial};

/// A package may take as much on the disk once it is installed, without torch.
const MOST_BYTES: u64 = 60_000_000;

/// The version that the test upgrades from: older than any.
const OLDER: &str = "0.0.1";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Dist {
    #[command(subcommand)]
    then: Option<Then>,
    #[command(flatten)]
    consent: Consent,
    /// What to make, or `test`; without it what this system can make: on Linux tar, deb and rpm
    #[arg(value_enum, value_name = "PACKAGE")]
    pieces: Vec<Piece>,
    /// Pack the programs that an earlier call built
    #[arg(long)]
    no_build: bool,
    /// Print what was made as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

/// What is done with packages that are there.
#[derive(Subcommand)]
enum Then {
    /// Sign the packages of this version, and write latest.json, in which installed apps look for it
    ///
    /// The key's password is read from TAURI_SIGNING_PRIVATE_KEY_PASSWORD; where that is not set it is empty.
    Sign(Sign),
}

/// Packages, and their test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Piece {
    /// An archive with window, command line and engine, for any Linux
    Tar,
    /// For Debian, Ubuntu and their like
    Deb,
    /// For Fedora, openSUSE and their like
    Rpm,
    /// For any Linux, in one file; by Tauri's bundler, which fetches further tools
    Appimage,
    /// An installer for Windows; by Tauri's bundler
    Nsis,
    /// An installer for Windows, for administrators; by Tauri's bundler, on Windows
    Msi,
    /// A disk image for macOS; by Tauri's bundler, on macOS
    Dmg,
    /// Make tar, deb and rpm, and use them in a root of their own: install, train, upgrade, open, remove
    ///
    /// Takes root and the right to mount, and about ten minutes on two cores.
    Test,
}

impl Piece {
    /// How Tauri's bundler calls it, if it makes it.
    fn by_bundler(self) -> Option<&'static str> {
        match self {
            Self::Appimage => Some("appimage"),
            Self::Nsis => Some("nsis"),
            Self::Msi => Some("msi"),
            Self::Dmg => Some("dmg"),
            Self::Tar | Self::Deb | Self::Rpm | Self::Test => None,
        }
    }

    /// Sorted, each once, with what they need.
    fn all_of(asked: &[Self]) -> Vec<Self> {
        let mut pieces = asked.to_vec();
        if pieces.is_empty() {
            pieces.extend(match std::env::consts::OS {
                "windows" => &[Self::Nsis, Self::Msi][..],
                "macos" => &[Self::Dmg][..],
                _ => &[Self::Tar, Self::Deb, Self::Rpm][..],
            });
        }
        if pieces.contains(&Self::Test) {
            pieces.extend([Self::Tar, Self::Deb, Self::Rpm]);
        }
        pieces.sort();
        pieces.dedup();
        pieces
    }

    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Record {
    version: &'static str,
    /// The commit that was packed; with `-dirty` if files differed from it.
    revision: Option<String>,
    torch: String,
    programs: BTreeMap<&'static str, u64>,
    /// Bytes on the disk once a deb or rpm is installed, without torch.
    installed_bytes: Option<u64>,
    packages: Vec<Made>,
    /// Steps of the test, by package, in seconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    test: BTreeMap<&'static str, Vec<Passed>>,
}

/// A finished package.
#[derive(Serialize)]
struct Made {
    file: PathBuf,
    bytes: u64,
    sha256: String,
}

/// Every crate of the workspace has the same.
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(options: &Dist) -> Result<u8> {
    if let Some(Then::Sign(sign)) = &options.then {
        return release::run(sign);
    }
    let pieces = Piece::all_of(&options.pieces);
    let testing = pieces.contains(&Piece::Test);
    let packages: Vec<_> = pieces.into_iter().filter(|piece| *piece != Piece::Test).collect();
    let on_linux = packages.iter().any(|piece| piece.by_bundler().is_none());
    ensure!(
        !on_linux || cfg!(target_os = "linux"),
        "tar, deb and rpm are made on Linux; name a package that this system can make"
    );
    let further =
        usize::from(!options.no_build) + usize::from(on_linux) + usize::from(testing) * (1 + Trial::STAGES);
    let mut stages = Stages::new(Prepared::STAGES + 2 + packages.len() + further);
    let prepared = Prepared::with_packages(For::Packages, options.consent.yes, &mut stages)?;
    let workspace = Workspace::find()?;
    let target = host(&workspace)?;
    let dependencies = Dependencies::read(&workspace, &[&target])?;
    let folders = Folders::of(&workspace, &prepared, &dependencies)?;
    if !options.no_build {
        programs::build(&workspace, &prepared, &folders, &mut stages)?;
    }
    stages.begin_quietly("programs");
    let programs = checked_programs(&workspace, &folders)?;
    stages.end("without a path of this machine");
    stages.begin_quietly("texts");
    let epoch = commit_time(&workspace.root);
    let texts = texts(&workspace, &dependencies, epoch)?;
    stages.end("licences and bill of materials");

    let work = Work {
        workspace: &workspace,
        prepared: &prepared,
        texts: &texts,
        target: &target,
        epoch,
    };
    std::fs::create_dir_all(work.out())?;
    let system = if on_linux {
        Some(work.system(&mut stages)?)
    } else {
        None
    };
    let mut made = Vec::new();
    for piece in packages {
        made.extend(work.make(piece, system.as_ref(), &mut stages)?);
    }
    write_sums(&work.out())?;
    let test = match &system {
        Some(system) if testing => work.test(system, &made, &mut stages)?,
        _ => BTreeMap::new(),
    };
    let record = Record {
        version: VERSION,
        revision: revision(&workspace.root),
        torch: prepared.engine_env.version.clone(),
        programs,
        installed_bytes: system.as_ref().map(Tree::bytes).transpose()?,
        packages: made.into_iter().map(|(_, made)| made).collect(),
        test,
    };
    stages.print_summary();
    if options.json {
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&record)?)?;
    }
    Ok(0)
}

/// What the pieces of one call share.
struct Work<'a> {
    workspace: &'a Workspace,
    prepared: &'a Prepared,
    texts: &'a Texts,
    /// This machine, as cargo calls it.
    target: &'a str,
    /// When the commit was made, in seconds since 1970.
    epoch: u64,
}

impl Work<'_> {
    /// The finished packages' folder.
    fn out(&self) -> PathBuf {
        self.folder("packages")
    }

    fn folder(&self, name: &str) -> PathBuf {
        programs::build_folder(self.workspace).join(name)
    }

    /// The stage that lays out what deb and rpm have in common.
    fn system(&self, stages: &mut Stages) -> Result<Tree> {
        stages.begin_quietly("files");
        let tree = self.laid_out(|sources| layout::system(sources, self.folder("system")))?;
        let bytes = tree.bytes()?;
        eprintln!(
            "{} files, {} once installed, without torch",
            tree.entries()?.len(),
            human_bytes(bytes)
        );
        ensure!(
            bytes <= MOST_BYTES,
            "installed it takes {bytes} bytes, and more than {MOST_BYTES} are too many; the programs' sizes stand above"
        );
        stages.end("laid out");
        Ok(tree)
    }

    fn laid_out(&self, layout: impl FnOnce(&Sources<'_>) -> Result<Tree>) -> Result<Tree> {
        layout(&Sources {
            root: &self.workspace.root,
            program: &|name| programs::program(self.workspace, name),
            texts: self.texts,
            version: VERSION,
        })
    }

    /// The stage that makes a package; `system` is there for those of Linux.
    fn make(&self, piece: Piece, system: Option<&Tree>, stages: &mut Stages) -> Result<Vec<(Piece, Made)>> {
        stages.begin_quietly(&piece.name());
        let out = self.out();
        let files = match (piece.by_bundler(), system) {
            (Some(kind), _) => bundler::bundle(self.workspace, kind, self.target, self.texts, &out)?,
            (None, Some(system)) => vec![self.pack(piece, system, VERSION, &out)?],
            (None, None) => bail!("a package for Linux has no files"),
        };
        let mut made = Vec::new();
        for file in files {
            let bytes = std::fs::metadata(&file)?.len();
            eprintln!("{}: {}", file.display(), human_bytes(bytes));
            let sha256 = sha256(&file)?;
            made.push((piece, Made { file, bytes, sha256 }));
        }
        stages.end("made");
        Ok(made)
    }

    fn pack(&self, piece: Piece, system: &Tree, version: &str, out: &Path) -> Result<PathBuf> {
        let root = &self.workspace.root;
        let work = self.folder("work");
        let packing = Packing {
            root,
            out,
            work: &work,
            version,
            epoch: self.epoch,
        };
        match piece {
            Piece::Deb => {
                let libraries = &self.prepared.engine_env.library_folders;
                linux::deb(system, &About::load(root)?, libraries, &packing)
            }
            Piece::Rpm => linux::rpm(system, &About::load(root)?, &packing),
            _ => {
                let name = format!("tunesmith-{version}-linux-{}", std::env::consts::ARCH);
                let tree = self.laid_out(|sources| layout::portable(sources, work.join(name)))?;
                linux::tar(&tree, &packing)
            }
        }
    }

    /// The stages that use the packages.
    fn test(
        &self,
        system: &Tree,
        made: &[(Piece, Made)],
        stages: &mut Stages,
    ) -> Result<BTreeMap<&'static str, Vec<Passed>>> {
        stages.begin_quietly("older deb");
        let out = self.folder("older");
        std::fs::create_dir_all(&out)?;
        let older = self.pack(Piece::Deb, system, OLDER, &out)?;
        stages.end("made");
        let package = |piece: Piece| {
            let found = made.iter().find(|(of, _)| *of == piece);
            found
                .map(|(_, made)| made.file.as_path())
                .context("a package was not made")
        };
        Trial {
            root: &self.workspace.root,
            work: &self.folder("trial"),
            version: VERSION,
            deb: package(Piece::Deb)?,
            older: &older,
            rpm: package(Piece::Rpm)?,
            archive: package(Piece::Tar)?,
            downloads: self.downloads()?,
            hidden: self.hidden(),
        }
        .run(stages)
    }

    /// What was fetched for this machine, and where a user's cache has it.
    fn downloads(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let runtime = self.prepared.libtorch.parent().context("torch lies nowhere")?;
        let name = runtime.file_name().context("torch's folder has no name")?;
        let models = tunesmith_setup::Folders::from_env()?.models();
        Ok(vec![
            (runtime.to_owned(), Path::new("runtime").join(name)),
            (models, PathBuf::from("models")),
        ])
    }

    /// What somebody who never saw the clone does not have.
    fn hidden(&self) -> Vec<PathBuf> {
        let rust = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
        [
            Some(self.workspace.root.clone()),
            Some(self.workspace.target.clone()),
            programs::cargo_home(),
            rust,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn texts(workspace: &Workspace, dependencies: &Dependencies, epoch: u64) -> Result<Texts> {
    let names = PROGRAMS.map(|(package, _)| package);
    let lock = std::fs::read_to_string(workspace.root.join("Cargo.lock")).context("Cargo.lock")?;
    let linked = dependencies.linked_into(&names)?;
    Ok(Texts {
        notices: notices::notices(&workspace.root, VERSION, &linked)?,
        sbom: sbom::sbom(dependencies, &names, VERSION, &lock, epoch)?,
    })
}

/// The programs' sizes in bytes, once it is sure that they are there and tell nothing about this machine.
fn checked_programs(workspace: &Workspace, folders: &Folders) -> Result<BTreeMap<&'static str, u64>> {
    let mut sizes = BTreeMap::new();
    for (_, name) in PROGRAMS {
        let file = programs::program(workspace, name);
        ensure!(file.is_file(), "{name} is not built; leave --no-build away");
        if let Some(folder) = folders.found_in(&file)? {
            bail!("{name} has the path {} inside", folder.display());
        }
        if cfg!(target_os = "linux") {
            let output = Command::new("readelf")
                .arg("--dynamic")
                .arg(&file)
                .output()
                .context("readelf could not be started; it is in the package binutils")?;
            let told = String::from_utf8_lossy(&output.stdout);
            let path = told
                .lines()
                .find(|line| line.contains("(RPATH)") || line.contains("(RUNPATH)"));
            ensure!(
                path.is_none(),
                "{name} looks for libraries at {}",
                path.unwrap_or_default().trim()
            );
        }
        let bytes = std::fs::metadata(&file)?.len();
        eprintln!("{name}: {}", human_bytes(bytes));
        sizes.insert(name, bytes);
    }
    Ok(sizes)
}

/// This machine, as cargo calls it.
fn host(workspace: &Workspace) -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("-vV")
        .current_dir(&workspace.root)
        .output()
        .context("rustc could not be started")?;
    let told = String::from_utf8_lossy(&output.stdout);
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("rustc does not tell what machine this is")?
        .to_owned())
}

/// When the commit was made; where git cannot tell, now.
fn commit_time(clone: &Path) -> u64 {
    let told = Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(clone)
        .output()
        .ok()
        .and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
    told.unwrap_or_else(|| jiff::Timestamp::now().as_second().unsigned_abs())
}

/// Writes the checksums of all packages that lie in a folder, as `sha256sum --check` reads them.
fn write_sums(folder: &Path) -> Result<()> {
    const NAME: &str = "SHA256SUMS";
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().is_file() && entry.file_name() != NAME {
            names.push(entry.file_name());
        }
    }
    names.sort();
    let mut sums = String::new();
    for name in names {
        let _ = writeln!(sums, "{}  {}", sha256(&folder.join(&name))?, name.display());
    }
    std::fs::write(folder.join(NAME), sums).context(NAME)
}

/// The SHA-256 of a file, in hexadecimal.
fn sha256(file: &Path) -> Result<String> {
    let content = std::fs::read(file).with_context(|| file.display().to_string())?;
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_makes_what_it_tests() {
        assert_eq!(
            Piece::all_of(&[Piece::Test, Piece::Deb]),
            [Piece::Tar, Piece::Deb, Piece::Rpm, Piece::Test]
        );
        assert_eq!(Piece::all_of(&[Piece::Nsis, Piece::Nsis]), [Piece::Nsis]);
        assert!(!Piece::all_of(&[]).is_empty());
    }

    #[test]
    fn checksums_are_of_every_package_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("b.deb"), "").unwrap();
        std::fs::write(folder.path().join("a.rpm"), "abc").unwrap();
        for _ in 0..2 {
            write_sums(folder.path()).unwrap();
            let sums = std::fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
            assert_eq!(
                sums,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.rpm\n\
                 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b.deb\n"
            );
        }
    }
}
