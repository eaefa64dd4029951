//! What a calibration's numbers mean: whether the device throttles, which setting and which back end won, which values
//! are wrong, how much memory lies outside the allocator, and whether the whole of it can be believed.

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{
    AllocatorOverhead, AttentionMeasurement, Calibration, DType, GemmMeasurement, InputSize, Layout, Variant,
};

use crate::Tflops;

/// Time that a device needs to show whether it keeps its speed, in seconds (X9, numbers 3.4).
pub const SUSTAINED_SECS: f64 = 30.0;
/// A sustained speed that lies further below the short one than this is throttled (X9).
pub const THROTTLED_DROP: f64 = 0.05;
/// Share by which one setting must beat the other to have won: less is noise of two runs.
pub const TELLING_GAIN: f64 = 0.03;

/// Whether a device keeps its speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steadiness {
    /// It does.
    Steady,
    /// So far it does; the time was too short to know.
    SteadySoFar,
    /// It does not.
    Throttled,
    /// It became slower, and other programs took time from it meanwhile: either may be the cause.
    Disturbed,
}

impl Steadiness {
    /// In a word or two.
    pub fn label(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::SteadySoFar => "steady so far",
            Self::Throttled => "throttled",
            Self::Disturbed => "slower, but disturbed",
        }
    }
}

/// A sustained speed beside the short one of the same product.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sustainment {
    /// Mean speed of the last third, when the device is as hot as it gets here.
    pub sustained: Tflops,
    /// Mean of the short measurement of the same product (M1).
    pub reference: Tflops,
    /// Share by which the first lies below the second; negative where it lies above.
    pub drop: f64,
    /// How long it ran, in seconds.
    pub secs: f64,
    /// What that means.
    pub steadiness: Steadiness,
}

/// Whether the device keeps its speed (X9): the last third of the sustained product against the short measurement of
/// the same one. `None` where either is missing.
pub fn sustainment(calibration: &Calibration) -> Option<Sustainment> {
    let sustained = calibration.sustained.as_ref()?;
    let short = calibration.gemm.iter().find(|gemm| {
        (gemm.dtype, gemm.layout, gemm.side) == (sustained.dtype, sustained.layout, sustained.side)
    })?;
    let secs = sustained.points.last()?.at_secs;
    // Each point is the mean of a stretch; stretches differ in length where products are long.
    let mut began = 0.0;
    let (mut work, mut time) = (0.0, 0.0);
    for point in &sustained.points {
        let length = point.at_secs - began;
        began = point.at_secs;
        if point.at_secs > secs * 2.0 / 3.0 {
            work += point.tflops * length;
            time += length;
        }
    }
    let speed = work / time;
    let drop = 1.0 - speed / short.mean_tflops;
    if !drop.is_finite() {
        return None;
    }
    let disturbed = calibration
        .contention
        .as_ref()
        .is_some_and(|seen| seen.disturbed == Some(true));
    let steadiness = match (drop > THROTTLED_DROP, disturbed) {
        (true, false) => Steadiness::Throttled,
        (true, true) => Steadiness::Disturbed,
        // The last product may end a moment before the time does.
        (false, _) if secs >= 0.95 * SUSTAINED_SECS => Steadiness::Steady,
        (false, _) => Steadiness::SteadySoFar,
    };
    Some(Sustainment {
        sustained: Tflops(speed),
        reference: Tflops(short.mean_tflops),
        drop,
        secs,
        steadiness,
    })
}

/// Memory that is in use and that the allocator does not know of, in bytes: driver, libraries, code of kernels, and
/// on a card whatever the parent could not tell to be others'. `None` where the counters contradict each other.
pub fn outside_allocator_bytes(overhead: &AllocatorOverhead) -> Option<u64> {
    overhead
        .used_bytes
        .checked_sub(overhead.allocator_bytes)?
        .checked_sub(overhead.others_bytes.unwrap_or(0))
}

/// The back end that torch takes by itself in a format.
pub fn dispatched(attention: &[AttentionMeasurement], dtype: DType) -> Option<&AttentionMeasurement> {
    attention.iter().find(|of| of.dtype == dtype && of.dispatched)
}

/// Time of a forward and a backward pass, in seconds, of a back end whose values are right.
pub fn attention_secs(of: &AttentionMeasurement) -> Option<f64> {
    let right = of.values.is_some_and(|values| values.passed);
    let secs = of.forward_secs? + of.backward_secs?;
    (right && secs.is_finite() && secs > 0.0).then_some(secs)
}

/// The fastest back end in a format, of those whose values are right.
pub fn fastest_attention(attention: &[AttentionMeasurement], dtype: DType) -> Option<&AttentionMeasurement> {
    attention
        .iter()
        .filter(|of| of.dtype == dtype)
        .filter_map(|of| Some((of, attention_secs(of)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(of, _)| of)
}

/// Speed of a model's own layers as a LoRA training multiplies them, forward and for the input's gradient: all their
/// operations over all their time (numbers 3.2: a frozen weight needs no gradient).
pub fn own_layers(calibration: &Calibration, dtype: DType) -> Option<Tflops> {
    let (mut operations, mut secs) = (0.0, 0.0);
    let needed = calibration
        .linears
        .iter()
        .filter(|linear| linear.dtype == dtype && linear.layout != Layout::Tn && linear.median_tflops > 0.0);
    for linear in needed {
        let of_one = 2.0 * linear.m as f64 * linear.n as f64 * linear.k as f64;
        operations += of_one;
        secs += of_one / (linear.median_tflops * 1e12);
    }
    Tflops::from_operations(operations, secs)
}

/// A value that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WrongValue {
    /// What computed it, for people: `bf16 product, nt layout`.
    pub what: String,
    /// In which format.
    pub dtype: DType,
    /// Largest error, as a share of the largest value.
    pub error: f64,
    /// Largest error that passes.
    pub tolerance: f64,
}

impl std::fmt::Display for WrongValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} is off by {:.1e}, and {:.1e} is allowed",
            self.what, self.error, self.tolerance
        )
    }
}

/// Everything that computed wrong values on the path that a training takes (X8): products, kernels, and the back end of
/// attention that torch dispatches. One that is never taken fails nothing.
pub fn wrong_values(calibration: &Calibration) -> Vec<WrongValue> {
    let products = calibration.gemm.iter().map(|gemm| {
        let what = format!("{} product, {} layout", gemm.dtype.name(), gemm.layout.name());
        (what, gemm.dtype, gemm.values)
    });
    let kernels = calibration.kernels.iter().map(|check| {
        let inputs = match check.inputs {
            InputSize::Ordinary => "",
            InputSize::Large => ", large inputs",
        };
        let what = format!("{} in {}{inputs}", check.kernel.label(), check.dtype.name());
        (what, check.dtype, check.values)
    });
    let attention = calibration
        .attention
        .iter()
        .filter(|of| of.dispatched)
        .filter_map(|of| {
            let what = format!("{} attention in {}", of.backend.name(), of.dtype.name());
            Some((what, of.dtype, of.values?))
        });
    products
        .chain(kernels)
        .chain(attention)
        .filter(|(_, _, values)| !values.passed)
        .map(|(what, dtype, values)| WrongValue {
            what,
            dtype,
            error: values.max_error,
            tolerance: values.tolerance,
        })
        .collect()
}

/// The first wrong value of a format, where there is one: training in that format must not begin, whatever its speed
/// (X8).
pub fn unusable(calibration: &Calibration, dtype: DType) -> Option<WrongValue> {
    wrong_values(calibration)
        .into_iter()
        .find(|wrong| wrong.dtype == dtype)
}

/// Whether a calibration can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// It can.
    Valid,
    /// It can, and something was left out or repeated less often than planned.
    CutShort,
    /// Other programs took part of the device meanwhile: its speeds are too low.
    Disturbed,
    /// Values are wrong, so that speeds count for nothing.
    WrongValues,
}

impl Validity {
    /// The word on a badge.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::CutShort => "cut short",
            Self::Disturbed => "disturbed",
            Self::WrongValues => "wrong values",
        }
    }
}

/// The validity of a calibration, and why; the worst that is true of it.
pub fn validity(calibration: &Calibration) -> (Validity, String) {
    if let Some(wrong) = wrong_values(calibration).first() {
        return (Validity::WrongValues, wrong.to_string());
    }
    match &calibration.contention {
        Some(seen) if seen.disturbed == Some(true) => {
            let who = if seen.others.is_empty() {
                "other programs".to_owned()
            } else {
                seen.others.join(", ")
            };
            return (
                Validity::Disturbed,
                format!("{who} used the device meanwhile, so its speeds are too low"),
            );
        }
        _ => {}
    }
    if calibration.time_boxed {
        let cut: Vec<&str> = calibration
            .stages
            .iter()
            .filter(|stage| stage.cut)
            .map(|stage| stage.stage.title())
            .collect();
        let what = if cut.is_empty() {
            "some measurements".to_owned()
        } else {
            cut.join("; ")
        };
        return (
            Validity::CutShort,
            format!("a time box left something out or repeated it less often: {what}"),
        );
    }
    let quiet = match calibration.contention.as_ref().and_then(|seen| seen.disturbed) {
        Some(_) => "all values are right, and the machine was quiet",
        None => "all values are right; whether the machine was quiet is not known",
    };
    (Validity::Valid, quiet.to_owned())
}

/// What a variable of the environment came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// The variable.
    pub variable: String,
    /// The value that won; `None` where no value is better than the others beyond noise, or none could be measured.
    pub value: Option<String>,
    /// Each value's figure, in the order in which they were measured; `None` where it failed or computed wrong values.
    pub figures: Vec<(String, Option<f64>)>,
    /// Unit of the figures. Of both units more is better.
    pub unit: &'static str,
    /// Why, in a clause without a full stop.
    pub why: String,
}

/// Which setting won, for each variable (X10). A setting whose values are wrong cannot win, and one that gains less than
/// [`TELLING_GAIN`] has not won.
pub fn winners(variants: &[Variant]) -> Vec<Winner> {
    let mut names: Vec<&str> = Vec::new();
    for variant in variants {
        if !names.contains(&variant.variable.as_str()) {
            names.push(&variant.variable);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let of_this: Vec<&Variant> = variants
                .iter()
                .filter(|variant| variant.variable == name)
                .collect();
            winner(name, &of_this)
        })
        .collect()
}

fn winner(name: &str, variants: &[&Variant]) -> Winner {
    let multiplies = variants.iter().any(|variant| !variant.gemm.is_empty());
    let figures: Vec<(String, Option<f64>)> = variants
        .iter()
        .map(|variant| {
            let figure = if multiplies {
                lora_gemm_tflops(&variant.gemm)
            } else {
                attention_rate(&variant.attention)
            };
            (variant.value.clone(), figure)
        })
        .collect();
    let mut measured: Vec<(&str, f64)> = figures
        .iter()
        .filter_map(|(value, figure)| Some((value.as_str(), (*figure)?)))
        .collect();
    measured.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (value, why) = match measured.as_slice() {
        [] => (None, "no setting gave right values".to_owned()),
        [(value, _)] if figures.len() > 1 => (
            Some((*value).to_owned()),
            "the other one failed or computed wrong values".to_owned(),
        ),
        [_] => (None, "there is nothing to compare it with".to_owned()),
        [(value, best), (_, second), ..] => {
            let gain = best / second - 1.0;
            if gain > TELLING_GAIN {
                (
                    Some((*value).to_owned()),
                    format!("{:.0} % faster than the other", 100.0 * gain),
                )
            } else {
                (
                    None,
                    format!("within noise: they differ by {:.1} %", 100.0 * gain),
                )
            }
        }
    };
    Winner {
        variable: name.to_owned(),
        value,
        figures,
        unit: if multiplies { "TFLOPS" } else { "passes/s" },
        why,
    }
}

/// Speed of one forward product and one for the input's gradient together: what a LoRA training multiplies.
fn lora_gemm_tflops(gemm: &[GemmMeasurement]) -> Option<f64> {
    let speed = |layout| {
        let of = gemm.iter().find(|gemm| gemm.layout == layout)?;
        (of.values.passed && !of.emulated && of.mean_tflops > 0.0).then_some(of.mean_tflops)
    };
    let (forward, gradient) = (speed(Layout::Nt)?, speed(Layout::Nn)?);
    Some(2.0 / (1.0 / forward + 1.0 / gradient))
}

/// Forward and backward passes a second of what torch dispatches.
fn attention_rate(attention: &[AttentionMeasurement]) -> Option<f64> {
    let of = attention.iter().find(|of| of.dispatched)?;
    attention_secs(of).map(|secs| 1.0 / secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_protocol::{
        AttentionBackend, AttentionShape, CalibrationStage, Contention, KernelCheck, KernelName,
        LinearMeasurement, OverheadSource, StageTime, Sustained, SustainedPoint, ValueCheck,
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

    fn attention(
        backend: AttentionBackend,
        secs: f64,
        dispatched: bool,
        right: bool,
    ) -> AttentionMeasurement {
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
}
