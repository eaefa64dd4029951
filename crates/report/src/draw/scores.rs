//! Scores before and after as paired bars with their 95 % intervals, as SVG text.

use std::fmt::Write as _;

use tunesmith_measure::stats;

use super::WIDTH;
use crate::format::{escape, points, shorten};

const LEFT: f64 = 152.0;
const RIGHT: f64 = 404.0;
const ROW: f64 = 40.0;
const TOP: f64 = 8.0;

/// One row: a share before, after, or both.
pub(crate) struct ScoreRow {
    /// What was scored.
    pub(crate) label: String,
    /// Questions.
    pub(crate) total: u64,
    /// Right before.
    pub(crate) before: Option<u64>,
    /// Right after.
    pub(crate) after: Option<u64>,
}

/// The SVG element; `None` without a row that has questions.
pub(crate) fn scores(title: &str, rows: &[ScoreRow]) -> Option<String> {
    let rows: Vec<&ScoreRow> = rows.iter().filter(|row| row.total > 0).collect();
    if rows.is_empty() {
        return None;
    }
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = format!(
        "<svg class=\"chart bars\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">",
        bottom + 40.0,
        escape(title)
    );
    for share in [0_u8, 25, 50, 75, 100] {
        let x = x_of(f64::from(share) / 100.0);
        let class = if share == 0 { "axis" } else { "grid" };
        let _ = write!(
            svg,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{share}</text>",
            bottom + 16.0
        );
    }
    let _ = write!(
        svg,
        "<text class=\"axis-unit\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">% of questions</text>",
        bottom + 32.0
    );
    for (index, row) in rows.iter().enumerate() {
        draw_row(row, TOP + ROW * index as f64, &mut svg);
    }
    svg.push_str("</svg>");
    Some(svg)
}

fn draw_row(row: &ScoreRow, top: f64, svg: &mut String) {
    let _ = write!(
        svg,
        "<text class=\"bar-label\" x=\"0\" y=\"{:.1}\">{}<title>{}</title></text>\
         <text class=\"tick\" x=\"0\" y=\"{:.1}\">n = {}</text>",
        top + 17.0,
        escape(&shorten(&row.label, 22)),
        escape(&row.label),
        top + 32.0,
        row.total
    );
    draw_bar("before", row.before, row.total, top + 8.0, svg);
    draw_bar("after", row.after, row.total, top + 21.0, svg);
    let score =
        |right: Option<u64>| right.map_or("–".to_owned(), |right| points(percent(right, row.total)));
    let _ = write!(
        svg,
        "<text class=\"bar-value\" x=\"{WIDTH}\" y=\"{:.1}\" text-anchor=\"end\"><tspan class=\"was\">{}</tspan>\
         <tspan class=\"was\"> → </tspan><tspan class=\"is\">{}</tspan></text>",
        top + 25.0,
        score(row.before),
        score(row.after)
    );
}

fn draw_bar(class: &str, right: Option<u64>, total: u64, top: f64, svg: &mut String) {
    const THICK: f64 = 11.0;
    let Some(right) = right else { return };
    let (Ok(interval), share) = (
        stats::wilson(right.min(total), total),
        right.min(total) as f64 / total as f64,
    ) else {
        return;
    };
    let middle = top + THICK / 2.0;
    let (low, high) = (x_of(interval.low), x_of(interval.high));
    let _ = write!(
        svg,
        "<g class=\"{class}\"><rect class=\"bar\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{THICK}\"/>\
         <path class=\"interval\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v6M{high:.1} {:.1}v6\"/>\
         <title>{class}: {right} of {total}, {} points, 95 % interval {} to {}</title></g>",
        x_of(share) - LEFT,
        middle - 3.0,
        middle - 3.0,
        points(100.0 * share),
        points(100.0 * interval.low),
        points(100.0 * interval.high)
    );
}

fn x_of(share: f64) -> f64 {
    LEFT + share * (RIGHT - LEFT)
}

fn percent(right: u64, total: u64) -> f64 {
    100.0 * right as f64 / total as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_its_numbers_and_interval() {
        let row = ScoreRow {
            label: "<joins>".into(),
            total: 100,
            before: Some(12),
            after: Some(41),
        };
        let svg = scores("Score", &[row]).unwrap();
        assert!(
            svg.contains("after: 41 of 100, 41.0 points, 95 % interval 31.9 to 50.8"),
            "{svg}"
        );
        assert!(svg.contains("&lt;joins&gt;") && !svg.contains("<joins>"));
    }

    #[test]
    fn no_questions_are_no_chart() {
        assert_eq!(
            scores(
                "Score",
                &[ScoreRow {
                    label: "x".into(),
                    total: 0,
                    before: Some(0),
                    after: None
                }]
            ),
            None
        );
    }

    #[test]
    fn a_missing_side_is_a_dash_and_not_zero() {
        let svg = scores(
            "Score",
            &[ScoreRow {
                label: "x".into(),
                total: 3,
                before: None,
                after: Some(3),
            }],
        )
        .unwrap();
        assert!(svg.contains("<tspan class=\"was\">–</tspan>") && !svg.contains("class=\"before\""));
    }
}
