//! What a user relies on in set-up, with a stand-in for uv that behaves as told: a stage either ends complete or
//! leaves nothing, and says why.
#![cfg(unix)]
// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tunesmith_setup::{Folders, Ready, Report, Setup, SetupError, Stage};

/// A home of its own, with the two stand-ins in it.
struct TestSetup {
    temp: tempfile::TempDir,
    setup: Setup,
    reports: Vec<Report>,
}

impl TestSetup {
    fn new(mode: &str) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let tools = temp.path().join("tools");
        fs::create_dir(&tools).unwrap();
        symlink(scripts.join("fake-uv.sh"), tools.join("uv")).unwrap();
        symlink(scripts.join("fake-python.sh"), tools.join("python")).unwrap();
        fs::write(tools.join("python-version"), "3 11\n").unwrap();
        let mut setup = Setup::new(Folders::all_under(temp.path()));
        setup.uv = Some(tools.join("uv"));
        setup.python = Some(tools.join("python"));
        let mut test = Self {
            temp,
            setup,
            reports: Vec::new(),
        };
        test.set_mode(mode);
        test
    }

    fn tool(&self, name: &str) -> PathBuf {
        self.temp.path().join("tools").join(name)
    }

    fn set_mode(&mut self, mode: &str) {
        fs::write(self.tool("mode"), mode).unwrap();
    }

    fn runtime(&mut self) -> Result<Ready<PathBuf>, SetupError> {
        let reports = &mut self.reports;
        self.setup
            .ensure_runtime(&self.temp.path().join("tools/uv"), &mut |report| {
                reports.push(report.clone());
            })
    }

    fn model(&mut self) -> Result<Ready<PathBuf>, SetupError> {
        self.setup
            .ensure_model(&self.temp.path().join("tools/uv"), &mut |_| {})
    }

    fn calls(&self) -> usize {
        fs::read_to_string(self.tool("calls")).map_or(0, |text| text.lines().count())
    }

    /// Everything under the downloads but the lock.
    fn left_over(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.setup.folders.downloads().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else if entry.file_name() != "setup.lock" {
                    files.push(entry.path());
                }
            }
        }
        files
    }
}

#[test]
fn a_runtime_is_installed_once_and_its_size_is_said_first() {
    let mut test = TestSetup::new("runtime");
    let first = test.runtime().unwrap();
    assert!(first.installed);
    assert!(first.value.join("torch/version.py").is_file());
    let Some(Report::Plan(plan)) = test.reports.first() else {
        panic!("no plan was told: {:?}", test.reports);
    };
    assert_eq!(plan.stage, Stage::Runtime);
    assert!(plan.download_bytes > Some(500 << 20));

    let second = test.runtime().unwrap();
    assert!(!second.installed);
    assert_eq!(second.value, first.value);
    assert_eq!(test.calls(), 1, "the second set-up started uv again");
}

#[test]
fn a_runtime_made_by_hand_is_taken_over() {
    let mut test = TestSetup::new("no-network");
    let folder = test.setup.folders.runtime().to_path_buf();
    fs::create_dir_all(folder.join("torch/lib")).unwrap();
    fs::create_dir_all(folder.join("nvidia/cu13/lib")).unwrap();
    fs::write(folder.join("torch/version.py"), "__version__ = '2.11.0'\n").unwrap();
    for name in ["libtorch_cpu.so", "libtorch_cpu.dylib"] {
        fs::write(folder.join("torch/lib").join(name), "").unwrap();
    }
    assert!(!test.runtime().unwrap().installed);
    assert!(folder.join(".tunesmith-complete").is_file());
    assert_eq!(test.calls(), 0);
}

#[test]
fn without_a_network_nothing_is_left_and_the_next_try_succeeds() {
    let mut test = TestSetup::new("no-network");
    let error = test.runtime().unwrap_err();
    assert_eq!(error.code(), "no_network");
    assert!(error.to_string().contains("dns error"), "{error}");
    assert_eq!(test.left_over(), Vec::<PathBuf>::new());

    test.set_mode("runtime");
    assert!(test.runtime().unwrap().installed);
}

#[test]
fn a_full_disk_is_named_and_nothing_is_left() {
    let mut test = TestSetup::new("disk-full");
    let error = test.runtime().unwrap_err();
    assert_eq!(error.code(), "disk_full");
    assert!(!error.hints().is_empty());
    assert_eq!(test.left_over(), Vec::<PathBuf>::new());
}

#[test]
fn another_torch_than_asked_for_does_not_pass_as_the_runtime() {
    let mut test = TestSetup::new("other-torch");
    assert_eq!(test.runtime().unwrap_err().code(), "download_damaged");
    assert_eq!(test.left_over(), Vec::<PathBuf>::new());
}

#[test]
fn a_model_file_of_another_content_is_refused() {
    let mut test = TestSetup::new("wrong-model");
    let error = test.model().unwrap_err();
    assert_eq!(error.code(), "download_damaged");
    assert!(error.to_string().contains("98362432"), "{error}");
    assert_eq!(test.left_over(), Vec::<PathBuf>::new());
}

#[test]
fn a_stop_in_the_middle_ends_uv_and_leaves_nothing_half_made() {
    let test = TestSetup::new("hang");
    let pid_file = test.tool("pid");
    let cancel = test.setup.cancel.clone();
    let error = test
        .setup
        .ensure_runtime(&test.tool("uv"), &mut |report| {
            if matches!(report, Report::Progress(_)) && pid_file.exists() {
                cancel.cancel();
            }
        })
        .unwrap_err();
    assert_eq!(error.code(), "cancelled");
    assert_eq!(test.left_over(), Vec::<PathBuf>::new());

    let pid = fs::read_to_string(&pid_file).unwrap();
    let state = PathBuf::from(format!("/proc/{}/cmdline", pid.trim()));
    let deadline = Instant::now() + Duration::from_secs(10);
    while fs::read(&state).is_ok_and(|line| !line.is_empty()) {
        assert!(Instant::now() < deadline, "uv still runs");
        std::thread::yield_now();
    }
}

#[test]
fn what_a_killed_set_up_left_is_replaced() {
    let mut test = TestSetup::new("runtime");
    let mut partial = test.setup.folders.runtime().as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    fs::create_dir_all(partial.join("torch/lib")).unwrap();
    fs::write(partial.join("torch/lib/stale"), "").unwrap();
    let runtime = test.runtime().unwrap().value;
    assert!(!partial.exists());
    assert!(!runtime.join("torch/lib/stale").exists());
}

#[test]
fn a_folder_with_files_of_the_users_is_left_alone() {
    let mut test = TestSetup::new("runtime");
    let own = test.temp.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("thesis.txt"), "years of work").unwrap();
    test.setup.folders = test.setup.folders.clone().with_runtime(own.clone());
    assert_eq!(test.runtime().unwrap_err().code(), "folder_taken");
    assert!(own.join("thesis.txt").is_file());
}

#[test]
fn an_old_python_is_named_with_its_version() {
    let mut test = TestSetup::new("runtime");
    fs::write(test.tool("python-version"), "3 9\n").unwrap();
    let error = test.runtime().unwrap_err();
    assert_eq!(error.code(), "python_missing");
    assert!(error.to_string().contains("3.9"), "{error}");
}
