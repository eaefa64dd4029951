//! Memory: the limit, the rooms beside the device, and what earlier runs say of the formula.

use tunesmith_measure::{MEMORY_FORMULA, MemoryNeed, MemoryWork, Trainer, fit::LimitRule};
use tunesmith_protocol::{Quantization, Recompute, RunStatus};

use super::*;
use crate::run::{Manifest, Run};

#[test]
fn a_card_is_measured_against_its_own_memory() {
    let bench = Bench::card();
    let fits = bench.estimate(&recipe("sft-24gib"), None).unwrap();
    assert_eq!((fits.device.as_str(), fits.dtype), ("cuda:0", DType::Bf16));
    assert_ne!(fits.memory.fit, Fit::DoesNotFit, "{}", fits.memory.reason);
    assert!(
        fits.memory.limit.is_some_and(|limit| limit < 24 * GIB),
        "{:?}",
        fits.memory
    );
    let larger = bench.estimate(
        &changed("sft-24gib", &["train.micro_batch=64", "train.recompute=\"none\""]),
        None,
    );
    let larger = larger.unwrap().memory;
    assert_eq!(larger.fit, Fit::DoesNotFit, "{}", larger.reason);
    assert!(larger.reason.contains("does not fit into"), "{}", larger.reason);
    let cpu = bench.estimate(&recipe("quickstart"), Some("cpu")).unwrap();
    assert_eq!(cpu.device, "cpu");
    for device in ["cuda:0", "0000:03:00.0"] {
        let chosen = bench.estimate(&recipe("sft-24gib"), Some(device)).unwrap();
        assert_eq!(chosen.device_name, fits.device_name, "{device}");
    }
    assert_eq!(
        bench
            .estimate(&changed("quickstart", &["train.device=cuda:7"]), None)
            .unwrap_err()
            .code(),
        "card_unknown"
    );
}

#[test]
fn what_others_hold_of_the_card_is_not_there() {
    let mut bench = Bench::card();
    let before = bench.estimate(&recipe("sft-12gib"), None).unwrap().memory;
    assert_eq!(before.hard_limit.unwrap().rule, LimitRule::FreeOnCard);
    let gpu = &mut bench.system.gpus[0];
    gpu.vram_used_bytes = gpu.vram_bytes.map(|all| all - 4 * GIB);
    let after = bench.estimate(&recipe("sft-12gib"), None).unwrap().memory;
    let limit = after.hard_limit.unwrap();
    assert_eq!(after.limit, Some(limit.bytes));
    assert!(
        (limit.bytes as f64 / (3.6 * GIB as f64) - 1.0).abs() < 1e-3,
        "{limit:?}"
    );
    assert!(
        after.limit_how.contains("that are free on the card"),
        "{}",
        after.limit_how
    );
    assert!(before.limit > after.limit);
    assert_eq!(after.fit, Fit::DoesNotFit);
    // The user may want another limit; the driver's free memory does not stop that.
    let wished = bench.estimate(&changed("sft-12gib", &["train.memory_limit=2 GiB"]), None);
    let wished = wished.unwrap().memory;
    assert_eq!(wished.hard_limit.unwrap().rule, LimitRule::Wish);
    assert!(wished.limit.unwrap() <= 2 * GIB);
}

#[test]
fn a_processor_has_the_memory_that_is_free() {
    let bench = Bench::processor();
    let found = bench.with(&recipe("quickstart"), None, None, Some(GIB)).unwrap();
    assert_eq!((found.memory.limit, found.memory.hard_limit), (Some(GIB), None));
    assert_eq!(found.memory.fit, Fit::DoesNotFit, "{}", found.memory.reason);
    assert_eq!((found.host.fit, found.fit), (Fit::DoesNotFit, Fit::DoesNotFit));
}

#[test]
fn beside_a_card_main_memory_and_the_disk_have_verdicts_of_their_own() {
    let bench = Bench::card();
    let at = |free| bench.with(&recipe("sft-12gib"), None, None, free).unwrap();
    let plenty = at(Some(16 * GIB));
    assert_eq!(plenty.host.fit, Fit::Fits, "{}", plenty.host.reason);
    assert_eq!(plenty.host.bytes, total(&plenty.host.parts));
    let little = at(Some(GIB));
    assert_eq!(little.host.fit, Fit::DoesNotFit, "{}", little.host.reason);
    assert_eq!(little.fit, Fit::DoesNotFit);
    // The disk of a machine that is not this one is not known, and says nothing against it.
    assert_eq!(
        (plenty.storage.fit, plenty.fit),
        (Fit::Unknown, plenty.memory.fit)
    );
}

#[test]
fn a_base_in_four_bits_and_more_recomputation_need_less() {
    let bench = Bench::processor();
    let at = |settings: &[&str]| {
        bench
            .estimate(&changed("quickstart", settings), None)
            .unwrap()
            .memory
    };
    let whole = at(&["train.recompute=none"]);
    let mlp = at(&["train.recompute=mlp"]);
    let layer = at(&["train.recompute=layer"]);
    assert!(whole.bytes > mlp.bytes && mlp.bytes > layer.bytes);
    let four = at(&["train.recompute=none", "model.quantization=nf4"]);
    // Two of three parameters lie in linear layers, which shrink to a seventh; the embedding stays.
    let frozen = |memory: &MemoryEstimate| bytes(&memory.parts, "frozen model").unwrap();
    assert!(frozen(&four) < frozen(&whole) * 2 / 5, "{:?}", four.parts);
    let eager = at(&["train.recompute=none", "train.attention=eager"]);
    let padded = at(&["train.recompute=none", "train.packing=false"]);
    assert!(eager.bytes > whole.bytes && padded.bytes >= whole.bytes);
}

#[test]
fn earlier_runs_correct_the_formula_and_their_spread_is_the_margin() {
    let bench = Bench::processor();
    let before = bench.estimate(&recipe("quickstart"), None).unwrap().memory;
    let probe = TestRun::new("2026-01-01T00:00:00Z").write(&bench.runs());
    let manifest: Manifest = Run::open(&probe).unwrap().manifest.unwrap();
    std::fs::remove_dir_all(&probe).unwrap();
    let predicted = manifest.predicted.unwrap();
    let allocated = predicted.step_bytes() as f64;
    for (day, ratio) in [(1, 0.8), (2, 0.5), (3, 0.82), (4, 0.78)] {
        let run = TestRun::new(&format!("2026-01-0{day}T00:00:00Z")).peak_bytes((allocated * ratio) as u64);
        // What went wrong tells nothing of what is needed.
        let run = if day == 2 {
            run.status(RunStatus::Crashed)
        } else {
            run
        };
        run.write(&bench.runs());
    }
    let rows = manifest.data.report;
    let found = bench
        .with(&recipe("quickstart"), None, Some(&rows), None)
        .unwrap()
        .memory;
    let correction = found.correction.unwrap();
    assert_eq!((correction.runs, correction.left_out), (3, 0));
    assert!((correction.ratio - 0.8).abs() < 1e-6, "{correction:?}");
    assert_eq!(
        found.correction_of,
        Some("runs of this model with these settings for memory")
    );
    assert!(found.reason.contains("3 earlier runs"), "{}", found.reason);
    assert!(before.correction.is_none());
    assert!((before.margin - 0.1).abs() < 1e-12 && found.margin < before.margin);
    let step = found.step_bytes.unwrap() as f64;
    let by_formula = bytes(&found.parts, "frozen model").unwrap() as f64;
    assert!(step > by_formula * 0.8);
    // The card is another kind of device.
    let bench = Bench {
        system: Bench::card().system,
        ..bench
    };
    let elsewhere = bench.estimate(&recipe("quickstart"), None).unwrap().memory;
    assert_eq!(elsewhere.correction, None);
}

fn work(recompute: Recompute, quantization: Quantization) -> MemoryWork {
    MemoryWork {
        on_processor: true,
        quantization,
        ..MemoryWork::of_rows(4, 128, recompute, DType::F32)
    }
}

fn need(bytes: u64) -> MemoryNeed {
    MemoryNeed {
        formula: MEMORY_FORMULA,
        weights_bytes: bytes,
        adapter_bytes: 0,
        kept_bytes: 0,
        moment_bytes: 0,
        beside_bytes: 0,
        context_bytes: 100,
    }
}

fn point(work: MemoryWork, same_model: bool, measured: u64) -> MemoryPoint {
    MemoryPoint {
        same_model,
        work,
        predicted: need(1000),
        measured_bytes: measured,
        process_bytes: None,
    }
}

#[test]
fn the_nearest_kin_of_which_there_are_enough_correct() {
    let plain = work(Recompute::None, Quantization::None);
    let layer = work(Recompute::Layer, Quantization::None);
    let four = work(Recompute::None, Quantization::Nf4);
    let mut earlier = vec![
        point(plain, true, 900),
        point(plain, true, 910),
        point(plain, true, 890),
        point(layer, true, 1100),
        point(four, false, 700),
    ];
    let of = |work: MemoryWork, earlier: &[MemoryPoint]| corrected(need(1000), &work, earlier);
    let found = of(plain, &earlier);
    assert_eq!((found.step_bytes, found.bytes), (900, 1000));
    assert_eq!(
        found.correction.unwrap().1,
        "runs of this model with these settings for memory"
    );
    // One with its settings may be a strange one: those of its model are taken.
    let (correction, of_what) = of(layer, &earlier).correction.unwrap();
    assert_eq!((correction.runs, correction.left_out), (3, 1));
    assert_eq!(of_what, "runs of this model");
    // Two are not, though they are too few to tell how far a prediction may be off.
    earlier.push(point(layer, true, 1110));
    let found = of(layer, &earlier);
    assert_eq!(found.step_bytes, 1105);
    assert!((found.margin - 0.1).abs() < 1e-12);
    // Without runs of its settings its model's serve.
    assert_eq!(of(four, &earlier).correction.unwrap().1, "runs of this model");
    assert_eq!(of(four, &[]).correction, None);
}

#[test]
fn a_strange_run_another_formula_and_another_trainer_correct_nothing() {
    let plain = work(Recompute::None, Quantization::None);
    let mut earlier: Vec<MemoryPoint> = [900, 905, 895, 902, 3000]
        .map(|measured| point(plain, true, measured))
        .to_vec();
    let (with_strange, _) = corrected(need(1000), &plain, &earlier).correction.unwrap();
    assert_eq!((with_strange.runs, with_strange.left_out), (4, 1));
    assert!((with_strange.ratio - 0.901).abs() < 1e-9, "{with_strange:?}");
    for point in &mut earlier {
        point.predicted.formula = MEMORY_FORMULA - 1;
    }
    assert_eq!(corrected(need(1000), &plain, &earlier).correction, None);
    for point in &mut earlier {
        point.predicted.formula = MEMORY_FORMULA;
        point.work.trainer = Trainer::Transformers;
    }
    assert_eq!(corrected(need(1000), &plain, &earlier).correction, None);
}

#[test]
fn on_a_processor_what_engines_hold_beside_their_tensors_is_learned_too() {
    let plain = work(Recompute::None, Quantization::None);
    let with = |process: u64| MemoryPoint {
        process_bytes: Some(process),
        ..point(plain, false, 1000)
    };
    let found = corrected(need(1000), &plain, &[with(1240), with(1250), with(1260)]);
    assert_eq!((found.step_bytes, found.bytes), (1000, 1250));
    let card = MemoryWork {
        on_processor: false,
        ..plain
    };
    assert_eq!(corrected(need(1000), &card, &[with(1240)]).bytes, 1100);
}
