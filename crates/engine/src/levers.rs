//! What each lever of the trainer is worth: the same step of a real model with levers taken away, timed in turns.
//!
//! An ignored test, since it needs the model, minutes and a quiet machine: `cargo xtask bench levers` runs it and keeps
//! what it prints. The ways of computing that lost are written here, and nowhere in the engine.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tch::{Device, Kind, Tensor};
use tunesmith_data::{Row, Rows};
use tunesmith_protocol::{DType, Lora, Optimizer, Quantization, Recompute, Schedule, TARGET_MODULES};

use crate::adapter::Adapter;
use crate::attention::GRAPH_ATTENTION;
use crate::batch::Packed;
use crate::fused::TORCHS_OPERATIONS;
use crate::layer::{Layer, Norm, Projections};
use crate::model::Decoder;
use crate::optimizer::{AdamW, clip};
use crate::{loss, memory};

const ROUNDS: usize = 5;

/// How the layers are run.
#[derive(Clone, Copy, PartialEq)]
enum Layers {
    /// One autograd tape through the whole model, a product for each projection.
    Autograd,
    /// Written out, attention with a graph of its own.
    WrittenOut,
    /// Written out, attention's kernels called by name.
    KernelByName,
}

/// Where the head is computed and how its loss is.
#[derive(Clone, Copy, PartialEq)]
enum Head {
    /// At every position, all logits at once.
    Everywhere,
    /// Where a token is supervised, all logits at once.
    Supervised,
    /// At every position, in chunks, with the gradient at once.
    EverywhereChunked,
    /// Where a token is supervised, in chunks, with the gradient at once.
    SupervisedChunked,
}

#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    layers: Layers,
    head: Head,
    /// Norm and SwiGLU in one pass each, where the layers are written out.
    fused: bool,
    /// One tensor for all adapter weights, or one for each matrix.
    flat: bool,
    recompute: Recompute,
    padded: bool,
    rows: Batch,
}

/// Which rows a variant is timed on.
#[derive(Clone, Copy, PartialEq)]
enum Batch {
    /// 4 rows of 128 tokens, the last quarter supervised.
    Even,
    /// 8 rows of the quickstart, of different lengths.
    Sql,
}

const NAIVE: Variant = Variant {
    name: "naive: one autograd tape, the head everywhere, all logits at once, a tensor for each matrix",
    layers: Layers::Autograd,
    head: Head::Everywhere,
    fused: false,
    flat: false,
    recompute: Recompute::None,
    padded: false,
    rows: Batch::Even,
};

const ALL: Variant = Variant {
    name: "all levers",
    layers: Layers::KernelByName,
    head: Head::SupervisedChunked,
    fused: true,
    flat: true,
    ..NAIVE
};

fn variants() -> Vec<Variant> {
    vec![
        NAIVE,
        Variant {
            name: "naive + head at supervised positions",
            head: Head::Supervised,
            ..NAIVE
        },
        Variant {
            name: "naive + loss in chunks, gradient at once",
            head: Head::EverywhereChunked,
            ..NAIVE
        },
        Variant {
            name: "naive + both of the head's levers",
            head: Head::SupervisedChunked,
            ..NAIVE
        },
        Variant {
            name: "naive + layers written out",
            layers: Layers::WrittenOut,
            ..NAIVE
        },
        Variant {
            name: "naive + layers written out, attention by name",
            layers: Layers::KernelByName,
            ..NAIVE
        },
        Variant {
            name: "naive + layers written out, attention by name, norm and SwiGLU in one pass",
            layers: Layers::KernelByName,
            fused: true,
            ..NAIVE
        },
        Variant {
            name: "naive + flat adapter tensors",
            flat: true,
            ..NAIVE
        },
        ALL,
        Variant {
            name: "all levers but head at supervised positions",
            head: Head::EverywhereChunked,
            ..ALL
        },
        Variant {
            name: "all levers but loss in chunks",
            head: Head::Supervised,
            ..ALL
        },
        Variant {
            name: "all levers but layers written out",
            layers: Layers::Autograd,
            ..ALL
        },
        Variant {
            name: "all levers but attention by name",
            layers: Layers::WrittenOut,
            ..ALL
        },
        Variant {
            name: "all levers but norm and SwiGLU in one pass",
            fused: false,
            ..ALL
        },
        Variant {
            name: "all levers but flat adapter tensors",
            flat: false,
            ..ALL
        },
        Variant {
            name: "all levers, recompute mlp",
            recompute: Recompute::Mlp,
            ..ALL
        },
        Variant {
            name: "all levers, recompute layer",
            recompute: Recompute::Layer,
            ..ALL
        },
        Variant {
            name: "all levers, text-to-SQL rows, packed",
            rows: Batch::Sql,
            ..ALL
        },
        Variant {
            name: "all levers, text-to-SQL rows, padded",
            rows: Batch::Sql,
            padded: true,
            ..ALL
        },
    ]
}

/// A model with everything that a step needs.
struct Bench {
    decoder: Decoder,
    adapter: Adapter,
    optimizer: AdamW,
    settings: Optimizer,
    even: Vec<Row>,
    sql: Vec<Row>,
}

impl Bench {
    fn new(model: &PathBuf, rows: &PathBuf) -> Self {
        let (_, mut decoder) = Decoder::open(model, Device::Cpu, DType::F32, Quantization::None).unwrap();
        let lora = Lora {
            rank: 16,
            alpha: 32.0,
            target_modules: TARGET_MODULES.map(str::to_owned).into(),
        };
        let adapter = Adapter::fresh(&decoder.config, &lora, 1, Device::Cpu, Kind::Float).unwrap();
        decoder.attach(&adapter);
        let even = (0..4)
            .map(|row| Row {
                input_ids: (0..128)
                    .map(|at| 1000 + (row * 128 + at) * 7919 % 40_000)
                    .collect(),
                supervised: (0..128).map(|at| at >= 96).collect(),
            })
            .collect();
        // From all over the set, since neighbours are about as long as each other.
        let sql = Rows::read(rows).unwrap().rows;
        let apart = sql.len() / 8;
        let sql = sql.into_iter().step_by(apart).take(8).collect();
        Self {
            optimizer: AdamW::new(&adapter.weights),
            settings: Optimizer {
                learning_rate: 1e-5,
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay: 0.0,
                warmup_steps: 0,
                schedule: Schedule::Constant,
                max_grad_norm: 1.0,
            },
            decoder,
            adapter,
            even,
            sql,
        }
    }

    /// One optimizer step; gives its loss.
    fn step(&mut self, variant: Variant) -> f64 {
        GRAPH_ATTENTION.store(variant.layers == Layers::WrittenOut, Ordering::Relaxed);
        TORCHS_OPERATIONS.store(!variant.fused, Ordering::Relaxed);
        let mut rows = if variant.rows == Batch::Even {
            self.even.clone()
        } else {
            self.sql.clone()
        };
        if variant.padded {
            let longest = rows.iter().map(|row| row.input_ids.len()).max().unwrap();
            for row in &mut rows {
                row.input_ids.resize(longest, 0);
                row.supervised.resize(longest, false);
            }
        }
        let supervised: usize = rows
            .iter()
            .map(|row| row.supervised.iter().filter(|&&on| on).count())
            .sum();
        let scale = 1.0 / supervised as f64;
        let micro_batch = 4;
        let mut total = 0.0;
        for rows in rows.chunks(micro_batch) {
            let rows: Vec<&Row> = rows.iter().collect();
            let batch = Packed::new(&rows, &self.decoder.inverse_frequencies, Kind::Float);
            total += if variant.layers == Layers::Autograd {
                self.autograd_pass(&batch, scale, variant.head)
            } else if variant.head == Head::SupervisedChunked {
                self.decoder.train_pass(&batch, scale, variant.recompute)
            } else {
                self.written_out_pass(&batch, scale, variant.head)
            };
        }
        let gradients = self.adapter.gradients.as_mut().unwrap();
        clip(gradients, self.settings.max_grad_norm);
        if variant.flat {
            self.optimizer
                .step(&mut self.adapter.weights, gradients, 1e-9, &self.settings);
        } else {
            for (mut weights, gradients) in self.matrices() {
                AdamW::new(&weights).step(&mut weights, &gradients, 1e-9, &self.settings);
            }
        }
        let _ = self.adapter.gradients.as_mut().unwrap().zero_();
        total * scale
    }

    /// Every A and B with its gradient, as tensors of their own size.
    fn matrices(&self) -> Vec<(Tensor, Tensor)> {
        let mut all = Vec::new();
        for layer in &self.decoder.layers {
            for group in layer.projections() {
                let lora = group.lora.as_ref().unwrap();
                let rank = 16;
                for (index, adapter) in lora.adapters.iter().enumerate() {
                    let rows = |x: &Tensor| x.narrow(0, index as i64 * rank, rank);
                    all.push((rows(&lora.a), rows(lora.grad_a.as_ref().unwrap())));
                    all.push((
                        adapter.b.shallow_clone(),
                        adapter.grad_b.as_ref().unwrap().shallow_clone(),
                    ));
                }
            }
        }
        all
    }

    /// Layers written out, with a head that lost.
    fn written_out_pass(&self, batch: &Packed, scale: f64, head: Head) -> f64 {
        let decoder = &self.decoder;
        let mut tapes = Vec::new();
        let mut x = decoder.embed(&batch.input_ids);
        for layer in &decoder.layers {
            let (y, tape) = layer.forward(&x, batch, Recompute::None);
            tapes.push(tape);
            x = y;
        }
        let leaf = x.set_requires_grad(true);
        let (loss, mut dx) = head_loss(decoder, &leaf, batch, scale, head);
        for (index, layer) in decoder.layers.iter().enumerate().rev() {
            match layer.backward(tapes.pop().unwrap(), dx, batch, index > 0) {
                Some(next) => dx = next,
                None => break,
            }
        }
        loss
    }

    /// One tape through everything.
    fn autograd_pass(&mut self, batch: &Packed, scale: f64, head: Head) -> f64 {
        let mut leaves = Vec::new();
        let leaf = |x: &Tensor| x.detach().copy().set_requires_grad(true);
        for (weights, _) in self.matrices() {
            leaves.push(leaf(&weights));
        }
        let decoder = &self.decoder;
        let top = tch::with_grad(|| {
            let mut at = leaves.chunks(14);
            decoder
                .layers
                .iter()
                .fold(decoder.embed(&batch.input_ids), |x, layer| {
                    autograd_layer(layer, at.next().unwrap(), &x, batch)
                })
        });
        let wanted: Vec<&Tensor> = leaves.iter().collect();
        let (loss, gradients) = if matches!(head, Head::Everywhere | Head::Supervised) {
            let loss = tch::with_grad(|| whole_loss(decoder, &top, batch, head));
            let gradients = Tensor::run_backward(&[tch::with_grad(|| &loss * scale)], &wanted, false, false);
            (loss.double_value(&[]), gradients)
        } else {
            let leaf = top.detach().set_requires_grad(true);
            let (loss, d_top) = head_loss(decoder, &leaf, batch, scale, head);
            let product = tch::with_grad(|| (&top * d_top).sum(Kind::Float));
            (loss, Tensor::run_backward(&[product], &wanted, false, false))
        };
        for ((_, mut total), gradient) in self.matrices().into_iter().zip(gradients) {
            let _ = total.g_add_(&gradient);
        }
        loss
    }
}

/// Sum of the losses at the supervised positions, from all logits at once, with a graph.
fn whole_loss(decoder: &Decoder, x: &Tensor, batch: &Packed, head: Head) -> Tensor {
    let (x, targets) = if head == Head::Everywhere {
        let ignored = Tensor::full([x.size()[0]], -100, (Kind::Int64, Device::Cpu));
        (
            x.shallow_clone(),
            ignored.index_copy(0, &batch.predicting, &batch.targets),
        )
    } else {
        (
            x.index_select(0, &batch.predicting),
            batch.targets.shallow_clone(),
        )
    };
    autograd_norm(&decoder.final_norm, &x)
        .matmul(&decoder.head.tr())
        .cross_entropy_loss::<Tensor>(&targets, None, tch::Reduction::Sum, -100, 0.0)
}

/// Loss and the gradient by the last layer's output; `x` is a leaf.
fn head_loss(decoder: &Decoder, x: &Tensor, batch: &Packed, scale: f64, head: Head) -> (f64, Tensor) {
    match head {
        Head::Everywhere | Head::Supervised => {
            let loss = tch::with_grad(|| whole_loss(decoder, x, batch, head));
            let mut gradients = Tensor::run_backward(&[tch::with_grad(|| &loss * scale)], &[x], false, false);
            (loss.double_value(&[]), gradients.remove(0))
        }
        Head::EverywhereChunked | Head::SupervisedChunked => {
            let x = x.detach();
            let everywhere = head == Head::EverywhereChunked;
            // Everywhere: every position is computed, and those that are not supervised are thrown away.
            let positions = if everywhere {
                Tensor::arange(x.size()[0], (Kind::Int64, Device::Cpu))
            } else {
                batch.predicting.shallow_clone()
            };
            let targets = if everywhere {
                Tensor::zeros([x.size()[0]], (Kind::Int64, Device::Cpu)).index_copy(
                    0,
                    &batch.predicting,
                    &batch.targets,
                )
            } else {
                batch.targets.shallow_clone()
            };
            let chosen = x.index_select(0, &positions);
            let (normed, reciprocal) = decoder.final_norm.forward(&chosen);
            let (sum, mut d_normed) = loss::cross_entropy(&normed, &decoder.head, &targets, scale);
            if everywhere {
                let mask = Tensor::zeros([x.size()[0], 1], (Kind::Float, Device::Cpu)).index_fill(
                    0,
                    &batch.predicting,
                    1.0,
                );
                let _ = d_normed.g_mul_(&mask);
            }
            let d_chosen = decoder.final_norm.backward(&chosen, &reciprocal, d_normed);
            (sum, Tensor::zeros_like(&x).index_copy_(0, &positions, &d_chosen))
        }
    }
}

fn autograd_norm(norm: &Norm, x: &Tensor) -> Tensor {
    let reciprocal = (x.square().mean_dim(-1, true, Kind::Float) + norm.eps).rsqrt();
    x * reciprocal * &norm.weight
}

/// `leaves`: A and B of the seven projections.
fn autograd_layer(layer: &Layer, leaves: &[Tensor], x: &Tensor, batch: &Packed) -> Tensor {
    let apply = |index: usize, group: &Projections, start: i64, outputs: i64, x: &Tensor| {
        let (a, b) = (&leaves[2 * index], &leaves[2 * index + 1]);
        x.matmul(&group.weight.unpacked().narrow(0, start, outputs).tr())
            + x.matmul(&a.tr()).matmul(&b.tr()) * 2.0
    };
    let (query, key) = (layer.heads * layer.head_dim, layer.kv_heads * layer.head_dim);
    let (hidden, inner) = (x.size()[1], layer.gate_up.weight.unpacked().size()[0] / 2);
    let rotated = |x: &Tensor| {
        let halves = x.chunk(2, -1);
        let (first, second) = (&halves[0], &halves[1]);
        Tensor::cat(
            &[
                first * &batch.cos - second * &batch.sin,
                second * &batch.cos + first * &batch.sin,
            ],
            -1,
        )
    };
    let normed = autograd_norm(&layer.input_norm, x);
    let heads = |x: Tensor, count: i64| x.view([-1, count, layer.head_dim]);
    let q = rotated(&heads(apply(0, &layer.qkv, 0, query, &normed), layer.heads));
    let k = rotated(&heads(apply(1, &layer.qkv, query, key, &normed), layer.kv_heads));
    let v = heads(apply(2, &layer.qkv, query + key, key, &normed), layer.kv_heads);
    let attended: Vec<Tensor> = batch
        .groups
        .iter()
        .map(|group| {
            let [q, k, v] = [&q, &k, &v].map(|x| group.rows_of(x));
            Tensor::scaled_dot_product_attention(&q, &k, &v, None::<&Tensor>, 0.0, true, None, true)
                .transpose(1, 2)
                .reshape([group.tokens(), query])
        })
        .collect();
    let middle = x + apply(3, &layer.o, 0, hidden, &Tensor::cat(&attended, 0));
    let normed = autograd_norm(&layer.post_norm, &middle);
    let activated =
        apply(4, &layer.gate_up, 0, inner, &normed).silu() * apply(5, &layer.gate_up, inner, inner, &normed);
    &middle + apply(6, &layer.down, 0, hidden, &activated)
}

#[test]
#[ignore = "needs a real model, minutes and a quiet machine: cargo xtask bench levers"]
fn levers() {
    let path = |name: &str| PathBuf::from(std::env::var_os(name).expect(name));
    memory::start_counting();
    let _guard = tch::no_grad_guard();
    let mut bench = Bench::new(&path("TUNESMITH_BENCH_MODEL"), &path("TUNESMITH_BENCH_ROWS"));
    let variants = variants();
    let mut results: Vec<(Vec<f64>, u64, f64)> = variants.iter().map(|_| (vec![], 0, 0.0)).collect();
    for round in 0..=ROUNDS {
        for (variant, result) in variants.iter().zip(&mut results) {
            memory::reset_peak(Device::Cpu);
            let started = Instant::now();
            result.2 = bench.step(*variant);
            // The first round warms up.
            if round > 0 {
                result.0.push(started.elapsed().as_secs_f64());
            }
            result.1 = memory::peak_bytes(Device::Cpu).unwrap();
        }
    }
    let records: Vec<_> = variants
        .iter()
        .zip(&results)
        .map(|(variant, (secs, peak, loss))| {
            serde_json::json!({ "variant": variant.name, "secs": secs, "peak_bytes": peak, "loss": loss })
        })
        .collect();
    // Every way of computing must give the same loss, or the comparison compares nothing.
    let reference = |rows: Batch| {
        let at = variants.iter().position(|variant| variant.rows == rows).unwrap();
        results[at].2
    };
    for (variant, (_, _, loss)) in variants.iter().zip(&results) {
        if variant.head != Head::EverywhereChunked {
            let expected = reference(variant.rows);
            assert!(
                (loss / expected - 1.0).abs() < 1e-5,
                "{}: {loss} and {expected}",
                variant.name
            );
        }
    }
    println!("LEVERS {}", serde_json::Value::from(records));
}
