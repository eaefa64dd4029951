//! The values behind a line chart.

use tunesmith_report::format::count;

use super::LineChart;
use crate::chart::axis::Along;
use crate::chart::frame::{Cell, MOST_ROWS, Table, TableColumn};
use crate::chart::series::{MarkKind, Series};

impl LineChart<'_> {
    pub(super) fn table(&self) -> Table {
        let range = self.data_range().unwrap_or((0.0, 0.0));
        let most = MOST_ROWS / self.lines.len().max(1);
        let mut places: Vec<f64> = Vec::new();
        for line in &self.lines {
            let indexes = table_indexes(line.series, range, most);
            places.extend(
                indexes
                    .into_iter()
                    .filter_map(|index| Some(line.series.get(index)?.0)),
            );
        }
        places.sort_by(f64::total_cmp);
        places.dedup();
        let several = self.lines.len() > 1;
        let mut columns = vec![match self.along {
            Along::Steps => TableColumn::numbers("step", ""),
            Along::Seconds => TableColumn::numbers("time", "s"),
        }];
        columns.extend(
            self.lines
                .iter()
                .map(|line| TableColumn::numbers(if several { line.name } else { self.title }, self.unit)),
        );
        let rows: Vec<Vec<Cell>> = places
            .iter()
            .map(|&x| {
                let values = self.lines.iter().map(|line| cell_at(line.series, x));
                std::iter::once(Cell::Count(x)).chain(values).collect()
            })
            .collect();
        let points: usize = self.lines.iter().map(|line| line.series.len()).sum();
        let whole = self.lines.iter().all(|line| line.series.len() <= most);
        let thinned = (!whole).then(|| {
            format!(
                "{} values, thinned to {} rows: the least and greatest of each stretch, and what is marked",
                count(points as u64),
                count(rows.len() as u64)
            )
        });
        Table {
            columns,
            rows,
            thinned,
        }
    }
}

fn cell_at(series: &Series, x: f64) -> Cell {
    let found = series.at(x).and_then(|index| Some((index, series.get(index)?.1)));
    match found {
        Some((index, value)) if series.is_valid(index) => Cell::Number(value, ""),
        Some((_, value)) => Cell::Number(value, "invalid"),
        None => Cell::Empty,
    }
}

/// Indexes of a table's rows: all, or at most this many of which none that stands out is missing.
fn table_indexes(series: &Series, (low, high): (f64, f64), most: usize) -> Vec<usize> {
    if series.len() <= most {
        return (0..series.len()).collect();
    }
    let quarter = most / 4;
    let thinned = series.thinned(low, high, quarter);
    let mut indexes: Vec<usize> = thinned.iter().map(|point| point.index).collect();
    for kind in [MarkKind::NotFinite, MarkKind::Invalid] {
        let marks = series.marks(kind, low, high, quarter);
        indexes.extend(marks.into_iter().map(|mark| mark.first));
    }
    indexes.sort_unstable();
    indexes.dedup();
    indexes
}

#[cfg(test)]
mod tests {
    use super::super::series_of;
    use super::*;

    #[test]
    fn a_table_has_each_value_where_it_belongs() {
        let mut a = series_of(&[2.0, f64::NAN]);
        a.push_invalid(3.0, 1.0).unwrap();
        let mut b = Series::new();
        b.push(2.0, 7.0).unwrap();
        let table = LineChart::new("Loss", "nats").line("a", &a).line("b", &b).table();
        assert_eq!(
            table.to_tsv(),
            "step\ta (nats)\tb (nats)\n1\t2\t\n2\tNaN\t7\n3\t1\t\n"
        );
        assert_eq!(table.thinned, None);
    }

    #[test]
    fn a_long_table_is_thinned_and_says_so_and_keeps_what_stands_out() {
        let mut values = vec![1.0; 50_000];
        values[777] = f64::NAN;
        values[30_001] = 99.0;
        let series = series_of(&values);
        let table = LineChart::new("Loss", "").line("", &series).table();
        assert!(table.rows.len() <= MOST_ROWS);
        let sentence = table.thinned.as_deref().unwrap();
        assert!(sentence.starts_with("50,000 values, thinned to"), "{sentence}");
        let has = |x: f64, text: &str| {
            let cell = format!("{x}\t{text}\n");
            table.to_tsv().contains(&cell)
        };
        assert!(has(778.0, "NaN") && has(30_002.0, "99"));
    }
}
