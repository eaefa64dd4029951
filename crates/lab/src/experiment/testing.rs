//! Experiments' folders made without an engine, for tests of what shows them. Plan and lines are written by the code that
//! writes real ones.

use std::path::PathBuf;

use tunesmith_setup::Folders;

use crate::{run::now, testing::TestRun};

use super::{
    Experiment, Plan, experiments_dir,
    record::{Folder, Line},
};

/// What came of a slot.
#[derive(Clone, Debug)]
pub enum TestSlot {
    /// This run.
    Run(TestRun),
    /// No run, for this reason.
    Failed(String),
}

/// Begins an experiment on a device, with what came of its first slots in their order; the others wait. Gives its
/// folder.
///
/// # Panics
/// Where it cannot be planned or written.
pub fn write_experiment(
    folders: &Folders,
    experiment: &Experiment,
    device: &str,
    slots: &[TestSlot],
) -> PathBuf {
    let experiment = experiment.on_device(device);
    let plan = Plan::new(&experiment, device).expect("an experiment that can be planned");
    let experiments = experiments_dir(folders.data());
    let folder = Folder::begin(&experiments, &experiment, &plan, false).expect("a folder that can be made");
    for (slot, came) in slots.iter().enumerate() {
        let line = match came {
            TestSlot::Run(run) => {
                let run = run.write(&folders.runs());
                Line::Run {
                    slot,
                    run: run.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                    at: now(),
                }
            }
            TestSlot::Failed(message) => Line::Failed {
                slot,
                code: "not_possible".to_owned(),
                message: message.clone(),
                at: now(),
            },
        };
        folder.append(&line).expect("a line that can be written");
    }
    folder.path
}
