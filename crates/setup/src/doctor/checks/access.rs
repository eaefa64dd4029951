//! Whether this process may use the devices: groups, containers, Flatpak.
//!
//! A right that is missing is told by trying, not by the names of groups: in a container the names mean nothing, and a
//! group that was added an hour ago is in the user database and not in the session.

use tunesmith_probe::{DeviceAccess, Gpu, System};

use super::Outcome;
use crate::doctor::subject::{Subject, is_amd};
use crate::doctor::version::Version;
use crate::doctor::{Cure, Needs, Place};

pub(super) fn kfd_device(subject: &Subject<'_>) -> Outcome {
    if !subject.linux() || !subject.wants_amd() || subject.system.flatpak.is_some() {
        return Outcome::NotApplicable;
    }
    let Some(kfd) = &subject.system.access.kfd else {
        return Outcome::unknown("whether /dev/kfd is there was not read");
    };
    if kfd.exists {
        return Outcome::ok("/dev/kfd is there");
    }
    let light = subject
        .system
        .gpus
        .iter()
        .any(|gpu| !is_amd(gpu) && subject.trains(gpu));
    match subject.container() {
        Some(kind) => Outcome::fails(
            format!("/dev/kfd is not there; this is a container ({kind})"),
            "The card is there, the container was not given its compute device.",
        )
        .cure(
            Cure::new("Start the container with both devices and the host's groups.")
                .run("docker run --device /dev/kfd --device /dev/dri --group-add $(stat -c %g /dev/kfd) …")
                .at(Place::Host),
        ),
        None => Outcome::fails(
            "/dev/kfd is not there",
            "The card is there, its compute driver is missing: amdgpu makes this device when it starts computing.",
        )
        .cure(
            Cure::new("Load the driver and read what it says; if it was only just installed, reboot.")
                .run("sudo modprobe amdgpu; sudo dmesg | grep -iE 'kfd|amdgpu' | tail -n 20"),
        ),
    }
    .only_a_note_if(light)
}

pub(super) fn kfd_access(subject: &Subject<'_>) -> Outcome {
    if !subject.linux() || !subject.wants_amd() {
        return Outcome::NotApplicable;
    }
    match &subject.system.access.kfd {
        Some(kfd) if kfd.exists => device(subject, kfd),
        Some(_) => Outcome::NotApplicable,
        None => Outcome::unknown("the rights on /dev/kfd were not read"),
    }
}

pub(super) fn render_node(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.linux() || !is_amd(gpu) || !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let Some(minor) = gpu.render_minor else {
        return Outcome::unknown("which render node the card has was not read");
    };
    let path = format!("/dev/dri/renderD{minor}");
    let access = &subject.system.access;
    match node(subject.system, minor) {
        Some(node) if node.exists => Outcome::ok(format!("{path} is there")),
        None if access.kfd.is_none() && access.render_nodes.is_empty() => {
            Outcome::unknown("the device files were not read")
        }
        _ => {
            let cure = match subject.container() {
                Some(_) => Cure::new("Start the container with --device /dev/dri beside --device /dev/kfd.")
                    .run(
                        "docker run --device /dev/kfd --device /dev/dri --group-add $(stat -c %g /dev/kfd) …",
                    )
                    .at(Place::Host),
                None => Cure::new("Let udev make the device files anew.")
                    .run("sudo udevadm trigger --subsystem-match=drm"),
            };
            Outcome::fails(
                format!("{path} is not there"),
                "ROCm needs the card's render node beside /dev/kfd; without it the card is skipped.",
            )
            .cure(cure)
        }
    }
}

pub(super) fn render_access(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !subject.linux() || !is_amd(gpu) || !subject.trains(gpu) {
        return Outcome::NotApplicable;
    }
    let Some(minor) = gpu.render_minor else {
        return Outcome::unknown("which render node the card has was not read");
    };
    match node(subject.system, minor) {
        Some(node) if node.exists => device(subject, node),
        Some(_) => Outcome::NotApplicable,
        None => Outcome::unknown(format!("the rights on /dev/dri/renderD{minor} were not read")),
    }
}

fn node(system: &System, minor: u32) -> Option<&DeviceAccess> {
    let path = format!("/dev/dri/renderD{minor}");
    system.access.render_nodes.iter().find(|node| node.path == path)
}

/// The process lacks the number of the group that owns the device: in a container the names say nothing.
fn foreign_group(subject: &Subject<'_>, device: &DeviceAccess) -> Option<u32> {
    let groups = subject.system.access.process_groups.as_ref()?;
    let owner = device.group_id.filter(|owner| !groups.contains(owner))?;
    (subject.container().is_some() && device.read_write == Some(false)).then_some(owner)
}

fn device(subject: &Subject<'_>, device: &DeviceAccess) -> Outcome {
    let path = &device.path;
    let group = device
        .group
        .clone()
        .or(device.group_id.map(|id| format!("number {id}")));
    let owner = group
        .clone()
        .map_or(String::new(), |group| format!(", group {group}"));
    let mode = device
        .mode
        .map_or(String::new(), |mode| format!(", mode {:o}", mode & 0o777));
    let found = format!("{path}{owner}{mode}");
    match device.read_write {
        Some(true) => return Outcome::ok(format!("{found}: may be read and written")),
        None => return Outcome::unknown(format!("{found}: whether this process may use it was not tried")),
        Some(false) => {}
    }
    if foreign_group(subject, device).is_some() {
        // Told once, with the number to pass, by the check for containers.
        return Outcome::NotApplicable;
    }
    let found = format!("{found}: may not be read and written");
    let groups = subject.system.access.process_groups.as_deref();
    let in_process = device.group_id.and_then(|owner| Some(groups?.contains(&owner)));
    let group_may = device.mode.is_none_or(|mode| mode & 0o060 == 0o060);
    if in_process == Some(true) && group_may {
        return Outcome::fails(
            found,
            "The process is in the owning group and is refused all the same: a container's list of devices, SELinux or \
             AppArmor forbids it.",
        )
        .cure(Cure::new("Read which of them refused it.").run("sudo dmesg | grep -iE 'denied|avc' | tail -n 20"));
    }
    if !group_may {
        return Outcome::fails(found, "The device's mode keeps its own group out.").cure(
            Cure::new("Give the group its right by the rule that distributions ship, and let udev apply it.").run(
                "printf 'KERNEL==\"kfd\", GROUP=\"render\", MODE=\"0660\"\\nSUBSYSTEM==\"drm\", KERNEL==\"renderD*\", \
                 GROUP=\"render\", MODE=\"0660\"\\n' | sudo tee /etc/udev/rules.d/70-amdgpu.rules && sudo udevadm \
                 control --reload && sudo udevadm trigger",
            ),
        );
    }
    if device.user_in_group == Some(true) {
        return Outcome::fails(
            found,
            "The user database has you in the group, this session does not yet: groups are taken over at log-in.",
        )
        .cure(Cure::new("Log out and in again, then look again.").needs(Needs::LogOut));
    }
    let mut groups = vec!["render", "video"];
    let named = device.group.as_deref().filter(|name| is_group_name(name));
    groups.extend(named.filter(|name| !groups.contains(name)));
    Outcome::fails(
        found,
        "You are not in the group that owns the device, so torch says that there is no card. Both /dev/kfd and the \
         render node are needed.",
    )
    .cure(
        Cure::new("Add yourself to the groups, then log out and in again.")
            .run(format!("sudo usermod -aG {} \"$USER\"", groups.join(",")))
            .needs(Needs::LogOut),
    )
}

/// Names that can go into a command as they are.
fn is_group_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        && !name.starts_with('-')
}

pub(super) fn container_groups(subject: &Subject<'_>) -> Outcome {
    let Some(kind) = subject
        .container()
        .filter(|_| subject.linux() && subject.wants_amd())
    else {
        return Outcome::NotApplicable;
    };
    let access = &subject.system.access;
    let devices: Vec<&DeviceAccess> = access
        .kfd
        .iter()
        .chain(&access.render_nodes)
        .filter(|device| device.exists)
        .collect();
    if devices.is_empty() {
        return Outcome::NotApplicable;
    }
    if devices.iter().all(|device| device.read_write.is_none()) || access.process_groups.is_none() {
        return Outcome::unknown("the container's groups were not read");
    }
    let mut numbers: Vec<u32> = devices
        .iter()
        .filter_map(|device| foreign_group(subject, device))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.is_empty() {
        return Outcome::ok(format!("{kind}: the groups of the devices are passed on"));
    }
    let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let options: Vec<String> = numbers
        .iter()
        .map(|number| format!("--group-add {number}"))
        .collect();
    Outcome::fails(
        format!("{kind}: the devices belong to group {}, which this process is not in", list.join(" and ")),
        "A container knows the host's groups by number only; a name such as render may be another number in here, and \
         numbers differ between hosts.",
    )
    .cure(
        Cure::new("Start the container with the host's numbers; stat -c %g /dev/kfd /dev/dri/render* on the host shows them.")
            .run(format!("docker run --device /dev/kfd --device /dev/dri {} …", options.join(" ")))
            .at(Place::Host),
    )
}

pub(super) fn container_card(subject: &Subject<'_>, gpu: &Gpu) -> Outcome {
    if !is_amd(gpu) || subject.container().is_none() && !gpu.kfd_forbidden {
        return Outcome::NotApplicable;
    }
    if !gpu.kfd_forbidden {
        return Outcome::ok("the card's KFD node can be read");
    }
    Outcome::fails(
        "the card's KFD node is listed and may not be read",
        "The container's control group hides this card: the kernel lists it and ROCm skips it.",
    )
    .cure(
        Cure::new("Pass the card's render node to the container, or all of /dev/dri.")
            .run("docker run --device /dev/kfd --device /dev/dri …")
            .at(Place::Host),
    )
    .only_a_note_if(!subject.wanted(gpu) || subject.another_card_works(gpu))
}

pub(super) fn flatpak(subject: &Subject<'_>) -> Outcome {
    let Some(flatpak) = subject.system.flatpak.as_ref().filter(|_| subject.wants_amd()) else {
        return Outcome::NotApplicable;
    };
    let version = flatpak.version.as_deref();
    let found = format!(
        "Flatpak {}, devices: {}",
        version.unwrap_or("of unknown version"),
        if flatpak.devices.is_empty() {
            "none".to_owned()
        } else {
            flatpak.devices.join(", ")
        }
    );
    let has = |name: &str| flatpak.devices.iter().any(|device| device == name);
    let row = &subject.rules.version.flatpak_with_kfd;
    let includes_kfd = version.and_then(Version::parse).map(|version| row.has(&version));
    if has("all") || has("kfd") || has("dri") && includes_kfd == Some(true) {
        return Outcome::ok(found);
    }
    if has("dri") && includes_kfd.is_none() {
        return Outcome::unknown(found);
    }
    Outcome::fails(
        found,
        "The sandbox has no /dev/kfd. From Flatpak 1.17.8 on the permission `dri` includes it, before that only `all`.",
    )
    .cure(
        Cure::new("Allow the app its devices, with the app's id in place of APP.")
            .run("flatpak override --user --device=all APP")
            .at(Place::Host),
    )
    .source(&row.source)
}
