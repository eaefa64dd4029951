//! What the doctor costs on this machine, whole: knowledge, detection, surroundings, an environment, every check. `cargo run --release --example doctor_cost -p tunesmith-setup -- [ENVIRONMENT]`

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tunesmith_probe::{LIVE, detect};
use tunesmith_setup::doctor::{PythonEnvironment, Rules, Surroundings, doctor, text};
use tunesmith_setup::knowledge::Knowledge;

const TIMES: u32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let environment = std::env::args_os().nth(1).map(PathBuf::from);
    let temporary = std::env::temp_dir();
    let mut slowest = 0.0_f64;
    let mut last = String::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        let (knowledge, rules) = (Knowledge::load(None)?, Rules::load(None)?);
        let system = detect(Path::new(LIVE), &knowledge.cards);
        let around = Surroundings::read(Path::new(LIVE), &temporary, &temporary);
        let environments: Vec<_> = environment
            .iter()
            .map(|folder| PythonEnvironment::read(folder))
            .collect();
        let diagnosis = doctor(&system, &knowledge, &rules, &around, &environments);
        last = text(&diagnosis, false);
        slowest = slowest.max(start.elapsed().as_secs_f64());
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{last}")?;
    writeln!(out, "\nslowest of {TIMES}: {:.1} ms", slowest * 1e3)?;
    Ok(())
}
