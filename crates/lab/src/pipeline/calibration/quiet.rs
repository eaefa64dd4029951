//! Who else uses the machine before, during and after a calibration (M19, M20): what others take is missing in every
//! figure, and every later MFU would be counted against it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use tunesmith_probe::{
    CardTable, CpuSnapshot, LIVE, Load,
    contention::{self, GpuContention},
    detect,
    telemetry::{Sample, Sampler, Target},
};
use tunesmith_protocol::Contention;

use crate::run::TELLING_CORES;

/// Cores that others keep busy from which on a card's figures are in doubt: the processor only hands it its work.
const TELLING_CORES_OF_A_CARD: f64 = 2.0;

/// Shortest time that is looked at after the last measurement: some ticks of the kernel's clock.
const AFTERWARDS: Duration = Duration::from_millis(250);

/// Names that are kept.
const MOST_NAMES: usize = 5;

/// Watches the machine around a calibration.
pub(super) struct Watch {
    on_card: bool,
    snapshot: CpuSnapshot,
    since: Instant,
    before: Option<Load>,
    during: Option<Load>,
    cards: Option<Cards>,
}

struct Cards {
    sampler: Sampler,
    started: Instant,
    before: Sample,
}

impl Watch {
    /// Begins before the engine starts.
    pub(super) fn start(device: &str) -> Self {
        let on_card = device != "cpu";
        Self {
            on_card,
            snapshot: CpuSnapshot::take(Path::new(LIVE)),
            since: Instant::now(),
            before: None,
            during: None,
            cards: on_card.then(Cards::watch),
        }
    }

    /// The engine is there and nothing is measured yet. A sentence where others take enough to change what will be.
    pub(super) fn begins(&mut self) -> Option<String> {
        let before = self.lap();
        let cores = before
            .other_cores
            .filter(|cores| *cores >= self.telling_cores())?;
        let who = names(&before);
        self.before = Some(before);
        let who = if who.is_empty() {
            "other programs".to_owned()
        } else {
            format!("other programs ({})", who.join(", "))
        };
        Some(format!(
            "{who} keep {cores:.1} cores busy: what is measured now will be too low; end them and measure again"
        ))
    }

    /// The last measurement is over.
    pub(super) fn ends(&mut self) {
        self.during = Some(self.lap());
    }

    /// What was seen. Waits a moment where the last measurement was over just now.
    pub(super) fn conclude(mut self) -> Seen {
        std::thread::sleep(AFTERWARDS.saturating_sub(self.since.elapsed()));
        let after = self.lap();
        let cards = self.cards.take().map(Cards::conclude).unwrap_or_default();
        summed_up(
            self.before.as_ref(),
            self.during.as_ref(),
            &after,
            &cards,
            self.telling_cores(),
        )
    }

    fn telling_cores(&self) -> f64 {
        if self.on_card {
            TELLING_CORES_OF_A_CARD
        } else {
            TELLING_CORES
        }
    }

    /// The load since the last look.
    fn lap(&mut self) -> Load {
        let root = Path::new(LIVE);
        let load = self.snapshot.load_since(root, &[std::process::id()]);
        self.snapshot = CpuSnapshot::take(root);
        self.since = Instant::now();
        load
    }
}

impl Cards {
    fn watch() -> Self {
        let root = Path::new(LIVE);
        let targets: Vec<Target> = detect(root, &CardTable::built_in())
            .gpus
            .into_iter()
            .filter_map(|gpu| {
                Some(Target {
                    pci: gpu.pci?,
                    vendor: gpu.vendor?,
                })
            })
            .collect();
        let mut sampler = Sampler::open(root, &targets);
        let started = Instant::now();
        let before = sampler.sample(0.0);
        Self {
            sampler,
            started,
            before,
        }
    }

    fn conclude(mut self) -> Vec<GpuContention> {
        let after = self.sampler.sample(self.started.elapsed().as_secs_f64());
        let ours = contention::family(Path::new(LIVE), &[std::process::id()]);
        contention::gpu(&self.before, &after, &ours)
    }
}

/// What was seen, in the words of the record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) contention: Contention,
    /// Memory that others held of the card, where there is one card and its driver tells.
    pub(super) others_bytes: Option<u64>,
}

fn summed_up(
    before: Option<&Load>,
    during: Option<&Load>,
    after: &Load,
    cards: &[GpuContention],
    telling_cores: f64,
) -> Seen {
    let cores = |load: Option<&Load>| load.and_then(|load| load.other_cores);
    let all = [cores(before), cores(during), after.other_cores];
    let most = all.into_iter().flatten().reduce(f64::max);
    let on_cards = cards.iter().any(GpuContention::is_disturbed);
    let disturbed = match (most, cards.is_empty()) {
        (None, true) => None,
        _ => Some(on_cards || most.is_some_and(|cores| cores >= telling_cores)),
    };
    let mut others: Vec<String> = Vec::new();
    let of_cards = cards.iter().flat_map(|card| &card.others).filter(|process| {
        process
            .engine_share
            .is_some_and(|share| share >= contention::BUSY_SHARE)
    });
    let of_cards = of_cards.filter_map(|process| process.name.clone());
    let of_processor = [during, before, Some(after)]
        .into_iter()
        .flatten()
        .flat_map(names);
    for name in of_cards.chain(of_processor) {
        if !others.contains(&name) && others.len() < MOST_NAMES {
            others.push(name);
        }
    }
    Seen {
        contention: Contention {
            before_cores: cores(before),
            during_cores: cores(during),
            after_cores: after.other_cores,
            others,
            card_growth_bytes: cards
                .iter()
                .filter_map(|card| card.other_vram_growth_bytes)
                .reduce(i64::max),
            disturbed,
        },
        others_bytes: match cards {
            [card] => card.other_vram_bytes,
            _ => None,
        },
    }
}

/// The busiest by name, each name once.
fn names(load: &Load) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for process in &load.busy_processes {
        if !names.contains(&process.name) && names.len() < MOST_NAMES {
            names.push(process.name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_probe::{BusyProcess, contention::OtherProcess};

    fn load(other_cores: f64, names: &[&str]) -> Load {
        Load {
            other_cores: Some(other_cores),
            busy_processes: names
                .iter()
                .map(|name| BusyProcess {
                    pid: 1,
                    name: (*name).to_owned(),
                    cpu_share: 0.5,
                })
                .collect(),
            ..Load::default()
        }
    }

    #[test]
    fn a_busy_neighbour_at_any_time_is_named_and_disturbs() {
        let quiet = load(0.05, &[]);
        let busy = load(1.4, &["rustc", "rustc", "firefox"]);
        let seen = summed_up(Some(&quiet), Some(&busy), &load(0.1, &["firefox"]), &[], 0.3);
        assert_eq!(seen.contention.disturbed, Some(true));
        assert_eq!(seen.contention.others, ["rustc", "firefox"]);
        assert_eq!(seen.contention.during_cores, Some(1.4));
        let after = summed_up(Some(&quiet), Some(&quiet), &busy, &[], 0.3);
        assert_eq!(after.contention.disturbed, Some(true), "after counts too");
        let calm = summed_up(Some(&quiet), Some(&quiet), &quiet, &[], 0.3);
        assert_eq!(calm.contention.disturbed, Some(false));
    }

    #[test]
    fn a_program_on_the_card_disturbs_a_card_and_a_desktop_does_not() {
        let on_card = |share| GpuContention {
            pci: "0000:03:00.0".to_owned(),
            others: vec![OtherProcess {
                pid: 7,
                name: Some("ollama".to_owned()),
                vram_bytes: Some(4 << 30),
                engine_share: Some(share),
            }],
            other_vram_bytes: Some(5 << 30),
            other_vram_growth_bytes: Some(0),
            processes_hidden: false,
        };
        let quiet = load(0.5, &["firefox"]);
        let busy = summed_up(None, Some(&quiet), &quiet, &[on_card(0.6)], 2.0);
        assert_eq!(busy.contention.disturbed, Some(true));
        assert_eq!(busy.contention.others[0], "ollama");
        assert_eq!(busy.others_bytes, Some(5 << 30));
        let idle = summed_up(None, Some(&quiet), &quiet, &[on_card(0.01)], 2.0);
        assert_eq!(idle.contention.disturbed, Some(false));
    }

    #[test]
    fn where_nothing_can_be_read_nothing_is_claimed() {
        let nothing = Load::default();
        let seen = summed_up(None, None, &nothing, &[], 0.3);
        assert_eq!(seen.contention, Contention::default());
    }
}
