//! The machine as the checks see it: the questions that several of them ask.

use tunesmith_probe::{Gpu, GpuVendor, Platform, Setting, System};

use super::version::{Version, local_tag, rocm_of_tag};
use super::{PythonEnvironment, Rules, Surroundings};
use crate::knowledge::{Target, Targets};

/// Everything that a check may look at.
pub(crate) struct Subject<'a> {
    pub(crate) system: &'a System,
    pub(crate) targets: &'a Targets,
    pub(crate) rules: &'a Rules,
    pub(crate) around: &'a Surroundings,
    pub(crate) environments: &'a [PythonEnvironment],
}

impl<'a> Subject<'a> {
    /// Linux itself, or a container on it; WSL is another matter.
    pub(crate) fn linux(&self) -> bool {
        self.system.platform == Platform::Linux
    }

    pub(crate) fn wsl(&self) -> bool {
        self.system.platform == Platform::Wsl
    }

    pub(crate) fn windows(&self) -> bool {
        self.system.platform == Platform::Windows
    }

    pub(crate) fn container(&self) -> Option<&'a str> {
        self.system.machine.container.as_deref()
    }

    pub(crate) fn nothing_was_read(&self) -> bool {
        let unread = System {
            schema: self.system.schema,
            notes: self.system.notes.clone(),
            ..System::default()
        };
        *self.system == unread
    }

    /// What is known of the card's target or compute capability.
    pub(crate) fn target(&self, gpu: &Gpu) -> Option<&'a Target> {
        match (&gpu.gfx, &gpu.compute_capability) {
            (Some(gfx), _) if is_amd(gpu) => self.targets.target(gfx),
            (_, Some(capability)) if is_nvidia(gpu) => self.targets.compute_capability(capability),
            _ => None,
        }
    }

    /// Whether there may be a way to train on this card: of one that nothing is known of there may.
    fn has_route(&self, gpu: &Gpu) -> bool {
        let too_old = capability(gpu).is_some_and(|cc| self.rules.version.capability_without_route.has(&cc));
        !too_old && self.target(gpu).is_none_or(|target| target.blocked.is_none())
    }

    /// Whether a person would want to train on this card, whatever state it is in: not the processor's graphics
    /// beside a real card, and not one that nothing runs on.
    pub(crate) fn wanted(&self, gpu: &Gpu) -> bool {
        let discrete = |gpu: &Gpu| gpu.integrated != Some(true);
        let beside_a_card = || {
            self.system
                .gpus
                .iter()
                .any(|other| discrete(other) && self.has_route(other))
        };
        gpu.vendor.is_some() && self.has_route(gpu) && (discrete(gpu) || !beside_a_card())
    }

    /// Whether the recommended recipe would run on this card.
    pub(crate) fn trains(&self, gpu: &Gpu) -> bool {
        let chosen = self.system.train_on.as_ref().filter(|chosen| !chosen.is_empty());
        match chosen {
            Some(chosen) => {
                let place = self.system.gpus.iter().position(|other| std::ptr::eq(other, gpu));
                place.is_some_and(|place| chosen.contains(&place)) && self.has_route(gpu)
            }
            None => self.wanted(gpu),
        }
    }

    pub(crate) fn training(&self) -> impl Iterator<Item = &'a Gpu> {
        self.system.gpus.iter().filter(|gpu| self.trains(gpu))
    }

    pub(crate) fn training_amd(&self) -> impl Iterator<Item = &'a Gpu> {
        self.training().filter(|gpu| is_amd(gpu))
    }

    pub(crate) fn amd(&self) -> impl Iterator<Item = &'a Gpu> {
        self.system.gpus.iter().filter(|gpu| is_amd(gpu))
    }

    /// An AMD card that someone would train on is here.
    pub(crate) fn wants_amd(&self) -> bool {
        self.amd().any(|gpu| self.wanted(gpu))
    }

    /// Another card than this one is ready for work as far as its driver goes.
    pub(crate) fn another_card_works(&self, gpu: &Gpu) -> bool {
        self.system.gpus.iter().any(|other| {
            !std::ptr::eq(other, gpu)
                && self.wanted(other)
                && matches!(other.driver.as_deref(), Some("amdgpu" | "nvidia"))
        })
    }

    /// A capture without any variable: nobody wrote the environment down, so nothing is known to be unset.
    pub(crate) fn environment_unread(&self) -> bool {
        !self.system.live && self.system.settings.is_empty()
    }

    /// The card that a recipe runs on, in words.
    pub(crate) fn trains_on(&self) -> String {
        let names: Vec<String> = self.training().map(card_name).collect();
        match names.as_slice() {
            [] => "the processor".to_owned(),
            [one] => one.clone(),
            [first, ..] => format!("{first} (of {} cards)", names.len()),
        }
    }

    /// Settings of this name that hold for this process.
    pub(crate) fn settings(&self, name: &str) -> impl Iterator<Item = &'a Setting> {
        let all = self.system.settings.iter();
        all.filter(move |setting| setting.in_effect && setting.name == name)
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&'a Setting> {
        self.settings(name).next()
    }

    pub(crate) fn kernel(&self) -> Option<Version> {
        Version::parse(self.system.machine.kernel.as_deref()?)
    }

    /// Words of the boot line of the form `name=value`, and settings of modprobe.d, as `(where, name=value)`; module
    /// parameters are written `module.parameter=value` in both.
    pub(crate) fn kernel_parameters(&self) -> Vec<(String, String)> {
        let kernel = &self.system.kernel;
        let words = kernel.command_line.iter().flatten();
        let mut found: Vec<(String, String)> = words
            .map(|word| ("the boot line".to_owned(), word.clone()))
            .collect();
        for (file, line) in &kernel.modprobe_lines {
            let mut words = line.split_whitespace();
            if words.next() != Some("options") {
                continue;
            }
            let Some(module) = words.next() else { continue };
            found.extend(words.map(|word| (file.clone(), format!("{module}.{word}"))));
        }
        found
    }

    /// What the parameter is set to, and where.
    pub(crate) fn kernel_parameter(&self, name: &str) -> Option<(String, String)> {
        self.kernel_parameters().into_iter().find_map(|(file, word)| {
            let (found, value) = word.split_once('=')?;
            (found == name).then(|| (file, value.to_owned()))
        })
    }

    /// The AMD cards that a program started now would see, in order. `None` where a mask is set and what it hides
    /// cannot be told.
    pub(crate) fn amd_visible(&self) -> Option<Vec<&'a Gpu>> {
        let mut visible: Vec<&Gpu> = self.amd().collect();
        // The runtime's mask comes first; the masks of HIP count what it left.
        for name in AMD_MASKS {
            if let Some(mask) = self.setting(name) {
                visible = masked(&visible, &mask.value)?;
            }
        }
        Some(visible)
    }

    /// The ROCm that runs here, if any is known: of the environments asked about, else of the system.
    pub(crate) fn rocm(&self) -> Option<Version> {
        let of_environment = |env: &PythonEnvironment| {
            let torch = env.torch.as_ref()?;
            rocm_of_tag(local_tag(&torch.version)?)
        };
        let system = self.system.stacks.rocm.as_deref();
        self.environments
            .iter()
            .find_map(of_environment)
            .or_else(|| Version::parse(system?))
    }
}

/// Why a check of variables cannot be made.
pub(crate) const ENVIRONMENT_UNREAD: &str = "the capture holds no variables";

/// The masks that hide AMD cards, in the order in which they apply.
pub(crate) const AMD_MASKS: [&str; 3] = [
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
];

/// What a mask leaves of `cards`, in its order. A word that names no card ends the list, as in CUDA and HIP.
fn masked<'a>(cards: &[&'a Gpu], mask: &str) -> Option<Vec<&'a Gpu>> {
    // Without the KFD nodes the order is a guess, unless there is one card alone.
    let order_is_known = cards.len() < 2 || cards.iter().all(|gpu| gpu.kfd_node.is_some());
    let mut left = Vec::new();
    for word in mask.split(',').map(str::trim) {
        let card = match word.parse::<i64>() {
            Ok(index) => {
                if !order_is_known && usize::try_from(index).is_ok_and(|index| index < cards.len()) {
                    return None;
                }
                usize::try_from(index)
                    .ok()
                    .and_then(|index| cards.get(index).copied())
            }
            Err(_) if word.is_empty() => None,
            Err(_) => {
                if cards.iter().any(|gpu| gpu.unique_id.is_none()) {
                    return None;
                }
                let id = Some(word);
                cards.iter().copied().find(|gpu| gpu.unique_id.as_deref() == id)
            }
        };
        match card {
            Some(card) => left.push(card),
            None => break,
        }
    }
    Some(left)
}

pub(crate) fn is_amd(gpu: &Gpu) -> bool {
    gpu.vendor == Some(GpuVendor::Amd)
}

pub(crate) fn is_nvidia(gpu: &Gpu) -> bool {
    gpu.vendor == Some(GpuVendor::Nvidia)
}

pub(crate) fn capability(gpu: &Gpu) -> Option<Version> {
    Version::parse(gpu.compute_capability.as_deref()?)
}

pub(crate) fn asleep(gpu: &Gpu) -> bool {
    matches!(gpu.runtime_status.as_deref(), Some("suspended" | "suspending"))
}

/// A card in words: its name or what it is, and its PCI address.
pub(crate) fn card_name(gpu: &Gpu) -> String {
    let maker = match gpu.vendor {
        Some(GpuVendor::Amd) => "AMD",
        Some(GpuVendor::Nvidia) => "NVIDIA",
        None => "unknown",
    };
    let name = match (&gpu.name, &gpu.gfx, &gpu.device_id) {
        (Some(name), ..) => name.clone(),
        (None, Some(gfx), _) => format!("{maker} card ({gfx})"),
        (None, None, Some(device)) => format!("{maker} card (device {device})"),
        (None, None, None) => format!("{maker} card"),
    };
    match &gpu.pci {
        Some(pci) => format!("{name} at {pci}"),
        None => name,
    }
}

/// `HSA_OVERRIDE_GFX_VERSION=11.0.0 (/etc/environment, line 3)`.
pub(crate) fn setting_text(setting: &Setting) -> String {
    let origin = match setting.line {
        Some(line) => format!("{}, line {line}", setting.origin),
        None => setting.origin.clone(),
    };
    format!("{}={} ({origin})", setting.name, setting.value)
}

/// Bytes in GiB with one decimal.
pub(crate) fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / GIB as f64)
}

pub(crate) const GIB: u64 = 1 << 30;

/// A word for a POSIX shell, in quotes where it needs them.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_safe_for_a_shell() {
        assert_eq!(quoted("/etc/environment"), "/etc/environment");
        assert_eq!(quoted("/home/a b/$(x)"), "'/home/a b/$(x)'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_mask_is_read_as_the_runtime_reads_it() {
        let card = |node, id: &str| Gpu {
            kfd_node: Some(node),
            unique_id: Some(format!("GPU-{id}")),
            ..Gpu::default()
        };
        let (a, b) = (card(1, "aa"), card(2, "bb"));
        let cards = [&a, &b];
        let nodes = |mask| -> Vec<u32> {
            let left = masked(&cards, mask).unwrap();
            left.iter().filter_map(|gpu| gpu.kfd_node).collect()
        };
        assert_eq!(nodes("1,0"), [2, 1]);
        assert_eq!(nodes("GPU-bb"), [2]);
        // A card that is not there ends the list.
        assert_eq!(nodes("0,7,1"), [1]);
        for nothing in ["", "-1", "GPU-cc", " "] {
            assert!(nodes(nothing).is_empty(), "{nothing}");
        }
        // Two cards whose order is not known: an index may be either.
        let (c, d) = (Gpu::default(), Gpu::default());
        assert!(masked(&[&c, &d], "0").is_none());
        assert!(masked(&[&c, &d], "GPU-aa").is_none());
        assert!(masked(&[&c, &d], "-1").is_some());
        assert_eq!(masked(&[&c], "0").unwrap().len(), 1);
    }
}
