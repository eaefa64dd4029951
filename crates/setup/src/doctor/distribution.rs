//! The commands that differ from one distribution to the next.

use super::subject::Subject;

#[derive(Clone, Copy, PartialEq)]
enum Family {
    Ubuntu,
    Debian,
    Fedora,
    Arch,
    Suse,
}

fn family(subject: &Subject<'_>) -> Option<Family> {
    let name = subject.system.machine.os.as_deref()?.to_ascii_lowercase();
    let families = [
        (Family::Ubuntu, &["ubuntu", "mint", "pop!_os"][..]),
        (Family::Debian, &["debian"]),
        (Family::Fedora, &["fedora", "nobara"]),
        (Family::Arch, &["arch", "cachyos", "endeavouros", "manjaro"]),
        (Family::Suse, &["suse"]),
    ];
    let holds = |names: &[&str]| names.iter().any(|word| name.contains(word));
    families
        .iter()
        .find(|(_, names)| holds(names))
        .map(|(family, _)| *family)
}

/// Brings kernel and firmware up to what the distribution has; `None` where that is not known.
pub(crate) fn update_kernel(subject: &Subject<'_>) -> Option<&'static str> {
    Some(match family(subject)? {
        Family::Ubuntu | Family::Debian => "sudo apt update && sudo apt full-upgrade",
        Family::Fedora => "sudo dnf upgrade kernel linux-firmware",
        Family::Arch => "sudo pacman -Syu",
        Family::Suse => "sudo zypper dup",
    })
}

/// Installs NVIDIA's driver.
pub(crate) fn install_nvidia(subject: &Subject<'_>) -> Option<&'static str> {
    Some(match family(subject)? {
        Family::Ubuntu => "sudo ubuntu-drivers install",
        Family::Debian => "sudo apt install nvidia-driver",
        Family::Fedora => "sudo dnf install akmod-nvidia",
        Family::Arch => "sudo pacman -S nvidia-open",
        Family::Suse => return None,
    })
}

/// Writes the start image anew, so that settings of modules hold from the next start on.
pub(crate) fn rebuild_start_image(subject: &Subject<'_>) -> Option<&'static str> {
    Some(match family(subject)? {
        Family::Ubuntu | Family::Debian => "sudo update-initramfs -u",
        Family::Fedora | Family::Suse => "sudo dracut --force",
        Family::Arch => "sudo mkinitcpio -P",
    })
}
