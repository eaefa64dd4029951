//! What this machine is, for training: its cards and all that decides whether they can compute.
//!
//! Sources, best first (detection.md): KFD's topology, the IP discovery tables, sysfs, the PCI ids with the card table,
//! NVIDIA's files in `/proc`; in a capture then the outputs of tools at its top. They are joined by PCI address. No
//! tool is run, nothing needs ROCm, Python or root, and a sleeping card is not woken.

mod access;
mod derive;
mod found;
mod installed;
mod kfd;
mod log;
mod pci;
mod reader;
mod settings;
#[cfg(test)]
mod tests;
mod tools;

use std::path::Path;

use derive::HostMemory;
use found::{Found, Merged, Source, pci_address};
pub(crate) use log::looks_like_log;
use reader::Reader;
pub(crate) use reader::{clean, json};
pub(crate) use settings::looks_like_environment;
use tools::Outputs;

use crate::nvml::{self, Listing, NvmlError};
use crate::tree::{kilobytes, value};
use crate::{CardFacts, CardTable, GfxSource, GpuVendor, Machine, Platform, SYSTEM_SCHEMA, Setting, System};

/// An override for all cards, or for one node with its number behind.
const OVERRIDE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// The machine whose files lie below `root`: `/` ([`crate::LIVE`]) for this one, else a capture.
///
/// It never fails: what cannot be read is `None`, and why is in [`System::notes`].
pub fn detect(root: &Path, cards: &CardTable) -> System {
    let reader = Reader::new(root);
    let machine = crate::machine(root);
    let texts = if reader.live() {
        live_listings()
    } else {
        tools::top_files(&reader)
    };
    let outputs = tools::outputs(&reader, &texts);
    let settings = settings::settings(&reader, &outputs.environments);
    let platform = platform(&reader, &machine, &outputs);
    let kernel = installed::kernel(&reader);
    let nvml = nvml_listing(&reader, root);
    let mut stacks = installed::stacks(&reader, platform, &outputs);
    stacks.nvidia_driver = stacks.nvidia_driver.or_else(|| nvml.driver_version.clone());
    // What the driver itself says comes before what its branch is known for.
    stacks.cuda_driver = nvml.cuda_driver_version.clone().or(stacks.cuda_driver);
    let host = host_memory(&reader);

    let mut found = gather(&reader, &outputs, &nvml);
    let main_memory = machine.memory_bytes.or(outputs.memory_bytes);
    let overridden = settings.iter().any(is_override);
    let mut gpus = Vec::new();
    for card in &mut found {
        complete(card, cards, main_memory, overridden, &reader);
        card.gpu.trainable = derive::trainable(&card.gpu, &kernel, &machine, host);
        gpus.push(std::mem::take(&mut card.gpu));
    }
    let minors: Vec<u32> = gpus.iter().filter_map(|gpu| gpu.render_minor).collect();
    let readable = !gpus.is_empty() || reader.live() || reader.exists("sys") || outputs.linux;
    let train_on =
        (readable && (reader.live() || platform != Platform::Windows)).then(|| derive::train_on(&gpus));
    System {
        schema: SYSTEM_SCHEMA,
        live: reader.live(),
        platform,
        gpus,
        train_on,
        access: access::access(&reader, &minors),
        stacks,
        kernel,
        settings,
        flatpak: installed::flatpak(&reader),
        kernel_log: log::kernel_log(&reader, &outputs.logs),
        machine,
        notes: reader.into_notes(),
    }
}

fn is_override(setting: &Setting) -> bool {
    setting.name.starts_with(OVERRIDE) && !setting.value.is_empty()
}

fn platform(reader: &Reader<'_>, machine: &Machine, outputs: &Outputs) -> Platform {
    let kernel = machine.kernel.as_deref().unwrap_or_default().to_lowercase();
    if outputs.wsl || kernel.contains("microsoft") || kernel.contains("wsl2") {
        return Platform::Wsl;
    }
    if reader.live() {
        return match std::env::consts::OS {
            "linux" => Platform::Linux,
            "windows" => Platform::Windows,
            "macos" => Platform::Macos,
            _ => Platform::Unknown,
        };
    }
    if outputs.linux || reader.exists("sys") || reader.exists("proc") || machine.kernel.is_some() {
        Platform::Linux
    } else if outputs.windows {
        Platform::Windows
    } else {
        Platform::Unknown
    }
}

fn host_memory(reader: &Reader<'_>) -> HostMemory {
    let memory = reader.text("proc/meminfo").unwrap_or_default();
    HostMemory {
        total: kilobytes(&memory, "MemTotal"),
        available: kilobytes(&memory, "MemAvailable"),
    }
}

/// What a tool would print, asked of the system itself.
fn live_listings() -> Vec<(String, String)> {
    #[cfg(windows)]
    let listings = crate::windows::listings();
    #[cfg(not(windows))]
    let listings: [(&str, String); 0] = [];
    // Those in a folder of a capture are no outputs of tools.
    let listings = listings.into_iter().filter(|(name, _)| !name.contains('/'));
    listings
        .map(|(name, text)| (name.to_owned(), clean(&text)))
        .collect()
}

/// What NVIDIA's library says, or what a capture kept of that.
fn nvml_listing(reader: &Reader<'_>, root: &Path) -> Listing {
    nvml::listing(root).unwrap_or_else(|error| {
        // A machine without the library has other sources, and nothing is wrong with it.
        if matches!(error, NvmlError::BadListing(_)) {
            reader.note(nvml::LISTING, "it is no listing of cards");
        }
        Listing::default()
    })
}

/// All sources put together, in the order of [`System::gpus`].
fn gather(reader: &Reader<'_>, outputs: &Outputs, nvml: &Listing) -> Vec<Found> {
    let mut merged = Merged::default();
    let (topology, forbidden) = kfd::kfd(reader);
    merged.add(reader, &topology);
    merged.add(reader, &pci::pci(reader));
    merged.add(reader, &nvidia_proc(reader));
    merged.add(reader, &nvidia_library(nvml));
    for source in &outputs.sources {
        merged.add(reader, source);
    }
    let mut cards = merged.cards;
    hide_forbidden(reader, &mut cards, &forbidden);
    // By address; those that have none stay where their source put them.
    cards.sort_by(|a, b| match (&a.gpu.pci, &b.gpu.pci) {
        (Some(a), Some(b)) => a.cmp(b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    // ROCm numbers its cards by KFD node, which need not be the order of addresses.
    let places: Vec<usize> = (0..cards.len())
        .filter(|at| cards[*at].gpu.kfd_node.is_some())
        .collect();
    let mut by_node: Vec<Found> = places.iter().map(|at| cards[*at].clone()).collect();
    by_node.sort_by_key(|card| card.gpu.kfd_node);
    for (place, card) in places.into_iter().zip(by_node) {
        cards[place] = card;
    }
    cards
}

/// `/proc/driver/nvidia/gpus`: names and ids, also of cards without a display part, as in servers.
fn nvidia_proc(reader: &Reader<'_>) -> Source {
    const FOLDER: &str = "proc/driver/nvidia/gpus";
    let cards = reader.names(FOLDER).into_iter().filter_map(|name| {
        let address = pci_address(&name)?;
        let text = reader.text(&format!("{FOLDER}/{name}/information"))?;
        let get =
            |key: &str| value(&text, ':', key).filter(|value| !value.is_empty() && !value.contains('?'));
        let mut found = Found::of(GpuVendor::Nvidia);
        found.gpu.pci = Some(address);
        found.gpu.name = get("Model").map(str::to_owned);
        found.gpu.uuid = get("GPU UUID").map(str::to_owned);
        found.gpu.driver = Some("nvidia".to_owned());
        found.gpu.driver_bound = Some(true);
        found.gpu.driver_version = reader.line("sys/module/nvidia/version");
        Some(found)
    });
    Source::new(FOLDER, cards.collect())
}

/// NVIDIA's library, which knows memory and capability.
fn nvidia_library(listing: &Listing) -> Source {
    let found = |device| Found {
        gpu: nvml::gpu(device, listing),
        ..Found::default()
    };
    Source::new(nvml::LISTING, listing.devices.iter().map(found).collect())
}

/// KFD nodes that may not be read belong to the cards of amdgpu that have no node yet, if the numbers agree.
fn hide_forbidden(reader: &Reader<'_>, cards: &mut Vec<Found>, forbidden: &[u32]) {
    if forbidden.is_empty() {
        return;
    }
    let without_node =
        |card: &&mut Found| card.gpu.vendor == Some(GpuVendor::Amd) && card.gpu.kfd_node.is_none();
    let hidden: Vec<&mut Found> = cards.iter_mut().filter(without_node).collect();
    if hidden.len() == forbidden.len() {
        for (card, node) in hidden.into_iter().zip(forbidden) {
            card.gpu.kfd_forbidden = true;
            card.gpu.kfd_node = Some(*node);
        }
    } else if hidden.is_empty() {
        for node in forbidden {
            let mut card = Found::of(GpuVendor::Amd);
            card.gpu.kfd_forbidden = true;
            card.gpu.kfd_node = Some(*node);
            cards.push(card);
        }
    } else {
        reader.note(
            "sys/class/kfd/kfd/topology/nodes",
            format!(
                "{} nodes may not be read, and which cards they are cannot be told",
                forbidden.len()
            ),
        );
    }
}

/// Fills in what follows from what the sources said, with the card table.
fn complete(
    found: &mut Found,
    cards: &CardTable,
    main_memory: Option<u64>,
    overridden: bool,
    reader: &Reader<'_>,
) {
    let vendor = found.gpu.vendor;
    let of_device = |found: &Found| match (vendor, found.device()) {
        (Some(vendor), Some(device)) => cards.device(vendor, device),
        _ => crate::DeviceFacts::default(),
    };
    let known = of_device(found);
    if let (Some(read), Some(table)) = (&found.gpu.gfx, &known.gfx)
        && read != table
    {
        let address = found.gpu.pci.as_deref().unwrap_or("a card");
        reader.note(
            "",
            format!("the kernel says {read} of {address}, the card table {table}"),
        );
    }
    if found.gpu.gfx.is_none() {
        let by_name = || {
            let facts = CardFacts {
                name: found.gpu.name.as_deref(),
                vendor,
                ..CardFacts::default()
            };
            cards.card(&facts).and_then(|card| card.gfx.clone())
        };
        if let Some(gfx) = known.gfx.clone().or_else(by_name) {
            found.gpu.gfx = Some(gfx);
            found.gpu.gfx_source = Some(GfxSource::CardTable);
        } else if let (Some(gfx), false) = (&found.tool_gfx, overridden) {
            found.gpu.gfx = Some(gfx.clone());
            found.gpu.gfx_source = Some(GfxSource::Tool);
        }
    }
    if found.tool_gfx != found.gpu.gfx {
        found.gpu.reported_gfx = found.tool_gfx.clone();
    }

    let gpu = &mut found.gpu;
    gpu.integrated = match vendor {
        Some(GpuVendor::Nvidia) => Some(false),
        _ => gpu
            .integrated
            .or(known.integrated)
            .or_else(|| cards.integrated_gfx(gpu.gfx.as_deref()?))
            .or(found.unique_id_zero.then_some(true)),
    };
    match gpu.integrated {
        Some(false) => gpu.vram_bytes = gpu.vram_bytes.or(gpu.pool_bytes),
        // ROCm's pool of a processor's graphics is at least a third of main memory, unless it is an old kernel's, which
        // is the carve-out.
        Some(true) => {
            let carve_out = |pool: &u64| main_memory.is_some_and(|total| *pool < total / 4);
            gpu.vram_bytes = gpu.vram_bytes.or(gpu.pool_bytes.filter(carve_out));
        }
        None => {}
    }

    let name = found.gpu.name.clone();
    let gfx = found.gpu.gfx.clone();
    let units_of_tool = || {
        let rdna = gfx.as_deref().is_some_and(|gfx| gfx.len() == 7);
        found
            .workgroup_processors
            .filter(|_| rdna)
            .map(|processors| processors.saturating_mul(2))
    };
    let facts = CardFacts {
        vendor,
        device: found.device(),
        revision: found.revision(),
        gfx: gfx.as_deref(),
        compute_units: found.gpu.compute_units.or_else(units_of_tool),
        vram_bytes: found.gpu.vram_bytes,
        name: name.as_deref(),
    };
    let card = cards.card(&facts);
    found.gpu.compute_units = facts.compute_units;
    if let Some(card) = card {
        let gpu = &mut found.gpu;
        gpu.device_id = gpu
            .device_id
            .take()
            .or_else(|| card.only_device().map(|id| found::hex_id(id.into())));
        gpu.compute_units = gpu.compute_units.or(card.compute_units);
        gpu.multiprocessors = gpu.multiprocessors.or(card.multiprocessors);
        gpu.compute_capability = gpu
            .compute_capability
            .take()
            .or_else(|| card.compute_capability.clone());
        gpu.bandwidth_bytes_per_sec = derive::bandwidth(card);
    }
    let known = of_device(found);
    found.gpu.peak = derive::peak(found, card, cards);
    let gpu = &mut found.gpu;
    gpu.compute_capability = gpu.compute_capability.take().or(known.compute_capability);
    gpu.name = match (vendor, card, name.filter(|name| !is_generic(name))) {
        (Some(GpuVendor::Amd), Some(card), _) => Some(format!("AMD {}", card.name)),
        (_, _, Some(name)) => Some(name),
        (Some(GpuVendor::Nvidia), Some(card), None) => Some(format!("NVIDIA {}", card.name)),
        _ => known
            .name
            .or_else(|| found.chip_name.clone())
            .or_else(|| gpu.name.take()),
    };
    if gpu.integrated == Some(false) {
        gpu.resizable_bar = match (gpu.visible_vram_bytes, gpu.vram_bytes) {
            (Some(visible), Some(vram)) => Some(visible >= vram),
            // Exactly this is what a card shows without.
            (Some(visible), None) if visible == 256 << 20 => Some(false),
            _ => gpu.resizable_bar,
        };
    } else {
        gpu.resizable_bar = None;
        gpu.link = None;
    }
}

/// Names that tell no product.
fn is_generic(name: &str) -> bool {
    crate::cards::product(name).is_empty() || name.starts_with("Microsoft Basic")
}
