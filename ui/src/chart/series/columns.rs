//! What of a series falls on each column of the screen: that many values are drawn, however many there are.

use std::ops::Range;

use super::buckets::Span;
use super::{Extremes, Point, Series};

impl Series {
    /// The values between two x as this many columns show them: all finite ones where there are at most two a column,
    /// else the least and the greatest of each column, in order. Where a column holds very many points its right edge
    /// may lie off by a third of its points; each point belongs to one column all the same.
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

    /// How far the values reach in each of this many columns between two x that holds a point, with its place from the
    /// left. The columns' edges lie as those of [`Series::thinned`].
    pub(in crate::chart) fn spans(
        &self,
        low: f64,
        high: f64,
        columns: usize,
    ) -> impl Iterator<Item = (usize, Span)> {
        let range = self.between(low, high);
        let columns = self.columns(low, high, columns.max(1), &range).enumerate();
        columns
            .filter(|(_, column)| !column.is_empty())
            .map(move |(place, column)| (place, self.span(column)))
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
        let coarse = self.levels.starts_for(usual);
        let mut start = range.start;
        (1..=columns).map(move |column| {
            let mut stop = end;
            if column < columns {
                let edge = low + (high - low) * column as f64 / columns as f64;
                let between = coarse.and_then(|(starts, size)| {
                    let first = start / size;
                    let begun = first_from(edge, starts, first..starts.len(), first + usual / size);
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

#[cfg(test)]
mod tests {
    use super::super::tests::{of, value};
    use super::*;
    use proptest::prelude::*;

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
        assert!(series.levels.buckets() < 90_000, "few buckets");
    }

    proptest! {
        #[test]
        fn spans_are_those_of_the_columns_that_hold_a_point(
            values in prop::collection::vec(value(), 1..3000), columns in 1_usize..60,
        ) {
            let series = of(&values);
            let (low, high) = (0.0, values.len() as f64 * 1.3);
            let spans: Vec<(usize, Span)> = series.spans(low, high, columns).collect();
            prop_assert!(spans.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order");
            prop_assert!(spans.iter().all(|(place, _)| *place < columns));
            let filled = series.columns(low, high, columns, &(0..values.len()));
            let filled: Vec<_> = filled.enumerate().filter(|(_, column)| !column.is_empty()).collect();
            prop_assert_eq!(spans.len(), filled.len());
            for ((place, span), (column, indexes)) in spans.into_iter().zip(filled) {
                prop_assert_eq!(place, column);
                let finite: Vec<f64> = values[indexes].iter().copied().filter(|y| y.is_finite()).collect();
                prop_assert_eq!(span.is_none(), finite.is_empty());
                prop_assert!(finite.iter().all(|y| span.least <= *y && *y <= span.most));
                prop_assert!(finite.is_empty() || (finite.contains(&span.least) && finite.contains(&span.most)));
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
    }
}
