//! What a user relies on when reading a run's figures.

use super::*;
use crate::shape::tests::{all_modules, qwen2_5_3b};
use proptest::prelude::*;

fn context() -> SummaryContext {
    SummaryContext {
        shape: qwen2_5_3b(),
        lora: all_modules(32),
        recomputed: Recomputed::Nothing,
        peaks: Peaks {
            theoretical: Some(Tflops(122.8)),
            practical: Some(Tflops(101.53)),
        },
        discard: None,
    }
}

/// Steps of 2 × 256 tokens, 400 of them real and 100 supervised, 0.343 s each after 10 s of loading.
fn steps(count: u64) -> Vec<Step> {
    (1..=count)
        .map(|step| Step {
            step,
            loss: Some(3.0 / step as f64),
            grad_norm: Some(1.0 + step as f64),
            lr: 1e-4,
            dt_secs: 0.343,
            elapsed_secs: 10.0 + 0.343 * step as f64,
            real_tokens: 400 * step,
            padded_tokens: 512 * step,
            supervised_tokens: 100 * step,
            squared_lengths: 2 * 256 * 256,
            peak_bytes: Some((1 << 30) + step),
        })
        .collect()
}

fn close(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() <= 1e-9 * b.abs())
}

#[test]
fn a_plain_run() {
    let summary = summarise(&steps(40), &context());
    assert_eq!((summary.total_steps, summary.valid_steps), (40, 40));
    assert_eq!((summary.discarded_steps, summary.steady_steps), (5, 35));
    assert!(close(summary.steady_tokens_per_sec, 400.0 / 0.343));
    assert!(close(summary.steady_padded_tokens_per_sec, 512.0 / 0.343));
    assert!(close(
        summary.whole_run_tokens_per_sec,
        16_000.0 / (10.0 + 0.343 * 40.0)
    ));
    assert!(close(summary.time_to_first_step_secs, 10.343));
    assert!(close(summary.supervised_share, 0.25));
    assert_eq!(summary.peak_bytes, Some((1 << 30) + 40));
    assert!(summary.findings.is_empty(), "{:?}", summary.findings);
    let loss = summary.loss.unwrap();
    assert!((loss.first - 3.0).abs() < 1e-12 && (loss.last - 0.075).abs() < 1e-12);
    let tail = (37..=40).map(|step| 3.0 / f64::from(step)).sum::<f64>() / 4.0;
    assert!((loss.mean_last_tenth - tail).abs() < 1e-12);
    assert_eq!(summary.grad_norm, Some(Range { min: 2.0, max: 41.0 }));
    let spread = summary.step_secs.unwrap();
    assert!(spread.n == 35 && (spread.mean - 0.343).abs() < 1e-12 && spread.sd.unwrap() < 1e-12);
    assert!(close(summary.validity(), 1.0));
}

#[test]
fn cumulative_counters_are_never_summed() {
    let summary = summarise(&steps(10), &context());
    assert_eq!(
        (
            summary.real_tokens,
            summary.padded_tokens,
            summary.supervised_tokens
        ),
        (4000, 5120, 1000)
    );
}

#[test]
fn mfu_of_the_published_run() {
    // All 512 tokens supervised, as in numbers 3.3: 18.8 % LoRA-exact against the measured peak (numbers 1.4).
    let mut steps = steps(20);
    for step in &mut steps {
        (step.real_tokens, step.supervised_tokens) = (step.padded_tokens, step.padded_tokens);
    }
    let summary = summarise(&steps, &context());
    let mfu = summary.mfu.unwrap();
    assert!((mfu.lora_exact.practical.unwrap().percent() - 18.8).abs() < 0.05);
    assert!((mfu.six_nd.practical.unwrap().percent() - 27.2).abs() < 0.05);
    assert!((mfu.bias.unwrap() - 0.173).abs() < 5e-4);
    let of_step = summary.points[7].mfu_exact_practical.unwrap();
    assert!((of_step.0 - mfu.lora_exact.practical.unwrap().0).abs() < 1e-9);
}

#[test]
fn the_head_counts_supervised_rows_alone() {
    let few = summarise(&steps(20), &context()).steady_flops;
    let mut all = steps(20);
    for step in &mut all {
        (step.real_tokens, step.supervised_tokens) = (step.padded_tokens, step.padded_tokens);
    }
    let all = summarise(&all, &context()).steady_flops;
    let head = 4.0 * 151_936.0 * 2048.0 * 412.0 * 15.0;
    assert!((all.model() - few.model() - head).abs() < 1e3);
}

#[test]
fn every_fault_has_its_reason() {
    type Break = fn(&mut Step);
    let cases: [(Break, StepFault); 7] = [
        (|step| step.loss = None, StepFault::LossMissing),
        (|step| step.loss = Some(f64::NAN), StepFault::LossMissing),
        (|step| step.grad_norm = None, StepFault::GradNormMissing),
        (
            |step| step.grad_norm = Some(f64::INFINITY),
            StepFault::GradNormMissing,
        ),
        (|step| step.grad_norm = Some(0.0), StepFault::GradNormZero),
        (|step| step.dt_secs = 0.0, StepFault::NoTime),
        (
            |step| step.padded_tokens = step.real_tokens - 1,
            StepFault::CounterWentBack,
        ),
    ];
    for (break_step, fault) in cases {
        let mut broken = steps(20);
        break_step(&mut broken[9]);
        let summary = summarise(&broken, &context());
        assert_eq!(summary.points[9].reason, Some(fault));
        assert!(!summary.points[9].valid && summary.points[9].tokens_per_sec.is_none());
        assert_eq!((summary.valid_steps, summary.total_steps), (19, 20));
        assert_eq!(summary.steady_steps, 14);
    }
}

#[test]
fn a_step_without_tokens_or_with_impossible_counts_is_invalid() {
    let mut idle = steps(3);
    (
        idle[2].real_tokens,
        idle[2].padded_tokens,
        idle[2].supervised_tokens,
    ) = (800, 1024, 200);
    assert_eq!(
        summarise(&idle, &context()).points[2].reason,
        Some(StepFault::NoTokens)
    );
    let mut odd = steps(3);
    odd[2].supervised_tokens = 900;
    assert_eq!(
        summarise(&odd, &context()).points[2].reason,
        Some(StepFault::CountsImpossible)
    );
}

#[test]
fn invalid_steps_leave_the_statistics_alone() {
    let mut broken = steps(40);
    broken[20].grad_norm = Some(0.0);
    broken[20].dt_secs = 100.0;
    broken[20].loss = Some(1e9);
    let summary = summarise(&broken, &context());
    assert!(close(summary.steady_tokens_per_sec, 400.0 / 0.343));
    assert!((summary.step_secs.unwrap().range.max - 0.343).abs() < 1e-12);
    assert_eq!(summary.grad_norm.unwrap().min.to_bits(), 2.0_f64.to_bits());
}

#[test]
fn slow_warm_up_steps_do_not_slow_the_steady_speed() {
    let mut slow = steps(20);
    for step in &mut slow[..5] {
        step.dt_secs = 5.0;
    }
    let summary = summarise(&slow, &context());
    assert!(close(summary.steady_tokens_per_sec, 400.0 / 0.343));
    let all = summarise(
        &slow,
        &SummaryContext {
            discard: Some(0),
            ..context()
        },
    );
    assert!(all.steady_tokens_per_sec.unwrap() < 400.0 / 0.343);
}

#[test]
fn an_empty_and_a_one_step_run_have_summaries() {
    let empty = summarise(&[], &context());
    assert_eq!(
        (empty.total_steps, empty.valid_steps, empty.points.len()),
        (0, 0, 0)
    );
    assert_eq!(empty.steady_tokens_per_sec, None);
    assert_eq!(empty.mfu, None);
    assert_eq!(empty.validity(), None);

    let one = summarise(&steps(1), &context());
    assert_eq!((one.discarded_steps, one.steady_steps), (0, 1));
    assert!(close(one.steady_tokens_per_sec, 400.0 / 0.343));
    assert_eq!(one.step_secs.unwrap().sd, None);
}

#[test]
fn a_run_without_a_valid_step_claims_nothing() {
    let mut dead = steps(12);
    for step in &mut dead {
        step.grad_norm = Some(0.0);
    }
    let summary = summarise(&dead, &context());
    assert_eq!((summary.valid_steps, summary.steady_steps), (0, 0));
    assert_eq!(
        (summary.steady_tokens_per_sec, summary.mfu, summary.loss),
        (None, None, None)
    );
}

#[test]
fn a_discard_longer_than_the_run_leaves_no_window() {
    let summary = summarise(
        &steps(3),
        &SummaryContext {
            discard: Some(10),
            ..context()
        },
    );
    assert_eq!((summary.discarded_steps, summary.steady_steps), (3, 0));
    assert_eq!(summary.steady_tokens_per_sec, None);
}

#[test]
fn a_resumed_run_adds_up_its_stretches() {
    let mut resumed = steps(20);
    for (index, step) in resumed[10..].iter_mut().enumerate() {
        step.elapsed_secs = 8.0 + 0.343 * (index + 1) as f64;
    }
    let summary = summarise(&resumed, &context());
    assert!((summary.wall_secs - (10.0 + 3.43 + 8.0 + 3.43)).abs() < 1e-9);
    assert!(summary.findings.is_empty(), "{:?}", summary.findings);
}

#[test]
fn contradictions_are_named() {
    let mut gap = steps(20);
    gap.remove(10);
    assert!(
        summarise(&gap, &context())
            .findings
            .iter()
            .any(|text| text.contains("step numbers"))
    );
    let mut fast_clock = steps(20);
    fast_clock[9].dt_secs = 3.0;
    assert!(
        summarise(&fast_clock, &context())
            .findings
            .iter()
            .any(|text| text.contains("more time than passed"))
    );
    let mut idle = steps(20);
    for (index, step) in idle.iter_mut().enumerate() {
        step.elapsed_secs = 10.0 + 0.5 * (index + 1) as f64;
    }
    assert!(
        summarise(&idle, &context())
            .findings
            .iter()
            .any(|text| text.contains("between steps"))
    );
}

#[test]
fn work_above_the_peak_is_named() {
    let mut context = context();
    context.peaks.practical = Some(Tflops(1.0));
    let findings = summarise(&steps(20), &context).findings;
    assert!(
        findings.iter().any(|text| text.contains("measured peak")),
        "{findings:?}"
    );
}

#[test]
fn a_summary_survives_json() {
    let mut broken = steps(8);
    broken[3].loss = Some(f64::NAN);
    let summary = summarise(&broken, &context());
    let text = serde_json::to_string(&summary).unwrap();
    assert!(text.contains("\"loss_missing\""));
    assert_eq!(serde_json::from_str::<TrainingSummary>(&text).unwrap(), summary);
}

proptest! {
    #[test]
    fn a_slower_clock_scales_speeds_and_nothing_else(count in 1_u64..60, factor in 1.1_f64..10.0) {
        let fast = summarise(&steps(count), &context());
        let mut slow = steps(count);
        for step in &mut slow {
            step.dt_secs *= factor;
            step.elapsed_secs *= factor;
        }
        let slow = summarise(&slow, &context());
        prop_assert!(close(slow.steady_tokens_per_sec.map(|rate| rate * factor), fast.steady_tokens_per_sec.unwrap()));
        prop_assert_eq!(slow.steady_flops, fast.steady_flops);
        prop_assert_eq!(slow.loss, fast.loss);
        prop_assert_eq!(slow.valid_steps, fast.valid_steps);
    }

    #[test]
    fn any_record_has_a_summary(
        raw in prop::collection::vec((any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>(), any::<u32>(), any::<u32>()), 0..30),
        discard in prop::option::of(0_usize..40),
    ) {
        let wild: Vec<Step> = raw
            .iter()
            .enumerate()
            .map(|(index, &(loss, norm, dt, elapsed, real, padded))| Step {
                step: index as u64,
                loss: Some(loss),
                grad_norm: Some(norm),
                lr: 1e-4,
                dt_secs: dt,
                elapsed_secs: elapsed,
                real_tokens: u64::from(real),
                padded_tokens: u64::from(padded),
                supervised_tokens: u64::from(real / 2),
                squared_lengths: u64::from(padded),
                peak_bytes: None,
            })
            .collect();
        let summary = summarise(&wild, &SummaryContext { discard, ..context() });
        prop_assert_eq!(summary.points.len(), wild.len());
        prop_assert!(summary.steady_steps <= summary.valid_steps && summary.valid_steps <= summary.total_steps);
        prop_assert!(summary.steady_tokens_per_sec.is_none_or(|rate| rate >= 0.0));
        prop_assert!(summary.points.iter().all(|point| point.valid == point.reason.is_none()));
    }
}

#[test]
fn half_way_the_counter_has_the_figures_of_that_half() {
    let half = SummaryContext {
        discard: Some(default_discard(40)),
        ..context()
    };
    let mut counter = StepCounter::new(Some(context()), 40);
    let points: Vec<StepPoint> = steps(40)[..20].iter().map(|step| counter.count(step)).collect();
    let summary = summarise(&steps(20), &half);
    assert_eq!(points, summary.points);
    assert_eq!(counter.mfu(), summary.mfu);
    assert_eq!(counter.steady_tokens_per_sec(), summary.steady_tokens_per_sec);
}

#[test]
fn steps_that_nobody_saw_do_not_make_the_next_one_fast() {
    let steps = steps(12);
    let mut counter = StepCounter::new(Some(context()), 12);
    for step in &steps[..4] {
        counter.count(step);
    }
    counter.pass_over(&steps[9]);
    let point = counter.count(&steps[10]);
    assert!(close(point.tokens_per_sec, 400.0 / 0.343));
    assert!(close(counter.steady_tokens_per_sec(), 400.0 / 0.343));
}

#[test]
fn without_a_model_speed_is_counted_and_work_is_not() {
    let mut counter = StepCounter::new(None, 4);
    let steps = steps(2);
    counter.count(&steps[0]);
    let point = counter.count(&steps[1]);
    assert!(close(point.tokens_per_sec, 400.0 / 0.343));
    assert_eq!((point.mfu_exact_practical, counter.mfu()), (None, None));
}
