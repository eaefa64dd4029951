//! Tells the window what a task does: what the lab and set-up report, in the words of the protocol.

use std::{path::Path, sync::Arc};

use tunesmith_measure::judge::Finding;
use tunesmith_protocol::{Answer, Level, Notice, Progress, Side, TaskId, Verdict};
use tunesmith_setup::{Report, human_bytes_if_known};

use crate::{
    experiment::{ExperimentObserver, Phase, SlotUpdate},
    pipeline::{Observer, Update},
};

use super::audience::Audience;

/// Speaks for one task.
pub(super) struct Teller {
    task: TaskId,
    audience: Arc<Audience>,
    /// Which model answers at the moment.
    side: Option<Side>,
    /// The run that the task is about, once it is known.
    run: Option<String>,
}

impl Teller {
    pub(super) fn new(task: TaskId, audience: Arc<Audience>) -> Self {
        Self {
            task,
            audience,
            side: None,
            run: None,
        }
    }

    fn tell(&self, notice: Notice) {
        self.audience.tell(self.task, notice);
    }

    /// The run that the task is about.
    pub(super) fn run(&self) -> Option<String> {
        self.run.clone()
    }

    pub(super) fn is_about(&mut self, run: &str) {
        self.run = Some(run.to_owned());
    }

    /// What follows is an answer of this model.
    pub(super) fn answers(&mut self, side: Side) {
        self.side = Some(side);
    }

    pub(super) fn answered(&mut self, side: Side, answer: Answer) {
        let task = self.task;
        self.tell(Notice::Answered { task, side, answer });
    }

    pub(super) fn log(&self, level: Level, text: impl Into<String>) {
        self.tell(Notice::Log {
            task: self.task,
            level,
            text: text.into(),
        });
    }

    /// How much of a download is here after this many seconds.
    pub(super) fn fetched(&self, done: u64, total: u64, secs: f64) {
        // The first piece says nothing of the speed.
        let eta_secs =
            (done > 0 && secs > 1.0).then(|| total.saturating_sub(done) as f64 * secs / done as f64);
        self.tell(Notice::Progress {
            task: self.task,
            progress: Progress {
                stage: "fetch".to_owned(),
                done,
                total,
                unit: "bytes".to_owned(),
                eta_secs,
            },
        });
    }

    pub(super) fn stage(&self, stage: &str, title: String) {
        self.tell(Notice::Stage {
            task: self.task,
            stage: stage.to_owned(),
            title,
        });
    }

    fn has_folder(&mut self, run: &str, folder: &Path) {
        self.is_about(run);
        self.tell(Notice::Run {
            task: self.task,
            run: run.to_owned(),
            folder: folder.to_owned(),
        });
    }

    /// What set-up is about to do, or how far it is. Commands become lines of the log before they run.
    pub(super) fn set_up(&self, report: &Report) {
        match report {
            Report::Plan(plan) => {
                self.stage("fetch", format!("fetching {}", plan.what));
                self.log(
                    Level::Info,
                    format!(
                        "{} over the network, {} on disk in {} ({})",
                        human_bytes_if_known(plan.download_bytes),
                        human_bytes_if_known(plan.disk_bytes),
                        plan.into.display(),
                        plan.licence
                    ),
                );
            }
            Report::Command(command) => {
                for (path, content) in &command.files {
                    self.log(Level::Info, format!("{} holds:", path.display()));
                    for line in content.lines() {
                        self.log(Level::Info, format!("  {line}"));
                    }
                }
                let what = [command.title.as_str(), command.why.as_str()];
                let what: Vec<&str> = what.into_iter().filter(|text| !text.is_empty()).collect();
                if !what.is_empty() {
                    self.log(Level::Info, what.join(": "));
                }
                self.log(
                    Level::Info,
                    format!("[{}/{}] {}", command.number, command.total, command.command),
                );
            }
            Report::Progress(progress) => self.tell(Notice::Progress {
                task: self.task,
                progress: Progress {
                    stage: "fetch".to_owned(),
                    done: progress.done_bytes,
                    total: progress.total_bytes.unwrap_or(0),
                    unit: "bytes".to_owned(),
                    eta_secs: progress.eta.map(|eta| eta.as_secs_f64()),
                },
            }),
            Report::Verifying(stage) => self.stage("verify", format!("checking the {stage}")),
        }
    }
}

impl Observer for Teller {
    fn update(&mut self, update: Update<'_>) {
        let task = self.task;
        match update {
            Update::Stage(stage) => self.stage(stage.name(), stage.title().to_owned()),
            Update::Progress(_, progress) => self.tell(Notice::Progress {
                task,
                progress: progress.clone(),
            }),
            Update::Step(step, total) => self.tell(Notice::Step {
                task,
                step: step.clone(),
                total,
            }),
            Update::Piece(text) => {
                if let Some(side) = self.side {
                    let text = text.to_owned();
                    self.tell(Notice::Piece { task, side, text });
                }
            }
            Update::Run(run, folder) => self.has_folder(run, folder),
            Update::Finding(finding) => self.tell(Notice::Finding {
                task,
                finding: in_words(finding),
            }),
            Update::Log(level, text) => self.log(level, text),
        }
    }
}

impl ExperimentObserver for Teller {
    fn slot(&mut self, update: &SlotUpdate<'_>) {
        let reason = match &update.phase {
            Phase::WaitsForQuiet(sentence) | Phase::IsRepeated(sentence) => Some(sentence.clone()),
            Phase::Begins | Phase::Ended(_) => None,
        };
        self.tell(Notice::Experiment {
            task: self.task,
            experiment: update.id.to_owned(),
            folder: update.folder.to_owned(),
            slot: update.slot,
            slots: update.slots,
            over: update.over,
            arm: update.arm.to_owned(),
            seed: update.seed,
            phase: update.phase.name().to_owned(),
            reason,
            secs_left: update.secs_left,
        });
    }
}

fn in_words(finding: &Finding) -> Verdict {
    Verdict {
        check: finding.id.name().to_owned(),
        title: finding.id.title().to_owned(),
        severity: finding.severity.name().to_owned(),
        step: finding.step,
        found: finding.found.clone(),
        means: finding.means.clone(),
        remedies: finding.remedies.clone(),
    }
}
