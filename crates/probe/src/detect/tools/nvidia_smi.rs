//! `nvidia-smi`: the table, the list (`-L`), the XML (`-x -q`), the report (`-q`) and the query as CSV.

use super::super::found::{Found, hex_id, pci_address};
use crate::{GpuVendor, Link};

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) driver: Option<String>,
    /// The newest CUDA that the driver runs.
    pub(crate) cuda: Option<String>,
    pub(crate) cards: Vec<Found>,
}

/// The tool only speaks where NVIDIA's own driver runs.
fn card() -> Found {
    let mut found = Found::of(GpuVendor::Nvidia);
    found.gpu.driver = Some("nvidia".to_owned());
    found.gpu.driver_bound = Some(true);
    found
}

fn finished(mut log: Log) -> Log {
    for found in &mut log.cards {
        found.gpu.driver_version = found.gpu.driver_version.take().or_else(|| log.driver.clone());
    }
    log
}

/// `24576 MiB` in bytes.
fn mebibytes(text: &str) -> Option<u64> {
    let number = text.trim().strip_suffix("MiB")?.trim();
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(1 << 20)
        .filter(|bytes| *bytes > 0)
}

/// A value that is there: `N/A`, `[N/A]`, `[Not Supported]` and the like are not.
fn given(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && !text.starts_with('[') && text != "N/A").then_some(text)
}

/// `8.6`.
fn capability(text: &str) -> Option<String> {
    let (major, minor) = text.trim().split_once('.')?;
    let digits = |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    (digits(major) && digits(minor)).then(|| text.trim().to_owned())
}

/// Transfers per second and lane in GT/s of a generation of PCI Express.
fn generation(text: &str) -> Option<f64> {
    Some(match text.trim() {
        "1" => 2.5,
        "2" => 5.0,
        "3" => 8.0,
        "4" => 16.0,
        "5" => 32.0,
        "6" => 64.0,
        _ => return None,
    })
}

pub(crate) fn xml(text: &str) -> Log {
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        nodes_limit: 200_000,
        ..roxmltree::ParsingOptions::default()
    };
    let Ok(document) = roxmltree::Document::parse_with_options(text.trim(), options) else {
        return Log::default();
    };
    let root = document.root_element();
    let text_of = |node: roxmltree::Node<'_, '_>, path: &[&str]| {
        let mut node = node;
        for name in path {
            node = node.children().find(|child| child.has_tag_name(*name))?;
        }
        given(node.text()?).map(str::to_owned)
    };
    let mut log = Log {
        driver: text_of(root, &["driver_version"]),
        cuda: text_of(root, &["cuda_version"]),
        cards: Vec::new(),
    };
    for node in root.children().filter(|node| node.has_tag_name("gpu")) {
        let get = |path: &[&str]| text_of(node, path);
        let mut found = card();
        let gpu = &mut found.gpu;
        gpu.pci = node
            .attribute("id")
            .and_then(pci_address)
            .or_else(|| pci_address(&get(&["pci", "pci_bus_id"])?));
        gpu.name = get(&["product_name"]);
        gpu.uuid = get(&["uuid"]);
        // 248710DE: the device, then the vendor.
        let halves = |path: &[&str]| {
            let text = get(path)?;
            let text = text.trim_start_matches("0x");
            (text.len() == 8 && text.is_ascii())
                .then(|| u32::from_str_radix(text, 16).ok())
                .flatten()
        };
        gpu.device_id = halves(&["pci", "pci_device_id"]).map(|both| hex_id(both >> 16));
        gpu.subsystem = halves(&["pci", "pci_sub_system_id"])
            .map(|both| format!("{:04x}:{:04x}", both & 0xffff, both >> 16));
        gpu.vram_bytes = get(&["fb_memory_usage", "total"]).as_deref().and_then(mebibytes);
        gpu.vram_used_bytes = get(&["fb_memory_usage", "used"]).as_deref().and_then(mebibytes);
        gpu.visible_vram_bytes = get(&["bar1_memory_usage", "total"])
            .as_deref()
            .and_then(mebibytes);
        let watts = |path: &[&str]| get(path)?.strip_suffix('W')?.trim().parse().ok();
        gpu.power_limit_watts = [
            ["gpu_power_readings", "current_power_limit"],
            ["gpu_power_readings", "power_limit"],
            ["power_readings", "enforced_power_limit"],
            ["power_readings", "power_limit"],
        ]
        .iter()
        .find_map(|path| watts(path));
        let link = ["pci", "pci_gpu_link_info"];
        let speed = |name| generation(&get(&[link[0], link[1], "pcie_gen", name])?);
        let width = |name| {
            get(&[link[0], link[1], "link_widths", name])?
                .strip_suffix('x')?
                .parse()
                .ok()
        };
        let link = Link {
            speed_gt_per_sec: speed("current_link_gen"),
            width: width("current_link_width"),
            max_speed_gt_per_sec: speed("max_link_gen"),
            max_width: width("max_link_width"),
        };
        gpu.link = (link != Link::default()).then_some(link);
        log.cards.push(found);
    }
    finished(log)
}

pub(crate) fn table(text: &str) -> Log {
    let after = |key: &str| {
        let rest = text.split(key).nth(1)?;
        given(rest.split_whitespace().next()?.trim_end_matches('|')).map(str::to_owned)
    };
    let mut log = Log {
        driver: after("Driver Version:"),
        cuda: after("CUDA Version:"),
        cards: Vec::new(),
    };
    let mut open = false;
    for line in text.lines() {
        if line.contains("Processes:") {
            break;
        }
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [first, second, ..] = cells.as_slice() else {
            continue;
        };
        let address = second
            .split_whitespace()
            .next()
            .filter(|text| text.len() > 10)
            .and_then(pci_address);
        if let Some(address) = address {
            // `0  NVIDIA GeForce RTX 3060 ...    Off`: number, name, persistence mode (or the driver's model).
            let mut words: Vec<&str> = first.split_whitespace().collect();
            let numbered = words
                .first()
                .is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
            if !numbered || words.len() < 3 {
                continue;
            }
            words.remove(0);
            words.pop();
            let mut found = card();
            found.gpu.pci = Some(address);
            let name = words.join(" ");
            // The table cuts long names: part of a name may be another product's.
            if name.ends_with("...") {
                found.chip_name = Some(name);
            } else {
                found.gpu.name = Some(name);
            }
            log.cards.push(found);
            open = true;
        } else if let (true, Some(found), Some((used, total))) =
            (open, log.cards.last_mut(), second.split_once('/'))
        {
            found.gpu.vram_used_bytes = mebibytes(used);
            found.gpu.vram_bytes = mebibytes(total);
            // `N/A   43C    P5             10W /   42W`
            let cap = first.rsplit('/').next();
            found.gpu.power_limit_watts =
                cap.and_then(|cap| cap.trim().strip_suffix('W')?.trim().parse().ok());
            open = false;
        }
    }
    finished(log)
}

/// The indented report of `nvidia-smi -q`.
pub(crate) fn report(text: &str) -> Log {
    let mut log = Log::default();
    let mut section = String::new();
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        if let Some(address) = line.strip_prefix("GPU ").and_then(pci_address) {
            let mut found = card();
            found.gpu.pci = Some(address);
            log.cards.push(found);
            continue;
        }
        let Some((key, value)) = line.split_once(" : ") else {
            if !line.trim().is_empty() {
                line.trim().clone_into(&mut section);
            }
            continue;
        };
        let (key, value) = (key.trim(), given(value));
        match (key, value) {
            ("Driver Version", Some(version)) => log.driver = Some(version.to_owned()),
            ("CUDA Version", Some(version)) => log.cuda = Some(version.to_owned()),
            _ => {}
        }
        let (Some(found), Some(value)) = (log.cards.last_mut(), value) else {
            continue;
        };
        let gpu = &mut found.gpu;
        // A line of the card itself ends the section before it.
        if depth <= 4 {
            section.clear();
        }
        match (section.as_str(), key) {
            (_, "Product Name") => gpu.name = Some(value.to_owned()),
            (_, "GPU UUID") => gpu.uuid = Some(value.to_owned()),
            (_, "Device Id") => {
                let id = value.trim_start_matches("0x");
                gpu.device_id = (id.len() == 8)
                    .then(|| u32::from_str_radix(id, 16).ok())
                    .flatten()
                    .map(|both| hex_id(both >> 16));
            }
            ("FB Memory Usage", "Total") => gpu.vram_bytes = mebibytes(value),
            ("FB Memory Usage", "Used") => gpu.vram_used_bytes = mebibytes(value),
            ("BAR1 Memory Usage", "Total") => gpu.visible_vram_bytes = mebibytes(value),
            _ => {}
        }
    }
    finished(log)
}

/// `--query-gpu=… --format=csv` with its header, or `-L`.
pub(crate) fn query(text: &str) -> Option<Log> {
    let listed: Vec<Found> = text.lines().filter_map(list_line).collect();
    if !listed.is_empty() {
        return Some(Log {
            cards: listed,
            ..Log::default()
        });
    }
    let mut rows = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let header = rows.headers().ok()?.clone();
    // Units follow the names: `memory.total [MiB]`.
    let names: Vec<&str> = header
        .iter()
        .map(|name| name.split(" [").next().unwrap_or(name))
        .collect();
    let known = [
        "uuid",
        "gpu_uuid",
        "name",
        "gpu_name",
        "memory.total",
        "compute_cap",
        "pci.bus_id",
        "gpu_bus_id",
        "driver_version",
    ];
    if names.iter().filter(|name| known.contains(name)).count() < 2 {
        return None;
    }
    let mut log = Log::default();
    for row in rows.records().map_while(Result::ok) {
        let get = |wanted: &[&str]| {
            let at = names.iter().position(|name| wanted.contains(name))?;
            given(row.get(at)?)
        };
        let mut found = card();
        let gpu = &mut found.gpu;
        gpu.name = get(&["name", "gpu_name"]).map(str::to_owned);
        gpu.uuid = get(&["uuid", "gpu_uuid"]).map(str::to_owned);
        gpu.pci = get(&["pci.bus_id", "gpu_bus_id"]).and_then(pci_address);
        gpu.compute_capability = get(&["compute_cap"]).and_then(capability);
        gpu.driver_version = get(&["driver_version"]).map(str::to_owned);
        gpu.device_id = get(&["pci.device_id"]).and_then(|id| {
            let id = id.trim_start_matches("0x");
            (id.len() == 8)
                .then(|| u32::from_str_radix(id, 16).ok())
                .flatten()
                .map(|both| hex_id(both >> 16))
        });
        // With `nounits` the numbers are MiB too.
        let memory = |name| {
            let text = get(&[name])?;
            mebibytes(text).or_else(|| text.parse::<u64>().ok()?.checked_mul(1 << 20))
        };
        gpu.vram_bytes = memory("memory.total");
        gpu.vram_used_bytes = memory("memory.used");
        let watts = |text: &str| text.trim_end_matches('W').trim().parse().ok();
        gpu.power_limit_watts = get(&["power.limit", "enforced.power.limit"]).and_then(watts);
        log.driver = log.driver.take().or_else(|| gpu.driver_version.clone());
        if gpu.name.is_some() || gpu.uuid.is_some() || gpu.pci.is_some() {
            log.cards.push(found);
        }
    }
    Some(log)
}

/// `GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-…)`.
fn list_line(line: &str) -> Option<Found> {
    let rest = line.strip_prefix("GPU ")?;
    let (number, rest) = rest.split_once(": ")?;
    number.parse::<u32>().ok()?;
    let (name, uuid) = rest.split_once(" (UUID: ")?;
    let mut found = card();
    found.gpu.name = Some(name.trim().to_owned());
    found.gpu.uuid = Some(uuid.trim_end().trim_end_matches(')').to_owned());
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.163.01             Driver Version: 550.163.01     CUDA Version: 12.4     |
|   0  NVIDIA GeForce RTX 3060 ...    Off |   00000000:01:00.0 Off |                  N/A |
| N/A   42C    P5             10W /   25W |       9MiB /   6144MiB |      0%      Default |
|   1  NVIDIA GeForce RTX 4090        On  |   00000000:41:00.0 Off |                  N/A |
| 30%   42C    P5             10W /  450W |    1000MiB /  24564MiB |      0%      Default |
| Processes:                                                                              |
|    0   N/A  N/A      1999      G   /usr/lib/xorg/Xorg                              4MiB |
";

    #[test]
    fn the_table_tells_memory_and_cuts_names() {
        let log = table(TABLE);
        assert_eq!(
            (log.driver.as_deref(), log.cuda.as_deref()),
            (Some("550.163.01"), Some("12.4"))
        );
        assert_eq!(log.cards.len(), 2);
        let gpu = &log.cards[0].gpu;
        assert_eq!((gpu.name.as_deref(), gpu.vram_bytes), (None, Some(6144 << 20)));
        assert_eq!(gpu.power_limit_watts, Some(25.0));
        let gpu = &log.cards[1].gpu;
        assert_eq!(
            (gpu.name.as_deref(), gpu.vram_bytes),
            (Some("NVIDIA GeForce RTX 4090"), Some(24_564 << 20))
        );
        assert_eq!(gpu.pci.as_deref(), Some("0000:41:00.0"));
        assert_eq!(gpu.driver_version.as_deref(), Some("550.163.01"));
    }

    #[test]
    fn a_query_is_read_with_and_without_units() {
        let log = query("index, uuid, name, compute_cap, driver_version, memory.total [MiB]\n0, GPU-1, NVIDIA GeForce RTX 5090, 12.0, 580.95.05, 32607 MiB\n").unwrap();
        let gpu = &log.cards[0].gpu;
        assert_eq!(
            (gpu.compute_capability.as_deref(), gpu.vram_bytes),
            (Some("12.0"), Some(32_607 << 20))
        );
        let log = query("name, memory.total [MiB]\nNVIDIA GeForce RTX 3080, 10240\n").unwrap();
        assert_eq!(log.cards[0].gpu.vram_bytes, Some(10_240 << 20));
        let log = query("GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-0a)\n").unwrap();
        assert_eq!(log.cards[0].gpu.uuid.as_deref(), Some("GPU-0a"));
        assert!(query("a, b\n1, 2\n").is_none());
    }

    #[test]
    fn the_report_is_read_by_section() {
        let log = report(
            "==============NVSMI LOG==============\nDriver Version                            : 570.10\nCUDA Version                              : 12.8\n\n\
            GPU 00000000:01:00.0\n    Product Name                          : NVIDIA GeForce RTX 3080\n    PCI\n        Device Id                         : 0x220610DE\n    \
            FB Memory Usage\n        Total                             : 10240 MiB\n        Used                              : 5 MiB\n    \
            BAR1 Memory Usage\n        Total                             : 256 MiB\n",
        );
        let gpu = &log.cards[0].gpu;
        assert_eq!(
            (gpu.device_id.as_deref(), gpu.vram_bytes),
            (Some("0x2206"), Some(10_240 << 20))
        );
        assert_eq!(gpu.visible_vram_bytes, Some(256 << 20));
        assert_eq!(log.cuda.as_deref(), Some("12.8"));
    }

    #[test]
    fn redacted_values_are_unknown() {
        let log = xml(
            "<?xml version=\"1.0\" ?><!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\"><nvidia_smi_log><driver_version>525.147.05</driver_version><cuda_version>12.0</cuda_version>\
            <gpu id=\"00000000:00:10.0\"><product_name>NVIDIA GeForce RTX 3090</product_name><pci><pci_device_id>[REDACTED]</pci_device_id></pci>\
            <fb_memory_usage><total>24576 MiB</total></fb_memory_usage><bar1_memory_usage><total>32768 MiB</total></bar1_memory_usage></gpu></nvidia_smi_log>",
        );
        let gpu = &log.cards[0].gpu;
        assert_eq!(
            (gpu.device_id.as_deref(), gpu.pci.as_deref()),
            (None, Some("0000:00:10.0"))
        );
        assert_eq!(gpu.visible_vram_bytes, Some(32_768 << 20));
        assert!(xml("<nvidia_smi_log><gpu>").cards.is_empty(), "cut short");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*", cut in 0..TABLE.len()) {
            let _ = (xml(&text), table(&text), report(&text), query(&text));
            let _ = table(&TABLE[..cut]);
            let _ = xml(&format!("<nvidia_smi_log><gpu id=\"{text}\"><pci><pci_device_id>{text}</pci_device_id></pci></gpu></nvidia_smi_log>"));
            let _ = query(&format!("name, uuid\n{text}"));
        }
    }
}
