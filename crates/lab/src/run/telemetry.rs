//! What a run's card did while it trained: clocks, temperatures, power, and who else used it (S6, M19, U8). One reader for
//! every training on a card, once a second and no more, on a thread of its own; whoever else must know of the card at that
//! moment is handed what was read. A processor's run has none.

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
use tunesmith_measure::cost::EnergyRead;
use tunesmith_probe::{
    contention::{self, GpuContention},
    gpus,
    telemetry::{CardState, Energy, GpuSample, Sample, Sampler, Target},
};

use super::end_last_line;
use crate::{
    files::{read_text, write_json},
    fit::PlannedCard,
};

/// Beside the run's other files, a line for each sample.
const FILE: &str = "telemetry.jsonl";
/// Who else used the cards.
const OTHERS: &str = "card-contention.json";

/// Time between two readings.
const EVERY: Duration = Duration::from_secs(1);

/// Processes of the run are looked up so often: an engine starts others, and they end.
const FAMILY_EVERY: usize = 10;

/// Most points of a run that are shown.
const MOST_POINTS: usize = 600;

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    /// What was read, in seconds of the training's clock, which counts loading and goes on where a run goes on.
    Sample(Sample),
    /// The run went on from a checkpoint: samples above it belong to steps that were done again.
    Resumed {
        /// The checkpoint's time.
        resumed_at_secs: f64,
    },
}

/// Hears of each sample, on the thread that takes them.
pub(crate) type OnSample = Box<dyn FnMut(&Sample) + Send>;

/// Watches a run's card until it is dropped.
#[derive(Debug)]
pub(crate) struct Telemetry {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Telemetry {
    /// Begins to watch for a run, on the machine below `root`: the card that was planned, else every card that there is;
    /// nothing where there is none. `resumed_at_secs` is that of a run which goes on.
    pub(crate) fn start(
        root: &Path,
        run: &Path,
        card: Option<&PlannedCard>,
        resumed_at_secs: Option<f64>,
        on_sample: OnSample,
    ) -> Option<Self> {
        let watch = Watch {
            root: root.to_owned(),
            run: run.to_owned(),
            targets: targets(root, card),
            resumed_at_secs,
            every: EVERY,
        };
        watch.start(on_sample)
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

/// Another card, a processor's graphics above all, says nothing of the training.
fn targets(root: &Path, card: Option<&PlannedCard>) -> Vec<Target> {
    if let Some(target) = card.and_then(PlannedCard::target) {
        return vec![target];
    }
    let cards = gpus(root).into_iter().filter_map(|card| {
        Some(Target {
            pci: card.pci_address?,
            vendor: card.vendor,
        })
    });
    cards.collect()
}

/// What is watched, for whom.
struct Watch {
    root: PathBuf,
    run: PathBuf,
    targets: Vec<Target>,
    resumed_at_secs: Option<f64>,
    every: Duration,
}

impl Watch {
    fn start(self, mut on_sample: OnSample) -> Option<Telemetry> {
        if self.targets.is_empty() {
            return None;
        }
        let (end, ended) = channel();
        let thread = thread::Builder::new().name("telemetry".to_owned());
        // A run without its temperatures is still a run.
        let thread = thread.spawn(move || self.go_on(&ended, &mut on_sample)).ok()?;
        Some(Telemetry {
            end: Some(end),
            thread: Some(thread),
        })
    }

    fn go_on(&self, ended: &Receiver<()>, on_sample: &mut OnSample) {
        // Who listens is served even where nothing can be written.
        let mut file = self.open();
        let mut sampler = Sampler::open(&self.root, &self.targets);
        let start = Instant::now();
        let from_secs = self.resumed_at_secs.unwrap_or(0.0);
        let (mut first, mut last): (Option<Sample>, Option<Sample>) = (None, None);
        let mut ours: BTreeSet<u32> = BTreeSet::new();
        for number in 0_usize.. {
            if number.is_multiple_of(FAMILY_EVERY) {
                ours.extend(contention::family(&self.root, &[std::process::id()]));
            }
            let sample = sampler.sample(from_secs + start.elapsed().as_secs_f64());
            on_sample(&sample);
            file = file.and_then(|file| write(file, &Line::Sample(sample.clone())));
            first.get_or_insert_with(|| sample.clone());
            last = Some(sample);
            match ended.recv_timeout(self.every) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => break,
            }
        }
        if let (Some(first), Some(last)) = (first, last) {
            let ours: Vec<u32> = ours.into_iter().collect();
            // Of a run that goes on, what was seen before it stopped stands.
            let mut others = others(&self.run);
            others.extend(contention::gpu(&first, &last, &ours));
            // As above.
            let _ = write_json(&self.run.join(OTHERS), &others);
        }
    }

    fn open(&self) -> Option<File> {
        let mut options = OpenOptions::new();
        let options = options.create(true).read(true).append(true);
        let file = options.open(self.run.join(FILE)).and_then(end_last_line).ok()?;
        match self.resumed_at_secs {
            Some(resumed_at_secs) => write(file, &Line::Resumed { resumed_at_secs }),
            None => Some(file),
        }
    }
}

/// Gives the file back where it took the line.
fn write(mut file: File, line: &Line) -> Option<File> {
    let mut text = serde_json::to_string(line).ok()?;
    text.push('\n');
    file.write_all(text.as_bytes()).ok()?;
    Some(file)
}

/// The samples of a run in stretches, one for each time that it was led; empty where none were taken. A line that was cut
/// off is passed over.
fn stretches(run: &Path) -> Vec<Vec<Sample>> {
    let Ok(file) = File::open(run.join(FILE)) else {
        return Vec::new();
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut stretches: Vec<Vec<Sample>> = vec![Vec::new()];
    for line in lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok()) {
        match line {
            Line::Sample(sample) => {
                if let Some(stretch) = stretches.last_mut() {
                    stretch.push(sample);
                }
            }
            Line::Resumed { resumed_at_secs } => {
                for stretch in &mut stretches {
                    stretch.retain(|sample| sample.at_secs <= resumed_at_secs);
                }
                stretches.push(Vec::new());
            }
        }
    }
    stretches
}

/// A moment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardPoint {
    /// Seconds since the training began, loading included.
    pub at_secs: f64,
    /// Clock of the compute units in MHz.
    pub core_clock_mhz: Option<f64>,
    /// Temperature of the hottest spot, else of the edge, in degrees Celsius.
    pub celsius: Option<f64>,
    /// Power in watts.
    pub power_watts: Option<f64>,
    /// How busy the compute units were, 0 to 100.
    #[serde(default)]
    pub load_percent: Option<f64>,
    /// Memory of the card in use by everyone, in bytes.
    pub vram_used_bytes: Option<u64>,
}

impl CardPoint {
    fn of(at_secs: f64, gpu: &GpuSample) -> Self {
        Self {
            at_secs,
            core_clock_mhz: gpu.core_clock_mhz,
            celsius: gpu.junction_celsius.or(gpu.edge_celsius),
            power_watts: gpu.power_watts,
            load_percent: gpu.load_percent,
            vram_used_bytes: gpu.vram_used_bytes,
        }
    }
}

/// What a run's card did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CardRecord {
    /// Energy read over the training, where a sensor tells power or energy.
    pub(crate) energy: Option<EnergyRead>,
    /// Clocks, temperature and power over time, thinned for charts (S6).
    pub(crate) points: Vec<CardPoint>,
}

/// What the card that worked did during a run; `None` where nothing was read, or where several cards worked, since which of
/// them trained is then not known.
pub(crate) fn card_record(run: &Path) -> Option<CardRecord> {
    let stretches = stretches(run);
    let awake: BTreeSet<&str> = stretches
        .iter()
        .flatten()
        .flat_map(|sample| &sample.gpus)
        .filter(|gpu| gpu.state == CardState::Awake)
        .map(|gpu| gpu.pci.as_str())
        .collect();
    let card = awake.first().filter(|_| awake.len() == 1)?;
    let (mut watt_hours, mut covered_secs) = (0.0, 0.0);
    let mut points = Vec::new();
    for stretch in &stretches {
        // What the card used between two stretches belongs to neither.
        let mut energy = Energy::default();
        for sample in stretch {
            for gpu in sample.gpus.iter().filter(|gpu| gpu.pci == *card) {
                energy.add(sample.at_secs, gpu);
                points.push(CardPoint::of(sample.at_secs, gpu));
            }
        }
        watt_hours += energy.watt_hours().unwrap_or(0.0);
        covered_secs += energy.covered_secs();
    }
    let every = points.len().div_ceil(MOST_POINTS).max(1);
    Some(CardRecord {
        energy: (covered_secs > 0.0).then_some(EnergyRead {
            watt_hours,
            covered_secs,
        }),
        points: points.into_iter().step_by(every).collect(),
    })
}

fn others(run: &Path) -> Vec<GpuContention> {
    let text = read_text(&run.join(OTHERS)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Who else used a card during the run so that its figures are in doubt (M19), in a clause.
pub(crate) fn card_disturbance(run: &Path) -> Option<String> {
    let others = others(run);
    let disturbed = others.iter().find(|card| card.is_disturbed())?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use tunesmith_probe::testing::{AmdCard, TestMachine};

    use super::*;

    const PCI: &str = "0000:03:00.0";

    fn sample(at_secs: f64, cards: &[(&str, f64)]) -> String {
        let gpus = cards.iter().map(|(pci, watts)| GpuSample {
            pci: (*pci).to_owned(),
            state: CardState::Awake,
            power_watts: Some(*watts),
            edge_celsius: Some(60.0),
            junction_celsius: Some(80.0),
            ..GpuSample::default()
        });
        let sample = Sample {
            at_secs,
            gpus: gpus.collect(),
            processes_hidden: false,
        };
        serde_json::to_string(&sample).unwrap() + "\n"
    }

    fn write_lines(folder: &Path, lines: &str) {
        fs::write(folder.join(FILE), lines).unwrap();
    }

    fn mean_watts(folder: &Path) -> Option<f64> {
        card_record(folder)?.energy?.mean_watts()
    }

    /// A second each.
    fn at(watts: &[f64]) -> String {
        let lines = watts.iter().enumerate();
        lines
            .map(|(second, watts)| sample(second as f64, &[(PCI, *watts)]))
            .collect()
    }

    #[test]
    fn power_is_the_mean_over_time_and_a_torn_line_spoils_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(card_record(folder.path()), None);
        write_lines(folder.path(), &(at(&[100.0, 200.0, 300.0]) + "{\"at_secs\": 9"));
        assert!((mean_watts(folder.path()).unwrap() - 200.0).abs() < 1e-9);
        let found = card_record(folder.path()).unwrap();
        assert_eq!(found.points.len(), 3);
        assert_eq!(found.points[1].celsius, Some(80.0));
    }

    #[test]
    fn an_hour_is_thinned_and_its_energy_is_that_of_all_samples() {
        let folder = tempfile::tempdir().unwrap();
        write_lines(folder.path(), &at(&vec![300.0; 3601]));
        let found = card_record(folder.path()).unwrap();
        let energy = found.energy.unwrap();
        assert!((energy.watt_hours - 300.0).abs() < 0.2 && (energy.covered_secs - 3600.0).abs() < 1.0);
        let points = found.points.len();
        assert!(points <= MOST_POINTS && points > MOST_POINTS / 2, "{points}");
    }

    #[test]
    fn with_two_cards_at_work_nobody_knows_which_one_trained() {
        let folder = tempfile::tempdir().unwrap();
        write_lines(folder.path(), &sample(0.0, &[("a", 100.0), ("b", 100.0)]));
        assert_eq!(card_record(folder.path()), None);
    }

    #[test]
    fn a_run_that_goes_on_counts_each_second_once_and_the_pause_never() {
        let folder = tempfile::tempdir().unwrap();
        // The checkpoint lies at second 2; what came after it is done again, an hour later.
        let again: String = [2.5, 3.5, 4.5]
            .iter()
            .map(|at| sample(*at, &[(PCI, 200.0)]))
            .collect();
        let lines = at(&[100.0, 100.0, 100.0, 900.0, 900.0]) + "{\"resumed_at_secs\":2.0}\n" + &again;
        write_lines(folder.path(), &lines);
        let found = card_record(folder.path()).unwrap();
        let times: Vec<f64> = found.points.iter().map(|point| point.at_secs).collect();
        assert_eq!(times, [0.0, 1.0, 2.0, 2.5, 3.5, 4.5]);
        let energy = found.energy.unwrap();
        assert!((energy.covered_secs - 4.0).abs() < 1e-9);
        assert!((energy.mean_watts().unwrap() - 150.0).abs() < 1e-9);
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

    /// A card at work, with its sensors, beside a processor's graphics.
    fn machine() -> TestMachine {
        let mut machine = TestMachine::linux()
            .memory_gib(32)
            .usable_devices()
            .amd(AmdCard::rx_7900_xtx(PCI))
            .amd(AmdCard::raphael("0000:0e:00.0"));
        let sensors = [
            ("name", "amdgpu"),
            ("power1_average", "280000000"),
            ("temp1_label", "edge"),
            ("temp1_input", "71000"),
            ("temp2_label", "junction"),
            ("temp2_input", "93000"),
        ];
        for device in ["sys/class/drm/card0/device", "sys/bus/pci/devices/0000:03:00.0"] {
            for (name, text) in sensors {
                machine = machine.file(&format!("{device}/hwmon/hwmon4/{name}"), format!("{text}\n"));
            }
            machine = machine.file(&format!("{device}/gpu_busy_percent"), "99\n");
        }
        machine
    }

    fn planned(machine: &TestMachine) -> PlannedCard {
        let system = machine.detect();
        let gpu = system
            .gpus
            .iter()
            .find(|gpu| gpu.pci.as_deref() == Some(PCI))
            .unwrap();
        PlannedCard::of(gpu, false, system.platform).unwrap()
    }

    #[test]
    fn the_planned_card_is_recorded_while_a_run_trains_and_who_listens_hears_the_same() {
        let machine = machine();
        let run = tempfile::tempdir().unwrap();
        let (heard, hearing) = channel();
        let watch = Watch {
            root: machine.root().to_owned(),
            run: run.path().to_owned(),
            targets: targets(machine.root(), Some(&planned(&machine))),
            resumed_at_secs: None,
            every: Duration::from_millis(1),
        };
        assert_eq!(watch.targets.len(), 1, "the processor's graphics trains nothing");
        let telemetry = watch
            .start(Box::new(move |sample| {
                let _ = heard.send(sample.gpus[0].vram_used_bytes);
            }))
            .unwrap();
        let limit = Duration::from_secs(20);
        let seen: Vec<Option<u64>> = (0..4).map(|_| hearing.recv_timeout(limit).unwrap()).collect();
        drop(telemetry);
        assert_eq!(seen, [Some(200 << 20); 4]);
        let found = card_record(run.path()).unwrap();
        assert!(found.points.len() >= 4);
        let point = found.points[0];
        assert_eq!((point.celsius, point.load_percent), (Some(93.0), Some(99.0)));
        assert!((found.energy.unwrap().mean_watts().unwrap() - 280.0).abs() < 1e-6);
        assert_eq!(card_disturbance(run.path()), None);
        assert!(run.path().join(OTHERS).exists());
    }

    #[test]
    fn a_run_that_goes_on_adds_to_its_record() {
        let machine = machine();
        let run = tempfile::tempdir().unwrap();
        write_lines(run.path(), &(at(&[100.0, 100.0]) + "{\"at_se"));
        let watched = |resumed_at_secs| {
            let (heard, hearing) = channel();
            let watched = Telemetry::start(
                machine.root(),
                run.path(),
                Some(&planned(&machine)),
                resumed_at_secs,
                Box::new(move |_| _ = heard.send(())),
            );
            hearing.recv_timeout(Duration::from_secs(20)).unwrap();
            drop(watched);
        };
        watched(Some(40.0));
        let text = fs::read_to_string(run.path().join(FILE)).unwrap();
        assert!(text.contains("\n{\"resumed_at_secs\":40.0}\n"), "{text}");
        let points = card_record(run.path()).unwrap().points;
        assert_eq!(points.len(), 3);
        assert!(points[2].at_secs >= 40.0);
    }

    #[test]
    fn a_machine_without_a_card_has_nothing_to_record() {
        let machine = TestMachine::linux();
        let run = tempfile::tempdir().unwrap();
        let none = Telemetry::start(machine.root(), run.path(), None, None, Box::new(|_| {}));
        assert!(none.is_none());
        assert!(!run.path().join(FILE).exists());
    }
}
