//! An engine that replays a script, so that every way a run can go wrong is tested through the real supervisor
//! and the real command line. It speaks the protocol and computes nothing.
//!
//! `FAKE_ENGINE_SCRIPT` names a file of JSON lines, each one action, done in order:
//!
//! | action | what it does |
//! |---|---|
//! | `{"hello": 1}` | says hello with this protocol version |
//! | `{"wait_job": {}}` | waits for the job line |
//! | `{"emit": {…}}`, `{"raw": "text"}`, `{"stderr": "text"}` | writes a line |
//! | `{"steps": {"from": 1, "to": 3}}` | writes steps with a falling loss and the tokens that the job's rows have; `"bad": true` leaves loss and norm out |
//! | `{"answer_all": "text"}` | answers every prompt of the job with this text |
//! | `{"write_job": "file"}` | writes the job down as JSON |
//! | `{"save_adapter": {}}` | writes an adapter folder into the run's folder |
//! | `{"result": {}}` | writes the result of a training or of answers |
//! | `{"bye": "ok"}` | says bye with this status |
//! | `{"wait_stop": {}}` | waits for a request to stop |
//! | `{"write_pid": "file"}` | writes its process id |
//! | `{"ignore_termination": {}}` | no longer leaves on SIGTERM |
//! | `{"wait_forever": {}}` | does nothing more |
//! | `{"exit": 3}`, `{"kill_self": 9}` | leaves, or is killed by a signal |
//!
//! An action with `"when": "train"` is passed over unless the job is of that kind. Like every engine it leaves at
//! once when its stdin ends.

use std::{
    fs,
    io::{self, BufRead, Write},
    path::Path,
    process::exit,
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use tunesmith_data::{Rows, epoch_order};
use tunesmith_protocol::{
    Answer, AnswerStats, Bye, Event, Finish, Hello, Job, Outcome, Prompt, Request, RunStatus, Step,
    TrainStats, Work, decode_request, encode,
};

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    when: Option<String>,
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
    AnswerAll(String),
    WriteJob(String),
    SaveAdapter {},
    Result {},
    Bye(RunStatus),
    WaitStop {},
    WritePid(String),
    IgnoreTermination {},
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
}

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
        if line.when.is_none() || line.when.as_deref() == kind {
            engine.act(line.action)?;
        }
    }
    Ok(())
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
        exit(1);
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
            Action::AnswerAll(text) => self.answer_all(&text),
            Action::WriteJob(path) => fs::write(path, encode(self.job()?)),
            Action::SaveAdapter {} => {
                let folder = self.job()?.run_dir.join("adapter");
                fs::create_dir_all(&folder)?;
                fs::write(folder.join("adapter_config.json"), "{}")?;
                fs::write(folder.join("adapter_model.safetensors"), "not a real one")
            }
            Action::Result {} => self.result(),
            Action::Bye(status) => write_event(&Event::Bye(Bye { status })),
            Action::WritePid(path) => fs::write(path, std::process::id().to_string()),
            Action::IgnoreTermination {} => ctrlc::set_handler(|| {}).map_err(io::Error::other),
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

    fn emit_steps(&mut self, steps: &Steps) -> io::Result<()> {
        let counts = self.counts(steps.to)?;
        for step in steps.from..=steps.to {
            self.steps = step;
            write_event(&Event::Step(Step {
                step,
                loss: (!steps.bad).then(|| 2.0 / step as f64),
                grad_norm: (!steps.bad).then_some(0.5),
                lr: 1e-3,
                dt_secs: 0.5,
                elapsed_secs: 1.0 + 0.5 * step as f64,
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

    fn answer_all(&mut self, text: &str) -> io::Result<()> {
        let Work::Answer(job) = &self.job()?.work else {
            return Err(io::Error::other("answer_all needs an answer job"));
        };
        let prompts = read_prompts(&job.prompts)?;
        self.answers = prompts.len() as u64;
        for prompt in prompts {
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
            }),
            _ => Outcome::Train(TrainStats {
                steps: self.steps,
                first_step_secs: 1.5,
                total_secs: 1.0 + 0.5 * self.steps as f64,
                load_secs: 1.0,
                trainable_parameters: 1000,
                peak_bytes: Some(1 << 30),
                peak_process_bytes: Some(1 << 31),
                adapter: Some("adapter".into()),
            }),
        };
        write_event(&Event::Result(outcome))
    }
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
    kill_process(getpid(), signal)?;
    // The signal may arrive a moment later.
    thread::sleep(Duration::from_secs(5));
    Ok(())
}

#[cfg(not(unix))]
fn kill_self(_number: i32) -> io::Result<()> {
    let _ = Duration::ZERO;
    exit(1)
}
