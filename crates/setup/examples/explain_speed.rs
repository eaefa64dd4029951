//! How long a log of a given size takes to explain: `explain_speed [MB]`, 50 MB unless told otherwise. The log is a
//! mix of training steps, kernel lines and coloured container output, with a fault every 10 000 lines. Half of the
//! size is timed first: twice the size takes twice the time.

use std::io::{BufReader, Write as _};
use std::time::Instant;

use tunesmith_setup::explain::{Faults, explain_reader};

fn log(bytes: usize) -> Vec<u8> {
    let mut log = Vec::with_capacity(bytes + 256);
    let mut step = 0u64;
    while log.len() < bytes {
        step += 1;
        let line = match step % 10_000 {
            0 => "RuntimeError: HIP error: invalid device function".to_owned(),
            rest if rest % 7 == 0 => format!(
                "[{step:8}.123456] amdgpu 0000:03:00.0: amdgpu: ring sdma0 uses VM inv eng 3 on hub 0"
            ),
            rest if rest % 5 == 0 => {
                format!("\u{1b}[36mtrainer-1  | \u{1b}[0mINFO step {step} mem=17.2GiB err=0")
            }
            _ => format!("{{'loss': 1.2311, 'grad_norm': 0.5113, 'learning_rate': 1.9e-04, 'step': {step}}}"),
        };
        log.extend_from_slice(line.as_bytes());
        log.push(b'\n');
    }
    log
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let megabytes: usize = std::env::args().nth(1).map_or(Ok(50), |text| text.parse())?;
    let mut out = std::io::stdout();
    let started = Instant::now();
    let faults = Faults::built_in()?;
    writeln!(
        out,
        "reading {} faults: {:.1} ms",
        faults.rows().len(),
        started.elapsed().as_secs_f64() * 1e3
    )?;
    for bytes in [megabytes * 500_000, megabytes * 1_000_000] {
        let log = log(bytes);
        let started = Instant::now();
        let explained = explain_reader(BufReader::with_capacity(1 << 16, log.as_slice()), None, &faults)?;
        let seconds = started.elapsed().as_secs_f64();
        writeln!(
            out,
            "{:.0} MB, {} lines: {seconds:.2} s, {:.0} MB/s; {}",
            bytes as f64 / 1e6,
            explained.lines_read,
            bytes as f64 / 1e6 / seconds,
            explained.summary
        )?;
    }
    Ok(())
}
