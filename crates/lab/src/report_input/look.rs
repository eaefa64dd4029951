//! What the doctor says of the machine on the day of a run, kept in the run's folder so that a report made later says the
//! same (M21), and which card it was.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tunesmith_probe::{LIVE, System};
use tunesmith_report::{DeviceRecord, DoctorFinding, DoctorRecord, DoctorStatus};
use tunesmith_setup::{
    Folders,
    doctor::{self, Check, Rules, Status, Surroundings},
    environments::Engine,
    knowledge::Knowledge,
    plan::{Plan, PlanRequest, plan},
};

use crate::{
    files::{read_text, write_json},
    run::now,
};

const FILE: &str = "doctor.json";

/// The machine as it was seen on a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Look {
    /// The card that the plan chooses; the processor where it chooses none.
    pub(super) card: DeviceRecord,
    /// What the doctor found.
    pub(super) doctor: DoctorRecord,
}

impl Look {
    /// What was seen when the run in this folder was made.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_str(&read_text(&folder.join(FILE)).ok()?).ok()
    }

    /// Looks at this machine, unless somebody has looked for this folder before, and keeps what is seen there. A report
    /// without it only has a shorter scorecard, so nothing that goes wrong here is an error.
    pub(super) fn keep(folder: &Path) {
        if folder.join(FILE).exists() {
            return;
        }
        if let Some(look) = Self::now() {
            // As above.
            let _ = write_json(&folder.join(FILE), &look);
        }
    }

    /// Looks at this machine.
    pub(super) fn now() -> Option<Self> {
        let knowledge = Knowledge::load(None).ok()?;
        let rules = Rules::load(None).ok()?;
        let folders = Folders::from_env().ok()?;
        let root = Path::new(LIVE);
        let system = tunesmith_probe::detect(root, &knowledge.cards);
        let around = Surroundings::of(root, &system, &knowledge, &folders);
        let diagnosis = doctor::doctor(&system, &knowledge, &rules, &around, &[]);
        let plan = plan(&system, &knowledge, &PlanRequest::new(Engine::Native)).ok();
        let count = |status: Status| diagnosis.with_status(status).count();
        Some(Self {
            card: card(&system, plan.as_ref()),
            doctor: DoctorRecord {
                taken: now(),
                opening: diagnosis.opening.clone(),
                in_order: count(Status::Ok),
                unknown: count(Status::Unknown),
                findings: diagnosis.checks.iter().filter_map(finding).collect(),
                flags: plan.as_ref().map(flags).unwrap_or_default(),
            },
        })
    }
}

fn card(system: &System, plan: Option<&Plan>) -> DeviceRecord {
    let chosen = plan.and_then(|plan| plan.card.as_ref());
    let gpu = chosen.and_then(|card| system.gpus.get(card.index));
    gpu.map_or_else(DeviceRecord::default, |gpu| DeviceRecord {
        name: gpu.name.clone().unwrap_or_default(),
        gfx: gpu.gfx.clone(),
        backend: String::new(),
    })
}

fn finding(check: &Check) -> Option<DoctorFinding> {
    let status = match check.status {
        Status::Warn => DoctorStatus::Warn,
        Status::Fail => DoctorStatus::Fail,
        Status::Ok | Status::Unknown => return None,
    };
    let group = serde_json::to_value(check.group).ok()?;
    Some(DoctorFinding {
        id: check.id.clone(),
        group: group.as_str()?.to_owned(),
        title: match &check.about {
            Some(about) => format!("{}: {about}", check.title),
            None => check.title.clone(),
        },
        status,
        found: check.found.clone(),
        cure: check.cure.as_ref().map(|cure| match &cure.command {
            Some(command) => command.clone(),
            None => cure.text.clone(),
        }),
    })
}

/// Variables that the plan sets for the engine's process, each with its reason.
fn flags(plan: &Plan) -> Vec<[String; 3]> {
    let reason = |name: &str| {
        let row = plan.environment.iter().find(|row| row.name == name);
        row.map_or_else(
            || "hides the devices that are not to train".to_owned(),
            |row| row.reason.clone(),
        )
    };
    plan.variables()
        .into_iter()
        .filter_map(|(name, value)| Some([name.to_owned(), value?.to_owned(), reason(name)]))
        .collect()
}
