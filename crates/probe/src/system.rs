//! What detection says of a machine: the words that the checks, the plan, the window and the JSON output share.
//!
//! `None` means that what was read does not determine the value. It is never a guess and never zero.

use serde::{Deserialize, Serialize};

use crate::{GpuVendor, Machine};

/// Version of the JSON form of [`System`].
pub const SYSTEM_SCHEMA: u32 = 1;

/// A machine as detection sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// [`SYSTEM_SCHEMA`] of whoever wrote it.
    pub schema: u32,
    /// Whether this is the machine that the program runs on, and not a capture.
    pub live: bool,
    /// What kind of system it is.
    pub platform: Platform,
    /// Processor, memory, kernel, container, limits.
    pub machine: Machine,
    /// The cards, in the order in which ROCm and CUDA number them where that is known (KFD nodes), else by PCI address.
    pub gpus: Vec<Gpu>,
    /// Indexes into `gpus` that a trainer should use; `None` where that cannot be told from what was read.
    pub train_on: Option<Vec<usize>>,
    /// Access to the devices that computing needs.
    pub access: Access,
    /// What is installed for the cards.
    pub stacks: Stacks,
    /// Kernel parameters and modules that matter here.
    pub kernel: Kernel,
    /// Settings of the environment that change what a card does: flags, masks, library paths.
    pub settings: Vec<Setting>,
    /// Flatpak, where this runs in one.
    pub flatpak: Option<Flatpak>,
    /// Lines of the kernel's log that speak of the cards, oldest first; `None` where it cannot be read.
    pub kernel_log: Option<Vec<String>>,
    /// What could not be read, or contradicts itself.
    pub notes: Vec<Note>,
}

/// The kind of system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Platform {
    /// Linux on the machine itself, or in a container.
    Linux,
    /// Linux under the Windows Subsystem for Linux.
    Wsl,
    /// Windows.
    Windows,
    /// macOS.
    Macos,
    /// It cannot be told.
    #[default]
    Unknown,
}

/// A graphics card, or the graphics of a processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Who made it.
    pub vendor: Option<GpuVendor>,
    /// PCI address, e.g. `0000:03:00.0`: the key by which sources are joined.
    pub pci: Option<String>,
    /// PCI device, e.g. `0x744c`.
    pub device_id: Option<String>,
    /// PCI revision, e.g. `0xc8`: with the device it names the product.
    pub revision: Option<String>,
    /// PCI ids of the board's maker and model, e.g. `1da2:e471`.
    pub subsystem: Option<String>,
    /// Product name.
    pub name: Option<String>,
    /// AMD: the true target, e.g. `gfx1100`, from KFD, the IP discovery tables or the card table.
    pub gfx: Option<String>,
    /// Where `gfx` was read.
    pub gfx_source: Option<GfxSource>,
    /// The target that tools report, where it differs from `gfx`: the work of an override.
    pub reported_gfx: Option<String>,
    /// NVIDIA: compute capability, e.g. `8.6`.
    pub compute_capability: Option<String>,
    /// Part of the processor, with memory shared with it.
    pub integrated: Option<bool>,
    /// AMD: compute units, as sold (not work-group processors).
    pub compute_units: Option<u32>,
    /// NVIDIA: streaming multiprocessors.
    pub multiprocessors: Option<u32>,
    /// The card's own memory in bytes; of a processor's graphics the part that is set aside.
    pub vram_bytes: Option<u64>,
    /// VRAM in use, in bytes, when it was read.
    pub vram_used_bytes: Option<u64>,
    /// The part of VRAM that the processor can address, in bytes.
    pub visible_vram_bytes: Option<u64>,
    /// Main memory that the card may map, in bytes.
    pub gtt_bytes: Option<u64>,
    /// GTT in use, in bytes, when it was read.
    pub gtt_used_bytes: Option<u64>,
    /// The pool that ROCm allocates from, in bytes (KFD's memory bank, or a tool's total).
    pub pool_bytes: Option<u64>,
    /// What a trainer may use, with how it was found.
    pub trainable: Option<Derived<u64>>,
    /// Resizable BAR; `None` on integrated graphics, where the question has no meaning.
    pub resizable_bar: Option<bool>,
    /// Peak rates by the vendor's figures.
    pub peak: Option<Peak>,
    /// Memory bandwidth in bytes per second by the vendor's figures.
    pub bandwidth_bytes_per_sec: Option<Derived<f64>>,
    /// The PCI Express link; `None` on integrated graphics.
    pub link: Option<Link>,
    /// Kernel driver in use, e.g. `amdgpu`, `vfio-pci`, `nouveau`, `nvidia`.
    pub driver: Option<String>,
    /// Whether a driver is bound: `Some(false)` where the device is there and no driver is.
    pub driver_bound: Option<bool>,
    /// Version of a driver that has its own, e.g. NVIDIA's `580.95.05`.
    pub driver_version: Option<String>,
    /// Number of the KFD node.
    pub kfd_node: Option<u32>,
    /// The KFD node is listed and may not be read: a container's control group hides the card.
    pub kfd_forbidden: bool,
    /// The number in `/dev/dri/renderD<number>`.
    pub render_minor: Option<u32>,
    /// The number in `/sys/class/drm/card<number>`.
    pub drm_card: Option<u32>,
    /// Whether KFD exports the sizes that gfx1151 needs for saving registers (`cwsr_size`, `ctl_stack_size`).
    pub cwsr_sizes_exported: Option<bool>,
    /// Firmware versions by name, e.g. `mes_fw_version` → `0x00000083`.
    pub firmware: Vec<(String, String)>,
    /// `active`, `suspended`, … as the kernel says it. A suspended card is not read further: reading would wake it.
    pub runtime_status: Option<String>,
    /// NVIDIA: power limit in watts.
    pub power_limit_watts: Option<f64>,
    /// NVIDIA: the UUID, by which a mask names the card whatever the order.
    pub uuid: Option<String>,
    /// AMD: the kernel's unique id as ROCm's masks take it (`GPU-<16 hex digits>`); secret in captures and reports.
    pub unique_id: Option<String>,
    /// Windows: the driver's adapter is Microsoft's basic one, so the vendor's driver is missing.
    pub basic_display_driver: bool,
}

/// Where a target was read, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GfxSource {
    /// `gfx_target_version` of the KFD node: immune to overrides.
    Kfd,
    /// The graphics core's version in the IP discovery tables.
    IpDiscovery,
    /// The PCI device in the card table.
    CardTable,
    /// A tool's output in which no override was seen.
    Tool,
}

impl GfxSource {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kfd => "KFD",
            Self::IpDiscovery => "the IP discovery tables",
            Self::CardTable => "the card table",
            Self::Tool => "a tool's output",
        }
    }
}

/// A value and how it was found, in one sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Derived<T> {
    /// The value.
    pub value: T,
    /// e.g. `VRAM of the card` or `GTT limit (KFD bank) less 10.2 GiB for the system`.
    pub how: String,
}

/// Peak rates, dense, in FLOP/s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// fp16 with fp32 accumulation (RDNA2: packed vector arithmetic).
    pub fp16_flops_per_sec: Option<f64>,
    /// bf16; `None` where the card has none of its own.
    pub bf16_flops_per_sec: Option<f64>,
    /// e.g. `96 CUs x 512 FLOP/clock x 2500 MHz (boost clock of the card table)`.
    pub how: String,
    /// Whether the clock is the vendor's boost clock, and not the driver's limit.
    pub vendor_clock: bool,
}

/// A PCI Express link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Transfers per second and lane in GT/s at the moment: an idle card slows its link down.
    pub speed_gt_per_sec: Option<f64>,
    /// Lanes at the moment.
    pub width: Option<u32>,
    /// Fastest rate that both sides can.
    pub max_speed_gt_per_sec: Option<f64>,
    /// Most lanes that both sides can.
    pub max_width: Option<u32>,
}

/// Access to device files, tried with the process's own rights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// `/dev/kfd`.
    pub kfd: Option<DeviceAccess>,
    /// `/dev/dri/renderD*`, in order.
    pub render_nodes: Vec<DeviceAccess>,
    /// `/dev/dxg`, WSL's way to the card, is there.
    pub dxg: Option<bool>,
    /// Numeric ids of the groups that the process really has.
    pub process_groups: Option<Vec<u32>>,
    /// User name; never written to captures or reports.
    #[serde(skip)]
    pub user: Option<String>,
}

/// One device file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceAccess {
    /// e.g. `/dev/kfd`.
    pub path: String,
    /// Whether it is there.
    pub exists: bool,
    /// Whether the process may read and write it; `None` where that cannot be told (captures).
    pub read_write: Option<bool>,
    /// Numeric id of the owning group.
    pub group_id: Option<u32>,
    /// The owning group's name in the user database.
    pub group: Option<String>,
    /// Whether the user database puts the user into that group: true beside a missing right means `log out and in`.
    pub user_in_group: Option<bool>,
    /// Permission bits, e.g. 0o660.
    pub mode: Option<u32>,
}

/// What is installed for the cards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stacks {
    /// Version in `/opt/rocm/.info/version`. ROCm in a Python environment needs none of it.
    pub rocm: Option<String>,
    /// Version of NVIDIA's kernel module.
    pub nvidia_driver: Option<String>,
    /// The newest CUDA that this driver can run, e.g. `13.0`.
    pub cuda_driver: Option<String>,
    /// WSL: `librocdxg.so` is there.
    pub librocdxg: Option<bool>,
    /// Windows: version of the display driver, by vendor name.
    pub windows_drivers: Vec<(String, String)>,
    /// Version of the linux-firmware package, e.g. `20260110`, where the package database shows it.
    pub linux_firmware: Option<String>,
    /// Distribution packages that matter, as `name version`, e.g. `libhsa-runtime64-1 5.7.1-2`.
    pub packages: Vec<String>,
}

/// The kernel's parameters and modules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The boot line's words.
    pub command_line: Option<Vec<String>>,
    /// `ttm.pages_limit`: most 4 KiB pages that all graphics may map.
    pub ttm_pages_limit: Option<u64>,
    /// Parameters of the amdgpu module by name.
    pub amdgpu_parameters: Vec<(String, String)>,
    /// Settings for `amdgpu` and `ttm` in `/etc/modprobe.d`, as `(file, line)`.
    pub modprobe_lines: Vec<(String, String)>,
    /// amdgpu is a module from outside the kernel (DKMS).
    pub amdgpu_dkms: Option<bool>,
    /// Names of loaded modules among those that matter: amdgpu, amdttm, ttm, nvidia, nouveau, kfd, vfio_pci.
    pub modules: Vec<String>,
    /// Secure Boot is on.
    pub secure_boot: Option<bool>,
}

/// A setting of the environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Name of the variable.
    pub name: String,
    /// Its value; an empty one is a value.
    pub value: String,
    /// What sets it: a file's path, or `the process's environment`.
    pub origin: String,
    /// Line in that file, from 1.
    pub line: Option<usize>,
    /// Whether it holds for the process that asks (its own environment, or a capture's stated one).
    pub in_effect: bool,
}

/// A Flatpak sandbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flatpak {
    /// Version of Flatpak.
    pub version: Option<String>,
    /// Devices that the sandbox may use, e.g. `dri`, `all`.
    pub devices: Vec<String>,
}

/// Something about the reading itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The file, below the root.
    pub path: String,
    /// What is wrong with it, in one sentence.
    pub text: String,
}
