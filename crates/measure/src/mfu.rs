//! Speed against both peaks, always together: a share of the spec sheet alone blames the software for what the card
//! never reaches, and a share of the measured peak alone hides a card that falls short (M2).

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{Calibration, DType, Layout};

use crate::{FlopCount, Mfu, Tflops};

/// The two peaks of a device for one number format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Of the spec sheet, where known.
    pub theoretical: Option<Tflops>,
    /// Measured by matrix products, where a calibration ran.
    pub practical: Option<Tflops>,
}

impl Peaks {
    /// Share of the spec sheet that matrix products do not reach: 1 − P_gemm ÷ P_spec (M2).
    pub fn bias(&self) -> Option<f64> {
        let ratio = self.ratio()?;
        Some(1.0 - ratio)
    }

    /// Whether the two differ so much that one alone misleads: P_gemm ÷ P_spec below 0.95 (M2).
    pub fn dual_reporting_matters(&self) -> Option<bool> {
        self.ratio().map(|ratio| ratio < 0.95)
    }

    fn ratio(&self) -> Option<f64> {
        Mfu::from_speed(self.practical?, self.theoretical?).map(|share| share.0)
    }
}

/// The measured peak of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PracticalPeak {
    /// Mean over the timed products, as M1 defines it.
    pub tflops: Tflops,
    /// The layout that reached it.
    pub layout: Layout,
    /// Side of the square product.
    pub side: i64,
}

/// The measured peak for a number format: the fastest layout by the mean of its timed products (M1). Emulated
/// arithmetic and products with wrong values are no peak.
pub fn practical_peak(calibration: &Calibration, dtype: DType) -> Option<PracticalPeak> {
    calibration
        .gemm
        .iter()
        .filter(|gemm| gemm.dtype == dtype && !gemm.emulated && gemm.values.passed)
        .filter(|gemm| gemm.mean_tflops.is_finite() && gemm.mean_tflops > 0.0)
        .max_by(|a, b| a.mean_tflops.total_cmp(&b.mean_tflops))
        .map(|gemm| PracticalPeak {
            tflops: Tflops(gemm.mean_tflops),
            layout: gemm.layout,
            side: gemm.side,
        })
}

/// One way of counting operations, against both peaks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MfuPair {
    /// Speed reached.
    pub tflops: Tflops,
    /// Share of the spec sheet's peak, where known.
    pub theoretical: Option<Mfu>,
    /// Share of the measured peak, where known.
    pub practical: Option<Mfu>,
}

/// Three ways of counting operations, each against both peaks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MfuReport {
    /// By 6·N·D, for comparison with published figures.
    pub six_nd: MfuPair,
    /// By what LoRA needs: the one to judge an engine by.
    pub lora_exact: MfuPair,
    /// By what the hardware did, recomputation included (HFU).
    pub hardware: MfuPair,
    /// The peaks that were divided by.
    pub peaks: Peaks,
    /// [`Peaks::bias`].
    pub bias: Option<f64>,
    /// [`Peaks::dual_reporting_matters`].
    pub dual_reporting_matters: Option<bool>,
}

impl MfuReport {
    /// Operations in `secs` against `peaks`; `None` where the time is not above zero.
    pub fn new(flops: &FlopCount, secs: f64, peaks: Peaks) -> Option<Self> {
        let pair = |operations: f64| {
            let tflops = Tflops::from_operations(operations, secs)?;
            let share = |peak: Option<Tflops>| peak.and_then(|peak| Mfu::from_speed(tflops, peak));
            Some(MfuPair {
                tflops,
                theoretical: share(peaks.theoretical),
                practical: share(peaks.practical),
            })
        };
        Some(Self {
            six_nd: pair(flops.six_nd)?,
            lora_exact: pair(flops.model())?,
            hardware: pair(flops.hardware())?,
            peaks,
            bias: peaks.bias(),
            dual_reporting_matters: peaks.dual_reporting_matters(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_protocol::{CopyBandwidth, GemmMeasurement, ValueCheck};

    fn gemm(dtype: DType, layout: Layout, mean_tflops: f64, emulated: bool, passed: bool) -> GemmMeasurement {
        GemmMeasurement {
            dtype,
            layout,
            side: 2048,
            warmup: 3,
            iterations: 10,
            mean_tflops,
            best_tflops: mean_tflops * 1.1,
            median_tflops: mean_tflops,
            emulated,
            values: ValueCheck {
                max_error: 1e-7,
                tolerance: 1e-5,
                passed,
            },
        }
    }

    #[test]
    fn the_published_card_falls_17_percent_short_of_its_sheet() {
        let peaks = Peaks {
            theoretical: Some(Tflops(122.8)),
            practical: Some(Tflops(101.53)),
        };
        assert!((peaks.bias().unwrap() - 0.173).abs() < 5e-4);
        assert_eq!(peaks.dual_reporting_matters(), Some(true));
    }

    #[test]
    fn three_counts_against_both_peaks() {
        // numbers 1.4, without recomputation: 18.8 % of the measured peak where 6ND says 27.2 %.
        let flops = FlopCount {
            forward: 3_240_385_052_672.0,
            backward: 3_315_647_643_648.0,
            recompute: 0.0,
            six_nd: 9_479_261_257_728.0,
        };
        let peaks = Peaks {
            theoretical: Some(Tflops(122.8)),
            practical: Some(Tflops(101.53)),
        };
        let report = MfuReport::new(&flops, 0.343, peaks).unwrap();
        assert!((report.lora_exact.practical.unwrap().percent() - 18.8).abs() < 0.05);
        assert!((report.six_nd.practical.unwrap().percent() - 27.2).abs() < 0.05);
        assert_eq!(report.hardware, report.lora_exact);
        assert!(report.lora_exact.theoretical < report.lora_exact.practical);
    }

    #[test]
    fn an_unknown_peak_stays_unknown() {
        let flops = FlopCount {
            forward: 1e12,
            backward: 1e12,
            recompute: 0.0,
            six_nd: 3e12,
        };
        let report = MfuReport::new(&flops, 1.0, Peaks::default()).unwrap();
        assert_eq!(
            report.lora_exact,
            MfuPair {
                tflops: Tflops(2.0),
                theoretical: None,
                practical: None
            }
        );
        assert_eq!((report.bias, report.dual_reporting_matters), (None, None));
        assert_eq!(MfuReport::new(&flops, 0.0, Peaks::default()), None);
    }

    #[test]
    fn emulated_and_wrong_products_are_no_peak() {
        let mut calibration = Calibration {
            device: "cpu".into(),
            threads: 2,
            gemm: vec![
                gemm(DType::F32, Layout::Nt, 0.10, false, true),
                gemm(DType::F32, Layout::Nn, 0.12, false, true),
                gemm(DType::F32, Layout::Tn, 0.90, false, false),
                gemm(DType::Bf16, Layout::Nt, 0.01, true, true),
            ],
            kernels: vec![],
            copy: CopyBandwidth {
                bytes: 1 << 28,
                iterations: 3,
                best_gib_per_sec: 10.0,
                median_gib_per_sec: 9.0,
            },
            time_boxed: false,
            ..Calibration::default()
        };
        let peak = practical_peak(&calibration, DType::F32).unwrap();
        assert_eq!((peak.tflops, peak.layout), (Tflops(0.12), Layout::Nn));
        assert_eq!(practical_peak(&calibration, DType::Bf16), None);
        calibration.gemm.clear();
        assert_eq!(practical_peak(&calibration, DType::F32), None);
    }
}
