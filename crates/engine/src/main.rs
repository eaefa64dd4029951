//! The native engine: one process, one job, JSON lines in and out.
//!
//! It is a process of its own because the flags of ROCm must be set before it starts, because a bad kernel must
//! not take the app along, and because libtorch is chosen at run time. It emits numbers; verdicts are its parent's.

mod adapter;
mod attention;
mod base;
mod batch;
mod calibrate;
mod checkpoint;
mod checks;
mod error;
#[cfg(feature = "inject-faults")]
mod faults;
mod fused;
mod generate;
mod gpu;
mod layer;
#[cfg(all(test, not(feature = "no-libtorch")))]
mod levers;
mod logits;
mod loss;
mod memory;
mod model;
mod nf4;
mod optimizer;
mod out;
mod quantise;
mod textbook;
mod train;

use std::path::{Path, PathBuf};
use std::time::Instant;

use tunesmith_protocol::{
    Bye, EngineError, Event, Hello, Job, Level, Outcome, PROTOCOL_VERSION, RunStatus, Work,
};

use crate::error::JobError;
use crate::gpu::Backend;
use crate::out::{Stop, emit};

/// The torch that this engine was built for; another minor version has another C++ interface.
const TORCH_MINOR: &str = "2.11";

fn main() {
    // A plain method of tch panics with torch's text; it is caught at the job's edge and told as an error.
    std::panic::set_hook(Box::new(|info| {
        out::log(Level::Debug, format!("panic: {info}"));
    }));
    let site = std::env::var_os("TUNESMITH_TORCH").map(PathBuf::from);
    let torch = site.as_deref().and_then(torch_version);
    let known = torch.is_none()
        || torch
            .as_ref()
            .is_some_and(|version| version.starts_with(&format!("{TORCH_MINOR}.")));
    let (backend, not_opened) = if known {
        gpu::open(site.as_deref())
    } else {
        (Backend::Cpu, None)
    };
    emit(&Event::Hello(Hello {
        protocol: PROTOCOL_VERSION,
        engine: "tunesmith-engine".into(),
        engine_version: env!("CARGO_PKG_VERSION").into(),
        torch: torch.clone().unwrap_or_else(|| TORCH_MINOR.into()),
        backend: backend.name().into(),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    }));
    if let Some(reason) = &not_opened {
        out::log(Level::Info, format!("{reason}; the CPU works without it"));
    }
    if !known {
        emit(&Event::Error(EngineError {
            code: "torch_version".into(),
            message: format!(
                "this engine needs torch {TORCH_MINOR}, and TUNESMITH_TORCH has {}",
                torch.unwrap_or_default()
            ),
            hints: vec!["run `tunesmith setup`, or point TUNESMITH_TORCH to a torch 2.11.0".into()],
        }));
        leave(RunStatus::Crashed);
    }
    memory::start_counting();
    let (jobs, stop) = out::listen();
    // The other end goes away only when stdin ends, and then the process has ended already.
    let Ok(job) = jobs.recv() else { return };
    let arrived = Instant::now();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run(&job, (backend, not_opened.as_deref()), &stop, arrived)
    }))
    .unwrap_or_else(|payload| Err(JobError::from_torch_text(&panic_text(payload.as_ref()))));
    match result {
        Ok(outcome) => {
            emit(&Event::Result(outcome));
            leave(RunStatus::Ok);
        }
        Err(error) => {
            if !matches!(error, JobError::Stopped) {
                emit(&Event::Error(error.to_event()));
            }
            leave(error.status());
        }
    }
}

fn run(
    job: &Job,
    (backend, not_opened): (Backend, Option<&str>),
    stop: &Stop,
    arrived: Instant,
) -> Result<Outcome, JobError> {
    if let Some(threads) = job.threads {
        tch::set_num_threads(threads.max(1) as i32);
    }
    let device = gpu::device(&job.device, backend, not_opened)?;
    match &job.work {
        Work::Calibrate(work) => calibrate::calibrate(work, &job.device, device, stop),
        Work::Train(work) => train::train(work, job, device, stop, arrived),
        Work::Answer(work) => generate::answer(work, device, stop),
        Work::Logits(work) => logits::logits(work, device),
        Work::Quantise(work) => quantise::quantise(work, device),
    }
}

/// Says goodbye and ends the process, without waiting for the thread that reads stdin.
fn leave(status: RunStatus) -> ! {
    emit(&Event::Bye(Bye { status }));
    std::process::exit(match status {
        RunStatus::Ok => 0,
        RunStatus::Cancelled => 130,
        _ => 1,
    })
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

/// `__version__` in `torch/version.py`, which is plain text: no Python is run.
fn torch_version(site: &Path) -> Option<String> {
    let text = std::fs::read_to_string(site.join("torch/version.py")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("__version__ = "))?;
    Some(line.trim().trim_matches(['\'', '"']).to_owned())
}
