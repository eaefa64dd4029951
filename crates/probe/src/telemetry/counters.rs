//! Windows' counters of graphics memory, read from Windows itself, or from Linux that runs beneath it (WSL), where only
//! Windows knows how full a card is. They are read while a training runs, and never by detection.

use std::{
    ffi::OsString,
    process::{Command, Stdio},
};

use super::{GpuSample, pdh};
use crate::Platform;

/// What asks Windows from WSL: the listing that [`pdh`] reads. On a Windows whose language is not English the counters
/// have other names, and it answers nothing.
const ASK_WINDOWS: [&str; 4] = [
    "powershell.exe",
    "-NoProfile",
    "-Command",
    "(Get-Counter '\\GPU Adapter Memory(*)\\Dedicated Usage','\\GPU Adapter Memory(*)\\Shared Usage').CounterSamples | ForEach-Object { $_.Path + \"`t\" + [uint64]$_.CookedValue }",
];

/// A source of Windows' counters.
pub struct Counters(Source);

enum Source {
    #[cfg(windows)]
    Own(crate::windows::Counters),
    Command(Vec<OsString>),
}

impl Counters {
    /// The source on this machine; `None` where there is none.
    pub fn open(platform: Platform) -> Option<Self> {
        match platform {
            #[cfg(windows)]
            Platform::Windows => crate::windows::Counters::open().map(|own| Self(Source::Own(own))),
            Platform::Wsl => Some(Self::by_command(ASK_WINDOWS)),
            _ => None,
        }
    }

    /// A program that prints the listing.
    pub fn by_command<Word: Into<OsString>>(words: impl IntoIterator<Item = Word>) -> Self {
        Self(Source::Command(words.into_iter().map(Into::into).collect()))
    }

    /// The adapter whose own memory is used most at the moment: the one that trains. `None` where nothing is told.
    pub fn fullest(&mut self) -> Option<GpuSample> {
        let listing = match &mut self.0 {
            #[cfg(windows)]
            Source::Own(counters) => counters.listing(),
            Source::Command(words) => {
                let (program, arguments) = words.split_first()?;
                let output = Command::new(program)
                    .args(arguments)
                    .stdin(Stdio::null())
                    .stderr(Stdio::null())
                    .output()
                    .ok()?;
                String::from_utf8_lossy(&output.stdout).into_owned()
            }
        };
        let samples = pdh::samples(&listing).into_values();
        samples.max_by_key(|sample| sample.vram_used_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_fullest_adapter_counts_whatever_the_case_of_its_counters() {
        let path = |adapter: &str, counter: &str| {
            format!(r"\\desktop\gpu adapter memory(luid_0x00000000_0x0000{adapter}_phys_0)\{counter} usage")
        };
        let lines = [
            format!("{}\t5\n", path("aaaa", "dedicated")),
            format!("{}\t9\r\n", path("bbbb", "dedicated")),
            format!("{}\t3\r\n", path("bbbb", "shared")),
        ];
        let mut counters = Counters::by_command(["printf", "%s", &lines.concat()]);
        let sample = counters.fullest().unwrap();
        assert_eq!(
            (sample.vram_used_bytes, sample.gtt_used_bytes),
            (Some(9), Some(3))
        );
    }

    #[test]
    fn a_source_that_answers_nothing_tells_nothing() {
        assert_eq!(Counters::by_command(["no such program anywhere"]).fullest(), None);
        let nothing: [&str; 0] = [];
        assert_eq!(Counters::by_command(nothing).fullest(), None);
        assert!(Counters::open(Platform::Linux).is_none());
    }
}
