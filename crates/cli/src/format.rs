//! Numbers for people.

use tunesmith_lab::evaluate::Side;
use tunesmith_measure::stats::wilson;

/// `3.2 s`, `4 min 5 s`, `2 h 3 min`, `5 days`.
pub(crate) fn duration(secs: f64) -> String {
    let whole = secs.round().max(0.0) as u64;
    match whole {
        0..=9 => format!("{secs:.1} s"),
        10..=59 => format!("{whole} s"),
        60..=3599 => format!("{} min {} s", whole / 60, whole % 60),
        3600..=172_799 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} days", whole / 86_400),
    }
}

/// `89 MiB`, `2.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    let bytes = bytes as f64;
    match bytes {
        _ if bytes < KIB => format!("{bytes} bytes"),
        _ if bytes < KIB * KIB => format!("{:.0} KiB", bytes / KIB),
        _ if bytes < KIB * KIB * KIB => format!("{:.0} MiB", bytes / KIB / KIB),
        _ => format!("{:.1} GiB", bytes / KIB / KIB / KIB),
    }
}

/// A score with its 95 % interval: `54.0 ± 9.8`. Where all answers or none are right the plain interval would be
/// empty, which they do not prove, so Wilson's stands there: `0.0 (0.0 to 3.7)`.
pub(crate) fn points(side: &Side) -> String {
    let (matches, total) = (side.scores.matches as u64, side.scores.total as u64);
    match (side.half_width_points, wilson(matches, total)) {
        (Some(half), _) if matches > 0 && matches < total => format!("{:.1} ± {half:.1}", side.points),
        (_, Ok(interval)) => {
            format!(
                "{:.1} ({:.1} to {:.1})",
                side.points,
                100.0 * interval.low,
                100.0 * interval.high
            )
        }
        _ => format!("{:.1}", side.points),
    }
}

/// Columns of text, the first ones to the left.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows
            .iter()
            .map(|row| row.get(column).map_or(0, |cell| cell.chars().count()));
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width.saturating_sub(cell.chars().count()))))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
    let mut lines = vec![line(&header)];
    lines.extend(rows.iter().map(|row| line(row)));
    lines.join("\n")
}

/// `–` where there is nothing.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_naturally() {
        let cases = [
            (0.04, "0.0 s"),
            (3.24, "3.2 s"),
            (59.7, "1 min 0 s"),
            (245.0, "4 min 5 s"),
            (7380.0, "2 h 3 min"),
            (500_000.0, "5 days"),
        ];
        for (secs, text) in cases {
            assert_eq!(duration(secs), text);
        }
    }

    #[test]
    fn a_table_aligns_its_columns() {
        let rows = vec![
            vec!["a".to_owned(), "1".to_owned()],
            vec!["bbb".to_owned(), String::new()],
        ];
        assert_eq!(table(&["id", "n"], &rows), "id   n\na    1\nbbb");
    }
}
