//! Which lines of the list of runs are shown, and in what order.

use std::{cmp::Ordering, sync::Arc};

use super::{LineState, RunLine};

/// What a line must have to be shown. The default shows all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineFilter {
    /// Words that must all be in the run's id, recipe, title, model, data, device or status, whatever their case.
    pub text: String,
    /// States of which it must have one; empty for any.
    pub states: Vec<LineState>,
    /// The experiment that it must be a repeat of.
    pub config_hash: Option<String>,
}

impl LineFilter {
    /// Whether this shows every line.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty() && self.config_hash.is_none() && self.text.trim().is_empty()
    }
}

/// What the list can be ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Column {
    /// When it began.
    #[default]
    Started,
    /// Its id.
    Id,
    /// Name of the recipe.
    Recipe,
    /// Name of the model.
    Model,
    /// Name of the data.
    Data,
    /// The device.
    Device,
    /// How it ended, by name.
    State,
    /// Steps that count.
    Steps,
    /// First loss.
    LossFirst,
    /// Last loss.
    LossLast,
    /// Steady tokens a second.
    TokensPerSec,
    /// Most memory held.
    PeakBytes,
    /// MFU, LoRA-exact against the measured peak.
    Mfu,
    /// Execution match before.
    Before,
    /// Execution match after.
    After,
    /// The judge's worst finding.
    Judge,
    /// How long it took.
    TotalSecs,
}

/// By which column, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The column.
    pub column: Column,
    /// Whether the greatest comes first.
    pub descending: bool,
}

impl Default for Order {
    /// The newest first.
    fn default() -> Self {
        Self {
            column: Column::Started,
            descending: true,
        }
    }
}

/// Places in `lines` of those that `filter` shows, in `order`. Equal ones stay as they are in `lines`; those that
/// have no value in the column come last, whichever way it is ordered.
pub fn arrange(lines: &[Arc<RunLine>], filter: &LineFilter, order: Order) -> Vec<usize> {
    let words: Vec<String> = filter.text.split_whitespace().map(str::to_lowercase).collect();
    let mut shown: Vec<usize> = (0..lines.len())
        .filter(|place| shows(filter, &words, &lines[*place]))
        .collect();
    shown.sort_by(|one, other| compare(&lines[*one], &lines[*other], order));
    shown
}

fn shows(filter: &LineFilter, words: &[String], line: &RunLine) -> bool {
    let state = filter.states.is_empty() || filter.states.contains(&line.state);
    let same = filter.config_hash.is_none() || filter.config_hash == line.config_hash;
    state && same && (words.is_empty() || has_words(line, words))
}

fn has_words(line: &RunLine, words: &[String]) -> bool {
    let texts = [
        Some(line.id.as_str()),
        Some(&line.recipe),
        Some(&line.title),
        line.model.as_deref(),
        line.data.as_deref(),
        line.device.as_deref(),
        Some(line.state.name()),
    ];
    let texts: Vec<String> = texts.into_iter().flatten().map(str::to_lowercase).collect();
    words
        .iter()
        .all(|word| texts.iter().any(|text| text.contains(word.as_str())))
}

fn compare(one: &RunLine, other: &RunLine, order: Order) -> Ordering {
    let way = |ordering: Ordering| {
        if order.descending {
            ordering.reverse()
        } else {
            ordering
        }
    };
    match (value(one, order.column), value(other, order.column)) {
        (Some(one), Some(other)) => way(one.cmp_value(&other)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// What a line has in a column.
enum Value<'a> {
    Text(&'a str),
    Number(f64),
}

impl Value<'_> {
    fn cmp_value(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            // A column holds values of one kind.
            _ => Ordering::Equal,
        }
    }
}

fn value(line: &RunLine, column: Column) -> Option<Value<'_>> {
    let figures = line.figures.as_ref();
    let number = |number: Option<f64>| number.map(Value::Number);
    match column {
        Column::Started => line.started.as_deref().map(Value::Text),
        Column::Id => Some(Value::Text(&line.id)),
        Column::Recipe => Some(Value::Text(&line.recipe)).filter(|_| !line.recipe.is_empty()),
        Column::Model => line.model.as_deref().map(Value::Text),
        Column::Data => line.data.as_deref().map(Value::Text),
        Column::Device => line.device.as_deref().map(Value::Text),
        Column::State => Some(Value::Text(line.state.name())),
        Column::Steps => number(figures.map(|figures| figures.valid_steps as f64)),
        Column::LossFirst => number(figures.and_then(|figures| Some(figures.loss?.first))),
        Column::LossLast => number(figures.and_then(|figures| Some(figures.loss?.last))),
        Column::TokensPerSec => number(figures.and_then(|figures| figures.steady_tokens_per_sec)),
        Column::PeakBytes => number(figures.and_then(|figures| Some(figures.peak_bytes? as f64))),
        Column::Mfu => number(figures.and_then(|figures| Some(figures.mfu_exact_practical?.0))),
        Column::Before => number(line.before_points),
        Column::After => number(line.after_points),
        Column::Judge => number(line.judge.map(|severity| f64::from(severity as u8))),
        Column::TotalSecs => number(line.total_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        run::{RunState, lines},
        testing::TestRun,
    };
    use tunesmith_protocol::RunStatus;

    const OK: LineState = LineState::Run(RunState::Ended(RunStatus::Ok));
    const OOM: LineState = LineState::Run(RunState::Ended(RunStatus::Oom));

    /// In order of time: 300 tokens a second, out of memory before a step, 100, 200, broken.
    fn some() -> Vec<Arc<RunLine>> {
        let home = tempfile::tempdir().unwrap();
        let day = |day: u32| TestRun::new(&format!("2026-01-{day:02}T00:00:00Z"));
        day(1).tokens_per_sec(300.0).write(home.path());
        day(2).status(RunStatus::Oom).steps(0).write(home.path());
        day(3).tokens_per_sec(100.0).recipe("smoke").write(home.path());
        day(4)
            .tokens_per_sec(200.0)
            .config_hash("ffff")
            .write(home.path());
        std::fs::create_dir(home.path().join("20260105-000000-broken")).unwrap();
        lines(home.path(), &[]).unwrap()
    }

    fn all(column: Column, descending: bool) -> Vec<usize> {
        arrange(&some(), &LineFilter::default(), Order { column, descending })
    }

    fn found(filter: &LineFilter) -> Vec<usize> {
        let order = Order {
            column: Column::Started,
            descending: false,
        };
        arrange(&some(), filter, order)
    }

    #[test]
    fn the_newest_comes_first_unless_asked_otherwise() {
        let shown = arrange(&some(), &LineFilter::default(), Order::default());
        assert_eq!(shown, [4, 3, 2, 1, 0]);
        assert_eq!(all(Column::Started, false), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn lines_without_a_value_come_last_both_ways_and_equal_ones_stay_in_order() {
        assert_eq!(all(Column::TokensPerSec, false), [2, 3, 0, 1, 4]);
        assert_eq!(all(Column::TokensPerSec, true), [0, 3, 2, 1, 4]);
        assert_eq!(all(Column::State, false), [4, 0, 2, 3, 1]);
        assert_eq!(all(Column::State, true), [1, 0, 2, 3, 4]);
    }

    #[test]
    fn every_column_orders_the_lines_that_have_it() {
        for column in [
            Column::Id,
            Column::Recipe,
            Column::Model,
            Column::Data,
            Column::Device,
            Column::Steps,
            Column::LossFirst,
            Column::LossLast,
            Column::PeakBytes,
            Column::Mfu,
            Column::Before,
            Column::After,
            Column::Judge,
            Column::TotalSecs,
        ] {
            let mut shown = all(column, true);
            if column != Column::Id {
                assert_eq!(shown[4], 4, "{column:?}");
            }
            shown.sort_unstable();
            assert_eq!(shown, [0, 1, 2, 3, 4], "{column:?}");
        }
        assert_eq!(all(Column::Recipe, false), [0, 1, 3, 2, 4]);
    }

    #[test]
    fn all_words_must_be_found_whatever_their_case() {
        let text = |text: &str| {
            found(&LineFilter {
                text: text.to_owned(),
                ..LineFilter::default()
            })
        };
        assert_eq!(text("  "), [0, 1, 2, 3, 4]);
        assert_eq!(text("SMOKE"), [2]);
        assert_eq!(text("smollm2 oom"), [1]);
        assert_eq!(text("20260104"), [3]);
        assert_eq!(text("broken"), [4]);
        assert_eq!(text("smoke oom"), [0_usize; 0]);
    }

    #[test]
    fn states_and_experiments_choose_lines() {
        let states = |states: &[LineState]| {
            found(&LineFilter {
                states: states.to_vec(),
                ..LineFilter::default()
            })
        };
        assert_eq!(states(&[OK]), [0, 2, 3]);
        assert_eq!(states(&[OOM, LineState::Broken]), [1, 4]);
        let repeats = LineFilter {
            config_hash: Some("ffff".to_owned()),
            ..LineFilter::default()
        };
        assert_eq!(found(&repeats), [3]);
        assert!(!repeats.is_empty() && LineFilter::default().is_empty());
    }
}
