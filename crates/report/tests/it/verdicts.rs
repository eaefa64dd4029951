//! The one sentence and the badge: they say what is true, first of all what went wrong.

use tunesmith_measure::cost::{EnergyRead, Prices};
use tunesmith_measure::judge::{Judgement, Severity};
use tunesmith_protocol::{Contention, RunStatus};
use tunesmith_report::{EvaluationResult, Report, State, Telemetry, Verdict};

use crate::support::{
    assert_self_contained, compared, evaluation, experiment, experiment_of, html, input, judgement, measured,
    steps, summary, trained,
};

#[test]
fn the_sentence_says_what_was_learned() {
    let report = Report::new(input());
    assert_eq!(report.headline.verdict, Verdict::Ok);
    assert_eq!(
        report.headline.sentence,
        "SmolLM2-135M learned text-to-SQL here: 12.0 → 41.0 points of execution match in 51.0 s"
    );
    let gain = report.gain.unwrap();
    assert!((gain.gain_points - 29.0).abs() < 1e-9 && gain.beyond_noise);
    assert_eq!((gain.fixed, gain.broken), (Some(29), Some(0)));
    assert_eq!(report.validity.verdict, Verdict::Ok);
}

#[test]
fn a_gain_inside_the_noise_is_called_chance() {
    let report = Report::new(trained(|run| run.after = Some(evaluation(16, 100))));
    assert_eq!(report.headline.verdict, Verdict::Note);
    assert!(
        report.headline.sentence.starts_with("No change beyond chance"),
        "{}",
        report.headline.sentence
    );
    assert!(
        report.headline.details[0].contains("7.2 points"),
        "{:?}",
        report.headline.details
    );
}

#[test]
fn a_loss_of_points_is_not_sold_as_learning() {
    let report = Report::new(trained(|run| {
        (run.before, run.after) = (Some(evaluation(41, 100)), Some(evaluation(12, 100)));
    }));
    assert_eq!(report.headline.verdict, Verdict::Warn);
    assert!(report.headline.sentence.contains("got worse"));
}

#[test]
fn scores_under_different_rules_are_not_compared() {
    let other = EvaluationResult {
        extraction_rule: "the last line".into(),
        ..evaluation(41, 100)
    };
    let report = Report::new(trained(|run| run.after = Some(other)));
    assert_eq!(
        (report.gain.clone(), report.headline.verdict),
        (None, Verdict::Unknown)
    );
    assert!(report.to_html().unwrap().contains("not laid side by side"));
}

#[test]
fn a_run_that_learned_nothing_never_reads_like_a_success() {
    let mut dead = steps(24);
    for step in &mut dead {
        step.grad_norm = Some(0.0);
    }
    let report = Report::new(trained(|run| run.summary = summary(&dead)));
    assert_eq!(
        (report.headline.verdict, report.validity.verdict),
        (Verdict::Stop, Verdict::Stop)
    );
    assert!(report.headline.sentence.contains("learned nothing"));
}

#[test]
fn a_failed_run_renders_with_its_reason() {
    for (status, word) in [
        (RunStatus::Oom, "ran out of memory after 24 steps"),
        (RunStatus::Nan, "no longer finite"),
        (RunStatus::Invalid, "stopped as invalid"),
        (RunStatus::TimeBoxed, "time box"),
        (RunStatus::Cancelled, "stopped by hand"),
        (RunStatus::Crashed, "engine failed"),
        (RunStatus::Interrupted, "has no end"),
    ] {
        let reason = Some("the device had 3.9 GiB free and the step needed 5.1 GiB".to_owned());
        let report = Report::new(trained(|run| (run.status, run.reason) = (status, reason)));
        assert!(
            report.headline.sentence.contains(word),
            "{}",
            report.headline.sentence
        );
        assert!(matches!(report.headline.verdict, Verdict::Stop | Verdict::Warn));
        assert_ne!(report.validity.verdict, Verdict::Ok);
        let html = report.to_html().unwrap();
        assert!(html.contains("needed 5.1 GiB"));
        assert!(!html.contains("learned text-to-SQL here"));
    }
}

#[test]
fn the_judge_is_calm_when_all_is_green_and_explains_itself_when_not() {
    let calm = html(input());
    assert!(calm.contains("What the judge saw") && calm.contains("Two checks were made, and all are green"));
    assert!(
        !calm.contains("Close other programs"),
        "a green check needs no advice"
    );
    assert!(
        calm.contains("base of the adapter"),
        "what was not checked is named"
    );

    let report = Report::new(trained(|run| run.judge = judgement(Severity::Amber)));
    assert_eq!(report.validity.verdict, Verdict::Warn);
    assert!(
        report.validity.details[0].contains("1.62 times"),
        "{:?}",
        report.validity.details
    );
    let amber = report.to_html().unwrap();
    for part in ["1.62 times", "gets &lt;too&gt; hot", "Close other programs"] {
        assert!(amber.contains(part), "{part}");
    }
    assert_self_contained(&amber);

    let report = Report::new(trained(|run| {
        (run.judge, run.status) = (judgement(Severity::Red), RunStatus::Invalid);
    }));
    assert_eq!(
        (report.headline.verdict, report.validity.verdict),
        (Verdict::Stop, Verdict::Stop)
    );

    let old = html(trained(|run| run.judge = Judgement::default()));
    assert!(old.contains("No check was made"), "unknown looks unknown");
}

#[test]
fn an_experiment_opens_with_what_it_found_and_how_sure_that_is() {
    let report = Report::new(compared(experiment()));
    assert_eq!(
        report.headline.sentence,
        "nf4 is 4.9 % slower here than f32 and takes 0.80 GiB less"
    );
    assert!(
        report.headline.details[0].contains("p = 0.041"),
        "{:?}",
        report.headline.details
    );
    assert_eq!(
        (report.headline.verdict, report.validity.verdict),
        (Verdict::Ok, Verdict::Ok)
    );
    assert!(report.headline.details[2].starts_with("Pass criterion, written before"));
    assert!(report.validity.sentence.contains("6 of 6 runs"));

    let noise = experiment_of(&[
        ("a", &[100.0, 101.0, 102.0], 2.0, &[]),
        ("b", &[100.5, 101.5, 101.0], 2.0, &[]),
    ]);
    let report = Report::new(compared(noise));
    assert_eq!(report.headline.verdict, Verdict::Note);
    assert!(
        report.headline.sentence.contains("within noise"),
        "{}",
        report.headline.sentence
    );

    let once = experiment_of(&[("a", &[100.0], 2.0, &[]), ("b", &[150.0], 2.0, &[])]);
    let report = Report::new(compared(once));
    assert_eq!(
        (report.headline.verdict, report.validity.verdict),
        (Verdict::Unknown, Verdict::Note)
    );
}

#[test]
fn a_run_that_failed_is_a_record_and_takes_the_badge() {
    let mut broken = experiment();
    broken.runs[5].counts = false;
    broken.runs[5].status = "oom".into();
    broken.runs[5].reason = Some("the device had 3.9 GiB free".into());
    let report = Report::new(compared(broken));
    assert_eq!(report.validity.verdict, Verdict::Warn);
    assert!(report.validity.details[0].contains("nf4, seed 7: oom: the device had 3.9 GiB free"));
    let page = report.to_html().unwrap();
    assert!(page.contains("does not count") && page.contains("ended as oom"));
}

#[test]
fn a_calibration_opens_with_the_peak_and_never_hides_wrong_values() {
    let report = Report::new(measured());
    assert_eq!(
        report.headline.sentence,
        "Some processor does 0.140 TFLOPS in f32"
    );
    assert_eq!(report.validity.verdict, Verdict::Ok);
    let mut wrong = measured();
    wrong.calibration.as_mut().unwrap().gemm[0].values.passed = false;
    let report = Report::new(wrong);
    assert_eq!(
        (report.headline.verdict, report.validity.verdict),
        (Verdict::Unknown, Verdict::Stop)
    );
    assert!(report.scorecard.iter().any(|score| score.state == State::Fails));
}

#[test]
fn what_no_sensor_told_and_nobody_stated_is_unknown() {
    let page = html(input());
    assert!(page.contains("Not measured: no sensor told power or energy"));
    let read = Report::new(tunesmith_report::ReportInput {
        telemetry: Some(Telemetry {
            energy: Some(EnergyRead {
                watt_hours: 300.0 * 51.0 / 3600.0,
                covered_secs: 51.0,
            }),
            points: vec![],
        }),
        prices: Prices {
            currency: "EUR".into(),
            per_kwh: Some(0.3),
            ..Prices::default()
        },
        ..input()
    });
    let cost = read.cost.unwrap();
    assert!((cost.mean_watts.unwrap() - 300.0).abs() < 1e-9 && cost.energy_price.is_some());
    let page = read.to_html().unwrap();
    assert!(page.contains("The card took 300 W on average") && page.contains("give --card-price"));
}

#[test]
fn every_line_of_the_scorecard_names_the_record_that_it_comes_from() {
    let report = Report::new(input());
    let line = |what: &str| report.scorecard.iter().find(|score| score.what == what).unwrap();
    assert_eq!(line("Matrix products in f32").state, State::Works);
    assert_eq!(
        line("Matrix products in bf16").state,
        State::Workaround,
        "emulated"
    );
    assert_eq!(line("Matrix products in f16").state, State::NotTested);
    assert_eq!(line("Training of an adapter").state, State::Works);
    assert_eq!(line("Training on a 4-bit base").state, State::NotUsed);
    assert_eq!(
        line("Set-up of the machine").state,
        State::NotTested,
        "nobody asked the doctor"
    );
    assert!(report.scorecard.iter().all(|score| !score.seen.is_empty()));
}

#[test]
fn a_run_that_was_disturbed_says_so_on_its_badge() {
    let disturbed = Some("other programs kept 1.5 cores busy during this stage".to_owned());
    let report = Report::new(trained(|run| run.disturbed = disturbed));
    assert_eq!(report.validity.verdict, Verdict::Warn);
    assert_eq!(
        report.validity.details[0],
        "Other programs kept 1.5 cores busy during this stage"
    );

    let mut calibrated_badly = input();
    calibrated_badly.calibration.as_mut().unwrap().contention = Some(Contention {
        disturbed: Some(true),
        others: vec!["ollama".into()],
        ..Contention::default()
    });
    let report = Report::new(calibrated_badly);
    assert_eq!(report.validity.verdict, Verdict::Note);
    assert!(
        report.validity.details[0].contains("peak may be too low"),
        "{:?}",
        report.validity
    );
}
