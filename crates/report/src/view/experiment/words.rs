//! Figures of an experiment in words: each in one unit, everywhere.

use tunesmith_measure::comparison::{Effect, Metric};
use tunesmith_measure::{Gib, Spread};

use crate::format::{capitalised, number, percent, points, significant};

/// A value of a figure in the unit that [`metric_unit`] gives.
pub fn metric_words(metric: Metric, value: f64) -> String {
    match metric {
        Metric::PeakBytes => number(Gib::from_mean(value).0),
        Metric::MfuExactPractical => percent(value).replace(" %", ""),
        Metric::ScorePoints => points(value),
        _ => number(value),
    }
}

/// Unit in which a figure is shown.
pub fn metric_unit(metric: Metric) -> &'static str {
    match metric {
        Metric::TokensPerSec | Metric::PaddedTokensPerSec | Metric::DecodeTokensPerSec => "tokens/s",
        Metric::PeakBytes => "GiB",
        Metric::LossEnd => "nats",
        Metric::TimeToFirstStepSecs | Metric::StepSecs => "s",
        Metric::MfuExactPractical => "%",
        Metric::ScorePoints => "points",
        Metric::MeanWatts => "W",
        Metric::UsefulTflops | Metric::ProductsTflops => "TFLOPS",
    }
}

pub(super) fn with_unit(title: &str, unit: &str) -> String {
    let title = capitalised(title);
    // `Tokens a second` has its unit in its name.
    if unit == "tokens/s" {
        title
    } else {
        format!("{title}, {unit}")
    }
}

pub(super) fn mark_of(effect: Effect) -> &'static str {
    match effect {
        Effect::Better => "ok",
        Effect::Worse => "warn",
        Effect::WithinNoise => "note",
        Effect::Exploratory => "unknown",
    }
}

/// What a difference is, in a word or two.
pub fn effect_words(effect: Effect) -> &'static str {
    match effect {
        Effect::Better => "better",
        Effect::Worse => "worse",
        Effect::WithinNoise => "within noise",
        Effect::Exploratory => "exploratory",
    }
}

/// Three decimals, or `< 0.001`.
pub fn p_words(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// `+3.1 %`.
pub(crate) fn signed_percent(share: f64) -> String {
    let sign = if share >= 0.0 { "+" } else { "−" };
    format!("{sign}{}", percent(share.abs()))
}

/// `129 ± 2.6`, of values that need no other unit.
pub(super) fn with_spread(spread: &Spread) -> String {
    match spread.sd {
        Some(sd) => format!("{} ± {}", number(spread.mean), significant(sd, 2)),
        None => number(spread.mean),
    }
}

/// A standard deviation in the unit of its figure, with the two digits that it is good for.
pub(crate) fn sd_words(metric: Metric, sd: f64) -> String {
    match metric {
        Metric::PeakBytes => significant(Gib::from_mean(sd).0, 2),
        Metric::MfuExactPractical => significant(100.0 * sd, 2),
        Metric::ScorePoints => points(sd),
        _ => significant(sd, 2),
    }
}
