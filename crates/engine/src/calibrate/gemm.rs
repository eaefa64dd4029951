//! Square matrix products in the three layouts of training: values first, then the published protocol (M1) and single
//! products (X9).

use std::time::Instant;

use tch::{Device, Kind, Tensor};
use tunesmith_protocol::{CalibrateJob, DType, GemmMeasurement, Layout, ValueCheck};

use super::Formats;
use super::pace::Pace;
use super::timer::{self, Times, synchronize, tflops};
use crate::error::JobError;
use crate::model::kind_of;

/// Rows of a product that are compared with float64.
const CHECKED_ROWS: i64 = 8;
/// Side of the product that is timed where bf16 is imitated: large enough to be a product, small enough to end.
const EMULATED_SIDE: i64 = 512;
/// Side of the published protocol (M1).
const CARD_SIDE: i64 = 8192;
/// Single products that are timed on a card beside the block of the protocol.
const SINGLE: u32 = 20;

/// What to time.
struct Plan {
    dtype: DType,
    layout: Layout,
    side: i64,
    warmup: u32,
    iterations: u32,
    emulated: bool,
}

/// All products, the ones that training uses first.
pub(super) fn measure_all(
    job: &CalibrateJob,
    formats: Formats,
    device: Device,
    pace: &mut Pace,
) -> Result<Vec<GemmMeasurement>, JobError> {
    let plans = plans(job, formats, device, pace);
    let mut measured = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        pace.check()?;
        // The first product always runs: a calibration without a figure says nothing.
        if !measured.is_empty() && pace.cuts() {
            break;
        }
        measured.push(measure(plan, plans.len() - index, device, pace)?);
    }
    Ok(measured)
}

fn plans(job: &CalibrateJob, formats: Formats, device: Device, pace: &Pace) -> Vec<Plan> {
    let on_card = device != Device::Cpu;
    // On a card the published protocol: 8192³, 10 warm-up and 50 timed products (M1).
    let (warmup, iterations) = if on_card { (10, 50) } else { (2, 10) };
    let rounds = if formats.emulated { 3 } else { 6 };
    let side = job.gemm_side.unwrap_or_else(|| {
        if on_card {
            CARD_SIDE
        } else {
            cpu_side(rounds * (warmup + iterations), pace.left_secs())
        }
    });
    let in_format = |dtype| {
        [Layout::Nt, Layout::Nn, Layout::Tn].map(|layout| Plan {
            dtype,
            layout,
            side,
            warmup,
            iterations,
            emulated: false,
        })
    };
    let mut plans = Vec::new();
    plans.extend(in_format(formats.trains));
    if formats.emulated {
        plans.push(Plan {
            dtype: formats.half,
            layout: Layout::Nt,
            side: side.min(EMULATED_SIDE),
            warmup: 1,
            iterations: 3,
            emulated: true,
        });
    } else if formats.trains == DType::F32 {
        plans.extend(in_format(formats.half));
    } else {
        plans.extend(in_format(DType::F32));
    }
    plans
}

/// The largest side of a few whose products take two thirds of the time.
fn cpu_side(products: u32, secs: f64) -> i64 {
    let probe = 384;
    let (a, b) = operands(Layout::Nt, probe, Kind::Float, Device::Cpu);
    let _ = a.matmul(&b);
    let started = Instant::now();
    for _ in 0..3 {
        let _ = a.matmul(&b);
    }
    let flops_per_sec = 3.0 * operations(probe) / started.elapsed().as_secs_f64().max(1e-6);
    [4096, 3072, 2048, 1536, 1024, 768]
        .into_iter()
        .find(|&side| f64::from(products) * operations(side) / flops_per_sec < secs * 2.0 / 3.0)
        .unwrap_or(512)
}

/// Of a square product.
pub(super) fn operations(side: i64) -> f64 {
    2.0 * (side as f64).powi(3)
}

/// Normal random operands whose product is `[side, side]`; which of them is a transposed view depends on the layout.
pub(super) fn operands(layout: Layout, side: i64, kind: Kind, device: Device) -> (Tensor, Tensor) {
    let random = || Tensor::randn([side, side], (Kind::Float, device)).to_kind(kind);
    let (a, b) = (random(), random());
    match layout {
        Layout::Nn => (a, b),
        Layout::Nt => (a, b.tr()),
        Layout::Tn => (a.tr(), b),
    }
}

/// One product, in its share of the stage's time where `to_come` products are still to come, itself included.
fn measure(
    plan: &Plan,
    to_come: usize,
    device: Device,
    pace: &mut Pace,
) -> Result<GemmMeasurement, JobError> {
    tch::manual_seed(0);
    let (a, b) = operands(plan.layout, plan.side, kind_of(plan.dtype), device);
    let values = check_values(&a, &b, plan.dtype);
    // The check has loaded what the product needs, so that this one is like those that follow.
    let once = timer::secs(device, || drop(a.matmul(&b)));
    let fitting = |share: f64| (share * pace.left_secs() / to_come as f64 / once.max(1e-9)) as u32;
    let warmup = plan.warmup.min(fitting(0.2).max(1));
    let iterations = plan.iterations.min(fitting(0.6).max(3));
    for _ in 1..warmup {
        pace.check()?;
        drop(a.matmul(&b));
    }
    let (block_secs, times) = if device == Device::Cpu {
        one_by_one(&a, &b, iterations, device, pace)?
    } else {
        let block_secs = timer::secs(device, || {
            for _ in 0..iterations {
                drop(a.matmul(&b));
            }
        });
        pace.check()?;
        // Single products apart, since a synchronisation after each would slow the block above.
        (
            block_secs,
            one_by_one(&a, &b, iterations.min(SINGLE), device, pace)?.1,
        )
    };
    synchronize(device);
    let iterations = if device == Device::Cpu {
        times.count() as u32
    } else {
        iterations
    };
    if iterations < plan.iterations {
        pace.cut_short();
    }
    let tflops = |secs: f64| tflops(operations(plan.side), secs);
    Ok(GemmMeasurement {
        dtype: plan.dtype,
        layout: plan.layout,
        side: plan.side,
        warmup,
        iterations,
        mean_tflops: tflops(block_secs / f64::from(iterations)),
        best_tflops: tflops(times.best()),
        median_tflops: tflops(times.median()),
        emulated: plan.emulated,
        values,
    })
}

/// Products one after the other, each timed, at least three of them: the time of all, and their times.
fn one_by_one(
    a: &Tensor,
    b: &Tensor,
    iterations: u32,
    device: Device,
    pace: &mut Pace,
) -> Result<(f64, Times), JobError> {
    let mut times = Vec::with_capacity(iterations as usize);
    for _ in 0..iterations {
        pace.check()?;
        if times.len() >= 3 && pace.is_over() {
            break;
        }
        times.push(timer::secs(device, || drop(a.matmul(b))));
    }
    Ok((times.iter().sum(), Times::new(times)))
}

/// A few rows of the product against float64 on the CPU, from the same rounded operands (X8).
fn check_values(a: &Tensor, b: &Tensor, dtype: DType) -> ValueCheck {
    let rows = CHECKED_ROWS.min(a.size()[0]);
    let wide = |x: &Tensor| x.to_device(Device::Cpu).to_kind(Kind::Double);
    let got = wide(&a.matmul(b).narrow(0, 0, rows));
    let reference = wide(&a.narrow(0, 0, rows)).matmul(&wide(b));
    // f32: rounding of a sum of `side` terms stays near 1e-6 of the largest; a broken kernel is off by far more.
    // bf16 and f16: half a unit in the last place of the result is 2e-3 and 2.5e-4.
    let tolerance = match dtype {
        DType::F32 => 2e-5,
        DType::Bf16 => 8e-3,
        DType::F16 => 2e-3,
    };
    super::values::compare(&[&got], &[&reference], tolerance)
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;

    #[test]
    fn wrong_values_fail_whatever_their_speed() {
        let (a, b) = operands(Layout::Nn, 32, Kind::Float, Device::Cpu);
        assert!(check_values(&a, &b, DType::F32).passed);
        // Operands rounded to bf16 and multiplied there are far outside f32's tolerance.
        let rounded = check_values(&a.to_kind(Kind::BFloat16), &b.to_kind(Kind::BFloat16), DType::F32);
        assert!(!rounded.passed, "{rounded:?}");
    }
}
