//! What a desktop reads about the app: its entry in a menu, and its description for a software centre.

// A test helper that cannot go on should say so at once.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use roxmltree::{Document, Node};

const ID: &str = "app.tunesmith.Tunesmith";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn entry() -> BTreeMap<String, String> {
    let text = read(&format!("installers/linux/{ID}.desktop"));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("[Desktop Entry]"));
    let mut keys = BTreeMap::new();
    for line in lines {
        let (key, value) = line.split_once('=').unwrap();
        let twice = keys.insert(key.to_owned(), value.to_owned());
        assert_eq!(twice, None, "{key} stands there twice");
    }
    keys
}

/// Validators read more than these tests do; they are not on every machine, `cargo xtask dist` brings them.
fn validate(program: &str, arguments: &[&str], file: &str) {
    let run = Command::new(program)
        .args(arguments)
        .arg(root().join(file))
        .output();
    if let Ok(output) = run {
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Node<'a, 'input> {
    let found = node.children().find(|child| child.has_tag_name(name));
    found.unwrap_or_else(|| panic!("{name} is missing"))
}

#[test]
fn the_menu_entry_starts_the_app_and_knows_its_windows() {
    let entry = entry();
    assert_eq!(entry["Type"], "Application");
    assert_eq!(entry["Exec"], "tunesmith-shell");
    assert_eq!(entry["Icon"], ID);
    // A desktop finds the entry of a window by this name, which the window tells of itself.
    assert_eq!(entry["StartupWMClass"], ID);
    assert!(read("ui/src/main.rs").contains(&format!("\"{ID}\"")));
    for list in ["Categories", "Keywords"] {
        assert!(entry[list].ends_with(';'), "{list}");
    }
    assert!(entry["Categories"].contains("Science;"));
    assert!(!entry["Comment"].ends_with('.'));
    validate(
        "desktop-file-validate",
        &[],
        &format!("installers/linux/{ID}.desktop"),
    );
}

#[test]
fn the_description_belongs_to_the_entry_and_to_this_version() {
    let file = format!("installers/linux/{ID}.metainfo.xml");
    let text = read(&file);
    let document = Document::parse(&text).unwrap();
    let component = document.root_element();
    assert_eq!(component.attribute("type"), Some("desktop-application"));
    assert_eq!(child(component, "id").text(), Some(ID));
    let launchable = child(component, "launchable").text().unwrap();
    assert_eq!(launchable, format!("{ID}.desktop"));
    let entry = entry();
    assert_eq!(child(component, "name").text(), Some(entry["Name"].as_str()));
    let licence = child(component, "project_license").text().unwrap();
    assert!(read("Cargo.toml").contains(&format!("license = \"{licence}\"")));
    let summary = child(component, "summary").text().unwrap();
    assert!(summary.len() < 80 && !summary.ends_with('.'), "{summary}");
    let programs: Vec<_> = child(component, "provides")
        .children()
        .filter_map(|provided| provided.has_tag_name("binary").then(|| provided.text())?)
        .collect();
    assert!(programs.contains(&entry["Exec"].as_str()), "{programs:?}");
    let release = child(child(component, "releases"), "release");
    assert_eq!(release.attribute("version"), Some(env!("CARGO_PKG_VERSION")));
    validate("appstreamcli", &["validate", "--no-net"], &file);
}
