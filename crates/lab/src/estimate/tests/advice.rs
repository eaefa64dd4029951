//! What is advised, and why.

use tunesmith_protocol::{Quantization, Recompute};

use super::*;

/// Memory in which a recipe's choice fits with this much to spare.
fn choice(advice: &Advice) -> &Choice {
    advice.choice.as_ref().unwrap()
}

#[test]
fn where_everything_fits_nothing_is_computed_again_and_no_base_is_in_four_bits() {
    let bench = Bench::processor();
    let advice = bench.advice(&recipe("quickstart"), Some(12 * GIB));
    let best = choice(&advice);
    assert_eq!(
        (best.quantization, best.recompute),
        (Quantization::None, Recompute::None)
    );
    assert_eq!(best.fit, Fit::Fits);
    assert!(advice.reason.contains("LoRA on a f32 base"), "{}", advice.reason);
    assert!(
        advice.reason.contains("nothing was measured here yet"),
        "{}",
        advice.reason
    );
    // Whatever is changed, an optimizer step has the recipe's rows.
    let train = recipe("quickstart").train;
    for choice in &advice.choices {
        assert_eq!(
            choice.micro_batch * choice.accumulation,
            train.micro_batch * train.accumulation
        );
    }
    // The settings make the choice.
    let made = recipe("quickstart").with_overrides(&best.settings).unwrap();
    assert_eq!(made.train.recompute, best.recompute);
    assert_eq!(made.train.micro_batch, best.micro_batch);
}

#[test]
fn less_memory_leads_to_recomputation_then_to_four_bits_then_to_nothing() {
    let bench = Bench::processor();
    let recipe = changed(
        "quickstart",
        &[
            "train.recompute=none",
            "train.micro_batch=8",
            "train.accumulation=1",
        ],
    );
    let mut seen = Vec::new();
    for tenths in (4..=60).rev() {
        let advice = bench.advice(&recipe, Some(GIB * tenths / 10));
        let now = advice.choice.as_ref().map(|choice| {
            assert_ne!(choice.fit, Fit::DoesNotFit);
            // One that may fit, with the formula a tenth too high.
            assert!(choice.bytes * 9 / 10 <= GIB * tenths / 10);
            (choice.quantization, choice.recompute)
        });
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        if now.is_none() {
            assert!(advice.reason.starts_with("nothing fits"), "{}", advice.reason);
        }
    }
    assert_eq!(seen.first(), Some(&Some((Quantization::None, Recompute::None))));
    assert_eq!(seen.last(), Some(&None));
    let first_four = seen
        .iter()
        .position(|choice| matches!(choice, Some((Quantization::Nf4, _))));
    let last_whole = seen
        .iter()
        .rposition(|choice| matches!(choice, Some((Quantization::None, _))));
    assert!(first_four > last_whole, "{seen:?}");
}

#[test]
fn what_was_measured_here_decides_and_is_named() {
    let bench = Bench::processor();
    TestRun::new("2026-01-01T00:00:00Z").write(&bench.runs());
    let advice = bench.advice(&recipe("quickstart"), Some(12 * GIB));
    let best = choice(&advice);
    assert!(best.step_secs.is_some());
    assert!(advice.reason.contains("measured here"), "{}", advice.reason);
}

#[test]
fn of_a_model_that_is_not_known_nothing_is_advised() {
    let bench = Bench::processor();
    let advice = bench.advice(
        &changed("sft-4gib", &["model.source=\"some/model\""]),
        Some(12 * GIB),
    );
    assert_eq!(advice.choice, None);
    assert!(
        advice.reason.starts_with("nothing can be advised"),
        "{}",
        advice.reason
    );
}

#[test]
fn four_bits_are_offered_to_the_second_engine_where_bitsandbytes_has_code_for_the_device() {
    // So little that nothing fits, and what is nearest comes first.
    let recipe = changed("quickstart", &["train.memory_limit=\"300 MiB\""]);
    let wish = Wish {
        recipe: &recipe,
        device: None,
        engine: Engine::Hf,
        rows: None,
    };
    let bases = |bench: &Bench| -> Vec<Quantization> {
        let advice = advise(&wish, &bench.known(&[], Some(300 << 20))).unwrap();
        assert_eq!(advice.choice, None);
        advice.choices.iter().map(|choice| choice.quantization).collect()
    };
    assert_eq!(bases(&Bench::card()).first(), Some(&Quantization::Nf4));
    let on_processor = bases(&Bench::processor());
    assert!(
        !on_processor.is_empty() && !on_processor.contains(&Quantization::Nf4),
        "{on_processor:?}"
    );
}
