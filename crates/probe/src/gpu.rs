//! The graphics cards of AMD and NVIDIA in brief, as a run's record names them. Which of them can train, and what is
//! missing for it, is the detection's business.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::tree::{entries, line_at, number_at, text_at, value};

const AMD: u16 = 0x1002;
const NVIDIA: u16 = 0x10de;

/// Who made a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuVendor {
    /// PCI vendor 0x1002.
    Amd,
    /// PCI vendor 0x10de.
    Nvidia,
}

/// A card. What cannot be read is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuBrief {
    /// Who made it.
    pub vendor: GpuVendor,
    /// PCI device, e.g. `0x744c`.
    pub device_id: Option<String>,
    /// e.g. `0000:03:00.0`.
    pub pci_address: Option<String>,
    /// Name, where the driver tells one.
    pub name: Option<String>,
    /// The card's own memory, in bytes; of a processor's graphics the part that is set aside.
    pub vram_bytes: Option<u64>,
}

/// The AMD and NVIDIA cards that the kernel shows, by PCI address. In a container these are all the host's, whether it
/// may use them or not.
pub fn gpus(root: &Path) -> Vec<GpuBrief> {
    let mut gpus: Vec<GpuBrief> = entries(&root.join("sys/class/drm"))
        .iter()
        .filter(|card| is_card(card))
        .filter_map(|card| from_sysfs(root, &card.join("device")))
        .collect();
    // NVIDIA's driver makes no DRM card when its display part is off, as on servers.
    for folder in entries(&root.join("proc/driver/nvidia/gpus")) {
        let address = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        if !gpus.iter().any(|gpu| gpu.pci_address == address) {
            let name = nvidia_name(root, address.as_deref());
            let vendor = GpuVendor::Nvidia;
            gpus.push(GpuBrief {
                vendor,
                device_id: None,
                pci_address: address,
                name,
                vram_bytes: None,
            });
        }
    }
    gpus.sort_by(|a, b| a.pci_address.cmp(&b.pci_address));
    gpus
}

/// `card0`, but not its outputs such as `card0-DP-1`.
fn is_card(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_prefix("card"));
    name.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn from_sysfs(root: &Path, device: &Path) -> Option<GpuBrief> {
    let uevent = text_at(&device.join("uevent")).unwrap_or_default();
    let uevent: BTreeMap<&str, &str> = uevent.lines().filter_map(|line| line.split_once('=')).collect();
    let ids = uevent.get("PCI_ID").and_then(|ids| ids.split_once(':'));
    let id_in = |file: &str| hex(&line_at(&device.join(file))?);
    let vendor = match id_in("vendor").or_else(|| hex(ids?.0))? {
        AMD => GpuVendor::Amd,
        NVIDIA => GpuVendor::Nvidia,
        _ => return None,
    };
    let pci_address = uevent.get("PCI_SLOT_NAME").map(|address| (*address).to_owned());
    let name = match vendor {
        GpuVendor::Amd => line_at(&device.join("product_name")),
        GpuVendor::Nvidia => nvidia_name(root, pci_address.as_deref()),
    };
    Some(GpuBrief {
        vendor,
        device_id: id_in("device")
            .or_else(|| hex(ids?.1))
            .map(|id| format!("0x{id:04x}")),
        pci_address,
        name,
        vram_bytes: number_at(&device.join("mem_info_vram_total")),
    })
}

fn nvidia_name(root: &Path, address: Option<&str>) -> Option<String> {
    let information = text_at(
        &root
            .join("proc/driver/nvidia/gpus")
            .join(address?)
            .join("information"),
    )?;
    value(&information, ':', "Model")
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

fn hex(text: &str) -> Option<u16> {
    u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;
    use std::path::PathBuf;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name)
    }

    #[test]
    fn a_single_amd_card() {
        let expected = GpuBrief {
            vendor: GpuVendor::Amd,
            device_id: Some("0x73bf".to_owned()),
            pci_address: Some("0000:0c:00.0".to_owned()),
            // The driver's file is there and empty.
            name: None,
            vram_bytes: Some(17_163_091_968),
        };
        assert_eq!(gpus(&fixture("rx6900xt")), [expected]);
    }

    #[test]
    fn a_card_beside_the_graphics_of_the_processor() {
        let gpus = gpus(&fixture("rx6600-beside-igpu"));
        let seen: Vec<_> = gpus
            .iter()
            .map(|gpu| (gpu.device_id.as_deref(), gpu.vram_bytes))
            .collect();
        assert_eq!(
            seen,
            [
                (Some("0x164e"), Some(536_870_912)),
                (Some("0x73ff"), Some(8_573_157_376))
            ]
        );
    }

    #[test]
    fn an_nvidia_card_shows_less() {
        let expected = GpuBrief {
            vendor: GpuVendor::Nvidia,
            device_id: Some("0x2704".to_owned()),
            pci_address: Some("0000:09:00.0".to_owned()),
            name: None,
            vram_bytes: None,
        };
        assert_eq!(gpus(&fixture("rtx4080")), [expected]);
    }

    #[test]
    fn nvidia_cards_are_named_by_their_driver_with_or_without_a_display() {
        let tree = tree(&[
            (
                "sys/class/drm/card0/device/uevent",
                "PCI_ID=10DE:2704\nPCI_SLOT_NAME=0000:09:00.0\n",
            ),
            (
                "proc/driver/nvidia/gpus/0000:09:00.0/information",
                "Model: \t\t NVIDIA GeForce RTX 4080\n",
            ),
            (
                "proc/driver/nvidia/gpus/0000:41:00.0/information",
                "Model: \t\t NVIDIA H200\nIRQ:   \t\t 18\n",
            ),
        ]);
        let names: Vec<_> = gpus(tree.path())
            .into_iter()
            .map(|gpu| gpu.name.unwrap())
            .collect();
        assert_eq!(names, ["NVIDIA GeForce RTX 4080", "NVIDIA H200"]);
    }

    #[test]
    fn outputs_and_other_makers_are_left_out() {
        let tree = tree(&[
            ("sys/class/drm/card0/device/vendor", "0x8086\n"),
            ("sys/class/drm/card1-DP-1/device/vendor", "0x1002\n"),
            ("sys/class/drm/renderD128/device/vendor", "0x1002\n"),
            ("sys/class/drm/card2/device/vendor", "nonsense\n"),
            ("sys/class/drm/version", "drm 1.1.0\n"),
        ]);
        assert_eq!(gpus(tree.path()), []);
        assert_eq!(gpus(Path::new("no such folder")), []);
    }
}
