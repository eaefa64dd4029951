//! The page: it opens anywhere, shows every part, and nobody's text can do harm in it.

use serde_json::{Value, json};
use tunesmith_protocol::RunStatus;
use tunesmith_report::{EngineRecord, RecipeRecord, Report, ReportInput, Verdict};

use crate::support::{
    assert_self_contained, compared, experiment, experiment_of, html, input, ladder, measured, steps,
    summary, trained,
};

#[test]
fn key_figures_and_every_section_are_there() {
    let html = html(input());
    for text in [
        "150<span class=\"unit\"> tokens",
        "155 with padding",
        "1.50<span class=\"unit\"> GiB",
        "spec sheet unknown",
        "24 of 24",
        "Answers before and after",
        "Training fixed 29 answers and broke 0; 59 stayed wrong and 12 stayed right",
        "emulated",
        "How the numbers were counted",
        "Comparisons that these numbers do not allow",
        "its speed says nothing about any graphics card",
        "tunesmith train sql --device cpu",
        "Energy and cost",
        "Scorecard",
        "Published figures",
        "Failures",
        "the first fenced block, else the whole answer",
        "Nothing was taken out of this report",
        "2026-11-30 10:11 UTC",
        "Glossary",
    ] {
        assert!(html.contains(text), "missing: {text}");
    }
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let html = html(input());
    assert_self_contained(&html);
    assert!(!html.contains("http://") && !html.contains("https://"));
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn hostile_text_stays_text() {
    let attack = "<script>alert(1)</script><img src=x onerror=\"alert(2)\">\"'&";
    let mut hostile = input();
    let run = hostile.training.as_mut().unwrap();
    run.recipe = RecipeRecord {
        name: attack.into(),
        title: attack.into(),
        toml: attack.into(),
    };
    (run.model, run.task, run.id, run.config_hash) =
        (attack.into(), attack.into(), attack.into(), attack.into());
    (run.reason, run.status) = (Some(attack.into()), RunStatus::Crashed);
    run.remedies = vec![attack.into()];
    run.summary.findings.push(attack.into());
    for result in [&mut run.before, &mut run.after] {
        let result = result.as_mut().unwrap();
        result.extraction_rule = attack.into();
        result.by_category[0].category = attack.into();
        for answer in &mut result.answers {
            answer.category = attack.into();
            answer.question = attack.into();
            answer.schema_text = attack.into();
            answer.gold = attack.into();
            answer.answer = attack.into();
            answer.sql = Some(format!("{attack};"));
        }
    }
    (hostile.date, hostile.program_version) = (attack.into(), attack.into());
    (hostile.device.name, hostile.repeat) = (attack.into(), Some(attack.into()));
    hostile.manifest = json!({ attack: {attack: [attack, {attack: attack}]}, "plain": attack });
    hostile.redactions = vec![attack.into()];
    hostile.engine = EngineRecord {
        name: attack.into(),
        version: attack.into(),
    };
    hostile.calibration.as_mut().unwrap().device = attack.into();
    let html = html(hostile);
    assert_self_contained(&html.replace("onerror=&quot;", "").replace(" src=x ", ""));
    assert!(html.contains("&lt;script&gt;alert(1)"));
    assert!(!html.contains("<script") && !html.contains("<img"));
}

#[test]
fn empty_one_step_and_broken_runs_render() {
    let mut broken = steps(6);
    broken[1].loss = Some(f64::NAN);
    broken[2].grad_norm = Some(f64::INFINITY);
    broken[3].peak_bytes = None;
    (broken[4].lr, broken[4].dt_secs) = (f64::NAN, f64::NAN);
    broken[5].elapsed_secs = f64::INFINITY;
    for steps in [vec![], steps(1), broken] {
        let bare = ReportInput {
            calibration: None,
            manifest: Value::Null,
            ..trained(|run| {
                run.summary = summary(&steps);
                (run.before, run.after, run.peak_process_bytes) = (None, None, None);
            })
        };
        let html = html(bare);
        assert!(
            !html.contains("NaN") && !html.contains(">inf"),
            "a number that is none reached the page"
        );
        assert!(html.contains("No evaluation was made"));
        assert!(html.contains("was not calibrated"));
        assert_self_contained(&html);
    }
    let empty = Report::new(trained(|run| run.summary = summary(&[])));
    assert_eq!(
        (empty.headline.verdict, empty.validity.verdict),
        (Verdict::Stop, Verdict::Unknown)
    );
}

#[test]
fn invalid_steps_are_marked_in_every_chart_and_listed() {
    let mut one_bad = steps(24);
    one_bad[11].grad_norm = Some(0.0);
    let report = Report::new(trained(|run| run.summary = summary(&one_bad)));
    assert_eq!(report.validity.verdict, Verdict::Warn);
    let html = report.to_html().unwrap();
    assert_eq!(
        html.matches("step 12 does not count: the gradient norm is zero")
            .count(),
        6
    );
    assert!(html.contains("Step 12: the gradient norm is zero"));
}

#[test]
fn a_preview_has_the_words_of_the_page() {
    let report = Report::new(input());
    let preview = report.preview();
    let page = report.to_html().unwrap().replace("&#x2f;", "/");
    assert_eq!(preview.figures.len(), 5);
    for figure in &preview.figures {
        assert!(
            page.contains(&figure.value) && page.contains(&figure.label),
            "{figure:?}"
        );
    }
    assert!(preview.sentences.len() == 3 && preview.examples_sentence.starts_with("Training fixed 29"));
    assert_eq!(preview.examples[0].heading, "Fixed");
    assert_eq!(
        preview.surroundings[1].rows,
        [["os".to_owned(), "linux".to_owned()]]
    );
}

#[test]
fn an_experiments_page_has_every_table_and_drawing() {
    let page = html(compared(experiment()));
    for text in [
        "f32 or 4-bit?",
        "class=\"chart spread\"",
        "class=\"chart pareto\"",
        "class=\"chart overlay\"",
        "point hollow",
        "129 ± 2.6",
        "Welch&#x27;s test",
        "2.35",
        "0.041",
        "McNemar p",
        "Prediction, miss",
        "Pass criterion, passed",
        "model.quantization",
        "Tunesmith&#x27;s own tensor path",
        "Order of the arms: A A A B B B",
        "the worst prediction was 4.0 % off",
    ] {
        assert!(page.contains(text), "missing: {text}");
    }
    assert_self_contained(&page);
    assert!(!page.contains("NaN"));
}

#[test]
fn where_the_time_goes_is_a_waterfall_with_its_table_and_what_stands_beside() {
    let record = ladder();
    let gap = &record.ladder.as_ref().unwrap().gap;
    let page = html(compared(record.clone()));
    for text in [
        "Where the time goes",
        "Of the 0.140 TFLOPS that large matrix products in f32 reach here",
        "class=\"chart waterfall\"",
        "0.0400 ± 0.0020",
        "train.recompute: none → layer",
        "the whole gap",
        "20.0 ± 0.50 tokens a second over 3 runs",
        "of what copies within the memory reach",
        "Reinforcement learning (GRPO): this engine has no such training",
        "Useful speed, TFLOPS",
    ] {
        assert!(page.contains(text), "missing: {text}");
    }
    assert_eq!(page.matches("class=\"lost\"").count(), gap.steps.len());
    assert!(!page.contains("NaN"));
    assert_self_contained(&page);
    // Where nobody asked, useful work is not shown: it is MFU without a peak.
    assert!(!html(compared(experiment())).contains("Useful speed"));

    let report = Report::new(compared(record));
    assert!(
        report
            .headline
            .sentence
            .ends_with("turns 21.4 % of this device's measured peak into useful work"),
        "{}",
        report.headline.sentence
    );
    assert_eq!(report.headline.verdict, Verdict::Ok);
    let figures = report.preview().figures;
    assert_eq!(figures.len(), 5);
    assert_eq!(
        (figures[0].label.as_str(), figures[4].label.as_str()),
        ("Measured peak", "The whole gap")
    );
    assert_eq!(figures[4].value, "0.110");
    let again = Report::from_json(&report.to_json().unwrap()).unwrap();
    assert_eq!(again.record.experiment, report.record.experiment);
}

#[test]
fn a_sweep_shows_a_knob_at_a_time_the_largest_effect_first() {
    let page = html(compared(experiment_of(&[
        ("base", &[100.0, 101.0, 102.0], 2.0, &[]),
        ("rank 8", &[103.0, 104.0, 102.0], 2.0, &[("lora.rank", "16", "8")]),
        (
            "batch 8",
            &[180.0, 181.0, 182.0],
            3.0,
            &[("train.micro_batch", "4", "8")],
        ),
        (
            "batch 2",
            &[60.0, 61.0, 62.0],
            1.5,
            &[("train.micro_batch", "4", "2")],
        ),
    ])));
    let (batch, rank) = (
        page.find("by train.micro_batch").unwrap(),
        page.find("by lora.rank").unwrap(),
    );
    assert!(batch < rank, "the knob with the larger effect comes first");
    assert!(page.contains("2 60.9999") || page.contains("by train.micro_batch: 2 61.0, 4 101, 8 181"));
}

#[test]
fn a_calibration_alone_is_a_whole_page() {
    let page = html(measured());
    assert_self_contained(&page);
    for text in [
        "Tunesmith report of a calibration",
        "Measured peak",
        "Matrix products",
        "Scorecard",
    ] {
        assert!(page.contains(text), "missing: {text}");
    }
    assert!(
        !page.contains("id=\"training\""),
        "what was not done is not there"
    );
}

#[test]
fn the_page_stays_below_two_megabytes_with_three_hundred_answers_and_a_thousand_steps() {
    let page = html(trained(|run| {
        run.summary = summary(&steps(1000));
        (run.before, run.after) = (
            Some(crate::support::evaluation(60, 300)),
            Some(crate::support::evaluation(240, 300)),
        );
    }));
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
}
