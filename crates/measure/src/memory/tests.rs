use tunesmith_protocol::Quantization;

use super::{transformers::Habits, *};
use crate::{
    Projection,
    shape::tests::{all_modules, qwen2_5_3b},
};

const GB: f64 = 1e9;

fn smollm2() -> ModelShape {
    ModelShape {
        hidden: 576,
        layers: 30,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        intermediate: 1536,
        vocab: 49_152,
        tied: true,
        qkv_bias: false,
        qk_norm: false,
    }
}

fn llama_8b() -> ModelShape {
    ModelShape {
        hidden: 4096,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        intermediate: 14_336,
        vocab: 128_256,
        tied: false,
        qkv_bias: false,
        qk_norm: false,
    }
}

/// As the published runs: 2 rows of 256 tokens, rank 32, attention that keeps its scores.
fn published(recompute: Recompute) -> MemoryWork {
    MemoryWork {
        scores: Scores::ByTorch,
        trainer: Trainer::Transformers,
        ..MemoryWork::of_rows(2, 256, recompute, DType::Bf16)
    }
}

#[track_caller]
fn assert_near(got: f64, expected: f64, share: f64) {
    assert!((got / expected - 1.0).abs() < share, "{got} is not {expected}");
}

/// The allocator's peak of a step, measured on a processor: docs/measured/2026-12-01-levers.json, rank 16 on seven
/// modules, 4 rows of 128 tokens of which the last quarter is trained.
#[test]
fn a_step_on_a_processor_holds_what_was_measured_to_the_byte() {
    for (recompute, measured) in [
        (Recompute::None, 1_100_681_088),
        (Recompute::Mlp, 874_520_448),
        (Recompute::Layer, 704_823_168),
    ] {
        let work = MemoryWork {
            supervised: 128,
            on_processor: true,
            ..MemoryWork::of_rows(4, 128, recompute, DType::F32)
        };
        let need = MemoryNeed::of(&smollm2(), &all_modules(16), &work);
        assert_eq!(need.step_bytes(), measured, "{recompute:?}");
    }
}

#[test]
fn weights_and_adapter_are_those_of_the_worked_example() {
    let work = MemoryWork::of_rows(2, 256, Recompute::Layer, DType::Bf16);
    let need = MemoryNeed::of(&qwen2_5_3b(), &all_modules(32), &work);
    assert_eq!(need.weights_bytes, 6_171_877_376);
    assert_eq!(need.adapter_bytes, 59_867_136 * 18);
    assert_eq!(need.formula, MEMORY_FORMULA);
}

/// Numbers 4.2, L2 and L3: 8.29 GB predicted of 8.13 measured, 13.16 of 12.47, and 11.02 without the adapter's inputs.
#[test]
fn the_published_runs_with_transformers_are_met() {
    let lora = all_modules(32);
    let shape = qwen2_5_3b();
    let allocated = |work: &MemoryWork| MemoryNeed::of(&shape, &lora, work).step_bytes() as f64 / GB;
    let with = allocated(&published(Recompute::Layer));
    assert_near(with, 8.29, 0.002);
    assert_near(with, 8.13, 0.021);
    let work = published(Recompute::None);
    let habits = Habits {
        dropout: true,
        ..Habits::of(&work)
    };
    let pass = transformers::pass(&shape, &work, &habits);
    let resident = (6_171_877_376u64 + 59_867_136 * 16) as f64;
    let without = (resident + (pass.kept + pass.moment) as f64) / GB;
    assert_near(without, 13.16, 0.002);
    assert_near(without, 12.47, 0.057);
    // In f32 no input of an adapter is widened; two bytes an element then stand for four.
    let plain = transformers::pass(
        &shape,
        &MemoryWork {
            dtype: DType::F32,
            ..work
        },
        &habits,
    );
    let narrow = (resident + plain.kept as f64 / 2.0 + plain.moment as f64) / GB;
    assert_near(narrow, 11.02, 0.002);
}

/// Numbers 4.2: L1, R's m₀, and what the tables of context lengths grow by with each token.
#[test]
fn the_other_published_points_are_met() {
    let shape = qwen2_5_3b();
    let inference = shape.parameters() * 2 + 276 * shape.kv_bytes_per_token(DType::Bf16);
    assert_near(inference as f64 / GB, 6.18, 0.001);
    let resident = shape.parameters() * 2 + all_modules(32).parameters(&shape) * 16;
    assert_near(resident as f64 / (1u64 << 30) as f64, 6.64, 0.001);

    let llama = llama_8b();
    let (narrow, wide) = transformers::layer_width(&llama);
    assert_eq!(2 * (narrow + wide), 210_944, "Unsloth's table: 210.9 kB a token");
    let slope = |habits: &Habits, shape: &ModelShape| {
        let of = |tokens| {
            let work = MemoryWork {
                trainer: Trainer::Transformers,
                ..MemoryWork::of_rows(1, tokens, Recompute::Layer, DType::Bf16)
            };
            let pass = transformers::pass(shape, &work, habits);
            pass.kept + pass.moment
        };
        (of(30_000) - of(10_000)) as f64 / 20_000.0 / 1e6
    };
    let four_copies = Habits {
        logit_copies: 40,
        checkpoint_element: 4,
        dropout: false,
    };
    assert_near(slope(&four_copies, &llama), 2.58, 0.002);
    let qwen_7b = ModelShape {
        hidden: 4096,
        layers: 32,
        heads: 32,
        kv_heads: 32,
        head_dim: 128,
        intermediate: 11_008,
        vocab: 151_936,
        tied: false,
        qkv_bias: true,
        qk_norm: false,
    };
    let ours = Habits {
        logit_copies: 35,
        checkpoint_element: 2,
        dropout: false,
    };
    assert_near(slope(&ours, &qwen_7b), 2.39, 0.002);
}

/// Numbers 4.2: the intercept of Unsloth's table is a 4-bit Llama-3.1-8B with an adapter of rank 32.
#[test]
fn a_4_bit_base_and_its_adapter_are_met() {
    let llama = llama_8b();
    let work = MemoryWork {
        quantization: Quantization::Nf4,
        trainer: Trainer::Transformers,
        ..MemoryWork::of_rows(1, 512, Recompute::Layer, DType::Bf16)
    };
    let need = MemoryNeed::of(&llama, &all_modules(32), &work);
    assert_near((need.weights_bytes + need.adapter_bytes) as f64 / GB, 7.04, 0.001);
    let whole = MemoryWork {
        quantization: Quantization::None,
        ..work
    };
    let saved = MemoryNeed::of(&llama, &all_modules(32), &whole).weights_bytes - need.weights_bytes;
    assert_near(
        saved as f64,
        llama.linear_parameters() as f64 * (2.0 - 0.515_869),
        1e-4,
    );
}

#[test]
fn computing_more_again_keeps_less() {
    for trainer in [Trainer::Native, Trainer::Transformers] {
        let kept = |recompute| {
            let work = MemoryWork {
                trainer,
                ..published(recompute)
            };
            MemoryNeed::of(&qwen2_5_3b(), &all_modules(32), &work)
        };
        let (none, layer) = (kept(Recompute::None), kept(Recompute::Layer));
        assert!(none.kept_bytes > layer.kept_bytes && none.total_bytes() > layer.total_bytes());
    }
    let kept = |recompute| {
        let work = MemoryWork::of_rows(2, 256, recompute, DType::Bf16);
        MemoryNeed::of(&qwen2_5_3b(), &all_modules(32), &work).kept_bytes
    };
    assert!(kept(Recompute::None) > kept(Recompute::Mlp));
    assert!(kept(Recompute::Mlp) > kept(Recompute::Layer));
}

#[test]
fn more_of_anything_needs_no_less() {
    let of = |work: &MemoryWork, rank| MemoryNeed::of(&smollm2(), &all_modules(rank), work).total_bytes();
    let base = MemoryWork::of_rows(4, 1024, Recompute::Layer, DType::F32);
    let whole = of(&base, 16);
    for more in [
        MemoryWork::of_rows(8, 1024, Recompute::Layer, DType::F32),
        MemoryWork::of_rows(4, 2048, Recompute::Layer, DType::F32),
        MemoryWork {
            scores: Scores::Probabilities,
            ..base
        },
        MemoryWork {
            scores: Scores::ByTorch,
            ..base
        },
        MemoryWork {
            one_length: false,
            ..base
        },
        MemoryWork {
            recompute: Recompute::None,
            ..base
        },
    ] {
        assert!(of(&more, 16) > whole, "{more:?}");
    }
    assert!(of(&base, 32) > whole);
}

/// The checks before the first step pass two rows at once: with a micro-batch of one they need more than a step.
#[test]
fn checks_and_answers_can_need_more_than_a_step() {
    let lora = all_modules(16);
    let of = |work: &MemoryWork| MemoryNeed::of(&smollm2(), &lora, work);
    let alone = MemoryWork {
        rows_per_step: 1,
        ..MemoryWork::of_rows(1, 512, Recompute::None, DType::F32)
    };
    assert_eq!(of(&alone).beside_bytes, 0);
    let accumulated = MemoryWork {
        rows_per_step: 8,
        ..alone
    };
    let pair = MemoryWork::of_rows(2, 512, Recompute::None, DType::F32);
    let (one, two) = (of(&accumulated), of(&pair));
    assert!(one.beside_bytes > 0 && two.beside_bytes == 0);
    assert_near(one.total_bytes() as f64, two.total_bytes() as f64, 0.02);

    let asked = MemoryWork {
        answers: Some(AnswerWork {
            batch: 256,
            prompt_tokens: 512,
            new_tokens: 96,
        }),
        ..alone
    };
    assert!(of(&asked).total_bytes() > of(&alone).total_bytes());
    assert_eq!(of(&asked).step_bytes(), of(&alone).step_bytes());
}

#[test]
fn an_adapter_on_one_module_keeps_less_and_a_large_one_decides_the_moment() {
    let only = LoraShape {
        rank: 16,
        target_modules: vec![Projection::QProj],
    };
    let work = MemoryWork::of_rows(4, 128, Recompute::None, DType::F32);
    let kept = |lora: &LoraShape| MemoryNeed::of(&smollm2(), lora, &work).kept_bytes;
    // 512 tokens, 30 layers, 16 columns of each of six modules in f32.
    assert_eq!(kept(&all_modules(16)) - kept(&only), 512 * 30 * 16 * 6 * 4);
    let tiny = MemoryWork::of_rows(1, 8, Recompute::Layer, DType::F32);
    let large = all_modules(512);
    let need = MemoryNeed::of(&smollm2(), &large, &tiny);
    let optimizer = 8 * large.parameters(&smollm2());
    assert_eq!(need.kept_bytes + need.moment_bytes, optimizer);
}

#[test]
fn a_record_from_before_reads_as_the_first_formula() {
    let need: MemoryNeed = serde_json::from_str(
        r#"{"weights_bytes":1,"adapter_bytes":2,"kept_bytes":3,"moment_bytes":4,"context_bytes":5}"#,
    )
    .unwrap();
    assert_eq!((need.formula, need.beside_bytes, need.total_bytes()), (1, 0, 15));
}

#[test]
fn staging_holds_the_largest_tensor_twice_and_once_converted() {
    assert_eq!(staging_bytes(&smollm2(), DType::F32), 8 * 49_152 * 576);
    assert_eq!(staging_bytes(&smollm2(), DType::Bf16), 10 * 49_152 * 576);
    let wide = ModelShape {
        vocab: 100,
        ..smollm2()
    };
    assert_eq!(staging_bytes(&wide, DType::F32), 8 * 2 * 1536 * 576);
}
