//! Measures what sampling costs: four cards made of files, once with the processes of this machine and once with those
//! of a busy desktop, as a share of one core at two samples a second. The aim is less than one per cent.
//!
//! `cargo run --release -p tunesmith-probe --example telemetry_cost`

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use tunesmith_probe::GpuVendor;
use tunesmith_probe::telemetry::{Sampler, Target};

const CARDS: u32 = 4;
const SAMPLES: u32 = 2000;
const SAMPLES_PER_SEC: f64 = 2.0;
/// A desktop with browser, editor, and twenty programs that draw on a card.
const PROCESSES: u32 = 400;
const FILES_PER_PROCESS: u32 = 50;
const DRAWING_PROCESSES: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let machine = tempfile::tempdir()?;
    let targets = (0..CARDS)
        .map(|card| add_card(machine.path(), card))
        .collect::<Result<Vec<_>, _>>()?;

    std::os::unix::fs::symlink("/proc", machine.path().join("proc"))?;
    measure("processes of this machine", machine.path(), &targets)?;

    fs::remove_file(machine.path().join("proc"))?;
    for pid in 1..=PROCESSES {
        add_process(machine.path(), pid)?;
    }
    measure("a busy desktop", machine.path(), &targets)
}

fn measure(name: &str, root: &Path, targets: &[Target]) -> Result<(), Box<dyn Error>> {
    let mut sampler = Sampler::open(root, targets);
    let start = (Instant::now(), cpu_secs()?);
    let first = sampler.sample(0.0);
    let first_millis = (cpu_secs()? - start.1) * 1e3;
    let steady = (Instant::now(), cpu_secs()?);
    let mut used = 0;
    for sample in 1..=SAMPLES {
        used += sampler.sample(f64::from(sample)).gpus.len();
    }
    let cpu_per_sample = (cpu_secs()? - steady.1) / f64::from(SAMPLES);
    let wall_per_sample = steady.0.elapsed().as_secs_f64() / f64::from(SAMPLES);
    let processes: usize = first.gpus.iter().map(|gpu| gpu.processes.len()).sum();
    println!(
        "{name}: {CARDS} cards, {processes} processes on them, {used} readings\n\
         \x20 first sample {first_millis:.2} ms of processor time\n\
         \x20 each further one {:.3} ms ({:.3} ms of wall time): {:.3} % of a core at {SAMPLES_PER_SEC} a second",
        cpu_per_sample * 1e3,
        wall_per_sample * 1e3,
        cpu_per_sample * SAMPLES_PER_SEC * 100.0,
    );
    Ok(())
}

/// Time that this thread, the only one, was on a processor.
fn cpu_secs() -> Result<f64, Box<dyn Error>> {
    let times = fs::read_to_string("/proc/self/schedstat")?;
    let nanos: f64 = times.split_whitespace().next().ok_or("no times")?.parse()?;
    Ok(nanos / 1e9)
}

fn add_card(root: &Path, card: u32) -> Result<Target, Box<dyn Error>> {
    let pci = format!("0000:0{card}:00.0");
    let device = root.join(format!("sys/class/drm/card{card}/device"));
    let uevent = format!("DRIVER=amdgpu\nPCI_SLOT_NAME={pci}\n");
    let files = [
        ("uevent", uevent.as_str()),
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
        ("hwmon/hwmon4/freq2_label", "mclk\n"),
        ("hwmon/hwmon4/freq2_input", "1249000000\n"),
        ("hwmon/hwmon4/fan1_input", "1830\n"),
        ("hwmon/hwmon4/pwm1", "102\n"),
        ("hwmon/hwmon4/pwm1_max", "255\n"),
    ];
    for (file, content) in files {
        write(&device.join(file), content)?;
    }
    Ok(Target {
        pci,
        vendor: GpuVendor::Amd,
    })
}

fn add_process(root: &Path, pid: u32) -> Result<(), Box<dyn Error>> {
    let process = root.join(format!("proc/{pid}"));
    write(&process.join("comm"), "program\n")?;
    fs::create_dir_all(process.join("fd"))?;
    for file in 0..FILES_PER_PROCESS {
        std::os::unix::fs::symlink("socket:[12345]", process.join(format!("fd/{file}")))?;
    }
    if pid <= DRAWING_PROCESSES {
        let number = FILES_PER_PROCESS;
        let card = pid % CARDS;
        std::os::unix::fs::symlink("/dev/dri/renderD128", process.join(format!("fd/{number}")))?;
        let account = format!(
            "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1234\ndrm-driver:\tamdgpu\ndrm-client-id:\t{pid}\n\
             drm-pdev:\t0000:0{card}:00.0\npasid:\t32771\ndrm-total-vram:\t70000 KiB\ndrm-resident-vram:\t70000 KiB\n\
             drm-memory-vram:\t70000 KiB\ndrm-memory-gtt:\t2048 KiB\namd-evicted-vram:\t0 KiB\n\
             drm-engine-gfx:\t123456 ns\ndrm-engine-compute:\t99 ns\n"
        );
        write(&process.join(format!("fdinfo/{number}")), &account)?;
    }
    Ok(())
}

fn write(path: &Path, content: &str) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(path.parent().ok_or("no folder")?)?;
    Ok(fs::write(path, content)?)
}
