//! What this machine is, what is wrong with it, and what to do: read in the background, from the same libraries that
//! the command line uses.

use std::sync::Arc;

use tunesmith_probe::{Gpu, System, telemetry::Target};
use tunesmith_setup::{
    doctor::Diagnosis,
    knowledge::Knowledge,
    plan::{ChosenCard, Plan},
};

use super::{Loadable, Problem};

/// The machine, once it has been looked at.
#[derive(Clone)]
pub struct Machine {
    /// What it is.
    pub system: System,
    /// What it is judged by.
    pub knowledge: Arc<Knowledge>,
    /// What is wrong.
    pub diagnosis: Diagnosis,
    /// What to do to train on the chosen device; none where no plan fits.
    pub plan: Result<Plan, Problem>,
}

impl Machine {
    /// The card that trains; none where the processor does.
    pub fn card(&self) -> Option<&ChosenCard> {
        self.plan.as_ref().ok()?.card.as_ref()
    }

    /// What is known of it.
    pub fn gpu(&self) -> Option<&Gpu> {
        self.system.gpus.get(self.card()?.index)
    }

    /// Name of what trains, for the strip.
    pub fn device_name(&self) -> String {
        match self.card() {
            Some(card) => card.name.clone(),
            None => self
                .system
                .machine
                .cpu_model
                .clone()
                .unwrap_or_else(|| "the processor".to_owned()),
        }
    }

    /// The cards whose live figures can be read.
    pub fn targets(&self) -> Vec<Target> {
        self.system
            .gpus
            .iter()
            .filter_map(|gpu| {
                Some(Target {
                    pci: gpu.pci.clone()?,
                    vendor: gpu.vendor?,
                })
            })
            .collect()
    }
}

/// The machine, and whether it is being looked at again.
#[derive(Clone, Default)]
pub struct MachineState {
    /// What was seen last.
    pub seen: Loadable<Arc<Machine>>,
    /// It is being looked at anew; what was seen last stays meanwhile.
    pub looking: bool,
    /// How often it has been looked at: what depends on it knows by this number that it is out of date.
    pub generation: u64,
}

impl MachineState {
    /// The machine, where it has been looked at.
    pub fn get(&self) -> Option<&Machine> {
        self.seen.ready().map(AsRef::as_ref)
    }

    /// It has been looked at.
    pub fn apply(&mut self, result: Result<Machine, Problem>) {
        self.looking = false;
        self.generation += 1;
        // A failed second look leaves what is known.
        if !(result.is_err() && self.seen.ready().is_some()) {
            self.seen = result.map(Arc::new).into();
        }
    }
}
