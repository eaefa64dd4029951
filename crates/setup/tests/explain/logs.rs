//! Logs as they are met, of several kinds and always of 200 lines, with a fault's text at a place of choice.

use std::iter::repeat_n;

/// The kind of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Training,
    UvInstall,
    PipInstall,
    Dmesg,
    Journal,
    Unsloth,
    Rocminfo,
    DockerCompose,
    Coloured,
}

pub(crate) const KINDS: &[Kind] = &[
    Kind::Training,
    Kind::UvInstall,
    Kind::PipInstall,
    Kind::Dmesg,
    Kind::Journal,
    Kind::Unsloth,
    Kind::Rocminfo,
    Kind::DockerCompose,
    Kind::Coloured,
];

const LINES: usize = 200;

const PACKAGES: [&str; 12] = [
    "certifi",
    "filelock",
    "fsspec",
    "huggingface-hub",
    "jinja2",
    "numpy",
    "packaging",
    "pyyaml",
    "regex",
    "safetensors",
    "tokenizers",
    "transformers",
];

/// A healthy log of 200 lines.
pub(crate) fn healthy(kind: Kind) -> Vec<String> {
    let lines = (0..LINES).map(|index| line(kind, index));
    lines.collect()
}

/// A log of 200 lines in which `text` stands at line `place`, counted from 0, in the log's own form.
pub(crate) fn with(kind: Kind, place: usize, text: &str) -> String {
    let mut lines = healthy(kind);
    let own: Vec<String> = text.lines().map(|line| prefixed(kind, place, line)).collect();
    let place = place.min(LINES - own.len());
    lines.splice(place..place + own.len(), own);
    lines.join(if kind == Kind::PipInstall { "\r\n" } else { "\n" })
}

/// A line of someone else's in this log's form.
fn prefixed(kind: Kind, index: usize, text: &str) -> String {
    match kind {
        Kind::Training => format!(
            "2026-11-30 09:{:02}:{:02},{:03} - ERROR - [rank0]: {text}",
            index / 60,
            index % 60,
            index
        ),
        Kind::UvInstall => format!("  cause: {text}"),
        Kind::PipInstall => format!("      {text}"),
        Kind::Dmesg => format!("[{:5}.{:06}] {text}", 12 + index, index * 311),
        Kind::Journal => format!(
            "Nov 30 08:{:02}:{:02} desk kernel: {text}",
            index / 60,
            index % 60
        ),
        Kind::Unsloth | Kind::Rocminfo => text.to_owned(),
        Kind::DockerCompose => format!("\u{1b}[36mtrainer-1  | \u{1b}[0m{text}"),
        Kind::Coloured => format!(
            "\u{1b}[2m09:00:{:02}\u{1b}[0m \u{1b}[1;31mERROR\u{1b}[0m {text}\u{1b}[0m",
            index % 60
        ),
    }
}

fn line(kind: Kind, index: usize) -> String {
    let loss = 2.3 - index as f64 * 0.007;
    let package = PACKAGES[index % PACKAGES.len()];
    match kind {
        Kind::Training if index % 25 == 7 => {
            format!(" {}%|{}| {index}/200 [01:03<02:11,  1.94s/it]", index / 2, repeat_n('█', index / 20).collect::<String>())
        }
        Kind::Training => format!(
            "{{'loss': {loss:.4}, 'grad_norm': {:.4}, 'learning_rate': 1.9e-04, 'epoch': {:.3}}}",
            0.4 + loss / 5.0,
            index as f64 / 200.0
        ),
        Kind::UvInstall => match index % 4 {
            0 => format!("DEBUG Using fresh response for: https://index.example/simple/{package}/"),
            1 => format!("DEBUG Selecting: {package}==1.{index}.0 [compatible] ({package}-1.{index}.0-py3-none-any.whl)"),
            2 => format!(" + {package}==1.{index}.0"),
            _ => format!("Downloading {package} ({index}.2MiB)"),
        },
        Kind::PipInstall => match index % 3 {
            0 => format!("Collecting {package}"),
            1 => format!("  Downloading {package}-1.{index}-py3-none-any.whl.metadata (4.1 kB)"),
            _ => format!("Requirement already satisfied: {package} in ./venv/lib/python3.12/site-packages"),
        },
        Kind::Dmesg => {
            let text = match index % 3 {
                0 => format!("pci 0000:{index:02x}:00.0: BAR 0 [mem 0xf{index:03}00000-0xf{index:03}fffff 64bit pref]"),
                1 => format!("amdgpu 0000:03:00.0: amdgpu: ring sdma0 uses VM inv eng {} on hub 0", index % 16),
                _ => format!("usb 1-{}: new high-speed USB device number {index} using xhci_hcd", index % 9),
            };
            format!("[{:5}.{:06}] {text}", 2 + index / 9, index * 977)
        }
        Kind::Journal => {
            let text = match index % 3 {
                0 => "kernel: audit: type=1400 apparmor=\"STATUS\" operation=\"profile_load\"".to_owned(),
                1 => format!("systemd[1]: Started Session {index} of User ana."),
                _ => "kernel: [drm] amdgpu: 24560M of VRAM memory ready".to_owned(),
            };
            format!("Nov 30 08:{:02}:{:02} desk {text}", index / 60, index % 60)
        }
        Kind::Unsloth => match index {
            0 => "==((====))==  Unsloth 2026.10.9: Fast Qwen3 patching. Transformers: 5.17.0.".to_owned(),
            1 => "   \\\\   /|    AMD Radeon RX 7900 XTX. Num GPUs = 1. Max memory: 23.984 GB. Platform: Linux.".to_owned(),
            2 => "O^O/ \\_/ \\    Torch: 2.11.0+rocm7.2. ROCm Toolkit: 7.2.53211. Triton: 3.6.0".to_owned(),
            _ => format!("{{'loss': '{loss:.4}', 'grad_norm': '0.51', 'learning_rate': '1.9e-04', 'epoch': '0.2'}}"),
        },
        Kind::Rocminfo => match index % 6 {
            0 => "  Name:                    gfx1100                            ".to_owned(),
            1 => "  Marketing Name:          AMD Radeon RX 7900 XTX             ".to_owned(),
            2 => format!("  Max Queue Number:        {index}(0x{index:x})                "),
            3 => "    Pool 1                   ".to_owned(),
            4 => "      Segment:                 GLOBAL; FLAGS: COARSE GRAINED      ".to_owned(),
            _ => "  Wavefront Size:          32(0x20)                           ".to_owned(),
        },
        Kind::DockerCompose => format!(
            "\u{1b}[36mtrainer-1  | \u{1b}[0m2026-11-30T10:00:00Z INFO  step {index} loss={loss:.3} mem=17.2GiB/24.0GiB err=0"
        ),
        Kind::Coloured => format!("\u{1b}[2m09:00:{:02}\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m batch {index} done, 0 errors", index % 60),
    }
}
