//! Detection of whole machines, and of folders that are none.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::found::Found;
use super::hide_forbidden;
use super::reader::Reader;

use crate::testing::{AmdCard, NvidiaCard, TestMachine, machines};
use crate::{Access, CardTable, GfxSource, Gpu, GpuVendor, Platform, System, detect};

const GIB: u64 = 1 << 30;

fn only(system: &System) -> &Gpu {
    let [gpu] = system.gpus.as_slice() else {
        panic!("{} cards", system.gpus.len())
    };
    gpu
}

#[test]
fn a_card_in_full() {
    let system = machines::rx_7900_xtx().detect();
    let gpu = only(&system);
    assert_eq!(gpu.vendor, Some(GpuVendor::Amd));
    assert_eq!(gpu.name.as_deref(), Some("AMD Radeon RX 7900 XTX"));
    assert_eq!(gpu.pci.as_deref(), Some("0000:03:00.0"));
    assert_eq!(
        (gpu.gfx.as_deref(), gpu.gfx_source),
        (Some("gfx1100"), Some(GfxSource::Kfd))
    );
    assert_eq!((gpu.integrated, gpu.compute_units), (Some(false), Some(96)));
    assert_eq!(
        (gpu.vram_bytes, gpu.gtt_bytes),
        (Some(25_753_026_560), Some(32 * GIB))
    );
    assert_eq!(
        gpu.trainable.as_ref().unwrap().value,
        25_753_026_560,
        "memory of the card alone"
    );
    assert_eq!(gpu.resizable_bar, Some(true));
    let peak = gpu.peak.as_ref().unwrap();
    assert_eq!(peak.bf16_flops_per_sec, Some(96.0 * 512.0 * 2.5e9));
    assert!(peak.vendor_clock, "{}", peak.how);
    assert!((gpu.bandwidth_bytes_per_sec.as_ref().unwrap().value - 960e9).abs() < 1.0);
    let link = gpu.link.as_ref().unwrap();
    assert_eq!((link.speed_gt_per_sec, link.width), (Some(16.0), Some(16)));
    assert_eq!(
        (gpu.driver.as_deref(), gpu.driver_bound),
        (Some("amdgpu"), Some(true))
    );
    assert_eq!(
        (gpu.kfd_node, gpu.render_minor, gpu.drm_card),
        (Some(1), Some(128), Some(0))
    );
    assert_eq!(gpu.unique_id.as_deref(), Some("GPU-abcd000000000000"));
    assert_eq!(
        (system.platform, system.train_on.as_deref()),
        (Platform::Linux, Some([0].as_slice()))
    );
    assert_eq!(system.access.kfd.as_ref().unwrap().read_write, Some(true));
    assert_eq!(system.notes, []);
    assert!(!system.live);
    let json = serde_json::to_string(&system).unwrap();
    assert_eq!(serde_json::from_str::<System>(&json).unwrap(), system);
}

#[test]
fn the_graphics_of_the_processor_are_beside_the_card_and_not_trained_on() {
    let system = machines::rx_7900_xtx_with_igpu().detect();
    assert_eq!(system.train_on, Some(vec![0]));
    let igpu = &system.gpus[1];
    assert_eq!(
        (igpu.gfx.as_deref(), igpu.integrated, igpu.compute_units),
        (Some("gfx1036"), Some(true), Some(2))
    );
    assert_eq!((igpu.resizable_bar, igpu.link.as_ref()), (None, None));
    assert_eq!(
        igpu.trainable.as_ref().unwrap().value,
        32 * GIB,
        "one pool, not the sum of two"
    );
}

#[test]
fn two_like_cards_are_two() {
    let system = machines::two_rx_7900_xtx().detect();
    assert_eq!(system.train_on, Some(vec![0, 1]));
    assert_ne!(system.gpus[0].unique_id, system.gpus[1].unique_id);
    assert_eq!(system.gpus[1].render_minor, Some(129));
}

#[test]
fn rocm_numbers_the_cards_and_not_the_bus() {
    let system = TestMachine::linux()
        .amd(AmdCard::rx_7900_xtx("0000:2d:00.0"))
        .amd(AmdCard::rx_6700_xt("0000:03:00.0"))
        .detect();
    let nodes: Vec<_> = system
        .gpus
        .iter()
        .map(|gpu| (gpu.kfd_node.unwrap(), gpu.gfx.clone().unwrap()))
        .collect();
    assert_eq!(nodes, [(1, "gfx1100".to_owned()), (2, "gfx1031".to_owned())]);
}

#[test]
fn an_override_does_not_change_what_a_card_is() {
    let machine = machines::rx_7600_xt_with_override();
    let system = machine.detect();
    let gpu = only(&system);
    assert_eq!(
        (gpu.gfx.as_deref(), gpu.reported_gfx.as_deref()),
        (Some("gfx1102"), None)
    );
    assert_eq!(system.settings[0].name, "HSA_OVERRIDE_GFX_VERSION");
    assert_eq!(
        (system.settings[0].origin.as_str(), system.settings[0].line),
        ("environment.txt", Some(1))
    );
    // The same with what a tool prints under it.
    let told = machine.file(
        "rocminfo.txt",
        "HSA Agents\n*******\nAgent 2\n*******\n  Name:   gfx1100\n  Device Type:   GPU\n  BDFID:   768\n  Chip ID:   29824(0x7480)\n",
    );
    assert_eq!(only(&told.detect()).reported_gfx.as_deref(), Some("gfx1100"));
}

#[test]
fn a_tools_target_alone_is_believed_only_without_an_override() {
    let text = "Name: gfx1201  Marketing Name: AMD Radeon Graphics\n";
    let plain = TestMachine::empty().file("agents.txt", text);
    let system = plain.detect();
    assert_eq!(
        (only(&system).gfx.as_deref(), only(&system).gfx_source),
        (Some("gfx1201"), Some(GfxSource::Tool))
    );
    let with_override = plain.environment("HSA_OVERRIDE_GFX_VERSION_0", "12.0.1").detect();
    assert_eq!(
        (
            only(&with_override).gfx.as_deref(),
            only(&with_override).reported_gfx.as_deref()
        ),
        (None, Some("gfx1201"))
    );
}

#[test]
fn unified_memory_ends_at_the_tightest_limit() {
    let bytes = |machine: &TestMachine| only(&machine.detect()).trainable.clone().unwrap();
    assert_eq!(bytes(&machines::strix_halo()).value, 62 * GIB);
    // 111.6 GiB are free, 9.9 GiB stay for the system: less than the 105.5 GiB that the limit allows.
    let raised = bytes(&machines::strix_halo_raised());
    assert!(raised.value > 101 * GIB && raised.value < 102 * GIB, "{raised:?}");
    assert!(raised.how.contains("for the system"), "{}", raised.how);
    let container = machines::strix_halo_raised()
        .file("proc/self/cgroup", "0::/\n")
        .file("sys/fs/cgroup/memory.max", format!("{}\n", 96 * GIB));
    assert_eq!(bytes(&container).value, 96 * GIB);
    let system = machines::strix_halo_raised().detect();
    assert_eq!(system.kernel.ttm_pages_limit, Some(27_648_000));
    assert_eq!(system.train_on, Some(vec![0]));
    assert_eq!(
        only(&machines::radeon_780m_laptop().detect())
            .trainable
            .as_ref()
            .unwrap()
            .value,
        30 * GIB
    );
}

#[test]
fn generations_are_told_apart() {
    let gfx = |machine: TestMachine| only(&machine.detect()).gfx.clone().unwrap();
    assert_eq!(gfx(machines::rx_9070_xt()), "gfx1201");
    assert_eq!(gfx(machines::rx_6700_xt()), "gfx1031");
    assert_eq!(gfx(machines::rx_5700()), "gfx1010");
    let deck = machines::steam_deck().detect();
    assert_eq!(
        (only(&deck).gfx.as_deref(), deck.train_on.clone()),
        (Some("gfx1033"), Some(Vec::new()))
    );
    let rdna2 = machines::rx_6700_xt().detect();
    let peak = only(&rdna2).peak.clone().unwrap();
    assert_eq!(peak.bf16_flops_per_sec, None, "RDNA2 has no bf16 of its own");
}

#[test]
fn without_kfd_the_discovery_tables_and_then_the_card_table_tell_the_target() {
    let card = AmdCard {
        kfd: false,
        ..AmdCard::rx_7600_xt("0000:03:00.0")
    };
    let machine = TestMachine::linux().amd(card);
    let system = machine.detect();
    assert_eq!(
        (only(&system).gfx.as_deref(), only(&system).gfx_source),
        (Some("gfx1102"), Some(GfxSource::IpDiscovery))
    );
    assert_eq!(only(&system).compute_units, Some(32), "by device and revision");
    let system = TestMachine::linux()
        .amd(AmdCard::rx_7600_xt("0000:03:00.0").driver(None))
        .detect();
    assert_eq!(
        (only(&system).gfx.as_deref(), only(&system).gfx_source),
        (Some("gfx1102"), Some(GfxSource::CardTable))
    );
    assert_eq!(
        (only(&system).driver_bound, only(&system).vram_bytes),
        (Some(false), None)
    );
    let system = TestMachine::linux()
        .amd(AmdCard::rx_7600_xt("0000:03:00.0").driver(Some("vfio-pci")))
        .detect();
    assert_eq!(
        (only(&system).driver.as_deref(), system.train_on.clone()),
        (Some("vfio-pci"), Some(Vec::new()))
    );
}

#[test]
fn a_sleeping_card_is_known_and_not_woken() {
    let system = TestMachine::linux()
        .amd(AmdCard::rx_7600_xt("0000:03:00.0").suspended())
        .detect();
    let gpu = only(&system);
    assert_eq!(gpu.runtime_status.as_deref(), Some("suspended"));
    assert_eq!((gpu.vram_used_bytes, gpu.link.as_ref()), (None, None));
    assert_eq!(
        gpu.vram_bytes,
        Some(17_163_091_968),
        "KFD's bank is read from the kernel's memory"
    );
}

#[test]
fn resizable_bar_is_off_when_the_window_is_small() {
    let system = TestMachine::linux()
        .amd(AmdCard::rx_6700_xt("0000:07:00.0").rebar_off())
        .detect();
    assert_eq!(only(&system).resizable_bar, Some(false));
}

#[test]
fn nvidia_cards_by_their_drivers_answers() {
    let system = machines::rtx_3090().detect();
    let gpu = only(&system);
    assert_eq!(
        (gpu.compute_capability.as_deref(), gpu.multiprocessors),
        (Some("8.6"), Some(82))
    );
    assert_eq!(
        (gpu.vram_bytes, gpu.compute_units, gpu.gfx.as_deref()),
        (Some(24_576 << 20), None, None)
    );
    assert_eq!(system.stacks.nvidia_driver.as_deref(), Some("580.95.05"));
    assert_eq!(system.stacks.cuda_driver.as_deref(), Some("13.0"));
    let system = machines::gtx_1080().detect();
    assert_eq!(
        (
            only(&system).compute_capability.as_deref(),
            only(&system).peak.as_ref()
        ),
        (Some("6.1"), None)
    );
    let system = machines::rtx_5090().detect();
    assert_eq!(only(&system).compute_capability.as_deref(), Some("12.0"));
    let system = TestMachine::linux()
        .nvidia(NvidiaCard::gtx_1080("0000:01:00.0").nouveau())
        .detect();
    assert_eq!(only(&system).driver.as_deref(), Some("nouveau"));
    assert_eq!(
        (
            only(&system).compute_capability.as_deref(),
            system.train_on.clone()
        ),
        (Some("6.1"), Some(vec![0]))
    );
}

#[test]
fn both_makers_are_seen_side_by_side() {
    let system = machines::nvidia_and_amd().detect();
    let vendors: Vec<_> = system.gpus.iter().map(|gpu| gpu.vendor.unwrap()).collect();
    assert_eq!(vendors, [GpuVendor::Nvidia, GpuVendor::Amd]);
    assert_eq!(system.train_on, Some(vec![0, 1]));
}

#[test]
fn wsl_and_windows_are_told() {
    let system = machines::wsl_rx_7900_xtx().detect();
    assert_eq!(
        (system.platform, system.access.dxg, system.stacks.librocdxg),
        (Platform::Wsl, Some(true), Some(true))
    );
    assert_eq!(
        (only(&system).gfx.as_deref(), only(&system).vram_bytes),
        (Some("gfx1100"), Some(25_079_976 * 1024))
    );
    let system = machines::windows_rx_7900_xtx().detect();
    assert_eq!((system.platform, system.train_on), (Platform::Windows, None));
    let gpu = &system.gpus[0];
    assert_eq!(
        (gpu.gfx.as_deref(), gpu.vram_bytes, gpu.compute_units),
        (Some("gfx1100"), Some(25_769_803_776), Some(96))
    );
    assert_eq!(
        system.stacks.windows_drivers,
        [("AMD".to_owned(), "32.0.21025.1024".to_owned())]
    );
}

#[test]
fn no_card_and_nothing_read_are_different() {
    let system = machines::no_gpu().detect();
    assert_eq!((system.gpus.len(), system.train_on), (0, Some(Vec::new())));
    let system = TestMachine::empty().kernel("6.18.4").detect();
    assert_eq!(
        (system.gpus.len(), system.train_on),
        (0, None),
        "without a list of devices it cannot be told"
    );
    let nothing = TestMachine::empty().detect();
    assert_eq!(
        (nothing.gpus.len(), nothing.train_on, nothing.platform),
        (0, None, Platform::Unknown)
    );
    assert_eq!(nothing.access, Access::default());
}

#[test]
fn a_group_that_is_missing_is_seen() {
    let system = TestMachine::linux()
        .amd(AmdCard::rx_7900_xtx("0000:03:00.0"))
        .devices_of_another_group()
        .detect();
    let kfd = system.access.kfd.unwrap();
    assert_eq!(
        (kfd.read_write, kfd.group.as_deref()),
        (Some(false), Some("render"))
    );
}

#[cfg(unix)]
#[test]
fn a_node_that_may_not_be_read_hides_its_card() {
    use std::os::unix::fs::PermissionsExt as _;

    let machine = machines::rx_7900_xtx();
    let node = machine
        .root()
        .join("sys/class/kfd/kfd/topology/nodes/1/properties");
    fs::set_permissions(&node, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&node).is_ok() {
        // Root reads everything.
        return;
    }
    let system = machine.detect();
    assert!(only(&system).kfd_forbidden);
    assert_eq!(system.train_on, Some(Vec::new()));
}

#[test]
fn nodes_that_may_not_be_read_are_those_of_the_cards_without_one() {
    let reader = Reader::new(Path::new("nowhere"));
    let amd = |node: Option<u32>| {
        let mut card = Found::of(GpuVendor::Amd);
        card.gpu.kfd_node = node;
        card
    };
    let mut cards = vec![amd(Some(1)), amd(None)];
    hide_forbidden(&reader, &mut cards, &[2]);
    assert_eq!(
        (cards[0].gpu.kfd_forbidden, cards[1].gpu.kfd_forbidden),
        (false, true)
    );
    let mut none = Vec::new();
    hide_forbidden(&reader, &mut none, &[2]);
    assert!(none[0].gpu.kfd_forbidden, "present and not permitted");
    let mut unclear = vec![amd(None), amd(None)];
    hide_forbidden(&reader, &mut unclear, &[2]);
    assert!(unclear.iter().all(|card| !card.gpu.kfd_forbidden));
    assert_eq!(reader.into_notes().len(), 1);
}

#[test]
fn contradictions_are_noted_and_the_better_source_is_believed() {
    let system = machines::rx_7900_xtx()
        .file("lspci.txt", "03:00.0 VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Navi 33 [1002:7480] (rev cf)\n")
        .detect();
    let gpu = only(&system);
    assert_eq!(
        (gpu.device_id.as_deref(), gpu.gfx.as_deref()),
        (Some("0x744c"), Some("gfx1100"))
    );
    assert_eq!(system.notes.len(), 2, "{:?}", system.notes);
    assert!(system.notes[0].text.contains("0x7480"));
    let system = machines::rx_7900_xtx()
        .file(
            "sys/bus/pci/devices/0000:03:00.0/ip_discovery/die/0/11/0/revision",
            "2\n",
        )
        .detect();
    assert_eq!(only(&system).gfx.as_deref(), Some("gfx1100"));
    assert!(!system.notes.is_empty());
}

#[test]
fn binary_cut_and_strange_files_are_survived() {
    let noise: Vec<u8> = (0..4000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let full = machines::rx_7900_xtx();
    let mut paths = Vec::new();
    collect(full.root(), full.root(), &mut paths);
    assert!(paths.len() > 30);
    for path in paths {
        let content = fs::read(full.root().join(&path)).unwrap();
        for broken in [
            noise.clone(),
            Vec::new(),
            content[..content.len() / 2].to_vec(),
            b"-1\n".to_vec(),
        ] {
            fs::write(full.root().join(&path), broken).unwrap();
            let _ = full.detect();
        }
        fs::write(full.root().join(&path), content).unwrap();
    }
    assert_eq!(full.detect().notes, []);
}

fn collect(root: &Path, folder: &Path, paths: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, paths);
        } else {
            paths.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
        }
    }
}

#[test]
fn thousands_of_devices_are_passed_over() {
    let mut machine = machines::rx_7900_xtx();
    for at in 0..3000_u32 {
        let folder = format!(
            "sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0",
            1 + at / 8192,
            at / 32 % 256,
            at % 32
        );
        machine = machine
            .file(&format!("{folder}/class"), "0x060400\n")
            .file(&format!("{folder}/vendor"), "0x8086\n");
    }
    assert_eq!(machine.detect().gpus.len(), 1);
}

#[test]
fn hostile_names_carry_no_control_characters() {
    let evil = "\u{1b}]0;x\u{7}\u{202e}<script>\r\n";
    let system = machines::rtx_3090()
        .file(
            "proc/driver/nvidia/gpus/0000:01:00.0/information",
            format!("Model: {evil}GPU UUID: {evil}"),
        )
        .file("etc/os-release", format!("PRETTY_NAME=\"{evil}\"\n"))
        .file("proc/sys/kernel/osrelease", evil)
        .file("proc/cmdline", evil)
        .file("sys/module/amdgpu/parameters/x", evil)
        .file("environment.txt", format!("HSA_X={evil}"))
        .file("dmesg.txt", format!("[    1.000000] amdgpu {evil}"))
        .file("etc/modprobe.d/a.conf", format!("options amdgpu {evil}"))
        .file(
            "cards.json",
            "{\"devices\": [{\"name\": \"\\u001b[2J\", \"gcn_arch\": \"gfx1100\"}]}",
        )
        .file(
            "controllers.json",
            "{\"Name\": \"\\u001b\\u0007\", \"PNPDeviceID\": \"PCI\\\\VEN_1002&DEV_744C\"}",
        )
        .detect();
    let json = serde_json::to_value(&system).unwrap();
    let mut texts = Vec::new();
    strings(&json, &mut texts);
    assert!(
        texts.iter().any(|text| text.contains("<script>")),
        "what is no control character stays"
    );
    for text in texts {
        assert!(
            !text.chars().any(|char| char.is_control() || char == '\u{202e}'),
            "{text:?}"
        );
    }
}

fn strings(value: &serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => texts.push(text.clone()),
        serde_json::Value::Array(values) => values.iter().for_each(|value| strings(value, texts)),
        serde_json::Value::Object(map) => map.values().for_each(|value| strings(value, texts)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_file_at_the_top_is_survived(text in "\\PC{0,400}", json in "[\\[\\]{}:,\"a-z0-9 ]{0,200}") {
        let machine = TestMachine::empty().file("a", &text).file("b.json", &json);
        let _ = machine.detect();
    }
}

#[test]
fn a_capture_says_what_its_machine_says() {
    use crate::{CaptureOptions, capture};

    for machine in [
        machines::rx_7900_xtx_with_igpu(),
        machines::rx_7600_xt_with_override(),
        machines::strix_halo_raised(),
        machines::radeon_780m_laptop(),
    ] {
        let system = machine.detect();
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("capture");
        capture(machine.root(), &system, &folder, CaptureOptions::default()).unwrap();
        let captured = detect(&folder, &CardTable::built_in());
        // Ids of single cards are replaced.
        let without_ids = |system: &System| {
            let mut gpus = system.gpus.clone();
            for gpu in &mut gpus {
                gpu.unique_id = None;
            }
            gpus
        };
        assert_eq!(without_ids(&captured), without_ids(&system));
        assert_eq!(captured.access, system.access);
        assert_eq!(captured.train_on, system.train_on);
        assert_eq!(captured.kernel.ttm_pages_limit, system.kernel.ttm_pages_limit);
        let names = |system: &System| {
            let settings = system.settings.iter().filter(|setting| setting.in_effect);
            settings
                .map(|setting| (setting.name.clone(), setting.value.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&captured), names(&system));
    }
}

#[test]
fn this_machine_can_be_read() {
    let system = detect(Path::new(crate::LIVE), &CardTable::built_in());
    assert!(system.live);
    assert!(system.train_on.is_some());
    assert!(system.machine.cores_logical.unwrap() >= 1);
}
