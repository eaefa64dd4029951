//! Replays the inputs that fuzzing found worth keeping, and each that once broke something, without a fuzzer: on any
//! toolchain, with every test run.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use tunesmith_fuzz::{Bench, TARGETS};

fn inputs(kind: &str, target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz")
        .join(kind)
        .join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// Runs all inputs of a kind and names those that show a fault.
fn replay(kind: &str) {
    let mut broken = Vec::new();
    for (name, target) in TARGETS {
        let bench = Bench::new(target);
        for input in inputs(kind, name) {
            let bytes = fs::read(&input).unwrap();
            if catch_unwind(AssertUnwindSafe(|| bench.run(&bytes))).is_err() {
                broken.push(input);
            }
        }
    }
    assert!(broken.is_empty(), "inputs that show a fault: {broken:#?}");
}

#[test]
fn no_kept_input_breaks_anything() {
    for (name, _) in TARGETS {
        assert!(!inputs("corpus", name).is_empty(), "{name} has no inputs");
    }
    replay("corpus");
}

#[test]
fn no_input_that_once_broke_something_does_so_again() {
    replay("regressions");
}

#[test]
fn every_target_has_a_program() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    let mut found: Vec<String> = fs::read_dir(programs)
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    found.sort();
    assert_eq!(found, TARGETS.map(|(name, _)| name));
}
