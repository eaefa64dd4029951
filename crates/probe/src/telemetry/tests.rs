use std::fs;

use super::*;
use crate::nvml::tests::Fake;
use crate::tree::tests::tree;

const CARD: &str = "0000:03:00.0";

fn target(pci: &str, vendor: GpuVendor) -> Target {
    Target {
        pci: pci.to_owned(),
        vendor,
    }
}

fn watch(machine: &tempfile::TempDir, pci: &str) -> Sampler {
    Sampler::open(machine.path(), &[target(pci, GpuVendor::Amd)])
}

/// An RX 7900 XTX at full load, with the figures of a real one.
fn busy_card() -> tempfile::TempDir {
    let device = "sys/class/drm/card1/device";
    let files = [
        ("uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n"),
        ("power/runtime_status", "active\n"),
        ("mem_info_vram_used", "7977566208\n"),
        ("mem_info_gtt_used", "52428800\n"),
        ("gpu_busy_percent", "100\n"),
        ("mem_busy_percent", "41\n"),
        ("pp_dpm_sclk", "0: 500Mhz\n1: 2482Mhz *\n"),
        ("pp_dpm_mclk", "0: 96Mhz\n1: 1249Mhz *\n"),
        ("hwmon/hwmon4/name", "amdgpu\n"),
        ("hwmon/hwmon4/temp1_label", "edge\n"),
        ("hwmon/hwmon4/temp1_input", "71000\n"),
        ("hwmon/hwmon4/temp2_label", "junction\n"),
        ("hwmon/hwmon4/temp2_input", "93000\n"),
        ("hwmon/hwmon4/temp3_label", "mem\n"),
        ("hwmon/hwmon4/temp3_input", "84000\n"),
        ("hwmon/hwmon4/power1_average", "280000000\n"),
        ("hwmon/hwmon4/freq1_label", "sclk\n"),
        ("hwmon/hwmon4/freq1_input", "2482000000\n"),
        ("hwmon/hwmon4/fan1_input", "1830\n"),
        ("hwmon/hwmon4/pwm1", "102\n"),
        ("hwmon/hwmon4/pwm1_max", "255\n"),
    ];
    let files: Vec<(String, &str)> = files
        .iter()
        .map(|(name, text)| (format!("{device}/{name}"), *text))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    tree(&files)
}

fn device(machine: &tempfile::TempDir, file: &str) -> PathBuf {
    machine.path().join("sys/class/drm/card1/device").join(file)
}

#[test]
fn a_busy_card_is_read_whole() {
    let machine = busy_card();
    let sample = watch(&machine, CARD).sample(12.5);
    let expected = GpuSample {
        pci: CARD.to_owned(),
        state: CardState::Awake,
        vram_used_bytes: Some(7_977_566_208),
        gtt_used_bytes: Some(50 << 20),
        load_percent: Some(100.0),
        memory_load_percent: Some(41.0),
        core_clock_mhz: Some(2482.0),
        // No sensor has it, the list of clocks does.
        memory_clock_mhz: Some(1249.0),
        edge_celsius: Some(71.0),
        junction_celsius: Some(93.0),
        memory_celsius: Some(84.0),
        power_watts: Some(280.0),
        energy_joules: None,
        fan_rpm: Some(1830.0),
        fan_percent: Some(40.0),
        evicted_vram_bytes: None,
        processes: Vec::new(),
    };
    assert!((sample.at_secs - 12.5).abs() < 1e-9);
    assert_eq!(sample.gpus, [expected]);
    let json = serde_json::to_string(&sample).unwrap();
    assert_eq!(serde_json::from_str::<Sample>(&json).unwrap(), sample);
}

#[test]
fn figures_change_from_sample_to_sample_while_files_stay_open() {
    let machine = busy_card();
    let mut sampler = watch(&machine, CARD);
    assert_eq!(sampler.sample(0.0).gpus[0].load_percent, Some(100.0));
    fs::write(device(&machine, "gpu_busy_percent"), "7\n").unwrap();
    fs::write(device(&machine, "hwmon/hwmon4/power1_average"), "25000000\n").unwrap();
    let gpu = &sampler.sample(0.5).gpus[0];
    assert_eq!((gpu.load_percent, gpu.power_watts), (Some(7.0), Some(25.0)));
}

#[test]
fn a_newer_kernel_has_the_other_power_file() {
    let machine = busy_card();
    fs::rename(
        device(&machine, "hwmon/hwmon4/power1_average"),
        device(&machine, "hwmon/hwmon4/power1_input"),
    )
    .unwrap();
    assert_eq!(watch(&machine, CARD).sample(0.0).gpus[0].power_watts, Some(280.0));
}

#[test]
fn an_absent_sensor_and_a_failing_one_are_gaps_and_never_zero() {
    let machine = busy_card();
    for file in [
        "hwmon/hwmon4/fan1_input",
        "mem_busy_percent",
        "hwmon/hwmon4/temp2_label",
    ] {
        fs::remove_file(device(&machine, file)).unwrap();
    }
    // Reading a folder fails, as reading a busy card's sensor does.
    for file in ["gpu_busy_percent", "hwmon/hwmon4/power1_average"] {
        fs::remove_file(device(&machine, file)).unwrap();
        fs::create_dir(device(&machine, file)).unwrap();
    }
    let gpu = &watch(&machine, CARD).sample(0.0).gpus[0];
    assert_eq!(gpu.state, CardState::Awake);
    assert_eq!(
        (gpu.fan_rpm, gpu.memory_load_percent, gpu.junction_celsius),
        (None, None, None)
    );
    assert_eq!((gpu.load_percent, gpu.power_watts), (None, None));
    assert_eq!(gpu.edge_celsius, Some(71.0));
}

/// Replaces every file of the card that a sampler could read by a pipe, which blocks or fails whoever opens or reads
/// it without a writer; so this test ends only if none is touched.
#[cfg(unix)]
#[test]
fn a_sleeping_card_is_never_touched() {
    let machine = busy_card();
    fs::write(device(&machine, "power/runtime_status"), "suspended\n").unwrap();
    let files = entries(&device(&machine, ""))
        .into_iter()
        .chain(entries(&device(&machine, "hwmon/hwmon4")));
    for file in files.filter(|file| file.is_file() && !file.ends_with("uevent")) {
        fs::remove_file(&file).unwrap();
        let status = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(status.success());
    }
    let mut sampler = watch(&machine, CARD);
    for at in [0.0, 0.5, 1.0] {
        let gpu = sampler.sample(at).gpus.remove(0);
        let expected = GpuSample {
            pci: CARD.to_owned(),
            state: CardState::Asleep,
            ..GpuSample::default()
        };
        assert_eq!(gpu, expected);
    }
}

#[test]
fn a_card_that_falls_asleep_and_wakes_is_followed() {
    let machine = busy_card();
    let mut sampler = watch(&machine, CARD);
    let mut states = Vec::new();
    for status in [
        "active\n",
        "suspending\n",
        "suspended\n",
        "resuming\n",
        "active\n",
    ] {
        fs::write(device(&machine, "power/runtime_status"), status).unwrap();
        let gpu = sampler.sample(0.0).gpus.remove(0);
        states.push((gpu.state, gpu.load_percent));
    }
    let (awake, asleep) = ((CardState::Awake, Some(100.0)), (CardState::Asleep, None));
    assert_eq!(states, [awake, asleep, asleep, asleep, awake]);
}

fn states(sampler: &mut Sampler, times: &[f64]) -> Vec<CardState> {
    times.iter().map(|at| sampler.sample(*at).gpus[0].state).collect()
}

#[test]
fn an_idle_card_is_left_alone_long_enough_to_fall_asleep() {
    use CardState::{Awake, Resting};
    let machine = busy_card();
    fs::write(device(&machine, "power/control"), "auto\n").unwrap();
    let mut sampler = watch(&machine, CARD);
    assert_eq!(states(&mut sampler, &[0.0, 0.5, 1.0]), [Awake; 3], "it works");
    fs::write(device(&machine, "gpu_busy_percent"), "0\n").unwrap();
    assert_eq!(
        states(&mut sampler, &[2.0, 2.5, 7.9, 8.5, 9.0]),
        [Awake, Resting, Resting, Awake, Resting]
    );
    fs::write(device(&machine, "gpu_busy_percent"), "90\n").unwrap();
    assert_eq!(states(&mut sampler, &[15.0, 15.5, 16.0]), [Awake; 3]);
}

#[test]
fn an_idle_card_that_cannot_sleep_is_read_on() {
    let machine = busy_card();
    fs::write(device(&machine, "gpu_busy_percent"), "0\n").unwrap();
    assert_eq!(
        states(&mut watch(&machine, CARD), &[0.0, 0.5, 1.0]),
        [CardState::Awake; 3],
        "it may not sleep"
    );
    fs::write(device(&machine, "power/control"), "auto\n").unwrap();
    let output = device(&machine, "drm/card1/card1-DP-1");
    fs::create_dir_all(&output).unwrap();
    fs::write(output.join("enabled"), "enabled\n").unwrap();
    assert_eq!(
        states(&mut watch(&machine, CARD), &[0.0, 0.5, 1.0]),
        [CardState::Awake; 3],
        "it shows a picture"
    );
}

#[test]
fn sensors_with_a_new_number_are_found_again() {
    let machine = busy_card();
    let mut sampler = watch(&machine, CARD);
    sampler.sample(0.0);
    fs::rename(device(&machine, "hwmon/hwmon4"), device(&machine, "hwmon/hwmon7")).unwrap();
    fs::write(device(&machine, "hwmon/hwmon7/temp2_input"), "50000\n").unwrap();
    assert_eq!(sampler.sample(0.5).gpus[0].junction_celsius, Some(50.0));
}

#[test]
fn a_card_that_comes_back_under_another_number_is_found_by_its_address() {
    let machine = busy_card();
    let mut sampler = watch(&machine, CARD);
    sampler.sample(0.0);
    let drm = machine.path().join("sys/class/drm");
    fs::rename(drm.join("card1"), machine.path().join("away")).unwrap();
    let gone = sampler.sample(0.5).gpus.remove(0);
    assert_eq!((gone.state, gone.vram_used_bytes), (CardState::Missing, None));
    fs::rename(machine.path().join("away"), drm.join("card0")).unwrap();
    assert_eq!(sampler.sample(1.0).gpus[0].junction_celsius, Some(93.0));
}

#[test]
fn a_card_that_was_never_there_is_missing() {
    let machine = busy_card();
    for pci in ["0000:99:00.0", "../../../class/drm/card1/device", ""] {
        let gpu = watch(&machine, pci).sample(0.0).gpus.remove(0);
        assert_eq!(
            (gpu.state, gpu.load_percent),
            (CardState::Missing, None),
            "{pci:?}"
        );
    }
}

/// An open file of a process, as the kernel shows it.
#[cfg(unix)]
fn open_file(machine: &tempfile::TempDir, pid: u32, number: u32, target: &str, account: &str) {
    let process = machine.path().join(format!("proc/{pid}"));
    fs::create_dir_all(process.join("fd")).unwrap();
    fs::create_dir_all(process.join("fdinfo")).unwrap();
    fs::write(process.join("comm"), format!("program{pid}\n")).unwrap();
    std::os::unix::fs::symlink(target, process.join(format!("fd/{number}"))).unwrap();
    fs::write(process.join(format!("fdinfo/{number}")), account).unwrap();
}

fn account(pci: &str, client: u32, vram_mib: u64, evicted_kib: u64) -> String {
    format!(
        "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t{pci}\ndrm-client-id:\t{client}\n\
         drm-memory-vram:\t{} KiB\ndrm-memory-gtt:\t1024 KiB\namd-evicted-vram:\t{evicted_kib} KiB\n\
         drm-engine-compute:\t5000 ns\n",
        vram_mib * 1024
    )
}

#[cfg(unix)]
#[test]
fn memory_of_a_process_counts_once_for_each_client() {
    let machine = busy_card();
    let render = "/dev/dri/renderD128";
    open_file(&machine, 40, 7, render, &account(CARD, 5, 100, 0));
    // The same client through another file of the process, and through a child's.
    open_file(&machine, 40, 8, render, &account(CARD, 5, 100, 0));
    open_file(&machine, 41, 8, render, &account(CARD, 5, 100, 0));
    open_file(&machine, 40, 9, "/dev/dri/card1", &account(CARD, 6, 20, 12));
    // Another card with a client of the same number, and files that are no card's.
    open_file(&machine, 40, 10, render, &account("0000:0d:00.0", 5, 900, 0));
    open_file(&machine, 40, 11, "/home/someone/file", &account(CARD, 99, 900, 0));
    open_file(&machine, 42, 3, render, "pos:\t0\nflags:\t02\n");
    let gpu = watch(&machine, CARD).sample(0.0).gpus.remove(0);
    let expected = GpuProcess {
        pid: 40,
        name: Some("program40".to_owned()),
        vram_bytes: Some(120 << 20),
        gtt_bytes: Some(2 << 20),
        evicted_bytes: Some(12 << 10),
        engine_nanos: vec![("compute".to_owned(), 10_000)],
    };
    assert_eq!(gpu.processes, [expected]);
    assert_eq!(gpu.evicted_vram_bytes, Some(12 << 10));
}

#[cfg(unix)]
#[test]
fn a_process_that_opens_the_card_later_is_found_and_one_that_ends_is_dropped() {
    let machine = busy_card();
    let mut sampler = watch(&machine, CARD);
    assert_eq!(sampler.sample(0.0).gpus[0].processes, []);
    open_file(&machine, 50, 4, "/dev/dri/renderD128", &account(CARD, 1, 64, 0));
    let mut seen = None;
    for tick in 1..20 {
        let sample = sampler.sample(f64::from(tick));
        if let [process] = sample.gpus[0].processes.as_slice() {
            seen = process.vram_bytes;
            break;
        }
    }
    assert_eq!(seen, Some(64 << 20));
    // The kernel answers for a process that has ended with an error, here with nothing.
    fs::write(machine.path().join("proc/50/fdinfo/4"), "").unwrap();
    fs::remove_dir_all(machine.path().join("proc/50")).unwrap();
    assert_eq!(sampler.sample(30.0).gpus[0].processes, []);
}

#[cfg(unix)]
#[test]
fn the_account_of_kfd_is_taken_where_it_is_larger_and_never_added() {
    let machine = busy_card();
    let write = |path: &str, text: &str| {
        let path = machine.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // 768 is 03:00.0.
    write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
    write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51234\n");
    write(
        "sys/class/kfd/kfd/topology/nodes/1/properties",
        "location_id 768\ndomain 0\n",
    );
    write("sys/class/kfd/kfd/proc/60/vram_51234", "8589934592\n");
    write("sys/class/kfd/kfd/proc/60/sdma_51234", "17\n");
    write("sys/class/kfd/kfd/proc/61/vram_51234", "1048576\n");
    write("sys/class/kfd/kfd/proc/62/vram_9", "77\n");
    write("proc/60/comm", "python3\n");
    open_file(&machine, 61, 4, "/dev/dri/renderD128", &account(CARD, 1, 64, 0));
    let gpu = watch(&machine, CARD).sample(0.0).gpus.remove(0);
    let seen: Vec<_> = gpu
        .processes
        .iter()
        .map(|process| (process.pid, process.vram_bytes))
        .collect();
    assert_eq!(seen, [(60, Some(8 << 30)), (61, Some(64 << 20))]);
    assert_eq!(gpu.processes[0].name.as_deref(), Some("python3"));
}

#[test]
fn figures_of_nvidia_come_from_its_library_under_the_cards_address() {
    let machine = tree(&[
        (
            "sys/bus/pci/devices/0000:01:00.0/power/runtime_status",
            "active\n",
        ),
        (
            "sys/bus/pci/devices/0000:02:00.0/power/runtime_status",
            "suspended\n",
        ),
        ("proc/77/comm", "python3\n"),
    ]);
    let reading = GpuSample {
        load_percent: Some(98.0),
        energy_joules: Some(1e6),
        processes: vec![GpuProcess {
            pid: 77,
            vram_bytes: Some(5),
            ..GpuProcess::default()
        }],
        ..GpuSample::default()
    };
    let readings = ["0000:01:00.0", "0000:02:00.0"].map(|pci| (pci.to_owned(), reading.clone()));
    let fake = Fake {
        readings: readings.to_vec(),
        ..Fake::default()
    };
    let targets = ["0000:01:00.0", "0000:02:00.0", "0000:05:00.0"].map(|pci| target(pci, GpuVendor::Nvidia));
    let sample = Sampler::with_nvml(machine.path(), &targets, Box::new(fake)).sample(0.0);
    let states: Vec<_> = sample
        .gpus
        .iter()
        .map(|gpu| (gpu.state, gpu.load_percent))
        .collect();
    let expected = [
        (CardState::Awake, Some(98.0)),
        (CardState::Asleep, None),
        (CardState::Missing, None),
    ];
    assert_eq!(states, expected);
    assert_eq!(sample.gpus[0].pci, "0000:01:00.0");
    assert_eq!(sample.gpus[0].processes[0].name.as_deref(), Some("python3"));
}

#[test]
fn without_the_library_there_is_a_reason_and_a_gap() {
    let machine = tree(&[(
        "sys/bus/pci/devices/0000:01:00.0/power/runtime_status",
        "active\n",
    )]);
    let mut sampler = Sampler::open(machine.path(), &[target("0000:01:00.0", GpuVendor::Nvidia)]);
    assert_eq!(sampler.nvml_error(), None, "nobody has asked yet");
    assert_eq!(sampler.sample(0.0).gpus[0].state, CardState::Missing);
    assert_eq!(sampler.nvml_error(), Some(&NvmlError::NotThisMachine));
}

#[test]
fn captured_cards_can_be_sampled() {
    let captures = std::env::var_os("TUNESMITH_CAPTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/systems"),
        PathBuf::from,
    );
    if !captures.is_dir() {
        println!("skipped: no captures at {}", captures.display());
        return;
    }
    let phoenix = Sampler::open(
        &captures.join("phoenix-780m-thinkpad"),
        &[
            target("0000:c4:00.0", GpuVendor::Amd),
            target("0000:64:00.0", GpuVendor::Amd),
        ],
    )
    .sample(0.0);
    assert_eq!(phoenix.gpus[0].state, CardState::Missing);
    let gpu = &phoenix.gpus[1];
    assert!(gpu.vram_used_bytes.is_some() && gpu.gtt_used_bytes.is_some() && gpu.power_watts.is_some());
    assert!(gpu.edge_celsius.is_some() && gpu.core_clock_mhz.is_some());
    assert_eq!(
        (gpu.junction_celsius, gpu.memory_load_percent, gpu.fan_rpm),
        (None, None, None)
    );
    let card = &Sampler::open(
        &captures.join("rx7900xtx-single-sysfs"),
        &[target(CARD, GpuVendor::Amd)],
    )
    .sample(0.0)
    .gpus[0];
    let temperatures = (card.edge_celsius, card.junction_celsius, card.memory_celsius);
    assert_eq!(temperatures, (Some(53.0), Some(61.0), Some(68.0)));
    assert!(card.fan_rpm.is_some() && card.load_percent.is_some());
}
