//! Which values are wrong (X8), and whether a calibration can be believed.

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{Calibration, DType, InputSize};

/// A value that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WrongValue {
    /// What computed it, for people: `bf16 product, nt layout`.
    pub what: String,
    /// In which format.
    pub dtype: DType,
    /// Largest error, as a share of the largest value.
    pub error: f64,
    /// Largest error that passes.
    pub tolerance: f64,
}

impl std::fmt::Display for WrongValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} is off by {:.1e}, and {:.1e} is allowed",
            self.what, self.error, self.tolerance
        )
    }
}

/// Everything that computed wrong values on the path that a training takes (X8): products, kernels, and the back end of
/// attention that torch dispatches. One that is never taken fails nothing.
pub fn wrong_values(calibration: &Calibration) -> Vec<WrongValue> {
    let products = calibration.gemm.iter().map(|gemm| {
        let what = format!("{} product, {} layout", gemm.dtype.name(), gemm.layout.name());
        (what, gemm.dtype, gemm.values)
    });
    let kernels = calibration.kernels.iter().map(|check| {
        let inputs = match check.inputs {
            InputSize::Ordinary => "",
            InputSize::Large => ", large inputs",
        };
        let what = format!("{} in {}{inputs}", check.kernel.label(), check.dtype.name());
        (what, check.dtype, check.values)
    });
    let attention = calibration
        .attention
        .iter()
        .filter(|of| of.dispatched)
        .filter_map(|of| {
            let what = format!("{} attention in {}", of.backend.name(), of.dtype.name());
            Some((what, of.dtype, of.values?))
        });
    products
        .chain(kernels)
        .chain(attention)
        .filter(|(_, _, values)| !values.passed)
        .map(|(what, dtype, values)| WrongValue {
            what,
            dtype,
            error: values.max_error,
            tolerance: values.tolerance,
        })
        .collect()
}

/// The first wrong value of a format, where there is one: training in that format must not begin, whatever its speed
/// (X8).
pub fn unusable(calibration: &Calibration, dtype: DType) -> Option<WrongValue> {
    wrong_values(calibration)
        .into_iter()
        .find(|wrong| wrong.dtype == dtype)
}

/// Whether a calibration can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// It can.
    Valid,
    /// It can, and something was left out or repeated less often than planned.
    CutShort,
    /// Other programs took part of the device meanwhile: its speeds are too low.
    Disturbed,
    /// Values are wrong, so that speeds count for nothing.
    WrongValues,
}

impl Validity {
    /// The word on a badge.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::CutShort => "cut short",
            Self::Disturbed => "disturbed",
            Self::WrongValues => "wrong values",
        }
    }
}

/// The validity of a calibration, and why; the worst that is true of it.
pub fn validity(calibration: &Calibration) -> (Validity, String) {
    if let Some(wrong) = wrong_values(calibration).first() {
        return (Validity::WrongValues, wrong.to_string());
    }
    match &calibration.contention {
        Some(seen) if seen.disturbed == Some(true) => {
            let who = if seen.others.is_empty() {
                "other programs".to_owned()
            } else {
                seen.others.join(", ")
            };
            return (
                Validity::Disturbed,
                format!("{who} used the device meanwhile, so its speeds are too low"),
            );
        }
        _ => {}
    }
    if calibration.time_boxed {
        let cut: Vec<&str> = calibration
            .stages
            .iter()
            .filter(|stage| stage.cut)
            .map(|stage| stage.stage.title())
            .collect();
        let what = if cut.is_empty() {
            "some measurements".to_owned()
        } else {
            cut.join("; ")
        };
        return (
            Validity::CutShort,
            format!("a time box left something out or repeated it less often: {what}"),
        );
    }
    let quiet = match calibration.contention.as_ref().and_then(|seen| seen.disturbed) {
        Some(_) => "all values are right, and the machine was quiet",
        None => "all values are right; whether the machine was quiet is not known",
    };
    (Validity::Valid, quiet.to_owned())
}
