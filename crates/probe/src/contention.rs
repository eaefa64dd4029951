//! Who else used a card while a run was measured: another program on the card spoils the run's numbers, so a run that
//! was not alone is marked (M19, M20). The processor's side is [`crate::CpuSnapshot`].

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::CpuSnapshot;
use crate::telemetry::{CardState, GpuProcess, GpuSample, Sample};

/// Engine time of another process below this share of the span is a desktop that draws its windows.
pub const BUSY_SHARE: f64 = 0.05;

/// Growth of the memory of others below this is a window that was opened.
pub const GROWN_BYTES: u64 = 512 << 20;

/// Use of one card by others between two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuContention {
    /// PCI address of the card.
    pub pci: String,
    /// Other processes that were seen on the card at the end, by their memory, most first.
    pub others: Vec<OtherProcess>,
    /// Memory in bytes that is in use at the end and not by our processes: others, and what the driver keeps for
    /// itself.
    pub other_vram_bytes: Option<u64>,
    /// How much that has grown since the first sample, in bytes; negative where it shrank.
    pub other_vram_growth_bytes: Option<i64>,
    /// Of two samples at least one does not show all processes, so that others may be unseen.
    pub processes_hidden: bool,
}

/// Another process on a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherProcess {
    /// Its number.
    pub pid: u32,
    /// Name of its program.
    pub name: Option<String>,
    /// Memory of the card that it holds, in bytes.
    pub vram_bytes: Option<u64>,
    /// Share of the span in which the engine that it used most worked for it; `None` where the driver does not count
    /// that, or the process was not there before.
    pub engine_share: Option<f64>,
}

impl GpuContention {
    /// Whether the run's numbers are in doubt: another process kept an engine busy ([`BUSY_SHARE`]), or took memory
    /// meanwhile ([`GROWN_BYTES`]).
    pub fn is_disturbed(&self) -> bool {
        let busy = |process: &OtherProcess| process.engine_share.is_some_and(|share| share >= BUSY_SHARE);
        let grown = self
            .other_vram_growth_bytes
            .is_some_and(|growth| growth >= GROWN_BYTES as i64);
        grown || self.others.iter().any(busy)
    }
}

/// Processes and all that they started, as [`gpu`] wants its own ones.
pub fn family(root: &Path, pids: &[u32]) -> Vec<u32> {
    let mut family: Vec<u32> = CpuSnapshot::take(root)
        .with_descendants(pids)
        .into_iter()
        .collect();
    family.sort_unstable();
    family
}

/// What others used of each card between two samples of one sampler. Cards that were not awake at both are left out.
/// `ours` are the processes of the run, see [`family`].
pub fn gpu(before: &Sample, after: &Sample, ours: &[u32]) -> Vec<GpuContention> {
    let span_nanos = (after.at_secs - before.at_secs) * 1e9;
    let is_awake = |gpu: &&GpuSample| gpu.state == CardState::Awake;
    after
        .gpus
        .iter()
        .filter(is_awake)
        .filter_map(|now| {
            let then = before
                .gpus
                .iter()
                .filter(is_awake)
                .find(|then| then.pci == now.pci)?;
            let (other_before, other_now) = (not_ours_bytes(then, ours), not_ours_bytes(now, ours));
            let mut others: Vec<OtherProcess> = now
                .processes
                .iter()
                .filter(|process| !ours.contains(&process.pid))
                .map(|process| other(process, then, span_nanos))
                .collect();
            others.sort_by_key(|process| (std::cmp::Reverse(process.vram_bytes), process.pid));
            Some(GpuContention {
                pci: now.pci.clone(),
                others,
                other_vram_bytes: other_now,
                other_vram_growth_bytes: other_before
                    .zip(other_now)
                    .map(|(before, now)| now as i64 - before as i64),
                processes_hidden: before.processes_hidden || after.processes_hidden,
            })
        })
        .collect()
}

/// Memory in use that is not ours; unknown when that of one of our processes is.
fn not_ours_bytes(gpu: &GpuSample, ours: &[u32]) -> Option<u64> {
    let ours = gpu.processes.iter().filter(|process| ours.contains(&process.pid));
    let ours: Option<u64> = ours.map(|process| process.vram_bytes).sum();
    Some(gpu.vram_used_bytes?.saturating_sub(ours?))
}

fn other(process: &GpuProcess, then: &GpuSample, span_nanos: f64) -> OtherProcess {
    let before = then.processes.iter().find(|before| before.pid == process.pid);
    let share = |(engine, nanos): &(String, u64)| {
        let (_, earlier) = before?.engine_nanos.iter().find(|(name, _)| name == engine)?;
        // A counter that went back belongs to a process that was given an old number.
        let worked = nanos.checked_sub(*earlier)?;
        (span_nanos > 0.0).then(|| worked as f64 / span_nanos)
    };
    OtherProcess {
        pid: process.pid,
        name: process.name.clone(),
        vram_bytes: process.vram_bytes,
        engine_share: process
            .engine_nanos
            .iter()
            .filter_map(share)
            .max_by(f64::total_cmp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    const MIB: u64 = 1 << 20;

    fn process(pid: u32, vram_mib: u64, compute_nanos: u64) -> GpuProcess {
        GpuProcess {
            pid,
            name: Some(format!("program{pid}")),
            vram_bytes: Some(vram_mib * MIB),
            engine_nanos: vec![("gfx".to_owned(), 5), ("compute".to_owned(), compute_nanos)],
            ..GpuProcess::default()
        }
    }

    fn sample(at_secs: f64, used_mib: u64, processes: Vec<GpuProcess>) -> Sample {
        let gpu = GpuSample {
            pci: "0000:03:00.0".to_owned(),
            state: CardState::Awake,
            vram_used_bytes: Some(used_mib * MIB),
            processes,
            ..GpuSample::default()
        };
        Sample {
            at_secs,
            gpus: vec![gpu],
            processes_hidden: false,
        }
    }

    #[test]
    fn a_busy_neighbour_is_named_with_its_share() {
        let before = sample(
            10.0,
            9000,
            vec![process(1, 8000, 0), process(2, 300, 1_000_000_000)],
        );
        let after = sample(
            20.0,
            9100,
            vec![process(1, 8000, 9_000_000_000), process(2, 400, 4_000_000_000)],
        );
        let found = gpu(&before, &after, &[1]);
        let expected = GpuContention {
            pci: "0000:03:00.0".to_owned(),
            others: vec![OtherProcess {
                pid: 2,
                name: Some("program2".to_owned()),
                vram_bytes: Some(400 * MIB),
                engine_share: Some(0.3),
            }],
            other_vram_bytes: Some(1100 * MIB),
            other_vram_growth_bytes: Some((100 * MIB) as i64),
            processes_hidden: false,
        };
        assert_eq!(found, std::slice::from_ref(&expected));
        assert!(expected.is_disturbed());
    }

    #[test]
    fn a_quiet_desktop_disturbs_nothing() {
        let before = sample(0.0, 8500, vec![process(1, 8000, 0), process(2, 300, 0)]);
        let after = sample(
            100.0,
            8510,
            vec![process(1, 8000, 99), process(2, 310, 1_000_000_000)],
        );
        assert!(!gpu(&before, &after, &[1])[0].is_disturbed());
    }

    #[test]
    fn memory_that_an_unseen_process_took_is_noticed() {
        let mut before = sample(0.0, 8500, vec![process(1, 8000, 0)]);
        before.processes_hidden = true;
        let after = sample(1.0, 12500, vec![process(1, 8000, 0)]);
        let found = &gpu(&before, &after, &[1])[0];
        assert!(found.others.is_empty() && found.processes_hidden);
        assert_eq!(found.other_vram_growth_bytes, Some((4000 * MIB) as i64));
        assert!(found.is_disturbed());
    }

    #[test]
    fn what_is_not_known_is_no_accusation() {
        let nameless = |at, nanos| {
            let unknown = GpuProcess {
                vram_bytes: None,
                ..process(1, 0, nanos)
            };
            sample(at, 9000, vec![unknown])
        };
        let found = &gpu(&nameless(0.0, 5), &nameless(1.0, 7), &[1])[0];
        assert_eq!(
            (found.other_vram_bytes, found.other_vram_growth_bytes),
            (None, None)
        );
        // A number that another process got since, one that is new, and no time at all.
        let anew = &gpu(&nameless(0.0, 9), &nameless(1.0, 7), &[])[0];
        assert!(
            anew.others[0].engine_share.is_some_and(|share| share < 1e-6),
            "only the engine that grew counts"
        );
        let new = &gpu(&sample(0.0, 9000, vec![]), &nameless(1.0, 7), &[])[0];
        assert_eq!(new.others[0].engine_share, None);
        let no_time = &gpu(&nameless(1.0, 5), &nameless(1.0, 7), &[])[0];
        assert_eq!(no_time.others[0].engine_share, None);
        assert!(!new.is_disturbed() && !anew.is_disturbed() && !no_time.is_disturbed());
        let mut asleep = nameless(0.0, 0);
        asleep.gpus[0].state = CardState::Asleep;
        assert_eq!(gpu(&asleep, &nameless(1.0, 0), &[]), []);
    }

    #[test]
    fn children_of_a_run_belong_to_it() {
        let stat = |parent| format!("1 (x) R {parent} 1 1 0 -1 0 0 0 0 0 1 0 1 0 20 0 1 0 5 0 0\n");
        let machine = tree(&[
            ("proc/stat", "cpu  1 0 0 1\ncpu0 0 0 0 0\n"),
            ("proc/10/stat", &stat(1)),
            ("proc/11/stat", &stat(10)),
            ("proc/12/stat", &stat(11)),
            ("proc/20/stat", &stat(1)),
        ]);
        assert_eq!(family(machine.path(), &[10]), [10, 11, 12]);
    }
}
