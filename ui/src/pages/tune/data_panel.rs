//! What is learned from: the recipe's data or a file of the user's own, with its columns, its first rows, their lengths, and
//! which part of a row the model is trained to write.

use std::path::PathBuf;

use egui::{
    Button, ComboBox, FontId, Frame, Label, Margin, RichText, ScrollArea, Stroke, TextEdit, TextFormat, Ui,
    text::LayoutJob,
};
use egui_extras::Column;
use tunesmith_data::{Columns, Preview, PreviewRow, Role, Sample, TokenPreview};
use tunesmith_report::format::{count, number, percent, plural, shorten, size};

use super::{DataSeen, Picked, TextToSqlSeen, TuneView, file_name, form::OwnData, weak};
use crate::{
    commands::Commands,
    services::{Pick, pick},
    state::{Problem, State},
    theme::{self, Tokens, Tone, tokens},
    widgets,
};

/// Endings of files that can be read as data.
const ENDINGS: [&str; 9] = [
    "jsonl", "ndjson", "json", "csv", "tsv", "parquet", "txt", "text", "md",
];
/// Messages of a row that stand side by side; further ones are told by their number.
const MOST_COLUMNS: usize = 3;
/// Width of a column's name and choice.
const COLUMN_WIDTH: f32 = 240.0;
/// Letters of a sample that are shown.
const SAMPLE_LETTERS: usize = 4000;

pub(super) fn data_ui(state: &State, view: &mut TuneView, ui: &mut Ui, out: &mut Commands) {
    let tune = &state.pages.tune;
    widgets::panel(ui, "What it learns from", |ui| {
        choose_ui(view, ui, out);
        ui.add_space(theme::GRID);
        if tune.data.last().is_some() && tune.data.current().is_none() {
            widgets::loading(ui, "Reading it again");
        }
        match tune.data.last() {
            None => widgets::loading(ui, "Looking at the data"),
            Some(Ok(DataSeen::TextToSql(seen))) => text_to_sql_ui(seen, ui),
            Some(Ok(DataSeen::File(preview))) => file_ui(preview, view, ui, out),
            Some(Ok(DataSeen::Columns { problem, columns })) => {
                widgets::problem_panel(ui, "Its columns do not tell what is what", problem, out);
                let names: Vec<&str> = columns.iter().map(String::as_str).collect();
                columns_ui(&names, &|_| None, view, ui);
            }
            Some(Err(problem)) => widgets::problem_panel(ui, "This data cannot be read", problem, out),
        }
    });
}

/// Where the data comes from, and how another is chosen.
fn choose_ui(view: &mut TuneView, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal_wrapped(|ui| {
        if let Some(data) = &view.form.data {
            let name = RichText::new(file_name(&data.path)).font(theme::strong_font());
            ui.add(Label::new(name).truncate())
                .on_hover_text(data.path.display().to_string());
            if ui
                .button("Remove")
                .on_hover_text("Take the recipe's own data again; the file stays where it is")
                .clicked()
            {
                view.form.data = None;
                return;
            }
        }
        if ui.button("Choose a file…").clicked() {
            out.act("choose_data", |_| {
                Some(pick(
                    "Choose a data set",
                    Pick::File("Data sets", &ENDINGS),
                    |state, path| {
                        state.pages.tune.picked = Some(Picked::Data(path));
                    },
                ))
            });
        }
        let edit = TextEdit::singleline(&mut view.data_path)
            .hint_text("or type a path")
            .desired_width(260.0);
        let typed = ui.add(edit).accessible_name("Path of a data set");
        let entered = typed.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        let used = ui
            .add_enabled(!view.data_path.trim().is_empty(), Button::new("Use"))
            .clicked();
        if entered || used {
            use_typed(view);
        }
    });
    if let Some(fault) = view.data_fault {
        widgets::verdict_line(ui, Tone::Stop, fault);
    }
    ui.label(weak(
        ui,
        "Or drop a file anywhere on this page: JSON lines, JSON, CSV, Parquet, plain text or Markdown",
    ));
}

/// Takes the path that was typed. A path from somewhere else than the root would mean another file in another process.
fn use_typed(view: &mut TuneView) {
    let text = view.data_path.trim().trim_matches('"');
    if text.is_empty() {
        return;
    }
    let path = PathBuf::from(text);
    if path.is_absolute() {
        view.use_data(path);
    } else {
        view.data_fault = Some("the whole path is needed, from the root or the drive on");
    }
}

fn text_to_sql_ui(seen: &TextToSqlSeen, ui: &mut Ui) {
    ui.label(format!(
        "text-to-SQL, which comes with the program: {} with their SQL to learn from, and {} about databases that the model has never seen, asked before and after",
        plural(seen.train as u64, "question"),
        count(seen.test as u64)
    ));
    match &seen.sample {
        Some(sample) => sample_ui(sample, ui),
        None => {
            widgets::caption(ui, "What the model sees of a row is shown once the model is here");
        }
    }
}

fn file_ui(preview: &Preview, view: &mut TuneView, ui: &mut Ui, out: &mut Commands) {
    let rows = count(preview.rows as u64);
    let rows = match (preview.whole, preview.is_text) {
        (true, false) => format!("{rows} rows"),
        (true, true) => "running text".to_owned(),
        (false, false) => format!("the first {rows} rows were looked at"),
        (false, true) => "the beginning of a long text was looked at".to_owned(),
    };
    ui.label(format!(
        "{} · {rows} · {}",
        preview.format.name(),
        size(preview.file_bytes)
    ));
    if let Some(trouble) = &preview.trouble {
        let problem = Problem::new(trouble.code, trouble.message.clone(), trouble.hints.clone());
        widgets::problem_panel(ui, "The model can make no rows of this", &problem, out);
    }
    if !preview.columns.is_empty() {
        let names: Vec<&str> = preview
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let guess = |role: Role| {
            let used = preview.uses.iter().find(|used| used.role == role)?;
            Some((used.column.as_str(), used.why))
        };
        columns_ui(&names, &guess, view, ui);
    }
    rows_ui(&preview.shown, ui);
    ui.add_space(theme::GRID);
    match &preview.tokens {
        Some(tokens) => {
            lengths_ui(tokens, ui);
            for warning in &tokens.warnings {
                widgets::verdict_line(ui, Tone::Warn, warning);
            }
            if let Some(sample) = tokens.samples.first() {
                sample_ui(sample, ui);
            }
        }
        None if preview.trouble.is_none() => {
            widgets::caption(
                ui,
                "How long the rows are, and what of them is trained, is known once the model is here",
            );
        }
        None => {}
    }
}

/// What a role is taken from, and why.
type Guess<'a> = dyn Fn(Role) -> Option<(&'a str, &'static str)> + 'a;

/// Which column is what: guessed, or chosen here.
fn columns_ui(names: &[&str], guess: &Guess<'_>, view: &mut TuneView, ui: &mut Ui) {
    let Some(data) = &mut view.form.data else {
        let used: Vec<String> = Role::ALL
            .into_iter()
            .filter_map(|role| Some(format!("{} is {}", role.name(), guess(role)?.0)))
            .collect();
        if !used.is_empty() {
            widgets::caption(ui, &format!("Columns: {}", used.join(", ")));
        }
        return;
    };
    let abreast = ((ui.available_width() / COLUMN_WIDTH) as usize).clamp(1, 4);
    egui::Grid::new("columns")
        .num_columns(2 * abreast)
        .spacing([2.0 * theme::GRID, 2.0 * theme::GRID])
        .show(ui, |ui| {
            for roles in Role::ALL.chunks(abreast) {
                for role in roles {
                    column_ui(*role, names, guess(*role), data, ui);
                }
                ui.end_row();
            }
        });
    if !data.columns.is_empty() && ui.button("Guess all again").clicked() {
        data.columns = Columns::new();
    }
}

fn column_ui(
    role: Role,
    names: &[&str],
    guess: Option<(&str, &'static str)>,
    data: &mut OwnData,
    ui: &mut Ui,
) {
    let name = ui.label(weak(ui, role.name())).on_hover_text(role_help(role));
    let chosen = data.columns.get(&role).cloned();
    let (shown, why) = match (&chosen, guess) {
        (Some(column), _) => (column.clone(), "you chose it"),
        (None, Some((column, why))) => (format!("{column} (guessed)"), why),
        (None, None) => ("none".to_owned(), "no column was taken for this"),
    };
    let combo = ComboBox::from_id_salt(("column", role.name()))
        .selected_text(shorten(&shown, 22))
        .width(152.0)
        .truncate()
        .show_ui(ui, |ui| {
            if ui.selectable_label(chosen.is_none(), "guess").clicked() {
                data.columns.remove(&role);
            }
            for column in names {
                let is = chosen.as_deref() == Some(column);
                if ui.selectable_label(is, *column).clicked() {
                    data.columns.insert(role, (*column).to_owned());
                }
            }
        });
    combo.response.labelled_by(name.id).on_hover_text(why);
}

fn role_help(role: Role) -> &'static str {
    match role {
        Role::Messages => "A whole conversation: a list of messages, each with who speaks and what is said",
        Role::Prompt => "What the user asks",
        Role::Input => "More of what the user says, put below the prompt",
        Role::Completion => "The answer, which is what the model is trained to write",
        Role::System => "The system message, which says how to answer",
        Role::Text => "Running text, trained in full",
        Role::Id => "The row's name, for messages about it",
    }
}

/// The first rows, a message to a column.
fn rows_ui(rows: &[PreviewRow], ui: &mut Ui) {
    let Some(first) = rows.first() else { return };
    let columns = first.messages.len().clamp(1, MOST_COLUMNS);
    ui.add_space(theme::GRID);
    ui.push_id("first_rows", |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        widgets::table(ui, "rows")
            .vscroll(false)
            .column(Column::exact(96.0))
            .columns(Column::remainder().at_least(120.0).clip(true), columns)
            .header(theme::ROW, |mut header| {
                header.col(|ui| _ = ui.label(weak(ui, "row")));
                for index in 0..columns {
                    let role = first
                        .messages
                        .get(index)
                        .map_or("", |message| message.role.as_str());
                    header.col(|ui| {
                        ui.label(weak(ui, if role.is_empty() { "text" } else { role }));
                    });
                }
            })
            .body(|mut body| {
                for row in rows {
                    body.row(theme::ROW, |mut table| {
                        table.col(|ui| _ = ui.add(Label::new(&row.id).truncate()));
                        for index in 0..columns {
                            table.col(|ui| cell_ui(row, index, columns, ui));
                        }
                    });
                }
            });
    });
}

fn cell_ui(row: &PreviewRow, index: usize, columns: usize, ui: &mut Ui) {
    let Some(message) = row.messages.get(index) else {
        return;
    };
    let line = message.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let more = row.messages.len().saturating_sub(columns);
    let line = if more > 0 && index + 1 == columns {
        format!("{line} (and {more} more)")
    } else {
        line
    };
    let end = if message.cut { "…" } else { "" };
    ui.add(Label::new(line).truncate().show_tooltip_when_elided(false))
        .on_hover_text(format!("{}{end}", message.text));
}

fn lengths_ui(tokens: &TokenPreview, ui: &mut Ui) {
    let report = &tokens.report;
    let shortest = tokens.lengths.iter().min().copied().unwrap_or_default();
    let longest = tokens.lengths.iter().max().copied().unwrap_or_default();
    let mean = tokens.lengths.iter().sum::<usize>() as f64 / tokens.lengths.len().max(1) as f64;
    ui.label(format!(
        "Rows are {} to {} tokens long, {} on average; {} of their tokens are trained",
        count(shortest as u64),
        count(longest as u64),
        number(mean),
        percent(report.supervised_share)
    ));
    histogram_ui(&tokens.lengths, tokens.limit, ui);
    if tokens.too_long > 0 {
        let sentence = format!(
            "{} of {} rows are longer than {} tokens: what happens to them is a setting below",
            count(tokens.too_long as u64),
            count(tokens.lengths.len() as u64),
            count(tokens.limit as u64)
        );
        widgets::verdict_line(ui, Tone::Warn, &sentence);
    }
}

/// How many rows have which length, with the limit as a line.
fn histogram_ui(lengths: &[usize], limit: usize, ui: &mut Ui) {
    const BARS: usize = 40;
    let longest = lengths.iter().max().copied().unwrap_or_default();
    if longest == 0 {
        return;
    }
    // The limit is shown where it is near; far away it would press all rows into one bar.
    let end = if limit < 4 * longest {
        limit.max(longest)
    } else {
        longest
    };
    let mut bars = [0usize; BARS];
    for length in lengths {
        bars[(length * BARS / (end + 1)).min(BARS - 1)] += 1;
    }
    let tokens = tokens(ui);
    let width = ui.available_width().min(480.0);
    let (rect, response) = ui.allocate_exact_size(egui::vec2(width, 48.0), egui::Sense::hover());
    let tallest = bars.iter().max().copied().unwrap_or(1).max(1);
    let bar = rect.width() / BARS as f32;
    for (index, rows) in bars.iter().enumerate().filter(|(_, rows)| **rows > 0) {
        let height = (*rows as f32 / tallest as f32 * rect.height()).max(1.0);
        let left = rect.left() + index as f32 * bar;
        let piece = egui::Rect::from_min_max(
            egui::pos2(left + 0.5, rect.bottom() - height),
            egui::pos2(left + bar - 0.5, rect.bottom()),
        );
        ui.painter().rect_filled(piece, 1, tokens.series(1));
    }
    ui.painter()
        .hline(rect.x_range(), rect.bottom(), Stroke::new(1.0, tokens.line));
    if limit <= end {
        let x = rect.left() + limit as f32 / end as f32 * rect.width();
        ui.painter()
            .vline(x, rect.y_range(), Stroke::new(2.0, tokens.strong_text));
    }
    let words = format!("Lengths of {} rows, 0 to {} tokens", lengths.len(), end);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, &words));
    let hover = response.hover_pos().map(|pointer| {
        let index = ((pointer.x - rect.left()) / bar).max(0.0) as usize;
        let (from, to) = (index * (end + 1) / BARS, (index + 1) * (end + 1) / BARS);
        let rows = bars.get(index).copied().unwrap_or_default();
        format!("{} of {from} to {to} tokens", plural(rows as u64, "row"))
    });
    if let Some(text) = hover {
        response.on_hover_text_at_pointer(text);
    }
    ui.horizontal(|ui| {
        let limit = if limit <= end {
            format!("; the line is the longest row, {} tokens", count(limit as u64))
        } else {
            String::new()
        };
        ui.label(weak(ui, &format!("0 to {} tokens{limit}", count(end as u64))));
    });
}

/// A row as the model reads it; what it is trained to write is tinted and underlined.
fn sample_ui(sample: &Sample, ui: &mut Ui) {
    let tokens = tokens(ui);
    ui.add_space(theme::GRID);
    ui.horizontal_wrapped(|ui| {
        ui.label(weak(ui, "A row as the model reads it:"));
        let mut legend = LayoutJob::default();
        legend.append("tinted and underlined", 0.0, trained(tokens));
        ui.label(legend);
        ui.label(weak(ui, "is what it is trained to write, the rest it only reads"));
    });
    let job = sample_job(sample, tokens);
    Frame::new()
        .fill(tokens.code)
        .stroke(Stroke::new(1.0, tokens.line))
        .corner_radius(theme::SMALL_CORNER)
        .inner_margin(Margin::same(8))
        .show(ui, |ui| {
            ScrollArea::vertical()
                .id_salt("sample")
                .max_height(200.0)
                .show(ui, |ui| {
                    ui.set_width(ui.available_width());
                    ui.add(Label::new(job).wrap());
                });
        });
}

/// How text looks that the model is trained to write.
fn trained(tokens: &Tokens) -> TextFormat {
    TextFormat {
        background: tokens.selection,
        underline: Stroke::new(1.5, tokens.accent),
        ..TextFormat::simple(FontId::monospace(theme::SMALL), tokens.strong_text)
    }
}

fn sample_job(sample: &Sample, tokens: &Tokens) -> LayoutJob {
    let read = TextFormat::simple(FontId::monospace(theme::SMALL), tokens.text);
    let mut job = LayoutJob::default();
    let mut left = SAMPLE_LETTERS;
    for part in &sample.parts {
        let text = shorten(&part.text, left);
        left = left.saturating_sub(text.chars().count());
        let format = if part.supervised {
            trained(tokens)
        } else {
            read.clone()
        };
        job.append(&text, 0.0, format);
        if left == 0 {
            break;
        }
    }
    job
}

#[cfg(test)]
mod tests {
    use egui_kittest::{Harness, kittest::Queryable};
    use tunesmith_data::SamplePart;

    use super::*;

    #[test]
    fn what_is_trained_is_told_apart_by_more_than_its_colour() {
        let part = |supervised, text: &str| SamplePart {
            supervised,
            text: text.to_owned(),
        };
        let sample = Sample {
            id: "line-1".to_owned(),
            parts: vec![part(false, "How many?"), part(true, "SELECT 1")],
        };
        let job = sample_job(&sample, theme::of(true));
        let marked: Vec<(&str, bool, bool)> = job
            .sections
            .iter()
            .map(|section| {
                let underlined = section.format.underline.width > 0.0;
                let text = &job.text[section.byte_range.start.0..section.byte_range.end.0];
                (
                    text,
                    underlined,
                    section.format.background != egui::Color32::TRANSPARENT,
                )
            })
            .collect();
        assert_eq!(marked, [("How many?", false, false), ("SELECT 1", true, true)]);
        let harness = Harness::builder()
            .with_context_setup(theme::install)
            .build_ui(|ui| sample_ui(&sample, ui));
        harness.get_by_label("tinted and underlined");
        harness.get_by_label_contains("SELECT 1");
    }
}
