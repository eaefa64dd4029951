//! Looks at the machine: detection, doctor and plan, from the same functions as the command line's.

use std::{path::Path, sync::Arc};

use tunesmith_probe::System;
use tunesmith_setup::{
    Folders,
    doctor::{self, Rules, Surroundings},
    environments::Engine,
    knowledge::Knowledge,
    plan::{self, PlanRequest},
};

use super::Work;
use crate::{
    problem,
    saved::DeviceWish,
    state::{Machine, Problem, State},
};

/// Looks at the machine anew; what was seen last stays until then.
pub fn look(state: &mut State) -> Option<Work> {
    if state.machine.looking {
        return None;
    }
    state.machine.looking = true;
    if state.machine.seen.ready().is_none() {
        state.machine.seen = crate::state::Loadable::Loading;
    }
    let (root, folders, wish) = (
        state.root.clone(),
        state.folders.clone(),
        state.saved.device.clone(),
    );
    Some(Work::awaited(
        "looking at the machine",
        move || machine(&root, &folders, &wish),
        |state, seen| state.machine.apply(seen),
    ))
}

/// What a plan is asked for: the device that was wished for, and on this machine the torches that lie on its disk.
pub fn plan_request(system: &System, folders: &Folders, wish: &DeviceWish, engine: Engine) -> PlanRequest {
    let mut request = PlanRequest::new(engine);
    request.device = wish.choice();
    if system.live {
        request = request.with_torches_here(folders);
    }
    request
}

/// What this machine is, what is wrong, and the plan for the device that was wished for.
fn machine(root: &Path, folders: &Folders, wish: &DeviceWish) -> Result<Machine, Problem> {
    let knowledge = Knowledge::load(None).map_err(|error| problem!(error))?;
    let rules = Rules::load(None).map_err(|error| problem!(error))?;
    let system = tunesmith_probe::detect(root, &knowledge.cards);
    let request = plan_request(&system, folders, wish, Engine::Native);
    let plan = plan::plan(&system, &knowledge, &request).map_err(|error| problem!(error));
    let around = Surroundings::of(root, &system, &knowledge, folders);
    let diagnosis = doctor::doctor(&system, &knowledge, &rules, &around, &[]);
    Ok(Machine {
        system,
        knowledge: Arc::new(knowledge),
        diagnosis,
        plan,
    })
}
