//! What the page says of the machine: the sentence that opens it, what comes next, and what stands beside each device.
//! All of it follows from the plan and the doctor; nothing is judged here a second time.

use tunesmith_probe::Gpu;
use tunesmith_report::format::{capitalised, plural, size};
use tunesmith_setup::{
    doctor::{Stops, Verdict},
    plan::{OtherCard, Plan, VerdictKind},
};

use crate::{
    saved::DeviceWish,
    state::{Machine, Page, State},
    theme::Tone,
};

/// The sentence that opens the page.
pub(super) fn title(machine: &Machine, wish: &DeviceWish) -> String {
    let Ok(plan) = &machine.plan else {
        return match wish {
            DeviceWish::Card(_) => "The card that was chosen cannot be used".to_owned(),
            _ => "What can train here is not known".to_owned(),
        };
    };
    let cures = cures(machine);
    match (plan.verdict.kind, &plan.card) {
        (VerdictKind::Blocked, Some(card)) => format!("{} cannot train yet", card.name),
        (_, Some(card)) if cures > 0 => {
            format!("{} trains once {} cured", card.name, things_are(cures))
        }
        (_, Some(card)) => format!("{} trains{}", card.name, hidden(machine, plan)),
        (_, None) if cures > 0 => format!("The processor trains once {} cured", things_are(cures)),
        (_, None) if *wish == DeviceWish::Cpu => "The processor trains, as you chose".to_owned(),
        (_, None) if machine.system.gpus.is_empty() => {
            "No card that can train was found; the processor trains".to_owned()
        }
        (_, None) => "No card here can train; the processor does".to_owned(),
    }
}

/// Why it is so.
pub(super) fn lead(machine: &Machine, wish: &DeviceWish) -> String {
    let Ok(plan) = &machine.plan else {
        return String::new();
    };
    match &plan.card {
        Some(_) if plan.verdict.kind == VerdictKind::Blocked => capitalised(&plan.verdict.reason),
        Some(_) if matches!(wish, DeviceWish::Card(_)) => "You chose it".to_owned(),
        Some(card) => format!("It was chosen because {}", card.why),
        None => capitalised(&plan.verdict.reason),
    }
}

/// Findings of the doctor that keep the recommended recipe from running.
fn cures(machine: &Machine) -> usize {
    let checks = machine.diagnosis.checks.iter();
    checks.filter(|check| check.stops == Some(Stops::Recipe)).count()
}

fn things_are(count: usize) -> String {
    match count {
        1 => "one thing is".to_owned(),
        _ => format!("{count} things are"),
    }
}

/// What programs are kept from, as the end of a sentence.
fn hidden(machine: &Machine, plan: &Plan) -> String {
    let hidden: Vec<&OtherCard> = plan.others.iter().filter(|other| other.hide).collect();
    let integrated = |other: &&OtherCard| {
        let gpu = machine.system.gpus.get(other.index);
        gpu.is_some_and(|gpu| gpu.integrated == Some(true))
    };
    match hidden.as_slice() {
        [] => String::new(),
        [other] if integrated(other) => "; the processor's own graphics are hidden from it".to_owned(),
        [other] => format!("; {} is hidden from it", other.name),
        others => format!("; {} other cards are hidden from it", others.len()),
    }
}

/// The page to go to next, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) page: Page,
    /// What stands on the button.
    pub(super) button: &'static str,
    /// Why this is next, in a sentence.
    pub(super) why: String,
}

/// To the set-up where something must be cured or installed first, else to the calibration.
pub(super) fn next(machine: &Machine) -> Next {
    let set_up = |button, why| Next {
        page: Page::Setup,
        button,
        why,
    };
    let diagnosis = &machine.diagnosis;
    if matches!(diagnosis.verdict, Verdict::Blocked | Verdict::Unknown) {
        return set_up("See what to cure", diagnosis.next.text.clone());
    }
    if let Err(problem) = &machine.plan {
        return set_up("Go to set-up", problem.message.clone());
    }
    if let Some((plan, route)) = to_install(machine) {
        let download = match route.download_bytes {
            Some(bytes) => format!("a download of {}", size(bytes)),
            None => "a download whose size nobody has read".to_owned(),
        };
        let why = format!(
            "The {} engine needs torch {} first, {download}",
            plan.engine, route.torch
        );
        return set_up("Set it up", why);
    }
    let why = match diagnosis.verdict {
        Verdict::ReadyButSlower => {
            "It trains; something makes it slower than it could be, which set-up explains"
        }
        _ => "Nothing is in the way; next comes measuring how fast it really is",
    };
    Next {
        page: Page::Calibrate,
        button: match machine.card() {
            Some(_) => "Calibrate this card",
            None => "Calibrate the processor",
        },
        why: why.to_owned(),
    }
}

fn to_install(machine: &Machine) -> Option<(&Plan, &tunesmith_setup::plan::RouteOffer)> {
    let plan = machine.plan.as_ref().ok()?;
    plan.install.as_ref()?;
    Some((plan, plan.route()?))
}

/// A device in the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Device {
    /// Index into the machine's cards; none is the processor.
    pub(super) index: Option<usize>,
    pub(super) name: String,
    /// Where it is, where that is known.
    pub(super) place: String,
    /// Verdicts, each with its word.
    pub(super) badges: Vec<(Tone, &'static str)>,
    /// Why it trains, or why it does not.
    pub(super) why: String,
    /// What keeps programs from it.
    pub(super) mask: Option<String>,
    /// What to wish for to train on it; none where that cannot be, or where it trains already.
    pub(super) wish: Option<DeviceWish>,
}

/// Every device: the one that trains first, then the other cards, then the processor.
pub(super) fn devices(machine: &Machine) -> Vec<Device> {
    let mut devices = Vec::new();
    match &machine.plan {
        Ok(plan) => {
            devices.extend(chosen(machine, plan));
            devices.extend(plan.others.iter().map(|other| other_card(machine, plan, other)));
        }
        // Without a plan nobody knows what can train: the cards are named, and the plan's fault says the rest.
        Err(_) => devices.extend(machine.system.gpus.iter().enumerate().map(|(index, gpu)| Device {
            index: Some(index),
            name: name_of(gpu),
            place: place_of(gpu),
            badges: vec![(Tone::Unknown, "not judged")],
            why: "there is no plan to judge it by".to_owned(),
            mask: None,
            wish: None,
        })),
    }
    let processor_trains = machine.plan.as_ref().is_ok_and(|plan| plan.card.is_none());
    let processor = processor(machine, processor_trains);
    if processor_trains {
        devices.insert(0, processor);
    } else {
        devices.push(processor);
    }
    devices
}

fn chosen(machine: &Machine, plan: &Plan) -> Option<Device> {
    let card = plan.card.as_ref()?;
    let badge = match plan.verdict.kind {
        VerdictKind::Blocked => (Tone::Stop, "cannot train yet"),
        _ => (Tone::Ok, "trains"),
    };
    let gpu = machine.system.gpus.get(card.index);
    Some(Device {
        index: Some(card.index),
        name: card.name.clone(),
        place: gpu.map(place_of).unwrap_or_default(),
        badges: vec![badge],
        why: card.why.clone(),
        mask: None,
        wish: None,
    })
}

fn other_card(machine: &Machine, plan: &Plan, other: &OtherCard) -> Device {
    let mut badges = Vec::new();
    if !other.can_train {
        badges.push((Tone::Warn, "cannot train"));
    }
    if other.hide {
        badges.push((Tone::Note, "hidden"));
    } else if other.can_train {
        badges.push((Tone::Note, "not used"));
    }
    let gpu = machine.system.gpus.get(other.index);
    let mask = plan.mask.as_ref().filter(|_| other.hide);
    Device {
        index: Some(other.index),
        name: other.name.clone(),
        place: gpu.map(place_of).unwrap_or_default(),
        badges,
        why: other.why.clone(),
        mask: mask.map(|mask| format!("{}={}", mask.variable, mask.value)),
        wish: gpu.filter(|_| other.can_train).and_then(wish_for),
    }
}

fn processor(machine: &Machine, trains: bool) -> Device {
    let model = machine.system.machine.cpu_model.clone();
    Device {
        index: None,
        name: model.unwrap_or_else(|| "The processor".to_owned()),
        place: "the processor".to_owned(),
        badges: vec![if trains {
            (Tone::Ok, "trains")
        } else {
            (Tone::Note, "not used")
        }],
        why: match (&machine.plan, trains) {
            (Ok(plan), true) => plan.verdict.reason.clone(),
            _ => "it can train small models, slower than a card".to_owned(),
        },
        mask: None,
        wish: (!trains).then_some(DeviceWish::Cpu),
    }
}

/// By the PCI address, which stays when other cards are added; some systems tell none.
fn wish_for(gpu: &Gpu) -> Option<DeviceWish> {
    let name = gpu.pci.as_ref().or(gpu.uuid.as_ref()).or(gpu.name.as_ref());
    name.cloned().map(DeviceWish::Card)
}

fn name_of(gpu: &Gpu) -> String {
    let maker = gpu.vendor.map_or("Graphics", |vendor| vendor.name());
    gpu.name.clone().unwrap_or_else(|| format!("{maker} card"))
}

fn place_of(gpu: &Gpu) -> String {
    gpu.pci.clone().unwrap_or_default()
}

/// Why the device cannot be changed now; none where it can.
pub(super) fn locked(state: &State) -> Option<String> {
    let task = state.tasks.running()?;
    Some(format!(
        "{} is under way on this device; another can be chosen when it has ended",
        task.name()
    ))
}

/// `8 cores, 16 threads`.
pub(super) fn cores(machine: &Machine) -> Option<String> {
    let of = &machine.system.machine;
    let cores = of.cores_physical.map(|count| plural(count as u64, "core"));
    let threads = of.cores_logical.map(|count| plural(count as u64, "thread"));
    match (cores, threads) {
        (Some(cores), Some(threads)) => Some(format!("{cores}, {threads}")),
        (cores, threads) => cores.or(threads),
    }
}
