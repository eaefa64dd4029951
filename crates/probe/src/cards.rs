//! The card table: which product a PCI device and revision is, and what it can do by its vendor's figures.
//!
//! The kernel tells a device and its memory, and neither a product's name nor its clocks. The table is data
//! (`assets/knowledge/cards.toml`), so that a new card needs no new program. It answers only where what is known
//! leaves one product: a device without its revision is often four of them.

use serde::Deserialize;
use toml::Spanned;

use crate::GpuVendor;

const BUILT_IN: &str = include_str!("../../../assets/knowledge/cards.toml");
const GIB: f64 = 1_073_741_824.0;

/// Cards, what PCI devices alone say, and the rates of architectures.
#[derive(Clone, Debug, PartialEq)]
pub struct CardTable {
    cards: Vec<Card>,
    devices: Vec<KnownDevice>,
    families: Vec<Family>,
}

/// A mistake in a card table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}, key `{key}`: {message}")]
pub struct CardsError {
    /// The file's name as the caller gave it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The key that is wrong, or the table's name where a whole row is.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
}

/// A product.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Who made the chip.
    pub vendor: GpuVendor,
    /// PCI devices, with their revision where that tells products apart.
    pub ids: Vec<CardId>,
    /// Product name without the vendor's, e.g. `Radeon RX 7900 XTX`.
    pub name: String,
    /// [`Family::id`].
    pub family: String,
    /// AMD: target, e.g. `gfx1100`.
    pub gfx: Option<String>,
    /// NVIDIA: e.g. `8.6`.
    pub compute_capability: Option<String>,
    /// AMD: compute units.
    pub compute_units: Option<u32>,
    /// NVIDIA: streaming multiprocessors.
    pub multiprocessors: Option<u32>,
    /// Memory in GiB as sold, several where one name has several; empty for graphics that share main memory.
    #[serde(default)]
    pub vram_gb: Vec<u32>,
    /// The vendor's boost clock in MHz.
    pub boost_mhz: Option<u32>,
    /// Memory bandwidth in 10⁹ bytes per second.
    pub bandwidth_gb_per_sec: Option<f64>,
    /// Part of a processor.
    #[serde(default)]
    pub integrated: bool,
    /// A laptop's part, whose clocks follow the laptop's power limit.
    #[serde(default)]
    pub laptop: bool,
    /// When this was true, `YYYY-MM-DD`.
    pub as_of: String,
    /// Where it was read.
    pub source: String,
    /// Keys whose value was not read in a source.
    #[serde(default)]
    pub unverified: Vec<String>,
}

/// A PCI device, with or without its revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CardId {
    /// PCI device.
    pub device: u16,
    /// PCI revision; `None` covers all of them.
    pub revision: Option<u8>,
}

impl TryFrom<String> for CardId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (device, revision) = match text.split_once(':') {
            Some((device, revision)) => (device, Some(revision)),
            None => (text.as_str(), None),
        };
        let id = || {
            let device = (device.len() == 4).then(|| u16::from_str_radix(device, 16).ok())??;
            let revision = match revision {
                Some(text) => Some((text.len() == 2).then(|| u8::from_str_radix(text, 16).ok())??),
                None => None,
            };
            Some(CardId { device, revision })
        };
        id().ok_or_else(|| format!("`{text}` is no PCI device such as `744c` or `744c:c8`"))
    }
}

/// What a PCI device alone says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDevice {
    /// Who made the chip.
    pub vendor: GpuVendor,
    /// PCI devices.
    #[serde(default)]
    pub ids: Vec<CardId>,
    /// First and last PCI device of a chip family, in place of `ids`.
    pub range: Option<[CardId; 2]>,
    /// What to call it when nothing better is known.
    pub name: String,
    /// AMD: target.
    pub gfx: Option<String>,
    /// NVIDIA: compute capability.
    pub compute_capability: Option<String>,
    /// Part of a processor.
    #[serde(default)]
    pub integrated: bool,
    /// When this was true, `YYYY-MM-DD`.
    pub as_of: String,
    /// Where it was read.
    pub source: String,
    /// Keys whose value was not read in a source.
    #[serde(default)]
    pub unverified: Vec<String>,
}

/// The multiply-and-add rates of an architecture, dense.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// e.g. `rdna3`.
    pub id: String,
    /// Who made it.
    pub vendor: GpuVendor,
    /// What the rates are per.
    pub unit: Unit,
    /// AMD: the targets of the family.
    #[serde(default)]
    pub gfx: Vec<String>,
    /// Operations per unit and clock in fp16 with fp32 accumulation (RDNA1 and 2: packed vectors).
    pub fp16_flop_per_clock: Option<u32>,
    /// The same in bf16; `None` where the chip has none of its own.
    pub bf16_flop_per_clock: Option<u32>,
    /// When this was true, `YYYY-MM-DD`.
    pub as_of: String,
    /// Where it was read.
    pub source: String,
    /// Keys whose value was not read in a source.
    #[serde(default)]
    pub unverified: Vec<String>,
}

/// What a rate is per.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// AMD's compute unit.
    ComputeUnit,
    /// NVIDIA's streaming multiprocessor.
    Multiprocessor,
}

/// What is known of a card when its product is sought. `Default` knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct CardFacts<'a> {
    /// Who made it.
    pub vendor: Option<GpuVendor>,
    /// PCI device.
    pub device: Option<u16>,
    /// PCI revision.
    pub revision: Option<u8>,
    /// The true target.
    pub gfx: Option<&'a str>,
    /// Compute units.
    pub compute_units: Option<u32>,
    /// The card's own memory in bytes.
    pub vram_bytes: Option<u64>,
    /// The name that a driver gives it.
    pub name: Option<&'a str>,
}

/// What the table says of a PCI device whatever its revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// A name for the chip, or for the product where the device has only one.
    pub name: Option<String>,
    /// AMD: target.
    pub gfx: Option<String>,
    /// NVIDIA: compute capability.
    pub compute_capability: Option<String>,
    /// Part of a processor.
    pub integrated: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    family: Vec<Spanned<Family>>,
    #[serde(default)]
    card: Vec<Spanned<Card>>,
    #[serde(default)]
    device: Vec<Spanned<KnownDevice>>,
}

impl CardTable {
    /// The table that came with the program.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn built_in() -> Self {
        Self::parse("cards.toml", BUILT_IN).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads a table; `file_name` is for messages.
    ///
    /// # Errors
    /// The first mistake, with its file, line and key.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, CardsError> {
        let error_at = |offset: usize, key: Option<&str>, message: &str| CardsError {
            file: file_name.to_owned(),
            line: text[..offset].matches('\n').count() + 1,
            key: key.map_or_else(|| key_at(text, offset), str::to_owned),
            message: message.to_owned(),
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start.min(text.len()));
            let offset = (0..=offset)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            error_at(offset, missing_field(error.message()), error.message())
        })?;
        let mut table = CardTable {
            cards: Vec::new(),
            devices: Vec::new(),
            families: Vec::new(),
        };
        for row in file.family {
            let offset = row.span().start;
            let row = row.into_inner();
            check_origin(&row.as_of, &row.source).map_err(|(key, why)| error_at(offset, Some(key), why))?;
            table.families.push(row);
        }
        for row in file.card {
            let offset = row.span().start;
            let card = row.into_inner();
            table
                .check_card(&card)
                .map_err(|(key, why)| error_at(offset, Some(key), &why))?;
            table.cards.push(card);
        }
        for row in file.device {
            let offset = row.span().start;
            let row = row.into_inner();
            check_origin(&row.as_of, &row.source).map_err(|(key, why)| error_at(offset, Some(key), why))?;
            if row.ids.is_empty() == row.range.is_none() {
                return Err(error_at(
                    offset,
                    Some("ids"),
                    "a device row has either `ids` or `range`",
                ));
            }
            table.devices.push(row);
        }
        Ok(table)
    }

    fn check_card(&self, card: &Card) -> Result<(), (&'static str, String)> {
        check_origin(&card.as_of, &card.source).map_err(|(key, why)| (key, why.to_owned()))?;
        if card.ids.is_empty() {
            return Err(("ids", "a card has at least one PCI device".to_owned()));
        }
        if self
            .family(&card.family)
            .is_none_or(|family| family.vendor != card.vendor)
        {
            return Err((
                "family",
                format!("`{}` is no family of this vendor in this file", card.family),
            ));
        }
        let missing = match card.vendor {
            GpuVendor::Amd if card.gfx.is_none() => Some("gfx"),
            GpuVendor::Amd if card.compute_units.is_none() => Some("compute_units"),
            GpuVendor::Nvidia if card.compute_capability.is_none() => Some("compute_capability"),
            GpuVendor::Nvidia if card.multiprocessors.is_none() => Some("multiprocessors"),
            _ if !card.integrated && card.vram_gb.is_empty() => Some("vram_gb"),
            _ => None,
        };
        if let Some(key) = missing {
            return Err((key, "it is missing".to_owned()));
        }
        let twice = |id: &&CardId| {
            id.revision.is_some()
                && self
                    .cards
                    .iter()
                    .any(|other| other.vendor == card.vendor && other.ids.contains(id))
        };
        match card.ids.iter().find(twice) {
            Some(id) => Err((
                "ids",
                format!(
                    "device {:04x} with this revision is in an earlier row too",
                    id.device
                ),
            )),
            None => Ok(()),
        }
    }

    /// All products.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// All architectures.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The architecture with this id.
    pub fn family(&self, id: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.id == id)
    }

    /// The architecture of an AMD target.
    pub fn family_of_gfx(&self, gfx: &str) -> Option<&Family> {
        self.families
            .iter()
            .find(|family| family.gfx.iter().any(|of| of == gfx))
    }

    /// The product, where what is known leaves exactly one.
    ///
    /// Without the revision a device that has revisions in the table is only taken with another fact that agrees
    /// (compute units, memory or name), for the table does not know every product. Without the device it takes the
    /// name, or target, compute units and memory together.
    pub fn card(&self, facts: &CardFacts<'_>) -> Option<&Card> {
        let agreeing: Vec<&Card> = self.cards.iter().filter(|card| card.agrees(facts)).collect();
        let named: Vec<&Card> = agreeing
            .iter()
            .filter(|card| card.has_name(facts.name))
            .copied()
            .collect();
        let card = match (named.as_slice(), agreeing.as_slice()) {
            ([card], _) | ([], [card]) => *card,
            _ => return None,
        };
        let corroborated = facts.compute_units.is_some() || (facts.vram_bytes.is_some() && !card.integrated);
        let whole_devices = card.ids.iter().all(|id| id.revision.is_none());
        let determined = !named.is_empty()
            || match facts.device {
                Some(_) => facts.revision.is_some() || whole_devices || corroborated,
                None => {
                    facts.gfx.is_some()
                        && (whole_devices || (facts.compute_units.is_some() && facts.vram_bytes.is_some()))
                }
            };
        determined.then_some(card)
    }

    /// What a PCI device says whatever its revision.
    pub fn device(&self, vendor: GpuVendor, device: u16) -> DeviceFacts {
        let of_vendor = |row: &&KnownDevice| row.vendor == vendor;
        let rows = || self.devices.iter().filter(of_vendor);
        let exact = rows().find(|row| row.ids.iter().any(|id| id.device == device));
        let has_device =
            |card: &&Card| card.vendor == vendor && card.ids.iter().any(|id| id.device == device);
        let cards: Vec<&Card> = self.cards.iter().filter(has_device).collect();
        if let (None, [first, rest @ ..]) = (exact, cards.as_slice()) {
            let same = |other: &&Card| other.gfx == first.gfx && other.integrated == first.integrated;
            if rest.iter().all(same) {
                return DeviceFacts {
                    name: rest.is_empty().then(|| first.name.clone()),
                    gfx: first.gfx.clone(),
                    compute_capability: first.compute_capability.clone(),
                    integrated: Some(first.integrated),
                };
            }
        }
        let within = |row: &&KnownDevice| {
            row.range
                .is_some_and(|[first, last]| (first.device..=last.device).contains(&device))
        };
        exact
            .or_else(|| rows().find(within))
            .map_or_else(DeviceFacts::default, |row| DeviceFacts {
                name: Some(row.name.clone()),
                gfx: row.gfx.clone(),
                compute_capability: row.compute_capability.clone(),
                integrated: Some(row.integrated),
            })
    }

    /// Whether an AMD target is the graphics of a processor; `None` for a target that the table lacks.
    pub fn integrated_gfx(&self, gfx: &str) -> Option<bool> {
        let of_cards = self
            .cards
            .iter()
            .filter(|card| card.gfx.as_deref() == Some(gfx))
            .map(|card| card.integrated);
        let of_devices = self
            .devices
            .iter()
            .filter(|device| device.gfx.as_deref() == Some(gfx))
            .map(|device| device.integrated);
        let mut all = of_cards.chain(of_devices);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }
}

impl Card {
    /// The PCI device, where the product has only one.
    pub fn only_device(&self) -> Option<u16> {
        let first = self.ids.first()?.device;
        self.ids.iter().all(|id| id.device == first).then_some(first)
    }

    fn agrees(&self, facts: &CardFacts<'_>) -> bool {
        let same_id = |device: u16| {
            self.ids.iter().any(|id| {
                id.device == device
                    && match (id.revision, facts.revision) {
                        (Some(of_card), Some(seen)) => of_card == seen,
                        _ => true,
                    }
            })
        };
        facts.vendor.is_none_or(|vendor| vendor == self.vendor)
            && facts.device.is_none_or(same_id)
            && facts.gfx.is_none_or(|gfx| self.gfx.as_deref() == Some(gfx))
            && facts
                .compute_units
                .is_none_or(|units| self.compute_units == Some(units))
            && (self.integrated || facts.vram_bytes.is_none_or(|bytes| self.has_memory(bytes)))
    }

    /// "16 GB" is 15.9 to 16 GiB in what drivers print.
    fn has_memory(&self, bytes: u64) -> bool {
        let gib = bytes as f64 / GIB;
        self.vram_gb
            .iter()
            .any(|sold| (gib / f64::from(*sold) - 1.0).abs() < 0.04)
    }

    fn has_name(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| product(name) == product(&self.name))
    }
}

/// A name without the words that some tools write and others leave out.
pub(crate) fn product(name: &str) -> String {
    const FILLERS: [&str; 6] = ["amd", "nvidia", "radeon", "geforce", "graphics", "ati"];
    let name = name.to_lowercase().replace("(tm)", "").replace("(r)", "");
    let words = name.split_whitespace().filter(|word| !FILLERS.contains(word));
    words.collect::<Vec<_>>().join(" ")
}

fn check_origin(as_of: &str, source: &str) -> Result<(), (&'static str, &'static str)> {
    let date = as_of.len() == 10
        && as_of.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !date {
        return Err(("as_of", "it is no date such as 2026-11-30"));
    }
    if source.trim().is_empty() {
        return Err(("source", "every row says where it was read"));
    }
    Ok(())
}

/// The key on the line of an offset, or the table that begins there.
fn key_at(text: &str, offset: usize) -> String {
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let key = line.split('=').next().unwrap_or_default();
    key.trim().trim_matches(['[', ']']).to_owned()
}

/// The field that serde names as missing.
fn missing_field(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.split('`').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"
[[family]]
id = "rdna3"
vendor = "amd"
unit = "compute_unit"
fp16_flop_per_clock = 512
as_of = "2026-11-30"
source = "a test"

[[card]]
vendor = "amd"
ids = ["744c:c8"]
name = "Radeon RX 7900 XTX"
family = "rdna3"
gfx = "gfx1100"
compute_units = 96
vram_gb = [24]
boost_mhz = 2500
as_of = "2026-11-30"
source = "a test"
"#;

    fn amd<'a>(device: u16) -> CardFacts<'a> {
        CardFacts {
            vendor: Some(GpuVendor::Amd),
            device: Some(device),
            ..CardFacts::default()
        }
    }

    fn name(facts: &CardFacts<'_>) -> Option<String> {
        CardTable::built_in().card(facts).map(|card| card.name.clone())
    }

    #[test]
    fn device_and_revision_name_the_product() {
        assert_eq!(
            name(&CardFacts {
                revision: Some(0xc8),
                ..amd(0x744c)
            })
            .unwrap(),
            "Radeon RX 7900 XTX"
        );
        assert_eq!(
            name(&CardFacts {
                revision: Some(0xcc),
                ..amd(0x744c)
            })
            .unwrap(),
            "Radeon RX 7900 XT"
        );
        assert_eq!(
            name(&CardFacts {
                revision: Some(0x99),
                ..amd(0x744c)
            }),
            None,
            "a revision that nobody knows"
        );
        assert_eq!(
            name(&CardFacts {
                revision: Some(0xc6),
                ..amd(0x13c0)
            })
            .unwrap(),
            "Radeon Graphics (Raphael, Granite Ridge)",
            "a row without revisions covers all of them"
        );
    }

    #[test]
    fn a_device_alone_is_not_a_product() {
        assert_eq!(name(&amd(0x744c)), None);
        assert_eq!(
            name(&amd(0x7551)),
            None,
            "the table has one of them, the vendor may have more"
        );
        assert_eq!(
            name(&CardFacts {
                vendor: Some(GpuVendor::Nvidia),
                device: Some(0x2704),
                ..CardFacts::default()
            })
            .unwrap(),
            "GeForce RTX 4080"
        );
    }

    #[test]
    fn units_and_memory_stand_in_for_the_revision() {
        let with_units = CardFacts {
            compute_units: Some(96),
            ..amd(0x744c)
        };
        assert_eq!(name(&with_units).unwrap(), "Radeon RX 7900 XTX");
        let sixteen = CardFacts {
            vram_bytes: Some(17_163_091_968),
            ..amd(0x7480)
        };
        assert_eq!(name(&sixteen).unwrap(), "Radeon RX 7600 XT");
        let wrong = CardFacts {
            compute_units: Some(97),
            ..amd(0x744c)
        };
        assert_eq!(name(&wrong), None);
    }

    #[test]
    fn without_a_device_target_units_and_memory_must_agree() {
        let facts = CardFacts {
            vendor: Some(GpuVendor::Amd),
            gfx: Some("gfx1201"),
            compute_units: Some(64),
            ..CardFacts::default()
        };
        assert_eq!(name(&facts), None, "a 9070 XT or an R9700");
        let facts = CardFacts {
            vram_bytes: Some(34_208_743_424),
            ..facts
        };
        assert_eq!(name(&facts).unwrap(), "Radeon AI PRO R9700");
        let table = CardTable::built_in();
        assert_eq!(table.card(&facts).unwrap().only_device(), Some(0x7551));
        let raphael = CardFacts {
            gfx: Some("gfx1036"),
            ..CardFacts::default()
        };
        assert_eq!(table.card(&raphael).unwrap().compute_units, Some(2));
        assert_eq!(table.card(&raphael).unwrap().only_device(), None);
    }

    #[test]
    fn names_are_compared_without_the_words_that_tools_leave_out() {
        let named = |name| CardFacts {
            vendor: Some(GpuVendor::Nvidia),
            name: Some(name),
            ..CardFacts::default()
        };
        let table = CardTable::built_in();
        let only = |facts: CardFacts<'_>| table.card(&facts).and_then(Card::only_device);
        assert_eq!(only(named("NVIDIA GeForce RTX 3090")), Some(0x2204));
        assert_eq!(only(named("NVIDIA GeForce RTX 3090 Laptop GPU")), None);
        assert_eq!(
            only(named("NVIDIA GeForce RTX 4070 ...")),
            None,
            "cut short by a table"
        );
        let ten = CardFacts {
            vram_bytes: Some(10 << 30),
            ..named("NVIDIA GeForce RTX 3080")
        };
        assert_eq!(table.card(&ten).unwrap().multiprocessors, Some(68));
    }

    #[test]
    fn a_device_tells_its_target_and_whether_it_is_integrated() {
        let table = CardTable::built_in();
        let gfx = |device| {
            let facts = table.device(GpuVendor::Amd, device);
            (facts.gfx.unwrap_or_default(), facts.integrated.unwrap())
        };
        for (device, target, integrated) in [
            (0x744c, "gfx1100", false),
            (0x7480, "gfx1102", false),
            (0x7550, "gfx1201", false),
            (0x7590, "gfx1200", false),
            (0x73df, "gfx1031", false),
            (0x731f, "gfx1010", false),
            (0x7340, "gfx1012", false),
            (0x66af, "gfx906", false),
            (0x67df, "gfx803", false),
            (0x1586, "gfx1151", true),
            (0x150e, "gfx1150", true),
            (0x15bf, "gfx1103", true),
            (0x164e, "gfx1036", true),
            (0x13c0, "gfx1036", true),
            (0x163f, "gfx1033", true),
            (0x1638, "gfx90c", true),
        ] {
            assert_eq!(gfx(device), (target.to_owned(), integrated), "{device:04x}");
        }
        assert_eq!(table.device(GpuVendor::Amd, 0x0001), DeviceFacts::default());
        assert_eq!(table.integrated_gfx("gfx1151"), Some(true));
        assert_eq!(table.integrated_gfx("gfx1100"), Some(false));
        assert_eq!(table.integrated_gfx("gfx9999"), None);
    }

    #[test]
    fn every_geforce_since_maxwell_has_a_compute_capability() {
        let table = CardTable::built_in();
        let capability = |device| table.device(GpuVendor::Nvidia, device).compute_capability;
        for (device, expected) in [
            (0x1b80, "6.1"),
            (0x1b06, "6.1"),
            (0x1d81, "7.0"),
            (0x2204, "8.6"),
            (0x2520, "8.6"),
            (0x2684, "8.9"),
            (0x2820, "8.9"),
            (0x2b85, "12.0"),
            (0x2c18, "12.0"),
        ] {
            assert_eq!(capability(device).as_deref(), Some(expected), "{device:04x}");
        }
        assert_eq!(capability(0x0dc4), None, "older than the table");
    }

    #[test]
    fn every_row_of_the_built_in_table_is_whole() {
        let table = CardTable::built_in();
        assert!(table.cards().len() > 90);
        for card in table.cards() {
            assert!(card.boost_mhz.is_some(), "{}", card.name);
            assert!(
                card.integrated || card.bandwidth_gb_per_sec.is_some(),
                "{}",
                card.name
            );
            for key in &card.unverified {
                let keys = [
                    "compute_units",
                    "multiprocessors",
                    "vram_gb",
                    "boost_mhz",
                    "bandwidth_gb_per_sec",
                ];
                assert!(keys.contains(&key.as_str()), "{}: {key}", card.name);
            }
            if let Some(gfx) = &card.gfx {
                assert_eq!(
                    table.family_of_gfx(gfx).map(|family| &family.id),
                    Some(&card.family),
                    "{}",
                    card.name
                );
            }
        }
    }

    /// The vendors' published peaks, in TFLOP/s, which the three columns must reproduce (detection.md section 8).
    #[test]
    fn the_rows_reproduce_the_published_peaks() {
        let table = CardTable::built_in();
        for (name, published) in [
            ("Radeon RX 7900 XTX", 122.9),
            ("Radeon RX 6950 XT", 47.3),
            ("Radeon RX 6700 XT", 26.4),
            ("Radeon RX 9070 XT", 194.6),
            ("Radeon 8060S", 59.4),
            ("Radeon 780M", 16.6),
            ("GeForce RTX 3090", 71.2),
            ("GeForce RTX 4090", 165.2),
            ("GeForce RTX 5090", 209.5),
        ] {
            let card = table.cards().iter().find(|card| card.name == name).unwrap();
            let rate = table.family(&card.family).unwrap().fp16_flop_per_clock.unwrap();
            let units = card.compute_units.or(card.multiprocessors).unwrap();
            let tflops = f64::from(units) * f64::from(rate) * f64::from(card.boost_mhz.unwrap()) / 1e6;
            assert!((tflops - published).abs() < 0.06, "{name}: {tflops}");
        }
    }

    #[test]
    fn a_mistake_names_file_line_and_key() {
        let error = |from: &str, to: &str| {
            assert!(ROW.contains(from));
            let error = CardTable::parse("mine.toml", &ROW.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.file, "mine.toml");
            (error.line, error.key)
        };
        CardTable::parse("mine.toml", ROW).unwrap();
        assert_eq!(
            error("compute_units = 96", "compute_units = \"many\""),
            (16, "compute_units".to_owned())
        );
        assert_eq!(error("744c:c8", "744c:x"), (12, "ids".to_owned()));
        assert_eq!(error("boost_mhz", "boost_hz"), (18, "boost_hz".to_owned()));
        assert_eq!(
            error("name = \"Radeon RX 7900 XTX\"\n", ""),
            (10, "name".to_owned())
        );
        assert_eq!(
            error("family = \"rdna3\"", "family = \"rdna9\""),
            (10, "family".to_owned())
        );
        assert_eq!(
            error("boost_mhz = 2500\nas_of = \"2026-11-30\"", "as_of = \"soon\""),
            (10, "as_of".to_owned())
        );
        assert_eq!(error("[[card]]", "[[card]").0, 10);
        let twice = format!("{ROW}{}", &ROW[ROW.find("[[card]]").unwrap()..]);
        assert_eq!(CardTable::parse("mine.toml", &twice).unwrap_err().key, "ids");
    }
}
