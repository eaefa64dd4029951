//! The measurement that an earlier calibration left, read in the background: it holds as long as machine, torch and
//! settings are the same.

use std::sync::Arc;

use tunesmith_lab::{
    pipeline::{Settings, StaleCalibration, stale_calibrations, stored_calibration},
    supervisor::EngineLocation,
};
use tunesmith_setup::Folders;

use super::Measured;
use crate::{
    problem,
    saved::DeviceWish,
    services::Work,
    state::{Machine, Problem},
};

/// What would be measured, and what was.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The device, as the engine calls it: `cpu` or `cuda:0`.
    pub device: String,
    /// The measurement of it that still holds.
    pub measured: Option<Measured>,
    /// Those that do not hold any more, with what has changed since, the newest first.
    pub stale: Vec<StaleCalibration>,
    /// Whether the machine is a folder of captured files: then nothing can be measured.
    pub is_capture: bool,
}

/// Reads it.
pub(super) fn read(machine: Arc<Machine>, folders: Folders, wish: DeviceWish, generation: u64) -> Work {
    Work::awaited(
        "looking for a measurement",
        move || stored(&machine, folders, &wish),
        move |state, stored| {
            let page = &mut state.pages.calibrate;
            // An older look's answer is not wanted any more.
            if page.stored_is_for != Some(generation) {
                return;
            }
            page.stored = stored.into();
            if let crate::state::Loadable::Ready(Stored {
                measured: Some(measured),
                ..
            }) = &mut page.stored
            {
                measured.aged_at_secs = state.now_secs;
            }
        },
    )
}

fn stored(machine: &Machine, folders: Folders, wish: &DeviceWish) -> Result<Stored, Problem> {
    if !machine.system.live {
        let device = if machine.card().is_some() { "cuda:0" } else { "cpu" };
        return Ok(Stored {
            device: device.to_owned(),
            measured: None,
            stale: Vec::new(),
            is_capture: true,
        });
    }
    let (settings, device) = settings_and_device(machine, folders, wish)?;
    let measured = stored_calibration(&settings, &device).map(|calibration| Measured {
        age_secs: Some(calibration.age_secs()),
        calibration,
        aged_at_secs: 0.0,
        warnings: Vec::new(),
    });
    Ok(Stored {
        stale: stale_calibrations(&settings, &device),
        device,
        measured,
        is_capture: false,
    })
}

/// What the service would measure with, and the device, as the engine calls it.
///
/// # Errors
/// [`Problem`] where no engine can be started, or the machine is a folder of captured files.
pub(crate) fn settings_and_device(
    machine: &Machine,
    folders: Folders,
    wish: &DeviceWish,
) -> Result<(Settings, String), Problem> {
    if !machine.system.live {
        return Err(Problem::new(
            "captured_machine",
            "this window shows a captured machine, and only the machine itself can be measured",
            vec!["open Tunesmith without --root on the machine that it is about".to_owned()],
        ));
    }
    // With the plan's flags, as the service starts the engine: they are conditions of a measurement.
    let settings = Settings::in_folders(folders, &wish.choice()).map_err(|error| problem!(error))?;
    let device = device(machine, &settings.engine, wish);
    Ok((settings, device))
}

/// The device that is measured: the planned card where the installed torch can use it, else the processor.
fn device(machine: &Machine, engine: &EngineLocation, wish: &DeviceWish) -> String {
    let card = machine.gpu().filter(|_| *wish != DeviceWish::Cpu);
    let usable = card.is_some_and(|card| card.vendor.is_some() && card.vendor == engine.usable_cards());
    if usable { "cuda:0" } else { "cpu" }.to_owned()
}
