//! Quantities that are easily mixed up, each with a type of its own.

use serde::{Deserialize, Serialize};

/// 10¹² floating-point operations per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tflops(pub f64);

impl Tflops {
    /// Operations over seconds; `None` where the time is not above zero or a number is not finite.
    pub fn from_operations(operations: f64, secs: f64) -> Option<Self> {
        let value = operations / secs / 1e12;
        (secs > 0.0 && value.is_finite()).then_some(Self(value))
    }
}

/// 2³⁰ bytes. Never 10⁹: the two differ by 7 %.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gib(pub f64);

impl Gib {
    /// From bytes.
    pub fn from_bytes(bytes: u64) -> Self {
        Self::from_mean(bytes as f64)
    }

    /// From a mean or a difference of bytes, which need be neither whole nor positive.
    pub fn from_mean(bytes: f64) -> Self {
        Self(bytes / f64::from(1_u32 << 30))
    }
}

/// Model FLOPs utilisation: a share of a peak, 0.2 for 20 %.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mfu(pub f64);

impl Mfu {
    /// Speed reached over a peak; `None` where the peak is not above zero.
    pub fn from_speed(reached: Tflops, peak: Tflops) -> Option<Self> {
        let value = reached.0 / peak.0;
        (peak.0 > 0.0 && value.is_finite()).then_some(Self(value))
    }

    /// 20.0 for 20 %.
    pub fn percent(self) -> f64 {
        self.0 * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gib_is_two_to_the_thirtieth() {
        assert_eq!(Gib::from_bytes(1 << 30), Gib(1.0));
        // Weights of Qwen2.5-3B in bf16 (numbers 3.3).
        assert!((Gib::from_bytes(6_171_877_376).0 - 5.748).abs() < 5e-4);
    }

    #[test]
    fn a_product_of_8192_in_the_published_time_is_101_tflops() {
        // M1 and N1: 50 products of 8192³ in 0.5415 s.
        let reached = Tflops::from_operations(2.0 * 8192_f64.powi(3) * 50.0, 0.5415).unwrap();
        assert!((reached.0 - 101.53).abs() < 0.02, "{reached:?}");
        assert!((Mfu::from_speed(reached, Tflops(122.8)).unwrap().percent() - 82.7).abs() < 0.05);
    }

    #[test]
    fn no_time_and_no_peak_give_no_figure() {
        assert_eq!(Tflops::from_operations(1e12, 0.0), None);
        assert_eq!(Tflops::from_operations(f64::NAN, 1.0), None);
        assert_eq!(Mfu::from_speed(Tflops(1.0), Tflops(0.0)), None);
    }
}
