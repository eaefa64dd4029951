//! Going on with a run that was cut short, with an engine that replays a script.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tunesmith_lab::{
    files::sha256_hex,
    run::{Entry, LabLine, read_events},
};

use crate::context::{GOOD, Home, OPENING, Ran, RunIt};

/// A checkpoint as an engine writes it, though nobody could train from it.
fn write_checkpoint(run: &Path, step: u64) {
    let folder = run.join(format!("checkpoints/step-{step:06}"));
    fs::create_dir_all(&folder).unwrap();
    let mut files = serde_json::Map::new();
    for name in ["adapter.safetensors", "optimizer.safetensors"] {
        let bytes = format!("{name} of step {step}");
        files.insert(name.to_owned(), sha256_hex(bytes.as_bytes()).into());
        fs::write(folder.join(name), bytes).unwrap();
    }
    let state = json!({"version": 1, "step": step, "rows_taken": 2 * step, "files": files});
    fs::write(folder.join("state.json"), state.to_string()).unwrap();
}

/// A script whose training does so many steps and is then killed.
fn cut_short(steps: u64) -> String {
    format!(
        "{OPENING}{{\"answer_all\": \"SELECT 1\", \"when\": \"answer\"}}\n{{\"result\": {{}}, \"when\": \"answer\"}}\n{{\"bye\": \"ok\", \"when\": \"answer\"}}\n{{\"exit\": 0, \"when\": \"answer\"}}\n{{\"steps\": {{\"from\": 1, \"to\": {steps}}}}}\n{{\"kill_self\": 9}}\n"
    )
}

/// A script that goes on behind step `from` to step 3, after it has written down its job.
pub(crate) fn going_on(home: &Home, from: u64) -> String {
    format!(
        "{OPENING}{{\"write_job\": \"{}\", \"when\": \"train\"}}\n{{\"answer_all\": \"SELECT 2\", \"when\": \"answer\"}}\n{{\"steps\": {{\"from\": {}, \"to\": 3}}, \"when\": \"train\"}}\n{{\"save_adapter\": {{}}, \"when\": \"train\"}}\n{{\"result\": {{}}}}\n{{\"bye\": \"ok\"}}\n",
        home.path("job.json").display(),
        from + 1
    )
}

/// A home with a run that was killed after two steps and has a checkpoint of the first.
pub(crate) fn interrupted() -> Home {
    let home = Home::new();
    train(&home, &cut_short(2)).expect_status(1);
    write_checkpoint(&home.only_run(), 1);
    home
}

/// A home whose recipe is scored on four questions.
fn sql_home() -> Home {
    let home = Home::new();
    let recipe = format!(
        "name = \"sql\"\n[model]\npath = \"{}\"\n[data]\nsource = \"text-to-sql\"\nmax_length = 2048\n[train]\nsteps = 3\nmicro_batch = 2\n[optimizer]\nwarmup_steps = 0\n[evaluate]\nquestions = 4\n",
        home.path("model").display()
    );
    fs::write(home.path("tiny.toml"), recipe).unwrap();
    home
}

fn train(home: &Home, script: &str) -> Ran {
    home.tunesmith(script)
        .args(["train", &home.recipe(), "--json"])
        .ran()
}

fn resume(home: &Home, script: &str) -> Ran {
    home.tunesmith(script)
        .args(["runs", "resume", "last", "--json"])
        .ran()
}

/// Expects a refusal that leaves the run as it was.
#[track_caller]
fn refused(home: &Home, script: &str, code: &str) -> String {
    let files = || {
        let run = home.only_run();
        ["events.jsonl", "summary.json"].map(|name| fs::read_to_string(run.join(name)).ok())
    };
    let before = files();
    let ran = resume(home, script).expect_status(1);
    let error = ran.json()["error"].clone();
    assert_eq!(error["code"], code, "{error}");
    assert!(
        !error["hints"].as_array().unwrap().is_empty(),
        "no next step: {error}"
    );
    assert_eq!(files(), before);
    error["message"].as_str().unwrap().to_owned()
}

fn journal(home: &Home) -> Vec<Entry> {
    read_events(&home.only_run()).unwrap()
}

fn stages(home: &Home) -> Vec<String> {
    journal(home)
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Lab(LabLine::Stage { stage, .. }) => Some(stage),
            _ => None,
        })
        .collect()
}

#[test]
fn a_run_goes_on_from_its_newest_checkpoint_and_counts_each_step_once() {
    let home = interrupted();
    let run_dir = home.only_run();
    let list = home.tunesmith(GOOD).args(["runs", "list"]).ran();
    assert!(list.stdout.contains("can go on from step 1"), "{}", list.stdout);
    let shown = home.tunesmith(GOOD).args(["runs", "show", "last"]).ran();
    assert!(
        shown.stdout.contains("tunesmith runs resume 2"),
        "{}",
        shown.stdout
    );

    let run = resume(&home, &going_on(&home, 1)).expect_status(0).json();
    assert_eq!((&run["status"], &run["error"]), (&"ok".into(), &Value::Null));
    assert_eq!((&run["valid_steps"], &run["total_steps"]), (&3.into(), &3.into()));
    assert_eq!(run["resume_step"], Value::Null);
    // Steps 1 to 3 of the script end after 1.5, 2 and 2.5 s; the clock of the latter two began anew.
    assert_eq!(run["whole_run_tokens_per_sec"], 300.0 / (1.5 + 2.5));
    assert!(run["train_secs"].as_f64().unwrap() >= 1.5, "{run}");
    assert!(run["total_secs"].as_f64().unwrap() >= 1.5, "{run}");

    let job: Value = serde_json::from_str(&fs::read_to_string(home.path("job.json")).unwrap()).unwrap();
    let checkpoint = run_dir.join("checkpoints/step-000001");
    assert_eq!(job["resume_from"], checkpoint.to_str().unwrap());
    assert_eq!(job["checkpoint_every"], 20);
    assert_eq!(
        journal(&home)
            .iter()
            .filter(|entry| **entry == Entry::Lab(LabLine::Resume { from_step: 1 }))
            .count(),
        1
    );
    let report = fs::read_to_string(run_dir.join("report.json")).unwrap();
    assert!(report.contains("went on from step 1;"), "{report}");
    let message = refused(&home, GOOD, "run_complete");
    assert!(message.contains("is complete"), "{message}");
}

#[test]
fn a_cancelled_run_says_how_to_go_on() {
    let home = Home::new();
    train(&home, &cut_short(2)).expect_status(1);
    write_checkpoint(&home.only_run(), 2);
    // It goes on and is cut short again.
    let script = format!("{OPENING}{{\"steps\": {{\"from\": 3, \"to\": 3}}}}\n{{\"bye\": \"cancelled\"}}\n");
    let ran = home
        .tunesmith(&script)
        .args(["runs", "resume", "last"])
        .ran()
        .expect_status(130);
    let id = home.only_run().file_name().unwrap().to_str().unwrap().to_owned();
    assert!(
        ran.stdout
            .contains(&format!("Go on from step 2: tunesmith runs resume {id}")),
        "{}",
        ran.stdout
    );
    let run = resume(&home, &going_on(&home, 2)).expect_status(0).json();
    assert_eq!((&run["status"], &run["total_steps"]), (&"ok".into(), &3.into()));
}

#[test]
fn the_answers_of_the_base_model_are_not_asked_for_again() {
    let home = sql_home();
    train(&home, &cut_short(2)).expect_status(1);
    let run_dir = home.only_run();
    write_checkpoint(&run_dir, 2);
    let answers = |name: &str| fs::read_to_string(run_dir.join(format!("answers/{name}.jsonl"))).unwrap();
    let base = answers("base");
    let run = resume(&home, &going_on(&home, 2)).expect_status(0).json();
    assert_eq!(run["questions"], 4, "{run}");
    assert!(
        run["score_before"].is_number() && run["score_gain"].is_number(),
        "{run}"
    );
    assert_eq!(answers("base"), base);
    assert!(answers("tuned").contains("SELECT 2"));
    assert_eq!(
        stages(&home),
        ["evaluate_before", "train", "train", "evaluate_after"]
    );
}

#[test]
fn answers_that_are_not_whole_are_asked_for_again() {
    let home = sql_home();
    train(&home, &cut_short(2)).expect_status(1);
    let run_dir = home.only_run();
    write_checkpoint(&run_dir, 2);
    let file = run_dir.join("answers/base.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    resume(&home, &going_on(&home, 2)).expect_status(0);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 4);
    assert_eq!(
        stages(&home),
        [
            "evaluate_before",
            "train",
            "evaluate_before",
            "train",
            "evaluate_after"
        ]
    );
}

#[test]
fn a_run_without_a_usable_checkpoint_is_refused() {
    let home = Home::new();
    train(&home, &cut_short(2)).expect_status(1);
    let message = refused(&home, GOOD, "no_checkpoint");
    assert!(message.ends_with("has no checkpoint to go on from"), "{message}");
    write_checkpoint(&home.only_run(), 2);
    let file = home
        .only_run()
        .join("checkpoints/step-000002/adapter.safetensors");
    fs::write(file, "something else").unwrap();
    let message = refused(&home, GOOD, "no_checkpoint");
    assert!(message.ends_with("has damaged checkpoints only"), "{message}");
}

#[test]
fn a_checkpoint_of_steps_that_nobody_recorded_is_not_used() {
    let home = interrupted();
    write_checkpoint(&home.only_run(), 3);
    let run = resume(&home, &going_on(&home, 1)).expect_status(0).json();
    assert_eq!(run["total_steps"], 3);
    assert!(!home.only_run().join("checkpoints/step-000003").exists());
}

#[test]
fn what_would_change_the_curve_is_refused_by_name() {
    let home = interrupted();
    let hello = r#"{"emit": {"type": "hello", "protocol": 1, "engine": "fake-engine", "engine_version": "2.0.0", "torch": "2.11.1", "backend": "cpu", "threads": 1}}"#;
    let message = refused(
        &home,
        &format!("{hello}\n{{\"wait_job\": {{}}}}\n"),
        "run_differs",
    );
    for difference in [
        "the engine was fake-engine 1.0.0 and is fake-engine 2.0.0",
        "torch was 2.11.0 and is 2.11.1",
    ] {
        assert!(message.contains(difference), "{message}");
    }
    assert!(!message.contains("recipe"), "{message}");

    let ran = home
        .tunesmith(GOOD)
        .args(["runs", "resume", "last", "--threads", "7"])
        .ran()
        .expect_status(1);
    assert!(
        ran.stderr.contains("the number of threads was") && ran.stderr.contains("and is 7"),
        "{}",
        ran.stderr
    );

    let recipe = home.only_run().join("recipe.toml");
    let text = fs::read_to_string(&recipe).unwrap();
    fs::write(
        &recipe,
        text.replace("learning_rate = 0.01", "learning_rate = 0.02"),
    )
    .unwrap();
    let message = refused(&home, GOOD, "run_differs");
    assert!(message.contains("recipe.toml have changed"), "{message}");
    // How long it may take and how often it is saved change no number.
    let text = text.replace("time_box_minutes = 15.0", "time_box_minutes = 30.0");
    fs::write(
        &recipe,
        text.replace("checkpoint_every = 20", "checkpoint_every = 1"),
    )
    .unwrap();
    resume(&home, &going_on(&home, 1)).expect_status(0);
    let job = fs::read_to_string(home.path("job.json")).unwrap();
    assert!(job.contains("\"checkpoint_every\":1,"), "{job}");
}

#[test]
fn a_device_that_computes_wrongly_goes_on_with_nothing() {
    let home = interrupted();
    let wrong = r#"{"emit": {"type": "result", "kind": "calibrate", "device": "cpu", "threads": 1, "time_boxed": false, "copy": {"bytes": 1, "iterations": 1, "best_gib_per_sec": 10.0, "median_gib_per_sec": 9.0}, "gemm": [{"dtype": "f32", "layout": "nt", "side": 1024, "warmup": 1, "iterations": 5, "mean_tflops": 0.125, "best_tflops": 0.13, "median_tflops": 0.125, "emulated": false, "values": {"max_error": 0.2, "tolerance": 1e-5, "passed": false}}]}}"#;
    let script = format!("{OPENING}{wrong}\n{{\"bye\": \"ok\"}}\n");
    home.tunesmith(&script)
        .args(["calibrate", "--again"])
        .ran()
        .expect_status(3);
    let message = refused(&home, &going_on(&home, 1), "not_possible");
    assert!(
        message.contains("found wrong values, so nothing can be trained on it in f32"),
        "{message}"
    );
}

#[test]
fn rows_and_weights_that_changed_are_refused_by_name() {
    let home = interrupted();
    let run_dir = home.only_run();
    // The rows of another run with other data.
    let rows = fs::read(run_dir.join("rows/train.safetensors")).unwrap();
    let other = Home::new();
    let text = fs::read_to_string(other.path("rows.jsonl")).unwrap();
    fs::write(other.path("rows.jsonl"), text.replace("How much", "How many")).unwrap();
    train(&other, GOOD).expect_status(0);
    let changed = fs::read(other.only_run().join("rows/train.safetensors")).unwrap();
    fs::write(run_dir.join("rows/train.safetensors"), changed).unwrap();
    let message = refused(&home, GOOD, "run_differs");
    assert!(
        message.contains("rows/train.safetensors have changed"),
        "{message}"
    );
    fs::write(run_dir.join("rows/train.safetensors"), rows).unwrap();

    let file = home.path("model/model.safetensors");
    let mut weights = fs::read(&file).unwrap();
    let last = weights.len() - 1;
    weights[last] ^= 1;
    fs::write(&file, weights).unwrap();
    let message = refused(&home, GOOD, "not_possible");
    assert!(message.contains("model has changed since the run"), "{message}");
}

#[test]
fn an_evaluation_that_was_turned_off_stays_off() {
    let home = sql_home();
    home.tunesmith(&cut_short(2))
        .args(["train", &home.recipe(), "--no-eval"])
        .ran()
        .expect_status(1);
    write_checkpoint(&home.only_run(), 1);
    let run = resume(&home, &going_on(&home, 1)).expect_status(0).json();
    assert_eq!(
        (&run["status"], &run["score_after"]),
        (&"ok".into(), &Value::Null)
    );
    assert_eq!(stages(&home), ["train", "train"]);
}
