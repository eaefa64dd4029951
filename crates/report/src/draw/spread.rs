//! Bars with their spread: one for each arm, from zero to the mean, with a whisker of one standard deviation and a dot
//! for every run, so that nobody takes a lone number for a finding.

use std::fmt::Write as _;

use super::axis::Axis;
use super::{WIDTH, series};
use crate::format::{escape, number, plural, shorten, significant, tick};

const ROW: f64 = 46.0;
const RIGHT: f64 = WIDTH - 8.0;
const THICK: f64 = 16.0;

/// An arm.
pub(crate) struct SpreadRow {
    /// Its name.
    pub(crate) label: String,
    /// Every run's value.
    pub(crate) values: Vec<f64>,
    /// Their mean.
    pub(crate) mean: f64,
    /// Their standard deviation, where there is more than one.
    pub(crate) sd: Option<f64>,
    /// Its colour.
    pub(crate) series: usize,
}

/// The arms by one figure.
pub(crate) struct SpreadBars<'a> {
    /// What is drawn, for those who cannot see it.
    pub(crate) title: &'a str,
    /// Unit of the values.
    pub(crate) unit: &'a str,
    /// The arms, from the top.
    pub(crate) rows: Vec<SpreadRow>,
}

impl SpreadRow {
    /// `129 ± 2.6`.
    pub(crate) fn words(&self) -> String {
        match self.sd {
            Some(sd) => format!("{} ± {}", number(self.mean), significant(sd, 2)),
            None => number(self.mean),
        }
    }
}

impl SpreadBars<'_> {
    /// The SVG element; `None` without an arm that has a value.
    pub(crate) fn svg(&self) -> Option<String> {
        let most = self
            .rows
            .iter()
            .flat_map(|row| {
                row.values
                    .iter()
                    .copied()
                    .chain([row.mean + row.sd.unwrap_or(0.0)])
            })
            .filter(|value| value.is_finite())
            .reduce(f64::max)
            .filter(|most| *most > 0.0)?;
        let axis = Axis::spanning(0.0, most);
        let x = |value: f64| axis.place(value, 0.0, RIGHT);
        let rows = || self.rows.iter().filter(|row| row.mean.is_finite());
        let bottom = ROW * rows().count() as f64;
        let said: Vec<String> = rows()
            .map(|row| format!("{} {}", row.label, row.words()))
            .collect();
        let mut svg = format!(
            "<svg class=\"chart spread\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">",
            bottom + 38.0,
            escape(&format!("{} ({}): {}", self.title, self.unit, said.join(", ")))
        );
        for value in axis.ticks() {
            let (class, anchor) = if value == 0.0 {
                ("axis", "start")
            } else {
                ("grid", "middle")
            };
            let anchor = if value >= axis.high * 0.999 { "end" } else { anchor };
            let at = x(value);
            let _ = write!(
                svg,
                "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"18\" y2=\"{bottom:.1}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                bottom + 16.0,
                tick(value, axis.distance)
            );
        }
        let _ = write!(
            svg,
            "<text class=\"axis-unit\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            bottom + 33.0,
            escape(self.unit)
        );
        for (index, row) in rows().enumerate() {
            draw_row(row, ROW * index as f64, &x, self.unit, &mut svg);
        }
        svg.push_str("</svg>");
        Some(svg)
    }
}

fn draw_row(row: &SpreadRow, top: f64, x: &dyn Fn(f64) -> f64, unit: &str, svg: &mut String) {
    let middle = top + 20.0 + THICK / 2.0;
    let _ = write!(
        svg,
        "<g class=\"{}\"><text class=\"bar-label\" x=\"0\" y=\"{:.1}\">{}<title>{}</title></text>\
         <text class=\"bar-value\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
         <rect class=\"bar\" x=\"0\" y=\"{:.1}\" width=\"{:.1}\" height=\"{THICK}\"/>",
        series(row.series),
        top + 14.0,
        escape(&shorten(&row.label, 44)),
        escape(&row.label),
        top + 14.0,
        row.words(),
        top + 20.0,
        x(row.mean).max(0.0)
    );
    if let Some(sd) = row.sd {
        let (low, high) = (x((row.mean - sd).max(0.0)), x(row.mean + sd));
        let _ = write!(
            svg,
            "<path class=\"interval\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v8M{high:.1} {:.1}v8\"/>",
            middle - 4.0,
            middle - 4.0
        );
    }
    for value in row.values.iter().filter(|value| value.is_finite()) {
        let _ = write!(
            svg,
            "<circle class=\"run\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"3\"><title>{}: {} {}</title></circle>",
            x(*value),
            escape(&row.label),
            number(*value),
            escape(unit)
        );
    }
    let _ = write!(
        svg,
        "<title>{}: {} {}, {}</title></g>",
        escape(&row.label),
        row.words(),
        escape(unit),
        plural(row.values.len() as u64, "run")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, values: &[f64], sd: Option<f64>) -> SpreadRow {
        SpreadRow {
            label: label.into(),
            values: values.to_vec(),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            sd,
            series: 0,
        }
    }

    fn svg(rows: Vec<SpreadRow>) -> Option<String> {
        SpreadBars {
            title: "Speed",
            unit: "tokens/s",
            rows,
        }
        .svg()
    }

    #[test]
    fn every_run_is_a_dot_and_the_spread_is_told() {
        let svg = svg(vec![
            row("<bf16>", &[126.5, 130.6, 131.2], Some(2.56)),
            row("nf4", &[76.8], None),
        ])
        .unwrap();
        assert_eq!(svg.matches("class=\"run\"").count(), 4);
        assert_eq!(
            svg.matches("class=\"interval\"").count(),
            1,
            "one run has no spread"
        );
        assert!(svg.contains("129 ± 2.6") && svg.contains("&lt;bf16&gt;") && !svg.contains("<bf16>"));
    }

    #[test]
    fn without_a_value_there_is_no_chart_and_never_a_number_that_is_none() {
        assert_eq!(svg(vec![]), None);
        assert_eq!(svg(vec![row("x", &[0.0], None)]), None);
        assert_eq!(svg(vec![row("x", &[f64::NAN], None)]), None);
        let odd = svg(vec![
            row("x", &[f64::INFINITY, 1.0], None),
            row("y", &[1.0, 3.0], Some(1.4)),
        ]);
        assert!(!odd.unwrap().contains("inf\""));
    }
}
