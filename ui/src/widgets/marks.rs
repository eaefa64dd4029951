//! Marks and icons, drawn and not typed: a verdict has its own shape and word beside its colour.

use egui::{
    Color32, CornerRadius, FontId, Painter, Pos2, Rect, Response, Role, Sense, Shape, Stroke, StrokeKind, Ui,
    Vec2, WidgetInfo, pos2, vec2,
};

use crate::{
    state::Page,
    theme::{self, Tone, tokens},
};

/// A verdict in a pill: its shape and its word.
pub fn badge(ui: &mut Ui, tone: Tone, text: &str) -> Response {
    let colours = tokens(ui).tone(tone);
    let font = FontId::new(theme::SMALL, theme::semibold());
    let galley = ui.painter().layout_no_wrap(text.to_owned(), font, colours.text);
    let (side, inset) = (12.0, 2.0 * theme::GRID);
    let size = vec2(
        galley.size().x + side + 3.0 * inset - theme::GRID,
        5.5 * theme::GRID,
    );
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    let painter = ui.painter();
    painter.rect_filled(rect, CornerRadius::same(11), colours.fill);
    let centre = pos2(rect.left() + inset + side / 2.0, rect.center().y);
    mark(painter, centre, side, tone, colours.text);
    let place = pos2(
        centre.x + side / 2.0 + theme::GRID,
        rect.center().y - galley.size().y / 2.0,
    );
    painter.galley(place, galley, colours.text);
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    response
}

/// The shape of a verdict: a tick, an i, a triangle, a cross in an octagon, a question mark in a ring.
pub fn mark(painter: &Painter, centre: Pos2, side: f32, tone: Tone, colour: Color32) {
    let half = side / 2.0;
    let stroke = Stroke::new((side / 7.0).max(1.2), colour);
    let at = |x: f32, y: f32| centre + vec2(x, y) * half;
    match tone {
        Tone::Ok => {
            painter.add(Shape::line(
                vec![at(-0.75, 0.05), at(-0.2, 0.6), at(0.8, -0.6)],
                stroke,
            ));
        }
        Tone::Note => {
            painter.circle_stroke(centre, half * 0.9, stroke);
            painter.line_segment([at(0.0, -0.05), at(0.0, 0.45)], stroke);
            painter.circle_filled(at(0.0, -0.42), stroke.width * 0.6, colour);
        }
        Tone::Warn => {
            let corners = vec![at(0.0, -0.9), at(0.95, 0.75), at(-0.95, 0.75)];
            painter.add(Shape::closed_line(corners, stroke));
            painter.line_segment([at(0.0, -0.3), at(0.0, 0.2)], stroke);
            painter.circle_filled(at(0.0, 0.5), stroke.width * 0.55, colour);
        }
        Tone::Stop => {
            let corners = (0..8)
                .map(|corner| {
                    let angle = std::f32::consts::PI * (0.125 + 0.25 * corner as f32);
                    centre + Vec2::angled(angle) * half
                })
                .collect();
            painter.add(Shape::convex_polygon(corners, colour, Stroke::NONE));
            let cut = Stroke::new(stroke.width, contrast(colour));
            painter.line_segment([at(-0.35, -0.35), at(0.35, 0.35)], cut);
            painter.line_segment([at(0.35, -0.35), at(-0.35, 0.35)], cut);
        }
        Tone::Unknown => {
            for part in 0..6 {
                let angle = |step: f32| std::f32::consts::TAU * (part as f32 + step) / 6.0;
                let from = centre + Vec2::angled(angle(0.15)) * half * 0.9;
                let to = centre + Vec2::angled(angle(0.85)) * half * 0.9;
                painter.line_segment([from, to], stroke);
            }
            painter.circle_filled(centre, stroke.width * 0.7, colour);
        }
    }
}

/// Black or white, whichever stands out.
fn contrast(colour: Color32) -> Color32 {
    if colour.intensity() > 0.5 {
        Color32::BLACK
    } else {
        Color32::WHITE
    }
}

/// The icon of a page, drawn into `rect`, in lines.
pub fn icon(painter: &Painter, rect: Rect, page: Page, colour: Color32) {
    let stroke = Stroke::new(1.5, colour);
    let at = |x: f32, y: f32| rect.left_top() + vec2(rect.width() * x, rect.height() * y);
    let line = |points: &[(f32, f32)]| {
        painter.add(Shape::line(
            points.iter().map(|&(x, y)| at(x, y)).collect(),
            stroke,
        ));
    };
    let frame = |a: (f32, f32), b: (f32, f32)| {
        painter.rect_stroke(
            Rect::from_min_max(at(a.0, a.1), at(b.0, b.1)),
            CornerRadius::same(2),
            stroke,
            StrokeKind::Middle,
        );
    };
    match page {
        Page::Welcome | Page::Card => {
            frame((0.2, 0.2), (0.8, 0.8));
            frame((0.4, 0.4), (0.6, 0.6));
            for place in [0.35, 0.5, 0.65] {
                line(&[(place, 0.05), (place, 0.2)]);
                line(&[(place, 0.8), (place, 0.95)]);
                line(&[(0.05, place), (0.2, place)]);
                line(&[(0.8, place), (0.95, place)]);
            }
        }
        Page::Setup => {
            for (height, knob) in [(0.25, 0.65), (0.5, 0.3), (0.75, 0.55)] {
                line(&[(0.1, height), (0.9, height)]);
                painter.circle_filled(at(knob, height), rect.width() * 0.1, colour);
            }
        }
        Page::Calibrate => {
            let arc: Vec<(f32, f32)> = (0..=12)
                .map(|part| {
                    let angle = std::f32::consts::PI * (1.0 + part as f32 / 12.0);
                    (0.5 + 0.42 * angle.cos(), 0.7 + 0.5 * angle.sin())
                })
                .collect();
            line(&arc);
            line(&[(0.5, 0.7), (0.7, 0.38)]);
            painter.circle_filled(at(0.5, 0.7), rect.width() * 0.07, colour);
        }
        Page::Tune => {
            line(&[(0.12, 0.88), (0.62, 0.38)]);
            line(&[(0.72, 0.08), (0.72, 0.38)]);
            line(&[(0.57, 0.23), (0.87, 0.23)]);
            line(&[(0.3, 0.12), (0.3, 0.32)]);
            line(&[(0.2, 0.22), (0.4, 0.22)]);
            line(&[(0.85, 0.55), (0.85, 0.75)]);
            line(&[(0.75, 0.65), (0.95, 0.65)]);
        }
        Page::Live => {
            line(&[(0.08, 0.08), (0.08, 0.92), (0.94, 0.92)]);
            line(&[(0.2, 0.2), (0.35, 0.58), (0.5, 0.5), (0.65, 0.72), (0.9, 0.78)]);
        }
        Page::TryIt => {
            line(&[
                (0.1, 0.15),
                (0.9, 0.15),
                (0.9, 0.7),
                (0.45, 0.7),
                (0.25, 0.9),
                (0.25, 0.7),
                (0.1, 0.7),
                (0.1, 0.15),
            ]);
            line(&[(0.28, 0.35), (0.72, 0.35)]);
            line(&[(0.28, 0.52), (0.58, 0.52)]);
        }
        // Two bars, each with its spread.
        Page::Compare | Page::Published => {
            line(&[(0.06, 0.92), (0.94, 0.92)]);
            for (left, top) in [(0.16, 0.42), (0.58, 0.6)] {
                frame((left, top), (left + 0.26, 0.92));
                line(&[(left + 0.13, top - 0.2), (left + 0.13, top + 0.12)]);
                line(&[(left + 0.05, top - 0.2), (left + 0.21, top - 0.2)]);
            }
        }
        Page::Runs => {
            for height in [0.22, 0.5, 0.78] {
                painter.circle_filled(at(0.14, height), rect.width() * 0.06, colour);
                line(&[(0.3, height), (0.92, height)]);
            }
        }
        Page::Report => {
            line(&[
                (0.2, 0.08),
                (0.6, 0.08),
                (0.82, 0.3),
                (0.82, 0.92),
                (0.2, 0.92),
                (0.2, 0.08),
            ]);
            line(&[(0.36, 0.78), (0.36, 0.58)]);
            line(&[(0.51, 0.78), (0.51, 0.44)]);
            line(&[(0.66, 0.78), (0.66, 0.64)]);
        }
        Page::Settings => {
            painter.circle_stroke(at(0.5, 0.5), rect.width() * 0.2, stroke);
            for tooth in 0..8 {
                let angle = std::f32::consts::TAU * tooth as f32 / 8.0;
                let direction = Vec2::angled(angle) * rect.width();
                let centre = rect.center();
                painter.line_segment([centre + direction * 0.32, centre + direction * 0.45], stroke);
            }
        }
        Page::Glossary => {
            line(&[
                (0.5, 0.2),
                (0.1, 0.12),
                (0.1, 0.82),
                (0.5, 0.9),
                (0.9, 0.82),
                (0.9, 0.12),
                (0.5, 0.2),
            ]);
            line(&[(0.5, 0.2), (0.5, 0.9)]);
        }
    }
}
