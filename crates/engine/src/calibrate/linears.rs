//! Products of a model's own linear layers, from a cold cache: a square product of 8192 says what a card can do, these
//! say what a training of this model can ask of it (X9, numbers 3.4).

use tch::{Device, Kind, Tensor};
use tunesmith_protocol::{CalibrateJob, DType, Layout, Linear, LinearMeasurement};

use super::pace::Pace;
use super::timer::{self, Times, tflops};
use crate::error::JobError;
use crate::model::kind_of;

/// Written before each product: more than any cache holds (numbers 3.4).
const COLD_BYTES: i64 = 256 << 20;
/// Most repeats of one product.
const ITERATIONS: usize = 20;

/// Each layer in its three layouts.
pub(super) fn measure_all(
    job: &CalibrateJob,
    dtype: DType,
    device: Device,
    pace: &mut Pace,
) -> Result<Vec<LinearMeasurement>, JobError> {
    let linears = &job.linears;
    let mut measured = Vec::new();
    if linears.is_empty() {
        return Ok(measured);
    }
    // Tokens of a step that fills the device; a processor would take too long for as many.
    let full = if device == Device::Cpu { 512 } else { 4096 };
    let tokens = match job.linear_tokens {
        Some(tokens) if tokens < 1 => {
            return Err(JobError::Request("`linear_tokens` must be at least 1".into()));
        }
        tokens => tokens.unwrap_or(full),
    };
    let cold = Tensor::zeros([COLD_BYTES / 4], (Kind::Float, device));
    let mut to_come = 3 * linears.len();
    for linear in linears {
        for layout in [Layout::Nt, Layout::Nn, Layout::Tn] {
            pace.check()?;
            if pace.cuts() {
                return Ok(measured);
            }
            let product = Product::of(linear, layout, tokens, kind_of(dtype), device);
            let times = product.time(&cold, to_come, device, pace)?;
            to_come -= 1;
            let (m, n, k) = product.size();
            let tflops = |secs: f64| tflops(2.0 * m as f64 * n as f64 * k as f64, secs);
            measured.push(LinearMeasurement {
                name: linear.name.clone(),
                dtype,
                layout,
                m,
                n,
                k,
                iterations: times.count() as u32,
                mean_tflops: tflops(times.mean()),
                best_tflops: tflops(times.best()),
                median_tflops: tflops(times.median()),
            });
        }
    }
    Ok(measured)
}

/// a `[m, k]` · b `[k, n]`, as views of how a training stores them.
struct Product {
    a: Tensor,
    b: Tensor,
    output: Tensor,
}

impl Product {
    fn of(linear: &Linear, layout: Layout, tokens: i64, kind: Kind, device: Device) -> Self {
        tch::manual_seed(3);
        let random =
            |rows: i64, columns: i64| Tensor::randn([rows, columns], (Kind::Float, device)).to_kind(kind);
        let (inputs, outputs) = (linear.inputs, linear.outputs);
        let (a, b) = match layout {
            // y = x·Wᵀ, dx = dy·W, dW = dyᵀ·x
            Layout::Nt => (random(tokens, inputs), random(outputs, inputs).tr()),
            Layout::Nn => (random(tokens, outputs), random(outputs, inputs)),
            Layout::Tn => (random(tokens, outputs).tr(), random(tokens, inputs)),
        };
        let output = Tensor::empty([a.size()[0], b.size()[1]], (kind, device));
        Self { a, b, output }
    }

    /// m, n and k.
    fn size(&self) -> (i64, i64, i64) {
        (self.a.size()[0], self.b.size()[1], self.a.size()[1])
    }

    /// Times of as many products as fit into this one's share of the stage, one at least.
    fn time(
        &self,
        cold: &Tensor,
        to_come: usize,
        device: Device,
        pace: &mut Pace,
    ) -> Result<Times, JobError> {
        let share_end = pace.share_end(to_come);
        let multiply = || drop(self.a.matmul_out(&self.output, &self.b));
        multiply();
        let mut times = Vec::new();
        while times.len() < ITERATIONS && (times.is_empty() || std::time::Instant::now() < share_end) {
            pace.check()?;
            let _ = cold.shallow_clone().fill_(times.len() as f64);
            let _ = self.output.shallow_clone().normal_(0.0, 1.0);
            times.push(timer::secs(device, multiply));
        }
        Ok(Times::new(times))
    }
}
