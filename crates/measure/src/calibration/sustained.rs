//! Whether a device keeps its speed once it is hot (X9).

use serde::{Deserialize, Serialize};
use tunesmith_protocol::Calibration;

use crate::Tflops;

/// Time that a device needs to show whether it keeps its speed, in seconds (X9, numbers 3.4).
pub const SUSTAINED_SECS: f64 = 30.0;
/// A sustained speed that lies further below the short one than this is throttled (X9).
pub const THROTTLED_DROP: f64 = 0.05;

/// Whether a device keeps its speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steadiness {
    /// It does.
    Steady,
    /// So far it does; the time was too short to know.
    SteadySoFar,
    /// It does not.
    Throttled,
    /// It became slower, and other programs took time from it meanwhile: either may be the cause.
    Disturbed,
}

impl Steadiness {
    /// In a word or two.
    pub fn label(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::SteadySoFar => "steady so far",
            Self::Throttled => "throttled",
            Self::Disturbed => "slower, but disturbed",
        }
    }
}

/// A sustained speed beside the short one of the same product.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sustainment {
    /// Mean speed of the last third, when the device is as hot as it gets here.
    pub sustained: Tflops,
    /// Mean of the short measurement of the same product (M1).
    pub reference: Tflops,
    /// Share by which the first lies below the second; negative where it lies above.
    pub drop: f64,
    /// How long it ran, in seconds.
    pub secs: f64,
    /// What that means.
    pub steadiness: Steadiness,
}

/// Whether the device keeps its speed (X9): the last third of the sustained product against the short measurement of
/// the same one. `None` where either is missing.
pub fn sustainment(calibration: &Calibration) -> Option<Sustainment> {
    let sustained = calibration.sustained.as_ref()?;
    let short = calibration.gemm.iter().find(|gemm| {
        (gemm.dtype, gemm.layout, gemm.side) == (sustained.dtype, sustained.layout, sustained.side)
    })?;
    let secs = sustained.points.last()?.at_secs;
    // Each point is the mean of a stretch; stretches differ in length where products are long.
    let mut began = 0.0;
    let (mut work, mut time) = (0.0, 0.0);
    for point in &sustained.points {
        let length = point.at_secs - began;
        began = point.at_secs;
        if point.at_secs > secs * 2.0 / 3.0 {
            work += point.tflops * length;
            time += length;
        }
    }
    let speed = work / time;
    let drop = 1.0 - speed / short.mean_tflops;
    if !drop.is_finite() {
        return None;
    }
    let disturbed = calibration
        .contention
        .as_ref()
        .is_some_and(|seen| seen.disturbed == Some(true));
    let steadiness = match (drop > THROTTLED_DROP, disturbed) {
        (true, false) => Steadiness::Throttled,
        (true, true) => Steadiness::Disturbed,
        // The last product may end a moment before the time does.
        (false, _) if secs >= 0.95 * SUSTAINED_SECS => Steadiness::Steady,
        (false, _) => Steadiness::SteadySoFar,
    };
    Some(Sustainment {
        sustained: Tflops(speed),
        reference: Tflops(short.mean_tflops),
        drop,
        secs,
        steadiness,
    })
}
