//! The page's sentences: what came out, how far it is, and how a status is meant.

use jiff::{Timestamp, tz::TimeZone};
use tunesmith_lab::experiment::{ExperimentState, ExperimentStatus, SlotStatus};
use tunesmith_measure::{
    Gib,
    comparison::{ClaimVerdict, Effect, Metric},
};
use tunesmith_report::format::{capitalised, plural};

use super::over;
use crate::{
    state::{State, Task},
    theme::Tone,
};

/// The sentence that opens the page, and what follows from it.
pub(super) fn headline(
    state: &State,
    current: Option<&ExperimentState>,
    running: Option<&Task>,
) -> (String, String) {
    if let Some(task) = running {
        let title = match (&task.experiment, &task.waits_for) {
            (_, Some(_)) => "The experiment waits for the device".to_owned(),
            (Some(so_far), None) => format!(
                "Run {} of {}: {}, seed {}",
                so_far.slot + 1,
                so_far.slots,
                so_far.arm,
                so_far.seed
            ),
            (None, None) => "The experiment begins".to_owned(),
        };
        let lead = current.map_or_else(String::new, |current| current.experiment.question.clone());
        return (title, lead);
    }
    let Some(current) = current else {
        return (
            format!("Nothing has been compared on this {} yet", device_word(state)),
            "An experiment runs each way several times and in turn, so that a difference can be told from noise"
                .to_owned(),
        );
    };
    (sentence(current), about(current))
}

/// What an experiment came to.
pub(super) fn sentence(experiment: &ExperimentState) -> String {
    if let Some(ladder) = &experiment.ladder {
        return ladder.headline().unwrap_or_else(|| capitalised(&ladder.sentence));
    }
    if let Some(verdict) = experiment.comparison.verdict() {
        return capitalised(&verdict);
    }
    if let Some(drift) = experiment.drift.first() {
        return capitalised(&drift.sentence);
    }
    let counted: usize = experiment.comparison.arms.iter().map(|arm| arm.runs).sum();
    match over(experiment) {
        0 => "Nothing can be compared yet: no run is over".to_owned(),
        over if counted == 0 => format!(
            "Nothing can be compared: {} ended, none of them well",
            plural(over as u64, "run")
        ),
        over => format!(
            "Nothing can be compared yet: {over} of {} are over",
            plural(experiment.slots.len() as u64, "run")
        ),
    }
}

/// Which experiment it is, how far, and where it was run.
fn about(experiment: &ExperimentState) -> String {
    let mut parts = vec![
        name(experiment),
        format!(
            "{} of {} are over",
            over(experiment),
            plural(experiment.slots.len() as u64, "run")
        ),
    ];
    let device = match &experiment.surroundings {
        Some(surroundings) => &surroundings.device,
        None => &experiment.device,
    };
    parts.push(format!("on {device}"));
    if let Some(day) = day(&experiment.created, &TimeZone::system()) {
        parts.push(format!("begun {day}"));
    }
    parts.join(", ")
}

/// Title, or the name where it has none.
pub(super) fn name(experiment: &ExperimentState) -> String {
    match experiment.experiment.title.as_str() {
        "" => experiment.experiment.name.clone(),
        title => title.to_owned(),
    }
}

/// `2026-01-31`, of a time in records.
pub(super) fn day(time: &str, zone: &TimeZone) -> Option<String> {
    let time: Timestamp = time.parse().ok()?;
    Some(time.to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string())
}

/// `card` or `processor`.
pub(super) fn device_word(state: &State) -> &'static str {
    let offers = state.pages.compare.offers();
    let on_card = match offers {
        Some(offers) => offers.device != "cpu",
        None => state
            .machine
            .get()
            .is_some_and(|machine| machine.card().is_some()),
    };
    if on_card { "card" } else { "processor" }
}

/// How a difference is meant.
pub(super) fn tone_of_effect(effect: Effect) -> Tone {
    match effect {
        Effect::Better => Tone::Ok,
        Effect::Worse => Tone::Warn,
        Effect::WithinNoise => Tone::Note,
        Effect::Exploratory => Tone::Unknown,
    }
}

/// How a pass criterion or a prediction came out, as a tone and a word.
pub(super) fn claim_words(is_criterion: bool, verdict: ClaimVerdict, measured: bool) -> (Tone, &'static str) {
    match (verdict, is_criterion) {
        (ClaimVerdict::Undecidable, _) if !measured => (Tone::Unknown, "not measured yet"),
        (ClaimVerdict::Undecidable, _) => (Tone::Unknown, "not decided"),
        (ClaimVerdict::Hit, true) => (Tone::Ok, "passed"),
        (ClaimVerdict::Miss, true) => (Tone::Stop, "not passed"),
        (ClaimVerdict::Hit, false) => (Tone::Ok, "as expected"),
        (ClaimVerdict::Miss, false) => (Tone::Warn, "not as expected"),
    }
}

/// How a run's status is meant.
pub(super) fn tone_of_slot(status: SlotStatus) -> Tone {
    match status {
        SlotStatus::Ok => Tone::Ok,
        SlotStatus::TimeBoxed | SlotStatus::Running | SlotStatus::Skipped => Tone::Note,
        SlotStatus::Waiting => Tone::Unknown,
        SlotStatus::Oom | SlotStatus::Nan | SlotStatus::Invalid | SlotStatus::Crashed => Tone::Stop,
    }
}

/// A run's status in a word or two.
pub(super) fn slot_words(status: SlotStatus) -> String {
    match status {
        SlotStatus::Oom => "out of memory".to_owned(),
        SlotStatus::Nan => "not a number".to_owned(),
        status => status.name().replace('_', " "),
    }
}

/// How an experiment's status is meant, in a word.
pub(super) fn status_words(experiment: &ExperimentState) -> (Tone, &'static str) {
    let failed = experiment.slots.iter().any(|slot| slot.status.is_failure());
    match experiment.status {
        ExperimentStatus::Running => (Tone::Note, "running"),
        ExperimentStatus::Unfinished => (Tone::Warn, "unfinished"),
        ExperimentStatus::Finished if failed => (Tone::Warn, "finished, with failures"),
        ExperimentStatus::Finished => (Tone::Ok, "finished"),
    }
}

/// The letter of an arm in an order: A for the first.
pub(super) fn letter(arm: usize) -> char {
    u8::try_from(arm % 26).map_or('?', |arm| char::from(b'A' + arm))
}

/// A figure's value on the scale of its unit, as charts draw it.
pub(super) fn scaled(metric: Metric, value: f64) -> f64 {
    match metric {
        Metric::PeakBytes => Gib::from_mean(value).0,
        Metric::MfuExactPractical => 100.0 * value,
        _ => value,
    }
}

/// The name of a figure as a heading.
pub(super) fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::TokensPerSec => "Speed",
        Metric::PaddedTokensPerSec => "Speed with padding counted",
        Metric::PeakBytes => "Peak memory",
        Metric::LossEnd => "Loss at the end",
        Metric::TimeToFirstStepSecs => "Time to the first step",
        Metric::StepSecs => "Time of a step",
        Metric::MfuExactPractical => "MFU, LoRA-exact, of the measured peak",
        Metric::ScorePoints => "Execution match",
        Metric::MeanWatts => "Mean power",
        Metric::UsefulTflops => "Useful work of a training",
        Metric::ProductsTflops => "Products alone",
        Metric::DecodeTokensPerSec => "Answers, one at a time",
    }
}
