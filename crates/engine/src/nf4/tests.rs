//! NF4 against bytes of bitsandbytes (a fixture by `xtask/python/nf4_fixture.py`), and against itself by other ways.

use std::path::Path;

use safetensors::SafeTensors;

use super::*;
use crate::quantise::values_of;

fn quantised(values: &[f32], columns: i64) -> Nf4 {
    Nf4::quantise("a test", values, columns, &Tables::new(Device::Cpu)).unwrap()
}

fn normal(count: i64) -> Vec<f32> {
    tch::manual_seed(5);
    Vec::try_from(Tensor::randn([count], (Kind::Float, Device::Cpu))).unwrap()
}

#[test]
fn the_bytes_are_those_of_bitsandbytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/nf4.safetensors");
    let file = std::fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let bytes = |name: String| tensors.tensor(&name).unwrap().data().to_vec();
    let floats = |name: String| -> Vec<f32> {
        let bytes = bytes(name);
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| f32::from_le_bytes(*word))
            .collect()
    };
    // torch's vectors may add a step once too often: a unit in the last place, which changes no place in the map.
    for (theirs, ours) in floats("dynamic_map".to_owned()).iter().zip(&*DYNAMIC_MAP) {
        assert!((theirs - ours).abs() <= 2e-7 * ours.abs(), "{theirs} and {ours}");
    }
    let mut cases: Vec<&str> = tensors
        .names()
        .into_iter()
        .filter_map(|name| name.strip_suffix(".input"))
        .collect();
    cases.sort_unstable();
    assert!(cases.len() >= 8, "{cases:?}");
    for case in cases {
        let input = tensors.tensor(&format!("{case}.input")).unwrap();
        let got = quantised(&values_of(case, &input).unwrap(), 1);
        assert_eq!(
            Vec::<u8>::try_from(&got.packed).unwrap(),
            bytes(format!("{case}.packed")),
            "{case}: nibbles"
        );
        assert_eq!(
            Vec::<u8>::try_from(&got.scales).unwrap(),
            bytes(format!("{case}.scales")),
            "{case}: scales"
        );
        // Bit for bit: a zero of another sign is another byte.
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(
            bits(&Vec::<f32>::try_from(&got.nested).unwrap()),
            bits(&floats(format!("{case}.nested"))),
            "{case}: nested scales"
        );
        assert_eq!(
            bits(&[got.offset]),
            bits(&floats(format!("{case}.offset"))),
            "{case}: offset"
        );
    }
}

#[test]
fn a_weight_that_is_not_finite_is_refused_by_its_tensors_name() {
    for (bad, count) in [
        (f32::INFINITY, 1),
        (f32::NEG_INFINITY, 1),
        (f32::NAN, 1),
        (f32::MAX, 200),
    ] {
        let mut values = normal(200);
        values[200 - count..].fill(bad);
        let error = Nf4::quantise(
            "model.layers.3.mlp.up_proj.weight",
            &values,
            1,
            &Tables::new(Device::Cpu),
        )
        .err()
        .unwrap();
        assert!(
            error.to_string().contains("model.layers.3.mlp.up_proj.weight"),
            "{error}"
        );
        assert_eq!(error.to_event().code, "not_quantisable");
    }
}

#[test]
fn unpacking_in_one_pass_and_by_torchs_operations_gives_the_same_bits() {
    // More than a chunk, with blocks, nested blocks and a byte that are cut short.
    for count in [1, 64, 130, 64 * 256 + 65, CHUNK_ON_PROCESSOR + 8 * 64 + 3] {
        let weight = quantised(&normal(count), count);
        let scales = weight.unpacked_scales();
        let ours = Tensor::empty([count], (Kind::Float, Device::Cpu));
        fused::unpack_nf4(&ours, &weight.packed, &scales);
        let torchs = Tensor::empty([count], (Kind::Float, Device::Cpu));
        weight.unpack_by_operations(&torchs, &scales);
        assert_eq!(ours, torchs, "{count}");
        let half = Tensor::empty([1, count], (Kind::BFloat16, Device::Cpu));
        weight.unpack_into(&half);
        assert_eq!(half.view([-1]), torchs.to_kind(Kind::BFloat16), "{count}");
    }
}

#[test]
fn matrices_one_above_the_other_unpack_as_each_alone() {
    let (first, second) = (normal(24), normal(15));
    let one = |values: &[f32]| Weight::Nf4(vec![quantised(values, 3)], Kind::Float).unpacked();
    let both = Weight::Nf4(vec![quantised(&first, 3), quantised(&second, 3)], Kind::Float);
    assert_eq!(both.unpacked(), Tensor::cat(&[one(&first), one(&second)], 0));
}

#[test]
fn a_weight_takes_half_a_byte_and_little_more() {
    let count = 64 * 256 * 4;
    let weight = Weight::Nf4(vec![quantised(&normal(count), 64)], Kind::Float);
    // numbers.md 4.1: 0.515869 bytes a weight, and the mean.
    assert_eq!(weight.bytes(), (0.515_869_140_625 * count as f64) as u64 + 4);
}

#[test]
fn the_round_trip_makes_the_error_of_nf4_and_no_other() {
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        let check = round_trip_error(Device::Cpu, dtype).unwrap();
        assert!(check.passed, "{dtype:?}: {check:?}");
        assert!(
            (check.max_error / ERROR_ON_NORMAL_WEIGHTS - 1.0).abs() < 0.005,
            "{dtype:?}: {check:?}"
        );
        let check = unpacking_error(Device::Cpu, dtype).unwrap();
        assert!(check.passed, "{dtype:?}: {check:?}");
    }
    assert!(!value_check(f64::NAN, 1.0).passed);
    assert!(!value_check(1.1, 1.0).passed);
}
