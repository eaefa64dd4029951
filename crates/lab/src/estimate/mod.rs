//! What a training will need, before anything is fetched or started: memory with a verdict, time, downloads, disk.
//! Every figure says where it comes from, and what is not known stays unknown.

mod advice;
mod disk;
mod memory;
mod model;
mod relatives;
mod time;
mod work;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;
use tunesmith_data::RowsReport;
use tunesmith_measure::{Composition, LoraShape, MeasureError, QuantisationSaving, calibration::unusable};
use tunesmith_models::hub::Hub;
use tunesmith_probe::System;
use tunesmith_protocol::DType;
use tunesmith_setup::{
    Folders,
    environments::Engine,
    knowledge::{Knowledge, Vendor},
    plan::{DeviceChoice, Plan, PlanError, PlanRequest, plan},
};

use crate::{
    fit::Trial,
    recipe::Recipe,
    run::{CalibrationRecord, RunLine},
};

pub use advice::{Advice, Choice, SpeedBasis, advise};
#[cfg(any(test, feature = "testing"))]
pub(crate) use memory::need_at_most;
pub(crate) use memory::record;
pub use memory::{MemoryEstimate, MemoryPoint, Predicted, RoomEstimate, corrected, plain_attention};
use model::AskedModel;
use relatives::Relatives;
pub(crate) use relatives::held_here;
pub use time::{TimeBasis, TimeEstimate};
pub use tunesmith_measure::fit::{Correction, Fit};
pub use work::{Place, work_at_most, work_of_rows};

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
    /// What was tried of settings, oldest first: see [`crate::fit::trials`].
    pub trials: &'a [Trial],
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
    /// What the model's parameters are, and which of them 4 bits can touch; `None` where its dimensions are not known.
    pub composition: Option<Composition>,
    /// What a base in 4 bits saves of them (T6).
    pub saving: Option<QuantisationSaving>,
    /// Main memory beside the device's.
    pub host: RoomEstimate,
    /// Time.
    pub time: TimeEstimate,
    /// What must be fetched, 0 where it is here.
    pub download: Vec<Part>,
    /// What it will take on disk beyond what is there.
    pub disk: Vec<Part>,
    /// Why it would be refused whatever it needs: the calibration found wrong values in this format (X8).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether the disk has room for it.
    pub storage: RoomEstimate,
    /// The worst of the verdicts on the device, main memory and the disk.
    pub fit: Fit,
}

/// Estimates a training. Opens the model's headers where the model is here, and a few earlier runs; asks no network.
///
/// # Errors
/// [`EstimateError`] where the device is not there, or a module of the recipe carries no adapter.
pub fn estimate(wish: &Wish<'_>, known: &Known<'_>) -> Result<Estimate, EstimateError> {
    with_subject(wish, known, |subject| {
        let (memory, host, disk) = (subject.memory(), subject.host(), subject.disk());
        let storage = subject.storage(&disk);
        Estimate {
            device: subject.device.to_owned(),
            refused: known
                .calibration
                .and_then(|calibration| unusable(&calibration.result, subject.dtype))
                .map(|wrong| wrong.to_string()),
            device_name: subject
                .plan
                .card
                .as_ref()
                .map_or_else(|| "processor".to_owned(), |card| card.name.clone()),
            dtype: subject.dtype,
            fit: [host.fit, storage.fit]
                .into_iter()
                .filter(|fit| *fit != Fit::Unknown)
                .fold(memory.fit, Fit::worse),
            memory,
            composition: subject.model.shape.map(|shape| Composition::of(&shape)),
            saving: subject
                .model
                .shape
                .map(|shape| QuantisationSaving::of(&shape, subject.dtype)),
            host,
            time: subject.time(),
            download: subject.download(),
            disk,
            storage,
        }
    })
}

/// Gathers all that an estimate is drawn from.
fn with_subject<T>(
    wish: &Wish<'_>,
    known: &Known<'_>,
    work: impl FnOnce(&Subject<'_>) -> T,
) -> Result<T, EstimateError> {
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
    Ok(work(&Subject {
        wish,
        known,
        plan: &plan,
        device,
        dtype: recipe.dtype(device),
        lora,
        model: &asked,
        relatives: &relatives,
        rows: rows.as_ref(),
    }))
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

/// All that an estimate is drawn from.
struct Subject<'a> {
    wish: &'a Wish<'a>,
    known: &'a Known<'a>,
    plan: &'a Plan,
    device: &'static str,
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
}

fn runs(count: usize) -> String {
    if count == 1 {
        "1 run".to_owned()
    } else {
        format!("{count} runs")
    }
}
