//! What a calibration says in words: the sentence that opens the page, the peaks of each format, and the whole of it as
//! text. Every figure comes from the record, through `tunesmith_measure`.

use tunesmith_lab::pipeline::StoredCalibration;
use tunesmith_measure::{
    Mfu, Peaks, Tflops,
    calibration::{outside_allocator_bytes, own_layers, sustainment, validity, wrong_values},
    practical_peak,
};
use tunesmith_probe::Gpu;
use tunesmith_protocol::{Calibration, DType, GemmMeasurement, KernelCheck, Layout};
use tunesmith_report::format::{duration, number, percent, plural, significant, size};

/// A measurement, and how old it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The record.
    pub calibration: StoredCalibration,
    /// How old it was when it was read, in seconds; none where that is not known.
    pub age_secs: Option<f64>,
    /// When that was, in seconds of the window's clock.
    pub aged_at_secs: f64,
    /// What the log warned of while it was taken; known of those of this window alone.
    pub warnings: Vec<String>,
}

impl Measured {
    /// What was measured.
    pub fn result(&self) -> &Calibration {
        &self.calibration.record.result
    }

    /// `measured 3 h 05 min ago`.
    pub fn age(&self, now_secs: f64) -> String {
        let Some(age) = self
            .age_secs
            .map(|age| age + (now_secs - self.aged_at_secs).max(0.0))
        else {
            return "measured earlier".to_owned();
        };
        let days = (age / 86_400.0).floor();
        if age < 60.0 {
            "measured just now".to_owned()
        } else if days >= 2.0 {
            format!("measured {days:.0} days ago")
        } else {
            // Seconds of a measurement that is minutes old say nothing.
            format!("measured {} ago", duration((age / 60.0).floor() * 60.0))
        }
    }
}

/// A format with its two peaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FormatPeaks {
    pub(super) dtype: DType,
    pub(super) peaks: Peaks,
}

/// A measurement in words.
pub struct Words<'a> {
    result: &'a Calibration,
    gpu: Option<&'a Gpu>,
    /// The format that training uses on this device.
    trains_in: Option<DType>,
}

impl<'a> Words<'a> {
    /// Of a measurement on a card, with what its spec sheet says; `gpu` is not counted for a measured processor.
    pub fn new(result: &'a Calibration, gpu: Option<&'a Gpu>, trains_in: Option<DType>) -> Self {
        let gpu = gpu.filter(|_| result.device != "cpu");
        Self {
            result,
            gpu,
            trains_in,
        }
    }

    /// `card` or `processor`.
    pub fn device(&self) -> &'static str {
        if self.result.device == "cpu" {
            "processor"
        } else {
            "card"
        }
    }

    /// How the spec sheet's peak came about.
    pub(super) fn spec_how(&self) -> Option<&'a str> {
        self.gpu?.peak.as_ref().map(|peak| peak.how.as_str())
    }

    /// The formats that have a measured peak, the one that training uses first.
    pub(super) fn formats(&self) -> Vec<FormatPeaks> {
        let mut formats: Vec<FormatPeaks> = [DType::Bf16, DType::F16, DType::F32]
            .into_iter()
            .filter_map(|dtype| {
                let practical = practical_peak(self.result, dtype)?.tflops;
                Some(FormatPeaks {
                    dtype,
                    peaks: Peaks {
                        theoretical: self.spec_peak(dtype),
                        practical: Some(practical),
                    },
                })
            })
            .collect();
        formats.sort_by_key(|format| Some(format.dtype) != self.trains_in);
        formats
    }

    fn spec_peak(&self, dtype: DType) -> Option<Tflops> {
        let peak = self.gpu?.peak.as_ref()?;
        let flops = match dtype {
            DType::Bf16 => peak.bf16_flops_per_sec,
            DType::F16 => peak.fp16_flops_per_sec,
            DType::F32 => None,
        }?;
        Tflops::from_operations(flops, 1.0)
    }

    /// The sentence that opens the page.
    pub fn title(&self) -> String {
        let device = self.device();
        if let Some(wrong) = self.first_wrong() {
            return format!("This {device} computes wrong values: {wrong}");
        }
        let Some(FormatPeaks { dtype, peaks }) = self.formats().first().copied() else {
            return format!("This {device} has no measured peak");
        };
        let name = dtype.name();
        match (peaks.practical, peaks.theoretical) {
            (Some(practical), Some(spec)) => {
                format!(
                    "This {device} does {} of its {} TFLOPS in {name}",
                    tflops(practical),
                    tflops(spec)
                )
            }
            (Some(practical), None) => format!(
                "This {device} does {} TFLOPS in {name}; its spec-sheet peak is not known",
                tflops(practical)
            ),
            (None, _) => format!("This {device} has no measured peak"),
        }
    }

    /// What it means for a training, in a sentence.
    pub fn meaning(&self) -> String {
        if self.first_wrong().is_some() {
            return "Cure this before training: a wrong value fails the path whatever its speed".to_owned();
        }
        let Some(FormatPeaks { dtype, peaks }) = self.formats().first().copied() else {
            return "Without a measured peak no training can say how much of the device it uses".to_owned();
        };
        let Some(practical) = peaks.practical else {
            return String::new();
        };
        let counted = format!(
            "The MFU of a training is counted against the measured {} TFLOPS in {}, the most that matrix products reach here",
            tflops(practical),
            dtype.name()
        );
        match (peaks.bias(), peaks.dual_reporting_matters()) {
            (Some(bias), Some(true)) => format!(
                "{counted}; against the spec sheet the same training looks {} worse, which no software can change",
                percent(bias)
            ),
            (Some(_), Some(false)) => format!("{counted}; the spec sheet says nearly the same"),
            _ => counted,
        }
    }

    /// The share of the spec sheet's peak, for the leading format.
    pub(super) fn share(&self) -> Option<Mfu> {
        let peaks = self.formats().first()?.peaks;
        Mfu::from_speed(peaks.practical?, peaks.theoretical?)
    }

    /// What is wrong on the path that a training takes.
    pub(super) fn wrong(&self) -> Vec<String> {
        wrong_values(self.result)
            .iter()
            .map(|wrong| {
                format!(
                    "{}: off by {}, allowed is {}",
                    wrong.what,
                    number(wrong.error),
                    number(wrong.tolerance)
                )
            })
            .collect()
    }

    fn first_wrong(&self) -> Option<String> {
        wrong_values(self.result).first().map(|wrong| wrong.what.clone())
    }

    /// How many values were checked, in words.
    pub(super) fn checked(&self) -> String {
        let products = plural(self.result.gemm.len() as u64, "matrix product");
        let kernels = plural(self.result.kernels.len() as u64, "check");
        format!("{products} and {kernels} of attention, the LoRA layer and 4-bit weights agree with float64")
    }

    /// Formats that the device imitates.
    pub(super) fn emulated(&self) -> Vec<&'a GemmMeasurement> {
        self.result.gemm.iter().filter(|gemm| gemm.emulated).collect()
    }

    /// All of it as text, to paste elsewhere.
    pub fn text(&self, taken: &str) -> String {
        let mut lines = vec![
            self.title(),
            self.meaning(),
            format!("measured {taken}"),
            String::new(),
        ];
        for gemm in &self.result.gemm {
            let emulated = if gemm.emulated { ", emulated, no peak" } else { "" };
            lines.push(format!(
                "{} {} {}x{}: {} TFLOPS mean, {} median, {} best of {}; values {}{emulated}",
                gemm.dtype.name(),
                layout(gemm.layout).0,
                gemm.side,
                gemm.side,
                figure(gemm.mean_tflops),
                figure(gemm.median_tflops),
                figure(gemm.best_tflops),
                gemm.iterations,
                verdict(gemm.values.passed),
            ));
        }
        for check in &self.result.kernels {
            lines.push(format!(
                "{} {}, {} inputs: off by {}, values {}",
                check.dtype.name(),
                check.kernel.label(),
                inputs(check),
                number(check.values.max_error),
                verdict(check.values.passed)
            ));
        }
        for of in &self.result.attention {
            let taken = if of.dispatched { ", taken by torch" } else { "" };
            let millis =
                |secs: Option<f64>| secs.map_or_else(|| "–".to_owned(), |secs| figure(1000.0 * secs));
            lines.push(format!(
                "{} attention by {}: {} ms forward, {} ms backward{taken}; {}",
                of.dtype.name(),
                of.backend.name(),
                millis(of.forward_secs),
                millis(of.backward_secs),
                of.unavailable
                    .as_ref()
                    .or(of.proof.as_ref())
                    .map_or("", String::as_str)
            ));
        }
        for dtype in [DType::Bf16, DType::F16, DType::F32] {
            if let Some(speed) = own_layers(self.result, dtype) {
                lines.push(format!(
                    "own layers in {}: {} TFLOPS, from a cold cache",
                    dtype.name(),
                    figure(speed.0)
                ));
            }
        }
        lines.extend(
            sustainment(self.result)
                .map(|found| format!("sustained: {}", super::sustained::sentence(&found))),
        );
        if let Some(outside) = self.result.allocator.as_ref().and_then(outside_allocator_bytes) {
            lines.push(format!("outside the allocator: {}", size(outside)));
        }
        let copy = &self.result.copy;
        lines.push(format!(
            "copy: {} GiB/s best, {} median",
            figure(copy.best_gib_per_sec),
            figure(copy.median_gib_per_sec)
        ));
        let (word, why) = validity(self.result);
        lines.push(format!("{}: {why}", word.word()));
        lines.join("\n")
    }
}

/// Four digits: the title compares two figures that may be close.
pub(super) fn figure(value: f64) -> String {
    significant(value, 4)
}

fn tflops(value: Tflops) -> String {
    figure(value.0)
}

/// A layout's name, and where a training needs it.
pub(super) fn layout(layout: Layout) -> (&'static str, &'static str) {
    match layout {
        Layout::Nn => ("nn", "input gradient"),
        Layout::Nt => ("nt", "forward"),
        Layout::Tn => ("tn", "weight gradient"),
    }
}

pub(super) fn inputs(check: &KernelCheck) -> &'static str {
    match check.inputs {
        tunesmith_protocol::InputSize::Ordinary => "ordinary",
        tunesmith_protocol::InputSize::Large => "large",
    }
}

pub(super) fn verdict(passed: bool) -> &'static str {
    if passed { "right" } else { "wrong" }
}
