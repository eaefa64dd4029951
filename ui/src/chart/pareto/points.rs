//! A configuration in the chart, with its repeats.

use tunesmith_measure::pareto::Tradeoff;
use tunesmith_measure::{Gib, stats};
use tunesmith_report::format::number;

/// How a point was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointState {
    /// Measured, and to be believed.
    Measured,
    /// Computed before a run.
    Predicted,
    /// Measured, and not to be believed for this reason.
    Invalid(String),
    /// The run did not get as far, for this reason.
    Failed(String),
}

impl PointState {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Measured => "measured".to_owned(),
            Self::Predicted => "predicted".to_owned(),
            Self::Invalid(reason) => format!("invalid: {reason}"),
            Self::Failed(reason) => format!("failed: {reason}"),
        }
    }
}

/// A configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ParetoPoint {
    /// Its name.
    pub name: String,
    /// Peak memory in GiB, one value for each repeat. Without any the point cannot be drawn, only counted.
    pub vram_gib: Vec<f64>,
    /// Real tokens per second, one value for each repeat; none where the run failed.
    pub tokens_per_sec: Vec<f64>,
    /// How it was come by.
    pub state: PointState,
}

impl ParetoPoint {
    pub(super) fn vram(&self) -> Option<f64> {
        stats::mean(&self.vram_gib).ok()
    }

    pub(super) fn speed(&self) -> Option<f64> {
        stats::mean(&self.tokens_per_sec).ok()
    }

    /// For those that can be on the frontier.
    pub(super) fn tradeoff(&self) -> Option<Tradeoff> {
        if self.state != PointState::Measured {
            return None;
        }
        Some(Tradeoff {
            vram: Gib(self.vram()?),
            tokens_per_sec: self.speed()?,
        })
    }

    /// `1,234 ± 12 tokens/s, 7.80 GiB`.
    pub(super) fn figures(&self) -> String {
        let speed = self.speed().map(|speed| match stats::sd(&self.tokens_per_sec) {
            Ok(sd) => format!(
                "{} ± {} tokens/s over {} repeats",
                number(speed),
                number(sd),
                self.tokens_per_sec.len()
            ),
            Err(_) => format!("{} tokens/s", number(speed)),
        });
        let vram = self.vram().map(|vram| format!("{} GiB", number(vram)));
        let known: Vec<String> = [speed, vram].into_iter().flatten().collect();
        if known.is_empty() {
            "no figures".to_owned()
        } else {
            known.join(", ")
        }
    }
}
