//! A sweep: a small chart for each knob, the one with the largest effect first (S1), all on one scale, so that a knob
//! that does nothing looks flat beside one that does much.

use std::fmt::Write as _;

use super::WIDTH;
use super::axis::Axis;
use crate::format::{escape, number, shorten, tick};

const HEIGHT: f64 = 168.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 480.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 132.0;

/// A setting of a knob.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnobPoint {
    /// The setting, e.g. `8`.
    pub(crate) setting: String,
    /// Mean of the runs.
    pub(crate) mean: f64,
    /// Their standard deviation.
    pub(crate) sd: Option<f64>,
    /// Whether it is the setting that all other knobs' arms have.
    pub(crate) base: bool,
}

/// A knob with its settings, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Knob {
    /// Its name, e.g. `train.micro_batch`.
    pub(crate) name: String,
    /// Its settings, two or more.
    pub(crate) points: Vec<KnobPoint>,
}

/// The knobs by one figure.
pub(crate) struct Sweep<'a> {
    /// Unit of the values.
    pub(crate) unit: &'a str,
    /// The knobs, in the order in which they are shown.
    pub(crate) knobs: Vec<Knob>,
}

impl Sweep<'_> {
    /// One SVG element for each knob, with the knob's name.
    pub(crate) fn svgs(&self) -> Vec<(String, String)> {
        let most = self
            .knobs
            .iter()
            .flat_map(|knob| knob.points.iter())
            .map(|point| point.mean + point.sd.unwrap_or(0.0))
            .filter(|value| value.is_finite())
            .reduce(f64::max)
            .filter(|most| *most > 0.0);
        let Some(most) = most else { return Vec::new() };
        let axis = Axis::spanning(0.0, most);
        self.knobs
            .iter()
            .map(|knob| (knob.name.clone(), self.draw(knob, &axis)))
            .collect()
    }

    fn draw(&self, knob: &Knob, axis: &Axis) -> String {
        let said: Vec<String> = knob
            .points
            .iter()
            .map(|point| format!("{} {}", point.setting, number(point.mean)))
            .collect();
        let mut svg = format!(
            "<svg class=\"chart sweep\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\
             <text class=\"axis-unit\" x=\"0\" y=\"12\">{}</text>",
            escape(&format!("{} by {}: {}", self.unit, knob.name, said.join(", "))),
            escape(self.unit)
        );
        let y = |value: f64| axis.place(value, BOTTOM, TOP);
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
        let room = (RIGHT - LEFT) / knob.points.len() as f64;
        let x = |index: usize| LEFT + room * (index as f64 + 0.5);
        let line: Vec<String> = knob
            .points
            .iter()
            .enumerate()
            .filter(|(_, point)| point.mean.is_finite())
            .map(|(index, point)| format!("{:.1} {:.1}", x(index), y(point.mean)))
            .collect();
        let _ = write!(svg, "<path class=\"line\" d=\"M{}\"/>", line.join("L"));
        for (index, point) in knob.points.iter().enumerate() {
            draw_point(point, x(index), &y, self.unit, room, &mut svg);
        }
        svg.push_str("</svg>");
        svg
    }
}

fn draw_point(point: &KnobPoint, x: f64, y: &dyn Fn(f64) -> f64, unit: &str, room: f64, svg: &mut String) {
    let fits = (room / 7.0).floor().max(3.0) as usize;
    let _ = write!(
        svg,
        "<text class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}<title>{}</title></text>",
        if point.base { "tick base" } else { "tick" },
        BOTTOM + 18.0,
        escape(&shorten(&point.setting, fits)),
        escape(&point.setting)
    );
    if !point.mean.is_finite() {
        return;
    }
    if let Some(sd) = point.sd {
        let (low, high) = (y((point.mean - sd).max(0.0)), y(point.mean + sd));
        let _ = write!(
            svg,
            "<path class=\"interval\" d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8\"/>",
            x - 4.0,
            x - 4.0
        );
    }
    let _ = write!(
        svg,
        "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}: {} {}</title></circle>",
        y(point.mean),
        escape(&point.setting),
        number(point.mean),
        escape(unit)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob(name: &str, means: &[f64]) -> Knob {
        Knob {
            name: name.into(),
            points: means
                .iter()
                .enumerate()
                .map(|(index, &mean)| KnobPoint {
                    setting: index.to_string(),
                    mean,
                    sd: Some(1.0),
                    base: index == 0,
                })
                .collect(),
        }
    }

    #[test]
    fn all_knobs_share_one_scale() {
        let sweep = Sweep {
            unit: "tokens/s",
            knobs: vec![knob("much", &[100.0, 200.0]), knob("nothing", &[100.0, 101.0])],
        };
        let drawn = sweep.svgs();
        assert_eq!(drawn.len(), 2);
        assert!(
            drawn
                .iter()
                .all(|(_, svg)| svg.contains(">200</text>") && !svg.contains("NaN"))
        );
        assert!(
            Sweep {
                unit: "x",
                knobs: vec![]
            }
            .svgs()
            .is_empty()
        );
    }
}
