//! How runs are named and their figures worded, here and on the page of the report.

use jiff::{Timestamp, tz::TimeZone};
use tunesmith_lab::run::{Figure, LineState, RunLine, RunState};
use tunesmith_measure::{Gib, judge::Severity};
use tunesmith_protocol::RunStatus;
use tunesmith_report::format::{duration, number, percent, points, significant};

use crate::theme::Tone;

/// When a run began, to the minute: `2026-01-31 14:05`; a dash where nobody knows.
pub fn when(line: &RunLine, zone: &TimeZone) -> String {
    began(line, zone, "%Y-%m-%d %H:%M").unwrap_or_else(|| "–".to_owned())
}

/// A run in few words: its recipe and when it began.
pub fn name(line: &RunLine, zone: &TimeZone) -> String {
    let recipe = if line.recipe.is_empty() {
        &line.id
    } else {
        &line.recipe
    };
    match began(line, zone, "%m-%d %H:%M") {
        Some(began) => format!("{recipe} {began}"),
        None => recipe.clone(),
    }
}

/// Names that tell these runs apart: the recipe alone where it is enough, with the time where two share one, and the id
/// where that is the same too.
pub(super) fn names(lines: &[&RunLine], zone: &TimeZone) -> Vec<String> {
    let recipes: Vec<String> = lines.iter().map(|line| line.recipe.clone()).collect();
    let times: Vec<String> = lines.iter().map(|line| name(line, zone)).collect();
    let once = |all: &[String], one: &String| all.iter().filter(|other| *other == one).count() == 1;
    lines
        .iter()
        .zip(recipes.iter().zip(&times))
        .map(|(line, (recipe, time))| {
            if !recipe.is_empty() && once(&recipes, recipe) {
                recipe.clone()
            } else if once(&times, time) {
                time.clone()
            } else {
                line.id.clone()
            }
        })
        .collect()
}

fn began(line: &RunLine, zone: &TimeZone, form: &str) -> Option<String> {
    let time: Timestamp = line.started.as_deref()?.parse().ok()?;
    Some(time.to_zoned(zone.clone()).strftime(form).to_string())
}

/// How the state of a run is meant. A run that went well and that the judge had remarks on is not simply well.
pub fn tone(line: &RunLine) -> Tone {
    match line.state {
        LineState::Broken => Tone::Stop,
        LineState::Run(RunState::Running) => Tone::Note,
        LineState::Run(RunState::Ended(status)) => match (status, line.judge) {
            (RunStatus::Ok, Some(Severity::Amber)) | (RunStatus::Interrupted, _) => Tone::Warn,
            (RunStatus::Ok, Some(Severity::Red)) => Tone::Stop,
            (RunStatus::Ok, _) => Tone::Ok,
            (RunStatus::TimeBoxed | RunStatus::Cancelled, _) => Tone::Note,
            _ => Tone::Stop,
        },
    }
}

/// Why a run stands as it does, in a sentence.
pub fn reason(line: &RunLine) -> String {
    if let Some(reason) = &line.reason {
        return reason.clone();
    }
    match (line.state, line.judge) {
        (LineState::Run(RunState::Running), _) => "it is going on",
        (_, Some(Severity::Amber)) => "it went to its end; the judge has remarks",
        (LineState::Run(RunState::Ended(RunStatus::Ok)), _) => "it went to its end",
        _ => "no reason was recorded",
    }
    .to_owned()
}

/// A figure with its unit.
pub(super) fn figure(figure: Figure, value: f64) -> String {
    match figure {
        Figure::TokensPerSec => format!("{} tokens/s", number(value)),
        Figure::LossLast => significant(value, 3),
        Figure::PeakBytes => format!("{} GiB", number(Gib::from_bytes(value as u64).0)),
        Figure::Mfu => percent(value),
        Figure::AfterPoints => format!("{} points", points(value)),
        Figure::GainPoints => format!(
            "{}{} points",
            if value < 0.0 { "−" } else { "+" },
            points(value.abs())
        ),
        Figure::TotalSecs => duration(value),
    }
}

/// Peak memory in GiB.
pub(super) fn gib(bytes: u64) -> f64 {
    Gib::from_bytes(bytes).0
}
