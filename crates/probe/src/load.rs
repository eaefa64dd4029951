//! How busy the machine is with other things: a download or another job during a timed run spoils its numbers
//! (M19, M20), so what was seen goes into the run's record.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::fallback;
use crate::tree::{entries, kilobytes, line_at, text, text_at};

/// Processes that are worth naming: below a twentieth of a core nothing is disturbed.
const MIN_CORES: f64 = 0.05;
const MAX_PROCESSES: usize = 10;

/// How busy a machine is. What cannot be read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Mean number of processes that ran or waited to run during the last minute, ours among them.
    pub load_average_1m: Option<f64>,
    /// Memory that can be had without swapping, in bytes.
    pub available_memory_bytes: Option<u64>,
    /// Cores that were busy with other things than our processes since the snapshot; a host's work that is not seen
    /// from inside a virtual machine counts where the kernel is told of it.
    pub other_cores: Option<f64>,
    /// The busiest of the others since the snapshot, busiest first.
    pub busy_processes: Vec<BusyProcess>,
}

/// A process that used the processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusyProcess {
    /// Its number.
    pub pid: u32,
    /// Name of its program, at most 15 characters; arguments are not read.
    pub name: String,
    /// Cores that it kept busy: 1 is one core all the time.
    pub cpu_share: f64,
}

/// The load at this moment, without processes; those need a time span, see [`CpuSnapshot`].
pub fn load(root: &Path) -> Load {
    let average = line_at(&root.join("proc/loadavg"));
    let memory = text(root, "proc/meminfo");
    if root == Path::new(crate::LIVE) && average.is_none() && memory.is_none() {
        return fallback::load();
    }
    Load {
        load_average_1m: average.and_then(|line| line.split_whitespace().next()?.parse().ok()),
        available_memory_bytes: memory.and_then(|memory| kilobytes(&memory, "MemAvailable")),
        ..Load::default()
    }
}

/// Most memory that a process has held so far, in bytes; `None` when it is gone or the system does not tell.
pub fn process_peak_bytes(root: &Path, pid: u32) -> Option<u64> {
    kilobytes(&text(root, &format!("proc/{pid}/status"))?, "VmHWM")
}

/// Processor times at one moment. Take one when a run begins and ask for the load since then when it ends: the time
/// span is the run itself, and nothing has to wait.
#[derive(Clone, Debug, Default)]
pub struct CpuSnapshot {
    cores: usize,
    total_ticks: u64,
    busy_ticks: u64,
    processes: HashMap<u32, Process>,
}

#[derive(Clone, Debug)]
struct Process {
    name: String,
    parent: u32,
    ticks: u64,
    /// Of children that have ended and were waited for.
    children_ticks: u64,
    started: u64,
}

impl CpuSnapshot {
    /// Reads the processor times of the machine and of every process.
    pub fn take(root: &Path) -> Self {
        let stat = text(root, "proc/stat").unwrap_or_default();
        let (total_ticks, busy_ticks) = stat.lines().find_map(machine_ticks).unwrap_or_default();
        let is_core = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        Self {
            cores: stat.lines().filter(is_core).count(),
            total_ticks,
            busy_ticks,
            processes: entries(&root.join("proc"))
                .iter()
                .filter_map(|folder| process(folder))
                .collect(),
        }
    }

    /// The load since this snapshot. `ours` are processes that belong to the run; they and all that they started are
    /// left out. Give this program's own number too (`std::process::id()`).
    ///
    /// A span too short for the kernel's clock (about a hundredth of a second) leaves the shares unknown.
    pub fn load_since(&self, root: &Path, ours: &[u32]) -> Load {
        let now = Self::take(root);
        let mut load = load(root);
        let ticks = now.total_ticks.saturating_sub(self.total_ticks);
        if ticks == 0 || now.cores == 0 {
            return load;
        }
        let ticks_per_core = ticks as f64 / now.cores as f64;
        let ours = now.with_descendants(ours);
        let mut our_ticks = 0;
        for (&pid, process) in &now.processes {
            // A number that was given to another process since has another start.
            let before = self
                .processes
                .get(&pid)
                .filter(|before| before.started == process.started);
            let (ticks, children) = before.map_or((0, 0), |before| (before.ticks, before.children_ticks));
            let ticks = process.ticks.saturating_sub(ticks);
            if ours.contains(&pid) {
                our_ticks += ticks + process.children_ticks.saturating_sub(children);
                continue;
            }
            let cpu_share = ticks as f64 / ticks_per_core;
            if cpu_share >= MIN_CORES {
                load.busy_processes.push(BusyProcess {
                    pid,
                    name: process.name.clone(),
                    cpu_share,
                });
            }
        }
        let busy = now.busy_ticks.saturating_sub(self.busy_ticks);
        load.other_cores = Some(busy.saturating_sub(our_ticks) as f64 / ticks_per_core);
        load.busy_processes
            .sort_by(|a, b| b.cpu_share.total_cmp(&a.cpu_share).then(a.pid.cmp(&b.pid)));
        load.busy_processes.truncate(MAX_PROCESSES);
        load
    }

    pub(crate) fn with_descendants(&self, pids: &[u32]) -> HashSet<u32> {
        let mut family: HashSet<u32> = pids.iter().copied().collect();
        loop {
            let children = self
                .processes
                .iter()
                .filter(|(_, process)| family.contains(&process.parent));
            let new: Vec<u32> = children
                .map(|(pid, _)| *pid)
                .filter(|pid| !family.contains(pid))
                .collect();
            if new.is_empty() {
                return family;
            }
            family.extend(new);
        }
    }
}

/// (all, busy) ticks of the line `cpu  user nice system idle iowait irq softirq steal …`.
fn machine_ticks(line: &str) -> Option<(u64, u64)> {
    let times = line.strip_prefix("cpu ")?;
    // What follows steal is contained in user and nice.
    let times: Vec<u64> = times
        .split_whitespace()
        .take(8)
        .map_while(|time| time.parse().ok())
        .collect();
    let total: u64 = times.iter().sum();
    let idle: u64 = times.iter().skip(3).take(2).sum();
    (times.len() >= 4).then(|| (total, total - idle))
}

fn process(folder: &Path) -> Option<(u32, Process)> {
    let pid = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = text_at(&folder.join("stat"))?;
    // The name may itself hold spaces and brackets; it ends at the last one.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    // proc(5): the state is field 3.
    let fields: Vec<&str> = after.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let process = Process {
        name,
        parent: u32::try_from(field(4)?).ok()?,
        ticks: field(14)? + field(15)?,
        children_ticks: field(16)? + field(17)?,
        started: field(22)?,
    };
    Some((pid, process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    fn stat(name: &str, parent: u32, ticks: u64, children_ticks: u64, started: u64) -> String {
        format!(
            "1 ({name}) R {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 {children_ticks} 0 20 0 1 0 {started} 0 0\n"
        )
    }

    /// Two cores; ticks as (user, idle) of the machine.
    fn capture(user: u64, idle: u64, processes: &[(u32, String)]) -> tempfile::TempDir {
        let machine = format!("cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\nintr 5\n");
        let tree = tree(&[
            ("proc/stat", machine.as_str()),
            ("proc/loadavg", "1.50 0.73 0.62 7/118 17289\n"),
            ("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 40 kB\n"),
        ]);
        for (pid, stat) in processes {
            let folder = tree.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("stat"), stat).unwrap();
        }
        tree
    }

    #[test]
    fn a_busy_neighbour_is_named_and_our_own_work_is_not() {
        let before = capture(
            1000,
            1000,
            &[
                (10, stat("tunesmith", 1, 50, 0, 5)),
                (20, stat("backup (daily)", 1, 100, 0, 5)),
                (30, stat("sleeper", 1, 7, 0, 5)),
            ],
        );
        let snapshot = CpuSnapshot::take(before.path());
        // 200 ticks pass on each of two cores: 300 busy, 100 idle.
        let after = capture(
            1300,
            1100,
            &[
                (10, stat("tunesmith", 1, 60, 20, 5)),
                (11, stat("tunesmith-engine", 10, 120, 0, 90)),
                (20, stat("backup (daily)", 1, 200, 0, 5)),
                (30, stat("sleeper", 1, 8, 0, 5)),
            ],
        );
        let load = snapshot.load_since(after.path(), &[10]);
        assert_eq!(load.load_average_1m, Some(1.5));
        assert_eq!(load.available_memory_bytes, Some(40 * 1024));
        assert_eq!(
            load.busy_processes,
            [BusyProcess {
                pid: 20,
                name: "backup (daily)".to_owned(),
                cpu_share: 0.5
            }]
        );
        // 300 busy less 10 of ours, 20 of a child of ours that ended and 120 of the engine: 150 of 200 a core.
        assert_eq!(load.other_cores, Some(0.75));
    }

    #[test]
    fn a_number_given_anew_is_another_process() {
        let before = capture(0, 0, &[(20, stat("old", 1, 1000, 0, 5))]);
        let after = capture(100, 100, &[(20, stat("new", 1, 50, 0, 70))]);
        let load = CpuSnapshot::take(before.path()).load_since(after.path(), &[]);
        assert_eq!(
            load.busy_processes,
            [BusyProcess {
                pid: 20,
                name: "new".to_owned(),
                cpu_share: 0.5
            }]
        );
    }

    #[test]
    fn no_time_and_no_files_leave_shares_unknown() {
        let tree = capture(100, 100, &[(20, stat("x", 1, 1000, 0, 5))]);
        let load = CpuSnapshot::take(tree.path()).load_since(tree.path(), &[]);
        assert_eq!((load.other_cores, load.busy_processes.len()), (None, 0));
        let empty = crate::tree::tests::tree(&[("proc/1/stat", "broken")]);
        assert_eq!(
            CpuSnapshot::take(empty.path()).load_since(empty.path(), &[]),
            Load::default()
        );
    }

    #[test]
    fn the_peak_of_a_process_is_read() {
        let tree = tree(&[("proc/7/status", "Name:\tengine\nVmHWM:\t    1748 kB\n")]);
        assert_eq!(process_peak_bytes(tree.path(), 7), Some(1748 * 1024));
        assert_eq!(process_peak_bytes(tree.path(), 8), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        let live = Path::new(crate::LIVE);
        assert!(load(live).available_memory_bytes.unwrap() > 0);
        let snapshot = CpuSnapshot::take(live);
        // Our own work is ours: the test's process is never among the others.
        let load = snapshot.load_since(live, &[std::process::id()]);
        assert!(
            load.busy_processes
                .iter()
                .all(|process| process.pid != std::process::id())
        );
    }
}
