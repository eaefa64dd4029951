//! What a training will need, before anything is fetched or started: memory with a verdict, time, downloads, disk.
//! Every figure says where it comes from, and what is not known stays unknown.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use tunesmith_data::RowsReport;
use tunesmith_measure::{
    LoraShape, MeasureError, MemoryNeed, MemoryWork, ModelShape, Recomputed, StepWork, Tflops,
    practical_peak, stats, step_flops,
};
use tunesmith_models::{
    Model,
    hub::{Hub, HubId},
};
use tunesmith_probe::System;
use tunesmith_protocol::{DType, RunStatus};
use tunesmith_setup::{
    Folders, environments,
    environments::{Engine, InstallSpec},
    human_bytes,
    knowledge::{AttentionIs, Knowledge, RecipeRow, Vendor},
    model,
    plan::{DeviceChoice, Plan, PlanError, PlanRequest, plan},
    runtime,
};

use crate::{
    pipeline::shape_of,
    recipe::{DEFAULT_MODEL, Recipe},
    run::{CalibrationRecord, LineState, Run, RunLine, RunState},
};

/// Share by which the formula may be wrong: it met the published runs within a tenth (numbers 4.2).
const FORMULA_MARGIN: f64 = 0.10;
/// Share by which a corrected prediction may be wrong at least: repeats of one run differ by less.
const LEAST_MARGIN: f64 = 0.05;
/// Runs from which on their own spread tells how far a prediction may be wrong.
const ENOUGH_RUNS: usize = 3;
/// Earlier runs that are opened: the newest ones tell most.
const MOST_OPENED: usize = 20;
/// Checkpoints that a run keeps at most: the newest two and the best.
const CHECKPOINTS: u64 = 3;
/// Bytes a trained parameter in a checkpoint: weight and two moments in f32.
const CHECKPOINT_BYTES: u64 = 12;
/// Bytes a trained parameter in an adapter's file: f32.
const ADAPTER_BYTES: u64 = 4;
/// Bytes a token in the file of rows: its number, and whether it is trained.
const ROW_TOKEN_BYTES: u64 = 5;

/// What shall be trained.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// The recipe.
    pub recipe: &'a Recipe,
    /// Device that the user chose, against the recipe's: `auto`, `cpu`, `cuda:N`, or a card's PCI address or name.
    pub device: Option<&'a str>,
    /// Which engine trains.
    pub engine: Engine,
    /// What was counted of the rows, where they were made already.
    pub rows: Option<&'a RowsReport>,
}

/// What is known of the machine and of earlier runs.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The machine.
    pub system: &'a System,
    /// The knowledge files.
    pub knowledge: &'a Knowledge,
    /// Where things lie.
    pub folders: &'a Folders,
    /// The model hub's cache; it is not asked over the network.
    pub hub: Option<&'a Hub>,
    /// The stored calibration of the device.
    pub calibration: Option<&'a CalibrationRecord>,
    /// Earlier runs, oldest first.
    pub earlier: &'a [Arc<RunLine>],
    /// Main memory that is free at the moment, in bytes.
    pub available_memory_bytes: Option<u64>,
}

/// Why nothing can be estimated.
#[derive(Debug, thiserror::Error)]
pub enum EstimateError {
    /// The device is not there, or cannot train.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The recipe asks for what cannot be counted.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

impl EstimateError {
    /// Stable name of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Plan(error) => error.code(),
            Self::Measure(error) => error.code(),
        }
    }

    /// What to do.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Plan(error) => error.hints(),
            Self::Measure(error) => error.hints(),
        }
    }
}

/// A figure in bytes, with where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What takes it, for people.
    pub what: &'static str,
    /// How much; `None` where that is not known.
    pub bytes: Option<u64>,
    /// Where the figure comes from, or why there is none.
    pub how: String,
}

/// The sum of parts; `None` where one is not known.
pub fn total(parts: &[Part]) -> Option<u64> {
    parts.iter().map(|part| part.bytes).sum()
}

/// What a training will need.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// `cpu`, or `cuda:0`: the one card that the plan leaves visible.
    pub device: String,
    /// The card's name, or `processor`.
    pub device_name: String,
    /// Number format of weights and activations.
    pub dtype: DType,
    /// Memory of the device.
    pub memory: MemoryEstimate,
    /// Time.
    pub time: TimeEstimate,
    /// What must be fetched, 0 where it is here.
    pub download: Vec<Part>,
    /// What it will take on disk beyond what is there.
    pub disk: Vec<Part>,
}

/// Whether it fits into memory (X11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Even if the prediction is as wrong as it may be.
    Fits,
    /// Only if the prediction is right.
    Uncertain,
    /// Not even if the prediction is as wrong as it may be.
    DoesNotFit,
    /// The need or the limit is not known.
    Unknown,
}

/// What earlier runs say of the formula.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Correction {
    /// Median of measured over predicted.
    pub ratio: f64,
    /// Runs that it is taken from.
    pub runs: usize,
}

/// Memory of the device that a training needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryEstimate {
    /// By formula, part by part; empty where the model's dimensions are not known.
    pub parts: Vec<Part>,
    /// What earlier runs on this kind of device say of the formula.
    pub correction: Option<Correction>,
    /// All of it, corrected, in bytes.
    pub bytes: Option<u64>,
    /// What may be used, in bytes.
    pub limit: Option<u64>,
    /// Where the limit comes from.
    pub limit_how: String,
    /// Share by which the prediction may be wrong.
    pub margin: f64,
    /// Whether it fits.
    pub fit: Fit,
    /// Why, with the figures; a clause without a full stop.
    pub reason: String,
}

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
    /// Whether the training may take less: rows are taken to be as long as they may be.
    pub at_most: bool,
    /// Whether the time box would end it first.
    pub time_boxed: bool,
    /// What it is drawn from.
    pub basis: TimeBasis,
    /// Where it comes from, or why there is none.
    pub how: String,
}

/// Estimates a training. Opens the model's headers where the model is here, and a few earlier runs; asks no network.
///
/// # Errors
/// [`EstimateError`] where the device is not there, or a module of the recipe carries no adapter.
pub fn estimate(wish: &Wish<'_>, known: &Known<'_>) -> Result<Estimate, EstimateError> {
    let request = PlanRequest {
        device: choice(wish.device.unwrap_or(&wish.recipe.train.device), known.system),
        ..PlanRequest::new(wish.engine)
    };
    // A captured machine has another disk.
    let request = if known.system.live {
        request.with_torches_here(known.folders)
    } else {
        request
    };
    let plan = plan(known.system, known.knowledge, &request)?;
    let device = if plan.card.is_some() { "cuda:0" } else { "cpu" };
    let recipe = wish.recipe;
    let lora = LoraShape::new(recipe.lora.rank as u64, &recipe.lora.target_modules)?;
    let asked = AskedModel::of(recipe, known);
    let relatives = Relatives::of(wish, known, &plan, device, &asked);
    let rows = relatives.rows(wish);
    let subject = Subject {
        wish,
        known,
        plan: &plan,
        dtype: recipe.dtype(device),
        lora,
        model: &asked,
        relatives: &relatives,
        rows: rows.as_ref(),
    };
    Ok(Estimate {
        device: device.to_owned(),
        device_name: plan
            .card
            .as_ref()
            .map_or_else(|| "processor".to_owned(), |card| card.name.clone()),
        dtype: subject.dtype,
        memory: subject.memory(),
        time: subject.time(),
        download: subject.download(),
        disk: subject.disk(),
    })
}

/// The memory that a recipe needs by formula, with rows of at most `row_tokens` tokens.
///
/// # Errors
/// [`MeasureError`] for a module that carries no adapter.
pub fn memory_need(
    recipe: &Recipe,
    shape: &ModelShape,
    dtype: DType,
    row_tokens: u64,
    plain_attention: bool,
) -> Result<MemoryNeed, MeasureError> {
    let lora = LoraShape::new(recipe.lora.rank as u64, &recipe.lora.target_modules)?;
    let work = MemoryWork {
        micro_batch: recipe.train.micro_batch as u64,
        row_tokens,
        recompute: recipe.train.recompute,
        dtype,
        plain_attention,
    };
    Ok(MemoryNeed::of(shape, &lora, &work))
}

/// Whether the planned torch has no attention kernels for the card, so that scores are kept.
pub fn plain_attention(plan: &Plan) -> bool {
    plan.precision.attention == Some(AttentionIs::None)
}

/// A device in the plan's words.
fn choice(device: &str, system: &System) -> DeviceChoice {
    match (device, device.strip_prefix("cuda:")) {
        ("auto", _) => DeviceChoice::Auto,
        ("cpu", _) => DeviceChoice::Cpu,
        (_, Some(number)) => {
            // Torch counts the cards that train; the plan counts all of them.
            let trains = system.train_on.as_deref().unwrap_or_default();
            let index = number.parse().ok().and_then(|number: usize| trains.get(number));
            DeviceChoice::Card(index.map_or_else(|| device.to_owned(), usize::to_string))
        }
        (card, None) => DeviceChoice::Card(card.to_owned()),
    }
}

/// What torch calls the kind of device, as runs record it.
fn backend(plan: &Plan) -> &'static str {
    match (&plan.card, plan.vendor) {
        (None, _) | (_, Vendor::Cpu) => "cpu",
        (_, Vendor::Amd) => "hip",
        (_, Vendor::Nvidia) => "cuda",
    }
}

/// The name by which an engine calls itself.
fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Native => "tunesmith-engine",
        Engine::Hf => "hf",
        Engine::Unsloth => "unsloth",
    }
}

/// The model of a recipe, as far as it is known without fetching it.
struct AskedModel<'a> {
    /// Of a hub, with or without a commit.
    id: Option<HubId>,
    /// Whether it is the one that set-up brings.
    is_default: bool,
    /// Where it lies, where it is here.
    path: Option<PathBuf>,
    /// Its row in the catalogue.
    row: Option<&'a RecipeRow>,
    shape: Option<ModelShape>,
    shape_how: &'static str,
}

impl<'a> AskedModel<'a> {
    fn of(recipe: &Recipe, known: &Known<'a>) -> Self {
        let source = recipe.model.source.as_deref();
        let is_default = recipe.model.path.is_none() && source.is_none_or(|source| source == DEFAULT_MODEL);
        let id: Option<HubId> = source
            .filter(|_| !is_default)
            .and_then(|source| source.parse().ok());
        let path = match (&recipe.model.path, &id) {
            (Some(path), _) => Some(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            (None, Some(id)) => known.hub.and_then(|hub| hub.find(id).ok()).map(|(_, path)| path),
            (None, None) if is_default => model::installed(known.folders),
            // The recipe's checks say what is wrong with such a source.
            (None, None) => None,
        };
        let row = known.knowledge.recipes.iter().find(|row| {
            (is_default && row.model_source == DEFAULT_MODEL)
                || id.as_ref().is_some_and(|id| {
                    let listed: Option<HubId> = row.model_source.parse().ok();
                    listed.is_some_and(|listed| listed.name() == id.name())
                })
        });
        let own = path
            .as_deref()
            .and_then(|path| Model::open(path).ok())
            .map(|model| shape_of(model.config()));
        let (shape, shape_how) = match (own, row) {
            (Some(shape), _) => (Some(shape), "the model's own configuration"),
            (None, Some(row)) => (Some(row.shape), "the catalogue of recipes"),
            (None, None) => (None, "the model is not here and not in the catalogue of recipes"),
        };
        Self {
            id,
            is_default,
            path,
            row,
            shape,
            shape_how,
        }
    }

    /// Whether a run had this model.
    fn is_of(&self, line: &RunLine) -> bool {
        let listed = |source: &String| source.parse::<HubId>().ok();
        match (&self.id, &self.path) {
            (Some(id), _) => line
                .model_source
                .as_ref()
                .and_then(listed)
                .is_some_and(|other| other.name() == id.name()),
            (None, Some(path)) if line.model_path.as_deref() == Some(path) => true,
            // Set-up's model carries its version in its folder: the file's name is enough.
            _ => {
                self.is_default && line.model_source.is_none() && is_default_file(line.model_path.as_deref())
            }
        }
    }
}

fn is_default_file(path: Option<&Path>) -> bool {
    let name = path.and_then(Path::file_name);
    name.is_some_and(|name| name.to_string_lossy() == model::file_name())
}

/// Earlier runs that tell something of this one.
struct Relatives<'a> {
    /// By the same engine on the same kind of device, whatever the model.
    on_kind: Vec<&'a RunLine>,
    /// Those of the same model on this very device, opened, newest first.
    of_model: Vec<Run>,
}

impl<'a> Relatives<'a> {
    fn of(wish: &Wish<'_>, known: &Known<'a>, plan: &Plan, device: &str, model: &AskedModel<'_>) -> Self {
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
        Self { on_kind, of_model }
    }

    /// Those with the same settings, as far as these decide how long a step takes.
    fn with_settings(&self, recipe: &Recipe, dtype: DType) -> Vec<&Run> {
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
                    && then.dtype(device) == dtype
                    && same_data(then, now)
            })
            .collect()
    }

    /// What was counted of the rows: of these very ones, else of the same data with the same model earlier.
    fn rows(&self, wish: &Wish<'_>) -> Option<RowsReport> {
        wish.rows.cloned().or_else(|| {
            let run = self
                .of_model
                .iter()
                .find(|run| same_data(&run.recipe, wish.recipe))?;
            Some(run.manifest.as_ref()?.data.report.clone())
        })
    }
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

/// All that an estimate is drawn from.
struct Subject<'a> {
    wish: &'a Wish<'a>,
    known: &'a Known<'a>,
    plan: &'a Plan,
    dtype: DType,
    lora: LoraShape,
    model: &'a AskedModel<'a>,
    relatives: &'a Relatives<'a>,
    rows: Option<&'a RowsReport>,
}

impl Subject<'_> {
    /// Longest row, and where that comes from.
    fn longest_row(&self) -> (u64, String) {
        let most = self.wish.recipe.data.max_length as u64;
        match self.rows {
            Some(rows) => {
                let longest = (rows.longest as u64).min(most);
                (longest, format!("rows of at most {longest} tokens, as counted"))
            }
            None => (
                most,
                format!("rows of at most {most} tokens, as the recipe allows"),
            ),
        }
    }

    fn memory(&self) -> MemoryEstimate {
        let (limit, limit_how) = self.limit();
        let need = self.model.shape.and_then(|shape| {
            memory_need(
                self.wish.recipe,
                &shape,
                self.dtype,
                self.longest_row().0,
                plain_attention(self.plan),
            )
            .ok()
        });
        let Some(need) = need else {
            return MemoryEstimate {
                parts: Vec::new(),
                correction: None,
                bytes: None,
                limit,
                limit_how,
                margin: FORMULA_MARGIN,
                fit: Fit::Unknown,
                reason: self.model.shape_how.to_owned(),
            };
        };
        let ratios = self.ratios();
        let correction = stats::median(&ratios).ok().map(|ratio| Correction {
            ratio,
            runs: ratios.len(),
        });
        let allocated = need.total_bytes() - need.context_bytes;
        let ratio = correction.map_or(1.0, |correction| correction.ratio);
        let bytes = (allocated as f64 * ratio) as u64 + need.context_bytes;
        let margin = margin(&ratios, ratio);
        let (fit, reason) = verdict(bytes, margin, ratios.len(), limit);
        MemoryEstimate {
            parts: self.memory_parts(&need),
            correction,
            bytes: Some(bytes),
            limit,
            limit_how,
            margin,
            fit,
            reason,
        }
    }

    fn memory_parts(&self, need: &MemoryNeed) -> Vec<Part> {
        let shape = format!("by formula from {}", self.model.shape_how);
        let rows = format!(
            "by formula, {} of {}",
            self.wish.recipe.train.micro_batch,
            self.longest_row().1
        );
        let part = |what, bytes, how: &str| Part {
            what,
            bytes: Some(bytes),
            how: how.to_owned(),
        };
        vec![
            part("frozen model", need.weights_bytes, &shape),
            part("adapter, gradient, optimizer", need.adapter_bytes, &shape),
            part("kept for the backward pass", need.kept_bytes, &rows),
            part("needed for a moment", need.moment_bytes, &rows),
            part("driver and libraries", need.context_bytes, "a cautious constant"),
        ]
    }

    /// Measured over predicted, of earlier runs: of the same model where there are some, else of any.
    fn ratios(&self) -> Vec<f64> {
        let all = || self.relatives.on_kind.iter().copied();
        let own = ratios_of(all().filter(|line| self.model.is_of(line)));
        if own.is_empty() { ratios_of(all()) } else { own }
    }

    /// What may be used, in bytes, and where that comes from.
    fn limit(&self) -> (Option<u64>, String) {
        let budget = self.plan.recipe.budget_bytes;
        let how = self.plan.recipe.budget_how.clone();
        let Some(card) = &self.plan.card else {
            return match (self.known.available_memory_bytes, budget) {
                (Some(free), budget) if budget.is_none_or(|budget| free < budget) => {
                    (Some(free), "main memory that is free at the moment".to_owned())
                }
                _ => (budget, how),
            };
        };
        let gpu = self.known.system.gpus.get(card.index);
        let in_use = gpu.and_then(|gpu| {
            if card.integrated {
                gpu.gtt_bytes.zip(gpu.gtt_used_bytes)
            } else {
                gpu.vram_bytes.zip(gpu.vram_used_bytes)
            }
        });
        match (budget, in_use) {
            (Some(budget), Some((total, used))) if total.saturating_sub(used) < budget => (
                Some(total.saturating_sub(used)),
                format!(
                    "what is free on the card: {} of {} is in use",
                    human_bytes(used),
                    human_bytes(total)
                ),
            ),
            _ => (budget, how),
        }
    }

    fn time(&self) -> TimeEstimate {
        let recipe = self.wish.recipe;
        let alike = self.relatives.with_settings(recipe, self.dtype);
        let (train_secs, at_most, basis, how) = self
            .by_settings(&alike)
            .or_else(|| self.by_model())
            .or_else(|| self.by_calibration())
            .unwrap_or_else(|| (None, false, TimeBasis::Unknown, self.why_no_time()));
        TimeEstimate {
            train_secs,
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
        let shares = self.shares();
        let share = stats::median(&shares).ok()?;
        let (secs, at_most) = self.secs_at(Tflops(peak.tflops.0 * share))?;
        let how = format!(
            "{} earlier on this kind of device reached {:.0} % of the measured peak, which is {:.2} TFLOPS here; {}",
            runs(shares.len()),
            100.0 * share,
            peak.tflops.0,
            self.rows_how()
        );
        Some((Some(secs), at_most, TimeBasis::Calibration, how))
    }

    /// Shares of the measured peak that earlier trainings reached.
    fn shares(&self) -> Vec<f64> {
        let lines = self.relatives.on_kind.iter();
        lines
            .filter_map(|line| Some(line.figures?.mfu_exact_practical?.0))
            .filter(|share| share.is_finite() && *share > 0.0)
            .collect()
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

    /// The time of all steps at a speed, without loading, and whether it is an upper bound.
    fn secs_at(&self, speed: Tflops) -> Option<(f64, bool)> {
        let shape = self.model.shape?;
        let train = &self.wish.recipe.train;
        let rows_a_step = (train.micro_batch * train.accumulation) as f64;
        let (row, share, at_most) = match self.rows {
            Some(rows) => (rows.mean_length, rows.supervised_share, false),
            None => (self.wish.recipe.data.max_length as f64, 1.0, true),
        };
        let work = StepWork {
            padded_tokens: (rows_a_step * row) as u64,
            supervised_rows: (rows_a_step * row * share) as u64,
            squared_lengths: (rows_a_step * row * row) as u64,
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

    fn download(&self) -> Vec<Part> {
        vec![
            self.model_part(),
            self.torch_part(InstallSpec::download_bytes, runtime::sizes().0),
        ]
    }

    fn model_part(&self) -> Part {
        let part = |bytes, how: &str| Part {
            what: "model",
            bytes,
            how: how.to_owned(),
        };
        match (&self.model.path, self.model.row) {
            (Some(_), _) => part(Some(0), "it is here"),
            (None, _) if self.model.is_default => {
                part(Some(model::sizes().0), "this program's list of downloads")
            }
            (None, Some(row)) => part(Some(row.download_bytes), "the catalogue of recipes"),
            (None, None) => part(None, "its hub has not been asked"),
        }
    }

    /// torch and what comes with it, by the plan's steps.
    fn torch_part(&self, of: fn(&InstallSpec) -> Option<u64>, runtime_bytes: u64) -> Part {
        let folders = self.known.folders;
        let part = |bytes, how: String| Part {
            what: "torch and packages",
            bytes,
            how,
        };
        let active = environments::active(folders, self.wish.engine).ok().flatten();
        if let Some(environment) = active {
            return part(Some(0), format!("the environment {} is here", environment.name));
        }
        if self.plan.card.is_none() && self.wish.engine == Engine::Native {
            return if runtime::installed(folders).is_some() {
                part(Some(0), "the torch runtime is here".to_owned())
            } else {
                part(Some(runtime_bytes), "this program's list of downloads".to_owned())
            };
        }
        match &self.plan.install {
            Some(install) => part(of(install), "the plan's package lists".to_owned()),
            None if self.plan.route().is_some() => part(Some(0), "a torch that fits is here".to_owned()),
            None => part(None, "no torch fits this device yet".to_owned()),
        }
    }

    fn disk(&self) -> Vec<Part> {
        let parameters = self.model.shape.map(|shape| self.lora.parameters(&shape));
        let train = &self.wish.recipe.train;
        let written = match train.checkpoint_every {
            0 => 0,
            every => (train.steps / every).min(CHECKPOINTS),
        };
        let rows = self.rows.map(|rows| rows.real_tokens as u64 * ROW_TOKEN_BYTES);
        let model = self.model_part();
        let part = |what, bytes, how: String| Part { what, bytes, how };
        vec![
            Part {
                bytes: match model.bytes {
                    Some(bytes) if bytes > 0 && self.model.is_default => Some(model::sizes().1),
                    bytes => bytes,
                },
                ..model
            },
            self.torch_part(InstallSpec::disk_bytes, runtime::sizes().1),
            part(
                "checkpoints",
                parameters.map(|parameters| written * parameters * CHECKPOINT_BYTES),
                format!(
                    "{written} of them are kept at most, from {}",
                    self.model.shape_how
                ),
            ),
            part(
                "adapter",
                parameters.map(|parameters| parameters * ADAPTER_BYTES),
                format!("f32, from {}", self.model.shape_how),
            ),
            part(
                "rows",
                rows,
                match rows {
                    Some(_) => "as counted".to_owned(),
                    None => "known once the rows are made; a few bytes a token".to_owned(),
                },
            ),
        ]
    }
}

fn ratios_of<'a>(lines: impl Iterator<Item = &'a RunLine>) -> Vec<f64> {
    lines
        .filter_map(ratio_of)
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect()
}

/// Measured over predicted memory of a run, without what the driver takes outside torch's allocator.
fn ratio_of(line: &RunLine) -> Option<f64> {
    let predicted = line.predicted?;
    let allocated = predicted.total_bytes().checked_sub(predicted.context_bytes)?;
    Some(line.figures?.peak_bytes? as f64 / allocated as f64)
}

/// How far a corrected prediction may be wrong, as a share.
fn margin(ratios: &[f64], centre: f64) -> f64 {
    if ratios.len() < ENOUGH_RUNS {
        return FORMULA_MARGIN;
    }
    let farthest = ratios
        .iter()
        .map(|ratio| (ratio / centre - 1.0).abs())
        .fold(0.0, f64::max);
    farthest.max(LEAST_MARGIN)
}

fn verdict(bytes: u64, margin: f64, earlier: usize, limit: Option<u64>) -> (Fit, String) {
    let Some(limit) = limit else {
        return (Fit::Unknown, "the device's memory could not be read".to_owned());
    };
    let (low, high) = (bytes as f64 * (1.0 - margin), bytes as f64 * (1.0 + margin));
    let (fit, words) = if high <= limit as f64 {
        (Fit::Fits, "fits")
    } else if low > limit as f64 {
        (Fit::DoesNotFit, "does not fit")
    } else {
        (Fit::Uncertain, "may not fit")
    };
    let how = if earlier >= ENOUGH_RUNS {
        format!("the spread of {earlier} earlier runs on this kind of device")
    } else if earlier > 0 {
        format!("the formula's error, corrected by {}", runs(earlier))
    } else {
        "the formula's error".to_owned()
    };
    let reason = format!(
        "{} give or take {:.0} % ({how}) {words} into {}",
        human_bytes(bytes),
        100.0 * margin,
        human_bytes(limit)
    );
    (fit, reason)
}

fn runs(count: usize) -> String {
    if count == 1 {
        "1 run".to_owned()
    } else {
        format!("{count} runs")
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_probe::testing::{AmdCard, TestMachine};
    use tunesmith_protocol::{Calibration, CopyBandwidth, GemmMeasurement, Layout, ValueCheck};

    use super::*;
    use crate::{
        run::{Manifest, lines},
        testing::TestRun,
    };

    const GIB: u64 = 1 << 30;

    /// A machine in files, with a home of its own.
    struct Bench {
        _machine: TestMachine,
        system: System,
        home: tempfile::TempDir,
        folders: Folders,
        knowledge: Knowledge,
        calibration: Option<CalibrationRecord>,
    }

    impl Bench {
        fn new(machine: TestMachine) -> Self {
            let home = tempfile::tempdir().unwrap();
            Self {
                system: machine.detect(),
                _machine: machine,
                folders: Folders::all_under(home.path()),
                home,
                knowledge: Knowledge::load(None).unwrap(),
                calibration: None,
            }
        }

        fn processor() -> Self {
            Self::new(TestMachine::linux().memory_gib(16))
        }

        fn card() -> Self {
            let card = AmdCard::rx_7900_xtx("0000:03:00.0");
            Self::new(TestMachine::linux().memory_gib(32).usable_devices().amd(card))
        }

        fn calibrated(mut self, tflops: f64, dtype: DType) -> Self {
            self.calibration = Some(CalibrationRecord {
                taken: "2026-01-01T00:00:00Z".to_owned(),
                result: Calibration {
                    device: "cpu".to_owned(),
                    threads: 2,
                    gemm: vec![GemmMeasurement {
                        dtype,
                        layout: Layout::Nt,
                        side: 2048,
                        warmup: 3,
                        iterations: 10,
                        mean_tflops: tflops,
                        best_tflops: tflops,
                        median_tflops: tflops,
                        emulated: false,
                        values: ValueCheck {
                            max_error: 1e-7,
                            tolerance: 1e-5,
                            passed: true,
                        },
                    }],
                    kernels: Vec::new(),
                    copy: CopyBandwidth {
                        bytes: 1 << 28,
                        iterations: 3,
                        best_gib_per_sec: 10.0,
                        median_gib_per_sec: 9.0,
                    },
                    time_boxed: false,
                },
            });
            self
        }

        fn estimate(&self, recipe: &Recipe, device: Option<&str>) -> Result<Estimate, EstimateError> {
            self.with(recipe, device, None, None)
        }

        fn with(
            &self,
            recipe: &Recipe,
            device: Option<&str>,
            rows: Option<&RowsReport>,
            available_memory_bytes: Option<u64>,
        ) -> Result<Estimate, EstimateError> {
            let earlier = lines(&self.folders.runs(), &[]).unwrap();
            let wish = Wish {
                recipe,
                device,
                engine: Engine::Native,
                rows,
            };
            let known = Known {
                system: &self.system,
                knowledge: &self.knowledge,
                folders: &self.folders,
                hub: None,
                calibration: self.calibration.as_ref(),
                earlier: &earlier,
                available_memory_bytes,
            };
            estimate(&wish, &known)
        }

        fn runs(&self) -> PathBuf {
            self.folders.runs()
        }
    }

    fn recipe(name: &str) -> Recipe {
        Recipe::load(name).unwrap()
    }

    fn changed(name: &str, settings: &[&str]) -> Recipe {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        recipe(name).with_overrides(&settings).unwrap()
    }

    fn bytes(parts: &[Part], what: &str) -> Option<u64> {
        parts.iter().find(|part| part.what == what).unwrap().bytes
    }

    #[test]
    fn a_bundled_recipe_is_estimated_without_its_model_and_without_a_network() {
        let bench = Bench::processor();
        let found = bench.estimate(&recipe("quickstart"), None).unwrap();
        assert_eq!((found.device.as_str(), found.dtype), ("cpu", DType::F32));
        // Four bytes a parameter.
        assert_eq!(bytes(&found.memory.parts, "frozen model"), Some(4 * 134_515_008));
        assert_eq!(total(&found.memory.parts), found.memory.bytes);
        assert_eq!(found.memory.fit, Fit::Fits, "{}", found.memory.reason);
        assert_eq!(found.memory.correction, None);
        assert_eq!(bytes(&found.download, "model"), Some(model::sizes().0));
        assert_eq!(
            bytes(&found.download, "torch and packages"),
            Some(runtime::sizes().0)
        );
        // Rank 16 on all seven projections of the default model has 4 884 480 parameters.
        assert_eq!(bytes(&found.disk, "checkpoints"), Some(3 * 4_884_480 * 12));
        assert_eq!(bytes(&found.disk, "rows"), None);
        assert_eq!(
            (found.time.train_secs, found.time.basis),
            (None, TimeBasis::Unknown)
        );
        assert_eq!(found.time.how, "unknown until this device is calibrated");
        assert_eq!(found.time.evaluate_secs, None);
    }

    #[test]
    fn a_card_is_measured_against_its_own_memory() {
        let bench = Bench::card();
        let fits = bench.estimate(&recipe("sft-24gib"), None).unwrap();
        assert_eq!((fits.device.as_str(), fits.dtype), ("cuda:0", DType::Bf16));
        assert_ne!(fits.memory.fit, Fit::DoesNotFit, "{}", fits.memory.reason);
        assert!(
            fits.memory.limit.is_some_and(|limit| limit < 24 * GIB),
            "{:?}",
            fits.memory
        );
        let larger = bench.estimate(
            &changed("sft-24gib", &["train.micro_batch=64", "train.recompute=\"none\""]),
            None,
        );
        let larger = larger.unwrap().memory;
        assert_eq!(larger.fit, Fit::DoesNotFit, "{}", larger.reason);
        assert!(larger.reason.contains("does not fit into"), "{}", larger.reason);
        let cpu = bench.estimate(&recipe("quickstart"), Some("cpu")).unwrap();
        assert_eq!(cpu.device, "cpu");
        for device in ["cuda:0", "0000:03:00.0"] {
            let chosen = bench.estimate(&recipe("sft-24gib"), Some(device)).unwrap();
            assert_eq!(chosen.device_name, fits.device_name, "{device}");
        }
        assert_eq!(
            bench
                .estimate(&changed("quickstart", &["train.device=cuda:7"]), None)
                .unwrap_err()
                .code(),
            "card_unknown"
        );
    }

    #[test]
    fn what_others_hold_of_the_card_is_not_there() {
        let mut bench = Bench::card();
        let before = bench.estimate(&recipe("sft-12gib"), None).unwrap().memory;
        let gpu = &mut bench.system.gpus[0];
        gpu.vram_used_bytes = gpu.vram_bytes.map(|all| all - 4 * GIB);
        let after = bench.estimate(&recipe("sft-12gib"), None).unwrap().memory;
        assert_eq!(after.limit, Some(4 * GIB));
        assert!(after.limit_how.contains("is in use"), "{}", after.limit_how);
        assert!(before.limit > after.limit);
        assert_eq!(after.fit, Fit::DoesNotFit);
    }

    #[test]
    fn a_processor_has_the_memory_that_is_free() {
        let bench = Bench::processor();
        let found = bench.with(&recipe("quickstart"), None, None, Some(GIB)).unwrap();
        assert_eq!(found.memory.limit, Some(GIB));
        assert_eq!(found.memory.fit, Fit::DoesNotFit, "{}", found.memory.reason);
    }

    #[test]
    fn near_the_limit_it_is_uncertain() {
        let at = |limit: u64| verdict(10_000, 0.1, 0, Some(limit)).0;
        assert_eq!(at(11_000), Fit::Fits);
        assert_eq!(at(10_999), Fit::Uncertain);
        assert_eq!(at(9_000), Fit::Uncertain);
        assert_eq!(at(8_999), Fit::DoesNotFit);
        assert_eq!(verdict(10_000, 0.1, 0, None).0, Fit::Unknown);
    }

    #[test]
    fn earlier_runs_correct_the_formula_and_their_spread_is_the_margin() {
        let bench = Bench::processor();
        let before = bench.estimate(&recipe("quickstart"), None).unwrap().memory;
        let probe = TestRun::new("2026-01-01T00:00:00Z").write(&bench.runs());
        let manifest: Manifest = Run::open(&probe).unwrap().manifest.unwrap();
        std::fs::remove_dir_all(&probe).unwrap();
        let predicted = manifest.predicted.unwrap();
        let allocated = (predicted.total_bytes() - predicted.context_bytes) as f64;
        for (day, ratio) in [(1, 0.8), (2, 0.5), (3, 0.82), (4, 0.78)] {
            let run =
                TestRun::new(&format!("2026-01-0{day}T00:00:00Z")).peak_bytes((allocated * ratio) as u64);
            // What went wrong tells nothing of what is needed.
            let run = if day == 2 {
                run.status(RunStatus::Crashed)
            } else {
                run
            };
            run.write(&bench.runs());
        }
        let rows = manifest.data.report;
        let found = bench
            .with(&recipe("quickstart"), None, Some(&rows), None)
            .unwrap()
            .memory;
        let correction = found.correction.unwrap();
        assert_eq!(correction.runs, 3);
        assert!((correction.ratio - 0.8).abs() < 1e-6, "{correction:?}");
        assert!((found.margin - LEAST_MARGIN).abs() < 1e-9);
        let expected = allocated * 0.8 + predicted.context_bytes as f64;
        assert!((found.bytes.unwrap() as f64 / expected - 1.0).abs() < 1e-6);
        assert!(found.reason.contains("3 earlier runs"), "{}", found.reason);
        assert!((before.margin - FORMULA_MARGIN).abs() < 1e-12 && before.correction.is_none());
        // The card is another kind of device.
        let bench = Bench {
            system: Bench::card().system,
            ..bench
        };
        assert_eq!(
            bench
                .estimate(&recipe("quickstart"), None)
                .unwrap()
                .memory
                .correction,
            None
        );
    }

    #[test]
    fn time_comes_from_runs_with_the_same_settings_first() {
        let bench = Bench::processor();
        TestRun::new("2026-01-01T00:00:00Z")
            .tokens_per_sec(500.0)
            .write(&bench.runs());
        TestRun::new("2026-01-02T00:00:00Z")
            .tokens_per_sec(500.0)
            .steps(40)
            .write(&bench.runs());
        let same = bench.estimate(&recipe("quickstart"), None).unwrap().time;
        assert_eq!(same.basis, TimeBasis::SameSettings);
        assert!(same.how.starts_with("2 runs earlier"), "{}", same.how);
        // 96 steps of 1500 tokens at 500 a second, and the loading before the first.
        assert!(
            (same.train_secs.unwrap() / (96.0 * 3.0 + 5.5) - 1.0).abs() < 0.03,
            "{same:?}"
        );
        assert!(!same.at_most && !same.time_boxed);
        assert_eq!(same.evaluate_secs, Some(60.0));
        let longer = bench
            .estimate(&changed("quickstart", &["train.steps=960"]), None)
            .unwrap()
            .time;
        assert!(longer.time_boxed && longer.train_secs.unwrap() > 9.0 * same.train_secs.unwrap());
    }

    #[test]
    fn other_settings_of_the_same_model_are_counted_in_operations() {
        let bench = Bench::processor();
        TestRun::new("2026-01-01T00:00:00Z").write(&bench.runs());
        let at = |settings: &[&str]| {
            bench
                .estimate(&changed("quickstart", settings), None)
                .unwrap()
                .time
        };
        let (single, double) = (at(&["train.accumulation=4"]), at(&["train.accumulation=8"]));
        assert_eq!(single.basis, TimeBasis::SameModel);
        assert!(!single.at_most, "the rows are those of the earlier run");
        assert!((double.train_secs.unwrap() / single.train_secs.unwrap() - 2.0).abs() < 0.01);
        let unknown_rows = at(&["data.max_length=400"]);
        assert!(unknown_rows.at_most && unknown_rows.how.contains("rows are taken to be 400 tokens long"));
    }

    #[test]
    fn a_calibration_needs_a_run_that_shows_what_is_reached() {
        let other = |bench: &Bench| {
            bench.estimate(
                &changed("sft-4gib", &["train.device=\"cpu\"", "train.dtype=\"f32\""]),
                None,
            )
        };
        let bench = Bench::processor().calibrated(1.0, DType::F32);
        let before = other(&bench).unwrap().time;
        assert_eq!((before.train_secs, before.basis), (None, TimeBasis::Unknown));
        assert!(before.how.contains("first training"), "{}", before.how);
        TestRun::new("2026-01-01T00:00:00Z").write(&bench.runs());
        let after = other(&bench).unwrap().time;
        assert_eq!(after.basis, TimeBasis::Calibration);
        assert!(after.train_secs.is_some() && after.at_most);
        assert!(after.how.contains("of the measured peak"), "{}", after.how);
    }

    #[test]
    fn an_unknown_model_stays_unknown() {
        let bench = Bench::card();
        let found = bench
            .estimate(&changed("sft-4gib", &["model.source=\"some/model\""]), None)
            .unwrap();
        assert_eq!((found.memory.fit, found.memory.bytes), (Fit::Unknown, None));
        assert!(
            found.memory.reason.contains("not in the catalogue"),
            "{}",
            found.memory.reason
        );
        assert_eq!(bytes(&found.download, "model"), None);
        assert_eq!(total(&found.download), None);
        assert_eq!(bytes(&found.disk, "adapter"), None);
        let listed = bench.estimate(&recipe("sft-4gib"), None).unwrap();
        assert_eq!(bytes(&listed.download, "model"), Some(988_065_536));
    }

    #[test]
    fn a_model_and_a_torch_that_are_here_are_not_fetched() {
        let bench = Bench::processor();
        let folder = bench.home.path().join("model");
        std::fs::create_dir_all(&folder).unwrap();
        let mut own = recipe("quickstart");
        own.model.source = None;
        own.model.path = Some(folder);
        let found = bench.estimate(&own, None).unwrap();
        assert_eq!(bytes(&found.download, "model"), Some(0));
        // It cannot be opened, so nothing is told of its size.
        assert_eq!(found.memory.fit, Fit::Unknown);
    }
}
