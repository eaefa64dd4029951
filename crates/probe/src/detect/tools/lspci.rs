//! `lspci`, with or without numbers (`-nn`, `-n`), the kernel's driver (`-k`) and the capabilities (`-vvv`).

use super::super::found::{Found, hex_id, hex_revision, pci_address};
use crate::GpuVendor;

/// Words by which lspci names the classes of displays.
const CLASSES: [&str; 4] = [
    "VGA compatible controller",
    "Display controller",
    "3D controller",
    "XGA compatible controller",
];

pub(crate) fn lspci(text: &str) -> Vec<Found> {
    let mut cards: Vec<Found> = Vec::new();
    let mut largest_region: Option<u64> = None;
    let mut inside = false;
    let finish = |cards: &mut Vec<Found>, region: &mut Option<u64>| {
        if let (Some(card), Some(region)) = (cards.last_mut(), region.take()) {
            card.gpu.visible_vram_bytes = card.gpu.visible_vram_bytes.or(Some(region));
        }
    };
    for line in text.lines() {
        if line.starts_with(|char: char| char.is_ascii_hexdigit()) {
            finish(&mut cards, &mut largest_region);
            let card = header(line);
            inside = card.is_some();
            cards.extend(card);
        } else if inside && line.starts_with(char::is_whitespace) {
            if let Some(card) = cards.last_mut() {
                detail(card, line.trim(), &mut largest_region);
            }
        } else {
            inside = false;
        }
    }
    finish(&mut cards, &mut largest_region);
    cards
}

/// `03:00.0 VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon …] [1002:744c] (rev c8)`
/// or `03:00.0 0300: 1002:744c (rev c8)`.
fn header(line: &str) -> Option<Found> {
    let (address, rest) = line.split_once(' ')?;
    let address = pci_address(address)?;
    let (class, rest) = rest.split_once(": ")?;
    let by_number = class.trim_matches('"');
    let number = class
        .rsplit_once('[')
        .map_or(by_number, |(_, number)| number.trim_end_matches(']'));
    let display = (number.len() == 4 && number.starts_with("03") && u16::from_str_radix(number, 16).is_ok())
        || CLASSES.iter().any(|name| class.starts_with(name));
    if !display {
        return None;
    }
    let (name, revision) = match rest.rsplit_once("(rev ") {
        Some((name, revision)) => (
            name.trim(),
            u32::from_str_radix(revision.split(')').next()?, 16).ok(),
        ),
        None => (rest.trim(), None),
    };
    let name = name.split(" (prog-if").next().unwrap_or(name).trim();
    let ids = ids(name);
    let vendor = match ids {
        Some((0x1002, _)) => GpuVendor::Amd,
        Some((0x10de, _)) => GpuVendor::Nvidia,
        Some(_) => return None,
        None => vendor_of_name(name)?,
    };
    let mut found = Found::of(vendor);
    found.gpu.pci = Some(address);
    found.gpu.device_id = ids.map(|(_, device)| hex_id(device.into()));
    found.gpu.revision = revision.filter(|revision| *revision <= 0xff).map(hex_revision);
    found.chip_name = chip_name(name);
    Some(found)
}

fn vendor_of_name(name: &str) -> Option<GpuVendor> {
    if name.contains("[AMD/ATI]") || name.starts_with("Advanced Micro Devices") {
        Some(GpuVendor::Amd)
    } else {
        name.starts_with("NVIDIA").then_some(GpuVendor::Nvidia)
    }
}

/// The numbers in the last `[1002:744c]`, or at the beginning with `-n`.
fn ids(name: &str) -> Option<(u16, u16)> {
    let pair = |text: &str| {
        let (vendor, device) = text.split_once(':')?;
        let hex = |text: &str| {
            (text.len() == 4)
                .then(|| u16::from_str_radix(text, 16).ok())
                .flatten()
        };
        Some((hex(vendor)?, hex(device)?))
    };
    name.rsplit('[')
        .find_map(|part| pair(part.split(']').next()?))
        .or_else(|| pair(name.split(' ').next()?))
}

/// `Navi 31 [Radeon RX 7900 XT/7900 XTX]` without maker and numbers; `None` for `Device 1586`.
fn chip_name(name: &str) -> Option<String> {
    let name = name
        .rsplit_once('[')
        .filter(|(_, ids)| ids.contains(':'))
        .map_or(name, |(name, _)| name)
        .trim();
    let name = ["Advanced Micro Devices, Inc. [AMD/ATI] ", "NVIDIA Corporation "]
        .iter()
        .find_map(|maker| name.strip_prefix(maker))
        .unwrap_or(name);
    let known = !name.is_empty() && !name.starts_with("Device") && !name.contains(':');
    known.then(|| name.to_owned())
}

fn detail(card: &mut Found, line: &str, largest_region: &mut Option<u64>) {
    let gpu = &mut card.gpu;
    if let Some(driver) = line.strip_prefix("Kernel driver in use:") {
        gpu.driver = Some(driver.trim().to_owned());
        gpu.driver_bound = Some(true);
    } else if line.starts_with("Kernel modules:") && gpu.driver.is_none() {
        // With `-k` the driver's line comes first, so that none is there.
        gpu.driver_bound = Some(false);
    } else if let Some(subsystem) = line.strip_prefix("Subsystem:") {
        gpu.subsystem = gpu
            .subsystem
            .take()
            .or_else(|| ids(subsystem).map(|(maker, model)| format!("{maker:04x}:{model:04x}")));
    } else if line.starts_with("Region ") && line.contains(", prefetchable") {
        *largest_region = (*largest_region).max(line.split("[size=").nth(1).and_then(size));
    } else if let Some(link) = line.strip_prefix("LnkCap:") {
        let known = gpu.link.get_or_insert_default();
        (known.max_speed_gt_per_sec, known.max_width) = speed_and_width(link);
    } else if let Some(link) = line.strip_prefix("LnkSta:") {
        let known = gpu.link.get_or_insert_default();
        (known.speed_gt_per_sec, known.width) = speed_and_width(link);
    }
}

/// Bytes of `16G]`.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|char: char| !char.is_ascii_digit())?;
    let shift = match text[digits..].chars().next()? {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        _ => 0,
    };
    let number: u64 = text[..digits].parse().ok()?;
    (number < 1 << 20).then(|| number << shift)
}

fn speed_and_width(link: &str) -> (Option<f64>, Option<u32>) {
    let after = |key: &str| link.split(key).nth(1);
    let speed = after("Speed ").and_then(|text| text.split("GT/s").next()?.trim().parse().ok());
    let width = after("Width x").and_then(|text| {
        let digits = text
            .find(|char: char| !char.is_ascii_digit())
            .unwrap_or(text.len());
        text[..digits].parse().ok()
    });
    (speed, width.filter(|width| (1..=32).contains(width)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_strix_halo_is_no_vga_controller_and_old_lists_lack_its_name() {
        let cards = lspci(
            "c6:00.0 Display controller [0380]: Advanced Micro Devices, Inc. [AMD/ATI] Device [1002:1586] (rev c1)\n\
             c6:00.1 Audio device [0403]: Advanced Micro Devices, Inc. [AMD/ATI] Device [1002:1640]\n\
             00:02.0 VGA compatible controller [0300]: Intel Corporation Raptor Lake [8086:a780] (rev 04)\n",
        );
        assert_eq!(cards.len(), 1);
        let gpu = &cards[0].gpu;
        assert_eq!(gpu.pci.as_deref(), Some("0000:c6:00.0"));
        assert_eq!(
            (gpu.device_id.as_deref(), gpu.revision.as_deref()),
            (Some("0x1586"), Some("0xc1"))
        );
        assert_eq!(cards[0].chip_name, None);
    }

    #[test]
    fn numbers_alone_are_enough_and_words_alone_tell_the_maker() {
        let numbers = lspci("0000:03:00.0 0300: 1002:744c (rev c8)\n");
        assert_eq!(numbers[0].gpu.device_id.as_deref(), Some("0x744c"));
        let words = lspci(
            "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon RX 7900 XT/7900 XTX] (rev c8)\n",
        );
        assert_eq!(
            (words[0].gpu.vendor, words[0].gpu.device_id.as_deref()),
            (Some(GpuVendor::Amd), None)
        );
        assert_eq!(
            words[0].chip_name.as_deref(),
            Some("Navi 31 [Radeon RX 7900 XT/7900 XTX]")
        );
    }

    #[test]
    fn the_long_form_tells_driver_link_and_window() {
        let cards = lspci(
            "03:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA106M [GeForce RTX 3060 Mobile / Max-Q] [10de:2520] (rev a1) (prog-if 00 [VGA controller])\n\
             \tSubsystem: Hewlett-Packard Company Device [103c:88d1]\n\
             \tRegion 0: Memory at fb000000 (32-bit, non-prefetchable) [size=16M]\n\
             \tRegion 1: Memory at 7800000000 (64-bit, prefetchable) [size=8G]\n\
             \t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1\n\
             \t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)\n\
             \tKernel driver in use: nouveau\n\tKernel modules: nouveau\n",
        );
        let gpu = &cards[0].gpu;
        assert_eq!(
            (gpu.driver.as_deref(), gpu.driver_bound),
            (Some("nouveau"), Some(true))
        );
        assert_eq!(gpu.visible_vram_bytes, Some(8 << 30));
        assert_eq!(gpu.subsystem.as_deref(), Some("103c:88d1"));
        let link = gpu.link.as_ref().unwrap();
        assert_eq!((link.speed_gt_per_sec, link.width), (Some(2.5), Some(8)));
        assert_eq!(
            (link.max_speed_gt_per_sec, link.max_width),
            (Some(16.0), Some(16))
        );
        assert_eq!(gpu.device_id.as_deref(), Some("0x2520"));
        assert_eq!(gpu.revision.as_deref(), Some("0xa1"));
    }

    #[test]
    fn a_card_without_driver_is_told() {
        let cards = lspci(
            "03:00.0 VGA compatible controller [0300]: X [1002:744c] (rev c8)\n\tKernel modules: amdgpu\n",
        );
        assert_eq!(
            (cards[0].gpu.driver.as_deref(), cards[0].gpu.driver_bound),
            (None, Some(false))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*") {
            let _ = lspci(&text);
            let _ = lspci(&format!("03:00.0 Display controller [0380]: {text}\n\tRegion 0: , prefetchable [size={text}\n\tLnkSta: Speed {text}, Width x{text}\n"));
        }
    }
}
