//! The log of a training: follows its end, lets go when somebody scrolls up, and follows again at the bottom. Of twenty
//! thousand lines only those that are seen are laid out, and only new ones are looked at.

use egui::{Button, Label, RichText, ScrollArea, TextEdit, Ui};
use tunesmith_protocol::{Level, TaskId};
use tunesmith_report::format::{count, plural};

use crate::{
    commands::Commands,
    state::{LogLine, State, Task},
    theme::{self, Tone, tokens},
    widgets,
};

/// Height of the lines.
const HEIGHT: f32 = 260.0;

/// Levels that can be chosen: as it is saved, and as it is shown.
const LEVELS: [(&str, &str); 3] = [
    ("debug", "All"),
    ("info", "Info and warnings"),
    ("warn", "Warnings"),
];

/// How the log is looked at.
#[derive(Default)]
pub(super) struct LogView {
    search: String,
    passing: Passing,
    /// The end is to be shown, whatever was scrolled to.
    to_the_end: bool,
}

/// The lines that pass the filter, by their number since the log began. It grows with the log, and is made anew only
/// for another filter.
#[derive(Default)]
struct Passing {
    filter: Option<(TaskId, String, String)>,
    numbers: std::collections::VecDeque<usize>,
    /// Lines that were looked at, those included that the log has dropped.
    looked_at: usize,
}

impl Passing {
    fn follow(&mut self, task: &Task, level: &str, search: &str) {
        let filter = (task.id, level.to_owned(), search.to_lowercase());
        if self.filter.as_ref() != Some(&filter) {
            *self = Self {
                filter: Some(filter),
                ..Self::default()
            };
        }
        let search = search.to_lowercase();
        let first = self.looked_at.max(task.log_dropped);
        for (index, line) in task.log.iter().enumerate().skip(first - task.log_dropped) {
            if passes(line, level, &search) {
                self.numbers.push_back(index + task.log_dropped);
            }
        }
        self.looked_at = task.log_dropped + task.log.len();
        while self
            .numbers
            .front()
            .is_some_and(|number| *number < task.log_dropped)
        {
            self.numbers.pop_front();
        }
    }

    fn lines<'a>(&'a self, task: &'a Task) -> impl Iterator<Item = &'a LogLine> {
        self.numbers
            .iter()
            .filter_map(|number| task.log.get(number - task.log_dropped))
    }
}

fn passes(line: &LogLine, level: &str, search: &str) -> bool {
    let enough = match level {
        "warn" => line.level == Level::Warn,
        "debug" => true,
        _ => line.level != Level::Debug,
    };
    enough && (search.is_empty() || line.text.to_lowercase().contains(search))
}

/// The log.
pub(super) fn log_ui(state: &State, task: &Task, view: &mut LogView, ui: &mut Ui, out: &mut Commands) {
    let level = state.saved.log_level.as_str();
    view.passing.follow(task, level, &view.search);
    widgets::panel(ui, "Log", |ui| {
        filter_ui(task, level, view, ui, out);
        lines_ui(task, view, ui);
    });
}

fn filter_ui(task: &Task, level: &str, view: &mut LogView, ui: &mut Ui, out: &mut Commands) {
    ui.horizontal_wrapped(|ui| {
        ui.set_row_height(theme::ROW + theme::GRID);
        let mut chosen = level.to_owned();
        let choices: Vec<(String, &str)> = LEVELS.map(|(name, title)| (name.to_owned(), title)).to_vec();
        if widgets::segmented(ui, &mut chosen, &choices) {
            out.change("show other lines of the log", move |state| {
                state.saved.log_level = chosen;
            });
        }
        let label = ui.label("Search");
        ui.add(TextEdit::singleline(&mut view.search).desired_width(180.0))
            .labelled_by(label.id);
        let found = view.passing.numbers.len();
        let copy = ui
            .add_enabled(found > 0, Button::new("Copy these lines"))
            .on_hover_text("Copies all lines that pass the filter");
        if copy.clicked() {
            let lines: Vec<&str> = view.passing.lines(task).map(|line| line.text.as_str()).collect();
            out.copy(lines.join("\n"), plural(found as u64, "line"));
        }
    });
    let mut words = if view.passing.numbers.len() == task.log.len() {
        plural(task.log.len() as u64, "line")
    } else {
        format!(
            "{} of {}",
            count(view.passing.numbers.len() as u64),
            plural(task.log.len() as u64, "line")
        )
    };
    if task.log_dropped > 0 {
        words.push_str(&format!(
            "; {} earlier ones are in engine.log of the run's folder",
            count(task.log_dropped as u64)
        ));
    }
    widgets::caption(ui, &words);
}

fn lines_ui(task: &Task, view: &mut LogView, ui: &mut Ui) {
    let rows = view.passing.numbers.len();
    let height = theme::ROW - 2.0 * theme::GRID;
    let spacing = ui.spacing().item_spacing.y;
    let mut area = ScrollArea::vertical()
        .id_salt("log")
        .max_height(HEIGHT)
        .auto_shrink([false, true])
        .animated(false)
        .stick_to_bottom(true);
    if std::mem::take(&mut view.to_the_end) {
        area = area.vertical_scroll_offset(rows as f32 * (height + spacing));
    }
    let passing = &view.passing;
    let shown = area.show_rows(ui, height, rows, |ui, range| {
        for index in range {
            let number = passing.numbers.get(index);
            if let Some(line) = number.and_then(|number| task.log.get(number - task.log_dropped)) {
                line_ui(line, height, ui);
            }
        }
    });
    let below = shown.content_size.y - shown.state.clamped_offset().y - shown.inner_rect.height();
    if below > height {
        ui.horizontal_wrapped(|ui| {
            widgets::caption(ui, "New lines are not followed while you look at earlier ones");
            if widgets::small_button(ui, "Go to the end").clicked() {
                view.to_the_end = true;
            }
        });
    }
}

fn line_ui(line: &LogLine, height: f32, ui: &mut Ui) {
    let tokens = tokens(ui);
    let colour = match line.level {
        Level::Debug => tokens.weak_text,
        Level::Info => tokens.text,
        Level::Warn => tokens.tone(Tone::Warn).text,
    };
    // The word stands beside the colour.
    let text = match line.level {
        Level::Warn => format!("warn  {}", line.text),
        _ => line.text.clone(),
    };
    ui.allocate_ui(egui::vec2(ui.available_width(), height), |ui| {
        ui.set_min_height(height);
        ui.add(Label::new(RichText::new(text).monospace().color(colour)).truncate());
    });
}

#[cfg(test)]
mod tests {
    use tunesmith_protocol::{Notice, TaskWork};

    use super::*;
    use crate::state::TaskState;

    fn numbers(passing: &Passing) -> Vec<usize> {
        passing.numbers.iter().copied().collect()
    }

    #[test]
    fn lines_that_pass_are_found_once_and_leave_with_the_log() {
        let mut tasks = TaskState::default();
        let task = tasks.begin(TaskWork::Resume { run: "r".to_owned() }, 0.0);
        let log = |tasks: &mut TaskState, level, text: &str| {
            let text = text.to_owned();
            tasks.apply(Notice::Log { task, level, text }, 0.0);
        };
        log(&mut tasks, Level::Info, "Loading");
        log(&mut tasks, Level::Debug, "a tensor");
        log(&mut tasks, Level::Warn, "loading took long");
        let mut passing = Passing::default();
        passing.follow(tasks.training().unwrap(), "info", "");
        assert_eq!(numbers(&passing), [0, 2]);
        passing.follow(tasks.training().unwrap(), "info", "LOADING");
        assert_eq!(numbers(&passing), [0, 2]);
        log(&mut tasks, Level::Info, "loading is done");
        passing.follow(tasks.training().unwrap(), "info", "LOADING");
        assert_eq!(numbers(&passing), [0, 2, 3]);
        passing.follow(tasks.training().unwrap(), "warn", "");
        assert_eq!(numbers(&passing), [2]);
        for _ in 0..19_999 {
            log(&mut tasks, Level::Info, "a step");
        }
        let training = tasks.training().unwrap();
        passing.follow(training, "warn", "");
        assert_eq!(training.log_dropped, 3);
        assert!(numbers(&passing).is_empty());
    }
}
