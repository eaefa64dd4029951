//! The training loop: rows in, optimizer steps, an adapter out.

use std::path::Path;
use std::time::Instant;

use tch::Device;
use tunesmith_data::{Row, Rows, epoch_order};
use tunesmith_protocol::{
    Base, Check, Checkpoint, Event, Job, Level, Outcome, Recompute, RowOrder, Step, StopHow, TrainJob,
    TrainStats,
};

use crate::adapter::Adapter;
use crate::base::{self, AdapterBase};
use crate::batch::Packed;
use crate::checkpoint::{self, State, Tensors};
use crate::checks;
use crate::error::JobError;
use crate::memory;
use crate::model::Decoder;
use crate::optimizer::{AdamW, clip, learning_rate};
use crate::out::{Stop, emit, log, progress};

/// Which rows come next: an endless walk over epochs.
struct RowWalk {
    rows: usize,
    order: RowOrder,
    seed: u64,
    epoch: u64,
    at: usize,
    current: Vec<usize>,
}

impl RowWalk {
    fn new(rows: usize, order: RowOrder, seed: u64) -> Self {
        let mut walk = Self {
            rows,
            order,
            seed,
            epoch: 0,
            at: 0,
            current: vec![],
        };
        walk.fill();
        walk
    }

    fn fill(&mut self) {
        self.current = match self.order {
            RowOrder::Shuffled => epoch_order(self.rows, self.seed, self.epoch),
            RowOrder::Sequential => (0..self.rows).collect(),
        };
    }

    /// Goes on behind `rows` rows, as if they had been taken.
    fn skip(&mut self, rows: u64) {
        for _ in 0..rows {
            self.next();
        }
    }

    fn next(&mut self) -> usize {
        if self.at == self.current.len() {
            self.at = 0;
            self.epoch += 1;
            self.fill();
        }
        self.at += 1;
        self.current[self.at - 1]
    }
}

pub(crate) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// What the passes of one optimizer step came to.
#[derive(Default)]
pub(crate) struct Passes {
    /// Mean loss over the supervised tokens of all passes.
    pub(crate) loss: f64,
    real_tokens: u64,
    padded_tokens: u64,
    supervised: u64,
    squared_lengths: u64,
}

/// What changes how a pass is computed and not what it computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) recompute: Recompute,
    /// Whether rows stand one after the other without padding.
    pub(crate) packing: bool,
}

/// Forward and backward pass of each micro-batch; their gradients add up to that of one big batch (T4), since every
/// loss is scaled by the supervised tokens of all of them.
pub(crate) fn accumulate(decoder: &Decoder, micro_batches: &[Vec<&Row>], how: How) -> Passes {
    let supervised: usize = micro_batches
        .iter()
        .flatten()
        .map(|row| row.supervised.iter().filter(|&&trained| trained).count())
        .sum();
    let scale = 1.0 / supervised.max(1) as f64;
    let mut passes = Passes::default();
    let mut loss_sum = 0.0;
    for rows in micro_batches {
        let lay_out = if how.packing { Packed::new } else { Packed::padded };
        let batch = lay_out(rows, &decoder.inverse_frequencies, decoder.kind);
        #[cfg(feature = "inject-faults")]
        let scale = crate::faults::scale(scale, &batch);
        loss_sum += decoder.train_pass(&batch, scale, how.recompute);
        passes.real_tokens += batch.real_tokens;
        passes.padded_tokens += batch.tokens;
        passes.supervised += batch.supervised;
        passes.squared_lengths += batch.squared_lengths;
    }
    passes.loss = loss_sum * scale;
    passes
}

/// Fine-tunes an adapter as `job`, the work of `whole`, says and saves it in the run's folder.
pub(crate) fn train(
    job: &TrainJob,
    whole: &Job,
    device: Device,
    stop: &Stop,
    arrived: Instant,
) -> Result<Outcome, JobError> {
    let _guard = tch::no_grad_guard();
    let rows = Rows::read(&job.rows)?.rows;
    if rows.is_empty() || job.steps == 0 || job.batch.micro_batch == 0 || job.batch.accumulation == 0 {
        return Err(JobError::Request(
            "a training needs rows, steps, a micro-batch and an accumulation of at least 1".into(),
        ));
    }
    let (model, mut decoder) = Decoder::open(&job.model, device, job.dtype, job.quantization)?;
    decoder.set_attention(job.attention);
    let how = How {
        recompute: job.recompute,
        packing: job.packing,
    };
    check_rows(&rows, &decoder)?;
    let mut adapter = match &job.start_from {
        Some(dir) => Adapter::load(dir, &decoder.config, device, decoder.kind, true)?,
        None => Adapter::fresh(&decoder.config, &job.lora, job.seed, device, decoder.kind)?,
    };
    decoder.attach(&adapter);
    let fingerprint = model.fingerprint()?;
    let mut optimizer = AdamW::new(&adapter.weights);
    let mut walk = RowWalk::new(rows.len(), job.order, job.seed);
    let mut state = State::new(0, 0, (0, 0), tch::get_num_threads(), &fingerprint, job.seed);
    if let Some(folder) = &whole.resume_from {
        let (saved, tensors) = checkpoint::load(folder, &state, adapter.weights.size()[0], device)?;
        adapter.weights.copy_(&tensors.weights);
        adapter.refresh();
        optimizer = AdamW::resumed(tensors.first, tensors.second, saved.step);
        walk.skip(saved.rows_taken);
        state = saved;
    }
    let load_secs = arrived.elapsed().as_secs_f64();
    let weight_bytes = decoder.weight_bytes();
    log(
        Level::Info,
        format!(
            "{} adapter parameters over {} rows; loading took {load_secs:.1} s, the frozen weights take {:.1} MiB",
            adapter.parameters(),
            rows.len(),
            weight_bytes as f64 / f64::from(1 << 20)
        ),
    );

    let file_name = || {
        job.model
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let put_on = Base {
        fingerprint: Some(fingerprint),
        dtype: job.dtype,
        quantization: job.quantization,
    };
    let other_base = job
        .start_from
        .as_deref()
        .and_then(|dir| base::other_base(dir, &put_on));
    let trained_on = AdapterBase {
        base: put_on,
        model: job
            .origin
            .as_ref()
            .map_or_else(file_name, |origin| origin.id.clone()),
        revision: job.origin.as_ref().map(|origin| origin.revision.clone()),
    };
    let first = state.step;
    let mut stats = TrainStats {
        steps: first,
        first_step_secs: 0.0,
        total_secs: 0.0,
        load_secs,
        trainable_parameters: adapter.parameters(),
        weight_bytes: Some(weight_bytes),
        peak_bytes: None,
        peak_process_bytes: None,
        adapter: None,
        other_base,
    };
    memory::reset_process_peak();
    let started = Instant::now();
    let mut failure = None;
    let mut stopped = None;
    for step in first..job.steps {
        stopped = stop.requested();
        if stopped.is_some() {
            break;
        }
        let mut step_started = Instant::now();
        memory::reset_peak(device);
        let micro_batches: Vec<Vec<&Row>> = (0..job.batch.accumulation)
            .map(|_| (0..job.batch.micro_batch).map(|_| &rows[walk.next()]).collect())
            .collect();
        if step == first {
            let checked =
                checks::before_first_step(&mut decoder, &mut adapter, &micro_batches, how, step == 0);
            checked.iter().for_each(emit);
            // Their time is not the step's, nor is their memory.
            memory::reset_peak(device);
            step_started = Instant::now();
        }
        let passes = accumulate(&decoder, &micro_batches, how);
        state.real_tokens += passes.real_tokens;
        state.padded_tokens += passes.padded_tokens;
        state.supervised_tokens += passes.supervised;
        state.rows_taken += micro_batches.iter().map(|rows| rows.len() as u64).sum::<u64>();
        let loss = passes.loss;
        #[cfg(feature = "inject-faults")]
        let loss = crate::faults::loss(step + 1, loss);
        #[cfg(feature = "inject-faults")]
        crate::faults::spoil(step + 1, &adapter, &decoder);
        if step == first {
            report_dead_adapters(&adapter);
        }
        let lr = learning_rate(&job.optimizer, step, job.steps);
        let Some(gradients) = &mut adapter.gradients else {
            break;
        };
        let grad_norm = clip(gradients, job.optimizer.max_grad_norm);
        let good = loss.is_finite() && grad_norm.is_finite();
        if good {
            optimizer.step(&mut adapter.weights, gradients, lr, &job.optimizer);
            let _ = gradients.zero_();
            adapter.refresh();
        }
        if let Device::Cuda(index) = device {
            tch::Cuda::synchronize(index as i64);
        }
        let peak_bytes = memory::peak_bytes(device);
        stats.peak_bytes = stats.peak_bytes.max(peak_bytes);
        let elapsed_secs = arrived.elapsed().as_secs_f64();
        #[cfg_attr(not(feature = "inject-faults"), allow(unused_mut))]
        let mut event = Step {
            step: step + 1,
            loss: finite(loss),
            grad_norm: finite(grad_norm),
            lr,
            dt_secs: step_started.elapsed().as_secs_f64(),
            elapsed_secs,
            real_tokens: state.real_tokens,
            padded_tokens: state.padded_tokens,
            supervised_tokens: state.supervised_tokens,
            squared_lengths: passes.squared_lengths,
            peak_bytes,
        };
        #[cfg(feature = "inject-faults")]
        crate::faults::report(&mut event);
        emit(&Event::Step(event));
        if !good {
            failure = Some(JobError::NotFinite {
                what: if loss.is_finite() { "gradient" } else { "loss" },
                step: step + 1,
            });
            break;
        }
        progress("train", step + 1 - first, job.steps - first, "steps", started);
        state.step = step + 1;
        state.smooth(loss);
        stats.steps = step + 1;
        if job
            .checkpoint_every
            .is_some_and(|every| every > 0 && state.step.is_multiple_of(every))
        {
            save_checkpoint(&whole.run_dir, &state, &adapter, &optimizer)?;
        }
        if step == first {
            stats.first_step_secs = elapsed_secs;
        }
        stats.total_secs = elapsed_secs;
    }
    stats.peak_process_bytes = memory::peak_process_bytes();
    if stats.steps > first {
        checks::checksums(&decoder, &adapter).iter().for_each(emit);
    }
    let unsaved = job
        .checkpoint_every
        .is_some_and(|every| every > 0 && !state.step.is_multiple_of(every));
    if stopped == Some(StopHow::Save) && unsaved {
        save_checkpoint(&whole.run_dir, &state, &adapter, &optimizer)?;
    }
    // After a step that is not finite the weights are those of the last good step: worth keeping.
    if stats.steps > 0 && stopped != Some(StopHow::AfterStep) {
        adapter.save(&whole.run_dir.join("adapter"), &trained_on)?;
        stats.adapter = Some("adapter".into());
    }
    let outcome = Outcome::Train(stats);
    if let Some(failure) = failure {
        emit(&Event::Result(outcome));
        return Err(failure);
    }
    if stopped.is_some() {
        emit(&Event::Result(outcome));
        return Err(JobError::Stopped);
    }
    Ok(outcome)
}

/// Writes a checkpoint and says so once it is whole.
fn save_checkpoint(
    run_dir: &Path,
    state: &State,
    adapter: &Adapter,
    optimizer: &AdamW,
) -> Result<(), JobError> {
    let (first, second) = optimizer.moments();
    let tensors = Tensors {
        weights: adapter.weights.shallow_clone(),
        first: first.shallow_clone(),
        second: second.shallow_clone(),
    };
    let path = checkpoint::save(run_dir, state.clone(), &tensors)?;
    emit(&Event::Checkpoint(Checkpoint {
        step: state.step,
        path,
    }));
    Ok(())
}

/// Rows must fit the model before the first step, not fail in the middle of it.
fn check_rows(rows: &[Row], decoder: &Decoder) -> Result<(), JobError> {
    let vocabulary = decoder.config.vocab_size;
    for (index, row) in rows.iter().enumerate() {
        if let Some(id) = row.input_ids.iter().find(|&&id| id as usize >= vocabulary) {
            return Err(JobError::Request(format!(
                "row {index} has token {id}, and the model's vocabulary ends at {}: the rows were made with another tokenizer",
                vocabulary - 1
            )));
        }
        if row.input_ids.len() > decoder.config.context_length {
            return Err(JobError::Request(format!(
                "row {index} is {} tokens long, and the model reads {}",
                row.input_ids.len(),
                decoder.config.context_length
            )));
        }
    }
    Ok(())
}

/// B matrices without a gradient at the first step never learn (T5). A is not looked at: it gets none while B is zero.
fn report_dead_adapters(adapter: &Adapter) {
    let norms = adapter.gradient_norms_of_b();
    let dead = norms.iter().filter(|&&norm| norm == 0.0).count();
    emit(&Event::Check(Check {
        name: "dead_adapters".into(),
        value: Some(dead as f64),
    }));
    let smallest = norms.iter().copied().fold(f64::INFINITY, f64::min);
    emit(&Event::Check(Check {
        name: "smallest_adapter_gradient".into(),
        value: finite(smallest),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_comes_once_an_epoch() {
        let mut walk = RowWalk::new(5, RowOrder::Shuffled, 42);
        let mut first: Vec<_> = (0..5).map(|_| walk.next()).collect();
        let mut second: Vec<_> = (0..5).map(|_| walk.next()).collect();
        assert_ne!(first, second, "each epoch has an order of its own");
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(
            (first.as_slice(), second.as_slice()),
            ([0, 1, 2, 3, 4].as_slice(), [0, 1, 2, 3, 4].as_slice())
        );
    }
}
