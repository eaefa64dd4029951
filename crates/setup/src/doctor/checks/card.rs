//! The card itself: whether a driver has it, and what it can compute.

use tunesmith_probe::Gpu;
use tunesmith_protocol::DType;

use super::Outcome;
use crate::doctor::subject::{Subject, capability, gib, is_amd, is_nvidia, setting_text};
use crate::doctor::version::Version;
use crate::doctor::{Cure, Needs, distribution};
use crate::knowledge::Standing;

pub(super) fn present(subject: &Subject<'_>) -> Outcome {
    let gpus = &subject.system.gpus;
    if subject.nothing_was_read() {
        return Outcome::unknown("nothing was read");
    }
    if gpus.is_empty() {
        return Outcome::note(
            "no graphics card of AMD or NVIDIA was found",
            "Recipes for the processor run; they take small models and patience.",
        )
        .cure(
            Cure::new("To train on the processor knowingly, name it.")
                .run("tunesmith quickstart --device cpu"),
        );
    }
    Outcome::ok(match gpus.len() {
        1 => "1 card".to_owned(),
        count => format!("{count} cards"),
    })
}

pub(super) fn driver(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.linux() || gpu.vendor.is_none() {
        return Outcome::NotApplicable;
    }
    let light = !subject.wanted(gpu) || subject.another_card_works(gpu);
    let install_nvidia = || {
        Cure::new("Install NVIDIA's driver from the distribution's packages, then reboot.")
            .run_if_known(distribution::install_nvidia(subject))
            .needs(Needs::Reboot)
    };
    match gpu.driver.as_deref() {
        Some("amdgpu" | "nvidia") => Outcome::ok(format!("driver {}", gpu.driver.as_deref().unwrap_or_default())),
        Some("vfio-pci") => Outcome::fails(
            "driver vfio-pci",
            "The card is there and is set aside for a virtual machine, so no program here can use it.",
        )
        .cure(
            Cure::new("Take the card's ids out of the vfio-pci settings (boot line and modprobe.d), then reboot.")
                .run("grep -rn vfio /etc/modprobe.d /proc/cmdline")
                .needs(Needs::Reboot),
        )
        .only_a_note_if(light),
        Some("nouveau") => Outcome::fails(
            "driver nouveau",
            "The card is there, its compute driver is missing: nouveau draws and does not run CUDA.",
        )
        .cure(install_nvidia())
        .only_a_note_if(light),
        Some("radeon") => Outcome::fails(
            "driver radeon",
            "The card is there, its compute driver is missing: radeon draws and does not run ROCm.",
        )
        .cure(
            Cure::new("Let amdgpu take the card: radeon.cik_support=0 amdgpu.cik_support=1 on the boot line.")
                .needs(Needs::Reboot),
        )
        .only_a_note_if(light),
        Some(other) => Outcome::unknown(format!("driver {other}, of which nothing is known here")),
        // NVIDIA's cards without a display part are listed by the driver itself.
        None if gpu.kfd_node.is_some() || (is_nvidia(gpu) && gpu.driver_version.is_some()) => {
            Outcome::ok("the compute driver lists the card")
        }
        None if gpu.driver_bound == Some(false) => Outcome::fails(
            "the card is on the PCI bus and no driver has it",
            "The card is there, its driver is missing.",
        )
        .cure(if is_nvidia(gpu) {
            install_nvidia()
        } else {
            Cure::new("Load amdgpu and read what the kernel says to it; a blacklist in modprobe.d is a usual reason.")
                .run("sudo modprobe amdgpu; sudo dmesg | tail -n 30")
        })
        .only_a_note_if(light),
        None => Outcome::unknown("which driver has the card was not read"),
    }
}

pub(super) fn compute_driver(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.linux() || !is_amd(gpu) || !matches!(gpu.driver.as_deref(), Some("amdgpu") | None) {
        return Outcome::NotApplicable;
    }
    if let Some(node) = gpu.kfd_node {
        return Outcome::ok(format!("KFD node {node}"));
    }
    if gpu.kfd_forbidden || gpu.driver_bound == Some(false) {
        return Outcome::NotApplicable;
    }
    // In a capture a missing folder may be one that nobody copied.
    let others_have_nodes = subject.amd().any(|other| other.kfd_node.is_some());
    if !subject.system.live && !others_have_nodes {
        return Outcome::unknown("the capture has no KFD topology");
    }
    let gfx = gpu.gfx.as_deref().unwrap_or_default();
    let why = if subject.rules.gfx.rdna4.has(gfx) {
        "The card is there, its compute driver is missing: this kernel's KFD does not know RDNA4 yet."
    } else {
        "The card is there, its compute driver is missing: KFD, the part of amdgpu that computes, does not list it."
    };
    Outcome::fails("no node in /sys/class/kfd/kfd/topology/nodes", why)
        .cure(
            Cure::new("Update to the distribution's current kernel with its own amdgpu, and reboot.")
                .run_if_known(distribution::update_kernel(subject))
                .needs(Needs::Reboot),
        )
        .only_a_note_if(!subject.wanted(gpu) || subject.another_card_works(gpu))
}

pub(super) fn windows_driver(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.windows() {
        return Outcome::NotApplicable;
    }
    if !gpu.basic_display_driver {
        return match &gpu.driver_version {
            Some(version) => Outcome::ok(format!("driver {version}")),
            None => Outcome::unknown("the driver's version was not read"),
        };
    }
    let page = if is_nvidia(gpu) {
        "nvidia.com/drivers"
    } else {
        "amd.com/support"
    };
    Outcome::fails(
        "Microsoft Basic Display Adapter",
        "The card is there, its driver is missing: Windows draws on it with its own basic one.",
    )
    .cure(
        Cure::new(format!(
            "Install the vendor's driver from {page}, then restart Windows."
        ))
        .needs(Needs::Reboot),
    )
    .only_a_note_if(!subject.wanted(gpu))
}

pub(super) fn target(_: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !is_amd(gpu) {
        return Outcome::NotApplicable;
    }
    match (&gpu.gfx, &gpu.reported_gfx) {
        (None, _) => Outcome::unknown(format!(
            "neither the kernel nor the card table names the target of device {}",
            gpu.device_id.as_deref().unwrap_or("unknown")
        )),
        (Some(gfx), Some(reported)) if gfx != reported => Outcome::note(
            format!("the card is {gfx}, tools report {reported}"),
            "A gfx override makes the tools say so; what is installed by their word is for another card.",
        ),
        (Some(gfx), _) => Outcome::ok(gfx.clone()),
    }
}

pub(super) fn route(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(gfx) = gpu
        .gfx
        .as_deref()
        .filter(|gfx| !subject.rules.gfx.wrong_gradients.has(gfx))
    else {
        return Outcome::NotApplicable;
    };
    let Some(target) = subject.target(gpu) else {
        return Outcome::unknown(format!("{gfx} is in no list of builds"));
    };
    if let Some(blocked) = &target.blocked {
        return Outcome::note(
            format!("{gfx}: {blocked}"),
            "No torch runs on this card. Recipes for the processor run.",
        )
        .cure(on_the_processor())
        .source(&target.source);
    }
    let experimental = target
        .routes
        .iter()
        .all(|route| route.standing == Standing::Experimental);
    if let Some(route) = target
        .routes
        .first()
        .filter(|_| experimental && subject.wanted(gpu))
    {
        return Outcome::note(
            format!("{gfx}: {}", route.evidence),
            "It may train; every result needs the numeric checks of the calibration.",
        )
        .cure(Cure::new("Calibrate before the first run that counts.").run("tunesmith calibrate"))
        .source(&target.source);
    }
    Outcome::ok(match target.routes.len() {
        1 => format!("1 build of torch for {gfx}"),
        count => format!("{count} builds of torch for {gfx}"),
    })
}

fn on_the_processor() -> Cure {
    Cure::new("Train on the processor, or on another card.").run("tunesmith quickstart --device cpu")
}

pub(super) fn gradients(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(gfx) = gpu.gfx.as_deref() else {
        return Outcome::NotApplicable;
    };
    let wrong = &subject.rules.gfx.wrong_gradients;
    if !wrong.has(gfx) {
        return Outcome::ok(format!("no report of wrong gradients on {gfx}"));
    }
    Outcome::note(
        format!("{gfx}: {}", wrong.reason),
        "Training on it ends without an error and learns the wrong thing. Recipes for the processor run.",
    )
    .cure(Cure::new("Train on the processor.").run("tunesmith quickstart --device cpu"))
    .source(&wrong.source)
}

pub(super) fn bf16(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let Some(target) = subject.target(gpu) else {
        return Outcome::unknown("the card's target or compute capability is not known");
    };
    if target.dtype == DType::Bf16 {
        return Outcome::ok(format!("{} has bf16", target.id));
    }
    Outcome::note(
        format!("{}: {}", target.id, target.dtype_reason),
        "Recipes for this card are in fp16. torch.cuda.is_bf16_supported() is no guide here: on RDNA2 it says yes, and \
         compiled kernels then end the process.",
    )
    .cure(Cure::new(
        "Nothing to do: Tunesmith picks fp16. In other programs set fp16 and leave bf16 off.",
    ))
    .source(&target.source)
}

pub(super) fn triton_buffers(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let broken = &subject.rules.gfx.buffer_ops_broken;
    let Some(gfx) = gpu
        .gfx
        .as_deref()
        .filter(|gfx| broken.has(gfx) && subject.trains(gpu))
    else {
        return Outcome::NotApplicable;
    };
    match subject.setting("AMDGCN_USE_BUFFER_OPS") {
        Some(setting) if setting.value == "0" => Outcome::ok(setting_text(setting)),
        _ => Outcome::note(
            format!("{gfx} and AMDGCN_USE_BUFFER_OPS is not 0"),
            "Kernels that Triton makes with buffer instructions start and write nothing, without an error. Tunesmith's \
             own runs set the variable; other programs need it.",
        )
        .cure(
            Cure::new("Set it and clear Triton's cache, which keeps the bad kernels.")
                .run("export AMDGCN_USE_BUFFER_OPS=0; rm -rf ~/.triton/cache"),
        )
        .source(&broken.source),
    }
}

pub(super) fn four_bit(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    match subject.target(gpu) {
        None => Outcome::unknown("the card's target or compute capability is not known"),
        Some(target) if target.four_bit => Outcome::ok(format!("{}: {}", target.id, target.four_bit_reason)),
        Some(target) => Outcome::limits(
            format!("{}: {}", target.id, target.four_bit_reason),
            "Models are trained in 16 bit only, so the largest that fits is smaller.",
        )
        .source(&target.source),
    }
}

pub(super) fn memory(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let least = &subject.rules.threshold.small_card_bytes;
    let trainable = gpu.trainable.as_ref().map(|trainable| trainable.value);
    let Some(bytes) = trainable.or(gpu.vram_bytes.filter(|_| gpu.integrated == Some(false))) else {
        return Outcome::unknown("the memory that training may use was not read");
    };
    if (bytes as f64) < least.value {
        return Outcome::limits(
            format!("{} for training", gib(bytes)),
            "Only the smallest models fit; the recipe for this size is a trial of the tools more than of a model.",
        )
        .source(&least.source);
    }
    Outcome::ok(format!("{} for training", gib(bytes)))
}

pub(super) fn capability_range(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !is_nvidia(gpu) {
        return Outcome::NotApplicable;
    }
    let Some(found) = capability(gpu) else {
        return Outcome::unknown("the compute capability was not read");
    };
    let row = &subject.rules.version.capability_without_route;
    if row.has(&found) {
        return Outcome::note(
            format!("compute capability {}", found.minor()),
            "No wheel of torch 2.11 has code for this card. Recipes for the processor run.",
        )
        .cure(
            Cure::new("Train on the processor, or on another card.").run("tunesmith quickstart --device cpu"),
        )
        .source(&row.source);
    }
    let with_code: Vec<&str> = subject
        .rules
        .cuda_wheel
        .iter()
        .filter(|wheel| wheel.capability.contains(&found))
        .map(|wheel| &*wheel.tag)
        .collect();
    if with_code.len() < subject.rules.cuda_wheel.len() {
        return Outcome::note(
            format!("compute capability {}: code in {} only", found.minor(), with_code.join(", ")),
            "Other wheels of torch end with `no kernel image is available`. The plan picks one that has the code.",
        )
        .cure(Cure::new("See which wheel the plan takes.").run("tunesmith plan"));
    }
    Outcome::ok(format!("compute capability {}", found.minor()))
}

pub(super) fn power_cap(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !is_nvidia(gpu) || !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let laptop = gpu.name.as_deref().is_some_and(|name| name.contains("Laptop"));
    let row = &subject.rules.threshold.laptop_power_watts;
    match gpu.power_limit_watts {
        None => Outcome::unknown("the power limit was not read"),
        Some(watts) if laptop && watts < row.value => Outcome::slows(
            format!("power limit {watts:.0} W"),
            "The laptop allows the card little power, as on battery or in a silent mode; it trains far below the speed \
             of its name.",
        )
        .cure(Cure::new("Plug the laptop in and choose its performance mode, then look again.").run("nvidia-smi -q -d POWER"))
        .source(&row.source),
        Some(watts) => Outcome::ok(format!("power limit {watts:.0} W")),
    }
}

pub(super) fn nvidia_driver_age(subject: &Subject<'_>) -> Outcome {
    if !subject.training().any(is_nvidia) {
        return Outcome::NotApplicable;
    }
    let Some((cuda, found)) = driver_cuda(subject) else {
        return Outcome::unknown("the CUDA version of the driver was not read");
    };
    let row = &subject.rules.version.oldest_cuda_driver;
    if row.has(&cuda) {
        return Outcome::fails(
            found,
            "The driver is older than CUDA 12, and every wheel of torch 2.11 needs 12 or newer.",
        )
        .cure(
            Cure::new("Install a newer driver (in Windows from nvidia.com/drivers), then reboot.")
                .run_if_known(distribution::install_nvidia(subject))
                .needs(Needs::Reboot),
        )
        .source(&row.source);
    }
    Outcome::ok(found)
}

/// The newest CUDA that NVIDIA's driver runs, and how that is known.
pub(super) fn driver_cuda(subject: &Subject<'_>) -> Option<(Version, String)> {
    let stacks = &subject.system.stacks;
    if let Some(cuda) = &stacks.cuda_driver {
        let version = Version::parse(cuda)?;
        return Some((version, format!("the driver runs CUDA up to {cuda}")));
    }
    let of_card = || {
        subject
            .system
            .gpus
            .iter()
            .filter(|gpu| is_nvidia(gpu))
            .find_map(|gpu| gpu.driver_version.as_ref())
    };
    let driver = stacks.nvidia_driver.as_ref().or_else(of_card)?;
    let driver = &own_number(driver).unwrap_or_else(|| driver.clone());
    let version = Version::parse(driver)?;
    let row = subject
        .rules
        .nvidia_driver
        .iter()
        .find(|row| row.driver.contains(&version))?;
    let cuda = Version::parse(&row.cuda)?;
    Some((
        cuda,
        format!("driver {driver}, which runs CUDA up to {}", row.cuda),
    ))
}

/// NVIDIA's own number in the one that Windows counts drivers by: 580.97 of `32.0.15.8097`.
fn own_number(windows: &str) -> Option<String> {
    let [_, _, third, fourth] = windows.split('.').collect::<Vec<_>>()[..] else {
        return None;
    };
    let digits = format!("{}{fourth:0>4}", third.chars().last()?);
    let is_number = digits.len() == 5 && digits.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| format!("{}.{}", &digits[..3], &digits[3..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_of_windows_has_nvidias_number_in_it() {
        assert_eq!(own_number("32.0.15.8097").as_deref(), Some("580.97"));
        assert_eq!(own_number("31.0.15.3598").as_deref(), Some("535.98"));
        for odd in ["580.95.05", "", "32.0..8097", "32.0.15.80é7"] {
            assert_eq!(own_number(odd), None, "{odd}");
        }
    }
}
