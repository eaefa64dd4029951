//! Reads the cards' live figures on a thread of its own, only while somebody looks at them, and never more than once a
//! second: the window must not disturb what it shows.

use std::{
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use tunesmith_probe::telemetry::{Sample, Sampler, Target};

const EVERY: Duration = Duration::from_secs(1);

enum Wish {
    Watch { root: PathBuf, targets: Vec<Target> },
    Look(bool),
}

/// The thread that reads.
pub struct Sampling {
    wishes: Sender<Wish>,
    samples: Receiver<Sample>,
    looking: bool,
}

impl Sampling {
    /// Starts the thread, which reads nothing yet. `wake` is called after each sample.
    pub fn new(wake: impl Fn() + Send + 'static) -> Self {
        let (wishes, heard) = channel();
        let (sender, samples) = channel();
        thread::spawn(move || watch(&heard, &sender, wake));
        Self {
            wishes,
            samples,
            looking: false,
        }
    }

    /// Watches these cards from now on.
    pub fn watch(&self, root: PathBuf, targets: Vec<Target>) {
        let _ = self.wishes.send(Wish::Watch { root, targets });
    }

    /// Says whether somebody looks.
    pub fn look(&mut self, looking: bool) {
        if looking != self.looking {
            self.looking = looking;
            let _ = self.wishes.send(Wish::Look(looking));
        }
    }

    /// The samples since the last call.
    pub fn taken(&self) -> Vec<Sample> {
        self.samples.try_iter().collect()
    }
}

fn watch(wishes: &Receiver<Wish>, samples: &Sender<Sample>, wake: impl Fn()) {
    let start = Instant::now();
    let mut sampler: Option<Sampler> = None;
    let mut looking = false;
    loop {
        let wish = if looking && sampler.is_some() {
            match wishes.recv_timeout(EVERY) {
                Ok(wish) => Some(wish),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        } else {
            match wishes.recv() {
                Ok(wish) => Some(wish),
                Err(_) => return,
            }
        };
        match wish {
            Some(Wish::Watch { root, targets }) => {
                sampler = (!targets.is_empty()).then(|| Sampler::open(&root, &targets));
            }
            Some(Wish::Look(now)) => looking = now,
            None => {}
        }
        if looking && let Some(sampler) = &mut sampler {
            let sample = sampler.sample(start.elapsed().as_secs_f64());
            if samples.send(sample).is_err() {
                return;
            }
            wake();
        }
    }
}
