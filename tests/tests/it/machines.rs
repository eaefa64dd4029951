//! `detect`, `doctor`, `plan`, `explain`, `setup`, `env` and `capture` as a user meets them, on machines made of files.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tunesmith_probe::testing::{TestMachine, machines};

use crate::context::{GOOD, Home, Ran, RunIt as _};

/// A command that reads `machine` in place of this one.
fn on(home: &Home, machine: &TestMachine, words: &[&str]) -> Ran {
    home.tunesmith(GOOD)
        .args(words)
        .arg("--root")
        .arg(machine.root())
        .ran()
}

#[test]
fn detect_names_the_card_to_train_on() {
    let (home, machine) = (Home::new(), machines::rx_7900_xtx_with_igpu());
    let detected = on(&home, &machine, &["detect", "--json"]).expect_status(0).json();
    assert_eq!(detected["gpus"][0]["gfx"], "gfx1100");
    assert_eq!(detected["gpus"][0]["integrated"], false);
    assert_eq!(detected["gpus"].as_array().unwrap().len(), 2);
    assert_eq!(detected["train_on"], serde_json::json!([0]));
    let text = on(&home, &machine, &["detect"]).expect_status(0).stdout;
    assert!(text.contains("RX 7900 XTX: train on this one"), "{text}");
    assert!(text.contains("96 compute units"), "{text}");
}

#[test]
fn an_override_is_shown_beside_the_truth() {
    let (home, machine) = (Home::new(), machines::rx_7600_xt_with_override());
    let text = on(&home, &machine, &["detect"]).expect_status(0).stdout;
    assert!(text.contains("gfx1102"), "{text}");
    assert!(text.contains("HSA_OVERRIDE_GFX_VERSION=11.0.0"), "{text}");
}

#[test]
fn hostile_names_reach_no_terminal() {
    let (home, machine) = (Home::new(), TestMachine::empty());
    let line =
        "03:00.0 VGA compatible controller [0300]: Evil \u{1b}[2J<script>x</script> [1002:744c] (rev c8)\n";
    let machine = machine.file("lspci.txt", line);
    for words in [&["detect"][..], &["detect", "--json"], &["doctor", "--verbose"]] {
        let ran = on(&home, &machine, words);
        assert!(!ran.stdout.contains('\u{1b}'), "{words:?}: {}", ran.stdout);
        assert!(!ran.stderr.contains('\u{1b}'), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn a_root_that_is_not_there_is_no_unknown_machine() {
    let home = Home::new();
    let missing = home.path("nowhere");
    let ran = home
        .tunesmith(GOOD)
        .args(["detect", "--json", "--root"])
        .arg(&missing)
        .ran()
        .expect_status(1);
    assert_eq!(ran.json()["error"]["code"], "unreadable");
}

#[test]
fn the_doctor_opens_with_a_line_and_tells_by_its_status_whether_the_recipe_runs() {
    let home = Home::new();
    let well = machines::rx_7900_xtx();
    let diagnosis = on(&home, &well, &["doctor", "--json"]).expect_status(0).json();
    let opening = diagnosis["opening"].as_str().unwrap();
    let text = on(&home, &well, &["doctor"]).expect_status(0).stdout;
    assert!(text.starts_with(opening), "{text}");

    let closed = machines::rx_7900_xtx().devices_of_another_group();
    let diagnosis = on(&home, &closed, &["doctor", "--json"]).expect_status(1).json();
    assert_eq!(diagnosis["verdict"], "blocked");
    let command = diagnosis["next"]["command"].as_str().unwrap();
    assert!(
        command.contains("usermod") || command.contains("newgrp"),
        "{command}"
    );
}

#[test]
fn a_plan_is_a_script_that_shells_understand_and_proposes_no_override() {
    let (home, machine) = (Home::new(), machines::rx_7600_xt_with_override());
    for engine in ["native", "hf", "unsloth"] {
        let script = on(&home, &machine, &["plan", "--engine", engine, "--as", "bash"])
            .expect_status(0)
            .stdout;
        let mut bash = Command::new("bash")
            .arg("-n")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let checked = bash.wait_with_output().unwrap();
        assert!(
            checked.status.success(),
            "{}",
            String::from_utf8_lossy(&checked.stderr)
        );
        assert!(!script.contains("export HSA_OVERRIDE_GFX_VERSION"), "{script}");
    }
    let plans = on(&home, &machine, &["plan", "--json"]).expect_status(0).json();
    let rows = plans["plans"][0]["environment"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["name"] == "HSA_OVERRIDE_GFX_VERSION")
        .expect("the override always has a row");
    assert_eq!(row["action"], "unset");
    assert_eq!(row["found"][0]["value"], "11.0.0");
}

#[test]
fn a_card_and_a_build_can_be_chosen() {
    let (home, machine) = (Home::new(), machines::two_rx_7900_xtx());
    let chosen = ["plan", "--card", "1", "--build", "pytorch-rocm7.2", "--json"];
    let plans = on(&home, &machine, &chosen).expect_status(0).json();
    assert_eq!(plans["plans"][0]["card"]["index"], 1);
    assert_eq!(
        plans["plans"][0]["install"]["steps"][0]["index_url"],
        "https://download.pytorch.org/whl/rocm7.2"
    );
    let unknown = on(&home, &machine, &["plan", "--card", "7", "--json"]).expect_status(1);
    assert_eq!(unknown.json()["error"]["code"], "card_unknown");
    let unfit = on(&home, &machine, &["plan", "--build", "pytorch-cu130", "--json"]).expect_status(1);
    assert_eq!(unfit.json()["error"]["code"], "build_unfit");
}

#[test]
fn two_makers_get_a_plan_each() {
    let (home, machine) = (Home::new(), machines::nvidia_and_amd());
    let plans = on(&home, &machine, &["plan", "--json"]).expect_status(0).json();
    let vendors: Vec<&Value> = plans["plans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| &plan["vendor"])
        .collect();
    assert_eq!(vendors.len(), 2, "{vendors:?}");
    assert_ne!(vendors[0], vendors[1]);
}

#[test]
fn a_fault_is_explained_from_words_from_a_file_and_from_standard_input() {
    let (home, machine) = (Home::new(), machines::rx_7900_xtx());
    let error = "RuntimeError: HIP error: invalid device function";
    let named = on(&home, &machine, &["explain", "--json", "--text", error])
        .expect_status(0)
        .json();
    let id = named["findings"][0]["id"].as_str().unwrap().to_owned();

    let file = home.path("train.log");
    fs::write(&file, [b"step 1\n\xff\xfe\r\n", error.as_bytes()].concat()).unwrap();
    let read = on(&home, &machine, &["explain", "--json", file.to_str().unwrap()])
        .expect_status(0)
        .json();
    assert_eq!(read["findings"][0]["id"], id.as_str());

    let mut command = home.tunesmith(GOOD);
    command
        .args(["explain", "--json", "--root"])
        .arg(machine.root())
        .stdin(fs::File::open(&file).unwrap());
    assert_eq!(
        command.ran().expect_status(0).json()["findings"][0]["id"],
        id.as_str()
    );

    let missing = on(&home, &machine, &["explain", "--json", "nowhere.log"]).expect_status(1);
    assert_eq!(missing.json()["error"]["code"], "unreadable");
}

#[test]
fn a_mistake_in_a_knowledge_file_is_named_with_file_line_and_key() {
    let (home, machine) = (Home::new(), machines::rx_7900_xtx());
    let folder = home.path("knowledge");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("cards.toml"), "[[card]]\nvendor = \"amd\"\nids = 7\n").unwrap();
    let ran = on(
        &home,
        &machine,
        &["detect", "--knowledge", folder.to_str().unwrap()],
    )
    .expect_status(1);
    assert!(ran.stderr.contains("cards.toml"), "{}", ran.stderr);
    assert!(ran.stderr.contains("line 3"), "{}", ran.stderr);
    assert!(ran.stderr.contains("ids"), "{}", ran.stderr);
    // A file that the folder lacks is the built-in one.
    fs::remove_file(folder.join("cards.toml")).unwrap();
    on(
        &home,
        &machine,
        &["detect", "--knowledge", folder.to_str().unwrap()],
    )
    .expect_status(0);
}

#[test]
fn a_capture_is_a_machine_and_gives_nobody_away() {
    let (home, machine) = (Home::new(), machines::two_rx_7900_xtx());
    let machine = machine.file("etc/hostname", "gretas-tower\n").file(
        "home/greta/.bashrc",
        "export HIP_VISIBLE_DEVICES=0\nexport HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\n",
    );
    let folder = home.path("captured");
    on(&home, &machine, &["capture", folder.to_str().unwrap()]).expect_status(0);
    let again = on(&home, &machine, &["capture", folder.to_str().unwrap()]);
    assert_eq!(again.status, Some(1), "it must not be replaced unasked");

    let gpus = |root: &Path| {
        let detected = home
            .tunesmith(GOOD)
            .args(["detect", "--json", "--root"])
            .arg(root)
            .ran();
        let detected = detected.expect_status(0).json();
        let keys = [
            "pci",
            "device_id",
            "gfx",
            "compute_units",
            "vram_bytes",
            "resizable_bar",
        ];
        let gpus = detected["gpus"].as_array().unwrap().clone();
        let gpus: Vec<Vec<Value>> = gpus
            .iter()
            .map(|gpu| keys.iter().map(|key| gpu[*key].clone()).collect())
            .collect();
        (gpus, detected["train_on"].clone())
    };
    assert_eq!(gpus(&folder), gpus(machine.root()));

    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            for secret in ["gretas-tower", "greta", "hf_abcdef"] {
                assert!(!text.contains(secret), "{} holds {secret}", path.display());
            }
        }
    }
}

#[test]
fn set_up_shows_what_it_would_do_and_does_nothing() {
    let home = Home::new();
    let ran = home
        .tunesmith(GOOD)
        .args(["setup", "--engine", "hf", "--json"])
        .ran()
        .expect_status(0)
        .json();
    assert!(!ran["commands"].as_array().unwrap().is_empty(), "{ran}");
    assert_eq!(ran["environment"], Value::Null);
    // Environments are shared by all homes of this user; which one an engine uses is this home's own.
    let environments = || {
        home.tunesmith(GOOD)
            .args(["env", "list", "--json"])
            .ran()
            .expect_status(0)
            .json()
    };
    let before = environments();
    assert_eq!(before["used"], serde_json::json!([]));
    // Nobody is there to say yes.
    let refused = home
        .tunesmith(GOOD)
        .args(["setup", "--engine", "hf", "--apply", "--json"])
        .ran();
    assert_eq!(refused.expect_status(1).json()["error"]["code"], "consent_needed");
    assert_eq!(environments(), before);
}

#[test]
fn an_unknown_environment_is_named() {
    let home = Home::new();
    for words in [
        &["env", "use", "nothing"][..],
        &["env", "diff", "nothing", "nowhere"],
        &["env", "remove", "nothing", "--yes"],
    ] {
        let ran = home.tunesmith(GOOD).args(words).ran();
        assert_eq!(ran.status, Some(1), "{words:?}");
        assert!(ran.stderr.contains("nothing"), "{}", ran.stderr);
    }
}
