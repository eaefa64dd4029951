//! `cargo xtask dist test`: uses the packages as somebody does who never saw the clone. The deb goes the whole way: an older
//! version is installed, a model is trained by it, the newer one takes its place, the window and the app open, and nothing but the
//! user's own files stays when it is removed. The rpm is installed and removed, and the archive is used by a user who may nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use super::clean_root::{CleanRoot, HOME};
use super::programs::SHELL;
use crate::console::Stages;
use crate::window::Display;

/// Where the packages lie in the clean root.
const PACKAGES: &str = "/mnt/packages";

/// The quickstart's recipe, shortened: what is tested is the package and not the model.
const SHORT: [&str; 4] = ["--set", "train.steps=24", "--set", "evaluate.questions=8"];

/// How many packages are tested.
const TRIALS: usize = 3;

/// A user without a name and without rights.
const NOBODY: u32 = 65_534;

/// What the tests need.
pub(super) struct Trial<'a> {
    /// The clone.
    pub(super) root: &'a Path,
    /// A folder for what is made on the way.
    pub(super) work: &'a Path,
    pub(super) version: &'a str,
    /// The finished packages, and the deb of an older version.
    pub(super) deb: &'a Path,
    pub(super) older: &'a Path,
    pub(super) rpm: &'a Path,
    pub(super) archive: &'a Path,
    /// What this machine has fetched already, torch and models, and where below a user's cache it belongs.
    pub(super) downloads: Vec<(PathBuf, PathBuf)>,
    /// Folders that are empty in the clean root: the clone, the builder's Rust and build.
    pub(super) hidden: Vec<PathBuf>,
}

/// A step with what it took.
#[derive(Serialize)]
pub(super) struct Passed {
    step: &'static str,
    secs: f64,
}

/// What is done with one package, on a display of this name.
type Test<'a> = fn(&Trial<'a>, &str, Steps<'_>) -> Result<()>;

/// Runs the steps of one package, each timed.
struct Steps<'a> {
    package: &'static str,
    passed: &'a mut Vec<Passed>,
}

impl Steps<'_> {
    fn step<T>(&mut self, step: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let done = work().with_context(|| format!("{}: {step}", self.package))?;
        let secs = start.elapsed().as_secs_f64();
        eprintln!("  {}: {step} ({secs:.1} s)", self.package);
        self.passed.push(Passed { step, secs });
        Ok(done)
    }
}

impl<'a> Trial<'a> {
    /// The number of stages that [`Trial::run`] takes.
    pub(super) const STAGES: usize = TRIALS;

    pub(super) fn run(&self, stages: &mut Stages) -> Result<BTreeMap<&'static str, Vec<Passed>>> {
        let display = Display::own()?;
        let mut record = BTreeMap::new();
        let trials: [(&'static str, &'static str, Test<'a>); TRIALS] = [
            ("deb", "install, train, upgrade, open, remove", Self::deb),
            ("rpm", "install, check, remove", Self::rpm),
            ("tar", "used from a folder, without root", Self::archive),
        ];
        for (package, note, test) in trials {
            stages.begin(&format!("test {package}"), note);
            let mut passed = Vec::new();
            let steps = Steps {
                package,
                passed: &mut passed,
            };
            if let Err(error) = test(self, display.name(), steps) {
                stages.fail();
                return Err(error);
            }
            stages.end("passed");
            record.insert(package, passed);
        }
        Ok(record)
    }

    fn clean_root(&self, name: &str, display: &str) -> Result<CleanRoot> {
        let mut root = CleanRoot::new(self.root, self.work.join(name))?.variable("DISPLAY", display);
        for folder in &self.hidden {
            root = root.hide(folder);
        }
        for (from, place) in &self.downloads {
            root = root.show(from, Path::new(HOME).join(".cache/tunesmith").join(place));
        }
        let packages = [self.deb, self.older, self.rpm, self.archive];
        let folders: BTreeSet<_> = packages.into_iter().filter_map(Path::parent).collect();
        for folder in folders {
            root = root.show(folder, place_of(folder)?);
        }
        Ok(root)
    }

    fn deb(&self, display: &str, mut steps: Steps<'_>) -> Result<()> {
        let root = self.clean_root("deb", display)?;
        let before = traces(&root)?;
        steps.step("nothing of it is here yet", || {
            root.run("dpkg-query", &["--show", "tunesmith"], &[1]).map(drop)
        })?;
        steps.step("every file belongs to root and nobody else may write it", || {
            rights(&root.run("dpkg-deb", &["--contents", &there(self.deb)?], &[0])?)
        })?;
        steps.step("an older version is installed", || {
            root.run("dpkg", &["--install", &there(self.older)?], &[0])
                .map(drop)
        })?;
        steps.step("doctor", || doctor(&root, "tunesmith"))?;
        steps.step("the quickstart's recipe, shortened", || {
            let mut words = vec!["quickstart", "--json", "--yes", "--device", "cpu"];
            words.extend(SHORT);
            trained(&root.run("tunesmith", &words, &[0])?)
        })?;
        let data = root.changed(&format!("{HOME}/.local/share/tunesmith"));
        let files = hashes(&data)?;
        ensure!(
            files.len() > 5,
            "the training left {} files in {}",
            files.len(),
            data.display()
        );
        steps.step("this version takes its place", || {
            root.run("dpkg", &["--install", &there(self.deb)?], &[0])?;
            let told = root.run(
                "dpkg-query",
                &["--show", "--showformat=${Version}", "tunesmith"],
                &[0],
            )?;
            ensure!(told == self.version, "version {told} is installed");
            // Says nothing where every file is as the package has it.
            let changed = root.run("dpkg", &["--verify", "tunesmith"], &[0])?;
            ensure!(changed.is_empty(), "files differ from the package: {changed}");
            Ok(())
        })?;
        steps.step("the older version's training is there, byte for byte", || {
            ensure!(hashes(&data)? == files, "files changed in {}", data.display());
            let runs: Value =
                serde_json::from_str(&root.run("tunesmith", &["runs", "list", "--json"], &[0])?)?;
            ensure!(
                runs["runs"].as_array().is_some_and(|runs| runs.len() == 1),
                "{runs}"
            );
            Ok(())
        })?;
        steps.step("menu entry and description are valid", || {
            let share = "/usr/share";
            let id = super::layout::ID;
            root.run(
                "desktop-file-validate",
                &[&format!("{share}/applications/{id}.desktop")],
                &[0],
            )?;
            let description = format!("{share}/metainfo/{id}.metainfo.xml");
            root.run("appstreamcli", &["validate", "--no-net", &description], &[0])?;
            Ok(())
        })?;
        steps.step("the window opens", || first_frame(&root, "tunesmith-ui"))?;
        steps.step("the app opens its window", || first_frame(&root, SHELL))?;
        steps.step("it is removed, and only the user's files stay", || {
            root.run("dpkg", &["--purge", "tunesmith"], &[0])?;
            let left: Vec<_> = traces(&root)?.difference(&before).cloned().collect();
            ensure!(left.is_empty(), "this is left behind: {}", left.join(", "));
            let kept = hashes(&data)?;
            ensure!(
                files.iter().all(|(path, hash)| kept.get(path) == Some(hash)),
                "the user's files changed"
            );
            Ok(())
        })
    }

    fn rpm(&self, display: &str, mut steps: Steps<'_>) -> Result<()> {
        let root = self.clean_root("rpm", display)?;
        let before = traces(&root)?;
        let package = there(self.rpm)?;
        steps.step("it asks for nothing of torch", || {
            let wanted = root.run("rpm", &["--query", "--requires", "--package", &package], &[0])?;
            ensure!(
                wanted.contains("libc.so.6") && wanted.contains("libwebkit2gtk"),
                "{wanted}"
            );
            ensure!(
                !wanted.contains("libtorch") && !wanted.contains("libc10"),
                "{wanted}"
            );
            Ok(())
        })?;
        steps.step("it is installed", || {
            // What it needs is not known to rpm on a system of debs.
            root.run("rpm", &["--install", "--nodeps", &package], &[0])?;
            let changed = root.run("rpm", &["--verify", "--nodeps", "tunesmith"], &[0])?;
            ensure!(changed.is_empty(), "files differ from the package: {changed}");
            Ok(())
        })?;
        steps.step("doctor", || doctor(&root, "tunesmith"))?;
        steps.step("the window opens", || first_frame(&root, "tunesmith-ui"))?;
        steps.step("it is removed", || {
            root.run("rpm", &["--erase", "tunesmith"], &[0])?;
            let left: Vec<_> = traces(&root)?.difference(&before).cloned().collect();
            ensure!(left.is_empty(), "this is left behind: {}", left.join(", "));
            Ok(())
        })
    }

    fn archive(&self, display: &str, mut steps: Steps<'_>) -> Result<()> {
        let root = self.clean_root("tar", display)?;
        let folder = format!("{HOME}/a folder with 'quotes' и буквы");
        let archive = there(self.archive)?;
        steps.step("it is unpacked", || {
            root.run("mkdir", &["--parents", &folder], &[0])?;
            root.run(
                "tar",
                &[
                    "--extract",
                    "--strip-components=1",
                    "--file",
                    &archive,
                    "--directory",
                    &folder,
                ],
                &[0],
            )?;
            // Only the user's own: what is shown there of this machine can only be read.
            root.run(
                "chown",
                &[
                    &format!("{NOBODY}:{NOBODY}"),
                    HOME,
                    &format!("{HOME}/.cache"),
                    &format!("{HOME}/.cache/tunesmith"),
                ],
                &[0],
            )?;
            root.run(
                "chown",
                &["--recursive", &format!("{NOBODY}:{NOBODY}"), &folder],
                &[0],
            )
            .map(drop)
        })?;
        let root = root.for_user(NOBODY);
        let program = |name: &str| format!("{folder}/{name}");
        steps.step("doctor", || doctor(&root, &program("tunesmith")))?;
        steps.step("a few steps of training", || {
            let mut words = vec!["train", "quickstart", "--json", "--no-eval", "--device", "cpu"];
            words.extend(&SHORT[..2]);
            trained(&root.run(&program("tunesmith"), &words, &[0])?)
        })?;
        steps.step("the window opens", || {
            first_frame(&root, &program("tunesmith-ui"))
        })
    }
}

/// Each folder of packages has a place of its own in the clean root.
fn place_of(folder: &Path) -> Result<PathBuf> {
    let name = folder.file_name().context("the packages lie nowhere")?;
    Ok(Path::new(PACKAGES).join(name))
}

/// A package's path in the clean root.
fn there(package: &Path) -> Result<String> {
    let folder = place_of(package.parent().context("a package lies nowhere")?)?;
    let name = package.file_name().context("a package has no name")?;
    Ok(folder.join(name).display().to_string())
}

/// Paths of the system that speak of Tunesmith.
fn traces(root: &CleanRoot) -> Result<BTreeSet<String>> {
    let found = root.run(
        "find",
        &["/etc", "/opt", "/usr", "/var", "-iname", "*tunesmith*"],
        &[0],
    )?;
    Ok(found.lines().map(str::to_owned).collect())
}

/// The files below a folder with the SHA-256 of each.
fn hashes(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let hash = super::sha256(&path)?;
                files.insert(path, hash);
            }
        }
    }
    Ok(files)
}

/// Looks at a listing as `dpkg-deb --contents` prints it.
fn rights(listing: &str) -> Result<()> {
    for line in listing.lines() {
        let mut words = line.split_whitespace();
        let (mode, owner) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mode = mode.as_bytes();
        ensure!(mode.len() == 10, "an odd line: {line}");
        let link = mode[0] == b'l';
        ensure!(
            link || (mode[5] != b'w' && mode[8] != b'w'),
            "others may write: {line}"
        );
        ensure!(
            !mode.contains(&b's') && !mode.contains(&b't'),
            "it runs with another's rights: {line}"
        );
        ensure!(owner == "root/root", "it does not belong to root: {line}");
    }
    ensure!(listing.lines().count() > 20, "the package holds next to nothing");
    Ok(())
}

/// Doctor answers; what it thinks of this machine is not the package's fault.
fn doctor(root: &CleanRoot, program: &str) -> Result<()> {
    let told: Value = serde_json::from_str(&root.run(program, &["doctor", "--json"], &[0, 1])?)?;
    let checks = told["checks"].as_array().map_or(0, Vec::len);
    ensure!(checks > 5, "doctor told {checks} checks");
    Ok(())
}

fn trained(json: &str) -> Result<()> {
    let run: Value = serde_json::from_str(json)?;
    ensure!(run["status"] == "ok", "the training ended otherwise: {run}");
    Ok(())
}

fn first_frame(root: &CleanRoot, program: &str) -> Result<()> {
    let told: Value = serde_json::from_str(&root.run(program, &["--first-frame"], &[0])?)?;
    ensure!(
        told["first_frame_secs"].is_number(),
        "no frame was painted: {told}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_that_are_too_wide_are_found() {
        let good = "-rwxr-xr-x root/root 1 2026-12-01 10:00 ./usr/bin/tunesmith\n".repeat(21);
        assert!(rights(&good).is_ok());
        for bad in [
            "-rwxr-xrwx root/root 1 2026-12-01 10:00 ./usr/bin/x\n",
            "-rwxrwxr-x root/root 1 2026-12-01 10:00 ./usr/bin/x\n",
            "-rwsr-xr-x root/root 1 2026-12-01 10:00 ./usr/bin/x\n",
            "-rwxr-xr-x ann/ann 1 2026-12-01 10:00 ./usr/bin/x\n",
        ] {
            assert!(rights(&(good.clone() + bad)).is_err(), "{bad}");
        }
        assert!(rights("").is_err());
    }

    #[test]
    fn a_package_has_its_place_in_the_clean_root() {
        let deb = Path::new("/home/ann/target/dist/packages/a.deb");
        assert_eq!(there(deb).unwrap(), "/mnt/packages/packages/a.deb");
    }
}
