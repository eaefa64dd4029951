//! The graphics cards of AMD and NVIDIA in brief, as a run's record names them. Which of them can train, and what is
//! missing for it, is the detection's business.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{CardTable, Gpu, detect};

/// Who made a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuVendor {
    /// PCI vendor 0x1002.
    Amd,
    /// PCI vendor 0x10de.
    Nvidia,
}

impl GpuVendor {
    /// The maker's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd => "AMD",
            Self::Nvidia => "NVIDIA",
        }
    }
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

/// The AMD and NVIDIA cards of [`crate::detect`] in brief. In a container these are all the host's, whether it may use
/// them or not.
pub fn gpus(root: &Path) -> Vec<GpuBrief> {
    let cards = detect(root, &CardTable::built_in()).gpus;
    cards.into_iter().filter_map(GpuBrief::new).collect()
}

impl GpuBrief {
    fn new(gpu: Gpu) -> Option<Self> {
        Some(Self {
            vendor: gpu.vendor?,
            device_id: gpu.device_id,
            pci_address: gpu.pci,
            name: gpu.name,
            vram_bytes: gpu.vram_bytes,
        })
    }
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
            // The driver's file is there and empty, and without the revision the card table knows only the chip.
            name: Some("Navi 21".to_owned()),
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
            name: Some("NVIDIA GeForce RTX 4080".to_owned()),
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
