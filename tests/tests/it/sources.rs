//! Models from a hub and data sets in every form, through the command line.

use std::{fs, process::Command};

use serde_json::{Value, json};
use tunesmith_protocol::{RunStatus, TaskWork};

use crate::{
    context::{GOOD, Home, RunIt},
    hub::{COMMIT, MODEL, TestHub},
    serving::Window,
};

/// The command line with a hub and a cache of the test's own.
fn with_hub(home: &Home, hub: &TestHub) -> Command {
    let mut command = home.tunesmith(GOOD);
    command
        .env("HF_HOME", home.path("hugging-face"))
        .env("HF_ENDPOINT", &hub.endpoint)
        .env_remove("HF_TOKEN")
        .env("NO_PROXY", "127.0.0.1");
    command
}

fn manifest(home: &Home) -> Value {
    serde_json::from_str(&fs::read_to_string(home.only_run().join("manifest.json")).unwrap()).unwrap()
}

#[test]
fn a_model_is_fetched_after_a_yes_and_told_with_size_licence_and_commit() {
    let home = Home::new();
    let hub = TestHub::of(&home.path("model"));
    let refused = with_hub(&home, &hub)
        .args(["models", "fetch", MODEL, "--json"])
        .ran()
        .expect_status(1);
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "consent_needed");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("licence apache-2.0") && message.contains("KiB to fetch"),
        "{message}"
    );
    assert_eq!(
        hub.requests().len(),
        1,
        "nothing but the description was asked for"
    );

    let fetched = with_hub(&home, &hub)
        .args(["models", "fetch", MODEL, "--yes", "--json"])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(fetched["id"], format!("{MODEL}@{COMMIT}"));
    assert_eq!(fetched["licence"], "apache-2.0");
    assert_eq!(fetched["total_bytes"], fetched["fetched_bytes"]);
    let listed = with_hub(&home, &hub)
        .args(["models", "list", "--json"])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(listed["models"][0]["id"], format!("{MODEL}@{COMMIT}"));
    assert_eq!(listed["models"][0]["missing"], json!([]));
    let text = with_hub(&home, &hub)
        .args(["models", "list"])
        .ran()
        .expect_status(0);
    assert!(text.stdout.contains(COMMIT), "{}", text.stdout);
}

#[test]
fn a_window_has_a_model_fetched_and_hears_how_far_it_is() {
    let home = Home::new();
    let hub = TestHub::of(&home.path("model"));
    let fetch = |model: &str| TaskWork::Fetch {
        model: model.to_owned(),
    };
    let mut window = Window::on(&mut with_hub(&home, &hub));
    let told = window.led(1, fetch(MODEL));
    assert_eq!(told.status(), RunStatus::Ok);
    assert_eq!(told.result()["model"], format!("{MODEL}@{COMMIT}"));
    assert!(fs::metadata(told.result()["path"].as_str().unwrap()).is_ok());
    assert!(told.log().contains("licence apache-2.0"), "{}", told.log());
    let progress = told.progress();
    let far = progress.last().expect("a download says how far it is");
    assert_eq!((far.stage.as_str(), far.done), ("fetch", far.total));

    let missing = window.led(2, fetch("maker/other"));
    assert_eq!(missing.failure().code, "hub_no_model");
    let no_name = window.led(3, fetch("a name of no form"));
    assert!(!no_name.failure().hints.is_empty(), "{:?}", no_name.failure());
    // The service goes on after both.
    assert_eq!(window.led(4, fetch(MODEL)).status(), RunStatus::Ok);
}

#[test]
fn a_run_on_a_model_of_a_hub_records_its_exact_commit_and_needs_no_network_later() {
    let home = Home::new();
    let hub = TestHub::of(&home.path("model"));
    let recipe = home.recipe();
    let train = |hub: &TestHub, source: &str, more: &[&str]| {
        with_hub(&home, hub)
            .args([
                "train",
                &recipe,
                "--json",
                "--set",
                &format!("model.source={source}"),
            ])
            .args(more)
            .ran()
    };
    let refused = train(&hub, MODEL, &[]).expect_status(1);
    assert_eq!(refused.json()["error"]["code"], "consent_needed");
    assert!(!home.runs().exists(), "no run should have been made");

    train(&hub, MODEL, &["--yes"]).expect_status(0);
    let record = manifest(&home);
    assert_eq!(record["model"]["name"], MODEL);
    assert_eq!(record["model"]["source"], format!("{MODEL}@{COMMIT}"));
    let kept = fs::read_to_string(home.only_run().join("recipe.toml")).unwrap();
    assert!(kept.contains(&format!("source = \"{MODEL}@{COMMIT}\"")), "{kept}");
    assert!(!kept.contains("hugging-face"), "{kept}");

    // The exact commit is here: nobody is asked.
    hub.requests();
    fs::remove_dir_all(home.runs()).unwrap();
    train(&hub, &format!("{MODEL}@{COMMIT}"), &[]).expect_status(0);
    assert_eq!(hub.requests(), [""; 0]);
    // A branch whose hub is not reached means what it meant last time.
    let nobody = TestHub::gone();
    fs::remove_dir_all(home.runs()).unwrap();
    let ran = train(&nobody, MODEL, &[]).expect_status(0);
    assert!(
        ran.stderr.contains("the copy on this machine is used"),
        "{}",
        ran.stderr
    );
    let missing = train(&nobody, "maker/other", &[]).expect_status(1);
    assert_eq!(missing.json()["error"]["code"], "hub_not_reached");
}

#[test]
fn offline_names_what_is_missing_and_where() {
    let home = Home::new();
    let hub = TestHub::of(&home.path("model"));
    let ran = with_hub(&home, &hub)
        .env("HF_HUB_OFFLINE", "1")
        .args([
            "train",
            &home.recipe(),
            "--json",
            "--set",
            &format!("model.source={MODEL}"),
        ])
        .ran()
        .expect_status(1);
    let error = &ran.json()["error"];
    assert_eq!(error["code"], "model_not_here");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the commit of main missing in"), "{message}");
    assert!(message.contains("hugging-face"), "{message}");
    assert_eq!(hub.requests(), [""; 0]);
}

#[test]
fn a_proxy_of_the_environment_is_used_unless_the_host_needs_none() {
    let home = Home::new();
    let proxy = TestHub::of(&home.path("model"));
    let fetch = |endpoint: &str, no_proxy: &str| {
        with_hub(&home, &proxy)
            .env("HF_ENDPOINT", endpoint)
            .env("HTTP_PROXY", &proxy.endpoint)
            .env("HF_TOKEN", "hf_secret")
            .env("NO_PROXY", no_proxy)
            .args(["models", "fetch", MODEL, "--yes", "--json"])
            .ran()
    };
    fetch("http://hub.invalid", "").expect_status(0);
    let requests = proxy.requests();
    assert!(
        requests.iter().any(|request| request.contains("hub.invalid")),
        "{requests:?}"
    );
    let refused = fetch("http://hub.invalid", "hub.invalid").expect_status(1);
    assert_eq!(refused.json()["error"]["code"], "hub_not_reached");
    assert!(!refused.stdout.contains("hf_secret") && !refused.stderr.contains("hf_secret"));
    assert_eq!(proxy.requests(), [""; 0]);
}

#[test]
fn a_wrong_source_says_what_an_id_looks_like() {
    let home = Home::new();
    for (source, code) in [("maker/ti ny", "hub_id"), ("smollm3", "recipe_value")] {
        let ran = home
            .tunesmith(GOOD)
            .args([
                "train",
                &home.recipe(),
                "--json",
                "--set",
                &format!("model.source={source}"),
            ])
            .ran()
            .expect_status(1);
        let error = &ran.json()["error"];
        assert_eq!(error["code"], code);
        assert!(error["hints"].to_string().contains("owner/name"), "{error}");
    }
}

const CSV: &str =
    "question,draft,final\nHow much is one?,1,one\nHow much is two?,2,two\nHow much is three?,3,three\n";

#[test]
fn data_show_tells_form_columns_and_examples() {
    let home = Home::new();
    fs::write(home.path("rows.csv"), CSV).unwrap();
    let path = home.path("rows.csv");
    let path = path.to_str().unwrap();
    let error = home
        .tunesmith(GOOD)
        .args(["data", "show", path, "--json"])
        .ran()
        .expect_status(1)
        .json();
    assert_eq!(error["error"]["code"], "missing_column");
    let shown = home
        .tunesmith(GOOD)
        .args(["data", "show", path, "--column", "completion=final", "--json"])
        .ran()
        .expect_status(0)
        .json();
    assert_eq!(
        (shown["format"].as_str(), shown["rows"].as_u64()),
        (Some("csv"), Some(3))
    );
    assert_eq!(
        shown["uses"][0]["columns"],
        json!({"prompt": "question", "completion": "final"})
    );
    assert_eq!(
        shown["columns"][1],
        json!({"name": "draft", "kinds": ["text"], "filled": 3})
    );
    assert_eq!(shown["examples"][0]["messages"][1]["content"], "one");
    let text = home
        .tunesmith(GOOD)
        .args(["data", "show", path, "--column", "completion=final"])
        .ran()
        .expect_status(0)
        .stdout;
    assert!(text.contains("rows.csv: CSV, 3 conversations"), "{text}");
    assert!(text.contains("final     completion"), "{text}");
    let usage = home
        .tunesmith(GOOD)
        .args(["data", "show", path, "--column", "answer=final"])
        .ran()
        .expect_status(2);
    assert!(
        usage.stderr.contains("messages, prompt, input, completion"),
        "{}",
        usage.stderr
    );
}

#[test]
fn a_training_records_which_columns_it_used() {
    let home = Home::new();
    fs::write(home.path("rows.csv"), CSV).unwrap();
    home.tunesmith(GOOD)
        .args(["train", &home.recipe(), "--json", "--set"])
        .arg(format!("data.path={}", home.path("rows.csv").display()))
        .args(["--set", "data.columns.completion=final"])
        .ran()
        .expect_status(0);
    let record = manifest(&home);
    assert_eq!(
        record["data"]["reading"],
        json!({"format": "csv", "uses": [{"columns": {"prompt": "question", "completion": "final"}, "rows": 3}]})
    );
    let kept = fs::read_to_string(home.only_run().join("recipe.toml")).unwrap();
    assert!(kept.contains("[data.columns]\ncompletion = \"final\""), "{kept}");
    let wrong = home
        .tunesmith(GOOD)
        .args([
            "train",
            &home.recipe(),
            "--json",
            "--set",
            "data.columns.completon=final",
        ])
        .ran()
        .expect_status(1)
        .json();
    assert!(
        wrong["error"]["hints"].to_string().contains("completion"),
        "{wrong}"
    );
}

#[test]
fn running_text_is_trained_too() {
    let home = Home::new();
    let text = "# Notes\n\nA paragraph that is neither long nor short, but long enough.\n\n".repeat(12);
    fs::write(home.path("notes.md"), text).unwrap();
    home.tunesmith(GOOD)
        .args(["train", &home.recipe(), "--json", "--set"])
        .arg(format!("data.path={}", home.path("notes.md").display()))
        .ran()
        .expect_status(0);
    let record = manifest(&home);
    assert_eq!(
        record["data"]["reading"],
        json!({"format": "markdown", "uses": []})
    );
    let report = &record["data"]["report"];
    let tokens = |key: &str| report[key].as_u64().unwrap();
    assert_eq!(
        tokens("supervised_tokens"),
        tokens("real_tokens") - tokens("rows")
    );
    assert!(tokens("longest") <= 256 && tokens("rows") > 2, "{report}");
}
