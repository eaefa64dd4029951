//! Live figures of the cards: the last minutes, for the strips.

use std::collections::VecDeque;

use tunesmith_probe::telemetry::{GpuSample, Sample};

/// Samples that are kept: five minutes at one a second.
const KEPT: usize = 300;

/// The last samples.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    samples: VecDeque<Sample>,
}

impl Telemetry {
    /// One more.
    pub fn add(&mut self, sample: Sample) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The samples, oldest first.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = &Sample> {
        self.samples.iter()
    }

    /// The last one of a card.
    pub fn latest(&self, pci: &str) -> Option<&GpuSample> {
        self.samples.back()?.gpus.iter().find(|gpu| gpu.pci == pci)
    }

    /// A figure of a card over time, with the second at which it was read. A gap is not a number.
    pub fn series(&self, pci: &str, figure: impl Fn(&GpuSample) -> Option<f64>) -> Vec<(f64, f64)> {
        self.samples
            .iter()
            .map(|sample| {
                let gpu = sample.gpus.iter().find(|gpu| gpu.pci == pci);
                (sample.at_secs, gpu.and_then(&figure).unwrap_or(f64::NAN))
            })
            .collect()
    }
}
