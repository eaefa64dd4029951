//! Two reports beside each other.

use serde_json::json;
use tunesmith_measure::judge::Severity;
use tunesmith_protocol::{DType, RunStatus};
use tunesmith_report::{Integrity, Report, ReportInput, SideBySide, TrainingRecord, comparable};

use crate::support::{compared, evaluation, experiment, input, judgement, measured, trained};

/// A report whose manifest says what is needed to compare it.
fn whole() -> ReportInput {
    ReportInput {
        manifest: json!({
            "device": {"backend": "cpu"},
            "software": {"torch": "2.11.0"},
            "model": {"name": "SmolLM2", "fingerprint": "aa"},
            "data": {"rows_sha256": "bb", "test_sha256": "cc"},
        }),
        ..trained(|run| {
            run.recipe.toml = "name = \"a\"\n[train]\nsteps = 24\nmicro_batch = 4\n".into();
        })
    }
}

#[test]
fn runs_of_one_experiment_may_be_compared_whatever_they_are_called() {
    let mut other = whole();
    let recipe = &mut other.training.as_mut().unwrap().recipe;
    recipe.toml = recipe.toml.replace("\"a\"", "\"b\"");
    other.manifest["run"] = json!({"id": "another"});
    assert_eq!(comparable(&Report::new(whole()), &Report::new(other)), []);
}

#[test]
fn each_difference_is_named_with_the_figures_that_it_concerns() {
    let first = Report::new(whole());
    let against_input = |change: &dyn Fn(&mut ReportInput)| {
        let mut other = whole();
        change(&mut other);
        let found = comparable(&first, &Report::new(other));
        let found: Vec<String> = found
            .into_iter()
            .map(|found| format!("{}: {}", found.figures, found.why))
            .collect();
        found.join("\n")
    };
    let against = |change: &dyn Fn(&mut TrainingRecord)| {
        against_input(&|input| change(input.training.as_mut().unwrap()))
    };
    let recipe = against(&|run| run.recipe.toml = run.recipe.toml.replace("= 4", "= 8"));
    assert_eq!(
        recipe,
        "Speed, memory, loss and scores: another recipe: train.micro_batch is 4 and 8"
    );
    let device = against_input(&|run| run.manifest["device"]["backend"] = json!("hip"));
    assert!(device.contains("another kind of device: cpu and hip"), "{device}");
    let rows = against_input(&|run| run.manifest["data"]["rows_sha256"] = json!("dd"));
    assert_eq!(rows, "Speed, loss and scores: other training rows");
    let silent = against_input(&|run| run.manifest = json!({}));
    assert!(
        silent.contains("All figures: the second does not say which model it had"),
        "{silent}"
    );
    let asked = against(&|run| run.after = Some(evaluation(10, 50)));
    assert!(
        asked.contains("Scores: the two evaluations asked a different number"),
        "{asked}"
    );
    let failed = against(&|run| run.status = RunStatus::Oom);
    assert_eq!(failed, "Loss and scores: the second ended as oom after 24 steps");
    let red = against(&|run| run.judge = judgement(Severity::Red));
    assert!(
        red.contains("All figures: the second cannot be believed"),
        "{red}"
    );
    let peakless = against(&|run| run.summary.mfu = None);
    assert!(
        peakless.contains("MFU: no peak was measured for the second"),
        "{peakless}"
    );
    let format = against_input(&|run| run.dtype = DType::Bf16);
    assert!(format.contains("computed in f32 and in bf16"), "{format}");
}

#[test]
fn another_rule_of_counting_is_a_reason_of_its_own() {
    let first = Report::new(whole());
    let mut second = Report::new(whole());
    second.record.program_version = "0.9.0".into();
    second.counting_rules[1].text.push_str(" And so on.");
    let found = comparable(&first, &second);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].figures, "Steady speed");
    assert!(found[0].why.contains("0.9.0"), "{}", found[0].why);
}

#[test]
fn reports_of_different_things_are_never_compared() {
    let training = Report::new(input());
    let found = comparable(&training, &Report::new(measured()));
    assert!(found.iter().any(|reason| {
        reason
            .why
            .contains("of a training and the second of a calibration")
    }));
    let one = Report::new(compared(experiment()));
    assert_eq!(comparable(&one, &one.clone()), []);
    let mut other = experiment();
    other.config_hash = "0".repeat(64);
    let found = comparable(&one, &Report::new(compared(other)));
    assert!(found[0].why.starts_with("another experiment"), "{found:?}");
    let mut shorter = experiment();
    shorter.compared_steps = Some(8);
    let found = comparable(&one, &Report::new(compared(shorter)));
    assert!(
        found[0]
            .why
            .contains("20 timed steps in the first and 8 in the second"),
        "{found:?}"
    );
}

#[test]
fn peaks_of_other_products_are_not_compared() {
    let one = Report::new(measured());
    let mut other = measured();
    for gemm in &mut other.calibration.as_mut().unwrap().gemm {
        gemm.side = 4096;
    }
    let found = comparable(&one, &Report::new(other));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].figures, "Measured peak");
    assert_eq!(comparable(&one, &one.clone()), []);
}

#[test]
fn an_edited_report_is_compared_with_nothing() {
    let first = Report::new(whole());
    let second = Report {
        integrity: Integrity::Edited,
        ..first.clone()
    };
    let found = comparable(&first, &second);
    assert!(found[0].why.contains("the second was edited"), "{found:?}");
}

#[test]
fn side_by_side_gives_ratios_only_where_they_may_be_formed() {
    let first = Report::new(whole());
    let mut other = whole();
    let faster = other.training.as_mut().unwrap();
    faster.summary.steady_tokens_per_sec = Some(300.0);
    let sides = SideBySide::of(&first, &Report::new(other));
    let speed = &sides.figures[0];
    assert_eq!(
        (speed.name.as_str(), speed.ratio, speed.comparable),
        ("Steady speed", Some(2.0), true)
    );
    assert!(sides.to_markdown().contains("All figures may be compared"));

    let mut other = whole();
    other.manifest["device"]["backend"] = json!("hip");
    let sides = SideBySide::of(&first, &Report::new(other));
    assert_eq!(
        (sides.figures[0].ratio, sides.figures[0].comparable),
        (None, false)
    );
    let text = sides.to_markdown();
    assert!(
        text.contains("not comparable") && text.contains("another kind of device: cpu and hip"),
        "{text}"
    );
}
