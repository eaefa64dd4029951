//! What came of a slot: its attempts, each read from a run's own folder, and which of them counts.

use std::{collections::BTreeMap, path::Path};

use tunesmith_measure::{
    SummaryContext, TrainingSummary,
    comparison::{Figures, Metric, figures_of},
    summarise,
};

use crate::{
    evaluate::{AnswerRecord, Side, read_answers, read_side},
    run::Run,
};

use super::{
    Kind, Slot, SlotState, SlotStatus, Surroundings,
    record::{Folder, Line},
    telemetry::{self, CardPoint},
};

/// A run that its time box ended counts if this share of its window was measured (M10): its workload is that of the
/// others, and only the number of timed steps is smaller.
const LEAST_SHARE: f64 = 0.25;

/// Finds what belongs to a slot.
pub(super) struct Reader<'a> {
    pub(super) folder: &'a Folder,
    pub(super) runs_dir: &'a Path,
    pub(super) lines: &'a [Line],
}

/// One attempt at a slot.
struct Attempt {
    id: String,
    status: SlotStatus,
    figures: Figures,
    steady_steps: usize,
    /// Cores that others kept busy, and the sentence.
    disturbed: Option<(f64, String)>,
    reason: Option<String>,
    secs: Option<f64>,
    correct: BTreeMap<String, bool>,
    training: Option<TrainingSummary>,
}

impl Reader<'_> {
    /// A slot with what came of it.
    pub(super) fn slot(&self, number: usize, slot: Slot) -> SlotState {
        let mut attempts: Vec<Attempt> = Vec::new();
        let mut begun = 0;
        for line in self.lines {
            match line {
                Line::Run { slot, run, .. } if *slot == number => {
                    begun += 1;
                    attempts.extend(self.attempt(number, run));
                }
                Line::Failed {
                    slot, code, message, ..
                } if *slot == number => attempts.push(Attempt::failed(code, message)),
                Line::Retry { slots, .. } if slots.contains(&number) => {
                    attempts.retain(|attempt| !attempt.status.is_failure());
                }
                _ => {}
            }
        }
        let chosen = choose(attempts);
        let waiting = Attempt::failed("", "");
        let chosen = chosen.unwrap_or(Attempt {
            status: SlotStatus::Waiting,
            reason: None,
            ..waiting
        });
        SlotState {
            slot: number,
            arm: slot.arm,
            name: self.folder.plan.arms[slot.arm].name.clone(),
            seed: slot.seed,
            repeat: slot.repeat,
            status: chosen.status,
            run: Some(chosen.id).filter(|id| !id.is_empty()),
            attempts: begun,
            figures: chosen.figures,
            steady_steps: chosen.steady_steps,
            disturbed: chosen.disturbed.map(|(_, sentence)| sentence),
            reason: chosen.reason,
            secs: chosen.secs,
            correct: chosen.correct,
            training: chosen.training,
        }
    }

    fn attempt(&self, number: usize, id: &str) -> Option<Attempt> {
        let slot = self.folder.plan.order[number];
        if self.folder.plan.arms[slot.arm].adapter_of.is_some() {
            return self.answers(id);
        }
        // A folder that was removed, or cannot be read, holds no measurement: the slot is run again.
        let run = Run::open(&self.runs_dir.join(id)).ok()?;
        let status = SlotStatus::from(run.state);
        let training = self.training(&run);
        let window = self.folder.experiment.run.measured_steps as f64;
        let steady_steps = training.as_ref().map_or(0, |training| training.steady_steps);
        let counts = match status {
            SlotStatus::Ok => true,
            SlotStatus::TimeBoxed => {
                let soak = self.folder.experiment.kind == Kind::Soak;
                soak || steady_steps as f64 >= LEAST_SHARE * window
            }
            _ => false,
        };
        let mut figures = match &training {
            Some(training) if counts => figures_of(training, status == SlotStatus::Ok),
            _ => Figures::new(),
        };
        let summary = run.summary.as_ref();
        let after = summary.and_then(|summary| summary.evaluation.after.as_ref());
        if let (Some(after), true) = (after, counts) {
            figures.insert(Metric::ScorePoints, after.points);
        }
        if let Some(watts) = telemetry::mean_watts(&run.folder).filter(|_| counts) {
            figures.insert(Metric::MeanWatts, watts);
        }
        let on_card = self.folder.plan.device != "cpu";
        let by_processor = summary.and_then(|summary| {
            let train = summary.contention.iter().filter(|sample| sample.stage == "train");
            train
                .filter_map(|sample| sample.disturbance(on_card))
                .max_by(|a, b| a.0.total_cmp(&b.0))
        });
        // Whoever shares the card counts for more than any processor.
        let disturbed = telemetry::card_disturbance(&run.folder)
            .map(|sentence| (f64::INFINITY, sentence))
            .or(by_processor);
        let tuned = match after {
            Some(_) if counts => read_answers(&run.folder, "tuned").unwrap_or_default(),
            _ => Vec::new(),
        };
        Some(Attempt {
            id: id.to_owned(),
            status,
            figures,
            steady_steps,
            disturbed,
            reason: run.reason(),
            secs: summary.map(|summary| summary.timings.total_secs),
            correct: correct(&tuned),
            training,
        })
    }

    /// The figures of a training with the experiment's own warm-up, whatever the run's summary left out.
    fn training(&self, run: &Run) -> Option<TrainingSummary> {
        let context = run.context().ok()??;
        let steps = run.steps().ok()?;
        let warmup = self.folder.experiment.run.warmup_steps as usize;
        let context = SummaryContext {
            discard: Some(warmup),
            ..context
        };
        (!steps.is_empty()).then(|| summarise(&steps, &context))
    }

    /// Answers of a slot that trains nothing.
    fn answers(&self, id: &str) -> Option<Attempt> {
        let folder = self.folder.answers(id);
        let side: Side = read_side(&folder, "tuned")?;
        let records = read_answers(&folder, "tuned").ok()?;
        Some(Attempt {
            status: SlotStatus::Ok,
            figures: Figures::from([(Metric::ScorePoints, side.points)]),
            secs: Some(side.wall_secs),
            correct: correct(&records),
            reason: None,
            ..Attempt::failed("", "")
        })
    }

    /// Of a soak what its cards did.
    pub(super) fn card(&self, slots: &[SlotState]) -> Vec<Vec<CardPoint>> {
        if self.folder.experiment.kind != Kind::Soak {
            return Vec::new();
        }
        let runs = slots.iter().filter_map(|slot| slot.run.as_ref());
        runs.map(|run| telemetry::card_points(&self.runs_dir.join(run)))
            .filter(|points| !points.is_empty())
            .collect()
    }

    /// Those of the first run that has some.
    pub(super) fn surroundings(&self) -> Option<Surroundings> {
        self.lines.iter().find_map(|line| {
            let Line::Run { run, .. } = line else { return None };
            let run = Run::open(&self.runs_dir.join(run)).ok()?;
            run.manifest.as_ref().map(Surroundings::of)
        })
    }
}

impl Attempt {
    fn failed(code: &str, message: &str) -> Self {
        let text = if code.is_empty() {
            String::new()
        } else {
            format!("{message} ({code})")
        };
        Self {
            id: String::new(),
            status: SlotStatus::Crashed,
            figures: Figures::new(),
            steady_steps: 0,
            disturbed: None,
            reason: Some(text),
            secs: None,
            correct: BTreeMap::new(),
            training: None,
        }
    }
}

/// The attempt that counts: of those that are over the least disturbed one, the earliest of equal ones; else the last.
fn choose(mut attempts: Vec<Attempt>) -> Option<Attempt> {
    let busy = |attempt: &Attempt| attempt.disturbed.as_ref().map_or(0.0, |(cores, _)| *cores);
    let over = attempts
        .iter()
        .enumerate()
        .filter(|(_, attempt)| attempt.status.is_over());
    let best = over
        .min_by(|(_, a), (_, b)| {
            let failed = |attempt: &Attempt| attempt.status.is_failure();
            failed(a).cmp(&failed(b)).then(busy(a).total_cmp(&busy(b)))
        })
        .map(|(index, _)| index);
    match best {
        Some(index) => Some(attempts.swap_remove(index)),
        None => attempts.pop(),
    }
}

fn correct(records: &[AnswerRecord]) -> BTreeMap<String, bool> {
    records
        .iter()
        .map(|record| (record.question.id.clone(), record.scored.matches))
        .collect()
}
