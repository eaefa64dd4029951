//! Headline and validity of a training.

use tunesmith_measure::calibration::{Validity, validity as validity_of};
use tunesmith_measure::judge::Severity;
use tunesmith_protocol::RunStatus;

use super::{Headline, Verdict, wrong_values};
use crate::compare::why_not_comparable;
use crate::format::{capitalised, duration, plural, points};
use crate::{Gain, ReportInput, TrainingRecord};

/// What is true of the run, first of all what went wrong.
pub(super) fn headline(run: &TrainingRecord, gain: Option<&Gain>) -> Headline {
    let done = plural(run.summary.total_steps as u64, "step");
    let time = duration(run.summary.wall_secs);
    let model = &run.model;
    let task = if run.task.is_empty() {
        "its task"
    } else {
        &run.task
    };
    if run.status != RunStatus::Ok {
        let sentence = match run.status {
            RunStatus::Cancelled => format!("The training of {model} was stopped by hand after {done}"),
            RunStatus::TimeBoxed => format!("The training of {model} ran out of its time box after {done}"),
            RunStatus::Oom => format!("The training of {model} ran out of memory after {done}"),
            RunStatus::Nan => {
                format!("The training of {model} broke after {done}: a number was no longer finite")
            }
            RunStatus::Invalid => format!("The training of {model} was stopped as invalid after {done}"),
            RunStatus::Interrupted => {
                format!("The training of {model} has no end: the program that led it went away after {done}")
            }
            RunStatus::Crashed | RunStatus::Ok => {
                format!("The engine failed while training {model}, after {done}")
            }
        };
        let mut details: Vec<String> = run.reason.iter().cloned().collect();
        details.extend(gain.map(score_sentence));
        let own_choice = matches!(run.status, RunStatus::Cancelled | RunStatus::TimeBoxed);
        return Headline::new(
            if own_choice { Verdict::Warn } else { Verdict::Stop },
            sentence,
            details,
        );
    }
    if run.summary.valid_steps == 0 {
        let sentence = if run.summary.total_steps == 0 {
            format!("{model} was not trained: the run has no step")
        } else {
            format!("{model} learned nothing: none of {done} counts")
        };
        return Headline::new(
            Verdict::Stop,
            sentence,
            gain.map(score_sentence).into_iter().collect(),
        );
    }
    let Some(gain) = gain else {
        let why = match (&run.before, &run.after) {
            (Some(before), Some(after)) => {
                why_not_comparable(before, after).unwrap_or("the scores cannot be compared")
            }
            (None, None) => "no evaluation was made",
            (None, Some(_)) => "the model was not evaluated before training",
            (Some(_), None) => "the model was not evaluated after training",
        };
        let sentence =
            format!("{model} was trained on {task} for {done} in {time}; what it learned is unknown");
        return Headline::new(Verdict::Unknown, sentence, vec![capitalised(why)]);
    };
    let change = format!("{} → {}", points(gain.before_points), points(gain.after_points));
    if !gain.beyond_noise {
        return Headline::new(
            Verdict::Note,
            format!("No change beyond chance: {model} went {change} points of execution match in {time}"),
            vec![noise_sentence(gain)],
        );
    }
    if gain.gain_points < 0.0 {
        return Headline::new(
            Verdict::Warn,
            format!("{model} got worse at {task} here: {change} points of execution match in {time}"),
            vec![noise_sentence(gain)],
        );
    }
    Headline::new(
        Verdict::Ok,
        format!("{model} learned {task} here: {change} points of execution match in {time}"),
        vec![noise_sentence(gain)],
    )
}

/// Whether the numbers of the run can be trusted.
pub(super) fn validity(run: &TrainingRecord, record: &ReportInput) -> Headline {
    let summary = &run.summary;
    let (valid, total) = (summary.valid_steps, summary.total_steps);
    let wrong_values = wrong_values(record);
    let mut details = summary
        .findings
        .iter()
        .map(|finding| capitalised(finding))
        .collect::<Vec<_>>();
    if total == 0 {
        return Headline::new(Verdict::Unknown, "No step to judge".to_owned(), details);
    }
    let steps = format!("{valid} of {} count", plural(total as u64, "step"));
    if !wrong_values.is_empty() {
        return Headline::new(
            Verdict::Stop,
            format!("Values are wrong on this device; {steps}"),
            wrong_values,
        );
    }
    if valid == 0 {
        return Headline::new(Verdict::Stop, format!("Invalid: {steps}"), details);
    }
    let worst = run.judge.worst();
    details.extend(
        run.judge
            .notable()
            .into_iter()
            .map(|finding| format!("{}: {}", capitalised(finding.id.title()), finding.found)),
    );
    if worst == Some(Severity::Red) {
        return Headline::new(
            Verdict::Stop,
            format!("Not to be believed: the judge stopped the run; {steps}"),
            details,
        );
    }
    if run.status != RunStatus::Ok {
        details.extend(run.reason.as_deref().map(capitalised));
        return Headline::new(
            Verdict::Warn,
            format!("Incomplete ({}): {steps}", run.status.name()),
            details,
        );
    }
    if worst == Some(Severity::Amber) {
        return Headline::new(Verdict::Warn, format!("The judge warns: {steps}"), details);
    }
    if let Some(disturbed) = &run.disturbed {
        details.insert(0, capitalised(disturbed));
        return Headline::new(
            Verdict::Warn,
            format!("Disturbed by other programs: {steps}"),
            details,
        );
    }
    if valid < total {
        return Headline::new(Verdict::Warn, format!("Partly valid: {steps}"), details);
    }
    if let Some(calibration) = &record.calibration
        && let (Validity::Disturbed, why) = validity_of(calibration)
    {
        details.push(format!(
            "The measured peak may be too low, and shares of it too high: during calibration {why}"
        ));
    }
    if !details.is_empty() {
        return Headline::new(Verdict::Note, format!("Valid, with remarks: {steps}"), details);
    }
    Headline::new(Verdict::Ok, format!("Valid: {steps}"), details)
}

fn score_sentence(gain: &Gain) -> String {
    let judged = if gain.beyond_noise {
        "outside the noise"
    } else {
        "no change beyond chance"
    };
    format!(
        "Execution match went {} → {} points, {judged}",
        points(gain.before_points),
        points(gain.after_points)
    )
}

fn noise_sentence(gain: &Gain) -> String {
    let noise = format!(
        "With {} a change of up to {} points is noise (half of the 95 % interval)",
        plural(gain.questions, "question"),
        points(gain.noise_points)
    );
    match (gain.fixed, gain.broken, gain.mcnemar_p) {
        (Some(fixed), Some(broken), Some(p)) => {
            let p = if p < 0.001 {
                "p below 0.001".to_owned()
            } else {
                format!("p = {p:.3}")
            };
            format!("{noise}; {fixed} answers were fixed and {broken} broken (McNemar {p})")
        }
        _ => noise,
    }
}
