//! Run folders made without an engine, for tests and measurements of what reads many of them. Records are written by
//! the types that real runs are written by, and figures are counted from the steps as they are for a real run.
//!
//! ```
//! use tunesmith_lab::{run::Run, testing::TestRun};
//!
//! let runs = tempfile::tempdir().unwrap();
//! let folder = TestRun::new("2026-01-01T00:00:00Z").tokens_per_sec(500.0).write(runs.path());
//! assert_eq!(Run::open(&folder).unwrap().training().unwrap().unwrap().valid_steps, 96);
//! ```

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::json;
use tunesmith_measure::{
    ModelShape, Peaks, Tflops,
    judge::{CheckId, Finding, Judgement, Severity},
};
use tunesmith_protocol::{
    Calibration, CopyBandwidth, DType, Event, GemmMeasurement, Layout, RunStatus, Step, ValueCheck, encode,
};
use tunesmith_setup::environments::Engine;

use crate::{
    estimate::{Place, corrected, need_at_most, record},
    evaluate::{Change, Evaluation, Side},
    files::sha256_hex,
    recipe::Recipe,
    run::{MachineRecord, Manifest, RECORD_VERSION, Run, Summary, Timings},
    supervisor::Failure,
    text_to_sql::Scores,
};

/// Tokens of a step, padding included, and those of them that are real and supervised.
const STEP_TOKENS: [u64; 3] = [1600, 1500, 300];

/// Questions that a run asks.
const QUESTIONS: usize = 100;

/// A run that is over, as a record of one: the quickstart on a processor, which went well.
#[derive(Clone, Debug)]
pub struct TestRun {
    started: String,
    recipe: String,
    status: RunStatus,
    finished: bool,
    steps: u64,
    tokens_per_sec: f64,
    peak_bytes: u64,
    last_loss: f64,
    config_hash: String,
    device: String,
    matches: Option<(usize, usize)>,
    model_path: PathBuf,
    peak_tflops: Option<f64>,
}

impl TestRun {
    /// A run that began at this time, RFC 3339 in UTC.
    pub fn new(started: &str) -> Self {
        Self {
            started: started.to_owned(),
            recipe: "quickstart".to_owned(),
            status: RunStatus::Ok,
            finished: true,
            steps: 96,
            tokens_per_sec: 480.0,
            peak_bytes: 1 << 30,
            last_loss: 0.35,
            config_hash: sha256_hex(b"quickstart"),
            device: "cpu".to_owned(),
            matches: Some((3, 62)),
            model_path: PathBuf::from("/models/SmolLM2-135M-Instruct.Q4_1.gguf"),
            peak_tflops: None,
        }
    }

    /// By another recipe that comes with the program.
    #[must_use]
    pub fn recipe(mut self, name: &str) -> Self {
        name.clone_into(&mut self.recipe);
        self
    }

    /// It ended so.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> Self {
        self.status = status;
        self
    }

    /// The program that led it went away before its end.
    #[must_use]
    pub fn unfinished(mut self) -> Self {
        self.finished = false;
        self
    }

    /// It did so many steps.
    #[must_use]
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = steps;
        self
    }

    /// About so many real tokens a second.
    #[must_use]
    pub fn tokens_per_sec(mut self, tokens_per_sec: f64) -> Self {
        self.tokens_per_sec = tokens_per_sec;
        self
    }

    /// It held so many bytes at most.
    #[must_use]
    pub fn peak_bytes(mut self, bytes: u64) -> Self {
        self.peak_bytes = bytes;
        self
    }

    /// The loss went down to this.
    #[must_use]
    pub fn last_loss(mut self, loss: f64) -> Self {
        self.last_loss = loss;
        self
    }

    /// It is a repeat of this experiment.
    #[must_use]
    pub fn config_hash(mut self, hash: &str) -> Self {
        hash.clone_into(&mut self.config_hash);
        self
    }

    /// On this device.
    #[must_use]
    pub fn device(mut self, device: &str) -> Self {
        device.clone_into(&mut self.device);
        self
    }

    /// Of 100 questions so many were answered rightly before and after.
    #[must_use]
    pub fn matches(mut self, before: usize, after: usize) -> Self {
        self.matches = Some((before, after));
        self
    }

    /// It asked no questions.
    #[must_use]
    pub fn without_scores(mut self) -> Self {
        self.matches = None;
        self
    }

    /// Its model lay there.
    #[must_use]
    pub fn model_path(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.model_path);
        self
    }

    /// Its processor had been calibrated: products reach so many TFLOPS, and copies 10 GiB a second.
    #[must_use]
    pub fn calibrated(mut self, peak_tflops: f64) -> Self {
        self.peak_tflops = Some(peak_tflops);
        self
    }

    /// Writes its folder, named as that of a real run, into the folder of all runs.
    ///
    /// # Panics
    /// Where the folder cannot be written, or the recipe does not come with the program.
    pub fn write(&self, runs_dir: &Path) -> PathBuf {
        let recipe = Recipe::load(&self.recipe).expect("a recipe that comes with the program");
        let time: String = self.started.chars().filter(char::is_ascii_digit).collect();
        let hash = &self.config_hash[..self.config_hash.len().min(8)];
        let id = format!("{}-{}-{}-{hash}", &time[..8], &time[8..], recipe.name);
        let folder = runs_dir.join(&id);
        fs::create_dir_all(&folder).expect("a folder that can be made");
        let text = recipe.to_toml().expect("a recipe that can be written");
        fs::write(folder.join("recipe.toml"), text).expect("a file that can be written");
        let manifest = self.manifest(&id, &recipe);
        write(&folder.join("manifest.json"), &manifest);
        fs::write(folder.join("events.jsonl"), self.events()).expect("a file that can be written");
        if self.finished {
            let summary = self.summary(&folder);
            if summary.adapter.is_some() {
                write_adapter(&folder);
            }
            write(&folder.join("summary.json"), &summary);
        }
        folder
    }

    fn events(&self) -> String {
        let mut text = String::new();
        let mut elapsed_secs = 4.0;
        for step in 1..=self.steps {
            // Steps differ a little, as real ones do, and the first takes longer.
            let wobble = 1.0 + 0.02 * ((step * 7) % 5) as f64 - 0.04;
            let warm_up = if step == 1 { 1.5 } else { 1.0 };
            let dt_secs = wobble * warm_up * STEP_TOKENS[1] as f64 / self.tokens_per_sec;
            elapsed_secs += dt_secs;
            let done = step as f64 / self.steps as f64;
            let event = Event::Step(Step {
                step,
                loss: Some(self.last_loss + 2.0 * (1.0 - done).powi(2)),
                grad_norm: Some(1.0 - 0.5 * done),
                lr: 1.5e-3 * (1.0 - done),
                dt_secs,
                elapsed_secs,
                padded_tokens: step * STEP_TOKENS[0],
                real_tokens: step * STEP_TOKENS[1],
                supervised_tokens: step * STEP_TOKENS[2],
                squared_lengths: 8 * 200 * 200,
                peak_bytes: Some(self.peak_bytes),
            });
            let _ = write!(text, "{}", encode(&event));
        }
        text
    }

    fn manifest(&self, id: &str, recipe: &Recipe) -> Manifest {
        let nowhere = Path::new("no such folder");
        let backend = if self.device == "cpu" { "cpu" } else { "hip" };
        let machine = MachineRecord {
            machine: tunesmith_probe::machine(nowhere),
            gpus: Vec::new(),
        };
        let shape = ModelShape {
            hidden: 576,
            layers: 30,
            heads: 9,
            kv_heads: 3,
            head_dim: 64,
            intermediate: 1536,
            vocab: 49152,
            tied: true,
            qkv_bias: false,
            qk_norm: false,
        };
        let place = Place {
            on_processor: self.device == "cpu",
            dtype: recipe.dtype(&self.device),
            plain_attention: false,
            engine: Engine::Native,
        };
        let (need, work) = need_at_most(recipe, &shape, place, 320).expect("modules that carry adapters");
        let peak = self.peak_tflops.unwrap_or(1.0);
        let calibrated = self
            .peak_tflops
            .map(|peak| json!({ "taken": self.started, "result": calibration(peak) }));
        let manifest = json!({
            "version": RECORD_VERSION,
            "id": id,
            "created": self.started,
            "tunesmith": env!("CARGO_PKG_VERSION"),
            "pid": 4711,
            "config_hash": self.config_hash,
            "recipe": recipe.name,
            "title": recipe.title,
            "device": self.device,
            "threads": null,
            "engine": {
                "protocol": tunesmith_protocol::PROTOCOL_VERSION,
                "engine": "tunesmith-engine",
                "engine_version": env!("CARGO_PKG_VERSION"),
                "torch": "2.11.0",
                "backend": backend,
                "threads": 2,
            },
            "machine": machine,
            "environment": { "OMP_WAIT_POLICY": "passive" },
            "model": {
                "name": "SmolLM2-135M-Instruct.Q4_1.gguf",
                "path": self.model_path,
                "fingerprint": sha256_hex(b"model"),
                "architecture": "llama",
                "shape": shape,
                "parameters": shape.parameters(),
                "context_length": 8192,
            },
            "data": data(),
            "calibration": calibrated,
            "peaks": Peaks { theoretical: None, practical: Some(Tflops(peak)) },
            "predicted": need,
            "memory": record(&corrected(need, &work, &[]), work, None),
        });
        serde_json::from_value(manifest).expect("a manifest as it is written")
    }

    fn summary(&self, folder: &Path) -> Summary {
        let run = Run::open(folder).expect("a run that was just written");
        let training = run.training().expect("steps that were just written");
        let well = self.status == RunStatus::Ok;
        let failed = !matches!(
            self.status,
            RunStatus::Ok | RunStatus::TimeBoxed | RunStatus::Cancelled
        );
        let train_secs = training.as_ref().map(|training| training.wall_secs);
        let failure = failed.then(|| Failure {
            code: self.status.name().to_owned(),
            message: format!("it ended as {}", self.status.name()),
            hints: Vec::new(),
            last_lines: Vec::new(),
        });
        Summary {
            version: RECORD_VERSION,
            status: self.status,
            reason: (!well).then(|| format!("it ended as {}; no adapter was saved", self.status.name())),
            failure,
            judge: self.judgement(),
            finished: self.started.clone(),
            engine: None,
            evaluation: self.evaluation(well),
            adapter: well.then(|| PathBuf::from("adapter")),
            timings: Timings {
                prepare_secs: 1.0,
                train_secs,
                total_secs: 1.0 + train_secs.unwrap_or(0.0),
                ..Timings::default()
            },
            contention: Vec::new(),
            memory: None,
            energy: None,
            mean_watts: None,
            training,
        }
    }

    fn judgement(&self) -> Judgement {
        let red = matches!(self.status, RunStatus::Invalid | RunStatus::Nan);
        let finding = |id: CheckId| Finding {
            id,
            severity: if red && id == CheckId::Finite {
                Severity::Red
            } else {
                Severity::Green
            },
            step: None,
            found: format!("{} was looked at", id.title()),
            means: String::new(),
            remedies: Vec::new(),
        };
        Judgement {
            findings: CheckId::ALL.into_iter().map(finding).collect(),
            not_checked: Vec::new(),
            last_good_step: (self.steps > 0).then_some(if red { self.steps / 2 } else { self.steps }),
        }
    }

    fn evaluation(&self, well: bool) -> Evaluation {
        let Some((before, after)) = self.matches else {
            return Evaluation::skipped("the recipe asks no questions (evaluate.questions = 0)");
        };
        let side = |name: &str, matches: usize| {
            let points = 100.0 * matches as f64 / QUESTIONS as f64;
            let half_width =
                tunesmith_measure::stats::binomial_half_width(matches as u64, QUESTIONS as u64).ok();
            Side {
                scores: Scores {
                    total: QUESTIONS,
                    exact: matches / 2,
                    executes: matches,
                    matches,
                    by_category: Vec::new(),
                },
                points,
                half_width_points: half_width.map(|half| 100.0 * half),
                stats: None,
                wall_secs: 30.0,
                answers: PathBuf::from(format!("answers/{name}.jsonl")),
            }
        };
        let (before, after) = (side("base", before), well.then(|| side("tuned", after)));
        Evaluation {
            change: after.as_ref().map(|after| Change {
                points: after.points - before.points,
                paired: None,
            }),
            before: Some(before),
            after,
            ..Evaluation::default()
        }
    }
}

/// What a processor reached in one product.
fn calibration(peak_tflops: f64) -> Calibration {
    Calibration {
        device: "cpu".to_owned(),
        threads: 2,
        gemm: vec![GemmMeasurement {
            dtype: DType::F32,
            layout: Layout::Nt,
            side: 1024,
            warmup: 2,
            iterations: 10,
            mean_tflops: peak_tflops,
            best_tflops: peak_tflops,
            median_tflops: peak_tflops,
            emulated: false,
            values: ValueCheck {
                max_error: 1e-7,
                tolerance: 1e-5,
                passed: true,
            },
        }],
        copy: CopyBandwidth {
            bytes: 1 << 28,
            iterations: 10,
            best_gib_per_sec: 10.0,
            median_gib_per_sec: 10.0,
        },
        ..Calibration::default()
    }
}

/// The data of a run, as its manifest tells it.
fn data() -> serde_json::Value {
    json!({
        "source": "text-to-sql",
        "source_sha256": sha256_hex(b"source"),
        "rows_sha256": sha256_hex(b"rows"),
        "test_sha256": sha256_hex(b"test"),
        "report": {
            "rows": 768,
            "dropped_rows": 0,
            "duplicates": 0,
            "real_tokens": 768 * 180,
            "supervised_tokens": 768 * 36,
            "supervised_share": 0.2,
            "fewest_supervised": 12,
            "longest": 320,
            "shortest": 90,
            "mean_length": 180.0,
            "boundary_differences": 0,
            "altered_texts": 0,
            "largest_token": 49151,
            "vocabulary": 49152,
            "sample": {
                "id": "1",
                "parts": [
                    { "supervised": false, "text": "<|im_start|>user\nHow many singers are there?<|im_end|>\n" },
                    { "supervised": true, "text": "SELECT count(*) FROM singer<|im_end|>" },
                ],
            },
        },
    })
}

/// Writes a checkpoint of a run's folder that looks usable.
///
/// # Panics
/// Where it cannot be written.
pub fn write_checkpoint(run: &Path, step: u64) -> PathBuf {
    let folder = run.join("checkpoints").join(format!("step-{step:06}"));
    fs::create_dir_all(&folder).expect("a folder that can be made");
    let mut hashes = serde_json::Map::new();
    for name in ["adapter.safetensors", "optimizer.safetensors"] {
        let bytes = format!("{name} of step {step}");
        hashes.insert(name.to_owned(), sha256_hex(bytes.as_bytes()).into());
        fs::write(folder.join(name), bytes).expect("a file that can be written");
    }
    write(
        &folder.join("state.json"),
        &json!({ "version": 1, "step": step, "files": hashes }),
    );
    folder
}

fn write_adapter(run: &Path) {
    let folder = run.join("adapter");
    fs::create_dir_all(&folder).expect("a folder that can be made");
    fs::write(folder.join("adapter_model.safetensors"), b"weights").expect("a file that can be written");
}

fn write<T: Serialize>(path: &Path, value: &T) {
    let text = serde_json::to_string_pretty(value).expect("a record that becomes JSON");
    fs::write(path, text + "\n").expect("a file that can be written");
}
