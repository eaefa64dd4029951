//! The signs of a card that is too full where its driver gives main memory instead of an error: on Windows and under
//! WSL tensors go there silently, on Linux the driver moves them out. A step that runs so is one that did not fit (S4).
//!
//! Two things must come together, since each alone has harmless causes: memory beside the card that was not in use
//! before the engine started, and a card that is full or steps that got slower.

use serde::{Deserialize, Serialize};

use crate::stats;

/// Growth of memory beside the card below this is staging: every engine has some (own: torch's pinned buffers and a
/// desktop's windows stay below it).
const GROWN_BYTES: u64 = 512 << 20;
/// Share of the card's memory in use from which on it is full.
const FULL_SHARE: f64 = 0.9;
/// A step takes so many times longer than those before the growth.
const SLOWER: f64 = 1.5;
/// Steps whose median is compared.
const STEPS: usize = 3;

/// How a card's memory is used by everyone at one moment. `None` is what the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardUse {
    /// Of the card's own memory, in bytes.
    pub own_bytes: Option<u64>,
    /// Main memory that stands in for the card's, in bytes: Windows' shared usage, or what the driver moved out.
    pub beside_bytes: Option<u64>,
}

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spill {
    /// Main memory that stands in for the card's since the engine started, in bytes.
    pub grown_bytes: u64,
    /// Share of the card's own memory that was in use.
    pub full: Option<f64>,
    /// How many times longer steps take than before.
    pub slower: Option<f64>,
}

impl Spill {
    /// A sentence with the figures, without a full stop.
    pub fn sentence(&self) -> String {
        let gib = self.grown_bytes as f64 / f64::from(1 << 30);
        let mut text = format!("{gib:.2} GiB of what belongs on the card went to main memory");
        if let Some(full) = self.full.filter(|full| *full >= FULL_SHARE) {
            text.push_str(&format!(", while the card was {:.0} % full", 100.0 * full));
        }
        if let Some(slower) = self.slower.filter(|slower| *slower >= SLOWER) {
            text.push_str(&format!(", and steps took {slower:.1} times as long"));
        }
        text
    }
}

/// Watches one training.
#[derive(Clone, Debug, Default)]
pub struct SpillWatch {
    total_bytes: Option<u64>,
    before_bytes: Option<u64>,
    now: CardUse,
    /// Seconds a token of the steps, before and after memory beside the card grew.
    calm: Vec<f64>,
    grown: Vec<f64>,
}

impl SpillWatch {
    /// `before` is the use before the engine started.
    pub fn new(total_bytes: Option<u64>, before: CardUse) -> Self {
        Self {
            total_bytes,
            before_bytes: before.beside_bytes,
            now: before,
            ..Self::default()
        }
    }

    /// The use now.
    pub fn memory(&mut self, now: CardUse) -> Option<Spill> {
        self.now = now;
        self.verdict()
    }

    /// A step's seconds and tokens.
    pub fn step(&mut self, secs: f64, tokens: u64) -> Option<Spill> {
        if secs.is_finite() && secs > 0.0 && tokens > 0 {
            let pace = secs / tokens as f64;
            if self.growth().is_some() {
                self.grown.push(pace);
            } else {
                self.calm.push(pace);
            }
        }
        self.verdict()
    }

    /// What is beside the card now and was not before, where it is much.
    fn growth(&self) -> Option<u64> {
        let grown = self.now.beside_bytes?.checked_sub(self.before_bytes?)?;
        (grown >= GROWN_BYTES).then_some(grown)
    }

    fn verdict(&self) -> Option<Spill> {
        let grown_bytes = self.growth()?;
        let full = self
            .now
            .own_bytes
            .zip(self.total_bytes.filter(|total| *total > 0))
            .map(|(own, total)| own as f64 / total as f64);
        let newest = &self.grown[self.grown.len().saturating_sub(STEPS)..];
        let slower = (newest.len() == STEPS)
            .then(|| Some(stats::median(newest).ok()? / stats::median(&self.calm).ok()?))
            .flatten();
        let spilled =
            full.is_some_and(|full| full >= FULL_SHARE) || slower.is_some_and(|slower| slower >= SLOWER);
        spilled.then_some(Spill {
            grown_bytes,
            full,
            slower,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn used(own: u64, beside: u64) -> CardUse {
        CardUse {
            own_bytes: Some(own),
            beside_bytes: Some(beside),
        }
    }

    #[test]
    fn a_full_card_whose_overflow_grows_has_spilled() {
        let mut watch = SpillWatch::new(Some(16 * GIB), used(GIB, GIB / 4));
        assert_eq!(watch.memory(used(12 * GIB, GIB / 2)), None, "staging");
        assert_eq!(
            watch.memory(used(15 * GIB, GIB / 2)),
            None,
            "full, and nothing beside it"
        );
        let spill = watch.memory(used(15 * GIB, 3 * GIB)).unwrap();
        assert_eq!(spill.grown_bytes, 3 * GIB - GIB / 4);
        assert!(spill.sentence().contains("2.75 GiB") && spill.sentence().contains("94 % full"));
    }

    #[test]
    fn slower_steps_tell_where_the_card_does_not_say_how_full_it_is() {
        let unknown = |beside| CardUse {
            own_bytes: None,
            beside_bytes: Some(beside),
        };
        let mut watch = SpillWatch::new(None, unknown(0));
        for _ in 0..5 {
            assert_eq!(watch.step(1.0, 1000), None);
        }
        assert_eq!(
            watch.memory(unknown(2 * GIB)),
            None,
            "memory alone proves nothing"
        );
        assert_eq!(watch.step(1.1, 1000), None);
        assert_eq!(watch.step(4.0, 1000), None);
        // Longer rows are no slower steps.
        assert_eq!(watch.step(2.0, 2000), None);
        let spill = watch.step(4.0, 1000).unwrap();
        assert!((spill.slower.unwrap() - 4.0).abs() < 1e-9);
        assert!(spill.sentence().contains("4.0 times as long"));
    }

    #[test]
    fn slow_steps_alone_and_unknown_counters_accuse_nobody() {
        let mut watch = SpillWatch::new(Some(GIB), CardUse::default());
        for secs in [1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0, f64::NAN, 0.0] {
            assert_eq!(watch.step(secs, 100), None);
        }
        assert_eq!(
            watch.memory(used(GIB, 4 * GIB)),
            None,
            "nobody knows what was there before"
        );
    }
}
