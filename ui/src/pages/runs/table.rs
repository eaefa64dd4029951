//! The list of runs: what it is filtered by, and a row for each. Only the rows in sight are drawn.

use egui::{
    Align, Button, Checkbox, Label, Layout, RichText, Role, ScrollArea, Sense, TextEdit, Ui, WidgetInfo, vec2,
};
use egui_extras::{Column as Width, TableRow};
use tunesmith_lab::run::{Column, LineState, RunLine};
use tunesmith_report::format::{count, number, percent, plural, points, significant};

use super::{RunsView, list::RunList, words};
use crate::{
    commands::Commands,
    theme::{self, Tone, tokens},
    widgets,
};

/// Narrower than this the table scrolls sideways.
const NARROWEST: f32 = 900.0;
/// Most rows that are in sight at once.
const MOST_ROWS: f32 = 12.0;

/// The columns: by what they order, heading, hover, width (what remains where zero), and whether they hold numbers.
const COLUMNS: [(Column, &str, &str, f32, bool); 10] = [
    (
        Column::Started,
        "Began",
        "When it began, by this machine's clock",
        124.0,
        false,
    ),
    (Column::Recipe, "Recipe", "Name of the recipe", 0.0, false),
    (Column::Model, "Model", "Name of the model", 0.0, false),
    (
        Column::State,
        "Ended as",
        "How it ended; why on hover",
        112.0,
        false,
    ),
    (Column::Steps, "Steps", "Steps that count", 52.0, true),
    (
        Column::LossLast,
        "Loss",
        "First and last loss, in nats per supervised token",
        96.0,
        true,
    ),
    (
        Column::TokensPerSec,
        "Tokens/s",
        "Real tokens a second over the steady window",
        66.0,
        true,
    ),
    (
        Column::PeakBytes,
        "Peak GiB",
        "Most memory that the device's allocator held",
        66.0,
        true,
    ),
    (
        Column::Mfu,
        "MFU",
        "Share of the measured peak that LoRA's own work reached",
        62.0,
        true,
    ),
    (
        Column::After,
        "Score",
        "Execution match before and after, in points",
        96.0,
        true,
    ),
];

/// Draws filter and table.
pub(super) fn table_ui(
    list: &RunList,
    open: Option<&str>,
    view: &mut RunsView,
    ui: &mut Ui,
    out: &mut Commands,
) {
    widgets::panel(ui, "", |ui| {
        filter_ui(list, view, ui, out);
        ui.add_space(theme::GRID);
        if list.shown().len() == 0 {
            nothing_ui(view, ui, out);
            return;
        }
        let width = ui.available_width();
        if width >= NARROWEST {
            rows_ui(list, open, view, ui, out);
        } else {
            ScrollArea::horizontal().id_salt("runs sideways").show(ui, |ui| {
                ui.set_width(NARROWEST);
                rows_ui(list, open, view, ui, out);
            });
        }
        let (shown, all) = (list.shown().len(), list.lines().len());
        if shown < all {
            widgets::caption(
                ui,
                &format!("{} of {}", count(shown as u64), plural(all as u64, "run")),
            );
        }
    });
}

fn filter_ui(list: &RunList, view: &mut RunsView, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().interact_size.y = 8.0 * theme::GRID;
        let label = ui.label("Filter");
        let field = TextEdit::singleline(&mut view.filter)
            .hint_text("recipe, model, data or status")
            .desired_width(240.0);
        if ui.add(field).labelled_by(label.id).changed() {
            let text = view.filter.clone();
            out.change("filter runs", move |state| {
                state.pages.runs.change_list(|list| list.filter_text(text));
            });
        }
        for (state, number) in list.states() {
            let chosen = list.filter().states.contains(state);
            let text = format!("{} {}", state.name(), count(*number as u64));
            let chip =
                Button::selectable(chosen, RichText::new(text).size(theme::SMALL)).frame_when_inactive(true);
            let response = ui.add(chip);
            let name = format!("Show only runs that are {}", state.name());
            response.widget_info(|| WidgetInfo::selected(Role::Button, true, chosen, &name));
            if response.on_hover_text(name).clicked() {
                filter_state(*state, out);
            }
        }
        if list.filter().config_hash.is_some() && ui.button("Repeats of one experiment ×").clicked() {
            out.change("show all experiments", |state| {
                state.pages.runs.change_list(|list| list.filter_repeats(None));
            });
        }
    });
}

fn filter_state(chosen: LineState, out: &mut Commands) {
    out.change("filter runs", move |state| {
        state.pages.runs.change_list(|list| list.filter_state(chosen));
    });
}

fn nothing_ui(view: &mut RunsView, ui: &mut Ui, out: &mut Commands) {
    widgets::caption(ui, "No run is like that");
    if ui.button("Show all runs").clicked() {
        view.filter.clear();
        out.change("show all runs", |state| {
            state.pages.runs.change_list(RunList::filter_nothing);
        });
    }
}

fn rows_ui(list: &RunList, open: Option<&str>, view: &mut RunsView, ui: &mut Ui, out: &mut Commands) {
    let rows = list.shown().len();
    ui.spacing_mut().item_spacing.y = 0.0;
    let height = (rows as f32).min(MOST_ROWS) * theme::ROW;
    let mut table = widgets::table(ui, "runs")
        .auto_shrink([false, true])
        .min_scrolled_height(height)
        .max_scroll_height(height)
        .sense(Sense::click())
        .column(Width::exact(24.0));
    for (.., width, _) in COLUMNS {
        table = table.column(if width > 0.0 {
            Width::exact(width).clip(true)
        } else {
            Width::remainder().at_least(80.0).clip(true)
        });
    }
    if let Some(row) = view.scroll_to.take().and_then(|id| list.row_of(&id)) {
        table = table.scroll_to_row(row, None);
    }
    table
        .header(theme::ROW, |header| header_ui(list, header, out))
        .body(|body| {
            body.rows(theme::ROW, rows, |mut row| {
                if let Some(line) = list.row(row.index()) {
                    row.set_selected(open == Some(line.id.as_str()));
                    row_ui(list, line, &mut row, out);
                    if row.response().clicked() {
                        super::look(line.id.clone(), out);
                    }
                }
            });
        });
}

fn header_ui(list: &RunList, mut header: TableRow<'_, '_>, out: &mut Commands) {
    header.col(|ui| {
        let mut all = list.shown().all(|line| list.is_chosen(&line.id));
        let response = ui.add(Checkbox::without_text(&mut all));
        response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, all, "Choose all runs shown"));
        if response.on_hover_text("Choose all runs shown").changed() {
            out.change("choose the runs shown", |state| {
                state.pages.runs.change_choice(RunList::choose_shown);
            });
        }
    });
    for (column, heading, hover, _, numeric) in COLUMNS {
        header.col(|ui| {
            cell(ui, numeric, |ui| {
                heading_ui(list, column, heading, hover, ui, out);
            });
        });
    }
}

fn heading_ui(list: &RunList, column: Column, heading: &str, hover: &str, ui: &mut Ui, out: &mut Commands) {
    let tokens = tokens(ui);
    let order = list.order();
    let sorted = order.column == column;
    let arrow = match (sorted, order.descending) {
        (false, _) => "",
        (true, true) => " ↓",
        (true, false) => " ↑",
    };
    let colour = if sorted {
        tokens.strong_text
    } else {
        tokens.weak_text
    };
    let text = RichText::new(format!("{heading}{arrow}"))
        .size(theme::SMALL)
        .color(colour);
    let response = ui.add(Button::new(text).frame(false).truncate());
    let name = format!("Order by {heading}");
    response.widget_info(|| WidgetInfo::selected(Role::Button, true, sorted, &name));
    if response
        .on_hover_text(format!("{hover}. A click orders by it"))
        .clicked()
    {
        out.change("order runs", move |state| {
            state.pages.runs.change_list(|list| list.order_by(column));
        });
    }
}

fn row_ui(list: &RunList, line: &RunLine, row: &mut TableRow<'_, '_>, out: &mut Commands) {
    let name = words::name(line, list.zone());
    row.col(|ui| choose_ui(list, line, &name, ui, out));
    row.col(|ui| text_ui(ui, &words::when(line, list.zone()), &line.id));
    row.col(|ui| {
        let recipe = if line.recipe.is_empty() {
            &line.id
        } else {
            &line.recipe
        };
        let colour = tokens(ui).strong_text;
        let text = RichText::new(recipe).size(theme::SMALL).color(colour);
        let response = ui.add(Button::new(text).frame(false).truncate());
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Look at {name}")));
        let hover = if line.title.is_empty() {
            recipe
        } else {
            &line.title
        };
        if response.on_hover_text(hover).clicked() {
            super::look(line.id.clone(), out);
        }
    });
    let model = line.model.as_deref().unwrap_or("–");
    row.col(|ui| text_ui(ui, model, line.model_source.as_deref().unwrap_or(model)));
    row.col(|ui| {
        let tone = words::tone(line);
        let mut hover = words::reason(line);
        if tone == Tone::Warn && line.reason.is_none() {
            hover.push_str("; they are in its details");
        }
        widgets::badge(ui, tone, line.state.name()).on_hover_text(hover);
    });
    let figures = line.figures.as_ref();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let between = |first: Option<String>, last: Option<String>| match (first, last) {
        (None, None) => "–".to_owned(),
        (first, last) => format!("{} → {}", or_dash(first), or_dash(last)),
    };
    let loss = figures.and_then(|figures| figures.loss);
    let numbers = [
        or_dash(figures.map(|figures| count(figures.valid_steps as u64))),
        between(
            loss.map(|loss| significant(loss.first, 3)),
            loss.map(|loss| significant(loss.last, 3)),
        ),
        or_dash(figures.and_then(|figures| figures.steady_tokens_per_sec.map(number))),
        or_dash(
            figures
                .and_then(|figures| figures.peak_bytes)
                .map(|bytes| number(words::gib(bytes))),
        ),
        or_dash(
            figures
                .and_then(|figures| figures.mfu_exact_practical)
                .map(|mfu| percent(mfu.0)),
        ),
        between(line.before_points.map(points), line.after_points.map(points)),
    ];
    for text in numbers {
        row.col(|ui| cell(ui, true, |ui| text_ui(ui, &text, &text)));
    }
}

fn choose_ui(list: &RunList, line: &RunLine, name: &str, ui: &mut Ui, out: &mut Commands) {
    let mut chosen = list.is_chosen(&line.id);
    let response = ui.add(Checkbox::without_text(&mut chosen));
    response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, chosen, format!("Choose {name}")));
    if response.changed() {
        let id = line.id.clone();
        out.change("choose a run", move |state| {
            state.pages.runs.change_choice(|list| list.choose(&id, chosen));
        });
    }
}

/// Numbers stand to the right.
fn cell(ui: &mut Ui, numeric: bool, add: impl FnOnce(&mut Ui)) {
    if numeric {
        let size = vec2(ui.available_width(), ui.available_height());
        ui.allocate_ui_with_layout(size, Layout::right_to_left(Align::Center), add);
    } else {
        add(ui);
    }
}

fn text_ui(ui: &mut Ui, text: &str, hover: &str) {
    let label = Label::new(RichText::new(text).size(theme::SMALL))
        .truncate()
        .selectable(false);
    let response = ui.add(label);
    if hover != text {
        response.on_hover_text(hover);
    }
}
