//! What the shell follows of what tasks say: enough for one line in the tray and one sentence at the end. The window and
//! the run's folder have the rest.

use std::time::{Duration, Instant};

use tunesmith_protocol::{Notice, RunStatus, TaskWork};
use tunesmith_report::format::{count, duration};

/// A line of a task that the shell follows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// A task begins.
    Begins(TaskWork),
    /// A part of it begins.
    Stage { stage: String, title: String },
    /// Its run has a folder.
    Run(String),
    /// How far the stage is, in its own units, and the seconds that it will still take.
    Progress {
        done: u64,
        total: u64,
        eta_secs: Option<f64>,
    },
    /// A training step of so many.
    Step { step: u64, total: u64 },
    /// A run of an experiment, from 0, of so many.
    Slot {
        experiment: String,
        slot: usize,
        slots: usize,
        secs_left: Option<f64>,
    },
    /// The judge stops the run: what it is called and what was seen.
    Red { title: String, found: String },
    /// It is over.
    Ended {
        status: RunStatus,
        failure: Option<String>,
    },
}

impl Said {
    /// What the shell follows of a line; `None` where it does not.
    pub(crate) fn of(notice: &Notice) -> Option<Self> {
        Some(match notice {
            Notice::Task { work, .. } => Self::Begins(work.clone()),
            Notice::Stage { stage, title, .. } => Self::Stage {
                stage: stage.clone(),
                title: title.clone(),
            },
            Notice::Run { run, .. } => Self::Run(run.clone()),
            Notice::Progress { progress, .. } => Self::Progress {
                done: progress.done,
                total: progress.total,
                eta_secs: progress.eta_secs,
            },
            Notice::Step { step, total, .. } => Self::Step {
                step: step.step,
                total: *total,
            },
            Notice::Experiment {
                experiment,
                slot,
                slots,
                secs_left,
                ..
            } => Self::Slot {
                experiment: experiment.clone(),
                slot: *slot,
                slots: *slots,
                secs_left: *secs_left,
            },
            Notice::Finding { finding, .. } if finding.severity == "red" => Self::Red {
                title: finding.title.clone(),
                found: finding.found.clone(),
            },
            Notice::Ended { status, failure, .. } => Self::Ended {
                status: *status,
                failure: failure.as_ref().map(|failure| failure.message.clone()),
            },
            _ => return None,
        })
    }
}

/// Kinds of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Training,
    Experiment,
    Calibration,
    SetUp,
    Download,
    Answering,
    Report,
}

impl Kind {
    pub(crate) fn of(work: &TaskWork) -> Self {
        match work {
            TaskWork::Train { .. } | TaskWork::Resume { .. } => Self::Training,
            TaskWork::Experiment { .. } => Self::Experiment,
            TaskWork::Calibrate { .. } => Self::Calibration,
            TaskWork::Setup { .. } => Self::SetUp,
            TaskWork::Fetch { .. } => Self::Download,
            TaskWork::Answer { .. } => Self::Answering,
            TaskWork::Report { .. } => Self::Report,
        }
    }

    /// As the window calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Training => "Fine-tuning",
            Self::Experiment => "Experiment",
            Self::Calibration => "Calibration",
            Self::SetUp => "Set-up",
            Self::Download => "Download",
            Self::Answering => "Answering",
            Self::Report => "Report",
        }
    }

    /// Whether it times a device, which nothing else may use meanwhile.
    pub(crate) fn measures(self) -> bool {
        matches!(self, Self::Training | Self::Experiment | Self::Calibration)
    }

    /// Whether somebody may have gone away until it is over.
    pub(crate) fn takes_long(self) -> bool {
        !matches!(self, Self::Answering | Self::Report)
    }
}

/// The task at hand.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) kind: Kind,
    began: Instant,
    stage: String,
    title: String,
    /// Of the stage; the training's are its steps.
    done: Option<(u64, u64)>,
    /// Seconds left, and when that was said.
    left: Option<(f64, Instant)>,
    run: Option<String>,
    /// Name of the experiment's folder, the run at hand and how many there are.
    experiment: Option<(String, usize, usize)>,
    /// It was asked to stop.
    pub(crate) stopping: bool,
}

impl Running {
    pub(crate) fn new(work: &TaskWork, now: Instant) -> Self {
        Self {
            kind: Kind::of(work),
            began: now,
            stage: String::new(),
            title: "starting".to_owned(),
            done: None,
            left: None,
            run: None,
            experiment: None,
            stopping: false,
        }
    }

    /// Takes a line in.
    pub(crate) fn take(&mut self, said: &Said, now: Instant) {
        match said {
            Said::Stage { stage, title } => {
                self.stage.clone_from(stage);
                self.title.clone_from(title);
                self.done = None;
                // An experiment's estimate is for all its runs.
                if self.experiment.is_none() {
                    self.left = None;
                }
            }
            Said::Run(run) => self.run = Some(run.clone()),
            Said::Progress {
                done,
                total,
                eta_secs,
            } => {
                self.done = Some((*done, *total)).filter(|_| *total > 0);
                if self.experiment.is_none() {
                    self.left = sensible(*eta_secs, now);
                }
            }
            Said::Step { step, total } => self.done = Some((*step, *total)),
            Said::Slot {
                experiment,
                slot,
                slots,
                secs_left,
            } => {
                self.experiment = Some((experiment.clone(), *slot, *slots));
                self.left = sensible(*secs_left, now);
                self.done = None;
            }
            Said::Begins(_) | Said::Red { .. } | Said::Ended { .. } => {}
        }
    }

    /// How long it has run.
    pub(crate) fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// One line: what it does, how far it is, how long it takes.
    pub(crate) fn sentence(&self, now: Instant) -> String {
        let mut words = match &self.experiment {
            Some((_, slot, slots)) => format!("run {} of {slots}", slot + 1),
            None => match self.done.filter(|_| self.stage == "train") {
                Some((step, total)) => format!("step {} of {}", count(step), count(total)),
                None => self.title.clone(),
            },
        };
        if self.stopping {
            words.push_str(", stopping");
        } else if let Some((secs, said)) = self.left {
            let left = secs - now.saturating_duration_since(said).as_secs_f64();
            if left >= 1.0 {
                words.push_str(&format!(", {} left", rounded(left)));
            }
        }
        format!("{}: {words}", self.kind.name())
    }

    /// How what is stopped with saving goes on later; `None` where it cannot, or not yet.
    pub(crate) fn going_on(&self) -> Option<TaskWork> {
        match (self.kind, &self.run, &self.experiment) {
            (Kind::Training, Some(run), _) => Some(TaskWork::Resume { run: run.clone() }),
            (Kind::Experiment, _, Some((experiment, ..))) => Some(TaskWork::Experiment {
                experiment: experiment.clone(),
                resume: true,
                again: false,
                retry_failed: false,
            }),
            _ => None,
        }
    }
}

/// Tenths of a second would only flicker.
fn rounded(secs: f64) -> String {
    let secs = secs.round();
    if secs < 60.0 {
        format!("{secs:.0} s")
    } else {
        duration(secs)
    }
}

/// An estimate that is one.
fn sensible(secs: Option<f64>, now: Instant) -> Option<(f64, Instant)> {
    secs.filter(|secs| secs.is_finite() && *secs >= 0.0)
        .map(|secs| (secs, now))
}

/// How a task ended, in words.
pub(crate) fn ending(kind: Kind, status: RunStatus, failure: Option<&str>) -> String {
    let name = kind.name();
    let plain = match status {
        RunStatus::Ok => return format!("{name} is done"),
        RunStatus::Cancelled => return format!("{name} was stopped"),
        RunStatus::TimeBoxed => return format!("{name} ended with its time box"),
        RunStatus::Oom => "ran out of memory",
        RunStatus::Nan => "met a number that is none",
        RunStatus::Invalid => "was stopped by the judge",
        RunStatus::Crashed => "failed",
        RunStatus::Interrupted => "was cut short",
    };
    match failure {
        Some(why) => format!("{name} {plain}: {why}"),
        None => format!("{name} {plain}"),
    }
}

/// Whether this is an end that somebody should look at.
pub(crate) fn failed(status: RunStatus) -> bool {
    !matches!(
        status,
        RunStatus::Ok | RunStatus::Cancelled | RunStatus::TimeBoxed
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn training() -> TaskWork {
        TaskWork::Resume { run: "r1".to_owned() }
    }

    fn stage(stage: &str) -> Said {
        Said::Stage {
            stage: stage.to_owned(),
            title: format!("doing {stage}"),
        }
    }

    #[test]
    fn a_training_is_as_far_as_its_steps_and_its_estimate_runs_down() {
        let now = Instant::now();
        let mut running = Running::new(&training(), now);
        assert_eq!(running.sentence(now), "Fine-tuning: starting");
        assert_eq!(running.going_on(), None, "there is no run yet");
        running.take(&stage("load"), now);
        let progress = |done, total, eta_secs| Said::Progress {
            done,
            total,
            eta_secs,
        };
        running.take(&progress(3, 9, Some(f64::NAN)), now);
        assert_eq!(running.sentence(now), "Fine-tuning: doing load");
        running.take(&Said::Run("r2".to_owned()), now);
        running.take(&stage("train"), now);
        running.take(&Said::Step { step: 1, total: 1200 }, now);
        running.take(&progress(12, 1200, Some(95.0)), now);
        assert_eq!(
            running.sentence(now),
            "Fine-tuning: step 12 of 1,200, 1 min 35 s left"
        );
        let later = now + Duration::from_secs(65);
        assert_eq!(
            running.sentence(later),
            "Fine-tuning: step 12 of 1,200, 30 s left"
        );
        assert_eq!(
            running.sentence(now + Duration::from_mins(5)),
            "Fine-tuning: step 12 of 1,200"
        );
        let resume = TaskWork::Resume { run: "r2".to_owned() };
        assert_eq!(running.going_on(), Some(resume));
        running.stopping = true;
        assert_eq!(running.sentence(now), "Fine-tuning: step 12 of 1,200, stopping");
    }

    #[test]
    fn an_experiment_is_as_far_as_its_runs_and_goes_on_by_its_folder() {
        let now = Instant::now();
        let work = TaskWork::Experiment {
            experiment: "checkpointing".to_owned(),
            resume: false,
            again: true,
            retry_failed: true,
        };
        let mut running = Running::new(&work, now);
        running.take(
            &Said::Slot {
                experiment: "checkpointing-0f1e2d3c".to_owned(),
                slot: 2,
                slots: 6,
                secs_left: Some(3600.0),
            },
            now,
        );
        running.take(&stage("train"), now);
        running.take(
            &Said::Progress {
                done: 5,
                total: 9,
                eta_secs: Some(4.0),
            },
            now,
        );
        assert_eq!(running.sentence(now), "Experiment: run 3 of 6, 1 h 00 min left");
        let goes_on = TaskWork::Experiment {
            experiment: "checkpointing-0f1e2d3c".to_owned(),
            resume: true,
            again: false,
            retry_failed: false,
        };
        assert_eq!(running.going_on(), Some(goes_on));
    }

    #[test]
    fn an_end_is_told_with_its_reason() {
        let told = ending(
            Kind::Training,
            RunStatus::Crashed,
            Some("the engine was killed by SIGSEGV"),
        );
        assert_eq!(told, "Fine-tuning failed: the engine was killed by SIGSEGV");
        assert_eq!(
            ending(Kind::Calibration, RunStatus::Ok, None),
            "Calibration is done"
        );
        assert!(failed(RunStatus::Oom) && !failed(RunStatus::Cancelled));
    }
}
