//! Laws that a sweep's points are fitted with, so that a point that was not run can be predicted and then probed (S7).

use serde::{Deserialize, Serialize};

use crate::{MeasureError, stats};

/// A measured point of a sweep over two batch sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchPoint {
    /// Sequences of a step, B_g.
    pub sequences: f64,
    /// Sequences of one backward pass, B_b.
    pub backward_batch: f64,
    /// Wall time of the step, in seconds.
    pub step_secs: f64,
}

/// T = a₁ + a₂·B_g + a₃·B_g÷B_b: what a step costs by itself, for a sequence and for a backward pass (numbers 1.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTimeLaw {
    /// Seconds of a step by itself, a₁.
    pub step: f64,
    /// Seconds for a sequence, a₂.
    pub sequence: f64,
    /// Seconds for a backward pass, a₃.
    pub pass: f64,
    /// Share of the times' spread that the law explains, R².
    pub r_squared: f64,
    /// Measured over predicted, less one, point by point: 0.03 is 3 % slower than the law says.
    pub residuals: Vec<f64>,
}

impl StepTimeLaw {
    /// The law that fits the points best by least squares.
    ///
    /// # Errors
    /// [`MeasureError`] with fewer than four points (three would be met whatever they are), or where the points do not
    /// tell the three causes apart.
    pub fn fit(points: &[BatchPoint]) -> Result<Self, MeasureError> {
        if points.len() < 4 {
            return Err(MeasureError::TooFew {
                what: "a step-time law",
                needed: 4,
                got: points.len(),
            });
        }
        let causes = |point: &BatchPoint| [1.0, point.sequences, point.sequences / point.backward_batch];
        let rows: Vec<([f64; 3], f64)> = points
            .iter()
            .map(|point| (causes(point), point.step_secs))
            .collect();
        let [step, sequence, pass] = least_squares(&rows)?;
        let law = Self {
            step,
            sequence,
            pass,
            r_squared: 0.0,
            residuals: Vec::new(),
        };
        let times: Vec<f64> = points.iter().map(|point| point.step_secs).collect();
        let predicted = |point: &BatchPoint| law.step_secs(point.sequences, point.backward_batch);
        let centre = stats::mean(&times)?;
        let spread: f64 = times.iter().map(|time| (time - centre).powi(2)).sum();
        let left: f64 = points
            .iter()
            .map(|point| (point.step_secs - predicted(point)).powi(2))
            .sum();
        Ok(Self {
            r_squared: 1.0 - left / spread,
            residuals: points
                .iter()
                .map(|point| point.step_secs / predicted(point) - 1.0)
                .collect(),
            ..law
        })
    }

    /// Seconds of a step with so many sequences, in backward passes of so many.
    pub fn step_secs(&self, sequences: f64, backward_batch: f64) -> f64 {
        self.step + self.sequence * sequences + self.pass * sequences / backward_batch
    }

    /// The largest residual, whatever its sign.
    pub fn worst_residual(&self) -> f64 {
        self.residuals
            .iter()
            .fold(0.0, |worst, residual| f64::max(worst, residual.abs()))
    }
}

/// Coefficients with the least sum of squared differences, by the normal equations; there are few enough of them.
fn least_squares<const N: usize>(rows: &[([f64; N], f64)]) -> Result<[f64; N], MeasureError> {
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (causes, value) in rows {
        for i in 0..N {
            right[i] += causes[i] * value;
            for j in 0..N {
                matrix[i][j] += causes[i] * causes[j];
            }
        }
    }
    for column in 0..N {
        let largest = (column..N)
            .max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))
            .unwrap_or(column);
        matrix.swap(column, largest);
        right.swap(column, largest);
        let pivot = matrix[column][column];
        // Against the first pivot's size this is rounding.
        if !pivot.is_finite() || pivot.abs() < 1e-9 {
            return Err(MeasureError::NoSpread {
                what: "a step-time law",
            });
        }
        for row in 0..N {
            if row != column {
                let factor = matrix[row][column] / pivot;
                let subtracted = matrix[column];
                for (value, subtracted) in matrix[row].iter_mut().zip(subtracted) {
                    *value -= factor * subtracted;
                }
                right[row] -= factor * right[column];
            }
        }
    }
    Ok(std::array::from_fn(|index| right[index] / matrix[index][index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::published;

    fn points() -> Vec<BatchPoint> {
        let published = published();
        let point = |point: &crate::published::SweepPoint| BatchPoint {
            sequences: point.generation_batch,
            backward_batch: point.backward_batch,
            step_secs: point.generation_batch * published.tokens_per_sequence / point.tokens_per_sec,
        };
        published.sweep.iter().map(point).collect()
    }

    #[test]
    fn the_published_sweep_is_met_within_3_3_percent() {
        let seven: Vec<BatchPoint> = points()
            .into_iter()
            .filter(|point| (point.sequences, point.backward_batch) != (256.0, 8.0))
            .collect();
        assert_eq!(seven.len(), 7);
        let law = StepTimeLaw::fit(&seven).unwrap();
        assert!(law.worst_residual() <= 0.033, "{law:?}");
        assert!(law.r_squared > 0.99, "{law:?}");
        // The source gives 10.829 s, 0.3579 s and 0.1702 s.
        assert!((law.step - 10.83).abs() < 0.2, "{law:?}");
        assert!((law.sequence - 0.358).abs() < 0.005, "{law:?}");
        assert!((law.pass - 0.170).abs() < 0.005, "{law:?}");
        // What was then probed: 256 sequences in passes of eight.
        let probe = points()[7];
        assert!(
            (law.step_secs(256.0, 8.0) / probe.step_secs - 1.0).abs() < 0.07,
            "{law:?}"
        );
    }

    #[test]
    fn a_law_that_made_the_points_is_found_again() {
        let made = |sequences: f64, backward_batch: f64| BatchPoint {
            sequences,
            backward_batch,
            step_secs: 3.0 + 0.5 * sequences + 0.25 * sequences / backward_batch,
        };
        let law =
            StepTimeLaw::fit(&[made(8.0, 1.0), made(8.0, 4.0), made(32.0, 2.0), made(64.0, 8.0)]).unwrap();
        assert!(
            (law.step - 3.0).abs() < 1e-6 && (law.pass - 0.25).abs() < 1e-6,
            "{law:?}"
        );
        assert!(law.worst_residual() < 1e-9 && (law.r_squared - 1.0).abs() < 1e-9);
    }

    #[test]
    fn points_that_do_not_tell_the_causes_apart_are_refused() {
        let same = BatchPoint {
            sequences: 8.0,
            backward_batch: 2.0,
            step_secs: 5.0,
        };
        assert_eq!(StepTimeLaw::fit(&[same; 4]).unwrap_err().code(), "no_spread");
        assert_eq!(StepTimeLaw::fit(&[same; 3]).unwrap_err().code(), "too_few_values");
    }
}
