//! Headline and validity of an experiment. Something is called a finding only beyond noise; what was written down before
//! is held against what came out.

use tunesmith_measure::Gib;
use tunesmith_measure::comparison::{ClaimVerdict, Comparison, Effect, Metric, Pair, PairFigure};

use super::{Headline, Verdict, wrong_values};
use crate::format::{capitalised, percent, plural, significant};
use crate::{ExperimentRecord, ReportInput};

pub(super) fn headline(experiment: &ExperimentRecord) -> Headline {
    let comparison = &experiment.comparison;
    let title = match experiment.title.as_str() {
        "" => &experiment.name,
        title => title,
    };
    let mut details: Vec<String> = comparison
        .criteria
        .iter()
        .map(|result| format!("Pass criterion, written before: {}", result.sentence))
        .collect();
    if let Some(ladder) = &experiment.ladder {
        details.insert(0, capitalised(&ladder.sentence));
        let losses = ladder.gap.steps.iter().filter(|step| step.lost_share > 0.0);
        details.extend(losses.map(|step| {
            format!(
                "On the way to \"{}\" {} of the peak are lost: {}",
                step.name,
                percent(step.lost_share),
                step.why
            )
        }));
        details.extend(experiment.notes.iter().cloned());
        let verdict = if missed(comparison) {
            Verdict::Warn
        } else {
            Verdict::Ok
        };
        let said = ladder.headline().unwrap_or_else(|| title.to_owned());
        return Headline::new(verdict, said, details);
    }
    let leading = leading(comparison);
    let first = leading.and_then(|pair| pair.figures.first());
    if let (None, Some(drift)) = (first, experiment.drift.first()) {
        details.extend(experiment.notes.iter().cloned());
        return Headline::new(Verdict::Ok, format!("{title}: {drift}"), details);
    }
    let (Some(pair), Some(first)) = (leading, first) else {
        return Headline::new(
            Verdict::Unknown,
            format!("{title}: nothing can be compared yet"),
            details,
        );
    };
    details.splice(
        0..0,
        pair.figures
            .iter()
            .take(2)
            .map(|figure| capitalised(&figure.sentence)),
    );
    let others = comparison.pairs.len().saturating_sub(1);
    if others > 0 {
        details.push(format!(
            "{} compared with {}; the table has all of them",
            plural(comparison.pairs.len() as u64, "arm"),
            comparison.pairs[0].against
        ));
    }
    details.extend(experiment.notes.iter().cloned());
    let verdict = match first.effect {
        _ if missed(comparison) => Verdict::Warn,
        Effect::Better | Effect::Worse => Verdict::Ok,
        Effect::WithinNoise => Verdict::Note,
        Effect::Exploratory => Verdict::Unknown,
    };
    Headline::new(verdict, sentence(pair, first), details)
}

/// Whether something that had to hold does not.
fn missed(comparison: &Comparison) -> bool {
    let mut criteria = comparison.criteria.iter();
    criteria.any(|result| result.verdict == ClaimVerdict::Miss)
}

/// The pair that a report opens with: of two arms the one that there is; of more the first that is better than the base by more than
/// noise, since that is what a reader wants to take along.
pub(crate) fn leading(comparison: &Comparison) -> Option<&Pair> {
    let better = |pair: &&Pair| {
        pair.figures
            .first()
            .is_some_and(|figure| figure.effect == Effect::Better)
    };
    comparison
        .pairs
        .iter()
        .find(better)
        .or_else(|| comparison.pairs.first())
}

/// Speed and memory in one short sentence; any other figure in its own words.
fn sentence(pair: &Pair, first: &PairFigure) -> String {
    let figure = |metric: Metric| pair.figures.iter().find(|figure| figure.metric == metric);
    let Some(speed) = figure(Metric::TokensPerSec).filter(|speed| speed.metric == first.metric) else {
        return capitalised(&first.sentence);
    };
    let (name, against) = (&pair.name, &pair.against);
    let size = match speed.ratio.map(|ratio| ratio.value) {
        Some(ratio) if ratio >= 2.0 => format!("{} times as fast as {against} here", significant(ratio, 2)),
        Some(ratio) if ratio >= 1.0 => format!("{} faster here than {against}", percent(ratio - 1.0)),
        Some(ratio) => format!("{} slower here than {against}", percent(1.0 - ratio)),
        None => return capitalised(&first.sentence),
    };
    let speed = match speed.effect {
        Effect::Better | Effect::Worse => format!("{name} is {size}"),
        Effect::WithinNoise => format!("{name} is as fast here as {against}, within noise"),
        Effect::Exploratory => format!("{name} was {size}, once and not repeated"),
    };
    let memory = figure(Metric::PeakBytes).map_or_else(String::new, |memory| {
        let gib = significant(Gib::from_mean(memory.difference.abs()).0, 2);
        match memory.effect {
            Effect::Better => format!(" and takes {gib} GiB less"),
            Effect::Worse => format!(" and takes {gib} GiB more"),
            Effect::WithinNoise => " and takes as much memory, within noise".to_owned(),
            Effect::Exploratory => String::new(),
        }
    });
    format!("{speed}{memory}")
}

pub(super) fn validity(experiment: &ExperimentRecord, record: &ReportInput) -> Headline {
    let made = experiment.runs.len();
    let counts = experiment.runs.iter().filter(|run| run.counts).count();
    let planned = experiment.planned_runs.max(made);
    let runs = format!("{counts} of {} count", plural(planned as u64, "run"));
    let failed: Vec<String> = experiment
        .runs
        .iter()
        .filter(|run| !run.counts)
        .map(|run| {
            let arm = experiment.arm_name(run.arm);
            let why = run
                .reason
                .as_deref()
                .map_or_else(String::new, |reason| format!(": {reason}"));
            format!("{arm}, seed {}: {}{why}", run.seed, run.status)
        })
        .collect();
    let wrong = wrong_values(record);
    if !wrong.is_empty() {
        return Headline::new(
            Verdict::Stop,
            format!("Values are wrong on this device; {runs}"),
            wrong,
        );
    }
    if counts == 0 {
        return Headline::new(Verdict::Unknown, format!("No run to judge: {runs}"), failed);
    }
    let repeated = experiment.comparison.arms.iter().all(|arm| arm.runs >= 3);
    if made < planned {
        return Headline::new(
            Verdict::Warn,
            format!("Not finished: {runs}"),
            failed
                .into_iter()
                .chain([format!(
                    "{} still to be made",
                    plural((planned - made) as u64, "run")
                )])
                .collect(),
        );
    }
    if counts < made {
        return Headline::new(Verdict::Warn, format!("Partly valid: {runs}"), failed);
    }
    if !repeated {
        return Headline::new(
            Verdict::Note,
            format!("Exploratory: {runs}, and fewer than three of an arm"),
            failed,
        );
    }
    Headline::new(Verdict::Ok, format!("Valid: {runs}"), failed)
}
