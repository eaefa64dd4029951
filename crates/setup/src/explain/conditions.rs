//! Whether the conditions of a cure hold on this machine, and which of its values a cure's text names.
//!
//! What is not known does not hold: advice for a certain machine is given only where that machine is seen.

use tunesmith_probe::{DeviceAccess, Gpu, GpuVendor, Platform, Setting, System};

use super::faults::{Advice, KfdState, When};

const OVERRIDE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// A machine, or none.
pub(super) struct Here<'a> {
    system: Option<&'a System>,
}

impl<'a> Here<'a> {
    pub(super) fn new(system: Option<&'a System>) -> Self {
        Self { system }
    }

    /// What of the machine makes all conditions hold; `None` where one does not hold, or is not known.
    pub(super) fn holds(&self, when: &When) -> Option<Vec<String>> {
        let machine = Machine(self.system?);
        machine.holds(when)
    }

    /// The commands of a piece of advice for this system, or for all systems where it is not known.
    pub(super) fn commands<'b>(&self, advice: &'b Advice) -> Vec<(Option<Platform>, &'b str)> {
        let platform = self.system.map_or(Platform::Unknown, |system| system.platform);
        let on = |platform, command: &'b Option<String>| {
            command.as_deref().map(|command| (Some(platform), command))
        };
        let everywhere = advice.command.as_deref().map(|command| (None, command));
        let own: Vec<(Option<Platform>, &str)> = match platform {
            Platform::Linux => on(platform, &advice.linux).into_iter().collect(),
            Platform::Wsl => {
                let own = on(platform, &advice.wsl).or_else(|| on(platform, &advice.linux));
                own.into_iter().collect()
            }
            Platform::Windows => on(platform, &advice.windows).into_iter().collect(),
            Platform::Macos => Vec::new(),
            Platform::Unknown => [
                on(Platform::Linux, &advice.linux),
                on(Platform::Wsl, &advice.wsl),
                on(Platform::Windows, &advice.windows),
            ]
            .into_iter()
            .flatten()
            .collect(),
        };
        if own.is_empty() {
            everywhere.into_iter().collect()
        } else {
            own
        }
    }

    /// The text of advice given under `when`, with the machine's values in place of `{names}`; `None` where one of
    /// them is not known.
    pub(super) fn fill(&self, text: &str, when: &When) -> Option<String> {
        const NAMES: [&str; 7] = [
            "gfx",
            "override",
            "override_origin",
            "setting",
            "setting_origin",
            "kernel",
            "group_flags",
        ];
        let mut filled = text.to_owned();
        for name in NAMES {
            let place = format!("{{{name}}}");
            if filled.contains(&place) {
                let value = self.system.and_then(|system| Machine(system).value(name, when))?;
                filled = filled.replace(&place, &clean(&value));
            }
        }
        Some(filled)
    }
}

/// Values of a machine come from its files: what could act on a terminal or in a shell is taken out.
fn clean(value: &str) -> String {
    let kept = value
        .chars()
        .filter(|c| !c.is_control() && !"`$;|&<>\"'\\".contains(*c));
    kept.take(120).collect()
}

struct Machine<'a>(&'a System);

impl<'a> Machine<'a> {
    /// The cards that would train, or all where that is not known.
    fn cards(&self) -> Vec<&'a Gpu> {
        match &self.0.train_on {
            Some(indexes) if !indexes.is_empty() => indexes
                .iter()
                .filter_map(|index| self.0.gpus.get(*index))
                .collect(),
            _ => self.0.gpus.iter().collect(),
        }
    }

    fn has_vendor(&self, vendor: GpuVendor) -> bool {
        self.0.gpus.iter().any(|gpu| gpu.vendor == Some(vendor))
    }

    /// The variable of that name, the one in effect first.
    fn setting(&self, name: &str) -> Option<&'a Setting> {
        let of_name = |setting: &&Setting| setting.name == name;
        let mut found: Vec<&Setting> = self.0.settings.iter().filter(of_name).collect();
        found.sort_by_key(|setting| !setting.in_effect);
        found.first().copied()
    }

    /// The override, with or without a node's number.
    fn override_setting(&self) -> Option<&'a Setting> {
        let is_override = |setting: &&Setting| {
            let rest = setting.name.strip_prefix(OVERRIDE);
            let named = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
            named && !setting.value.trim().is_empty()
        };
        let mut found: Vec<&Setting> = self.0.settings.iter().filter(is_override).collect();
        found.sort_by_key(|setting| !setting.in_effect);
        found.first().copied()
    }

    /// The AMD card whose true target is not the override's.
    fn overridden_card(&self) -> Option<&'a Gpu> {
        let wanted = target_of_override(&self.override_setting()?.value)?;
        let differs = |gpu: &&Gpu| {
            gpu.vendor == Some(GpuVendor::Amd) && gpu.gfx.as_ref().is_some_and(|gfx| *gfx != wanted)
        };
        self.cards().into_iter().find(differs)
    }

    fn kfd(&self) -> Option<(KfdState, &'a DeviceAccess)> {
        let kfd = self.0.access.kfd.as_ref()?;
        let nodes_closed = self
            .0
            .access
            .render_nodes
            .iter()
            .any(|node| node.exists && node.read_write == Some(false));
        let state = match (kfd.exists, kfd.read_write) {
            (false, _) => KfdState::Missing,
            (true, Some(false)) => KfdState::Closed,
            (true, Some(true)) if nodes_closed => KfdState::Closed,
            (true, Some(true)) => KfdState::Open,
            (true, None) => return None,
        };
        Some((state, kfd))
    }

    fn devices(&self) -> impl Iterator<Item = &'a DeviceAccess> {
        self.0.access.kfd.iter().chain(&self.0.access.render_nodes)
    }

    fn pages_limit_set(&self) -> Option<bool> {
        let words = self.0.kernel.command_line.as_ref()?;
        let at_boot = words.iter().any(|word| word.starts_with("ttm.pages_limit="));
        let in_file = self
            .0
            .kernel
            .modprobe_lines
            .iter()
            .any(|(_, line)| line.contains("pages_limit"));
        Some(at_boot || in_file)
    }

    fn holds(&self, when: &When) -> Option<Vec<String>> {
        let mut facts = Facts::default();
        facts.gfx(self, when)?;
        facts.cards(self, when)?;
        facts.platform(self, when)?;
        facts.settings(self, when)?;
        facts.kernel(self, when)?;
        facts.access(self, when)?;
        Some(facts.0)
    }

    fn value(&self, name: &str, when: &When) -> Option<String> {
        let setting = || when.setting.iter().find_map(|name| self.setting(name));
        match name {
            "gfx" => {
                let overridden = self.overridden_card().into_iter();
                let amd = |gpu: &&Gpu| gpu.vendor != Some(GpuVendor::Nvidia);
                overridden
                    .chain(self.cards().into_iter().filter(amd))
                    .find_map(|gpu| gpu.gfx.clone())
            }
            "override" => self.override_setting().map(|setting| setting.value.clone()),
            "override_origin" => self.override_setting().map(origin),
            "setting" => setting().map(|setting| setting.name.clone()),
            "setting_origin" => setting().map(origin),
            "kernel" => self.0.machine.kernel.clone(),
            "group_flags" => {
                let mut ids: Vec<u32> = self.devices().filter_map(|device| device.group_id).collect();
                ids.sort_unstable();
                ids.dedup();
                let flags: Vec<String> = ids.iter().map(|id| format!("--group-add {id}")).collect();
                (!flags.is_empty()).then(|| flags.join(" "))
            }
            _ => None,
        }
    }
}

/// What was found while conditions were held against a machine. Each step is `None` where one of its conditions
/// does not hold.
#[derive(Default)]
struct Facts(Vec<String>);

impl Facts {
    /// Holds a yes-or-no condition against what is known.
    fn flag(&mut self, wanted: Option<bool>, known: Option<bool>, yes: &str, no: &str) -> Option<()> {
        let Some(wanted) = wanted else { return Some(()) };
        (known == Some(wanted)).then_some(())?;
        self.0.push(if wanted { yes } else { no }.to_owned());
        Some(())
    }

    fn gfx(&mut self, machine: &Machine<'_>, when: &When) -> Option<()> {
        if when.gfx.is_empty() {
            return Some(());
        }
        let cards = machine.cards();
        let gfx = cards
            .iter()
            .filter_map(|gpu| gpu.gfx.as_deref())
            .find(|gfx| when.gfx.iter().any(|pattern| fits(pattern, gfx)))?;
        self.0.push(format!("the card is {}", clean(gfx)));
        Some(())
    }

    fn cards(&mut self, machine: &Machine<'_>, when: &When) -> Option<()> {
        if let Some(vendor) = when.vendor {
            machine.has_vendor(vendor).then_some(())?;
            let name = match vendor {
                GpuVendor::Amd => "AMD",
                GpuVendor::Nvidia => "NVIDIA",
            };
            self.0.push(format!("there is a card of {name}"));
        }
        let both = machine.has_vendor(GpuVendor::Amd) && machine.has_vendor(GpuVendor::Nvidia);
        let one = if machine.0.gpus.is_empty() {
            None
        } else {
            Some(both)
        };
        self.flag(
            when.both_vendors,
            one,
            "there are cards of AMD and of NVIDIA",
            "all cards are of one maker",
        )?;
        let amd = || {
            machine
                .0
                .gpus
                .iter()
                .filter(|gpu| gpu.vendor == Some(GpuVendor::Amd))
        };
        let kind = |integrated| amd().any(|gpu| gpu.integrated == Some(integrated));
        let unknown = amd().any(|gpu| gpu.integrated.is_none());
        let beside = match (kind(true) && kind(false), unknown) {
            (true, _) => Some(true),
            (false, false) if amd().next().is_some() => Some(false),
            _ => None,
        };
        self.flag(
            when.integrated_beside_discrete,
            beside,
            "there is integrated graphics beside the card",
            "there is no integrated graphics beside the card",
        )?;
        let cards = machine.cards();
        let unified = cards.iter().any(|gpu| gpu.integrated == Some(true));
        let known = cards.iter().any(|gpu| gpu.integrated.is_some());
        self.flag(
            when.unified,
            known.then_some(unified),
            "the card shares its memory with the processor",
            "the card has memory of its own",
        )?;
        let bars: Vec<bool> = cards.iter().filter_map(|gpu| gpu.resizable_bar).collect();
        let all_on = bars.iter().all(|on| *on);
        self.flag(
            when.resizable_bar,
            (!bars.is_empty()).then_some(all_on),
            "Resizable BAR is in use",
            "Resizable BAR is not in use",
        )
    }

    fn platform(&mut self, machine: &Machine<'_>, when: &When) -> Option<()> {
        let system = machine.0;
        if !when.platform.is_empty() {
            when.platform.contains(&system.platform).then_some(())?;
            let name = match system.platform {
                Platform::Linux => "this is Linux",
                Platform::Wsl => "this is WSL",
                Platform::Windows => "this is Windows",
                Platform::Macos => "this is macOS",
                Platform::Unknown => return None,
            };
            self.0.push(name.to_owned());
        }
        let linux = matches!(system.platform, Platform::Linux | Platform::Wsl);
        let container = system.machine.container.is_some();
        self.flag(
            when.container,
            (linux || container).then_some(container),
            "this runs in a container",
            "this does not run in a container",
        )
    }

    fn settings(&mut self, machine: &Machine<'_>, when: &When) -> Option<()> {
        let set = machine.override_setting();
        let value = set.map(|setting| format!("{OVERRIDE} is {}", clean(&setting.value)));
        self.flag(
            when.override_set,
            Some(set.is_some()),
            &value.clone().unwrap_or_default(),
            &format!("{OVERRIDE} is not set"),
        )?;
        if let Some(wanted) = when.override_wrong {
            let card = machine.overridden_card();
            let readable = set.is_none_or(|setting| target_of_override(&setting.value).is_some());
            let known = card.is_some() || (readable && machine.cards().iter().any(|gpu| gpu.gfx.is_some()));
            (known && card.is_some() == wanted).then_some(())?;
            if let (Some(value), Some(gfx)) = (value, card.and_then(|gpu| gpu.gfx.as_deref())) {
                self.0.push(format!("{value}, and the card is {}", clean(gfx)));
            }
        }
        if !when.setting.is_empty() {
            let setting = when.setting.iter().find_map(|name| machine.setting(name))?;
            let (name, value) = (clean(&setting.name), clean(&setting.value));
            self.0.push(if value.is_empty() {
                format!("{name} is set and empty ({})", clean(&origin(setting)))
            } else {
                format!("{name} is {value} ({})", clean(&origin(setting)))
            });
        }
        Some(())
    }

    fn kernel(&mut self, machine: &Machine<'_>, when: &When) -> Option<()> {
        let system = machine.0;
        if let Some(below) = &when.kernel_below {
            let kernel = system.machine.kernel.as_deref()?;
            (numbers(kernel)? < numbers(below)?).then_some(())?;
            self.0.push(format!("the kernel is {}", clean(kernel)));
        }
        self.flag(
            when.amdgpu_dkms,
            system.kernel.amdgpu_dkms,
            "amdgpu is a DKMS module",
            "amdgpu is the kernel's own module",
        )?;
        self.flag(
            when.secure_boot,
            system.kernel.secure_boot,
            "Secure Boot is on",
            "Secure Boot is off",
        )?;
        let cards = machine.cards();
        let exported = cards.iter().find_map(|gpu| gpu.cwsr_sizes_exported);
        self.flag(
            when.cwsr_exported,
            exported,
            "the kernel exports the register sizes",
            "the kernel does not export the register sizes",
        )?;
        self.flag(
            when.pages_limit_set,
            machine.pages_limit_set(),
            "ttm.pages_limit is set",
            "ttm.pages_limit is not set",
        )?;
        if let Some(wanted) = when.mes_firmware {
            let versions = cards.iter().flat_map(|gpu| &gpu.firmware);
            let mes = versions.filter(|(name, _)| name.starts_with("mes"));
            let found = mes.filter_map(|(_, version)| hexadecimal(version));
            // The upper bits name the interface, the lower twelve the release.
            found
                .map(|version| version & 0xfff)
                .find(|version| *version == wanted)?;
            self.0.push(format!("the MES firmware is {wanted:#x}"));
        }
        Some(())
    }

    fn access(&mut self, machine: &Machine<'_>, when: &When) -> Option<()> {
        if let Some(wanted) = when.kfd {
            let (state, _) = machine.kfd()?;
            (state == wanted).then_some(())?;
            self.0.push(
                match state {
                    KfdState::Missing => "there is no /dev/kfd",
                    KfdState::Closed => "this account may not open /dev/kfd or a render node",
                    KfdState::Open => "this account may open /dev/kfd and the render nodes",
                }
                .to_owned(),
            );
        }
        let closed = |device: &DeviceAccess| device.exists && device.read_write == Some(false);
        let waits = machine
            .devices()
            .any(|device| closed(device) && device.user_in_group == Some(true));
        let known = machine.devices().any(|device| device.user_in_group.is_some());
        self.flag(
            when.needs_login,
            known.then_some(waits),
            "the account is in the group, and this session is not",
            "no login is waited for",
        )
    }
}

/// Where a setting comes from, in words.
fn origin(setting: &Setting) -> String {
    match setting.line {
        Some(line) => format!("{}, line {line}", setting.origin),
        None => setting.origin.clone(),
    }
}

/// Whether a target fits a pattern, in which `*` at the end stands for anything.
fn fits(pattern: &str, gfx: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => gfx.starts_with(start),
        None => gfx == pattern,
    }
}

/// The target that an override asks for: `11.0.0` is `gfx1100`, `9.0.10` is `gfx90a`.
fn target_of_override(value: &str) -> Option<String> {
    let mut parts = value.trim().split('.');
    let mut next = || parts.next()?.parse::<u32>().ok();
    let (major, minor, step) = (next()?, next()?, next()?);
    parts
        .next()
        .is_none()
        .then(|| format!("gfx{major}{minor:x}{step:x}"))
}

/// The first three numbers of a kernel's release.
fn numbers(release: &str) -> Option<(u32, u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    let patch = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    Some((major, minor, patch))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_is_read_as_the_target_it_asks_for() {
        assert_eq!(target_of_override("11.0.0").as_deref(), Some("gfx1100"));
        assert_eq!(target_of_override("10.3.0").as_deref(), Some("gfx1030"));
        assert_eq!(target_of_override("9.0.10").as_deref(), Some("gfx90a"));
        assert_eq!(target_of_override("11.5"), None);
        assert_eq!(target_of_override("gfx1100"), None);
    }

    #[test]
    fn kernels_are_compared_by_number_and_not_by_letter() {
        assert!(numbers("6.9.3-76060903-generic") < numbers("6.18.4"));
        assert!(numbers("6.18-rc6") < numbers("6.18.4"));
        assert!(numbers("7.0.9-arch1") > numbers("6.18.4"));
        assert_eq!(numbers("unknown"), None);
    }

    #[test]
    fn what_comes_from_a_machine_cannot_act_in_a_shell() {
        assert_eq!(
            clean("11.0.0\u{1b}[31m; rm -rf $HOME `x`"),
            "11.0.0[31m rm -rf HOME x"
        );
    }
}
