//! Values over steps or seconds, kept so that a million of them cost no more to draw than a screen has columns.
//!
//! Values are f64, exactly as recorded: about 18 bytes a point in all, with the buckets that tell the least and the
//! greatest of a stretch.

mod buckets;
mod columns;
mod marks;
mod smoothing;

use std::ops::Range;

use buckets::{Levels, Span};
use smoothing::Smoothing;

pub use marks::{Mark, MarkKind};

/// A finite value and where it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its index.
    pub index: usize,
    /// Step or seconds.
    pub x: f64,
    /// The value.
    pub y: f64,
}

/// The least and the greatest finite value of a stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremes {
    /// The least, of equal ones the first.
    pub least: Point,
    /// The greatest, of equal ones the first.
    pub most: Point,
}

/// A point that was not taken, because it lies before the last one or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a point at {x} cannot follow one at {last}; drop the later points first")]
pub struct OutOfOrder {
    /// Where the point lies.
    pub x: f64,
    /// Where the last one lies; minus infinity without any.
    pub last: f64,
}

/// An append-only series. Neither x that goes back nor a value is ever changed silently: [`Series::push`] refuses the
/// first, and a value that is not finite is kept and marked.
#[derive(Clone, Debug, Default)]
pub struct Series {
    x: Vec<f64>,
    y: Vec<f64>,
    levels: Levels,
    not_finite: Vec<usize>,
    invalid: Vec<usize>,
    last_finite: Option<usize>,
    smoothing: Option<Smoothing>,
    fingerprint: u64,
}

impl Series {
    /// An empty series.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps an exponentially smoothed copy beside the values. `keep` is the share of the past in each smoothed
    /// value, held to 0 to 0.999. Values that are not finite leave a gap in it and the smoothing as it was.
    #[must_use]
    pub fn smoothed_by(mut self, keep: f64) -> Self {
        let mut smoothing = Smoothing::new(keep);
        for (index, (&x, &y)) in self.x.iter().zip(&self.y).enumerate() {
            smoothing.push(x, y, self.is_valid(index));
        }
        self.smoothing = Some(smoothing);
        self
    }

    /// Appends a point. `y` may be anything, also not a number.
    ///
    /// # Errors
    /// [`OutOfOrder`] where `x` is not finite or lies before the last one; nothing is appended then.
    pub fn push(&mut self, x: f64, y: f64) -> Result<(), OutOfOrder> {
        self.append(x, y)?;
        if let Some(smoothing) = &mut self.smoothing {
            smoothing.push(x, y, true);
        }
        Ok(())
    }

    /// Appends a point that is not to be believed, such as a step that the judge refused. It does not move the
    /// smoothed values.
    ///
    /// # Errors
    /// As [`Series::push`].
    pub fn push_invalid(&mut self, x: f64, y: f64) -> Result<(), OutOfOrder> {
        self.append(x, y)?;
        self.invalid.push(self.y.len() - 1);
        if let Some(smoothing) = &mut self.smoothing {
            smoothing.push(x, y, false);
        }
        Ok(())
    }

    fn append(&mut self, x: f64, y: f64) -> Result<(), OutOfOrder> {
        let last = self.x.last().copied().unwrap_or(f64::NEG_INFINITY);
        if !x.is_finite() || x < last {
            return Err(OutOfOrder { x, last });
        }
        let index = self.y.len();
        self.x.push(x);
        self.y.push(y);
        if y.is_finite() {
            self.last_finite = Some(index);
        } else {
            self.not_finite.push(index);
        }
        self.levels.grow(&self.x, &self.y);
        self.fingerprint = with_point(self.fingerprint, x, y);
        Ok(())
    }

    /// Drops the points beyond `x`: a resumed run does its later steps again.
    pub fn truncate_after(&mut self, x: f64) {
        let len = self.x.partition_point(|&at| at <= x);
        if len == self.x.len() {
            return;
        }
        self.x.truncate(len);
        self.y.truncate(len);
        self.levels.truncate(len);
        for marked in [&mut self.not_finite, &mut self.invalid] {
            let kept = marked.partition_point(|&index| index < len);
            marked.truncate(kept);
        }
        self.last_finite = self.y.iter().rposition(|y| y.is_finite());
        if let Some(smoothing) = &mut self.smoothing {
            smoothing.series.truncate_after(x);
        }
        let points = self.x.iter().zip(&self.y);
        self.fingerprint = points.fold(0, |print, (&x, &y)| with_point(print, x, y));
    }

    /// A number that stands for the points: series of the same points have the same one, and others as good as surely
    /// another. What is made of the points and kept is known by it.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Points, also those that are not finite.
    pub fn len(&self) -> usize {
        self.y.len()
    }

    /// Whether there is no point at all.
    pub fn is_empty(&self) -> bool {
        self.y.is_empty()
    }

    /// Where a point lies and its value, by its index.
    pub fn get(&self, index: usize) -> Option<(f64, f64)> {
        Some((*self.x.get(index)?, *self.y.get(index)?))
    }

    /// The smoothed copy, with the same indexes, where one is kept.
    pub fn smoothed(&self) -> Option<&Series> {
        self.smoothing.as_ref().map(|smoothing| &*smoothing.series)
    }

    /// First and last x.
    pub fn x_range(&self) -> Option<(f64, f64)> {
        Some((*self.x.first()?, *self.x.last()?))
    }

    /// Index of the first finite value.
    pub fn first_finite(&self) -> Option<usize> {
        self.last_finite?;
        // The marked ones are in order, so the first gap in 0, 1, 2, … is the first finite value.
        let run = self.not_finite.iter().enumerate();
        Some(run.take_while(|&(place, &index)| place == index).count())
    }

    /// Index of the last finite value.
    pub fn last_finite(&self) -> Option<usize> {
        self.last_finite
    }

    /// Whether the point is to be believed.
    pub fn is_valid(&self, index: usize) -> bool {
        self.invalid.binary_search(&index).is_err()
    }

    /// Index of the point nearest to `x`, of several at the same place the first.
    pub fn nearest(&self, x: f64) -> Option<usize> {
        let after = self.x.partition_point(|&at| at < x);
        let before = after.checked_sub(1);
        match (before, self.x.get(after)) {
            (Some(before), Some(&at)) if x - self.x[before] <= at - x => Some(before),
            (_, Some(_)) => Some(after),
            (before, None) => before,
        }
    }

    /// Index of the first point that lies exactly at `x`.
    pub fn at(&self, x: f64) -> Option<usize> {
        let index = self.x.partition_point(|&at| at < x);
        self.x
            .get(index)
            .is_some_and(|at| at.total_cmp(&x).is_eq())
            .then_some(index)
    }

    /// Indexes of the points between two x, both included.
    pub fn between(&self, low: f64, high: f64) -> Range<usize> {
        let start = self.x.partition_point(|&at| at < low);
        start..start.max(self.x.partition_point(|&at| at <= high))
    }

    /// Least and greatest finite value of a stretch of indexes; `None` without a finite one.
    pub fn extremes(&self, range: Range<usize>) -> Option<Extremes> {
        let span = self.span(range.clone());
        let end = range.end.min(self.y.len());
        let found = |value| {
            let index = self.levels.place_of(&self.y, range.start..end, value)?;
            self.point(index)
        };
        Some(Extremes {
            least: found(span.least)?,
            most: found(span.most)?,
        })
    }

    /// How far the finite values of a stretch of indexes reach.
    pub(super) fn span(&self, range: Range<usize>) -> Span {
        let end = range.end.min(self.y.len());
        self.levels.span(&self.y, range.start.min(end)..end)
    }

    /// Whether all that lies between two points is values that are not finite, at least one of them.
    pub fn is_gap(&self, from: usize, to: usize) -> bool {
        let between = to.saturating_sub(from + 1);
        if between == 0 || between > self.not_finite.len() {
            return false;
        }
        let first = self.not_finite.partition_point(|&index| index <= from);
        self.not_finite[first..].partition_point(|&index| index < to) == between
    }

    fn point(&self, index: usize) -> Option<Point> {
        let (x, y) = self.get(index)?;
        y.is_finite().then_some(Point { index, x, y })
    }
}

/// The fingerprint of points when one more comes.
fn with_point(fingerprint: u64, x: f64, y: f64) -> u64 {
    stirred(stirred(fingerprint ^ x.to_bits()) ^ y.to_bits())
}

/// Spreads each bit over all of them: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn stirred(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn of(values: &[f64]) -> Series {
        let mut series = Series::new();
        for (step, &value) in values.iter().enumerate() {
            series.push(step as f64, value).unwrap();
        }
        series
    }

    pub(super) fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            12 => -1e3_f64..1e3,
            1 => Just(f64::NAN),
            1 => Just(f64::INFINITY),
            1 => Just(f64::NEG_INFINITY),
        ]
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn x_never_goes_back_and_says_so() {
        let mut series = of(&[1.0, 2.0, 3.0]);
        assert_eq!(series.push(1.5, 9.0), Err(OutOfOrder { x: 1.5, last: 2.0 }));
        assert!(series.push(f64::NAN, 9.0).is_err());
        assert_eq!(series.len(), 3);
        series.push(2.0, 4.0).unwrap();
        assert_eq!(series.len(), 4);
    }

    #[test]
    fn a_resume_goes_on_from_an_earlier_step() {
        let mut series = of(&[4.0, 3.0, f64::NAN, 1.0]);
        series.push_invalid(4.0, 0.5).unwrap();
        series.truncate_after(1.0);
        assert_eq!(series.len(), 2);
        assert_eq!(series.count(MarkKind::NotFinite), 0);
        assert_eq!(series.count(MarkKind::Invalid), 0);
        series.push(2.0, 2.5).unwrap();
        assert_eq!(series.get(2), Some((2.0, 2.5)));
        assert_eq!(series.last_finite(), Some(2));
    }

    #[test]
    fn the_nearest_point_is_found_at_both_ends_and_between() {
        let series = of(&[1.0, f64::NAN, 3.0]);
        for (x, index) in [(-5.0, 0), (0.4, 0), (0.6, 1), (1.6, 2), (9.0, 2)] {
            assert_eq!(series.nearest(x), Some(index), "{x}");
        }
        assert_eq!(Series::new().nearest(1.0), None);
        assert_eq!(series.at(1.0), Some(1));
        assert_eq!(series.at(1.5), None);
    }

    #[test]
    fn a_gap_is_where_nothing_finite_lies_between() {
        let series = of(&[1.0, f64::NAN, f64::NAN, 2.0, 3.0, f64::NAN, 4.0]);
        assert!(series.is_gap(0, 3));
        assert!(!series.is_gap(3, 4));
        assert!(!series.is_gap(0, 4));
        assert!(series.is_gap(4, 6));
    }

    #[test]
    fn a_fingerprint_belongs_to_one_set_of_points() {
        let mut series = of(&[1.0, 2.0, f64::NAN]).smoothed_by(0.5);
        let before = series.fingerprint();
        let smoothed = series.smoothed().unwrap().fingerprint();
        assert_eq!(of(&[1.0, 2.0, f64::NAN]).fingerprint(), before);
        for other in [
            &[1.0, 2.0][..],
            &[2.0, 1.0, f64::NAN],
            &[1.0, 2.0, f64::INFINITY],
            &[],
        ] {
            assert_ne!(of(other).fingerprint(), before);
        }
        assert!(series.push(0.0, 1.0).is_err());
        assert_eq!(series.fingerprint(), before, "nothing was appended");
        series.push(3.0, 3.0).unwrap();
        assert_ne!(series.fingerprint(), before);
        assert_ne!(series.smoothed().unwrap().fingerprint(), smoothed);
        series.truncate_after(2.0);
        assert_eq!(series.fingerprint(), before);
        assert_eq!(series.smoothed().unwrap().fingerprint(), smoothed);
    }

    proptest! {
        #[test]
        fn values_stay_as_they_came(values in prop::collection::vec(value(), 0..400)) {
            let series = of(&values);
            let kept: Vec<f64> = (0..series.len()).filter_map(|index| series.get(index)).map(|(_, y)| y).collect();
            prop_assert_eq!(bits(&kept), bits(&values));
        }

        #[test]
        fn extremes_are_those_of_a_plain_search(
            values in prop::collection::vec(value(), 1..900), from in 0_usize..900, len in 0_usize..900,
        ) {
            let series = of(&values);
            let range = from.min(values.len())..(from + len).min(values.len());
            let finite: Vec<f64> = values[range.clone()].iter().copied().filter(|y| y.is_finite()).collect();
            let found = series.extremes(range.clone());
            prop_assert_eq!(found.is_some(), !finite.is_empty());
            if let Some(Extremes { least, most }) = found {
                prop_assert!(range.contains(&least.index) && range.contains(&most.index));
                let low = finite.iter().copied().fold(f64::INFINITY, f64::min);
                let high = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                prop_assert_eq!(bits(&[least.y, most.y]), bits(&[low, high]));
                prop_assert_eq!(bits(&[least.y, most.y]), bits(&[values[least.index], values[most.index]]));
                prop_assert_eq!(Some((most.x, most.y)), series.get(most.index));
            }
        }

        #[test]
        fn dropping_and_appending_again_is_as_if_never_dropped(
            values in prop::collection::vec(value(), 1..400), cut in 0_usize..400,
        ) {
            let whole = of(&values).smoothed_by(0.9);
            let mut again = of(&values).smoothed_by(0.9);
            let kept = cut.min(values.len() - 1);
            again.truncate_after(kept as f64);
            for (step, &value) in values.iter().enumerate().skip(kept + 1) {
                again.push(step as f64, value).unwrap();
            }
            prop_assert_eq!(&again.levels, &whole.levels);
            prop_assert_eq!(again.fingerprint(), whole.fingerprint());
            prop_assert_eq!(&again.not_finite, &whole.not_finite);
            prop_assert_eq!(again.last_finite(), whole.last_finite());
            prop_assert_eq!(again.first_finite(), whole.first_finite());
            prop_assert_eq!(bits(&again.smoothed().unwrap().y), bits(&whole.smoothed().unwrap().y));
        }
    }
}
