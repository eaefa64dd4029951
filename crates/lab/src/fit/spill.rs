//! Watches a training for a card that is too full without an error: samples the card beside the steps, on a thread of its
//! own, since asking Windows from WSL takes seconds. The verdict is arithmetic and lies in `tunesmith_measure::fit`.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use tunesmith_measure::fit::{CardUse, Spill, SpillWatch};
use tunesmith_probe::{
    LIVE, Platform,
    telemetry::{Counters, GpuSample, Sampler},
};
use tunesmith_protocol::{Event, RunStatus, Step, StopHow};

use super::PlannedCard;
use crate::supervisor::{Failure, Halt};

/// Time between two looks at a card, and between two questions to Windows from WSL, each of which starts a program.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Watches over one training; it ends when it is dropped.
pub(crate) struct SpillGuard {
    watch: SpillWatch,
    samples: Receiver<CardUse>,
    over: Arc<AtomicBool>,
    tokens: u64,
    told: bool,
}

impl SpillGuard {
    /// Begins before the engine starts, so that what was in use then is known. `None` where there is nothing to watch: on
    /// a processor, and on graphics whose memory is main memory.
    pub(crate) fn start(card: Option<&PlannedCard>) -> Option<Self> {
        let card = card.filter(|card| !card.shares_main_memory)?;
        let mut source = Source::open(card)?;
        let before = source.read();
        let every = source.every();
        let (sender, samples) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        thread::Builder::new()
            .name("spill-watch".to_owned())
            .spawn(move || {
                while !ended.load(Ordering::SeqCst) && sender.send(source.read()).is_ok() {
                    thread::park_timeout(every);
                }
            })
            .ok()?;
        Some(Self::over(card.total_bytes, before, samples, over))
    }

    /// As [`SpillGuard::start`], where the record of a run reads the card each second anyway: what that saw is to be sent, and
    /// the card is not read twice. Without a sender the guard looks for itself, as Windows counts elsewhere than the sensors.
    pub(crate) fn fed(card: Option<&PlannedCard>) -> (Option<Self>, Option<Sender<CardUse>>) {
        let Some(card) = card.filter(|card| !card.shares_main_memory) else {
            return (None, None);
        };
        match Source::open(card) {
            Some(Source::Card(sampler)) => {
                let before = Source::Card(sampler).read();
                let (sender, samples) = channel();
                let guard = Self::over(card.total_bytes, before, samples, Arc::default());
                (Some(guard), Some(sender))
            }
            _ => (Self::start(Some(card)), None),
        }
    }

    fn over(total_bytes: u64, before: CardUse, samples: Receiver<CardUse>, over: Arc<AtomicBool>) -> Self {
        Self {
            watch: SpillWatch::new(Some(total_bytes), before),
            samples,
            over,
            tokens: 0,
            told: false,
        }
    }

    /// Looks at what was sampled, and at a step; the first spill is told once.
    pub(crate) fn look(&mut self, event: &Event) -> Option<Spill> {
        let mut spill = None;
        while let Ok(sample) = self.samples.try_recv() {
            spill = self.watch.memory(sample).or(spill);
        }
        if let Event::Step(step) = event {
            spill = self.step(step).or(spill);
        }
        if self.told {
            return None;
        }
        self.told = spill.is_some();
        spill
    }

    fn step(&mut self, step: &Step) -> Option<Spill> {
        let tokens = step.padded_tokens.saturating_sub(self.tokens);
        self.tokens = step.padded_tokens;
        self.watch.step(step.dt_secs, tokens)
    }
}

impl Drop for SpillGuard {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// Ends a run whose card was too full, as one that ran out of memory: at this pace it would take many times as long.
pub(crate) fn halt(spill: &Spill) -> Halt {
    Halt {
        status: RunStatus::Oom,
        failure: Failure {
            code: "memory_spilled".to_owned(),
            message: format!(
                "{}: the card has no room for this training, and its driver gives main memory instead of an error",
                spill.sentence()
            ),
            hints: vec![
                "set train.recompute=\"layer\", or halve train.micro_batch and double train.accumulation"
                    .to_owned(),
                "close other programs that use the card".to_owned(),
                "`tunesmith fit RECIPE --search batch` finds the largest batch that runs".to_owned(),
            ],
            last_lines: Vec::new(),
        },
        how: StopHow::Save,
    }
}

/// Where samples come from.
enum Source {
    Card(Box<Sampler>),
    Windows(Counters),
}

impl Source {
    fn open(card: &PlannedCard) -> Option<Self> {
        match card.platform {
            Platform::Windows | Platform::Wsl => Counters::open(card.platform).map(Self::Windows),
            _ => {
                let sampler = Sampler::open(Path::new(LIVE), &[card.target()?]);
                Some(Self::Card(Box::new(sampler)))
            }
        }
    }

    fn every(&self) -> Duration {
        match self {
            Self::Card(_) => LOOK_EVERY,
            Self::Windows(_) => ASK_EVERY,
        }
    }

    fn read(&mut self) -> CardUse {
        match self {
            Self::Card(sampler) => {
                let sample = sampler.sample(0.0).gpus.into_iter().next().unwrap_or_default();
                card_use(&sample)
            }
            Self::Windows(counters) => counters
                .fullest()
                .map_or_else(CardUse::default, |sample| CardUse {
                    own_bytes: sample.vram_used_bytes,
                    beside_bytes: sample.gtt_used_bytes,
                }),
        }
    }
}

/// On Linux the driver counts what it moved out. A driver that counts none at all has moved none where it tells the rest.
pub(crate) fn card_use(sample: &GpuSample) -> CardUse {
    CardUse {
        own_bytes: sample.vram_used_bytes,
        beside_bytes: sample.evicted_vram_bytes.or(sample.vram_used_bytes.map(|_| 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn step(number: u64, secs: f64) -> Event {
        Event::Step(Step {
            step: number,
            loss: Some(1.0),
            grad_norm: Some(1.0),
            lr: 1e-3,
            dt_secs: secs,
            elapsed_secs: number as f64,
            real_tokens: 100 * number,
            padded_tokens: 100 * number,
            supervised_tokens: 10 * number,
            squared_lengths: 1,
            peak_bytes: None,
        })
    }

    #[test]
    fn a_card_that_overflows_between_two_steps_is_seen_at_the_next_and_told_once() {
        let (sender, samples) = channel();
        let full = |beside| CardUse {
            own_bytes: Some(16 * GIB),
            beside_bytes: Some(beside),
        };
        let mut guard = SpillGuard::over(16 * GIB, full(0), samples, Arc::default());
        assert_eq!(guard.look(&step(1, 1.0)), None);
        sender.send(full(GIB)).unwrap();
        let spill = guard.look(&step(2, 1.0)).unwrap();
        let halt = halt(&spill);
        assert_eq!(
            (halt.status, halt.failure.code.as_str()),
            (RunStatus::Oom, "memory_spilled")
        );
        assert!(
            halt.failure.message.contains("1.00 GiB"),
            "{}",
            halt.failure.message
        );
        sender.send(full(2 * GIB)).unwrap();
        assert_eq!(guard.look(&step(3, 1.0)), None, "once is enough");
    }

    #[test]
    fn there_is_nothing_to_watch_on_a_processor() {
        assert!(SpillGuard::start(None).is_none());
        let (guard, feed) = SpillGuard::fed(None);
        assert!(guard.is_none() && feed.is_none());
    }
}
