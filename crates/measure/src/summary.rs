//! From the steps of a run to its figures: which steps count, what the steady speed is, and what stands behind it.

use serde::{Deserialize, Serialize};
use tunesmith_protocol::Step;

use crate::{
    FlopCount, Gib, LoraShape, Mfu, MfuReport, ModelShape, Peaks, Recomputed, StepWork, Tflops, stats,
    step_flops,
};

/// What the steps alone do not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryContext {
    /// The model.
    pub shape: ModelShape,
    /// The adapter.
    pub lora: LoraShape,
    /// What the backward pass computed again.
    pub recomputed: Recomputed,
    /// Peaks of the device for the format that was computed in.
    pub peaks: Peaks,
    /// Warm-up steps to leave out of the steady window; [`default_discard`] where absent.
    #[serde(default)]
    pub discard: Option<usize>,
}

/// Warm-up steps that are left out of the steady window: 5, or a quarter of a run shorter than 20 steps (M6).
pub fn default_discard(steps: usize) -> usize {
    (steps / 4).min(5)
}

/// Why a step does not count (M14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepFault {
    /// The loss is absent or not finite.
    LossMissing,
    /// The gradient norm is absent or not finite.
    GradNormMissing,
    /// The gradient norm is zero or below: nothing was learned.
    GradNormZero,
    /// The cumulative token counter fell.
    CounterWentBack,
    /// No token was processed.
    NoTokens,
    /// More supervised than real tokens, or more real than padded ones.
    CountsImpossible,
    /// The step took no time.
    NoTime,
}

impl StepFault {
    /// What was seen, for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::LossMissing => "the loss is missing or not a finite number",
            Self::GradNormMissing => "the gradient norm is missing or not a finite number",
            Self::GradNormZero => "the gradient norm is zero, so nothing was learned",
            Self::CounterWentBack => "the cumulative token counter went back",
            Self::NoTokens => "no token was processed",
            Self::CountsImpossible => "the token counts contradict each other",
            Self::NoTime => "the step took no time",
        }
    }
}

/// One step, for charts and tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepPoint {
    /// From 1.
    pub step: u64,
    /// Nats per supervised token; absent when not finite.
    pub loss: Option<f64>,
    /// L2 norm of the gradient before clipping; absent when not finite.
    pub grad_norm: Option<f64>,
    /// Learning rate.
    pub lr: f64,
    /// Wall time of the step.
    pub dt_secs: f64,
    /// Real tokens of this step over its wall time; absent where the step does not count.
    pub tokens_per_sec: Option<f64>,
    /// LoRA-exact operations against the measured peak; absent without a peak or where the step does not count.
    pub mfu_exact_practical: Option<Mfu>,
    /// Most memory held during the step, where the engine can tell.
    pub peak_gib: Option<Gib>,
    /// Whether the step counts (M14).
    pub valid: bool,
    /// Why it does not.
    pub reason: Option<StepFault>,
    /// Whether it lies in the steady window, valid or not.
    pub steady: bool,
}

/// Spread of several values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample; absent for a single value.
    pub sd: Option<f64>,
    /// Middle value.
    pub median: f64,
    /// Least and most.
    pub range: Range,
}

impl Spread {
    /// Of finite values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            n: values.len(),
            mean: stats::mean(values).ok()?,
            sd: stats::sd(values).ok(),
            median: stats::median(values).ok()?,
            range: Range::of(values)?,
        })
    }
}

/// Least and most of several values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Least.
    pub min: f64,
    /// Most.
    pub max: f64,
}

impl Range {
    /// Of finite values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        Some(Self { min, max })
    }
}

/// How the loss went, over valid steps, in nats per supervised token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossSummary {
    /// Of the first valid step.
    pub first: f64,
    /// Of the last valid step.
    pub last: f64,
    /// Least.
    pub min: f64,
    /// Mean over the last tenth of the valid steps, at least one.
    pub mean_last_tenth: f64,
}

/// The figures of a training. Statistics leave out invalid steps; what cannot be computed is absent, never zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingSummary {
    /// Steps recorded.
    pub total_steps: usize,
    /// Steps that count (M14).
    pub valid_steps: usize,
    /// Warm-up steps before the steady window (M6).
    pub discarded_steps: usize,
    /// Valid steps in the steady window.
    pub steady_steps: usize,
    /// Wall time of those, in seconds.
    pub steady_secs: f64,
    /// Final cumulative count of real tokens (M15).
    pub real_tokens: u64,
    /// Final cumulative count with padding.
    pub padded_tokens: u64,
    /// Final cumulative count of tokens whose prediction was trained.
    pub supervised_tokens: u64,
    /// Supervised over real tokens.
    pub supervised_share: Option<f64>,
    /// Seconds from the job's arrival, loading included, to the end of the last step.
    pub wall_secs: f64,
    /// Seconds from the job's arrival, loading included, to the end of the first step (M7).
    pub time_to_first_step_secs: Option<f64>,
    /// Real tokens of the whole run over its wall time, loading included (M15).
    pub whole_run_tokens_per_sec: Option<f64>,
    /// The same with padding counted (M12).
    pub whole_run_padded_tokens_per_sec: Option<f64>,
    /// Real tokens of the steady window over the wall time of its valid steps (M6).
    pub steady_tokens_per_sec: Option<f64>,
    /// The same with padding counted (M12).
    pub steady_padded_tokens_per_sec: Option<f64>,
    /// Wall time of a step, in seconds, over the steady window.
    pub step_secs: Option<Spread>,
    /// The loss.
    pub loss: Option<LossSummary>,
    /// Gradient norms over valid steps.
    pub grad_norm: Option<Range>,
    /// Most memory that the device's allocator held, over all steps, valid or not: it had to be there.
    pub peak_bytes: Option<u64>,
    /// Operations of the steady window.
    pub steady_flops: FlopCount,
    /// Those over its wall time, against both peaks (M2).
    pub mfu: Option<MfuReport>,
    /// What the cross-checks of the counters found, one sentence each; empty when all agree.
    pub findings: Vec<String>,
    /// Each step.
    pub points: Vec<StepPoint>,
}

impl TrainingSummary {
    /// Share of steps that count.
    pub fn validity(&self) -> Option<f64> {
        (self.total_steps > 0).then(|| self.valid_steps as f64 / self.total_steps as f64)
    }
}

/// What one step added to the cumulative counters.
#[derive(Clone, Copy, Default)]
struct Added {
    real: u64,
    padded: u64,
    supervised: u64,
    went_back: bool,
}

impl Added {
    fn between(before: Option<&Step>, step: &Step) -> Self {
        let old = |counter: fn(&Step) -> u64| before.map_or(0, counter);
        let (real, padded, supervised) = (
            old(|step| step.real_tokens),
            old(|step| step.padded_tokens),
            old(|step| step.supervised_tokens),
        );
        Self {
            real: step.real_tokens.saturating_sub(real),
            padded: step.padded_tokens.saturating_sub(padded),
            supervised: step.supervised_tokens.saturating_sub(supervised),
            went_back: step.real_tokens < real
                || step.padded_tokens < padded
                || step.supervised_tokens < supervised,
        }
    }
}

fn fault_of(step: &Step, added: Added) -> Option<StepFault> {
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    if added.went_back {
        return Some(StepFault::CounterWentBack);
    }
    if added.real == 0 {
        return Some(StepFault::NoTokens);
    }
    if added.supervised > added.real || added.real > added.padded {
        return Some(StepFault::CountsImpossible);
    }
    if !(step.dt_secs.is_finite() && step.dt_secs > 0.0) {
        return Some(StepFault::NoTime);
    }
    if finite(step.loss).is_none() {
        return Some(StepFault::LossMissing);
    }
    match finite(step.grad_norm) {
        None => Some(StepFault::GradNormMissing),
        Some(norm) if norm <= 0.0 => Some(StepFault::GradNormZero),
        Some(_) => None,
    }
}

/// Counts the steps of a training one after the other, for who shows it while it goes on. [`summarise`] counts with the
/// same, so a figure on the way and the one in the record are of one formula.
#[derive(Clone, Debug)]
pub struct StepCounter {
    /// Without it there is nothing to count operations from, and no MFU.
    context: Option<SummaryContext>,
    discard: usize,
    seen: usize,
    before: Option<Step>,
    window: Window,
}

impl StepCounter {
    /// Nothing is counted yet. `steps` is the number of steps that are expected in all; the warm-up that is left out
    /// follows from it where the context does not say. Without a context speeds are counted and operations are not.
    pub fn new(context: Option<SummaryContext>, steps: usize) -> Self {
        let discard = context
            .as_ref()
            .and_then(|context| context.discard)
            .unwrap_or_else(|| default_discard(steps))
            .min(steps);
        Self {
            context,
            discard,
            seen: 0,
            before: None,
            window: Window::default(),
        }
    }

    /// Counts the next step.
    pub fn count(&mut self, step: &Step) -> StepPoint {
        let added = Added::between(self.before.as_ref(), step);
        let reason = fault_of(step, added);
        let counts = reason.is_none();
        let steady = self.seen >= self.discard;
        let flops = self.context.as_ref().map(|context| {
            let work = work_of(step, added, context.recomputed);
            step_flops(&context.shape, &context.lora, &work)
        });
        if counts && steady {
            self.window.add(step, added, flops.unwrap_or_default());
        }
        let speed = flops.and_then(|flops| Tflops::from_operations(flops.model(), step.dt_secs));
        let peak = self.context.as_ref().and_then(|context| context.peaks.practical);
        self.pass_over(step);
        StepPoint {
            step: step.step,
            loss: step.loss.filter(|loss| loss.is_finite()),
            grad_norm: step.grad_norm.filter(|norm| norm.is_finite()),
            lr: step.lr,
            dt_secs: step.dt_secs,
            tokens_per_sec: counts.then(|| added.real as f64 / step.dt_secs),
            mfu_exact_practical: speed
                .zip(peak)
                .filter(|_| counts)
                .and_then(|(reached, peak)| Mfu::from_speed(reached, peak)),
            peak_gib: step.peak_bytes.map(Gib::from_bytes),
            valid: counts,
            reason,
            steady,
        }
    }

    /// Takes note of a step that cannot be counted, because those before it are not known: its counters are where
    /// those of the next one begin.
    pub fn pass_over(&mut self, step: &Step) {
        self.seen += 1;
        self.before = Some(step.clone());
    }

    /// The step that was counted or passed over last.
    pub fn last(&self) -> Option<&Step> {
        self.before.as_ref()
    }

    /// Real tokens of the steady window over the wall time of its valid steps, so far (M6).
    pub fn steady_tokens_per_sec(&self) -> Option<f64> {
        rate(self.window.real, self.window.secs())
    }

    /// The same with padding counted (M12).
    fn steady_padded_tokens_per_sec(&self) -> Option<f64> {
        rate(self.window.padded, self.window.secs())
    }

    /// Operations of the steady window so far over its wall time, against both peaks (M2).
    pub fn mfu(&self) -> Option<MfuReport> {
        let context = self.context.as_ref()?;
        MfuReport::new(&self.window.flops, self.window.secs(), context.peaks)
    }
}

fn rate(tokens: u64, secs: f64) -> Option<f64> {
    (tokens > 0 && secs > 0.0).then(|| tokens as f64 / secs)
}

/// The figures of a training from its steps, in order, one per step (of a resumed run, without the steps that the
/// resume threw away). Never fails: an empty or broken run has a summary that says so.
pub fn summarise(steps: &[Step], context: &SummaryContext) -> TrainingSummary {
    let mut counter = StepCounter::new(Some(context.clone()), steps.len());
    let points: Vec<StepPoint> = steps.iter().map(|step| counter.count(step)).collect();
    let window = &counter.window;
    let mfu = counter.mfu();
    let mut findings = cross_checks(steps, &points);
    findings.extend(mfu.as_ref().and_then(faster_than_the_peak));
    let wall_secs = wall_secs(steps);
    let last = steps.last();
    let real_tokens = last.map_or(0, |step| step.real_tokens);
    let padded_tokens = last.map_or(0, |step| step.padded_tokens);
    let supervised_tokens = last.map_or(0, |step| step.supervised_tokens);
    let valid: Vec<&StepPoint> = points.iter().filter(|point| point.valid).collect();
    let losses: Vec<f64> = valid.iter().filter_map(|point| point.loss).collect();
    let norms: Vec<f64> = valid.iter().filter_map(|point| point.grad_norm).collect();
    TrainingSummary {
        total_steps: steps.len(),
        valid_steps: valid.len(),
        discarded_steps: counter.discard,
        steady_steps: window.step_secs.len(),
        steady_secs: window.secs(),
        real_tokens,
        padded_tokens,
        supervised_tokens,
        supervised_share: (real_tokens > 0).then(|| supervised_tokens as f64 / real_tokens as f64),
        wall_secs,
        time_to_first_step_secs: steps
            .first()
            .map(|step| step.elapsed_secs)
            .filter(|secs| secs.is_finite()),
        whole_run_tokens_per_sec: rate(real_tokens, wall_secs),
        whole_run_padded_tokens_per_sec: rate(padded_tokens, wall_secs),
        steady_tokens_per_sec: counter.steady_tokens_per_sec(),
        steady_padded_tokens_per_sec: counter.steady_padded_tokens_per_sec(),
        step_secs: Spread::of(&window.step_secs),
        loss: loss_summary(&losses),
        grad_norm: Range::of(&norms),
        peak_bytes: steps.iter().filter_map(|step| step.peak_bytes).max(),
        steady_flops: window.flops,
        mfu,
        findings,
        points,
    }
}

/// Sums over the valid steps of the steady window.
#[derive(Clone, Debug, Default)]
struct Window {
    real: u64,
    padded: u64,
    step_secs: Vec<f64>,
    flops: FlopCount,
}

impl Window {
    fn add(&mut self, step: &Step, added: Added, flops: FlopCount) {
        self.real += added.real;
        self.padded += added.padded;
        self.step_secs.push(step.dt_secs);
        self.flops = self.flops + flops;
    }

    fn secs(&self) -> f64 {
        self.step_secs.iter().sum()
    }
}

fn work_of(step: &Step, added: Added, recomputed: Recomputed) -> StepWork {
    StepWork {
        padded_tokens: added.padded,
        supervised_rows: added.supervised,
        squared_lengths: step.squared_lengths,
        recomputed,
    }
}

/// Wall time of the run. A resumed run's clock starts again in a new process, so each fall of it begins a further
/// stretch, and the stretches add up.
fn wall_secs(steps: &[Step]) -> f64 {
    let clock: Vec<f64> = steps
        .iter()
        .map(|step| step.elapsed_secs)
        .filter(|secs| secs.is_finite())
        .collect();
    let before_each_resume: f64 = clock
        .windows(2)
        .filter(|pair| pair[1] < pair[0])
        .map(|pair| pair[0])
        .sum();
    before_each_resume + clock.last().copied().unwrap_or(0.0)
}

fn loss_summary(losses: &[f64]) -> Option<LossSummary> {
    let tail = &losses[losses.len() - losses.len().div_ceil(10)..];
    Some(LossSummary {
        first: *losses.first()?,
        last: *losses.last()?,
        min: Range::of(losses)?.min,
        mean_last_tenth: stats::mean(tail).ok()?,
    })
}

/// Cross-checks of what an engine says about itself (M15).
fn cross_checks(steps: &[Step], points: &[StepPoint]) -> Vec<String> {
    let mut findings = Vec::new();
    let gone_back = points
        .iter()
        .filter(|point| point.reason == Some(StepFault::CounterWentBack))
        .count();
    if gone_back > 0 {
        findings.push(format!(
            "the cumulative token counter went back {gone_back} times, so totals and the whole-run speed may be wrong"
        ));
    }
    let gaps = steps
        .windows(2)
        .filter(|pair| pair[1].step != pair[0].step + 1)
        .count();
    if gaps > 0 {
        findings.push(format!(
            "the step numbers do not follow each other in {gaps} places, so steps may be missing"
        ));
    }
    // Between two ends of steps lies at most the step itself and what the engine does between steps.
    let overlong = steps
        .windows(2)
        .filter(|pair| pair[1].elapsed_secs > pair[0].elapsed_secs)
        .filter(|pair| pair[1].dt_secs > (pair[1].elapsed_secs - pair[0].elapsed_secs) * 1.01 + 0.001)
        .count();
    if overlong > 0 {
        findings.push(format!(
            "{overlong} steps claim more time than passed between their ends"
        ));
    }
    let (in_steps, passed) = steps
        .windows(2)
        .filter(|pair| pair[1].elapsed_secs > pair[0].elapsed_secs)
        .map(|pair| (pair[1].dt_secs, pair[1].elapsed_secs - pair[0].elapsed_secs))
        .fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    if passed > 0.0 && in_steps < 0.95 * passed {
        findings.push(format!(
            "{:.0} % of the time after the first step passed between steps, which the steady speed does not count",
            100.0 * (1.0 - in_steps / passed)
        ));
    }
    findings
}

/// Work above the peak cannot be: a count, the clock or the peak is wrong.
fn faster_than_the_peak(mfu: &MfuReport) -> Option<String> {
    let beyond = |share: Option<Mfu>| share.is_some_and(|share| share.0 > 1.0);
    let peak = match (beyond(mfu.hardware.practical), beyond(mfu.hardware.theoretical)) {
        (_, true) => "spec-sheet",
        (true, false) => "measured",
        (false, false) => return None,
    };
    Some(format!(
        "the steps claim more work than the {peak} peak allows, so a count, the clock or the peak is wrong"
    ))
}

#[cfg(test)]
mod tests;
