//! `tunesmith report` in every form, beside somebody else's, and at one's own prices.

use std::fs;

use serde_json::Value;

use crate::context::{GOOD, Home, Ran, RunIt};

fn trained() -> Home {
    let home = Home::new();
    home.tunesmith(GOOD)
        .args(["train", &home.recipe()])
        .ran()
        .expect_status(0);
    home
}

fn report(home: &Home, arguments: &[&str]) -> Ran {
    home.tunesmith(GOOD).arg("report").args(arguments).ran()
}

#[test]
fn each_form_is_written_beside_the_page_or_where_it_is_wanted() {
    let home = trained();
    for (form, file, begins) in [
        ("json", "report.json", &b"{"[..]),
        ("html", "report.html", &b"<!DOCTYPE html>"[..]),
        ("markdown", "report.md", &b"# "[..]),
        ("png", "report.png", &b"\x89PNG"[..]),
    ] {
        let told = report(&home, &["last", "--format", form, "--json"])
            .expect_status(0)
            .json();
        let key = if form == "html" { "report" } else { form };
        assert!(told[key].as_str().unwrap().ends_with(file), "{told}");
        assert!(fs::read(home.only_run().join(file)).unwrap().starts_with(begins));
    }
    // The ending of the file tells the form, and no run named means the last one.
    let card = home.path("card.png");
    report(&home, &["--output", card.to_str().unwrap()]).expect_status(0);
    assert!(fs::read(card).unwrap().starts_with(b"\x89PNG"));
    let post = report(&home, &["last", "--format", "markdown", "--output", "-"]).expect_status(0);
    assert!(post.stdout.contains("## How to repeat it") && post.stdout.contains("tunesmith train"));
}

#[test]
fn two_reports_are_laid_side_by_side_and_an_edited_one_is_named() {
    let home = trained();
    let own = home.only_run().join("report.json");
    let beside = report(&home, &["last", "--compare", own.to_str().unwrap()]).expect_status(0);
    assert!(
        beside
            .stdout
            .contains("| Steady speed, real tokens/s | 200 | 200 | 1.00 |"),
        "{}",
        beside.stdout
    );

    let text = fs::read_to_string(&own).unwrap();
    let edited = text.replacen(
        "\"steady_tokens_per_sec\": 200.0",
        "\"steady_tokens_per_sec\": 900.0",
        1,
    );
    assert_ne!(text, edited);
    fs::write(home.path("theirs.json"), edited).unwrap();
    let theirs = home.path("theirs.json");
    let told = report(&home, &["last", "--compare", theirs.to_str().unwrap(), "--json"])
        .expect_status(0)
        .json();
    let reasons = told["beside"]["not_comparable"].as_array().unwrap();
    assert!(
        reasons.iter().any(|reason| reason["why"]
            .as_str()
            .unwrap()
            .contains("was edited after it was written")),
        "{reasons:?}"
    );
    assert_eq!(told["beside"]["figures"][0]["ratio"], Value::Null);

    fs::write(home.path("no.json"), "{}").unwrap();
    let none = home.path("no.json");
    let refused = report(&home, &["last", "--compare", none.to_str().unwrap(), "--json"]).expect_status(1);
    assert_eq!(refused.json()["error"]["code"], "not_a_report");
}

#[test]
fn prices_are_kept_and_what_no_sensor_told_stays_unknown() {
    let home = trained();
    let arguments = [
        "last",
        "--card-price",
        "1000",
        "--card-hours",
        "10000",
        "--currency",
        "EUR",
        "--keep-prices",
        "--format",
        "json",
    ];
    report(&home, &arguments).expect_status(0);
    let cost = |home: &Home| {
        let text = fs::read_to_string(home.only_run().join("report.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["cost"].clone()
    };
    assert_eq!(
        cost(&home)["tokens_per_sec_per_hundred"],
        20.0,
        "200 tokens/s for 1000"
    );
    assert_eq!(cost(&home)["watt_hours"], Value::Null);
    // They hold from now on.
    report(&home, &["last"]).expect_status(0);
    assert_eq!(cost(&home)["tokens_per_sec_per_hundred"], 20.0);
    report(&home, &["last", "--tariff", "0"]).expect_status(2);
}

#[test]
fn a_device_that_was_not_measured_has_no_report_and_the_way_to_one_is_told() {
    let home = Home::new();
    let refused = report(&home, &["--calibration", "--device", "cpu"]).expect_status(1);
    assert!(
        refused.stderr.contains("no calibration") && refused.stderr.contains("tunesmith calibrate"),
        "{}",
        refused.stderr
    );
}
