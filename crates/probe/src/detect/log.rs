//! Lines of the kernel's log that speak of the cards: resets, faults, a driver that would not start.

use super::reader::{Reader, clean};

/// Words of the drivers' lines.
const WORDS: [&str; 12] = [
    "amdgpu", "kfd", "[drm", "drm:", "nvrm", "nvidia", "nouveau", "ttm", "vfio-pci", "gfxhub", "mmhub", "gpu",
];
/// The newest lines are kept.
const MAX_LINES: usize = 2000;
const TAIL_BYTES: usize = 1024 * 1024;
/// Where distributions keep the kernel's log, newest first.
const FILES: [&str; 3] = ["var/log/kern.log", "var/log/dmesg", "var/log/messages"];

/// The log of the machine, or what a capture's files hold of it; `files` are those at its top that look like one.
pub(crate) fn kernel_log(reader: &Reader<'_>, files: &[String]) -> Option<Vec<String>> {
    let live = if reader.live() { live_lines() } else { None };
    let lines = live.or_else(|| {
        let stored = FILES.iter().map(|path| (*path).to_owned());
        files
            .iter()
            .cloned()
            .chain(stored)
            .find_map(|path| lines_of(reader, &path))
    })?;
    let speaks = |line: &String| {
        let line = line.to_lowercase();
        WORDS.iter().any(|word| line.contains(word))
    };
    let mut lines: Vec<String> = lines.into_iter().filter(speaks).collect();
    lines.drain(..lines.len().saturating_sub(MAX_LINES));
    Some(lines)
}

fn lines_of(reader: &Reader<'_>, path: &str) -> Option<Vec<String>> {
    let bytes = reader.tail(path, TAIL_BYTES)?;
    let text = clean(&String::from_utf8_lossy(&bytes));
    Some(text.lines().map(str::to_owned).collect())
}

/// The kernel's ring buffer, where the system lets everybody read it.
#[cfg(target_os = "linux")]
fn live_lines() -> Option<Vec<String>> {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let mut buffer = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.try_into().ok()?)
        .open("/dev/kmsg")
        .ok()?;
    let mut record = vec![0_u8; 8192];
    let mut lines = Vec::new();
    // A read gives one record; after the last one it would block. The ring holds a few thousand.
    for _ in 0..20_000 {
        match buffer.read(&mut record) {
            Ok(0) => break,
            Ok(length) => lines.extend(record_line(&String::from_utf8_lossy(&record[..length]))),
            // The oldest record was overwritten in between; the next read goes on behind it.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(_) => return None,
        }
    }
    Some(lines)
}

#[cfg(not(target_os = "linux"))]
fn live_lines() -> Option<Vec<String>> {
    None
}

/// `6,339,5140900,-;message`, the third number in microseconds, as `[    5.140900] message`.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn record_line(record: &str) -> Option<String> {
    let (head, message) = record.split_once(';')?;
    let micros: u64 = head.split(',').nth(2)?.parse().ok()?;
    let message = clean(message.lines().next()?);
    Some(format!(
        "[{:5}.{:06}] {message}",
        micros / 1_000_000,
        micros % 1_000_000
    ))
}

/// Whether a file is a kernel's log: most of its first lines begin with a time in brackets or name the kernel.
pub(crate) fn looks_like_log(text: &str) -> bool {
    let first: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .take(20)
        .collect();
    let of_log = first
        .iter()
        .filter(|line| stamped(line) || line.contains(" kernel: "))
        .count();
    of_log > 0 && of_log * 2 > first.len()
}

/// `[   12.345678] …`, with or without a level before it.
fn stamped(line: &str) -> bool {
    let Some((_, rest)) = line.split_once('[').filter(|(before, _)| before.len() < 8) else {
        return false;
    };
    let Some((time, _)) = rest.split_once(']') else {
        return false;
    };
    let Some((seconds, fraction)) = time.trim().split_once('.') else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(seconds) && digits(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    const LOG: &str = "[    0.000000] Linux version 6.18.4\n[    5.140900] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n[    6.0] usb 1-1: new device\n";

    #[test]
    fn the_log_of_a_capture_is_read_though_it_begins_with_a_bracket() {
        let machine = crate::testing::TestMachine::linux().kernel_log(LOG);
        let lines = machine.detect().kernel_log.unwrap();
        assert_eq!(
            lines,
            ["[    5.140900] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!"]
        );
    }

    #[test]
    fn a_log_is_known_by_its_lines_and_cut_to_the_cards() {
        assert!(looks_like_log(LOG));
        assert!(looks_like_log("Nov 30 12:00:01 host kernel: amdgpu: x\n"));
        assert!(!looks_like_log(
            "03:00.0 VGA compatible controller [0300]: X [1002:744c]\n"
        ));
        assert!(!looks_like_log(""));
        let folder = tree(&[("some.txt", LOG)]);
        let lines = kernel_log(&Reader::new(folder.path()), &["some.txt".to_owned()]).unwrap();
        assert_eq!(
            lines,
            ["[    5.140900] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!"]
        );
        assert_eq!(kernel_log(&Reader::new(folder.path()), &[]), None);
    }

    #[test]
    fn records_of_the_ring_buffer_get_their_time() {
        let line = record_line("6,339,5140900,-;amdgpu: \u{1b}x\n SUBSYSTEM=pci\n").unwrap();
        assert_eq!(line, "[    5.140900] amdgpu: \u{fffd}x");
        assert_eq!(record_line("nonsense"), None);
    }
}
