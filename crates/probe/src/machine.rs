//! The machine as a run's record keeps it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cpu::cpu;
use crate::limits::{limits, smaller};
use crate::tree::{kilobytes, line_at, text, value};
use crate::{CpuFeatures, Limits, fallback};

/// A machine without its graphics cards. What cannot be read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// e.g. `Debian GNU/Linux 12 (bookworm)`.
    pub os: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// Logical processors.
    pub cores_logical: Option<usize>,
    /// Cores.
    pub cores_physical: Option<usize>,
    /// Main memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Instruction sets.
    pub cpu_features: CpuFeatures,
    /// The kind of container that this runs in, e.g. `docker`; `None` when no sign of one is seen.
    pub container: Option<String>,
    /// What the container, or the service that started this, allows.
    pub limits: Limits,
}

impl Machine {
    /// Whether the processor multiplies bf16 itself.
    pub fn bf16_in_hardware(&self) -> Option<bool> {
        self.cpu_features.bf16_in_hardware()
    }

    /// Logical processors that this process may use at the same time, quotas rounded down, at least one.
    pub fn usable_cores(&self) -> Option<usize> {
        let quota = self
            .limits
            .cpu_quota_cores
            .map(|cores| (cores.floor() as usize).max(1));
        smaller(smaller(self.cores_logical, self.limits.cpus_allowed), quota)
    }

    /// Memory that this process may use, in bytes, whatever else is running.
    pub fn usable_memory_bytes(&self) -> Option<u64> {
        smaller(self.memory_bytes, self.limits.memory_max_bytes)
    }
}

/// The machine whose files lie below `root`, `/` for this one. On systems without `/proc` this one is asked in
/// another way, and a good part stays unknown.
pub fn machine(root: &Path) -> Machine {
    if root == Path::new(crate::LIVE) && !root.join("proc/cpuinfo").exists() {
        return fallback::machine();
    }
    let memory = text(root, "proc/meminfo");
    let cpu = cpu(root);
    Machine {
        os: os_name(root),
        kernel: kernel(root),
        cpu_model: cpu.model,
        cores_logical: cpu.cores_logical,
        cores_physical: cpu.cores_physical,
        memory_bytes: memory.and_then(|memory| kilobytes(&memory, "MemTotal")),
        cpu_features: cpu.features,
        container: container(root),
        limits: limits(root),
    }
}

fn os_name(root: &Path) -> Option<String> {
    let release = text(root, "etc/os-release").or_else(|| text(root, "usr/lib/os-release"))?;
    let name = value(&release, '=', "PRETTY_NAME").or_else(|| value(&release, '=', "NAME"))?;
    Some(name.trim_matches(['"', '\'']).to_owned()).filter(|name| !name.is_empty())
}

fn kernel(root: &Path) -> Option<String> {
    line_at(&root.join("proc/sys/kernel/osrelease")).or_else(|| {
        // Linux version 6.1.0-18-amd64 (…) …
        let version = text(root, "proc/version")?;
        version
            .strip_prefix("Linux version ")?
            .split_whitespace()
            .next()
            .map(str::to_owned)
    })
}

fn container(root: &Path) -> Option<String> {
    let exists = |path: &str| root.join(path).exists();
    if exists("var/run/secrets/kubernetes.io") || exists("run/secrets/kubernetes.io") {
        return Some("kubernetes".to_owned());
    }
    // Written by systemd and by the container programs that follow its convention.
    let told = line_at(&root.join("run/systemd/container"));
    let is_name =
        |name: &String| name.len() < 40 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if let Some(name) = told.filter(is_name) {
        return Some(name);
    }
    let marks = [("run/.containerenv", "podman"), (".dockerenv", "docker")];
    if let Some((_, name)) = marks.iter().find(|(path, _)| exists(path)) {
        return Some((*name).to_owned());
    }
    let groups = text(root, "proc/1/cgroup").unwrap_or_default();
    let words = [
        ("kubepods", "kubernetes"),
        ("/docker", "docker"),
        ("libpod", "podman"),
        ("/lxc", "lxc"),
    ];
    words
        .iter()
        .find(|(word, _)| groups.contains(word))
        .map(|(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    #[test]
    fn a_captured_machine_is_read_whole() {
        let tree = tree(&[
            (
                "etc/os-release",
                "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n",
            ),
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            (
                "proc/meminfo",
                "MemTotal:       24684096 kB\nMemAvailable:   24227956 kB\n",
            ),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t: avx2\n",
            ),
            (".dockerenv", ""),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "8589934592\n"),
        ]);
        let machine = machine(tree.path());
        assert_eq!(machine.os.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(machine.kernel.as_deref(), Some("6.1.0-18-amd64"));
        assert_eq!(machine.cpu_model.as_deref(), Some("AMD EPYC"));
        assert_eq!(machine.memory_bytes, Some(24_684_096 * 1024));
        assert_eq!(machine.usable_memory_bytes(), Some(8 << 30));
        assert_eq!(machine.usable_cores(), Some(1));
        assert_eq!(machine.container.as_deref(), Some("docker"));
        assert_eq!(machine.bf16_in_hardware(), Some(false));
        let json = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&json).unwrap(), machine);
    }

    #[test]
    fn an_empty_capture_is_all_unknown() {
        assert_eq!(machine(tree(&[]).path()), Machine::default());
        assert_eq!(Machine::default().usable_cores(), None);
    }

    #[test]
    fn usable_cores_follow_the_tightest_limit() {
        let with = |cpu_quota_cores, cpus_allowed| Machine {
            cores_logical: Some(16),
            limits: Limits {
                cpu_quota_cores,
                cpus_allowed,
                memory_max_bytes: None,
            },
            ..Machine::default()
        };
        assert_eq!(with(None, None).usable_cores(), Some(16));
        assert_eq!(with(Some(2.5), Some(8)).usable_cores(), Some(2));
        assert_eq!(with(Some(0.5), None).usable_cores(), Some(1));
        assert_eq!(with(Some(64.0), Some(4)).usable_cores(), Some(4));
    }

    #[test]
    fn containers_are_told_by_their_marks() {
        let kind = |path: &str, content: &str| machine(tree(&[(path, content)]).path()).container;
        assert_eq!(kind("run/systemd/container", "lxc\n").as_deref(), Some("lxc"));
        assert_eq!(kind("run/.containerenv", "").as_deref(), Some("podman"));
        assert_eq!(
            kind("proc/1/cgroup", "0::/kubepods/burstable/pod1\n").as_deref(),
            Some("kubernetes")
        );
        assert_eq!(kind("proc/1/cgroup", "0::/init.scope\n"), None);
        assert_eq!(kind("run/systemd/container", "something quite else\n"), None);
    }

    #[test]
    fn the_kernel_is_read_from_either_file() {
        let tree = tree(&[(
            "proc/version",
            "Linux version 6.18.4-arch1 (builder@host) (gcc) #1 SMP\n",
        )]);
        assert_eq!(machine(tree.path()).kernel.as_deref(), Some("6.18.4-arch1"));
    }

    #[test]
    fn this_machine_can_be_read() {
        let machine = machine(Path::new(crate::LIVE));
        assert!(machine.cores_logical.unwrap() >= 1);
        assert!(machine.usable_cores().unwrap() <= machine.cores_logical.unwrap());
        assert!(machine.usable_memory_bytes().unwrap() <= machine.memory_bytes.unwrap());
    }
}
