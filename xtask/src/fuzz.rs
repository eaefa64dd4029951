//! `cargo xtask fuzz`: feeds inputs that no person would write to everything that reads a file or a line from outside, guided
//! by which code they reach, and counts what breaks. The targets are in `fuzz/`; what they may cost is fixed here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use tunesmith_setup::human_duration;
use tunesmith_setup::process::Output;

use crate::ExitWith;
use crate::console::Stages;
use crate::gain::{Machine, revision, this_machine};
use crate::prepare::Children;
use crate::workspace::Workspace;

/// One input may take this long, in seconds.
const TIMEOUT_SECS: u64 = 1;
/// One input, and the whole program with its collection, may hold this much.
const MEMORY_MIB: u64 = 1024;
/// Longer inputs are not made: they are slow and say nothing that a short one cannot.
const MAX_INPUT_BYTES: u64 = 16 << 10;
/// What is kept of a target's inputs in the repository.
const KEPT_BYTES: u64 = 40 << 10;
const KEPT_FILES: usize = 120;

#[derive(Args)]
pub(crate) struct Fuzz {
    /// Targets by name; all of them where none is given
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Inputs for each target
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    runs: u64,
    /// Put the smallest inputs that reach all that was reached into fuzz/corpus, for the tests to replay
    #[arg(long)]
    keep: bool,
    /// Print the record as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Record {
    date: String,
    /// The commit that was fuzzed; with `-dirty` if files differed from it.
    revision: Option<String>,
    machine: Machine,
    limits: Limits,
    targets: Vec<Fuzzed>,
}

#[derive(Serialize)]
struct Limits {
    secs_per_input: u64,
    memory_mib: u64,
    bytes_per_input: u64,
}

/// What came of one target.
#[derive(Serialize)]
struct Fuzzed {
    target: String,
    /// Inputs that were run; fewer than asked for where one broke the target.
    runs: u64,
    secs: f64,
    runs_per_sec: f64,
    /// Inputs that panicked, took too long (twice) or too much memory; a target ends at its first.
    crashes: usize,
    /// Most memory of the process, with the sanitizer's own, in MiB.
    peak_mib: u64,
    /// Inputs that reach something that no smaller one does.
    corpus: usize,
}

pub(crate) fn run(options: &Fuzz) -> Result<u8> {
    let workspace = Workspace::find()?;
    let targets = chosen(&workspace.root.join("fuzz/fuzz_targets"), &options.targets)?;
    let mut stages = Stages::new(1 + targets.len());
    let children = Children::new()?;
    let fuzzer = Fuzzer::build(workspace, children, &mut stages)?;

    let mut fuzzed = Vec::new();
    for target in targets {
        stages.begin(&target, &format!("{} inputs", options.runs));
        let result = fuzzer.run(&target, options.runs)?;
        if result.crashes > 0 {
            stages.fail();
        } else {
            stages.end("done");
        }
        if options.keep {
            fuzzer.keep(&target)?;
        }
        fuzzed.push(result);
    }
    let crashes: usize = fuzzed.iter().map(|target| target.crashes).sum();
    let record = Record {
        date: jiff::Zoned::now().date().to_string(),
        revision: revision(&fuzzer.workspace.root),
        machine: this_machine(),
        limits: Limits {
            secs_per_input: TIMEOUT_SECS,
            memory_mib: MEMORY_MIB,
            bytes_per_input: MAX_INPUT_BYTES,
        },
        targets: fuzzed,
    };
    if options.json {
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&record)?)?;
    } else {
        eprint!("\n{}", as_table(&record.targets));
    }
    if crashes > 0 {
        eprintln!(
            "error: {crashes} of {} targets broke; the inputs lie in {}. Copy each to fuzz/regressions/<target>, \
             where the tests replay it, and mend what it shows",
            record.targets.len(),
            fuzzer.folder("artifacts", "").display()
        );
    }
    Ok(u8::from(crashes > 0))
}

/// The targets that were named, or all: each is a program in `fuzz_targets`.
fn chosen(folder: &Path, named: &[String]) -> Result<Vec<String>> {
    let mut known: Vec<String> = fs::read_dir(folder)
        .with_context(|| format!("{} cannot be read", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    known.sort();
    if let Some(unknown) = named.iter().find(|name| !known.contains(name)) {
        bail!("there is no target {unknown}; there are {}", known.join(", "));
    }
    Ok(if named.is_empty() { known } else { named.to_vec() })
}

/// The built programs and where their files lie: below the target folder, since only kept inputs belong to the repository.
struct Fuzzer {
    workspace: Workspace,
    children: Children,
}

impl Fuzzer {
    fn build(workspace: Workspace, children: Children, stages: &mut Stages) -> Result<Self> {
        let fuzzer = Self { workspace, children };
        let version = fuzzer
            .cargo_fuzz(&["--version"])
            .stdin(Stdio::null())
            .output()
            .context("cargo could not be started")?;
        if !version.status.success() {
            bail!(
                "cargo-fuzz is missing; this installs it, in about a minute:\n\n    cargo install cargo-fuzz --locked\n"
            );
        }
        stages.begin(
            "build",
            "the targets with everything below them, several minutes the first time",
        );
        let ended = fuzzer.children.run(
            fuzzer
                .cargo_fuzz(&["build", "--features", "libfuzzer", "--fuzz-dir", "fuzz"])
                .arg("--target-dir")
                .arg(fuzzer.workspace.target.join("fuzz")),
            Output::ToStderr,
        )?;
        if !ended.status.success() {
            eprintln!("error: the build failed; cargo says why above");
            bail!(ExitWith(1));
        }
        stages.end("built");
        Ok(fuzzer)
    }

    fn cargo_fuzz(&self, words: &[&str]) -> Command {
        let mut command = self.workspace.cargo();
        // Coverage and sanitizers are switched on by flags that a stable compiler takes only with this.
        command.env("RUSTC_BOOTSTRAP", "1").arg("fuzz").args(words);
        command
    }

    /// `<target folder>/fuzz/<kind>/<target>`.
    fn folder(&self, kind: &str, target: &str) -> PathBuf {
        self.workspace.target.join("fuzz").join(kind).join(target)
    }

    fn program(&self, target: &str) -> Result<PathBuf> {
        let build = self.workspace.target.join("fuzz");
        let programs = fs::read_dir(&build)?
            .flatten()
            .map(|entry| entry.path().join("release").join(target));
        programs
            .into_iter()
            .find(|program| program.is_file())
            .with_context(|| format!("the program of {target} is not in {}", build.display()))
    }

    /// The target's program with its limits, and the inputs of earlier runs and of the repository.
    fn command(&self, target: &str, scratch: &Path) -> Result<Command> {
        let mut command = Command::new(self.program(target)?);
        command
            .env("TMPDIR", scratch)
            // Memory that was given back counts against the limit while the sanitizer holds it.
            .env("ASAN_OPTIONS", "quarantine_size_mb=16:detect_leaks=0")
            .env("RAYON_NUM_THREADS", "1")
            .arg(format!("-timeout={TIMEOUT_SECS}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
            .arg(format!("-malloc_limit_mb={MEMORY_MIB}"))
            .arg(format!("-max_len={MAX_INPUT_BYTES}"))
            // Slow is what the time limit says is slow; another report of it would be counted as a crash.
            .args([
                "-detect_leaks=0",
                "-report_slow_units=1000000000",
                "-print_final_stats=1",
            ]);
        Ok(command)
    }

    fn run(&self, target: &str, runs: u64) -> Result<Fuzzed> {
        let (corpus, artifacts) = (self.folder("corpus", target), self.folder("artifacts", target));
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        let scratch = Scratch::new(target, &self.workspace.target)?;
        let start = Instant::now();
        let mut fuzzed = Fuzzed {
            target: target.to_owned(),
            runs: 0,
            secs: 0.0,
            runs_per_sec: 0.0,
            crashes: 0,
            peak_mib: 0,
            corpus: 0,
        };
        while fuzzed.runs < runs && fuzzed.crashes == 0 {
            let before = files(&artifacts);
            let mut command = self.command(target, &scratch.0)?;
            command
                .arg(format!("-runs={}", runs - fuzzed.runs))
                .arg(format!("-artifact_prefix={}/", artifacts.display()))
                .arg(&corpus)
                .args(self.kept(target));
            let ended = self.children.run(&command, Output::Kept)?;
            let stats = final_stats(&ended.stderr);
            let stat = |name: &str| {
                stats
                    .get(name)
                    .copied()
                    .with_context(|| format!("the program of {target} did not tell its {name}"))
            };
            fuzzed.runs += stat("number_of_executed_units")?;
            fuzzed.peak_mib = fuzzed.peak_mib.max(stat("peak_rss_mb")?);
            for input in files(&artifacts).difference(&before) {
                if self.was_held_up(target, input, &scratch.0)? {
                    fs::remove_file(input)?;
                } else {
                    fuzzed.crashes += 1;
                    eprintln!("{}", ended.stderr.join("\n"));
                }
            }
            if files(&artifacts) == before && !ended.status.success() && !held_up(&ended.stderr) {
                eprintln!("{}", ended.stderr.join("\n"));
                bail!("the program of {target} failed without an input to blame; its last words stand above");
            }
        }
        let secs = start.elapsed().as_secs_f64();
        fuzzed.secs = (secs * 10.0).round() / 10.0;
        fuzzed.runs_per_sec = (fuzzed.runs as f64 / secs).round();
        fuzzed.corpus = files(&corpus).len();
        Ok(fuzzed)
    }

    /// Whether an input that took too long takes less when it is run again: the clock goes on while the machine does
    /// something else, and that is no fault of the input.
    fn was_held_up(&self, target: &str, input: &Path, scratch: &Path) -> Result<bool> {
        let name = input.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("timeout-") {
            return Ok(false);
        }
        let mut command = self.command(target, scratch)?;
        Ok(self
            .children
            .run(command.arg(input), Output::Kept)?
            .status
            .success())
    }

    /// The folders of the repository with inputs for a target.
    fn kept(&self, target: &str) -> impl Iterator<Item = PathBuf> {
        ["corpus", "regressions"]
            .map(|kind| self.workspace.root.join("fuzz").join(kind).join(target))
            .into_iter()
            .filter(|folder| folder.is_dir())
    }

    /// Chooses a small set that reaches the same code, and of it the smallest inputs that fit into what is kept.
    fn keep(&self, target: &str) -> Result<()> {
        let (corpus, chosen) = (self.folder("corpus", target), self.folder("minimised", target));
        let _ = fs::remove_dir_all(&chosen);
        fs::create_dir_all(&chosen)?;
        let scratch = Scratch::new(target, &self.workspace.target)?;
        let mut command = self.command(target, &scratch.0)?;
        command
            .args(["-merge=1", "-set_cover_merge=1"])
            .args([&chosen, &corpus])
            .args(self.kept(target));
        let ended = self.children.run(&command, Output::Kept)?;
        if !ended.status.success() {
            eprintln!("{}", ended.stderr.join("\n"));
            bail!("the inputs of {target} could not be minimised");
        }
        let mut inputs: Vec<(u64, PathBuf)> = fs::read_dir(&chosen)?
            .map(|entry| {
                let entry = entry?;
                Ok((entry.metadata()?.len(), entry.path()))
            })
            .collect::<Result<_>>()?;
        inputs.sort();
        let kept = self.workspace.root.join("fuzz/corpus").join(target);
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept)?;
        let mut bytes = 0;
        for (size, input) in inputs.iter().take(KEPT_FILES) {
            bytes += size;
            if bytes > KEPT_BYTES {
                break;
            }
            fs::copy(input, kept.join(input.file_name().unwrap_or_default()))?;
        }
        eprintln!(
            "{target}: {} of {} inputs kept in {}",
            files(&kept).len(),
            inputs.len(),
            kept.display()
        );
        Ok(())
    }
}

/// A folder for the files that a target writes, one for each input: in memory where the system has such a place.
struct Scratch(PathBuf);

impl Scratch {
    fn new(target: &str, otherwise: &Path) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory } else { otherwise };
        let folder = base.join(format!("tunesmith-fuzz-{target}-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-overs in a folder for temporary files are no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Whether libFuzzer ended because an input took too long.
fn held_up(lines: &[String]) -> bool {
    lines.iter().any(|line| line.contains("libFuzzer: timeout"))
}

/// The numbers that libFuzzer prints at the end: `stat::peak_rss_mb: 123`.
fn final_stats(lines: &[String]) -> BTreeMap<&str, u64> {
    lines
        .iter()
        .filter_map(|line| {
            let (name, value) = line.strip_prefix("stat::")?.split_once(':')?;
            Some((name, value.trim().parse().ok()?))
        })
        .collect()
}

fn as_table(targets: &[Fuzzed]) -> String {
    let mut text = format!(
        "{:<14} {:>10} {:>12} {:>10} {:>8} {:>9} {:>7}\n",
        "target", "inputs", "time", "inputs/s", "crashes", "peak MiB", "corpus"
    );
    for target in targets {
        let time = human_duration(std::time::Duration::from_secs_f64(target.secs));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<14} {:>10} {time:>12} {:>10} {:>8} {:>9} {:>7}",
            target.target, target.runs, target.runs_per_sec, target.crashes, target.peak_mib, target.corpus
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_read_from_what_libfuzzer_prints_last() {
        let printed = [
            "Done 1000 runs in 1 second(s)",
            "stat::number_of_executed_units: 1000",
            "stat::average_exec_per_sec:     500",
            "stat::peak_rss_mb:              91",
        ]
        .map(str::to_owned);
        let stats = final_stats(&printed);
        assert_eq!(
            (stats["number_of_executed_units"], stats["peak_rss_mb"]),
            (1000, 91)
        );
    }

    #[test]
    fn a_target_that_is_not_there_is_named_with_those_that_are() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rows.rs", "gguf.rs"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(chosen(folder.path(), &[]).unwrap(), ["gguf", "rows"]);
        let error = chosen(folder.path(), &["row".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "there is no target row; there are gguf, rows");
    }
}
