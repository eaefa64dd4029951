//! What is installed for the cards, and how the kernel is set: ROCm, NVIDIA's module, packages, parameters, modules,
//! Secure Boot, Flatpak. Only files are read; no tool is run.

use super::reader::Reader;
use super::tools::Outputs;
use crate::{Flatpak, Kernel, Platform, Stacks};

/// Packages of distributions that change what a card can do; a `*` at the end stands for any ending.
const PACKAGES: [&str; 16] = [
    "linux-firmware",
    "linux-firmware-amdgpu",
    "firmware-amd-graphics",
    "libhsa-runtime64-1",
    "libhsa-runtime64*",
    "libamdhip64*",
    "hsa-rocr",
    "hip-runtime-amd",
    "rocm-core",
    "rocm-hip-runtime",
    "amdgpu-dkms",
    "amdgpu-install",
    "nvidia-driver-*",
    "nvidia-dkms-*",
    "nvidia-utils",
    "nvidia-open",
];
const MODULES: [&str; 9] = [
    "amdgpu",
    "amdttm",
    "ttm",
    "amdkfd",
    "kfd",
    "nvidia",
    "nvidia_uvm",
    "nouveau",
    "vfio_pci",
];
const PARAMETERS: &str = "sys/module/amdgpu/parameters";
const LIBROCDXG: [&str; 4] = [
    "opt/rocm/lib/librocdxg.so",
    "usr/lib/wsl/lib/librocdxg.so",
    "usr/lib/x86_64-linux-gnu/librocdxg.so",
    "usr/lib/librocdxg.so",
];
/// The newest CUDA of a branch of NVIDIA's driver, as nvidia-smi prints it (CUDA release notes, table of drivers).
const CUDA_OF_BRANCH: [(u32, &str); 12] = [
    (580, "13.0"),
    (575, "12.9"),
    (570, "12.8"),
    (565, "12.7"),
    (560, "12.6"),
    (555, "12.5"),
    (550, "12.4"),
    (545, "12.3"),
    (535, "12.2"),
    (530, "12.1"),
    (525, "12.0"),
    (470, "11.4"),
];

pub(crate) fn stacks(reader: &Reader<'_>, platform: Platform, outputs: &Outputs) -> Stacks {
    let nvidia_driver = reader
        .line("sys/module/nvidia/version")
        .or_else(|| nvrm_version(&reader.text("proc/driver/nvidia/version")?))
        .or_else(|| outputs.nvidia_driver.clone());
    let packages = packages(reader);
    let linux_firmware = packages
        .iter()
        .find_map(|package| {
            package
                .strip_prefix("linux-firmware ")
                .or_else(|| package.strip_prefix("firmware-amd-graphics "))
        })
        .map(|version| {
            version
                .get(..8)
                .filter(|date| date.bytes().all(|byte| byte.is_ascii_digit()))
                .unwrap_or(version)
        })
        .map(str::to_owned);
    // `/opt/rocm` is a link to the newest, which a hand-made installation may lack.
    let mut folders = vec!["rocm".to_owned()];
    folders.extend(
        reader
            .names("opt")
            .into_iter()
            .rev()
            .filter(|name| name.starts_with("rocm-")),
    );
    let rocm = folders
        .iter()
        .find_map(|name| reader.line(&format!("opt/{name}/.info/version")));
    Stacks {
        rocm: rocm.or_else(|| outputs.rocm.clone()),
        cuda_driver: outputs
            .cuda
            .clone()
            .or_else(|| cuda_of_driver(nvidia_driver.as_deref()?)),
        nvidia_driver,
        librocdxg: (platform == Platform::Wsl).then(|| LIBROCDXG.iter().any(|path| reader.exists(path))),
        windows_drivers: outputs.windows_drivers.clone(),
        linux_firmware,
        packages,
    }
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue …`.
fn nvrm_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

fn cuda_of_driver(driver: &str) -> Option<String> {
    let branch: u32 = driver.split('.').next()?.parse().ok()?;
    CUDA_OF_BRANCH
        .iter()
        .find(|(of, _)| *of == branch)
        .map(|(_, cuda)| (*cuda).to_owned())
}

fn wanted(name: &str) -> bool {
    PACKAGES.iter().any(|wanted| match wanted.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *wanted,
    })
}

/// From the databases of dpkg and pacman, which are plain files. That of rpm is not.
fn packages(reader: &Reader<'_>) -> Vec<String> {
    let mut packages = Vec::new();
    if let Ok(bytes) = reader.bytes("var/lib/dpkg/status") {
        let status = String::from_utf8_lossy(&bytes);
        for paragraph in status.split("\n\n") {
            let name = paragraph
                .strip_prefix("Package: ")
                .and_then(|rest| rest.lines().next())
                .unwrap_or_default();
            if !wanted(name) {
                continue;
            }
            let get = |key: &str| {
                paragraph
                    .lines()
                    .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
            };
            if let (Some("install ok installed"), Some(version)) = (get("Status"), get("Version")) {
                packages.push(super::reader::clean(&format!("{name} {version}")));
            }
        }
    }
    for folder in reader.names("var/lib/pacman/local") {
        // name-version-release
        let mut parts = folder.rsplitn(3, '-');
        let (release, version, name) = (parts.next(), parts.next(), parts.next());
        if let (Some(release), Some(version), Some(name)) = (release, version, name)
            && wanted(name)
        {
            packages.push(super::reader::clean(&format!("{name} {version}-{release}")));
        }
    }
    packages.sort();
    packages.dedup();
    packages
}

pub(crate) fn kernel(reader: &Reader<'_>) -> Kernel {
    // Words that name the disk are nobody's business.
    let private = [
        "root=",
        "resume=",
        "cryptdevice=",
        "rd.luks",
        "BOOT_IMAGE=",
        "initrd=",
    ];
    let command_line: Option<Vec<String>> = reader
        .text("proc/cmdline")
        .or_else(|| reader.text("proc/cmdline-fragment.txt"))
        .map(|line| {
            let words = line
                .split_whitespace()
                .filter(|word| !private.iter().any(|start| word.starts_with(start)));
            words.map(str::to_owned).collect()
        });
    let limit = ["ttm", "amdttm"]
        .iter()
        .find_map(|module| reader.number(&format!("sys/module/{module}/parameters/pages_limit")));
    let asked = || {
        let words = command_line.as_ref()?;
        let value = |word: &String| {
            ["ttm.pages_limit=", "amdttm.pages_limit="]
                .iter()
                .find_map(|key| word.strip_prefix(key)?.parse().ok())
        };
        words.iter().rev().find_map(value)
    };
    let loaded = reader.text("proc/modules").unwrap_or_default();
    let loaded = |name: &str| {
        reader.exists(&format!("sys/module/{name}"))
            || loaded.lines().any(|line| line.split(' ').next() == Some(name))
    };
    Kernel {
        ttm_pages_limit: limit.or_else(asked),
        amdgpu_parameters: reader
            .names(PARAMETERS)
            .into_iter()
            .filter_map(|name| {
                let value = reader.try_text(&format!("{PARAMETERS}/{name}")).ok()?;
                Some((name, value.trim().to_owned()))
            })
            .collect(),
        modprobe_lines: modprobe_lines(reader),
        // Modules of the kernel itself have no version of their own.
        amdgpu_dkms: reader
            .exists("sys/module/amdgpu")
            .then(|| reader.exists("sys/module/amdgpu/version")),
        modules: MODULES
            .iter()
            .filter(|name| loaded(name))
            .map(|name| (*name).to_owned())
            .collect(),
        secure_boot: secure_boot(reader),
        command_line,
    }
}

fn modprobe_lines(reader: &Reader<'_>) -> Vec<(String, String)> {
    let concerns = [
        "amdgpu",
        "ttm",
        "amdttm",
        "amdkfd",
        "nouveau",
        "nvidia",
        "nvidia-drm",
        "vfio-pci",
        "vfio_pci",
    ];
    let mut lines = Vec::new();
    for folder in ["etc/modprobe.d", "usr/lib/modprobe.d", "run/modprobe.d"] {
        for name in reader
            .names(folder)
            .into_iter()
            .filter(|name| name.rsplit_once('.').is_some_and(|(_, ending)| ending == "conf"))
        {
            let path = format!("{folder}/{name}");
            let Ok(text) = reader.try_text(&path) else {
                continue;
            };
            for line in text.lines().map(str::trim) {
                let mut words = line.split_whitespace();
                let command = words.next().unwrap_or_default();
                let module = words.next().unwrap_or_default();
                if ["options", "blacklist", "install", "alias", "softdep"].contains(&command)
                    && concerns.contains(&module)
                {
                    lines.push((format!("/{path}"), line.to_owned()));
                }
            }
        }
    }
    lines
}

/// The firmware's variable: four bytes of attributes, then 1 or 0.
fn secure_boot(reader: &Reader<'_>) -> Option<bool> {
    let bytes = reader
        .bytes("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c")
        .ok()?;
    match bytes.as_slice() {
        [_, _, _, _, 1] => Some(true),
        [_, _, _, _, 0] => Some(false),
        _ => None,
    }
}

pub(crate) fn flatpak(reader: &Reader<'_>) -> Option<Flatpak> {
    let info = reader.text(".flatpak-info")?;
    let value = |key: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .map(str::trim)
    };
    let devices = value("devices")
        .unwrap_or_default()
        .split(';')
        .filter(|device| !device.is_empty());
    Some(Flatpak {
        version: value("flatpak-version").map(str::to_owned),
        devices: devices.map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    #[test]
    fn the_kernel_tells_limit_parameters_and_modules() {
        let folder = tree(&[
            (
                "proc/cmdline",
                "BOOT_IMAGE=/vmlinuz root=UUID=1234 quiet ttm.pages_limit=29360128 amdgpu.cwsr_enable=0\n",
            ),
            ("sys/module/amdgpu/parameters/cwsr_enable", "0\n"),
            ("sys/module/amdgpu/initstate", "live\n"),
            ("sys/module/amdgpu/version", "6.12\n"),
            (
                "proc/modules",
                "ttm 110592 1 amdgpu, Live 0x0\nvfio_pci 1 0 - Live\n",
            ),
            (
                "etc/modprobe.d/mine.conf",
                "# a remark about amdgpu\noptions amdgpu gttsize=126976\nblacklist nouveau\noptions snd x=1\n",
            ),
        ]);
        let kernel = kernel(&Reader::new(folder.path()));
        assert_eq!(
            kernel.command_line.unwrap(),
            ["quiet", "ttm.pages_limit=29360128", "amdgpu.cwsr_enable=0"]
        );
        assert_eq!(kernel.ttm_pages_limit, Some(29_360_128));
        assert_eq!(
            kernel.amdgpu_parameters,
            [("cwsr_enable".to_owned(), "0".to_owned())]
        );
        assert_eq!(kernel.amdgpu_dkms, Some(true));
        assert_eq!(kernel.modules, ["amdgpu", "ttm", "vfio_pci"]);
        assert_eq!(kernel.modprobe_lines.len(), 2);
        assert_eq!(kernel.modprobe_lines[0].0, "/etc/modprobe.d/mine.conf");
        assert_eq!(kernel.secure_boot, None);
    }

    #[test]
    fn what_the_module_has_comes_before_what_the_boot_line_asks() {
        let folder = tree(&[
            ("proc/cmdline", "ttm.pages_limit=5"),
            ("sys/module/ttm/parameters/pages_limit", "7\n"),
        ]);
        assert_eq!(kernel(&Reader::new(folder.path())).ttm_pages_limit, Some(7));
    }

    #[test]
    fn secure_boot_is_one_byte_behind_four() {
        let of = |bytes: &[u8]| {
            let folder = tree(&[]);
            let path = folder.path().join("sys/firmware/efi/efivars");
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(
                path.join("SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"),
                bytes,
            )
            .unwrap();
            kernel(&Reader::new(folder.path())).secure_boot
        };
        assert_eq!(of(&[6, 0, 0, 0, 1]), Some(true));
        assert_eq!(of(&[6, 0, 0, 0, 0]), Some(false));
        assert_eq!(of(&[1]), None);
    }

    #[test]
    fn packages_and_drivers_are_read_from_plain_files() {
        let folder = tree(&[
            (
                "var/lib/dpkg/status",
                "Package: linux-firmware\nStatus: install ok installed\nVersion: 20240318.git3b128b60-0ubuntu2.14\n\nPackage: libhsa-runtime64-1\nStatus: deinstall ok config-files\nVersion: 5\n\nPackage: vim\nStatus: install ok installed\nVersion: 9\n",
            ),
            (
                "proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8\nGCC version:  12\n",
            ),
            ("opt/rocm/.info/version", "7.2.1-43\n"),
        ]);
        let stacks = stacks(&Reader::new(folder.path()), Platform::Linux, &Outputs::default());
        assert_eq!(stacks.linux_firmware.as_deref(), Some("20240318"));
        assert_eq!(
            stacks.packages,
            ["linux-firmware 20240318.git3b128b60-0ubuntu2.14"]
        );
        assert_eq!(stacks.nvidia_driver.as_deref(), Some("550.163.01"));
        assert_eq!(stacks.cuda_driver.as_deref(), Some("12.4"));
        assert_eq!(stacks.rocm.as_deref(), Some("7.2.1-43"));
        assert_eq!(stacks.librocdxg, None);
        let arch = tree(&[("var/lib/pacman/local/linux-firmware-20251125-2/desc", "")]);
        let stacks = super::stacks(&Reader::new(arch.path()), Platform::Wsl, &Outputs::default());
        assert_eq!(
            (stacks.linux_firmware.as_deref(), stacks.librocdxg),
            (Some("20251125"), Some(false))
        );
    }

    #[test]
    fn a_sandbox_names_its_devices() {
        let folder = tree(&[(
            ".flatpak-info",
            "[Context]\ndevices=dri;shm;\n[Instance]\nflatpak-version=1.16.0\n",
        )]);
        let flatpak = flatpak(&Reader::new(folder.path())).unwrap();
        assert_eq!(flatpak.version.as_deref(), Some("1.16.0"));
        assert_eq!(flatpak.devices, ["dri", "shm"]);
    }
}
