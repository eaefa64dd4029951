//! The kernel, its modules and the card's firmware.

use tunesmith_probe::Gpu;

use super::Outcome;
use crate::doctor::subject::{Subject, is_amd};
use crate::doctor::{Cure, Needs, distribution};

fn newer_kernel(subject: &Subject<'_>, text: &str) -> Cure {
    Cure::new(text)
        .run_if_known(distribution::update_kernel(subject))
        .needs(Needs::Reboot)
}

fn kernel_text(subject: &Subject<'_>) -> String {
    match &subject.system.machine.kernel {
        Some(kernel) => format!("kernel {kernel}"),
        None => "a kernel of unknown version".to_owned(),
    }
}

pub(super) fn register_sizes(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let set = &subject.rules.gfx.needs_register_sizes;
    if !subject.linux() || !gpu.gfx.as_deref().is_some_and(|gfx| set.has(gfx)) || !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let cwsr_off = subject
        .kernel_parameter("amdgpu.cwsr_enable")
        .is_some_and(|(_, value)| value == "0")
        || subject
            .system
            .kernel
            .amdgpu_parameters
            .iter()
            .any(|(name, value)| name == "cwsr_enable" && value == "0");
    match gpu.cwsr_sizes_exported {
        Some(true) => Outcome::ok("cwsr_size and ctl_stack_size are in the KFD node"),
        None => Outcome::unknown("the KFD node was not read"),
        Some(false) if cwsr_off => Outcome::note(
            format!(
                "{}: no cwsr_size in the KFD node, and amdgpu.cwsr_enable=0",
                kernel_text(subject)
            ),
            "The stop-gap is on. A kernel with the fix makes it needless.",
        )
        .cure(newer_kernel(
            subject,
            "Update to kernel 6.18.4 or newer, or Ubuntu's OEM kernel, and reboot.",
        ))
        .source(&set.source),
        Some(false) => Outcome::fails(
            format!(
                "{}: no cwsr_size and no ctl_stack_size in the KFD node",
                kernel_text(subject)
            ),
            "ROCm then counts this card's registers wrongly and many programs crash or hang.",
        )
        .cure(newer_kernel(
            subject,
            "Update to kernel 6.18.4 or newer, or Ubuntu's OEM kernel, and reboot. As a stop-gap boot with \
             amdgpu.cwsr_enable=0.",
        ))
        .source(&set.source),
    }
}

/// The lower bits are the version; the kernel masks the others away.
const MES_VERSION_BITS: u64 = 0xfff;

fn mes_version(gpu: &Gpu) -> Option<u64> {
    let (_, text) = gpu.firmware.iter().find(|(name, _)| name == "mes_fw_version")?;
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    Some(number & MES_VERSION_BITS)
}

pub(super) fn mes_firmware(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let sets = &subject.rules.gfx;
    let Some(gfx) = gpu.gfx.as_deref().filter(|gfx| sets.strix.has(gfx)) else {
        return Outcome::NotApplicable;
    };
    if !subject.linux() || !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let mes = mes_version(gpu);
    let package = subject.system.stacks.linux_firmware.as_deref();
    let bad_mes = &subject.rules.threshold.bad_mes_firmware;
    let bad_package = &subject.rules.threshold.bad_linux_firmware;
    let is_bad = match (mes, package) {
        // What is loaded counts, not what is installed.
        (Some(mes), _) => (mes as f64 - bad_mes.value).abs() < 0.5,
        (None, Some(package)) => package.contains(&format!("{:.0}", bad_package.value)),
        (None, None) => {
            return Outcome::unknown(
                "neither fw_version/mes_fw_version of the card nor the firmware package was read; root may read \
                 /sys/kernel/debug/dri/*/amdgpu_firmware_info",
            );
        }
    };
    let found = match (mes, package) {
        (Some(mes), Some(package)) => format!("MES firmware {mes:#x}, linux-firmware {package}"),
        (Some(mes), None) => format!("MES firmware {mes:#x}"),
        (None, package) => format!("linux-firmware {}", package.unwrap_or_default()),
    };
    if !is_bad {
        return Outcome::ok(found);
    }
    let cure =
        Cure::new("Update linux-firmware to 20260110 or newer, write the start image anew, and reboot.")
            .run_if_known(distribution::update_kernel(subject))
            .needs(Needs::Firmware);
    if sets.mes_fault.has(gfx) {
        Outcome::fails(
            found,
            "AMD names this firmware as the cause of memory access faults under ROCm. One owner reports that another \
             version did not help.",
        )
    } else {
        Outcome::note(
            found,
            format!("On gfx1151 this firmware causes memory access faults. Reports for {gfx} contradict each other."),
        )
    }
    .cure(cure)
    .source(&bad_mes.source)
}

pub(super) fn strix_dkms(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let strix = gpu
        .gfx
        .as_deref()
        .is_some_and(|gfx| subject.rules.gfx.strix.has(gfx));
    if !subject.linux() || !strix || !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let amdttm = subject
        .system
        .kernel
        .modules
        .iter()
        .any(|module| module == "amdttm");
    match subject.system.kernel.amdgpu_dkms {
        Some(true) => {}
        _ if amdttm => {}
        Some(false) => return Outcome::ok("amdgpu is the kernel's own"),
        None => return Outcome::unknown("where amdgpu comes from was not read"),
    }
    Outcome::fails(
        if amdttm {
            "module amdttm is loaded: amdgpu comes from amdgpu-dkms"
        } else {
            "amdgpu comes from amdgpu-dkms"
        },
        "The module from outside takes the place of the kernel's own, which has the fixes for this card.",
    )
    .cure(
        Cure::new("Remove the module and reboot; ROCm in a Python environment needs none of it.")
            .run("sudo apt remove amdgpu-dkms amdgpu-dkms-firmware")
            .needs(Needs::Reboot),
    )
}

pub(super) fn secure_boot(subject: &Subject<'_>) -> Outcome {
    if !subject.linux() || !subject.wants_amd() {
        return Outcome::NotApplicable;
    }
    let kernel = &subject.system.kernel;
    match kernel.amdgpu_dkms {
        Some(false) => return Outcome::ok("amdgpu is the kernel's own, which Secure Boot accepts"),
        None => return Outcome::unknown("where amdgpu comes from was not read"),
        Some(true) => {}
    }
    let loaded = kernel.modules.iter().any(|module| module == "amdgpu")
        || subject.amd().any(|gpu| gpu.driver.as_deref() == Some("amdgpu"));
    match kernel.secure_boot {
        _ if loaded => Outcome::ok("amdgpu from amdgpu-dkms is loaded"),
        Some(false) => Outcome::ok("Secure Boot is off"),
        None => Outcome::unknown("whether Secure Boot is on was not read"),
        Some(true) => Outcome::fails(
            "Secure Boot is on, amdgpu comes from amdgpu-dkms and is not loaded",
            "Secure Boot refuses a module whose key it does not know.",
        )
        .cure(
            Cure::new("Enrol the key that signs the module; the next start asks for the password that you choose now.")
                .run("sudo mokutil --import /var/lib/dkms/mok.pub")
                .needs(Needs::Reboot),
        ),
    }
}

pub(super) fn rdna4(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let is_rdna4 = gpu
        .gfx
        .as_deref()
        .is_some_and(|gfx| subject.rules.gfx.rdna4.has(gfx));
    if !subject.linux() || !is_rdna4 {
        return Outcome::NotApplicable;
    }
    let row = &subject.rules.version.kernel_without_rdna4;
    match subject.kernel() {
        None => Outcome::unknown("the kernel's version was not read"),
        // A driver from outside the kernel brings its own KFD.
        Some(kernel) if row.has(&kernel) && gpu.kfd_node.is_none() => Outcome::fails(
            kernel_text(subject),
            "The kernel's KFD knows RDNA4 from 6.12 on, so ROCm does not see this card.",
        )
        .cure(newer_kernel(
            subject,
            "Update to kernel 6.12 or newer and reboot.",
        ))
        .source(&row.source)
        .only_a_note_if(!subject.trains(gpu)),
        Some(_) => Outcome::ok(kernel_text(subject)),
    }
}

pub(super) fn known_faults(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let Some(gfx) = gpu
        .gfx
        .as_deref()
        .filter(|_| subject.linux() && subject.trains(gpu))
    else {
        return Outcome::NotApplicable;
    };
    let Some(kernel) = subject.kernel() else {
        return Outcome::unknown("the kernel's version was not read");
    };
    let rows = &subject.rules.kernel;
    let row = rows
        .iter()
        .find(|row| row.gfx.iter().any(|target| target == gfx) && row.kernel.contains(&kernel));
    match row {
        None => Outcome::ok(kernel_text(subject)),
        Some(row) => Outcome::weighing(row.stops, kernel_text(subject), row.means.to_string())
            .cure(newer_kernel(subject, &row.cure))
            .source(&row.source),
    }
}

pub(super) fn misspelt(subject: &Subject<'_>) -> Outcome {
    if !subject.linux() || !subject.wants_amd() {
        return Outcome::NotApplicable;
    }
    let parameters = subject.kernel_parameters();
    if parameters.is_empty() && subject.system.kernel.command_line.is_none() {
        return Outcome::unknown("neither the boot line nor modprobe.d was read");
    }
    for (file, word) in &parameters {
        let name = word.split('=').next().unwrap_or_default();
        let row = subject.rules.parameter.iter().find(|row| *row.wrong == *name);
        if let Some(row) = row {
            return Outcome::limits(
                format!("{word} in {file}"),
                format!(
                    "There is no such parameter, so the kernel ignores it; {} was meant.",
                    row.right
                ),
            )
            .cure(Cure::new(format!("Correct the name in {file} and reboot.")).needs(Needs::Reboot))
            .source(&row.source);
        }
    }
    Outcome::ok(
        match parameters
            .iter()
            .filter(|(_, word)| word.starts_with("amdgpu.") || word.starts_with("ttm."))
            .count()
        {
            0 => "no parameters for amdgpu or ttm".to_owned(),
            1 => "1 parameter for amdgpu or ttm".to_owned(),
            count => format!("{count} parameters for amdgpu or ttm"),
        },
    )
}

pub(super) fn iommu(subject: &Subject<'_>) -> Outcome {
    let unified = subject.training_amd().any(|gpu| gpu.integrated == Some(true));
    if !subject.linux() || !unified {
        return Outcome::NotApplicable;
    }
    let Some(words) = &subject.system.kernel.command_line else {
        return Outcome::unknown("the boot line was not read");
    };
    if words.iter().any(|word| word == "amd_iommu=off") {
        return Outcome::note(
            "amd_iommu=off on the boot line",
            "Guides name it for some per cent of memory speed; it takes away the protection against devices that \
             write where they should not, and the NPU needs the IOMMU. Reports of its worth contradict each other.",
        )
        .cure(Cure::new("Prefer iommu=pt in its place, and reboot.").needs(Needs::Reboot));
    }
    Outcome::ok("the boot line does not switch the IOMMU off")
}

pub(super) fn changed(subject: &Subject<'_>) -> Outcome {
    let Some(good) = &subject.around.last_good else {
        return Outcome::NotApplicable;
    };
    let stacks = &subject.system.stacks;
    let pairs = [
        ("kernel", &good.kernel, &subject.system.machine.kernel),
        ("linux-firmware", &good.linux_firmware, &stacks.linux_firmware),
        ("NVIDIA's driver", &good.nvidia_driver, &stacks.nvidia_driver),
    ];
    let known: Vec<_> = pairs
        .iter()
        .filter_map(|(name, then, now)| Some((name, then.as_ref()?, now.as_ref()?)))
        .collect();
    if known.is_empty() {
        return Outcome::unknown("neither kernel nor firmware are known of both then and now");
    }
    let changes: Vec<String> = known
        .iter()
        .filter(|(_, then, now)| then != now)
        .map(|(name, then, now)| format!("{name} {then} is now {now}"))
        .collect();
    if changes.is_empty() {
        return Outcome::ok("as in the last good run");
    }
    Outcome::note(
        changes.join(", "),
        "The last good run was made before this change. If something fails now that worked, it comes first to mind.",
    )
    .cure(Cure::new("Nothing to do while all works; the earlier kernel is in the start menu for a comparison."))
}

/// Whether this machine has AMD's parts at all, for checks of the log.
pub(super) fn has_amd(subject: &Subject<'_>) -> bool {
    subject.system.gpus.iter().any(is_amd)
}
