//! Energy of a run: what it cost, from the card's own counter, or from its power over time.

use super::GpuSample;

/// Longer spans between two figures of power say nothing about what happened in between.
const MAX_SPAN_SECS: f64 = 10.0;

/// Adds up the energy of one card.
///
/// A card that counts its energy itself (NVIDIA since Volta) is believed; otherwise power is integrated between
/// samples (trapezoids). What happened in gaps is not made up: [`Energy::covered_secs`] tells how much was seen.
#[derive(Clone, Debug, Default)]
pub struct Energy {
    joules: f64,
    covered_secs: f64,
    last: Option<Point>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at_secs: f64,
    watts: Option<f64>,
    counter_joules: Option<f64>,
}

impl Energy {
    /// Takes the next sample of the card. Samples must come in the order of time; others are left out.
    pub fn add(&mut self, at_secs: f64, gpu: &GpuSample) {
        let now = Point {
            at_secs,
            watts: gpu.power_watts.filter(|watts| watts.is_finite()),
            counter_joules: gpu.energy_joules.filter(|joules| joules.is_finite()),
        };
        if let Some(last) = self.last {
            let span = now.at_secs - last.at_secs;
            if span.is_nan() || span <= 0.0 {
                return;
            }
            if let Some(joules) = joules_between(last, now, span) {
                self.joules += joules;
                self.covered_secs += span;
            }
        }
        self.last = Some(now);
    }

    /// Energy so far in watt-hours; `None` while nothing is known.
    pub fn watt_hours(&self) -> Option<f64> {
        (self.covered_secs > 0.0).then(|| self.joules / 3600.0)
    }

    /// The seconds that the figure covers.
    pub fn covered_secs(&self) -> f64 {
        self.covered_secs
    }
}

fn joules_between(last: Point, now: Point, span_secs: f64) -> Option<f64> {
    // A counter that went back was started anew with its driver.
    let counted = last
        .counter_joules
        .zip(now.counter_joules)
        .map(|(before, after)| after - before)
        .filter(|joules| *joules >= 0.0);
    let integrated = || {
        let (before, after) = last.watts.zip(now.watts)?;
        (span_secs <= MAX_SPAN_SECS).then_some(0.5 * (before + after) * span_secs)
    };
    counted.or_else(integrated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(watts: Option<f64>) -> GpuSample {
        GpuSample {
            power_watts: watts,
            ..GpuSample::default()
        }
    }

    fn counter(joules: f64) -> GpuSample {
        GpuSample {
            energy_joules: Some(joules),
            power_watts: Some(1e6),
            ..GpuSample::default()
        }
    }

    fn total(samples: &[(f64, GpuSample)]) -> Energy {
        let mut energy = Energy::default();
        for (at, gpu) in samples {
            energy.add(*at, gpu);
        }
        energy
    }

    #[test]
    fn steady_power_over_time() {
        let samples: Vec<_> = (0..=7200)
            .map(|n| (f64::from(n) * 0.5, power(Some(280.0))))
            .collect();
        let energy = total(&samples);
        assert!((energy.watt_hours().unwrap() - 280.0).abs() < 1e-6);
        assert!((energy.covered_secs() - 3600.0).abs() < 1e-6);
    }

    #[test]
    fn changing_power_is_taken_in_the_middle() {
        let energy = total(&[(0.0, power(Some(100.0))), (1.0, power(Some(300.0)))]);
        assert!((energy.watt_hours().unwrap() * 3600.0 - 200.0).abs() < 1e-9);
    }

    #[test]
    fn gaps_are_not_filled() {
        let energy = total(&[
            (0.0, power(Some(100.0))),
            (1.0, power(None)),
            (2.0, power(Some(100.0))),
            (3.0, power(Some(100.0))),
            // The machine slept.
            (5000.0, power(Some(100.0))),
        ]);
        assert!((energy.covered_secs() - 1.0).abs() < 1e-9);
        assert!((energy.watt_hours().unwrap() * 3600.0 - 100.0).abs() < 1e-9);
        assert_eq!(total(&[(0.0, power(Some(5.0)))]).watt_hours(), None);
        assert_eq!(
            total(&[(0.0, power(None)), (1.0, power(None))]).watt_hours(),
            None
        );
    }

    #[test]
    fn the_cards_own_counter_is_believed_and_may_start_anew() {
        let samples = [(0.0, counter(1000.0)), (100.0, counter(8200.0))];
        assert!(
            (total(&samples).watt_hours().unwrap() - 2.0).abs() < 1e-9,
            "gaps do not matter to a counter"
        );
        let mut restarted = samples.to_vec();
        restarted.push((200.0, counter(10.0)));
        restarted.push((201.0, counter(3610.0)));
        assert!((total(&restarted).watt_hours().unwrap() - 3.0).abs() < 1e-9);
    }

    #[test]
    fn time_that_stands_still_or_goes_back_adds_nothing() {
        let energy = total(&[
            (5.0, power(Some(100.0))),
            (5.0, power(Some(100.0))),
            (4.0, power(Some(100.0))),
            (f64::NAN, power(Some(100.0))),
            (6.0, power(Some(100.0))),
        ]);
        assert!((energy.covered_secs() - 1.0).abs() < 1e-9);
    }
}
