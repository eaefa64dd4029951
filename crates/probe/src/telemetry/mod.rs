//! Live figures of the cards: how full, how busy, how fast, how hot, how thirsty, and for whom.
//!
//! The window, the terminal and the record of a run draw on the same samples. Files stay open between samples, so that
//! two samples a second cost well under a hundredth of a core.
//!
//! A laptop that is being watched must still be able to save power. A card that the kernel has put to sleep is not
//! read, since reading would wake it. And since each reading also puts off the moment at which the kernel would put it
//! to sleep, an idle card that may sleep is read only every few seconds.
//!
//! `None` is a gap: the card has no such sensor, or it could not be read this time. It is never zero.

mod amd;
mod counters;
mod energy;
mod kept_file;
pub mod pdh;
mod processes;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use counters::Counters;
pub use energy::Energy;

use crate::GpuVendor;
use crate::nvml::{self, Nvml, NvmlError};
use crate::tree::{entries, line_at, text_at, value};
use amd::AmdFiles;
use processes::Processes;

/// A card to watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// PCI address as the kernel writes it, e.g. `0000:03:00.0`.
    pub pci: String,
    /// Who made it.
    pub vendor: GpuVendor,
}

/// All watched cards at one moment, in the order of the targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, in seconds from a start that the caller chose.
    pub at_secs: f64,
    /// The cards.
    pub gpus: Vec<GpuSample>,
    /// There are processes whose use of a card may not be read: those of other users, unless root asks.
    pub processes_hidden: bool,
}

/// One card at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuSample {
    /// PCI address.
    pub pci: String,
    /// Whether the card could be read at all.
    pub state: CardState,
    /// Memory of the card that is in use, in bytes, by everyone.
    pub vram_used_bytes: Option<u64>,
    /// Main memory that is mapped for the card, in bytes.
    pub gtt_used_bytes: Option<u64>,
    /// How busy the compute units are, 0 to 100. A short-window figure: average five samples or more.
    pub load_percent: Option<f64>,
    /// How busy the memory is, 0 to 100.
    pub memory_load_percent: Option<f64>,
    /// Clock of the compute units in MHz.
    pub core_clock_mhz: Option<f64>,
    /// Clock of the memory in MHz.
    pub memory_clock_mhz: Option<f64>,
    /// Temperature at the chip's edge in degrees Celsius; of NVIDIA the only one.
    pub edge_celsius: Option<f64>,
    /// Hottest spot of the chip in degrees Celsius, the one at which AMD's cards slow down.
    pub junction_celsius: Option<f64>,
    /// Temperature of the memory in degrees Celsius.
    pub memory_celsius: Option<f64>,
    /// Power in watts. Of a processor's graphics it includes the processor.
    pub power_watts: Option<f64>,
    /// Energy in joules since the driver started, where the card counts it itself.
    pub energy_joules: Option<f64>,
    /// Speed of the first fan in turns per minute.
    pub fan_rpm: Option<f64>,
    /// Speed of the first fan as a share of its most, 0 to 100.
    pub fan_percent: Option<f64>,
    /// Memory in bytes that programs asked for on the card and that the driver had to move out: while training this is
    /// the sign of a card that is too full. Of the processes that may be read.
    pub evicted_vram_bytes: Option<u64>,
    /// Who uses the card, as far as it may be read, by process number.
    pub processes: Vec<GpuProcess>,
}

/// Whether a card could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CardState {
    /// It was read.
    Awake,
    /// The kernel has put it to sleep; nothing was read.
    Asleep,
    /// It was idle when it was last read, and is left alone for some seconds so that the kernel can put it to sleep.
    Resting,
    /// It is not there at the moment: taken out, being reset, or no library can reach it.
    #[default]
    Missing,
}

/// A process that uses a card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// Its number.
    pub pid: u32,
    /// Name of its program, at most 15 characters; arguments are not read.
    pub name: Option<String>,
    /// Memory of the card that it holds, in bytes, by the driver's account.
    pub vram_bytes: Option<u64>,
    /// Main memory that it has mapped for the card, in bytes.
    pub gtt_bytes: Option<u64>,
    /// What it asked for on the card and the driver moved out, in bytes.
    pub evicted_bytes: Option<u64>,
    /// Time that each engine has worked for it so far, in nanoseconds, by the engine's name, e.g. `compute`.
    pub engine_nanos: Vec<(String, u64)>,
}

/// Reads live figures of some cards again and again.
pub struct Sampler {
    root: PathBuf,
    cards: Vec<Card>,
    processes: Processes,
    nvml: NvmlAccess,
}

struct Card {
    target: Target,
    device: Option<PathBuf>,
    files: Option<AmdFiles>,
    /// Until then it is left alone.
    rests_until_secs: Option<f64>,
}

/// Longer than a card must be idle before the kernel puts it to sleep: 5 s, amdgpu's default.
const REST_SECS: f64 = 6.0;

/// NVIDIA's library is loaded when the first NVIDIA card is found awake, and not before.
enum NvmlAccess {
    NotTried,
    Loaded(Box<dyn Nvml + Send>),
    Failed(NvmlError),
}

impl Sampler {
    /// Watches `targets` on the machine below `root`. Nothing is read yet.
    pub fn open(root: &Path, targets: &[Target]) -> Self {
        let card = |target: &Target| Card {
            target: target.clone(),
            device: None,
            files: None,
            rests_until_secs: None,
        };
        Self {
            root: root.to_owned(),
            cards: targets.iter().map(card).collect(),
            processes: Processes::new(root),
            nvml: NvmlAccess::NotTried,
        }
    }

    /// As [`Sampler::open`], with another source of NVIDIA's figures than the library of this machine.
    pub fn with_nvml(root: &Path, targets: &[Target], nvml: Box<dyn Nvml + Send>) -> Self {
        Self {
            nvml: NvmlAccess::Loaded(nvml),
            ..Self::open(root, targets)
        }
    }

    /// Why NVIDIA's library cannot be used; `None` while it works or nobody needed it.
    pub fn nvml_error(&self) -> Option<&NvmlError> {
        match &self.nvml {
            NvmlAccess::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Reads all cards. `at_secs` is the time since a start of the caller's choice.
    pub fn sample(&mut self, at_secs: f64) -> Sample {
        let mut gpus = Vec::new();
        for card in &mut self.cards {
            let mut gpu = match card.state(&self.root, at_secs) {
                CardState::Awake => match card.target.vendor {
                    GpuVendor::Amd => card.amd_sample(),
                    GpuVendor::Nvidia => nvidia_sample(&mut self.nvml, &self.root, &card.target.pci),
                },
                state => GpuSample {
                    state,
                    ..GpuSample::default()
                },
            };
            gpu.pci.clone_from(&card.target.pci);
            card.rest_if_idle(&gpu, at_secs);
            gpus.push(gpu);
        }
        let is_read = |gpu: &GpuSample| gpu.state == CardState::Awake;
        if gpus.iter().any(is_read) {
            self.processes.refresh();
            for gpu in gpus.iter_mut().filter(|gpu| is_read(gpu)) {
                self.processes.add_to(gpu);
            }
        }
        Sample {
            at_secs,
            gpus,
            processes_hidden: self.processes.hidden(),
        }
    }
}

impl Card {
    /// Finds the card's folder, and tells whether it is to be read.
    fn state(&mut self, root: &Path, at_secs: f64) -> CardState {
        if !self.device.as_ref().is_some_and(|device| device.is_dir()) {
            self.files = None;
            self.device = device_folder(root, &self.target.pci);
        }
        match &self.device {
            Some(device) if is_asleep(device) => CardState::Asleep,
            Some(_) if self.rests(at_secs) => CardState::Resting,
            Some(_) => CardState::Awake,
            // WSL and Windows have no such folders; NVIDIA's library knows the card all the same.
            None if self.target.vendor == GpuVendor::Nvidia => CardState::Awake,
            None => CardState::Missing,
        }
    }

    fn rests(&self, at_secs: f64) -> bool {
        // Should the caller's clock have gone back, the rest is over.
        self.rests_until_secs
            .is_some_and(|until| (0.0..=REST_SECS).contains(&(until - at_secs)))
    }

    fn rest_if_idle(&mut self, gpu: &GpuSample, at_secs: f64) {
        if gpu.state == CardState::Awake {
            let is_idle = gpu.load_percent == Some(0.0);
            let rests = is_idle && self.device.as_ref().is_some_and(|device| may_sleep(device));
            self.rests_until_secs = rests.then_some(at_secs + REST_SECS);
        }
    }

    fn amd_sample(&mut self) -> GpuSample {
        let Some(device) = &self.device else {
            return GpuSample::default();
        };
        // Numbers of sensors change when a card is reset or the machine has slept.
        let sensors = amd::sensor_folder(device);
        if self.files.as_ref().is_none_or(|files| files.sensors != sensors) {
            self.files = Some(AmdFiles::open(device, sensors));
        }
        let Some(files) = &mut self.files else {
            return GpuSample::default();
        };
        let (sample, lost) = files.read();
        if lost {
            self.files = None;
            self.device = None;
        }
        sample
    }
}

/// Whether the kernel has put a device to sleep, or is about to, or is just waking it.
pub(crate) fn is_asleep(device: &Path) -> bool {
    let status = line_at(&device.join("power/runtime_status"));
    status.is_some_and(|status| ["suspended", "suspending", "resuming"].contains(&status.as_str()))
}

/// Whether the kernel would put an idle device to sleep: it is allowed to, and no display hangs on it.
fn may_sleep(device: &Path) -> bool {
    let shows_a_picture = || {
        let outputs = entries(&device.join("drm"))
            .into_iter()
            .flat_map(|card| entries(&card));
        outputs
            .into_iter()
            .any(|output| line_at(&output.join("enabled")).as_deref() == Some("enabled"))
    };
    line_at(&device.join("power/control")).as_deref() == Some("auto") && !shows_a_picture()
}

/// The folder of the device with this PCI address.
fn device_folder(root: &Path, pci: &str) -> Option<PathBuf> {
    let by_drm = entries(&root.join("sys/class/drm")).into_iter().find_map(|card| {
        let device = card.join("device");
        let uevent = text_at(&device.join("uevent"))?;
        (value(&uevent, '=', "PCI_SLOT_NAME") == Some(pci)).then_some(device)
    });
    // An address is a name and no path: what holds a separator is none.
    let by_address = || Some(root.join("sys/bus/pci/devices").join(pci)).filter(|folder| folder.is_dir());
    by_drm.or_else(|| {
        if pci.is_empty() || pci.contains(['/', '\\']) {
            None
        } else {
            by_address()
        }
    })
}

fn nvidia_sample(access: &mut NvmlAccess, root: &Path, pci: &str) -> GpuSample {
    if matches!(access, NvmlAccess::NotTried) {
        *access = match nvml::open(root) {
            Ok(library) => NvmlAccess::Loaded(library),
            Err(error) => NvmlAccess::Failed(error),
        };
    }
    let NvmlAccess::Loaded(library) = access else {
        return GpuSample::default();
    };
    library.reading(pci).unwrap_or_default()
}

#[cfg(test)]
mod tests;
