//! Who uses the cards: the kernel's account of each process, without root for one's own processes.
//!
//! Two accounts exist. The driver prints one for each open device file, in `/proc/<pid>/fdinfo/<fd>` (kernel
//! documentation, "DRM client usage stats"); KFD prints the memory of computing processes alone, in
//! `/sys/class/kfd/kfd/proc/<pid>/vram_<gpu_id>`, whoever owns them. Newer kernels count the same memory in both, so of
//! the two the larger is taken, never the sum.
//!
//! To look through every open file of every process is dear. That is done once, and from then on a few processes at a
//! time; files that are known to be a card's are read at each sample.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::kept_file::KeptFile;
use super::{GpuProcess, GpuSample};
use crate::tree::{entries, line_at, number_at, text_at, value};

/// Processes and open files that are looked at for each sample after the first: all of a busy desktop within some ten
/// samples.
const LOOKS_PER_SAMPLE: usize = 400;

/// Open device files that are followed. A machine with more is no longer a desktop.
const MAX_FILES: usize = 1024;

pub(super) struct Processes {
    root: PathBuf,
    /// Open files of the cards, by process and number of the file.
    files: BTreeMap<(u32, u32), KeptFile>,
    names: HashMap<u32, Option<String>>,
    /// Processes that are still to be looked through.
    queue: VecDeque<u32>,
    /// Of the round through all processes that goes on, and of the last whole one.
    hidden_this_round: bool,
    hidden: bool,
    started: bool,
    /// What was read last, by PCI address and process.
    uses: BTreeMap<(String, u32), GpuProcess>,
    /// PCI address by KFD's id of a card.
    kfd_cards: HashMap<String, String>,
}

impl Processes {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            files: BTreeMap::new(),
            names: HashMap::new(),
            queue: VecDeque::new(),
            hidden_this_round: false,
            hidden: false,
            started: false,
            uses: BTreeMap::new(),
            kfd_cards: HashMap::new(),
        }
    }

    /// Whether there are processes that may not be read.
    pub(super) fn hidden(&self) -> bool {
        self.hidden || self.hidden_this_round
    }

    /// Looks for new files of the cards and reads the known ones.
    pub(super) fn refresh(&mut self) {
        self.look_through(if self.started {
            LOOKS_PER_SAMPLE
        } else {
            usize::MAX
        });
        self.started = true;
        self.uses.clear();
        self.read_files();
        self.read_kfd();
        let using: HashSet<u32> = self.uses.keys().map(|(_, pid)| *pid).collect();
        self.names.retain(|pid, _| using.contains(pid));
    }

    /// Enters into `gpu` what the processes use of it. Those that NVIDIA's library named get their names.
    pub(super) fn add_to(&mut self, gpu: &mut GpuSample) {
        for process in &mut gpu.processes {
            process.name = name_of(&mut self.names, &self.root, process.pid);
        }
        for ((pci, pid), usage) in &self.uses {
            if *pci == gpu.pci {
                let name = name_of(&mut self.names, &self.root, *pid);
                gpu.processes.push(GpuProcess {
                    name,
                    ..usage.clone()
                });
            }
        }
        gpu.processes.sort_by_key(|process| process.pid);
        let evicted = gpu.processes.iter().filter_map(|process| process.evicted_bytes);
        gpu.evicted_vram_bytes = evicted.fold(None, |sum, bytes| Some(sum.unwrap_or(0) + bytes));
    }

    fn look_through(&mut self, mut looks: usize) {
        if self.queue.is_empty() {
            if self.started {
                self.hidden = self.hidden_this_round;
            }
            self.hidden_this_round = false;
            self.queue = process_numbers(&self.root.join("proc")).into();
        }
        while looks > 0 {
            let Some(pid) = self.queue.pop_front() else { return };
            looks = looks.saturating_sub(1 + self.look_at(pid));
        }
    }

    /// Looks through the open files of a process; returns how many there were.
    fn look_at(&mut self, pid: u32) -> usize {
        let folder = self.root.join(format!("proc/{pid}"));
        let files = match fs::read_dir(folder.join("fd")) {
            Ok(files) => files,
            Err(error) => {
                self.hidden_this_round |= error.kind() == ErrorKind::PermissionDenied;
                return 0;
            }
        };
        let mut looked_at = 0;
        for file in files.flatten() {
            looked_at += 1;
            let Some(number) = file.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let is_card = || fs::read_link(file.path()).is_ok_and(|target| target.starts_with("/dev/dri"));
            if self.files.len() >= MAX_FILES || self.files.contains_key(&(pid, number)) || !is_card() {
                continue;
            }
            if let Some(info) = KeptFile::open(&folder.join(format!("fdinfo/{number}"))) {
                self.files.insert((pid, number), info);
            }
        }
        looked_at
    }

    fn read_files(&mut self) {
        // One client may be behind several files and processes; its memory is there once.
        let mut counted = HashSet::new();
        let mut uses: BTreeMap<(String, u32), GpuProcess> = BTreeMap::new();
        self.files.retain(|(pid, _), file| {
            // A process that has ended, and a number that now stands for another file, are forgotten.
            let Some(client) = file.text().ok().as_deref().and_then(Client::parse) else {
                return false;
            };
            if counted.insert((client.pci.clone(), client.id.clone())) {
                let process = uses.entry((client.pci.clone(), *pid)).or_default();
                process.pid = *pid;
                client.add_to(process);
            }
            true
        });
        self.uses = uses;
    }

    fn read_kfd(&mut self) {
        for folder in entries(&self.root.join("sys/class/kfd/kfd/proc")) {
            let Some(pid) = file_name(&folder).and_then(|name| name.parse().ok()) else {
                continue;
            };
            for file in entries(&folder) {
                let Some(card) = file_name(&file).and_then(|name| name.strip_prefix("vram_")) else {
                    continue;
                };
                if !self.kfd_cards.contains_key(card) {
                    self.kfd_cards = kfd_cards(&self.root);
                }
                if let (Some(pci), Some(bytes)) = (self.kfd_cards.get(card), number_at(&file)) {
                    let process = self.uses.entry((pci.clone(), pid)).or_default();
                    process.pid = pid;
                    process.vram_bytes = process.vram_bytes.max(Some(bytes));
                }
            }
        }
    }
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn process_numbers(proc: &Path) -> Vec<u32> {
    let names = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

fn name_of(names: &mut HashMap<u32, Option<String>>, root: &Path, pid: u32) -> Option<String> {
    names
        .entry(pid)
        .or_insert_with(|| line_at(&root.join(format!("proc/{pid}/comm"))))
        .clone()
}

/// PCI addresses by KFD's ids of the cards, from its list of nodes.
fn kfd_cards(root: &Path) -> HashMap<String, String> {
    let nodes = entries(&root.join("sys/class/kfd/kfd/topology/nodes"));
    nodes
        .iter()
        .filter_map(|node| {
            let id = line_at(&node.join("gpu_id")).filter(|id| id != "0")?;
            let properties = text_at(&node.join("properties"))?;
            let number = |key| value(&properties, ' ', key)?.parse::<u64>().ok();
            let (location, domain) = (number("location_id")?, number("domain").unwrap_or(0));
            let (bus, device, function) = (location >> 8 & 0xff, location >> 3 & 31, location & 7);
            Some((id, format!("{domain:04x}:{bus:02x}:{device:02x}.{function}")))
        })
        .collect()
}

/// What the driver says of one client: a connection of a program to a card.
#[derive(Debug, Default, PartialEq)]
struct Client {
    pci: String,
    id: String,
    vram_bytes: Option<u64>,
    gtt_bytes: Option<u64>,
    evicted_bytes: Option<u64>,
    engine_nanos: Vec<(String, u64)>,
}

impl Client {
    /// `None` for files that are no card's, and for those of drivers that print no account.
    fn parse(text: &str) -> Option<Self> {
        let mut client = Self::default();
        let mut memory = HashMap::new();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match key {
                "drm-pdev" => value.clone_into(&mut client.pci),
                "drm-client-id" => value.clone_into(&mut client.id),
                "amd-evicted-vram" => client.evicted_bytes = bytes(value),
                _ => {
                    if let Some(engine) = key.strip_prefix("drm-engine-")
                        && let Some(nanos) = value.strip_suffix("ns")
                        && let Ok(nanos) = nanos.trim().parse()
                    {
                        client.engine_nanos.push((engine.to_owned(), nanos));
                    } else if key.starts_with("drm-")
                        && let Some(bytes) = bytes(value)
                    {
                        memory.insert(key, bytes);
                    }
                }
            }
        }
        // `memory` is the older name of what is `resident` now, and amdgpu prints both.
        let of = |region: &str| {
            ["resident", "memory"]
                .iter()
                .find_map(|kind| memory.get(format!("drm-{kind}-{region}").as_str()))
                .copied()
        };
        client.vram_bytes = of("vram");
        client.gtt_bytes = of("gtt");
        (!client.pci.is_empty() && !client.id.is_empty()).then_some(client)
    }

    fn add_to(self, process: &mut GpuProcess) {
        let add = |sum: &mut Option<u64>, bytes: Option<u64>| {
            *sum = match (*sum, bytes) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            };
        };
        add(&mut process.vram_bytes, self.vram_bytes);
        add(&mut process.gtt_bytes, self.gtt_bytes);
        add(&mut process.evicted_bytes, self.evicted_bytes);
        for (engine, nanos) in self.engine_nanos {
            match process.engine_nanos.iter_mut().find(|(name, _)| *name == engine) {
                Some((_, sum)) => *sum = sum.saturating_add(nanos),
                None => process.engine_nanos.push((engine, nanos)),
            }
        }
    }
}

/// `1234 KiB`, `12 MiB` or `123`, which is bytes.
fn bytes(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit = match words.next() {
        None => 1,
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some(_) => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_of_a_newer_kernel() {
        let text = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1234\ndrm-driver:\tamdgpu\ndrm-client-id:\t48\n\
                    drm-pdev:\t0000:03:00.0\npasid:\t32771\ndrm-total-vram:\t9 GiB\ndrm-memory-vram:\t1 KiB\n\
                    drm-resident-vram:\t7168 MiB\ndrm-resident-gtt:\t2048 KiB\ndrm-purgeable-vram:\t0\n\
                    amd-evicted-vram:\t12 KiB\ndrm-engine-gfx:\t123456 ns\ndrm-engine-compute:\t99 ns\n";
        let expected = Client {
            pci: "0000:03:00.0".to_owned(),
            id: "48".to_owned(),
            vram_bytes: Some(7168 << 20),
            gtt_bytes: Some(2 << 20),
            evicted_bytes: Some(12 << 10),
            engine_nanos: vec![("gfx".to_owned(), 123_456), ("compute".to_owned(), 99)],
        };
        assert_eq!(Client::parse(text), Some(expected));
    }

    #[test]
    fn an_account_of_an_older_kernel_and_no_account() {
        let client =
            Client::parse("drm-pdev:\t0000:03:00.0\ndrm-client-id:\t1\ndrm-memory-vram:\t64 KiB\n").unwrap();
        assert_eq!(
            (client.vram_bytes, client.gtt_bytes, client.evicted_bytes),
            (Some(65_536), None, None)
        );
        for none in [
            "",
            "pos:\t0\nflags:\t02\n",
            "drm-pdev:\t0000:03:00.0\n",
            "drm-client-id:\t1\n",
        ] {
            assert_eq!(Client::parse(none), None, "{none:?}");
        }
        let odd = Client::parse("drm-pdev: a\ndrm-client-id: 1\ndrm-memory-vram: 18446744073709551615 KiB\n")
            .unwrap();
        assert_eq!(odd.vram_bytes, None);
    }
}
