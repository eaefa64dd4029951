//! What every chart has around it: its name and unit, the table behind it, and the sentence that says it.

use egui::{
    Align, Button, Label, Layout, Rect, Response, RichText, Role, Sense, Ui, UiBuilder, WidgetInfo, vec2,
};
use egui_extras::{Column, TableBuilder};
use tunesmith_report::format::{count, significant};

use super::ChartView;
use crate::{
    theme::{self, tokens},
    widgets::small_button,
};

/// Height of the line with name and buttons, in points.
const HEADING_LINE: f32 = 6.0 * theme::GRID;
/// Width of a column of numbers beside one of words, in points.
const NUMBERS: f32 = 128.0;
/// Most rows of a table.
pub(super) const MOST_ROWS: usize = 1000;

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// Words.
    Text(String),
    /// A value, and a word that belongs to it.
    Number(f64, &'static str),
    /// A step or a number of things, which is mostly whole.
    Count(f64),
    /// No value.
    Empty,
}

impl Cell {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value, word) => {
                let value = shown_number(*value);
                if word.is_empty() {
                    value
                } else {
                    format!("{value} {word}")
                }
            }
            Self::Count(value) if *value >= 0.0 && value.fract() <= 0.0 => count(*value as u64),
            Self::Count(value) => shown_number(*value),
            Self::Empty => "–".to_owned(),
        }
    }

    /// For a spreadsheet: every digit, no grouping. Tabs and line ends would break the rows.
    fn copied(&self) -> String {
        match self {
            Self::Text(text) => text.replace(['\t', '\n', '\r'], " "),
            Self::Number(value, _) | Self::Count(value) => value.to_string(),
            Self::Empty => String::new(),
        }
    }
}

fn shown_number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value == f64::INFINITY {
        "+∞".to_owned()
    } else if value == f64::NEG_INFINITY {
        "−∞".to_owned()
    } else {
        significant(value, 4)
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableColumn {
    pub(super) name: String,
    /// Set to the right.
    pub(super) numeric: bool,
}

impl TableColumn {
    pub(super) fn words(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            numeric: false,
        }
    }

    pub(super) fn numbers(name: &str, unit: &str) -> Self {
        let name = match unit {
            "" => name.to_owned(),
            unit => format!("{name} ({unit})"),
        };
        Self { name, numeric: true }
    }
}

/// The values behind a chart.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Table {
    pub(super) columns: Vec<TableColumn>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// What was left out, as a sentence.
    pub(super) thinned: Option<String>,
}

impl Table {
    /// As tab-separated values.
    pub(super) fn to_tsv(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let mut text = names.join("\t");
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::copied).collect();
            text.push('\n');
            text.push_str(&cells.join("\t"));
        }
        text.push('\n');
        text
    }
}

/// A chart's parts.
pub(super) struct Framed<'a> {
    pub(super) title: &'a str,
    pub(super) unit: &'a str,
    pub(super) summary: &'a str,
    /// There is nothing to draw, and the sentence, which says so, takes the chart's place.
    pub(super) empty: bool,
    /// Of chart or table, in points.
    pub(super) height: f32,
}

impl Framed<'_> {
    /// Draws heading, then chart or table, then the sentence. `chart` is given the space of the chart.
    pub(super) fn show<R>(
        &self,
        ui: &mut Ui,
        view: &mut ChartView,
        table: impl Fn() -> Table,
        chart: impl FnOnce(&mut Ui, &Response) -> R,
    ) -> Option<R> {
        // Columns of a page may set their text in block, which makes holes in short lines.
        let from_left = UiBuilder::new()
            .id_salt(("chart", self.title))
            .layout(Layout::top_down(Align::Min));
        ui.scope_builder(from_left, |ui| {
            ui.spacing_mut().item_spacing = vec2(2.0 * theme::GRID, theme::GRID);
            ui.spacing_mut().interact_size.y = HEADING_LINE;
            let copied = self.heading_ui(ui, view);
            let shown = if view.table {
                let table = table();
                if copied {
                    ui.ctx().copy_text(table.to_tsv());
                }
                table_ui(&table, self.height, ui);
                None
            } else {
                let (rect, response) =
                    ui.allocate_exact_size(vec2(ui.available_width(), self.height), Sense::hover());
                response.widget_info(|| {
                    WidgetInfo::labeled(
                        Role::Image,
                        true,
                        format!("chart of {}", in_a_sentence(self.title)),
                    )
                });
                ui.ctx()
                    .accesskit_node_builder(response.id, |node| node.set_description(self.summary));
                let mut inside = ui.new_child(UiBuilder::new().max_rect(rect));
                if self.empty {
                    empty_ui(self.summary, &mut inside);
                    return None;
                }
                Some(chart(&mut inside, &response))
            };
            ui.add(Label::new(RichText::new(self.summary).small().color(tokens(ui).weak_text)).wrap());
            shown
        })
        .inner
    }

    /// Whether copying was asked for.
    fn heading_ui(&self, ui: &mut Ui, view: &mut ChartView) -> bool {
        let tokens = tokens(ui);
        let mut copied = false;
        ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.spacing_mut().button_padding = vec2(1.5 * theme::GRID, 0.5 * theme::GRID);
                let word = RichText::new("Table").small();
                let word = if view.table {
                    word
                } else {
                    word.color(tokens.weak_text)
                };
                let toggle = ui.add(Button::selectable(view.table, word));
                if toggle.clicked() {
                    view.table = !view.table;
                }
                let name = format!("Show {} as a table", in_a_sentence(self.title));
                let shown = view.table;
                toggle.widget_info(|| WidgetInfo::selected(Role::Button, true, shown, &name));
                if view.table {
                    let copy = small_button(ui, "Copy")
                        .on_hover_text("Copies the table's rows as tab-separated values");
                    let name = format!("Copy the table of {}", in_a_sentence(self.title));
                    copy.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
                    copied = copy.clicked();
                }
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    let mut heading = egui::text::LayoutJob::default();
                    let format = egui::TextFormat::simple;
                    heading.append(self.title, 0.0, format(theme::strong_font(), tokens.strong_text));
                    if !self.unit.is_empty() {
                        let font = super::paint::small_font();
                        heading.append(self.unit, 2.0 * theme::GRID, format(font, tokens.weak_text));
                    }
                    ui.add(Label::new(heading).truncate());
                });
            });
        });
        copied
    }
}

/// A title in the middle of a sentence: `Loss` becomes `loss`, `VRAM` stays.
pub(super) fn in_a_sentence(title: &str) -> String {
    let mut letters = title.chars();
    let (Some(first), second) = (letters.next(), letters.next()) else {
        return String::new();
    };
    if second.is_some_and(char::is_uppercase) {
        return title.to_owned();
    }
    first.to_lowercase().chain(title.chars().skip(1)).collect()
}

/// Says in the middle of a chart's space why nothing is drawn.
fn empty_ui(text: &str, ui: &mut Ui) {
    let tokens = tokens(ui);
    let rect: Rect = ui.max_rect();
    ui.painter().rect_filled(rect, theme::SMALL_CORNER, tokens.faint);
    ui.put(
        rect.shrink(theme::INSET),
        Label::new(RichText::new(text).color(tokens.weak_text)).wrap(),
    );
}

fn table_ui(table: &Table, height: f32, ui: &mut Ui) {
    const TABLE_ROW: f32 = theme::ROW - theme::GRID;
    let top = ui.cursor().top();
    if let Some(sentence) = &table.thinned {
        ui.add(Label::new(RichText::new(sentence).small()).wrap());
    }
    let height = (height - (ui.cursor().top() - top) - TABLE_ROW).max(3.0 * TABLE_ROW);
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        let weak = tokens(ui).weak_text;
        let mut builder = TableBuilder::new(ui)
            .id_salt("table")
            .striped(true)
            .auto_shrink([false, false])
            .min_scrolled_height(height)
            .max_scroll_height(height);
        let has_words = table.columns.iter().any(|column| !column.numeric);
        for column in &table.columns {
            builder = builder.column(match (column.numeric, has_words) {
                (true, true) => Column::initial(NUMBERS).clip(true),
                (true, false) => Column::remainder().at_least(72.0).clip(true),
                (false, _) => Column::remainder().at_least(96.0).clip(true),
            });
        }
        builder
            .header(TABLE_ROW, |mut header| {
                for column in &table.columns {
                    header.col(|ui| {
                        cell_ui(
                            RichText::new(&column.name).small().color(weak),
                            column.numeric,
                            ui,
                        );
                    });
                }
            })
            .body(|body| {
                body.rows(TABLE_ROW, table.rows.len(), |mut row| {
                    let cells = &table.rows[row.index()];
                    for (cell, column) in cells.iter().zip(&table.columns) {
                        row.col(|ui| cell_ui(RichText::new(cell.shown()), column.numeric, ui));
                    }
                });
            });
    });
}

fn cell_ui(text: RichText, numeric: bool, ui: &mut Ui) {
    let layout = if numeric {
        Layout::right_to_left(Align::Center)
    } else {
        Layout::left_to_right(Align::Center)
    };
    ui.with_layout(layout, |ui| {
        ui.add_space(2.0 * theme::GRID);
        ui.add(Label::new(text).truncate());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_table_has_every_digit_and_keeps_its_rows() {
        let table = Table {
            columns: vec![TableColumn::words("run"), TableColumn::numbers("loss", "nats")],
            rows: vec![
                vec![Cell::Text("a\tb".into()), Cell::Number(0.123_456_789, "invalid")],
                vec![Cell::Text("c".into()), Cell::Number(f64::NAN, "")],
                vec![Cell::Text("d".into()), Cell::Empty],
            ],
            thinned: None,
        };
        assert_eq!(
            table.to_tsv(),
            "run\tloss (nats)\na b\t0.123456789\nc\tNaN\nd\t\n"
        );
        assert_eq!(table.rows[0][1].shown(), "0.1235 invalid");
        assert_eq!(Cell::Number(f64::NEG_INFINITY, "").shown(), "−∞");
    }

    #[test]
    fn titles_fit_into_sentences() {
        assert_eq!(in_a_sentence("Loss"), "loss");
        assert_eq!(in_a_sentence("VRAM and speed"), "VRAM and speed");
        assert_eq!(in_a_sentence(""), "");
    }
}
