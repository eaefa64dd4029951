//! An axis with few, round ticks.

/// A range of values with few, round ticks.
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) distance: f64,
}

impl Axis {
    pub(crate) fn spanning(low: f64, high: f64) -> Self {
        Self::with(low, high, 3.0)
    }

    /// With about so many stretches between its ticks.
    pub(crate) fn with(low: f64, high: f64, stretches: f64) -> Self {
        let span = if high - low > 0.0 { high - low } else { 1.0 };
        let distance = round_distance(span / stretches);
        let ends = (
            (low / distance).floor() * distance,
            (high / distance - 1e-9).ceil() * distance,
        );
        Self {
            low: ends.0,
            high: if ends.1 > ends.0 {
                ends.1
            } else {
                ends.0 + distance
            },
            distance,
        }
    }

    /// Where a value lies between the pixels of the two ends.
    pub(crate) fn place(&self, value: f64, low_end: f64, high_end: f64) -> f64 {
        low_end + (value - self.low) / (self.high - self.low) * (high_end - low_end)
    }

    pub(crate) fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        let count = ((self.high - self.low) / self.distance).round() as u32;
        (0..=count).map(|index| self.low + f64::from(index) * self.distance)
    }
}

/// 1, 2 or 5 times a power of ten, at least as large.
pub(crate) fn round_distance(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|front| front * power)
        .find(|distance| *distance >= least * 0.999)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round() {
        let axis = Axis::spanning(0.0, 2.9);
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0]);
        for high in [1e-5, 0.3, 7.0, 1234.0, 9e9] {
            let axis = Axis::spanning(0.0, high);
            assert!((3..=6).contains(&axis.ticks().count()), "{high}");
            assert!(axis.high >= high * 0.999_999);
        }
    }
}
