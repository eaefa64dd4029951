//! Experiments through the command line and the service, with an engine that replays a script: they go on after
//! every kind of end, repeat nothing, and a failure is a record.
#![cfg(unix)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use tunesmith_protocol::{Notice, RunStatus, TaskWork};

use crate::context::{CALIBRATES, Home, OPENING, RunIt, children, lives, wait_until};
use crate::serving::Window;

/// Runs of the experiment that is killed: two arms, each with so many seeds.
const SEEDS: usize = 7;
const KILLS: usize = 10;
const LIMIT: Duration = Duration::from_mins(2);

/// Six steps, twenty milliseconds apart, so that a kill may come between them.
fn script() -> String {
    format!(
        "{OPENING}{{\"steps\": {{\"from\": 1, \"to\": 6, \"delay_ms\": 20}}}}\n{{\"save_adapter\": {{}}}}\n{{\"result\": {{}}}}\n{{\"bye\": \"ok\"}}\n"
    )
}

/// An experiment on the home's recipe; nothing is waited for, and a busy machine repeats nothing.
fn write_experiment(home: &Home, seeds: usize, more: &str) -> PathBuf {
    let seeds: Vec<String> = (1..=seeds).map(|seed| seed.to_string()).collect();
    let text = format!(
        "name = \"rows\"\nkind = \"sweep\"\nmetrics = [\"tokens_per_sec\", \"loss_end\"]\n{more}\n[base]\nrecipe = \"tiny.toml\"\n\
         [run]\nseeds = [{}]\nwarmup_steps = 2\nmeasured_steps = 4\nquiet_wait_secs = 0.0\nrepeat_disturbed = false\n\
         [[arms]]\nname = \"two rows\"\n[[arms]]\nname = \"three rows\"\nset = {{ \"train.micro_batch\" = 3 }}\n\
         [[predictions]]\nmetric = \"tokens_per_sec\"\nat_least = 1.2\nat_most = 1.8\nwhy = \"half as many rows more, in the same time\"\n",
        seeds.join(", ")
    );
    let path = home.path("rows.toml");
    fs::write(&path, text).unwrap();
    path
}

fn run(home: &Home, experiment: &Path) -> std::process::Command {
    let mut command = home.tunesmith(&script());
    command.args([
        "experiment",
        "run",
        experiment.to_str().unwrap(),
        "--json",
        "--quiet",
    ]);
    command
}

/// The lines of the experiment's own record, those that are whole.
fn lines(home: &Home) -> Vec<Value> {
    let experiments = home.path("home/data/experiments");
    let Ok(mut folders) = fs::read_dir(experiments) else {
        return Vec::new();
    };
    let Some(folder) = folders.next() else {
        return Vec::new();
    };
    let text = fs::read_to_string(folder.unwrap().path().join("runs.jsonl")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// What an experiment says, without what is another each time.
fn results(state: &Value) -> Value {
    let slots: Vec<Value> = state["slots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| {
            json!([
                slot["name"],
                slot["seed"],
                slot["status"],
                slot["figures"],
                slot["steady_steps"]
            ])
        })
        .collect();
    json!({ "hash": state["hash"], "slots": slots, "comparison": state["comparison"] })
}

#[test]
fn a_sweep_that_is_killed_ten_times_ends_as_one_that_was_left_alone_and_repeats_nothing() {
    let whole = Home::new();
    // The same folder: the hash covers where recipe and data lie.
    let undisturbed = run(&whole, &write_experiment(&whole, SEEDS, ""))
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(undisturbed["status"], "finished");
    let before = results(&undisturbed);
    fs::remove_dir_all(whole.path("home")).unwrap();

    let home = whole;
    let experiment = write_experiment(&home, SEEDS, "");
    let mut dice = ChaCha8Rng::seed_from_u64(3407);
    let mut kills = 0;
    while kills < KILLS {
        let begun = lines(&home).len();
        let mut command = run(&home, &experiment);
        let mut child = command.started();
        // Another run has begun; then at a random moment of it, or of the next one's beginning.
        wait_until("a run has begun", LIMIT, || {
            lines(&home).len() > begun || child.try_wait().unwrap().is_some()
        });
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "it was over before it was killed often enough"
        );
        thread::sleep(Duration::from_micros(dice.next_u64() % 260_000));
        let engines = children(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("no engine is left", LIMIT, || {
            engines.iter().all(|pid| !lives(*pid))
        });
        kills += 1;
    }
    let end = run(&home, &experiment).ran().expect_status(0).json();
    assert_eq!(end["status"], "finished");
    assert_eq!(results(&end), before);

    // Of all runs that were begun for a slot, one came to its end.
    let mut finished: BTreeMap<u64, usize> = BTreeMap::new();
    let mut cut_short = 0;
    for line in lines(&home) {
        let folder = home.runs().join(line["run"].as_str().unwrap());
        if folder.join("summary.json").exists() {
            *finished.entry(line["slot"].as_u64().unwrap()).or_default() += 1;
        } else {
            cut_short += 1;
        }
    }
    assert_eq!(finished.len(), 2 * SEEDS);
    assert!(finished.values().all(|runs| *runs == 1), "{finished:?}");
    assert!(
        cut_short > 0 && cut_short <= KILLS,
        "{cut_short} of {KILLS} kills cut a run short"
    );

    // Once more: nothing is left to do, and nothing is done.
    let lines_before = lines(&home).len();
    let again = run(&home, &experiment).ran().expect_status(0).json();
    assert_eq!(results(&again), before);
    assert_eq!(lines(&home).len(), lines_before);
}

#[test]
fn an_experiment_shows_its_arms_its_prediction_and_its_order() {
    let home = Home::new();
    let experiment = write_experiment(&home, 3, "question = \"Do more rows pay?\"");
    let state = run(&home, &experiment).ran().expect_status(0).json();
    let order: Vec<&str> = state["slots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| slot["name"].as_str().unwrap())
        .collect();
    let (two, three) = ("two rows", "three rows");
    assert_eq!(order, [two, three, three, two, two, three]);
    let pair = &state["comparison"]["pairs"][0];
    assert_eq!(pair["changes"][0]["key"], "train.micro_batch");
    assert_eq!(pair["figures"][0]["metric"], "tokens_per_sec");
    assert_eq!(
        state["comparison"]["predictions"][0]["verdict"], "hit",
        "{:#}",
        state["comparison"]
    );
    // What was expected lies beside the order, as it was before the first run.
    let folder = PathBuf::from(state["folder"].as_str().unwrap());
    let text = fs::read_to_string(folder.join("experiment.toml")).unwrap();
    assert!(text.contains("half as many rows more"), "{text}");
    let id = state["id"].as_str().unwrap();
    let shown = home
        .tunesmith("")
        .args(["experiment", "show", "rows"])
        .ran()
        .expect_status(0);
    for word in [
        id,
        "finished",
        "Do more rows pay?",
        "two rows",
        "was expected",
        ": it holds",
    ] {
        assert!(shown.stdout.contains(word), "{word} is not in\n{}", shown.stdout);
    }
    let listed = home
        .tunesmith("")
        .args(["experiment", "list", "--json"])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(listed["begun"][0]["id"], id);
    assert!(listed["ready"].as_array().unwrap().len() >= 8);
}

#[test]
fn where_the_time_goes_is_measured_level_by_level_after_a_calibration() {
    let home = Home::new();
    let path = home.path("ladder.toml");
    let text = "name = \"ladder\"\nkind = \"gap\"\nmetrics = [\"useful_tflops\"]\n[base]\nrecipe = \"tiny.toml\"\n\
         [run]\nseeds = [1, 2]\nwarmup_steps = 2\nmeasured_steps = 4\nquiet_wait_secs = 0.0\nrepeat_disturbed = false\n\
         [[arms]]\nname = \"kept\"\n[[arms]]\nname = \"again\"\nset = { \"train.recompute\" = \"layer\" }\n\
         [[arms]]\nname = \"products\"\nmeasures = \"products\"\n\
         [[arms]]\nname = \"written\"\nmeasures = \"decoding\"\nset = { \"evaluate.questions\" = 3 }\n";
    fs::write(&path, text).unwrap();
    let steps = "{\"steps\": {\"from\": 1, \"to\": 6}, \"when\": \"train\"}";
    let answers = "{\"answer_all\": \"SELECT 1\", \"when\": \"answer\"}";
    let rest = "{\"save_adapter\": {}, \"when\": \"train\"}\n{\"result\": {}}\n{\"bye\": \"ok\"}\n";
    let script = format!("{CALIBRATES}{answers}\n{steps}\n{rest}");
    let mut command = home.tunesmith(&script);
    let path = path.to_str().unwrap();
    command.args(["experiment", "run", path, "--json", "--quiet"]);
    let state = command.ran().expect_status(0).json();
    assert_eq!(state["status"], "finished", "{state:#}");

    let ladder = &state["ladder"];
    let steps = ladder["steps"].as_array().unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["products", "kept", "again"]);
    // The peak is that of the calibration, which was taken first.
    assert_eq!(ladder["peak"], 0.152);
    assert!(home.path("home/data/calibration").is_dir());
    assert!((steps[0]["reached"]["mean"].as_f64().unwrap() - 0.1).abs() < 1e-9);
    let lost: f64 = steps
        .iter()
        .map(|step| step["lost_tflops"].as_f64().unwrap())
        .sum();
    let last = steps[2]["reached"]["mean"].as_f64().unwrap();
    assert!((lost - (0.152 - last)).abs() < 1e-9 && last > 0.0);
    assert!((lost - ladder["lost_tflops"].as_f64().unwrap()).abs() < 1e-12);
    // Of five tokens of each of three answers four were written, in half a second.
    let written = &ladder["decoding"]["tokens_per_sec"];
    assert_eq!((&written["mean"], &written["n"]), (&json!(24.0), &json!(2)));
    // The raw record of each lies in the experiment's own folder.
    let folder = PathBuf::from(state["folder"].as_str().unwrap()).join("answers");
    for file in [
        "slot-002-1/level.json",
        "slot-002-1/events.jsonl",
        "slot-003-1/level.json",
    ] {
        assert!(folder.join(file).is_file(), "{file}");
    }

    let shown = home
        .tunesmith("")
        .args(["experiment", "show", "ladder"])
        .ran()
        .expect_status(0);
    for word in [
        "the whole gap",
        "matrices of this model's size",
        "24.0 tokens a second",
        "not measured: reinforcement learning (GRPO)",
    ] {
        assert!(shown.stdout.contains(word), "{word} is not in\n{}", shown.stdout);
    }
    // Nothing is left to do, and nothing is measured again.
    let lines_before = lines(&home).len();
    let mut command = home.tunesmith(&script);
    command.args(["experiment", "run", path, "--json", "--quiet"]);
    let again = command.ran().expect_status(0).json();
    assert_eq!(again["ladder"], state["ladder"]);
    assert_eq!(lines(&home).len(), lines_before);
}

#[test]
fn memory_that_runs_out_is_a_record_and_ends_a_search_upwards() {
    let home = Home::new();
    let experiment = write_experiment(&home, 1, "until_oom = true");
    let script = format!(
        "{OPENING}{{\"emit\": {{\"type\": \"error\", \"code\": \"out_of_memory\", \"message\": \"out of memory\", \"hints\": []}}}}\n{{\"bye\": \"oom\"}}\n"
    );
    let mut command = home.tunesmith(&script);
    command.args([
        "experiment",
        "run",
        experiment.to_str().unwrap(),
        "--json",
        "--quiet",
    ]);
    // Nothing was measured, so nothing was answered.
    let state = command.ran().expect_status(1).json();
    let statuses: Vec<&str> = state["slots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| slot["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["oom", "skipped"]);
    assert_eq!(state["status"], "finished");
    assert!(state["slots"][1]["reason"].as_str().unwrap().contains("two rows"));
}

#[test]
fn what_lies_with_no_arm_ends_the_experiment_and_can_be_tried_again() {
    let home = Home::new();
    let experiment = write_experiment(&home, 3, "");
    let script = format!("{OPENING}{{\"exit\": 7}}\n");
    let mut command = home.tunesmith(&script);
    command.args([
        "experiment",
        "run",
        experiment.to_str().unwrap(),
        "--json",
        "--quiet",
    ]);
    let error = command.ran().expect_status(1).json();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("the first 2 runs failed alike"), "{message}");
    let hint = error["error"]["hints"][0].as_str().unwrap();
    assert!(hint.contains("--retry-failed"), "{hint}");
    let state = home
        .tunesmith(&self::script())
        .args([
            "experiment",
            "resume",
            "rows",
            "--retry-failed",
            "--json",
            "--quiet",
        ])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(state["status"], "finished");
    assert!(
        state["slots"]
            .as_array()
            .unwrap()
            .iter()
            .all(|slot| slot["status"] == "ok")
    );
}

#[test]
fn a_second_difference_is_refused_before_anything_is_run() {
    let home = Home::new();
    let path = write_experiment(&home, 3, "");
    let text = fs::read_to_string(&path)
        .unwrap()
        .replace("kind = \"sweep\"", "kind = \"ab\"")
        .replace("[[predictions]]", "[[criteria]]")
        .replace(
            "\"train.micro_batch\" = 3",
            "\"train.micro_batch\" = 3, \"lora.rank\" = 2",
        );
    fs::write(&path, text).unwrap();
    let error = run(&home, &path).ran().expect_status(1).json();
    assert_eq!(error["error"]["code"], "second_difference");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("`lora.rank`") && message.contains("`train.micro_batch`"),
        "{message}"
    );
    assert!(!home.runs().exists());
}

#[test]
fn a_stopped_experiment_goes_on_where_it_was() {
    let home = Home::new();
    let experiment = write_experiment(&home, 3, "");
    let slow = format!("{OPENING}{{\"steps\": {{\"from\": 1, \"to\": 500, \"delay_ms\": 20}}}}\n");
    let mut command = home.tunesmith(&slow);
    command.args([
        "experiment",
        "run",
        experiment.to_str().unwrap(),
        "--json",
        "--quiet",
    ]);
    let child = command.started();
    wait_until("a run trains", LIMIT, || {
        let runs = fs::read_dir(home.runs()).into_iter().flatten().flatten();
        runs.into_iter().any(|run| {
            fs::read_to_string(run.path().join("events.jsonl")).is_ok_and(|text| text.contains("\"step\""))
        })
    });
    crate::context::interrupt(child.id());
    crate::context::Ran::from(child.wait_with_output().unwrap()).expect_status(130);
    let shown = home
        .tunesmith("")
        .args(["experiment", "show", "last", "--json"])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(shown["status"], "unfinished");
    assert_eq!(shown["slots"][0]["status"], "waiting");
    let state = run(&home, &experiment).ran().expect_status(0).json();
    assert_eq!(state["status"], "finished");
    assert_eq!(state["slots"][0]["attempts"], 2);
}

#[test]
fn a_window_hears_of_every_run_of_an_experiment() {
    let home = Home::new();
    let text = fs::read_to_string(write_experiment(&home, 1, ""))
        .unwrap()
        .replace("tiny.toml", home.path("tiny.toml").to_str().unwrap());
    let script = format!("{CALIBRATES}{}", script().replace(OPENING, ""));
    let mut window = Window::on(&mut home.tunesmith(&script));
    let work = TaskWork::Experiment {
        experiment: text,
        resume: false,
        again: false,
        retry_failed: false,
    };
    let told = window.led(1, work);
    assert_eq!(told.status(), RunStatus::Ok, "{:?}", told.0);
    let phases: Vec<(usize, String)> = told
        .0
        .iter()
        .filter_map(|notice| match notice {
            Notice::Experiment { slot, phase, .. } => Some((*slot, phase.clone())),
            _ => None,
        })
        .collect();
    let expected = [(0, "begins"), (0, "ok"), (1, "begins"), (1, "ok")];
    assert_eq!(phases, expected.map(|(slot, phase)| (slot, phase.to_owned())));
    assert!(told.0.iter().any(|notice| matches!(notice, Notice::Step { .. })));
    let Some(Notice::Ended { result, .. }) = told.0.last() else {
        panic!("{:?}", told.0);
    };
    assert_eq!((&result["slots"], &result["over"]), (&json!(2), &json!(2)));
    // The folder is the truth, and what was begun goes on by its name.
    let work = TaskWork::Experiment {
        experiment: result["experiment"].as_str().unwrap().to_owned(),
        resume: true,
        again: false,
        retry_failed: false,
    };
    let told = window.led(2, work);
    assert_eq!(told.status(), RunStatus::Ok, "{:?}", told.0);
    assert!(
        !told
            .0
            .iter()
            .any(|notice| matches!(notice, Notice::Experiment { .. }))
    );
}

#[test]
fn a_recipe_is_validated_in_ten_steps() {
    let home = Home::new();
    home.write_recipe("time_box_minutes = 5.0");
    let validate = |script: &str, more: &[&str]| {
        let mut command = home.tunesmith(script);
        command
            .args(["validate", &home.recipe(), "--json", "--quiet"])
            .args(more);
        command.ran()
    };
    let read = validate("", &[]).expect_status(0).json();
    assert_eq!(read["valid"], true);
    let ten = script()
        .replace("\"to\": 6", "\"to\": 10")
        .replace("\"delay_ms\": 20", "\"delay_ms\": 0");
    let smoke = validate(&ten, &["--smoke", "--set", "train.steps=500"])
        .expect_status(0)
        .json();
    assert_eq!(
        (&smoke["total_steps"], &smoke["status"]),
        (&json!(10), &json!("ok"))
    );
    // A training without loss and gradient is stopped by the judge.
    let bad = ten.replace("\"delay_ms\": 0", "\"bad\": true");
    validate(&bad, &["--smoke", "--set", "train.steps=500"]).expect_status(3);
    let error = validate("", &["--set", "train.stepz=3"]).expect_status(1).json();
    assert_eq!(error["error"]["code"], "unknown_recipe_key");
}
