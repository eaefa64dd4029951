//! What the device does: matrix products in the three layouts of training, values first, and copy bandwidth.

use std::time::{Duration, Instant};

use tch::{Device, Kind, Tensor};
use tunesmith_protocol::{
    CalibrateJob, Calibration, CopyBandwidth, DType, GemmMeasurement, Layout, Outcome, ValueCheck,
};

use crate::error::JobError;
use crate::model::kind_of;
use crate::out::{Stop, progress};
use crate::values;

/// Rows of a product that are compared with float64.
const CHECKED_ROWS: i64 = 8;
/// Side of the product that is timed where bf16 is imitated: large enough to be a product, small enough to end.
const EMULATED_SIDE: i64 = 512;

/// What to time.
struct Plan {
    dtype: DType,
    layout: Layout,
    side: i64,
    warmup: u32,
    iterations: u32,
    emulated: bool,
}

/// Runs the calibration within its time box.
pub(crate) fn calibrate(
    job: &CalibrateJob,
    device_name: &str,
    device: Device,
    stop: &Stop,
) -> Result<Outcome, JobError> {
    let _guard = tch::no_grad_guard();
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(job.budget_secs.clamp(1.0, 3600.0));
    let plans = plans(job, device);
    let total = plans.len() as u64 + 2;
    let mut gemm = Vec::new();
    let mut time_boxed = false;
    for (done, plan) in plans.iter().enumerate() {
        if stop.requested().is_some() {
            return Err(JobError::Stopped);
        }
        // The first product always runs: a calibration without a figure says nothing.
        if Instant::now() > end && !gemm.is_empty() {
            time_boxed = true;
            break;
        }
        gemm.push(measure_gemm(plan, device, end));
        progress("calibrate", done as u64 + 1, total, "measurements", started);
    }
    time_boxed |= gemm
        .iter()
        .zip(&plans)
        .any(|(got, plan)| got.iterations < plan.iterations);
    let kernels = values::check_kernels(kernel_formats(job, device), device);
    progress("calibrate", total - 1, total, "measurements", started);
    let copy = measure_copy(device);
    progress("calibrate", total, total, "measurements", started);
    Ok(Outcome::Calibrate(Calibration {
        device: device_name.to_owned(),
        threads: tch::get_num_threads() as usize,
        gemm,
        kernels,
        copy,
        time_boxed,
    }))
}

/// The formats that training may use on a device: a processor trains in f32 unless it multiplies bf16 itself.
fn kernel_formats(job: &CalibrateJob, device: Device) -> &'static [DType] {
    if device != Device::Cpu {
        &[DType::F32, DType::Bf16, DType::F16]
    } else if job.bf16_in_hardware {
        &[DType::F32, DType::Bf16]
    } else {
        &[DType::F32]
    }
}

fn plans(job: &CalibrateJob, device: Device) -> Vec<Plan> {
    let on_cpu = device == Device::Cpu;
    // On a GPU the published protocol: 8192³, 10 warm-up and 50 timed products (M1).
    let (warmup, iterations) = if on_cpu { (2, 10) } else { (10, 50) };
    let side = job
        .gemm_side
        .unwrap_or_else(|| if on_cpu { cpu_side(job.budget_secs) } else { 8192 });
    let mut plans = Vec::new();
    for layout in [Layout::Nt, Layout::Nn, Layout::Tn] {
        plans.push(Plan {
            dtype: DType::F32,
            layout,
            side,
            warmup,
            iterations,
            emulated: false,
        });
    }
    if job.bf16_in_hardware || !on_cpu {
        for layout in [Layout::Nt, Layout::Nn, Layout::Tn] {
            plans.push(Plan {
                dtype: DType::Bf16,
                layout,
                side,
                warmup,
                iterations,
                emulated: false,
            });
        }
    } else {
        let side = side.min(EMULATED_SIDE);
        plans.push(Plan {
            dtype: DType::Bf16,
            layout: Layout::Nt,
            side,
            warmup: 1,
            iterations: 3,
            emulated: true,
        });
    }
    if !on_cpu {
        // On a GPU the bf16 products are the ones that matter: measure them first, inside the time box.
        plans.sort_by_key(|plan| plan.dtype == DType::F32);
    }
    plans
}

/// The largest side of a few whose six rounds of twelve products take about half of the time box.
fn cpu_side(budget_secs: f64) -> i64 {
    let probe = 384;
    let (a, b) = operands(Layout::Nt, probe, Kind::Float, Device::Cpu);
    let _ = a.matmul(&b);
    let started = Instant::now();
    for _ in 0..3 {
        let _ = a.matmul(&b);
    }
    let flops_per_sec = 3.0 * 2.0 * (probe as f64).powi(3) / started.elapsed().as_secs_f64().max(1e-6);
    [4096, 3072, 2048, 1536, 1024, 768]
        .into_iter()
        .find(|&side| 6.0 * 12.0 * 2.0 * (side as f64).powi(3) / flops_per_sec < budget_secs / 2.0)
        .unwrap_or(512)
}

/// Normal random operands whose product is `[side, side]`; which of them is a transposed view depends on the layout.
fn operands(layout: Layout, side: i64, kind: Kind, device: Device) -> (Tensor, Tensor) {
    let random = || Tensor::randn([side, side], (Kind::Float, device)).to_kind(kind);
    let (a, b) = (random(), random());
    match layout {
        Layout::Nn => (a, b),
        Layout::Nt => (a, b.tr()),
        Layout::Tn => (a.tr(), b),
    }
}

fn synchronize(device: Device) {
    if let Device::Cuda(index) = device {
        tch::Cuda::synchronize(index as i64);
    }
}

fn measure_gemm(plan: &Plan, device: Device, end: Instant) -> GemmMeasurement {
    tch::manual_seed(0);
    let (a, b) = operands(plan.layout, plan.side, kind_of(plan.dtype), device);
    let values = check_values(&a, &b, plan.dtype);
    let mut product = a.matmul(&b);
    for _ in 1..plan.warmup {
        product = a.matmul(&b);
    }
    synchronize(device);
    let mut times = Vec::with_capacity(plan.iterations as usize);
    let block = Instant::now();
    if device == Device::Cpu {
        for _ in 0..plan.iterations {
            let started = Instant::now();
            product = a.matmul(&b);
            times.push(started.elapsed().as_secs_f64());
            if Instant::now() > end && times.len() >= 3 {
                break;
            }
        }
    } else {
        for _ in 0..plan.iterations {
            product = a.matmul(&b);
        }
        synchronize(device);
    }
    let block_secs = block.elapsed().as_secs_f64();
    let iterations = if times.is_empty() {
        plan.iterations
    } else {
        times.len() as u32
    };
    if times.is_empty() {
        // Single products apart, since a synchronisation after each would slow the block above.
        for _ in 0..plan.iterations.min(20) {
            let started = Instant::now();
            product = a.matmul(&b);
            synchronize(device);
            times.push(started.elapsed().as_secs_f64());
        }
    }
    drop(product);
    times.sort_by(f64::total_cmp);
    let tflops = |secs: f64| 2.0 * (plan.side as f64).powi(3) / secs.max(1e-12) / 1e12;
    GemmMeasurement {
        dtype: plan.dtype,
        layout: plan.layout,
        side: plan.side,
        warmup: plan.warmup,
        iterations,
        mean_tflops: tflops(block_secs / f64::from(iterations)),
        best_tflops: tflops(times[0]),
        median_tflops: tflops(times[times.len() / 2]),
        emulated: plan.emulated,
        values,
    }
}

/// A few rows of the product against float64 on the CPU, from the same rounded operands (X8).
fn check_values(a: &Tensor, b: &Tensor, dtype: DType) -> ValueCheck {
    let rows = CHECKED_ROWS.min(a.size()[0]);
    let wide = |x: &Tensor| x.to_device(Device::Cpu).to_kind(Kind::Double);
    let got = wide(&a.matmul(b).narrow(0, 0, rows));
    let reference = wide(&a.narrow(0, 0, rows)).matmul(&wide(b));
    let largest = reference.abs().max().double_value(&[]);
    let max_error = (got - reference).abs().max().double_value(&[]) / largest;
    // f32: rounding of a sum of `side` terms stays near 1e-6 of the largest; a broken kernel is off by far more.
    // bf16 and f16: half a unit in the last place of the result is 2e-3 and 2.5e-4.
    let tolerance = match dtype {
        DType::F32 => 2e-5,
        DType::Bf16 => 8e-3,
        DType::F16 => 2e-3,
    };
    ValueCheck {
        max_error,
        tolerance,
        passed: max_error <= tolerance,
    }
}

fn measure_copy(device: Device) -> CopyBandwidth {
    // Far larger than any cache.
    let bytes: i64 = if device == Device::Cpu { 256 << 20 } else { 1 << 30 };
    let source = Tensor::ones([bytes / 4], (Kind::Float, device));
    let mut target = source.zeros_like();
    target.copy_(&source);
    synchronize(device);
    let iterations = 10;
    let mut times: Vec<f64> = (0..iterations)
        .map(|_| {
            let started = Instant::now();
            target.copy_(&source);
            synchronize(device);
            started.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let gib_per_sec = |secs: f64| 2.0 * bytes as f64 / secs.max(1e-12) / f64::from(1u32 << 30);
    CopyBandwidth {
        bytes: bytes as u64,
        iterations,
        best_gib_per_sec: gib_per_sec(times[0]),
        median_gib_per_sec: gib_per_sec(times[times.len() / 2]),
    }
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_measured_and_its_values_pass() {
        let job = CalibrateJob {
            budget_secs: 5.0,
            gemm_side: Some(64),
            bf16_in_hardware: false,
        };
        let Ok(Outcome::Calibrate(result)) = calibrate(&job, "cpu", Device::Cpu, &Stop::default()) else {
            panic!("a calibration")
        };
        let f32s: Vec<_> = result
            .gemm
            .iter()
            .filter(|gemm| gemm.dtype == DType::F32)
            .map(|gemm| gemm.layout)
            .collect();
        assert_eq!(f32s, [Layout::Nt, Layout::Nn, Layout::Tn]);
        assert!(
            result
                .gemm
                .iter()
                .all(|gemm| gemm.values.passed && gemm.best_tflops >= gemm.median_tflops)
        );
        assert!(
            result
                .gemm
                .iter()
                .any(|gemm| gemm.dtype == DType::Bf16 && gemm.emulated)
        );
        assert_eq!(result.kernels.len(), 6);
        assert!(result.kernels.iter().all(|check| check.values.passed));
        assert!(result.copy.best_gib_per_sec > 0.0);
    }

    #[test]
    fn wrong_values_fail_whatever_their_speed() {
        let (a, b) = operands(Layout::Nn, 32, Kind::Float, Device::Cpu);
        assert!(check_values(&a, &b, DType::F32).passed);
        // Operands rounded to bf16 and multiplied there are far outside f32's tolerance.
        let rounded = check_values(&a.to_kind(Kind::BFloat16), &b.to_kind(Kind::BFloat16), DType::F32);
        assert!(!rounded.passed, "{rounded:?}");
    }
}
