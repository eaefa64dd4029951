//! Values before speed (X8): the attention and the LoRA layer that training runs, forward and backward, on the device
//! and in its formats, against float64 on the processor from the same rounded inputs.

use tch::{Device, Kind, Tensor};
use tunesmith_protocol::{DType, InputSize, KernelCheck, KernelName, Recompute, ValueCheck};

use super::pace::Pace;
use crate::attention::AttentionTape;
use crate::error::JobError;
use crate::model::kind_of;
use crate::nf4;
use crate::textbook::{self, Size};

/// Small enough to end at once, with more than one block of every kernel: grouped heads, a length that is no power of
/// two, the head size of most models.
const SIZE: Size = Size {
    hidden: 256,
    heads: 4,
    kv_heads: 2,
    head_dim: 64,
    intermediate: 640,
    rank: 8,
};
const LENGTHS: [u32; 3] = [150, 67, 67];
/// Queries and keys this many times as large make scores of some hundreds, at which a softmax without the subtraction
/// of its maximum overflows and one in 16 bits shows.
const LARGE: f64 = 8.0;

/// Checks every kernel in each format.
pub(super) fn check_kernels(
    dtypes: &[DType],
    device: Device,
    pace: &mut Pace,
) -> Result<Vec<KernelCheck>, JobError> {
    let mut checks = Vec::new();
    for &dtype in dtypes {
        for inputs in [InputSize::Ordinary, InputSize::Large] {
            pace.check()?;
            if pace.cuts() {
                return Ok(checks);
            }
            checks.extend(check_attention(dtype, inputs, device));
        }
        checks.extend(check_layer(dtype, device));
        checks.extend(check_nf4(dtype, device)?);
    }
    Ok(checks)
}

fn check_attention(dtype: DType, inputs: InputSize, device: Device) -> [KernelCheck; 2] {
    tch::manual_seed(1);
    let factor = if inputs == InputSize::Large { LARGE } else { 1.0 };
    let random = |heads: i64, factor: f64| {
        (Tensor::randn([2, heads, 150, SIZE.head_dim], (Kind::Float, Device::Cpu)) * factor)
            .to_kind(kind_of(dtype))
            .to_device(device)
    };
    let (q, k, v) = (
        random(SIZE.heads, factor),
        random(SIZE.kv_heads, factor),
        random(SIZE.kv_heads, 1.0),
    );
    let d_output = random(SIZE.heads, 1.0);

    let leaves = [&q, &k, &v].map(|x| {
        x.to_device(Device::Cpu)
            .to_kind(Kind::Double)
            .set_requires_grad(true)
    });
    let (expected, expected_gradients) = tch::with_grad(|| {
        let [q, k, v] = &leaves;
        let output = textbook::attention(q, k, v);
        let product = &output * d_output.to_device(Device::Cpu).to_kind(Kind::Double);
        let gradients = Tensor::run_backward(&[product.sum(Kind::Double)], &[q, k, v], false, false);
        (output.detach(), gradients)
    });

    let tape = AttentionTape::new([q, k, v]);
    let gradients = tape.backward(&d_output);
    let check = |name, got: &[&Tensor], expected: &[&Tensor]| KernelCheck {
        kernel: name,
        dtype,
        inputs,
        values: compare(got, expected, tolerance(dtype)),
    };
    [
        check(KernelName::AttentionForward, &[&tape.output], &[&expected]),
        check(
            KernelName::AttentionBackward,
            &gradients.iter().collect::<Vec<_>>(),
            &expected_gradients.iter().collect::<Vec<_>>(),
        ),
    ]
}

fn check_layer(dtype: DType, device: Device) -> [KernelCheck; 2] {
    tch::manual_seed(2);
    let kind = kind_of(dtype);
    let layer = textbook::random_layer(SIZE, kind, device);
    let batch = textbook::batch(&LENGTHS, SIZE, kind, device);
    let random = || {
        Tensor::randn([batch.tokens as i64, SIZE.hidden], (Kind::Float, Device::Cpu))
            .to_kind(kind)
            .to_device(device)
    };
    let (x, dy) = (random(), random());
    let expected = textbook::layer(&layer, &x, &dy, &batch);
    let got = textbook::written_out(&layer, &x, &dy, &batch, Recompute::None);
    let check = |name, range: std::ops::Range<usize>| KernelCheck {
        kernel: name,
        dtype,
        inputs: InputSize::Ordinary,
        values: compare(
            &got[range.clone()].iter().collect::<Vec<_>>(),
            &expected[range].iter().collect::<Vec<_>>(),
            tolerance(dtype),
        ),
    };
    [
        check(KernelName::LoraLayerForward, 0..1),
        check(KernelName::LoraLayerBackward, 1..got.len()),
    ]
}

/// A 4-bit base: weights stored and unpacked against what they were, and the unpacking alone, which is exact but for
/// rounding.
fn check_nf4(dtype: DType, device: Device) -> Result<[KernelCheck; 2], JobError> {
    let check = |kernel, values| KernelCheck {
        kernel,
        dtype,
        inputs: InputSize::Ordinary,
        values,
    };
    Ok([
        check(KernelName::Nf4RoundTrip, nf4::round_trip_error(device, dtype)?),
        check(KernelName::Nf4Unpacking, nf4::unpacking_error(device, dtype)?),
    ])
}

/// Largest error that passes. A chain of a dozen rounded products: some units in the last place each. A broken kernel is
/// off by far more.
pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-4,
        DType::Bf16 => 6e-2,
        DType::F16 => 1e-2,
    }
}

/// The worst of several tensors, each against its own largest value.
pub(super) fn compare(got: &[&Tensor], expected: &[&Tensor], tolerance: f64) -> ValueCheck {
    let errors = got.iter().zip(expected).map(|(got, expected)| {
        let got = got.to_device(Device::Cpu).to_kind(Kind::Double);
        let error = (got - *expected).abs().max().double_value(&[]);
        error / expected.abs().max().double_value(&[])
    });
    // A value that is no number must fail, and `max` would pass over it.
    let max_error = errors.fold(0.0, |worst: f64, error| {
        if error.is_finite() {
            worst.max(error)
        } else {
            f64::INFINITY
        }
    });
    ValueCheck {
        max_error: max_error.min(f64::MAX),
        tolerance,
        passed: max_error <= tolerance,
    }
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;
    use crate::out::Stop;
    use tunesmith_protocol::{CalibrationStage, StageBudget};

    #[test]
    fn the_kernels_of_this_processor_pass() {
        let stop = Stop::default();
        let plan = vec![StageBudget {
            stage: CalibrationStage::Values,
            secs: 600.0,
        }];
        let mut pace = Pace::new(plan, 600.0, &stop);
        pace.begin().unwrap();
        let dtypes = [DType::F32, DType::Bf16];
        let checks = tch::no_grad(|| check_kernels(&dtypes, Device::Cpu, &mut pace)).unwrap();
        assert_eq!(checks.len(), 16);
        for check in checks {
            assert!(check.values.passed, "{check:?}");
        }
    }

    #[test]
    fn values_that_are_wrong_or_no_numbers_fail() {
        let expected = Tensor::from_slice(&[1.0, -2.0]);
        let fails = |got: &[f64]| !compare(&[&Tensor::from_slice(got)], &[&expected], 1e-4).passed;
        assert!(!fails(&[1.0, -2.0]));
        assert!(fails(&[1.0, -2.001]));
        assert!(fails(&[0.0, 0.0]), "zeros from a broken kernel");
        assert!(fails(&[1.0, f64::NAN]));
    }
}
