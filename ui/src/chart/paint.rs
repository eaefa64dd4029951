//! Marks and texts that the charts paint alike.

use std::sync::Arc;

use egui::{
    Align2, Color32, FontFamily, FontId, Galley, Painter, Pos2, Rect, Shape, Stroke, pos2,
    text::{LayoutJob, TextFormat, TextWrapping},
    vec2,
};

use crate::theme::{self, Tokens};

/// A shape that tells a series or a state apart without its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shaped {
    Disc,
    Square,
    Triangle,
    Down,
    Diamond,
    Ring,
    HollowDiamond,
    Cross,
}

impl Shaped {
    /// Shape of the n-th series.
    pub(super) fn of_series(index: usize) -> Self {
        [
            Self::Disc,
            Self::Square,
            Self::Triangle,
            Self::Diamond,
            Self::Down,
        ][index % 5]
    }
}

/// Paints a shape of about this radius. Hollow ones are filled with the colour behind them, so that a line under them
/// does not look like part of them.
pub(super) fn mark(
    painter: &Painter,
    shape: Shaped,
    at: Pos2,
    radius: f32,
    colour: Color32,
    behind: Color32,
) {
    let line = Stroke::new(1.8, colour);
    let corners = |offsets: &[(f32, f32)]| -> Vec<Pos2> {
        offsets.iter().map(|&(x, y)| at + vec2(x, y) * radius).collect()
    };
    let filled = |offsets: &[(f32, f32)]| Shape::convex_polygon(corners(offsets), colour, Stroke::NONE);
    let diamond = [(0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)];
    match shape {
        Shaped::Disc => painter.add(Shape::circle_filled(at, radius, colour)),
        Shaped::Square => painter.add(filled(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)])),
        Shaped::Triangle => painter.add(filled(&[(0.0, -1.1), (1.1, 0.85), (-1.1, 0.85)])),
        Shaped::Down => painter.add(filled(&[(-1.1, -0.85), (1.1, -0.85), (0.0, 1.1)])),
        Shaped::Diamond => painter.add(filled(&diamond)),
        Shaped::Ring => painter.circle(at, radius, behind, line),
        Shaped::HollowDiamond => painter.add(Shape::convex_polygon(corners(&diamond), behind, line)),
        Shaped::Cross => {
            let ends = corners(&[(-1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (1.0, -1.0)]);
            painter.line_segment([ends[0], ends[1]], line);
            painter.line_segment([ends[2], ends[3]], line)
        }
    };
}

/// A piece of text in one line.
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) colour: Color32,
    pub(super) strong: bool,
}

/// Text as it is.
pub(super) fn plain(text: &str, colour: Color32) -> Piece<'_> {
    Piece {
        text,
        colour,
        strong: false,
    }
}

/// Text that stands out.
pub(super) fn strong(text: &str, colour: Color32) -> Piece<'_> {
    Piece {
        text,
        colour,
        strong: true,
    }
}

/// Small text.
pub(super) fn small_font() -> FontId {
    FontId::new(theme::SMALL, FontFamily::Proportional)
}

/// Lays small pieces of text out in one line, cut with `…` where they are wider than this.
pub(super) fn line_of(painter: &Painter, pieces: &[Piece<'_>], widest: f32) -> Arc<Galley> {
    let mut job = LayoutJob {
        wrap: TextWrapping::truncate_at_width(widest),
        ..LayoutJob::default()
    };
    for piece in pieces {
        let font = if piece.strong {
            FontId::new(theme::SMALL, theme::semibold())
        } else {
            small_font()
        };
        job.append(piece.text, 0.0, TextFormat::simple(font, piece.colour));
    }
    painter.layout_job(job)
}

/// Paints a laid-out text with this corner or edge of it at a place. Gives where it lies.
pub(super) fn place_text(painter: &Painter, galley: Arc<Galley>, at: Pos2, anchor: Align2) -> Rect {
    let rect = anchor.anchor_size(at, galley.size());
    painter.galley(rect.min, galley, Color32::PLACEHOLDER);
    rect
}

/// Small text on a patch of what is behind, so that lines under it do not cross it.
pub(super) fn patched_text(
    painter: &Painter,
    galley: Arc<Galley>,
    at: Pos2,
    anchor: Align2,
    behind: Color32,
) -> Rect {
    let rect = anchor.anchor_size(at, galley.size());
    painter.rect_filled(rect.expand2(vec2(3.0, 0.0)), 2, behind);
    place_text(painter, galley, at, anchor)
}

/// A dashed line.
pub(super) fn dashed(painter: &Painter, from: Pos2, to: Pos2, colour: Color32) {
    painter.extend(Shape::dashed_line(
        &[from, to],
        Stroke::new(1.2, colour),
        5.0,
        4.0,
    ));
}

/// A line of a chart's readout: a shape of a series before its pieces, where there is one.
pub(super) struct ReadoutLine {
    pub(super) shape: Option<(Shaped, Color32)>,
    pub(super) galley: Arc<Galley>,
}

/// Paints lines in a small box beside a place, on the side where there is room. Gives the box.
pub(super) fn readout(
    painter: &Painter,
    tokens: &Tokens,
    lines: &[ReadoutLine],
    beside: Pos2,
    within: Rect,
) -> Rect {
    const AWAY: f32 = 3.0 * theme::GRID;
    const INSET: f32 = 2.0 * theme::GRID;
    let indent = |line: &ReadoutLine| {
        if line.shape.is_some() {
            4.0 * theme::GRID
        } else {
            0.0
        }
    };
    let width = lines
        .iter()
        .map(|line| indent(line) + line.galley.size().x)
        .fold(0.0, f32::max);
    let row = painter.fonts_mut(|fonts| fonts.row_height(&small_font())) + 2.0;
    let size = vec2(width, row * lines.len() as f32) + vec2(2.0 * INSET, 2.0 * INSET - 2.0);
    let left = if beside.x + AWAY + size.x <= within.right() {
        beside.x + AWAY
    } else {
        (beside.x - AWAY - size.x).max(within.left())
    };
    let top = (beside.y).min(within.bottom() - size.y).max(within.top());
    let rect = Rect::from_min_size(pos2(left.round(), top.round()), size);
    painter.rect(
        rect,
        theme::SMALL_CORNER,
        tokens.panel,
        Stroke::new(1.0, tokens.control_line),
        egui::StrokeKind::Inside,
    );
    let mut at = rect.min + vec2(INSET, INSET);
    for line in lines {
        if let Some((shape, colour)) = line.shape {
            mark(
                painter,
                shape,
                at + vec2(4.0, row / 2.0 - 1.0),
                3.5,
                colour,
                tokens.panel,
            );
        }
        painter.galley(at + vec2(indent(line), 0.0), line.galley.clone(), tokens.text);
        at.y += row;
    }
    rect
}
