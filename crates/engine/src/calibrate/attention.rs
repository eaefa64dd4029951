//! Each back end of torch's attention: whether it is there, whether its values are right, how fast it is, how much memory
//! it takes, and which of them torch takes by itself (C4).

use std::time::Instant;

use tch::{Device, Kind, TchError, Tensor};
use tunesmith_protocol::{AttentionBackend, AttentionMeasurement, AttentionShape, DType, ValueCheck};

use super::dispatch::{self, Only};
use super::pace::Pace;
use super::timer::{self, Times};
use super::values;
use crate::error::JobError;
use crate::memory;
use crate::model::kind_of;
use crate::textbook;

/// Grouped heads, as small models have them.
const ON_PROCESSOR: AttentionShape = AttentionShape {
    rows: 2,
    heads: 9,
    kv_heads: 3,
    length: 256,
    head_dim: 64,
};
/// As models of three billion parameters have them (Qwen2.5-3B).
const ON_CARD: AttentionShape = AttentionShape {
    rows: 4,
    heads: 16,
    kv_heads: 2,
    length: 1024,
    head_dim: 128,
};
/// Most repeats of one pass.
const ITERATIONS: usize = 20;

/// Every back end in each format.
pub(super) fn measure_all(
    dtypes: &[DType],
    device: Device,
    pace: &mut Pace,
) -> Result<Vec<AttentionMeasurement>, JobError> {
    let shape = if device == Device::Cpu {
        ON_PROCESSOR
    } else {
        ON_CARD
    };
    let mut measured = Vec::new();
    let mut to_come = dtypes.len() * AttentionBackend::NAMED.len();
    for &dtype in dtypes {
        let inputs = Inputs::new(shape, dtype, device);
        let default = inputs.dispatched()?;
        let first = measured.len();
        for backend in AttentionBackend::NAMED {
            pace.check()?;
            if pace.cuts() {
                return Ok(measured);
            }
            let _only = Only::this(backend);
            let mut found = inputs.measure(backend, to_come, pace)?;
            found.dispatched = found.proof.is_some() && default == (Some(backend), found.proof.clone());
            measured.push(found);
            to_come -= 1;
        }
        // What torch takes by itself has no name of ours: it is told with torch's.
        if !measured[first..].iter().any(|of| of.dispatched) {
            let mut found = inputs.measure(AttentionBackend::Other, 1, pace)?;
            found.dispatched = found.proof.is_some();
            measured.push(found);
        }
    }
    Ok(measured)
}

/// Queries, keys and values, and the gradient of the output.
struct Inputs {
    shape: AttentionShape,
    dtype: DType,
    device: Device,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    d_output: Tensor,
}

impl Inputs {
    fn new(shape: AttentionShape, dtype: DType, device: Device) -> Self {
        tch::manual_seed(4);
        let random = |heads: i64| {
            Tensor::randn(
                [shape.rows, heads, shape.length, shape.head_dim],
                (Kind::Float, device),
            )
            .to_kind(kind_of(dtype))
        };
        let leaf = |heads| random(heads).set_requires_grad(true);
        Self {
            shape,
            dtype,
            device,
            q: leaf(shape.heads),
            k: leaf(shape.kv_heads),
            v: leaf(shape.kv_heads),
            d_output: random(shape.heads),
        }
    }

    fn grouped(&self) -> bool {
        self.shape.heads != self.shape.kv_heads
    }

    /// The call that a training makes, with a graph.
    fn forward(&self) -> Result<Tensor, TchError> {
        tch::with_grad(|| {
            Tensor::f_scaled_dot_product_attention(
                &self.q,
                &self.k,
                &self.v,
                None::<&Tensor>,
                0.0,
                true,
                None,
                self.grouped(),
            )
        })
    }

    /// Gradients of queries, keys and values. `run_backward` begins with ones, so the output is multiplied by its
    /// gradient first.
    fn backward(&self, output: &Tensor) -> Result<Vec<Tensor>, TchError> {
        let product = tch::with_grad(|| output * &self.d_output);
        Tensor::f_run_backward(&[product], &[&self.q, &self.k, &self.v], false, false)
    }

    /// What torch takes by itself, and the proof of it.
    fn dispatched(&self) -> Result<(Option<AttentionBackend>, Option<String>), JobError> {
        let choice = dispatch::choice(&self.q, &self.k, &self.v, self.grouped());
        Ok((choice, dispatch::backward_name(&self.forward()?)))
    }

    /// One back end, which is the only one allowed at the moment, or torch's own choice for one without a name.
    fn measure(
        &self,
        backend: AttentionBackend,
        to_come: usize,
        pace: &mut Pace,
    ) -> Result<AttentionMeasurement, JobError> {
        let mut found = AttentionMeasurement {
            backend,
            dtype: self.dtype,
            shape: self.shape,
            dispatched: false,
            proof: None,
            forward_secs: None,
            backward_secs: None,
            iterations: 0,
            peak_bytes: None,
            values: None,
            unavailable: None,
        };
        let chosen = dispatch::choice(&self.q, &self.k, &self.v, self.grouped());
        if backend != AttentionBackend::Other && chosen != Some(backend) {
            found.unavailable = Some(format!(
                "this torch has no {} kernel for this device, format and size",
                backend.name()
            ));
            return Ok(found);
        }
        match self.run(&mut found, to_come, pace) {
            Ok(()) => Ok(found),
            // A kernel that is chosen and then missing, or that runs out of memory, is a finding about that kernel.
            Err(error @ (JobError::Torch(_) | JobError::OutOfMemory(_))) => {
                found.unavailable = Some(error.to_string());
                Ok(found)
            }
            Err(error) => Err(error),
        }
    }

    fn run(&self, found: &mut AttentionMeasurement, to_come: usize, pace: &mut Pace) -> Result<(), JobError> {
        let share_end = pace.share_end(to_come);
        let before = memory::held_bytes(self.device);
        memory::reset_peak(self.device);
        let output = self.forward()?;
        found.proof = dispatch::backward_name(&output);
        let gradients = self.backward(&output)?;
        timer::synchronize(self.device);
        found.peak_bytes = memory::peak_bytes(self.device)
            .zip(before)
            .and_then(|(peak, before)| peak.checked_sub(before));
        found.values = Some(self.check(&output, &gradients));
        drop((output, gradients));
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        while forward.len() < ITERATIONS && (forward.len() < 2 || Instant::now() < share_end) {
            pace.check()?;
            let mut output = None;
            forward.push(timer::secs(self.device, || output = Some(self.forward())));
            let output = output.transpose()?.unwrap_or_default();
            let mut gradients = None;
            backward.push(timer::secs(self.device, || {
                gradients = Some(self.backward(&output));
            }));
            gradients.transpose()?;
        }
        found.iterations = forward.len() as u32;
        found.forward_secs = Some(Times::new(forward).median());
        found.backward_secs = Some(Times::new(backward).median());
        Ok(())
    }

    /// The first row's first keys and values, and the queries that look at them, against float64: no other head has a
    /// part in these values.
    fn check(&self, output: &Tensor, gradients: &[Tensor]) -> ValueCheck {
        let group = self.shape.heads / self.shape.kv_heads;
        let part = |x: &Tensor, heads: i64| {
            x.detach()
                .narrow(0, 0, 1)
                .narrow(1, 0, heads)
                .to_device(Device::Cpu)
                .to_kind(Kind::Double)
        };
        let heads = [group, 1, 1];
        let leaves = [(&self.q, group), (&self.k, 1), (&self.v, 1)]
            .map(|(x, heads)| part(x, heads).set_requires_grad(true));
        let expected = tch::with_grad(|| {
            let [q, k, v] = &leaves;
            let output = textbook::attention(q, k, v);
            let product = &output * part(&self.d_output, group);
            let mut expected = vec![output.detach()];
            expected.extend(Tensor::run_backward(
                &[product.sum(Kind::Double)],
                &[q, k, v],
                false,
                false,
            ));
            expected
        });
        let mut got = vec![part(output, group)];
        got.extend(
            gradients
                .iter()
                .zip(heads)
                .map(|(gradient, heads)| part(gradient, heads)),
        );
        values::compare(
            &got.iter().collect::<Vec<_>>(),
            &expected.iter().collect::<Vec<_>>(),
            values::tolerance(self.dtype),
        )
    }
}
