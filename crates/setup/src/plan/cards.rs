//! Which card trains, which do not and why, and by which mask programs are kept from them.

use tunesmith_probe::{Gpu, System};

use super::{ChosenCard, DeviceChoice, Mask, OtherCard, PlanError, Planner};
use crate::knowledge::{Knowledge, Os, Target, Vendor};
use crate::progress::human_bytes;

/// What trains.
pub(super) struct Device<'a> {
    /// The row that says what fits.
    pub(super) target: &'a Target,
    /// The card; none is the processor.
    pub(super) card: Option<Card<'a>>,
    /// Why the processor trains.
    pub(super) reason: String,
    /// What keeps the card from training as things are.
    pub(super) stop: Option<String>,
    /// The other cards.
    pub(super) others: Vec<OtherCard>,
}

/// A card that a plan can be made for.
#[derive(Clone)]
pub(super) struct Card<'a> {
    pub(super) index: usize,
    pub(super) gpu: &'a Gpu,
    pub(super) target: &'a Target,
    pub(super) name: String,
    pub(super) integrated: bool,
    pub(super) why: String,
}

impl Device<'_> {
    pub(super) fn chosen_card(&self) -> Option<ChosenCard> {
        let card = self.card.as_ref()?;
        let capability = || card.gpu.compute_capability.clone();
        Some(ChosenCard {
            index: card.index,
            name: card.name.clone(),
            gfx: card.gpu.gfx.clone().or_else(capability).unwrap_or_default(),
            pci: card.gpu.pci.clone(),
            integrated: card.integrated,
            trainable_bytes: card.gpu.trainable.as_ref().map(|trainable| trainable.value),
            why: card.why.clone(),
        })
    }
}

/// Whether a card of this vendor can be planned for.
pub(super) fn has_candidate(system: &System, knowledge: &Knowledge, os: Os, vendor: Vendor) -> bool {
    system.gpus.iter().enumerate().any(|(index, gpu)| {
        candidate(index, gpu, knowledge, os).is_ok_and(|card| card.target.vendor == vendor)
    })
}

/// The card that is asked for, else the best, else the processor.
pub(super) fn choose<'a>(
    system: &'a System,
    knowledge: &'a Knowledge,
    os: Os,
    choice: &DeviceChoice,
) -> Result<Device<'a>, PlanError> {
    let judged: Vec<_> = system
        .gpus
        .iter()
        .enumerate()
        .map(|(index, gpu)| candidate(index, gpu, knowledge, os))
        .collect();
    let candidates: Vec<&Card<'a>> = judged.iter().flatten().collect();
    let card = match choice {
        DeviceChoice::Cpu => None,
        DeviceChoice::Auto => best(&candidates, system),
        DeviceChoice::Vendor(vendor) => {
            let own: Vec<_> = candidates
                .iter()
                .filter(|card| card.target.vendor == *vendor)
                .copied()
                .collect();
            best(&own, system)
        }
        DeviceChoice::Card(wanted) => {
            let index = find(system, wanted)?;
            match &judged[index] {
                Ok(card) => Some(Card {
                    why: "it was asked for".to_owned(),
                    ..card.clone()
                }),
                Err(reason) => {
                    return Err(PlanError::CardUnfit {
                        card: name_of(&system.gpus[index]),
                        reason: reason.clone(),
                    });
                }
            }
        }
    };
    let others = others(system, &judged, card.as_ref());
    let reason = match (choice, system.gpus.len()) {
        (DeviceChoice::Cpu, _) => "the processor was asked for".to_owned(),
        (_, 0) => "no AMD or NVIDIA card was found".to_owned(),
        _ => {
            let reasons = others
                .iter()
                .map(|other| format!("{}: {}", other.name, other.why));
            format!(
                "no card here can train ({})",
                reasons.collect::<Vec<_>>().join("; ")
            )
        }
    };
    let target = match &card {
        Some(card) => card.target,
        None => cpu_target(knowledge),
    };
    let stop = card.as_ref().and_then(|card| stop(system, card, os));
    Ok(Device {
        target,
        card,
        reason,
        stop,
        others,
    })
}

/// The loader refuses knowledge without this row.
fn cpu_target(knowledge: &Knowledge) -> &Target {
    let rows = &knowledge.targets.targets;
    rows.iter()
        .find(|row| row.vendor == Vendor::Cpu)
        .unwrap_or(&rows[0])
}

/// A card that a plan can be made for, or why none can.
fn candidate<'a>(index: usize, gpu: &'a Gpu, knowledge: &'a Knowledge, os: Os) -> Result<Card<'a>, String> {
    let target = target_of(gpu, knowledge)?;
    if let Some(reason) = &target.blocked {
        return Err(reason.to_string());
    }
    if !target.systems.contains(&os) {
        return Err(format!(
            "its driver stack is not known to work under {}",
            os.name()
        ));
    }
    Ok(Card {
        index,
        gpu,
        target,
        name: name_of(gpu),
        integrated: gpu.integrated.unwrap_or(target.integrated),
        why: String::new(),
    })
}

fn target_of<'a>(gpu: &Gpu, knowledge: &'a Knowledge) -> Result<&'a Target, String> {
    match (gpu.vendor.map(Vendor::from), &gpu.gfx, &gpu.compute_capability) {
        (None, ..) => Err("it is neither AMD's nor NVIDIA's".to_owned()),
        (Some(Vendor::Nvidia), _, Some(capability)) => knowledge
            .targets
            .compute_capability(capability)
            .ok_or_else(|| format!("no torch is known for compute capability {capability}")),
        (Some(Vendor::Nvidia), _, None) => Err("its compute capability could not be read".to_owned()),
        (_, Some(gfx), _) => knowledge
            .targets
            .target(gfx)
            .ok_or_else(|| format!("no torch is known for {gfx}")),
        (_, None, _) => Err("its gfx target could not be read".to_owned()),
    }
}

/// Discrete before integrated, then by memory, then in the order of the list.
fn best<'a>(candidates: &[&Card<'a>], system: &System) -> Option<Card<'a>> {
    let wanted = |card: &&&Card<'a>| {
        system
            .train_on
            .as_ref()
            .is_none_or(|list| list.contains(&card.index))
    };
    let mut ranked: Vec<&Card<'a>> = candidates.iter().filter(wanted).copied().collect();
    if ranked.is_empty() {
        ranked = candidates.to_vec();
    }
    let memory = |card: &Card<'_>| card.gpu.trainable.as_ref().map_or(0, |trainable| trainable.value);
    // Stable: of equals the first of the list stays first.
    ranked.sort_by_key(|card| (card.integrated, std::cmp::Reverse(memory(card))));
    let (first, rest) = ranked.split_first()?;
    let like: Vec<&&Card<'a>> = rest.iter().filter(|other| alike(first, other)).collect();
    let why = if !like.is_empty() {
        let numbers: Vec<_> = like.iter().map(|other| other.index.to_string()).collect();
        format!(
            "one run uses one card; of {} like cards it is the first (number {}), {} stays free",
            like.len() + 1,
            first.index,
            if numbers.len() == 1 {
                format!("number {}", numbers[0])
            } else {
                format!("each of {}", numbers.join(", "))
            },
        )
    } else if candidates.len() == 1 {
        "it is the only card that can train".to_owned()
    } else if rest.iter().all(|other| other.integrated && !first.integrated) {
        "it is the only card of its own; the others are part of a processor".to_owned()
    } else {
        match first.gpu.trainable.as_ref() {
            Some(trainable) => format!(
                "it has the most memory to train in, {}",
                human_bytes(trainable.value)
            ),
            None => "it is the first in the list".to_owned(),
        }
    };
    Some(Card {
        why,
        ..(*first).clone()
    })
}

fn alike(one: &Card<'_>, other: &Card<'_>) -> bool {
    let size = |card: &Card<'_>| card.gpu.vram_bytes;
    one.target.id == other.target.id && one.name == other.name && size(one) == size(other)
}

fn others(system: &System, judged: &[Result<Card<'_>, String>], chosen: Option<&Card<'_>>) -> Vec<OtherCard> {
    let mut others = Vec::new();
    for (index, (gpu, judgement)) in system.gpus.iter().zip(judged).enumerate() {
        if chosen.is_some_and(|chosen| chosen.index == index) {
            continue;
        }
        let vendor = gpu.vendor.map(Vendor::from);
        let same_vendor = chosen.is_some_and(|chosen| vendor == Some(chosen.target.vendor));
        let why = match (judgement, chosen) {
            (Err(reason), _) => reason.clone(),
            (Ok(card), Some(chosen)) if card.target.vendor != chosen.target.vendor => {
                "it is another vendor's: it gets a plan and an environment of its own".to_owned()
            }
            (Ok(card), Some(chosen)) if card.integrated && !chosen.integrated => {
                "it is part of the processor, and slower than the card".to_owned()
            }
            (Ok(_), Some(_)) => "one run uses one card".to_owned(),
            (Ok(_), None) => "the processor trains".to_owned(),
        };
        others.push(OtherCard {
            index,
            name: name_of(gpu),
            pci: gpu.pci.clone(),
            hide: same_vendor,
            can_train: judgement.is_ok(),
            why,
        });
    }
    others
}

/// What keeps the card from training as things are: the first thing, as the doctor names the rest.
fn stop(system: &System, card: &Card<'_>, os: Os) -> Option<String> {
    let gpu = card.gpu;
    if gpu.basic_display_driver {
        return Some("the vendor's driver is missing, Windows uses its basic one".to_owned());
    }
    match gpu.driver.as_deref() {
        Some("vfio-pci") => return Some("it is handed to a virtual machine (vfio-pci)".to_owned()),
        Some("nouveau") => {
            return Some("the driver is nouveau, which cannot compute: NVIDIA's is needed".to_owned());
        }
        _ => {}
    }
    if gpu.driver_bound == Some(false) {
        return Some("no driver is bound to it".to_owned());
    }
    if card.target.vendor != Vendor::Amd {
        return None;
    }
    match os {
        Os::Linux => {
            if gpu.kfd_forbidden {
                return Some("the container's control group hides it".to_owned());
            }
            let kfd = system.access.kfd.as_ref()?;
            if !kfd.exists {
                return Some("/dev/kfd is not there".to_owned());
            }
            if kfd.read_write == Some(false) {
                return Some("/dev/kfd may not be read and written by this user".to_owned());
            }
            let node = gpu.render_minor.map(|minor| format!("/dev/dri/renderD{minor}"))?;
            let denied = system
                .access
                .render_nodes
                .iter()
                .any(|of| of.path == node && of.read_write == Some(false));
            denied.then(|| format!("{node} may not be read and written by this user"))
        }
        Os::Wsl if system.access.dxg == Some(false) => Some("/dev/dxg is not there".to_owned()),
        Os::Wsl if system.stacks.librocdxg == Some(false) => {
            Some("AMD's librocdxg is missing, which ROCm needs under WSL".to_owned())
        }
        _ => None,
    }
}

/// What to call a card.
pub(super) fn name_of(gpu: &Gpu) -> String {
    let target = || gpu.gfx.as_ref().map(|gfx| format!("AMD {gfx}"));
    let device = || gpu.device_id.as_ref().map(|id| format!("card {id}"));
    gpu.name
        .clone()
        .or_else(target)
        .or_else(device)
        .unwrap_or_else(|| "a card without a name".to_owned())
}

fn find(system: &System, wanted: &str) -> Result<usize, PlanError> {
    let by_number = wanted
        .parse::<usize>()
        .ok()
        .filter(|index| *index < system.gpus.len());
    let is = |text: &Option<String>| {
        text.as_deref()
            .is_some_and(|text| text.eq_ignore_ascii_case(wanted))
    };
    // `03:00.0` is enough where the domain is 0000.
    let at = |gpu: &Gpu| {
        let short = gpu.pci.as_deref().and_then(|pci| pci.strip_prefix("0000:"));
        is(&gpu.pci) || short.is_some_and(|short| short.eq_ignore_ascii_case(wanted))
    };
    by_number
        .or_else(|| {
            system
                .gpus
                .iter()
                .position(|gpu| at(gpu) || is(&gpu.uuid) || is(&gpu.unique_id) || is(&gpu.name))
        })
        .ok_or_else(|| PlanError::CardUnknown {
            wanted: wanted.chars().filter(|letter| !letter.is_control()).collect(),
            known: system
                .gpus
                .iter()
                .enumerate()
                .map(|(index, gpu)| format!("{index} {}", name_of(gpu)))
                .collect(),
        })
}

impl Planner<'_> {
    /// By what programs are kept from the other cards. NVIDIA's is always there: it also fixes which card it is.
    pub(super) fn mask(&self) -> Option<Mask> {
        let card = self.device.card.as_ref()?;
        let of_vendor = |gpu: &&Gpu| gpu.vendor.map(Vendor::from) == Some(card.target.vendor);
        let same: Vec<&Gpu> = self.system.gpus.iter().filter(of_vendor).collect();
        let place = |list: &[&Gpu]| {
            list.iter()
                .position(|gpu| std::ptr::eq(*gpu, card.gpu))
                .unwrap_or(0)
        };
        if card.target.vendor == Vendor::Nvidia {
            let mut by_address = same.clone();
            by_address.sort_by(|one, other| one.pci.cmp(&other.pci));
            return Some(match &card.gpu.uuid {
                Some(uuid) => named("CUDA_VISIBLE_DEVICES", uuid),
                None => numbered(
                    "CUDA_VISIBLE_DEVICES",
                    place(&by_address),
                    "by PCI address (CUDA_DEVICE_ORDER=PCI_BUS_ID)",
                ),
            });
        }
        if same.len() < 2 {
            return None;
        }
        Some(match (self.os, &card.gpu.unique_id) {
            (Os::Windows, _) => numbered(
                "HIP_VISIBLE_DEVICES",
                place(&same),
                "among AMD's cards, as they were listed",
            ),
            (_, Some(id)) => named("ROCR_VISIBLE_DEVICES", id),
            (_, None) => numbered(
                "ROCR_VISIBLE_DEVICES",
                place(&same),
                "in the order of the kernel's KFD nodes",
            ),
        })
    }
}

fn named(variable: &str, id: &str) -> Mask {
    Mask {
        variable: variable.to_owned(),
        value: id.to_owned(),
        stable: true,
        how: "by UUID, whatever the order".to_owned(),
    }
}

fn numbered(variable: &str, place: usize, order: &str) -> Mask {
    Mask {
        variable: variable.to_owned(),
        value: place.to_string(),
        stable: false,
        how: format!("by number, counted {order}"),
    }
}
