//! The thresholds of the judge, read from `assets/knowledge/judge.toml`, which says of each why and from where.

use serde::{Deserialize, Serialize};

use crate::MeasureError;

const BUNDLED: &str = include_str!("../../../../assets/knowledge/judge.toml");

/// A row of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// The name of a field of [`Thresholds`].
    pub id: String,
    /// Its value.
    pub value: f64,
    /// What the value is counted in.
    pub unit: String,
    /// Why it is what it is.
    pub reason: String,
    /// Where it comes from; `own` where it is Tunesmith's own choice.
    pub source: String,
    /// The date of that, `2026-11-30`.
    pub as_of: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    threshold: Vec<Threshold>,
}

/// Where the judge draws its lines. Units, reasons and sources stand in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "each field is described by its row in the file, which a test demands"
)]
pub struct Thresholds {
    pub supervised_share_low: f64,
    pub answer_extra_tokens: f64,
    pub prompt_share_in_loss: f64,
    pub answer_share_missing: f64,
    pub first_loss_relative: f64,
    pub first_loss_relative_half: f64,
    pub first_loss_nats: f64,
    pub first_loss_with_adapter: f64,
    pub first_loss_above_chance: f64,
    pub plain_loss_relative: f64,
    pub plain_loss_relative_half: f64,
    pub gradient_difference: f64,
    pub gradient_difference_half: f64,
    pub not_finite_steps: f64,
    pub frozen_steps: f64,
    pub loss_window: f64,
    pub loss_diverged_factor: f64,
    pub loss_diverged_nats: f64,
    pub baseline_first_step: f64,
    pub baseline_last_step: f64,
    pub drift_window: f64,
    pub step_time_amber: f64,
    pub step_time_red: f64,
    pub step_time_shortest_secs: f64,
    pub memory_amber: f64,
    pub memory_red: f64,
}

impl Thresholds {
    /// Those that come with the program.
    ///
    /// # Errors
    /// [`MeasureError::Thresholds`] when the file lacks one or has one too many.
    pub fn bundled() -> Result<Self, MeasureError> {
        Self::from_rows(&Self::rows()?)
    }

    /// The rows of the bundled file, with reasons and sources.
    ///
    /// # Errors
    /// [`MeasureError::Thresholds`] when it cannot be read.
    pub fn rows() -> Result<Vec<Threshold>, MeasureError> {
        let file: File = toml::from_str(BUNDLED).map_err(|error| fault(&error))?;
        Ok(file.threshold)
    }

    fn from_rows(rows: &[Threshold]) -> Result<Self, MeasureError> {
        let table: toml::Table = rows
            .iter()
            .map(|row| (row.id.clone(), toml::Value::Float(row.value)))
            .collect();
        table.try_into().map_err(|error| fault(&error))
    }
}

fn fault(error: &toml::de::Error) -> MeasureError {
    MeasureError::Thresholds {
        reason: error.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_has_a_value_a_unit_a_reason_and_a_source() {
        let rows = Thresholds::rows().unwrap();
        let limits = Thresholds::bundled().unwrap();
        // Each row is a field and each field a row, none twice.
        let fields = toml::Table::try_from(&limits).unwrap();
        let mut ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, fields.keys().map(String::as_str).collect::<Vec<_>>());
        for row in &rows {
            assert!(row.value.is_finite() && row.value > 0.0, "{row:?}");
            for text in [&row.unit, &row.reason, &row.source] {
                assert!(text.len() >= 3 && !text.ends_with('.'), "{row:?}");
            }
            let date: Vec<&str> = row.as_of.split('-').collect();
            assert!(
                date.len() == 3 && date.iter().all(|part| part.parse::<u32>().is_ok()),
                "{row:?}"
            );
        }
        assert!(limits.step_time_amber < limits.step_time_red && limits.memory_amber < limits.memory_red);
    }

    #[test]
    fn a_file_that_lacks_a_threshold_is_refused_by_its_name() {
        let mut rows = Thresholds::rows().unwrap();
        let lost = rows.pop().unwrap();
        let error = Thresholds::from_rows(&rows).unwrap_err();
        assert!(error.to_string().contains(&lost.id), "{error}");
    }
}
