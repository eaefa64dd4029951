//! How long detection takes on this machine: the median and the worst of fifty runs, in milliseconds. The figure to
//! keep is 100 ms. `cargo run --release -p tunesmith-probe --example detect_cost [ROOT]`

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use tunesmith_probe::{CardTable, LIVE, detect};

fn main() -> io::Result<()> {
    let root = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(LIVE), PathBuf::from);
    let mut millis = Vec::new();
    let mut cards = 0;
    for _ in 0..50 {
        let start = Instant::now();
        cards = detect(&root, &CardTable::built_in()).gpus.len();
        millis.push(start.elapsed().as_secs_f64() * 1e3);
    }
    millis.sort_by(f64::total_cmp);
    let worst = millis.last().copied().unwrap_or_default();
    writeln!(
        io::stdout(),
        "{cards} cards, median {:.1} ms, worst {worst:.1} ms",
        millis[millis.len() / 2]
    )
}
