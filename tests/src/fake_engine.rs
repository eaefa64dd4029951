//! An engine that replays a script, so that every way a run can go wrong is tested through the real supervisor, the
//! real command line and the real window. It speaks the protocol and computes nothing.
//!
//! `FAKE_ENGINE_SCRIPT` names a file of JSON lines, each one action, done in order:
//!
//! | action | what it does |
//! |---|---|
//! | `{"hello": 1}` | says hello with this protocol version |
//! | `{"wait_job": {}}` | waits for the job line |
//! | `{"emit": {…}}`, `{"raw": "text"}`, `{"stderr": "text"}` | writes a line |
//! | `{"steps": {"from": 1, "to": 3}}` | writes steps with a falling loss and the tokens that the job's rows have; see below |
//! | `{"progress": {"stage": "load", "total": 9, "unit": "tensors"}}` | writes a progress for each unit, from 0; `"delay_ms"` lies between two |
//! | `{"answer_all": "text"}` | answers every prompt of the job with this text |
//! | `{"stream_all": {"text": "two words"}}` | the same word by word where the job asks for pieces; `"delay_ms"` lies between two |
//! | `{"garbage": {"lines": 9, "longest": 100}}` | writes lines of random bytes, the last of them of `longest` bytes; the same each time |
//! | `{"write_job": "file"}` | writes the job down as JSON |
//! | `{"save_adapter": {}}` | writes an adapter folder into the run's folder |
//! | `{"result": {}}` | writes a result that fits the job |
//! | `{"bye": "ok"}` | says bye with this status |
//! | `{"wait_stop": {}}` | waits for a request to stop |
//! | `{"write_pid": "file"}` | writes its process id |
//! | `{"write_env": {"name": "X", "file": "file"}}` | writes the value that a variable has for it, or nothing where it is not set |
//! | `{"ignore_termination": {}}` | no longer leaves on SIGTERM |
//! | `{"ignore_end_of_input": {}}` | no longer leaves when its stdin ends, as no engine may |
//! | `{"wait_forever": {}}` | does nothing more |
//! | `{"exit": 3}`, `{"kill_self": 9}` | leaves, or is killed by a signal |
//!
//! `steps` may have `"bad": true`, which leaves loss and norm out; `"delay_ms": 20`, the real time from one step to the
//! next; and `"clock_jump": {"at": 5, "by_secs": -60.0}`, which moves the engine's clock from that step on. An engine that
//! waits between two steps, progresses or words heeds a stop as a real one does: it saves if it shall, and leaves.
//!
//! What tests of a window drive: *slow* is `delay_ms`; *flood* is `"delay_ms": 1`, a thousand steps a second; *silence* is
//! a hello and `wait_forever`; *out of memory* and *disk full* are an `emit` of an `error` with the code `out_of_memory` or
//! `disk_full`, then `bye` with `oom` or `crashed`, or an `exit`; *another version* is `{"hello": 99}`.
//!
//! An action with `"when": "train"` is passed over unless the job is of that kind, one with `"env": "NAME=value"` unless
//! its environment has this, one with `"rows_above": 4` unless the job trains more rows a pass. Like every engine it leaves at
//! once when its stdin ends.

use std::{
    fs,
    io::{self, BufRead, Write},
    path::Path,
    process::exit,
    sync::atomic::{AtomicBool, Ordering},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::Value;
use tunesmith_data::{Rows, epoch_order};
use tunesmith_protocol::{
    AllocatorOverhead, Answer, AnswerStats, AttentionBackend, AttentionMeasurement, AttentionShape, Bye,
    CalibrateJob, Calibration, CalibrationStage, CopyBandwidth, DType, Event, Finish, GemmMeasurement, Hello,
    InputSize, Job, KernelCheck, KernelName, Layout, Linear, LinearMeasurement, Outcome, OverheadSource,
    Piece, Progress, Prompt, Request, RunStatus, StageBudget, StageTime, Step, StopHow, Sustained,
    SustainedPoint, TrainStats, ValueCheck, Work, decode_request, encode,
};

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    when: Option<String>,
    #[serde(default)]
    env: Option<String>,
    #[serde(default)]
    rows_above: Option<usize>,
    #[serde(flatten)]
    action: Action,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Hello(u32),
    WaitJob {},
    Emit(Value),
    Raw(String),
    Stderr(String),
    Steps(Steps),
    Progress(Stage),
    AnswerAll(String),
    StreamAll(Streamed),
    Garbage(Garbage),
    WriteJob(String),
    SaveAdapter {},
    Result {},
    Bye(RunStatus),
    WaitStop {},
    WritePid(String),
    WriteEnv(Variable),
    IgnoreTermination {},
    IgnoreEndOfInput {},
    WaitForever {},
    Exit(i32),
    KillSelf(i32),
}

#[derive(Deserialize)]
struct Steps {
    from: u64,
    to: u64,
    #[serde(default)]
    bad: bool,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    clock_jump: Option<ClockJump>,
}

#[derive(Deserialize)]
struct ClockJump {
    at: u64,
    by_secs: f64,
}

#[derive(Deserialize)]
struct Stage {
    #[serde(rename = "stage")]
    name: String,
    total: u64,
    unit: String,
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Deserialize)]
struct Streamed {
    text: String,
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    file: String,
}

#[derive(Deserialize)]
struct Garbage {
    lines: usize,
    longest: usize,
}

/// Whether the end of stdin is ignored.
static DEAF: AtomicBool = AtomicBool::new(false);

struct Engine {
    requests: Receiver<Request>,
    job: Option<Job>,
    steps: u64,
    answers: u64,
}

fn main() -> io::Result<()> {
    let script = std::env::var("FAKE_ENGINE_SCRIPT").map_err(io::Error::other)?;
    let text = fs::read_to_string(script)?;
    let mut engine = Engine {
        requests: listen(),
        job: None,
        steps: 0,
        answers: 0,
    };
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(io::Error::other)?;
        let kind = engine.job.as_ref().map(|job| job.work.kind());
        let rows = engine.job.as_ref().map_or(0, |job| match &job.work {
            Work::Train(train) => train.batch.micro_batch,
            _ => 0,
        });
        let is_for_job = line.when.is_none() || line.when.as_deref() == kind;
        let is_for_rows = line.rows_above.is_none_or(|above| rows > above);
        if is_for_job && is_for_rows && line.env.as_deref().is_none_or(is_set) {
            engine.act(line.action)?;
        }
    }
    Ok(())
}

/// Whether the environment has `NAME=value`.
fn is_set(variable: &str) -> bool {
    let Some((name, value)) = variable.split_once('=') else {
        return false;
    };
    std::env::var(name).is_ok_and(|found| found == value)
}

fn listen() -> Receiver<Request> {
    let (sender, requests) = channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if let Ok(request) = decode_request(&line) {
                // The script may have ended already.
                let _ = sender.send(request);
            }
        }
        if !DEAF.load(Ordering::SeqCst) {
            exit(1);
        }
        // The requests have not ended: who waits for one waits for ever.
        loop {
            thread::park();
        }
    });
    requests
}

impl Engine {
    fn act(&mut self, action: Action) -> io::Result<()> {
        match action {
            Action::Hello(protocol) => write_event(&Event::Hello(Hello {
                protocol,
                engine: "fake-engine".to_owned(),
                engine_version: "1.0.0".to_owned(),
                torch: "2.11.0".to_owned(),
                backend: "cpu".to_owned(),
                threads: 1,
            })),
            Action::WaitJob {} => loop {
                if let Request::Job(job) = self.request()? {
                    self.job = Some(*job);
                    return Ok(());
                }
            },
            Action::WaitStop {} => loop {
                if let Request::Stop { .. } = self.request()? {
                    return Ok(());
                }
            },
            Action::Emit(value) => write_line(&value.to_string()),
            Action::Raw(text) => write_line(&text),
            Action::Stderr(text) => writeln!(io::stderr(), "{text}"),
            Action::Steps(steps) => self.emit_steps(&steps),
            Action::Progress(stage) => self.emit_progress(&stage),
            Action::AnswerAll(text) => self.answer_all(&text, None),
            Action::StreamAll(streamed) => {
                self.answer_all(&streamed.text, Some(Pace::every_ms(streamed.delay_ms)))
            }
            Action::Garbage(garbage) => write_garbage(&garbage),
            Action::WriteJob(path) => fs::write(path, encode(self.job()?)),
            Action::SaveAdapter {} => self.save_adapter(),
            Action::Result {} => self.result(),
            Action::Bye(status) => write_event(&Event::Bye(Bye { status })),
            Action::WritePid(path) => fs::write(path, std::process::id().to_string()),
            Action::WriteEnv(variable) => {
                let value = std::env::var(variable.name).unwrap_or_default();
                fs::write(variable.file, value)
            }
            Action::IgnoreTermination {} => ctrlc::set_handler(|| {}).map_err(io::Error::other),
            Action::IgnoreEndOfInput {} => {
                DEAF.store(true, Ordering::SeqCst);
                Ok(())
            }
            Action::WaitForever {} => loop {
                thread::park();
            },
            Action::Exit(status) => exit(status),
            Action::KillSelf(number) => kill_self(number),
        }
    }

    fn request(&self) -> io::Result<Request> {
        self.requests.recv().map_err(io::Error::other)
    }

    fn job(&self) -> io::Result<&Job> {
        self.job
            .as_ref()
            .ok_or_else(|| io::Error::other("the script has no wait_job before this action"))
    }

    fn save_adapter(&self) -> io::Result<()> {
        let folder = self.job()?.run_dir.join("adapter");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("adapter_config.json"), "{}")?;
        fs::write(folder.join("adapter_model.safetensors"), "not a real one")
    }

    /// Waits for the time of the next line; leaves when it is asked to stop meanwhile.
    fn wait(&self, pace: &mut Pace) -> io::Result<()> {
        if pace.every.is_zero() {
            return Ok(());
        }
        pace.next += pace.every;
        loop {
            let left = pace.next.saturating_duration_since(Instant::now());
            match self.requests.recv_timeout(left) {
                Ok(Request::Stop { how }) => self.leave(how)?,
                Ok(Request::Job(_)) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }

    /// Does what a real engine does when it is stopped.
    fn leave(&self, how: StopHow) -> io::Result<()> {
        if how != StopHow::Now {
            if how == StopHow::Save && matches!(self.job()?.work, Work::Train(_)) {
                self.save_adapter()?;
            }
            self.result()?;
        }
        let status = RunStatus::Cancelled;
        write_event(&Event::Bye(Bye { status }))?;
        exit(130)
    }

    fn emit_progress(&self, stage: &Stage) -> io::Result<()> {
        let mut pace = Pace::every_ms(stage.delay_ms);
        for done in 0..=stage.total {
            self.wait(&mut pace)?;
            write_event(&Event::Progress(Progress {
                stage: stage.name.clone(),
                done,
                total: stage.total,
                unit: stage.unit.clone(),
                eta_secs: (done > 0).then(|| (stage.delay_ms * (stage.total - done)) as f64 / 1000.0),
            }))?;
        }
        Ok(())
    }

    fn emit_steps(&mut self, steps: &Steps) -> io::Result<()> {
        let counts = self.counts(steps.to)?;
        let mut pace = Pace::every_ms(steps.delay_ms);
        for step in steps.from..=steps.to {
            self.wait(&mut pace)?;
            self.steps = step;
            let jump = steps.clock_jump.as_ref().filter(|jump| step >= jump.at);
            let jump_secs = jump.map_or(0.0, |jump| jump.by_secs);
            write_event(&Event::Step(Step {
                step,
                loss: (!steps.bad).then(|| 2.0 / step as f64),
                grad_norm: (!steps.bad).then_some(0.5),
                lr: 1e-3,
                dt_secs: 0.5,
                elapsed_secs: 1.0 + 0.5 * step as f64 + jump_secs,
                real_tokens: counts[step as usize].0,
                padded_tokens: counts[step as usize].0,
                supervised_tokens: counts[step as usize].1,
                squared_lengths: 5000,
                peak_bytes: Some(1 << 30),
            }))?;
        }
        Ok(())
    }

    /// Real and supervised tokens up to each step from 0: those of the rows in the job's order, or a round number for
    /// a job without rows.
    fn counts(&self, steps: u64) -> io::Result<Vec<(u64, u64)>> {
        let Work::Train(job) = &self.job()?.work else {
            return Ok((0..=steps).map(|step| (100 * step, 20 * step)).collect());
        };
        let rows = Rows::read(&job.rows).map_err(io::Error::other)?.rows;
        let per_step = job.batch.micro_batch * job.batch.accumulation;
        let mut walk = (0..).flat_map(|epoch| epoch_order(rows.len(), job.seed, epoch));
        let mut counts = vec![(0, 0)];
        let mut sum = (0, 0);
        for _ in 0..steps {
            for index in walk.by_ref().take(per_step) {
                sum.0 += rows[index].input_ids.len() as u64;
                sum.1 += rows[index].supervised_tokens() as u64;
            }
            counts.push(sum);
        }
        Ok(counts)
    }

    fn answer_all(&mut self, text: &str, mut words: Option<Pace>) -> io::Result<()> {
        let Work::Answer(job) = &self.job()?.work else {
            return Err(io::Error::other("answers need an answer job"));
        };
        let prompts = read_prompts(&job.prompts)?;
        let stream = job.stream;
        self.answers = prompts.len() as u64;
        for prompt in prompts {
            if let (true, Some(pace)) = (stream, &mut words) {
                for word in text.split_inclusive(' ') {
                    self.wait(pace)?;
                    write_event(&Event::Piece(Piece {
                        id: prompt.id.clone(),
                        text: word.to_owned(),
                    }))?;
                }
            }
            write_event(&Event::Answer(Answer {
                id: prompt.id,
                text: text.to_owned(),
                tokens: 5,
                finish: Finish::Stop,
            }))?;
        }
        Ok(())
    }

    fn result(&self) -> io::Result<()> {
        let outcome = match &self.job()?.work {
            Work::Answer(_) => Outcome::Answer(AnswerStats {
                answers: self.answers,
                prompt_tokens: 100 * self.answers,
                generated_tokens: 5 * self.answers,
                prefill_secs: 0.5,
                decode_secs: 0.5,
                weight_bytes: None,
                other_base: None,
            }),
            Work::Calibrate(job) => Outcome::Calibrate(calibration(&self.job()?.device, job)),
            _ => Outcome::Train(TrainStats {
                steps: self.steps,
                first_step_secs: 1.5,
                total_secs: 1.0 + 0.5 * self.steps as f64,
                load_secs: 1.0,
                trainable_parameters: 1000,
                weight_bytes: Some(1 << 29),
                peak_bytes: Some(1 << 30),
                peak_process_bytes: Some(1 << 31),
                adapter: Some("adapter".into()),
                other_base: None,
            }),
        };
        write_event(&Event::Result(outcome))
    }
}

/// The real time from one line to the next; a late line does not delay those after it.
struct Pace {
    every: Duration,
    next: Instant,
}

impl Pace {
    fn every_ms(ms: u64) -> Self {
        Self {
            every: Duration::from_millis(ms),
            next: Instant::now(),
        }
    }
}

/// A measurement such as a small processor gives: the stages that the job names, or all of them. As on some cards,
/// products are faster with hipBLASLt, and attention has its kernels with AOTriton's flag alone.
fn calibration(device: &str, job: &CalibrateJob) -> Calibration {
    let plan = StageBudget::plan(device != "cpu", false);
    let plan = if job.stages.is_empty() { &plan } else { &job.stages };
    let values = ValueCheck {
        max_error: 3.1e-7,
        tolerance: 1e-5,
        passed: true,
    };
    let pace = if is_set("TORCH_BLAS_PREFER_HIPBLASLT=1") {
        1.35
    } else {
        1.0
    };
    let gemm = |dtype, layout, tflops: f64, emulated| GemmMeasurement {
        dtype,
        layout,
        side: 1024,
        warmup: 2,
        iterations: 20,
        mean_tflops: tflops * pace,
        best_tflops: tflops * pace * 1.06,
        median_tflops: tflops * pace * 1.01,
        emulated,
        values,
    };
    let kernel = |kernel| KernelCheck {
        kernel,
        dtype: DType::F32,
        inputs: InputSize::Ordinary,
        values,
    };
    let has_kernels = device == "cpu" || is_set("TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1");
    let mut result = Calibration {
        device: device.to_owned(),
        threads: 1,
        ..Calibration::default()
    };
    for budget in plan {
        result.stages.push(StageTime {
            stage: budget.stage,
            secs: budget.secs,
            cut: false,
        });
        match budget.stage {
            CalibrationStage::Values => {
                result.kernels = vec![
                    kernel(KernelName::AttentionForward),
                    kernel(KernelName::AttentionBackward),
                    kernel(KernelName::LoraLayerForward),
                    kernel(KernelName::LoraLayerBackward),
                    kernel(KernelName::Nf4RoundTrip),
                ];
            }
            CalibrationStage::Gemm => {
                result.gemm = vec![
                    gemm(DType::F32, Layout::Nn, 0.148, false),
                    gemm(DType::F32, Layout::Nt, 0.152, false),
                    gemm(DType::F32, Layout::Tn, 0.141, false),
                    gemm(DType::Bf16, Layout::Nt, 0.012, true),
                ];
            }
            CalibrationStage::Linears => result.linears = linears(job),
            CalibrationStage::Attention => result.attention = attention(has_kernels, values),
            CalibrationStage::Copy => {
                result.copy = CopyBandwidth {
                    bytes: 1 << 28,
                    iterations: 10,
                    best_gib_per_sec: 11.5,
                    median_gib_per_sec: 11.1,
                };
            }
            CalibrationStage::Allocator => {
                result.allocator = Some(AllocatorOverhead {
                    source: if device == "cpu" {
                        OverheadSource::Process
                    } else {
                        OverheadSource::Device
                    },
                    used_bytes: 700 << 20,
                    allocator_bytes: 256 << 20,
                    others_bytes: None,
                });
            }
            CalibrationStage::Sustained => {
                // Slower by 8 % from the middle on.
                let point = |second: u32| SustainedPoint {
                    at_secs: f64::from(second),
                    tflops: 0.152
                        * if f64::from(second) * 2.0 > budget.secs {
                            0.92
                        } else {
                            1.0
                        },
                };
                result.sustained = Some(Sustained {
                    dtype: DType::F32,
                    layout: Layout::Nt,
                    side: 1024,
                    points: (1..=budget.secs as u32).map(point).collect(),
                });
            }
            CalibrationStage::Variants => {}
        }
    }
    result
}

/// Each layer forwards and for its input's gradient.
fn linears(job: &CalibrateJob) -> Vec<LinearMeasurement> {
    let of = |linear: &Linear, layout: Layout| {
        let (n, k) = match layout {
            Layout::Nn => (linear.inputs, linear.outputs),
            _ => (linear.outputs, linear.inputs),
        };
        LinearMeasurement {
            name: linear.name.clone(),
            dtype: DType::F32,
            layout,
            m: job.linear_tokens.unwrap_or(512),
            n,
            k,
            iterations: 5,
            mean_tflops: 0.1,
            best_tflops: 0.11,
            median_tflops: 0.1,
        }
    };
    let both = |linear| [of(linear, Layout::Nt), of(linear, Layout::Nn)];
    job.linears.iter().flat_map(both).collect()
}

/// Flash attention where there are kernels for it, which torch takes then, and the plain path.
fn attention(has_kernels: bool, values: ValueCheck) -> Vec<AttentionMeasurement> {
    let of = |backend, millis: f64, dispatched, proof: Option<&str>| AttentionMeasurement {
        backend,
        dtype: DType::F32,
        shape: AttentionShape {
            rows: 2,
            heads: 9,
            kv_heads: 3,
            length: 256,
            head_dim: 64,
        },
        dispatched,
        proof: proof.map(str::to_owned),
        forward_secs: proof.map(|_| millis / 3000.0),
        backward_secs: proof.map(|_| millis / 1500.0),
        iterations: if proof.is_some() { 10 } else { 0 },
        peak_bytes: proof.map(|_| 4 << 20),
        values: proof.map(|_| values),
        unavailable: proof
            .is_none()
            .then(|| "this torch has no flash kernel for this device, format and size".to_owned()),
    };
    let flash = has_kernels.then_some("ScaledDotProductFlashAttentionBackward0");
    vec![
        of(
            AttentionBackend::Math,
            12.0,
            !has_kernels,
            Some("UnsafeViewBackward0"),
        ),
        of(AttentionBackend::Flash, 3.0, has_kernels, flash),
    ]
}

/// Bytes from a fixed beginning, none of which ends a line.
fn write_garbage(garbage: &Garbage) -> io::Result<()> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state as u8 {
            b'\n' => b'{',
            other => other,
        }
    };
    let mut out = io::stdout().lock();
    for line in 1..=garbage.lines {
        let length = garbage.longest * line / garbage.lines;
        let mut bytes: Vec<u8> = (0..length).map(|_| byte()).collect();
        bytes.push(b'\n');
        out.write_all(&bytes)?;
    }
    out.flush()
}

fn read_prompts(path: &Path) -> io::Result<Vec<Prompt>> {
    io::BufReader::new(fs::File::open(path)?)
        .lines()
        .map(|line| serde_json::from_str(&line?).map_err(io::Error::other))
        .collect()
}

fn write_event(event: &Event) -> io::Result<()> {
    write_line(encode(event).trim_end())
}

fn write_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

#[cfg(unix)]
fn kill_self(number: i32) -> io::Result<()> {
    use rustix::process::{Signal, getpid, kill_process};
    let signal = Signal::from_named_raw(number).ok_or_else(|| io::Error::other("no such signal"))?;
    // A signal may arrive a moment later, and the first of some (SIGSEGV) only ends the runtime's own handling of it.
    for _ in 0..100 {
        kill_process(getpid(), signal)?;
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[cfg(not(unix))]
fn kill_self(_number: i32) -> io::Result<()> {
    let _ = Duration::ZERO;
    exit(1)
}
