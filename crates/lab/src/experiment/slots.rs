//! What came of a slot: its attempts, each read from a run's own folder, and which of them counts.

use std::{collections::BTreeMap, path::Path};

use tunesmith_measure::{
    SummaryContext, TrainingSummary,
    comparison::{Figures, Metric, figures_of},
    summarise,
};
use tunesmith_protocol::Step;

use crate::{
    evaluate::{AnswerRecord, Side, read_answers, read_side},
    pipeline::LevelRecord,
    run::{CardPoint, Run, card_record},
};

use super::{
    Kind, Slot, SlotState, SlotStatus, Surroundings,
    record::{Folder, Line},
};

/// A run that its time box ended counts if this share of its window was measured (M10): its workload is that of the
/// others, and only the number of timed steps is smaller. All arms are then compared over as many ([`cut`]).
const LEAST_SHARE: f64 = 0.25;

/// What the figures of a run are counted from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recorded {
    /// All its steps.
    steps: Vec<Step>,
    /// With the experiment's own warm-up, whatever the run's summary left out.
    context: SummaryContext,
    /// The figures of all of them.
    pub(super) training: TrainingSummary,
}

impl Recorded {
    fn of(run: &Run, warmup: usize) -> Option<Self> {
        let steps = run.steps().ok().filter(|steps| !steps.is_empty())?;
        let context = SummaryContext {
            discard: Some(warmup),
            ..run.context().ok()??
        };
        Some(Self {
            training: summarise(&steps, &context),
            steps,
            context,
        })
    }

    /// Steps behind the warm-up, whether they count or not.
    fn timed_steps(&self) -> usize {
        self.steps.len().saturating_sub(self.training.discarded_steps)
    }

    /// The figures of the first so many of those.
    fn over(&self, timed_steps: usize) -> Figures {
        let steps = self.steps.len().min(self.training.discarded_steps + timed_steps);
        let first = summarise(&self.steps[..steps], &self.context);
        // Every run is asked for as many steps, so that its loss is that of as many as the others'.
        figures_of(&first, true)
    }
}

/// Timed steps over which the arms can be compared: as many as every run that counts has (M10). Nothing where no time box
/// ended one, so that all have those that were planned.
pub(super) fn common_steps(slots: &[SlotState]) -> Option<usize> {
    let counting = || slots.iter().filter(|slot| !slot.figures.is_empty());
    if !counting().any(|slot| slot.status == SlotStatus::TimeBoxed) {
        return None;
    }
    let recorded = counting().filter_map(|slot| slot.recorded.as_ref());
    recorded.map(Recorded::timed_steps).min()
}

/// Has the figures of every run that counts cover the first so many timed steps of it.
pub(super) fn cut(slots: &mut [SlotState], timed_steps: usize) {
    for slot in slots.iter_mut().filter(|slot| !slot.figures.is_empty()) {
        if let Some(recorded) = &slot.recorded {
            // A score and a mean power are those of the whole run.
            let of_run = |metric: &Metric| matches!(metric, Metric::ScorePoints | Metric::MeanWatts);
            slot.figures.retain(|metric, _| of_run(metric));
            slot.figures.extend(recorded.over(timed_steps));
        }
    }
}

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
    recorded: Option<Recorded>,
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
            recorded: chosen.recorded,
        }
    }

    fn attempt(&self, number: usize, id: &str) -> Option<Attempt> {
        let slot = self.folder.plan.order[number];
        if self.folder.plan.arms[slot.arm].adapter_of.is_some() {
            return self.answers(id);
        }
        if !self.folder.plan.arms[slot.arm].measures.is_training() {
            return self.level(id);
        }
        // A folder that was removed, or cannot be read, holds no measurement: the slot is run again.
        let run = Run::open(&self.runs_dir.join(id)).ok()?;
        let status = SlotStatus::from(run.state);
        let recorded = Recorded::of(&run, self.folder.experiment.run.warmup_steps as usize);
        let training = recorded.as_ref().map(|recorded| &recorded.training);
        let window = self.folder.experiment.run.measured_steps as f64;
        let steady_steps = training.map_or(0, |training| training.steady_steps);
        let counts = match status {
            SlotStatus::Ok => true,
            SlotStatus::TimeBoxed => {
                let soak = self.folder.experiment.kind == Kind::Soak;
                soak || steady_steps as f64 >= LEAST_SHARE * window
            }
            _ => false,
        };
        let mut figures = match training {
            Some(training) if counts => figures_of(training, status == SlotStatus::Ok),
            _ => Figures::new(),
        };
        let summary = run.summary.as_ref();
        let after = summary.and_then(|summary| summary.evaluation.after.as_ref());
        if let (Some(after), true) = (after, counts) {
            figures.insert(Metric::ScorePoints, after.points);
        }
        let energy = card_record(&run.folder).and_then(|card| card.energy);
        if let Some(watts) = energy.and_then(|energy| energy.mean_watts()).filter(|_| counts) {
            figures.insert(Metric::MeanWatts, watts);
        }
        let tuned = match after {
            Some(_) if counts => read_answers(&run.folder, "tuned").unwrap_or_default(),
            _ => Vec::new(),
        };
        Some(Attempt {
            id: id.to_owned(),
            status,
            figures,
            steady_steps,
            disturbed: run.disturbance(),
            reason: run.reason(),
            secs: summary.map(|summary| summary.timings.total_secs),
            correct: correct(&tuned),
            recorded,
        })
    }

    /// What a slot measured by itself that trains nothing.
    fn level(&self, id: &str) -> Option<Attempt> {
        let record = LevelRecord::read(&self.folder.answers(id))?;
        Some(Attempt {
            status: SlotStatus::Ok,
            figures: record.figures(),
            disturbed: record.contention.disturbance(self.folder.plan.device != "cpu"),
            secs: Some(record.wall_secs),
            reason: None,
            ..Attempt::failed("", "")
        })
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
        runs.filter_map(|run| card_record(&self.runs_dir.join(run)))
            .map(|card| card.points)
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
            recorded: None,
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
