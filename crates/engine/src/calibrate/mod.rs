//! What the device does, stage by stage: values first, then speeds, each stage within a time box of its own.
//!
//! What is measured is what a training does: products in the three layouts of a linear layer, the attention that torch
//! dispatches, the memory that lies outside the allocator. Everything here runs on a processor too. What needs a card is not
//! yet run on one, neither by CUDA nor by ROCm.

mod allocator;
mod attention;
mod copy;
mod dispatch;
mod gemm;
mod linears;
mod pace;
mod sustained;
mod timer;
mod values;

use tch::Device;
use tunesmith_protocol::{CalibrateJob, Calibration, CalibrationStage, DType, Outcome, StageBudget};

use crate::error::JobError;
use crate::out::Stop;

use pace::Pace;

/// Runs the stages that the job asks for.
pub(crate) fn calibrate(
    job: &CalibrateJob,
    device_name: &str,
    device: Device,
    stop: &Stop,
) -> Result<Outcome, JobError> {
    let _guard = tch::no_grad_guard();
    let formats = Formats::of(job, device);
    let plan = stages(job, device);
    let mut pace = Pace::new(plan.clone(), job.budget_secs, stop);
    let mut result = Calibration {
        device: device_name.to_owned(),
        threads: tch::get_num_threads() as usize,
        ..Calibration::default()
    };
    for budget in plan {
        pace.begin()?;
        match budget.stage {
            CalibrationStage::Values => {
                result.kernels = values::check_kernels(formats.checked, device, &mut pace)?;
            }
            CalibrationStage::Gemm => {
                result.gemm = gemm::measure_all(job, formats, device, &mut pace)?;
            }
            CalibrationStage::Linears => {
                result.linears = linears::measure_all(job, formats.trains, device, &mut pace)?;
            }
            CalibrationStage::Attention => {
                result.attention = attention::measure_all(&formats.attention(), device, &mut pace)?;
            }
            CalibrationStage::Copy => result.copy = copy::measure(device, &mut pace)?,
            CalibrationStage::Allocator => result.allocator = allocator::measure(device),
            CalibrationStage::Sustained => {
                result.sustained = sustained::measure(&result.gemm, formats.trains, device, &mut pace)?;
            }
            // The parent's part.
            CalibrationStage::Variants => {}
        }
        pace.finish();
    }
    result.stages = pace.into_times();
    result.time_boxed = result.stages.iter().any(|stage| stage.cut);
    Ok(Outcome::Calibrate(result))
}

/// The stages that the job names, or all of them, shortened to the time that it gives.
fn stages(job: &CalibrateJob, device: Device) -> Vec<StageBudget> {
    if !job.stages.is_empty() {
        return job.stages.clone();
    }
    let mut plan = StageBudget::plan(device != Device::Cpu, false);
    let share = (job.budget_secs / StageBudget::total_secs(&plan)).min(1.0);
    for budget in &mut plan {
        budget.secs *= share;
    }
    plan
}

/// The number formats of a device.
#[derive(Clone, Copy)]
struct Formats {
    /// Those whose values are checked: all that training may use here.
    checked: &'static [DType],
    /// The one that training uses, whose speed matters most.
    trains: DType,
    /// The one of 16 bits that is timed beside f32.
    half: DType,
    /// Whether the device imitates that one.
    emulated: bool,
}

impl Formats {
    /// A processor trains in f32 and is measured in bf16 where it multiplies that itself; a card trains in bf16, or in
    /// f16 where it has no bf16 (RDNA2).
    fn of(job: &CalibrateJob, device: Device) -> Self {
        let on_card = device != Device::Cpu;
        let has_bf16 = job.bf16_in_hardware;
        let half = if on_card && !has_bf16 {
            DType::F16
        } else {
            DType::Bf16
        };
        Self {
            checked: match (on_card, has_bf16) {
                (true, true) => &[DType::F32, DType::Bf16, DType::F16],
                (true, false) => &[DType::F32, DType::F16],
                (false, true) => &[DType::F32, DType::Bf16],
                (false, false) => &[DType::F32],
            },
            trains: if on_card { half } else { DType::F32 },
            half,
            emulated: !on_card && !has_bf16,
        }
    }

    /// Those that attention is timed in: what is imitated tells nothing.
    fn attention(self) -> Vec<DType> {
        let mut formats = vec![self.trains];
        if self.trains != self.half && !self.emulated {
            formats.push(self.half);
        }
        formats
    }
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;
    use tunesmith_protocol::{AttentionBackend, Layout, Linear, OverheadSource};

    fn calibrated(job: &CalibrateJob) -> Calibration {
        crate::memory::start_counting();
        let Ok(Outcome::Calibrate(result)) = calibrate(job, "cpu", Device::Cpu, &Stop::default()) else {
            panic!("a calibration")
        };
        result
    }

    fn job() -> CalibrateJob {
        CalibrateJob {
            budget_secs: 6.0,
            gemm_side: Some(64),
            linears: vec![Linear {
                name: "down_proj".to_owned(),
                inputs: 96,
                outputs: 64,
            }],
            linear_tokens: Some(32),
            ..CalibrateJob::default()
        }
    }

    #[test]
    fn everything_is_measured_and_its_values_pass() {
        let result = calibrated(&job());
        let f32s = result.gemm.iter().filter(|gemm| gemm.dtype == DType::F32);
        let layouts: Vec<_> = f32s.map(|gemm| gemm.layout).collect();
        assert_eq!(layouts, [Layout::Nt, Layout::Nn, Layout::Tn]);
        assert!(
            result
                .gemm
                .iter()
                .all(|gemm| gemm.values.passed && gemm.best_tflops >= gemm.median_tflops)
        );
        assert!(result.gemm.iter().any(|gemm| gemm.emulated));
        assert_eq!(result.kernels.len(), 8);
        assert!(result.kernels.iter().all(|check| check.values.passed));
        let shapes: Vec<_> = result
            .linears
            .iter()
            .map(|linear| (linear.n, linear.k, linear.layout))
            .collect();
        assert_eq!(shapes[0], (64, 96, Layout::Nt));
        assert_eq!(shapes[1], (96, 64, Layout::Nn));
        assert_eq!((shapes[2].0, shapes[2].2), (96, Layout::Tn));
        assert_eq!(result.linears[0].m, 32, "as many tokens as were asked for");
        assert!(result.copy.best_gib_per_sec > 0.0);
        let overhead = result.allocator.unwrap();
        assert_eq!(overhead.source, OverheadSource::Process);
        assert!(overhead.used_bytes > overhead.allocator_bytes);
        let sustained = result.sustained.unwrap();
        assert!(sustained.points.iter().all(|point| point.tflops > 0.0));
        assert_eq!(result.stages.len(), 7);
    }

    #[test]
    fn the_attention_that_a_processor_dispatches_is_proven() {
        let job = CalibrateJob {
            stages: vec![StageBudget {
                stage: CalibrationStage::Attention,
                secs: 3.0,
            }],
            ..job()
        };
        let result = calibrated(&job);
        let of = |backend| {
            result
                .attention
                .iter()
                .find(|of| of.backend == backend)
                .unwrap_or_else(|| panic!("{backend:?}"))
        };
        let flash = of(AttentionBackend::Flash);
        assert!(flash.dispatched, "{flash:?}");
        let proof = flash.proof.as_deref().unwrap();
        assert!(proof.contains("FlashAttentionForCpu"), "{proof}");
        let math = of(AttentionBackend::Math);
        assert!(!math.dispatched);
        assert!(!math.proof.as_deref().unwrap().contains("Flash"), "{math:?}");
        for measured in [flash, math] {
            assert!(measured.values.unwrap().passed, "{measured:?}");
            assert!(measured.forward_secs.unwrap() > 0.0 && measured.backward_secs.unwrap() > 0.0);
        }
        assert!(
            math.peak_bytes > flash.peak_bytes,
            "all scores lie in memory: {math:?}, {flash:?}"
        );
        for absent in [AttentionBackend::Efficient, AttentionBackend::Cudnn] {
            assert!(of(absent).unavailable.is_some());
        }
        assert!(
            result.gemm.is_empty() && result.kernels.is_empty(),
            "one stage alone"
        );
    }

    #[test]
    fn a_stage_without_time_leaves_out_and_says_so() {
        let result = calibrated(&CalibrateJob {
            stages: vec![
                StageBudget {
                    stage: CalibrationStage::Gemm,
                    secs: 0.0,
                },
                StageBudget {
                    stage: CalibrationStage::Linears,
                    secs: 0.0,
                },
            ],
            ..job()
        });
        assert!(result.time_boxed);
        assert_eq!(
            result.gemm.len(),
            1,
            "a calibration without a figure says nothing"
        );
        assert!(result.linears.is_empty());
    }

    #[test]
    fn a_card_without_bf16_is_measured_in_f16() {
        let card = Device::Cuda(0);
        let formats = Formats::of(&CalibrateJob::default(), card);
        assert_eq!(
            (formats.trains, formats.half, formats.emulated),
            (DType::F16, DType::F16, false)
        );
        assert!(!formats.checked.contains(&DType::Bf16));
        let job = CalibrateJob {
            bf16_in_hardware: true,
            ..CalibrateJob::default()
        };
        assert_eq!(Formats::of(&job, card).trains, DType::Bf16);
        assert_eq!(
            Formats::of(&job, Device::Cpu).attention(),
            [DType::F32, DType::Bf16]
        );
    }
}
