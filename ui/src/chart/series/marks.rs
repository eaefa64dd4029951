//! Points that need a mark of their own: what is no number, and what is not to be believed.

use super::Series;

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

impl Series {
    /// How many points have a mark of this kind.
    pub fn count(&self, kind: MarkKind) -> usize {
        self.marked(kind).len()
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

    fn marked(&self, kind: MarkKind) -> &[usize] {
        match kind {
            MarkKind::NotFinite => &self.not_finite,
            MarkKind::Invalid => &self.invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of, value};
    use super::*;
    use proptest::prelude::*;

    proptest! {
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
    }
}
