//! Calibrations that were made up, and what they mean.

use super::*;
use tunesmith_protocol::{
    AttentionBackend, AttentionShape, CalibrationStage, Contention, GemmMeasurement, InputSize, KernelCheck,
    KernelName, OverheadSource, StageTime, Sustained, SustainedPoint, ValueCheck, Variant,
};

fn values(passed: bool) -> ValueCheck {
    ValueCheck {
        max_error: if passed { 1e-4 } else { 0.5 },
        tolerance: 8e-3,
        passed,
    }
}

fn gemm(layout: Layout, mean_tflops: f64) -> GemmMeasurement {
    GemmMeasurement {
        dtype: DType::Bf16,
        layout,
        side: 8192,
        warmup: 10,
        iterations: 50,
        mean_tflops,
        best_tflops: mean_tflops,
        median_tflops: mean_tflops,
        emulated: false,
        values: values(true),
    }
}

/// A second each.
fn over_time(speeds: impl IntoIterator<Item = f64>) -> Calibration {
    let points = speeds
        .into_iter()
        .enumerate()
        .map(|(index, tflops)| SustainedPoint {
            at_secs: index as f64 + 1.0,
            tflops,
        });
    Calibration {
        gemm: vec![gemm(Layout::Nt, 100.0), gemm(Layout::Nn, 90.0)],
        sustained: Some(Sustained {
            dtype: DType::Bf16,
            layout: Layout::Nt,
            side: 8192,
            points: points.collect(),
        }),
        ..Calibration::default()
    }
}

fn steadiness(calibration: &Calibration) -> Steadiness {
    sustainment(calibration).unwrap().steadiness
}

#[test]
fn a_card_that_grows_slower_by_more_than_5_percent_is_throttled() {
    let hot = over_time((0..30).map(|second| if second < 12 { 100.0 } else { 94.0 }));
    let found = sustainment(&hot).unwrap();
    assert_eq!(found.steadiness, Steadiness::Throttled);
    assert!(
        (found.drop - 0.06).abs() < 1e-9,
        "the last third counts: {found:?}"
    );
    assert_eq!(steadiness(&over_time(vec![96.0; 30])), Steadiness::Steady);
    assert_eq!(steadiness(&over_time(vec![100.0; 5])), Steadiness::SteadySoFar);
    assert_eq!(steadiness(&over_time(vec![90.0; 5])), Steadiness::Throttled);
}

#[test]
fn a_drop_beside_other_programs_is_blamed_on_neither() {
    let mut hot = over_time(vec![90.0; 30]);
    hot.contention = Some(Contention {
        disturbed: Some(true),
        ..Contention::default()
    });
    assert_eq!(steadiness(&hot), Steadiness::Disturbed);
}

#[test]
fn long_stretches_count_by_their_length() {
    let mut uneven = over_time([100.0, 100.0]);
    uneven.sustained.as_mut().unwrap().points = vec![
        SustainedPoint {
            at_secs: 10.0,
            tflops: 100.0,
        },
        SustainedPoint {
            at_secs: 29.0,
            tflops: 90.0,
        },
        SustainedPoint {
            at_secs: 30.0,
            tflops: 70.0,
        },
    ];
    let found = sustainment(&uneven).unwrap();
    assert!((found.sustained.0 - (19.0 * 90.0 + 70.0) / 20.0).abs() < 1e-9);
}

#[test]
fn without_the_same_product_beside_it_nothing_is_said() {
    let mut alone = over_time(vec![90.0; 30]);
    alone.gemm.remove(0);
    assert_eq!(sustainment(&alone), None);
    let mut nothing = over_time([]);
    assert_eq!(sustainment(&nothing), None);
    nothing.sustained = None;
    assert_eq!(sustainment(&nothing), None);
}

#[test]
fn what_the_allocator_does_not_know_of_is_the_rest() {
    let mut overhead = AllocatorOverhead {
        source: OverheadSource::Device,
        used_bytes: 5000,
        allocator_bytes: 3000,
        others_bytes: Some(800),
    };
    assert_eq!(outside_allocator_bytes(&overhead), Some(1200));
    overhead.others_bytes = None;
    assert_eq!(outside_allocator_bytes(&overhead), Some(2000));
    overhead.allocator_bytes = 6000;
    assert_eq!(outside_allocator_bytes(&overhead), None);
}

fn attention(backend: AttentionBackend, secs: f64, dispatched: bool, right: bool) -> AttentionMeasurement {
    AttentionMeasurement {
        backend,
        dtype: DType::Bf16,
        shape: AttentionShape {
            rows: 4,
            heads: 16,
            kv_heads: 2,
            length: 2048,
            head_dim: 128,
        },
        dispatched,
        proof: None,
        forward_secs: Some(secs / 3.0),
        backward_secs: Some(secs * 2.0 / 3.0),
        iterations: 10,
        peak_bytes: None,
        values: Some(values(right)),
        unavailable: None,
    }
}

#[test]
fn the_fastest_attention_is_one_with_right_values() {
    let all = [
        attention(AttentionBackend::Math, 0.9, false, true),
        attention(AttentionBackend::Flash, 0.1, true, false),
        attention(AttentionBackend::Efficient, 0.3, false, true),
    ];
    let fastest = fastest_attention(&all, DType::Bf16).unwrap();
    assert_eq!(fastest.backend, AttentionBackend::Efficient);
    assert_eq!(
        dispatched(&all, DType::Bf16).unwrap().backend,
        AttentionBackend::Flash
    );
    assert_eq!(fastest_attention(&all, DType::F32), None);
}

#[test]
fn a_wrong_value_makes_its_format_unusable_and_no_other() {
    let mut calibration = over_time(vec![100.0; 30]);
    assert_eq!(unusable(&calibration, DType::Bf16), None);
    assert_eq!(validity(&calibration).0, Validity::Valid);
    calibration.kernels.push(KernelCheck {
        kernel: KernelName::AttentionBackward,
        dtype: DType::F16,
        inputs: InputSize::Large,
        values: values(false),
    });
    assert_eq!(unusable(&calibration, DType::Bf16), None);
    let wrong = unusable(&calibration, DType::F16).unwrap();
    assert_eq!(wrong.what, "attention, backward in f16, large inputs");
    assert_eq!(validity(&calibration).0, Validity::WrongValues);
}

#[test]
fn a_back_end_that_nobody_takes_fails_nothing() {
    let mut calibration = Calibration {
        attention: vec![attention(AttentionBackend::Efficient, 0.1, false, false)],
        ..Calibration::default()
    };
    assert_eq!(wrong_values(&calibration), []);
    calibration.attention[0].dispatched = true;
    assert_eq!(wrong_values(&calibration)[0].what, "efficient attention in bf16");
}

#[test]
fn validity_names_the_worst_and_its_reason() {
    let mut calibration = over_time(vec![100.0; 30]);
    calibration.time_boxed = true;
    calibration.stages = vec![StageTime {
        stage: CalibrationStage::Copy,
        secs: 3.0,
        cut: true,
    }];
    let (word, why) = validity(&calibration);
    assert_eq!(word, Validity::CutShort);
    assert!(why.contains("copies within the memory"), "{why}");
    calibration.contention = Some(Contention {
        others: vec!["ollama".to_owned()],
        disturbed: Some(true),
        ..Contention::default()
    });
    let (word, why) = validity(&calibration);
    assert_eq!((word, word.word()), (Validity::Disturbed, "disturbed"));
    assert!(why.starts_with("ollama used the device"), "{why}");
}

fn variant(value: &str, forward: f64, gradient: f64) -> Variant {
    Variant {
        variable: "TORCH_BLAS_PREFER_HIPBLASLT".to_owned(),
        value: value.to_owned(),
        gemm: vec![gemm(Layout::Nt, forward), gemm(Layout::Nn, gradient)],
        attention: Vec::new(),
        failure: None,
    }
}

#[test]
fn the_setting_that_multiplies_faster_wins() {
    // gfx1151, numbers 3.4: rocBLAS 24.9 and 23.7, hipBLASLt 34.5 and 30.6.
    let both = [variant("0", 24.9, 23.7), variant("1", 34.5, 30.6)];
    let found = &winners(&both)[0];
    assert_eq!(found.value.as_deref(), Some("1"));
    assert!((found.figures[1].1.unwrap() - 32.43).abs() < 0.01, "{found:?}");
    assert_eq!(found.why, "34 % faster than the other");
}

#[test]
fn a_small_difference_is_noise_and_wrong_values_never_win() {
    let close = [variant("0", 30.0, 30.0), variant("1", 30.5, 30.5)];
    let found = &winners(&close)[0];
    assert_eq!(found.value, None);
    assert_eq!(found.why, "within noise: they differ by 1.7 %");
    let mut wrong = [variant("0", 20.0, 20.0), variant("1", 30.0, 30.0)];
    wrong[1].gemm[0].values = values(false);
    let found = &winners(&wrong)[0];
    assert_eq!(found.value.as_deref(), Some("0"));
    assert_eq!(found.figures[1], ("1".to_owned(), None));
    wrong[0].gemm.clear();
    assert_eq!(winners(&wrong)[0].value, None);
}

#[test]
fn each_variable_has_its_own_winner() {
    let flag = |value: &str, backend, secs| Variant {
        variable: "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL".to_owned(),
        value: value.to_owned(),
        gemm: Vec::new(),
        attention: vec![attention(backend, secs, true, true)],
        failure: None,
    };
    let all = [
        flag("0", AttentionBackend::Math, 0.19),
        flag("1", AttentionBackend::Flash, 0.01),
        variant("0", 24.9, 23.7),
        variant("1", 34.5, 30.6),
    ];
    let found = winners(&all);
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[0].value.as_deref(), found[0].unit),
        (Some("1"), "passes/s")
    );
    assert_eq!((found[1].value.as_deref(), found[1].unit), (Some("1"), "TFLOPS"));
}

#[test]
fn own_layers_count_what_lora_multiplies() {
    let linear = |layout, n, tflops| LinearMeasurement {
        name: "down_proj".to_owned(),
        dtype: DType::Bf16,
        layout,
        m: 512,
        n,
        k: 1536,
        iterations: 5,
        mean_tflops: tflops,
        best_tflops: tflops,
        median_tflops: tflops,
    };
    let mut calibration = Calibration {
        linears: vec![
            linear(Layout::Nt, 1000, 10.0),
            linear(Layout::Nn, 1000, 30.0),
            linear(Layout::Tn, 1000, 1.0),
        ],
        ..Calibration::default()
    };
    let speed = own_layers(&calibration, DType::Bf16).unwrap();
    assert!(
        (speed.0 - 15.0).abs() < 1e-9,
        "the time of both, and no weight gradient: {speed:?}"
    );
    calibration.linears.clear();
    assert_eq!(own_layers(&calibration, DType::Bf16), None);
}
