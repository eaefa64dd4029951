//! How each number was counted and which comparisons the numbers do not allow (X16), and the words of the trade.

use tunesmith_measure::practical_peak;

use crate::format::{plural, points};
use crate::{CountingRule, ReportInput, TrainingRecord};

/// How operations are counted for MFU, each way with its name: LoRA-exact, 6ND, hardware.
pub const MFU_RULES: [(&str, &str); 3] = [
    (
        "MFU, LoRA-exact",
        "operations that the mathematics needs, divided by time and peak: forward, input gradients of frozen layers \
         (none for q, k, v of the first layer), both gradients of the adapters, attention over the causal half, the \
         head for supervised tokens alone. Padding is counted, since it is computed.",
    ),
    (
        "MFU, 6ND",
        "6 × parameters × tokens, as most published figures count it. It includes weight gradients that LoRA never \
         computes, so it reads about half as high again; use it against published 6ND figures alone.",
    ),
    (
        "MFU, hardware",
        "the LoRA-exact count plus what the backward pass computed again.",
    ),
];

/// The rules that every report states, then those of this run.
pub(crate) fn counting_rules(record: &ReportInput) -> Vec<CountingRule> {
    let fixed = [
        (
            "Valid step",
            "gradient norm above zero, tokens above zero, time above zero, loss finite. A missing gradient norm is \
             invalid. Invalid steps are marked and left out of every statistic except peak memory.",
        ),
        (
            "Steady speed",
            "real tokens of the steps after the warm-up, divided by the wall time of those steps. Taken from the \
             cumulative counter, by difference; the counter is never summed.",
        ),
        (
            "Whole-run speed",
            "final cumulative count of real tokens, divided by all time from the job's arrival, model loading included.",
        ),
        (
            "Real and padded tokens",
            "padding is computed but teaches nothing. Charts and headlines use real tokens; the padded figure stands beside.",
        ),
        (
            "Time to first step",
            "from the job's arrival to the end of the first step, model loading included.",
        ),
        MFU_RULES[0],
        MFU_RULES[1],
        MFU_RULES[2],
        (
            "Measured peak",
            "mean speed of square matrix products, 2n³ operations each, of the fastest layout in the format that was \
             trained in. Emulated formats and products with wrong values are no peak.",
        ),
        (
            "Peak memory",
            "most that the device's allocator held, in GiB of 2³⁰ bytes. What the driver holds beside it is not in it.",
        ),
        (
            "Energy",
            "power or energy as the card's own sensor told it, over the training with model loading; a gap between readings is \
             not filled, and where more than half of the time is unread the energy is unknown. Watt-hours for a million tokens \
             count real tokens. Prices are the user's own.",
        ),
        (
            "Difference of two arms",
            "Welch's test of the repeats with unequal variances, its p by Holm's correction where several arms are compared with one; \
             Cohen's d over the pooled deviation. Called an effect only with p below 0.05 and |d| of at least 1; otherwise within noise, or \
             exploratory where an arm was not repeated.",
        ),
        (
            "Where the time goes",
            "each level of the ladder is measured by itself on one model, device and number format, and counts useful work alone: products \
             their own operations, forward and for the input's gradient, from a cold cache and of as many tokens as a pass has; a training what \
             LoRA needs. A loss is the level before less the level; the losses add up to the whole gap. Writing answers one at a time is told in \
             tokens a second, prompts not counted, and is no level.",
        ),
        (
            "Scores",
            "execution match: the query runs and its rows equal those of the gold query. Exact match: equal after \
             normalising case, quotes and spacing. Executes: runs without an error. One point is one percent of the questions.",
        ),
        (
            "Intervals",
            "Wilson's 95 % interval; the noise of a score is half of its width, the larger one of the two. A change counts \
             only outside that and, where every answer was kept, with McNemar's exact p below 0.05.",
        ),
    ];
    let mut rules: Vec<CountingRule> = fixed
        .into_iter()
        .map(|(title, text)| CountingRule {
            title: title.to_owned(),
            text: text.to_owned(),
        })
        .collect();
    let extraction = record
        .training
        .iter()
        .flat_map(|training| training.after.iter().chain(&training.before))
        .map(|result| &result.extraction_rule)
        .find(|rule| !rule.is_empty());
    if let Some(rule) = extraction {
        rules.push(CountingRule {
            title: "Query taken out of an answer".to_owned(),
            text: rule.clone(),
        });
    }
    rules.extend(record.counting_rules.iter().cloned());
    rules
}

/// Comparisons that these numbers do not allow, those of this run first.
pub(crate) fn invalid_comparisons(record: &ReportInput) -> Vec<String> {
    let mut all = Vec::new();
    if record
        .calibration
        .as_ref()
        .is_none_or(|calibration| practical_peak(calibration, record.dtype).is_none())
    {
        all.push(format!(
            "No peak was measured for {}, so no share of a measured peak can be stated or compared.",
            record.dtype.name()
        ));
    }
    if record.device.is_processor()
        || record
            .calibration
            .as_ref()
            .is_some_and(|calibration| calibration.device == "cpu")
    {
        all.push(
            "This was measured on a processor; its speed says nothing about any graphics card.".to_owned(),
        );
    }
    for note in record.experiment.iter().flat_map(|experiment| &experiment.notes) {
        all.push(format!("{}.", note.trim_end_matches('.')));
    }
    if let Some(training) = &record.training {
        of_a_training(training, &mut all);
    }
    let always: &[&str] = match (&record.experiment, &record.training) {
        (None, None) => &OF_CALIBRATIONS,
        (Some(_), _) => &OF_EXPERIMENTS,
        (None, Some(_)) => &OF_TRAININGS,
    };
    all.extend(always.iter().map(|text| (*text).to_owned()));
    if !record.device.is_processor() || record.training.is_some() {
        all.push("Published figures beside measured ones: they were taken elsewhere, with other programs and settings; they orient and prove nothing.".to_owned());
    }
    all
}

const OF_CALIBRATIONS: [&str; 3] = [
    "A peak of matrix products against the speed of a training: a training does much else.",
    "Peaks of products of different size, layout or number format.",
    "Another machine, driver, torch version, thread count or power limit changes the whole stack; the difference has no \
     single cause.",
];

const OF_EXPERIMENTS: [&str; 4] = [
    "Runs of this experiment against runs of another one: steps, lengths and windows differ (a shorter window reads a few percent higher).",
    "A difference that the table calls within noise or exploratory: it is no finding.",
    "Memory that differs by less than 2 GiB between single runs is noise.",
    "Another machine, driver, torch version, thread count or power limit changes the whole stack; the difference has no \
     single cause.",
];

const OF_TRAININGS: [&str; 6] = [
    "One run is one run: a difference in speed from another run is a finding only with three or more repeats of each.",
    "Memory that differs by less than 2 GiB between single runs is noise.",
    "LoRA-exact MFU against anyone's 6ND MFU: compare 6ND with 6ND.",
    "Steady speed against a whole-run speed, or against a sweep with shorter windows, which reads a few percent higher.",
    "Another machine, driver, torch version, thread count or power limit changes the whole stack; the difference has no \
     single cause.",
    "Scores with another question set, another number of questions or another rule of taking the query out of the answer.",
];

fn of_a_training(training: &TrainingRecord, all: &mut Vec<String>) {
    let summary = &training.summary;
    if summary.steady_steps < 10 {
        all.push(format!(
            "The steady window has only {}; a longer one may read differently.",
            plural(summary.steady_steps as u64, "step")
        ));
    }
    let questions = training
        .after
        .as_ref()
        .or(training.before.as_ref())
        .map(|result| result.questions);
    if let Some(questions) = questions.filter(|questions| (1..300).contains(questions)) {
        let worst =
            tunesmith_measure::stats::binomial_half_width(questions / 2, questions).unwrap_or_default();
        all.push(format!(
            "Scores are of {}: differences of up to {} points are noise, and a score over the full set may differ.",
            plural(questions, "question"),
            points(100.0 * worst)
        ));
    }
}

/// Words of the trade, in the order in which a report uses them.
pub(crate) const GLOSSARY: [(&str, &str); 23] = [
    (
        "Execution match",
        "share of questions whose query gives the same rows as the gold query when both are run.",
    ),
    (
        "95 % interval",
        "range in which the true share lies in 19 of 20 such measurements.",
    ),
    (
        "Token",
        "piece of text that the model reads at once; an English word is about one and a half.",
    ),
    (
        "Supervised token",
        "token of the wanted answer, whose prediction is trained; the question's tokens are only read.",
    ),
    (
        "Step",
        "one change of the adapter's weights, after a batch of rows.",
    ),
    (
        "Loss",
        "how surprised the model is by the wanted answers, in nats per supervised token; lower is better.",
    ),
    (
        "Gradient norm",
        "length of the change that the step asks for, before clipping; zero means that nothing is learned.",
    ),
    ("Learning rate", "how far a step goes."),
    (
        "LoRA",
        "training of small added matrices (the adapter) while the model's own weights stay frozen.",
    ),
    (
        "Warm-up",
        "first steps, slower than the rest, left out of the steady figures.",
    ),
    ("TFLOPS", "10¹² additions and multiplications per second."),
    (
        "MFU",
        "model FLOPs utilisation: the share of a peak speed that the useful work reached.",
    ),
    (
        "Measured peak",
        "speed of large matrix products on this very device: the practical limit.",
    ),
    (
        "Spec-sheet peak",
        "speed that the maker states: the theoretical limit.",
    ),
    (
        "Recomputation",
        "computing parts of the forward pass again in the backward pass instead of keeping them: slower, less memory.",
    ),
    (
        "Waterfall",
        "a chart of what is lost from level to level: the losses lie end to end and add up to the whole gap between peak and training.",
    ),
    ("GiB", "2³⁰ bytes, 7 % more than a GB."),
    (
        "Arm",
        "one set-up of an experiment, run several times; the first arm is the one that the others are compared with.",
    ),
    (
        "Standard deviation (± or sd)",
        "how far repeats lie from their mean; about two thirds of them lie within it.",
    ),
    (
        "p",
        "chance of a difference at least this large if the two arms were in truth equal.",
    ),
    (
        "Cohen's d",
        "difference of two means in standard deviations: above 0.8 is called large.",
    ),
    (
        "Frontier (Pareto)",
        "the set-ups that no other one beats: none takes as little memory and is as fast.",
    ),
    (
        "NF4",
        "4-bit storage of weights in blocks of 64; they are unpacked before each product.",
    ),
];
