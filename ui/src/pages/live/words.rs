//! What is true of a training now, in words: the sentence that opens the page, the time left, the stages of the job.

use tunesmith_protocol::{Progress, RunStatus, StopHow, TaskWork};
use tunesmith_report::format::{capitalised, count, duration, number, plural, points};

use super::{Figures, Outcome};
use crate::{state::Task, widgets};

/// Seconds of a stage before an estimate is worth showing.
const SETTLED_SECS: f64 = 3.0;
/// Units of a stage before an estimate is worth showing.
const SETTLED_UNITS: u64 = 2;
/// No estimate of a stage is believed beyond this, in seconds: 30 days.
const LONGEST_SECS: f64 = 30.0 * 86_400.0;

/// The sentence that opens the page.
pub(super) fn title(task: &Task, figures: &Figures, outcome: Option<&Outcome>, now_secs: f64) -> String {
    if task.is_over() {
        return ended(task, outcome);
    }
    if let Some(how) = task.stopping {
        return format!("{}…", stopping(how));
    }
    match task.steps.last() {
        Some(step) if task.stage == "train" => {
            let loss = step.loss.filter(|loss| loss.is_finite());
            let mut parts = vec![match loss {
                Some(loss) => format!("loss {}", number(loss)),
                None => "the loss is not a number".to_owned(),
            }];
            if let Some(speed) = figures.speed {
                parts.push(format!("{} tokens/s", number(speed)));
            }
            parts.push(left(task, now_secs));
            format!(
                "Step {} of {}: {}",
                count(step.step),
                count(task.steps_total),
                parts.join(", ")
            )
        }
        _ => stage_sentence(task, now_secs),
    }
}

fn stage_sentence(task: &Task, now_secs: f64) -> String {
    let stage = capitalised(&task.stage_title);
    match task.progress.as_ref().filter(|progress| progress.total > 0) {
        Some(progress) => format!(
            "{stage}: {} of {} {}, {}",
            count(progress.done),
            count(progress.total),
            progress.unit,
            left(task, now_secs)
        ),
        None => format!("{stage}…"),
    }
}

fn ended(task: &Task, outcome: Option<&Outcome>) -> String {
    let Some(ended) = &task.ended else {
        return String::new();
    };
    let last = task.steps.last().map(|step| step.step);
    let after = match last {
        Some(step) => format!("after step {}", count(step)),
        None => "before the first step".to_owned(),
    };
    let red = task
        .findings
        .iter()
        .rev()
        .find(|finding| finding.severity == "red");
    match (ended.status, red) {
        (RunStatus::Ok, _) => finished(outcome),
        (RunStatus::Invalid | RunStatus::Nan, Some(finding)) => {
            let place = finding.step.map_or_else(
                || "before the first step".to_owned(),
                |step| format!("at step {}", count(step)),
            );
            format!("Stopped by the judge {place}: {}", finding.found)
        }
        (RunStatus::Invalid, None) => format!("Stopped by the judge {after}"),
        (RunStatus::Nan, None) => format!("Broke {after}: a number was no longer finite"),
        (RunStatus::Oom, _) => format!("Out of memory {after}"),
        (RunStatus::TimeBoxed, _) => format!("The time box ended the training {after}"),
        (RunStatus::Cancelled, _) => format!("Stopped by you {after}"),
        (RunStatus::Interrupted, _) => format!("Interrupted {after}: the program that led it went away"),
        (RunStatus::Crashed, _) => format!("The training failed {after}"),
    }
}

fn finished(outcome: Option<&Outcome>) -> String {
    let mut parts = Vec::new();
    if let Some(loss) = outcome.and_then(|outcome| outcome.loss) {
        parts.push(format!("loss {} → {}", number(loss.first), number(loss.last)));
    }
    if let Some(gain) = outcome.and_then(|outcome| outcome.gain.as_ref()) {
        parts.push(format!(
            "score {} → {} points",
            points(gain.before_points),
            points(gain.after_points)
        ));
    }
    if parts.is_empty() {
        "Finished".to_owned()
    } else {
        format!("Finished: {}", parts.join(", "))
    }
}

/// A stop that is on its way.
pub(super) fn stopping(how: StopHow) -> &'static str {
    match how {
        StopHow::AfterStep => "Stopping after this step",
        StopHow::Save => "Stopping after this step, and saving the adapter",
        StopHow::Now => "Stopping now",
    }
}

/// How long the stage still takes, for the middle of a sentence: `about 4 min left`.
pub(super) fn left(task: &Task, now_secs: f64) -> String {
    time(task, now_secs, " left")
}

/// The same under the word "left": `about 4 min`.
pub(super) fn time_left(task: &Task, now_secs: f64) -> String {
    time(task, now_secs, "")
}

/// At the beginning of a stage nobody knows, and what cannot be is not shown.
fn time(task: &Task, now_secs: f64, after: &str) -> String {
    let all_done = |progress: &Progress| progress.total > 0 && progress.done >= progress.total;
    if task.progress.as_ref().is_some_and(all_done) {
        return "nearly done".to_owned();
    }
    estimate(task, now_secs).map_or_else(
        || "estimating…".to_owned(),
        |secs| format!("about {}{after}", widgets::rough(secs)),
    )
}

fn estimate(task: &Task, now_secs: f64) -> Option<f64> {
    let progress = task.progress.as_ref()?;
    let settled = now_secs - task.stage_began_secs >= SETTLED_SECS && progress.done >= SETTLED_UNITS;
    progress
        .eta_secs
        .filter(|secs| settled && (0.0..=LONGEST_SECS).contains(secs))
}

/// Time that has passed, to the second.
pub(super) fn elapsed(secs: f64) -> String {
    let whole = secs.max(0.0).floor();
    if whole < 60.0 {
        format!("{whole} s")
    } else {
        duration(whole)
    }
}

/// A stage of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobStage {
    /// What it is called.
    pub(super) title: &'static str,
    /// Where it stands.
    pub(super) place: StagePlace,
}

/// Where a stage of the job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StagePlace {
    /// It is over.
    Done,
    /// It is under way, or the job ended in it.
    Now,
    /// It comes later.
    Later,
}

impl StagePlace {
    /// For those who cannot see the mark. `ended` where the job is over.
    pub(super) fn words(self, ended: bool) -> &'static str {
        match (self, ended) {
            (Self::Done, _) => "done",
            (Self::Now, false) => "under way",
            (Self::Now, true) => "ended here",
            (Self::Later, false) => "to come",
            (Self::Later, true) => "not reached",
        }
    }
}

const STAGES: [(&str, &[&str]); 4] = [
    ("Preparing", &["calibrate", "prepare", "start"]),
    ("Questions to the base model", &["evaluate_before"]),
    ("Training", &["train", "keep_good"]),
    ("Questions to the tuned model", &["evaluate_after"]),
];

/// The stages in which questions are asked, by their place in the job.
pub(super) const ASKS: [usize; 2] = [1, 3];

/// The place of a stage of the service in the job; nothing for one that nobody knows.
pub(super) fn stage_index(stage: &str) -> Option<usize> {
    STAGES.iter().position(|(_, names)| names.contains(&stage))
}

/// The stages of the job. `reached` is the furthest that was seen, `ok` whether the job is over and ended well.
pub(super) fn stages(asks_questions: bool, reached: usize, ok: bool) -> Vec<JobStage> {
    STAGES
        .iter()
        .enumerate()
        .filter(|(index, _)| asks_questions || *index == 0 || *index == 2)
        .map(|(index, (title, _))| JobStage {
            title,
            place: if ok || index < reached {
                StagePlace::Done
            } else if index == reached {
                StagePlace::Now
            } else {
                StagePlace::Later
            },
        })
        .collect()
}

/// Whether a training that has just been asked for will ask questions, as far as its recipe tells.
pub(super) fn will_ask(work: &TaskWork) -> bool {
    match work {
        TaskWork::Train { recipe, evaluate, .. } => {
            // A recipe that cannot be read is refused by the service, which says why.
            *evaluate
                && tunesmith_lab::recipe::Recipe::parse(recipe, "the recipe")
                    .is_ok_and(|recipe| recipe.asks_questions())
        }
        TaskWork::Experiment { .. } => false,
        _ => true,
    }
}

/// Checks that were made, in words.
pub(super) fn judged_sentence(outcome: &Outcome) -> Option<String> {
    let judged = outcome.judged;
    if judged.made == 0 {
        return None;
    }
    let verdict = match judged.notable {
        0 => "all green".to_owned(),
        1 => "1 of them is not green".to_owned(),
        several => format!("{several} of them are not green"),
    };
    Some(format!(
        "{} of {} made, {verdict}",
        judged.made,
        plural(judged.all as u64, "check")
    ))
}

#[cfg(test)]
mod tests {
    use tunesmith_protocol::{Notice, Progress};

    use super::*;
    use crate::state::TaskState;

    fn training(stage: &str, done: u64, eta_secs: Option<f64>) -> TaskState {
        let mut tasks = TaskState::default();
        let task = tasks.begin(TaskWork::Resume { run: "r".to_owned() }, 10.0);
        tasks.apply(
            Notice::Stage {
                task,
                stage: stage.to_owned(),
                title: "questions to the base model".to_owned(),
            },
            20.0,
        );
        let progress = Progress {
            stage: stage.to_owned(),
            done,
            total: 100,
            unit: "prompts".to_owned(),
            eta_secs,
        };
        tasks.apply(Notice::Progress { task, progress }, 20.0);
        tasks
    }

    #[test]
    fn an_estimate_is_shown_once_it_is_one_and_never_nonsense() {
        let left_of = |done, eta, now| {
            let tasks = training("evaluate_before", done, eta);
            left(tasks.running().unwrap(), now)
        };
        assert_eq!(left_of(50, Some(240.0), 60.0), "about 4 min left");
        assert_eq!(left_of(1, Some(240.0), 60.0), "estimating…");
        assert_eq!(left_of(50, Some(240.0), 21.0), "estimating…");
        // The clock went back behind the beginning of the stage.
        assert_eq!(left_of(50, Some(240.0), 3.0), "estimating…");
        for nonsense in [None, Some(f64::NAN), Some(-3.0), Some(f64::INFINITY), Some(1e12)] {
            assert_eq!(left_of(50, nonsense, 60.0), "estimating…");
        }
    }

    #[test]
    fn time_is_said_as_one_says_it() {
        for (secs, words) in [
            (0.0, "5 s"),
            (23.0, "25 s"),
            (57.4, "55 s"),
            (58.0, "1 min"),
            (239.0, "4 min"),
            (3560.0, "59 min"),
            (3600.0, "1 h 00 min"),
            (7800.0, "2 h 10 min"),
        ] {
            assert_eq!(widgets::rough(secs), words, "{secs}");
        }
    }

    #[test]
    fn stages_are_those_of_the_job() {
        use StagePlace::{Done, Later, Now};

        let places = |asks, reached, ok| -> Vec<StagePlace> {
            stages(asks, reached, ok)
                .iter()
                .map(|stage| stage.place)
                .collect()
        };
        assert_eq!(places(true, 1, false), [Done, Now, Later, Later]);
        assert_eq!(places(false, 2, false), [Done, Now]);
        assert_eq!(places(true, 3, true), [Done; 4]);
        assert_eq!(stage_index("keep_good"), Some(2));
        assert_eq!(stage_index("something_new"), None);
    }
}
