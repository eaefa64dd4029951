//! Tables with a header that people make of a runtime's answers: HIP or torch devices, RCCL's lines about KFD nodes,
//! render nodes with their drivers, the list of `rocm-bandwidth-test`.

use serde_json::Value;

use super::super::found::{Found, Source, hex_id, pci_address};
use super::rocminfo::target;
use crate::GpuVendor;

/// `devices` of torch: name, target and memory of each, in ROCm's order.
pub(crate) fn torch_json(value: &Value) -> Vec<Found> {
    let devices = value
        .get("devices")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    devices
        .filter_map(|device| {
            let text = |keys: &[&str]| keys.iter().find_map(|key| device.get(key)?.as_str());
            let number = |keys: &[&str]| keys.iter().find_map(|key| device.get(key)?.as_u64());
            let mut found = Found::of(GpuVendor::Amd);
            found.tool_gfx = text(&["gcn_arch", "gcnArchName", "gcn_arch_name"]).and_then(target);
            found.gpu.name = text(&["name"]).map(str::to_owned);
            found.gpu.pool_bytes = number(&["total_memory_bytes", "total_memory"]);
            found.workgroup_processors =
                number(&["multi_processor_count"]).and_then(|count| count.try_into().ok());
            found.tool_gfx.is_some().then_some(found)
        })
        .collect()
}

/// A table whose cells are parted by tabs, or a list of devices with addresses.
pub(crate) fn table(name: &str, text: &str) -> Source {
    let listed: Vec<Found> = text.lines().filter_map(bandwidth_test_line).collect();
    if !listed.is_empty() {
        return Source::new(name, listed).in_rocm_order();
    }
    let mut lines = text.lines();
    let header: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split('\t')
        .map(str::trim)
        .collect();
    let has = |column: &str| header.contains(&column);
    let in_rocm_order = has("gfx") || has("location_id");
    if header.len() < 2 || !(in_rocm_order || has("pci_path")) {
        return Source::new(name, Vec::new());
    }
    let cards = lines.filter_map(|line| {
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        let get = |column: &str| {
            let at = header.iter().position(|name| *name == column)?;
            cells.get(at).copied().filter(|cell| !cell.is_empty())
        };
        row(&get)
    });
    let source = Source::new(name, cards.collect());
    if in_rocm_order {
        source.in_rocm_order()
    } else {
        source
    }
}

fn row<'a>(get: &dyn Fn(&str) -> Option<&'a str>) -> Option<Found> {
    let number = |column: &str| get(column).and_then(|cell| cell.parse::<u64>().ok());
    if let Some(module) = get("module") {
        let vendor = match module {
            "amdgpu" => GpuVendor::Amd,
            "nvidia" | "nouveau" => GpuVendor::Nvidia,
            _ => return None,
        };
        let mut found = Found::of(vendor);
        found.gpu.pci = get("pci_path").and_then(|path| pci_address(path.rsplit('/').next()?));
        found.gpu.driver = Some(module.to_owned());
        found.gpu.driver_bound = Some(true);
        found.gpu.render_minor =
            get("node").and_then(|node| node.strip_prefix("/dev/dri/renderD")?.parse().ok());
        return Some(found);
    }
    let mut found = Found::of(GpuVendor::Amd);
    found.tool_gfx = get("gfx").and_then(target);
    found.workgroup_processors = number("multiProcessorCount").and_then(|count| count.try_into().ok());
    let gpu = &mut found.gpu;
    gpu.name = get("name").map(str::to_owned);
    gpu.pool_bytes = number("total_bytes");
    gpu.pci = get("pci").and_then(pci_address).or_else(|| {
        let location = number("location_id").filter(|location| (1..=0xffff).contains(location))?;
        pci_address(&format!(
            "{:x}:{:x}.{}",
            location >> 8,
            (location >> 3) & 31,
            location & 7
        ))
    });
    gpu.device_id = number("device_id")
        .filter(|id| (1..=0xffff).contains(id))
        .map(|id| hex_id(id as u32));
    gpu.kfd_node = number("node").and_then(|node| node.try_into().ok());
    found.unique_id_zero = number("unique_id") == Some(0);
    (found.tool_gfx.is_some() || found.gpu.pci.is_some()).then_some(found)
}

/// `Device: 1,  AMD Radeon Graphics,  GPU-XX,  c3:0.0`; a processor has no address.
fn bandwidth_test_line(line: &str) -> Option<Found> {
    let cells: Vec<&str> = line
        .trim()
        .strip_prefix("Device: ")?
        .split(',')
        .map(str::trim)
        .collect();
    let [_number, name, uuid, address] = cells.as_slice() else {
        return None;
    };
    let mut found = Found::of(GpuVendor::Amd);
    found.gpu.pci = Some(pci_address(address)?);
    found.gpu.name = Some((*name).to_owned());
    uuid.starts_with("GPU-").then_some(found)
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hip_counts_work_group_processors() {
        let source = table(
            "a",
            "ordinal\tname\tgfx\ttotal_bytes\tmultiProcessorCount\tpci\n0\tAMD Radeon AI PRO R9700\tgfx1201\t34208743424\t32\t0000:07:00.0\n4\tAMD Radeon Graphics\tgfx1036\t33190195200\t\t\n",
        );
        assert_eq!(source.cards[0].workgroup_processors, Some(32));
        assert_eq!(source.cards[0].gpu.compute_units, None);
        assert_eq!(source.cards[1].gpu.pool_bytes, Some(33_190_195_200));
        assert!(table("a", "one\ttwo\n1\t2\n").cards.is_empty());
    }

    #[test]
    fn other_lists_are_read() {
        let rccl = table("a", "node\tgpu_id\tlocation_id\tunique_id\n3\t4479\t5632\t0\n");
        assert_eq!(rccl.cards[0].gpu.pci.as_deref(), Some("0000:16:00.0"));
        assert!(rccl.cards[0].unique_id_zero);
        let render = table(
            "a",
            "node\tpci_path\tmodule\n/dev/dri/renderD129\tpci0000:00/0000:00:03.1/0000:65:00.0\tnvidia\n",
        );
        assert_eq!(render.cards[0].gpu.pci.as_deref(), Some("0000:65:00.0"));
        assert_eq!(render.cards[0].gpu.render_minor, Some(129));
        let test = table(
            "a",
            "          Device: 0,  AMD RYZEN AI MAX+ 395\n          Device: 1,  AMD Radeon Graphics,  GPU-XX,  c3:0.0\n",
        );
        assert_eq!(test.cards[0].gpu.pci.as_deref(), Some("0000:c3:00.0"));
        let torch = json(r#"{"devices": [{"name": "AMD Radeon Graphics", "gcn_arch": "gfx1036:xnack-", "total_memory_bytes": 5}]}"#).unwrap();
        assert_eq!(torch_json(&torch)[0].tool_gfx.as_deref(), Some("gfx1036"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*") {
            let _ = table("a", &text);
            let _ = table("a", &format!("gfx\tpci\tlocation_id\tdevice_id\n{text}\t{text}\t{text}\n"));
            let _ = bandwidth_test_line(&format!("Device: 1, {text}"));
        }
    }
}
