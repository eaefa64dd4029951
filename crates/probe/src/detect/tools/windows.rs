//! Listings of Windows: plug-and-play ids, `Win32_VideoController`, the display class keys of the registry. They are
//! read on any system, since a capture is.
//!
//! A card is its plug-and-play id. Its name may be null, or Microsoft's basic adapter when the maker's driver is
//! missing. `AdapterRAM` is a number of 32 bits and therefore never read; the memory stands in the registry.

use serde_json::{Map, Value};

use super::super::found::{Found, Source, hex_id, hex_revision};
use super::super::reader::Reader;
use crate::GpuVendor;

#[derive(Default)]
pub(crate) struct Listings {
    file: String,
    rows: Vec<Row>,
    keys: Vec<Key>,
    /// A listing was there, if only of adapters that are no cards.
    any: bool,
}

pub(crate) struct Listed {
    pub(crate) source: Source,
    pub(crate) drivers: Vec<(String, String)>,
}

struct Row {
    id: PnpId,
    name: Option<String>,
    driver_version: Option<String>,
    /// DXGI's memory of the adapter, in 64 bits.
    memory_bytes: Option<u64>,
}

struct Key {
    id: PnpId,
    name: Option<String>,
    driver_version: Option<String>,
    memory_bytes: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct PnpId {
    vendor: GpuVendor,
    device: u16,
    revision: Option<u8>,
    subsystem: Option<(u16, u16)>,
}

impl PnpId {
    /// `PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8\6&…`; `None` for other makers and for what is no PCI device.
    fn parse(text: &str) -> Option<Self> {
        let upper = text.to_ascii_uppercase();
        let id = &upper[upper.find("PCI\\VEN_")? + 4..];
        let id = id.split(['\\', '"', ' ', '\t', '\n', ',']).next()?;
        let part = |key: &str| id.split('&').find_map(|part| part.strip_prefix(key));
        let hex = |text: &str| u32::from_str_radix(text, 16).ok();
        let vendor = match part("VEN_").and_then(hex)? {
            0x1002 => GpuVendor::Amd,
            0x10de => GpuVendor::Nvidia,
            _ => return None,
        };
        Some(Self {
            vendor,
            device: part("DEV_").and_then(hex)?.try_into().ok()?,
            revision: part("REV_")
                .and_then(hex)
                .and_then(|revision| revision.try_into().ok()),
            subsystem: part("SUBSYS_")
                .filter(|text| text.len() == 8)
                .and_then(hex)
                .map(|both| ((both & 0xffff) as u16, (both >> 16) as u16)),
        })
    }

    fn same_card(&self, other: &Self) -> bool {
        self.vendor == other.vendor
            && self.device == other.device
            && (self.revision == other.revision || self.revision.is_none() || other.revision.is_none())
    }

    fn found(&self) -> Found {
        let mut found = Found::of(self.vendor);
        found.gpu.device_id = Some(hex_id(self.device.into()));
        found.gpu.revision = self.revision.map(|revision| hex_revision(revision.into()));
        found.gpu.subsystem = self
            .subsystem
            .map(|(maker, model)| format!("{maker:04x}:{model:04x}"));
        found
    }
}

impl Listings {
    /// Whether the value is a listing of Windows, which is then kept.
    pub(crate) fn read_json(&mut self, file: &str, value: &Value) -> bool {
        let mut any = false;
        self.walk(value, 0, &mut any);
        if any {
            self.any = true;
            file.clone_into(&mut self.file);
        }
        any
    }

    fn walk(&mut self, value: &Value, depth: u32, any: &mut bool) {
        if depth > 6 {
            return;
        }
        match value {
            Value::Array(values) => values.iter().for_each(|value| self.walk(value, depth + 1, any)),
            Value::Object(map) => {
                if get(map, "PNPDeviceID").is_some() {
                    *any = true;
                    self.row(map);
                } else if get(map, "MatchingDeviceId").is_some() {
                    *any = true;
                    self.key(map);
                } else {
                    map.values().for_each(|value| self.walk(value, depth + 1, any));
                }
            }
            _ => {}
        }
    }

    fn row(&mut self, map: &Map<String, Value>) {
        if let Some(id) = text(map, "PNPDeviceID").and_then(PnpId::parse) {
            let name = text(map, "Name").or_else(|| text(map, "VideoProcessor"));
            self.rows.push(Row {
                id,
                name: name.map(str::to_owned),
                driver_version: text(map, "DriverVersion").map(str::to_owned),
                memory_bytes: get(map, "DedicatedVideoMemory")
                    .and_then(Value::as_u64)
                    .filter(|bytes| *bytes > 0),
            });
        }
    }

    fn key(&mut self, map: &Map<String, Value>) {
        if let Some(id) = text(map, "MatchingDeviceId").and_then(PnpId::parse) {
            let memory = get(map, "HardwareInformation.qwMemorySize");
            self.keys.push(Key {
                id,
                name: text(map, "DriverDesc").map(str::to_owned),
                driver_version: text(map, "DriverVersion").map(str::to_owned),
                memory_bytes: memory
                    .and_then(|value| value.as_u64().or_else(|| number(value.as_str()?)))
                    .filter(|bytes| *bytes > 0),
            });
        }
    }

    /// Lines with plug-and-play ids, alone, in a table, as `Name : value`, or `reg query`.
    pub(crate) fn read_text(&mut self, text: &str) -> bool {
        let upper = text.to_ascii_uppercase();
        if !upper.contains("PCI\\VEN_") && !upper.contains("ROOT\\BASICDISPLAY") {
            return false;
        }
        self.any = true;
        let mut name: Option<String> = None;
        let mut version: Option<String> = None;
        let mut key: Option<Key> = None;
        for line in text.lines() {
            if line.trim().is_empty() || line.starts_with("HKEY_") {
                (name, version) = (None, None);
                self.keys.extend(key.take());
            }
            if let Some((before, after)) = line.split_once(" REG_") {
                // reg query: name, type, value.
                let value = after.split_once(' ').map_or("", |(_type, value)| value).trim();
                match before.trim() {
                    "DriverDesc" => name = Some(value.to_owned()),
                    "DriverVersion" => version = Some(value.to_owned()),
                    "MatchingDeviceId" => {
                        key = PnpId::parse(value).map(|id| Key {
                            id,
                            name: None,
                            driver_version: None,
                            memory_bytes: None,
                        });
                    }
                    "HardwareInformation.qwMemorySize" => {
                        if let Some(key) = &mut key {
                            key.memory_bytes = number(value);
                        }
                    }
                    _ => {}
                }
                if let Some(key) = &mut key {
                    key.name.clone_from(&name);
                    key.driver_version.clone_from(&version);
                }
                continue;
            }
            if let Some(id) = PnpId::parse(line) {
                let cell = line
                    .split('\t')
                    .next()
                    .filter(|cell| !cell.to_ascii_uppercase().contains("PCI\\VEN_"));
                let name = cell
                    .map(|cell| cell.trim().to_owned())
                    .filter(|cell| !cell.is_empty())
                    .or_else(|| name.take());
                self.rows.push(Row {
                    id,
                    name,
                    driver_version: version.take(),
                    memory_bytes: None,
                });
            } else if let Some((label, value)) = line.split_once(':') {
                match label.trim() {
                    "Name" | "FriendlyName" | "Caption" | "DriverDesc" => {
                        name = Some(value.trim().to_owned());
                    }
                    "DriverVersion" => version = Some(value.trim().to_owned()),
                    _ => {}
                }
            }
        }
        self.keys.extend(key);
        true
    }

    pub(crate) fn finish(self, reader: &Reader<'_>) -> Option<Listed> {
        if !self.any {
            return None;
        }
        let mut cards = Vec::new();
        let mut drivers: Vec<(String, String)> = Vec::new();
        let mut driver = |vendor: GpuVendor, version: &Option<String>| {
            let vendor = match vendor {
                GpuVendor::Amd => "AMD",
                GpuVendor::Nvidia => "NVIDIA",
            };
            let entry = version
                .as_ref()
                .map(|version| (vendor.to_owned(), version.clone()));
            drivers.extend(entry.filter(|entry| !entry.1.is_empty()));
        };
        for row in &self.rows {
            let mut found = row.id.found();
            let basic = row
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with("Microsoft Basic"));
            if basic {
                // The version is that of Microsoft's adapter.
                found.gpu.basic_display_driver = true;
                found.gpu.driver_bound = Some(false);
            } else {
                found.gpu.name.clone_from(&row.name);
                let keys = self.keys.iter().filter(|key| key.id.same_card(&row.id));
                let version = row
                    .driver_version
                    .clone()
                    .or_else(|| keys.filter_map(|key| key.driver_version.clone()).next_back());
                driver(row.id.vendor, &version);
                found.gpu.driver_version = version;
            }
            found.gpu.vram_bytes = self.memory(&row.id, reader).or(row.memory_bytes);
            cards.push(found);
        }
        if self.rows.is_empty() {
            let mut seen: Vec<PnpId> = Vec::new();
            for key in &self.keys {
                if seen.iter().any(|id| id.same_card(&key.id)) {
                    continue;
                }
                seen.push(key.id);
                let mut found = key.id.found();
                found.gpu.name.clone_from(&key.name);
                found.gpu.driver_version.clone_from(&key.driver_version);
                driver(key.id.vendor, &key.driver_version);
                found.gpu.vram_bytes = self.memory(&key.id, reader);
                cards.push(found);
            }
        }
        drivers.dedup();
        Some(Listed {
            source: Source::new(&self.file, cards),
            drivers,
        })
    }

    /// The memory in the registry, unless old keys of the same card disagree about it.
    fn memory(&self, id: &PnpId, reader: &Reader<'_>) -> Option<u64> {
        let of_card = self.keys.iter().filter(|key| key.id.same_card(id));
        let mut sizes: Vec<u64> = of_card.filter_map(|key| key.memory_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        match sizes.as_slice() {
            [size] => Some(*size),
            [] => None,
            _ => {
                reader.note(
                    &self.file,
                    "the registry's keys of one card disagree about its memory",
                );
                None
            }
        }
    }
}

/// A value by name, whatever the case of its letters.
fn get<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    get(map, name)?
        .as_str()
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

fn number(text: &str) -> Option<u64> {
    match text.trim().strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn read(texts: &[&str]) -> Vec<Found> {
        let mut listings = Listings::default();
        for text in texts {
            match json(text) {
                Some(value) => assert!(listings.read_json("a", &value)),
                None => assert!(listings.read_text(text)),
            }
        }
        listings
            .finish(&Reader::new(Path::new("nowhere")))
            .unwrap()
            .source
            .cards
    }

    const ROW: &str = r#"{"Name": null, "VideoProcessor": "AMD Radeon RX 7900 XTX", "AdapterRAM": 4293918720,
        "PNPDeviceID": "PCI\\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8\\6&1&0&19"}"#;

    #[test]
    fn one_row_is_an_object_and_several_are_a_list() {
        let cards = read(&[ROW]);
        assert_eq!(cards[0].gpu.device_id.as_deref(), Some("0x744c"));
        assert_eq!(cards[0].gpu.revision.as_deref(), Some("0xc8"));
        assert_eq!(cards[0].gpu.subsystem.as_deref(), Some("1002:0e3b"));
        assert_eq!(cards[0].gpu.name.as_deref(), Some("AMD Radeon RX 7900 XTX"));
        assert_eq!(cards[0].gpu.vram_bytes, None, "AdapterRAM ends at 4 GiB");
        assert_eq!(
            read(&[&format!("\u{feff}[{ROW},{ROW}]").replace('\u{feff}', "")]).len(),
            2
        );
    }

    #[test]
    fn memory_comes_from_the_registry_unless_its_keys_disagree() {
        let key = |bytes: u64| {
            format!(
                r#"{{"k{bytes}": {{"MatchingDeviceId": "PCI\\VEN_1002&DEV_744C&REV_C8", "HardwareInformation.qwMemorySize": {bytes}}}}}"#
            )
        };
        assert_eq!(
            read(&[ROW, &key(25_769_803_776)])[0].gpu.vram_bytes,
            Some(25_769_803_776)
        );
        assert_eq!(
            read(&[ROW, &key(25_769_803_776), &key(4_294_967_296)])[0]
                .gpu
                .vram_bytes,
            None
        );
        let query = "HKEY_LOCAL_MACHINE\\SYSTEM\\0000\n    DriverDesc    REG_SZ    AMD Radeon RX 7900 XTX\n    \
            MatchingDeviceId    REG_SZ    PCI\\VEN_1002&DEV_744C&REV_C8\n    HardwareInformation.qwMemorySize    REG_QWORD    0x600000000\n";
        let cards = read(&[query]);
        assert_eq!((cards.len(), cards[0].gpu.vram_bytes), (1, Some(25_769_803_776)));
    }

    #[test]
    fn the_basic_adapter_is_a_card_without_driver_and_the_software_one_is_no_card() {
        let cards = read(&[
            "name\tpnp_device_id\nMicrosoft Basic Display Adapter\tPCI\\VEN_1002&DEV_744C&REV_C8\\6&1\nMicrosoft Basic Display Adapter\tROOT\\BASICDISPLAY\\0000\n",
        ]);
        assert_eq!(cards.len(), 1);
        assert!(cards[0].gpu.basic_display_driver);
        assert_eq!(
            (cards[0].gpu.name.as_deref(), cards[0].gpu.driver_bound),
            (None, Some(false))
        );
    }

    #[test]
    fn dxgi_tells_memory_and_the_registry_the_driver() {
        let row = r#"[{"Name": "NVIDIA GeForce RTX 4090", "PNPDeviceID": "PCI\\VEN_10DE&DEV_2684&SUBSYS_889C1043&REV_A1",
            "DriverVersion": null, "DedicatedVideoMemory": 25386352640}]"#;
        let key = r#"{"k": {"MatchingDeviceId": "PCI\\VEN_10DE&DEV_2684", "DriverVersion": "32.0.15.8097"}}"#;
        let gpu = &read(&[row, key])[0].gpu;
        assert_eq!(gpu.vram_bytes, Some(25_386_352_640));
        assert_eq!(gpu.driver_version.as_deref(), Some("32.0.15.8097"));
    }

    #[test]
    fn a_list_of_powershell_is_read() {
        let cards = read(&[
            "Name          : NVIDIA GeForce RTX 4090\nDriverVersion : 32.0.15\nPNPDeviceID   : PCI\\VEN_10DE&DEV_2684&SUBSYS_889C1043&REV_A1\\4&1\n",
        ]);
        assert_eq!(cards[0].gpu.name.as_deref(), Some("NVIDIA GeForce RTX 4090"));
        assert_eq!(cards[0].gpu.driver_version.as_deref(), Some("32.0.15"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*") {
            let mut listings = Listings::default();
            listings.read_text(&text);
            listings.read_text(&format!("PCI\\VEN_1002&DEV_{text}&SUBSYS_{text}&REV_{text}\n{text} REG_{text}"));
            let _ = listings.finish(&Reader::new(Path::new("nowhere")));
        }
    }
}
