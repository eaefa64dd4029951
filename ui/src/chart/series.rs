//! Values over steps or seconds, kept so that a million of them cost no more to draw than a screen has columns.
//!
//! Beside the values lie levels of buckets, over 16 values each and then over four of the level below, that hold their
//! least and greatest value with their places. A bucket is made when its last value has come, so an append costs O(1) on average; what is not in
//! a bucket yet is looked at value by value. Values are f64, exactly as recorded: about 22 bytes a point in all.

use std::ops::Range;

/// Values in a bucket of the lowest level, and buckets in one of the next: powers of two, so that places are found by
/// shifting. More levels would take more memory, fewer more time.
const LOWEST_BITS: u32 = 4;
const FAN_BITS: u32 = 2;

/// Values in a bucket of a level, as a power of two.
const fn bits_of(level: usize) -> u32 {
    LOWEST_BITS + FAN_BITS * level as u32
}

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

impl Extremes {
    fn join(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (Some(mut joined), Some(b)) = (a, b) else {
            return a.or(b);
        };
        if b.least.y < joined.least.y {
            joined.least = b.least;
        }
        if b.most.y > joined.most.y {
            joined.most = b.most;
        }
        Some(joined)
    }
}

/// Values that need a mark of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// NaN and the infinities.
    NotFinite,
    /// Points that were flagged.
    Invalid,
}

/// Marked points that fall on one column of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Index of the first of them.
    pub first: usize,
    /// How many there are.
    pub count: usize,
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

/// Buckets over equally many points each.
#[derive(Clone, Debug, Default)]
struct Level {
    extremes: Vec<Option<Extremes>>,
    /// Where the first point of each lies.
    starts: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Smoothing {
    /// Share of the past in each smoothed value, 0 to below 1.
    keep: f64,
    series: Box<Series>,
}

/// An append-only series. Neither x that goes back nor a value is ever changed silently: [`Series::push`] refuses the
/// first, and a value that is not finite is kept and marked.
#[derive(Clone, Debug, Default)]
pub struct Series {
    x: Vec<f64>,
    y: Vec<f64>,
    levels: Vec<Level>,
    not_finite: Vec<usize>,
    invalid: Vec<usize>,
    last_finite: Option<usize>,
    smoothing: Option<Smoothing>,
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
        let mut smoothing = Smoothing {
            keep: keep.clamp(0.0, 0.999),
            series: Box::default(),
        };
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
        self.fill_buckets();
        Ok(())
    }

    /// Drops the points beyond `x`: a resumed run does its later steps again.
    pub fn truncate_after(&mut self, x: f64) {
        let len = self.x.partition_point(|&at| at <= x);
        self.x.truncate(len);
        self.y.truncate(len);
        for (place, level) in self.levels.iter_mut().enumerate() {
            let buckets = len >> bits_of(place);
            level.extremes.truncate(buckets);
            level.starts.truncate(buckets);
        }
        for marked in [&mut self.not_finite, &mut self.invalid] {
            let kept = marked.partition_point(|&index| index < len);
            marked.truncate(kept);
        }
        self.last_finite = self.y.iter().rposition(|y| y.is_finite());
        if let Some(smoothing) = &mut self.smoothing {
            smoothing.series.truncate_after(x);
        }
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

    /// How many points have a mark of this kind.
    pub fn count(&self, kind: MarkKind) -> usize {
        self.marked(kind).len()
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
        let end = range.end.min(self.y.len());
        let mut at = range.start;
        let mut found: Option<Extremes> = None;
        while at < end {
            // The greatest bucket that begins here and does not reach past the end. Only that one is read: the lower
            // ones lie elsewhere in memory, and waiting for them takes longer than all the rest.
            let mut chosen = None;
            for (place, level) in self.levels.iter().enumerate() {
                let bits = bits_of(place);
                let size = 1 << bits;
                if at & (size - 1) != 0 || at + size > end || at >> bits >= level.extremes.len() {
                    break;
                }
                chosen = Some((level, bits));
            }
            let (here, size) = match chosen {
                Some((level, bits)) => (level.extremes[at >> bits], 1 << bits),
                None => (self.single(at), 1),
            };
            found = Extremes::join(found, here);
            at += size;
        }
        found
    }

    /// What to draw between two x on this many columns of pixels: all finite values where there are at most two a
    /// column, else the least and the greatest of each column, in order. Where a column holds very many points its
    /// right edge may lie off by a third of its points; each point belongs to one column all the same.
    pub fn thinned(&self, low: f64, high: f64, columns: usize) -> Vec<Point> {
        let range = self.between(low, high);
        let columns = columns.max(1);
        if range.len() <= 2 * columns {
            return range.filter_map(|index| self.point(index)).collect();
        }
        let mut points = Vec::with_capacity(2 * columns);
        for column in self.columns(low, high, columns, &range) {
            if let Some(Extremes { least, most }) = self.extremes(column) {
                let (first, second) = if least.index <= most.index {
                    (least, most)
                } else {
                    (most, least)
                };
                points.push(first);
                if second.index > first.index {
                    points.push(second);
                }
            }
        }
        points
    }

    /// Marks of a kind between two x, one for each of this many columns that holds any.
    pub fn marks(&self, kind: MarkKind, low: f64, high: f64, columns: usize) -> Vec<Mark> {
        let marked = self.marked(kind);
        if marked.is_empty() {
            return Vec::new();
        }
        let range = self.between(low, high);
        let mut next = marked.partition_point(|&index| index < range.start);
        let end = marked.partition_point(|&index| index < range.end);
        let columns = columns.max(1) as f64;
        let column_of = |index: usize| {
            let column = ((self.x[index] - low) / (high - low) * columns).floor();
            // The last x lies on an edge and has no column to its right; a single x has no columns at all.
            if column.is_finite() {
                column.min(columns - 1.0)
            } else {
                0.0
            }
        };
        let mut marks = Vec::new();
        while next < end {
            let first = marked[next];
            let column = column_of(first);
            let count = marked[next..end].partition_point(|&index| column_of(index) <= column);
            marks.push(Mark { first, count });
            next += count;
        }
        marks
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

    fn marked(&self, kind: MarkKind) -> &[usize] {
        match kind {
            MarkKind::NotFinite => &self.not_finite,
            MarkKind::Invalid => &self.invalid,
        }
    }

    /// Indexes by columns of equal width, in order and without a hole; the last one holds its right edge.
    fn columns<'a>(
        &'a self,
        low: f64,
        high: f64,
        columns: usize,
        range: &Range<usize>,
    ) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let end = range.end;
        let usual = range.len() / columns;
        let coarse = self.coarse_level(usual);
        let mut start = range.start;
        (1..=columns).map(move |column| {
            let mut stop = end;
            if column < columns {
                let edge = low + (high - low) * column as f64 / columns as f64;
                let between = coarse.and_then(|(level, size)| {
                    let blocks = &self.levels[level].starts;
                    let first = start / size;
                    let begun = first_from(edge, blocks, first..blocks.len(), first + usual / size);
                    let stop = begun.saturating_sub(1) * size;
                    (stop >= start + 2 * size && stop <= end).then_some(stop)
                });
                stop = between.unwrap_or_else(|| first_from(edge, &self.x, start..end, start + usual));
            }
            let indexes = start..stop;
            start = stop;
            indexes
        })
    }

    /// The level of the largest buckets of which a usual column holds three, and their size.
    fn coarse_level(&self, usual: usize) -> Option<(usize, usize)> {
        let sizes = (0..self.levels.len()).map(|level| (level, 1 << bits_of(level)));
        sizes.take_while(|(_, size)| 3 * size <= usual).last()
    }

    fn single(&self, index: usize) -> Option<Extremes> {
        let point = self.point(index)?;
        Some(Extremes {
            least: point,
            most: point,
        })
    }

    fn point(&self, index: usize) -> Option<Point> {
        let (x, y) = self.get(index)?;
        y.is_finite().then_some(Point { index, x, y })
    }

    /// Makes the buckets whose last entry has just come.
    fn fill_buckets(&mut self) {
        let mut entries = self.y.len();
        let mut level = 0;
        loop {
            let fan = 1 << if level == 0 { LOWEST_BITS } else { FAN_BITS };
            if entries & (fan - 1) != 0 {
                break;
            }
            let first = entries - fan;
            let start = match level {
                0 => self.x[first],
                _ => self.levels[level - 1].starts[first],
            };
            let mut bucket = None;
            for entry in first..entries {
                let child = match level {
                    0 => self.single(entry),
                    _ => self.levels[level - 1].extremes[entry],
                };
                bucket = Extremes::join(bucket, child);
            }
            if self.levels.len() == level {
                self.levels.push(Level::default());
            }
            self.levels[level].extremes.push(bucket);
            self.levels[level].starts.push(start);
            entries = self.levels[level].extremes.len();
            level += 1;
        }
    }
}

/// The first index of a stretch whose x is not below `edge`, or its end. Looks around a guess in growing steps: points
/// are mostly spaced evenly, and a search of the whole stretch for each column would take longer than drawing it.
fn first_from(edge: f64, x: &[f64], stretch: Range<usize>, guess: usize) -> usize {
    let (mut low, mut high) = (stretch.start, stretch.end);
    if low >= high {
        return high;
    }
    let mut at = guess.clamp(low, high);
    let mut step = 1;
    loop {
        if at < stretch.end && x[at] < edge {
            low = at + 1;
            if high < stretch.end || low == stretch.end {
                break;
            }
            at = (at + step).min(stretch.end);
        } else {
            high = at;
            if low > stretch.start || high == stretch.start {
                break;
            }
            at = at.saturating_sub(step).max(stretch.start);
        }
        step *= 2;
    }
    low + x[low..high].partition_point(|&x| x < edge)
}

impl Smoothing {
    fn push(&mut self, x: f64, y: f64, valid: bool) {
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
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64]) -> Series {
        let mut series = Series::new();
        for (step, &value) in values.iter().enumerate() {
            series.push(step as f64, value).unwrap();
        }
        series
    }

    fn value() -> impl Strategy<Value = f64> {
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

    #[test]
    fn a_million_points_are_drawn_as_two_a_column() {
        let mut series = Series::new();
        for step in 0..1_000_000_u32 {
            let spike = if step == 654_321 { 50.0 } else { 0.0 };
            series
                .push(f64::from(step), f64::from(step).sin() + spike)
                .unwrap();
        }
        let drawn = series.thinned(0.0, 999_999.0, 800);
        assert!(drawn.len() <= 1600, "{}", drawn.len());
        assert!(drawn.iter().any(|point| point.index == 654_321));
        assert!(
            series
                .levels
                .iter()
                .map(|level| level.starts.len())
                .sum::<usize>()
                < 90_000,
            "few buckets"
        );
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
        fn each_column_shows_its_least_and_its_greatest(
            values in prop::collection::vec(value(), 1..700),
            jumps in prop::collection::vec(0_u8..9, 700),
            columns in 1_usize..60,
        ) {
            let mut series = Series::new();
            let mut x = 0.0;
            for (value, jump) in values.iter().zip(&jumps) {
                x += f64::from(*jump);
                series.push(x, *value).unwrap();
            }
            let (low, high) = series.x_range().unwrap();
            let drawn: Vec<usize> = series.thinned(low, high, columns).iter().map(|point| point.index).collect();
            prop_assert!(drawn.len() <= 2 * columns);
            prop_assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "in order");
            prop_assert!(drawn.iter().all(|&index| values[index].is_finite()));
            for column in series.columns(low, high, columns, &(0..series.len())) {
                let finite = |index: &usize| values[*index].is_finite();
                let inside: Vec<f64> = column.clone().filter(finite).map(|index| values[index]).collect();
                let shown: Vec<f64> =
                    drawn.iter().filter(|&index| column.contains(index)).map(|&index| values[index]).collect();
                let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min).to_bits();
                let most = |of: &[f64]| of.iter().copied().fold(f64::NEG_INFINITY, f64::max).to_bits();
                prop_assert_eq!(least(&inside), least(&shown));
                prop_assert_eq!(most(&inside), most(&shown));
            }
        }

        #[test]
        fn each_value_that_is_not_finite_lies_under_a_mark(
            values in prop::collection::vec(value(), 1..700), columns in 1_usize..60,
        ) {
            let series = of(&values);
            let (low, high) = series.x_range().unwrap();
            let marks = series.marks(MarkKind::NotFinite, low, high, columns);
            let not_finite: Vec<usize> =
                (0..values.len()).filter(|&index| !values[index].is_finite()).collect();
            prop_assert!(marks.len() <= columns);
            let mut covered = Vec::new();
            for mark in &marks {
                let first = not_finite.binary_search(&mark.first).unwrap();
                covered.extend_from_slice(&not_finite[first..first + mark.count]);
            }
            prop_assert_eq!(covered, not_finite);
        }

        #[test]
        fn an_edge_is_found_from_any_guess(
            mut places in prop::collection::vec(0_u8..50, 1..200), edge in 0_u8..51, guess in 0_usize..250,
            cut in (0_usize..200, 0_usize..200),
        ) {
            places.sort_unstable();
            let mut series = Series::new();
            for &x in &places {
                series.push(f64::from(x), 0.0).unwrap();
            }
            let start = cut.0.min(places.len());
            let end = (start + cut.1).min(places.len());
            let found = first_from(f64::from(edge), &series.x, start..end, guess);
            prop_assert_eq!(found, start + places[start..end].partition_point(|&x| x < edge));
        }

        #[test]
        fn many_points_a_column_lose_no_extreme(
            spike in 0_usize..40_000, columns in 20_usize..90,
        ) {
            let mut values = vec![0.0; 40_000];
            values[spike] = 1.0;
            let series = of(&values);
            let drawn = series.thinned(0.0, 39_999.0, columns);
            prop_assert!(drawn.iter().any(|point| point.index == spike) && drawn.len() <= 2 * columns);
        }

        #[test]
        fn what_lies_alone_is_drawn_beside_what_is_crowded(
            crowd in 5_000_usize..30_000, alone in 1_usize..80, columns in 20_usize..90,
        ) {
            let mut series = Series::new();
            for index in 0..crowd {
                series.push(index as f64 / crowd as f64, 0.0).unwrap();
            }
            for index in 0..alone {
                series.push(10.0 + index as f64 * 90.0 / alone as f64, index as f64).unwrap();
            }
            let drawn = series.thinned(0.0, 100.0, columns);
            let drawn: Vec<usize> = drawn.iter().map(|point| point.index).filter(|&index| index >= crowd).collect();
            let seen = series.columns(0.0, 100.0, columns, &(0..series.len()));
            let seen = seen.filter(|column| !column.is_empty() && column.end > crowd).count();
            prop_assert!(drawn.len() >= seen && seen >= alone.min(columns / 2), "{} in {seen} columns", drawn.len());
        }

        #[test]
        fn columns_leave_no_index_out(
            crowds in prop::collection::vec((1_usize..3_000, 0_u8..100), 1..8), columns in 1_usize..60,
        ) {
            let mut series = Series::new();
            let mut x = 0.0;
            for (points, gap) in crowds {
                x += f64::from(gap);
                for _ in 0..points {
                    x += 0.01;
                    series.push(x, 1.0).unwrap();
                }
            }
            let (low, high) = series.x_range().unwrap();
            let mut next = 0;
            for (place, column) in series.columns(low, high, columns, &(0..series.len())).enumerate() {
                prop_assert_eq!(column.start, next);
                prop_assert!(column.end >= column.start);
                next = column.end;
                // A point may lie in the column before its own, and nowhere else.
                let width = (high - low) / columns as f64;
                for index in column {
                    // A point alone has no width to lie in.
                    let off = if width > 0.0 { (series.x[index] - low) / width - place as f64 } else { 0.0 };
                    prop_assert!((-1.001..=1.001).contains(&off), "{off}");
                }
            }
            prop_assert_eq!(next, series.len());
        }

        #[test]
        fn a_finite_neighbour_of_what_is_no_number_is_drawn(values in prop::collection::vec(value(), 1..100)) {
            let series = of(&values);
            let drawn = series.thinned(0.0, values.len() as f64, values.len());
            let drawn: Vec<usize> = drawn.iter().map(|point| point.index).collect();
            let finite: Vec<usize> = (0..values.len()).filter(|&index| values[index].is_finite()).collect();
            prop_assert_eq!(drawn, finite);
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
            for (again, whole) in again.levels.iter().zip(&whole.levels) {
                prop_assert_eq!(&again.extremes, &whole.extremes);
                prop_assert_eq!(bits(&again.starts), bits(&whole.starts));
            }
            prop_assert_eq!(&again.not_finite, &whole.not_finite);
            prop_assert_eq!(again.last_finite(), whole.last_finite());
            prop_assert_eq!(again.first_finite(), whole.first_finite());
            prop_assert_eq!(bits(&again.smoothed().unwrap().y), bits(&whole.smoothed().unwrap().y));
        }
    }
}
