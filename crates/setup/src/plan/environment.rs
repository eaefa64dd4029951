//! The settings of the environment: what is set, unset or left alone, what this machine sets already, and the harm
//! that does.

use tunesmith_probe::Setting;

use super::{FlagRow, FoundHarm, FoundSetting, Mask, Planner};
use crate::environments::Engine;
use crate::knowledge::{
    AOTRITON, Action, AttentionIs, Build, Circumstances, Flag, HarmLevel, OVERRIDE, Vendor,
};

impl Planner<'_> {
    pub(super) fn environment(
        &self,
        torch: &str,
        build: Option<&Build>,
        mask: Option<&Mask>,
    ) -> Vec<FlagRow> {
        let target = self.device.target;
        let base = Circumstances {
            vendor: target.vendor,
            system: self.os,
            target: &target.id,
            attention: AttentionIs::from(target.aotriton(torch)),
            build: build.map(|build| build.id.as_str()),
            torch,
            engine: self.request.engine,
            hides_cards: mask.is_some(),
            found: None,
        };
        let mut rows = Vec::new();
        for flag in &self.knowledge.flags {
            // The two that every guide speaks of are answered whatever the card is.
            if !flag.vendors.contains(&target.vendor) && ![OVERRIDE, AOTRITON].contains(&flag.name.as_str()) {
                continue;
            }
            let settings: Vec<&Setting> = self
                .system
                .settings
                .iter()
                .filter(|of| flag.is_about(&of.name))
                .collect();
            let in_effect = settings.iter().find(|of| of.in_effect).or(settings.first());
            let found = in_effect.map(|of| of.value.as_str());
            let Some(rule) = flag.rule(&Circumstances { found, ..base }) else {
                continue;
            };
            let found = settings.iter().map(|of| found_setting(flag, of, base)).collect();
            let value = rule.value.as_ref().map(|value| match mask {
                Some(mask) => value.replace("{mask}", &mask.value),
                None => value.clone(),
            });
            rows.push(FlagRow {
                name: flag.name.clone(),
                aliases: flag.aliases.clone(),
                meaning: flag.meaning.to_string(),
                action: rule.action,
                value,
                condition: rule.condition.to_string(),
                reason: rule.reason.to_string(),
                evidence: rule.evidence.to_string(),
                guides: flag.guides.as_ref().map(ToString::to_string),
                found,
                always: flag.always,
                as_of: flag.as_of,
                source: flag.source.to_string(),
            });
        }
        rows
    }

    pub(super) fn warnings(
        &self,
        environment: &[FlagRow],
        mask: Option<&Mask>,
        build: Option<&Build>,
        engine: Engine,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        for row in environment {
            for found in &row.found {
                if let Some(harm) = found
                    .harm
                    .as_ref()
                    .filter(|harm| harm.level != HarmLevel::Useless)
                {
                    let at = place(found);
                    warnings.push(format!(
                        "{}={} is set in {at}: {}",
                        found.name, found.value, harm.text
                    ));
                }
            }
        }
        if let Some(mask) = mask.filter(|mask| !mask.stable) {
            warnings.push(format!(
                "{}={} names the card {}: check it again after a card was added or removed",
                mask.variable, mask.value, mask.how
            ));
        }
        if let Some(build) = build {
            for row in &self.knowledge.targets.broken {
                let sets = |name: &String| {
                    environment
                        .iter()
                        .any(|flag| flag.name == *name && flag.action == Action::Set)
                };
                if row.concerns(&build.torch, &self.device.target.id) && row.with.as_ref().is_some_and(sets) {
                    warnings.push(format!("{}: {}", build.torch, row.fault));
                }
            }
        }
        warnings.extend(self.machine_warnings(engine));
        warnings
    }

    /// What to know of the machine that is no setting.
    fn machine_warnings(&self, engine: Engine) -> Vec<String> {
        let mut warnings = Vec::new();
        let Some(card) = &self.device.card else {
            return warnings;
        };
        let target = card.target;
        let sizes_exported = card.gpu.cwsr_sizes_exported == Some(true);
        if let (Some(needed), Some(reason), Some(kernel)) = (
            &target.min_kernel,
            &target.min_kernel_reason,
            &self.system.machine.kernel,
        ) && !sizes_exported
            && older(kernel, needed)
        {
            warnings.push(format!("kernel {kernel} is older than {needed}: {reason}"));
        }
        if self.os == crate::knowledge::Os::Windows && engine == Engine::Native {
            warnings.push(
                "the native engine has not yet run on Windows; the engine `hf` is the safer one".to_owned(),
            );
        }
        if target.vendor == Vendor::Nvidia && self.system.stacks.cuda_driver.is_none() {
            warnings.push(
                "which CUDA the driver can run could not be read, so the build that asks least of it comes first".to_owned(),
            );
        }
        if card.gpu.trainable.is_none() {
            warnings.push("the card's memory could not be read, so no recipe is recommended".to_owned());
        }
        if let Some(other) = self
            .device
            .others
            .iter()
            .find(|other| other.why.starts_with("it is another vendor's"))
        {
            warnings.push(format!("{} is there too: {}", other.name, other.why));
        }
        warnings
    }
}

fn found_setting(flag: &Flag, setting: &Setting, base: Circumstances<'_>) -> FoundSetting {
    let now = Circumstances {
        found: Some(&setting.value),
        ..base
    };
    let harm = flag.harm.iter().find(|harm| harm.when.holds(&now));
    FoundSetting {
        name: setting.name.clone(),
        value: setting.value.clone(),
        origin: setting.origin.clone(),
        line: setting.line,
        in_effect: setting.in_effect,
        harm: harm.filter(|_| now.vendor != Vendor::Cpu).map(|harm| FoundHarm {
            level: harm.level,
            text: harm.text.to_string(),
        }),
    }
}

/// `/etc/environment, line 3`.
pub(super) fn place(found: &FoundSetting) -> String {
    match found.line {
        Some(line) => format!("{}, line {line}", found.origin),
        None => found.origin.clone(),
    }
}

/// Whether a kernel's release, e.g. `6.14.0-1018-oem`, is older than a version. One that cannot be read is not.
fn older(kernel: &str, than: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        text.split('-')
            .next()
            .unwrap_or_default()
            .split('.')
            .map_while(|part| part.parse().ok())
            .collect()
    };
    let (kernel, than) = (numbers(kernel), numbers(than));
    !kernel.is_empty() && kernel < than
}

#[cfg(test)]
mod tests {
    use super::older;

    #[test]
    fn kernels_compare_as_numbers() {
        assert!(older("6.9.12-arch1", "6.18.4") && older("6.18.3", "6.18.4"));
        assert!(!older("6.18.4-1-default", "6.18.4") && !older("7.0.9", "6.18.4"));
        assert!(!older("custom", "6.18.4"), "what cannot be read is not older");
    }
}
