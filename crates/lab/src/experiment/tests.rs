//! Plans: what is refused and why, the order of runs, and that the ready experiments can be planned.

use std::{collections::BTreeSet, fs};

use proptest::prelude::*;
use tunesmith_measure::comparison::Metric;
use tunesmith_probe::testing::TestMachine;
use tunesmith_protocol::RunStatus;
use tunesmith_setup::{Folders, knowledge::Knowledge};

use super::{
    testing::{TestSlot, write_experiment},
    *,
};
use crate::{estimate::Known, recipe::Recipe, run::lines, testing::TestRun};

const TEXT: &str = r#"
name = "mine"
kind = "ab"
metrics = ["tokens_per_sec"]
[base]
recipe = "smoke"
[[arms]]
name = "a"
[[arms]]
name = "b"
set = { "train.recompute" = "layer" }
[[criteria]]
metric = "tokens_per_sec"
at_least = 0.5
why = "for the test"
"#;

fn parse(text: &str) -> Result<Experiment, ExperimentError> {
    Experiment::parse(text, "test")
}

/// The text with something replaced.
fn with(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    TEXT.replace(from, to)
}

#[track_caller]
fn refused(text: &str, code: &str, word: &str) {
    let error = parse(text)
        .and_then(|experiment| Plan::new(&experiment, "cpu").map(|_| ()))
        .unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    let all = format!("{error} {}", error.hints().join(" "));
    assert!(all.contains(word), "{all}");
    assert!(!error.hints().is_empty(), "{error}");
}

#[test]
fn arms_that_differ_in_one_setting_are_planned() {
    let experiment = parse(TEXT).unwrap();
    let plan = Plan::new(&experiment, "cpu").unwrap();
    assert_eq!(plan.arms[1].changes.len(), 1);
    let change = &plan.arms[1].changes[0];
    assert_eq!(
        (change.key.as_str(), change.from.as_str(), change.to.as_str()),
        ("train.recompute", "none", "layer")
    );
    let recipe = &plan.arms[1].recipe;
    assert_eq!((recipe.train.steps, recipe.evaluate.questions), (25, 0));
    assert_eq!(
        (recipe.name.as_str(), recipe.train.device.as_str()),
        ("mine-b", "cpu")
    );
    assert_eq!(plan.order.len(), 6);
    assert_eq!(plan.recipe(plan.order[2]).train.seed, 42);
}

#[test]
fn a_second_difference_is_refused_by_its_name() {
    let two = with(
        "\"train.recompute\" = \"layer\"",
        "\"train.recompute\" = \"layer\", \"lora.rank\" = 4",
    );
    // By dotted name the rank comes first, the other is the second.
    refused(&two, "second_difference", "`train.recompute` too");
    refused(
        &with(
            "\"train.recompute\" = \"layer\"",
            "\"train.recompute\" = \"none\"",
        ),
        "no_difference",
        "the same as \"a\"",
    );
    // A sweep tries settings together.
    let sweep = two.replace("kind = \"ab\"", "kind = \"sweep\"");
    assert_eq!(
        Plan::new(&parse(&sweep).unwrap(), "cpu").unwrap().arms[1]
            .changes
            .len(),
        2
    );
}

#[test]
fn what_cannot_answer_its_question_is_refused_with_a_hint() {
    refused(
        &with("metrics =", "metric ="),
        "unknown_recipe_key",
        "did you mean `metrics`",
    );
    refused(
        &with("\"tokens_per_sec\"]", "\"speed\"]"),
        "recipe_syntax",
        "tokens_per_sec",
    );
    refused(
        &with("name = \"b\"", "name = \"a\""),
        "experiment_plan",
        "two arms",
    );
    refused(&with("at_least = 0.5\n", ""), "experiment_plan", "no range");
    refused(
        &with("at_least = 0.5", "arm = \"c\"\nat_least = 0.5"),
        "experiment_plan",
        "a, b",
    );
    refused(
        &with("[[criteria]]", "[[predictions]]"),
        "experiment_plan",
        "before the first run",
    );
    refused(
        &with("\"train.recompute\" = \"layer\"", "\"train.seed\" = 5"),
        "experiment_plan",
        "run.seeds",
    );
    refused(
        &with("[base]", "[run]\nseeds = []\n[base]"),
        "experiment_plan",
        "seed",
    );
    refused(
        &with("[base]", "[run]\ntime_box_minutes = 20.0\n[base]"),
        "experiment_plan",
        "15 minutes",
    );
    refused(
        &with("recipe = \"smoke\"", "recipe = \"smok\""),
        "unknown_recipe",
        "`smoke`",
    );
    refused(
        &with("train.recompute", "train.recomput"),
        "unknown_recipe_key",
        "train.recompute",
    );
    refused(
        &with("metrics = [\"tokens_per_sec\"]", "metrics = [\"score_points\"]"),
        "experiment_plan",
        "run.evaluate",
    );
    refused(
        &with("name = \"b\"\n", "name = \"b\"\nadapter_of = \"c\"\n"),
        "experiment_plan",
        "trains none",
    );
    assert_eq!(
        Experiment::load("checkpointin").unwrap_err().code(),
        "unknown_experiment"
    );
    let hints = Experiment::load("checkpointin").unwrap_err().hints();
    assert!(hints[0].contains("`checkpointing`"), "{hints:?}");
}

const LADDER: &str = r#"
name = "ladder"
kind = "gap"
metrics = ["useful_tflops"]
[base]
recipe = "smoke"
set = { "data.source" = "fixed-length" }
[[arms]]
name = "kept"
[[arms]]
name = "again"
set = { "train.recompute" = "layer" }
[[arms]]
name = "products"
measures = "products"
[[arms]]
name = "written"
measures = "decoding"
set = { "evaluate.questions" = 7 }
"#;

/// The ladder's text with something replaced.
fn ladder_with(from: &str, to: &str) -> String {
    assert!(LADDER.contains(from), "{from}");
    LADDER.replace(from, to)
}

#[test]
fn arms_of_a_ladder_measure_parts_of_the_first_ones_training() {
    let plan = Plan::new(&parse(LADDER).unwrap(), "cpu").unwrap();
    let measures: Vec<&str> = plan.arms.iter().map(|arm| arm.measures.name()).collect();
    assert_eq!(measures, ["training", "training", "products", "decoding"]);
    let change = &plan.arms[2].changes[0];
    assert_eq!(
        (change.key.as_str(), change.from.as_str(), change.to.as_str()),
        ("measures", "training", "products")
    );
    // One answer at a time is what it is about, and trainings ask nothing.
    let evaluate = |arm: usize| {
        let evaluate = &plan.arms[arm].recipe.evaluate;
        (evaluate.questions, evaluate.batch_size)
    };
    assert_eq!(evaluate(3), (7, 1));
    assert_eq!(evaluate(0).0, 0);
    assert_eq!(plan.order.len(), 12);
}

#[test]
fn a_ladder_stays_one_of_one_model_and_one_difference_at_a_time() {
    let refused = |from: &str, to: &str, code: &str, word: &str| refused(&ladder_with(from, to), code, word);
    let recompute = "\"train.recompute\" = \"layer\"";
    refused(
        recompute,
        "\"train.recompute\" = \"layer\", \"lora.rank\" = 4",
        "second_difference",
        "`train.recompute` too",
    );
    refused(
        recompute,
        "\"train.recompute\" = \"none\"",
        "no_difference",
        "the same as",
    );
    refused(
        recompute,
        "\"train.dtype\" = \"bf16\"",
        "experiment_plan",
        "one number format",
    );
    refused(
        "name = \"kept\"",
        "name = \"kept\"\nmeasures = \"products\"",
        "experiment_plan",
        "the first arm of a `gap` trains",
    );
    refused(
        "measures = \"decoding\"",
        "measures = \"products\"",
        "experiment_plan",
        "two arms measure products",
    );
    refused(
        "\"evaluate.questions\" = 7",
        "\"lora.rank\" = 4",
        "experiment_plan",
        "sets `lora.rank`",
    );
    refused(
        "\"evaluate.questions\" = 7",
        "\"evaluate.questions\" = 0",
        "experiment_plan",
        "asks none",
    );
    refused(
        "kind = \"gap\"",
        "kind = \"sweep\"",
        "experiment_plan",
        "belongs to a `gap`",
    );
    // A third training goes by the second one's setting, which it undoes.
    let third = "name = \"products\"\nmeasures = \"products\"";
    let text = ladder_with(third, "name = \"rank\"\nset = { \"lora.rank\" = 4 }");
    let error = Plan::new(&parse(&text).unwrap(), "cpu").unwrap_err();
    assert_eq!(error.code(), "second_difference");
}

#[test]
fn what_an_arm_measures_belongs_to_the_hash_of_a_ladder_alone() {
    let hash = |text: &str| Plan::new(&parse(text).unwrap(), "cpu").unwrap().hash;
    let without = ladder_with("[[arms]]\nname = \"products\"\nmeasures = \"products\"\n", "");
    assert_ne!(hash(LADDER), hash(&without));
    // Written out it is what it is when it is left out: experiments from before there was a choice go on.
    let training = with("name = \"b\"\n", "name = \"b\"\nmeasures = \"training\"\n");
    assert_eq!(hash(TEXT), hash(&training));
}

#[test]
fn before_a_training_of_it_counts_a_ladder_says_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let experiment = parse(LADDER).unwrap();
    let plan = Plan::new(&experiment, "cpu").unwrap();
    let folder = record::Folder::begin(&experiments_dir(home.path()), &experiment, &plan, false).unwrap();
    let runs_dir = home.path().join("runs");
    let state = read(&folder.path, &runs_dir).unwrap();
    assert_eq!(state.ladder, None);
    let says = |state: &ExperimentState, word: &str| {
        let mut notes = state.notes.iter();
        assert!(notes.any(|note| note.contains(word)), "{:?}", state.notes);
    };
    says(&state, "the level \"kept\" is not measured");
    // A run without a calibration has a speed and no peak.
    let run = TestRun::new("2026-01-01T00:00:00Z")
        .recipe("smoke")
        .write(&runs_dir);
    let line = record::Line::Run {
        slot: 0,
        run: run.file_name().unwrap().to_string_lossy().into_owned(),
        at: "2026-01-01T00:00:00Z".to_owned(),
    };
    folder.append(&line).unwrap();
    let state = read(&folder.path, &runs_dir).unwrap();
    assert_eq!(state.ladder, None);
    says(&state, "no peak of matrix products is known");
    says(&state, "tunesmith calibrate");
}

#[test]
fn a_ladder_is_made_of_what_its_slots_measured_and_leaves_nothing_over() {
    let home = tempfile::tempdir().unwrap();
    let folders = Folders::all_under(home.path());
    let experiment = parse(&ladder_with("[base]", "[run]\nseeds = [1]\n[base]")).unwrap();
    let trained = |minute: usize, speed: f64| {
        let run = TestRun::new(&format!("2026-01-01T00:{minute:02}:00Z")).recipe("smoke");
        TestSlot::Run(run.tokens_per_sec(speed).calibrated(1.0).without_scores())
    };
    let slots = [
        trained(0, 480.0),
        trained(1, 360.0),
        TestSlot::Products(0.6),
        TestSlot::Decoding(10.0),
    ];
    let folder = write_experiment(&folders, &experiment, "cpu", &slots);
    let state = read(&folder, &folders.runs()).unwrap();
    assert_eq!(state.status, ExperimentStatus::Finished);
    let ladder = state.ladder.as_ref().unwrap();
    let gap = &ladder.gap;
    let names: Vec<&str> = gap.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["products", "kept", "again"]);
    assert!((gap.steps[0].lost_tflops - 0.4).abs() < 1e-12);
    let ratio = gap.steps[2].reached.mean / gap.steps[1].reached.mean;
    assert!((ratio - 0.75).abs() < 1e-6, "{ratio}");
    let last = gap.steps[2].reached.mean;
    assert!((gap.lost_tflops - (gap.peak.0 - last)).abs() < 1e-12);
    // 538 MB of f32 weights ten times a second, of 10 GiB that copies reach.
    let written = ladder.decoding.as_ref().unwrap();
    assert!((written.tokens_per_sec.mean - 10.0).abs() < 1e-9);
    assert!((written.copy_share.unwrap() - 0.501).abs() < 0.001, "{written:?}");
    let json = serde_json::to_value(&state).unwrap();
    assert_eq!(json["ladder"]["steps"][0]["name"], "products");

    // A training that fails is named, and its loss is the next one's.
    let home = tempfile::tempdir().unwrap();
    let folders = Folders::all_under(home.path());
    let slots = [
        TestSlot::Failed("the card is too small".to_owned()),
        trained(1, 360.0),
        TestSlot::Products(0.6),
    ];
    let folder = write_experiment(&folders, &experiment, "cpu", &slots);
    let state = read(&folder, &folders.runs()).unwrap();
    let ladder = state.ladder.unwrap();
    assert_eq!(ladder.gap.steps.len(), 2);
    assert_eq!(ladder.not_measured[0].name, "kept");
    assert_eq!(ladder.decoding, None);
}

#[test]
fn few_runs_are_said_to_be_few() {
    let few = parse(&with("[base]", "[run]\nseeds = [1]\n[base]")).unwrap();
    assert_eq!(few.warnings().len(), 1);
    assert!(parse(TEXT).unwrap().warnings().is_empty());
}

#[test]
fn what_was_expected_belongs_to_the_hash_and_words_do_not() {
    let hash = |text: &str| Plan::new(&parse(text).unwrap(), "cpu").unwrap().hash;
    let one = hash(TEXT);
    assert_eq!(one, hash(&with("kind =", "question = \"why?\"\nkind =")));
    assert_eq!(one, hash(&with("[base]", "[run]\nquiet_wait_secs = 0.0\n[base]")));
    assert_ne!(one, hash(&with("at_least = 0.5", "at_least = 0.6")));
    assert_ne!(one, hash(&with("[base]", "[run]\nmeasured_steps = 7\n[base]")));
    let on_card = Plan::new(&parse(TEXT).unwrap(), "cuda:0").unwrap().hash;
    assert_ne!(one, on_card);
}

#[test]
fn ready_experiments_can_be_planned_on_a_processor_and_on_a_card() {
    for (name, text) in READY {
        let experiment = Experiment::parse(text, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(experiment.name, name, "the file's name is the experiment's");
        assert!(
            !experiment.question.is_empty() && !experiment.title.is_empty(),
            "{name}"
        );
        for device in ["cpu", "cuda:0"] {
            let here = experiment.on_device(device);
            let plan = Plan::new(&here, device).unwrap_or_else(|error| panic!("{name} on {device}: {error}"));
            let again = Experiment::parse(&here.to_toml().unwrap(), name).unwrap();
            assert_eq!(again, here, "{name}");
            let json = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan, "{name}");
            if here.kind == Kind::Ab {
                assert!(here.runs_of_an_arm() >= 3, "{name} (M8)");
                assert!(!here.predictions.is_empty(), "{name} (C3)");
            }
        }
    }
    let quantised = Experiment::load("bf16-or-4bit").unwrap();
    assert!(
        quantised
            .notes
            .iter()
            .any(|note| note.contains("own tensor path")),
        "a verdict on 4 bits names its kernels"
    );
}

#[test]
fn another_recipe_and_settings_hold_for_all_arms_on_any_device() {
    let experiment = Experiment::load("checkpointing").unwrap();
    let settings = [
        ("train.micro_batch".to_owned(), "3".to_owned()),
        ("lora.rank".to_owned(), "4".to_owned()),
    ];
    let own = experiment.with_base(Some("smoke"), &settings).on_device("cpu");
    let plan = Plan::new(&own, "cpu").unwrap();
    for arm in &plan.arms {
        assert_eq!((arm.recipe.train.micro_batch, arm.recipe.lora.rank), (3, 4));
    }
    let smoke = Recipe::load("smoke").unwrap();
    let learning_rate = plan.arms[0].recipe.optimizer.learning_rate;
    assert!((learning_rate - smoke.optimizer.learning_rate).abs() < 1e-12);
}

#[test]
fn an_experiment_that_was_begun_is_found_and_begun_anew_beside_it() {
    let home = tempfile::tempdir().unwrap();
    let experiment = parse(TEXT).unwrap();
    let plan = Plan::new(&experiment, "cpu").unwrap();
    let experiments = experiments_dir(home.path());
    let begin = |again| record::Folder::begin(&experiments, &experiment, &plan, again).unwrap();
    let first = begin(false);
    assert_eq!(begin(false).path, first.path, "the same one goes on");
    let second = begin(true);
    assert_eq!(second.id, format!("{}-2", first.id));
    assert_eq!(begin(false).path, second.path, "the newest goes on");
    let found = |name: &str| find(home.path(), name);
    assert_eq!(found(&first.id).unwrap(), first.path);
    assert!(found("mine").unwrap().ends_with(&second.id));
    assert_eq!(found("mine").unwrap(), found("last").unwrap());
    assert_eq!(found("nothing").unwrap_err().code(), "unknown_experiment");
    // One process at a time leads it.
    let lead = first.lead().unwrap();
    assert_eq!(first.lead().unwrap_err().code(), "experiment_led");
    assert!(first.is_led());
    drop(lead);
    assert!(!first.is_led());
}

/// An experiment with runs that were made without an engine.
fn with_runs(runs: &[(usize, f64, u64)]) -> (tempfile::TempDir, ExperimentState) {
    let home = tempfile::tempdir().unwrap();
    let experiment = parse(&with(
        "metrics = [\"tokens_per_sec\"]",
        "metrics = [\"tokens_per_sec\", \"peak_bytes\"]",
    ));
    let experiment = experiment.unwrap();
    let plan = Plan::new(&experiment, "cpu").unwrap();
    let folder = record::Folder::begin(&experiments_dir(home.path()), &experiment, &plan, false).unwrap();
    let runs_dir = home.path().join("runs");
    for (index, (slot, speed, peak)) in runs.iter().enumerate() {
        let run = TestRun::new(&format!("2026-01-01T00:{index:02}:00Z"))
            .recipe("smoke")
            .tokens_per_sec(*speed)
            .peak_bytes(*peak)
            .write(&runs_dir);
        let run = run.file_name().unwrap().to_string_lossy().into_owned();
        let line = record::Line::Run {
            slot: *slot,
            run,
            at: "2026-01-01T00:00:00Z".to_owned(),
        };
        folder.append(&line).unwrap();
    }
    let state = read(&folder.path, &runs_dir).unwrap();
    (home, state)
}

#[test]
fn runs_are_read_by_their_slots_and_compared() {
    // The order is a b | b a | a b.
    let runs = [
        (0, 500.0, 4 << 30),
        (1, 400.0, 2 << 30),
        (2, 404.0, 2 << 30),
        (3, 506.0, 4 << 30),
        (4, 503.0, 4 << 30),
    ];
    let (_home, state) = with_runs(&runs);
    assert_eq!(state.status, ExperimentStatus::Unfinished);
    let over = state.slots.iter().filter(|slot| slot.status.is_over()).count();
    assert_eq!(over, 5);
    assert_eq!(state.slots[5].status, SlotStatus::Waiting);
    assert_eq!(state.slots[2].name, "b");
    let arms: Vec<usize> = state.comparison.arms.iter().map(|arm| arm.runs).collect();
    assert_eq!(arms, [3, 2]);
    let pair = &state.comparison.pairs[0];
    assert_eq!(pair.figures.len(), 2);
    let ratio = pair.figures[0].ratio.unwrap().value;
    assert!((ratio - 0.8).abs() < 0.02, "{ratio}");
    assert!(state.comparison.criteria[0].measured.is_some());
    assert!(state.secs_left.is_some_and(|secs| secs > 0.0));
    assert!(serde_json::to_value(&state).unwrap()["slots"][0]["figures"]["tokens_per_sec"].is_number());
}

#[test]
fn a_run_that_failed_is_a_record_and_a_torn_line_hides_nothing() {
    let (home, state) = with_runs(&[(0, 500.0, 1 << 30)]);
    let folder = record::Folder::open(&state.folder).unwrap();
    let failed = record::Line::Failed {
        slot: 1,
        code: "long_rows".to_owned(),
        message: "a row is too long".to_owned(),
        at: String::new(),
    };
    folder.append(&failed).unwrap();
    let path = state.folder.join("runs.jsonl");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{\"type\":\"run\",\"sl");
    fs::write(&path, text).unwrap();
    let runs_dir = home.path().join("runs");
    let state = read(&state.folder, &runs_dir).unwrap();
    assert_eq!(state.slots[1].status, SlotStatus::Crashed);
    assert!(state.slots[1].reason.as_deref().unwrap().contains("too long"));
    assert!(
        state.notes.iter().any(|note| note.contains("did not end well")),
        "{:?}",
        state.notes
    );
    let retry = record::Line::Retry {
        slots: vec![1],
        at: String::new(),
    };
    folder.append(&retry).unwrap();
    let state = read(&state.folder, &runs_dir).unwrap();
    assert_eq!(state.slots[1].status, SlotStatus::Waiting);
    assert_eq!(state.slots[0].status, SlotStatus::Ok);
}

#[test]
fn two_experiments_are_not_compared() {
    let (_home, one) = with_runs(&[(0, 500.0, 1 << 30)]);
    assert!(same_protocol(&one, &one).is_ok());
    let mut shorter = one.clone();
    shorter.experiment.run.measured_steps = 5;
    shorter.hash = "other".to_owned();
    let error = same_protocol(&one, &shorter).unwrap_err();
    assert_eq!(error.code(), "other_experiment");
    assert!(error.to_string().contains("20 steps after 5"), "{error}");
    let mut elsewhere = one.clone();
    let surroundings = elsewhere.surroundings.as_mut().unwrap();
    surroundings.torch = "2.12.0 (hip)".to_owned();
    let error = same_protocol(&one, &elsewhere).unwrap_err();
    assert!(error.to_string().contains("torch is"), "{error}");
}

/// An experiment whose first run ended as it should, and whose second one its time box ended after so many steps.
fn boxed(steps: u64) -> (tempfile::TempDir, ExperimentState) {
    let home = tempfile::tempdir().unwrap();
    let folders = Folders::all_under(home.path());
    let run = |minute: u32| TestRun::new(&format!("2026-01-01T00:{minute:02}:00Z")).recipe("smoke");
    let slots = [
        testing::TestSlot::Run(run(0).steps(25)),
        testing::TestSlot::Run(run(1).steps(steps).status(RunStatus::TimeBoxed)),
    ];
    let folder = testing::write_experiment(&folders, &parse(TEXT).unwrap(), "cpu", &slots);
    let state = read(&folder, &folders.runs()).unwrap();
    (home, state)
}

#[test]
fn a_run_that_its_time_box_ended_has_all_arms_compared_over_as_many_steps() {
    let (_home, state) = boxed(15);
    let window = Window {
        planned_steps: 20,
        compared_steps: 10,
    };
    assert_eq!(state.window, window);
    // Of 15 steps the last tenth is two: the loss of both arms is that of the 14th and the 15th.
    let loss = |step: f64, steps: f64| 0.35 + 2.0 * (1.0 - step / steps).powi(2);
    for (slot, steps) in state.slots.iter().zip([25.0, 15.0]) {
        let expected = 0.5 * (loss(14.0, steps) + loss(15.0, steps));
        assert!(
            (slot.figures[&Metric::LossEnd] - expected).abs() < 1e-9,
            "{slot:?}"
        );
    }
    assert_eq!(state.slots[1].status, SlotStatus::TimeBoxed);
    assert!(
        state
            .notes
            .iter()
            .any(|note| note.contains("over the first 10 of 20 timed steps")),
        "{:?}",
        state.notes
    );
    let mut whole = state.clone();
    whole.window.compared_steps = 20;
    let error = same_protocol(&state, &whole).unwrap_err();
    assert!(
        error.to_string().contains("a shorter window reads higher"),
        "{error}"
    );
}

#[test]
fn a_run_with_too_few_timed_steps_is_left_out_and_cuts_no_other() {
    let (_home, state) = boxed(9);
    assert_eq!(state.window.compared_steps, 20);
    assert!(state.slots[1].figures.is_empty() && !state.slots[0].figures.is_empty());
    assert!(
        state
            .notes
            .iter()
            .any(|note| note.contains("less than a quarter")),
        "{:?}",
        state.notes
    );
}

/// What an experiment is expected to take on a processor of which these runs are known.
fn expected(experiment: &Experiment, runs: &[TestRun]) -> Outlook {
    let home = tempfile::tempdir().unwrap();
    let folders = Folders::all_under(home.path());
    for run in runs {
        run.write(&folders.runs());
    }
    let system = TestMachine::linux().memory_gib(16).detect();
    let known = Known {
        system: &system,
        knowledge: &Knowledge::load(None).unwrap(),
        folders: &folders,
        hub: None,
        calibration: None,
        earlier: &lines(&folders.runs(), &[]).unwrap(),
        trials: &[],
        available_memory_bytes: None,
    };
    let here = experiment.on_device("cpu");
    outlook(&here, &Plan::new(&here, "cpu").unwrap(), &known)
}

#[test]
fn a_soak_takes_its_time_box_whatever_its_steps_are() {
    let thermal = expected(&Experiment::load("thermal").unwrap(), &[]);
    assert_eq!((thermal.secs, thermal.steps_in_box), (Some(3600.0), None));
    let home = tempfile::tempdir().unwrap();
    let folders = Folders::all_under(home.path());
    let experiment = Experiment::load("thermal").unwrap();
    let folder = testing::write_experiment(&folders, &experiment, "cpu", &[]);
    let state = read(&folder, &folders.runs()).unwrap();
    assert_eq!(state.secs_left, Some(3600.0), "before its first run is over");
    assert_eq!(
        expected(&parse(TEXT).unwrap(), &[]).secs,
        None,
        "nobody knows yet"
    );
}

#[test]
fn steps_that_the_time_box_has_no_room_for_are_told_before_the_first_run() {
    let text = with("[base]", "[run]\nmeasured_steps = 1000\n[base]").replace("\"smoke\"", "\"quickstart\"");
    let known = [TestRun::new("2026-01-01T00:00:00Z").without_scores()];
    let found = expected(&parse(&text).unwrap(), &known);
    let steps = found.steps_in_box.unwrap();
    assert!(steps > 0 && steps < 1000, "{steps}");
    assert!((found.secs.unwrap() - 6.0 * 900.0).abs() < 1e-6);
}

proptest! {
    #[test]
    fn every_run_comes_once_and_each_round_has_all_arms(
        arms in 1_usize..6, seeds in prop::collection::btree_set(0_u64..50, 1..5), repeats in 1_usize..4,
    ) {
        let seeds: Vec<u64> = seeds.into_iter().collect();
        let order = order(arms, &seeds, repeats, true);
        prop_assert_eq!(order.len(), arms * seeds.len() * repeats);
        let different: BTreeSet<(usize, u64, usize)> =
            order.iter().map(|slot| (slot.arm, slot.seed, slot.repeat)).collect();
        prop_assert_eq!(different.len(), order.len());
        for round in order.chunks(arms) {
            let present: BTreeSet<usize> = round.iter().map(|slot| slot.arm).collect();
            prop_assert_eq!(present.len(), arms);
            prop_assert!(round.iter().all(|slot| (slot.seed, slot.repeat) == (round[0].seed, round[0].repeat)));
        }
        // A machine that grows slower with every run does so for all arms alike, over each two rounds.
        for rounds in order.chunks_exact(2 * arms) {
            let place = |arm: usize| -> usize {
                rounds.iter().enumerate().filter(|(_, slot)| slot.arm == arm).map(|(at, _)| at).sum()
            };
            prop_assert!((0..arms).all(|arm| place(arm) == place(0)));
        }
    }

    #[test]
    fn arms_that_depend_on_each_other_stay_in_their_order(arms in 1_usize..6, repeats in 1_usize..4) {
        let order = order(arms, &[1, 2], repeats, false);
        for round in order.chunks(arms) {
            prop_assert!(round.windows(2).all(|pair| pair[0].arm + 1 == pair[1].arm));
        }
    }
}
