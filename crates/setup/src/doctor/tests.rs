//! For every check a machine that it finds fault with and one that it does not, and the rules of the whole answer.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tunesmith_probe::{
    Access, CpuFeatures, Derived, DeviceAccess, Flatpak, GfxSource, Gpu, GpuVendor, Kernel, Limits, Link,
    Machine, Platform, Setting, Stacks, System,
};

use super::*;
use crate::knowledge::Knowledge;

const GIB: u64 = 1 << 30;

/// Everything that the doctor is given.
#[derive(Clone, Default)]
struct World {
    system: System,
    around: Surroundings,
    environments: Vec<PythonEnvironment>,
}

impl World {
    fn diagnose(&self) -> Diagnosis {
        doctor(
            &self.system,
            &Knowledge::load(None).unwrap(),
            &Rules::load(None).unwrap(),
            &self.around,
            &self.environments,
        )
    }

    fn with(mut self, change: impl FnOnce(&mut World)) -> World {
        change(&mut self);
        self
    }

    fn gpu(self, change: impl FnOnce(&mut Gpu)) -> World {
        self.with(|world| change(&mut world.system.gpus[0]))
    }

    fn set(self, name: &str, value: &str) -> World {
        self.with(|world| {
            world.system.settings.push(Setting {
                name: name.to_owned(),
                value: value.to_owned(),
                origin: "the process's environment".to_owned(),
                line: None,
                in_effect: true,
            });
        })
    }

    fn set_in_file(self, name: &str, value: &str, file: &str, in_effect: bool) -> World {
        self.with(|world| {
            world.system.settings.push(Setting {
                name: name.to_owned(),
                value: value.to_owned(),
                origin: file.to_owned(),
                line: Some(3),
                in_effect,
            });
        })
    }

    fn log(self, line: &str) -> World {
        self.with(|world| world.system.kernel_log = Some(vec![line.to_owned()]))
    }

    fn words(self, words: &[&str]) -> World {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        self.with(|world| world.system.kernel.command_line = Some(words))
    }

    fn env(self, env: PythonEnvironment) -> World {
        self.with(|world| world.environments.push(env))
    }
}

fn device(path: &str) -> DeviceAccess {
    DeviceAccess {
        path: path.to_owned(),
        exists: true,
        read_write: Some(true),
        group_id: Some(991),
        group: Some("render".to_owned()),
        user_in_group: Some(true),
        mode: Some(0o660),
    }
}

fn xtx() -> Gpu {
    Gpu {
        vendor: Some(GpuVendor::Amd),
        pci: Some("0000:03:00.0".to_owned()),
        device_id: Some("0x744c".to_owned()),
        name: Some("AMD Radeon RX 7900 XTX".to_owned()),
        gfx: Some("gfx1100".to_owned()),
        gfx_source: Some(GfxSource::Kfd),
        integrated: Some(false),
        compute_units: Some(96),
        vram_bytes: Some(25_753_026_560),
        vram_used_bytes: Some(300_000_000),
        visible_vram_bytes: Some(25_753_026_560),
        gtt_bytes: Some(32 * GIB),
        pool_bytes: Some(25_753_026_560),
        trainable: Some(Derived {
            value: 25_753_026_560,
            how: "VRAM of the card".to_owned(),
        }),
        resizable_bar: Some(true),
        link: Some(Link {
            speed_gt_per_sec: Some(2.5),
            width: Some(16),
            max_speed_gt_per_sec: Some(16.0),
            max_width: Some(16),
        }),
        driver: Some("amdgpu".to_owned()),
        driver_bound: Some(true),
        kfd_node: Some(1),
        render_minor: Some(128),
        drm_card: Some(1),
        runtime_status: Some("active".to_owned()),
        unique_id: Some("GPU-00000000000000aa".to_owned()),
        ..Gpu::default()
    }
}

fn igpu() -> Gpu {
    Gpu {
        pci: Some("0000:6e:00.0".to_owned()),
        device_id: Some("0x164e".to_owned()),
        name: Some("AMD Radeon Graphics".to_owned()),
        gfx: Some("gfx1036".to_owned()),
        integrated: Some(true),
        vram_bytes: Some(GIB / 2),
        kfd_node: Some(2),
        render_minor: Some(129),
        link: None,
        resizable_bar: None,
        trainable: None,
        unique_id: None,
        ..xtx()
    }
}

/// A desktop with one RX 7900 XTX, all in order.
fn desktop() -> World {
    World {
        system: System {
            schema: 1,
            live: true,
            platform: Platform::Linux,
            machine: Machine {
                os: Some("Ubuntu 24.04.3 LTS".to_owned()),
                kernel: Some("6.18.4".to_owned()),
                cpu_model: Some("AMD Ryzen 7 7800X3D".to_owned()),
                cores_logical: Some(16),
                cores_physical: Some(8),
                memory_bytes: Some(64 * GIB),
                cpu_features: CpuFeatures {
                    avx2: Some(true),
                    avx512_bf16: Some(true),
                    ..CpuFeatures::default()
                },
                ..Machine::default()
            },
            gpus: vec![xtx()],
            train_on: Some(vec![0]),
            access: Access {
                kfd: Some(device("/dev/kfd")),
                render_nodes: vec![device("/dev/dri/renderD128"), device("/dev/dri/renderD129")],
                process_groups: Some(vec![44, 991, 1000]),
                ..Access::default()
            },
            stacks: Stacks {
                linux_firmware: Some("20260110".to_owned()),
                ..Stacks::default()
            },
            kernel: Kernel {
                command_line: Some(vec!["ro".to_owned(), "quiet".to_owned()]),
                ttm_pages_limit: Some(32 * 262_144),
                amdgpu_dkms: Some(false),
                modules: vec!["amdgpu".to_owned(), "ttm".to_owned()],
                secure_boot: Some(true),
                ..Kernel::default()
            },
            kernel_log: Some(vec![
                "amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!".to_owned(),
            ]),
            ..System::default()
        },
        around: Surroundings {
            cache_disk: Some(DiskSpace {
                folder: PathBuf::from("/home/u/.cache"),
                free_bytes: Some(200 * GIB),
            }),
            data_disk: Some(DiskSpace {
                folder: PathBuf::from("/home/u/data"),
                free_bytes: Some(200 * GIB),
            }),
            available_memory_bytes: Some(50 * GIB),
            swap_bytes: Some(8 * GIB),
            gpu_processes: Some(Vec::new()),
            recipe: Some(RecipeNeeds {
                name: "sft-24-gib".to_owned(),
                memory_bytes: Some(18 * GIB),
                download_bytes: Some(6 * GIB),
            }),
            ..Surroundings::default()
        },
        environments: Vec::new(),
    }
}

/// A desktop with two cards.
fn two_cards(second: Gpu) -> World {
    let both = second.integrated != Some(true);
    desktop().with(|world| {
        world.system.gpus.push(second);
        world.system.train_on = Some(if both { vec![0, 1] } else { vec![0] });
    })
}

/// A desktop whose card is of another target.
fn card(gfx: &str, vram_gib: u64) -> World {
    desktop().gpu(|gpu| {
        gpu.gfx = Some(gfx.to_owned());
        gpu.name = None;
        gpu.vram_bytes = Some(vram_gib * GIB);
        gpu.visible_vram_bytes = gpu.vram_bytes;
        gpu.trainable = Some(Derived {
            value: vram_gib * GIB,
            how: "VRAM of the card".to_owned(),
        });
    })
}

/// Strix Halo with 128 GB, as it comes from the shop, with a kernel that has the fix.
fn strix() -> World {
    let memory = 134_000_000_000;
    desktop().with(|world| {
        world.system.machine.memory_bytes = Some(memory);
        world.system.machine.os = Some("Fedora Linux 43".to_owned());
        world.system.gpus[0] = Gpu {
            pci: Some("0000:c1:00.0".to_owned()),
            device_id: Some("0x1586".to_owned()),
            name: Some("AMD Radeon 8060S".to_owned()),
            gfx: Some("gfx1151".to_owned()),
            integrated: Some(true),
            compute_units: Some(40),
            vram_bytes: Some(GIB / 2),
            vram_used_bytes: Some(GIB / 4),
            gtt_bytes: Some(memory / 2),
            pool_bytes: Some(memory / 2),
            trainable: Some(Derived {
                value: memory / 2,
                how: "GTT limit (KFD bank)".to_owned(),
            }),
            cwsr_sizes_exported: Some(true),
            firmware: vec![("mes_fw_version".to_owned(), "0x00000080".to_owned())],
            resizable_bar: None,
            link: None,
            unique_id: None,
            ..xtx()
        };
        world.system.kernel.ttm_pages_limit = Some(memory / 2 / 4096);
        world.around.recipe = None;
    })
}

fn nvidia_card() -> Gpu {
    Gpu {
        vendor: Some(GpuVendor::Nvidia),
        pci: Some("0000:01:00.0".to_owned()),
        device_id: Some("0x2204".to_owned()),
        name: Some("NVIDIA GeForce RTX 3090".to_owned()),
        gfx: None,
        compute_capability: Some("8.6".to_owned()),
        driver: Some("nvidia".to_owned()),
        driver_version: Some("580.95.05".to_owned()),
        power_limit_watts: Some(350.0),
        kfd_node: None,
        unique_id: None,
        ..xtx()
    }
}

fn nvidia() -> World {
    desktop().with(|world| {
        world.system.gpus[0] = nvidia_card();
        world.system.access = Access::default();
        world.system.stacks.nvidia_driver = Some("580.95.05".to_owned());
        world.system.stacks.cuda_driver = Some("13.0".to_owned());
    })
}

fn windows() -> World {
    desktop().with(|world| {
        world.system.platform = Platform::Windows;
        world.system.machine.os = Some("Microsoft Windows 11 Pro 10.0.22631".to_owned());
        world.system.machine.kernel = None;
        world.system.access = Access::default();
        world.system.kernel = Kernel::default();
        world.system.kernel_log = None;
        world.system.gpus[0].driver = None;
        world.system.gpus[0].driver_version = Some("32.0.23017.1001".to_owned());
        world.system.gpus[0].kfd_node = None;
        world.system.stacks.windows_drivers = vec![("AMD".to_owned(), "26.2.2".to_owned())];
        world.around.windows_build = Some(22631);
        world.around.windows_vc_runtime = Some(true);
    })
}

fn wsl() -> World {
    desktop()
        .with(|world| {
            world.system.platform = Platform::Wsl;
            world.system.access = Access {
                dxg: Some(true),
                ..Access::default()
            };
            world.system.stacks.librocdxg = Some(true);
            world.system.gpus[0].kfd_node = None;
            world.system.gpus[0].driver = None;
            world.around.windows_build = Some(22631);
        })
        .set("HSA_ENABLE_DXG_DETECTION", "1")
}

fn processor_only() -> World {
    desktop().with(|world| {
        world.system.gpus.clear();
        world.system.train_on = Some(Vec::new());
        world.around.recipe = None;
    })
}

/// Two groups of the host, of which a container has none.
fn container() -> World {
    desktop().with(|world| {
        world.system.machine.container = Some("docker".to_owned());
        world.system.access.process_groups = Some(vec![0]);
        for device in std::iter::once(world.system.access.kfd.as_mut().unwrap())
            .chain(&mut world.system.access.render_nodes)
        {
            device.read_write = Some(false);
            device.group = None;
        }
    })
}

fn refused(device: &mut DeviceAccess) {
    device.read_write = Some(false);
    device.user_in_group = Some(false);
}

/// An environment that is right for an RX 7900 XTX.
fn rocm_env() -> PythonEnvironment {
    let package = |name: &str, version: &str| Package {
        name: name.to_owned(),
        version: version.to_owned(),
    };
    PythonEnvironment {
        path: PathBuf::from("/home/u/venv"),
        site: Some(PathBuf::from("/home/u/venv/lib/python3.12/site-packages")),
        python: Some("3.12.3".to_owned()),
        system_site_packages: Some(false),
        packages: vec![
            package("accelerate", "1.14.0"),
            package("bitsandbytes", "0.50.2"),
            package("rocm", "7.13.0"),
            package("rocm-sdk-core", "7.13.0"),
            package("torch", "2.11.0+rocm7.13.0"),
            package("torchao", "0.17.0"),
            package("torchvision", "0.26.0+rocm7.13.0"),
            package("transformers", "5.17.0"),
            package("triton", "3.6.0+rocm7.13.0"),
            package("trl", "1.15.0"),
            package("unsloth", "2026.10.9"),
        ],
        torch: Some(Torch {
            version: "2.11.0+rocm7.13.0".to_owned(),
            cuda: None,
            hip: Some("7.13.99004".to_owned()),
        }),
        triton_backends: Some(vec!["amd".to_owned(), "nvidia".to_owned()]),
        bitsandbytes_rocm: Some(["64", "70", "71", "72", "714"].map(str::to_owned).to_vec()),
        rocblas_targets: Some(
            ["gfx1100", "gfx1101", "gfx1102", "gfx1103"]
                .map(str::to_owned)
                .to_vec(),
        ),
        ..PythonEnvironment::default()
    }
}

fn env(change: impl FnOnce(&mut PythonEnvironment)) -> PythonEnvironment {
    let mut env = rocm_env();
    change(&mut env);
    env
}

fn put(env: &mut PythonEnvironment, name: &str, version: &str) {
    env.packages.retain(|package| package.name != name);
    env.packages.push(Package {
        name: name.to_owned(),
        version: version.to_owned(),
    });
    env.packages.sort_by(|a, b| a.name.cmp(&b.name));
}

fn torch(version: &str, cuda: Option<&str>, hip: Option<&str>) -> PythonEnvironment {
    env(|env| {
        put(env, "torch", version);
        env.torch = Some(Torch {
            version: version.to_owned(),
            cuda: cuda.map(str::to_owned),
            hip: hip.map(str::to_owned),
        });
    })
}

fn cuda_env(tag: &str, cuda: &str) -> PythonEnvironment {
    torch(&format!("2.11.0+{tag}"), Some(cuda), None)
}

/// For every check: its id, a machine that it finds fault with, one that it does not.
fn cases() -> Vec<(&'static str, World, World)> {
    let ok = desktop;
    let with_env = |env| desktop().env(env);
    let good_env = || desktop().env(rocm_env());
    let vram = |world: World, gib: u64| world.gpu(|gpu| gpu.vram_bytes = Some(gib * GIB));
    vec![
        // The card.
        ("card-present", processor_only(), ok()),
        (
            "card-driver",
            ok().gpu(|gpu| gpu.driver = Some("vfio-pci".to_owned())),
            ok(),
        ),
        ("card-compute-driver", ok().gpu(|gpu| gpu.kfd_node = None), ok()),
        (
            "card-windows-driver",
            windows().gpu(|gpu| gpu.basic_display_driver = true),
            windows(),
        ),
        (
            "card-target",
            ok().gpu(|gpu| gpu.reported_gfx = Some("gfx1030".to_owned())),
            ok(),
        ),
        ("card-route", card("gfx803", 8), ok()),
        ("card-gradients", card("gfx1033", 8), ok()),
        ("card-bf16", card("gfx1030", 16), ok()),
        (
            "card-triton-buffers",
            card("gfx1010", 8),
            card("gfx1010", 8).set("AMDGCN_USE_BUFFER_OPS", "0"),
        ),
        ("card-four-bit", card("gfx1010", 8), ok()),
        ("card-memory", card("gfx1034", 3), ok()),
        (
            "card-capability",
            nvidia().gpu(|gpu| gpu.compute_capability = Some("6.1".to_owned())),
            nvidia(),
        ),
        (
            "card-power-cap",
            nvidia().gpu(|gpu| {
                gpu.name = Some("NVIDIA GeForce RTX 3060 Laptop GPU".to_owned());
                gpu.power_limit_watts = Some(25.0);
            }),
            nvidia(),
        ),
        (
            "nvidia-driver-age",
            nvidia().with(|world| {
                world.system.stacks.cuda_driver = None;
                world.system.stacks.nvidia_driver = Some("470.256.02".to_owned());
            }),
            nvidia(),
        ),
        // Access.
        (
            "kfd-device",
            ok().with(|world| world.system.access.kfd.as_mut().unwrap().exists = false),
            ok(),
        ),
        (
            "kfd-access",
            ok().with(|world| refused(world.system.access.kfd.as_mut().unwrap())),
            ok(),
        ),
        (
            "render-node",
            ok().with(|world| world.system.access.render_nodes.clear()),
            ok(),
        ),
        (
            "render-access",
            ok().with(|world| refused(&mut world.system.access.render_nodes[0])),
            ok(),
        ),
        (
            "container-groups",
            container(),
            ok().with(|world| world.system.machine.container = Some("docker".to_owned())),
        ),
        (
            "container-card",
            container().gpu(|gpu| gpu.kfd_forbidden = true),
            ok().with(|world| world.system.machine.container = Some("podman".to_owned())),
        ),
        (
            "flatpak-devices",
            ok().with(|world| {
                world.system.flatpak = Some(Flatpak {
                    version: Some("1.16.1".to_owned()),
                    devices: vec!["dri".to_owned()],
                });
            }),
            ok().with(|world| {
                world.system.flatpak = Some(Flatpak {
                    version: Some("1.18.0".to_owned()),
                    devices: vec!["dri".to_owned()],
                });
            }),
        ),
        // The platform.
        (
            "platform",
            ok().with(|world| world.system.platform = Platform::Macos),
            ok(),
        ),
        (
            "wsl-device",
            wsl().with(|world| world.system.access.dxg = Some(false)),
            wsl(),
        ),
        (
            "wsl-librocdxg",
            wsl().with(|world| world.system.stacks.librocdxg = Some(false)),
            wsl(),
        ),
        (
            "wsl-detection",
            wsl().with(|world| world.system.settings.clear()),
            wsl(),
        ),
        (
            "wsl-old-runtime",
            wsl().with(|world| world.system.stacks.packages = vec!["libhsa-runtime64-1 5.7.1-2".to_owned()]),
            wsl(),
        ),
        (
            "wsl-memory",
            wsl().with(|world| world.system.machine.memory_bytes = Some(25_700_000_000)),
            wsl(),
        ),
        (
            "wsl-free-memory",
            wsl().gpu(|gpu| gpu.vram_used_bytes = gpu.vram_bytes),
            wsl(),
        ),
        (
            "windows-build",
            windows().with(|world| world.around.windows_build = Some(19045)),
            windows(),
        ),
        (
            "windows-runtime",
            windows().with(|world| world.around.windows_vc_runtime = Some(false)),
            windows(),
        ),
        (
            "windows-carve-out",
            vram(windows().gpu(|gpu| gpu.integrated = Some(true)), 96),
            vram(windows().gpu(|gpu| gpu.integrated = Some(true)), 64),
        ),
        (
            "windows-rdna2-driver",
            windows().with(|world| {
                world.system.gpus[0].gfx = Some("gfx1030".to_owned());
                world.system.stacks.windows_drivers = vec![("AMD".to_owned(), "26.1.1".to_owned())];
            }),
            windows().gpu(|gpu| gpu.gfx = Some("gfx1030".to_owned())),
        ),
        // The kernel.
        (
            "strix-register-sizes",
            strix().gpu(|gpu| gpu.cwsr_sizes_exported = Some(false)),
            strix(),
        ),
        (
            "strix-mes-firmware",
            strix().gpu(|gpu| gpu.firmware[0].1 = "0x00000083".to_owned()),
            strix(),
        ),
        (
            "strix-dkms",
            strix().with(|world| world.system.kernel.amdgpu_dkms = Some(true)),
            strix(),
        ),
        (
            "secure-boot-dkms",
            ok().with(|world| {
                world.system.kernel.amdgpu_dkms = Some(true);
                world.system.kernel.modules.clear();
                world.system.gpus[0].driver = None;
            }),
            ok(),
        ),
        (
            "kernel-rdna4",
            card("gfx1201", 16).with(|world| {
                world.system.machine.kernel = Some("6.8.0-60-generic".to_owned());
                world.system.gpus[0].kfd_node = None;
            }),
            card("gfx1201", 16),
        ),
        (
            "kernel-faults",
            strix().with(|world| world.system.machine.kernel = Some("6.14.0-1010-oem".to_owned())),
            strix(),
        ),
        ("kernel-parameters", ok().words(&["amdgpu.gtt_size=98304"]), ok()),
        ("kernel-iommu", strix().words(&["amd_iommu=off"]), strix()),
        (
            "kernel-changed",
            ok().with(|world| {
                world.around.last_good = Some(LastGood {
                    kernel: Some("6.17.8".to_owned()),
                    ..LastGood::default()
                });
            }),
            ok().with(|world| {
                world.around.last_good = Some(LastGood {
                    kernel: Some("6.18.4".to_owned()),
                    ..LastGood::default()
                });
            }),
        ),
        // The kernel's log.
        (
            "log-resets",
            ok().log("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!"),
            ok(),
        ),
        (
            "log-scheduler",
            ok().log("[drm:mes_v11_0_submit_pkt [amdgpu]] *ERROR* MES failed to response msg=3"),
            ok(),
        ),
        (
            "log-page-faults",
            ok().log("amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:40 vmid:8)"),
            ok(),
        ),
        (
            "log-start",
            ok().gpu(|gpu| gpu.kfd_node = None).log(
                "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/gc_11_0_0_mes.bin failed with error -2",
            ),
            ok(),
        ),
        (
            "log-atomics",
            ok().log("kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0"),
            ok(),
        ),
        (
            "log-small-window",
            ok().log("[drm] Detected VRAM RAM=16368M, BAR=256M"),
            ok(),
        ),
        (
            "log-refused-module",
            ok().gpu(|gpu| gpu.driver = None)
                .log("Loading of module with unavailable key is rejected; Key was rejected by service"),
            ok(),
        ),
        (
            "log-unknown-parameter",
            ok().log("amdgpu: unknown parameter 'gtt_size' ignored"),
            ok(),
        ),
        (
            "log-allocation",
            ok().log("python3: page allocation failure: order:0, mode:0x40dc0"),
            ok(),
        ),
        (
            "log-out-of-memory",
            ok().log("Out of memory: Killed process 4242 (python3) total-vm:100kB"),
            ok(),
        ),
        (
            "log-xid",
            nvidia().log("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."),
            nvidia(),
        ),
        // Settings.
        ("override", ok().set("HSA_OVERRIDE_GFX_VERSION", "10.3.0"), ok()),
        (
            "mask-empty",
            ok().set("ROCR_VISIBLE_DEVICES", ""),
            ok().set("ROCR_VISIBLE_DEVICES", "0"),
        ),
        (
            "mask-hides-card",
            two_cards(igpu()).set("HIP_VISIBLE_DEVICES", "1"),
            two_cards(igpu()).set("HIP_VISIBLE_DEVICES", "0"),
        ),
        (
            "masks-compound",
            ok().set("ROCR_VISIBLE_DEVICES", "0")
                .set("HIP_VISIBLE_DEVICES", "0"),
            ok().set("HIP_VISIBLE_DEVICES", "0"),
        ),
        (
            "library-path",
            ok().set("LD_LIBRARY_PATH", "/usr/lib:/opt/rocm-7.2/lib"),
            ok().set("LD_LIBRARY_PATH", "/usr/lib"),
        ),
        ("python-path", ok().set("PYTHONPATH", "/home/u/lib"), ok()),
        (
            "allocator-pair",
            ok().set(
                "PYTORCH_ALLOC_CONF",
                "expandable_segments:True,max_split_size_mb:256",
            ),
            ok().set("PYTORCH_ALLOC_CONF", "garbage_collection_threshold:0.8"),
        ),
        (
            "allocator-segments",
            ok().set("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
            ok(),
        ),
        (
            "attention-flag",
            card("gfx1101", 16).set("TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "0"),
            card("gfx1101", 16).set("TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "1"),
        ),
        (
            "hipblaslt-setting",
            card("gfx1030", 16).set("TORCH_BLAS_PREFER_HIPBLASLT", "1"),
            ok(),
        ),
        (
            "setting-sdma",
            ok().set("HSA_ENABLE_SDMA", "0"),
            ok().set("HSA_ENABLE_SDMA", "1"),
        ),
        ("setting-interrupts", ok().set("HSA_ENABLE_INTERRUPT", "0"), ok()),
        ("setting-tuning", ok().set("PYTORCH_TUNABLEOP_ENABLED", "1"), ok()),
        ("setting-queues", ok().set("GPU_MAX_HW_QUEUES", "1"), ok()),
        ("setting-debugging", ok().set("AMD_SERIALIZE_KERNEL", "3"), ok()),
        ("setting-compile", ok().set("TORCHDYNAMO_DISABLE", "1"), ok()),
        // Several cards.
        (
            "cards-integrated",
            two_cards(igpu()),
            two_cards(igpu()).set("ROCR_VISIBLE_DEVICES", "0"),
        ),
        ("cards-vendors", two_cards(nvidia_card()), ok()),
        ("cards-alike", two_cards(xtx()), ok()),
        (
            "cards-families",
            two_cards(Gpu {
                gfx: Some("gfx1034".to_owned()),
                ..xtx()
            }),
            two_cards(Gpu {
                gfx: Some("gfx1102".to_owned()),
                ..xtx()
            }),
        ),
        // Memory.
        (
            "unified-limit",
            strix(),
            strix().gpu(|gpu| gpu.gtt_bytes = Some(107 * GIB)),
        ),
        (
            "unified-old-parameter",
            strix().words(&["amdgpu.gttsize=126976"]),
            strix().words(&["amdgpu.gttsize=126976", "ttm.pages_limit=27648000"]),
        ),
        (
            "unified-too-much",
            strix().with(|world| world.system.kernel.ttm_pages_limit = Some(33_554_432)),
            strix(),
        ),
        ("unified-carve-out", vram(strix(), 64), strix()),
        (
            "unified-pool",
            strix().gpu(|gpu| gpu.pool_bytes = gpu.vram_bytes),
            strix(),
        ),
        (
            "unified-runtime",
            strix().gpu(|gpu| gpu.pool_bytes = Some(30 * GIB)),
            strix(),
        ),
        (
            "unified-container",
            strix().with(|world| {
                world.system.machine.limits = Limits {
                    memory_max_bytes: Some(32 * GIB),
                    ..Limits::default()
                }
            }),
            strix().with(|world| {
                world.system.machine.limits = Limits {
                    memory_max_bytes: Some(100 * GIB),
                    ..Limits::default()
                }
            }),
        ),
        (
            "recipe-memory",
            ok().with(|world| world.around.recipe.as_mut().unwrap().memory_bytes = Some(30 * GIB)),
            ok(),
        ),
        (
            "card-memory-taken",
            ok().gpu(|gpu| gpu.vram_used_bytes = Some(8 * GIB)),
            ok(),
        ),
        (
            "memory-total",
            ok().with(|world| world.system.machine.memory_bytes = Some(8 * GIB)),
            ok(),
        ),
        (
            "memory-available",
            ok().with(|world| world.around.available_memory_bytes = Some(GIB)),
            ok(),
        ),
        (
            "memory-swap",
            ok().with(|world| {
                world.system.machine.memory_bytes = Some(16 * GIB);
                world.around.swap_bytes = Some(0);
            }),
            ok(),
        ),
        // Bus, processor, disks.
        (
            "resizable-bar",
            ok().gpu(|gpu| {
                gpu.resizable_bar = Some(false);
                gpu.visible_vram_bytes = Some(GIB / 4);
            }),
            ok(),
        ),
        (
            "link-width",
            ok().gpu(|gpu| gpu.link.as_mut().unwrap().width = Some(4)),
            ok(),
        ),
        (
            "link-speed",
            ok().gpu(|gpu| gpu.link.as_mut().unwrap().max_speed_gt_per_sec = Some(5.0)),
            ok(),
        ),
        (
            "processor-vectors",
            ok().with(|world| world.system.machine.cpu_features.avx2 = Some(false)),
            ok(),
        ),
        (
            "processor-bf16",
            processor_only().with(|world| world.system.machine.cpu_features.avx512_bf16 = Some(false)),
            processor_only(),
        ),
        (
            "processor-limit",
            ok().with(|world| {
                world.system.machine.limits = Limits {
                    cpu_quota_cores: Some(2.0),
                    ..Limits::default()
                }
            }),
            ok(),
        ),
        (
            "disk-cache",
            ok().with(|world| world.around.cache_disk.as_mut().unwrap().free_bytes = Some(GIB)),
            ok(),
        ),
        (
            "disk-data",
            ok().with(|world| world.around.data_disk.as_mut().unwrap().free_bytes = Some(GIB)),
            ok(),
        ),
        (
            "card-programs",
            ok().with(|world| {
                world.around.gpu_processes = Some(vec![GpuProcess {
                    pid: 77,
                    name: "ollama".to_owned(),
                    vram_bytes: Some(6 * GIB),
                    ..GpuProcess::default()
                }]);
            }),
            ok(),
        ),
        // Environments.
        (
            "env-found",
            with_env(PythonEnvironment {
                path: "/nowhere".into(),
                ..PythonEnvironment::default()
            }),
            good_env(),
        ),
        (
            "env-torch",
            with_env(env(|env| {
                env.torch = None;
                env.packages.retain(|package| package.name != "torch");
            })),
            good_env(),
        ),
        (
            "env-flavour",
            with_env(torch("2.11.0+cu128", Some("12.8"), None)),
            good_env(),
        ),
        (
            "env-kernels",
            with_env(env(|env| env.rocblas_targets = Some(vec!["gfx1030".to_owned()]))),
            good_env(),
        ),
        (
            "env-known-faults",
            with_env(torch("2.8.0+rocm6.3", None, Some("6.3.42131"))),
            good_env(),
        ),
        (
            "env-grouped-products",
            card("gfx1201", 16).env(torch("2.10.0+rocm7.12.0", None, Some("7.2.0"))),
            card("gfx1201", 16).env(rocm_env()),
        ),
        (
            "env-engine",
            with_env(torch("2.12.0+rocm7.2", None, Some("7.2.1"))),
            good_env(),
        ),
        (
            "env-python",
            with_env(env(|env| {
                env.python = Some("3.9.2".to_owned());
                env.torch = None;
            })),
            good_env(),
        ),
        (
            "env-pairs",
            with_env(env(|env| put(env, "torchvision", "0.25.0"))),
            good_env(),
        ),
        (
            "env-rocm-packages",
            with_env(env(|env| put(env, "rocm-sdk-core", "7.14.0"))),
            good_env(),
        ),
        (
            "env-two-tritons",
            with_env(env(|env| put(env, "pytorch-triton-rocm", "3.5.1"))),
            good_env(),
        ),
        (
            "env-triton-amd",
            with_env(env(|env| env.triton_backends = Some(vec!["nvidia".to_owned()]))),
            good_env(),
        ),
        (
            "env-triton-rocm",
            with_env(env(|env| {
                put(env, "triton", "3.6.0");
                env.triton_rocm_major = Some(6);
            })),
            good_env(),
        ),
        (
            "env-4bit-library",
            with_env(env(|env| env.bitsandbytes_rocm = Some(vec!["64".to_owned()]))),
            good_env(),
        ),
        (
            "env-4bit-version",
            with_env(env(|env| put(env, "bitsandbytes", "0.49.2"))),
            good_env(),
        ),
        (
            "env-4bit-leftover",
            with_env(env(|env| env.bitsandbytes_is_hollow = true)),
            good_env(),
        ),
        (
            "env-xformers",
            with_env(env(|env| put(env, "xformers", "0.0.32.post2"))),
            good_env(),
        ),
        (
            "env-trl",
            with_env(env(|env| {
                put(env, "trl", "0.24.0");
                put(env, "transformers", "5.5.0");
            })),
            good_env(),
        ),
        (
            "env-gemma",
            with_env(env(|env| put(env, "transformers", "5.5.0"))),
            good_env(),
        ),
        (
            "env-accelerate",
            windows().env(env(|env| put(env, "accelerate", "1.15.0"))),
            windows().env(rocm_env()),
        ),
        (
            "env-unsloth",
            with_env(env(|env| put(env, "transformers", "5.24.0"))),
            good_env(),
        ),
        (
            "env-torchao",
            windows().env(rocm_env()),
            windows().env(rocm_env()).with(|world| {
                // Without an AMD card torch for Windows has its distributed part.
                world.system.gpus[0] = nvidia_card();
            }),
        ),
        (
            "env-cuda-driver",
            nvidia()
                .with(|world| world.system.stacks.cuda_driver = Some("12.4".to_owned()))
                .env(cuda_env("cu130", "13.0")),
            nvidia().env(cuda_env("cu128", "12.8")),
        ),
        (
            "env-cuda-capability",
            nvidia()
                .gpu(|gpu| gpu.compute_capability = Some("6.1".to_owned()))
                .env(cuda_env("cu128", "12.8")),
            nvidia().env(cuda_env("cu128", "12.8")),
        ),
        (
            "env-override",
            with_env(env(|env| {
                env.settings = vec![Setting {
                    name: "HSA_OVERRIDE_GFX_VERSION".to_owned(),
                    value: "9.0.0".to_owned(),
                    origin: "/home/u/venv/bin/activate".to_owned(),
                    line: Some(80),
                    in_effect: false,
                }];
            })),
            good_env(),
        ),
        (
            "env-isolated",
            with_env(env(|env| env.system_site_packages = Some(true))),
            good_env(),
        ),
        (
            "env-twice",
            with_env(env(|env| {
                let again = Package {
                    name: "torch".to_owned(),
                    version: "2.12.0".to_owned(),
                };
                env.packages.insert(5, again);
            })),
            good_env(),
        ),
    ]
}

#[test]
fn every_check_finds_fault_where_there_is_one_and_none_where_there_is_none() {
    let cases = cases();
    let tried: BTreeSet<&str> = cases.iter().map(|(id, ..)| *id).collect();
    let all: BTreeSet<&str> = CHECKS.iter().map(|spec| spec.id).collect();
    assert_eq!(tried, all);
    assert!(all.len() >= 50 && all.len() == CHECKS.len(), "{}", CHECKS.len());
    for (id, bad, good) in cases {
        let found = bad.diagnose();
        let check = found.check(id).unwrap_or_else(|| panic!("{id} was not made"));
        assert!(
            matches!(check.status, Status::Fail | Status::Warn),
            "{id}: {check:?}"
        );
        assert!(
            !check.found.is_empty() && !check.means.is_empty() && !check.sources.is_empty(),
            "{check:?}"
        );
        assert_eq!(
            check.stops == Some(Stops::Recipe),
            check.status == Status::Fail,
            "{check:?}"
        );
        let found = good.diagnose();
        let check = found
            .check(id)
            .unwrap_or_else(|| panic!("{id} was not made where all is well"));
        assert_eq!(check.status, Status::Ok, "{id}: {check:?}");
        assert!(!check.found.is_empty(), "{check:?}");
    }
}

#[test]
fn a_healthy_machine_is_ready_and_the_next_step_is_to_train() {
    for world in [desktop(), nvidia(), windows(), wsl(), desktop().env(rocm_env())] {
        let diagnosis = world.diagnose();
        let matters: Vec<&Check> = diagnosis
            .checks
            .iter()
            .filter(|check| matches!(check.status, Status::Fail | Status::Warn))
            .collect();
        assert!(matters.is_empty(), "{matters:#?}");
        assert_eq!(diagnosis.verdict, Verdict::Ready);
        assert_eq!(diagnosis.next.check, None);
    }
    let diagnosis = processor_only().diagnose();
    assert_eq!(diagnosis.verdict, Verdict::Ready, "{}", diagnosis.opening);
    assert!(
        diagnosis.opening.contains("the processor"),
        "{}",
        diagnosis.opening
    );
}

#[test]
fn of_an_empty_system_everything_is_unknown() {
    let diagnosis = World::default().diagnose();
    assert_eq!(diagnosis.verdict, Verdict::Unknown);
    assert!(
        diagnosis
            .checks
            .iter()
            .all(|check| check.status == Status::Unknown),
        "{:#?}",
        diagnosis.checks
    );
    assert!(!diagnosis.checks.is_empty());
}

#[test]
fn a_card_of_which_nothing_is_known_claims_nothing() {
    for platform in [
        Platform::Linux,
        Platform::Wsl,
        Platform::Windows,
        Platform::Unknown,
    ] {
        for vendor in [None, Some(GpuVendor::Amd), Some(GpuVendor::Nvidia)] {
            let system = System {
                platform,
                gpus: vec![Gpu {
                    vendor,
                    ..Gpu::default()
                }],
                ..System::default()
            };
            let world = World {
                system,
                ..World::default()
            };
            let diagnosis = world
                .env(PythonEnvironment {
                    site: Some("/x".into()),
                    ..PythonEnvironment::default()
                })
                .diagnose();
            for check in &diagnosis.checks {
                // A missing torch is known from the folder.
                assert!(
                    check.stops.is_none() || check.id == "env-torch",
                    "{platform:?} {vendor:?} {check:?}"
                );
            }
        }
    }
}

#[test]
fn a_card_without_a_driver_is_never_called_no_card() {
    let world = desktop().gpu(|gpu| {
        gpu.driver = None;
        gpu.driver_bound = Some(false);
        gpu.kfd_node = None;
    });
    let diagnosis = world.diagnose();
    let check = diagnosis.check("card-driver").unwrap();
    assert!(
        check.means.contains("card is there") && check.means.contains("driver is missing"),
        "{}",
        check.means
    );
    assert_eq!(diagnosis.verdict, Verdict::Blocked);
    let no_kfd = desktop().gpu(|gpu| gpu.kfd_node = None).diagnose();
    assert!(
        no_kfd
            .check("card-compute-driver")
            .unwrap()
            .means
            .contains("compute driver is missing")
    );
}

#[test]
fn both_devices_are_needed_and_a_group_of_the_database_asks_for_a_new_session() {
    // Only the video group: /dev/kfd may be used, the render node may not.
    let diagnosis = desktop()
        .with(|world| {
            refused(&mut world.system.access.render_nodes[0]);
            world.system.access.process_groups = Some(vec![44, 1000]);
        })
        .diagnose();
    let check = diagnosis.check("render-access").unwrap();
    let cure = check.cure.as_ref().unwrap();
    assert_eq!(
        cure.command.as_deref(),
        Some("sudo usermod -aG render,video \"$USER\"")
    );
    assert_eq!(cure.needs, Needs::LogOut);
    let waiting = desktop().with(|world| {
        let kfd = world.system.access.kfd.as_mut().unwrap();
        refused(kfd);
        kfd.user_in_group = Some(true);
        world.system.access.process_groups = Some(vec![1000]);
    });
    let cure = waiting
        .diagnose()
        .check("kfd-access")
        .unwrap()
        .cure
        .clone()
        .unwrap();
    assert_eq!((cure.command, cure.needs), (None, Needs::LogOut));
    // A hostile group's name does not get into a command.
    let hostile = desktop().with(|world| {
        let kfd = world.system.access.kfd.as_mut().unwrap();
        refused(kfd);
        kfd.group = Some("a;rm -rf ~".to_owned());
        world.system.access.process_groups = Some(vec![1000]);
    });
    let command = hostile
        .diagnose()
        .check("kfd-access")
        .unwrap()
        .cure
        .clone()
        .unwrap()
        .command
        .unwrap();
    assert!(!command.contains("rm -rf"), "{command}");
}

#[test]
fn a_container_is_told_the_number_to_pass() {
    let diagnosis = container().diagnose();
    let check = diagnosis.check("container-groups").unwrap();
    let cure = check.cure.as_ref().unwrap();
    assert!(cure.command.as_ref().unwrap().contains("--group-add 991"));
    assert_eq!(cure.place, Place::Host);
    // Said once, not three times.
    assert!(diagnosis.check("kfd-access").is_none());
}

#[test]
fn an_override_is_judged_by_the_card_and_never_proposed() {
    let status = |world: World| {
        let diagnosis = world.diagnose();
        let check = diagnosis.check("override").unwrap();
        (check.status, check.stops)
    };
    let name = "HSA_OVERRIDE_GFX_VERSION";
    assert_eq!(status(desktop().set(name, "11.0.0")), (Status::Warn, None));
    assert_eq!(
        status(strix().set(name, "11.0.0")),
        (Status::Fail, Some(Stops::Recipe))
    );
    // Only a file sets it: this process is not harmed.
    assert_eq!(
        status(strix().set_in_file(name, "11.0.0", "/home/u/.bashrc", false)),
        (Status::Warn, None)
    );
    // It hits the processor's graphics alone.
    assert_eq!(
        status(two_cards(igpu()).set(name, "11.0.0")),
        (Status::Warn, None)
    );
    // For one node that is another card.
    assert_eq!(
        status(two_cards(igpu()).set("HSA_OVERRIDE_GFX_VERSION_2", "10.3.0")),
        (Status::Warn, None)
    );
    assert_eq!(
        status(desktop().gpu(|gpu| gpu.gfx = None).set(name, "11.0.0")),
        (Status::Unknown, None)
    );
    assert_eq!(status(windows().set(name, "10.3.0")), (Status::Warn, None));
    // Wheels without code for the card and with code for the foreign target: it is what makes them run.
    let old_wheels = env(|env| env.rocblas_targets = Some(vec!["gfx1030".to_owned()]));
    assert_eq!(
        status(card("gfx1032", 8).set(name, "10.3.0").env(old_wheels)),
        (Status::Warn, None)
    );
    let file = strix()
        .set_in_file(name, "11.0.0", "/home/u/.bash rc", true)
        .diagnose();
    let command = file
        .check("override")
        .unwrap()
        .cure
        .as_ref()
        .unwrap()
        .command
        .clone()
        .unwrap();
    assert_eq!(
        command,
        format!("sed -i.bak '/{name}/d' '/home/u/.bash rc'; unset {name}")
    );
    for (_, bad, good) in cases() {
        for check in bad.diagnose().checks.into_iter().chain(good.diagnose().checks) {
            let command = check.cure.and_then(|cure| cure.command).unwrap_or_default();
            let proposes = [
                "export HSA_OVERRIDE",
                "$env:HSA_OVERRIDE",
                "HSA_OVERRIDE_GFX_VERSION=",
            ];
            assert!(!proposes.iter().any(|word| command.contains(word)), "{command}");
        }
    }
}

#[test]
fn the_memory_limit_comes_with_its_number() {
    let diagnosis = strix().diagnose();
    assert_eq!(diagnosis.verdict, Verdict::Ready);
    let check = diagnosis.check("unified-limit").unwrap();
    assert_eq!(check.stops, Some(Stops::BiggerModels));
    // 134 GB less a fifth: 99 GiB x 262144 pages.
    let command = check.cure.as_ref().unwrap().command.as_ref().unwrap();
    assert!(command.contains("pages_limit=25952256 "), "{command}");
    assert!(command.contains("dracut"), "{command}");
    // A small machine keeps its half.
    let small = strix().with(|world| {
        world.system.machine.memory_bytes = Some(30 * GIB);
        world.system.gpus[0].gtt_bytes = Some(15 * GIB);
    });
    assert_eq!(
        small.diagnose().check("unified-limit").unwrap().status,
        Status::Ok
    );
}

#[test]
fn a_card_that_four_lanes_are_built_into_is_not_in_a_wrong_slot() {
    let world = card("gfx1034", 4).gpu(|gpu| {
        let link = gpu.link.as_mut().unwrap();
        (link.width, link.max_width) = (Some(4), Some(4));
    });
    assert_eq!(world.diagnose().check("link-width").unwrap().status, Status::Ok);
    let asleep = desktop().gpu(|gpu| gpu.runtime_status = Some("suspended".to_owned()));
    assert_eq!(
        asleep.diagnose().check("link-width").unwrap().status,
        Status::Unknown
    );
}

#[test]
fn a_forgotten_card_beside_one_that_works_stops_nothing() {
    let spare = Gpu {
        driver: Some("vfio-pci".to_owned()),
        kfd_node: None,
        pci: Some("0000:04:00.0".to_owned()),
        ..xtx()
    };
    let diagnosis = two_cards(spare).diagnose();
    let check = diagnosis
        .with_status(Status::Warn)
        .find(|check| check.id == "card-driver")
        .unwrap();
    assert_eq!(check.stops, None);
    assert_ne!(diagnosis.verdict, Verdict::Blocked);
}

/// How early a reboot stands: first what blocks, then what is cheap.
#[test]
fn cures_stand_in_the_order_in_which_to_do_them() {
    let world = strix()
        .gpu(|gpu| gpu.cwsr_sizes_exported = Some(false))
        .with(|world| refused(world.system.access.kfd.as_mut().unwrap()))
        .with(|world| world.system.access.process_groups = Some(vec![1000]))
        .set("HSA_ENABLE_SDMA", "0")
        .set("HSA_OVERRIDE_GFX_VERSION", "11.0.0");
    let diagnosis = world.diagnose();
    let ids: Vec<&str> = diagnosis
        .checks
        .iter()
        .filter(|check| matches!(check.status, Status::Fail | Status::Warn))
        .map(|check| check.id.as_str())
        .collect();
    assert_eq!(
        ids,
        [
            "override",
            "kfd-access",
            "strix-register-sizes",
            "setting-sdma",
            "unified-limit"
        ]
    );
    assert_eq!(diagnosis.next.check.as_deref(), Some("override"));
    assert_eq!(diagnosis.verdict, Verdict::Blocked);
}

#[test]
fn a_reboot_never_comes_first_while_the_recipe_runs() {
    for (_, bad, good) in cases() {
        for diagnosis in [bad.diagnose(), good.diagnose()] {
            if diagnosis.verdict != Verdict::Blocked {
                assert!(diagnosis.next.needs < Needs::Reboot, "{:?}", diagnosis.next);
            }
            let heavy = |check: &Check| {
                check
                    .cure
                    .as_ref()
                    .is_some_and(|cure| cure.needs >= Needs::Reboot)
            };
            let not_blocking = |check: &&Check| {
                matches!(check.status, Status::Fail | Status::Warn) && check.stops != Some(Stops::Recipe)
            };
            let mut rest = diagnosis
                .checks
                .iter()
                .filter(not_blocking)
                .skip_while(|check| !heavy(check));
            assert!(rest.all(heavy), "{:#?}", diagnosis.checks);
        }
    }
    // A small window to the card costs speed, and the BIOS is no first step.
    let world = desktop().gpu(|gpu| gpu.resizable_bar = Some(false));
    let diagnosis = world.diagnose();
    assert_eq!(diagnosis.verdict, Verdict::ReadyButSlower);
    assert_eq!(diagnosis.next.check, None);
}

#[test]
fn a_plan_may_say_how_torch_is_installed() {
    let wrong = || desktop().env(torch("2.11.0", Some("12.8"), None));
    let command = |world: World| {
        world
            .diagnose()
            .check("env-flavour")
            .unwrap()
            .cure
            .clone()
            .unwrap()
            .command
            .unwrap()
    };
    // Without a plan the first build of targets.toml.
    let first = command(wrong());
    assert!(
        first.contains("--index-url https://") && first.contains("torch"),
        "{first}"
    );
    let planned = wrong().with(|world| {
        world.around.torch_install = vec![TorchInstall {
            gfx: "gfx1100".to_owned(),
            command: "uv pip install this".to_owned(),
        }];
    });
    assert_eq!(command(planned), "uv pip install this");
}

#[test]
fn known_bad_builds_are_told_by_version_tag_and_card() {
    let rule = |gfx: &str, version: &str| {
        let diagnosis = card(gfx, 16).env(torch(version, None, Some("7.2"))).diagnose();
        let check = diagnosis.check("env-known-faults").unwrap();
        let id = check.found.split("rule ").nth(1).map(str::to_owned);
        id.unwrap_or_default()
    };
    let expected = [
        ("gfx1151", "2.13.0a0+rocm7.14.0a20260610", "strix-june-nightlies"),
        ("gfx1151", "2.13.0a0+rocm7.14.0a20260608", ""),
        ("gfx1151", "2.10.0+rocm7.1", "strix-pytorch-7.1"),
        ("gfx1151", "2.11.0+rocm7.13.0", ""),
        ("gfx1100", "2.12.0+rocm7.14.0", "missing-family-pack"),
        ("gfx1100", "2.12.0+rocm7.14.1", "aotriton-mismatch"),
        ("gfx1100", "2.12.0+rocm10.0.0", "aotriton-mismatch-10"),
        ("gfx1100", "2.11.0+rocm7.2", ""),
        ("gfx1201", "2.11.0+rocm7.2", "hipblaslt-zeros"),
        ("gfx1201", "2.11.0+rocm7.13.0", ""),
        ("gfx1102", "2.6.0+rocm6.2", "old-wheel-new-card"),
    ];
    for (gfx, version, id) in expected {
        assert_eq!(rule(gfx, version), id, "{gfx} {version}");
    }
    // A fault that a flag switches on.
    let world = desktop().env(torch("2.9.1+rocm6.4", None, Some("6.4")));
    let flagged = world
        .clone()
        .set("TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "1")
        .diagnose();
    assert_eq!(
        flagged.check("env-known-faults").unwrap().stops,
        Some(Stops::Recipe)
    );
    assert_eq!(
        world.diagnose().check("env-known-faults").unwrap().stops,
        Some(Stops::BiggerModels)
    );
}

#[test]
fn old_bitsandbytes_asks_for_a_library_that_nobody_builds() {
    let world = |version: &str| desktop().env(env(|env| put(env, "bitsandbytes", version)));
    let diagnosis = world("0.49.2").diagnose();
    let check = diagnosis.check("env-4bit-library").unwrap();
    // HIP 7.13 becomes 83.
    assert!(check.found.contains("asks for 83"), "{}", check.found);
    assert_eq!(
        world("0.50.2")
            .diagnose()
            .check("env-4bit-library")
            .unwrap()
            .status,
        Status::Ok
    );
    // RDNA2 needs the library for 7.14, and the rule takes the one for 7.2.
    let rdna2 = card("gfx1030", 16).env(rocm_env()).diagnose();
    assert!(
        rdna2
            .check("env-4bit-library")
            .unwrap()
            .cure
            .as_ref()
            .unwrap()
            .command
            .as_ref()
            .unwrap()
            .contains("714")
    );
}

#[test]
fn the_answer_survives_json_and_names_its_schema() {
    let diagnosis = strix()
        .set("HSA_OVERRIDE_GFX_VERSION", "11.0.0")
        .env(rocm_env())
        .diagnose();
    let json = serde_json::to_value(&diagnosis).unwrap();
    assert_eq!(json["schema"], DIAGNOSIS_SCHEMA);
    assert_eq!(json["verdict"], "blocked");
    assert_eq!(json["checks"][0]["status"], "fail");
    assert_eq!(json["checks"][0]["stops"], "recipe");
    assert_eq!(serde_json::from_value::<Diagnosis>(json).unwrap(), diagnosis);
}

#[test]
fn ids_are_unique_slugs_and_each_title_is_said_once() {
    let ids: BTreeSet<&str> = CHECKS.iter().map(|spec| spec.id).collect();
    let titles: BTreeSet<&str> = CHECKS.iter().map(|spec| spec.title).collect();
    assert_eq!((ids.len(), titles.len()), (CHECKS.len(), CHECKS.len()));
    for spec in CHECKS {
        assert!(
            spec.id
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
            "{}",
            spec.id
        );
        assert!(
            !spec.title.ends_with('.') && !spec.sources.is_empty(),
            "{}",
            spec.id
        );
    }
}

#[test]
fn every_rule_is_used_by_a_check_that_exists() {
    let (knowledge, rules) = (Knowledge::load(None).unwrap(), Rules::load(None).unwrap());
    let ids: BTreeSet<&str> = CHECKS.iter().map(|spec| spec.id).collect();
    let named = rules
        .setting
        .iter()
        .map(|row| &row.check)
        .chain(rules.clash.iter().map(|row| &row.check));
    for check in named {
        assert!(ids.contains(&**check), "{check}");
    }
    for gfx in &rules.gfx.rdna.targets {
        let target = knowledge
            .targets
            .target(gfx)
            .unwrap_or_else(|| panic!("{gfx} is no target"));
        assert_eq!(target.routes.is_empty(), target.blocked.is_some(), "{gfx}");
        assert!(
            target.blocked.is_some() || !rules.gfx.wrong_gradients.has(gfx),
            "{gfx}"
        );
    }
}

/// The plan keeps these builds from being installed; an environment that has one is told of it.
#[test]
fn what_the_plan_calls_broken_the_doctor_finds() {
    let knowledge = Knowledge::load(None).unwrap();
    for broken in &knowledge.targets.broken {
        let version = broken
            .build
            .replace("a202606*", "a20260610")
            .replace("*+", "2.9.0+")
            .replace(".*", ".1");
        let version = version.trim_end_matches('*').to_owned();
        let version = if version.contains('+') {
            version
        } else {
            format!("{version}+rocm6.4")
        };
        let gfx = broken.targets.first().map_or("gfx1100", String::as_str);
        let rocm = version.split("rocm").nth(1).unwrap_or_default().to_owned();
        let mut world = card(gfx, 16).env(torch(&version, None, Some(&rocm)));
        if let Some(flag) = &broken.with {
            let value = if flag.contains("ALLOC") {
                "expandable_segments:True,max_split_size_mb:64"
            } else {
                "1"
            };
            world = world.set(flag, value);
        }
        let diagnosis = world.diagnose();
        let told = [
            "env-known-faults",
            "env-grouped-products",
            "allocator-pair",
            "env-kernels",
        ];
        let found = diagnosis
            .checks
            .iter()
            .any(|check| told.contains(&check.id.as_str()) && check.status != Status::Ok);
        assert!(
            found,
            "{} on {gfx} ({version}): {:#?}",
            broken.build, diagnosis.checks
        );
    }
}

#[test]
fn every_known_fault_of_access_cards_packages_and_memory_is_accounted_for() {
    let document = include_str!("../../../../docs/doctor.md");
    let ids: BTreeSet<&str> = CHECKS.iter().map(|spec| spec.id).collect();
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter(|line| line.starts_with("| B"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut told: Vec<u32> = Vec::new();
    for row in &rows {
        let [fault, checks, why] = row.as_slice() else {
            panic!("{row:?}")
        };
        told.push(fault[1..].parse().unwrap());
        let named: Vec<&str> = checks
            .split(',')
            .map(|id| id.trim().trim_matches('`'))
            .filter(|id| !id.is_empty())
            .collect();
        for id in &named {
            assert!(ids.contains(id), "{fault}: {id}");
        }
        assert!(
            !named.is_empty() || why.len() > 10,
            "{fault} says neither a check nor why not"
        );
    }
    let wanted: Vec<u32> = (1..=63).chain([84, 85]).collect();
    assert_eq!(told, wanted);
}

/// Every place in a JSON value that holds no further one.
fn leaves(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                leaves(field, &format!("{path}/{name}"), found);
            }
        }
        serde_json::Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                leaves(item, &format!("{path}/{place}"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn no_value_of_any_field_makes_a_check_panic() {
    let odd = [
        serde_json::json!(null),
        serde_json::json!(""),
        serde_json::json!("\u{e9}gfx\u{2028}$(x)%s,-1,10.0."),
        serde_json::json!(0),
        serde_json::json!(u64::MAX),
        serde_json::json!(-1.5),
        serde_json::json!(true),
    ];
    let (knowledge, rules) = (Knowledge::load(None).unwrap(), Rules::load(None).unwrap());
    let worlds = [
        desktop()
            .env(rocm_env())
            .set("HSA_OVERRIDE_GFX_VERSION", "11.0.0"),
        two_cards(igpu()).set("ROCR_VISIBLE_DEVICES", "0"),
        strix().words(&["amdgpu.gttsize=126976"]),
        windows(),
        wsl(),
        nvidia().env(cuda_env("cu128", "12.8")),
        container(),
    ];
    let mut tried = 0;
    for world in worlds {
        let system = serde_json::to_value(&world.system).unwrap();
        let mut paths = Vec::new();
        leaves(&system, "", &mut paths);
        for path in paths {
            for value in &odd {
                let mut changed = system.clone();
                *changed.pointer_mut(&path).unwrap() = value.clone();
                // Values of the wrong kind are no system.
                if let Ok(system) = serde_json::from_value::<System>(changed) {
                    let diagnosis = doctor(&system, &knowledge, &rules, &world.around, &world.environments);
                    assert!(!text(&diagnosis, true).is_empty());
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 1000, "{tried}");
}

/// Folders of captured machines, where they are at hand.
fn captures() -> Vec<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/systems");
    let root = std::env::var_os("TUNESMITH_CAPTURES").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let folders = std::fs::read_dir(&root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    folders.sort();
    if folders.is_empty() {
        println!("skipped: no captures in {}", root.display());
    }
    folders
}

#[test]
fn captured_machines_are_told_what_is_wrong_with_them_and_no_more() {
    let (knowledge, rules) = (Knowledge::load(None).unwrap(), Rules::load(None).unwrap());
    for folder in captures() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let system = tunesmith_probe::detect(&folder, &knowledge.cards);
        let around = Surroundings::read(&folder, &folder, &folder);
        let diagnosis = doctor(&system, &knowledge, &rules, &around, &[]);
        let status = |id: &str| {
            let with_id = diagnosis.checks.iter().filter(|check| check.id == id);
            with_id
                .map(|check| check.status)
                .find(|status| *status != Status::Ok)
        };
        println!("{name}: {}", diagnosis.opening);
        for check in &diagnosis.checks {
            if matches!(check.status, Status::Fail | Status::Warn) {
                println!("    {:?} {}: {}", check.status, check.id, check.found);
            }
        }
        // A card that is there is never called none.
        assert!(
            system.gpus.is_empty() || status("card-present").is_none(),
            "{name}"
        );
        let expected = match name.as_str() {
            "rx6700xt-rebar-off" => Some(("resizable-bar", Status::Warn)),
            "rx7600xt-spoofed-gfx1100" => Some(("override", Status::Fail)),
            "van-gogh-steam-deck" => Some(("card-gradients", Status::Warn)),
            "hybrid-rtx3060-laptop-cezanne" => Some(("card-power-cap", Status::Warn)),
            "rx7900xtx-igpu-gfx1036" => Some(("cards-integrated", Status::Warn)),
            _ => None,
        };
        // What a capture does not hold is not missing on the machine.
        assert!(
            name != "rx7900xtx-wsl2" || diagnosis.verdict == Verdict::Ready,
            "{}",
            diagnosis.opening
        );
        if let Some((id, wanted)) = expected {
            assert_eq!(status(id), Some(wanted), "{name}: {id}");
        }
    }
}

#[test]
fn people_read_the_answer() {
    insta::assert_snapshot!(
        "healthy_7900_xtx",
        text(&two_cards(igpu()).env(rocm_env()).diagnose(), false)
    );
    insta::assert_snapshot!("strix_halo_as_it_comes", text(&strix().diagnose(), false));
    let broken = card("gfx1102", 16)
        .gpu(|gpu| gpu.name = Some("AMD Radeon RX 7600 XT".to_owned()))
        .with(|world| {
            world.around.recipe = None;
            world.system.access.process_groups = Some(vec![1000]);
            refused(world.system.access.kfd.as_mut().unwrap());
            refused(&mut world.system.access.render_nodes[0]);
        })
        .set_in_file("HSA_OVERRIDE_GFX_VERSION", "11.0.0", "/etc/environment", true);
    insta::assert_snapshot!("no_right_and_an_override", text(&broken.diagnose(), true));
}
