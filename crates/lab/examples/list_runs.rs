//! Measures how long a long list of runs takes: makes N run folders in a temporary folder, loads them, brings the list
//! up to date, filters and sorts it, and prints the seconds as JSON:
//! `cargo run -p tunesmith-lab --example list_runs -- [N]`.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use tunesmith_lab::run::{Column, LineFilter, Order, arrange, lines, repeats};
use tunesmith_lab::testing::{TestRun, write_checkpoint};
use tunesmith_protocol::RunStatus;

/// Runs that are made where no number is given.
const RUNS: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let runs = std::env::args().nth(1).map_or(Ok(RUNS), |text| text.parse())?;
    let home = tempfile::tempdir()?;
    make(home.path(), runs);
    let figures = measure(home.path())?;
    writeln!(std::io::stdout(), "{figures:#}")?;
    Ok(())
}

/// Runs that began a minute apart: most went well, some were cut short, and five share each experiment.
fn make(folder: &Path, runs: usize) {
    std::thread::scope(|scope| {
        for first in 0..2 {
            scope.spawn(move || {
                (first..runs)
                    .step_by(2)
                    .for_each(|number| make_one(folder, number));
            });
        }
    });
}

fn make_one(folder: &Path, number: usize) {
    let (minute, hour, day) = (number % 60, number / 60 % 24, number / 1440);
    let started = format!(
        "2026-{:02}-{:02}T{hour:02}:{minute:02}:00Z",
        1 + day / 28,
        1 + day % 28
    );
    let run = TestRun::new(&started)
        .config_hash(&format!("{:08x}", number / 5))
        .tokens_per_sec(400.0 + (number * 7 % 101) as f64)
        .last_loss(0.3 + (number * 13 % 97) as f64 / 1000.0)
        .matches(number % 7, 50 + number % 23);
    match number % 20 {
        17 => drop(run.status(RunStatus::Oom).steps(0).write(folder)),
        18 => drop(write_checkpoint(
            &run.status(RunStatus::Cancelled).steps(50).write(folder),
            40,
        )),
        19 => drop(run.unfinished().steps(30).write(folder)),
        _ => drop(run.write(folder)),
    }
}

fn measure(folder: &Path) -> Result<Value, Box<dyn Error>> {
    let start = Instant::now();
    let listed = lines(folder, &[])?;
    let load_secs = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let again = lines(folder, &listed)?;
    let refresh_secs = start.elapsed().as_secs_f64();

    let filter = LineFilter {
        text: "quickstart ok".to_owned(),
        ..LineFilter::default()
    };
    let order = Order {
        column: Column::TokensPerSec,
        descending: true,
    };
    let start = Instant::now();
    let shown = arrange(&again, &filter, order).len();
    let arrange_secs = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let experiments = repeats(&again).len();
    let repeats_secs = start.elapsed().as_secs_f64();

    Ok(json!({
        "runs": listed.len(),
        "cores": std::thread::available_parallelism().map(usize::from).ok(),
        "load_secs": load_secs,
        "refresh_secs": refresh_secs,
        "filter_and_sort_secs": arrange_secs,
        "shown": shown,
        "repeats_secs": repeats_secs,
        "experiments": experiments,
    }))
}
