//! The processor, from `/proc/cpuinfo`.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::tree::{entries, line_at, text, value};

/// Instruction sets that decide how fast a processor trains. `None` where it cannot be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuFeatures {
    /// 256-bit vectors of x86.
    pub avx2: Option<bool>,
    /// 512-bit vectors of x86.
    pub avx512f: Option<bool>,
    /// bf16 products in 512-bit vectors of x86.
    pub avx512_bf16: Option<bool>,
    /// bf16 products in matrix tiles of x86.
    pub amx_bf16: Option<bool>,
    /// Conversion between f16 and f32 of x86; no arithmetic.
    pub f16c: Option<bool>,
    /// bf16 products of arm64.
    pub arm_bf16: Option<bool>,
}

impl CpuFeatures {
    /// Whether the processor multiplies bf16 itself. Without it bf16 is imitated and slower than f32.
    pub fn bf16_in_hardware(&self) -> Option<bool> {
        let ways = [self.avx512_bf16, self.amx_bf16, self.arm_bf16];
        if ways.contains(&Some(true)) {
            Some(true)
        } else {
            ways.iter().any(Option::is_some).then_some(false)
        }
    }
}

/// What `/proc/cpuinfo` and the topology in `/sys` say.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) model: Option<String>,
    pub(crate) cores_logical: Option<usize>,
    pub(crate) cores_physical: Option<usize>,
    pub(crate) features: CpuFeatures,
}

pub(crate) fn cpu(root: &Path) -> Cpu {
    let Some(info) = text(root, "proc/cpuinfo") else {
        return Cpu::default();
    };
    let cores_logical = Some(values(&info, "processor").count()).filter(|count| *count > 0);
    Cpu {
        model: model(&info),
        cores_logical,
        cores_physical: physical_cores(&info).or_else(|| physical_cores_by_topology(root)),
        features: features(&info),
    }
}

fn values<'a>(info: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    info.lines().filter_map(move |line| value(line, ':', key))
}

fn model(info: &str) -> Option<String> {
    let named = ["model name", "Model"]
        .iter()
        .find_map(|key| value(info, ':', key))
        .filter(|name| !name.is_empty());
    named.map(str::to_owned).or_else(|| {
        // arm64 prints numbers alone; which core they stand for is in tables of other programs.
        let implementer = value(info, ':', "CPU implementer")?;
        let part = value(info, ':', "CPU part")?;
        Some(format!("Arm implementer {implementer}, part {part}"))
    })
}

/// Pairs of package and core, as x86 prints them with each logical processor.
fn physical_cores(info: &str) -> Option<usize> {
    let packages: Vec<&str> = values(info, "physical id").collect();
    let cores: Vec<&str> = values(info, "core id").collect();
    let complete = !cores.is_empty() && cores.len() == packages.len();
    complete.then(|| packages.into_iter().zip(cores).collect::<BTreeSet<_>>().len())
}

fn physical_cores_by_topology(root: &Path) -> Option<usize> {
    let pairs: BTreeSet<(String, String)> = entries(&root.join("sys/devices/system/cpu"))
        .into_iter()
        .filter_map(|cpu| {
            let topology = cpu.join("topology");
            Some((
                line_at(&topology.join("physical_package_id"))?,
                line_at(&topology.join("core_id"))?,
            ))
        })
        .collect();
    Some(pairs.len()).filter(|count| *count > 0)
}

/// What every logical processor has: a thread may run on any of them.
fn features(info: &str) -> CpuFeatures {
    let in_all = |lines: &[BTreeSet<&str>], name| lines.iter().all(|flags| flags.contains(name));
    let sets = |key| {
        values(info, key)
            .map(|flags| flags.split_whitespace().collect())
            .collect::<Vec<BTreeSet<&str>>>()
    };
    let (x86, arm) = (sets("flags"), sets("Features"));
    let x86_has = |name| match (x86.is_empty(), arm.is_empty()) {
        (false, _) => Some(in_all(&x86, name)),
        (true, false) => Some(false),
        (true, true) => None,
    };
    CpuFeatures {
        avx2: x86_has("avx2"),
        avx512f: x86_has("avx512f"),
        avx512_bf16: x86_has("avx512_bf16"),
        amx_bf16: x86_has("amx_bf16"),
        f16c: x86_has("f16c"),
        arm_bf16: match (arm.is_empty(), x86.is_empty()) {
            (false, _) => Some(in_all(&arm, "bf16")),
            (true, false) => Some(false),
            (true, true) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    fn x86_processor(number: usize, package: usize, core: usize, flags: &str) -> String {
        format!(
            "processor\t: {number}\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen 9 7950X 16-Core Processor\n\
             physical id\t: {package}\ncore id\t\t: {core}\nflags\t\t: fpu {flags}\nbugs\t\t: none\n\n"
        )
    }

    fn probe(info: &str) -> Cpu {
        cpu(tree(&[("proc/cpuinfo", info)]).path())
    }

    #[test]
    fn x86_cores_and_features() {
        let flags = "avx2 f16c avx512f avx512_bf16";
        let info: String = [(0, 0, 0), (1, 0, 1), (2, 0, 0), (3, 0, 1)]
            .map(|(n, p, c)| x86_processor(n, p, c, flags))
            .concat();
        let cpu = probe(&info);
        assert_eq!(cpu.model.as_deref(), Some("AMD Ryzen 9 7950X 16-Core Processor"));
        assert_eq!((cpu.cores_logical, cpu.cores_physical), (Some(4), Some(2)));
        assert_eq!(
            (cpu.features.avx2, cpu.features.amx_bf16),
            (Some(true), Some(false))
        );
        assert_eq!(cpu.features.bf16_in_hardware(), Some(true));
    }

    #[test]
    fn cores_of_two_packages_are_told_apart() {
        let info = [x86_processor(0, 0, 0, ""), x86_processor(1, 1, 0, "")].concat();
        assert_eq!(probe(&info).cores_physical, Some(2));
    }

    #[test]
    fn a_feature_that_only_some_cores_have_does_not_count() {
        let info = [
            x86_processor(0, 0, 0, "avx2 avx512_bf16"),
            x86_processor(1, 0, 1, "avx2"),
        ]
        .concat();
        let features = probe(&info).features;
        assert_eq!((features.avx2, features.avx512_bf16), (Some(true), Some(false)));
        assert_eq!(features.bf16_in_hardware(), Some(false));
    }

    #[test]
    fn arm64_has_other_words() {
        let processor = |n| {
            format!(
                "processor\t: {n}\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd i8mm bf16\nCPU implementer\t: 0x41\n\
                 CPU architecture: 8\nCPU part\t: 0xd4f\n\n"
            )
        };
        let info = format!("{}{}", processor(0), processor(1));
        let topology = [
            ("proc/cpuinfo", info.as_str()),
            ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n"),
            ("sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
            ("sys/devices/system/cpu/cpu1/topology/physical_package_id", "0\n"),
            ("sys/devices/system/cpu/cpu1/topology/core_id", "1\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
        ];
        let cpu = cpu(tree(&topology).path());
        assert_eq!(cpu.model.as_deref(), Some("Arm implementer 0x41, part 0xd4f"));
        assert_eq!((cpu.cores_logical, cpu.cores_physical), (Some(2), Some(2)));
        assert_eq!(
            (cpu.features.avx2, cpu.features.arm_bf16),
            (Some(false), Some(true))
        );
        assert_eq!(cpu.features.bf16_in_hardware(), Some(true));
    }

    #[test]
    fn nothing_is_guessed() {
        let empty = tree(&[]);
        let cpu = cpu(empty.path());
        assert_eq!(
            (cpu.model, cpu.cores_logical, cpu.cores_physical),
            (None, None, None)
        );
        assert_eq!(cpu.features, CpuFeatures::default());
        assert_eq!(cpu.features.bf16_in_hardware(), None);
        assert_eq!(probe("processor : 0\n").features.bf16_in_hardware(), None);
    }
}
