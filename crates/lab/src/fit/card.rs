//! The card that a run is planned for, and what of its memory is there at the moment.

use std::path::Path;

use tunesmith_measure::fit::{CardMemory, HostMemory, LimitRule, MemoryLimit};
use tunesmith_probe::{
    Gpu, GpuVendor, LIVE, Machine, Platform,
    telemetry::{CardState, GpuSample, Sampler, Target},
};
use tunesmith_setup::human_bytes;

/// A card that a run is planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCard {
    /// PCI address, where the card has one here.
    pub pci: Option<String>,
    /// Who made it.
    pub vendor: GpuVendor,
    /// All that torch calls its memory, in bytes.
    pub total_bytes: u64,
    /// That is main memory, which the card shares with the host.
    pub shares_main_memory: bool,
    /// The system: on Windows and WSL a driver gives main memory where the card has none left, and no error.
    pub platform: Platform,
}

impl PlannedCard {
    /// From detection; `None` where its memory or its maker could not be read.
    pub fn of(gpu: &Gpu, integrated: bool, platform: Platform) -> Option<Self> {
        // torch calls the pool that ROCm allocates from the card's memory; of a card of its own that is all of it.
        let shared = gpu.pool_bytes.or(gpu.gtt_bytes.max(gpu.vram_bytes));
        let own = gpu.vram_bytes.or(gpu.pool_bytes);
        let total_bytes = if integrated { shared? } else { own? };
        // A part that is set aside for the graphics is nobody else's.
        let set_aside = gpu.vram_bytes.is_some_and(|vram| total_bytes <= vram);
        Some(Self {
            pci: gpu.pci.clone(),
            vendor: gpu.vendor?,
            total_bytes,
            shares_main_memory: integrated && !set_aside,
            platform,
        })
    }

    /// Its memory as detection read it.
    pub fn memory_as_read(&self, gpu: &Gpu, machine: &Machine, available: Option<u64>) -> CardMemory {
        let used = if self.shares_main_memory {
            gpu.gtt_used_bytes
        } else {
            gpu.vram_used_bytes
        };
        self.memory(used, machine, available)
    }

    /// Its memory now: what the driver tells, read once.
    pub fn memory_now(&self, root: &Path) -> CardMemory {
        let machine = tunesmith_probe::machine(root);
        let available = tunesmith_probe::load(root).available_memory_bytes;
        let sample = self.sample(root);
        let used = match sample.state {
            // A card that sleeps holds nothing.
            CardState::Asleep | CardState::Resting => Some(0),
            CardState::Missing => None,
            CardState::Awake if self.shares_main_memory => sample.gtt_used_bytes,
            CardState::Awake => sample.vram_used_bytes,
        };
        self.memory(used, &machine, available)
    }

    /// One look at the card.
    pub(super) fn sample(&self, root: &Path) -> GpuSample {
        let Some(target) = self.target() else {
            return GpuSample::default();
        };
        let sample = Sampler::open(root, &[target]).sample(0.0);
        sample.gpus.into_iter().next().unwrap_or_default()
    }

    /// What is watched of it.
    pub fn target(&self) -> Option<Target> {
        Some(Target {
            pci: self.pci.clone()?,
            vendor: self.vendor,
        })
    }

    fn memory(&self, used: Option<u64>, machine: &Machine, available: Option<u64>) -> CardMemory {
        let host = machine
            .usable_memory_bytes()
            .filter(|_| self.shares_main_memory)
            .map(|total_bytes| HostMemory {
                total_bytes,
                available_bytes: available,
            });
        CardMemory {
            total_bytes: self.total_bytes,
            free_bytes: used.map(|used| self.total_bytes.saturating_sub(used)),
            host,
        }
    }
}

/// A limit in words: how much, and by which rule; a clause without a full stop.
pub fn limit_words(limit: &MemoryLimit) -> String {
    let of = human_bytes(limit.total_bytes);
    let how = match (limit.rule, limit.free_bytes) {
        (LimitRule::FreeOnCard, Some(free)) => {
            format!(
                "nine tenths of the {} that are free on the card of {of}",
                human_bytes(free)
            )
        }
        (LimitRule::FreeOnCard | LimitRule::WholeCard, _) => {
            format!("nine tenths of the card's {of}; its driver does not tell what is free")
        }
        (LimitRule::LeftByHost, _) => {
            "what the host leaves of the memory that it shares with the card".to_owned()
        }
        (LimitRule::Wish, _) => format!("of {of}, as you set it"),
    };
    format!("{}: {how}", human_bytes(limit.bytes))
}

/// The limit in force now on this machine, by its card and the wish.
pub(crate) fn limit_now(
    card: Option<&PlannedCard>,
    wish: tunesmith_measure::fit::LimitWish,
) -> Option<MemoryLimit> {
    MemoryLimit::of(&card?.memory_now(Path::new(LIVE)), wish)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use tunesmith_measure::fit::{LimitWish, left_to_host};
    use tunesmith_probe::testing::{AmdCard, TestMachine};
    use tunesmith_setup::knowledge::Knowledge;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn card() -> (TestMachine, PlannedCard) {
        let machine = TestMachine::linux()
            .memory_gib(32)
            .usable_devices()
            .amd(AmdCard::rx_7900_xtx("0000:03:00.0"));
        let system = machine.detect();
        let card = PlannedCard::of(&system.gpus[0], false, system.platform).unwrap();
        (machine, card)
    }

    #[test]
    fn what_the_driver_says_is_free_is_read_at_the_moment() {
        let (machine, card) = card();
        let memory = card.memory_now(machine.root());
        assert_eq!(memory.host, None);
        let free = memory.free_bytes.unwrap();
        assert!(
            free <= memory.total_bytes && memory.total_bytes > 23 * GIB,
            "{memory:?}"
        );
        let limit = MemoryLimit::of(&memory, LimitWish::Auto).unwrap();
        assert!(limit.bytes <= free / 10 * 9 + 1);
        assert!(
            limit_words(&limit).contains("nine tenths"),
            "{}",
            limit_words(&limit)
        );
    }

    #[test]
    fn a_host_keeps_its_share_of_memory_that_a_card_shares() {
        let machine = tunesmith_probe::testing::machines::strix_halo_raised();
        let system = machine.detect();
        let card = PlannedCard::of(&system.gpus[0], true, system.platform).unwrap();
        assert!(card.shares_main_memory);
        let memory = card.memory_now(machine.root());
        let host = memory.host.unwrap();
        let limit = MemoryLimit::of(&memory, LimitWish::Auto).unwrap();
        assert_eq!(limit.rule, LimitRule::LeftByHost);
        assert!(
            host.total_bytes - limit.bytes >= 16 * GIB,
            "{limit:?} of {host:?}"
        );
    }

    #[test]
    fn a_card_that_is_not_there_tells_nothing_of_what_is_free() {
        let (machine, card) = card();
        let gone = PlannedCard {
            pci: Some("0000:99:00.0".to_owned()),
            ..card
        };
        let memory = gone.memory_now(machine.root());
        assert_eq!(memory.free_bytes, None);
        let limit = MemoryLimit::of(&memory, LimitWish::Auto).unwrap();
        assert_eq!(limit.rule, LimitRule::WholeCard);
    }

    /// Captures of real machines, where they lie beside the project.
    fn captures() -> Vec<PathBuf> {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/systems");
        let folder = std::env::var_os("TUNESMITH_CAPTURES").map_or(beside, PathBuf::from);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect()
    }

    #[test]
    fn every_captured_card_gets_a_limit_that_leaves_what_others_need() {
        let knowledge = Knowledge::load(None).unwrap();
        for capture in captures() {
            let system = tunesmith_probe::detect(&capture, &knowledge.cards);
            for gpu in &system.gpus {
                let integrated = gpu.integrated == Some(true);
                let Some(card) = PlannedCard::of(gpu, integrated, system.platform) else {
                    continue;
                };
                let name = format!("{}: {:?}", capture.display(), gpu.name);
                let memory = card.memory_now(&capture);
                let limit = MemoryLimit::of(&memory, LimitWish::Auto).unwrap();
                assert!(limit.fraction > 0.0 && limit.fraction <= 1.0, "{name}: {limit:?}");
                assert!(
                    limit.bytes <= memory.free_bytes.unwrap_or(memory.total_bytes),
                    "{name}"
                );
                match memory.host {
                    Some(host) => {
                        let left = host.total_bytes - limit.bytes.min(host.total_bytes);
                        assert!(
                            left >= left_to_host(host.total_bytes),
                            "{name}: {limit:?} of {host:?}"
                        );
                    }
                    None => assert!(limit.fraction <= 0.9, "{name}: {limit:?}"),
                }
                assert!(!limit_words(&limit).is_empty());
            }
        }
    }
}
