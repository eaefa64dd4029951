//! One product again and again, a figure for each second: a device that grows hot takes its clock back, and a training
//! lasts longer than any benchmark (X9).

use std::time::Instant;

use tch::Device;
use tunesmith_protocol::{DType, GemmMeasurement, Sustained, SustainedPoint};

use super::gemm::{operands, operations};
use super::pace::Pace;
use super::timer::{self, synchronize, tflops};
use crate::error::JobError;
use crate::model::kind_of;

/// Products that a card is given at once take about so long: short enough to be stopped, long enough to keep it busy.
const BATCH_SECS: f64 = 0.1;

/// The fastest of the measured products of this format, until the stage's time is over. `None` where none was measured.
pub(super) fn measure(
    gemm: &[GemmMeasurement],
    dtype: DType,
    device: Device,
    pace: &mut Pace,
) -> Result<Option<Sustained>, JobError> {
    let fastest = gemm
        .iter()
        .filter(|gemm| gemm.dtype == dtype && !gemm.emulated && gemm.values.passed)
        .max_by(|a, b| a.mean_tflops.total_cmp(&b.mean_tflops));
    let Some(of) = fastest else {
        pace.cut_short();
        return Ok(None);
    };
    tch::manual_seed(0);
    let (a, b) = operands(of.layout, of.side, kind_of(dtype), device);
    drop(a.matmul(&b));
    let once = timer::secs(device, || drop(a.matmul(&b)));
    let batch = if device == Device::Cpu {
        1
    } else {
        ((BATCH_SECS / once.max(1e-9)) as u32).clamp(1, 10_000)
    };
    pace.begin_box();
    let mut points = Vec::new();
    let (started, mut last, mut products) = (Instant::now(), 0.0, 0_u32);
    loop {
        for _ in 0..batch {
            drop(a.matmul(&b));
        }
        synchronize(device);
        products += batch;
        pace.check()?;
        let at_secs = started.elapsed().as_secs_f64();
        let over = pace.is_over();
        // The rest of the last second counts as a stretch of its own where it is long enough to say something.
        if at_secs - last >= 1.0 || (over && (points.is_empty() || at_secs - last >= 0.5)) {
            points.push(SustainedPoint {
                at_secs,
                tflops: tflops(operations(of.side) * f64::from(products), at_secs - last),
            });
            (last, products) = (at_secs, 0);
        }
        if over {
            break;
        }
    }
    if started.elapsed().as_secs_f64() < 0.8 * pace.planned_secs() {
        pace.cut_short();
    }
    Ok(Some(Sustained {
        dtype,
        layout: of.layout,
        side: of.side,
        points,
    }))
}
