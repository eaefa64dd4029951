//! Experiments: several runs that answer one question, planned before the first of them, run in turn, and compared by
//! what their folders say. An experiment that was stopped, or whose machine lost its power, goes on where it was.
//!
//! - [`Experiment`]: what people write; [`READY`] are those that come with the program.
//! - [`Plan`]: the arms' recipes and the order of the runs.
//! - [`run`], [`resume`]: lead it.
//! - [`read`]: where it stands and what it says, for whoever shows it.

mod checks;
mod error;
mod file;
mod ladder;
mod outlook;
mod plan;
mod quiet;
mod ready;
mod record;
mod runner;
mod slots;
mod state;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod watcher;

pub use crate::run::CardPoint;
pub use error::ExperimentError;
pub use file::{Arm, Base, Experiment, Kind, OnCpu, RunSection};
pub use outlook::{ArmOutlook, Outlook, outlook};
pub use plan::{Plan, PlannedArm, Slot, changes, order};
pub use ready::READY;
pub use record::experiments_dir;
pub use runner::{ExperimentObserver, Options, Phase, SlotUpdate, find, named_or_text, resume, run};
pub use state::{
    ExperimentState, ExperimentStatus, SlotState, SlotStatus, Surroundings, Window, list, read, same_protocol,
};

#[cfg(test)]
mod tests;
