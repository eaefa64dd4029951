//! What the kernel's PCI and DRM folders say of a card: it needs no driver at all, and with amdgpu it tells memory and
//! firmware. A sleeping card is asked only what does not wake it.

use super::found::{Found, Source, hex_id, hex_revision, pci_address};
use super::reader::Reader;
use crate::{GfxSource, GpuVendor, Link};

const PCI: &str = "sys/bus/pci/devices";
const DRM: &str = "sys/class/drm";

/// A device and the folders that show it: on a live machine one is a link to the other, a capture may have either.
struct Place {
    address: Option<String>,
    folders: Vec<String>,
    drm_card: Option<u32>,
    render_minor: Option<u32>,
}

pub(crate) fn pci(reader: &Reader<'_>) -> Source {
    let mut places: Vec<Place> = reader
        .names(PCI)
        .iter()
        .filter_map(|name| {
            let address = pci_address(name)?;
            let folder = format!("{PCI}/{name}");
            is_display(reader, &folder).then(|| {
                let numbers = reader.names(&format!("{folder}/drm"));
                let number = |prefix| numbers.iter().find_map(|name| numbered(name, prefix));
                Place {
                    address: Some(address),
                    drm_card: number("card"),
                    render_minor: number("renderD"),
                    folders: vec![folder],
                }
            })
        })
        .collect();
    for name in reader.names(DRM) {
        let (card, minor) = (numbered(&name, "card"), numbered(&name, "renderD"));
        if card.is_none() && minor.is_none() {
            continue;
        }
        let folder = format!("{DRM}/{name}/device");
        if !reader.exists(&folder) {
            continue;
        }
        let address = slot_name(reader, &folder)
            .or_else(|| reader.link_name(&folder))
            .and_then(|address| pci_address(&address));
        let known = places
            .iter_mut()
            .find(|place| address.is_some() && place.address == address);
        match known {
            Some(place) => {
                place.folders.push(folder);
                place.drm_card = place.drm_card.or(card);
                place.render_minor = place.render_minor.or(minor);
            }
            // A render node without an address cannot be told from the card of the same device.
            None if card.is_some() || address.is_some() => {
                places.push(Place {
                    address,
                    folders: vec![folder],
                    drm_card: card,
                    render_minor: minor,
                });
            }
            None => {}
        }
    }
    let mut cards: Vec<Found> = places.iter().filter_map(|place| place.card(reader)).collect();
    cards.sort_by(|a, b| a.gpu.pci.cmp(&b.gpu.pci));
    Source::new(PCI, cards)
}

/// Bridges and the sound of an HDMI output carry the same vendor: the class tells the card.
fn is_display(reader: &Reader<'_>, folder: &str) -> bool {
    let class = reader.hex(&format!("{folder}/class"));
    let class = class.or_else(|| {
        let uevent = reader.text(&format!("{folder}/uevent"))?;
        u32::from_str_radix(uevent_value(&uevent, "PCI_CLASS")?, 16).ok()
    });
    match class {
        Some(class) => class >> 16 == 0x03,
        None => reader.exists(&format!("{folder}/drm")),
    }
}

/// The number in `card0`, which `card0-DP-1` does not have.
fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let number = name.strip_prefix(prefix)?;
    number
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| number.parse().ok())?
}

fn slot_name(reader: &Reader<'_>, folder: &str) -> Option<String> {
    let uevent = reader.text(&format!("{folder}/uevent"))?;
    uevent_value(&uevent, "PCI_SLOT_NAME").map(str::to_owned)
}

fn uevent_value<'a>(uevent: &'a str, key: &str) -> Option<&'a str> {
    uevent
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .map(str::trim)
}

impl Place {
    /// The path of a file in the first folder that has it.
    fn path(&self, reader: &Reader<'_>, file: &str) -> Option<String> {
        let paths = self.folders.iter().map(|folder| format!("{folder}/{file}"));
        paths.into_iter().find(|path| reader.exists(path))
    }

    fn hex(&self, reader: &Reader<'_>, file: &str) -> Option<u32> {
        reader.hex(&self.path(reader, file)?)
    }

    fn number(&self, reader: &Reader<'_>, file: &str) -> Option<u64> {
        reader.number(&self.path(reader, file)?)
    }

    fn line(&self, reader: &Reader<'_>, file: &str) -> Option<String> {
        reader.line(&self.path(reader, file)?)
    }

    fn card(&self, reader: &Reader<'_>) -> Option<Found> {
        let uevent = self.path(reader, "uevent").and_then(|path| reader.text(&path));
        let ids = |key: &str| {
            let (vendor, device) = uevent_value(uevent.as_deref()?, key)?.split_once(':')?;
            Some((
                u32::from_str_radix(vendor, 16).ok()?,
                u32::from_str_radix(device, 16).ok()?,
            ))
        };
        let vendor = match self.hex(reader, "vendor").or_else(|| Some(ids("PCI_ID")?.0))? {
            0x1002 => GpuVendor::Amd,
            0x10de => GpuVendor::Nvidia,
            _ => return None,
        };
        let mut found = Found::of(vendor);
        let gpu = &mut found.gpu;
        gpu.pci.clone_from(&self.address);
        gpu.drm_card = self.drm_card;
        gpu.render_minor = self.render_minor;
        gpu.device_id = self
            .hex(reader, "device")
            .or_else(|| Some(ids("PCI_ID")?.1))
            .filter(|id| *id <= 0xffff)
            .map(hex_id);
        gpu.revision = self
            .hex(reader, "revision")
            .filter(|revision| *revision <= 0xff)
            .map(hex_revision);
        let subsystem = || {
            Some((
                self.hex(reader, "subsystem_vendor")?,
                self.hex(reader, "subsystem_device")?,
            ))
        };
        gpu.subsystem = subsystem()
            .or_else(|| ids("PCI_SUBSYS_ID"))
            .map(|(maker, model)| format!("{maker:04x}:{model:04x}"));
        gpu.driver = uevent
            .as_deref()
            .and_then(|uevent| uevent_value(uevent, "DRIVER"))
            .map(str::to_owned)
            .or_else(|| {
                self.folders
                    .iter()
                    .find_map(|folder| reader.link_name(&format!("{folder}/driver")))
            });
        gpu.driver_bound = uevent
            .as_ref()
            .map(|_| gpu.driver.is_some())
            .or(gpu.driver.as_ref().map(|_| true));
        gpu.runtime_status = self.line(reader, "power/runtime_status");
        if let Some(gfx) = self.discovered_target(reader) {
            gpu.gfx = Some(gfx);
            gpu.gfx_source = Some(GfxSource::IpDiscovery);
        }
        let asleep = gpu
            .runtime_status
            .as_deref()
            .is_some_and(|status| status.starts_with("suspend"));
        if !asleep {
            self.read_awake(reader, &mut found);
        }
        Some(found)
    }

    /// What a driver or the bus must ask the card for.
    fn read_awake(&self, reader: &Reader<'_>, found: &mut Found) {
        let gpu = &mut found.gpu;
        gpu.name = self.line(reader, "product_name");
        gpu.vram_bytes = self
            .number(reader, "mem_info_vram_total")
            .filter(|bytes| *bytes > 0);
        gpu.vram_used_bytes = self.number(reader, "mem_info_vram_used");
        gpu.visible_vram_bytes = self.number(reader, "mem_info_vis_vram_total");
        gpu.gtt_bytes = self
            .number(reader, "mem_info_gtt_total")
            .filter(|bytes| *bytes > 0);
        gpu.gtt_used_bytes = self.number(reader, "mem_info_gtt_used");
        if self
            .path(reader, "mem_info_vram_vendor")
            .or_else(|| self.path(reader, "board_info"))
            .is_some()
        {
            gpu.integrated = Some(false);
        }
        let unique_id = self
            .line(reader, "unique_id")
            .filter(|id| id.chars().any(|digit| digit != '0'));
        gpu.unique_id = unique_id
            .filter(|id| id.len() <= 32)
            .map(|id| format!("GPU-{id}"));
        let speed = |file| self.line(reader, file)?.split_whitespace().next()?.parse().ok();
        let width = |file| {
            self.line(reader, file)?
                .parse()
                .ok()
                .filter(|lanes| (1..=32).contains(lanes))
        };
        let link = Link {
            speed_gt_per_sec: speed("current_link_speed"),
            width: width("current_link_width"),
            max_speed_gt_per_sec: speed("max_link_speed"),
            max_width: width("max_link_width"),
        };
        gpu.link = (link != Link::default()).then_some(link);
        gpu.firmware = self
            .folders
            .iter()
            .map(|folder| format!("{folder}/fw_version"))
            .find(|folder| reader.exists(folder))
            .map(|folder| {
                let versions = reader.names(&folder).into_iter();
                versions
                    .filter_map(|name| Some((name.clone(), reader.line(&format!("{folder}/{name}"))?)))
                    .collect()
            })
            .unwrap_or_default();
        if let Some(version) = self.line(reader, "vbios_version") {
            gpu.firmware.push(("vbios_version".to_owned(), version));
        }
    }

    /// The target after the graphics core's version in the IP discovery tables.
    fn discovered_target(&self, reader: &Reader<'_>) -> Option<String> {
        let core = ["ip_discovery/die/0/11/0", "ip_discovery/die/0/GC/0"];
        let core = core.into_iter().find(|core| self.path(reader, core).is_some())?;
        let part = |name| self.number(reader, &format!("{core}/{name}"));
        graphics_core_target(part("major")?, part("minor")?, part("revision")?).map(str::to_owned)
    }
}

/// The target of a graphics core's version. It is not the same number (kernel, `amdkfd/kfd_device.c`).
pub(crate) fn graphics_core_target(major: u64, minor: u64, revision: u64) -> Option<&'static str> {
    Some(match (major, minor, revision) {
        (10, 1, 10) => "gfx1010",
        (10, 1, 2) => "gfx1011",
        (10, 1, 1) => "gfx1012",
        (10, 3, 0) => "gfx1030",
        (10, 3, 1) => "gfx1033",
        (10, 3, 2) => "gfx1031",
        (10, 3, 3) => "gfx1035",
        (10, 3, 4) => "gfx1032",
        (10, 3, 5) => "gfx1034",
        (10, 3, 6 | 7) => "gfx1036",
        (11, 0, 0) => "gfx1100",
        (11, 0, 1 | 4) => "gfx1103",
        (11, 0, 2) => "gfx1102",
        (11, 0, 3) => "gfx1101",
        (11, 5, 0) => "gfx1150",
        (11, 5, 1) => "gfx1151",
        (11, 5, 2) => "gfx1152",
        (11, 5, 3) => "gfx1153",
        (12, 0, 0) => "gfx1200",
        (12, 0, 1) => "gfx1201",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    fn cards(files: &[(&str, &str)]) -> Vec<Found> {
        let folder = tree(files);
        pci(&Reader::new(folder.path())).cards
    }

    #[test]
    fn bridges_sound_and_other_makers_are_left_out() {
        let found = cards(&[
            ("sys/bus/pci/devices/0000:04:00.0/class", "0x060400\n"),
            ("sys/bus/pci/devices/0000:04:00.0/vendor", "0x1002\n"),
            ("sys/bus/pci/devices/0000:05:00.1/class", "0x040300\n"),
            ("sys/bus/pci/devices/0000:05:00.1/vendor", "0x1002\n"),
            ("sys/bus/pci/devices/0000:05:00.0/class", "0x038000\n"),
            ("sys/bus/pci/devices/0000:05:00.0/vendor", "0x1002\n"),
            ("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n"),
            ("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n"),
            ("sys/class/drm/card1-DP-1/device/vendor", "0x1002\n"),
            ("sys/class/drm/version", "drm 1.1.0\n"),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].gpu.pci.as_deref(), Some("0000:05:00.0"));
    }

    #[test]
    fn no_driver_is_told_from_an_unknown_one() {
        let bound = |uevent: &str| {
            let found = cards(&[
                ("sys/bus/pci/devices/0000:05:00.0/class", "0x030000\n"),
                ("sys/bus/pci/devices/0000:05:00.0/uevent", uevent),
                ("sys/bus/pci/devices/0000:05:00.0/vendor", "0x1002\n"),
            ]);
            (found[0].gpu.driver.clone(), found[0].gpu.driver_bound)
        };
        assert_eq!(bound("PCI_ID=1002:744C\n"), (None, Some(false)));
        assert_eq!(
            bound("DRIVER=vfio-pci\n"),
            (Some("vfio-pci".to_owned()), Some(true))
        );
        let unknown = cards(&[("sys/class/drm/card0/device/vendor", "0x1002\n")]);
        assert_eq!(unknown[0].gpu.driver_bound, None);
    }

    #[test]
    fn a_sleeping_card_is_asked_only_what_does_not_wake_it() {
        let found = cards(&[
            (
                "sys/class/drm/card0/device/uevent",
                "DRIVER=amdgpu\nPCI_ID=1002:7480\nPCI_SLOT_NAME=0000:03:00.0\n",
            ),
            ("sys/class/drm/card0/device/power/runtime_status", "suspended\n"),
            ("sys/class/drm/card0/device/mem_info_vram_total", "8573157376\n"),
            ("sys/class/drm/card0/device/current_link_speed", "2.5 GT/s PCIe\n"),
        ]);
        assert_eq!(found[0].gpu.device_id.as_deref(), Some("0x7480"));
        assert_eq!(found[0].gpu.vram_bytes, None);
        assert_eq!(found[0].gpu.link, None);
    }

    #[test]
    fn versions_of_the_graphics_core_are_no_targets() {
        assert_eq!(graphics_core_target(11, 0, 1), Some("gfx1103"));
        assert_eq!(graphics_core_target(11, 0, 3), Some("gfx1101"));
        assert_eq!(graphics_core_target(10, 3, 2), Some("gfx1031"));
        assert_eq!(graphics_core_target(13, 0, 0), None);
    }
}
