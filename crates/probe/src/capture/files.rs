//! Which files of a machine a capture takes: those on this list and no others.
//!
//! It is the list of what detection and the checks read. A file that is not named here is never opened, so that nothing
//! gets into a capture that nobody thought of.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::detect::{looks_like_environment, looks_like_log};
use crate::tree::{entries, line_at, text, text_at};

/// How a file is made fit for other eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The kernel's own words and numbers: identifiers alone are taken out.
    Kernel,
    /// Anything may be in it.
    Text,
    /// That it is there is all that is told.
    Mark,
    /// A few bytes without text.
    Bytes,
    BootLine,
    /// Lines about the modules of cards alone.
    ModuleLines,
    /// As `/proc/modules` has them, without the modules' addresses.
    LoadedModules,
    /// Processors and groups that the process may use.
    Status,
    ControlGroups,
    UniqueId,
    KfdProperties,
    /// Version and devices of a Flatpak.
    Flatpak,
}

/// A file to take: where it is, where it goes, both below the root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    pub(super) from: PathBuf,
    pub(super) kind: Kind,
}

/// Modules that matter for cards. Also what a line of `modprobe.d` must speak of.
pub(super) const MODULES: [&str; 16] = [
    "amdgpu",
    "amdttm",
    "amdkcl",
    "amdxcp",
    "amdkfd",
    "ttm",
    "radeon",
    "kfd",
    "nvidia",
    "nvidia_uvm",
    "nvidia_drm",
    "nvidia_modeset",
    "nouveau",
    "vfio_pci",
    "i915",
    "xe",
];

/// Files of a device that can be read while it sleeps: the PCI system answers them from memory.
const ASLEEP: [&str; 9] = [
    "uevent",
    "class",
    "vendor",
    "device",
    "revision",
    "subsystem_vendor",
    "subsystem_device",
    "boot_vga",
    "power/runtime_status",
];

const DEVICE: [&str; 31] = [
    "numa_node",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "mem_info_vram_total",
    "mem_info_vram_used",
    "mem_info_vis_vram_total",
    "mem_info_vis_vram_used",
    "mem_info_gtt_total",
    "mem_info_gtt_used",
    "mem_info_vram_vendor",
    "mem_info_preempt_used",
    "gpu_busy_percent",
    "mem_busy_percent",
    "vcn_busy_percent",
    "pp_dpm_sclk",
    "pp_dpm_mclk",
    "pp_dpm_fclk",
    "pp_dpm_pcie",
    "pp_power_profile_mode",
    "power_dpm_force_performance_level",
    "power_dpm_state",
    "power_state",
    "power/control",
    "board_info",
    "product_name",
    "vbios_version",
    "current_compute_partition",
    "enforce_isolation",
    "enable",
];

const SINGLE: [(&str, Kind); 38] = [
    ("proc/meminfo", Kind::Kernel),
    ("proc/cpuinfo", Kind::Kernel),
    ("proc/version", Kind::Text),
    ("proc/sys/kernel/osrelease", Kind::Kernel),
    ("proc/cmdline", Kind::BootLine),
    ("proc/modules", Kind::LoadedModules),
    ("proc/self/status", Kind::Status),
    ("proc/self/cgroup", Kind::ControlGroups),
    ("proc/1/cgroup", Kind::ControlGroups),
    ("proc/driver/nvidia/version", Kind::Text),
    ("proc/driver/nvidia/params", Kind::Text),
    ("etc/os-release", Kind::Text),
    ("usr/lib/os-release", Kind::Text),
    ("opt/rocm/.info/version", Kind::Text),
    ("opt/rocm/.info/version-dev", Kind::Text),
    ("usr/share/rocm/.info/version", Kind::Text),
    ("opt/rocm/lib/librocdxg.so", Kind::Mark),
    ("usr/lib/librocdxg.so", Kind::Mark),
    ("usr/lib/x86_64-linux-gnu/librocdxg.so", Kind::Mark),
    ("usr/lib/wsl/lib/librocdxg.so", Kind::Mark),
    ("usr/lib/wsl/lib/libdxcore.so", Kind::Mark),
    ("usr/lib/wsl/lib/nvidia-smi", Kind::Mark),
    ("run/systemd/container", Kind::Kernel),
    ("run/.containerenv", Kind::Mark),
    (".dockerenv", Kind::Mark),
    (".flatpak-info", Kind::Flatpak),
    ("dev/kfd", Kind::Mark),
    ("dev/dxg", Kind::Mark),
    ("sys/class/dmi/id/sys_vendor", Kind::Text),
    ("sys/class/dmi/id/product_name", Kind::Text),
    ("sys/class/dmi/id/product_family", Kind::Text),
    ("sys/class/dmi/id/board_vendor", Kind::Text),
    ("sys/class/dmi/id/board_name", Kind::Text),
    ("sys/class/dmi/id/bios_version", Kind::Text),
    ("sys/class/dmi/id/bios_date", Kind::Text),
    ("sys/class/dmi/id/chassis_type", Kind::Text),
    ("sys/class/kfd/kfd/dev", Kind::Kernel),
    (
        "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
        Kind::Bytes,
    ),
];

/// All files to take from the machine below `root`, sorted.
pub(super) fn wanted(root: &Path) -> Vec<Wanted> {
    let mut list = List {
        root,
        files: BTreeSet::new(),
    };
    for (path, kind) in SINGLE {
        list.add(Path::new(path), kind);
    }
    for folder in ["etc/modprobe.d", "usr/lib/modprobe.d", "run/modprobe.d"] {
        list.add_all(folder, Kind::ModuleLines);
    }
    list.modules();
    list.kfd();
    list.devices();
    list.control_group_limits();
    list.processor_topology();
    for gpu in list.folders("proc/driver/nvidia/gpus") {
        list.add(&gpu.join("information"), Kind::Text);
    }
    if root != Path::new(crate::LIVE) {
        list.tool_outputs();
    }
    list.files.into_iter().collect()
}

struct List<'a> {
    root: &'a Path,
    files: BTreeSet<Wanted>,
}

impl List<'_> {
    fn add(&mut self, path: &Path, kind: Kind) {
        if self.root.join(path).symlink_metadata().is_ok() {
            self.files.insert(Wanted {
                from: path.to_owned(),
                kind,
            });
        }
    }

    fn add_all(&mut self, folder: impl AsRef<Path>, kind: Kind) {
        for path in self.folders(folder) {
            if self.root.join(&path).is_file() {
                self.add(&path, kind);
            }
        }
    }

    /// What is in a folder, below the root.
    fn folders(&self, folder: impl AsRef<Path>) -> Vec<PathBuf> {
        let folder = folder.as_ref();
        let paths = entries(&self.root.join(folder)).into_iter();
        paths
            .filter_map(|path| Some(folder.join(path.file_name()?)))
            .collect()
    }

    fn modules(&mut self) {
        for name in MODULES {
            let module = Path::new("sys/module").join(name);
            for file in ["version", "initstate", "srcversion"] {
                self.add(&module.join(file), Kind::Kernel);
            }
            self.add_all(module.join("parameters"), Kind::Kernel);
        }
    }

    fn kfd(&mut self) {
        let topology = Path::new("sys/class/kfd/kfd/topology");
        for file in ["system_properties", "generation_id"] {
            self.add(&topology.join(file), Kind::Kernel);
        }
        for node in self.folders(topology.join("nodes")) {
            self.add(&node.join("properties"), Kind::KfdProperties);
            for file in ["gpu_id", "name"] {
                self.add(&node.join(file), Kind::Kernel);
            }
            for part in ["mem_banks", "io_links", "p2p_links"] {
                for item in self.folders(node.join(part)) {
                    self.add(&item.join("properties"), Kind::Kernel);
                }
            }
        }
    }

    /// The display devices, by both ways that lead to them.
    fn devices(&mut self) {
        self.add(Path::new("sys/class/drm/version"), Kind::Kernel);
        for card in self.folders("sys/class/drm") {
            let name = card
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            // Outputs, such as card0-DP-1, tell of displays.
            let is_number =
                |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            if name.strip_prefix("renderD").is_some_and(is_number) {
                self.add(&card.join("dev"), Kind::Kernel);
                self.add(&card.join("device/uevent"), Kind::Kernel);
            }
            if name.strip_prefix("card").is_some_and(is_number) {
                self.add(&card.join("dev"), Kind::Kernel);
                self.device(&card.join("device"));
            }
        }
        for device in self.folders("sys/bus/pci/devices") {
            let class = line_at(&self.root.join(&device).join("class"));
            if class.is_some_and(|class| class.starts_with("0x03") || class.starts_with("0x12")) {
                self.device(&device);
            }
        }
    }

    fn device(&mut self, device: &Path) {
        for file in ASLEEP {
            self.add(&device.join(file), Kind::Kernel);
        }
        for node in self.folders(device.join("drm")) {
            self.add(&node.join("dev"), Kind::Kernel);
        }
        if crate::telemetry::is_asleep(&self.root.join(device)) {
            return;
        }
        for file in DEVICE {
            self.add(&device.join(file), Kind::Kernel);
        }
        self.add(&device.join("unique_id"), Kind::UniqueId);
        self.add_all(device.join("fw_version"), Kind::Kernel);
        for die in self.folders(device.join("ip_discovery/die")) {
            // The graphics core and its copy engines, by number or by name.
            for block in ["11", "42", "GC", "SDMA0"] {
                for instance in self.folders(die.join(block)) {
                    for file in ["major", "minor", "revision", "harvest", "hw_id", "num_instance"] {
                        self.add(&instance.join(file), Kind::Kernel);
                    }
                }
            }
        }
        for sensors in self.folders(device.join("hwmon")) {
            for file in self.folders(&sensors) {
                let name = file
                    .file_name()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default();
                let starts = ["temp", "power", "freq", "fan", "pwm", "in"]
                    .iter()
                    .any(|kind| name.starts_with(kind));
                let is_figure = starts && name.bytes().any(|byte| byte.is_ascii_digit());
                if name == "name" || is_figure {
                    self.add(&file, Kind::Kernel);
                }
            }
        }
    }

    fn control_group_limits(&mut self) {
        let groups = text(self.root, "proc/self/cgroup").unwrap_or_default();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
                continue;
            };
            let mut mounts = vec!["sys/fs/cgroup".to_owned(), "sys/fs/cgroup/unified".to_owned()];
            for controller in controllers
                .split(',')
                .filter(|name| ["memory", "cpu"].contains(name))
            {
                mounts.push(format!("sys/fs/cgroup/{controller}"));
                mounts.push(format!("sys/fs/cgroup/{controllers}"));
            }
            for mount in mounts {
                for group in crate::limits::groups_up_to_root(Path::new(&mount), path) {
                    for file in [
                        "memory.max",
                        "cpu.max",
                        "memory.limit_in_bytes",
                        "cpu.cfs_quota_us",
                        "cpu.cfs_period_us",
                    ] {
                        self.add(&group.join(file), Kind::Kernel);
                    }
                }
            }
        }
    }

    /// Only where `/proc/cpuinfo` does not tell cores apart, as on arm64.
    fn processor_topology(&mut self) {
        let info = text(self.root, "proc/cpuinfo").unwrap_or_default();
        if info.is_empty() || info.contains("core id") {
            return;
        }
        for cpu in self.folders("sys/devices/system/cpu") {
            for file in ["topology/physical_package_id", "topology/core_id"] {
                self.add(&cpu.join(file), Kind::Kernel);
            }
        }
    }

    /// A captured machine may hold outputs of tools at its top.
    fn tool_outputs(&mut self) {
        for path in self.folders("") {
            let extension = path
                .extension()
                .and_then(|extension| extension.to_str())
                .unwrap_or_default();
            let is_output = ["txt", "json", "xml", "csv", "tsv", "log"].contains(&extension);
            let is_file = fs::metadata(self.root.join(&path)).is_ok_and(|metadata| metadata.is_file());
            if !is_output || !is_file || path == Path::new("README.txt") {
                continue;
            }
            // What detection made of the environment and of the kernel's log is written by other names.
            let content = text_at(&self.root.join(&path)).unwrap_or_default();
            if !looks_like_environment(&content) && !looks_like_log(&content) {
                self.add(&path, Kind::Text);
            }
        }
        self.add(Path::new(crate::nvml::LISTING), Kind::Text);
    }
}
