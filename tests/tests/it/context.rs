//! What tests share: a home of their own, scripts for the fake engine, the programs, and waiting with a limit.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::tiny_model;

/// A script that trains three steps and answers what is asked.
pub(crate) const GOOD: &str = r#"
{"hello": 1}
{"wait_job": {}}
{"answer_all": "SELECT 1", "when": "answer"}
{"steps": {"from": 1, "to": 3}, "when": "train"}
{"save_adapter": {}, "when": "train"}
{"result": {}}
{"bye": "ok"}
"#;

/// Scripts begin with this.
pub(crate) const OPENING: &str = "{\"hello\": 1}\n{\"wait_job\": {}}\n";

/// Scripts begin with this where a calibration comes before what they are about.
pub(crate) const CALIBRATES: &str = r#"{"hello": 1}
{"wait_job": {}}
{"result": {}, "when": "calibrate"}
{"bye": "ok", "when": "calibrate"}
{"exit": 0, "when": "calibrate"}
"#;

/// A home for one test, with a model and a data set of its own.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    /// One in a folder of this one, whatever its name.
    pub(crate) fn within(outer: &Path) -> Self {
        Self::in_folder(tempfile::tempdir_in(outer).unwrap())
    }

    fn in_folder(folder: TempDir) -> Self {
        tiny_model::write(&folder.path().join("model"));
        let rows: String = (0..6)
            .map(|n| {
                format!(
                    "{{\"prompt\": \"How much are {n} and one?\", \"completion\": \"It is {}\"}}\n",
                    n + 1
                )
            })
            .collect();
        fs::write(folder.path().join("rows.jsonl"), rows).unwrap();
        let site = folder.path().join("site/torch");
        fs::create_dir_all(site.join("lib")).unwrap();
        fs::write(site.join("version.py"), "__version__ = '2.11.0+cpu'\n").unwrap();
        let home = Self { folder };
        home.write_recipe("");
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The recipe of this home, with more lines in its `[train]` section.
    pub(crate) fn write_recipe(&self, more: &str) {
        let text = format!(
            "name = \"tiny\"\ntitle = \"A tiny model\"\n[model]\npath = \"model\"\n[data]\npath = \"rows.jsonl\"\nmax_length = 256\n\
             [lora]\nrank = 4\nalpha = 8.0\n[optimizer]\nlearning_rate = 0.01\nwarmup_steps = 0\n\
             [train]\nsteps = 3\nmicro_batch = 2\n{more}\n"
        );
        fs::write(self.path("tiny.toml"), text).unwrap();
    }

    /// The run's summary as its file says.
    pub(crate) fn summary(&self) -> Value {
        let text = fs::read_to_string(self.only_run().join("summary.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn recipe(&self) -> String {
        self.path("tiny.toml").to_str().unwrap().to_owned()
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.path("home/data/runs")
    }

    /// The only run's folder.
    pub(crate) fn only_run(&self) -> PathBuf {
        let folders: Vec<PathBuf> = fs::read_dir(self.runs())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders[0].clone()
    }

    /// The command line with the fake engine on a script.
    pub(crate) fn tunesmith(&self, script: &str) -> Command {
        let file = self.path("script.jsonl");
        fs::write(&file, script).unwrap();
        let mut command = Command::new(cli());
        command
            .env("TUNESMITH_HOME", self.path("home"))
            .env("TUNESMITH_ENGINE", fake_engine())
            .env("TUNESMITH_TORCH", self.path("site"))
            .env("FAKE_ENGINE_SCRIPT", file)
            .stdin(Stdio::null());
        command
    }

    /// The command line with the engine and torch of the build.
    pub(crate) fn tunesmith_for_real(&self) -> Command {
        let engine = built("tunesmith-engine");
        let mut command = Command::new(cli());
        command
            .env("TUNESMITH_HOME", self.path("home"))
            .env("TUNESMITH_ENGINE", engine)
            .stdin(Stdio::null());
        command
    }
}

/// A finished command.
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\nstdout: {}\nstderr: {}", self.stdout, self.stderr))
    }

    #[track_caller]
    pub(crate) fn expect_status(self, status: i32) -> Self {
        assert_eq!(
            self.status,
            Some(status),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(crate) trait RunIt {
    fn ran(&mut self) -> Ran;
    fn started(&mut self) -> Child;
}

impl RunIt for Command {
    fn ran(&mut self) -> Ran {
        self.output().unwrap().into()
    }

    fn started(&mut self) -> Child {
        self.stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

pub(crate) fn fake_engine() -> &'static str {
    env!("CARGO_BIN_EXE_fake-engine")
}

fn cli() -> PathBuf {
    built("tunesmith")
}

/// A program of the build, which lies beside the folder of this test.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "{} is missing: `cargo xtask test` builds it first",
        path.display()
    );
    path
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "waited {limit:?} in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The process whose id a script wrote, once it has.
pub(crate) fn pid_in(file: &Path) -> u32 {
    let mut pid = None;
    wait_until("the engine wrote its process id", Duration::from_secs(20), || {
        pid = fs::read_to_string(file)
            .ok()
            .and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

/// The children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let parent_of = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

/// Sends Ctrl-C's signal.
#[cfg(unix)]
pub(crate) fn interrupt(pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::INT).unwrap();
}

/// Whether a process lives; one that has ended and waits to be reaped does not.
pub(crate) fn lives(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .starts_with('Z')
    })
}
