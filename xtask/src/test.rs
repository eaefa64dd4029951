//! `cargo xtask test`: every check that a change must pass, in the order in which they fail fastest.

use std::process::{Command, Stdio};

use anyhow::Result;
use tunesmith_setup::process::{self, Output};

use crate::console::Stages;
use crate::packages::For;
use crate::prepare::Prepared;
use crate::workspace::Workspace;

/// How many checks there are.
const CHECKS: usize = 8;

/// Tests put faults into trainings to see them caught. Every check builds with the same features, so that crates are
/// compiled once; the quickstart and releases build without.
const FAULTS: &str = "tunesmith-cli/inject-faults,tunesmith-tests/inject-faults";
const FAULTS_AND_ENGINE: &str =
    "tunesmith-cli/inject-faults,tunesmith-tests/inject-faults,tunesmith-engine/inject-faults";

/// One check: its name and the command.
struct Check {
    name: &'static str,
    command: Command,
}

/// Sets up, runs the checks until one fails, prints the summary; returns the exit status.
pub(crate) fn run(yes: bool) -> Result<u8> {
    let mut stages = Stages::new(Prepared::STAGES + CHECKS);
    let prepared = Prepared::with_packages(For::Tests, yes, &mut stages)?;
    let workspace = Workspace::find()?;
    for check in checks(&workspace, &prepared) {
        let words: Vec<_> = check
            .command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        stages.begin(check.name, &format!("cargo {}", words.join(" ")));
        let ended = match prepared.run(&check.command, Output::ToStderr) {
            Ok(ended) => ended,
            Err(error) => {
                stages.fail();
                stages.print_summary();
                return Err(error);
            }
        };
        if !ended.status.success() {
            stages.fail();
            stages.print_summary();
            eprintln!(
                "error: the check `{}` failed; its output stands above",
                stages.name()
            );
            return Ok(process::exit_code(ended.status).max(1));
        }
        stages.end("passed");
    }
    stages.print_summary();
    Ok(0)
}

fn checks(workspace: &Workspace, prepared: &Prepared) -> [Check; CHECKS] {
    let plain = |name, words: &[&str]| {
        let mut command = workspace.cargo();
        command.args(words);
        Check { name, command }
    };
    let with_torch = |name, words: &[&str]| {
        let mut command = workspace.cargo_with_torch(prepared);
        command.args(words);
        Check { name, command }
    };
    let mut docs = plain(
        "docs",
        &["doc", "--no-deps", "--workspace", "--exclude", "tunesmith-engine"],
    );
    docs.command.env("RUSTDOCFLAGS", "-D warnings");
    [
        plain("format", &["fmt", "--all", "--check"]),
        plain("licences, bans, sources", &["xtask", "deny"]),
        plain(
            "clippy",
            &[
                "clippy",
                "--workspace",
                "--exclude",
                "tunesmith-engine",
                "--features",
                FAULTS,
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        ),
        plain(
            "clippy, engine",
            &[
                "clippy",
                "-p",
                "tunesmith-engine",
                "--features",
                "no-libtorch,inject-faults",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        ),
        // With the tests, so that dependencies get the same features as in the test run and are compiled once.
        with_torch(
            "build",
            &[
                "build",
                "--workspace",
                "--bins",
                "--tests",
                "--features",
                FAULTS_AND_ENGINE,
            ],
        ),
        if has_nextest(workspace) {
            with_torch(
                "tests",
                &["nextest", "run", "--workspace", "--features", FAULTS_AND_ENGINE],
            )
        } else {
            with_torch(
                "tests",
                &[
                    "test",
                    "--workspace",
                    "--features",
                    FAULTS_AND_ENGINE,
                    "--bins",
                    "--lib",
                    "--tests",
                ],
            )
        },
        plain("doc tests", &["test", "--doc", "--features", FAULTS]),
        docs,
    ]
}

fn has_nextest(workspace: &Workspace) -> bool {
    workspace
        .cargo()
        .args(["nextest", "--version"])
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}
