//! What a run's record says about the machine around it, and where the default model lies: the one place that
//! asks the probe and the set-up.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use tunesmith_measure::{Peaks, Tflops, practical_peak};
use tunesmith_probe::{CpuSnapshot, LIVE, Peak, System, gpus};
use tunesmith_protocol::DType;
use tunesmith_setup::environments::Engine;
use tunesmith_setup::knowledge::Knowledge;
use tunesmith_setup::plan::{DeviceChoice, Plan, PlanRequest, plan};
use tunesmith_setup::{Folders, model};

use crate::{estimate::plain_attention, fit::PlannedCard, supervisor::EngineLocation};

use crate::run::{CalibrationRecord, ContentionSample, MachineRecord, now};

use super::{LabError, Stage};

/// Variables whose names begin so can change what torch or a driver does.
const TELLING_PREFIXES: [&str; 14] = [
    "AMD_", "CUDA_", "GOMP_", "GPU_", "HIP_", "HSA_", "KMP_", "MIOPEN_", "MKL_", "NCCL_", "OMP_", "PYTORCH_",
    "ROCBLAS_", "TORCH_",
];

/// Those that an engine is started with, by name.
pub(super) fn environment() -> BTreeMap<String, String> {
    let (name, policy) = tunesmith_setup::wait_policy();
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_telling(name))
        .chain([(name.to_owned(), policy)])
        .collect()
}

/// Whether a variable can change what torch or a driver does.
pub(super) fn is_telling(name: &str) -> bool {
    name == "LD_PRELOAD"
        || name == "ROCR_VISIBLE_DEVICES"
        || TELLING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The file of the model that set-up installs.
pub(super) fn default_model(folders: &Folders) -> Result<PathBuf, LabError> {
    model::installed(folders).ok_or(LabError::ModelNotInstalled)
}

/// This machine with its cards.
pub(crate) fn machine() -> MachineRecord {
    let root = Path::new(LIVE);
    MachineRecord {
        machine: tunesmith_probe::machine(root),
        gpus: gpus(root),
    }
}

/// The engine on the card that the plan chose.
pub(super) struct Planned {
    /// With the plan's flags and mask.
    pub(super) engine: EngineLocation,
    /// What the card's spec sheet promises.
    pub(super) spec_peak: Option<Peak>,
    /// The planned torch has no attention kernels for the card, so that scores are kept.
    pub(super) plain_attention: bool,
    /// The card.
    pub(super) card: Option<PlannedCard>,
}

impl Planned {
    /// An engine with what the plan for a machine's card gives it.
    pub(super) fn of(engine: EngineLocation, plan: &Plan, system: &System) -> Self {
        let card = plan.card.as_ref();
        let gpu = card.and_then(|card| Some((card, system.gpus.get(card.index)?)));
        Self {
            engine: engine.with_plan(plan),
            spec_peak: gpu.and_then(|(_, gpu)| gpu.peak.clone()),
            plain_attention: plain_attention(plan),
            card: gpu.and_then(|(card, gpu)| PlannedCard::of(gpu, card.integrated, system.platform)),
        }
    }
}

/// An engine whose torch is for cards gets the flags and the mask of the plan for this machine. Where no plan can be
/// made, the engine starts as the user's environment has it, and says itself what it cannot do; a card that was chosen
/// by name is an error then.
pub(super) fn on_planned_card(engine: EngineLocation, choice: &DeviceChoice) -> Result<Planned, LabError> {
    let as_it_is = |engine| Planned {
        engine,
        spec_peak: None,
        plain_attention: false,
        card: None,
    };
    if engine.usable_cards().is_none() || *choice == DeviceChoice::Cpu {
        return Ok(as_it_is(engine));
    }
    let by_name = *choice != DeviceChoice::Auto;
    let knowledge = match Knowledge::load(None) {
        Ok(knowledge) => knowledge,
        Err(error) if by_name => return Err(error.into()),
        Err(_) => return Ok(as_it_is(engine)),
    };
    let system = tunesmith_probe::detect(Path::new(LIVE), &knowledge.cards);
    let request = PlanRequest {
        device: choice.clone(),
        ..PlanRequest::new(Engine::Native)
    };
    match plan(&system, &knowledge, &request) {
        Ok(plan) => Ok(Planned::of(engine, &plan, &system)),
        Err(error) if by_name => Err(error.into()),
        Err(_) => Ok(as_it_is(engine)),
    }
}

/// What cannot be told counts as no: bf16 is then one small product, labelled emulated.
pub(super) fn bf16_in_hardware(record: &MachineRecord) -> bool {
    record.machine.bf16_in_hardware().unwrap_or(false)
}

/// What a card's spec sheet promises in a number format, where that is known.
pub(crate) fn spec_sheet(peak: &Peak, dtype: DType) -> Option<Tflops> {
    let promised = match dtype {
        DType::Bf16 => peak.bf16_flops_per_sec,
        DType::F16 => peak.fp16_flops_per_sec,
        DType::F32 => None,
    };
    promised.map(|flops| Tflops(flops / 1e12))
}

/// The peaks that MFU is counted against. The spec sheet's is that of the card; a processor's depends on clocks that no
/// sheet promises, so there is the measured one alone.
pub(super) fn peaks(
    dtype: DType,
    calibration: Option<&CalibrationRecord>,
    spec_peak: Option<&Peak>,
) -> Peaks {
    Peaks {
        theoretical: spec_peak.and_then(|peak| spec_sheet(peak, dtype)),
        practical: calibration
            .and_then(|calibration| practical_peak(&calibration.result, dtype))
            .map(|peak| peak.tflops),
    }
}

/// Watches over a stage what other programs do with the machine (M19).
pub(super) struct Watch {
    stage: Stage,
    at: String,
    snapshot: CpuSnapshot,
}

impl Watch {
    pub(super) fn start(stage: Stage) -> Self {
        Self {
            stage,
            at: now(),
            snapshot: CpuSnapshot::take(Path::new(LIVE)),
        }
    }

    /// The sample, and a sentence where others took enough to change what is measured.
    pub(super) fn end(self) -> (ContentionSample, Option<String>) {
        let seen = self.snapshot.load_since(Path::new(LIVE), &[std::process::id()]);
        let sample = ContentionSample {
            stage: self.stage.name().to_owned(),
            at: self.at,
            seen,
        };
        let warning = sample
            .disturbance(false)
            .map(|(_, others)| format!("{others} during this stage: its times are longer than they need be"));
        (sample, warning)
    }
}
