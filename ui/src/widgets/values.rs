//! Numbers and facts: digits in columns, units in a lighter tone, where a figure comes from on hover.

use egui::{Align, FontId, Grid, Label, Layout, Response, RichText, TextFormat, Ui, text::LayoutJob};
use egui_extras::TableBuilder;
use tunesmith_protocol::Progress;
use tunesmith_report::format::duration;

use crate::theme::{self, tokens};

/// Text that matters less.
pub fn caption(ui: &mut Ui, text: &str) -> Response {
    let colour = tokens(ui).weak_text;
    ui.add(Label::new(RichText::new(text).color(colour)).wrap())
}

/// The one large figure of a panel, with its unit.
pub fn figure(ui: &mut Ui, value: &str, unit: &str) -> Response {
    let job = job(ui, value, unit, theme::figure_font());
    ui.label(job)
}

/// Narrower than this, tiles stand two by two.
const ABREAST: f32 = 680.0;

/// Tiles side by side, four in a row where there is room.
pub fn tiles(ui: &mut Ui, tiles: &[&dyn Fn(&mut Ui)]) {
    let columns = if ui.available_width() < ABREAST {
        2
    } else {
        tiles.len().clamp(1, 4)
    };
    for row in tiles.chunks(columns) {
        ui.columns(columns, |columns| {
            for (tile, ui) in row.iter().zip(columns) {
                tile(ui);
            }
        });
    }
}

/// A figure with its name above and a line below; what it rests on shows on hover.
pub fn tile(ui: &mut Ui, name: &str, value: &str, below: &str, how: &str) {
    let tokens = tokens(ui);
    let weak = |text: &str| RichText::new(text).size(theme::SMALL).color(tokens.weak_text);
    ui.vertical(|ui| {
        ui.spacing_mut().item_spacing.y = 2.0;
        ui.label(weak(name));
        let (value, unit) = match value.rsplit_once(' ') {
            Some((value, unit @ ("GiB" | "MiB" | "KiB"))) => (value, unit),
            _ => (value, ""),
        };
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = theme::GRID;
            let text = RichText::new(value)
                .font(theme::title_font())
                .color(tokens.strong_text);
            ui.add(Label::new(text).truncate()).on_hover_text(how);
            if !unit.is_empty() {
                ui.label(RichText::new(unit).color(tokens.weak_text));
            }
        });
        ui.add(Label::new(weak(below)).wrap()).on_hover_text(how);
    });
}

/// A number with its unit in a lighter tone.
pub fn value_unit(ui: &mut Ui, value: &str, unit: &str) -> Response {
    let job = job(ui, value, unit, FontId::proportional(theme::BODY));
    ui.label(job)
}

fn job(ui: &Ui, value: &str, unit: &str, font: FontId) -> LayoutJob {
    let tokens = tokens(ui);
    let mut job = LayoutJob::default();
    job.append(value, 0.0, TextFormat::simple(font, tokens.strong_text));
    if !unit.is_empty() {
        let format = TextFormat {
            valign: Align::BOTTOM,
            ..TextFormat::simple(FontId::proportional(theme::BODY), tokens.weak_text)
        };
        job.append(unit, theme::GRID, format);
    }
    job
}

/// Facts in two columns. The third of each is shown on hover: where it was read, or what it means.
pub fn facts(ui: &mut Ui, id: &str, rows: &[(&str, String, String)]) {
    let colour = tokens(ui).weak_text;
    Grid::new(id)
        .num_columns(2)
        .spacing([6.0 * theme::GRID, 1.5 * theme::GRID])
        .show(ui, |ui| {
            for (name, value, hover) in rows {
                ui.label(RichText::new(*name).color(colour));
                let response = ui.add(Label::new(value).truncate());
                if !hover.is_empty() {
                    response.on_hover_text(hover);
                }
                ui.end_row();
            }
        });
}

/// A table in the window's manner, for columns to be added.
pub fn table<'a>(ui: &'a mut Ui, id: &str) -> TableBuilder<'a> {
    TableBuilder::new(ui)
        .id_salt(id)
        .striped(false)
        .resizable(false)
        .cell_layout(Layout::left_to_right(Align::Center))
}

/// How far a stage is and how long it still takes: `12 of 120 steps, about 1 min 30 s left`.
pub fn eta(progress: &Progress) -> String {
    let left = match progress.eta_secs {
        Some(secs) if secs.is_finite() && secs >= 0.0 => format!("about {} left", whole_secs(secs)),
        _ => "estimating…".to_owned(),
    };
    format!(
        "{} of {} {}, {left}",
        progress.done, progress.total, progress.unit
    )
}

/// A time that goes on, in whole seconds: `12 s`, `4 min 12 s`. Digits after the point would only flicker.
pub fn whole_secs(secs: f64) -> String {
    if (0.0..59.5).contains(&secs) {
        format!("{secs:.0} s")
    } else {
        duration(secs.round())
    }
}

/// A stretch of time as one says it of what is not known better: `25 s`, `4 min`, `2 h 10 min`. Steps of five keep it
/// from flickering.
pub fn rough(secs: f64) -> String {
    let five = |value: f64| ((value / 5.0).round() * 5.0).max(5.0) as u64;
    let minutes = (secs / 60.0).round() as u64;
    match secs {
        _ if secs < 57.5 => format!("{} s", five(secs)),
        _ if minutes < 60 => format!("{minutes} min"),
        _ => {
            let minutes = five(secs / 60.0);
            format!("{} h {:02} min", minutes / 60, minutes % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::whole_secs;

    #[test]
    fn times_that_go_on_have_no_digits_after_the_point() {
        for (secs, text) in [
            (0.0, "0 s"),
            (9.2, "9 s"),
            (59.7, "1 min 00 s"),
            (252.3, "4 min 12 s"),
        ] {
            assert_eq!(whole_secs(secs), text);
        }
        assert_eq!(whole_secs(f64::NAN), "unknown");
    }
}
