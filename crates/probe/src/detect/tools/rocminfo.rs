//! `rocminfo`: what ROCm's runtime sees. Its target is the one that an override makes, its chip id is the truth.

use super::super::found::{Found, hex_id, pci_address};
use crate::GpuVendor;

#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) cards: Vec<Found>,
    /// Main memory in bytes: the pool of the processor's agent.
    pub(crate) memory_bytes: Option<u64>,
}

/// A whole listing. Versions differ in what they print: nothing but an agent's name and type is needed.
pub(crate) fn full(text: &str) -> Listing {
    let mut listing = Listing::default();
    for agent in text.split("\nAgent ").skip(1) {
        let lines: Vec<(&str, &str)> = agent.lines().filter_map(pair).collect();
        let get = |key: &str| {
            lines
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| *value)
        };
        let pool = pool(&lines);
        match get("Device Type") {
            Some("CPU") => listing.memory_bytes = listing.memory_bytes.max(pool),
            Some("GPU") => {
                let mut found = Found::of(GpuVendor::Amd);
                found.tool_gfx = get("Name").and_then(target);
                let gpu = &mut found.gpu;
                gpu.name = get("Marketing Name")
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned);
                gpu.device_id = get("Chip ID")
                    .and_then(leading_number)
                    .filter(|id| (1..=0xffff).contains(id))
                    .map(|id| hex_id(id as u32));
                gpu.pci = get("BDFID").and_then(leading_number).and_then(|location| {
                    let domain = get("Domain").and_then(leading_number).unwrap_or(0);
                    let (bus, device, function) = (location >> 8, (location >> 3) & 31, location & 7);
                    (location > 0)
                        .then(|| pci_address(&format!("{domain:x}:{bus:x}:{device:x}.{function}")))?
                });
                gpu.compute_units = get("Compute Unit")
                    .and_then(leading_number)
                    .and_then(|units| u32::try_from(units).ok())
                    .filter(|units| *units > 0);
                gpu.kfd_node = get("Node")
                    .and_then(leading_number)
                    .and_then(|node| u32::try_from(node).ok());
                gpu.uuid = None;
                gpu.unique_id = get("Uuid")
                    .filter(|id| {
                        id.strip_prefix("GPU-").is_some_and(|hex| {
                            hex.len() == 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
                        })
                    })
                    .map(str::to_owned);
                if get("Memory Properties") == Some("APU") {
                    gpu.integrated = Some(true);
                }
                gpu.pool_bytes = pool;
                found.clock_mhz = get("Max Clock Freq. (MHz)")
                    .and_then(leading_number)
                    .and_then(|clock| u32::try_from(clock).ok())
                    .filter(|clock| *clock > 0);
                listing.cards.push(found);
            }
            _ => {}
        }
    }
    listing
}

fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    Some((key.trim(), value.trim().trim_start_matches(':').trim()))
}

/// The largest global pool, in bytes. The 64 KiB of local memory are a pool too, in the segment `GROUP`.
fn pool(lines: &[(&str, &str)]) -> Option<u64> {
    let mut global = false;
    let mut largest = None;
    for (key, value) in lines {
        match *key {
            "Segment" => global = value.starts_with("GLOBAL"),
            "Size" if global => {
                let bytes = value
                    .ends_with("KB")
                    .then(|| leading_number(value)?.checked_mul(1024))
                    .flatten();
                largest = largest.max(bytes);
            }
            _ => {}
        }
    }
    largest.filter(|bytes| *bytes > 0)
}

/// 29772 of `29772(0x744c)`.
fn leading_number(text: &str) -> Option<u64> {
    let digits = text
        .find(|char: char| !char.is_ascii_digit())
        .unwrap_or(text.len());
    text[..digits].parse().ok()
}

/// `gfx1100`, without features behind a colon.
pub(crate) fn target(text: &str) -> Option<String> {
    let name = text.trim().split(':').next()?;
    let digits = name.strip_prefix("gfx")?;
    let valid = (3..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| name.to_ascii_lowercase())
}

/// The lines that people filter out of a listing: names of agents, with the marketing name beside or below.
pub(crate) fn summary(text: &str) -> Vec<Found> {
    if !text.contains("Marketing Name:") {
        return Vec::new();
    }
    let mut cards: Vec<Found> = Vec::new();
    let mut agent: Option<Found> = None;
    for line in text.lines() {
        let (before, marketing) = match line.split_once("Marketing Name:") {
            Some((before, after)) => (before, Some(after.trim())),
            None => (line, None),
        };
        if let Some((_, name)) = before.split_once("Name:") {
            // An agent's own name begins an agent; the name of its instruction set (amdgcn-…) does not.
            cards.extend(agent.take());
            agent = target(name).map(|gfx| {
                let mut found = Found::of(GpuVendor::Amd);
                found.tool_gfx = Some(gfx);
                found
            });
        }
        if let (Some(found), Some(name)) = (&mut agent, marketing) {
            found.gpu.name = Some(name.to_owned()).filter(|name| !name.is_empty());
        }
    }
    cards.extend(agent);
    cards
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AGENTS: &str = "ROCk module is loaded\n==========\nHSA Agents\n==========\n*******\nAgent 1\n*******\n  \
        Name:                    AMD Ryzen\n  Device Type:             CPU\n  Pool Info:\n    Pool 1\n      \
        Segment:                 GLOBAL; FLAGS: FINE GRAINED\n      Size:                    1000(0x3e8) KB\n\
        *******\nAgent 2\n*******\n  Name:                    gfx1100\n  Uuid:                    GPU-XX\n  \
        Marketing Name:          AMD Radeon RX 7600 XT\n  Node:                    1\n  \
        Device Type:             GPU\n  Chip ID:                 29824(0x7480)\n  BDFID:                   768\n  \
        Compute Unit:            32\n  Memory Properties:\n  Pool Info:\n    Pool 1\n      \
        Segment:                 GLOBAL; FLAGS:\n      Size:                    8372224(0x7fc000) KB\n    Pool 3\n      \
        Segment:                 GROUP\n      Size:                    99999999(0x40) KB\n  ISA Info:\n    ISA 1\n      \
        Name:                    amdgcn-amd-amdhsa--gfx1100\n*** Done ***\n";

    #[test]
    fn an_agent_is_read() {
        let listing = full(AGENTS);
        assert_eq!(listing.memory_bytes, Some(1000 * 1024));
        let [found] = listing.cards.as_slice() else {
            panic!()
        };
        assert_eq!(found.tool_gfx.as_deref(), Some("gfx1100"));
        assert_eq!(found.gpu.gfx, None, "a tool's target is not the card's");
        assert_eq!(found.gpu.device_id.as_deref(), Some("0x7480"));
        assert_eq!(found.gpu.pci.as_deref(), Some("0000:03:00.0"));
        assert_eq!(
            (found.gpu.compute_units, found.gpu.pool_bytes),
            (Some(32), Some(8_573_157_376))
        );
        assert_eq!(found.gpu.unique_id, None);
    }

    #[test]
    fn filtered_lines_are_read() {
        let one_line = summary(
            "Name: gfx1100  Marketing Name: Radeon RX 7900 XTX\nName: gfx1036  Marketing Name: AMD Radeon Graphics\n",
        );
        assert_eq!(one_line.len(), 2);
        assert_eq!(one_line[0].gpu.name.as_deref(), Some("Radeon RX 7900 XTX"));
        let lines = "  Name:                    AMD Ryzen 7\n  Marketing Name:          AMD Ryzen 7\n  Name:                    gfx1151\n  \
            Marketing Name:          AMD Radeon Graphics\n      Name:                    amdgcn-amd-amdhsa--gfx1151\n";
        let found = summary(lines);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].tool_gfx.as_deref(), Some("gfx1151"));
        assert!(summary("Name: somebody\n").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*", cut in 0..AGENTS.len()) {
            let _ = (full(&text), summary(&text));
            let _ = full(&AGENTS[..cut]);
            let _ = full(&format!("\nAgent 1\n Device Type: GPU\n BDFID: {text}\n Size: {text} KB\n"));
        }
    }
}
