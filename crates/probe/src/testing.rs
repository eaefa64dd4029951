//! Machines made of files, for tests: a folder that detection, the checks and the plan read as they read a captured
//! machine. Sizes and clocks are those of real captures.
//!
//! ```
//! use tunesmith_probe::testing::{AmdCard, TestMachine};
//!
//! let machine = TestMachine::linux().kernel("6.18.4").amd(AmdCard::rx_7900_xtx("0000:03:00.0"));
//! assert_eq!(machine.detect().gpus[0].gfx.as_deref(), Some("gfx1100"));
//! ```

use std::fmt::Display;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Access, CardTable, DeviceAccess, System, detect};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A machine in a folder that is removed with this value.
#[derive(Debug)]
pub struct TestMachine {
    folder: TempDir,
    memory_bytes: u64,
    kfd_nodes: u32,
    drm_cards: u32,
}

impl TestMachine {
    /// A machine of which nothing can be read.
    pub fn empty() -> Self {
        let folder = must(tempfile::tempdir(), "a folder for the machine");
        Self {
            folder,
            memory_bytes: 0,
            kfd_nodes: 0,
            drm_cards: 0,
        }
    }

    /// A desktop with Ubuntu 24.04, kernel 6.18.4, 64 GiB of memory and 16 processors, without a card.
    pub fn linux() -> Self {
        Self::empty()
            .file(
                "etc/os-release",
                "PRETTY_NAME=\"Ubuntu 24.04.3 LTS\"\nID=ubuntu\nVERSION_ID=\"24.04\"\n",
            )
            .file("sys/bus/pci/devices/0000:00:00.0/class", "0x060000\n")
            .file("sys/bus/pci/devices/0000:00:00.0/vendor", "0x1022\n")
            .kernel("6.18.4")
            .memory_gib(64)
            .cpu("AMD Ryzen 7 7800X3D 8-Core Processor")
    }

    /// The folder: the root that readers are given.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// What detection says of it, with the built-in card table.
    pub fn detect(&self) -> System {
        detect(self.root(), &CardTable::built_in())
    }

    /// Writes a file, `path` below the root.
    #[must_use]
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.parent_made(path);
        must(fs::write(&path, content), &path.display());
        self
    }

    /// Adds a line to the end of a file, which need not be there.
    #[must_use]
    pub fn line(self, path: &str, line: &str) -> Self {
        let path = self.parent_made(path);
        let mut file = must(
            fs::OpenOptions::new().create(true).append(true).open(&path),
            &path.display(),
        );
        must(writeln!(file, "{line}"), &path.display());
        self
    }

    /// Removes a file or folder.
    #[must_use]
    pub fn without(self, path: &str) -> Self {
        let path = self.root().join(path);
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        must(removed, &path.display());
        self
    }

    fn parent_made(&self, path: &str) -> PathBuf {
        let path = self.root().join(path);
        if let Some(parent) = path.parent() {
            must(fs::create_dir_all(parent), &parent.display());
        }
        path
    }

    /// Release of the kernel.
    #[must_use]
    pub fn kernel(self, release: &str) -> Self {
        self.file("proc/sys/kernel/osrelease", format!("{release}\n"))
    }

    /// Main memory in GiB, nine tenths of it free.
    #[must_use]
    pub fn memory_gib(mut self, gib: u64) -> Self {
        self.memory_bytes = gib * GIB;
        let kib = gib * MIB;
        self.file(
            "proc/meminfo",
            format!("MemTotal:       {kib} kB\nMemAvailable:   {} kB\n", kib * 9 / 10),
        )
    }

    /// A processor with eight cores, and its KFD node, which the cards' nodes follow.
    #[must_use]
    pub fn cpu(mut self, model: &str) -> Self {
        let cpus = (0..16).map(|cpu| {
            format!("processor\t: {cpu}\nmodel name\t: {model}\nphysical id\t: 0\ncore id\t: {}\nflags\t\t: avx2\n\n", cpu / 2)
        });
        let cpus = cpus.collect::<String>();
        self.kfd_nodes = 1;
        self.file("proc/cpuinfo", cpus)
    }

    /// The words of the boot line after the root device.
    #[must_use]
    pub fn command_line(self, words: &str) -> Self {
        self.file(
            "proc/cmdline",
            format!("BOOT_IMAGE=/boot/vmlinuz root=/dev/sda1 ro {words}\n"),
        )
    }

    /// `ttm.pages_limit` as the module has it, in pages of 4 KiB.
    #[must_use]
    pub fn pages_limit(self, pages: u64) -> Self {
        self.file("sys/module/ttm/parameters/pages_limit", format!("{pages}\n"))
    }

    /// A variable of the environment that a capture states.
    #[must_use]
    pub fn environment(self, name: &str, value: &str) -> Self {
        self.line("environment.txt", &format!("{name}={value}"))
    }

    /// Lines of the kernel's log.
    #[must_use]
    pub fn kernel_log(self, lines: &str) -> Self {
        self.file("dmesg.txt", lines)
    }

    /// A ROCm installation of the system.
    #[must_use]
    pub fn rocm(self, version: &str) -> Self {
        self.file("opt/rocm/.info/version", format!("{version}\n"))
    }

    /// What a capture says of the access to device files.
    #[must_use]
    pub fn access(self, access: &Access) -> Self {
        let text = must(serde_json::to_string(access), "access");
        self.file("tunesmith-capture/access.json", text)
    }

    /// The process may use `/dev/kfd` and all render nodes of the cards added so far.
    #[must_use]
    pub fn usable_devices(self) -> Self {
        let access = device_access(self.drm_cards, true);
        self.access(&access)
    }

    /// `/dev/kfd` and the render nodes belong to a group that the process lacks.
    #[must_use]
    pub fn devices_of_another_group(self) -> Self {
        let access = device_access(self.drm_cards, false);
        self.access(&access)
    }

    /// The Windows Subsystem for Linux: no KFD, no sysfs of the cards.
    #[must_use]
    pub fn wsl(self) -> Self {
        let access = Access {
            dxg: Some(true),
            ..Access::default()
        };
        self.kernel("6.6.87.2-microsoft-standard-WSL2").access(&access)
    }

    /// Adds a card of AMD, with its KFD node and DRM card.
    #[must_use]
    #[allow(clippy::needless_pass_by_value)] // A card is written in place, as an argument.
    pub fn amd(mut self, card: AmdCard) -> Self {
        let gtt_bytes = card.gtt_bytes.unwrap_or(self.memory_bytes / 2);
        let pool_bytes = if card.integrated {
            gtt_bytes.max(card.vram_bytes)
        } else {
            card.vram_bytes
        };
        let drm = self.drm_cards;
        let mut files = card.pci_files();
        if card.driver.as_deref() == Some("amdgpu") {
            let mut text = |name: &str, value: String| files.push((name.to_owned(), value));
            text("mem_info_vram_total", card.vram_bytes.to_string());
            text("mem_info_vram_used", (200 * MIB).to_string());
            text("mem_info_vis_vram_total", card.visible_vram_bytes.to_string());
            text("mem_info_gtt_total", gtt_bytes.to_string());
            text("mem_info_gtt_used", (50 * MIB).to_string());
            text("power/runtime_status", card.runtime_status.clone());
            if !card.integrated {
                text("mem_info_vram_vendor", "samsung".to_owned());
                text(
                    "unique_id",
                    format!("{:016x}", 0xabcd_0000_0000_0000_u64 + u64::from(drm)),
                );
            }
            text(
                "fw_version/mes_fw_version",
                format!("0x{:08x}", card.mes_firmware),
            );
            let (major, minor, revision) = card.graphics_core;
            text("ip_discovery/die/0/11/0/major", major.to_string());
            text("ip_discovery/die/0/11/0/minor", minor.to_string());
            text("ip_discovery/die/0/11/0/revision", revision.to_string());
            self.drm_cards += 1;
        }
        let with_driver = card.driver.as_deref() == Some("amdgpu");
        let mut machine = self;
        for (name, value) in files {
            let value = format!("{value}\n");
            machine = machine.file(&format!("sys/bus/pci/devices/{}/{name}", card.pci), &value);
            if with_driver {
                machine = machine.file(&format!("sys/class/drm/card{drm}/device/{name}"), value);
            }
        }
        if with_driver {
            machine = machine
                .file(
                    &format!("sys/bus/pci/devices/{}/drm/card{drm}/dev", card.pci),
                    format!("226:{drm}\n"),
                )
                .file(
                    &format!("sys/bus/pci/devices/{}/drm/renderD{}/dev", card.pci, 128 + drm),
                    format!("226:{}\n", 128 + drm),
                )
                .file("sys/module/amdgpu/initstate", "live\n")
                .file("sys/module/ttm/initstate", "live\n");
        }
        if with_driver && card.kfd {
            machine = machine.kfd_node(&card, drm, pool_bytes);
        }
        machine
    }

    fn kfd_node(mut self, card: &AmdCard, drm: u32, pool_bytes: u64) -> Self {
        const NODES: &str = "sys/class/kfd/kfd/topology/nodes";
        let node = self.kfd_nodes;
        self.kfd_nodes += 1;
        let memory = self.memory_bytes;
        let (bus, device, function) = card.bus_device_function();
        let unique_id = if card.integrated {
            0
        } else {
            0xabcd_0000_0000_0000_u64 + u64::from(drm)
        };
        let mut properties = format!(
            "cpu_cores_count 0\nsimd_count {}\nsimd_per_cu 2\ngfx_target_version {}\nvendor_id 4098\ndevice_id {}\n\
             location_id {}\ndomain 0\ndrm_render_minor {}\nmax_engine_clk_fcompute {}\nunique_id {unique_id}\n",
            card.compute_units * 2,
            card.target_version,
            card.device,
            (bus << 8) | (device << 3) | function,
            128 + drm,
            card.clock_mhz,
        );
        if card.cwsr_sizes {
            properties.push_str("cwsr_size 30699520\nctl_stack_size 28672\n");
        }
        self.file(
            &format!("{NODES}/0/properties"),
            "cpu_cores_count 16\nsimd_count 0\nvendor_id 0\ngfx_target_version 0\n",
        )
        .file(
            &format!("{NODES}/0/mem_banks/0/properties"),
            format!("heap_type 0\nsize_in_bytes {memory}\n"),
        )
        .file(&format!("{NODES}/{node}/properties"), properties)
        .file(
            &format!("{NODES}/{node}/mem_banks/0/properties"),
            format!("heap_type 1\nsize_in_bytes {pool_bytes}\n"),
        )
    }

    /// Adds a card of NVIDIA.
    #[must_use]
    #[allow(clippy::needless_pass_by_value)]
    pub fn nvidia(mut self, card: NvidiaCard) -> Self {
        let pci = &card.pci;
        let with_driver = card.driver == "nvidia";
        let uevent = format!(
            "DRIVER={}\nPCI_CLASS=30000\nPCI_ID=10DE:{:04X}\nPCI_SLOT_NAME={pci}\n",
            card.driver, card.device
        );
        let drm = self.drm_cards;
        self.drm_cards += 1;
        let folder = format!("sys/bus/pci/devices/{pci}");
        let mut machine = self
            .file(&format!("sys/class/drm/card{drm}/device/uevent"), &uevent)
            .file(&format!("sys/class/drm/card{drm}/device/vendor"), "0x10de\n")
            .file(&format!("{folder}/uevent"), uevent)
            .file(&format!("{folder}/vendor"), "0x10de\n")
            .file(&format!("{folder}/device"), format!("0x{:04x}\n", card.device))
            .file(&format!("{folder}/revision"), "0xa1\n")
            .file(&format!("{folder}/class"), "0x030000\n")
            .file(&format!("sys/module/{}/initstate", card.driver), "live\n");
        if with_driver {
            let smi = "nvidia-smi-query.csv";
            if !machine.root().join(smi).exists() {
                machine = machine.line(
                    smi,
                    "index, uuid, name, compute_cap, driver_version, memory.total [MiB], pci.bus_id",
                );
            }
            machine = machine
                .file("sys/module/nvidia/version", format!("{}\n", card.driver_version))
                .file(
                    &format!("proc/driver/nvidia/gpus/{pci}/information"),
                    format!(
                        "Model: \t\t {}\nGPU UUID: \t GPU-00000000-0000-0000-0000-00000000000{drm}\n",
                        card.name
                    ),
                )
                .line(
                    smi,
                    &format!(
                        "{drm}, GPU-00000000-0000-0000-0000-00000000000{drm}, {}, {}, {}, {} MiB, 0000{}",
                        card.name,
                        card.compute_capability,
                        card.driver_version,
                        card.vram_mib,
                        pci.to_uppercase(),
                    ),
                );
        }
        machine
    }

    /// Windows with one card, as `Win32_VideoController` and the display class keys show it.
    #[must_use]
    pub fn windows_card(self, name: &str, pnp_id: &str, driver_version: &str, vram_bytes: u64) -> Self {
        let device = pnp_id
            .rsplit_once('\\')
            .map_or(pnp_id, |(device, _instance)| device);
        let controller = serde_json::json!({
            "Name": name, "PNPDeviceID": pnp_id, "DriverVersion": driver_version, "AdapterRAM": 4_293_918_720_u32,
        });
        let mut key = serde_json::Map::new();
        key.insert(
            r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}\0000".to_owned(),
            serde_json::json!({
                "DriverDesc": name, "MatchingDeviceId": device, "HardwareInformation.qwMemorySize": vram_bytes,
            }),
        );
        self.file("video-controllers.json", controller.to_string())
            .file("class-keys.json", serde_json::Value::Object(key).to_string())
    }
}

fn device_access(cards: u32, allowed: bool) -> Access {
    let device = |path: String| DeviceAccess {
        path,
        exists: true,
        read_write: Some(allowed),
        group_id: Some(992),
        group: Some("render".to_owned()),
        user_in_group: Some(allowed),
        mode: Some(0o660),
    };
    let groups = if allowed { vec![1000, 44, 992] } else { vec![1000] };
    Access {
        kfd: Some(device("/dev/kfd".to_owned())),
        render_nodes: (0..cards)
            .map(|card| device(format!("/dev/dri/renderD{}", 128 + card)))
            .collect(),
        dxg: Some(false),
        process_groups: Some(groups),
        user: None,
    }
}

/// A card of AMD to add to a [`TestMachine`]; all of it can be changed.
#[derive(Clone, Debug)]
pub struct AmdCard {
    /// PCI address.
    pub pci: String,
    /// PCI device.
    pub device: u16,
    /// PCI revision.
    pub revision: u8,
    /// PCI class, e.g. `0x030000`.
    pub class: String,
    /// KFD's number of the target, e.g. 110000.
    pub target_version: u32,
    /// Version of the graphics core in the IP discovery tables.
    pub graphics_core: (u32, u32, u32),
    /// Compute units.
    pub compute_units: u32,
    /// The card's own memory.
    pub vram_bytes: u64,
    /// The part that the processor can address.
    pub visible_vram_bytes: u64,
    /// Main memory that it may map; half of the machine's where it is not given.
    pub gtt_bytes: Option<u64>,
    /// The driver's limit of the clock.
    pub clock_mhz: u32,
    /// Part of the processor.
    pub integrated: bool,
    /// Kernel driver, or none.
    pub driver: Option<String>,
    /// Whether the driver has made a KFD node.
    pub kfd: bool,
    /// Whether KFD exports the sizes for saving registers.
    pub cwsr_sizes: bool,
    /// Version of the MES firmware.
    pub mes_firmware: u32,
    /// `active` or `suspended`.
    pub runtime_status: String,
    /// PCI Express: transfers in GT/s and lanes at the moment, and at most.
    pub link: (f64, u32, f64, u32),
}

impl AmdCard {
    /// A discrete card in a slot of PCI Express 4.0 x16 with Resizable BAR.
    fn discrete(
        pci: &str,
        id: (u16, u8),
        target_version: u32,
        units: u32,
        vram_bytes: u64,
        clock_mhz: u32,
    ) -> Self {
        Self {
            pci: pci.to_owned(),
            device: id.0,
            revision: id.1,
            class: "0x030000".to_owned(),
            target_version,
            graphics_core: graphics_core(target_version),
            compute_units: units,
            vram_bytes,
            visible_vram_bytes: vram_bytes,
            gtt_bytes: None,
            clock_mhz,
            integrated: false,
            driver: Some("amdgpu".to_owned()),
            kfd: true,
            cwsr_sizes: true,
            mes_firmware: 0x80,
            runtime_status: "active".to_owned(),
            link: (16.0, 16, 16.0, 16),
        }
    }

    fn graphics(
        pci: &str,
        id: (u16, u8),
        target_version: u32,
        units: u32,
        vram_bytes: u64,
        clock_mhz: u32,
    ) -> Self {
        Self {
            class: "0x038000".to_owned(),
            integrated: true,
            ..Self::discrete(pci, id, target_version, units, vram_bytes, clock_mhz)
        }
    }

    /// RX 7900 XTX.
    pub fn rx_7900_xtx(pci: &str) -> Self {
        Self::discrete(pci, (0x744c, 0xc8), 110_000, 96, 25_753_026_560, 2526)
    }

    /// RX 7600 XT.
    pub fn rx_7600_xt(pci: &str) -> Self {
        Self::discrete(pci, (0x7480, 0xc0), 110_002, 32, 17_163_091_968, 2250)
    }

    /// RX 9070 XT.
    pub fn rx_9070_xt(pci: &str) -> Self {
        Self::discrete(pci, (0x7550, 0xc0), 120_001, 64, 17_095_983_104, 2520)
    }

    /// RX 6700 XT.
    pub fn rx_6700_xt(pci: &str) -> Self {
        Self::discrete(pci, (0x73df, 0xc1), 100_301, 40, 12_868_124_672, 2855)
    }

    /// RX 5700.
    pub fn rx_5700(pci: &str) -> Self {
        Self::discrete(pci, (0x731f, 0xc4), 100_100, 36, 8_573_157_376, 1750)
    }

    /// Graphics of a Ryzen 7000 or 9000 desktop processor.
    pub fn raphael(pci: &str) -> Self {
        Self {
            class: "0x030000".to_owned(),
            ..Self::graphics(pci, (0x164e, 0xc1), 100_306, 2, 512 * MIB, 2200)
        }
    }

    /// Radeon 8060S of Strix Halo with a carve-out of 512 MiB.
    pub fn strix_halo(pci: &str) -> Self {
        Self::graphics(pci, (0x1586, 0xc1), 110_501, 40, 512 * MIB, 2900)
    }

    /// Radeon 780M with a carve-out of 4 GiB.
    pub fn radeon_780m(pci: &str) -> Self {
        Self::graphics(pci, (0x15bf, 0xdd), 110_003, 12, 4 * GIB, 2700)
    }

    /// Graphics of the Steam Deck.
    pub fn steam_deck(pci: &str) -> Self {
        Self {
            class: "0x030000".to_owned(),
            ..Self::graphics(pci, (0x163f, 0xae), 100_303, 8, GIB, 1600)
        }
    }

    /// Resizable BAR is off: the processor sees 256 MiB.
    #[must_use]
    pub fn rebar_off(self) -> Self {
        Self {
            visible_vram_bytes: 256 * MIB,
            ..self
        }
    }

    /// Bound to another driver than amdgpu, which then shows neither memory nor a KFD node.
    #[must_use]
    pub fn driver(self, driver: Option<&str>) -> Self {
        Self {
            driver: driver.map(str::to_owned),
            ..self
        }
    }

    /// Asleep.
    #[must_use]
    pub fn suspended(self) -> Self {
        Self {
            runtime_status: "suspended".to_owned(),
            ..self
        }
    }

    /// Main memory that it may map.
    #[must_use]
    pub fn gtt_gib(self, gib: u64) -> Self {
        Self {
            gtt_bytes: Some(gib * GIB),
            ..self
        }
    }

    fn pci_files(&self) -> Vec<(String, String)> {
        let driver = self
            .driver
            .as_ref()
            .map(|driver| format!("DRIVER={driver}\n"))
            .unwrap_or_default();
        let class = self
            .class
            .trim_start_matches("0x")
            .trim_start_matches('0')
            .to_owned();
        let (speed, width, max_speed, max_width) = self.link;
        let uevent = format!(
            "{driver}PCI_CLASS={class}\nPCI_ID=1002:{:04X}\nPCI_SUBSYS_ID=1DA2:E471\nPCI_SLOT_NAME={}",
            self.device, self.pci
        );
        [
            ("uevent", uevent),
            ("class", self.class.clone()),
            ("vendor", "0x1002".to_owned()),
            ("device", format!("0x{:04x}", self.device)),
            ("revision", format!("0x{:02x}", self.revision)),
            ("subsystem_vendor", "0x1da2".to_owned()),
            ("subsystem_device", "0xe471".to_owned()),
            ("current_link_speed", format!("{speed:.1} GT/s PCIe")),
            ("current_link_width", width.to_string()),
            ("max_link_speed", format!("{max_speed:.1} GT/s PCIe")),
            ("max_link_width", max_width.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    fn bus_device_function(&self) -> (u32, u32, u32) {
        let part = |text: &str| must(u32::from_str_radix(text, 16), &self.pci);
        let fields: Vec<&str> = self.pci.split([':', '.']).collect();
        match fields.as_slice() {
            [_domain, bus, device, function] => (part(bus), part(device), part(function)),
            _ => panic!("{} is no PCI address", self.pci),
        }
    }
}

/// The graphics core's version, which is not the target's (kernel, `kfd_device.c`).
fn graphics_core(target_version: u32) -> (u32, u32, u32) {
    match target_version {
        100_100 => (10, 1, 10),
        100_300 => (10, 3, 0),
        100_301 => (10, 3, 2),
        100_302 => (10, 3, 4),
        100_303 => (10, 3, 1),
        110_001 => (11, 0, 3),
        110_003 => (11, 0, 1),
        other => (other / 10_000, other / 100 % 100, other % 100),
    }
}

/// A card of NVIDIA to add to a [`TestMachine`].
#[derive(Clone, Debug)]
pub struct NvidiaCard {
    /// PCI address.
    pub pci: String,
    /// PCI device.
    pub device: u16,
    /// Name as the driver tells it.
    pub name: String,
    /// e.g. `8.6`.
    pub compute_capability: String,
    /// Memory in MiB.
    pub vram_mib: u64,
    /// Kernel driver: `nvidia` or `nouveau`.
    pub driver: String,
    /// Version of NVIDIA's driver.
    pub driver_version: String,
}

impl NvidiaCard {
    fn new(pci: &str, device: u16, name: &str, compute_capability: &str, vram_mib: u64) -> Self {
        Self {
            pci: pci.to_owned(),
            device,
            name: name.to_owned(),
            compute_capability: compute_capability.to_owned(),
            vram_mib,
            driver: "nvidia".to_owned(),
            driver_version: "580.95.05".to_owned(),
        }
    }

    /// RTX 3090.
    pub fn rtx_3090(pci: &str) -> Self {
        Self::new(pci, 0x2204, "NVIDIA GeForce RTX 3090", "8.6", 24_576)
    }

    /// RTX 5090.
    pub fn rtx_5090(pci: &str) -> Self {
        Self::new(pci, 0x2b85, "NVIDIA GeForce RTX 5090", "12.0", 32_607)
    }

    /// GTX 1080, of the Pascal generation.
    pub fn gtx_1080(pci: &str) -> Self {
        Self::new(pci, 0x1b80, "NVIDIA GeForce GTX 1080", "6.1", 8192)
    }

    /// Bound to the free driver, which cannot compute.
    #[must_use]
    pub fn nouveau(self) -> Self {
        Self {
            driver: "nouveau".to_owned(),
            ..self
        }
    }
}

/// Whole machines that plans and checks are tested with.
pub mod machines {
    use super::{AmdCard, NvidiaCard, TestMachine};

    /// One RX 7900 XTX.
    pub fn rx_7900_xtx() -> TestMachine {
        TestMachine::linux()
            .amd(AmdCard::rx_7900_xtx("0000:03:00.0"))
            .usable_devices()
    }

    /// An RX 7900 XTX beside the graphics of the processor.
    pub fn rx_7900_xtx_with_igpu() -> TestMachine {
        TestMachine::linux()
            .amd(AmdCard::rx_7900_xtx("0000:03:00.0"))
            .amd(AmdCard::raphael("0000:13:00.0"))
            .usable_devices()
    }

    /// Two RX 7900 XTX.
    pub fn two_rx_7900_xtx() -> TestMachine {
        TestMachine::linux()
            .amd(AmdCard::rx_7900_xtx("0000:03:00.0"))
            .amd(AmdCard::rx_7900_xtx("0000:0d:00.0"))
            .usable_devices()
    }

    /// An RX 7600 XT with `HSA_OVERRIDE_GFX_VERSION=11.0.0` in the environment.
    pub fn rx_7600_xt_with_override() -> TestMachine {
        TestMachine::linux()
            .amd(AmdCard::rx_7600_xt("0000:03:00.0"))
            .environment("HSA_OVERRIDE_GFX_VERSION", "11.0.0")
            .usable_devices()
    }

    /// Strix Halo with 128 GiB and the kernel's default limit, half of it.
    pub fn strix_halo() -> TestMachine {
        TestMachine::linux()
            .memory_gib(124)
            .cpu("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S")
            .pages_limit(62 * 262_144)
            .amd(AmdCard::strix_halo("0000:c5:00.0").gtt_gib(62))
            .usable_devices()
    }

    /// Strix Halo with `ttm.pages_limit=27648000`, 105.5 GiB.
    pub fn strix_halo_raised() -> TestMachine {
        let card = AmdCard {
            gtt_bytes: Some(27_648_000 * 4096),
            ..AmdCard::strix_halo("0000:c5:00.0")
        };
        TestMachine::linux()
            .memory_gib(124)
            .cpu("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S")
            .command_line("ttm.pages_limit=27648000")
            .pages_limit(27_648_000)
            .amd(card)
            .usable_devices()
    }

    /// A laptop with a Radeon 780M and 64 GiB.
    pub fn radeon_780m_laptop() -> TestMachine {
        TestMachine::linux()
            .memory_gib(60)
            .cpu("AMD Ryzen 7 PRO 7840U w/ Radeon 780M Graphics")
            .pages_limit(30 * 262_144)
            .amd(AmdCard::radeon_780m("0000:64:00.0").gtt_gib(30))
            .usable_devices()
    }

    /// An RX 9070 XT.
    pub fn rx_9070_xt() -> TestMachine {
        TestMachine::linux()
            .amd(AmdCard::rx_9070_xt("0000:0e:00.0"))
            .usable_devices()
    }

    /// An RX 6700 XT.
    pub fn rx_6700_xt() -> TestMachine {
        TestMachine::linux()
            .amd(AmdCard::rx_6700_xt("0000:07:00.0"))
            .usable_devices()
    }

    /// An RX 5700.
    pub fn rx_5700() -> TestMachine {
        TestMachine::linux()
            .amd(AmdCard::rx_5700("0000:0b:00.0"))
            .usable_devices()
    }

    /// A Steam Deck.
    pub fn steam_deck() -> TestMachine {
        TestMachine::linux()
            .memory_gib(15)
            .cpu("AMD Custom APU 0405")
            .amd(AmdCard::steam_deck("0000:04:00.0"))
            .usable_devices()
    }

    /// WSL on Windows with an RX 7900 XTX, with AMD's libraries.
    pub fn wsl_rx_7900_xtx() -> TestMachine {
        TestMachine::linux().wsl().file("opt/rocm/lib/librocdxg.so", "").rocm("7.2.1").file(
            "rocminfo.txt",
            "WSL environment detected.\n=====================\nHSA System Attributes\n=====================\n\
             ==========\nHSA Agents\n==========\n*******\nAgent 1\n*******\n  Name:                    AMD Ryzen 9 7950X\n  \
             Device Type:             CPU\n*******\nAgent 2\n*******\n  Name:                    gfx1100\n  \
             Marketing Name:          AMD Radeon RX 7900 XTX\n  Vendor Name:             AMD\n  Device Type:             GPU\n  \
             Chip ID:                 29772(0x744c)\n  Compute Unit:            96\n  Pool Info:\n    Pool 1\n      \
             Segment:                 GLOBAL; FLAGS: COARSE GRAINED\n      Size:                    25079976(0x17eb0a8) KB\n\
             *** Done ***\n",
        )
    }

    /// Windows with an RX 7900 XTX.
    pub fn windows_rx_7900_xtx() -> TestMachine {
        TestMachine::empty().windows_card(
            "AMD Radeon RX 7900 XTX",
            r"PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8\6&00000001&0&00000019",
            "32.0.21025.1024",
            25_769_803_776,
        )
    }

    /// An RTX 3090.
    pub fn rtx_3090() -> TestMachine {
        TestMachine::linux().nvidia(NvidiaCard::rtx_3090("0000:01:00.0"))
    }

    /// An RTX 5090.
    pub fn rtx_5090() -> TestMachine {
        TestMachine::linux().nvidia(NvidiaCard::rtx_5090("0000:01:00.0"))
    }

    /// A GTX 1080.
    pub fn gtx_1080() -> TestMachine {
        TestMachine::linux().nvidia(NvidiaCard::gtx_1080("0000:01:00.0"))
    }

    /// An RTX 3090 and an RX 7900 XTX.
    pub fn nvidia_and_amd() -> TestMachine {
        TestMachine::linux()
            .nvidia(NvidiaCard::rtx_3090("0000:01:00.0"))
            .amd(AmdCard::rx_7900_xtx("0000:03:00.0"))
            .usable_devices()
    }

    /// No card.
    pub fn no_gpu() -> TestMachine {
        TestMachine::linux()
    }
}

fn must<T, E: Display>(result: Result<T, E>, what: &(impl Display + ?Sized)) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error}"))
}
