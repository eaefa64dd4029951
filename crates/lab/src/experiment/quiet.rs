//! Whether a machine is quiet enough to measure on it (M19): looked at before a run, so that it can wait for what ends
//! soon. What happens during the run is in the run's own record.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use tunesmith_probe::{CpuSnapshot, LIVE};

use crate::{
    run::{ContentionSample, now},
    stop::StopToken,
};

/// How long the machine is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How soon a wish to stop is heeded.
const HEED: Duration = Duration::from_millis(100);

/// Waits until other programs leave the machine alone, at most so long; zero does not look at all. `tell` hears what
/// is waited for. Gives what still disturbs, where it does.
pub(super) fn wait(
    limit: Duration,
    on_card: bool,
    stop: &StopToken,
    tell: &mut dyn FnMut(&str),
) -> Option<String> {
    let start = Instant::now();
    let mut busy = None;
    while start.elapsed() < limit && stop.asked().is_none() {
        busy = look(on_card, stop);
        match &busy {
            Some(sentence) => tell(sentence),
            None => return None,
        }
    }
    busy
}

/// What others do within a second, where it is enough to change a measurement.
fn look(on_card: bool, stop: &StopToken) -> Option<String> {
    let root = Path::new(LIVE);
    let before = CpuSnapshot::take(root);
    let start = Instant::now();
    while start.elapsed() < LOOK && stop.asked().is_none() {
        thread::sleep(HEED);
    }
    let sample = ContentionSample {
        stage: "quiet".to_owned(),
        at: now(),
        seen: before.load_since(root, &[std::process::id()]),
    };
    sample.disturbance(on_card).map(|(_, sentence)| sentence)
}
