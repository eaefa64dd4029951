//! What a user relies on when set-up makes an environment, with the real uv and an index on this machine: what is
//! installed comes from where the plan says, and whatever goes wrong, the last good environment still works.
#![cfg(target_os = "linux")]
// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod index;
mod machine;
mod wheel;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tunesmith_setup::environments::{
    self, Engine, Expectations, GpuBuild, InstallSpec, PythonRange, PythonVersion, TritonNeed, choose, list,
    remove, roll_back,
};
use tunesmith_setup::{Report, process::Cancel};

use crate::index::Fault;
use crate::machine::{Machine, need, owned, packages, setup_in};
use crate::wheel::Wheel;

#[test]
fn unsloth_on_rocm_keeps_torch_and_triton_and_leaves_xformers_out() {
    let Some(mut machine) = Machine::new() else { return };
    machine.add_rocm();
    let spec = machine.unsloth_on_rocm();
    let ready = machine.apply(&spec).unwrap();
    assert!(ready.installed);
    let environment = ready.value;
    assert_eq!(
        packages(&environment),
        [
            "bitsandbytes 0.50.2",
            "torch 2.11.0+rocm7.2",
            "torchvision 0.26.0+rocm7.2",
            "transformers 5.17.0",
            "triton-rocm 3.6.0",
            "unsloth 2026.10.9",
        ]
    );
    let triton = fs::read_to_string(environment.site.join("triton/__init__.py")).unwrap();
    assert_eq!(triton, "# amd\n");

    // Its Python finds what is in it, under the name that it has now.
    let imported = Command::new(environment.python.as_ref().unwrap())
        .args(["-I", "-c", "import torch, triton, unsloth; print(torch.__file__)"])
        .output()
        .unwrap();
    let file = String::from_utf8_lossy(&imported.stdout);
    assert!(
        file.trim().starts_with(&*environment.site.to_string_lossy()),
        "{file}"
    );
    assert_eq!(machine.active(Engine::Unsloth).unwrap(), environment);
}

#[test]
fn every_command_is_told_before_it_runs_and_recorded_after() {
    let Some(mut machine) = Machine::new() else { return };
    machine.add_rocm();
    let spec = machine.unsloth_on_rocm();
    let calls = machine.temp.path().join("calls");
    let mut order = Vec::new();
    let setup = machine.setup.clone();
    let environment = setup
        .apply(&machine.uv, &spec, &mut |report| {
            if let Report::Command(told) = report {
                let ran = fs::read_to_string(&calls).unwrap_or_default().lines().count();
                order.push((told.number, told.total, ran));
            }
            machine.reports.push(report.clone());
        })
        .unwrap()
        .value;
    assert_eq!(order, [(1, 3, 0), (2, 3, 1), (3, 3, 2)]);

    let Some(Report::Plan(plan)) = machine.reports.first() else {
        panic!("{:?}", machine.reports);
    };
    assert_eq!(plan.download_bytes, Some(20_000));
    assert_eq!(plan.disk_bytes, Some(40_000));
    assert_eq!(plan.needed_bytes, Some(60_000));
    assert!(plan.free_bytes > plan.needed_bytes);

    let told = machine.told();
    assert!(
        told[1].contains("--index-strategy first-index") && told[1].ends_with("'triton-rocm==3.6.0'"),
        "{}",
        told[1]
    );
    // As a shell takes it: quoted where a shell would read something else.
    let words = shlex::split(&told[2]).unwrap();
    assert_eq!(words.last().unwrap(), "unsloth[amd]==2026.10.9");
    assert!(told[2].contains("'unsloth[amd]==2026.10.9'"), "{}", told[2]);
    let Some(Report::Command(last)) = machine
        .reports
        .iter()
        .rfind(|report| matches!(report, Report::Command(_)))
    else {
        panic!("no command was told");
    };
    assert!(last.files[0].1.contains("xformers; sys_platform == 'never'\n"));

    let stamp = environment.stamp;
    assert_eq!(stamp.commands, told);
    assert_eq!(stamp.spec, spec);
    assert_eq!(stamp.torch.as_deref(), Some("2.11.0+rocm7.2"));
    assert_eq!(stamp.python, format!("3.{}", machine.python.minor));
    assert_eq!(stamp.packages.len(), 6);
    assert_eq!(stamp.unknown, Vec::<String>::new());
    assert!(stamp.uv.unwrap().starts_with("uv "));
    assert!(stamp.disk_bytes > 0 && stamp.made_at.ends_with('Z'));
}

#[test]
fn the_same_spec_again_runs_nothing() {
    let Some(mut machine) = Machine::new() else { return };
    machine.add_rocm();
    let spec = machine.unsloth_on_rocm();
    let first = machine.apply(&spec).unwrap();
    let (told, calls) = (machine.told().len(), machine.calls().len());
    let second = machine.apply(&spec).unwrap();
    assert!(!second.installed);
    assert_eq!(second.value, first.value);
    assert_eq!((machine.told().len(), machine.calls().len()), (told, calls));

    // One that was damaged since is made again.
    fs::remove_dir_all(first.value.site.join("triton")).unwrap();
    assert!(machine.apply(&spec).unwrap().installed);
    assert!(first.value.site.join("triton/backends/amd").is_dir());
}

#[test]
fn a_preview_tells_the_commands_and_runs_none() {
    let Some(mut machine) = Machine::new() else { return };
    machine.add_rocm();
    let spec = machine.unsloth_on_rocm();
    let mut plans = 0;
    let commands = machine
        .setup
        .preview(&machine.uv, &spec, &mut |report| {
            plans += usize::from(matches!(report, Report::Plan(_)));
        })
        .unwrap();
    assert_eq!(plans, 1);
    assert_eq!(machine.index.requests(), 0);
    assert_eq!(machine.folders(), Vec::<String>::new());
    machine.apply(&spec).unwrap();
    assert_eq!(machine.told(), commands);
}

#[test]
fn the_native_environment_holds_the_named_wheels_alone() {
    let Some(mut machine) = Machine::new() else { return };
    machine.add_rocm();
    let spec = machine.native_on_rocm();
    let environment = machine.apply(&spec).unwrap().value;
    assert_eq!(packages(&environment), ["torch 2.11.0+rocm7.2"]);
    assert_eq!(environment.site, environment.folder);
    assert_eq!(environment.python, None);
    // The engine that starts next uses it.
    let used = machine.active(Engine::Native).unwrap();
    let engine = tunesmith_setup::engine_env(&used.site).unwrap();
    assert_eq!(engine.version, "2.11.0+rocm7.2");
}

#[test]
fn a_native_environment_gets_wheels_for_a_python_that_is_not_there() {
    let Some(mut machine) = Machine::new() else { return };
    let other = if machine.python.minor == 12 { 13 } else { 12 };
    machine
        .index
        .add("rocm", Wheel::torch("2.11.0", "").binary(other));
    let mut spec = machine.native_on_rocm();
    spec.steps[0].requirements = owned(&["torch==2.11.0"]);
    spec.verify = Expectations::default();
    let version = PythonVersion { minor: other };
    spec.python = PythonRange {
        preferred: version,
        minimum: version,
        maximum: version,
    };
    machine.setup.python = Some(machine.python.program.clone());
    let environment = machine.apply(&spec).unwrap().value;
    assert_eq!(environment.stamp.python, format!("3.{other}"));

    // One with a Python of its own cannot be made of another one.
    spec.engine = Engine::Hf;
    "hf-other-python".clone_into(&mut spec.name);
    let error = machine.apply(&spec).unwrap_err();
    assert_eq!(error.code(), "python_unsuitable");
    assert!(
        error.to_string().contains(&format!("3.{}", machine.python.minor)),
        "{error}"
    );
}

#[test]
fn the_first_index_that_knows_a_package_answers_for_it_alone() {
    let Some(mut machine) = Machine::new() else { return };
    machine.add_rocm();
    let mut step = machine.step("general", &["torch>=2.11", "triton-rocm", "transformers"]);
    step.extra_indexes = vec![machine.index.url("rocm")];
    step.no_deps = true;
    let spec = machine.spec(Engine::Hf, "hf-first-index", vec![step]);
    let environment = machine.apply(&spec).unwrap().value;
    assert_eq!(
        packages(&environment),
        ["torch 2.12.0+rocm7.2", "transformers 5.24.0", "triton-rocm 3.6.0"]
    );
}

#[test]
fn without_overrides_a_second_triton_is_caught_and_the_old_environment_stays() {
    let Some(mut machine) = Machine::new() else { return };
    machine.add_rocm();
    let good = machine.unsloth_on_rocm();
    let before = machine.apply(&good).unwrap().value;
    let mut careless = good.clone();
    careless.steps[1].overrides.clear();
    let error = machine.apply(&careless).unwrap_err();
    assert_eq!(error.code(), "not_as_expected");
    let text = error.to_string();
    assert!(
        text.contains("two packages fill the folder `triton` (triton 3.7.0, triton-rocm 3.6.0)")
            && text.contains("xformers 0.0.35 is there"),
        "{text}"
    );
    assert_eq!(machine.active(Engine::Unsloth).unwrap(), before);
    assert_eq!(machine.folders(), [good.name.as_str()]);
    assert!(!machine.apply(&good).unwrap().installed);
}

#[test]
fn a_torch_for_another_card_does_not_pass() {
    let Some(mut machine) = Machine::new() else { return };
    machine.add_rocm();
    // A mirror that answers with the general build, and a card that the wheel has no kernels for.
    let mut spec = machine.native_on_rocm();
    spec.steps[0].index_url = Some(machine.index.url("general"));
    spec.steps[0].requirements = owned(&["torch==2.11.0"]);
    let error = machine.apply(&spec).unwrap_err().to_string();
    assert!(
        error.contains("torch is 2.11.0, and the build +rocm7.2 is wanted")
            && error.contains("torch was built for CUDA 13.0, and one for ROCm is wanted"),
        "{error}"
    );
    let mut spec = machine.native_on_rocm();
    spec.verify.kernels_for_gfx = Some("gfx1103".to_owned());
    let error = machine.apply(&spec).unwrap_err().to_string();
    assert!(error.contains("no kernels for gfx1103"), "{error}");
    assert_eq!(machine.active(Engine::Native), None);
    assert_eq!(machine.folders(), Vec::<String>::new());
}

#[test]
fn a_card_gets_its_own_pack_by_an_extra() {
    let Some(mut machine) = Machine::new() else { return };
    let minor = machine.python.minor;
    let mut torch = Wheel::torch("2.11.0+rocm7.14.0", "hip = '7.14.0'").binary(minor);
    for gfx in ["gfx1030", "gfx1031"] {
        let pack = format!("rocm-sdk-device-{gfx}");
        torch = torch.extra(&format!("device-{gfx}"), &format!("{pack}==7.14.0"));
        let kernels = format!("_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_lazy_{gfx}.dat");
        machine
            .index
            .add("multi", Wheel::new(&pack, "7.14.0").file(&kernels, ""));
    }
    machine.index.add("multi", torch);
    let step = machine.step("multi", &["torch[device-gfx1031]==2.11.0+rocm7.14.0"]);
    let mut spec = machine.spec(
        Engine::Native,
        "native-torch-2.11.0-rocm7.14.0-gfx1031",
        vec![step],
    );
    spec.verify.kernels_for_gfx = Some("gfx1031".to_owned());
    let environment = machine.apply(&spec).unwrap().value;
    assert_eq!(
        packages(&environment),
        ["rocm-sdk-device-gfx1031 7.14.0", "torch 2.11.0+rocm7.14.0"]
    );
    let engine = tunesmith_setup::engine_env(&environment.site).unwrap();
    let beside = environment.site.join("_rocm_sdk_libraries/lib");
    assert_eq!(engine.library_folders.last(), Some(&beside));
}

#[test]
fn settings_of_the_users_do_not_choose_packages() {
    let Some(machine) = Machine::new() else { return };
    machine.index.add("general", Wheel::new("peft", "0.21.2"));
    machine.index.add("own", Wheel::new("peft", "99.0"));
    let spec = machine.small("hf-2026-11", "peft");
    let constraint = machine.temp.path().join("constraint.txt");
    fs::write(&constraint, "peft==0.0.1\n").unwrap();
    let status = apply_elsewhere(&machine, &spec)
        .env("UV_EXTRA_INDEX_URL", machine.index.url("own"))
        .env("UV_INDEX", machine.index.url("own"))
        .env("UV_CONSTRAINT", &constraint)
        .env("UV_INDEX_STRATEGY", "unsafe-best-match")
        .status()
        .unwrap();
    assert!(status.success());
    let environment = machine.active(Engine::Hf).unwrap();
    assert_eq!(packages(&environment), ["peft 0.21.2"]);
    // What is shown would do the same in that user's shell.
    assert!(
        environment.stamp.commands[1].starts_with("env -u UV_CONSTRAINT -u UV_EXTRA_INDEX_URL"),
        "{:?}",
        environment.stamp.commands
    );
}

/// What goes wrong in a step, and what the error says of it.
#[test]
fn a_step_that_fails_leaves_the_environment_of_before() {
    let Some(mut machine) = Machine::new() else { return };
    for version in ["1.0", "2.0"] {
        machine.index.add("general", Wheel::new("peft", version));
        machine.index.add("general", Wheel::new("accelerate", version));
    }
    let clash = |name: &str, need: &str| Wheel::new(name, "1.0").requires(need);
    machine.index.add("general", clash("left", "accelerate<2"));
    machine.index.add("general", clash("right", "accelerate>=2"));
    machine
        .index
        .add("general", Wheel::new("winonly", "1.0").for_windows());
    for name in ["damaged", "mixed-up", "forbidden", "broken"] {
        machine.index.add("general", Wheel::new(name, "1.0"));
    }
    machine.index.set_fault("damaged", Some(Fault::Damage));
    machine.index.set_fault("mixed-up", Some(Fault::WrongHash));
    machine.index.set_fault("forbidden", Some(Fault::Status(403)));
    machine.index.set_fault("broken", Some(Fault::Status(500)));

    let good = machine.small("hf-2026-11", "peft==1.0");
    let before = machine.apply(&good).unwrap().value;

    let cases: &[(&[&str], &str, &str)] = &[
        (&["nowhere"], "package_unknown", "nowhere was not found"),
        (&["peft==3.0"], "package_unknown", "peft==3.0"),
        (&["left", "right"], "packages_clash", "accelerate>=2"),
        (&["winonly"], "no_build", "winonly"),
        (&["damaged"], "download_damaged", "damaged"),
        (&["mixed-up"], "download_damaged", "mixed-up"),
        (&["forbidden"], "index_refused", "403"),
        (&["broken"], "index_refused", "500"),
    ];
    for (requirements, code, said) in cases {
        let mut spec = good.clone();
        spec.steps[0].requirements = owned(&["peft==2.0"]);
        spec.steps.push(machine.step("general", requirements));
        let error = machine.apply(&spec).unwrap_err();
        assert_eq!(error.code(), *code, "{requirements:?}: {error}");
        assert!(error.to_string().contains(said), "{requirements:?}: {error}");
        assert!(!error.hints().is_empty(), "{requirements:?}");
        assert_eq!(
            machine.active(Engine::Hf).as_ref(),
            Some(&before),
            "{requirements:?}"
        );
        assert_eq!(packages(&before), ["peft 1.0"], "{requirements:?}");
        assert_eq!(machine.folders(), ["hf-2026-11"], "{requirements:?}");
    }

    let mut unreachable = good.clone();
    // Nothing listens there.
    unreachable.steps[0].index_url = Some("http://127.0.0.1:1/simple".to_owned());
    unreachable.steps[0].requirements = owned(&["unheard-of"]);
    assert_eq!(machine.apply(&unreachable).unwrap_err().code(), "no_network");
    assert_eq!(machine.active(Engine::Hf), Some(before));
}

#[test]
fn too_little_space_is_said_with_numbers_before_anything_is_fetched() {
    let Some(mut machine) = Machine::new() else { return };
    let mut spec = machine.small("hf-2026-11", "peft");
    spec.steps[0].disk_bytes = Some(1 << 60);
    let error = machine.apply(&spec).unwrap_err();
    assert_eq!(error.code(), "disk_full");
    let text = error.to_string();
    assert!(
        text.contains("the hf environment needs 1610612736.0 GiB"),
        "{text}"
    );
    assert!(!error.hints().concat().contains("TUNESMITH_RUNTIME"));
    assert_eq!((machine.index.requests(), machine.calls().len()), (0, 0));
    assert!(matches!(machine.reports[..], [Report::Plan(_)]));
}

#[test]
fn a_spec_that_cannot_be_carried_out_is_refused_with_every_fault() {
    let Some(mut machine) = Machine::new() else { return };
    let mut spec = machine.small("../elsewhere", "--index-url=https://other");
    spec.python.preferred = PythonVersion { minor: 99 };
    spec.steps[0].index_url = Some("file:///etc".to_owned());
    spec.verify.packages = vec![need("torch", "about two")];
    let error = machine.apply(&spec).unwrap_err();
    assert_eq!(error.code(), "spec_faulty");
    assert_eq!(error.to_string().matches("; ").count(), 4, "{error}");
    assert_eq!(machine.calls().len(), 0);
}

#[test]
fn a_stop_in_the_middle_leaves_the_environment_of_before_and_the_next_try_finishes() {
    let Some(mut machine) = Machine::new() else { return };
    machine.index.add("general", Wheel::new("peft", "1.0"));
    machine.index.add("general", Wheel::new("peft", "2.0"));
    machine.index.add("general", Wheel::new("trl", "1.0"));
    let good = machine.small("hf-2026-11", "peft==1.0");
    let before = machine.apply(&good).unwrap().value;

    let mut newer = good.clone();
    newer.steps[0].requirements = owned(&["peft==2.0"]);
    newer.steps.push(machine.step("general", &["trl"]));
    machine.index.set_fault("trl", Some(Fault::Stall));
    let cancel = machine.setup.cancel.clone();
    let error = machine
        .setup
        .apply(&machine.uv, &newer, &mut |report| {
            if matches!(report, Report::Progress(_)) && machine.index.is_stalled() {
                cancel.cancel();
            }
        })
        .unwrap_err();
    assert_eq!(error.code(), "cancelled");
    assert_eq!(machine.active(Engine::Hf).as_ref(), Some(&before));
    assert_eq!(machine.folders(), ["hf-2026-11"]);

    machine.index.release();
    machine.index.set_fault("trl", None);
    machine.setup.cancel = Cancel::default();
    let after = machine.apply(&newer).unwrap().value;
    assert_eq!(packages(&after), ["peft 2.0", "trl 1.0"]);
    // What the stopped one had fetched was not fetched again.
    let downloads = machine.index.downloads();
    let of_peft = downloads
        .iter()
        .filter(|file| file.starts_with("peft-2.0"))
        .count();
    assert_eq!(of_peft, 1, "{downloads:?}");
}

#[test]
fn a_second_set_up_meanwhile_is_told_so_and_disturbs_nothing() {
    let Some(mut machine) = Machine::new() else { return };
    machine.index.add("general", Wheel::new("peft", "1.0"));
    machine.index.add("general", Wheel::new("trl", "1.0"));
    machine.index.set_fault("trl", Some(Fault::Stall));
    let slow = machine.small("hf-slow", "trl");
    let other = machine.small("hf-other", "peft");
    machine.apply(&other).unwrap();
    let changed = InstallSpec {
        package_set: "changed".to_owned(),
        ..other.clone()
    };
    let mut refused = Vec::new();
    let setup = machine.setup.clone();
    let ended = setup.apply(&machine.uv, &slow, &mut |report| {
        if matches!(report, Report::Progress(_)) && machine.index.is_stalled() && refused.is_empty() {
            let error = setup.apply(&machine.uv, &changed, &mut |_| {}).unwrap_err();
            refused.push(error.code());
            refused.push(remove(&setup.folders, "hf-other", true).unwrap_err().code());
            // Which one is used can be changed at any time.
            choose(&setup.folders, "hf-other").unwrap();
            setup.cancel.cancel();
        }
    });
    assert_eq!(ended.unwrap_err().code(), "cancelled");
    assert_eq!(refused, ["setup_busy", "setup_busy"]);
    assert_eq!(machine.active(Engine::Hf).unwrap().name, "hf-other");
    machine.index.release();
}

#[test]
fn a_set_up_that_was_killed_leaves_the_environment_of_before_and_the_next_one_finishes() {
    let Some(mut machine) = Machine::new() else { return };
    machine.index.add("general", Wheel::new("peft", "1.0"));
    machine.index.add("general", Wheel::new("peft", "2.0"));
    machine.index.add("general", Wheel::new("trl", "1.0"));
    let good = machine.small("hf-2026-11", "peft==1.0");
    let before = machine.apply(&good).unwrap().value;

    let mut newer = good.clone();
    newer.steps[0].requirements = owned(&["peft==2.0"]);
    newer.steps.push(machine.step("general", &["trl"]));
    machine.index.set_fault("trl", Some(Fault::Stall));
    let mut child = apply_elsewhere(&machine, &newer).spawn().unwrap();
    machine.index.wait_until_stalled();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(machine.folders(), ["hf-2026-11", "hf-2026-11.partial"]);
    assert_eq!(machine.active(Engine::Hf).as_ref(), Some(&before));
    assert_eq!(
        list(&machine.setup.folders).environments,
        std::slice::from_ref(&before)
    );
    assert_eq!(packages(&before), ["peft 1.0"]);

    machine.index.release();
    machine.index.set_fault("trl", None);
    let after = machine.apply(&newer).unwrap().value;
    assert_eq!(packages(&after), ["peft 2.0", "trl 1.0"]);
    assert_eq!(machine.folders(), ["hf-2026-11"]);
    let downloads = machine.index.downloads();
    let of_peft = downloads
        .iter()
        .filter(|file| file.starts_with("peft-2.0"))
        .count();
    assert_eq!(of_peft, 1, "{downloads:?}");
}

#[test]
fn an_environment_that_was_moved_aside_by_a_killed_set_up_is_used_and_put_back() {
    let Some(mut machine) = Machine::new() else { return };
    machine.index.add("general", Wheel::new("peft", "1.0"));
    machine.index.add("general", Wheel::new("peft", "2.0"));
    let good = machine.small("hf-2026-11", "peft==1.0");
    let place = machine.apply(&good).unwrap().value.folder;
    let aside = place.with_file_name("hf-2026-11.previous");
    fs::rename(&place, &aside).unwrap();

    // Between the two renames: found under its name, where it lies.
    let found = machine.active(Engine::Hf).unwrap();
    assert_eq!((found.name.as_str(), &found.folder), ("hf-2026-11", &aside));
    assert_eq!(list(&machine.setup.folders).environments, [found]);

    // The next set-up puts it back before it does anything else, even one that fails.
    let mut failing = good.clone();
    failing.steps[0].requirements = owned(&["peft==3.0"]);
    machine.apply(&failing).unwrap_err();
    assert_eq!(machine.active(Engine::Hf).unwrap().folder, place);
    assert!(!machine.apply(&good).unwrap().installed);

    // After both renames: what was replaced is removed by the next one.
    fs::create_dir_all(aside.join("lib")).unwrap();
    let mut newer = good.clone();
    newer.steps[0].requirements = owned(&["peft==2.0"]);
    machine.apply(&newer).unwrap();
    assert_eq!(machine.folders(), ["hf-2026-11"]);
}

#[test]
fn environments_lie_side_by_side_and_one_can_go_back() {
    let Some(mut machine) = Machine::new() else { return };
    machine.index.add("general", Wheel::new("peft", "1.0"));
    machine.index.add("general", Wheel::new("peft", "2.0"));
    let older = machine.small("hf-2026-10", "peft==1.0");
    let newer = machine.small("hf-2026-11", "peft==2.0");
    machine.apply(&older).unwrap();
    machine.apply(&newer).unwrap();
    let folders = machine.setup.folders.clone();
    let used = || {
        environments::active(&folders, Engine::Hf)
            .unwrap()
            .map(|used| used.name)
    };
    assert_eq!(used().as_deref(), Some("hf-2026-11"));

    let difference = environments::diff(&folders, "hf-2026-10", "hf-2026-11").unwrap();
    assert_eq!(difference.different.len(), 1);
    assert!(
        difference.to_text().contains("peft  1.0  2.0"),
        "{}",
        difference.to_text()
    );

    assert_eq!(roll_back(&folders, Engine::Hf).unwrap().name, "hf-2026-10");
    assert_eq!(used().as_deref(), Some("hf-2026-10"));
    assert_eq!(
        roll_back(&folders, Engine::Hf).unwrap_err().code(),
        "no_earlier_environment"
    );
    assert_eq!(used().as_deref(), Some("hf-2026-10"));

    choose(&folders, "hf-2026-11").unwrap();
    assert_eq!(
        remove(&folders, "hf-2026-11", false).unwrap_err().code(),
        "environment_in_use"
    );
    remove(&folders, "hf-2026-10", false).unwrap();
    assert_eq!(
        roll_back(&folders, Engine::Hf).unwrap_err().code(),
        "no_earlier_environment"
    );
    remove(&folders, "hf-2026-11", true).unwrap();
    assert_eq!(used(), None);
    assert_eq!(machine.folders(), Vec::<String>::new());
    assert_eq!(
        choose(&folders, "hf-2026-11").unwrap_err().code(),
        "environment_unknown"
    );
    assert_eq!(
        remove(&folders, "../runs", true).unwrap_err().code(),
        "environment_unknown"
    );
}

#[test]
fn a_damaged_stamp_or_record_is_named_and_never_used() {
    let Some(mut machine) = Machine::new() else { return };
    machine.index.add("general", Wheel::new("peft", "1.0"));
    let spec = machine.small("hf-2026-11", "peft==1.0");
    let folder = machine.apply(&spec).unwrap().value.folder;
    fs::write(folder.join(".tunesmith-complete"), "{\"spec\": ").unwrap();
    let listing = list(&machine.setup.folders);
    assert_eq!(listing.environments, []);
    assert_eq!(listing.unreadable[0].name, "hf-2026-11");
    assert_eq!(machine.active(Engine::Hf), None);
    assert!(machine.apply(&spec).unwrap().installed);

    let record = machine.setup.folders.config().join("environments.json");
    fs::write(&record, "not json").unwrap();
    let error = environments::active(&machine.setup.folders, Engine::Hf).unwrap_err();
    assert_eq!(error.code(), "record_damaged");
    assert!(error.hints()[0].contains("environments.json"));
}

#[test]
fn a_cpu_environment_of_plain_packages_works() {
    let Some(mut machine) = Machine::new() else { return };
    let minor = machine.python.minor;
    machine.index.add(
        "cpu",
        Wheel::torch("2.11.0+cpu", "cuda = None\nhip = None").binary(minor),
    );
    machine.add_rocm();
    machine.index.add(
        "general",
        Wheel::new("peft", "0.21.2")
            .requires("torch>=1.13")
            .requires("transformers"),
    );
    let torch = machine.step("cpu", &["torch==2.11.0+cpu"]);
    let mut rest = machine.step("general", &["peft==0.21.2"]);
    rest.overrides = owned(&["torch==2.11.0+cpu"]);
    let mut spec = machine.spec(Engine::Hf, "hf-2026-11-cpu", vec![torch, rest]);
    spec.verify = Expectations {
        torch_build: Some(GpuBuild::Cpu),
        torch_local: Some("cpu".to_owned()),
        triton: TritonNeed::Absent,
        ..Expectations::default()
    };
    let environment = machine.apply(&spec).unwrap().value;
    assert_eq!(
        packages(&environment),
        ["peft 0.21.2", "torch 2.11.0+cpu", "transformers 5.24.0"]
    );
}

/// `apply` in a process of its own, which can be killed: this very program, with the test below.
fn apply_elsewhere(machine: &Machine, spec: &InstallSpec) -> Command {
    let file = machine.temp.path().join("spec.json");
    fs::write(&file, serde_json::to_string(spec).unwrap()).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "apply_in_this_process", "--ignored", "--nocapture"])
        .env("TEST_ROOT", machine.temp.path())
        .env("TEST_SPEC", &file)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

#[test]
#[ignore = "other tests start it, in a process of its own"]
fn apply_in_this_process() {
    let root = PathBuf::from(std::env::var_os("TEST_ROOT").unwrap());
    let spec = fs::read_to_string(std::env::var_os("TEST_SPEC").unwrap()).unwrap();
    let spec: InstallSpec = serde_json::from_str(&spec).unwrap();
    setup_in(&root)
        .apply(&root.join("uv"), &spec, &mut |_| {})
        .unwrap();
}
