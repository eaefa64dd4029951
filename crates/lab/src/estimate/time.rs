//! Time: from runs with the same settings, from the speed of the same model, or from the calibration.

use serde::Serialize;
use tunesmith_measure::{Recomputed, StepWork, Tflops, practical_peak, stats, step_flops};
use tunesmith_protocol::Quantization;

use crate::run::{Run, RunLine};

use super::{Subject, runs};

/// What a time is drawn from, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeBasis {
    /// Earlier runs with the same settings on this device.
    SameSettings,
    /// Earlier runs with the same model on this device, by their speed.
    SameModel,
    /// The calibration's peak, and the share of it that earlier runs reached.
    Calibration,
    /// Nothing.
    Unknown,
}

/// Time that a training takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeEstimate {
    /// The training with its loading, in seconds.
    pub train_secs: Option<f64>,
    /// The evaluations before and after, in seconds; `None` where no earlier run tells, 0 where there are none.
    pub evaluate_secs: Option<f64>,
    /// Real tokens a second of its steps, where a speed is known: what a run of it is expected to measure.
    pub tokens_per_sec: Option<f64>,
    /// Whether the training may take less: rows are taken to be as long as they may be.
    pub at_most: bool,
    /// Whether the time box would end it first.
    pub time_boxed: bool,
    /// What it is drawn from.
    pub basis: TimeBasis,
    /// Where it comes from, or why there is none.
    pub how: String,
}

impl Subject<'_> {
    pub(super) fn time(&self) -> TimeEstimate {
        let recipe = self.wish.recipe;
        let alike = self.relatives.with_settings(recipe, self.dtype);
        let (train_secs, at_most, basis, how) = self
            .by_settings(&alike)
            .or_else(|| self.by_model())
            .or_else(|| self.by_calibration())
            .unwrap_or_else(|| (None, false, TimeBasis::Unknown, self.why_no_time()));
        let tokens_per_sec = match basis {
            TimeBasis::SameSettings => speed_of(&alike),
            TimeBasis::SameModel | TimeBasis::Calibration => {
                train_secs.map(|secs| recipe.train.steps as f64 * self.step_rows().0 / secs)
            }
            TimeBasis::Unknown => None,
        };
        TimeEstimate {
            train_secs,
            tokens_per_sec,
            evaluate_secs: self.evaluate_secs(),
            at_most,
            time_boxed: train_secs.is_some_and(|secs| secs > recipe.train.time_box_minutes * 60.0),
            basis,
            how,
        }
    }

    fn by_settings(&self, alike: &[&Run]) -> Option<(Option<f64>, bool, TimeBasis, String)> {
        let secs: Vec<f64> = alike.iter().filter_map(|run| self.secs_like(run)).collect();
        let typical = stats::median(&secs).ok()?;
        let how = format!("{} earlier with these settings on this device", runs(secs.len()));
        Some((Some(typical), false, TimeBasis::SameSettings, how))
    }

    /// The time of this many steps at the pace of a run.
    fn secs_like(&self, run: &Run) -> Option<f64> {
        let training = run.summary.as_ref()?.training.as_ref()?;
        let later_steps = self.wish.recipe.train.steps.saturating_sub(1) as f64;
        Some(training.time_to_first_step_secs? + later_steps * training.step_secs?.mean)
    }

    fn by_model(&self) -> Option<(Option<f64>, bool, TimeBasis, String)> {
        let speeds: Vec<f64> = self
            .relatives
            .of_model
            .iter()
            // A base in 4 bits is unpacked in each pass, which no operation of the model counts.
            .filter(|run| run.recipe.model.quantization == self.wish.recipe.model.quantization)
            .filter(|run| {
                let device = run
                    .manifest
                    .as_ref()
                    .map_or("cpu", |manifest| manifest.device.as_str());
                run.recipe.dtype(device) == self.dtype
            })
            .filter_map(|run| Some(run.summary.as_ref()?.training.as_ref()?.mfu?.lora_exact.tflops.0))
            .collect();
        let speed = Tflops(stats::median(&speeds).ok()?);
        let (secs, at_most) = self.secs_at(speed)?;
        let how = format!(
            "{} earlier with this model on this device computed {:.2} TFLOPS; {}",
            runs(speeds.len()),
            speed.0,
            self.rows_how()
        );
        Some((Some(secs), at_most, TimeBasis::SameModel, how))
    }

    fn by_calibration(&self) -> Option<(Option<f64>, bool, TimeBasis, String)> {
        let calibration = self.known.calibration?;
        let peak = practical_peak(&calibration.result, self.dtype)?;
        let (shares, of_this_base) = self.shares();
        let share = stats::median(&shares).ok()?;
        let beside = if of_this_base {
            ""
        } else {
            "; none of them had its base stored as this one, which may be slower"
        };
        let (secs, at_most) = self.secs_at(Tflops(peak.tflops.0 * share))?;
        let how = format!(
            "{} earlier on this kind of device reached {:.0} % of the measured peak, which is {:.2} TFLOPS here; {}{beside}",
            runs(shares.len()),
            100.0 * share,
            peak.tflops.0,
            self.rows_how()
        );
        Some((Some(secs), at_most, TimeBasis::Calibration, how))
    }

    /// Shares of the measured peak that earlier trainings reached, and whether their base was stored as this one.
    /// Where none was, those of all.
    fn shares(&self) -> (Vec<f64>, bool) {
        let wanted = self.wish.recipe.model.quantization;
        let of = |same: bool| -> Vec<f64> {
            let lines = self.relatives.on_kind.iter();
            let stored = |line: &RunLine| {
                line.memory
                    .map_or(Quantization::None, |memory| memory.work.quantization)
            };
            lines
                .filter(|line| !same || stored(line) == wanted)
                .filter_map(|line| Some(line.figures?.mfu_exact_practical?.0))
                .filter(|share| share.is_finite() && *share > 0.0)
                .collect()
        };
        match of(true) {
            shares if shares.is_empty() => (of(false), false),
            shares => (shares, true),
        }
    }

    fn why_no_time(&self) -> String {
        if self.model.shape.is_none() {
            return self.model.shape_how.to_owned();
        }
        let calibrated = self
            .known
            .calibration
            .is_some_and(|calibration| practical_peak(&calibration.result, self.dtype).is_some());
        if calibrated {
            "unknown until the first training here: it shows what share of the measured peak a training reaches"
                .to_owned()
        } else {
            "unknown until this device is calibrated".to_owned()
        }
    }

    fn rows_how(&self) -> String {
        match self.rows {
            Some(rows) => format!("rows of {:.0} tokens on average, as counted", rows.mean_length),
            None => format!(
                "rows are taken to be {} tokens long",
                self.wish.recipe.data.max_length
            ),
        }
    }

    /// Tokens of an optimizer step, and of a row.
    fn step_rows(&self) -> (f64, f64) {
        let recipe = self.wish.recipe;
        let row = match self.rows {
            Some(rows) => rows.mean_length,
            None => recipe.data.max_length as f64,
        };
        let rows = (recipe.train.micro_batch * recipe.train.accumulation) as f64;
        (rows * row, row)
    }

    /// The time of all steps at a speed, without loading, and whether it is an upper bound.
    fn secs_at(&self, speed: Tflops) -> Option<(f64, bool)> {
        let shape = self.model.shape?;
        let train = &self.wish.recipe.train;
        let (tokens, row) = self.step_rows();
        let (share, at_most) = match self.rows {
            Some(rows) => (rows.supervised_share, false),
            None => (1.0, true),
        };
        let work = StepWork {
            padded_tokens: tokens as u64,
            supervised_rows: (tokens * share) as u64,
            squared_lengths: (tokens * row) as u64,
            recomputed: Recomputed::by_engine(train.recompute),
        };
        let operations = step_flops(&shape, &self.lora, &work).model();
        let secs = train.steps as f64 * operations / (speed.0 * 1e12);
        (secs.is_finite() && secs > 0.0).then_some((secs, at_most))
    }

    /// Of earlier runs that asked as many questions of this model on this device.
    fn evaluate_secs(&self) -> Option<f64> {
        let recipe = self.wish.recipe;
        if recipe.data.path.is_some() || recipe.evaluate.questions == 0 {
            return Some(0.0);
        }
        let secs: Vec<f64> = self
            .relatives
            .of_model
            .iter()
            .filter(|run| run.recipe.evaluate == recipe.evaluate)
            .filter_map(|run| {
                let evaluation = &run.summary.as_ref()?.evaluation;
                Some(evaluation.before.as_ref()?.wall_secs + evaluation.after.as_ref()?.wall_secs)
            })
            .collect();
        stats::median(&secs).ok()
    }
}

/// Median of what runs measured.
fn speed_of(runs: &[&Run]) -> Option<f64> {
    let speeds: Vec<f64> = runs
        .iter()
        .filter_map(|run| run.summary.as_ref()?.training.as_ref()?.steady_tokens_per_sec)
        .collect();
    stats::median(&speeds).ok()
}
