//! The engine against numbers that transformers + PEFT gave (fixtures by `xtask/python/make_fixtures.py`), through
//! the same pipe that the app uses. Live comparisons on real models are `cargo xtask parity`.

// A test helper that cannot go on should say so at once.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use safetensors::SafeTensors;
use serde::Deserialize;
use tunesmith_protocol::{
    Attention, Batch, DType, Event, Job, LogitsJob, Lora, ModelOrigin, Optimizer, Outcome, ParentLine,
    Prompt, Quantization, Recompute, Request, RowOrder, RunStatus, Schedule, Step, TARGET_MODULES, TrainJob,
    Work, decode_event, encode,
};

const MODELS: [&str; 3] = ["llama", "qwen2", "qwen3"];

#[derive(Deserialize)]
struct Expected {
    logits: ExpectedLogits,
    training: ExpectedTraining,
    four_bit: ExpectedCurve,
}

#[derive(Deserialize)]
struct ExpectedLogits {
    input_ids: Vec<u32>,
    token_ids: Vec<usize>,
    base: LogitSample,
    adapter: LogitSample,
}

#[derive(Deserialize)]
struct LogitSample {
    largest: f64,
    values: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct ExpectedTraining {
    settings: Settings,
    loss: Vec<f64>,
    grad_norm: Vec<f64>,
    lr: Vec<f64>,
    adapter_norms_after: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct ExpectedCurve {
    loss: Vec<f64>,
    grad_norm: Vec<f64>,
}

#[derive(Deserialize)]
struct Settings {
    rank: i64,
    alpha: f64,
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    warmup_steps: u64,
    max_grad_norm: f64,
    micro_batch: usize,
    accumulation: usize,
    steps: u64,
}

fn fixture(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(model)
}

fn expected(model: &str) -> Expected {
    let text = std::fs::read_to_string(fixture(model).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Does one job in an engine process and gives all that it said.
fn run(work: Work, run_dir: &Path) -> Vec<Event> {
    run_from(None, work, run_dir)
}

/// The same, going on from a checkpoint.
fn run_from(resume_from: Option<PathBuf>, work: Work, run_dir: &Path) -> Vec<Event> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tunesmith-engine"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the engine starts: `cargo xtask env` prints the loader path that it needs");
    let job = Job {
        run_dir: run_dir.to_owned(),
        resume_from,
        device: "cpu".into(),
        threads: Some(1),
        work,
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(encode(&Request::Job(Box::new(job))).as_bytes())
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let events = stdout
        .lines()
        .map(|line| match decode_event(&line.unwrap()) {
            ParentLine::Event(event) => *event,
            ParentLine::Text(text) => panic!("not a message: {text}"),
        })
        .collect();
    drop(stdin);
    child.wait().unwrap();
    events
}

fn ended_well(events: &[Event]) {
    assert!(
        matches!(events.first(), Some(Event::Hello(_))),
        "hello comes first: {events:?}"
    );
    match events.last() {
        Some(Event::Bye(bye)) if bye.status == RunStatus::Ok => {}
        _ => panic!("the job did not end well: {events:?}"),
    }
}

fn train_job(model: &str) -> TrainJob {
    let settings = expected(model).training.settings;
    let dir = fixture(model);
    TrainJob {
        model: dir.clone(),
        rows: dir.join("rows.safetensors"),
        dtype: DType::F32,
        quantization: Quantization::None,
        lora: Lora {
            rank: settings.rank,
            alpha: settings.alpha,
            target_modules: TARGET_MODULES.map(String::from).into(),
        },
        optimizer: Optimizer {
            learning_rate: settings.learning_rate,
            beta1: settings.beta1,
            beta2: settings.beta2,
            eps: settings.eps,
            weight_decay: settings.weight_decay,
            warmup_steps: settings.warmup_steps,
            schedule: Schedule::Cosine,
            max_grad_norm: settings.max_grad_norm,
        },
        batch: Batch {
            micro_batch: settings.micro_batch,
            accumulation: settings.accumulation,
        },
        steps: settings.steps,
        checkpoint_every: None,
        recompute: Recompute::None,
        packing: true,
        attention: Attention::Sdpa,
        order: RowOrder::Sequential,
        seed: 0,
        start_from: Some(dir.join("adapter_start")),
        origin: Some(ModelOrigin {
            id: "owner/name".to_owned(),
            revision: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        }),
    }
}

/// Trains in a folder of its own and gives the steps and the folder.
fn train(job: TrainJob) -> (Vec<Step>, tempfile::TempDir) {
    let run_dir = tempfile::tempdir().unwrap();
    let events = run(Work::Train(job), run_dir.path());
    ended_well(&events);
    let steps = events
        .into_iter()
        .filter_map(|event| {
            if let Event::Step(step) = event {
                Some(step)
            } else {
                None
            }
        })
        .collect();
    (steps, run_dir)
}

fn close(got: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (got - expected).abs() / expected.abs();
    assert!(
        error <= tolerance,
        "{what}: {got} is not {expected}, relative error {error:e}"
    );
}

#[test]
fn logits_are_those_of_transformers_with_and_without_an_adapter() {
    for model in MODELS {
        let expected = expected(model).logits;
        for (sample, adapter) in [
            (&expected.base, None),
            (&expected.adapter, Some(fixture(model).join("adapter_start"))),
        ] {
            let run_dir = tempfile::tempdir().unwrap();
            let prompts = run_dir.path().join("prompts.jsonl");
            let prompt = Prompt {
                id: "only".into(),
                input_ids: expected.input_ids.clone(),
            };
            std::fs::write(&prompts, encode(&prompt)).unwrap();
            let output = run_dir.path().join("logits.safetensors");
            let job = LogitsJob {
                model: fixture(model),
                adapter,
                prompts,
                dtype: DType::F32,
                quantization: Quantization::None,
                output: output.clone(),
            };
            ended_well(&run(Work::Logits(job), run_dir.path()));
            let bytes = std::fs::read(output).unwrap();
            let tensors = SafeTensors::deserialize(&bytes).unwrap();
            let view = tensors.tensor("only").unwrap();
            let width = view.shape()[1];
            let logits: Vec<f32> = view
                .data()
                .chunks_exact(4)
                .map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap()))
                .collect();
            for (position, values) in sample.values.iter().enumerate() {
                for (&token, value) in expected.token_ids.iter().zip(values) {
                    let got = f64::from(logits[position * width + token]);
                    assert!(
                        (got - value).abs() <= 1e-5 * sample.largest,
                        "{model} {position} {token}: {got} {value}"
                    );
                }
            }
        }
    }
}

#[test]
fn ten_steps_are_those_of_peft() {
    for model in MODELS {
        let expected = expected(model).training;
        let (steps, run_dir) = train(train_job(model));
        assert_eq!(steps.len(), expected.loss.len());
        for (index, step) in steps.iter().enumerate() {
            close(
                step.loss.unwrap(),
                expected.loss[index],
                1e-4,
                &format!("{model} loss {index}"),
            );
            close(
                step.grad_norm.unwrap(),
                expected.grad_norm[index],
                1e-3,
                &format!("{model} gradient norm {index}"),
            );
            assert!((step.lr - expected.lr[index]).abs() < 1e-12);
        }
        let bytes = std::fs::read(run_dir.path().join("adapter/adapter_model.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(tensors.len(), expected.adapter_norms_after.len());
        for (name, norm) in &expected.adapter_norms_after {
            let view = tensors.tensor(name).unwrap();
            let squares: f64 = view
                .data()
                .chunks_exact(4)
                .map(|chunk| f64::from(f32::from_le_bytes(chunk.try_into().unwrap())).powi(2))
                .sum();
            close(squares.sqrt(), *norm, 1e-3, &format!("{model} {name}"));
        }
    }
}

#[test]
fn accumulated_passes_are_one_big_batch() {
    let job = train_job("qwen2");
    let whole = Batch {
        micro_batch: 4,
        accumulation: 1,
    };
    let single = Batch {
        micro_batch: 1,
        accumulation: 4,
    };
    let (whole, _) = train(TrainJob {
        batch: whole,
        ..job.clone()
    });
    let (single, _) = train(TrainJob { batch: single, ..job });
    for (whole, single) in whole.iter().zip(&single) {
        close(single.loss.unwrap(), whole.loss.unwrap(), 1e-5, "loss");
        close(
            single.grad_norm.unwrap(),
            whole.grad_norm.unwrap(),
            1e-5,
            "gradient norm",
        );
        assert_eq!(single.supervised_tokens, whole.supervised_tokens);
    }
}

#[test]
fn recomputing_layers_changes_no_bit() {
    let job = train_job("qwen3");
    let (kept, kept_dir) = train(TrainJob {
        recompute: Recompute::None,
        ..job.clone()
    });
    let (again, again_dir) = train(TrainJob {
        recompute: Recompute::Layer,
        ..job
    });
    let numbers = |steps: &[Step]| {
        steps
            .iter()
            .map(|step| (step.loss, step.grad_norm))
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&kept), numbers(&again));
    let adapter = |dir: &tempfile::TempDir| {
        std::fs::read(dir.path().join("adapter/adapter_model.safetensors")).unwrap()
    };
    assert!(adapter(&kept_dir) == adapter(&again_dir), "the adapters differ");
}

#[test]
fn ten_steps_on_a_base_in_4_bits_are_those_of_peft_and_bitsandbytes() {
    for model in MODELS {
        let expected = expected(model);
        let (steps, _) = train(TrainJob {
            quantization: Quantization::Nf4,
            ..train_job(model)
        });
        assert_eq!(steps.len(), expected.four_bit.loss.len());
        for (index, step) in steps.iter().enumerate() {
            let (loss, norm) = (expected.four_bit.loss[index], expected.four_bit.grad_norm[index]);
            close(step.loss.unwrap(), loss, 1e-4, &format!("{model} loss {index}"));
            close(
                step.grad_norm.unwrap(),
                norm,
                1e-3,
                &format!("{model} gradient norm {index}"),
            );
        }
        // Without 4 bits the numbers are others, so nothing above holds by itself.
        let apart = (expected.four_bit.loss[0] - expected.training.loss[0]).abs();
        assert!(apart > 1e-3 * expected.training.loss[0], "{model}: {apart}");
    }
}

#[test]
fn padded_rows_and_attention_written_out_give_the_same_losses() {
    let job = train_job("qwen3");
    let (usual, _) = train(job.clone());
    let (padded, _) = train(TrainJob {
        packing: false,
        ..job.clone()
    });
    let (eager, _) = train(TrainJob {
        attention: Attention::Eager,
        ..job
    });
    for ((usual, padded), eager) in usual.iter().zip(&padded).zip(&eager) {
        for other in [padded, eager] {
            close(other.loss.unwrap(), usual.loss.unwrap(), 1e-5, "loss");
            assert_eq!(other.real_tokens, usual.real_tokens);
        }
        assert!(padded.padded_tokens > padded.real_tokens);
        assert!(padded.squared_lengths > usual.squared_lengths);
        assert_eq!(eager.padded_tokens, eager.real_tokens);
    }
}

/// Ten steps over shuffled rows with a checkpoint every three. Padded, so that both counts of tokens go on.
fn checkpointed_job() -> TrainJob {
    TrainJob {
        checkpoint_every: Some(3),
        order: RowOrder::Shuffled,
        packing: false,
        ..train_job("llama")
    }
}

fn steps_of(events: Vec<Event>) -> Vec<Step> {
    events
        .into_iter()
        .filter_map(|event| {
            if let Event::Step(step) = event {
                Some(step)
            } else {
                None
            }
        })
        .collect()
}

/// The number by which a run finds its best checkpoint, to the last bit.
fn smoothed_loss(run_dir: &Path, step: usize) -> u64 {
    let file = run_dir.join(format!("checkpoints/step-{step:06}/state.json"));
    let state: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    state["smoothed_loss"].as_f64().unwrap().to_bits()
}

#[test]
fn a_training_goes_on_from_a_checkpoint_as_if_it_had_never_stopped() {
    let (whole, run_dir) = train(checkpointed_job());
    let mut kept: Vec<String> = std::fs::read_dir(run_dir.path().join("checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(
        kept,
        ["step-000003", "step-000006", "step-000009"],
        "older ones are the parent's to remove"
    );
    for (folder, done) in [("step-000006", 6), ("step-000009", 9)] {
        let again = tempfile::tempdir().unwrap();
        let from = run_dir.path().join("checkpoints").join(folder);
        let events = run_from(Some(from), Work::Train(checkpointed_job()), again.path());
        ended_well(&events);
        let told = |step: &Step| {
            let Step {
                step,
                loss,
                grad_norm,
                lr,
                real_tokens,
                supervised_tokens,
                ..
            } = *step;
            (
                step,
                loss,
                grad_norm,
                lr.to_bits(),
                real_tokens,
                supervised_tokens,
            )
        };
        let smoothed = smoothed_loss(run_dir.path(), done);
        let expected = whole[1..done].iter().fold(whole[0].loss.unwrap(), |mean, step| {
            mean + 0.1 * (step.loss.unwrap() - mean)
        });
        assert_eq!(smoothed, expected.to_bits());
        if done == 6 {
            assert_eq!(smoothed_loss(again.path(), 9), smoothed_loss(run_dir.path(), 9));
        }
        let rest: Vec<_> = steps_of(events).iter().map(told).collect();
        assert_eq!(rest, whole[done..].iter().map(told).collect::<Vec<_>>());
        let adapter = |dir: &Path| std::fs::read(dir.join("adapter/adapter_model.safetensors")).unwrap();
        assert!(
            adapter(run_dir.path()) == adapter(again.path()),
            "the adapters differ"
        );
    }
}

#[test]
fn a_damaged_or_foreign_checkpoint_is_refused() {
    let (_, run_dir) = train(checkpointed_job());
    let good = run_dir.path().join("checkpoints/step-000009");
    let refused = |job: TrainJob, why: &str| {
        let events = run_from(Some(good.clone()), Work::Train(job), run_dir.path());
        let said = events.iter().find_map(|event| {
            if let Event::Error(error) = event {
                Some(error)
            } else {
                None
            }
        });
        let error = said.unwrap_or_else(|| panic!("an error that says {why}"));
        assert!(
            error.code == "checkpoint" && error.message.contains(why),
            "{error:?}"
        );
    };
    refused(
        TrainJob {
            seed: 5,
            ..checkpointed_job()
        },
        "another seed",
    );
    let other = TrainJob {
        model: fixture("qwen2"),
        start_from: None,
        ..checkpointed_job()
    };
    refused(other, "another base model");
    let optimizer = good.join("optimizer.safetensors");
    let mut bytes = std::fs::read(&optimizer).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&optimizer, bytes).unwrap();
    refused(checkpointed_job(), "is not what was written");
    std::fs::write(good.join("state.json"), "{").unwrap();
    refused(checkpointed_job(), "damaged state.json");
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tunesmith-engine"))
        .env_remove("TUNESMITH_TORCH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let job = Job {
        run_dir: "unused".into(),
        resume_from: None,
        device: "cuda:0".into(),
        threads: None,
        work: Work::Train(train_job("llama")),
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(encode(&Request::Job(Box::new(job))).as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"code\":\"device\""), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_end_of_stdin_ends_the_engine() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tunesmith-engine"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdin.take());
    assert!(
        !child.wait().unwrap().success(),
        "an engine whose parent went away has not done its job"
    );
}

#[test]
fn a_training_reports_its_counts_and_its_adapter() {
    let run_dir = tempfile::tempdir().unwrap();
    let events = run(Work::Train(train_job("llama")), run_dir.path());
    ended_well(&events);
    let Some(Event::Result(Outcome::Train(stats))) = events.iter().rev().nth(1) else {
        panic!("a result before bye")
    };
    assert_eq!(stats.steps, 10);
    assert!(stats.peak_bytes.unwrap() > 100_000, "{stats:?}");
    let adapter = run_dir.path().join(stats.adapter.as_ref().unwrap());
    let json = |file: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(adapter.join(file)).unwrap()).unwrap()
    };
    let origin = train_job("llama").origin.unwrap();
    let (config, base) = (json("adapter_config.json"), json("tunesmith_base.json"));
    assert_eq!(config["base_model_name_or_path"], origin.id.as_str());
    assert_eq!(config["revision"], origin.revision.as_str());
    assert_eq!(
        (&base["model"], &base["revision"]),
        (&config["base_model_name_or_path"], &config["revision"])
    );
}
