//! Plans for the machines that people have, and what holds for every plan.

mod machines;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tunesmith_probe::{DeviceAccess, Platform, Setting, System, detect};

use super::*;
use crate::knowledge::{AOTRITON, OVERRIDE};

/// A name and the machine.
type Named = (&'static str, fn() -> System);

const MACHINES: [Named; 17] = [
    ("rx_7900_xtx", machines::rx_7900_xtx),
    ("rx_7900_xtx_with_igpu", machines::rx_7900_xtx_with_igpu),
    ("two_rx_7900_xtx", machines::two_rx_7900_xtx),
    ("rx_7600_xt_with_override", machines::rx_7600_xt_with_override),
    ("strix_halo", machines::strix_halo),
    ("strix_halo_raised", machines::strix_halo_raised),
    ("radeon_780m_laptop", machines::radeon_780m_laptop),
    ("rx_9070_xt", machines::rx_9070_xt),
    ("rx_6700_xt", machines::rx_6700_xt),
    ("rx_5700", machines::rx_5700),
    ("steam_deck", machines::steam_deck),
    ("wsl_rx_7900_xtx", machines::wsl_rx_7900_xtx),
    ("windows_rx_7900_xtx", machines::windows_rx_7900_xtx),
    ("rtx_3090", machines::rtx_3090),
    ("rtx_5090", machines::rtx_5090),
    ("gtx_1080", machines::gtx_1080),
    ("no_gpu", machines::no_gpu),
];

fn knowledge() -> Knowledge {
    Knowledge::load(None).unwrap()
}

fn planned(system: &System, engine: Engine) -> Plan {
    plan(system, &knowledge(), &PlanRequest::new(engine)).unwrap()
}

/// Every plan for every machine and engine.
fn all_plans() -> Vec<(String, Plan)> {
    let knowledge = knowledge();
    let mut all = Vec::new();
    for (name, machine) in MACHINES
        .into_iter()
        .chain([("nvidia_and_amd", machines::nvidia_and_amd as fn() -> System)])
    {
        for engine in Engine::ALL {
            match plans(&machine(), &knowledge, &PlanRequest::new(engine)) {
                Ok(plans) => all.extend(plans.into_iter().map(|plan| (format!("{name} {engine}"), plan))),
                Err(PlanError::EngineNeedsCard { .. }) => {}
                Err(error) => panic!("{name} {engine}: {error}"),
            }
        }
    }
    assert!(all.len() > 45, "{}", all.len());
    all
}

fn row<'a>(plan: &'a Plan, name: &str) -> &'a FlagRow {
    plan.environment.iter().find(|row| row.name == name).unwrap()
}

#[test]
fn the_plan_of_each_machine_is_the_one_that_was_read_and_approved() {
    for (name, machine) in MACHINES {
        insta::assert_snapshot!(name, text(&planned(&machine(), Engine::Native)));
    }
}

#[test]
fn another_card_that_is_said_to_train_gets_a_plan_when_it_is_asked_for() {
    let mut seen = [0, 0];
    let machines = MACHINES
        .into_iter()
        .chain([("nvidia_and_amd", machines::nvidia_and_amd as fn() -> System)]);
    for (name, machine) in machines {
        let system = machine();
        for other in planned(&system, Engine::Native).others {
            let request = PlanRequest {
                device: DeviceChoice::Card(other.index.to_string()),
                ..PlanRequest::new(Engine::Native)
            };
            let asked = plan(&system, &knowledge(), &request);
            assert_eq!(asked.is_ok(), other.can_train, "{name}: {}", other.name);
            seen[usize::from(other.can_train)] += 1;
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn engines_in_python_get_packages_and_overrides_beside_it() {
    insta::assert_snapshot!(
        "rx_7900_xtx_hf",
        text(&planned(&machines::rx_7900_xtx(), Engine::Hf))
    );
    insta::assert_snapshot!(
        "rx_6700_xt_unsloth",
        text(&planned(&machines::rx_6700_xt(), Engine::Unsloth))
    );
    insta::assert_snapshot!("rtx_3090_hf", text(&planned(&machines::rtx_3090(), Engine::Hf)));
    insta::assert_snapshot!("no_gpu_hf", text(&planned(&machines::no_gpu(), Engine::Hf)));
}

#[test]
fn two_vendors_get_a_plan_each() {
    let plans = plans(
        &machines::nvidia_and_amd(),
        &knowledge(),
        &PlanRequest::new(Engine::Native),
    )
    .unwrap();
    let vendors: Vec<_> = plans.iter().map(|plan| plan.vendor).collect();
    assert_eq!(
        vendors,
        [Vendor::Nvidia, Vendor::Amd],
        "the one with more memory first"
    );
    let texts: Vec<_> = plans.iter().map(text).collect();
    insta::assert_snapshot!("nvidia_and_amd", texts.join("\n----\n\n"));
}

#[test]
fn a_plan_reads_back_from_its_json() {
    for (name, plan) in all_plans() {
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan, "{name}");
    }
    let plan = planned(&machines::rx_7900_xtx_with_igpu(), Engine::Hf);
    insta::assert_json_snapshot!("rx_7900_xtx_with_igpu_hf_json", plan);
}

#[test]
fn no_plan_ever_sets_the_override_and_every_plan_speaks_of_it() {
    for (name, plan) in all_plans() {
        assert_ne!(row(&plan, OVERRIDE).action, Action::Set, "{name}");
        assert!(plan.environment.iter().any(|row| row.name == AOTRITON), "{name}");
        for shell in [Shell::Bash, Shell::PowerShell] {
            for line in script(&plan, shell)
                .lines()
                .filter(|line| line.contains(OVERRIDE))
            {
                assert!(
                    line.starts_with("unset ") || line.starts_with("Remove-Item "),
                    "{name}: {line}"
                );
            }
        }
    }
}

#[test]
fn a_harmful_override_is_named_with_its_file() {
    let plan = planned(&machines::rx_7600_xt_with_override(), Engine::Native);
    let found = &row(&plan, OVERRIDE).found[0];
    assert_eq!(
        found.harm.as_ref().map(|harm| harm.level),
        Some(HarmLevel::Harmful)
    );
    assert!(
        plan.warnings[0].contains("/etc/environment, line 2"),
        "{:?}",
        plan.warnings
    );

    let mut card = machines::rx_7900_xtx();
    card.settings = vec![setting("HSA_OVERRIDE_GFX_VERSION_1", "11.0.0")];
    let plan = planned(&card, Engine::Native);
    let harm = row(&plan, OVERRIDE).found[0].harm.clone().unwrap();
    assert_eq!(harm.level, HarmLevel::Useless, "it asks for what the card is");
    assert!(script(&plan, Shell::Bash).contains("unset HSA_OVERRIDE_GFX_VERSION_1\n"));
}

fn setting(name: &str, value: &str) -> Setting {
    Setting {
        name: name.to_owned(),
        value: value.to_owned(),
        origin: "the process's environment".to_owned(),
        line: None,
        in_effect: true,
    }
}

#[test]
fn an_installed_rocm_on_the_library_path_is_taken_away() {
    let mut system = machines::rx_7900_xtx();
    system.settings = vec![setting("LD_LIBRARY_PATH", "/opt/rocm/lib:/usr/lib")];
    let plan = planned(&system, Engine::Native);
    assert_eq!(row(&plan, "LD_LIBRARY_PATH").action, Action::Unset);
    system.settings[0].value = "/usr/local/lib".to_owned();
    assert_eq!(
        row(&planned(&system, Engine::Native), "LD_LIBRARY_PATH").action,
        Action::Leave
    );
}

#[test]
fn what_is_installed_can_be_carried_out() {
    for (name, plan) in all_plans() {
        if let Some(spec) = &plan.install {
            assert_eq!(spec.faults(), Vec::<String>::new(), "{name}");
            assert!(
                uv_arguments(&plan)
                    .iter()
                    .flatten()
                    .all(|word| word != "unsafe-best-match"),
                "{name}"
            );
            let torch = plan.route().unwrap();
            assert_eq!(
                spec.steps[0].index_url, torch.index,
                "{name}: torch comes from its own index"
            );
            for step in &spec.steps[1..] {
                assert_eq!(
                    step.index_url, None,
                    "{name}: packages come from the general index"
                );
                assert!(
                    step.overrides.contains(&format!("torch=={}", torch.torch)),
                    "{name}: torch is held"
                );
            }
        }
    }
}

#[test]
fn uv_is_told_the_index_and_the_overrides() {
    let plan = planned(&machines::rx_6700_xt(), Engine::Hf);
    let commands = uv_arguments(&plan);
    assert_eq!(commands[0], ["venv", "--python", "3.12", "{env}"]);
    assert_eq!(
        commands[1],
        [
            "pip",
            "install",
            "--python",
            "{env}",
            "--default-index",
            "https://repo.amd.com/rocm/whl-multi-arch/",
            "--index-strategy",
            "first-index",
            "torch[device-gfx1031]==2.11.0+rocm7.14.0",
            "torchvision[device-gfx1031]==0.26.0",
        ]
    );
    assert!(
        commands[2]
            .windows(2)
            .any(|pair| pair == ["--override", "{overrides}"])
    );
    assert!(
        commands[2].contains(&"bitsandbytes==0.50.2".to_owned()),
        "4-bit has kernels for it in ROCm 7.14"
    );
    assert_eq!(
        plan.override_file,
        "torch==2.11.0+rocm7.14.0\ntorchvision==0.26.0\ntriton; sys_platform == \"never\"\nxformers; sys_platform == \"never\"\n"
    );
    let spec = plan.install.unwrap();
    assert_eq!(spec.name, "hf-torch-2.11.0-rocm7.14.0-gfx1031");
    assert_eq!(spec.verify.kernels_for_gfx.as_deref(), Some("gfx1031"));
}

#[test]
fn a_torch_that_is_here_comes_before_any_download() {
    let site = tempfile::tempdir().unwrap();
    let kernels = site.path().join("torch/lib/rocblas/library");
    fs::create_dir_all(&kernels).unwrap();
    fs::write(kernels.join("TensileLibrary_lazy_gfx1100.dat"), "").unwrap();
    let torch = TorchOnDisk {
        site: site.path().to_path_buf(),
        version: "2.11.0+rocm7.2".to_owned(),
        build: TorchBuild::Hip("7.2.53211".to_owned()),
    };
    let with = |system: &System, torch: TorchOnDisk, engine| {
        let mut request = PlanRequest::new(engine);
        request.torches = vec![torch];
        plan(system, &knowledge(), &request).unwrap()
    };
    let here = with(&machines::rx_7900_xtx(), torch.clone(), Engine::Native);
    assert_eq!(here.route().unwrap().on_disk.as_deref(), Some(site.path()));
    assert!(here.routes.len() > 1, "the downloads are offered behind it");
    assert_eq!(here.install, None);
    assert!(
        here.steps
            .iter()
            .all(|step| step.command.first().is_none_or(|word| word != "uv"))
    );

    let refused = |plan: Plan, why: &str| {
        assert_eq!(plan.route().unwrap().on_disk, None);
        assert!(plan.excluded[0].reason.contains(why), "{:?}", plan.excluded);
    };
    refused(
        with(&machines::rx_9070_xt(), torch.clone(), Engine::Native),
        "no matrix kernels for gfx1201",
    );
    refused(
        with(&machines::rx_7900_xtx(), torch.clone(), Engine::Hf),
        "an environment of their own",
    );
    refused(
        with(&machines::rtx_3090(), torch.clone(), Engine::Native),
        "another vendor",
    );
    let old = TorchOnDisk {
        version: "2.9.1+rocm6.3".to_owned(),
        ..torch
    };
    refused(
        with(&machines::rx_7900_xtx(), old, Engine::Native),
        "made for 2.11",
    );
    // The private runtime on Linux: a CUDA build without its GPU libraries.
    let runtime = TorchOnDisk {
        site: site.path().to_path_buf(),
        version: "2.11.0+cu130".to_owned(),
        build: TorchBuild::Cuda("13.0".to_owned()),
    };
    refused(
        with(&machines::rtx_3090(), runtime.clone(), Engine::Native),
        "GPU libraries are not there",
    );
    assert!(
        with(&machines::no_gpu(), runtime, Engine::Native)
            .route()
            .unwrap()
            .on_disk
            .is_some()
    );
}

#[test]
fn what_keeps_the_card_from_training_is_the_verdict() {
    let blocked = |system: &System, why: &str| {
        let plan = planned(system, Engine::Native);
        assert_eq!(plan.verdict.kind, VerdictKind::Blocked);
        assert!(plan.verdict.reason.contains(why), "{}", plan.verdict.reason);
    };
    let mut system = machines::rx_7900_xtx();
    system.access.kfd = Some(DeviceAccess {
        exists: true,
        read_write: Some(false),
        ..DeviceAccess::default()
    });
    blocked(&system, "/dev/kfd may not be read");
    system.access.kfd = Some(DeviceAccess::default());
    blocked(&system, "/dev/kfd is not there");
    system.access.kfd = None;
    assert_eq!(
        planned(&system, Engine::Native).verdict.kind,
        VerdictKind::Card,
        "unknown is no reason"
    );
    system.gpus[0].driver = Some("vfio-pci".to_owned());
    blocked(&system, "virtual machine");

    let mut old_driver = machines::rtx_5090();
    old_driver.stacks.cuda_driver = Some("12.4".to_owned());
    blocked(&old_driver, "CUDA 12.4 at most");
}

#[test]
fn the_driver_decides_which_cuda() {
    let chosen = |cuda: Option<&str>| {
        let mut system = machines::rtx_3090();
        system.stacks.cuda_driver = cuda.map(str::to_owned);
        planned(&system, Engine::Native)
            .route()
            .unwrap()
            .build
            .clone()
            .unwrap()
    };
    assert_eq!(chosen(Some("13.1")), "pytorch-cu130");
    assert_eq!(chosen(Some("12.9")), "pytorch-cu128");
    assert_eq!(chosen(Some("12.6")), "pytorch-cu126");
    assert_eq!(
        chosen(None),
        "pytorch-cu126",
        "asks least of a driver that is unknown"
    );
}

#[test]
fn what_is_asked_for_is_planned_or_refused_by_name() {
    let system = machines::two_rx_7900_xtx();
    let ask = |change: &dyn Fn(&mut PlanRequest)| {
        let mut request = PlanRequest::new(Engine::Native);
        change(&mut request);
        plan(&system, &knowledge(), &request)
    };
    for card in ["1", "0d:00.0", "0000:0d:00.0", "GPU-abcd000000000001"] {
        let plan = ask(&|request| request.device = DeviceChoice::Card(card.to_owned())).unwrap();
        assert_eq!(plan.card.unwrap().index, 1, "{card}");
        assert_eq!(plan.mask.unwrap().value, "GPU-abcd000000000001");
    }
    let error = ask(&|request| request.device = DeviceChoice::Card("\u{1b}[31m9".to_owned())).unwrap_err();
    assert_eq!(error.code(), "card_unknown");
    assert!(
        !error.to_string().contains('\u{1b}') && error.to_string().contains("1 AMD Radeon RX 7900 XTX"),
        "{error}"
    );

    let plan = ask(&|request| request.build = Some("pytorch-rocm7.2".to_owned())).unwrap();
    assert_eq!(plan.route().unwrap().torch, "2.11.0+rocm7.2");
    assert!(
        plan.install.unwrap().steps[0].no_deps,
        "this wheel holds everything"
    );
    assert_eq!(
        ask(&|request| request.build = Some("pytorch-cpu".to_owned()))
            .unwrap_err()
            .code(),
        "build_unfit"
    );

    let plan = ask(&|request| request.device = DeviceChoice::Cpu).unwrap();
    assert_eq!(
        (plan.verdict.kind, plan.vendor),
        (VerdictKind::CpuOnly, Vendor::Cpu)
    );
    let error = ask(&|request| {
        request.device = DeviceChoice::Cpu;
        request.engine = Engine::Unsloth;
    });
    assert_eq!(error.unwrap_err().code(), "engine_needs_card");
    let unknown = System::default();
    assert_eq!(
        plans(&unknown, &knowledge(), &PlanRequest::new(Engine::Native))
            .unwrap_err()
            .code(),
        "system_unknown"
    );
}

#[test]
fn attention_on_experimental_cards_gets_the_flag_with_its_condition() {
    let action = |system: System| {
        let plan = planned(&system, Engine::Native);
        row(&plan, AOTRITON).clone()
    };
    let strix = action(machines::strix_halo());
    assert_eq!((strix.action, strix.value.as_deref()), (Action::Set, Some("1")));
    assert!(strix.condition.contains("calibration"), "{}", strix.condition);
    for system in [
        machines::rx_7900_xtx(),
        machines::rx_6700_xt(),
        machines::rtx_3090(),
        machines::no_gpu(),
    ] {
        assert_eq!(action(system).action, Action::Leave);
    }
}

#[test]
fn a_recipe_never_needs_more_than_may_be_used() {
    for (name, plan) in all_plans() {
        let Some(recipe) = &plan.recipe.recipe else {
            continue;
        };
        assert!(recipe.needs_bytes <= plan.recipe.budget_bytes.unwrap(), "{name}");
        assert_eq!(recipe.needs_bytes, recipe.needs.total_bytes());
    }
    let id = |system: System| planned(&system, Engine::Native).recipe.recipe.unwrap().id;
    assert_eq!(id(machines::rx_7900_xtx()), "sft-24gib");
    assert_eq!(id(machines::rx_9070_xt()), "sft-16gib");
    assert_eq!(id(machines::rx_6700_xt()), "sft-fp16");
    assert_eq!(id(machines::strix_halo()), "sft-unified-64gib");
    assert_eq!(id(machines::strix_halo_raised()), "sft-unified-96gib");
    assert_eq!(id(machines::no_gpu()), "quickstart");
    let pascal = planned(&machines::gtx_1080(), Engine::Native)
        .recipe
        .recipe
        .unwrap();
    assert_eq!(pascal.settings, ["train.dtype=f32"], "{}", pascal.id);
}

#[test]
fn a_card_with_too_little_memory_is_told_so() {
    let mut system = machines::rx_6700_xt();
    system.gpus[0].trainable.as_mut().unwrap().value = 4 << 30;
    let plan = planned(&system, Engine::Native);
    assert_eq!(plan.recipe.recipe, None);
    assert!(plan.recipe.why.contains("smallest recipe"), "{}", plan.recipe.why);
    system.gpus[0].trainable = None;
    let plan = planned(&system, Engine::Native);
    assert!(
        plan.recipe.why.contains("could not be read"),
        "unknown stays unknown"
    );
}

#[test]
fn a_script_runs_and_sets_what_the_plan_says() {
    let folder = tempfile::tempdir().unwrap();
    let plan = planned(&machines::two_rx_7900_xtx(), Engine::Hf);
    let uv = folder.path().join("uv");
    fs::write(
        &uv,
        "#!/bin/sh\nfor word in \"$@\"; do printf '%s\\n' \"$word\"; done >> calls\necho -- >> calls\n",
    )
    .unwrap();
    make_executable(&uv);
    fs::write(folder.path().join("script.sh"), script(&plan, Shell::Bash)).unwrap();
    let run = Command::new("bash")
        .args(["-c", ". ./script.sh && env"])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
        .env("HIP_VISIBLE_DEVICES", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let environment = String::from_utf8(run.stdout).unwrap();
    assert!(
        environment.contains("ROCR_VISIBLE_DEVICES=GPU-abcd000000000000\n"),
        "{environment}"
    );
    assert!(environment.contains("UV_NO_CONFIG=1\n"), "{environment}");
    assert!(!environment.contains("HIP_VISIBLE_DEVICES"), "{environment}");
    let name = &plan.install.as_ref().unwrap().name;
    let written = fs::read_to_string(folder.path().join(format!("{name}.overrides.txt"))).unwrap();
    assert_eq!(written, plan.override_file);
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    let calls: Vec<Vec<&str>> = calls
        .split("--\n")
        .filter(|call| !call.is_empty())
        .map(|call| call.lines().collect())
        .collect();
    let expected: Vec<Vec<String>> = uv_arguments(&plan)
        .into_iter()
        .map(|words| {
            let overrides = format!("{name}.overrides.txt");
            words
                .iter()
                .map(|word| word.replace("{env}", name).replace("{overrides}", &overrides))
                .collect()
        })
        .collect();
    assert_eq!(calls, expected);
}

#[cfg(unix)]
fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_script_for_windows_is_the_one_that_was_read_and_approved() {
    let plan = planned(&machines::windows_rx_7900_xtx(), Engine::Hf);
    insta::assert_snapshot!(
        "windows_rx_7900_xtx_power_shell",
        script(&plan, Shell::PowerShell)
    );
    let plan = planned(&machines::strix_halo(), Engine::Native);
    insta::assert_snapshot!("strix_halo_bash", script(&plan, Shell::Bash));
}

/// The captures of real machines, where they lie beside the project.
fn captures() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/systems");
    let folder = std::env::var_os("TUNESMITH_CAPTURES").map_or(beside, PathBuf::from);
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

#[test]
fn every_captured_machine_gets_a_plan_that_never_sets_the_override() {
    let captures = captures();
    if captures.is_empty() {
        println!("skipped: the captures are not here");
        return;
    }
    let knowledge = knowledge();
    for capture in captures {
        let system = detect(&capture, &knowledge.cards);
        for engine in Engine::ALL {
            let mut request = PlanRequest::new(engine);
            if system.platform == Platform::Unknown {
                request.system = Some(Os::Linux);
            }
            match plans(&system, &knowledge, &request) {
                Ok(plans) => {
                    for plan in plans {
                        assert_ne!(row(&plan, OVERRIDE).action, Action::Set);
                        let shown =
                            text(&plan) + &script(&plan, Shell::Bash) + &script(&plan, Shell::PowerShell);
                        let hidden = shown
                            .chars()
                            .find(|letter| letter.is_control() && *letter != '\n');
                        assert_eq!(hidden, None, "{}", capture.display());
                    }
                }
                Err(PlanError::EngineNeedsCard { .. }) => assert_eq!(engine, Engine::Unsloth),
                Err(error) => panic!("{}: {error}", capture.display()),
            }
        }
    }
}

#[test]
fn more_shared_memory_is_an_optional_last_step_that_restarts_the_machine() {
    let steps = planned(&machines::strix_halo(), Engine::Native).steps;
    let (last, before) = steps.split_last().unwrap();
    assert!(last.optional && last.reboot, "{last:?}");
    assert!(last.command[3].contains("ttm pages_limit="), "{last:?}");
    assert!(before.iter().all(|step| !step.reboot && !step.optional));
    let raised = planned(&machines::strix_halo_raised(), Engine::Native).steps;
    assert!(
        raised.iter().all(|step| !step.reboot),
        "the largest recipe fits already"
    );
}
