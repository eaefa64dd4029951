//! Repeats of one experiment: the spread of what they reached, and whether two experiments differ by more than that.

use std::{collections::HashMap, sync::Arc};

use serde::Serialize;
use tunesmith_measure::{
    MeasureError, Spread,
    stats::{Welch, cohens_d, welch},
};
use tunesmith_protocol::RunStatus;

use super::{LineState, RunLine, RunState};

/// Two means are told apart where chance would do it in fewer than 5 of 100 cases (C2).
const SIGNIFICANT: f64 = 0.05;

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

/// Two experiments by one figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Which figure.
    pub figure: Figure,
    /// Of the first.
    pub one: Spread,
    /// Of the second.
    pub other: Spread,
    /// Mean of the second less mean of the first.
    pub difference: f64,
    /// That over the mean of the first; `None` where it is zero.
    pub relative: Option<f64>,
    /// Welch's test; `None` where there are too few values, or none differs.
    pub welch: Option<Welch>,
    /// Cohen's d of the second against the first, under the same conditions.
    pub cohens_d: Option<f64>,
    /// Whether the means can be told apart from chance; `None` where that cannot be tested.
    pub beyond_noise: Option<bool>,
    /// What it comes to, in a clause without a full stop.
    pub sentence: String,
}

/// Compares the values of two experiments by Welch's test (C2).
///
/// # Errors
/// [`MeasureError`] where one of them has no value, or one that is not finite.
pub fn compare(figure: Figure, one: &[f64], other: &[f64]) -> Result<Comparison, MeasureError> {
    let spread = |values: &[f64]| {
        tunesmith_measure::stats::mean(values)?;
        Spread::of(values).ok_or(MeasureError::TooFew {
            what: "a comparison",
            needed: 1,
            got: values.len(),
        })
    };
    let (before, after) = (spread(one)?, spread(other)?);
    let difference = after.mean - before.mean;
    let relative = (before.mean != 0.0).then(|| difference / before.mean.abs());
    let test = welch(other, one);
    let (beyond_noise, sentence) = verdict(figure, difference, relative, &test, before.n, after.n);
    Ok(Comparison {
        figure,
        one: before,
        other: after,
        difference,
        relative,
        cohens_d: cohens_d(other, one).ok(),
        welch: test.ok(),
        beyond_noise,
        sentence,
    })
}

fn verdict(
    figure: Figure,
    difference: f64,
    relative: Option<f64>,
    test: &Result<Welch, MeasureError>,
    one: usize,
    other: usize,
) -> (Option<bool>, String) {
    let title = figure.title();
    let way = if difference < 0.0 { "lower" } else { "higher" };
    let size = match (figure, relative) {
        (Figure::AfterPoints | Figure::GainPoints, _) => format!("{:.1} points {way}", difference.abs()),
        (_, Some(relative)) => format!("{:.1} % {way}", 100.0 * relative.abs()),
        (_, None) => way.to_owned(),
    };
    match test {
        Ok(test) if test.p_two_sided < SIGNIFICANT => (
            Some(true),
            format!(
                "{title} is {size}, beyond the noise of {one} and {other} runs (Welch's test, p = {:.3})",
                test.p_two_sided
            ),
        ),
        Ok(test) => (
            Some(false),
            format!(
                "{title} is {size}, which is within noise: {one} and {other} runs differ as much by chance (Welch's test, p = {:.2})",
                test.p_two_sided
            ),
        ),
        Err(MeasureError::NoSpread { .. }) if difference == 0.0 => (
            Some(false),
            format!("{title} is the same in all {} runs", one + other),
        ),
        Err(MeasureError::NoSpread { .. }) => (
            None,
            format!(
                "{title} is {size}; repeats are equal to the last digit, so there is no noise to compare it with"
            ),
        ),
        Err(_) => (
            None,
            format!(
                "{title} is {size}, from {one} and {other} runs: whether that is more than noise is not known; repeat each at least twice"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{run::lines, testing::TestRun};

    const FAST: [f64; 3] = [126.5, 130.6, 131.2];
    const SLOW: [f64; 3] = [122.2, 123.4, 123.6];

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
    fn a_difference_beyond_the_noise_is_called_one() {
        let found = compare(Figure::TokensPerSec, &SLOW, &FAST).unwrap();
        assert_eq!(found.beyond_noise, Some(true));
        assert!((found.welch.unwrap().p_two_sided - 0.041).abs() < 5e-4);
        assert!((found.cohens_d.unwrap() - 3.38).abs() < 5e-3);
        assert!(
            found.sentence.contains("5.2 % higher") && found.sentence.contains("p = 0.041"),
            "{}",
            found.sentence
        );
        let back = compare(Figure::TokensPerSec, &FAST, &SLOW).unwrap();
        assert!(back.sentence.contains("lower"), "{}", back.sentence);
        assert!((back.difference + found.difference).abs() < 1e-12);
    }

    #[test]
    fn what_chance_does_is_called_noise() {
        let found = compare(Figure::AfterPoints, &[50.0, 54.0, 52.0], &[53.0, 51.0, 55.0]).unwrap();
        assert_eq!(found.beyond_noise, Some(false));
        assert!(
            found
                .sentence
                .contains("1.0 points higher, which is within noise"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn a_single_run_is_not_judged() {
        let found = compare(Figure::LossLast, &[1.0], &[0.9]).unwrap();
        assert_eq!((found.beyond_noise, found.welch), (None, None));
        assert!(
            found.sentence.contains("repeat each at least twice"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn equal_repeats_have_no_noise() {
        let same = compare(Figure::LossLast, &[1.0, 1.0], &[1.0, 1.0]).unwrap();
        assert_eq!(same.beyond_noise, Some(false));
        let other = compare(Figure::LossLast, &[1.0, 1.0], &[0.5, 0.5]).unwrap();
        assert_eq!(other.beyond_noise, None);
        assert!(
            other.sentence.contains("equal to the last digit"),
            "{}",
            other.sentence
        );
    }

    #[test]
    fn nothing_to_compare_is_an_error() {
        assert_eq!(
            compare(Figure::Mfu, &[], &[1.0]).unwrap_err().code(),
            "too_few_values"
        );
        assert_eq!(
            compare(Figure::Mfu, &[1.0], &[f64::NAN]).unwrap_err().code(),
            "out_of_range"
        );
    }
}
