//! What is known of a card and of the processor, each fact with where it comes from. What was not read is called
//! unknown where everybody would look for it, and left out otherwise.

use tunesmith_probe::{Card, CardFacts, CardTable, Gpu, GpuVendor, Link, Setting, System};
use tunesmith_report::format::{number, size};

use super::words::cores;
use crate::state::Machine;

/// The override of a card's target.
const OVERRIDE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) value: String,
    /// Where it comes from, or what it means.
    pub(super) source: String,
    /// It contradicts another fact, or keeps the card from working.
    pub(super) odd: bool,
}

fn fact(name: &'static str, value: impl Into<String>, source: impl Into<String>) -> Fact {
    Fact {
        name,
        value: value.into(),
        source: source.into(),
        odd: false,
    }
}

fn unknown(value: Option<String>) -> String {
    value.unwrap_or_else(|| "unknown".to_owned())
}

/// All facts of a card.
pub(super) fn of_card(gpu: &Gpu, system: &System, table: &CardTable) -> Vec<Fact> {
    let row = table_row(gpu, table);
    let mut facts = vec![fact("name", unknown(gpu.name.clone()), name_source(gpu, row))];
    facts.extend(target(gpu));
    facts.extend(overridden(gpu, system));
    facts.push(kind(gpu));
    facts.extend(units(gpu, row));
    facts.extend(memory(gpu));
    facts.extend(rates(gpu, row));
    facts.extend(place(gpu));
    facts.push(driver(gpu));
    facts.extend(gpu.power_limit_watts.map(|watts| {
        fact(
            "power limit",
            format!("{} W", number(watts)),
            "NVIDIA's management library",
        )
    }));
    facts
}

/// The row of the card table that names the product.
fn table_row<'a>(gpu: &Gpu, table: &'a CardTable) -> Option<&'a Card> {
    let hex = |text: &Option<String>| {
        let digits = text.as_deref()?.trim_start_matches("0x");
        u16::from_str_radix(digits, 16).ok()
    };
    table.card(&CardFacts {
        vendor: gpu.vendor,
        device: hex(&gpu.device_id),
        revision: hex(&gpu.revision).and_then(|revision| u8::try_from(revision).ok()),
        gfx: gpu.gfx.as_deref(),
        compute_units: gpu.compute_units,
        vram_bytes: gpu.vram_bytes,
        name: gpu.name.as_deref(),
    })
}

fn name_source(gpu: &Gpu, row: Option<&Card>) -> String {
    match row {
        Some(row) => in_table(row),
        None if gpu.name.is_some() => {
            "As the driver or the PCI device tells it; the card table has no row for it".to_owned()
        }
        None => "Neither a driver nor the card table tells it".to_owned(),
    }
}

fn in_table(row: &Card) -> String {
    format!("The card table, as of {}: {}", row.as_of, row.source)
}

fn target(gpu: &Gpu) -> Vec<Fact> {
    if gpu.vendor == Some(GpuVendor::Nvidia) {
        let source = "NVIDIA's library, or the card table";
        return vec![fact(
            "compute capability",
            unknown(gpu.compute_capability.clone()),
            source,
        )];
    }
    let source = gpu
        .gfx_source
        .map_or_else(String::new, |source| format!("Read from {}", source.name()));
    let mut facts = vec![fact("gfx target", unknown(gpu.gfx.clone()), source)];
    facts.extend(gpu.reported_gfx.as_ref().map(|reported| Fact {
        odd: true,
        ..fact(
            "reported by tools",
            format!("{reported}, which it is not"),
            format!("ROCm's tools repeat what {OVERRIDE} says; the target above is the true one"),
        )
    }));
    facts
}

/// The settings that make ROCm take the card for another one.
fn overridden<'a>(gpu: &'a Gpu, system: &'a System) -> impl Iterator<Item = Fact> + 'a {
    let set = |setting: &&Setting| setting.name.starts_with(OVERRIDE) && !setting.value.is_empty();
    let amd = gpu.vendor == Some(GpuVendor::Amd);
    system
        .settings
        .iter()
        .filter(move |setting| amd && set(setting))
        .map(|setting| {
            let taken_for = match named_by(&setting.value) {
                Some(gfx) if gpu.gfx.as_ref() == Some(&gfx) => format!("{gfx}, which it is anyway"),
                Some(gfx) => gfx,
                None => "no target".to_owned(),
            };
            let effect = if setting.in_effect {
                "programs take it for"
            } else {
                "not in effect here, would make it"
            };
            let line = setting
                .line
                .map_or_else(String::new, |line| format!(", line {line}"));
            Fact {
                odd: true,
                ..fact(
                    "override",
                    format!("{}={}: {effect} {taken_for}", setting.name, setting.value),
                    format!("{}{line}; set-up says whether it does harm", setting.origin),
                )
            }
        })
}

/// The target that a value of the override stands for: `11.0.0` is gfx1100, `9.0.10` is gfx90a.
fn named_by(value: &str) -> Option<String> {
    let parts: Vec<u32> = value
        .trim()
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    match parts.as_slice() {
        [major, minor, stepping] => Some(format!("gfx{major}{minor:x}{stepping:x}")),
        _ => None,
    }
}

fn kind(gpu: &Gpu) -> Fact {
    let value = match gpu.integrated {
        Some(true) => "part of the processor, shares its memory",
        Some(false) => "a card of its own",
        None => "unknown",
    };
    fact("kind", value, "The card table's row of the PCI device or target")
}

fn units(gpu: &Gpu, row: Option<&Card>) -> Option<Fact> {
    let source = match (gpu.kfd_node, row) {
        (Some(node), _) if !gpu.kfd_forbidden => format!("KFD's properties of node {node}"),
        (_, Some(row)) => in_table(row),
        _ => "A tool's output".to_owned(),
    };
    let compute = gpu.compute_units.map(|count| ("compute units", count));
    let (name, count) = compute.or(gpu.multiprocessors.map(|count| ("multiprocessors", count)))?;
    Some(fact(name, count.to_string(), source))
}

fn memory(gpu: &Gpu) -> Vec<Fact> {
    let mut facts = vec![match &gpu.trainable {
        Some(trainable) => fact(
            "to train in",
            size(trainable.value),
            format!("What a trainer may use: {}", trainable.how),
        ),
        None => fact(
            "to train in",
            "unknown",
            "The memory of the card could not be read",
        ),
    }];
    let own = if gpu.integrated == Some(true) {
        "carve-out"
    } else {
        "VRAM"
    };
    facts.extend(gpu.vram_bytes.map(|bytes| {
        let used = gpu.vram_used_bytes.map_or_else(String::new, |used| {
            format!(", {} in use when it was looked at", size(used))
        });
        fact(own, size(bytes), format!("As the driver tells it{used}"))
    }));
    facts.extend(gpu.gtt_bytes.map(|bytes| {
        fact(
            "GTT",
            size(bytes),
            "The most that the driver lets this card map of main memory",
        )
    }));
    facts.extend(gpu.resizable_bar.map(|on| Fact {
        odd: !on,
        ..fact(
            "Resizable BAR",
            match (on, gpu.visible_vram_bytes) {
                (true, _) => "on".to_owned(),
                (false, Some(visible)) => format!("off: the processor reaches {} of it", size(visible)),
                (false, None) => "off".to_owned(),
            },
            "The part of VRAM that the processor can address, beside all of it",
        )
    }));
    facts
}

fn rates(gpu: &Gpu, row: Option<&Card>) -> Vec<Fact> {
    let origin = row.map_or_else(String::new, |row| format!(". {}", in_table(row)));
    let mut facts = Vec::new();
    if let Some(peak) = &gpu.peak {
        let tflops = |flops: f64| format!("{} TFLOPS", number(flops / 1e12));
        let how = format!("{}{origin}", peak.how);
        facts.extend(
            peak.fp16_flops_per_sec
                .map(|flops| fact("fp16 peak", tflops(flops), &how)),
        );
        facts.push(match peak.bf16_flops_per_sec {
            Some(flops) => fact("bf16 peak", tflops(flops), &how),
            None => fact("bf16 peak", "no bf16 of its own", &how),
        });
    }
    facts.extend(gpu.bandwidth_bytes_per_sec.as_ref().map(|bandwidth| {
        let value = format!("{} GB/s", number(bandwidth.value / 1e9));
        fact("bandwidth", value, format!("{}{origin}", bandwidth.how))
    }));
    facts
}

fn place(gpu: &Gpu) -> Vec<Fact> {
    let mut facts = Vec::new();
    facts.extend(gpu.pci.as_ref().map(|pci| {
        fact(
            "PCI address",
            pci,
            "The key by which all sources are joined, and by which a choice is kept",
        )
    }));
    facts.extend(gpu.device_id.as_ref().map(|device| {
        let revision = gpu
            .revision
            .as_ref()
            .map_or_else(String::new, |revision| format!(" revision {revision}"));
        let board = gpu
            .subsystem
            .as_ref()
            .map_or_else(String::new, |board| format!(", board {board}"));
        fact(
            "PCI device",
            format!("{device}{revision}{board}"),
            "As the card itself tells it",
        )
    }));
    facts.extend(gpu.link.as_ref().and_then(link));
    facts
}

fn link(link: &Link) -> Option<Fact> {
    let lanes = |speed: Option<f64>, width: Option<u32>| match (speed, width) {
        (Some(speed), Some(width)) => Some(format!("{speed} GT/s, {width} lanes")),
        (Some(speed), None) => Some(format!("{speed} GT/s")),
        (None, width) => width.map(|width| format!("{width} lanes")),
    };
    let now = lanes(link.speed_gt_per_sec, link.width);
    let most = lanes(link.max_speed_gt_per_sec, link.max_width);
    let value = match (now, most) {
        (Some(now), Some(most)) if now != most => format!("{now} now, at most {most}"),
        (now, most) => now.or(most)?,
    };
    let source = "As both ends of the link tell it; an idle card slows its link down";
    Some(fact("PCI link", value, source))
}

fn driver(gpu: &Gpu) -> Fact {
    let name = match (&gpu.driver, gpu.driver_bound) {
        _ if gpu.basic_display_driver => {
            "Microsoft's basic display driver: the maker's is missing".to_owned()
        }
        (Some(driver), _) => driver.clone(),
        (None, Some(false)) => "none is bound".to_owned(),
        (None, _) => "unknown".to_owned(),
    };
    let parts = [
        Some(name),
        gpu.driver_version.clone(),
        gpu.render_minor.map(|minor| format!("/dev/dri/renderD{minor}")),
        gpu.kfd_node.map(|node| format!("KFD node {node}")),
        gpu.kfd_forbidden
            .then(|| "its KFD node may not be read".to_owned()),
    ];
    let value = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Fact {
        odd: gpu.basic_display_driver || gpu.driver_bound == Some(false) || gpu.kfd_forbidden,
        ..fact(
            "driver",
            value,
            "The kernel driver that is bound to the PCI device",
        )
    }
}

/// What decides how the processor trains.
pub(super) fn of_processor(machine: &Machine) -> Vec<Fact> {
    let of = &machine.system.machine;
    let features = &of.cpu_features;
    let mut facts = vec![
        fact("processor", unknown(of.cpu_model.clone()), "/proc/cpuinfo"),
        fact(
            "cores",
            unknown(cores(machine)),
            "/proc/cpuinfo and the topology in /sys",
        ),
    ];
    facts.extend(of.usable_cores().map(|count| {
        fact(
            "threads to use",
            count.to_string(),
            "What the container or service that this runs in leaves of them",
        )
    }));
    facts.push(fact(
        "memory",
        unknown(of.usable_memory_bytes().map(size)),
        match of.limits.memory_max_bytes {
            Some(_) => "/proc/meminfo and the limit of the container or service that this runs in",
            None => "/proc/meminfo",
        },
    ));
    let sets = [
        ("AVX2", features.avx2),
        ("AVX-512", features.avx512f),
        ("AVX-512 bf16", features.avx512_bf16),
        ("AMX bf16", features.amx_bf16),
        ("F16C", features.f16c),
        ("Arm bf16", features.arm_bf16),
    ];
    let there: Vec<&str> = sets
        .iter()
        .filter(|(_, there)| *there == Some(true))
        .map(|(name, _)| *name)
        .collect();
    let told = sets.iter().any(|(_, there)| there.is_some());
    facts.push(fact(
        "instruction sets",
        match (there.is_empty(), told) {
            (false, _) => there.join(", "),
            (true, true) => "none of those that speed training up".to_owned(),
            (true, false) => "unknown".to_owned(),
        },
        "The processor's flags in /proc/cpuinfo",
    ));
    facts.push(fact(
        "bf16",
        match of.bf16_in_hardware() {
            Some(true) => "multiplied by the processor itself",
            Some(false) => "imitated, and slower than f32",
            None => "unknown",
        },
        "Follows from the instruction sets",
    ));
    let system = [
        of.os.clone(),
        of.kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
    ];
    let system = system.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if !system.is_empty() {
        facts.push(fact("system", system, "/etc/os-release and the kernel"));
    }
    facts.extend(of.container.as_ref().map(|container| {
        fact(
            "container",
            container,
            "Signs that the container leaves in the file system",
        )
    }));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_names_a_target() {
        assert_eq!(named_by("11.0.0").as_deref(), Some("gfx1100"));
        assert_eq!(named_by("9.0.10").as_deref(), Some("gfx90a"));
        assert_eq!(named_by("10.3.0").as_deref(), Some("gfx1030"));
        assert_eq!(named_by("gfx1100"), None);
        assert_eq!(named_by("11.0"), None);
    }
}
