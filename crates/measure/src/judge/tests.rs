use tunesmith_protocol::{Base, Check, DType, Quantization, RunStatus, Step};

use super::*;

/// Ten rows of 40 to 60 tokens, a quarter of them answers.
fn rows() -> RowFacts {
    RowFacts {
        rows: 10,
        real_tokens: 500,
        supervised_tokens: 125,
        longest: 60,
        shortest: 40,
        fewest_supervised: 10,
        most_supervised: 15,
        answers: 10,
        answer_tokens: 115,
        answers_outside: 0,
        ends_untrained: 0,
        largest_token: 99,
        vocabulary: 100,
        pad_is_end: true,
        template_changed: None,
        sample: "question ⟦answer⟧".to_owned(),
    }
}

fn judge_of(rows: RowFacts) -> Judge {
    Judge::new(
        Thresholds::bundled().unwrap(),
        RunFacts {
            dtype: DType::F32,
            quantization: Quantization::None,
            rows_per_step: 2,
            fresh_adapter: true,
            rows,
        },
    )
}

/// A step of a training that goes well.
fn good(step: u64) -> Step {
    Step {
        step,
        loss: Some(2.0 - 0.01 * step as f64),
        grad_norm: Some(1.0),
        lr: 1e-3,
        dt_secs: 0.5,
        elapsed_secs: 0.5 * step as f64,
        real_tokens: 100 * step,
        padded_tokens: 100 * step,
        supervised_tokens: 25 * step,
        squared_lengths: 5000,
        peak_bytes: Some(1 << 30),
    }
}

fn say(judge: &mut Judge, name: &str, value: f64) -> Vec<Finding> {
    judge.check(&Check {
        name: name.to_owned(),
        value: Some(value),
    })
}

/// The checks of an engine that is well, as far as they come before the first step.
fn well(judge: &mut Judge) {
    for (name, value) in [
        ("base_checksum", 123.0),
        ("adapter_checksum", 7.0),
        ("base_loss", 1.99),
        ("plain_loss", 1.99),
        ("trainer_loss", 1.990_001),
        ("gradient_difference", 1e-6),
        ("dead_adapters", 0.0),
    ] {
        assert_eq!(say(judge, name, value), [], "{name}");
    }
}

/// Leads a training of so many steps, each of them changed by `spoil`; gives the first red finding.
fn lead(steps: u64, mut spoil: impl FnMut(&mut Step)) -> (Judge, Option<Finding>) {
    let mut judge = judge_of(rows());
    assert_eq!(judge.rows(), []);
    well(&mut judge);
    for number in 1..=steps {
        let mut step = good(number);
        spoil(&mut step);
        let red = judge
            .step(&step)
            .into_iter()
            .find(|finding| finding.severity == Severity::Red);
        if red.is_some() {
            return (judge, red);
        }
    }
    say(&mut judge, "adapter_checksum", 8.0);
    say(&mut judge, "base_checksum", 123.0);
    judge.end(RunStatus::Ok);
    (judge, None)
}

/// The id of a red finding that says what was seen, what it means and what to try.
#[track_caller]
fn red_id(finding: Option<Finding>) -> CheckId {
    let finding = finding.expect("nothing was red");
    assert_eq!(finding.severity, Severity::Red);
    assert!(!finding.found.is_empty() && !finding.means.is_empty() && !finding.remedies.is_empty());
    finding.id
}

#[test]
fn a_healthy_training_is_green_in_every_check_but_the_adapters_base() {
    let (judge, red) = lead(40, |_| {});
    assert_eq!(red, None);
    let judgement = judge.judgement();
    assert_eq!(judgement.notable(), Vec::<&Finding>::new());
    assert_eq!(judgement.worst(), Some(Severity::Green));
    assert_eq!(judgement.not_checked, [CheckId::AdapterBase]);
    assert_eq!(judgement.last_good_step, Some(40));
    let text = serde_json::to_string(&judgement).unwrap();
    assert_eq!(serde_json::from_str::<Judgement>(&text).unwrap(), judgement);
}

#[test]
fn rows_that_teach_nothing_or_the_wrong_thing_are_red_before_the_run() {
    let spoilt: [(CheckId, RowFacts); 8] = [
        (
            CheckId::SupervisedShare,
            RowFacts {
                supervised_tokens: 0,
                fewest_supervised: 0,
                ..rows()
            },
        ),
        (
            CheckId::SupervisedShare,
            RowFacts {
                fewest_supervised: 0,
                ..rows()
            },
        ),
        (
            CheckId::PromptInLoss,
            RowFacts {
                real_tokens: 2000,
                supervised_tokens: 1980,
                ..rows()
            },
        ),
        (
            CheckId::AnswerInLoss,
            RowFacts {
                answer_tokens: 200,
                ..rows()
            },
        ),
        (
            CheckId::EndToken,
            RowFacts {
                ends_untrained: 10,
                ..rows()
            },
        ),
        (
            CheckId::LargestToken,
            RowFacts {
                largest_token: 100,
                ..rows()
            },
        ),
        (
            CheckId::LargestToken,
            RowFacts {
                largest_token: 120,
                vocabulary: 100,
                ..RowFacts::default()
            },
        ),
        (
            CheckId::TemplatePrefix,
            RowFacts {
                template_changed: Some("the template changed its beginning".to_owned()),
                ..RowFacts::default()
            },
        ),
    ];
    for (id, rows) in spoilt {
        let mut judge = judge_of(rows);
        let found = judge.rows();
        assert_eq!(red_id(found.first().cloned()), id, "{found:?}");
    }
}

#[test]
fn rows_that_are_nearly_all_answer_or_nearly_all_prompt_are_not_red() {
    let long_answers = RowFacts {
        supervised_tokens: 495,
        answer_tokens: 480,
        fewest_supervised: 39,
        most_supervised: 59,
        ..rows()
    };
    assert_eq!(judge_of(long_answers).rows(), []);
    let running_text = RowFacts {
        supervised_tokens: 490,
        answers: 0,
        answer_tokens: 0,
        fewest_supervised: 39,
        most_supervised: 59,
        ..rows()
    };
    let mut judge = judge_of(running_text);
    assert_eq!(judge.rows(), []);
    assert!(judge.judgement().not_checked.contains(&CheckId::PromptInLoss));
    let long_prompts = RowFacts {
        real_tokens: 10_000,
        ..rows()
    };
    let found = judge_of(long_prompts).rows();
    assert_eq!(
        (found[0].id, found[0].severity),
        (CheckId::SupervisedShare, Severity::Amber)
    );
}

#[test]
fn an_adapter_of_another_base_is_red_and_of_another_format_amber() {
    let base = |fingerprint: &str, dtype: DType| Base {
        fingerprint: Some(fingerprint.to_owned()),
        dtype,
        quantization: Quantization::None,
    };
    let look = |trained_on: Option<Base>| {
        judge_of(rows())
            .adapter(&AdapterFacts {
                trained_on,
                put_on: base("aaaa", DType::F32),
            })
            .first()
            .map(|finding| finding.severity)
    };
    assert_eq!(look(Some(base("aaaa", DType::F32))), None);
    assert_eq!(look(Some(base("aaaa", DType::Bf16))), Some(Severity::Amber));
    assert_eq!(
        look(Some(Base {
            quantization: Quantization::Nf4,
            ..base("aaaa", DType::F32)
        })),
        Some(Severity::Amber)
    );
    assert_eq!(look(None), Some(Severity::Amber));
    assert_eq!(look(Some(base("bbbb", DType::F32))), Some(Severity::Red));
}

#[test]
fn what_an_engine_finds_wrong_with_itself_is_red_at_once() {
    for (id, told) in [
        (CheckId::DeadAdapters, vec![("dead_adapters", 1.0)]),
        (CheckId::GradientScale, vec![("gradient_difference", 1.0)]),
        (CheckId::GradientScale, vec![("gradient_difference", f64::NAN)]),
        (
            CheckId::PlainLoss,
            vec![("plain_loss", 2.0), ("trainer_loss", 2.1)],
        ),
        (
            CheckId::PlainLoss,
            vec![("plain_loss", 2.0), ("trainer_loss", f64::NAN)],
        ),
        (
            CheckId::BaseUnchanged,
            vec![("base_checksum", 1.0), ("base_checksum", 2.0)],
        ),
    ] {
        let mut judge = judge_of(rows());
        let found: Vec<Finding> = told
            .iter()
            .flat_map(|(name, value)| say(&mut judge, name, *value))
            .collect();
        assert_eq!(red_id(found.into_iter().next()), id, "{told:?}");
    }
}

#[test]
fn sixteen_bits_may_round() {
    let mut judge = judge_of(rows());
    judge.facts.dtype = DType::Bf16;
    for (name, value) in [
        ("plain_loss", 2.0),
        ("trainer_loss", 2.02),
        ("gradient_difference", 0.05),
    ] {
        assert_eq!(say(&mut judge, name, value), []);
    }
}

#[test]
fn the_first_loss_stands_beside_the_base_models_own() {
    let (_, red) = lead(3, |step| step.loss = step.loss.map(|loss| 2.0 * loss));
    assert_eq!(red_id(red), CheckId::FirstLoss);
    // Far above an even guess among 100 tokens, ln 100 = 4.6, whatever the base says.
    let mut judge = judge_of(rows());
    let step = Step {
        loss: Some(14.0),
        ..good(1)
    };
    assert_eq!(red_id(judge.step(&step).into_iter().next()), CheckId::FirstLoss);
    // An adapter that was trained before begins below its base.
    let mut judge = judge_of(rows());
    judge.facts.fresh_adapter = false;
    say(&mut judge, "base_loss", 4.0);
    assert_eq!(judge.step(&good(1)), []);
}

#[test]
fn a_number_that_is_none_stops_the_run_and_names_the_last_good_step() {
    let (judge, red) = lead(20, |step| {
        if step.step >= 11 {
            step.loss = None;
        }
    });
    assert_eq!(red.as_ref().and_then(|red| red.step), Some(11));
    assert_eq!(red_id(red), CheckId::Finite);
    assert_eq!(judge.judgement().last_good_step, Some(10));
    let of = |quantization| {
        let mut judge = judge_of(rows());
        judge.facts.quantization = quantization;
        judge
            .step(&Step {
                loss: None,
                ..good(1)
            })
            .remove(0)
            .remedies
    };
    assert!(of(Quantization::Nf4)[0].contains("model.quantization = \"none\""));
    assert!(!of(Quantization::None).concat().contains("quantization"));
    // A single gradient without a number is amber, three running are red.
    let (judge, red) = lead(20, |step| {
        if step.step == 5 {
            step.grad_norm = None;
        }
    });
    assert_eq!(red, None);
    assert_eq!(judge.judgement().notable()[0].id, CheckId::Finite);
    let (judge, red) = lead(20, |step| {
        if step.step >= 5 {
            step.grad_norm = Some(f64::NAN);
        }
    });
    assert_eq!(red_id(red), CheckId::Finite);
    assert_eq!(judge.judgement().last_good_step, Some(4));
}

#[test]
fn steps_without_a_gradient_are_red() {
    for (from, seen_at, last_good) in [(1, 1, 0), (6, 8, 5)] {
        let (judge, red) = lead(20, |step| {
            if step.step >= from {
                step.grad_norm = Some(0.0);
            }
        });
        assert_eq!(red.as_ref().and_then(|red| red.step), Some(seen_at));
        assert_eq!(red_id(red), CheckId::GradientAboveZero);
        assert_eq!(judge.judgement().last_good_step, Some(last_good));
    }
}

#[test]
fn a_cumulative_count_that_was_summed_again_is_red() {
    let mut sum = 0;
    let (_, red) = lead(20, |step| {
        sum += step.real_tokens;
        step.real_tokens = sum;
        step.padded_tokens = sum;
    });
    assert_eq!(red.as_ref().and_then(|red| red.step), Some(2));
    assert_eq!(red_id(red), CheckId::TokenCounts);
}

#[test]
fn counts_that_the_rows_cannot_hold_are_red() {
    let spoilers: [fn(&mut Step); 4] = [
        |step| step.real_tokens -= 25 * step.step,
        |step| step.supervised_tokens = step.real_tokens,
        |step| step.padded_tokens = 90 * step.step,
        |step| {
            if step.step == 4 {
                step.real_tokens = 250;
            }
        },
    ];
    for (index, spoil) in spoilers.into_iter().enumerate() {
        let (_, red) = lead(20, spoil);
        assert_eq!(red_id(red), CheckId::TokenCounts, "{index}");
    }
    // Rows within their bounds, and yet every epoch lacks a tenth of the tokens.
    let (_, red) = lead(20, |step| step.real_tokens -= 10 * step.step);
    assert_eq!(red_id(red), CheckId::TokenCounts);
}

#[test]
fn steps_that_get_slower_are_amber_and_steps_that_crawl_are_red() {
    let slower = |factor: f64| {
        lead(40, move |step| {
            if step.step > 25 {
                step.dt_secs *= factor;
            }
        })
    };
    let (judge, red) = slower(1.2);
    assert_eq!((red, judge.judgement().worst()), (None, Some(Severity::Green)));
    let (judge, red) = slower(2.0);
    assert_eq!(red, None);
    assert_eq!(judge.judgement().notable()[0].id, CheckId::StepTime);
    let (_, red) = slower(20.0);
    assert_eq!(red_id(red), CheckId::StepTime);
    // Steps of a millisecond are the scheduler's.
    let (judge, red) = lead(40, |step| {
        step.dt_secs = if step.step > 25 { 0.02 } else { 0.001 }
    });
    assert_eq!(red, None);
    assert!(judge.judgement().not_checked.contains(&CheckId::StepTime));
}

#[test]
fn memory_that_is_not_given_back_is_seen_and_a_long_row_is_not_taken_for_it() {
    let grow = |per_step: u64| {
        lead(60, move |step| {
            step.peak_bytes = step.peak_bytes.map(|bytes| bytes + step.step * (per_step << 20));
        })
    };
    let (judge, red) = grow(5);
    assert_eq!(red, None);
    assert_eq!(judge.judgement().notable()[0].id, CheckId::Memory);
    let (_, red) = grow(30);
    assert_eq!(red_id(red), CheckId::Memory);
    let (judge, red) = lead(60, |step| {
        if step.step % 7 == 0 {
            step.peak_bytes = Some(5 << 30);
        }
    });
    assert_eq!((red, judge.judgement().worst()), (None, Some(Severity::Green)));
}

#[test]
fn a_loss_that_explodes_is_red_and_one_that_does_not_fall_is_amber() {
    let (judge, red) = lead(40, |step| {
        if step.step > 15 {
            step.loss = Some(9.0);
        }
    });
    assert_eq!(red_id(red), CheckId::LossFalls);
    assert_eq!(judge.judgement().last_good_step, Some(15));
    let (judge, red) = lead(40, |step| step.loss = Some(1.99));
    assert_eq!(red, None);
    assert_eq!(judge.judgement().notable()[0].id, CheckId::LossFalls);
}

#[test]
fn an_adapter_that_did_not_move_is_red_at_the_end_of_a_training_and_not_of_one_that_was_stopped() {
    let end = |status: RunStatus, lr: f64| {
        let mut judge = judge_of(rows());
        well(&mut judge);
        judge.step(&Step { lr, ..good(1) });
        say(&mut judge, "adapter_checksum", 7.0);
        judge.end(status).into_iter().next()
    };
    assert_eq!(red_id(end(RunStatus::Ok, 1e-3)), CheckId::AdapterMoved);
    assert_eq!(red_id(end(RunStatus::Ok, 0.0)), CheckId::AdapterMoved);
    assert_eq!(end(RunStatus::Cancelled, 0.0), None);
}

#[test]
fn a_run_without_a_step_that_counts_is_red() {
    let mut judge = judge_of(rows());
    judge.step(&Step {
        dt_secs: 0.0,
        ..good(1)
    });
    assert_eq!(
        red_id(judge.end(RunStatus::Cancelled).into_iter().next()),
        CheckId::ValidSteps
    );
}

#[test]
fn an_engine_that_says_nan_without_having_shown_it_is_believed() {
    let mut judge = judge_of(rows());
    judge.step(&good(1));
    assert_eq!(
        red_id(judge.end(RunStatus::Nan).into_iter().next()),
        CheckId::Finite
    );
    assert_eq!(judge.judgement().last_good_step, Some(1));
}

#[test]
fn a_run_that_goes_on_is_judged_with_the_steps_before() {
    let mut judge = judge_of(rows());
    for number in [1, 2, 3] {
        assert_eq!(judge.step(&good(number)), []);
    }
    // Without the steps before, the first one that is seen says nothing about what it added.
    let mut alone = judge_of(rows());
    assert_eq!(alone.step(&good(4)), []);
    assert_eq!(judge.step(&good(4)), []);
    assert_eq!(judge.judgement().last_good_step, Some(4));
}

#[test]
fn memory_that_grew_before_a_run_was_cut_short_is_not_held_against_the_new_process() {
    let (mut judge, red) = lead(60, |step| {
        step.peak_bytes = step.peak_bytes.map(|bytes| bytes + step.step * (30 << 20));
    });
    let red = red.unwrap();
    let stopped_at = red.step.unwrap();
    assert_eq!(
        (red.id, judge.judgement().last_good_step),
        (CheckId::Memory, red.step)
    );
    judge.goes_on();
    for number in stopped_at + 1..stopped_at + 20 {
        assert_eq!(judge.step(&good(number)), []);
    }
    assert_eq!(judge.judgement().notable(), Vec::<&Finding>::new());
}

#[test]
fn names_are_stable_and_the_same_in_files() {
    for id in CheckId::ALL {
        assert_eq!(serde_json::to_value(id).unwrap(), id.name());
    }
    let names: std::collections::BTreeSet<&str> = CheckId::ALL.iter().map(|id| id.name()).collect();
    assert_eq!(names.len(), CheckId::ALL.len());
    for severity in [Severity::Green, Severity::Amber, Severity::Red] {
        assert_eq!(serde_json::to_value(severity).unwrap(), severity.name());
    }
}
