//! What the page reads in the background: which experiments there are with what each will take here, and where those
//! stand that were begun. All figures are counted from the runs' own folders.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tunesmith_lab::{
    estimate::Known,
    experiment::{self, Experiment, ExperimentState, Outlook, Plan, READY, outlook},
    recipe::{DEFAULT_MODEL, Recipe},
};
use tunesmith_measure::comparison::{Comparison, compare};
use tunesmith_protocol::DType;
use tunesmith_setup::Folders;

use crate::{
    pages::tune::{Around, Generation, device_word, trains_on},
    problem,
    saved::DeviceWish,
    state::{Machine, Problem},
};

/// What the offers are asked of.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferWish {
    /// A bundled recipe that all of them train, by name; each one's own where there is none.
    pub recipe: Option<String>,
    /// The user's own experiment.
    pub own: Option<PathBuf>,
    /// What shall train.
    pub device: DeviceWish,
    /// Generation of the machine and of what is here.
    pub around: Generation,
}

/// The experiments that can be run here.
#[derive(Clone, Debug, PartialEq)]
pub struct Offers {
    /// `cpu` or `cuda:0`.
    pub device: &'static str,
    /// Those that come with the program, the one of the one button first.
    pub ready: Vec<Offer>,
    /// The user's own.
    pub own: Option<Result<Offer, Problem>>,
}

/// An experiment with what it will take here.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// As it is on this device.
    pub experiment: Experiment,
    /// What the service is sent for it.
    pub wish: String,
    /// Its plan, or why there is none.
    pub planned: Result<Planned, Problem>,
}

/// A plan with what it will take.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The arms and the order.
    pub plan: Plan,
    /// Time, memory, disk.
    pub outlook: Outlook,
    /// What was written down before the first run, in sentences.
    pub before: Comparison,
    /// Number format of the first arm.
    pub dtype: DType,
    /// The model, as it is fetched.
    pub model: String,
}

/// Reads all offers.
pub(super) fn offers(wish: &OfferWish, machine: &Machine, folders: &Folders, around: &Around) -> Offers {
    let device = device_of(&wish.device, machine);
    let known = around.known(machine, folders, device);
    let ready = READY
        .iter()
        .filter_map(|(name, text)| {
            // A test holds that all of them can be read.
            let experiment = Experiment::parse(text, name).ok()?;
            Some(offer(
                &experiment,
                Some(name),
                wish.recipe.as_deref(),
                device,
                &known,
            ))
        })
        .collect();
    let own = wish.own.as_ref().map(|path| {
        let experiment = Experiment::load(&path.to_string_lossy()).map_err(|error| problem!(error))?;
        Ok(offer(&experiment, None, wish.recipe.as_deref(), device, &known))
    });
    Offers { device, ready, own }
}

/// What experiments run on, in the engine's words.
fn device_of(wish: &DeviceWish, machine: &Machine) -> &'static str {
    match Recipe::load("quickstart") {
        Ok(recipe) => trains_on(&recipe, device_word(wish, &recipe).as_deref(), machine),
        Err(_) => "cpu",
    }
}

fn offer(
    experiment: &Experiment,
    ready: Option<&str>,
    recipe: Option<&str>,
    device: &str,
    known: &Known<'_>,
) -> Offer {
    let chosen = match recipe {
        Some(recipe) => experiment.with_base(Some(recipe), &[]),
        None => experiment.clone(),
    };
    // A ready one is known to the service by its name, as long as nothing of it was changed.
    let wish = match (ready, recipe) {
        (Some(name), None) => Ok(name.to_owned()),
        _ => chosen.to_toml().map_err(|error| problem!(error)),
    };
    let here = chosen.on_device(device);
    let (wish, planned) = match wish {
        Ok(wish) => (wish, planned(&here, device, known)),
        Err(problem) => (String::new(), Err(problem)),
    };
    Offer {
        experiment: here,
        wish,
        planned,
    }
}

fn planned(experiment: &Experiment, device: &str, known: &Known<'_>) -> Result<Planned, Problem> {
    let plan = Plan::new(experiment, device).map_err(|error| problem!(error))?;
    // An experiment that was checked has an arm.
    let first = &plan.arms[0].recipe;
    Ok(Planned {
        outlook: outlook(experiment, &plan, known),
        before: compare(&plan.design(experiment), &[]),
        dtype: first.dtype(device),
        model: first
            .model
            .source
            .clone()
            .unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
        plan,
    })
}

/// The experiments that were begun, newest first.
pub(super) fn begun(folders: &Folders) -> Result<Vec<Arc<ExperimentState>>, Problem> {
    let mut all = experiment::list(folders.data(), &folders.runs()).map_err(|error| problem!(error))?;
    all.sort_by(|one, other| other.created.cmp(&one.created).then(other.id.cmp(&one.id)));
    Ok(all.into_iter().map(Arc::new).collect())
}

/// Where one stands.
pub(super) fn state_of(folder: &Path, folders: &Folders) -> Result<Arc<ExperimentState>, Problem> {
    let state = experiment::read(folder, &folders.runs()).map_err(|error| problem!(error))?;
    Ok(Arc::new(state))
}
