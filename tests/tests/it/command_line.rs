//! The command line with an engine that replays a script.

use std::{fs, time::Duration};

use serde_json::Value;

use crate::context::{GOOD, Home, OPENING, Ran, RunIt, fake_engine, interrupt, lives, pid_in, wait_until};

fn train(home: &Home, script: &str) -> Ran {
    home.tunesmith(script)
        .args(["train", &home.recipe(), "--json"])
        .ran()
}

#[test]
fn a_run_is_trained_recorded_listed_and_reported() {
    let home = Home::new();
    let ran = train(&home, GOOD).expect_status(0);
    let run = ran.json();
    assert_eq!(run["status"], "ok");
    assert_eq!((&run["valid_steps"], &run["total_steps"]), (&3.into(), &3.into()));
    assert_eq!(run["loss_first"], 2.0);
    assert_eq!(run["steady_tokens_per_sec"], 200.0);
    let folder = home.only_run();
    for file in [
        "recipe.toml",
        "manifest.json",
        "events.jsonl",
        "engine.log",
        "summary.json",
        "report.html",
        "report.json",
        "rows/train.safetensors",
        "rows/rows.json",
    ] {
        assert!(folder.join(file).exists(), "{file} is missing");
    }
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("summary.json")).unwrap()).unwrap();
    assert!(
        summary["evaluation"]["skipped"]
            .as_str()
            .unwrap()
            .contains("data of your own"),
        "{summary}"
    );

    let list = home
        .tunesmith(GOOD)
        .args(["runs", "list", "--json"])
        .ran()
        .expect_status(0)
        .json();
    let runs = list["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    for key in [
        "id",
        "recipe",
        "status",
        "valid_steps",
        "total_steps",
        "score_before",
        "score_after",
        "adapter",
        "report",
    ] {
        assert_eq!(runs[0][key], run[key], "{key}");
    }
    let shown = home
        .tunesmith(GOOD)
        .args(["runs", "show", "last"])
        .ran()
        .expect_status(0);
    assert!(shown.stdout.contains("steady_tokens_per_sec"), "{}", shown.stdout);
    let page = home.path("page.html");
    home.tunesmith(GOOD)
        .args(["report", "last", "--output"])
        .arg(&page)
        .ran()
        .expect_status(0);
    assert!(fs::read_to_string(page).unwrap().contains("<svg"));
}

#[test]
fn text_to_sql_is_scored_before_and_after_with_every_answer_kept() {
    let home = Home::new();
    let recipe = format!(
        "name = \"sql\"\n[model]\npath = \"{}\"\n[data]\nsource = \"text-to-sql\"\nmax_length = 2048\n[train]\nsteps = 3\nmicro_batch = 2\n[optimizer]\nwarmup_steps = 0\n[evaluate]\nquestions = 6\n",
        home.path("model").display()
    );
    fs::write(home.path("sql.toml"), recipe).unwrap();
    let run = home
        .tunesmith(GOOD)
        .args(["train", "--json"])
        .arg(home.path("sql.toml"))
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(
        (&run["score_before"], &run["score_after"]),
        (&0.0.into(), &0.0.into()),
        "{run}"
    );
    assert_eq!(run["questions"], 6);
    for name in ["base", "tuned"] {
        let answers = fs::read_to_string(home.only_run().join(format!("answers/{name}.jsonl"))).unwrap();
        assert_eq!(answers.lines().count(), 6);
        let first: Value = serde_json::from_str(answers.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&first["answer"], &first["scored"]["executes"]),
            (&"SELECT 1".into(), &true.into())
        );
    }
}

#[test]
fn another_engine_trains_when_it_is_asked_for_and_is_named_when_it_is_missing() {
    let home = Home::new();
    let train = |python: &str| {
        home.tunesmith(GOOD)
            .args(["train", &home.recipe(), "--engine", "hf", "--json"])
            .env("TUNESMITH_HF_PYTHON", python)
            .ran()
    };
    let missing = train("").expect_status(1);
    assert_eq!(missing.json()["error"]["code"], "python_not_named");
    assert!(
        missing.stderr.contains("tunesmith setup --engine hf --apply"),
        "{}",
        missing.stderr
    );
    let run = train(fake_engine()).expect_status(0).json();
    assert_eq!(run["status"], "ok");
    let worker = home.path("home").join("cache/workers/hf.py");
    assert!(fs::read_to_string(worker).unwrap().contains("epoch_order"));
}

#[test]
fn the_same_experiment_has_the_same_hash_and_another_seed_has_another() {
    let home = Home::new();
    let hash = |setting: &str| {
        let ran = home
            .tunesmith(GOOD)
            .args(["train", &home.recipe(), "--json", "--set", setting])
            .ran();
        ran.expect_status(0).json()["config_hash"].clone()
    };
    let first = hash("title=one");
    assert_eq!(hash("title=two"), first);
    assert_ne!(hash("train.seed=7"), first);
}

#[test]
fn a_killed_engine_is_told_with_signal_and_last_lines_and_the_run_is_kept() {
    let home = Home::new();
    let script = format!(
        "{OPENING}{{\"steps\": {{\"from\": 1, \"to\": 2}}}}\n{{\"stderr\": \"the last words\"}}\n{{\"kill_self\": 9}}\n"
    );
    let ran = train(&home, &script).expect_status(1);
    assert!(
        ran.stderr
            .contains("error: the engine was killed by SIGKILL after step 2"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("the last words"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    assert_eq!(
        ran.stderr.matches("error: ").count(),
        1,
        "an error is printed once"
    );
    let run = ran.json();
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&"crashed".into(), &"engine_crashed".into())
    );
    assert_eq!(run["total_steps"], 2, "what was measured is kept");
    assert!(home.only_run().join("report.html").exists());
}

#[test]
fn out_of_memory_is_a_record_with_its_reason() {
    let home = Home::new();
    let script = format!(
        "{OPENING}{}\n{{\"bye\": \"oom\"}}\n",
        r#"{"emit": {"type": "error", "code": "out_of_memory", "message": "out of memory: tried 3 GiB", "hints": ["halve train.micro_batch"]}}"#
    );
    let ran = train(&home, &script).expect_status(1);
    let run = ran.json();
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&"oom".into(), &"out_of_memory".into())
    );
    assert!(
        ran.stderr.contains("hint: halve train.micro_batch"),
        "{}",
        ran.stderr
    );
    let list = home.tunesmith(GOOD).args(["runs", "list", "--json"]).ran().json();
    assert_eq!(list["runs"][0]["status"], "oom");
}

#[test]
fn steps_without_a_number_stop_the_run() {
    let home = Home::new();
    let script = format!(
        "{OPENING}{{\"steps\": {{\"from\": 1, \"to\": 3, \"bad\": true}}}}\n{{\"wait_stop\": {{}}}}\n{{\"bye\": \"cancelled\"}}\n"
    );
    let run = train(&home, &script).expect_status(3).json();
    assert_eq!(run["error"]["code"], "finite");
    assert_eq!(
        (&run["status"], &run["valid_steps"], &run["total_steps"]),
        (&"nan".into(), &0.into(), &3.into())
    );
}

#[test]
fn a_run_that_learned_nothing_never_looks_like_a_success() {
    let home = Home::new();
    let step = r#"{"emit": {"type": "step", "step": 1, "loss": 2.0, "grad_norm": 0.0, "lr": 0.01, "dt_secs": 1.0, "elapsed_secs": 2.0, "real_tokens": 10, "padded_tokens": 10, "supervised_tokens": 5, "squared_lengths": 50}}"#;
    let script =
        format!("{OPENING}{step}\n{{\"save_adapter\": {{}}}}\n{{\"result\": {{}}}}\n{{\"bye\": \"ok\"}}\n");
    let ran = train(&home, &script).expect_status(3);
    let run = ran.json();
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&"invalid".into(), &"gradient_above_zero".into())
    );
    assert!(ran.stderr.contains("the gradient norm is zero"), "{}", ran.stderr);
    assert_eq!(
        run["adapter"],
        Value::Null,
        "no adapter of a run that learned nothing"
    );
    assert!(home.only_run().join("adapter.rejected").exists());
}

#[test]
fn ctrl_c_stops_at_a_step_and_says_what_was_kept() {
    let home = Home::new();
    let pid_file = home.path("pid");
    let script = format!(
        "{OPENING}{{\"steps\": {{\"from\": 1, \"to\": 2}}}}\n{{\"write_pid\": \"{}\"}}\n{{\"wait_stop\": {{}}}}\n{{\"save_adapter\": {{}}}}\n{{\"result\": {{}}}}\n{{\"bye\": \"cancelled\"}}\n",
        pid_file.display()
    );
    let child = home
        .tunesmith(&script)
        .args(["train", &home.recipe(), "--json"])
        .started();
    pid_in(&pid_file);
    interrupt(child.id());
    let ran = Ran::from(child.wait_with_output().unwrap()).expect_status(130);
    assert!(ran.stderr.contains("stopping after this step"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("the adapter so far is kept"),
        "{}",
        ran.stderr
    );
    let run = ran.json();
    assert_eq!(run["status"], "cancelled");
    assert!(run["adapter"].as_str().is_some());
}

#[test]
fn a_killed_program_leaves_no_engine_and_an_interrupted_run() {
    let home = Home::new();
    let pid_file = home.path("pid");
    let script = format!(
        "{OPENING}{{\"ignore_termination\": {{}}}}\n{{\"steps\": {{\"from\": 1, \"to\": 2}}}}\n{{\"write_pid\": \"{}\"}}\n{{\"wait_forever\": {{}}}}\n",
        pid_file.display()
    );
    let mut child = home.tunesmith(&script).args(["train", &home.recipe()]).started();
    let engine = pid_in(&pid_file);
    let list = || {
        home.tunesmith(GOOD)
            .args(["runs", "list", "--json"])
            .ran()
            .expect_status(0)
            .json()
    };
    assert_eq!(list()["runs"][0]["status"], "running");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the engine is gone", Duration::from_secs(2), || !lives(engine));
    let run = list()["runs"][0].clone();
    assert_eq!(
        (&run["status"], &run["total_steps"]),
        (&"interrupted".into(), &2.into()),
        "what was measured is kept"
    );
    home.tunesmith(GOOD)
        .args(["report", "last"])
        .ran()
        .expect_status(0);
}

#[test]
fn a_second_run_on_a_device_is_refused_by_name() {
    let home = Home::new();
    let pid_file = home.path("pid");
    let script = format!(
        "{OPENING}{{\"write_pid\": \"{}\"}}\n{{\"wait_stop\": {{}}}}\n{{\"bye\": \"cancelled\"}}\n",
        pid_file.display()
    );
    let first = home.tunesmith(&script).args(["train", &home.recipe()]).started();
    pid_in(&pid_file);
    let ran = train(&home, GOOD).expect_status(1);
    let id = home.only_run().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(ran.json()["error"]["code"], "device_in_use");
    assert!(
        ran.stderr.contains(&format!(
            "the device cpu is in use by run {id} (pid {}, since ",
            first.id()
        )),
        "{}",
        ran.stderr
    );
    interrupt(first.id());
    Ran::from(first.wait_with_output().unwrap()).expect_status(130);
    train(&home, GOOD).expect_status(0);
}

#[test]
fn a_folder_that_cannot_be_written_is_a_sentence() {
    let home = Home::new();
    fs::create_dir_all(home.path("home/data")).unwrap();
    // A file where the folder of runs should be: it stops root as well as anyone.
    fs::write(home.runs(), "in the way").unwrap();
    let ran = train(&home, GOOD).expect_status(1);
    assert!(ran.stderr.contains("runs could not be made"), "{}", ran.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn a_record_that_can_no_longer_be_written_ends_the_run_and_the_engine() {
    let home = Home::new();
    let pid_file = home.path("pid");
    let script = format!(
        "{OPENING}{{\"write_pid\": \"{}\"}}\n{{\"steps\": {{\"from\": 1, \"to\": 100000}}}}\n{{\"wait_forever\": {{}}}}\n",
        pid_file.display()
    );
    // No file of the program and its children may grow beyond 64 blocks of 1 KiB, as on a disk that fills up.
    let command = home.tunesmith(&script);
    let mut limited = std::process::Command::new("bash");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(command.get_program());
    limited.args(["train", &home.recipe()]);
    limited.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let ran = limited.ran().expect_status(1);
    assert!(
        ran.stderr.contains("events.jsonl could not be written")
            || ran.stderr.contains("engine.log could not be written"),
        "{}",
        ran.stderr
    );
    let engine = pid_in(&pid_file);
    wait_until("the engine is gone", Duration::from_secs(2), || !lives(engine));
}

#[test]
fn a_calibration_is_measured_once_and_then_reused_with_its_age() {
    let home = Home::new();
    let result = r#"{"emit": {"type": "result", "kind": "calibrate", "device": "cpu", "threads": 1, "time_boxed": false, "copy": {"bytes": 1, "iterations": 1, "best_gib_per_sec": 10.0, "median_gib_per_sec": 9.0}, "gemm": [{"dtype": "f32", "layout": "nt", "side": 1024, "warmup": 1, "iterations": 5, "mean_tflops": 0.125, "best_tflops": 0.13, "median_tflops": 0.125, "emulated": false, "values": {"max_error": 1e-7, "tolerance": 1e-5, "passed": true}}]}}"#;
    let script = format!("{OPENING}{result}\n{{\"bye\": \"ok\"}}\n");
    let first = home
        .tunesmith(&script)
        .args(["calibrate", "--json"])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(
        (&first["reused"], &first["result"]["gemm"][0]["mean_tflops"]),
        (&false.into(), &0.125.into())
    );
    // An engine that would fail shows that it is not asked again.
    let failing = format!("{OPENING}{{\"exit\": 1}}\n");
    let second = home
        .tunesmith(&failing)
        .args(["calibrate"])
        .ran()
        .expect_status(0);
    assert!(
        second.stdout.contains("f32 0.125 TFLOPS, measured"),
        "{}",
        second.stdout
    );
    home.tunesmith(&failing)
        .args(["calibrate", "--again"])
        .ran()
        .expect_status(1);
    // MFU is counted against it from now on: 3 steps of the script.
    let run = train(&home, GOOD).expect_status(0).json();
    assert!(
        run["mfu"]["lora_exact"]["practical"].as_f64().unwrap() > 0.0,
        "{run}"
    );
    // A flag that changes what torch does makes the measurement void.
    let mut changed = home.tunesmith(&failing);
    changed
        .env("OMP_NUM_THREADS", "1")
        .args(["calibrate"])
        .ran()
        .expect_status(1);
}

/// An engine that says that it runs on ROCm, and calibrates.
const ON_ROCM: &str = r#"{"emit": {"type": "hello", "protocol": 1, "engine": "fake-engine", "engine_version": "1.0.0", "torch": "2.11.0", "backend": "hip", "threads": 1}}
{"wait_job": {}}
{"result": {}}
{"bye": "ok"}
"#;

#[test]
fn a_calibration_says_what_throttles_which_attention_runs_and_what_does_not_hold_any_more() {
    let home = Home::new();
    let ran = home.tunesmith(GOOD).args(["calibrate"]).ran().expect_status(0);
    for said in [
        "sustained: 0.140 TFLOPS after 5 s, 8.0 % below the short measurement",
        "torch takes it: ScaledDotProductFlashAttentionBackward0",
        "memory: 444 MiB this process holds outside torch's allocator",
        "NF4, stored and unpacked",
    ] {
        assert!(ran.stdout.contains(said), "{said}\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("do not hold any more"), "{}", ran.stdout);
    // Another flag: it is measured anew, and the old one stays to be seen, with what has changed.
    let mut flagged = home.tunesmith(GOOD);
    flagged.env("OMP_NUM_THREADS", "1").args(["calibrate", "--json"]);
    let told = flagged.ran().expect_status(0).json();
    assert_eq!(told["reused"], false);
    let reasons = &told["stale"][0]["reasons"];
    assert_eq!(
        reasons,
        &serde_json::json!(["OMP_NUM_THREADS is 1 now, it was not set"])
    );
    assert!(told["validity"]["word"].is_string());
}

#[test]
fn a_full_calibration_of_a_processor_is_measured_though_a_short_one_holds() {
    let home = Home::new();
    let sustained = |arguments: &[&str]| {
        let mut command = home.tunesmith(GOOD);
        let told = command.args(arguments).ran().expect_status(0).json();
        let secs = told["sustainment"]["secs"].as_f64().unwrap();
        (told["reused"].as_bool().unwrap(), secs)
    };
    assert_eq!(sustained(&["calibrate", "--json"]), (false, 5.0));
    assert_eq!(sustained(&["calibrate", "--full", "--json"]), (false, 30.0));
    assert_eq!(sustained(&["calibrate", "--full", "--json"]), (true, 30.0));
    assert_eq!(sustained(&["calibrate", "--json"]), (true, 30.0));
}

#[test]
fn on_rocm_each_setting_runs_in_an_engine_of_its_own_and_the_winner_is_recorded() {
    let home = Home::new();
    let told = home
        .tunesmith(ON_ROCM)
        .args(["calibrate", "--device", "cuda:0", "--json"])
        .ran()
        .expect_status(0)
        .json();
    let winners: Vec<(&str, &str)> = told["winners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|winner| {
            (
                winner["variable"].as_str().unwrap(),
                winner["value"].as_str().unwrap_or("none"),
            )
        })
        .collect();
    assert_eq!(
        winners,
        [
            ("TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "1"),
            ("TORCH_BLAS_PREFER_HIPBLASLT", "1")
        ]
    );
    assert_eq!(told["result"]["variants"].as_array().unwrap().len(), 4);
    // An engine that dies under a setting says something of the setting, and nothing of the card.
    let dies = ON_ROCM.replace(
        "{\"result\": {}}",
        "{\"kill_self\": 11, \"env\": \"TORCH_BLAS_PREFER_HIPBLASLT=0\"}\n{\"result\": {}}",
    );
    let told = home
        .tunesmith(&dies)
        .args(["calibrate", "--device", "cuda:0", "--again", "--json"])
        .ran()
        .expect_status(0)
        .json();
    let failed = &told["result"]["variants"][2];
    assert_eq!(failed["value"], "0");
    assert!(failed["failure"].is_string(), "{failed}");
    assert_eq!(
        told["winners"][1]["why"],
        "the other one failed or computed wrong values"
    );
}

#[test]
fn what_computes_wrongly_is_not_trained_on() {
    let home = Home::new();
    let wrong = r#"{"emit": {"type": "result", "kind": "calibrate", "device": "cpu", "threads": 1, "time_boxed": false, "copy": {"bytes": 1, "iterations": 1, "best_gib_per_sec": 10.0, "median_gib_per_sec": 9.0}, "gemm": [{"dtype": "f32", "layout": "nt", "side": 1024, "warmup": 1, "iterations": 5, "mean_tflops": 0.125, "best_tflops": 0.13, "median_tflops": 0.125, "emulated": false, "values": {"max_error": 0.2, "tolerance": 1e-5, "passed": false}}]}}"#;
    let script = format!("{OPENING}{wrong}\n{{\"bye\": \"ok\"}}\n");
    let ran = home.tunesmith(&script).args(["calibrate"]).ran().expect_status(3);
    assert!(
        ran.stdout
            .contains("WRONG VALUES: f32 product, nt layout is off by"),
        "{}",
        ran.stdout
    );
    let refused = train(&home, GOOD).expect_status(1);
    assert!(
        refused
            .stderr
            .contains("found wrong values, so nothing can be trained on it in f32"),
        "{}",
        refused.stderr
    );
}

#[test]
fn wrong_usage_has_a_status_of_its_own() {
    let home = Home::new();
    let ran = home.tunesmith(GOOD).args(["train"]).ran().expect_status(2);
    assert!(ran.stderr.contains("RECIPE"), "{}", ran.stderr);
    let help = home
        .tunesmith(GOOD)
        .args(["train", "--help"])
        .ran()
        .expect_status(0);
    assert!(help.stdout.contains("--set train.seed=42"), "{}", help.stdout);
}
