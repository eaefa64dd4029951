//! The exponentially smoothed copy that a series may keep of itself, grown with each of its points.

use super::Series;

#[derive(Clone, Debug)]
pub(super) struct Smoothing {
    /// Share of the past in each smoothed value, 0 to below 1.
    keep: f64,
    /// With the same x and the same indexes.
    pub(super) series: Box<Series>,
}

impl Smoothing {
    /// `keep` is held to 0 to 0.999.
    pub(super) fn new(keep: f64) -> Self {
        Self {
            keep: keep.clamp(0.0, 0.999),
            series: Box::default(),
        }
    }

    /// A value that is not finite leaves a gap, one that is not valid the smoothing as it was.
    pub(super) fn push(&mut self, x: f64, y: f64, valid: bool) {
        let series = &mut self.series;
        let before = series.last_finite.map(|index| series.y[index]);
        let value = match before {
            Some(before) if y.is_finite() && valid => self.keep * before + (1.0 - self.keep) * y,
            Some(before) if y.is_finite() => before,
            _ => y,
        };
        // Its x are those of the series, which has looked at them.
        let taken = series.append(x, value);
        debug_assert!(taken.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::of;

    #[test]
    fn smoothing_follows_and_passes_over_what_is_no_number() {
        let mut series = of(&[4.0, 2.0, f64::NAN]).smoothed_by(0.5);
        series.push(3.0, 1.0).unwrap();
        let smoothed = series.smoothed().unwrap();
        assert_eq!(smoothed.len(), 4);
        assert_eq!(smoothed.get(1), Some((1.0, 3.0)));
        assert_eq!(smoothed.get(3), Some((3.0, 2.0)));
        series.truncate_after(1.0);
        series.push_invalid(2.0, 99.0).unwrap();
        series.push(3.0, 5.0).unwrap();
        assert_eq!(series.smoothed().unwrap().get(2), Some((2.0, 3.0)));
        assert_eq!(series.smoothed().unwrap().get(3), Some((3.0, 4.0)));
    }
}
