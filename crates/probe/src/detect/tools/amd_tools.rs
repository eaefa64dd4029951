//! `amdgpu_top` (JSON), `rocm-smi` (JSON and text) and the table of `amd-smi`.

use serde_json::{Map, Value};

use super::super::found::{Found, hex_id, hex_revision, pci_address};
use super::rocminfo::target;
use crate::{GpuVendor, Link};

/// A dump is a list of cards; a sample is an object with `devices`, whose `Info` is the same card, and with the
/// cards that were asleep.
pub(crate) fn amdgpu_top(value: &Value) -> Vec<Found> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (cards, asleep) = match value {
        Value::Array(cards) => (cards.clone(), Vec::new()),
        Value::Object(sample) => (
            sample.get("devices").map(list).unwrap_or_default(),
            sample.get("suspended_devices").map(list).unwrap_or_default(),
        ),
        _ => return Vec::new(),
    };
    let awake = cards
        .iter()
        .filter_map(|card| card_of_amdgpu_top(card.get("Info").unwrap_or(card), card));
    let asleep = asleep.iter().filter_map(|path| {
        let mut found = device_path(path)?;
        found.gpu.runtime_status = Some("suspended".to_owned());
        Some(found)
    });
    awake.chain(asleep).collect()
}

/// `outer` is the sample around the card; in a dump it is the card itself.
fn card_of_amdgpu_top(card: &Value, outer: &Value) -> Option<Found> {
    let mut found = device_path(card.get("DevicePath").unwrap_or(card))?;
    // Older versions have the sizes only here.
    let sampled = |name: &str| {
        let size = outer.get("VRAM")?.get(name)?;
        (size.get("unit")? == "MiB").then(|| size.get("value")?.as_u64()?.checked_mul(1 << 20))?
    };
    let number = |key: &str| card.get(key).and_then(Value::as_u64);
    found.tool_gfx = card
        .get("gfx_target_version")
        .and_then(Value::as_str)
        .and_then(target);
    found.clock_mhz = card
        .pointer("/GPU Clock/max")
        .and_then(Value::as_u64)
        .and_then(|clock| clock.try_into().ok());
    let gpu = &mut found.gpu;
    // The tool reads it with the kernel's own interface, which no override changes.
    gpu.integrated = match card.get("GPU Type").and_then(Value::as_str) {
        Some("APU") => Some(true),
        Some("dGPU") => Some(false),
        _ => None,
    };
    gpu.driver = Some("amdgpu".to_owned());
    gpu.driver_bound = Some(true);
    gpu.compute_units = number("Total Compute Unit").and_then(|units| units.try_into().ok());
    gpu.vram_bytes = number("VRAM Size").or_else(|| sampled("Total VRAM"));
    gpu.vram_used_bytes = number("VRAM Usage Size").or_else(|| sampled("Total VRAM Usage"));
    gpu.gtt_bytes = number("GTT Size").or_else(|| sampled("Total GTT"));
    gpu.gtt_used_bytes = number("GTT Usage Size").or_else(|| sampled("Total GTT Usage"));
    gpu.resizable_bar = card.get("ResizableBAR").and_then(Value::as_bool);
    if let Some(link) = card.get("PCIe Link").filter(|link| link.is_object()) {
        let part = |name: &str| link.pointer(name).and_then(Value::as_u64);
        let speed = part("/max_system_link/gen")
            .or_else(|| part("/max_gpu_link/gen"))
            .and_then(|generation| {
                [2.5, 5.0, 8.0, 16.0, 32.0, 64.0]
                    .get(usize::try_from(generation).ok()?.checked_sub(1)?)
                    .copied()
            });
        let width = part("/max_system_link/width").or_else(|| part("/max_gpu_link/width"));
        gpu.link = Some(Link {
            max_speed_gt_per_sec: speed,
            max_width: width.and_then(|width| width.try_into().ok()),
            ..Link::default()
        });
    }
    if let Some(firmware) = card.get("Firmware info").and_then(Value::as_array) {
        gpu.firmware = firmware
            .iter()
            .filter_map(|row| {
                let name = row.get("fw_type")?.as_str()?.to_lowercase();
                Some((
                    format!("{name}_fw_version"),
                    format!("0x{:08x}", row.get("version")?.as_u64()?),
                ))
            })
            .collect();
    }
    Some(found)
}

fn device_path(path: &Value) -> Option<Found> {
    let address = path.get("pci").or_else(|| path.get("PCI"))?.as_str()?;
    let mut found = Found::of(GpuVendor::Amd);
    let gpu = &mut found.gpu;
    gpu.pci = Some(pci_address(address)?);
    let number = |key: &str| path.get(key).and_then(Value::as_u64);
    gpu.device_id = number("DeviceID")
        .and_then(|id| u16::try_from(id).ok())
        .map(|id| hex_id(id.into()));
    gpu.revision = number("RevisionID")
        .and_then(|id| u8::try_from(id).ok())
        .map(|id| hex_revision(id.into()));
    gpu.name = path.get("DeviceName").and_then(Value::as_str).map(str::to_owned);
    let minor = |key: &str, prefix: &str| path.get(key)?.as_str()?.strip_prefix(prefix)?.parse().ok();
    gpu.drm_card = minor("card", "/dev/dri/card");
    gpu.render_minor = minor("render", "/dev/dri/renderD");
    Some(found)
}

/// `rocm-smi --json`: an object with `card0`, `card1`, …, by itself or as a value (or as text in a value) of another.
pub(crate) fn rocm_smi_json(value: &Value) -> Vec<Found> {
    let Value::Object(map) = value else {
        return Vec::new();
    };
    let cards: Vec<Found> = map
        .iter()
        .filter(|(key, _)| {
            key.strip_prefix("card")
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .filter_map(|(_, card)| rocm_smi_card(card.as_object()?))
        .collect();
    if !cards.is_empty() {
        return cards;
    }
    map.values()
        .find_map(|value| {
            let inner = match value {
                Value::String(text) if text.starts_with('{') => super::json(text)?,
                other => other.clone(),
            };
            let map = inner.as_object()?;
            let cards: Vec<Found> = map
                .iter()
                .filter(|(key, _)| key.starts_with("card"))
                .filter_map(|(_, card)| rocm_smi_card(card.as_object()?))
                .collect();
            (!cards.is_empty()).then_some(cards)
        })
        .unwrap_or_default()
}

fn rocm_smi_card(card: &Map<String, Value>) -> Option<Found> {
    let pairs: Vec<(&str, &str)> = card
        .iter()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect();
    rocm_smi_pairs(&pairs)
}

/// The lines of one card. Names changed with versions: both are read.
fn rocm_smi_pairs(pairs: &[(&str, &str)]) -> Option<Found> {
    let get = |names: &[&str]| {
        let found = pairs
            .iter()
            .find(|(key, _)| names.iter().any(|name| key.eq_ignore_ascii_case(name)));
        found
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty() && *value != "N/A")
    };
    let bytes = |name: &str| get(&[name]).and_then(|value| value.parse::<u64>().ok());
    let id = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let mut found = Found::of(GpuVendor::Amd);
    found.tool_gfx = get(&["GFX Version"]).and_then(target);
    found.chip_name = get(&["Device Name", "Card Series", "Card series"]).map(str::to_owned);
    let gpu = &mut found.gpu;
    gpu.pci = get(&["PCI Bus"]).and_then(pci_address);
    gpu.device_id = get(&["Device ID", "GPU ID", "Card Model", "Card model"])
        .and_then(id)
        .filter(|id| (1..=0xffff).contains(id))
        .map(hex_id);
    gpu.revision = get(&["Device Rev", "GPU Rev"])
        .and_then(id)
        .filter(|id| *id <= 0xff)
        .map(hex_revision);
    gpu.vram_bytes = bytes("VRAM Total Memory (B)").filter(|bytes| *bytes > 0);
    gpu.vram_used_bytes = bytes("VRAM Total Used Memory (B)");
    gpu.visible_vram_bytes = bytes("VIS_VRAM Total Memory (B)");
    gpu.gtt_bytes = bytes("GTT Total Memory (B)").filter(|bytes| *bytes > 0);
    gpu.gtt_used_bytes = bytes("GTT Total Used Memory (B)");
    gpu.kfd_node = get(&["Node ID"]).and_then(|node| node.parse().ok());
    let known =
        gpu.pci.is_some() || gpu.device_id.is_some() || gpu.vram_bytes.is_some() || found.tool_gfx.is_some();
    if known {
        gpu.driver = Some("amdgpu".to_owned());
        gpu.driver_bound = Some(true);
    }
    known.then_some(found)
}

/// `GPU[0]\t\t: VRAM Total Memory (B): 25753026560`.
pub(crate) fn rocm_smi_text(text: &str) -> Vec<Found> {
    let mut cards: Vec<(u32, Vec<(&str, &str)>)> = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim().strip_prefix("GPU[") else {
            continue;
        };
        let Some((number, rest)) = rest.split_once(']') else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        let Some((key, value)) = rest.trim().trim_start_matches(':').split_once(": ") else {
            continue;
        };
        let pair = (key.trim(), value.trim());
        match cards.iter_mut().find(|(known, _)| *known == number) {
            Some((_, pairs)) => pairs.push(pair),
            None => cards.push((number, vec![pair])),
        }
    }
    let listed: Vec<Found> = cards
        .iter()
        .filter_map(|(_, pairs)| rocm_smi_pairs(pairs))
        .collect();
    if !listed.is_empty() || !text.contains("(DID,") {
        return listed;
    }
    text.lines().filter_map(concise_line).collect()
}

/// `0       1     0x744c,   22753  58.0°C …` of the table that rocm-smi prints by itself: number, node, device.
fn concise_line(line: &str) -> Option<Found> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [number, node, device, ..] = words.as_slice() else {
        return None;
    };
    number.parse::<u32>().ok()?;
    let device = device.strip_prefix("0x")?.strip_suffix(',')?;
    let mut found = Found::of(GpuVendor::Amd);
    found.gpu.kfd_node = node.parse().ok();
    found.gpu.device_id = Some(hex_id(u16::from_str_radix(device, 16).ok()?.into()));
    Some(found)
}

/// The table that `amd-smi` prints by itself: a line with the address and the name, then one with `used/total MB`.
pub(crate) fn amd_smi_table(text: &str) -> Vec<Found> {
    if !text.contains("AMD-SMI") {
        return Vec::new();
    }
    let mut cards: Vec<Found> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if line.contains("Processes:") {
            break;
        }
        let line = line.trim().trim_matches('|').trim();
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| word.len() > 10).and_then(pci_address);
        if let Some(address) = address {
            let mut found = Found::of(GpuVendor::Amd);
            found.gpu.pci = Some(address);
            let name = line
                .split('|')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .skip(1)
                .collect::<Vec<_>>()
                .join(" ");
            if name.contains("...") {
                found.chip_name = Some(name);
            } else if !name.is_empty() {
                found.gpu.name = Some(name);
            }
            cards.push(found);
            open = true;
        } else if let (true, Some(found), Some(memory)) = (open, cards.last_mut(), line.strip_suffix(" MB")) {
            let Some((used, total)) = memory.rsplit(' ').next().and_then(|pair| pair.split_once('/')) else {
                continue;
            };
            // The tool writes MB and means MiB: 24560 for a card of 25753026560 bytes.
            let mebibytes = |text: &str| text.parse::<u64>().ok()?.checked_mul(1 << 20);
            found.gpu.vram_used_bytes = mebibytes(used);
            found.gpu.vram_bytes = mebibytes(total).filter(|bytes| *bytes > 0);
            open = false;
        }
    }
    cards
}

/// `amd-smi static --json`, `metric`, `list` and `monitor`: an entry for each `gpu`, whose parts have the same names
/// wherever they stand.
pub(crate) fn amd_smi_json(value: &Value) -> Vec<Found> {
    let rows = value.as_array().or_else(|| value.get("gpu_data")?.as_array());
    rows.into_iter().flatten().filter_map(amd_smi_card).collect()
}

fn amd_smi_card(card: &Value) -> Option<Found> {
    card.get("gpu").filter(|number| number.is_u64())?;
    let text = |keys: &[&str]| keys.iter().find_map(|key| inner(card, key, 0)?.as_str());
    let number = |keys: &[&str]| {
        keys.iter().find_map(|key| {
            let value = inner(card, key, 0)?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        })
    };
    let mebibytes = |value: &Value| {
        value
            .get("value")?
            .as_u64()?
            .checked_mul(1 << 20)
            .filter(|bytes| *bytes > 0)
    };
    let id = |keys: &[&str]| u32::from_str_radix(text(keys)?.strip_prefix("0x")?, 16).ok();
    let mut found = Found::of(GpuVendor::Amd);
    found.tool_gfx = text(&["target_graphics_version"]).and_then(target);
    let gpu = &mut found.gpu;
    gpu.pci = text(&["bdf"]).and_then(pci_address);
    gpu.device_id = id(&["device_id"])
        .filter(|id| (1..=0xffff).contains(id))
        .map(hex_id);
    gpu.revision = id(&["rev_id"]).filter(|id| *id <= 0xff).map(hex_revision);
    gpu.name = text(&["market_name"])
        .filter(|name| *name != "N/A")
        .map(str::to_owned);
    gpu.compute_units = number(&["num_compute_units"])
        .and_then(|units| units.try_into().ok())
        .filter(|units| *units > 0);
    // The tool writes MB and means MiB.
    gpu.vram_bytes = inner(card, "total_vram", 0)
        .or_else(|| card.pointer("/vram/size"))
        .or_else(|| inner(card, "vram_total", 0))
        .and_then(mebibytes);
    gpu.vram_used_bytes = inner(card, "used_vram", 0)
        .or_else(|| inner(card, "vram_used", 0))
        .and_then(mebibytes);
    gpu.visible_vram_bytes = inner(card, "total_visible_vram", 0).and_then(mebibytes);
    gpu.gtt_bytes = inner(card, "total_gtt", 0).and_then(mebibytes);
    (gpu.pci.is_some() || gpu.device_id.is_some() || gpu.vram_bytes.is_some()).then_some(found)
}

/// A value by its key, at whatever depth.
fn inner<'a>(value: &'a Value, key: &str, depth: u32) -> Option<&'a Value> {
    let map = value.as_object().filter(|_| depth < 4)?;
    map.get(key)
        .or_else(|| map.values().find_map(|value| inner(value, key, depth + 1)))
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rocm_smi_is_read_as_json_and_as_text() {
        let value = json(r#"{"card0": {"Device ID": "0x73df", "Device Rev": "0xc1", "PCI Bus": "0000:07:00.0",
            "VRAM Total Memory (B)": "12868124672", "VIS_VRAM Total Memory (B)": "268435456", "GFX Version": "gfx1031"},
            "system": {"Driver version": "6.3.6"}}"#)
        .unwrap();
        let card = &rocm_smi_json(&value)[0];
        assert_eq!(card.gpu.device_id.as_deref(), Some("0x73df"));
        assert_eq!(card.gpu.visible_vram_bytes, Some(268_435_456));
        assert_eq!(card.tool_gfx.as_deref(), Some("gfx1031"));
        let nested = Value::Object(
            [("gpu".to_owned(), Value::String(value.to_string()))]
                .into_iter()
                .collect(),
        );
        assert_eq!(rocm_smi_json(&nested).len(), 1);
        let text = "GPU[0]\t\t: Device ID: \t\t0x744c\nGPU[0]\t\t: VRAM Total Memory (B): 25753026560\nGPU[1]\t\t: Device ID: 0x164e\n";
        let cards = rocm_smi_text(text);
        assert_eq!(cards.len(), 2);
        assert_eq!(cards[0].gpu.vram_bytes, Some(25_753_026_560));
    }

    #[test]
    fn the_short_table_of_rocm_smi_names_nodes_and_devices() {
        let text = "Device  Node  IDs              Temp\n              (DID,     GUID)  (Edge)\n\
            0       1     0x744c,   22753  58.0C  30.0W\n1       2     0x164e,   4479   40.0C\n";
        let cards = rocm_smi_text(text);
        let seen: Vec<_> = cards
            .iter()
            .map(|card| (card.gpu.kfd_node, card.gpu.device_id.as_deref()))
            .collect();
        assert_eq!(seen, [(Some(1), Some("0x744c")), (Some(2), Some("0x164e"))]);
    }

    #[test]
    fn older_samples_of_amdgpu_top_have_sizes_in_mebibytes() {
        let value = json(
            r#"{"devices": [{"Info": {"PCI": "0000:03:00.0", "DeviceID": 29772, "RevisionID": 200},
            "VRAM": {"Total VRAM": {"unit": "MiB", "value": 24560}, "Total VRAM Usage": {"unit": "MiB", "value": 7608}}}]}"#,
        )
        .unwrap();
        let card = &amdgpu_top(&value)[0].gpu;
        assert_eq!(
            (card.pci.as_deref(), card.vram_bytes),
            (Some("0000:03:00.0"), Some(25_753_026_560))
        );
    }

    #[test]
    fn amd_smi_writes_megabytes_and_means_mebibytes() {
        let cards = amd_smi_table(
            "| AMD-SMI 26.2.0      amdgpu version: 6.16 ROCm version: 7.1.1 |\n\
             | 0000:03:00.0 ...on RX 7900 XTX | 0 %      93 °C   0           280/327 W |\n\
             |   0       0     N/A        N/A | 100 %   20.0 %             7608/24560 MB |\n",
        );
        assert_eq!(cards.len(), 1);
        assert_eq!(cards[0].gpu.vram_bytes, Some(25_753_026_560));
        assert_eq!(cards[0].gpu.name, None);
    }

    #[test]
    fn amd_smi_writes_its_parts_at_different_depths() {
        let value = json(r#"[{"gpu": 0, "asic": {"market_name": "Radeon RX 7900 XTX", "device_id": "0x744c", "rev_id": "0xc8",
            "num_compute_units": 96, "target_graphics_version": "gfx1100"}, "bus": {"bdf": "0000:03:00.0"},
            "vram": {"type": "GDDR6", "size": {"value": 24560, "unit": "MB"}}}]"#)
        .unwrap();
        let card = &amd_smi_json(&value)[0].gpu;
        assert_eq!(card.pci.as_deref(), Some("0000:03:00.0"));
        assert_eq!(
            (card.compute_units, card.vram_bytes),
            (Some(96), Some(25_753_026_560))
        );
        let value =
            json(r#"[{"gpu": 1, "mem_usage": {"total_vram": {"value": 512, "unit": "MB"}}}]"#).unwrap();
        assert_eq!(amd_smi_json(&value)[0].gpu.vram_bytes, Some(512 << 20));
        assert!(amd_smi_json(&json("[{\"gpu\": \"x\"}, 5]").unwrap()).is_empty());
    }

    #[test]
    fn a_sample_names_the_cards_that_were_asleep() {
        let value = json(r#"{"devices": [{"Info": {"DevicePath": {"pci": "0000:13:00.0", "DeviceID": 5056, "RevisionID": 198},
            "GPU Type": "APU", "VRAM Size": 536870912, "Total Compute Unit": 2}}],
            "suspended_devices": [{"pci": "0000:03:00.0", "DeviceID": 30096, "RevisionID": 192}]}"#)
        .unwrap();
        let cards = amdgpu_top(&value);
        assert_eq!(cards[0].gpu.integrated, Some(true));
        assert_eq!(cards[0].gpu.compute_units, Some(2));
        assert_eq!(cards[1].gpu.runtime_status.as_deref(), Some("suspended"));
        assert_eq!(cards[1].gpu.device_id.as_deref(), Some("0x7590"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*") {
            let _ = (rocm_smi_text(&text), amd_smi_table(&format!("AMD-SMI\n0000:03:00.0 {text} |\n{text} MB")));
            let _ = rocm_smi_text(&format!("GPU[0]: {text}: {text}"));
            if let Some(value) = json(&text) {
                let _ = (rocm_smi_json(&value), amdgpu_top(&value), amd_smi_json(&value));
            }
        }
    }
}
