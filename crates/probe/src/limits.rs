//! What a container or a service may use of the machine: control groups (both versions) and the affinity mask.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::tree::{line_at, text, value};

/// Limits of this process; `None` where there is no limit or none can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Processor time per wall time, in cores; may be a fraction.
    pub cpu_quota_cores: Option<f64>,
    /// Logical processors that the affinity mask allows.
    pub cpus_allowed: Option<usize>,
    /// Most memory, in bytes; more, and the kernel ends the process.
    pub memory_max_bytes: Option<u64>,
}

pub(crate) fn limits(root: &Path) -> Limits {
    let groups = text(root, "proc/self/cgroup").unwrap_or_default();
    let mut limits = Limits::default();
    for line in groups.lines() {
        // hierarchy:controllers:path; version 2 has hierarchy 0 and no controllers.
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if controllers.is_empty() {
            for mount in ["sys/fs/cgroup", "sys/fs/cgroup/unified"] {
                for group in groups_up_to_root(&root.join(mount), path) {
                    limits.cut_memory(line_at(&group.join("memory.max")));
                    limits.cut_quota(line_at(&group.join("cpu.max")).as_deref().and_then(quota_v2));
                }
            }
        }
        for controller in controllers.split(',') {
            // Distributions mount `cpu` and `cpuacct` together, with a link for each.
            for mount in [controller, controllers] {
                for group in groups_up_to_root(&root.join("sys/fs/cgroup").join(mount), path) {
                    match controller {
                        "memory" => limits.cut_memory(line_at(&group.join("memory.limit_in_bytes"))),
                        "cpu" => limits.cut_quota(quota_v1(&group)),
                        _ => {}
                    }
                }
            }
        }
    }
    let status = text(root, "proc/self/status").unwrap_or_default();
    limits.cpus_allowed = value(&status, ':', "Cpus_allowed_list").and_then(list_length);
    limits
}

impl Limits {
    fn cut_memory(&mut self, limit: Option<String>) {
        // `max` is no number; version 1 writes the largest page-aligned number where there is no limit.
        let limit = limit
            .and_then(|limit| limit.parse().ok())
            .filter(|bytes| (1..1 << 60).contains(bytes));
        self.memory_max_bytes = smaller(self.memory_max_bytes, limit);
    }

    fn cut_quota(&mut self, cores: Option<f64>) {
        self.cpu_quota_cores = match (self.cpu_quota_cores, cores) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

pub(crate) fn smaller<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The process's group and all above it: each of them limits. In a container the path may be the host's, of which
/// only the mount's own folder can be seen.
pub(crate) fn groups_up_to_root(mount: &Path, path: &str) -> Vec<std::path::PathBuf> {
    let relative = Path::new(path.trim_start_matches('/'));
    if relative
        .components()
        .any(|part| !matches!(part, Component::Normal(_)))
    {
        return vec![mount.to_owned()];
    }
    relative.ancestors().map(|group| mount.join(group)).collect()
}

/// `150000 100000`: microseconds of processor time in each period.
fn quota_v2(line: &str) -> Option<f64> {
    let (quota, period) = line.split_once(' ')?;
    cores(quota.parse().ok()?, period.parse().ok()?)
}

fn quota_v1(group: &Path) -> Option<f64> {
    // -1 where there is no limit, which is no unsigned number.
    let quota = line_at(&group.join("cpu.cfs_quota_us"))?.parse().ok()?;
    cores(quota, line_at(&group.join("cpu.cfs_period_us"))?.parse().ok()?)
}

fn cores(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// How many numbers a list such as `0-3,8` holds.
fn list_length(list: &str) -> Option<usize> {
    let mut length: usize = 0;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        length = length.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    #[test]
    fn version_2_takes_the_smallest_limit_on_the_way_up() {
        let tree = tree(&[
            ("proc/self/cgroup", "0::/machine/job\n"),
            ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3,8\n"),
            ("sys/fs/cgroup/machine/job/memory.max", "max\n"),
            ("sys/fs/cgroup/machine/job/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/machine/memory.max", "8589934592\n"),
            ("sys/fs/cgroup/machine/cpu.max", "150000 100000\n"),
        ]);
        let limits = limits(tree.path());
        assert_eq!(limits.memory_max_bytes, Some(8 << 30));
        assert_eq!(limits.cpu_quota_cores, Some(1.5));
        assert_eq!(limits.cpus_allowed, Some(5));
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount() {
        for path in ["/", "/docker/0123", "/../../elsewhere"] {
            let tree = tree(&[
                ("proc/self/cgroup", format!("0::{path}\n").as_str()),
                ("sys/fs/cgroup/memory.max", "4294967296"),
                ("sys/fs/cgroup/cpu.max", "400000 100000"),
            ]);
            let limits = limits(tree.path());
            assert_eq!(
                (limits.memory_max_bytes, limits.cpu_quota_cores),
                (Some(4 << 30), Some(4.0)),
                "{path}"
            );
        }
    }

    #[test]
    fn version_1_has_a_tree_for_each_controller() {
        let groups = "9:name=systemd:/\n4:memory:/docker/1\n2:cpu,cpuacct:/docker/1\n0::/\n";
        let tree = tree(&[
            ("proc/self/cgroup", groups),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            (
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes",
                "1073741824\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        let limits = limits(tree.path());
        assert_eq!(
            (limits.memory_max_bytes, limits.cpu_quota_cores),
            (Some(1 << 30), Some(0.5))
        );
    }

    #[test]
    fn no_limit_is_none() {
        let tree = tree(&[
            ("proc/self/cgroup", "4:memory:/\n2:cpu:/\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(limits(tree.path()), Limits::default());
        assert_eq!(limits(crate::tree::tests::tree(&[]).path()), Limits::default());
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(list_length("0-1"), Some(2));
        assert_eq!(list_length("5"), Some(1));
        for odd in ["", "3-1", "a", "0-", "0-18446744073709551615"] {
            assert_eq!(list_length(odd), None, "{odd}");
        }
    }
}
