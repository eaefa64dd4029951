//! What the kernel's log says of a card: resets, timeouts, faults, refusals. The doctor asks it of the live log, and
//! it works on any lines of dmesg or of the journal.

use serde::{Deserialize, Serialize};

use super::scan::quote;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelEvent {
    /// A reset of the card began, or succeeded. What ran on it is lost.
    GpuReset,
    /// A reset failed: the card is gone until a reboot.
    GpuResetFailed,
    /// Work on a ring did not end in time.
    RingTimeout,
    /// The scheduler's firmware did not answer.
    MesFailure,
    /// A kernel on the card touched an address that is not mapped.
    GpuPageFault,
    /// KFD leaves a card out, because its slot passes no atomics.
    AtomicsRejected,
    /// A parameter of amdgpu or ttm is misspelt.
    UnknownParameter,
    /// Secure Boot refused a module.
    KeyRejected,
    /// A firmware file is missing.
    FirmwareMissing,
    /// The driver could not start a card.
    InitFailed,
    /// The kernel ended a process, because main memory was full.
    OutOfMemoryKill,
    /// No page was free for an allocation.
    PageAllocationFailure,
    /// NVIDIA's driver reports a fault by its number.
    NvidiaXid,
    /// The card no longer answers on its slot.
    DeviceLost,
    /// The processor sees a small window of the card's memory: Resizable BAR is not in use.
    SmallBar,
}

impl KernelEvent {
    /// The fault of `faults.toml` that explains it.
    pub fn fault_id(self) -> &'static str {
        match self {
            Self::GpuReset | Self::GpuResetFailed | Self::RingTimeout | Self::MesFailure => "gpu-reset",
            Self::GpuPageFault => "gpu-page-fault",
            Self::AtomicsRejected => "pcie-atomics",
            Self::UnknownParameter => "amdgpu-unknown-parameter",
            Self::KeyRejected => "module-key-rejected",
            Self::FirmwareMissing => "firmware-missing",
            Self::InitFailed => "amdgpu-not-loaded",
            Self::OutOfMemoryKill => "killed-by-the-kernel",
            Self::PageAllocationFailure => "page-allocation-failure",
            Self::NvidiaXid | Self::DeviceLost => "nvidia-xid",
            Self::SmallBar => "small-bar",
        }
    }
}

/// Something that the kernel's log says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelFinding {
    /// What happened.
    pub event: KernelEvent,
    /// Index of the line among those that were passed in.
    pub index: usize,
    /// The line, without control characters, shortened.
    pub text: String,
    /// Seconds since boot, where the line has dmesg's time.
    pub seconds: Option<f64>,
    /// PCI address of the card, where the line names it.
    pub pci: Option<String>,
    /// What it concerns: the ring, the parameter, the process, the module, the number of an Xid, the window's size.
    pub detail: Option<String>,
}

/// What the lines say, in their order. A line gives at most one finding.
pub fn findings(lines: &[String]) -> Vec<KernelFinding> {
    let finding = |(index, line): (usize, &String)| {
        let text = quote(line.as_bytes());
        let (event, detail) = event(&text)?;
        Some(KernelFinding {
            event,
            index,
            seconds: seconds(&text),
            pci: pci(&text),
            detail,
            text,
        })
    };
    lines.iter().enumerate().filter_map(finding).collect()
}

fn event(line: &str) -> Option<(KernelEvent, Option<String>)> {
    let lower = line.to_ascii_lowercase();
    let has = |text: &str| lower.contains(text);
    let graphics = has("amdgpu") || has("kfd") || has("drm") || has("[gfxhub") || has("[mmhub");
    let found = if has("rejects atomics") {
        (KernelEvent::AtomicsRejected, device_id(line))
    } else if has("key was rejected by service") || has("required key not available") {
        (KernelEvent::KeyRejected, between(line, "insert '", "'"))
    } else if has("unknown parameter") && (has("amdgpu") || has("ttm")) {
        (
            KernelEvent::UnknownParameter,
            between(line, "unknown parameter '", "'"),
        )
    } else if has("out of memory: kill") || has("memory cgroup out of memory") {
        (KernelEvent::OutOfMemoryKill, between(line, "(", ")"))
    } else if has("page allocation failure") {
        (
            KernelEvent::PageAllocationFailure,
            process_before(line, ": page allocation failure"),
        )
    } else if has("nvrm: xid") {
        (KernelEvent::NvidiaXid, between(line, "): ", ","))
    } else if has("fallen off the bus") || (graphics && has("device lost from bus")) {
        (KernelEvent::DeviceLost, None)
    } else if graphics && has("gpu reset") && has("failed") {
        (KernelEvent::GpuResetFailed, None)
    } else if graphics
        && (has("gpu reset begin")
            || has("gpu reset(") && has("succeeded")
            || has("vram is lost due to gpu reset"))
    {
        (KernelEvent::GpuReset, None)
    } else if has("timeout")
        && word_after(&lower, "ring ")
            .is_some_and(|ring| is_ring(&ring) && has(&format!("ring {ring} timeout")))
    {
        (KernelEvent::RingTimeout, word_after(line, "ring "))
    } else if has("mes") && (has("failed to respond") || has("failed to response") || has("mes failed")) {
        (KernelEvent::MesFailure, word_after(line, "msg="))
    } else if graphics && has("page fault") || has("vm_l2_protection_fault_status") && !has(":0x00000000") {
        (
            KernelEvent::GpuPageFault,
            between(line, "process ", " pid").map(|name| name.trim().to_owned()),
        )
    } else if graphics
        && has("firmware")
        && (has("failed to load") || has("direct firmware load for") && has("failed"))
    {
        (
            KernelEvent::FirmwareMissing,
            line.split_whitespace()
                .find(|word| word.contains(".bin"))
                .map(trimmed),
        )
    } else if has("amdgpu")
        && (has("fatal error during gpu init") || has("probe of") && has("failed with error"))
    {
        (KernelEvent::InitFailed, None)
    } else if let Some(detail) = small_bar(line) {
        (KernelEvent::SmallBar, Some(detail))
    } else {
        return None;
    };
    Some(found)
}

/// Whether this is the name of one of the card's rings: other drivers have rings too.
fn is_ring(name: &str) -> bool {
    const KINDS: [&str; 10] = [
        "gfx", "comp", "sdma", "vcn", "jpeg", "mes", "kiq", "page", "uvd", "vce",
    ];
    KINDS.iter().any(|kind| name.starts_with(kind))
}

/// `Detected VRAM RAM=16368M, BAR=256M`: a window that is smaller than the memory. The graphics of processors has a
/// small memory and a window of the same size.
fn small_bar(line: &str) -> Option<String> {
    let megabytes = |start| between(line, start, "M")?.parse::<u64>().ok();
    let (memory, window) = (megabytes("VRAM RAM=")?, megabytes("BAR=")?);
    (window < memory / 2).then(|| format!("{window} MiB of {memory} MiB"))
}

fn between(line: &str, start: &str, end: &str) -> Option<String> {
    let (_, rest) = line.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found.to_owned())
}

fn word_after(line: &str, start: &str) -> Option<String> {
    let (_, rest) = line.split_once(start)?;
    rest.split_whitespace().next().map(trimmed)
}

fn process_before(line: &str, end: &str) -> Option<String> {
    let (before, _) = line.split_once(end)?;
    before.split_whitespace().last().map(trimmed)
}

fn trimmed(word: &str) -> String {
    word.trim_matches([',', ':', ';', '\'', '"', '(', ')']).to_owned()
}

/// `skipped device 1002:67df`.
fn device_id(line: &str) -> Option<String> {
    word_after(line, "device ").filter(|id| id.contains(':'))
}

/// The time that dmesg puts in brackets before a line.
fn seconds(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once('[')?;
    let (time, _) = rest.split_once(']')?;
    let is_time = time.contains('.')
        && time
            .trim()
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_time.then(|| time.trim().parse().ok()).flatten()
}

/// The first word of the form `0000:03:00.0`.
fn pci(line: &str) -> Option<String> {
    let words = line.split(|c: char| c.is_whitespace() || "[](),".contains(c));
    let whole = words.map(|word| word.strip_prefix("PCI:").unwrap_or(word).trim_end_matches(':'));
    whole.filter(|word| is_pci(word)).map(str::to_lowercase).next()
}

/// With or without the function, which NVIDIA's lines leave out.
fn is_pci(word: &str) -> bool {
    let hex = |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = word.split(':').collect();
    let [domain, bus, rest] = parts.as_slice() else {
        return false;
    };
    let (slot, function) = rest.split_once('.').unwrap_or((rest, "0"));
    hex(domain, 4) && hex(bus, 2) && hex(slot, 2) && hex(function, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Faults;

    fn only(line: &str) -> KernelFinding {
        let mut found = findings(&[line.to_owned()]);
        assert_eq!(found.len(), 1, "{line}");
        found.remove(0)
    }

    #[test]
    fn each_event_is_told_with_what_it_concerns() {
        use KernelEvent as E;
        let cases = [
            (
                "[  812.4] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
                E::RingTimeout,
                Some("gfx_0.0.0"),
            ),
            (
                "[  812.5] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!",
                E::GpuReset,
                None,
            ),
            (
                "[  812.9] amdgpu 0000:03:00.0: amdgpu: GPU reset(2) succeeded!",
                E::GpuReset,
                None,
            ),
            (
                "[  812.9] amdgpu 0000:03:00.0: amdgpu: GPU reset(3) failed",
                E::GpuResetFailed,
                None,
            ),
            (
                "[drm:mes_v11_0_submit_pkt_and_poll_completion [amdgpu]] *ERROR* MES failed to response msg=3",
                E::MesFailure,
                Some("3"),
            ),
            (
                "kernel: amdgpu 0000:c4:00.0: amdgpu: MES(0) failed to respond to msg=REMOVE_QUEUE",
                E::MesFailure,
                Some("REMOVE_QUEUE"),
            ),
            (
                "amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)",
                E::GpuPageFault,
                None,
            ),
            (
                "kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0",
                E::AtomicsRejected,
                Some("1002:67df"),
            ),
            (
                "amdgpu: unknown parameter 'gtt_size' ignored",
                E::UnknownParameter,
                Some("gtt_size"),
            ),
            (
                "modprobe: ERROR: could not insert 'amdgpu': Key was rejected by service",
                E::KeyRejected,
                Some("amdgpu"),
            ),
            (
                "[99.0] Out of memory: Killed process 4242 (python3) total-vm:123kB",
                E::OutOfMemoryKill,
                Some("python3"),
            ),
            (
                "[12.0] NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus.",
                E::NvidiaXid,
                Some("79"),
            ),
            (
                "[77.1] python3: page allocation failure: order:0, mode:0x40dc0",
                E::PageAllocationFailure,
                Some("python3"),
            ),
            (
                "[drm] Detected VRAM RAM=16368M, BAR=256M",
                E::SmallBar,
                Some("256 MiB of 16368 MiB"),
            ),
            (
                "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/gc_12_0_1_me.bin failed with error -2",
                E::FirmwareMissing,
                Some("amdgpu/gc_12_0_1_me.bin"),
            ),
            (
                "amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init",
                E::InitFailed,
                None,
            ),
        ];
        for (line, event, detail) in cases {
            let found = only(line);
            assert_eq!((found.event, found.detail.as_deref()), (event, detail), "{line}");
        }
    }

    #[test]
    fn time_and_card_are_read_from_the_line() {
        let found = only("[  812.412345] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!");
        assert_eq!(found.seconds, Some(812.412_345));
        assert_eq!(found.pci.as_deref(), Some("0000:03:00.0"));
        let found = only("Nov 30 12:00:01 box kernel: NVRM: Xid (PCI:0000:01:00): 31, pid=77, name=python");
        assert_eq!(found.seconds, None);
        assert_eq!(found.pci.as_deref(), Some("0000:01:00"));
    }

    #[test]
    fn a_healthy_boot_says_nothing() {
        let lines = [
            "[    3.1] [drm] amdgpu kernel modesetting enabled.",
            "[    3.2] amdgpu 0000:03:00.0: amdgpu: VRAM: 24560M 0x0000008000000000 - 0x00000085FEFFFFFF (24560M used)",
            "[    3.2] [drm] Detected VRAM RAM=24560M, BAR=32768M",
            "[    3.2] [drm] Detected VRAM RAM=512M, BAR=512M",
            "[    3.9] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 uses VM inv eng 0 on hub 0",
            "[    3.9] [drm] ring test on 0 succeeded, timeout 10000",
            "[    4.0] kfd kfd: amdgpu: added device 1002:744c",
            "[    4.1] nvidia-nvlink: Nvlink Core is being initialized, major device number 511",
        ];
        assert_eq!(findings(&lines.map(str::to_owned)), []);
    }

    #[test]
    fn every_event_has_its_row() {
        use KernelEvent as E;
        let faults = Faults::built_in().unwrap();
        for event in [
            E::GpuReset,
            E::GpuResetFailed,
            E::RingTimeout,
            E::MesFailure,
            E::GpuPageFault,
            E::AtomicsRejected,
            E::UnknownParameter,
            E::KeyRejected,
            E::FirmwareMissing,
            E::InitFailed,
            E::OutOfMemoryKill,
            E::PageAllocationFailure,
            E::NvidiaXid,
            E::DeviceLost,
            E::SmallBar,
        ] {
            assert!(faults.get(event.fault_id()).is_some(), "{event:?}");
        }
    }
}
