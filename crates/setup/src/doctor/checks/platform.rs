//! What the kind of system asks for: WSL, Windows.

use tunesmith_probe::{Gpu, Platform};

use super::Outcome;
use crate::doctor::subject::{ENVIRONMENT_UNREAD, GIB, Subject, gib, is_amd, setting_text};
use crate::doctor::version::Version;
use crate::doctor::{Cure, Needs, Place};

pub(super) fn supported(subject: &Subject<'_>) -> Outcome {
    let os = subject.system.machine.os.as_deref();
    match subject.system.platform {
        Platform::Linux => Outcome::ok(os.unwrap_or("Linux")),
        Platform::Wsl => Outcome::ok(format!("{} in WSL", os.unwrap_or("Linux"))),
        Platform::Windows => Outcome::ok(os.unwrap_or("Windows")),
        Platform::Macos => Outcome::note(
            "macOS",
            "Neither ROCm nor CUDA runs here; recipes for the processor do.",
        ),
        Platform::Unknown => Outcome::unknown("the kind of system was not read"),
    }
}

pub(super) fn wsl_device(subject: &Subject<'_>) -> Outcome {
    if !subject.wsl() {
        return Outcome::NotApplicable;
    }
    match subject.system.access.dxg {
        Some(true) => Outcome::ok("/dev/dxg is there; /dev/kfd and /dev/dri are not needed in WSL"),
        None => Outcome::unknown("whether /dev/dxg is there was not read"),
        Some(false) => Outcome::fails(
            "/dev/dxg is not there",
            "WSL reaches the card through this device; without it this is WSL 1, or an old WSL 2.",
        )
        .cure(
            Cure::new("Update WSL in Windows, then start it anew.")
                .run("wsl --update; wsl --shutdown")
                .at(Place::Windows),
        ),
    }
}

fn wsl_with_amd(subject: &Subject<'_>) -> bool {
    // A Linux that knows no card still has AMD's parts in it where someone set them up.
    subject.wsl()
        && (subject.wants_amd() || subject.system.gpus.is_empty() && subject.system.stacks.rocm.is_some())
}

pub(super) fn wsl_librocdxg(subject: &Subject<'_>) -> Outcome {
    if !wsl_with_amd(subject) {
        return Outcome::NotApplicable;
    }
    match subject.system.stacks.librocdxg {
        Some(true) => Outcome::ok("librocdxg.so is there"),
        None => Outcome::unknown("whether librocdxg.so is there was not read"),
        Some(false) if !subject.system.live && subject.system.stacks.rocm.is_none() => {
            Outcome::unknown("the capture holds no ROCm")
        }
        Some(false) => Outcome::fails(
            "librocdxg.so is not there",
            "ROCm in WSL reaches the card through AMD's librocdxg and Adrenalin 26.2.2 or newer in Windows.",
        )
        .cure(
            Cure::new("Install librocdxg as its README says, then look again.")
                .run("git clone https://github.com/ROCm/librocdxg && less librocdxg/README.md"),
        ),
    }
}

pub(super) fn wsl_detection(subject: &Subject<'_>) -> Outcome {
    if !wsl_with_amd(subject) {
        return Outcome::NotApplicable;
    }
    let row = &subject.rules.version.rocm_that_finds_dxg;
    let setting = subject.setting("HSA_ENABLE_DXG_DETECTION");
    if let Some(setting) = setting.filter(|setting| setting.value == "1") {
        return Outcome::ok(setting_text(setting));
    }
    let rocm = subject.rocm();
    if rocm.as_ref().is_some_and(|rocm| row.has(rocm)) {
        return Outcome::ok("this ROCm looks for /dev/dxg by itself");
    }
    let found = match setting {
        Some(setting) => setting_text(setting),
        None if subject.environment_unread() => return Outcome::unknown(ENVIRONMENT_UNREAD),
        None => "HSA_ENABLE_DXG_DETECTION is not set".to_owned(),
    };
    Outcome::note(
        found,
        "ROCm before 7.13 does not look for /dev/dxg without it and ends with `hsa_init Failed`. Tunesmith's own runs \
         set it; other programs need it.",
    )
    .cure(
        Cure::new("Set it for every session.")
            .run("echo 'export HSA_ENABLE_DXG_DETECTION=1' >> ~/.profile && export HSA_ENABLE_DXG_DETECTION=1"),
    )
    .source(&row.source)
}

pub(super) fn wsl_old_runtime(subject: &Subject<'_>) -> Outcome {
    if !wsl_with_amd(subject) {
        return Outcome::NotApplicable;
    }
    let packages = &subject.system.stacks.packages;
    let row = &subject.rules.version.wsl_old_hsa;
    let version = packages
        .iter()
        .find_map(|package| package.strip_prefix("libhsa-runtime64-1 "));
    match version.and_then(Version::parse) {
        Some(found) if row.has(&found) => Outcome::fails(
            format!("package libhsa-runtime64-1 {}", version.unwrap_or_default()),
            "The distribution's old ROCm runtime is found before AMD's, and it does not know WSL.",
        )
        .cure(Cure::new("Remove it.").run("sudo apt remove libhsa-runtime64-1"))
        .source(&row.source),
        Some(_) => Outcome::ok("libhsa-runtime64-1 is new enough"),
        None if subject.system.live || !packages.is_empty() => {
            Outcome::ok("libhsa-runtime64-1 is not installed")
        }
        None => Outcome::unknown("the list of packages was not read"),
    }
}

pub(super) fn wsl_memory(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.wsl() || !is_amd(gpu) || !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let (Some(card), Some(machine)) = (
        gpu.pool_bytes.or(gpu.vram_bytes),
        subject.system.machine.memory_bytes,
    ) else {
        return Outcome::unknown("the card's memory or WSL's was not read");
    };
    let found = format!("the card shows {}, WSL has {}", gib(card), gib(machine));
    if (card as f64 / machine as f64 - 1.0).abs() > 0.03 {
        return Outcome::ok(found);
    }
    Outcome::limits(
        found,
        "Both are the same: with Resizable BAR off the card's memory is taken from WSL's, so its limit is the card's.",
    )
    .cure(
        Cure::new(
            "Switch Resizable BAR on in the BIOS. Until then raise `memory=` under [wsl2] in %UserProfile%\\.wslconfig \
             and start WSL anew.",
        )
        .run("notepad \"$env:USERPROFILE\\.wslconfig\"; wsl --shutdown")
        .at(Place::Windows)
        .needs(Needs::Bios),
    )
}

pub(super) fn wsl_free_memory(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.wsl() || !is_amd(gpu) || !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let (Some(total), Some(used)) = (gpu.vram_bytes, gpu.vram_used_bytes) else {
        return Outcome::unknown("how much of the card's memory is free was not read");
    };
    if total > 0 && used >= total {
        return Outcome::note(
            format!("0 of {} free", gib(total)),
            "A known fault of WSL: the card reports no free memory although it has some. Training may still run.",
        )
        .cure(Cure::new("Start WSL anew, and try a short run.").run("wsl --shutdown").at(Place::Windows));
    }
    Outcome::ok(format!(
        "{} of {} free",
        gib(total.saturating_sub(used)),
        gib(total)
    ))
}

pub(super) fn windows_build(subject: &Subject<'_>) -> Outcome {
    if !subject.windows() && !subject.wsl() {
        return Outcome::NotApplicable;
    }
    let of_name = || build_in(subject.system.machine.os.as_deref()?);
    let Some(build) = subject.around.windows_build.or_else(of_name) else {
        return Outcome::unknown("the build of Windows was not read");
    };
    let row = &subject.rules.threshold.windows_build;
    if f64::from(build) < row.value {
        return Outcome::note(
            format!("Windows build {build}"),
            "This is Windows 10. AMD supports ROCm on Windows 11; on 10 users report failures in WSL.",
        )
        .cure(Cure::new("Update to Windows 11 if cards are not found.").needs(Needs::Reboot))
        .source(&row.source);
    }
    Outcome::ok(format!("Windows build {build}"))
}

/// 19045 of `Microsoft Windows 10 Pro 10.0.19045`.
fn build_in(name: &str) -> Option<u32> {
    let rest = &name[name.find("10.0.")? + 5..];
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

pub(super) fn windows_runtime(subject: &Subject<'_>) -> Outcome {
    if !subject.windows() {
        return Outcome::NotApplicable;
    }
    match subject.around.windows_vc_runtime {
        Some(true) => Outcome::ok("Visual C++ 2015-2022 runtime"),
        None => Outcome::unknown("whether the Visual C++ runtime is installed was not read"),
        Some(false) => Outcome::fails(
            "the Visual C++ 2015-2022 runtime is missing",
            "torch's libraries need it; without it they end with WinError 1114 or 126.",
        )
        .cure(Cure::new("Install it.").run("winget install --id Microsoft.VCRedist.2015+.x64")),
    }
}

pub(super) fn windows_carve_out(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.windows() || !is_amd(gpu) || gpu.integrated != Some(true) || !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let Some(bytes) = gpu.vram_bytes.filter(|bytes| *bytes > 0) else {
        return Outcome::unknown("the memory set aside for graphics was not read");
    };
    // The driver may keep some megabytes of it for itself.
    let gibibytes = bytes.div_ceil(GIB);
    if gibibytes.is_power_of_two() {
        return Outcome::ok(gib(bytes));
    }
    Outcome::limits(
        format!("{} set aside for graphics", gib(bytes)),
        "Sizes that are no power of two, such as 96 GB, are reported to end with `out of memory` while much is free.",
    )
    .cure(
        Cure::new(format!(
            "Set {} GB for graphics in the BIOS or in AMD's software, and restart.",
            gibibytes.next_power_of_two() / 2
        ))
        .needs(Needs::Bios),
    )
}

pub(super) fn windows_rdna2_driver(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    let is_rdna2 = gpu.gfx.as_deref().is_some_and(|gfx| gfx.starts_with("gfx103"));
    if !subject.windows() || !is_rdna2 {
        return Outcome::NotApplicable;
    }
    let drivers = &subject.system.stacks.windows_drivers;
    let of_amd = drivers
        .iter()
        .find(|(vendor, _)| vendor.to_ascii_lowercase().contains("amd"));
    let row = &subject.rules.version.windows_rdna2_driver;
    // Windows itself counts drivers from 30 on; Adrenalin's own number is the year.
    let adrenalin = of_amd
        .and_then(|(_, version)| Version::parse(version))
        .filter(|version| (20..30).contains(&version.part(0)));
    match adrenalin {
        Some(version) if row.has(&version) => Outcome::fails(
            format!("Adrenalin {}", of_amd.map_or("", |(_, version)| version)),
            "With this driver RDNA2 cards vanish from HIP, although Windows shows them.",
        )
        .cure(Cure::new("Install another version of Adrenalin from amd.com/support.").needs(Needs::Reboot))
        .source(&row.source)
        .only_a_note_if(!subject.trains(gpu)),
        Some(_) => Outcome::ok(format!("Adrenalin {}", of_amd.map_or("", |(_, version)| version))),
        None => Outcome::unknown("the version of Adrenalin was not read"),
    }
}
