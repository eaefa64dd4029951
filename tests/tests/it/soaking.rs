//! Kills a training again and again by SIGKILL, goes on each time, and expects the numbers of a training that was left
//! alone (X12). Three kills as a test; `cargo xtask soak` asks for more through the environment and keeps the record.
#![cfg(unix)]

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tunesmith_lab::run::{Run, RunState};
use tunesmith_protocol::RunStatus;

use crate::context::{Home, RunIt, children, lives, wait_until};

/// Steps between checkpoints.
const INTERVAL: u64 = 7;
/// The first kill comes after the first checkpoint; before it there is nothing to go on from.
const FIRST_KILL: u64 = INTERVAL + 1;
const THREADS: usize = 2;
/// A training has so many steps for each kill, so that some lie between any two.
const STEPS_PER_KILL: u64 = 60;
/// Longest that a training may take to come to a step; a machine may have other work for a while.
const PATIENCE: Duration = Duration::from_mins(20);

/// What is printed by `cargo xtask soak --json`.
#[derive(Debug, Default, Serialize)]
struct Record {
    steps: u64,
    checkpoint_every: u64,
    threads: usize,
    seed: u64,
    kills: usize,
    /// Of them, by who was killed.
    kills_of_parent: usize,
    kills_of_engine: usize,
    kills_of_both: usize,
    /// Of them, those that left a half-written checkpoint on the disk.
    kills_during_checkpoint: usize,
    /// Every loss and gradient norm to the last bit, and the adapter byte for byte.
    equal: bool,
    /// Most recorded steps that a kill cost.
    max_steps_lost: u64,
    /// Engines that lived on for more than two seconds after their parent.
    orphans: usize,
    /// Longest that an engine lived on after its parent, in seconds.
    slowest_end_secs: f64,
}

/// A number from the environment, which `cargo xtask soak` sets.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_with_the_same_numbers() {
    let kills = usize::try_from(setting("TUNESMITH_SOAK_KILLS", 3)).unwrap();
    let seed = setting("TUNESMITH_SOAK_SEED", 3407);
    let steps = (kills as u64 + 1) * STEPS_PER_KILL;
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut record = Record {
        steps,
        checkpoint_every: INTERVAL,
        threads: THREADS,
        seed,
        ..Record::default()
    };

    let whole = Home::new();
    train(&whole, steps).ran().expect_status(0);

    let home = Home::new();
    let mut moments: Vec<u64> = (0..kills)
        .map(|_| FIRST_KILL + dice.next_u64() % (steps - STEPS_PER_KILL))
        .collect();
    moments.sort_unstable();
    for (number, moment) in moments.into_iter().enumerate() {
        let mut command = if number == 0 {
            train(&home, steps)
        } else {
            go_on(&home)
        };
        // A third of them is aimed at a checkpoint that is being written, and so is the first.
        let aim = if number % 3 == 0 {
            Aim::Checkpoint
        } else {
            Aim::Delay(Duration::from_micros(dice.next_u64() % 20_000))
        };
        let victim = [Victim::Both, Victim::Parent, Victim::Engine][(dice.next_u64() % 3) as usize];
        kill_once(&home, command.started(), moment, aim, victim, &mut record);
    }
    let end = go_on(&home).ran().expect_status(0).json();
    assert_eq!(
        (&end["status"], &end["total_steps"]),
        (&"ok".into(), &steps.into())
    );

    let curves = [&whole, &home].map(|home| curve(&home.only_run()));
    let adapters = [&whole, &home]
        .map(|home| fs::read(home.only_run().join("adapter/adapter_model.safetensors")).unwrap());
    record.equal = curves[0] == curves[1] && adapters[0] == adapters[1];
    if let Ok(file) = std::env::var("TUNESMITH_SOAK_RECORD") {
        fs::write(file, serde_json::to_string_pretty(&record).unwrap()).unwrap();
    }
    assert_eq!(curves[0].len() as u64, steps);
    assert_eq!(curves[1], curves[0], "{record:?}");
    assert!(
        record.equal,
        "the adapters differ though the losses do not: {record:?}"
    );
    assert_eq!((record.kills, record.orphans), (kills, 0), "{record:?}");
    assert!(record.max_steps_lost <= INTERVAL, "{record:?}");
    // A checkpoint may be whole before the signal arrives, but not each of many times.
    assert!(kills < 20 || record.kills_during_checkpoint > 0, "{record:?}");
    let left = names(&home.only_run());
    assert!(
        left.len() <= 3 && left.iter().all(|name| !half_written(name)),
        "{left:?}"
    );
}

fn train(home: &Home, steps: u64) -> Command {
    let mut command = home.tunesmith_for_real();
    command.args([
        "train",
        &home.recipe(),
        "--json",
        "--threads",
        &THREADS.to_string(),
    ]);
    command.args(["--set", &format!("train.checkpoint_every={INTERVAL}")]);
    command.args([
        "--set",
        &format!("train.steps={steps}"),
        "--set",
        "train.time_box_minutes=600",
    ]);
    command
}

fn go_on(home: &Home) -> Command {
    let mut command = home.tunesmith_for_real();
    command.args(["runs", "resume", "last", "--json"]);
    command
}

/// When the kill comes, once the training has come to a step.
#[derive(Clone, Copy)]
enum Aim {
    Delay(Duration),
    /// As soon as a checkpoint's folder is there that is not finished.
    Checkpoint,
}

#[derive(Clone, Copy)]
enum Victim {
    Parent,
    Engine,
    Both,
}

/// Waits for a step, kills, and looks at what is left.
fn kill_once(home: &Home, mut parent: Child, moment: u64, aim: Aim, victim: Victim, record: &mut Record) {
    let run_dir = wait_for_run(home);
    let mut tail = Tail::new(&run_dir);
    wait_until("the training has come to the step", PATIENCE, || {
        assert!(
            parent.try_wait().unwrap().is_none(),
            "the training ended before it was killed"
        );
        tail.last_step() >= moment
    });
    let engines = children(parent.id());
    assert_eq!(engines.len(), 1, "{engines:?}");
    match aim {
        Aim::Delay(time) => thread::sleep(time),
        Aim::Checkpoint => wait_busily(|| names(&run_dir).iter().any(|name| half_written(name))),
    }
    let end_engine = || {
        kill_process(
            Pid::from_raw(i32::try_from(engines[0]).unwrap()).unwrap(),
            Signal::KILL,
        )
    };
    match victim {
        Victim::Engine => {
            end_engine().unwrap();
            record.kills_of_engine += 1;
        }
        Victim::Parent => {
            parent.kill().unwrap();
            record.kills_of_parent += 1;
        }
        Victim::Both => {
            // The engine first: it must not see its parent go and leave by itself.
            end_engine().unwrap();
            parent.kill().unwrap();
            record.kills_of_both += 1;
        }
    }
    record.kills += 1;
    parent.wait().unwrap();
    let killed = Instant::now();
    wait_until("the engine is gone", PATIENCE, || !lives(engines[0]));
    let lived_on = killed.elapsed();
    record.orphans += usize::from(lived_on > Duration::from_secs(2));
    record.slowest_end_secs = record.slowest_end_secs.max(lived_on.as_secs_f64());
    let half = names(&run_dir).iter().any(|name| half_written(name));
    record.kills_during_checkpoint += usize::from(half);

    let run = Run::open(&run_dir).unwrap();
    let cut_short = !matches!(run.state, RunState::Running | RunState::Ended(RunStatus::Ok));
    assert!(cut_short, "{:?}", run.state);
    let checkpoint = run.checkpoint().unwrap().expect("a checkpoint to go on from");
    let name = checkpoint.folder.file_name().unwrap().to_str().unwrap();
    assert!(
        !half_written(name) && checkpoint.is_whole(),
        "a half-written checkpoint counted as good: {name}"
    );
    let recorded = run.steps().unwrap().last().map_or(0, |step| step.step);
    record.max_steps_lost = record.max_steps_lost.max(recorded - checkpoint.step);
}

fn wait_for_run(home: &Home) -> std::path::PathBuf {
    wait_until("the run has begun", PATIENCE, || {
        fs::read_dir(home.runs()).is_ok_and(|runs| runs.count() == 1)
            && home.only_run().join("events.jsonl").exists()
    });
    home.only_run()
}

/// A checkpoint is written in a few milliseconds, so this does not sleep.
fn wait_busily(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "no checkpoint was written");
    }
}

/// The folders of checkpoints.
fn names(run_dir: &Path) -> Vec<String> {
    fs::read_dir(run_dir.join("checkpoints"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn half_written(name: &str) -> bool {
    name.ends_with(".partial")
}

/// Follows the record of a run from where it ends now, so that a long one is not read again and again.
struct Tail {
    file: File,
    text: String,
}

impl Tail {
    fn new(run_dir: &Path) -> Self {
        let mut file = File::open(run_dir.join("events.jsonl")).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        Self {
            file,
            text: String::new(),
        }
    }

    /// The last step that was recorded since, or 0.
    fn last_step(&mut self) -> u64 {
        self.file.read_to_string(&mut self.text).unwrap();
        let step = self
            .text
            .rsplit("\"type\":\"step\",\"step\":")
            .next()
            .filter(|rest| rest.len() < self.text.len())
            .and_then(|rest| rest.split_once(','))
            .and_then(|(number, _)| number.parse().ok());
        step.unwrap_or(0)
    }
}

/// Losses and gradient norms of a run, to the last bit.
fn curve(folder: &Path) -> Vec<(u64, Option<u64>, Option<u64>)> {
    let bits = |value: Option<f64>| value.map(f64::to_bits);
    let steps = Run::open(folder).unwrap().steps().unwrap();
    steps
        .iter()
        .map(|step| (step.step, bits(step.loss), bits(step.grad_norm)))
        .collect()
}
