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
    let error =
        |values: &[f64]| -> Result<f64, MeasureError> { Ok(sd(values)?.powi(2) / values.len() as f64) };
    enough("Welch's test", a, 2)?;
    enough("Welch's test", b, 2)?;
    let (error_a, error_b) = (error(a)?, error(b)?);
    let sum = error_a + error_b;
    if sum <= 0.0 {
        return Err(MeasureError::NoSpread { what: "Welch's test" });
    }
    let t = (mean(a)? - mean(b)?) / sum.sqrt();
    let df = sum.powi(2) / (error_a.powi(2) / (a.len() - 1) as f64 + error_b.powi(2) / (b.len() - 1) as f64);
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
