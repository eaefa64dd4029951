//! Losses of several runs in one drawing: runs of an arm share its colour, and the arm's name stands where its lines end.

use std::fmt::Write as _;

use super::axis::{Axis, round_distance};
use super::{WIDTH, series};
use crate::format::{escape, number, shorten, tick};

const HEIGHT: f64 = 236.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 396.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 208.0;
/// Closest that two names may stand.
const LINE: f64 = 16.0;

/// One run.
pub(crate) struct Curve {
    /// Name of its arm.
    pub(crate) arm: String,
    /// Its colour.
    pub(crate) series: usize,
    /// Step and value.
    pub(crate) points: Vec<(u64, f64)>,
}

/// The drawing.
pub(crate) struct Overlay<'a> {
    /// What is drawn, for those who cannot see it.
    pub(crate) title: &'a str,
    /// Unit of the values.
    pub(crate) unit: &'a str,
    /// The runs.
    pub(crate) curves: Vec<Curve>,
}

impl Overlay<'_> {
    /// The SVG element; `None` without a value.
    pub(crate) fn svg(&self) -> Option<String> {
        let finite = || {
            self.curves
                .iter()
                .flat_map(|curve| curve.points.iter().copied())
                .filter(|(_, value)| value.is_finite())
        };
        let most = finite().map(|(_, value)| value).reduce(f64::max)?;
        let least = finite().map(|(_, value)| value).reduce(f64::min)?;
        let last = finite().map(|(step, _)| step).max()?;
        let first = finite().map(|(step, _)| step).min()?;
        let axis = Axis::spanning(if least < 0.5 * most { least.min(0.0) } else { least }, most);
        let span = (last - first).max(1) as f64;
        let x = |step: u64| LEFT + (step - first) as f64 / span * (RIGHT - LEFT);
        let y = |value: f64| axis.place(value, BOTTOM, TOP);
        let mut svg = format!(
            "<svg class=\"chart overlay\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\
             <text class=\"axis-unit\" x=\"0\" y=\"12\">{}</text>",
            escape(&format!(
                "{} ({}), steps {first} to {last}, {} runs",
                self.title,
                self.unit,
                self.curves.len()
            )),
            escape(self.unit)
        );
        for value in axis.ticks() {
            let at = y(value);
            let class = if value == 0.0 { "axis" } else { "grid" };
            let _ = write!(
                svg,
                "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                tick(value, axis.distance)
            );
        }
        let between = round_distance(span / 4.0).max(1.0);
        let mut step = first as f64;
        while step <= last as f64 {
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}{}</text>",
                x(step as u64),
                BOTTOM + 18.0,
                if step <= first as f64 { "step " } else { "" },
                tick(step, 1.0)
            );
            step = ((step / between).floor() + 1.0) * between;
        }
        for curve in &self.curves {
            draw_curve(curve, &x, &y, &mut svg);
        }
        self.draw_names(&y, &mut svg);
        svg.push_str("</svg>");
        Some(svg)
    }

    /// Each arm's name at the mean end of its lines, moved apart where two would touch.
    fn draw_names(&self, y: &dyn Fn(f64) -> f64, svg: &mut String) {
        let mut names: Vec<(f64, usize, &str)> = Vec::new();
        for curve in &self.curves {
            if names.iter().any(|(_, _, arm)| *arm == curve.arm) {
                continue;
            }
            let ends: Vec<f64> = self
                .curves
                .iter()
                .filter(|other| other.arm == curve.arm)
                .filter_map(|other| other.points.iter().rev().find(|(_, value)| value.is_finite()))
                .map(|(_, value)| *value)
                .collect();
            if !ends.is_empty() {
                let mean = ends.iter().sum::<f64>() / ends.len() as f64;
                names.push((y(mean), curve.series, &curve.arm));
            }
        }
        names.sort_by(|one, other| one.0.total_cmp(&other.0));
        for index in 1..names.len() {
            names[index].0 = names[index].0.max(names[index - 1].0 + LINE);
        }
        // What was pushed below the axis goes up again, and takes those above it along.
        let mut floor = BOTTOM + 2.0;
        for name in names.iter_mut().rev() {
            name.0 = name.0.min(floor);
            floor = name.0 - LINE;
        }
        for (at, colour, arm) in names {
            let _ = write!(
                svg,
                "<text class=\"line-name {}\" x=\"{:.1}\" y=\"{:.1}\">{}<title>{}</title></text>",
                series(colour),
                RIGHT + 8.0,
                at + 4.0,
                escape(&shorten(arm, 16)),
                escape(arm)
            );
        }
    }
}

fn draw_curve(curve: &Curve, x: &dyn Fn(u64) -> f64, y: &dyn Fn(f64) -> f64, svg: &mut String) {
    let mut line = String::new();
    let mut joined = false;
    for (step, value) in &curve.points {
        if !value.is_finite() {
            joined = false;
            continue;
        }
        let _ = write!(
            line,
            "{}{:.1} {:.1}",
            if joined { "L" } else { "M" },
            x(*step),
            y(*value)
        );
        joined = true;
    }
    let last = curve.points.iter().rev().find(|(_, value)| value.is_finite());
    let said = last.map_or_else(String::new, |(step, value)| {
        format!(", {} at step {step}", number(*value))
    });
    let _ = write!(
        svg,
        "<path class=\"run-line {}\" d=\"{line}\"><title>{}{said}</title></path>",
        series(curve.series),
        escape(&curve.arm)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(arm: &str, series: usize, values: &[f64]) -> Curve {
        Curve {
            arm: arm.into(),
            series,
            points: values
                .iter()
                .enumerate()
                .map(|(step, &value)| (step as u64 + 1, value))
                .collect(),
        }
    }

    #[test]
    fn runs_of_an_arm_share_a_name_and_names_keep_apart() {
        let overlay = Overlay {
            title: "Loss",
            unit: "nats",
            curves: vec![
                curve("f32", 0, &[2.0, 1.0, 0.5]),
                curve("f32", 0, &[2.1, 1.1, 0.52]),
                curve("nf4", 1, &[2.0, 1.0, 0.51]),
            ],
        };
        let svg = overlay.svg().unwrap();
        assert_eq!(svg.matches("class=\"run-line").count(), 3);
        assert_eq!(svg.matches("class=\"line-name").count(), 2);
        let heights: Vec<f64> = svg
            .split("class=\"line-name")
            .skip(1)
            .map(|part| {
                part.split(" y=\"")
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        assert!((heights[0] - heights[1]).abs() >= LINE - 0.2, "{heights:?}");
    }

    #[test]
    fn a_gap_breaks_the_line_and_nothing_is_no_drawing() {
        let one = |values: &[f64]| {
            Overlay {
                title: "Loss",
                unit: "nats",
                curves: vec![curve("a", 0, values)],
            }
            .svg()
        };
        assert_eq!(one(&[]), None);
        assert_eq!(one(&[f64::NAN]), None);
        let svg = one(&[1.0, f64::NAN, 2.0]).unwrap();
        let line = svg
            .split("class=\"run-line s0\" d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert_eq!(line.matches('M').count(), 2);
    }
}
