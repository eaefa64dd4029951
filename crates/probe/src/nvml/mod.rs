//! What NVIDIA's management library (NVML) knows of its cards: names, memory, capabilities, live figures.
//!
//! The library comes with the driver and is loaded when it is needed; a machine without it gets an error value. Behind
//! a trait, so that all that is made of its answers is tested without a card. A capture keeps the answers in
//! [`LISTING`], so that a captured machine says the same.
//!
//! Not yet run on a machine with an NVIDIA card.

#[cfg(feature = "nvml")]
mod live;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::detect::json;
use crate::telemetry::{self, GpuSample};
use crate::tree::{entries, line_at, text};
use crate::{Gpu, GpuVendor, LIVE, Link};

/// Where a capture keeps the library's answers, below its root.
pub const LISTING: &str = "tunesmith-capture/nvml.json";

/// Why the library, or a card behind it, cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NvmlError {
    /// The root is another machine's.
    #[error(
        "NVIDIA's library knows this machine alone, and a capture was asked for that has no answers of it"
    )]
    NotThisMachine,
    /// The program was built without the feature `nvml`.
    #[error("this program was built without support for NVIDIA's library")]
    NotBuiltIn,
    /// No driver, or one without the library.
    #[error("NVIDIA's library could not be loaded: {0}")]
    NoLibrary(String),
    /// The library is there and refuses.
    #[error("NVIDIA's library gave no answer: {0}")]
    NoAnswer(String),
    /// A capture's file of answers is no such file.
    #[error("{LISTING} cannot be read: {0}")]
    BadListing(String),
}

/// The library, as far as it is used.
pub trait Nvml {
    /// The driver's version, e.g. `580.95.05`.
    fn driver_version(&self) -> Option<String>;

    /// The newest CUDA that the driver can run, e.g. `13.0`.
    fn cuda_driver_version(&self) -> Option<String>;

    /// PCI addresses of all cards, as the kernel writes them. Wakes cards that sleep.
    ///
    /// # Errors
    /// When the library gives no answer.
    fn addresses(&self) -> Result<Vec<String>, NvmlError>;

    /// What the card at a PCI address is. Wakes it.
    ///
    /// # Errors
    /// When the library does not know the card or gives no answer.
    fn device(&self, pci: &str) -> Result<Device, NvmlError>;

    /// What the card at a PCI address does at the moment; processes without names. Wakes it.
    ///
    /// # Errors
    /// When the library does not know the card or gives no answer.
    fn reading(&self, pci: &str) -> Result<GpuSample, NvmlError>;
}

/// A card as the library describes it. `None` where it does not support the question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// PCI address as the kernel writes it, e.g. `0000:01:00.0`.
    pub pci: String,
    /// PCI device, e.g. `0x2684`.
    pub device_id: Option<String>,
    /// PCI ids of the board's maker and model, e.g. `1043:889c`.
    pub subsystem: Option<String>,
    /// Product name.
    pub name: Option<String>,
    /// e.g. `GPU-` and a UUID.
    pub uuid: Option<String>,
    /// e.g. `8.9`.
    pub compute_capability: Option<String>,
    /// Streaming multiprocessors.
    pub multiprocessors: Option<u32>,
    /// The card's memory in bytes; `None` where it shares the processor's.
    pub memory_bytes: Option<u64>,
    /// In use, in bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory that the processor can address at once, in bytes.
    pub bar1_bytes: Option<u64>,
    /// The limit that is enforced, in watts.
    pub power_limit_watts: Option<f64>,
    /// Generation of the PCI Express link at the moment.
    pub link_generation: Option<u32>,
    /// Lanes at the moment.
    pub link_width: Option<u32>,
    /// Newest generation that both sides can.
    pub max_link_generation: Option<u32>,
    /// Most lanes that both sides can.
    pub max_link_width: Option<u32>,
}

/// All answers that detection needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// The driver's version.
    pub driver_version: Option<String>,
    /// The newest CUDA that the driver can run.
    pub cuda_driver_version: Option<String>,
    /// The cards that were awake.
    pub devices: Vec<Device>,
}

/// Loads the library; `root` must be this machine.
///
/// # Errors
/// When the root is a capture, or there is no library that works.
pub fn open(root: &Path) -> Result<Box<dyn Nvml + Send>, NvmlError> {
    if root != Path::new(LIVE) {
        return Err(NvmlError::NotThisMachine);
    }
    #[cfg(feature = "nvml")]
    return Ok(Box::new(live::Library::load()?));
    #[cfg(not(feature = "nvml"))]
    Err(NvmlError::NotBuiltIn)
}

/// The answers of the library of this machine, or those that a capture kept.
///
/// # Errors
/// When there are none.
pub fn listing(root: &Path) -> Result<Listing, NvmlError> {
    if root != Path::new(LIVE) {
        let listing = text(root, LISTING).ok_or(NvmlError::NotThisMachine)?;
        let listing = json(&listing).ok_or_else(|| NvmlError::BadListing("it is no JSON".to_owned()))?;
        return serde_json::from_value(listing).map_err(|error| NvmlError::BadListing(error.to_string()));
    }
    // Loading the library takes time that a machine without NVIDIA need not spend.
    let wakeful = wakeful_cards(root);
    if wakeful.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Listing::default());
    }
    list(open(root)?.as_ref(), wakeful)
}

/// Asks for the cards at `addresses`, or for all where those are unknown. A card that fails is left out.
fn list(library: &dyn Nvml, addresses: Option<Vec<String>>) -> Result<Listing, NvmlError> {
    let addresses = addresses.map_or_else(|| library.addresses(), Ok)?;
    Ok(Listing {
        driver_version: library.driver_version(),
        cuda_driver_version: library.cuda_driver_version(),
        devices: addresses
            .iter()
            .filter_map(|pci| library.device(pci).ok())
            .collect(),
    })
}

/// PCI addresses of the NVIDIA cards that do not sleep; `None` where the kernel does not list devices (WSL, Windows).
fn wakeful_cards(root: &Path) -> Option<Vec<String>> {
    let devices = entries(&root.join("sys/bus/pci/devices"));
    if devices.is_empty() {
        return None;
    }
    let starts = |device: &PathBuf, file: &str, with: &str| {
        line_at(&device.join(file)).is_some_and(|line| line.starts_with(with))
    };
    let cards = devices
        .into_iter()
        .filter(|device| starts(device, "vendor", "0x10de") && starts(device, "class", "0x03"))
        .filter(|device| !telemetry::is_asleep(device));
    Some(
        cards
            .filter_map(|device| Some(device.file_name()?.to_str()?.to_owned()))
            .collect(),
    )
}

/// A card as detection describes it, as far as the library knows.
pub(crate) fn gpu(device: &Device, listing: &Listing) -> Gpu {
    let link = Link {
        speed_gt_per_sec: device.link_generation.and_then(transfers),
        width: device.link_width,
        max_speed_gt_per_sec: device.max_link_generation.and_then(transfers),
        max_width: device.max_link_width,
    };
    Gpu {
        vendor: Some(GpuVendor::Nvidia),
        pci: Some(device.pci.clone()),
        device_id: device.device_id.clone(),
        subsystem: device.subsystem.clone(),
        name: device.name.clone(),
        uuid: device.uuid.clone(),
        compute_capability: device.compute_capability.clone(),
        multiprocessors: device.multiprocessors,
        vram_bytes: device.memory_bytes,
        vram_used_bytes: device.memory_used_bytes,
        visible_vram_bytes: device.bar1_bytes,
        resizable_bar: device
            .bar1_bytes
            .zip(device.memory_bytes)
            .map(|(bar, memory)| bar >= memory),
        power_limit_watts: device.power_limit_watts,
        link: (link != Link::default()).then_some(link),
        driver: Some("nvidia".to_owned()),
        driver_bound: Some(true),
        driver_version: listing.driver_version.clone(),
        ..Gpu::default()
    }
}

/// GT/s per lane of a generation of PCI Express (its base specifications 1.0 to 6.0).
fn transfers(generation: u32) -> Option<f64> {
    [2.5, 5.0, 8.0, 16.0, 32.0, 64.0]
        .get(generation.checked_sub(1)? as usize)
        .copied()
}

/// `00000000:01:00.0`, as the library writes addresses, in the kernel's form `0000:01:00.0`.
#[cfg(any(feature = "nvml", test))]
fn kernel_address(bus_id: &str) -> String {
    let bus_id = bus_id.to_ascii_lowercase();
    match bus_id.strip_prefix("0000") {
        Some(rest) if rest.find(':') == Some(4) => rest.to_owned(),
        _ => bus_id,
    }
}

/// Multiprocessors of a card with so many CUDA cores: cores per multiprocessor are fixed by the compute capability
/// (CUDA C++ Programming Guide, "Compute Capabilities"). `None` for those that are not listed here.
#[cfg(any(feature = "nvml", test))]
fn multiprocessors(cores: u32, major: i32, minor: i32) -> Option<u32> {
    let per_multiprocessor = match (major, minor) {
        (6 | 8, 0) | (7, 0 | 2 | 5) => 64,
        (5, _) | (6, 1 | 2) | (8, 6 | 7 | 9) | (9, 0) | (10, 0 | 3) | (12, 0 | 1) => 128,
        _ => return None,
    };
    (cores > 0 && cores.is_multiple_of(per_multiprocessor)).then(|| cores / per_multiprocessor)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::telemetry::CardState;
    use crate::tree::tests::tree;

    /// A library with the given cards.
    #[derive(Clone, Default)]
    pub(crate) struct Fake {
        pub(crate) devices: Vec<Device>,
        pub(crate) readings: Vec<(String, GpuSample)>,
    }

    impl Nvml for Fake {
        fn driver_version(&self) -> Option<String> {
            Some("580.95.05".to_owned())
        }

        fn cuda_driver_version(&self) -> Option<String> {
            Some("13.0".to_owned())
        }

        fn addresses(&self) -> Result<Vec<String>, NvmlError> {
            Ok(self.devices.iter().map(|device| device.pci.clone()).collect())
        }

        fn device(&self, pci: &str) -> Result<Device, NvmlError> {
            let device = self.devices.iter().find(|device| device.pci == pci);
            device
                .cloned()
                .ok_or_else(|| NvmlError::NoAnswer("not found".to_owned()))
        }

        fn reading(&self, pci: &str) -> Result<GpuSample, NvmlError> {
            let reading = self.readings.iter().find(|(address, _)| address == pci);
            reading
                .map(|(_, sample)| GpuSample {
                    state: CardState::Awake,
                    ..sample.clone()
                })
                .ok_or_else(|| NvmlError::NoAnswer("not found".to_owned()))
        }
    }

    fn rtx4090() -> Device {
        Device {
            pci: "0000:01:00.0".to_owned(),
            device_id: Some("0x2684".to_owned()),
            name: Some("NVIDIA GeForce RTX 4090".to_owned()),
            uuid: Some("GPU-00000001-0000-4000-8000-000000000000".to_owned()),
            compute_capability: Some("8.9".to_owned()),
            multiprocessors: Some(128),
            memory_bytes: Some(24564 << 20),
            memory_used_bytes: Some(512 << 20),
            bar1_bytes: Some(32768 << 20),
            power_limit_watts: Some(450.0),
            link_generation: Some(1),
            link_width: Some(16),
            max_link_generation: Some(4),
            max_link_width: Some(16),
            ..Device::default()
        }
    }

    fn listing_of(devices: Vec<Device>) -> Listing {
        let fake = Fake {
            devices,
            ..Fake::default()
        };
        list(&fake, None).unwrap()
    }

    #[test]
    fn a_card_is_described_as_far_as_the_library_knows_it() {
        let listing = listing_of(vec![rtx4090()]);
        let card = gpu(&listing.devices[0], &listing);
        assert_eq!(card.pci.as_deref(), Some("0000:01:00.0"));
        assert_eq!(
            (card.vram_bytes, card.resizable_bar),
            (Some(24564 << 20), Some(true))
        );
        assert_eq!(card.driver_version.as_deref(), Some("580.95.05"));
        let link = card.link.unwrap();
        assert_eq!(
            (link.speed_gt_per_sec, link.max_speed_gt_per_sec),
            (Some(2.5), Some(16.0))
        );
        let shared_memory = Device {
            pci: "000f:01:00.0".to_owned(),
            ..Device::default()
        };
        let card = gpu(&shared_memory, &listing);
        assert_eq!(
            (card.vram_bytes, card.resizable_bar, card.link),
            (None, None, None),
            "unknown stays unknown"
        );
    }

    #[test]
    fn detection_joins_the_answers_of_a_capture_with_the_files_by_address() {
        let json = serde_json::to_string(&listing_of(vec![rtx4090()])).unwrap();
        let machine = tree(&[
            (LISTING, json.as_str()),
            ("sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n"),
            (
                "sys/bus/pci/devices/0000:01:00.0/uevent",
                "DRIVER=nvidia\nPCI_ID=10DE:2684\nPCI_SLOT_NAME=0000:01:00.0\n",
            ),
            ("sys/bus/pci/devices/0000:01:00.0/revision", "0xa1\n"),
        ]);
        let system = crate::detect(machine.path(), &crate::CardTable::built_in());
        assert_eq!(system.gpus.len(), 1);
        let card = &system.gpus[0];
        assert_eq!(card.revision.as_deref(), Some("0xa1"), "from the kernel");
        assert_eq!(
            card.compute_capability.as_deref(),
            Some("8.9"),
            "from the library"
        );
        assert_eq!(
            (card.multiprocessors, card.vram_bytes),
            (Some(128), Some(24564 << 20))
        );
        assert_eq!(system.stacks.nvidia_driver.as_deref(), Some("580.95.05"));
        assert_eq!(system.stacks.cuda_driver.as_deref(), Some("13.0"));
        // A file that is none is told of, and the card stays.
        std::fs::write(machine.path().join(LISTING), "[5]").unwrap();
        let system = crate::detect(machine.path(), &crate::CardTable::built_in());
        assert_eq!(system.gpus.len(), 1);
        assert!(
            system.notes.iter().any(|note| note.path == LISTING),
            "{:?}",
            system.notes
        );
    }

    #[test]
    fn a_capture_keeps_the_answers_and_a_bad_one_is_an_error() {
        let json = serde_json::to_string(&listing_of(vec![rtx4090()])).unwrap();
        let capture = tree(&[(LISTING, &json)]);
        assert_eq!(listing(capture.path()).unwrap(), listing_of(vec![rtx4090()]));
        assert_eq!(listing(tree(&[]).path()), Err(NvmlError::NotThisMachine));
        let hostile = tree(&[(
            LISTING,
            "{\"devices\": [{\"pci\": \"a\", \"name\": \"x\\u001b[31m\"}]}",
        )]);
        let name = listing(hostile.path()).unwrap().devices[0].name.clone();
        assert_eq!(
            name.as_deref(),
            Some("x\u{fffd}[31m"),
            "escapes bring no control characters in"
        );
        let broken = tree(&[(LISTING, "{\"devices\": 5}")]);
        assert!(matches!(listing(broken.path()), Err(NvmlError::BadListing(_))));
    }

    #[test]
    fn sleeping_cards_are_not_asked_for() {
        let machine = tree(&[
            ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n"),
            ("sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n"),
            (
                "sys/bus/pci/devices/0000:01:00.0/power/runtime_status",
                "suspended\n",
            ),
            ("sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n"),
            ("sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n"),
            ("sys/bus/pci/devices/0000:02:00.0/vendor", "0x10de\n"),
            ("sys/bus/pci/devices/0000:02:00.0/class", "0x030200\n"),
            (
                "sys/bus/pci/devices/0000:02:00.0/power/runtime_status",
                "active\n",
            ),
            ("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n"),
            ("sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n"),
        ]);
        assert_eq!(
            wakeful_cards(machine.path()),
            Some(vec!["0000:02:00.0".to_owned()])
        );
        assert_eq!(wakeful_cards(tree(&[]).path()), None);
    }

    #[test]
    fn a_machine_without_the_library_gives_an_error_value() {
        // With a driver the answer is a listing; either way there is an answer and no crash.
        match listing(Path::new(LIVE)) {
            Ok(listing) => assert_eq!(listing.driver_version.is_some(), !listing.devices.is_empty()),
            Err(error) => assert!(matches!(
                error,
                NvmlError::NoLibrary(_) | NvmlError::NoAnswer(_) | NvmlError::NotBuiltIn
            )),
        }
        assert!(matches!(
            open(Path::new("/somewhere/else")),
            Err(NvmlError::NotThisMachine)
        ));
    }

    #[test]
    fn addresses_and_units_are_the_kernels() {
        assert_eq!(kernel_address("00000000:0A:00.0"), "0000:0a:00.0");
        assert_eq!(kernel_address("00010000:01:00.0"), "00010000:01:00.0");
        assert_eq!(kernel_address("0000:01:00.0"), "0000:01:00.0");
        // RTX 4090, RTX 2080 Ti, H200.
        assert_eq!(multiprocessors(16384, 8, 9), Some(128));
        assert_eq!(multiprocessors(4352, 7, 5), Some(68));
        assert_eq!(multiprocessors(16896, 9, 0), Some(132));
        for none in [
            multiprocessors(100, 8, 9),
            multiprocessors(0, 8, 9),
            multiprocessors(128, 99, 0),
        ] {
            assert_eq!(none, None);
        }
        assert_eq!(
            (transfers(0), transfers(5), transfers(9)),
            (None, Some(32.0), None)
        );
    }
}
