//! Captures of real machines, each with what a right detector must say of it. They lie beside the repository and not
//! in it; where they are absent the test says so and passes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tunesmith_probe::{CardTable, Gpu, GpuVendor, Platform, detect};

/// Folders whose tables have a form of their own, with what of them is not in the files at all.
const OWN_FORM: [(&str, &str); 3] = [
    // Only that the card is in the Ryzen processor is known, and that its owner says so.
    ("hybrid-nvidia-amd-drm-order", "gpus[1].integrated"),
    // The carve-out stands in a file that does not say of which card it is.
    ("r9700-igpu-gfx1036-torch", "gpus[1].vram_bytes"),
    // The target of the processor's graphics was concluded from the processor's name in the post.
    (
        "rx7900xtx-x2-igpu-all-spoofed",
        "gpus[2].gfx gpus[2].compute_units",
    ),
];

fn captures() -> Option<PathBuf> {
    let folder = std::env::var_os("TUNESMITH_CAPTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/systems"),
        PathBuf::from,
    );
    folder.is_dir().then_some(folder)
}

fn said(gpu: &Gpu, key: &str) -> Value {
    let text = |value: &Option<String>| value.clone().map_or(Value::Null, Value::from);
    match key {
        "vendor" => match gpu.vendor {
            Some(GpuVendor::Amd) => "amd".into(),
            Some(GpuVendor::Nvidia) => "nvidia".into(),
            None => Value::Null,
        },
        "pci" => text(&gpu.pci),
        "gfx" => text(&gpu.gfx),
        "device_id" => text(&gpu.device_id),
        "integrated" => gpu.integrated.into(),
        "compute_units" => gpu.compute_units.into(),
        "vram_bytes" => gpu.vram_bytes.into(),
        "gtt_bytes" => gpu.gtt_bytes.into(),
        "resizable_bar" => gpu.resizable_bar.into(),
        other => panic!("{other}"),
    }
}

#[test]
fn every_capture_is_read_as_its_expectation_says() {
    let Some(folder) = captures() else {
        println!("skipped: no captures beside the repository");
        return;
    };
    let cards = CardTable::built_in();
    let mut wrong = Vec::new();
    let mut compared = 0;
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    for folder in folders {
        let Ok(text) = fs::read_to_string(folder.join("expected.json")) else {
            continue;
        };
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let expected: Value = serde_json::from_str(&text).unwrap();
        let system = detect(&folder, &cards);
        let gpus = expected["gpus"].as_array().unwrap();
        if gpus.len() != system.gpus.len() {
            wrong.push(format!("{name}: {} cards for {}", system.gpus.len(), gpus.len()));
            continue;
        }
        let known_gaps = OWN_FORM
            .iter()
            .find(|(folder, _)| *folder == name)
            .map_or("", |(_, gaps)| gaps);
        for (at, (gpu, right)) in system.gpus.iter().zip(gpus).enumerate() {
            for key in [
                "vendor",
                "pci",
                "gfx",
                "device_id",
                "integrated",
                "compute_units",
                "vram_bytes",
                "gtt_bytes",
                "resizable_bar",
            ] {
                let Some(right) = right.get(key) else { continue };
                let here = format!("gpus[{at}].{key}");
                compared += 1;
                if said(gpu, key) != *right && !known_gaps.contains(&here) {
                    wrong.push(format!("{name}: {here} is {} for {right}", said(gpu, key)));
                }
            }
        }
        if expected["os"] == "windows" {
            assert_eq!(system.platform, Platform::Windows, "{name}");
            assert_eq!(system.train_on, None, "{name}");
        } else {
            let right: Vec<usize> = serde_json::from_value(expected["train_on"].clone()).unwrap();
            compared += 1;
            if system.train_on != Some(right.clone()) {
                wrong.push(format!("{name}: train_on is {:?} for {right:?}", system.train_on));
            }
        }
        if expected["os"] == "wsl2" {
            assert_eq!(system.platform, Platform::Wsl, "{name}");
        }
    }
    println!("{compared} values compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
