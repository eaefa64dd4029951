//! Spread, tests and intervals. Each needs enough values and says so: nothing here returns NaN.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

use crate::MeasureError;

/// Quantile of the normal distribution that leaves 2.5 % above it.
const Z_95: f64 = 1.959_963_984_540_054;

/// Arithmetic mean.
///
/// # Errors
/// [`MeasureError`] without values, or for one that is not finite.
pub fn mean(values: &[f64]) -> Result<f64, MeasureError> {
    enough("a mean", values, 1)?;
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of a sample (divided by n − 1).
///
/// # Errors
/// [`MeasureError`] with fewer than two values, or for one that is not finite.
pub fn sd(values: &[f64]) -> Result<f64, MeasureError> {
    enough("a standard deviation", values, 2)?;
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Ok((squares / (values.len() - 1) as f64).sqrt())
}

/// Middle value, or the mean of the two middle ones.
///
/// # Errors
/// [`MeasureError`] without values, or for one that is not finite.
pub fn median(values: &[f64]) -> Result<f64, MeasureError> {
    enough("a median", values, 1)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Ok(if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    })
}

/// Welch's test of two means with unequal variances (C2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welch {
    /// Difference of the means over its standard error.
    pub t: f64,
    /// Degrees of freedom by Welch and Satterthwaite.
    pub df: f64,
    /// Chance of a |t| at least this large if the means were equal.
    pub p_two_sided: f64,
}

/// Welch's t-test of two samples (C2).
///
/// # Errors
/// [`MeasureError`] where a sample has fewer than two values, or neither has any spread.
pub fn welch(a: &[f64], b: &[f64]) -> Result<Welch, MeasureError> {
    enough("Welch's test", a, 2)?;
    enough("Welch's test", b, 2)?;
    let (error_a, error_b) = (squared_error(a)?, squared_error(b)?);
    let sum = error_a + error_b;
    if sum <= 0.0 {
        return Err(MeasureError::NoSpread { what: "Welch's test" });
    }
    let t = (mean(a)? - mean(b)?) / sum.sqrt();
    let df = freedom(a, error_a, b, error_b);
    let distribution = StudentsT::new(0.0, 1.0, df).map_err(|_| MeasureError::OutOfRange {
        what: "degrees of freedom",
        value: df,
    })?;
    Ok(Welch {
        t,
        df,
        p_two_sided: (2.0 * distribution.cdf(-t.abs())).clamp(0.0, 1.0),
    })
}

/// Cohen's d: difference of the means over the pooled standard deviation (C2).
///
/// # Errors
/// [`MeasureError`] where a sample has fewer than two values, or neither has any spread.
pub fn cohens_d(a: &[f64], b: &[f64]) -> Result<f64, MeasureError> {
    enough("Cohen's d", a, 2)?;
    enough("Cohen's d", b, 2)?;
    let (free_a, free_b) = ((a.len() - 1) as f64, (b.len() - 1) as f64);
    let pooled = ((free_a * sd(a)?.powi(2) + free_b * sd(b)?.powi(2)) / (free_a + free_b)).sqrt();
    if pooled <= 0.0 {
        return Err(MeasureError::NoSpread { what: "Cohen's d" });
    }
    Ok((mean(a)? - mean(b)?) / pooled)
}

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// 95 % interval of a mean by Student's t.
///
/// # Errors
/// [`MeasureError`] with fewer than two values, or for one that is not finite.
pub fn mean_interval(values: &[f64]) -> Result<Interval, MeasureError> {
    let error = sd(values)? / (values.len() as f64).sqrt();
    around(mean(values)?, error, (values.len() - 1) as f64)
}

/// 95 % interval of mean(a) − mean(b), with unequal variances as in [`welch`].
///
/// # Errors
/// [`MeasureError`] where a sample has fewer than two values, or one is not finite.
pub fn difference_interval(a: &[f64], b: &[f64]) -> Result<Interval, MeasureError> {
    let difference = mean(a)? - mean(b)?;
    let (error_a, error_b) = (squared_error(a)?, squared_error(b)?);
    around(
        difference,
        (error_a + error_b).sqrt(),
        freedom(a, error_a, b, error_b),
    )
}

/// 95 % interval of mean(a) ÷ mean(b): that of the logarithm's difference, whose errors are the relative ones.
///
/// # Errors
/// [`MeasureError`] where a sample has fewer than two values, or a mean is not above zero.
pub fn ratio_interval(a: &[f64], b: &[f64]) -> Result<Interval, MeasureError> {
    let relative = |values: &[f64]| -> Result<f64, MeasureError> {
        Ok(squared_error(values)? / positive_mean(values)?.powi(2))
    };
    let (error_a, error_b) = (relative(a)?, relative(b)?);
    let logarithm = (positive_mean(a)? / positive_mean(b)?).ln();
    let interval = around(
        logarithm,
        (error_a + error_b).sqrt(),
        freedom(a, error_a, b, error_b),
    )?;
    Ok(Interval {
        low: interval.low.exp(),
        high: interval.high.exp(),
    })
}

fn positive_mean(values: &[f64]) -> Result<f64, MeasureError> {
    let value = mean(values)?;
    if value > 0.0 {
        return Ok(value);
    }
    Err(MeasureError::OutOfRange {
        what: "the mean of a ratio",
        value,
    })
}

/// 95 % interval of the mean of aᵢ − bᵢ, where the two values of a pair belong together.
///
/// # Errors
/// [`MeasureError`] where there are fewer than two pairs, or a difference is not finite.
pub fn paired_difference_interval(pairs: &[(f64, f64)]) -> Result<Interval, MeasureError> {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
    mean_interval(&differences)
}

/// 95 % interval of the geometric mean of aᵢ ÷ bᵢ, where the two values of a pair belong together.
///
/// # Errors
/// [`MeasureError`] where there are fewer than two pairs, or a value is not above zero.
pub fn paired_ratio_interval(pairs: &[(f64, f64)]) -> Result<Interval, MeasureError> {
    let logarithms = pairs
        .iter()
        .map(|(a, b)| Ok((positive_mean(&[*a])? / positive_mean(&[*b])?).ln()))
        .collect::<Result<Vec<f64>, MeasureError>>()?;
    let interval = mean_interval(&logarithms)?;
    Ok(Interval {
        low: interval.low.exp(),
        high: interval.high.exp(),
    })
}

/// Squared standard error of a mean.
fn squared_error(values: &[f64]) -> Result<f64, MeasureError> {
    Ok(sd(values)?.powi(2) / values.len() as f64)
}

/// Degrees of freedom by Welch and Satterthwaite; those of a pooled sample where nothing varies.
fn freedom(a: &[f64], error_a: f64, b: &[f64], error_b: f64) -> f64 {
    let (free_a, free_b) = ((a.len() - 1) as f64, (b.len() - 1) as f64);
    let sum = error_a + error_b;
    if sum <= 0.0 {
        return free_a + free_b;
    }
    sum.powi(2) / (error_a.powi(2) / free_a + error_b.powi(2) / free_b)
}

fn around(centre: f64, error: f64, df: f64) -> Result<Interval, MeasureError> {
    let distribution = StudentsT::new(0.0, 1.0, df).map_err(|_| MeasureError::OutOfRange {
        what: "degrees of freedom",
        value: df,
    })?;
    let half = distribution.inverse_cdf(0.975) * error;
    Ok(Interval {
        low: centre - half,
        high: centre + half,
    })
}

/// Holm's correction: each p as it counts among all of them, so that ten comparisons do not find by chance what one
/// would find in twenty tries. In the order given.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        least = least
            .max(p_values[index] * (p_values.len() - rank) as f64)
            .min(1.0);
        adjusted[index] = least;
    }
    adjusted
}

/// Wilson's 95 % interval of a share, in 0 to 1: unlike the plain one it is honest near 0 and 1.
///
/// # Errors
/// [`MeasureError`] for no trials, or more successes than trials.
pub fn wilson(successes: u64, trials: u64) -> Result<Interval, MeasureError> {
    let (share, n) = share(successes, trials)?;
    let z2 = Z_95 * Z_95;
    let centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z_95 / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    // At 0 and at all successes one end is exactly the share; rounding must not push it past.
    Ok(Interval {
        low: (centre - half).clamp(0.0, share),
        high: (centre + half).clamp(share, 1.0),
    })
}

/// Half-width of the binomial 95 % interval of a share, in 0 to 1: 1.96·√(p(1−p)/n) (E4).
///
/// # Errors
/// [`MeasureError`] for no trials, or more successes than trials.
pub fn binomial_half_width(successes: u64, trials: u64) -> Result<f64, MeasureError> {
    let (share, n) = share(successes, trials)?;
    Ok(Z_95 * (share * (1.0 - share) / n).sqrt())
}

/// McNemar's exact test of paired right-or-wrong outcomes (C6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct McNemar {
    /// Wrong before, right after.
    pub gained: u64,
    /// Right before, wrong after.
    pub lost: u64,
    /// Chance of a split at least this uneven if gains and losses were equally likely.
    pub p_two_sided: f64,
}

/// McNemar's exact test on the pairs that changed (C6). Without any, p is 1.
///
/// # Errors
/// [`MeasureError::OutOfRange`] for more pairs than the distribution takes.
pub fn mcnemar(gained: u64, lost: u64) -> Result<McNemar, MeasureError> {
    let changed = gained + lost;
    let distribution = Binomial::new(0.5, changed).map_err(|_| MeasureError::OutOfRange {
        what: "changed pairs",
        value: changed as f64,
    })?;
    let p_two_sided = (2.0 * distribution.cdf(gained.min(lost))).clamp(0.0, 1.0);
    Ok(McNemar {
        gained,
        lost,
        p_two_sided,
    })
}

fn enough(what: &'static str, values: &[f64], needed: usize) -> Result<(), MeasureError> {
    if values.len() < needed {
        return Err(MeasureError::TooFew {
            what,
            needed,
            got: values.len(),
        });
    }
    match values.iter().find(|value| !value.is_finite()) {
        Some(&value) => Err(MeasureError::OutOfRange { what, value }),
        None => Ok(()),
    }
}

fn share(successes: u64, trials: u64) -> Result<(f64, f64), MeasureError> {
    if trials == 0 {
        return Err(MeasureError::TooFew {
            what: "a share",
            needed: 1,
            got: 0,
        });
    }
    if successes > trials {
        return Err(MeasureError::OutOfRange {
            what: "a number of successes",
            value: successes as f64,
        });
    }
    Ok((successes as f64 / trials as f64, trials as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAST: [f64; 3] = [126.5, 130.6, 131.2];
    const SLOW: [f64; 3] = [122.2, 123.4, 123.6];

    #[test]
    fn the_published_comparison_is_p_0_041_and_not_0_01() {
        let test = welch(&FAST, &SLOW).unwrap();
        assert!((test.t - 4.13).abs() < 5e-3, "{test:?}");
        assert!((test.df - 2.35).abs() < 5e-3, "{test:?}");
        assert!((test.p_two_sided - 0.041).abs() < 5e-4, "{test:?}");
        assert!((cohens_d(&FAST, &SLOW).unwrap() - 3.38).abs() < 5e-3);
    }

    #[test]
    fn mean_sd_and_median_of_known_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert!((mean(&values).unwrap() - 5.0).abs() < 1e-12);
        assert!((sd(&values).unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!((median(&values).unwrap() - 4.5).abs() < 1e-12);
        assert!((median(&values[..3]).unwrap() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn too_few_values_are_an_error_and_never_nan() {
        assert_eq!(
            mean(&[]),
            Err(MeasureError::TooFew {
                what: "a mean",
                needed: 1,
                got: 0
            })
        );
        assert_eq!(sd(&[1.0]).unwrap_err().code(), "too_few_values");
        assert_eq!(welch(&[1.0], &SLOW).unwrap_err().code(), "too_few_values");
        assert_eq!(cohens_d(&FAST, &[]).unwrap_err().code(), "too_few_values");
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0]).unwrap_err().code(), "no_spread");
        assert_eq!(
            cohens_d(&[1.0, 1.0], &[2.0, 2.0]).unwrap_err().code(),
            "no_spread"
        );
        assert_eq!(mean(&[1.0, f64::NAN]).unwrap_err().code(), "out_of_range");
        assert_eq!(wilson(0, 0).unwrap_err().code(), "too_few_values");
        assert_eq!(wilson(3, 2).unwrap_err().code(), "out_of_range");
    }

    #[test]
    fn noise_of_300_questions() {
        assert!((binomial_half_width(162, 300).unwrap() * 100.0 - 5.6).abs() < 0.05);
        assert!((binomial_half_width(240, 300).unwrap() * 100.0 - 4.5).abs() < 0.05);
    }

    #[test]
    fn wilson_is_not_empty_at_the_ends() {
        let none = wilson(0, 20).unwrap();
        assert!(none.low == 0.0 && (none.high - 0.1611).abs() < 5e-4, "{none:?}");
        let all = wilson(20, 20).unwrap();
        assert!((all.low - 0.8389).abs() < 5e-4 && all.high >= 1.0, "{all:?}");
        let half = wilson(50, 100).unwrap();
        assert!(
            (half.low - 0.4038).abs() < 5e-4 && (half.high - 0.5962).abs() < 5e-4,
            "{half:?}"
        );
    }

    #[test]
    fn mcnemar_counts_changed_pairs_alone() {
        assert!((mcnemar(0, 0).unwrap().p_two_sided - 1.0).abs() < 1e-12);
        assert!((mcnemar(5, 5).unwrap().p_two_sided - 1.0).abs() < 1e-12);
        // All six gained: 2 · (1/2)⁶.
        assert!((mcnemar(6, 0).unwrap().p_two_sided - 0.03125).abs() < 1e-12);
        assert!((mcnemar(8, 2).unwrap().p_two_sided - 2.0 * 56.0 / 1024.0).abs() < 1e-12);
    }

    #[test]
    fn intervals_of_the_published_comparison() {
        // 95 % quantile of Student's t with two degrees of freedom: 4.3027.
        let values = [1.0, 2.0, 3.0];
        let interval = mean_interval(&values).unwrap();
        assert!(
            (interval.high - 2.0 - 4.3027 / 3.0_f64.sqrt()).abs() < 1e-3,
            "{interval:?}"
        );
        let difference = difference_interval(&FAST, &SLOW).unwrap();
        // p = 0.041: zero lies just outside.
        assert!(difference.low > 0.0 && difference.low < 1.0, "{difference:?}");
        let ratio = ratio_interval(&FAST, &SLOW).unwrap();
        assert!(
            ratio.low > 1.0 && ratio.low < 1.01 && ratio.high > 1.09,
            "{ratio:?}"
        );
        let point = ratio_interval(&[2.0, 2.0], &[1.0, 1.0]).unwrap();
        assert!((point.low - 2.0).abs() < 1e-12 && (point.high - 2.0).abs() < 1e-12);
        assert_eq!(
            ratio_interval(&[0.0, 0.0], &SLOW).unwrap_err().code(),
            "out_of_range"
        );
        assert_eq!(mean_interval(&[1.0]).unwrap_err().code(), "too_few_values");
    }

    #[test]
    fn holm_keeps_one_and_grows_with_many() {
        assert_eq!(holm(&[0.04]), [0.04]);
        let adjusted = holm(&[0.01, 0.04, 0.03]);
        let expected = [0.03, 0.06, 0.06];
        for (found, wanted) in adjusted.iter().zip(expected) {
            assert!((found - wanted).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut values in prop::collection::vec(-1e6_f64..1e6, 2..40)) {
            let forward = (mean(&values).unwrap(), sd(&values).unwrap(), median(&values).unwrap());
            values.reverse();
            prop_assert!((mean(&values).unwrap() - forward.0).abs() < 1e-6);
            prop_assert!((sd(&values).unwrap() - forward.1).abs() < 1e-6);
            prop_assert!((median(&values).unwrap() - forward.2).abs() < 1e-6);
        }

        #[test]
        fn a_shift_moves_the_mean_and_leaves_the_spread(
            values in prop::collection::vec(-1e3_f64..1e3, 2..40), shift in -1e3_f64..1e3,
        ) {
            let moved: Vec<f64> = values.iter().map(|value| value + shift).collect();
            prop_assert!((mean(&moved).unwrap() - mean(&values).unwrap() - shift).abs() < 1e-8);
            prop_assert!((sd(&moved).unwrap() - sd(&values).unwrap()).abs() < 1e-8);
        }

        #[test]
        fn swapping_the_samples_turns_the_sign_alone(
            a in prop::collection::vec(0.0_f64..1e3, 2..20), b in prop::collection::vec(0.0_f64..1e3, 2..20),
        ) {
            if let (Ok(one), Ok(other)) = (welch(&a, &b), welch(&b, &a)) {
                prop_assert!((one.t + other.t).abs() <= 1e-9 * one.t.abs().max(1.0));
                prop_assert!((one.p_two_sided - other.p_two_sided).abs() < 1e-9);
                prop_assert!((0.0..=1.0).contains(&one.p_two_sided));
            }
        }

        #[test]
        fn wilson_holds_the_share_and_narrows_with_more_trials(successes in 0_u64..200, extra in 0_u64..200) {
            let trials = successes + extra + 1;
            let few = wilson(successes, trials).unwrap();
            let many = wilson(successes * 10, trials * 10).unwrap();
            let share = successes as f64 / trials as f64;
            prop_assert!(0.0 <= few.low && few.low <= share && share <= few.high && few.high <= 1.0);
            prop_assert!(many.high - many.low < few.high - few.low);
        }

        #[test]
        fn mcnemar_is_symmetric_and_falls_as_the_split_grows(few in 0_u64..50, many in 0_u64..50) {
            let one = mcnemar(few, many).unwrap().p_two_sided;
            prop_assert!((one - mcnemar(many, few).unwrap().p_two_sided).abs() < 1e-12);
            let (low, high) = (few.min(many), few.max(many));
            prop_assert!(mcnemar(low, high + 1).unwrap().p_two_sided <= one + 1e-12);
        }
    }
}
