//! The whole way of somebody who has never used a terminal: the window's program on a display, the real service, the
//! real engine, and nothing but keys, from Start to a saved report.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::context::{Home, built, wait_until};

/// A display without a screen, for as long as this lives.
pub(crate) struct Display {
    server: Child,
    name: String,
}

impl Display {
    pub(crate) fn open() -> Self {
        let mut server = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                "1280x820x24",
                "-nolisten",
                "tcp",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb is there: `cargo xtask test` installs it");
        let mut number = String::new();
        let mut output = std::io::BufReader::new(server.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut number).unwrap();
        Self {
            server,
            name: format!(":{}", number.trim()),
        }
    }

    /// Lets xdotool do something; whether it could.
    pub(crate) fn xdotool(&self, words: &[&str]) -> bool {
        let done = Command::new("xdotool")
            .env("DISPLAY", &self.name)
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        done.expect("xdotool is there: `cargo xtask test` installs it")
            .success()
    }

    /// By which a program finds it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn press(&self, keys: &str) {
        assert!(self.xdotool(&["key", keys]), "{keys}");
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The window's program.
struct Window {
    program: Child,
    display: Display,
    config: PathBuf,
}

impl Window {
    fn open(home: &Home, recipe: &Path) -> Self {
        let display = Display::open();
        let config = home.path("home/config");
        fs::create_dir_all(&config).unwrap();
        let saved = json!({
            "welcomed": true,
            "page": "card",
            "device": "cpu",
            "forms": { "tune": { "origin": { "file": recipe } } },
        });
        fs::write(config.join("window.json"), saved.to_string()).unwrap();
        let program = Command::new(built("tunesmith-ui"))
            .env("DISPLAY", &display.name)
            .env_remove("WAYLAND_DISPLAY")
            .env("HOME", home.path("."))
            .env("XDG_CONFIG_HOME", home.path("no-settings"))
            .env("TUNESMITH_HOME", home.path("home"))
            .env("TUNESMITH_ENGINE", built("tunesmith-engine"))
            .env("TUNESMITH_PROGRAM", built("tunesmith"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let window = Self {
            program,
            display,
            config,
        };
        wait_until("the window has painted", Duration::from_mins(1), || {
            let notes = fs::read_to_string(window.config.join("renderer.json")).unwrap_or_default();
            serde_json::from_str::<Value>(&notes).is_ok_and(|notes| notes["painted"].is_string())
        });
        // Without a window manager nobody gives it the keyboard.
        wait_until("the window has the keyboard", Duration::from_secs(20), || {
            window.display.xdotool(&[
                "search",
                "--onlyvisible",
                "--name",
                "Tunesmith",
                "windowfocus",
                "--sync",
            ])
        });
        window
    }

    /// Shows a page and waits until the window says that it does.
    fn show(&self, key: &str, page: &str) {
        self.display.press(key);
        let file = self.config.join("window.json");
        wait_until("the page is shown", Duration::from_secs(20), || {
            let saved = fs::read_to_string(&file).unwrap_or_default();
            serde_json::from_str::<Value>(&saved).is_ok_and(|saved| saved["page"] == page)
        });
    }

    /// Keeps a picture where somebody wants to look at it.
    fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("TUNESMITH_TEST_PICTURES") else {
            return;
        };
        let path = Path::new(&folder).join(format!("{name}.png"));
        let _ = Command::new("import")
            .env("DISPLAY", &self.display.name)
            .args(["-window", "root"])
            .arg(path)
            .status();
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// The reports in a folder and below, but for those in `runs`.
fn saved_reports(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("runs") {
            found.extend(saved_reports(&path));
        } else if path.extension().is_some_and(|extension| extension == "html") {
            found.push(path);
        }
    }
    found
}

#[test]
fn keys_alone_lead_from_start_to_a_saved_report() {
    let home = Home::new();
    // A recipe of the user's own, with paths that hold wherever the window runs.
    let recipe = home.path("own.toml");
    let text = fs::read_to_string(home.recipe())
        .unwrap()
        .replace("\"model\"", &format!("{:?}", home.path("model")))
        .replace("\"rows.jsonl\"", &format!("{:?}", home.path("rows.jsonl")))
        .replace("steps = 3", "steps = 40");
    fs::write(&recipe, text).unwrap();
    let window = Window::open(&home, &recipe);
    window.picture("1-card");

    window.show("ctrl+4", "tune");
    window.picture("2-tune");
    // The form and its checks are read in the background; Start is there once they are.
    wait_until("a training has begun", Duration::from_mins(2), || {
        let begun = fs::read_dir(home.runs()).is_ok_and(|mut runs| runs.next().is_some());
        if !begun {
            let file = fs::read_to_string(window.config.join("window.json")).unwrap_or_default();
            if file.contains("\"page\": \"tune\"") {
                window.display.press("ctrl+Return");
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        begun
    });
    let run = home.only_run();
    window.picture("3-live");
    wait_until("the training is over", Duration::from_mins(3), || {
        run.join("report.html").exists() && run.join("summary.json").exists()
    });
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(run.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["status"], "ok", "{summary:#}");
    window.show("ctrl+5", "live");
    window.picture("4-finished");
    window.show("ctrl+8", "runs");
    window.picture("5-runs");

    window.show("ctrl+9", "report");
    wait_until("the report is saved", Duration::from_mins(1), || {
        window.display.press("ctrl+Return");
        std::thread::sleep(Duration::from_millis(500));
        !saved_reports(&home.path(".")).is_empty()
    });
    window.picture("6-report");
    let report = saved_reports(&home.path(".")).remove(0);
    let html = fs::read_to_string(&report).unwrap();
    assert!(html.contains("</html>"));
    let beside: Value =
        serde_json::from_str(&fs::read_to_string(report.with_extension("json")).unwrap()).unwrap();
    assert!(beside.is_object());
}
