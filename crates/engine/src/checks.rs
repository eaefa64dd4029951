//! What the engine finds out about itself, told in `check` messages; the verdicts are the parent's.
//!
//! Before the first step: the base model's loss on the rows of that step, the loss of two rows in a plain forward pass
//! and in the trainer, and the gradient of those two as one batch and one by one. By operations that is a forward pass
//! over the rows of a step (a third of the step), two rows forward, and four rows forward and backward: about one step
//! of eight rows, once in a training, and less where a step has more rows. It counts in the time to the first step and
//! not in the step's. The checksums read every weight once at the start and once at the end.

use tch::{Kind, Reduction, Tensor};
use tunesmith_data::Row;
use tunesmith_protocol::{Check, Event};

use crate::adapter::Adapter;
use crate::batch::Packed;
use crate::model::Decoder;
use crate::train::{How, accumulate, finite};

/// Positions whose logits are held at once in a plain forward pass.
const CHUNK: i64 = 256;
/// Elements that are summed at once: sums are 64 bits wide, and their copy must stay small beside the weights.
const SUMMED: i64 = 1 << 22;

fn check(name: &str, value: f64) -> Event {
    Event::Check(Check {
        name: name.to_owned(),
        value: finite(value),
    })
}

/// All checks that come before the first step. Leaves weights as they are and gradients at zero. The base model's loss
/// is told where the training begins at its start (`fresh`): later the adapter is expected to be elsewhere.
pub(crate) fn before_first_step(
    decoder: &mut Decoder,
    adapter: &mut Adapter,
    micro_batches: &[Vec<&Row>],
    how: How,
    fresh: bool,
) -> Vec<Event> {
    let mut told = checksums(decoder, adapter);
    let rows: Vec<&Row> = micro_batches.iter().flatten().copied().collect();
    if fresh {
        detach(decoder);
        told.push(check("base_loss", plain_loss(decoder, micro_batches)));
        decoder.attach(adapter);
    }
    let two = fewest_and_most(&rows);
    let one_by_one: Vec<Vec<&Row>> = two.iter().map(|row| vec![*row]).collect();
    told.push(check("plain_loss", plain_loss(decoder, &one_by_one)));
    let whole = accumulate(decoder, std::slice::from_ref(&two), how);
    told.push(check("trainer_loss", whole.loss));
    let Some(gradients) = &mut adapter.gradients else {
        return told;
    };
    if two.len() > 1 {
        let of_one_batch = gradients.copy();
        let _ = gradients.zero_();
        accumulate(decoder, &one_by_one, how);
        let difference = norm(&(&*gradients - &of_one_batch)) / norm(&of_one_batch);
        told.push(check("gradient_difference", difference));
    }
    let _ = gradients.zero_();
    told
}

/// The rows with the fewest and the most supervised tokens: a mean of means is told from a mean where they differ.
fn fewest_and_most<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(|row| row.supervised_tokens());
    match sorted.as_slice() {
        [] => vec![],
        [one] => vec![one],
        [first, .., last] => vec![first, last],
    }
}

fn norm(x: &Tensor) -> f64 {
    x.linalg_norm(2.0, None::<&[i64]>, false, Kind::Double)
        .double_value(&[])
}

fn detach(decoder: &mut Decoder) {
    for layer in &mut decoder.layers {
        for linear in [&mut layer.qkv, &mut layer.o, &mut layer.gate_up, &mut layer.down] {
            linear.lora = None;
        }
    }
}

/// Mean cross-entropy over the supervised tokens of all batches, forward alone and by torch's own loss: nothing of the
/// trainer is used but the layers.
fn plain_loss(decoder: &Decoder, batches: &[Vec<&Row>]) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for rows in batches {
        let batch = Packed::new(rows, &decoder.inverse_frequencies, decoder.kind);
        let hidden = decoder.hidden(&batch).index_select(0, &batch.predicting);
        let positions = batch.targets.size()[0];
        for start in (0..positions).step_by(CHUNK as usize) {
            let length = CHUNK.min(positions - start);
            let (normed, _) = decoder.final_norm.forward(&hidden.narrow(0, start, length));
            let logits = normed.matmul(&decoder.head.tr()).to_kind(Kind::Float);
            let targets = batch.targets.narrow(0, start, length);
            sum += logits
                .cross_entropy_loss::<Tensor>(&targets, None, Reduction::Sum, -100, 0.0)
                .double_value(&[]);
        }
        count += positions;
    }
    sum / count.max(1) as f64
}

/// Checksums of the base model's weights and of the adapter's, each 53 bits, which a JSON number holds exactly.
pub(crate) fn checksums(decoder: &Decoder, adapter: &Adapter) -> Vec<Event> {
    let base = decoder
        .tensors()
        .into_iter()
        .fold(0, |sum, tensor| mix(sum, bits(tensor)));
    vec![
        check("base_checksum", folded(base)),
        check("adapter_checksum", folded(bits(&adapter.weights))),
    ]
}

fn mix(sum: u64, more: u64) -> u64 {
    sum.rotate_left(7) ^ more
}

fn folded(sum: u64) -> f64 {
    ((sum ^ (sum >> 53)) & ((1 << 53) - 1)) as f64
}

/// The sum over a tensor's bit patterns as whole numbers, a stretch at a time.
fn bits(tensor: &Tensor) -> u64 {
    let kind = match tensor.kind() {
        Kind::Float => Kind::Int,
        Kind::Uint8 => Kind::Uint8,
        _ => Kind::Int16,
    };
    let flat = tensor.contiguous().view([-1]).view_dtype(kind);
    let length = flat.size()[0];
    (0..length).step_by(SUMMED as usize).fold(0, |sum, start| {
        let part = flat.narrow(0, start, SUMMED.min(length - start));
        mix(sum, part.sum(Kind::Int64).int64_value(&[]) as u64)
    })
}

#[cfg(all(test, not(feature = "no-libtorch")))]
mod tests {
    use super::*;
    use tch::Device;

    #[test]
    fn a_checksum_sees_a_single_bit_in_every_format() {
        for kind in [Kind::Float, Kind::BFloat16, Kind::Half] {
            let x = Tensor::ones([3, 5], (Kind::Float, Device::Cpu)).to_kind(kind);
            let before = bits(&x);
            assert_eq!(bits(&x.copy()), before);
            // The sign of zero is one bit and no difference in value.
            let mut zero = x.narrow(0, 1, 1).narrow(1, 2, 1);
            let _ = zero.zero_();
            let plus = bits(&x);
            let _ = zero.neg_();
            assert_ne!(bits(&x), plus, "{kind:?}");
            assert_ne!(plus, before, "{kind:?}");
        }
    }

    #[test]
    fn a_checksum_is_a_whole_number_that_json_keeps() {
        for sum in [0, 1, u64::MAX, 0x8000_0000_0000_0001] {
            let value = folded(sum);
            assert!(value >= 0.0 && value < f64::from(2).powi(53) && value.fract() == 0.0);
        }
    }
}
