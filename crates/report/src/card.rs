//! The share card: a picture of 1200 by 630 with the device's name, the one figure, the drawing that shows it, the badge of
//! validity, date, version and protocol. It is drawn as SVG in the page's own colours and rules of drawing, with the fonts that
//! come with Tunesmith, so that it looks the same on every machine, and then turned into pixels.

mod content;
mod tokens;

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::format::{escape, shorten};
use crate::{Report, ReportError, Verdict};

use content::{Bar, Content, Drawing};

/// Width of the picture, in pixels.
pub const WIDTH: u32 = 1200;
/// Height of the picture, in pixels.
pub const HEIGHT: u32 = 630;

const REGULAR: &[u8] = include_bytes!("../../../assets/fonts/SourceSansPro-Regular.ttf");
const SEMIBOLD: &[u8] = include_bytes!("../../../assets/fonts/SourceSansPro-Semibold.ttf");

/// Where the drawing stands: left, top, width, height.
const FRAME: [f64; 4] = [596.0, 152.0, 556.0, 380.0];

/// The card as a PNG file.
///
/// # Errors
/// [`ReportError::Picture`]; none is known to happen.
pub(crate) fn png(report: &Report) -> Result<Vec<u8>, ReportError> {
    let fault = |why: String| ReportError::Picture { why };
    let options = Options {
        font_family: "Source Sans Pro".to_owned(),
        fontdb: Arc::clone(fonts()),
        ..Options::default()
    };
    let tree = Tree::from_str(&svg(report), &options).map_err(|error| fault(error.to_string()))?;
    let mut pixels =
        Pixmap::new(WIDTH, HEIGHT).ok_or_else(|| fault("there is no room for its pixels".to_owned()))?;
    resvg::render(&tree, Transform::identity(), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| fault(error.to_string()))
}

/// The fonts that come with Tunesmith, and none of the system.
fn fonts() -> &'static Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    FONTS.get_or_init(|| {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(REGULAR.to_vec());
        fonts.load_font_data(SEMIBOLD.to_vec());
        Arc::new(fonts)
    })
}

/// The card as SVG text.
pub(crate) fn svg(report: &Report) -> String {
    let content = Content::of(report);
    let style = tokens::resolve(concat!(
        include_str!("../templates/chart.css"),
        include_str!("../templates/card.css")
    ));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\
         <style>{style}</style><rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\
         <rect class=\"edge\" width=\"12\" height=\"{HEIGHT}\"/>"
    );
    let mut text = |class: &str, x: f64, y: f64, words: &str| {
        let _ = write!(
            svg,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(words)
        );
    };
    text("kicker", 48.0, 56.0, &content.kicker);
    text("kicker end", 1152.0, 56.0, &content.date);
    let (size, device) = fitted(&content.device, 54.0, 36.0, 1104.0);
    text(&format!("device d{size:.0}"), 48.0, 116.0, &device);
    text("what", 48.0, 190.0, &shorten(&content.what, 40));
    let (size, figure) = fitted(&content.figure, 132.0, 64.0, 500.0);
    text(&format!("figure f{size:.0}"), 44.0, 324.0, &figure);
    text("unit", 48.0, 372.0, &shorten(&content.unit, 44));
    for (line, words) in content.notes.iter().take(2).enumerate() {
        text("noted", 48.0, 414.0 + 32.0 * line as f64, &shorten(words, 52));
    }
    text("foot", 48.0, 598.0, &content.foot);
    text("foot end", 1152.0, 598.0, &content.hash);
    badge(report, &mut svg);
    drawing(&content, &mut svg);
    svg.push_str("</svg>");
    svg
}

/// The largest of the sizes in between at which a text fits, and the text, shortened where even the least is too large.
fn fitted(text: &str, largest: f64, least: f64, width: f64) -> (f64, String) {
    // Letters of the face are about half as wide as they are high.
    let wide = |size: f64| 0.53 * size * text.chars().count() as f64;
    let mut size = largest;
    while size > least && wide(size) > width {
        size -= 6.0;
    }
    let most = (width / (0.53 * size)).floor() as usize;
    (size, shorten(text, most.max(4)))
}

/// The badge: shape, word and reason, never colour alone.
fn badge(report: &Report, svg: &mut String) {
    let (class, shape) = match report.validity.verdict {
        Verdict::Ok => (
            "ok",
            "<circle cx=\"8\" cy=\"8\" r=\"7\"/><path d=\"M4.8 8.2l2.3 2.3 4.2-4.6\"/>",
        ),
        Verdict::Note => (
            "note",
            "<rect x=\"1.5\" y=\"1.5\" width=\"13\" height=\"13\" rx=\"3\"/><path d=\"M8 4.6v.2M8 7.2v4.4\"/>",
        ),
        Verdict::Warn => (
            "warn",
            "<path class=\"body\" d=\"M8 1.2l7 13H1z\"/><path d=\"M8 6v4M8 12v.2\"/>",
        ),
        Verdict::Stop => (
            "stop",
            "<path class=\"body\" d=\"M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z\"/><path d=\"M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2\"/>",
        ),
        Verdict::Unknown => (
            "unknown",
            "<circle class=\"hollow\" cx=\"8\" cy=\"8\" r=\"6.6\"/><path class=\"ink\" d=\"M6.2 6.3a1.9 1.9 0 1 1 2.6 1.8c-.6.3-.8.6-.8 1.2M8 11.4v.2\"/>",
        ),
    };
    let words = shorten(&report.validity.sentence, 44);
    let width = 76.0 + 12.4 * words.chars().count() as f64;
    let _ = write!(
        svg,
        "<g class=\"verdict-{class}\"><rect class=\"badge\" x=\"48\" y=\"494\" width=\"{width:.0}\" height=\"50\" rx=\"10\"/>\
         <g class=\"mark\" transform=\"translate(62 504) scale(1.9)\">{shape}</g>\
         <text class=\"badge-text\" x=\"104\" y=\"528\">{}</text></g>",
        escape(&words)
    );
}

fn drawing(content: &Content, svg: &mut String) {
    let [x, y, width, height] = FRAME;
    let _ = write!(
        svg,
        "<rect class=\"panel\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"14\"/>\
         <text class=\"drawing-title\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        x + 24.0,
        y + 42.0,
        escape(&shorten(&content.drawing_title, 48))
    );
    match &content.drawing {
        Drawing::Chart(chart) => {
            // The page's drawing, set into the frame.
            let place = format!(
                "<svg x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" ",
                x + 20.0,
                y + 60.0,
                width - 40.0,
                height - 76.0
            );
            svg.push_str(&chart.replacen("<svg ", &place, 1));
        }
        Drawing::Bars(bars) => draw_bars(bars, svg),
        Drawing::Nothing(why) => {
            let _ = write!(
                svg,
                "<text class=\"noted\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 24.0,
                y + height / 2.0,
                escape(&shorten(why, 52))
            );
        }
    }
}

fn draw_bars(bars: &[Bar], svg: &mut String) {
    let [left, top, width, height] = FRAME;
    let ends = bars.iter().map(|bar| bar.value + bar.spread.unwrap_or(0.0));
    let most = ends.fold(0.0, f64::max);
    let room = ((height - 80.0) / bars.len().max(1) as f64).min(150.0);
    let long = width - 48.0;
    for (index, bar) in bars.iter().enumerate() {
        let y = top + 68.0 + room * index as f64 + (room - 84.0).clamp(0.0, 40.0) / 2.0;
        let thick = (room - 44.0).clamp(16.0, 60.0);
        let x = |value: f64| {
            left + 24.0
                + if most > 0.0 {
                    (value / most).clamp(0.0, 1.0) * long
                } else {
                    0.0
                }
        };
        let _ = write!(
            svg,
            "<text class=\"bar-name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"bar-words end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <g class=\"{}\"><rect class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{thick:.1}\" rx=\"3\"/></g>",
            left + 24.0,
            y + 22.0,
            escape(&shorten(&bar.name, 26)),
            left + width - 24.0,
            y + 22.0,
            escape(&bar.words),
            bar.class,
            if bar.hollow {
                "card-bar hollow-bar"
            } else {
                "card-bar"
            },
            left + 24.0,
            y + 32.0,
            (x(bar.value) - left - 24.0).max(2.0)
        );
        if let Some(spread) = bar.spread {
            let (low, high, middle) = (
                x(bar.value - spread),
                x(bar.value + spread),
                y + 32.0 + thick / 2.0,
            );
            let _ = write!(
                svg,
                "<path class=\"whisker\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v14M{high:.1} {:.1}v14\"/>",
                middle - 7.0,
                middle - 7.0
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_gets_smaller_and_then_shorter() {
        assert_eq!(
            fitted("RX 7900 XTX", 54.0, 36.0, 1104.0),
            (54.0, "RX 7900 XTX".to_owned())
        );
        let (size, text) = fitted(&"x".repeat(80), 54.0, 36.0, 1104.0);
        assert!(size <= 36.0 && text.ends_with('…'), "{size} {text}");
    }
}
