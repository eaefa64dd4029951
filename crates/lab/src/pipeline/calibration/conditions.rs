//! Under what a calibration was taken, and what has changed since: a measurement holds as long as nothing that decides a
//! device's speed is another.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tunesmith_probe::{CardTable, LIVE, System, detect, machine};
use tunesmith_setup::{ALLOCATOR_VARIABLES, without_memory_fraction};

use crate::{
    files::{canonical_json, sha256_hex},
    pipeline::{Settings, surroundings},
};

/// Everything that decides how fast a device computes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// Name of the processor.
    pub processor: Option<String>,
    /// Its instruction sets, by name.
    pub instructions: Vec<String>,
    /// Cores that may be used, where the processor was measured.
    pub cores: Option<usize>,
    /// Threads that were asked for.
    pub threads: Option<usize>,
    /// The cards, where one was measured.
    pub cards: Vec<String>,
    /// Their drivers, where one was measured: name and version.
    pub drivers: Vec<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Version of torch.
    pub torch: Option<String>,
    /// Variables that change what torch or a driver does.
    pub flags: BTreeMap<String, String>,
    /// How torch's allocator for a card was told to work, where one was measured and it was told. It decides what the card
    /// holds beside the tensors, which is measured (X10). How much it may take is no part of it: that changes what fits, and
    /// differs from run to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<String>,
    /// Version of this program.
    pub tunesmith: String,
}

impl Conditions {
    /// Those of this moment.
    pub(super) fn now(settings: &Settings, device: &str) -> Self {
        let root = Path::new(LIVE);
        let on_card = device != "cpu";
        let system = if on_card {
            detect(root, &CardTable::built_in())
        } else {
            System {
                machine: machine(root),
                ..System::default()
            }
        };
        let mut flags = surroundings::environment();
        let variables = settings.engine.variables();
        for (name, value) in variables.filter(|(name, _)| surroundings::is_telling(name)) {
            match value {
                Some(value) => flags.insert(name.to_owned(), value.to_owned()),
                None => flags.remove(name),
            };
        }
        // Of these the first that is set counts alone, and part of it is a limit.
        flags.retain(|name, _| !ALLOCATOR_VARIABLES.contains(&name.as_str()));
        let allocator = without_memory_fraction(&settings.engine.allocator_setting());
        Self {
            device: device.to_owned(),
            threads: settings.threads_for(device),
            torch: settings.engine.torch_version().map(str::to_owned),
            flags,
            allocator: Some(allocator).filter(|setting| on_card && !setting.is_empty()),
            tunesmith: env!("CARGO_PKG_VERSION").to_owned(),
            ..Self::of(&system, on_card)
        }
    }

    /// What a machine says of them.
    fn of(system: &System, on_card: bool) -> Self {
        let machine = &system.machine;
        let features = serde_json::to_value(machine.cpu_features).unwrap_or_default();
        let instructions = match &features {
            Value::Object(features) => features
                .iter()
                .filter(|(_, has)| **has == Value::Bool(true))
                .map(|(name, _)| name.clone())
                .collect(),
            _ => Vec::new(),
        };
        let cards = system.gpus.iter().filter(|gpu| on_card && gpu.vendor.is_some());
        let name = |gpu: &tunesmith_probe::Gpu| {
            let name = gpu.name.as_deref().unwrap_or("a card");
            match &gpu.pci {
                Some(pci) => format!("{name} at {pci}"),
                None => name.to_owned(),
            }
        };
        // A driver without a version of its own is a part of the kernel.
        let mut drivers: Vec<String> = cards
            .clone()
            .filter_map(|gpu| {
                let driver = gpu.driver.as_deref()?;
                let version = gpu.driver_version.as_ref().or(machine.kernel.as_ref());
                Some(version.map_or_else(|| driver.to_owned(), |version| format!("{driver} {version}")))
            })
            .chain(
                system
                    .stacks
                    .windows_drivers
                    .iter()
                    .filter(|_| on_card)
                    .map(|(vendor, version)| format!("{vendor} {version}")),
            )
            .collect();
        drivers.sort();
        drivers.dedup();
        Self {
            processor: machine.cpu_model.clone(),
            instructions,
            cores: machine.usable_cores().filter(|_| !on_card),
            cards: cards.map(name).collect(),
            drivers,
            kernel: machine.kernel.clone(),
            ..Self::default()
        }
    }

    /// The name of a measurement's file: all of it, by its hash.
    pub(super) fn hash(&self) -> String {
        let hash = sha256_hex(canonical_json(&json!(self)).as_bytes());
        hash[..16].to_owned()
    }

    /// What has changed since these, a clause each; nothing where a measurement still holds.
    pub(super) fn changes(&self, now: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let mut one = |what: &str, then: &dyn Fn(&Self) -> String| {
            let (then, now) = (then(self), then(now));
            if then != now {
                changes.push(format!("the {what} is {now} now, it was {then}"));
            }
        };
        let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let counted =
            |value: Option<usize>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
        let listed = |values: &[String]| {
            if values.is_empty() {
                "none".to_owned()
            } else {
                values.join(", ")
            }
        };
        one("device", &|of| of.device.clone());
        one("card", &|of| listed(&of.cards));
        one("processor", &|of| told(&of.processor));
        one("list of the processor's instruction sets", &|of| {
            listed(&of.instructions)
        });
        one("number of usable cores", &|of| counted(of.cores));
        one("number of threads", &|of| match of.threads {
            Some(threads) => threads.to_string(),
            None => "torch's own choice".to_owned(),
        });
        one("driver", &|of| listed(&of.drivers));
        // A driver that is a part of the kernel says it already.
        if self.drivers == now.drivers {
            one("kernel", &|of| told(&of.kernel));
        }
        one("torch", &|of| told(&of.torch));
        one("version of Tunesmith", &|of| of.tunesmith.clone());
        if self.allocator != now.allocator {
            let setting = |of: &Self| {
                of.allocator
                    .clone()
                    .unwrap_or_else(|| "torch's own choice".to_owned())
            };
            changes.push(format!(
                "the allocator's setting is {} now, it was {}, and what a card holds beside the tensors changes with it",
                setting(now),
                setting(self)
            ));
        }
        let names: std::collections::BTreeSet<&String> = self.flags.keys().chain(now.flags.keys()).collect();
        for name in names {
            match (self.flags.get(name), now.flags.get(name)) {
                (Some(then), Some(now)) if then != now => {
                    changes.push(format!("{name} is {now} now, it was {then}"));
                }
                (Some(then), None) => changes.push(format!("{name} is not set now, it was {then}")),
                (None, Some(now)) => changes.push(format!("{name} is {now} now, it was not set")),
                _ => {}
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_probe::testing::machines;

    fn of_the_xtx() -> Conditions {
        let mut conditions = Conditions::of(&machines::rx_7900_xtx().detect(), true);
        conditions.device = "cuda:0".to_owned();
        conditions.torch = Some("2.11.0+rocm7.2".to_owned());
        conditions
    }

    #[test]
    fn nothing_that_changed_is_nothing_to_say() {
        let then = of_the_xtx();
        assert!(!then.cards.is_empty() && !then.drivers.is_empty(), "{then:?}");
        assert_eq!(then.changes(&then.clone()), Vec::<String>::new());
        assert_eq!(then.hash(), of_the_xtx().hash());
    }

    #[test]
    fn a_new_driver_is_named_with_the_old_one_and_the_kernel_is_not_named_twice() {
        let mut then = of_the_xtx();
        let mut now = then.clone();
        (then.kernel, now.kernel) = (Some("6.10".to_owned()), Some("6.12".to_owned()));
        then.drivers = vec!["amdgpu 6.10".to_owned()];
        now.drivers = vec!["amdgpu 6.12".to_owned()];
        assert_eq!(
            then.changes(&now),
            ["the driver is amdgpu 6.12 now, it was amdgpu 6.10"]
        );
        assert_ne!(then.hash(), now.hash());
    }

    #[test]
    fn torch_and_every_flag_are_told() {
        let then = Conditions {
            flags: BTreeMap::from([
                ("HSA_OVERRIDE_GFX_VERSION".to_owned(), "11.0.0".to_owned()),
                ("TORCH_BLAS_PREFER_HIPBLASLT".to_owned(), "0".to_owned()),
            ]),
            ..of_the_xtx()
        };
        let now = Conditions {
            torch: Some("2.11.1+rocm7.2".to_owned()),
            flags: BTreeMap::from([
                ("TORCH_BLAS_PREFER_HIPBLASLT".to_owned(), "1".to_owned()),
                ("MIOPEN_LOG_LEVEL".to_owned(), "3".to_owned()),
            ]),
            ..of_the_xtx()
        };
        assert_eq!(
            then.changes(&now),
            [
                "the torch is 2.11.1+rocm7.2 now, it was 2.11.0+rocm7.2",
                "HSA_OVERRIDE_GFX_VERSION is not set now, it was 11.0.0",
                "MIOPEN_LOG_LEVEL is 3 now, it was not set",
                "TORCH_BLAS_PREFER_HIPBLASLT is 1 now, it was 0",
            ]
        );
    }

    #[test]
    fn another_setting_of_the_allocator_is_told_with_what_it_changes() {
        let then = of_the_xtx();
        let now = Conditions {
            allocator: Some("expandable_segments:True".to_owned()),
            ..of_the_xtx()
        };
        assert_eq!(
            then.changes(&now),
            [
                "the allocator's setting is expandable_segments:True now, it was torch's own choice, and what a card holds beside the tensors changes with it"
            ]
        );
        assert_ne!(then.hash(), now.hash());
    }

    #[test]
    fn a_card_that_is_put_in_leaves_the_processors_measurement_alone() {
        let without = Conditions::of(&machines::no_gpu().detect(), false);
        let mut system = machines::no_gpu().detect();
        system.gpus = machines::rx_7900_xtx().detect().gpus;
        assert_eq!(
            without.changes(&Conditions::of(&system, false)),
            Vec::<String>::new()
        );
    }
}
