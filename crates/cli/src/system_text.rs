//! A machine for people: each card with what a trainer may use of it, then what surrounds it. What is not known is
//! left out or called unknown, and a figure says how it was found.

use std::fmt::Write as _;

use tunesmith_probe::{DeviceAccess, Gpu, Platform, System};

use crate::format::size;

/// Width of the column of names.
const NAMES: usize = 11;

/// The whole machine.
pub(crate) fn text(system: &System) -> String {
    let mut out = String::new();
    if system.gpus.is_empty() {
        out.push_str("No AMD or NVIDIA card was found\n");
    }
    for (index, gpu) in system.gpus.iter().enumerate() {
        let chosen = system.train_on.as_ref().map(|chosen| chosen.contains(&index));
        card(&mut out, index, gpu, chosen);
    }
    machine(&mut out, system);
    let in_effect = system.settings.iter().filter(|setting| setting.in_effect);
    let waiting = system.settings.iter().filter(|setting| !setting.in_effect);
    for (title, settings) in [
        ("Settings in effect", in_effect.collect::<Vec<_>>()),
        ("Settings in files, not in effect here", waiting.collect()),
    ] {
        if !settings.is_empty() {
            let _ = writeln!(out, "\n{title}");
        }
        for setting in settings {
            let line = setting
                .line
                .map_or_else(String::new, |line| format!(", line {line}"));
            let _ = writeln!(
                out,
                "  {}={}  ({}{line})",
                setting.name, setting.value, setting.origin
            );
        }
    }
    if !system.notes.is_empty() {
        let _ = writeln!(out, "\nWhat could not be read, or contradicts itself");
        for note in &system.notes {
            let _ = writeln!(out, "  {}: {}", note.path, note.text);
        }
    }
    out
}

/// A card's name, or what stands for it.
pub(crate) fn card_name(gpu: &Gpu) -> String {
    gpu.name.clone().unwrap_or_else(|| {
        let maker = gpu.vendor.map_or("graphics", |vendor| vendor.name());
        match &gpu.device_id {
            Some(device) => format!("{maker} card {device}"),
            None => format!("{maker} card"),
        }
    })
}

fn card(out: &mut String, index: usize, gpu: &Gpu, chosen: Option<bool>) {
    let mark = match chosen {
        Some(true) => ": train on this one",
        Some(false) => ": not for training",
        None => "",
    };
    let _ = writeln!(out, "Card {index}: {}{mark}", card_name(gpu));
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<NAMES$}{text}");
    };
    let kind = match gpu.integrated {
        Some(true) => Some("part of the processor".to_owned()),
        Some(false) => None,
        None => Some("whether it is part of the processor is unknown".to_owned()),
    };
    let place = [
        gpu.pci.clone(),
        gpu.device_id.as_ref().map(|id| with_revision(id, gpu)),
        kind,
    ];
    line("at", joined(place));
    line("target", target(gpu));
    let units = gpu.compute_units.map(|units| format!("{units} compute units"));
    let units = units.or_else(|| {
        gpu.multiprocessors
            .map(|count| format!("{count} multiprocessors"))
    });
    if let Some(units) = units {
        line("units", units);
    }
    if let Some(peak) = &gpu.peak {
        let rate =
            |name: &str, flops: Option<f64>| flops.map(|flops| format!("{:.1} TFLOPS {name}", flops / 1e12));
        let bf16 = rate("bf16", peak.bf16_flops_per_sec).or_else(|| Some("no bf16 of its own".to_owned()));
        let rates = joined([rate("fp16", peak.fp16_flops_per_sec), bf16]);
        line("peak", format!("{rates}: {}", peak.how));
    }
    line("memory", memory(gpu));
    if let Some(trainable) = &gpu.trainable {
        line(
            "trainable",
            format!("{}: {}", size(trainable.value), trainable.how),
        );
    }
    if let Some(bandwidth) = &gpu.bandwidth_bytes_per_sec {
        line("bandwidth", bandwidth.how.clone());
    }
    if let Some(link) = &gpu.link {
        let now = lanes(link.speed_gt_per_sec, link.width);
        let most = lanes(link.max_speed_gt_per_sec, link.max_width).map(|most| format!("at most {most}"));
        let link = joined([now, most]);
        line("link", link);
    }
    line("driver", driver(gpu));
}

fn with_revision(id: &str, gpu: &Gpu) -> String {
    match &gpu.revision {
        Some(revision) => format!("device {id} revision {revision}"),
        None => format!("device {id}"),
    }
}

fn target(gpu: &Gpu) -> String {
    let Some(gfx) = &gpu.gfx else {
        return gpu.compute_capability.as_ref().map_or_else(
            || "unknown".to_owned(),
            |capability| format!("compute capability {capability}"),
        );
    };
    let source = gpu
        .gfx_source
        .map_or_else(String::new, |source| format!(", from {}", source.name()));
    match &gpu.reported_gfx {
        Some(reported) => format!("{gfx}{source}; tools report {reported}, which is the work of an override"),
        None => format!("{gfx}{source}"),
    }
}

fn memory(gpu: &Gpu) -> String {
    let of = |total: Option<u64>, used: Option<u64>, name: &str| {
        let used = used.map_or_else(String::new, |used| format!(", {} in use", size(used)));
        total.map(|total| format!("{} {name}{used}", size(total)))
    };
    let own = if gpu.integrated == Some(true) {
        "set aside"
    } else {
        "of its own"
    };
    let bar = gpu
        .resizable_bar
        .map(|on| format!("Resizable BAR {}", if on { "on" } else { "off" }));
    let shared = of(gpu.gtt_bytes, gpu.gtt_used_bytes, "of main memory can be mapped");
    let text = joined([of(gpu.vram_bytes, gpu.vram_used_bytes, own), shared, bar]);
    if text.is_empty() {
        "unknown".to_owned()
    } else {
        text
    }
}

fn lanes(speed: Option<f64>, width: Option<u32>) -> Option<String> {
    match (speed, width) {
        (Some(speed), Some(width)) => Some(format!("{speed} GT/s x{width}")),
        (Some(speed), None) => Some(format!("{speed} GT/s")),
        (None, Some(width)) => Some(format!("x{width}")),
        (None, None) => None,
    }
}

fn driver(gpu: &Gpu) -> String {
    let driver = match (&gpu.driver, gpu.driver_bound, gpu.basic_display_driver) {
        (_, _, true) => "Microsoft's basic display driver: the maker's is missing".to_owned(),
        (Some(driver), ..) => driver.clone(),
        (None, Some(false), _) => "none bound".to_owned(),
        (None, ..) => "unknown".to_owned(),
    };
    let asleep = gpu.runtime_status.as_deref() == Some("suspended");
    joined([
        Some(driver),
        gpu.driver_version.clone(),
        gpu.render_minor.map(|minor| format!("/dev/dri/renderD{minor}")),
        gpu.kfd_node.map(|node| format!("KFD node {node}")),
        gpu.kfd_forbidden
            .then(|| "its KFD node may not be read".to_owned()),
        asleep.then(|| "asleep, and not read further".to_owned()),
    ])
}

fn machine(out: &mut String, system: &System) {
    let _ = writeln!(out, "\nMachine");
    let mut line = |name: &str, text: Option<String>| {
        let text = text
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| "unknown".to_owned());
        let _ = writeln!(out, "  {name:<NAMES$}{text}");
    };
    let machine = &system.machine;
    let platform = match system.platform {
        Platform::Linux => Some("Linux"),
        Platform::Wsl => Some("Linux under Windows (WSL)"),
        Platform::Windows => Some("Windows"),
        Platform::Macos => Some("macOS"),
        Platform::Unknown => None,
    };
    line(
        "system",
        Some(joined([
            platform.map(str::to_owned),
            machine.os.clone(),
            machine.kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
            machine
                .container
                .as_ref()
                .map(|kind| format!("in a container ({kind})")),
            system.flatpak.as_ref().map(|_| "in a Flatpak".to_owned()),
        ])),
    );
    line(
        "processor",
        Some(joined([
            machine.cpu_model.clone(),
            machine.cores_physical.map(|cores| format!("{cores} cores")),
            machine
                .usable_cores()
                .map(|cores| format!("{cores} threads usable")),
        ])),
    );
    line("memory", machine.usable_memory_bytes().map(size));
    let stacks = &system.stacks;
    let installed = joined([
        stacks
            .rocm
            .as_ref()
            .map(|version| format!("ROCm {version} in /opt/rocm")),
        stacks
            .nvidia_driver
            .as_ref()
            .map(|version| format!("NVIDIA driver {version}")),
        stacks
            .cuda_driver
            .as_ref()
            .map(|version| format!("up to CUDA {version}")),
    ]);
    if !installed.is_empty() {
        line("installed", Some(installed));
    }
    let access: Vec<String> = system
        .access
        .kfd
        .iter()
        .chain(&system.access.render_nodes)
        .map(device)
        .collect();
    if !access.is_empty() {
        line("devices", Some(access.join(", ")));
    }
    if let Some(limit) = system.kernel.ttm_pages_limit {
        line(
            "TTM limit",
            Some(format!(
                "{} of main memory for all graphics",
                size(limit.saturating_mul(4096))
            )),
        );
    }
}

fn device(device: &DeviceAccess) -> String {
    let state = match (device.exists, device.read_write, device.user_in_group) {
        (false, ..) => "missing",
        (true, Some(true), _) => "open to this user",
        (true, Some(false), Some(true)) => "closed until this user logs in again",
        (true, Some(false), _) => "closed to this user",
        (true, None, _) => "there",
    };
    format!("{} {state}", device.path)
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
