//! A waterfall from a peak down: a row for each level, filled as far as it reaches, and from there to the level before what
//! was lost on the way, so that the losses of all rows lie end to end over the whole gap.

use std::fmt::Write as _;

use super::WIDTH;
use super::axis::Axis;
use crate::format::{escape, number, shorten, tick};

const ROW: f64 = 46.0;
const RIGHT: f64 = WIDTH - 8.0;
const THICK: f64 = 16.0;

/// A level.
pub(crate) struct Level {
    /// Its name.
    pub(crate) label: String,
    /// How far it reaches.
    pub(crate) reached: f64,
}

/// A peak with the levels below it.
pub(crate) struct Waterfall<'a> {
    /// What is drawn, for those who cannot see it.
    pub(crate) title: &'a str,
    /// Unit of all values.
    pub(crate) unit: &'a str,
    /// Name of the peak.
    pub(crate) peak_label: String,
    /// The peak.
    pub(crate) peak: f64,
    /// The levels, from the top.
    pub(crate) levels: Vec<Level>,
}

impl Waterfall<'_> {
    /// The SVG element; `None` without a peak above zero and a level.
    pub(crate) fn svg(&self) -> Option<String> {
        let finite = self.levels.iter().all(|level| level.reached.is_finite());
        if !(self.peak.is_finite() && self.peak > 0.0 && finite) || self.levels.is_empty() {
            return None;
        }
        let most = self
            .levels
            .iter()
            .map(|level| level.reached)
            .fold(self.peak, f64::max);
        let axis = Axis::spanning(0.0, most);
        let x = |value: f64| axis.place(value.max(0.0), 0.0, RIGHT);
        let bottom = ROW * (self.levels.len() + 1) as f64;
        let mut svg = format!(
            "<svg class=\"chart waterfall\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">",
            bottom + 38.0,
            escape(&self.said())
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
        self.row(&mut svg, 0, &self.peak_label, self.peak, None, &x);
        let mut before = self.peak;
        for (index, level) in self.levels.iter().enumerate() {
            self.row(&mut svg, index + 1, &level.label, level.reached, Some(before), &x);
            before = level.reached;
        }
        svg.push_str("</svg>");
        Some(svg)
    }

    fn said(&self) -> String {
        let mut said = vec![format!("{} {}", self.peak_label, number(self.peak))];
        let mut before = self.peak;
        for level in &self.levels {
            said.push(format!(
                "{} {}, {}",
                level.label,
                number(level.reached),
                lost_words(before - level.reached)
            ));
            before = level.reached;
        }
        format!("{} ({}): {}", self.title, self.unit, said.join("; "))
    }

    fn row(
        &self,
        svg: &mut String,
        index: usize,
        label: &str,
        reached: f64,
        before: Option<f64>,
        x: &dyn Fn(f64) -> f64,
    ) {
        let top = ROW * index as f64;
        let (bar, low) = (top + 20.0, top + 20.0 + THICK);
        let lost = before.map(|before| before - reached);
        let value = match lost {
            Some(lost) => format!("{}, {}", number(reached), lost_words(lost)),
            None => number(reached),
        };
        let _ = write!(
            svg,
            "<g><text class=\"bar-label\" x=\"0\" y=\"{:.1}\">{}<title>{}</title></text>\
             <text class=\"bar-value\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>\
             <rect class=\"reached\" x=\"0\" y=\"{bar:.1}\" width=\"{:.1}\" height=\"{THICK}\"/>",
            top + 14.0,
            escape(&shorten(label, 34)),
            escape(label),
            top + 14.0,
            x(reached).max(0.5),
        );
        if let Some(before) = before {
            let (from, to) = (x(reached.min(before)), x(reached.max(before)));
            // What a level gains over the one before lies within its own bar.
            let class = if reached > before { "gained" } else { "lost" };
            let joint = x(before);
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{bar:.1}\" width=\"{:.1}\" height=\"{THICK}\"/>\
                 <path class=\"joint\" d=\"M{joint:.1} {:.1}V{low:.1}\"/>",
                (to - from).max(0.5),
                bar - ROW + THICK,
            );
        }
        let _ = write!(
            svg,
            "<title>{}: {value} {}</title></g>",
            escape(label),
            escape(self.unit)
        );
    }
}

/// `40.0 lost`, or `3.00 more` where a level is faster than the one before.
fn lost_words(lost: f64) -> String {
    if lost < 0.0 {
        format!("{} more", number(-lost))
    } else {
        format!("{} lost", number(lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waterfall(peak: f64, reached: &[f64]) -> Option<String> {
        let levels = reached.iter().map(|reached| Level {
            label: format!("<level {reached}>"),
            reached: *reached,
        });
        Waterfall {
            title: "Where the time goes",
            unit: "TFLOPS",
            peak_label: "peak".into(),
            peak,
            levels: levels.collect(),
        }
        .svg()
    }

    #[test]
    fn each_level_is_drawn_to_where_it_reaches_and_its_loss_from_there() {
        let svg = waterfall(100.0, &[70.0, 40.0, 30.0]).unwrap();
        assert_eq!(svg.matches("class=\"reached\"").count(), 4);
        assert_eq!(svg.matches("class=\"lost\"").count(), 3);
        assert!(svg.contains("70.0, 30.0 lost"), "{svg}");
        assert!(svg.contains("&lt;level 70&gt;") && !svg.contains("<level"));
        // The losses lie end to end: one begins where the next one ends.
        let widths = |class: &str| -> Vec<f64> {
            svg.split(&format!("class=\"{class}\""))
                .skip(1)
                .filter_map(|part| part.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
                .collect()
        };
        let reached = widths("reached");
        let lost: f64 = widths("lost").iter().sum();
        assert!((reached[0] - reached[3] - lost).abs() < 0.5, "{reached:?} {lost}");
    }

    #[test]
    fn a_level_that_is_faster_than_the_one_before_gains() {
        // The published ladder: writing reaches 0.2 TFLOPS, and a training 27.6.
        let svg = waterfall(101.5, &[0.229, 27.6]).unwrap();
        assert!(
            svg.contains("class=\"gained\"") && svg.contains("27.4 more"),
            "{svg}"
        );
    }

    #[test]
    fn without_a_peak_or_a_level_there_is_no_drawing() {
        assert_eq!(waterfall(0.0, &[1.0]), None);
        assert_eq!(waterfall(f64::NAN, &[1.0]), None);
        assert_eq!(waterfall(1.0, &[]), None);
        assert_eq!(waterfall(1.0, &[f64::INFINITY]), None);
    }
}
