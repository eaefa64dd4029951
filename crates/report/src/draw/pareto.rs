//! Memory against throughput (S3): the frontier as steps with its points named, whiskers of one standard deviation,
//! predicted points hollow. What lies on the frontier is `tunesmith-measure`'s to say.

use std::fmt::Write as _;

use tunesmith_measure::Gib;
use tunesmith_measure::pareto::{Tradeoff, frontier};

use super::axis::Axis;
use super::{WIDTH, series};
use crate::format::{escape, number, shorten, significant, tick};

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 492.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 256.0;
/// Of a point.
const RADIUS: f64 = 5.5;

/// A configuration.
#[derive(Clone)]
pub(crate) struct ParetoPoint {
    /// Its name.
    pub(crate) name: String,
    /// Peak memory.
    pub(crate) memory_gib: f64,
    /// Its standard deviation.
    pub(crate) memory_sd: Option<f64>,
    /// Real tokens a second.
    pub(crate) tokens_per_sec: f64,
    /// Its standard deviation.
    pub(crate) speed_sd: Option<f64>,
    /// Computed, and not measured.
    pub(crate) predicted: bool,
    /// Its colour.
    pub(crate) series: usize,
}

impl ParetoPoint {
    fn is_finite(&self) -> bool {
        self.memory_gib.is_finite() && self.tokens_per_sec.is_finite()
    }

    fn words(&self) -> String {
        let sd = |sd: Option<f64>| sd.map_or_else(String::new, |sd| format!(" ± {}", significant(sd, 2)));
        format!(
            "{}{}: {}{} tokens/s at {}{} GiB",
            self.name,
            if self.predicted { ", predicted" } else { "" },
            number(self.tokens_per_sec),
            sd(self.speed_sd),
            number(self.memory_gib),
            sd(self.memory_sd)
        )
    }
}

/// The chart.
pub(crate) struct Pareto {
    /// Its points.
    pub(crate) points: Vec<ParetoPoint>,
}

/// A rectangle that a label must keep off.
#[derive(Clone, Copy)]
struct Taken {
    x: (f64, f64),
    y: (f64, f64),
}

impl Taken {
    fn meets(self, other: Self) -> bool {
        self.x.0 < other.x.1 && other.x.0 < self.x.1 && self.y.0 < other.y.1 && other.y.0 < self.y.1
    }
}

impl Pareto {
    /// The measured points that no other one beats, by rising memory.
    pub(crate) fn frontier(&self) -> Vec<usize> {
        let points: Vec<Tradeoff> = self
            .points
            .iter()
            .map(|point| Tradeoff {
                // What was only computed is no rival of what was measured.
                vram: Gib(if point.predicted {
                    f64::NAN
                } else {
                    point.memory_gib
                }),
                tokens_per_sec: point.tokens_per_sec,
            })
            .collect();
        frontier(&points)
    }

    /// The SVG element; `None` without a point.
    pub(crate) fn svg(&self) -> Option<String> {
        let shown: Vec<&ParetoPoint> = self.points.iter().filter(|point| point.is_finite()).collect();
        let spans = |of: fn(&ParetoPoint) -> f64, sd: fn(&ParetoPoint) -> Option<f64>| {
            let ends = shown.iter().flat_map(|point| {
                let sd = sd(point).unwrap_or(0.0);
                [of(point) - sd, of(point) + sd]
            });
            let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
            // Room for points at the edge; from zero where the smallest value is not far from it.
            let room = 0.08 * (high - low).max(0.2 * high.abs());
            let low = if low < 0.5 * high {
                0.0
            } else {
                (low - room).max(0.0)
            };
            Axis::with(low, high + room, 4.0)
        };
        shown.first()?;
        let across = spans(|point| point.memory_gib, |point| point.memory_sd);
        let up = spans(|point| point.tokens_per_sec, |point| point.speed_sd);
        let x = |value: f64| across.place(value, LEFT, RIGHT);
        let y = |value: f64| up.place(value, BOTTOM, TOP);
        let on_frontier = self.frontier();
        let said: Vec<String> = shown.iter().map(|point| point.words()).collect();
        let mut svg = format!(
            "<svg class=\"chart pareto\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&format!("Speed against peak memory. {}", said.join(". ")))
        );
        draw_axes(&across, &up, &x, &y, &mut svg);
        draw_frontier(&self.points, &on_frontier, &x, &y, &mut svg);
        let mut taken: Vec<Taken> = shown
            .iter()
            .map(|point| Taken {
                x: (x(point.memory_gib) - 8.0, x(point.memory_gib) + 8.0),
                y: (y(point.tokens_per_sec) - 8.0, y(point.tokens_per_sec) + 8.0),
            })
            .collect();
        for (index, point) in self.points.iter().enumerate() {
            if !point.is_finite() {
                continue;
            }
            draw_point(point, &x, &y, &mut svg);
            let best = on_frontier.contains(&index);
            if let Some((at_x, at_y, anchor)) = room_for(point, &mut taken, &x, &y) {
                let _ = write!(
                    svg,
                    "<text class=\"{}\" x=\"{at_x:.1}\" y=\"{at_y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                    if best { "point-name best" } else { "point-name" },
                    escape(&shorten(&point.name, 26))
                );
            }
        }
        svg.push_str("</svg>");
        Some(svg)
    }
}

fn draw_axes(across: &Axis, up: &Axis, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64, svg: &mut String) {
    let _ = write!(
        svg,
        "<text class=\"axis-unit\" x=\"0\" y=\"12\">real tokens/s, steady</text>\
         <text class=\"axis-unit\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">peak memory, GiB</text>",
        BOTTOM + 36.0
    );
    for value in up.ticks() {
        let at = y(value);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            tick(value, up.distance)
        );
    }
    for value in across.ticks() {
        let at = x(value);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{BOTTOM}\" y2=\"{:.1}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 4.0,
            BOTTOM + 18.0,
            tick(value, across.distance)
        );
    }
    let _ = write!(
        svg,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>"
    );
}

/// Steps: with less memory than a point takes, the speed is that of the point before it.
fn draw_frontier(
    points: &[ParetoPoint],
    on_frontier: &[usize],
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
    svg: &mut String,
) {
    let Some((first, rest)) = on_frontier.split_first() else {
        return;
    };
    let first = &points[*first];
    let mut line = format!(
        "M{:.1} {BOTTOM}V{:.1}",
        x(first.memory_gib),
        y(first.tokens_per_sec)
    );
    for index in rest {
        let point = &points[*index];
        let _ = write!(line, "H{:.1}V{:.1}", x(point.memory_gib), y(point.tokens_per_sec));
    }
    let _ = write!(
        svg,
        "<path class=\"frontier-area\" d=\"{line}H{RIGHT}V{BOTTOM}Z\"/><path class=\"frontier\" d=\"{line}H{RIGHT}\"/>"
    );
}

fn draw_point(point: &ParetoPoint, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64, svg: &mut String) {
    let (at_x, at_y) = (x(point.memory_gib), y(point.tokens_per_sec));
    let _ = write!(svg, "<g class=\"{}\">", series(point.series));
    if let Some(sd) = point.speed_sd {
        let (low, high) = (y(point.tokens_per_sec - sd), y(point.tokens_per_sec + sd));
        let _ = write!(
            svg,
            "<path class=\"interval\" d=\"M{at_x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8\"/>",
            at_x - 4.0,
            at_x - 4.0
        );
    }
    if let Some(sd) = point.memory_sd {
        let (low, high) = (x(point.memory_gib - sd), x(point.memory_gib + sd));
        let _ = write!(
            svg,
            "<path class=\"interval\" d=\"M{low:.1} {at_y:.1}H{high:.1}\"/>"
        );
    }
    let _ = write!(
        svg,
        "<circle class=\"{}\" cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"{RADIUS}\"><title>{}</title></circle></g>",
        if point.predicted { "point hollow" } else { "point" },
        escape(&point.words())
    );
}

/// A place beside a point where its name meets no other name or point; none where there is no room.
fn room_for(
    point: &ParetoPoint,
    taken: &mut Vec<Taken>,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) -> Option<(f64, f64, &'static str)> {
    let (at_x, at_y) = (x(point.memory_gib), y(point.tokens_per_sec));
    let width = 6.4 * point.name.chars().count().min(26) as f64;
    let places = [
        (at_x + 11.0, at_y + 4.0, "start", at_x + 10.0),
        (at_x - 11.0, at_y + 4.0, "end", at_x - 10.0 - width),
        (at_x, at_y - 12.0, "middle", at_x - width / 2.0),
        (at_x, at_y + 20.0, "middle", at_x - width / 2.0),
        (at_x + 8.0, at_y - 12.0, "start", at_x + 8.0),
        (at_x - 8.0, at_y + 20.0, "end", at_x - 8.0 - width),
    ];
    for (text_x, text_y, anchor, from) in places {
        let wanted = Taken {
            x: (from, from + width),
            y: (text_y - 11.0, text_y + 3.0),
        };
        let inside = wanted.x.0 >= LEFT - 4.0
            && wanted.x.1 <= WIDTH
            && wanted.y.0 >= TOP - 14.0
            && wanted.y.1 <= BOTTOM;
        if inside && !taken.iter().any(|other| other.meets(wanted)) {
            taken.push(wanted);
            return Some((text_x, text_y, anchor));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, memory_gib: f64, tokens_per_sec: f64, predicted: bool) -> ParetoPoint {
        ParetoPoint {
            name: name.into(),
            memory_gib,
            memory_sd: Some(0.1),
            tokens_per_sec,
            speed_sd: Some(20.0),
            predicted,
            series: 0,
        }
    }

    #[test]
    fn the_frontier_is_drawn_as_steps_and_prediction_is_hollow_and_no_rival() {
        let chart = Pareto {
            points: vec![
                point("a", 6.0, 900.0, false),
                point("b", 9.0, 1400.0, false),
                point("worse", 9.5, 800.0, false),
                point("dream", 5.0, 2000.0, true),
            ],
        };
        assert_eq!(chart.frontier(), [0, 1]);
        let svg = chart.svg().unwrap();
        assert_eq!(svg.matches("point hollow").count(), 1);
        assert!(svg.contains("dream, predicted") && svg.contains("point-name best"));
        let line = svg
            .split("class=\"frontier\" d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert!(!line.contains('L') && line.matches('V').count() == 2, "{line}");
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let points = (0..12)
            .map(|index| {
                point(
                    &format!("configuration {index}"),
                    6.0 + 0.01 * f64::from(index),
                    900.0,
                    false,
                )
            })
            .collect();
        let svg = Pareto { points }.svg().unwrap();
        let names = svg.matches("class=\"point-name").count();
        assert!((1..12).contains(&names), "{names} names in one place");
        assert_eq!(svg.matches("<circle").count(), 12);
    }

    #[test]
    fn nothing_to_draw_is_no_chart() {
        assert!(Pareto { points: vec![] }.svg().is_none());
        assert!(
            Pareto {
                points: vec![point("x", f64::NAN, 1.0, false)]
            }
            .svg()
            .is_none()
        );
        assert!(
            Pareto {
                points: vec![point("x", 1.0, 1.0, true)]
            }
            .svg()
            .is_some()
        );
    }
}
