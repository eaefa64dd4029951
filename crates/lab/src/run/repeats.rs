//! Repeats of one experiment: the spread of what they reached, and whether two experiments differ by more than that.

use std::{collections::HashMap, sync::Arc};

use serde::Serialize;
use tunesmith_measure::{
    MeasureError, Spread,
    comparison::{NOISE_BYTES, SampleComparison, SampledFigure, compare_samples},
};
use tunesmith_protocol::RunStatus;

use super::{LineState, RunLine, RunState};

/// A figure that runs are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Real tokens a second over the steady window.
    TokensPerSec,
    /// Last loss, in nats per supervised token.
    LossLast,
    /// Most memory held, in bytes.
    PeakBytes,
    /// MFU, LoRA-exact against the measured peak, 0.2 for 20 %.
    Mfu,
    /// Execution match of the tuned model, in points.
    AfterPoints,
    /// What the training changed in execution match, in points.
    GainPoints,
    /// How long the whole run took, in seconds.
    TotalSecs,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::TokensPerSec,
        Self::LossLast,
        Self::PeakBytes,
        Self::Mfu,
        Self::AfterPoints,
        Self::GainPoints,
        Self::TotalSecs,
    ];

    /// What it is, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::TokensPerSec => "tokens a second",
            Self::LossLast => "last loss",
            Self::PeakBytes => "peak memory",
            Self::Mfu => "MFU",
            Self::AfterPoints => "execution match",
            Self::GainPoints => "gain",
            Self::TotalSecs => "time",
        }
    }

    /// Of a run, where its record has it.
    pub fn of(self, line: &RunLine) -> Option<f64> {
        let figures = line.figures.as_ref();
        let value = match self {
            Self::TokensPerSec => figures?.steady_tokens_per_sec?,
            Self::LossLast => figures?.loss?.last,
            Self::PeakBytes => figures?.peak_bytes? as f64,
            Self::Mfu => figures?.mfu_exact_practical?.0,
            Self::AfterPoints => line.after_points?,
            Self::GainPoints => line.after_points? - line.before_points?,
            Self::TotalSecs => line.total_secs?,
        };
        value.is_finite().then_some(value)
    }
}

/// Runs of one experiment that ended well, oldest first. Others are not repeats: what was cut short or refused has
/// other figures for other reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeats {
    /// What they share.
    pub config_hash: String,
    /// The runs, at least one.
    pub runs: Vec<Arc<RunLine>>,
}

impl Repeats {
    /// The values of a figure, of the runs that have it.
    pub fn values(&self, figure: Figure) -> Vec<f64> {
        self.runs.iter().filter_map(|line| figure.of(line)).collect()
    }

    /// Mean, standard deviation and number of those; `None` where no run has the figure. A single run has no
    /// standard deviation.
    pub fn spread(&self, figure: Figure) -> Option<Spread> {
        Spread::of(&self.values(figure))
    }
}

/// The experiments among the lines, in the order in which each began.
pub fn repeats(lines: &[Arc<RunLine>]) -> Vec<Repeats> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut groups: Vec<Repeats> = Vec::new();
    let well = LineState::Run(RunState::Ended(RunStatus::Ok));
    for line in lines.iter().filter(|line| line.state == well) {
        let Some(hash) = line.config_hash.as_deref() else {
            continue;
        };
        let place = *places.entry(hash).or_insert_with(|| {
            groups.push(Repeats {
                config_hash: hash.to_owned(),
                runs: Vec::new(),
            });
            groups.len() - 1
        });
        groups[place].runs.push(Arc::clone(line));
    }
    groups
}

/// Compares the values of two experiments, by the rules that hold for the arms of one (C2, M22).
///
/// # Errors
/// [`MeasureError`] where one of them has no value, or one that is not finite.
pub fn compare(figure: Figure, one: &[f64], other: &[f64]) -> Result<SampleComparison, MeasureError> {
    let sampled = SampledFigure {
        title: figure.title(),
        by_difference: matches!(figure, Figure::AfterPoints | Figure::GainPoints),
        noise_unrepeated: if figure == Figure::PeakBytes {
            NOISE_BYTES
        } else {
            0.0
        },
    };
    compare_samples(&sampled, one, other)
}

#[cfg(test)]
mod tests {
    use tunesmith_measure::comparison::Noise;

    use super::*;
    use crate::{run::lines, testing::TestRun};

    #[test]
    fn runs_with_one_hash_are_repeats_if_they_ended_well() {
        let home = tempfile::tempdir().unwrap();
        let day = |day: u32| TestRun::new(&format!("2026-01-{day:02}T00:00:00Z"));
        day(1).config_hash("b").tokens_per_sec(90.0).write(home.path());
        day(2).config_hash("a").tokens_per_sec(100.0).write(home.path());
        day(3).config_hash("a").tokens_per_sec(110.0).write(home.path());
        day(4)
            .config_hash("a")
            .status(RunStatus::Cancelled)
            .write(home.path());
        day(5).config_hash("a").unfinished().write(home.path());
        let lines = lines(home.path(), &[]).unwrap();
        let groups = repeats(&lines);
        let hashes: Vec<_> = groups
            .iter()
            .map(|group| (group.config_hash.as_str(), group.runs.len()))
            .collect();
        assert_eq!(hashes, [("b", 1), ("a", 2)]);
        let spread = groups[1].spread(Figure::TokensPerSec).unwrap();
        assert_eq!(spread.n, 2);
        let values: Vec<f64> = lines[1..3]
            .iter()
            .filter_map(|line| line.figures?.steady_tokens_per_sec)
            .collect();
        assert_eq!(Some(spread), Spread::of(&values));
        assert_eq!(groups[0].spread(Figure::TokensPerSec).unwrap().sd, None);
        for figure in Figure::ALL {
            assert_eq!(groups[1].values(figure).len(), 2, "{figure:?}");
        }
    }

    #[test]
    fn points_are_compared_by_their_difference_and_unrepeated_memory_below_two_gib_is_noise() {
        let points = compare(Figure::AfterPoints, &[50.0, 54.0, 52.0], &[53.0, 51.0, 55.0]).unwrap();
        assert_eq!(points.noise, Noise::Within);
        assert!(
            points
                .sentence
                .starts_with("execution match is 1.0 points higher"),
            "{}",
            points.sentence
        );
        let gib = f64::from(1_u32 << 30);
        let memory = compare(Figure::PeakBytes, &[8.0 * gib], &[7.0 * gib]).unwrap();
        assert_eq!(memory.noise, Noise::Within, "{}", memory.sentence);
        let speed = compare(Figure::TokensPerSec, &[500.0], &[400.0]).unwrap();
        assert_eq!(speed.noise, Noise::Unknown, "{}", speed.sentence);
    }
}
