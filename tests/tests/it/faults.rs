//! Every silent fault that is known, put into a real training on purpose (X14): each is caught by its check, stops the
//! run and leaves no adapter that could be taken for a good one.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::{
    context::{Home, Ran, RunIt},
    tiny_model,
};

/// The command line with a fault in it.
fn spoilt(home: &Home, fault: &str, settings: &[&str]) -> Command {
    let mut command = home.tunesmith_for_real();
    command
        .env("TUNESMITH_INJECT_FAULT", fault)
        .args(["train", &home.recipe(), "--json"]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command
}

fn finding<'a>(summary: &'a Value, id: &str) -> &'a Value {
    summary["judge"]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["id"] == id)
        .unwrap_or_else(|| panic!("no finding {id} in {}", summary["judge"]))
}

/// Expects that the run was stopped with this status and this finding in red, said everywhere where one would look.
#[track_caller]
fn caught(home: &Home, ran: Ran, status: &str, id: &str) -> Value {
    let ran = ran.expect_status(3);
    let run = ran.json();
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&status.into(), &id.into()),
        "{run:#}"
    );
    let summary = home.summary();
    let red = finding(&summary, id);
    assert_eq!(red["severity"], "red");
    for part in ["found", "means"] {
        assert!(red[part].as_str().unwrap().len() > 10, "{red}");
    }
    assert!(!red["try"].as_array().unwrap().is_empty(), "{red}");
    assert_eq!(run["judge"], summary["judge"]);
    assert!(
        ran.stderr.contains(red["found"].as_str().unwrap()),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains(&format!("hint: {}", red["try"][0].as_str().unwrap())),
        "{}",
        ran.stderr
    );
    let shown = home
        .tunesmith_for_real()
        .args(["runs", "show", "last", "--json"])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(shown["judge"], summary["judge"]);
    if let Some(report) = run["report"].as_str() {
        let html = fs::read_to_string(report).unwrap();
        assert!(html.contains("What the judge saw"), "{report}");
    }
    summary
}

fn no_adapter(home: &Home) {
    assert_eq!(home.summary()["adapter"], Value::Null);
    assert!(!home.only_run().join("adapter").exists());
}

#[test]
fn faults_of_the_rows_are_caught_before_a_step() {
    for (fault, id) in [
        ("prompt_in_loss", "prompt_in_loss"),
        ("all_masked", "supervised_share"),
        ("pad_masking", "end_token"),
        ("outside_vocabulary", "largest_token"),
    ] {
        let home = Home::new();
        let ran = spoilt(&home, fault, &[]).ran();
        let summary = caught(&home, ran, "invalid", id);
        assert_eq!(summary["training"], Value::Null, "{fault}");
        no_adapter(&home);
        let manifest = fs::read_to_string(home.only_run().join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        assert!(manifest["data"]["report"]["sample"]["parts"].is_array());
    }
}

#[test]
fn a_padding_token_that_is_the_end_token_is_caught_only_where_it_hides_an_end() {
    let home = Home::new();
    let ran = spoilt(&home, "none", &[]).ran().expect_status(0);
    let green = finding(&home.summary(), "end_token").clone();
    assert_eq!(green["severity"], "green");
    assert!(
        green["found"]
            .as_str()
            .unwrap()
            .contains("padding token is an end token"),
        "{green}"
    );
    assert_eq!(ran.json()["status"], "ok");
    let home = Home::new();
    let ran = spoilt(&home, "pad_masking", &[]).ran();
    let summary = caught(&home, ran, "invalid", "end_token");
    let found = finding(&summary, "end_token")["found"].as_str().unwrap();
    assert!(found.contains("the padding token is that very token"), "{found}");
}

/// A template that writes the number of messages at its beginning, so that an answer changes what stood before it.
#[test]
fn a_template_whose_beginning_changes_is_caught_and_kept_as_a_record() {
    let home = Home::new();
    let template = "{{ messages|length }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    fs::write(
        home.path("model/tokenizer_config.json"),
        tiny_model::tokenizer_config(template).to_string(),
    )
    .unwrap();
    let ran = spoilt(&home, "none", &[]).ran();
    caught(&home, ran, "invalid", "template_prefix");
    no_adapter(&home);
}

#[test]
fn faults_of_the_engine_are_caught_at_its_first_steps() {
    for (fault, id) in [
        ("dead_adapter", "dead_adapters"),
        ("gradient_scale", "gradient_scale"),
        ("loss_scale", "first_loss"),
    ] {
        let home = Home::new();
        let ran = spoilt(&home, fault, &["train.accumulation=2", "train.steps=2000"]).ran();
        let summary = caught(&home, ran, "invalid", id);
        let steps = summary["training"]["total_steps"].as_u64().unwrap_or(0);
        assert!(steps < 2000, "{fault}: stopped only after {steps} steps");
        assert_eq!(
            summary["judge"]["last_good_step"].as_u64().unwrap_or(0),
            0,
            "{fault}"
        );
        no_adapter(&home);
    }
}

#[test]
fn a_loss_that_is_no_number_is_caught_and_the_adapter_is_that_of_the_step_before() {
    let home = Home::new();
    let ran = spoilt(&home, "nan", &["train.steps=30"]).ran();
    let summary = caught(&home, ran, "nan", "finite");
    assert_eq!(finding(&summary, "finite")["step"], 11);
    assert_eq!(summary["judge"]["last_good_step"], 10);
    assert_eq!(summary["engine"]["steps"], 10);
    let adapter = |home: &Home| fs::read(home.only_run().join("adapter/adapter_model.safetensors")).unwrap();
    // The same ten steps without the fault end at the same weights.
    let whole = Home::new();
    spoilt(&whole, "none", &["train.steps=10", "optimizer.schedule=constant"])
        .ran()
        .expect_status(0);
    let home = Home::new();
    let ran = spoilt(&home, "nan", &["train.steps=30", "optimizer.schedule=constant"]).ran();
    caught(&home, ran, "nan", "finite");
    assert!(adapter(&home) == adapter(&whole));
}

#[test]
fn a_4_bit_base_that_unpacks_to_no_numbers_is_caught_and_4_bits_are_named() {
    let home = Home::new();
    let ran = spoilt(&home, "nf4_nan", &["model.quantization=nf4", "train.steps=30"]).ran();
    let summary = caught(&home, ran, "nan", "finite");
    let found = finding(&summary, "finite");
    // Spoilt after the passes of step 3, seen by those of step 4.
    assert_eq!(found["step"], 4);
    assert_eq!(summary["judge"]["last_good_step"], 3);
    let first = found["try"][0].as_str().unwrap();
    assert!(first.contains("model.quantization = \"none\""), "{first}");
    // The fault needs a 4-bit base.
    let home = Home::new();
    spoilt(&home, "nf4_nan", &["train.steps=10"])
        .ran()
        .expect_status(0);
}

#[test]
fn steps_without_a_gradient_are_caught_and_the_last_good_checkpoint_is_kept() {
    let home = Home::new();
    let ran = spoilt(&home, "frozen", &["train.steps=3000", "train.checkpoint_every=2"]).ran();
    let summary = caught(&home, ran, "invalid", "gradient_above_zero");
    assert_eq!(finding(&summary, "gradient_above_zero")["step"], 6);
    assert_eq!(summary["judge"]["last_good_step"], 3);
}

#[test]
fn a_training_that_diverges_keeps_the_adapter_of_the_last_good_checkpoint() {
    let home = Home::new();
    let settings = [
        "train.steps=3000",
        "train.checkpoint_every=10",
        "optimizer.schedule=constant",
    ];
    let ran = spoilt(&home, "diverge", &settings).ran();
    let summary = caught(&home, ran, "invalid", "loss_falls");
    let good = summary["judge"]["last_good_step"].as_u64().unwrap();
    assert!((10..15).contains(&good), "{good}");
    assert_eq!(summary["adapter"], "adapter");
    let adapter = |home: &Home| fs::read(home.only_run().join("adapter/adapter_model.safetensors")).unwrap();
    let whole = Home::new();
    spoilt(&whole, "none", &["train.steps=10", "optimizer.schedule=constant"])
        .ran()
        .expect_status(0);
    assert!(
        adapter(&home) == adapter(&whole),
        "the adapter is not that of step 10"
    );
}

#[test]
fn memory_and_time_that_drift_are_caught_and_the_run_can_go_on() {
    let home = Home::new();
    let ran = spoilt(&home, "drift", &["train.steps=400"]).ran();
    let summary = caught(&home, ran, "invalid", "memory");
    assert_eq!(finding(&summary, "step_time")["severity"], "amber");
    // What was learned is good: it is only that it could not go on.
    assert_eq!(summary["adapter"], "adapter");
    // In a new process it can.
    let ran = home
        .tunesmith_for_real()
        .args(["runs", "resume", "last", "--json"])
        .ran()
        .expect_status(0);
    let run = ran.json();
    assert_eq!((&run["status"], &run["total_steps"]), (&"ok".into(), &400.into()));
    assert_eq!(finding(&home.summary(), "memory")["severity"], "green");
}

#[test]
fn slow_steps_are_amber_and_the_run_goes_on() {
    let home = Home::new();
    let ran = spoilt(&home, "slow_steps", &["train.steps=45"])
        .ran()
        .expect_status(0);
    assert_eq!(ran.json()["status"], "ok");
    let summary = home.summary();
    let amber = finding(&summary, "step_time");
    assert_eq!(amber["severity"], "amber");
    let found = amber["found"].as_str().unwrap();
    assert!(
        ran.stderr.contains("amber: step time") && ran.stderr.contains(found),
        "{}",
        ran.stderr
    );
    let report = fs::read_to_string(home.only_run().join("report.html")).unwrap();
    assert!(report.contains("What the judge saw") && report.contains("other programs take its time"));
    let json = fs::read_to_string(home.only_run().join("report.json")).unwrap();
    assert!(json.contains("\"step_time\"") && json.contains("\"amber\""));
}

#[test]
fn a_token_count_that_is_summed_again_is_caught() {
    let home = Home::new();
    let ran = spoilt(&home, "token_sum", &["train.steps=3000"]).ran();
    let summary = caught(&home, ran, "invalid", "token_counts");
    assert_eq!(finding(&summary, "token_counts")["step"], 2);
}

#[test]
fn a_base_that_changed_is_caught_at_the_end() {
    let home = Home::new();
    let ran = spoilt(&home, "base_changed", &["train.steps=12"]).ran();
    caught(&home, ran, "invalid", "base_unchanged");
    no_adapter(&home);
    assert!(home.only_run().join("adapter.rejected").exists());
}

#[test]
fn an_adapter_of_another_base_is_caught_and_one_of_the_same_base_is_trained_further() {
    let first = Home::new();
    let run = spoilt(&first, "none", &["train.steps=10"])
        .ran()
        .expect_status(0)
        .json();
    let start_from = format!("lora.start_from={}", run["adapter"].as_str().unwrap());

    let same = Home::new();
    let ran = spoilt(&same, "none", &["train.steps=3", &start_from])
        .ran()
        .expect_status(0);
    assert_eq!(finding(&same.summary(), "adapter_base")["severity"], "green");
    assert!(
        ran.json()["loss_first"].as_f64().unwrap() < run["loss_first"].as_f64().unwrap(),
        "it begins where the first training began"
    );

    let other = Home::new();
    let file = other.path("model/model.safetensors");
    let mut weights = fs::read(&file).unwrap();
    let last = weights.len() - 1;
    weights[last] ^= 1;
    fs::write(&file, weights).unwrap();
    let ran = spoilt(&other, "none", &["train.steps=3", &start_from]).ran();
    let summary = caught(&other, ran, "invalid", "adapter_base");
    assert_eq!(summary["training"], Value::Null);

    let shape = Home::new();
    let ran = spoilt(&shape, "none", &["lora.rank=8", &start_from])
        .ran()
        .expect_status(1);
    assert!(
        ran.stderr.contains("has rank 4") && ran.stderr.contains("says rank 8"),
        "{}",
        ran.stderr
    );
}
