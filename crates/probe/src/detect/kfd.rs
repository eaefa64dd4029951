//! AMD's compute driver lists its devices in `/sys/class/kfd`: the best source there is. It needs no ROCm, no
//! override changes it, and its order is the one in which ROCm numbers the cards.

use std::collections::HashMap;

use super::found::{Found, Source, hex_id};
use super::reader::{Failure, Reader};
use crate::{GfxSource, GpuVendor};

const NODES: &str = "sys/class/kfd/kfd/topology/nodes";
const AMD: u64 = 0x1002;
/// Mask of the memory bank's type: memory of the card, all or partly visible to the processor.
const CARD_HEAPS: [u64; 2] = [1, 2];

/// The cards, and how many nodes are there that may not be read: a container's control group hides those cards.
pub(crate) fn kfd(reader: &Reader<'_>) -> (Source, Vec<u32>) {
    let mut nodes: Vec<u32> = reader
        .names(NODES)
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    nodes.sort_unstable();
    let mut cards = Vec::new();
    let mut forbidden = Vec::new();
    for node in nodes {
        let path = format!("{NODES}/{node}/properties");
        match reader.try_text(&path) {
            Ok(text) => cards.extend(card(reader, node, &path, &text)),
            Err(Failure::Forbidden) => forbidden.push(node),
            Err(Failure::Missing) => {}
            Err(Failure::Other) => reader.note(&path, "it cannot be read"),
        }
    }
    (Source::new(NODES, cards).in_rocm_order(), forbidden)
}

fn card(reader: &Reader<'_>, node: u32, path: &str, text: &str) -> Option<Found> {
    let properties = properties(text);
    if properties.is_empty() && !text.trim().is_empty() {
        reader.note(path, "it holds no lines of the form `key value`");
    }
    let get = |key: &str| properties.get(key).copied();
    // NVIDIA's open module can register nodes too; a processor's node computes nothing.
    let target = get("gfx_target_version").filter(|version| *version > 0);
    if get("vendor_id").is_some_and(|vendor| vendor != AMD)
        || get("simd_count").is_none_or(|simds| simds == 0)
        || (get("vendor_id").is_none() && target.is_none())
    {
        return None;
    }
    let mut found = Found::of(GpuVendor::Amd);
    let gpu = &mut found.gpu;
    gpu.kfd_node = Some(node);
    gpu.gfx = target.and_then(target_name);
    gpu.gfx_source = gpu.gfx.as_ref().map(|_| GfxSource::Kfd);
    if target.is_some() && gpu.gfx.is_none() {
        reader.note(path, "its gfx_target_version is no target");
    }
    gpu.device_id = get("device_id")
        .and_then(|id| u16::try_from(id).ok())
        .map(|id| hex_id(id.into()));
    gpu.pci = get("location_id").and_then(|location| {
        let domain = get("domain").unwrap_or(0);
        (location > 0 && location <= 0xffff && u32::try_from(domain).is_ok()).then(|| {
            let (bus, device, function) = (location >> 8, (location >> 3) & 31, location & 7);
            format!("{domain:04x}:{bus:02x}:{device:02x}.{function}")
        })
    });
    // GCN and Vega have four SIMDs in a unit, RDNA two. Shader arrays times units per array counts units that are
    // switched off.
    let vega = target.is_some_and(|version| version < 100_000);
    let per_unit = get("simd_per_cu")
        .filter(|simds| *simds > 0)
        .unwrap_or(if vega { 4 } else { 2 });
    gpu.compute_units = get("simd_count")
        .and_then(|simds| u32::try_from(simds / per_unit).ok())
        .filter(|units| *units > 0);
    gpu.render_minor = get("drm_render_minor")
        .and_then(|minor| u32::try_from(minor).ok())
        .filter(|minor| *minor > 0);
    gpu.unique_id = get("unique_id")
        .filter(|id| *id != 0)
        .map(|id| format!("GPU-{id:016x}"));
    found.unique_id_zero = get("unique_id") == Some(0);
    // Only a whole listing shows that a line is missing.
    gpu.cwsr_sizes_exported = if get("cwsr_size").is_some() && get("ctl_stack_size").is_some() {
        Some(true)
    } else {
        get("max_slots_scratch_cu")
            .or(get("num_cp_queues"))
            .or(get("location_id"))
            .map(|_| false)
    };
    gpu.firmware = ["fw_version", "sdma_fw_version"]
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), get(key)?.to_string())))
        .collect();
    found.clock_mhz = get("max_engine_clk_fcompute")
        .and_then(|clock| u32::try_from(clock).ok())
        .filter(|clock| *clock > 0);
    found.gpu.pool_bytes = pool(reader, node);
    Some(found)
}

/// The one pool that ROCm allocates from: on a processor's graphics either its carve-out or main memory, never both.
fn pool(reader: &Reader<'_>, node: u32) -> Option<u64> {
    let banks = format!("{NODES}/{node}/mem_banks");
    let sizes = reader.names(&banks).into_iter().filter_map(|bank| {
        let path = format!("{banks}/{bank}/properties");
        let text = reader.text(&path)?;
        let bank = properties(&text);
        let heap = bank.get("heap_type").copied();
        heap.is_none_or(|heap| CARD_HEAPS.contains(&heap))
            .then(|| bank.get("size_in_bytes").copied())?
    });
    sizes.filter(|size| *size > 0).max()
}

fn properties(text: &str) -> HashMap<&str, u64> {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.split_once(' ')?;
            Some((key, value.trim().parse().ok()?))
        })
        .collect()
}

/// `gfx1100` from 110000, `gfx90a` from 90010: minor and step are hexadecimal digits.
pub(crate) fn target_name(version: u64) -> Option<String> {
    let (major, minor, step) = (version / 10_000, version / 100 % 100, version % 100);
    ((6..100).contains(&major) && minor < 16 && step < 16).then(|| format!("gfx{major}{minor:x}{step:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;
    use proptest::prelude::*;

    #[test]
    fn versions_become_targets() {
        for (version, name) in [
            (90_010, "gfx90a"),
            (90_012, "gfx90c"),
            (100_100, "gfx1010"),
            (100_303, "gfx1033"),
            (100_306, "gfx1036"),
            (110_000, "gfx1100"),
            (110_501, "gfx1151"),
            (120_001, "gfx1201"),
        ] {
            assert_eq!(target_name(version).as_deref(), Some(name));
        }
        for odd in [0, 1, 110_099, 111_600, u64::MAX] {
            assert_eq!(target_name(odd), None, "{odd}");
        }
    }

    fn node(properties: &str) -> Option<Found> {
        let folder = tree(&[("sys/class/kfd/kfd/topology/nodes/10/properties", properties)]);
        let reader = Reader::new(folder.path());
        kfd(&reader).0.cards.pop()
    }

    #[test]
    fn a_node_tells_address_units_and_target() {
        let found = node(
            "simd_count 24\nsimd_per_cu 2\narray_count 2\ncu_per_simd_array 8\ngfx_target_version 110500\n\
             vendor_id 4098\ndevice_id 5390\nlocation_id 49408\ndomain 0\ndrm_render_minor 129\nunique_id 0\n",
        )
        .unwrap();
        assert_eq!(found.gpu.pci.as_deref(), Some("0000:c1:00.0"));
        assert_eq!(found.gpu.compute_units, Some(12), "not 2 arrays x 8");
        assert_eq!(found.gpu.device_id.as_deref(), Some("0x150e"));
        assert_eq!(
            (found.gpu.render_minor, found.gpu.kfd_node),
            (Some(129), Some(10))
        );
        assert!(found.unique_id_zero && found.gpu.unique_id.is_none());
        assert_eq!(found.gpu.cwsr_sizes_exported, Some(false));
    }

    #[test]
    fn processors_and_other_makers_are_no_cards() {
        assert!(node("cpu_cores_count 16\nsimd_count 0\nvendor_id 4098\ngfx_target_version 0\n").is_none());
        assert!(node("simd_count 128\nvendor_id 4318\ngfx_target_version 110000\n").is_none());
        assert!(node("").is_none());
    }

    #[test]
    fn the_second_node_follows_the_first_and_the_tenth_the_ninth() {
        let card = |device: u32| format!("simd_count 2\ngfx_target_version 110000\ndevice_id {device}\n");
        let folder = tree(&[
            ("sys/class/kfd/kfd/topology/nodes/10/properties", &card(10)),
            ("sys/class/kfd/kfd/topology/nodes/9/properties", &card(9)),
        ]);
        let cards = kfd(&Reader::new(folder.path())).0.cards;
        assert_eq!(
            cards.iter().map(|card| card.gpu.kfd_node).collect::<Vec<_>>(),
            [Some(9), Some(10)]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*|([a-z_]{1,20} [0-9]{1,22}\n){0,10}") {
            let _ = node(&text);
        }

        #[test]
        fn any_numbers_are_survived(values in proptest::collection::vec(any::<u64>(), 7)) {
            let keys = [
                "simd_count", "simd_per_cu", "gfx_target_version", "device_id", "location_id", "domain", "unique_id",
            ];
            let lines: Vec<String> =
                keys.iter().zip(&values).map(|(key, value)| format!("{key} {value}")).collect();
            let _ = node(&format!("vendor_id 4098\n{}\n", lines.join("\n")));
        }
    }
}
