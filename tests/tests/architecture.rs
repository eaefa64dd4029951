//! The invariants of ARCHITECTURE.md that a machine can check.

// A test helper that cannot go on should say so at once.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// For each package of the workspace, its folder and the names of what it depends on directly.
fn packages() -> BTreeMap<String, (PathBuf, BTreeSet<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let folder = Path::new(package["manifest_path"].as_str().unwrap())
                .parent()
                .unwrap()
                .to_owned();
            let dependencies = package["dependencies"].as_array().unwrap();
            let names = dependencies
                .iter()
                .filter(|dependency| dependency["kind"] != "dev");
            let names = names
                .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
                .collect();
            (package["name"].as_str().unwrap().to_owned(), (folder, names))
        })
        .collect()
}

fn dependents(of: &str) -> Vec<String> {
    let packages = packages();
    assert!(packages.len() > 8, "the workspace was read");
    packages
        .into_iter()
        .filter(|(_, (_, names))| names.contains(of))
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn only_the_engine_links_libtorch() {
    assert_eq!(dependents("tch"), ["tunesmith-engine"]);
}

#[test]
fn only_the_window_knows_egui() {
    for library in ["eframe", "egui", "egui_extras"] {
        assert_eq!(dependents(library), ["tunesmith-ui"], "{library}");
    }
    // On Windows and macOS the shell asks with it too.
    assert_eq!(dependents("rfd"), ["tunesmith-shell", "tunesmith-ui"]);
}

#[test]
fn only_the_shell_knows_tauri() {
    for library in [
        "tauri",
        "tauri-plugin-notification",
        "tauri-plugin-single-instance",
        "tauri-plugin-updater",
    ] {
        assert_eq!(dependents(library), ["tunesmith-shell"], "{library}");
    }
    // Of the shell itself only its desktop does.
    let source = root().join("src-tauri/src");
    for entry in std::fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = std::fs::read_to_string(&path).unwrap();
            for word in ["tauri::", "tauri_plugin", "gtk::"] {
                assert!(!text.contains(word), "{} knows {word}", path.display());
            }
        }
    }
}

#[test]
fn pages_take_their_colours_from_the_theme() {
    let mut folders = vec![root().join("ui/src")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        if folder.ends_with("theme") {
            continue;
        }
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            seen += 1;
            for literal in ["from_rgb(", "from_rgba", "from_gray(", "from_hex(", "hex_color!"] {
                assert!(!text.contains(literal), "{} has {literal}", path.display());
            }
        }
    }
    assert!(seen > 20, "the window's files were read");
}

#[test]
fn nothing_depends_on_a_program() {
    for program in [
        "tunesmith-cli",
        "tunesmith-engine",
        "tunesmith-shell",
        "tunesmith-xtask",
        "tunesmith-tests",
        "tunesmith-ui",
    ] {
        assert_eq!(dependents(program), Vec::<String>::new(), "{program}");
    }
}

#[test]
fn protocol_and_measure_do_no_input_or_output() {
    let packages = packages();
    for name in ["tunesmith-protocol", "tunesmith-measure"] {
        let (folder, _) = &packages[name];
        let mut files = vec![folder.join("src")];
        let mut seen = 0;
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(
                    std::fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
                continue;
            }
            seen += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            for word in [
                "std::fs",
                "std::process",
                "std::net",
                "std::env",
                "std::io",
                "SystemTime",
                "Instant::now",
            ] {
                assert!(!text.contains(word), "{} uses {word}", path.display());
            }
        }
        assert!(seen > 2, "{name} was read");
    }
}

/// Calls of a system that have no safe form.
const BINDINGS: [&str; 1] = ["crates/probe/src/windows.rs"];

#[test]
fn only_the_engine_and_small_documented_bindings_may_be_unsafe() {
    for (name, (folder, _)) in packages() {
        if name == "tunesmith-engine" {
            continue;
        }
        let mut files = vec![folder.join("src")];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(
                    std::fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !BINDINGS.iter().any(|binding| path.ends_with(binding))
            {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(
                    !text.contains("allow(unsafe_code)"),
                    "{} allows unsafe code",
                    path.display()
                );
            }
        }
    }
}
