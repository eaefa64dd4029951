//! What one source says of a card, and how the sources are put together.
//!
//! The key is the PCI address. A source that has none (a part of a capture, WSL) is joined by device id, and where it
//! has not even that by name, target or because it speaks of the only card. Sources come best first: what an earlier
//! one said stays, and a later one that contradicts it is noted.

use super::reader::Reader;
use crate::cards::product;
use crate::{GfxSource, Gpu, GpuVendor};

/// A card as one source, or all sources so far, show it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) gpu: Gpu,
    /// The target that a tool names: the work of an override, perhaps.
    pub(crate) tool_gfx: Option<String>,
    /// The driver's limit of the clock, in MHz.
    pub(crate) clock_mhz: Option<u32>,
    /// A name for the chip, not the product.
    pub(crate) chip_name: Option<String>,
    /// Tools on RDNA count work-group processors, two compute units each.
    pub(crate) workgroup_processors: Option<u32>,
    /// KFD's unique id is zero, as it is for the graphics of a processor.
    pub(crate) unique_id_zero: bool,
}

impl Found {
    pub(crate) fn of(vendor: GpuVendor) -> Self {
        Self {
            gpu: Gpu {
                vendor: Some(vendor),
                ..Gpu::default()
            },
            ..Self::default()
        }
    }

    pub(crate) fn device(&self) -> Option<u16> {
        parse_hex(self.gpu.device_id.as_deref()?)
    }

    pub(crate) fn revision(&self) -> Option<u8> {
        parse_hex(self.gpu.revision.as_deref()?).and_then(|revision| revision.try_into().ok())
    }
}

fn parse_hex(text: &str) -> Option<u16> {
    u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// All that one source says.
pub(crate) struct Source {
    /// The file, for notes.
    pub(crate) path: String,
    /// Whether the cards are in ROCm's order, which is that of the KFD nodes.
    pub(crate) in_rocm_order: bool,
    pub(crate) cards: Vec<Found>,
}

impl Source {
    pub(crate) fn new(path: &str, cards: Vec<Found>) -> Self {
        Self {
            path: path.to_owned(),
            in_rocm_order: false,
            cards,
        }
    }

    pub(crate) fn in_rocm_order(self) -> Self {
        Self {
            in_rocm_order: true,
            ..self
        }
    }
}

/// The cards so far.
#[derive(Default)]
pub(crate) struct Merged {
    pub(crate) cards: Vec<Found>,
}

impl Merged {
    pub(crate) fn add(&mut self, reader: &Reader<'_>, source: &Source) {
        let known = self.cards.len();
        let mut taken = vec![false; known];
        for at in 0..source.cards.len() {
            let new = &source.cards[at];
            let partner = self.partner(source, at, &taken);
            match partner {
                Some(partner) => {
                    taken[partner] = true;
                    join(&mut self.cards[partner], new, reader, &source.path);
                }
                None => self.cards.push(new.clone()),
            }
        }
    }

    /// The card that the source's card is, if it is known already.
    fn partner(&self, source: &Source, at: usize, taken: &[bool]) -> Option<usize> {
        let new = &source.cards[at];
        let known = &self.cards[..taken.len()];
        let find = |same: &dyn Fn(&Found) -> bool| (0..known.len()).find(|n| !taken[*n] && same(&known[*n]));
        if let Some(pci) = &new.gpu.pci {
            // Two listings of one source may name a card twice.
            if let Some(same) = self
                .cards
                .iter()
                .position(|card| card.gpu.pci.as_ref() == Some(pci))
            {
                return (same < taken.len()).then_some(same);
            }
        }
        let joinable = |card: &Found| {
            (card.gpu.pci.is_none() || new.gpu.pci.is_none())
                && card.gpu.vendor == new.gpu.vendor
                && differ(card.gpu.device_id.as_ref(), new.gpu.device_id.as_ref()).is_none()
                && differ(card.gpu.revision.as_ref(), new.gpu.revision.as_ref()).is_none()
        };
        let same_some = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        if let Some(same) = find(&|card| same_some(&card.gpu.uuid, &new.gpu.uuid)) {
            return Some(same);
        }
        if let Some(same) = find(&|card| joinable(card) && same_some(&card.gpu.device_id, &new.gpu.device_id))
        {
            return Some(same);
        }
        // From here on one of the two has no device id.
        let named = |card: &Found| match (&card.gpu.name, &new.gpu.name) {
            (Some(a), Some(b)) => !product(a).is_empty() && product(a) == product(b),
            _ => false,
        };
        if let Some(same) = find(&|card| joinable(card) && named(card)) {
            return Some(same);
        }
        if source.in_rocm_order {
            let nodes: Vec<usize> = (0..known.len())
                .filter(|n| known[*n].gpu.kfd_node.is_some())
                .collect();
            if nodes.len() == source.cards.len() && joinable(&known[nodes[at]]) && !taken[nodes[at]] {
                return Some(nodes[at]);
            }
        }
        if let Some(gfx) = &new.tool_gfx {
            let same = |card: &Found| joinable(card) && (card.gpu.gfx.as_ref() == Some(gfx));
            if let Some(same) = find(&same) {
                return Some(same);
            }
        }
        let of_vendor = |cards: &[Found]| {
            cards
                .iter()
                .filter(|card| card.gpu.vendor == new.gpu.vendor)
                .count()
        };
        if of_vendor(known) == 1 && of_vendor(&source.cards) == 1 {
            return find(&joinable);
        }
        None
    }
}

/// Two values, where both are known and differ.
fn differ<'a, T: PartialEq>(a: Option<&'a T>, b: Option<&'a T>) -> Option<(&'a T, &'a T)> {
    a.zip(b).filter(|(a, b)| a != b)
}

fn join(into: &mut Found, from: &Found, reader: &Reader<'_>, path: &str) {
    let name = into
        .gpu
        .pci
        .clone()
        .or_else(|| into.gpu.device_id.clone())
        .unwrap_or_else(|| "a card".to_owned());
    let contradiction = |what: &str, kept: &dyn std::fmt::Display, said: &dyn std::fmt::Display| {
        reader.note(
            path,
            format!("it says {what} {said} of {name}, while a better source says {kept}"),
        );
    };
    {
        let (a, b) = (&into.gpu, &from.gpu);
        if let Some((kept, said)) = differ(a.device_id.as_ref(), b.device_id.as_ref()) {
            contradiction("device", kept, said);
        }
        if let Some((kept, said)) = differ(a.revision.as_ref(), b.revision.as_ref()) {
            contradiction("revision", kept, said);
        }
        if let Some((kept, said)) = differ(a.compute_units.as_ref(), b.compute_units.as_ref()) {
            contradiction("compute units", kept, said);
        }
        if let Some((kept, said)) = differ(a.integrated.as_ref(), b.integrated.as_ref()) {
            contradiction("integrated", kept, said);
        }
        if let Some((kept, said)) = differ(a.vram_bytes.as_ref(), b.vram_bytes.as_ref()) {
            // Drivers and tools round and reserve differently.
            if kept.abs_diff(*said) as f64 > 0.02 * *kept as f64 {
                contradiction("memory in bytes", kept, said);
            }
        }
        if let (Some((kept, said)), true) = (
            differ(a.gfx.as_ref(), b.gfx.as_ref()),
            a.gfx_source <= Some(GfxSource::IpDiscovery),
        ) {
            contradiction("target", kept, said);
        }
    }
    let better_gfx = match (into.gpu.gfx_source, from.gpu.gfx_source) {
        (Some(old), Some(new)) => new < old,
        (None, Some(_)) => true,
        (_, None) => false,
    };
    if better_gfx {
        into.gpu.gfx.clone_from(&from.gpu.gfx);
        into.gpu.gfx_source = from.gpu.gfx_source;
    }
    macro_rules! fill {
        ($($field:ident),*) => { $(if into.gpu.$field.is_none() { into.gpu.$field.clone_from(&from.gpu.$field); })* };
    }
    fill!(
        vendor,
        pci,
        device_id,
        revision,
        subsystem,
        name,
        reported_gfx,
        compute_capability,
        integrated,
        compute_units,
        multiprocessors,
        vram_bytes,
        vram_used_bytes,
        visible_vram_bytes,
        gtt_bytes,
        gtt_used_bytes,
        pool_bytes,
        resizable_bar,
        link,
        driver_version,
        kfd_node,
        render_minor,
        drm_card,
        cwsr_sizes_exported,
        runtime_status,
        power_limit_watts,
        uuid,
        unique_id,
        driver,
        driver_bound
    );
    if into.gpu.firmware.is_empty() {
        into.gpu.firmware.clone_from(&from.gpu.firmware);
    }
    into.gpu.kfd_forbidden |= from.gpu.kfd_forbidden;
    into.gpu.basic_display_driver |= from.gpu.basic_display_driver;
    into.unique_id_zero |= from.unique_id_zero;
    into.tool_gfx = into.tool_gfx.take().or_else(|| from.tool_gfx.clone());
    into.clock_mhz = into.clock_mhz.or(from.clock_mhz);
    into.chip_name = into.chip_name.take().or_else(|| from.chip_name.clone());
    into.workgroup_processors = into.workgroup_processors.or(from.workgroup_processors);
}

/// A PCI address in the form `0000:03:00.0`, from `00000000:03:00.0` or `03:00.0` too.
pub(crate) fn pci_address(text: &str) -> Option<String> {
    let text = text.trim();
    let (rest, function) = text.rsplit_once('.')?;
    let mut parts: Vec<&str> = rest.split(':').collect();
    if parts.len() == 2 {
        parts.insert(0, "0");
    }
    let [domain, bus, device] = parts.as_slice() else {
        return None;
    };
    let hex = |text: &str, longest: usize| {
        (1..=longest)
            .contains(&text.len())
            .then(|| u32::from_str_radix(text, 16).ok())
            .flatten()
    };
    let (domain, bus, device, function) = (hex(domain, 8)?, hex(bus, 2)?, hex(device, 2)?, hex(function, 1)?);
    (device < 32 && function < 8).then(|| format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}

/// `0x744c`.
pub(crate) fn hex_id(id: u32) -> String {
    format!("0x{id:04x}")
}

/// `0xc8`.
pub(crate) fn hex_revision(revision: u32) -> String {
    format!("0x{revision:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn card(pci: Option<&str>, device: Option<&str>, vram: Option<u64>) -> Found {
        let mut found = Found::of(GpuVendor::Amd);
        found.gpu.pci = pci.map(str::to_owned);
        found.gpu.device_id = device.map(str::to_owned);
        found.gpu.vram_bytes = vram;
        found
    }

    fn merged(sources: Vec<Vec<Found>>) -> (Vec<Found>, usize) {
        let reader = Reader::new(Path::new("nowhere"));
        let mut merged = Merged::default();
        for cards in sources {
            merged.add(&reader, &Source::new("a", cards));
        }
        (merged.cards, reader.into_notes().len())
    }

    #[test]
    fn addresses_are_brought_to_one_form() {
        for text in ["03:00.0", "0000:03:00.0", "00000000:03:00.0", " 0000:03:00.0\n"] {
            assert_eq!(pci_address(text).as_deref(), Some("0000:03:00.0"), "{text}");
        }
        assert_eq!(pci_address("00000000:2D:00.0").as_deref(), Some("0000:2d:00.0"));
        assert_eq!(pci_address("10000:e1:00.0").as_deref(), Some("10000:e1:00.0"));
        assert_eq!(pci_address("c3:0.0").as_deref(), Some("0000:c3:00.0"));
        for odd in [
            "",
            "03",
            "03:00",
            "xx:00.0",
            "03:20.0",
            "03:00.9",
            "1:2:3:4.5",
            "03:00.0x",
        ] {
            assert_eq!(pci_address(odd), None, "{odd}");
        }
    }

    #[test]
    fn twins_are_joined_by_address() {
        let twin = |pci, vram| card(Some(pci), Some("0x744c"), vram);
        let (cards, notes) = merged(vec![
            vec![twin("0000:03:00.0", None), twin("0000:0d:00.0", None)],
            vec![twin("0000:0d:00.0", Some(2)), twin("0000:03:00.0", Some(1))],
        ]);
        assert_eq!(
            cards.iter().map(|card| card.gpu.vram_bytes).collect::<Vec<_>>(),
            [Some(1), Some(2)]
        );
        assert_eq!(notes, 0);
    }

    #[test]
    fn a_card_without_address_is_joined_by_device() {
        let (cards, _) = merged(vec![
            vec![
                card(Some("0000:03:00.0"), Some("0x744c"), None),
                card(Some("0000:13:00.0"), Some("0x164e"), None),
            ],
            vec![
                card(None, Some("0x164e"), Some(5)),
                card(None, Some("0x744c"), Some(9)),
            ],
        ]);
        assert_eq!(cards.len(), 2);
        assert_eq!(cards[0].gpu.vram_bytes, Some(9));
    }

    #[test]
    fn another_address_is_another_card_even_of_the_same_device() {
        let (cards, _) = merged(vec![
            vec![card(Some("0000:03:00.0"), Some("0x744c"), None)],
            vec![card(Some("0000:04:00.0"), Some("0x744c"), None)],
        ]);
        assert_eq!(cards.len(), 2);
    }

    #[test]
    fn a_contradiction_is_noted_and_the_better_source_stays() {
        let (cards, notes) = merged(vec![
            vec![card(Some("0000:03:00.0"), Some("0x744c"), Some(100))],
            vec![card(Some("0000:03:00.0"), Some("0x7480"), Some(50))],
        ]);
        assert_eq!(cards.len(), 1);
        assert_eq!(cards[0].gpu.device_id.as_deref(), Some("0x744c"));
        assert_eq!((cards[0].gpu.vram_bytes, notes), (Some(100), 2));
    }
}
