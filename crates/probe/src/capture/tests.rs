use std::collections::BTreeSet;

use super::*;
use crate::tree::entries;
use crate::tree::tests::tree;
use crate::{Access, DeviceAccess};

const SECRETS: [&str; 16] = [
    "annika",
    "Muster",
    "workbench-42",
    "example.net",
    "d0fe2a1b3c4d5e6f",
    "15059520500437704303",
    "8a7b6c5d-0123-4567-89ab-cdef01234567",
    "9c:6b:00:12:34:56",
    "hf_AbCdEfGhIjKlMnOp",
    "hunter2",
    "PF3XYZ12",
    "0123456789abcdef0123456789abcdef",
    "1322121034567",
    "container-of-annika",
    "builder@rig",
    "swordfish",
];

/// A machine on which the secrets are where they are on real ones, and where a careless writer would find them.
fn machine() -> tempfile::TempDir {
    let card = "sys/class/drm/card1/device";
    let files = [
        (
            "etc/passwd",
            "annika:x:1000:1000:Annika Muster,,,:/home/annika:/bin/bash\n",
        ),
        ("etc/hostname", "workbench-42\n"),
        ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("etc/shadow", "annika:swordfish\n"),
        ("etc/os-release", "PRETTY_NAME=\"Ubuntu 24.04.3 LTS\"\n"),
        (
            "etc/modprobe.d/amdgpu-annika.conf",
            "# by annika, key=swordfish\noptions amdgpu gttsize=126976\n",
        ),
        ("etc/modprobe.d/wifi.conf", "options iwlwifi password=swordfish\n"),
        ("home/annika/.bashrc", "export HF_TOKEN=hf_AbCdEfGhIjKlMnOp\n"),
        ("proc/sys/kernel/hostname", "workbench-42.example.net\n"),
        ("proc/sys/kernel/osrelease", "6.18.4\n"),
        (
            "proc/version",
            "Linux version 6.18.4 (builder@rig) (gcc) #1 SMP\n",
        ),
        (
            "proc/cmdline",
            "root=UUID=8a7b6c5d-0123-4567-89ab-cdef01234567 ttm.pages_limit=27648000 luks.key=swordfish quiet\n",
        ),
        ("proc/meminfo", "MemTotal: 100 kB\n"),
        (
            "proc/modules",
            "amdgpu 1000 5 - Live 0xffffffffc0a00000\nwireguard 5 0 - Live 0xffffffffc0b00000\n",
        ),
        (
            "proc/self/status",
            "Name:\tannika\nGroups:\t27 992\nCpus_allowed_list:\t0-7\n",
        ),
        ("proc/self/cgroup", "0::/user.slice/container-of-annika\n"),
        (
            "sys/fs/cgroup/user.slice/container-of-annika/memory.max",
            "1073741824\n",
        ),
        ("sys/class/dmi/id/product_name", "Desktop\n"),
        ("sys/class/dmi/id/product_serial", "PF3XYZ12\n"),
        ("sys/class/net/eth0/address", "9c:6b:00:12:34:56\n"),
        (
            "proc/driver/nvidia/gpus/0000:01:00.0/information",
            "GPU UUID: GPU-8a7b6c5d-0123-4567-89ab-cdef01234567\n",
        ),
        (
            "sys/class/kfd/kfd/topology/nodes/1/properties",
            "simd_count 192\nunique_id 15059520500437704303\n",
        ),
        ("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51234\n"),
        (
            "rocminfo.txt",
            "Marketing Name: AMD\nUuid: GPU-d0fe2a1b3c4d5e6f\nPath: /home/annika/rocm\n",
        ),
        (
            "nvidia-smi-x-q.xml",
            "<uuid>GPU-8a7b6c5d-0123-4567-89ab-cdef01234567</uuid><serial>1322121034567</serial>\n",
        ),
        ("notes.md", "swordfish\n"),
        ("secret.key", "swordfish\n"),
        (
            "environment.txt",
            "HIP_VISIBLE_DEVICES=0\nHF_TOKEN=hf_AbCdEfGhIjKlMnOp\n",
        ),
    ];
    let machine = tree(&files);
    let device = [
        ("uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n"),
        ("unique_id", "d0fe2a1b3c4d5e6f\n"),
        ("serial_number", "PF3XYZ12\n"),
        ("mem_info_vram_total", "25753026560\n"),
        ("power/runtime_status", "active\n"),
        ("hwmon/hwmon4/temp1_input", "50000\n"),
        ("config", "\u{1}binary"),
    ];
    for (file, content) in device {
        let path = machine.path().join(card).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    machine
}

fn found() -> System {
    let setting = |name: &str, value: &str, origin: &str| Setting {
        name: name.to_owned(),
        value: value.to_owned(),
        origin: origin.to_owned(),
        line: Some(3),
        in_effect: true,
    };
    System {
        access: Access {
            kfd: Some(DeviceAccess {
                path: "/dev/kfd".to_owned(),
                group: Some("annika".to_owned()),
                ..DeviceAccess::default()
            }),
            user: Some("annika".to_owned()),
            ..Access::default()
        },
        settings: vec![
            setting(
                "HIP_VISIBLE_DEVICES",
                "GPU-d0fe2a1b3c4d5e6f",
                "/home/annika/.bashrc",
            ),
            setting("HF_TOKEN", "swordfish", "the process's environment"),
        ],
        kernel_log: Some(vec![
            "[    5.140900] amdgpu 0000:03:00.0: ring timeout, process annika on workbench-42".to_owned(),
            "[    6.000001] usb 1-1: SerialNumber: PF3XYZ12, MAC 9c:6b:00:12:34:56, password: hunter2"
                .to_owned(),
        ]),
        ..System::default()
    }
}

fn write(machine: &Path, destination: &Path, overwrite: bool) -> Result<CaptureSummary, CaptureError> {
    capture(machine, &found(), destination, CaptureOptions { overwrite })
}

/// All files below a folder, with their contents.
fn files_below(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in entries(&next) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let name = entry.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.insert(
                    name,
                    String::from_utf8_lossy(&fs::read(&entry).unwrap()).into_owned(),
                );
            }
        }
    }
    files
}

fn assert_no_secret(files: &BTreeMap<String, String>) {
    for (name, content) in files {
        for secret in SECRETS {
            let secret = secret.to_lowercase();
            assert!(
                !name.to_lowercase().contains(&secret),
                "{secret} in the name {name}"
            );
            assert!(
                !content.to_lowercase().contains(&secret),
                "{secret} in {name}:\n{content}"
            );
        }
    }
}

#[test]
fn a_text_about_a_machine_loses_what_a_capture_loses() {
    let machine = machine();
    let text = "annika on workbench-42: /home/annika/models, card 0000:03:00.0, HF_TOKEN=hf_AbCdEfGhIjKlMnOp";
    let told = redacted(machine.path(), text);
    let left: Vec<_> = SECRETS.iter().filter(|secret| told.contains(*secret)).collect();
    assert!(left.is_empty(), "{left:?} in {told}");
    assert!(told.contains("card 0000:03:00.0"), "{told}");
}

#[test]
fn no_secret_gets_into_a_capture_and_the_set_up_stays() {
    let machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let destination = folder.path().join("capture");
    let summary = write(machine.path(), &destination, false).unwrap();
    let files = files_below(&destination);
    assert_no_secret(&files);

    for (name, content) in [
        ("sys/class/drm/card1/device/mem_info_vram_total", "25753026560\n"),
        (
            "sys/class/drm/card1/device/uevent",
            "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n",
        ),
        ("sys/class/drm/card1/device/hwmon/hwmon4/temp1_input", "50000\n"),
        ("sys/class/drm/card1/device/unique_id", "1000000000000001\n"),
        ("proc/sys/kernel/osrelease", "6.18.4\n"),
        (
            "proc/cmdline",
            "root=redacted ttm.pages_limit=27648000 luks.key=redacted quiet\n",
        ),
        ("proc/modules", "amdgpu 1000 5 - Live 0x0000000000000000\n"),
        ("proc/self/status", "Groups:\t27 992\nCpus_allowed_list:\t0-7\n"),
        (
            "etc/modprobe.d/amdgpu-user1.conf",
            "options amdgpu gttsize=126976\n",
        ),
    ] {
        assert_eq!(files.get(name).map(String::as_str), Some(content), "{name}");
    }
    for absent in [
        "etc/passwd",
        "etc/shadow",
        "sys/class/net/eth0/address",
        "etc/modprobe.d/wifi.conf",
        "notes.md",
        "secret.key",
        "sys/class/drm/card1/device/config",
        "sys/class/drm/card1/device/serial_number",
        "environment.txt",
    ] {
        assert!(!files.contains_key(absent), "{absent}");
    }
    // The limit is found again below the redacted name.
    let limits = crate::limits::limits(&destination);
    assert_eq!(
        (limits.memory_max_bytes, limits.cpus_allowed),
        (Some(1 << 30), Some(8))
    );
    // One id in all its forms: file, list of nodes, tool, mask.
    let same = 0x1000_0000_0000_0001_u64;
    assert!(files["sys/class/kfd/kfd/topology/nodes/1/properties"].contains(&format!("unique_id {same}\n")));
    assert!(files["rocminfo.txt"].contains(&format!("GPU-{same:016x}")));
    assert!(files["tunesmith-capture/settings.json"].contains(&format!("GPU-{same:016x}")));

    assert_eq!(summary.files, files.len());
    for kind in [
        Redaction::UserNames,
        Redaction::HostNames,
        Redaction::HomeFolders,
        Redaction::Serials,
        Redaction::UniqueIds,
        Redaction::MacAddresses,
        Redaction::Secrets,
        Redaction::BootParameters,
        Redaction::ControlGroups,
    ] {
        assert!(
            summary.redacted.get(&kind).is_some_and(|times| *times > 0),
            "{kind:?}"
        );
        assert!(files["README.txt"].contains(described(kind)), "{kind:?}");
    }
}

#[test]
fn two_like_cards_stay_two() {
    let machine = machine();
    for (card, id) in [("card2", "aaaaaaaaaaaaaaa1\n"), ("card3", "aaaaaaaaaaaaaaa2\n")] {
        let device = machine.path().join("sys/class/drm").join(card).join("device");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("unique_id"), id).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let destination = folder.path().join("capture");
    write(machine.path(), &destination, false).unwrap();
    let files = files_below(&destination);
    let ids: BTreeSet<&String> = files
        .iter()
        .filter(|(name, _)| name.ends_with("device/unique_id"))
        .map(|(_, id)| id)
        .collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_capture_of_a_capture_is_the_same() {
    let machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    write(machine.path(), &first, false).unwrap();
    // What detection says of the first capture is what the first says.
    let json = fs::read_to_string(first.join("tunesmith-capture/settings.json")).unwrap();
    let access = fs::read_to_string(first.join("tunesmith-capture/access.json")).unwrap();
    let log = fs::read_to_string(first.join("dmesg.txt")).unwrap();
    let system = System {
        settings: serde_json::from_str(&json).unwrap(),
        access: serde_json::from_str(&access).unwrap(),
        kernel_log: Some(log.lines().map(str::to_owned).collect()),
        ..System::default()
    };
    capture(&first, &system, &second, CaptureOptions::default()).unwrap();
    let (mut first, mut second) = (files_below(&first), files_below(&second));
    for files in [&mut first, &mut second] {
        // They tell how much was taken out this time.
        files.remove("README.txt");
        files.remove("tunesmith-capture/capture.json");
    }
    assert_eq!(first, second);
}

#[test]
fn a_sleeping_card_is_not_read() {
    let machine = machine();
    fs::write(
        machine
            .path()
            .join("sys/class/drm/card1/device/power/runtime_status"),
        "suspended\n",
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let destination = folder.path().join("capture");
    write(machine.path(), &destination, false).unwrap();
    let files = files_below(&destination);
    let taken: Vec<&str> = files
        .keys()
        .filter_map(|name| name.strip_prefix("sys/class/drm/card1/device/"))
        .collect();
    assert_eq!(taken, ["power/runtime_status", "uevent"]);
}

#[test]
fn a_packed_capture_has_the_same_files_under_its_name() {
    let machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (
        folder.path().join("plain"),
        folder.path().join("my-machine.tar.gz"),
    );
    write(machine.path(), &plain, false).unwrap();
    write(machine.path(), &packed, false).unwrap();
    let unpacked = folder.path().join("unpacked");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(File::open(&packed).unwrap()));
    archive.unpack(&unpacked).unwrap();
    assert_eq!(files_below(&unpacked.join("my-machine")), files_below(&plain));
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(File::open(&packed).unwrap()));
    for entry in archive.entries().unwrap() {
        let header = entry.unwrap().header().clone();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        assert_eq!(header.username().unwrap().unwrap_or_default(), "");
    }
    let left: Vec<_> = entries(folder.path())
        .iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(
        left,
        ["my-machine.tar.gz", "plain", "unpacked"],
        "nothing is left beside them"
    );
}

#[test]
fn only_a_capture_is_replaced_and_only_when_asked() {
    let machine = machine();
    let folder = tempfile::tempdir().unwrap();
    for name in ["capture", "capture.tar.gz"] {
        let destination = folder.path().join(name);
        write(machine.path(), &destination, true).unwrap();
        assert!(
            matches!(
                write(machine.path(), &destination, false),
                Err(CaptureError::Exists(_))
            ),
            "{name}"
        );
        write(machine.path(), &destination, true).unwrap();
    }
    let own = folder.path().join("photos");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("one"), "precious").unwrap();
    let file = folder.path().join("thesis.tar.gz");
    fs::write(&file, "precious").unwrap();
    for destination in [&own, &file] {
        assert!(matches!(
            write(machine.path(), destination, true),
            Err(CaptureError::NotACapture(_))
        ));
    }
    assert_eq!(fs::read_to_string(own.join("one")).unwrap(), "precious");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(entries(folder.path()).len(), 4, "nothing is left beside them");
    assert!(matches!(
        write(machine.path(), Path::new("/"), true),
        Err(CaptureError::NoName(_))
    ));
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_that_names_it() {
    let machine = machine();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = write(machine.path(), &folder.path().join("file/capture"), false).unwrap_err();
    assert!(matches!(&error, CaptureError::Write { .. }), "{error}");
    assert!(error.to_string().contains("file"), "{error}");
}

#[test]
fn what_is_too_large_or_leads_elsewhere_is_left_out_and_told() {
    let machine = machine();
    fs::write(machine.path().join("rocm-smi.txt"), "x".repeat(2 << 20)).unwrap();
    fs::remove_file(machine.path().join("proc/meminfo")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/proc/self/status", machine.path().join("proc/meminfo")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let destination = folder.path().join("capture");
    let summary = write(machine.path(), &destination, false).unwrap();
    let left_out: Vec<&str> = summary.left_out.iter().map(|note| note.path.as_str()).collect();
    assert!(left_out.contains(&"rocm-smi.txt"), "{left_out:?}");
    #[cfg(unix)]
    assert!(left_out.contains(&"proc/meminfo"), "{left_out:?}");
    assert!(!destination.join("rocm-smi.txt").exists() && !destination.join("proc/meminfo").exists());
}

#[test]
fn this_machine_can_be_captured_without_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let destination = folder.path().join("capture");
    let system = System {
        live: true,
        ..System::default()
    };
    capture(
        Path::new(crate::LIVE),
        &system,
        &destination,
        CaptureOptions::default(),
    )
    .unwrap();
    let files = files_below(&destination);
    if cfg!(target_os = "linux") {
        assert!(files["proc/meminfo"].contains("MemTotal"));
        let host = fs::read_to_string("/proc/sys/kernel/hostname")
            .unwrap()
            .trim()
            .to_lowercase();
        let is_telling = host.len() > 7;
        for (name, content) in files.iter().filter(|_| is_telling) {
            assert!(
                !content.to_lowercase().contains(&host),
                "the machine's name is in {name}"
            );
        }
    }
}

/// Everything that differs between a machine and its capture on purpose, made equal.
fn comparable(system: &System) -> System {
    let mut system = system.clone();
    let unnamed = |text: &mut Option<String>| {
        if let Some(text) = text {
            "an id".clone_into(text);
        }
    };
    for gpu in &mut system.gpus {
        unnamed(&mut gpu.uuid);
        unnamed(&mut gpu.unique_id);
    }
    system.access.user = None;
    for setting in &mut system.settings {
        if setting.value.starts_with("GPU-") {
            "an id".clone_into(&mut setting.value);
        }
    }
    if let Some(words) = &mut system.kernel.command_line {
        words.retain(|word| !word.starts_with("ip="));
    }
    system
}

#[test]
fn a_captured_machine_is_detected_as_the_machine_is() {
    use crate::testing::{AmdCard, NvidiaCard, TestMachine, machines};
    let laptop = TestMachine::linux()
        .amd(AmdCard::radeon_780m("0000:64:00.0"))
        .amd(AmdCard::rx_7600_xt("0000:03:00.0").suspended())
        .devices_of_another_group()
        .kernel_log("[    5.140900] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n[    6.0] usb 1-1: new device\n")
        .environment("HIP_VISIBLE_DEVICES", "GPU-abcd000000000000")
        .command_line("ip=10.0.0.5 amdgpu.cwsr_enable=0 quiet")
        .rocm("7.2.1-43")
        .file("etc/modprobe.d/card.conf", "options amdgpu gttsize=126976\n")
        .file("etc/environment", "HSA_OVERRIDE_GFX_VERSION=11.0.0\nHF_TOKEN=hf_AbCdEfGhIjKlMnOp\n")
        .file("sys/module/amdgpu/parameters/cwsr_enable", "0\n")
        .file("sys/module/amdgpu/version", "6.12.12\n")
        .file("proc/modules", "amdgpu 1 0 - Live 0xffff\nvfio_pci 1 0 - Live 0xffff\n")
        .file(
            "var/lib/dpkg/status",
            "Package: linux-firmware\nStatus: install ok installed\nVersion: 20240318.git3b128b60-0ubuntu2\n\n\
             Package: secret-game\nStatus: install ok installed\nVersion: 1\n",
        )
        .file("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", [6, 0, 0, 0, 1])
        .file(".flatpak-info", "[Application]\nname=org.example\n[Context]\ndevices=dri;\n[Instance]\nflatpak-version=1.16.1\n")
        .file("run/systemd/container", "lxc\n")
        .file("proc/self/cgroup", "0::/lxc/annikas\n")
        .file("sys/fs/cgroup/lxc/annikas/memory.max", "17179869184\n")
        .file("proc/self/status", "Cpus_allowed_list:\t0-3\n");
    let two_kinds = TestMachine::linux()
        .nvidia(NvidiaCard::rtx_3090("0000:01:00.0"))
        .amd(AmdCard::rx_7900_xtx("0000:03:00.0"))
        .kernel_log("[    6.0] usb 1-1: new device\n");
    let machines = [
        ("laptop", laptop),
        ("two kinds", two_kinds),
        ("7900 XTX", machines::rx_7900_xtx()),
        ("two 7900 XTX", machines::two_rx_7900_xtx()),
        ("override", machines::rx_7600_xt_with_override()),
        ("Strix Halo", machines::strix_halo_raised()),
        ("Steam Deck", machines::steam_deck()),
        ("WSL", machines::wsl_rx_7900_xtx()),
        ("Windows", machines::windows_rx_7900_xtx()),
        ("GTX 1080", machines::gtx_1080()),
        ("no card", machines::no_gpu()),
        ("nothing", TestMachine::empty()),
    ];
    for (name, machine) in machines {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("capture");
        let system = machine.detect();
        capture(machine.root(), &system, &destination, CaptureOptions::default()).unwrap();
        let captured = crate::detect(&destination, &crate::CardTable::built_in());
        assert_eq!(comparable(&captured), comparable(&system), "{name}");
        let ids = |system: &System| {
            let ids = system
                .gpus
                .iter()
                .filter_map(|gpu| gpu.unique_id.clone().or_else(|| gpu.uuid.clone()));
            ids.collect::<BTreeSet<String>>()
        };
        assert_eq!(
            ids(&captured).len(),
            ids(&system).len(),
            "{name}: distinct cards stay distinct"
        );
        assert!(ids(&captured).iter().all(|id| !id.contains("abcd0000")), "{name}");
        let files = files_below(&destination);
        for secret in [
            "hf_AbCd",
            "secret-game",
            "annikas",
            "10.0.0.5",
            "abcd000000000000",
        ] {
            assert!(
                files
                    .iter()
                    .all(|(path, text)| !path.contains(secret) && !text.contains(secret)),
                "{name}: {secret}"
            );
        }
    }
}
