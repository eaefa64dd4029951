//! What a run's record says about the machine around it, and where the default model lies: the one place that
//! asks the probe and the set-up.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tunesmith_measure::{Peaks, Tflops, practical_peak};
use tunesmith_probe::{CpuSnapshot, LIVE, Peak, gpus};
use tunesmith_protocol::DType;
use tunesmith_setup::environments::Engine;
use tunesmith_setup::knowledge::Knowledge;
use tunesmith_setup::plan::{DeviceChoice, PlanRequest, plan};
use tunesmith_setup::{Folders, model};

use crate::{estimate::plain_attention, supervisor::EngineLocation};

use crate::run::{CalibrationRecord, ContentionSample, MachineRecord, now};

use super::{LabError, Stage};

/// Variables whose names begin so can change what torch or a driver does.
const TELLING_PREFIXES: [&str; 14] = [
    "AMD_", "CUDA_", "GOMP_", "GPU_", "HIP_", "HSA_", "KMP_", "MIOPEN_", "MKL_", "NCCL_", "OMP_", "PYTORCH_",
    "ROCBLAS_", "TORCH_",
];

/// Cores that others keep busy from which on a measurement is worth a warning.
const TELLING_CORES: f64 = 0.3;

/// Those that an engine is started with, by name.
pub(super) fn environment() -> BTreeMap<String, String> {
    let (name, policy) = tunesmith_setup::wait_policy();
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| {
            name == "LD_PRELOAD"
                || name == "ROCR_VISIBLE_DEVICES"
                || TELLING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        })
        .chain([(name.to_owned(), policy)])
        .collect()
}

/// The file of the model that set-up installs.
pub(super) fn default_model(folders: &Folders) -> Result<PathBuf, LabError> {
    model::installed(folders).ok_or(LabError::ModelNotInstalled)
}

/// This machine with its cards.
pub(super) fn machine() -> MachineRecord {
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
}

/// An engine whose torch is for cards gets the flags and the mask of the plan for this machine. Where no plan can be
/// made, the engine starts as the user's environment has it, and says itself what it cannot do; a card that was chosen
/// by name is an error then.
pub(super) fn on_planned_card(engine: EngineLocation, choice: &DeviceChoice) -> Result<Planned, LabError> {
    let as_it_is = |engine| Planned {
        engine,
        spec_peak: None,
        plain_attention: false,
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
        Ok(plan) => Ok(Planned {
            engine: engine.with_plan(&plan),
            plain_attention: plain_attention(&plan),
            spec_peak: plan
                .card
                .and_then(|card| system.gpus.get(card.index)?.peak.clone()),
        }),
        Err(error) if by_name => Err(error.into()),
        Err(_) => Ok(as_it_is(engine)),
    }
}

/// What decides how fast a machine computes: a stored calibration holds as long as this stays the same.
pub(super) fn identity(record: &MachineRecord) -> Value {
    let machine = &record.machine;
    json!({
        "cpu_model": machine.cpu_model,
        "cpu_features": machine.cpu_features,
        "usable_cores": machine.usable_cores(),
        "kernel": machine.kernel,
        "gpus": record.gpus,
    })
}

/// What cannot be told counts as no: bf16 is then one small product, labelled emulated.
pub(super) fn bf16_in_hardware(record: &MachineRecord) -> bool {
    record.machine.bf16_in_hardware().unwrap_or(false)
}

/// The peaks that MFU is counted against. The spec sheet's is that of the card; a processor's depends on clocks that no
/// sheet promises, so there is the measured one alone.
pub(super) fn peaks(
    dtype: DType,
    calibration: Option<&CalibrationRecord>,
    spec_peak: Option<&Peak>,
) -> Peaks {
    let promised = spec_peak.and_then(|peak| match dtype {
        DType::Bf16 => peak.bf16_flops_per_sec,
        DType::F16 => peak.fp16_flops_per_sec,
        DType::F32 => None,
    });
    Peaks {
        theoretical: promised.map(|flops| Tflops(flops / 1e12)),
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
        let warning = seen.other_cores.filter(|cores| *cores >= TELLING_CORES).map(|cores| {
            let names: Vec<&str> = seen.busy_processes.iter().take(3).map(|process| process.name.as_str()).collect();
            let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            format!(
                "other programs{names} kept {cores:.1} cores busy during this stage: its times are longer than they need be"
            )
        });
        (
            ContentionSample {
                stage: self.stage.name().to_owned(),
                at: self.at,
                seen,
            },
            warning,
        )
    }
}
