//! Tables of the page, which scroll sideways where they are wider than the window.

use egui::{Align, Label, Layout, RichText, ScrollArea, Ui, vec2};
use egui_extras::Column;

use super::measured::verdict;
use crate::{
    theme::{self, Tone, tokens},
    widgets,
};

pub(super) enum Cell {
    /// Words or a figure.
    Text(String),
    /// Whether the values are right.
    Values(bool),
}

/// A column: its name, and what it holds.
pub(super) struct Col(pub(super) &'static str, pub(super) Of);

/// What a column holds, with its width in points.
pub(super) enum Of {
    /// Set to the left.
    Words(f32),
    /// Set to the right.
    Figures(f32),
    /// Words, as wide as there is room.
    Rest,
}

impl Of {
    /// The least width that it is read at, in points.
    fn least(&self) -> f32 {
        match self {
            Self::Words(width) | Self::Figures(width) => *width,
            Self::Rest => 120.0,
        }
    }
}

/// Between two columns, in points.
const BETWEEN: f32 = 3.0 * theme::GRID;

/// A table, which scrolls sideways where it is wider than the window.
pub(super) fn table_ui(ui: &mut Ui, id: &str, columns: &[Col], rows: &[Vec<Cell>]) {
    let widths = columns.iter().map(|Col(_, of)| of.least() + BETWEEN);
    let least = widths.sum::<f32>();
    ScrollArea::horizontal().id_salt(id).show(ui, |ui| {
        ui.set_width(ui.available_width().max(least));
        ui.spacing_mut().item_spacing = vec2(BETWEEN, 0.0);
        let weak = tokens(ui).weak_text;
        let mut table = widgets::table(ui, id).vscroll(false);
        for Col(_, of) in columns {
            table = table.column(match of {
                Of::Words(width) | Of::Figures(width) => Column::exact(*width),
                Of::Rest => Column::remainder().at_least(of.least()).clip(true),
            });
        }
        table
            .header(theme::ROW, |mut header| {
                for Col(name, of) in columns {
                    header.col(|ui| aligned(ui, of, RichText::new(*name).size(theme::SMALL).color(weak)));
                }
            })
            .body(|body| {
                body.rows(theme::ROW, rows.len(), |mut row| {
                    for (cell, Col(_, of)) in rows[row.index()].iter().zip(columns) {
                        row.col(|ui| cell_ui(ui, of, cell));
                    }
                });
            });
    });
}

fn cell_ui(ui: &mut Ui, of: &Of, cell: &Cell) {
    match cell {
        Cell::Text(text) => aligned(ui, of, RichText::new(text)),
        Cell::Values(passed) => {
            let tone = if *passed { Tone::Ok } else { Tone::Stop };
            widgets::badge(ui, tone, verdict(*passed));
        }
    }
}

fn aligned(ui: &mut Ui, of: &Of, text: RichText) {
    let layout = match of {
        Of::Figures(_) => Layout::right_to_left(Align::Center),
        Of::Words(_) | Of::Rest => Layout::left_to_right(Align::Center),
    };
    ui.with_layout(layout, |ui| {
        // The last digit of a figure would touch the column's edge, which cuts.
        ui.add_space(if matches!(of, Of::Figures(_)) { 2.0 } else { 0.0 });
        ui.add(Label::new(text).truncate());
    });
}
