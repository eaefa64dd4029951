//! Who else holds a card (M20): other processes with much of its memory, and what each runs in, which decides how it is
//! stopped. Of a process its name, its control group and the last name of its working folder are read, as far as the
//! system allows; command lines are not.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::telemetry::{GpuProcess, Sample};
use crate::tree::text_at;

/// A process with less of a card's memory than this keeps no training from it: desktops and browsers have as much.
pub const HOLDS_BYTES: u64 = 256 << 20;

/// Letters of a container's id that name it.
const SHORT_ID: usize = 12;

/// Another process that holds a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardHolder {
    /// PCI address of the card.
    pub pci: String,
    /// Its number.
    pub pid: u32,
    /// Its name, at most 15 letters.
    pub name: Option<String>,
    /// Last name of its working folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Memory of the card that it holds, in bytes.
    pub vram_bytes: u64,
    /// What it runs in.
    pub runs_in: RunsIn,
}

/// What a process runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunsIn {
    /// Nothing that could be told.
    #[default]
    Plain,
    /// A unit of the system's systemd.
    SystemUnit {
        /// Its name without `.service`.
        unit: String,
    },
    /// A unit of the user's systemd.
    UserUnit {
        /// Its name without `.service`.
        unit: String,
    },
    /// A container.
    Container {
        /// `docker` or `podman`.
        by: ContainerTool,
        /// The beginning of its id.
        id: String,
    },
}

/// What runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerTool {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl ContainerTool {
    /// The program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// Other processes that hold much of a card in a sample, by their memory, most first. `ours` are left out, see
/// [`crate::contention::family`].
pub fn card_holders(root: &Path, sample: &Sample, ours: &[u32]) -> Vec<CardHolder> {
    let mut holders: Vec<CardHolder> = sample
        .gpus
        .iter()
        .flat_map(|gpu| gpu.processes.iter().map(move |process| (&gpu.pci, process)))
        .filter(|(_, process)| !ours.contains(&process.pid))
        .filter_map(|(pci, process)| holder(root, pci, process))
        .collect();
    holders.sort_by_key(|holder| (std::cmp::Reverse(holder.vram_bytes), holder.pid));
    holders
}

fn holder(root: &Path, pci: &str, process: &GpuProcess) -> Option<CardHolder> {
    // Graphics that share main memory are held there.
    let bytes = process.vram_bytes.max(process.gtt_bytes)?;
    let folder = root.join(format!("proc/{}", process.pid));
    (bytes >= HOLDS_BYTES).then(|| CardHolder {
        pci: pci.to_owned(),
        pid: process.pid,
        name: process.name.clone(),
        folder: std::fs::read_link(folder.join("cwd"))
            .ok()
            .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
        vram_bytes: bytes,
        runs_in: text_at(&folder.join("cgroup")).map_or_else(RunsIn::default, |text| runs_in(&text)),
    })
}

/// What a process runs in, by its control groups: `0::/system.slice/ollama.service`,
/// `0::/system.slice/docker-<id>.scope`, `0::/user.slice/…/libpod-<id>.scope/container`.
fn runs_in(cgroups: &str) -> RunsIn {
    let paths = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    for path in paths {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        for (at, part) in parts.iter().enumerate() {
            let scope = part.strip_suffix(".scope").unwrap_or(part);
            let before = at.checked_sub(1).and_then(|at| parts.get(at)).copied();
            let found = match scope.split_once('-') {
                Some(("docker", id)) => Some((ContainerTool::Docker, id)),
                Some(("libpod", id)) => Some((ContainerTool::Podman, id)),
                _ if before == Some("docker") => Some((ContainerTool::Docker, scope)),
                _ => None,
            };
            if let Some((by, id)) = found.filter(|(_, id)| is_container_id(id)) {
                return RunsIn::Container {
                    by,
                    id: id[..SHORT_ID].to_owned(),
                };
            }
        }
        let of_user = parts.iter().any(|part| part.starts_with("user@"));
        let unit = parts.last().and_then(|part| part.strip_suffix(".service"));
        if let Some(unit) = unit.filter(|unit| !unit.starts_with("user@") && is_unit(unit)) {
            let unit = unit.to_owned();
            return if of_user {
                RunsIn::UserUnit { unit }
            } else {
                RunsIn::SystemUnit { unit }
            };
        }
    }
    RunsIn::Plain
}

fn is_container_id(id: &str) -> bool {
    id.len() >= SHORT_ID && id.chars().all(|letter| letter.is_ascii_hexdigit())
}

/// A name that may stand in a command as it is.
fn is_unit(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.@:".contains(letter);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{CardState, GpuSample};
    use crate::tree::tests::tree;

    const ID: &str = "4f66ad9a0b2e5f3c4f66ad9a0b2e5f3c4f66ad9a0b2e5f3c4f66ad9a0b2e5f3c";

    fn process(pid: u32, name: &str, mib: u64) -> GpuProcess {
        GpuProcess {
            pid,
            name: Some(name.to_owned()),
            vram_bytes: Some(mib << 20),
            ..GpuProcess::default()
        }
    }

    #[test]
    fn others_with_much_memory_are_named_with_what_they_run_in() {
        let machine = tree(&[
            ("proc/20/cgroup", "0::/system.slice/ollama.service\n"),
            ("proc/30/cgroup", &format!("0::/system.slice/docker-{ID}.scope\n")),
            (
                "proc/40/cgroup",
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-x-1.scope\n",
            ),
        ]);
        let gpu = GpuSample {
            pci: "0000:03:00.0".to_owned(),
            state: CardState::Awake,
            processes: vec![
                process(10, "tunesmith-engin", 9000),
                process(20, "ollama", 4000),
                process(30, "python3", 6000),
                process(40, "firefox", 900),
                process(50, "kwin_wayland", 120),
            ],
            ..GpuSample::default()
        };
        let sample = Sample {
            gpus: vec![gpu],
            ..Sample::default()
        };
        let found = card_holders(machine.path(), &sample, &[10]);
        let pids: Vec<u32> = found.iter().map(|holder| holder.pid).collect();
        assert_eq!(pids, [30, 20, 40], "most first, without ours and the desktop");
        assert_eq!(
            found[0].runs_in,
            RunsIn::Container {
                by: ContainerTool::Docker,
                id: ID[..12].to_owned()
            }
        );
        assert_eq!(
            found[1].runs_in,
            RunsIn::SystemUnit {
                unit: "ollama".to_owned()
            }
        );
        assert_eq!(found[2].runs_in, RunsIn::Plain);
    }

    #[cfg(unix)]
    #[test]
    fn a_working_folder_is_known_by_its_last_name_alone() {
        let machine = tree(&[("proc/7/cgroup", "")]);
        std::os::unix::fs::symlink("/home/someone/ComfyUI", machine.path().join("proc/7/cwd")).unwrap();
        let found = holder(machine.path(), "0000:03:00.0", &process(7, "python3", 5000)).unwrap();
        assert_eq!(found.folder.as_deref(), Some("ComfyUI"));
    }

    #[test]
    fn control_groups_of_every_kind() {
        let container = |by| RunsIn::Container {
            by,
            id: ID[..12].to_owned(),
        };
        for (text, expected) in [
            (
                format!("12:devices:/docker/{ID}\n"),
                container(ContainerTool::Docker),
            ),
            (
                format!(
                    "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container\n"
                ),
                container(ContainerTool::Podman),
            ),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/comfyui.service\n".to_owned(),
                RunsIn::UserUnit {
                    unit: "comfyui".to_owned(),
                },
            ),
            ("0::/\n".to_owned(), RunsIn::Plain),
            (
                "0::/user.slice/user-1000.slice/session-2.scope\n".to_owned(),
                RunsIn::Plain,
            ),
            ("0::/system.slice/a$(reboot).service\n".to_owned(), RunsIn::Plain),
            ("0::/system.slice/docker-short.scope\n".to_owned(), RunsIn::Plain),
            ("nonsense".to_owned(), RunsIn::Plain),
        ] {
            assert_eq!(runs_in(&text), expected, "{text}");
        }
    }
}
