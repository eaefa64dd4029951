//! What fits: predicted, tried, searched, limited, and one job at a time, with an engine that replays a script.

use std::{fs, time::Duration};

use serde_json::Value;
use tunesmith_lab::{
    fit::PlannedCard,
    pipeline::{Settings, Silent, train},
    recipe::Recipe,
    run::RunState,
    supervisor::EngineLocation,
};
use tunesmith_measure::fit::LimitRule;
use tunesmith_probe::{GpuVendor, Platform};
use tunesmith_protocol::RunStatus;
use tunesmith_setup::Folders;

use crate::context::{GOOD, Home, OPENING, RunIt, fake_engine, interrupt, pid_in, wait_until};

/// Runs up to two rows, and is out of memory above.
const TWO_ROWS: &str = r#"
{"hello": 1}
{"wait_job": {}}
{"emit": {"type": "error", "code": "out_of_memory", "message": "out of memory: tried to allocate 2.00 GiB", "hints": ["take fewer rows"]}, "rows_above": 2}
{"bye": "oom", "rows_above": 2}
{"exit": 0, "rows_above": 2}
{"steps": {"from": 1, "to": 3}}
{"save_adapter": {}}
{"result": {}}
{"bye": "ok"}
"#;

fn json_in(path: &std::path::Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_recipe_is_predicted_with_every_part_and_advice_and_starts_nothing() {
    let home = Home::new();
    let found = home
        .tunesmith(GOOD)
        .args(["fit", &home.recipe(), "--device", "cpu", "--json"])
        .ran()
        .expect_status(0)
        .json();
    let estimate = &found["estimate"];
    assert_eq!(
        (&estimate["device"], &estimate["fit"]),
        (&"cpu".into(), &"fits".into())
    );
    let parts = estimate["memory"]["parts"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), estimate["memory"]["bytes"].as_u64());
    assert!(parts.iter().all(|part| !part["how"].as_str().unwrap().is_empty()));
    assert!(estimate["host"]["bytes"].as_u64().unwrap() >= sum);
    assert_eq!(estimate["storage"]["fit"], "fits");
    assert!(found["advice"]["choice"]["settings"].is_array());
    assert!(!found["advice"]["reason"].as_str().unwrap().is_empty());
    assert!(!home.runs().exists(), "nothing was started");
    let text = home
        .tunesmith(GOOD)
        .args(["fit", &home.recipe(), "--device", "cpu"])
        .ran()
        .expect_status(0)
        .stdout;
    for part in ["fits", "frozen model", "Advice: ", "main memory", "disk"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[test]
fn a_try_lays_what_was_measured_beside_the_prediction_and_corrects_the_next() {
    let home = Home::new();
    let measure = || {
        home.tunesmith(GOOD)
            .args(["fit", &home.recipe(), "--measure", "--device", "cpu", "--json"])
            .ran()
            .expect_status(0)
            .json()["trial"]
            .clone()
    };
    let first = measure();
    assert_eq!((&first["status"], &first["steps"]), (&"ok".into(), &3.into()));
    assert_eq!(first["memory"]["measured_bytes"], 1 << 30);
    assert_eq!(
        first["memory"]["predicted_bytes"],
        first["memory"]["corrected_bytes"]
    );
    assert_eq!(first["correction"], Value::Null);
    let second = measure();
    assert_eq!(
        second["memory"]["predicted_bytes"],
        first["memory"]["predicted_bytes"]
    );
    assert_eq!(second["correction"]["runs"], 1);
    let corrected = second["memory"]["corrected_bytes"].as_u64().unwrap() as f64;
    assert!((corrected / f64::from(1 << 30) - 1.0).abs() < 0.001, "{second}");
    assert!(!home.runs().exists(), "a try is no run");
}

#[test]
fn the_largest_batch_is_found_where_too_little_memory_is_a_result_and_kept() {
    let home = Home::new();
    let search = |more: &[&str]| {
        home.tunesmith(TWO_ROWS)
            .args([
                "fit",
                &home.recipe(),
                "--search",
                "batch",
                "--device",
                "cpu",
                "--json",
            ])
            .args(more)
            .ran()
    };
    let found = search(&["--candidates", "1,2,4,8"]).expect_status(0).json();
    let record = &found["search"];
    assert_eq!(
        (&record["found"]["largest"], &record["found"]["too_large"]),
        (&2.into(), &4.into()),
        "{record}"
    );
    let outcomes: Vec<&str> = record["tries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tried| tried["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(
        outcomes,
        ["ran", "ran", "out_of_memory"],
        "eight is not tried after four"
    );
    for tried in record["tries"].as_array().unwrap() {
        assert!(tried["predicted_bytes"].as_u64() > Some(0));
    }
    assert_eq!(record["tries"][1]["trial"]["memory"]["measured_bytes"], 1 << 30);
    assert_eq!(
        json_in(found["file"].as_str().unwrap().as_ref())["found"]["largest"],
        2
    );

    // The same search is over; another one doubles, then halves.
    let again = search(&["--candidates", "1,2,4,8"]).expect_status(0).json();
    assert_eq!(again["taken_over"], 3);
    let doubled = search(&[]).expect_status(0).json();
    let values: Vec<u64> = doubled["search"]["tries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tried| tried["value"].as_u64().unwrap())
        .collect();
    assert_eq!(values, [1, 2, 4, 3]);
    assert_eq!(doubled["search"]["found"]["largest"], 2);
    let text = home
        .tunesmith(TWO_ROWS)
        .args(["fit", &home.recipe(), "--search", "batch", "--device", "cpu"])
        .ran()
        .expect_status(0)
        .stdout;
    assert!(
        text.contains("--set train.micro_batch=2") && text.contains("out of memory"),
        "{text}"
    );
}

#[test]
fn a_search_in_which_nothing_runs_says_so() {
    let home = Home::new();
    let script = TWO_ROWS.replace("\"rows_above\": 2", "\"rows_above\": 0");
    let found = home
        .tunesmith(&script)
        .args([
            "fit",
            &home.recipe(),
            "--search",
            "batch",
            "--device",
            "cpu",
            "--json",
        ])
        .ran()
        .expect_status(1)
        .json();
    assert_eq!(found["search"]["found"]["largest"], Value::Null);
}

#[test]
fn a_run_has_its_limit_before_its_engine_starts_and_keeps_the_users_own_settings() {
    let home = Home::new();
    let script = home.path("limited.jsonl");
    let seen = home.path("seen");
    fs::write(
        &script,
        format!(
            "{{\"write_env\": {{\"name\": \"PYTORCH_CUDA_ALLOC_CONF\", \"file\": \"{}\"}}}}\n{GOOD}",
            seen.display()
        ),
    )
    .unwrap();
    let gib = 1 << 30;
    let run = |own: Option<&str>, more: &str| {
        home.write_recipe(more);
        let engine =
            EngineLocation::new(fake_engine().into()).with_variable("FAKE_ENGINE_SCRIPT", script.as_os_str());
        let engine = match own {
            Some(own) => engine.with_variable("PYTORCH_CUDA_ALLOC_CONF", own),
            None => engine,
        };
        let settings = Settings {
            device: Some("cuda:0".to_owned()),
            // A card that is not in this machine: what is free of it is not told.
            card: Some(PlannedCard {
                pci: None,
                vendor: GpuVendor::Amd,
                total_bytes: 24 * gib,
                shares_main_memory: false,
                platform: Platform::Linux,
            }),
            ..Settings::new(Folders::all_under(&home.path("home")), engine)
        };
        let run = train(&Recipe::load(&home.recipe()).unwrap(), &settings, &mut Silent).unwrap();
        assert_eq!(run.state, RunState::Ended(RunStatus::Ok));
        let memory = run.manifest.unwrap().memory.unwrap();
        (fs::read_to_string(&seen).unwrap(), memory.limit)
    };
    let (given, limit) = run(None, "");
    let limit = limit.unwrap();
    assert_eq!((limit.rule, limit.fraction), (LimitRule::WholeCard, 0.9));
    assert_eq!(given, "per_process_memory_fraction:0.9000");
    let (given, limit) = run(Some("expandable_segments:True"), "memory_limit = \"6 GiB\"");
    assert_eq!(
        given,
        "expandable_segments:True,per_process_memory_fraction:0.2500"
    );
    assert_eq!(limit.unwrap().rule, LimitRule::Wish);
    let (given, limit) = run(Some("expandable_segments:True"), "memory_limit = \"off\"");
    assert_eq!((given.as_str(), limit), ("expandable_segments:True", None));
    // What the user set for torch is the user's.
    let (given, limit) = run(Some("per_process_memory_fraction:0.5"), "");
    assert_eq!((given.as_str(), limit), ("per_process_memory_fraction:0.5", None));
}

#[test]
fn a_run_records_what_was_predicted_beside_what_was_measured() {
    let home = Home::new();
    home.tunesmith(GOOD)
        .args(["train", &home.recipe(), "--json"])
        .ran()
        .expect_status(0);
    let manifest = json_in(&home.only_run().join("manifest.json"));
    assert!(manifest["memory"]["bytes"].as_u64() > manifest["memory"]["step_bytes"].as_u64());
    let memory = &home.summary()["memory"];
    assert_eq!(memory["measured_bytes"], 1 << 30);
    assert_eq!(memory["corrected_bytes"], manifest["memory"]["step_bytes"]);
}

#[test]
fn whoever_waits_says_for_whom_and_takes_its_turn() {
    let home = Home::new();
    let pid_file = home.path("pid");
    let script = format!(
        "{OPENING}{{\"write_pid\": \"{}\"}}\n{{\"wait_stop\": {{}}}}\n{{\"bye\": \"cancelled\"}}\n",
        pid_file.display()
    );
    let mut first = home.tunesmith(&script).args(["train", &home.recipe()]).started();
    pid_in(&pid_file);
    let id = home.only_run().file_name().unwrap().to_str().unwrap().to_owned();
    let second = home
        .tunesmith(GOOD)
        .args(["train", &home.recipe(), "--wait", "--json"])
        .stderr(fs::File::create(home.path("second")).unwrap())
        .stdout(fs::File::create(home.path("answer")).unwrap())
        .spawn();
    let mut second = second.unwrap();
    let told = || fs::read_to_string(home.path("second")).unwrap();
    let words = format!("in use by run {id} (pid {}, since ", first.id());
    wait_until(
        "the second says for whom it waits",
        Duration::from_secs(20),
        || told().contains(&words),
    );
    interrupt(first.id());
    first.wait().unwrap();
    assert!(second.wait().unwrap().success(), "{}", told());
    assert_eq!(json_in(&home.path("answer"))["status"], "ok");
}
