//! Whether two means lie further apart than repeats do by chance: the one place that decides it, for the arms of an
//! experiment, for runs that nobody planned together, and for the points of a Pareto (M22, C2).

use serde::{Deserialize, Serialize};

use crate::{
    MeasureError, Spread,
    stats::{self, Interval, Welch},
};

/// Two means are told apart where chance would do it in fewer than 5 of 100 cases (C2).
pub const SIGNIFICANT: f64 = 0.05;

/// Differences of memory below 2 GiB are noise unless they were repeated: runs of one set-up were seen to differ by as
/// much (M22).
pub const NOISE_BYTES: f64 = 2.0 * 1024.0 * 1024.0 * 1024.0;

/// Least difference, in standard deviations of the repeats, that is called an effect. A test of many runs finds
/// smaller ones too; they are real and of no use (M22).
const LEAST_D: f64 = 1.0;

/// What the difference of two means is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Noise {
    /// More than noise.
    Beyond,
    /// As large as repeats differ by chance, or none at all.
    Within,
    /// Not known: seen once and not repeated (M22).
    Unknown,
}

/// Two samples of one figure, tested against each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// Mean of the second less mean of the first.
    pub difference: f64,
    /// 95 % interval of that; absent where one was not repeated.
    pub difference_interval: Option<Interval>,
    /// Welch's test; absent where one was not repeated, or no repeat differs from another.
    pub welch: Option<Welch>,
    /// The test's p, corrected where the test is one of several.
    pub p: Option<f64>,
    /// Cohen's d, under the same conditions as the test.
    pub cohens_d: Option<f64>,
    /// A difference below this is noise unless both were repeated, in the figure's unit; 0 where there is no such rule.
    pub noise_unrepeated: f64,
    /// Values of the first.
    pub first_runs: usize,
    /// Values of the second.
    pub second_runs: usize,
}

impl Tested {
    /// Tests a second sample against a first one.
    ///
    /// # Errors
    /// [`MeasureError`] where one has no value, or one that is not finite.
    pub fn of(first: &[f64], second: &[f64]) -> Result<Self, MeasureError> {
        let welch = stats::welch(second, first).ok();
        Ok(Self {
            difference: stats::mean(second)? - stats::mean(first)?,
            difference_interval: stats::difference_interval(second, first).ok(),
            p: welch.map(|test| test.p_two_sided),
            welch,
            cohens_d: stats::cohens_d(second, first).ok(),
            noise_unrepeated: 0.0,
            first_runs: first.len(),
            second_runs: second.len(),
        })
    }

    /// The verdict.
    pub fn noise(&self) -> Noise {
        if self.difference == 0.0 {
            return Noise::Within;
        }
        match (self.p, self.cohens_d) {
            (Some(p), Some(d)) if p < SIGNIFICANT && d.abs() >= LEAST_D => Noise::Beyond,
            (Some(_), _) => Noise::Within,
            // Both were repeated, and the repeats of each are equal: there is nothing to test, and no noise either.
            (None, _) if self.difference_interval.is_some() => Noise::Beyond,
            (None, _) if self.difference.abs() < self.noise_unrepeated => Noise::Within,
            (None, _) => Noise::Unknown,
        }
    }

    /// The verdict with what it stands on, as it follows `… is 5.2 % higher`: a clause with its comma or semicolon.
    pub fn words(&self) -> String {
        let (one, other) = (self.second_runs, self.first_runs);
        let test = |decimals: usize| {
            let df = self.welch.map_or(0.0, |test| test.df);
            let p = p_words(self.p.unwrap_or(1.0), decimals);
            format!("(Welch's test: df = {df:.2}, {p})")
        };
        match (self.noise(), self.p) {
            (Noise::Beyond, Some(_)) => {
                format!(", beyond the noise of {one} and {other} runs {}", test(3))
            }
            (Noise::Beyond, None) => "; repeats are equal to the last digit, so this is no noise".to_owned(),
            (Noise::Within, Some(p)) if p < SIGNIFICANT => format!(
                ", which is within noise: it is smaller than the spread of {one} and {other} runs (d = {:.2})",
                self.cohens_d.unwrap_or(0.0)
            ),
            (Noise::Within, Some(_)) => format!(
                ", which is within noise: {one} and {other} runs differ as much by chance {}",
                test(2)
            ),
            (Noise::Within, None) => {
                ", which is within noise: differences of memory below 2 GiB are, unless each is repeated"
                    .to_owned()
            }
            (Noise::Unknown, _) => format!(
                ", seen in {one} and {other} runs: exploratory, as it takes two repeats of each to tell it from noise"
            ),
        }
    }
}

/// `p = 0.041`, or `p < 0.001` where a zero would be read as none.
fn p_words(p: f64, decimals: usize) -> String {
    if p < 0.0005 {
        "p < 0.001".to_owned()
    } else {
        format!("p = {p:.decimals$}")
    }
}

/// How far a mean lies from another: `5.2 % higher`, `2.1 times as high`, `3.0 points lower`.
pub(super) fn size_words(difference: f64, ratio: Option<f64>, by_difference: bool) -> String {
    let way = if difference < 0.0 { "lower" } else { "higher" };
    match ratio {
        _ if by_difference => format!("{:.1} points {way}", difference.abs()),
        Some(ratio) if ratio >= 2.0 => format!("{ratio:.1} times as high"),
        Some(ratio) => format!("{:.1} % {way}", 100.0 * (ratio - 1.0).abs()),
        None => way.to_owned(),
    }
}

/// A figure by which samples are compared that no experiment planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledFigure {
    /// What it is, for people.
    pub title: &'static str,
    /// Whether two values are compared by their difference, in points; all others are by their ratio.
    pub by_difference: bool,
    /// See [`Tested::noise_unrepeated`].
    pub noise_unrepeated: f64,
}

/// Two samples of one figure that no experiment planned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleComparison {
    /// Of the first.
    pub first: Spread,
    /// Of the second.
    pub second: Spread,
    /// Mean of the second less mean of the first.
    pub difference: f64,
    /// Mean of the second over mean of the first; absent where one is not above zero.
    pub ratio: Option<f64>,
    /// Welch's test; absent where one was not repeated, or no repeat differs from another.
    pub welch: Option<Welch>,
    /// Cohen's d of the second against the first, under the same conditions.
    pub cohens_d: Option<f64>,
    /// Whether the difference is more than noise.
    pub noise: Noise,
    /// What it comes to, in a clause without a full stop.
    pub sentence: String,
}

/// Compares two samples of a figure by the rules that hold for the arms of an experiment (C2, M22).
///
/// # Errors
/// [`MeasureError`] where one has no value, or one that is not finite.
pub fn compare_samples(
    figure: &SampledFigure,
    first: &[f64],
    second: &[f64],
) -> Result<SampleComparison, MeasureError> {
    let tested = Tested {
        noise_unrepeated: figure.noise_unrepeated,
        ..Tested::of(first, second)?
    };
    let spread = |values: &[f64]| {
        Spread::of(values).ok_or(MeasureError::TooFew {
            what: "a comparison",
            needed: 1,
            got: values.len(),
        })
    };
    let (first, second) = (spread(first)?, spread(second)?);
    let ratio = (first.mean > 0.0 && second.mean > 0.0).then(|| second.mean / first.mean);
    let sentence = if tested.difference == 0.0 {
        format!("{} is the same", figure.title)
    } else {
        let size = size_words(tested.difference, ratio, figure.by_difference);
        format!("{} is {size}{}", figure.title, tested.words())
    };
    Ok(SampleComparison {
        first,
        second,
        difference: tested.difference,
        ratio,
        welch: tested.welch,
        cohens_d: tested.cohens_d,
        noise: tested.noise(),
        sentence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: SampledFigure = SampledFigure {
        title: "tokens a second",
        by_difference: false,
        noise_unrepeated: 0.0,
    };
    const FAST: [f64; 3] = [126.5, 130.6, 131.2];
    const SLOW: [f64; 3] = [122.2, 123.4, 123.6];

    fn compared(first: &[f64], second: &[f64]) -> SampleComparison {
        compare_samples(&SPEED, first, second).unwrap()
    }

    #[test]
    fn a_difference_beyond_the_noise_is_called_one() {
        let found = compared(&SLOW, &FAST);
        assert_eq!(found.noise, Noise::Beyond);
        assert!((found.welch.unwrap().p_two_sided - 0.041).abs() < 5e-4);
        assert!((found.cohens_d.unwrap() - 3.38).abs() < 5e-3);
        assert!(
            found
                .sentence
                .starts_with("tokens a second is 5.2 % higher, beyond the noise of 3 and 3 runs"),
            "{}",
            found.sentence
        );
        let back = compared(&FAST, &SLOW);
        assert!(back.sentence.contains("lower"), "{}", back.sentence);
        assert!((back.difference + found.difference).abs() < 1e-12);
    }

    #[test]
    fn what_chance_does_is_called_noise() {
        let points = SampledFigure {
            title: "execution match",
            by_difference: true,
            ..SPEED
        };
        let found = compare_samples(&points, &[50.0, 54.0, 52.0], &[53.0, 51.0, 55.0]).unwrap();
        assert_eq!(found.noise, Noise::Within);
        assert!(
            found
                .sentence
                .contains("1.0 points higher, which is within noise"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn a_single_run_is_exploratory_and_memory_below_two_gib_is_noise() {
        let found = compared(&[1.0], &[0.9]);
        assert_eq!((found.noise, found.welch), (Noise::Unknown, None));
        assert!(
            found.sentence.contains("two repeats of each"),
            "{}",
            found.sentence
        );
        let memory = SampledFigure {
            title: "peak memory",
            noise_unrepeated: NOISE_BYTES,
            ..SPEED
        };
        let gib = NOISE_BYTES / 2.0;
        let of = |second: f64| {
            compare_samples(&memory, &[8.0 * gib], &[second * gib])
                .unwrap()
                .noise
        };
        assert_eq!((of(7.0), of(5.0)), (Noise::Within, Noise::Unknown));
    }

    #[test]
    fn equal_repeats_have_no_noise() {
        let same = compared(&[1.0, 1.0], &[1.0, 1.0]);
        assert_eq!(
            (same.noise, same.sentence.as_str()),
            (Noise::Within, "tokens a second is the same")
        );
        let other = compared(&[1.0, 1.0], &[0.5, 0.5]);
        assert_eq!(other.noise, Noise::Beyond);
        assert!(
            other.sentence.contains("equal to the last digit"),
            "{}",
            other.sentence
        );
    }

    #[test]
    fn nothing_to_compare_is_an_error() {
        let code = |first: &[f64], second: &[f64]| compare_samples(&SPEED, first, second).unwrap_err().code();
        assert_eq!(code(&[], &[1.0]), "too_few_values");
        assert_eq!(code(&[1.0], &[f64::NAN]), "out_of_range");
    }
}
