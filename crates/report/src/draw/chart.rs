//! Line charts over steps or seconds as SVG text. Colours come from the page's style sheet by class, so that both themes and
//! print apply; a title on each point is the hover text. The table behind a chart is the page's affair.

use std::fmt::Write as _;

use super::WIDTH;
use super::axis::{Axis, round_distance};
use crate::format::{escape, number, tick};

const HEIGHT: f64 = 194.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 500.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 172.0;
/// More points than this are thinned to the least and most of each stretch: the screen shows no more.
const MOST_POINTS: usize = 600;

/// One value.
#[derive(Clone, Debug)]
pub(crate) struct ChartPoint {
    /// The step, or the second.
    pub(crate) step: u64,
    /// Its value, where there is one.
    pub(crate) value: Option<f64>,
    /// Why the step does not count.
    pub(crate) fault: Option<&'static str>,
}

/// A line to read the values against.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    /// Its height.
    pub(crate) value: f64,
    /// Its name.
    pub(crate) label: String,
}

/// A line chart over steps.
pub(crate) struct LineChart<'a> {
    /// What is drawn, for those who cannot see it.
    pub(crate) title: &'a str,
    /// Unit of the values.
    pub(crate) unit: &'a str,
    /// What is counted along the chart: `step` or `second`.
    pub(crate) along: &'static str,
    /// The values in order of steps.
    pub(crate) points: &'a [ChartPoint],
    /// Last warm-up step, whose stretch is shaded.
    pub(crate) warm_up_until: Option<u64>,
    /// A line to read the values against.
    pub(crate) reference: Option<Reference>,
    /// Whether the axis begins at zero, as it must where the height of the line is a share or a speed.
    pub(crate) from_zero: bool,
}

impl LineChart<'_> {
    /// The SVG element; `None` without a single finite value.
    pub(crate) fn svg(&self) -> Option<String> {
        let values = || self.points.iter().filter_map(finite);
        let highest = values()
            .chain(self.reference.iter().map(|line| line.value))
            .reduce(f64::max)?;
        values().next()?;
        let lowest = values().reduce(f64::min)?;
        let near_zero = self.from_zero || lowest < 0.5 * highest;
        let axis = Axis::spanning(if near_zero { lowest.min(0.0) } else { lowest }, highest);
        let first = self.points.first()?.step;
        let last = self.points.last()?.step;
        let frame = Frame {
            first: first as f64,
            last: last as f64,
            axis,
        };

        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&format!(
                "{} ({}), {}s {first} to {last}",
                self.title, self.unit, self.along
            ))
        );
        self.shade_warm_up(&frame, &mut svg);
        draw_axes(&frame, self.unit, self.along, &mut svg);
        self.draw_reference(&frame, &mut svg);
        self.draw_line(&frame, &mut svg);
        self.draw_invalid(&frame, &mut svg);
        svg.push_str("</svg>");
        Some(svg)
    }

    fn shade_warm_up(&self, frame: &Frame, svg: &mut String) {
        let Some(until) = self.warm_up_until.filter(|_| self.points.len() > 1) else {
            return;
        };
        let width = frame.x(until as f64 + 0.5).clamp(LEFT, RIGHT) - LEFT;
        let _ = write!(
            svg,
            "<rect class=\"warm-up\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{:.1}\">\
             <title>warm-up to step {until}, left out of the steady figures</title></rect>",
            BOTTOM - TOP
        );
    }

    fn draw_reference(&self, frame: &Frame, svg: &mut String) {
        let Some(reference) = &self.reference else { return };
        let y = frame.y(reference.value);
        // The label stands above the plot, where no line can run through it.
        let _ = write!(
            svg,
            "<line class=\"reference\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"reference-label\" x=\"{RIGHT}\" y=\"12\" text-anchor=\"end\">{}</text>",
            escape(&reference.label)
        );
    }

    fn draw_line(&self, frame: &Frame, svg: &mut String) {
        let counted = thin(self.points);
        let mut line = String::new();
        let mut hits = String::new();
        let mut dots = String::new();
        let mut before: Option<usize> = None;
        let plot = |index: usize, point: &ChartPoint| finite(point).map(|value| (index, point.step, value));
        let drawn: Vec<_> = counted
            .iter()
            .filter_map(|&(index, point)| plot(index, point))
            .collect();
        for (place, &(index, step, value)) in drawn.iter().enumerate() {
            let (x, y) = (frame.x(step as f64), frame.y(value));
            // A step without a value, or one that does not count, breaks the line: nothing is drawn across a gap.
            let joined = before.is_some_and(|before| !self.gap_between(before, index));
            let _ = write!(line, "{}{x:.1} {y:.1}", if joined { "L" } else { "M" });
            let joins_next = drawn
                .get(place + 1)
                .is_some_and(|next| !self.gap_between(index, next.0));
            if !joined && !joins_next {
                let _ = write!(
                    dots,
                    "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"
                );
            }
            let _ = write!(
                hits,
                "<circle class=\"hit\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\"><title>{} {step}: {} {}</title></circle>",
                self.along,
                number(value),
                escape(self.unit)
            );
            before = Some(index);
        }
        let _ = write!(svg, "<path class=\"line\" d=\"{line}\"/>{dots}{hits}");
    }

    fn gap_between(&self, from: usize, to: usize) -> bool {
        self.points[from + 1..to]
            .iter()
            .any(|point| finite(point).is_none())
    }

    fn draw_invalid(&self, frame: &Frame, svg: &mut String) {
        for point in self.points {
            let Some(fault) = point.fault else { continue };
            let x = frame.x(point.step as f64);
            let y = BOTTOM - 7.0;
            let _ = write!(
                svg,
                "<g class=\"invalid\"><line class=\"invalid-line\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>\
                 <path d=\"M{:.1} {:.1}l7 7m0 -7l-7 7\"/><title>step {} does not count: {fault}</title></g>",
                x - 3.5,
                y - 3.5,
                point.step
            );
        }
    }
}

/// The value of a step that counts.
fn finite(point: &ChartPoint) -> Option<f64> {
    point
        .value
        .filter(|value| value.is_finite() && point.fault.is_none())
}

/// At most about [`MOST_POINTS`] points: of each stretch the least and the most, so that no peak is lost.
fn thin(points: &[ChartPoint]) -> Vec<(usize, &ChartPoint)> {
    let all: Vec<(usize, &ChartPoint)> = points
        .iter()
        .enumerate()
        .filter(|(_, point)| finite(point).is_some())
        .collect();
    if all.len() <= MOST_POINTS {
        return all;
    }
    let value = |entry: &(usize, &ChartPoint)| finite(entry.1).unwrap_or_default();
    let mut kept = Vec::with_capacity(MOST_POINTS);
    for stretch in all.chunks(all.len().div_ceil(MOST_POINTS / 2)) {
        let least = stretch.iter().min_by(|a, b| value(a).total_cmp(&value(b)));
        let most = stretch.iter().max_by(|a, b| value(a).total_cmp(&value(b)));
        let mut ends: Vec<(usize, &ChartPoint)> = least.into_iter().chain(most).copied().collect();
        ends.sort_by_key(|end| end.0);
        ends.dedup_by_key(|end| end.0);
        kept.extend(ends);
    }
    kept
}

/// Where values and steps lie in the picture.
struct Frame {
    first: f64,
    last: f64,
    axis: Axis,
}

impl Frame {
    fn x(&self, step: f64) -> f64 {
        let span = self.last - self.first;
        if span <= 0.0 {
            f64::midpoint(LEFT, RIGHT)
        } else {
            LEFT + (step - self.first) / span * (RIGHT - LEFT)
        }
    }

    fn y(&self, value: f64) -> f64 {
        self.axis.place(value, BOTTOM, TOP)
    }
}

fn draw_axes(frame: &Frame, unit: &str, along: &str, svg: &mut String) {
    let _ = write!(
        svg,
        "<text class=\"axis-unit\" x=\"0\" y=\"12\">{}</text>",
        escape(unit)
    );
    for value in frame.axis.ticks() {
        let y = frame.y(value);
        let class = if value == 0.0 { "axis" } else { "grid" };
        let _ = write!(
            svg,
            "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            tick(value, frame.axis.distance)
        );
    }
    let steps = step_ticks(frame.first, frame.last);
    for (index, step) in steps.iter().enumerate() {
        let anchor = if index + 1 == steps.len() && steps.len() > 1 {
            "end"
        } else {
            "middle"
        };
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}{}</text>",
            frame.x(*step),
            BOTTOM + 18.0,
            if index == 0 {
                format!("{along} ")
            } else {
                String::new()
            },
            tick(*step, 1.0)
        );
    }
}

/// First and last step, and round ones between that do not crowd them.
fn step_ticks(first: f64, last: f64) -> Vec<f64> {
    let span = last - first;
    if span <= 0.0 {
        return vec![first];
    }
    let distance = round_distance(span / 5.0).max(1.0);
    let mut ticks = vec![first];
    let mut step = (first / distance).ceil() * distance;
    while step < last {
        if step - first > span * 0.08 && last - step > span * 0.08 {
            ticks.push(step);
        }
        step += distance;
    }
    ticks.push(last);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[Option<f64>]) -> Vec<ChartPoint> {
        values
            .iter()
            .enumerate()
            .map(|(index, value)| ChartPoint {
                step: index as u64 + 1,
                value: *value,
                fault: None,
            })
            .collect()
    }

    fn draw(points: &[ChartPoint]) -> Option<String> {
        LineChart {
            title: "Loss",
            unit: "nats",
            along: "step",
            points,
            warm_up_until: None,
            reference: None,
            from_zero: true,
        }
        .svg()
    }

    #[test]
    fn nothing_to_draw_is_no_chart() {
        assert_eq!(draw(&[]), None);
        assert_eq!(draw(&points(&[None, Some(f64::NAN)])), None);
    }

    #[test]
    fn one_step_is_a_dot() {
        let svg = draw(&points(&[Some(2.0)])).unwrap();
        assert_eq!(svg.matches("class=\"dot\"").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn constant_and_zero_values_have_an_axis() {
        for values in [
            [Some(0.0), Some(0.0)],
            [Some(5.0), Some(5.0)],
            [Some(-2.0), Some(-1.0)],
            [Some(1e-9), Some(2e-9)],
        ] {
            let svg = draw(&points(&values)).unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let svg = draw(&points(&[Some(1.0), Some(2.0), None, Some(3.0), Some(4.0)])).unwrap();
        let line = svg
            .split("class=\"line\" d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert_eq!(line.matches('M').count(), 2, "{line}");
    }

    #[test]
    fn invalid_steps_are_marked_with_their_reason() {
        let mut points = points(&[Some(1.0), Some(2.0), Some(3.0)]);
        points[1].fault = Some("the gradient norm is zero");
        let svg = draw(&points).unwrap();
        assert!(svg.contains("step 2 does not count: the gradient norm is zero"));
        assert_eq!(svg.matches("class=\"invalid\"").count(), 1);
        assert!(
            !svg.contains("<title>step 2: "),
            "a step that does not count has no value on the line"
        );
    }

    #[test]
    fn many_steps_keep_their_peaks() {
        let mut values: Vec<Option<f64>> = (0..20_000).map(|_| Some(1.0)).collect();
        values[12_345] = Some(9.0);
        let svg = draw(&points(&values)).unwrap();
        assert!(svg.contains("step 12346: 9.00 nats"));
        assert!(svg.matches("class=\"hit\"").count() <= MOST_POINTS);
    }
}
