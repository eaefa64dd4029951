//! What runs are compared by: the figures of a run that an experiment may name, with the way that is better.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::TrainingSummary;

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Real tokens a second over the steady window (M6, M12).
    TokensPerSec,
    /// The same with padding counted (M12).
    PaddedTokensPerSec,
    /// Most memory that the device's allocator held, in bytes.
    PeakBytes,
    /// Mean loss over the last tenth of the steps, in nats per supervised token.
    LossEnd,
    /// Seconds from the job's arrival to the end of the first step (M7).
    TimeToFirstStepSecs,
    /// Mean wall time of a step of the steady window, in seconds.
    StepSecs,
    /// LoRA-exact operations against the measured peak, 0.2 for 20 % (M2).
    MfuExactPractical,
    /// Test questions that the tuned model answers rightly, in points, 0 to 100.
    ScorePoints,
    /// Mean power of the card during the training, in watts.
    MeanWatts,
    /// LoRA-exact operations of a training a second, in TFLOPS (M5).
    UsefulTflops,
    /// Operations a second of products of the model's own linear layers alone, in TFLOPS (M5).
    ProductsTflops,
    /// Tokens a second of answers that are written one at a time, without reading the prompts (M4).
    DecodeTokensPerSec,
}

/// Which way of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::TokensPerSec,
        Self::PaddedTokensPerSec,
        Self::PeakBytes,
        Self::LossEnd,
        Self::TimeToFirstStepSecs,
        Self::StepSecs,
        Self::MfuExactPractical,
        Self::ScorePoints,
        Self::MeanWatts,
        Self::UsefulTflops,
        Self::ProductsTflops,
        Self::DecodeTokensPerSec,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::TokensPerSec => "tokens_per_sec",
            Self::PaddedTokensPerSec => "padded_tokens_per_sec",
            Self::PeakBytes => "peak_bytes",
            Self::LossEnd => "loss_end",
            Self::TimeToFirstStepSecs => "time_to_first_step_secs",
            Self::StepSecs => "step_secs",
            Self::MfuExactPractical => "mfu_exact_practical",
            Self::ScorePoints => "score_points",
            Self::MeanWatts => "mean_watts",
            Self::UsefulTflops => "useful_tflops",
            Self::ProductsTflops => "products_tflops",
            Self::DecodeTokensPerSec => "decode_tokens_per_sec",
        }
    }

    /// What it is, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::TokensPerSec => "tokens a second",
            Self::PaddedTokensPerSec => "tokens a second with padding",
            Self::PeakBytes => "peak memory",
            Self::LossEnd => "loss at the end",
            Self::TimeToFirstStepSecs => "time to the first step",
            Self::StepSecs => "time of a step",
            Self::MfuExactPractical => "MFU",
            Self::ScorePoints => "execution match",
            Self::MeanWatts => "mean power",
            Self::UsefulTflops => "useful speed",
            Self::ProductsTflops => "speed of its products alone",
            Self::DecodeTokensPerSec => "tokens a second, one answer at a time",
        }
    }

    /// Which way is better.
    pub fn direction(self) -> Direction {
        match self {
            Self::TokensPerSec
            | Self::PaddedTokensPerSec
            | Self::MfuExactPractical
            | Self::ScorePoints
            | Self::UsefulTflops
            | Self::ProductsTflops
            | Self::DecodeTokensPerSec => Direction::Higher,
            Self::PeakBytes
            | Self::LossEnd
            | Self::TimeToFirstStepSecs
            | Self::StepSecs
            | Self::MeanWatts => Direction::Lower,
        }
    }

    /// Whether the seed decides most of it: the order of the rows and the adapter's start. Arms are then compared seed
    /// by seed, so that what the seeds have in common does not count as noise.
    pub fn follows_the_seed(self) -> bool {
        matches!(self, Self::LossEnd | Self::ScorePoints)
    }

    /// Whether two values are compared by their difference; all others are compared by their ratio.
    pub fn by_difference(self) -> bool {
        self == Self::ScorePoints
    }
}

/// The figures of one run, those that it has.
pub type Figures = BTreeMap<Metric, f64>;

/// The figures that a training's summary holds. A loss at the end is that of a training that did all its steps: one
/// that its time box ended learned from fewer rows, and its loss is left out.
pub fn figures_of(training: &TrainingSummary, whole: bool) -> Figures {
    let loss = training.loss.filter(|_| whole).map(|loss| loss.mean_last_tenth);
    let found = [
        (Metric::TokensPerSec, training.steady_tokens_per_sec),
        (Metric::PaddedTokensPerSec, training.steady_padded_tokens_per_sec),
        (Metric::PeakBytes, training.peak_bytes.map(|bytes| bytes as f64)),
        (Metric::LossEnd, loss),
        (Metric::TimeToFirstStepSecs, training.time_to_first_step_secs),
        (Metric::StepSecs, training.step_secs.map(|spread| spread.mean)),
        (
            Metric::MfuExactPractical,
            training
                .mfu
                .and_then(|mfu| mfu.lora_exact.practical)
                .map(|mfu| mfu.0),
        ),
        (
            Metric::UsefulTflops,
            training.mfu.map(|mfu| mfu.lora_exact.tflops.0),
        ),
    ];
    let known = found.into_iter().filter_map(|(metric, value)| {
        let value = value.filter(|value| value.is_finite())?;
        Some((metric, value))
    });
    known.collect()
}
