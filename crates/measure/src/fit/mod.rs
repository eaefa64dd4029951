//! Whether a training fits: the verdict on a prediction, what earlier runs say of the formula, the limit that a run gets
//! before it starts, the search for the largest batch, and the signs of a card that was too full.

mod correction;
mod limit;
mod search;
mod spill;

use serde::{Deserialize, Serialize};

pub use correction::{Correction, FORMULA_MARGIN, LEAST_MARGIN};
pub use limit::{CardMemory, HostMemory, LimitError, LimitRule, LimitWish, MemoryLimit, left_to_host};
pub use search::{Found, Search, Try};
pub use spill::{CardUse, Spill, SpillWatch};

/// Whether it fits into memory (X11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Even if the prediction is as wrong as it may be.
    Fits,
    /// Only if the prediction is right.
    Uncertain,
    /// Not even if the prediction is as wrong as it may be.
    DoesNotFit,
    /// The need or the limit is not known.
    Unknown,
}

impl Fit {
    /// The verdict on a need in bytes that may be wrong by `margin`, a share, into `limit` bytes.
    pub fn of(bytes: u64, margin: f64, limit: u64) -> Self {
        let (low, high) = (bytes as f64 * (1.0 - margin), bytes as f64 * (1.0 + margin));
        if high <= limit as f64 {
            Self::Fits
        } else if low > limit as f64 {
            Self::DoesNotFit
        } else {
            Self::Uncertain
        }
    }

    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Uncertain => "uncertain",
            Self::DoesNotFit => "does_not_fit",
            Self::Unknown => "unknown",
        }
    }

    /// What a need does, for people: it `fits`, `may not fit`, `does not fit`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Uncertain => "may not fit",
            Self::DoesNotFit => "does not fit",
            Self::Unknown => "is not known",
        }
    }

    /// The worse of two verdicts; what is not known says nothing against one that does not fit.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let rank = |fit: Self| match fit {
            Self::Fits => 0,
            Self::Unknown => 1,
            Self::Uncertain => 2,
            Self::DoesNotFit => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_limit_it_is_uncertain() {
        let at = |limit| Fit::of(10_000, 0.1, limit);
        assert_eq!(at(11_000), Fit::Fits);
        assert_eq!(at(10_999), Fit::Uncertain);
        assert_eq!(at(9_000), Fit::Uncertain);
        assert_eq!(at(8_999), Fit::DoesNotFit);
        assert_eq!(Fit::Fits.worse(Fit::Unknown), Fit::Unknown);
        assert_eq!(Fit::DoesNotFit.worse(Fit::Unknown), Fit::DoesNotFit);
        assert_eq!(
            serde_json::to_value(Fit::DoesNotFit).unwrap(),
            Fit::DoesNotFit.name()
        );
    }
}
