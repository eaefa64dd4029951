//! A transformer layer and causal attention in textbook form, with autograd, one row at a time, an explicit mask and
//! repeated heads: what the written-out passes and a device's kernels are checked against.

use tch::{Device, Kind, Tensor};
use tunesmith_data::Row;
use tunesmith_protocol::{Attention, Recompute};

use crate::adapter::{LoraB, LoraGroup};
use crate::batch::{Packed, RowGroup, frequencies};
use crate::layer::{Layer, Norm, Projections};

/// Dimensions of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) hidden: i64,
    pub(crate) heads: i64,
    pub(crate) kv_heads: i64,
    pub(crate) head_dim: i64,
    pub(crate) intermediate: i64,
    pub(crate) rank: i64,
}

/// A layer with all that any supported family has: grouped heads, biases, norms over heads, an adapter on each
/// projection. Random, with outputs about as large as inputs, rounded to `kind`.
pub(crate) fn random_layer(size: Size, kind: Kind, device: Device) -> Layer {
    let random = |shape: &[i64], deviation: f64| {
        (Tensor::randn(shape, (Kind::Float, Device::Cpu)) * deviation)
            .to_kind(kind)
            .to_device(device)
    };
    let norm = |width: i64| Norm {
        weight: random(&[width], 0.3) + 1.0,
        eps: 1e-5,
    };
    let zeros = |shape: [i64; 2]| Some(Tensor::zeros(shape, (Kind::Float, device)));
    let projections = |inputs: i64, widths: &[i64], biased: bool| {
        let outputs: i64 = widths.iter().sum();
        let ranks = size.rank * widths.len() as i64;
        let deviation = 1.0 / (inputs as f64).sqrt();
        let mut made = Projections::new(
            random(&[outputs, inputs], deviation),
            biased.then(|| random(&[outputs], 0.1)),
            widths,
        );
        let adapter = |(projection, &width): (usize, &i64)| LoraB {
            projection,
            b: random(&[width, size.rank], 0.3),
            grad_b: zeros([width, size.rank]),
        };
        made.lora = Some(LoraGroup {
            a: random(&[ranks, inputs], deviation),
            grad_a: zeros([ranks, inputs]),
            adapters: widths.iter().enumerate().map(adapter).collect(),
            scale: 1.5,
        });
        made
    };
    let (query, key) = (size.heads * size.head_dim, size.kv_heads * size.head_dim);
    Layer {
        attention: Attention::Sdpa,
        heads: size.heads,
        kv_heads: size.kv_heads,
        head_dim: size.head_dim,
        input_norm: norm(size.hidden),
        qkv: projections(size.hidden, &[query, key, key], true),
        qk_norm: Some((norm(size.head_dim), norm(size.head_dim))),
        o: projections(query, &[size.hidden], false),
        post_norm: norm(size.hidden),
        gate_up: projections(size.hidden, &[size.intermediate, size.intermediate], false),
        down: projections(size.intermediate, &[size.hidden], false),
    }
}

/// Rows of these lengths, for a layer that is looked at alone: its tokens do not matter.
pub(crate) fn batch(lengths: &[u32], size: Size, kind: Kind, device: Device) -> Packed {
    let rows: Vec<Row> = lengths
        .iter()
        .map(|&length| Row {
            input_ids: (0..length).collect(),
            supervised: vec![false; length as usize],
        })
        .collect();
    let half = size.head_dim / 2;
    let inverse: Vec<f32> = (0..half)
        .map(|index| 10_000f32.powf(-(index as f32) / half as f32))
        .collect();
    Packed::new(
        &rows.iter().collect::<Vec<_>>(),
        &frequencies(&inverse, device),
        kind,
    )
}

/// Stores a layer's weights in 4 bits.
#[cfg(all(test, not(feature = "no-libtorch")))]
pub(crate) fn quantise(layer: &mut Layer) {
    for group in [&mut layer.qkv, &mut layer.o, &mut layer.gate_up, &mut layer.down] {
        let plain = group.weight.unpacked();
        let columns = plain.size()[1];
        let tables = crate::nf4::Tables::new(plain.device());
        let values =
            Vec::<f32>::try_from(plain.to_kind(Kind::Float).to_device(Device::Cpu).view([-1])).unwrap();
        let quantised = crate::nf4::Nf4::quantise("a test", &values, columns, &tables).unwrap();
        group.weight = crate::nf4::Weight::Nf4(vec![quantised], plain.kind());
    }
}

/// y, dx, and the gradients of A and B of the seven projections, as the engine computes them; x and dy
/// `[tokens, hidden]`. Run it under `no_grad`.
pub(crate) fn written_out(
    layer: &Layer,
    x: &Tensor,
    dy: &Tensor,
    batch: &Packed,
    recompute: Recompute,
) -> Vec<Tensor> {
    let (y, tape) = layer.forward(x, batch, recompute);
    let mut got = vec![y];
    got.extend(layer.backward(tape, dy.copy(), batch, true));
    for lora in layer.projections().iter().filter_map(|group| group.lora.as_ref()) {
        for (index, adapter) in lora.adapters.iter().enumerate() {
            let rank = adapter.b.size()[1];
            got.extend(
                lora.grad_a
                    .as_ref()
                    .map(|grad| grad.narrow(0, index as i64 * rank, rank)),
            );
            got.extend(adapter.grad_b.as_ref().map(Tensor::shallow_clone));
        }
    }
    got
}

/// The same as [`written_out`] by autograd in float64 on the processor, from the same rounded values.
pub(crate) fn layer(layer: &Layer, x: &Tensor, dy: &Tensor, batch: &Packed) -> Vec<Tensor> {
    let leaf = |x: &Tensor| wide(x).copy().set_requires_grad(true);
    let x = leaf(x);
    let loras: Vec<(Tensor, Tensor)> = layer
        .projections()
        .iter()
        .filter_map(|group| group.lora.as_ref())
        .flat_map(|lora| {
            lora.adapters.iter().enumerate().map(|(index, adapter)| {
                let rank = adapter.b.size()[1];
                (
                    leaf(&lora.a.narrow(0, index as i64 * rank, rank)),
                    leaf(&adapter.b),
                )
            })
        })
        .collect();
    tch::with_grad(|| {
        let y = forward(layer, &loras, &x, batch);
        let mut wanted = vec![&x];
        wanted.extend(loras.iter().flat_map(|(a, b)| [a, b]));
        let product = (&y * wide(dy)).sum(Kind::Double);
        let mut results = vec![y.detach()];
        results.extend(Tensor::run_backward(&[product], &wanted, false, false));
        results
    })
}

fn wide(x: &Tensor) -> Tensor {
    x.detach().to_device(Device::Cpu).to_kind(Kind::Double)
}

fn forward(layer: &Layer, loras: &[(Tensor, Tensor)], x: &Tensor, batch: &Packed) -> Tensor {
    // A projection of a group by its place among all seven.
    let apply = |index: usize, group: &Projections, projection: usize, x: &Tensor| {
        let bias = group.bias.as_ref().map(wide);
        let base = group.part(
            &x.linear(&wide(&group.weight.unpacked()), bias.as_ref()),
            projection,
        );
        match (&group.lora, loras.get(index)) {
            (Some(lora), Some((a, b))) => base + x.matmul(&a.tr()).matmul(&b.tr()) * lora.scale,
            _ => base,
        }
    };
    let norm = |norm: &Norm, x: &Tensor| {
        x / (x.square().mean_dim(-1, true, Kind::Double) + norm.eps).sqrt() * wide(&norm.weight)
    };
    let (cos, sin) = (wide(&batch.cos), wide(&batch.sin));
    let rotated = |x: &Tensor| {
        let halves = x.chunk(2, -1);
        let (first, second) = (&halves[0], &halves[1]);
        Tensor::cat(&[first * &cos - second * &sin, second * &cos + first * &sin], -1)
    };
    let normed = norm(&layer.input_norm, x);
    let heads = |x: Tensor, count: i64| x.reshape([-1, count, layer.head_dim]);
    let mut q = heads(apply(0, &layer.qkv, 0, &normed), layer.heads);
    let mut k = heads(apply(1, &layer.qkv, 1, &normed), layer.kv_heads);
    let v = heads(apply(2, &layer.qkv, 2, &normed), layer.kv_heads);
    if let Some((q_norm, k_norm)) = &layer.qk_norm {
        (q, k) = (norm(q_norm, &q), norm(k_norm, &k));
    }
    let (q, k) = (rotated(&q), rotated(&k));
    let rows: Vec<Tensor> = batch
        .groups
        .iter()
        .flat_map(RowGroup::spans)
        .map(|(start, length)| {
            let part = |x: &Tensor| x.narrow(0, start, length).transpose(0, 1);
            attention(&part(&q), &part(&k), &part(&v))
                .transpose(0, 1)
                .reshape([length, layer.heads * layer.head_dim])
        })
        .collect();
    let middle = x + apply(3, &layer.o, 0, &Tensor::cat(&rows, 0));
    let normed = norm(&layer.post_norm, &middle);
    let activated = apply(4, &layer.gate_up, 0, &normed).silu() * apply(5, &layer.gate_up, 1, &normed);
    middle + apply(6, &layer.down, 0, &activated)
}

/// Causal attention: q `[…, heads, length, head_dim]`, k and v `[…, kv_heads, length, head_dim]` → as q.
pub(crate) fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    let size = q.size();
    let (heads, length, head_dim) = (size[size.len() - 3], size[size.len() - 2], size[size.len() - 1]);
    let repeat = heads / k.size()[size.len() - 3];
    let [k, v] = [k, v].map(|x| x.repeat_interleave_self_int(repeat, -3, None));
    let scores = q.matmul(&k.transpose(-2, -1)) / (head_dim as f64).sqrt();
    let later = Tensor::ones([length, length], (Kind::Bool, Device::Cpu)).triu(1);
    scores
        .masked_fill(&later, f64::NEG_INFINITY)
        .softmax(-1, q.kind())
        .matmul(&v)
}
