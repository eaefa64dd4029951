//! What the cards did while a run of an experiment was measured: clocks, temperatures, power, and who else used them
//! (S6, M19). Read once a second and no more, by a thread of its own; a processor's run has none.

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tunesmith_probe::{
    LIVE,
    contention::{self, GpuContention},
    gpus,
    telemetry::{CardState, Energy, Sample, Sampler, Target},
};

use crate::files::{read_text, write_json};

/// Beside the run's other files, a sample a line.
const FILE: &str = "telemetry.jsonl";
/// Who else used the cards.
const OTHERS: &str = "card-contention.json";

const EVERY: Duration = Duration::from_secs(1);

/// Processes of the run are looked up so often: an engine starts others, and they end.
const FAMILY_EVERY: usize = 10;

/// Watches the cards until it is dropped.
#[derive(Debug)]
pub(super) struct Telemetry {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Telemetry {
    /// Begins to watch for a run; where there is no card to watch, nothing.
    pub(super) fn start(run: &Path) -> Option<Self> {
        let cards = gpus(Path::new(LIVE));
        let targets: Vec<Target> = cards
            .into_iter()
            .filter_map(|card| {
                Some(Target {
                    pci: card.pci_address?,
                    vendor: card.vendor,
                })
            })
            .collect();
        if targets.is_empty() {
            return None;
        }
        let (end, ended) = channel();
        let run = run.to_owned();
        let thread = thread::Builder::new().name("telemetry".to_owned());
        // A run without its temperatures is still a run.
        let thread = thread.spawn(move || watch(&run, &targets, &ended)).ok()?;
        Some(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            // What it could not write is missing, and no more.
            let _ = thread.join();
        }
    }
}

fn watch(run: &Path, targets: &[Target], ended: &Receiver<()>) {
    let root = Path::new(LIVE);
    let file: PathBuf = run.join(FILE);
    let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&file) else {
        return;
    };
    let mut sampler = Sampler::open(root, targets);
    let start = Instant::now();
    let (mut first, mut last): (Option<Sample>, Option<Sample>) = (None, None);
    let mut ours: BTreeSet<u32> = BTreeSet::new();
    for number in 0.. {
        if number % FAMILY_EVERY == 0 {
            ours.extend(contention::family(root, &[std::process::id()]));
        }
        let sample = sampler.sample(start.elapsed().as_secs_f64());
        if !write(&mut file, &sample) {
            return;
        }
        first.get_or_insert_with(|| sample.clone());
        last = Some(sample);
        match ended.recv_timeout(EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => break,
        }
    }
    if let (Some(first), Some(last)) = (first, last) {
        let ours: Vec<u32> = ours.into_iter().collect();
        // As above.
        let _ = write_json(&run.join(OTHERS), &contention::gpu(&first, &last, &ours));
    }
}

fn write(file: &mut File, sample: &Sample) -> bool {
    let Ok(mut line) = serde_json::to_string(sample) else {
        return false;
    };
    line.push('\n');
    file.write_all(line.as_bytes()).is_ok()
}

/// Samples of a run; empty where none were taken. A line that was cut off is passed over.
pub(super) fn samples(run: &Path) -> Vec<Sample> {
    let Ok(file) = File::open(run.join(FILE)) else {
        return Vec::new();
    };
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect()
}

/// Mean power of the one card that worked, in watts; nothing where several did or none tells.
pub(super) fn mean_watts(run: &Path) -> Option<f64> {
    let samples = samples(run);
    let mut cards: BTreeSet<&str> = BTreeSet::new();
    for sample in &samples {
        let awake = sample.gpus.iter().filter(|gpu| gpu.state == CardState::Awake);
        cards.extend(awake.map(|gpu| gpu.pci.as_str()));
    }
    let card = cards.first().filter(|_| cards.len() == 1)?;
    let mut energy = Energy::default();
    for sample in &samples {
        for gpu in sample.gpus.iter().filter(|gpu| gpu.pci == *card) {
            energy.add(sample.at_secs, gpu);
        }
    }
    Some(energy.watt_hours()? * 3600.0 / energy.covered_secs())
}

/// Who else used a card during the run so that its figures are in doubt, in a sentence.
pub(super) fn card_disturbance(run: &Path) -> Option<String> {
    let found: Vec<GpuContention> = serde_json::from_str(&read_text(&run.join(OTHERS)).ok()?).ok()?;
    let disturbed = found.iter().find(|card| card.is_disturbed())?;
    let names: Vec<&str> = disturbed
        .others
        .iter()
        .filter_map(|other| other.name.as_deref())
        .take(3)
        .collect();
    let names = if names.is_empty() {
        "another program".to_owned()
    } else {
        names.join(", ")
    };
    Some(format!("{names} used the card too"))
}

/// A moment of a long run, thinned for charts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardPoint {
    /// Seconds since the run began.
    pub at_secs: f64,
    /// Clock of the compute units in MHz.
    pub core_clock_mhz: Option<f64>,
    /// Temperature of the hottest spot, else of the edge, in degrees Celsius.
    pub celsius: Option<f64>,
    /// Power in watts.
    pub power_watts: Option<f64>,
    /// Memory of the card in use by everyone, in bytes.
    pub vram_used_bytes: Option<u64>,
}

/// Most points of a run that are shown.
const MOST_POINTS: usize = 600;

/// Clocks, temperature and power of the first card that was awake, over time (S6).
pub(super) fn card_points(run: &Path) -> Vec<CardPoint> {
    let samples = samples(run);
    let every = samples.len().div_ceil(MOST_POINTS).max(1);
    let point = |sample: &Sample| {
        let gpu = sample.gpus.iter().find(|gpu| gpu.state == CardState::Awake)?;
        Some(CardPoint {
            at_secs: sample.at_secs,
            core_clock_mhz: gpu.core_clock_mhz,
            celsius: gpu.junction_celsius.or(gpu.edge_celsius),
            power_watts: gpu.power_watts,
            vram_used_bytes: gpu.vram_used_bytes,
        })
    };
    samples.iter().step_by(every).filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tunesmith_probe::telemetry::GpuSample;

    fn write_samples(folder: &Path, watts: &[f64]) {
        let lines: String = watts
            .iter()
            .enumerate()
            .map(|(second, watts)| {
                let sample = Sample {
                    at_secs: second as f64,
                    gpus: vec![GpuSample {
                        pci: "0000:03:00.0".to_owned(),
                        state: CardState::Awake,
                        power_watts: Some(*watts),
                        junction_celsius: Some(80.0),
                        ..GpuSample::default()
                    }],
                    processes_hidden: false,
                };
                serde_json::to_string(&sample).unwrap() + "\n"
            })
            .collect();
        fs::write(folder.join(FILE), lines + "{\"at_secs\": 9").unwrap();
    }

    #[test]
    fn power_is_the_mean_over_time() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(mean_watts(folder.path()), None);
        write_samples(folder.path(), &[100.0, 200.0, 300.0]);
        assert!((mean_watts(folder.path()).unwrap() - 200.0).abs() < 1e-9);
        let points = card_points(folder.path());
        assert_eq!(points.len(), 3);
        assert_eq!(points[1].celsius, Some(80.0));
    }

    #[test]
    fn a_long_run_is_thinned() {
        let folder = tempfile::tempdir().unwrap();
        write_samples(folder.path(), &vec![150.0; 3600]);
        let points = card_points(folder.path());
        assert!(
            points.len() <= MOST_POINTS && points.len() > MOST_POINTS / 2,
            "{}",
            points.len()
        );
    }

    #[test]
    fn another_program_on_the_card_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(card_disturbance(folder.path()), None);
        let text = r#"[{"pci": "0000:03:00.0", "others": [{"pid": 7, "name": "ollama", "vram_bytes": 1, "engine_share": 0.4}],
            "other_vram_bytes": 1, "other_vram_growth_bytes": 0, "processes_hidden": false}]"#;
        fs::write(folder.path().join(OTHERS), text).unwrap();
        assert_eq!(
            card_disturbance(folder.path()).unwrap(),
            "ollama used the card too"
        );
    }
}
