//! A training's curves, grown step by step between frames: drawing reads them and counts nothing.

use tunesmith_measure::{Gib, MfuReport, StepCounter, SummaryContext};
use tunesmith_protocol::Step;

use crate::{chart::Series, state::Task};

/// Share of the past in the smoothed loss: it looks back over about ten steps.
const LOSS_SMOOTHING: f64 = 0.9;

/// The curves over steps, and the figures so far.
#[derive(Debug)]
pub struct Figures {
    /// Nats per supervised token, raw and smoothed.
    pub loss: Series,
    /// L2 norm of the gradient before clipping.
    pub grad_norm: Series,
    /// Learning rate.
    pub lr: Series,
    /// Real tokens a second of each step.
    pub tokens_per_sec: Series,
    /// LoRA-exact operations against the measured peak, in percent.
    pub mfu_percent: Series,
    /// Most memory held in each step, in GiB.
    pub memory_gib: Series,
    /// Steps that the service left out because the window was slow.
    pub missed: u64,
    /// Real tokens a second since the warm-up, else of the last step.
    pub speed: Option<f64>,
    /// Real tokens a second since the warm-up.
    pub steady_speed: Option<f64>,
    /// The three counts since the warm-up, against both peaks.
    pub mfu: Option<MfuReport>,
    /// Most memory held so far, in GiB.
    pub peak_gib: Option<f64>,
    counter: StepCounter,
    /// Steps of the task that are in the curves.
    taken: usize,
    /// [`Task::steps_epoch`] that they are of.
    epoch: u64,
    context: Option<SummaryContext>,
}

impl Default for Figures {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Figures {
    /// Empty curves. Without a context work is not counted.
    pub fn new(context: Option<SummaryContext>) -> Self {
        Self {
            loss: Series::new().smoothed_by(LOSS_SMOOTHING),
            grad_norm: Series::new(),
            lr: Series::new(),
            tokens_per_sec: Series::new(),
            mfu_percent: Series::new(),
            memory_gib: Series::new(),
            missed: 0,
            speed: None,
            steady_speed: None,
            mfu: None,
            peak_gib: None,
            counter: StepCounter::new(None, 0),
            taken: 0,
            epoch: 0,
            context,
        }
    }

    /// Takes in the steps that are new. `recorded` are the run's steps before this task, of a run that goes on.
    pub fn follow(&mut self, task: &Task, recorded: &[Step]) {
        if task.steps_epoch != self.epoch {
            *self = Self {
                epoch: task.steps_epoch,
                ..Self::new(self.context.take())
            };
        }
        let Some(first) = task.steps.first() else { return };
        if self.taken == task.steps.len() {
            return;
        }
        if self.taken == 0 {
            // Only now is it known how many steps there will be, and with them how many are warm-up.
            let steps = usize::try_from(task.steps_total).unwrap_or(usize::MAX);
            self.counter = StepCounter::new(self.context.clone(), steps);
            for step in recorded.iter().filter(|step| step.step < first.step) {
                self.take(step);
            }
        }
        for step in task.steps.iter().skip(self.taken) {
            self.take(step);
        }
        self.taken = task.steps.len();
        self.mfu = self.counter.mfu();
        self.steady_speed = self.counter.steady_tokens_per_sec();
        let of_last_step = self.tokens_per_sec.last_finite();
        let of_last_step = of_last_step.and_then(|index| self.tokens_per_sec.get(index));
        self.speed = self.steady_speed.or(of_last_step.map(|(_, speed)| speed));
    }

    /// Whether there is nothing to draw yet.
    pub fn is_empty(&self) -> bool {
        self.loss.is_empty()
    }

    fn take(&mut self, step: &Step) {
        let before = self.counter.last().map_or(0, |last| last.step);
        let follows = step.step == before + 1;
        let at = step.step as f64;
        let value = |value: Option<f64>| value.unwrap_or(f64::NAN);
        if follows {
            let point = self.counter.count(step);
            push(&mut self.loss, at, value(point.loss), point.valid);
            push(&mut self.grad_norm, at, value(point.grad_norm), point.valid);
            if let Some(speed) = point.tokens_per_sec {
                push(&mut self.tokens_per_sec, at, speed, true);
            }
            if let Some(mfu) = point.mfu_exact_practical {
                push(&mut self.mfu_percent, at, mfu.percent(), true);
            }
        } else {
            // What lies between two steps that do not follow each other cannot be told from what the later one did.
            self.missed += step.step.saturating_sub(before + 1);
            self.counter.pass_over(step);
            push(&mut self.loss, at, value(step.loss), true);
            push(&mut self.grad_norm, at, value(step.grad_norm), true);
        }
        push(&mut self.lr, at, step.lr, true);
        if let Some(bytes) = step.peak_bytes {
            let Gib(gib) = Gib::from_bytes(bytes);
            push(&mut self.memory_gib, at, gib, true);
            self.peak_gib = Some(self.peak_gib.map_or(gib, |peak| peak.max(gib)));
        }
    }
}

/// Steps come in order, which the task sees to; one that did not would be left out rather than put at a wrong place.
fn push(series: &mut Series, at: f64, value: f64, valid: bool) {
    let _out_of_order = if valid {
        series.push(at, value)
    } else {
        series.push_invalid(at, value)
    };
}
