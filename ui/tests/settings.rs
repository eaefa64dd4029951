//! The page of the settings: looks, folders, engines, disk, diagnostics.

#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, path::Path};

use common::{Shown, carry_out, looked_at, show};
use egui::{Key, Modifiers};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use tempfile::TempDir;
use tunesmith_lab::{
    disk::{DiskKind, DiskUse},
    testing::TestRun,
};
use tunesmith_probe::testing::{TestMachine, machines};
use tunesmith_protocol::TaskWork;
use tunesmith_ui::{
    commands::Command,
    pages::settings::{self, Listing, SettingsView, settings_ui},
    saved::ThemeWish,
    state::{Loadable, Page, State},
};

const SIZE: [f32; 2] = [1280.0, 2600.0];

/// The page over a home of its own, with everything read that it reads.
struct Open<'a> {
    harness: Harness<'a, Shown<SettingsView>>,
    home: TempDir,
    _machine: TestMachine,
}

fn open<'a>(machine: TestMachine, prepare: impl FnOnce(&mut State)) -> Open<'a> {
    let home = tempfile::tempdir().unwrap();
    let mut state = looked_at(&machine, home.path());
    prepare(&mut state);
    let harness = show(state, settings_ui, SIZE, true, false);
    let mut open = Open {
        harness,
        home,
        _machine: machine,
    };
    open.settle();
    open
}

impl Open<'_> {
    /// Carries out what was asked for and reads what is out of date; returns what is the app's to do.
    fn settle(&mut self) -> Vec<Command> {
        self.harness.run_ok();
        let shown = self.harness.state_mut();
        let left = carry_out(shown);
        while let Some(work) = settings::needs(&mut shown.state) {
            work.run()(&mut shown.state);
        }
        self.harness.run_ok();
        left
    }

    fn click(&mut self, label: &str) -> Vec<Command> {
        self.harness.get_by_label(label).click();
        self.settle()
    }

    fn has(&self, text: &str) -> bool {
        self.harness.query_all_by_label_contains(text).next().is_some()
    }
}

#[test]
fn diagnostics_tell_the_machine_and_nobodys_name() {
    let machine = machines::rx_7900_xtx_with_igpu()
        .file(
            "etc/passwd",
            "annika:x:1000:1000:Annika Muster,,,:/home/annika:/bin/bash\n",
        )
        .file("etc/hostname", "workbench-42\n")
        .environment("LD_LIBRARY_PATH", "/home/annika/rocm");
    let mut open = open(machine, |state| state.renderer = "wgpu (a test)".to_owned());
    open.harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    let asked = open.settle();
    let [Command::Copy { text, .. }] = asked.as_slice() else {
        panic!("{}", asked.len());
    };
    for told in [
        concat!("Tunesmith ", env!("CARGO_PKG_VERSION")),
        "Ubuntu 24.04.3 LTS",
        "kernel 6.18.4",
        "AMD Radeon RX 7900 XTX",
        "gfx1100",
        "amdgpu",
        "wgpu (a test)",
        "doctor: ",
        "LD_LIBRARY_PATH=/home/",
    ] {
        assert!(text.contains(told), "{told} in\n{text}");
    }
    let gpus = &open.harness.state().state.machine.get().unwrap().system.gpus;
    let ids = gpus.iter().filter_map(|gpu| gpu.unique_id.as_deref());
    for secret in ids.chain(["annika", "Muster", "workbench-42"]) {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
}

#[test]
fn a_run_is_asked_about_goes_to_the_trash_and_comes_back() {
    let mut folder = None;
    let mut open = open(machines::no_gpu(), |state| {
        folder = Some(TestRun::new("2026-01-01T00:00:00Z").write(&state.folders.runs()));
    });
    let folder = folder.unwrap();
    let id = folder.file_name().unwrap().to_str().unwrap().to_owned();
    open.click(&format!("Delete {id}…"));
    assert!(folder.exists(), "one click deletes nothing");
    open.harness.key_press(Key::Escape);
    open.settle();
    assert!(!open.has("Move to the trash"));
    open.click(&format!("Delete {id}…"));
    open.click("Move to the trash");
    assert!(!folder.exists());
    assert!(open.has("is in the trash"));
    open.click("Put it back");
    assert!(folder.exists());
}

#[test]
fn the_trash_is_emptied_for_good_after_a_second_click() {
    let mut open = open(machines::no_gpu(), |state| {
        let folder = TestRun::new("2026-01-01T00:00:00Z").write(&state.folders.runs());
        let id = folder.file_name().unwrap().to_str().unwrap().to_owned();
        tunesmith_lab::run::trash::trash(&state.folders, &id).unwrap();
    });
    let trash = open.home.path().join("data/trash");
    let id = fs::read_dir(&trash).unwrap().next().unwrap().unwrap().file_name();
    let id = id.to_str().unwrap().to_owned();
    open.click(&format!("Delete {id}…"));
    assert!(open.has("cannot be had back"));
    open.click("Delete for good");
    assert_eq!(fs::read_dir(&trash).unwrap().count(), 0);
}

#[test]
fn an_environment_goes_for_good_and_not_while_a_task_runs() {
    let mut open = open(machines::no_gpu(), |state| {
        let folder = state.folders.environments().join("half");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), vec![1; 500_000]).unwrap();
        state.tasks.begin(TaskWork::Resume { run: "r1".to_owned() }, 0.0);
    });
    let folder = open.home.path().join("downloads/environments/half");
    open.click("Delete half…");
    assert!(!open.has("Delete for good"), "a run may stand on it");
    let mut tasks = tunesmith_ui::state::TaskState::default();
    std::mem::swap(&mut open.harness.state_mut().state.tasks, &mut tasks);
    open.settle();
    open.click("Delete half…");
    assert!(open.has("Set-up can make it again"));
    open.click("Delete for good");
    assert!(!folder.exists());
}

#[test]
fn a_capture_is_written_and_replaced_only_when_that_is_ticked() {
    let mut open = open(machines::rx_7900_xtx(), |_| {});
    let place = open.home.path().join("data/captures/this-machine.tar.gz");
    open.click("Capture this machine…");
    open.click("Write the capture");
    assert!(place.is_file());
    assert!(open.has("Look through it before you give it to others"));
    open.click("Write the capture");
    assert!(open.has("The capture was not written"));
    open.click("Replace an earlier capture at this place");
    open.click("Write the capture");
    assert!(open.has("Look through it before you give it to others"));
    let asked = open.click("Open its folder");
    assert!(matches!(asked.as_slice(), [Command::Open(folder)] if folder == place.parent().unwrap()));
}

#[test]
fn looks_are_chosen_by_name() {
    let mut open = open(machines::no_gpu(), |_| {});
    let asked = open.click("Dark");
    assert!(matches!(asked.as_slice(), [Command::Theme(ThemeWish::Dark)]));
    let asked = open.click("Larger");
    assert!(matches!(asked.as_slice(), [Command::Zoom(zoom)] if (zoom - 1.1).abs() < 1e-6));
    assert!(open.click("Smaller").is_empty(), "100 % is the least");
    open.click("Warnings only");
    assert_eq!(open.harness.state().state.saved.log_level, "warn");
}

#[test]
fn the_next_start_can_be_told_what_to_draw_with() {
    let mut open = open(machines::no_gpu(), |_| {});
    open.click("glow");
    let config = open.home.path().join("config");
    let notes = tunesmith_ui::renderer::Notes::load(&config);
    assert_eq!(notes.first(), Some(tunesmith_ui::renderer::Rung::Glow));
    assert!(open.has("The next start begins with glow"));
}

#[test]
fn folders_are_opened_and_their_paths_copied() {
    let mut open = open(machines::no_gpu(), |_| {});
    let runs = open.home.path().join("data/runs");
    let asked = open.click("Open the folder Runs");
    assert!(matches!(asked.as_slice(), [Command::Open(path)] if *path == runs));
    let asked = open.click("Copy the path of Runs");
    assert!(matches!(asked.as_slice(), [Command::Copy { text, .. }] if Path::new(text) == runs));
}

#[test]
fn the_welcome_can_be_seen_again() {
    let mut open = open(machines::no_gpu(), |_| {});
    let asked = open.click("Show the welcome again");
    assert!(matches!(asked.as_slice(), [Command::Go(Page::Welcome)]));
}

#[test]
fn an_engine_without_torch_says_so_and_leads_to_the_set_up() {
    let mut open = open(machines::no_gpu(), |_| {});
    assert!(open.harness.query_all_by_label("not installed").count() >= 2);
    if std::env::var_os("TUNESMITH_TORCH").is_none() {
        let asked = open.click("Go to set-up");
        assert!(matches!(asked.as_slice(), [Command::Go(Page::Setup)]));
    }
}

/// Things as they lie on a disk after some weeks.
fn things() -> Listing {
    let thing = |kind, name: &str, mib: u64, users: &[&str]| DiskUse {
        kind,
        name: name.to_owned(),
        path: Path::new("/home/me/tunesmith").join(name),
        bytes: mib << 20,
        whole: true,
        in_use_by: users.iter().map(|user| (*user).to_owned()).collect(),
    };
    Listing(vec![
        thing(
            DiskKind::Environment,
            "native-rocm7.2",
            14_900,
            &["the native engine"],
        ),
        thing(
            DiskKind::Model,
            "Qwen/Qwen3-4B",
            7_690,
            &["2026-11-28-sft-16gib-3f9a01c2"],
        ),
        thing(
            DiskKind::Checkpoints,
            "2026-11-28-sft-16gib-3f9a01c2",
            760,
            &["the run can go on from step 40"],
        ),
        thing(DiskKind::Model, "smollm2-135m-instruct", 94, &[]),
        thing(DiskKind::Run, "2026-11-28-sft-16gib-3f9a01c2", 68, &[]),
        thing(DiskKind::Trash, "2026-11-20-quickstart-77ab120e", 21, &[]),
    ])
}

#[test]
fn the_title_has_the_figure() {
    let open = open(machines::no_gpu(), |state| {
        state.pages.settings.disk = Loadable::Ready(things());
    });
    open.harness
        .get_by_label("Tunesmith takes at most 23.0 GiB of this disk");
    assert!(open.has("used by the native engine"));
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    for dark in [true, false] {
        let machine = machines::rx_7900_xtx();
        let mut state = looked_at(&machine, Path::new("/home/me/tunesmith"));
        state.renderer = "wgpu (a card, Vulkan)".to_owned();
        state.pages.settings.disk = Loadable::Ready(things());
        while let Some(work) = settings::needs(&mut state) {
            work.run()(&mut state);
        }
        let mut harness = show(state, settings_ui, [1280.0, 820.0], dark, true);
        harness.run_ok();
        results.add(harness.try_snapshot(if dark { "settings-dark" } else { "settings-light" }));
    }
}
