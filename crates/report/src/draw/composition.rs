//! One bar of parts that lie end to end: what a model's parameters are, or what a training's memory is made of.

use std::fmt::Write as _;

use super::{WIDTH, series};
use crate::format::{escape, percent};

const TOP: f64 = 22.0;
const THICK: f64 = 34.0;

/// A part.
pub(crate) struct Part {
    /// Its name.
    pub(crate) name: String,
    /// Its size, in any unit that all parts share.
    pub(crate) size: f64,
    /// Its size in words, with the unit.
    pub(crate) words: String,
    /// Its colour.
    pub(crate) series: usize,
}

/// The bar, with a legend of its parts below.
pub(crate) struct Stack<'a> {
    /// What is drawn, for those who cannot see it.
    pub(crate) title: &'a str,
    /// The parts, from the left.
    pub(crate) parts: Vec<Part>,
    /// A size to hold the whole against, with its name: a measured peak against a predicted one.
    pub(crate) marker: Option<(f64, String)>,
}

impl Stack<'_> {
    /// The SVG element; `None` where nothing has a size.
    pub(crate) fn svg(&self) -> Option<String> {
        let parts: Vec<&Part> = self
            .parts
            .iter()
            .filter(|part| part.size.is_finite() && part.size > 0.0)
            .collect();
        let whole: f64 = parts.iter().map(|part| part.size).sum();
        let marked = self
            .marker
            .as_ref()
            .filter(|(size, _)| size.is_finite() && *size > 0.0);
        let most = marked.map_or(whole, |(size, _)| size.max(whole));
        if whole <= 0.0 {
            return None;
        }
        let height = TOP + THICK + 14.0 + 20.0 * parts.len() as f64;
        let said: Vec<String> = parts
            .iter()
            .map(|part| format!("{} {}", part.name, part.words))
            .collect();
        let mut svg = format!(
            "<svg class=\"chart stack\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">",
            escape(&format!("{}: {}", self.title, said.join(", ")))
        );
        let x = |size: f64| size / most * WIDTH;
        let mut from = 0.0;
        for part in &parts {
            let _ = write!(
                svg,
                "<g class=\"{}\"><rect class=\"part\" x=\"{:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{THICK}\"/>\
                 <title>{}: {}</title></g>",
                series(part.series),
                x(from),
                (x(part.size) - 1.0).max(0.5),
                escape(&part.name),
                escape(&part.words)
            );
            from += part.size;
        }
        if let Some((size, name)) = marked {
            let at = x(*size).min(WIDTH - 1.0);
            let anchor = if at > WIDTH / 2.0 { "end" } else { "start" };
            let _ = write!(
                svg,
                "<line class=\"marker\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <text class=\"reference-label\" x=\"{at:.1}\" y=\"12\" text-anchor=\"{anchor}\">{}</text>",
                TOP - 5.0,
                TOP + THICK + 5.0,
                escape(name)
            );
        }
        for (index, part) in parts.iter().enumerate() {
            let at = TOP + THICK + 24.0 + 20.0 * index as f64;
            let _ = write!(
                svg,
                "<g class=\"{}\"><rect class=\"part\" x=\"0\" y=\"{:.1}\" width=\"12\" height=\"12\"/></g>\
                 <text class=\"bar-label\" x=\"20\" y=\"{at:.1}\">{}</text>\
                 <text class=\"bar-value\" x=\"{WIDTH}\" y=\"{at:.1}\" text-anchor=\"end\">{}, {}</text>",
                series(part.series),
                at - 10.5,
                escape(&part.name),
                escape(&part.words),
                percent(part.size / whole)
            );
        }
        svg.push_str("</svg>");
        Some(svg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, size: f64) -> Part {
        Part {
            name: name.into(),
            size,
            words: format!("{size} GiB"),
            series: 0,
        }
    }

    #[test]
    fn parts_fill_the_bar_and_say_their_share() {
        let stack = Stack {
            title: "Memory",
            parts: vec![part("weights", 3.0), part("kept", 1.0), part("nothing", 0.0)],
            marker: Some((5.0, "measured 5 GiB".into())),
        };
        let svg = stack.svg().unwrap();
        assert!(svg.contains("75.0 %") && svg.contains("25.0 %") && svg.contains("measured 5 GiB"));
        assert!(!svg.contains("nothing"), "what has no size is not drawn");
    }

    #[test]
    fn nothing_is_no_drawing() {
        let empty = |parts| {
            Stack {
                title: "x",
                parts,
                marker: None,
            }
            .svg()
        };
        assert_eq!(empty(vec![]), None);
        assert_eq!(empty(vec![part("a", f64::NAN), part("b", -1.0)]), None);
    }
}
