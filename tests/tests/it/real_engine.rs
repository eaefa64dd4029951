//! The command line with the real engine, on a tiny model and on the default one.

use std::{fs, path::Path, process::Child, time::Duration};

use crate::context::{Home, Ran, RunIt, children, interrupt, lives, wait_until};
use crate::serving::Window;
use serde_json::Value;
use tunesmith_measure::{ModelShape, quantised_weight_bytes, weight_bytes};
use tunesmith_protocol::{DType, Notice, PromptText, Quantization, RunStatus, Side, TaskWork};

/// How many events of a type the home's run has recorded so far.
fn recorded(home: &Home, kind: &str) -> usize {
    let run = fs::read_dir(home.runs()).ok().and_then(|mut runs| runs.next());
    run.and_then(|run| fs::read_to_string(run.ok()?.path().join("events.jsonl")).ok())
        .map_or(0, |text| text.matches(&format!("\"type\":\"{kind}\"")).count())
}

/// Starts a training without end on a tiny model and waits until it has done a step.
fn endless(home: &Home) -> Child {
    let child = home
        .tunesmith_for_real()
        .args(["train", &home.recipe(), "--json", "--set", "train.steps=1000000"])
        .started();
    wait_until("the first step is done", Duration::from_mins(1), || {
        recorded(home, "step") >= 1
    });
    child
}

#[test]
fn ctrl_c_keeps_the_adapter_of_the_steps_that_were_done() {
    let home = Home::new();
    let child = endless(&home);
    interrupt(child.id());
    let ran = Ran::from(child.wait_with_output().unwrap()).expect_status(130);
    let run = ran.json();
    assert_eq!(run["status"], "cancelled");
    assert_adapter(Path::new(run["adapter"].as_str().unwrap()));
    let mut generate = home.tunesmith_for_real();
    generate
        .args([
            "generate",
            "last",
            "--prompt",
            "Hello",
            "--max-new-tokens",
            "3",
            "--json",
        ])
        .ran()
        .expect_status(0);
}

#[test]
fn the_engine_does_not_outlive_its_parent() {
    let home = Home::new();
    let mut child = endless(&home);
    let engines = children(child.id());
    assert_eq!(engines.len(), 1, "{engines:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the engine is gone", Duration::from_secs(2), || {
        !lives(engines[0])
    });
}

#[test]
fn a_window_reads_an_answer_while_it_is_written() {
    let home = Home::new();
    home.tunesmith_for_real()
        .args(["train", &home.recipe(), "--json"])
        .ran()
        .expect_status(0);
    let told = Window::on(&mut home.tunesmith_for_real()).led(
        1,
        TaskWork::Answer {
            run: "last".to_owned(),
            prompt: PromptText::Text("How much are 1 and one?".to_owned()),
            sides: vec![Side::Base, Side::Tuned],
            max_new_tokens: 40,
            sampling: None,
        },
    );
    assert_eq!(told.status(), RunStatus::Ok, "{:?}", told.0);
    for of in [Side::Base, Side::Tuned] {
        let answer = told.0.iter().find_map(|notice| match notice {
            Notice::Answered { side, answer, .. } if *side == of => Some(answer.text.clone()),
            _ => None,
        });
        assert_eq!(Some(told.pieces(of).concat()), answer);
    }
}

fn assert_adapter(folder: &Path) {
    let config: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("adapter_config.json")).unwrap()).unwrap();
    assert_eq!(config["peft_type"], "LORA");
    assert!(
        fs::metadata(folder.join("adapter_model.safetensors"))
            .unwrap()
            .len()
            > 1000
    );
}

#[test]
fn a_tiny_model_learns_its_rows_by_heart_and_answers() {
    let home = Home::new();
    let run = home
        .tunesmith_for_real()
        .args([
            "train",
            &home.recipe(),
            "--json",
            "--set",
            "train.steps=20",
            "--set",
            "lora.rank=8",
        ])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!((&run["status"], &run["valid_steps"]), (&"ok".into(), &20.into()));
    assert!(
        run["loss_last"].as_f64().unwrap() < run["loss_first"].as_f64().unwrap() - 0.3,
        "{run}"
    );
    assert_adapter(Path::new(run["adapter"].as_str().unwrap()));
    for base in [false, true] {
        let mut command = home.tunesmith_for_real();
        command.args([
            "generate",
            "last",
            "--prompt",
            "How much is 1 and one?",
            "--max-new-tokens",
            "8",
            "--json",
        ]);
        if base {
            command.arg("--base");
        }
        let answer = command.ran().expect_status(0).json();
        assert!(answer["tokens"].as_u64().unwrap() >= 1, "{answer}");
    }
}

#[test]
fn a_base_in_4_bits_takes_the_bytes_that_were_predicted_and_its_adapter_says_so() {
    let home = Home::new();
    let train = |settings: &[&str]| {
        let mut command = home.tunesmith_for_real();
        command.args(["train", &home.recipe(), "--json"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.ran().expect_status(0)
    };
    let run = train(&[
        "model.quantization=nf4",
        "train.packing=false",
        "train.attention=eager",
    ])
    .json();
    assert_eq!(run["status"], "ok");
    let folder = home.only_run();
    let json = |path: &Path| -> Value { serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
    let manifest = json(&folder.join("manifest.json"));
    let shape: ModelShape = serde_json::from_value(manifest["model"]["shape"].clone()).unwrap();
    let summary = home.summary();
    assert_eq!(
        summary["engine"]["weight_bytes"].as_u64(),
        Some(quantised_weight_bytes(&shape, DType::F32))
    );
    let adapter = folder.join("adapter");
    assert_eq!(json(&adapter.join("tunesmith_base.json"))["quantization"], "nf4");
    // It answers on its own base without a word.
    let generate = home
        .tunesmith_for_real()
        .args([
            "generate",
            "last",
            "--prompt",
            "Hello",
            "--max-new-tokens",
            "3",
            "--json",
        ])
        .ran()
        .expect_status(0);
    assert!(!generate.stderr.contains("was trained on"), "{}", generate.stderr);
    // On another one it goes on, and both are named (T8).
    let start = format!("lora.start_from={}", adapter.display());
    let ran = train(&[&start]);
    assert!(
        ran.stderr
            .contains("trained on this base in 4-bit (nf4) in f32, and now it is f32"),
        "{}",
        ran.stderr
    );
    let mut runs: Vec<_> = fs::read_dir(home.runs())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| *path != folder)
        .collect();
    let other = json(&runs.remove(0).join("summary.json"));
    let other_base = &other["engine"]["other_base"];
    assert_eq!(other_base["trained_on"]["quantization"], "nf4");
    assert_eq!(other_base["put_on"]["quantization"], "none");
    assert_eq!(
        other["engine"]["weight_bytes"].as_u64(),
        Some(weight_bytes(&shape, DType::F32, Quantization::None))
    );
}

#[test]
fn a_loss_that_is_no_number_is_a_status_with_a_reason() {
    let home = Home::new();
    let ran = home
        .tunesmith_for_real()
        .args([
            "train",
            &home.recipe(),
            "--json",
            "--set",
            "optimizer.learning_rate=0.99",
            "--set",
            "lora.alpha=1e30",
        ])
        .args(["--set", "train.steps=20"])
        .ran()
        .expect_status(3);
    let run = ran.json();
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&"nan".into(), &"finite".into()),
        "{run}"
    );
    assert!(ran.stderr.contains("not a finite number"), "{}", ran.stderr);
}

#[test]
fn the_default_model_trains_three_steps_and_is_scored() {
    let home = Home::new();
    let run = home
        .tunesmith_for_real()
        .args(["train", "smoke", "--json", "--set", "evaluate.questions=2"])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(
        (&run["status"], &run["valid_steps"], &run["total_steps"]),
        (&"ok".into(), &3.into(), &3.into())
    );
    assert!(
        run["loss_last"].as_f64().unwrap() < run["loss_first"].as_f64().unwrap(),
        "{run}"
    );
    assert!(
        run["score_before"].is_number() && run["score_after"].is_number(),
        "{run}"
    );
    assert_adapter(Path::new(run["adapter"].as_str().unwrap()));
    assert!(Path::new(run["report"].as_str().unwrap()).exists());
}
