//! Keeps a calibration within its time: a box for each stage and one for all of it, a look at whether somebody wants it
//! to stop, and how far it is, once a second.

use std::time::{Duration, Instant};

use tunesmith_protocol::{Event, Progress, StageBudget, StageTime};

use crate::error::JobError;
use crate::out::{Stop, emit};

/// Between two lines of progress: writing one takes a moment from what is measured.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The clock of a calibration.
pub(super) struct Pace<'a> {
    stop: &'a Stop,
    plan: Vec<StageBudget>,
    /// Stages begun.
    begun: usize,
    stage_began: Instant,
    /// When the stage at hand shall be over.
    box_end: Instant,
    /// When all of it shall be over.
    end: Instant,
    told: Instant,
    cut: bool,
    times: Vec<StageTime>,
}

impl<'a> Pace<'a> {
    /// For these stages, all within `budget_secs`.
    pub(super) fn new(plan: Vec<StageBudget>, budget_secs: f64, stop: &'a Stop) -> Self {
        let now = Instant::now();
        Self {
            stop,
            plan,
            begun: 0,
            stage_began: now,
            box_end: now,
            end: now + Duration::from_secs_f64(budget_secs.clamp(1.0, 3600.0)),
            told: now,
            cut: false,
            times: Vec::new(),
        }
    }

    /// Begins the next stage of the plan.
    ///
    /// # Errors
    /// [`JobError::Stopped`].
    pub(super) fn begin(&mut self) -> Result<(), JobError> {
        let secs = self.plan.get(self.begun).map_or(0.0, |budget| budget.secs);
        self.stage_began = Instant::now();
        let secs = Duration::from_secs_f64(secs.clamp(0.0, 3600.0));
        self.box_end = (self.stage_began + secs).min(self.end);
        self.cut = false;
        self.begun += 1;
        self.tell();
        self.check()
    }

    /// Ends the stage at hand.
    pub(super) fn finish(&mut self) {
        if let Some(budget) = self.begun.checked_sub(1).and_then(|at| self.plan.get(at)) {
            self.times.push(StageTime {
                stage: budget.stage,
                secs: self.stage_began.elapsed().as_secs_f64(),
                cut: self.cut,
            });
        }
    }

    /// To be called between any two operations: tells how far it is, and whether to go on.
    ///
    /// # Errors
    /// [`JobError::Stopped`].
    pub(super) fn check(&mut self) -> Result<(), JobError> {
        if self.stop.requested().is_some() {
            return Err(JobError::Stopped);
        }
        if self.told.elapsed() >= TELL_EVERY {
            self.tell();
        }
        Ok(())
    }

    /// Whether the time box of the stage at hand is over.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.box_end
    }

    /// Whether the time box is over; what the stage still had to do is left out then, and that is recorded.
    pub(super) fn cuts(&mut self) -> bool {
        let over = self.is_over();
        self.cut |= over;
        over
    }

    /// Something of the stage was left out, or repeated less often than planned.
    pub(super) fn cut_short(&mut self) {
        self.cut = true;
    }

    /// The time box of the stage at hand, in seconds, as planned.
    pub(super) fn planned_secs(&self) -> f64 {
        let at = self.begun.checked_sub(1);
        at.and_then(|at| self.plan.get(at))
            .map_or(0.0, |budget| budget.secs)
    }

    /// The stage's time counts from now: what comes before was preparation.
    pub(super) fn begin_box(&mut self) {
        let secs = Duration::from_secs_f64(self.planned_secs().clamp(0.0, 3600.0));
        self.box_end = (Instant::now() + secs).min(self.end);
    }

    /// Seconds left in the time box of the stage at hand.
    pub(super) fn left_secs(&self) -> f64 {
        self.box_end
            .saturating_duration_since(Instant::now())
            .as_secs_f64()
    }

    /// A share of the time that is left, for one of so many measurements that are still to come.
    pub(super) fn share_end(&self, of: usize) -> Instant {
        Instant::now() + Duration::from_secs_f64(self.left_secs() / of.max(1) as f64)
    }

    /// What the stages took.
    pub(super) fn into_times(self) -> Vec<StageTime> {
        self.times
    }

    /// Whole seconds of the plan: a stage that ends early counts as its whole box.
    fn tell(&mut self) {
        self.told = Instant::now();
        let Some(at) = self.begun.checked_sub(1) else {
            return;
        };
        let Some(budget) = self.plan.get(at) else { return };
        let before = StageBudget::total_secs(&self.plan[..at]);
        let total = StageBudget::total_secs(&self.plan);
        let done = before + self.stage_began.elapsed().as_secs_f64().min(budget.secs);
        emit(&Event::Progress(Progress {
            stage: budget.stage.name().to_owned(),
            done: done as u64,
            total: total.ceil() as u64,
            unit: "seconds".to_owned(),
            eta_secs: Some(total - done),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_protocol::CalibrationStage;

    fn budget(stage: CalibrationStage, secs: f64) -> StageBudget {
        StageBudget { stage, secs }
    }

    #[test]
    fn each_stage_has_a_box_and_all_have_one() {
        let stop = Stop::default();
        let plan = vec![
            budget(CalibrationStage::Gemm, 1000.0),
            budget(CalibrationStage::Copy, 0.0),
        ];
        let mut pace = Pace::new(plan, 5.0, &stop);
        pace.begin().unwrap();
        assert!(!pace.cuts());
        assert!(pace.left_secs() <= 5.0, "the box of all ends that of one");
        pace.finish();
        pace.begin().unwrap();
        assert!(pace.cuts());
        pace.finish();
        let times: Vec<_> = pace
            .into_times()
            .iter()
            .map(|time| (time.stage, time.cut))
            .collect();
        assert_eq!(
            times,
            [(CalibrationStage::Gemm, false), (CalibrationStage::Copy, true)]
        );
    }
}
