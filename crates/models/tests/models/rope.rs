//! Rotary frequencies against transformers' own (`fixtures/rope.json`).

use tunesmith_models::{Architecture, RopeScaling};

use crate::{fixture, tiny};

#[test]
fn inverse_frequencies_are_those_of_transformers() {
    let llama3 = RopeScaling::Llama3 {
        factor: 32.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 8192,
    };
    let cases = [
        ("none", 100_000.0, RopeScaling::None),
        ("linear", 10_000.0, RopeScaling::Linear { factor: 4.0 }),
        ("llama3", 500_000.0, llama3),
    ];
    let rows = fixture(include_str!("fixtures/rope.json"));
    assert_eq!(rows.len(), cases.len());
    for (row, (name, rope_theta, rope_scaling)) in rows.iter().zip(cases) {
        assert_eq!(row["name"], name);
        let mut config = tiny::config(Architecture::Llama);
        (config.head_dim, config.rope_theta, config.rope_scaling) = (64, rope_theta, rope_scaling);
        let expected: Vec<f64> = serde_json::from_value(row["inverse_frequencies"].clone()).unwrap();
        let found = config.inverse_frequencies();
        assert_eq!(found.len(), expected.len());
        for (pair, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let error = (f64::from(*found) - expected).abs() / expected;
            assert!(error < 3e-7, "{name}, pair {pair}: {found} is not {expected}");
        }
    }
}

#[test]
fn divisors_of_a_gguf_file_divide_each_frequency() {
    let mut config = tiny::config(Architecture::Llama);
    let plain = config.inverse_frequencies();
    let divisors: Vec<f32> = (0..16u8).map(|pair| 1.0 + f32::from(pair)).collect();
    config.rope_scaling = RopeScaling::Divisors(divisors.clone());
    for ((found, plain), divisor) in config.inverse_frequencies().iter().zip(plain).zip(divisors) {
        assert!((found * divisor - plain).abs() < 1e-7);
    }
}
