//! Memory: the formula, what earlier runs say of it, what may be used, and the verdict (X11).

use serde::Serialize;
use tunesmith_measure::{
    MEMORY_FORMULA, MemoryNeed, MemoryWork,
    fit::{Correction, FORMULA_MARGIN, Fit, LimitWish, MemoryLimit},
    staging_bytes, stats,
};
use tunesmith_setup::{free_bytes, human_bytes, knowledge::AttentionIs, plan::Plan};

use crate::{
    fit::PlannedCard,
    run::{MemoryRecord, RunLine},
};

use super::{
    Part, Subject, runs, total,
    work::{Place, work_at_most},
};

/// Main memory that the program which leads a run takes beside its engine, and what a card's libraries take of it. Own:
/// CUDA's and ROCm's libraries were seen to hold 1 to 2 GiB of a process.
const LEADER_BYTES: u64 = 150 << 20;
const CARD_LIBRARIES_BYTES: u64 = 2 << 30;
/// Share by which a figure of disk or staging may be wrong.
const SIZES_MARGIN: f64 = 0.05;

/// Memory of the device that a training needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryEstimate {
    /// By formula, part by part; empty where the model's dimensions are not known.
    pub parts: Vec<Part>,
    /// What earlier runs on this kind of device say of the formula.
    pub correction: Option<Correction>,
    /// Which of them.
    pub correction_of: Option<&'static str>,
    /// What torch's allocator should hold at most in a step, corrected, in bytes: what a run then measures.
    pub step_bytes: Option<u64>,
    /// All of it, corrected, in bytes.
    pub bytes: Option<u64>,
    /// What may be used, in bytes.
    pub limit: Option<u64>,
    /// Where the limit comes from.
    pub limit_how: String,
    /// The share of the card that torch will be allowed, where it is one (X11).
    pub hard_limit: Option<MemoryLimit>,
    /// Share by which the prediction may be wrong.
    pub margin: f64,
    /// Whether it fits.
    pub fit: Fit,
    /// Why, with the figures; a clause without a full stop.
    pub reason: String,
}

/// Something else that a training fills: main memory beside a card, or a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoomEstimate {
    /// Part by part.
    pub parts: Vec<Part>,
    /// The sum, in bytes; `None` where a part is not known.
    pub bytes: Option<u64>,
    /// What is free, in bytes.
    pub free: Option<u64>,
    /// Whether it fits.
    pub fit: Fit,
    /// Why, with the figures; a clause without a full stop.
    pub reason: String,
}

impl RoomEstimate {
    fn of(parts: Vec<Part>, free: Option<u64>, place: &str) -> Self {
        let bytes = total(&parts);
        let (fit, reason) = match (bytes, free) {
            (Some(bytes), Some(free)) => {
                let fit = Fit::of(bytes, SIZES_MARGIN, free);
                let reason = format!(
                    "{} {} into the {} that are free {place}",
                    human_bytes(bytes),
                    fit.words(),
                    human_bytes(free)
                );
                (fit, reason)
            }
            (None, _) => (Fit::Unknown, "not every part is known".to_owned()),
            (_, None) => (Fit::Unknown, format!("what is free {place} could not be read")),
        };
        Self {
            parts,
            bytes,
            free,
            fit,
            reason,
        }
    }
}

/// Whether the planned torch has no attention kernels for the card, so that scores are kept.
pub fn plain_attention(plan: &Plan) -> bool {
    plan.precision.attention == Some(AttentionIs::None)
}

/// A prediction, corrected by what earlier runs held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// By formula.
    pub need: MemoryNeed,
    /// What earlier runs say of it, and which ones.
    pub correction: Option<(Correction, &'static str)>,
    /// What torch's allocator should hold at most in a step, in bytes.
    pub step_bytes: u64,
    /// All of it, in bytes.
    pub bytes: u64,
    /// Share by which it may be wrong.
    pub margin: f64,
}

/// What an earlier run tells of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryPoint {
    /// Whether its model is the one that is asked about.
    pub same_model: bool,
    /// What it did.
    pub work: MemoryWork,
    /// What was predicted by formula.
    pub predicted: MemoryNeed,
    /// What torch's allocator held at most in a step, in bytes.
    pub measured_bytes: u64,
    /// What the engine's process held at most, in bytes, where the system tells.
    pub process_bytes: Option<u64>,
}

impl MemoryPoint {
    /// Of a run; `None` where it did not record both.
    pub fn of_run(line: &RunLine, same_model: bool) -> Option<Self> {
        Some(Self {
            same_model,
            work: line.memory?.work,
            predicted: line.predicted?,
            measured_bytes: line.figures?.peak_bytes?,
            process_bytes: line.process_bytes,
        })
    }

    /// Measured over predicted, both as torch's allocator counts. A prediction by another formula says nothing.
    fn ratio(&self) -> Option<f64> {
        let predicted = self.predicted.step_bytes();
        let comparable = self.predicted.formula == MEMORY_FORMULA && predicted > 0;
        comparable.then(|| self.measured_bytes as f64 / predicted as f64)
    }
}

/// Corrects a need by earlier runs of the same trainer on the same kind of device.
pub fn corrected(need: MemoryNeed, work: &MemoryWork, earlier: &[MemoryPoint]) -> Predicted {
    let earlier: Vec<&MemoryPoint> = earlier
        .iter()
        .filter(|point| point.work.trainer == work.trainer)
        .collect();
    let correction = correction(&earlier, work);
    let ratio = correction.map_or(1.0, |(correction, _)| correction.ratio);
    let step_bytes = (need.step_bytes() as f64 * ratio) as u64;
    let context_bytes = context(&need, &earlier, work);
    Predicted {
        need,
        correction,
        step_bytes,
        bytes: step_bytes + need.beside_bytes + context_bytes,
        margin: correction.map_or(FORMULA_MARGIN, |(correction, _)| correction.margin),
    }
}

/// Whether an earlier run is kin to the one that is asked about.
type Kin<'a> = &'a dyn Fn(&MemoryPoint) -> bool;

/// Runs of a kin from which on it counts before a wider one: a single one may be a strange one.
const ENOUGH_KIN: usize = 2;

/// What earlier runs say, from the nearest kin of which there are enough; where none are enough, from the nearest of
/// which there are any. What is kept differs by what is computed again and how weights are stored, so runs that differ
/// in that are distant.
fn correction(earlier: &[&MemoryPoint], work: &MemoryWork) -> Option<(Correction, &'static str)> {
    let same_settings = |point: &MemoryPoint| {
        let then = point.work;
        then.recompute == work.recompute
            && then.quantization == work.quantization
            && then.scores == work.scores
            && then.dtype == work.dtype
    };
    let same_model = |point: &MemoryPoint| point.same_model;
    let kin: [(&'static str, Kin<'_>); 4] = [
        ("runs of this model with these settings for memory", &|point| {
            same_model(point) && same_settings(point)
        }),
        ("runs of this model", &same_model),
        ("runs with these settings for memory", &same_settings),
        ("runs on this kind of device", &|_| true),
    ];
    let found: Vec<(Correction, &'static str)> = kin
        .iter()
        .filter_map(|(of, is_kin)| {
            let kin = earlier.iter().filter(|point| is_kin(point));
            let ratios: Vec<f64> = kin.filter_map(|point| point.ratio()).collect();
            Some((Correction::of(&ratios)?, *of))
        })
        .collect();
    let enough = found.iter().find(|(correction, _)| correction.runs >= ENOUGH_KIN);
    enough.or(found.first()).copied()
}

/// What a process holds beside its tensors. On a processor earlier ones tell by how much the formula is off: the
/// process's peak less what the allocator held in a step and in the checks, against what was predicted.
fn context(need: &MemoryNeed, earlier: &[&MemoryPoint], work: &MemoryWork) -> u64 {
    if !work.on_processor {
        return need.context_bytes;
    }
    let off: Vec<f64> = earlier
        .iter()
        .filter(|point| point.predicted.formula == MEMORY_FORMULA)
        .filter_map(|point| {
            let held = point.measured_bytes + point.predicted.beside_bytes;
            let beside = point.process_bytes?.checked_sub(held)?;
            Some(beside as f64 - point.predicted.context_bytes as f64)
        })
        .collect();
    let off = stats::median(&off).unwrap_or(0.0);
    (need.context_bytes as f64 + off).max(0.0) as u64
}

impl Subject<'_> {
    fn place(&self) -> Place {
        Place {
            on_processor: self.plan.card.is_none(),
            dtype: self.dtype,
            plain_attention: self.plan.card.is_some() && plain_attention(self.plan),
            engine: self.wish.engine,
        }
    }

    /// The work: that of an earlier run of the same data in the same micro-batches, else the most that it can be.
    pub(super) fn work(&self) -> MemoryWork {
        let (longest, _) = self.longest_row();
        let most = work_at_most(self.wish.recipe, self.place(), longest, self.rows);
        let alike = self
            .relatives
            .same_rows(self.wish.recipe)
            .filter(|_| self.wish.rows.is_none());
        match alike {
            Some(then) => MemoryWork {
                tokens: then.tokens,
                supervised: then.supervised,
                squared_lengths: then.squared_lengths,
                row_tokens: then.row_tokens,
                one_length: then.one_length,
                ..most
            },
            None => most,
        }
    }

    /// What the device must hold; `None` where the model's dimensions are not known.
    pub(super) fn predicted(&self) -> Option<Predicted> {
        let shape = self.model.shape?;
        let work = self.work();
        let need = MemoryNeed::of(&shape, &self.lora, &work);
        Some(corrected(need, &work, &self.relatives.held))
    }

    pub(super) fn memory(&self) -> MemoryEstimate {
        let hard_limit = self.hard_limit();
        let (limit, limit_how) = self.limit(hard_limit);
        let Some(predicted) = self.predicted() else {
            return MemoryEstimate {
                parts: Vec::new(),
                correction: None,
                correction_of: None,
                step_bytes: None,
                bytes: None,
                limit,
                limit_how,
                hard_limit,
                margin: FORMULA_MARGIN,
                fit: Fit::Unknown,
                reason: self.model.shape_how.to_owned(),
            };
        };
        let (fit, reason) = verdict(&predicted, limit);
        MemoryEstimate {
            parts: self.memory_parts(&predicted),
            correction: predicted.correction.map(|(correction, _)| correction),
            correction_of: predicted.correction.map(|(_, of)| of),
            step_bytes: Some(predicted.step_bytes),
            bytes: Some(predicted.bytes),
            limit,
            limit_how,
            hard_limit,
            margin: predicted.margin,
            fit,
            reason,
        }
    }

    fn memory_parts(&self, predicted: &Predicted) -> Vec<Part> {
        let need = &predicted.need;
        let shape = format!("by formula from {}", self.model.shape_how);
        let rows = format!(
            "by formula, {} {}",
            self.wish.recipe.train.micro_batch,
            self.longest_row().1
        );
        let part = |what, bytes, how: &str| Part {
            what,
            bytes: Some(bytes),
            how: how.to_owned(),
        };
        let mut parts = vec![
            part("frozen model", need.weights_bytes, &shape),
            part("adapter, gradient, optimizer", need.adapter_bytes, &shape),
            part("kept for the backward pass", need.kept_bytes, &rows),
            part("needed for a moment", need.moment_bytes, &rows),
        ];
        if need.beside_bytes > 0 {
            parts.push(part(
                "checks and answers",
                need.beside_bytes,
                "what the checks before the first step, or the answers, need beyond a step",
            ));
        }
        let context = predicted.bytes - predicted.step_bytes - need.beside_bytes;
        let how = if context == need.context_bytes {
            "a cautious constant"
        } else {
            "as earlier runs on this processor held it"
        };
        parts.push(part("driver and libraries", context, how));
        parts
    }

    /// The share of the card that torch is allowed, by what the driver says is free.
    fn hard_limit(&self) -> Option<MemoryLimit> {
        let card = self.plan.card.as_ref()?;
        let gpu = self.known.system.gpus.get(card.index)?;
        let wish: LimitWish = self.wish.recipe.train.memory_limit;
        let system = self.known.system;
        let planned = PlannedCard::of(gpu, card.integrated, system.platform)?;
        let memory = planned.memory_as_read(gpu, &system.machine, self.known.available_memory_bytes);
        MemoryLimit::of(&memory, wish)
    }

    /// What may be used, in bytes, and where that comes from.
    fn limit(&self, hard_limit: Option<MemoryLimit>) -> (Option<u64>, String) {
        let budget = self.plan.recipe.budget_bytes;
        let how = self.plan.recipe.budget_how.clone();
        if self.plan.card.is_none() {
            return match (self.known.available_memory_bytes, budget) {
                (Some(free), budget) if budget.is_none_or(|budget| free < budget) => {
                    (Some(free), "main memory that is free at the moment".to_owned())
                }
                _ => (budget, how),
            };
        }
        match hard_limit {
            Some(hard) if budget.is_none_or(|budget| hard.bytes < budget) => {
                (Some(hard.bytes), crate::fit::limit_words(&hard))
            }
            _ => (budget, how),
        }
    }

    /// Main memory beside a card: what brings the weights there. On a processor all of it is in the device's memory.
    pub(super) fn host(&self) -> RoomEstimate {
        let free = self.known.available_memory_bytes;
        let part = |what, bytes, how: &str| Part {
            what,
            bytes,
            how: how.to_owned(),
        };
        let leader = part(
            "the program that leads the run",
            Some(LEADER_BYTES),
            "a cautious constant",
        );
        let parts = if self.plan.card.is_none() {
            let bytes = self.predicted().map(|predicted| predicted.bytes);
            vec![
                part("the training itself", bytes, "its memory is main memory here"),
                leader,
            ]
        } else {
            let shape = self.model.shape;
            vec![
                part(
                    "weights on their way to the card",
                    shape.map(|shape| staging_bytes(&shape, self.dtype)),
                    &format!("the largest tensor, from {}", self.model.shape_how),
                ),
                part(
                    "the card's libraries",
                    Some(CARD_LIBRARIES_BYTES),
                    "a cautious constant",
                ),
                leader,
            ]
        };
        RoomEstimate::of(parts, free, "in main memory")
    }

    /// What is written, against what is free where it is written.
    pub(super) fn storage(&self, parts: &[Part]) -> RoomEstimate {
        // Rows that were not counted yet are a few bytes a token.
        let known = parts
            .iter()
            .filter(|part| part.what != "rows" || part.bytes.is_some());
        let free = if self.known.system.live {
            free_bytes(self.known.folders.data())
        } else {
            None
        };
        RoomEstimate::of(known.cloned().collect(), free, "on the disk of the runs")
    }
}

/// What was said of a run's memory, for its record.
pub(crate) fn record(predicted: &Predicted, work: MemoryWork, limit: Option<MemoryLimit>) -> MemoryRecord {
    MemoryRecord {
        work,
        correction: predicted.correction.map(|(correction, _)| correction),
        step_bytes: predicted.step_bytes,
        bytes: predicted.bytes,
        margin: predicted.margin,
        limit,
    }
}

/// The verdict, and a clause with its figures.
pub(super) fn verdict(predicted: &Predicted, limit: Option<u64>) -> (Fit, String) {
    let Some(limit) = limit else {
        return (Fit::Unknown, "the device's memory could not be read".to_owned());
    };
    let fit = Fit::of(predicted.bytes, predicted.margin, limit);
    let how = match predicted.correction {
        Some((correction, of)) if correction.is_settled() => {
            format!("the spread of {} earlier {of}", correction.runs)
        }
        Some((correction, _)) => format!("the formula's error, corrected by {}", runs(correction.runs)),
        None => "the formula's error".to_owned(),
    };
    let reason = format!(
        "{} give or take {:.0} % ({how}) {} into {}",
        human_bytes(predicted.bytes),
        100.0 * predicted.margin,
        fit.words(),
        human_bytes(limit)
    );
    (fit, reason)
}

/// The memory that a recipe needs by formula, with rows of at most `row_tokens` tokens, for records made by tests.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn need_at_most(
    recipe: &crate::recipe::Recipe,
    shape: &tunesmith_measure::ModelShape,
    place: Place,
    row_tokens: u64,
) -> Option<(MemoryNeed, MemoryWork)> {
    let lora =
        tunesmith_measure::LoraShape::new(recipe.lora.rank as u64, &recipe.lora.target_modules).ok()?;
    let work = work_at_most(recipe, place, row_tokens, None);
    Some((MemoryNeed::of(shape, &lora, &work), work))
}
