//! What the doctor is told beside the machine itself: disks, memory in use, other programs on the card, the recipe.
//!
//! The caller fills in what it knows; what it leaves out stays unknown.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tunesmith_probe::{
    Gpu, System, card_holders, contention,
    telemetry::{Sampler, Target},
};

use super::environment::clean;
use crate::Folders;
use crate::environments::Engine;
use crate::knowledge::{Knowledge, holders};
use crate::plan::{Plan, PlanRequest, plan};

/// Facts around a machine. Everything may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Where downloads and environments go.
    pub cache_disk: Option<DiskSpace>,
    /// Where runs and models go.
    pub data_disk: Option<DiskSpace>,
    /// Memory that can be had without swapping, in bytes.
    pub available_memory_bytes: Option<u64>,
    /// Swap space, used or not, in bytes.
    pub swap_bytes: Option<u64>,
    /// Other programs that compute on a card; empty where it was looked and none was found.
    pub gpu_processes: Option<Vec<GpuProcess>>,
    /// The recipe that is recommended for this machine.
    pub recipe: Option<RecipeNeeds>,
    /// How the last good run was made.
    pub last_good: Option<LastGood>,
    /// Windows: the build's number, e.g. 22631.
    pub windows_build: Option<u32>,
    /// Windows: the Visual C++ 2015-2022 runtime is installed.
    pub windows_vc_runtime: Option<bool>,
    /// The commands by which a plan installs torch, by target; they take the place of the rules' own.
    pub torch_install: Vec<TorchInstall>,
}

/// Space on a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskSpace {
    /// The folder.
    pub folder: PathBuf,
    /// Bytes free for this user; `None` where the system does not tell.
    pub free_bytes: Option<u64>,
}

/// A program that holds memory of a card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// Its number.
    pub pid: u32,
    /// Name of its program.
    pub name: String,
    /// The most memory that it holds on one card, in bytes.
    pub vram_bytes: Option<u64>,
    /// The command that makes it let the card go, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// The command that brings it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

/// What a recipe needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecipeNeeds {
    /// Its name.
    pub name: String,
    /// Memory of the card (or of the machine, for the processor), in bytes.
    pub memory_bytes: Option<u64>,
    /// Bytes to download.
    pub download_bytes: Option<u64>,
}

/// Kernel and firmware of the last run that went well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastGood {
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Version of the linux-firmware package.
    pub linux_firmware: Option<String>,
    /// Version of NVIDIA's driver.
    pub nvidia_driver: Option<String>,
}

/// How a plan installs torch for a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TorchInstall {
    /// e.g. `gfx1100`.
    pub gfx: String,
    /// The whole command.
    pub command: String,
}

impl RecipeNeeds {
    /// The recipe that a plan recommends, where it recommends one.
    pub fn of_plan(plan: &Plan) -> Option<Self> {
        plan.recipe.recipe.as_ref().map(|offer| Self {
            name: offer.id.clone(),
            memory_bytes: Some(offer.needs_bytes),
            download_bytes: Some(offer.download_bytes),
        })
    }
}

/// Longest list of processes: more says no more.
const MAX_PROCESSES: usize = 50;

impl Surroundings {
    /// What the files below `root` (`/` for this machine) and the two folders tell; the rest is the caller's.
    ///
    /// Programs are those that KFD lists, which sees AMD's compute programs of every user and no games.
    pub fn read(root: &Path, cache: &Path, data: &Path) -> Surroundings {
        let disk = |folder: &Path| DiskSpace {
            folder: folder.to_owned(),
            free_bytes: crate::free_bytes(folder),
        };
        let live = root == Path::new(tunesmith_probe::LIVE);
        Surroundings {
            // A capture's disks are not these.
            cache_disk: live.then(|| disk(cache)),
            data_disk: live.then(|| disk(data)),
            available_memory_bytes: tunesmith_probe::load(root).available_memory_bytes,
            swap_bytes: swap_bytes(root),
            gpu_processes: kfd_processes(root),
            ..Surroundings::default()
        }
    }

    /// As [`Surroundings::read`], with the recipe that the native engine's plan recommends for `system`, which was
    /// detected below the same `root`, and who holds its cards. A machine that no plan fits still has a diagnosis.
    pub fn of(root: &Path, system: &System, knowledge: &Knowledge, folders: &Folders) -> Surroundings {
        let plan = plan(system, knowledge, &PlanRequest::new(Engine::Native)).ok();
        let around = Surroundings {
            recipe: plan.as_ref().and_then(RecipeNeeds::of_plan),
            ..Surroundings::read(root, folders.cache(), folders.data())
        };
        around.with_holders(root, system)
    }

    /// With those who hold memory of a card, by what its driver tells of each process, and the commands that stop and
    /// start them (M20).
    fn with_holders(mut self, root: &Path, system: &System) -> Surroundings {
        let target = |gpu: &Gpu| {
            Some(Target {
                pci: gpu.pci.clone()?,
                vendor: gpu.vendor?,
            })
        };
        let targets: Vec<Target> = system.gpus.iter().filter_map(target).collect();
        if targets.is_empty() {
            return self;
        }
        let sample = Sampler::open(root, &targets).sample(0.0);
        let ours = contention::family(root, &[std::process::id()]);
        // The rows come with the program: a test reads them.
        let known = holders(None).unwrap_or_default();
        for holder in card_holders(root, &sample, &ours) {
            let words = known.words(&holder);
            let process = GpuProcess {
                pid: words.pid,
                name: clean(&words.name),
                vram_bytes: Some(words.vram_bytes),
                stop: words.stop,
                start: words.start,
            };
            let list = self.gpu_processes.get_or_insert_default();
            match list.iter_mut().find(|other| other.pid == process.pid) {
                Some(same) => *same = process,
                None => list.push(process),
            }
        }
        self
    }
}

fn swap_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("SwapTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn kfd_processes(root: &Path) -> Option<Vec<GpuProcess>> {
    let folders = fs::read_dir(root.join("sys/class/kfd/kfd/proc")).ok()?;
    let own = std::process::id();
    let mut found: Vec<GpuProcess> = folders
        .flatten()
        .filter_map(|folder| {
            let pid = folder.file_name().to_str()?.parse().ok()?;
            let name = fs::read_to_string(root.join(format!("proc/{pid}/comm"))).unwrap_or_default();
            let vram_bytes = fs::read_dir(folder.path())
                .ok()?
                .flatten()
                .filter(|file| file.file_name().to_string_lossy().starts_with("vram_"))
                .filter_map(|file| fs::read_to_string(file.path()).ok()?.trim().parse().ok())
                .max();
            Some(GpuProcess {
                pid,
                name: clean(&name),
                vram_bytes,
                ..GpuProcess::default()
            })
        })
        .filter(|process| process.pid != own)
        .collect();
    found.sort_by_key(|process| (std::cmp::Reverse(process.vram_bytes), process.pid));
    found.truncate(MAX_PROCESSES);
    Some(found)
}

#[cfg(test)]
mod tests {
    use tunesmith_probe::testing::{AmdCard, TestMachine};

    use super::*;

    #[test]
    fn a_machine_is_read_and_memory_is_per_card() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("proc/meminfo", "MemAvailable: 2048 kB\nSwapTotal:  1024 kB\n"),
            ("proc/77/comm", "llama\u{1b}[31m-server\n"),
            ("sys/class/kfd/kfd/proc/77/vram_100", "5000\n"),
            ("sys/class/kfd/kfd/proc/77/vram_200", "7000\n"),
            ("sys/class/kfd/kfd/proc/self/vram_200", "7000\n"),
        ];
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let around = Surroundings::read(root.path(), root.path(), root.path());
        assert_eq!(around.available_memory_bytes, Some(2048 * 1024));
        assert_eq!(around.swap_bytes, Some(1024 * 1024));
        let processes = around.gpu_processes.unwrap();
        assert_eq!(processes.len(), 1);
        assert_eq!((processes[0].pid, processes[0].vram_bytes), (77, Some(7000)));
        assert!(!processes[0].name.contains('\u{1b}'));
        assert_eq!(around.cache_disk, None);
    }

    #[cfg(unix)]
    #[test]
    fn who_holds_a_card_is_named_with_the_commands_that_stop_and_start_it() {
        let machine = TestMachine::linux()
            .memory_gib(32)
            .usable_devices()
            .amd(AmdCard::rx_7900_xtx("0000:03:00.0"))
            .file("proc/77/comm", "ollama\n")
            .file("proc/77/cgroup", "0::/system.slice/ollama.service\n")
            .file(
                "proc/77/fdinfo/9",
                "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t4\n\
                 drm-memory-vram:\t6291456 KiB\ndrm-engine-compute:\t5 ns\n",
            );
        let files = machine.root().join("proc/77/fd");
        fs::create_dir_all(&files).unwrap();
        std::os::unix::fs::symlink("/dev/dri/renderD128", files.join("9")).unwrap();
        let system = machine.detect();
        let around = Surroundings::default().with_holders(machine.root(), &system);
        let held = around.gpu_processes.unwrap();
        assert_eq!(held.len(), 1, "{held:?}");
        assert_eq!((held[0].pid, held[0].vram_bytes), (77, Some(6 << 30)));
        assert_eq!(held[0].name, "Ollama");
        assert_eq!(held[0].stop.as_deref(), Some("sudo systemctl stop ollama"));
        assert_eq!(held[0].start.as_deref(), Some("sudo systemctl start ollama"));
    }

    #[test]
    fn nothing_there_is_unknown_and_not_zero() {
        let root = tempfile::tempdir().unwrap();
        let around = Surroundings::read(root.path(), root.path(), root.path());
        assert_eq!(around, Surroundings::default());
    }
}
