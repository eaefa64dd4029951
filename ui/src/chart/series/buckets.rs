//! Levels of buckets over the values of a series, so that the least and the greatest of a stretch are found without
//! looking at each value of it.
//!
//! A bucket of the lowest level lies over 16 values, one of the next over four of those, and so on. It is made when its
//! last value has come, so an append costs O(1) on average.

use std::ops::Range;

/// Values in a bucket of the lowest level. Smaller ones, and more levels, would take more memory; fewer more time.
const LOWEST: usize = 16;
/// Buckets of a level in one of the next.
const FAN: usize = 4;

/// Values in a bucket of a level.
const fn size(level: usize) -> usize {
    LOWEST * FAN.pow(level as u32)
}

/// How far the finite values of a stretch reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::chart) struct Span {
    pub(in crate::chart) least: f64,
    pub(in crate::chart) most: f64,
}

impl Span {
    /// Of a stretch without a finite value. Joined with another one it changes nothing.
    const NONE: Self = Self {
        least: f64::INFINITY,
        most: f64::NEG_INFINITY,
    };

    fn of(value: f64) -> Self {
        if value.is_finite() {
            Self {
                least: value,
                most: value,
            }
        } else {
            Self::NONE
        }
    }

    /// Whether there is no finite value.
    pub(in crate::chart) fn is_none(self) -> bool {
        self.least > self.most
    }

    fn holds(self, value: f64) -> bool {
        self.least <= value && value <= self.most
    }

    fn join(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }

    fn of_all(spans: &[Self]) -> Self {
        spans.iter().fold(Self::NONE, |all, span| all.join(*span))
    }

    fn of_values(values: &[f64]) -> Self {
        values
            .iter()
            .fold(Self::NONE, |all, value| all.join(Self::of(*value)))
    }
}

/// Buckets over equally many values each.
#[derive(Clone, Debug, Default, PartialEq)]
struct Level {
    spans: Vec<Span>,
    /// Where the first value of each lies.
    starts: Vec<f64>,
}

/// All levels, the lowest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Levels(Vec<Level>);

impl Levels {
    /// Makes the buckets whose last value has just come.
    pub(super) fn grow(&mut self, x: &[f64], y: &[f64]) {
        let (mut entries, mut fan) = (y.len(), LOWEST);
        let mut level = 0;
        while entries.is_multiple_of(fan) {
            let first = entries - fan;
            let (start, span) = if level == 0 {
                (x[first], Span::of_values(&y[first..]))
            } else {
                let below: &Level = &self.0[level - 1];
                (below.starts[first], Span::of_all(&below.spans[first..]))
            };
            if self.0.len() == level {
                self.0.push(Level::default());
            }
            let here = &mut self.0[level];
            here.spans.push(span);
            here.starts.push(start);
            (entries, fan) = (here.spans.len(), FAN);
            level += 1;
        }
    }

    /// Drops the buckets that are not full any more.
    pub(super) fn truncate(&mut self, values: usize) {
        for (level, buckets) in self.0.iter_mut().enumerate() {
            buckets.spans.truncate(values / size(level));
            buckets.starts.truncate(values / size(level));
        }
    }

    /// How far a stretch of the values reaches.
    pub(super) fn span(&self, y: &[f64], stretch: Range<usize>) -> Span {
        let whole = stretch.start.div_ceil(LOWEST)..stretch.end / LOWEST;
        if whole.is_empty() {
            return Span::of_values(&y[stretch]);
        }
        Span::of_values(&y[stretch.start..whole.start * LOWEST])
            .join(Span::of_values(&y[whole.end * LOWEST..stretch.end]))
            .join(span_of_buckets(&self.0, whole))
    }

    /// Where the first value of a stretch lies that is this one, its least or its greatest.
    pub(super) fn place_of(&self, y: &[f64], stretch: Range<usize>, value: f64) -> Option<usize> {
        let mut at = stretch.start;
        while at < stretch.end {
            if Span::of(y[at]).holds(value) {
                return Some(at);
            }
            // The largest bucket that begins here and does not hold it can be passed over.
            let passed = self.0.iter().enumerate().map_while(|(level, buckets)| {
                let size = size(level);
                let fits = at.is_multiple_of(size) && at + size <= stretch.end;
                let other = fits && !buckets.spans[at / size].holds(value);
                other.then_some(size)
            });
            at += passed.last().unwrap_or(1);
        }
        None
    }

    /// Where the largest buckets begin of which at least three hold this many values, and their size.
    pub(super) fn starts_for(&self, values: usize) -> Option<(&[f64], usize)> {
        let sizes = self
            .0
            .iter()
            .enumerate()
            .map(|(level, buckets)| (&*buckets.starts, size(level)));
        sizes.take_while(|(_, size)| 3 * size <= values).last()
    }

    /// Buckets of all levels.
    #[cfg(test)]
    pub(super) fn buckets(&self) -> usize {
        self.0.iter().map(|level| level.spans.len()).sum()
    }
}

/// How far a stretch of buckets of the first of these levels reaches: what lies at both ends bucket by bucket, the rest
/// by those of the next level.
fn span_of_buckets(levels: &[Level], stretch: Range<usize>) -> Span {
    let Some((level, above)) = levels.split_first() else {
        return Span::NONE;
    };
    let whole = stretch.start.div_ceil(FAN)..stretch.end / FAN;
    if whole.is_empty() {
        return Span::of_all(&level.spans[stretch]);
    }
    Span::of_all(&level.spans[stretch.start..whole.start * FAN])
        .join(Span::of_all(&level.spans[whole.end * FAN..stretch.end]))
        .join(span_of_buckets(above, whole))
}
