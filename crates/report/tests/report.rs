//! What a reader of a report relies on: it says what is true, it opens anywhere, and nobody's text can do harm in it.

// Helpers of tests, where a failed unwrap is the failure to see.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tunesmith_measure::judge::{CheckId, Finding, Judgement, Severity};
use tunesmith_measure::{
    LoraShape, ModelShape, Peaks, Recomputed, SummaryContext, Tflops, TrainingSummary, summarise,
};
use tunesmith_protocol::{
    Calibration, CopyBandwidth, DType, GemmMeasurement, Layout, RunStatus, Step, ValueCheck,
};
use tunesmith_report::{
    AnswerRecord, CategoryScore, EngineRecord, EvaluationResult, HTML_FILE, JSON_FILE, RecipeRecord, Report,
    ReportError, ReportInput, SCHEMA_VERSION, Secret, Verdict, comparable, files_at, redact, write, write_at,
};

fn summary(steps: &[Step]) -> TrainingSummary {
    let shape = ModelShape {
        hidden: 576,
        layers: 30,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        intermediate: 1536,
        vocab: 49_152,
        tied: true,
        qkv_bias: false,
        qk_norm: false,
    };
    let lora = LoraShape::new(16, &["q_proj", "v_proj"]).unwrap();
    let peaks = Peaks {
        theoretical: None,
        practical: Some(Tflops(0.14)),
    };
    summarise(
        steps,
        &SummaryContext {
            shape,
            lora,
            recomputed: Recomputed::Nothing,
            peaks,
            discard: None,
        },
    )
}

fn steps(count: u64) -> Vec<Step> {
    (1..=count)
        .map(|step| Step {
            step,
            loss: Some(2.0 / step as f64),
            grad_norm: Some(1.0),
            lr: 1e-3,
            dt_secs: 2.0,
            elapsed_secs: 3.0 + 2.0 * step as f64,
            real_tokens: 300 * step,
            padded_tokens: 310 * step,
            supervised_tokens: 80 * step,
            squared_lengths: 40_000,
            peak_bytes: Some(3 << 29),
        })
        .collect()
}

fn evaluation(right: usize, questions: usize) -> EvaluationResult {
    let answers: Vec<AnswerRecord> = (0..questions)
        .map(|index| AnswerRecord {
            id: format!("q{index:03}"),
            category: if index % 2 == 0 { "filter" } else { "join" }.into(),
            question: format!("Question {index}"),
            schema_text: "CREATE TABLE t (a INTEGER);".into(),
            gold: "SELECT a FROM t".into(),
            answer: "SELECT a FROM t".into(),
            sql: Some("SELECT a FROM t".into()),
            exact: index < right,
            executes: true,
            matches: index < right,
        })
        .collect();
    EvaluationResult {
        questions: questions as u64,
        exact: right as u64,
        executes: questions as u64,
        matches: right as u64,
        by_category: vec![CategoryScore {
            category: "filter".into(),
            total: 50,
            exact: 5,
            executes: 50,
            matches: 6,
        }],
        answers,
        extraction_rule: "the first fenced block, else the whole answer".into(),
        secs: 12.0,
    }
}

fn calibration() -> Calibration {
    let gemm = |dtype, emulated, mean_tflops| GemmMeasurement {
        dtype,
        layout: Layout::Nt,
        side: 1024,
        warmup: 1,
        iterations: 5,
        mean_tflops,
        best_tflops: mean_tflops,
        median_tflops: mean_tflops,
        emulated,
        values: ValueCheck {
            max_error: 1e-7,
            tolerance: 1e-5,
            passed: true,
        },
    };
    Calibration {
        device: "cpu".into(),
        threads: 2,
        gemm: vec![gemm(DType::F32, false, 0.14), gemm(DType::Bf16, true, 0.01)],
        kernels: vec![],
        copy: CopyBandwidth {
            bytes: 1 << 28,
            iterations: 3,
            best_gib_per_sec: 10.0,
            median_gib_per_sec: 9.5,
        },
        time_boxed: false,
    }
}

/// Two checks: one green, one as bad as asked.
fn judgement(severity: Severity) -> Judgement {
    let finding = |id, severity, found: &str| Finding {
        id,
        severity,
        step: Some(1),
        found: found.into(),
        means: "the device gets <too> hot".into(),
        remedies: vec!["close other programs".into()],
    };
    Judgement {
        findings: vec![
            finding(
                CheckId::DeadAdapters,
                Severity::Green,
                "every B matrix got a gradient",
            ),
            finding(
                CheckId::StepTime,
                severity,
                "1.62 times the time of steps 5 to 20",
            ),
        ],
        not_checked: vec![CheckId::AdapterBase],
        last_good_step: Some(24),
    }
}

fn input() -> ReportInput {
    ReportInput {
        recipe: RecipeRecord {
            name: "sql".into(),
            title: "Text to SQL".into(),
            toml: "rank = 16\n".into(),
        },
        model: "SmolLM2-135M".into(),
        task: "text-to-SQL".into(),
        dtype: DType::F32,
        status: RunStatus::Ok,
        reason: None,
        manifest: json!({"system": {"os": "linux"}, "seed": 42}),
        summary: summary(&steps(24)),
        judge: judgement(Severity::Green),
        peak_process_bytes: Some(2 << 30),
        calibration: Some(calibration()),
        spec_peak: None,
        before: Some(evaluation(12, 100)),
        after: Some(evaluation(41, 100)),
        counting_rules: vec![],
        redactions: vec![],
        engine: EngineRecord {
            name: "tunesmith-engine".into(),
            version: "0.1.0".into(),
        },
        program_version: "0.1.0".into(),
        date: "2026-11-30T10:11:12Z".into(),
    }
}

fn html(input: ReportInput) -> String {
    Report::new(input).to_html().unwrap()
}

/// Everything that a browser might fetch or run.
fn assert_self_contained(html: &str) {
    let lower = html.to_lowercase();
    for forbidden in [
        "<script",
        "<link",
        "<img",
        "<iframe",
        "<object",
        "<base",
        " src=",
        " href=",
        "url(",
        "@import",
        " onload",
        " onerror=\"",
    ] {
        assert!(!lower.contains(forbidden), "the page contains {forbidden}");
    }
}

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
    let report = Report::new(ReportInput {
        after: Some(evaluation(16, 100)),
        ..input()
    });
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
    let report = Report::new(ReportInput {
        before: Some(evaluation(41, 100)),
        after: Some(evaluation(12, 100)),
        ..input()
    });
    assert_eq!(report.headline.verdict, Verdict::Warn);
    assert!(report.headline.sentence.contains("got worse"));
}

#[test]
fn scores_under_different_rules_are_not_compared() {
    let other = EvaluationResult {
        extraction_rule: "the last line".into(),
        ..evaluation(41, 100)
    };
    let report = Report::new(ReportInput {
        after: Some(other),
        ..input()
    });
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
    let report = Report::new(ReportInput {
        summary: summary(&dead),
        ..input()
    });
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
        let report = Report::new(ReportInput {
            status,
            reason,
            ..input()
        });
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
    hostile.recipe = RecipeRecord {
        name: attack.into(),
        title: attack.into(),
        toml: attack.into(),
    };
    (hostile.model, hostile.task, hostile.date, hostile.program_version) =
        (attack.into(), attack.into(), attack.into(), attack.into());
    (hostile.reason, hostile.status) = (Some(attack.into()), RunStatus::Crashed);
    hostile.manifest = json!({ attack: {attack: [attack, {attack: attack}]}, "plain": attack });
    hostile.redactions = vec![attack.into()];
    hostile.engine = EngineRecord {
        name: attack.into(),
        version: attack.into(),
    };
    hostile.summary.findings.push(attack.into());
    hostile.calibration.as_mut().unwrap().device = attack.into();
    for result in [&mut hostile.before, &mut hostile.after] {
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
            summary: summary(&steps),
            calibration: None,
            before: None,
            after: None,
            peak_process_bytes: None,
            manifest: Value::Null,
            ..input()
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
    let empty = Report::new(ReportInput {
        summary: summary(&[]),
        ..input()
    });
    assert_eq!(
        (empty.headline.verdict, empty.validity.verdict),
        (Verdict::Stop, Verdict::Unknown)
    );
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

    let report = Report::new(ReportInput {
        judge: judgement(Severity::Amber),
        ..input()
    });
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

    let report = Report::new(ReportInput {
        judge: judgement(Severity::Red),
        status: RunStatus::Invalid,
        ..input()
    });
    assert_eq!(
        (report.headline.verdict, report.validity.verdict),
        (Verdict::Stop, Verdict::Stop)
    );

    let old = html(ReportInput {
        judge: Judgement::default(),
        ..input()
    });
    assert!(old.contains("No check was made"), "unknown looks unknown");
}

#[test]
fn invalid_steps_are_marked_in_every_chart_and_listed() {
    let mut one_bad = steps(24);
    one_bad[11].grad_norm = Some(0.0);
    let report = Report::new(ReportInput {
        summary: summary(&one_bad),
        ..input()
    });
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
fn the_json_comes_back_whole_and_tolerates_what_it_does_not_know() {
    let report = Report::new(input());
    let text = report.to_json().unwrap();
    assert_eq!(Report::from_json(&text).unwrap(), report);

    let mut value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema_version"], SCHEMA_VERSION);
    assert_eq!(value["run"]["summary"]["points"][0]["loss"], 2.0);
    value["of_a_later_version"] = json!({"a": 1});
    value["run"]["summary"]["points"][0]["later"] = json!([1, 2]);
    assert_eq!(Report::from_json(&value.to_string()).unwrap(), report);

    value["schema_version"] = json!(SCHEMA_VERSION + 1);
    assert!(
        matches!(Report::from_json(&value.to_string()), Err(ReportError::TooNew { found, .. }) if found == SCHEMA_VERSION + 1)
    );
    for text in ["", "{}", "[]", "{\"schema_version\": 1}", "not json"] {
        let error = Report::from_json(text).unwrap_err();
        assert_eq!(error.code(), "not_a_report");
        assert!(!error.hints().is_empty());
    }
}

#[test]
fn a_report_that_was_cut_short_is_called_damaged() {
    let text = Report::new(input()).to_json().unwrap();
    for end in [text.len() / 2, text.len() - 3, 1] {
        let error = Report::from_json(&text[..end]).unwrap_err();
        assert_eq!(error.code(), "report_damaged", "{error}");
    }
    assert_eq!(
        Report::from_json(&text.replace("\"valid_steps\"", "\"steps\""))
            .unwrap_err()
            .code(),
        "not_a_report"
    );
}

/// A report whose manifest says what is needed to compare it.
fn whole() -> ReportInput {
    ReportInput {
        manifest: json!({
            "device": {"backend": "cpu"},
            "software": {"torch": "2.11.0"},
            "model": {"name": "SmolLM2", "fingerprint": "aa"},
            "data": {"rows_sha256": "bb", "test_sha256": "cc"},
        }),
        recipe: RecipeRecord {
            toml: "name = \"a\"\n[train]\nsteps = 24\nmicro_batch = 4\n".into(),
            ..input().recipe
        },
        ..input()
    }
}

#[test]
fn runs_of_one_experiment_may_be_compared_whatever_they_are_called() {
    let mut other = whole();
    other.recipe.toml = other.recipe.toml.replace("\"a\"", "\"b\"");
    other.manifest["run"] = json!({"id": "another"});
    assert_eq!(comparable(&Report::new(whole()), &Report::new(other)), []);
}

#[test]
fn each_difference_is_named_with_the_figures_that_it_concerns() {
    let first = Report::new(whole());
    let against = |change: &dyn Fn(&mut ReportInput)| {
        let mut other = whole();
        change(&mut other);
        let found = comparable(&first, &Report::new(other));
        let found: Vec<String> = found
            .into_iter()
            .map(|found| format!("{}: {}", found.figures, found.why))
            .collect();
        found.join("\n")
    };
    let recipe = against(&|run| run.recipe.toml = run.recipe.toml.replace("= 4", "= 8"));
    assert_eq!(
        recipe,
        "Speed, memory, loss and scores: another recipe: train.micro_batch is 4 and 8"
    );
    let device = against(&|run| run.manifest["device"]["backend"] = json!("hip"));
    assert!(device.contains("another kind of device: cpu and hip"), "{device}");
    let rows = against(&|run| run.manifest["data"]["rows_sha256"] = json!("dd"));
    assert_eq!(rows, "Speed, loss and scores: other training rows");
    let silent = against(&|run| run.manifest = json!({}));
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
    let format = against(&|run| run.dtype = DType::Bf16);
    assert!(format.contains("computed in f32 and in bf16"), "{format}");
}

#[test]
fn another_rule_of_counting_is_a_reason_of_its_own() {
    let first = Report::new(whole());
    let mut second = Report::new(whole());
    second.run.program_version = "0.9.0".into();
    second.counting_rules[1].text.push_str(" And so on.");
    let found = comparable(&first, &second);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].figures, "Steady speed");
    assert!(found[0].why.contains("0.9.0"), "{}", found[0].why);
}

#[test]
fn a_preview_has_the_words_of_the_page() {
    let report = Report::new(input());
    let preview = report.preview();
    let page = report.to_html().unwrap().replace("&#x2f;", "/");
    assert_eq!(preview.figures.len(), 5);
    for figure in &preview.figures {
        assert!(
            page.contains(&figure.value) && page.contains(figure.label),
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
fn a_report_can_be_saved_under_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my card.html");
    let written = write_at(&path, &Report::new(input())).unwrap();
    assert_eq!(written, files_at(&path));
    assert_eq!(written.json, folder.path().join("my card.json"));
    assert!(Report::from_json(&std::fs::read_to_string(&written.json).unwrap()).is_ok());
}

#[test]
fn the_names_at_the_top_of_the_json_are_a_promise() {
    let value: Value = serde_json::from_str(&Report::new(input()).to_json().unwrap()).unwrap();
    let names = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    let expected = [
        "schema_version",
        "headline",
        "validity",
        "gain",
        "counting_rules",
        "invalid_comparisons",
        "run",
    ];
    assert_eq!(names(&value), expected.map(str::to_owned).into());
    for name in [
        "recipe",
        "status",
        "manifest",
        "summary",
        "calibration",
        "before",
        "after",
        "redactions",
        "engine",
    ] {
        assert!(value["run"].get(name).is_some(), "{name}");
    }
}

#[test]
fn both_files_are_written_over_older_ones_and_nothing_is_left_beside() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(HTML_FILE), "old").unwrap();
    let written = write(folder.path(), &Report::new(input())).unwrap();
    assert!(
        std::fs::read_to_string(&written.html)
            .unwrap()
            .contains("SmolLM2-135M")
    );
    assert!(Report::from_json(&std::fs::read_to_string(&written.json).unwrap()).is_ok());
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [HTML_FILE, JSON_FILE]);

    let error = write(&folder.path().join("missing"), &Report::new(input())).unwrap_err();
    assert_eq!(error.code(), "report_not_written");
    assert!(error.to_string().contains("report.json"), "{error}");
}

#[test]
fn redaction_takes_words_out_and_says_so() {
    let mut open = input();
    open.manifest = json!({"paths": {"model": "/home/ada/models/x.gguf", "cache": "/home/ada/.cache"}, "host": "lovelace"});
    open.recipe.toml = "model = \"/home/ada/models/x.gguf\"\n".into();
    open.task = "/home/ada/data.jsonl".into();
    open.reason = Some("ada stopped it on lovelace".into());
    let secret = |what: &str, text: &str, replacement: &str| Secret {
        what: what.into(),
        text: text.into(),
        replacement: replacement.into(),
    };
    let secrets = [
        secret("the user's name", "ada", "(user)"),
        secret("the home folder", "/home/ada", "~"),
        secret("the host's name", "lovelace", "(host)"),
        secret("the work group", "pc", "(group)"),
    ];
    let closed = redact(open, &secrets).unwrap();
    assert_eq!(
        closed.manifest,
        json!({"paths": {"model": "~/models/x.gguf", "cache": "~/.cache"}, "host": "(host)"})
    );
    assert_eq!(closed.task, "~/data.jsonl");
    assert_eq!(closed.reason.as_deref(), Some("(user) stopped it on (host)"));
    assert_eq!(
        closed.redactions,
        [
            "the home folder was replaced by ~ 4 times",
            "the host's name was replaced by (host) 2 times",
            "the user's name was replaced by (user) once",
            "the work group is too short to be replaced safely and was left alone",
        ]
    );
    assert!(closed.calibration.is_some());
    let report = Report::new(closed);
    assert!(!report.to_json().unwrap().contains("lovelace"));
    assert!(
        report
            .to_html()
            .unwrap()
            .contains("the home folder was replaced by ~ 4 times")
    );
}
