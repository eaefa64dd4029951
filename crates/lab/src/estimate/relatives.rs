//! Earlier runs that tell something of the one that is asked about.

use std::sync::Arc;

use tunesmith_data::RowsReport;
use tunesmith_measure::MemoryWork;
use tunesmith_probe::System;
use tunesmith_protocol::{DType, Hello, RunStatus};
use tunesmith_setup::{Folders, plan::Plan};

use crate::{
    fit::{ModelName, Trial, trials},
    recipe::Recipe,
    run::{LineState, Run, RunLine, RunState, lines},
};

use super::{Known, MemoryPoint, Wish, backend, engine_name, model::AskedModel};

/// Earlier runs that are opened: the newest ones tell most.
const MOST_OPENED: usize = 20;

/// Earlier runs that tell something of this one.
pub(super) struct Relatives<'a> {
    /// By the same engine on the same kind of device, whatever the model.
    pub(super) on_kind: Vec<&'a RunLine>,
    /// Those of the same model on this very device, opened, newest first.
    pub(super) of_model: Vec<Run>,
    /// Tries by the same engine on the same kind of device.
    pub(super) trials: Vec<&'a Trial>,
    /// What runs and tries by the same engine on the same kind of device held.
    pub(super) held: Vec<MemoryPoint>,
}

impl<'a> Relatives<'a> {
    pub(super) fn of(
        wish: &Wish<'_>,
        known: &Known<'a>,
        plan: &Plan,
        device: &str,
        model: &AskedModel<'_>,
    ) -> Self {
        let on_kind: Vec<&RunLine> = known
            .earlier
            .iter()
            .map(Arc::as_ref)
            .filter(|line| trained(line))
            .filter(|line| line.engine.as_deref() == Some(engine_name(wish.engine)))
            .filter(|line| line.backend.as_deref() == Some(backend(plan)))
            .collect();
        let of_model = on_kind
            .iter()
            .rev()
            .filter(|line| model.is_of(line))
            .take(MOST_OPENED)
            .filter_map(|line| Run::open(&line.folder).ok())
            .filter(|run| on_this_device(run, known.system, plan, device))
            .collect();
        let trials: Vec<&Trial> = known
            .trials
            .iter()
            .filter(|trial| trial.is_by(engine_name(wish.engine), backend(plan)))
            .collect();
        let tried = trials
            .iter()
            .filter_map(|trial| trial.memory_point(model.is(&trial.model)));
        let of_runs = on_kind
            .iter()
            .filter_map(|line| MemoryPoint::of_run(line, model.is_of(line)));
        let held = of_runs.chain(tried).collect();
        Self {
            on_kind,
            of_model,
            trials,
            held,
        }
    }

    /// Those with the same settings, as far as these decide how long a step takes.
    pub(super) fn with_settings(&self, recipe: &Recipe, dtype: DType) -> Vec<&Run> {
        self.of_model
            .iter()
            .filter(|run| {
                let (then, now) = (&run.recipe, recipe);
                let device = run
                    .manifest
                    .as_ref()
                    .map_or("cpu", |manifest| manifest.device.as_str());
                then.lora.rank == now.lora.rank
                    && then.lora.target_modules == now.lora.target_modules
                    && then.train.micro_batch == now.train.micro_batch
                    && then.train.accumulation == now.train.accumulation
                    && then.train.recompute == now.train.recompute
                    && then.train.packing == now.train.packing
                    && then.train.attention == now.train.attention
                    && then.model.quantization == now.model.quantization
                    && then.dtype(device) == dtype
                    && same_data(then, now)
            })
            .collect()
    }

    /// The largest micro-batch of the newest run whose rows and micro-batches are those of this recipe.
    pub(super) fn same_rows(&self, recipe: &Recipe) -> Option<MemoryWork> {
        let run = self.of_model.iter().find(|run| {
            let (then, now) = (&run.recipe.train, &recipe.train);
            same_data(&run.recipe, recipe)
                && then.micro_batch == now.micro_batch
                && then.packing == now.packing
        })?;
        Some(run.manifest.as_ref()?.memory?.work)
    }

    /// What was counted of the rows: of these very ones, else of the same data with the same model earlier.
    pub(super) fn rows(&self, wish: &Wish<'_>) -> Option<RowsReport> {
        wish.rows.cloned().or_else(|| {
            let run = self
                .of_model
                .iter()
                .find(|run| same_data(&run.recipe, wish.recipe))?;
            Some(run.manifest.as_ref()?.data.report.clone())
        })
    }
}

/// What runs and tries here by an engine on a kind of device held, for a model that is known.
pub(crate) fn held_here(folders: &Folders, engine: &Hello, model: &ModelName) -> Vec<MemoryPoint> {
    // What cannot be read corrects nothing, and keeps no run from beginning.
    let earlier = lines(&folders.runs(), &[]).unwrap_or_default();
    let of_runs = earlier
        .iter()
        .filter(|line| trained(line))
        .filter(|line| {
            line.engine.as_deref() == Some(&engine.engine) && line.backend.as_deref() == Some(&engine.backend)
        })
        .filter_map(|line| {
            let same = model.is(line.model_source.as_deref(), line.model_path.as_deref());
            MemoryPoint::of_run(line, same)
        });
    let trials = trials(folders);
    let of_trials = trials
        .iter()
        .filter(|trial| trial.is_by(&engine.engine, &engine.backend))
        .filter_map(|trial| {
            let same = model.is(trial.model.source.as_deref(), Some(&trial.model.path));
            trial.memory_point(same)
        });
    of_runs.chain(of_trials).collect()
}

fn same_data(one: &Recipe, other: &Recipe) -> bool {
    let (one, other) = (&one.data, &other.data);
    one.source == other.source
        && one.path == other.path
        && one.max_length == other.max_length
        && one.columns == other.columns
}

/// Whether the run's figures are those of a training that went as it should.
fn trained(line: &RunLine) -> bool {
    let went_on = [RunStatus::Ok, RunStatus::TimeBoxed, RunStatus::Cancelled];
    let ended = went_on.map(|status| LineState::Run(RunState::Ended(status)));
    ended.contains(&line.state) && line.figures.is_some_and(|figures| figures.valid_steps > 1)
}

/// Whether a run was on the card or the processor that the plan chose. What is not known does not differ.
fn on_this_device(run: &Run, system: &System, plan: &Plan, device: &str) -> bool {
    let Some(manifest) = &run.manifest else {
        return false;
    };
    let machine = &manifest.machine;
    match &plan.card {
        None => {
            let (then, now) = (&machine.machine.cpu_model, &system.machine.cpu_model);
            manifest.device == device && (then.is_none() || now.is_none() || then == now)
        }
        Some(card) => {
            let gpu = system.gpus.get(card.index);
            let now = gpu.and_then(|gpu| gpu.device_id.as_ref());
            machine.gpus.is_empty()
                || now.is_none()
                || machine.gpus.iter().any(|then| then.device_id.as_ref() == now)
        }
    }
}
