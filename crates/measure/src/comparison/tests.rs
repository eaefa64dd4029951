//! Comparisons whose outcome is known: the published one, and made-up ones for each rule.

use super::*;
use crate::published::published;

fn claim(metric: Metric, of: Quantity, at_least: Option<f64>, at_most: Option<f64>) -> Claim {
    Claim {
        metric,
        arm: String::new(),
        against: String::new(),
        of,
        at_least,
        at_most,
        why: String::new(),
    }
}

fn runs(arm: usize, metric: Metric, values: &[f64]) -> Vec<Measured> {
    let run = |(index, value): (usize, &f64)| Measured {
        arm,
        seed: index as u64,
        figures: BTreeMap::from([(metric, *value)]),
        correct: BTreeMap::new(),
    };
    values.iter().enumerate().map(run).collect()
}

fn design(names: &[&str], metric: Metric) -> Design {
    let arm = |(index, name): (usize, &&str)| {
        let change = Change {
            key: "train.recompute".to_owned(),
            from: "none".to_owned(),
            to: (*name).to_owned(),
        };
        (
            (*name).to_owned(),
            if index == 0 { Vec::new() } else { vec![change] },
        )
    };
    Design {
        arms: names.iter().enumerate().map(arm).collect(),
        metrics: vec![metric],
        criteria: Vec::new(),
        predictions: Vec::new(),
    }
}

/// One pair's only figure.
fn only(metric: Metric, first: &[f64], second: &[f64]) -> PairFigure {
    let all = [runs(0, metric, first), runs(1, metric, second)].concat();
    let found = compare(&design(&["a", "b"], metric), &all);
    found.pairs[0].figures[0].clone()
}

#[test]
fn the_published_comparison_is_p_0_041_and_not_0_01() {
    let published = published();
    let speeds = |prefix: &str| -> Vec<f64> {
        let own = published.runs.iter().filter(|run| run.name.starts_with(prefix));
        own.map(|run| run.corrected_tokens_per_sec).collect()
    };
    let (hf, unsloth) = (speeds("B1_hf_bf16"), speeds("B1_unsloth_bf16"));
    assert_eq!((hf.len(), unsloth.len()), (3, 3));
    let found = only(Metric::TokensPerSec, &hf, &unsloth);
    let test = found.welch.unwrap();
    assert!((test.p_two_sided - 0.041).abs() < 5e-4, "{test:?}");
    assert!((test.df - 2.35).abs() < 5e-3, "{test:?}");
    assert!((found.cohens_d.unwrap() - 3.38).abs() < 5e-3, "{found:?}");
    assert!((found.ratio.unwrap().value - 1.052).abs() < 5e-4);
    assert_eq!(found.effect, Effect::Better);
    assert!(
        found.sentence.contains("5.2 % higher") && found.sentence.contains("p = 0.041"),
        "{}",
        found.sentence
    );
    // The 4-bit arm was run once (numbers 1.5): exploratory, whatever its size.
    let four_bit = only(Metric::TokensPerSec, &unsloth, &speeds("B1_unsloth_4bit"));
    assert_eq!((four_bit.effect, four_bit.welch), (Effect::Exploratory, None));
    let memory = |prefix: &str| -> Vec<f64> {
        let own = published.runs.iter().filter(|run| run.name.starts_with(prefix));
        own.map(|run| run.peak_gib * f64::from(1_u32 << 30)).collect()
    };
    let saved = only(
        Metric::PeakBytes,
        &memory("B1_unsloth_bf16"),
        &memory("B1_unsloth_4bit"),
    );
    assert_eq!(saved.effect, Effect::Exploratory, "{}", saved.sentence);
}

#[test]
fn memory_below_two_gib_is_noise_unless_it_was_repeated() {
    let gib = f64::from(1_u32 << 30);
    let once = only(Metric::PeakBytes, &[8.0 * gib], &[6.5 * gib]);
    assert_eq!(once.effect, Effect::WithinNoise);
    assert!(once.sentence.contains("below 2 GiB"), "{}", once.sentence);
    let far = only(Metric::PeakBytes, &[8.0 * gib], &[5.0 * gib]);
    assert_eq!(far.effect, Effect::Exploratory);
    let repeated = only(
        Metric::PeakBytes,
        &[8.0 * gib, 8.0 * gib],
        &[6.5 * gib, 6.5 * gib],
    );
    assert_eq!(repeated.effect, Effect::Better);
    assert!(
        repeated.sentence.contains("equal to the last digit"),
        "{}",
        repeated.sentence
    );
    assert!(
        repeated.sentence.contains("18.8 % lower than that of a"),
        "{}",
        repeated.sentence
    );
}

#[test]
fn what_chance_does_is_called_noise_and_so_is_an_effect_without_size() {
    let noise = only(
        Metric::TokensPerSec,
        &[100.0, 104.0, 102.0],
        &[103.0, 101.0, 105.0],
    );
    assert_eq!(noise.effect, Effect::WithinNoise);
    assert!(noise.sentence.contains("within noise"), "{}", noise.sentence);
    // Forty runs tell a difference of half a standard deviation apart. It is of no use.
    let wave = |shift: f64| -> Vec<f64> { (0..40).map(|n| 100.0 + shift + f64::from(n % 5)).collect() };
    let small = only(Metric::TokensPerSec, &wave(0.0), &wave(0.8));
    assert!(small.welch.unwrap().p_two_sided < SIGNIFICANT);
    assert_eq!(small.effect, Effect::WithinNoise);
    let same = only(Metric::LossEnd, &[1.0, 1.0], &[1.0, 1.0]);
    assert_eq!(same.effect, Effect::WithinNoise);
    assert!(same.sentence.contains("is that of"), "{}", same.sentence);
    let worse = only(Metric::LossEnd, &[1.0, 1.01, 1.02], &[1.5, 1.51, 1.52]);
    assert_eq!(worse.effect, Effect::Worse);
}

#[test]
fn many_arms_need_more_evidence_each() {
    let metric = Metric::TokensPerSec;
    let first = [122.2, 123.4, 123.6];
    let fast = [126.5, 130.6, 131.2];
    let mut all = runs(0, metric, &first);
    for arm in 1..=3 {
        all.extend(runs(arm, metric, if arm == 3 { &fast } else { &first }));
    }
    let found = compare(&design(&["a", "b", "c", "d"], metric), &all);
    let largest = &found.pairs[0];
    assert_eq!(largest.name, "d", "the largest effect comes first");
    let figure = &largest.figures[0];
    assert!((figure.p_adjusted.unwrap() - 3.0 * figure.welch.unwrap().p_two_sided).abs() < 1e-12);
    assert_eq!(figure.effect, Effect::WithinNoise, "{}", figure.sentence);
}

#[test]
fn claims_about_what_a_seed_decides_are_judged_seed_by_seed() {
    let judged = |metric, first: &[f64], second: &[f64]| {
        let design = Design {
            predictions: vec![claim(metric, Quantity::Ratio, Some(0.99), Some(1.01))],
            ..design(&["a", "b"], metric)
        };
        let all = [runs(0, metric, first), runs(1, metric, second)].concat();
        compare(&design, &all).predictions[0].clone()
    };
    // Seeds differ by a third, the arms by nothing.
    let (first, second) = ([2.0, 2.5, 3.0], [2.0, 2.5, 3.0]);
    let found = judged(Metric::LossEnd, &first, &second);
    assert_eq!(found.verdict, ClaimVerdict::Hit, "{}", found.sentence);
    assert!(
        found
            .sentence
            .contains("95 % interval 1.000 to 1.000 seed by seed"),
        "{}",
        found.sentence
    );
    assert_eq!(
        judged(Metric::TokensPerSec, &first, &second).verdict,
        ClaimVerdict::Undecidable,
        "speed does not follow the seed"
    );
    // Every seed loses a tenth, more or less.
    let found = judged(Metric::LossEnd, &first, &[2.2, 2.76, 3.29]);
    assert_eq!(found.verdict, ClaimVerdict::Miss, "{}", found.sentence);
    // A seed is missing: what is left is no pair.
    let found = judged(Metric::LossEnd, &first, &second[..2]);
    assert_eq!(found.verdict, ClaimVerdict::Undecidable, "{}", found.sentence);
    assert!(!found.sentence.contains("seed by seed"));
}

#[test]
fn a_claim_is_hit_missed_or_undecidable() {
    let metric = Metric::TokensPerSec;
    let all = [
        runs(0, metric, &[100.0, 101.0, 102.0]),
        runs(1, metric, &[80.0, 81.0, 82.0]),
    ]
    .concat();
    let verdict = |claim: Claim, all: &[Measured]| {
        let design = Design {
            predictions: vec![claim],
            ..design(&["a", "b"], metric)
        };
        let found = compare(&design, all).predictions[0].clone();
        (found.verdict, found.sentence)
    };
    let ratio = |least, most| claim(metric, Quantity::Ratio, Some(least), Some(most));
    let (hit, sentence) = verdict(ratio(0.7, 0.9), &all);
    assert_eq!(hit, ClaimVerdict::Hit, "{sentence}");
    assert!(
        sentence.starts_with("tokens a second of b over that of a: between 0.7 and 0.9; measured 0.802"),
        "{sentence}"
    );
    assert_eq!(verdict(ratio(0.9, 1.1), &all).0, ClaimVerdict::Miss);
    assert_eq!(verdict(ratio(0.5, 0.8), &all).0, ClaimVerdict::Undecidable);
    assert_eq!(verdict(ratio(0.7, 0.9), &all[2..4]).0, ClaimVerdict::Undecidable);
    let difference = claim(metric, Quantity::Difference, None, Some(-10.0));
    assert_eq!(verdict(difference, &all).0, ClaimVerdict::Hit);
    let value = claim(metric, Quantity::Value, Some(90.0), None);
    assert_eq!(verdict(value, &all).0, ClaimVerdict::Miss);
    let missing = claim(Metric::MeanWatts, Quantity::Value, Some(90.0), None);
    let (verdict, sentence) = verdict(missing, &all);
    assert_eq!(verdict, ClaimVerdict::Undecidable);
    assert!(sentence.contains("not measured"), "{sentence}");
}

#[test]
fn answers_are_paired_by_question_and_seed() {
    let answers = |arm, seed, right: &[bool]| Measured {
        arm,
        seed,
        figures: BTreeMap::new(),
        correct: right
            .iter()
            .enumerate()
            .map(|(index, right)| (format!("q{index}"), *right))
            .collect(),
    };
    let all = [
        answers(0, 1, &[true, true, false, false, true]),
        answers(1, 1, &[true, false, true, false]),
        answers(0, 2, &[true, true]),
        answers(1, 3, &[true, true]),
    ];
    let found = compare(&design(&["own", "other"], Metric::ScorePoints), &all);
    let items = &found.pairs[0].items;
    assert_eq!(items.len(), 1, "seeds that only one arm has are not paired");
    assert_eq!((items[0].seed, items[0].items), (1, 4));
    assert_eq!((items[0].test.gained, items[0].test.lost), (1, 1));
}

#[test]
fn what_is_said_survives_a_file() {
    let metric = Metric::TokensPerSec;
    let all = [runs(0, metric, &[100.0, 101.0]), runs(1, metric, &[80.0, 81.0])].concat();
    let design = Design {
        predictions: vec![claim(metric, Quantity::Ratio, Some(0.7), None)],
        ..design(&["a", "b"], metric)
    };
    let found = compare(&design, &all);
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Comparison>(&text).unwrap(), found);
}

#[test]
fn an_experiment_without_runs_says_nothing_and_breaks_nothing() {
    let found = compare(&design(&["a", "b"], Metric::TokensPerSec), &[]);
    assert_eq!(found.arms.len(), 2);
    assert!(found.pairs[0].figures.is_empty() && found.findings.is_empty() && found.frontier.is_empty());
    assert_eq!(
        compare(&design(&[], Metric::PeakBytes), &[]),
        Comparison::default()
    );
}
